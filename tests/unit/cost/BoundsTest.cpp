//===- BoundsTest.cpp - Which term binds, and how much ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Bounds.h"
#include "isa/timing/Dram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

using namespace tw;
using namespace tw::cost;

namespace {

/// 16x16, 16 bytes per cycle, latency 100, small memories.
timing::MachineParams machineOf() {
  timing::MachineParams machine;
  machine.scratchpads = {{"activation", 16384, 16}, {"weight", 16384, 8}};
  machine.accumulator = {"accumulator", 16384, 4};
  machine.outstandingBursts = 64;
  machine.dram.latencyCycles = 100;
  return machine;
}

/// A layer from tensor `from` to tensor `to`, of `bytes` each.
LayerWork layerOf(unsigned from, unsigned to, uint64_t bytes, Dependence dependence) {
  LayerWork layer;
  layer.inputs = {{from, bytes, {}}};
  layer.output = {to, bytes, {}};
  layer.dependence = dependence;
  return layer;
}

std::vector<NetworkTensor> chainOf(size_t layers, uint64_t bytes) {
  std::vector<NetworkTensor> tensors(layers + 1);
  for (NetworkTensor &tensor : tensors)
    tensor.bytes = bytes;
  tensors.front().input = tensors.back().output = true;
  return tensors;
}

/// What the bound is without its fixed part.
uint64_t workOf(const Bound &bound) { return bound.cycles - bound.fillCycles; }

TEST(BoundsTest, EnginesAddUpOverLayersAndTheLargestSumBinds) {
  // Maxima of the layers would add up to 2,000.
  std::vector<LayerWork> layers = {layerOf(0, 1, 64, Dependence::None), layerOf(1, 2, 64, Dependence::None)};
  layers[0].arrayCycles = 1000;
  layers[0].vectorCycles = 500;
  layers[1].arrayCycles = 200;
  layers[1].vectorCycles = 1000;
  Bound bound = networkBound(layers, chainOf(2, 64), machineOf());
  EXPECT_EQ(bound.by, "vector");
  EXPECT_EQ(workOf(bound), 1500u);
}

TEST(BoundsTest, IntermediateTensorsDoNotCountInANetworkButInALayerAlone) {
  std::vector<LayerWork> layers = {layerOf(0, 1, 16000, Dependence::None), layerOf(1, 2, 16000, Dependence::None)};
  EXPECT_EQ(networkBytes(layers, chainOf(2, 16000), machineOf()), 32000u);
  Bound network = networkBound(layers, chainOf(2, 16000), machineOf()), alone = layerBound(layers[0], machineOf());
  EXPECT_EQ(network.by, "dram");
  EXPECT_EQ(workOf(network), 2000u);
  EXPECT_EQ(workOf(alone), 2000u);
}

TEST(BoundsTest, AConstantOfTwoLayersCountsOnce) {
  std::vector<LayerWork> layers = {layerOf(0, 1, 64, Dependence::None), layerOf(1, 2, 64, Dependence::None)};
  int key = 0;
  layers[0].constants = layers[1].constants = {{&key, 5000}};
  EXPECT_EQ(networkBytes(layers, chainOf(2, 64), machineOf()), 5128u);
}

TEST(BoundsTest, DepthwiseWorkIsSplitBetweenArrayAndVectorEngine) {
  // 300 more cycles on the vector engine, or 100 on the array: at a share s of the array,
  // 100 + 300 (1 - s) = 100 s + 100, s = 3/4.
  LayerWork layer = layerOf(0, 1, 64, Dependence::None);
  layer.arrayCycles = layer.vectorCycles = 100;
  layer.windowVectorCycles = 300;
  layer.windowArrayCycles = 100;
  Bound bound = networkBound({layer, layerOf(1, 2, 64, Dependence::None)}, chainOf(2, 64), machineOf());
  EXPECT_EQ(workOf(bound), 175u);
}

TEST(BoundsTest, LayersOfADeepNetworkAddUp) {
  constexpr unsigned kLayers = 1000;
  std::vector<LayerWork> layers;
  int shared = 0;
  for (unsigned i = 0; i < kLayers; ++i) {
    layers.push_back(layerOf(i, i + 1, 64, Dependence::None));
    layers.back().arrayCycles = 10;
    layers.back().constants = {{nullptr, 16}, {&shared, 160}};
  }
  EXPECT_EQ(networkBytes(layers, chainOf(kLayers, 64), machineOf()), 64u + 16 * kLayers + 160 + 64);
  EXPECT_EQ(workOf(networkBound(layers, chainOf(kLayers, 64), machineOf())), 10u * kLayers);
}

TEST(BoundsTest, ReloadsOfALayerAloneCount) {
  // 2048^3 int8 with about 60 KB on chip: at a segment of 2S traffic, 2 MNK sqrt(4/S) - S - 4 MN = 137 MB - 17 MB, more
  // than the 8 MB of its operands.
  LayerWork layer = layerOf(0, 1, 2048 * 2048, Dependence::None);
  layer.constants = {{nullptr, 2048 * 2048}};
  layer.contraction.emplace();
  layer.contraction->axes[0].size = layer.contraction->axes[0].inputSize = 2048;
  layer.contraction->ic = layer.contraction->oc = 2048;
  layer.operandsLoaded = true;
  LayerTraffic traffic = layerTraffic(layer, machineOf());
  EXPECT_EQ(traffic.compulsoryBytes, 3u * 2048 * 2048);
  double onChip = double(onChipBytes(machineOf())), side = 2048;
  double expected = 2 * side * side * side * std::sqrt(4 / onChip) - onChip - 4 * side * side + side * side;
  EXPECT_NEAR(double(traffic.unavoidableBytes), expected, 0.02 * expected);
  EXPECT_EQ(layerBound(layer, machineOf()).by, "dram segments");
  EXPECT_GT(traffic.threeMemoryBytes, traffic.unavoidableBytes);
  EXPECT_GT(traffic.referenceBytes, traffic.threeMemoryBytes);
  // A program of that layer alone moves no less; one of two layers may keep what is between them on chip.
  LayerWork second = layerOf(1, 2, 2048 * 2048, Dependence::None);
  EXPECT_EQ(networkBytes({layer}, chainOf(1, 2048 * 2048), machineOf()), traffic.unavoidableBytes);
  EXPECT_EQ(networkBytes({layer, second}, chainOf(2, 2048 * 2048), machineOf()), traffic.compulsoryBytes);
  // Where one tensor is both operands: nothing is known then but what the input and the result need.
  layer.operandsLoaded = false;
  EXPECT_EQ(layerBound(layer, machineOf()).by, "dram");
}

TEST(BoundsTest, AShortProgramIsBoundByItsFill) {
  timing::MachineParams machine = machineOf();
  Bound bound = layerBound(layerOf(0, 1, 64, Dependence::None), machine);
  EXPECT_EQ(bound.by, "fill");
  // Three trips to DRAM cannot overlap: the program, the input, the result.
  EXPECT_GE(bound.cycles, 2u * 100);
}

TEST(BoundsTest, FewBurstsInFlightBindAsAPort) {
  timing::MachineParams machine = machineOf();
  machine.outstandingBursts = 1; // 64 bytes in 105 cycles at best, through two engines
  Bound bound = layerBound(layerOf(0, 1, 64000, Dependence::None), machine);
  EXPECT_EQ(bound.by, "port");
  EXPECT_GT(bound.cycles, 500u * 104);
}

/// A layer over tensors of 16 channels at `from` and `to` positions, with all of them in each window.
LayerWork poolOf(unsigned from, unsigned to, int64_t fromSize, int64_t toSize, Dependence dependence) {
  LayerWork layer = layerOf(from, to, 64, dependence);
  Grid grid;
  grid.channels = 16;
  grid.stride[0] = 16;
  grid.size[0] = fromSize;
  layer.inputs[0].grid = grid;
  grid.size[0] = toSize;
  layer.output.grid = grid;
  layer.window[0].inputSize = fromSize;
  layer.window[0].size = toSize;
  layer.window[0].kernel = fromSize - toSize + 1;
  return layer;
}

/// conv -> conv -> global pool -> matrix product, the array busy before the pool, DRAM behind it.
std::vector<LayerWork> poolNetwork() {
  std::vector<LayerWork> layers = {poolOf(0, 1, 4, 4, Dependence::Channels), poolOf(1, 2, 4, 4, Dependence::Channels),
                                   poolOf(2, 3, 4, 1, Dependence::Window), poolOf(3, 4, 1, 1, Dependence::Channels)};
  layers[0].arrayCycles = 10000;
  layers[1].arrayCycles = 500;
  layers[3].constants = {{nullptr, 1600000}};
  return layers;
}

TEST(BoundsTest, LayersBeforeAndBehindAGlobalPoolCannotOverlap) {
  // Before: 10,000 cycles of the array; the convolution right in front of the pool may overlap it. Behind: 100,000
  // cycles of weights, but for those a chip full of which may be there already.
  timing::MachineParams machine = machineOf();
  Bound bound = networkBound(poolNetwork(), chainOf(4, 64), machine);
  EXPECT_EQ(bound.by, "cut");
  EXPECT_EQ(workOf(bound), 10000 + (1600000 - onChipBytes(machine) + 64) / 16);
}

TEST(BoundsTest, NoCutWhereAPartOfTheTensorIsNotNeeded) {
  std::vector<LayerWork> layers = poolNetwork();
  layers[1].window[0].size = 1; // a stride skips the others
  layers[1].inputs[0].bytes = 16;
  layers[1].output.grid->size[0] = 1;
  layers[2] = poolOf(2, 3, 1, 1, Dependence::Window);
  EXPECT_EQ(networkBound(layers, chainOf(4, 64), machineOf()).by, "dram");
}

TEST(BoundsTest, PreloadsLieATurnaroundOfTheShadowPlaneApart) {
  std::vector<LayerWork> layers = {layerOf(0, 1, 64, Dependence::None), layerOf(1, 2, 64, Dependence::None)};
  layers[0].preloadCycles = 64000;
  layers[0].preloadTiles = 4000;
  layers[1].preloadCycles = 16000;
  layers[1].preloadTiles = 1000;
  const timing::MachineParams machine = machineOf();
  const timing::TimingConstants &t = machine.timing;
  const uint64_t turnaround = t.preload_drain_cycles + t.shadow_ready_cycles + t.shadow_free_cycles;
  const Bound bound = networkBound(layers, chainOf(2, 64), machine);
  EXPECT_EQ(bound.by, "preload");
  EXPECT_EQ(workOf(bound), 80000 + 4999 * turnaround); // none behind the last one
}

/// What `made` results of 16 channels each take of a tensor of `read` positions.
void describe(LayerWork &layer, int64_t made, int64_t read, bool mixes) {
  LayerWork::Piece &piece = layer.pieces.emplace_back();
  piece.space.axes = {{1, 0}, {1, 0}, {made, 16}, {1, 0}, {16, 1}};
  Access access;
  access.elements = uint64_t(read) * 16;
  access.axes = {{2, {layer.window[0]}, read, 16}, {mixes ? -1 : 4, {}, 16, 1}};
  piece.reads = {access};
  access.elements = uint64_t(made) * 16;
  access.axes = {{2, {}, made, 16}, {4, {}, 16, 1}};
  layer.passes = {access};
}

/// A conversion of eight positions and 16 channels, and a convolution that takes every fourth of them.
std::vector<LayerWork> stridedNetwork() {
  std::vector<LayerWork> layers = {poolOf(0, 1, 8, 8, Dependence::Elementwise), poolOf(1, 2, 8, 2, Dependence::Channels)};
  layers[0].inputs[0].bytes = layers[0].output.bytes = 128;
  layers[0].vectorCycles = 8000;
  layers[1].inputs[0].bytes = layers[1].output.bytes = 32;
  layers[1].window[0].kernel = 1;
  layers[1].window[0].stride = 4;
  describe(layers[0], 8, 8, false);
  describe(layers[1], 2, 8, true);
  return layers;
}

TEST(BoundsTest, WhatNoWindowReachesDoesNotCount) {
  std::vector<NetworkTensor> tensors = chainOf(2, 128);
  EXPECT_EQ(networkBytes(stridedNetwork(), tensors, machineOf()), 32u + 32u);
  // Of 8,000 cycles of the vector engine those that write two positions of 16 channels, 16 lanes a cycle.
  EXPECT_EQ(workOf(networkBound(stridedNetwork(), tensors, machineOf())), 2u);
  // Not even what leads to that.
  std::vector<LayerWork> layers = stridedNetwork();
  layers.insert(layers.begin(), poolOf(3, 0, 8, 8, Dependence::Elementwise));
  layers[0].inputs[0].bytes = 128;
  describe(layers[0], 8, 8, false);
  tensors.push_back({128, true, false, false});
  tensors[0].input = false;
  EXPECT_EQ(networkBytes(layers, tensors, machineOf()), 32u + 32u);
}

TEST(BoundsTest, OfMaximaCountThoseWhoseSumsSomethingTakes) {
  // 6,400 products of 16 channels with 16 by an array of 8 x 8, four cycles each; the largest of two neighbours each time, of which a
  // pool takes the first 2,400 of 3,200.
  std::vector<LayerWork> layers = {layerOf(0, 1, 51200, Dependence::None), poolOf(1, 2, 3200, 2400, Dependence::Window)};
  layers[0].output.grid = layers[1].inputs[0].grid;
  layers[0].arrayCycles = 25600;
  layers[0].contraction.emplace();
  layers[0].contraction->axes[0].size = layers[0].contraction->axes[0].inputSize = 6400;
  layers[0].contraction->ic = layers[0].contraction->oc = 16;
  layers[0].window[0].size = layers[0].window[0].inputSize = 3200;
  layers[0].maxima.emplace();
  PositionAxis &pairs = (*layers[0].maxima)[0];
  pairs.size = 3200;
  pairs.kernel = pairs.stride = 2;
  pairs.inputSize = 6400;
  layers[1].window[0].kernel = 1;
  layers[1].inputs[0].bytes = 38400;
  describe(layers[0], 3200, 3200, false);
  layers[0].pieces[0].reads.clear();
  layers[0].sums.emplace();
  layers[0].sums->elements = 6400 * 16;
  layers[0].sums->axes = {{2, {pairs}, 6400, 16}, {4, {}, 16, 1}};
  describe(layers[1], 2400, 3200, false);
  timing::MachineParams machine = machineOf();
  machine.rows = machine.cols = 8;
  Bound bound = networkBound(layers, chainOf(2, 51200), machine);
  EXPECT_EQ(bound.by, "array");
  EXPECT_EQ(workOf(bound), 4800u * 4);
}

TEST(BoundsTest, WhatAnotherLayerReadsCounts) {
  std::vector<LayerWork> layers = stridedNetwork();
  layers.push_back(poolOf(1, 3, 8, 8, Dependence::Elementwise));
  layers[2].inputs[0].bytes = layers[2].output.bytes = 128;
  std::vector<NetworkTensor> tensors = chainOf(2, 128);
  tensors.push_back({128, false, true, false});
  EXPECT_EQ(networkBytes(layers, tensors, machineOf()), 128u + 32u + 128u);
  EXPECT_EQ(workOf(networkBound(layers, tensors, machineOf())), 8000u);
}

TEST(BoundsTest, NoCutWhereNothingMixesTheChannels) {
  std::vector<LayerWork> layers = poolNetwork();
  layers[0].dependence = layers[1].dependence = Dependence::Window;
  EXPECT_EQ(networkBound(layers, chainOf(4, 64), machineOf()).by, "dram");
}

TEST(BoundsTest, NoCutWhereTheLayerBehindHasAnotherInput) {
  std::vector<LayerWork> layers = poolNetwork();
  layers[3].inputs = {{0, 64, {}}, {3, 64, {}}};
  EXPECT_EQ(networkBound(layers, chainOf(4, 64), machineOf()).by, "dram");
}

/// Three matrix products over four positions, the array busy in the first, DRAM in the last.
std::vector<LayerWork> lateWeights() {
  std::vector<LayerWork> layers;
  for (unsigned i = 0; i < 3; ++i) {
    layers.push_back(poolOf(i, i + 1, 4, 4, Dependence::Channels));
    Contraction contraction;
    contraction.axes = layers[i].window;
    contraction.ic = contraction.oc = 16;
    layers[i].contraction = contraction;
  }
  layers[0].arrayCycles = 10000;
  layers[2].constants = {{nullptr, 1600000}};
  layers[2].weights = 0;
  return layers;
}

TEST(BoundsTest, WeightsOfLaterLayersAreNeededUntilEarlierOnesAreComplete) {
  timing::MachineParams machine = machineOf();
  Bound bound = networkBound(lateWeights(), chainOf(3, 64), machine);
  EXPECT_EQ(bound.by, "cut");
  EXPECT_EQ(workOf(bound), 10000 + (1600000 - onChipBytes(machine)) / 16);
}

TEST(BoundsTest, WeightsRightBehindALayerMayBeDoneWithItsFirstChannels) {
  std::vector<LayerWork> layers = lateWeights();
  layers[1].dependence = Dependence::Window;
  layers[1].contraction.reset();
  EXPECT_EQ(networkBound(layers, chainOf(3, 64), machineOf()).by, "dram");
}

TEST(BoundsTest, WeightsInBetweenHaveDoneTheirWorkOrComeLate) {
  timing::MachineParams machine = machineOf();
  std::vector<LayerWork> layers = lateWeights();
  layers[1].contraction->ic = 1600; // 400 cycles of a 16 x 16 array
  layers[1].weights = 0;
  const uint64_t without = 10000 + (1600000 - onChipBytes(machine)) / 16, rounded = 1;
  layers[1].constants = {{nullptr, 8000}}; // 500 cycles of the bus
  EXPECT_EQ(workOf(networkBound(layers, chainOf(3, 64), machine)), without + 400 - rounded);
  layers[1].constants = {{nullptr, 3200}}; // 200
  EXPECT_EQ(workOf(networkBound(layers, chainOf(3, 64), machine)), without + 200 - rounded);
}

TEST(BoundsTest, WeightsInBetweenThatLayersShareDoNotCount) {
  timing::MachineParams machine = machineOf();
  std::vector<LayerWork> layers = lateWeights();
  layers[1].contraction->ic = 1600;
  layers[1].weights = 0;
  layers[1].constants = {{&machine, 8000}};
  layers[0].constants = layers[1].constants;
  EXPECT_EQ(workOf(networkBound(layers, chainOf(3, 64), machine)), 10000 + (1600000 - onChipBytes(machine)) / 16);
}

/// Cycles from the first to the last data of `bursts` bursts side by side that arrive together at `start`.
uint64_t cyclesOfBursts(const timing::MachineParams &machine, uint64_t bursts, uint64_t start, unsigned writeEvery) {
  std::unique_ptr<timing::DramTiming> dram = timing::makeDram(machine);
  std::vector<timing::DramCompletion> done;
  for (uint64_t i = 0; i < bursts; ++i) {
    timing::DramRequest request;
    request.id = i;
    request.address = i * machine.dram.burstBytes;
    request.write = writeEvery && i / 64 % writeEvery == 0;
    request.arrivalCycle = start;
    if (auto completion = dram->submit(request))
      done.push_back(*completion);
  }
  dram->advance(start + 100 * bursts + 100000, done);
  EXPECT_EQ(done.size(), bursts);
  uint64_t first = UINT64_MAX, last = 0;
  for (const timing::DramCompletion &completion : done) {
    first = std::min(first, uint64_t(completion.busStartCycle));
    last = std::max(last, uint64_t(completion.busEndCycle));
  }
  return last - first;
}

TEST(BoundsTest, NoStreamOfBurstsIsFasterThanThePeakWithoutRefreshes) {
  std::mt19937 random(3);
  timing::MachineParams machine = machineOf();
  machine.dram.kind = timing::DramKind::Ddr4;
  machine.clockMhz = machine.dram.clockMhz;
  double tightest = 2;
  for (int round = 0; round < 40; ++round) {
    machine.dram.controller = round % 2 ? timing::DramController::Windowed : timing::DramController::InOrder;
    const uint64_t bursts = 1000 + random() % 20000, start = random() % 20000;
    const uint64_t cycles = cyclesOfBursts(machine, bursts, start, round % 4 < 2 ? 0 : 2 + random() % 6);
    Bound bound = layerBound(layerOf(0, 1, bursts * machine.dram.burstBytes / 2, Dependence::None), machine);
    EXPECT_EQ(bound.by, "dram");
    EXPECT_GE(cycles, workOf(bound));
    tightest = std::min(tightest, double(cycles) / double(workOf(bound)));
  }
  printf("streams of bursts: at best %.4f of the bound\n", tightest);
  EXPECT_LT(tightest, 1.02);
}

TEST(BoundsTest, RefreshesCountBetweenTransfers) {
  timing::MachineParams machine = machineOf();
  machine.dram.kind = timing::DramKind::Ddr4;
  machine.clockMhz = machine.dram.clockMhz; // a burst of 64 bytes in 4 cycles
  const uint64_t without = 420 + 16 - 4 - 4, bytes = 2 * 6400000;
  Bound bound = layerBound(layerOf(0, 1, bytes / 2, Dependence::None), machine);
  EXPECT_EQ(workOf(bound), 800000 + 799999 / (9360 - without) * without);
}

} // namespace
