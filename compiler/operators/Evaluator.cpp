//===- Evaluator.cpp - Runs ONNX graphs on host tensors -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Evaluator.h"
#include "compiler/frontend/OnnxTensor.h"
#include "isa/Printable.h"

#include <functional>
#include <google/protobuf/unknown_field_set.h>
#include <new>
#include <onnx/onnx_pb.h>
#include <queue>
#include <set>
#include <unordered_map>

using namespace tw;
using namespace tw::operators;

/// Functions may call functions, and graphs hold graphs, this deep.
static constexpr unsigned kMostNested = 200;

void operators::forEachRead(const onnx::NodeProto &node, const std::function<void(const std::string &)> &f) {
  for (const std::string &name : node.input())
    if (!name.empty())
      f(name);
  auto inside = [&](const onnx::GraphProto &graph) {
    std::set<std::string> own;
    for (const onnx::ValueInfoProto &input : graph.input())
      own.insert(input.name());
    for (const onnx::TensorProto &tensor : graph.initializer())
      own.insert(tensor.name());
    for (const onnx::NodeProto &each : graph.node())
      own.insert(each.output().begin(), each.output().end());
    for (const onnx::NodeProto &each : graph.node())
      forEachRead(each, [&](const std::string &name) {
        if (!own.count(name))
          f(name);
      });
    for (const onnx::ValueInfoProto &output : graph.output())
      if (!own.count(output.name()))
        f(output.name());
  };
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (attribute.has_g())
      inside(attribute.g());
    for (const onnx::GraphProto &graph : attribute.graphs())
      inside(graph);
  }
}

template <typename Nodes> static std::vector<int> orderOf(const Nodes &nodes) {
  std::unordered_map<std::string, int> producers;
  for (int i = 0; i < nodes.size(); ++i)
    for (const std::string &name : nodes.Get(i).output())
      if (!name.empty() && !producers.emplace(name, i).second)
        throw Error{"\"" + printable(name) + "\" is produced more than once"};
  std::vector<std::vector<int>> readers(size_t(nodes.size()));
  std::vector<int> waitsFor(size_t(nodes.size()), 0);
  for (int i = 0; i < nodes.size(); ++i) {
    std::set<int> before;
    forEachRead(nodes.Get(i), [&](const std::string &name) {
      if (auto found = producers.find(name); found != producers.end())
        before.insert(found->second);
    });
    for (int producer : before)
      readers[size_t(producer)].push_back(i);
    waitsFor[size_t(i)] = int(before.size());
  }
  std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
  for (int i = 0; i < nodes.size(); ++i)
    if (waitsFor[size_t(i)] == 0)
      ready.push(i);
  std::vector<int> order;
  while (!ready.empty()) {
    const int next = ready.top();
    ready.pop();
    order.push_back(next);
    for (int reader : readers[size_t(next)])
      if (--waitsFor[size_t(reader)] == 0)
        ready.push(reader);
  }
  if (int(order.size()) != nodes.size()) {
    for (int i = 0; i < nodes.size(); ++i)
      if (waitsFor[size_t(i)] > 0)
        throw Error{"node \"" +
                    printable(nodes.Get(i).name().empty() && nodes.Get(i).output_size() ? nodes.Get(i).output(0)
                                                                                        : nodes.Get(i).name()) +
                    "\" needs its own result"};
  }
  return order;
}

std::vector<int> operators::inOrder(const onnx::GraphProto &graph) { return orderOf(graph.node()); }

/// Values by name; what is not here is looked up around it.
struct Evaluator::Scope {
  const Scope *outer = nullptr;
  std::unordered_map<std::string, Value> values;

  const Value *find(const std::string &name) const {
    for (const Scope *scope = this; scope; scope = scope->outer)
      if (auto found = scope->values.find(name); found != scope->values.end())
        return &found->second;
    return nullptr;
  }
};

/// What of a graph need not be found out twice.
struct Evaluator::Graph {
  std::vector<int> order;
  std::vector<std::pair<std::string, Value>> initializers;
  /// For each step of `order`, the names that nobody reads behind it.
  std::vector<std::vector<std::string>> released;
};

