//===- KernelVariations.cpp - Other values for the knobs of a kernel -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/KnobChanges.h"

#include "llvm/Support/MathExtras.h"

using namespace tw;
using namespace tw::explore;
using accel::Anchor, accel::C, accel::Kernel, accel::P0, accel::P1, accel::P2;
using plan::KernelPlan, plan::KnobInfo, plan::Split;

namespace {
constexpr int64_t kMultiples[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32}; ///< of the array's rows or columns, or of the lanes
constexpr int64_t kParts[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32}; ///< of an axis of positions
constexpr int64_t kSplitTiles[] = {1, 2, 3, 4, 5, 6, 8, 10, 12};
constexpr int64_t kMostSplitParts = 6;
constexpr int64_t kBankBorders = 16; ///< places for buffers begin and end at most at so many

class Variations {
public:
  Variations(const Problem &problem, size_t layer, const KernelPlan &chosen)
      : chosen(chosen), kernel(*problem.layers[layer].kernel), machine(problem.machine), layer(layer) {}

  std::vector<KnobChange> list() {
    KernelPlan::forEachKnob([&](const KnobInfo &info, auto member) {
      if (plan::isSet(chosen.*member) && !plan::isSet(kernel.plan.*member))
        addListed(info, member);
    });
    addTiles();
    addSplits();
    addPlaces();
    addArrayChannels();
    return std::move(variations);
  }

private:
  const KernelPlan &chosen;
  const Kernel &kernel;
  const timing::MachineParams &machine;
  const size_t layer;
  std::vector<KnobChange> variations;

  bool isContraction() const { return kernel.anchor && kernel.anchor->kind == Anchor::Contraction; }

  KnobChange &begin(const std::string &name) {
    variations.push_back({unsigned(layer), name + " of " + kernel.name, {}});
    return variations.back();
  }

  /// The values of `values` that differ from the chosen one; `field` returns the knob of a plan.
  template <typename Values, typename Field> void add(const std::string &name, const Values &values, Field field) {
    KernelPlan own = chosen;
    KnobChange &change = begin(name);
    for (const auto &value : values)
      if (!(field(own) == value))
        change.values.push_back([field, value, layer = layer](plan::NetworkPlan &plan) { field(plan.kernels[layer]) = value; });
    if (change.values.empty())
      variations.pop_back();
  }

  // Knobs whose values Knobs.td lists.
  void addListed(const KnobInfo &info, std::optional<bool> KernelPlan::*knob) {
    if (info.candidates == KnobInfo::All)
      add(
          info.name, std::array<bool, 2>{false, true}, [knob](KernelPlan & plan) -> auto & { return plan.*knob; });
  }
  template <typename T, std::enable_if_t<std::is_enum_v<T>, int> = 0>
  void addListed(const KnobInfo &info, std::optional<T> KernelPlan::*knob) {
    std::vector<T> values;
    for (size_t value = 0; value < info.spellings.size(); ++value)
      values.push_back(T(value));
    if (info.candidates == KnobInfo::All)
      add(
          info.name, values, [knob](KernelPlan & plan) -> auto & { return plan.*knob; });
  }
  void addListed(const KnobInfo &info, int64_t KernelPlan::*knob) {
    if (info.candidates == KnobInfo::Numbers)
      add(
          info.name, info.numbers, [knob](KernelPlan & plan) -> auto & { return plan.*knob; });
  }
  template <typename T> void addListed(const KnobInfo &, T) {}

  static std::vector<int64_t> multiples(int64_t unit, int64_t extent) {
    std::vector<int64_t> all;
    for (int64_t multiple : kMultiples)
      if (multiple * unit < extent)
        all.push_back(multiple * unit);
    all.push_back(int64_t(llvm::alignTo(uint64_t(extent), uint64_t(unit))));
    return all;
  }

  void addTiles() {
    const KernelPlan &asked = kernel.plan;
    auto size = [](unsigned axis) { return [axis](KernelPlan &plan) -> int64_t & { return plan.tile[axis]; }; };
    if (!asked.tile[C])
      add("tile channels",
          multiples(isContraction() ? machine.cols : machine.lanes, isContraction() ? kernel.anchor->oc : kernel.extent[C]),
          size(C));
    for (unsigned axis : {P0, P1, P2}) {
      const bool isFixed = (kernel.pool && axis != P2) || (kernel.anchor && kernel.anchor->batchAxis == axis);
      if (kernel.extent[axis] == 1 || isFixed || asked.tile[axis])
        continue;
      std::vector<int64_t> sizes;
      for (int64_t parts : kParts)
        if (int64_t one = int64_t(llvm::divideCeil(kernel.extent[axis], parts)) * (axis == P0 ? kernel.outputsPerVector : 1);
            sizes.empty() || one < sizes.back())
          sizes.push_back(one);
      add(axis == P0 ? "tile width" : axis == P1 ? "tile height" : "tile images", sizes, size(axis));
    }
    if (chosen.tileK && !asked.tileK && chosen.tileK % machine.rows == 0)
      add(
          "tile_k", multiples(machine.rows, kernel.anchor->ic), [](KernelPlan & plan) -> auto & { return plan.tileK; });
  }

  void addSplits() {
    if (!kernel.isProductOfRows())
      return;
    std::vector<std::optional<Split>> splits{std::nullopt};
    for (int64_t tiles : kSplitTiles)
      for (int64_t parts = 2; parts <= std::min(kMostSplitParts, kernel.extent[P0]); ++parts)
        splits.push_back(Split{tiles, int64_t(llvm::divideCeil(kernel.extent[P0], parts))});
    if (!kernel.plan.firstSplit)
      add(
          "first_split", splits, [](KernelPlan & plan) -> auto & { return plan.firstSplit; });
    if (!kernel.plan.lastSplit)
      add(
          "last_split", splits, [](KernelPlan & plan) -> auto & { return plan.lastSplit; });
  }

  /// Banks of its own, or a place behind the kernel before or at the begin of the memories: one of these at a time.
  void addPlaces() {
    if ((!chosen.banks && !chosen.afterPrevious) || kernel.plan.banks || kernel.plan.afterPrevious)
      return;
    KnobChange &place = begin("banks");
    auto add = [&](std::optional<plan::Banks> banks, std::optional<bool> afterPrevious) {
      if (banks != chosen.banks || afterPrevious != chosen.afterPrevious)
        place.values.push_back([=, layer = layer](plan::NetworkPlan &plan) {
          plan.kernels[layer].banks = banks;
          plan.kernels[layer].afterPrevious = afterPrevious;
        });
    };
    for (bool afterPrevious : {false, true})
      add(std::nullopt, afterPrevious);
    const int64_t banks = machine.scratchpads[0].banks, step = std::max<int64_t>(1, banks / kBankBorders);
    for (int64_t first = 0; first < banks; first += step)
      for (int64_t end = first + step; end <= banks; end += step)
        add({{first, end}}, std::nullopt);
  }

  void addArrayChannels() {
    if (!chosen.arrayChannels || kernel.plan.arrayChannels)
      return;
    std::vector<int64_t> channels;
    for (int64_t all = 0; all <= kernel.extent[C]; all += machine.lanes)
      channels.push_back(all);
    add(
        "array_channels", channels, [](KernelPlan & plan) -> auto & { return plan.arrayChannels; });
  }
};
} // namespace

std::vector<KnobChange> explore::variationsOf(const Problem &problem, size_t layer, const KernelPlan &chosen) {
  return Variations(problem, layer, chosen).list();
}
