//===- Dma.cpp - The burst recurrence of loads and stores -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/Dma.h"

#include <algorithm>
#include <cassert>

namespace tw::timing {

Box boxOf(const isa::Load &load) {
  Box box;
  box.dramAddress = static_cast<uint64_t>(load.dram_address);
  box.elementBytes = 1u << load.element_log2;
  box.broadcast = load.broadcast != 0;
  for (unsigned d = 0; d < 5; ++d) {
    box.counts[d] = static_cast<uint32_t>(load.counts[d]);
    box.low[d] = static_cast<uint32_t>(load.low[d]);
    box.high[d] = static_cast<uint32_t>(load.high[d]);
  }
  for (unsigned d = 0; d < 4; ++d)
    box.dramStrides[d] = load.dram_strides[d];
  return box;
}

Box boxOf(const isa::Store &store) {
  Box box;
  box.dramAddress = static_cast<uint64_t>(store.dram_address);
  box.elementBytes = 1u << store.element_log2;
  for (unsigned d = 0; d < 5; ++d)
    box.counts[d] = static_cast<uint32_t>(store.counts[d]);
  for (unsigned d = 0; d < 4; ++d)
    box.dramStrides[d] = store.dram_strides[d];
  return box;
}

BurstCutter::BurstCutter(const Box &box, uint32_t burstBytes) : box(box), burstBytes(burstBytes) {
  assert(burstBytes && (burstBytes & (burstBytes - 1)) == 0 && "bursts are a power of two long");
  const uint64_t valid = box.counts[0] > box.low[0] + box.high[0] ? box.counts[0] - box.low[0] - box.high[0] : 0;
  fillsPerRun = pieces(uint64_t(box.counts[0]) * box.elementBytes);
  fillsBefore = pieces(uint64_t(box.low[0]) * box.elementBytes);
  fillsAfter = pieces(uint64_t(box.high[0]) * box.elementBytes);
  if (valid == 0) {
    // Nothing of a run lies in DRAM: every run is one fill.
    fillsInFront = fillsPerRun;
    for (unsigned d = 1; d < 5; ++d)
      fillsInFront *= box.counts[d];
    return;
  }
  broadcastPieces = pieces(valid * box.elementBytes);
  hasBurst = true;
  if (!enterRun() && !nextRun()) {
    fillsInFront = burst.segments;
    hasBurst = false;
    return;
  }
  fillsInFront = burst.segments;
  burst.segments = 0;
  burst.address = runNext & ~(this->burstBytes - 1);
}

/// Sets the DRAM range of the run at `index`; false if the run is filled, which adds its pieces to the current burst.
bool BurstCutter::enterRun() {
  int64_t offset = 0;
  for (unsigned d = 1; d < 5; ++d) {
    if (index[d] < box.low[d] || index[d] + box.high[d] >= box.counts[d]) {
      burst.segments += fillsPerRun;
      return false;
    }
    offset += int64_t(index[d] - box.low[d]) * box.dramStrides[d - 1];
  }
  burst.segments += fillsBefore;
  pendingFillsAfter = fillsAfter;
  runNext = box.dramAddress + static_cast<uint64_t>(offset);
  const uint64_t elements = box.broadcast ? 1 : box.counts[0] - box.low[0] - box.high[0];
  runEnd = runNext + elements * box.elementBytes;
  return true;
}

/// Goes to the next run that reads DRAM, counting fills on the way; false at the end of the box.
bool BurstCutter::nextRun() {
  for (;;) {
    unsigned d = 1;
    for (; d < 5; ++d) {
      if (++index[d] < box.counts[d])
        break;
      index[d] = 0;
    }
    if (d == 5)
      return false;
    if (enterRun())
      return true;
  }
}

BoxBurst BurstCutter::next() {
  assert(hasBurst && "no burst left");
  for (;;) {
    if (runNext < runEnd) {
      const uint64_t address = runNext & ~(burstBytes - 1);
      if (address != burst.address) {
        const BoxBurst result = burst;
        burst = {address, 0};
        return result;
      }
      runNext = std::min(address + burstBytes, runEnd);
      burst.segments += box.broadcast ? broadcastPieces : 1;
      continue;
    }
    burst.segments += pendingFillsAfter;
    if (!nextRun()) {
      hasBurst = false;
      return burst;
    }
  }
}

BoxCost costOf(const Box &box, uint32_t burstBytes) {
  BoxCost cost;
  BurstCutter cutter(box, burstBytes);
  cost.segments = cutter.leadingFills();
  while (!cutter.done()) {
    cost.segments += cutter.next().segments;
    ++cost.bursts;
  }
  return cost;
}

void LoadRecurrence::reset(uint32_t outstanding, uint32_t width) {
  *this = LoadRecurrence();
  this->outstanding = outstanding;
  this->width = width;
  byWidth = Divider(width);
  while (mask + 1 < outstanding)
    mask = 2 * mask + 1;
  written.assign(mask + 1, 0);
  segmentsOf.assign(mask + 1, 0);
}

Cycle LoadRecurrence::fill(Cycle from, uint64_t pieces) {
  if (pieces) {
    slot = std::max(slot, from * width);
    firstMove = byWidth.floor(slot);
    slot += pieces;
  }
  return writtenUpTo() ? writtenUpTo() - 1 : 0;
}

Cycle LoadRecurrence::arrive(Cycle completion) {
  assert(arrivalCount < requestCount && "more arrivals than requests");
  arrival = std::max(arrival, completion);
  slot = std::max(slot, (arrival + 1) * width);
  firstMove = byWidth.floor(slot);
  slot += segmentsOf[arrivalCount & mask];
  const Cycle last = writtenUpTo() - 1;
  written[arrivalCount++ & mask] = last;
  return last;
}

void StoreRecurrence::reset(uint32_t outstanding, uint32_t width) {
  *this = StoreRecurrence();
  this->outstanding = outstanding;
  this->width = width;
  accepted.assign(outstanding, 0);
}

Cycle StoreRecurrence::gather(Cycle from, uint32_t segments) {
  if (gatherCount >= outstanding) {
    assert(gatherCount - outstanding < acceptCount && "gathered beyond the staging buffer");
    from = std::max(from, accepted[gatherCount % outstanding] + 1);
  }
  ++gatherCount;
  slot = std::max(slot, from * width);
  begin = slot / width;
  slot += segments;
  return (slot + width - 1) / width - 1;
}

} // namespace tw::timing
