//===- LoopNest.h - One kernel step as linear loops -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A linalg op whose operands are addressed by linear functions of its loops,
// together with the elementwise ops fused behind it. Everything is static, so
// loops are merged, reordered, register-blocked and vectorised on numbers
// rather than on affine expressions.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_LOOPNEST_H
#define COMPILER_CODEGEN_CPU_LOOPNEST_H

#include "compiler/codegen/cpu/CpuMachine.h"
#include "compiler/graph/Math.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"

namespace tw::cpu {

/// One operand of a loop nest. Exactly one of `pointer`, `splat` and `stage` says where its elements come from; with none of
/// them the operand is undefined and must not be read.
struct NestOperand {
  /// !llvm.ptr to the element of iteration 0 in every loop.
  mlir::Value pointer;
  /// One scalar for all iterations.
  mlir::Value splat;
  /// A result of an earlier stage, or -1.
  int stage = -1;
  unsigned result = 0;
  /// The scalar type of the IR; memory holds it in storageType(element).
  mlir::Type element;
  /// What addresses count in, if not in elements: a group of small numbers may start at any of them.
  mlir::Type unit;
  /// Distance in units between successive iterations of each loop.
  llvm::SmallVector<int64_t> strides;
  /// A tensor of which the body reads elements at places that it computes (NestLookup): what moves with the loops is where it starts.
  bool isTable = false;

  bool inMemory() const { return static_cast<bool>(pointer); }
  /// The type that addresses count in.
  mlir::Type addressUnit() const;
};

/// The small numbers that 32 bits hold: 4 bytes, unsigned in the first factor and signed in the second, 2 signed numbers of 16 bits, or 2
/// of bfloat16, whose sums are f32.
enum class Products : uint8_t { None, Bytes, Words, Bfloats };

/// A tensor.extract of a body: the element of a table, an operand of the stage, that lies the sum of `places` times their distances in elements
/// behind the table's place in this iteration.
struct NestLookup {
  unsigned table = 0;                                        ///< among the inputs of the stage
  llvm::SmallVector<std::pair<mlir::Value, int64_t>> places; ///< integers of 64 bits that the body computes
};

/// A scalar computation applied in every iteration (stage 0) or once the reduction loops are done (the stages after it).
struct NestStage {
  explicit NestStage(mlir::Location loc) : loc(loc) {}
  mlir::Location loc;
  /// The body of a linalg op; null copies input 0.
  mlir::Block *body = nullptr;
  /// Instead of a body, in a reducing stage 0: inputs 0 and 1 are i32 that hold several small numbers each, and the sum of their
  /// products is added to the accumulator.
  Products products = Products::None;
  /// One per argument of the body, and the tables behind them; the accumulators of a reducing stage 0 are not among them.
  llvm::SmallVector<NestOperand> inputs;
  llvm::DenseMap<mlir::Operation *, NestLookup> lookups;
};

struct NestStore {
  int stage = 0;
  unsigned result = 0;
  NestOperand to;
};

struct LoopNest {
  llvm::SmallVector<int64_t> sizes;
  llvm::SmallVector<bool> isReduction;
  /// Set when stage 0 carries accumulators, even if its reduction loops have one iteration each.
  bool accumulates = false;
  /// Runs once: little code matters more than speed.
  bool runsOnce = false;
  /// Initial accumulators of stage 0, one per result; empty unless `accumulates`.
  llvm::SmallVector<NestOperand> inits;
  llvm::SmallVector<NestStage> stages;
  llvm::SmallVector<NestStore> stores;
};

/// What a type looks like in memory: i1 takes a byte, everything else is itself.
mlir::Type storageType(mlir::Type element);
/// Bytes of one element in memory.
int64_t storageBytes(mlir::Type element);

struct NestOptions {
  CpuMachine machine;
  /// Loops are divided so that this many threads can share them where the work is worth it.
  unsigned threads = 1;
  graph::Math math = graph::Math::Exact;
};

/// Drops loops of one iteration and merges every pair of loops that all operands walk as one. The result is, for each loop that is left,
/// the one that it was, or ends with.
llvm::SmallVector<int> mergeLoops(LoopNest &nest);

/// Neighbouring iterations of loop `loop` in one register block of a reducing nest; 0 if that is not the loop whose iterations are the
/// lanes of vectors.
int64_t registerBlockWidth(const LoopNest &nest, int loop, const NestOptions &options);

/// Emits the loops at the builder's insertion point. `scalars` maps scalar values that bodies capture from outside. `worker`, a pointer
/// to a tw_worker, is the thread that shares the loops with others; null where one thread runs them alone. The result is the number of
/// shared loops, which may still be running behind them.
/// Preconditions, checked by the caller: bodies hold only elementwise scalar ops.
unsigned emitLoopNest(mlir::OpBuilder &builder, mlir::Location loc, LoopNest nest, const NestOptions &options,
                      const llvm::DenseMap<mlir::Value, mlir::Value> &scalars, mlir::Value worker);

/// Emits nests that each work on rows, by itself every one of them: `rows` rows of all nests, then the next ones, so that they are still
/// in the cache. `rowLoops` are their loops of rows, whose sizes are the same multiple of `rows`. What rows of a nest read of an earlier
/// one must be of the same rows.
unsigned emitRowBlocks(mlir::OpBuilder &builder, mlir::Location loc, llvm::ArrayRef<LoopNest> nests,
                       llvm::ArrayRef<int> rowLoops, int64_t rows, const NestOptions &options,
                       const llvm::DenseMap<mlir::Value, mlir::Value> &scalars, mlir::Value worker);

/// Emits a call of tw_worker::wait.
void emitWait(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value worker);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_LOOPNEST_H
