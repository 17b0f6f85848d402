//===- SequenceTest.cpp - Tile programs one after the other -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tests/unit/schedule/Streams.h"

#include "compiler/schedule/Sequence.h"
#include "compiler/schedule/Synchronize.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::schedule;

namespace {

int64_t waits(const TileProgram &program, size_t block) { return waits(program.blocks[block].operations[0]); }

// No two of these touch the same byte: only a border can make one wait.
const char *const kLoad = "load dram_address=0 address=0 counts=[64,1,1,1,1] span=64";
const char *const kOtherLoad = "load unit=1 dram_address=64 address=64 counts=[64,1,1,1,1] span=64";
const char *const kStore = "store address=128 dram_address=4096 counts=[64,1,1,1,1] span=64";

TEST(SequenceTest, APartWaitsForAllEnginesOfTheOneBefore) {
  timing::MachineParams machine = tiny();
  TileProgram program = schedule::inSequence({stream({kLoad, kOtherLoad}, machine), stream({kStore}, machine)}, machine);
  ASSERT_TRUE(schedule::synchronize(program, machine));
  EXPECT_EQ(waits(program, 2), 2);
}

TEST(SequenceTest, AnEngineWithoutWorkInOnePartIsWaitedForByTheNext) {
  timing::MachineParams machine = tiny();
  TileProgram program =
      schedule::inSequence({stream({kLoad}, machine), stream({kOtherLoad}, machine), stream({kStore}, machine)}, machine);
  ASSERT_TRUE(schedule::synchronize(program, machine));
  EXPECT_EQ(waits(program, 1), 1);
  // It learns of the first load through the second.
  EXPECT_EQ(waits(program, 2), 1);
}

TEST(SequenceTest, InsideAPartNothingWaitsThatNeedNot) {
  timing::MachineParams machine = tiny();
  TileProgram program =
      schedule::inSequence({stream({kLoad}, machine), stream({kOtherLoad, kStore, kOtherLoad}, machine)}, machine);
  ASSERT_TRUE(schedule::synchronize(program, machine));
  EXPECT_EQ(waits(program, 1), 1) << "for the part before";
  EXPECT_EQ(waits(program, 2), 1) << "for the part before, not for the other load";
  EXPECT_EQ(waits(program, 3), 0);
}

} // namespace
