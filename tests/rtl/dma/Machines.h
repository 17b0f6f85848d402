//===- Machines.h - Machines whose DMA is tested ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_DMA_MACHINES_H
#define TESTS_RTL_DMA_MACHINES_H

#include "isa/timing/MachineParams.h"

#include <string>

namespace tw::test {

/// Small machines of several channels, with numbers that are no powers of two: "narrow" moves one burst per cycle, "wide"
/// two.
inline timing::MachineParams dmaMachine(const std::string &name) {
  timing::MachineParams machine;
  machine.name = name;
  machine.rows = machine.cols = machine.lanes = 8;
  machine.scratchpads = {{"activations", 16384, 8}, {"weights", 16384, 8}};
  machine.accumulator = {"accumulator", 4096, 4};
  machine.loadEngines = 2;
  machine.storeEngines = 1;
  machine.outstandingBursts = 7;
  timing::DramParams &dram = machine.dram;
  dram.kind = timing::DramKind::Ddr4;
  dram.capacityBytes = 1 << 16;
  dram.channels = 4;
  dram.controller = timing::DramController::InOrder; // so that the watermarks count
  dram.grantBursts = 5;
  dram.writeBufferBursts = 29;
  dram.writeHighWatermark = 21;
  dram.writeLowWatermark = 6;
  if (name == "wide") {
    machine.burstsPerCycle = 2;
    machine.storeEngines = 2;
    machine.outstandingBursts = 11;
    machine.timing.dma_setup_cycles = 1;
    machine.timing.dma_drain_cycles = 3;
    machine.timing.dma_boxes = 3;
    dram.burstBytes = 32;
  }
  return machine;
}

} // namespace tw::test

#endif // TESTS_RTL_DMA_MACHINES_H
