//===- RandomRequests.h - Devices, and requests for them --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_TIMING_DRAM_RANDOMREQUESTS_H
#define TESTS_TIMING_DRAM_RANDOMREQUESTS_H

#include "hw-configs/Machine.h"
#include "isa/timing/Dram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tw::test {

using namespace tw::timing;

inline MachineParams machineOf(const std::string &name, const std::vector<std::string> &overrides = {}) {
  auto machine = tw::hwconfigs::loadMachine(name, overrides);
  EXPECT_TRUE(machine) << machine.message();
  return machine ? *machine : MachineParams();
}

/// Requests that mix streams, hot rows and random rows, reads and writes, floods and pauses longer than a refresh interval.
inline std::vector<DramRequest> randomRequests(const DramParams &params, size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<DramRequest> requests;
  uint64_t bursts = params.capacityBytes / params.burstBytes;
  uint64_t stream = random() % bursts, hot = random() % bursts, cycle = 0;
  unsigned pattern = 0, gap = 0, writePercent = 0, phase = 0;
  while (requests.size() < count) {
    if (phase == 0) {
      phase = 1 + unsigned(random() % 400);
      pattern = unsigned(random() % 3);
      gap = (random() % 3 == 0) ? 0 : unsigned(random() % 24);
      unsigned percents[] = {0, 10, 50, 100};
      writePercent = percents[random() % 4];
      if (random() % 64 == 0)
        cycle += random() % 50000;
    }
    --phase;
    uint64_t burst = pattern == 0 ? stream++ : pattern == 1 ? random() : hot + random() % 4 * 997 + random() % 64;
    cycle += gap ? random() % gap : 0;
    requests.push_back({requests.size(), burst % bursts * params.burstBytes, random() % 100 < writePercent, cycle});
  }
  return requests;
}

/// Drives a DRAM as an event-driven simulator does: submit in the arrival cycle, advance when a decision is due.
inline std::vector<DramCompletion> drive(DramTiming &dram, const std::vector<DramRequest> &requests) {
  std::vector<DramCompletion> completions;
  for (const DramRequest &request : requests) {
    for (Cycle due; (due = dram.nextDecisionCycle()) < request.arrivalCycle;)
      dram.advance(due, completions);
    if (auto completion = dram.submit(request))
      completions.push_back(*completion);
  }
  for (Cycle due; (due = dram.nextDecisionCycle()) != kNever;)
    dram.advance(due, completions);
  std::sort(completions.begin(), completions.end(),
            [](const DramCompletion &a, const DramCompletion &b) { return a.id < b.id; });
  return completions;
}

struct Case {
  std::string machine;
  std::vector<std::string> overrides;
};

/// Both controllers with every device, refresh and number of ranks.
inline std::vector<Case> cases() {
  std::vector<Case> all;
  for (const char *controller : {"in_order", "windowed"})
    for (const std::vector<std::string> &device :
         std::vector<std::vector<std::string>>{{"device=ddr4_2400"},
                                               {"device=ddr4_2400", "ranks=2", "channels=2"},
                                               {"device=lpddr4_3200"},
                                               {"device=lpddr4_3200", "refresh=per_bank", "ranks=2"},
                                               {"device=hbm2"},
                                               {"device=hbm2", "refresh=per_bank"},
                                               {"device=ddr5_4800"},
                                               {"device=lpddr5_6400"},
                                               {"device=lpddr5_6400", "refresh=per_bank"},
                                               {"device=hbm3"},
                                               {"device=hbm3", "refresh=per_bank"}}) {
      Case one{"gemmini_16x16_int8", {std::string("dram.controller=") + controller}};
      for (const std::string &key : device)
        one.overrides.push_back("dram." + key);
      all.push_back(one);
    }
  return all;
}

inline std::string nameOf(const testing::TestParamInfo<Case> &info) {
  std::string name;
  for (const std::string &override : info.param.overrides)
    name += (name.empty() ? "" : "_") + override.substr(override.find('=') + 1);
  return name;
}

} // namespace tw::test

#endif // TESTS_TIMING_DRAM_RANDOMREQUESTS_H
