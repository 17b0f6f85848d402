//===- RaceCheckerTest.cpp - What counts as ordered -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TestMachine.h"
#include "isa/Odometer.h"
#include "simulator/functional/FunctionalModel.h"

using namespace tw;
using namespace tw::core;
using namespace tw::test;
using timing::ArrayType;

namespace {

/// Runs `lines` in program order with 4 KiB of input at DRAM address 0; "" or the message of the Unordered fault.
std::string race(const std::vector<std::string> &lines) {
  isa::Program program = assemble(lines);
  program.code.resize(program.code.size());
  isa::encode(parseLine("halt"), program.code);
  addInput(program, 0, 4096);
  program.constants.push_back({16384, std::vector<uint8_t>(64)});
  RunResult result = functional::run(program, testMachine(ArrayType::Int8), {std::vector<uint8_t>(4096, 1)});
  if (!result.fault)
    return "";
  EXPECT_EQ(int(result.fault->kind), int(FaultKind::Unordered)) << result.fault->str();
  return result.fault->message;
}

std::string load(int address, const std::string &rest, int unit = 0) {
  return "load unit=" + std::to_string(unit) + " address=" + std::to_string(address) + " span=64 counts=[64,1,1,1,1] " + rest;
}
std::string store(int address, const std::string &rest) {
  return "store dram_address=8192 address=" + std::to_string(address) + " span=64 counts=[64,1,1,1,1] " + rest;
}
/// 16 vectors of 4 bytes from `a` to `d` in scratchpad 0.
std::string vector(int a, int d, const std::string &rest) {
  return "vector a_type=u8 a_address=" + std::to_string(a) +
         " a_span=64 a_strides=[4] d_type=u8 d_address=" + std::to_string(d) +
         " d_span=64 d_strides=[4] counts=[16,1,1,1] window=[1,1] " + rest;
}

TEST(RaceCheckerTest, ReadAfterWriteNeedsASemaphore) {
  EXPECT_EQ(race({load(0, "post=[0:1]"), store(0, "wait=[0:1]")}), "");
  EXPECT_EQ(race({load(0, ""), store(0, "")}),
            "store0 (word 3) reads byte 0 of scratchpad0, which load0 (word 0) writes, and nothing orders them");
}

TEST(RaceCheckerTest, OnlyThePostsThatAreTakenOrder) {
  // The store takes the first load's post, but reads what the second wrote.
  EXPECT_EQ(race({load(0, "post=[0:1]"), load(64, "post=[0:1]"), store(64, "wait=[0:1]")}),
            "store0 (word 6) reads byte 64 of scratchpad0, which load0 (word 3) writes, and nothing orders them");
  EXPECT_EQ(race({load(0, "post=[0:1]"), load(64, "post=[0:1]"), store(64, "wait=[0:2]")}), "");
  // Engines retire in order: the second load's post speaks for the first.
  EXPECT_EQ(race({load(0, ""), load(64, "post=[0:1]"), store(0, "wait=[0:1]")}), "");
}

TEST(RaceCheckerTest, WriteAfterReadNeedsASemaphore) {
  EXPECT_NE(race({load(0, "post=[0:1]"), store(0, "wait=[0:1]"), load(0, "")})
                .find("load0 (word 6) writes byte 0 of scratchpad0, "
                      "which store0 (word 3) reads"),
            std::string::npos);
  EXPECT_EQ(race({load(0, "post=[0:1]"), store(0, "wait=[0:1] post=[1:1]"), load(0, "wait=[1:1]")}), "");
}

TEST(RaceCheckerTest, WriteAfterWriteIsOrderedWithinAnEngineOnly) {
  EXPECT_EQ(race({load(0, ""), load(32, "")}), "");
  EXPECT_EQ(race({load(0, ""), load(32, "", 1)}),
            "load1 (word 3) writes byte 32 of scratchpad0, which load0 (word 0) writes, and nothing orders them");
  EXPECT_EQ(race({load(0, ""), load(64, "", 1)}), "");
}

TEST(RaceCheckerTest, OrderPassesThroughOtherEngines) {
  EXPECT_EQ(race({load(0, "post=[0:1]"), vector(0, 64, "wait=[0:1] post=[1:1]"), store(0, "wait=[1:1]")}), "");
}

TEST(RaceCheckerTest, AnEngineWaitsForItselfToReadItsResult) {
  EXPECT_EQ(race({load(0, "post=[0:1]"), vector(0, 64, "wait=[0:1]"), vector(64, 128, "")}),
            "vector (word 8) reads byte 64 of scratchpad0, which vector (word 3) writes, and nothing orders them");
  EXPECT_EQ(race({load(0, "post=[0:1]"), vector(0, 64, "wait=[0:1] post=[1:1]"), vector(64, 128, "wait=[1:1]")}), "");
  // Write after read and write after write need none.
  EXPECT_EQ(race({load(0, "post=[0:1]"), vector(0, 64, "wait=[0:1]"), vector(0, 64, "")}), "");
}

TEST(RaceCheckerTest, AVectorInstructionMayOverwriteOnlyWhatItHasRead) {
  EXPECT_EQ(race({load(0, "post=[0:1]"), vector(0, 0, "wait=[0:1]")}), "");
  EXPECT_NE(race({load(0, "post=[0:1]"), load(64, "post=[0:1]"), vector(0, 4, "wait=[0:2]")})
                .find("reads byte 4 of scratchpad0, which an earlier vector of the same instruction writes"),
            std::string::npos);
  // Each result lies before everything still to be read.
  EXPECT_EQ(race({load(0, "post=[0:1]"), load(64, "post=[0:1]"), vector(4, 0, "wait=[0:2]")}), "");
}

const std::string kWeights = "preload address=0 span=4 row_stride=4 k_count=1 n_count=4 wait=[0:1]";
std::string tensor(int row, int rows, const std::string &rest) {
  return "tensor address=0 span=64 acc_address=" + std::to_string(row) + " acc_span=" + std::to_string(rows) + " counts=[" +
         std::to_string(rows) + ",1,1] strides=[1] acc_strides=[1] k_count=1 " + rest;
}

TEST(RaceCheckerTest, AccumulationOverRowsThatHaveBeenWritten) {
  std::vector<std::string> setup = {load(0, "post=[0:1]"), kWeights, tensor(0, 8, "swap=1")};
  auto with = [&](const std::string &line) {
    std::vector<std::string> lines = setup;
    lines.push_back(line);
    return race(lines);
  };
  // The swap waits for the preload, which waits for the load: the activations are ordered too.
  EXPECT_EQ(with(tensor(0, 8, "accumulate=1")), "");
  // Other orders, and a part of the rows: every row comes again two cycles later or more, whenever the instruction starts.
  EXPECT_EQ(with("tensor address=0 span=64 acc_span=8 counts=[2,4,1] strides=[1] acc_strides=[4,1] k_count=1 accumulate=1"),
            "");
  EXPECT_EQ(with(tensor(0, 4, "accumulate=1")), "");
  EXPECT_EQ(with(tensor(6, 2, "accumulate=1")), "");
  // The last row is visited again a cycle after it was visited first; its sum takes two.
  EXPECT_NE(
      with(tensor(7, 1, "accumulate=1")).find("tensor (word 6) reads byte 112 of accumulator, which tensor (word 4) writes"),
      std::string::npos);
  EXPECT_EQ(with(tensor(7, 1, "")), "");
  setup.back() = tensor(0, 8, "swap=1 post=[1:1]");
  EXPECT_EQ(with(tensor(7, 1, "accumulate=1 wait=[1:1]")), "");
}

TEST(RaceCheckerTest, NoRowTwiceInOneTensorInstruction) {
  EXPECT_NE(race({load(0, "post=[0:1]"), kWeights,
                  "tensor address=0 span=64 acc_span=4 counts=[2,2,1] strides=[1,1] acc_strides=[1,1] swap=1 k_count=1"})
                .find("tensor (word 4) writes byte 16 of accumulator, which tensor (word 4) writes"),
            std::string::npos);
}

TEST(RaceCheckerTest, TheArrayOrdersPreloadAndTensor) {
  // The tensor instruction's post says that the preload, too, has read its tile.
  EXPECT_EQ(race({load(0, "post=[0:1]"), kWeights, tensor(0, 8, "swap=1 post=[1:1]"), load(0, "wait=[1:1]")}), "");
  EXPECT_NE(race({load(0, "post=[0:1]"), kWeights, tensor(0, 8, "swap=1"), load(0, "")}), "");
}

TEST(RaceCheckerTest, DramIsARegionLikeAnyOther) {
  std::string back = "load dram_address=8192 address=256 span=64 counts=[64,1,1,1,1] ";
  EXPECT_EQ(race({load(0, "post=[0:1]"), store(0, "wait=[0:1] post=[1:1]"), back + "wait=[1:1]"}), "");
  EXPECT_EQ(race({load(0, "post=[0:1]"), store(0, "wait=[0:1]"), back}),
            "load0 (word 6) reads byte 8192 of dram, which store0 (word 3) writes, and nothing orders them");
  EXPECT_EQ(race({load(0, "post=[0:1]"), "store dram_address=32770 address=0 span=1 counts=[1,1,1,1,1] wait=[0:1]"}),
            "store0 (word 3) writes over the program's code at byte 32770 of dram");
  EXPECT_EQ(race({load(0, "post=[0:1]"), "store dram_address=16447 address=0 span=2 counts=[2,1,1,1,1] wait=[0:1]"}),
            "store0 (word 3) writes over a constant of the program at byte 16447 of dram");
  EXPECT_EQ(race({load(0, "post=[0:1]"), "store dram_address=16448 address=0 span=2 counts=[2,1,1,1,1] wait=[0:1]"}), "");
}

TEST(RaceCheckerTest, NeighbouringBytesAreDifferentRegions) {
  // Odd lengths: the checker must not round to words.
  EXPECT_EQ(race({"load address=0 span=7 counts=[7,1,1,1,1]", "load unit=1 address=7 span=5 counts=[5,1,1,1,1]"}), "");
  EXPECT_NE(race({"load address=0 span=7 counts=[7,1,1,1,1]", "load unit=1 address=6 span=5 counts=[5,1,1,1,1]"}), "");
}

TEST(RaceCheckerTest, StridedAccessesInterleave) {
  std::string even = "load address=0 span=61 counts=[4,8,1,1,1] dram_strides=[4] strides=[8] ";
  EXPECT_EQ(race({even, "load unit=1 address=4 span=60 counts=[4,8,1,1,1] dram_strides=[4] strides=[8]"}), "");
  EXPECT_NE(race({even, "load unit=1 address=3 span=60 counts=[4,8,1,1,1] dram_strides=[4] strides=[8]"}), "");
}

TEST(RaceCheckerTest, ASemaphoreChangesItsUsersOnlyInOrder) {
  // load0 -> store0, then load1 -> store0 on the same semaphore: is the first post taken before the second is made?
  EXPECT_NE(race({load(0, "post=[0:1]"), store(0, "wait=[0:1]"), load(64, "post=[0:1]", 1), store(64, "wait=[0:1]")})
                .find("load1 posts semaphore 0, which load0 posted before"),
            std::string::npos);
  EXPECT_EQ(race({load(0, "post=[0:1]"), store(0, "wait=[0:1] post=[1:1]"), load(64, "post=[0:1] wait=[1:1]", 1),
                  store(64, "wait=[0:1]")}),
            "");
  // store0 waited first, vector next: it could have taken the store's post.
  EXPECT_NE(race({load(0, "post=[0:1]"), store(0, "wait=[0:1]"), load(64, "post=[0:1]"), vector(64, 128, "wait=[0:1]")})
                .find("vector waits for semaphore 0, which store0 waited for before"),
            std::string::npos);
  EXPECT_EQ(race({load(0, "post=[0:1]"), store(0, "wait=[0:1] post=[1:1]"), load(64, "post=[0:1]"),
                  vector(64, 128, "wait=[0:1,1:1]")}),
            "");
}

TEST(RaceCheckerTest, OverlappingLifetimesAsInATimedModel) {
  // Two loads are in flight when the first retires: only its bytes may be read.
  timing::MachineParams machine = testMachine(ArrayType::Int8);
  isa::Program program = assemble({"halt"});
  addInput(program, 0, 4096);
  RaceChecker checker(machine, program);
  auto instruction = [](const std::string &line) {
    isa::OdometerState odometer;
    return *isa::resolve(parseLine(line), odometer);
  };
  EXPECT_FALSE(checker.start(instruction(load(0, "post=[0:1]")), 10));
  EXPECT_FALSE(checker.start(instruction(load(64, "post=[0:1]")), 11));
  EXPECT_FALSE(checker.retire(timing::EngineKind::Load, 0));
  EXPECT_FALSE(checker.start(instruction(store(0, "wait=[0:1]")), 12));
  EXPECT_FALSE(checker.retire(timing::EngineKind::Store, 0));
  std::optional<Violation> violation = checker.start(instruction(store(64, "")), 13);
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->message,
            "store0 (word 13) reads byte 64 of scratchpad0, which load0 (word 11) writes, and nothing orders them");
}

} // namespace
