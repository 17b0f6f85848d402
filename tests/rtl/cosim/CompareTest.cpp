//===- CompareTest.cpp - What the comparison tells ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "simulator/cosim/Compare.h"

#include "tests/unit/systemc/TestPrograms.h"

using namespace tw;
using namespace tw::test;

namespace {

/// Two equal observations of a program of two loads, to be damaged.
class CompareTest : public testing::Test {
protected:
  CompareTest() {
    program = assemble({"load dram_address=0x1000 span=64 counts=[64,1,1,1,1]",
                        "load unit=1 dram_address=0x1000 address=2048 span=64 counts=[64,1,1,1,1]", "halt"});
    program.layers = {{"convolution", {"Conv_3"}, 0, 0, ""}};
    program.layerOf = {0, 0, 0, 0, 0, 0, 0};
    core::MachineState state(machine);
    EXPECT_FALSE(state.load(program));
    systemc::SimOptions options;
    options.trace = true;
    a.result = b.result = run(program, state, options);
    a.commands = b.commands = {{100, timing::DramCommandKind::Activate, 0, 0, 0, 0, 7, 0},
                               {120, timing::DramCommandKind::Read, 0, 0, 0, 0, 0, 3}};
  }
  std::string difference() const { return cosim::firstDifference(program, machine, a, b); }

  const timing::MachineParams machine = smallMachine();
  isa::Program program;
  cosim::Observation a, b;
};

TEST_F(CompareTest, EqualRunsDoNotDiffer) {
  ASSERT_EQ(a.result.instructions.size(), 2u);
  EXPECT_EQ(difference(), "");
}

TEST_F(CompareTest, TheFirstDifferenceInTimeIsTold) {
  b.result.instructions[0].retire += 1; // in 33
  b.result.instructions[1].start += 5;  // in 20
  b.result.totalCycles += 5;
  EXPECT_EQ(difference(), "start of instruction 1, word 3, load1\n"
                          "  load unit=1 dram_address=0x1000 address=0x800 span=0x40 counts=[64,1,1,1,1]\n"
                          "  in layer 'convolution', of 'Conv_3'\n"
                          "  SystemC: cycle 20\n  RTL: cycle 25");
}

TEST_F(CompareTest, EveryFieldOfAnInstructionCounts) {
  for (auto [name, field] :
       {std::pair<const char *, timing::Cycle stats::InstructionRecord::*>{"dispatch", &stats::InstructionRecord::dispatched},
        {"start", &stats::InstructionRecord::start},
        {"issue-free", &stats::InstructionRecord::issueFree},
        {"retirement", &stats::InstructionRecord::retire}}) {
    const cosim::Observation good = b;
    b.result.instructions[1].*field += 1;
    EXPECT_EQ(difference().substr(0, std::string(name).size() + 4), std::string(name) + " of ");
    b = good;
  }
  b.result.instructions.pop_back();
  EXPECT_NE(difference().find("RTL: cycle never"), std::string::npos);
}

TEST_F(CompareTest, TotalsLabelsAndTrafficCount) {
  const cosim::Observation good = b;
  b.result.totalCycles = 7;
  EXPECT_EQ(difference(), "total cycles\n  SystemC: " + std::to_string(good.result.totalCycles) + "\n  RTL: 7");
  b = good;
  ++b.result.engines[1].cycles[unsigned(Label::Interlock)];
  EXPECT_EQ(difference(), "cycles with label 'interlock' of vector\n  SystemC: 0\n  RTL: 1");
  b = good;
  b.result.dramReadBytes += 64;
  EXPECT_NE(difference().find("bytes read by loads"), std::string::npos);
}

TEST_F(CompareTest, DramCommandsCount) {
  b.commands[1].column = 4;
  EXPECT_EQ(difference().substr(0, 15), "DRAM command 1\n");
  b.commands.pop_back();
  EXPECT_NE(difference().find("RTL: nothing more"), std::string::npos);
}

TEST_F(CompareTest, FaultsCountAndHideWhatFollows) {
  b.result.fault = core::Fault{core::FaultKind::OutOfRange, 3, "load1", "far away", "", 20};
  b.result.totalCycles = 20;
  EXPECT_NE(difference().find("no fault"), std::string::npos);
  a.result.fault = b.result.fault;
  a.result.totalCycles = 20;
  b.result.instructions[1].start = 0;  // was 20
  b.result.instructions[0].retire = 0; // was 33
  EXPECT_EQ(difference(), "");
  b.result.fault->cycle = 21;
  EXPECT_NE(difference(), "");
}

TEST_F(CompareTest, MemoriesAreComparedByteByByte) {
  core::MachineState x(machine), y(machine);
  uint64_t bytes = 0;
  EXPECT_EQ(cosim::firstDifference(x, y, 4096, bytes), "");
  EXPECT_EQ(bytes, 16384u + 8192 + 4096);
  y.dram()[4096] = 1;
  EXPECT_EQ(cosim::firstDifference(x, y, 4096, bytes), "");
  y.dram()[4095] = 1;
  EXPECT_EQ(cosim::firstDifference(x, y, 4096, bytes),
            "byte 4095 of DRAM after the run (1 bytes differ)\n  SystemC: 0\n  RTL: 1");
  y.memory(int64_t(isa::Memory::Accumulator))[8191] = 9;
  EXPECT_NE(cosim::firstDifference(x, y, 4096, bytes).find("byte 8191 of the accumulator"), std::string::npos);
}

} // namespace
