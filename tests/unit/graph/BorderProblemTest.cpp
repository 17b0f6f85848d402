//===- BorderProblemTest.cpp - Which borders of kernels are moved ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/BorderProblem.h"
#include <gtest/gtest.h>
#include <random>

using namespace tw::graph;

namespace {

/// The largest gain of all choices without a fault.
int64_t bestOfAll(const BorderProblem &problem) {
  int64_t best = 0;
  for (unsigned bits = 0; bits < 1u << problem.alternatives.size(); ++bits) {
    BorderChoice choice;
    for (unsigned i = 0; i < problem.alternatives.size(); ++i)
      if (bits >> i & 1)
        choice.push_back(i);
    if (whatIsWrong(problem, choice).empty())
      best = std::max(best, gainOf(problem, choice));
  }
  return best;
}

TEST(BorderProblem, SolvesLikeBruteForce) {
  std::mt19937 random(1);
  auto upTo = [&](unsigned most) { return unsigned(random() % (most + 1)); };
  for (int round = 0; round < 500; ++round) {
    BorderProblem problem;
    for (unsigned i = upTo(10); i > 0; --i) {
      BorderProblem::Alternative alternative;
      const unsigned kernel = upTo(8);
      alternative.kernels = {kernel};
      if (upTo(1))
        alternative.kernels.push_back(kernel + 1 + upTo(3));
      alternative.gain = int64_t(upTo(200)) - 60;
      problem.alternatives.push_back(alternative);
    }
    const BorderChoice choice = solve(problem);
    EXPECT_EQ(whatIsWrong(problem, choice), "");
    EXPECT_EQ(gainOf(problem, choice), bestOfAll(problem));
  }
}

TEST(BorderProblem, ManyThatHangTogetherAreNoWorseThanTheRules) {
  BorderProblem problem;
  for (unsigned i = 0; i < 200; ++i)
    problem.alternatives.push_back({{i, i + 1}, i % 3 ? 10 : -5});
  const BorderChoice choice = solve(problem);
  EXPECT_EQ(whatIsWrong(problem, choice), "");
  EXPECT_GT(gainOf(problem, choice), 0);
}

TEST(BorderProblem, TakesNothingWithoutGain) { EXPECT_TRUE(solve({{{{0}, 0}, {{1, 2}, -1}}}).empty()); }

TEST(BorderProblem, NamesWhatIsWrong) {
  const BorderProblem problem{{{{0, 1}, 1}, {{2}, 1}, {{1}, 1}}};
  EXPECT_EQ(whatIsWrong(problem, {0, 1}), "");
  EXPECT_EQ(whatIsWrong(problem, {0, 2}), "alternatives 0 and 2 both change kernel 1");
  EXPECT_EQ(whatIsWrong(problem, {3}), "alternative 3 is taken, there are 3");
}

} // namespace
