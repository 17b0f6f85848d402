//===- Surrogate.cpp - Moves ranked and screened by estimates -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/search/Surrogate.h"

#include "llvm/ADT/STLExtras.h"

#include <cstdlib>
#include <utility>

using namespace tw;
using namespace tw::pipeline;

Surrogate::Surrogate(Evaluator &evaluator, llvm::ArrayRef<Decision> decisions, size_t layers,
                     const DescentParameters &parameters)
    : evaluator(evaluator), decisions(decisions), layers(layers), locality(decisions), parameters(parameters),
      biases(decisions.size()), refuted(decisions) {
  for (const Decision &decision : decisions)
    gains.emplace_back(decision.candidates);
}

void Surrogate::reset() {
  biases.assign(decisions.size(), {});
  refuted.clear();
  hasRefuted = false;
}

void Surrogate::observe(const Move &move, double actual) {
  Mean &bias = biases[move.decision];
  bias.mean += (double(move.gain) - actual - bias.mean) / ++bias.count;
}

void Surrogate::setRefuted(const Move &move, bool isRefuted) {
  refuted.set(move, isRefuted);
  hasRefuted |= isRefuted;
}

bool Surrogate::forgiveRefuted() {
  if (!std::exchange(hasRefuted, false))
    return false;
  refuted.clear();
  return true;
}

const Measurement &Surrogate::baseline(const SearchPoint &best) {
  if (baselineOf != best) {
    baselineOf = best;
    baselineEstimate = evaluator.estimate(best);
  }
  return baselineEstimate;
}

/// Layers near decisions that have changed since the last survey; all, if there was none.
std::vector<bool> Surrogate::changedLayers(const SearchPoint &best) const {
  std::vector<bool> isChanged(layers, surveyed.decisions.empty());
  for (size_t i = 0; i < surveyed.decisions.size(); ++i) {
    if (surveyed.decisions[i] == best.decisions[i])
      continue;
    for (size_t layer = 0; layer < layers; ++layer)
      if (!decisions[i].layer || size_t(std::abs(int64_t(layer) - int64_t(*decisions[i].layer))) < parameters.estimateDistance)
        isChanged[layer] = true;
  }
  return isChanged;
}

/// Moves in groups for one estimate each: one move of every so many layers; moves that reach further stand alone.
std::vector<std::vector<Move>> Surrogate::surveyRounds(const SearchPoint &best, const std::vector<bool> &isChanged) const {
  std::vector<std::vector<Move>> ofLayer(layers), rounds;
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; decisions[i].layer && candidate < decisions[i].candidates; ++candidate) {
      if (candidate == best.decisions[i] || !isChanged[*decisions[i].layer])
        continue;
      if (decisions[i].reach)
        rounds.push_back({{i, candidate}});
      else
        ofLayer[*decisions[i].layer].push_back({i, candidate});
    }
  for (size_t first = 0; first < parameters.estimateDistance; ++first)
    for (size_t round = 0;; ++round) {
      std::vector<Move> moves;
      for (size_t layer = first; layer < layers; layer += parameters.estimateDistance)
        if (round < ofLayer[layer].size())
          moves.push_back(ofLayer[layer][round]);
      if (moves.empty())
        break;
      rounds.push_back(std::move(moves));
    }
  return rounds;
}

void Surrogate::survey(const SearchPoint &best, MoveSet &tried) {
  const std::vector<std::vector<Move>> rounds = surveyRounds(best, changedLayers(best));
  surveyed = best;
  std::vector<SearchPoint> coming{best};
  for (const std::vector<Move> &moves : rounds)
    coming.push_back(neighbourOf(best, moves));
  evaluator.estimateAhead(coming);
  for (const std::vector<Move> &moves : rounds)
    predictGains(best, moves, tried);
}

