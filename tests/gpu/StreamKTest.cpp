//===- StreamKTest.cpp - Tiles whose k several blocks share ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// When tiles are split, and that split tiles compute what whole ones compute.
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/TileCost.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/Lint.h"
#include "tests/gpu/NetworkText.h"
#include "tests/gpu/Ptxas.h"
#include "tests/gpu/Tolerances.h"
#include "tests/gpu/emulator/Numbers.h"

#include "llvm/ADT/StringRef.h"

#include <gtest/gtest.h>
#include <random>

using namespace tw;

//===----------------------------------------------------------------------===//
// When
//===----------------------------------------------------------------------===//

namespace {

constexpr gpu::TileSize kTile{128, 256, 1.0};

/// Of bf16, with every operand moved once.
gpu::ProductSize square(uint64_t rows, uint64_t columns, uint64_t depth) {
  return {1, rows, columns, depth / 64, 2, 2.0 * double(rows * depth + columns * depth + rows * columns)};
}

gpu::TileCost costOnH100(const gpu::ProductSize &size) { return {gpu::kH100, gpu::kH100.multiprocessors, size, kTile}; }

} // namespace

TEST(TileCostTest, ThePartOfAWaveThatIsLeftOverIsSplitAmongAllMultiprocessors) {
  const gpu::TileCost cost = costOnH100(square(8192, 8192, 8192)); // 2048 tiles: 15 waves of 132, and 68 tiles
  const std::optional<gpu::TileSplit> split = cost.bestSplit();
  ASSERT_TRUE(split);
  EXPECT_EQ(split->tiles, 68u);
  EXPECT_EQ(split->blocks, 132u);
  // 16 waves become 15 and about a half: that is what stream-K can gain here, less a launch and the sums.
  EXPECT_LT(cost.split(*split), cost.whole());
  EXPECT_GT(cost.split(*split), cost.whole() * 15.5 / 16);
}

TEST(TileCostTest, WholeWavesAreNotSplit) {
  EXPECT_FALSE(costOnH100(square(128 * 11, 256 * 12, 4096)).bestSplit());    // 132 tiles
  EXPECT_FALSE(costOnH100(square(128 * 11, 256 * 24, 4096)).bestSplit());    // 264
  EXPECT_TRUE(costOnH100(square(128 * 11, 256 * 12 + 1, 4096)).bestSplit()); // 11 more
}

TEST(TileCostTest, AFewTilesOfALongDepthAreWorthSplittingAndOfAShortOneNot) {
  auto gains = [](uint64_t depth) {
    const gpu::TileCost cost = costOnH100(square(128, 512, depth)); // two tiles
    const std::optional<gpu::TileSplit> split = cost.bestSplit();
    return split && cost.split(*split) < cost.whole();
  };
  EXPECT_TRUE(gains(16384));
  EXPECT_FALSE(gains(64)); // one stage: there is nothing to share
  EXPECT_FALSE(gains(256));
}

