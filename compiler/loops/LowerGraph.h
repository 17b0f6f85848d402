//===- LowerGraph.h - Graph kernels to linalg -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LOOPS_LOWERGRAPH_H
#define COMPILER_LOOPS_LOWERGRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tw::loops {

/// Marks an argument or result of @main that was uint8 in the graph.
inline constexpr llvm::StringLiteral kUnsignedAttr = "tilewright.unsigned";

/// Rewrites one kernel function of graph ops into linalg. An op without a lowering is an error at its node.
llvm::LogicalResult lowerKernel(mlir::func::FuncOp kernel);

} // namespace tw::loops

#endif // COMPILER_LOOPS_LOWERGRAPH_H
