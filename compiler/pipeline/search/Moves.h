//===- Moves.h - Changes of single decisions ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_SEARCH_MOVES_H
#define COMPILER_PIPELINE_SEARCH_MOVES_H

#include "compiler/pipeline/search/SearchRecord.h"

#include "llvm/ADT/ArrayRef.h"

namespace tw::pipeline {

/// Constants of coordinate descent and its surrogate.
struct DescentParameters {
  /// Layers between moves in one program: no two neighbours. With 1 gains of neighbours blur; with 3 and more a program teaches
  /// less.
  size_t distance = 2;
  /// Layers between moves that one estimate covers. More than in a program, since estimates are cheap.
  size_t estimateDistance = 3;
  /// Share by which random factors raise a priority at most: moves of equal priority take turns.
  double jitter = 0.25;
  /// Share of the cycles by which each earlier move of a decision lowers the priority of its next one: decisions take turns.
  double costPerTry = 1e-4;
  /// Factor on the priority of a move that has gained in a similar layer.
  double knownGain = 8;
  /// Candidates of a decision about the whole network that are simulated whatever the estimate says.
  unsigned alwaysTried = 3;
  /// Estimated cycles, relative to the best point's, up to which other candidates are simulated: the estimate errs by more.
  double worthTrying = 1.003;
};

/// Leads to a neighbour of a point: one decision takes another candidate.
struct Move {
  size_t decision;
  unsigned candidate;
  int64_t gain = 0; ///< cycles, measured or predicted; negative: a loss
};

/// The neighbour of `point` by all `moves`.
SearchPoint neighbourOf(const SearchPoint &point, llvm::ArrayRef<Move> moves);

/// A set over all candidates of all decisions.
class MoveSet {
public:
  explicit MoveSet(llvm::ArrayRef<Decision> decisions) {
    for (const Decision &decision : decisions)
      members.emplace_back(decision.candidates);
  }
  bool contains(size_t decision, unsigned candidate) const { return members[decision][candidate]; }
  void insert(const Move &move) { set(move, true); }
  void set(const Move &move, bool isMember) { members[move.decision][move.candidate] = isMember; }
  void clear() {
    for (std::vector<bool> &decision : members)
      decision.assign(decision.size(), false);
  }

private:
  std::vector<std::vector<bool>> members;
};

/// Which layers a move affects. All moves are of decisions about a layer.
class Locality {
public:
  explicit Locality(llvm::ArrayRef<Decision> decisions) : decisions(decisions) {}

  /// Cycles of the move's layer, of its neighbours, whose work overlaps with its own, and of the layers that the decision
  /// reaches.
  int64_t cyclesAround(const Measurement &measurement, const Move &move) const;
  /// Whether less than `distance` layers lie from one move to the other.
  bool areCloser(const Move &a, const Move &b, size_t distance) const {
    return firstLayer(a) < lastLayer(b) + distance && firstLayer(b) < lastLayer(a) + distance;
  }

private:
  llvm::ArrayRef<Decision> decisions;

  size_t firstLayer(const Move &move) const { return *decisions[move.decision].layer; }
  size_t lastLayer(const Move &move) const { return firstLayer(move) + decisions[move.decision].reach; }
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_SEARCH_MOVES_H
