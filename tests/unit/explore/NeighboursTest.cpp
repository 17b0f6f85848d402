//===- NeighboursTest.cpp - Kernels that overlap with their neighbours ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/strategies/Neighbours.h"

#include "tests/unit/explore/ToyNetwork.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::explore;
using accel::C, accel::P0;

namespace {
/// A normalisation between two products.
class NeighboursTest : public ::testing::Test {
protected:
  void SetUp() override {
    network.addProduct(128, 256, 256);
    network.addNormalisation(128, 256);
    network.addProduct(128, 256, 512);
    plan.kernels.resize(3);
  }
  test::ToyNetwork network{"vdla_16x16"}; // with a scratchpad for weights
  plan::NetworkPlan plan{plan::NetworkKnobs().withDefaults(), {}};
};

TEST_F(NeighboursTest, ANormalisationCanBeginWithHalfAndSoCanTheProductBehindIt) {
  bool before = false, behind = false;
  for (const NeighbourOverlap &overlap : overlapsOf(network.problem, 1))
    if (const Halves *halves = std::get_if<Halves>(&overlap)) {
      before |= halves->withBefore;
      behind |= halves->withBehind;
    }
  EXPECT_TRUE(before && behind);
  EXPECT_TRUE(overlapsOf(network.problem, 0).empty()) << "a product keeps the array busy itself";
}

TEST_F(NeighboursTest, HalvesAreTilesOfTheProducts) {
  apply(Halves{true, true}, 1, network.problem, {}, plan);
  EXPECT_EQ(plan.kernels[0].tile[P0], 64);
  EXPECT_EQ(plan.kernels[2].tile[P0], 64);
  EXPECT_EQ(plan.kernels[1].tile[C], 256) << "whole rows";
  EXPECT_FALSE(plan.kernels[0].banks);
}

TEST_F(NeighboursTest, OwnBanksDoNotMeet) {
  apply(Halves{true, false, /*ownBanks=*/true}, 1, network.problem, {}, plan);
  ASSERT_TRUE(plan.kernels[0].banks && plan.kernels[1].banks);
  EXPECT_EQ((*plan.kernels[0].banks)[1], (*plan.kernels[1].banks)[0]);
  EXPECT_EQ((*plan.kernels[1].banks)[1], int64_t(network.params.scratchpads[0].banks));
  EXPECT_FALSE(plan.kernels[2].banks);
}

TEST_F(NeighboursTest, ASpilledHalfStaysOnChipFromTheMiddle) {
  apply(Halves{true, false, true, true, true}, 1, network.problem, {}, plan);
  EXPECT_EQ(plan.kernels[0].onChip, true);
  EXPECT_EQ(plan.kernels[0].onChipFrom, 64);
  EXPECT_EQ(plan.kernels[1].spreadSecondHalf, true);
}

TEST_F(NeighboursTest, SplitsFitTheBanksOfTheWeightScratchpad) {
  const llvm::SmallVector<int64_t> tiles = splitTilesOf(network.problem, 1, /*before=*/true);
  ASSERT_FALSE(tiles.empty());
  EXPECT_TRUE(std::is_sorted(tiles.rbegin(), tiles.rend()));
  apply(Splits{tiles.front(), 0}, 1, network.problem, {}, plan);
  const plan::KernelPlan &product = plan.kernels[0];
  ASSERT_TRUE(product.lastSplit);
  EXPECT_EQ(product.lastSplit->tiles, tiles.front());
  EXPECT_EQ(product.tile[P0], 128) << "split tiles hold all positions";
  EXPECT_LE(uint64_t(product.tile[C] * product.tileK), network.params.scratchpads.back().bankBytes());
}

TEST_F(NeighboursTest, WhatWasAskedForComesBack) {
  plan::KernelPlan asked;
  asked.depth = 3;
  const_cast<accel::Kernel *>(network.problem.layers[2].kernel)->plan = asked;
  plan.kernels[2] = asked;
  const plan::NetworkPlan before = plan;
  apply(Halves{true, true, true}, 1, network.problem, {}, plan);
  EXPECT_NE(plan, before);
  clearOverlap(1, network.problem, plan);
  EXPECT_EQ(plan, before);
}

TEST_F(NeighboursTest, AnAskedTileIsNoProductToHalve) {
  const_cast<accel::Kernel *>(network.problem.layers[0].kernel)->plan.tile[P0] = 32;
  for (const NeighbourOverlap &overlap : overlapsOf(network.problem, 1))
    if (const Halves *halves = std::get_if<Halves>(&overlap))
      EXPECT_FALSE(halves->withBefore);
}
} // namespace
