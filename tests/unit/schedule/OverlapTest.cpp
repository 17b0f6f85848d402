//===- OverlapTest.cpp - Steps of kernels side by side ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Overlap.h"
#include "compiler/schedule/Synchronize.h"
#include "compiler/schedule/Verifier.h"
#include "hw-configs/Machine.h"
#include "isa/timing/Dram.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace tw;
using schedule::Operation;
using schedule::Step;
using schedule::TileProgram;

namespace {

timing::MachineParams tiny() { return *hwconfigs::loadMachine("tiny_8x8"); }

Operation operation(const std::string &line, const timing::MachineParams &machine) {
  Operation result;
  result.instruction = *isa::parse(line);
  result.regions = schedule::regionsOf(result.instruction, machine);
  return result;
}

/// A step that loads 1 KiB to `slot` and stores it elsewhere.
Step copy(int slot, int index, const timing::MachineParams &machine) {
  const std::string on = " address=" + std::to_string(1024 * slot) + " counts=[1024,1,1,1,1] span=1024";
  Step step;
  step.loads.push_back(operation("load dram_address=" + std::to_string(4096 + 1024 * index) + on, machine));
  step.compute.push_back({1, {operation("store dram_address=" + std::to_string(65536 + 1024 * index) + on, machine)}});
  return step;
}

/// "l0 s0 l1 ...": loads and stores by their place in DRAM, in the order of the program.
std::string orderOf(const TileProgram &program) {
  std::string text;
  for (const schedule::Block &block : program.blocks) {
    const isa::Instruction &instruction = block.operations[0].instruction;
    if (auto *load = instruction.getIf<isa::Load>())
      text += "l" + std::to_string((load->dram_address - 4096) / 1024) + " ";
    else
      text += "s" + std::to_string((instruction.as<isa::Store>().dram_address - 65536) / 1024) + " ";
  }
  return text;
}

TEST(OverlapTest, LoadsRunAheadAsFarAsTheirSlotsAreFree) {
  const timing::MachineParams machine = tiny();
  // Slots 0 and 1 in turn: the third load waits until the first store has retired. The write buffer has it before the second load
  // is there.
  EXPECT_EQ(orderOf(schedule::overlap({copy(0, 0, machine), copy(1, 1, machine), copy(0, 2, machine)}, machine)),
            "l0 l1 s0 l2 s1 s2 ");
}

TEST(OverlapTest, OneSlotLeavesTheOrderOfTheSteps) {
  const timing::MachineParams machine = tiny();
  EXPECT_EQ(orderOf(schedule::overlap({copy(0, 0, machine), copy(0, 1, machine)}, machine)), "l0 s0 l1 s1 ");
}

TEST(OverlapTest, LoadsAndStoresTakeTurnsAtTheBus) {
  const timing::MachineParams machine = *hwconfigs::loadMachine("edge_32x32_int8");
  const std::vector<Step> steps = {copy(0, 0, machine), copy(1, 1, machine), copy(2, 2, machine), copy(3, 3, machine)};
  auto turns = [&](plan::Bus bus, std::vector<schedule::PlannedStarts> &starts) {
    TileProgram program = schedule::overlap(steps, machine, nullptr, 1e9, plan::Priority::ProgramOrder, bus);
    starts = schedule::plannedStarts(program, machine);
    return std::count_if(program.blocks.begin(), program.blocks.end(),
                         [](const schedule::Block &block) { return block.operations[0].turns; });
  };
  std::vector<schedule::PlannedStarts> shared, inTurns;
  EXPECT_EQ(turns(plan::Bus::Shared, shared), 0);
  EXPECT_GE(turns(plan::Bus::Alternating, inTurns), 4) << "every store, and the loads behind the first";
  // The first store waits for all loads that have the bus.
  EXPECT_GT(inTurns[0][0], shared[0][0]);
}

TEST(OverlapTest, LoadsOfTwoEnginesInOneBankTakeLonger) {
  for (const char *name : {"edge_32x32_int8", "gemmini_16x16_int8"}) {
    const timing::MachineParams machine = *hwconfigs::loadMachine(name);
    const timing::DramAddressMap map(machine.dram);
    auto cycles = [&](uint64_t address, int unit) {
      auto load = [&](uint64_t from, int to, int by) {
        return operation("load unit=" + std::to_string(by) + " dram_address=" + std::to_string(from) +
                             " address=" + std::to_string(to) + " counts=[8192,1,1,1,1] span=8192",
                         machine);
      };
      Step step;
      step.loads = {load(0, 0, 0), load(address, 65536, unit)}; // in banks of their own
      return schedule::estimateOverlapped({step}, machine);
    };
    uint64_t sameBank = 8192;
    while (map.locate(sameBank).flatBank || !map.locate(sameBank).row)
      sameBank += 8192;
    EXPECT_GT(cycles(sameBank, 1), cycles(8192, 1)) << name;
    EXPECT_EQ(cycles(sameBank, 0), cycles(8192, 0)) << name << ", one after the other";
  }
}

TEST(OverlapTest, RunsThatAreFilledTakeNoTurnsAtABurst) {
  const timing::MachineParams machine = *hwconfigs::loadMachine("gemmini_16x16_int8");
  auto cycles = [&](int filled) { // of sixteen runs that overlap
    Step step;
    step.loads = {
        operation("load dram_address=0 address=0 counts=[320,16,1,1,1] dram_strides=[1] strides=[320] span=5120 high=[0," +
                      std::to_string(filled) + "]",
                  machine)};
    return schedule::estimateOverlapped({step}, machine);
  };
  EXPECT_LT(cycles(15), cycles(0) / 8);
}

TEST(OverlapTest, WhatReadsAResultInDramStaysBehindIt) {
  const timing::MachineParams machine = tiny();
  Step first = copy(0, 0, machine), second;
  second.loads.push_back(operation("load dram_address=65536 address=4096 counts=[1024,1,1,1,1] span=1024", machine));
  const TileProgram program = schedule::overlap({first, second}, machine);
  ASSERT_EQ(program.blocks.size(), 3u);
  EXPECT_TRUE(program.blocks[1].operations[0].instruction->getIf<isa::Store>());
}

TEST(OverlapTest, AKernelWithoutWorkForTheArrayRunsBetweenTheStepsOfItsReaders) {
  const timing::MachineParams machine = tiny();
  std::vector<Step> steps;
  for (int i = 0; i < 8; ++i)
    steps.push_back(copy(i, i, machine));
  Step reader; // of the first copy
  reader.loads.push_back(operation("load dram_address=65536 address=12288 counts=[1024,1,1,1,1] span=1024", machine));
  reader.compute.push_back({1,
                            {operation("preload address=8192 span=64 row_stride=8 k_count=8 n_count=8", machine),
                             operation("tensor address=12288 span=8 counts=[1,1,1] acc_span=1 k_count=8 swap=1", machine)}});
  reader.loads[0].layer = 1;
  for (Operation &op : reader.compute[0].operations)
    op.layer = 1;
  steps.push_back(reader);
  auto loadsBeforeTheReaders = [&](plan::Priority order) {
    const TileProgram program = schedule::overlap(steps, machine, nullptr, 1e9, order);
    size_t count = 0;
    for (const schedule::Block &block : program.blocks) {
      if (block.operations[0].layer == 1)
        break;
      count += block.operations[0].instruction->getIf<isa::Load>() != nullptr;
    }
    return count;
  };
  EXPECT_EQ(loadsBeforeTheReaders(plan::Priority::ProgramOrder), 8u);
  EXPECT_LT(loadsBeforeTheReaders(plan::Priority::Interleaved), 8u);
}

/// A step of one pass over 100 positions; its results go to the row of the accumulator that `to` says.
Step pass(const std::string &to, const timing::MachineParams &machine) {
  Step step;
  step.compute.push_back(
      {1,
       {operation("preload address=4096 span=64 row_stride=8 k_count=8 n_count=8", machine),
        operation("tensor span=800 counts=[100,1,1] strides=[8] acc_span=1 k_count=8 swap=1 " + to, machine)}});
  return step;
}

TEST(OverlapTest, WhatTheVectorEngineTakesLongForGoesFirst) {
  const timing::MachineParams machine = tiny();
  // Eight passes that nothing waits for, then one whose results the vector engine reads eight times.
  std::vector<Step> steps(8, pass("", machine));
  Step last = pass("acc_address=100", machine);
  for (int i = 0; i < 8; ++i)
    last.compute.push_back(
        {1,
         {operation(
             "vector a_memory=accumulator a_type=i32 a_address=3200 a_span=32 d_memory=scratchpad1 d_type=i8 d_address=" +
                 std::to_string(8 * i) + " d_span=8 counts=[100,1,1,1] window=[1,1]",
             machine)}});
  steps.push_back(last);
  const double forwards = schedule::estimateOverlapped(steps, machine);
  const TileProgram program = schedule::overlap(steps, machine);
  double end = 0;
  for (const schedule::Block &block : program.blocks)
    end = std::max(end, block.plannedStart + block.plannedEvery);
  // Forwards 900 cycles of the array and then 800 of the vector engine, at best 100 and the 800 beside each other.
  EXPECT_GT(forwards, 1700);
  EXPECT_LT(end, 1100);
}

TEST(OverlapTest, TheResultVerifiesOnceSynchronised) {
  const timing::MachineParams machine = tiny();
  std::vector<Step> steps;
  for (int i = 0; i < 12; ++i)
    steps.push_back(copy(i % 3, i, machine));
  TileProgram tiles = schedule::overlap(steps, machine);
  ASSERT_TRUE(schedule::synchronize(tiles, machine));
  isa::Program program;
  for (const schedule::Block &block : tiles.blocks)
    isa::encode(block.operations[0].instruction, program.code);
  isa::encode(isa::Instruction(isa::Halt()), program.code);
  const Diagnostics problems = schedule::verifySchedule(program, machine);
  EXPECT_TRUE(problems.empty()) << problems.front().str();
}

TEST(OverlapTest, TheEstimateOfTwoSlotsIsLessThanThatOfOne) {
  const timing::MachineParams machine = tiny();
  std::vector<Step> one, two;
  for (int i = 0; i < 8; ++i) {
    one.push_back(copy(0, i, machine));
    two.push_back(copy(i % 2, i, machine));
  }
  EXPECT_LT(schedule::estimateOverlapped(two, machine), schedule::estimateOverlapped(one, machine));
}

TEST(OverlapTest, EveryExecutionHasAPlannedStart) {
  const timing::MachineParams machine = tiny();
  Step step = copy(0, 0, machine);
  // Three passes, each behind the preload of its weights.
  const std::string passes = " levels=[{count=3 stride_b=64}]";
  const std::string preload = "preload address=1024 span=64 row_stride=8 k_count=8 n_count=8";
  const std::string tensor = "tensor address=2048 span=8 counts=[1,1,1] acc_span=1 k_count=8 swap=1";
  step.compute.push_back({3, {operation(preload + passes, machine), operation(tensor + passes, machine)}});
  const TileProgram program = schedule::overlap({step, copy(0, 1, machine)}, machine);
  const std::vector<schedule::PlannedStarts> starts = schedule::plannedStarts(program, machine);
  std::vector<size_t> counts;
  for (const schedule::PlannedStarts &engine : starts) {
    counts.push_back(engine.size());
    EXPECT_TRUE(std::is_sorted(engine.begin(), engine.end()));
  }
  // Store, vector, tensor, preload, two load engines.
  EXPECT_EQ(counts, (std::vector<size_t>{2, 0, 3, 0, 2, 0}));
  // The second load waits for the slot that the first store reads.
  EXPECT_GT(starts[4][1], starts[0][0]);
}

TEST(OverlapTest, WhatStartsBetweenTheLoopsOfAStepGoesBeforeThem) {
  const timing::MachineParams machine = tiny();
  auto passes = [&](int count) -> schedule::Block {
    const std::string levels = " levels=[{count=" + std::to_string(count) + " stride_b=8}]";
    const std::string preload = "preload address=1024 span=64 row_stride=8 k_count=8 n_count=8";
    const std::string tensor =
        "tensor address=2048 span=256 counts=[32,1,1] strides=[8] acc_strides=[1] acc_span=32 k_count=8 swap=1";
    return {uint64_t(count), {operation(preload + levels, machine), operation(tensor + levels, machine)}};
  };
  Step step;
  step.compute = {passes(2), passes(64)};
  Step loads;
  for (int i = 3; i < 5; ++i) // the second one starts when the first has been asked for, long after the first loop began
    loads.loads.push_back(copy(i, i, machine).loads[0]);
  const TileProgram program = schedule::overlap({step, loads}, machine);
  ASSERT_EQ(program.blocks.size(), 4u);
  EXPECT_GT(program.blocks[1].plannedStart, program.blocks[2].plannedStart + 2 * 32);
  for (int i : {0, 1})
    EXPECT_TRUE(program.blocks[size_t(i)].operations[0].instruction->getIf<isa::Load>()) << i;
}

TEST(OverlapTest, PassesYieldABankThatTheVectorEngineWants) {
  const timing::MachineParams machine = tiny();
  const schedule::Block passes = {
      1,
      {operation("preload address=1024 span=64 row_stride=8 k_count=8 n_count=8", machine),
       operation("tensor address=2048 span=256 counts=[32,1,1] strides=[8] acc_strides=[1] acc_span=32 "
                 "k_count=8 swap=1",
                 machine)}};
  auto yields = [&](int address) {
    const std::string at = std::to_string(address);
    Step step;
    step.compute = {passes,
                    {1,
                     {operation("vector a_address=" + at + " a_span=64 a_strides=[8] d_address=" + at +
                                    " d_span=64 d_strides=[8] counts=[8,1,1,1] window=[1,1]",
                                machine)}},
                    passes};
    uint32_t count = 0;
    for (const schedule::Block &block : schedule::overlap({step}, machine).blocks)
      for (const Operation &op : block.operations)
        count += op.yieldsTo;
    return count;
  };
  EXPECT_EQ(yields(2048 + 256), 1u) << "the second pass, to the first vector operation";
  EXPECT_EQ(yields(4096), 0u) << "another bank";
}

TEST(OverlapTest, AStoreIsDoneWhenTheWriteBufferHasIt) {
  timing::MachineParams machine = tiny();
  const std::vector<Step> steps = {copy(0, 0, machine), copy(0, 1, machine)};
  machine.dram.writeBufferBursts = 1;
  const double without = schedule::estimateOverlapped(steps, machine);
  machine.dram.writeBufferBursts = 32;
  EXPECT_LT(schedule::estimateOverlapped(steps, machine), without);
}

TEST(OverlapTest, ElementsOfOneBurstCostOneRequest) {
  const timing::MachineParams machine = tiny();
  auto cyclesOf = [&](const std::string &stride) {
    Step step;
    step.loads.push_back(operation("load counts=[1,64,1,1,1] dram_strides=[" + stride + "] strides=[1] span=64", machine));
    return schedule::estimateOverlapped({step}, machine);
  };
  // 64 bytes of as many bursts, or every second byte of two bursts.
  EXPECT_GT(cyclesOf("64"), cyclesOf("2"));
}

TEST(OverlapTest, ElementsThatALoadRepeatsAreFetchedOnce) {
  const timing::MachineParams machine = *hwconfigs::loadMachine("onnxim_16x16_16b");
  auto cyclesOf = [&](const std::string &load) {
    Step step;
    step.loads.push_back(operation("load element_log2=2 " + load + " strides=[64] span=12288", machine));
    return schedule::estimateOverlapped({step}, machine);
  };
  // A row of 16 words, 64 bytes, takes a segment. DRAM moves 64 bytes in 4 cycles: those of 192 rows, or 768 bytes in all.
  EXPECT_GE(cyclesOf("counts=[16,192,1,1,1] dram_strides=[64]"), 4 * 192);
  EXPECT_LT(cyclesOf("counts=[16,192,1,1,1] dram_strides=[4] broadcast=1"), 2 * 192);
}

TEST(OverlapTest, RunsThatOverlapAtTheEndOfABurstFetchItAgain) {
  const timing::MachineParams machine = *hwconfigs::loadMachine("vdla_16x16"); // its bus takes a burst in 8 cycles
  auto cyclesOf = [&](const std::string &run) {
    Step step;
    step.loads.push_back(
        operation("load counts=[" + run + ",64,16,1,1] dram_strides=[2,256] strides=[8,512] span=8192", machine));
    return schedule::estimateOverlapped({step}, machine);
  };
  // A segment each and three bursts a row; but of 7 bytes three runs reach over each end of a burst, of 3 bytes one.
  EXPECT_GT(cyclesOf("7"), 1.3 * cyclesOf("3"));
}

TEST(OverlapTest, RunsOfWholeWordsCrossTheEndOfABurstLessOften) {
  const timing::MachineParams machine = *hwconfigs::loadMachine("gemmini_16x16_int8");
  ASSERT_EQ(machine.dram.burstBytes, 64u);
  // Three words at a distance of two: of those that reach into a burst one alone begins before it. Bytes may begin anywhere.
  auto cyclesOf = [&](const std::string &load) {
    Step step;
    step.loads.push_back(operation(load, machine));
    return schedule::estimateOverlapped({step}, machine);
  };
  const double words = cyclesOf("load element_log2=2 counts=[3,32,64,1,1] dram_strides=[8,256] strides=[12,384] span=24576");
  const double bytes = cyclesOf("load counts=[12,32,64,1,1] dram_strides=[7,256] strides=[12,384] span=24576");
  EXPECT_LT(words, bytes);
}

TEST(OverlapTest, EnginesThatLoadInRoundsStayTogether) {
  const timing::MachineParams machine = tiny();
  // Engine 0 has less to load in every round.
  auto startsOf = [&](bool inRounds) {
    std::vector<Step> steps;
    for (int i = 0; i < 4; ++i) {
      Step step;
      const std::string to = std::to_string(256 * i);
      step.loads.push_back(operation("load counts=[32,1,1,1,1] span=32 address=" + to, machine));
      step.loads.push_back(operation("load unit=1 counts=[1,64,1,1,1] dram_strides=[8] strides=[1] span=64 address=" +
                                         std::to_string(256 * i + 128),
                                     machine));
      for (Operation &load : step.loads)
        load.round = inRounds ? uint32_t(i + 1) : 0;
      steps.push_back(std::move(step));
    }
    const TileProgram program = schedule::overlap(std::move(steps), machine);
    std::array<std::vector<double>, 2> starts; // by engine
    for (const schedule::Block &block : program.blocks)
      starts[size_t(block.operations[0].instruction->header.unit)].push_back(block.plannedStart);
    return starts;
  };
  const auto apart = startsOf(false), together = startsOf(true);
  EXPECT_LT(apart[0][3], apart[1][3]);
  EXPECT_GE(together[0][3], together[1][2]) << "its last round begins behind the other's last but one";
}

TEST(OverlapTest, RunsThatMeetOneChannelTakeLonger) {
  const timing::MachineParams machine = *hwconfigs::loadMachine("edge_32x32_int8");
  ASSERT_EQ(machine.dram.channels, 4u);
  ASSERT_EQ(machine.dram.burstBytes, 32u);
  auto cyclesOf = [&](const std::string &stride) {
    Step step;
    step.loads.push_back(operation("load counts=[32,64,1,1,1] dram_strides=[" + stride + "] strides=[32] span=2048", machine));
    return schedule::estimateOverlapped({step}, machine);
  };
  EXPECT_GT(cyclesOf("64"), cyclesOf("96"));  // two channels, all
  EXPECT_GT(cyclesOf("128"), cyclesOf("64")); // one
}

TEST(RegionTest, AStridedAccessLeavesOutWhatLiesBetween) {
  const timing::MachineParams machine = tiny();
  const Operation load = operation("load counts=[64,3,1,1,1] dram_strides=[1024] strides=[256] span=576", machine);
  std::vector<std::pair<uint64_t, uint64_t>> onChip;
  for (const schedule::Region &region : load.regions)
    if (region.space != schedule::kDramSpace)
      onChip.push_back({region.begin, region.end});
  const std::vector<std::pair<uint64_t, uint64_t>> wanted = {{0, 64}, {256, 320}, {512, 576}};
  EXPECT_EQ(onChip, wanted);
}

/// What the reader of a concatenation begins with may be there while its second half is still written.
TEST(RegionTest, SomeChannelsOfAnImageAreNotTheOthers) {
  const timing::MachineParams machine = tiny();
  const Operation store =
      operation("store dram_address=64 counts=[64,196,1,1,1] dram_strides=[128] strides=[64] span=12544", machine);
  const Operation load = operation("load counts=[64,196,1,1,1] dram_strides=[128] strides=[64] span=12544", machine);
  for (const schedule::Region &written : store.regions)
    for (const schedule::Region &read : load.regions)
      if (written.space == schedule::kDramSpace && read.space == schedule::kDramSpace)
        ASSERT_TRUE(written.end <= read.begin || read.end <= written.begin) << written.begin << " " << read.begin;
}

TEST(RegionTest, MoreRunsThanAskedForAreOneRange) {
  const timing::MachineParams machine = tiny();
  const isa::Instruction load = *isa::parse("load counts=[64,3,1,1,1] dram_strides=[1024] span=192");
  EXPECT_EQ(schedule::regionsOf(load, machine, 3).size(), 4u) << "three runs of DRAM, one on chip";
  EXPECT_EQ(schedule::regionsOf(load, machine, 2).size(), 2u);
}

} // namespace
