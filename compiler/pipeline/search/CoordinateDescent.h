//===- CoordinateDescent.h - Descent by changes of decisions -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Block coordinate descent: moves of decisions far apart are simulated in one
// program, and the cycles around each move tell its gain. When joint moves gain no
// more, decisions move one at a time. The surrogate, if there are estimates, ranks
// the moves; else lost cycles and moves of similar layers do.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_COORDINATEDESCENT_H
#define COMPILER_PIPELINE_SEARCH_COORDINATEDESCENT_H

#include "compiler/pipeline/search/Surrogate.h"

namespace tw::pipeline {

class CoordinateDescent {
public:
  /// `layerBounds`: per layer, the cycles that it takes at least. `decisions`, `layerBounds` and `random` must outlive the
  /// descent.
  CoordinateDescent(Evaluator &evaluator, llvm::ArrayRef<Decision> decisions, llvm::ArrayRef<uint64_t> layerBounds,
                    std::mt19937_64 &random, const DescentParameters &parameters = {});

  /// Goes on from a point, whose measurement the evaluator has.
  void moveTo(const SearchPoint &point);
  /// As moveTo(), and forgets what moves have gained, but for what layers of one kind have learned from each other.
  void restart(const SearchPoint &point);

  /// Descends until no single move gains, the evaluator's limit is reached, or `patience` programs in a row have gained nothing
  /// (0: no such end).
  llvm::Error descend(unsigned patience = 0);
  /// Tries decisions about the whole network in the compiler's order of preference, as long as no more than `programs` have
  /// counted.
  llvm::Error tryNetworkDecisions(unsigned programs);
  /// Tries each candidate of the chosen decisions that the estimate does not expect to be much slower, the fastest estimate
  /// first.
  llvm::Error tryInEstimatedOrder(llvm::function_ref<bool(const Decision &)> isChosen);

  /// The fastest point since the last moveTo() or restart(), with that point.
  const MeasuredPoint &best() const { return incumbent; }

private:
  struct RankedMove {
    double priority;
    Move move;
  };

  Evaluator &evaluator;
  const llvm::ArrayRef<Decision> decisions;
  const llvm::ArrayRef<uint64_t> layerBounds;
  std::mt19937_64 &random;
  const DescentParameters parameters;
  const Locality locality;
  Surrogate surrogate;

  MeasuredPoint incumbent;
  bool hasImproved = false; ///< since the round began
  unsigned patience = 0, lastGain = 0;
  MoveSet tried;
  std::vector<unsigned> tries; ///< per decision: moves simulated
  /// [kind][candidate]: share of a layer's cycles that the last such move gained.
  std::map<unsigned, std::map<unsigned, double>> learned;

  bool isOver() const { return evaluator.isExhausted() || (patience && evaluator.evaluations() >= lastGain + patience); }
  std::string nameOf(const SearchPoint &point) const;
  llvm::Error descendInRounds();
  std::vector<Move> nextMoves(bool asksSurrogate, size_t distance);
  std::vector<RankedMove> rankByPrediction() const;
  std::vector<RankedMove> rankByLoss();
  std::vector<Move> selectApart(std::vector<RankedMove> ranked, size_t distance);
  void diversify(Move &move, std::set<std::pair<unsigned, unsigned>> &taken);
  llvm::Expected<const Measurement *> measure(const std::vector<Move> &moves);
  llvm::Error apply(const std::vector<Move> &moves);
  void learn(Move &move, bool isAlone, const Measurement &before, const Measurement &after);
  llvm::Error refine(std::vector<Move> moves);
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_COORDINATEDESCENT_H
