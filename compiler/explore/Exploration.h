//===- Exploration.h - Strategies, and which proposals are taken -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Greedy exploration of plans, scored by the cost model: strategies propose,
// one rule accepts. Work is bounded, and every proposal can be reported.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_EXPLORE_EXPLORATION_H
#define COMPILER_EXPLORE_EXPLORATION_H

#include "compiler/explore/Problem.h"
#include "compiler/explore/Proposal.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <list>
#include <memory>

namespace tw::explore {

/// Plug-ins call virtual and inline functions alone, and so link with nothing.
class Exploration {
public:
  /// `report` may be null. At most `budget` kernels are compiled, all proposals together.
  Exploration(const Problem &problem, PlanCompiler &compiler, size_t budget, ProposalReport report = nullptr)
      : problem(problem), compiler(compiler), budget(budget), report(std::move(report)) {}
  virtual ~Exploration() = default;

  const Problem &problem;

  /// The first plan. Errors: there is no such program.
  llvm::Error begin(const plan::NetworkPlan &plan);
  /// Runs a strategy.
  void run(const class Strategy &strategy);

  /// Estimates `plan`; it becomes the best one if it is faster. Null: refused, the same program as another, or over budget.
  virtual const Outcome *propose(const plan::NetworkPlan &plan);
  /// The best plan with `change`.
  const Outcome *propose(llvm::function_ref<void(plan::NetworkPlan &)> change) {
    plan::NetworkPlan plan = best().plan;
    change(plan);
    return propose(plan);
  }

  /// Outcome::room under a plan that was not proposed.
  std::vector<int64_t> roomOf(const plan::NetworkPlan &plan) { return compiler.roomOf(plan); }

  const Outcome &best() const { return outcomes.front(); }
  /// All that were estimated, the best first.
  const std::list<Outcome> &all() const { return outcomes; }
  /// The best of those for which `isOne` holds; null: none.
  const Outcome *bestOf(llvm::function_ref<bool(const Outcome &)> isOne) const {
    auto found = llvm::find_if(outcomes, isOne);
    return found == outcomes.end() ? nullptr : &*found;
  }
  /// Whether an outcome is near enough to the best one to be worth refining.
  virtual bool isClose(const Outcome &outcome) const;
  /// What tells `plan` from the best plan.
  std::vector<KnobDifference> changesOf(const plan::NetworkPlan &plan) const;
  /// Proposals that were left out for lack of budget.
  size_t notTried() const { return leftOut; }

private:
  PlanCompiler &compiler;
  const size_t budget;
  const ProposalReport report;
  std::list<Outcome> outcomes; ///< addresses stay
  std::string strategyName;
  size_t compiled = 0, leftOut = 0;
};

/// An idea of how a network could be faster. It proposes plans, and may look at what became of them.
class Strategy {
public:
  virtual ~Strategy() = default;
  virtual const char *name() const = 0;
  virtual void explore(Exploration &exploration) const = 0;
};

/// The strategies of `pipelined`, in the order in which they run: those of the product, then those of plug-ins.
const std::vector<std::unique_ptr<Strategy>> &strategies();
/// False, and nothing is added, if the name is taken or empty.
bool addStrategy(std::unique_ptr<Strategy> strategy);

/// Where a plug-in adds its strategies.
class StrategyRegistry {
public:
  virtual ~StrategyRegistry() = default;
  /// As addStrategy().
  virtual bool add(std::unique_ptr<Strategy> strategy) = 0;
};

/// Runs all strategies from the plan in which nothing is decided but what was asked for. Errors: no program at all.
llvm::Error exploreGreedily(Exploration &exploration);

} // namespace tw::explore

#endif // COMPILER_EXPLORE_EXPLORATION_H
