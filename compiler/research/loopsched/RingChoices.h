//===- RingChoices.h - Which rings, and how deep ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_RESEARCH_LOOPSCHED_RINGCHOICES_H
#define COMPILER_RESEARCH_LOOPSCHED_RINGCHOICES_H

#include "compiler/research/loopsched/Problem.h"

namespace tw::loopsched {

struct RingChoice {
  unsigned memory = 0;
  int64_t depth = 1, banks = 1; ///< banks of one slot
  std::vector<unsigned> buffers;
};

/// Ways to divide the banks of every memory among rings, without those that another beats in every depth. `least[b]`:
/// slots that buffer b needs at least. Choices with a ring for each buffer come first, then those with shared rings.
/// `spare`: slots beyond its least that a buffer may get; `limit`: choices at most.
std::vector<std::vector<RingChoice>> ringChoices(const Problem &problem, const std::vector<int64_t> &least, bool share,
                                                 int64_t spare, size_t limit);

} // namespace tw::loopsched

#endif // COMPILER_RESEARCH_LOOPSCHED_RINGCHOICES_H
