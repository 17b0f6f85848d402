//===- Placement.cpp - Addresses for tensors with lifetimes ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/memory/Placement.h"

#include <algorithm>

using namespace tw;

uint64_t memory::place(std::vector<LiveRange> &ranges, uint64_t alignment) {
  std::vector<size_t> order(ranges.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return ranges[a].bytes > ranges[b].bytes; });
  auto aligned = [&](uint64_t value) { return (value + alignment - 1) / alignment * alignment; };
  std::vector<size_t> placed;
  uint64_t used = 0;
  for (size_t index : order) {
    LiveRange &range = ranges[index];
    std::vector<const LiveRange *> neighbours;
    for (size_t other : placed)
      if (ranges[other].begin <= range.end && range.begin <= ranges[other].end)
        neighbours.push_back(&ranges[other]);
    std::sort(neighbours.begin(), neighbours.end(),
              [](const LiveRange *a, const LiveRange *b) { return a->address < b->address; });
    uint64_t address = 0;
    for (const LiveRange *neighbour : neighbours) {
      if (address + range.bytes <= neighbour->address)
        break;
      address = std::max(address, aligned(neighbour->address + neighbour->bytes));
    }
    range.address = address;
    used = std::max(used, aligned(address + range.bytes));
    placed.push_back(index);
  }
  return used;
}
