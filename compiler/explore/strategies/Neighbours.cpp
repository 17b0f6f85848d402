//===- Neighbours.cpp - Kernels that overlap with their neighbours ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/strategies/Neighbours.h"
#include "compiler/cost/Constants.h"
#include "compiler/explore/strategies/Strategies.h"

#include "llvm/Support/MathExtras.h"

using namespace tw;
using namespace tw::explore;
using accel::C, accel::P0, accel::P1, accel::P2;

namespace {
constexpr int64_t kMostParts = 4; ///< of the positions that go through some tiles before others
constexpr size_t kMostLayers = 3; ///< that try halves, one by one
constexpr size_t kMostAlone = 64; ///< proposals of a strategy for single layers

int64_t ceilDiv(int64_t a, int64_t b) { return int64_t(llvm::divideCeil(a, b)); }

bool reducesChannels(const Layer &layer) {
  return llvm::any_of(layer.kernel->steps, [](const accel::Step &step) { return step.reducesChannels; });
}

/// Whether a plan says which tiles a kernel takes.
bool hasTile(const plan::KernelPlan &p) {
  return plan::isSet(p.tile) || p.tileK || p.loopOrder || p.pixelPacking || p.firstSplit || p.lastSplit;
}

/// So many channels move in whole bursts and have all rows of the array.
int64_t leastColumns(const timing::MachineParams &machine) {
  return std::max<int64_t>(machine.rows, machine.dram.burstBytes / timing::elementBytes(machine.arrayType));
}

/// For the weights of split tiles: each has a bank of its own, and so has what comes next.
int64_t splitSlots(const timing::MachineParams &machine) { return std::max(machine.scratchpads.back().banks / 2, 1u); }

/// So few that passes just hide their preloads, in parts that are about equal.
int64_t splitPositions(const Problem &problem, size_t layer) {
  const int64_t all = problem.layers[layer].kernel->extent[P0];
  const int64_t parts = std::clamp<int64_t>(all / accel::preloadCycles(problem.machine), 1, kMostParts),
                each = ceilDiv(all, parts);
  return each + each % 2;
}

/// A product whose passes of half of the positions hide their preloads, and whose tiles are open.
bool isProduct(const Problem &problem, size_t layer) {
  const timing::MachineParams &machine = problem.machine;
  const accel::Kernel &kernel = *problem.layers[layer].kernel;
  const int64_t least = 2 * ceilDiv(machine.rows, machine.preloadRowsPerCycle);
  return problem.layers[layer].isContraction() && !kernel.plan.tile[P0] && kernel.extent[P1] * kernel.extent[P2] == 1 &&
         kernel.extent[P0] >= least;
}

void splitProduct(const Problem &problem, size_t product, size_t layer, int64_t tiles,
                  std::optional<plan::Split> plan::KernelPlan::*split, plan::KernelPlan &plan) {
  const timing::MachineParams &machine = problem.machine;
  const accel::Kernel &kernel = *problem.layers[product].kernel;
  plan.tile[P0] = kernel.extent[P0];
  plan.*split = plan::Split{tiles, splitPositions(problem, layer)};
  const int64_t inputTiles = std::max<int64_t>(splitSlots(machine) / tiles, 1);
  plan.tileK = int64_t(llvm::alignTo(ceilDiv(kernel.anchor->ic, inputTiles), machine.rows));
  // A slot has a bank to itself: as many columns as that holds, as all other tiles have that width too.
  const int64_t columns = int64_t(machine.cols), bank = int64_t(machine.scratchpads.back().bankBytes());
  const int64_t most = bank / (plan.tileK * columns * timing::elementBytes(machine.arrayType)) * columns;
  const int64_t channelTiles = ceilDiv(kernel.anchor->oc, std::max(most, columns));
  plan.tile[C] = int64_t(llvm::alignTo(ceilDiv(kernel.anchor->oc, channelTiles), columns));
}

/// Layers whose kernels, and those of their neighbours, are of the same kinds, from the last class to the first.
std::vector<std::vector<size_t>> classesOf(const Problem &problem, llvm::function_ref<bool(size_t)> isMember) {
  std::map<std::string, std::vector<size_t>> byKind;
  for (size_t i = 0; i < problem.layers.size(); ++i) {
    if (!isMember(i))
      continue;
    std::string kinds;
    for (size_t other = i ? i - 1 : 0; other < std::min(i + 2, problem.layers.size()); ++other)
      kinds += problem.layers[other].kernel->kind + "\n";
    byKind[kinds].push_back(i);
  }
  std::vector<std::vector<size_t>> classes;
  for (auto &[kinds, members] : byKind)
    classes.push_back(std::move(members));
  llvm::sort(classes, [](const auto &a, const auto &b) { return a.back() > b.back(); });
  return classes;
}
} // namespace

