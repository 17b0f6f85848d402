//===- Search.cpp - Decisions of a schedule, found by running -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Search.h"

#include "compiler/pipeline/Compile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <set>
#include <utility>

using namespace tw;
using namespace tw::pipeline;

namespace {
/// A record of more programs than this is written once a second at most.
constexpr size_t kSmallRecord = 64;
/// How far apart layers are that change together: no two neighbours. With 1 the layers of long networks blur, with 3 and more a
/// program teaches less.
constexpr size_t kDistance = 2;

/// One decision goes another way.
struct Move {
  size_t decision;
  unsigned candidate;
  int64_t gain = 0; ///< cycles, as far as the layers around tell
};

/// What part of its programs, at most of those of a descent, a search spends on ways to compile the whole network, before it looks at
/// its layers.
constexpr unsigned kWholeShare = 8;
/// And what part on such ways once more, when it has looked at them, and before that as much on decisions that are probed.
constexpr unsigned kAgainShare = 16;
/// The first of these are tried whatever the estimate says, others up to so much of the best one's.
constexpr unsigned kTriedFirst = 3;
constexpr double kWorthTrying = 1.003;
/// The same as kDistance for estimates, which cost less.
constexpr size_t kEstimateDistance = 3;
/// A search of no more programs than these only descends.
constexpr unsigned kDescent = 64;
/// With more: how many programs in a row may be no faster before the descent ends.
constexpr unsigned kPatience = 24;
/// Then a walk goes in rounds of so many programs. At the begin of one it takes programs that are slower than the one before by so much
/// on average, and at the end none; so a walk does not depend on the budget, but for where it ends.
constexpr unsigned kRound = 192;
constexpr double kSlower = 1e-4;
/// The next round begins at the best program if the last one has ended slower than that by more than this.
constexpr double kTooSlow = 1e-3;
/// What has lost so much in every program, or could not be had, is left out but for one time in so many.
constexpr double kHopeless = 1e-3;
constexpr size_t kForHopeless = 30;
/// And ends when it has drawn so many in a row that it knows, or that cannot be had.
constexpr unsigned kKnown = 1000;
/// Layers take turns: for each try a layer's next one seems to gain so much less, of all cycles.
constexpr double kForEachTry = 1e-4;

class Searcher {
public:
  Searcher(CompilePicks compile, const SearchOptions &options, EstimatePicks estimate)
      : compile(compile), options(options), estimate(estimate), random(options.seed) {}

  llvm::Expected<CompiledNetwork> run();

private:
  CompilePicks compile;
  const SearchOptions &options;
  EstimatePicks estimate;
  std::mt19937_64 random;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now(), saved = begin;

  SearchRecord record;
  std::string problem;
  std::vector<Decision> decisions;
  std::vector<std::string> aspects; ///< names of what a walk changes
  std::vector<uint64_t> bounds;     ///< of the layers
  SearchResult result;
  unsigned limit = 0; ///< programs that may have run: less than the budget as long as some are kept for what comes later
  unsigned patience = 0, lastGain = 0; ///< if any: programs that may have run since the one that gained last

  std::set<Picks> seen; ///< by this search
  std::map<uint64_t, Picks> programs; ///< of those, by their digests
  Picks best;
  Measurement bestMeasurement;
  std::vector<std::vector<int64_t>> gains; ///< [decision][candidate]: cycles, by the estimate, of one change to the best program
  std::vector<std::vector<bool>> isDoubted; ///< [decision][candidate]: the estimate liked it and the simulator did not
  bool hasDoubts = false;
  Picks surveyed, expectedOf;             ///< the best program when all moves, and it itself, were estimated
  Measurement expected;                   ///< what the estimate said
  bool hasImproved = false;               ///< since the last round began
  std::vector<std::vector<bool>> isTried; ///< [decision][candidate]
  std::vector<unsigned> tries;            ///< per decision
  /// Per decision: cycles that the estimate promised too much for changes to it alone, the mean of so many.
  std::vector<std::pair<double, unsigned>> disappointments;
  /// [kind][candidate]: what part of its time a layer gained; decisions of one kind learn from each other.
  std::map<unsigned, std::map<unsigned, double>> learned;

