//===- Dram.h - DRAM timing by timestamp arithmetic -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DRAM_H
#define ISA_TIMING_DRAM_H

#include "isa/timing/MachineParams.h"

namespace tw::timing {

struct Ratio {
  uint64_t numerator = 0, denominator = 1;
};

/// Bytes per accelerator cycle that the data buses of all channels can move, refresh not counted.
Ratio dramPeakBytesPerCycle(const MachineParams &machine);

/// Accelerator cycles from a read's arrival at an idle DRAM, with another row open, to its data.
uint64_t dramConflictLatencyCycles(const MachineParams &machine);

/// Bursts one DMA engine must have in flight to use the DRAM's peak rate, or its own issue rate if that is lower.
uint64_t littlesLawBursts(const MachineParams &machine);

} // namespace tw::timing

#endif // ISA_TIMING_DRAM_H
