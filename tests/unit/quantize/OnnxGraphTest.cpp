//===- OnnxGraphTest.cpp - Models brought to opset 13 and simplified ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/quantize/OnnxGraph.h"
#include "tests/unit/frontend/TestModels.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::quantize;
using frontend::Imported;
using frontend::modelOf;

namespace {

std::string ops(const onnx::ModelProto &model) {
  std::string text;
  for (const onnx::NodeProto &node : model.graph().node())
    text += (text.empty() ? "" : " ") + node.op_type();
  return text;
}

/// Upgrades a graph of `opset`; the importer must see the same ops before and after.
void expectSameAfterUpgrade(const std::string &graph, int opset, const TensorInfos &tensors = {}) {
  onnx::ModelProto model = modelOf(graph, opset);
  std::string before = Imported(model).ops();
  llvm::Error error = upgradeOpset(model, tensors);
  ASSERT_FALSE(bool(error)) << llvm::toString(std::move(error));
  EXPECT_EQ(model.opset_import(0).version(), 13);
  EXPECT_EQ(Imported(model).ops(), before);
}

} // namespace

TEST(UpgradeOpsetTest, AttributesBecomeInputs) {
  expectSameAfterUpgrade(
      "(float[1,2,1,4] x) => (float[1,2,4] y) { c = Clip <min = -1.0, max = 2.0> (x) y = Squeeze <axes = [2]> (c) }", 9);
  expectSameAfterUpgrade("(float[2,3] x) => (float[4,3] y) { y = Pad <pads = [1,0,1,0], value = 0.5> (x) }", 9);
  expectSameAfterUpgrade("(float[4,3] x) => (float[2,3] y) { y = Slice <starts = [1], ends = [3], axes = [0]> (x) }", 9);
  expectSameAfterUpgrade("(float[4,3] x) => (float[1,3] y) { y = ReduceSum <axes = [0]> (x) }", 11);
  expectSameAfterUpgrade("(float[4,3] x) => (float[4,3] y) { y = Dropout <ratio = 0.5> (x) }", 9);
}

TEST(UpgradeOpsetTest, SoftmaxOfOneVectorKeepsItsAxis) {
  expectSameAfterUpgrade("(float[2,3,1] x) => (float[2,3,1] y) { y = Softmax (x) }", 9,
                         {{"x", {frontend::ElementKind::F32, {2, 3, 1}}}});
}

TEST(UpgradeOpsetTest, SoftmaxOfSeveralDimsIsRefused) {
  onnx::ModelProto model = modelOf("(float[2,3,4] x) => (float[2,3,4] y) { y = Softmax (x) }", 9);
  EXPECT_EQ(llvm::toString(upgradeOpset(model, {{"x", {frontend::ElementKind::F32, {2, 3, 4}}}})),
            "node \"y\" (Softmax): the model is of opset 9, scales per channel need 13, and its vectors span several "
            "dims: convert the model");
}

TEST(UpgradeOpsetTest, OperatorsThatChangedAreRefused) {
  onnx::ModelProto model = modelOf("(float[1,1,2,2] x) => (float[1,1,4,4] y) { y = Upsample (x, x) }", 9);
  EXPECT_EQ(llvm::toString(upgradeOpset(model, {})),
            "node \"y\" (Upsample): the model is of opset 9, scales per channel need 13, and this operator changed in "
            "between: convert the model");
}

TEST(SimplifyTest, BatchNormalisationJoinsTheConvolutionBeforeIt) {
  onnx::ModelProto model = modelOf("(float[1,1,2,2] x) => (float[1,1,2,2] y) { w = Constant <value = float[1,1,1,1] {3}> ()"
                                   " s = Constant <value = float[1] {2}> () b = Constant <value = float[1] {5}> ()"
                                   " m = Constant <value = float[1] {7}> () v = Constant <value = float[1] {4}> ()"
                                   " c = Conv (x, w) y = BatchNormalization <epsilon = 0.0> (c, s, b, m, v) }",
                                   13);
  simplify(*model.mutable_graph());
  ASSERT_EQ(ops(model), "Conv");
  GraphNames names(*model.mutable_graph());
  // factor 2 / sqrt(4) = 1: weights 3 * 1, bias (0 - 7) * 1 + 5
  EXPECT_EQ(names.floats(model.graph().node(0).input(1)), std::vector<float>{3});
  EXPECT_EQ(names.floats(model.graph().node(0).input(2)), std::vector<float>{-2});
}

TEST(SimplifyTest, AConvolutionWithASecondReaderKeepsItsWeights) {
  onnx::ModelProto model =
      modelOf("(float[1,1,2,2] x) => (float[1,1,2,2] y, float[1,1,2,2] z) { w = Constant <value = float[1,1,1,1] {3}> ()"
              " s = Constant <value = float[1] {2}> () c = Conv (x, w) y = BatchNormalization (c, s, s, s, s) z = Relu (c) }",
              13);
  simplify(*model.mutable_graph());
  EXPECT_EQ(ops(model), "Conv BatchNormalization Relu");
}

TEST(SimplifyTest, IdentityAndDropoutDisappear) {
  onnx::ModelProto model = modelOf("(float[2] x) => (float[2] y) { a = Identity (x) b = Dropout (a) y = Relu (b) }", 13);
  simplify(*model.mutable_graph());
  ASSERT_EQ(ops(model), "Relu");
  EXPECT_EQ(model.graph().node(0).input(0), "x");
}
