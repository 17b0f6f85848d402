//===- ReferenceTest.cpp - The best tiling --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace tw;
using namespace tw::cost;

namespace {

timing::MachineParams machineOf(uint32_t array, uint64_t activations, uint64_t weights, uint64_t accumulator) {
  timing::MachineParams machine;
  machine.rows = machine.cols = machine.lanes = array;
  machine.scratchpads = {{"activation", activations, 16}, {"weight", weights, 8}};
  machine.accumulator = {"accumulator", accumulator, 4};
  return machine;
}

Contraction matrixProduct(int64_t m, uint64_t n, uint64_t k) {
  Contraction c;
  c.axes[0].size = c.axes[0].inputSize = m;
  c.oc = n;
  c.ic = k;
  return c;
}

TEST(ReferenceTest, ALargeAccumulatorLoadsEverythingOnce) {
  EXPECT_EQ(referenceLoads(matrixProduct(64, 64, 64), machineOf(16, 1024, 1024, 64 * 64 * 4)), 2u * 64 * 64);
}

TEST(ReferenceTest, APanelIsLoadedOnceAndTheOtherOperandForEachTile) {
  // 4 x 4 tiles of 16 x 16 results. The inputs of 16 positions fit (1 KiB), the weights of 16 channels do not: inputs
  // once, weights 4 times but for what of them stays. 512 bytes beside the tile in use, of 4096: 1/8 of 3 loads saved.
  timing::MachineParams machine = machineOf(16, 1024, 256 + 512, 16 * 16 * 4);
  EXPECT_EQ(referenceLoads(matrixProduct(64, 64, 64), machine), 4096u + 4 * 4096 - 3 * 512);
}

TEST(ReferenceTest, RowsThatTwoTilesShareAreLoadedTwice) {
  // 8 x 8 positions of a 3x3 window, one block of channels; 32 accumulator rows: two tiles of 4 rows and halo, or the
  // whole input resident. Input 10 x 10 x 16 bytes.
  Contraction c;
  c.axes[0] = c.axes[1] = {8, 3, 1, 1, 0, 10, false};
  c.ic = c.oc = 16;
  EXPECT_EQ(referenceLoads(c, machineOf(16, 6 * 10 * 16, 4096, 32 * 64)), (2 * 6 * 10 + 9 * 16) * 16u);
  EXPECT_EQ(referenceLoads(c, machineOf(16, 10 * 10 * 16, 4096, 32 * 64)), (10 * 10 + 9 * 16) * 16u);
}

TEST(ReferenceTest, AMachineWithoutRoomForATileHasNone) {
  EXPECT_EQ(referenceLoads(matrixProduct(64, 64, 64), machineOf(16, 8, 1024, 1024)), UINT64_MAX);
}

TEST(ReferenceTest, TheBestTilingIsNoBetterThanTheBounds) {
  // Sides of 64 to 4096, scratchpads of 4 to 64 KiB.
  std::mt19937 random(3);
  int pooled = 0, separate = 0, above = 0;
  std::vector<double> pooledShare, separateShare;
  for (int round = 0; round < 400; ++round) {
    auto power = [&](unsigned low, unsigned high) { return uint64_t(1) << (low + random() % (high - low + 1)); };
    timing::MachineParams machine = machineOf(16, power(12, 16), power(12, 16), power(12, 15));
    machine.outstandingBursts = 1;
    Contraction c = matrixProduct(int64_t(power(6, 12)), power(6, 12), power(6, 12));
    if (round % 2) // one scratchpad for both
      machine.scratchpads.pop_back();
    if (round % 4 > 1) { // a 3x3 convolution
      c.axes[0] = c.axes[1] = {int64_t(power(3, 6)), 3, 1, 1, 1, 0, false};
      c.axes[0].inputSize = c.axes[1].inputSize = c.axes[0].size;
      c.ic = power(4, 9);
      c.oc = power(4, 9);
    }
    uint64_t reference = referenceLoads(c, machine), compulsory = c.inputs() + c.weights();
    uint64_t pool = segmentLoads(productsOf(c), onChipBytes(machine)),
             three = segmentLoads(productsOf(c), capacitiesOf(machine));
    pooled += pool > reference;
    separate += three > reference;
    above += three > compulsory;
    pooledShare.push_back(double(std::max(pool, compulsory)) / double(reference));
    separateShare.push_back(double(std::max(three, compulsory)) / double(reference));
  }
  std::sort(pooledShare.begin(), pooledShare.end());
  std::sort(separateShare.begin(), separateShare.end());
  printf("400 tilings: %d violations pooled, %d three memories; segments above compulsory in %d; of the best tiling in "
         "the "
         "median %.2f pooled, %.2f three memories\n",
         pooled, separate, above, pooledShare[200], separateShare[200]);
  EXPECT_EQ(pooled, 0);
  EXPECT_EQ(separate, 0);
  EXPECT_GT(above, 100);
}

TEST(ReferenceTest, TileSizesAreThoseThatChangeTheNumberOfTiles) {
  EXPECT_EQ(tileSizes(10, 1), (std::vector<uint64_t>{10, 5, 4, 3, 2, 1}));
  EXPECT_EQ(tileSizes(50, 16), (std::vector<uint64_t>{64, 32, 16}));
}

} // namespace
