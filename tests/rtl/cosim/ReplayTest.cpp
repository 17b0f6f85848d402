//===- ReplayTest.cpp - What a program dispatches, in order ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/Replay.h"

#include "tests/timing/engines/RandomProgram.h"

using namespace tw;
using namespace tw::test;

namespace {

// Twice three times a load whose address goes 0, 64, 128 and starts again; the preload runs but in the first iteration of
// its level.
TEST(ReplayTest, LoopsOdometersAndPredicates) {
  const isa::Program program = assemble(
      {"loop count=2 body_words=7", "loop count=3 body_words=4",
       "load dram_address=0x1000 span=64 counts=[64,1,1,1,1] levels=[{count=3 stride_a=64}]",
       "preload address=4096 span=64 row_stride=8 k_count=8 n_count=8 predicate=not_first predicate_mask=1 levels=[{count=2}]",
       "halt"});
  const timing::MachineParams machine = smallMachine();
  cosim::Replay replay(program, machine);
  std::vector<uint64_t> addresses;
  unsigned preloads = 0;
  while (const std::optional<cosim::Dispatch> next = replay.next()) {
    if (const isa::Load *load = next->instruction.getIf<isa::Load>()) {
      EXPECT_EQ(next->engine, stats::kFirstLoad);
      EXPECT_EQ(next->pc, 2u);
      addresses.push_back(uint64_t(load->dram_address));
    } else {
      EXPECT_EQ(next->engine, stats::kPreload);
      ++preloads;
    }
  }
  EXPECT_EQ(replay.error(), "");
  EXPECT_EQ(addresses, (std::vector<uint64_t>{0x1000, 0x1040, 0x1080, 0x1000, 0x1040, 0x1080}));
  EXPECT_EQ(preloads, 1u);
}

TEST(ReplayTest, AnIllegalInstructionEndsIt) {
  const isa::Program program = assemble({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1]",
                                         "load unit=3 dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"});
  const timing::MachineParams machine = smallMachine();
  cosim::Replay replay(program, machine);
  EXPECT_TRUE(replay.next());
  EXPECT_FALSE(replay.next());
  EXPECT_EQ(replay.pc(), 3u);
  EXPECT_NE(replay.error(), "");
}

// The SystemC model dispatches the same instructions.
TEST(ReplayTest, AgreesWithTheSequencer) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    Random random(seed);
    const timing::MachineParams machine = smallMachine();
    const isa::Program program = RandomProgram(machine, random).make(30);
    core::MachineState state(machine);
    ASSERT_FALSE(state.load(program));
    systemc::SimOptions options;
    options.trace = true;
    const stats::SimResult result = run(program, state, options);
    ASSERT_FALSE(result.fault) << result.fault->str();
    cosim::Replay replay(program, machine);
    for (const stats::InstructionRecord &record : result.instructions) {
      const std::optional<cosim::Dispatch> next = replay.next();
      ASSERT_TRUE(next) << "seed " << seed;
      EXPECT_EQ(next->pc, record.pc);
      EXPECT_EQ(next->engine, record.engine);
    }
    EXPECT_FALSE(replay.next());
    EXPECT_EQ(replay.words(), result.dispatchedWords);
  }
}

} // namespace
