//===- CostModel.cpp - Cycles of kernels, steps and programs ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/CostModel.h"

#include "compiler/cost/Constants.h"

using namespace tw;
using namespace tw::cost;

/// Before what engines cost each other.
static double apart(const KernelWork &w) {
  const double loads = w.loads[0] + w.loads[1];
  if (w.overlap ==
      KernelWork::Overlap::None) // a tile is handed over from the loads to the array, the vector engine and the store
    return loads + w.loadCount * (w.latency + kHandover) + w.array + w.vector + w.stores +
           w.results * (w.latency + 3 * kHandover);
  if (w.overlap == KernelWork::Overlap::Stores) // and from there to the next loads
    return (loads + w.stores) * w.turnaround + w.loadCount * w.latency + w.array + w.vector + w.results * 4 * kHandover +
           (w.hasNeighbours ? w.vectorTile + w.storeTile : 0);
  const double transfer = std::max({w.bus, w.loads[0], w.loads[1], w.stores}) + w.loadCount * kLoadIssue;
  const double around = w.latency + w.visits * kVisit;
  if (w.exposesEnds)
    return std::max({transfer + w.arrayTile + w.vectorTile,
                     w.firstLoad + std::max(w.array, w.slotTurns) + w.vectorTile + w.storeTile,
                     w.firstLoad + w.arrayTile + w.vector + w.storeTile}) +
           around;
  return std::max({transfer, w.array, w.vector, w.slotTurns}) + w.firstLoad + w.arrayVisit * kLastPass + w.vectorTile +
         w.storeTile + around;
}

double ClosedForm::cyclesOfKernel(const KernelWork &w) const {
  double cycles = apart(w);
  if (w.overlap != KernelWork::Overlap::None)
    cycles *= kOverlap;
  for (unsigned i = 0; i < w.bankConflicts; ++i)
    cycles *= kSharedBank;
  for (unsigned i = 0; i < w.crowdings; ++i)
    cycles *= kCrowding;
  if (w.hasFewSums)
    cycles *= kFewSums;
  for (unsigned i = 0; i < w.doubts; ++i)
    cycles *= 1 + kEstimateError;
  if (w.mustGain)
    cycles *= kLeastGain;
  // What hides behind this kernel's passes is missing for its neighbours' loads.
  return cycles + (w.hasNeighbours ? kHiddenBus * w.sharedBus : 0);
}

namespace {
class Registry : public CostModelRegistry {
public:
  Registry() { add("closed_form", std::make_unique<ClosedForm>()); }
  bool add(const std::string &name, std::unique_ptr<CostModel> model) override {
    if (name.empty() || !model || find(name))
      return false;
    all.emplace_back(name, std::move(model));
    return true;
  }
  const CostModel *find(const std::string &name) const override {
    for (const auto &[known, model] : all)
      if (known == name)
        return model.get();
    return nullptr;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto &entry : all)
      names.push_back(entry.first);
    return names;
  }

private:
  std::vector<std::pair<std::string, std::unique_ptr<CostModel>>> all;
};
} // namespace

CostModelRegistry &cost::costModels() {
  static Registry registry;
  return registry;
}

const CostModel &cost::closedForm() {
  static const ClosedForm model;
  return model;
}
