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

struct Profile {
  RunReport report; ///< of one program, with what a timeline needs
  isa::Program program;
  std::vector<stats::Loss> losses; ///< stats::losses()
  std::vector<WhatIf> whatIfs;
};

/// Another machine for the same program, with the settings that make it.
struct TimingChange {
  std::string name, settings;
  timing::MachineParams machine;
};
/// Twice the DRAM's bandwidth (of devices: twice the channels) and half its latency.
std::vector<TimingChange> timingChanges(const timing::MachineParams &machine);

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
