//===- TestNodes.h - Nodes and tensors for tests of operators ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESTS_UNIT_OPERATORS_TESTNODES_H
#define TESTS_UNIT_OPERATORS_TESTNODES_H

#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

#include <onnx/onnx_pb.h>

namespace tw::operators::test {

/// A node whose attributes are set one by one. Results are called "<name>0", "<name>1", ...
struct Node {
  onnx::NodeProto proto;

  explicit Node(const std::string &type, int outputs = 1, const std::string &name = "y") {
    proto.set_op_type(type);
    for (int i = 0; i < outputs; ++i)
      proto.add_output(name + std::to_string(i));
  }
  onnx::AttributeProto &add(const std::string &name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto &attribute = *proto.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  Node &integer(const std::string &name, int64_t value) {
    add(name, onnx::AttributeProto::INT).set_i(value);
    return *this;
  }
  Node &integers(const std::string &name, const std::vector<int64_t> &values) {
    onnx::AttributeProto &attribute = add(name, onnx::AttributeProto::INTS);
    for (int64_t value : values)
      attribute.add_ints(value);
    return *this;
  }
  Node &text(const std::string &name, const std::string &value) {
    add(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  Node &graph(const std::string &name, const onnx::GraphProto &value) {
    *add(name, onnx::AttributeProto::GRAPH).mutable_g() = value;
    return *this;
  }
  Node &inputs(const std::vector<std::string> &names) {
    for (const std::string &name : names)
      proto.add_input(name);
    return *this;
  }
};

inline std::vector<Value> evaluateAll(const Node &node, std::vector<Value> inputs, int64_t opset = 22) {
  const Operator *op = find("", node.proto.op_type());
  if (!op)
    throw Error{"there is no " + node.proto.op_type()};
  Call call(node.proto, opset, std::move(inputs));
  op->evaluate(call);
  return call.takeOutputs();
}

/// Result 0, a tensor.
inline HostTensor evaluate(const Node &node, std::vector<Value> inputs, int64_t opset = 22) {
  const Value value = evaluateAll(node, std::move(inputs), opset).at(0);
  if (value.form != Value::Form::Tensor)
    throw Error{"the result is no tensor"};
  return *value.tensor;
}

/// The message of the Error that `f` throws, or "".
template <typename F> std::string errorOf(F &&f) {
  try {
    f();
    return "";
  } catch (const Error &error) {
    return error.message;
  }
}

/// A tensor of these elements; strings get them as text.
inline HostTensor tensorOf(ElementKind kind, const Shape &shape, const std::vector<int64_t> &values) {
  HostTensor x = makeTensor(kind, shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    if (kind == ElementKind::String)
      x.strings[size_t(i)] = std::to_string(values.at(size_t(i)));
    else if (kind == ElementKind::Complex64 || kind == ElementKind::Complex128)
      std::memcpy(x.bytes.data() + size_t(i) * frontend::elementBytes(kind), &values.at(size_t(i)), sizeof(int64_t));
    else
      setInteger(x, i, values.at(size_t(i)));
  return x;
}
/// Elements 0, 1, 2, ...
inline HostTensor countingTensor(ElementKind kind, const Shape &shape) {
  std::vector<int64_t> values(size_t(countOf(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = int64_t(i);
  return tensorOf(kind, shape, values);
}

/// Whether type, shape and all elements are equal, bit by bit.
inline bool isSame(const HostTensor &a, const HostTensor &b) {
  return a.type == b.type && a.shape == b.shape && a.bytes == b.bytes && a.strings == b.strings;
}

} // namespace tw::operators::test

#endif // TESTS_UNIT_OPERATORS_TESTNODES_H
