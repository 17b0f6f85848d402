//===- KnobChanges.h - What of a plan could be otherwise ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The moves of a search: other values for knobs of a plan. Not every value can
// be had: what does not fit is refused as if a plan file had asked for it.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_EXPLORE_KNOBCHANGES_H
#define COMPILER_EXPLORE_KNOBCHANGES_H

#include "compiler/explore/Problem.h"

#include <functional>

namespace tw::explore {

/// A knob, or knobs that change together, and other values of it.
struct KnobChange {
  std::optional<unsigned> layer; ///< its first; nothing: of the whole network
  std::string name;              ///< for people
  std::vector<std::function<void(plan::NetworkPlan &)>> values;
  unsigned reach = 0;    ///< layers behind it whose place in the program changes with it, beside the next one
  bool isProbed = false; ///< the estimate sees too little of it
};

/// Every knob of `chosen`, a complete plan, that the problem leaves open: each value of Knobs.td, and what follows from the kernels' shapes.
std::vector<KnobChange> variationsOf(const Problem &problem, const plan::NetworkPlan &chosen);
/// The knobs of layer `layer` alone.
std::vector<KnobChange> variationsOf(const Problem &problem, size_t layer, const plan::KernelPlan &chosen);

/// The changes that are worth trying first, by layer: the next best tiles (`alternatives`, per layer), places of buffers and results,
/// overlap with neighbours, row tiles, deeper buffers, and other loop orders. A network of one kernel has tiles alone.
std::vector<KnobChange> likelyChanges(const Problem &problem, const Outcome &outcome,
                                      llvm::ArrayRef<std::vector<plan::KernelPlan>> alternatives);

} // namespace tw::explore

#endif // COMPILER_EXPLORE_KNOBCHANGES_H
