//===- RerollTest.cpp - Hardware loops from repeated code ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Reroll.h"
#include "compiler/schedule/ValueFlow.h"
#include "hw-configs/Machine.h"

#include <gtest/gtest.h>

#include <random>

using namespace tw;
using schedule::Block;
using schedule::Code;
using schedule::Operation;
using schedule::TileProgram;

namespace {

timing::MachineParams tiny() { return *hwconfigs::loadMachine("tiny_8x8"); }

Operation operation(const std::string &line, uint32_t layer = 0) {
  Operation result;
  result.instruction = *isa::parse(line);
  result.layer = layer;
  return result;
}

void add(TileProgram &program, const std::string &line, uint32_t layer = 0) {
  program.blocks.push_back({1, {operation(line, layer)}});
}

std::string load(int64_t dram, int64_t address, const std::string &more = "") {
  return "load dram_address=" + std::to_string(dram) + " address=" + std::to_string(address) + " span=64 counts=[64,1,1,1,1] " +
         more;
}

std::string store(int64_t dram, int64_t address, const std::string &more = "") {
  return "store dram_address=" + std::to_string(dram) + " address=" + std::to_string(address) +
         " span=64 counts=[64,1,1,1,1] " + more;
}

std::vector<std::string> executed(const std::vector<Code> &code) {
  std::vector<std::string> lines;
  schedule::execute(code, [&](const isa::Instruction &instruction, uint32_t layer) {
    lines.push_back(std::to_string(layer) + ": " + isa::print(instruction));
  });
  return lines;
}

/// Rerolls, and expects that nothing of what is executed has changed.
std::vector<Code> rerolled(const TileProgram &program, const timing::MachineParams &machine = tiny()) {
  std::vector<Code> code = schedule::reroll(program, machine);
  EXPECT_EQ(executed(code), executed(schedule::codeOf(program)));
  return code;
}

unsigned loopsIn(const std::vector<Code> &code) {
  unsigned loops = 0;
  for (const Code &c : code)
    loops += !c.body.empty() + loopsIn(c.body);
  return loops;
}

unsigned depthOf(const std::vector<Code> &code) {
  unsigned depth = 0;
  for (const Code &c : code)
    if (!c.body.empty())
      depth = std::max(depth, 1 + depthOf(c.body));
  return depth;
}

TEST(RerollTest, CopiesWithAdvancingAddressesBecomeOneLoop) {
  TileProgram program;
  for (int i = 0; i < 9; ++i) {
    add(program, load(4096 + 64 * i, 0));
    add(program, store(8192 - 128 * i, 0));
  }
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  EXPECT_EQ(code[0].instruction.as<isa::Loop>().count, 9);
  EXPECT_EQ(code[0].instruction.as<isa::Loop>().body_words, 8);
  ASSERT_EQ(code[0].body.size(), 2u);
  EXPECT_EQ(code[0].body[1].instruction.levels[0].stride_a, -128);
}

TEST(RerollTest, ARingOfSlotsIsOneLevelThatWraps) {
  TileProgram program;
  for (int i = 0; i < 8; ++i)
    add(program, load(4096, i % 3 * 64));
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  const isa::Instruction &body = code[0].body[0].instruction;
  EXPECT_EQ(body.header.num_levels, 1);
  EXPECT_EQ(body.levels[0].wrap, 3);
}

TEST(RerollTest, ARingOfSlotsBesideAnAdvancingAddressTakesTwoLevels) {
  TileProgram program;
  for (int i = 0; i < 12; ++i)
    add(program, load(4096 + 64 * i, i % 2 * 64));
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  EXPECT_EQ(code[0].body.size(), 1u);
  EXPECT_EQ(code[0].body[0].instruction.header.num_levels, 2);
}

TEST(RerollTest, ALoopRoundARingBeginsWhereAllAreAtTheFirstSlot) {
  // Loads run three slots ahead: a level cannot begin in the midst of its ring.
  TileProgram program;
  for (int i = 0; i < 12; ++i) {
    add(program, load(4096 + 64 * i, (i + 3) % 4 * 64));
    add(program, store(8192 + 64 * i, i % 4 * 64));
  }
  add(program, load(4096 + 64 * 12, 3 * 64));
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 2u);
  EXPECT_EQ(code[1].instruction.as<isa::Loop>().count, 12);
  EXPECT_EQ(code[1].body.size(), 2u);
}

TEST(RerollTest, ARingOfUnevenSlotsIsRepeatedAsAWhole) {
  const int64_t slot[] = {0, 64, 512};
  TileProgram program;
  for (int i = 0; i < 24; ++i)
    add(program, load(4096 + 64 * i, slot[i % 3]));
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  EXPECT_EQ(code[0].instruction.as<isa::Loop>().count, 8);
}

