//===- Track.cpp - From raw intervals to one label per cycle --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/Track.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <tuple>

namespace tw::stats {

void Track::clear() {
  for (std::vector<Interval> &list : lists)
    list.clear();
  lastFed = 0;
}

void Track::busy(List list, Cycle begin, Cycle end, uint32_t layer) {
  std::vector<Interval> &intervals = lists[list];
  if (!intervals.empty() && intervals.back().layer == layer && intervals.back().end >= begin) {
    intervals.back().end = std::max(intervals.back().end, end);
    return;
  }
  // A width above 1 lets two bursts share a cycle; the earlier one keeps it.
  if (!intervals.empty())
    begin = std::max(begin, intervals.back().end);
  add(list, {begin, end, Label::Busy, 0, kNoEngine, layer});
}

void Track::dramWait(Cycle begin, Cycle end, unsigned channel, uint32_t layer) {
  add(DramWait, {begin, end, Label::DramLatency, static_cast<uint16_t>(channel), kNoEngine, layer});
}

void Track::full(Cycle begin, Cycle end, unsigned queueOf, uint32_t layer) {
  add(Full, {begin, end, Label::BufferFull, static_cast<uint16_t>(queueOf), kNoEngine, layer});
}

void addBusInterval(std::vector<BusInterval> &channel, Cycle begin, Cycle end) {
  if (begin >= end)
    return;
  if (!channel.empty() && channel.back().end >= begin) {
    channel.back().end = std::max(channel.back().end, end);
    return;
  }
  channel.push_back({begin, end});
}

namespace {

/// `base` and what of `lower` it leaves free, in order.
std::vector<Interval> paintUnder(const std::vector<Interval> &base, const std::vector<Interval> &lower) {
  if (lower.empty())
    return base;
  std::vector<Interval> result;
  result.reserve(base.size() + lower.size() + 16);
  size_t next = 0;
  for (Interval interval : lower) {
    while (interval.begin < interval.end) {
      while (next < base.size() && base[next].end <= interval.begin)
        result.push_back(base[next++]);
      if (next == base.size() || base[next].begin >= interval.end) {
        result.push_back(interval);
        break;
      }
      if (base[next].begin > interval.begin) {
        Interval piece = interval;
        piece.end = base[next].begin;
        result.push_back(piece);
      }
      interval.begin = base[next].end;
    }
  }
  result.insert(result.end(), base.begin() + static_cast<ptrdiff_t>(next), base.end());
  return result;
}

/// Splits waits for DRAM by whether the channel's bus moves something.
class BusCursor {
public:
  explicit BusCursor(const std::vector<std::vector<BusInterval>> &channels) : channels(channels), at(channels.size(), 0) {}
  template <typename Emit> void split(Interval wait, Emit emit) {
    if (wait.detail >= channels.size()) {
      emit(wait);
      return;
    }
    const std::vector<BusInterval> &bus = channels[wait.detail];
    size_t &next = at[wait.detail];
    while (wait.begin < wait.end) {
      while (next < bus.size() && bus[next].end <= wait.begin)
        ++next;
      Interval piece = wait;
      if (next == bus.size() || bus[next].begin >= wait.end) {
        piece.label = Label::DramLatency;
      } else if (bus[next].begin > wait.begin) {
        piece.label = Label::DramLatency;
        piece.end = bus[next].begin;
      } else {
        piece.label = Label::DramBandwidth;
        piece.end = std::min(wait.end, bus[next].end);
      }
      wait.begin = piece.end;
      emit(piece);
    }
  }

private:
  const std::vector<std::vector<BusInterval>> &channels;
  std::vector<size_t> at;
};

} // namespace

EngineResult resolve(const Track &track, unsigned engine, Cycle total, const std::vector<std::vector<BusInterval>> &channels,
                     bool keep, std::vector<LayerResult> &layers) {
  EngineResult result;
  result.engine = engine;
  result.name = engineName(engine);

  std::vector<Interval> painted = track.lists[Track::Issue];
  for (unsigned list = Track::Move; list < Track::NumLists; ++list)
    painted = paintUnder(painted, track.lists[list]);

  std::map<std::tuple<Label, uint16_t, uint16_t>, Cycle> causes;
  auto emit = [&](Interval interval) {
    interval.end = std::min(interval.end, total);
    if (interval.begin >= interval.end)
      return;
    const Cycle cycles = interval.end - interval.begin;
    result.cycles[static_cast<unsigned>(interval.label)] += cycles;
    if (interval.layer < layers.size())
      layers[interval.layer].labels[engine][static_cast<unsigned>(interval.label)] += cycles;
    if (interval.label == Label::Operand || interval.label == Label::Interlock || interval.label == Label::BankConflict ||
        interval.label == Label::BufferFull)
      causes[{interval.label, interval.detail, interval.producer}] += cycles;
    if (keep)
      result.intervals.push_back(interval);
  };
  auto emitGap = [&](Cycle begin, Cycle end) {
    emit({begin, std::min(end, std::max(begin, track.lastFed)), Label::Starved});
    emit({std::max(begin, std::min(end, track.lastFed)), end, Label::Idle});
  };
  BusCursor bus(channels);
  Cycle cursor = 0;
  for (const Interval &interval : painted) {
    emitGap(cursor, std::min(interval.begin, total));
    assert(interval.begin >= cursor && "labels overlap");
    if (interval.label == Label::DramLatency)
      bus.split(interval, emit);
    else
      emit(interval);
    cursor = interval.end;
  }
  emitGap(cursor, total);

  Cycle sum = 0;
  for (Cycle cycles : result.cycles)
    sum += cycles;
  assert(sum == total && "every cycle of an engine has exactly one label");
  (void)sum;
  for (const auto &[key, cycles] : causes)
    result.causes.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), cycles});
  std::stable_sort(result.causes.begin(), result.causes.end(),
                   [](const StallCause &a, const StallCause &b) { return a.cycles > b.cycles; });
  return result;
}

} // namespace tw::stats
