//===- Evaluator.h - Runs ONNX graphs on host tensors -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Node by node, in an order in which they can run; graphs inside nodes and
// model-local functions included. Shapes need not be known before.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_EVALUATOR_H
#define COMPILER_OPERATORS_EVALUATOR_H

#include "compiler/operators/Operator.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace onnx {
class AttributeProto;
class FunctionProto;
class ModelProto;
} // namespace onnx

namespace tw::operators {

/// Calls `f` for every name that `node` reads, those that the graphs in it read from around them included.
void forEachRead(const onnx::NodeProto &node, const std::function<void(const std::string &)> &f);

/// Gives attributes of a function's body that refer to attributes of the function their values, in graphs inside too; those that `given` lacks go.
void bindAttributes(onnx::NodeProto &node, const std::map<std::string, onnx::AttributeProto> &given);

/// Indices of nodes in an order in which each stands behind those whose results it reads, also in the graphs that it holds; as given where that
/// is such an order. Throws Error for a circle.
std::vector<int> inOrder(const onnx::GraphProto &graph);

/// Attribute of a node of a function that stands in the graph of its model: the version of the node's domain that the function imports.
inline constexpr const char *kOpsetAttr = "tilewright.opset";
/// Its value; nothing where the node is of the version that the model imports.
std::optional<int64_t> functionOpset(const onnx::NodeProto &node);

/// A model of one node: `inputs` are the names that it and graphs in it read.
onnx::ModelProto modelOf(const onnx::NodeProto &node, const std::map<std::string, int64_t> &opsets,
                         const std::vector<std::string> &inputs);

/// A graph that is about to run, with all that it needs: who runs it faster gives the results. `graph` is the same object whenever it is the
/// same graph; it holds no initializers that are not its own.
using RunFaster =
    std::function<std::optional<std::vector<Value>>(const onnx::GraphProto &graph, const std::map<std::string, int64_t> &opsets,
                                                    const std::vector<std::pair<std::string, Value>> &inputs)>;

/// Whether the node multiplies and sums, so that compiled code is worth its compilation.
bool isContraction(const onnx::NodeProto &node);

class Evaluator {
public:
  /// `model` must outlive the evaluator. `folder`: where files of tensors lie; empty: none.
  explicit Evaluator(const onnx::ModelProto &model, std::string folder = "");
  ~Evaluator();

  /// The same of a model that nobody else needs.
  explicit Evaluator(std::shared_ptr<const onnx::ModelProto> model, std::string folder = "");

  /// Graphs with contractions, those in nodes and what is left of the model from a contraction on, are offered to `faster`.
  void offerTo(RunFaster faster) { runFaster = std::move(faster); }
  /// Told of each node that an operator has computed, nodes of graphs inside others included: the bytes that it has read and made, and shapes;
  /// of a sequence the elements of all its tensors.
  using Observer = std::function<void(const onnx::NodeProto &, uint64_t bytes, const std::vector<Shape> &inputs,
                                      const std::vector<Shape> &outputs)>;
  void observe(Observer told) { observer = std::move(told); }

  /// Runs the model's graph on its inputs in their order; results in the order of its outputs.
  std::vector<Value> run(std::vector<Value> inputs);
  /// Runs the model's graph. `inputs`, by name: initializers that are inputs too may be left out.
  std::map<std::string, Value> run(std::map<std::string, Value> inputs);

private:
  struct Scope;
  struct Graph;
  using Opsets = std::map<std::string, int64_t>;

  /// What is left from a step of a graph on, as a graph of its own.
  const onnx::GraphProto &rest(const onnx::GraphProto &graph, size_t step);
  /// The graph's results, if someone runs it faster from a step on.
  std::optional<std::vector<Value>> offer(const onnx::GraphProto &graph, size_t step, const Scope &scope, const Opsets &opsets);
  const Graph &prepared(const onnx::GraphProto &graph);
  std::vector<Value> runGraph(const onnx::GraphProto &graph, std::vector<Value> arguments, const Scope *outer,
                              const Opsets &opsets);
  void runNode(const onnx::NodeProto &node, Scope &scope, const Opsets &opsets);
  std::vector<Value> runFunction(const onnx::FunctionProto &function, const onnx::NodeProto &node,
                                 std::vector<Value> arguments);

  std::shared_ptr<const onnx::ModelProto> owned;
  const onnx::ModelProto &model;
  std::string folder;
  Opsets opsets;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto *> functions;
  /// Initializers, order and last uses of graphs that have run.
  std::map<const onnx::GraphProto *, std::unique_ptr<Graph>> graphs;
  /// Bodies of functions with the attributes of the nodes that call them.
  std::map<std::string, std::unique_ptr<onnx::FunctionProto>> bodies;
  /// Of graphs of which some step is a contraction.
  std::map<std::pair<const onnx::GraphProto *, size_t>, std::unique_ptr<onnx::GraphProto>> rests;
  RunFaster runFaster;
  unsigned depth = 0;
  Observer observer; ///< may be null
};

/// The attributes that a node gives to the function that it calls; where it leaves one out, the function's default.
std::map<std::string, onnx::AttributeProto> attributesOf(const onnx::FunctionProto &function, const onnx::NodeProto &node);

/// A function's name among those of its domain. Functions of one name differ in their overload, which is empty otherwise.
std::string functionKey(const onnx::FunctionProto &function);
/// The key of the function that a node may call.
std::string functionKey(const onnx::NodeProto &node);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_EVALUATOR_H
