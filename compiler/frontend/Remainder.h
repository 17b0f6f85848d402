//===- Remainder.h - The part of a model without static shapes --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nodes whose results have shapes or types that only a run knows, or that no
// kernel can hold, and all nodes behind them. A run evaluates them on the host
// when @main is done.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_REMAINDER_H
#define COMPILER_FRONTEND_REMAINDER_H

#include "compiler/frontend/HostTensor.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace onnx {
class ModelProto;
}

namespace tw::frontend {

struct Remainder {
  /// An input or output of the whole network.
  struct Port {
    std::string name;
    /// Of tensors. Nothing: a sequence, an optional, or a type that the model does not declare.
    std::optional<ElementKind> kind;
    std::vector<int64_t> shape; ///< -1: any number
    bool hasShape = false;
    bool isMain = false; ///< an argument, or a result, of @main
  };
  struct Node {
    std::string name, op, reason;
  };

  /// Null: @main is the whole network.
  std::shared_ptr<const onnx::ModelProto> model;
  std::string folder; ///< of the files that tensors may name
  std::vector<Port> inputs, outputs;
  /// Names of the results of @main, outputs of the network and others that `model` reads.
  std::vector<std::string> results;
  std::vector<Node> nodes; ///< in the order of the model

  explicit operator bool() const { return model != nullptr; }
};

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_REMAINDER_H
