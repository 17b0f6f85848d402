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

/// Kinds repeat, mostly the last few; one that is kept twice costs nothing but its place.
uint32_t IntervalList::kindOf(const Interval &interval) {
  constexpr size_t kRecent = 16;
  for (size_t i = kinds.size(), oldest = i > kRecent ? i - kRecent : 0; i-- > oldest;)
    if (isSameKind(kinds[i], interval))
      return static_cast<uint32_t>(i);
  kinds.push_back(interval);
  return static_cast<uint32_t>(kinds.size() - 1);
}

void IntervalList::append(const Interval &interval) {
  const uint32_t kind = last && isSameKind(interval, latest) ? last->kind : kindOf(interval);
  latest = interval;
  for (Cycle begin = interval.begin; begin < interval.end; begin = latest.end) {
    latest.begin = begin;
    latest.end = std::min(interval.end, begin + kMax);
    if (chunks.empty() || chunks.back().size() == kChunk) {
      chunks.emplace_back();
      chunks.back().reserve(kChunk);
    }
    chunks.back().push_back({begin, static_cast<uint32_t>(latest.end - begin), kind, 0, 1});
    last = &chunks.back().back();
  }
}

void IntervalList::lengthen(Cycle end) {
  Interval longer = latest;
  longer.end = end;
  if (last->count == 1)
    longer.begin = latest.end;
  else
    --last->count;
  append(longer);
}

