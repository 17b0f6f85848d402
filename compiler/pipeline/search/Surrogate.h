//===- Surrogate.h - Moves ranked and screened by estimates ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The surrogate of coordinate descent: the list scheduler's estimate predicts the
// gain of every single move, for a fraction of a simulation's time. What it got
// wrong about a decision corrects its predictions for that decision.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_SURROGATE_H
#define COMPILER_PIPELINE_SEARCH_SURROGATE_H

#include "compiler/pipeline/search/Evaluator.h"
#include "compiler/pipeline/search/Moves.h"

#include <random>

namespace tw::pipeline {

class Surrogate {
public:
  /// `layers`: of the network. `decisions` must outlive the surrogate.
  Surrogate(Evaluator &evaluator, llvm::ArrayRef<Decision> decisions, size_t layers, const DescentParameters &parameters = {});

  /// The estimate of `best`, the best point of the descent.
  const Measurement &baseline(const SearchPoint &best);

  /// Predicts the gain of every single move from `best`; after the first time of moves near layers that have changed since.
  /// Moves without a program are added to `tried`.
  void survey(const SearchPoint &best, MoveSet &tried);
  /// Moves from `best` with the largest predicted gains, far apart, that are neither in `tried` nor refuted. Each gain above 0.
  std::vector<Move> propose(const SearchPoint &best, const MoveSet &tried, std::mt19937_64 &random) const;
  /// Of proposed moves as many as are estimated to gain together; empty: none. Rejected moves are added to `tried`. Workers
  /// estimate ahead what would be proposed next with these random numbers.
  std::vector<Move> screen(const SearchPoint &best, const std::vector<Move> &moves, MoveSet &tried, std::mt19937_64 random);

  int64_t predictedGain(size_t decision, unsigned candidate) const { return gains[decision][candidate]; }
  /// Cycles by which predictions for moves of the decision alone were too high, on average.
  double bias(size_t decision) const { return biases[decision].mean; }
  /// A move alone was predicted to gain move.gain cycles and gained `actual`.
  void observe(const Move &move, double actual);
  /// Whether the simulator has contradicted the predicted gain of the move. Refuted moves are not proposed.
  void setRefuted(const Move &move, bool isRefuted);
  /// Proposes refuted moves again. Returns whether any was refuted since the last time.
  bool forgiveRefuted();
  /// Forgets all observations.
  void reset();

private:
  /// A running mean.
  struct Mean {
    double mean = 0;
    unsigned count = 0;
  };

  Evaluator &evaluator;
  const llvm::ArrayRef<Decision> decisions;
  const size_t layers;
  const Locality locality;
  const DescentParameters parameters;

  std::vector<std::vector<int64_t>> gains; ///< [decision][candidate]: predicted, cycles
  std::vector<Mean> biases;                ///< per decision
  MoveSet refuted;
  bool hasRefuted = false;
  SearchPoint surveyed;   ///< the best point of the last survey
  SearchPoint baselineOf; ///< the best point that the baseline is of
  Measurement baselineEstimate;

  std::vector<bool> changedLayers(const SearchPoint &best) const;
  std::vector<std::vector<Move>> surveyRounds(const SearchPoint &best, const std::vector<bool> &isChanged) const;
  void predictGains(const SearchPoint &best, llvm::ArrayRef<Move> moves, MoveSet &tried);
  void estimateAhead(const SearchPoint &best, const std::vector<Move> &moves, MoveSet tried, std::mt19937_64 random);
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_SURROGATE_H
