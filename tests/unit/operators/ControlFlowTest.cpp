//===- ControlFlowTest.cpp - Loops, branches, scans and sequences ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/ControlFlow.h"
#include "compiler/operators/Evaluator.h"
#include "tests/unit/operators/TestNodes.h"

#include <gtest/gtest.h>

#include <limits>

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

HostTensor list(const std::vector<int64_t> &values) { return makeInts(values); }
HostTensor truth(bool value) { return tensorOf(ElementKind::Bool, {}, {value}); }

/// A graph of these nodes. Nodes of a graph stand in the order in which they were added.
struct Graph {
  onnx::GraphProto proto;

  Graph(const std::vector<std::string> &inputs, const std::vector<std::string> &outputs) {
    for (const std::string &name : inputs)
      proto.add_input()->set_name(name);
    for (const std::string &name : outputs)
      proto.add_output()->set_name(name);
  }
  Graph &add(Node node, const std::vector<std::string> &inputs, const std::vector<std::string> &outputs) {
    node.inputs(inputs);
    node.proto.clear_output();
    for (const std::string &name : outputs)
      node.proto.add_output(name);
    *proto.add_node() = node.proto;
    return *this;
  }
  Graph &constant(const std::string &name, const Shape &shape, const std::vector<int64_t> &values) {
    onnx::TensorProto &tensor = *proto.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::INT64);
    for (int64_t dim : shape)
      tensor.add_dims(dim);
    for (int64_t value : values)
      tensor.add_int64_data(value);
    return *this;
  }
  Graph &truths(const std::string &name, const std::vector<bool> &values) {
    onnx::TensorProto &tensor = *proto.add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::BOOL);
    tensor.add_dims(int64_t(values.size()));
    for (bool value : values)
      tensor.add_int32_data(value);
    return *this;
  }
};

std::map<std::string, Value> runGraph(const Graph &graph, std::map<std::string, Value> inputs, int64_t opset = 22) {
  onnx::ModelProto model;
  model.add_opset_import()->set_version(opset);
  *model.mutable_graph() = graph.proto;
  return Evaluator(model).run(std::move(inputs));
}

/// Result `name`, a tensor.
HostTensor run(const Graph &graph, std::map<std::string, Value> inputs, const std::string &name, int64_t opset = 22) {
  return *runGraph(graph, std::move(inputs), opset).at(name).tensor;
}

/// Keeps limits that a test changes.
struct ControlFlowTest : testing::Test {
  ~ControlFlowTest() override {
    maxLoopIterations = iterations;
    maxScanBytes = bytes;
  }
  const int64_t iterations = maxLoopIterations, bytes = maxScanBytes;
};

//===----------------------------------------------------------------------===//
// If and Loop
//===----------------------------------------------------------------------===//

TEST_F(ControlFlowTest, ALoopThatNeverEndsIsAnError) {
  maxLoopIterations = 1000;
  const Graph body = Graph({"i", "c"}, {"c1"}).add(Node("Identity"), {"c"}, {"c1"});
  const Graph graph = Graph({"c0", "m"}, {"done"})
                          .add(Node("Loop").graph("body", body.proto), {"m", "c0"}, {})
                          .add(Node("Identity"), {"c0"}, {"done"});
  // Neither without a trip count nor with the largest.
  for (const Value &trips : {Value(), Value(list({kMost}))})
    EXPECT_EQ(errorOf([&] {
                run(graph, {{"c0", truth(true)}, {"m", trips}}, "done");
              }),
              "node \"\" (Loop): it does not end within 1000 iterations");
  EXPECT_EQ(errorOf([&] { run(graph, {{"c0", truth(false)}, {"m", Value()}}, "done"); }), "");
  EXPECT_EQ(errorOf([&] { run(graph, {{"c0", truth(true)}, {"m", list({1000})}}, "done"); }), "");
  EXPECT_EQ(errorOf([&] { run(graph, {{"c0", truth(true)}, {"m", list({-5})}}, "done"); }), "");
}

