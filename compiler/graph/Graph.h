//===- Graph.h - The graph dialect ------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A network with ONNX semantics and static shapes; see GraphDialect.td.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_GRAPH_H
#define COMPILER_GRAPH_GRAPH_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "compiler/graph/GraphOpsDialect.h.inc"
#include "compiler/graph/GraphOpsEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/graph/GraphOpsAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/graph/GraphOps.h.inc"

namespace tw::graph {

/// Attribute of an argument or result of @main: its name in the ONNX model.
inline constexpr llvm::StringLiteral kNameAttr = "graph.name";
/// Attribute of an argument or result of @main: its element type in the ONNX model ("float16"), where the importer changed it.
inline constexpr llvm::StringLiteral kWidenedFromAttr = "graph.widened_from";

} // namespace tw::graph

#endif // COMPILER_GRAPH_GRAPH_H
