//===- RandomPlan.h - Plans with any knobs -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_UNIT_PLAN_RANDOMPLAN_H
#define TESTS_UNIT_PLAN_RANDOMPLAN_H

#include "compiler/plan/NetworkPlan.h"

#include <random>

namespace tw::plan {

using Random = std::mt19937_64;

// any(): some value of a knob, never the one that leaves it open.

inline int64_t numberUpTo(int64_t most, Random &random) { return 1 + int64_t(random() % uint64_t(most)); }
inline void any(const KnobInfo &, int64_t &value, Random &random) { value = numberUpTo(1 << 20, random); }
inline void any(const KnobInfo &, std::optional<bool> &value, Random &random) { value = random() % 2 == 0; }
inline void any(const KnobInfo &, std::optional<int64_t> &value, Random &random) { value = numberUpTo(100, random) - 1; }
inline void any(const KnobInfo &, Sizes &value, Random &random) {
  value[random() % value.size()] = numberUpTo(512, random); // the others are open
}
inline void any(const KnobInfo &, std::optional<Banks> &value, Random &random) {
  const int64_t first = numberUpTo(16, random) - 1;
  value = Banks{first, first + numberUpTo(16, random)};
}
inline void any(const KnobInfo &, std::optional<Split> &value, Random &random) {
  value = Split{numberUpTo(8, random), numberUpTo(64, random)};
}
template <typename T> void any(const KnobInfo &info, std::optional<T> &value, Random &random) {
  value = T(random() % info.spellings.size());
}

/// About every second knob is set. Knobs that exclude each other may be.
template <typename Plan> Plan randomPlan(Random &random) {
  Plan plan;
  Plan::forEachKnob([&](const KnobInfo &info, auto member) {
    if (random() % 2)
      any(info, plan.*member, random);
  });
  return plan;
}

/// One that a plan file may hold.
inline KernelPlan randomValidPlan(Random &random) {
  KernelPlan plan = randomPlan<KernelPlan>(random);
  if (!plan.onChip.value_or(false))
    plan.rowTile = 0;
  if (!plan.onChip.value_or(false) || plan.rowTile) {
    plan.onChipFrom = 0;
    plan.placedFirst.reset();
  }
  return plan;
}

} // namespace tw::plan

#endif // TESTS_UNIT_PLAN_RANDOMPLAN_H
