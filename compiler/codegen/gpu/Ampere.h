//===- Ampere.h - Instructions of sm_80 that LLVM IR has no ops for -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of threads into shared memory, matrix products of a warp and what goes
// with them, as inline assembly. Addresses in shared memory are i32. Later
// devices have these instructions too.
// Sources: PTX ISA 7.4, sections 9.7.8.22 (cp.async), 9.7.13 (mma, ldmatrix).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_AMPERE_H
#define COMPILER_CODEGEN_GPU_AMPERE_H

#include "compiler/codegen/gpu/Program.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"

#include <string>

namespace tw::gpu {

class Ampere {
public:
  explicit Ampere(llvm::IRBuilder<> &builder) : b(builder) {}

  llvm::Value *threadIndex(); ///< i32, in the block
  llvm::Value *blockIndex();  ///< i32, in the grid
  llvm::Value *blockCount();  ///< i32
  /// `value` of lane 0, so that the compiler knows it is one for the warp.
  llvm::Value *uniform(llvm::Value *value);
  /// What lane `lane ^ apart` has of a float.
  llvm::Value *ofOtherLane(llvm::Value *value, unsigned apart);

  /// All threads of the block, or `threads` of it at barrier `id`.
  void synchronize();
  void synchronize(llvm::Value *id, unsigned threads);

  /// 16 bytes of global memory at a multiple of 16, or zeros where `isInside` (i1) is false: then nothing is read. Belongs to the thread's
  /// open group of copies.
  void copy16(llvm::Value *to, llvm::Value *from, llvm::Value *isInside);
  void commitCopies();
  /// Waits until at most `left` of this thread's groups run. Others see the copies behind a barrier.
  void waitCopies(unsigned left);

  /// Four 8x8 matrices of 16-bit elements (of any 4 bytes, untransposed); `address`: of row lane % 8 of matrix lane / 8. A lane has two
  /// neighbours in row lane / 4 of each; transposed, in column lane / 4.
  llvm::SmallVector<llvm::Value *> loadMatrices(llvm::Value *address, bool transposed = false);
  /// Adds the product of 16 rows of A (four words of loadMatrices: upper and lower rows, then 16 bytes of k further) and 8 columns of B (two
  /// words: k, then 16 bytes further) to four `sums`: two columns of row lane / 4, and of the row 8 below. k is 32 bytes.
  llvm::SmallVector<llvm::Value *> multiplyTile(Element element, llvm::ArrayRef<llvm::Value *> sums,
                                                llvm::ArrayRef<llvm::Value *> a, llvm::ArrayRef<llvm::Value *> b);

  /// Two floats as 16-bit numbers, `low` in the low half.
  llvm::Value *pack(Element element, llvm::Value *low, llvm::Value *high);
  /// Four floats as saturated bytes, rounded to nearest even.
  llvm::Value *packBytes(llvm::ArrayRef<llvm::Value *> values);
  void storeShared(llvm::Value *address, llvm::Value *value);

  llvm::CallInst *assembly(const llvm::Twine &text, const llvm::Twine &constraints, llvm::Type *result,
                           llvm::ArrayRef<llvm::Value *> operands, bool hasEffects = true);

protected:
  /// "{$from, $from+1, ...}".
  static std::string list(unsigned from, size_t count);
  static std::string repeated(llvm::StringRef constraint, size_t count);
  llvm::SmallVector<llvm::Value *> elementsOf(llvm::Value *aggregate);

  llvm::IRBuilder<> &b;
};

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_AMPERE_H