Evaluator::Evaluator(const onnx::ModelProto &model, std::string folder) : model(model), folder(std::move(folder)) {
  for (const onnx::OperatorSetIdProto &opset : model.opset_import())
    opsets[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
  for (const onnx::FunctionProto &function : model.functions())
    functions[{function.domain() == "ai.onnx" ? "" : function.domain(), functionKey(function)}] = &function;
}

Evaluator::Evaluator(std::shared_ptr<const onnx::ModelProto> model, std::string folder) : Evaluator(*model, std::move(folder)) {
  owned = std::move(model);
}

Evaluator::~Evaluator() = default;

std::optional<int64_t> operators::functionOpset(const onnx::NodeProto &node) {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == kOpsetAttr)
      return attribute.i();
  return std::nullopt;
}

onnx::ModelProto operators::modelOf(const onnx::NodeProto &node, const std::map<std::string, int64_t> &opsets,
                                    const std::vector<std::string> &inputs) {
  onnx::ModelProto model;
  for (const auto &[domain, version] : opsets) {
    onnx::OperatorSetIdProto &opset = *model.add_opset_import();
    opset.set_domain(domain);
    opset.set_version(version);
  }
  onnx::GraphProto &graph = *model.mutable_graph();
  *graph.add_node() = node;
  for (const std::string &name : inputs)
    graph.add_input()->set_name(name);
  for (const std::string &name : node.output())
    if (!name.empty())
      graph.add_output()->set_name(name);
  return model;
}

std::vector<Value> Evaluator::run(std::vector<Value> inputs) {
  depth = 0;
  return runGraph(model.graph(), std::move(inputs), nullptr, opsets);
}

const Evaluator::Graph &Evaluator::prepared(const onnx::GraphProto &graph) {
  std::unique_ptr<Graph> &entry = graphs[&graph];
  if (entry)
    return *entry;
  auto made = std::make_unique<Graph>();
  made->order = inOrder(graph);
  for (const onnx::TensorProto &proto : graph.initializer()) {
    Result<HostTensor> tensor = frontend::decodeTensor(proto, folder);
    if (!tensor)
      throw Error{"initializer \"" + printable(proto.name()) + "\": " + tensor.message()};
    made->initializers.emplace_back(proto.name(), Value(std::move(*tensor)));
  }
  std::set<std::string> kept;
  for (const onnx::ValueInfoProto &output : graph.output())
    kept.insert(output.name());
  made->released.resize(made->order.size());
  for (size_t step = made->order.size(); step-- > 0;)
    forEachRead(graph.node(made->order[step]), [&](const std::string &name) {
      if (kept.insert(name).second)
        made->released[step].push_back(name);
    });
  // Results that nobody reads go at once.
  for (size_t step = 0; step < made->order.size(); ++step)
    for (const std::string &name : graph.node(made->order[step]).output())
      if (!kept.count(name))
        made->released[step].push_back(name);
  entry = std::move(made);
  return *entry;
}

std::map<std::string, Value> Evaluator::run(std::map<std::string, Value> inputs) {
  const onnx::GraphProto &graph = model.graph();
  std::vector<Value> arguments;
  std::set<std::string> known;
  for (const onnx::TensorProto &tensor : graph.initializer())
    known.insert(tensor.name());
  for (const onnx::ValueInfoProto &input : graph.input()) {
    auto found = inputs.find(input.name());
    if (found == inputs.end() && !known.count(input.name()))
      throw Error{"input \"" + printable(input.name()) + "\" is not given"};
    arguments.push_back(found == inputs.end() ? Value() : found->second);
  }
  std::vector<Value> results = run(std::move(arguments));
  std::map<std::string, Value> outputs;
  for (int i = 0; i < graph.output_size(); ++i)
    outputs[graph.output(i).name()] = std::move(results[size_t(i)]);
  return outputs;
}

