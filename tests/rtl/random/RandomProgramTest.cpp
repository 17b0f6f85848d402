//===- RandomProgramTest.cpp - The generator keeps its word ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/Assembler.h"
#include "isa/Legality.h"
#include "tests/fuzz/Seed.h"
#include "tests/rtl/random/Coverage.h"
#include "tests/rtl/random/Generator.h"
#include "tests/rtl/random/Models.h"
#include "tests/rtl/random/Shrink.h"
#include "tests/rtl/random/Tree.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::programs;

namespace {

/// A shipped machine, or one of the odd ones beside this file.
timing::MachineParams machineOf(const std::string &name, const std::vector<std::string> &overrides = {}) {
  const bool isOdd = name.rfind("odd_", 0) == 0;
  Result<timing::MachineParams> machine =
      hwconfigs::loadMachine(isOdd ? TILEWRIGHT_SOURCE_DIR "/tests/rtl/random/" + name + ".yaml" : name, overrides);
  EXPECT_TRUE(machine) << machine.message();
  return *machine;
}

class RandomProgramTest : public ::testing::TestWithParam<const char *> {};

// Legal, free of races, and the same in the functional, the SystemC and the stepped model.
TEST_P(RandomProgramTest, LegalProgramsAgreeInAllModels) {
  const timing::MachineParams machine = machineOf(GetParam());
  Coverage coverage(machine);
  uint64_t cycles = 0;
  for (uint64_t i = 0, cases = fuzz::numCases(60); i < cases; ++i) {
    const uint64_t seed = fuzz::firstSeed() + i;
    const isa::Program program = randomProgram(machine, seed);
    timing::MachineParams other = i % 2 ? otherDram(machine, seed) : machine;
    if (i % 4 >= 2)
      other.dram.controller = timing::DramController::InOrder;
    const Diagnostics problems = isa::verify(program, machine);
    ASSERT_TRUE(problems.empty()) << "seed " << seed << ": " << problems.front().message;
    const Verdict verdict = runModels(program, other, {});
    ASSERT_EQ(verdict.difference, "") << "seed " << seed;
    cycles += verdict.systemc.totalCycles;
    coverage.add(program, verdict.systemc);
  }
  EXPECT_GT(cycles / fuzz::numCases(60), 150u);
  // So few programs do not meet all bins, fewer still where small counts of semaphores keep producers and consumers out of loops.
  EXPECT_GT(coverage.met(), coverage.reachable() * (machine.semaphoreMax < 4 ? 2 : 3) / 4);
  EXPECT_TRUE(coverage.unexpected().empty()) << *coverage.unexpected().begin();
}

TEST_P(RandomProgramTest, FaultyProgramsStopWhereTheFaultWasPlanted) {
  const timing::MachineParams machine = machineOf(GetParam());
  std::map<core::FaultKind, unsigned> kinds;
  for (uint64_t i = 0, cases = fuzz::numCases(60); i < cases; ++i) {
    const uint64_t seed = fuzz::firstSeed() + i;
    const Faulty faulty = randomFaultyProgram(machine, seed);
    const bool isDeadlock = faulty.kind == core::FaultKind::Deadlock;
    const Verdict verdict =
        runModels(faulty.program, machine, {}, faulty.kind, isDeadlock ? std::nullopt : std::optional<uint64_t>(faulty.pc));
    ASSERT_EQ(verdict.difference, "") << "seed " << seed << ", " << faulty.planted << " at word " << faulty.pc;
    ++kinds[faulty.kind];
  }
  EXPECT_EQ(kinds.size(), 4u);
}

INSTANTIATE_TEST_SUITE_P(Machines, RandomProgramTest,
                         ::testing::Values("tiny_8x8", "gemmini_16x16_int8", "gemmini_16x16_bf16", "gemmini_16x16_fp32",
                                           "vdla_16x16", "edge_32x32_int8", "onnxim_16x16_4b", "cloud_128x128", "odd_8x4_fp32",
                                           "odd_8x32_int8", "odd_32x4_fp32", "odd_4x64_bf16", "odd_one_bank"),
                         [](const auto &info) { return std::string(info.param); });

// However far ahead a poster is. The functional model runs programs in order and does not see it; the timed models do.
TEST(RandomProgramTest, NoSemaphoreCountsBeyondItsMaximum) {
  for (unsigned maximum : {1, 2, 3, 7}) {
    const timing::MachineParams machine = machineOf("tiny_8x8", {"control.semaphore_max_count=" + std::to_string(maximum)});
    for (uint64_t i = 0, cases = fuzz::numCases(60); i < cases; ++i) {
      const uint64_t seed = fuzz::firstSeed() + i;
      const isa::Program program = randomProgram(machine, seed);
      ASSERT_TRUE(isa::verify(program, machine).empty()) << "seed " << seed;
      ASSERT_EQ(runModels(program, machine, {}).difference, "") << "seed " << seed << ", maximum " << maximum;
    }
  }
}

TEST(RandomProgramTest, TheSeedDecidesEverything) {
  const timing::MachineParams machine = machineOf("tiny_8x8");
  EXPECT_EQ(isa::serialize(randomProgram(machine, 7)), isa::serialize(randomProgram(machine, 7)));
  EXPECT_NE(isa::serialize(randomProgram(machine, 7)), isa::serialize(randomProgram(machine, 8)));
}

TEST(RandomProgramTest, FaultyLoopsAreOfEveryKind) {
  const timing::MachineParams machine = machineOf("tiny_8x8");
  std::map<std::string, unsigned> planted;
  for (uint64_t seed = 1; seed <= 400; ++seed)
    ++planted[randomFaultyProgram(machine, seed).planted];
  for (const char *fault : {"a bad loop", "a loop beyond the one around it", "a loop nested too deep"})
    EXPECT_GE(planted[fault], 1u) << fault;
}

TEST(TreeTest, DecodesWhatItEncodes) {
  const timing::MachineParams machine = machineOf("tiny_8x8");
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const isa::Program program = randomProgram(machine, seed);
    const std::optional<std::vector<Node>> tree = treeOf(program);
    ASSERT_TRUE(tree);
    std::vector<isa::Word> words;
    encode(*tree, words);
    isa::encode(isa::Instruction(isa::Halt{}), words);
    EXPECT_EQ(words, program.code);
  }
}

