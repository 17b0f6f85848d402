//===- GpuNetworkTest.cpp - Networks for a GPU, on the emulator -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every network is compiled for the GPU, run on the PTX emulator in every
// variant, and compared with the CPU's code for the same network.
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Target.h"
#include "runtime/Network.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/Lint.h"
#include "tests/gpu/NetworkText.h"
#include "tests/gpu/Tolerances.h"

#include <cstdio>
#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <unistd.h>

using namespace tw;
using runtime::HostTensor;

namespace {

struct Case {
  std::string name, text;
  graph::Math math = graph::Math::Exact;
  test::Tolerance tolerance = test::kSingle;
  bool isFile = false; ///< the text is the name of a model
  gpu::Architecture architecture = gpu::Architecture::Sm90a;
};

using test::kBfloat, test::kHalf, test::kInteger, test::kTfloat;

const Case kCases[] = {
    // Rows, columns and depth that no tile divides; a bias and a function behind.
    {"matmul_bf16", R"(func.func @main(%x: tensor<70x200xbf16>) -> tensor<70x136xbf16> {
  %a = graph.cast %x : (tensor<70x200xbf16>) -> tensor<70x200xf32>
  %w = graph.constant dense<0.0> : tensor<200x136xf32>
  %y = graph.matmul %a, %w : (tensor<70x200xf32>, tensor<200x136xf32>) -> tensor<70x136xf32>
  %b = graph.constant dense<0.0> : tensor<136xf32>
  %s = graph.add %y, %b : (tensor<70x136xf32>, tensor<136xf32>) -> tensor<70x136xf32>
  %r = graph.relu %s : tensor<70x136xf32>
  %o = graph.cast %r : (tensor<70x136xf32>) -> tensor<70x136xbf16>
  return %o : tensor<70x136xbf16>
})",
     graph::Math::Exact, kBfloat},
    {"matmul_tf32", R"(func.func @main(%x: tensor<70x100xf32>) -> tensor<70x72xf32> {
  %w = graph.constant dense<0.0> : tensor<100x72xf32>
  %y = graph.matmul %x, %w : (tensor<70x100xf32>, tensor<100x72xf32>) -> tensor<70x72xf32>
  %t = graph.tanh %y : tensor<70x72xf32>
  return %t : tensor<70x72xf32>
})",
     graph::Math::Fast, kTfloat},
    {"matmul_fp32", R"(func.func @main(%x: tensor<7x40xf32>) -> tensor<7x9xf32> {
  %w = graph.constant dense<0.0> : tensor<40x9xf32>
  %y = graph.matmul %x, %w : (tensor<7x40xf32>, tensor<40x9xf32>) -> tensor<7x9xf32>
  %e = graph.erf %y : tensor<7x9xf32>
  return %e : tensor<7x9xf32>
})"},
    // Two computed operands, and a batch.
    {"attention_bf16", R"(func.func @main(%q: tensor<2x20x64xbf16>, %k: tensor<2x20x64xbf16>) -> tensor<2x20x20xbf16> {
  %a = graph.cast %q : (tensor<2x20x64xbf16>) -> tensor<2x20x64xf32>
  %b = graph.cast %k : (tensor<2x20x64xbf16>) -> tensor<2x20x64xf32>
  %t = graph.transpose %b {perm = array<i64: 0, 2, 1>} : (tensor<2x20x64xf32>) -> tensor<2x64x20xf32>
  %s = graph.matmul %a, %t : (tensor<2x20x64xf32>, tensor<2x64x20xf32>) -> tensor<2x20x20xf32>
  %o = graph.cast %s : (tensor<2x20x20xf32>) -> tensor<2x20x20xbf16>
  return %o : tensor<2x20x20xbf16>
})",
     graph::Math::Exact, kBfloat},
    // A block of BERT with short rows, as benches have it; attention among other kernels.
    {"bert_block", TILEWRIGHT_BERT_BLOCK, graph::Math::Exact, kBfloat, true},
    {"softmax", R"(func.func @main(%x: tensor<5x3x70xf32>) -> tensor<5x3x70xf32> {
  %y = graph.softmax %x {axis = 2 : i64} : tensor<5x3x70xf32>
  return %y : tensor<5x3x70xf32>
})"},
    {"layer_norm", R"(func.func @main(%x: tensor<6x96xf32>) -> tensor<6x96xf32> {
  %n = graph.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-05 : f32} : tensor<6x96xf32>
  %g = graph.constant dense<2.0> : tensor<96xf32>
  %s = graph.mul %n, %g : (tensor<6x96xf32>, tensor<96xf32>) -> tensor<6x96xf32>
  return %s : tensor<6x96xf32>
})"},
    // Padding, strides, a residual; channels that are no multiple of a stage.
    {"conv_bf16", R"(func.func @main(%x: tensor<2x40x9x7xbf16>, %r: tensor<2x48x5x4xbf16>) -> tensor<2x48x5x4xbf16> {
  %a = graph.cast %x : (tensor<2x40x9x7xbf16>) -> tensor<2x40x9x7xf32>
  %q = graph.cast %r : (tensor<2x48x5x4xbf16>) -> tensor<2x48x5x4xf32>
  %w = graph.constant dense<0.0> : tensor<48x40x3x3xf32>
  %b = graph.constant dense<0.0> : tensor<48xf32>
  %y = graph.conv %a, %w, %b {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<2x40x9x7xf32>, tensor<48x40x3x3xf32>, tensor<48xf32>) -> tensor<2x48x5x4xf32>
  %s = graph.add %y, %q : (tensor<2x48x5x4xf32>, tensor<2x48x5x4xf32>) -> tensor<2x48x5x4xf32>
  %o = graph.cast %s : (tensor<2x48x5x4xf32>) -> tensor<2x48x5x4xbf16>
  return %o : tensor<2x48x5x4xbf16>
})",
     graph::Math::Exact, kBfloat},
    {"dilated_conv_bf16", R"(func.func @main(%x: tensor<1x64x8x8xbf16>) -> tensor<1x16x4x4xbf16> {
  %a = graph.cast %x : (tensor<1x64x8x8xbf16>) -> tensor<1x64x8x8xf32>
  %w = graph.constant dense<0.0> : tensor<16x64x3x3xf32>
  %y = graph.conv %a, %w {strides = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 2, 2>, group = 1 : i64, layout = "nchw"} : (tensor<1x64x8x8xf32>, tensor<16x64x3x3xf32>) -> tensor<1x16x4x4xf32>
  %o = graph.cast %y : (tensor<1x16x4x4xf32>) -> tensor<1x16x4x4xbf16>
  return %o : tensor<1x16x4x4xbf16>
})",
     graph::Math::Exact, kBfloat},
    // Groups of channels, each a product: of a stage and a part of one; every second pixel, padding, and a function behind.
    {"grouped_conv_bf16", R"(func.func @main(%x: tensor<2x240x7x9xbf16>) -> tensor<2x60x4x5xbf16> {
  %a = graph.cast %x : (tensor<2x240x7x9xbf16>) -> tensor<2x240x7x9xf32>
  %w = graph.constant dense<0.0> : tensor<60x80x3x3xf32>
  %y = graph.conv %a, %w {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 3 : i64, layout = "nchw"} : (tensor<2x240x7x9xf32>, tensor<60x80x3x3xf32>) -> tensor<2x60x4x5xf32>
  %r = graph.relu %y : tensor<2x60x4x5xf32>
  %o = graph.cast %r : (tensor<2x60x4x5xf32>) -> tensor<2x60x4x5xbf16>
  return %o : tensor<2x60x4x5xbf16>
})",
     graph::Math::Exact, kBfloat},
    // Few channels: taps of a row become channels.
    {"stem_bf16", R"(func.func @main(%x: tensor<1x3x15x17xbf16>) -> tensor<1x32x8x9xbf16> {
  %a = graph.cast %x : (tensor<1x3x15x17xbf16>) -> tensor<1x3x15x17xf32>
  %w = graph.constant dense<0.0> : tensor<32x3x7x7xf32>
  %y = graph.conv %a, %w {strides = array<i64: 2, 2>, pads = array<i64: 3, 3, 3, 3>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<1x3x15x17xf32>, tensor<32x3x7x7xf32>) -> tensor<1x32x8x9xf32>
  %r = graph.relu %y : tensor<1x32x8x9xf32>
  %o = graph.cast %r : (tensor<1x32x8x9xf32>) -> tensor<1x32x8x9xbf16>
  return %o : tensor<1x32x8x9xbf16>
})",
     graph::Math::Exact, kBfloat},
    {"depthwise", R"(func.func @main(%x: tensor<1x8x6x5xf32>) -> tensor<1x8x6x5xf32> {
  %w = graph.constant dense<0.0> : tensor<8x1x3x3xf32>
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 8 : i64, layout = "nchw"} : (tensor<1x8x6x5xf32>, tensor<8x1x3x3xf32>) -> tensor<1x8x6x5xf32>
  return %y : tensor<1x8x6x5xf32>
})"},
    // Enough for threads with several neighbours each.
    {"wide_depthwise", R"(func.func @main(%x: tensor<1x64x48x49xf32>) -> tensor<1x128x48x49xf32> {
  %w = graph.constant dense<0.0> : tensor<64x1x3x3xf32>
  %y = graph.conv %x, %w {strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 64 : i64, layout = "nchw"} : (tensor<1x64x48x49xf32>, tensor<64x1x3x3xf32>) -> tensor<1x64x48x49xf32>
  %b = graph.constant dense<0.0> : tensor<64x1x1xf32>
  %s = graph.mul %y, %b : (tensor<1x64x48x49xf32>, tensor<64x1x1xf32>) -> tensor<1x64x48x49xf32>
  %c = graph.concat %s, %x {axis = 1 : i64} : (tensor<1x64x48x49xf32>, tensor<1x64x48x49xf32>) -> tensor<1x128x48x49xf32>
  return %c : tensor<1x128x48x49xf32>
})"},
    {"pools_and_concat", R"(func.func @main(%x: tensor<1x4x6x6xf32>) -> tensor<1x8x3x3xf32> {
  %m = graph.max_pool %x {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, layout = "nchw"} : (tensor<1x4x6x6xf32>) -> tensor<1x4x3x3xf32>
  %a = graph.average_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false, layout = "nchw"} : (tensor<1x4x6x6xf32>) -> tensor<1x4x3x3xf32>
  %c = graph.concat %m, %a {axis = 1 : i64} : (tensor<1x4x3x3xf32>, tensor<1x4x3x3xf32>) -> tensor<1x8x3x3xf32>
  return %c : tensor<1x8x3x3xf32>
})"},
    // Rows and elements that are narrow in memory.
    {"softmax_bf16", R"(func.func @main(%x: tensor<5x3x70xbf16>) -> tensor<5x3x70xbf16> {
  %a = graph.cast %x : (tensor<5x3x70xbf16>) -> tensor<5x3x70xf32>
  %y = graph.softmax %a {axis = 2 : i64} : tensor<5x3x70xf32>
  %o = graph.cast %y : (tensor<5x3x70xf32>) -> tensor<5x3x70xbf16>
  return %o : tensor<5x3x70xbf16>
})",
     graph::Math::Exact, kBfloat},
    {"pools_and_concat_bf16", R"(func.func @main(%x: tensor<1x4x6x6xbf16>) -> tensor<1x8x3x3xbf16> {
  %f = graph.cast %x : (tensor<1x4x6x6xbf16>) -> tensor<1x4x6x6xf32>
  %m = graph.max_pool %f {kernel = array<i64: 3, 3>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 1, 1>, dilations = array<i64: 1, 1>, layout = "nchw"} : (tensor<1x4x6x6xf32>) -> tensor<1x4x3x3xf32>
  %a = graph.average_pool %f {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, count_include_pad = false, layout = "nchw"} : (tensor<1x4x6x6xf32>) -> tensor<1x4x3x3xf32>
  %c = graph.concat %m, %a {axis = 1 : i64} : (tensor<1x4x3x3xf32>, tensor<1x4x3x3xf32>) -> tensor<1x8x3x3xf32>
  %o = graph.cast %c : (tensor<1x8x3x3xf32>) -> tensor<1x8x3x3xbf16>
  return %o : tensor<1x8x3x3xbf16>
})",
     graph::Math::Exact, kBfloat},
    // Integers: every number is exact. A zero point, which is the padding, and a result of bytes in boxes and in pairs.
    {"conv_int8", R"(func.func @main(%x: tensor<1x32x6x6xi8>) -> tensor<1x48x6x6xi8> {
  %w = graph.constant dense<0> : tensor<48x32x3x3xi8>
  %y = graph.conv_integer %x, %w {x_zero_point = -128 : i32, w_zero_points = array<i32: 0>, strides = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>, group = 1 : i64, layout = "nchw"} : (tensor<1x32x6x6xi8>, tensor<48x32x3x3xi8>) -> tensor<1x48x6x6xi32>
  %o = graph.requantize %y {multipliers = array<f32: 0.0001>, axis = 1 : i64, zero_point = -128 : i32} : (tensor<1x48x6x6xi32>) -> tensor<1x48x6x6xi8>
  return %o : tensor<1x48x6x6xi8>
})",
     graph::Math::Exact, kInteger},
    {"matmul_int8", R"(func.func @main(%x: tensor<70x96xi8>) -> tensor<70x34xi32> {
  %w = graph.constant dense<0> : tensor<96x34xi8>
  %y = graph.matmul_integer %x, %w {a_zero_point = 3 : i32, b_zero_points = array<i32: 0>} : (tensor<70x96xi8>, tensor<96x34xi8>) -> tensor<70x34xi32>
  return %y : tensor<70x34xi32>
})",
     graph::Math::Exact, kInteger},
    // An input that is a result, twice.
    {"copies", R"(func.func @main(%x: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  return %x, %x : tensor<3x4xf32>, tensor<3x4xf32>
})"},
};

