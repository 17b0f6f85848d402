//===- ExecuteLoad.cpp - load: a box from DRAM to a scratchpad ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "isa/Legality.h"
#include "simulator/functional/Box.h"
#include "simulator/functional/Execute.h"

#include <algorithm>

using namespace tw;
using namespace tw::functional;

namespace {

void plain(const isa::Load &load, const uint8_t *dram, uint8_t *scratchpad) {
  int64_t elementBytes = int64_t(1) << load.element_log2;
  uint32_t fill = uint32_t(load.fill);
  std::array<int64_t, 5> i;
  for (i[4] = 0; i[4] < load.counts[4]; ++i[4])
    for (i[3] = 0; i[3] < load.counts[3]; ++i[3])
      for (i[2] = 0; i[2] < load.counts[2]; ++i[2])
        for (i[1] = 0; i[1] < load.counts[1]; ++i[1])
          for (i[0] = 0; i[0] < load.counts[0]; ++i[0]) {
            int64_t target = load.address + i[0] * elementBytes;
            int64_t source = load.dram_address + (load.broadcast ? 0 : (i[0] - load.low[0]) * elementBytes);
            bool inside = true;
            for (unsigned d = 0; d < 5; ++d)
              inside &= load.low[d] <= i[d] && i[d] < load.counts[d] - load.high[d];
            for (unsigned d = 1; d < 5; ++d) {
              target += i[d] * load.strides[d - 1];
              source += (i[d] - load.low[d]) * load.dram_strides[d - 1];
            }
            for (int64_t byte = 0; byte < elementBytes; ++byte)
              scratchpad[target + byte] = inside ? dram[source + byte] : uint8_t(fill >> (8 * byte));
          }
}

/// Writes `count` copies of the element at `pattern`.
void repeat(uint8_t *target, const uint8_t *pattern, int64_t count, int64_t elementBytes) {
  if (elementBytes == 1) {
    std::memset(target, *pattern, count);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(target + i * elementBytes, pattern, elementBytes);
}

void fast(const isa::Load &load, const uint8_t *dram, uint8_t *scratchpad) {
  int64_t elementBytes = int64_t(1) << load.element_log2;
  Box box;
  box.runBytes = load.counts[0] * elementBytes;
  bool padded = load.low[0] || load.high[0];
  for (unsigned d = 0; d < 4; ++d) {
    box.counts[d] = load.counts[d + 1];
    box.sourceStrides[d] = load.dram_strides[d];
    box.targetStrides[d] = load.strides[d];
    padded |= load.low[d + 1] || load.high[d + 1];
  }
  if (!padded && !load.broadcast) {
    box.merge();
    return box.copy(dram + load.dram_address, scratchpad + load.address);
  }

  uint8_t fill[4];
  for (unsigned byte = 0; byte < 4; ++byte)
    fill[byte] = uint8_t(uint32_t(load.fill) >> (8 * byte));
  int64_t before = load.low[0], after = load.high[0], inside = load.counts[0] - before - after;
  std::array<int64_t, 5> i{};
  for (i[4] = 0; i[4] < load.counts[4]; ++i[4])
    for (i[3] = 0; i[3] < load.counts[3]; ++i[3])
      for (i[2] = 0; i[2] < load.counts[2]; ++i[2])
        for (i[1] = 0; i[1] < load.counts[1]; ++i[1]) {
          uint8_t *target = scratchpad + load.address;
          int64_t source = load.dram_address;
          bool rowInside = inside > 0;
          for (unsigned d = 1; d < 5; ++d) {
            target += i[d] * load.strides[d - 1];
            source += (i[d] - load.low[d]) * load.dram_strides[d - 1];
            rowInside &= load.low[d] <= i[d] && i[d] < load.counts[d] - load.high[d];
          }
          if (!rowInside) {
            repeat(target, fill, load.counts[0], elementBytes);
            continue;
          }
          repeat(target, fill, before, elementBytes);
          target += before * elementBytes;
          if (load.broadcast)
            repeat(target, dram + source, inside, elementBytes);
          else
            std::memcpy(target, dram + source, inside * elementBytes);
          repeat(target + inside * elementBytes, fill, after, elementBytes);
        }
}

} // namespace

void tw::functional::executeLoad(const isa::Load &load, core::MachineState &state, Kernel kernel) {
  (kernel == Kernel::Plain ? plain : fast)(load, state.dram(isa::dramBytesOf(load).end), state.memory(load.memory));
}
