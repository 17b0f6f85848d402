//===- CriticalPathTest.cpp - Which layers a run waits for ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/stats/CriticalPath.h"

#include <gtest/gtest.h>

using namespace tw::stats;

namespace {

/// "0:0-5 1:5-9": layer, first cycle, one past the last.
std::string text(const Path &path, Cycle total) {
  std::string text;
  for (const PathStep &step : path.steps(total))
    text += (text.empty() ? "" : " ") + std::to_string(step.layer) + ":" + std::to_string(step.begin) + "-" +
            std::to_string(step.end);
  return text;
}

} // namespace

TEST(PathTest, EveryCycleIsInOneStep) {
  const Path path = Path().then(0, 3).then(1, 5).then(1, 7).then(0, 9);
  EXPECT_EQ(text(path, 12), "0:0-5 1:5-9 0:9-12");
  EXPECT_EQ(text(Path(), 12), "");
}

TEST(PathTest, StepsWithoutCyclesAreNone) {
  EXPECT_EQ(text(Path().then(0, 0).then(1, 5).then(2, 5), 8), "0:0-5 2:5-8");
  EXPECT_EQ(text(Path().then(0, 0).then(1, 5).then(0, 5), 8), "0:0-8");
  EXPECT_EQ(text(Path().then(0, 0).then(1, 5), 5), "0:0-5");
  EXPECT_EQ(text(Path().then(0, 0).then(1, 0), 5), "1:0-5");
}

TEST(PathTest, PathsShareWhatTheyHaveInCommon) {
  const Path trunk = Path().then(0, 0).then(1, 10);
  const Path left = trunk.then(2, 20), right = trunk.then(3, 30);
  EXPECT_EQ(text(left, 40), "0:0-10 1:10-20 2:20-40");
  EXPECT_EQ(text(right, 40), "0:0-10 1:10-30 3:30-40");
}

// A path may be as long as its run.
TEST(PathTest, LongPathsAreFreed) {
  Path path;
  for (Cycle cycle = 0; cycle < 2'000'000; ++cycle)
    path = path.then(cycle % 2, cycle);
  EXPECT_EQ(path.steps(2'000'000).size(), 2'000'000u);
}

TEST(RetirementsTest, TheLastOneUpToACycleIsFound) {
  Retirements list;
  EXPECT_FALSE(list.upTo(100));
  for (Cycle cycle : {10, 20, 30})
    list.add(cycle, Path().then(uint32_t(cycle), 0));
  EXPECT_FALSE(list.upTo(9));
  EXPECT_EQ(list.upTo(20)->first, 20u);
  EXPECT_EQ(list.upTo(29)->first, 20u);
  list.forgetBefore(25);
  EXPECT_EQ(list.upTo(25)->first, 20u);
  EXPECT_FALSE(list.upTo(15));
  EXPECT_EQ(list.latest()->first, 30u);
}