  llvm::Expected<const Measurement *> measure(const Picks &picks, const isa::Program *program = nullptr);
  llvm::Expected<Measurement> run(const isa::Program &program);
  llvm::Expected<Measurement> compileAndRun(const Picks &picks);
  llvm::Expected<const Measurement *> measureMoves(const std::vector<Move> &moves);
  llvm::Error tryMoves(std::vector<Move> moves);
  const Measurement &expectBest();
  Measurement expect(const std::vector<Move> &moves);
  void survey();
  void estimateGains(std::vector<Move> moves);
  std::vector<Move> likedMoves();
  std::vector<Move> sift(std::vector<Move> moves);
  llvm::Error save(bool force);
  std::vector<Move> chooseMoves(size_t distance);
  llvm::Error chooseWhole();
  llvm::Error runWorthwhile(llvm::function_ref<bool(const Decision &)> isOne);
  llvm::Error chooseLayers();
  llvm::Error descend();
  llvm::Error wander();
  void takeBest();
  bool fits(const SearchRecord &record) const;
  int64_t around(const Measurement &measurement, const Move &move) const;
  size_t layerOf(const Move &move) const { return *decisions[move.decision].layer; }
  size_t lastOf(const Move &move) const { return layerOf(move) + decisions[move.decision].reach; }
  bool areCloser(const Move &a, const Move &b, size_t distance) const {
    return layerOf(a) < lastOf(b) + distance && layerOf(b) < lastOf(a) + distance;
  }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
  bool isFaster(const Measurement &m) const { return m.failure.empty() && m.cycles < bestMeasurement.cycles; }
  bool isOver() const { return result.evaluations >= limit || (patience && result.evaluations >= lastGain + patience); }
};

/// Cycles of a layer and its neighbours, whose work overlaps with its own, and of those that its decision reaches.
int64_t Searcher::around(const Measurement &measurement, const Move &move) const {
  int64_t sum = 0;
  const size_t layer = layerOf(move);
  for (size_t i = layer ? layer - 1 : 0; i <= lastOf(move) + 1 && i < measurement.layerCycles.size(); ++i)
    sum += int64_t(measurement.layerCycles[i]);
  return sum;
}

llvm::Error Searcher::save(bool force) {
  auto now = std::chrono::steady_clock::now();
  bool isSoon = record.measured.size() > kSmallRecord && now - saved < std::chrono::seconds(1);
  if (!options.cache || (isSoon && !force))
    return llvm::Error::success();
  saved = now;
  return options.cache->save(problem, record);
}

/// Puts the measurement of `picks` into the record. Programs that this search has seen before cost nothing, also those that other picks
/// made: so many as it may try.
llvm::Expected<const Measurement *> Searcher::measure(const Picks &picks, const isa::Program *program) {
  if (!seen.insert(picks).second)
    return &record.measured[picks];
  bool isRemembered = record.measured.count(picks);
  if (!isRemembered) {
    llvm::Expected<Measurement> measured = program ? run(*program) : compileAndRun(picks);
    if (!measured)
      return measured.takeError();
    record.measured[picks] = std::move(*measured);
    if (llvm::Error error = save(false))
      return error;
  }
  const Measurement &measurement = record.measured[picks];
  if (!measurement.failure.empty() && picks.size() > decisions.size()) // nobody said that there was one
    return &measurement;
  const bool isRepeated = measurement.failure.empty() && !programs.try_emplace(measurement.program, picks).second;
  if (isRepeated && result.repeated < options.budget) {
    ++result.repeated;
    return &measurement;
  }
  ++result.evaluations;
  result.remembered += isRemembered;
  result.failed += !measurement.failure.empty();
  if (options.progress) {
    SearchProgress progress{result.evaluations, options.budget, "first tiles", measurement.cycles, measurement.cycles,
                            isRemembered, seconds()};
    if (!best.empty()) {
      std::vector<size_t> changed;
      for (size_t i = 0; i < picks.size(); ++i)
        if (picks[i] != (i < best.size() ? best[i] : 0))
          changed.push_back(i);
      auto nameOf = [&](size_t i) { return i < decisions.size() ? decisions[i].name : aspects[i - decisions.size()]; };
      progress.what = changed.empty() ? "the same" : nameOf(changed.front());
      if (changed.size() > 1)
        progress.what += " and " + std::to_string(changed.size() - 1) + " more";
      progress.best = isFaster(measurement) ? measurement.cycles : bestMeasurement.cycles;
    }
    options.progress(progress);
  }
  return &measurement;
}

llvm::Expected<Measurement> Searcher::run(const isa::Program &program) {
  const llvm::ArrayRef<isa::Word> code = program.code;
  const uint64_t digest = llvm::xxh3_64bits({reinterpret_cast<const uint8_t *>(code.data()), code.size() * sizeof(isa::Word)});
  if (auto same = programs.find(digest); same != programs.end())
    return record.measured[same->second];
  llvm::Expected<Measurement> measured = options.evaluate(program);
  if (measured)
    measured->program = digest;
  return measured;
}

llvm::Expected<Measurement> Searcher::compileAndRun(const Picks &picks) {
  llvm::Expected<CompiledNetwork> compiled = compile(picks, true);
  if (compiled)
    return run(compiled->program);
  Measurement measurement;
  measurement.failure = llvm::toString(compiled.takeError());
  if (measurement.failure.rfind("internal: ", 0) == 0)
    return llvm::createStringError("%s", measurement.failure.c_str());
  return measurement;
}

/// The layers that lose most come first, and of their decisions the ones that were tried least; layers closer than `distance` are
/// not changed together, so that the cycles around each tell what its change did.
std::vector<Move> Searcher::chooseMoves(size_t distance) {
  std::vector<std::pair<double, Move>> possible;
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Decision &decision = decisions[i];
    if (!decision.layer)
      continue;
    std::map<unsigned, double> &known = learned[decision.kind];
    int choice = -1;
    double value = 0;
    if (estimate && distance == 0) {
      for (unsigned candidate = 0; candidate < decision.candidates; ++candidate)
        if (!isTried[i][candidate] && candidate != best[i] && (choice < 0 || gains[i][candidate] > gains[i][size_t(choice)]))
          choice = int(candidate);
      if (choice >= 0) { // what it was wrong about a layer's other candidates it is wrong about this one
        const int64_t gain = gains[i][size_t(choice)];
        possible.push_back({double(gain) - disappointments[i].first - kForEachTry * double(tries[i] * bestMeasurement.cycles),
                            {i, unsigned(choice), gain}});
      }
      continue;
    }
    for (unsigned candidate = 0; candidate < decision.candidates; ++candidate) {
      if (isTried[i][candidate] || candidate == best[i])
        continue;
      auto found = known.find(candidate);
      double gain = found == known.end() ? 0 : found->second;
      if (choice < 0 || gain > value)
        choice = int(candidate), value = gain;
    }
    if (choice < 0)
      continue;
    uint64_t cycles = bestMeasurement.layerCycles[*decision.layer];
    double loss = cycles > bounds[*decision.layer] ? double(cycles - bounds[*decision.layer]) : 0;
    double jitter = 1 + double(random() >> 11) * 0x1p-53 / 4;
    double priority = (loss + 1) / (1 + tries[i]) * jitter * (value > 0 ? 8 : 1);
    possible.push_back({priority, {i, unsigned(choice)}});
  }
  llvm::stable_sort(possible, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Move> moves;
  std::set<std::pair<unsigned, unsigned>> taken; // kind and candidate: one decision of a kind is enough to learn
  for (auto &[priority, move] : possible) {
    if (llvm::any_of(moves, [&, &move = move](const Move &m) { return areCloser(m, move, distance); }))
      continue;
    const Decision &decision = decisions[move.decision];
    std::map<unsigned, double> &known = learned[decision.kind];
    if (!known.count(move.candidate) && !taken.insert({decision.kind, move.candidate}).second) {
      // A twin of it is trying this one: another that nobody knows.
      for (unsigned candidate = 0; candidate < decision.candidates; ++candidate)
        if (!isTried[move.decision][candidate] && candidate != best[move.decision] && !known.count(candidate) &&
            taken.insert({decision.kind, candidate}).second) {
          move.candidate = candidate;
          break;
        }
    }
    moves.push_back(move);
    if (distance == 0)
      break;
  }
  return moves;
}

llvm::Expected<const Measurement *> Searcher::measureMoves(const std::vector<Move> &moves) {
  Picks picks = best;
  for (const Move &move : moves)
    picks[move.decision] = move.candidate;
  llvm::Expected<const Measurement *> measurement = measure(picks);
  if (measurement && isFaster(**measurement)) {
    best = std::move(picks);
    bestMeasurement = **measurement;
    hasImproved = true;
    lastGain = result.evaluations;
  }
  return measurement;
}

/// What the estimate says of the best program.
const Measurement &Searcher::expectBest() {
  if (expectedOf != best) {
    expectedOf = best;
    expected = expect({});
  }
  return expected;
}

/// What it says of that with `moves`.
Measurement Searcher::expect(const std::vector<Move> &moves) {
  Picks picks = best;
  for (const Move &move : moves)
    picks[move.decision] = move.candidate;
  Measurement measurement;
  if (llvm::Expected<Measurement> done = estimate(picks))
    measurement = std::move(*done);
  else
    measurement.failure = llvm::toString(done.takeError());
  return measurement;
}

/// The gains of `moves`, which are far apart.
void Searcher::estimateGains(std::vector<Move> moves) {
  const Measurement all = expect(moves);
  if (!all.failure.empty() && moves.size() > 1) { // which of them it was is not known
    auto middle = moves.begin() + long(moves.size() / 2);
    estimateGains({moves.begin(), middle});
    return estimateGains({middle, moves.end()});
  }
  for (const Move &move : moves) {
    isTried[move.decision][move.candidate] = !all.failure.empty();
    gains[move.decision][move.candidate] =
        all.failure.empty() ? around(expectBest(), move) - around(all, move) : -int64_t(expectBest().cycles); // no program at all
  }
}

/// Estimates all moves, in each round another one of every so many layers; again only those near layers that have changed since.
void Searcher::survey() {
  std::vector<bool> isNear(bounds.size(), surveyed.empty());
  for (size_t i = 0; i < surveyed.size(); ++i)
    if (surveyed[i] != best[i])
      for (size_t layer = 0; layer < bounds.size(); ++layer)
        if (!decisions[i].layer || size_t(std::abs(int64_t(layer) - int64_t(*decisions[i].layer))) < kEstimateDistance)
          isNear[layer] = true;
  surveyed = best;
  std::vector<std::vector<Move>> ofLayer(bounds.size());
  std::vector<Move> wide; // alone
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; decisions[i].layer && candidate < decisions[i].candidates; ++candidate)
      if (candidate != best[i] && isNear[*decisions[i].layer])
        (decisions[i].reach ? wide : ofLayer[*decisions[i].layer]).push_back({i, candidate});
  for (const Move &move : wide)
    estimateGains({move});
  for (size_t first = 0; first < kEstimateDistance; ++first)
    for (size_t round = 0;; ++round) {
      std::vector<Move> moves;
      for (size_t layer = first; layer < ofLayer.size(); layer += kEstimateDistance)
        if (round < ofLayer[layer].size())
          moves.push_back(ofLayer[layer][round]);
      if (moves.empty())
        break;
      estimateGains(std::move(moves));
    }
}

