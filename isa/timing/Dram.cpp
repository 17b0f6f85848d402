//===- Dram.cpp - DRAM timing by timestamp arithmetic -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/Dram.h"

#include <algorithm>

namespace tw::timing {

static uint64_t ceilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

Ratio dramPeakBytesPerCycle(const MachineParams &machine) {
  const DramParams &dram = machine.dram;
  if (dram.kind == DramKind::Ideal)
    return {dram.bytesPerCycleNumerator, dram.bytesPerCycleDenominator};
  uint64_t spacing = std::max(dram.nBurst, dram.bankGroups > 1 ? dram.nCCDS : dram.nCCDL);
  return {uint64_t(dram.channels) * dram.burstBytes * dram.clockMhz, spacing * machine.clockMhz};
}

uint64_t dramConflictLatencyCycles(const MachineParams &machine) {
  const DramParams &dram = machine.dram;
  if (dram.kind == DramKind::Ideal)
    return dram.pathLatencyCycles + dram.latencyCycles +
           ceilDivide(uint64_t(dram.burstBytes) * dram.bytesPerCycleDenominator, dram.bytesPerCycleNumerator);
  uint64_t ticks = dram.nRP + dram.nRCD + dram.nCL + dram.nBurst;
  return dram.pathLatencyCycles + ceilDivide(ticks * machine.clockMhz, dram.clockMhz);
}

uint64_t littlesLawBursts(const MachineParams &machine) {
  Ratio rate = dramPeakBytesPerCycle(machine);
  uint64_t latency = dramConflictLatencyCycles(machine);
  uint64_t forDram = ceilDivide(latency * rate.numerator, rate.denominator * machine.dram.burstBytes);
  return std::min(forDram, latency * machine.burstsPerCycle);
}

} // namespace tw::timing
