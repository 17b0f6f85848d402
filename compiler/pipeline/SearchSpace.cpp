//===- SearchSpace.cpp - Plans that a search may compile -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/SearchSpace.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

using namespace tw;
using namespace tw::pipeline;
using plan::NetworkPlan;

namespace {
/// How often a program that a search would like is tried, each time without what has failed before.
constexpr unsigned kAttempts = 4;
/// Kernels that an exploration compiles for a search, all proposals together.
constexpr size_t kExplorationBudget = size_t(1) << 15;

/// Estimates in full: a search wants to know the order of those that are not the best.
class FullEstimates : public explore::PlanCompiler {
public:
  explicit FullEstimates(PlanCompilation &compilation) : compilation(compilation) {}
  llvm::Expected<std::optional<explore::Outcome>> estimate(const NetworkPlan &plan, double) override {
    return compilation.estimate(plan, std::numeric_limits<double>::infinity());
  }
  std::vector<int64_t> roomOf(const NetworkPlan &plan) override { return compilation.roomOf(plan); }

private:
  PlanCompilation &compilation;
};

/// What a search point stands for.
class SearchSpace {
public:
  SearchSpace(const NetworkKernels &network, const explore::Problem &problem, const CompileOptions &options)
      : network(network), problem(problem), options(options), compilation(network, options) {}

  llvm::Expected<CompiledNetwork> compile(const SearchPoint &point, bool onlyTimed);
  llvm::Expected<Measurement> estimate(const SearchPoint &point);

private:
  const NetworkKernels &network;
  const explore::Problem &problem;
  const CompileOptions &options;
  PlanCompilation compilation;
  std::vector<explore::KnobChange> likely; ///< of the first program: a decision each, before that on the whole network
  std::vector<NetworkPlan> plans;          ///< of the whole network, the best first
  std::vector<Decision> decisions;
  struct Start {
    NetworkPlan chosen;
    std::vector<explore::KnobChange> variations;
  };
  std::map<std::vector<unsigned>, Start> starts; ///< complete plans, by decisions

  llvm::Expected<CompiledNetwork> compileFirst();
  llvm::Error explorePlans();
  void listDecisions(const explore::Outcome &outcome, llvm::ArrayRef<std::vector<plan::KernelPlan>> alternatives);
  std::string digest(const CompiledNetwork &first) const;
  NetworkPlan decided(const std::vector<unsigned> &point) const;
  llvm::Expected<NetworkPlan> varied(const SearchPoint &point);
  llvm::Expected<NetworkPlan> crossed(const SearchPoint &point);
  static llvm::Error unknown() {
    return llvm::createStringError("the search cache has points of another search space: delete it");
  }
};
} // namespace

/// The plans that strategies have proposed, and of each priority of the list scheduler the best one first: priorities differ by less than
/// the estimate may err.
llvm::Error SearchSpace::explorePlans() {
  auto add = [&](const NetworkPlan &plan) {
    if (!llvm::is_contained(plans, plan))
      plans.push_back(plan);
  };
  auto exploreWith = [&](std::optional<plan::Priority> priority,
                         llvm::function_ref<void(const explore::Exploration &)> take) -> llvm::Error {
    PlanCompilation own(network, options);
    FullEstimates estimates(own);
    explore::Problem asked = problem;
    if (priority)
      asked.asked.priority = priority;
    explore::Exploration exploration(asked, estimates, kExplorationBudget, plans.empty() ? options.explain : nullptr);
    if (llvm::Error error = explore::exploreGreedily(exploration))
      return error;
    take(exploration);
    return llvm::Error::success();
  };
  std::vector<NetworkPlan> others;
  if (llvm::Error error = exploreWith(problem.asked.priority, [&](const explore::Exploration &exploration) {
        for (const explore::Outcome &outcome : exploration.all())
          others.push_back(outcome.plan);
      }))
    return error;
  plans.push_back(others.front());
  for (plan::Priority priority : {plan::Priority::ProgramOrder, plan::Priority::Alap, plan::Priority::Interleaved}) {
    if (problem.asked.priority || !problem.overlapsKernels)
      break;
    if (llvm::Error error =
            exploreWith(priority, [&](const explore::Exploration &exploration) { add(exploration.best().plan); }))
      llvm::consumeError(std::move(error));
  }
  llvm::for_each(others, add);
  return llvm::Error::success();
}

void SearchSpace::listDecisions(const explore::Outcome &outcome, llvm::ArrayRef<std::vector<plan::KernelPlan>> alternatives) {
  likely = explore::likelyChanges(problem, outcome, alternatives);
  // Changes of one sort to layers of one kind learn from each other.
  std::map<std::pair<std::string, std::string>, unsigned> kinds;
  for (const explore::KnobChange &change : likely) {
    const accel::Kernel &kernel = *problem.layers[*change.layer].kernel;
    const std::string sort = change.name.substr(0, change.name.size() - kernel.name.size());
    const unsigned kind = kinds.try_emplace({sort, kernel.kind}, unsigned(kinds.size())).first->second;
    decisions.push_back({change.layer, 1 + unsigned(change.values.size()), kind, change.name, change.reach, change.isProbed});
  }
  if (plans.size() > 1)
    decisions.push_back({std::nullopt, unsigned(plans.size()), 0, "the whole network"});
}

/// The kernels, how they are connected, where their tensors lie, all that options changed, and what is left to decide.
std::string SearchSpace::digest(const CompiledNetwork &first) const {
  llvm::SHA256 hash;
  for (const NetworkKernels::Layer &layer : network.layers)
    hash.update(layer.kernel.kind);
  const std::vector<isa::Word> &code = first.program.code;
  hash.update({reinterpret_cast<const uint8_t *>(code.data()), code.size() * isa::kWordBytes});
  hash.update(kAcrossNames[size_t(options.across)]);
  hash.update(plan::print(options.network));
  for (const Decision &decision : decisions)
    hash.update(" " + std::to_string(decision.candidates));
  return llvm::toHex(hash.final(), true);
}