void Track::dramWait(Cycle begin, Cycle end, unsigned channel, uint32_t layer) {
  // Streaming: between two waits the burst moves, and that label goes first anyway.
  IntervalList &waits = lists[DramWait];
  const IntervalList &moves = lists[Move];
  if (begin < end && !waits.empty() && !moves.empty()) {
    const Interval &last = waits.back(), &move = moves.back();
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

/// Follows the data buses.
class BusCursor {
public:
  explicit BusCursor(const std::vector<std::vector<BusInterval>> &channels) : channels(channels), at(channels.size(), 0) {}
  /// Whether the bus of `channel` is busy in `cycle`, and up to where that stays so. Cycles must ascend.
  std::pair<bool, Cycle> state(unsigned channel, Cycle cycle) {
    if (channel >= channels.size())
      return {false, kForever};
    const std::vector<BusInterval> &bus = channels[channel];
    size_t &next = at[channel];
    while (next < bus.size() && bus[next].end <= cycle)
      ++next;
    if (next == bus.size())
      return {false, kForever};
    return bus[next].begin <= cycle ? std::pair(true, bus[next].end) : std::pair(false, bus[next].begin);
  }

private:
  const std::vector<std::vector<BusInterval>> &channels;
  std::vector<size_t> at;
};

/// Visits the intervals of all lists in order, of each what the lists before its own leave free.
class Visible {
public:
  Visible(const std::array<IntervalList, Track::NumLists> &lists, Cycle lastFed, BusCursor &bus) : lastFed(lastFed), bus(bus) {
    // Lists with nothing in them cost nothing.
    for (unsigned list = 0; list < lists.size(); ++list)
      if (!lists[list].empty())
        next.emplace_back(lists[list], list);
  }

  /// Calls visit(list, kind, begin, end, times) up to cycle `total`; `list` is NumLists where none has anything. With
  /// `fold`, cycles that repeat in equal distances are visited once for all `times`.
  template <typename Visit> void forEach(Cycle total, bool fold, Visit visit) {
    constexpr unsigned kPatience = 8; // visits between two looks for a repetition
    Cycle period = 0, limit = total;
    uint64_t times = 1;
    unsigned visits = 0;
    for (Cycle at = 0; at < total;) {
      if (at == limit) {
        for (Next &candidate : next) {
          candidate.advance(at);
          if (candidate.repeats)
            candidate.skip(times - 1);
        }
        at += period * (times - 1);
        limit = total;
        times = 1;
        continue;
      }
      if (fold && times == 1 && ++visits == kPatience) {
        visits = 0;
        times = repetitions(at, total, period);
        limit = times > 1 ? at + period : total;
      }
      // The first list that has this cycle, up to where one before it has one; or on to the next interval.
      Cycle end = limit;
      const Next *visible = nullptr;
      for (Next &candidate : next) {
        candidate.advance(at);
        if (candidate.begin <= at) {
          visible = &candidate;
          end = std::min(end, candidate.end);
          break;
        }
        end = std::min(end, candidate.begin);
      }
      visit(visible ? visible->list : Track::NumLists, visible ? visible->cursor.kind() : 0, at, end, times);
      at = end;
    }
  }

private:
  struct Next {
    const IntervalList *intervals;
    IntervalList::Cursor cursor;
    unsigned list;
    bool repeats = false; ///< in the current repetition
    Cycle begin = kForever, end = kForever;
    Next(const IntervalList &intervals, unsigned list) : intervals(&intervals), cursor(intervals), list(list) { look(); }
    void look() {
      begin = cursor.valid() ? cursor.begin() : kForever;
      end = cursor.valid() ? cursor.end() : kForever;
    }
    void advance(Cycle at) {
      while (end <= at) {
        cursor.next();
        look();
      }
    }
    void skip(uint64_t count) {
      cursor.skip(static_cast<uint32_t>(count));
      look();
    }
  };

  /// How many times what lies in [at, at + period) comes one after the other; at least 1. Chooses the period.
  uint64_t repetitions(Cycle at, Cycle total, Cycle &period) {
    period = 0;
    for (Next &candidate : next) {
      candidate.advance(at);
      if (!period && candidate.begin != kForever && candidate.cursor.left())
        period = candidate.cursor.period();
    }
    if (!period)
      return 1;
    uint64_t times = (total - at) / period;
    auto constantUntil = [&](Cycle cycle) { times = std::min(times, (cycle - at) / period); };
    if (lastFed > at)
      constantUntil(lastFed);
    for (Next &candidate : next) {
      candidate.repeats = candidate.end <= at + period && candidate.cursor.left() && candidate.cursor.period() == period;
      if (candidate.repeats)
        times = std::min<uint64_t>(times, candidate.cursor.left());
      else
        constantUntil(candidate.begin <= at ? candidate.end : candidate.begin);
      if (candidate.list == Track::DramWait && candidate.begin < at + period)
        constantUntil(bus.state(candidate.intervals->allKinds()[candidate.cursor.kind()].detail, at).second);
    }
    return std::max<uint64_t>(times, 1);
  }

  std::vector<Next> next;
  const Cycle lastFed;
  BusCursor &bus;
};

bool hasCause(Label label) {
  return label == Label::Operand || label == Label::Interlock || label == Label::BankConflict || label == Label::BufferFull;
}

} // namespace

EngineResult resolve(const Track &track, unsigned engine, Cycle total, const std::vector<std::vector<BusInterval>> &channels,
                     bool keep, SimResult &run) {
  EngineResult result;
  result.engine = engine;
  result.name = engineName(engine);

  // Cycles by kind first: there are few kinds.
  struct Cycles {
    Cycle all = 0, bandwidth = 0;
  };
  std::array<std::vector<Cycles>, Track::NumLists> cycles;
  for (unsigned list = 0; list < cycles.size(); ++list)
    cycles[list].resize(track.lists[list].allKinds().size());
  auto keepPart = [&](Interval interval, Label label, Cycle begin, Cycle end) {
    interval.label = label;
    interval.begin = begin;
    interval.end = end;
    if (begin < end)
      result.intervals.push_back(interval);
  };
  BusCursor bus(channels);
  auto count = [&](unsigned list, uint32_t kind, Cycle begin, Cycle end, uint64_t times) {
    if (list == Track::NumLists) {
      const Cycle fed = std::max(begin, std::min(end, track.lastFed));
      result.cycles[static_cast<unsigned>(Label::Starved)] += (fed - begin) * times;
      result.cycles[static_cast<unsigned>(Label::Idle)] += (end - fed) * times;
      if (keep) {
        keepPart({}, Label::Starved, begin, fed);
        keepPart({}, Label::Idle, fed, end);
      }
      return;
    }
    Cycles &sum = cycles[list][kind];
    sum.all += (end - begin) * times;
    const Interval &common = track.lists[list].allKinds()[kind];
    if (list != Track::DramWait) {
      if (keep)
        keepPart(common, common.label, begin, end);
      return;
    }
    while (begin < end) {
      const auto [isBusy, change] = bus.state(common.detail, begin);
      const Cycle upTo = std::min(end, change);
      if (isBusy)
        sum.bandwidth += (upTo - begin) * times;
      if (keep)
        keepPart(common, isBusy ? Label::DramBandwidth : Label::DramLatency, begin, upTo);
      begin = upTo;
    }
  };
  Visible(track.lists, track.lastFed, bus).forEach(total, !keep, count);

  using Cause = std::tuple<Label, uint16_t, uint16_t>;
  std::map<Cause, Cycle> causes;
  auto add = [&](const Interval &kind, Label label, Cycle cycles) {
    result.cycles[static_cast<unsigned>(label)] += cycles;
    run.layer(kind.layer).labels[engine][static_cast<unsigned>(label)] += cycles;
    if (cycles && hasCause(label))
      causes[{label, kind.detail, kind.producer}] += cycles;
  };
  for (unsigned list = 0; list < cycles.size(); ++list)
    for (size_t i = 0; i < cycles[list].size(); ++i) {
      const Interval &kind = track.lists[list].allKinds()[i];
      add(kind, kind.label, cycles[list][i].all - cycles[list][i].bandwidth);
      add(kind, Label::DramBandwidth, cycles[list][i].bandwidth);
    }

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
