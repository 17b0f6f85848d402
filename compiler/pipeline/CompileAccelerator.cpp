//===- CompileAccelerator.cpp - A module to a program for the accelerator --===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Constants.h"
#include "compiler/pipeline/Assemble.h"
#include "compiler/pipeline/SearchSpace.h"
#include "isa/Assembler.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

/// Plans that differ in rules for residency alone have equal keys.
static std::string keyWithoutRules(plan::NetworkPlan plan) {
  plan.network.residency.reset();
  plan.network.fusion.reset();
  plan.network.resultPlaces.reset();
  return plan::keyOf(plan);
}

/// Whether only rules for residency tell the plan from the first one.
bool PlanCompilation::isRule(const plan::NetworkPlan &plan) {
  const std::string key = keyWithoutRules(plan);
  if (firstKey.empty())
    firstKey = key;
  return key == firstKey;
}

llvm::Expected<std::optional<explore::Outcome>> PlanCompilation::estimate(const plan::NetworkPlan &plan, double limit) {
  // What fails because of a choice that the plan leaves open is tried again without that choice.
  constexpr unsigned kAttempts = 4;
  const bool rule = isRule(plan);
  NoGoods own = noGoods;
  for (unsigned attempt = 1;; ++attempt) {
    own.isNew = false;
    llvm::Expected<std::optional<explore::Outcome>> outcome = estimateOnce(plan, limit, own);
    if (outcome || !own.isNew || attempt == kAttempts) {
      // What the rules for residency find impossible is so for every other plan. Other proposals teach something about themselves only.
      if (outcome && attempt > 1 && rule)
        noGoods = own;
      return outcome;
    }
    llvm::consumeError(outcome.takeError());
  }
}

/// Two plans that differ in rules for residency alone, and whose rules choose the same, make the same program.
bool PlanCompilation::isKnown(const plan::NetworkPlan &plan, const accel::Fusion &fusion) {
  std::vector<std::shared_ptr<const accel::Fusion>> &same = fusions[keyWithoutRules(plan)];
  if (llvm::any_of(same, [&](const auto &other) { return other->isSameChoice(fusion); }))
    return true;
  same.push_back(std::make_shared<const accel::Fusion>(fusion));
  return false;
}

llvm::Expected<std::optional<explore::Outcome>> PlanCompilation::estimateOnce(const plan::NetworkPlan &plan, double limit,
                                                                              NoGoods &own) {
  PlanEmitter emitter(network, options, rankings, plan, own);
  llvm::Expected<accel::Fusion> fusion = emitter.chooseOnChip();
  if (!fusion)
    return fusion.takeError();
  if (isKnown(plan, *fusion))
    return std::nullopt;
  llvm::Expected<EmittedNetwork> emitted = emitter.emit(std::move(*fusion), limit, /*isEstimate=*/false);
  if (!emitted)
    return emitted.takeError();
  explore::Outcome outcome{
      plan, emitted->chosen, emitted->cycles, {}, emitted->fusion->residency.leftOut, emitted->fusion->residency.room};
  for (const accel::Group &group : emitted->fusion->groups)
    outcome.groups.push_back({group.first, group.last()});
  if (emitted->cycles < limit || !fastest)
    fastest = {plan, std::move(*emitted), own};
  return outcome;
}

std::vector<int64_t> PlanCompilation::roomOf(const plan::NetworkPlan &plan) {
  NoGoods own = noGoods;
  llvm::Expected<accel::Fusion> fusion = PlanEmitter(network, options, rankings, plan, own).chooseOnChip();
  if (fusion)
    return fusion->residency.room;
  llvm::consumeError(fusion.takeError());
  return {};
}

llvm::Expected<CompiledNetwork> PlanCompilation::compile(const plan::NetworkPlan &plan, bool onlyTimed, unsigned attempts) {
  if (fastest && fastest->plan == plan) {
    Fastest kept = std::move(*fastest);
    fastest.reset();
    llvm::Expected<CompiledNetwork> compiled = assemble(network, std::move(kept.emitted), options, kept.noGoods, onlyTimed);
    if (compiled || !kept.noGoods.isNew)
      return compiled;
    llvm::consumeError(compiled.takeError());
    noGoods = kept.noGoods;
  }
  NoGoods own = noGoods;
  for (unsigned attempt = 1;; ++attempt) {
    own.isNew = false;
    llvm::Expected<CompiledNetwork> compiled = compileOnce(plan, onlyTimed, own);
    if (compiled || !own.isNew || attempt == attempts)
      return compiled;
    llvm::consumeError(compiled.takeError());
  }
}

llvm::Expected<CompiledNetwork> PlanCompilation::compileOnce(const plan::NetworkPlan &plan, bool onlyTimed, NoGoods &own) {
  llvm::Expected<EmittedNetwork> emitted = emitOnce(plan, /*isEstimate=*/false, own);
  if (!emitted)
    return emitted.takeError();
  return assemble(network, std::move(*emitted), options, own, onlyTimed);
}

llvm::Expected<EmittedNetwork> PlanCompilation::emitOnce(const plan::NetworkPlan &plan, bool isEstimate, NoGoods &own) {
  PlanEmitter emitter(network, options, rankings, plan, own);
  llvm::Expected<accel::Fusion> fusion = emitter.chooseOnChip();
  if (!fusion)
    return fusion.takeError();
  return emitter.emit(std::move(*fusion), std::numeric_limits<double>::infinity(), isEstimate);
}

