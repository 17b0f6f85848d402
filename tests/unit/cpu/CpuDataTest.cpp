//===- CpuDataTest.cpp - Ops that only move data --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/cpu/CpuTestSupport.h"

using namespace tw::cpu::test;

namespace {

template <typename T> void checkPermutationsOfThree(const std::string &element) {
  const int64_t extents[3] = {5, 18, 35};
  auto x = someValues<T>(5 * 18 * 35, 1);
  int64_t perm[3] = {0, 1, 2};
  do {
    int64_t out[3] = {extents[perm[0]], extents[perm[1]], extents[perm[2]]};
    auto type = [&](const int64_t *e) {
      return "tensor<" + std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]) + "x" + element + ">";
    };
    std::string text = "func.func @main(%x: " + type(extents) + ") -> " + type(out) +
                       " {\n  %e = tensor.empty() : " + type(out) + "\n  %y = linalg.transpose ins(%x : " + type(extents) +
                       ") outs(%e : " + type(out) + ") permutation = [" + std::to_string(perm[0]) + ", " +
                       std::to_string(perm[1]) + ", " + std::to_string(perm[2]) + "]\n  return %y : " + type(out) + "\n}";
    std::vector<T> expected;
    int64_t strides[3] = {18 * 35, 35, 1};
    for (int64_t i = 0; i < out[0]; ++i)
      for (int64_t j = 0; j < out[1]; ++j)
        for (int64_t k = 0; k < out[2]; ++k)
          expected.push_back(x[i * strides[perm[0]] + j * strides[perm[1]] + k * strides[perm[2]]]);
    auto outputs = runEverywhere(text, {tensorOf(x, {5, 18, 35})});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(valuesOf<T>(outputs[0]), expected) << element;
  } while (std::next_permutation(perm, perm + 3));
}

TEST(TransposeTest, EveryPermutationOfThree) {
  checkPermutationsOfThree<int32_t>("i32");
  checkPermutationsOfThree<uint16_t>("bf16");
  checkPermutationsOfThree<int8_t>("i8");
}

/// Parts that are computed in place, copied from inputs, and of one element.
TEST(ConcatTest, AlongTheLastDimension) {
  std::string text = R"(
#id = affine_map<(i, j) -> (i, j)>
func.func private @cat(%a: tensor<3x20xf32>, %b: tensor<3x1xf32>) -> tensor<3x41xf32> {
  %e = tensor.empty() : tensor<3x20xf32>
  %n = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a : tensor<3x20xf32>) outs(%e : tensor<3x20xf32>) {
  ^bb0(%v: f32, %o: f32):
    %r = arith.negf %v : f32
    linalg.yield %r : f32
  } -> tensor<3x20xf32>
  %c = tensor.concat dim(1) %n, %b, %a : (tensor<3x20xf32>, tensor<3x1xf32>, tensor<3x20xf32>) -> tensor<3x41xf32>
  return %c : tensor<3x41xf32>
}
func.func @main(%a: tensor<3x20xf32>, %b: tensor<3x1xf32>) -> tensor<3x41xf32> {
  %0 = call @cat(%a, %b) : (tensor<3x20xf32>, tensor<3x1xf32>) -> tensor<3x41xf32>
  return %0 : tensor<3x41xf32>
})";
  auto a = someValues<float>(60, 1), b = someValues<float>(3, 2);
  std::vector<float> expected;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 20; ++j)
      expected.push_back(-a[i * 20 + j]);
    expected.push_back(b[i]);
    for (int j = 0; j < 20; ++j)
      expected.push_back(a[i * 20 + j]);
  }
  auto outputs = runEverywhere(text, {tensorOf(a, {3, 20}), tensorOf(b, {3, 1})});
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), expected);
}

TEST(ConcatTest, OfTheSameTensorTwiceAndThenReturnedParts) {
  std::string text = R"(
func.func @main(%a: tensor<2x3xi8>) -> (tensor<4x3xi8>, tensor<2x3xi8>) {
  %e = tensor.empty() : tensor<2x3xi8>
  %n = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%a : tensor<2x3xi8>) outs(%e : tensor<2x3xi8>) {
  ^bb0(%v: i8, %o: i8):
    %r = arith.addi %v, %v : i8
    linalg.yield %r : i8
  } -> tensor<2x3xi8>
  %c = tensor.concat dim(0) %n, %n : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<4x3xi8>
  return %c, %n : tensor<4x3xi8>, tensor<2x3xi8>
})";
  std::vector<int8_t> a{1, 2, 3, 4, 5, -6};
  auto outputs = runEverywhere(text, {tensorOf(a, {2, 3})});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(valuesOf<int8_t>(outputs[0]), (std::vector<int8_t>{2, 4, 6, 8, 10, -12, 2, 4, 6, 8, 10, -12}));
  EXPECT_EQ(valuesOf<int8_t>(outputs[1]), (std::vector<int8_t>{2, 4, 6, 8, 10, -12}));
}

