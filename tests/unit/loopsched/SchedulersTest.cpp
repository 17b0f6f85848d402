//===- SchedulersTest.cpp - The built-in schedulers on small kernels ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/research/loopsched/SchedulerRegistry.h"
#include "tests/unit/loopsched/ExactModel.h"
#include "tests/unit/loopsched/RandomKernel.h"

#include <gtest/gtest.h>

#include <set>

using namespace tw;
using namespace tw::loopsched;

namespace {

constexpr uint64_t kKernels = 100;

class EverySchedulerTest : public testing::TestWithParam<const char *> {};

TEST_P(EverySchedulerTest, AllKernelsGetARightSchedule) {
  for (uint64_t seed = 1; seed <= kKernels; ++seed) {
    Problem problem = test::randomKernel(seed);
    Result<Schedule> schedule = runScheduler(GetParam(), problem);
    ASSERT_TRUE(schedule) << "kernel " << seed << ": " << schedule.message();
    EXPECT_EQ(verify(problem, *schedule), std::vector<std::string>()) << "kernel " << seed;
    EXPECT_GE(schedule->ii, std::max(resourceBound(problem), recurrenceBound(problem))) << "kernel " << seed;
  }
}

TEST_P(EverySchedulerTest, EqualSeedsGiveEqualSchedules) {
  for (uint64_t seed = 1; seed <= kKernels; ++seed) {
    Problem problem = test::randomKernel(seed);
    Result<Schedule> first = runScheduler(GetParam(), problem), second = runScheduler(GetParam(), problem);
    EXPECT_EQ(first->ii, second->ii) << "kernel " << seed;
    EXPECT_EQ(first->start, second->start) << "kernel " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Builtin, EverySchedulerTest, testing::Values("serial", "double_buffer", "modulo", "search"),
                         [](const testing::TestParamInfo<const char *> &info) { return info.param; });

TEST(SchedulersTest, EachIsAtLeastAsGoodAsTheSimplerOne) {
  for (uint64_t seed = 1; seed <= kKernels; ++seed) {
    Problem problem = test::randomKernel(seed);
    Cycles serial = runScheduler("serial", problem)->ii, doubleBuffer = runScheduler("double_buffer", problem)->ii;
    Cycles modulo = runScheduler("modulo", problem)->ii, search = runScheduler("search", problem)->ii;
    EXPECT_LE(search, modulo) << "kernel " << seed;
    EXPECT_LE(modulo, doubleBuffer) << "kernel " << seed;
    EXPECT_LE(doubleBuffer, serial) << "kernel " << seed;
  }
}

TEST(SchedulersTest, DoubleBufferNeverHasMoreThanTwoSlots) {
  for (uint64_t seed = 1; seed <= kKernels; ++seed) {
    Schedule schedule = *runScheduler("double_buffer", test::randomKernel(seed));
    for (const Schedule::Ring &ring : schedule.rings)
      EXPECT_LE(ring.depth, 2u) << "kernel " << seed;
  }
}

/// A load of 10 cycles that takes `latency`, and 10 cycles of work on what it brought.
Problem stream(Cycles latency, int64_t slots) {
  Problem problem;
  problem.resources = {{"load"}, {"tensor"}};
  problem.memories = {{"scratchpad", slots, 64}};
  problem.operations = {{"load", {{0, 10}}, latency}, {"tensor", {{1, 10}}, 10}};
  problem.buffers = {{"x", 0, 64, 0, {{1, 0}}, 0}};
  return problem;
}

TEST(SchedulersTest, ModuloHidesAnyLatencyWithEnoughSlots) {
  // A slot is taken for 95 + 10 cycles of every 10: eleven of them make the interval independent of the latency.
  EXPECT_EQ(runScheduler("modulo", stream(95, 11))->ii, 10);
  EXPECT_EQ(runScheduler("modulo", stream(95, 11))->depth(0), 11u);
  // With ten: 105 / 10, rounded up.
  EXPECT_EQ(runScheduler("modulo", stream(95, 10))->ii, 11);
}

TEST(SchedulersTest, BuffersThatNeverLiveTogetherShareARing) {
  // a lives while 0 and 1 run, c while 2 and 3 do; the memory has one bank.
  Problem problem;
  problem.resources = {{"r0"}, {"r1"}, {"r2"}, {"r3"}};
  problem.memories = {{"scratchpad", 1, 64}, {"other", 4, 64}};
  for (unsigned i = 0; i < 4; ++i)
    problem.operations.push_back({"op " + std::to_string(i), {{i, 10}}, 10});
  problem.buffers = {{"a", 0, 64, 0, {{1, 0}}, 0}, {"b", 1, 64, 1, {{2, 0}}, 0}, {"c", 0, 64, 2, {{3, 0}}, 0}};
  for (const char *name : {"serial", "double_buffer", "modulo", "search"}) {
    Result<Schedule> schedule = runScheduler(name, problem);
    ASSERT_TRUE(schedule) << name << ": " << schedule.message();
    EXPECT_EQ(schedule->placements[0].ring, schedule->placements[2].ring) << name;
    EXPECT_EQ(schedule->ii, 40) << name;
  }
}

TEST(SchedulersTest, WhatFitsNoMemoryIsAnErrorOfEveryScheduler) {
  // x and y both live while the second operation runs, but there is one bank.
  Problem problem = stream(10, 1);
  problem.buffers.push_back({"y", 0, 64, 1, {}, 0});
  for (const std::string &name : schedulers().names()) {
    Result<Schedule> schedule = runScheduler(name, problem);
    ASSERT_FALSE(schedule) << name;
    EXPECT_EQ(schedule.message(), "the buffers of one iteration do not fit into the memories") << name;
  }
}

TEST(SchedulersTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  EXPECT_EQ(runScheduler("best", stream(10, 2)).message(),
            "there is no scheduler 'best', expected one of serial, double_buffer, modulo, search");
}

TEST(RandomKernelTest, AtLeastThreeResourcesHaveSeveralUsers) {
  for (uint64_t seed = 1; seed <= kKernels; ++seed) {
    Problem problem = test::randomKernel(seed);
    std::multiset<unsigned> users;
    for (const Problem::Operation &operation : problem.operations)
      for (const Problem::Use &use : operation.uses)
        users.insert(use.resource);
    unsigned contended = 0;
    for (unsigned r = 0; r < problem.resources.size(); ++r)
      contended += users.count(r) > 1;
    EXPECT_GE(contended, 3u) << "kernel " << seed;
  }
}

TEST(RandomKernelTest, MemoryLimitsHalfOfTheKernels) {
  unsigned limited = 0;
  for (uint64_t seed = 1; seed <= kKernels; ++seed) {
    Problem problem = test::randomKernel(seed), roomy = problem;
    for (Problem::Memory &memory : roomy.memories)
      memory.banks = 1000;
    limited += runScheduler("search", roomy)->ii < runScheduler("search", problem)->ii;
  }
  EXPECT_GE(limited, 50u);
}

class OptimumTest : public testing::TestWithParam<uint64_t> {};

TEST_P(OptimumTest, SearchFindsItAndNothingBelowIsPossible) {
  if (!test::haveZ3())
    GTEST_SKIP() << "z3 is not installed (Debian package z3)";
  Problem problem = test::randomKernel(GetParam());
  Cycles lower = std::max(resourceBound(problem), recurrenceBound(problem));
  Schedule found = *runScheduler("search", problem);
  ASSERT_GT(found.ii, lower);
  test::Optimum optimum = test::findOptimum(problem, lower, found, 480, true);
  EXPECT_EQ(optimum.contradiction, "");
  EXPECT_TRUE(optimum.every) << "an initiation interval is undecided";
  EXPECT_EQ(optimum.ii, found.ii);
}

// Their optimum is above max(ResMII, RecMII), by 10 to 155 cycles.
INSTANTIATE_TEST_SUITE_P(Kernels, OptimumTest, testing::Values(10, 24, 34, 70, 90, 95));

} // namespace
