//===- FunctionalModel.h - Programs in program order ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Executes each instruction completely before the next. A wait must be
// satisfied by posts that stand earlier in program order, so that this order is
// a legal execution; results are those of every timing model.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_FUNCTIONAL_FUNCTIONALMODEL_H
#define SIMULATOR_FUNCTIONAL_FUNCTIONALMODEL_H

#include "isa/Program.h"
#include "simulator/core/MachineState.h"
#include "simulator/core/RaceChecker.h"
#include "simulator/core/RunResult.h"

namespace tw::functional {

struct RunOptions {
  core::CheckOptions checks;
  /// Engine and sequencer instructions after which the run stops with FaultKind::LimitReached.
  uint64_t maxInstructions = UINT64_MAX;
};

class FunctionalModel {
public:
  explicit FunctionalModel(const timing::MachineParams &machine) : machineState(machine) {}

  /// Resets the machine and runs `program`. `inputs`: one per Program::inputs, dense row-major bytes.
  core::RunResult run(const isa::Program &program, const std::vector<std::vector<uint8_t>> &inputs,
                      const RunOptions &options = {});

  /// Memories after the last run.
  core::MachineState &state() { return machineState; }
  const core::MachineState &state() const { return machineState; }

private:
  core::MachineState machineState;
};

/// One run on a fresh machine.
core::RunResult run(const isa::Program &program, const timing::MachineParams &machine,
                    const std::vector<std::vector<uint8_t>> &inputs, const RunOptions &options = {});

} // namespace tw::functional

#endif // SIMULATOR_FUNCTIONAL_FUNCTIONALMODEL_H
