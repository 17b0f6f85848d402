//===- MmaAttention.h - Attention as one kernel for sm_80 -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel of Attention.h for devices without TMA and wgmma: every warp has 16
// rows of Q, and all threads copy tiles of K and V (cp.async) into the ring.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_MMAATTENTION_H
#define COMPILER_CODEGEN_GPU_MMAATTENTION_H

#include "compiler/codegen/gpu/Attention.h"

namespace tw::gpu {

/// Parameters: pointers; i32. A unit is 16 bytes. Each operand has strides of its rows, heads and batch; then the pointers of the function.
/// Blocks of a grid: tiles of rows by heads by batch.
enum MmaAttentionParameter : unsigned {
  kMmaQueries,
  kMmaKeys,
  kMmaValues,
  kMmaContext,
  kMmaHeads,
  kMmaQueryRows,
  kMmaKeyRows,
  kMmaRowStrides, ///< units, of Q, K, V and the result
  kMmaHeadStrides = kMmaRowStrides + 4,
  kMmaBatchStrides = kMmaHeadStrides + 4,
  kFirstMmaAttentionPointer = kMmaBatchStrides + 4
};

inline unsigned mmaAttentionThreads(const AttentionShape &shape) { return shape.rows / 16 * 32; }
unsigned mmaAttentionSharedBytes(const AttentionKernel &kernel);

/// Adds the kernel to `module`, whose triple is nvptx64-nvidia-cuda.
llvm::Function *emitMmaAttention(llvm::Module &module, const AttentionKernel &kernel);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_MMAATTENTION_H
