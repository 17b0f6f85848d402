//===- TestCall.h - One operator called in a test ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_OPERATORS_TESTCALL_H
#define TESTS_UNIT_OPERATORS_TESTCALL_H

#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

#include <onnx/onnx_pb.h>
#include <random>

namespace tw::operators::test {

/// A node of one operator, built and run in one expression.
class TestCall {
public:
  explicit TestCall(const std::string &type, int64_t opset = 22, std::string domain = "")
      : opset(opset), domain(std::move(domain)) {
    node.set_op_type(type);
  }

  TestCall &set(const char *name, int64_t value) {
    add(name, onnx::AttributeProto::INT).set_i(value);
    return *this;
  }
  TestCall &set(const char *name, int value) { return set(name, int64_t(value)); }
  TestCall &set(const char *name, float value) {
    add(name, onnx::AttributeProto::FLOAT).set_f(value);
    return *this;
  }
  TestCall &set(const char *name, const std::string &value) {
    add(name, onnx::AttributeProto::STRING).set_s(value);
    return *this;
  }
  TestCall &set(const char *name, const char *value) { return set(name, std::string(value)); }
  TestCall &set(const char *name, const std::vector<int64_t> &values) {
    onnx::AttributeProto &attribute = add(name, onnx::AttributeProto::INTS);
    for (int64_t value : values)
      attribute.add_ints(value);
    return *this;
  }
  TestCall &set(const char *name, const std::vector<float> &values) {
    onnx::AttributeProto &attribute = add(name, onnx::AttributeProto::FLOATS);
    for (float value : values)
      attribute.add_floats(value);
    return *this;
  }
  TestCall &set(const char *name, const std::vector<std::string> &values) {
    onnx::AttributeProto &attribute = add(name, onnx::AttributeProto::STRINGS);
    for (const std::string &value : values)
      attribute.add_strings(value);
    return *this;
  }
  /// A tensor of one dim.
  TestCall &setTensor(const char *name, const std::vector<double> &values, int32_t type = onnx::TensorProto::FLOAT) {
    onnx::TensorProto &tensor = *add(name, onnx::AttributeProto::TENSOR).mutable_t();
    tensor.add_dims(int64_t(values.size()));
    tensor.set_data_type(type);
    for (double value : values)
      if (type == onnx::TensorProto::FLOAT)
        tensor.add_float_data(float(value));
      else
        tensor.add_int32_data(int32_t(value));
    return *this;
  }
  TestCall &in(Value value) {
    inputs.push_back(std::move(value));
    return *this;
  }
  TestCall &none() { return in(Value()); }

  std::vector<HostTensor> runAll(int outputs) {
    node.clear_output();
    for (int i = 0; i < outputs; ++i)
      node.add_output("y" + std::to_string(i));
    const Operator *op = find(domain, node.op_type());
    if (!op)
      throw Error{"no such operator"};
    Call call(node, opset, inputs);
    op->evaluate(call);
    std::vector<HostTensor> results;
    for (const Value &value : call.takeOutputs())
      results.push_back(value.tensor ? *value.tensor : HostTensor());
    return results;
  }
  HostTensor run() { return runAll(1)[0]; }
  /// What the operator says is wrong; "" if it runs.
  std::string error() {
    try {
      runAll(2);
      return "";
    } catch (const Error &error) {
      return error.message;
    }
  }

private:
  onnx::AttributeProto &add(const char *name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto &attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  onnx::NodeProto node;
  int64_t opset;
  std::string domain;
  std::vector<Value> inputs;
};

inline HostTensor numbers(const Shape &shape, const std::vector<double> &values, ElementKind kind = ElementKind::F32) {
  HostTensor x = makeTensor(kind, shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setReal(x, i, values.at(size_t(i)));
  return x;
}
inline HostTensor strings(const Shape &shape, const std::vector<std::string> &values) {
  HostTensor x = makeTensor(ElementKind::String, shape);
  x.strings = values;
  return x;
}
inline HostTensor scalar(double value, ElementKind kind = ElementKind::I64) { return numbers({}, {value}, kind); }

using Random = std::mt19937;
inline int64_t between(Random &random, int64_t least, int64_t most) {
  return least + int64_t(random() % uint64_t(most - least + 1));
}
inline double real(Random &random, double low, double high) { return low + (high - low) * double(random()) / 4294967296.0; }
inline HostTensor randomTensor(Random &random, const Shape &shape, ElementKind kind = ElementKind::F32, double low = -4,
                               double high = 4) {
  HostTensor x = makeTensor(kind, shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setReal(x, i, real(random, low, high));
  return x;
}
inline std::vector<double> realsOf(const HostTensor &x) {
  std::vector<double> values;
  for (int64_t i = 0; i < countOf(x); ++i)
    values.push_back(realAt(x, i));
  return values;
}

} // namespace tw::operators::test

#endif // TESTS_UNIT_OPERATORS_TESTCALL_H
