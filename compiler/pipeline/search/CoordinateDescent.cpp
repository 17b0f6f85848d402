//===- CoordinateDescent.cpp - Descent by changes of decisions ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/CoordinateDescent.h"

#include "llvm/ADT/STLExtras.h"

using namespace tw;
using namespace tw::pipeline;

CoordinateDescent::CoordinateDescent(Evaluator &evaluator, llvm::ArrayRef<Decision> decisions,
                                     llvm::ArrayRef<uint64_t> layerBounds, std::mt19937_64 &random,
                                     const DescentParameters &parameters)
    : evaluator(evaluator), decisions(decisions), layerBounds(layerBounds), random(random), parameters(parameters),
      locality(decisions), surrogate(evaluator, decisions, layerBounds.size(), parameters), tried(decisions),
      tries(decisions.size()) {}

void CoordinateDescent::moveTo(const SearchPoint &point) { incumbent = {point, evaluator.measured(point)}; }

void CoordinateDescent::restart(const SearchPoint &point) {
  moveTo(point);
  surrogate.reset();
  tries.assign(decisions.size(), 0);
}

/// The decisions in which a point differs from the best one.
std::string CoordinateDescent::nameOf(const SearchPoint &point) const {
  std::string name;
  size_t changed = 0;
  for (size_t i = 0; i < point.decisions.size(); ++i)
    if (point.decisions[i] != incumbent.point.decisions[i] && changed++ == 0)
      name = decisions[i].name;
  return changed == 0 ? "the same" : changed == 1 ? name : name + " and " + std::to_string(changed - 1) + " more";
}

llvm::Error CoordinateDescent::descend(unsigned patience) {
  this->patience = patience;
  lastGain = evaluator.evaluations();
  llvm::Error error = descendInRounds();
  this->patience = 0;
  return error;
}

/// In each round every move is tried at most once.
llvm::Error CoordinateDescent::descendInRounds() {
  bool asksSurrogate = evaluator.hasEstimates(), hasForgiven = false;
  for (size_t distance = layerBounds.size() > 1 ? parameters.distance : 0; !isOver(); distance = 0) {
    hasImproved = false;
    tried.clear();
    if (asksSurrogate)
      surrogate.survey(incumbent.point, tried);
    while (!isOver()) {
      std::vector<Move> moves = nextMoves(asksSurrogate, distance);
      if (moves.empty())
        break;
      if (asksSurrogate)
        moves = surrogate.screen(incumbent.point, moves, tried, random);
      if (!moves.empty())
        if (llvm::Error error = apply(moves))
          return error;
    }
    if (!asksSurrogate && !distance && !hasImproved)
      break;
    // A move may be refuted because of others in the same program: refuted moves get one more chance.
    const bool forgives = asksSurrogate && !hasImproved && surrogate.forgiveRefuted();
    asksSurrogate = evaluator.hasEstimates() && (hasImproved || (forgives && !hasForgiven));
    hasForgiven = forgives;
  }
  return llvm::Error::success();
}

/// Moves for one program, at least `distance` layers apart; with distance 0 a single one.
std::vector<Move> CoordinateDescent::nextMoves(bool asksSurrogate, size_t distance) {
  if (asksSurrogate)
    return surrogate.propose(incumbent.point, tried, random);
  std::vector<RankedMove> ranked = evaluator.hasEstimates() ? rankByPrediction() : rankByLoss();
  llvm::stable_sort(ranked, [](const RankedMove &a, const RankedMove &b) { return a.priority > b.priority; });
  if (distance == 0) {
    std::vector<SearchPoint> coming;
    for (const RankedMove &next : ranked)
      coming.push_back(neighbourOf(incumbent.point, next.move));
    evaluator.measureAhead(coming);
  }
  return selectApart(std::move(ranked), distance);
}

/// Of each decision the move with the largest predicted gain; what predictions for the decision were too high by is deducted.
std::vector<CoordinateDescent::RankedMove> CoordinateDescent::rankByPrediction() const {
  std::vector<RankedMove> ranked;
  for (size_t i = 0; i < decisions.size(); ++i) {
    std::optional<unsigned> choice;
    for (unsigned candidate = 0; decisions[i].layer && candidate < decisions[i].candidates; ++candidate)
      if (!tried.contains(i, candidate) && candidate != incumbent.point.decisions[i] &&
          (!choice || surrogate.predictedGain(i, candidate) > surrogate.predictedGain(i, *choice)))
        choice = candidate;
    if (!choice)
      continue;
    const int64_t gain = surrogate.predictedGain(i, *choice);
    const double forTries = parameters.costPerTry * double(tries[i] * incumbent.measurement.cycles);
    ranked.push_back({double(gain) - surrogate.bias(i) - forTries, {i, *choice, gain}});
  }
  return ranked;
}