/// And those of bfloat16 with float16 in its place, and those that are written here for both architectures.
std::vector<Case> allCases() {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  for (const Case &each : kCases)
    if (each.tolerance.type == kBfloat.type && !each.isFile) {
      Case half{std::regex_replace(each.name, std::regex("bf16"), "f16"),
                std::regex_replace(each.text, std::regex("xbf16"), "xf16"), each.math, kHalf};
      cases.push_back(half);
    }
  for (Case ampere : kCases) {
    ampere.name += "_sm_80";
    ampere.architecture = gpu::Architecture::Sm80;
    cases.push_back(ampere);
  }
  return cases;
}

class GpuNetworkTest : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    path = GetParam().text;
    if (!GetParam().isFile) {
      path = testing::TempDir() + "gpu-" + std::to_string(getpid()) + ".mlir";
      std::ofstream(path) << test::filled(GetParam().text);
    }
    runtime::NetworkOptions options;
    options.math = GetParam().math;
    options.gpuArchitecture = GetParam().architecture;
    auto compiled = runtime::compileOnGpu(path, options);
    ASSERT_TRUE(compiled) << compiled.error().message;
    program = std::move(*compiled);
    options.math = graph::Math::Exact;
    auto cpu = runtime::loadOnCpu(path, options, 1);
    ASSERT_TRUE(cpu) << cpu.error().message;
    std::vector<HostTensor> tensors;
    for (size_t i = 0; i < cpu->device->inputs().size(); ++i) {
      tensors.push_back(runtime::randomTensor(cpu->device->inputs()[i], 7 + i));
      inputs.push_back(tensors.back().bytes);
    }
    auto launch = cpu->device->launch(tensors);
    ASSERT_TRUE(launch) << launch.error().message;
    expected = std::move(launch->outputs);
  }
  void TearDown() override {
    if (!GetParam().isFile)
      std::remove(path.c_str());
  }

  void check(size_t variant, const ptxemu::LaunchOptions &options) {
    std::vector<std::vector<uint8_t>> outputs;
    try {
      outputs = test::EmulatedNetwork(program).run(inputs, variant, options);
    } catch (const std::exception &error) {
      FAIL() << error.what();
    }
    ASSERT_EQ(outputs.size(), expected.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      HostTensor actual = expected[i];
      ASSERT_EQ(outputs[i].size(), actual.bytes.size());
      actual.bytes = outputs[i];
      const std::vector<double> a = runtime::toDoubles(actual), e = runtime::toDoubles(expected[i]);
      const double error = test::largestError(a, e);
      EXPECT_LE(error, GetParam().tolerance.kernel) << "output " << i;
    }
  }

  std::string path;
  gpu::Program program;
  std::vector<std::vector<uint8_t>> inputs;
  std::vector<HostTensor> expected;
};

} // namespace

