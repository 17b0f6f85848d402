//===- NetworkPlan.h - The schedule of a network -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The knobs of the whole network and a plan for each kernel. Exploration, plan
// file and code generation share this one object.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PLAN_NETWORKPLAN_H
#define COMPILER_PLAN_NETWORKPLAN_H

#include "compiler/plan/KernelPlan.h"

#include <string>
#include <vector>

namespace tw::plan {

/// How the tiles of a kernel, and the kernels of a network, follow one another.
enum class Schedule : uint8_t {
  Serial,       ///< one buffer per operand, no two engines overlap
  DoubleBuffer, ///< up to two buffers per streamed operand, loads one tile ahead
  Pipelined,    ///< list scheduling across kernels, with as many buffers as pay
  Search,       ///< the same, with plans that were found by running programs
};

/// Spellings on the command line and in plan files, in the order of the enumeration.
constexpr const char *kScheduleNames[] = {"serial", "double_buffer", "pipelined", "search"};
inline const char *nameOf(Schedule schedule) { return kScheduleNames[unsigned(schedule)]; }
std::optional<Schedule> scheduleNamed(const std::string &name);

/// Whether kernels of this schedule run side by side: only these have network knobs.
constexpr bool overlapsKernels(Schedule schedule) { return schedule == Schedule::Pipelined || schedule == Schedule::Search; }

struct NetworkKnobs {
#define GET_NETWORK_KNOB_FIELDS
#include "compiler/plan/Knobs.inc"

  /// Calls visit(info, member) for every knob, in the order of Knobs.td.
  template <typename Visit> static void forEachKnob(Visit visit) {
    const std::vector<KnobInfo> &infos = knobs();
#define GET_NETWORK_KNOB_VISITS
#include "compiler/plan/Knobs.inc"
  }
  static const std::vector<KnobInfo> &knobs();

  bool operator==(const NetworkKnobs &other) const;
  bool operator!=(const NetworkKnobs &other) const { return !(*this == other); }
  /// These knobs, and the default of every open one.
  NetworkKnobs withDefaults() const;
};

std::string print(const NetworkKnobs &knobs);

struct NetworkPlan {
  NetworkKnobs network;
  std::vector<KernelPlan> kernels; ///< per layer; empty: all are open

  bool operator==(const NetworkPlan &other) const { return network == other.network && kernels == other.kernels; }
  bool operator!=(const NetworkPlan &other) const { return !(*this == other); }
};

/// A text that equal plans share, and no others.
std::string keyOf(const NetworkPlan &plan);

} // namespace tw::plan

#endif // COMPILER_PLAN_NETWORKPLAN_H
