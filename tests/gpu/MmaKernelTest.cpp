//===- MmaKernelTest.cpp - Every tile of sm_80, on the emulator -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products and convolutions of -1, 0 and 1, whose sums every type holds exactly,
// compared with plain loops: every tile, of every type, of sizes that no tile
// divides, with threads in several orders; whole tiles, and split ones.
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/MmaKernel.h"
#include "compiler/codegen/gpu/Kernel.h"
#include "tests/gpu/Lint.h"
#include "tests/gpu/Ptxas.h"
#include "tests/gpu/emulator/Emulator.h"
#include "tests/gpu/emulator/Numbers.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace tw;
using gpu::Element, gpu::Splitting;

namespace {

/// Places in a tensor: what a row, a batch and an element of k are apart. Elements.
struct Problem {
  const char *name;
  Element in, out;
  int batches = 1, rows = 0, columns = 0, depth = 0;
  bool columnsInner = false;
  // Of a convolution: depth is of the channels of a pixel.
  int images = 0, height = 0, width = 0, filter = 1, stride = 1, pad = 0, dilation = 1;

  bool isImage() const { return images != 0; }
  int outHeight() const { return (height + 2 * pad - dilation * (filter - 1) - 1) / stride + 1; }
  int outWidth() const { return (width + 2 * pad - dilation * (filter - 1) - 1) / stride + 1; }
  int allRows() const { return isImage() ? images * outHeight() * outWidth() : rows; }
};

const Problem kProblems[] = {
    // A multiple of 16 bytes that no stage divides; of columns, of four, of two and of one at a time.
    {"bf16", Element::Bf16, Element::Bf16, 1, 150, 268, 200},
    {"bf16_to_f32_of_odd_columns", Element::Bf16, Element::F32, 1, 70, 67, 136},
    {"f16_by_columns", Element::F16, Element::F16, 1, 70, 328, 152, true},
    {"f16_of_pairs", Element::F16, Element::F16, 1, 131, 70, 88},
    {"s8", Element::I8, Element::I8, 1, 150, 140, 208},
    {"s8_to_s32_of_odd_columns", Element::I8, Element::I32, 1, 65, 33, 400},
    {"tf32", Element::F32, Element::F32, 1, 90, 132, 84},
    {"batched_bf16_by_columns", Element::Bf16, Element::Bf16, 6, 70, 72, 40, true},
    {"batched_s8", Element::I8, Element::I32, 4, 20, 80, 48},
    {"one_row_bf16", Element::Bf16, Element::F32, 1, 1, 8, 1600},
    // Windows that reach out of the image on all sides.
    {"conv_bf16", Element::Bf16, Element::Bf16, 1, 0, 72, 72, false, 2, 9, 11, 3, 1, 1},
    {"strided_conv_f16", Element::F16, Element::F16, 1, 0, 40, 24, false, 3, 8, 9, 3, 2, 1},
    {"dilated_conv_s8", Element::I8, Element::I8, 1, 0, 68, 48, false, 1, 12, 9, 3, 1, 2, 2},
    {"conv_tf32", Element::F32, Element::F32, 1, 0, 65, 36, false, 1, 7, 10, 2, 1, 1},
};
void PrintTo(const Problem &problem, std::ostream *stream) { *stream << problem.name; }

int valueAt(size_t index, unsigned seed) { return int((index * 2654435761u + seed) >> 8 & 0xffff) % 3 - 1; }

void append(std::vector<uint8_t> &bytes, Element element, double value) {
  const float number = float(value);
  uint32_t bits;
  std::memcpy(&bits, &number, 4);
  if (element == Element::I8)
    bits = uint32_t(std::lround(value));
  else if (element == Element::I32)
    bits = uint32_t(std::lround(value));
  else if (element == Element::Bf16)
    bits = ptxemu::floatToBfloat(number);
  else if (element == Element::F16)
    bits = ptxemu::floatToHalf(number);
  for (unsigned i = 0; i < gpu::bytesOf(element); ++i)
    bytes.push_back(uint8_t(bits >> 8 * i));
}

/// What the epilogue adds.
int addend(int row, int column) { return column % 5 - 2 + row % 3; }

struct Data {
  std::vector<uint8_t> a, b, addends, expected;
};

Data dataOf(const Problem &p) {
  Data data;
  const int taps = p.filter * p.filter, unit = int(gpu::kStageRowBytes / gpu::bytesOf(p.in));
  // Of a convolution, every tap has whole stages in B.
  const int tapDepth = p.isImage() ? int(llvm::alignTo(unsigned(p.depth), unsigned(unit))) : p.depth;
  const size_t sizeA =
      p.isImage() ? size_t(p.images * p.height * p.width) * size_t(p.depth) : size_t(p.batches * p.rows) * size_t(p.depth);
  std::vector<int> a(sizeA), b(size_t(p.batches * p.columns * taps * p.depth));
  for (size_t i = 0; i < a.size(); ++i)
    append(data.a, p.in, a[i] = valueAt(i, 1));
  for (size_t i = 0; i < b.size(); ++i)
    b[i] = valueAt(i, 77);
  auto atB = [&](int batch, int column, int k) {
    return b[(size_t(batch) * size_t(p.columns) + size_t(column)) * size_t(taps * p.depth) + size_t(k)];
  };
  for (int batch = 0; batch < p.batches; ++batch)
    if (p.columnsInner)
      for (int k = 0; k < p.depth; ++k)
        for (int column = 0; column < p.columns; ++column)
          append(data.b, p.in, atB(batch, column, k));
    else
      for (int column = 0; column < p.columns; ++column)
        for (int k = 0; k < taps * tapDepth; ++k)
          append(data.b, p.in, k % tapDepth < p.depth ? atB(batch, column, k / tapDepth * p.depth + k % tapDepth) : 0);
  for (int column = 0; column < p.columns; ++column)
    append(data.addends, p.in == Element::I8 ? Element::I32 : Element::F32, column % 5 - 2);
  for (int batch = 0; batch < p.batches; ++batch)
    for (int row = 0; row < p.allRows(); ++row)
      for (int column = 0; column < p.columns; ++column) {
        int sum = 0;
        for (int k = 0; k < taps * p.depth; ++k) {
          int factor = 0;
          if (p.isImage()) {
            const int tap = k / p.depth, image = row / (p.outHeight() * p.outWidth());
            const int y = row / p.outWidth() % p.outHeight() * p.stride - p.pad + tap / p.filter * p.dilation;
            const int x = row % p.outWidth() * p.stride - p.pad + tap % p.filter * p.dilation;
            if (y >= 0 && y < p.height && x >= 0 && x < p.width)
              factor = a[size_t(((image * p.height + y) * p.width + x) * p.depth + k % p.depth)];
          } else {
            factor = a[size_t((batch * p.rows + row) * p.depth + k)];
          }
          sum += factor * atB(batch, column, k);
        }
        sum += addend(batch * p.allRows() + row, column);
        append(data.expected, p.out, p.out == Element::I8 ? std::clamp(sum, -128, 127) : sum);
      }
  return data;
}

gpu::MmaKernel kernelOf(const Problem &p, const gpu::MmaShape &shape) {
  gpu::MmaKernel kernel;
  kernel.name = "kernel";
  kernel.shape = shape;
  kernel.in = p.in;
  kernel.out = p.out;
  kernel.source = p.isImage() ? gpu::RowSource::Pixels : gpu::RowSource::Matrix;
  kernel.isBatched = p.batches > 1;
  kernel.columnsInner = p.columnsInner;
  kernel.lanes = p.columns % 4 == 0 ? 4 : p.columns % 2 == 0 ? 2 : 1;
  kernel.pointers = 1;
  kernel.epilogue = [p](llvm::IRBuilder<> &b, const gpu::EpilogueInput &input) {
    llvm::SmallVector<llvm::Value *> results;
    const bool isInteger = p.in == Element::I8;
    llvm::Type *type = isInteger ? b.getInt32Ty() : b.getFloatTy();
    for (auto [lane, sum] : llvm::enumerate(input.sums)) {
      llvm::Value *column = b.CreateAdd(input.column, b.getInt32(uint32_t(lane)));
      llvm::Value *byColumn = b.CreateLoad(type, b.CreateGEP(type, input.pointers[0], b.CreateZExt(column, b.getInt64Ty())));
      llvm::Value *byRow = b.CreateURem(input.row, b.getInt32(3));
      llvm::Value *result = isInteger ? b.CreateAdd(b.CreateAdd(sum, byColumn), byRow)
                                      : b.CreateFAdd(b.CreateFAdd(sum, byColumn), b.CreateUIToFP(byRow, type));
      results.push_back(p.out == Element::I8 ? b.CreateSIToFP(result, b.getFloatTy()) : result);
    }
    return results;
  };
  return kernel;
}

std::string ptxOf(const std::function<void(llvm::Module &)> &emit) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = gpu::createModule(context);
  emit(*module);
  llvm::Expected<std::string> ptx = gpu::toPtx(*module, gpu::Architecture::Sm80);
  if (!ptx) {
    ADD_FAILURE() << llvm::toString(ptx.takeError());
    return "";
  }
  for (const ptxlint::Finding &finding : ptxlint::lint(*ptx))
    ADD_FAILURE() << "line " << finding.line << ": " << finding.message;
  return *ptx;
}

