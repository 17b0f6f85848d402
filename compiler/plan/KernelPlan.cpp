//===- KernelPlan.cpp - Comparing and printing plans -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/plan/KernelPlan.h"
#include "compiler/plan/NetworkPlan.h"

#include <type_traits>

using namespace tw;
using namespace tw::plan;

namespace {
std::string text(const KnobInfo &, bool value) { return value ? "true" : "false"; }
std::string text(const KnobInfo &, int64_t value) { return std::to_string(value); }
std::string text(const KnobInfo &, const Split &value) {
  return "[" + std::to_string(value.tiles) + ", " + std::to_string(value.positions) + "]";
}
template <size_t N> std::string text(const KnobInfo &, const std::array<int64_t, N> &values) {
  std::string result = "[";
  for (size_t i = 0; i < N; ++i)
    result += (i ? ", " : "") + std::to_string(values[i]);
  return result + "]";
}
template <typename T, std::enable_if_t<std::is_enum_v<T>, int> = 0> std::string text(const KnobInfo &info, T value) {
  return "\"" + std::string(info.spellings[size_t(value)]) + "\"";
}
template <typename T> std::string text(const KnobInfo &info, const std::optional<T> &value) {
  return value ? text(info, *value) : "open";
}

template <typename Plan> bool areEqual(const Plan &a, const Plan &b) {
  bool equal = true;
  Plan::forEachKnob([&](const KnobInfo &, auto member) { equal = equal && a.*member == b.*member; });
  return equal;
}

template <typename Plan> std::string printSet(const Plan &plan) {
  std::string result;
  Plan::forEachKnob([&](const KnobInfo &info, auto member) {
    if (isSet(plan.*member))
      result += (result.empty() ? "" : ", ") + std::string(info.name) + " = " + text(info, plan.*member);
  });
  return result;
}

template <typename T> void setDefault(const KnobInfo &info, std::optional<T> &value) {
  if (value)
    return;
  if constexpr (std::is_same_v<T, bool>) {
    value = std::string(info.defaultValue) == "true";
  } else {
    for (size_t i = 0; i < info.spellings.size(); ++i)
      if (std::string(info.spellings[i]) == info.defaultValue)
        value = T(i);
  }
}
} // namespace

const std::vector<KnobInfo> &KernelPlan::knobs() {
  static const std::vector<KnobInfo> infos = {
#define GET_KERNEL_KNOB_INFOS
#include "compiler/plan/Knobs.inc"
  };
  return infos;
}

const std::vector<KnobInfo> &NetworkKnobs::knobs() {
  static const std::vector<KnobInfo> infos = {
#define GET_NETWORK_KNOB_INFOS
#include "compiler/plan/Knobs.inc"
  };
  return infos;
}

bool KernelPlan::operator==(const KernelPlan &other) const { return areEqual(*this, other); }
bool NetworkKnobs::operator==(const NetworkKnobs &other) const { return areEqual(*this, other); }

bool KernelPlan::hasTileKnobs() const {
  bool has = false;
  forEachKnob([&](const KnobInfo &info, auto member) { has = has || (info.needsTiles && isSet(this->*member)); });
  return has;
}

std::string KernelPlan::placeOf(std::initializer_list<const char *> names) const {
  if (places)
    for (const char *name : names)
      if (auto place = places->find(name); place != places->end())
        return place->second + ": ";
  return "";
}

std::string KernelPlan::place() const { return places && !places->empty() ? places->begin()->second + ": " : ""; }

void KernelPlan::take(const KernelPlan &other) {
  forEachKnob([&](const KnobInfo &, auto member) {
    if (isSet(other.*member))
      this->*member = other.*member;
  });
}

KernelPlan KernelPlan::kindKnobs() const {
  KernelPlan result;
  forEachKnob([&](const KnobInfo &info, auto member) {
    if (info.isOfKind)
      result.*member = this->*member;
  });
  return result;
}

KernelPlan KernelPlan::under(const NetworkKnobs &network) const {
  KernelPlan plan = *this;
#define GET_KERNEL_KNOBS_FROM_NETWORK
#include "compiler/plan/Knobs.inc"
  return plan;
}

NetworkKnobs NetworkKnobs::withDefaults() const {
  NetworkKnobs result = *this;
  forEachKnob([&](const KnobInfo &info, auto member) { setDefault(info, result.*member); });
  return result;
}

std::optional<plan::Schedule> plan::scheduleNamed(const std::string &name) {
  for (unsigned i = 0; i < std::size(kScheduleNames); ++i)
    if (name == kScheduleNames[i])
      return Schedule(i);
  return std::nullopt;
}

std::string plan::print(const KernelPlan &plan) { return printSet(plan); }
std::string plan::print(const NetworkKnobs &knobs) { return printSet(knobs); }

std::string plan::keyOf(const NetworkPlan &plan) {
  std::string key = print(plan.network);
  for (const KernelPlan &kernel : plan.kernels)
    key += "\n" + print(kernel);
  return key;
}
