//===- ModelNodes.h - The nodes of the ONNX model ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_GRAPH_MODELNODES_H
#define COMPILER_GRAPH_MODELNODES_H

#include "llvm/ADT/StringRef.h"

namespace tw::graph {

/// Attribute of @main: an array with the names of all nodes of the ONNX model, in their order, those of a branch that
/// stands in place of an If behind that. Two nodes may have one name.
inline constexpr llvm::StringLiteral kModelNodesAttr = "graph.nodes";
/// The same for their operators, "domain.Type" or "Type".
inline constexpr llvm::StringLiteral kModelOperatorsAttr = "graph.operators";

} // namespace tw::graph

#endif // COMPILER_GRAPH_MODELNODES_H
