//===- InstructionTimingTest.cpp - The closed forms -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "isa/timing/InstructionTiming.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::timing;

namespace {

MachineParams machineOf(uint32_t size, ArrayType type) {
  MachineParams machine;
  machine.arrayType = type;
  machine.rows = machine.cols = machine.lanes = size;
  machine.scratchpads = {{"scratchpad", 16384, 8}};
  machine.accumulator = {"accumulator", 8192, 4};
  return machine;
}

isa::Vector vectorOf(int64_t positions, int64_t blocks) {
  isa::Vector vector;
  vector.counts = {positions, 1, 1, blocks};
  vector.window = {1, 1};
  vector.a_span = 8;
  return vector;
}

TEST(InstructionTimingTest, PreloadTakesStoredRows) {
  MachineParams machine = machineOf(16, ArrayType::Int8);
  isa::Preload preload;
  preload.k_count = 9;
  preload.n_count = 4;
  EXPECT_EQ(timeOf(preload, machine).occupancy, 9u);
  preload.transpose = 1;
  EXPECT_EQ(timeOf(preload, machine).occupancy, 4u);
  machine.preloadRowsPerCycle = 4;
  preload.transpose = 0;
  EXPECT_EQ(timeOf(preload, machine).occupancy, 3u);
  EXPECT_EQ(timeOf(preload, machine).drain, 2u);
}

// int8, 16 rows: 2 + 1 + 4 * 1 + 2. fp32, 128 rows: 2 + 3 + 7 * 3 + 4.
TEST(InstructionTimingTest, TensorDrainFollowsTheTree) {
  isa::Tensor tensor;
  tensor.counts = {5, 3, 2};
  EXPECT_EQ(timeOf(tensor, machineOf(16, ArrayType::Int8)).occupancy, 30u);
  EXPECT_EQ(timeOf(tensor, machineOf(16, ArrayType::Int8)).drain, 9u);
  EXPECT_EQ(timeOf(tensor, machineOf(128, ArrayType::Fp32)).drain, 30u);
}

TEST(InstructionTimingTest, VectorReadsOneOperandPerCycleAndBank) {
  const MachineParams machine = machineOf(8, ArrayType::Int8);
  isa::Vector vector = vectorOf(10, 2);
  EXPECT_EQ(timeOf(vector, machine).occupancy, 20u);
  // B in another bank of 2048 bytes costs nothing, in A's bank one more read.
  vector.b_enable = 1;
  vector.b_span = 8;
  vector.b_address = 2048;
  EXPECT_EQ(timeOf(vector, machine).occupancy, 20u);
  vector.b_address = 2040;
  EXPECT_EQ(timeOf(vector, machine).occupancy, 40u);
  vector.b_memory = int64_t(isa::Memory::Accumulator);
  EXPECT_EQ(timeOf(vector, machine).occupancy, 20u);
}

// Depthwise 3 x 3, 10 outputs in a row, 2 rows, 3 blocks. Per block: 9 weights, 2 parameters. Stride 1 with reuse: 3
// reads per output and 3 * 2 more at the start of each row. Stride 2: 6 and 3. Without reuse 9.
TEST(InstructionTimingTest, DepthwiseReusesColumns) {
  const MachineParams machine = machineOf(8, ArrayType::Int8);
  isa::Vector vector = vectorOf(10, 3);
  vector.counts[1] = 2;
  vector.window = {3, 3};
  vector.window_op = int64_t(isa::WindowOp::Mac);
  vector.b_enable = 1;
  vector.p_count = 2;
  vector.window_step = 1;
  EXPECT_EQ(timeOf(vector, machine).occupancy, 3u * (9 + 2 + 2 * 6 + 20 * 3));
  vector.window_step = 2;
  EXPECT_EQ(timeOf(vector, machine).occupancy, 3u * (9 + 2 + 2 * 3 + 20 * 6));
  vector.window_step = 0;
  EXPECT_EQ(timeOf(vector, machine).occupancy, 3u * (9 + 2 + 20 * 9));
  // The reuse registers hold 3 x 3 taps: neither 5 wide nor 5 high windows fit.
  vector.window = {5, 1};
  vector.window_step = 1;
  EXPECT_EQ(timeOf(vector, machine).occupancy, 3u * (5 + 2 + 20 * 5));
  vector.window = {1, 5};
  EXPECT_EQ(timeOf(vector, machine).occupancy, 3u * (5 + 2 + 20 * 5));
  vector.window = {3, 5};
  EXPECT_EQ(timeOf(vector, machine).occupancy, 3u * (15 + 2 + 20 * 15));
}

// Whatever the instruction does: 4 + (12 stages + window + clog2(8) levels) * 2, and 4 + (5 + 1 + 4) * 2.
TEST(InstructionTimingTest, VectorDrainIsConstant) {
  MachineParams machine = machineOf(8, ArrayType::Int8);
  isa::Vector vector = vectorOf(1, 1);
  EXPECT_EQ(timeOf(vector, machine).drain, 36u);
  vector.num_stages = 3;
  vector.stage_op[1] = int64_t(isa::StageOp::Fexp);
  vector.window_op = int64_t(isa::WindowOp::Max);
  vector.lane_reduce = 1;
  EXPECT_EQ(timeOf(vector, machine).occupancy, 1u);
  EXPECT_EQ(timeOf(vector, machine).drain, 36u);
  machine.vectorStages = 5;
  machine.lanes = 16;
  EXPECT_EQ(timeOf(vector, machine).drain, 24u);
}

} // namespace
