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

#include <deque>

namespace tw::stats {

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

  std::array<std::deque<Interval>, NumLists> lists; ///< millions: never copied to grow
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
