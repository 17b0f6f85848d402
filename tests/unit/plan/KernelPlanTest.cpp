//===- KernelPlanTest.cpp - Plans as values --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/plan/RandomPlan.h"

#include <gtest/gtest.h>
#include <set>

using namespace tw::plan;

namespace {

constexpr unsigned kRandomPlans = 200;

/// Plans of one knob each, with the knob's name.
std::vector<std::pair<std::string, KernelPlan>> plansOfOneKnob() {
  Random random(1);
  std::vector<std::pair<std::string, KernelPlan>> plans;
  KernelPlan::forEachKnob([&](const KnobInfo &info, auto member) {
    KernelPlan plan;
    any(info, plan.*member, random);
    plans.push_back({info.name, plan});
  });
  return plans;
}

} // namespace

TEST(KernelPlanTest, ANewPlanLeavesEveryKnobOpen) {
  const KernelPlan plan;
  KernelPlan::forEachKnob([&](const KnobInfo &info, auto member) { EXPECT_FALSE(isSet(plan.*member)) << info.name; });
  EXPECT_EQ(print(plan), "");
}

TEST(KernelPlanTest, EveryKnobTellsPlansApart) {
  for (const auto &[name, plan] : plansOfOneKnob()) {
    EXPECT_NE(plan, KernelPlan()) << name;
    EXPECT_EQ(print(plan).rfind(name + " = ", 0), 0u) << print(plan);
  }
}

TEST(KernelPlanTest, PlacesAreNoPartOfAPlan) {
  KernelPlan fromFile;
  fromFile.depth = 2;
  KernelPlan chosen = fromFile;
  fromFile.places = std::make_shared<const KnobPlaces>(KnobPlaces{{"depth", "mine.mlir:2:3"}});
  EXPECT_EQ(fromFile, chosen);
  EXPECT_EQ(print(fromFile), print(chosen));
}

TEST(KernelPlanTest, IsPrintedInTheOrderOfKnobsAsAPlanFileSpellsIt) {
  KernelPlan plan;
  plan.onChip = false;
  plan.lastSplit = Split{3, 17};
  plan.banks = Banks{4, 6};
  plan.stationary = Stationary::Double;
  plan.tile = {16, 8, 0, 1};
  plan.loopOrder = LoopOrder::KChannelsOuter;
  plan.tileK = 64;
  EXPECT_EQ(print(plan), "tile = [16, 8, 0, 1], tile_k = 64, loop_order = \"k_channels_outer\", last_split = [3, 17], "
                         "stationary = \"double\", banks = [4, 6], on_chip = false");
}

TEST(KernelPlanTest, PlansAreEqualExactlyIfTheirTextsAre) {
  Random random(2);
  std::vector<KernelPlan> plans;
  for (unsigned i = 0; i < kRandomPlans; ++i)
    plans.push_back(randomPlan<KernelPlan>(random));
  plans.push_back(plans.front());
  for (const KernelPlan &a : plans)
    for (const KernelPlan &b : plans)
      ASSERT_EQ(a == b, print(a) == print(b)) << print(a) << "\n" << print(b);
}

TEST(KernelPlanTest, TakesWhatTheOtherSetsAndKeepsTheRest) {
  Random random(3);
  for (unsigned i = 0; i < kRandomPlans; ++i) {
    const KernelPlan before = randomPlan<KernelPlan>(random), other = randomPlan<KernelPlan>(random);
    KernelPlan after = before;
    after.take(other);
    KernelPlan::forEachKnob([&](const KnobInfo &info, auto member) {
      EXPECT_TRUE(after.*member == (isSet(other.*member) ? other.*member : before.*member)) << info.name;
    });
  }
}

TEST(KernelPlanTest, NetworkKnobsStandInForOpenKnobs) {
  NetworkKnobs network = NetworkKnobs().withDefaults();
  network.serpentineContractions = true;
  KernelPlan own;
  own.sumLineBuffer = true;
  const KernelPlan plan = own.under(network);
  EXPECT_EQ(plan.serpentine, true);
  EXPECT_EQ(plan.sumLineBuffer, true);
  EXPECT_EQ(plan.maxLineBuffer, false);
  EXPECT_EQ(plan.bankExclusive, false);
  EXPECT_EQ(plan.depth, 0);
  network.sumLineBuffers = false;
  EXPECT_EQ(own.under(network), plan);
}

/// Sizes of tiles, places and results change with the plan of every kernel.
TEST(KernelPlanTest, KindsAreToldApartByOtherKnobsThanSizesAndPlaces) {
  const std::set<std::string> others = {
      "tile",     "tile_k",         "loop_order",     "first_split",        "last_split",        "pixel_packing",
      "banks",    "after_previous", "bank_exclusive", "spread_second_half", "channel_streaming", "on_chip",
      "row_tile", "on_chip_from",   "placed_first",   "first_loader"};
  for (const auto &[name, plan] : plansOfOneKnob())
    EXPECT_EQ(plan.kindKnobs() == plan, !others.count(name)) << name;
}

/// What a kernel without tiles, a change of layout, can have.
TEST(KernelPlanTest, KnobsOfTheResultAndOfTheEngineAreNoTileKnobs) {
  const std::set<std::string> others = {"on_chip", "row_tile", "on_chip_from", "placed_first", "engine", "array_channels"};
  EXPECT_FALSE(KernelPlan().hasTileKnobs());
  for (const auto &[name, plan] : plansOfOneKnob())
    EXPECT_EQ(plan.hasTileKnobs(), !others.count(name)) << name;
}

TEST(KernelPlanTest, APlaceIsThatOfTheFirstNamedKnobThatAFileSets) {
  KernelPlan plan;
  EXPECT_EQ(plan.placeOf({"depth"}), "");
  EXPECT_EQ(plan.place(), "");
  plan.places = std::make_shared<const KnobPlaces>(KnobPlaces{{"depth", "mine.mlir:2:3"}, {"on_chip", "mine.mlir:4:3"}});
  EXPECT_EQ(plan.placeOf({"row_tile", "on_chip", "depth"}), "mine.mlir:4:3: ");
  EXPECT_EQ(plan.placeOf({"engine"}), "");
  EXPECT_EQ(plan.place(), "mine.mlir:2:3: ");
}
