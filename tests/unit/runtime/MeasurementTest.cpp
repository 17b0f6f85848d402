//===- MeasurementTest.cpp - Statistics of runs, layers side by side ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Measurement.h"
#include "runtime/LayerJoin.h"

#include "gtest/gtest.h"

using namespace tw;
using namespace tw::runtime;

namespace {

TEST(Statistics, TheMedianOfAnEvenNumberLiesBetweenTheTwoInTheMiddle) {
  EXPECT_EQ(statisticsOf({4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(statisticsOf({9, 1, 2}).median, 2);
}

TEST(Statistics, TheSpreadIsTheDistanceOfTheQuartilesByTheMedian) {
  // Quartiles 2 and 4; one run that takes forever does not change them.
  EXPECT_EQ(statisticsOf({1, 2, 3, 4, 5}).spread, 2.0 / 3);
  EXPECT_EQ(statisticsOf({1, 2, 3, 4, 5000}).spread, 2.0 / 3);
  EXPECT_EQ(statisticsOf({7}).spread, 0);
  EXPECT_EQ(statisticsOf({7}).minimum, 7);
}

/// Notes in which order it is launched.
class NotingDevice : public Device {
public:
  NotingDevice(char name, std::string &order) : name(name), order(order) {}
  const std::vector<TensorSpec> &inputs() const override { return specs; }
  const std::vector<TensorSpec> &outputs() const override { return specs; }
  StatusOr<Launch> launch(const std::vector<HostTensor> &) override {
    if (order.empty() || order.back() != name)
      order += name;
    ++launches;
    Launch launch;
    launch.wallSeconds = 1;
    launch.cpuSeconds = 2;
    return launch;
  }
  size_t launches = 0;

private:
  char name;
  std::string &order;
  std::vector<TensorSpec> specs;
};

TEST(MeasureInTurns, DevicesAlternateAndTheFirstRunOfATurnIsNotCounted) {
  std::string order;
  NotingDevice a('a', order), b('b', order);
  StatusOr<std::vector<Times>> times = measureInTurns({&a, &b}, {}, 3, false);
  ASSERT_TRUE(times);
  EXPECT_EQ(order, "ababab");
  EXPECT_EQ((*times)[0].wallSeconds.size(), a.launches - 3);
  EXPECT_EQ((*times)[1].cpuSeconds.size(), b.launches - 3);
  EXPECT_EQ((*times)[0].wallSeconds.front(), 1);
  EXPECT_EQ((*times)[0].cpuSeconds.front(), 2);
}

LayerRow layer(const std::string &name, std::vector<std::string> nodes, uint64_t cycles) {
  LayerRow row;
  row.name = name;
  row.nodes = std::move(nodes);
  row.result.critical = cycles;
  return row;
}

TEST(JoinLayers, ARowHasAllThatShareNodesDirectlyOrThroughOthers) {
  LayerRow group;
  group.members = {layer("conv+relu", {"conv", "relu"}, 10), layer("add", {"add"}, 5)};
  std::vector<JoinedLayers> joined = joinLayers(
      {group, layer("pool", {"pool"}, 2)}, {{"k1", {"conv"}, 1e-6}, {"k2", {"relu", "add"}, 2e-6}, {"k3", {"pool"}, 4e-6}});
  ASSERT_EQ(joined.size(), 2u);
  EXPECT_EQ(joined[0].nodes, (std::vector<std::string>{"conv", "relu", "add"}));
  EXPECT_EQ(joined[0].layers, (std::vector<std::string>{"conv+relu", "add"}));
  EXPECT_EQ(joined[0].kernels, (std::vector<std::string>{"k1", "k2"}));
  EXPECT_EQ(joined[0].cycles, 15u);
  EXPECT_DOUBLE_EQ(*joined[0].seconds, 3e-6);
  EXPECT_EQ(joined[1].cycles, 2u);
}

TEST(JoinLayers, WhatNamesNoCommonNodeStandsAlone) {
  std::vector<JoinedLayers> joined =
      joinLayers({layer("a", {"a"}, 1), layer("copy", {}, 2)}, {{"k", {}, 1e-6}, {"l", {"b"}, 1e-6}});
  ASSERT_EQ(joined.size(), 4u);
  EXPECT_FALSE(joined[0].seconds);
  EXPECT_EQ(joined[1].layers, std::vector<std::string>{"copy"});
  EXPECT_FALSE(joined[2].cycles);
  EXPECT_EQ(joined[3].nodes, std::vector<std::string>{"b"});
}

} // namespace
