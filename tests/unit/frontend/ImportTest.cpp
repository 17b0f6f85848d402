//===- ImportTest.cpp - What each ONNX operator becomes -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shapes and constants are derived by hand from the ONNX operator documents.
//===----------------------------------------------------------------------===//
#include "TestModels.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/graph/Graph.h"
#include "compiler/operators/FusionType.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <gtest/gtest.h>

namespace tw::frontend {

/// The ops of a graph with one float input x and one float output y. The declared dims of y are left open.
static std::string ops(const std::string &x, const std::string &body, int opset = 13) {
  return Imported("(" + x + " x) => (float[] y) { " + body + " }", opset).ops();
}

//===----------------------------------------------------------------------===//
// Convolution and pooling
//===----------------------------------------------------------------------===//

TEST(ImportTest, EveryOperatorHasAFusionType) {
  for (const tw::frontend::ImportedOperator &op : tw::frontend::importedOperators()) {
    const size_t colon = op.name.find(':');
    EXPECT_TRUE(tw::operators::fusionTypeOf(op.name.substr(0, colon), op.name.substr(colon + 1))) << op.name;
  }
}

TEST(ImportConvTest, StridesPadsAndGroups) {
  Imported m("(float[1,4,8,8] x, float[6,2,3,3] w, float[6] b) => (float[1,6,4,4] y) {"
             " y = Conv <strides = [2, 2], pads = [1, 1, 1, 1], group = 2> (x, w, b) }");
  EXPECT_EQ(m.ops(), "conv 1x6x4x4xf32");
  EXPECT_EQ(m.attr("conv", "group"), "2 : i64");
  EXPECT_EQ(m.attr("conv", "pads"), "array<i64: 1, 1, 1, 1>");
}

TEST(ImportConvTest, SameUpperAndLowerSplitTheOddPadDifferently) {
  // 5 positions, kernel 2, stride 1: one pad in all.
  const char *graph = "(float[1,1,5,5] x, float[1,1,2,2] w) => (float[1,1,5,5] y) { y = Conv <auto_pad = \"%s\"> (x, w) }";
  auto with = [&](const char *mode) {
    std::string text = graph;
    return text.replace(text.find("%s"), 2, mode);
  };
  EXPECT_EQ(Imported(with("SAME_UPPER")).attr("conv", "pads"), "array<i64: 0, 0, 1, 1>");
  EXPECT_EQ(Imported(with("SAME_LOWER")).attr("conv", "pads"), "array<i64: 1, 1, 0, 0>");
}

TEST(ImportConvTest, OneDimensionIsLiftedToTwo) {
  Imported m("(float[1,2,10] x, float[3,2,3] w) => (float[1,3,6] y) { y = Conv <dilations = [2]> (x, w) }");
  EXPECT_EQ(m.ops(), "reshape 1x2x1x10xf32, reshape 3x2x1x3xf32, conv 1x3x1x6xf32, reshape 1x3x6xf32");
  EXPECT_EQ(m.attr("conv", "dilations"), "array<i64: 1, 2>");
}

TEST(ImportConvTest, ThreeDimensionsAreAFallback) {
  Imported m("(float[1,2,4,4,4] x, float[3,2,3,3,3] w) => (float[1,3,2,2,2] y) { y = Conv (x, w) }");
  EXPECT_EQ(m.ops(), "fallback 1x3x2x2x2xf32");
  EXPECT_EQ(m.attr("fallback", "reason"), "\"the convolution has 3 spatial dims, expected 1 or 2\"");
  EXPECT_EQ(m.attr("fallback", "onnx_op"), "\"Conv\"");
}

TEST(ImportPoolTest, MaxPoolCeilModeAddsOverhangToTheEndPads) {
  // (4 - 3) / 2 is 0.5: rounded up there are 2 windows, the second reaches 1 position beyond.
  Imported m(
      "(float[1,1,4,4] x) => (float[1,1,2,2] y) { y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1> (x) }");
  EXPECT_EQ(m.ops(), "max_pool 1x1x2x2xf32");
  EXPECT_EQ(m.attr("max_pool", "pads"), "array<i64: 0, 0, 1, 1>");
}

TEST(ImportPoolTest, CeilModeDropsAWindowThatStartsInTheEndPadding) {
  // 3 + 2 positions, kernel 1, stride 5: rounding up adds a window at 5, which is not below 3 + 1.
  Imported m("(float[1,1,3,3] x) => (float[1,1,1,1] y) { y = MaxPool <kernel_shape = [1, 1], strides = [5, 5],"
             " pads = [1, 1, 1, 1], ceil_mode = 1> (x) }");
  EXPECT_EQ(m.ops(), "max_pool 1x1x1x1xf32");
}

TEST(ImportPoolTest, CeilModeDropsAWindowThatFillsTheEndPadding) {
  // 2 + 2 positions, kernel 2, stride 2: two windows without rounding, but the second one begins behind the input.
  Imported m("(float[1,1,2,2] x) => (float[1,1,1,1] y) { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2],"
             " pads = [0, 0, 2, 2], ceil_mode = 1> (x) }");
  EXPECT_EQ(m.ops(), "max_pool 1x1x1x1xf32");
  EXPECT_EQ(m.attr("max_pool", "pads"), "array<i64: 0, 0, 0, 0>");
}

TEST(ImportPoolTest, AverageThatCountsPaddingDoesNotCountOverhang) {
  Imported m("(float[1,1,4,4] x) => (float[1,1,3,3] y) { y = AveragePool <kernel_shape = [3, 3], strides = [2, 2],"
             " pads = [1, 1, 1, 1], ceil_mode = 1, count_include_pad = 1> (x) }");
  // 4 + 2 = 6 positions, windows at 0, 2, 4: the last one covers 4, 5 and 6, one beyond.
  EXPECT_EQ(m.ops(), "pad 1x1x6x6xf32, average_pool 1x1x3x3xf32");
  EXPECT_EQ(m.attr("average_pool", "pads"), "array<i64: 0, 0, 1, 1>");
  EXPECT_EQ(m.attr("average_pool", "count_include_pad"), "false");
}

TEST(ImportPoolTest, AverageKeepsCountIncludePad) {
  Imported m("(float[1,1,4,4] x) => (float[1,1,4,4] y) { y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1],"
             " count_include_pad = 1> (x) }");
  EXPECT_EQ(m.attr("average_pool", "count_include_pad"), "true");
}

TEST(ImportPoolTest, ThreeDimensionsAreTwoPools) {
  EXPECT_EQ(ops("float[1,2,4,6,8]", "y = MaxPool <kernel_shape = [2, 3, 4], strides = [2, 3, 4]> (x)"),
            "reshape 1x8x6x8xf32, max_pool 1x8x2x2xf32, reshape 1x2x4x4xf32, max_pool 1x2x2x4xf32, reshape 1x2x2x2x2xf32");
}

TEST(ImportPoolTest, OneDimension) {
  EXPECT_EQ(ops("float[1,2,6]", "y = AveragePool <kernel_shape = [2], strides = [2]> (x)"),
            "reshape 1x2x1x6xf32, average_pool 1x2x1x3xf32, reshape 1x2x3xf32");
}

TEST(ImportPoolTest, GlobalPoolsTakeTheWholeImage) {
  Imported m("(float[1,2,5,7] x) => (float[1,2,1,1] y) { y = GlobalAveragePool (x) }");
  EXPECT_EQ(m.ops(), "average_pool 1x2x1x1xf32");
  EXPECT_EQ(m.attr("average_pool", "kernel"), "array<i64: 5, 7>");
  EXPECT_EQ(ops("float[1,2,5,7]", "y = GlobalMaxPool (x)"), "max_pool 1x2x1x1xf32");
}

TEST(ImportPoolTest, UnusedIndicesAreIgnored) {
  EXPECT_EQ(ops("float[1,1,4,4]", "y, z = MaxPool <kernel_shape = [2, 2]> (x)"), "max_pool 1x1x3x3xf32");
}

TEST(ImportConvTest, TransposedWithoutOverlapIsAProductPerPosition) {
  EXPECT_EQ(
      Imported("(float[1,3,4,5] x, float[3,2,2,2] w) => (float[1,2,8,10] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }")
          .ops(),
      "transpose 2x2x2x3xf32, reshape 8x3x1x1xf32, conv 1x8x4x5xf32, reshape 1x2x2x2x4x5xf32, transpose 1x2x4x2x5x2xf32, "
      "reshape 1x2x8x10xf32");
}

TEST(ImportConvTest, TransposedWithOverlapSpreadsItsInput) {
  Imported m("(float[1,1,3,3] x) => (float[1,1,6,6] y) { w = Constant <value = float[1,1,3,3] {1, 2, 3, 4, 5, 6, 7, 8, 9}> ()"
             " y = ConvTranspose <strides = [2, 2], pads = [0, 0, 1, 1]> (x, w) }");
  // 3 elements spread to 6 with one zero behind each; the windows of 3 need 2 zeros before, and 2 - 1 (pad) - 1 (there already)
  // behind: 8 positions, 6 windows.
  EXPECT_EQ(m.ops(), "reshape 1x1x3x1x3x1xf32, pad 1x1x3x2x3x2xf32, reshape 1x1x6x6xf32, pad 1x1x8x8xf32, conv 1x1x6x6xf32");
  EXPECT_EQ(m.attr("constant", "value"), "dense<[[[[9.000000e+00, 8.000000e+00, 7.000000e+00], [6.000000e+00, 5.000000e+00, "
                                         "4.000000e+00], [3.000000e+00, 2.000000e+00, 1.000000e+00]]]]> : tensor<1x1x3x3xf32>")
      << "the weights are turned by 180 degrees";
}

TEST(ImportNormTest, NormalizationsAreTheirFormulas) {
  EXPECT_EQ(
      Imported("(float[1,2,3,3] x, float[2] c) => (float[1,2,3,3] y) { y = InstanceNormalization(x, c, c) }").ops(),
      "reshape 1x2x1x1xf32, reshape 1x2x1x1xf32, reduce 1x2x1x1xf32, sub 1x2x3x3xf32, mul 1x2x3x3xf32, reduce 1x2x1x1xf32, "
      "add 1x2x1x1xf32, sqrt 1x2x1x1xf32, div 1x2x3x3xf32, mul 1x2x3x3xf32, add 1x2x3x3xf32");
  Imported lrn("(float[1,8,3,3] x) => (float[1,8,3,3] y) { y = LRN <size = 4> (x) }");
  EXPECT_EQ(lrn.ops(), "mul 1x8x3x3xf32, transpose 1x3x3x8xf32, reshape 1x1x9x8xf32, average_pool 1x1x9x8xf32, "
                       "reshape 1x3x3x8xf32, transpose 1x8x3x3xf32, mul 1x8x3x3xf32, add 1x8x3x3xf32, sqrt 1x8x3x3xf32, sqrt "
                       "1x8x3x3xf32, mul 1x8x3x3xf32, div 1x8x3x3xf32");
  // floor and ceiling of (4 - 1) / 2.
  EXPECT_EQ(lrn.attr("average_pool", "pads"), "array<i64: 0, 1, 0, 2>");
}

TEST(ImportNormTest, BatchNormalization) {
  Imported m(
      "(float[1,3,2,2] x, float[3] c) => (float[1,3,2,2] y) { y = BatchNormalization <epsilon = 0.25> (x, c, c, c, c) }");
  EXPECT_EQ(m.ops(), "batch_norm 1x3x2x2xf32");
  EXPECT_EQ(m.attr("batch_norm", "epsilon"), "2.500000e-01 : f32");
}

//===----------------------------------------------------------------------===//
// Element by element
//===----------------------------------------------------------------------===//

TEST(ImportMathTest, BinaryOperatorsBroadcast) {
  for (const char *op : {"Add", "Sub", "Mul", "Div", "Max", "Min"}) {
    std::string lower = op;
    lower[0] = char(lower[0] + 'a' - 'A');
    EXPECT_EQ(Imported("(float[2,1,4] x, float[3,1] z) => (float[2,3,4] y) { y = " + std::string(op) + "(x, z) }").ops(),
              lower + " 2x3x4xf32");
  }
}

TEST(ImportMathTest, VariadicOperatorsAreChains) {
  EXPECT_EQ(ops("float[2]", "y = Sum(x, x, x)"), "add 2xf32, add 2xf32");
  EXPECT_EQ(ops("float[2]", "y = Max(x)"), "");
  EXPECT_EQ(ops("float[2]", "y = Mean(x, x)"), "add 2xf32, div 2xf32");
}

TEST(ImportMathTest, UnaryOperators) {
  for (auto [onnx, graph] : {std::pair("Relu", "relu"),
                             {"Sigmoid", "sigmoid"},
                             {"Tanh", "tanh"},
                             {"Exp", "exp"},
                             {"Sqrt", "sqrt"},
                             {"Neg", "neg"},
                             {"Abs", "abs"},
                             {"Floor", "floor"},
                             {"Erf", "erf"},
                             {"HardSigmoid", "hard_sigmoid"},
                             {"LeakyRelu", "leaky_relu"},
                             {"HardSwish", "hard_swish"}})
    EXPECT_EQ(ops("float[2,3]", std::string("y = ") + onnx + "(x)", 14), std::string(graph) + " 2x3xf32");
}

TEST(ImportMathTest, DefaultsOfTheActivations) {
  Imported hard("(float[2] x) => (float[2] y) { y = HardSigmoid(x) }");
  EXPECT_EQ(hard.attr("hard_sigmoid", "alpha"), "2.000000e-01 : f32");
  EXPECT_EQ(hard.attr("hard_sigmoid", "beta"), "5.000000e-01 : f32");
  Imported leaky("(float[2] x) => (float[2] y) { y = LeakyRelu(x) }");
  EXPECT_EQ(leaky.attr("leaky_relu", "alpha"), "0.00999999977 : f32");
}

TEST(ImportMathTest, ClipBoundsAreAttributesThenInputs) {
  Imported old("(float[2] x) => (float[2] y) { y = Clip <min = 0.0, max = 6.0> (x) }", 9);
  EXPECT_EQ(old.ops(), "clip 2xf32");
  EXPECT_EQ(old.attr("clip", "max"), "6.000000e+00 : f32");
  Imported later("(float[2] x) => (float[2] y) { hi = Constant <value = float {6.0}> () y = Clip(x, , hi) }", 12);
  EXPECT_EQ(later.attr("clip", "max"), "6.000000e+00 : f32");
  EXPECT_EQ(later.attr("clip", "min"), "0xFF800000 : f32") << "no lower bound";
  EXPECT_EQ(Imported("(float[2] x, float lo) => (float[2] y) { y = Clip(x, lo) }", 12).ops(), "max 2xf32");
}

TEST(ImportMathTest, PowersThatAreOtherOperators) {
  EXPECT_EQ(ops("float[2]", "e = Constant <value = float {2.0}> () y = Pow(x, e)"), "mul 2xf32");
  // Minus infinity to the power of 0.5 is infinity: its root is not, so it is lifted where it may come.
  EXPECT_EQ(ops("float[2]", "e = Constant <value = float {0.5}> () y = Pow(x, e)"),
            "min 2xf32, add 2xf32, sub 2xf32, max 2xf32, add 2xf32, sqrt 2xf32");
  EXPECT_EQ(ops("float[2]", "e = Constant <value = float {0.5}> () s = Mul(x, x) y = Pow(s, e)"), "mul 2xf32, sqrt 2xf32");
  EXPECT_EQ(ops("float[2]", "e = Constant <value = float {3.0}> () y = Pow(x, e)"), "mul 2xf32, mul 2xf32");
  EXPECT_EQ(ops("float[2]", "e = Constant <value = float {-1.0}> () y = Pow(x, e)"), "div 2xf32");
  EXPECT_EQ(ops("float[2]", "e = Constant <value = float[2] {1.0, 2.0}> () y = Pow(x, e)"),
            "max 2xf32, min 2xf32, max 2xf32, min 2xf32, mul 2xf32, mul 2xf32");
  EXPECT_EQ(ops("float[2]", "e = Constant <value = float {2.5}> () y = Pow(x, e)"), "elementwise 2xf32");
}

TEST(ImportMathTest, MatMulAndGemm) {
  EXPECT_EQ(Imported("(float[5,2,3] a, float[3,4] b) => (float[5,2,4] y) { y = MatMul(a, b) }").ops(), "matmul 5x2x4xf32");
  EXPECT_EQ(
      Imported("(float[3,2] a, float[4,3] b, float[4] c) => (float[2,4] y) { y = Gemm <transA = 1, transB = 1> (a, b, c) }")
          .ops(),
      "transpose 2x3xf32, transpose 3x4xf32, matmul 2x4xf32, add 2x4xf32");
  EXPECT_EQ(
      Imported("(float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y) { y = Gemm <alpha = 2.0, beta = 0.0> (a, b, c) }")
          .ops(),
      "matmul 2x4xf32, mul 2x4xf32");
  EXPECT_EQ(Imported("(float[2,3] a, float[3,4] b, float[1] c) => (float[2,4] y) { y = Gemm <beta = 3.0> (a, b, c) }").ops(),
            "matmul 2x4xf32, mul 1xf32, add 2x4xf32");
}

TEST(ImportMathTest, ConstantWeightsAreTransposedAtOnce) {
  Imported m("(float[1,2] x) => (float[1,3] y) { w = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> () y = Gemm <transB = 1> "
             "(x, w) }");
  EXPECT_EQ(m.ops(), "matmul 1x3xf32");
  EXPECT_EQ(m.attr("constant", "value"), "dense<[[1.000000e+00, 3.000000e+00, 5.000000e+00], [2.000000e+00, "
                                         "4.000000e+00, 6.000000e+00]]> : tensor<2x3xf32>");
}

TEST(ImportMathTest, SoftmaxBelowOpset13TakesAllTrailingDims) {
  EXPECT_EQ(ops("float[2,3,4]", "y = Softmax(x)", 11), "reshape 2x12xf32, softmax 2x12xf32, reshape 2x3x4xf32");
  EXPECT_EQ(ops("float[2,3,1]", "y = Softmax(x)", 11), "softmax 2x3x1xf32");
  Imported m("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }", 13);
  EXPECT_EQ(m.ops(), "softmax 2x3x4xf32");
  EXPECT_EQ(m.attr("softmax", "axis"), "2 : i64");
}

TEST(ImportMathTest, ReductionsTakeAxesFromAttributeOrInput) {
  EXPECT_EQ(ops("float[2,3,4]", "y = ReduceMean <axes = [-1], keepdims = 0> (x)", 13), "reduce 2x3xf32");
  EXPECT_EQ(ops("float[2,3,4]", "a = Constant <value = int64[2] {0, 2}> () y = ReduceSum(x, a)", 13), "reduce 1x3x1xf32");
  EXPECT_EQ(ops("float[2,3,4]", "a = Constant <value = int64[1] {1}> () y = ReduceMax(x, a)", 18), "reduce 2x1x4xf32");
  EXPECT_EQ(ops("float[2,3]", "y = ReduceMin <keepdims = 0> (x)", 13), "neg 2x3xf32, reduce f32, neg f32");
  EXPECT_EQ(ops("float[2,3]", "y = ReduceL2 <axes = [1]> (x)", 13), "mul 2x3xf32, reduce 2x1xf32, sqrt 2x1xf32");
}

TEST(ImportMathTest, LayerNormalizationIsItsFunctionBody) {
  EXPECT_EQ(Imported("(float[2,3] x, float[3] s, float[3] b) => (float[2,3] y) { y = LayerNormalization(x, s, b) }", 17).ops(),
            "reduce 2x1xf32, sub 2x3xf32, mul 2x3xf32, reduce 2x1xf32, add 2x1xf32, sqrt 2x1xf32, div 2x3xf32, mul 2x3xf32, "
            "add 2x3xf32");
}

//===----------------------------------------------------------------------===//
// Moving data
//===----------------------------------------------------------------------===//

TEST(ImportDataTest, Reshape) {
  EXPECT_EQ(ops("float[2,3,4]", "s = Constant <value = int64[2] {0, -1}> () y = Reshape(x, s)"), "reshape 2x12xf32");
  EXPECT_EQ(ops("float[2,3,4]", "y = Flatten <axis = 2> (x)"), "reshape 6x4xf32");
  EXPECT_EQ(ops("float[2,3,4]", "y = Flatten <axis = 0> (x)"), "reshape 1x24xf32");
  EXPECT_EQ(ops("float[2,3]", "s = Constant <value = int64[2] {2, 3}> () y = Reshape(x, s)"), "") << "nothing changes";
}

TEST(ImportDataTest, SqueezeAndUnsqueezeTakeAxesFromAttributeOrInput) {
  EXPECT_EQ(ops("float[1,3,1]", "y = Squeeze <axes = [0]> (x)", 11), "reshape 3x1xf32");
  EXPECT_EQ(ops("float[1,3,1]", "y = Squeeze(x)", 13), "reshape 3xf32");
  EXPECT_EQ(ops("float[3]", "y = Unsqueeze <axes = [0, 2]> (x)", 11), "reshape 1x3x1xf32");
  EXPECT_EQ(ops("float[3]", "a = Constant <value = int64[1] {-1}> () y = Unsqueeze(x, a)", 13), "reshape 3x1xf32");
}

TEST(ImportDataTest, TransposeWithoutPermReverses) {
  EXPECT_EQ(ops("float[2,3,4]", "y = Transpose(x)"), "transpose 4x3x2xf32");
  EXPECT_EQ(ops("float[2,3,4]", "y = Transpose <perm = [1, 0, 2]> (x)"), "transpose 3x2x4xf32");
}

TEST(ImportDataTest, SliceClampsAndCountsFromTheEnd) {
  Imported old("(float[4,10] x) => (float[2,9] y) { y = Slice <starts = [-3, 1], ends = [-1, 1000]> (x) }", 9);
  EXPECT_EQ(old.ops(), "slice 2x9xf32");
  EXPECT_EQ(old.attr("slice", "starts"), "array<i64: 1, 1>");
  Imported back(
      "(float[5] x) => (float[3] y) { s = Constant <value = int64[1] {-1}> () e = Constant <value = int64[1] {-100}> ()"
      " a = Constant <value = int64[1] {0}> () p = Constant <value = int64[1] {-2}> () y = Slice(x, s, e, a, p) }");
  // Elements 4, 2, 0.
  EXPECT_EQ(back.ops(), "slice 3xf32");
  EXPECT_EQ(back.attr("slice", "starts"), "array<i64: 4>");
  EXPECT_EQ(back.attr("slice", "steps"), "array<i64: -2>");
}

TEST(ImportDataTest, SplitIsSlices) {
  EXPECT_EQ(Imported("(float[2,6] x) => (float[2,2] y, float[2,4] z) { s = Constant <value = int64[2] {2, 4}> () y, z = Split "
                     "<axis = 1> (x, s) }")
                .ops(),
            "slice 2x2xf32, slice 2x4xf32");
  EXPECT_EQ(
      Imported("(float[2,7] x) => (float[2,4] y, float[2,3] z) { y, z = Split <axis = 1, num_outputs = 2> (x) }", 18).ops(),
      "slice 2x4xf32, slice 2x3xf32");
}

TEST(ImportDataTest, GatherOfAProgressionIsASlice) {
  EXPECT_EQ(ops("float[4,5]", "i = Constant <value = int64 {-1}> () y = Gather <axis = 1> (x, i)"),
            "slice 4x1xf32, reshape 4xf32");
  EXPECT_EQ(ops("float[4,5]", "i = Constant <value = int64[3] {0, 2, 4}> () y = Gather <axis = 1> (x, i)"), "slice 4x3xf32");
  EXPECT_EQ(ops("float[4,5]", "i = Constant <value = int64[3] {0, 1, 4}> () y = Gather <axis = 1> (x, i)"),
            "reshape 4x5x1xf32, gather 4x3x1xf32, reshape 4x3xf32");
}

TEST(ImportDataTest, PadTakesItsValueFromAttributeOrInput) {
  Imported old("(float[2,3] x) => (float[3,7] y) { y = Pad <pads = [0, 1, 1, 3], value = 2.0> (x) }", 10);
  EXPECT_EQ(old.ops(), "pad 3x7xf32");
  EXPECT_EQ(old.attr("pad", "low"), "array<i64: 0, 1>");
  EXPECT_EQ(old.attr("pad", "high"), "array<i64: 1, 3>");
  EXPECT_EQ(old.attr("pad", "value"), "2.000000e+00 : f32");
  EXPECT_EQ(ops("float[2,3]", "p = Constant <value = int64[4] {0, -1, 0, 2}> () y = Pad(x, p)"), "slice 2x2xf32, pad 2x4xf32");
  EXPECT_EQ(ops("float[2,3]", "p = Constant <value = int64[4] {0, 2, 0, 1}> () y = Pad <mode = \"reflect\"> (x, p)"),
            "slice 2x2xf32, slice 2x1xf32, concat 2x6xf32");
  EXPECT_EQ(ops("float[2,3]", "p = Constant <value = int64[4] {0, 2, 0, 0}> () y = Pad <mode = \"edge\"> (x, p)"),
            "slice 2x1xf32, concat 2x5xf32");
  EXPECT_EQ(ops("float[2,3]", "p = Constant <value = int64[4] {0, 0, 0, 0}> () y = Pad <mode = \"reflect\"> (x, p)"), "");
}

TEST(ImportDataTest, ConcatTileExpandAndDepthToSpace) {
  EXPECT_EQ(ops("float[2,3]", "y = Concat <axis = -1> (x, x)"), "concat 2x6xf32");
  EXPECT_EQ(ops("float[2,3]", "r = Constant <value = int64[2] {1, 2}> () y = Tile(x, r)"), "concat 2x6xf32");
  EXPECT_EQ(ops("float[2,1]", "s = Constant <value = int64[3] {4, 1, 3}> () y = Expand(x, s)"), "mul 4x2x3xf32");
  EXPECT_EQ(ops("float[1,8,2,3]", "y = DepthToSpace <blocksize = 2> (x)"),
            "reshape 1x2x2x2x2x3xf32, transpose 1x2x2x2x3x2xf32, reshape 1x2x4x6xf32");
}

TEST(ImportDataTest, ResizeByAWholeFactorRepeatsElements) {
  EXPECT_EQ(ops("float[1,1,2,3]", "r = Constant <value = float[0] {}> () s = Constant <value = float[4] {1, 1, 2, 1}> ()"
                                  " y = Resize <mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", "
                                  "nearest_mode = \"floor\"> (x, r, s)"),
            "reshape 1x1x2x1x3xf32, concat 1x1x2x2x3xf32, reshape 1x1x4x3xf32");
  EXPECT_EQ(ops("float[1,1,2,3]", "r = Constant <value = float[0] {}> () s = Constant <value = float[4] {1, 1, 2, 1}> ()"
                                  " y = Resize <mode = \"linear\"> (x, r, s)"),
            "fallback 1x1x4x3xf32");
  EXPECT_EQ(ops("float[1,1,2,3]", "s = Constant <value = float[4] {1, 1, 1, 2}> () y = Upsample(x, s)", 9),
            "reshape 1x1x2x3x1xf32, concat 1x1x2x3x2xf32, reshape 1x1x2x6xf32");
  // 2.3 x 3 positions are 6, but 0 0 0 1 1 2, not each one twice.
  EXPECT_EQ(ops("float[1,1,2,3]", "r = Constant <value = float[0] {}> () s = Constant <value = float[4] {1, 1, 1, 2.3}> ()"
                                  " y = Resize <mode = \"nearest\", coordinate_transformation_mode = \"asymmetric\", "
                                  "nearest_mode = \"floor\"> (x, r, s)"),
            "fallback 1x1x2x6xf32");
}

TEST(ImportDataTest, IdentityDropoutAndCastsToTheSameTypeVanish) {
  EXPECT_EQ(ops("float[2]", "a = Identity(x) b = Dropout(a) y = Cast <to = 1> (b)"), "");
  EXPECT_EQ(Imported("(float[2] x) => (int32[2] y) { y = Cast <to = 6> (x) }").ops(), "cast 2xi32");
}

TEST(ImportDataTest, ShapeArithmeticIsFolded) {
  // The exporter's way of writing x.view(x.size(0), -1).
  EXPECT_EQ(ops("float[2,3,4]", "s = Shape(x) z = Constant <value = int64 {0}> () n = Gather(s, z)"
                                " a = Constant <value = int64[1] {0}> () u = Unsqueeze(n, a)"
                                " m = Constant <value = int64[1] {-1}> () t = Concat <axis = 0> (u, m) y = Reshape(x, t)"),
            "reshape 2x12xf32");
}

//===----------------------------------------------------------------------===//
// Quantised operators
//===----------------------------------------------------------------------===//

TEST(ImportQuantizedTest, QuantizeAndDequantizePerAxis) {
  Imported m("(float[2,3] x) => (float[2,3] y) { s = Constant <value = float[3] {0.5, 0.25, 1.0}> ()"
             " z = Constant <value = int8[3] {0, 1, -2}> () q = QuantizeLinear <axis = -1> (x, s, z)"
             " y = DequantizeLinear <axis = 1> (q, s, z) }");
  EXPECT_EQ(m.ops(), "quantize 2x3xi8, dequantize 2x3xf32");
  EXPECT_EQ(m.attr("quantize", "axis"), "1 : i64");
  EXPECT_EQ(m.attr("quantize", "zero_points"), "array<i32: 0, 1, -2>");
}

TEST(ImportQuantizedTest, QuantizeWithoutZeroPointGivesUint8) {
  EXPECT_EQ(Imported("(float[2] x) => (uint8[2] y) { s = Constant <value = float {0.5}> () y = QuantizeLinear(x, s) }").ops(),
            "quantize 2xui8");
}

TEST(ImportQuantizedTest, QuantizedWeightsAreFoldedToIntegers) {
  // 0.75 / 0.5 = 1.5 and 1.25 / 0.5 = 2.5 are both rounded to 2; 100 / 0.5 saturates.
  Imported m("() => (uint8[4] y) { x = Constant <value = float[4] {0.75, 1.25, -1.0, 100.0}> ()"
             " s = Constant <value = float {0.5}> () z = Constant <value = uint8 {1}> () y = QuantizeLinear(x, s, z) }");
  EXPECT_EQ(m.constantResult(), "dense<[3, 3, 0, 201]> : tensor<4xui8>");
}

TEST(ImportQuantizedTest, QLinearConvIsIntegerConvAndRequantize) {
  Imported m("(uint8[1,1,3,3] x) => (uint8[1,2,3,3] y) {"
             " xs = Constant <value = float {0.5}> () xz = Constant <value = uint8 {128}> ()"
             " w = Constant <value = int8[2,1,1,1] {1, -1}> () ws = Constant <value = float[2] {0.5, 0.25}> ()"
             " wz = Constant <value = int8[2] {0, 0}> () ys = Constant <value = float {2.0}> ()"
             " yz = Constant <value = uint8 {3}> () b = Constant <value = int32[2] {7, 8}> ()"
             " y = QLinearConv(x, xs, xz, w, ws, wz, ys, yz, b) }");
  EXPECT_EQ(m.ops(), "conv_integer 1x2x3x3xi32, requantize 1x2x3x3xui8");
  EXPECT_EQ(m.attr("conv_integer", "x_zero_point"), "128 : i32");
  EXPECT_EQ(m.attr("conv_integer", "w_zero_points"), "array<i32: 0>");
  // 0.5 * 0.5 / 2 and 0.5 * 0.25 / 2.
  EXPECT_EQ(m.attr("requantize", "multipliers"), "array<f32: 1.250000e-01, 6.250000e-02>");
  EXPECT_EQ(m.attr("requantize", "zero_point"), "3 : i32");
}

TEST(ImportQuantizedTest, IntegerMatrixProducts) {
  EXPECT_EQ(Imported("(uint8[2,3] a, int8[3,4] b) => (int32[2,4] y) { y = MatMulInteger(a, b) }").ops(),
            "matmul_integer 2x4xi32");
  const std::string dynamic =
      Imported("(uint8[2,3] a, int8[3,4] b, uint8 zero) => (int32[2,4] y) { y = MatMulInteger(a, b, zero) }").ops();
  EXPECT_NE(dynamic.find("matmul_integer 2x4xi32"), std::string::npos) << dynamic;
  EXPECT_EQ(dynamic.find("fallback"), std::string::npos) << dynamic;
  EXPECT_EQ(Imported("(uint8[1,1,4,4] x, int8[1,1,3,3] w) => (int32[1,1,2,2] y) { y = ConvInteger(x, w) }").ops(),
            "conv_integer 1x1x2x2xi32");
  Imported m(
      "(int8[2,3] a, int8[3,2] b) => (int8[2,2] y) { s = Constant <value = float {0.5}> () z = Constant <value = int8 {1}> ()"
      " t = Constant <value = float[2] {0.5, 1.0}> () u = Constant <value = int8[2] {0, 2}> ()"
      " y = QLinearMatMul(a, s, z, b, t, u, s, z) }");
  EXPECT_EQ(m.ops(), "matmul_integer 2x2xi32, requantize 2x2xi8");
  EXPECT_EQ(m.attr("requantize", "axis"), "1 : i64");
  EXPECT_EQ(m.attr("matmul_integer", "b_zero_points"), "array<i32: 0, 2>");
}

TEST(ImportQuantizedTest, QGemmGivesIntegersOrFloats) {
  std::string constants = " s = Constant <value = float {0.5}> () z = Constant <value = uint8 {1}> ()"
                          " b = Constant <value = uint8[2,3] {1, 2, 3, 4, 5, 6}> () c = Constant <value = int32[2] {7, 8}> ()";
  Imported integer("(uint8[1,3] a) => (uint8[1,2] y) {" + constants +
                   " y = com.microsoft.QGemm <transB = 1> (a, s, z, b, s, z, c, s, z) }");
  EXPECT_EQ(integer.ops(), "matmul_integer 1x2xi32, requantize 1x2xui8");
  EXPECT_EQ(integer.attr("requantize", "multipliers"), "array<f32: 5.000000e-01>");
  Imported real("(uint8[1,3] a) => (float[1,2] y) {" + constants +
                " y = com.microsoft.QGemm <transB = 1> (a, s, z, b, s, z, c) }");
  EXPECT_EQ(real.ops(), "matmul_integer 1x2xi32, add 1x2xi32, dequantize 1x2xf32");
  EXPECT_EQ(real.attr("dequantize", "scales"), "array<f32: 2.500000e-01>");
}

TEST(ImportQuantizedTest, OperatorsOfOnnxRuntime) {
  std::string constants = " s = Constant <value = float {0.5}> () z = Constant <value = uint8 {1}> ()";
  auto run = [&](const std::string &result, const std::string &body) {
    return Imported("(uint8[1,2,4,4] x) => (" + result + " y) {" + constants + body + " }").ops();
  };
  EXPECT_EQ(run("uint8[1,2,4,4]", " y = com.microsoft.QLinearAdd(x, s, z, x, s, z, s, z)"), "qlinear_add 1x2x4x4xui8");
  EXPECT_EQ(
      run("uint8[1,2,2,2]", " y = com.microsoft.QLinearAveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x, s, z, s, z)"),
      "qlinear_average_pool 1x2x2x2xui8");
  EXPECT_EQ(run("uint8[1,2,1,1]", " y = com.microsoft.QLinearGlobalAveragePool(x, s, z, s, z)"),
            "qlinear_global_average_pool 1x2x1x1xui8");
  EXPECT_EQ(run("uint8[1,2,4,4]", " y = com.microsoft.QLinearSoftmax <axis = -1, opset = 13> (x, s, z, s, z)"),
            "qlinear_softmax 1x2x4x4xui8");
  EXPECT_EQ(run("float[1,2,4,4]", " y = com.microsoft.DequantizeLinear(x, s, z)"), "dequantize 1x2x4x4xf32");
  EXPECT_EQ(run("uint8[1,4,4,4]", " y = com.microsoft.QLinearConcat <axis = 1> (s, z, x, s, z, x, s, z)"),
            "concat 1x4x4x4xui8");
  EXPECT_EQ(run("uint8[1,2,4,4]", " y = com.microsoft.QLinearSigmoid(x, s, z, s, z)"),
            "dequantize 1x2x4x4xf32, sigmoid 1x2x4x4xf32, quantize 1x2x4x4xui8");
}

//===----------------------------------------------------------------------===//
// The model as a whole
//===----------------------------------------------------------------------===//

TEST(ImportModelTest, NamesAreKept) {
  onnx::ModelProto model = modelOf("(float[2] x) => (float[2] y) { y = Relu(x) }");
  model.mutable_graph()->mutable_node(0)->set_name("first relu");
  Imported m(model);
  auto function = m.function();
  EXPECT_EQ(function.getName(), "main");
  EXPECT_EQ(function.getArgAttrOfType<mlir::StringAttr>(0, graph::kNameAttr).getValue(), "x");
  EXPECT_EQ(function.getResultAttrOfType<mlir::StringAttr>(0, graph::kNameAttr).getValue(), "y");
  auto relu = *function.getOps<graph::ReluOp>().begin();
  EXPECT_EQ(mlir::cast<mlir::NameLoc>(relu.getLoc()).getName().getValue(), "first relu");
}

TEST(ImportModelTest, NodeWithoutNameIsCalledAfterItsResult) {
  Imported m("(float[2] x) => (float[2] y) { y = Relu(x) }");
  auto function = m.function();
  auto relu = *function.getOps<graph::ReluOp>().begin();
  EXPECT_EQ(mlir::cast<mlir::NameLoc>(relu.getLoc()).getName().getValue(), "y");
}

TEST(ImportModelTest, HalfPrecisionIsWidened) {
  const char *graph = "(float16[2] x) => (float16[2] y) { h = Cast <to = 1> (x) i = Relu(h) y = Cast <to = 10> (i) }";
  Imported wide(graph);
  EXPECT_EQ(wide.ops(), "relu 2xf32");
  auto function = wide.function();
  EXPECT_EQ(function.getArgAttrOfType<mlir::StringAttr>(0, graph::kWidenedFromAttr).getValue(), "float16");
  EXPECT_EQ(function.getResultAttrOfType<mlir::StringAttr>(0, graph::kWidenedFromAttr).getValue(), "float16");
  ImportOptions keep;
  keep.widenFloats = false;
  EXPECT_EQ(Imported(graph, 13, keep).ops(), "cast 2xf32, relu 2xf32, cast 2xf16");
}

TEST(ImportModelTest, BfloatIsComputedInFloat) {
  Imported m("(bfloat16[2] x) => (bfloat16[2] y) { y = Relu(x) }");
  EXPECT_EQ(m.ops(), "cast 2xf32, relu 2xf32, cast 2xbf16");
  EXPECT_FALSE(m.function().getArgAttr(0, graph::kWidenedFromAttr));
  // What no operator computes with does not change.
  EXPECT_EQ(
      Imported("(bfloat16[2] x) => (bfloat16[1,2] y) { s = Constant <value = int64[2] {1, 2}> () y = Reshape(x, s) }").ops(),
      "cast 2xf32, reshape 1x2xf32, cast 1x2xbf16");
}

TEST(ImportModelTest, CastsToNarrowFloatsRound) {
  EXPECT_EQ(Imported("(float[2] x) => (float[2] y) { b = Cast <to = 16> (x) r = Relu(b) y = Cast <to = 1> (r) }").ops(),
            "cast 2xbf16, cast 2xf32, relu 2xf32");
  EXPECT_EQ(Imported("(float[2] x) => (float[2] y) { h = Cast <to = 10> (x) y = Cast <to = 1> (h) }").ops(),
            "cast 2xf16, cast 2xf32");
  // The type that is asked for is the model's, not what it is imported as.
  EXPECT_EQ(
      Imported("(float[2] x, float16[1] t) => (float[2] y) { u = Neg(t) h = CastLike(x, u) y = Cast <to = 1> (h) }", 15).ops(),
      "neg 1xf32, cast 2xf16, cast 2xf32");
  EXPECT_EQ(Imported("() => (float[2] y) { c = Constant <value = float[2] {0.1, 70000.0}> () h = Cast <to = 10> (c) y = Cast "
                     "<to = 1> (h) }")
                .constantResult(),
            "dense<[0.0999755859, 0x7F800000]> : tensor<2xf32>");
}

TEST(ImportModelTest, BoundsAndPadsOfIntegersAreExact) {
  EXPECT_EQ(Imported("(int32[2] x) => (int32[2] y) { c = Constant <value = int32 {16777217}> () y = Clip(x, c) }").ops(),
            "max 2xi32");
  EXPECT_EQ(Imported("(int32[2] x) => (int32[2] y) { c = Constant <value = int32 {16777216}> () y = Clip(x, c) }").ops(),
            "clip 2xi32");
  EXPECT_EQ(Imported("(int64[2] x) => (int64[4] y) { p = Constant <value = int64[2] {1, 1}> ()"
                     " v = Constant <value = int64 {9007199254740993}> () y = Pad(x, p, v) }")
                .attr("pad", "value"),
            "9007199254740993 : i64");
  EXPECT_EQ(
      Imported("() => (int64[2] y) { a = Constant <value = int64 {9007199254740993}> ()"
               " b = Constant <value = int64 {9007199254740995}> () d = Constant <value = int64 {1}> () y = Range(a, b, d) }")
          .constantResult(),
      "dense<[9007199254740993, 9007199254740994]> : tensor<2xi64>");
}

TEST(ImportModelTest, InitializersOfOldModelsAreInputsToo) {
  onnx::ModelProto model = modelOf("(float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }");
  onnx::TensorProto *w = model.mutable_graph()->add_initializer();
  w->set_name("w");
  w->add_dims(2);
  w->set_data_type(onnx::TensorProto::FLOAT);
  w->add_float_data(1);
  w->add_float_data(2);
  Imported m(model);
  EXPECT_EQ(m.ops(), "add 2xf32");
  EXPECT_EQ(m.function().getNumArguments(), 1u);
}

TEST(ImportModelTest, TypedFieldsOfInitializersAreRead) {
  auto constant = [](int type, auto fill) {
    onnx::ModelProto model = modelOf("() => (float[2] y) { y = Cast <to = 1> (w) }");
    model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    onnx::TensorProto *w = model.mutable_graph()->add_initializer();
    w->set_name("w");
    w->add_dims(2);
    w->set_data_type(type);
    fill(*w);
    return Imported(model).constantResult();
  };
  const std::string expected = "dense<[1.000000e+00, -2.000000e+00]> : tensor<2xf32>";
  auto ints = [](onnx::TensorProto &w, int a, int b) {
    w.add_int32_data(a);
    w.add_int32_data(b);
  };
  // 1 and -2 as halves, and as bfloat16.
  EXPECT_EQ(constant(onnx::TensorProto::FLOAT16, [&](auto &w) { ints(w, 0x3c00, 0xc000); }), expected);
  EXPECT_EQ(constant(onnx::TensorProto::BFLOAT16, [&](auto &w) { ints(w, 0x3f80, 0xc000); }), expected);
  EXPECT_EQ(constant(onnx::TensorProto::INT8, [&](auto &w) { ints(w, 1, -2); }), expected);
  EXPECT_EQ(constant(onnx::TensorProto::INT32, [&](auto &w) { ints(w, 1, -2); }), expected);
  EXPECT_EQ(constant(onnx::TensorProto::INT64,
                     [&](auto &w) {
                       w.add_int64_data(1);
                       w.add_int64_data(-2);
                     }),
            expected);
  EXPECT_EQ(constant(onnx::TensorProto::DOUBLE,
                     [&](auto &w) {
                       w.add_double_data(1);
                       w.add_double_data(-2);
                     }),
            expected);
}

TEST(ImportModelTest, OpenDimsAreFixedByShape) {
  ImportOptions options;
  options.shapes["x"] = {2, 3};
  EXPECT_EQ(Imported("(float[N,3] x) => (float[N,3] y) { y = Relu(x) }", 13, options).ops(), "relu 2x3xf32");
}

TEST(ImportModelTest, InputsCanBeBoundToConstants) {
  ImportOptions options;
  HostTensor shape{"s", ElementKind::I64, {1}, {6, 0, 0, 0, 0, 0, 0, 0}};
  options.constants["s"] = shape;
  Imported m("(float[2,3] x, int64[1] s) => (float[6] y) { y = Reshape(x, s) }", 13, options);
  EXPECT_EQ(m.ops(), "reshape 6xf32");
}

TEST(ImportModelTest, UnknownOperatorWithDeclaredResultIsAFallback) {
  Imported m("(float[2] x) => (float[4] y) { y = Frobnicate <level = 3> (x) }");
  EXPECT_EQ(m.ops(), "fallback 4xf32");
  EXPECT_EQ(m.attr("fallback", "onnx_op"), "\"Frobnicate\"");
  EXPECT_EQ(m.attr("fallback", "node_attributes"), "{level = 3 : i64}");
}

TEST(ImportModelTest, OutputsMayBeInputsOrConstants) {
  Imported m("(float[2] x) => (float[2] x, float[1] c) { c = Constant <value = float[1] {1.0}> () }");
  EXPECT_EQ(m.ops(), "");
  EXPECT_EQ(m.constantResult(1), "dense<1.000000e+00> : tensor<1xf32>");
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// y = F(x) of a constant x of four zeros [2, 2]; F is Softmax along axis 0, with `isInGraph` in both branches of an If.
static onnx::ModelProto modelWithSoftmax(int opset, int functionOpset, bool isInGraph = false) {
  onnx::ModelProto model =
      modelOf("() => (float[2,2] y) { x = Constant <value = float[2,2] {0, 0, 0, 0}> () y = Relu (x) }", opset);
  onnx::NodeProto &call = *model.mutable_graph()->mutable_node(1);
  call.set_op_type("F");
  call.set_domain("local");
  onnx::OperatorSetIdProto &local = *model.add_opset_import();
  local.set_domain("local");
  local.set_version(1);
  onnx::FunctionProto &function = *model.add_functions();
  function.set_name("F");
  function.set_domain("local");
  function.add_input("a");
  function.add_output("b");
  function.add_opset_import()->set_version(functionOpset);
  onnx::NodeProto softmax;
  softmax.set_op_type("Softmax");
  softmax.add_input("a");
  softmax.add_output("b");
  onnx::AttributeProto &axis = *softmax.add_attribute();
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  if (!isInGraph) {
    *function.add_node() = softmax;
    return model;
  }
  onnx::NodeProto &condition = *function.add_node();
  condition.set_op_type("Constant");
  condition.add_output("c");
  onnx::AttributeProto &value = *condition.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  value.mutable_t()->set_data_type(onnx::TensorProto::BOOL);
  value.mutable_t()->add_int32_data(1);
  onnx::NodeProto &branches = *function.add_node();
  branches.set_op_type("If");
  branches.add_input("c");
  branches.add_output("b");
  softmax.set_output(0, "inner");
  for (const char *name : {"then_branch", "else_branch"}) {
    onnx::AttributeProto &branch = *branches.add_attribute();
    branch.set_name(name);
    branch.set_type(onnx::AttributeProto::GRAPH);
    *branch.mutable_g()->add_node() = softmax;
    branch.mutable_g()->add_output()->set_name("inner");
  }
  return model;
}

TEST(ImportFunctionTest, NodesAreOfTheVersionThatTheirFunctionImports) {
  // Equal numbers share 1: among all four up to opset 12, along axis 0 since.
  for (bool isInGraph : {false, true}) {
    EXPECT_EQ(Imported(modelWithSoftmax(13, 13, isInGraph)).constantResult(), "dense<5.000000e-01> : tensor<2x2xf32>");
    EXPECT_EQ(Imported(modelWithSoftmax(13, 12, isInGraph)).constantResult(), "dense<2.500000e-01> : tensor<2x2xf32>");
    EXPECT_EQ(Imported(modelWithSoftmax(12, 13, isInGraph)).constantResult(), "dense<5.000000e-01> : tensor<2x2xf32>");
  }
}

TEST(ImportFunctionTest, VersionsThatNothingKnowsAreRefused) {
  EXPECT_EQ(Imported(modelWithSoftmax(13, 29)).error, "test.onnx: node \"y\" (Softmax): opset is 29, expected 7 to 28");
}

} // namespace tw::frontend
