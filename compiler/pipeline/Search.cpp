//===- Search.cpp - Decisions of a schedule, found by running -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Search.h"

#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/Workers.h"
#include "compiler/text/Diagnostics.h"

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
/// And so many descents to begin with, from as many ways to compile the whole network; the third is slower than the second at first by no
/// more than this. As many walks are under way at once.
constexpr unsigned kDescents = 3;
constexpr double kWorthDescent = 1.05;
/// Then a walk from the end of each, in rounds of so many programs. At the begin of one it takes programs that are slower than the one
/// before by so much on average, and at the end none; so a walk does not depend on the budget, but for where it ends.
constexpr unsigned kRound = 64;
constexpr double kSlower = 1e-4;
/// The next round begins at the best program if the last one has ended slower than that by more than this.
constexpr double kTooSlow = 1e-3;
/// What has lost so much in every program, changed nothing in one, or could not be had, is left out but for one time in so many.
constexpr double kHopeless = 1e-3;
constexpr size_t kForHopeless = 30;
/// A knob that has lost so much with whatever value and layer, this often.
constexpr unsigned kKeyTries = 64;
/// And ends when it has drawn so many in a row that it knows, or that cannot be had.
constexpr unsigned kKnown = 1000;
/// Programs that are known, or change nothing, cost nothing: so many times the budget of a search that only descends, and once that of a
/// longer one, whose walks come by so many that they would take most of its time.
constexpr unsigned kRepeats = 4;
/// Layers take turns: for each try a layer's next one seems to gain so much less, of all cycles.
constexpr double kForEachTry = 1e-4;

/// What changes of one key have lost at least, as a part of all cycles.
struct KeyRecord {
  unsigned tries = 0;
  double leastLoss = kHopeless;

  bool isHopeless() const { return tries >= kKeyTries && leastLoss >= kHopeless; }
};

/// A walk from the end of a descent; without a best program if it cannot begin.
struct Walk {
  SearchPoint home, best;
  Measurement atHome, atBest;
  std::vector<explore::KnobChange> variations;
  std::vector<std::vector<size_t>> places;                 ///< variations of a layer, or of the whole network
  std::map<std::pair<size_t, unsigned>, double> leastLoss; ///< of all programs that took a value, as a part of all cycles
  std::set<std::pair<size_t, unsigned>> idle;              ///< values that have changed nothing in the program
  bool isOver = false;
};

/// A program each of whose layers is as in one of others. What is of the whole network is as in the first.
struct Mix {
  std::vector<SearchPoint> parents;
  std::vector<size_t> owners; ///< per layer, among these

  SearchPoint point() const;
};

/// What `point` take, or are estimated to take, as a task for workers.
Workers::Task taskOf(const SearchPoint &point, bool isEstimated) {
  Workers::Task task{isEstimated};
  const std::vector<unsigned> numbers = point.numbers();
  task.insert(task.end(), numbers.begin(), numbers.end());
  return task;
}

/// The knob of a variation's name.
std::string keyOf(const explore::KnobChange &variation) { return variation.name.substr(0, variation.name.find(" of ")); }

class Searcher {
public:
  Searcher(CompilePoint compile, const SearchOptions &options, EstimatePoint estimate)
      : compile(compile), options(options), estimate(estimate), random(options.seed),
        workers(std::max(1u, options.jobs) - 1, [this](const Workers::Task &task) { return work(task); }) {}

  llvm::Expected<CompiledNetwork> run();

private:
  CompilePoint compile;
  const SearchOptions &options;
  EstimatePoint estimate;
  std::mt19937_64 random;
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now(), saved = begin;

  SearchRecord record;
  std::string problem;
  std::vector<Decision> decisions;
  std::vector<uint64_t> bounds; ///< of the layers
  SearchResult result;
  unsigned limit = 0; ///< programs that may have run: less than the budget as long as some are kept for what comes later
  unsigned patience = 0, lastGain = 0; ///< if any: programs that may have run since the one that gained last

