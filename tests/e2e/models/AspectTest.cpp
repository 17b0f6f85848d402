//===- AspectTest.cpp - What of a program could be otherwise --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A walk of a search changes aspects of a program (Compile.h): each value of
// one is another plan, with other knobs of the kernels it names.
//===----------------------------------------------------------------------===//
#include "tests/e2e/models/SimulatedNetwork.h"

#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <set>

using namespace tw;
using namespace tw::e2e;
using pipeline::Aspect;
using pipeline::Pinned;

namespace {

class AspectTest : public ::testing::Test {
protected:
  void SetUp() override { open(TILEWRIGHT_SOURCE_DIR "/tests/data/digits/digits_int8_qdq.onnx", "gemmini_16x16_int8"); }

  void open(const std::string &path, const std::string &machine) {
    auto compiled = SimulatedNetwork::compile(path, machine, {}, accel::Schedule::Search);
    ASSERT_TRUE(bool(compiled)) << compiled.message();
    network = std::move(*compiled);
    ASSERT_FALSE(aspects().empty());
  }

  const Pinned &chosen() const { return network->compiled().pinned; }
  const std::vector<Aspect> &aspects() const { return network->compiled().aspects; }

  static std::string keyOf(const Pinned &pinned) { return plan::keyOf({pinned.choice.ways, pinned.requests}); }

  std::unique_ptr<SimulatedNetwork> network;
};

TEST_F(AspectTest, EveryValueIsAnotherPlan) {
  for (const Aspect &a : aspects()) {
    std::set<std::string> plans{keyOf(chosen())};
    for (const auto &value : a.values) {
      Pinned other = chosen();
      value(other);
      EXPECT_TRUE(plans.insert(keyOf(other)).second) << a.name;
    }
  }
}

TEST_F(AspectTest, ValuesOfALayerLeaveTheOthersAlone) {
  for (const Aspect &a : aspects()) {
    if (!a.layer || a.name.rfind("rows of bands", 0) == 0)
      continue;
    for (const auto &value : a.values) {
      Pinned other = chosen();
      value(other);
      other.requests[*a.layer] = chosen().requests[*a.layer];
      EXPECT_EQ(keyOf(other), keyOf(chosen())) << a.name;
    }
  }
}

/// DS-CNN has chains of row tiles on a machine with little room.
class ChainAspectTest : public AspectTest {
protected:
  void SetUp() override {
    const char *models = std::getenv("TILEWRIGHT_MODELS");
    if (!models)
      GTEST_SKIP() << "TILEWRIGHT_MODELS is not set";
    open(std::string(models) + "/mlperf_tiny_kws_dscnn_int8_qdq/model.onnx", "vdla_16x16");
    for (size_t i = 0; i < chosen().requests.size() && !begin; ++i)
      if (chosen().requests[i].rowTile)
        begin = i;
    ASSERT_TRUE(begin) << "no chain";
    for (const Aspect &a : aspects())
      if (a.name.rfind("rows of bands from", 0) == 0 && a.layer == unsigned(*begin))
        ofChain = &a;
  }

  const Aspect &resultOf(size_t layer) const {
    static const Aspect none;
    for (const Aspect &a : aspects())
      if (a.layer == unsigned(layer) && a.name.rfind("result of", 0) == 0)
        return a;
    ADD_FAILURE() << "the result of layer " << layer << " is no aspect";
    return none;
  }

  std::optional<size_t> begin; ///< of the first chain
  const Aspect *ofChain = nullptr;
};

TEST_F(ChainAspectTest, AResultInRowTilesMayStayAsAWholeOrGoToDram) {
  std::set<std::pair<bool, int64_t>> stays;
  for (const auto &value : resultOf(*begin).values) {
    Pinned other = chosen();
    value(other);
    stays.insert({*other.requests[*begin].onChip, other.requests[*begin].rowTile});
  }
  EXPECT_EQ(stays, (std::set<std::pair<bool, int64_t>>{{false, 0}, {true, 0}}));
}

TEST_F(ChainAspectTest, AResultInFrontOfAChainMayJoinIt) {
  ASSERT_GT(*begin, 0u);
  const int64_t rows = chosen().requests[*begin].rowTile;
  const std::vector<std::function<void(Pinned &)>> &values = resultOf(*begin - 1).values;
  EXPECT_TRUE(std::any_of(values.begin(), values.end(), [&](const auto &value) {
    Pinned other = chosen();
    value(other);
    return other.requests[*begin - 1].rowTile == rows;
  }));
}

TEST_F(ChainAspectTest, RowTilesChangeForAWholeChain) {
  ASSERT_TRUE(ofChain && !ofChain->values.empty());
  size_t end = *begin;
  while (end < chosen().requests.size() && chosen().requests[end].rowTile)
    ++end;
  for (const auto &value : ofChain->values) {
    Pinned other = chosen();
    value(other);
    const int64_t rowTile = other.requests[*begin].rowTile;
    EXPECT_NE(rowTile, chosen().requests[*begin].rowTile);
    for (size_t i = 0; i < other.requests.size(); ++i)
      EXPECT_EQ(other.requests[i].rowTile, i >= *begin && i < end ? rowTile : chosen().requests[i].rowTile) << i;
  }
}

} // namespace
