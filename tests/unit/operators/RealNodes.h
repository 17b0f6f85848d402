//===- RealNodes.h - Nodes and float tensors for tests of operators -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESTS_UNIT_OPERATORS_REALNODES_H
#define TESTS_UNIT_OPERATORS_REALNODES_H

#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <random>

namespace tw::operators::test {

/// A node of any domain, with attributes that are set one by one, and what it computes.
class RealNode {
public:
  explicit RealNode(const std::string &key, int outputs = 1) : key(key) {
    proto.set_op_type(key.substr(key.find(':') + 1));
    for (int i = 0; i < outputs; ++i)
      proto.add_output("y" + std::to_string(i));
  }
  RealNode &integer(const char *name, int64_t value) { return add(name, onnx::AttributeProto::INT).set_i(value), *this; }
  RealNode &real(const char *name, float value) { return add(name, onnx::AttributeProto::FLOAT).set_f(value), *this; }
  RealNode &text(const char *name, const std::string &value) {
    return add(name, onnx::AttributeProto::STRING).set_s(value), *this;
  }
  RealNode &integers(const char *name, const std::vector<int64_t> &values) {
    onnx::AttributeProto &attribute = add(name, onnx::AttributeProto::INTS);
    for (int64_t value : values)
      attribute.add_ints(value);
    return *this;
  }
  RealNode &reals(const char *name, const std::vector<float> &values) {
    onnx::AttributeProto &attribute = add(name, onnx::AttributeProto::FLOATS);
    for (float value : values)
      attribute.add_floats(value);
    return *this;
  }
  RealNode &texts(const char *name, const std::vector<std::string> &values) {
    onnx::AttributeProto &attribute = add(name, onnx::AttributeProto::STRINGS);
    for (const std::string &value : values)
      attribute.add_strings(value);
    return *this;
  }

  std::vector<Value> runAll(std::vector<Value> inputs, int64_t opset = 24) const {
    auto found = table().find(key);
    if (found == table().end())
      throw Error{"there is no " + key};
    Call call(proto, opset, std::move(inputs));
    found->second.evaluate(call);
    return call.takeOutputs();
  }
  HostTensor run(std::vector<Value> inputs, int64_t opset = 24) const { return *runAll(std::move(inputs), opset).at(0).tensor; }
  /// The message of the Error that it throws, or "".
  std::string error(std::vector<Value> inputs) const {
    try {
      runAll(std::move(inputs));
      return "";
    } catch (const Error &error) {
      return error.message;
    }
  }

private:
  onnx::AttributeProto &add(const char *name, onnx::AttributeProto::AttributeType type) {
    onnx::AttributeProto &attribute = *proto.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }

  std::string key;
  onnx::NodeProto proto;
};

inline HostTensor reals(const Shape &shape, const std::vector<double> &values, ElementKind kind = ElementKind::F32) {
  HostTensor x = makeTensor(kind, shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setReal(x, i, values.at(size_t(i)));
  return x;
}
inline HostTensor integers(const Shape &shape, const std::vector<int64_t> &values, ElementKind kind = ElementKind::I32) {
  HostTensor x = makeTensor(kind, shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setInteger(x, i, values.at(size_t(i)));
  return x;
}
inline HostTensor scalar(float value) { return reals({}, {double(value)}); }

/// Random numbers of a seed that each test starts anew.
class RandomTensors {
public:
  HostTensor reals(const Shape &shape, double low = -1, double high = 1) {
    HostTensor x = makeTensor(ElementKind::F32, shape);
    for (int64_t i = 0; i < countOf(x); ++i)
      data<float>(x)[i] = float(std::uniform_real_distribution<double>(low, high)(engine));
    return x;
  }
  HostTensor integers(const Shape &shape, ElementKind kind, int64_t low, int64_t high) {
    HostTensor x = makeTensor(kind, shape);
    for (int64_t i = 0; i < countOf(x); ++i)
      setInteger(x, i, std::uniform_int_distribution<int64_t>(low, high)(engine));
    return x;
  }

private:
  std::mt19937 engine{1};
};

/// Element at an index.
inline double at(const HostTensor &x, const Shape &index) {
  int64_t place = 0;
  for (size_t i = 0; i < index.size(); ++i)
    place = place * x.shape[i] + index[i];
  return realAt(x, place);
}

/// Each element of `y` is `expected(index)`.
template <typename F> void expectElements(const HostTensor &y, const Shape &shape, F &&expected, double tolerance = 1e-5) {
  ASSERT_EQ(y.shape, shape);
  forEachIndex(shape, [&](const Shape &index) { EXPECT_NEAR(at(y, index), expected(index), tolerance) << textOf(index); });
}

} // namespace tw::operators::test

#endif // TESTS_UNIT_OPERATORS_REALNODES_H
