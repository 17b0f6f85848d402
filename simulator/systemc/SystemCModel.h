//===- SystemCModel.h - The cycle-accurate model ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No SystemC header is needed to use it. SystemC elaborates once per process:
// the first run builds the modules, every run resets them, for any machine.
// Not for use by several threads at once.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_SYSTEMC_SYSTEMCMODEL_H
#define SIMULATOR_SYSTEMC_SYSTEMCMODEL_H

#include "isa/Program.h"
#include "isa/timing/Dram.h"
#include "simulator/core/MachineState.h"
#include "simulator/stats/SimResult.h"

#include <functional>

namespace tw::systemc {

struct SimOptions {
  /// Look for reads of unwritten words and for accesses that nothing orders.
  bool checks = false;
  /// With checks: a read of a byte that nothing has written is a fault, and so is a store over a constant. Memory starts as
  /// zeros all the same.
  bool unwritten = true;
  /// Keep instructions, intervals, semaphore flows and bus intervals in the result.
  bool trace = false;
  /// Timing only: nothing is computed and memory stays as it is.
  bool timingOnly = false;
  /// A run that takes more cycles ends with a LimitReached fault.
  timing::Cycle maxCycles = timing::Cycle(1) << 44;
  /// Where the DRAM's commands are appended; null: nowhere.
  timing::DramCommandLog *commands = nullptr;
};

class SystemCModel {
public:
  /// Runs a program whose image and inputs already lie in `state` (MachineState::load(), writeInputs()), on state.machine().
  /// User errors in the program are faults in the result.
  stats::SimResult run(const isa::Program &program, core::MachineState &state, const SimOptions &options = {});

  /// The same on a fresh machine: `inputs` and `outputs` have one entry per Program::inputs and outputs, dense row-major
  /// bytes. What does not fit is a BadInput fault; after a fault `outputs` is empty.
  stats::SimResult run(const isa::Program &program, const timing::MachineParams &machine,
                       const std::vector<std::vector<uint8_t>> &inputs, std::vector<std::vector<uint8_t>> &outputs,
                       const SimOptions &options = {});

  /// Makes the modules in the opposite order. Only before the first run of the process; results must not change.
  static void reverseConstruction();

  /// SystemC elaborates once, so other models' modules must be made together with this one's. Calls `make` when that happens.
  /// Only before elaborate().
  static void alsoMake(std::function<void()> make);
  /// Makes all modules, unless they exist.
  static void elaborate();
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_SYSTEMCMODEL_H