/// Whether some vector instruction takes a root.
bool takesARoot(const isa::Program &program) {
  for (uint64_t at = 0; at < program.code.size();) {
    const isa::Decoded decoded = isa::decode(&program.code[at], program.code.size() - at);
    if (!decoded)
      return false;
    at += decoded.instruction.words();
    if (const isa::Vector *vector = decoded.instruction.getIf<isa::Vector>())
      for (int64_t op : vector->stage_op)
        if (op == int64_t(isa::StageOp::Fsqrt))
          return true;
  }
  return false;
}

// A model that is wrong about one stage in a long program: what is left is one instruction with this stage and no data.
TEST(ShrinkTest, FindsTheInstructionAtFault) {
  const timing::MachineParams machine = machineOf("tiny_8x8");
  uint64_t seed = 1;
  while (!takesARoot(randomProgram(machine, seed)) || treeOf(randomProgram(machine, seed))->size() < 20)
    ++seed;
  unsigned asked = 0;
  const isa::Program small = shrink(randomProgram(machine, seed), [&](const isa::Program &candidate) {
    ++asked;
    return takesARoot(candidate) && isa::verify(candidate, machine).empty();
  });
  const std::optional<std::vector<Node>> tree = treeOf(small);
  ASSERT_TRUE(tree);
  ASSERT_EQ(tree->size(), 1u);
  const isa::Vector &vector = tree->front().instruction.as<isa::Vector>();
  EXPECT_EQ(vector.counts, (std::array<int64_t, 4>{1, 1, 1, 1}));
  EXPECT_EQ(vector.p_count, 0); // B may be left: the root of an integer is that of B, as a float
  EXPECT_EQ(tree->front().instruction.header.post_count[0], 0);
  EXPECT_TRUE(small.constants.empty());
  EXPECT_LT(asked, 2000u);
  // It can be assembled again.
  Result<isa::Program> again = isa::assemble(isa::disassemble(small), "shrunk", &machine);
  ASSERT_TRUE(again) << again.message();
  EXPECT_EQ(again->code, small.code);
}

// The same with all models: a wrong one in the RTL's place is found, and what is left is a valid program that shows it.
TEST(ShrinkTest, KeepsToProgramsOnWhichModelsMustAgree) {
  const timing::MachineParams machine = machineOf("tiny_8x8");
  ModelOptions models;
  models.stepped = false;
  models.rtl = [](const isa::Program &program, const timing::MachineParams &) -> std::string {
    return takesARoot(program) ? "a root is wrong" : "";
  };
  uint64_t seed = 1;
  while (runModels(randomProgram(machine, seed), machine, models).difference.empty())
    ++seed;
  const isa::Program small = shrink(
      randomProgram(machine, seed),
      [&](const isa::Program &candidate) {
        const Verdict verdict = runModels(candidate, machine, models);
        return verdict.isValid && !verdict.difference.empty();
      },
      600);
  const Verdict verdict = runModels(small, machine, models);
  EXPECT_TRUE(verdict.isValid);
  EXPECT_EQ(verdict.difference, "a root is wrong");
  const std::optional<std::vector<Node>> tree = treeOf(small);
  ASSERT_TRUE(tree);
  EXPECT_EQ(instructionsIn(*tree), 1u) << isa::disassemble(small);
}

TEST(CoverageTest, CountsWhatAProgramMeets) {
  const timing::MachineParams machine = machineOf("tiny_8x8");
  Coverage coverage(machine);
  EXPECT_EQ(coverage.met(), 0u);
  const Result<isa::Program> program =
      isa::assemble("load dram_address=0 address=0 span=64 counts=[64,1,1,1,1] post=[0:1]\n"
                    "store dram_address=4096 address=0 span=64 counts=[64,1,1,1,1] wait=[0:1]\nhalt\n",
                    "test", &machine);
  ASSERT_TRUE(program) << program.message();
  const Verdict verdict = runModels(*program, machine, {});
  ASSERT_EQ(verdict.difference, "");
  coverage.add(*program, verdict.systemc);
  // Load: nothing held it back; its burst took 20 cycles of latency and 8 of the bus. Store: waited for the load; set-up.
  const std::vector<std::string> missed = coverage.rare(1), once = coverage.rare(2);
  EXPECT_EQ(missed.size(), coverage.reachable() - coverage.met());
  EXPECT_EQ(once.size(), coverage.reachable());
  for (const char *bin : {"load, 1 byte, none, full", "load, 1 byte, dram_latency, full", "load, 1 byte, dram_bandwidth, full",
                          "store, 1 byte, operand<load, full", "store, 1 byte, dram_latency, full"}) {
    EXPECT_EQ(std::count(missed.begin(), missed.end(), bin + std::string(": 0")), 0) << bin;
    EXPECT_EQ(std::count(once.begin(), once.end(), bin + std::string(": 1")), 1) << bin;
  }
  EXPECT_EQ(coverage.met(), 5u);
  EXPECT_EQ(coverage.met(2), 0u);
}

} // namespace
