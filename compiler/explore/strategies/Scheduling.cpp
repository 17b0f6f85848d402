//===- Scheduling.cpp - Priorities, buffers, bus and load engines ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/strategies/Strategies.h"

#include "compiler/explore/strategies/Neighbours.h"
#include "isa/timing/Dram.h"

using namespace tw;
using namespace tw::explore;
using plan::Priority;

void explore::explorePriorities(Exploration &e) {
  if (!e.problem.hasNeighbours())
    return;
  if (!e.problem.asked.buffersAtBottom)
    e.propose([](plan::NetworkPlan &plan) { plan.network.buffersAtBottom = true; });
  if (e.problem.asked.priority)
    return;
  // Interleaved kernels have less room beside fusion groups: without groups they may gain more.
  std::optional<plan::NetworkPlan> unfused;
  if (const Outcome *apart = e.bestOf([](const Outcome &o) { return o.groups.empty(); });
      apart && apart != &e.best() && e.isClose(*apart))
    unfused = apart->plan;
  for (Priority priority : {Priority::Alap, Priority::Interleaved})
    e.propose([&](plan::NetworkPlan &plan) { plan.network.priority = priority; });
  if (unfused) {
    unfused->network.priority = Priority::Interleaved;
    e.propose(*unfused);
  }
}

/// Buffers that begin with a bank waste the rest of the one before. That pays where vector kernels could run beside products.
void explore::exploreBankPlacement(Exploration &e) {
  if (!e.problem.hasNeighbours() || e.problem.asked.exclusiveBanks || *e.best().plan.network.exclusiveBanks)
    return;
  for (size_t i = 0; i < e.problem.layers.size(); ++i)
    if (!overlapsOf(e.problem, i).empty()) {
      e.propose([](plan::NetworkPlan &plan) { plan.network.exclusiveBanks = true; });
      return;
    }
}

void explore::exploreBus(Exploration &e) {
  if (!e.problem.asked.bus && e.problem.machine.dram.kind != timing::DramKind::Ideal)
    e.propose([](plan::NetworkPlan &plan) { plan.network.bus = plan::Bus::Alternating; });
}

/// Streams of two load engines meet in rows of one DRAM bank.
void explore::exploreWeightLoader(Exploration &e) {
  if (e.problem.hasNeighbours() && !e.problem.asked.weightLoader && e.problem.machine.loadEngines > 1)
    e.propose([](plan::NetworkPlan &plan) { plan.network.weightLoader = plan::WeightLoader::First; });
}

/// The same for the kernel with most weights alone, against the rule of the network. One kernel, as estimates see little of what streams cost
/// each other: the plan without the change stays among those that are simulated.
void explore::exploreFirstLoaders(Exploration &e) {
  if (!e.problem.hasNeighbours() || e.problem.machine.loadEngines == 1)
    return;
  std::optional<size_t> heaviest;
  int64_t most = 0;
  for (auto [i, layer] : llvm::enumerate(e.problem.layers)) {
    const std::optional<accel::Anchor> &anchor = layer.kernel->anchor;
    if (!anchor || anchor->weights < 0 || layer.kernel->plan.firstLoader)
      continue;
    const int64_t weights = anchor->ic * anchor->oc * anchor->axes[0].kernel * anchor->axes[1].kernel;
    if (weights > most)
      std::tie(most, heaviest) = std::pair(weights, i);
  }
  if (heaviest)
    e.propose([&](plan::NetworkPlan &plan) {
      plan.kernels[*heaviest].firstLoader = plan.network.weightLoader != plan::WeightLoader::First;
    });
}

/// With one scratchpad for all operands, slots rotate through all of it, and no room is free.
void explore::exploreWeightPrefetch(Exploration &e) {
  if (e.problem.hasNeighbours() && !e.problem.asked.weightPrefetch && e.problem.machine.scratchpads.size() > 1)
    e.propose([](plan::NetworkPlan &plan) { plan.network.weightPrefetch = plan::WeightPrefetch::Early; });
}
