//===- CriticalPath.cpp - Which layers a run waits for --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/CriticalPath.h"

#include <algorithm>
#include <cassert>

namespace tw::stats {

void Path::release(Step *step) {
  // A loop, not a recursion: paths are as long as runs.
  while (step && --step->uses == 0)
    delete std::exchange(step, step->before);
}

Path Path::then(uint32_t layer, Cycle begin) const {
  if (last && last->layer == layer)
    return *this;
  Step *before = last;
  assert((!before || before->begin <= begin) && "a path goes forwards");
  // A step without cycles is none.
  if (before && before->begin == begin)
    before = before->before;
  if (before && before->layer == layer) {
    retain(before);
    return Path(before);
  }
  retain(before);
  return Path(new Step{before, before ? begin : 0, layer, 1});
}

std::vector<PathStep> Path::steps(Cycle total) const {
  std::vector<PathStep> steps;
  for (const Step *step = last; step; step = step->before) {
    if (step->begin < total)
      steps.push_back({step->begin, total, step->layer});
    total = std::min(total, step->begin);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

void Retirements::forgetBefore(Cycle cycle) {
  size_t keep = 0;
  while (keep + 1 < list.size() && list[keep + 1].first <= cycle)
    ++keep;
  list.erase(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(keep));
}

const std::pair<Cycle, Path> *Retirements::upTo(Cycle cycle) const {
  for (auto it = list.rbegin(); it != list.rend(); ++it)
    if (it->first <= cycle)
      return &*it;
  return nullptr;
}

} // namespace tw::stats
