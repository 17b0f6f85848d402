//===- CosimTest.cpp - Programs on the RTL and on the SystemC model -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/Compare.h"
#include "simulator/cosim/RtlModel.h"
#include "tests/timing/engines/RandomProgram.h"
#include "tests/unit/systemc/Pipeline.h"

#include <filesystem>
#include <fstream>

using namespace tw;
using namespace tw::test;
using core::FaultKind;

namespace {

cosim::Agreement compare(const std::vector<std::string> &lines, const timing::MachineParams &machine = smallMachine()) {
  return cosim::compare(assemble(lines), machine, {});
}

const std::string kLoad = "load dram_address=0x1000 span=64 counts=[64,1,1,1,1]";

// Cycles by hand, as in SystemCModelTest.
TEST(CosimTest, EmptyProgramTakesFetchAndDone) {
  const cosim::Agreement agreement = compare({"halt"});
  EXPECT_EQ(agreement.difference, "");
  ASSERT_FALSE(agreement.rtl.result.fault) << agreement.rtl.result.fault->str();
  EXPECT_EQ(agreement.rtl.result.totalCycles, 16u);
}

TEST(CosimTest, LoadOfOneBurst) {
  const cosim::Agreement agreement = compare({kLoad, "halt"});
  EXPECT_EQ(agreement.difference, "");
  const stats::SimResult &result = agreement.rtl.result;
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 35u);
  ASSERT_EQ(result.instructions.size(), 1u);
  EXPECT_EQ(result.instructions[0].visible, 17u);
  EXPECT_EQ(result.instructions[0].start, 17u);
  EXPECT_EQ(result.instructions[0].issueFree, 20u);
  EXPECT_EQ(result.instructions[0].retire, 33u);
  EXPECT_EQ(labelsOf(result, "load0"), (std::vector<timing::Cycle>{2, 0, 0, 0, 0, 13, 0, 17, 3}));
  EXPECT_EQ(result.dramReadBytes, 64u);
  EXPECT_EQ(result.fetchBytes, 128u);
}

TEST(CosimTest, PipelineComputesTheProduct) {
  const Pipeline pipeline(40);
  const cosim::Agreement agreement = cosim::compare(pipeline.program(), smallMachine(), pipeline.inputs());
  EXPECT_EQ(agreement.difference, "");
  ASSERT_EQ(agreement.outputs.size(), 1u);
  EXPECT_EQ(agreement.outputs[0], pipeline.expected());
  EXPECT_EQ(agreement.rtl.result.macs, 40u * 64 * 8 * 8);
  EXPECT_EQ(agreement.rtl.result.instructionCount, 240u);
}

// Of the DRAM behind its port the RTL knows only the width, and whether the controller holds writes back.
TEST(CosimTest, EveryDramOfOneWidth) {
  const Pipeline pipeline(10);
  timing::MachineParams slow = smallMachine(), inOrder = smallMachine();
  slow.dram.bytesPerCycleNumerator = 3;
  inOrder.dram.kind = timing::DramKind::Ddr4;
  inOrder.dram.controller = timing::DramController::InOrder;
  timing::MachineParams windowed = inOrder;
  windowed.dram.controller = timing::DramController::Windowed;
  for (const timing::MachineParams &machine : {slow, inOrder, windowed}) {
    const cosim::Agreement agreement = cosim::compare(pipeline.program(), machine, pipeline.inputs());
    EXPECT_EQ(agreement.difference, "");
    EXPECT_EQ(agreement.outputs[0], pipeline.expected());
    EXPECT_EQ(agreement.rtl.commands.empty(), machine.dram.kind == timing::DramKind::Ideal);
  }
}

TEST(CosimTest, RandomPrograms) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    Random random(seed);
    const timing::MachineParams machine = smallMachine();
    const cosim::Agreement agreement = cosim::compare(RandomProgram(machine, random).make(40), machine, {});
    ASSERT_EQ(agreement.difference, "") << "seed " << seed;
    EXPECT_GT(agreement.rtl.result.instructions.size(), 0u);
  }
}

// A machine that is one cycle slower in one place is not equal: what the comparison finds is no accident.
TEST(CosimTest, OneCycleIsFound) {
  const Pipeline pipeline(4);
  const isa::Program program = pipeline.program();
  cosim::Agreement agreement = cosim::compare(program, smallMachine(), pipeline.inputs());
  ASSERT_EQ(agreement.difference, "");
  timing::MachineParams other = smallMachine();
  other.timing.semaphore_cycles += 1;
  core::MachineState state(other);
  ASSERT_FALSE(state.load(program));
  systemc::SimOptions options;
  options.trace = true;
  agreement.systemc.result = run(program, state, options);
  const std::string difference = cosim::firstDifference(program, other, agreement.systemc, agreement.rtl);
  EXPECT_EQ(difference.substr(0, 9), "start of ") << difference;
}

void expectFault(const cosim::Agreement &agreement, FaultKind kind, const std::string &engine, uint64_t pc,
                 timing::Cycle cycle) {
  EXPECT_EQ(agreement.difference, "");
  ASSERT_TRUE(agreement.rtl.result.fault);
  const core::Fault &fault = *agreement.rtl.result.fault;
  EXPECT_EQ(fault.kind, kind) << fault.str();
  EXPECT_EQ(fault.engine, engine);
  EXPECT_EQ(fault.pc, pc);
  EXPECT_EQ(fault.cycle, cycle);
  EXPECT_NE(fault.message, "");
  EXPECT_TRUE(agreement.outputs.empty());
}

