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

#include <algorithm>
#include <vector>

namespace tw::stats {

/// Millions of intervals in little memory: what they have in common (label, detail, producer, layer), their kind, is kept
/// once, and intervals of one kind and length in equal distances are one run.
class IntervalList {
  struct Run {
    Cycle begin;
    uint32_t length, kind;
    uint32_t period, count; ///< the period counts from two intervals on
  };

public:
  IntervalList() = default;
  IntervalList(const IntervalList &) = delete;
  IntervalList &operator=(const IntervalList &) = delete;

  bool empty() const { return !last; }
  const Interval &back() const { return latest; }
  void push_back(const Interval &interval) {
    if (last && last->count < kMax && interval.end - interval.begin == last->length && isSameKind(interval, latest)) {
      const Cycle period = interval.begin - latest.begin;
      if (last->count == 1 ? period <= kMax : period == last->period) {
        last->period = static_cast<uint32_t>(period);
        ++last->count;
        latest.begin = interval.begin;
        latest.end = interval.end;
        return;
      }
    }
    append(interval);
  }
  /// Lets the last interval end in `end`, not before it does.
  void extend(Cycle end) {
    if (last->count == 1 && end - latest.begin <= kMax) {
      last->length = static_cast<uint32_t>(end - latest.begin);
      latest.end = end;
    } else {
      lengthen(end);
    }
  }
  /// Kinds by number; their cycles do not count, and two may be the same.
  const std::vector<Interval> &allKinds() const { return kinds; }

  /// Visits the intervals in order.
  class Cursor {
  public:
    explicit Cursor(const IntervalList &list) : chunk(list.chunks.data()), lastChunk(chunk + list.chunks.size()) {
      if (chunk != lastChunk)
        run = chunk->data(), endOfChunk = run + chunk->size(), enter();
    }
    /// False after the last one.
    bool valid() const { return run; }
    Cycle begin() const { return at; }
    Cycle end() const { return at + run->length; }
    uint32_t kind() const { return run->kind; }
    /// So many more intervals follow, each `period` after the one before it.
    uint32_t left() const { return repeats; }
    uint32_t period() const { return run->period; }
    void next() { repeats ? skip(1) : nextRun(); }
    /// Precondition: `count` <= left().
    void skip(uint32_t count) {
      at += Cycle(count) * run->period;
      repeats -= count;
    }

  private:
    void enter() { at = run->begin, repeats = run->count - 1; }
    void nextRun() {
      if (++run == endOfChunk) {
        ++chunk;
        run = chunk == lastChunk ? nullptr : chunk->data();
        endOfChunk = run ? run + chunk->size() : nullptr;
      }
      if (run)
        enter();
    }

    const std::vector<Run> *chunk, *lastChunk;
    const Run *run = nullptr, *endOfChunk = nullptr;
    Cycle at = 0;
    uint32_t repeats = 0;
  };

private:
  static constexpr size_t kChunk = 1024;
  static constexpr Cycle kMax = ~0u;

  static bool isSameKind(const Interval &a, const Interval &b) {
    return a.layer == b.layer && a.detail == b.detail && a.label == b.label && a.producer == b.producer;
  }
  uint32_t kindOf(const Interval &interval);
  void append(const Interval &interval);
  void lengthen(Cycle end);

  std::vector<Interval> kinds;
  std::vector<std::vector<Run>> chunks; ///< of fixed capacity; none is empty
  Run *last = nullptr;
  Interval latest; ///< the last one of `last`
};

/// What one engine did. Each list is ascending and free of overlaps in itself; lists may overlap one another.
class Track {
public:
  /// The cycles of one list of intervals, in the order of their precedence.
  enum List : unsigned { Issue, Move, Stall, DramWait, Full, NumLists };

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
  friend EngineResult resolve(const Track &, unsigned, Cycle, const std::vector<std::vector<BusInterval>> &, bool, SimResult &);
  void busy(List list, Cycle begin, Cycle end, uint32_t layer) {
    IntervalList &intervals = lists[list];
    if (!intervals.empty()) {
      const Interval &last = intervals.back();
      if (last.end >= begin && last.layer == layer) {
        if (end > last.end)
          intervals.extend(end);
        return;
      }
      // A width above 1 lets two bursts share a cycle; the earlier one keeps it.
      begin = std::max(begin, last.end);
    }
    add(list, {begin, end, Label::Busy, 0, kNoEngine, layer});
  }
  void add(List list, const Interval &interval) {
    if (interval.begin < interval.end)
      lists[list].push_back(interval);
  }

  std::array<IntervalList, NumLists> lists;
  Cycle lastFed = 0;
};

/// Appends a bus transfer of a channel; transfers come in ascending order.
void addBusInterval(std::vector<BusInterval> &channel, Cycle begin, Cycle end);

/// Gives every cycle in [0, total) of `engine` its label. Adds the labelled cycles of each layer to the layers of `result`.
/// `keep`: keep the intervals too.
EngineResult resolve(const Track &track, unsigned engine, Cycle total, const std::vector<std::vector<BusInterval>> &channels,
                     bool keep, SimResult &result);

} // namespace tw::stats

#endif // SIMULATOR_STATS_TRACK_H