TEST_F(ControlFlowTest, ALoopEndsWhereItsConditionGetsFalse) {
  const Graph body = Graph({"i", "c", "x"}, {"c1", "x1", "i1"})
                         .truths("table", {true, true, false, true})
                         .add(Node("Gather"), {"table", "i"}, {"c1"})
                         .add(Node("Unsqueeze"), {"i", "zero"}, {"row"})
                         .add(Node("Concat").integer("axis", 0), {"x", "row"}, {"x1"})
                         .add(Node("Identity"), {"i"}, {"i1"});
  const Graph graph = Graph({"m", "x0"}, {"x", "all"})
                          .constant("zero", {1}, {0})
                          .add(Node("Loop").graph("body", body.proto), {"m", "", "x0"}, {"x", "all"});
  const auto results = runGraph(graph, {{"m", list({kMost})}, {"x0", list({9})}});
  EXPECT_TRUE(isSame(*results.at("x").tensor, list({9, 0, 1, 2})));
  EXPECT_TRUE(isSame(*results.at("all").tensor, list({0, 1, 2})));
  EXPECT_TRUE(isSame(run(graph, {{"m", list({2})}, {"x0", list({9})}}, "all"), list({0, 1})));
}

TEST_F(ControlFlowTest, ScanOutputsOfNoIterationHaveTheDeclaredTypeAndShape) {
  Graph body = Graph({"i", "c"}, {"c1", "y"}).add(Node("Identity"), {"c"}, {"c1"}).add(Node("Identity"), {"i"}, {"y"});
  onnx::TypeProto::Tensor &type = *body.proto.mutable_output(1)->mutable_type()->mutable_tensor_type();
  type.set_elem_type(onnx::TensorProto::INT64);
  type.mutable_shape()->add_dim()->set_dim_value(3);
  const Graph graph = Graph({"m"}, {"all"}).add(Node("Loop").graph("body", body.proto), {"m", ""}, {"all"});
  EXPECT_TRUE(isSame(run(graph, {{"m", list({0})}}, "all"), makeTensor(ElementKind::I64, {0, 3})));
}

TEST_F(ControlFlowTest, ScanOutputsAreLimited) {
  maxScanBytes = 4096;
  const Graph body =
      Graph({"i", "c"}, {"c1", "y"}).add(Node("Identity"), {"c"}, {"c1"}).add(Node("ConstantOfShape"), {"size"}, {"y"});
  const Graph graph =
      Graph({"m"}, {"all"}).constant("size", {1}, {100}).add(Node("Loop").graph("body", body.proto), {"m", ""}, {"all"});
  EXPECT_EQ(run(graph, {{"m", list({10})}}, "all").shape, (Shape{10, 100}));
  EXPECT_EQ(errorOf([&] {
              run(graph, {{"m", list({11})}}, "all");
            }),
            "node \"all\" (Loop): scan outputs take more than 4096 bytes");
}

TEST_F(ControlFlowTest, ScanOutputsKeepTheirShape) {
  const Graph body = Graph({"i", "c"}, {"c1", "y"})
                         .add(Node("Identity"), {"c"}, {"c1"})
                         .add(Node("Unsqueeze"), {"i", "zero"}, {"size"})
                         .add(Node("ConstantOfShape"), {"size"}, {"y"});
  const Graph graph =
      Graph({"m"}, {"all"}).constant("zero", {1}, {0}).add(Node("Loop").graph("body", body.proto), {"m", ""}, {"all"});
  EXPECT_EQ(errorOf([&] {
              run(graph, {{"m", list({2})}}, "all");
            }),
            "node \"all\" (Loop): a scan output is of float and shape [0], then of float and shape [1]");
}

