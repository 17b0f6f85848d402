//===- Cuts.h - Moments that split a network ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What must have happened before a moment, and what cannot happen until then.
// The derivation is in docs/bounds.md.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_CUTS_H
#define COMPILER_COST_CUTS_H

#include "compiler/cost/Bounds.h"

namespace tw::cost {

/// Positions first..last of one axis; none if first > last.
struct Interval {
  int64_t first = 0, last = -1;

  bool empty() const { return first > last; }
  int64_t size() const { return empty() ? 0 : last - first + 1; }
  bool covers(const Interval &other) const { return other.empty() || (first <= other.first && last >= other.last); }
  bool operator==(const Interval &other) const { return first == other.first && last == other.last; }
};

/// Positions along w, h and n.
using Box = std::array<Interval, 3>;

/// The moment at which all channels of the positions `box` of `tensor` have been computed for the first time.
struct Cut {
  /// A layer that the box hangs on: on all its operations, or on those that make the positions `outputs`.
  struct Before {
    size_t layer = 0;
    bool whole = false;
    Box outputs;
  };
  /// A layer whose operations hang on all of the box: each of them, or only the products with the positions `inputs` of
  /// its first input and the results at the positions `outputs`. `weights`: of each weight the last use comes later than
  /// the moment.
  struct After {
    size_t layer = 0;
    bool whole = false, weights = false;
    Box inputs, outputs;
  };

  unsigned tensor = 0;
  Box box;
  std::vector<Before> before;
  std::vector<After> after;
};

/// The cuts at `tensor` with something on both sides that may give the most. Layers are in the order of their
/// dependences.
std::vector<Cut> cutsAt(unsigned tensor, const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors);

/// Describes layers that only copy as windows of one tap, where the channels of a position stay together: Pad and Slice of positions, and
/// whatever exchanges the channels of a position. Layers are in the order of their dependences.
void describeMovement(std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors);

/// The products of `contraction` that make the positions `outputs`, and those that take the positions `inputs`.
Contraction withOutputs(Contraction contraction, const Box &outputs);
Contraction withInputs(Contraction contraction, const Box &inputs);

} // namespace tw::cost

#endif // COMPILER_COST_CUTS_H
