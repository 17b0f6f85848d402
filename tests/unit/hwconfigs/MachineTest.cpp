//===- MachineTest.cpp - Loading machines -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/timing/Digest.h"
#include "isa/timing/Dram.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

using namespace tw;
using namespace tw::hwconfigs;
using timing::MachineParams;

namespace {

/// A complete machine whose blocks all have provenance; line numbers below count in it.
const char *const kSmall = "name: small\n"                                          // 1
                           "clock_mhz: {value: 500, assumed: test}\n"               // 2
                           "array:\n"                                               // 3
                           "  assumed: test\n"                                      // 4
                           "  type: int8\n"                                         // 5
                           "  rows: 16\n"                                           // 6
                           "  cols: 16\n"                                           // 7
                           "scratchpads:\n"                                         // 8
                           "  activation: {assumed: test, capacity_bytes: 32768}\n" // 9
                           "  weight: {assumed: test, capacity_bytes: 32768}\n"     // 10
                           "accumulator: {assumed: test, capacity_bytes: 65536}\n"  // 11
                           "dram:\n"                                                // 12
                           "  device: ideal\n";                                     // 13

Result<MachineParams> loadSmall(const std::vector<std::string> &overrides = {}, Diagnostics *warnings = nullptr) {
  return loadMachineText(kSmall, "small.yaml", overrides, warnings);
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// The messages of a machine that must not load.
std::string messageOf(const std::string &text, const std::vector<std::string> &overrides = {}) {
  Result<MachineParams> machine = loadMachineText(text, "m.yaml", overrides);
  EXPECT_FALSE(machine);
  return machine.message();
}

} // namespace

TEST(MachineTest, EveryShippedMachineLoadsWithoutProblemsOrWarnings) {
  std::vector<std::string> names;
  for (const ShippedMachine &shipped : shippedMachines()) {
    names.push_back(shipped.name);
    Diagnostics warnings;
    Result<MachineParams> machine = loadMachine(shipped.path, {}, &warnings);
    ASSERT_TRUE(machine) << machine.message();
    EXPECT_EQ(machine->name, shipped.name);
    EXPECT_TRUE(warnings.empty()) << warnings.front().str();
    EXPECT_NE(describe(*machine).find(shipped.name), std::string::npos);
  }
  std::vector<std::string> expected{"cloud_128x128",      "edge_32x32_bf16",    "edge_32x32_int8", "gemmini_16x16_bf16",
                                    "gemmini_16x16_fp32", "gemmini_16x16_int8", "onnxim_128x128",  "onnxim_16x16_16b",
                                    "onnxim_16x16_4b",    "tiny_8x8",           "vdla_16x16"};
  EXPECT_EQ(names, expected);
}

TEST(MachineTest, VdlaHasTheNumbersOfThePaper) {
  Result<MachineParams> machine = loadMachine("vdla_16x16");
  ASSERT_TRUE(machine) << machine.message();
  EXPECT_EQ(machine->arrayType, timing::ArrayType::Int8);
  EXPECT_EQ(machine->rows, 16u);
  EXPECT_EQ(machine->cols, 16u);
  EXPECT_EQ(machine->clockMhz, 200u);
  ASSERT_EQ(machine->scratchpads.size(), 2u);
  EXPECT_EQ(machine->scratchpads[0].name, "activation");
  EXPECT_EQ(machine->scratchpads[0].capacityBytes, 32768u);
  EXPECT_EQ(machine->scratchpads[0].banks, 16u);
  EXPECT_EQ(machine->scratchpads[1].name, "weight");
  EXPECT_EQ(machine->scratchpads[1].capacityBytes, 32768u);
  EXPECT_EQ(machine->scratchpads[1].banks, 8u);
  EXPECT_EQ(machine->accumulator.capacityBytes, 131072u);
  EXPECT_EQ(machine->accumulatorRows(), 2048u);
  EXPECT_EQ(machine->dram.kind, timing::DramKind::Ideal);
  EXPECT_EQ(machine->dram.latencyCycles, 64u);
  EXPECT_EQ(machine->dram.bytesPerCycleNumerator, 8u);
}

TEST(MachineTest, DevicesHaveTheirPeakRates) {
  // GB/s = channels x width in bytes x 2 edges x clock.
  struct {
    const char *machine;
    double gigabytesPerSecond;
  } cases[] = {{"gemmini_16x16_int8", 19.2},                                                 // 8 B x 2.4 GT/s
               {"edge_32x32_int8", 25.6},                                                    // 4 x 2 B x 3.2 GT/s
               {"cloud_128x128", 307.2},                                                     // 16 x 8 B x 2.4 GT/s
               {"onnxim_128x128", 614.4},    {"onnxim_16x16_4b", 4.0}, {"vdla_16x16", 1.6}}; // 8 B at 200 MHz
  for (const auto &one : cases) {
    Result<MachineParams> machine = loadMachine(one.machine);
    ASSERT_TRUE(machine) << machine.message();
    timing::Ratio rate = timing::dramPeakBytesPerCycle(*machine);
    EXPECT_DOUBLE_EQ(double(rate.numerator) / rate.denominator * machine->clockMhz / 1000, one.gigabytesPerSecond)
        << one.machine;
  }
}

TEST(MachineTest, WhatIsNotGivenHasItsDefault) {
  Result<MachineParams> machine = loadSmall();
  ASSERT_TRUE(machine) << machine.message();
  EXPECT_EQ(machine->preloadRowsPerCycle, 1u);
  EXPECT_EQ(machine->lanes, 16u);
  EXPECT_EQ(machine->scratchpads[0].banks, 16u);
  EXPECT_EQ(machine->scratchpads[1].banks, 8u);
  EXPECT_EQ(machine->accumulator.banks, 4u);
  EXPECT_EQ(machine->loadEngines, 2u);
  EXPECT_EQ(machine->outstandingBursts,
            32u); // 68 cycles x 16/64 bursts a cycle = 17, next power of two
  machine = loadSmall({"array.rows=64", "array.cols=64"});
  ASSERT_TRUE(machine) << machine.message();
  EXPECT_EQ(machine->preloadRowsPerCycle, 4u);
  EXPECT_EQ(machine->lanes, 64u);
}

TEST(MachineTest, ElevenDifferentMistakesGiveElevenLocatedMessages) {
  const char *text = "name: wrong\n"     // 1
                     "clock_mhz: 500\n"  // 2 no provenance
                     "array:\n"          // 3
                     "  assumed: test\n" // 4
                     "  type: int9\n"    // 5 no such type
                     "  rows: 12\n"      // 6 not a power of two
                     "  colz: 16\n"      // 7 unknown key
                     "  cols: 16\n"      // 8
                     "scratchpads:\n"    // 9
                     "  activation: {assumed: test, capacity_bytes: 32768, banks: "
                     "128}\n"                                           // 10 out of range
                     "  weight: {assumed: test, capacity_bytes: big}\n" // 11 wrong type
                     "accumulator:\n"                                   // 12 capacity_bytes missing
                     "  assumed: test\n"                                // 13
                     "  banks: 4\n"                                     // 14
                     "dma:\n"                                           // 15
                     "  assumed: test\n"                                // 16
                     "  load_engines: [1, 2]\n"                         // 17 a list
                     "control: 7\n"                                     // 18 not a block
                     "dram:\n"                                          // 19
                     "  device: ddr9\n"                                 // 20 no such device
                     "  controller: in_order\n"                         // 21
                     "  controller: windowed\n";                        // 22 twice
  Result<MachineParams> machine = loadMachineText(text, "wrong.yaml");
  ASSERT_FALSE(machine);
  std::vector<std::string> expected{"wrong.yaml:2:12: clock_mhz has no provenance: its block needs a "
                                    "'source' or 'assumed', or write {value: 500, "
                                    "source: ...}",
                                    "wrong.yaml:5:9: array.type is 'int9' but must be one of int8, bf16, "
                                    "fp32; the nearest is 'int8'",
                                    "wrong.yaml:6:9: array.rows is 12 but must be a power of two from 1 to "
                                    "256",
                                    "wrong.yaml:7:3: unknown key 'array.colz'; the nearest key is "
                                    "'array.cols'",
                                    "wrong.yaml:10:61: scratchpads.activation.banks is 128 but must be a "
                                    "power of two from 1 to 64",
                                    "wrong.yaml:11:43: scratchpads.weight.capacity_bytes is 'big' but must "
                                    "be a power of two from 64 to 268435456",
                                    "wrong.yaml:12:1: accumulator.capacity_bytes is missing; it must be a "
                                    "power of two from 64 to 268435456 "
                                    "(size of the accumulator, in rows of cols x 4 bytes)",
                                    "wrong.yaml:17:17: dma.load_engines is a list but must be an integer "
                                    "from 1 to 4",
                                    "wrong.yaml:18:1: control must be a block of keys",
                                    "wrong.yaml:20:11: dram.device is 'ddr9', of which there is no file; "
                                    "known devices: ddr4_2400, ddr5_4800, hbm2, "
                                    "hbm3, ideal, lpddr4_3200, lpddr5_6400",
                                    "wrong.yaml:22:3: dram.controller stands twice; first in line 21"};
  std::vector<std::string> found;
  for (const Diagnostic &problem : machine.diagnostics())
    found.push_back(problem.str());
  EXPECT_EQ(found, expected);
}

TEST(MachineTest, UnknownKeysNameTheNearest) {
  EXPECT_NE(messageOf(replaced(kSmall, "  rows: 16", "  row: 16"))
                .find("m.yaml:6:3: unknown key 'array.row'; the nearest key is "
                      "'array.rows'"),
            std::string::npos);
  // A key in the wrong block.
  EXPECT_NE(
      messageOf(replaced(kSmall, "  rows: 16", "  rows: 16\n  load_engines: 2")).find("the nearest key is 'dma.load_engines'"),
      std::string::npos);
  EXPECT_NE(messageOf(replaced(kSmall, "scratchpads:", "scratchpad:"))
                .find("unknown key 'scratchpad'; the nearest key is 'scratchpads'"),
            std::string::npos);
}

TEST(MachineTest, NumbersNeedProvenance) {
  EXPECT_EQ(messageOf(replaced(kSmall, "  assumed: test\n", "")), "m.yaml:5:9: array.rows has no provenance: its block needs a "
                                                                  "'source' or 'assumed', or write {value: 16, "
                                                                  "source: ...}\n"
                                                                  "m.yaml:6:9: array.cols has no provenance: its block needs a "
                                                                  "'source' or 'assumed', or write {value: 16, "
                                                                  "source: ...}");
  std::string both = replaced(kSmall, "  assumed: test\n", "  assumed: test\n  source: test\n");
  EXPECT_NE(messageOf(both).find("m.yaml:5:3: a block has one 'source' or one 'assumed'"), std::string::npos);
  EXPECT_NE(messageOf(replaced(kSmall, "assumed: test}\narray", "because: test}\narray"))
                .find("m.yaml:2:25: unknown key 'clock_mhz.because'"),
            std::string::npos);
}

TEST(MachineTest, OverridesWinAndAreChecked) {
  Result<MachineParams> machine =
      loadSmall({"clock_mhz=800", "dram.bytes_per_cycle=64/3", "scratchpads.weight.banks=4", "dram.controller=in_order"});
  ASSERT_TRUE(machine) << machine.message();
  EXPECT_EQ(machine->clockMhz, 800u);
  EXPECT_EQ(machine->dram.bytesPerCycleNumerator, 64u);
  EXPECT_EQ(machine->dram.bytesPerCycleDenominator, 3u);
  EXPECT_EQ(machine->scratchpads[1].banks, 4u);
  EXPECT_EQ(machine->dram.controller, timing::DramController::InOrder);

  Result<MachineParams> wrong =
      loadSmall({"clock_mhz", "dram.clock_mzh=3", "array.rows=-4", "array.cols=3.5", "dram.interleave_bank_groups=yes",
                 "accumulator.capacity_bytes=99999999999999999999"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.message(), "--set clock_mhz: must be key=value\n"
                             "--set dram.clock_mzh=3: unknown key 'dram.clock_mzh'; the nearest "
                             "key is 'dram.clock_mhz'\n"
                             "--set array.rows=-4: array.rows is '-4' but must be a power of "
                             "two from 1 to 256\n"
                             "--set array.cols=3.5: array.cols is '3.5' but must be a power of "
                             "two from 1 to 256\n"
                             "--set accumulator.capacity_bytes=99999999999999999999: "
                             "accumulator.capacity_bytes is "
                             "'99999999999999999999' but must be a power of two from 64 to "
                             "268435456\n"
                             "--set dram.interleave_bank_groups=yes: "
                             "dram.interleave_bank_groups is 'yes' but must be true or false");
}

TEST(MachineTest, TheTitleSaysWhatWasOverridden) {
  EXPECT_EQ(loadMachine("vdla_16x16")->title(), "vdla_16x16");
  // In the order of the manual, the last value of a key.
  EXPECT_EQ(loadMachine("vdla_16x16", {"dram.latency_cycles=8", "clock_mhz=100", "dram.latency_cycles=256"})->title(),
            "vdla_16x16 (clock_mhz=100, dram.latency_cycles=256)");
}

TEST(MachineTest, LatencyConstantsAreKeys) {
  for (const timing::TimingConstantInfo &constant : timing::kTimingConstants) {
    std::string key = std::string("timing.") + constant.name;
    Result<MachineParams> machine = loadSmall({key + "=37"});
    ASSERT_TRUE(machine) << machine.message();
    EXPECT_EQ(machine->timing.*constant.member, 37u);
    EXPECT_EQ(architecturalDigest(*machine), architecturalDigest(*loadSmall()));
    EXPECT_NE(timingDigest(*machine), timingDigest(*loadSmall()));
    EXPECT_FALSE(loadSmall({key + "=0"}));
  }
}

TEST(MachineTest, AnOverrideReplacesTheDevice) {
  // The file's latency and rate belong to the ideal device; they mean nothing to the new one.
  Result<MachineParams> machine = loadMachine("vdla_16x16", {"dram.device=ddr4_2400"});
  ASSERT_TRUE(machine) << machine.message();
  EXPECT_EQ(machine->dram.kind, timing::DramKind::Ddr4);
  EXPECT_EQ(machine->dram.nRCDRD, 16u);
  EXPECT_EQ(machine->dram.device, "ddr4_2400");
}

TEST(MachineTest, WatermarksFollowTheController) {
  auto marks = [](const std::string &machine, const std::vector<std::string> &overrides) {
    Result<MachineParams> loaded = loadMachine(machine, overrides);
    EXPECT_TRUE(loaded) << loaded.message();
    return std::pair(loaded->dram.writeHighWatermark, loaded->dram.writeLowWatermark);
  };
  EXPECT_EQ(marks("gemmini_16x16_int8", {}), std::pair(26u, 6u));
  EXPECT_EQ(marks("gemmini_16x16_int8", {"dram.controller=in_order"}), std::pair(24u, 8u));
  EXPECT_EQ(marks("vdla_16x16", {}), std::pair(24u, 8u));
  EXPECT_EQ(marks("gemmini_16x16_int8", {"dram.write_high_watermark_bursts=20"}), std::pair(20u, 6u));
}

TEST(MachineTest, PerBankRefreshNeedsItsNumbers) {
  Result<MachineParams> machine = loadMachine("gemmini_16x16_int8", {"dram.refresh=per_bank"});
  ASSERT_FALSE(machine);
  EXPECT_NE(machine.message().find(
                "--set dram.refresh=per_bank: dram.refresh is per_bank, but dram.refi_bank_ticks is missing; it must "
                "be an integer from 1 to 1048576"),
            std::string::npos)
      << machine.message();
  machine = loadMachine("cloud_128x128", {"dram.refresh=per_bank", "dram.refi_bank_ticks=192"});
  ASSERT_FALSE(machine);
  EXPECT_EQ(machine.message(),
            "--set dram.refi_bank_ticks=192: dram.refi_bank_ticks is 192 but must be more than one refresh takes, 192");
  machine = loadMachine("cloud_128x128", {"dram.refresh=per_bank"});
  ASSERT_TRUE(machine) << machine.message();
  EXPECT_EQ(machine->dram.nREFIPB, 292u);
}

TEST(MachineTest, DeviceKeysMustFitTheKind) {
  EXPECT_EQ(messageOf(std::string(kSmall) + "  rcd_read_ticks: {value: 3, assumed: test}\n"),
            "m.yaml:14:27: dram.rcd_read_ticks does not belong to a DRAM of kind ideal");
}

TEST(MachineTest, DeviceFilesBesideTheMachineAreReadAndTheirProblemsLocated) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "hwconfigs_device";
  std::filesystem::create_directories(folder / "dram");
  std::ofstream(folder / "dram" / "slow.yaml") << "kind: ideal\nassumed: test\ncapacity_bytes: 1048576\n"
                                                  "burst_bytes: 64\nlatency_cycles: 9\nbytes_per_second: 4\n";
  std::ofstream(folder / "m.yaml") << replaced(kSmall, "device: ideal", "device: slow");
  Result<MachineParams> machine = loadMachine((folder / "m.yaml").string());
  ASSERT_FALSE(machine);
  std::string device = (folder / "dram" / "slow.yaml").string();
  EXPECT_EQ(machine.message(), device +
                                   ":1:1: bytes_per_cycle is missing; it must be a whole number "
                                   "or a ratio such as "
                                   "64/3, parts 1 to 1000000 (rate of the data bus)\n" +
                                   device +
                                   ":6:1: unknown key 'bytes_per_second'; the nearest key is "
                                   "'bytes_per_cycle'");
  std::filesystem::remove_all(folder);
}

TEST(MachineTest, CapacityMustHoldARowInEachBank) {
  EXPECT_EQ(messageOf(kSmall, {"scratchpads.weight.capacity_bytes=64"}),
            "--set scratchpads.weight.capacity_bytes=64: "
            "scratchpads.weight.capacity_bytes / banks is 8 bytes but a bank "
            "must hold one row of the array, 16 bytes");
  EXPECT_EQ(messageOf(kSmall, {"accumulator.capacity_bytes=128"}),
            "--set accumulator.capacity_bytes=128: accumulator.capacity_bytes "
            "/ banks is 32 bytes but a bank must hold "
            "one row of 4 bytes a column, 64 bytes");
}

TEST(MachineTest, AllBanksTogetherFitOneMask) {
  // 32 activation, 8 weight and 32 accumulator banks: 72, where an instruction can name 64.
  Result<MachineParams> machine = loadMachine("vdla_16x16", {"scratchpads.activation.banks=32", "accumulator.banks=32"});
  EXPECT_NE(machine.message().find("the memories have 72 banks together but a machine has at most 64"), std::string::npos)
      << machine.message();
}

TEST(MachineTest, InstructionsReachAllOfTheMachine) {
  // The largest values whose counts and addresses have room in isa/Isa.td, and the next ones.
  struct {
    const char *key;
    uint64_t largest, next;
  } cases[] = {{"array.rows", 256, 512},
               {"array.cols", 256, 512},
               {"vector.lanes", 512, 1024},
               {"vector.stages", 12, 13},
               {"scratchpads.activation.capacity_bytes", 1u << 28, 1u << 29},
               {"scratchpads.weight.capacity_bytes", 1u << 28, 1u << 29},
               {"dma.load_engines", 4, 5},
               {"dma.store_engines", 4, 5},
               {"control.loop_buffer_words", 65535, 65536},
               {"control.semaphores", 64, 65},
               {"dram.capacity_bytes", uint64_t(1) << 40, uint64_t(1) << 41}};
  for (const auto &one : cases) {
    const std::string set = std::string(one.key) + "=";
    const Result<MachineParams> machine = loadSmall({set + std::to_string(one.largest)});
    EXPECT_TRUE(machine) << machine.message();
    const std::string refused = set + std::to_string(one.next);
    EXPECT_EQ(messageOf(kSmall, {refused}).rfind("--set " + refused + ": " + one.key + " is ", 0), 0u) << one.key;
  }
  EXPECT_TRUE(loadSmall({"accumulator.capacity_bytes=67108864"}));
  EXPECT_EQ(messageOf(kSmall, {"accumulator.capacity_bytes=134217728"}),
            "--set accumulator.capacity_bytes=134217728: accumulator.capacity_bytes is 134217728, 2097152 rows of 4 bytes a "
            "column, but must be at most 1048576 rows");
  EXPECT_TRUE(loadSmall({"accumulator.capacity_bytes=268435456", "array.cols=64"}));
}

TEST(MachineTest, ScratchpadsAreUnifiedOrTwo) {
  EXPECT_EQ(messageOf(replaced(kSmall, "  weight:", "  unified:")), "m.yaml:8:1: scratchpads must be either 'unified' alone or "
                                                                    "'activation' and 'weight'");
}

TEST(MachineTest, TooFewOutstandingBurstsAreAWarning) {
  // ideal: 64 cycles + 64 B / 16 B a cycle = 68 cycles, 1/4 burst a cycle: 17 bursts.
  Diagnostics warnings;
  Result<MachineParams> machine = loadSmall({"dma.outstanding_bursts=16"}, &warnings);
  ASSERT_TRUE(machine) << machine.message();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].message.find("is 16 but one engine needs 17"), std::string::npos) << warnings[0].message;
  warnings.clear();
  ASSERT_TRUE(loadSmall({"dma.outstanding_bursts=17"}, &warnings));
  EXPECT_TRUE(warnings.empty());
}

