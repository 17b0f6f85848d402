//===- EnergyModelTest.cpp - Joules and square millimetres, by hand -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/energy/EnergyModel.h"
#include "tests/unit/energy/TestTechnology.h"
#include "tests/unit/systemc/TestPrograms.h"

#include <cmath>

using namespace tw;
using namespace tw::energy;
using test::roundTechnology;

namespace {

constexpr double kPico = 1e-12;

double of(const Joules &joules, Component component) { return joules[size_t(component)]; }

/// Weights and activations from DRAM, one product, and nothing back.
std::vector<std::string> product(unsigned positions) {
  const std::string count = std::to_string(positions);
  return {"load dram_address=0x1000 span=2048 counts=[2048,1,1,1,1] post=[1:1]",
          "preload span=64 row_stride=8 k_count=8 n_count=8 wait=[1:1]",
          "tensor address=64 span=" + std::to_string(8 * positions) + " acc_span=" + count + " counts=[" + count +
              ",1,1] strides=[8] acc_strides=[1] swap=1 k_count=8",
          "halt"};
}

EnergyReport reportOf(const std::vector<std::string> &lines, const timing::MachineParams &machine,
                      const hwconfigs::Technology &technology = roundTechnology()) {
  const stats::SimResult result = test::run(lines, machine);
  EXPECT_TRUE(result.ok());
  return EnergyModel(machine, technology).report(countEvents(test::assemble(lines), machine), result);
}

} // namespace

TEST(EnergyModelTest, AProductCostsWhatItsEventsCost) {
  const EnergyReport report = reportOf(product(5), test::smallMachine());
  const double macs = 5 * 64;
  EXPECT_DOUBLE_EQ(of(report.total, Component::ArrayMacs), macs * 3 * kPico) << "multiply 2, add 1";
  EXPECT_DOUBLE_EQ(of(report.total, Component::ArrayRegisters), macs * (8 + 32) * 0.125 * kPico);
  EXPECT_DOUBLE_EQ(of(report.total, Component::WeightRegisters), 2 * 512 * 0.125 * kPico);
  // Banks of 2 KiB cost what 8 KiB cost. 2048 bytes loaded, 8 rows of weights, 5 vectors.
  EXPECT_DOUBLE_EQ(of(report.total, Component::Scratchpad0), (256 + 8 + 5) * 4 * kPico);
  EXPECT_DOUBLE_EQ(of(report.total, Component::Scratchpad1), 0);
  EXPECT_DOUBLE_EQ(of(report.total, Component::Accumulator), 5 * 4 * 4 * kPico);
  // 32 bursts of data and 4 of 7 program words, each of 8 x 64 bits.
  EXPECT_EQ(report.fetchBursts, 4u);
  EXPECT_DOUBLE_EQ(of(report.total, Component::DramRead), (32 + 4) * 8 * 1000 * kPico);
  // Seven words are written to the buffer of 8 KiB and read, of four times 64 bits each; six enter queues.
  EXPECT_DOUBLE_EQ(of(report.total, Component::Instructions), ((7 + 7) * 4 * 4 + 2 * 6 * 256 * 0.125) * kPico);
}

TEST(EnergyModelTest, TwiceTheWorkOfTheArrayIsTwiceItsEnergy) {
  const EnergyReport once = reportOf(product(50), test::smallMachine()), twice = reportOf(product(100), test::smallMachine());
  EXPECT_DOUBLE_EQ(of(twice.total, Component::ArrayMacs), 2 * of(once.total, Component::ArrayMacs));
  EXPECT_DOUBLE_EQ(of(twice.total, Component::ArrayRegisters), 2 * of(once.total, Component::ArrayRegisters));
  EXPECT_DOUBLE_EQ(of(twice.total, Component::WeightRegisters), of(once.total, Component::WeightRegisters));
}

TEST(EnergyModelTest, MoreCyclesForTheSameWorkCostWhatStands) {
  timing::MachineParams slow = test::smallMachine();
  slow.dram.latencyCycles = 500;
  const EnergyReport fast = reportOf(product(5), test::smallMachine()), late = reportOf(product(5), slow);
  ASSERT_GT(late.seconds, fast.seconds);
  for (size_t i = 0; i < kNumComponents; ++i)
    if (Component(i) == Component::Leakage)
      EXPECT_NEAR(late.total[i] / fast.total[i], late.seconds / fast.seconds, 1e-9);
    else
      EXPECT_DOUBLE_EQ(late.total[i], fast.total[i]) << i;
}

