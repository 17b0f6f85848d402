//===- SearchRecord.h - What a search has seen -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// No LLVM here: caches, reports and the command line read these.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_SEARCHRECORD_H
#define COMPILER_PIPELINE_SEARCHRECORD_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tw::pipeline {

/// Which of its candidates each decision takes; of a walk also what each aspect of that program is instead, and
/// of a mix what it is made of (CompilePicks).
using Picks = std::vector<unsigned>;

/// What a whole program took.
struct Measurement {
  uint64_t cycles = 0;
  std::vector<uint64_t> layerCycles; ///< by how much each layer moved the end on
  std::string failure;               ///< why there is no such program; empty if there is one
  uint64_t program = 0;              ///< digest of its code: what changes nothing in it is no other program
};

/// What is known of the programs of one problem.
struct SearchRecord {
  std::map<Picks, Measurement> measured;
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
