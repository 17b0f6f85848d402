//===- PlacementTest.cpp - Tensors with lifetimes share memory safely ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/memory/Placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace tw::memory;

namespace {

TEST(PlacementTest, TensorsThatAreNeverAliveTogetherShareAddresses) {
  std::vector<LiveRange> ranges = {{100, 0, 1, 0}, {100, 2, 3, 0}};
  EXPECT_EQ(place(ranges, 64), 128u);
  EXPECT_EQ(ranges[0].address, ranges[1].address);
}

TEST(PlacementTest, ASmallTensorFillsAGapLeftByLargerOnes) {
  // 300 and 200 bytes meet at step 1; the 64-byte tensor lives only with the 200-byte one, below it.
  std::vector<LiveRange> ranges = {{300, 0, 1, 0}, {200, 1, 2, 0}, {64, 2, 2, 0}};
  place(ranges, 64);
  EXPECT_EQ(ranges[0].address, 0u);
  EXPECT_EQ(ranges[1].address, 320u);
  EXPECT_EQ(ranges[2].address, 0u);
}

TEST(PlacementTest, RandomRangesNeverOverlapWhileAlive) {
  unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    std::vector<LiveRange> ranges;
    for (int i = 0; i < 30; ++i) {
      unsigned begin = random() % 20;
      ranges.push_back({1 + random() % 1000, begin, begin + unsigned(random() % 5), 0});
    }
    uint64_t used = place(ranges, 64);
    for (size_t i = 0; i < ranges.size(); ++i) {
      EXPECT_EQ(ranges[i].address % 64, 0u);
      EXPECT_LE(ranges[i].address + ranges[i].bytes, used);
      for (size_t j = 0; j < i; ++j) {
        bool together = ranges[i].begin <= ranges[j].end && ranges[j].begin <= ranges[i].end;
        bool overlap =
            ranges[i].address < ranges[j].address + ranges[j].bytes && ranges[j].address < ranges[i].address + ranges[i].bytes;
        EXPECT_FALSE(together && overlap) << "seed " << seed;
      }
    }
  }
}

TEST(PlacementTest, RangesThatComeOneByOneGetThePlacesOfAllAtOnce) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 100; ++round) {
    GrowingPlacement growing(64);
    std::vector<LiveRange> all;
    for (int i = 0; i < 30; ++i) {
      const unsigned begin = random() % 20;
      // Few sizes, so that some are equal.
      const LiveRange range{100 * (1 + random() % 5), begin, begin + unsigned(random() % 5), 0};
      std::vector<LiveRange> before = all;
      all.push_back(range);
      place(all, 64);
      const std::vector<size_t> moved = growing.add(range);
      for (size_t k = 0; k < all.size(); ++k) {
        EXPECT_EQ(growing[k].address, all[k].address) << "seed " << seed;
        const bool isNew = k + 1 == all.size() || all[k].address != before[k].address;
        EXPECT_EQ(std::count(moved.begin(), moved.end(), k), int(isNew)) << "seed " << seed;
      }
      uint64_t bytes = 0; // at the step where it begins
      for (const LiveRange &other : all)
        bytes += other.begin <= begin && begin <= other.end ? other.bytes : 0;
      EXPECT_EQ(growing.bytesAt(begin), bytes) << "seed " << seed;
      if (random() % 3)
        continue;
      growing.undo();
      all = before;
      for (size_t k = 0; k < all.size(); ++k)
        EXPECT_EQ(growing[k].address, all[k].address) << "seed " << seed;
    }
  }
}

} // namespace