/// Of each decision the move that gained most in layers of its kind. Layers that lose most against their bounds, and decisions
/// that were tried least, come first.
std::vector<CoordinateDescent::RankedMove> CoordinateDescent::rankByLoss() {
  std::vector<RankedMove> ranked;
  for (size_t i = 0; i < decisions.size(); ++i) {
    const Decision &decision = decisions[i];
    const std::map<unsigned, double> &known = learned[decision.kind];
    std::optional<unsigned> choice;
    double value = 0;
    for (unsigned candidate = 0; decision.layer && candidate < decision.candidates; ++candidate) {
      if (tried.contains(i, candidate) || candidate == incumbent.point.decisions[i])
        continue;
      const auto found = known.find(candidate);
      const double gain = found == known.end() ? 0 : found->second;
      if (!choice || gain > value) {
        choice = candidate;
        value = gain;
      }
    }
    if (!choice)
      continue;
    const uint64_t cycles = incumbent.measurement.layerCycles[*decision.layer], bound = layerBounds[*decision.layer];
    const double loss = cycles > bound ? double(cycles - bound) : 0;
    const double jitter = 1 + double(random() >> 11) * 0x1p-53 * parameters.jitter;
    const double priority = (loss + 1) / (1 + tries[i]) * jitter * (value > 0 ? parameters.knownGain : 1);
    ranked.push_back({priority, {i, *choice}});
  }
  return ranked;
}

/// The first moves that are at least `distance` layers apart; with distance 0 the first one alone.
std::vector<Move> CoordinateDescent::selectApart(std::vector<RankedMove> ranked, size_t distance) {
  std::vector<Move> moves;
  std::set<std::pair<unsigned, unsigned>> taken;
  for (RankedMove &next : ranked) {
    if (llvm::any_of(moves, [&](const Move &move) { return locality.areCloser(move, next.move, distance); }))
      continue;
    diversify(next.move, taken);
    moves.push_back(next.move);
    if (distance == 0)
      break;
  }
  return moves;
}

/// One decision of a kind is enough to learn about a candidate: another one takes an unknown candidate that no move of the
/// program has. `taken`: kinds and candidates of these moves.
void CoordinateDescent::diversify(Move &move, std::set<std::pair<unsigned, unsigned>> &taken) {
  const Decision &decision = decisions[move.decision];
  const std::map<unsigned, double> &known = learned[decision.kind];
  if (known.count(move.candidate) || taken.insert({decision.kind, move.candidate}).second)
    return;
  for (unsigned candidate = 0; candidate < decision.candidates; ++candidate)
    if (!tried.contains(move.decision, candidate) && candidate != incumbent.point.decisions[move.decision] &&
        !known.count(candidate) && taken.insert({decision.kind, candidate}).second) {
      move.candidate = candidate;
      return;
    }
}

llvm::Expected<const Measurement *> CoordinateDescent::measure(const std::vector<Move> &moves) {
  SearchPoint point = neighbourOf(incumbent.point, moves);
  llvm::Expected<const Measurement *> measured = evaluator.measure(point, nameOf(point));
  if (measured && (*measured)->failure.empty() && (*measured)->cycles < incumbent.measurement.cycles) {
    incumbent = {std::move(point), **measured};
    hasImproved = true;
    lastGain = evaluator.evaluations();
  }
  return measured;
}

/// Measures all `moves` in one program, and learns from it. A joint failure is bisected.
llvm::Error CoordinateDescent::apply(const std::vector<Move> &moves) {
  const MeasuredPoint before = incumbent;
  llvm::Expected<const Measurement *> measured = measure(moves);
  if (!measured)
    return measured.takeError();
  const Measurement &measurement = **measured;
  if (!measurement.failure.empty() && moves.size() > 1 && !isOver()) {
    const auto middle = moves.begin() + long(moves.size() / 2);
    if (llvm::Error error = apply({moves.begin(), middle}))
      return error;
    return isOver() ? llvm::Error::success() : apply({middle, moves.end()});
  }
  std::vector<Move> good, bad;
  for (Move move : moves) {
    tried.insert(move);
    ++tries[move.decision];
    if (!measurement.failure.empty())
      continue;
    learn(move, /*isAlone=*/moves.size() == 1, before.measurement, measurement);
    (move.gain > 0 ? good : bad).push_back(move);
  }
  const bool isTaken = incumbent.point != before.point;
  std::vector<Move> next = good;
  if (isTaken) {
    next.clear();
    for (const Move &move : bad) // and back
      next.push_back({move.decision, before.point.decisions[move.decision], -move.gain});
  }
  llvm::stable_sort(next, [](const Move &a, const Move &b) { return a.gain > b.gain; });
  if (!isTaken && bad.empty())
    next.resize(next.size() / 2);
  return refine(std::move(next));
}

