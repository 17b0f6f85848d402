//===- TestPrograms.h - Small machines and programs for tests ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_SYSTEMC_TESTPROGRAMS_H
#define TESTS_UNIT_SYSTEMC_TESTPROGRAMS_H

#include "simulator/systemc/SystemCModel.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tw::test {

using stats::Label;

/// An int8 machine of 8 x 8 with an ideal DRAM: one burst of 64 bytes per cycle, 10 cycles latency. A burst requested in
/// cycle t is on the bus in t and arrives in t + 11.
///
/// Program fetch on it: bursts of two words are requested in cycles 2, 3, 4, ... and arrive in 13, 14, 15, ...; the
/// sequencer takes word k in cycle 14 + k if nothing stalls it.
inline timing::MachineParams smallMachine() {
  timing::MachineParams machine;
  machine.name = "small";
  machine.rows = machine.cols = machine.lanes = 8;
  machine.scratchpads = {{"scratchpad", 16384, 8}};
  machine.accumulator = {"accumulator", 8192, 4};
  machine.dram.capacityBytes = 1 << 20;
  machine.dram.latencyCycles = 10;
  machine.dram.bytesPerCycleNumerator = 64;
  return machine;
}

/// Assembles one instruction per line. Fails the test on an error.
inline isa::Program assemble(const std::vector<std::string> &lines) {
  isa::Program program;
  program.codeAddress = 0x80000;
  program.dramBytes = 1 << 20;
  unsigned number = 0;
  for (const std::string &line : lines) {
    Result<isa::Instruction> instruction = isa::parse(line, "test", ++number);
    EXPECT_TRUE(bool(instruction)) << instruction.message();
    if (instruction)
      isa::encode(*instruction, program.code);
  }
  return program;
}

inline stats::SimResult run(const isa::Program &program, core::MachineState &state, systemc::SimOptions options = {}) {
  return systemc::SystemCModel().run(program, state, options);
}

/// Runs with cleared memories and everything recorded.
inline stats::SimResult run(const std::vector<std::string> &lines, const timing::MachineParams &machine = smallMachine()) {
  const isa::Program program = assemble(lines);
  core::MachineState state(machine);
  const std::optional<std::string> problem = state.load(program);
  EXPECT_FALSE(problem) << *problem;
  systemc::SimOptions options;
  options.trace = true;
  return run(program, state, options);
}

inline const stats::EngineResult &engineOf(const stats::SimResult &result, const std::string &name) {
  for (const stats::EngineResult &engine : result.engines)
    if (engine.name == name)
      return engine;
  ADD_FAILURE() << "no engine " << name;
  return result.engines.front();
}

inline timing::Cycle cyclesOf(const stats::SimResult &result, const std::string &engine, Label label) {
  return engineOf(result, engine).cycles[static_cast<unsigned>(label)];
}

/// All labels of one engine in the order of stats::Label, to compare in one line.
inline std::vector<timing::Cycle> labelsOf(const stats::SimResult &result, const std::string &engine) {
  const auto &cycles = engineOf(result, engine).cycles;
  return {cycles.begin(), cycles.end()};
}

} // namespace tw::test

#endif // TESTS_UNIT_SYSTEMC_TESTPROGRAMS_H
