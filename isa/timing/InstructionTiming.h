//===- InstructionTiming.h - Closed forms of compute instructions *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An instruction that starts at s is issue-free at s + occupancy and, unless an
// older one of its engine is later, retires at s + occupancy + drain.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_INSTRUCTIONTIMING_H
#define ISA_TIMING_INSTRUCTIONTIMING_H

#include "isa/IsaStructs.h" // generated from isa/Isa.td
#include "isa/timing/MachineParams.h"

#include <algorithm>

namespace tw::timing {

/// Duration of a resolved instruction, in cycles.
struct InstructionTime {
  Cycle occupancy = 0; ///< at least 1
  Cycle drain = 0;
};

InstructionTime timeOf(const isa::Preload &preload, const MachineParams &machine);
InstructionTime timeOf(const isa::Tensor &tensor, const MachineParams &machine);
InstructionTime timeOf(const isa::Vector &vector, const MachineParams &machine);

/// Taps along either axis of a window that the reuse registers hold.
constexpr int64_t kReuseTaps = 3;

/// Columns of taps, each of `across` taps, that a window reads for an output behind the first of its row: the reuse registers hold 3 x 3
/// taps, so that it finds those that it shares with the window before. `along`: columns of a window. `step`: columns from one window to
/// the next; 0: they are not neighbours (dilation).
constexpr int64_t newColumns(int64_t along, int64_t across, int64_t step) {
  return step > 0 && along <= kReuseTaps && across <= kReuseTaps ? std::min(step, along) : along;
}

/// What decides a vector instruction's occupancy: blocks * (setup + rows * fillPerRow + positions * perOutput).
struct VectorShape {
  Cycle blocks, setup, rows, fillPerRow, positions, perOutput;
};
VectorShape shapeOf(const isa::Vector &vector, const MachineParams &machine);

/// Least distance in cycles of the starts of two tensor instructions that touch the same accumulator rows.
Cycle accumulatorDistance(const MachineParams &machine);

} // namespace tw::timing

#endif // ISA_TIMING_INSTRUCTIONTIMING_H
