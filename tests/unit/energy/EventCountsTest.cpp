//===- EventCountsTest.cpp - Events of tiny programs, by hand -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/energy/EventCounts.h"
#include "tests/unit/systemc/TestPrograms.h"

using namespace tw;
using namespace tw::energy;

namespace {

EventCounts totalOf(const std::vector<std::string> &lines) {
  return countEvents(test::assemble(lines), test::smallMachine()).total();
}

const char *const kPreload = "preload span=64 row_stride=8 k_count=8 n_count=8";

std::string tensor(unsigned positions, const std::string &more = "") {
  const std::string count = std::to_string(positions);
  return "tensor address=64 span=" + std::to_string(8 * positions) + " acc_span=" + count + " counts=[" + count +
         ",1,1] strides=[8] acc_strides=[1] swap=1 k_count=8 " + more;
}

} // namespace

TEST(EventCountsTest, AGemmOfOneTile) {
  const EventCounts counts = totalOf({kPreload, tensor(5), "halt"});
  EXPECT_EQ(counts.arrayMacs, 5u * 8 * 8);
  // A tile of 8 x 8 bytes enters the shadow registers, then the active ones.
  EXPECT_EQ(counts.weightRegisterBits, 2u * 512);
  // Eight rows of weights and five vectors of eight bytes: a word each.
  EXPECT_EQ(counts.memories[0].read, 8u + 5);
  EXPECT_EQ(counts.memories[0].written, 0u);
  // Five rows of eight sums of four bytes.
  EXPECT_EQ(counts.memories[kAccumulatorIndex].written, 5u * 4);
  EXPECT_EQ(counts.memories[kAccumulatorIndex].read, 0u);
  // Words: preload 1, tensor 2, halt 1; halt enters no queue.
  EXPECT_EQ(counts.dispatchedWords, 4u);
  EXPECT_EQ(counts.queueBits, 3u * 256);
}

TEST(EventCountsTest, AccumulationReadsTheRowsToo) {
  const EventCounts counts = totalOf({kPreload, tensor(5, "accumulate=1"), "halt"});
  EXPECT_EQ(counts.memories[kAccumulatorIndex].read, 5u * 4);
  EXPECT_EQ(counts.memories[kAccumulatorIndex].written, 5u * 4);
}

TEST(EventCountsTest, PartOfTheArrayCountsForPartOfTheMacs) {
  const EventCounts counts =
      totalOf({"preload span=64 row_stride=8 k_count=3 n_count=2",
               "tensor address=64 span=40 acc_span=5 counts=[5,1,1] strides=[8] acc_strides=[1] swap=1 k_count=3", "halt"});
  EXPECT_EQ(counts.arrayMacs, 5u * 3 * 2);
  EXPECT_EQ(counts.memories[0].read, 3u + 5) << "rows of fewer than eight bytes are a word";
}

TEST(EventCountsTest, TilesAreTakenInTheOrderOfPreloads) {
  // Both preloads are dispatched before the first tensor instruction.
  const EventCounts counts = totalOf({"preload span=64 row_stride=8 k_count=8 n_count=2",
                                      "preload span=64 row_stride=8 k_count=8 n_count=8", tensor(1), tensor(1), "halt"});
  EXPECT_EQ(counts.arrayMacs, 8u * 2 + 8 * 8);
}

TEST(EventCountsTest, LoopsPredicatesAndEdgesCountAsExecuted) {
  // Three iterations; the tensor instruction runs in all but the first, the last time with one position instead of five.
  const std::string inLoop = tensor(5, "levels=[{count=3}] predicate=not_first predicate_mask=1 "
                                       "edge=[0:0:1]");
  const isa::Program body = test::assemble({inLoop});
  const std::string loop = "loop count=3 body_words=" + std::to_string(body.code.size());
  const EventCounts counts = totalOf({kPreload, loop, inLoop, "halt"});
  EXPECT_EQ(counts.arrayMacs, (5u + 1) * 64);
  // The sequencer takes the words of what it drops.
  EXPECT_EQ(counts.dispatchedWords, 1 + 1 + 3 * body.code.size() + 1);
}

TEST(EventCountsTest, TransfersAreBurstsAndWords) {
  const EventCounts counts = totalOf({"load dram_address=0x1000 span=128 counts=[128,1,1,1,1]",
                                      "store dram_address=0x2020 span=64 counts=[64,1,1,1,1]", "halt"});
  EXPECT_EQ(counts.dramReadBursts, 2u);
  EXPECT_EQ(counts.dramWriteBursts, 2u) << "the store begins in the middle of a burst";
  EXPECT_EQ(counts.memories[0].written, 16u);
  EXPECT_EQ(counts.memories[0].read, 8u);
}

TEST(EventCountsTest, ShortRunsOfATransferAreAWordEach) {
  const EventCounts counts =
      totalOf({"load dram_address=0x1000 span=128 counts=[3,4,1,1,1] dram_strides=[64] strides=[8]", "halt"});
  EXPECT_EQ(counts.dramReadBursts, 4u);
  EXPECT_EQ(counts.memories[0].written, 4u);
}

TEST(EventCountsTest, AWindowReadsWhatItsRegistersDoNotHold) {
  // Three outputs of a row of 3 x 3 taps, one column on each time: 9 + 3 + 3 vectors of a word.
  const std::string window = "vector a_type=i8 a_span=120 a_strides=[8] a_window_strides=[8,40] d_type=i8 d_address=6144 "
                             "d_span=24 d_strides=[8] counts=[3,1,1,1] window=[3,3] window_op=max window_step=1";
  const EventCounts counts = totalOf({window, "halt"});
  EXPECT_EQ(counts.memories[0].read, 15u);
  EXPECT_EQ(counts.memories[0].written, 3u);
  // Of each output and lane eight comparisons.
  EXPECT_EQ(counts.laneOps[size_t(LaneOp::Simple)], 3u * 8 * 8);
  EXPECT_EQ(counts.laneRegisterBits, 3u * 8 * 12 * 32);
}

TEST(EventCountsTest, StagesAreOperationsOfEachLane) {
  const EventCounts counts = totalOf({"vector a_type=i32 a_span=128 a_strides=[32] d_type=i8 d_address=6144 d_span=32 "
                                      "d_strides=[8] counts=[4,1,1,1] window=[1,1] num_stages=3 "
                                      "stage=[i2f:none,fmul:imm0,quantize:imm1]",
                                      "halt"});
  EXPECT_EQ(counts.laneOps[size_t(LaneOp::Convert)], 2u * 4 * 8) << "i2f, and the conversion of quantize";
  EXPECT_EQ(counts.laneOps[size_t(LaneOp::FloatMultiply)], 4u * 8);
  EXPECT_EQ(counts.laneOps[size_t(LaneOp::Simple)], 4u * 8);
  EXPECT_EQ(counts.memories[0].read, 4u * 4) << "vectors of 32 bytes";
  EXPECT_EQ(counts.memories[0].written, 4u);
}

TEST(EventCountsTest, TotalsAreTheSimulators) {
  const std::vector<std::string> lines = {"load dram_address=0x1000 span=64 counts=[64,1,1,1,1] post=[1:1]",
                                          std::string(kPreload) + " wait=[1:1]", tensor(5), "halt"};
  const EventCounts counts = totalOf(lines);
  const stats::SimResult result = test::run(lines);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(counts.arrayMacs, result.macs);
  EXPECT_EQ(counts.dispatchedWords, result.dispatchedWords);
  EXPECT_EQ(counts.dramReadBursts * 64, result.dramReadBytes);
  EXPECT_EQ(counts.dramWriteBursts * 64, result.dramWriteBytes);
}
