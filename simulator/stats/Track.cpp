//===- Track.cpp - From raw intervals to one label per cycle --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/Track.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <map>
#include <tuple>

namespace tw::stats {

static bool isSameKind(const Interval &a, const Interval &b) {
  return a.layer == b.layer && a.detail == b.detail && a.label == b.label && a.producer == b.producer;
}

/// Kinds repeat, mostly the last few; one that is kept twice costs nothing but its place.
uint32_t IntervalList::kindOf(const Interval &interval) {
  constexpr size_t kRecent = 16;
  for (size_t i = kinds.size(), last = i > kRecent ? i - kRecent : 0; i-- > last;)
    if (isSameKind(kinds[i], interval))
      return static_cast<uint32_t>(i);
  kinds.push_back(interval);
  return static_cast<uint32_t>(kinds.size() - 1);
}

void IntervalList::push_back(const Interval &interval) {
  const bool repeats = !chunks.empty() && isSameKind(kinds[chunks.back().back().kind], interval);
  const uint32_t kind = repeats ? chunks.back().back().kind : kindOf(interval);
  for (Cycle begin = interval.begin, end; begin < interval.end; begin = end) {
    end = std::min(interval.end, begin + kMaxLength);
    if (chunks.empty() || chunks.back().size() == kChunk) {
      chunks.emplace_back();
      chunks.back().reserve(kChunk);
    }
    chunks.back().push_back({begin, static_cast<uint32_t>(end - begin), kind});
  }
}

void IntervalList::extend(Cycle end) {
  Packed &last = chunks.back().back();
  if (end - last.begin <= kMaxLength) {
    last.length = static_cast<uint32_t>(end - last.begin);
    return;
  }
  Interval rest = back();
  rest.begin = rest.end;
  rest.end = end;
  push_back(rest);
}

void Track::clear() {
  for (IntervalList &list : lists)
    list.clear();
  lastFed = 0;
}

void Track::busy(List list, Cycle begin, Cycle end, uint32_t layer) {
  IntervalList &intervals = lists[list];
  if (!intervals.empty()) {
    const Interval last = intervals.back();
    if (last.layer == layer && last.end >= begin) {
      if (end > last.end)
        intervals.extend(end);
      return;
    }
    // A width above 1 lets two bursts share a cycle; the earlier one keeps it.
    begin = std::max(begin, last.end);
  }
  add(list, {begin, end, Label::Busy, 0, kNoEngine, layer});
}

void Track::dramWait(Cycle begin, Cycle end, unsigned channel, uint32_t layer) {
  // Streaming: between two waits the burst moves, and that label goes first anyway.
  IntervalList &waits = lists[DramWait];
  const IntervalList &moves = lists[Move];
  if (begin < end && !waits.empty() && !moves.empty()) {
    const Interval last = waits.back(), move = moves.back();
    if (last.detail == channel && last.layer == layer && move.begin <= last.end && move.end >= begin) {
      waits.extend(end);
      return;
    }
  }
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

constexpr Cycle kForever = std::numeric_limits<Cycle>::max();

/// Visits the intervals of all lists in order, of each what the lists before its own leave free.
template <typename Visit> void forEachVisible(const std::array<IntervalList, Track::NumLists> &lists, Visit visit) {
  struct Next {
    IntervalList::Cursor cursor;
    Cycle begin = kForever, end = kForever;
    explicit Next(const IntervalList &list) : cursor(list) { look(); }
    void look() {
      if (!cursor.valid()) {
        begin = end = kForever;
        return;
      }
      const Interval interval = cursor.get();
      begin = interval.begin;
      end = interval.end;
    }
  };
  std::vector<Next> next; // lists with nothing in them cost nothing
  for (const IntervalList &list : lists)
    if (!list.empty())
      next.emplace_back(list);
  for (Cycle at = 0;;) {
    // The first list that has this cycle, up to where one before it has one; or on to the next interval.
    Cycle end = kForever;
    const Next *visible = nullptr;
    for (Next &candidate : next) {
      while (candidate.end <= at) {
        candidate.cursor.next();
        candidate.look();
      }
      if (candidate.begin <= at) {
        visible = &candidate;
        end = std::min(end, candidate.end);
        break;
      }
      end = std::min(end, candidate.begin);
    }
    if (end == kForever)
      return;
    if (visible) {
      Interval piece = visible->cursor.get();
      piece.begin = at;
      piece.end = end;
      visit(piece);
    }
    at = end;
  }
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

  using Cause = std::tuple<Label, uint16_t, uint16_t>;
  std::map<Cause, Cycle> causes;
  std::pair<const Cause, Cycle> *recent = nullptr; // causes repeat
  std::array<Cycle, kNumLabels> noLayer{}, *labels = &noLayer; // layers repeat as well
  uint32_t layer = kNoLayer;
  auto emit = [&](Interval interval) __attribute__((always_inline)) {
    interval.end = std::min(interval.end, total);
    if (interval.begin >= interval.end)
      return;
    const Cycle cycles = interval.end - interval.begin;
    result.cycles[static_cast<unsigned>(interval.label)] += cycles;
    if (interval.layer != layer) {
      layer = interval.layer;
      labels = layer < layers.size() ? &layers[layer].labels[engine] : &noLayer;
    }
    (*labels)[static_cast<unsigned>(interval.label)] += cycles;
    if (interval.label == Label::Operand || interval.label == Label::Interlock || interval.label == Label::BankConflict ||
        interval.label == Label::BufferFull) {
      const Cause cause{interval.label, interval.detail, interval.producer};
      if (!recent || recent->first != cause)
        recent = &*causes.emplace(cause, 0).first;
      recent->second += cycles;
    }
    if (keep)
      result.intervals.push_back(interval);
  };
  auto emitGap = [&](Cycle begin, Cycle end) {
    if (begin >= end)
      return;
    emit({begin, std::min(end, std::max(begin, track.lastFed)), Label::Starved});
    emit({std::max(begin, std::min(end, track.lastFed)), end, Label::Idle});
  };
  BusCursor bus(channels);
  Cycle cursor = 0;
  forEachVisible(track.lists, [&](const Interval &interval) {
    emitGap(cursor, std::min(interval.begin, total));
    assert(interval.begin >= cursor && "labels overlap");
    if (interval.label == Label::DramLatency)
      bus.split(interval, emit);
    else
      emit(interval);
    cursor = interval.end;
  });
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
