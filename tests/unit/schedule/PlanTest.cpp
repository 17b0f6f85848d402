//===- PlanTest.cpp - What the list scheduler plans, and what happens ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Overlap.h"
#include "hw-configs/Machine.h"
#include "isa/timing/Dram.h"
#include "simulator/systemc/SystemCModel.h"

#include <gtest/gtest.h>

using namespace tw;

namespace {

constexpr uint64_t kBytes = 32768, kApart = 1 << 20;

/// Eight stores of kBytes, each in rows of its own, and as many loads beside them: cycles planned and simulated.
struct Stores {
  double planned = 0, simulated = 0;

  Stores(const timing::MachineParams &machine, uint64_t loadBytes = 0) {
    isa::Program program;
    std::vector<schedule::Step> steps;
    auto operationOf = [&](const std::string &engine, uint64_t bytes, uint64_t dram, uint64_t address) {
      schedule::Operation operation;
      operation.instruction =
          *isa::parse(engine + " counts=[" + std::to_string(bytes) + ",1,1,1,1] span=" + std::to_string(bytes) +
                      " dram_address=" + std::to_string(dram) + " address=" + std::to_string(address));
      operation.regions = schedule::regionsOf(operation.instruction, machine);
      isa::encode(operation.instruction, program.code);
      return operation;
    };
    for (uint64_t i = 0; i < 8; ++i) {
      schedule::Step &step = steps.emplace_back();
      if (loadBytes)
        step.loads.push_back(operationOf("load", loadBytes, (8 + i) * kApart, kBytes));
      step.compute.push_back({1, {operationOf("store", kBytes, i * kApart, 0)}});
    }
    isa::encode(*isa::parse("halt"), program.code);
    program.codeAddress = 17 * kApart;
    program.dramBytes = 18 * kApart;
    core::MachineState state(machine);
    EXPECT_FALSE(state.load(program));
    const stats::SimResult result = systemc::SystemCModel().run(program, state, {});
    EXPECT_FALSE(result.fault);
    planned = schedule::estimateOverlapped(std::move(steps), machine);
    simulated = double(result.totalCycles);
  }
};

constexpr uint64_t kLoadBytes = 4 * kBytes;

// With as many channels as the write buffer has places, or half of them, stores move at a fifth to a third of the bus's rate. What the
// plan leaves out: the start and the end of the program, some 100 cycles of 1,800 at least, and how writes and rows happen to meet.
TEST(PlanTest, AStoreTakesAsLongAsItsWritesKeepTheWriteBufferFull) {
  for (const char *name : {"onnxim_128x128", "cloud_128x128"}) {
    const timing::MachineParams machine = *hwconfigs::loadMachine(name);
    const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
    const Stores alone(machine), beside(machine, kLoadBytes);
    EXPECT_GT(alone.simulated, 8 * kBytes * 2.5 * double(peak.denominator) / double(peak.numerator)) << name;
    EXPECT_NEAR(alone.planned / alone.simulated, 1, 0.1) << name;
    EXPECT_NEAR(beside.planned / beside.simulated, 1, 0.1) << name;
  }
}

// The buffer holds enough to keep the bus busy, which is planned at 0.8 of its rate: stores alone do better, and those beside loads no
// worse than the time of a turn of the bus for every few bursts.
TEST(PlanTest, AStoreOverFewChannelsTakesAsLongAsTheBus) {
  for (const char *name : {"edge_32x32_int8", "gemmini_16x16_int8"}) {
    const timing::MachineParams machine = *hwconfigs::loadMachine(name);
    const Stores alone(machine), beside(machine, kLoadBytes);
    EXPECT_NEAR(alone.planned / alone.simulated, 1, 0.25) << name;
    EXPECT_NEAR(beside.planned / beside.simulated, 1, 0.25) << name;
  }
}

} // namespace
