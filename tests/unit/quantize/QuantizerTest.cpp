//===- QuantizerTest.cpp - Which tensors become int8, and with what scale -===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/quantize/Quantizer.h"
#include "compiler/frontend/OnnxTensor.h"
#include "tests/unit/frontend/TestModels.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

using namespace tw;
using namespace tw::quantize;
using frontend::HostTensor;
using frontend::modelOf;

namespace {

/// A model quantised with given ranges; tensors without one get -1 to 1.
struct Quantised {
  std::string error;
  onnx::ModelProto model;
  std::vector<std::string> tensors;
  Summary summary;

  explicit Quantised(const std::string &graph, const Ranges &given = {}, int opset = 17)
      : Quantised(modelOf(graph, opset), given) {}
  explicit Quantised(const onnx::ModelProto &source, const Ranges &given = {}) {
    auto quantizer = Quantizer::create(source.SerializeAsString(), "test.onnx");
    if (!quantizer) {
      error = llvm::toString(quantizer.takeError());
      return;
    }
    Ranges ranges = given;
    for (const std::string &tensor : (*quantizer)->tensors())
      ranges.emplace(tensor, Range{-1, 1});
    tensors = (*quantizer)->tensors();
    model.ParseFromString((*quantizer)->quantize(ranges));
    summary = (*quantizer)->summary();
    frontend::Imported imported(model);
    EXPECT_EQ(imported.error, "") << "the quantised model must be a model";
  }

  /// Operators but for QuantizeLinear and DequantizeLinear.
  std::string ops() const {
    std::string text = error;
    for (const onnx::NodeProto &node : model.graph().node())
      if (node.op_type() != "QuantizeLinear" && node.op_type() != "DequantizeLinear")
        text += (text.empty() ? "" : " ") + node.op_type();
    return text;
  }

  const onnx::NodeProto *producer(const std::string &tensor) const {
    for (const onnx::NodeProto &node : model.graph().node())
      if (std::find(node.output().begin(), node.output().end(), tensor) != node.output().end())
        return &node;
    return nullptr;
  }

  /// The constant that input `index` of the producer of `tensor` is.
  template <typename T> std::vector<T> constant(const std::string &tensor, int index) const {
    const onnx::NodeProto *node = producer(tensor);
    if (!node || node->input_size() <= index)
      return {};
    for (const onnx::TensorProto &initializer : model.graph().initializer())
      if (initializer.name() == node->input(index)) {
        Result<HostTensor> host = frontend::decodeTensor(initializer);
        std::vector<T> values(host->bytes.size() / sizeof(T));
        std::memcpy(values.data(), host->bytes.data(), host->bytes.size());
        return values;
      }
    return {};
  }
  float scale(const std::string &tensor) const {
    auto values = constant<float>(tensor, 1);
    return values.size() == 1 ? values[0] : -1;
  }
  int zeroPoint(const std::string &tensor) const {
    auto values = constant<int8_t>(tensor, 2);
    return values.size() == 1 ? values[0] : 1000;
  }
  bool isInt8(const std::string &tensor) const { return std::find(tensors.begin(), tensors.end(), tensor) != tensors.end(); }
};

/// y = Conv(x) with 1x1 weights [[2, -1], [0.5, 0.25]] and bias [3, -1].
const char *const kConv = "(float[1,2,4,4] x) => (float[1,2,2,2] y) {"
                          " w = Constant <value = float[2,2,1,1] {2, -1, 0.5, 0.25}> ()"
                          " b = Constant <value = float[2] {3, -1}> ()"
                          " c = Conv (x, w, b)"
                          " y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c) }";

} // namespace

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

TEST(QuantizerTest, WeightsHaveOneScalePerOutputChannel) {
  Quantised q(kConv);
  std::string weights = q.producer("c_float")->input(1);
  EXPECT_EQ(q.constant<float>(weights, 1), (std::vector<float>{2 / 127.0f, 0.5f / 127.0f}));
  // 127 * -1 / 2 = -63.5 and 127 * 0.25 / 0.5 = 63.5, both ties: -64 and 64.
  EXPECT_EQ(q.constant<int8_t>(weights, 0), (std::vector<int8_t>{127, -64, 127, 64}));
}

TEST(QuantizerTest, BiasIsInUnitsOfBothScales) {
  Quantised q(kConv, {{"x", {-1, 1}}});
  std::string bias = q.producer("c_float")->input(2);
  float x = 2 / 255.0f;
  std::vector<float> units{x * (2 / 127.0f), x * (0.5f / 127.0f)};
  EXPECT_EQ(q.constant<float>(bias, 1), units);
  EXPECT_EQ(q.constant<int32_t>(bias, 0), (std::vector<int32_t>{int32_t(std::nearbyint(3 / double(units[0]))),
                                                                int32_t(std::nearbyint(-1 / double(units[1])))}));
}