/// The moves that gain most by the estimate, one for each of layers far apart.
std::vector<Move> Searcher::likedMoves() {
  std::vector<std::pair<double, Move>> liked;
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; decisions[i].layer && candidate < decisions[i].candidates; ++candidate)
      if (int64_t gain = gains[i][candidate] - int64_t(std::max(0.0, disappointments[i].first));
          gain > 0 && !isTried[i][candidate] && !isDoubted[i][candidate] && candidate != best[i])
        liked.push_back({double(gain) * (1 + double(random() >> 11) * 0x1p-53 / 4), {i, candidate, gain}});
  llvm::stable_sort(liked, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Move> moves;
  for (auto &[value, move] : liked)
    if (llvm::none_of(moves, [&, &move = move](const Move &m) { return areCloser(m, move, kDistance); }))
      moves.push_back(move);
  return moves;
}

/// Of `moves` those that the estimate likes, together.
std::vector<Move> Searcher::sift(std::vector<Move> moves) {
  const int64_t before = int64_t(expectBest().cycles);
  const Measurement all = expect(moves);
  std::vector<Move> good;
  for (const Move &move : moves) {
    int64_t &gain = gains[move.decision][move.candidate];
    if (all.failure.empty())
      gain = moves.size() == 1 ? before - int64_t(all.cycles) : around(expected, move) - around(all, move);
    if (gain > 0)
      good.push_back({move.decision, move.candidate, gain});
    else
      isTried[move.decision][move.candidate] = true;
  }
  if (good.size() == moves.size() && all.failure.empty() && int64_t(all.cycles) < before)
    return good;
  llvm::stable_sort(good, [](const Move &a, const Move &b) { return a.gain > b.gain; });
  if (good.size() == moves.size())
    good.resize(good.size() / 2);
  for (; !good.empty(); good.resize(good.size() / 2))
    if (Measurement some = expect(good); some.failure.empty() && int64_t(some.cycles) < before)
      return good;
  for (const Move &move : moves)
    isTried[move.decision][move.candidate] = true;
  return {};
}