/// Replaces the predicted gain of a move by the measured one.
void CoordinateDescent::learn(Move &move, bool isAlone, const Measurement &before, const Measurement &after) {
  const int64_t around = locality.cyclesAround(before, move);
  const int64_t whole = int64_t(before.cycles) - int64_t(after.cycles);
  if (evaluator.hasEstimates() && isAlone)
    surrogate.observe(move, double(whole));
  move.gain = isAlone ? whole : around - locality.cyclesAround(after, move);
  learned[decisions[move.decision].kind][move.candidate] = double(move.gain) / double(std::max<int64_t>(1, around));
  surrogate.setRefuted(move, move.gain <= 0);
}

/// Measures the moves, then the better half of them, and so on, until the best point improves.
llvm::Error CoordinateDescent::refine(std::vector<Move> moves) {
  const SearchPoint start = incumbent.point;
  for (; incumbent.point == start && !moves.empty() && !isOver(); moves.resize(moves.size() / 2)) {
    std::vector<SearchPoint> coming;
    for (std::vector<Move> half = moves; !half.empty(); half.resize(half.size() / 2))
      coming.push_back(neighbourOf(start, half));
    evaluator.measureAhead(coming);
    if (llvm::Expected<const Measurement *> measured = measure(moves); !measured)
      return measured.takeError();
  }
  return llvm::Error::success();
}

llvm::Error CoordinateDescent::tryNetworkDecisions(unsigned programs) {
  std::vector<SearchPoint> coming{incumbent.point};
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = parameters.alwaysTried + 1; !decisions[i].layer && candidate < decisions[i].candidates;
         ++candidate)
      coming.push_back(neighbourOf(incumbent.point, Move{i, candidate}));
  evaluator.estimateAhead(coming);
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 1; !decisions[i].layer && candidate < decisions[i].candidates; ++candidate) {
      if (isOver() || evaluator.evaluations() > programs)
        return llvm::Error::success();
      if (evaluator.hasEstimates() && candidate > parameters.alwaysTried) {
        const Measurement estimate = evaluator.estimate(neighbourOf(incumbent.point, Move{i, candidate}));
        if (!estimate.failure.empty() ||
            double(estimate.cycles) > parameters.worthTrying * double(surrogate.baseline(incumbent.point).cycles))
          continue;
      }
      if (llvm::Expected<const Measurement *> measured = measure({{i, candidate}}); !measured)
        return measured.takeError();
    }
  return llvm::Error::success();
}

llvm::Error CoordinateDescent::tryInEstimatedOrder(llvm::function_ref<bool(const Decision &)> isChosen) {
  std::vector<Move> moves;
  std::vector<SearchPoint> coming{incumbent.point};
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; isChosen(decisions[i]) && candidate < decisions[i].candidates; ++candidate)
      if (candidate != incumbent.point.decisions[i]) {
        moves.push_back({i, candidate});
        coming.push_back(neighbourOf(incumbent.point, moves.back()));
      }
  evaluator.estimateAhead(coming);
  std::vector<std::pair<uint64_t, Move>> promising;
  for (const Move &move : moves) {
    const Measurement estimate =
        evaluator.hasEstimates() ? evaluator.estimate(neighbourOf(incumbent.point, move)) : Measurement();
    if (estimate.failure.empty() &&
        (!evaluator.hasEstimates() ||
         double(estimate.cycles) < parameters.worthTrying * double(surrogate.baseline(incumbent.point).cycles)))
      promising.push_back({estimate.cycles, move});
  }
  llvm::stable_sort(promising, [](const auto &a, const auto &b) { return a.first < b.first; });
  for (llvm::ArrayRef<std::pair<uint64_t, Move>> left = promising; !left.empty() && !isOver(); left = left.drop_front()) {
    std::vector<SearchPoint> next;
    for (const auto &[cycles, move] : left)
      next.push_back(neighbourOf(incumbent.point, move));
    evaluator.measureAhead(next);
    if (llvm::Expected<const Measurement *> measured = measure({left.front().second}); !measured)
      return measured.takeError();
  }
  return llvm::Error::success();
}