TEST(EnergyModelTest, LayersAndEnginesSumToTheTotal) {
  const std::vector<std::string> lines = product(5);
  isa::Program program = test::assemble(lines);
  program.layers.resize(2);
  // The loads' words are the first layer's, the array's the second's, halt is nobody's.
  program.layerOf = {0, 0, 0, 1, 1, 1, 2};
  const timing::MachineParams machine = test::smallMachine();
  core::MachineState state(machine);
  ASSERT_FALSE(state.load(program));
  const stats::SimResult result = test::run(program, state);
  ASSERT_TRUE(result.ok() && result.hasLayerCauses);
  const EnergyReport report = EnergyModel(machine, roundTechnology()).report(countEvents(program, machine), result);
  ASSERT_EQ(report.layers.size(), 2u);
  double engines = sum(report.standing), layers = sum(report.noLayer);
  for (const auto &[name, joules] : report.engines)
    engines += sum(joules);
  for (const Joules &joules : report.layers)
    layers += sum(joules);
  EXPECT_NEAR(layers / report.totalJoules(), 1, 1e-12);
  EXPECT_NEAR(engines / report.totalJoules(), 1, 1e-12);
  EXPECT_GT(of(report.layers[0], Component::DramRead), 32 * 8 * 1000 * kPico) << "with its share of the fetch";
  EXPECT_DOUBLE_EQ(of(report.layers[1], Component::ArrayMacs), of(report.total, Component::ArrayMacs));
  EXPECT_NEAR(report.averageWatts() * report.seconds, report.totalJoules(), 1e-18);
}

TEST(EnergyModelTest, DramEnergyFollowsFromCurrents) {
  timing::MachineParams machine = test::smallMachine();
  machine.dram = timing::DramParams(); // DDR4-2400 but for the kind
  machine.dram.kind = timing::DramKind::Ddr4;
  hwconfigs::Technology technology = roundTechnology();
  hwconfigs::DramEnergy &device = technology.dram[size_t(timing::DramKind::Ddr4)];
  device.supplies[0] = {1.2, 48, 34, 43, 135, 123, 250};
  device.devicesPerChannel = 8;
  const EnergyModel model(machine, technology);
  // tRAS 32.5 ns, tRP 13.33 ns, a burst 3.33 ns, tRFC 350 ns.
  EXPECT_NEAR(model.activateJoules(), 1.2 * 8 * (48 * 45.8333 - 43 * 32.5 - 34 * 13.3333) * kPico, 1e-13);
  EXPECT_NEAR(model.readJoules(), 1.2 * 8 * (135 - 43) * 3.33333 * kPico, 1e-14);
  EXPECT_NEAR(model.writeJoules(), 1.2 * 8 * (123 - 43) * 3.33333 * kPico, 1e-14);
  EXPECT_NEAR(model.refreshJoules(), 1.2 * 8 * (250 - 43) * 350 * kPico, 1e-12);
  EXPECT_NEAR(model.backgroundWatts(), 1.2 * 8 * 43e-3, 1e-12);
  EXPECT_EQ(model.refreshesIn(7.9e-6), 1u);
  EXPECT_EQ(model.refreshesIn(7.7e-6), 0u);
  // A given energy wins over currents, and the interface comes on top.
  device.readPjPerBit = 2;
  device.ioPjPerBit = 0.5;
  EXPECT_NEAR(EnergyModel(machine, technology).readJoules(), 512 * 2.5 * kPico, 1e-18);
}

TEST(EnergyModelTest, ActivatesAreCountedByTheDram) {
  timing::MachineParams machine = test::smallMachine();
  machine.dram = timing::DramParams();
  machine.dram.kind = timing::DramKind::Ddr4;
  const stats::SimResult result = test::run(product(5), machine);
  ASSERT_TRUE(result.ok());
  EXPECT_GE(result.dramActivates, 2u) << "a row of data and a row of program";
  EXPECT_LE(result.dramActivates, 16u);
  EXPECT_EQ(test::run(product(5), test::smallMachine()).dramActivates, 0u) << "an ideal DRAM has no rows";
}

TEST(EnergyModelTest, AreaIsGatesAndBits) {
  timing::MachineParams machine = test::smallMachine();
  hwconfigs::Technology technology = roundTechnology();
  technology.logicDensity = 0.5;
  technology.sramEfficiency = 0.25;
  Areas areas = EnergyModel(machine, technology).areas();
  auto area = [&](const std::string &name) {
    for (const auto &[part, mm2] : areas)
      if (part == name)
        return mm2;
    ADD_FAILURE() << "no part " << name;
    return 0.0;
  };
  EXPECT_NEAR(area("array"), 64 * (1000 + 4 * 10) / 0.5 * 1e-6, 1e-12);
  EXPECT_NEAR(area("scratchpad_scratchpad"), 16384 * 8 / 0.25 * 1e-6, 1e-12);
  EXPECT_NEAR(area("accumulator"), 8192 * 8 / 0.25 * 1e-6, 1e-12);
}

TEST(EnergyModelTest, MemoriesBetweenTwoSizesCostWhatLiesBetween) {
  const hwconfigs::Technology technology = roundTechnology();
  EXPECT_DOUBLE_EQ(technology.sramAccessPj(1024), 4);
  EXPECT_DOUBLE_EQ(technology.sramAccessPj(8192), 4);
  EXPECT_NEAR(technology.sramAccessPj(16384), 4 * std::sqrt(2.0), 1e-12) << "half way to 8 at 32 KiB";
  EXPECT_NEAR(technology.sramAccessPj(32768), 8, 1e-12);
  EXPECT_NEAR(technology.sramAccessPj(65536), 16, 1e-12) << "one of five steps to 256 at 1 MiB";
  EXPECT_DOUBLE_EQ(technology.sramAccessPj(1 << 24), 256);
}
