//===- TileKnobsTest.cpp - The choices of one tile --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/plan/TileKnobs.h"
#include "tests/unit/plan/RandomPlan.h"

#include <gtest/gtest.h>

using namespace tw::plan;

namespace {
constexpr unsigned kRandomPlans = 200;
} // namespace

TEST(TileKnobsTest, OpenKnobsAllowEveryValueAndChangeNone) {
  const KernelPlan open;
  TileKnobs tile;
  for (TileKnob knob : kTileKnobs) {
    EXPECT_FALSE(TileKnobs::isSet(knob, open));
    EXPECT_TRUE(tile.meets(knob, open));
    tile.take(knob, open);
  }
  EXPECT_EQ(tile, TileKnobs());
}

TEST(TileKnobsTest, ATileMeetsAPlanExactlyIfTakingItsKnobsChangesNothing) {
  Random random(1);
  for (unsigned i = 0; i < kRandomPlans; ++i) {
    const KernelPlan plan = randomPlan<KernelPlan>(random);
    for (TileKnob knob : kTileKnobs) {
      TileKnobs before, after;
      before.take(knob, randomPlan<KernelPlan>(random));
      after = before;
      after.take(knob, plan);
      EXPECT_TRUE(after.meets(knob, plan));
      EXPECT_EQ(before.meets(knob, plan), before == after);
      EXPECT_EQ(before.agreesOn(knob, after), before == after);
    }
  }
}

TEST(TileKnobsTest, TheKnobsOfATileComeBackFromItsPlan) {
  Random random(2);
  for (unsigned i = 0; i < kRandomPlans; ++i) {
    const KernelPlan plan = randomPlan<KernelPlan>(random);
    TileKnobs tile, again;
    KernelPlan written, copied;
    for (TileKnob knob : kTileKnobs) {
      tile.take(knob, plan);
      tile.copyTo(written, knob);
      again.take(knob, written);
      TileKnobs::copy(knob, written, copied);
    }
    EXPECT_EQ(tile, again);
    EXPECT_EQ(written, copied);
  }
}

TEST(TileKnobsTest, FlagsNumbersAndChoicesAreSetByNumber) {
  TileKnobs tile;
  tile.set(TileKnob::Serpentine, 1);
  tile.set(TileKnob::LineBuffer, 4);
  tile.set(TileKnob::Stationary, int64_t(Stationary::Double));
  EXPECT_TRUE(tile.serpentine);
  EXPECT_EQ(tile.lineBuffer, 4);
  EXPECT_EQ(tile.stationary, Stationary::Double);
}