bool operators::isContraction(const onnx::NodeProto &node) {
  static const std::set<std::string> types{"Conv",
                                           "ConvTranspose",
                                           "ConvInteger",
                                           "QLinearConv",
                                           "MatMul",
                                           "MatMulInteger",
                                           "QLinearMatMul",
                                           "Gemm",
                                           "LSTM",
                                           "GRU",
                                           "RNN",
                                           "Attention",
                                           "FusedConv",
                                           "FusedGemm",
                                           "FusedMatMul",
                                           "QGemm",
                                           "MultiHeadAttention",
                                           "MatMulNBits",
                                           "DynamicQuantizeMatMul"};
  return types.count(node.op_type()) != 0;
}

const onnx::GraphProto &Evaluator::rest(const onnx::GraphProto &graph, size_t step) {
  std::unique_ptr<onnx::GraphProto> &entry = rests[{&graph, step}];
  if (entry)
    return *entry;
  entry = std::make_unique<onnx::GraphProto>();
  const Graph &known = prepared(graph);
  std::set<std::string> made, read;
  for (size_t i = step; i < known.order.size(); ++i) {
    const onnx::NodeProto &node = graph.node(known.order[i]);
    *entry->add_node() = node;
    forEachRead(node, [&](const std::string &name) {
      if (!made.count(name) && read.insert(name).second)
        entry->add_input()->set_name(name);
    });
    made.insert(node.output().begin(), node.output().end());
  }
  for (const onnx::ValueInfoProto &output : graph.output())
    if (made.count(output.name()))
      *entry->add_output() = output;
  // Weights stay constants: the code is made for them.
  for (const onnx::TensorProto &tensor : graph.initializer())
    if (read.count(tensor.name()))
      *entry->add_initializer() = tensor;
  return *entry;
}

std::optional<std::vector<Value>> Evaluator::offer(const onnx::GraphProto &graph, size_t step, const Scope &scope,
                                                   const Opsets &opsets) {
  const onnx::GraphProto &part = rest(graph, step);
  std::set<std::string> constants;
  for (const onnx::TensorProto &tensor : part.initializer())
    constants.insert(tensor.name());
  std::vector<std::pair<std::string, Value>> inputs;
  for (const onnx::ValueInfoProto &input : part.input()) {
    const Value *value = scope.find(input.name());
    if (!value)
      return std::nullopt; // running it says what is wrong
    if (!constants.count(input.name()))
      inputs.emplace_back(input.name(), *value);
  }
  std::optional<std::vector<Value>> made = runFaster(part, opsets, inputs);
  if (!made)
    return std::nullopt;
  std::vector<Value> results;
  size_t next = 0;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    if (next < made->size() && part.output(int(next)).name() == output.name()) {
      results.push_back(std::move((*made)[next++]));
      continue;
    }
    const Value *value = scope.find(output.name());
    if (!value)
      return std::nullopt;
    results.push_back(*value);
  }
  return results;
}

std::vector<Value> Evaluator::runGraph(const onnx::GraphProto &graph, std::vector<Value> arguments, const Scope *outer,
                                       const Opsets &opsets) {
  if (++depth > kMostNested)
    throw Error{"graphs and functions are nested more than " + std::to_string(kMostNested) + " deep"};
  const Graph &known = prepared(graph);
  Scope scope;
  scope.outer = outer;
  for (const auto &[name, value] : known.initializers)
    scope.values[name] = value;
  for (int i = 0; i < graph.input_size() && size_t(i) < arguments.size(); ++i)
    // An initializer stands where the caller gives nothing.
    if (arguments[size_t(i)].form != Value::Form::Empty || !scope.values.count(graph.input(i).name()))
      scope.values[graph.input(i).name()] = std::move(arguments[size_t(i)]);
  for (size_t step = 0; step < known.order.size(); ++step) {
    if (runFaster && isContraction(graph.node(known.order[step])))
      if (std::optional<std::vector<Value>> results = offer(graph, step, scope, opsets)) {
        --depth;
        return std::move(*results);
      }
    runNode(graph.node(known.order[step]), scope, opsets);
    for (const std::string &name : known.released[step])
      scope.values.erase(name);
  }
  std::vector<Value> results;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    const Value *value = scope.find(output.name());
    if (!value)
      throw Error{"output \"" + printable(output.name()) + "\" is produced by no node"};
    results.push_back(*value);
  }
  --depth;
  return results;
}

