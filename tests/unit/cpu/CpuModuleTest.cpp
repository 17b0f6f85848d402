//===- CpuModuleTest.cpp - Networks of kernels, single kernels, objects ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/cpu/CpuTestSupport.h"

#include <cmath>

using namespace tw::cpu;
using namespace tw::cpu::test;

namespace {

std::string scaleKernel(const std::string &name, const std::vector<float> &factors) {
  std::string list;
  for (float factor : factors)
    list += (list.empty() ? "" : ", ") + std::to_string(factor);
  return "func.func private @" + name + R"((%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant dense<[)" +
         list + R"(]> : tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.mul ins(%x, %c : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
)";
}

/// A chain with a branch: tensors stay alive across several calls, pass through reshapes and are returned twice.
std::string networkText() {
  return scaleKernel("first", {1, 2, 3, 4}) + scaleKernel("second", {5, 6, 7, 8}) + R"(
func.func private @plus(%x: tensor<4xf32>, %z: tensor<4xf32>) -> tensor<4xf32>
    attributes {tilewright.target = "cpu", tilewright.reason = "a test"} {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.add ins(%x, %z : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @main(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<2xi32>, tensor<4xf32>) {
  %k = arith.constant dense<[3, 4]> : tensor<2xi32>
  %c = arith.constant dense<[10.0, 20.0, 30.0, 40.0]> : tensor<4xf32>
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>
  %a = call @first(%flat) : (tensor<4xf32>) -> tensor<4xf32>
  %b = call @second(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %d = call @plus(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %e = call @plus(%d, %c) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = tensor.expand_shape %e [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>
  return %y, %x, %e, %k, %flat : tensor<2x2xf32>, tensor<2x2xf32>, tensor<4xf32>, tensor<2xi32>, tensor<4xf32>
})";
}

TEST(CpuModuleTest, RunsANetworkOfKernels) {
  Context context;
  for (unsigned threads : {1u, 2u}) {
    CpuOptions options;
    options.threads = threads;
    auto executable = context.compile(networkText(), options);
    ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
    for (float start : {1.0f, -3.0f}) {
      std::vector<float> x{start, start + 1, start + 2, start + 3}, y;
      for (int i = 0; i < 4; ++i) {
        float a = x[i] * (i + 1), b = a * (i + 5);
        y.push_back(a + b + 10 * (i + 1));
      }
      std::vector<HostTensor> outputs;
      llvm::Error error = (*executable)->run({tensorOf(x, {2, 2})}, outputs);
      ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
      ASSERT_EQ(outputs.size(), 5u);
      EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{2, 2}));
      EXPECT_EQ(valuesOf<float>(outputs[0]), y);
      EXPECT_EQ(valuesOf<float>(outputs[1]), x);
      EXPECT_EQ(valuesOf<float>(outputs[2]), y);
      EXPECT_EQ(valuesOf<int32_t>(outputs[3]), (std::vector<int32_t>{3, 4}));
      EXPECT_EQ(valuesOf<float>(outputs[4]), x);
    }
  }
}

/// Loops long enough to be divided, with ends that are not: transposed, multiplied, padded, and summed up again.
TEST(CpuModuleTest, ThreadsShareLongLoops) {
  const std::string text = R"(
func.func private @product(%a: tensor<150x200xf32>, %b: tensor<200x170xf32>) -> tensor<154x170xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<150x170xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<150x170xf32>) -> tensor<150x170xf32>
  %y = linalg.matmul ins(%a, %b : tensor<150x200xf32>, tensor<200x170xf32>) outs(%z : tensor<150x170xf32>) -> tensor<150x170xf32>
  %p = tensor.pad %y low[3, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<150x170xf32> to tensor<154x170xf32>
  return %p : tensor<154x170xf32>
}
func.func private @transposed(%x: tensor<154x170xf32>) -> tensor<170x154xf32> {
  %e = tensor.empty() : tensor<170x154xf32>
  %t = linalg.transpose ins(%x : tensor<154x170xf32>) outs(%e : tensor<170x154xf32>) permutation = [1, 0]
  return %t : tensor<170x154xf32>
}
func.func private @sums(%x: tensor<170x154xf32>) -> tensor<170xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<170xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<170xf32>) -> tensor<170xf32>
  %y = linalg.reduce { arith.addf } ins(%x : tensor<170x154xf32>) outs(%z : tensor<170xf32>) dimensions = [1]
  return %y : tensor<170xf32>
}
func.func @main(%a: tensor<150x200xf32>, %b: tensor<200x170xf32>) -> (tensor<170xf32>, tensor<170x154xf32>) {
  %y = call @product(%a, %b) : (tensor<150x200xf32>, tensor<200x170xf32>) -> tensor<154x170xf32>
  %t = call @transposed(%y) : (tensor<154x170xf32>) -> tensor<170x154xf32>
  %s = call @sums(%t) : (tensor<170x154xf32>) -> tensor<170xf32>
  return %s, %t : tensor<170xf32>, tensor<170x154xf32>
})";
  // Whole numbers, whose sums are exact in any order.
  auto wholeNumbers = [](size_t count, unsigned seed) {
    std::vector<float> values = someValues<float>(count, seed);
    for (float &value : values)
      value = std::floor(value);
    return values;
  };
  const std::vector<float> a = wholeNumbers(150 * 200, 1), b = wholeNumbers(200 * 170, 2);
  std::vector<float> product(170 * 154), sums(170);
  for (int j = 0; j < 170; ++j)
    for (int i = 0; i < 150; ++i) {
      float sum = 0;
      for (int k = 0; k < 200; ++k)
        sum += a[i * 200 + k] * b[k * 170 + j];
      product[j * 154 + i + 3] = sum;
      sums[j] += sum;
    }
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    CpuOptions options;
    options.threads = threads;
    Context context;
    auto executable = context.compile(text, options);
    ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
    for (int run = 0; run < 20; ++run) {
      std::vector<HostTensor> outputs;
      llvm::Error error = (*executable)->run({tensorOf(a, {150, 200}), tensorOf(b, {200, 170})}, outputs);
      ASSERT_FALSE(static_cast<bool>(error)) << llvm::toString(std::move(error));
      ASSERT_EQ(valuesOf<float>(outputs[0]), sums) << threads << " threads";
      ASSERT_EQ(valuesOf<float>(outputs[1]), product) << threads << " threads";
    }
  }
}

