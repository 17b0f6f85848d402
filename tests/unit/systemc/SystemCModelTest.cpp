//===- SystemCModelTest.cpp - The cycle-accurate model as a whole ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/systemc/TestPrograms.h"

using namespace tw;
using namespace tw::test;

namespace {

// Word 0 is taken in cycle 14; done is visible done_cycles = 2 later.
TEST(SystemCModelTest, EmptyProgramTakesFetchAndDone) {
  const stats::SimResult result = run({"halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 16u);
}

// Words 0-2 are taken in 14-16, so the load is visible and starts in 17. Its burst is requested in 17 + dma_setup 2 = 19, arrives in 30,
// moves in 31; it retires in 31 + dma_drain 2 = 33.
TEST(SystemCModelTest, LoadOfOneBurst) {
  const stats::SimResult result = run({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 35u);
  ASSERT_EQ(result.instructions.size(), 1u);
  EXPECT_EQ(result.instructions[0].visible, 17u);
  EXPECT_EQ(result.instructions[0].start, 17u);
  EXPECT_EQ(result.instructions[0].issueFree, 20u);
  EXPECT_EQ(result.instructions[0].retire, 33u);
  // Busy: request in 19, move in 31. The other cycles of [17, 31) are latency: the bus moved the burst in 19 itself.
  EXPECT_EQ(labelsOf(result, "load0"), (std::vector<timing::Cycle>{2, 0, 0, 0, 0, 13, 0, 17, 3}));
  EXPECT_EQ(labelsOf(result, "tensor"), (std::vector<timing::Cycle>{0, 0, 0, 0, 0, 0, 0, 0, 35}));
}

} // namespace