TEST_F(ControlFlowTest, NestedLoopsAndIfsReadOuterNames) {
  // x = []; for i in 3: for j in i + 1 (by a table): x += odd[j] ? [i, j] : [j, k], k a constant of the outermost graph.
  const Graph yes = Graph({}, {"pair"}).add(Node("Concat").integer("axis", 0), {"i1", "j1"}, {"pair"});
  const Graph no = Graph({}, {"pair"}).add(Node("Concat").integer("axis", 0), {"j1", "k"}, {"pair"});
  const Graph inner = Graph({"j", "cj", "xj"}, {"cj1", "xj1"})
                          .add(Node("Identity"), {"cj"}, {"cj1"})
                          .add(Node("Unsqueeze"), {"j", "zero"}, {"j1"})
                          .add(Node("Gather"), {"odd", "j"}, {"isOdd"})
                          .add(Node("If").graph("then_branch", yes.proto).graph("else_branch", no.proto), {"isOdd"}, {"ij"})
                          .add(Node("Concat").integer("axis", 0), {"xj", "ij"}, {"xj1"});
  const Graph outer = Graph({"i", "c", "x"}, {"c1", "x1"})
                          .add(Node("Identity"), {"c"}, {"c1"})
                          .add(Node("Unsqueeze"), {"i", "zero"}, {"i1"})
                          .add(Node("Gather"), {"trips", "i"}, {"n"})
                          .add(Node("Loop").graph("body", inner.proto), {"n", "", "x"}, {"x1"});
  const Graph graph = Graph({"m", "x0"}, {"y"})
                          .constant("zero", {1}, {0})
                          .constant("k", {1}, {7})
                          .constant("trips", {3}, {1, 2, 3})
                          .truths("odd", {false, true, false, true})
                          .add(Node("Loop").graph("body", outer.proto), {"m", "", "x0"}, {"y"});
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j <= i; ++j)
      for (int64_t each : j % 2 ? std::vector<int64_t>{i, j} : std::vector<int64_t>{j, 7})
        expected.push_back(each);
  EXPECT_TRUE(isSame(run(graph, {{"m", list({3})}, {"x0", list({})}}, "y"), list(expected)));
}

TEST_F(ControlFlowTest, NamesOfInnerGraphsHideOuterOnes) {
  // The body's own x, and a name of its own that the outer graph computes only later.
  const Graph body = Graph({"i", "c", "x"}, {"c1", "later"})
                         .add(Node("Identity"), {"c"}, {"c1"})
                         .add(Node("Concat").integer("axis", 0), {"x", "x"}, {"later"});
  const Graph graph = Graph({"x", "m", "y"}, {"z", "later"})
                          .add(Node("Loop").graph("body", body.proto), {"m", "", "y"}, {"z"})
                          .add(Node("Concat").integer("axis", 0), {"z", "x"}, {"later"});
  const auto results = runGraph(graph, {{"x", list({1})}, {"m", list({2})}, {"y", list({2})}});
  EXPECT_TRUE(isSame(*results.at("z").tensor, list({2, 2, 2, 2})));
  EXPECT_TRUE(isSame(*results.at("later").tensor, list({2, 2, 2, 2, 1})));
}

TEST_F(ControlFlowTest, NodesMayStandInAnyOrder) {
  // The If stands in front of what only its branch reads, and of its condition.
  const Graph branch = Graph({}, {"y"}).add(Node("Identity"), {"b"}, {"y"}).add(Node("Identity"), {"a"}, {"b"});
  const Graph graph = Graph({"c", "x"}, {"z"})
                          .add(Node("Identity"), {"y"}, {"z"})
                          .add(Node("If").graph("then_branch", branch.proto).graph("else_branch", branch.proto), {"c1"}, {"y"})
                          .add(Node("Identity"), {"x"}, {"a"})
                          .add(Node("Identity"), {"c"}, {"c1"});
  EXPECT_TRUE(isSame(run(graph, {{"c", truth(true)}, {"x", list({3})}}, "z"), list({3})));
}

