//===- DmaTest.cpp - How boxes are cut, and the recurrences ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "isa/timing/Dma.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::timing;

namespace {

using Bursts = std::vector<std::pair<uint64_t, uint32_t>>;

Bursts cut(const Box &box, uint64_t *leading = nullptr) {
  Bursts bursts;
  BurstCutter cutter(box, 64);
  if (leading)
    *leading = cutter.leadingFills();
  while (!cutter.done()) {
    const uint64_t address = cutter.address();
    const BoxBurst burst = cutter.next();
    EXPECT_EQ(burst.address, address);
    bursts.push_back({burst.address, burst.segments});
  }
  return bursts;
}

TEST(BurstCutterTest, RunsEndAtBurstBoundaries) {
  Box box;
  box.dramAddress = 100;
  box.counts = {100, 1, 1, 1, 1};
  // Bytes 100-199: 28 in the burst at 64, 64 at 128, 8 at 192.
  EXPECT_EQ(cut(box), (Bursts{{64, 1}, {128, 1}, {192, 1}}));
}

TEST(BurstCutterTest, DenseShortRunsMergeIntoBursts) {
  Box box;
  box.counts = {24, 4, 1, 1, 1};
  box.dramStrides = {24};
  // Runs [0,24) [24,48) [48,72) [72,96): the third is cut at 64, its second piece shares the burst at 64 with the fourth.
  EXPECT_EQ(cut(box), (Bursts{{0, 3}, {64, 2}}));
}

TEST(BurstCutterTest, ABurstIsRequestedAgainIfAnotherCameBetween) {
  Box box;
  box.counts = {8, 2, 2, 1, 1};
  box.dramStrides = {64, 8};
  EXPECT_EQ(cut(box), (Bursts{{0, 1}, {64, 1}, {0, 1}, {64, 1}}));
}

TEST(BurstCutterTest, OuterDimensionWithStrideZeroRepeatsWithoutRequests) {
  Box box;
  box.counts = {8, 5, 1, 1, 1};
  EXPECT_EQ(cut(box), (Bursts{{0, 5}}));
}

TEST(BurstCutterTest, BroadcastReadsOneElementPerRun) {
  Box box;
  box.elementBytes = 4;
  box.broadcast = true;
  box.counts = {40, 2, 1, 1, 1}; // 160 bytes per run: 3 pieces
  box.dramStrides = {4};
  EXPECT_EQ(cut(box), (Bursts{{0, 6}}));
}

TEST(BurstCutterTest, FillsBelongToTheBurstBefore) {
  Box box;
  box.dramAddress = 64;
  box.counts = {70, 4, 1, 1, 1};
  box.low = {3, 1};
  box.high = {3, 1};
  box.dramStrides = {128};
  // Rows 0 and 3 are filled: 70 bytes, 2 pieces each. Rows 1 and 2: 3 bytes fill, 64 bytes of DRAM, 3 bytes fill.
  uint64_t leading = 0;
  EXPECT_EQ(cut(box, &leading), (Bursts{{64, 1 + 1 + 1}, {192, 1 + 1 + 2}}));
  EXPECT_EQ(leading, 2u + 1u);
  const BoxCost cost = costOf(box, 64);
  EXPECT_EQ(cost.bursts, 2u);
  EXPECT_EQ(cost.segments, 10u);
}

TEST(BurstCutterTest, BoxOfFillOnly) {
  Box inner, outer;
  inner.counts = {64, 3, 2, 1, 1};
  inner.low = {64};
  uint64_t leading = 0;
  EXPECT_TRUE(cut(inner, &leading).empty());
  EXPECT_EQ(leading, 6u);
  outer.counts = {65, 3, 1, 1, 1};
  outer.high = {0, 3};
  EXPECT_TRUE(cut(outer, &leading).empty());
  EXPECT_EQ(leading, 6u);
}

// Every byte of a box lies in exactly one run piece; bursts cover all of them and adjacent ones differ.
TEST(BurstCutterTest, CoversEveryByteOfManyBoxes) {
  uint32_t state = 12345;
  auto random = [&](uint32_t bound) {
    return (state = state * 1664525 + 1013904223) >> 16 & 0x7fff ? (state >> 8) % bound : 0;
  };
  for (int trial = 0; trial < 500; ++trial) {
    Box box;
    box.dramAddress = 4096 + random(200);
    for (unsigned d = 0; d < 5; ++d) {
      box.counts[d] = 1 + random(d ? 4 : 150);
      box.low[d] = random(2) ? random(box.counts[d]) : 0;
      box.high[d] = random(2) ? random(box.counts[d] - box.low[d] + 1) : 0;
    }
    for (unsigned d = 0; d < 4; ++d)
      box.dramStrides[d] = int64_t(random(300)) - 100;
    // The definition, one element at a time, as (kind of piece, burst) changes.
    std::vector<uint64_t> expected;
    uint64_t segments = 0;
    for (uint32_t i4 = 0; i4 < box.counts[4]; ++i4)
      for (uint32_t i3 = 0; i3 < box.counts[3]; ++i3)
        for (uint32_t i2 = 0; i2 < box.counts[2]; ++i2)
          for (uint32_t i1 = 0; i1 < box.counts[1]; ++i1) {
            uint64_t fillRun = 0, lastPiece = ~0ull;
            for (uint32_t i0 = 0; i0 < box.counts[0]; ++i0) {
              const std::array<uint32_t, 5> index{i0, i1, i2, i3, i4};
              bool valid = true;
              int64_t address = int64_t(box.dramAddress) + i0 - box.low[0];
              for (unsigned d = 0; d < 5; ++d) {
                valid &= index[d] >= box.low[d] && index[d] + box.high[d] < box.counts[d];
                if (d)
                  address += (int64_t(index[d]) - box.low[d]) * box.dramStrides[d - 1];
              }
              if (!valid) {
                segments += fillRun++ % 64 == 0;
                continue;
              }
              fillRun = 0;
              const uint64_t burst = uint64_t(address) / 64 * 64;
              segments += burst != lastPiece;
              lastPiece = burst;
              if (expected.empty() || expected.back() != burst)
                expected.push_back(burst);
            }
          }
    uint64_t leading = 0;
    const Bursts bursts = cut(box, &leading);
    uint64_t sum = leading;
    std::vector<uint64_t> addresses;
    for (const auto &[address, count] : bursts) {
      addresses.push_back(address);
      sum += count;
    }
    ASSERT_EQ(addresses, expected) << "trial " << trial;
    ASSERT_EQ(sum, segments) << "trial " << trial;
  }
}

// Width 1, N = 2: S0 and S1 free; R0 = 20 moves 2 segments in 21-22; S2 >= 23. R1 = 18 returns in order in 20, moves in 23.
TEST(LoadRecurrenceTest, InOrderReturnAndCredit) {
  LoadRecurrence load;
  load.reset(2, 1);
  EXPECT_EQ(load.creditAt(), 0u);
  load.request(3, 2);
  EXPECT_EQ(load.creditAt(), 0u);
  load.request(5, 1);
  EXPECT_EQ(load.creditAt(), kNever);
  EXPECT_EQ(load.requestAt(), kNever);
  EXPECT_EQ(load.arrive(20), 22u);
  EXPECT_EQ(load.lastBegin(), 21u);
  EXPECT_EQ(load.creditAt(), 23u);
  EXPECT_EQ(load.requestAt(), 23u);
  EXPECT_EQ(load.arrive(18), 23u);
  EXPECT_EQ(load.lastArrival(), 20u);
}

// However many bursts may be on the way, burst i waits for the last segment of burst i - N.
TEST(LoadRecurrenceTest, CreditOfAnyNumberOutstanding) {
  for (const uint32_t outstanding : {1u, 2u, 3u, 5u, 8u, 13u})
    for (const uint32_t width : {1u, 2u, 3u}) {
      LoadRecurrence load;
      load.reset(outstanding, width);
      std::vector<Cycle> written;
      for (uint64_t i = 0; i < 50; ++i) {
        EXPECT_EQ(load.creditAt(), i < outstanding ? 0 : written[i - outstanding] + 1) << outstanding << ", burst " << i;
        const Cycle cycle = load.requestAt();
        load.request(cycle, 1 + i % 4);
        written.push_back(load.arrive(cycle + 7 + i % 3));
      }
    }
}

// Width 2: three segments of a burst arriving in 10 move two in 11 and one in 12; the next burst's first shares cycle 12.
TEST(LoadRecurrenceTest, WidthTwoMovesTwoSegmentsPerCycle) {
  LoadRecurrence load;
  load.reset(4, 2);
  load.request(0, 3);
  load.request(1, 2);
  EXPECT_EQ(load.arrive(10), 12u);
  EXPECT_EQ(load.arrive(10), 13u);
  EXPECT_EQ(load.lastBegin(), 12u);
}

TEST(LoadRecurrenceTest, FillsFollowEarlierWrites) {
  LoadRecurrence load;
  load.reset(4, 1);
  load.request(0, 4);
  load.arrive(10); // moves 11-14
  EXPECT_EQ(load.fill(12, 3), 17u);
  EXPECT_EQ(load.lastBegin(), 15u);
}

// Width 1, first cycle 5. Two leading fills are passed in 5 and 6, so burst 0 is asked for from 7 on. Granted in 9, its
// three segments are passed in 9-11, and burst 1 is asked for from 12 on. Granted at once: its one segment is passed in 12.
TEST(LoadRecurrenceTest, TheWalkPassesOneSegmentPerCycle) {
  LoadRecurrence load;
  load.reset(16, 1);
  load.begin(5, 2);
  EXPECT_EQ(load.requestAt(), 7u);
  load.request(9, 3);
  EXPECT_EQ(load.requestAt(), 12u);
  load.request(12, 1);
  EXPECT_EQ(load.walkedUpTo(), 13u);
  // The next box begins in 20; the walk does not go back to 13.
  load.begin(20, 0);
  EXPECT_EQ(load.requestAt(), 20u);
}

// Width 2, first cycle 4: a fill and, in the same cycle, the first of three segments of burst 0; the others in 5. Burst 1
// is asked for from 6 on; granted in 6, its segment leaves one of the two slots of 6 to burst 2.
TEST(LoadRecurrenceTest, TheWalkPassesTwoSegmentsPerCycle) {
  LoadRecurrence load;
  load.reset(16, 2);
  load.begin(4, 1);
  EXPECT_EQ(load.requestAt(), 4u);
  load.request(4, 3);
  EXPECT_EQ(load.requestAt(), 6u);
  load.request(6, 1);
  EXPECT_EQ(load.requestAt(), 6u);
  EXPECT_EQ(load.walkedUpTo(), 7u);
  load.request(6, 1);
  EXPECT_EQ(load.requestAt(), 7u);
  EXPECT_EQ(load.walkedUpTo(), 7u);
}

// A box of fills only: five of them from 3 on, two per cycle, are passed in 3, 4 and 5.
TEST(LoadRecurrenceTest, TheWalkOfABoxWithoutBursts) {
  LoadRecurrence load;
  load.reset(16, 2);
  load.begin(3, 5);
  EXPECT_EQ(load.walkedUpTo(), 6u);
}

// N = 2 bursts may wait: the third is gathered when the first is accepted.
TEST(StoreRecurrenceTest, GathersAheadOfAcceptance) {
  StoreRecurrence store;
  store.reset(2, 1);
  EXPECT_EQ(store.gather(5, 2), 6u);
  EXPECT_EQ(store.gather(5, 1), 7u);
  store.accept(20);
  EXPECT_EQ(store.gather(5, 1), 21u);
  EXPECT_EQ(store.lastBegin(), 21u);
}

} // namespace