TEST(TileCostTest, SplitsAreThoseThatKernelsCanCount) {
  std::mt19937 random(7);
  auto upTo = [&](uint32_t most) { return uint64_t(random() % most + 1); };
  for (unsigned i = 0; i < 2000; ++i) {
    const gpu::ProductSize size{upTo(8), upTo(5000), upTo(5000), upTo(2000), 2, 0};
    const unsigned multiprocessors = unsigned(upTo(200));
    const gpu::TileCost cost(gpu::kH100, multiprocessors, size, kTile);
    const std::optional<gpu::TileSplit> split = cost.bestSplit();
    if (!split)
      continue;
    SCOPED_TRACE(split->name() + " of " + std::to_string(cost.tiles()) + " on " + std::to_string(multiprocessors));
    EXPECT_LE(split->tiles, cost.tiles());
    EXPECT_EQ((cost.tiles() - split->tiles) % multiprocessors, 0u);
    EXPECT_LT(split->tiles, split->blocks);
    EXPECT_LE(split->blocks, multiprocessors);
    EXPECT_LE(split->blocks, split->tiles * size.stages);
    EXPECT_LT(split->tiles * size.stages * split->blocks, uint64_t(1) << 32);
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {

struct Case {
  const char *name, *text;
  double tolerance; ///< between results of variants, whose sums are in another order
  /// Of the GPU that the splits are for: some tiles are whole on it, others are split.
  unsigned multiprocessors;
  gpu::Architecture architecture = gpu::Architecture::Sm90a;
};

const Case kCases[] = {
    {"product", R"(func.func @main(%x: tensor<200x328xbf16>, %r: tensor<200x264xbf16>) -> tensor<200x264xbf16> {
  %a = graph.cast %x : (tensor<200x328xbf16>) -> tensor<200x328xf32>
  %q = graph.cast %r : (tensor<200x264xbf16>) -> tensor<200x264xf32>
  %w = graph.constant dense<0.0> : tensor<328x264xf32>
  %y = graph.matmul %a, %w : (tensor<200x328xf32>, tensor<328x264xf32>) -> tensor<200x264xf32>
  %b = graph.constant dense<0.0> : tensor<264xf32>
  %t = graph.add %y, %b : (tensor<200x264xf32>, tensor<264xf32>) -> tensor<200x264xf32>
  %s = graph.add %t, %q : (tensor<200x264xf32>, tensor<200x264xf32>) -> tensor<200x264xf32>
  %o = graph.cast %s : (tensor<200x264xf32>) -> tensor<200x264xbf16>
  return %o : tensor<200x264xbf16>
})",
     test::kBfloat.kernel, 3},
    {"bytes", R"(func.func @main(%x: tensor<200x352xi8>) -> tensor<200x144xi8> {
  %w = graph.constant dense<0> : tensor<352x144xi8>
  %y = graph.matmul_integer %x, %w {a_zero_point = 3 : i32, b_zero_points = array<i32: 0>} : (tensor<200x352xi8>, tensor<352x144xi8>) -> tensor<200x144xi32>
  %o = graph.requantize %y {multipliers = array<f32: 0.0002>, axis = 1 : i64, zero_point = -5 : i32} : (tensor<200x144xi32>) -> tensor<200x144xi8>
  return %o : tensor<200x144xi8>
})",
     0, 5},
    {"batch", R"(func.func @main(%p: tensor<3x70x200xbf16>, %v: tensor<3x200x136xbf16>) -> tensor<3x70x136xbf16> {
  %a = graph.cast %p : (tensor<3x70x200xbf16>) -> tensor<3x70x200xf32>
  %b = graph.cast %v : (tensor<3x200x136xbf16>) -> tensor<3x200x136xf32>
  %s = graph.matmul %a, %b : (tensor<3x70x200xf32>, tensor<3x200x136xf32>) -> tensor<3x70x136xf32>
  %o = graph.cast %s : (tensor<3x70x136xf32>) -> tensor<3x70x136xbf16>
  return %o : tensor<3x70x136xbf16>
})",
     test::kBfloat.kernel, 7},
    {"pixels", R"(func.func @main(%x: tensor<2x56x9x11xbf16>) -> tensor<2x72x9x11xbf16> {
  %a = graph.cast %x : (tensor<2x56x9x11xbf16>) -> tensor<2x56x9x11xf32>
  %w = graph.constant dense<0.0> : tensor<72x56x3x3xf32>
  %b = graph.constant dense<0.0> : tensor<72xf32>
  %y = graph.conv %a, %w, %b {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<2x56x9x11xf32>, tensor<72x56x3x3xf32>, tensor<72xf32>) -> tensor<2x72x9x11xf32>
  %o = graph.cast %y : (tensor<2x72x9x11xf32>) -> tensor<2x72x9x11xbf16>
  return %o : tensor<2x72x9x11xbf16>
})",
     test::kBfloat.kernel, 5},
};

std::vector<Case> allCases() {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  for (Case ampere : kCases) {
    ampere.architecture = gpu::Architecture::Sm80;
    cases.push_back(ampere);
  }
  return cases;
}

