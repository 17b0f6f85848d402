//===- Replay.h - What a program dispatches, in order -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_COSIM_REPLAY_H
#define SIMULATOR_COSIM_REPLAY_H

#include "isa/Odometer.h"
#include "isa/Program.h"
#include "simulator/core/LoopStack.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tw::cosim {

/// One instruction that an engine gets.
struct Dispatch {
  uint64_t pc = 0;
  unsigned engine = 0;          ///< stats::engineNumber()
  isa::Instruction instruction; ///< of this execution
};

/// Walks a program as the sequencer does, without time: what the RTL's trace leaves out can be found again from a number in
/// the order of dispatch.
class Replay {
public:
  Replay(const isa::Program &program, const timing::MachineParams &machine);
  /// The next dispatched instruction; nothing at the halt, or where the sequencer finds an illegal instruction.
  std::optional<Dispatch> next();
  /// The same into `dispatch`, whatever that held before; false where there is nothing.
  bool next(Dispatch &dispatch);
  /// Word index the sequencer is at.
  uint64_t pc() const { return at; }
  /// Words taken so far, those of dropped instructions and loops included.
  uint64_t words() const { return taken; }
  /// Why the instruction at pc() is illegal; empty if it is not. Only after next() has returned nothing.
  const std::string &error() const { return problem; }

private:
  struct Body {
    isa::Instruction instruction;
    isa::OdometerState odometer;
  };
  std::optional<std::string> decode();

  const isa::Program &program;
  const timing::MachineParams &machine;
  core::LoopStack loops;
  std::vector<std::unique_ptr<Body>> bodies; ///< by word
  uint64_t at = 0, taken = 0;
  bool over = false;
  std::string problem;
};

} // namespace tw::cosim

#endif // SIMULATOR_COSIM_REPLAY_H
