//===- View.h - How a tensor lies in another one ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transposes and reshapes of a tensor that lies in memory: the same elements,
// found with other strides. Tensor maps read and write them so, without a copy.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_VIEW_H
#define COMPILER_CODEGEN_GPU_VIEW_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace tw::gpu {

/// `size` places, `stride` elements apart.
struct Run {
  int64_t size, stride;
};
/// Outermost first, none of size 1, neighbours merged where one run can hold both.
using Runs = llvm::SmallVector<Run, 2>;

/// The dims of a tensor, and where each of their places lies in the memory of a dense tensor.
class View {
public:
  static View dense(llvm::ArrayRef<int64_t> shape);

  llvm::ArrayRef<Runs> dims() const { return runs; }
  int64_t sizeOf(unsigned dim) const;
  /// These dims as one, the first one outermost.
  Runs merged(llvm::ArrayRef<unsigned> dims) const;

  View permuted(llvm::ArrayRef<int64_t> perm) const;
  /// The same elements in row-major order. Nothing if a dim would begin or end inside of a run that it does not divide.
  std::optional<View> reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// Where the elements of the dense tensor lie if this view is what lies dense. Nothing if the view does not hold each once.
  std::optional<View> inverse(llvm::ArrayRef<int64_t> denseShape) const;

private:
  llvm::SmallVector<Runs, 4> runs;
};

/// How the result of a kernel function lies, if it has one argument, which lies like this, and only transposes and reshapes it.
std::optional<View> viewOfResult(mlir::func::FuncOp function, const View &argument);

/// Matrices of one shape: what a tensor map with boxes of rows reads. Strides in elements.
struct StridedMatrices {
  int64_t columns = 1; ///< side by side
  int64_t rows = 1, rowStride = 0;
  Runs batch; ///< outermost first
};
/// Nothing if the columns do not lie side by side, or rows lie in several runs.
std::optional<StridedMatrices> matricesOf(const View &view, llvm::ArrayRef<unsigned> batch, llvm::ArrayRef<unsigned> rows,
                                          llvm::ArrayRef<unsigned> columns);
/// The batch as `outer` times `inner` matrices, two runs; `inner` may be all. False if it does not lie so.
bool splitBatch(StridedMatrices &matrices, int64_t outer, int64_t inner);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_VIEW_H