TEST(MachineTest, FilesThatAreNoMachineAreRefused) {
  EXPECT_EQ(messageOf("[1, 2]"), "m.yaml:1:1: must be a block of keys");
  EXPECT_EQ(messageOf(""), "m.yaml:1:1: must be a block of keys");
  EXPECT_NE(messageOf("name: [\n").find("m.yaml:2:1: not YAML: "), std::string::npos) << messageOf("name: [\n");
  EXPECT_NE(messageOf("a: *nowhere\n").find("not YAML"), std::string::npos);
  EXPECT_EQ(messageOf("--- {}\n--- {}\n"), "m.yaml:1:1: holds more than one document");
  EXPECT_EQ(loadMachine("/nonexistent/m.yaml").message(),
            "/nonexistent/m.yaml: cannot read the file: No such file or directory");
  EXPECT_NE(loadMachine("vdla_16x15").message().find("the nearest is 'vdla_16x16'"), std::string::npos);
  EXPECT_EQ(loadMachine(testing::TempDir()).message(), testing::TempDir() + ": cannot read the file: Is a directory");
}

TEST(MachineTest, TextsThatGrowInTheParserAreRefused) {
  // yaml-cpp finds documents without end in these.
  for (const char *text : {",", "a: 1\n,", "]", "}"})
    EXPECT_FALSE(loadMachineText(text, "m.yaml")) << text;
  EXPECT_EQ(messageOf(","), "m.yaml:1:1: must be a block of keys");
  std::string many;
  for (unsigned i = 0; i < 6000; ++i)
    many += "a" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(messageOf(many), "m.yaml:5000:8: more than 10000 keys and values, which no machine file has");
  std::string nested = "a: ";
  nested.append(100000, '[');
  EXPECT_NE(messageOf(nested).find("m.yaml:1:"), std::string::npos);
  std::string aliases = "a0: &a0 {b: 1}\n";
  for (unsigned i = 1; i < 200; ++i) {
    const std::string last = "*a" + std::to_string(i - 1), name = "a" + std::to_string(i);
    aliases += name + ": &" + name + " {b: " + last + ", c: " + last + "}\n";
  }
  EXPECT_NE(messageOf(aliases).find("m.yaml:1:1: unknown key 'a0'"), std::string::npos);
  EXPECT_NE(messageOf(aliases).find("\nm.yaml: "), std::string::npos) << "not every problem is told";
}

