//===- Models.h - One program on every model --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_RANDOM_MODELS_H
#define TESTS_RTL_RANDOM_MODELS_H

#include "isa/Program.h"
#include "simulator/stats/SimResult.h"

#include <functional>
#include <optional>

namespace tw::programs {

/// Runs a program on the RTL and compares it with the SystemC model; returns the first difference, empty if there is none.
using RtlCheck = std::function<std::string(const isa::Program &, const timing::MachineParams &)>;

struct ModelOptions {
  bool stepped = true; ///< also the cycle-by-cycle model of the timing rules
  RtlCheck rtl;        ///< empty: not run
};

struct Verdict {
  /// The program is one on which models must agree: it has no race, and no fault but the expected one.
  bool isValid = true;
  /// Empty: they agree. Else the first difference; of an invalid program what is wrong with it.
  std::string difference;
  stats::SimResult systemc; ///< traced
};

/// Runs the functional, the SystemC, the stepped and the RTL model and compares all they show: memories, cycles of every
/// instruction, labels, faults. `fault`: the kind a faulty program must stop with in all of them, and its instruction.
Verdict runModels(const isa::Program &program, const timing::MachineParams &machine, const ModelOptions &options,
                  std::optional<core::FaultKind> fault = std::nullopt, std::optional<uint64_t> faultPc = std::nullopt);

} // namespace tw::programs

#endif // TESTS_RTL_RANDOM_MODELS_H
