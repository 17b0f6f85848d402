//===- InlineFunctions.cpp - Functions and branches in place --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/InlineFunctions.h"
#include "compiler/frontend/ImportError.h"
#include "compiler/operators/Evaluator.h"
#include "isa/Printable.h"

#include <map>
#include <onnx/onnx_pb.h>
#include <optional>
#include <utility>

using namespace tw;
using namespace tw::frontend;

using Names = std::map<std::string, std::string>;

static void rename(std::string &name, const Names &names) {
  if (auto found = names.find(name); found != names.end())
    name = found->second;
}

static void renameGraph(onnx::GraphProto &graph, Names names, const std::string &prefix);

/// What a node reads and makes by other names. Nodes that stand inside get `prefix` in front.
static void renameNode(onnx::NodeProto &node, const Names &names, const std::string &prefix) {
  if (!node.name().empty())
    node.set_name(prefix + node.name());
  for (std::string &name : *node.mutable_input())
    rename(name, names);
  for (std::string &name : *node.mutable_output())
    rename(name, names);
  for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.has_g())
      renameGraph(*attribute.mutable_g(), names, prefix);
    for (onnx::GraphProto &graph : *attribute.mutable_graphs())
      renameGraph(graph, names, prefix);
  }
}

/// A graph inside a renamed node: names of its own hide those around it.
static void renameGraph(onnx::GraphProto &graph, Names names, const std::string &prefix) {
  for (const onnx::ValueInfoProto &input : graph.input())
    names.erase(input.name());
  for (const onnx::TensorProto &tensor : graph.initializer())
    names.erase(tensor.name());
  for (const onnx::NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      names.erase(name);
  for (onnx::NodeProto &node : *graph.mutable_node())
    renameNode(node, names, prefix);
  for (onnx::ValueInfoProto &output : *graph.mutable_output())
    rename(*output.mutable_name(), names);
}

InlinedGraph frontend::inlineGraph(const onnx::GraphProto &graph, const std::string &prefix) {
  Names names;
  for (const onnx::TensorProto &tensor : graph.initializer())
    names[tensor.name()] = prefix + tensor.name();
  for (const onnx::NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      if (!name.empty())
        names[name] = prefix + name;
  InlinedGraph inlined;
  for (const onnx::TensorProto &tensor : graph.initializer()) {
    inlined.initializers.push_back(tensor);
    inlined.initializers.back().set_name(prefix + tensor.name());
  }
  for (int i : operators::inOrder(graph)) {
    inlined.nodes.push_back(graph.node(i));
    renameNode(inlined.nodes.back(), names, prefix);
  }
  for (const onnx::ValueInfoProto &output : graph.output()) {
    inlined.results.push_back(output.name());
    rename(inlined.results.back(), names);
  }
  return inlined;
}

namespace {
class Inliner {
public:
  explicit Inliner(onnx::ModelProto &model) : model(model) {
    for (const onnx::FunctionProto &function : model.functions())
      functions[{domainOf(function.domain()), operators::functionKey(function)}] = &function;
  }
  void run() {
    if (!functions.empty())
      inlineIn(*model.mutable_graph()->mutable_node());
  }

private:
  static std::string domainOf(const std::string &domain) { return domain == "ai.onnx" ? "" : domain; }
  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  void inlineIn(Nodes &nodes) {
    Nodes result;
    for (onnx::NodeProto &node : nodes)
      add(node, result);
    nodes.Swap(&result);
  }

  void add(onnx::NodeProto &node, Nodes &to) {
    constexpr int kMostNodes = 1000000, kMostNested = 200;
    if (++made > kMostNodes)
      throw ImportError{"functions make more than " + std::to_string(kMostNodes) + " nodes"};
    auto found = functions.find({domainOf(node.domain()), operators::functionKey(node)});
    if (found == functions.end()) {
      markOpset(node);
      for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
        if (attribute.has_g())
          inlineIn(*attribute.mutable_g()->mutable_node());
        for (onnx::GraphProto &graph : *attribute.mutable_graphs())
          inlineIn(*graph.mutable_node());
      }
      to.Add()->Swap(&node);
      return;
    }
    if (++depth > kMostNested)
      throw ImportError{"function " + printable(node.op_type()) + " calls itself, or functions are nested more than " +
                        std::to_string(kMostNested) + " deep"};
    const onnx::FunctionProto &function = *found->second;
    importDomains(function);
    const std::string prefix = (!node.name().empty() ? node.name()
                                : node.output_size() ? node.output(0)
                                                     : node.op_type()) +
                               "/";
    const std::map<std::string, onnx::AttributeProto> given = operators::attributesOf(function, node);
    // Inputs that the call leaves out are left out inside; outputs that it does not name get names that nobody reads.
    Names names;
    for (const onnx::NodeProto &inner : function.node())
      for (const std::string &name : inner.output())
        if (!name.empty())
          names[name] = prefix + std::to_string(calls) + "/" + name;
    for (int i = 0; i < function.input_size(); ++i)
      names[function.input(i)] = i < node.input_size() ? node.input(i) : "";
    std::vector<std::pair<std::string, std::string>> copies; // inputs, and results that are returned twice
    std::map<std::string, std::string> returned;
    for (int i = 0; i < function.output_size() && i < node.output_size(); ++i) {
      const std::string &own = function.output(i), &outside = node.output(i);
      if (outside.empty())
        continue;
      const bool isInput = std::find(function.input().begin(), function.input().end(), own) != function.input().end();
      if (isInput || returned.count(own))
        copies.push_back({isInput ? names[own] : returned[own], outside});
      else
        names[own] = returned[own] = outside;
    }
    ++calls;
    const onnx::FunctionProto *around = std::exchange(inside, &function);
    for (const onnx::NodeProto &body : function.node()) {
      onnx::NodeProto inner = body;
      operators::bindAttributes(inner, given);
      renameNode(inner, names, prefix);
      add(inner, to);
    }
    inside = around;
    for (auto &[from, name] : copies) {
      onnx::NodeProto &copy = *to.Add();
      copy.set_op_type("Identity");
      copy.set_name(prefix + name);
      copy.add_input(from);
      copy.add_output(name);
    }
    --depth;
  }

  using Imports = google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>;
  /// The version of `domain` among `imports`.
  static std::optional<int64_t> versionOf(const Imports &imports, const std::string &domain) {
    for (const onnx::OperatorSetIdProto &opset : imports)
      if (domainOf(opset.domain()) == domainOf(domain))
        return opset.version();
    return std::nullopt;
  }

  /// The model imports domains that only functions use.
  void importDomains(const onnx::FunctionProto &function) {
    for (const onnx::OperatorSetIdProto &own : function.opset_import())
      if (!versionOf(model.opset_import(), own.domain()))
        *model.add_opset_import() = own;
  }

  /// Says which version of its domain the node of a body is of, where its function imports another one than the model.
  void markOpset(onnx::NodeProto &node) const {
    const std::optional<int64_t> own = inside ? versionOf(inside->opset_import(), node.domain()) : std::nullopt;
    if (!own || own == versionOf(model.opset_import(), node.domain()))
      return;
    onnx::AttributeProto &mark = *node.add_attribute();
    mark.set_name(operators::kOpsetAttr);
    mark.set_type(onnx::AttributeProto::INT);
    mark.set_i(*own);
  }

  onnx::ModelProto &model;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto *> functions;
  const onnx::FunctionProto *inside = nullptr; ///< whose body is read
  int made = 0, depth = 0, calls = 0;
};
} // namespace

void frontend::inlineFunctions(onnx::ModelProto &model) { Inliner(model).run(); }
