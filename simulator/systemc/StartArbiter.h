//===- StartArbiter.h - Decides the starts of a cycle -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_STARTARBITER_H
#define SIMULATOR_SYSTEMC_STARTARBITER_H

#include "simulator/systemc/Interfaces.h"

namespace tw::systemc {

/// Looks at the heads of all queues in fixed engine order, in every cycle in which something they depend on may have
/// changed, and starts those that have all they need: issue slot, semaphores, interlocks and banks, taken together.
class StartArbiter : public sc_core::sc_module, public ArbiterIf {
public:
  sc_core::sc_export<ArbiterIf> wakeUp;
  sc_core::sc_port<EngineIf, stats::kNumEngines - 1> engines;
  sc_core::sc_port<SemaphoreIf> semaphores;
  sc_core::sc_port<MemoriesIf> memories;
  sc_core::sc_port<ControlIf> host;

  StartArbiter(sc_core::sc_module_name name, Timebase &timebase);
  void reset(RunContext &context);
  void wake(Cycle cycle) override { alarm.at(cycle); }
  void ready(unsigned engine, Cycle cycle) override { readyAt[engine] = cycle; }

private:
  void end_of_elaboration() override;
  void evaluate(Cycle cycle);
  /// What keeps the head of an engine from starting in `cycle`.
  Obstacle obstacleOf(unsigned engine, const Entry &entry, Cycle cycle);
  Obstacle interlockOf(unsigned engine, const Entry &entry, Cycle cycle);
  void noteStart(const Entry &entry, Cycle cycle, Cycle retirement);

  RunContext *context = nullptr;
  Alarm alarm;
  std::array<EngineIf *, stats::kSequencer> ordered{}; ///< by number
  std::array<Cycle, stats::kSequencer> readyAt{};      ///< what ready() said last

  /// Shadow registers: a preload fills them, the next swapping tensor instruction empties them.
  bool shadowFull = false;
  Cycle shadowFreeAt = 0, shadowReadyAt = kNever;
  struct TensorStart {
    Cycle cycle;
    int64_t begin, end; ///< accumulator rows
  };
  std::vector<TensorStart> recentTensors; ///< those less than the accumulator distance ago
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_STARTARBITER_H