TEST(QuantizerTest, ABiasFarAboveTheWeightsFitsItsIntegers) {
  Quantised q("(float[1,1,2,2] x) => (float[1,1,2,2] y) { w = Constant <value = float[1,1,1,1] {0.0000000001}> ()"
              " b = Constant <value = float[1] {100}> () y = Conv (x, w, b) }");
  std::vector<int32_t> bias = q.constant<int32_t>(q.producer("y")->input(2), 0);
  ASSERT_EQ(bias.size(), 1u);
  EXPECT_NEAR(double(bias[0]) * q.scale(q.producer("y")->input(2)), 100, 1e-4);
}

TEST(QuantizerTest, RangesContainZero) {
  Quantised q(kConv, {{"x", {1, 5.1f}}, {"c", {-2, -1}}});
  EXPECT_FLOAT_EQ(q.scale("x_dequantized"), 5.1f / 255);
  EXPECT_EQ(q.zeroPoint("x_dequantized"), -128);
  EXPECT_FLOAT_EQ(q.scale("c"), 2 / 255.0f);
  EXPECT_EQ(q.zeroPoint("c"), 127);
}

TEST(QuantizerTest, MatrixProductsWithABiasBehindThemAreIntegers) {
  Quantised q("(float[1,3,2] x) => (float[1,3,2] y) { w = Constant <value = float[2,2] {1, 2, 3, 4}> ()"
              " b = Constant <value = float[2] {1, 2}> () m = MatMul (x, w) y = Add (b, m) }");
  EXPECT_EQ(q.constant<float>(q.producer("m")->input(1), 1).size(), 2u);
  EXPECT_EQ(q.constant<int32_t>(q.producer("y")->input(0), 0).size(), 2u);
}

TEST(QuantizerTest, TransposedWeightsOfGemmHaveTheirChannelsFirst) {
  Quantised q("(float[1,2] x) => (float[1,3] y) { w = Constant <value = float[3,2] {1, 2, 3, 4, 5, 6}> () y = Gemm "
              "<transB = 1> (x, w) }");
  EXPECT_EQ(q.constant<float>(q.producer("y")->input(1), 1), (std::vector<float>{2 / 127.0f, 4 / 127.0f, 6 / 127.0f}));
}

//===----------------------------------------------------------------------===//
// Activations that saturation replaces
//===----------------------------------------------------------------------===//

static const std::string kClip =
    "(float[1,1,2,2] x) => (float[1,1,2,2] y) { w = Constant <value = float[1,1,1,1] {1}> ()"
    " c = Conv (x, w) lo = Constant <value = float {0.0}> () hi = Constant <value = float {6.0}> ()"
    " r = Clip (c, lo, hi) y = Conv (r, w) }";

TEST(QuantizerTest, AClipAtTheEndOfTheRangeDisappears) { EXPECT_EQ(Quantised(kClip, {{"r", {0, 6}}}).ops(), "Conv Conv"); }

TEST(QuantizerTest, AClipInsideTheRangeStays) { EXPECT_EQ(Quantised(kClip, {{"r", {0, 7}}}).ops(), "Conv Clip Conv"); }

TEST(QuantizerTest, AReluStaysWhereItsRangeIsSharedWithNegativeNumbers) {
  Quantised q("(float[1,1,2,2] x) => (float[1,1,2,2] y) { w = Constant <value = float[1,1,1,1] {1}> ()"
              " v = Constant <value = float[1,2,1,1] {1, 1}> () a = Conv (x, w) r = Relu (a) b = Conv (x, w)"
              " k = Concat <axis = 1> (r, b) y = Conv (k, v) }",
              {{"r", {0, 2}}, {"b", {-2, 1}}, {"k", {-2, 2}}});
  EXPECT_EQ(q.ops(), "Conv Relu Conv Concat Conv");
}

//===----------------------------------------------------------------------===//
// Which tensors are int8
//===----------------------------------------------------------------------===//

TEST(QuantizerTest, MovementsShareTheScaleOfTheirInput) {
  Quantised q("(float[1,1,4,4] x) => (float[1,2] y) { w = Constant <value = float[1,1,1,1] {1}> ()"
              " v = Constant <value = float[4,2] {1, 2, 3, 4, 5, 6, 7, 8}> () c = Conv (x, w)"
              " p = MaxPool <kernel_shape = [2,2], strides = [2,2]> (c) f = Flatten (p) y = Gemm (f, v) }",
              {{"c", {-3, 1}}, {"p", {-1, 1}}, {"f", {-1, 1}}});
  for (const char *tensor : {"c", "p", "f"})
    EXPECT_FLOAT_EQ(q.scale(tensor), 4 / 255.0f) << tensor;
}

