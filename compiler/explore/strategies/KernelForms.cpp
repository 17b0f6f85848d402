//===- KernelForms.cpp - Other forms of kernels: line buffers, packing, serpentine ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/strategies/Strategies.h"

#include "compiler/cost/Constants.h"

using namespace tw;
using namespace tw::explore;

/// Sums that stay for the row below save passes, but tiles of one row load more of their input again. Maxima save both, but cost
/// instructions of the vector engine, and room.
void explore::exploreLineBuffers(Exploration &e) {
  if (!e.problem.hasNeighbours())
    return;
  auto setEverywhere = [&](std::optional<bool> plan::NetworkKnobs::*knob) {
    std::vector<plan::NetworkPlan> plans;
    for (const Outcome &outcome : e.all())
      plans.push_back(outcome.plan);
    for (plan::NetworkPlan &plan : plans) {
      plan.network.*knob = true;
      e.propose(plan);
    }
  };
  auto sharesSums = [](const Layer &l) { return l.kernel->sharedSums() > 0 && !l.kernel->plan.sumLineBuffer; };
  if (!e.problem.asked.sumLineBuffers && llvm::any_of(e.problem.layers, sharesSums))
    setEverywhere(&plan::NetworkKnobs::sumLineBuffers);
  auto carriesMaxima = [&](const Layer &l) {
    return !l.kernel->plan.maxLineBuffer && l.kernel->carriedSums() > 0 && accel::carriedSums(*l.kernel, e.problem.machine) > 0;
  };
  if (!e.problem.asked.maxLineBuffers && llvm::any_of(e.problem.layers, carriesMaxima))
    setEverywhere(&plan::NetworkKnobs::maxLineBuffers);
}

/// The best plan, and the best one without fusion groups, with packed pixels: in the array, then in the vector lanes.
void explore::explorePixelPacking(Exploration &e) {
  for (auto knob : {&plan::NetworkKnobs::packContractions, &plan::NetworkKnobs::packWindows}) {
    const bool windows = knob == &plan::NetworkKnobs::packWindows;
    auto canPack = [&](const Layer &l) { return l.isWindow() == windows && l.packed && !l.kernel->plan.pixelPacking; };
    if (e.problem.asked.*knob || llvm::none_of(e.problem.layers, canPack))
      continue;
    plan::NetworkPlan best = e.best().plan;
    const Outcome *unfused = e.bestOf([](const Outcome &o) { return o.groups.empty(); });
    plan::NetworkPlan apart = unfused ? unfused->plan : best;
    best.network.*knob = true;
    apart.network.*knob = true;
    const bool differs = apart.network.residency != best.network.residency || apart.network.fusion != best.network.fusion;
    e.propose(best);
    if (differs)
      e.propose(apart);
  }
}

void explore::exploreShortPooling(Exploration &e) {
  auto isPooling = [](const Layer &l) { return l.isWindow() && l.kernel->anchor->weights < 0; };
  if (!e.problem.asked.shortPooling && e.problem.keepsResults && llvm::any_of(e.problem.layers, isPooling))
    e.propose([](plan::NetworkPlan &plan) { plan.network.shortPooling = true; });
}

/// Fewer bytes, but loads come less evenly.
void explore::exploreSerpentine(Exploration &e) {
  if (!e.problem.hasNeighbours() || e.problem.asked.serpentineContractions)
    return;
  bool hasParts = false;
  for (size_t i = 0; i < e.problem.layers.size(); ++i) {
    const Layer &l = e.problem.layers[i];
    const plan::KernelPlan &chosen = e.best().chosen.kernels[i];
    hasParts |= l.isContraction() && !l.kernel->plan.serpentine && chosen.tileK && chosen.tileK < l.kernel->anchor->ic;
  }
  if (hasParts)
    e.propose([](plan::NetworkPlan &plan) { plan.network.serpentineContractions = true; });
}

/// A pass over few rows takes the array as long as a preload, and DRAM may bring a tile sooner. All kernels of one kind get the same slots.
void explore::exploreMatrixSlots(Exploration &e) {
  if (!e.problem.hasNeighbours())
    return;
  std::vector<std::string> kinds;
  bool isBehind = false; // the product before is one of matrices
  for (const Layer &layer : e.problem.layers) {
    const accel::Kernel &kernel = *layer.kernel;
    if (!layer.isContraction())
      continue;
    const bool isMatrix = kernel.anchor->batchAxis && kernel.extent[accel::P0] < accel::preloadCycles(e.problem.machine);
    if ((isMatrix || isBehind) && !kernel.plan.depth && !llvm::is_contained(kinds, kernel.kind))
      kinds.push_back(kernel.kind);
    isBehind = isMatrix;
  }
  for (const std::string &kind : kinds)
    for (int64_t depth : {3, 4})
      e.propose([&](plan::NetworkPlan &plan) {
        for (size_t i = 0; i < e.problem.layers.size(); ++i)
          if (const accel::Kernel &kernel = *e.problem.layers[i].kernel; kernel.kind == kind && !kernel.plan.depth)
            plan.kernels[i].depth = depth;
      });
}

/// Row tiles of packed taps load shared rows again for each tile, unless they are higher.
void explore::exploreTallRowTiles(Exploration &e) {
  auto packsTaps = [&](const Layer &l) { return accel::packsTaps(*l.kernel, e.problem.machine); };
  if (!e.problem.asked.tallRowTiles && !e.best().groups.empty() && llvm::any_of(e.problem.layers, packsTaps))
    e.propose([](plan::NetworkPlan &plan) { plan.network.tallRowTiles = true; });
}

/// The closed form does not see who waits for whom. The list scheduler does, of a kernel alone.
void explore::explorePlannedTiles(Exploration &e) {
  if (!e.problem.hasNeighbours() || e.problem.asked.plannedTiles)
    return;
  double array = 0;
  for (const Layer &layer : e.problem.layers)
    array += double(accel::workOf(*layer.kernel, e.problem.machine).arrayCycles);
  if (e.best().cycles >= cost::kArrayWaits * array)
    e.propose([](plan::NetworkPlan &plan) { plan.network.plannedTiles = true; });
}
