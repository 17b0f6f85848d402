//===- Bounds.h - Cycles no schedule can beat --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Depends on model, machine and element type, never on a decision of ours. The
// derivation is in docs/bounds.md.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_BOUNDS_H
#define COMPILER_COST_BOUNDS_H

#include "isa/timing/MachineParams.h"

#include <string>
#include <vector>

namespace tw::cost {

/// What one layer asks of the engines at least.
struct LayerWork {
  uint64_t arrayCycles = 0;    ///< streaming through the array, any packing
  uint64_t preloadCycles = 0;  ///< weights through the preload port
  uint64_t vectorCycles = 0;   ///< results through the vector engine
  /// Depthwise windows may run on either engine: so many cycles more on the vector engine, or so many on the array.
  uint64_t windowVectorCycles = 0, windowArrayCycles = 0;
  uint64_t constantBytes = 0;
};

struct Bound {
  uint64_t cycles = 0;
  std::string by; ///< "array", "preload", "vector", "dram"
};

/// Lower bound of a layer alone: its constants must come from DRAM, its tensors need not.
Bound layerBound(const LayerWork &layer, const timing::MachineParams &machine);

/// Lower bound of a network: the largest of the sums over layers, never a sum of per-layer maxima.
/// `boundaryBytes`: network inputs and outputs.
Bound networkBound(const std::vector<LayerWork> &layers, uint64_t boundaryBytes, const timing::MachineParams &machine);

} // namespace tw::cost

#endif // COMPILER_COST_BOUNDS_H
