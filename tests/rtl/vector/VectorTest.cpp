//===- VectorTest.cpp - The vector engine's RTL against its definition ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "hw-configs/Machine.h"
#include "isa/Legality.h"
#include "isa/timing/InstructionTiming.h"
#include "simulator/functional/Execute.h"
#include "tests/fuzz/Seed.h"
#include "tests/rtl/vector/RandomVector.h"
#include "tests/rtl/vector/VectorBench.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace tw;
using namespace tw::test;

namespace {

timing::MachineParams machineUnderTest() {
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(TILEWRIGHT_VECTOR_MACHINE);
  EXPECT_TRUE(bool(machine)) << machine.message();
  return *machine;
}

/// The first byte that differs, in words; empty if none does.
std::string difference(const core::MachineState &found, const core::MachineState &expected) {
  for (int64_t memory : {0, 1, 7})
    for (uint64_t i = 0; i < expected.memorySize(memory); ++i)
      if (found.memory(memory)[i] != expected.memory(memory)[i])
        return "memory " + std::to_string(memory) + " byte " + std::to_string(i) + ": found " +
               std::to_string(found.memory(memory)[i]) + ", expected " + std::to_string(expected.memory(memory)[i]);
  return "";
}

class VectorTest : public testing::Test {
protected:
  /// Runs the batch on both sides: bytes, issue-free and retire cycles must agree.
  void compare(const std::vector<isa::Vector> &batch, const std::vector<uint64_t> &gaps) {
    for (const isa::Vector &vector : batch) {
      isa::Instruction instruction{isa::Operands(vector)};
      std::optional<std::string> problem = isa::illegal(instruction, machine);
      if (!problem)
        problem = isa::outOfRange(instruction, machine);
      ASSERT_FALSE(problem) << *problem << "\n" << isa::print(instruction);
      functional::execute(instruction, expected, functional::Kernel::Plain);
    }
    std::vector<VectorBench::Times> times = bench.run(batch, gaps, found);
    uint64_t free = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      timing::InstructionTime time = timing::timeOf(batch[i], machine);
      std::string text = isa::print(isa::Instruction{isa::Operands(batch[i])});
      ASSERT_EQ(times[i].start, free + gaps[i]) << text;
      free = times[i].start + time.occupancy;
      ASSERT_EQ(times[i].issueFree, free) << text;
      ASSERT_EQ(times[i].retire, free + time.drain) << text;
    }
    std::string problem = difference(found, expected);
    if (problem.empty())
      return;
    std::string text;
    for (const isa::Vector &vector : batch)
      text += isa::print(isa::Instruction{isa::Operands(vector)}) + "\n";
    FAIL() << problem << "\n" << text;
  }
  void fill(RandomVector &random) {
    random.fill(found);
    for (int64_t memory : {0, 1, 7})
      if (found.hasMemory(memory))
        std::memcpy(expected.memory(memory), found.memory(memory), found.memorySize(memory));
  }

  timing::MachineParams machine = machineUnderTest();
  VectorBench bench{machine};
  core::MachineState found{machine}, expected{machine};
};

TEST_F(VectorTest, OneVectorTakesOneCycleAndTheDrain) {
  // Eight bytes plus 5, saturated: 4 + (12 + 1 + 3) * 2 = 36 cycles behind the cycle that handles it.
  isa::Vector v;
  v.a_span = v.d_span = 8;
  v.d_address = 64;
  v.counts = {1, 1, 1, 1};
  v.window = {1, 1};
  v.num_stages = 1;
  v.stage_op[0] = int64_t(isa::StageOp::Iadd);
  v.stage_operand[0] = int64_t(isa::StageOperand::Imm2);
  v.immediates[2] = 5;
  const uint8_t input[8] = {0, 1, 127, 128, 255, 122, 123, 200};
  const uint8_t output[8] = {5, 6, 127, 133, 4, 127, 127, 205};
  std::memcpy(found.memory(0), input, 8);
  std::vector<VectorBench::Times> times = bench.run({v}, {3}, found);
  EXPECT_EQ(0, std::memcmp(found.memory(0) + 64, output, 8));
  EXPECT_EQ(3u, times[0].start);
  EXPECT_EQ(4u, times[0].issueFree);
  EXPECT_EQ(40u, times[0].retire);
}

TEST_F(VectorTest, LanesThatAreLeftOutKeepTheSignOfZero) {
  // Over two taps: -0 + -0 in the lanes of both, and -0 alone in those that only the first one has.
  isa::Vector v;
  v.a_type = v.d_type = int64_t(isa::VectorType::F32);
  v.a_span = 64, v.d_span = 32;
  v.d_address = 128;
  v.counts = {1, 1, 1, 1};
  v.window = {2, 1};
  v.window_op = int64_t(isa::WindowOp::Sum);
  v.a_window_strides = {32, 0};
  v.lane_reduce = 1;
  v.tail_lanes = 3;
  const std::vector<uint32_t> minusZeros(16, 0x80000000);
  std::memcpy(found.memory(0), minusZeros.data(), 64);
  // Lanes that are left out may hold anything.
  std::memset(found.memory(0) + 32 + 3 * 4, 0x41, 5 * 4);
  bench.run({v}, {0}, found);
  EXPECT_EQ(0, std::memcmp(found.memory(0) + 128, minusZeros.data(), 32));
}

TEST_F(VectorTest, RandomInstructionsBackToBackEqualTheDefinition) {
  for (uint64_t i = 0, cases = fuzz::numCases(400); i < cases; ++i) {
    uint64_t seed = fuzz::firstSeed() + i;
    SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed));
    RandomVector random(seed, machine);
    fill(random);
    std::vector<isa::Vector> batch;
    std::vector<uint64_t> gaps;
    if (random.flip())
      batch.push_back(random.inPlace());
    for (int64_t n = random.pick(1, 12); n > 0; --n)
      batch.push_back(random.vector());
    bool gapless = random.flip();
    for (size_t k = 0; k < batch.size(); ++k)
      gaps.push_back(gapless || random.flip() ? 0 : uint64_t(random.pick(1, 50)));
    compare(batch, gaps);
    if (HasFatalFailure())
      return;
  }
}

TEST_F(VectorTest, AStartPerCycleKeepsEveryChainApart) {
  // More instructions of one position than the pipe has stages, each with a chain of its own.
  RandomVector random(fuzz::firstSeed(), machine);
  fill(random);
  std::vector<isa::Vector> batch;
  while (batch.size() < 300) {
    isa::Vector v = random.vector();
    if (timing::timeOf(v, machine).occupancy == 1)
      batch.push_back(v);
  }
  compare(batch, std::vector<uint64_t>(batch.size(), 0));
}

} // namespace
