//===- KnobChanges.cpp - What of a plan could be otherwise -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/KnobChanges.h"

#include "compiler/explore/strategies/Neighbours.h"

#include <set>

using namespace tw;
using namespace tw::explore;
using plan::KernelPlan, plan::NetworkPlan;

namespace {
/// Rows of a row tile.
constexpr int64_t kRowTiles[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64};
/// Where no neighbour has any.
constexpr int64_t kFirstRowTiles[] = {1, 2, 4, 8};
constexpr ptrdiff_t kNearRowTiles = 3; ///< fewer and more rows than chosen
constexpr int64_t kMoreSlots = 2;
/// Where a layer's room may be cut in two, so that it and its neighbours share no bank: its own is the upper part.
constexpr double kBankSplits[] = {0.625, 0.8125, 0.75, 0.5};

int64_t rowTileOf(const Problem &problem, const NetworkPlan &chosen, size_t layer) {
  return layer < chosen.kernels.size() && chosen.kernels[layer].onChip && !problem.layers[layer].kernel->plan.onChip
             ? chosen.kernels[layer].rowTile
             : 0;
}

/// The end of the fusion group that begins with this layer's result, none of which is asked for; the layer itself: there is none.
size_t endOfGroup(const Problem &problem, const NetworkPlan &chosen, size_t layer) {
  const int64_t rows = rowTileOf(problem, chosen, layer);
  size_t end = layer;
  if (layer == 0 || rowTileOf(problem, chosen, layer - 1) != rows)
    while (rowTileOf(problem, chosen, end) && rowTileOf(problem, chosen, end) == rows)
      ++end;
  return end;
}

std::function<void(NetworkPlan &)> setRowTiles(size_t begin, size_t end, int64_t rows) {
  return [=](NetworkPlan &plan) {
    for (size_t i = begin; i < end; ++i) {
      plan.kernels[i].onChip = true;
      plan.kernels[i].rowTile = rows;
    }
  };
}

/// Where results stay: in DRAM, on chip as a whole, or in row tiles, as high as those beside them.
void addStays(const Problem &problem, const NetworkPlan &chosen, std::vector<KnobChange> &changes) {
  for (size_t i = 0; i < chosen.kernels.size(); ++i) {
    const KernelPlan &own = chosen.kernels[i];
    if (!own.onChip || problem.layers[i].kernel->plan.onChip)
      continue;
    std::set<int64_t> rowTiles{rowTileOf(problem, chosen, i), i ? rowTileOf(problem, chosen, i - 1) : 0,
                               rowTileOf(problem, chosen, i + 1), 0};
    if (rowTiles.size() == 1)
      rowTiles.insert(std::begin(kFirstRowTiles), std::end(kFirstRowTiles));
    KnobChange change{unsigned(i), "result of " + problem.layers[i].kernel->name, {}};
    for (int64_t rows : rowTiles)
      for (bool stays : {false, true})
        if ((stays || !rows) && (*own.onChip != stays || own.rowTile != rows))
          change.values.push_back([=](NetworkPlan &plan) {
            KernelPlan &kernel = plan.kernels[i];
            kernel.onChip = stays;
            kernel.rowTile = rows;
            kernel.onChipFrom = 0;
            if (rows || !stays)
              kernel.placedFirst.reset();
          });
    changes.push_back(std::move(change));
  }
}

/// The row tiles of a fusion group at once.
void addRowTiles(const Problem &problem, const NetworkPlan &chosen, std::vector<KnobChange> &changes) {
  for (size_t begin = 0, end; begin < chosen.kernels.size(); begin = std::max(end, begin + 1)) {
    end = endOfGroup(problem, chosen, begin);
    if (end == begin)
      continue;
    KnobChange change{unsigned(begin), "row tiles from " + problem.layers[begin].kernel->name, {}};
    for (int64_t rows : kRowTiles)
      if (rows != rowTileOf(problem, chosen, begin))
        change.values.push_back(setRowTiles(begin, end, rows));
    changes.push_back(std::move(change));
  }
}

void addNetworkKnobs(const Problem &problem, const NetworkPlan &chosen, std::vector<KnobChange> &changes) {
  plan::NetworkKnobs::forEachKnob([&](const plan::KnobInfo &info, auto member) {
    using Value = std::decay_t<decltype(*(chosen.network.*member))>;
    if constexpr (std::is_enum_v<Value>) {
      if (problem.asked.*member || !(chosen.network.*member))
        return;
      KnobChange change{std::nullopt, info.name, {}};
      for (size_t value = 0; value < info.spellings.size(); ++value)
        if (chosen.network.*member != Value(value))
          change.values.push_back([member, value](NetworkPlan &plan) { plan.network.*member = Value(value); });
      changes.push_back(std::move(change));
    }
  });
}

/// A kernel's buffers behind those of the one before or at the begin of the memories, or in banks that its neighbours leave.
KnobChange placesOf(const Problem &problem, const Outcome &outcome, size_t layer) {
  const accel::Kernel &kernel = *problem.layers[layer].kernel;
  KnobChange change{unsigned(layer), "place of " + kernel.name, {}};
  const timing::MemoryParams &scratchpad = problem.machine.scratchpads[0];
  if (!problem.overlapsKernels || scratchpad.banks <= 1 || !kernel.copies.empty() || kernel.plan.banks ||
      kernel.plan.afterPrevious)
    return change;
  const bool isBehind = outcome.chosen.kernels[layer].afterPrevious.value_or(true);
  change.values.push_back([=](NetworkPlan &plan) {
    plan.kernels[layer].banks.reset();
    plan.kernels[layer].afterPrevious = !isBehind;
  });
  const int64_t room = layer < outcome.room.size() ? outcome.room[layer] : int64_t(scratchpad.capacityBytes);
  const int64_t banks = room / int64_t(scratchpad.bankBytes());
  for (double share : kBankSplits) {
    const int64_t at = int64_t(share * double(banks));
    if (at <= 0 || at >= banks)
      continue;
    change.values.push_back([=](NetworkPlan &plan) {
      plan.kernels[layer].banks = plan::Banks{at, banks};
      plan.kernels[layer].afterPrevious.reset();
      for (size_t other : {layer - 1, layer + 1})
        if (other < plan.kernels.size() && !plan.kernels[other].banks && !plan.kernels[other].afterPrevious)
          plan.kernels[other].banks = plan::Banks{0, at};
    });
  }
  return change;
}

KnobChange overlapsWithNeighbours(const Problem &problem, const Outcome &outcome, size_t layer) {
  KnobChange change{unsigned(layer), "neighbours of " + problem.layers[layer].kernel->name, {}};
  std::vector<NeighbourOverlap> overlaps;
  if (problem.overlapsKernels) {
    llvm::append_range(overlaps, overlapsOf(problem, layer));
    const llvm::SmallVector<int64_t> last = splitTilesOf(problem, layer, true), first = splitTilesOf(problem, layer, false);
    for (int64_t tiles : last)
      overlaps.push_back(Splits{tiles, 0});
    for (int64_t tiles : first)
      overlaps.push_back(Splits{0, tiles});
    for (int64_t tiles : last)
      if (llvm::is_contained(first, tiles))
        overlaps.push_back(Splits{tiles, tiles});
  }
  for (const NeighbourOverlap &overlap : overlaps)
    change.values.push_back([=, &problem, room = outcome.room](NetworkPlan &plan) {
      clearOverlap(layer, problem, plan);
      apply(overlap, layer, problem, room, plan);
    });
  change.reach = !overlaps.empty(); // the next layer's tile changes too
  return change;
}

/// Far from what was chosen, other fusion groups would be.
KnobChange nearRowTiles(const Problem &problem, const Outcome &outcome, size_t layer) {
  KnobChange change{unsigned(layer), "row tiles from " + problem.layers[layer].kernel->name, {}};
  change.isProbed = true;
  const size_t end = endOfGroup(problem, outcome.chosen, layer);
  change.reach = unsigned(end - layer);
  if (end == layer || !accel::packsTaps(*problem.layers[layer].kernel, problem.machine))
    return change;
  const int64_t *own = llvm::lower_bound(kRowTiles, outcome.chosen.kernels[layer].rowTile);
  const int64_t *above = own + (own != std::end(kRowTiles) && *own == outcome.chosen.kernels[layer].rowTile);
  for (const int64_t *rows = own - std::min<ptrdiff_t>(kNearRowTiles, own - std::begin(kRowTiles)); rows != own; ++rows)
    change.values.push_back(setRowTiles(layer, end, *rows));
  for (const int64_t *rows = above; rows != above + std::min<ptrdiff_t>(kNearRowTiles, std::end(kRowTiles) - above); ++rows)
    change.values.push_back(setRowTiles(layer, end, *rows));
  return change;
}

KnobChange deeperBuffers(const Problem &problem, const Outcome &outcome, size_t layer) {
  const accel::Kernel &kernel = *problem.layers[layer].kernel;
  KnobChange change{unsigned(layer), "depth of " + kernel.name, {}};
  if (const int64_t depth = outcome.chosen.kernels[layer].depth; depth && problem.overlapsKernels && !kernel.plan.depth)
    for (int64_t more = 1; more <= kMoreSlots; ++more)
      change.values.push_back([=](NetworkPlan &plan) { plan.kernels[layer].depth = depth + more; });
  return change;
}

/// A kernel by itself streams as fast in one loop order as in another: what they bring is known beside its neighbours only.
KnobChange otherLoops(const Problem &problem, const Outcome &outcome, size_t layer) {
  const Layer &l = problem.layers[layer];
  KnobChange change{unsigned(layer), "form of " + l.kernel->name, {}};
  const KernelPlan &chosen = outcome.chosen.kernels[layer], &asked = l.kernel->plan;
  if (!problem.overlapsKernels || !l.isContraction() || (asked.stationary && asked.loopOrder) ||
      accel::isKOuter(chosen.loopOrder))
    return change;
  for (plan::LoopOrder order : {plan::LoopOrder::PositionsOuter, plan::LoopOrder::ChannelsOuter})
    for (unsigned stationary = 0; stationary <= unsigned(plan::Stationary::Resident); ++stationary)
      if (order != chosen.loopOrder || plan::Stationary(stationary) != chosen.stationary)
        change.values.push_back([=](NetworkPlan &plan) {
          plan.kernels[layer].loopOrder = order;
          plan.kernels[layer].stationary = plan::Stationary(stationary);
        });
  return change;
}
} // namespace

