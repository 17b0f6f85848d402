//===- ZeroedMemoryTest.cpp - Memory that costs only what is used ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/core/ZeroedMemory.h"

#include "isa/OutOfMemory.h"
#include "simulator/core/MachineState.h"
#include "tests/unit/functional/TestMachine.h"

#include <gtest/gtest.h>

#include <fstream>
#include <unistd.h>

using namespace tw;
using namespace tw::core;

namespace {

constexpr uint64_t kMiB = 1 << 20, kTiB = uint64_t(1) << 40;

uint64_t addressSpace() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * uint64_t(sysconf(_SC_PAGESIZE));
}

} // namespace

TEST(ZeroedMemoryTest, IsZeroAndKeepsWhatIsWritten) {
  ZeroedMemory memory(64 * kMiB, "the test");
  EXPECT_EQ(memory.size(), 64 * kMiB);
  memory.data(10)[9] = 7;
  uint8_t *all = memory.data(memory.size());
  EXPECT_EQ(all[9], 7);
  EXPECT_EQ(all[10], 0);
  all[memory.size() - 1] = 8;
  EXPECT_EQ(memory.data(1)[memory.size() - 1], 8) << "what was asked for stays";
  memory.clear();
  EXPECT_EQ(memory.data(1)[9], 0);
  EXPECT_EQ(memory.data(1)[memory.size() - 1], 0);
}

TEST(ZeroedMemoryTest, TakesAddressSpaceForWhatIsAskedFor) {
  const uint64_t before = addressSpace();
  ZeroedMemory memory(kTiB, "the test");
  EXPECT_LT(addressSpace() - before, kMiB);
  memory.data(100 * kMiB);
  EXPECT_GE(addressSpace() - before, 100 * kMiB);
  EXPECT_LT(addressSpace() - before, 110 * kMiB);
}

TEST(ZeroedMemoryTest, SaysWhatTheAddressSpaceIsFor) {
  ZeroedMemory memory(1024 * kTiB, "the test");
  memory.data(1)[0] = 3;
  try {
    memory.data(1000 * kTiB);
    FAIL() << "no host has so much";
  } catch (const OutOfMemory &error) {
    EXPECT_EQ(std::string(error.what()), "the test needs an address space of " + std::to_string(1000 * kTiB) + " bytes");
  }
  EXPECT_EQ(memory.data(1)[0], 3) << "what there was is still there";
}

TEST(ZeroedMemoryTest, AMachineCostsWhatItsProgramUses) {
  timing::MachineParams machine = test::testMachine(timing::ArrayType::Int8);
  machine.dram.capacityBytes = kTiB;
  const uint64_t before = addressSpace();
  MachineState state(machine);
  isa::Program program;
  program.dramBytes = kMiB;
  program.outputs.push_back({"y", isa::ElementKind::I8, {1000}, kMiB - 1000, 1000});
  ASSERT_EQ(state.load(program), std::nullopt);
  EXPECT_EQ(state.readOutputs(program)[0], std::vector<uint8_t>(1000));
  EXPECT_LT(addressSpace() - before, 64 * kMiB);
}
