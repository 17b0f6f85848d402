//===- FusionTypes.h - How ops of the graph may be fused ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_GRAPH_FUSIONTYPES_H
#define COMPILER_GRAPH_FUSIONTYPES_H

#include "compiler/operators/FusionType.h"

#include "mlir/IR/Operation.h"

namespace tw::graph {

/// The type of an op with its operands and attributes: an element-by-element op that broadcasts an operand that is no constant is one_to_many. Ops of
/// other dialects are opaque.
operators::FusionType fusionTypeOf(mlir::Operation *op);

} // namespace tw::graph

#endif // COMPILER_GRAPH_FUSIONTYPES_H
