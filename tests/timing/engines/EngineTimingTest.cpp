//===- EngineTimingTest.cpp - Starts and retirements by hand --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On smallMachine() word k is taken in cycle 14 + k if nothing stalls the
// sequencer, so an instruction whose last word is L is visible in 15 + L.
//===----------------------------------------------------------------------===//
#include "tests/unit/systemc/TestPrograms.h"

using namespace tw;
using namespace tw::test;

namespace {

std::string vector(unsigned outputs, const std::string &more = "") {
  return "vector a_type=i8 a_span=" + std::to_string(outputs * 8) +
         " a_strides=[8] d_type=i8 d_address=6144 d_span=" + std::to_string(outputs * 8) + " d_strides=[8] counts=[" +
         std::to_string(outputs) + ",1,1,1] window=[1,1] " + more;
}

std::string load(unsigned bytes, const std::string &more = "") {
  return "load dram_address=0x1000 span=" + std::to_string(bytes) + " counts=[" + std::to_string(bytes) + ",1,1,1,1] " + more;
}

void expectTimes(const stats::SimResult &result, size_t index, timing::Cycle start, timing::Cycle issueFree,
                 timing::Cycle retire) {
  ASSERT_FALSE(result.fault) << result.fault->str();
  ASSERT_LT(index, result.instructions.size());
  EXPECT_EQ(result.instructions[index].start, start) << "instruction " << index;
  EXPECT_EQ(result.instructions[index].issueFree, issueFree) << "instruction " << index;
  EXPECT_EQ(result.instructions[index].retire, retire) << "instruction " << index;
}

// v1 is visible and starts in 19, v2 is visible in 24. They use the same banks; v2 starts when v1 is issue-free. The drain
// is 4 + (12 stages + window + 3 levels) * 2 = 36.
TEST(EngineTimingTest, InstructionsOfOneEngineFollowWithoutABubble) {
  const stats::SimResult result = run({vector(16), vector(16), "halt"});
  expectTimes(result, 0, 19, 35, 71);
  expectTimes(result, 1, 35, 51, 87);
  EXPECT_EQ(result.totalCycles, 89u);
}

// Two segments per cycle. A's only burst, requested in 19, arrives in 30 and moves in 31; the fill that is all of B follows
// in the same cycle. Both would retire in 33; B retires one cycle after A.
TEST(EngineTimingTest, RetirementsStayInOrder) {
  timing::MachineParams machine = smallMachine();
  machine.burstsPerCycle = 2;
  const stats::SimResult result = run({load(64), load(64, "low=[64]"), "halt"}, machine);
  expectTimes(result, 0, 17, 20, 33);
  expectTimes(result, 1, 20, 23, 34);
}

// All 12 stages cost no more than none. Two parameter vectors: 2 cycles.
TEST(EngineTimingTest, StagesAreAPipeline) {
  const stats::SimResult result = run({vector(16, "num_stages=12 p_count=2 p_address=2048 p_span=64"), "halt"});
  expectTimes(result, 0, 19, 19 + 2 + 16, 19 + 2 + 16 + 36);
}

// Box B may start when box A has requested its only burst in 19. Requests 19 and 22, arrivals 30 and 33, moves 31 and 34.
TEST(EngineTimingTest, NextBoxStartsWhenTheLastBurstIsRequested) {
  const stats::SimResult result = run({load(64), load(64), "halt"});
  expectTimes(result, 0, 17, 20, 33);
  expectTimes(result, 1, 20, 23, 36);
}

// Two bursts may be on the way: requests 19 and 20; burst 2 when burst 0 has moved, W0 + 1 = 32; burst 3 in 33. W3 = 33
// + 11 + 1 = 45.
TEST(EngineTimingTest, OutstandingLimit) {
  timing::MachineParams machine = smallMachine();
  machine.outstandingBursts = 2;
  const stats::SimResult result = run({load(256), "halt"}, machine);
  expectTimes(result, 0, 17, 34, 47);
}

// Four runs of 16 bytes lie in one burst: one request in 19, the pieces passed in 19-22 and moving in 31-34.
TEST(EngineTimingTest, ShortRunsShareABurstButNotASegment) {
  const stats::SimResult result =
      run({"load dram_address=0x1000 span=64 counts=[16,4,1,1,1] dram_strides=[16] strides=[16]", "halt"});
  expectTimes(result, 0, 17, 23, 36);
  EXPECT_EQ(result.dramReadBytes, 64u);
}

// Of three rows of 64 bytes the first and the last are filled. The first fill is passed and moves in 19, so the burst is
// requested in 20, and the last fill is passed in 21. The burst arrives in 31; burst and last fill move in 32 and 33.
TEST(EngineTimingTest, FillsMoveInOrder) {
  const stats::SimResult result = run(
      {"load dram_address=0x1000 span=192 counts=[64,3,1,1,1] dram_strides=[64] strides=[64] low=[0,1] high=[0,1]", "halt"});
  expectTimes(result, 0, 17, 22, 35);
  EXPECT_EQ(cyclesOf(result, "load0", Label::Busy), 4u);
}

// Everything is filled: nothing to request; two fills are passed, and move, in 19 and 20.
TEST(EngineTimingTest, BoxWithoutBursts) {
  const stats::SimResult result = run({"load dram_address=0x1000 span=128 counts=[128,1,1,1,1] low=[128]", "halt"});
  expectTimes(result, 0, 17, 21, 22);
  EXPECT_EQ(result.dramReadBytes, 0u);
}

// Two boxes may be in flight. A and B start as in NextBoxStartsWhenTheLastBurstIsRequested and retire in 33 and 36. C (words
// 6-8, visible in 23) waits for A's retirement from 23 to 34; it requests in 36 and retires in 36 + 11 + 1 + 2.
TEST(EngineTimingTest, BoxesInFlightLimit) {
  timing::MachineParams machine = smallMachine();
  machine.timing.dma_boxes = 2;
  const stats::SimResult result = run({load(64), load(64), load(64), "halt"}, machine);
  expectTimes(result, 1, 20, 23, 36);
  expectTimes(result, 2, 34, 37, 50);
  // Of the 11 cycles, A's move in 31 is busy.
  EXPECT_EQ(cyclesOf(result, "load0", Label::Interlock), 10u);
}

// load0 starts in 17 and requests from 19 on; load1 (words 3-5) starts in 20 and wants the port from 22 on. With a grant
// of 4 bursts load0 has 19-22, load1 23-26, load0 27-30. Last arrivals 41 and 37, last moves one later.
TEST(EngineTimingTest, GrantsEndAfterTheirBursts) {
  timing::MachineParams machine = smallMachine();
  machine.dram.grantBursts = 4;
  const std::vector<std::string> program = {load(512), load(256, "unit=1 address=2048"), "halt"};
  const stats::SimResult four = run(program, machine);
  expectTimes(four, 0, 17, 31, 44);
  expectTimes(four, 1, 20, 27, 40);
  // With a grant of 32 bursts load0 has 19-26 and load1 27-30.
  const stats::SimResult many = run(program);
  expectTimes(many, 0, 17, 27, 40);
  expectTimes(many, 1, 20, 31, 44);
}

// A prefetch FIFO of 2 words: burst 1 is requested when both words of burst 0 are taken, in 16, and arrives in 27.
TEST(EngineTimingTest, PrefetchDepthLimitsTheFetch) {
  timing::MachineParams machine = smallMachine();
  machine.prefetchWords = 2;
  const stats::SimResult result = run({load(64), "halt"}, machine);
  expectTimes(result, 0, 29, 32, 45);
  EXPECT_EQ(result.totalCycles, 47u);
}

// The store gathers in 19 and is accepted in 20; fetch reads (bursts 0 and 1) arrived in 13 and 14, so the write goes
// out in 21, is done in 32. Retired in 22, done visible 32 + 2.
TEST(EngineTimingTest, DoneWaitsForTheWriteBuffer) {
  const stats::SimResult result = run({"store dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"});
  expectTimes(result, 0, 17, 21, 22);
  EXPECT_EQ(result.totalCycles, 34u);
}

// Three iterations of a load with a stride: dispatched when its last word is taken in 14 + 1 + 4 k + 3 (loop word, then
// 4 words an iteration, the odometer word included); issue-free 3 cycles after its start, so starts are 4 apart. Nothing
// is fetched again.
TEST(EngineTimingTest, LoopBodiesComeFromTheLoopBuffer) {
  const stats::SimResult result =
      run({"loop count=3 body_words=4", load(64, "levels=[{count=3 stride_a=64 stride_b=64}]"), "halt"});
  expectTimes(result, 0, 19, 22, 35);
  expectTimes(result, 1, 23, 26, 39);
  expectTimes(result, 2, 27, 30, 43);
  EXPECT_EQ(result.fetchBytes, 3u * 64);
}

// The inner body ends with the outer one; jumping back costs nothing: 2 x (1 loop word + 3 x 1 preload word... ) words
// in a row. Words: outer loop in 14, inner loop in 15, preload in 16-18, inner loop in 19, preload in 20-22, halt in 23.
TEST(EngineTimingTest, NestedLoopsJumpWithoutCost) {
  const std::string off = "preload address=4096 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1 predicate=not_first";
  const stats::SimResult result = run({"loop count=2 body_words=2", "loop count=3 body_words=1", off, "halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 25u);
  EXPECT_EQ(result.dispatchedWords, 1u + 2 * (1 + 3) + 1);
  EXPECT_EQ(result.instructionCount, 0u);
}

} // namespace