TEST(MachineTest, DamagedTextNeverCrashes) {
  // Every truncation, and every byte replaced by ones that mean something to YAML.
  std::string text = kSmall;
  for (size_t at = 0; at < text.size(); ++at) {
    loadMachineText(text.substr(0, at), "m.yaml");
    for (char c : {'{', '[', ':', '&', '*', '!', '\0', '\xff', '\n', '-', '"'}) {
      std::string damaged = text;
      damaged[at] = c;
      Result<MachineParams> machine = loadMachineText(damaged, "m.yaml");
      if (!machine) {
        EXPECT_FALSE(machine.message().empty());
      }
    }
  }
}

TEST(MachineTest, FoldersOfTheEnvironmentComeFirst) {
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "hwconfigs_environment";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "small.yaml") << kSmall;
  std::ofstream(folder / "tiny_8x8.yaml") << replaced(kSmall, "name: small", "name: mine");
  ASSERT_EQ(setenv("TILEWRIGHT_HW", folder.c_str(), 1), 0);
  Result<MachineParams> small = loadMachine("small"), mine = loadMachine("tiny_8x8");
  unsetenv("TILEWRIGHT_HW");
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(small) << small.message();
  ASSERT_TRUE(mine) << mine.message();
  EXPECT_EQ(mine->name, "mine");
}

