//===- SchemaTest.cpp - The key table and its manual ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Schema.h"
#include "hw-configs/Machine.h"
#include "isa/timing/Digest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

using namespace tw::hwconfigs;

TEST(SchemaTest, NearestKeyIsTheOneWithFewestEdits) {
  std::vector<std::string> keys{"rows", "cols", "clock_mhz", "preload_rows_per_cycle"};
  EXPECT_EQ(nearest("rowz", keys), "rows");
  EXPECT_EQ(nearest("clock_hz", keys), "clock_mhz");
  EXPECT_EQ(nearest("col", keys), "cols");
  EXPECT_EQ(nearest("zzzzzzzz", keys), "");
}

TEST(SchemaTest, BlocksAreThePrefixesOfKeys) {
  EXPECT_TRUE(isBlock(""));
  EXPECT_TRUE(isBlock("array"));
  EXPECT_TRUE(isBlock("scratchpads.weight"));
  EXPECT_FALSE(isBlock("array.rows"));
  EXPECT_FALSE(isBlock("arr"));
}

/// The README's tables hold one row `| `key` | unit | allowed | ...` per key of the loader, no more and no fewer. The latency
/// constants are left to the manual made from isa/Timing.td.
TEST(SchemaTest, TheManualListsExactlyTheKeys) {
  std::ifstream readme(TILEWRIGHT_SOURCE_DIR "/hw-configs/README.md");
  ASSERT_TRUE(readme.is_open());
  std::set<std::string> documented, known;
  for (std::string line; std::getline(readme, line);) {
    if (line.rfind("| `", 0) != 0)
      continue;
    std::string path = line.substr(3, line.find('`', 3) - 3);
    EXPECT_TRUE(documented.insert(path).second) << path << " stands twice";
    const Key *key = findKey(path);
    if (!key)
      continue;
    std::stringstream cells(line);
    std::string cell, unit, allowed;
    std::getline(cells, cell, '|');
    std::getline(cells, cell, '|');
    std::getline(cells, unit, '|');
    std::getline(cells, allowed, '|');
    EXPECT_EQ(unit, " " + (key->unit.empty() ? key->allowed() : key->unit) + " ") << path;
    if (key->kind == ValueKind::Integer || key->kind == ValueKind::Ratio) {
      EXPECT_EQ(allowed, " " + key->allowed() + " ") << path;
    }
  }
  for (const Key &key : schema())
    if (key.block() != "timing")
      known.insert(key.path);
  EXPECT_EQ(documented, known);
}

/// Of each shipped machine, as its parameters alone make it from another machine's file.
TEST(SchemaTest, ParametersAppliedAsOverridesMakeTheSameMachine) {
  ASSERT_FALSE(shippedMachines().empty());
  for (const ShippedMachine &shipped : shippedMachines()) {
    const tw::Result<tw::timing::MachineParams> machine = loadMachine(shipped.path);
    ASSERT_TRUE(bool(machine)) << machine.message();
    const auto parameters = parametersOf(*machine);
    std::vector<std::string> overrides;
    std::set<std::string> keys;
    for (const auto &[key, value] : parameters) {
      EXPECT_TRUE(keys.insert(key).second) << key << " stands twice";
      overrides.push_back(key + "=" + value);
    }
    const tw::Result<tw::timing::MachineParams> again = loadMachine(shipped.path, overrides);
    ASSERT_TRUE(bool(again)) << again.message();
    EXPECT_EQ(parametersOf(*again), parameters) << shipped.name;
  }
}

TEST(SchemaTest, AnOverrideIsReadBackAsTheParameter) {
  const tw::Result<tw::timing::MachineParams> machine =
      loadMachine("tiny_8x8", {"array.rows=16", "scratchpads.weight.banks=2", "dram.interleave_bank_groups=false"});
  ASSERT_TRUE(bool(machine)) << machine.message();
  std::map<std::string, std::string> found;
  for (const auto &[key, value] : parametersOf(*machine))
    found[key] = value;
  EXPECT_EQ(found["array.rows"], "16");
  EXPECT_EQ(found["scratchpads.weight.banks"], "2");
  EXPECT_EQ(found["dram.interleave_bank_groups"], "false");
  EXPECT_EQ(found["array.type"], "int8");
}

/// The defaults of host and link are times, whatever the clock.
TEST(SchemaTest, HostAndLinkHaveDefaultsAndAreInNoDigest) {
  const auto machine = loadMachine("tiny_8x8"), half = loadMachine("tiny_8x8", {"clock_mhz=500"});
  ASSERT_TRUE(bool(machine) && bool(half));
  EXPECT_EQ(machine->host.linkLatencyCycles, 900u);
  EXPECT_EQ(half->host.linkLatencyCycles, 450u);
  EXPECT_DOUBLE_EQ(machine->host.linkBytes.perCycle(), 15.754);
  EXPECT_DOUBLE_EQ(half->host.linkBytes.perCycle(), 2 * 15.754);
  EXPECT_DOUBLE_EQ(machine->host.memoryBytes.perCycle(), 19.2);
  EXPECT_DOUBLE_EQ(machine->host.operations.perCycle(), 48);
  const auto other = loadMachine("tiny_8x8", {"host_link.bytes_per_cycle=64/3", "host_link.latency_cycles=0",
                                              "host.bytes_per_cycle=5", "host.operations_per_cycle=1/2"});
  ASSERT_TRUE(bool(other)) << other.message();
  EXPECT_EQ(other->host.linkBytes.numerator, 64u);
  EXPECT_EQ(other->host.linkBytes.denominator, 3u);
  EXPECT_EQ(other->host.linkLatencyCycles, 0u);
  EXPECT_EQ(other->host.operations.denominator, 2u);
  EXPECT_EQ(tw::timing::architecturalDigest(*other), tw::timing::architecturalDigest(*machine));
  EXPECT_EQ(tw::timing::timingDigest(*other), tw::timing::timingDigest(*machine));
  EXPECT_FALSE(bool(loadMachine("tiny_8x8", {"host_link.bytes_per_cycle=0"})));
}