TEST(QuantizerTest, PartsOfAConcatShareOneScale) {
  Quantised q("(float[1,1,2,2] x) => (float[1,1,2,2] y) { w = Constant <value = float[1,1,1,1] {1}> ()"
              " v = Constant <value = float[1,2,1,1] {1, 1}> () a = Conv (x, w) b = Conv (x, w) k = Concat <axis = 1> "
              "(a, b) y = Conv (k, v) }",
              {{"a", {-3, 1}}, {"b", {-1, 2}}, {"k", {-3, 2}}});
  for (const char *tensor : {"a", "b", "k"})
    EXPECT_FLOAT_EQ(q.scale(tensor), 5 / 255.0f) << tensor;
}

TEST(QuantizerTest, AResidualIsInt8AndTheSumItIsAddedToIsNot) {
  Quantised q("(float[1,1,2,2] x) => (float[1,1,2,2] y) { w = Constant <value = float[1,1,1,1] {1}> ()"
              " a = Conv (x, w) b = Conv (x, w) s = Add (a, b) r = Relu (s) y = Conv (r, w) }");
  // The later product carries the Add, its Relu and the quantisation in one kernel.
  EXPECT_EQ(q.tensors, (std::vector<std::string>{"x", "a", "r"}));
}

TEST(QuantizerTest, NormalisationAndSoftmaxReadFloats) {
  Quantised q("(float[1,4,4] x) => (float[1,4,4] y) { w = Constant <value = float[4,4] {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, "
              "2, 3, 4, 5, 6, 7}> ()"
              " g = Constant <value = float[4] {1, 1, 1, 1}> () a = MatMul (x, w) n = LayerNormalization (a, g) b = "
              "MatMul (n, w)"
              " s = Softmax (b) y = MatMul (s, n) }");
  EXPECT_EQ(q.tensors, (std::vector<std::string>{"x", "n", "s"}));
}

TEST(QuantizerTest, AResultThatNobodyReadsStaysFloat) {
  Quantised q("(float[1,2] x) => (float[1,2] y) { w = Constant <value = float[2,2] {1, 2, 3, 4}> () y = Gemm (x, w) }");
  EXPECT_EQ(q.producer("y")->op_type(), "Gemm");
}

TEST(QuantizerTest, AContractionThatCannotStaysFloatAndSaysWhy) {
  Quantised q("(float[2,2] x) => (float[2,2] y) { w = Constant <value = float[2,2] {1, 2, 3, 4}> ()"
              " a = MatMul (x, w) y = Gemm <alpha = 0.5> (a, w, w) }");
  ASSERT_EQ(q.summary.floating.size(), 1u);
  EXPECT_EQ(q.summary.floating[0].second, "its bias has not one number per output channel");
  EXPECT_EQ(q.summary.integer.at("MatMul"), 1u);
}

//===----------------------------------------------------------------------===//
// Models that are refused
//===----------------------------------------------------------------------===//

TEST(QuantizerTest, AQuantisedModelIsRefused) {
  EXPECT_EQ(
      Quantised("(int8[1,2] x) => (float[1,2] y) { s = Constant <value = float {0.5}> () y = DequantizeLinear (x, s) }").error,
      "test.onnx: node \"y\" (DequantizeLinear): the model is quantised already, expected a float model");
}

TEST(QuantizerTest, AModelWithoutProductsIsRefused) {
  EXPECT_EQ(Quantised("(float[1,2] x) => (float[1,2] y) { y = Relu (x) }").error,
            "test.onnx: nothing to quantise, expected a Conv, Gemm or MatMul that can compute on integers");
}

TEST(QuantizerTest, HalfPrecisionWeightsAreRefused) {
  onnx::ModelProto model = modelOf("(float16[1,2] x) => (float16[1,2] y) { y = MatMul (x, w) }", 17);
  onnx::TensorProto *weights = model.mutable_graph()->add_initializer();
  weights->set_name("w");
  weights->set_data_type(onnx::TensorProto::FLOAT16);
  weights->add_dims(2);
  weights->add_dims(2);
  weights->set_raw_data(std::string(8, '\0'));
  EXPECT_EQ(Quantised(model).error,
            "test.onnx: initializer \"w\" is of a 16-bit float type, expected float: convert the model to float32");
}

TEST(QuantizerTest, BytesThatAreNoModelAreRefused) {
  auto quantizer = Quantizer::create("nonsense", "test.onnx");
  ASSERT_FALSE(bool(quantizer));
  EXPECT_EQ(
      llvm::toString(quantizer.takeError()),
      "test.onnx: not a valid ONNX model: its bytes are damaged or cut off, or its graphs are nested more than 1000 deep");
}
