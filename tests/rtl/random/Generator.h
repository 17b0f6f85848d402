//===- Generator.h - Random programs for any machine ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that use everything the instruction set has: all engines and units,
// loops with odometers, predicates and edges, fills, broadcasts, strides,
// windows, chains of all stages, semaphores of all kinds. They are legal and
// free of races by construction, so every model of the machine must agree on
// them, in every bit and every cycle. The seed decides everything.
//===----------------------------------------------------------------------===//
#ifndef TESTS_RTL_RANDOM_GENERATOR_H
#define TESTS_RTL_RANDOM_GENERATOR_H

#include "isa/Program.h"
#include "simulator/core/RunResult.h"

namespace tw::programs {

/// A program without inputs: its data are constants, with NaNs of all kinds, infinities, subnormals and both zeros among
/// them. A few hundred to a few thousand cycles long on every machine.
isa::Program randomProgram(const timing::MachineParams &machine, uint64_t seed);

/// The machine with another DRAM behind it: rates, latencies and timing of the device. All that its RTL depends on stays
/// (cosim::rtlMachinePackage()), so the controller does, too.
timing::MachineParams otherDram(const timing::MachineParams &machine, uint64_t seed);

/// A program that stops with a fault, planted at a random place of a legal one.
struct Faulty {
  isa::Program program;
  core::FaultKind kind = core::FaultKind::IllegalInstruction; ///< an architectural one, or Deadlock
  uint64_t pc = 0;                                            ///< the instruction at fault; of a deadlock, where it was planted
  std::string planted;                                        ///< in words
};
Faulty randomFaultyProgram(const timing::MachineParams &machine, uint64_t seed);

} // namespace tw::programs

#endif // TESTS_RTL_RANDOM_GENERATOR_H
