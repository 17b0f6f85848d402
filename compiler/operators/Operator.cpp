//===- Operator.cpp - One ONNX operator on host tensors -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Operator.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "isa/Printable.h"

#include <onnx/onnx_pb.h>

using namespace tw;
using namespace tw::operators;

Call::Call(const onnx::NodeProto &node, int64_t opset, std::vector<Value> inputs, RunGraph runGraph, std::string folder)
    : node(node), version(opset), inputs(std::move(inputs)), runGraph(std::move(runGraph)), folder(std::move(folder)),
      outputs(size_t(node.output_size())), open(outputs.size()) {}

const std::string &Call::type() const { return node.op_type(); }

void Call::fail(const std::string &text) const { throw Error{text}; }

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const onnx::AttributeProto *Call::attr(const char *name) const {
  for (const onnx::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

bool Call::hasAttr(const char *name) const { return attr(name) != nullptr; }

namespace {
/// The attribute if it is of `type`; null without it where there is a fallback.
const onnx::AttributeProto *typed(const Call &call, const char *name, onnx::AttributeProto::AttributeType type,
                                  bool isOptional) {
  const onnx::AttributeProto *found = call.attr(name);
  if (!found && !isOptional)
    call.fail(std::string("attribute ") + name + " is missing");
  // An old exporter's attributes carry no type.
  if (found && found->type() != type && found->type() != onnx::AttributeProto::UNDEFINED)
    call.fail(std::string("attribute ") + name + " is of another type than expected");
  return found;
}
} // namespace

int64_t Call::intAttr(const char *name, std::optional<int64_t> fallback) const {
  auto *found = typed(*this, name, onnx::AttributeProto::INT, fallback.has_value());
  return found ? found->i() : *fallback;
}
float Call::floatAttr(const char *name, std::optional<float> fallback) const {
  auto *found = typed(*this, name, onnx::AttributeProto::FLOAT, fallback.has_value());
  return found ? found->f() : *fallback;
}
std::string Call::stringAttr(const char *name, std::optional<std::string> fallback) const {
  auto *found = typed(*this, name, onnx::AttributeProto::STRING, fallback.has_value());
  return found ? found->s() : *fallback;
}
std::vector<int64_t> Call::intsAttr(const char *name, std::optional<std::vector<int64_t>> fallback) const {
  auto *found = typed(*this, name, onnx::AttributeProto::INTS, fallback.has_value());
  return found ? std::vector<int64_t>(found->ints().begin(), found->ints().end()) : *fallback;
}
std::vector<float> Call::floatsAttr(const char *name, std::optional<std::vector<float>> fallback) const {
  auto *found = typed(*this, name, onnx::AttributeProto::FLOATS, fallback.has_value());
  return found ? std::vector<float>(found->floats().begin(), found->floats().end()) : *fallback;
}
std::vector<std::string> Call::stringsAttr(const char *name, std::optional<std::vector<std::string>> fallback) const {
  auto *found = typed(*this, name, onnx::AttributeProto::STRINGS, fallback.has_value());
  return found ? std::vector<std::string>(found->strings().begin(), found->strings().end()) : *fallback;
}
HostTensor Call::tensorAttr(const char *name) const {
  auto *found = typed(*this, name, onnx::AttributeProto::TENSOR, false);
  Result<HostTensor> tensor = frontend::decodeTensor(found->t(), folder);
  if (!tensor)
    fail(std::string("attribute ") + name + ": " + tensor.message());
  return std::move(*tensor);
}
const onnx::GraphProto &Call::graphAttr(const char *name) const {
  return typed(*this, name, onnx::AttributeProto::GRAPH, false)->g();
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

bool Call::has(size_t i) const { return i < inputs.size() && (inputs[i].form != Value::Form::Empty); }

const Value &Call::value(size_t i) const {
  if (i >= inputs.size())
    fail("input " + std::to_string(i) + " is missing");
  return inputs[i];
}

const std::shared_ptr<const HostTensor> &Call::shared(size_t i) const {
  const Value &found = value(i);
  if (found.form != Value::Form::Tensor)
    fail("input " + std::to_string(i) +
         (found.form == Value::Form::Empty ? " is missing" : " is a sequence, expected a tensor"));
  return found.tensor;
}

const HostTensor &Call::input(size_t i) const { return *shared(i); }

const std::vector<Value> &Call::sequence(size_t i) const {
  const Value &found = value(i);
  if (found.form != Value::Form::Sequence)
    fail("input " + std::to_string(i) + " is no sequence");
  return *found.sequence;
}

std::vector<int64_t> Call::ints(size_t i) const { return integersOf(input(i)); }

static const HostTensor &oneElement(const Call &call, size_t i) {
  const HostTensor &x = call.input(i);
  if (countOf(x) != 1)
    call.fail("input " + std::to_string(i) + " has shape " + textOf(x.shape) + ", expected one element");
  return x;
}
int64_t Call::intScalar(size_t i) const { return integerAt(oneElement(*this, i), 0); }
double Call::realScalar(size_t i) const { return realAt(oneElement(*this, i), 0); }

int64_t Call::axis(int64_t axis, int64_t rank, bool behind) const {
  const int64_t most = rank + (behind ? 1 : 0);
  const int64_t found = axis < 0 ? axis + most : axis;
  if (found < 0 || found >= std::max<int64_t>(most, 1))
    fail("axis is " + std::to_string(axis) + " for a tensor of rank " + std::to_string(rank));
  return found;
}

std::vector<int64_t> Call::axes(std::vector<int64_t> axes, int64_t rank) const {
  for (int64_t &each : axes)
    each = axis(each, rank);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

void Call::requireSameType(const HostTensor &a, const HostTensor &b) const {
  if (a.type != b.type)
    fail(std::string("inputs are of ") + frontend::elementName(a.type) + " and " + frontend::elementName(b.type) +
         ", expected one type");
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

size_t Call::numOutputs() const { return outputs.size(); }

bool Call::wants(size_t i) const { return i < outputs.size() && !node.output(int(i)).empty(); }

void Call::set(size_t i, Value value) {
  if (i < outputs.size())
    outputs[i] = std::move(value);
}

HostTensor &Call::output(size_t i, ElementKind kind, const Shape &shape) {
  if (i >= open.size())
    open.resize(i + 1);
  open[i] = std::make_shared<HostTensor>(makeTensor(kind, shape));
  return *open[i];
}

std::vector<Value> Call::takeOutputs() {
  for (size_t i = 0; i < outputs.size(); ++i)
    if (open[i])
      outputs[i] = Value(std::shared_ptr<const HostTensor>(std::move(open[i])));
  return std::move(outputs);
}

std::vector<Value> Call::run(const onnx::GraphProto &graph, std::vector<Value> arguments) const {
  if (!runGraph)
    fail("it holds a graph, which cannot be run here");
  return runGraph(graph, std::move(arguments));
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

const Table &operators::table() {
  static const Table all = [] {
    Table table;
    addElementwise(table);
    addTypes(table);
    addMovement(table);
    addReductions(table);
    addContractions(table);
    addImages(table);
    addRecurrent(table);
    addControlFlow(table);
    addSignals(table);
    addRuntimeDomain(table);
    addMachineLearning(table);
    return table;
  }();
  return all;
}

const Operator *operators::find(const std::string &domain, const std::string &type) {
  auto found = table().find((domain == "ai.onnx" ? "" : domain) + ":" + type);
  return found == table().end() ? nullptr : &found->second;
}
