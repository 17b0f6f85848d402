//===- Elements.h - One element of a tensor, as LLVM IR ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel function is a graph of tensors. An element of its result is computed
// from elements of what it reads; what is not in memory is computed in place.
// So every op has one form, whatever it is fused with.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_ELEMENTS_H
#define COMPILER_CODEGEN_GPU_ELEMENTS_H

#include "compiler/codegen/gpu/Scalars.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Error.h"
#include <functional>

namespace tw::gpu {

/// Where an element lies: an i32 for each dim, and, where it is known, its number in row-major order.
struct ElementIndex {
  llvm::SmallVector<llvm::Value *> dims;
  llvm::Value *linear = nullptr;
};

mlir::RankedTensorType tensorOf(mlir::Value value);
/// Dims of a number in row-major order.
ElementIndex delinearised(llvm::IRBuilder<> &b, llvm::Value *linear, llvm::ArrayRef<int64_t> shape);
llvm::Value *linearised(llvm::IRBuilder<> &b, const ElementIndex &index, llvm::ArrayRef<int64_t> shape);

/// Loads and stores, whose types in memory are whole bytes.
llvm::Value *loadElement(llvm::IRBuilder<> &b, mlir::Type type, llvm::Value *pointer, llvm::Value *linear);
void storeElement(llvm::IRBuilder<> &b, mlir::Type type, llvm::Value *pointer, llvm::Value *linear, llvm::Value *value);
/// Neighbours, a power of two, from a multiple of that on.
void storeRow(llvm::IRBuilder<> &b, mlir::Type type, llvm::Value *pointer, llvm::Value *linear,
              llvm::ArrayRef<llvm::Value *> values);

/// Tensors that elements of `value` are computed from and that lie in memory: arguments, constants with different elements, and `inMemory`.
/// In the order in which they are found, each once. An error names an op without a form, and its place.
llvm::Error findLeaves(mlir::Value value, const llvm::DenseSet<mlir::Value> &inMemory, llvm::SetVector<mlir::Value> &leaves);

class Elements {
public:
  explicit Elements(llvm::IRBuilder<> &builder) : b(builder) {}
  /// Neighbours along the last dim.
  using Row = llvm::SmallVector<llvm::Value *>;

  /// `tensor` lies at `pointer`, dense and row-major, at a multiple of kAlignment.
  void setPointer(mlir::Value tensor, llvm::Value *pointer) { pointers[tensor] = pointer; }
  /// Elements of `tensor` are what `element` gives.
  using Source = std::function<llvm::Value *(const ElementIndex &)>;
  void setSource(mlir::Value tensor, Source element) { sources[tensor] = std::move(element); }

  /// Whatever row of `tensor` is asked for, of as many elements, is this one.
  void setRow(mlir::Value tensor, Row row) { rows[tensor] = std::move(row); }

  /// The element at `index`. Every leaf has a pointer, a source or a row.
  llvm::Value *at(mlir::Value tensor, const ElementIndex &index) { return row(tensor, index, 1)[0]; }
  /// The elements at `index` and behind it, a power of two; its last dim is a multiple of that.
  Row row(mlir::Value tensor, const ElementIndex &index, unsigned lanes);

  /// `condition ? then() : otherwise()`, one of which is run; rows of as many numbers.
  Row choose(llvm::Value *condition, llvm::Type *type, llvm::function_ref<Row()> then, llvm::function_ref<Row()> otherwise);

  /// Of a reduction: its result if it runs over iterations [0, count) of the loop that `run` emits. `run` is given the numbers to begin with
  /// and a body, from the row-major number of an iteration and the numbers so far to those behind it; it returns the last ones. Numbers:
  /// `lanes` for each result of the op.
  using Iteration = std::function<Row(llvm::Value *iteration, llvm::ArrayRef<llvm::Value *> numbers)>;
  using Run = std::function<Row(llvm::ArrayRef<llvm::Value *> initial, int64_t count, const Iteration &body)>;
  Row reduce(mlir::linalg::LinalgOp op, const ElementIndex &index, unsigned result, unsigned lanes, const Run &run);

private:
  Row generic(mlir::linalg::LinalgOp op, unsigned result, const ElementIndex &index, unsigned lanes);
  Row body(mlir::linalg::LinalgOp op, llvm::ArrayRef<llvm::Value *> dims, llvm::ArrayRef<llvm::Value *> outputs,
           llvm::Value *linear, unsigned lanes, std::optional<unsigned> laneDim);

  llvm::IRBuilder<> &b;
  llvm::DenseMap<mlir::Value, llvm::Value *> pointers;
  llvm::DenseMap<mlir::Value, Source> sources;
  llvm::DenseMap<mlir::Value, Row> rows;
};

/// `index`, `lanes` elements further along the last dim.
ElementIndex shifted(llvm::IRBuilder<> &b, const ElementIndex &index, unsigned lanes);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_ELEMENTS_H
