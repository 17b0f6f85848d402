//===- MemoryPlanTest.cpp -------------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/MemoryPlan.h"
#include <gtest/gtest.h>
#include <random>

using namespace tw::cpu;

TEST(MemoryPlanTest, BuffersThatDoNotMeetShareMemory) {
  std::vector<PlannedBuffer> buffers{{100, 0, 1, 0}, {64, 2, 3, 0}, {64, 1, 2, 0}};
  // 100 rounds up to 128; the third overlaps both in time and goes behind the larger.
  EXPECT_EQ(planMemory(buffers), 192);
  EXPECT_EQ(buffers[0].offset, 0);
  EXPECT_EQ(buffers[1].offset, 0);
  EXPECT_EQ(buffers[2].offset, 128);
}

TEST(MemoryPlanTest, RandomBuffersNeverOverlapInTimeAndSpace) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<PlannedBuffer> buffers(1 + random() % 30);
    for (PlannedBuffer &buffer : buffers) {
      buffer.bytes = random() % 1000;
      buffer.firstStep = random() % 20;
      buffer.lastStep = buffer.firstStep + random() % 5;
    }
    int64_t total = planMemory(buffers);
    for (size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(buffers[a].offset % bufferAlignment, 0);
      EXPECT_LE(buffers[a].offset + buffers[a].bytes, total);
      for (size_t b = 0; b < a; ++b) {
        bool meet = buffers[a].firstStep <= buffers[b].lastStep && buffers[b].firstStep <= buffers[a].lastStep;
        bool disjoint = buffers[a].offset + buffers[a].bytes <= buffers[b].offset ||
                        buffers[b].offset + buffers[b].bytes <= buffers[a].offset;
        EXPECT_TRUE(!meet || disjoint || !buffers[a].bytes || !buffers[b].bytes);
      }
    }
  }
}