/// Makes all `moves` at once. The best program changes if it gets faster as a whole: with all of them, without those that seem to
/// have hurt, or with the better half of the others, and so on.
llvm::Error Searcher::tryMoves(std::vector<Move> moves) {
  const Picks before = best;
  const Measurement old = bestMeasurement;
  llvm::Expected<const Measurement *> measured = measureMoves(moves);
  if (!measured)
    return measured.takeError();
  const Measurement &measurement = **measured;
  bool isTaken = best != before;
  if (!measurement.failure.empty() && moves.size() > 1 && !isOver()) { // which of them it was is not known
    auto middle = moves.begin() + long(moves.size() / 2);
    if (llvm::Error error = tryMoves({moves.begin(), middle}))
      return error;
    return isOver() ? llvm::Error::success() : tryMoves({middle, moves.end()});
  }
  std::vector<Move> good, bad;
  for (Move move : moves) {
    isTried[move.decision][move.candidate] = true;
    ++tries[move.decision];
    if (!measurement.failure.empty())
      continue;
    int64_t cycles = around(old, move);
    if (estimate && moves.size() == 1) {
      auto &[mean, count] = disappointments[move.decision];
      mean += (double(move.gain) - (double(old.cycles) - double(measurement.cycles)) - mean) / ++count;
    }
    move.gain = moves.size() == 1 ? int64_t(old.cycles) - int64_t(measurement.cycles) : cycles - around(measurement, move);
    learned[decisions[move.decision].kind][move.candidate] = double(move.gain) / double(std::max<int64_t>(1, cycles));
    (move.gain > 0 ? good : bad).push_back(move);
    isDoubted[move.decision][move.candidate] = move.gain <= 0;
    hasDoubts |= move.gain <= 0;
  }
  std::vector<Move> next = good;
  if (isTaken) {
    next.clear();
    for (const Move &move : bad)
      next.push_back({move.decision, before[move.decision], -move.gain});
  }
  llvm::stable_sort(next, [](const Move &a, const Move &b) { return a.gain > b.gain; });
  if (!isTaken && bad.empty())
    next.resize(next.size() / 2);
  for (Picks start = best; best == start && !next.empty() && !isOver(); next.resize(next.size() / 2))
    if (llvm::Expected<const Measurement *> again = measureMoves(next); !again)
      return again.takeError();
  return llvm::Error::success();
}

