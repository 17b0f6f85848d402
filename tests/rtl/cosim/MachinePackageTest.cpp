//===- MachinePackageTest.cpp - A machine's numbers for the RTL -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/MachinePackage.h"

#include "hw-configs/Machine.h"
#include "isa/timing/Dram.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <sstream>

using namespace tw;

namespace {

/// Names and values of the parameters.
std::map<std::string, std::string> parametersOf(const std::string &package) {
  std::map<std::string, std::string> parameters;
  std::istringstream lines(package);
  for (std::string line; std::getline(lines, line);) {
    const size_t equals = line.find(" = ");
    if (line.find("parameter") == std::string::npos || equals == std::string::npos)
      continue;
    const size_t name = line.rfind(' ', equals - 1) + 1;
    parameters[line.substr(name, equals - name)] = line.substr(equals + 3, line.find(';') - equals - 3);
  }
  return parameters;
}

TEST(MachinePackageTest, EveryTimingConstantIsAParameter) {
  timing::MachineParams machine;
  uint32_t value = 100;
  for (const timing::TimingConstantInfo &info : timing::kTimingConstants)
    machine.timing.*info.member = value++;
  const std::map<std::string, std::string> parameters = parametersOf(cosim::rtlMachinePackage(machine));
  value = 100;
  for (const timing::TimingConstantInfo &info : timing::kTimingConstants) {
    // start_cycles is StartCycles.
    std::string name;
    for (const char *c = info.name; *c; ++c)
      if (*c != '_')
        name += c == info.name || c[-1] == '_' ? char(std::toupper(*c)) : *c;
    ASSERT_TRUE(parameters.count(name)) << name;
    EXPECT_EQ(parameters.at(name), std::to_string(value++)) << name;
  }
}

TEST(MachinePackageTest, ParametersAreTheMachines) {
  timing::MachineParams machine;
  machine.arrayType = timing::ArrayType::Bf16;
  machine.rows = 32;
  machine.scratchpads = {{"activations", 4096, 4}, {"weights", 2048, 2}};
  machine.accumulator = {"accumulator", 1024, 2};
  machine.dram.kind = timing::DramKind::Hbm2;
  machine.dram.channels = 8;
  machine.dram.capacityBytes = 1ull << 33;
  std::map<std::string, std::string> parameters = parametersOf(cosim::rtlMachinePackage(machine));
  EXPECT_EQ(parameters["ArrayType"], "1");
  EXPECT_EQ(parameters["Rows"], "32");
  EXPECT_EQ(parameters["NumScratchpads"], "2");
  EXPECT_EQ(parameters["ScratchpadBytes1"], "2048");
  EXPECT_EQ(parameters["ScratchpadBanks1"], "2");
  EXPECT_EQ(parameters["DramChannels"], "8");
  EXPECT_EQ(parameters["DramCapacityBytes"], "64'd8589934592");
  machine.scratchpads.pop_back();
  parameters = parametersOf(cosim::rtlMachinePackage(machine));
  EXPECT_EQ(parameters["NumScratchpads"], "1");
  EXPECT_EQ(parameters["ScratchpadBytes1"], "0");
}

TEST(MachinePackageTest, MachinesThatDifferOnlyInTheirDramShareAModel) {
  timing::MachineParams machine;
  machine.scratchpads = {{"scratchpad", 4096, 4}};
  timing::MachineParams other = machine;
  other.name = "other";
  other.dram.latencyCycles = 77;
  other.dram.bytesPerCycleNumerator = 8;
  EXPECT_EQ(cosim::rtlMachinePackage(machine), cosim::rtlMachinePackage(other));
}

// By hand. Ideal: 100 bytes per cycle are at most four bursts of 32. DDR: 3 ticks of 1200 MHz begin in a cycle of 500 MHz,
// in which at most one of a channel's bursts of 4 ticks ends, and two of bursts of 2 ticks.
TEST(MachinePackageTest, ResponsesOfACycle) {
  timing::MachineParams machine;
  machine.dram.kind = timing::DramKind::Ideal;
  machine.dram.bytesPerCycleNumerator = 100;
  machine.dram.burstBytes = 32;
  EXPECT_EQ(cosim::dramResponsesPerCycle(machine), 4u);
  machine.dram.bytesPerCycleDenominator = 10;
  EXPECT_EQ(cosim::dramResponsesPerCycle(machine), 1u);
  machine.dram.kind = timing::DramKind::Ddr4;
  machine.dram.clockMhz = 1200;
  machine.clockMhz = 500;
  machine.dram.channels = 2;
  machine.dram.nBurst = 4;
  EXPECT_EQ(cosim::dramResponsesPerCycle(machine), 2u);
  machine.dram.nBurst = 2;
  EXPECT_EQ(cosim::dramResponsesPerCycle(machine), 4u);
}

// Saturating streams and random accesses on all shipped machines: never more, of reads or of writes.
TEST(MachinePackageTest, NoDramGivesMoreResponses) {
  for (const hwconfigs::ShippedMachine &shipped : hwconfigs::shippedMachines()) {
    const Result<timing::MachineParams> machine = hwconfigs::loadMachine(shipped.path);
    ASSERT_TRUE(bool(machine)) << machine.message();
    const uint32_t most = cosim::dramResponsesPerCycle(*machine);
    for (bool stream : {true, false}) {
      std::unique_ptr<timing::DramTiming> dram = timing::makeDram(*machine);
      std::map<timing::Cycle, uint32_t> completions[2];
      std::mt19937_64 random(7);
      std::vector<bool> writes;
      auto note = [&](const timing::DramCompletion &completion) {
        EXPECT_LE(++completions[writes[completion.id]][completion.completionCycle], most) << shipped.name;
      };
      for (timing::Cycle t = 0; t < 3000; ++t) {
        const bool write = t / 64 % 2;
        for (uint32_t i = 0; i < 2 * most; ++i) {
          const uint64_t burst = stream ? t * 2 * most + i : random();
          const uint64_t address = burst * machine->dram.burstBytes % machine->dram.capacityBytes;
          const uint64_t id = writes.size();
          writes.push_back(write);
          if (const std::optional<timing::DramCompletion> completion = dram->submit({id, address, write, t}))
            note(*completion);
        }
        while (dram->nextDecisionCycle() <= t) {
          std::vector<timing::DramCompletion> decided;
          dram->advance(t, decided);
          for (const timing::DramCompletion &completion : decided)
            note(completion);
        }
      }
      EXPECT_GT(completions[0].size() + completions[1].size(), 100u) << shipped.name;
    }
  }
}

} // namespace
