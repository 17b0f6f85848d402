//===- OdometerTest.cpp - Executions in loops, derived by hand --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/Odometer.h"

#include <gtest/gtest.h>

#include <functional>

using namespace tw;
using namespace tw::isa;

namespace {

Instruction parsed(const std::string &text) {
  Result<Instruction> instruction = parse(text);
  EXPECT_TRUE(instruction) << instruction.message();
  return *instruction;
}

/// `value` of each execution; -1 where the predicate drops it.
std::vector<int64_t> executions(const std::string &text, int number, std::function<int64_t(const Instruction &)> value) {
  Instruction instruction = parsed(text);
  OdometerState state;
  std::vector<int64_t> values;
  for (int i = 0; i < number; ++i) {
    std::optional<Instruction> now = resolve(instruction, state);
    if (now) {
      EXPECT_EQ(now->header.num_levels, 0);
      EXPECT_TRUE(fits(*now));
    }
    values.push_back(now ? value(*now) : -1);
  }
  return values;
}

int64_t tensorAddress(const Instruction &i) { return i.as<Tensor>().address; }
int64_t waits(const Instruction &i) { return i.header.wait_count[0]; }
int64_t posts(const Instruction &i) { return i.header.post_count[0]; }
int64_t ran(const Instruction &) { return 1; }

using Values = std::vector<int64_t>;

} // namespace

TEST(OdometerTest, Level0TurnsFastestAndTheLastExecutionStartsAnew) {
  EXPECT_EQ(executions("tensor address=100 levels=[{count=2 stride_b=1},"
                       "{count=3 stride_b=10}]",
                       8, tensorAddress),
            (Values{100, 101, 110, 111, 120, 121, 100, 101}));
}

TEST(OdometerTest, WrapCountsModulo) {
  // The counter runs to 5, the address sees 0 1 2 0 1.
  EXPECT_EQ(executions("tensor levels=[{count=5 wrap=3 stride_b=16}]", 6, tensorAddress), (Values{0, 16, 32, 0, 16, 0}));
}

TEST(OdometerTest, NegativeStridesMayLeaveTheField) {
  Instruction instruction = parsed("tensor address=1 levels=[{count=2 stride_b=-4}]");
  OdometerState state;
  resolve(instruction, state);
  EXPECT_EQ(resolve(instruction, state)->as<Tensor>().address, -3);
}

TEST(OdometerTest, WithoutLevelsEveryExecutionIsTheSame) {
  EXPECT_EQ(executions("tensor address=7 wait=[1:2] post=[1:1]", 3, tensorAddress), (Values{7, 7, 7}));
}

TEST(OdometerTest, StridesReachTheirAddresses) {
  const std::string levels = " levels=[{count=2 stride_a=1 stride_b=2 stride_c=3 stride_d=4}]";
  auto second = [&](const std::string &mnemonic) {
    Instruction instruction = parsed(mnemonic + levels);
    OdometerState state;
    resolve(instruction, state);
    return *resolve(instruction, state);
  };
  for (const char *mnemonic : {"load", "store"}) {
    Instruction i = second(mnemonic);
    EXPECT_EQ(i.getIf<Load>() ? i.as<Load>().dram_address : i.as<Store>().dram_address, 1);
    EXPECT_EQ(i.getIf<Load>() ? i.as<Load>().address : i.as<Store>().address, 2);
  }
  EXPECT_EQ(second("preload").as<Preload>().address, 2);
  EXPECT_EQ(second("tensor").as<Tensor>().address, 2);
  EXPECT_EQ(second("tensor").as<Tensor>().acc_address, 3);
  Vector v = second("vector").as<Vector>();
  EXPECT_EQ(v.p_address, 1);
  EXPECT_EQ(v.a_address, 2);
  EXPECT_EQ(v.b_address, 3);
  EXPECT_EQ(v.d_address, 4);
}

