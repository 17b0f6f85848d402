//===- DramChecker.h - Is a command log legal? ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks a command log against the datasheet numbers, command pair by command
// pair, from the definitions of the standards. Shares no code with the
// controllers: it looks backwards over the log and keeps no gates.
//===----------------------------------------------------------------------===//
#ifndef TESTS_TIMING_DRAM_DRAMCHECKER_H
#define TESTS_TIMING_DRAM_DRAMCHECKER_H

#include "isa/timing/Dram.h"

#include <string>
#include <vector>

namespace tw::test {

/// One message per violation ("tick 812: ACT 3 ticks after ACT at 809, tRRD_S asks for 4"), the first `limit` of them.
/// `log` is sorted by tick.
std::vector<std::string> checkDramLog(const timing::DramParams &params,
                                      const timing::DramCommandLog &log,
                                      size_t limit = 10);

} // namespace tw::test

#endif // TESTS_TIMING_DRAM_DRAMCHECKER_H