TEST(SliceTest, StridesForwardsAndBackwards) {
  std::string text = R"(
func.func @main(%x: tensor<8x30xi32>) -> (tensor<3x10xi32>, tensor<4x30xi32>, tensor<30xi32>) {
  %a = tensor.extract_slice %x[1, 2] [3, 10] [2, 1] : tensor<8x30xi32> to tensor<3x10xi32>
  %b = tensor.extract_slice %x[7, 29] [4, 30] [-2, -1] : tensor<8x30xi32> to tensor<4x30xi32>
  %c = tensor.extract_slice %x[5, 0] [1, 30] [1, 1] : tensor<8x30xi32> to tensor<30xi32>
  return %a, %b, %c : tensor<3x10xi32>, tensor<4x30xi32>, tensor<30xi32>
})";
  std::vector<int32_t> x(240), a, b, c;
  for (int i = 0; i < 240; ++i)
    x[i] = i;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 10; ++j)
      a.push_back((1 + 2 * i) * 30 + 2 + j);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 30; ++j)
      b.push_back((7 - 2 * i) * 30 + 29 - j);
  for (int j = 0; j < 30; ++j)
    c.push_back(150 + j);
  auto outputs = runEverywhere(text, {tensorOf(x, {8, 30})});
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(valuesOf<int32_t>(outputs[0]), a);
  EXPECT_EQ(valuesOf<int32_t>(outputs[1]), b);
  EXPECT_EQ(valuesOf<int32_t>(outputs[2]), c);
}

/// A slice that is not dense must be copied before its dimensions can be merged.
TEST(SliceTest, CollapsedAfterwards) {
  std::string text = R"(
func.func @main(%x: tensor<4x6xf32>) -> tensor<8xf32> {
  %a = tensor.extract_slice %x[0, 1] [4, 2] [1, 3] : tensor<4x6xf32> to tensor<4x2xf32>
  %b = tensor.collapse_shape %a [[0, 1]] : tensor<4x2xf32> into tensor<8xf32>
  return %b : tensor<8xf32>
})";
  auto x = someValues<float>(24, 1);
  std::vector<float> expected;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j)
      expected.push_back(x[i * 6 + 1 + 3 * j]);
  auto outputs = runEverywhere(text, {tensorOf(x, {4, 6})});
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), expected);
}

TEST(SliceTest, InsertedIntoAnotherTensor) {
  std::string text = R"(
func.func @main(%x: tensor<4x6xf32>, %p: tensor<2xf32>) -> tensor<4x6xf32> {
  %a = tensor.insert_slice %p into %x[2, 1] [1, 2] [1, 2] : tensor<2xf32> into tensor<4x6xf32>
  return %a : tensor<4x6xf32>
})";
  auto x = someValues<float>(24, 1);
  std::vector<float> p{100, 200}, expected = x;
  expected[13] = 100;
  expected[15] = 200;
  auto outputs = runEverywhere(text, {tensorOf(x, {4, 6}), tensorOf(p, {2})});
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), expected);
}

TEST(PadTest, EveryBorder) {
  std::string text = R"(
func.func @main(%x: tensor<2x3x4xi8>) -> tensor<4x6x9xi8> {
  %c = arith.constant 9 : i8
  %y = tensor.pad %x low[0, 1, 3] high[2, 2, 2] {
  ^bb0(%i: index, %j: index, %k: index):
    tensor.yield %c : i8
  } : tensor<2x3x4xi8> to tensor<4x6x9xi8>
  return %y : tensor<4x6x9xi8>
})";
  auto x = someValues<int8_t>(24, 1);
  std::vector<int8_t> expected;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j)
      for (int k = 0; k < 9; ++k) {
        bool inside = i < 2 && j >= 1 && j < 4 && k >= 3 && k < 7;
        expected.push_back(inside ? x[(i * 3 + j - 1) * 4 + k - 3] : 9);
      }
  auto outputs = runEverywhere(text, {tensorOf(x, {2, 3, 4})});
  EXPECT_EQ(valuesOf<int8_t>(outputs.at(0)), expected);
}

/// Every kind of constant, returned, used and splat; booleans are bits in MLIR and bytes in memory.
TEST(ConstantTest, AllKinds) {
  std::string text = R"(
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<4xi1>, tensor<2x2xi64>, tensor<3xf32>, tensor<2xbf16>) {
  %a = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %b = arith.constant dense<[true, false, false, true]> : tensor<4xi1>
  %c = arith.constant dense<-7> : tensor<2x2xi64>
  %d = arith.constant dense<[1.0, -2.0]> : tensor<2xbf16>
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.add ins(%x, %a : tensor<3xf32>, tensor<3xf32>) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  return %a, %b, %c, %y, %d : tensor<3xf32>, tensor<4xi1>, tensor<2x2xi64>, tensor<3xf32>, tensor<2xbf16>
})";
  auto outputs = runEverywhere(text, {tensorOf(std::vector<float>{10, 20, 30}, {3})});
  ASSERT_EQ(outputs.size(), 5u);
  EXPECT_EQ(valuesOf<float>(outputs[0]), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(outputs[1].bytes, (std::vector<uint8_t>{1, 0, 0, 1}));
  EXPECT_EQ(valuesOf<int64_t>(outputs[2]), (std::vector<int64_t>{-7, -7, -7, -7}));
  EXPECT_EQ(valuesOf<float>(outputs[3]), (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(valuesOf<uint16_t>(outputs[4]), (std::vector<uint16_t>{0x3F80, 0xC000}));
}

} // namespace
