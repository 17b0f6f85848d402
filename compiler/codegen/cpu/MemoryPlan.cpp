//===- MemoryPlan.cpp - Offsets of buffers in one arena -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/MemoryPlan.h"
#include <algorithm>
#include <numeric>

namespace tw::cpu {

int64_t planMemory(std::vector<PlannedBuffer> &buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  auto rounded = [](int64_t bytes) { return (bytes + bufferAlignment - 1) / bufferAlignment * bufferAlignment; };
  int64_t total = 0;
  std::vector<size_t> placed;
  for (size_t index : order) {
    PlannedBuffer &buffer = buffers[index];
    buffer.offset = 0;
    // `placed` is sorted by offset, so one pass finds the lowest gap.
    for (size_t other : placed) {
      const PlannedBuffer &taken = buffers[other];
      if (taken.lastStep < buffer.firstStep || buffer.lastStep < taken.firstStep)
        continue;
      if (buffer.offset + rounded(buffer.bytes) <= taken.offset)
        break;
      buffer.offset = std::max(buffer.offset, taken.offset + rounded(taken.bytes));
    }
    auto position = std::upper_bound(placed.begin(), placed.end(), index,
                                     [&](size_t a, size_t b) { return buffers[a].offset < buffers[b].offset; });
    placed.insert(position, index);
    total = std::max(total, buffer.offset + rounded(buffer.bytes));
  }
  return total;
}

} // namespace tw::cpu
