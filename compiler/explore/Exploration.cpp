//===- Exploration.cpp - Strategies, and which proposals are taken ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/explore/Exploration.h"

#include "compiler/cost/Constants.h"
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
  if (report && problem.overlapsKernels)
    report({kFirstPlan, {}, std::nullopt, best().cycles, /*isTaken=*/true, ""});
  return llvm::Error::success();
}

void Exploration::run(const Strategy &strategy) {
  strategyName = strategy.name();
  strategy.explore(*this);
}

namespace {
/// The value of a knob as a plan file spells it, without quotes.
template <typename Plan, typename Member> std::string valueOf(const Plan &plan, Member member) {
  Plan alone;
  alone.*member = plan.*member;
  const std::string text = plan::print(alone);
  return text.empty() ? "open" : llvm::StringRef(text).split(" = ").second.trim('"').str();
}

template <typename Plan>
void addDifferences(const std::string &kernel, const Plan &from, const Plan &to, std::vector<KnobDifference> &differences) {
  Plan::forEachKnob([&](const plan::KnobInfo &info, auto member) {
    if (!(from.*member == to.*member))
      differences.push_back({kernel, info.name, valueOf(from, member), valueOf(to, member)});
  });
}
} // namespace

bool Exploration::isClose(const Outcome &outcome) const { return outcome.cycles < (1 + cost::kEstimateError) * best().cycles; }

std::vector<KnobDifference> Exploration::changesOf(const plan::NetworkPlan &plan) const {
  std::vector<KnobDifference> changes;
  addDifferences("", best().plan.network, plan.network, changes);
  for (size_t i = 0; i < plan.kernels.size(); ++i)
    addDifferences(problem.layers[i].kernel->name, best().plan.kernels[i], plan.kernels[i], changes);
  return changes;
}

const Outcome *Exploration::propose(const plan::NetworkPlan &plan) {
  Proposal proposal;
  const double limit = best().cycles;
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
    proposal.why = "it is no faster";
  place = outcomes.insert(place, std::move(**outcome));
  if (report)
    report(proposal);
  return &*place;
}

namespace {
std::vector<std::unique_ptr<Strategy>> &registry() {
  static std::vector<std::unique_ptr<Strategy>> all = productStrategies();
  return all;
}
} // namespace

const std::vector<std::unique_ptr<Strategy>> &explore::strategies() { return registry(); }

bool explore::addStrategy(std::unique_ptr<Strategy> strategy) {
  const llvm::StringRef name = strategy ? strategy->name() : "";
  if (name.empty() || llvm::any_of(registry(), [&](const auto &other) { return name == other->name(); }))
    return false;
  registry().push_back(std::move(strategy));
  return true;
}

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
