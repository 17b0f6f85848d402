//===- ExplorationTest.cpp - Which proposals are taken --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/Exploration.h"

#include "compiler/explore/strategies/Strategies.h"
#include "tests/unit/explore/ToyNetwork.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::explore;
using plan::NetworkPlan;

namespace {
/// Plans cost what a function says; depth 9 is refused, and a plan that was estimated before is known.
class ToyCompiler : public PlanCompiler {
public:
  explicit ToyCompiler(std::function<double(const NetworkPlan &)> cycles) : cycles(std::move(cycles)) {}
  llvm::Expected<std::optional<Outcome>> estimate(const NetworkPlan &plan, double) override {
    ++estimates;
    if (plan.kernels.front().depth == 9)
      return llvm::createStringError("no room for 9 slots");
    if (!known.insert(plan::keyOf(plan)).second)
      return std::nullopt;
    return Outcome{plan, plan, cycles(plan)};
  }
  size_t estimates = 0;

private:
  std::function<double(const NetworkPlan &)> cycles;
  std::set<std::string> known;
};

class ExplorationTest : public ::testing::Test {
protected:
  void SetUp() override {
    network.addProduct(64, 32, 32);
    network.addProduct(64, 32, 32);
    ASSERT_FALSE(exploration.begin({plan::NetworkKnobs().withDefaults(), std::vector<plan::KernelPlan>(2)}));
  }
  const Outcome *setDepth(int64_t depth) {
    return exploration.propose([&](NetworkPlan &plan) { plan.kernels[0].depth = depth; });
  }

  /// The proposal changes the depth of the first kernel, and nothing else.
  static void expectDepth(const Proposal &proposal, const std::string &from, const std::string &to) {
    ASSERT_EQ(proposal.changes.size(), 1u);
    const KnobDifference &change = proposal.changes.front();
    EXPECT_EQ(change.kernel + ": " + change.knob + ": " + change.from + " -> " + change.to,
              "kernel0: depth: " + from + " -> " + to);
  }

  test::ToyNetwork network{"vdla_16x16"}; // with a scratchpad for weights
  /// Two slots are best, each other number costs 10 cycles for each slot away from two.
  ToyCompiler compiler{[](const NetworkPlan &plan) { return 100 + 10 * double(std::abs(plan.kernels[0].depth - 2)); }};
  std::vector<Proposal> reported;
  size_t budget = 100;
  Exploration exploration{network.problem, compiler, budget, [this](const Proposal &p) { reported.push_back(p); }};
};

TEST_F(ExplorationTest, TheFirstPlanIsTheBestUntilAnotherIsFaster) {
  EXPECT_EQ(exploration.best().cycles, 120);
  ASSERT_TRUE(setDepth(5));
  EXPECT_EQ(exploration.best().plan.kernels[0].depth, 0) << "130 cycles are no gain";
  ASSERT_TRUE(setDepth(2));
  EXPECT_EQ(exploration.best().plan.kernels[0].depth, 2);
}

TEST_F(ExplorationTest, OutcomesAreInTheOrderOfTheirCycles) {
  for (int64_t depth : {6, 2, 4})
    setDepth(depth);
  std::vector<double> cycles;
  for (const Outcome &outcome : exploration.all())
    cycles.push_back(outcome.cycles);
  EXPECT_TRUE(std::is_sorted(cycles.begin(), cycles.end()));
  EXPECT_EQ(cycles.size(), 4u);
}

TEST_F(ExplorationTest, EveryProposalIsReportedWithItsKnobAndItsEnd) {
  setDepth(2);
  setDepth(2);
  setDepth(9);
  setDepth(3);
  ASSERT_EQ(reported.size(), 5u);
  EXPECT_EQ(reported[0].strategy, kFirstPlan);
  EXPECT_FALSE(reported[0].before);
  EXPECT_EQ(reported[0].after, 120);
  EXPECT_TRUE(reported[1].isTaken);
  expectDepth(reported[1], "open", "2");
  EXPECT_EQ(reported[1].before, 120);
  EXPECT_EQ(reported[1].after, 100);
  EXPECT_EQ(reported[2].why, "it makes the same program as an earlier proposal");
  EXPECT_EQ(reported[3].why, "no room for 9 slots");
  EXPECT_FALSE(reported[3].after);
  EXPECT_FALSE(reported[4].isTaken);
  expectDepth(reported[4], "2", "3");
}

TEST_F(ExplorationTest, TheKernelWithMostWeightsMayTakeThemByTheFirstLoader) {
  test::ToyNetwork uneven{"vdla_16x16"};
  uneven.addProduct(64, 32, 32);
  uneven.addProduct(64, 32, 64);
  ToyCompiler prefers([](const NetworkPlan &plan) { return plan.kernels[1].firstLoader.value_or(false) ? 90.0 : 100.0; });
  Exploration own(uneven.problem, prefers, budget, nullptr);
  ASSERT_FALSE(own.begin({plan::NetworkKnobs().withDefaults(), std::vector<plan::KernelPlan>(2)}));
  exploreFirstLoaders(own);
  EXPECT_EQ(own.best().plan.kernels[1].firstLoader, true);
  EXPECT_EQ(own.best().plan.kernels[0].firstLoader, std::nullopt);
}

TEST_F(ExplorationTest, TheBudgetCountsKernels) {
  ToyCompiler other([](const NetworkPlan &) { return 1.0; });
  Exploration small(network.problem, other, /*budget=*/4);
  ASSERT_FALSE(small.begin({plan::NetworkKnobs().withDefaults(), std::vector<plan::KernelPlan>(2)}));
  auto propose = [&](int64_t depth) { return small.propose([&](NetworkPlan &plan) { plan.kernels[0].depth = depth; }); };
  EXPECT_TRUE(propose(2)) << "two kernels, as the first plan had";
  EXPECT_FALSE(propose(3));
  EXPECT_EQ(other.estimates, 2u);
  EXPECT_EQ(small.notTried(), 1u);
}

TEST_F(ExplorationTest, TheProductHasStrategiesWithNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const std::unique_ptr<Strategy> &strategy : strategies())
    EXPECT_TRUE(names.insert(strategy->name()).second) << strategy->name();
  EXPECT_TRUE(names.count("line-buffers"));
}

/// A strategy leaves alone what was asked for.
TEST_F(ExplorationTest, WhatIsAskedForStays) {
  network.problem.asked.bus = plan::Bus::Shared;
  network.problem.asked.priority = plan::Priority::Alap;
  network.problem.asked.plannedTiles = false; // toy kernels have no work to plan
  NetworkPlan first{network.problem.asked.withDefaults(), std::vector<plan::KernelPlan>(2)};
  ToyCompiler any([n = 1000.0](const NetworkPlan &) mutable { return --n; }); // every proposal is taken
  Exploration all(network.problem, any, 100000);
  ASSERT_FALSE(exploreGreedily(all));
  for (const Outcome &outcome : all.all()) {
    EXPECT_EQ(outcome.plan.network.bus, plan::Bus::Shared);
    EXPECT_EQ(outcome.plan.network.priority, plan::Priority::Alap);
  }
  EXPECT_EQ(all.best().plan.network.weightPrefetch, plan::WeightPrefetch::Early) << "what was left open changes";
}
} // namespace
