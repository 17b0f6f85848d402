//===- DmaReference.h - The rules of DMA, one cycle at a time ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// docs/timing.md, sections 7, 8 and 11, for boxes that a test starts: what the
// load engines, the store engines and the DRAM port do in a cycle. Queues,
// semaphores and banks are not part of it.
//===----------------------------------------------------------------------===//
#ifndef TESTS_RTL_DMA_DMAREFERENCE_H
#define TESTS_RTL_DMA_DMAREFERENCE_H

#include "isa/IsaStructs.h"
#include "isa/timing/MachineParams.h"

#include <deque>
#include <functional>
#include <optional>
#include <vector>

namespace tw::test {

/// One piece of a box.
struct DmaSegment {
  bool fill = false;
  bool opens = false, closes = false; ///< the first, the last of its burst
  bool last = false;                  ///< of its box
  uint64_t burst = 0;                 ///< address of the burst; not for fills
  uint32_t offset = 0;                ///< first byte in the burst
  uint32_t length = 0;                ///< bytes in the scratchpad
  int64_t address = 0;                ///< in the scratchpad
};

/// All segments of a box in order. A store is a load without fills.
std::vector<DmaSegment> cutBox(const isa::Load &box, uint32_t burstBytes);

struct DmaRequest {
  unsigned requester = 0; ///< load unit, 4 fetch, 5 write buffer
  uint64_t slot = 0;
  uint64_t address = 0;
};

class DmaReference {
public:
  static constexpr unsigned kFetch = 4, kWrites = 5;

  struct LoadCycle {
    bool ready = true, retire = false, busy = false, wait = false, latency = false;
    unsigned channel = 0;
    std::vector<DmaSegment> moved;
  };
  struct StoreCycle {
    bool ready = true, retire = false, busy = false, setup = false, blocked = false;
    std::vector<DmaSegment> gathered;
    uint32_t accepted = 0;
  };
  /// What happens in one cycle.
  struct Outputs {
    std::vector<LoadCycle> loads;
    std::vector<StoreCycle> stores;
    std::vector<DmaRequest> requests;
    bool drained = true;
  };

  /// `completion` is asked once per request for its completion cycle; it is given the request and its cycle.
  DmaReference(const timing::MachineParams &machine,
               std::function<timing::Cycle(const DmaRequest &, timing::Cycle)> completion);

  /// Whether a box may start in the next cycle that is stepped.
  bool loadFree(unsigned unit) const { return loads[unit].issueFree <= now && loads[unit].inFlight < machine.timing.dma_boxes; }
  bool storeFree(unsigned unit) const {
    return stores[unit].issueFree <= now && stores[unit].inFlight < machine.timing.dma_boxes;
  }
  bool idle() const;

  /// One cycle: boxes that start, and addresses of the bursts that fetch asks for, their slots being 0, 1, ...
  Outputs step(const std::vector<std::optional<isa::Load>> &loadStarts,
               const std::vector<std::optional<isa::Load>> &storeStarts, const std::vector<uint64_t> &fetch);

private:
  using Cycle = timing::Cycle;
  struct Load {
    std::deque<DmaSegment> walk; ///< not passed by the request side
    Cycle from = 0;              ///< end of set-up of the youngest box
    uint32_t slotsLeft = 0;      ///< of this cycle
    Cycle issueFree = 0;
    struct Move {
      DmaSegment segment;
      uint64_t burst = 0; ///< number, if not a leading fill
      bool leading = false;
      Cycle notBefore = 0;
    };
    std::deque<Move> moves;
    uint64_t cut = 0, requested = 0, freed = 0;
    std::vector<Cycle> returned;
    std::deque<Cycle> retirements; ///< due cycles of boxes that have ended
    uint32_t inFlight = 0;
    bool requestedNow = false;
  };
  struct Store {
    std::deque<DmaSegment> segments;
    Cycle from = 0, issueFree = 0;
    uint64_t gathered = 0, accepted = 0;
    uint64_t acceptedBefore = 0; ///< in earlier cycles
    std::deque<std::pair<uint64_t, Cycle>> offers;
    std::deque<Cycle> retirements;
    uint32_t inFlight = 0;
  };
  struct Write {
    uint64_t address = 0, number = 0;
    Cycle accepted = 0, done = ~0ull;
    bool requested = false;
  };

  void pass(Load &load);
  bool wants(unsigned requester, const std::vector<uint64_t> &fetch) const;
  uint64_t nextAddress(unsigned requester, const std::vector<uint64_t> &fetch) const;
  unsigned channelOf(uint64_t address) const { return unsigned(address / machine.dram.burstBytes % machine.dram.channels); }

  timing::MachineParams machine;
  std::function<Cycle(const DmaRequest &, Cycle)> completion;
  Cycle now = 0;
  std::vector<Load> loads;
  std::vector<Store> stores;
  std::deque<Write> buffer;
  uint64_t writeCount = 0;
  size_t fetched = 0; ///< in this cycle
  bool draining = false;
  std::vector<Cycle> reads; ///< completions of reads that may be on their way
  int holder = -1;
  uint32_t held = 0;
};

} // namespace tw::test

#endif // TESTS_RTL_DMA_DMAREFERENCE_H
