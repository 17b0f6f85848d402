//===- SteppedModelTest.cpp - Events against cycles -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The event-driven model must agree with the cycle-by-cycle one in every cycle
// it reports, on random programs and machines.
//===----------------------------------------------------------------------===//
#include "tests/timing/engines/SteppedModel.h"
#include "tests/timing/engines/RandomProgram.h"

using namespace tw;
using namespace tw::test;

namespace {

/// Runs both models. Returns the instructions executed.
uint64_t compare(const isa::Program &program, const timing::MachineParams &machine) {
  core::MachineState state(machine);
  EXPECT_FALSE(state.load(program));
  systemc::SimOptions options;
  options.trace = options.timingOnly = true;
  const stats::SimResult result = run(program, state, options);
  const SteppedResult stepped = runStepped(program, machine);

  EXPECT_EQ(result.fault.has_value(), stepped.fault.has_value()) << (result.fault ? result.fault->str() : "");
  if (result.fault && stepped.fault) {
    EXPECT_EQ(result.fault->kind, *stepped.fault) << result.fault->str();
  }
  EXPECT_EQ(result.totalCycles, stepped.totalCycles);
  for (size_t i = 0; i < std::min(result.instructions.size(), stepped.instructions.size()); ++i) {
    const stats::InstructionRecord &a = result.instructions[i], &b = stepped.instructions[i];
    const auto times = [](const stats::InstructionRecord &r) {
      return std::vector<timing::Cycle>{r.pc, r.engine, r.dispatched, r.visible, r.start, r.issueFree, r.retire};
    };
    if (times(a) != times(b)) {
      ADD_FAILURE() << "instruction " << i
                    << " (pc, engine, dispatched, visible, start, issue-free, retire): " << ::testing::PrintToString(times(a))
                    << " against " << ::testing::PrintToString(times(b));
      return 0;
    }
  }
  if (result.fault)
    return 0;
  EXPECT_EQ(result.instructions.size(), stepped.instructions.size());
  for (const stats::EngineResult &engine : result.engines)
    EXPECT_EQ(engine.cycles, stepped.labels[engine.engine]) << engine.name;
  return result.instructionCount;
}

uint64_t compare(unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const timing::MachineParams machine = randomMachine(random);
  return compare(RandomProgram(machine, random).make(unsigned(random.in(1, 40))), machine);
}

TEST(SteppedModelTest, RandomProgramsAgreeInEveryCycle) {
  uint64_t instructions = 0;
  for (unsigned seed = 1; seed <= 400 && !::testing::Test::HasFailure(); ++seed)
    instructions += compare(seed);
  std::printf("%llu instructions compared\n", static_cast<unsigned long long>(instructions));
  EXPECT_GT(instructions, 5000u);
}

// Channels 0, 64, 128 and 192 are four of them: a cycle may have a request to each.
TEST(SteppedModelTest, ChannelsBeyondSixtyFour) {
  timing::MachineParams machine = smallMachine();
  machine.burstsPerCycle = 4;
  machine.dram.kind = timing::DramKind::Ddr4;
  machine.dram.capacityBytes = 1 << 22;
  machine.dram.rowBytes = 1024;
  machine.dram.channels = 256;
  EXPECT_EQ(compare(assemble({"load span=2048 counts=[64,4,8,1,1] strides=[64,256] dram_strides=[4096,64]", "halt"}), machine),
            1u);
}

} // namespace
