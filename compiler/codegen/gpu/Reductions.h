//===- Reductions.h - The sums that a kernel is made of ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the compilers for GPUs and for OpenCL ask of a kernel function.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_REDUCTIONS_H
#define COMPILER_CODEGEN_GPU_REDUCTIONS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/DenseSet.h"

namespace tw::gpu {

/// The op that `root` is a reduction of, if each of its elements needs one element of the reduction, at the same place in row-major order;
/// else null.
mlir::linalg::LinalgOp reductionBehind(mlir::Value root);

/// The same of a grouped convolution, whose groups and columns become one dim between it and `root`: else null.
mlir::linalg::LinalgOp groupedReductionBehind(mlir::Value root);

/// Of each of its results.
int64_t termsOf(mlir::linalg::LinalgOp reduction);

/// The op that adds a term, if parts of the sum can be added up with it; else null.
mlir::Operation *combinerOf(mlir::linalg::LinalgOp reduction);

/// The reductions of rows that `root` is made of, first those that others read, if those that share work can have a row of the root, of
/// `leastWidth` elements at least, and need no other; else empty.
llvm::SmallVector<mlir::linalg::LinalgOp> rowReductions(mlir::Value root, const llvm::DenseSet<mlir::Value> &inMemory,
                                                        int64_t leastWidth);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_REDUCTIONS_H
