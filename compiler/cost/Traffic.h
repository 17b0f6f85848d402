//===- Traffic.h - Bytes between DRAM and chip --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no schedule can avoid, and what the best tiling needs. The derivation is in
// docs/bounds.md.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_TRAFFIC_H
#define COMPILER_COST_TRAFFIC_H

#include "compiler/cost/Contraction.h"
#include "isa/timing/MachineParams.h"

namespace tw::cost {

/// Bytes of a partial sum.
constexpr uint64_t kPartialBytes = 4;

/// Products of one layer and the bytes of what they touch.
struct Products {
  uint64_t macs = 0, outputs = 0;
  uint64_t reuse = 1;                                                     ///< reuseFactor()
  uint64_t inputBytes = 1, weightBytes = 1, partialBytes = kPartialBytes; ///< of an element
};
Products productsOf(const Contraction &contraction);

/// Where inputs, weights and partial sums may lie, in bytes.
struct Capacities {
  uint64_t inputs = 0, weights = 0, partials = 0;
};

/// Every byte of `machine` that can hold a value from one moment to the next: memories, weight planes, buffers,
/// pipelines.
uint64_t onChipBytes(const timing::MachineParams &machine);
/// The same by purpose: activations in the first scratchpad, weights in the last, partial sums in the accumulator.
Capacities capacitiesOf(const timing::MachineParams &machine);

/// Bytes of inputs, weights and partial sums that any schedule loads, however it uses `onChip` bytes; 0 where the
/// segment argument gives nothing. Does not know that every input and weight must be loaded once.
uint64_t segmentLoads(const Products &products, uint64_t onChip);

/// The same for inputs and weights where each has a memory of its own. `priceCap`: 0 if partial sums leave the
/// accumulator as results only; else bytes of a partial sum's way to DRAM and back, which then count as loads.
uint64_t segmentLoads(const Products &products, const Capacities &capacities, uint64_t priceCap = 0);

/// Bytes of inputs and weights that the best tiling of the full lattice loads: not a bound. Partial sums stay in the
/// accumulator; a part of an operand may stay in a scratchpad. UINT64_MAX if no tile fits.
uint64_t referenceLoads(const Contraction &contraction, const timing::MachineParams &machine);

/// Distinct useful tile sizes of an extent in units of `unit`: those that change the number of tiles.
std::vector<uint64_t> tileSizes(uint64_t extent, uint64_t unit);

} // namespace tw::cost

#endif // COMPILER_COST_TRAFFIC_H
