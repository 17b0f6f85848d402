//===- LabelTest.cpp - One hand-derived program per stall label -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// On smallMachine() word k is taken in cycle 14 + k if nothing stalls the
// sequencer, so an instruction whose last word is L is visible in 15 + L.
// Expected rows list busy, operand, interlock, bank conflict, DRAM bandwidth,
// DRAM latency, buffer full, starved, idle.
//===----------------------------------------------------------------------===//
#include "tests/unit/systemc/TestPrograms.h"

using namespace tw;
using namespace tw::test;
using Row = std::vector<timing::Cycle>;

namespace {

constexpr const char *kLoad = "load dram_address=0x1000 span=64 counts=[64,1,1,1,1]";
/// 16 vectors of 8 bytes from bank 0 to bank 3: occupancy 16, drain 4 + (12 + 1 + 3) * 2 = 36.
const std::string kVector =
    "vector a_type=i8 a_address=0 a_span=128 a_strides=[8] d_type=i8 d_address=6144 d_span=128 d_strides=[8] "
    "counts=[16,1,1,1] window=[1,1]";
const std::string kPreload = "preload address=4096 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1";

std::string tensor(unsigned positions, const std::string &more) {
  return "tensor address=0 span=" + std::to_string(positions * 8) + " acc_address=0 acc_span=" + std::to_string(positions) +
         " counts=[" + std::to_string(positions) + ",1,1] strides=[8] acc_strides=[1] is_signed=1 k_count=8 " + more;
}

void expectCause(const stats::SimResult &result, const std::string &engine, size_t index, const std::string &text,
                 timing::Cycle cycles) {
  const auto &causes = engineOf(result, engine).causes;
  ASSERT_GT(causes.size(), index);
  EXPECT_EQ(causes[index].str(), text);
  EXPECT_EQ(causes[index].cycles, cycles);
}

// The load starts in 17 and retires in 33 (LoadOfOneBurst); its post is visible in 34. The vector instruction (words
// 3-7) is visible in 22 and starts in 34: 12 cycles. It is issue-free in 50 and retires in 86: total 88.
TEST(LabelTest, OperandUntilThePostIsVisible) {
  const stats::SimResult result = run({kLoad + std::string(" post=[5:1]"), kVector + " wait=[5:1]", "halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 88u);
  EXPECT_EQ(labelsOf(result, "vector"), (Row{16, 12, 0, 0, 0, 0, 0, 22, 38}));
  expectCause(result, "vector", 0, "semaphore 5 from load0", 12);
}

// The same without a semaphore: bank 0 belongs to the load until 33 + bank_release 1 = 34.
TEST(LabelTest, BankConflictUntilTheOwnerHasRetired) {
  const stats::SimResult result = run({kLoad, kVector, "halt"});
  EXPECT_EQ(result.totalCycles, 88u);
  EXPECT_EQ(labelsOf(result, "vector"), (Row{16, 0, 0, 12, 0, 0, 0, 22, 38}));
  expectCause(result, "vector", 0, "bank of load0", 12);
}

// Vector (words 3-7, visible 22) and store (words 8-10, visible 25) both want bank 0 of the load. In 34 the store goes
// first: gathers in 36, is accepted in 37, retires in 39, so the vector instruction starts in 40. Store: set-up 34, 35
// counts as latency, busy 36 and 37, waited 34 - 25 = 9 cycles. Vector retires in 92: total 94.
TEST(LabelTest, EnginePriorityDecidesABankWantedByTwo) {
  const stats::SimResult result = run({kLoad, kVector, "store dram_address=0x2000 span=64 counts=[64,1,1,1,1]", "halt"});
  EXPECT_EQ(result.totalCycles, 94u);
  EXPECT_EQ(labelsOf(result, "vector"), (Row{16, 0, 0, 18, 0, 0, 0, 22, 38}));
  expectCause(result, "vector", 0, "bank of load0", 12);
  expectCause(result, "vector", 1, "bank of store0", 6);
  EXPECT_EQ(labelsOf(result, "store0"), (Row{2, 0, 0, 9, 0, 2, 0, 25, 56}));
}

// Preload (word 0) runs [15, 23), retires in 25, is swappable in 26. Tensor (words 1-2) is visible in 17: 9 cycles. It
// runs [26, 42) and drains 2 + 1 + clog2(8) * 1 + 2 = 8: retires in 50, total 52.
TEST(LabelTest, InterlockUntilTheTileIsReady) {
  const stats::SimResult result = run({kPreload, tensor(16, "swap=1"), "halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 52u);
  EXPECT_EQ(labelsOf(result, "preload"), (Row{8, 0, 0, 0, 0, 0, 0, 15, 29}));
  EXPECT_EQ(labelsOf(result, "tensor"), (Row{16, 0, 9, 0, 0, 0, 0, 17, 10}));
  expectCause(result, "tensor", 0, "shadow registers not ready", 9);
  EXPECT_EQ(result.macs, 16u * 8 * 8);
}

// p1 (word 0) runs [15, 23), t1 (words 2-3) starts in 26 as above, so the shadow registers are free in 27. p2 (word 1)
// could start in 23: 4 cycles. It runs [27, 35), is swappable in 38. t1 of 4 positions runs [26, 30): t2 (words 4-5)
// waits 8 cycles. Before t1 the interlock lasts from 19 (visible) to 26: 7. t2 runs [38, 42), retires in 50: total 52.
TEST(LabelTest, InterlockWhileTheShadowRegistersAreInUse) {
  const stats::SimResult result = run({kPreload, kPreload, tensor(4, "swap=1"), tensor(4, "swap=1"), "halt"});
  EXPECT_EQ(result.totalCycles, 52u);
  EXPECT_EQ(labelsOf(result, "preload"), (Row{16, 0, 4, 0, 0, 0, 0, 15, 17}));
  expectCause(result, "preload", 0, "shadow registers in use", 4);
  EXPECT_EQ(labelsOf(result, "tensor"), (Row{8, 0, 16, 0, 0, 0, 0, 18, 10}));
}

// Two instructions of one position on one accumulator row: the first runs [26, 27), the second may start acc_rmw_int 2
// cycles after it, in 28. Retires in 29 + 8 = 37: total 39.
TEST(LabelTest, InterlockOfTheAccumulatorDistance) {
  const stats::SimResult result = run({kPreload, tensor(1, "swap=1"), tensor(1, "accumulate=1"), "halt"});
  EXPECT_EQ(result.totalCycles, 39u);
  EXPECT_EQ(labelsOf(result, "tensor"), (Row{2, 0, 10, 0, 0, 0, 0, 17, 10}));
  expectCause(result, "tensor", 1, "accumulator distance", 1);
}

// 8 bytes per cycle: a burst is on the bus for 8 cycles. Program: burst 0 requested in 2, on the bus [2, 10), arrives in
// 20; burst 1 requested in 3, bus [10, 18), arrives in 28. Words are taken in 21, 22, 29, 30; the load starts in 31 -
// dispatch: last word 29, visible and start in 30. It requests in 32, 33, 34, 35; bus [32, 64); arrivals 50, 58, 66, 74;
// moves 51, 59, 67, 75; retires in 77. load0 in [30, 76): busy 8; bandwidth [36, 64) without 51 and 59: 26; latency 30,
// 31 and [64, 75) without 67: 12. Sequencer: busy 2, 3 (requests) and 4 takes; [4, 18) bandwidth; 0, 1, [18, 21) and
// [23, 29) latency.
TEST(LabelTest, DramBandwidthWhileTheBusMoves) {
  timing::MachineParams machine = smallMachine();
  machine.dram.bytesPerCycleNumerator = 8;
  const stats::SimResult result = run({"load dram_address=0x1000 span=256 counts=[256,1,1,1,1]", "halt"}, machine);
  EXPECT_EQ(result.totalCycles, 79u);
  EXPECT_EQ(labelsOf(result, "load0"), (Row{8, 0, 0, 0, 26, 12, 0, 30, 3}));
  EXPECT_EQ(labelsOf(result, "sequencer"), (Row{6, 0, 0, 0, 14, 11, 0, 0, 48}));
  EXPECT_EQ(result.dramReadBytes, 256u);
  EXPECT_EQ(result.fetchBytes, 128u);
}

// The bus is done with a burst in the cycle of its request, so all waiting is latency: [17, 31) without the request in 19.
TEST(LabelTest, DramLatencyWhileTheBusIsFree) {
  const stats::SimResult result = run({kLoad, "halt"});
  EXPECT_EQ(labelsOf(result, "load0"), (Row{2, 0, 0, 0, 0, 13, 0, 17, 3}));
}

// Fetch and start as in DramBandwidthWhileTheBusMoves. The store gathers in 32, 33, 34, 35. Bursts 0 and 1 are accepted
// in 33 and 34; nothing reads, so they are written from 34 and 35 on: bus [34, 42) and [42, 50), entries free in 52 and
// 60. Bursts 2 and 3 are accepted then; written from 53 and 61 on, done in 71 and 79. The store retires in 62; total 79
// + done 2 = 81. store0: busy 32-35, 52, 60; full [36, 52) and [53, 60).
TEST(LabelTest, WriteBufferFull) {
  timing::MachineParams machine = smallMachine();
  machine.dram.bytesPerCycleNumerator = 8;
  machine.dram.writeBufferBursts = 2;
  machine.dram.writeHighWatermark = 2;
  machine.dram.writeLowWatermark = 0;
  const stats::SimResult result = run({"store dram_address=0x1000 span=256 counts=[256,1,1,1,1]", "halt"}, machine);
  ASSERT_EQ(result.instructions.size(), 1u);
  EXPECT_EQ(result.instructions[0].retire, 62u);
  EXPECT_EQ(result.totalCycles, 81u);
  EXPECT_EQ(labelsOf(result, "store0"), (Row{6, 0, 0, 0, 0, 2, 23, 30, 20}));
  expectCause(result, "store0", 0, "write buffer", 23);
  EXPECT_EQ(result.dramWriteBytes, 256u);
}

// One queue slot. v1 (words 0-4) is dispatched in 18, starts in 19, its slot is free in 20; v2 is dispatched in 23,
// starts in 35, slot free in 36. v3's last word could be taken in 28 and is taken in 36. v3 starts in 51, retires in
// 103: total 105. Sequencer: 16 takes and 8 requests in [2, 10); 6 cycles of latency before 14; full [28, 36); halt in 37.
TEST(LabelTest, OutputQueueFull) {
  timing::MachineParams machine = smallMachine();
  machine.queueDepth = 1;
  const stats::SimResult result = run({kVector, kVector, kVector, "halt"}, machine);
  EXPECT_EQ(result.totalCycles, 105u);
  EXPECT_EQ(labelsOf(result, "sequencer"), (Row{24, 0, 0, 0, 0, 6, 8, 0, 67}));
  expectCause(result, "sequencer", 0, "queue of vector", 8);
  EXPECT_EQ(labelsOf(result, "vector"), (Row{48, 0, 0, 0, 0, 0, 0, 19, 38}));
}

// v1 of one output runs [19, 20). The loop word is taken in 19, its 12 iterations of 2 words in [20, 44); only the last
// dispatches the preload. v2 (words 8-12) is taken in 44-48 and runs [49, 50): starved [0, 19) and [20, 49). It retires
// in 86: total 88. The preload is visible in 44, runs [44, 52), retires in 54.
TEST(LabelTest, StarvedBetweenInstructionsAndIdleAfterTheLast) {
  const std::string one = "vector a_type=i8 a_span=8 d_type=i8 d_address=6144 d_span=8 counts=[1,1,1,1] window=[1,1]";
  const stats::SimResult result =
      run({one, "loop count=12 body_words=2", kPreload + " predicate=last predicate_mask=1 levels=[{count=12}]", one, "halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 88u);
  EXPECT_EQ(labelsOf(result, "vector"), (Row{2, 0, 0, 0, 0, 0, 0, 48, 38}));
  EXPECT_EQ(labelsOf(result, "preload"), (Row{8, 0, 0, 0, 0, 0, 0, 44, 36}));
  // 14 words are fetched once, whatever the loop does.
  EXPECT_EQ(result.fetchBytes, 7u * 64);
  EXPECT_EQ(result.dispatchedWords, 5u + 1 + 24 + 5 + 1);
}

} // namespace
