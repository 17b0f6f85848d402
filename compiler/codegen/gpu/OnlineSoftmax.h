//===- OnlineSoftmax.h - Rows of attention in a warp's registers -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What becomes of a tile of scores, however it was multiplied. A thread holds, of
// 16 rows of a warp and 8 columns, two neighbours in row lane / 4 and two in the
// row 8 below: of four numbers the first two are of the upper row. The four lanes
// of a row have the rest of it.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_ONLINESOFTMAX_H
#define COMPILER_CODEGEN_GPU_ONLINESOFTMAX_H

#include "compiler/codegen/gpu/Attention.h"

namespace tw::gpu {

class OnlineSoftmax {
public:
  OnlineSoftmax(llvm::IRBuilder<> &builder, const AttentionKernel &kernel) : b(builder), ampere(builder), kernel(kernel) {}

  /// What a thread carries from one tile of keys to the next.
  struct State {
    /// Of both rows: the largest score, and this lane's part of the sum of exponentials.
    llvm::Value *largest[2], *total[2];
    llvm::SmallVector<llvm::Value *> context; ///< sums of values
  };
  State begin();
  static llvm::SmallVector<llvm::Value *> packed(const State &state);
  static State unpacked(llvm::ArrayRef<llvm::Value *> values);

  /// Where a tile of scores lies: of the lane's upper row; the first key of the tile; all i32.
  struct Place {
    llvm::Value *batch, *row, *firstKey, *lane;
    llvm::Value *rows, *keys; ///< of the head
  };
  /// Applies the function, takes exp(scale * (score - largest)), and what it is less off what has been added up with a smaller largest score.
  /// `isTail`: keys may lie behind the last one. Returns pairs of weights as words, in the order of an operand of steps of 16 keys.
  llvm::SmallVector<llvm::Value *> take(State &state, llvm::SmallVector<llvm::Value *> scores, const Place &place, bool isTail,
                                        llvm::Function *function);
  /// The sums of values by the sums of exponentials.
  llvm::SmallVector<llvm::Value *> context(const State &state);

private:
  llvm::Value *number(double value) { return llvm::ConstantFP::get(b.getFloatTy(), value); }
  llvm::Value *constant(unsigned value) { return b.getInt32(value); }

  llvm::IRBuilder<> &b;
  Ampere ampere;
  const AttentionKernel &kernel;
};

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_ONLINESOFTMAX_H