  std::set<SearchPoint> seen;               ///< by this search
  std::map<uint64_t, SearchPoint> programs; ///< of those, by their digests
  std::set<uint64_t> cyclesSeen;            ///< of those: as many again teach nothing
  SearchPoint best;                         ///< of this descent
  Measurement bestMeasurement;
  std::map<std::string, KeyRecord> keys; ///< of walks
  SearchPoint fastest;                   ///< of all
  uint64_t fastestCycles = UINT64_MAX;
  std::vector<std::vector<int64_t>>
      gains; ///< [decision][candidate]: cycles, by the estimate, of one change to the best program
  std::vector<std::vector<bool>> isDoubted; ///< [decision][candidate]: the estimate liked it and the simulator did not
  bool hasDoubts = false;
  SearchPoint surveyed, expectedOf;       ///< the best program when all moves, and it itself, were estimated
  Measurement expected;                   ///< what the estimate said
  bool hasImproved = false;               ///< since the last round began
  std::vector<std::vector<bool>> isTried; ///< [decision][candidate]
  std::vector<unsigned> tries;            ///< per decision
  /// Per decision: cycles that the estimate promised too much for changes to it alone, the mean of so many.
  std::vector<std::pair<double, unsigned>> disappointments;
  /// [kind][candidate]: what part of its time a layer gained; decisions of one kind learn from each other.
  std::map<unsigned, std::map<unsigned, double>> learned;
  Workers workers;

