//===- KernelPlan.h - The schedule of one kernel -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel plan may be partial: a knob that is open stays the compiler's
// choice. The plan that a compiled program reports is complete: compiling from
// it makes the same program.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PLAN_KERNELPLAN_H
#define COMPILER_PLAN_KERNELPLAN_H

#include "compiler/plan/Knobs.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace tw::plan {

/// Where a file sets a knob: "file:line:column" by the knob's name.
using KnobPlaces = std::map<std::string, std::string>;

struct NetworkKnobs;

struct KernelPlan {
#define GET_KERNEL_KNOB_FIELDS
#include "compiler/plan/Knobs.inc"

  /// Where a plan file sets the knobs; null: the compiler has set them. No part of the plan's value.
  std::shared_ptr<const KnobPlaces> places;

  /// Calls visit(info, member) for every knob, in the order of Knobs.td.
  template <typename Visit> static void forEachKnob(Visit visit) {
    const std::vector<KnobInfo> &infos = knobs();
#define GET_KERNEL_KNOB_VISITS
#include "compiler/plan/Knobs.inc"
  }
  static const std::vector<KnobInfo> &knobs();

  bool operator==(const KernelPlan &other) const;
  bool operator!=(const KernelPlan &other) const { return !(*this == other); }
  /// Whether a knob is set that says which tiles the kernel takes, or how its buffers lie: what a kernel without tiles cannot have.
  bool hasTileKnobs() const;
  /// "place: " of the first of these knobs that a file sets; empty if there is none.
  std::string placeOf(std::initializer_list<const char *> names) const;
  /// "place: " of any knob that a file sets.
  std::string place() const;
  /// Takes the knobs that `other` sets.
  void take(const KernelPlan &other);
  /// The knobs that tell kinds of kernels apart (accel::Kernel::kind); the others are open.
  KernelPlan kindKnobs() const;
  /// This plan, where open knobs have the value of the network knob that stands in for them.
  KernelPlan under(const NetworkKnobs &network) const;
};

/// The set knobs as "name = value, name = value", in the order of Knobs.td. Equal plans have equal texts.
std::string print(const KernelPlan &plan);

} // namespace tw::plan

#endif // COMPILER_PLAN_KERNELPLAN_H
