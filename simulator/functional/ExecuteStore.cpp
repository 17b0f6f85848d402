//===- ExecuteStore.cpp - store: a box from a scratchpad to DRAM ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "isa/Legality.h"
#include "simulator/functional/Box.h"
#include "simulator/functional/Execute.h"

using namespace tw;
using namespace tw::functional;

namespace {

void plain(const isa::Store &store, const uint8_t *scratchpad, uint8_t *dram) {
  int64_t elementBytes = int64_t(1) << store.element_log2;
  std::array<int64_t, 5> i;
  for (i[4] = 0; i[4] < store.counts[4]; ++i[4])
    for (i[3] = 0; i[3] < store.counts[3]; ++i[3])
      for (i[2] = 0; i[2] < store.counts[2]; ++i[2])
        for (i[1] = 0; i[1] < store.counts[1]; ++i[1])
          for (i[0] = 0; i[0] < store.counts[0]; ++i[0]) {
            int64_t source = store.address + i[0] * elementBytes;
            int64_t target = store.dram_address + i[0] * elementBytes;
            for (unsigned d = 1; d < 5; ++d) {
              source += i[d] * store.strides[d - 1];
              target += i[d] * store.dram_strides[d - 1];
            }
            for (int64_t byte = 0; byte < elementBytes; ++byte)
              dram[target + byte] = scratchpad[source + byte];
          }
}

void fast(const isa::Store &store, const uint8_t *scratchpad, uint8_t *dram) {
  Box box;
  box.runBytes = store.counts[0] << store.element_log2;
  for (unsigned d = 0; d < 4; ++d) {
    box.counts[d] = store.counts[d + 1];
    box.sourceStrides[d] = store.strides[d];
    box.targetStrides[d] = store.dram_strides[d];
  }
  box.merge();
  box.copy(scratchpad + store.address, dram + store.dram_address);
}

} // namespace

void tw::functional::executeStore(const isa::Store &store, core::MachineState &state, Kernel kernel) {
  (kernel == Kernel::Plain ? plain : fast)(store, state.memory(store.memory), state.dram(isa::dramBytesOf(store).end));
}
