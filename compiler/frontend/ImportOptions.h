//===- ImportOptions.h - What a user says beside the model ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain data, so that the runtime can hold it without LLVM.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_IMPORTOPTIONS_H
#define COMPILER_FRONTEND_IMPORTOPTIONS_H

#include "compiler/frontend/HostTensor.h"
#include "compiler/frontend/Remainder.h"
#include "compiler/graph/ConstantBudget.h"
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tw::frontend {

/// The shape of a tensor that a network input will be given.
struct GivenShape {
  std::string input;          ///< its name; empty: the first input, in order, that is not named
  std::string where;          ///< where the tensor comes from, for messages
  std::vector<int64_t> shape; ///< -1: any number, 1 if the model leaves it open
};

struct ImportOptions {
  /// Dims of network inputs by name: they fix dynamic dims, and must agree with static ones.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Network inputs that become constants, for example a shape that the model expects at run time. Their element types must
  /// be those that the model declares.
  std::map<std::string, HostTensor> constants;
  /// The same as text: one number, which all elements get, or several with commas, for an input of rank 1.
  std::map<std::string, std::string> values;
  /// Names of an output and of the input at whose place it lies (docs/decode.md); those of the model's metadata come on top.
  std::vector<std::pair<std::string, std::string>> aliases;
  /// They fix dims that the model and `shapes` leave open, and must agree with `shapes`.
  std::vector<GivenShape> given;
  /// Import float16 and bfloat16 as float32, which operators compute in; a Cast to one of them still rounds. Inputs and outputs
  /// of @main stay bfloat16; those of float16 become float32 and carry graph.widened_from = "float16".
  bool widenFloats = true;
  /// Bytes of constants that the model may have and make, all tensors together.
  uint64_t maxConstantBytes = graph::kMaxConstantBytes;
  /// Where the part goes that only a run knows the shapes of; null: a model with such nodes is refused.
  Remainder *remainder = nullptr;
  /// Constants that the network returns go there, too.
  bool leavesConstantResults = false;
};

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_IMPORTOPTIONS_H
