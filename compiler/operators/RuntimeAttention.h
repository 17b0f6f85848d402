//===- RuntimeAttention.h - Attention behind its projection -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_RUNTIMEATTENTION_H
#define COMPILER_OPERATORS_RUNTIMEATTENTION_H

#include "compiler/operators/Operator.h"

namespace tw::operators {

/// com.microsoft Attention once Q, K and V are there.
struct ProjectedAttention {
  ElementKind kind = ElementKind::F32; ///< of the results
  /// [batch, steps, width], with Q, K and V side by side.
  std::vector<float> projected;
  int64_t batch = 0, steps = 0, width = 0;
  /// Inputs. What a node has none of lies behind its last input.
  size_t maskAt = 0, pastAt = 0, biasAt = 0, pastLengthAt = 0;
};
void attendProjected(Call &call, const ProjectedAttention &given);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_RUNTIMEATTENTION_H