TEST_F(ControlFlowTest, WhatABranchReadsIsKeptUntilThen) {
  // Node "b" is the last of the outer graph's nodes that reads x, but the branch behind it reads x too, as its result.
  const Graph branch = Graph({}, {"x"});
  const Graph graph = Graph({"c", "x0"}, {"y"})
                          .add(Node("Identity"), {"x0"}, {"x"})
                          .add(Node("Identity"), {"x"}, {"b"})
                          .add(Node("Shape"), {"b"}, {"shape"})
                          .add(Node("Reshape"), {"c", "shape"}, {"c1"})
                          .add(Node("If").graph("then_branch", branch.proto).graph("else_branch", branch.proto), {"c1"}, {"y"});
  EXPECT_TRUE(isSame(run(graph, {{"c", truth(false)}, {"x0", list({3})}}, "y"), list({3})));
}

TEST_F(ControlFlowTest, WrongGraphsAndConditionsAreErrors) {
  const Graph none({}, {}), one = Graph({}, {"x"}), wide = Graph({"a"}, {"a"});
  auto message = [&](Node node, const std::vector<std::string> &outputs, std::map<std::string, Value> inputs = {}) {
    inputs.insert({{"c", truth(true)}, {"x", list({1, 2})}});
    Graph graph = Graph({"c", "x"}, outputs).add(node, {"c"}, outputs);
    return errorOf([&] { runGraph(graph, inputs); });
  };
  auto branches = [](const Graph &graph) {
    return Node("If").graph("then_branch", graph.proto).graph("else_branch", graph.proto);
  };
  EXPECT_EQ(message(branches(one), {"y"}), "");
  EXPECT_EQ(message(branches(none), {"y"}), "node \"y\" (If): then_branch has 0 results, expected 1");
  EXPECT_EQ(message(branches(wide), {"y"}), "node \"y\" (If): then_branch has 1 inputs, expected 0");
  EXPECT_EQ(message(branches(one), {"y"}, {{"c", list({1})}}), "node \"y\" (If): the condition is no bool of one element");
  EXPECT_EQ(message(branches(one), {"y"}, {{"c", tensorOf(ElementKind::Bool, {2}, {1, 1})}}),
            "node \"y\" (If): the condition is no bool of one element");
  EXPECT_EQ(message(Node("If"), {"y"}), "node \"y\" (If): attribute then_branch is missing");
  const Graph body = Graph({"i", "c", "v"}, {"i", "v"});
  const Graph loop = Graph({"x"}, {"y"}).add(Node("Loop").graph("body", body.proto), {"", "", "x"}, {"y"});
  EXPECT_EQ(errorOf([&] {
              run(loop, {{"x", list({1})}}, "y");
            }),
            "node \"y\" (Loop): the body's condition is no bool of one element");
  const Graph few = Graph({"x"}, {"y"}).add(Node("Loop").graph("body", one.proto), {"", "", "x"}, {"y"});
  EXPECT_EQ(errorOf([&] { run(few, {{"x", list({1})}}, "y"); }), "node \"y\" (Loop): body has 0 inputs, expected 3");
  EXPECT_EQ(errorOf([&] { evaluateAll(branches(one), {truth(true)}); }), "it holds a graph, which cannot be run here");
}

//===----------------------------------------------------------------------===//
// Scan
//===----------------------------------------------------------------------===//

/// s1 = x, y = [s, x]: each output row holds the entry before and this one.
Graph pairs() {
  return Graph({"s", "x"}, {"s1", "y"})
      .add(Node("Identity"), {"x"}, {"s1"})
      .add(Node("Concat").integer("axis", 0), {"s", "x"}, {"y"});
}

