//===- PriorityPlugin.cpp - A priority of one's own ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the priority `longest_path`: critical-path list scheduling, in which the
// operation goes first behind which most work has to follow. Built against the
// headers alone and linked with nothing (docs/plugins.md).
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Plugin.h"
#include "compiler/schedule/PriorityFunction.h"

#include <algorithm>

using namespace tw;
using namespace tw::schedule;

TILEWRIGHT_PLUGIN

extern "C" void tilewrightRegisterPriorities(PriorityRegistry &registry) {
  registry.add("longest_path", [](const PriorityProblem &problem) {
    const size_t count = problem.operations.size();
    std::vector<double> behind(count, 0); // cycles from an operation's start until the last that waits for it is done
    // Dependences are sorted by where they go to, and go forwards: from the last to the first every one is read behind what it leads to.
    size_t next = problem.dependences.size();
    for (size_t i = count; i-- > 0;) {
      behind[i] = std::max(behind[i], problem.operations[i].occupancy + problem.operations[i].drain);
      for (; next > 0 && problem.dependences[next - 1].to == i; --next) {
        const PriorityProblem::Dependence &dependence = problem.dependences[next - 1];
        const PriorityProblem::Operation &from = problem.operations[dependence.from];
        const double delay = dependence.waitsForRetirement ? from.occupancy + from.drain : 0;
        behind[dependence.from] = std::max(behind[dependence.from], delay + behind[i]);
      }
    }
    // The smallest number goes first.
    std::transform(behind.begin(), behind.end(), behind.begin(), [](double cycles) { return -cycles; });
    return behind;
  });
}
