//===- AttentionMatch.h - Attention among calls of kernels ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_CODEGEN_GPU_ATTENTIONMATCH_H
#define COMPILER_CODEGEN_GPU_ATTENTIONMATCH_H

#include "compiler/codegen/gpu/Contraction.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>

namespace tw::gpu {

/// Calls of @main that are softmax(f(Q K^T)) V together, whose results nobody else reads.
struct AttentionMatch {
  /// Of the scores, of what becomes of them element by element, of the softmax, and of the product with V: in this order.
  llvm::SmallVector<mlir::func::CallOp> calls;
  Contraction scores, context; ///< of Q and K; of the weights and V
  /// What becomes of a score: `result` of one element of `source` after the other, a kernel function each.
  struct Step {
    mlir::Value source, result;
  };
  llvm::SmallVector<Step> steps;
  /// All steps are a multiplication with this number.
  std::optional<double> scale;
  mlir::Value queries, keys, values; ///< in @main
};

/// The attention whose last call this is; else why it is none, empty where nothing is like it.
struct AttentionOrNot {
  std::optional<AttentionMatch> match;
  std::string why;
};
AttentionOrNot matchAttention(mlir::func::CallOp context, mlir::ModuleOp module);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_ATTENTIONMATCH_H
