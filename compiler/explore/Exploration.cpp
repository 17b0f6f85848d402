//===- Exploration.cpp - Strategies, and which proposals are taken ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/Exploration.h"

#include "compiler/explore/strategies/Strategies.h"

using namespace tw;
using namespace tw::explore;

bool Problem::isReadBy(size_t layer, size_t by) const {
  const Layer &reader = layers[by];
  const size_t tensor = layers[layer].result();
  return reader.kernel->anchor ? reader.tensors[size_t(reader.kernel->anchor->input.tensor)] == tensor
                               : llvm::is_contained(reader.tensors, tensor);
}

llvm::Error Exploration::begin(const plan::NetworkPlan &plan) {
  llvm::Expected<std::optional<Outcome>> outcome = compiler.estimate(plan, std::numeric_limits<double>::infinity());
  if (!outcome)
    return outcome.takeError();
  compiled += problem.layers.size();
  outcomes.push_back(std::move(**outcome));
  return llvm::Error::success();
}

void Exploration::run(const Strategy &strategy) {
  strategyName = strategy.name();
  strategy.explore(*this);
}

std::vector<std::string> Exploration::changesOf(const plan::NetworkPlan &plan) const {
  std::vector<std::string> changes = plan::differences(best().plan.network, plan.network);
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    for (const std::string &change : plan::differences(best().plan.kernels[i], plan.kernels[i]))
      changes.push_back(problem.layers[i].kernel->name + ": " + change);
  return changes;
}

const Outcome *Exploration::propose(llvm::function_ref<void(plan::NetworkPlan &)> change) {
  plan::NetworkPlan plan = best().plan;
  change(plan);
  return propose(plan);
}

const Outcome *Exploration::propose(const plan::NetworkPlan &plan) {
  Proposal proposal;
  const double limit = best().cycles / (1 + kNoise);
  if (report) {
    proposal.strategy = strategyName;
    proposal.changes = changesOf(plan);
    proposal.before = best().cycles;
  }
  auto drop = [&](const std::string &why) -> const Outcome * {
    proposal.why = why;
    if (report)
      report(proposal);
    return nullptr;
  };
  if (compiled + problem.layers.size() > budget) {
    ++leftOut;
    return drop("the budget is spent");
  }
  compiled += problem.layers.size();
  llvm::Expected<std::optional<Outcome>> outcome = compiler.estimate(plan, limit);
  if (!outcome)
    return drop(llvm::toString(outcome.takeError()));
  if (!*outcome)
    return drop("it makes the same program as an earlier proposal");
  const double cycles = (*outcome)->cycles;
  proposal.after = cycles;
  proposal.isTaken = cycles < limit;
  auto place = proposal.isTaken ? outcomes.begin()
                                : std::find_if(std::next(outcomes.begin()), outcomes.end(),
                                               [&](const Outcome &other) { return cycles < other.cycles; });
  if (!proposal.isTaken)
    proposal.why = cycles < best().cycles ? "the gain is within the noise" : "it is no faster";
  place = outcomes.insert(place, std::move(**outcome));
  if (report)
    report(proposal);
  return &*place;
}

const Outcome *Exploration::bestOf(llvm::function_ref<bool(const Outcome &)> isOne) const {
  for (const Outcome &outcome : outcomes)
    if (isOne(outcome))
      return &outcome;
  return nullptr;
}

namespace {
std::vector<std::unique_ptr<Strategy>> &registry() {
  static std::vector<std::unique_ptr<Strategy>> all = productStrategies();
  return all;
}
} // namespace

const std::vector<std::unique_ptr<Strategy>> &explore::strategies() { return registry(); }
void explore::addStrategy(std::unique_ptr<Strategy> strategy) { registry().push_back(std::move(strategy)); }

llvm::Error explore::exploreGreedily(Exploration &exploration) {
  plan::NetworkPlan first;
  first.network = exploration.problem.asked.withDefaults();
  for (const Layer &layer : exploration.problem.layers)
    first.kernels.push_back(layer.kernel->plan);
  if (llvm::Error error = exploration.begin(first))
    return error;
  if (exploration.problem.overlapsKernels)
    for (const std::unique_ptr<Strategy> &strategy : strategies())
      exploration.run(*strategy);
  return llvm::Error::success();
}
