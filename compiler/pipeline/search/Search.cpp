//===- Search.cpp - The phases of a search --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/Search.h"

#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/search/Annealing.h"
#include "compiler/pipeline/search/CoordinateDescent.h"
#include "compiler/pipeline/search/Crossover.h"
#include "compiler/pipeline/search/Evaluator.h"

#include "llvm/ADT/STLExtras.h"

using namespace tw;
using namespace tw::pipeline;

namespace {
/// How the budget is spent.
struct PhaseParameters {
  /// Programs: the longest descent. A search with no larger budget only descends.
  unsigned descent = 64;
  /// Programs in a row without a gain, after which a descent ends if annealing follows.
  unsigned patience = 24;
  /// Divisor of a descent's programs: the share of decisions about the whole network, before those about layers.
  unsigned networkShare = 8;
  /// The same once more behind the descent, when layers have changed, and for probed decisions.
  unsigned againShare = 16;
  /// Descents from different network plans, and chains that anneal in turn.
  size_t chains = 3;
  /// Cycles relative to the second best start, up to which another network plan is worth a descent.
  double worthDescent = 1.05;
};
constexpr PhaseParameters kPhases;

bool isNetworkDecision(const Decision &decision) { return !decision.layer && decision.candidates > 1; }
bool isProbedDecision(const Decision &decision) { return decision.isProbed && decision.candidates > 1; }

/// Annealing chains that take turns.
struct Chains {
  std::vector<AnnealingChain> all;
  size_t turn = 0;
  size_t roundsWithoutGain = 0; ///< since a chain was added or the fastest point improved

  size_t active() const {
    return size_t(llvm::count_if(all, [](const AnnealingChain &chain) { return !chain.isOver; }));
  }
  void add(AnnealingChain chain) {
    all.push_back(std::move(chain));
    turn = all.size() - 1;
    roundsWithoutGain = 0;
  }
  void endSlowest() {
    llvm::max_element(all, [](const AnnealingChain &a, const AnnealingChain &b) {
      return std::pair(!a.isOver, a.best.measurement.cycles) < std::pair(!b.isOver, b.best.measurement.cycles);
    })->isOver = true;
  }
  void passTurn() {
    for (size_t i = 0; i < all.size() && (i == 0 || all[turn].isOver); ++i)
      turn = (turn + 1) % all.size();
  }
  /// Of the chains that could begin.
  std::vector<SearchPoint> bestPoints() const {
    std::vector<SearchPoint> points;
    for (const AnnealingChain &chain : all)
      if (!chain.best.point.decisions.empty())
        points.push_back(chain.best.point);
    return points;
  }
};

/// The phases behind the first program.
class Phases {
public:
  Phases(CompilePoint compile, const SearchOptions &options, Evaluator &evaluator, llvm::ArrayRef<Decision> decisions,
         llvm::ArrayRef<uint64_t> layerBounds, const SearchPoint &first)
      : compile(compile), evaluator(evaluator), decisions(decisions), layers(layerBounds.size()), first(first),
        random(options.seed), descent(evaluator, decisions, layerBounds, random), annealing(evaluator, random),
        crossover(evaluator, layerBounds.size(), {kPhases.patience}) {}

  /// Returns the best point. The evaluator has measured the first one.
  llvm::Expected<MeasuredPoint> run();

private:
  CompilePoint compile;
  Evaluator &evaluator;
  const llvm::ArrayRef<Decision> decisions;
  const size_t layers;
  const SearchPoint &first;
  std::mt19937_64 random;
  CoordinateDescent descent;
  Annealing annealing;
  Crossover crossover;

