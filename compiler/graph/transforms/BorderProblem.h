//===- BorderProblem.h - Which borders of kernels are moved -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choice of kernel borders as a problem of its own (docs/fusion.md). Rules form kernels first. An alternative moves one border: the ops
// behind it join another kernel, or become one. Nothing here knows an op.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_BORDERPROBLEM_H
#define COMPILER_GRAPH_TRANSFORMS_BORDERPROBLEM_H

#include <cstdint>
#include <string>
#include <vector>

namespace tw::graph {

/// Any set of alternatives may be taken of which no two change the same kernel: only then the gain of each holds beside the others.
struct BorderProblem {
  struct Alternative {
    std::vector<unsigned> kernels; ///< that it changes; numbers of kernels as the rules form them, each once
    int64_t gain = 0;              ///< cycles that these kernels take less; negative: more
  };
  std::vector<Alternative> alternatives;
};

/// Alternatives that are taken, in rising order.
using BorderChoice = std::vector<unsigned>;

/// Cycles that `choice` saves.
[[nodiscard]] int64_t gainOf(const BorderProblem &problem, const BorderChoice &choice);

/// What is wrong with `choice`, beginning in lower case: it names no alternative, or two alternatives that change one kernel. Empty: nothing.
[[nodiscard]] std::string whatIsWrong(const BorderProblem &problem, const BorderChoice &choice);

/// The choice of the largest gain, among those of equal gain one with the fewest alternatives. Exact for alternatives that hang together by
/// kernels in sets of up to 12. In a larger set the alternative of the largest gain goes first. Never a choice of negative gain.
[[nodiscard]] BorderChoice solve(const BorderProblem &problem);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_BORDERPROBLEM_H
