//===- VerifierTest.cpp - What the schedule verifier refuses ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One small correct program of every engine, and mutants of it: each must be
// refused with the reason that fits.
//===----------------------------------------------------------------------===//

#include "compiler/schedule/Verifier.h"
#include "compiler/schedule/TileProgram.h"
#include "hw-configs/Machine.h"

#include <gtest/gtest.h>

using namespace tw;

namespace {

/// Loads 8 vectors and a weight tile, multiplies, converts and stores. tiny_8x8: rows = cols = lanes = 8.
const std::vector<std::string> kCorrect = {
    "load post=[0:1] counts=[64,1,1,1,1] span=64",
    "load unit=1 post=[1:1] memory=scratchpad1 dram_address=64 counts=[64,1,1,1,1] span=64",
    "preload wait=[1:1] memory=scratchpad1 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1",
    "tensor wait=[0:1] post=[2:1] span=64 acc_span=8 counts=[8,1,1] strides=[8] acc_strides=[1] swap=1 is_signed=1 k_count=8",
    "vector wait=[2:1] post=[3:1] a_memory=accumulator a_type=i32 a_span=256 a_strides=[32] d_type=i8 d_address=1024 "
    "d_span=64 d_strides=[8] counts=[8,1,1,1] window=[1,1]",
    "store wait=[3:1] dram_address=4096 address=1024 counts=[64,1,1,1,1] span=64",
    "halt",
};

isa::Program assemble(const std::vector<std::string> &lines) {
  isa::Program program;
  program.layers.push_back({"layer", {}, 0, 0, ""});
  for (const std::string &line : lines) {
    Result<isa::Instruction> instruction = isa::parse(line);
    EXPECT_TRUE(instruction) << line << ": " << instruction.message();
    isa::encode(*instruction, program.code);
    program.layerOf.resize(program.code.size(), 0);
  }
  program.constants.push_back({64, std::vector<uint8_t>(64)});
  program.codeAddress = 65536;
  program.dramBytes = 65536 + program.code.size() * isa::kWordBytes;
  return program;
}

timing::MachineParams tiny() {
  Result<timing::MachineParams> machine = hwconfigs::loadMachine("tiny_8x8");
  EXPECT_TRUE(machine) << machine.message();
  return *machine;
}

std::string problemsOf(const std::vector<std::string> &lines, const timing::MachineParams &machine = tiny()) {
  std::string text;
  for (const Diagnostic &problem : schedule::verifySchedule(assemble(lines), machine))
    text += problem.str() + "\n";
  return text;
}

std::vector<std::string> with(size_t index, const std::string &from, const std::string &to) {
  std::vector<std::string> lines = kCorrect;
  size_t at = lines[index].find(from);
  EXPECT_NE(at, std::string::npos) << from;
  lines[index].replace(at, from.size(), to);
  return lines;
}

void expectRefused(const std::vector<std::string> &lines, const std::string &reason) {
  std::string text = problemsOf(lines);
  EXPECT_NE(text.find(reason), std::string::npos) << "problems: " << text;
}

TEST(VerifierTest, AcceptsAProgramWhoseHazardsAreAllOrdered) { EXPECT_EQ(problemsOf(kCorrect), ""); }

TEST(VerifierTest, RefusesAWaitWithoutItsPost) {
  expectRefused(with(0, "post=[0:1] ", ""), "wait for semaphore 0 is not satisfied by earlier posts");
}

TEST(VerifierTest, RefusesAReadThatDoesNotWaitForTheLoad) {
  expectRefused(with(3, "wait=[0:1] ", ""),
                "read after write hazard on scratchpad0 bytes [0, 64): tensor does not wait for load0");
}

TEST(VerifierTest, RefusesAResultReadBeforeTheArrayHasDrained) {
  expectRefused(with(4, "wait=[2:1] ", ""), "read after write hazard on accumulator");
}

TEST(VerifierTest, RefusesAStoreThatDoesNotWaitForTheVectorEngine) {
  expectRefused(with(5, "wait=[3:1] ", ""), "store0 does not wait for vector");
}

TEST(VerifierTest, RefusesALoadOverAnOperandStillInUse) {
  std::vector<std::string> lines = kCorrect;
  lines.insert(lines.begin() + 4, "load counts=[64,1,1,1,1] span=64 dram_address=128");
  expectRefused(lines, "write after read hazard on scratchpad0 bytes [0, 64): load0 does not wait for tensor");
}

TEST(VerifierTest, AcceptsALoadOverAnOperandOnceTheReaderHasRetired) {
  std::vector<std::string> lines = kCorrect;
  lines[3].replace(lines[3].find("post=[2:1]"), 10, "post=[2:1,4:1]");
  lines.insert(lines.begin() + 4, "load wait=[4:1] counts=[64,1,1,1,1] span=64 dram_address=128");
  EXPECT_EQ(problemsOf(lines), "");
}

// Other bytes of the operand have been replaced in time.
TEST(VerifierTest, RefusesALoadOverTheRestOfAnOperandStillInUse) {
  std::vector<std::string> lines = kCorrect;
  lines[3].replace(lines[3].find("post=[2:1]"), 10, "post=[2:1,4:1]");
  lines.insert(lines.begin() + 4, {"load wait=[4:1] counts=[32,1,1,1,1] span=32 dram_address=128",
                                   "load unit=1 counts=[32,1,1,1,1] span=32 dram_address=128 address=32"});
  expectRefused(lines, "write after read hazard on scratchpad0 bytes [32, 64): load1 does not wait for tensor");
}

TEST(VerifierTest, AcceptsALoadBetweenTheRowsOfAnOperandInUse) {
  std::vector<std::string> lines = kCorrect;
  lines[0] = "load post=[0:1] counts=[8,8,1,1,1] dram_strides=[8] strides=[16] span=120";
  lines[3].replace(lines[3].find("span=64"), 7, "span=120");
  lines[3].replace(lines[3].find("strides=[8]"), 11, "strides=[16]");
  const std::string between = "load counts=[8,8,1,1,1] dram_strides=[8] strides=[16] span=120 address=8 dram_address=128";
  for (size_t at : {1, 4}) {
    std::vector<std::string> other = lines;
    other.insert(other.begin() + long(at), between);
    EXPECT_EQ(problemsOf(other), "") << at;
  }
}

TEST(VerifierTest, RefusesALoadOfBytesThatAStoreMayNotHaveWritten) {
  std::vector<std::string> lines = kCorrect;
  lines.insert(lines.begin() + 6, "load counts=[64,1,1,1,1] span=64 dram_address=4096 address=2048");
  expectRefused(lines, "read after write hazard on dram bytes [4096, 4160): load0 does not wait for store0");
}

TEST(VerifierTest, RefusesARawWithinOneEngineWithoutASemaphore) {
  std::vector<std::string> lines = kCorrect;
  lines.insert(lines.begin() + 5, "vector a_type=i8 a_address=1024 a_span=64 a_strides=[8] d_type=i8 d_address=2048 d_span=64 "
                                  "d_strides=[8] counts=[8,1,1,1] window=[1,1]");
  expectRefused(lines, "vector does not wait for vector");
}

TEST(VerifierTest, AcceptsAccumulationInEngineOrder) {
  std::vector<std::string> lines = kCorrect;
  lines.insert(lines.begin() + 4, "preload memory=scratchpad1 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1");
  std::string last = lines[3] + " accumulate=1";
  lines[3].erase(lines[3].find("post=[2:1] "), 11);
  last.erase(last.find("wait=[0:1] "), 11);
  lines.insert(lines.begin() + 5, last);
  EXPECT_EQ(problemsOf(lines), "");
}

TEST(VerifierTest, AcceptsAccumulationInAnotherOrderFarEnoughApart) {
  std::vector<std::string> lines = kCorrect;
  lines.insert(lines.begin() + 4, "preload memory=scratchpad1 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1");
  std::string last = lines[3] + " accumulate=1";
  lines[3].erase(lines[3].find("post=[2:1] "), 11);
  last.erase(last.find("wait=[0:1] "), 11);
  // Two rows of four instead of one of eight, outer first: row 4 comes again after five cycles.
  last.replace(last.find("counts=[8,1,1]"), 14, "counts=[2,4,1]");
  last.replace(last.find("strides=[8]"), 11, "strides=[32,8]");
  last.replace(last.find("acc_strides=[1]"), 15, "acc_strides=[4,1]");
  lines.insert(lines.begin() + 5, last);
  EXPECT_EQ(problemsOf(lines), "");
}

TEST(VerifierTest, RefusesAccumulationOfARowThatIsNotWrittenYet) {
  std::vector<std::string> lines = kCorrect;
  lines.insert(lines.begin() + 4, "preload memory=scratchpad1 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1");
  std::string last = lines[3] + " accumulate=1 acc_address=7";
  lines[3].erase(lines[3].find("post=[2:1] "), 11);
  last.erase(last.find("wait=[0:1] "), 11);
  // The last row alone, a cycle after it was visited first.
  last.replace(last.find("counts=[8,1,1]"), 14, "counts=[1,1,1]");
  last.replace(last.find(" acc_span=8"), 11, " acc_span=1");
  lines.insert(lines.begin() + 5, last);
  expectRefused(lines, "accumulation in another order hazard on accumulator");
}

TEST(VerifierTest, RefusesAccumulationOnRowsThatNothingWrote) {
  expectRefused(with(3, "k_count=8", "k_count=8 accumulate=1"),
                "tensor adds to bytes [0, 256) of accumulator that nothing wrote");
}

/// A second product of the same activations, added to the sums of the first.
std::vector<std::string> withSecondPass(const std::string &from, const std::string &to) {
  std::vector<std::string> lines = kCorrect;
  std::string last = lines[3] + " accumulate=1";
  lines[3].erase(lines[3].find("post=[2:1] "), 11);
  last.erase(last.find("wait=[0:1] "), 11);
  last.replace(last.find(from), from.size(), to);
  lines.insert(lines.begin() + 4, {"preload memory=scratchpad1 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1", last});
  return lines;
}

TEST(VerifierTest, RefusesAccumulationOnRowsOnlySomeOfWhichAreWritten) {
  std::vector<std::string> lines = withSecondPass("accumulate=1", "accumulate=1");
  lines[3].replace(lines[3].find("counts=[8,1,1]"), 14, "counts=[7,1,1]");
  expectRefused(lines, "tensor adds to bytes [0, 256) of accumulator and nothing wrote some of them");
}

TEST(VerifierTest, RefusesAccumulationBetweenRowsThatAreWritten) {
  timing::MachineParams machine = tiny();
  machine.accumulator.capacityBytes = 1024 * machine.accumulatorRowBytes();
  const std::string rows = "acc_span=1023 counts=[512,1,1] strides=[0] acc_strides=[2]";
  std::vector<std::string> lines = withSecondPass("acc_span=8 counts=[8,1,1] strides=[8] acc_strides=[1]", rows);
  lines[3].replace(lines[3].find("acc_span=8"), std::string::npos, rows + " swap=1 is_signed=1 k_count=8");
  EXPECT_EQ(problemsOf(lines, machine).find("adds to"), std::string::npos);
  lines[5] += " acc_address=1";
  EXPECT_NE(problemsOf(lines, machine).find("tensor adds to bytes [32, 64) of accumulator that nothing wrote"),
            std::string::npos);
}

TEST(VerifierTest, RefusesAccumulationOnSumsThatAnotherEngineMayNotHaveWritten) {
  std::vector<std::string> lines = with(3, "k_count=8", "k_count=8 accumulate=1");
  const std::string sums = "vector wait=[5:1] post=[6:1] a_type=i8 a_span=64 a_strides=[8] d_memory=accumulator d_type=i32 "
                           "d_span=256 d_strides=[32] counts=[8,1,1,1] window=[1,1]";
  lines[0].replace(lines[0].find("post=[0:1]"), 10, "post=[0:1,5:1]");
  lines.insert(lines.begin() + 1, sums);
  lines[4].replace(lines[4].find("wait=[0:1]"), 10, "wait=[0:1,6:1]");
  EXPECT_EQ(problemsOf(lines), "");
  lines[4].replace(lines[4].find("wait=[0:1,6:1]"), 14, "wait=[0:1]");
  expectRefused(lines, "hazard on accumulator bytes [0, 256): tensor does not wait for vector");
}

TEST(VerifierTest, RefusesARowThatOneInstructionVisitsTwice) {
  // Rows 0 to 6, then 1 to 7: all of them have been written before.
  std::vector<std::string> lines =
      withSecondPass("counts=[8,1,1] strides=[8] acc_strides=[1]", "counts=[7,2,1] strides=[8,8] acc_strides=[1,1]");
  expectRefused(lines, "the tensor instruction visits an accumulator row twice");
  // So many that they could not be listed.
  lines = withSecondPass("counts=[8,1,1] strides=[8] acc_strides=[1]", "counts=[8,65535,65535] strides=[8] acc_strides=[1]");
  expectRefused(lines, "the tensor instruction visits an accumulator row twice");
}

TEST(VerifierTest, AcceptsRowsThatDimensionsInterleave) {
  // Rows 0, 3, 6 and 1, 4, 7.
  EXPECT_EQ(problemsOf(withSecondPass("counts=[8,1,1] strides=[8] acc_strides=[1]",
                                      "counts=[3,2,1] strides=[24,8] acc_strides=[3,1]")),
            "");
}

TEST(VerifierTest, RefusesATensorInstructionBeforeAnyTileIsActive) {
  expectRefused(with(3, "swap=1 ", ""), "a tensor instruction before any tile was made active in the array");
}

TEST(VerifierTest, RefusesAStoreOverTheCode) {
  expectRefused(with(5, "dram_address=4096", "dram_address=65473"),
                "store0 writes dram bytes [65473, 65537), where the program's code lies");
  EXPECT_EQ(problemsOf(with(5, "dram_address=4096", "dram_address=65472")), "");
}

TEST(VerifierTest, RefusesAStoreOverAConstant) {
  const std::string reason = "where a constant of the program lies";
  expectRefused(with(5, "dram_address=4096", "dram_address=127"), "store0 writes dram bytes [127, 191), " + reason);
  EXPECT_EQ(problemsOf(with(5, "dram_address=4096", "dram_address=128")), "");
  // Runs on both sides of it are no harm.
  EXPECT_EQ(problemsOf(with(5, "dram_address=4096 address=1024 counts=[64,1,1,1,1]",
                            "dram_address=32 dram_strides=[96] strides=[32] address=1024 counts=[32,2,1,1,1]")),
            "");
}

TEST(VerifierTest, RefusesASwapWithoutAPreload) {
  std::vector<std::string> lines = kCorrect;
  lines.erase(lines.begin() + 2);
  expectRefused(lines, "a swap without a preload before it");
}

TEST(VerifierTest, RefusesTwoPreloadsInARow) {
  std::vector<std::string> lines = kCorrect;
  lines.insert(lines.begin() + 3, "preload memory=scratchpad1 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1");
  expectRefused(lines, "a preload follows a preload that no tensor instruction has taken");
}

TEST(VerifierTest, RefusesASemaphoreWithTwoPosters) {
  expectRefused(with(1, "post=[1:1]", "post=[1:1,0:1]"), "semaphore 0 is posted by load1 and load0");
}

TEST(VerifierTest, RefusesASemaphoreWithTwoWaiters) {
  std::vector<std::string> lines = with(0, "post=[0:1]", "post=[0:2]");
  size_t at = lines[5].find("wait=[3:1]");
  lines[5].replace(at, 10, "wait=[3:1,0:1]");
  expectRefused(lines, "semaphore 0 is waited for by store0 and tensor");
}

TEST(VerifierTest, RefusesASemaphoreThatMayOverflow) {
  std::vector<std::string> lines = kCorrect;
  // 15 posts at a time, none taken: 75 after five loads, where 63 fit.
  for (int i = 0; i < 5; ++i)
    lines.insert(lines.begin() + 6, "load post=[9:15] counts=[64,1,1,1,1] span=64 dram_address=128 address=3072");
  expectRefused(lines, "semaphore 9 may reach 75 but holds at most 63");
}

/// Loads, each with a post that one store takes, and comes `lead` loads later.
std::vector<std::string> copies(int number, int lead) {
  std::vector<std::string> lines;
  auto slot = [](int i) { return " address=" + std::to_string(i * 8) + " counts=[8,1,1,1,1] span=8"; };
  for (int i = 0; i < number + lead; ++i) {
    if (i < number)
      lines.push_back("load post=[0:1]" + slot(i));
    if (i >= lead)
      lines.push_back("store wait=[0:1] dram_address=" + std::to_string(4096 + (i - lead) * 8) + slot(i - lead));
  }
  lines.push_back("halt");
  return lines;
}

TEST(VerifierTest, AcceptsAPosterThatIsAheadByNoMoreThanTheWaitersQueue) {
  // 55 loads come before the first store, and 8 stores may wait in their queue: 63.
  EXPECT_EQ(problemsOf(copies(100, 54)), "");
}

TEST(VerifierTest, RefusesAPosterThatAQueueDoesNotHoldBack) {
  expectRefused(copies(100, 55), "semaphore 0 may reach 64 but holds at most 63");
}

TEST(VerifierTest, RefusesAReadOfBytesThatNothingWrote) {
  expectRefused(with(3, "span=64 acc_span", "address=512 span=64 acc_span"),
                "tensor reads bytes [512, 576) of scratchpad0 that nothing wrote");
}

TEST(VerifierTest, RefusesAReadThatIsWrittenOnlyInPart) {
  expectRefused(with(3, "span=64 acc_span", "address=8 span=64 acc_span"),
                "tensor reads bytes [8, 72) of scratchpad0 and nothing wrote some of them");
}

TEST(VerifierTest, RefusesAVectorInstructionThatReadsItsOwnResult) {
  std::vector<std::string> lines = kCorrect;
  lines[4].replace(lines[4].find("post=[3:1]"), 10, "post=[3:1,5:1]");
  // Every vector is read from where the one before it is written.
  lines.insert(lines.begin() + 5, "vector wait=[5:1] a_type=i8 a_address=1024 a_span=56 a_strides=[8] d_type=i8 d_address=1032 "
                                  "d_span=56 d_strides=[8] counts=[7,1,1,1] window=[1,1]");
  expectRefused(lines, "the vector instruction reads bytes that it writes itself");
}

TEST(VerifierTest, AcceptsAVectorInstructionInPlace) {
  std::vector<std::string> lines = kCorrect;
  lines[4].replace(lines[4].find("post=[3:1]"), 10, "post=[3:1,5:1]");
  lines[5].replace(lines[5].find("wait=[3:1]"), 10, "wait=[3:1,6:1]");
  lines.insert(lines.begin() + 5, "vector wait=[5:1] post=[6:1] a_type=i8 a_address=1024 a_span=64 a_strides=[8] d_type=i8 "
                                  "d_address=1024 d_span=64 d_strides=[8] counts=[8,1,1,1] window=[1,1]");
  EXPECT_EQ(problemsOf(lines), "");
}

TEST(VerifierTest, RefusesAnAddressOutsideTheMemory) { expectRefused(with(0, "span=64", "span=64 address=1000000"), "word 0"); }

/// Schedulers leave out waits between what their regions tell apart: the verifier must be as exact.
TEST(VerifierTest, TellsApartWhatSchedulersTellApart) {
  bool anyMet = false;
  for (int runs : {16, 128, 255, 256, 257, 400}) {
    auto load = [&](int unit) {
      const std::string counts = std::to_string(runs), span = std::to_string(8 * runs - 4);
      return "load unit=" + std::to_string(unit) + " address=" + std::to_string(4 * unit) + " counts=[4," + counts +
             ",1,1,1] dram_strides=[4] strides=[8] span=" + span;
    };
    bool meet = false;
    const timing::MachineParams machine = tiny();
    for (const schedule::Region &a : schedule::regionsOf(*isa::parse(load(0)), machine))
      for (const schedule::Region &b : schedule::regionsOf(*isa::parse(load(1)), machine))
        meet |= a.space != schedule::kDramSpace && a.space == b.space && a.begin < b.end && b.begin < a.end;
    anyMet |= meet;
    if (!meet)
      EXPECT_EQ(problemsOf({load(0), load(1), "halt"}), "") << runs;
  }
  EXPECT_TRUE(anyMet) << "so many runs may be one range";
}

TEST(VerifierTest, FollowsLoopsAndOdometers) {
  // Four rounds of load and store of one slot: each load must wait for the store before it, so the first one must not.
  std::vector<std::string> lines = {
      "load post=[0:1] counts=[64,1,1,1,1] span=64",
      "loop count=3 body_words=8",
      "  store wait=[0:1] post=[1:1] dram_address=4096 counts=[64,1,1,1,1] span=64 levels=[{count=3 stride_a=64}]",
      "  load wait=[1:1] post=[0:1] dram_address=64 counts=[64,1,1,1,1] span=64 levels=[{count=3 stride_a=64}]",
      "store wait=[0:1] dram_address=4288 counts=[64,1,1,1,1] span=64",
      "halt",
  };
  EXPECT_EQ(problemsOf(lines), "");
  lines[3].erase(lines[3].find("wait=[1:1] "), 11);
  expectRefused(lines, "write after read hazard on scratchpad0");
}

} // namespace
