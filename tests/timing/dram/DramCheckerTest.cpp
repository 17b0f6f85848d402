//===- DramCheckerTest.cpp - The checker can fail ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For each constraint a hand-made pair of commands: one tick too early is a
// violation, the exact tick is none. Numbers are those of DDR4-2400, 8 Gb x8.
//===----------------------------------------------------------------------===//
#include "isa/dramcheck/DramChecker.h"

#include <gtest/gtest.h>

using namespace tw::timing;
using tw::dramcheck::checkDramLog;
using Kind = tw::timing::DramCommandKind;

namespace {

DramParams ddr4() {
  DramParams p;
  p.kind = DramKind::Ddr4;
  p.capacityBytes = 1ull << 33;
  p.ranks = 2;
  return p; // the defaults are DDR4-2400's
}

DramCommand at(uint64_t tick, Kind kind, uint32_t group = 0, uint32_t bank = 0, uint32_t rank = 0, uint32_t row = 7) {
  return {tick, kind, 0, rank, group, bank, row, 0};
}

/// With numbers of its own where DDR4 has none, or two that are equal.
DramParams other() {
  DramParams p = ddr4();
  p.nRCDRD = 17;
  p.nRCDWR = 12;
  p.nCCDLWR = 9;
  p.refresh = DramRefresh::PerBank;
  p.nREFIPB = 585;
  p.nRFCPB = 192;
  p.nRREFD = 10;
  return p;
}

/// `log` up to its last command, which becomes legal in tick `legal` and not before.
void expectLegalFrom(uint64_t legal, DramCommandLog log, const DramParams &params = ddr4()) {
  log.back().tick = legal;
  auto violations = checkDramLog(params, log);
  EXPECT_TRUE(violations.empty()) << violations.front();
  log.back().tick = legal - 1;
  EXPECT_FALSE(checkDramLog(params, log).empty()) << "tick " << legal - 1 << " must be too early";
}

} // namespace

TEST(DramCheckerTest, EachDistanceIsExact) {
  auto act = at(100, Kind::Activate);
  // tRCD 16, tRAS 39, tRC 39 + 16.
  expectLegalFrom(116, {act, at(0, Kind::Read)});
  expectLegalFrom(116, {act, at(0, Kind::Write)});
  expectLegalFrom(139, {act, at(0, Kind::Precharge)});
  expectLegalFrom(139, {act, at(0, Kind::PrechargeAll)});
  expectLegalFrom(155, {act, at(139, Kind::Precharge), at(0, Kind::Activate)});
  // tRRD_S 4, tRRD_L 6, another rank only the command bus.
  expectLegalFrom(104, {act, at(0, Kind::Activate, 1)});
  expectLegalFrom(106, {act, at(0, Kind::Activate, 0, 1)});
  expectLegalFrom(101, {act, at(0, Kind::Activate, 0, 0, 1)});
  // tFAW 26: groups 0 to 3 at 4 ticks, then a bank of group 0.
  expectLegalFrom(126, {act, at(104, Kind::Activate, 1), at(108, Kind::Activate, 2), at(112, Kind::Activate, 3),
                        at(0, Kind::Activate, 0, 1)});
  // tRP 16 after a late precharge.
  expectLegalFrom(216, {act, at(200, Kind::Precharge), at(0, Kind::Activate)});
  expectLegalFrom(216, {act, at(200, Kind::Precharge), at(0, Kind::Refresh)});
  expectLegalFrom(216, {act, at(200, Kind::PrechargeAll), at(0, Kind::Refresh)});
  // tRFC 420.
  expectLegalFrom(520, {at(100, Kind::Refresh), at(0, Kind::Activate)});
  expectLegalFrom(520, {at(100, Kind::Refresh), at(0, Kind::Refresh)});
}

TEST(DramCheckerTest, ColumnDistancesAreExact) {
  DramCommandLog open{at(100, Kind::Activate), at(104, Kind::Activate, 1), at(106, Kind::Activate, 0, 0, 1)};
  auto after = [&](DramCommand first, DramCommand second) {
    DramCommandLog log = open;
    log.push_back(first);
    log.push_back(second);
    return log;
  };
  auto read = at(200, Kind::Read), write = at(200, Kind::Write);
  // tCCD_S 4, tCCD_L 6.
  expectLegalFrom(204, after(read, at(0, Kind::Read, 1)));
  expectLegalFrom(206, after(read, at(0, Kind::Read, 0)));
  expectLegalFrom(204, after(write, at(0, Kind::Write, 1)));
  expectLegalFrom(206, after(write, at(0, Kind::Write, 0)));
  // Read to write 16 + 4 + 2 - 12 = 10.
  expectLegalFrom(210, after(read, at(0, Kind::Write, 0)));
  expectLegalFrom(210, after(read, at(0, Kind::Write, 1)));
  // Write data end at 12 + 4; tWTR_S 3, tWTR_L 9.
  expectLegalFrom(219, after(write, at(0, Kind::Read, 1)));
  expectLegalFrom(225, after(write, at(0, Kind::Read, 0)));
  // tRTP 9; write data end, then tWR 18.
  expectLegalFrom(209, after(read, at(0, Kind::Precharge)));
  expectLegalFrom(234, after(write, at(0, Kind::Precharge)));
  expectLegalFrom(234, after(write, at(0, Kind::PrechargeAll)));
  // Another rank's data follow the first's end by 2: read to read 4 + 2, read to write 16 + 6 - 12, write to read
  // 12 + 6 - 16.
  expectLegalFrom(206, after(read, at(0, Kind::Read, 0, 0, 1)));
  expectLegalFrom(210, after(read, at(0, Kind::Write, 0, 0, 1)));
  expectLegalFrom(202, after(write, at(0, Kind::Read, 0, 0, 1)));
}

