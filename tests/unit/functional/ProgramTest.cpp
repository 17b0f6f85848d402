//===- ProgramTest.cpp - Whole programs in program order ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TestMachine.h"
#include "simulator/functional/FunctionalModel.h"

#include <numeric>

using namespace tw;
using namespace tw::functional;
using namespace tw::test;
using core::FaultKind;
using timing::ArrayType;

namespace {

const std::string kLoad = "load address=0 span=64 counts=[64,1,1,1,1] post=[0:1]";
const std::string kStore = "store dram_address=1024 address=0 span=64 counts=[64,1,1,1,1] wait=[0:1]";

std::vector<uint8_t> counting(size_t bytes) {
  std::vector<uint8_t> values(bytes);
  std::iota(values.begin(), values.end(), uint8_t(0));
  return values;
}

/// Runs `lines` with 64 input bytes at DRAM address 0.
core::RunResult runLines(const std::vector<std::string> &lines, const RunOptions &options = {}) {
  isa::Program program = assemble(lines);
  addInput(program, 0, 64);
  addOutput(program, 1024, 64);
  return run(program, testMachine(ArrayType::Int8), {counting(64)}, options);
}

void expectFault(const core::RunResult &result, FaultKind kind, uint64_t pc, const std::string &engine,
                 const std::string &message) {
  ASSERT_TRUE(result.fault) << "expected a fault";
  EXPECT_EQ(core::faultKindName(result.fault->kind), std::string(core::faultKindName(kind))) << result.fault->str();
  EXPECT_EQ(result.fault->pc, pc);
  EXPECT_EQ(result.fault->engine, engine);
  EXPECT_NE(result.fault->message.find(message), std::string::npos) << result.fault->message;
  EXPECT_TRUE(result.outputs.empty());
}

TEST(ProgramTest, CopiesThroughTheScratchpad) {
  core::RunResult result = runLines({kLoad, kStore, "halt"});
  ASSERT_TRUE(result.ok()) << result.fault->str();
  EXPECT_EQ(result.instructions, 2u);
  EXPECT_EQ(result.outputs, (std::vector<std::vector<uint8_t>>{counting(64)}));
}

TEST(ProgramTest, MultipliesMatrices) {
  // C[4][4] = A[4][4] * B[4][4] in int8, requantised with scale 1.
  isa::Program program = assemble({
      "load address=0 span=16 counts=[16,1,1,1,1] post=[0:1]",
      "load memory=scratchpad1 dram_address=16 address=0 span=16 counts=[16,1,1,1,1] post=[1:1]",
      "preload memory=scratchpad1 address=0 span=16 row_stride=4 k_count=4 n_count=4 is_signed=1 wait=[1:1]",
      "tensor address=0 span=16 acc_span=4 counts=[4,1,1] strides=[4] acc_strides=[1] swap=1 is_signed=1 k_count=4 "
      "wait=[0:1] post=[2:1]",
      "vector a_memory=accumulator a_type=i32 a_span=64 a_strides=[16] d_type=i8 d_address=4096 d_span=16 d_strides=[4] "
      "counts=[4,1,1,1] window=[1,1] wait=[2:1] post=[3:1]",
      "store dram_address=1024 address=4096 span=16 counts=[16,1,1,1,1] wait=[3:1]",
      "halt",
  });
  addInput(program, 0, 16);
  addInput(program, 16, 16);
  addOutput(program, 1024, 16);
  std::vector<uint8_t> a = {1, 2, 3, 4, 0, 1, 0, 0, 255, 0, 0, 0, 1, 1, 1, 1}; // 255 is -1
  std::vector<uint8_t> b = {1, 0, 0, 5, 0, 1, 0, 6, 0, 0, 1, 7, 9, 9, 9, 8};
  core::RunResult result = run(program, testMachine(ArrayType::Int8), {a, b});
  ASSERT_TRUE(result.ok()) << result.fault->str();
  // Row 0: {1 + 36, 2 + 36, 3 + 36, 5 + 12 + 21 + 32}; row 2 is minus row 0 of B.
  EXPECT_EQ(result.outputs[0], (std::vector<uint8_t>{37, 38, 39, 70, 0, 1, 0, 6, 255, 0, 0, 251, 10, 10, 10, 26}));
}

TEST(ProgramTest, LoopsTurnOdometersAndPredicates) {
  // Four tiles of 16 bytes; the predicate drops both instructions in the first iteration, the odometers turn all the same.
  const std::string levels = "predicate=not_first predicate_mask=1 levels=[{count=4 stride_a=16 stride_b=16}]";
  core::RunResult result = runLines({
      "loop count=4 body_words=8",
      "load address=0 span=16 counts=[16,1,1,1,1] post=[0:1] " + levels,
      "store dram_address=1024 address=0 span=16 counts=[16,1,1,1,1] wait=[0:1] " + levels,
      "halt",
  });
  ASSERT_TRUE(result.ok()) << result.fault->str();
  EXPECT_EQ(result.instructions, 6u);
  std::vector<uint8_t> expected = counting(64);
  std::fill(expected.begin(), expected.begin() + 16, uint8_t(0));
  EXPECT_EQ(result.outputs[0], expected);
}

TEST(ProgramTest, ADroppedInstructionTakesNoPosts) {
  // The first store is dropped, so each later one takes the post of the tile before its own.
  const std::string levels = "levels=[{count=4 stride_a=16 stride_b=16}]";
  core::RunResult result = runLines({
      "loop count=4 body_words=8",
      "load address=0 span=16 counts=[16,1,1,1,1] post=[0:1] " + levels,
      "store dram_address=1024 address=0 span=16 counts=[16,1,1,1,1] wait=[0:1] predicate=not_first predicate_mask=1 " + levels,
      "halt",
  });
  expectFault(result, FaultKind::Unordered, 5, "store0", "reads byte 16 of scratchpad0, which load0 (word 1) writes");
}

TEST(ProgramTest, NestedLoopsWithMasksAndEdges) {
  // Twice over four tiles, of which the last has only 4 bytes; the second round is dropped.
  const std::string rest = "predicate=first predicate_mask=2 edge=[0:0:4] "
                           "levels=[{count=4 stride_a=16 stride_b=16},{count=2}]";
  core::RunResult result = runLines({
      "loop count=2 body_words=9",
      "loop count=4 body_words=8",
      "load address=0 span=16 counts=[16,1,1,1,1] post=[0:1] " + rest,
      "store dram_address=1024 address=0 span=16 counts=[16,1,1,1,1] wait=[0:1] " + rest,
      "halt",
  });
  ASSERT_TRUE(result.ok()) << result.fault->str();
  EXPECT_EQ(result.instructions, 8u);
  std::vector<uint8_t> expected = counting(64);
  std::fill(expected.begin() + 52, expected.end(), uint8_t(0));
  EXPECT_EQ(result.outputs[0], expected);
}

TEST(ProgramTest, LoopsKeepTheirBuffersApart) {
  // Two rounds over one buffer. A load waits for the store that emptied its buffer a round ago; posts that nobody takes are not
  // made (post_mask) and waits that nobody satisfies are not made (predicate and second instruction).
  auto lines = [](const std::string &wait) {
    return std::vector<std::string>{
        "load address=0 span=16 counts=[16,1,1,1,1] post=[0:1]",
        "loop count=3 body_words=8",
        "store dram_address=1024 address=0 span=16 counts=[16,1,1,1,1] wait=[0:1] post=[1:1] levels=[{count=3 stride_a=16}]",
        "load dram_address=16 address=0 span=16 counts=[16,1,1,1,1] post=[0:1] " + wait + " levels=[{count=3 stride_a=16}]",
        "store dram_address=1072 address=0 span=16 counts=[16,1,1,1,1] wait=[0:1]",
        "halt"};
  };
  core::RunResult result = runLines(lines("wait=[1:1]"));
  ASSERT_TRUE(result.ok()) << result.fault->str();
  EXPECT_EQ(result.outputs[0], counting(64));
  expectFault(runLines(lines("")), FaultKind::Unordered, 8, "load0", "which store0 (word 4) reads");
  // Waits only in the first iteration: the second load meets the second store.
  expectFault(runLines(lines("wait=[1:1] wait_mask=1")), FaultKind::Unordered, 8, "load0", "which store0 (word 4) reads");
}

TEST(ProgramTest, ClearMaskOverwritesInTheFirstIterationOnly) {
  // Three passes of 1 * 2 over a row: 2 + 2 + 2 whatever the accumulator held.
  isa::Program program = assemble({
      "load address=0 span=1 counts=[1,1,1,1,1] post=[0:1]",
      "load memory=scratchpad1 dram_address=1 address=0 span=1 counts=[1,1,1,1,1] post=[1:1]",
      "preload memory=scratchpad1 address=0 span=1 row_stride=1 k_count=1 n_count=1 wait=[1:1]",
      "tensor address=0 span=1 acc_span=1 counts=[1,1,1] swap=1 k_count=1 wait=[0:1]",
      "loop count=3 body_words=3",
      "tensor address=0 span=1 acc_span=1 counts=[1,1,1] clear_mask=1 k_count=1 post=[2:1] post_mask=1 levels=[{count=3}]",
      "vector a_memory=accumulator a_type=i32 a_span=16 d_type=u8 d_address=4096 d_span=4 counts=[1,1,1,1] window=[1,1] "
      "wait=[2:1] post=[3:1]",
      "store dram_address=1024 address=4096 span=4 counts=[4,1,1,1,1] wait=[3:1]",
      "halt",
  });
  addInput(program, 0, 2);
  addOutput(program, 1024, 4);
  core::RunResult result = run(program, testMachine(ArrayType::Int8), {{1, 2}});
  ASSERT_TRUE(result.ok()) << result.fault->str();
  EXPECT_EQ(result.outputs[0], (std::vector<uint8_t>{6, 0, 0, 0}));
}

TEST(ProgramTest, AModelRunsAgainFromReset) {
  isa::Program program = assemble({kLoad, kStore, "halt"});
  addInput(program, 0, 64);
  addOutput(program, 1024, 64);
  FunctionalModel model(testMachine(ArrayType::Int8));
  core::RunResult first = model.run(program, {counting(64)});
  model.state().memory(0)[100] = 1;
  core::RunResult second = model.run(program, {std::vector<uint8_t>(64, 7)});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(second.outputs[0], std::vector<uint8_t>(64, 7));
  EXPECT_EQ(model.state().memory(0)[100], 0);
}

TEST(ProgramTest, FaultsNameTheLayer) {
  isa::Program program = assemble({kLoad, kStore, "halt"});
  program.layers = {{"conv1", {}, 0, 0, ""}, {"pool1", {}, 0, 0, ""}};
  program.layerOf = {0, 0, 0, 1, 1, 1, 1};
  core::RunResult result = run(program, testMachine(ArrayType::Int8), {}); // nothing is an input: DRAM is unwritten
  expectFault(result, FaultKind::UnwrittenRead, 0, "load0", "reads byte 0 of dram, which nothing has written");
  EXPECT_EQ(result.fault->layer, "conv1");
  EXPECT_EQ(result.fault->str(),
            "read of an unwritten word in load0, word 0, layer 'conv1': load0 (word 0) reads byte 0 of dram, "
            "which nothing has written");
}

TEST(ProgramTest, AddressesOutOfRange) {
  expectFault(runLines({"load address=16352 span=64 counts=[64,1,1,1,1]", "halt"}), FaultKind::OutOfRange, 0, "load0", "16352");
  expectFault(runLines({"load dram_address=65504 address=0 span=64 counts=[64,1,1,1,1]", "halt"}), FaultKind::OutOfRange, 0,
              "load0", "65504");
  expectFault(runLines({"load address=0 span=63 counts=[64,1,1,1,1]", "halt"}), FaultKind::OutOfRange, 0, "load0",
              "span is 63");
  // The third turn of the odometer leaves the scratchpad.
  expectFault(runLines({"loop count=3 body_words=4",
                        "load address=0 span=64 counts=[64,1,1,1,1] levels=[{count=3 stride_b=8176}]", "halt"}),
              FaultKind::OutOfRange, 1, "load0", "16352");
}

TEST(ProgramTest, IllegalInstructions) {
  expectFault(runLines({"load unit=2 address=0 span=64 counts=[64,1,1,1,1]", "halt"}), FaultKind::IllegalInstruction, 0,
              "sequencer", "unit is 2");
  expectFault(runLines({kLoad}), FaultKind::IllegalInstruction, 3, "sequencer", "without halt");
  expectFault(runLines({"halt", "halt"}), FaultKind::IllegalInstruction, 0, "sequencer", "not the last");
  expectFault(runLines({"loop count=1 body_words=1", "halt"}), FaultKind::IllegalInstruction, 1, "sequencer", "inside a loop");
  expectFault(runLines({"loop count=2 body_words=2", kLoad, "halt"}), FaultKind::IllegalInstruction, 1, "sequencer",
              "ends inside the instruction");
  expectFault(runLines({"loop count=2 body_words=1", "loop count=2 body_words=3", kLoad, "halt"}),
              FaultKind::IllegalInstruction, 1, "sequencer", "ends after the body that holds it");
  std::vector<std::string> deep;
  for (int depth = 5; depth >= 1; --depth)
    deep.push_back("loop count=1 body_words=" + std::to_string(depth + 2));
  deep.insert(deep.end(), {kLoad, "halt"});
  expectFault(runLines(deep), FaultKind::IllegalInstruction, 4, "sequencer", "deeper than 4");
  isa::Program program = assemble({"halt"});
  program.code[0] = {63, 0, 0, 0};
  expectFault(run(program, testMachine(ArrayType::Int8), {}), FaultKind::IllegalInstruction, 0, "sequencer", "");
}

TEST(ProgramTest, Deadlocks) {
  expectFault(runLines({kStore, kLoad, "halt"}), FaultKind::Deadlock, 0, "store0", "waits for 1 posts of semaphore 0");
  expectFault(runLines({kLoad, "store dram_address=1024 address=0 span=64 counts=[64,1,1,1,1] wait=[0:2]", "halt"}),
              FaultKind::Deadlock, 3, "store0", "waits for 2 posts of semaphore 0 but earlier instructions leave 1");
  expectFault(runLines({"tensor address=0 span=1 acc_span=1 counts=[1,1,1] swap=1 k_count=1", "halt"}), FaultKind::Deadlock, 0,
              "tensor", "no earlier preload");
  std::string preload = "preload address=0 span=4 row_stride=4 k_count=1 n_count=4 wait=[0:1]";
  expectFault(runLines({"load address=0 span=64 counts=[64,1,1,1,1] post=[0:2]", preload, preload, "halt"}),
              FaultKind::Deadlock, 4, "preload", "no earlier tensor instruction takes");
}

TEST(ProgramTest, SemaphoresOverflow) {
  std::string load = "load address=0 span=64 counts=[64,1,1,1,1] post=[5:15]";
  core::RunResult result = runLines({"loop count=5 body_words=3", load, "halt"});
  expectFault(result, FaultKind::SemaphoreOverflow, 1, "load0", "semaphore 5 reaches 75 but holds at most 63");
  EXPECT_EQ(result.instructions, 5u);
}

TEST(ProgramTest, UnwrittenReads) {
  expectFault(runLines({"store dram_address=1024 address=0 span=64 counts=[64,1,1,1,1]", "halt"}), FaultKind::UnwrittenRead, 0,
              "store0", "reads byte 0 of scratchpad0");
  expectFault(runLines({kLoad, "store dram_address=1024 address=0 span=65 counts=[65,1,1,1,1] wait=[0:1]", "halt"}),
              FaultKind::UnwrittenRead, 3, "store0", "reads byte 64 of scratchpad0");
  expectFault(runLines({kLoad, "tensor address=0 span=4 acc_span=1 counts=[1,1,1] k_count=4 wait=[0:1]", "halt"}),
              FaultKind::UnwrittenRead, 3, "tensor", "active");
  RunOptions unchecked;
  unchecked.checks = {false, false};
  EXPECT_TRUE(runLines({"store dram_address=1024 address=0 span=64 counts=[64,1,1,1,1]", "halt"}, unchecked).ok());
}

TEST(ProgramTest, BadInputsAndLimits) {
  isa::Program program = assemble({kLoad, kStore, "halt"});
  addInput(program, 0, 64);
  timing::MachineParams machine = testMachine(ArrayType::Int8);
  expectFault(run(program, machine, {}), FaultKind::BadInput, 0, "sequencer", "got 0 input tensors but the program has 1");
  expectFault(run(program, machine, {counting(63)}), FaultKind::BadInput, 0, "sequencer",
              "has 63 bytes but the program takes 64");
  program.dramBytes = 65537;
  expectFault(run(program, machine, {counting(64)}), FaultKind::BadInput, 0, "sequencer", "65537 bytes of DRAM");
  RunOptions options;
  options.maxInstructions = 10;
  expectFault(runLines({"loop count=1000000 body_words=3", "load address=0 span=64 counts=[64,1,1,1,1]", "halt"}, options),
              FaultKind::LimitReached, 1, "sequencer", "10 instructions");
}

TEST(ProgramTest, DamagedCodeGivesAFaultOrAResult) {
  // Every single-bit error in a program that uses all engines: the model must end, within its memories.
  const isa::Program good = assemble({
      "load address=0 span=16 counts=[16,1,1,1,1] post=[0:1]",
      "load memory=scratchpad1 dram_address=16 address=0 span=16 counts=[16,1,1,1,1] post=[1:1]",
      "preload memory=scratchpad1 address=0 span=16 row_stride=4 k_count=4 n_count=4 wait=[1:1]",
      "tensor address=0 span=16 acc_span=4 counts=[4,1,1] strides=[4] acc_strides=[1] swap=1 k_count=4 wait=[0:1] post=[2:1]",
      "loop count=2 body_words=6",
      "vector a_memory=accumulator a_type=i32 a_span=64 a_strides=[16] d_type=i8 d_address=4096 d_span=16 d_strides=[4] "
      "counts=[4,1,1,1] window=[1,1] num_stages=2 stage=[imax:imm0,iadd:imm1] immediates=[0,1] wait=[2:1] wait_mask=1 "
      "post=[3:1] post_mask=1 levels=[{count=2}]",
      "store dram_address=1024 address=4096 span=16 counts=[16,1,1,1,1] wait=[3:1]",
      "halt",
  });
  RunOptions options;
  options.maxInstructions = 1000;
  FunctionalModel model(testMachine(ArrayType::Int8));
  unsigned faults = 0;
  {
    isa::Program program = good;
    addInput(program, 0, 32);
    core::RunResult result = model.run(program, {counting(32)}, options);
    ASSERT_TRUE(result.ok()) << result.fault->str();
  }
  for (size_t bit = 0; bit < good.code.size() * 256; ++bit) {
    isa::Program program = good;
    program.code[bit / 256][bit / 64 % 4] ^= uint64_t(1) << (bit % 64);
    addInput(program, 0, 32);
    addOutput(program, 1024, 16);
    faults += !model.run(program, {counting(32)}, options).ok();
  }
  EXPECT_GT(faults, good.code.size() * 64);
  EXPECT_LT(faults, good.code.size() * 256);
}

} // namespace
