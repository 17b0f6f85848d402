//===- Problem.h - What an exploration decides about -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A network of kernels on a machine, and what becomes of it under a plan. The
// exploration sees no more: what compiles a plan is behind PlanCompiler.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_EXPLORE_PROBLEM_H
#define COMPILER_EXPLORE_PROBLEM_H

#include "compiler/codegen/accel/Codegen.h"
#include "compiler/plan/NetworkPlan.h"

#include "llvm/Support/Error.h"

namespace tw::explore {

/// A kernel of the network.
struct Layer {
  /// kernel->plan: what is decided already; a proposal must leave it as it is.
  const accel::Kernel *kernel = nullptr;
  const accel::Kernel *packed = nullptr; ///< with pixels packed; null: that gains nothing
  std::vector<size_t> tensors;           ///< per kernel->tensors: the tensor of the network; constants: 0

  size_t result() const { return tensors[size_t(kernel->output.tensor)]; }
  bool isContraction() const { return kernel->anchor && kernel->anchor->kind == accel::Anchor::Contraction; }
  bool isWindow() const { return kernel->anchor && kernel->anchor->kind == accel::Anchor::Window; }
};

struct Problem {
  const timing::MachineParams &machine;
  std::vector<Layer> layers;
  plan::NetworkKnobs asked;    ///< decided already
  bool overlapsKernels = true; ///< else kernels drain one after the other, and there is nothing to explore
  bool keepsResults = true;    ///< results may stay on chip
  /// Bytes of each tensor.
  std::vector<uint64_t> tensorBytes;

  bool hasNeighbours() const { return overlapsKernels && layers.size() > 1; }
  /// Whether layer `by` takes as its anchor's input, or without an anchor as any operand, what layer `layer` makes.
  bool isReadBy(size_t layer, size_t by) const;
};

/// What a plan comes to.
struct Outcome {
  plan::NetworkPlan plan;   ///< as it was proposed
  plan::NetworkPlan chosen; ///< complete
  double cycles = 0;        ///< by the cost model; cut short: no less than those of the plan it lost to
  /// First and last layers of the fusion groups.
  std::vector<std::pair<unsigned, unsigned>> groups;
  /// Tensors that lack only the room which others have, those first that would save most.
  std::vector<size_t> leftOut;
  /// Per layer: bytes of the first scratchpad that are left for its buffers; empty: all.
  std::vector<int64_t> room;

  bool isInGroup(size_t layer) const {
    return llvm::any_of(groups, [&](const auto &group) { return group.first <= layer && layer <= group.second; });
  }
};

class PlanCompiler {
public:
  virtual ~PlanCompiler() = default;
  /// Estimates a plan by the cost model; the estimate may stop at `limit` cycles. Errors: no such program. Nothing: it comes to the same
  /// program as a plan that was estimated before.
  virtual llvm::Expected<std::optional<Outcome>> estimate(const plan::NetworkPlan &plan, double limit) = 0;
  /// Outcome::room under a plan, without the rest of an estimate; empty: there is no such plan, or all is left.
  virtual std::vector<int64_t> roomOf(const plan::NetworkPlan &) { return {}; }
};

} // namespace tw::explore

#endif // COMPILER_EXPLORE_PROBLEM_H