TEST(CpuModuleTest, RunsSingleKernelsByName) {
  Context context;
  auto executable = context.compile(networkText());
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  EXPECT_EQ((*executable)->kernelNames(), (std::vector<std::string>{"first", "second", "plus"}));
  std::vector<HostTensor> outputs;
  HostTensor ones = tensorOf(std::vector<float>{1, 1, 1, 1}, {4});
  // `first` and `second` share their code, not their constants.
  ASSERT_FALSE(static_cast<bool>((*executable)->runKernel("first", {ones}, outputs)));
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), (std::vector<float>{1, 2, 3, 4}));
  ASSERT_FALSE(static_cast<bool>((*executable)->runKernel("second", {ones}, outputs)));
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), (std::vector<float>{5, 6, 7, 8}));
  float in[4] = {1, 2, 3, 4}, out[4] = {};
  ASSERT_FALSE(
      static_cast<bool>((*executable)->runKernel("plus", llvm::ArrayRef<const void *>{in, in}, llvm::ArrayRef<void *>{out})));
  EXPECT_EQ(out[3], 8);
}

/// A @main with ops of its own is compiled together with what it calls.
TEST(CpuModuleTest, CompilesAMainWithOpsOfItsOwn) {
  Context context;
  auto executable = context.compile(scaleKernel("first", {1, 2, 3, 4}) + R"(
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = call @first(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.add ins(%a, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
})");
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  std::vector<HostTensor> outputs;
  ASSERT_FALSE(static_cast<bool>((*executable)->run({tensorOf(std::vector<float>{1, 2, 3, 4}, {4})}, outputs)));
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), (std::vector<float>{2, 6, 12, 20}));
}

TEST(CpuModuleTest, KeepsTheTypeOfAnOutputThatFits) {
  Context context;
  auto executable = context.compile("func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {\n return %x : tensor<2xi8>\n}");
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  std::vector<HostTensor> outputs{tensorOf(std::vector<uint8_t>{0, 0}, {2})};
  outputs[0].name = "probabilities";
  ASSERT_FALSE(static_cast<bool>((*executable)->run({tensorOf(std::vector<uint8_t>{200, 3}, {2})}, outputs)));
  EXPECT_EQ(outputs[0].type, ElementKind::U8);
  EXPECT_EQ(outputs[0].name, "probabilities");
  EXPECT_EQ(valuesOf<uint8_t>(outputs[0]), (std::vector<uint8_t>{200, 3}));
}

TEST(CpuModuleTest, MeasuresEveryKernelCall) {
  Context context;
  auto executable = context.compile(networkText());
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  auto timing = (*executable)->measure({tensorOf(std::vector<float>{1, 2, 3, 4}, {2, 2})}, 5, 0);
  ASSERT_TRUE(static_cast<bool>(timing)) << llvm::toString(timing.takeError());
  EXPECT_EQ(timing->runs, 5u);
  EXPECT_GT(timing->minSeconds, 0);
  EXPECT_GE(timing->medianSeconds, timing->minSeconds);
  ASSERT_EQ(timing->kernels.size(), 4u);
  EXPECT_EQ(timing->kernels[3].first, "plus");
}

} // namespace
