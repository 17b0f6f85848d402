//===- KernelText.h - The body of a kernel, as OpenCL C ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel is a graph of tensors. An element of its result is computed from
// elements of what it reads; what does not lie in memory is computed in place.
// So every op has one form, whatever it is fused with. One printer for all
// kernels: what a text names once in a scope is named once.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_OPENCL_KERNELTEXT_H
#define COMPILER_CODEGEN_OPENCL_KERNELTEXT_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tw::opencl {

/// Expressions of ints: one for each dim of a tensor.
using Index = llvm::SmallVector<std::string>;

// Expressions of ints that are not negative; numbers are folded.
std::string sum(const std::string &x, const std::string &y);
std::string product(const std::string &x, int64_t y);
std::string quotient(const std::string &x, int64_t y);
std::string remainder(const std::string &x, int64_t y);

mlir::RankedTensorType tensorOf(mlir::Value value);

class KernelText {
public:
  /// What a tensor is made of, if it does not lie in memory: itself, or another value with the same elements in the same order of dims; null
  /// if it lies in memory.
  using Source = std::function<mlir::Value(mlir::Value)>;
  explicit KernelText(Source source) : source(std::move(source)) {}

  void line(const llvm::Twine &text);
  /// A line that ends in `{`, and what it ends with. Names that are declared inside hold inside.
  void open(const llvm::Twine &head);
  void close();
  /// `const TYPE name = value;` unless the scope has that already. Returns the name, or `value` itself if it is a name or a number.
  std::string named(const std::string &type, const std::string &value, llvm::StringRef stem = "v");
  /// A name that nothing has.
  std::string fresh(llvm::StringRef stem);

  /// Dims of a number in row-major order, each as a name.
  Index delinearised(const std::string &linear, llvm::ArrayRef<int64_t> shape);
  std::string linearised(const Index &index, llvm::ArrayRef<int64_t> shape) const;

  /// The element at `index`: a name or a number.
  std::string at(mlir::Value tensor, const Index &index);
  /// From now on any element of `tensor` that is asked for is this.
  void setElement(mlir::Value tensor, const std::string &value) { elements[tensor] = value; }

  /// What the body of an op yields. `dims` of the loops; `inputs`, `outputs`: of each operand, computed where it is empty.
  llvm::SmallVector<std::string> body(mlir::linalg::LinalgOp op, const Index &dims, llvm::ArrayRef<std::string> inputs,
                                      llvm::ArrayRef<std::string> outputs);
  /// The element of an input of `op` that an iteration reads.
  std::string operand(mlir::linalg::LinalgOp op, unsigned input, const Index &dims);
  /// The dims of the loops at an element of a result; empty for those that it does not name.
  Index loopsAt(mlir::linalg::LinalgOp op, unsigned result, const Index &index) const;
  /// Loops over iterations of dims that are empty in `dims`, the first of them from `first` in steps of `step`; `body` is given all dims.
  void loops(mlir::linalg::LinalgOp op, const Index &dims, llvm::function_ref<void(const Index &)> body);

  const std::string &text() const { return written; }
  /// Tensors in memory that the text reads, in the order of its parameters x0, x1, ...
  llvm::ArrayRef<mlir::Value> leaves() const { return read.getArrayRef(); }
  /// The first op without a form, and its place; empty if there is none.
  const std::string &problem() const { return failure; }

private:
  std::string compute(mlir::Value tensor, const Index &index);
  std::string padded(mlir::tensor::PadOp pad, const Index &index);
  std::string inserted(mlir::tensor::InsertSliceOp insert, const Index &index);
  std::string concatenated(mlir::tensor::ConcatOp concat, const Index &index);
  std::string generic(mlir::linalg::LinalgOp op, unsigned result, const Index &index);
  /// `condition ? then() : otherwise()`, one of which is run.
  std::string choose(mlir::Type type, const std::string &condition, llvm::function_ref<std::string()> then,
                     llvm::function_ref<std::string()> otherwise);
  std::string fail(mlir::Operation *op);

  Source source;
  std::string written, failure;
  unsigned depth = 1;
  std::map<std::string, unsigned> numbers; ///< of names
  /// Expressions, and elements of tensors, by scope: the names that hold them.
  std::vector<std::map<std::string, std::string>> scopes{1};
  llvm::DenseMap<mlir::Value, std::string> elements;
  llvm::SetVector<mlir::Value> read;
};

} // namespace tw::opencl

#endif // COMPILER_CODEGEN_OPENCL_KERNELTEXT_H
