//===- Neighbours.h - Kernels that overlap with their neighbours -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel without array work, such as a normalisation, leaves the array idle,
// unless parts of it run while the products before and behind it are at work.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_EXPLORE_STRATEGIES_NEIGHBOURS_H
#define COMPILER_EXPLORE_STRATEGIES_NEIGHBOURS_H

#include "compiler/explore/Problem.h"

#include <variant>

namespace tw::explore {

/// The kernel begins with half of the positions while the product before it makes the others, or the product behind it begins with half of
/// them. Weights of these products are loaded twice.
struct Halves {
  bool withBefore = false, withBehind = false;
  bool ownBanks = false;          ///< products and kernel in banks of their own
  bool spreadsSecondHalf = false; ///< with banks: its second half has buffers in all banks
  bool spillsFirstHalf =
      false; ///< with that: only the second half of its input stays on chip, the first half goes through DRAM
};
/// The product behind it begins with a block of channels.
struct ChannelBlocks {
  int64_t channels = 0;
  bool kOuter = false; ///< all accumulator-resident tiles of the product take a block before any takes the next one
  bool ownBanks = false;
};
/// Some positions go through the last tiles of the product before it, and the first ones of that behind it, before the others do: few
/// weights have to stay, and none comes twice.
struct Splits {
  int64_t lastTiles = 0, firstTiles = 0;
};
using NeighbourOverlap = std::variant<Halves, ChannelBlocks, Splits>;

/// The halves and channel blocks that layer `layer` could have.
llvm::SmallVector<NeighbourOverlap> overlapsOf(const Problem &problem, size_t layer);
/// So many tiles of the product before (or behind) layer `layer` its positions may be split through: most first.
llvm::SmallVector<int64_t> splitTilesOf(const Problem &problem, size_t layer, bool before);

/// Sets the knobs of `layer` and of the products next to it. `room`: Outcome::room of a plan with the same residency.
void apply(const NeighbourOverlap &overlap, size_t layer, const Problem &problem, llvm::ArrayRef<int64_t> room,
           plan::NetworkPlan &plan);
/// Gives `layer` and its neighbours back what they were asked for alone.
void clearOverlap(size_t layer, const Problem &problem, plan::NetworkPlan &plan);

} // namespace tw::explore

#endif // COMPILER_EXPLORE_STRATEGIES_NEIGHBOURS_H
