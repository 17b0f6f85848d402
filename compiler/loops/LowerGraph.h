//===- LowerGraph.h - Graph kernels to linalg -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LOOPS_LOWERGRAPH_H
#define COMPILER_LOOPS_LOWERGRAPH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tw::loops {

/// Marks an argument or result of @main that was uint8 in the graph.
inline constexpr llvm::StringLiteral kUnsignedAttr = "tilewright.unsigned";
/// Attribute of an argument of a kernel: its numbers are indices of a dim of so many elements, or count from its end where they are negative.
/// Whoever calls the kernel may look whether they are; it reads an element of the dim anyway.
inline constexpr llvm::StringLiteral kIndexExtentAttr = "tilewright.index_extent";

/// Rewrites one kernel function of graph ops into linalg. An op without a lowering is an error at its node.
llvm::LogicalResult lowerKernel(mlir::func::FuncOp kernel);

} // namespace tw::loops

#endif // COMPILER_LOOPS_LOWERGRAPH_H
