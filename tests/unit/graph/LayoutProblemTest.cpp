//===- LayoutProblemTest.cpp - Which values lie channels last -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The reference tries all labels, and sums costs by their definition in code of its own.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/LayoutProblem.h"
#include <gtest/gtest.h>
#include <random>

using namespace tw::graph;

namespace {

/// The same problem twice: as the solver sees it, and as plain data.
struct Problem {
  LayoutProblem problem;
  std::vector<int> pins; ///< -1: open
  std::vector<std::array<int64_t, 2>> costs;
  std::vector<LayoutProblem::Conversion> conversions;

  explicit Problem(unsigned nodes) : pins(nodes, -1), costs(nodes) {
    for (unsigned i = 0; i < nodes; ++i)
      problem.add();
  }
  void pin(unsigned node, bool label) {
    pins[node] = label;
    problem.pin(node, label);
  }
  void addCost(unsigned node, bool label, int64_t cost) {
    costs[node][label] += cost;
    problem.addCost(node, label, cost);
  }
  void addConversion(const LayoutProblem::Conversion &conversion) {
    conversions.push_back(conversion);
    problem.addConversion(conversion);
  }

  int64_t sumOf(const std::vector<bool> &labels) const {
    int64_t sum = 0;
    for (size_t i = 0; i < labels.size(); ++i)
      sum += costs[i][labels[i] ? 1 : 0];
    for (const LayoutProblem::Conversion &conversion : conversions) {
      bool readLast = false, readAsInModel = false;
      for (unsigned reader : conversion.readers)
        (labels[reader] ? readLast : readAsInModel) = true;
      if (labels[conversion.made] && readAsInModel)
        sum += conversion.toModel;
      if (!labels[conversion.made] && readLast)
        sum += conversion.toLast;
    }
    return sum;
  }
  bool keepsPins(const std::vector<bool> &labels) const {
    for (size_t i = 0; i < labels.size(); ++i)
      if (pins[i] >= 0 && labels[i] != bool(pins[i]))
        return false;
    return true;
  }
  int64_t least() const {
    int64_t best = -1;
    for (uint32_t bits = 0; bits < 1u << pins.size(); ++bits) {
      std::vector<bool> labels;
      for (size_t i = 0; i < pins.size(); ++i)
        labels.push_back(bits >> i & 1);
      if (keepsPins(labels) && (best < 0 || sumOf(labels) < best))
        best = sumOf(labels);
    }
    return best;
  }
};

TEST(LayoutProblemTest, NoLabelsOfSmallGraphsCostLess) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](unsigned bound) { return unsigned(random() % bound); };
    const unsigned nodes = 1 + below(11);
    Problem problem(nodes);
    for (unsigned node = 0; node < nodes; ++node) {
      if (below(3) == 0)
        problem.pin(node, below(2) != 0);
      if (below(3) == 0)
        problem.addCost(node, below(2) != 0, below(20));
      for (bool last : {false, true}) // an op that can do either, at different costs
        if (below(3) == 0)
          problem.addCost(node, last, below(20));
    }
    for (unsigned i = below(3 * nodes); i > 0; --i) {
      LayoutProblem::Conversion conversion{below(nodes), {}, int64_t(below(20)), int64_t(below(20))};
      for (unsigned readers = below(4); readers > 0; --readers)
        conversion.readers.push_back(below(nodes));
      problem.addConversion(conversion);
    }
    const std::vector<bool> labels = problem.problem.solve();
    ASSERT_EQ(labels.size(), nodes);
    EXPECT_TRUE(problem.keepsPins(labels)) << "seed " << seed;
    EXPECT_EQ(problem.sumOf(labels), problem.least()) << "seed " << seed;
    EXPECT_EQ(problem.problem.costOf(labels), problem.sumOf(labels)) << "seed " << seed;
  }
}

TEST(LayoutProblemTest, ChainBetweenConvolutionsStaysChannelsLast) {
  // input -> convolution -> 100,000 steps -> convolution -> output: two conversions, at the borders.
  constexpr unsigned kSteps = 100000;
  Problem problem(kSteps + 4);
  const unsigned input = kSteps, first = kSteps + 1, last = kSteps + 2, output = kSteps + 3;
  problem.pin(input, false);
  problem.pin(first, true);
  problem.pin(last, true);
  problem.pin(output, false);
  problem.addConversion({input, {first}, 5, 5});
  problem.addConversion({first, {0}, 5, 5});
  for (unsigned step = 0; step + 1 < kSteps; ++step)
    problem.addConversion({step, {step + 1}, 5, 5});
  problem.addConversion({kSteps - 1, {last}, 5, 5});
  problem.addConversion({last, {output}, 5, 5});
  const std::vector<bool> labels = problem.problem.solve();
  EXPECT_EQ(std::count(labels.begin(), labels.end(), true), kSteps + 2);
  EXPECT_EQ(problem.sumOf(labels), 10);
}

TEST(LayoutProblemTest, WhatCanReadEitherLayoutDecidesWithItsNeighbours) {
  // A value that a reduction reads, as rows for 10 or channels last for 30; a conversion costs 50.
  auto labelOf = [](bool made, int64_t conversion, bool isAlsoReadLast) -> bool {
    Problem problem(3);
    problem.pin(0, made);
    problem.pin(1, isAlsoReadLast);
    problem.addCost(2, false, 10);
    problem.addCost(2, true, 30);
    problem.addConversion({0, {1, 2}, conversion, conversion});
    return problem.problem.solve()[2];
  };
  EXPECT_FALSE(labelOf(false, 50, false)); // as it comes
  EXPECT_TRUE(labelOf(true, 50, true));    // not worth a conversion
  EXPECT_FALSE(labelOf(true, 15, true));   // worth one
  EXPECT_FALSE(labelOf(true, 50, false));  // another reader has paid for it
}

TEST(LayoutProblemTest, ReadersShareAConversion) {
  // Three readers that must be channels last, each cheaper to convert alone than the value's own change of layout, but not together.
  Problem problem(5);
  problem.pin(0, false);
  problem.addCost(1, true, 7); // the value's own change
  for (unsigned reader : {2, 3, 4})
    problem.pin(reader, true);
  problem.addConversion({1, {2, 3, 4}, 6, 6});
  EXPECT_FALSE(problem.problem.solve()[1]);
}

} // namespace
