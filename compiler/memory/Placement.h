//===- Placement.h - Addresses for tensors with lifetimes --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_MEMORY_PLACEMENT_H
#define COMPILER_MEMORY_PLACEMENT_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tw::memory {

/// One tensor: alive from step `begin` to step `end`, both included.
struct LiveRange {
  uint64_t bytes = 0;
  unsigned begin = 0, end = 0;
  uint64_t address = 0; ///< result, a multiple of `alignment`
};

/// Gives every range an address so that ranges alive at the same step do not overlap: first fit by decreasing size.
/// Returns the bytes used. Deterministic: equal sizes go in the order given.
uint64_t place(std::vector<LiveRange> &ranges, uint64_t alignment);

/// Ranges by the steps at which they are alive.
class LiveSteps {
public:
  void add(size_t index, const LiveRange &range);
  /// Takes back the range that was added last.
  void removeLast(const LiveRange &range);
  /// Calls `visit` with each range that is alive at a step of `range`, once.
  template <typename Visit> void forEachNeighbour(const LiveRange &range, Visit visit) const {
    const size_t end = alive.size() < size_t(range.end) + 1 ? alive.size() : size_t(range.end) + 1;
    if (range.begin >= end)
      return;
    for (size_t index : alive[range.begin])
      visit(index);
    for (size_t step = range.begin + 1; step < end; ++step)
      for (size_t index : beginning[step])
        visit(index);
  }
  const std::vector<size_t> &aliveAt(unsigned step) const { return alive[step]; }

private:
  std::vector<std::vector<size_t>> alive, beginning; ///< per step
};

/// What place() says of ranges that come one by one: only those that a new one moves are placed again.
class GrowingPlacement {
public:
  explicit GrowingPlacement(uint64_t alignment) : alignment(alignment) {}
  /// Adds a range behind those of its size; returns the indices of the ranges with another address than before, its own included.
  std::vector<size_t> add(LiveRange range);
  /// As if the last range had not been added. Once only.
  void undo();
  const LiveRange &operator[](size_t index) const { return ranges[index]; }
  /// Bytes of the ranges that are alive at a step.
  uint64_t bytesAt(unsigned step) const;

private:
  uint64_t alignment;
  std::vector<LiveRange> ranges;
  LiveSteps steps;
  std::vector<std::pair<size_t, uint64_t>> moved; ///< by the last range: indices, and the addresses before
};

} // namespace tw::memory

#endif // COMPILER_MEMORY_PLACEMENT_H
