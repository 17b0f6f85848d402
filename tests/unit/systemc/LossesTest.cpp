//===- LossesTest.cpp - Why the tensor engine was not busy ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/stats/Losses.h"
#include "tests/unit/systemc/Pipeline.h"

using namespace tw;
using namespace tw::test;
using stats::Loss;
using stats::LossKind;
using stats::Phase;
using stats::Progress;
using timing::Cycle;

namespace {

const std::string kLoad = "load dram_address=0 span=64 counts=[64,1,1,1,1] ";
const std::string kPreload = "preload address=4096 span=64 row_stride=8 k_count=8 n_count=8 is_signed=1";

/// Multiplies `positions` rows at address 0.
std::string tensor(unsigned positions, unsigned row, const std::string &rest) {
  return "tensor span=512 acc_address=" + std::to_string(row) + " acc_span=64 counts=[" + std::to_string(positions) +
         ",1,1] strides=[8] acc_strides=[1] is_signed=1 k_count=8 " + rest;
}

struct Profiled {
  isa::Program program;
  stats::SimResult result;
  std::vector<Loss> losses;

  explicit Profiled(isa::Program p, const timing::MachineParams &machine = smallMachine()) : program(std::move(p)) {
    core::MachineState state(machine);
    EXPECT_FALSE(state.load(program));
    systemc::SimOptions options;
    options.trace = true;
    result = run(program, state, options);
    EXPECT_TRUE(result.ok());
    losses = stats::losses(program, result);
  }

