//===- TransposeTest.cpp - Permutations of tensors of any rank ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One Transpose each: values of the SystemC model against plain loops, and the
// cycles of large ones against those of a copy of the same bytes.
//
// TILEWRIGHT_SEED=N TILEWRIGHT_FUZZ_CASES=1 runs the one case that a failure
// names.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "hw-configs/Machine.h"
#include "simulator/systemc/SystemCModel.h"
#include "tests/fuzz/Seed.h"
#include "tests/fuzz/Variants.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

using namespace tw;
using namespace tw::fuzz;

namespace {

using Shape = std::vector<int64_t>;

struct Case {
  Variant variant;
  unsigned elementBytes = 4;
  Shape shape, permutation;

  int64_t elements() const { return std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>()); }
  std::string text() const {
    std::string text = variant.machine;
    for (const std::string &change : variant.overrides)
      text += " " + change;
    for (const Shape *numbers : {&shape, &permutation})
      for (size_t i = 0; i < numbers->size(); ++i)
        text += (i ? "x" : ", ") + std::to_string((*numbers)[i]);
    return text;
  }
};

/// The bytes of a transposed tensor.
std::vector<uint8_t> transposed(const Case &c, const std::vector<uint8_t> &bytes) {
  const size_t rank = c.shape.size();
  Shape stride(rank, 1), index(rank, 0);
  for (size_t d = rank - 1; d-- > 0;)
    stride[d] = stride[d + 1] * c.shape[d + 1];
  std::vector<uint8_t> result;
  for (int64_t n = c.elements(); n > 0; --n) {
    int64_t at = 0;
    for (size_t d = 0; d < rank; ++d)
      at += index[d] * stride[size_t(c.permutation[d])];
    for (unsigned i = 0; i < c.elementBytes; ++i)
      result.push_back(bytes[size_t(at) * c.elementBytes + i]);
    for (size_t d = rank; d-- > 0;) {
      if (++index[d] < c.shape[size_t(c.permutation[d])])
        break;
      index[d] = 0;
    }
  }
  return result;
}

/// Cycles of a program that transposes a tensor; 0 if its values are wrong, too.
uint64_t cyclesOf(const Case &c, accel::Schedule schedule, bool checks = true) {
  SCOPED_TRACE(c.text() + ", " + accel::nameOf(schedule));
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(c.variant.machine, c.variant.overrides);
  EXPECT_TRUE(bool(machine)) << machine.message();
  if (!machine)
    return 0;
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  mlir::OpBuilder b(&context);
  mlir::Location loc = mlir::NameLoc::get(b.getStringAttr("transpose"));
  mlir::Type element = c.elementBytes == 4   ? mlir::Type(b.getF32Type())
                       : c.elementBytes == 2 ? mlir::Type(b.getBF16Type())
                                             : mlir::Type(b.getI8Type());
  Shape made;
  for (int64_t d : c.permutation)
    made.push_back(c.shape[size_t(d)]);
  const auto from = mlir::RankedTensorType::get(c.shape, element), to = mlir::RankedTensorType::get(made, element);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  auto function = b.create<mlir::func::FuncOp>(loc, "main", b.getFunctionType({from}, {to}));
  function.setArgAttr(0, graph::kNameAttr, b.getStringAttr("x"));
  function.setResultAttr(0, graph::kNameAttr, b.getStringAttr("y"));
  b.setInsertionPointToStart(function.addEntryBlock());
  mlir::Value y = b.create<graph::TransposeOp>(loc, to, function.getArgument(0), b.getDenseI64ArrayAttr(c.permutation));
  b.create<mlir::func::ReturnOp>(loc, y);

  pipeline::CompileOptions options;
  options.machine = &*machine;
  options.schedule = schedule;
  llvm::Error error = pipeline::optimizeGraph(*module, options);
  if (!error)
    error = pipeline::lowerToLinalg(*module, options);
  EXPECT_FALSE(bool(error)) << llvm::toString(std::move(error));
  llvm::Expected<pipeline::CompiledNetwork> compiled = pipeline::compileForAccelerator(*module, options);
  if (!compiled) {
    ADD_FAILURE() << llvm::toString(compiled.takeError());
    return 0;
  }
  std::mt19937_64 random(uint64_t(c.elements()));
  std::vector<std::vector<uint8_t>> inputs(1), outputs;
  for (int64_t i = 0; i < c.elements() * c.elementBytes; ++i)
    inputs[0].push_back(uint8_t(random()));
  systemc::SimOptions simOptions;
  simOptions.checks = checks;
  stats::SimResult result = systemc::SystemCModel().run(compiled->program, *machine, inputs, outputs, simOptions);
  if (result.fault) {
    ADD_FAILURE() << "fault: " << result.fault->str();
    return 0;
  }
  EXPECT_GE(result.totalCycles, compiled->lowerBoundCycles);
  EXPECT_EQ(outputs.size(), 1u);
  const bool isRight = outputs.size() == 1 && outputs[0] == transposed(c, inputs[0]);
  EXPECT_TRUE(isRight) << "wrong values";
  return isRight ? result.totalCycles : 0;
}