  llvm::Expected<const Measurement *> measure(const SearchPoint &point, const std::string &what,
                                              const isa::Program *program = nullptr);
  llvm::Expected<Measurement> run(const isa::Program &program);
  llvm::Expected<Measurement> compileAndRun(const SearchPoint &point);
  std::optional<Measurement> work(const Workers::Task &task);
  void lookAhead(llvm::ArrayRef<SearchPoint> likely, bool isEstimated);
  void lookAhead(const Walk &walk);
  SearchPoint with(const std::vector<Move> &moves) const;
  llvm::Expected<const Measurement *> measureMoves(const std::vector<Move> &moves);
  llvm::Error tryMoves(std::vector<Move> moves);
  const Measurement &expectBest();
  Measurement expect(const std::vector<Move> &moves);
  Measurement expectOf(const SearchPoint &point);
  void survey();
  void estimateGains(std::vector<Move> moves);
  std::vector<Move> likedMoves(const std::vector<std::vector<bool>> &isTried, std::mt19937_64 &random) const;
  void siftAhead(const std::vector<Move> &moves);
  std::vector<Move> sift(std::vector<Move> moves);
  llvm::Error save(bool force);
  std::vector<Move> chooseMoves(size_t distance);
  llvm::Error chooseWhole();
  llvm::Error runWorthwhile(llvm::function_ref<bool(const Decision &)> isOne);
  llvm::Error chooseLayers();
  llvm::Error chooseLayersUpTo(unsigned programs, bool isPatient);
  std::vector<SearchPoint> otherStarts();
  llvm::Error descendFrom(const SearchPoint &start);
  llvm::Error descend();
  llvm::Error explore(llvm::ArrayRef<SearchPoint> starts);
  llvm::Expected<Walk> beginWalk();
  std::pair<SearchPoint, std::string> propose(const Walk &walk, std::mt19937_64 &random) const;
  llvm::Error wander(Walk &walk);
  llvm::Error cross(llvm::ArrayRef<Walk> walks, Mix &mix);
  std::string nameOf(const SearchPoint &point) const;
  void takeBest();
  bool fits(const SearchRecord &record) const;
  int64_t around(const Measurement &measurement, const Move &move) const;
  size_t layerOf(const Move &move) const { return *decisions[move.decision].layer; }
  size_t lastOf(const Move &move) const { return layerOf(move) + decisions[move.decision].reach; }
  bool areCloser(const Move &a, const Move &b, size_t distance) const {
    return layerOf(a) < lastOf(b) + distance && layerOf(b) < lastOf(a) + distance;
  }
  SearchPoint firstPoint() const { return {std::vector<unsigned>(decisions.size(), 0), {}, {}, {}}; }
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

/// Puts the measurement of `point` into the record. Programs that this search has seen before cost nothing, nor, where there are
/// estimates, do those that take as many cycles as one it has seen: kRepeats of them for each that it may try.
llvm::Expected<const Measurement *> Searcher::measure(const SearchPoint &point, const std::string &what,
                                                      const isa::Program *program) {
  if (!seen.insert(point).second)
    return &record.measured[point];
  bool isRemembered = record.measured.count(point);
  if (!isRemembered) {
    std::optional<Measurement> ahead = program ? std::nullopt : workers.take(taskOf(point, false));
    llvm::Expected<Measurement> measured = ahead ? std::move(*ahead) : program ? run(*program) : compileAndRun(point);
    if (!measured)
      return measured.takeError();
    record.measured[point] = std::move(*measured);
    if (llvm::Error error = save(false))
      return error;
  }
  const Measurement &measurement = record.measured[point];
  if (!measurement.failure.empty() && !point.isDecided()) // nobody said that there was one
    return &measurement;
  bool isRepeated = false;
  if (measurement.failure.empty()) {
    const bool isNew = programs.try_emplace(measurement.program, point).second,
               differs = cyclesSeen.insert(measurement.cycles).second;
    isRepeated = !(estimate ? differs : isNew);
  }
  const unsigned repeats = options.budget > kDescent ? options.budget : kRepeats * options.budget;
  if (isRepeated && result.repeated < repeats) {
    ++result.repeated;
    return &measurement;
  }
  ++result.evaluations;
  result.remembered += isRemembered;
  result.failed += !measurement.failure.empty();
  if (measurement.failure.empty() && measurement.cycles < fastestCycles) {
    fastest = point;
    fastestCycles = measurement.cycles;
  }
  if (options.progress)
    options.progress({result.evaluations, options.budget, what, measurement.cycles, fastestCycles, isRemembered, seconds()});
  return &measurement;
}

/// What is decided in another way than in the best program.
std::string Searcher::nameOf(const SearchPoint &point) const {
  std::string name;
  size_t changed = 0;
  for (size_t i = 0; i < point.decisions.size(); ++i)
    if (point.decisions[i] != best.decisions[i] && changed++ == 0)
      name = decisions[i].name;
  return changed == 0 ? "the same" : changed == 1 ? name : name + " and " + std::to_string(changed - 1) + " more";
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

llvm::Expected<Measurement> Searcher::compileAndRun(const SearchPoint &point) {
  llvm::Expected<CompiledNetwork> compiled = compile(point, true);
  if (compiled)
    return run(compiled->program);
  Measurement measurement;
  measurement.failure = llvm::toString(compiled.takeError());
  if (llvm::StringRef(measurement.failure).starts_with(text::kInternal))
    return llvm::createStringError("%s", measurement.failure.c_str());
  return measurement;
}

std::optional<Measurement> Searcher::work(const Workers::Task &task) {
  const SearchPoint point = *SearchPoint::from({task.begin() + 1, task.end()});
  if (task.front())
    return expectOf(point);
  if (llvm::Expected<Measurement> measured = compileAndRun(point))
    return std::move(*measured);
  else
    llvm::consumeError(measured.takeError()); // said where it is asked for
  return std::nullopt;
}

/// What will be asked for next, or may be, is measured or estimated by workers. All that is estimated will be; of what is measured the first.
void Searcher::lookAhead(llvm::ArrayRef<SearchPoint> likely, bool isEstimated) {
  std::vector<Workers::Task> tasks;
  for (const SearchPoint &point : likely)
    if (isEstimated ? bool(estimate) : tasks.size() < workers.depth() && !record.measured.count(point))
      tasks.push_back(taskOf(point, isEstimated));
  workers.want(tasks);
}

/// The best program with `moves`.
SearchPoint Searcher::with(const std::vector<Move> &moves) const {
  SearchPoint point = best;
  for (const Move &move : moves)
    point.decisions[move.decision] = move.candidate;
  return point;
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
        if (!isTried[i][candidate] && candidate != best.decisions[i] &&
            (choice < 0 || gains[i][candidate] > gains[i][size_t(choice)]))
          choice = int(candidate);
      if (choice >= 0) { // what it was wrong about a layer's other candidates it is wrong about this one
        const int64_t gain = gains[i][size_t(choice)];
        possible.push_back({double(gain) - disappointments[i].first - kForEachTry * double(tries[i] * bestMeasurement.cycles),
                            {i, unsigned(choice), gain}});
      }
      continue;
    }
    for (unsigned candidate = 0; candidate < decision.candidates; ++candidate) {
      if (isTried[i][candidate] || candidate == best.decisions[i])
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
  if (distance == 0) {
    std::vector<SearchPoint> likely;
    for (const auto &[priority, move] : possible)
      likely.push_back(with({move}));
    lookAhead(likely, false);
  }
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
        if (!isTried[move.decision][candidate] && candidate != best.decisions[move.decision] && !known.count(candidate) &&
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
  SearchPoint point = with(moves);
  llvm::Expected<const Measurement *> measurement = measure(point, nameOf(point));
  if (measurement && isFaster(**measurement)) {
    best = std::move(point);
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
  const SearchPoint point = with(moves);
  std::optional<Measurement> ahead = workers.take(taskOf(point, true));
  return ahead ? std::move(*ahead) : expectOf(point);
}

Measurement Searcher::expectOf(const SearchPoint &point) {
  Measurement measurement;
  if (llvm::Expected<Measurement> done = estimate(point))
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
    gains[move.decision][move.candidate] = all.failure.empty() ? around(expectBest(), move) - around(all, move)
                                                               : -int64_t(expectBest().cycles); // no program at all
  }
}

/// Estimates all moves, in each round another one of every so many layers; again only those near layers that have changed since.
void Searcher::survey() {
  std::vector<bool> isNear(bounds.size(), surveyed.decisions.empty());
  for (size_t i = 0; i < surveyed.decisions.size(); ++i)
    if (surveyed.decisions[i] != best.decisions[i])
      for (size_t layer = 0; layer < bounds.size(); ++layer)
        if (!decisions[i].layer || size_t(std::abs(int64_t(layer) - int64_t(*decisions[i].layer))) < kEstimateDistance)
          isNear[layer] = true;
  surveyed = best;
  std::vector<std::vector<Move>> ofLayer(bounds.size());
  std::vector<Move> wide; // alone
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; decisions[i].layer && candidate < decisions[i].candidates; ++candidate)
      if (candidate != best.decisions[i] && isNear[*decisions[i].layer])
        (decisions[i].reach ? wide : ofLayer[*decisions[i].layer]).push_back({i, candidate});
  std::vector<std::vector<Move>> rounds;
  for (const Move &move : wide)
    rounds.push_back({move});
  for (size_t first = 0; first < kEstimateDistance; ++first)
    for (size_t round = 0;; ++round) {
      std::vector<Move> moves;
      for (size_t layer = first; layer < ofLayer.size(); layer += kEstimateDistance)
        if (round < ofLayer[layer].size())
          moves.push_back(ofLayer[layer][round]);
      if (moves.empty())
        break;
      rounds.push_back(std::move(moves));
    }
  std::vector<SearchPoint> coming{best};
  for (const std::vector<Move> &moves : rounds)
    coming.push_back(with(moves));
  lookAhead(coming, true);
  for (std::vector<Move> &moves : rounds)
    estimateGains(std::move(moves));
}

/// The moves that gain most by the estimate, one for each of layers far apart.
std::vector<Move> Searcher::likedMoves(const std::vector<std::vector<bool>> &isTried, std::mt19937_64 &random) const {
  std::vector<std::pair<double, Move>> liked;
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; decisions[i].layer && candidate < decisions[i].candidates; ++candidate)
      if (int64_t gain = gains[i][candidate] - int64_t(std::max(0.0, disappointments[i].first));
          gain > 0 && !isTried[i][candidate] && !isDoubted[i][candidate] && candidate != best.decisions[i])
        liked.push_back({double(gain) * (1 + double(random() >> 11) * 0x1p-53 / 4), {i, candidate, gain}});
  llvm::stable_sort(liked, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Move> moves;
  for (auto &[value, move] : liked)
    if (llvm::none_of(moves, [&, &move = move](const Move &m) { return areCloser(m, move, kDistance); }))
      moves.push_back(move);
  return moves;
}

/// Estimates `moves` together, and what comes next if none of these is liked.
void Searcher::siftAhead(const std::vector<Move> &moves) {
  std::vector<std::vector<bool>> tried = isTried;
  std::mt19937_64 drawn = random;
  std::vector<SearchPoint> likely;
  for (std::vector<Move> next = moves; !next.empty() && likely.size() < workers.depth(); next = likedMoves(tried, drawn)) {
    likely.push_back(with(next));
    for (const Move &move : next)
      tried[move.decision][move.candidate] = true;
  }
  lookAhead(likely, true);
}

/// Of `moves` those that the estimate likes, together.
std::vector<Move> Searcher::sift(std::vector<Move> moves) {
  siftAhead(moves);
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
  std::vector<SearchPoint> coming;
  for (std::vector<Move> some = good; !some.empty(); some.resize(some.size() / 2))
    coming.push_back(with(some));
  lookAhead(coming, true);
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
  const SearchPoint before = best;
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
      next.push_back({move.decision, before.decisions[move.decision], -move.gain});
  }
  llvm::stable_sort(next, [](const Move &a, const Move &b) { return a.gain > b.gain; });
  if (!isTaken && bad.empty())
    next.resize(next.size() / 2);
  for (SearchPoint start = best; best == start && !next.empty() && !isOver(); next.resize(next.size() / 2)) {
    std::vector<SearchPoint> likely;
    for (std::vector<Move> some = next; !some.empty(); some.resize(some.size() / 2))
      likely.push_back(with(some));
    lookAhead(likely, false);
    if (llvm::Expected<const Measurement *> again = measureMoves(next); !again)
      return again.takeError();
  }
  return llvm::Error::success();
}

/// The fastest program of the record.
void Searcher::takeBest() {
  for (const auto &[point, measurement] : record.measured)
    if (isFaster(measurement)) {
      best = point;
      bestMeasurement = measurement;
    }
}

/// Of the ways to compile the whole network the fastest, in the order in which the compiler prefers them.
llvm::Error Searcher::chooseWhole() {
  std::vector<SearchPoint> coming{best};
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = kTriedFirst + 1; !decisions[i].layer && candidate < decisions[i].candidates; ++candidate)
      coming.push_back(with({{i, candidate}}));
  lookAhead(coming, true);
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
  std::vector<Move> moves;
  std::vector<SearchPoint> coming{best};
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; isOne(decisions[i]) && candidate < decisions[i].candidates; ++candidate)
      if (candidate != best.decisions[i]) {
        moves.push_back({i, candidate});
        coming.push_back(with({moves.back()}));
      }
  lookAhead(coming, true);
  std::vector<std::pair<uint64_t, Move>> ways;
  for (const Move &move : moves) {
    const Measurement all = estimate ? expect({move}) : Measurement();
    if (all.failure.empty() && (!estimate || double(all.cycles) < kWorthTrying * double(expectBest().cycles)))
      ways.push_back({all.cycles, move});
  }
  llvm::stable_sort(ways, [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t i = 0; i < ways.size() && !isOver(); ++i) {
    const Move &move = ways[i].second;
    std::vector<SearchPoint> likely;
    for (size_t k = i; k < ways.size(); ++k)
      likely.push_back(with({ways[k].second}));
    lookAhead(likely, false);
    if (llvm::Expected<const Measurement *> measured = measureMoves({move}); !measured)
      return measured.takeError();
  }
  return llvm::Error::success();
}