llvm::SmallVector<NeighbourOverlap> explore::overlapsOf(const Problem &problem, size_t layer) {
  llvm::SmallVector<NeighbourOverlap> overlaps;
  const accel::Kernel &kernel = *problem.layers[layer].kernel;
  if (kernel.anchor || !kernel.copies.empty() || !problem.overlapsKernels)
    return overlaps;
  const bool reduces = reducesChannels(problem.layers[layer]);
  const bool before = reduces && layer && isProduct(problem, layer - 1) && problem.isReadBy(layer - 1, layer);
  const bool behind = layer + 1 < problem.layers.size() && isProduct(problem, layer + 1) &&
                      problem.isReadBy(layer, layer + 1) && problem.layers[layer + 1].kernel->extent[P0] == kernel.extent[P0] &&
                      !kernel.plan.tile[C];
  for (bool ownBanks : {true, false}) {
    if (before && ownBanks)
      overlaps.push_back(Halves{true, false, true, true});
    if (before)
      overlaps.push_back(Halves{true, false, ownBanks});
    if (behind)
      overlaps.push_back(Halves{false, true, ownBanks});
    if (before && behind)
      overlaps.push_back(Halves{true, true, ownBanks});
    const plan::KernelPlan *next = behind ? &problem.layers[layer + 1].kernel->plan : nullptr;
    if (behind && !reduces && !kernel.plan.tile[P0] && !next->tileK)
      for (int64_t channels : {2 * leastColumns(problem.machine), leastColumns(problem.machine)})
        for (bool kOuter : {false, true})
          if (!kOuter || !next->loopOrder)
            overlaps.push_back(ChannelBlocks{channels, kOuter, ownBanks});
  }
  return overlaps;
}

llvm::SmallVector<int64_t> explore::splitTilesOf(const Problem &problem, size_t layer, bool before) {
  const timing::MachineParams &machine = problem.machine;
  auto isHalved = [&](const NeighbourOverlap &overlap) {
    const Halves *halves = std::get_if<Halves>(&overlap);
    return halves && (before ? halves->withBefore : halves->withBehind);
  };
  // In a scratchpad for all operands, weights that stay take room that tensors have.
  if (machine.scratchpads.size() == 1 || !reducesChannels(problem.layers[layer]) ||
      llvm::none_of(overlapsOf(problem, layer), isHalved))
    return {};
  const accel::Kernel &own = *problem.layers[layer].kernel, &product = *problem.layers[before ? layer - 1 : layer + 1].kernel;
  if (hasTile(own.plan) || hasTile(product.plan))
    return {};
  // Blocks of columns that take the array as long as the layer takes the vector engine.
  const int64_t vectors = own.extent[P0] * ceilDiv(own.extent[C], machine.lanes) * int64_t(own.steps.size());
  const int64_t block = product.extent[P0] * ceilDiv(product.anchor->ic, machine.rows);
  llvm::SmallVector<int64_t> tiles;
  for (int64_t count = std::min({ceilDiv(product.anchor->oc, machine.cols), ceilDiv(vectors, block), splitSlots(machine)});
       count; count /= 2)
    tiles.push_back(count);
  return tiles;
}

