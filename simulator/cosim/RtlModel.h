//===- RtlModel.h - The Verilated machine as a model ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a program on the RTL, against the same DRAM object as the SystemC model
// and in the same SystemC simulation. Neither SystemC nor Verilator is needed
// to use it. Not for use by several threads at once.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_COSIM_RTLMODEL_H
#define SIMULATOR_COSIM_RTLMODEL_H

#include "isa/Program.h"
#include "isa/timing/Dram.h"
#include "simulator/core/MachineState.h"
#include "simulator/cosim/RtlBuild.h"
#include "simulator/stats/SimResult.h"

namespace tw::cosim {

struct RtlOptions {
  /// Keep instructions in the result. Intervals, flows and causes of stalls are not known of the RTL.
  bool trace = false;
  /// A run that takes more cycles ends with a LimitReached fault.
  timing::Cycle maxCycles = timing::Cycle(1) << 44;
  /// Where the DRAM's commands are appended; null: nowhere.
  timing::DramCommandLog *commands = nullptr;
  /// Waves of cycles [dumpFrom, dumpTo) go to this FST file; empty: none.
  std::string dumpFile;
  timing::Cycle dumpFrom = 0, dumpTo = timing::kNever;
  /// Told what takes long before a run: building the machine.
  RtlProgress progress;
};

class RtlModel {
public:
  /// Runs a program whose image and inputs already lie in `state` (MachineState::load(), writeInputs()), on state.machine();
  /// on-chip memories start as zeros. Afterwards `state` holds what the RTL's memories and the DRAM hold. User errors in the
  /// program are faults in the result, and so is an RTL model that cannot be built (BadInput).
  stats::SimResult run(const isa::Program &program, core::MachineState &state, const RtlOptions &options = {});

  /// The same on a fresh machine: `inputs` and `outputs` have one entry per Program::inputs and outputs, dense row-major
  /// bytes. What does not fit is a BadInput fault; after a fault `outputs` is empty.
  stats::SimResult run(const isa::Program &program, const timing::MachineParams &machine,
                       const std::vector<std::vector<uint8_t>> &inputs, std::vector<std::vector<uint8_t>> &outputs,
                       const RtlOptions &options = {});

  /// What the last run showed that no machine may do: a retirement of an instruction that never started, counters that do
  /// not add up, a wrong tag. Empty if all is well.
  const std::string &contradiction() const { return contradicts; }

private:
  std::string contradicts;
};

} // namespace tw::cosim

#endif // SIMULATOR_COSIM_RTLMODEL_H