void PrintTo(const Case &c, std::ostream *stream) { *stream << c.name; }

std::vector<double> numbersOf(const gpu::Tensor &tensor, const std::vector<uint8_t> &bytes) {
  std::vector<double> numbers;
  for (size_t i = 0; i < bytes.size(); i += gpu::bytesOf(tensor.element))
    numbers.push_back(tensor.element == gpu::Element::I8
                          ? double(int8_t(bytes[i]))
                          : double(ptxemu::bfloatToFloat(uint16_t(bytes[i] | bytes[i + 1] << 8))));
  return numbers;
}

class StreamKTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    gpu::GpuOptions options;
    options.mostVariants = 100;
    options.architecture = GetParam().architecture;
    options.multiprocessors = GetParam().multiprocessors;
    llvm::Expected<gpu::Program> compiled = test::compileText(GetParam().text, options);
    ASSERT_TRUE(bool(compiled)) << llvm::toString(compiled.takeError());
    program = std::move(*compiled);
    step = std::find_if(program.steps.begin(), program.steps.end(),
                        [](const gpu::Step &s) { return s.kind == "convolution" || s.kind == "matrix product"; });
    ASSERT_NE(step, program.steps.end());
    for (size_t i = 0; i < step->variants.size(); ++i)
      (llvm::StringRef(step->variants[i].name).contains("stream-k") ? split : whole).push_back(i);
    ASSERT_FALSE(split.empty());
    ASSERT_FALSE(whole.empty());
  }

  gpu::Program program;
  std::vector<gpu::Step>::iterator step;
  std::vector<size_t> split, whole; ///< variants
};

} // namespace

TEST_P(StreamKTest, SplitTilesComputeWhatWholeTilesCompute) {
  std::vector<std::vector<uint8_t>> inputs;
  std::mt19937 random(3);
  for (const gpu::Tensor &tensor : program.inputs) {
    std::vector<uint8_t> bytes(test::bytesOf(tensor));
    for (size_t i = 0; i < bytes.size(); ++i) // of bfloat16 the high byte: 0.5 to 2, of both signs
      bytes[i] = tensor.element == gpu::Element::Bf16 && i % 2 ? uint8_t((random() & 0x80) | 0x3f) : uint8_t(random());
    inputs.push_back(std::move(bytes));
  }
  auto run = [&](size_t variant, uint32_t seed) {
    ptxemu::LaunchOptions options;
    options.timing = ptxemu::Timing::Random;
    options.order = ptxemu::ThreadOrder::Random;
    options.residentClusters = 2;
    options.seed = seed;
    return test::EmulatedNetwork(program).run(inputs, variant, options)[0];
  };
  try {
    const std::vector<uint8_t> expected = run(whole[0], 1);
    for (size_t variant : split) {
      SCOPED_TRACE(step->variants[variant].name);
      const std::vector<uint8_t> result = run(variant, uint32_t(variant + 2));
      EXPECT_LE(test::largestError(numbersOf(program.outputs[0], result), numbersOf(program.outputs[0], expected)),
                GetParam().tolerance);
    }
    // Threads in another order add up in the same one.
    EXPECT_EQ(run(split[0], 100), run(split[0], 101)) << step->variants[split[0]].name;
  } catch (const std::exception &error) {
    FAIL() << error.what();
  }
}

TEST_P(StreamKTest, TheCodeKeepsTheRules) {
  for (size_t variant : split)
    for (const gpu::Launch &launch : step->variants[variant].launches) {
      SCOPED_TRACE(step->variants[variant].name);
      const std::string &ptx = program.kernels[launch.kernel].ptx;
      for (const ptxlint::Finding &finding : ptxlint::lint(ptx))
        ADD_FAILURE() << "line " << finding.line << ": " << finding.message;
      if (test::hasPtxas())
        test::expectAssembles(ptx, nameOf(GetParam().architecture));
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, StreamKTest, testing::ValuesIn(allCases()), [](const auto &info) {
  return std::string(info.param.name) + "_" + gpu::nameOf(info.param.architecture);
});