void explore::apply(const NeighbourOverlap &overlap, size_t layer, const Problem &problem, llvm::ArrayRef<int64_t> room,
                    plan::NetworkPlan &plan) {
  const accel::Kernel &kernel = *problem.layers[layer].kernel;
  plan::KernelPlan &own = plan.kernels[layer];
  auto halve = [&](size_t product) {
    plan::KernelPlan &p = plan.kernels[product];
    p.tile[P0] = (problem.layers[product].kernel->extent[P0] + 1) / 2;
    p.loopOrder = p.loopOrder.value_or(plan::LoopOrder::PositionsOuter); // one half after the other
  };
  auto separate = [&](bool before, bool behind) {
    const timing::MemoryParams &scratchpad = problem.machine.scratchpads[0];
    int64_t bytes = int64_t(scratchpad.capacityBytes);
    for (size_t other = before ? layer - 1 : layer; other <= layer + behind && other < room.size(); ++other)
      bytes = std::min(bytes, room[other]);
    const int64_t banks = bytes / int64_t(scratchpad.bankBytes()), at = int64_t(cost::kProductRoom * double(banks));
    for (size_t other = before ? layer - 1 : layer; other <= layer + behind; ++other) {
      const plan::KernelPlan &asked = problem.layers[other].kernel->plan;
      const plan::Banks range = other == layer ? plan::Banks{at, banks} : plan::Banks{0, at};
      if (!asked.banks && !asked.afterPrevious && range[0] < range[1]) {
        plan.kernels[other].banks = range;
        plan.kernels[other].afterPrevious.reset();
      }
    }
  };
  if (const Halves *halves = std::get_if<Halves>(&overlap)) {
    if (halves->spillsFirstHalf) {
      plan::KernelPlan &writer = plan.kernels[layer - 1];
      writer.onChip = writer.placedFirst = true;
      writer.onChipFrom = (problem.layers[layer - 1].kernel->extent[P0] + 1) / 2;
    } else if (halves->withBefore) {
      halve(layer - 1);
    }
    if (halves->withBehind) {
      halve(layer + 1);
      own.tile[C] = kernel.extent[C]; // whole rows
    }
    if (halves->ownBanks)
      separate(halves->withBefore, halves->withBehind);
    if (halves->spreadsSecondHalf)
      own.spreadSecondHalf = true;
  } else if (const ChannelBlocks *blocks = std::get_if<ChannelBlocks>(&overlap)) {
    plan::KernelPlan &behind = plan.kernels[layer + 1];
    behind.tileK = std::min(blocks->channels, problem.layers[layer + 1].kernel->anchor->ic);
    if (blocks->kOuter)
      behind.loopOrder = plan::LoopOrder::KChannelsOuter;
    own.tile[C] = std::min(blocks->channels, kernel.extent[C]);
    if (blocks->channels > leastColumns(problem.machine)) // the fewest channels of as many positions as there is room for
      own.tile[P0] = kernel.extent[P0];
    if (blocks->ownBanks)
      separate(false, true);
  } else if (const Splits *splits = std::get_if<Splits>(&overlap)) {
    if (splits->lastTiles)
      splitProduct(problem, layer - 1, layer, splits->lastTiles, &plan::KernelPlan::lastSplit, plan.kernels[layer - 1]);
    if (splits->firstTiles)
      splitProduct(problem, layer + 1, layer, splits->firstTiles, &plan::KernelPlan::firstSplit, plan.kernels[layer + 1]);
    own.tile[P0] = splitPositions(problem, layer) / 2; // two tiles hide each other's latency
  }
}

void explore::clearOverlap(size_t layer, const Problem &problem, plan::NetworkPlan &plan) {
  for (size_t other = layer ? layer - 1 : 0; other <= layer + 1 && other < problem.layers.size(); ++other)
    plan.kernels[other] = problem.layers[other].kernel->plan;
}

