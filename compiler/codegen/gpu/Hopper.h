//===- Hopper.h - Instructions of sm_90a that LLVM IR has no ops for -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers in shared memory, tensor copies, matrix products of a warpgroup and
// what goes with them, as inline assembly, beside those of sm_80.
// Sources: PTX ISA 8.0, sections 9.7.8.24 (tensor copies), 9.7.12.15 (mbarrier),
// 9.7.14 (wgmma).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_HOPPER_H
#define COMPILER_CODEGEN_GPU_HOPPER_H

#include "compiler/codegen/gpu/Ampere.h"

namespace tw::gpu {

class Hopper : public Ampere {
public:
  using Ampere::Ampere;

  llvm::Value *clusterRank(); ///< i32, of this block in its cluster

  void initBarrier(llvm::Value *barrier, llvm::Value *arrivals);
  /// What threads of this block initialised is visible to copies and to other blocks of the cluster.
  void fenceBarrierInit();
  void arrive(llvm::Value *barrier);
  /// The same where `condition` (i1) holds; no branch, so that the warp stays together.
  void arriveIf(llvm::Value *barrier, llvm::Value *condition);
  /// Arrives, and has the phase wait for `bytes` of copies.
  void arriveExpecting(llvm::Value *barrier, llvm::Value *bytes);
  /// Waits until the phase of this parity is over.
  void wait(llvm::Value *barrier, llvm::Value *parity);

  /// Boxes of a tensor map into shared memory; `barrier` counts the bytes. `coordinates` innermost first.
  void copyBox(llvm::Value *to, llvm::Value *map, llvm::ArrayRef<llvm::Value *> coordinates, llvm::Value *barrier);
  /// im2col: `coordinates` {c, w, h, n} of the first pixel, `offsets` {w, h} of the filter's tap (i16).
  void copyPixels(llvm::Value *to, llvm::Value *map, llvm::ArrayRef<llvm::Value *> coordinates,
                  llvm::ArrayRef<llvm::Value *> offsets, llvm::Value *barrier);
  /// `bytes`, a multiple of 16, of global memory at a multiple of 16.
  void copyBytes(llvm::Value *to, llvm::Value *from, llvm::Value *bytes, llvm::Value *barrier);
  /// A box from shared memory; belongs to the thread's open group of copies.
  void storeBox(llvm::Value *map, llvm::Value *from, llvm::ArrayRef<llvm::Value *> coordinates);
  void commitStores();
  /// Waits until at most `left` groups of stores still read shared memory, or are not complete.
  void waitStoresRead(unsigned left);
  void waitStores(unsigned left);
  /// Writes to shared memory before are visible to copies behind.
  void fenceProxy();

  void synchronizeCluster();
  void setRegisters(unsigned count, bool more);

  /// Products of 64 x `columns` x 4 steps of k (32 bytes each) with A and B in shared memory, into the warpgroup's `sums`; `accumulates`
  /// (i32): 0 overwrites them. `transposesB`: B lies [k][columns] (16-bit elements). `stepA`, `stepB`: added to the descriptors from one step to the next. Behind it, the group is committed.
  /// Returns the sums, which no one may read before waitProducts().
  llvm::SmallVector<llvm::Value *> multiply(Element element, unsigned columns, llvm::ArrayRef<llvm::Value *> sums,
                                            llvm::Value *a, llvm::Value *b, unsigned stepA, unsigned stepB,
                                            llvm::Value *accumulates, bool transposesB = false);
  /// One step of k of products: what it adds to the descriptors of A and B.
  struct ProductStep {
    unsigned a, b;
  };
  /// The same in these steps, of 16-bit elements.
  llvm::SmallVector<llvm::Value *> multiply(Element element, unsigned columns, llvm::ArrayRef<llvm::Value *> sums,
                                            llvm::Value *a, llvm::Value *b, llvm::ArrayRef<ProductStep> steps, bool accumulates,
                                            bool transposesB);
  /// The same with A in registers: four words of two elements for each step, whose ProductStep::a means nothing. Nobody may change the
  /// words before waitProducts().
  llvm::SmallVector<llvm::Value *> multiplyRegisters(Element element, unsigned columns, llvm::ArrayRef<llvm::Value *> sums,
                                                     llvm::ArrayRef<llvm::Value *> a, llvm::Value *b,
                                                     llvm::ArrayRef<ProductStep> steps, bool accumulates, bool transposesB);
  /// Waits until at most `left` groups of products run; the sums behind it.
  llvm::SmallVector<llvm::Value *> waitProducts(llvm::ArrayRef<llvm::Value *> sums, unsigned left);

  /// Four 8x8 matrices of 16-bit elements; `address`: of this lane's row.
  void storeMatrices(llvm::Value *address, llvm::ArrayRef<llvm::Value *> matrices);

  /// The address of what lies at `address` in block `rank` of the cluster.
  llvm::Value *inBlock(llvm::Value *address, llvm::Value *rank);
  llvm::Value *loadCluster(llvm::Type *type, llvm::Value *address);

  /// The grid before this one in the stream is done, and its results are visible.
  void waitForGridBefore();
  /// The next grid in the stream may begin.
  void launchNextGrid();

private:
  llvm::SmallVector<llvm::Value *> multiplySteps(Element element, unsigned columns, llvm::ArrayRef<llvm::Value *> sums,
                                                 llvm::ArrayRef<llvm::Value *> a, llvm::Value *b,
                                                 llvm::ArrayRef<ProductStep> steps, bool accumulates, bool transposesB);
};

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_HOPPER_H