/// Adds the bytes of `values` to `bytes`.
static std::vector<Shape> shapesOf(const std::vector<Value> &values, uint64_t &bytes) {
  std::vector<Shape> shapes;
  for (const Value &value : values) {
    Shape shape;
    if (value.form == Value::Form::Tensor) {
      shape = value.tensor->shape;
      bytes += value.tensor->bytes.size();
    } else if (value.form == Value::Form::Sequence) {
      int64_t elements = 0;
      for (const Shape &inner : shapesOf(*value.sequence, bytes)) {
        int64_t count = 1;
        for (int64_t dim : inner)
          count *= dim;
        elements += count;
      }
      shape = {elements};
    }
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

void Evaluator::runNode(const onnx::NodeProto &node, Scope &scope, const Opsets &opsets) {
  const std::string domain = node.domain() == "ai.onnx" ? "" : node.domain();
  try {
    std::vector<Value> arguments;
    for (const std::string &name : node.input()) {
      const Value *value = name.empty() ? nullptr : scope.find(name);
      if (!value && !name.empty())
        throw Error{"input \"" + printable(name) + "\" is no input, no initializer and produced by no node"};
      arguments.push_back(value ? *value : Value());
    }
    std::vector<Value> results;
    auto function = functions.find({domain, functionKey(node)});
    if (function != functions.end()) {
      results = runFunction(*function->second, node, std::move(arguments));
    } else {
      const Operator *op = find(domain, node.op_type());
      if (!op)
        throw Error{"this operator is not supported"};
      auto opset = opsets.find(domain);
      const int64_t version = functionOpset(node).value_or(opset == opsets.end() ? 1 : opset->second);
      const bool isObserved = observer && std::none_of(node.attribute().begin(), node.attribute().end(),
                                                       [](const onnx::AttributeProto &attribute) { return attribute.has_g(); });
      uint64_t bytes = 0;
      std::vector<Shape> read, made;
      if (isObserved)
        read = shapesOf(arguments, bytes);
      Call call(
          node, version, std::move(arguments),
          [&](const onnx::GraphProto &graph, std::vector<Value> inner) {
            return runGraph(graph, std::move(inner), &scope, opsets);
          },
          folder);
      op->evaluate(call);
      results = call.takeOutputs();
      if (isObserved) {
        made = shapesOf(results, bytes);
        observer(node, bytes, read, made);
      }
    }
    for (int i = 0; i < node.output_size() && size_t(i) < results.size(); ++i)
      if (!node.output(i).empty())
        scope.values[node.output(i)] = std::move(results[size_t(i)]);
  } catch (const Error &error) {
    // The innermost node says where.
    if (error.message.rfind("node \"", 0) == 0)
      throw;
    const std::string name = !node.name().empty() ? node.name() : node.output_size() ? node.output(0) : "";
    throw Error{"node \"" + printable(name) + "\" (" + (domain.empty() ? "" : printable(domain) + ":") +
                    printable(node.op_type()) + "): " + error.message,
                error.bytes};
  } catch (const std::bad_alloc &) {
    throw Error{"node \"" + printable(node.output_size() ? node.output(0) : node.name()) + "\" (" + printable(node.op_type()) +
                "): there is not enough memory"};
  }
}

void operators::bindAttributes(onnx::NodeProto &node, const std::map<std::string, onnx::AttributeProto> &given) {
  google::protobuf::RepeatedPtrField<onnx::AttributeProto> bound;
  for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (!attribute.ref_attr_name().empty()) {
      auto found = given.find(attribute.ref_attr_name());
      if (found == given.end())
        continue;
      onnx::AttributeProto &copy = *bound.Add();
      copy = found->second;
      copy.set_name(attribute.name());
      continue;
    }
    if (attribute.has_g())
      for (onnx::NodeProto &inner : *attribute.mutable_g()->mutable_node())
        bindAttributes(inner, given);
    for (onnx::GraphProto &graph : *attribute.mutable_graphs())
      for (onnx::NodeProto &inner : *graph.mutable_node())
        bindAttributes(inner, given);
    bound.Add()->Swap(&attribute);
  }
  node.mutable_attribute()->Swap(&bound);
}

/// The bytes of a message's field, each of its elements: also one that the installed onnx library does not know.
static std::vector<std::string> bytesOf(const google::protobuf::Message &message, int number) {
  std::vector<std::string> elements;
  const google::protobuf::Reflection &reflection = *message.GetReflection();
  if (const google::protobuf::FieldDescriptor *field = message.GetDescriptor()->FindFieldByNumber(number)) {
    if (field->is_repeated())
      for (int i = 0; i < reflection.FieldSize(message, field); ++i)
        elements.push_back(reflection.GetRepeatedMessage(message, field, i).SerializeAsString());
    else if (reflection.HasField(message, field))
      elements.push_back(reflection.GetString(message, field));
    return elements;
  }
  const google::protobuf::UnknownFieldSet &unknown = reflection.GetUnknownFields(message);
  for (int i = 0; i < unknown.field_count(); ++i)
    if (unknown.field(i).number() == number && unknown.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED)
      elements.push_back(unknown.field(i).length_delimited());
  return elements;
}

// source: onnx.proto of ONNX 1.20
static constexpr int kFunctionDefaults = 11, kFunctionOverload = 13, kNodeOverload = 8;

std::map<std::string, onnx::AttributeProto> operators::attributesOf(const onnx::FunctionProto &function,
                                                                    const onnx::NodeProto &node) {
  std::map<std::string, onnx::AttributeProto> given;
  for (const onnx::AttributeProto &attribute : node.attribute())
    given[attribute.name()] = attribute;
  for (const std::string &bytes : bytesOf(function, kFunctionDefaults)) {
    onnx::AttributeProto attribute;
    if (!attribute.ParseFromString(bytes))
      throw Error{"function " + printable(function.name()) + ": the default of an attribute cannot be parsed"};
    given.emplace(attribute.name(), attribute);
  }
  return given;
}

static std::string functionKey(const std::string &name, const google::protobuf::Message &message, int field) {
  const std::vector<std::string> overload = bytesOf(message, field);
  return overload.empty() || overload.back().empty() ? name : name + ":" + overload.back();
}
std::string operators::functionKey(const onnx::FunctionProto &function) {
  return ::functionKey(function.name(), function, kFunctionOverload);
}
std::string operators::functionKey(const onnx::NodeProto &node) { return ::functionKey(node.op_type(), node, kNodeOverload); }

std::vector<Value> Evaluator::runFunction(const onnx::FunctionProto &function, const onnx::NodeProto &node,
                                          std::vector<Value> arguments) {
  if (++depth > kMostNested)
    throw Error{"graphs and functions are nested more than " + std::to_string(kMostNested) + " deep"};
  const std::map<std::string, onnx::AttributeProto> given = attributesOf(function, node);
  std::string key = function.domain() + ":" + functionKey(function);
  for (const auto &[name, attribute] : given)
    key += "\n" + attribute.SerializeAsString();
  std::unique_ptr<onnx::FunctionProto> &body = bodies[key];
  if (!body) {
    body = std::make_unique<onnx::FunctionProto>(function);
    for (onnx::NodeProto &inner : *body->mutable_node())
      bindAttributes(inner, given);
  }
  Opsets own = opsets; // of what the function leaves out
  for (const onnx::OperatorSetIdProto &opset : function.opset_import())
    own[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
  Scope scope;
  for (int i = 0; i < function.input_size(); ++i)
    scope.values[function.input(i)] = size_t(i) < arguments.size() ? arguments[size_t(i)] : Value();
  for (int index : orderOf(body->node()))
    runNode(body->node(index), scope, own);
  std::vector<Value> results;
  for (const std::string &name : function.output()) {
    const Value *value = scope.find(name);
    if (!value)
      throw Error{"output \"" + printable(name) + "\" of function " + printable(function.name()) + " is produced by no node"};
    results.push_back(*value);
  }
  --depth;
  return results;
}