TEST_P(GpuNetworkTest, EveryVariantComputesWhatTheCpuComputes) {
  size_t most = 0;
  for (const gpu::Step &step : program.steps)
    most = std::max(most, step.variants.size());
  for (size_t variant = 0; variant < most; ++variant) {
    SCOPED_TRACE("variant " + std::to_string(variant));
    check(variant, {});
  }
}

TEST_P(GpuNetworkTest, ThreadsInAnyOrderComputeTheSame) {
  ptxemu::LaunchOptions options;
  options.timing = ptxemu::Timing::Random;
  options.order = ptxemu::ThreadOrder::Random;
  options.residentClusters = 2;
  for (uint32_t seed : {1, 2}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    options.seed = seed;
    check(0, options);
    if (GetParam().architecture == gpu::Architecture::Sm80) // MmaKernelTest has more
      break;
  }
}

TEST_P(GpuNetworkTest, ThePtxKeepsTheRules) {
  for (const gpu::Kernel &kernel : program.kernels)
    for (const ptxlint::Finding &finding : ptxlint::lint(kernel.ptx))
      ADD_FAILURE() << "line " << finding.line << ": " << finding.message;
}

INSTANTIATE_TEST_SUITE_P(Networks, GpuNetworkTest, testing::ValuesIn(allCases()),
                         [](const auto &info) { return info.param.name; });