// Cycles by hand, as in FaultTest.
TEST(CosimTest, Faults) {
  expectFault(compare({"load unit=3 dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"}), FaultKind::IllegalInstruction,
              "sequencer", 0, 16);
  expectFault(compare({kLoad}), FaultKind::IllegalInstruction, "sequencer", 3, 17);
  expectFault(compare({kLoad, "load dram_address=0x1000 address=16352 span=64 counts=[64,1,1,1,1]", "halt"}),
              FaultKind::OutOfRange, "load0", 3, 20);
  // Five posts of 15 are more than 63; the fifth load is words 12 to 14.
  const cosim::Agreement overflow = compare({kLoad + " post=[4:15]", kLoad + " post=[4:15]", kLoad + " post=[4:15]",
                                             kLoad + " post=[4:15]", kLoad + " post=[4:15]", "halt"});
  EXPECT_EQ(overflow.difference, "");
  ASSERT_TRUE(overflow.rtl.result.fault);
  EXPECT_EQ(overflow.rtl.result.fault->kind, FaultKind::SemaphoreOverflow);
  EXPECT_EQ(overflow.rtl.result.fault->pc, 12u);
  EXPECT_EQ(overflow.rtl.result.fault->message, "semaphore 4 would count to 75 but may count to 63");
}

TEST(CosimTest, DeadlockNamesEveryWaitingEngine) {
  const cosim::Agreement agreement =
      compare({kLoad, "load unit=1 dram_address=0x1000 address=2048 span=64 counts=[64,1,1,1,1] wait=[3:1]",
               "store address=4096 dram_address=0x1000 span=64 counts=[64,1,1,1,1] wait=[7:2]", "halt"});
  expectFault(agreement, FaultKind::Deadlock, "store0", 6, 34);
  EXPECT_EQ(agreement.rtl.result.fault->message, "store0 at word 6 waits for 2 of semaphore 7, which is at 0; "
                                                 "load1 at word 3 waits for 1 of semaphore 3, which is at 0");
}

TEST(CosimTest, CycleLimit) {
  const isa::Program program =
      assemble({"loop count=1000000 body_words=1",
                "preload address=4096 span=64 row_stride=8 k_count=8 n_count=8 predicate=not_first", "halt"});
  cosim::CompareOptions options;
  options.maxCycles = 5000;
  const cosim::Agreement agreement = cosim::compare(program, smallMachine(), {}, options);
  ASSERT_TRUE(agreement.rtl.result.fault);
  EXPECT_EQ(agreement.rtl.result.fault->kind, FaultKind::LimitReached);
  EXPECT_EQ(agreement.rtl.result.fault->cycle, 5000u);
  // Both models are as good as new.
  EXPECT_EQ(compare({kLoad, "halt"}).difference, "");
}

// Wherever a run is cut off, both models say so of the same cycles, and what ends in time ends as without a limit.
TEST(CosimTest, EveryCycleLimit) {
  const Pipeline pipeline(3);
  const cosim::Agreement whole = cosim::compare(pipeline.program(), smallMachine(), pipeline.inputs());
  ASSERT_FALSE(whole.rtl.result.fault);
  for (timing::Cycle limit = 1; limit <= whole.rtl.result.totalCycles + 1; ++limit) {
    cosim::CompareOptions options;
    options.maxCycles = limit;
    const cosim::Agreement agreement = cosim::compare(pipeline.program(), smallMachine(), pipeline.inputs(), options);
    EXPECT_EQ(agreement.difference, "") << "limit " << limit;
    EXPECT_EQ(bool(agreement.systemc.result.fault), limit < whole.rtl.result.totalCycles) << "limit " << limit;
  }
  // A fault of cycle 17 shows in cycle 18.
  for (timing::Cycle limit : {16, 17, 18}) {
    cosim::CompareOptions options;
    options.maxCycles = limit;
    const cosim::Agreement agreement = cosim::compare(assemble({kLoad}), smallMachine(), {}, options);
    EXPECT_EQ(agreement.difference, "");
    ASSERT_TRUE(agreement.systemc.result.fault);
    EXPECT_EQ(agreement.systemc.result.fault->kind == FaultKind::LimitReached, limit < 18);
  }
}

TEST(CosimTest, WhatDoesNotFitIsBadInput) {
  const Pipeline pipeline(1);
  const cosim::Agreement agreement = cosim::compare(pipeline.program(), smallMachine(), {});
  ASSERT_TRUE(agreement.rtl.result.fault);
  EXPECT_EQ(agreement.rtl.result.fault->kind, FaultKind::BadInput);
}

// An FST file of the middle of a run.
TEST(CosimTest, WavesOfAWindow) {
  const Pipeline pipeline(2);
  const isa::Program program = pipeline.program();
  const std::string file = testing::TempDir() + "cosim_waves.fst";
  std::filesystem::remove(file);
  cosim::RtlOptions options;
  options.dumpFile = file;
  options.dumpFrom = 50;
  options.dumpTo = 60;
  std::vector<std::vector<uint8_t>> outputs;
  const stats::SimResult result = cosim::RtlModel().run(program, smallMachine(), pipeline.inputs(), outputs, options);
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(outputs[0], pipeline.expected());
  std::ifstream in(file, std::ios::binary);
  std::vector<uint8_t> head(25);
  ASSERT_TRUE(in.read(reinterpret_cast<char *>(head.data()), 25));
  // An FST header: block type 0, its length, then the first and last time, 8 bytes each, highest first.
  auto number = [&](size_t at) {
    uint64_t value = 0;
    for (size_t i = 0; i < 8; ++i)
      value = value << 8 | head[at + i];
    return value;
  };
  EXPECT_EQ(head[0], 0u);
  EXPECT_EQ(number(9), 100u);
  EXPECT_EQ(number(17), 119u);
  std::filesystem::remove(file);
}

} // namespace