/// The fastest program of the record.
void Searcher::takeBest() {
  for (const auto &[picks, measurement] : record.measured)
    if (isFaster(measurement)) {
      best = picks;
      bestMeasurement = measurement;
    }
}

/// Of the ways to compile the whole network the fastest, in the order in which the compiler prefers them.
llvm::Error Searcher::chooseWhole() {
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 1; !decisions[i].layer && candidate < decisions[i].candidates; ++candidate) {
      if (isOver() || result.evaluations > std::min(options.budget, kDescent) / kWholeShare)
        return llvm::Error::success();
      if (estimate && candidate > kTriedFirst) {
        const Measurement all = expect({{i, candidate}});
        if (!all.failure.empty() || double(all.cycles) > kWorthTrying * double(expectBest().cycles))
          continue;
      }
      if (llvm::Expected<const Measurement *> measured = measureMoves({{i, candidate}}); !measured)
        return measured.takeError();
    }
  return llvm::Error::success();
}

/// Moves of which the estimate sees little, with the layers as they are now: it says in which order, and which are worth a program.
llvm::Error Searcher::runWorthwhile(llvm::function_ref<bool(const Decision &)> isOne) {
  std::vector<std::pair<uint64_t, Move>> ways;
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; isOne(decisions[i]) && candidate < decisions[i].candidates; ++candidate) {
      if (candidate == best[i])
        continue;
      const Measurement all = estimate ? expect({{i, candidate}}) : Measurement();
      if (all.failure.empty() && (!estimate || double(all.cycles) < kWorthTrying * double(expectBest().cycles)))
        ways.push_back({all.cycles, {i, candidate}});
    }
  llvm::stable_sort(ways, [](const auto &a, const auto &b) { return a.first < b.first; });
  for (const auto &[cycles, move] : ways) {
    if (isOver())
      break;
    if (llvm::Expected<const Measurement *> measured = measureMoves({move}); !measured)
      return measured.takeError();
  }
  return llvm::Error::success();
}

