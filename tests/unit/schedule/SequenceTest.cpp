//===- SequenceTest.cpp - Tile programs one after the other -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Sequence.h"
#include "compiler/schedule/Synchronize.h"
#include "hw-configs/Machine.h"

#include <gtest/gtest.h>

using namespace tw;
using schedule::Operation;
using schedule::TileProgram;

namespace {

timing::MachineParams tiny() { return *hwconfigs::loadMachine("tiny_8x8"); }

TileProgram stream(const std::vector<std::string> &lines, const timing::MachineParams &machine) {
  TileProgram program;
  for (const std::string &line : lines) {
    Operation operation;
    operation.instruction = *isa::parse(line);
    operation.regions = schedule::regionsOf(operation.instruction, machine);
    program.blocks.push_back({1, {operation}});
  }
  return program;
}

int64_t waits(const TileProgram &program, size_t block) {
  int64_t count = 0;
  for (int64_t n : program.blocks[block].operations[0].instruction.header.wait_count)
    count += n;
  return count;
}

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
