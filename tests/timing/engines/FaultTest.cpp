//===- FaultTest.cpp - Faults with their cycle and instruction ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/systemc/TestPrograms.h"

using namespace tw;
using namespace tw::test;
using core::FaultKind;

namespace {

void expectFault(const stats::SimResult &result, FaultKind kind, const std::string &engine, uint64_t pc, timing::Cycle cycle) {
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, kind) << result.fault->str();
  EXPECT_EQ(result.fault->engine, engine);
  EXPECT_EQ(result.fault->pc, pc);
  EXPECT_EQ(result.fault->cycle, cycle);
  EXPECT_EQ(result.totalCycles, cycle);
}

// Word 0 is taken in 14.
TEST(FaultTest, LoopLargerThanTheLoopBuffer) {
  timing::MachineParams machine = smallMachine();
  machine.loopBufferWords = 2;
  const std::string load = "load dram_address=0x1000 span=64 counts=[64,1,1,1,1]";
  expectFault(run({"loop count=2 body_words=3", load, "halt"}, machine), FaultKind::IllegalInstruction, "sequencer", 0, 14);
}

// The third word of the load is taken in 16; the machine has two load engines.
TEST(FaultTest, IllegalInstructionAtDispatch) {
  expectFault(run({"load unit=3 dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"}), FaultKind::IllegalInstruction,
              "sequencer", 0, 16);
}

// Word 3 would be taken in 17.
TEST(FaultTest, ProgramWithoutHalt) {
  expectFault(run({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1]"}), FaultKind::IllegalInstruction, "sequencer", 3, 17);
}

// The first load starts in 17; the second (visible in 20) would start in 20.
TEST(FaultTest, OutOfRangeAtStart) {
  const std::string good = "load dram_address=0x1000 span=64 counts=[64,1,1,1,1]";
  expectFault(run({good, "load dram_address=0x1000 address=16352 span=64 counts=[64,1,1,1,1]", "halt"}), FaultKind::OutOfRange,
              "load0", 3, 20);
}

// The loads retire in 33 and 36 (NextBoxStartsWhenTheLastBurstIsRequested); the second post would be visible in 37.
TEST(FaultTest, SemaphoreOverflowWhenThePostArrives) {
  timing::MachineParams machine = smallMachine();
  machine.semaphoreMax = 2;
  const std::string load = "load dram_address=0x1000 span=64 counts=[64,1,1,1,1] ";
  expectFault(run({load + "post=[4:2]", load + "post=[4:1]", "halt"}, machine), FaultKind::SemaphoreOverflow, "load0", 3, 37);
}

// Store and vector engine post beyond the maximum in the same cycle: the lower engine number is reported. Vector (words
// 0-4) of n outputs: visible 19, retires 19 + n + 4. Store (words 5-7): visible 22, gathers 24, accepted 25, retires 27.
// n = 4 retires in 27 too: both faults in 28.
TEST(FaultTest, LowestEngineWinsACycle) {
  timing::MachineParams machine = smallMachine();
  machine.semaphoreMax = 1;
  const stats::SimResult result =
      run({"vector a_type=i8 a_span=32 a_strides=[8] d_type=i8 d_address=6144 d_span=32 d_strides=[8] counts=[4,1,1,1] "
           "window=[1,1] "
           "post=[1:1,1:1]",
           "store address=2048 dram_address=0x1000 span=64 counts=[64,1,1,1,1] post=[2:1,2:1]", "halt"},
          machine);
  expectFault(result, FaultKind::SemaphoreOverflow, "store0", 5, 28);
}

// Nothing posts semaphore 3. The last thing to happen is the retirement of the load in 33, its banks free in 34.
TEST(FaultTest, DeadlockNamesEveryWaitingEngine) {
  const stats::SimResult result =
      run({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1]",
           "load unit=1 dram_address=0x1000 address=2048 span=64 counts=[64,1,1,1,1] wait=[3:1]",
           "store address=4096 dram_address=0x1000 span=64 counts=[64,1,1,1,1] wait=[7:2]", "halt"});
  expectFault(result, FaultKind::Deadlock, "store0", 6, 34);
  EXPECT_EQ(result.fault->message, "store0 at word 6 waits for 2 of semaphore 7, which is at 0; "
                                   "load1 at word 3 waits for 1 of semaphore 3, which is at 0");
  // From visible in 23 and 20 on they wait for operands.
  EXPECT_EQ(cyclesOf(result, "store0", Label::Operand), 34u - 23u);
  EXPECT_EQ(cyclesOf(result, "load1", Label::Operand), 34u - 20u);
}

TEST(FaultTest, CycleLimit) {
  const isa::Program program =
      assemble({"loop count=1000000 body_words=1",
                "preload address=4096 span=64 row_stride=8 k_count=8 n_count=8 predicate=not_first", "halt"});
  core::MachineState state(smallMachine());
  ASSERT_FALSE(state.load(program));
  systemc::SimOptions options;
  options.maxCycles = 5000;
  const stats::SimResult result = run(program, state, options);
  expectFault(result, FaultKind::LimitReached, "sequencer", 1, 5000);
  // The model is as good as new afterwards.
  options.maxCycles = 1 << 20;
  EXPECT_FALSE(run(program, state, options).fault);
}

// A fault of cycle t shows in t + 1, and the end of a run in cycle total_cycles: what shows later than the limit is not seen.
TEST(FaultTest, CycleLimitOfWhatIsAlmostOver) {
  const std::string load = "load dram_address=0x1000 span=64 counts=[64,1,1,1,1] ";
  auto faultOf = [](const std::vector<std::string> &lines, timing::Cycle limit) {
    const isa::Program program = assemble(lines);
    core::MachineState state(smallMachine());
    EXPECT_FALSE(state.load(program));
    systemc::SimOptions options;
    options.maxCycles = limit;
    return run(program, state, options).fault;
  };
  // LoadOfOneBurst: retires in 33, 35 cycles.
  for (timing::Cycle limit : {32, 33, 34}) {
    const std::optional<core::Fault> fault = faultOf({load, "halt"}, limit);
    ASSERT_TRUE(fault) << limit;
    EXPECT_EQ(fault->kind, FaultKind::LimitReached);
    EXPECT_EQ(fault->cycle, limit);
  }
  EXPECT_FALSE(faultOf({load, "halt"}, 35));
  // ProgramWithoutHalt, and a deadlock in 34.
  EXPECT_EQ(faultOf({load}, 17)->kind, FaultKind::LimitReached);
  EXPECT_EQ(faultOf({load}, 18)->kind, FaultKind::IllegalInstruction);
  const std::vector<std::string> stuck = {load, "load unit=1 dram_address=0x1000 span=64 counts=[64,1,1,1,1] wait=[3:1]",
                                          "halt"};
  EXPECT_EQ(faultOf(stuck, 34)->kind, FaultKind::LimitReached);
  EXPECT_EQ(faultOf(stuck, 35)->kind, FaultKind::Deadlock);
}

TEST(FaultTest, ChecksFindAnUnorderedRead) {
  const isa::Program program = assemble({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1]",
                                         "store dram_address=0x2000 span=64 counts=[64,1,1,1,1]", "halt"});
  core::MachineState state(smallMachine());
  ASSERT_FALSE(state.load(program));
  systemc::SimOptions options;
  EXPECT_FALSE(run(program, state, options).fault);
  options.checks = true;
  const stats::SimResult result = run(program, state, options);
  ASSERT_TRUE(result.fault);
  EXPECT_TRUE(result.fault->kind == FaultKind::Unordered || result.fault->kind == FaultKind::UnwrittenRead)
      << result.fault->str();
}

} // namespace