/// The last layers first, as nothing can follow the very last one.
void explore::exploreNeighbourHalves(Exploration &e) {
  size_t tried = 0;
  for (size_t i = e.problem.layers.size(); i-- > 0 && tried < kMostLayers;) {
    const llvm::SmallVector<NeighbourOverlap> overlaps = overlapsOf(e.problem, i);
    tried += !overlaps.empty();
    const plan::NetworkPlan base = e.best().plan;
    const std::vector<int64_t> room = e.best().room;
    for (const NeighbourOverlap &overlap : overlaps) {
      plan::NetworkPlan next = base;
      apply(overlap, i, e.problem, room, next);
      e.propose(next);
    }
  }
}

/// Where the result of a product has no room as a whole, or DRAM no time for it: the first half goes through DRAM while the array makes
/// the second one, which stays. All layers of a class at once, then single ones.
void explore::exploreSpilledHalves(Exploration &e) {
  if (!e.problem.keepsResults)
    return;
  auto spilled = [&](size_t i) -> const Halves * {
    static thread_local llvm::SmallVector<NeighbourOverlap> overlaps;
    overlaps = overlapsOf(e.problem, i);
    for (const NeighbourOverlap &overlap : overlaps)
      if (const Halves *halves = std::get_if<Halves>(&overlap); halves && halves->spreadsSecondHalf)
        return halves;
    return nullptr;
  };
  auto isOne = [&](size_t i) { return i && !e.problem.layers[i - 1].kernel->plan.onChip && spilled(i); };
  size_t alone = 0;
  for (const std::vector<size_t> &members : classesOf(e.problem, isOne)) {
    auto with = [&](llvm::ArrayRef<size_t> some) {
      plan::NetworkPlan next = e.best().plan;
      std::vector<std::pair<size_t, Halves>> spills;
      for (size_t i : some)
        if (next.kernels[i] == e.problem.layers[i].kernel->plan) { // it overlaps with nothing yet
          spills.push_back({i, *spilled(i)});
          spills.back().second.spillsFirstHalf = true;
        }
      // Banks are divided in the room that the resident halves leave.
      for (auto [i, halves] : spills)
        apply(halves, i, e.problem, {}, next);
      const std::vector<int64_t> room = e.roomOf(next);
      for (auto [i, halves] : spills)
        apply(halves, i, e.problem, room, next);
      if (next != e.best().plan)
        e.propose(next);
    };
    if (members.size() > 1)
      with(members);
    for (size_t k = members.size(); k-- > 0 && alone < kMostAlone; ++alone)
      with(members[k]);
  }
}

void explore::exploreNeighbourSplits(Exploration &e) {
  size_t alone = 0;
  for (bool before : {true, false}) {
    auto isOne = [&](size_t i) { return !splitTilesOf(e.problem, i, before).empty(); };
    for (const std::vector<size_t> &members : classesOf(e.problem, isOne)) {
      auto with = [&](llvm::ArrayRef<size_t> some, const plan::NetworkPlan &base, int64_t tiles) {
        plan::NetworkPlan next = base;
        for (size_t i : some) {
          Splits splits;
          if (i && !before && base.kernels[i - 1].lastSplit)
            splits.lastTiles = base.kernels[i - 1].lastSplit->tiles;
          (before ? splits.lastTiles : splits.firstTiles) = tiles;
          clearOverlap(i, e.problem, next);
          apply(splits, i, e.problem, e.best().room, next);
        }
        e.propose(next);
      };
      if (members.size() > 1) {
        const plan::NetworkPlan base = e.best().plan;
        for (int64_t tiles : splitTilesOf(e.problem, members.front(), before))
          with(members, base, tiles);
      }
      for (size_t k = members.size(); k-- > 0 && alone < kMostAlone;) {
        const plan::NetworkPlan base = e.best().plan;
        for (int64_t tiles : splitTilesOf(e.problem, members[k], before)) {
          with(members[k], base, tiles);
          ++alone;
        }
      }
    }
  }
}
