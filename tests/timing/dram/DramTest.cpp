//===- DramTest.cpp - Addresses, clocks, ideal memory, helpers --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/Dram.h"

#include "hw-configs/Machine.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>
#include <tuple>

using namespace tw::timing;

namespace {

DramParams device(const char *machine, const std::vector<std::string> &overrides = {}) {
  auto loaded = tw::hwconfigs::loadMachine(machine, overrides);
  EXPECT_TRUE(loaded) << loaded.message();
  return loaded ? loaded->dram : DramParams();
}

} // namespace

TEST(DramAddressMapTest, BankGroupsInterleaveInTheLowestBits) {
  DramAddressMap map(device("gemmini_16x16_int8"));
  // 64 B bursts: bits 6-7 bank group, 8-14 column (128 bursts of an 8 KiB row), 15-16 bank, then row.
  for (uint32_t burst = 0; burst < 8; ++burst) {
    DramLocation at = map.locate(burst * 64 + 5);
    EXPECT_EQ(at.bankGroup, burst % 4);
    EXPECT_EQ(at.column, burst / 4);
    EXPECT_EQ(at.bank, 0u);
    EXPECT_EQ(at.row, 0u);
  }
  EXPECT_EQ(map.locate(1 << 15).bank, 1u);
  EXPECT_EQ(map.locate(1 << 17).row, 1u);
  EXPECT_EQ(map.locate((1ull << 33) + 64).flatBank, map.locate(64).flatBank) << "addresses wrap";
}

TEST(DramAddressMapTest, ChannelsAreBelowBankGroups) {
  DramAddressMap map(device("cloud_128x128"));
  for (uint32_t burst = 0; burst < 64; ++burst) {
    EXPECT_EQ(map.locate(burst * 32).channel, burst % 16);
    EXPECT_EQ(map.channel(burst * 32), burst % 16);
    EXPECT_EQ(map.locate(burst * 32).bankGroup, burst / 16);
  }
}

TEST(DramAddressMapTest, RowBankColumnOrderKeepsARowTogether) {
  DramAddressMap map(device("gemmini_16x16_int8", {"dram.interleave_bank_groups=false"}));
  for (uint32_t burst = 0; burst < 128; ++burst) {
    EXPECT_EQ(map.locate(burst * 64).flatBank, 0u);
    EXPECT_EQ(map.locate(burst * 64).column, burst);
  }
  EXPECT_EQ(map.locate(128 * 64).bankGroup, 1u);
  EXPECT_EQ(map.locate(4 * 128 * 64).bank, 1u);
  EXPECT_EQ(map.locate(16 * 128 * 64).row, 1u);
}

TEST(DramAddressMapTest, EveryAddressHasItsOwnPlace) {
  for (bool interleave : {false, true}) {
    DramParams p = device("edge_32x32_int8");
    p.ranks = 2;
    p.interleaveBankGroups = interleave;
    DramAddressMap map(p);
    std::mt19937_64 random(17);
    for (int i = 0; i < 10000; ++i) {
      uint64_t address = random() % (p.capacityBytes / p.burstBytes) * p.burstBytes;
      EXPECT_EQ(map.address(map.locate(address)), address);
    }
  }
}

TEST(ClockRatioTest, ConversionsAreExact) {
  // 1000 MHz cycles and 1200 MHz ticks: tick t begins at 5/6 t cycles.
  ClockRatio clocks(1000, 1200);
  EXPECT_EQ(clocks.tickAtOrAfter(0), 0u);
  EXPECT_EQ(clocks.tickAtOrAfter(1), 2u); // 1.2
  EXPECT_EQ(clocks.tickAtOrAfter(5), 6u); // exactly
  EXPECT_EQ(clocks.cycleAtOrAfter(6), 5u);
  EXPECT_EQ(clocks.cycleAtOrAfter(7), 6u); // 5.83
  EXPECT_EQ(clocks.cycleOf(7), 5u);
  EXPECT_EQ(clocks.cycleOf(6), 5u);
  EXPECT_EQ(clocks.cycleOf(5), 4u); // 4.17
}

TEST(ClockRatioTest, AgreesWithDivisionForAnyClocks) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    uint32_t cycleMhz = uint32_t(random() % 4000 + 1), tickMhz = uint32_t(random() % 4000 + 1);
    uint64_t time = random() >> (24 + random() % 40);
    ClockRatio clocks(cycleMhz, tickMhz);
    EXPECT_EQ(clocks.tickAtOrAfter(time), (time * tickMhz + cycleMhz - 1) / cycleMhz);
    EXPECT_EQ(clocks.cycleAtOrAfter(time), (time * cycleMhz + tickMhz - 1) / tickMhz);
    EXPECT_EQ(clocks.cycleOf(time), time * cycleMhz / tickMhz);
  }
}

