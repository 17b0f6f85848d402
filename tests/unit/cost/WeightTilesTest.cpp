//===- WeightTilesTest.cpp - Preloads and passes against every order -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A weight tile of k rows takes k cycles to come, while the one before it is in
// use. Behind a cut, a layer of one position (one pass of one row per tile) may
// run between the passes of the layer in front of the cut. Every sequence of
// tiles is tried.
//===----------------------------------------------------------------------===//
#include "compiler/cost/Bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

using namespace tw;
using namespace tw::cost;

namespace {

constexpr int kMostRows = 4, kMostPositions = 4, kMostWeightRows = 9, kBefore = 100;

/// All that can follow on an array of `arrayRows` rows and any number of columns, one output channel in each.
class Tiles {
public:
  explicit Tiles(int arrayRows) : arrayRows(arrayRows) {}

  /// Of each position of the layer in front of the cut a bit for every input channel that is missing.
  using Missing = std::array<uint8_t, kMostPositions>;

  /// Least cycles until the end of the last pass, if the tile in use streams `pass` rows, and `weightRows` rows of weights of the
  /// layer behind the cut have to come.
  int least(Missing missing, int weightRows, int pass) {
    std::sort(missing.begin(), missing.end());
    const bool isDone = !missing.back() && !weightRows;
    auto [known, isNew] = memo.try_emplace({missing, weightRows, pass}, isDone ? pass : INT32_MAX);
    if (!isNew || isDone)
      return known->second;
    int best = INT32_MAX;
    for (int rows = 1; rows <= std::min(arrayRows, weightRows); ++rows)
      best = std::min(best, std::max(pass, rows) + least(missing, weightRows - rows, 1));
    for (unsigned tile = 1; tile < 1u << kMostRows; ++tile) {
      const int rows = __builtin_popcount(tile);
      for (unsigned streamed = 1; rows <= arrayRows && streamed < 1u << kMostPositions; ++streamed) {
        Missing next = missing;
        bool isUseful = true;
        for (int p = 0; p < kMostPositions; ++p)
          if (streamed >> p & 1) {
            isUseful &= (missing[size_t(p)] & tile) == tile;
            next[size_t(p)] &= uint8_t(~tile);
          }
        if (isUseful)
          best = std::min(best, std::max(pass, rows) + least(next, weightRows, __builtin_popcount(streamed)));
      }
    }
    return memo[{missing, weightRows, pass}] = best;
  }

private:
  int arrayRows;
  std::map<std::tuple<Missing, int, int>, int> memo;
};

/// The bound of conv -> conv -> global pool -> matrix product, without its fixed part and the first layer.
int boundOf(int arrayRows, int channels, int positions, int weightRows) {
  timing::MachineParams machine;
  machine.rows = machine.cols = unsigned(arrayRows);
  machine.preloadRowsPerCycle = 1;
  machine.scratchpads = {{"activation", 16384, 16}, {"weight", 16384, 8}};
  machine.accumulator = {"accumulator", 16384, 4};
  std::vector<LayerWork> layers(4);
  std::vector<NetworkTensor> tensors(5);
  const Dependence dependences[] = {Dependence::Channels, Dependence::Channels, Dependence::Window, Dependence::Channels};
  for (unsigned i = 0; i < 4; ++i) {
    layers[i].inputs = {{i, 1, {}}};
    layers[i].output = {i + 1, 1, {}};
    layers[i].dependence = dependences[i];
    tensors[i].bytes = 1;
  }
  tensors.back().bytes = 1;
  tensors.front().input = tensors.back().output = true;
  auto contract = [&](LayerWork &layer, int size, int ic) {
    layer.contraction.emplace();
    layer.contraction->axes[0].size = layer.contraction->axes[0].inputSize = size;
    layer.contraction->ic = uint64_t(ic);
    layer.contraction->oc = machine.cols;
    layer.arrayCycles = streamCycles(*layer.contraction, machine.rows, machine.cols);
    layer.preloadCycles = uint64_t(ic);
  };
  layers[0].arrayCycles = kBefore;
  contract(layers[1], positions, channels);
  contract(layers[3], 1, weightRows);
  Bound bound = networkBound(layers, tensors, machine);
  return int(bound.cycles - bound.fillCycles) - kBefore;
}

TEST(WeightTilesTest, NoSequenceOfTilesIsFaster) {
  int cases = 0, violations = 0, active = 0, planted = 0;
  for (int arrayRows = 2; arrayRows <= 3; ++arrayRows) {
    Tiles tiles(arrayRows);
    for (int channels = 1; channels <= kMostRows; ++channels)
      for (int positions = 1; positions <= kMostPositions; ++positions)
        for (int weightRows = 1; weightRows <= kMostWeightRows; ++weightRows) {
          Tiles::Missing missing{};
          std::fill_n(missing.begin(), positions, uint8_t((1 << channels) - 1));
          // A long pass before all of this, during which the first tile comes.
          const int least = tiles.least(missing, weightRows, arrayRows) - arrayRows;
          const int passes = (channels + arrayRows - 1) / arrayRows * positions;
          const int bound = boundOf(arrayRows, channels, positions, weightRows);
          ++cases;
          violations += bound > least;
          active += bound > std::max(passes + (weightRows + arrayRows - 1) / arrayRows, channels + weightRows - arrayRows);
          planted += passes + weightRows - arrayRows > least; // as if a tile of few rows took as long to come as a full one
        }
  }
  printf("weight tiles behind a cut: %d cases, %d violations, %d beyond passes and preloads; planted: %d violations\n", cases,
         violations, active, planted);
  EXPECT_EQ(violations, 0);
  EXPECT_GT(active, 0);
  EXPECT_GT(planted, 0);
}

} // namespace