  /// Cycles of the rows that `holds` is true of.
  template <typename Predicate> Cycle sum(Predicate holds) const {
    Cycle cycles = 0;
    for (const Loss &loss : losses)
      if (holds(loss.cause))
        cycles += loss.cycles;
    return cycles;
  }
};

TEST(LossesTest, EveryLostCycleHasOneRow) {
  const Pipeline pipeline(12);
  timing::MachineParams slow = smallMachine();
  slow.dram.bytesPerCycleNumerator = 5;
  timing::MachineParams far = smallMachine();
  far.dram.latencyCycles = 300;
  timing::MachineParams shallow = smallMachine();
  shallow.queueDepth = 1;
  for (const timing::MachineParams &machine : {smallMachine(), slow, far, shallow}) {
    const Profiled profiled(pipeline.program(), machine);
    const Cycle lost = profiled.result.totalCycles - cyclesOf(profiled.result, "tensor", Label::Busy);
    EXPECT_EQ(profiled.sum([](const stats::LossCause &) { return true; }), lost);
    Cycle merged = 0;
    for (const Loss &loss : stats::byLayer(profiled.losses))
      merged += loss.cycles;
    EXPECT_EQ(merged, lost);
  }
}

// As in SystemCModelTest.LoadOfOneBurst: the load starts in 17, its burst moves in 31, it retires in 33 and its post is seen
// in 34. Then the tensor engine starts, is issue-free in 42 and retires 8 later; done is visible in 52.
TEST(LossesTest, AWaitForALoadIsCutByWhatTheLoadDoes) {
  const Profiled profiled(assemble({kLoad + "post=[0:1]", kPreload, tensor(8, 0, "swap=1 wait=[0:1]"), "halt"}));
  ASSERT_EQ(profiled.result.totalCycles, 52u);
  const Cycle visible = profiled.result.instructions[2].visible;
  ASSERT_GE(visible, profiled.result.instructions[0].issueFree);
  auto prologue = [&](LossKind kind, Progress progress, Label label) {
    return profiled.sum([=](const stats::LossCause &cause) {
      return cause.phase == Phase::Prologue && cause.kind == kind && cause.progress == progress && cause.label == label;
    });
  };
  EXPECT_EQ(profiled.sum([](const stats::LossCause &cause) { return cause.kind == LossKind::Starved; }), visible);
  EXPECT_EQ(prologue(LossKind::Operand, Progress::Draining, Label::DramLatency), 31 - visible);
  EXPECT_EQ(prologue(LossKind::Operand, Progress::Draining, Label::Busy), 2u);
  EXPECT_EQ(prologue(LossKind::Operand, Progress::HandOver, Label::Busy), 1u);
  EXPECT_EQ(profiled.sum([](const stats::LossCause &cause) {
    return cause.kind == LossKind::Operand && cause.detail == 0 && cause.engine == stats::kFirstLoad && cause.engineWord == 0;
  }),
            34 - visible);
  EXPECT_EQ(profiled.sum(
                [](const stats::LossCause &cause) { return cause.phase == Phase::Epilogue && cause.kind == LossKind::Drain; }),
            10u);
}

TEST(LossesTest, AnInterlockNamesThePreload) {
  const Profiled profiled(assemble({kPreload, tensor(8, 0, "swap=1"), "halt"}));
  const stats::InstructionRecord &record = profiled.result.instructions[1];
  ASSERT_GT(record.start, record.visible);
  EXPECT_EQ(profiled.sum([](const stats::LossCause &cause) {
    return cause.kind == LossKind::Interlock && cause.engine == stats::kPreload && cause.engineWord == 0;
  }),
            record.start - record.visible);
}

// Stores are over when the write buffer has their bursts; of DRAM's time for the last ones nobody else is the cause.
TEST(LossesTest, TheWriteBufferDrains) {
  timing::MachineParams slow = smallMachine();
  slow.dram.bytesPerCycleNumerator = 1;
  const Profiled profiled(
      assemble({kPreload, tensor(8, 0, "swap=1"), "store dram_address=0x1000 span=512 counts=[512,1,1,1,1]", "halt"}), slow);
  const std::vector<stats::InstructionRecord> &records = profiled.result.instructions;
  const Cycle last = std::max(records[1].issueFree, records[2].retire), done = profiled.result.writesDone;
  ASSERT_GT(done, last);
  auto idle = [&](Progress progress) {
    return profiled.sum([=](const stats::LossCause &cause) {
      return cause.kind == LossKind::Drain && cause.engine == stats::kNoEngine && cause.progress == progress;
    });
  };
  EXPECT_EQ(idle(Progress::Draining), done - last);
  // The store starts late, and the end of the run shows late.
  ASSERT_GT(records[2].start, records[1].issueFree);
  EXPECT_EQ(idle(Progress::None), records[2].start - records[1].issueFree + profiled.result.totalCycles - done);
}

// The second load may not overwrite what the first tensor instruction still reads.
TEST(LossesTest, ALoadThatWaitsForItsBufferSaysForWhom) {
  const Profiled profiled(assemble({kLoad + "post=[0:1]", kPreload, tensor(64, 0, "swap=1 wait=[0:1] post=[1:1]"),
                                    kLoad + "wait=[1:1] post=[0:1]", tensor(64, 64, "wait=[0:1]"), "halt"}));
  const std::vector<stats::InstructionRecord> &records = profiled.result.instructions;
  ASSERT_LT(records[4].visible, records[2].issueFree);
  EXPECT_EQ(profiled.sum([](const stats::LossCause &cause) {
    return cause.phase == Phase::Body && cause.kind == LossKind::Operand && cause.progress == Progress::Queued &&
           cause.engine == stats::kFirstLoad && cause.label == Label::Operand && cause.waitsFor == stats::kTensor;
  }),
            records[3].start - records[2].issueFree);
}

TEST(LossesTest, ALayerWithoutTensorWorkIsNamedWithItsEngines) {
  const std::vector<std::string> copy = {kLoad + "post=[0:1]",
                                         "store dram_address=0x1000 span=64 counts=[64,1,1,1,1] wait=[0:1] post=[1:1]"};
  const size_t words = assemble(copy).code.size();
  isa::Program program = assemble({copy[0], copy[1], kPreload, tensor(8, 0, "swap=1 wait=[1:1]"), "halt"});
  program.layers.resize(2);
  program.layerOf.assign(program.code.size(), 1);
  std::fill_n(program.layerOf.begin(), words, 0);
  const Profiled profiled(program);
  const std::vector<stats::InstructionRecord> &records = profiled.result.instructions;
  auto cycles = [&](unsigned engine) {
    return profiled.sum([=](const stats::LossCause &cause) {
      return cause.kind == LossKind::NoTensorWork && cause.layer == 0 && cause.engine == engine;
    });
  };
  EXPECT_EQ(cycles(stats::kFirstLoad), records[0].retire - records[0].start);
  EXPECT_EQ(cycles(stats::kFirstStore), records[1].retire - records[1].start);
}

} // namespace
