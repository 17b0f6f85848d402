//===- RingChoices.cpp - Which rings, and how deep ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/RingChoices.h"
#include "compiler/research/loopsched/Constraints.h"

#include <algorithm>

using namespace tw;
using namespace tw::loopsched;

namespace {

/// The choices for one memory.
class MemoryChoices {
public:
  MemoryChoices(const Problem &problem, const std::vector<int64_t> &least, unsigned memory, int64_t spare, size_t limit)
      : problem(problem), least(least), memory(memory), spare(spare), limit(limit) {
    for (unsigned b = 0; b < problem.buffers.size(); ++b)
      if (problem.buffers[b].memory == memory)
        buffers.push_back(b);
    std::stable_sort(buffers.begin(), buffers.end(), [&](unsigned a, unsigned b) { return banks(a) > banks(b); });
  }

  std::vector<std::vector<RingChoice>> run(bool share) {
    divide(0, false);
    if (share && buffers.size() > 1 && buffers.size() <= 8)
      divide(0, true);
    return std::move(found);
  }

private:
  int64_t banks(unsigned buffer) const { return problem.banksPerSlot(problem.buffers[buffer]); }

  void divide(size_t index, bool share) {
    if (found.size() >= limit)
      return;
    if (index == buffers.size()) {
      if (share == (rings.size() < buffers.size()))
        deepen(0, problem.memories[memory].banks - leastBanks());
      return;
    }
    unsigned buffer = buffers[index];
    int64_t most = largestDepth(problem, buffer);
    rings.push_back({memory, least[buffer], banks(buffer), {buffer}});
    caps.push_back(std::min(most, least[buffer] + spare));
    if (least[buffer] <= most)
      divide(index + 1, share);
    rings.pop_back();
    caps.pop_back();
    for (size_t r = 0; share && r < rings.size(); ++r) {
      RingChoice old = rings[r];
      int64_t cap = caps[r];
      rings[r].buffers.push_back(buffer);
      rings[r].depth = std::max(old.depth, least[buffer]);
      caps[r] = std::min({std::max(cap, least[buffer] + spare), largestDepth(problem, old.buffers[0]), most});
      if (rings[r].depth <= caps[r])
        divide(index + 1, share);
      rings[r] = old;
      caps[r] = cap;
    }
  }

  int64_t leastBanks() const {
    int64_t sum = 0;
    for (const RingChoice &ring : rings)
      sum += ring.depth * ring.banks;
    return sum;
  }

  /// All depths from the least of `ring` on that use `left` banks so that no ring could get one more slot.
  void deepen(size_t ring, int64_t left) {
    if (left < 0 || found.size() >= limit)
      return;
    if (ring == rings.size()) {
      for (size_t r = 0; r < rings.size(); ++r)
        if (rings[r].depth < caps[r] && rings[r].banks <= left)
          return;
      found.push_back(rings);
      return;
    }
    int64_t depth = rings[ring].depth, most = std::min(caps[ring], depth + left / rings[ring].banks);
    for (int64_t d = most; d >= depth; --d) {
      rings[ring].depth = d;
      deepen(ring + 1, left - (d - depth) * rings[ring].banks);
    }
    rings[ring].depth = depth;
  }

  const Problem &problem;
  const std::vector<int64_t> &least;
  unsigned memory;
  int64_t spare;
  size_t limit;
  std::vector<unsigned> buffers;
  std::vector<RingChoice> rings;
  std::vector<int64_t> caps; ///< largest useful depth of each ring
  std::vector<std::vector<RingChoice>> found;
};

} // namespace

std::vector<std::vector<RingChoice>> loopsched::ringChoices(const Problem &problem, const std::vector<int64_t> &least,
                                                            bool share, int64_t spare, size_t limit) {
  std::vector<std::vector<std::vector<RingChoice>>> memories;
  for (unsigned m = 0; m < problem.memories.size(); ++m)
    memories.push_back(MemoryChoices(problem, least, m, spare, limit).run(share));
  // Every combination, the first of each memory first.
  std::vector<std::vector<RingChoice>> result{{}};
  for (const std::vector<std::vector<RingChoice>> &choices : memories) {
    std::vector<std::vector<RingChoice>> next;
    for (const std::vector<RingChoice> &choice : choices)
      for (const std::vector<RingChoice> &begun : result) {
        if (next.size() >= limit)
          break;
        next.push_back(begun);
        next.back().insert(next.back().end(), choice.begin(), choice.end());
      }
    result = std::move(next);
  }
  return result;
}
