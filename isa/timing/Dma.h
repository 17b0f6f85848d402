//===- Dma.h - The burst recurrence of loads and stores ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a box is cut into DRAM bursts, and when each burst is requested, arrives
// and has moved. One implementation for the SystemC model, the RTL harness and
// the compiler's cost model. docs/timing.md, section "DMA", states the rules.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DMA_H
#define ISA_TIMING_DMA_H

#include "isa/IsaStructs.h"  // generated from isa/Isa.td
#include "isa/timing/Dram.h" // kNever

#include <array>
#include <cstdint>
#include <vector>

namespace tw::timing {

/// The DRAM side of a load or store instruction: what decides its bursts and segments.
struct Box {
  uint64_t dramAddress = 0; ///< of the first element that lies in DRAM
  uint32_t elementBytes = 1;
  bool broadcast = false; ///< the innermost dimension repeats one DRAM element
  std::array<uint32_t, 5> counts{1, 1, 1, 1, 1};
  std::array<uint32_t, 5> low{}, high{}; ///< filled indices; always 0 for a store
  std::array<int64_t, 4> dramStrides{};
};

/// The box of a resolved instruction.
Box boxOf(const isa::Load &load);
Box boxOf(const isa::Store &store);

/// One DRAM access of a box, and the scratchpad segments that belong to it: the pieces of runs that lie in it, plus (loads) the
/// fill pieces between it and the next burst.
struct BoxBurst {
  uint64_t address = 0; ///< a multiple of the burst size
  uint32_t segments = 0;
};

/// Cuts a box into its bursts, in order. A piece in the burst requested last needs no new burst.
class BurstCutter {
public:
  BurstCutter() = default;
  /// `burstBytes` is a power of two.
  BurstCutter(const Box &box, uint32_t burstBytes);
  /// Fill pieces in front of the first burst; all of them if the box has no burst.
  uint64_t leadingFills() const { return fillsInFront; }
  /// True when next() has nothing more to give.
  bool done() const { return !hasBurst; }
  /// Address of the burst that next() will give. Precondition: !done().
  uint64_t address() const { return burst.address; }
  /// Takes the next burst. Precondition: !done().
  BoxBurst next();

private:
  bool enterRun();
  bool nextRun();
  uint32_t pieces(uint64_t bytes) const { return static_cast<uint32_t>((bytes + burstBytes - 1) / burstBytes); }

  Box box;
  uint64_t burstBytes = 64;
  std::array<uint32_t, 5> index{};
  uint64_t runNext = 0, runEnd = 0; ///< DRAM bytes of the current run that are not cut yet
  uint32_t fillsPerRun = 0, fillsBefore = 0, fillsAfter = 0, broadcastPieces = 0;
  uint32_t pendingFillsAfter = 0;
  uint64_t fillsInFront = 0;
  BoxBurst burst;
  bool hasBurst = false;
};

/// What a box costs, whatever the DRAM.
struct BoxCost {
  uint64_t bursts = 0;
  uint64_t segments = 0; ///< leading fills included
};
BoxCost costOf(const Box &box, uint32_t burstBytes);

/// Requests, arrivals and scratchpad writes of one load engine, across boxes. Bursts are numbered from 0 and never restart.
///   walk:     the request side passes `width` segments per cycle, in order, from the first cycle of the box on; it stands
///             on the first piece of a burst until that burst is requested, and passes it in that cycle
///   request:  S_i >= W_{i-N} + 1, granted by the DRAM port
///   arrival:  R_i = max(DRAM(S_i), R_{i-1})
///   write:    segments move from R_i + 1 on, `width` per cycle, in order; W_i is the cycle of the last one
class LoadRecurrence {
public:
  /// `outstanding`: N, bursts requested and not yet written. `width`: segments per cycle.
  void reset(uint32_t outstanding, uint32_t width);
  /// First cycle in which the buffer has room for the next burst; kNever while W_{i-N} is not known.
  Cycle creditAt() const {
    return requestCount < outstanding                   ? 0
           : arrivalCount + outstanding <= requestCount ? kNever
                                                        : written[(requestCount - outstanding) & mask] + 1;
  }
  /// The walk of a box begins, not before `from`, and passes its leading fills.
  void begin(Cycle from, uint64_t leadingFills) {
    walk = walk > from * width ? walk : from * width;
    walk += leadingFills;
  }
  /// First cycle in which the next burst of the box is asked for: its credit is there, and the walk stands on its first
  /// piece. kNever while the credit is not known.
  Cycle requestAt() const {
    const Cycle credit = creditAt();
    const Cycle standsAt = byWidth.floor(walk);
    return credit > standsAt ? credit : standsAt;
  }
  /// The next burst, of `segments` segments, is requested in `cycle` >= requestAt().
  void request(Cycle cycle, uint32_t segments) {
    segmentsOf[requestCount++ & mask] = segments;
    walk = (walk > cycle * width ? walk : cycle * width) + segments;
  }
  /// First cycle after the walk has passed everything it knows of.
  Cycle walkedUpTo() const { return byWidth.floor(walk + width - 1); }
  /// Fill pieces written ahead of the next arrival, not before `from`. Returns the cycle of the last one (of the last
  /// write before if there are none) and sets lastBegin to the first.
  Cycle fill(Cycle from, uint64_t pieces);
  /// The oldest burst on the way has arrived from DRAM. Returns W_i.
  Cycle arrive(Cycle completion);
  uint64_t requested() const { return requestCount; }
  uint64_t arrived() const { return arrivalCount; }
  Cycle lastArrival() const { return arrival; }
  /// First cycle in which the segments of the last fill() or arrive() moved.
  Cycle lastBegin() const { return firstMove; }
  /// Cycle of the last write so far plus one.
  Cycle writtenUpTo() const { return byWidth.floor(slot + width - 1); }

private:
  uint64_t outstanding = 1, width = 1;
  uint64_t mask = 0; ///< of a burst's number: its place in the rings, which hold a power of two of at least N
  Divider byWidth{1};
  uint64_t requestCount = 0, arrivalCount = 0;
  uint64_t slot = 0; ///< next free write slot: cycle * width + index within the cycle
  uint64_t walk = 0; ///< the same of the request side
  Cycle arrival = 0, firstMove = 0;
  std::vector<Cycle> written;       ///< W_i of the last N bursts at least
  std::vector<uint32_t> segmentsOf; ///< of the last N requested bursts at least
};

/// Gathering and posting of one store engine, across boxes.
///   gather:  segments move `width` per cycle, in order; burst i after burst i-N is accepted; G_i: cycle of the last one
///   accept:  A_i >= G_i + 1, when the write buffer takes it
class StoreRecurrence {
public:
  void reset(uint32_t outstanding, uint32_t width);
  /// Gathers the next burst, not before `from`. Returns G_i. Precondition: all bursts before it are accepted or fewer
  /// than N wait.
  Cycle gather(Cycle from, uint32_t segments);
  void accept(Cycle cycle) { accepted[acceptCount++ % outstanding] = cycle; }
  Cycle lastBegin() const { return begin; }

private:
  uint64_t outstanding = 1, width = 1;
  uint64_t gatherCount = 0, acceptCount = 0;
  uint64_t slot = 0;
  Cycle begin = 0;
  std::vector<Cycle> accepted;
};

} // namespace tw::timing

#endif // ISA_TIMING_DMA_H