/// Whether the record is about layers like these, whose first program exists.
bool Searcher::fits(const SearchRecord &record) const {
  return llvm::all_of(record.measured, [&](const auto &entry) {
    const auto &[point, measurement] = entry;
    bool isFirst = point.isDecided() && llvm::all_of(point.decisions, [](unsigned candidate) { return candidate == 0; });
    bool isPossible = point.decisions.size() == decisions.size();
    for (size_t i = 0; isPossible && i < decisions.size(); ++i)
      isPossible = point.decisions[i] < std::max(1u, decisions[i].candidates);
    return isPossible && (measurement.failure.empty() ? measurement.layerCycles.size() >= bounds.size() : !isFirst);
  });
}

/// A descent that `isPatient` ends when too many programs in a row have gained nothing.
llvm::Error Searcher::chooseLayersUpTo(unsigned programs, bool isPatient) {
  limit = programs;
  lastGain = result.evaluations;
  patience = isPatient ? kPatience : 0;
  llvm::Error error = chooseLayers();
  patience = 0;
  return error;
}

/// The ways to compile the whole network that have been run, but for the best one's, with the first candidates of all layers: the
/// fastest come first.
std::vector<SearchPoint> Searcher::otherStarts() {
  std::vector<std::pair<uint64_t, SearchPoint>> found;
  std::set<uint64_t> known; // programs
  auto add = [&](const SearchPoint &point, bool isWanted) {
    auto measured = record.measured.find(point);
    if (seen.count(point) && measured->second.failure.empty() && known.insert(measured->second.program).second && isWanted)
      found.push_back({measured->second.cycles, point});
  };
  SearchPoint own = best;
  for (size_t i = 0; i < decisions.size(); ++i)
    own.decisions[i] = decisions[i].layer ? 0 : best.decisions[i];
  add(own, false);
  add(firstPoint(), true);
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 1; !decisions[i].layer && candidate < decisions[i].candidates; ++candidate) {
      SearchPoint point = firstPoint();
      point.decisions[i] = candidate;
      add(point, true);
    }
  llvm::stable_sort(found, [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<SearchPoint> starts;
  for (auto &[cycles, point] : found)
    if (double(cycles) <= kWorthDescent * double(found.front().first))
      starts.push_back(std::move(point));
  return starts;
}

/// The layers and what is probed, from another program.
llvm::Error Searcher::descendFrom(const SearchPoint &start) {
  best = start;
  bestMeasurement = record.measured[start];
  for (std::vector<bool> &decision : isDoubted)
    decision.assign(decision.size(), false);
  hasDoubts = false;
  tries.assign(decisions.size(), 0);
  disappointments.assign(decisions.size(), {});
  if (llvm::Error error = chooseLayersUpTo(std::min(options.budget, result.evaluations + kDescent), true))
    return error;
  limit = std::min(options.budget, result.evaluations + kDescent / kAgainShare);
  return runWorthwhile([](const Decision &decision) { return decision.isProbed && decision.candidates > 1; });
}

/// Ways to compile the whole network, then the layers; then what is probed, such ways again, and layers. What a large budget leaves is
/// for descents from other ways and for walks, and what that leaves for single changes.
llvm::Error Searcher::descend() {
  auto isWay = [](const Decision &decision) { return !decision.layer && decision.candidates > 1; };
  auto isProbed = [](const Decision &decision) { return decision.isProbed && decision.candidates > 1; };
  const bool hasWays = bounds.size() > 1 && llvm::any_of(decisions, isWay);
  const unsigned again = hasWays ? std::min(options.budget, kDescent) / kAgainShare : 0;
  const unsigned probed = estimate && llvm::any_of(decisions, isProbed) ? std::min(options.budget, kDescent) / kAgainShare : 0;
  const bool wanders = estimate && options.budget > kDescent;
  const unsigned left = limit = options.budget - again - probed;
  if (llvm::Error error = chooseWhole())
    return error;
  std::vector<SearchPoint> starts = otherStarts();
  starts.insert(starts.begin(), best);
  if (llvm::Error error = chooseLayersUpTo(wanders ? std::min(left, result.evaluations + kDescent) : left, wanders))
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
    if (llvm::Error error = chooseLayersUpTo(options.budget, wanders))
      return error;
  limit = options.budget;
  if (wanders) {
    if (llvm::Error error = explore(starts))
      return error;
    best = fastest;
    bestMeasurement = record.measured[best];
    if (best.isDecided())
      if (llvm::Error error = chooseLayers())
        return error;
  }
  // Of equal ones that which takeBest() would take of a record of this search.
  for (const SearchPoint &point : seen)
    if (const Measurement &measurement = record.measured[point];
        measurement.failure.empty() && measurement.cycles == bestMeasurement.cycles) {
      best = point;
      bestMeasurement = measurement;
      break;
    }
  record.budget = std::max(record.budget, options.budget);
  return save(true);
}

/// Leaves what no single decision makes faster: walks from the ends of this descent and of others, in turn, whose programs are crossed. When
/// a turn of all has gained nothing another descent takes other chances, and its walk the place of the slowest.
llvm::Error Searcher::explore(llvm::ArrayRef<SearchPoint> starts) {
  std::vector<Walk> walks;
  Mix mix;
  const size_t first = std::min<size_t>(kDescents, starts.size());
  size_t turn = 0, sinceGain = 0; // whose it is, and how many ago one has gained
  unsigned begun = 0;             // programs before the last descent
  while (!isOver()) {
    const size_t going = size_t(llvm::count_if(walks, [](const Walk &walk) { return !walk.isOver; }));
    const bool isStuck = sinceGain >= going;
    if (walks.size() < first || isStuck) {
      if (walks.size() >= first && result.evaluations == begun)
        break; // the last descent has found nothing that is not known
      begun = result.evaluations;
      if (going >= kDescents)
        llvm::max_element(walks, [](const Walk &a, const Walk &b) {
          return std::pair(!a.isOver, a.atBest.cycles) < std::pair(!b.isOver, b.atBest.cycles);
        })->isOver = true;
      if (!walks.empty())
        if (llvm::Error error = descendFrom(starts[walks.size() % starts.size()]))
          return error;
      limit = options.budget;
      llvm::Expected<Walk> walk = beginWalk();
      if (!walk)
        return walk.takeError();
      walks.push_back(std::move(*walk));
      turn = walks.size() - 1;
      sinceGain = 0;
    }
    const uint64_t before = fastestCycles;
    if (llvm::Error error = wander(walks[turn]))
      return error;
    if (walks.size() > 1)
      if (llvm::Error error = cross(walks, mix))
        return error;
    sinceGain = fastestCycles < before ? 0 : sinceGain + 1;
    for (size_t i = 0; i < walks.size() && (i == 0 || walks[turn].isOver); ++i)
      turn = (turn + 1) % walks.size();
  }
  return llvm::Error::success();
}

llvm::Expected<Walk> Searcher::beginWalk() {
  llvm::Expected<CompiledNetwork> start = compile(best, false);
  if (!start)
    return start.takeError();
  Walk walk;
  walk.variations = std::move(start->variations);
  std::map<std::optional<unsigned>, std::vector<size_t>> byLayer;
  for (auto [i, variation] : llvm::enumerate(walk.variations))
    if (!variation.values.empty())
      byLayer[variation.layer].push_back(i);
  for (auto &[layer, own] : byLayer)
    walk.places.push_back(std::move(own));
  walk.home = best;
  walk.home.variations.resize(walk.variations.size());
  walk.isOver = walk.places.empty();
  if (!walk.isOver) {
    llvm::Expected<const Measurement *> first = measure(walk.home, "the same");
    if (!first)
      return first.takeError();
    walk.isOver = !(*first)->failure.empty();
    walk.atHome = **first;
  }
  if (!walk.isOver) {
    walk.best = walk.home;
    walk.atBest = walk.atHome;
  }
  return walk;
}

/// What a walk may try next, and its name: one to three variations of neighbours change at a time, since these depend on each other.
std::pair<SearchPoint, std::string> Searcher::propose(const Walk &walk, std::mt19937_64 &random) const {
  auto draw = [&](size_t count) { return size_t(random() % count); };
  auto isHopeless = [&](size_t variation, unsigned value) {
    const std::pair<size_t, unsigned> pick(variation, value);
    auto lost = walk.leastLoss.find(pick);
    if ((lost != walk.leastLoss.end() && lost->second >= kHopeless) || walk.idle.count(pick))
      return true;
    auto key = keys.find(keyOf(walk.variations[variation]));
    return key != keys.end() && key->second.isHopeless();
  };
  SearchPoint point = walk.home;
  const int64_t middle = int64_t(draw(walk.places.size()));
  size_t changes = 1 + draw(4) / 3, changed = 0;
  changes += draw(12) / 11;
  std::string name;
  for (; changes > 0; --changes) {
    const int64_t near = std::clamp<int64_t>(middle + int64_t(draw(3)) - 1, 0, int64_t(walk.places.size()) - 1);
    const std::vector<size_t> &place = walk.places[size_t(near)];
    const size_t variation = place[draw(place.size())];
    const unsigned value = unsigned(draw(1 + walk.variations[variation].values.size()));
    if (isHopeless(variation, value) && draw(kForHopeless) != 0)
      continue;
    unsigned &pick = point.variations[variation];
    if (pick != value && changed++ == 0)
      name = walk.variations[variation].name;
    pick = value;
  }
  return {std::move(point), changed > 1 ? name + " and " + std::to_string(changed - 1) + " more" : name};
}

/// To what a walk tries next, and behind that if it stays where it is.
void Searcher::lookAhead(const Walk &walk) {
  std::mt19937_64 drawn = random;
  std::vector<SearchPoint> likely;
  for (unsigned known = 0; known < kKnown && likely.size() < workers.depth(); ++known) {
    SearchPoint point = propose(walk, drawn).first;
    drawn(); // how much slower it may be
    if (!seen.count(point))
      likely.push_back(std::move(point));
  }
  lookAhead(likely, false);
}

/// A round of a walk, also to slower programs, as much slower as is drawn (simulated annealing).
llvm::Error Searcher::wander(Walk &walk) {
  if (double(walk.atHome.cycles) > (1 + kTooSlow) * double(walk.atBest.cycles)) {
    walk.home = walk.best;
    walk.atHome = walk.atBest;
  }
  const unsigned begin = result.evaluations;
  for (unsigned known = 0; !walk.isOver && !isOver() && result.evaluations < begin + kRound; walk.isOver = known >= kKnown) {
    lookAhead(walk);
    auto [point, name] = propose(walk, random);
    const double drawn = -std::log((double(random() % 1000) + 1) / 1001);
    ++known;
    if (seen.count(point))
      continue;
    llvm::Expected<const Measurement *> measured = measure(point, name);
    if (!measured)
      return measured.takeError();
    const Measurement &measurement = **measured;
    const double loss = measurement.failure.empty() ? double(measurement.cycles) / double(walk.atHome.cycles) - 1 : kHopeless;
    for (size_t i = 0; i < point.variations.size(); ++i)
      if (point.variations[i] != walk.home.variations[i]) {
        auto [it, isNew] = walk.leastLoss.try_emplace({i, point.variations[i]}, loss);
        it->second = std::min(it->second, loss);
        KeyRecord &key = keys[keyOf(walk.variations[i])];
        key.tries += measurement.failure.empty();
        key.leastLoss = std::min(key.leastLoss, loss);
      }
    if (!measurement.failure.empty())
      continue;
    if (measurement.program == walk.atHome.program) { // so it would be the next time
      for (size_t i = 0; i < point.variations.size(); ++i)
        if (point.variations[i] != walk.home.variations[i])
          walk.idle.insert({i, point.variations[i]});
      continue;
    }
    known = 0;
    const double left = 1 - double(result.evaluations - begin) / kRound;
    if (double(measurement.cycles) > (1 + kSlower * left * drawn) * double(walk.atHome.cycles))
      continue;
    walk.home = std::move(point);
    walk.atHome = measurement;
    if (walk.atHome.cycles < walk.atBest.cycles) {
      walk.best = walk.home;
      walk.atBest = walk.atHome;
    }
  }
  return llvm::Error::success();
}

/// Of one parent alone its own.
SearchPoint Mix::point() const {
  SearchPoint point = parents.front();
  std::map<size_t, unsigned> number{{0, 0}};
  for (size_t owner : owners)
    if (number.try_emplace(owner, unsigned(number.size())).second)
      point.others.push_back(parents[owner]);
  if (number.size() > 1)
    for (size_t owner : owners)
      point.owners.push_back(number[owner]);
  return point;
}

/// What a layer gains hangs on its neighbours most. So runs of layers of the best programs of `walks` take the place of those of `mix`, the
/// best mix so far, those first that are done soonest there.
llvm::Error Searcher::cross(llvm::ArrayRef<Walk> walks, Mix &mix) {
  Measurement own = mix.parents.empty() ? Measurement() : record.measured[mix.point()];
  for (const Walk &walk : walks)
    if (!walk.best.decisions.empty() && (mix.parents.empty() || walk.atBest.cycles < own.cycles)) {
      mix = {{walk.best}, std::vector<size_t>(bounds.size(), 0)};
      own = walk.atBest;
    }
  if (mix.parents.empty())
    return llvm::Error::success();
  for (const Walk &walk : walks)
    if (!walk.best.decisions.empty() && !llvm::is_contained(mix.parents, walk.best))
      mix.parents.push_back(walk.best);
  struct Crossing {
    size_t donor, first, last;
    int64_t gain;
  };
  unsigned gained = result.evaluations;
  for (bool isBetter = true; isBetter;) {
    std::vector<Crossing> crossings;
    for (size_t donor = 0; donor < mix.parents.size(); ++donor) {
      const Measurement &other = record.measured[mix.parents[donor]];
      for (size_t length = 2; length < bounds.size(); length *= 2)
        for (size_t first = 0; first < bounds.size(); first += length / 2) {
          Crossing crossing{donor, first, std::min(first + length, bounds.size()), 0};
          for (size_t layer = first; layer < crossing.last; ++layer)
            crossing.gain += int64_t(own.layerCycles[layer]) - int64_t(other.layerCycles[layer]);
          crossings.push_back(crossing);
        }
    }
    llvm::stable_sort(crossings, [](const Crossing &a, const Crossing &b) { return a.gain > b.gain; });
    isBetter = false;
    auto crossed = [&](const Crossing &crossing) {
      Mix next = mix;
      std::fill(next.owners.begin() + long(crossing.first), next.owners.begin() + long(crossing.last), crossing.donor);
      return next;
    };
    for (auto [i, crossing] : llvm::enumerate(crossings)) {
      if (isOver() || result.evaluations >= gained + kPatience)
        break;
      Mix next = crossed(crossing);
      const SearchPoint point = next.point();
      if (seen.count(point))
        continue;
      std::vector<SearchPoint> likely{point};
      for (size_t k = i + 1; k < crossings.size() && likely.size() < workers.depth(); ++k)
        if (SearchPoint other = crossed(crossings[k]).point(); !seen.count(other))
          likely.push_back(std::move(other));
      lookAhead(likely, false);
      llvm::Expected<const Measurement *> measured = measure(point, "layers of another walk");
      if (!measured)
        return measured.takeError();
      if (!(*measured)->failure.empty() || (*measured)->cycles >= own.cycles)
        continue;
      mix = std::move(next);
      own = **measured;
      gained = result.evaluations;
      isBetter = true; // others are what is missing now
      break;
    }
  }
  // Who owns nothing has nothing to say any more.
  Mix left{{mix.parents.front()}, {}};
  std::map<size_t, size_t> number{{0, 0}};
  for (size_t owner : mix.owners) {
    auto [it, isNew] = number.try_emplace(owner, left.parents.size());
    if (isNew)
      left.parents.push_back(mix.parents[owner]);
    left.owners.push_back(it->second);
  }
  mix = std::move(left);
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
      std::vector<Move> moves = asksEstimate ? likedMoves(isTried, random) : chooseMoves(distance);
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
  const SearchPoint start = firstPoint();
  llvm::Expected<const Measurement *> measured = measure(start, "first tiles", &first->program);
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

llvm::Expected<CompiledNetwork> pipeline::search(CompilePoint compile, const SearchOptions &options, EstimatePoint estimate) {
  return Searcher(compile, options, estimate).run();
}
