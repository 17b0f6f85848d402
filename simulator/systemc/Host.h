//===- Host.h - Starts the machine and sees it end --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_HOST_H
#define SIMULATOR_SYSTEMC_HOST_H

#include "simulator/systemc/Interfaces.h"

#include <tlm_utils/simple_initiator_socket.h>

namespace tw::systemc {

/// The host's side of the machine: writes the control registers, collects faults, and knows when everything has retired.
class Host : public sc_core::sc_module, public ControlIf {
public:
  sc_core::sc_export<ControlIf> control;
  tlm_utils::simple_initiator_socket<Host> registers;

  Host(sc_core::sc_module_name name, Timebase &timebase);
  void reset(RunContext &context);
  /// Writes the start register in cycle 0.
  void launch();

  void fault(core::FaultKind kind, unsigned engine, uint64_t pc, Cycle cycle, std::string message) override;
  /// A fault that is found when the simulation is over, in any cycle up to then.
  const core::Fault &conclude(core::FaultKind kind, unsigned engine, uint64_t pc, Cycle cycle, std::string message);
  void dispatched(Cycle visible) override {
    ++dispatchCount;
    moves(visible);
  }
  void moves(Cycle cycle) override { lastMove = std::max(lastMove, cycle); }
  void retired(Cycle cycle) override {
    ++retireCount;
    lastEvent = std::max(lastEvent, cycle);
  }
  void halted(Cycle cycle) override {
    isHalted = true;
    lastEvent = std::max(lastEvent, cycle);
    moves(cycle + 1);
  }

  /// The fault of the lowest engine in the earliest cycle. Precondition: there is one.
  const core::Fault &firstFault() const;
  /// All instructions have retired, now or in a known cycle.
  bool complete() const { return isHalted && dispatchCount == retireCount; }
  /// Cycle of the last retirement or of halt.
  Cycle lastRetirement() const { return lastEvent; }
  /// The cycle from which on nothing moves, in a run that does not end.
  Cycle standstill() const { return lastMove; }

private:
  void start();
  void stopOnFault();
  void write(uint64_t address, uint64_t value);

  struct Candidate {
    core::Fault fault;
    unsigned engine;
  };
  RunContext *context = nullptr;
  Timebase &timebase;
  Alarm startAlarm, faultAlarm;
  std::vector<Candidate> faults;
  uint64_t dispatchCount = 0, retireCount = 0;
  bool isHalted = false;
  Cycle lastEvent = 0, lastMove = 0;
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_HOST_H