TEST_F(ControlFlowTest, ScansAlongAnyAxisInBothDirections) {
  // x [2, 3], scanned along its columns from behind; rows of y are columns of the result, in reverse.
  const Node scan = Node("Scan", 2)
                        .graph("body", pairs().proto)
                        .integer("num_scan_inputs", 1)
                        .integers("scan_input_axes", {-1})
                        .integers("scan_input_directions", {1})
                        .integers("scan_output_axes", {-1})
                        .integers("scan_output_directions", {1});
  const Graph graph = Graph({"s", "x"}, {"s1", "y"}).add(scan, {"s", "x"}, {"s1", "y"});
  const auto results = runGraph(graph, {{"s", list({8, 9})}, {"x", tensorOf(ElementKind::I64, {2, 3}, {0, 1, 2, 3, 4, 5})}});
  EXPECT_TRUE(isSame(*results.at("s1").tensor, list({0, 3})));
  // In order of time: [8 9 2 5], [2 5 1 4], [1 4 0 3].
  EXPECT_TRUE(isSame(*results.at("y").tensor, tensorOf(ElementKind::I64, {4, 3}, {1, 2, 8, 4, 5, 9, 0, 1, 2, 3, 4, 5})));
}

TEST_F(ControlFlowTest, ScansOfOpset8HaveBatchesAndLengths) {
  const Node scan = Node("Scan", 2).graph("body", pairs().proto).integer("num_scan_inputs", 1);
  const Graph graph = Graph({"n", "s", "x"}, {"s1", "y"}).add(scan, {"n", "s", "x"}, {"s1", "y"});
  const HostTensor s = tensorOf(ElementKind::I64, {2, 1}, {8, 9}),
                   x = tensorOf(ElementKind::I64, {2, 3, 1}, {0, 1, 2, 3, 4, 5});
  auto results = runGraph(graph, {{"n", list({3, 1})}, {"s", s}, {"x", x}}, 8);
  EXPECT_TRUE(isSame(*results.at("s1").tensor, tensorOf(ElementKind::I64, {2, 1}, {2, 3})));
  EXPECT_TRUE(isSame(*results.at("y").tensor, tensorOf(ElementKind::I64, {2, 3, 2}, {8, 0, 0, 1, 1, 2, 9, 3, 0, 0, 0, 0})));
  results = runGraph(graph, {{"n", Value()}, {"s", s}, {"x", x}}, 8);
  EXPECT_TRUE(isSame(*results.at("y").tensor, tensorOf(ElementKind::I64, {2, 3, 2}, {8, 0, 0, 1, 1, 2, 9, 3, 3, 4, 4, 5})));
  EXPECT_NE(errorOf([&] { runGraph(graph, {{"n", list({4, 1})}, {"s", s}, {"x", x}}, 8); }), "");
  EXPECT_NE(errorOf([&] { runGraph(graph, {{"n", list({1})}, {"s", s}, {"x", x}}, 8); }), "");
  EXPECT_NE(errorOf([&] { runGraph(graph, {{"n", Value()}, {"s", list({1})}, {"x", x}}, 8); }), "");
  EXPECT_NE(errorOf([&] { runGraph(graph, {{"n", Value()}, {"s", s}, {"x", list({1, 2})}}, 8); }), "");
}

TEST_F(ControlFlowTest, WrongScansAreErrors) {
  auto message = [](Node scan, std::map<std::string, Value> inputs) {
    inputs.insert({{"s", list({1})}, {"x", tensorOf(ElementKind::I64, {2, 1}, {1, 2})}});
    scan.graph("body", pairs().proto);
    return errorOf([&] { runGraph(Graph({"s", "x"}, {"s1", "y"}).add(scan, {"s", "x"}, {"s1", "y"}), inputs); });
  };
  EXPECT_EQ(message(Node("Scan").integer("num_scan_inputs", 1), {}), "");
  EXPECT_NE(message(Node("Scan"), {}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 0), {}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 3), {}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 1).integers("scan_input_axes", {2}), {}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 1).integers("scan_input_axes", {0, 0}), {}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 1).integers("scan_input_directions", {2}), {}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 1).integers("scan_output_axes", {2}), {}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 1), {{"x", tensorOf(ElementKind::I64, {}, {1})}}), "");
  EXPECT_NE(message(Node("Scan").integer("num_scan_inputs", 2), {}), "");
}