TEST(DigestTest, ArchitecturalKeysChangeOnlyTheArchitecturalDigest) {
  Result<MachineParams> base = loadMachine("gemmini_16x16_int8");
  ASSERT_TRUE(base) << base.message();
  for (const char *change :
       {"array.type=bf16", "array.rows=32", "array.cols=8", "array.preload_rows_per_cycle=2", "vector.lanes=8",
        "vector.stages=4", "scratchpads.unified.capacity_bytes=131072", "scratchpads.unified.banks=8",
        "accumulator.capacity_bytes=32768", "accumulator.banks=2", "dma.load_engines=1", "dma.store_engines=2",
        "dma.outstanding_bursts=32", "control.queue_depth_instructions=16", "control.loop_buffer_words=128",
        "control.prefetch_words=16", "control.semaphores=32", "control.semaphore_max_count=31"}) {
    // cols decides nothing else here: lanes are given in the file.
    Result<MachineParams> other = loadMachine("gemmini_16x16_int8", {change});
    ASSERT_TRUE(other) << other.message();
    EXPECT_NE(architecturalDigest(*other), architecturalDigest(*base)) << change;
    EXPECT_EQ(timingDigest(*other), timingDigest(*base)) << change;
  }
}

TEST(DigestTest, TimingKeysChangeOnlyTheTimingDigest) {
  Result<MachineParams> base = loadMachine("gemmini_16x16_int8");
  ASSERT_TRUE(base) << base.message();
  for (const char *change : {"clock_mhz=800",
                             "dram.clock_mhz=1100",
                             "dram.device=lpddr4_3200",
                             "dram.path_latency_cycles=7",
                             "dram.controller=in_order",
                             "dram.window_requests=16",
                             "dram.age_cap_ticks=99",
                             "dram.grant_bursts=8",
                             "dram.write_buffer_bursts=64",
                             "dram.write_high_watermark_bursts=20",
                             "dram.write_low_watermark_bursts=4",
                             "dram.interleave_bank_groups=false",
                             "dram.capacity_bytes=4294967296",
                             "dram.burst_bytes=128",
                             "dram.channels=2",
                             "dram.ranks=2",
                             "dram.bank_groups=8",
                             "dram.banks_per_group=8",
                             "dram.row_bytes=4096",
                             "dram.burst_ticks=3",
                             "dram.cl_ticks=17",
                             "dram.cwl_ticks=13",
                             "dram.rcd_read_ticks=17",
                             "dram.rcd_write_ticks=17",
                             "dram.row_column_buses=true",
                             "dram.rp_ticks=17",
                             "dram.rp_all_ticks=17",
                             "dram.ras_ticks=40",
                             "dram.ccd_short_ticks=5",
                             "dram.ccd_long_ticks=7",
                             "dram.ccd_long_write_ticks=7",
                             "dram.rrd_short_ticks=5",
                             "dram.rrd_long_ticks=7",
                             "dram.faw_ticks=27",
                             "dram.wr_ticks=19",
                             "dram.wtr_short_ticks=4",
                             "dram.wtr_long_ticks=10",
                             "dram.rtp_ticks=10",
                             "dram.read_to_write_ticks=11",
                             "dram.rank_switch_ticks=3",
                             "dram.refi_ticks=4680",
                             "dram.rfc_ticks=421"}) {
    Result<MachineParams> other = loadMachine("gemmini_16x16_int8", {change});
    ASSERT_TRUE(other) << other.message();
    EXPECT_EQ(architecturalDigest(*other), architecturalDigest(*base)) << change;
    EXPECT_NE(timingDigest(*other), timingDigest(*base)) << change;
  }
  for (const char *change : {"dram.latency_cycles=65", "dram.bytes_per_cycle=16/3"}) {
    EXPECT_NE(timingDigest(*loadMachine("vdla_16x16", {change})), timingDigest(*loadMachine("vdla_16x16"))) << change;
  }
  MachineParams renamed = *base;
  renamed.name = "other";
  EXPECT_EQ(architecturalDigest(renamed), architecturalDigest(*base));
  EXPECT_EQ(timingDigest(renamed), timingDigest(*base));
}
