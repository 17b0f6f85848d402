//===- SearchRecord.h - Points, measurements, and their record ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No LLVM here: caches, reports and the command line read these.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCH_SEARCHRECORD_H
#define COMPILER_PIPELINE_SEARCH_SEARCHRECORD_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tw::pipeline {

/// A coordinate of the search: a decision with a finite list of candidates.
struct Decision {
  std::optional<unsigned> layer; ///< nothing: a decision about the whole network
  unsigned candidates = 1;       ///< candidate 0 is the compiler's own choice
  unsigned kind = 0;             ///< decisions of one kind share what was learned about their candidates
  std::string name;              ///< for people
  unsigned reach = 0;            ///< layers behind `layer` whose place in the program changes too, beside the next one
  bool isProbed = false;         ///< the estimate is blind to part of the effect: simulated unless estimated as much slower
};

/// A plan among those that a search may compile, by its coordinates. 0 is the value that the program at hand has anyway.
struct SearchPoint {
  std::vector<unsigned> decisions;  ///< per decision on the first program: its candidate
  std::vector<unsigned> variations; ///< per knob of the complete plan that these lead to: its value; empty: all unchanged
  /// Crossover: per layer, the parent that its plan comes from: 0 for this point, k for others[k - 1]; empty: all from this
  /// point.
  std::vector<unsigned> owners;
  std::vector<SearchPoint> others;

  /// Whether decisions alone make the point.
  bool isDecided() const { return variations.empty() && owners.empty(); }
  /// As numbers, and back. Nothing: the numbers are no point.
  std::vector<unsigned> numbers() const;
  static std::optional<SearchPoint> from(const std::vector<unsigned> &numbers);
};
bool operator==(const SearchPoint &a, const SearchPoint &b);
bool operator<(const SearchPoint &a, const SearchPoint &b);
inline bool operator!=(const SearchPoint &a, const SearchPoint &b) { return !(a == b); }

/// Simulated or estimated time of a whole program.
struct Measurement {
  uint64_t cycles = 0;
  std::vector<uint64_t> layerCycles; ///< by how many cycles each layer moved the end on
  std::string failure;               ///< why there is no such program; empty if there is one
  uint64_t program = 0;              ///< digest of its code: points with one digest are one program
};

struct MeasuredPoint {
  SearchPoint point;
  Measurement measurement;
};

/// The memo of a search: all measurements of one problem.
struct SearchRecord {
  std::map<SearchPoint, Measurement> measured;
  unsigned budget = 0; ///< the largest budget, in programs, with which a search has ended
};

/// Reported for every program that counts against the budget.
struct SearchProgress {
  unsigned tried = 0, budget = 0; ///< programs
  std::string what;               ///< the coordinates in which the point differs from the best one
  uint64_t cycles = 0, best = 0;  ///< of this program, and of the fastest so far
  bool isRemembered = false;      ///< from the cache
  double seconds = 0;             ///< since the search began
};

/// How a search went. `evaluations` counts programs against the budget: from the cache, failed and simulated ones. `repeated`
/// counts points that were free, because their program or its number of cycles was known.
struct SearchResult {
  uint64_t firstCycles = 0, bestCycles = 0;
  unsigned evaluations = 0, remembered = 0, failed = 0, repeated = 0;
  double seconds = 0;
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_SEARCHRECORD_H
