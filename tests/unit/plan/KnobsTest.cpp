//===- KnobsTest.cpp - The tables that plan-tblgen writes -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/plan/NetworkPlan.h"

#include <gtest/gtest.h>
#include <regex>
#include <set>

using namespace tw::plan;

namespace {
class KnobsTest : public ::testing::TestWithParam<const std::vector<KnobInfo> *> {};

INSTANTIATE_TEST_SUITE_P(Kernel, KnobsTest, ::testing::Values(&KernelPlan::knobs()));
INSTANTIATE_TEST_SUITE_P(Network, KnobsTest, ::testing::Values(&NetworkKnobs::knobs()));
} // namespace

TEST_P(KnobsTest, NamesAreUniqueAndInSnakeCase) {
  std::set<std::string> names;
  for (const KnobInfo &info : *GetParam()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(std::regex_match(info.name, std::regex("[a-z]+(_[a-z]+)*"))) << info.name;
  }
}

/// A sentence without its period, as messages and tables have it.
TEST_P(KnobsTest, EveryKnobHasAMeaningAndSaysWhatAValueMayBe) {
  for (const KnobInfo &info : *GetParam()) {
    const std::string doc = info.doc, allowed = info.allowed;
    ASSERT_FALSE(doc.empty() || allowed.empty()) << info.name;
    EXPECT_NE(doc.back(), '.') << info.name;
    EXPECT_NE(allowed.back(), '.') << info.name;
  }
}

TEST_P(KnobsTest, ChoicesHaveTwoSpellingsOrMoreAndNoneTwice) {
  for (const KnobInfo &info : *GetParam()) {
    const std::set<std::string> spellings(info.spellings.begin(), info.spellings.end());
    EXPECT_EQ(spellings.size(), info.spellings.size()) << info.name;
    EXPECT_NE(spellings.size(), 1u) << info.name;
  }
}

TEST_P(KnobsTest, NumbersToTryArePositive) {
  for (const KnobInfo &info : *GetParam()) {
    EXPECT_EQ(info.candidates == KnobInfo::Numbers, !info.numbers.empty()) << info.name;
    for (int64_t number : info.numbers)
      EXPECT_GT(number, 0) << info.name;
  }
}

TEST(NetworkKnobsTableTest, EveryDefaultIsAValue) {
  for (const KnobInfo &info : NetworkKnobs::knobs()) {
    const std::string value = info.defaultValue;
    const std::set<std::string> spellings(info.spellings.begin(), info.spellings.end());
    EXPECT_TRUE(spellings.empty() ? value == "true" || value == "false" : spellings.count(value) == 1) << info.name;
  }
}