/// Rows of tiles: a load for the row, then a load and a store per tile.
TileProgram grid(int rows, int columns) {
  TileProgram program;
  for (int r = 0; r < rows; ++r) {
    add(program, load(65536 + 64 * r, 512, "unit=1"));
    for (int c = 0; c < columns; ++c) {
      add(program, load(4096 + 64 * (r * columns + c), c % 2 * 64));
      add(program, store(131072 + 128 * (r * columns + c), c % 2 * 64));
    }
  }
  return program;
}

TEST(RerollTest, CodeDoesNotGrowWithTheNumberOfTiles) {
  uint64_t small = schedule::wordsOf(rerolled(grid(4, 4))), large = schedule::wordsOf(rerolled(grid(20, 30)));
  EXPECT_EQ(small, large);
  EXPECT_EQ(depthOf(rerolled(grid(20, 30))), 2u);
}

TEST(RerollTest, ALoopOfPassesGetsAnOuterLevelAndKeepsItsMasks) {
  TileProgram program;
  for (int i = 0; i < 5; ++i) {
    std::string levels = " levels=[{count=4 stride_b=8}] wait_mask=1 post_mask=1";
    program.blocks.push_back(
        {4,
         {operation("preload wait=[0:1] memory=scratchpad1 address=" + std::to_string(256 * i) +
                    " span=64 row_stride=8 k_count=8 n_count=8" + levels),
          operation(
              "tensor post=[1:1] span=64 acc_span=8 counts=[8,1,1] strides=[8] acc_strides=[1] swap=1 k_count=8 clear_mask=1" +
              levels)}});
    add(program, store(4096 + 64 * i, 0, "wait=[1:1]"));
  }
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  const isa::Instruction &preload = code[0].body[0].body[0].instruction, &tensor = code[0].body[0].body[1].instruction;
  EXPECT_EQ(preload.header.num_levels, 2);
  EXPECT_EQ(preload.header.wait_mask, 1);
  EXPECT_EQ(tensor.as<isa::Tensor>().clear_mask, 1);
}

TEST(RerollTest, AnEdgeTileAtTheEndOfEachRowIsAnInstructionOfItsOwn) {
  TileProgram program;
  for (int r = 0; r < 6; ++r) {
    for (int c = 0; c < 5; ++c)
      add(program, load(4096 + 4096 * r + 64 * c, 0));
    add(program, "load dram_address=" + std::to_string(4096 + 4096 * r + 320) + " span=32 counts=[32,1,1,1,1]");
  }
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  EXPECT_EQ(code[0].body.size(), 2u);
  EXPECT_EQ(loopsIn(code), 2u);
}

TEST(RerollTest, AWaitOfTheFirstCopyAndAPostOfTheLastAreMasked) {
  TileProgram program;
  for (int i = 0; i < 6; ++i)
    add(program, load(4096 + 64 * i, 64 * i, i == 0 ? "wait=[3:1]" : i == 5 ? "post=[4:2]" : ""));
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  const isa::Header &header = code[0].body[0].instruction.header;
  EXPECT_EQ(header.wait_mask, 1);
  EXPECT_EQ(header.post_mask, 1);
}

TEST(RerollTest, AWaitAtTheBeginOfEachRowIsTakenInEachRow) {
  TileProgram program;
  for (int r = 0; r < 4; ++r)
    for (int i = 0; i < 6; ++i)
      add(program, load(4096 + 1024 * r + 64 * i, 64 * i, i == 0 ? "wait=[3:1]" : ""));
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 1u);
  ASSERT_EQ(code[0].body[0].body.size(), 1u);
  EXPECT_EQ(code[0].body[0].body[0].instruction.header.wait_mask, 1) << "only the level of the inner loop";
}

TEST(RerollTest, ACopyThatLacksAWaitIsNotMerged) {
  TileProgram program;
  for (int i = 0; i < 6; ++i)
    add(program, load(4096 + 64 * i, 64 * i, i == 0 ? "" : "wait=[3:1]"));
  std::vector<Code> code = rerolled(program);
  EXPECT_EQ(code.size(), 2u);
}

TEST(RerollTest, LayersAreKeptApart) {
  TileProgram program;
  for (int i = 0; i < 8; ++i)
    add(program, load(4096 + 64 * i, 0), i / 4);
  std::vector<Code> code = rerolled(program);
  ASSERT_EQ(code.size(), 2u);
  EXPECT_EQ(code[1].layer, 1u);
}

TEST(RerollTest, OtherFieldsThatDifferKeepCopiesApart) {
  TileProgram program;
  for (int i = 0; i < 8; ++i)
    add(program, load(4096 + 64 * i, 0, "fill=" + std::to_string(i)));
  EXPECT_EQ(loopsIn(rerolled(program)), 0u);
}

TEST(RerollTest, AStrideThatNoLevelHoldsIsNotMerged) {
  TileProgram program;
  for (int64_t i = 0; i < 8; ++i)
    add(program, load(4096 + (i << 32), 0));
  EXPECT_EQ(loopsIn(rerolled(program)), 0u);
}