const Variant kMachines[][3] = {
    {{"gemmini_16x16_int8", {}}, {"tiny_8x8", {}}, {"vdla_16x16", {"dma.load_engines=1"}}},
    {{"gemmini_16x16_bf16", {}}, {"cloud_128x128", {}}, {"edge_32x32_bf16", {"scratchpads.activation.capacity_bytes=16384"}}},
    {{"gemmini_16x16_fp32", {}},
     {"gemmini_16x16_fp32", {"scratchpads.unified.capacity_bytes=8192"}},
     {"gemmini_16x16_fp32", {}}}};
constexpr accel::Schedule kSchedules[] = {accel::Schedule::Serial, accel::Schedule::DoubleBuffer, accel::Schedule::Pipelined};

} // namespace

TEST(TransposeTest, AnyPermutationShapeAndType) {
  const uint64_t first = firstSeed(), cases = numCases(60);
  for (uint64_t seed = first; seed < first + cases; ++seed) {
    std::mt19937_64 random(seed);
    auto below = [&](uint64_t n) { return int64_t(random() % n); };
    Case c;
    const int64_t type = below(3);
    c.elementBytes = 1u << type;
    c.variant = kMachines[type][below(3)];
    const size_t rank = size_t(2 + below(4));
    for (size_t d = 0; d < rank; ++d) {
      c.shape.push_back(1 + below(rank == 2 ? 150 : rank == 3 ? 40 : 12));
      c.permutation.push_back(int64_t(d));
    }
    std::shuffle(c.permutation.begin(), c.permutation.end(), random);
    SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed) + " TILEWRIGHT_FUZZ_CASES=1");
    EXPECT_GT(cyclesOf(c, kSchedules[below(3)]), 0u);
  }
}

TEST(TransposeTest, EveryPermutationOfFiveDimensions) {
  Case c;
  c.variant = {"gemmini_16x16_fp32", {"scratchpads.unified.capacity_bytes=8192"}}; // several blocks
  c.shape = {3, 4, 5, 7, 6};
  c.permutation = {0, 1, 2, 3, 4};
  do
    EXPECT_GT(cyclesOf(c, accel::Schedule::DoubleBuffer), 0u);
  while (std::next_permutation(c.permutation.begin(), c.permutation.end()));
}

// The limit is the project's: a transpose takes at most 1.2 times a copy of the same bytes.
TEST(TransposeTest, LargeOnesAgainstACopyOfTheSameBytes) {
  for (unsigned elementBytes : {4u, 2u, 1u}) {
    const int64_t side = elementBytes == 4 ? 256 : 512;
    Case c, copy;
    c.variant = copy.variant = kMachines[elementBytes / 2][0];
    c.elementBytes = copy.elementBytes = elementBytes;
    c.shape = {side, side};
    c.permutation = {1, 0};
    copy.shape = {2, 2, side * side / 4};
    copy.permutation = {1, 0, 2};
    // The product takes the faster of both.
    auto least = [](const Case &of) {
      return std::min(cyclesOf(of, accel::Schedule::DoubleBuffer, false), cyclesOf(of, accel::Schedule::Pipelined, false));
    };
    const uint64_t cycles = least(c), plain = least(copy);
    printf("%u bytes: %llu cycles, %.2f of a copy\n", elementBytes, (unsigned long long)cycles, double(cycles) / double(plain));
    EXPECT_LE(double(cycles), 1.2 * double(plain));
  }
  Case image;
  image.variant = kMachines[2][0];
  image.shape = {1, 112, 112, 112};
  image.permutation = {0, 3, 1, 2};
  Case copy = image;
  copy.shape = {2, 2, image.elements() / 4};
  copy.permutation = {1, 0, 2};
  const uint64_t cycles = cyclesOf(image, accel::Schedule::Pipelined, false),
                 plain = cyclesOf(copy, accel::Schedule::Pipelined, false);
  printf("1x112x112x112: %llu cycles, %.2f of a copy\n", (unsigned long long)cycles, double(cycles) / double(plain));
  EXPECT_LE(double(cycles), 1.2 * double(plain));
}

// A transpose moves bits: no type's value changes on the way, not even one that arithmetic would not leave alone. Random bytes are all of these.
TEST(TransposeTest, UnitsOnAllMachines) {
  struct Row {
    const char *machine;
    unsigned elementBytes;
    Shape shape, permutation;
  };
  // Dimensions that are no whole units, shorter than a unit, or outside both innermost ones.
  const Row rows[] = {{"gemmini_16x16_int8", 1, {131, 77}, {1, 0}},
                      {"gemmini_16x16_bf16", 2, {70, 3, 90}, {2, 1, 0}},
                      {"gemmini_16x16_fp32", 4, {3, 67, 35}, {0, 2, 1}},
                      {"edge_32x32_int8", 1, {5, 200, 130}, {2, 0, 1}},
                      {"cloud_128x128", 4, {130, 5, 66}, {2, 1, 0}},
                      {"onnxim_128x128", 1, {257, 255}, {1, 0}},
                      {"tiny_8x8", 1, {64, 96}, {1, 0}},
                      {"gemmini_16x16_int8", 1, {60, 50, 4}, {1, 0, 2}}};
  for (const Row &row : rows)
    for (accel::Schedule schedule : {accel::Schedule::DoubleBuffer, accel::Schedule::Pipelined}) {
      Case c;
      c.variant = {row.machine, {}};
      c.elementBytes = row.elementBytes;
      c.shape = row.shape;
      c.permutation = row.permutation;
      EXPECT_GT(cyclesOf(c, schedule), 0u);
    }
}
