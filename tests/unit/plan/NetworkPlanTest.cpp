//===- NetworkPlanTest.cpp - Knobs of a network, and whole plans ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/plan/RandomPlan.h"

#include <gtest/gtest.h>

using namespace tw::plan;

TEST(NetworkKnobsTest, DefaultsAreTheSimplestValues) {
  const NetworkKnobs knobs = NetworkKnobs().withDefaults();
  EXPECT_EQ(knobs.priority, Priority::ProgramOrder);
  EXPECT_EQ(knobs.bus, Bus::Shared);
  EXPECT_EQ(knobs.weightLoader, WeightLoader::Second);
  EXPECT_EQ(knobs.weightPrefetch, WeightPrefetch::Slots);
  EXPECT_EQ(knobs.resultPlaces, ResultPlaces::Own);
  EXPECT_EQ(knobs.residency, ResidencyRule::All);
  EXPECT_EQ(knobs.fusion, FusionRule::None);
  EXPECT_EQ(knobs.serpentineContractions, false);
}

TEST(NetworkKnobsTest, DefaultsFillOpenKnobsAndNoOthers) {
  Random random(1);
  for (unsigned i = 0; i < 100; ++i) {
    const NetworkKnobs some = randomPlan<NetworkKnobs>(random), all = some.withDefaults();
    NetworkKnobs::forEachKnob([&](const KnobInfo &info, auto member) {
      EXPECT_TRUE(isSet(all.*member)) << info.name;
      EXPECT_TRUE(!isSet(some.*member) || some.*member == all.*member) << info.name;
    });
    EXPECT_EQ(all.withDefaults(), all);
  }
}

TEST(ScheduleTest, EveryScheduleHasAName) {
  for (Schedule schedule : {Schedule::Serial, Schedule::DoubleBuffer, Schedule::Pipelined, Schedule::Search})
    EXPECT_EQ(scheduleNamed(nameOf(schedule)), schedule);
  EXPECT_EQ(scheduleNamed("fast"), std::nullopt);
}

TEST(NetworkPlanTest, PlansAreEqualExactlyIfTheirKeysAre) {
  NetworkPlan open;
  open.kernels.resize(2);
  NetworkPlan first = open, second = open, network = open;
  first.kernels[0].depth = second.kernels[1].depth = 2;
  network.network.bus = Bus::Alternating;
  NetworkPlan again = first;
  const std::vector<NetworkPlan> plans{open, first, second, network, again};
  for (const NetworkPlan &a : plans)
    for (const NetworkPlan &b : plans)
      EXPECT_EQ(a == b, keyOf(a) == keyOf(b)) << keyOf(a) << "\n" << keyOf(b);
  EXPECT_EQ(again, first);
  EXPECT_NE(first, second);
}
