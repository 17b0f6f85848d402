//===- VariationsTest.cpp - What of a program could be otherwise ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simulated annealing varies knobs of a complete plan (explore/KnobChanges.h):
// each value is another plan file.
//===----------------------------------------------------------------------===//
#include "tests/e2e/models/SimulatedNetwork.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <set>

using namespace tw;
using namespace tw::e2e;
using explore::KnobChange;
using plan::NetworkPlan;

namespace {

class VariationsTest : public ::testing::Test {
protected:
  void SetUp() override { open(TILEWRIGHT_SOURCE_DIR "/tests/data/digits/digits_int8_qdq.onnx", "gemmini_16x16_int8"); }

  void open(const std::string &path, const std::string &machine) {
    auto compiled = SimulatedNetwork::compile(path, machine, {}, accel::Schedule::Search);
    ASSERT_TRUE(bool(compiled)) << compiled.message();
    network = std::move(*compiled);
    ASSERT_FALSE(variations().empty());
  }

  const NetworkPlan &chosen() const { return network->compiled().chosen; }
  const std::vector<KnobChange> &variations() const { return network->compiled().variations; }
  NetworkPlan with(const std::function<void(NetworkPlan &)> &value) const {
    NetworkPlan other = chosen();
    value(other);
    return other;
  }

  std::unique_ptr<SimulatedNetwork> network;
};

TEST_F(VariationsTest, EveryValueIsAnotherPlan) {
  for (const KnobChange &a : variations()) {
    std::set<std::string> keys{plan::keyOf(chosen())};
    for (const auto &value : a.values) {
      EXPECT_TRUE(keys.insert(plan::keyOf(with(value))).second) << a.name;
    }
  }
}

TEST_F(VariationsTest, ValuesOfALayerLeaveTheOthersAlone) {
  for (const KnobChange &a : variations()) {
    if (!a.layer || a.name.rfind("row tiles", 0) == 0)
      continue;
    for (const auto &value : a.values) {
      NetworkPlan other = with(value);
      other.kernels[*a.layer] = chosen().kernels[*a.layer];
      EXPECT_EQ(other, chosen()) << a.name;
    }
  }
}

/// DS-CNN has fusion groups on a machine with little room.
class FusionVariationsTest : public VariationsTest {
protected:
  void SetUp() override {
    const char *models = std::getenv("TILEWRIGHT_MODELS");
    if (!models)
      GTEST_SKIP() << "TILEWRIGHT_MODELS is not set";
    open(std::string(models) + "/mlperf_tiny_kws_dscnn_int8_qdq/model.onnx", "vdla_16x16");
    for (size_t i = 0; i < chosen().kernels.size() && !begin; ++i)
      if (chosen().kernels[i].rowTile)
        begin = i;
    ASSERT_TRUE(begin) << "no fusion group";
    for (const KnobChange &a : variations())
      if (a.name.rfind("row tiles from", 0) == 0 && a.layer == unsigned(*begin))
        rows = &a;
  }

  const KnobChange &resultOf(size_t layer) const {
    static const KnobChange none;
    for (const KnobChange &a : variations())
      if (a.layer == unsigned(layer) && a.name.rfind("result of", 0) == 0)
        return a;
    ADD_FAILURE() << "the result of layer " << layer << " is no variation";
    return none;
  }

  std::optional<size_t> begin; ///< of the first fusion group
  const KnobChange *rows = nullptr;
};

TEST_F(FusionVariationsTest, AResultInRowTilesMayStayAsAWholeOrGoToDram) {
  std::set<std::pair<bool, int64_t>> stays;
  for (const auto &value : resultOf(*begin).values) {
    const NetworkPlan other = with(value);
    stays.insert({*other.kernels[*begin].onChip, other.kernels[*begin].rowTile});
  }
  EXPECT_EQ(stays, (std::set<std::pair<bool, int64_t>>{{false, 0}, {true, 0}}));
}

TEST_F(FusionVariationsTest, AResultInFrontOfAGroupMayJoinIt) {
  ASSERT_GT(*begin, 0u);
  const int64_t rowTile = chosen().kernels[*begin].rowTile;
  const std::vector<std::function<void(NetworkPlan &)>> &values = resultOf(*begin - 1).values;
  EXPECT_TRUE(std::any_of(values.begin(), values.end(), [&](const auto &value) {
    const NetworkPlan other = with(value);
    return other.kernels[*begin - 1].rowTile == rowTile;
  }));
}

TEST_F(FusionVariationsTest, RowTilesChangeForAWholeGroup) {
  ASSERT_TRUE(rows && !rows->values.empty());
  size_t end = *begin;
  while (end < chosen().kernels.size() && chosen().kernels[end].rowTile)
    ++end;
  for (const auto &value : rows->values) {
    const NetworkPlan other = with(value);
    const int64_t rowTile = other.kernels[*begin].rowTile;
    EXPECT_NE(rowTile, chosen().kernels[*begin].rowTile);
    for (size_t i = 0; i < other.kernels.size(); ++i)
      EXPECT_EQ(other.kernels[i].rowTile, i >= *begin && i < end ? rowTile : chosen().kernels[i].rowTile) << i;
  }
}

} // namespace
