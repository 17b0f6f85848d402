//===- TensorView.h - Where a tensor's elements are -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_TENSORVIEW_H
#define COMPILER_CODEGEN_CPU_TENSORVIEW_H

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallBitVector.h"

namespace tw::cpu {

/// Where the elements of a tensor are, or the one scalar they all equal, or nothing yet (tensor.empty).
struct TensorView {
  /// !llvm.ptr
  mlir::Value pointer;
  mlir::Value splat;
  /// Index into the workspace buffers, or -1.
  int buffer = -1;
  /// Of the first element from `pointer`; in elements, as the strides.
  int64_t offset = 0;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<int64_t> strides;
  mlir::Type element;
};

/// A dense tensor at `pointer`, which may be null.
TensorView denseView(mlir::RankedTensorType type, mlir::Value pointer = {});

llvm::SmallVector<int64_t> denseStrides(llvm::ArrayRef<int64_t> shape);

/// The view with each group of dimensions as one; nothing if their elements do not follow one another.
std::optional<TensorView> collapsed(const TensorView &view, llvm::ArrayRef<mlir::ReassociationIndices> groups);

/// The view with each dimension as a group of those of `shape`.
TensorView expanded(const TensorView &view, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<mlir::ReassociationIndices> groups);

TensorView sliced(TensorView view, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes,
                  llvm::ArrayRef<int64_t> strides);

/// Removes the dimensions that a rank-reducing slice leaves out.
void dropDims(TensorView &view, const llvm::SmallBitVector &dropped);

/// Adds factor * expr to `coefficients . dims + constant`; fails if the expression is not linear.
llvm::LogicalResult linearise(mlir::AffineExpr expr, llvm::SmallVectorImpl<int64_t> &coefficients, int64_t &constant,
                              int64_t factor);

/// Bytes of a statically shaped tensor in memory.
int64_t tensorBytes(mlir::RankedTensorType type);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_TENSORVIEW_H
