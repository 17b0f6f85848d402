//===- SynchronizeTest.cpp - Semaphores that synchronisation adds ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "tests/unit/schedule/Streams.h"

#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/Verifier.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

using namespace tw;
using namespace tw::schedule;

namespace {

TEST(SynchronizeTest, IndependentEnginesGetNoSemaphore) {
  timing::MachineParams machine = tiny();
  TileProgram program =
      stream({"load counts=[64,1,1,1,1] span=64", "load unit=1 address=64 counts=[64,1,1,1,1] span=64"}, machine);
  ASSERT_TRUE(schedule::synchronize(program, machine));
  for (const schedule::Block &block : program.blocks)
    EXPECT_EQ(waits(block.operations[0]), 0);
}

TEST(SynchronizeTest, AStoreWaitsOnceForTheLoadItReads) {
  timing::MachineParams machine = tiny();
  TileProgram program = stream({"load counts=[64,1,1,1,1] span=64", "store dram_address=4096 counts=[64,1,1,1,1] span=64",
                                "store dram_address=8192 counts=[64,1,1,1,1] span=64"},
                               machine);
  ASSERT_TRUE(schedule::synchronize(program, machine));
  EXPECT_EQ(waits(program.blocks[1].operations[0]), 1);
  EXPECT_EQ(waits(program.blocks[2].operations[0]), 0) << "the store engine already knows";
}

TEST(SynchronizeTest, ABarrierWaitsForEveryEngineBeforeIt) {
  timing::MachineParams machine = tiny();
  TileProgram program = stream({"load counts=[64,1,1,1,1] span=64", "load unit=1 address=64 counts=[64,1,1,1,1] span=64",
                                "store address=128 dram_address=4096 counts=[64,1,1,1,1] span=64"},
                               machine);
  program.blocks[2].operations[0].barrier = true;
  ASSERT_TRUE(schedule::synchronize(program, machine));
  EXPECT_EQ(waits(program.blocks[2].operations[0]), 2);
}

TEST(SynchronizeTest, ATurnOfTheBusWaitsForTransfersInTheOtherDirection) {
  timing::MachineParams machine = tiny();
  auto turn = [&] {
    TileProgram program = stream({"load counts=[64,1,1,1,1] span=64", "load unit=1 address=64 counts=[64,1,1,1,1] span=64",
                                  "store address=128 dram_address=4096 counts=[64,1,1,1,1] span=64",
                                  "load address=192 counts=[64,1,1,1,1] span=64"},
                                 machine);
    program.blocks[2].operations[0].turns = program.blocks[3].operations[0].turns = true;
    EXPECT_TRUE(schedule::synchronize(program, machine));
    return std::pair(waits(program.blocks[2].operations[0]), waits(program.blocks[3].operations[0]));
  };
  EXPECT_EQ(turn(), std::pair(int64_t(2), int64_t(1)));
  machine.semaphores = 2; // kept for what has to wait
  EXPECT_EQ(turn().second, 0);
}

TEST(SynchronizeTest, ARoundOfLoadsBeginsWhenTheOtherEngineHasDoneTheOneBefore) {
  timing::MachineParams machine = tiny();
  auto waitsOfRounds = [&](std::array<uint32_t, 4> rounds) {
    TileProgram program =
        stream({"load counts=[64,1,1,1,1] span=64", "load unit=1 address=64 counts=[64,1,1,1,1] span=64",
                "load address=128 counts=[64,1,1,1,1] span=64", "load unit=1 address=192 counts=[64,1,1,1,1] span=64"},
               machine);
    for (size_t i = 0; i < rounds.size(); ++i)
      program.blocks[i].operations[0].round = rounds[i];
    EXPECT_TRUE(schedule::synchronize(program, machine));
    std::array<int64_t, 4> counts;
    for (size_t i = 0; i < counts.size(); ++i)
      counts[i] = waits(program.blocks[i].operations[0]);
    return counts;
  };
  EXPECT_EQ(waitsOfRounds({0, 0, 0, 0}), (std::array<int64_t, 4>{0, 0, 0, 0}));
  EXPECT_EQ(waitsOfRounds({1, 1, 2, 2}), (std::array<int64_t, 4>{0, 0, 1, 1}));
  machine.semaphores = 2; // kept for what has to wait
  EXPECT_EQ(waitsOfRounds({1, 1, 2, 2})[3], 0);
}

TEST(SynchronizeTest, APassThatYieldsWaitsForTheVectorEngine) {
  auto waitsOfPass = [](uint32_t yieldsTo) {
    const timing::MachineParams machine = tiny();
    TileProgram program = stream({"vector a_address=2304 a_span=64 a_strides=[8] d_address=2304 d_span=64 d_strides=[8] "
                                  "counts=[8,1,1,1] window=[1,1]",
                                  "tensor address=2048 span=8 counts=[1,1,1] acc_span=1 k_count=8"},
                                 machine);
    program.blocks[1].operations[0].yieldsTo = yieldsTo;
    EXPECT_TRUE(schedule::synchronize(program, machine));
    return waits(program.blocks[1].operations[0]);
  };
  EXPECT_EQ(waitsOfPass(0), 0);
  EXPECT_EQ(waitsOfPass(1), 1);
}

TEST(SynchronizeTest, AMachineWithTooFewSemaphoresIsNamed) {
  timing::MachineParams machine = tiny();
  machine.semaphores = 1;
  // load0 to store0, and store0 back to load0: two pairs.
  TileProgram program = stream({"load counts=[64,1,1,1,1] span=64", "store dram_address=4096 counts=[64,1,1,1,1] span=64",
                                "load dram_address=64 counts=[64,1,1,1,1] span=64"},
                               machine);
  EXPECT_EQ(schedule::synchronize(program, machine).message(), "the program needs 2 semaphores but machine 'tiny_8x8' has 1");
}

TEST(SynchronizeTest, PostsFurtherAheadThanASemaphoreCountsUseSeveralInTurn) {
  timing::MachineParams machine = tiny();
  machine.semaphoreMax = 3;
  std::vector<std::string> lines;
  auto slot = [](int i) { return " address=" + std::to_string(i * 64) + " counts=[64,1,1,1,1] span=64"; };
  for (int i = 0; i < 8; ++i)
    lines.push_back("load" + slot(i));
  for (int i = 0; i < 8; ++i)
    lines.push_back("store dram_address=" + std::to_string(4096 + i * 64) + slot(i));
  TileProgram program = stream(lines, machine);
  ASSERT_TRUE(schedule::synchronize(program, machine));
  Diagnostics problems = schedule::verifySchedule(encode(program), machine);
  EXPECT_TRUE(problems.empty()) << problems.front().str();
  machine.semaphores = 2;
  EXPECT_EQ(schedule::synchronize(program = stream(lines, machine), machine).message(),
            "the program needs 3 semaphores but machine 'tiny_8x8' has 2");
}

TEST(SynchronizeTest, AWaiterThatKeepsUpNeedsOneSemaphore) {
  // The store engine falls behind by no more than its queue, however long the program.
  timing::MachineParams machine = tiny();
  machine.semaphores = 1;
  std::vector<std::string> lines;
  for (int i = 0; i < 100; ++i) {
    const std::string slot = " address=" + std::to_string(i * 8) + " counts=[8,1,1,1,1] span=8";
    lines.push_back("load" + slot);
    lines.push_back("store dram_address=" + std::to_string(4096 + i * 8) + slot);
  }
  TileProgram program = stream(lines, machine);
  Result<bool> done = schedule::synchronize(program, machine);
  EXPECT_TRUE(done) << done.message();
}

TEST(SynchronizeTest, RandomStreamsVerify) {
  // Copies between random slots of the scratchpad and DRAM by three engines: whatever the stream, the independent verifier
  // must find every hazard ordered.
  timing::MachineParams machine = tiny();
  unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> lines;
    auto slot = [&] { return std::to_string(random() % 6 * 64); };
    for (int slots = 0; slots < 6; ++slots)
      lines.push_back("load address=" + std::to_string(slots * 64) + " counts=[64,1,1,1,1] span=64");
    for (int i = 0; i < 40; ++i)
      switch (random() % 4) {
      case 0:
        lines.push_back("load unit=" + std::to_string(random() % 2) + " dram_address=" + slot() + " address=" + slot() +
                        " counts=[64,1,1,1,1] span=64");
        break;
      case 1:
        lines.push_back("store dram_address=" + slot() + " address=" + slot() + " counts=[64,1,1,1,1] span=64");
        break;
      default:
        lines.push_back("vector a_address=" + slot() + " a_span=64 a_strides=[8] d_address=" + slot() +
                        " d_span=64 d_strides=[8] counts=[8,1,1,1] window=[1,1]");
      }
    TileProgram program = stream(lines, machine);
    Result<bool> done = schedule::synchronize(program, machine);
    ASSERT_TRUE(done) << "seed " << seed << ": " << done.message();
    Diagnostics problems = schedule::verifySchedule(encode(program), machine);
    ASSERT_TRUE(problems.empty()) << "seed " << seed << ": " << problems.front().str();
  }
}