llvm::Expected<CompiledNetwork> SearchSpace::compileFirst() {
  if (llvm::Error error = explorePlans())
    return std::move(error);
  llvm::Expected<EmittedNetwork> emitted = compilation.emit(plans.front(), /*isEstimate=*/false);
  if (!emitted)
    return emitted.takeError();
  explore::Outcome outcome{plans.front(), emitted->chosen, emitted->cycles, {}, {}, emitted->fusion->residency.room};
  listDecisions(outcome, emitted->program.alternatives);
  llvm::Expected<CompiledNetwork> first = compilation.compile(plans.front(), /*onlyTimed=*/false);
  if (!first)
    return first;
  first->decisions = decisions;
  first->problem = digest(*first);
  if (problem.hasNeighbours())
    first->variations = explore::variationsOf(problem, first->chosen);
  return first;
}

NetworkPlan SearchSpace::decided(const std::vector<unsigned> &point) const {
  NetworkPlan plan = plans[plans.size() > 1 ? point.back() : 0];
  for (size_t i = 0; i < likely.size(); ++i)
    if (point[i])
      likely[i].values[point[i] - 1](plan);
  return plan;
}

llvm::Expected<NetworkPlan> SearchSpace::varied(const SearchPoint &point) {
  if (point.decisions.size() != decisions.size())
    return unknown();
  auto start = starts.find(point.decisions);
  if (start == starts.end()) {
    llvm::Expected<EmittedNetwork> emitted = compilation.emit(decided(point.decisions), /*isEstimate=*/false, kAttempts);
    if (!emitted)
      return emitted.takeError();
    start = starts.emplace(point.decisions, Start{emitted->chosen, explore::variationsOf(problem, emitted->chosen)}).first;
  }
  const std::vector<explore::KnobChange> &variations = start->second.variations;
  if (point.variations.size() != variations.size())
    return unknown();
  NetworkPlan plan = start->second.chosen;
  for (auto [change, value] : llvm::zip_equal(variations, point.variations)) {
    if (value > change.values.size())
      return unknown();
    if (value)
      change.values[value - 1](plan);
  }
  return plan;
}

llvm::Expected<NetworkPlan> SearchSpace::crossed(const SearchPoint &point) {
  llvm::Expected<NetworkPlan> plan = varied(point);
  if (!plan || point.owners.empty())
    return plan;
  std::vector<std::vector<plan::KernelPlan>> parents{plan->kernels};
  for (const SearchPoint &other : point.others) {
    llvm::Expected<NetworkPlan> parent = varied(other);
    if (!parent)
      return parent;
    parents.push_back(std::move(parent->kernels));
  }
  if (point.owners.size() != plan->kernels.size())
    return unknown();
  for (auto [layer, owner] : llvm::enumerate(point.owners)) {
    if (owner >= parents.size())
      return unknown();
    plan->kernels[layer] = parents[owner][layer];
  }
  return plan;
}

llvm::Expected<CompiledNetwork> SearchSpace::compile(const SearchPoint &point, bool onlyTimed) {
  if (point.decisions.empty())
    return compileFirst();
  llvm::Expected<NetworkPlan> plan = point.isDecided() ? llvm::Expected<NetworkPlan>(decided(point.decisions)) : crossed(point);
  if (!plan)
    return plan.takeError();
  llvm::Expected<CompiledNetwork> compiled = compilation.compile(*plan, onlyTimed, kAttempts);
  if (compiled && !onlyTimed && problem.hasNeighbours())
    compiled->variations = explore::variationsOf(problem, compiled->chosen);
  return compiled;
}

llvm::Expected<Measurement> SearchSpace::estimate(const SearchPoint &point) {
  llvm::Expected<EmittedNetwork> emitted = compilation.emit(decided(point.decisions), /*isEstimate=*/true, kAttempts);
  if (!emitted)
    return emitted.takeError();
  std::vector<double> ends(network.layers.size(), 0);
  for (const schedule::Block &block : emitted->program.tiles.blocks)
    for (const schedule::Operation &operation : block.operations) {
      double &end = ends[operation.layer];
      end = std::max(end, block.plannedStart + double(block.count) * block.plannedEvery);
    }
  Measurement measurement;
  for (double end : ends) {
    const uint64_t before = measurement.cycles;
    measurement.cycles = std::max(before, uint64_t(end));
    measurement.layerCycles.push_back(measurement.cycles - before);
  }
  return measurement;
}

llvm::Expected<CompiledNetwork> pipeline::searchPlans(mlir::ModuleOp module, const NetworkKernels &network,
                                                      const explore::Problem &problem, const CompileOptions &options) {
  // In a copy of this process no pool has its threads: no passes run there, and none of these is at work when one is made.
  mlir::MLIRContext *context = module.getContext();
  const bool hadThreads = options.search.jobs > 1 && context->isMultithreadingEnabled();
  if (hadThreads)
    context->disableMultithreading();
  auto restore = llvm::make_scope_exit([&] {
    if (hadThreads)
      context->enableMultithreading();
  });
  SearchSpace space(network, problem, options);
  auto compile = [&](const SearchPoint &point, bool onlyTimed) { return space.compile(point, onlyTimed); };
  auto estimate = [&](const SearchPoint &point) { return space.estimate(point); };
  // One layer's tiles are in the order of their estimates, and layers that drain are not planned.
  return options.across == Across::None ? search(compile, options.search) : search(compile, options.search, estimate);
}
