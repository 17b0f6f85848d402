//===- Residency.cpp - Scratchpad residency and depth-first fusion ===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/strategies/Strategies.h"

using namespace tw;
using namespace tw::explore;
using plan::FusionRule, plan::ResidencyRule;

/// Residency trades transfers for room: what stays leaves less for tiles. The three rules times the three rules for fusion groups span
/// that trade.
void explore::exploreResidency(Exploration &e) {
  if (!e.problem.keepsResults)
    return;
  const plan::NetworkPlan first = e.best().plan;
  for (FusionRule fusion : {FusionRule::None, FusionRule::Transfers, FusionRule::Overlap})
    for (ResidencyRule residency : {ResidencyRule::All, ResidencyRule::Worthwhile, ResidencyRule::None}) {
      if ((e.problem.asked.fusion && *e.problem.asked.fusion != fusion) ||
          (e.problem.asked.residency && *e.problem.asked.residency != residency))
        continue;
      plan::NetworkPlan plan = first;
      plan.network.fusion = fusion;
      plan.network.residency = residency;
      if (plan != first)
        e.propose(plan);
    }
}

/// The rule keeps those with most readers for their time. What each result is worth beside the others is not in that rule: results that
/// lack room get it first, one after the other.
static void placeLeftOutFirst(Exploration &e, const Outcome &start) {
  constexpr size_t kMostTensors = 4;
  const Outcome *base = &start;
  llvm::SmallVector<size_t> tried;
  auto writerOf = [&](size_t tensor) {
    for (size_t i = 0; i < e.problem.layers.size(); ++i)
      if (e.problem.layers[i].result() == tensor)
        return i;
    return e.problem.layers.size();
  };
  while (tried.size() < kMostTensors) {
    auto next = llvm::find_if(base->leftOut, [&](size_t tensor) { return !llvm::is_contained(tried, tensor); });
    if (next == base->leftOut.end())
      return;
    tried.push_back(*next);
    const size_t writer = writerOf(*next);
    if (writer == e.problem.layers.size() || e.problem.layers[writer].kernel->plan.onChip)
      continue;
    plan::NetworkPlan plan = base->plan;
    plan.kernels[writer].onChip = true;
    plan.kernels[writer].placedFirst = true;
    const double before = base->cycles;
    if (const Outcome *outcome = e.propose(plan); outcome && outcome->cycles < before)
      base = outcome;
  }
}

void explore::exploreLeftOut(Exploration &e) {
  const Outcome *keepsAll = e.bestOf([](const Outcome &o) {
    return *o.plan.network.fusion == FusionRule::None && *o.plan.network.residency == ResidencyRule::All;
  });
  if (keepsAll && e.isClose(*keepsAll))
    placeLeftOutFirst(e, *keepsAll);
}

/// A chain of kernels that write matrices takes all the room that it can use. Where each head is loaded, DRAM may be what is scarce.
void explore::exploreContextResidency(Exploration &e) {
  auto writesMatrices = [](const Layer &l) { return l.kernel->anchor && l.kernel->anchor->batchAxis; };
  if (e.problem.keepsResults && llvm::any_of(e.problem.layers, writesMatrices) && !e.best().groups.empty())
    placeLeftOutFirst(e, e.best());
}

void explore::explorePlaceReuse(Exploration &e) {
  if (e.problem.asked.resultPlaces || !e.problem.hasNeighbours())
    return;
  std::vector<plan::NetworkPlan> plans;
  for (const Outcome &outcome : e.all())
    if (e.isClose(outcome))
      plans.push_back(outcome.plan);
  for (plan::NetworkPlan &plan : plans) {
    plan.network.resultPlaces = plan::ResultPlaces::Reused;
    e.propose(plan);
  }
}

void explore::exploreMatrixResidency(Exploration &e) {
  auto readsMatrices = [](const Layer &l) { return l.kernel->anchor && l.kernel->anchor->batchAxis; };
  if (e.problem.asked.residentMatrices || !e.problem.keepsResults || llvm::none_of(e.problem.layers, readsMatrices))
    return;
  std::vector<plan::NetworkPlan> plans;
  for (const Outcome &outcome : e.all())
    plans.push_back(outcome.plan);
  for (plan::NetworkPlan &plan : plans) {
    plan.network.residentMatrices = true;
    e.propose(plan);
  }
}
