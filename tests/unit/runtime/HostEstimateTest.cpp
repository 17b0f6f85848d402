//===- HostEstimateTest.cpp - What host and link are estimated to take ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/HostEstimate.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::runtime;

namespace {

TEST(RateTest, CyclesAreRoundedUp) {
  EXPECT_EQ((timing::Rate{8, 1}.cycles(0)), 0u);
  EXPECT_EQ((timing::Rate{8, 1}.cycles(1)), 1u);
  EXPECT_EQ((timing::Rate{8, 1}.cycles(17)), 3u);
  EXPECT_EQ((timing::Rate{3, 2}.cycles(3)), 2u);
  EXPECT_EQ((timing::Rate{3, 2}.cycles(4)), 3u);
  EXPECT_EQ((timing::Rate{1, 1000000}.cycles(uint64_t(1) << 40)), (uint64_t(1) << 40) * 1000000);
}

/// Each tensor has `elements` floats.
Network networkOf(unsigned values, int64_t elements) {
  Network network;
  for (unsigned i = 0; i < values; ++i)
    network.values.push_back({"v" + std::to_string(i), ElementKind::F32, {elements}});
  network.machine.host.linkBytes = {16, 1};
  network.machine.host.linkLatencyCycles = 100;
  network.machine.host.memoryBytes = {8, 1};
  network.machine.host.operations = {2, 1};
  return network;
}

Step program(std::vector<unsigned> inputs, std::vector<unsigned> outputs) {
  Step step;
  step.program.emplace();
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  return step;
}

Step kernel(std::string name, uint64_t operations, std::vector<unsigned> inputs, std::vector<unsigned> outputs) {
  Step step;
  step.kernel = name;
  step.nodes = {name};
  step.operations = operations;
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  return step;
}

Step reshape(unsigned input, unsigned output) {
  Step step;
  step.inputs = {input};
  step.outputs = {output};
  return step;
}

/// Bytes over the link before each step.
std::vector<uint64_t> linkBytes(const std::vector<StepEstimate> &steps) {
  std::vector<uint64_t> bytes;
  for (const StepEstimate &step : steps) {
    bytes.push_back(0);
    for (const Crossing &crossing : step.crossings)
      bytes.back() += crossing.bytes;
  }
  return bytes;
}

TEST(HostEstimateTest, HostTakesTheLongerOfBytesAndOperations) {
  const timing::HostParams host = networkOf(0, 0).machine.host;
  EXPECT_EQ(hostCycles(host, 80, 10), 10u);
  EXPECT_EQ(hostCycles(host, 80, 100), 50u);
  EXPECT_EQ(linkCycles(host, 17), 102u);
}

/// Input 0, program 0 -> 1, host 1 -> 2, host 2 -> 3, program 3 -> 4.
TEST(HostEstimateTest, WhatStaysOnOneSideDoesNotCross) {
  Network network = networkOf(5, 8);
  network.inputs = {0};
  network.outputs = {4};
  network.steps = {program({0}, {1}), kernel("a", 1, {1}, {2}), kernel("b", 1000, {2}, {3}), program({3}, {4})};
  const std::vector<StepEstimate> steps = estimateSteps(network);
  EXPECT_EQ(linkBytes(steps), (std::vector<uint64_t>{0, 32, 0, 32, 0}));
  EXPECT_TRUE(steps[1].crossings[0].toHost);
  EXPECT_EQ(steps[1].crossings[0].cycles, 102u);
  EXPECT_EQ(steps[1].bytes, 64u);
  EXPECT_EQ(steps[1].cycles, 8u);
  EXPECT_EQ(steps[2].cycles, 500u);
  EXPECT_FALSE(steps[3].crossings[0].toHost);

  std::vector<Offload> offload = {{"a", "cpu", "x"}, {"b", "cpu", "x"}, {"c", "accelerator", "x"}};
  addLinkBytes(offload, steps);
  EXPECT_EQ(offload[0].hostLinkBytes, 32u);
  EXPECT_EQ(offload[1].hostLinkBytes, 32u);
  EXPECT_EQ(offload[2].hostLinkBytes, 0u);
}

/// What two kernels read, or a kernel reads as another shape, crosses once.
TEST(HostEstimateTest, ATensorCrossesOnce) {
  Network network = networkOf(6, 8);
  network.inputs = {0};
  network.steps = {program({0}, {1}), reshape(1, 2), kernel("a", 1, {2}, {3}), kernel("b", 1, {1}, {4}),
                   program({3, 1, 0}, {5})};
  EXPECT_EQ(linkBytes(estimateSteps(network)), (std::vector<uint64_t>{0, 0, 32, 0, 32, 0}));
}

TEST(HostEstimateTest, InputsAreOnBothSidesAndOneSideAloneHasNoLink) {
  Network network = networkOf(3, 8);
  network.inputs = {0};
  network.steps = {kernel("a", 1, {0}, {1}), kernel("b", 1, {1, 0}, {2})};
  EXPECT_EQ(linkBytes(estimateSteps(network)), (std::vector<uint64_t>{0, 0, 0}));
  network.steps = {program({0}, {1}), program({1, 0}, {2})};
  EXPECT_EQ(linkBytes(estimateSteps(network)), (std::vector<uint64_t>{0, 0, 0}));
}

} // namespace
