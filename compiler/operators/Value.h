//===- Value.h - What names of an ONNX graph stand for ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_VALUE_H
#define COMPILER_OPERATORS_VALUE_H

#include "compiler/frontend/HostTensor.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tw::operators {

using frontend::ElementKind;
using frontend::HostTensor;
using Shape = std::vector<int64_t>;

/// What was wrong with a node, its operands or its attributes; thrown inside this library and by what evaluates graphs.
struct Error {
  std::string message;
  uint64_t bytes = 0; ///< of a tensor that a ByteLimit does not allow; 0: something else is wrong
};

/// A tensor, a sequence, or an optional that is empty.
struct Value {
  enum class Form : uint8_t { Empty, Tensor, Sequence };

  Value() = default;
  Value(HostTensor tensor) : form(Form::Tensor), tensor(std::make_shared<const HostTensor>(std::move(tensor))) {}
  Value(std::shared_ptr<const HostTensor> tensor) : form(Form::Tensor), tensor(std::move(tensor)) {}
  static Value sequenceOf(std::vector<Value> elements) {
    Value value;
    value.form = Form::Sequence;
    value.sequence = std::make_shared<const std::vector<Value>>(std::move(elements));
    return value;
  }

  Form form = Form::Empty;
  std::shared_ptr<const HostTensor> tensor;           ///< of Form::Tensor
  std::shared_ptr<const std::vector<Value>> sequence; ///< of Form::Sequence
};

} // namespace tw::operators

#endif // COMPILER_OPERATORS_VALUE_H
