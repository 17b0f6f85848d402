//===- OrderTest.cpp - Orders of steps and their peaks ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/memory/OrderSearch.h"
#include "compiler/memory/OrderVerifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace tw::memory;

namespace {

uint64_t verifiedPeak(const OrderProblem &problem, const std::vector<unsigned> &order) {
  llvm::Expected<uint64_t> peak = peakOf(problem, order);
  if (!peak) {
    ADD_FAILURE() << llvm::toString(peak.takeError());
    return UINT64_MAX;
  }
  return *peak;
}

std::vector<unsigned> asGiven(const OrderProblem &problem) {
  std::vector<unsigned> order(problem.steps.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

/// The least peak of all orders.
uint64_t leastPeak(const OrderProblem &problem) {
  std::vector<unsigned> order = asGiven(problem);
  uint64_t least = UINT64_MAX;
  do {
    if (llvm::Expected<uint64_t> peak = peakOf(problem, order))
      least = std::min(least, *peak);
    else
      llvm::consumeError(peak.takeError());
  } while (std::next_permutation(order.begin(), order.end()));
  return least;
}

/// Each step writes one buffer and reads those of some earlier steps; `parts` of the buffers are written by two steps.
OrderProblem randomProblem(std::mt19937 &random, unsigned count) {
  OrderProblem problem;
  for (unsigned step = 0; step < count; ++step) {
    OrderProblem::Step next;
    for (unsigned other = 0; other < step; ++other)
      if (random() % 3 == 0) {
        next.after.push_back(other);
        const unsigned buffer = problem.steps[other].buffers.back();
        if (std::find(next.buffers.begin(), next.buffers.end(), buffer) == next.buffers.end())
          next.buffers.push_back(buffer);
      }
    const bool isPart = step > 0 && random() % 6 == 0; // of what the step before writes
    const unsigned written = isPart ? problem.steps[step - 1].buffers.back() : unsigned(problem.bufferBytes.size());
    if (!isPart)
      problem.bufferBytes.push_back(random() % 9);
    next.buffers.erase(std::remove(next.buffers.begin(), next.buffers.end(), written), next.buffers.end());
    next.buffers.push_back(written);
    problem.steps.push_back(std::move(next));
  }
  return problem;
}

/// A step reads buffers and writes one; which steps come earlier follows from what they write.
struct Network : OrderProblem {
  unsigned add(uint64_t bytes, std::vector<unsigned> reads) {
    Step step;
    step.after = step.buffers = std::move(reads); // step i writes buffer i
    step.buffers.push_back(unsigned(bufferBytes.size()));
    bufferBytes.push_back(bytes);
    steps.push_back(std::move(step));
    return unsigned(steps.size() - 1);
  }
};

TEST(OrderSearchTest, NoOrderOfASmallProblemIsBetter) {
  std::mt19937 random(1);
  for (unsigned i = 0; i < 400; ++i) {
    const OrderProblem problem = randomProblem(random, 2 + i % 6);
    const Order order = orderSteps(problem);
    const uint64_t least = leastPeak(problem);
    ASSERT_EQ(verifiedPeak(problem, order.steps), order.peakBytes) << "problem " << i;
    ASSERT_EQ(order.peakBytes, least) << "problem " << i;
    ASSERT_EQ(order.boundBytes, least) << "problem " << i;
    ASSERT_LE(peakBound(problem), least) << "problem " << i;
  }
}

TEST(OrderSearchTest, ABeamAloneIsNoWorseThanTheGivenOrderAndNeverBelowTheBound) {
  std::mt19937 random(2);
  for (unsigned i = 0; i < 60; ++i) {
    const OrderProblem problem = randomProblem(random, 20 + i % 40);
    OrderLimits limits;
    limits.states = 0;
    const Order beam = orderSteps(problem, limits), exact = orderSteps(problem);
    EXPECT_EQ(verifiedPeak(problem, beam.steps), beam.peakBytes);
    EXPECT_EQ(verifiedPeak(problem, exact.steps), exact.peakBytes);
    EXPECT_LE(beam.peakBytes, verifiedPeak(problem, asGiven(problem)));
    EXPECT_LE(exact.peakBytes, beam.peakBytes);
    EXPECT_LE(exact.boundBytes, exact.peakBytes);
    EXPECT_LE(beam.boundBytes, exact.boundBytes);
  }
}

/// Two branches from one tensor, a large and a small one: the small result waits for the other branch, not the large one.
TEST(OrderSearchTest, TheBranchThatLeavesLittleGoesFirst) {
  Network network;
  const unsigned x = network.add(10, {});
  const unsigned wide = network.add(50, {x}); // kept until the end
  const unsigned a = network.add(60, {x}), b = network.add(1, {a});
  network.add(50, {wide, b});
  // As given: the wide branch's 50 beside x and a. Else x, a; x, wide, b; wide, b and the result.
  EXPECT_EQ(verifiedPeak(network, asGiven(network)), 120u);
  const Order order = orderSteps(network);
  EXPECT_EQ(order.peakBytes, 101u);
  EXPECT_TRUE(order.isOptimal());
  EXPECT_EQ(order.steps, (std::vector<unsigned>{0, 2, 3, 1, 4}));
}

TEST(OrderSearchTest, AnOrderThatNothingImprovesStays) {
  Network network;
  const unsigned x = network.add(4, {});
  const unsigned a = network.add(4, {x}), b = network.add(4, {x});
  network.add(4, {a, b});
  EXPECT_EQ(orderSteps(network).steps, asGiven(network));
}

/// Tensors that must be alive although a step does not touch them: the skip connection around it.
TEST(OrderSearchTest, TheBoundCountsSkipConnections) {
  Network network;
  const unsigned x = network.add(100, {});
  const unsigned a = network.add(10, {x}), b = network.add(10, {a});
  network.add(100, {x, b});
  EXPECT_EQ(peakBound(network), 210u);
  Network inner;
  const unsigned skip = inner.add(100, {});
  const unsigned c = inner.add(200, {skip}), d = inner.add(200, {c});
  inner.add(1, {skip, d});
  EXPECT_EQ(peakBound(inner), 500u);
}

/// A hundred branches of two steps, summed up: exponentially many orders, and chains that end as small as they begin.
TEST(OrderSearchTest, WideNetworksCollapse) {
  Network network;
  const unsigned x = network.add(1000, {});
  std::vector<unsigned> results;
  for (unsigned branch = 0; branch < 100; ++branch)
    results.push_back(network.add(300, {network.add(500 + branch, {x})}));
  unsigned sum = results[0];
  for (unsigned branch = 1; branch < 100; ++branch)
    sum = network.add(300, {sum, results[branch]});
  const Order order = orderSteps(network);
  EXPECT_EQ(verifiedPeak(network, order.steps), order.peakBytes);
  EXPECT_TRUE(order.isOptimal());
  // x, the sum so far, the tensors of the largest branch but one: behind the last one's first step x is no longer alive.
  EXPECT_LE(order.peakBytes, 1000u + 300 + 599 + 300);
  EXPECT_GT(verifiedPeak(network, asGiven(network)), 2 * order.peakBytes);
}

TEST(OrderSearchTest, ALongChainIsDoneAtOnce) {
  Network network;
  unsigned last = network.add(8, {});
  for (unsigned i = 0; i < 20000; ++i)
    last = network.add(8 + i % 3, {last});
  const Order order = orderSteps(network);
  EXPECT_TRUE(order.isOptimal());
  EXPECT_EQ(order.peakBytes, 19u);
}

TEST(OrderSearchTest, NothingHasNoPeak) {
  const Order order = orderSteps({});
  EXPECT_TRUE(order.steps.empty());
  EXPECT_EQ(order.peakBytes, 0u);
}

TEST(OrderVerifierTest, OrdersThatAreNoneAreRefused) {
  Network network;
  network.add(1, {network.add(1, {})});
  auto errorOf = [&](const std::vector<unsigned> &order) {
    llvm::Expected<uint64_t> peak = peakOf(network, order);
    return peak ? "" : llvm::toString(peak.takeError());
  };
  EXPECT_EQ(errorOf({0, 1}), "");
  EXPECT_EQ(errorOf({0}), "the order has 1 steps, expected 2");
  EXPECT_EQ(errorOf({0, 0}), "step 0 comes at positions 0 and 1 of the order");
  EXPECT_EQ(errorOf({0, 2}), "position 1 of the order has step 2, expected less than 2");
  EXPECT_EQ(errorOf({1, 0}), "step 1 at position 0 must follow step 0 at position 1");
}

} // namespace