/// Of moves far apart. A group without a program is bisected until the culprit is known.
void Surrogate::predictGains(const SearchPoint &best, llvm::ArrayRef<Move> moves, MoveSet &tried) {
  const Measurement together = evaluator.estimate(neighbourOf(best, moves));
  if (!together.failure.empty() && moves.size() > 1) {
    predictGains(best, moves.take_front(moves.size() / 2), tried);
    return predictGains(best, moves.drop_front(moves.size() / 2), tried);
  }
  for (const Move &move : moves) {
    int64_t &gain = gains[move.decision][move.candidate];
    if (together.failure.empty()) {
      gain = locality.cyclesAround(baseline(best), move) - locality.cyclesAround(together, move);
    } else {
      tried.insert(move);
      gain = -int64_t(baseline(best).cycles);
    }
  }
}

std::vector<Move> Surrogate::propose(const SearchPoint &best, const MoveSet &tried, std::mt19937_64 &random) const {
  std::vector<std::pair<double, Move>> ranked;
  for (size_t i = 0; i < decisions.size(); ++i)
    for (unsigned candidate = 0; decisions[i].layer && candidate < decisions[i].candidates; ++candidate) {
      const int64_t gain = gains[i][candidate] - int64_t(std::max(0.0, biases[i].mean));
      if (gain <= 0 || tried.contains(i, candidate) || refuted.contains(i, candidate) || candidate == best.decisions[i])
        continue;
      const double factor = 1 + double(random() >> 11) * 0x1p-53 * parameters.jitter;
      ranked.push_back({double(gain) * factor, {i, candidate, gain}});
    }
  llvm::stable_sort(ranked, [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<Move> moves;
  for (auto &[value, move] : ranked)
    if (llvm::none_of(moves,
                      [&, &move = move](const Move &other) { return locality.areCloser(other, move, parameters.distance); }))
      moves.push_back(move);
  return moves;
}

/// The estimate of `moves`, and of the proposals that follow if each of these is rejected.
void Surrogate::estimateAhead(const SearchPoint &best, const std::vector<Move> &moves, MoveSet tried, std::mt19937_64 random) {
  std::vector<SearchPoint> coming;
  for (std::vector<Move> next = moves; !next.empty() && coming.size() < evaluator.depth();
       next = propose(best, tried, random)) {
    coming.push_back(neighbourOf(best, next));
    for (const Move &move : next)
      tried.insert(move);
  }
  evaluator.estimateAhead(coming);
}

std::vector<Move> Surrogate::screen(const SearchPoint &best, const std::vector<Move> &moves, MoveSet &tried,
                                    std::mt19937_64 random) {
  estimateAhead(best, moves, tried, random);
  const Measurement &before = baseline(best);
  const Measurement together = evaluator.estimate(neighbourOf(best, moves));
  auto gainsOverall = [&](const Measurement &estimate) { return estimate.failure.empty() && estimate.cycles < before.cycles; };
  std::vector<Move> good;
  for (const Move &move : moves) {
    int64_t &gain = gains[move.decision][move.candidate];
    if (together.failure.empty())
      gain = moves.size() == 1 ? int64_t(before.cycles) - int64_t(together.cycles)
                               : locality.cyclesAround(before, move) - locality.cyclesAround(together, move);
    if (gain > 0)
      good.push_back({move.decision, move.candidate, gain});
    else
      tried.insert(move);
  }
  if (good.size() == moves.size() && gainsOverall(together))
    return good;
  llvm::stable_sort(good, [](const Move &a, const Move &b) { return a.gain > b.gain; });
  if (good.size() == moves.size())
    good.resize(good.size() / 2);
  std::vector<SearchPoint> coming;
  for (std::vector<Move> half = good; !half.empty(); half.resize(half.size() / 2))
    coming.push_back(neighbourOf(best, half));
  evaluator.estimateAhead(coming);
  for (; !good.empty(); good.resize(good.size() / 2))
    if (gainsOverall(evaluator.estimate(neighbourOf(best, good))))
      return good;
  for (const Move &move : moves)
    tried.insert(move);
  return {};
}
