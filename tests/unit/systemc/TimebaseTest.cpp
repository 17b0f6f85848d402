//===- TimebaseTest.cpp - The machine beside other SystemC processes ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tests/unit/systemc/Pipeline.h"

#include <systemc>

using namespace tw;
using namespace tw::test;

namespace {

/// Wakes every 1.5 cycles.
class Ticker : public sc_core::sc_module {
public:
  explicit Ticker(sc_core::sc_module_name name) : sc_module(name), go("go") {
    SC_HAS_PROCESS(Ticker);
    SC_METHOD(tick);
    sensitive << go;
    dont_initialize();
  }
  void start(unsigned count) {
    left = count;
    go.notify(sc_core::sc_time(1.5, sc_core::SC_NS));
  }
  unsigned left = 0;

private:
  void tick() {
    if (--left)
      next_trigger(sc_core::sc_time(1.5, sc_core::SC_NS));
  }
  sc_core::sc_event go;
};

Ticker *ticker = nullptr;
struct Registration {
  Registration() {
    systemc::SystemCModel::alsoMake([] { ticker = new Ticker("ticker"); });
  }
} registration;

stats::SimResult runPipeline() {
  const Pipeline pipeline(40);
  std::vector<std::vector<uint8_t>> outputs;
  systemc::SimOptions options;
  options.trace = true;
  return runWith(pipeline.program(), pipeline.inputs(), smallMachine(), outputs, options);
}

// The machine then works ahead for one or two cycles at a time instead of to the end.
TEST(TimebaseTest, AnotherProcessChangesNoCycle) {
  const stats::SimResult alone = runPipeline();
  ticker->start(300);
  const stats::SimResult beside = runPipeline();
  EXPECT_EQ(ticker->left, 0u);
  EXPECT_GT(alone.totalCycles, 450u) << "the other process is done before the machine is";
  EXPECT_EQ(beside.totalCycles, alone.totalCycles);
  ASSERT_EQ(beside.instructions.size(), alone.instructions.size());
  for (size_t i = 0; i < alone.instructions.size(); ++i) {
    EXPECT_EQ(beside.instructions[i].start, alone.instructions[i].start) << "instruction " << i;
    EXPECT_EQ(beside.instructions[i].retire, alone.instructions[i].retire) << "instruction " << i;
  }
}

TEST(TimebaseTest, SystemCTimeIsThatOfTheMachineInTheEnd) {
  systemc::SystemCModel::elaborate();
  const sc_core::sc_time before = sc_core::sc_time_stamp();
  const stats::SimResult result = runPipeline();
  const sc_core::sc_time lastRetirement(double(result.instructions.back().retire), sc_core::SC_NS);
  EXPECT_GE(sc_core::sc_time_stamp() - before, lastRetirement);
}

TEST(TimebaseTest, TheLastCycleOfALimitedRunIsTheLimit) {
  systemc::SystemCModel::elaborate();
  const Pipeline pipeline(40);
  std::vector<std::vector<uint8_t>> outputs;
  systemc::SimOptions options;
  options.maxCycles = 100;
  ticker->start(3);
  const stats::SimResult result = runWith(pipeline.program(), pipeline.inputs(), smallMachine(), outputs, options);
  ASSERT_TRUE(result.fault);
  EXPECT_EQ(result.fault->kind, core::FaultKind::LimitReached);
  EXPECT_EQ(result.totalCycles, 100u);
}

} // namespace
