//===- SteppedModel.h - The timing rules, one cycle at a time ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A second implementation of docs/timing.md, the way hardware does it: every
// unit looks at its registers in every cycle. Nothing is computed ahead, nothing
// is kept in intervals. Slow, plain, and for tests only.
//===----------------------------------------------------------------------===//
#ifndef TESTS_TIMING_ENGINES_STEPPEDMODEL_H
#define TESTS_TIMING_ENGINES_STEPPEDMODEL_H

#include "isa/Program.h"
#include "simulator/stats/SimResult.h"

namespace tw::test {

struct SteppedResult {
  /// Empty, or what stopped the program.
  std::optional<core::FaultKind> fault;
  timing::Cycle totalCycles = 0;
  /// In dispatch order; retire is 0 for what never retired.
  std::vector<stats::InstructionRecord> instructions;
  /// By engine number.
  std::array<std::array<timing::Cycle, stats::kNumLabels>, stats::kNumEngines> labels{};
};

/// Times the program; nothing is computed. `limit`: gives up after that many cycles.
SteppedResult runStepped(const isa::Program &program, const timing::MachineParams &machine, timing::Cycle limit = 10'000'000);

} // namespace tw::test

#endif // TESTS_TIMING_ENGINES_STEPPEDMODEL_H
