//===- Track.h - From raw intervals to one label per cycle ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model notes what each engine did in intervals while it runs; afterwards
// every cycle gets the first label that holds. Cost follows the number of
// intervals, never the number of cycles.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_STATS_TRACK_H
#define SIMULATOR_STATS_TRACK_H

#include "simulator/stats/SimResult.h"

#include <vector>

namespace tw::stats {

/// Millions of intervals: 16 bytes each, never copied to grow. What intervals have in common (label, detail, producer, layer) is
/// kept once.
class IntervalList {
  struct Packed {
    Cycle begin;
    uint32_t length, kind;
  };

public:
  bool empty() const { return chunks.empty(); }
  Interval back() const { return unpack(chunks.back().back()); }
  void push_back(const Interval &interval);
  /// Lets the last interval end in `end`, not before it does.
  void extend(Cycle end);
  void clear() { *this = IntervalList(); }

  /// Visits the intervals in order.
  class Cursor {
  public:
    explicit Cursor(const IntervalList &list)
        : list(&list), chunk(list.chunks.data()), lastChunk(chunk + list.chunks.size()) {
      if (chunk != lastChunk)
        at = chunk->data(), end = at + chunk->size();
    }
    /// False after the last one.
    bool valid() const { return at; }
    Interval get() const { return list->unpack(*at); }
    void next() {
      if (++at != end)
        return;
      ++chunk;
      at = chunk == lastChunk ? nullptr : chunk->data();
      end = at ? at + chunk->size() : nullptr;
    }

  private:
    const IntervalList *list;
    const std::vector<Packed> *chunk, *lastChunk;
    const Packed *at = nullptr, *end = nullptr;
  };

private:
  static constexpr size_t kChunk = 2048;
  static constexpr Cycle kMaxLength = ~0u;

  Interval unpack(const Packed &packed) const {
    Interval interval = kinds[packed.kind];
    interval.begin = packed.begin;
    interval.end = packed.begin + packed.length;
    return interval;
  }
  uint32_t kindOf(const Interval &interval);

  std::vector<Interval> kinds; ///< cycles do not count
  std::vector<std::vector<Packed>> chunks; ///< none is empty
};

/// What one engine did. Each list is ascending and free of overlaps in itself; lists may overlap one another.
class Track {
public:
  /// The cycles of one list of intervals, in the order of their precedence.
  enum List : unsigned { Issue, Move, Stall, DramWait, Full, NumLists };

  void clear();
  void issue(Cycle cycle, uint32_t layer) { busy(Issue, cycle, cycle + 1, layer); }
  void move(Cycle begin, Cycle end, uint32_t layer) { busy(Move, begin, end, layer); }
  /// Operand, interlock and bank-conflict cycles.
  void stall(const Interval &interval) { add(Stall, interval); }
  /// Waiting for a burst of `channel`; becomes DramBandwidth or DramLatency cycle by cycle. kNoChannel: always latency.
  void dramWait(Cycle begin, Cycle end, unsigned channel, uint32_t layer);
  void full(Cycle begin, Cycle end, unsigned queueOf, uint32_t layer);
  /// An instruction for this engine was in its queue at `cycle`: before that the engine is starved, after the last one idle.
  void fed(Cycle cycle) { lastFed = cycle; }

  static constexpr unsigned kNoChannel = 0xffff;

private:
  friend EngineResult resolve(const Track &, unsigned, Cycle, const std::vector<std::vector<BusInterval>> &, bool,
                              std::vector<LayerResult> &);
  void busy(List list, Cycle begin, Cycle end, uint32_t layer);
  void add(List list, const Interval &interval) {
    if (interval.begin < interval.end)
      lists[list].push_back(interval);
  }

  std::array<IntervalList, NumLists> lists;
  Cycle lastFed = 0;
};

/// Appends a bus transfer of a channel; transfers come in ascending order.
void addBusInterval(std::vector<BusInterval> &channel, Cycle begin, Cycle end);

/// Gives every cycle in [0, total) of `engine` its label. Adds the labelled cycles of each layer to `layers`.
/// `keep`: keep the intervals too.
EngineResult resolve(const Track &track, unsigned engine, Cycle total, const std::vector<std::vector<BusInterval>> &channels,
                     bool keep, std::vector<LayerResult> &layers);

} // namespace tw::stats

#endif // SIMULATOR_STATS_TRACK_H
