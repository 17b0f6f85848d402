//===- Profile.h - Where the tensor engine's cycles went --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_PROFILE_H
#define RUNTIME_PROFILE_H

#include "runtime/Report.h"
#include "simulator/stats/Losses.h"

namespace tw::runtime {

/// The same network under other circumstances.
struct WhatIf {
  std::string name;
  /// Settings as --set takes them, or what was done.
  std::string how;
  bool simulated = true;
  /// Nothing: it could not be done, and `how` says why.
  std::optional<uint64_t> cycles;
};

/// How far the compiler's estimates are from the simulation, over the instructions of one engine: simulated less planned start.
struct EnginePlan {
  unsigned engine = 0; ///< stats::engineNumber()
  uint64_t instructions = 0;
  uint64_t median = 0, ninetieth = 0, largest = 0; ///< of the magnitudes, cycles
  int64_t drift = 0;                               ///< of the last instruction
};

/// Cycles from the first start of a tensor, vector or store instruction of a layer to the last one's. Loads run ahead.
struct LayerPlan {
  uint32_t layer = 0;
  uint64_t planned = 0, simulated = 0;
};

struct Profile {
  RunReport report; ///< of one program, with what a timeline needs
  isa::Program program;
  std::vector<stats::Loss> losses; ///< stats::losses()
  std::vector<WhatIf> whatIfs;
  /// Both empty where the compiler planned no starts.
  std::vector<EnginePlan> enginePlans;
  std::vector<LayerPlan> layerPlans;
};

/// Another machine for the same program, with the settings that make it.
struct TimingChange {
  std::string name, settings;
  timing::MachineParams machine;
};
/// Twice the DRAM's bandwidth (of devices: twice the channels) and half its latency.
std::vector<TimingChange> timingChanges(const timing::MachineParams &machine);

/// Fills enginePlans and layerPlans; see Step::plannedStarts.
void compareWithPlan(Profile &profile, const std::vector<std::vector<uint64_t>> &plannedStarts);

/// What a row waits for, in words.
std::string causeText(const stats::LossCause &cause, const isa::Program &program);
/// What would shorten or remove it.
std::string remedyText(const stats::LossCause &cause);

/// What `profile` prints: at most `top` rows of each table.
std::string tables(const Profile &profile, size_t top);
/// The document of `profile --json`, with all rows.
std::string toJson(const Profile &profile);

} // namespace tw::runtime

#endif // RUNTIME_PROFILE_H
