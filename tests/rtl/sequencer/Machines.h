//===- Machines.h - The machines whose sequencers are tested ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESTS_RTL_SEQUENCER_MACHINES_H
#define TESTS_RTL_SEQUENCER_MACHINES_H

#include "isa/timing/MachineParams.h"

namespace tw::test {

/// int8, two scratchpads, default constants.
inline timing::MachineParams plainMachine() {
  timing::MachineParams machine;
  machine.name = "plain";
  machine.rows = machine.cols = machine.lanes = 8;
  machine.vectorStages = 12;
  machine.scratchpads = {{"activation", 4096, 8}, {"weight", 2048, 4}};
  machine.accumulator = {"accumulator", 64 * 8 * 4, 4};
  machine.queueDepth = 4;
  machine.semaphores = 16;
  machine.semaphoreMax = 15;
  machine.loopBufferWords = 64;
  machine.prefetchWords = 8;
  machine.dram.capacityBytes = 1 << 20;
  return machine;
}

/// bf16, one scratchpad, two requests a cycle, bursts of one word, every number unlike the default.
inline timing::MachineParams oddMachine() {
  timing::MachineParams machine;
  machine.name = "odd";
  machine.arrayType = timing::ArrayType::Bf16;
  machine.rows = 4;
  machine.cols = 16;
  machine.lanes = 4;
  machine.vectorStages = 7;
  machine.scratchpads = {{"scratchpad", 8192, 32}};
  machine.accumulator = {"accumulator", 64 * 16 * 4, 2};
  machine.loadEngines = 4;
  machine.storeEngines = 3;
  machine.queueDepth = 1;
  machine.semaphores = 60;
  machine.semaphoreMax = 9;
  machine.loopBufferWords = 41;
  machine.prefetchWords = 5;
  machine.burstsPerCycle = 2;
  machine.dram.kind = timing::DramKind::Ddr4;
  machine.dram.channels = 4;
  machine.dram.burstBytes = 32;
  machine.dram.capacityBytes = 1 << 20;
  machine.timing.start_cycles = 5;
  machine.timing.fetch_cycles = 3;
  machine.timing.dispatch_cycles = 3;
  machine.timing.queue_free_cycles = 4;
  return machine;
}

} // namespace tw::test

#endif // TESTS_RTL_SEQUENCER_MACHINES_H