TEST(DramCheckerTest, WrongStatesAreViolations) {
  auto act = at(100, Kind::Activate);
  EXPECT_FALSE(checkDramLog(ddr4(), {at(100, Kind::Read)}).empty());
  EXPECT_FALSE(checkDramLog(ddr4(), {at(100, Kind::Precharge)}).empty());
  EXPECT_FALSE(checkDramLog(ddr4(), {act, at(200, Kind::Activate)}).empty());
  EXPECT_FALSE(checkDramLog(ddr4(), {act, at(200, Kind::Read, 0, 0, 0, 8)}).empty());
  EXPECT_FALSE(checkDramLog(ddr4(), {act, at(200, Kind::Refresh)}).empty());
  EXPECT_FALSE(checkDramLog(ddr4(), {act, at(100, Kind::Activate, 1, 0, 1)}).empty()) << "two commands in a tick";
  EXPECT_FALSE(checkDramLog(ddr4(), {at(100, Kind::Activate, 4)}).empty()) << "no such bank group";
  EXPECT_FALSE(checkDramLog(ddr4(), {at(200, Kind::Activate), at(100, Kind::Activate, 1)}).empty()) << "not sorted";
}

TEST(DramCheckerTest, MissingRefreshesAreViolations) {
  // The first refresh is due at 9360; a command at 18720 without one is too late.
  EXPECT_TRUE(checkDramLog(ddr4(), {at(18719, Kind::Activate)}).empty());
  EXPECT_FALSE(checkDramLog(ddr4(), {at(18720, Kind::Activate)}).empty());
}

TEST(DramCheckerTest, DistancesThatDdr4HasNotAreExact) {
  auto act = at(100, Kind::Activate);
  expectLegalFrom(117, {act, at(0, Kind::Read)}, other());
  expectLegalFrom(112, {act, at(0, Kind::Write)}, other());
  expectLegalFrom(209, {act, at(200, Kind::Write), at(0, Kind::Write)}, other());
  // Refresh of a bank: tRRD_S after an activate, tRC in its bank, tRFCpb and tRREFD after it.
  expectLegalFrom(104, {act, at(0, Kind::RefreshBank, 1)}, other());
  expectLegalFrom(155, {act, at(139, Kind::Precharge), at(0, Kind::RefreshBank)}, other());
  expectLegalFrom(216, {act, at(200, Kind::Precharge), at(0, Kind::RefreshBank)}, other());
  expectLegalFrom(292, {at(100, Kind::RefreshBank), at(0, Kind::Activate)}, other());
  expectLegalFrom(110, {at(100, Kind::RefreshBank), at(0, Kind::Activate, 0, 1)}, other());
  expectLegalFrom(292, {at(100, Kind::RefreshBank), at(0, Kind::RefreshBank, 1)}, other());
}

TEST(DramCheckerTest, BanksTakeTurnsAtBeingRefreshed) {
  DramCommandLog twice{at(100, Kind::RefreshBank), at(700, Kind::RefreshBank, 1), at(1300, Kind::RefreshBank)};
  EXPECT_FALSE(checkDramLog(other(), twice).empty());
  twice.pop_back();
  EXPECT_TRUE(checkDramLog(other(), twice).empty());
  EXPECT_FALSE(checkDramLog(other(), {at(100, Kind::Refresh)}).empty());
  EXPECT_FALSE(checkDramLog(ddr4(), {at(100, Kind::RefreshBank)}).empty());
  EXPECT_FALSE(checkDramLog(other(), {at(100, Kind::Activate), at(200, Kind::RefreshBank)}).empty()) << "an open bank";
  // The second refresh of the rank is due at 1170.
  DramParams oneRank = other();
  oneRank.ranks = 1;
  EXPECT_TRUE(checkDramLog(oneRank, {at(585, Kind::RefreshBank), at(1754, Kind::Activate)}).empty());
  EXPECT_FALSE(checkDramLog(oneRank, {at(585, Kind::RefreshBank), at(1755, Kind::Activate)}).empty());
}

TEST(DramCheckerTest, TwoChannelsShareRowAndColumnBuses) {
  DramParams shared = ddr4();
  shared.channels = 4;
  shared.capacityBytes *= 4;
  shared.rowColumnBuses = true;
  auto on = [](uint32_t channel, DramCommand command) {
    command.channel = channel;
    return command;
  };
  const DramCommand open0 = at(100, Kind::Activate), open1 = on(1, at(101, Kind::Activate));
  auto legal = [&](std::vector<DramCommand> more) {
    DramCommandLog log{open0, open1};
    log.insert(log.end(), more.begin(), more.end());
    return checkDramLog(shared, log).empty();
  };
  EXPECT_TRUE(legal({at(200, Kind::Activate, 1), at(200, Kind::Read)})) << "a row and a column command";
  EXPECT_TRUE(legal({at(200, Kind::Activate, 1), on(1, at(200, Kind::Read))}));
  EXPECT_FALSE(legal({at(200, Kind::Read), on(1, at(200, Kind::Read))})) << "two column commands";
  EXPECT_TRUE(legal({at(200, Kind::Read), on(1, at(201, Kind::Read))}));
  EXPECT_FALSE(legal({at(200, Kind::Activate, 1), on(1, at(200, Kind::Precharge))})) << "two row commands";
  EXPECT_TRUE(legal({at(200, Kind::Activate, 1), on(2, at(200, Kind::Activate))})) << "other channels have other buses";
}
