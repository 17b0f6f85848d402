//===- DramControllerTest.cpp - Both controllers, all devices ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/dramcheck/DramChecker.h"
#include "isa/timing/Dram.h"
#include "isa/timing/DramInOrder.h"
#include "isa/timing/DramWindowed.h"
#include "tests/timing/dram/RandomRequests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace tw::timing;
using tw::dramcheck::checkDramLog;
using namespace tw::test;
using Kind = tw::timing::DramCommandKind;

namespace {

bool same(const DramCompletion &a, const DramCompletion &b) {
  return a.id == b.id && a.completionCycle == b.completionCycle && a.busStartCycle == b.busStartCycle &&
         a.busEndCycle == b.busEndCycle && a.channel == b.channel;
}

class ControllerTest : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(ControllerTest, AMillionRandomCommandsBreakNoConstraint) {
  MachineParams machine = machineOf(GetParam().machine, GetParam().overrides);
  std::unique_ptr<DramTiming> dram = makeDram(machine);
  DramCommandLog log;
  dram->setCommandLog(&log);
  std::vector<DramRequest> requests = randomRequests(machine.dram, 600000, 2024);
  std::vector<DramCompletion> completions = drive(*dram, requests);
  sortCommands(log);
  EXPECT_GE(log.size(), 1000000u);
  EXPECT_TRUE(std::any_of(log.begin(), log.end(), [](const DramCommand &c) { return c.kind == Kind::Precharge; }));
  EXPECT_TRUE(std::any_of(log.begin(), log.end(),
                          [](const DramCommand &c) { return c.kind == Kind::Refresh || c.kind == Kind::RefreshBank; }));
  for (const std::string &violation : checkDramLog(machine.dram, log))
    ADD_FAILURE() << violation;