/// Whether the record is about layers like these, whose first program exists.
bool Searcher::fits(const SearchRecord &record) const {
  return llvm::all_of(record.measured, [&](const auto &entry) {
    const auto &[picks, measurement] = entry;
    bool isFirst = picks.size() == decisions.size() && llvm::all_of(picks, [](unsigned pick) { return pick == 0; });
    bool isPossible = picks.size() >= decisions.size();
    for (size_t i = 0; isPossible && i < decisions.size(); ++i)
      isPossible = picks[i] < std::max(1u, decisions[i].candidates);
    return isPossible && (measurement.failure.empty() ? measurement.layerCycles.size() >= bounds.size() : !isFirst);
  });
}

/// Ways to compile the whole network, then the layers; then what is probed, such ways again, and layers. What a large budget leaves is
/// for a walk, and what that leaves for single changes.
llvm::Error Searcher::descend() {
  auto isWay = [](const Decision &decision) { return !decision.layer && decision.candidates > 1; };
  auto isProbed = [](const Decision &decision) { return decision.isProbed && decision.candidates > 1; };
  const bool hasWays = bounds.size() > 1 && llvm::any_of(decisions, isWay);
  const unsigned again = hasWays ? std::min(options.budget, kDescent) / kAgainShare : 0;
  const unsigned probed = estimate && llvm::any_of(decisions, isProbed) ? std::min(options.budget, kDescent) / kAgainShare : 0;
  const bool wanders = estimate && options.budget > kDescent;
  auto chooseLayersUpTo = [&](unsigned programs) {
    limit = programs;
    lastGain = result.evaluations;
    patience = wanders ? kPatience : 0;
    llvm::Error error = chooseLayers();
    patience = 0;
    return error;
  };
  const unsigned left = limit = options.budget - again - probed;
  if (llvm::Error error = chooseWhole())
    return error;
  if (llvm::Error error = chooseLayersUpTo(wanders ? std::min(left, result.evaluations + kDescent) : left))
    return error;
  if (probed) {
    limit = std::min(options.budget, result.evaluations + probed);
    if (llvm::Error error = runWorthwhile(isProbed))
      return error;
  }
  if (hasWays) {
    limit = std::min(options.budget, result.evaluations + again);
    if (llvm::Error error = runWorthwhile(isWay))
      return error;
  }
  if (probed || hasWays)
    if (llvm::Error error = chooseLayersUpTo(options.budget))
      return error;
  limit = options.budget;
  if (wanders) {
    if (llvm::Error error = wander())
      return error;
    if (best.size() == decisions.size())
      if (llvm::Error error = chooseLayers())
        return error;
  }
  // Of equal ones that which takeBest() would take of a record of this search.
  for (const Picks &picks : seen)
    if (const Measurement &measurement = record.measured[picks];
        measurement.failure.empty() && measurement.cycles == bestMeasurement.cycles) {
      best = picks;
      bestMeasurement = measurement;
      break;
    }
  record.budget = std::max(record.budget, options.budget);
  return save(true);
}

