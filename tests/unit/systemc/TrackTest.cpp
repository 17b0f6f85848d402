//===- TrackTest.cpp - One label per cycle --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/stats/Track.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::stats;

namespace {

/// Labels of [0, total) as one letter per cycle.
std::string letters(const Track &track, Cycle total, const std::vector<std::vector<BusInterval>> &channels = {}) {
  SimResult run;
  const EngineResult result = resolve(track, kFirstLoad, total, channels, true, run);
  std::string text(total, '?');
  for (const Interval &interval : result.intervals)
    for (Cycle cycle = interval.begin; cycle < interval.end; ++cycle) {
      EXPECT_EQ(text[cycle], '?') << "two labels in cycle " << cycle;
      text[cycle] = "bOIKWLFs."[static_cast<unsigned>(interval.label)];
    }
  Cycle sum = 0;
  for (const Cycle cycles : result.cycles)
    sum += cycles;
  EXPECT_EQ(sum, total);
  return text;
}

TEST(TrackTest, NothingAtAllIsIdle) { EXPECT_EQ(letters(Track(), 5), "....."); }

TEST(TrackTest, BeforeTheLastInstructionTheEngineIsStarved) {
  Track track;
  track.fed(3);
  track.fed(6);
  track.move(4, 5, 0);
  EXPECT_EQ(letters(track, 9), "ssssbs...");
}

TEST(TrackTest, PrecedenceCutsWhatLiesBelow) {
  Track track;
  track.issue(2, 0);
  track.issue(5, 0);
  track.move(7, 9, 0);
  track.stall({3, 6, Label::Operand, 1});
  track.dramWait(0, 8, 0, 0);
  track.full(6, 12, 2, 0);
  track.fed(13);
  EXPECT_EQ(letters(track, 14), "LLbOObLbbFFFs.");
}

TEST(TrackTest, BusDecidesBetweenBandwidthAndLatency) {
  Track track;
  track.dramWait(1, 6, 0, 0);
  track.dramWait(7, 10, 1, 0);
  track.dramWait(11, 12, Track::kNoChannel, 0);
  EXPECT_EQ(letters(track, 13, {{{0, 2}, {4, 5}, {9, 20}}, {{8, 9}, {11, 12}}}), ".WLLWL.LWL.L.");
}

// More intervals than one chunk holds, of more kinds than are searched.
TEST(TrackTest, ManyIntervalsKeepTheirLabels) {
  constexpr Cycle kCount = 6000;
  Track track;
  for (Cycle i = 0; i < kCount; ++i)
    track.stall({2 * i, 2 * i + 1, i % 3 ? Label::Operand : Label::Interlock, uint16_t(i % 40), uint16_t(i % 5)});
  SimResult run;
  const EngineResult result = resolve(track, kTensor, 2 * kCount, {}, true, run);
  ASSERT_EQ(result.intervals.size(), 2 * kCount);
  for (Cycle i = 0; i < kCount; ++i) {
    const Interval &interval = result.intervals[2 * i];
    ASSERT_EQ(interval.begin, 2 * i);
    ASSERT_EQ(interval.end, 2 * i + 1);
    ASSERT_EQ(interval.label, i % 3 ? Label::Operand : Label::Interlock) << i;
    ASSERT_EQ(interval.detail, i % 40) << i;
    ASSERT_EQ(interval.producer, i % 5) << i;
  }
}

TEST(TrackTest, IntervalsMayBeLongerThan32Bits) {
  constexpr Cycle kLong = Cycle(3) << 32;
  Track track;
  track.move(10, 20, 0);
  track.move(20, kLong, 0); // goes on
  track.full(kLong, 2 * kLong, 2, 0);
  SimResult run;
  const EngineResult result = resolve(track, kFirstLoad, 3 * kLong, {}, false, run);
  EXPECT_EQ(result.cycles[static_cast<unsigned>(Label::Busy)], kLong - 10);
  EXPECT_EQ(result.cycles[static_cast<unsigned>(Label::BufferFull)], kLong);
}

TEST(TrackTest, CyclesAfterTheEndDoNotCount) {
  Track track;
  track.move(1, 10, 0);
  track.fed(20);
  EXPECT_EQ(letters(track, 4), "sbbb");
}

TEST(TrackTest, LayersGetTheirCycles) {
  Track track;
  track.move(0, 3, 0);
  track.move(3, 5, kNoLayer);
  SimResult run;
  run.layers.resize(1);
  resolve(track, kVector, 8, {}, false, run);
  EXPECT_EQ(run.layers[0].labels[kVector][0], 3u);
  EXPECT_EQ(run.noLayer.labels[kVector][0], 2u);
}

// Without the intervals, cycles that repeat are counted at once: the sums must be those of one by one.
TEST(TrackTest, RepetitionsCountAsOneByOne) {
  for (Cycle seed = 0; seed < 60; ++seed) {
    Track track;
    std::vector<std::vector<BusInterval>> channels(2);
    const Cycle period = 3 + seed % 4, width = 1 + seed % 3, waits = seed % 2 * 300 + 7 * seed, busy = 400 - 5 * seed;
    for (Cycle i = 0; i < 200; ++i) {
      track.issue(10 + period * i + (i > 120 ? seed % 5 : 0), i / 90);
      track.move(40 + seed + period * i, 40 + seed + period * i + width, i / 70);
    }
    track.stall({300, 303, Label::Operand, 4});
    track.dramWait(8, 8 + waits, 0, 0);
    if (seed % 3 == 0)
      track.dramWait(8 + waits, 900, 1, 1);
    track.full(700, 950, 2, 0);
    track.fed(500 + seed);
    addBusInterval(channels[0], 20, busy);
    addBusInterval(channels[1], busy + 30, 2 * busy);
    SimResult folded, single;
    folded.layers.resize(3);
    single.layers.resize(3);
    const EngineResult result = resolve(track, kFirstLoad, 1000, channels, false, folded);
    std::array<Cycle, kNumLabels> sums{};
    for (const Interval &interval : resolve(track, kFirstLoad, 1000, channels, true, single).intervals)
      sums[static_cast<unsigned>(interval.label)] += interval.end - interval.begin;
    ASSERT_EQ(result.cycles, sums) << "seed " << seed;
    for (size_t layer = 0; layer < single.layers.size(); ++layer)
      ASSERT_EQ(folded.layers[layer].labels, single.layers[layer].labels) << "seed " << seed;
  }
}

TEST(TrackTest, BusIntervalsMerge) {
  std::vector<BusInterval> bus;
  addBusInterval(bus, 2, 5);
  addBusInterval(bus, 5, 6);
  addBusInterval(bus, 4, 6);
  addBusInterval(bus, 9, 9);
  addBusInterval(bus, 8, 10);
  ASSERT_EQ(bus.size(), 2u);
  EXPECT_EQ(bus[0].end, 6u);
  EXPECT_EQ(bus[1].begin, 8u);
}

} // namespace
