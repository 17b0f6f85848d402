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

TEST(ProfileTest, ChangesOfADeviceKeepItsClock) {
  timing::MachineParams machine;
  machine.dram.kind = timing::DramKind::Ddr4;
  const std::vector<TimingChange> changes = timingChanges(machine);
  EXPECT_EQ(changes[0].machine.dram.channels, 2 * machine.dram.channels);
  EXPECT_EQ(changes[1].machine.dram.nCL, machine.dram.nCL / 2);
  EXPECT_EQ(changes[1].settings, "dram.cl_ticks=8 dram.rcd_ticks=8 dram.rp_ticks=8");
  for (const TimingChange &change : changes)
    EXPECT_EQ(change.machine.dram.clockMhz, machine.dram.clockMhz);
}
