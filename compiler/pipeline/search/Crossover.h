//===- Crossover.h - Segments of layers exchanged between points -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two-point crossover (Holland, 1975) of the best points of several chains. The
// gain of a layer depends on its neighbours most, so segments of neighbouring
// layers change sides: those first that take least time in another parent.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_CROSSOVER_H
#define COMPILER_PIPELINE_SEARCH_CROSSOVER_H

#include "compiler/pipeline/search/Evaluator.h"

namespace tw::pipeline {

/// Constants of crossover.
struct CrossoverParameters {
  /// Programs in a row without a gain, after which a call ends: as many as end a descent.
  unsigned patience = 24;
};

/// A plan in which each layer is as in one of several points.
struct Offspring {
  std::vector<SearchPoint> parents; ///< knobs of the whole network are as in the first
  std::vector<size_t> parentOf;     ///< per layer

  SearchPoint point() const;
  /// With the layers from `first` to `last`, that one excluded, as in parent `donor`.
  Offspring with(size_t donor, size_t first, size_t last) const;
};

class Crossover {
public:
  Crossover(Evaluator &evaluator, size_t layers, const CrossoverParameters &parameters = {})
      : evaluator(evaluator), layers(layers), parameters(parameters) {}

  /// Replaces segments of the best offspring by segments of `parents`, points that the evaluator has measured, as long as that
  /// gains. A parent that is faster than the best offspring takes its place first.
  llvm::Error recombine(llvm::ArrayRef<SearchPoint> parents);
  /// The best offspring. No parents: nothing was recombined.
  const Offspring &best() const { return offspring; }

private:
  struct Segment {
    size_t donor, first, last;
    int64_t gain; ///< cycles, as far as the layers of the two points tell
  };

  Evaluator &evaluator;
  const size_t layers;
  const CrossoverParameters parameters;
  Offspring offspring;
  Measurement own; ///< of the offspring

  void addParents(llvm::ArrayRef<SearchPoint> parents);
  std::vector<Segment> segments() const;
  llvm::Expected<bool> improve(unsigned &lastGain);
  void dropUnusedParents();
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_CROSSOVER_H
