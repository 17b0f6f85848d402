//===- ProfileTest.cpp - Where the tensor engine's cycles went ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Profile.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::runtime;
using stats::Label;
using stats::Progress;

namespace {

/// A wait for a load that is itself `label` for `waitsFor`.
stats::LossCause waitForLoad(Progress progress, Label label, unsigned waitsFor = stats::kNoEngine) {
  stats::LossCause cause;
  cause.kind = stats::LossKind::Operand;
  cause.engine = stats::kFirstLoad;
  cause.progress = progress;
  cause.label = label;
  cause.waitsFor = waitsFor;
  return cause;
}

} // namespace

TEST(ProfileTest, RemediesFollowWhatTheLoadWaitsFor) {
  EXPECT_EQ(remedyText(waitForLoad(Progress::Queued, Label::Operand, stats::kTensor)), "one more buffer");
  EXPECT_EQ(remedyText(waitForLoad(Progress::Queued, Label::Operand, stats::kFirstStore)), "keep the tensor on chip");
  EXPECT_EQ(remedyText(waitForLoad(Progress::Queued, Label::BankConflict)), "buffers in other banks, or more banks");
  EXPECT_EQ(remedyText(waitForLoad(Progress::Draining, Label::DramBandwidth)), "more DRAM bandwidth, less traffic");
  EXPECT_EQ(remedyText(waitForLoad(Progress::Running, Label::DramLatency)), "lower DRAM latency, load earlier");
}

TEST(ProfileTest, TheWriteBufferDrainsBehindTheLastStore) {
  stats::LossCause cause;
  cause.kind = stats::LossKind::Drain;
  EXPECT_EQ(causeText(cause, {}), "nothing in flight");
  EXPECT_EQ(remedyText(cause), "-");
  cause.progress = Progress::Draining;
  EXPECT_EQ(causeText(cause, {}), "write buffer to DRAM");
  EXPECT_EQ(remedyText(cause), "more DRAM bandwidth, smaller last tiles");
}

TEST(ProfileTest, PlannedStartsAreComparedInTheOrderOfExecution) {
  Profile profile;
  profile.report.sim.emplace();
  stats::SimResult &sim = *profile.report.sim;
  for (unsigned engine : {stats::kFirstStore, stats::kTensor, stats::kPreload, stats::kFirstLoad}) {
    sim.engines.emplace_back();
    sim.engines.back().engine = engine;
  }
  auto execute = [&](unsigned engine, uint32_t layer, uint64_t start) {
    stats::InstructionRecord record;
    record.engine = engine;
    record.layer = layer;
    record.start = start;
    sim.instructions.push_back(record);
  };
  execute(stats::kTensor, 0, 10);
  execute(stats::kPreload, 0, 1);
  execute(stats::kFirstLoad, 1, 2);
  execute(stats::kFirstStore, 0, 60);
  execute(stats::kTensor, 1, 35);
  execute(stats::kTensor, 1, 95);
  compareWithPlan(profile, {{50}, {12, 30, 100}, {}, {0}});

  ASSERT_EQ(profile.enginePlans.size(), 3u) << "nothing is said of an engine without a plan";
  const EnginePlan &tensor = profile.enginePlans[1];
  EXPECT_EQ(tensor.engine, stats::kTensor);
  EXPECT_EQ(tensor.instructions, 3u);
  EXPECT_EQ(tensor.median, 5u);
  EXPECT_EQ(tensor.largest, 5u);
  EXPECT_EQ(tensor.drift, -5);
  EXPECT_EQ(profile.enginePlans[0].drift, 10);
  ASSERT_EQ(profile.layerPlans.size(), 2u);
  // Layer 1's load runs ahead of it.
  EXPECT_EQ(profile.layerPlans[0].planned, 38u);
  EXPECT_EQ(profile.layerPlans[0].simulated, 50u);
  EXPECT_EQ(profile.layerPlans[1].planned, 70u);
  EXPECT_EQ(profile.layerPlans[1].simulated, 60u);
}

TEST(ProfileTest, ChangesOfADeviceKeepItsClock) {
  timing::MachineParams machine;
  machine.dram.kind = timing::DramKind::Ddr4;
  const std::vector<TimingChange> changes = timingChanges(machine);
  EXPECT_EQ(changes[0].machine.dram.channels, 2 * machine.dram.channels);
  EXPECT_EQ(changes[1].machine.dram.nCL, machine.dram.nCL / 2);
  EXPECT_EQ(changes[1].settings, "dram.cl_ticks=8 dram.rcd_read_ticks=8 dram.rp_ticks=8");
  for (const TimingChange &change : changes)
    EXPECT_EQ(change.machine.dram.clockMhz, machine.dram.clockMhz);
}