/// Leaves what no single decision makes faster: a walk from the best program, on which one to three aspects of neighbours change at a
/// time, since these depend on each other, also to slower programs, as much slower as is drawn (simulated annealing).
llvm::Error Searcher::wander() {
  llvm::Expected<CompiledNetwork> start = compile(best, false);
  if (!start)
    return start.takeError();
  std::map<std::optional<unsigned>, std::vector<size_t>> byLayer;
  for (auto [i, aspect] : llvm::enumerate(start->aspects)) {
    aspects.push_back(aspect.name);
    if (!aspect.values.empty())
      byLayer[aspect.layer].push_back(i);
  }
  std::vector<std::vector<size_t>> places;
  for (auto &[layer, own] : byLayer)
    places.push_back(std::move(own));
  if (places.empty())
    return llvm::Error::success();
  auto draw = [&](size_t count) { return size_t(random() % count); };
  Picks home = best, bestOfWalk;
  home.resize(decisions.size() + aspects.size());
  llvm::Expected<const Measurement *> first = measure(home);
  if (!first)
    return first.takeError();
  if (!(*first)->failure.empty())
    return llvm::Error::success();
  uint64_t atHome = (*first)->cycles, atBest = atHome;
  bestOfWalk = home;
  std::map<std::pair<size_t, unsigned>, double> leastLoss; // of all programs that took a value, as a part of all cycles
  unsigned begin = result.evaluations; // of a round
  for (unsigned known = 0; !isOver() && known < kKnown;) {
    if (result.evaluations >= begin + kRound) {
      begin = result.evaluations;
      if (double(atHome) > (1 + kTooSlow) * double(atBest)) {
        home = bestOfWalk;
        atHome = atBest;
      }
    }
    Picks picks = home;
    const int64_t middle = int64_t(draw(places.size()));
    size_t changes = 1 + draw(4) / 3;
    changes += draw(12) / 11;
    for (; changes > 0; --changes) {
      const int64_t near = std::clamp<int64_t>(middle + int64_t(draw(3)) - 1, 0, int64_t(places.size()) - 1);
      const std::vector<size_t> &place = places[size_t(near)];
      const size_t aspect = place[draw(place.size())];
      const unsigned value = unsigned(draw(1 + start->aspects[aspect].values.size()));
      auto lost = leastLoss.find({decisions.size() + aspect, value});
      if (lost == leastLoss.end() || lost->second < kHopeless || draw(kForHopeless) == 0)
        picks[decisions.size() + aspect] = value;
    }
    ++known;
    if (seen.count(picks))
      continue;
    llvm::Expected<const Measurement *> measured = measure(picks);
    if (!measured)
      return measured.takeError();
    const Measurement &measurement = **measured;
    const double loss = measurement.failure.empty() ? double(measurement.cycles) / double(atHome) - 1 : kHopeless;
    for (size_t i = decisions.size(); i < picks.size(); ++i)
      if (picks[i] != home[i]) {
        auto [it, isNew] = leastLoss.try_emplace({i, picks[i]}, loss);
        it->second = std::min(it->second, loss);
      }
    if (!measurement.failure.empty())
      continue;
    known = 0;
    const double left = 1 - double(result.evaluations - begin) / kRound;
    const double drawn = -std::log((double(random() % 1000) + 1) / 1001);
    if (double(measurement.cycles) > (1 + kSlower * left * drawn) * double(atHome))
      continue;
    home = std::move(picks);
    atHome = measurement.cycles;
    if (atHome >= atBest)
      continue;
    bestOfWalk = home;
    atBest = atHome;
    if (isFaster(measurement)) {
      best = home;
      bestMeasurement = measurement;
    }
  }
  return llvm::Error::success();
}