std::vector<std::pair<gpu::MmaTile, Splitting>> tilesAndSplittings() {
  std::vector<std::pair<gpu::MmaTile, Splitting>> all;
  for (const gpu::MmaTile &tile : gpu::mmaTiles())
    for (Splitting splitting : {Splitting::None, Splitting::Last, Splitting::All})
      all.push_back({tile, splitting});
  return all;
}

class MmaKernelTest : public testing::TestWithParam<Problem> {};

} // namespace

TEST_P(MmaKernelTest, EveryTileComputesWhatLoopsCompute) {
  const Problem &p = GetParam();
  const Data data = dataOf(p);
  const uint32_t size = gpu::bytesOf(p.in), depth = gpu::kStageRowBytes / size;
  const int taps = p.filter * p.filter;
  const uint32_t blocks = uint32_t(llvm::divideCeil(uint64_t(p.depth), uint64_t(depth))), stages = uint32_t(taps) * blocks;
  const uint32_t depthB = p.isImage() ? stages * depth : uint32_t(p.depth), rows = uint32_t(p.allRows()),
                 columns = uint32_t(p.columns);
  unsigned number = 0;
  for (const auto &[tile, splitting] : tilesAndSplittings()) {
    const gpu::MmaShape &shape = tile.shape;
    const uint32_t tiles =
        uint32_t(p.batches) * uint32_t(llvm::divideCeil(rows, shape.rows)) * uint32_t(llvm::divideCeil(columns, shape.columns));
    // About two and a half pieces for each split tile, so that pieces lie in one tile and in two.
    const uint32_t split = splitting == Splitting::None ? 0 : splitting == Splitting::All ? tiles : tiles / 2;
    const uint32_t pieces = std::min(split * 5 / 2, split * stages);
    if (splitting != Splitting::None && !split)
      continue;
    SCOPED_TRACE(shape.name() + ", " + std::to_string(split) + " of " + std::to_string(tiles) + " tiles split");
    gpu::MmaKernel kernel = kernelOf(p, shape), product = kernel;
    product.splitting = splitting;
    if (splitting == Splitting::All)
      product.pointers = 0;
    auto module = ptxemu::Module::parse(ptxOf([&](llvm::Module &m) { emitMmaKernel(m, product); }));
    // Batches in two dims, the inner one of two.
    const uint32_t inner = p.batches > 1 ? 2 : 1, strideA = rows * uint32_t(p.depth) * size / 16,
                   strideB = columns * depthB * size / 16;
    auto units = [&](uint32_t elements) { return elements * size / 16; };
    const uint32_t numbers[] = {uint32_t(p.batches),
                                rows,
                                columns,
                                stages,
                                units(uint32_t(p.depth)),
                                p.columnsInner ? depthB : units(depthB),
                                units(uint32_t(p.depth)),
                                units(p.columnsInner ? columns : depthB),
                                columns,
                                inner,
                                strideA,
                                strideA * inner,
                                strideB,
                                strideB * inner,
                                rows * columns,
                                rows * columns * inner,
                                uint32_t(p.height),
                                uint32_t(p.width),
                                uint32_t(p.isImage() ? p.outHeight() : 1),
                                uint32_t(p.isImage() ? p.outWidth() : 1),
                                uint32_t(p.stride),
                                uint32_t(p.stride),
                                uint32_t(p.pad),
                                uint32_t(p.pad),
                                uint32_t(p.dilation),
                                uint32_t(p.dilation),
                                uint32_t(p.filter),
                                blocks,
                                split,
                                pieces};
    static_assert(std::size(numbers) == gpu::MmaKernel::FirstPointer - gpu::MmaKernel::Batches);
    const uint32_t sumNumbers[] = {uint32_t(p.batches),   rows, columns, stages, split, pieces, columns, inner, rows * columns,
                                   rows * columns * inner};
    static_assert(std::size(sumNumbers) == gpu::SplitSum::FirstPointer - gpu::SplitSum::Batches);
    for (bool isRandom : {true, false}) {
      if (!isRandom && (number > 2 || splitting != Splitting::None))
        continue;
      ptxemu::LaunchOptions options;
      if (isRandom) {
        options.timing = ptxemu::Timing::Random;
        options.order = ptxemu::ThreadOrder::Random;
        options.residentClusters = 2;
        options.seed = ++number;
      }
      ptxemu::Device device;
      const ptxemu::DevicePointer a = device.upload(data.a, "A"), b = device.upload(data.b, "B"),
                                  addends = device.upload(data.addends, "addends"),
                                  out = device.allocate(data.expected.size(), "out"),
                                  slots = device.allocate(
                                      std::max(uint64_t(split + pieces) * shape.rows * shape.columns * 4, uint64_t(1)),
                                      "slots");
      auto launch = [&](const ptxemu::Module &code, llvm::ArrayRef<ptxemu::DevicePointer> pointers,
                        llvm::ArrayRef<uint32_t> numbers, bool readsAddends, uint32_t grid, uint32_t block,
                        uint32_t sharedBytes) {
        ptxemu::Arguments arguments;
        for (ptxemu::DevicePointer pointer : pointers)
          arguments.add(pointer);
        for (uint32_t each : numbers)
          arguments.add(each);
        if (readsAddends)
          arguments.add(addends);
        ptxemu::LaunchShape launched;
        launched.grid.x = grid;
        launched.block.x = block;
        launched.dynamicSharedBytes = sharedBytes;
        device.launch(code, "kernel", launched, arguments, options);
      };
      try {
        launch(*module, {a, b, out, slots}, numbers, product.pointers != 0, tiles - split + pieces, shape.threads(),
               product.sharedBytes());
        if (split) {
          const gpu::SplitSum sum{kernel, shape.rows, shape.columns, kernel.lanes};
          auto code = ptxemu::Module::parse(ptxOf([&](llvm::Module &m) { emitSplitSum(m, sum); }));
          launch(*code, {slots, out}, sumNumbers, true, sum.blocks(split), gpu::SplitSum::kThreads, 0);
        }
        EXPECT_TRUE(device.download<uint8_t>(out, data.expected.size()) == data.expected) << "other values";
      } catch (const std::exception &error) {
        FAIL() << error.what();
      }
    }
  }
}

TEST(MmaKernelPtxasTest, EveryTileAssemblesWithoutSpills) {
  if (!test::hasPtxas())
    GTEST_SKIP() << "there is no ptxas";
  for (const char *name : {"bf16", "f16_by_columns", "s8", "conv_bf16"})
    for (const auto &[tile, splitting] : tilesAndSplittings()) {
      const auto *problem = std::find_if(std::begin(kProblems), std::end(kProblems),
                                         [&](const Problem &p) { return std::string(p.name) == name; });
      SCOPED_TRACE(std::string(name) + " " + tile.shape.name());
      gpu::MmaKernel kernel = kernelOf(*problem, tile.shape);
      kernel.splitting = splitting;
      test::expectAssembles(ptxOf([&](llvm::Module &m) { emitMmaKernel(m, kernel); }), "sm_80");
    }
}

INSTANTIATE_TEST_SUITE_P(Problems, MmaKernelTest, testing::ValuesIn(kProblems),
                         [](const auto &info) { return std::string(info.param.name); });