//===----------------------------------------------------------------------===//
// Sequences and optionals
//===----------------------------------------------------------------------===//

Value sequenceOf(const std::vector<int64_t> &elements) {
  std::vector<Value> values;
  for (int64_t element : elements)
    values.push_back(list({element}));
  return Value::sequenceOf(std::move(values));
}

std::vector<int64_t> elementsOf(const std::vector<Value> &results) {
  std::vector<int64_t> elements;
  for (const Value &value : *results.at(0).sequence)
    elements.push_back(integerAt(*value.tensor, 0));
  return elements;
}

TEST_F(ControlFlowTest, PositionsInSequences) {
  const Value three = sequenceOf({1, 2, 3}), four = list({4});
  EXPECT_EQ(elementsOf(evaluateAll(Node("SequenceInsert"), {three, four})), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(elementsOf(evaluateAll(Node("SequenceInsert"), {three, four, list({-3})})), (std::vector<int64_t>{4, 1, 2, 3}));
  EXPECT_EQ(elementsOf(evaluateAll(Node("SequenceInsert"), {three, four, list({3})})), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(elementsOf(evaluateAll(Node("SequenceErase"), {three})), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(elementsOf(evaluateAll(Node("SequenceErase"), {three, list({-3})})), (std::vector<int64_t>{2, 3}));
  EXPECT_TRUE(isSame(evaluate(Node("SequenceAt"), {three, list({-1})}), list({3})));
  EXPECT_EQ(integerAt(evaluate(Node("SequenceLength"), {three}), 0), 3);
  for (int64_t position : {int64_t(3), int64_t(-4), kMost, -kMost - 1}) {
    const std::string expected = "position " + std::to_string(position) + " is out of range for a sequence of 3";
    EXPECT_EQ(errorOf([&] { evaluateAll(Node("SequenceErase"), {three, list({position})}); }), expected);
    EXPECT_EQ(errorOf([&] { evaluateAll(Node("SequenceAt"), {three, list({position})}); }), expected);
  }
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceInsert"), {three, four, list({4})}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceInsert"), {three, four, list({-4})}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceErase"), {sequenceOf({})}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceAt"), {sequenceOf({}), list({0})}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceAt"), {four, list({0})}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceAt"), {three}); }), "");
}

TEST_F(ControlFlowTest, ElementsOfASequenceAreOfOneType) {
  const HostTensor other = tensorOf(ElementKind::F32, {}, {1});
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceInsert"), {sequenceOf({1}), other}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceConstruct"), {list({1}), other}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(Node("SequenceInsert"), {sequenceOf({1}), sequenceOf({1})}); }), "");
  EXPECT_EQ(evaluateAll(Node("SequenceInsert"), {sequenceOf({}), other}).at(0).sequence->size(), 1u);
}