TEST(SynchronizeTest, RandomStreamsOfAllEnginesVerifyWithASpareByte) {
  // An instruction has three waits, but a vector instruction may have to wait for four engines.
  timing::MachineParams machine = tiny();
  const int64_t spare = int64_t(machine.scratchpads[0].capacityBytes) - 64;
  unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> lines;
    auto slot = [&] { return std::to_string(random() % 3 * 64); };
    for (int slots = 0; slots < 3; ++slots)
      for (int unit = 0; unit < 2; ++unit)
        lines.push_back("load unit=" + std::to_string(unit) + " memory=scratchpad" + std::to_string(unit) +
                        " address=" + std::to_string(slots * 64) + " counts=[64,1,1,1,1] span=64");
    auto multiply = [&] {
      lines.push_back("preload memory=scratchpad1 address=" + slot() + " span=64 row_stride=8 k_count=8 n_count=8 is_signed=1");
      lines.push_back("tensor address=" + slot() +
                      " span=64 acc_span=8 counts=[8,1,1] strides=[8] acc_strides=[1] swap=1 "
                      "is_signed=1 k_count=8");
    };
    multiply();
    for (int i = 0; i < 30; ++i)
      switch (random() % 5) {
      case 0:
        lines.push_back("load unit=" + std::to_string(random() % 2) + " dram_address=" + slot() + " address=" + slot() +
                        " counts=[64,1,1,1,1] span=64");
        break;
      case 1:
        lines.push_back("load unit=1 memory=scratchpad1 dram_address=" + slot() + " address=" + slot() +
                        " counts=[64,1,1,1,1] span=64");
        break;
      case 2:
        lines.push_back("store dram_address=" + slot() + " address=" + slot() + " counts=[64,1,1,1,1] span=64");
        break;
      case 3:
        multiply();
        break;
      default:
        lines.push_back("vector a_memory=accumulator a_type=i32 a_span=256 a_strides=[32] b_enable=1 b_address=128 b_span=64 "
                        "b_strides=[8] d_type=i8 d_address=" +
                        std::to_string(random() % 2 * 64) + " d_span=64 d_strides=[8] counts=[8,1,1,1] window=[1,1]");
      }
    TileProgram program = stream(lines, machine);
    Result<bool> done = schedule::synchronize(program, machine, spare);
    ASSERT_TRUE(done) << "seed " << seed << ": " << done.message();
    Diagnostics problems = schedule::verifySchedule(encode(program), machine);
    ASSERT_TRUE(problems.empty()) << "seed " << seed << ": " << problems.front().str();
  }
}