  // Every request is done once, by a column command at its place, with data when it says.
  ASSERT_EQ(completions.size(), requests.size());
  DramAddressMap map(machine.dram);
  size_t columnCount = 0;
  for (const DramCommand &command : log)
    columnCount += command.kind == Kind::Read || command.kind == Kind::Write;
  EXPECT_EQ(columnCount, requests.size());
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, bool>, int64_t> balance;
  for (const DramCommand &c : log)
    if (c.kind == Kind::Read || c.kind == Kind::Write)
      ++balance[{c.channel, c.rank, c.bankGroup, c.bank, c.row, c.column, c.kind == Kind::Write}];
  for (size_t i = 0; i < requests.size(); ++i) {
    DramLocation at = map.locate(requests[i].address);
    --balance[{at.channel, at.rank, at.bankGroup, at.bank, at.row, at.column, requests[i].write}];
    ASSERT_EQ(completions[i].id, i);
    EXPECT_EQ(completions[i].channel, at.channel);
    EXPECT_GT(completions[i].busStartCycle, requests[i].arrivalCycle);
    EXPECT_GE(completions[i].completionCycle, completions[i].busEndCycle);
  }
  for (const auto &[place, count] : balance)
    ASSERT_EQ(count, 0);
}

TEST_P(ControllerTest, TheLogChangesNothingAndResetForgets) {
  MachineParams machine = machineOf(GetParam().machine, GetParam().overrides);
  std::unique_ptr<DramTiming> dram = makeDram(machine);
  std::vector<DramRequest> requests = randomRequests(machine.dram, 20000, 5);
  DramCommandLog log;
  dram->setCommandLog(&log);
  std::vector<DramCompletion> logged = drive(*dram, requests);
  dram->setCommandLog(nullptr);
  dram->reset();
  std::vector<DramCompletion> plain = drive(*dram, requests);
  ASSERT_EQ(logged.size(), plain.size());
  for (size_t i = 0; i < logged.size(); ++i)
    ASSERT_TRUE(same(logged[i], plain[i])) << i;
}

TEST_P(ControllerTest, ABusyBusIsWhatTheCompletionsSay) {
  MachineParams machine = machineOf(GetParam().machine, GetParam().overrides);
  std::unique_ptr<DramTiming> dram = makeDram(machine);
  std::vector<DramRequest> requests = randomRequests(machine.dram, 2000, 9);
  std::vector<DramCompletion> completions = drive(*dram, requests);
  Cycle end = 0;
  for (const DramCompletion &completion : completions)
    end = std::max(end, completion.busEndCycle);
  ASSERT_LT(end, BusHistory::kReach);
  std::vector<std::vector<bool>> busy(dram->channels(), std::vector<bool>(end + 1));
  for (const DramCompletion &completion : completions)
    for (Cycle cycle = completion.busStartCycle; cycle < completion.busEndCycle; ++cycle)
      busy[completion.channel][cycle] = true;
  for (uint32_t channel = 0; channel < dram->channels(); ++channel)
    for (Cycle from = 0; from < end; from += 97) {
      Cycle to = std::min<Cycle>(from + 97, end);
      EXPECT_EQ(dram->busBusyCycles(channel, from, to),
                uint64_t(std::count(busy[channel].begin() + ptrdiff_t(from), busy[channel].begin() + ptrdiff_t(to), true)));
    }
}

TEST_P(ControllerTest, StreamingReadsReachMostOfWhatRefreshLeaves) {
  MachineParams machine = machineOf(GetParam().machine, GetParam().overrides);
  machine.clockMhz = machine.dram.clockMhz; // cycles are ticks
  std::unique_ptr<DramTiming> dram = makeDram(machine);
  const DramParams &p = machine.dram;
  uint64_t count = 100000ull * p.channels;
  std::vector<DramCompletion> completions;
  for (uint64_t i = 0; i < count; ++i)
    if (auto completion = dram->submit({i, i * p.burstBytes, false, 0}))
      completions.push_back(*completion);
  dram->advance(1ull << 30, completions);
  ASSERT_EQ(completions.size(), count);
  Cycle end = 0;
  for (const DramCompletion &completion : completions)
    end = std::max(end, completion.completionCycle);
  double busTicks = double(count) / p.channels * p.nBurst;
  double refreshLeaves = 1 - dramRefreshShare(p);
  // The stream waits for the bank that is refreshed once its window lies there.
  const bool waits = p.refresh == DramRefresh::PerBank;
  EXPECT_GT(busTicks / double(end), (waits ? 0.6 : 0.85) * refreshLeaves);
  EXPECT_LT(busTicks / double(end), refreshLeaves);
}

INSTANTIATE_TEST_SUITE_P(Devices, ControllerTest, testing::ValuesIn(cases()), nameOf);

//===----------------------------------------------------------------------===//
// In-order: hand-derived accesses
//===----------------------------------------------------------------------===//

TEST(InOrderDramTest, HandDerivedReads) {
  // DDR4-2400 with cycles that are ticks; bursts 0 to 3 are in bank groups 0 to 3.
  MachineParams machine = machineOf("gemmini_16x16_int8", {"clock_mhz=1200"});
  InOrderDram dram(machine.dram, machine.clockMhz);
  // ACT 100, RD 116, data 132 to 136.
  auto first = dram.submit({0, 0, false, 100});
  EXPECT_EQ(first->busStartCycle, 132u);
  EXPECT_EQ(first->busEndCycle, 136u);
  EXPECT_EQ(first->completionCycle, 136u);
  // Another bank group: ACT 104 (tRRD_S), RD 120, data 136.
  EXPECT_EQ(dram.submit({1, 64, false, 100})->completionCycle, 140u);
  // A hit in bank group 0: tCCD_S after the last, data bus next free at 140.
  EXPECT_EQ(dram.submit({2, 256, false, 100})->completionCycle, 144u);
  // The same again, later: RD 126 + 4 = 130 would do, arrival decides: RD 200.
  EXPECT_EQ(dram.submit({3, 512, false, 200})->completionCycle, 220u);
  // A row conflict in bank 0 at 300: PRE 300 (tRAS, tRTP long past), ACT 316, RD 332, data 348.
  EXPECT_EQ(dram.submit({4, 1 << 17, false, 300})->completionCycle, 352u);
  // A write hit at 400: WR 400, data 412.
  auto write = dram.submit({5, 1 << 17, true, 400});
  EXPECT_EQ(write->busStartCycle, 412u);
  EXPECT_EQ(write->completionCycle, 416u);
  // A read of the same bank group: 400 + 12 + 4 + 9 = 425, data 441.
  EXPECT_EQ(dram.submit({6, 1 << 17, false, 401})->completionCycle, 445u);
}

TEST(InOrderDramTest, RefreshDelaysWhatArrivesInIt) {
  MachineParams machine = machineOf("gemmini_16x16_int8", {"clock_mhz=1200"});
  InOrderDram dram(machine.dram, machine.clockMhz);
  // Due at 9360 with no bank open: REF 9360, ACT 9780, RD 9796, data 9812 to 9816.
  EXPECT_EQ(dram.submit({0, 0, false, 9400})->completionCycle, 9816u);
  // The next is due at 18720; the open bank is precharged: PREA 18720, REF 18736, ACT 19156, RD 19172, data 19188.
  EXPECT_EQ(dram.submit({1, 0, false, 18720})->completionCycle, 19192u);
  // A read whose column would fall on the due tick waits too: due 28080, RD at 28080 blocked.
  InOrderDram other(machine.dram, machine.clockMhz);
  EXPECT_EQ(other.submit({0, 0, false, 9360 - 17})->completionCycle,
            9360u - 17 + 36); // RD 9359
  InOrderDram late(machine.dram, machine.clockMhz);
  EXPECT_EQ(late.submit({0, 0, false, 9360 - 16})->completionCycle,
            9816u); // RD would be 9360
}

TEST(InOrderDramTest, ClocksAndPathLatency) {
  // 200 MHz against 1200: a cycle is 6 ticks. Arrival 10 is tick 60: ACT 60, RD 76, data 92 to 96 = cycle 16 exactly.
  MachineParams machine = machineOf("gemmini_16x16_int8", {"clock_mhz=200", "dram.path_latency_cycles=7"});
  InOrderDram dram(machine.dram, machine.clockMhz);
  auto completion = dram.submit({0, 0, false, 10});
  EXPECT_EQ(completion->busStartCycle, 15u); // tick 92 lies in cycle 15
  EXPECT_EQ(completion->busEndCycle, 16u);
  EXPECT_EQ(completion->completionCycle, 23u);
}

//===----------------------------------------------------------------------===//
// Windowed
//===----------------------------------------------------------------------===//

TEST(WindowedDramTest, HitsPassConflicts) {
  MachineParams machine = machineOf("gemmini_16x16_int8", {"clock_mhz=1200", "dram.controller=windowed"});
  WindowedDram dram(machine.dram, machine.clockMhz);
  // Row 0 of bank 0 is opened; then come a conflict (row 1) and a hit (row 0), which goes first.
  std::vector<DramCompletion> completions = drive(dram, {{0, 0, false, 100}, {1, 1 << 17, false, 101}, {2, 256, false, 102}});
  EXPECT_EQ(completions[0].completionCycle, 136u); // ACT 100, RD 116
  EXPECT_EQ(completions[2].completionCycle, 142u); // RD 122 (tCCD_L)
  // PRE at 139 (tRAS; tRTP gives 131), ACT 155, RD 171, data 187 to 191.
  EXPECT_EQ(completions[1].completionCycle, 191u);
}

TEST(WindowedDramTest, AnOldRequestGoesFirst) {
  // A conflict (row 1) of cycle 10 behind hits of row 0, each of which keeps tRTP (9) from closing the row. The age cap ends that at
  // 210.
  MachineParams machine =
      machineOf("gemmini_16x16_int8", {"clock_mhz=1200", "dram.controller=windowed", "dram.age_cap_ticks=200"});
  WindowedDram dram(machine.dram, machine.clockMhz);
  std::vector<DramRequest> requests{{0, 0, false, 0}, {1, 1 << 17, false, 10}};
  // ACT 0, RD 16, then hits that are read as they arrive, the last of them at 206.
  for (uint64_t cycle = 26; cycle <= 400; cycle += 6)
    requests.push_back({requests.size(), 256, false, cycle});
  std::vector<DramCompletion> completions = drive(dram, requests);
  // PRE 215, ACT 231, RD 247, data 263 to 267.
  EXPECT_EQ(completions[1].completionCycle, 267u);
  EXPECT_EQ(completions[2 + (206 - 26) / 6].completionCycle, 226u);
  // The hit of 212 finds the row closed: PRE 270 (tRAS), ACT 286, RD 302, data 318 to 322.
  EXPECT_EQ(completions[2 + (212 - 26) / 6].completionCycle, 322u);
}

namespace {

struct TimesAndDevice {
  std::string clock, device, refresh;
};
std::vector<TimesAndDevice> timesAndDevices() {
  std::vector<TimesAndDevice> all;
  for (const char *clock : {"clock_mhz=50", "clock_mhz=1000", "clock_mhz=3000"}) {
    all.push_back({clock, "dram.device=ddr4_2400", "dram.refresh=all_bank"});
    all.push_back({clock, "dram.device=hbm2", "dram.refresh=all_bank"});
    all.push_back({clock, "dram.device=lpddr5_6400", "dram.refresh=per_bank"});
  }
  return all;
}

} // namespace

TEST(WindowedDramTest, DecisionsDoNotDependOnWhenTheyAreAskedFor) {
  for (const auto &[clock, device, refresh] : timesAndDevices()) {
    MachineParams machine = machineOf("gemmini_16x16_int8", {clock, device, refresh, "dram.controller=windowed"});
    std::vector<DramRequest> requests = randomRequests(machine.dram, 20000, 77);
    std::unique_ptr<DramTiming> lazy = makeDram(machine), eager = makeDram(machine);
    std::vector<DramCompletion> late = drive(*lazy, requests), early;
    Cycle cycle = 0;
    for (const DramRequest &request : requests) {
      // Every cycle, but for long pauses.
      for (; cycle < request.arrivalCycle && eager->nextDecisionCycle() != kNever; ++cycle) {
        size_t before = early.size();
        Cycle due = eager->nextDecisionCycle();
        eager->advance(cycle, early);
        for (size_t i = before; i < early.size(); ++i) {
          EXPECT_GT(early[i].completionCycle, cycle);
          // What advance(due) decides at last cannot have been missed.
          EXPECT_GE(early[i].completionCycle, std::min(due, cycle) + 1);
        }
      }
      cycle = std::max(cycle, request.arrivalCycle);
      eager->submit(request);
    }
    eager->advance(1ull << 30, early);
    std::sort(early.begin(), early.end(), [](const DramCompletion &a, const DramCompletion &b) { return a.id < b.id; });
    ASSERT_EQ(early.size(), late.size());
    for (size_t i = 0; i < late.size(); ++i)
      ASSERT_TRUE(same(late[i], early[i])) << clock << ", " << device << ", request " << i;
  }
}

TEST(WindowedDramTest, NoCompletionIsFoundLate) {
  for (const auto &[clock, device, refresh] : timesAndDevices()) {
    MachineParams machine = machineOf("gemmini_16x16_int8", {clock, device, refresh, "dram.controller=windowed"});
    std::vector<DramRequest> requests = randomRequests(machine.dram, 20000, 78);
    std::unique_ptr<DramTiming> dram = makeDram(machine);
    size_t next = 0, decisions = 0;
    std::vector<DramCompletion> completions;
    for (;;) {
      Cycle due = dram->nextDecisionCycle();
      if (next < requests.size() && requests[next].arrivalCycle <= due) {
        dram->submit(requests[next++]);
        continue;
      }
      if (due == kNever)
        break;
      size_t before = completions.size();
      dram->advance(due, completions);
      ++decisions;
      for (size_t i = before; i < completions.size(); ++i) {
        // The simulator is at cycle `due`: a completion may not lie in its past or present.
        ASSERT_GT(completions[i].completionCycle, due);
        if (clock != "clock_mhz=50") {
          // CL and CWL last longer than a cycle, so that the data have not even begun to move.
          ASSERT_GT(completions[i].busStartCycle, due);
        }
      }
    }
    EXPECT_EQ(completions.size(), requests.size());
    EXPECT_LT(decisions, 3 * requests.size());
  }
}

//===----------------------------------------------------------------------===//
// Against Ramulator 2.1 (DDR4-2400 8 Gb x8, RoBaRaCoCh, FR-FCFS of 32, read-only, saturating): totals within 1 %
//===----------------------------------------------------------------------===//

namespace {

Cycle saturatedTotal(const std::vector<uint64_t> &addresses) {
  MachineParams machine = machineOf("gemmini_16x16_int8", {"clock_mhz=1200", "dram.controller=windowed",
                                                           "dram.window_requests=32", "dram.interleave_bank_groups=false"});
  WindowedDram dram(machine.dram, machine.clockMhz);
  for (size_t i = 0; i < addresses.size(); ++i)
    dram.submit({i, addresses[i], false, 0});
  std::vector<DramCompletion> completions;
  dram.advance(1ull << 30, completions);
  EXPECT_EQ(completions.size(), addresses.size());
  Cycle end = 0;
  for (const DramCompletion &completion : completions)
    end = std::max(end, completion.completionCycle);
  return end;
}

} // namespace

TEST(RamulatorTest, StreamOfHalfAMillionReads) {
  std::vector<uint64_t> addresses;
  for (uint64_t i = 0; i < 500000; ++i)
    addresses.push_back(i * 64);
  EXPECT_NEAR(double(saturatedTotal(addresses)), 2676644.0, 26766.0);
}

TEST(RamulatorTest, ThreeHundredThousandRandomReads) {
  // Any uniform sequence will do: the total is bound by tFAW and refresh. This one is std::mt19937_64, seed 1.
  std::mt19937_64 random(1);
  std::vector<uint64_t> addresses;
  for (int i = 0; i < 300000; ++i)
    addresses.push_back(random() % (1ull << 33) / 64 * 64);
  EXPECT_NEAR(double(saturatedTotal(addresses)), 2054090.0, 20540.0);
}
