//===- EvaluatorTest.cpp - Running graphs and functions -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Evaluator.h"
#include "compiler/operators/Elements.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

using namespace tw;
using namespace tw::operators;

namespace {

onnx::NodeProto &addNode(google::protobuf::RepeatedPtrField<onnx::NodeProto> &nodes, const std::string &type,
                         const std::vector<std::string> &inputs, const std::string &output, const std::string &domain = "") {
  onnx::NodeProto &node = *nodes.Add();
  node.set_op_type(type);
  node.set_domain(domain);
  for (const std::string &name : inputs)
    node.add_input(name);
  node.add_output(output);
  return node;
}

void addOpset(google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &opsets) {
  onnx::OperatorSetIdProto &opset = *opsets.Add();
  opset.set_version(18);
}

onnx::AttributeProto floatAttribute(const std::string &name, float value) {
  onnx::AttributeProto attribute;
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
  return attribute;
}

/// y = f(x) with f(x) = LeakyRelu(x) of slope `slope`, an attribute of the function.
onnx::ModelProto modelWithFunction() {
  onnx::ModelProto model;
  addOpset(*model.mutable_opset_import());
  model.mutable_graph()->add_input()->set_name("x");
  model.mutable_graph()->add_output()->set_name("y");
  addNode(*model.mutable_graph()->mutable_node(), "F", {"x"}, "y", "local");
  onnx::FunctionProto &function = *model.add_functions();
  function.set_name("F");
  function.set_domain("local");
  function.add_input("a");
  function.add_output("b");
  addOpset(*function.mutable_opset_import());
  onnx::AttributeProto &alpha = *addNode(*function.mutable_node(), "LeakyRelu", {"a"}, "b").add_attribute();
  alpha.set_name("alpha");
  alpha.set_ref_attr_name("slope");
  alpha.set_type(onnx::AttributeProto::FLOAT);
  return model;
}

float valueAt(const onnx::ModelProto &model, float x) {
  return data<float>(*Evaluator(model).run({{"x", makeScalar(ElementKind::F32, x)}}).at("y").tensor)[0];
}

// onnx.proto: FunctionProto.attribute_proto and overload, NodeProto.overload; the installed library may not know them.
constexpr int kDefaults = 11, kFunctionOverload = 13, kNodeOverload = 8;

TEST(EvaluatorTest, FunctionsHaveDefaultsOfAttributes) {
  onnx::ModelProto model = modelWithFunction();
  // Without a value, the operator's own default holds.
  EXPECT_EQ(valueAt(model, -100), -1);
  model.mutable_functions(0)->mutable_unknown_fields()->AddLengthDelimited(kDefaults,
                                                                           floatAttribute("slope", 0.5f).SerializeAsString());
  ASSERT_TRUE(onnx::ModelProto(model).ParseFromString(model.SerializeAsString()));
  EXPECT_EQ(valueAt(model, -100), -50);
  *model.mutable_graph()->mutable_node(0)->add_attribute() = floatAttribute("slope", 0.25f);
  EXPECT_EQ(valueAt(model, -100), -25);
  model.mutable_functions(0)->mutable_unknown_fields()->AddLengthDelimited(kDefaults, "\xff\xff");
  EXPECT_THROW(valueAt(model, -100), Error);
}

TEST(EvaluatorTest, OverloadsAreFunctionsOfOneName) {
  onnx::ModelProto model = modelWithFunction();
  onnx::FunctionProto &other = *model.add_functions();
  other = model.functions(0);
  other.mutable_node(0)->set_op_type("Neg");
  other.mutable_node(0)->clear_attribute();
  other.mutable_unknown_fields()->AddLengthDelimited(kFunctionOverload, "other");
  EXPECT_EQ(valueAt(model, -100), -1);
  model.mutable_graph()->mutable_node(0)->mutable_unknown_fields()->AddLengthDelimited(kNodeOverload, "other");
  EXPECT_EQ(valueAt(model, -100), 100);
}

TEST(EvaluatorTest, RefusesGraphsThatMakeNoSense) {
  onnx::ModelProto twice;
  twice.mutable_graph()->add_input()->set_name("x");
  twice.mutable_graph()->add_output()->set_name("y");
  addNode(*twice.mutable_graph()->mutable_node(), "Neg", {"x"}, "y");
  addNode(*twice.mutable_graph()->mutable_node(), "Abs", {"x"}, "y");
  EXPECT_THROW(valueAt(twice, 1), Error);
  onnx::ModelProto circle = twice;
  circle.mutable_graph()->clear_node();
  addNode(*circle.mutable_graph()->mutable_node(), "Add", {"x", "y"}, "y");
  EXPECT_THROW(valueAt(circle, 1), Error);
  // A function that calls itself.
  onnx::ModelProto endless = modelWithFunction();
  addNode(*endless.mutable_functions(0)->mutable_node(), "F", {"a"}, "c", "local");
  EXPECT_THROW(valueAt(endless, 1), Error);
}

TEST(EvaluatorTest, NodesOfAFunctionAreOfTheVersionThatItImports) {
  // Softmax of four equal numbers [2, 2]: over both dims up to opset 12, over the last one since. Without an import, the model's holds.
  onnx::ModelProto model = modelWithFunction();
  onnx::FunctionProto &function = *model.mutable_functions(0);
  function.clear_node();
  onnx::AttributeProto &axis = *addNode(*function.mutable_node(), "Softmax", {"a"}, "b").add_attribute();
  axis.set_name("axis");
  axis.set_type(onnx::AttributeProto::INT);
  auto share = [&] {
    return data<float>(*Evaluator(model).run({{"x", makeTensor(ElementKind::F32, {2, 2})}}).at("y").tensor)[0];
  };
  function.mutable_opset_import(0)->set_version(12);
  EXPECT_EQ(share(), 0.25f);
  function.mutable_opset_import(0)->set_version(13);
  EXPECT_EQ(share(), 0.5f);
  function.clear_opset_import();
  EXPECT_EQ(share(), 0.5f);
  model.mutable_opset_import(0)->set_version(12);
  EXPECT_EQ(share(), 0.25f);
}

TEST(EvaluatorTest, NodesRunInAnyGivenOrder) {
  onnx::ModelProto model;
  addOpset(*model.mutable_opset_import());
  model.mutable_graph()->add_input()->set_name("x");
  model.mutable_graph()->add_output()->set_name("y");
  addNode(*model.mutable_graph()->mutable_node(), "Neg", {"a"}, "y");
  addNode(*model.mutable_graph()->mutable_node(), "Add", {"x", "x"}, "a");
  EXPECT_EQ(valueAt(model, 3), -6);
}

} // namespace