TEST(BusHistoryTest, CountsBusyCycles) {
  BusHistory bus;
  bus.add(10, 14);
  bus.add(14, 18); // joins
  bus.add(30, 34);
  EXPECT_EQ(bus.busyCycles(0, 100), 12u);
  EXPECT_EQ(bus.busyCycles(12, 31), 7u);
  EXPECT_EQ(bus.busyCycles(18, 30), 0u);
  EXPECT_EQ(bus.busyCycles(17, 18), 1u);
  EXPECT_EQ(bus.busyCycles(33, 34), 1u);
  EXPECT_EQ(bus.busyCycles(34, 35), 0u);
}

TEST(BusHistoryTest, KnowsItsReachAndStaysSmall) {
  BusHistory bus;
  const uint64_t bursts = 3000000;
  for (uint64_t i = 0; i < bursts; ++i)
    bus.add(i * 10, i * 10 + 4);
  uint64_t end = bursts * 10;
  EXPECT_EQ(bus.busyCycles(end - BusHistory::kReach / 10 * 10, end), BusHistory::kReach / 10 * 4);
}

TEST(IdealDramTest, RateThenLatency) {
  DramParams p;
  p.kind = DramKind::Ideal;
  p.burstBytes = 64;
  p.latencyCycles = 64;
  p.bytesPerCycleNumerator = 8;
  IdealDram dram(p);
  // 64 B at 8 B a cycle take 8 cycles.
  auto first = dram.submit({1, 0, false, 100});
  EXPECT_EQ(first->id, 1u);
  EXPECT_EQ(first->busStartCycle, 100u);
  EXPECT_EQ(first->busEndCycle, 108u);
  EXPECT_EQ(first->completionCycle, 172u);
  EXPECT_EQ(dram.submit({2, 64, true, 101})->completionCycle,
            180u); // waits for the bus
  EXPECT_EQ(dram.submit({3, 128, false, 500})->completionCycle,
            572u); // does not
  EXPECT_TRUE(dram.busBusy(0, 115));
  EXPECT_FALSE(dram.busBusy(0, 116));
  EXPECT_EQ(dram.nextDecisionCycle(), kNever);
  dram.reset();
  EXPECT_EQ(dram.submit({1, 0, false, 0})->completionCycle, 72u);
}

TEST(IdealDramTest, FractionsOfACycleAreKept) {
  DramParams p;
  p.kind = DramKind::Ideal;
  p.burstBytes = 64;
  p.pathLatencyCycles = 5;
  p.bytesPerCycleNumerator = 64 * 3;
  p.bytesPerCycleDenominator = 7; // a burst takes 7/3 cycles
  IdealDram dram(p);
  EXPECT_EQ(dram.submit({0, 0, false, 0})->completionCycle, 3u + 5);
  EXPECT_EQ(dram.submit({0, 0, false, 0})->completionCycle, 5u + 5); // 14/3
  EXPECT_EQ(dram.submit({0, 0, false, 0})->completionCycle, 7u + 5); // 21/3
}

TEST(DramRatesTest, LatencyAndLittlesLaw) {
  auto machine = tw::hwconfigs::loadMachine("gemmini_16x16_int8");
  ASSERT_TRUE(machine) << machine.message();
  // tRP + tRCD + CL + 4 = 52 ticks of 1200 MHz = 43.3 cycles of 1 GHz; 19.2 B/cycle = 0.3 bursts a cycle.
  EXPECT_EQ(dramConflictLatencyCycles(*machine), 44u);
  EXPECT_EQ(littlesLawBursts(*machine), 14u); // 13.2
}

TEST(WatermarksTest, AWindowedControllerGetsWritesAtOnce) {
  DramParams p;
  p.writeHighWatermark = 4;
  p.writeLowWatermark = 2;
  auto expect = [&](uint32_t high, uint32_t low) {
    EXPECT_EQ(portWatermarks(p).high, high);
    EXPECT_EQ(portWatermarks(p).low, low);
  };
  p.controller = DramController::Windowed;
  expect(4, 2); // ideal: no controller
  p.kind = DramKind::Ddr4;
  expect(1, 0);
  p.controller = DramController::InOrder;
  expect(4, 2);
}

TEST(CommandTraceTest, HasDramsim3Columns) {
  DramCommandLog log{{812, DramCommandKind::Read, 1, 0, 2, 3, 0x1f, 0x20}, {5, DramCommandKind::Refresh, 0, 0, 0, 0, 0, 0}};
  sortCommands(log);
  std::ostringstream out;
  writeCommands(out, log);
  std::istringstream in(out.str());
  std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
  EXPECT_EQ(words, (std::vector<std::string>{"5", "refresh", "0", "0", "0", "0", "0", "0", "812", "read", "1", "0", "2", "3",
                                             "0x1f", "0x20"}));
}