TEST_F(ControlFlowTest, TensorsToSequencesAndBack) {
  const HostTensor x = countingTensor(ElementKind::F32, {5, 2});
  auto split = [&](Node node, std::vector<Value> more) {
    std::vector<Value> inputs{x};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return evaluateAll(node, inputs).at(0);
  };
  auto shapes = [](const Value &value) {
    std::vector<Shape> shapes;
    for (const Value &element : *value.sequence)
      shapes.push_back(element.tensor->shape);
    return shapes;
  };
  const Node splitter("SplitToSequence");
  EXPECT_EQ(shapes(split(splitter, {tensorOf(ElementKind::I64, {}, {2})})), (std::vector<Shape>{{2, 2}, {2, 2}, {1, 2}}));
  EXPECT_EQ(shapes(split(splitter, {list({4, 0, 1})})), (std::vector<Shape>{{4, 2}, {0, 2}, {1, 2}}));
  EXPECT_EQ(shapes(split(Node("SplitToSequence").integer("axis", -1).integer("keepdims", 0), {})),
            (std::vector<Shape>{{5}, {5}}));
  EXPECT_EQ(shapes(split(Node("SplitToSequence").integer("axis", 1), {})), (std::vector<Shape>{{5, 1}, {5, 1}}));
  for (const Value &wrong :
       {Value(list({4})), Value(list({6, -1})), Value(list({kMost, kMost})), Value(tensorOf(ElementKind::I64, {}, {0}))})
    EXPECT_NE(errorOf([&] { split(splitter, {wrong}); }), "");
  EXPECT_NE(errorOf([&] { evaluateAll(splitter, {tensorOf(ElementKind::F32, {}, {1})}); }), "");

  const Value parts = split(splitter, {list({4, 0, 1})});
  EXPECT_TRUE(isSame(evaluate(Node("ConcatFromSequence").integer("axis", 0), {parts}), x));
  const Value columns = split(Node("SplitToSequence").integer("axis", 1).integer("keepdims", 0), {});
  EXPECT_TRUE(isSame(evaluate(Node("ConcatFromSequence").integer("axis", -1).integer("new_axis", 1), {columns}), x));
  EXPECT_NE(errorOf([&] { evaluate(Node("ConcatFromSequence").integer("axis", 1), {parts}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("ConcatFromSequence").integer("axis", 0).integer("new_axis", 1), {parts}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("ConcatFromSequence").integer("axis", 3).integer("new_axis", 1), {columns}); }), "");
  EXPECT_NE(errorOf([&] { evaluate(Node("ConcatFromSequence").integer("axis", 0), {sequenceOf({})}); }), "");
}

TEST_F(ControlFlowTest, SequencesAreMappedTogether) {
  const Graph body = Graph({"a", "b", "t"}, {"y"}).add(Node("Concat").integer("axis", 0), {"a", "b", "t"}, {"y"});
  const Graph graph = Graph({"a", "b", "t"}, {"y"}).add(Node("SequenceMap").graph("body", body.proto), {"a", "b", "t"}, {"y"});
  const auto results = runGraph(graph, {{"a", sequenceOf({1, 2})}, {"b", sequenceOf({3, 4})}, {"t", list({5})}});
  ASSERT_EQ(results.at("y").sequence->size(), 2u);
  EXPECT_TRUE(isSame(*(*results.at("y").sequence)[1].tensor, list({2, 4, 5})));
  EXPECT_NE(errorOf([&] { runGraph(graph, {{"a", sequenceOf({1})}, {"b", sequenceOf({3, 4})}, {"t", list({5})}}); }), "");
  EXPECT_NE(errorOf([&] { runGraph(graph, {{"a", list({1})}, {"b", sequenceOf({3})}, {"t", list({5})}}); }), "");
}

TEST_F(ControlFlowTest, OptionalsAreWhatTheyHoldOrEmpty) {
  const Value x = list({1});
  EXPECT_EQ(evaluateAll(Node("Optional"), {}).at(0).form, Value::Form::Empty);
  EXPECT_EQ(evaluateAll(Node("Optional"), {x}).at(0).tensor, x.tensor);
  EXPECT_EQ(integerAt(evaluate(Node("OptionalHasElement"), {Value()}), 0), 0);
  EXPECT_EQ(integerAt(evaluate(Node("OptionalHasElement"), {}), 0), 0);
  EXPECT_EQ(integerAt(evaluate(Node("OptionalHasElement"), {sequenceOf({})}), 0), 1);
  EXPECT_EQ(evaluateAll(Node("OptionalGetElement"), {x}).at(0).tensor, x.tensor);
  EXPECT_EQ(errorOf([&] { evaluateAll(Node("OptionalGetElement"), {Value()}); }), "the optional is empty");
}

} // namespace
