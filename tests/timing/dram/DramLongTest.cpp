//===- DramLongTest.cpp - Ten million requests a device ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/dramcheck/DramChecker.h"
#include "tests/timing/dram/RandomRequests.h"

using namespace tw::test;

namespace {
class LongTest : public testing::TestWithParam<Case> {};
} // namespace

TEST_P(LongTest, TenMillionRandomRequestsBreakNoConstraint) {
  MachineParams machine = machineOf(GetParam().machine, GetParam().overrides);
  std::unique_ptr<DramTiming> dram = makeDram(machine);
  constexpr size_t kRequests = 1000000;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    dram->reset();
    DramCommandLog log;
    dram->setCommandLog(&log);
    ASSERT_EQ(drive(*dram, randomRequests(machine.dram, kRequests, seed)).size(), kRequests);
    sortCommands(log);
    for (const std::string &violation : tw::dramcheck::checkDramLog(machine.dram, log))
      ADD_FAILURE() << "seed " << seed << ", " << violation;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LongTest, testing::ValuesIn(cases()), nameOf);
