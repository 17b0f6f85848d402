//===- Attention.h - Attention as one kernel for sm_90a ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// out = softmax(scale * f(Q K^T)) V for many heads, without the scores in
// memory (Dao et al., FlashAttention). A block has some rows of Q of one head.
// One warpgroup copies tiles of K and V into a ring of stages, the others take
// 64 rows of Q each: a tile of scores in registers, its softmax with the largest
// scores so far, and at once its product with the tile of V.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_ATTENTION_H
#define COMPILER_CODEGEN_GPU_ATTENTION_H

#include "compiler/codegen/gpu/Hopper.h"

#include "llvm/IR/Module.h"

#include <functional>
#include <string>

namespace tw::gpu {

/// Tiles of attention.
struct AttentionShape {
  unsigned rows = 128; ///< of Q, for a block: 64 for each warpgroup that multiplies
  unsigned keys = 128; ///< rows of K and V in a stage
  unsigned stages = 4; ///< of K and V in turn, so an even number

  unsigned consumers() const { return rows / 64; }
  unsigned threads() const { return 128 * (consumers() + 1); }
  /// "128x64": rows by keys.
  std::string name() const { return std::to_string(rows) + "x" + std::to_string(keys); }
};

/// What becomes of a score before the softmax. `batch`: of all heads; `row`, `key`: inside of the scores.
using ScoreFunction = std::function<llvm::Value *(llvm::IRBuilder<> &, llvm::Value *score, llvm::Value *batch, llvm::Value *row,
                                                  llvm::Value *key, llvm::Function *kernel)>;

struct AttentionKernel {
  std::string name;
  AttentionShape shape;
  Element element = Element::Bf16; ///< of Q, K, V and the result: 16 bits
  unsigned headSize = 64;          ///< a multiple of 16, at most 128
  bool hasTail = false;            ///< the keys are no multiple of a stage's
  bool overlapsGrids = true;       ///< the grid may begin before the one in front of it ends
  double scale = 1;                ///< of scores, behind the function; above 0
  unsigned pointers = 0;           ///< that the function reads: parameters kFirstAttentionPointer and behind
  ScoreFunction function;          ///< none: the scores as they are

  /// Boxes of 64 columns that a row of a head takes.
  unsigned chunks() const { return (headSize + 63) / 64; }
  unsigned queryBytes() const { return shape.rows * chunks() * 128; }
  unsigned stageBytes() const { return shape.keys * chunks() * 128; }
  unsigned sharedBytes() const;
};

/// Parameters of an attention kernel. Maps of Q, K, V and the result: dims {head size, rows, heads, batch}, boxes of 64 x (rows, keys, keys, 64).
/// i32: heads, rows of Q and of K of each head. Blocks of a grid: tiles of rows by heads by batch.
enum AttentionParameter : unsigned {
  kMapQueries,
  kMapKeys,
  kMapValues,
  kMapContext,
  kHeads,
  kQueryRows,
  kKeyRows,
  kFirstAttentionPointer
};

/// Adds the kernel to `module`, whose triple is nvptx64-nvidia-cuda.
llvm::Function *emitAttention(llvm::Module &module, const AttentionKernel &kernel);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_ATTENTION_H
