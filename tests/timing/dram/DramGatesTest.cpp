//===- DramGatesTest.cpp - Gates open in the exact tick ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocked at n - 1 and ready at n for each constraint: the gate's tick is n.
// The numbers are written out from DDR4-2400, 8 Gb x8, not read from parameters.
//===----------------------------------------------------------------------===//
#include "isa/timing/DramGates.h"

#include <gtest/gtest.h>

using namespace tw::timing;

namespace {

struct GatesTest : testing::Test {
  static DramParams ddr4() {
    DramParams p;
    p.kind = DramKind::Ddr4;
    p.capacityBytes = 1ull << 33;
    p.ranks = 2;
    return p;
  }
  static DramLocation bank(uint32_t group, uint32_t index, uint32_t rank = 0, uint32_t row = 7) {
    DramLocation at;
    at.rank = rank;
    at.bankGroup = group;
    at.bank = index;
    at.flatBank = rank * 16 + group * 4 + index;
    at.row = row;
    return at;
  }
  /// With numbers of its own where DDR4 has none, or two that are equal.
  static DramParams other() {
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
  DramGates gates{ddr4()};
  DramGates others{other()};
  const bool read = false, write = true;
};

} // namespace

TEST_F(GatesTest, ActivateOpensTheRow) {
  EXPECT_FALSE(gates.isOpen(bank(0, 0)));
  gates.issueActivate(bank(0, 0), 100);
  EXPECT_TRUE(gates.isHit(bank(0, 0)));
  EXPECT_FALSE(gates.isHit(bank(0, 0, 0, 8)));
  EXPECT_TRUE(gates.isOpen(bank(0, 0, 0, 8)));
  EXPECT_FALSE(gates.isOpen(bank(0, 1)));
}

TEST_F(GatesTest, AfterActivate) {
  gates.issueActivate(bank(0, 0), 100);
  EXPECT_EQ(gates.columnReady(bank(0, 0), read), 116u);  // tRCD
  EXPECT_EQ(gates.columnReady(bank(0, 0), write), 116u); // tRCD
  EXPECT_EQ(gates.prechargeReady(bank(0, 0)), 139u);     // tRAS
  EXPECT_EQ(gates.prechargeAllReady(0), 139u);
  EXPECT_EQ(gates.activateReady(bank(1, 0)), 104u);  // tRRD_S
  EXPECT_EQ(gates.activateReady(bank(0, 1)), 106u);  // tRRD_L
  EXPECT_EQ(gates.activateReady(bank(0, 0, 1)), 0u); // another rank
  gates.issuePrecharge(bank(0, 0), 139);
  EXPECT_EQ(gates.activateReady(bank(0, 0)), 155u); // tRC = tRAS + tRP
}

TEST_F(GatesTest, TheFifthActivateWaitsForTheWindow) {
  gates.issueActivate(bank(0, 0), 100);
  gates.issueActivate(bank(1, 0), 104);
  gates.issueActivate(bank(2, 0), 108);
  EXPECT_EQ(gates.activateReady(bank(3, 0)), 112u);
  gates.issueActivate(bank(3, 0), 112);
  EXPECT_EQ(gates.activateReady(bank(0, 1)), 126u); // tFAW
  gates.issueActivate(bank(0, 1), 126);
  EXPECT_EQ(gates.activateReady(bank(1, 1)),
            130u); // the window now begins at 104
}

TEST_F(GatesTest, AfterRead) {
  gates.issueActivate(bank(0, 0), 100);
  gates.issueActivate(bank(1, 0), 104);
  gates.issueActivate(bank(0, 0, 1), 105);
  EXPECT_EQ(gates.issueColumn(bank(0, 0), read, 200), 216u); // CL
  EXPECT_EQ(gates.columnReady(bank(1, 0), read), 204u);      // tCCD_S
  EXPECT_EQ(gates.columnReady(bank(0, 0), read), 206u);      // tCCD_L
  EXPECT_EQ(gates.columnReady(bank(0, 0), write), 210u);     // read to write
  EXPECT_EQ(gates.columnReady(bank(1, 0), write), 210u);
  EXPECT_EQ(gates.prechargeReady(bank(0, 0)), 209u); // tRTP
  EXPECT_EQ(gates.columnReady(bank(0, 0, 1), read),
            206u);                                          // data bus and rank switch: 216 + 4 + 2 - 16
  EXPECT_EQ(gates.columnReady(bank(0, 0, 1), write), 210u); // 216 + 4 + 2 - 12
}

TEST_F(GatesTest, AfterWrite) {
  gates.issueActivate(bank(0, 0), 100);
  gates.issueActivate(bank(1, 0), 104);
  gates.issueActivate(bank(0, 0, 1), 105);
  EXPECT_EQ(gates.issueColumn(bank(0, 0), write, 200), 212u); // CWL
  EXPECT_EQ(gates.columnReady(bank(1, 0), write), 204u);      // tCCD_S
  EXPECT_EQ(gates.columnReady(bank(0, 0), write), 206u);      // tCCD_L
  EXPECT_EQ(gates.columnReady(bank(1, 0), read), 219u);       // 200 + 12 + 4 + tWTR_S
  EXPECT_EQ(gates.columnReady(bank(0, 0), read), 225u);       // 200 + 12 + 4 + tWTR_L
  EXPECT_EQ(gates.prechargeReady(bank(0, 0)), 234u);          // 200 + 12 + 4 + tWR
  EXPECT_EQ(gates.columnReady(bank(0, 0, 1), read), 202u);    // 212 + 4 + 2 - 16
}

TEST_F(GatesTest, DataBusHoldsBackShortColumnDistances) {
  DramParams p = ddr4();
  p.nCCDS = p.nCCDL = 1;
  DramGates shortGates(p);
  shortGates.issueActivate(bank(0, 0), 100);
  shortGates.issueColumn(bank(0, 0), read, 200);
  EXPECT_EQ(shortGates.columnReady(bank(0, 0), read), 204u);
}

TEST_F(GatesTest, RefreshWaitsForPrechargesAndHoldsBackActivates) {
  gates.issueActivate(bank(0, 0), 100);
  gates.issueActivate(bank(1, 0), 104);
  gates.issuePrecharge(bank(0, 0), 200);
  EXPECT_EQ(gates.refreshReady(0), 216u); // tRP
  EXPECT_TRUE(gates.anyOpen(0));
  gates.issuePrechargeAll(0, 210);
  EXPECT_FALSE(gates.anyOpen(0));
  EXPECT_EQ(gates.refreshReady(0), 226u); // tRPab
  gates.issueRefresh(0, 226);
  EXPECT_EQ(gates.activateReady(bank(3, 3)), 646u); // tRFC
  EXPECT_EQ(gates.refreshReady(0), 646u);
  EXPECT_EQ(gates.activateReady(bank(3, 3, 1)), 0u); // another rank
}

TEST_F(GatesTest, AnActivateOpensTheRowForReadsAndWritesApart) {
  others.issueActivate(bank(0, 0), 100);
  EXPECT_EQ(others.columnReady(bank(0, 0), read), 117u);  // tRCDRD
  EXPECT_EQ(others.columnReady(bank(0, 0), write), 112u); // tRCDWR
}

TEST_F(GatesTest, WritesOfOneGroupKeepADistanceOfTheirOwn) {
  others.issueActivate(bank(0, 0), 100);
  others.issueColumn(bank(0, 0), write, 200);
  EXPECT_EQ(others.columnReady(bank(0, 0), write), 209u); // tCCD_L_WR
  EXPECT_EQ(others.columnReady(bank(1, 0), write), 204u); // tCCD_S
  others.issueColumn(bank(0, 0), read, 300);
  EXPECT_EQ(others.columnReady(bank(0, 0), read), 306u); // tCCD_L
}

TEST_F(GatesTest, RefreshOfOneBankHoldsBackThatBankAndTheRank) {
  others.issueActivate(bank(0, 0), 100);
  EXPECT_EQ(others.bankRefreshReady(bank(1, 0)), 104u); // tRRD_S
  others.issuePrecharge(bank(0, 0), 139);
  EXPECT_EQ(others.bankRefreshReady(bank(0, 0)), 155u); // tRC = tRAS + tRP
  others.issueBankRefresh(bank(0, 0), 155);
  EXPECT_EQ(others.activateReady(bank(0, 0)), 347u);    // tRFCpb
  EXPECT_EQ(others.activateReady(bank(0, 1)), 165u);    // tRREFD
  EXPECT_EQ(others.bankRefreshReady(bank(1, 0)), 347u); // tRFCpb
  EXPECT_EQ(others.activateReady(bank(0, 0, 1)), 0u);   // another rank
  EXPECT_EQ(others.bankRefreshReady(bank(0, 0, 1)), 0u);
}
