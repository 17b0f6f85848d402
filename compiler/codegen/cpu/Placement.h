//===- Placement.h - Tensors inside of larger ones --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Padding and concatenation copy a tensor to where something is around it. The
// kernel that computes the tensor can write it there at once. And kernels that
// work in any order of dimensions need no transposition before and after them.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_PLACEMENT_H
#define COMPILER_CODEGEN_CPU_PLACEMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace tw::cpu {

/// What is around a tensor that kernels exchange, if anything.
struct Placement {
  /// Elements before and after it along each dimension, all of them `padding`; empty where nothing is known of them.
  llvm::SmallVector<int64_t> low, high;
  mlir::Attribute padding;
  /// Distance between its elements along each dimension.
  llvm::SmallVector<int64_t> strides;
};

/// Of an argument or a result of a kernel; nothing if the tensor is dense and by itself.
std::optional<Placement> argumentPlacement(mlir::func::FuncOp kernel, unsigned index);
std::optional<Placement> resultPlacement(mlir::func::FuncOp kernel, unsigned index);

/// A tensor of @main as a part of the memory of another one, or of its own.
struct PlacedTensor {
  /// The tensor that the memory is for; its elements and those around it.
  mlir::Value whole;
  int64_t wholeElements = 0;
  /// The first element of the tensor in that memory.
  int64_t offset = 0;
};

/// Finds the results of kernel calls in `main` that can be placed in the memory of other tensors, and says so to the kernels that write
/// and read them. `groupsFloats`: products of floats are summed in groups, as those of integers are, whose numbers must be neighbours.
llvm::DenseMap<mlir::Value, PlacedTensor> placeTensors(mlir::func::FuncOp main, bool groupsFloats);

/// Whether the call need not run: it concatenates tensors that are placed in its result, or transposes what is read or written in
/// another order anyway.
bool isDoneByPlacement(mlir::func::CallOp call, const llvm::DenseMap<mlir::Value, PlacedTensor> &placed);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_PLACEMENT_H
