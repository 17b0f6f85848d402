//===- AspectTest.cpp - What of a program could be otherwise --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A walk of a search changes aspects of a program (Compile.h): each value of
// one is another schedule file, with other keys of the kernels it names.
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

  static std::string fileOf(const Pinned &pinned) {
    std::vector<std::pair<std::string, accel::TileRequest>> choices;
    for (const accel::TileRequest &request : pinned.requests)
      choices.push_back({"kernel", request});
    return accel::printScheduleFile("pipelined", accel::WaysRequest(pinned.choice.ways), choices);
  }

  std::unique_ptr<SimulatedNetwork> network;
};

TEST_F(AspectTest, EveryValueIsAnotherScheduleFile) {
  for (const Aspect &a : aspects()) {
    std::set<std::string> files{fileOf(chosen())};
    for (const auto &value : a.values) {
      Pinned other = chosen();
      value(other);
      EXPECT_TRUE(files.insert(fileOf(other)).second) << a.name;
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
      EXPECT_EQ(fileOf(other), fileOf(chosen())) << a.name;
    }
  }
}

/// DS-CNN has chains of bands on a machine with little room.
class ChainAspectTest : public AspectTest {
protected:
  void SetUp() override {
    const char *models = std::getenv("TILEWRIGHT_MODELS");
    if (!models)
      GTEST_SKIP() << "TILEWRIGHT_MODELS is not set";
    open(std::string(models) + "/mlperf_tiny_kws_dscnn_int8_qdq/model.onnx", "vdla_16x16");
    for (size_t i = 0; i < chosen().requests.size() && !begin; ++i)
      if (chosen().requests[i].bands)
        begin = i;
    ASSERT_TRUE(begin) << "no chain";
    for (const Aspect &a : aspects())
      if (a.name.rfind("rows of bands from", 0) == 0 && a.layer == unsigned(*begin))
        rows = &a;
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
  const Aspect *rows = nullptr;
};

TEST_F(ChainAspectTest, AResultInBandsMayStayAsAWholeOrGoToDram) {
  std::set<std::pair<bool, int64_t>> stays;
  for (const auto &value : resultOf(*begin).values) {
    Pinned other = chosen();
    value(other);
    stays.insert({*other.requests[*begin].onChip, other.requests[*begin].bands});
  }
  EXPECT_EQ(stays, (std::set<std::pair<bool, int64_t>>{{false, 0}, {true, 0}}));
}

TEST_F(ChainAspectTest, AResultInFrontOfAChainMayJoinIt) {
  ASSERT_GT(*begin, 0u);
  const int64_t bands = chosen().requests[*begin].bands;
  const std::vector<std::function<void(Pinned &)>> &values = resultOf(*begin - 1).values;
  EXPECT_TRUE(std::any_of(values.begin(), values.end(), [&](const auto &value) {
    Pinned other = chosen();
    value(other);
    return other.requests[*begin - 1].bands == bands;
  }));
}

TEST_F(ChainAspectTest, RowsOfBandsChangeForAWholeChain) {
  ASSERT_TRUE(rows && !rows->values.empty());
  size_t end = *begin;
  while (end < chosen().requests.size() && chosen().requests[end].bands)
    ++end;
  for (const auto &value : rows->values) {
    Pinned other = chosen();
    value(other);
    const int64_t bands = other.requests[*begin].bands;
    EXPECT_NE(bands, chosen().requests[*begin].bands);
    for (size_t i = 0; i < other.requests.size(); ++i)
      EXPECT_EQ(other.requests[i].bands, i >= *begin && i < end ? bands : chosen().requests[i].bands) << i;
  }
}

} // namespace