/// Rounds over all layers: many at once, those that the estimate likes if there is one; when that gains no more, one at a time. It ends
/// when that gains nothing either.
llvm::Error Searcher::chooseLayers() {
  bool asksEstimate = bool(estimate), asksAgain = false;
  for (size_t distance = bounds.size() > 1 ? kDistance : 0; !isOver();) {
    hasImproved = false;
    for (std::vector<bool> &layer : isTried)
      layer.assign(layer.size(), false);
    if (asksEstimate)
      survey();
    while (!isOver()) {
      std::vector<Move> moves = asksEstimate ? likedMoves() : chooseMoves(distance);
      if (moves.empty())
        break;
      if (asksEstimate)
        moves = sift(std::move(moves));
      if (!moves.empty())
        if (llvm::Error error = tryMoves(std::move(moves)))
          return error;
    }
    if (!asksEstimate && !distance && !hasImproved)
      break;
    // Doubts may have been about others that changed in the same program: once more without.
    const bool doubts = asksEstimate && !hasImproved && std::exchange(hasDoubts, false);
    for (std::vector<bool> &decision : isDoubted)
      if (doubts)
        decision.assign(decision.size(), false);
    asksEstimate = estimate && (hasImproved || (doubts && !asksAgain));
    asksAgain = doubts;
    distance = 0;
  }
  return llvm::Error::success();
}

llvm::Expected<CompiledNetwork> Searcher::run() {
  llvm::Expected<CompiledNetwork> first = compile({}, false);
  if (!first)
    return first;
  decisions = first->decisions;
  problem = first->problem;
  for (const isa::Layer &layer : first->program.layers)
    bounds.push_back(layer.boundCycles);
  if (bounds.size() == 1) // its tiles are in the order of their estimates
    estimate = {};
  for (const Decision &decision : decisions)
    isTried.emplace_back(decision.candidates);
  isDoubted = isTried;
  for (const Decision &decision : decisions)
    gains.emplace_back(decision.candidates);
  tries.assign(decisions.size(), 0);
  disappointments.assign(decisions.size(), {});
  if (options.cache) {
    llvm::Expected<SearchRecord> loaded = options.cache->load(problem);
    if (!loaded)
      return loaded.takeError();
    record = std::move(*loaded);
    if (!fits(record))
      record = {};
  }
  const Picks start(decisions.size(), 0);
  llvm::Expected<const Measurement *> measured = measure(start, &first->program);
  if (!measured)
    return measured.takeError();
  best = start;
  bestMeasurement = **measured;
  result.firstCycles = bestMeasurement.cycles;
  if (options.takeBest && record.budget >= options.budget)
    takeBest();
  else if (llvm::Error error = descend())
    return error;
  result.bestCycles = bestMeasurement.cycles;
  if (best != start) {
    first = compile(best, false);
    if (!first)
      return first;
    // Only a record that somebody has written by hand can be wrong here.
    llvm::Expected<Measurement> again = options.evaluate(first->program);
    if (!again)
      return again.takeError();
    if (again->cycles != bestMeasurement.cycles)
      return llvm::createStringError("the search cache says that the best program takes %llu cycles, but it takes %llu: "
                                     "delete it",
                                     (unsigned long long)bestMeasurement.cycles, (unsigned long long)again->cycles);
  }
  result.seconds = seconds();
  first->search = result;
  return first;
}
} // namespace

llvm::Expected<CompiledNetwork> pipeline::search(CompilePicks compile, const SearchOptions &options, EstimatePicks estimate) {
  return Searcher(compile, options, estimate).run();
}
