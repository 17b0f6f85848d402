//===- Access.h - Which elements a result is made of --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exact access relations between the results of a layer and the elements of its
// operands, and the sets of elements that the relations map. A tensor is the row
// of its elements in DRAM: a reshape changes nothing.
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
  /// The first number from `begin` on that is in the set (isIn), or outside the set. Without such a number before `end`: the smaller of `end`
  /// and size().
  uint64_t next(uint64_t begin, bool isIn, uint64_t end = UINT64_MAX) const;

private:
  uint64_t numbers;
  bool full;
  std::vector<uint64_t> words; ///< empty: the set is full or empty, as `full` says

  void checkFull();
};

/// The elements of one tensor that a result reads: all combinations of the positions along each axis of the tensor.
struct Access {
  struct Axis {
    int result =
        -1; ///< the axis of the results that selects positions, at most one for each access; -1: a result reads all positions
    std::vector<PositionAxis>
        windows; ///< maps from a position of the results to positions of the tensor, applied in this order; empty: identity
    int64_t size = 1, stride = 0; ///< positions of the tensor, and elements from each position to the next
  };

  bool isConstant = false; ///< the tensor is one of LayerWork::constants, else one of LayerWork::inputs
  size_t use = 0;          ///< index of the tensor in that list
  uint64_t elements = 0;   ///< size of the tensor
  int64_t offset = 0;      ///< element at position 0 of all axes
  std::vector<Axis> axes;
};

/// The results of a layer as numbers, in row-major order of the axes.
struct ResultSpace {
  struct Axis {
    int64_t size = 1, stride = 0; ///< stride in the tensor that the results are written to
  };
  std::vector<Axis> axes;
  int64_t offset = 0;

  uint64_t size() const;
};

/// The elements that `results`, a set of numbers of `space`, read.
IndexSet elementsTaken(const ResultSpace &space, const IndexSet &results, const Access &access);

/// The results that write the elements `written` of a tensor.
IndexSet resultsIn(const ResultSpace &space, const IndexSet &written);

/// The positions along each axis of the results in `set`. Empty if `set` is not the product of these positions.
std::vector<std::vector<int64_t>> combinationsOf(const std::vector<int64_t> &sizes, const IndexSet &set);

} // namespace tw::cost

#endif // COMPILER_COST_ACCESS_H
