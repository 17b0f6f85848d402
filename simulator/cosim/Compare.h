//===- Compare.h - SystemC and RTL side by side -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both models run one program; they must agree in everything a machine shows.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_COSIM_COMPARE_H
#define SIMULATOR_COSIM_COMPARE_H

#include "isa/Program.h"
#include "isa/timing/Dram.h"
#include "simulator/core/MachineState.h"
#include "simulator/cosim/RtlBuild.h"
#include "simulator/stats/SimResult.h"

#include <string>
#include <vector>

namespace tw::cosim {

struct CompareOptions {
  timing::Cycle maxCycles = timing::Cycle(1) << 44;
  RtlProgress progress;
};

/// What one model showed.
struct Observation {
  stats::SimResult result;         ///< with instructions
  timing::DramCommandLog commands; ///< sorted
  double seconds = 0;              ///< of processor time, so that other work on the host does not count
};

struct Agreement {
  /// Empty: the models agree. Else the first difference in time: what, the instruction with its layer, both values.
  std::string difference;
  Observation systemc, rtl;
  uint64_t memoryBytes = 0; ///< of on-chip memories and DRAM that were compared
  /// One entry per Program::outputs, of the RTL; empty after a fault.
  std::vector<std::vector<uint8_t>> outputs;
};

/// The first difference between two runs of `program`: instructions (dispatch, start, issue-free, retirement), DRAM commands,
/// faults, total cycles, labels of every engine, traffic. Empty if there is none. After a fault only what happened before it
/// counts.
std::string firstDifference(const isa::Program &program, const timing::MachineParams &machine, const Observation &systemc,
                            const Observation &rtl);

/// The first byte in which the memories differ after a run, DRAM from 0 to `dramBytes`; empty if none does. Adds the bytes
/// that were compared to `compared`.
std::string firstDifference(const core::MachineState &systemc, const core::MachineState &rtl, uint64_t dramBytes,
                            uint64_t &compared);

/// Runs `program` on the RTL and on the SystemC model. `inputs`: as in RtlModel::run(). What does not fit, and an RTL model that cannot
/// be built, is a BadInput fault of both.
Agreement compare(const isa::Program &program, const timing::MachineParams &machine,
                  const std::vector<std::vector<uint8_t>> &inputs, const CompareOptions &options = {});

} // namespace tw::cosim

#endif // SIMULATOR_COSIM_COMPARE_H
