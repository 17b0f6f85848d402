//===- DramReplayTest.cpp - Traces and what is counted --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/DramReplay.h"

#include "hw-configs/Machine.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

using namespace tw;
using namespace tw::runtime;

namespace {

/// The problem of a trace, or its accesses as text.
std::string read(const std::string &text) {
  DramTrace trace(text, "t");
  timing::DramRequest access;
  std::string all;
  while (trace.next(access))
    all += std::to_string(access.id) + ":" + std::to_string(access.arrivalCycle) + (access.write ? "W" : "R") +
           std::to_string(access.address) + " ";
  return trace.problem() ? trace.problem()->str() : all;
}

DramReplayReport replayed(const std::string &text, const std::vector<std::string> &overrides = {},
                          const std::string &device = "ddr4_2400", uint32_t clockMhz = 0) {
  auto machine = hwconfigs::loadDevice(device, overrides);
  EXPECT_TRUE(machine) << machine.message();
  if (clockMhz)
    machine->clockMhz = clockMhz;
  DramTrace trace(text, "t");
  auto report = replayDram(*machine, trace);
  EXPECT_TRUE(report) << report.message();
  return report ? *report : DramReplayReport();
}

} // namespace

TEST(DramTraceTest, LinesCommentsAndBothWaysToWriteAnAddress) {
  EXPECT_EQ(read("0 R 40\n\n# nothing\n  7\tW  0xFf # eight\r\n7 R ffffffffffffffff"),
            "0:0R64 1:7W255 2:7R18446744073709551615 ");
  EXPECT_EQ(read(""), "");
}

TEST(DramTraceTest, EveryMistakeHasItsPlace) {
  EXPECT_EQ(read("0 R 40\nx R 0\n"), "t:2:1: found 'x' where a line begins with its arrival, a whole number up to 10000000000");
  EXPECT_EQ(read("-1 R 0\n"), "t:1:1: found '-1' where a line begins with its arrival, a whole number up to 10000000000");
  EXPECT_EQ(read("10000000001 R 0\n"),
            "t:1:1: found '10000000001' where a line begins with its arrival, a whole number up to 10000000000");
  EXPECT_EQ(read("5 R 0\n4 R 0\n"), "t:2:1: the arrival is 4 but must be at least that of the access before, 5");
  EXPECT_EQ(read("5 r 0\n"), "t:1:3: found 'r' where R or W must stand");
  EXPECT_EQ(read("5\n"), "t:1:2: the line ends where R or W must stand");
  EXPECT_EQ(read("5 R 0x\n"), "t:1:5: found '0x' where an address must stand, at most 16 hexadecimal digits");
  EXPECT_EQ(read("5 R 10000000000000000\n"),
            "t:1:5: found '10000000000000000' where an address must stand, at most 16 hexadecimal digits");
  EXPECT_EQ(read("5 R # 0\n"), "t:1:5: the line ends where an address must stand, at most 16 hexadecimal digits");
  EXPECT_EQ(read("5 R 0 1\n"), "t:1:7: found '1' where the line must end");
}

TEST(DistributionTest, PercentilesAreMetNumbers) {
  Distribution numbers;
  EXPECT_EQ(numbers.percentile(50), 0u);
  EXPECT_EQ(numbers.mean(), 0);
  for (uint64_t i = 1; i <= 200; ++i)
    numbers.add(i);
  EXPECT_EQ(numbers.percentile(0), 1u);
  EXPECT_EQ(numbers.percentile(50), 100u);
  EXPECT_EQ(numbers.percentile(99), 198u);
  EXPECT_EQ(numbers.percentile(100), 200u);
  EXPECT_EQ(numbers.mean(), 100.5);
}

TEST(DramReplayTest, HandDerivedAccesses) {
  for (const char *controller : {"dram.controller=in_order", "dram.controller=windowed"}) {
    // A miss: ACT 0, RD 16, data 32 to 36. A hit of the same bank: RD 100. A conflict: PRE 200, ACT 216, WR 232, data 244 to 248.
    DramReplayReport report = replayed("0 R 0\n100 R 100\n200 W 20000\n", {controller});
    EXPECT_EQ(report.totalCycles, 248u);
    EXPECT_EQ(report.reads, 2u);
    EXPECT_EQ(report.writes, 1u);
    EXPECT_EQ(report.rowHits, 1u);
    EXPECT_EQ(report.rowMisses, 1u);
    EXPECT_EQ(report.rowConflicts, 1u);
    EXPECT_EQ(report.readLatency.percentile(0), 20u);
    EXPECT_EQ(report.readLatency.percentile(100), 36u);
    EXPECT_EQ(report.commands, 6u);
    EXPECT_NEAR(report.dataBusPercent, 100 * 12 / 248.0, 1e-9);
    EXPECT_TRUE(report.violations.empty());
  }
}

