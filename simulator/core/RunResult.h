//===- RunResult.h - What a simulated run comes to --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A simulated program that misbehaves is a result, not an error of the
// simulator: every model reports it as a typed Fault.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_CORE_RUNRESULT_H
#define SIMULATOR_CORE_RUNRESULT_H

#include "isa/timing/MachineParams.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::core {

enum class FaultKind : uint8_t {
  // Architectural: the machine itself stops; cycle and instruction agree in all models.
  IllegalInstruction,
  OutOfRange,
  SemaphoreOverflow,
  // Nothing in flight and nothing can start.
  Deadlock,
  // Checks of the simulators.
  UnwrittenRead,
  Unordered,
  // The run itself could not be made or was cut off.
  BadInput,
  LimitReached,
};

/// `illegal instruction`, `address out of range`, ...
const char *faultKindName(FaultKind kind);

struct Fault {
  FaultKind kind = FaultKind::IllegalInstruction;
  /// Index into Program::code of the first word of the instruction.
  uint64_t pc = 0;
  /// timing::engineName() of the engine that faulted.
  std::string engine;
  /// Lower case, no final period.
  std::string message;
  /// Name of the program's layer the instruction belongs to; empty if it has none.
  std::string layer;
  /// Cycle of the fault; 0 in the functional model.
  uint64_t cycle = 0;

  /// One line for people: kind, engine, word, layer, message.
  std::string str() const;
};

struct RunResult {
  std::optional<Fault> fault;
  /// Instructions executed by engines; predicated-off instructions and the sequencer's own do not count.
  uint64_t instructions = 0;
  /// One entry per Program::outputs, dense row-major bytes; empty after a fault.
  std::vector<std::vector<uint8_t>> outputs;

  bool ok() const { return !fault; }
};

} // namespace tw::core

#endif // SIMULATOR_CORE_RUNRESULT_H
