//===- Access.h - Which elements a result is made of --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exact access relations between the results of a layer and the elements of the
// tensors that it reads, and sets of elements that they are applied to. Tensors
// are rows of elements as they lie in DRAM, so that a reshape changes nothing.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_ACCESS_H
#define COMPILER_COST_ACCESS_H

#include "compiler/cost/Contraction.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tw::cost {

/// A set of the numbers 0 to size() - 1.
class IndexSet {
public:
  explicit IndexSet(uint64_t size = 0, bool isFull = false) : numbers(size), full(isFull || size == 0) {}

  uint64_t size() const { return numbers; }
  uint64_t count() const;
  bool isFull() const { return full; }
  bool contains(uint64_t number) const { return full || (!words.empty() && (words[number / 64] >> number % 64 & 1)); }
  /// Precondition: begin <= end <= size().
  void add(uint64_t begin, uint64_t end);
  /// Precondition: the sizes are equal.
  void add(const IndexSet &other);
  /// The first number from `begin` on that is in the set, or is not; `end`, or size() if that is less, if there is none in front of it.
  uint64_t next(uint64_t begin, bool isIn, uint64_t end = UINT64_MAX) const;

private:
  uint64_t numbers;
  bool full;
  std::vector<uint64_t> words; ///< none: all numbers are in the set (`full`), or none is

  void checkFull();
};

/// What results take from one tensor: all combinations of the positions that each axis of the tensor has for a result.
struct Access {
  struct Axis {
    int result = -1; ///< the axis of the results that decides, at most one per access; -1: all positions are taken
    std::vector<PositionAxis>
        windows; ///< from a position of the results to those of the tensor, one after the other; none: the same
    int64_t size = 1, stride = 0; ///< positions of the tensor, and elements from each to the next
  };

  bool isConstant = false; ///< of LayerWork::constants, not of its inputs
  size_t use = 0;          ///< which of them
  uint64_t elements = 0;   ///< of the tensor
  int64_t offset = 0;      ///< of the element at position 0 of all axes
  std::vector<Axis> axes;
};

/// Results of a layer as numbers: all combinations of positions of their axes, those of the last axis side by side.
struct ResultSpace {
  struct Axis {
    int64_t size = 1, stride = 0; ///< in the tensor that they are written to
  };
  std::vector<Axis> axes;
  int64_t offset = 0;

  uint64_t size() const;
};

/// The elements that `results`, a set of numbers of `space`, take.
IndexSet elementsTaken(const ResultSpace &space, const IndexSet &results, const Access &access);

/// The results that write the elements `written` of a tensor.
IndexSet resultsIn(const ResultSpace &space, const IndexSet &written);

/// Positions along each axis that some result of the set has; nothing if the set is not all combinations of them.
std::vector<std::vector<int64_t>> combinationsOf(const std::vector<int64_t> &sizes, const IndexSet &set);

} // namespace tw::cost

#endif // COMPILER_COST_ACCESS_H
