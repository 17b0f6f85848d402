//===- Strategies.h - The strategies of the product --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One file for each idea; Strategies.cpp has their order.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_EXPLORE_STRATEGIES_STRATEGIES_H
#define COMPILER_EXPLORE_STRATEGIES_STRATEGIES_H

#include "compiler/explore/Exploration.h"

namespace tw::explore {

std::vector<std::unique_ptr<Strategy>> productStrategies();

/// Scratchpad residency and depth-first fusion: every rule for which results stay on chip, and which pass through in row tiles.
void exploreResidency(Exploration &e);
/// In-place updates: results take the scratchpad place of a dead operand.
void explorePlaceReuse(Exploration &e);
/// Halo reuse of pooled convolutions: line buffers for partial sums, then for maxima.
void exploreLineBuffers(Exploration &e);
/// Attention: operands and results of batched products stay on chip.
void exploreMatrixResidency(Exploration &e);
void exploreContextResidency(Exploration &e);
/// The same products, and those behind them, with more slots: where the array takes longer than DRAM, weights of what follows come meanwhile.
void exploreMatrixSlots(Exploration &e);
/// Of results that lack room, others first.
void exploreLeftOut(Exploration &e);
/// Pixel packing (width-to-channel folding).
void explorePixelPacking(Exploration &e);
/// Pooling in short instructions, so that it does not block the vector queue.
void exploreShortPooling(Exploration &e);
/// Serpentine traversal of the k loop: every second tile finds an operand's last block on chip.
void exploreSerpentine(Exploration &e);
/// Bank-exclusive placement of buffers.
void exploreBankPlacement(Exploration &e);
/// The list scheduler's priority function.
void explorePriorities(Exploration &e);
/// Row tiles of fusion groups that are two rows high where rows would be loaded again.
void exploreTallRowTiles(Exploration &e);
/// Neighbour overlap: a normalisation begins with half of the rows while the product before it makes the others, and the like.
void exploreNeighbourHalves(Exploration &e);
/// The same, where the first half has room in DRAM only.
void exploreSpilledHalves(Exploration &e);
/// Neighbour overlap by parts of the positions through the last tiles before, and the first ones behind, a normalisation.
void exploreNeighbourSplits(Exploration &e);
/// Loads and stores alternate on the DRAM bus.
void exploreBus(Exploration &e);
/// One stream of loads: row locality in place of two load engines.
void exploreWeightLoader(Exploration &e);
/// The same for the kernel with most weights alone.
void exploreFirstLoaders(Exploration &e);
/// Weights far ahead of their kernel.
void exploreWeightPrefetch(Exploration &e);
/// Channels of a depthwise window on the array, beside the vector engine.
void exploreSharedWindows(Exploration &e);
/// Channel streaming between a weight-bandwidth-bound convolution and its producer.
void exploreChannelStreaming(Exploration &e);
/// Tiles that the list scheduler likes best of the kernel alone, in place of the closed form.
void explorePlannedTiles(Exploration &e);

} // namespace tw::explore

#endif // COMPILER_EXPLORE_STRATEGIES_STRATEGIES_H
