//===- SystemCModelTest.cpp - The cycle-accurate model as a whole ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/systemc/Pipeline.h"

#include "simulator/functional/FunctionalModel.h"

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

using namespace tw;
using namespace tw::test;

namespace {

// Word 0 is taken in cycle 14; done is visible done_cycles = 2 later.
TEST(SystemCModelTest, EmptyProgramTakesFetchAndDone) {
  const stats::SimResult result = run({"halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 16u);
}

// Words 0-2 are taken in 14-16, so the load is visible and starts in 17. Its burst is requested in 17 + dma_setup 2 =
// 19, arrives in 30, moves in 31; it retires in 31 + dma_drain 2 = 33.
TEST(SystemCModelTest, LoadOfOneBurst) {
  const stats::SimResult result = run({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1]", "halt"});
  ASSERT_FALSE(result.fault) << result.fault->str();
  EXPECT_EQ(result.totalCycles, 35u);
  ASSERT_EQ(result.instructions.size(), 1u);
  EXPECT_EQ(result.instructions[0].visible, 17u);
  EXPECT_EQ(result.instructions[0].start, 17u);
  EXPECT_EQ(result.instructions[0].issueFree, 20u);
  EXPECT_EQ(result.instructions[0].retire, 33u);
  // Busy: request in 19, move in 31. The other cycles of [17, 31) are latency: the bus moved the burst in 19 itself.
  EXPECT_EQ(labelsOf(result, "load0"), (std::vector<timing::Cycle>{2, 0, 0, 0, 0, 13, 0, 17, 3}));
  EXPECT_EQ(labelsOf(result, "tensor"), (std::vector<timing::Cycle>{0, 0, 0, 0, 0, 0, 0, 0, 35}));
}

timing::MachineParams withDdr4(timing::DramController controller, uint32_t channels = 1) {
  timing::MachineParams machine = smallMachine();
  machine.dram.kind = timing::DramKind::Ddr4;
  machine.dram.controller = controller;
  machine.dram.channels = machine.burstsPerCycle = channels;
  return machine;
}

TEST(SystemCModelTest, PipelineComputesTheProductOnEveryMemory) {
  const Pipeline pipeline(40);
  const isa::Program program = pipeline.program();
  timing::MachineParams slow = smallMachine();
  slow.dram.bytesPerCycleNumerator = 3;
  for (const timing::MachineParams &machine :
       {smallMachine(), slow, withDdr4(timing::DramController::InOrder), withDdr4(timing::DramController::Windowed),
        withDdr4(timing::DramController::InOrder, 4), withDdr4(timing::DramController::Windowed, 2)}) {
    std::vector<std::vector<uint8_t>> outputs;
    systemc::SimOptions options;
    options.checks = true;
    const stats::SimResult result = runWith(program, pipeline.inputs(), machine, outputs, options);
    ASSERT_FALSE(result.fault) << result.fault->str();
    EXPECT_EQ(outputs[0], pipeline.expected());
    EXPECT_EQ(result.instructionCount, 240u);
    EXPECT_EQ(result.macs, 40u * 64 * 8 * 8);
    EXPECT_EQ(result.dramReadBytes, 40u * (512 + 64));
    EXPECT_EQ(result.dramWriteBytes, 40u * 512);
    // 40 tiles of 64 positions keep the array busy for so long at least.
    EXPECT_EQ(cyclesOf(result, "tensor", Label::Busy), 2560u);
    EXPECT_GT(result.totalCycles, 2560u);
  }
}

// Every buffer is doubled and the memory is fast, so the longest cycle of waits decides: half of the accumulator is filled
// in 64 + 8 cycles, its post is seen one later, it is read in 64 + 36, and free one cycle after that. Two tiles per 174
// cycles, where one after the other would take six engines' times each.
TEST(SystemCModelTest, PipelineOverlapsAllEngines) {
  const Pipeline pipeline(100);
  std::vector<std::vector<uint8_t>> outputs;
  const stats::SimResult result = runWith(pipeline.program(), pipeline.inputs(), smallMachine(), outputs);
  EXPECT_GT(result.totalCycles, 100 * 174 / 2);
  EXPECT_LT(result.totalCycles, 100 * 174 / 2 + 200);
}

TEST(SystemCModelTest, FunctionalModelAgrees) {
  const Pipeline pipeline(20);
  const isa::Program program = pipeline.program();
  core::MachineState timed(smallMachine());
  ASSERT_FALSE(timed.load(program));
  ASSERT_FALSE(timed.writeInputs(program, pipeline.inputs()));
  ASSERT_FALSE(run(program, timed).fault);
  functional::FunctionalModel model(smallMachine());
  const core::RunResult result = model.run(program, pipeline.inputs());
  ASSERT_FALSE(result.fault) << result.fault->str();
  const core::MachineState &plain = model.state();
  EXPECT_EQ(std::vector<uint8_t>(timed.dram(), timed.dram() + timed.dramSize()),
            std::vector<uint8_t>(plain.dram(), plain.dram() + plain.dramSize()));
}

// A correct program computes the same whatever the latencies are.
TEST(SystemCModelTest, JitterChangesCyclesButNotMemory) {
  const unsigned seed = std::random_device()();
  std::printf("jitter seed %u\n", seed);
  std::mt19937 random(seed);
  const Pipeline pipeline(20);
  const isa::Program program = pipeline.program();
  std::vector<timing::Cycle> cycles;
  for (int trial = 0; trial < 60; ++trial) {
    timing::MachineParams machine = smallMachine();
    for (const timing::TimingConstantInfo &constant : timing::kTimingConstants)
      machine.timing.*constant.member = 1 + random() % 40;
    machine.dram.latencyCycles = random() % 200;
    machine.dram.bytesPerCycleNumerator = 1 + random() % 64;
    machine.queueDepth = 1 + random() % 8;
    machine.outstandingBursts = 1 + random() % 16;
    std::vector<std::vector<uint8_t>> outputs;
    systemc::SimOptions options;
    options.checks = true;
    const stats::SimResult result = runWith(program, pipeline.inputs(), machine, outputs, options);
    ASSERT_FALSE(result.fault) << "seed " << seed << ", trial " << trial << ": " << result.fault->str();
    ASSERT_EQ(outputs[0], pipeline.expected()) << "seed " << seed << ", trial " << trial;
    cycles.push_back(result.totalCycles);
  }
  EXPECT_NE(*std::min_element(cycles.begin(), cycles.end()), *std::max_element(cycles.begin(), cycles.end()));
}

/// Everything a run reports, as text.
std::string fingerprint() {
  std::ostringstream text;
  const Pipeline pipeline(30);
  for (const timing::MachineParams &machine : {smallMachine(), withDdr4(timing::DramController::Windowed, 2)}) {
    std::vector<std::vector<uint8_t>> outputs;
    systemc::SimOptions options;
    options.trace = true;
    const stats::SimResult result = runWith(pipeline.program(), pipeline.inputs(), machine, outputs, options);
    text << result.totalCycles << '\n';
    for (const stats::InstructionRecord &record : result.instructions)
      text << record.pc << ' ' << record.start << ' ' << record.issueFree << ' ' << record.retire << '\n';
    for (const stats::EngineResult &engine : result.engines)
      for (const timing::Cycle cycle : engine.cycles)
        text << cycle << ' ';
  }
  return text.str();
}

TEST(SystemCModelTest, RunsRepeatWhateverRanBefore) {
  const std::string first = fingerprint();
  run({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1] wait=[3:1]", "halt"}); // ends in a deadlock
  EXPECT_EQ(fingerprint(), first);
}

TEST(SystemCModelTest, OrderOfConstructionDoesNotMatter) {
  // SystemC elaborates once per process, so the other order needs another one: this test once more, told to write its results.
  if (const char *file = std::getenv("TILEWRIGHT_FINGERPRINT")) {
    systemc::SystemCModel::reverseConstruction();
    std::ofstream(file) << fingerprint();
    return;
  }
  char self[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", self, sizeof self - 1), 0);
  const std::string file = ::testing::TempDir() + "fingerprint." + std::to_string(getpid());
  const std::string command =
      "TILEWRIGHT_FINGERPRINT='" + file + "' '" + self + "' --gtest_filter='*OrderOfConstructionDoesNotMatter' > /dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::stringstream reversed;
  reversed << std::ifstream(file).rdbuf();
  std::remove(file.c_str());
  EXPECT_GT(reversed.str().size(), 1000u);
  EXPECT_EQ(reversed.str(), fingerprint());
}

TEST(SystemCModelTest, TimingOnlyLeavesMemoryAlone) {
  const Pipeline pipeline(5);
  std::vector<std::vector<uint8_t>> outputs;
  const stats::SimResult full = runWith(pipeline.program(), pipeline.inputs(), smallMachine(), outputs);
  systemc::SimOptions options;
  options.timingOnly = true;
  const stats::SimResult quick = runWith(pipeline.program(), pipeline.inputs(), smallMachine(), outputs, options);
  EXPECT_EQ(quick.totalCycles, full.totalCycles);
  EXPECT_EQ(outputs[0], std::vector<uint8_t>(5 * 512, 0));
}

TEST(SystemCModelTest, WrongInputsAreReported) {
  const Pipeline pipeline(2);
  std::vector<std::vector<uint8_t>> outputs;
  const stats::SimResult result = runWith(pipeline.program(), {{1, 2, 3}}, smallMachine(), outputs);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, core::FaultKind::BadInput);
  EXPECT_EQ(result.fault->message, "got 1 input tensors but the program has 2");
}

// The first two tiles are layer 0 and the rest layer 1.
TEST(SystemCModelTest, LayersShareOutTheRun) {
  const Pipeline pipeline(6);
  isa::Program program = pipeline.program();
  program.layers.resize(2);
  program.layers[0].name = "front";
  program.layers[1].name = "back";
  const size_t wordsPerTile = 17, firstWords = 2 * wordsPerTile;
  program.layerOf.assign(program.code.size(), 1);
  std::fill_n(program.layerOf.begin(), firstWords, 0);
  std::vector<std::vector<uint8_t>> outputs;
  const stats::SimResult result = runWith(program, pipeline.inputs(), smallMachine(), outputs);
  ASSERT_EQ(result.layers.size(), 2u);
  EXPECT_EQ(result.layers[0].name, "front");
  EXPECT_EQ(result.layers[0].instructions, 12u);
  EXPECT_EQ(result.layers[0].dramReadBytes, 2u * 576);
  EXPECT_EQ(result.layers[1].dramWriteBytes, 4u * 512);
  EXPECT_EQ(result.layers[1].macs, 4u * 64 * 64);
  EXPECT_EQ(result.layers[0].labels[stats::kTensor][unsigned(Label::Busy)], 128u);
  EXPECT_EQ(result.layers[1].labels[stats::kTensor][unsigned(Label::Busy)], 256u);
  const std::vector<timing::Cycle> advances = stats::endAdvances(result);
  EXPECT_EQ(advances[0] + advances[1], result.layers[1].lastRetire);
  EXPECT_GT(result.layers[0].cycles() + result.layers[1].cycles(), result.layers[1].lastRetire - result.layers[0].firstStart);
  EXPECT_EQ(result.layers[0].critical + result.layers[1].critical, result.totalCycles);
  EXPECT_EQ(result.noLayer.instructions, 0u);
  EXPECT_LT(result.layers[1].firstStart, result.layers[0].lastRetire); // they overlap
}

} // namespace
