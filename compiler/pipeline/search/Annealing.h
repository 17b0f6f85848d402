//===- Annealing.h - Simulated annealing over knobs --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kirkpatrick, Gelatt and Vecchi (Science 220, 1983) with the acceptance rule of
// Metropolis: a proposal slower by the share d is accepted with probability
// exp(-d / T). T falls linearly to zero within a round and rises again with the
// next one. Proposals are not symmetric: values that lost are drawn less often.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_ANNEALING_H
#define COMPILER_PIPELINE_SEARCH_ANNEALING_H

#include "compiler/pipeline/search/Evaluator.h"

#include <random>

namespace tw::pipeline {

/// Constants of simulated annealing.
struct AnnealingParameters {
  /// Programs. A round does not depend on the budget, so a larger budget goes on where a smaller one ended.
  unsigned round = 64;
  /// Share of the cycles: the loss that is accepted on average as a round begins.
  double temperature = 1e-4;
  /// Share of the cycles: a round begins at the chain's best point if the last one has ended slower than that by more.
  double backtrack = 1e-3;
  /// Share of the cycles: values that have lost as much in every program are hopeless.
  double hopeless = 1e-3;
  /// Hopeless values, and values that have changed nothing in one program, are kept once in so many draws.
  size_t keepHopeless = 30;
  /// Programs after which a knob is hopeless if all its values, in all layers, have lost as much.
  unsigned knobTries = 64;
  /// Draws in a row that give known points or no program, after which a chain ends.
  unsigned fruitless = 1000;
};

/// A chain of points over the knobs of one complete plan.
struct AnnealingChain {
  MeasuredPoint current, best; ///< best.point has no decisions: the chain could not begin
  std::vector<Decision> knobs;
  std::vector<std::vector<size_t>> sites;                  ///< knobs of one layer, or of the whole network, in order
  std::map<std::pair<size_t, unsigned>, double> leastLoss; ///< by knob and value: over all programs, share of the cycles
  std::set<std::pair<size_t, unsigned>> idle;              ///< knobs and values that have changed nothing in the program
  bool isOver = false;
};

class Annealing {
public:
  /// `random` must outlive the annealing.
  Annealing(Evaluator &evaluator, std::mt19937_64 &random, const AnnealingParameters &parameters = {})
      : evaluator(evaluator), random(random), parameters(parameters) {}

  /// A chain that begins at `start`, a point made of decisions, over the `knobs` of its plan. It is over at once if no knob has
  /// another value, the complete plan has no program, or the evaluator's limit is reached.
  llvm::Expected<AnnealingChain> begin(const SearchPoint &start, std::vector<Decision> knobs);
  /// One round of the chain, or less at the evaluator's limit.
  llvm::Error anneal(AnnealingChain &chain);

private:
  struct Proposal {
    SearchPoint point;
    std::string name; ///< the knobs that changed
  };
  /// What all chains have seen of a knob, with whatever value and layer.
  struct KnobStatistics {
    unsigned tries = 0;
    double leastLoss = 0; ///< share of the cycles
  };

  Evaluator &evaluator;
  std::mt19937_64 &random;
  const AnnealingParameters parameters;
  std::map<std::string, KnobStatistics> statistics; ///< by the knob's name without its layer

  double temperatureAfter(unsigned programs) const;
  bool isHopeless(const AnnealingChain &chain, size_t knob, unsigned value) const;
  Proposal propose(const AnnealingChain &chain, std::mt19937_64 &random) const;
  void measureAhead(const AnnealingChain &chain);
  llvm::Expected<bool> step(AnnealingChain &chain, unsigned begin);
  void learn(AnnealingChain &chain, const SearchPoint &point, const Measurement &measurement);
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_ANNEALING_H
