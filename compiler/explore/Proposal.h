//===- Proposal.h - What an exploration tried --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The records of `--explain`: data alone, for whoever shows them.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_EXPLORE_PROPOSAL_H
#define COMPILER_EXPLORE_PROPOSAL_H

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tw::explore {

/// A knob with another value. Values are spelled as in a plan file, without quotes; "open": the compiler chooses.
struct KnobDifference {
  std::string kernel; ///< empty: a knob of the network
  std::string knob, from, to;
};

/// What became of a proposal.
struct Proposal {
  std::string strategy;
  std::vector<KnobDifference> changes; ///< against the best plan at that time
  std::optional<double> before;        ///< cycles of that plan; nothing: this is the first one
  /// Cycles of the proposal. Of one that was not taken at least so many: its estimate stops when it can no longer be taken. Nothing:
  /// refused, the same program, or not looked at.
  std::optional<double> after;
  bool isTaken = false;
  std::string why; ///< it was not taken
};

using ProposalReport = std::function<void(const Proposal &)>;

/// Proposal::strategy of the first plan, in which nothing is decided but what was asked for.
constexpr const char *kFirstPlan = "first-plan";
/// Of plans that were simulated because their estimates are close to the best one. Cycles are simulated.
constexpr const char *kSimulation = "simulation";
/// Of schedules that were simulated to choose between them. Cycles are simulated.
constexpr const char *kScheduleChoice = "schedule-choice";

} // namespace tw::explore

#endif // COMPILER_EXPLORE_PROPOSAL_H