TEST(DramReplayTest, ARowThatARefreshClosedIsAMiss) {
  // Due at 9360; the row of 100 is closed by it. PREA 9360, REF 9376, ACT 9796, RD 9812, data 9828 to 9832.
  DramReplayReport report = replayed("100 R 0\n9400 R 0\n");
  EXPECT_EQ(report.totalCycles, 9832u);
  EXPECT_EQ(report.rowMisses, 2u);
  EXPECT_EQ(report.commands, 6u);
}

TEST(DramReplayTest, ArrivalsAreOneInACycleOfTheClock) {
  // Four accesses of one row, in four bank groups: the last arrives 3 cycles later.
  const std::string text = "0 R 0\n0 R 40\n0 R 80\n0 R c0\n";
  EXPECT_EQ(replayed(text).totalCycles, 48u); // ACT 0, 4, 8, 12, RD 28, data 44 to 48
  // A fifth of the DRAM's clock: arrivals at ticks 0, 5, 10 and 15; ACT 15, RD 31, data 47 to 51 are cycle 10.2.
  EXPECT_EQ(replayed(text, {}, "ddr4_2400", 240).totalCycles, 11u);
}

TEST(DramReplayTest, AnIdealDeviceHasNoRows) {
  DramReplayReport report = replayed("0 R 0\n0 R 40\n", {"dram.bytes_per_cycle=8", "dram.latency_cycles=10"}, "ideal");
  EXPECT_EQ(report.totalCycles, 26u);
  EXPECT_NEAR(report.dataBusPercent, 100 * 16 / 26.0, 1e-9);
  EXPECT_EQ(report.commands, 0u);
  EXPECT_EQ(dramReplayText(report).find("rows"), std::string::npos);
}

TEST(DramReplayTest, LongPausesAreFullOfRefreshesThatAreChecked) {
  for (const char *controller : {"dram.controller=in_order", "dram.controller=windowed"})
    for (const char *refresh : {"dram.refresh=all_bank", "dram.refresh=per_bank"}) {
      DramReplayReport report = replayed("0 R 0\n30000000 R 0\n", {controller, refresh}, "hbm2");
      EXPECT_TRUE(report.violations.empty()) << report.violations.front();
      EXPECT_GT(report.commands, 16u * 6000u);
      EXPECT_EQ(report.rowMisses, 2u);
    }
}

TEST(DramReplayTest, JsonHasEveryNumber) {
  const auto json = nlohmann::json::parse(toJson(replayed("0 R 0\n")));
  EXPECT_EQ(json["total_cycles"], 36);
  EXPECT_EQ(json["read_latency_cycles"]["p99"], 36);
  EXPECT_EQ(json["device"], "ddr4_2400");
  EXPECT_EQ(json["clock_mhz"], 1200);
}

TEST(LoadDeviceTest, RefusesWhatIsNoneOfItsKeys) {
  auto problem = [](const std::string &device, const std::vector<std::string> &overrides) {
    auto machine = hwconfigs::loadDevice(device, overrides);
    return machine ? machine->overrides : machine.message();
  };
  EXPECT_EQ(problem("ddr4_2400", {"dram.ranks=2", "dram.cl_ticks=17"}), "dram.ranks=2, dram.cl_ticks=17");
  EXPECT_EQ(problem("ddr4_2400", {}), "");
  EXPECT_EQ(problem("ddr4_2400", {"clock_mhz=3"}),
            "--set clock_mhz=3: must be a key of the DRAM, which begin with 'dram.', other than its device");
  EXPECT_EQ(problem("ddr9", {}),
            "--device ddr9: dram.device is 'ddr9', of which there is no file; known devices: ddr4_2400, ddr5_4800, "
            "hbm2, hbm3, ideal, lpddr4_3200, lpddr5_6400");
}