std::vector<KnobChange> explore::variationsOf(const Problem &problem, const NetworkPlan &chosen) {
  std::vector<KnobChange> changes;
  for (size_t i = 0; i < chosen.kernels.size(); ++i)
    llvm::append_range(changes, variationsOf(problem, i, chosen.kernels[i]));
  addStays(problem, chosen, changes);
  addRowTiles(problem, chosen, changes);
  addNetworkKnobs(problem, chosen, changes);
  return changes;
}

std::vector<KnobChange> explore::likelyChanges(const Problem &problem, const Outcome &outcome,
                                               llvm::ArrayRef<std::vector<KernelPlan>> alternatives) {
  std::vector<KnobChange> changes;
  const size_t count = problem.layers.size();
  for (size_t i = 0; i < count; ++i) {
    KnobChange change{unsigned(i), problem.layers[i].kernel->name, {}};
    for (const KernelPlan &tile : i < alternatives.size() ? alternatives[i] : std::vector<KernelPlan>())
      change.values.push_back([=](NetworkPlan &plan) { plan.kernels[i].take(tile); });
    changes.push_back(std::move(change));
  }
  if (count == 1)
    return changes;
  auto addEach = [&](auto make) {
    for (size_t i = 0; i < count; ++i)
      changes.push_back(make(problem, outcome, i));
  };
  addEach(placesOf);
  if (problem.keepsResults)
    addStays(problem, outcome.chosen, changes);
  addEach(overlapsWithNeighbours);
  addEach(nearRowTiles);
  addEach(deeperBuffers);
  addEach(otherLoops);
  return changes;
}
