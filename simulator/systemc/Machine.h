//===- Machine.h - All modules of the model and their wiring ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_MACHINE_H
#define SIMULATOR_SYSTEMC_MACHINE_H

#include "simulator/systemc/DmaEngines.h"
#include "simulator/systemc/DramPort.h"
#include "simulator/systemc/Host.h"
#include "simulator/systemc/Memories.h"
#include "simulator/systemc/SemaphoreUnit.h"
#include "simulator/systemc/Sequencer.h"
#include "simulator/systemc/StartArbiter.h"

namespace tw::systemc {

/// As many engines as any machine may have; those a machine lacks get no instruction. Built once per process.
class Machine {
public:
  /// `reversed`: makes the modules in the opposite order, which must not change any result.
  explicit Machine(bool reversed);
  /// Runs the context's program and fills its result.
  void run(RunContext &context);

private:
  void bind();
  std::string deadlock(uint64_t &pc, unsigned &first);
  void finish(RunContext &context);

  RunContext *context = nullptr;
  Timebase timebase{"timebase"};
  std::unique_ptr<Host> host;
  std::unique_ptr<Sequencer> sequencer;
  std::unique_ptr<StartArbiter> arbiter;
  std::unique_ptr<SemaphoreUnit> semaphores;
  std::unique_ptr<Memories> memories;
  std::unique_ptr<DramPort> port;
  std::unique_ptr<DramController> dram;
  std::array<std::unique_ptr<Engine>, stats::kSequencer> engines;
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_MACHINE_H