TEST(OdometerTest, PredicatesLookAtTheirMaskOnly) {
  // Counters over 2 x 3 executions: (0,0) (1,0) (0,1) (1,1) (0,2) (1,2).
  auto run = [](const std::string &predicate) {
    return executions("tensor " + predicate + " levels=[{count=2},{count=3}]", 6, ran);
  };
  EXPECT_EQ(run("predicate=first predicate_mask=1"), (Values{1, -1, 1, -1, 1, -1}));
  EXPECT_EQ(run("predicate=first predicate_mask=2"), (Values{1, 1, -1, -1, -1, -1}));
  EXPECT_EQ(run("predicate=first predicate_mask=3"), (Values{1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(run("predicate=not_first predicate_mask=3"), (Values{-1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(run("predicate=last predicate_mask=2"), (Values{-1, -1, -1, -1, 1, 1}));
  EXPECT_EQ(run("predicate=not_last predicate_mask=3"), (Values{1, 1, 1, 1, 1, -1}));
  EXPECT_EQ(run(""), (Values{1, 1, 1, 1, 1, 1}));
}

TEST(OdometerTest, DroppedExecutionsAdvanceToo) {
  EXPECT_EQ(executions("tensor predicate=not_first predicate_mask=1 "
                       "levels=[{count=3 stride_b=1}]",
                       6, tensorAddress),
            (Values{-1, 1, 2, -1, 1, 2}));
}

TEST(OdometerTest, WaitsAtTheFirstAndPostsAtTheLastIteration) {
  const std::string text = "tensor wait=[5:2] wait_mask=1 post=[6:3] "
                           "post_mask=3 levels=[{count=2},{count=2}]";
  EXPECT_EQ(executions(text, 4, waits), (Values{2, 0, 2, 0}));
  EXPECT_EQ(executions(text, 4, posts), (Values{0, 0, 0, 3}));
  const std::string unmasked = "tensor wait=[5:2] post=[6:3] levels=[{count=2}]";
  EXPECT_EQ(executions(unmasked, 2, waits), (Values{2, 2}));
  EXPECT_EQ(executions(unmasked, 2, posts), (Values{3, 3}));
}

TEST(OdometerTest, ClearMaskOverwritesWhileFirst) {
  auto accumulate = [](const Instruction &i) {
    EXPECT_EQ(i.as<Tensor>().clear_mask, 0);
    return i.as<Tensor>().accumulate;
  };
  const std::string levels = " levels=[{count=2},{count=2}]";
  EXPECT_EQ(executions("tensor clear_mask=1" + levels, 4, accumulate), (Values{0, 1, 0, 1}));
  // The mask decides, whatever accumulate says.
  EXPECT_EQ(executions("tensor accumulate=1 clear_mask=3" + levels, 4, accumulate), (Values{0, 1, 1, 1}));
  EXPECT_EQ(executions("tensor accumulate=1" + levels, 4, accumulate), (Values{1, 1, 1, 1}));
  EXPECT_EQ(executions("tensor" + levels, 4, accumulate), (Values{0, 0, 0, 0}));
}

TEST(OdometerTest, EdgesChangeExtentsInTheLastIteration) {
  const std::string text = "load counts=[8,4,1,1,1] edge=[0:0:5,1:1:2] "
                           "levels=[{count=3},{count=2}]";
  auto count = [](int index) { return [index](const Instruction &i) { return i.as<Load>().counts[index]; }; };
  EXPECT_EQ(executions(text, 6, count(0)), (Values{8, 8, 5, 8, 8, 5}));
  EXPECT_EQ(executions(text, 6, count(1)), (Values{4, 4, 4, 2, 2, 2}));
  EXPECT_EQ(executions(text, 6, count(2)), (Values{1, 1, 1, 1, 1, 1}));
}

TEST(OdometerTest, ResolvingTheResultChangesNothing) {
  Instruction instruction = parsed("tensor address=8 wait=[5:2] wait_mask=1 clear_mask=1 "
                                   "predicate=last predicate_mask=2 counts=[4,4,4] edge=[0:1:2] "
                                   "levels=[{count=2 stride_b=8},{count=1}]");
  OdometerState state;
  for (int i = 0; i < 2; ++i) {
    Instruction now = *resolve(instruction, state);
    OdometerState fresh;
    EXPECT_EQ(*resolve(now, fresh), now);
  }
  EXPECT_EQ(state.counter, OdometerState().counter);
}

TEST(OdometerTest, WhatTheInstructionHeldBeforeDoesNotMatter) {
  const Instruction instruction =
      parsed("tensor address=8 wait=[5:2] wait_mask=1 predicate=not_first predicate_mask=2 counts=[4,4,4] "
             "levels=[{count=2 stride_b=8},{count=2}]");
  OdometerState state, same;
  Instruction into = parsed("load counts=[8,4,1,1,1] edge=[0:0:5] levels=[{count=3},{count=2}]");
  for (int i = 0; i < 4; ++i) {
    const bool dropped = isDropped(instruction, state);
    EXPECT_EQ(dropped, i < 2);
    EXPECT_EQ(resolve(instruction, state, into), !dropped);
    const std::optional<Instruction> fresh = resolve(instruction, same);
    EXPECT_EQ(fresh.has_value(), !dropped);
    if (fresh) {
      EXPECT_EQ(into, *fresh);
    }
  }
}

TEST(OdometerTest, CountersReachTheLargestCount) {
  Instruction instruction = parsed("tensor levels=[{count=65535},{count=2}]");
  OdometerState state;
  for (int i = 0; i < 65535; ++i)
    advance(instruction, state);
  EXPECT_EQ(state.counter[0], 0);
  EXPECT_EQ(state.counter[1], 1);
}
