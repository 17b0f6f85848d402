//===- ExactModel.h - A problem for an SMT solver ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Written from the text of Problem.h alone, as SMT-LIB 2 over linear integer
// arithmetic (QF_LIA): shares no code with schedulers or verify().
//===----------------------------------------------------------------------===//
#ifndef TESTS_UNIT_LOOPSCHED_EXACTMODEL_H
#define TESTS_UNIT_LOOPSCHED_EXACTMODEL_H

#include "compiler/research/loopsched/Problem.h"

#include <optional>

namespace tw::loopsched::test {

/// Satisfiable iff `problem` has a schedule with this ii.
std::string smtModel(const Problem &problem, Cycles ii);

enum class Answer { Sat, Unsat, Unknown };

/// Is there a z3 that can be run?
bool haveZ3();

/// What z3 says within `seconds`; a schedule if it is Sat.
Answer solve(const Problem &problem, Cycles ii, unsigned seconds, Schedule &schedule);

/// Does the model hold for `schedule`, its starts, depths and rings given?
Answer evaluate(const Problem &problem, const Schedule &schedule, unsigned seconds);

struct Optimum {
  /// The least ii known to be possible.
  Cycles ii = 0;
  /// Nothing below is possible: z3 says so of ii - 1, and of every other ii from the lower bound on that was asked.
  bool proved = false;
  /// How many values of ii z3 found impossible, and whether these are all from the lower bound on.
  unsigned refuted = 0;
  bool every = false;
  /// z3's answers contradict each other, the verifier or the monotonicity of Problem.h.
  std::string contradiction;
};

/// Starts from `best`, a right schedule. With `every`, asks for all ii from `lower` to the optimum, not only for the
/// one below it.
Optimum findOptimum(const Problem &problem, Cycles lower, const Schedule &best, unsigned seconds, bool every);

} // namespace tw::loopsched::test

#endif // TESTS_UNIT_LOOPSCHED_EXACTMODEL_H
