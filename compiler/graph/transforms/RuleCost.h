//===- RuleCost.h - What ops cost before and after a rewrite ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_GRAPH_TRANSFORMS_RULECOST_H
#define COMPILER_GRAPH_TRANSFORMS_RULECOST_H

#include "compiler/graph/transforms/KernelTarget.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace tw::graph {

/// An estimate that ranks rewrites of a few ops, long before tiles and plans are known.
struct RuleCost {
  double cycles = 0; ///< of the array, of the vector engine and of DRAM, if no two of them overlap
  int64_t ops = 0;   ///< that are no constants

  /// Rules never change ops to ones of higher cost; of equal cycles fewer ops are better.
  bool operator<(const RuleCost &other) const { return cycles != other.cycles ? cycles < other.cycles : ops < other.ops; }
};

/// What the ops of `block` cost:
/// - a contraction: a cycle for each row of each tile of weights that the array holds;
/// - other ops that compute: a cycle for as many elements as the array has columns, a window or reduction for those that it reads;
/// - every tensor that is read: its bytes once, as it stays on chip for readers beside one another; of a slice its part alone;
/// - every tensor that an op makes: its bytes once. Neither between an op that computes and readers that all go element by element: they
///   are one kernel;
/// - reshapes and constants: nothing; ops of constants alone: nothing, they are folded.
RuleCost costOf(mlir::Block &block, const ArrayMachine &machine);

/// Cycles of the array or of the vector engine for `op` alone, as above.
double computeCycles(mlir::Operation *op, const ArrayMachine &machine);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_RULECOST_H