llvm::Expected<EmittedNetwork> PlanCompilation::emit(const plan::NetworkPlan &plan, bool isEstimate, unsigned attempts) {
  NoGoods own = noGoods;
  for (unsigned attempt = 1;; ++attempt) {
    own.isNew = false;
    llvm::Expected<EmittedNetwork> emitted = emitOnce(plan, isEstimate, own);
    if (emitted || !own.isNew || attempt == attempts)
      return emitted;
    llvm::consumeError(emitted.takeError());
  }
}

namespace {
/// Kernels that an exploration compiles, all proposals together: linear work for deep networks, and more proposals than the strategies
/// make for one of a hundred kernels.
constexpr size_t kExplorationBudget = size_t(1) << 15;

/// Of the plans that the list scheduler likes best so many are simulated, as far as they are as close to the best one as estimates err.
constexpr size_t kMostFinalists = 4;

llvm::Error explorePlans(explore::Exploration &exploration, std::vector<std::string> &notes) {
  if (llvm::Error error = explore::exploreGreedily(exploration))
    return error;
  if (size_t left = exploration.notTried())
    notes.push_back("of the ways to compile the network as a whole " + std::to_string(left) + " were not tried: it has " +
                    std::to_string(exploration.problem.layers.size()) + " kernels");
  return llvm::Error::success();
}

/// The fastest of the plans that the exploration likes best, by their programs as far as the cost model knows these.
llvm::Expected<CompiledNetwork> compileFastest(PlanCompilation &compilation, const explore::Exploration &exploration,
                                               const CompileOptions &options) {
  llvm::Expected<CompiledNetwork> best = compilation.compile(exploration.best().plan, /*onlyTimed=*/false);
  if (!best || options.schedule != accel::Schedule::Pipelined || exploration.all().size() == 1)
    return best;
  std::optional<uint64_t> least = options.costModel->cyclesOfProgram(best->program);
  const plan::NetworkPlan *fastest = nullptr;
  size_t finalists = 1;
  for (const explore::Outcome &outcome : llvm::drop_begin(exploration.all())) {
    if (!least || finalists == kMostFinalists || outcome.cycles > (1 + cost::kEstimateError) * exploration.best().cycles)
      break;
    llvm::Expected<CompiledNetwork> other = compilation.compile(outcome.plan, /*onlyTimed=*/true);
    if (!other) {
      llvm::consumeError(other.takeError());
      continue;
    }
    ++finalists;
    const std::optional<uint64_t> cycles = options.costModel->cyclesOfProgram(other->program);
    explore::Proposal proposal{
        explore::kSimulation, exploration.changesOf(outcome.plan), double(*least), std::nullopt, false, ""};
    if (cycles) {
      proposal.after = double(*cycles);
      proposal.isTaken = *cycles < *least;
    }
    proposal.why = !cycles ? "it takes too long to simulate" : proposal.isTaken ? "" : "it is no faster";
    if (proposal.isTaken) {
      least = cycles;
      fastest = &outcome.plan;
    }
    if (options.explain)
      options.explain(proposal);
  }
  return fastest ? compilation.compile(*fastest, /*onlyTimed=*/false) : std::move(best);
}
} // namespace

llvm::Expected<Tiles> pipeline::emitTiles(ModuleOp module, const CompileOptions &options) {
  llvm::Expected<NetworkKernels> network = NetworkKernels::build(module, options);
  if (!network)
    return network.takeError();
  PlanCompilation compilation(*network, options);
  const explore::Problem problem = network->problem(options);
  explore::Exploration exploration(problem, compilation, kExplorationBudget, options.explain);
  std::vector<std::string> notes;
  if (llvm::Error error = explorePlans(exploration, notes))
    return std::move(error);
  llvm::Expected<EmittedNetwork> emitted = compilation.emit(exploration.best().plan, /*isEstimate=*/false);
  if (!emitted)
    return emitted.takeError();
  CompiledNetwork described;
  for (const NetworkKernels::Layer &layer : network->layers)
    described.program.layers.push_back({layer.kernel.name, layer.kernel.nodes, layer.kernel.macs, 0, {}});
  network->addBounds(*options.machine, described);
  return Tiles{std::move(emitted->program), std::move(described.program.layers)};
}

namespace {
/// A program of the best plan. The verifier of schedules has passed it.
llvm::Expected<CompiledNetwork> compilePlanned(ModuleOp module, const CompileOptions &options) {
  llvm::Expected<NetworkKernels> network = NetworkKernels::build(module, options);
  if (!network)
    return network.takeError();
  PlanCompilation compilation(*network, options);
  const explore::Problem problem = network->problem(options);
  if (options.schedule == accel::Schedule::Search && options.search.evaluate)
    return searchPlans(module, *network, problem, options);
  explore::Exploration exploration(problem, compilation, kExplorationBudget, options.explain);
  std::vector<std::string> notes;
  if (llvm::Error error = explorePlans(exploration, notes))
    return std::move(error);
  llvm::Expected<CompiledNetwork> compiled = compileFastest(compilation, exploration, options);
  if (compiled)
    llvm::append_range(compiled->notes, notes);
  if (compiled && options.schedule == accel::Schedule::Search && problem.hasNeighbours())
    compiled->variations = explore::variationsOf(problem, compiled->chosen);
  return compiled;
}
} // namespace

llvm::Expected<CompiledNetwork> pipeline::compileForAccelerator(ModuleOp module, const CompileOptions &options) {
  llvm::Expected<CompiledNetwork> compiled = compilePlanned(module, options);
  if (compiled && options.afterPhase) {
    options.afterPhase(Phase::Plan, [&](bool) { return compiled->planText; });
    options.afterPhase(Phase::Tiles, [&](bool) { return compiled->tilesText; });
    options.afterPhase(Phase::Isa, [&](bool) { return isa::disassemble(compiled->program); });
  }
  return compiled;
}
