//===- NodeTests.cpp - Reading ONNX's node tests --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/conformance/NodeTests.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"
#include "isa/files/InputFile.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

using namespace tw;
using namespace tw::conformance;
using operators::Error;
using operators::Value;

// As ONNX's backend test runner compares (onnx/backend/test/case/test_case.py).
static constexpr double kRelative = 1e-3, kAbsolute = 1e-7;

std::vector<std::string> conformance::testsIn(const std::string &folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto &entry : std::filesystem::directory_iterator(folder, none))
    if (std::filesystem::exists(entry.path() / "model.onnx"))
      names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

static std::string read(const std::string &path) {
  Result<std::string> bytes = files::readFile(path);
  if (!bytes)
    throw Error{bytes.message()};
  return *bytes;
}

static Value valueOf(const onnx::TensorProto &proto) {
  Result<frontend::HostTensor> tensor = frontend::decodeTensor(proto);
  if (!tensor)
    throw Error{tensor.message()};
  return Value(std::move(*tensor));
}

static Value valueOf(const onnx::OptionalProto &proto);
static Value valueOf(const onnx::SequenceProto &proto) {
  std::vector<Value> elements;
  for (const onnx::TensorProto &tensor : proto.tensor_values())
    elements.push_back(valueOf(tensor));
  for (const onnx::SequenceProto &sequence : proto.sequence_values())
    elements.push_back(valueOf(sequence));
  for (const onnx::OptionalProto &optional : proto.optional_values())
    elements.push_back(valueOf(optional));
  return Value::sequenceOf(std::move(elements));
}
static Value valueOf(const onnx::OptionalProto &proto) {
  if (proto.has_tensor_value())
    return valueOf(proto.tensor_value());
  if (proto.has_sequence_value())
    return valueOf(proto.sequence_value());
  if (proto.has_optional_value())
    return valueOf(proto.optional_value());
  return Value();
}

static Value parse(const std::string &bytes, const onnx::TypeProto &type) {
  onnx::TensorProto tensor;
  onnx::SequenceProto sequence;
  onnx::OptionalProto optional;
  if (type.has_sequence_type()) {
    if (!sequence.ParseFromString(bytes))
      throw Error{"a sequence cannot be parsed"};
    return valueOf(sequence);
  }
  if (type.has_optional_type()) {
    if (!optional.ParseFromString(bytes))
      throw Error{"an optional cannot be parsed"};
    return valueOf(optional);
  }
  if (!tensor.ParseFromString(bytes))
    throw Error{"a tensor cannot be parsed"};
  return valueOf(tensor);
}

NodeTest conformance::readTest(const std::string &folder, const std::string &name) {
  NodeTest test;
  test.name = name;
  test.folder = folder + "/" + name;
  if (!test.model.ParseFromString(read(test.folder + "/model.onnx")))
    throw Error{"model.onnx cannot be parsed"};
  std::set<std::string> initializers;
  for (const onnx::TensorProto &tensor : test.model.graph().initializer())
    initializers.insert(tensor.name());
  for (int i = 0; i < test.model.graph().input_size(); ++i) {
    const onnx::ValueInfoProto &input = test.model.graph().input(i);
    const std::string path = test.folder + "/test_data_set_0/input_" + std::to_string(i) + ".pb";
    // Initializers that are inputs too keep their values.
    const bool isGiven = std::filesystem::exists(path) || !initializers.count(input.name());
    test.inputs.push_back(isGiven ? parse(read(path), input.type()) : Value());
  }
  for (int i = 0; i < test.model.graph().output_size(); ++i)
    test.outputs.push_back(
        parse(read(test.folder + "/test_data_set_0/output_" + std::to_string(i) + ".pb"), test.model.graph().output(i).type()));
  return test;
}

onnx::TensorProto conformance::protoOf(const frontend::HostTensor &tensor, const std::string &name) {
  return frontend::encodeTensor(tensor, name);
}

bool conformance::isRandom(const onnx::ModelProto &model) {
  auto draws = [](const onnx::NodeProto &node) {
    const operators::Operator *op = operators::find(node.domain(), node.op_type());
    return op && op->isRandom;
  };
  return std::any_of(model.graph().node().begin(), model.graph().node().end(), draws);
}

std::string conformance::differenceOfDraws(const Value &actual, const Value &expected) {
  if (actual.form != Value::Form::Tensor || expected.form != Value::Form::Tensor)
    return actual.form == expected.form ? "" : "it is of another form than expected";
  const frontend::HostTensor &a = *actual.tensor, &b = *expected.tensor;
  if (a.type != b.type)
    return std::string(frontend::elementName(a.type)) + ", expected " + frontend::elementName(b.type);
  if (a.shape != b.shape)
    return "shape " + operators::textOf(a.shape) + ", expected " + operators::textOf(b.shape);
  auto areBits = [](const frontend::HostTensor &tensor) {
    for (int64_t i = 0; i < operators::countOf(tensor); ++i)
      if (const double x = operators::realAt(tensor, i); x != 0 && x != 1)
        return false;
    return true;
  };
  if (areBits(b) && !areBits(a))
    return "an element is neither 0 nor 1";
  for (int64_t i = 0; i < operators::countOf(a); ++i)
    if (!std::isfinite(operators::realAt(a, i)))
      return "element " + std::to_string(i) + " is no number";
  return "";
}

std::string conformance::difference(const Value &actual, const Value &expected) {
  if (actual.form != expected.form)
    return "it is of another form than expected";
  if (actual.form == Value::Form::Empty)
    return "";
  if (actual.form == Value::Form::Sequence) {
    if (actual.sequence->size() != expected.sequence->size())
      return std::to_string(actual.sequence->size()) + " elements, expected " + std::to_string(expected.sequence->size());
    for (size_t i = 0; i < actual.sequence->size(); ++i)
      if (std::string text = difference((*actual.sequence)[i], (*expected.sequence)[i]); !text.empty())
        return "element " + std::to_string(i) + ": " + text;
    return "";
  }
  const frontend::HostTensor &a = *actual.tensor, &b = *expected.tensor;
  if (a.type != b.type)
    return std::string(frontend::elementName(a.type)) + ", expected " + frontend::elementName(b.type);
  if (a.shape != b.shape)
    return "shape " + operators::textOf(a.shape) + ", expected " + operators::textOf(b.shape);
  if (a.type == frontend::ElementKind::String)
    return a.strings == b.strings ? "" : "other strings than expected";
  if (a.type == frontend::ElementKind::Complex64 || a.type == frontend::ElementKind::Complex128)
    return a.bytes == b.bytes ? "" : "other numbers than expected";
  if (a.bytes == b.bytes)
    return "";
  const bool isReal = frontend::isFloat(a.type);
  for (int64_t i = 0; i < operators::countOf(a); ++i) {
    const double x = operators::realAt(a, i), y = operators::realAt(b, i);
    if (x == y || (x != x && y != y))
      continue;
    if (isReal && std::fabs(x - y) <= kAbsolute + kRelative * std::fabs(y))
      continue;
    return "element " + std::to_string(i) + " is " + std::to_string(x) + ", expected " + std::to_string(y);
  }
  return "";
}