  llvm::Error descendFirst(std::vector<SearchPoint> &starts);
  llvm::Error descendAgainFrom(const SearchPoint &start);
  std::vector<SearchPoint> otherStarts() const;
  llvm::Error annealAndRecombine(llvm::ArrayRef<SearchPoint> starts);
  llvm::Expected<AnnealingChain> beginChain();
  MeasuredPoint canonical(const MeasuredPoint &best) const;
  unsigned descentBudget() const { return std::min(evaluator.budget(), kPhases.descent); }
  bool anneals() const { return evaluator.hasEstimates() && evaluator.budget() > kPhases.descent; }
};

llvm::Expected<MeasuredPoint> Phases::run() {
  descent.restart(first);
  std::vector<SearchPoint> starts;
  if (llvm::Error error = descendFirst(starts))
    return std::move(error);
  if (anneals()) {
    if (llvm::Error error = annealAndRecombine(starts))
      return std::move(error);
    descent.moveTo(evaluator.fastest());
    if (descent.best().point.isDecided())
      if (llvm::Error error = descent.descend())
        return std::move(error);
  }
  return canonical(descent.best());
}

/// Decisions about the whole network, then layers; then probed decisions, decisions about the network again, and layers again.
/// `starts`: points for descents, the best first.
llvm::Error Phases::descendFirst(std::vector<SearchPoint> &starts) {
  const unsigned budget = evaluator.budget(), share = descentBudget() / kPhases.againShare;
  const unsigned patience = anneals() ? kPhases.patience : 0;
  const bool hasNetwork = layers > 1 && llvm::any_of(decisions, isNetworkDecision);
  const bool hasProbed = evaluator.hasEstimates() && llvm::any_of(decisions, isProbedDecision);
  const unsigned forNetwork = hasNetwork ? share : 0, forProbed = hasProbed ? share : 0;
  const unsigned forLayers = budget - forNetwork - forProbed;

  evaluator.setLimit(forLayers);
  if (llvm::Error error = descent.tryNetworkDecisions(descentBudget() / kPhases.networkShare))
    return error;
  starts = otherStarts();
  starts.insert(starts.begin(), descent.best().point);

  evaluator.setLimit(anneals() ? std::min(forLayers, evaluator.evaluations() + kPhases.descent) : forLayers);
  if (llvm::Error error = descent.descend(patience))
    return error;
  if (forProbed) {
    evaluator.setLimit(evaluator.evaluations() + forProbed);
    if (llvm::Error error = descent.tryInEstimatedOrder(isProbedDecision))
      return error;
  }
  if (hasNetwork) {
    evaluator.setLimit(evaluator.evaluations() + forNetwork);
    if (llvm::Error error = descent.tryInEstimatedOrder(isNetworkDecision))
      return error;
  }
  evaluator.setLimit(budget);
  return forProbed || hasNetwork ? descent.descend(patience) : llvm::Error::success();
}

llvm::Error Phases::descendAgainFrom(const SearchPoint &start) {
  descent.restart(start);
  evaluator.setLimit(evaluator.evaluations() + kPhases.descent);
  if (llvm::Error error = descent.descend(kPhases.patience))
    return error;
  evaluator.setLimit(evaluator.evaluations() + kPhases.descent / kPhases.againShare);
  llvm::Error error = descent.tryInEstimatedOrder(isProbedDecision);
  evaluator.setLimit(evaluator.budget());
  return error;
}

/// Points with one decision about the whole network that have been measured, but for that of the best point; the fastest first.
std::vector<SearchPoint> Phases::otherStarts() const {
  std::vector<std::pair<uint64_t, SearchPoint>> found;
  std::set<uint64_t> known; // programs
  auto add = [&](const SearchPoint &point, bool isWanted) {
    if (!evaluator.isSeen(point))
      return;
    const Measurement &measurement = evaluator.measured(point);
    if (measurement.failure.empty() && known.insert(measurement.program).second && isWanted)
      found.push_back({measurement.cycles, point});
  };
  SearchPoint own = descent.best().point;
  for (size_t i = 0; i < decisions.size(); ++i)
    if (decisions[i].layer)
      own.decisions[i] = 0;
  add(own, /*isWanted=*/false);
  add(first, /*isWanted=*/true);
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 1; !decisions[i].layer && candidate < decisions[i].candidates; ++candidate)
      add(neighbourOf(first, Move{i, candidate}), /*isWanted=*/true);
  llvm::stable_sort(found, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<SearchPoint> starts;
  for (auto &[cycles, point] : found)
    if (double(cycles) <= kPhases.worthDescent * double(found.front().first))
      starts.push_back(std::move(point));
  return starts;
}

/// Multi-start: chains from the ends of several descents anneal in turn, and their best points are recombined after each round.
/// When a turn of all has gained nothing, a new descent, with other random numbers, and its chain replace the slowest chain.
llvm::Error Phases::annealAndRecombine(llvm::ArrayRef<SearchPoint> starts) {
  Chains chains;
  const size_t wanted = std::min(kPhases.chains, starts.size());
  unsigned before = 0; // programs, as the last descent began
  while (!evaluator.isExhausted()) {
    const size_t active = chains.active(), count = chains.all.size();
    if (count < wanted || chains.roundsWithoutGain >= active) {
      if (count >= wanted && evaluator.evaluations() == before)
        break; // the last descent has found nothing new
      before = evaluator.evaluations();
      if (active >= kPhases.chains)
        chains.endSlowest();
      if (count)
        if (llvm::Error error = descendAgainFrom(starts[count % starts.size()]))
          return error;
      llvm::Expected<AnnealingChain> chain = beginChain();
      if (!chain)
        return chain.takeError();
      chains.add(std::move(*chain));
    }
    const uint64_t fastest = evaluator.fastestCycles();
    if (llvm::Error error = annealing.anneal(chains.all[chains.turn]))
      return error;
    if (chains.all.size() > 1)
      if (llvm::Error error = crossover.recombine(chains.bestPoints()))
        return error;
    chains.roundsWithoutGain = evaluator.fastestCycles() < fastest ? 0 : chains.roundsWithoutGain + 1;
    chains.passTurn();
  }
  return llvm::Error::success();
}

/// From the end of the last descent.
llvm::Expected<AnnealingChain> Phases::beginChain() {
  llvm::Expected<CompiledNetwork> start = compile(descent.best().point, /*onlyTimed=*/false);
  if (!start)
    return start.takeError();
  std::vector<Decision> knobs;
  for (const explore::KnobChange &change : start->variations)
    knobs.push_back({change.layer, 1 + unsigned(change.values.size()), 0, change.name});
  return annealing.begin(descent.best().point, std::move(knobs));
}

/// Of all points seen that are as fast as `best` the first one, which a later search would take from the record.
MeasuredPoint Phases::canonical(const MeasuredPoint &best) const {
  for (const SearchPoint &point : evaluator.allSeen())
    if (const Measurement &measurement = evaluator.measured(point);
        measurement.failure.empty() && measurement.cycles == best.measurement.cycles)
      return {point, measurement};
  return best;
}

/// Whether a record is about these decisions and layers, and knows the first program.
bool fits(const SearchRecord &record, llvm::ArrayRef<Decision> decisions, size_t layers) {
  return llvm::all_of(record.measured, [&](const auto &entry) {
    const auto &[point, measurement] = entry;
    const bool isFirst = point.isDecided() && llvm::all_of(point.decisions, [](unsigned candidate) { return candidate == 0; });
    if (point.decisions.size() != decisions.size())
      return false;
    for (auto [candidate, decision] : llvm::zip(point.decisions, decisions))
      if (candidate >= std::max(1u, decision.candidates))
        return false;
    return measurement.failure.empty() ? measurement.layerCycles.size() >= layers : !isFirst;
  });
}

/// The fastest point of the record, or `first` if none is faster.
MeasuredPoint fastestOf(const SearchRecord &record, const MeasuredPoint &first) {
  MeasuredPoint best = first;
  for (const auto &[point, measurement] : record.measured)
    if (measurement.failure.empty() && measurement.cycles < best.measurement.cycles)
      best = {point, measurement};
  return best;
}

/// Compiles the best point. Only a record that was written by hand can be wrong about its cycles.
llvm::Expected<CompiledNetwork> compileBest(CompilePoint compile, const SearchOptions &options, const MeasuredPoint &best) {
  llvm::Expected<CompiledNetwork> network = compile(best.point, /*onlyTimed=*/false);
  if (!network)
    return network;
  llvm::Expected<Measurement> again = options.evaluate(network->program);
  if (!again)
    return again.takeError();
  if (again->cycles != best.measurement.cycles)
    return llvm::createStringError("the search cache says that the best program takes %llu cycles, but it takes %llu: "
                                   "delete it",
                                   (unsigned long long)best.measurement.cycles, (unsigned long long)again->cycles);
  return network;
}
} // namespace

