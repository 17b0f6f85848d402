//===- Placement.cpp - Addresses for tensors with lifetimes ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/memory/Placement.h"

#include <algorithm>
#include <set>

using namespace tw;

using namespace tw::memory;

namespace {
uint64_t aligned(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

/// The first address at which `range` overlaps none of its neighbours.
uint64_t firstFit(const LiveRange &range, std::vector<const LiveRange *> &neighbours, uint64_t alignment) {
  std::sort(neighbours.begin(), neighbours.end(),
            [](const LiveRange *a, const LiveRange *b) { return a->address < b->address; });
  uint64_t address = 0;
  for (const LiveRange *neighbour : neighbours) {
    if (address + range.bytes <= neighbour->address)
      break;
    address = std::max(address, aligned(neighbour->address + neighbour->bytes, alignment));
  }
  return address;
}
} // namespace

uint64_t memory::place(std::vector<LiveRange> &ranges, uint64_t alignment) {
  std::vector<size_t> order(ranges.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranges[a].bytes > ranges[b].bytes; });
  LiveSteps placed;
  uint64_t used = 0;
  for (size_t index : order) {
    LiveRange &range = ranges[index];
    std::vector<const LiveRange *> neighbours;
    placed.forEachNeighbour(range, [&](size_t other) { neighbours.push_back(&ranges[other]); });
    range.address = firstFit(range, neighbours, alignment);
    used = std::max(used, aligned(range.address + range.bytes, alignment));
    placed.add(index, range);
  }
  return used;
}

void LiveSteps::add(size_t index, const LiveRange &range) {
  if (alive.size() <= range.end) {
    alive.resize(size_t(range.end) + 1);
    beginning.resize(size_t(range.end) + 1);
  }
  beginning[range.begin].push_back(index);
  for (size_t step = range.begin; step <= range.end; ++step)
    alive[step].push_back(index);
}

void LiveSteps::removeLast(const LiveRange &range) {
  beginning[range.begin].pop_back();
  for (size_t step = range.begin; step <= range.end; ++step)
    alive[step].pop_back();
}

std::vector<size_t> GrowingPlacement::add(LiveRange range) {
  const size_t added = ranges.size();
  ranges.push_back(range);
  steps.add(added, range);
  moved.clear();
  auto isBefore = [&](size_t a, size_t b) {
    return ranges[a].bytes != ranges[b].bytes ? ranges[a].bytes > ranges[b].bytes : a < b;
  };
  std::vector<size_t> indices;
  std::set<size_t, decltype(isBefore)> open(isBefore);
  open.insert(added);
  while (!open.empty()) {
    const size_t index = *open.begin();
    open.erase(open.begin());
    std::vector<const LiveRange *> neighbours;
    steps.forEachNeighbour(ranges[index], [&](size_t other) {
      if (isBefore(other, index))
        neighbours.push_back(&ranges[other]);
    });
    const uint64_t address = firstFit(ranges[index], neighbours, alignment);
    if (index != added && address == ranges[index].address)
      continue;
    moved.push_back({index, ranges[index].address});
    indices.push_back(index);
    ranges[index].address = address;
    steps.forEachNeighbour(ranges[index], [&](size_t other) {
      if (isBefore(index, other))
        open.insert(other);
    });
  }
  return indices;
}

void GrowingPlacement::undo() {
  for (auto [index, address] : moved)
    ranges[index].address = address;
  moved.clear();
  steps.removeLast(ranges.back());
  ranges.pop_back();
}

uint64_t GrowingPlacement::bytesAt(unsigned step) const {
  uint64_t bytes = 0;
  for (size_t index : steps.aliveAt(step))
    bytes += ranges[index].bytes;
  return bytes;
}
