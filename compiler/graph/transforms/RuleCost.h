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
  int64_t ops = 0;   ///< number of ops, without constants

  /// A rule is applied only where the cost does not rise. Of equal cycles, fewer ops cost less.
  bool operator<(const RuleCost &other) const { return cycles != other.cycles ? cycles < other.cycles : ops < other.ops; }
};

/// What the ops of `block` cost:
/// - a contraction: a cycle for each row of each tile of weights that the array holds;
/// - another op that computes: a cycle for as many elements as the array has columns. The elements are those of the result, of a window or a
///   reduction those of the operand;
/// - a tensor that ops read: its bytes once, as the tensor stays on chip between its readers; of a slice only the bytes that the slice takes;
/// - a tensor that an op makes: its bytes once. A tensor between an op that computes and readers that are all elementwise costs nothing, as
///   these ops are one kernel;
/// - each kernel: DRAM's latency. An op is a kernel of its own unless it is elementwise and reads what nothing else than elementwise ops reads;
/// - reshapes, constants, and ops whose operands are all constants: nothing.
RuleCost costOf(mlir::Block &block, const ArrayMachine &machine);

/// Cycles of the array or of the vector engine for `op` alone, as above.
double computeCycles(mlir::Operation *op, const ArrayMachine &machine);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_RULECOST_H