TEST(RerollTest, AnOdometerThatItsLoopLeavesAwryStaysInOneLoop) {
  TileProgram program;
  for (int i = 0; i < 6; ++i) {
    program.blocks.push_back({3, {operation(load(4096, 0, "levels=[{count=4 stride_b=64}]"))}});
    add(program, store(4096 + 64 * i, 0));
  }
  EXPECT_EQ(depthOf(rerolled(program)), 1u);
}

TEST(RerollTest, ABodyNeverOutgrowsTheLoopBuffer) {
  timing::MachineParams machine = tiny();
  // A load and a store with a level each are 8 words.
  TileProgram program = grid(1, 20);
  machine.loopBufferWords = 8;
  EXPECT_EQ(loopsIn(rerolled(program, machine)), 1u);
  machine.loopBufferWords = 7;
  EXPECT_EQ(loopsIn(rerolled(program, machine)), 0u);
}

TEST(RerollTest, LoopsNestAsDeepAsTheSequencerAllows) {
  // Six nested loops, each with a store of its own after its body.
  TileProgram program;
  std::function<void(int)> nest = [&](int depth) {
    if (depth == 0)
      return add(program, load(4096, 0));
    for (int i = 0; i < 3; ++i) {
      nest(depth - 1);
      add(program, store(4096 + 64 * i, 64 * depth));
    }
  };
  nest(6);
  EXPECT_EQ(depthOf(rerolled(program)), unsigned(isa::kMaxLoopDepth));
}

TEST(RerollTest, RandomNestsExecuteAsWritten) {
  unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (int round = 0; round < 100; ++round) {
    // Random nests of loops over a few instructions whose addresses depend on the counters, with faults strewn in.
    TileProgram program;
    std::vector<int64_t> counters(3);
    int64_t extent[3] = {1 + int64_t(random() % 7), 1 + int64_t(random() % 5), 1 + int64_t(random() % 4)};
    int64_t slots = 1 + int64_t(random() % 4), tile = 0;
    bool faulty = random() % 2;
    for (int64_t a = 0; a < extent[2]; ++a)
      for (int64_t b = 0; b < extent[1]; ++b) {
        add(program, load(65536 + 64 * b, 512, a ? "unit=1 wait=[5:1]" : "unit=1"));
        for (int64_t c = 0; c < extent[0]; ++c, ++tile) {
          bool edge = c + 1 == extent[0] && random() % 4 == 0;
          add(program,
              load(4096 + 64 * c + 1024 * b, tile % slots * 64, tile < slots ? "post=[1:1]" : "wait=[2:1] post=[1:1]"));
          add(program, store(131072 + 64 * tile, tile % slots * 64, edge ? "wait=[1:1]" : "wait=[1:1] post=[2:1]"),
              faulty && random() % 16 == 0 ? 1 : 0);
        }
      }
    uint64_t before = schedule::wordsOf(schedule::codeOf(program));
    EXPECT_LE(schedule::wordsOf(rerolled(program)), before);
    if (HasFailure())
      return;
  }
}

// Iterations that take turns in two slots: one of them in the other slot, one more and one less are found.
TEST(RerollTest, CodeThatExecutesSomethingElseIsRefused) {
  constexpr int kTiles = 8;
  const timing::MachineParams machine = tiny();
  auto programOf = [](const std::vector<int> &slots) {
    TileProgram program;
    for (size_t tile = 0; tile < slots.size(); ++tile)
      add(program, load(int64_t(tile) * 64, slots[tile] * 64));
    return program;
  };
  std::vector<int> slots;
  for (int tile = 0; tile < kTiles; ++tile)
    slots.push_back(tile % 2);
  const TileProgram program = programOf(slots);
  const std::vector<Code> code = schedule::reroll(program, machine);
  EXPECT_LT(schedule::wordsOf(code), schedule::wordsOf(schedule::codeOf(program))) << "there is a loop";
  EXPECT_TRUE(schedule::verifyCode(code, program).empty());
  EXPECT_TRUE(schedule::verifyCode(schedule::codeOf(program), program).empty());
  auto problemOf = [&](const std::vector<int> &others) {
    const Diagnostics problems = schedule::verifyCode(code, programOf(others));
    return problems.empty() ? std::string() : problems.front().str();
  };
  std::vector<int> others = slots;
  others[5] = 0;
  EXPECT_NE(problemOf(others).find("in place of load"), std::string::npos) << problemOf(others);
  others = slots;
  others.pop_back();
  EXPECT_NE(problemOf(others).find("behind the last operation"), std::string::npos) << problemOf(others);
  others = slots;
  others.push_back(0);
  EXPECT_NE(problemOf(others).find("the code ends before load"), std::string::npos) << problemOf(others);
}

} // namespace