llvm::Expected<CompiledNetwork> pipeline::search(CompilePoint compile, const SearchOptions &options, EstimatePoint estimate) {
  const Evaluator::Clock::time_point begin = Evaluator::Clock::now();
  llvm::Expected<CompiledNetwork> network = compile({}, /*onlyTimed=*/false);
  if (!network)
    return network;
  const std::vector<Decision> decisions = network->decisions;
  std::vector<uint64_t> layerBounds;
  for (const isa::Layer &layer : network->program.layers)
    layerBounds.push_back(layer.boundCycles);

  auto programOf = [&](const SearchPoint &point) -> llvm::Expected<isa::Program> {
    llvm::Expected<CompiledNetwork> compiled = compile(point, /*onlyTimed=*/true);
    if (!compiled)
      return compiled.takeError();
    return std::move(compiled->program);
  };
  // The tiles of a single layer are in the order of their estimates already.
  EvaluatorParameters parameters;
  parameters.shortBudget = kPhases.descent;
  Evaluator evaluator(programOf, options, layerBounds.size() == 1 ? EstimatePoint() : estimate, begin, parameters);
  if (llvm::Error error = evaluator.load(
          network->problem, [&](const SearchRecord &record) { return fits(record, decisions, layerBounds.size()); }))
    return std::move(error);

  const SearchPoint start{std::vector<unsigned>(decisions.size(), 0), {}, {}, {}};
  llvm::Expected<const Measurement *> measured = evaluator.measure(start, "first tiles", &network->program);
  if (!measured)
    return measured.takeError();
  const MeasuredPoint first{start, **measured};
  MeasuredPoint best = first;
  if (options.takeBest && evaluator.memo().budget >= options.budget) {
    best = fastestOf(evaluator.memo(), first);
  } else {
    llvm::Expected<MeasuredPoint> found = Phases(compile, options, evaluator, decisions, layerBounds, start).run();
    if (!found)
      return found.takeError();
    best = std::move(*found);
    if (llvm::Error error = evaluator.finish())
      return std::move(error);
  }
  if (best.point != start) {
    network = compileBest(compile, options, best);
    if (!network)
      return network;
  }
  network->search = evaluator.summary();
  network->search->firstCycles = first.measurement.cycles;
  network->search->bestCycles = best.measurement.cycles;
  return network;
}