TEST(SynchronizeTest, ALoadOfTheSpareByteWaitsForWhatAnInstructionCannot) {
  timing::MachineParams machine = tiny();
  const int64_t spare = int64_t(machine.scratchpads[0].capacityBytes) - 64;
  // The vector instruction has to wait for four engines, each of which has gone on since: nothing of theirs can take a wait for it.
  const std::vector<std::string> lines = {
      "load address=128 counts=[256,1,1,1,1] span=256",
      "preload address=128 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1",
      "load address=0 counts=[64,1,1,1,1] span=64",
      "load unit=1 address=64 counts=[64,1,1,1,1] span=64",
      "store address=128 dram_address=4096 counts=[64,1,1,1,1] span=64",
      "tensor address=128 span=64 acc_span=8 counts=[8,1,1] strides=[8] acc_strides=[1] swap=1 is_signed=1 k_count=8",
      "load address=192 counts=[64,1,1,1,1] span=64",
      "load unit=1 address=256 counts=[64,1,1,1,1] span=64",
      "store address=320 dram_address=8192 counts=[64,1,1,1,1] span=64",
      "tensor address=320 span=64 acc_address=8 acc_span=8 counts=[8,1,1] strides=[8] acc_strides=[1] is_signed=1 k_count=8",
      "vector a_address=0 a_span=64 a_strides=[8] b_enable=1 b_address=64 b_span=64 b_strides=[8] d_address=128 d_span=64 "
      "d_strides=[8] counts=[8,1,1,1] window=[1,1]"};
  TileProgram without = stream(lines, machine), with = without;
  Result<bool> done = schedule::synchronize(without, machine);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.diagnostics().front().kind, DiagnosticKind::TooManyWaits) << done.message();
  done = schedule::synchronize(with, machine, spare);
  ASSERT_TRUE(done) << done.message();
  ASSERT_EQ(with.blocks.size(), lines.size() + 1);
  const Operation &relay = with.blocks[lines.size() - 1].operations[0];
  EXPECT_EQ(relay.instruction->as<isa::Load>().address, spare);
  EXPECT_GE(waits(relay), 2);
  Diagnostics problems = schedule::verifySchedule(encode(with), machine);
  EXPECT_TRUE(problems.empty()) << problems.front().str();
}

} // namespace
