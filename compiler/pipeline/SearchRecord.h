//===- SearchRecord.h - What a search has seen -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No LLVM here: caches, reports and the command line read these.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCHRECORD_H
#define COMPILER_PIPELINE_SEARCHRECORD_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tw::pipeline {

/// A plan among those that a search may compile, by its coordinates. 0 is what the program at hand has anyway.
struct SearchPoint {
  std::vector<unsigned> decisions;  ///< on the first program: which of its candidates each takes
  std::vector<unsigned> variations; ///< of the complete plan that these lead to: which value each knob has; empty: its own
  /// Crossover: per layer, whose plan it has: 0 for this point's, k for that of others[k - 1]; empty: all are this point's.
  std::vector<unsigned> owners;
  std::vector<SearchPoint> others;

  bool isDecided() const { return variations.empty() && owners.empty(); }
  /// As numbers, and back. Nothing: the numbers are no point.
  std::vector<unsigned> numbers() const;
  static std::optional<SearchPoint> from(const std::vector<unsigned> &numbers);
};
bool operator==(const SearchPoint &a, const SearchPoint &b);
bool operator<(const SearchPoint &a, const SearchPoint &b);
inline bool operator!=(const SearchPoint &a, const SearchPoint &b) { return !(a == b); }

/// What a whole program took.
struct Measurement {
  uint64_t cycles = 0;
  std::vector<uint64_t> layerCycles; ///< by how much each layer moved the end on
  std::string failure;               ///< why there is no such program; empty if there is one
  uint64_t program = 0;              ///< digest of its code: what changes nothing in it is no other program
};

/// What is known of the programs of one problem.
struct SearchRecord {
  std::map<SearchPoint, Measurement> measured;
  unsigned budget = 0; ///< a search of so many programs has ended
};

struct SearchProgress {
  unsigned tried = 0, budget = 0;
  std::string what; ///< what is decided in another way than in the best program
  uint64_t cycles = 0, best = 0;
  bool isRemembered = false; ///< from the cache
  double seconds = 0;        ///< since the search began
};

/// How a search went. `evaluations` counts all programs, those that the cache remembered and those that failed included; `repeated` how
/// often a change made one of them again, or took as many cycles, as long as that costs nothing.
struct SearchResult {
  uint64_t firstCycles = 0, bestCycles = 0;
  unsigned evaluations = 0, remembered = 0, failed = 0, repeated = 0;
  double seconds = 0;
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCHRECORD_H
