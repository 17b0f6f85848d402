//===- Contraction.h - What a contraction asks of any array ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts that follow from the shape alone. Taps that fall into the padding count
// nowhere: a schedule may skip them.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_COST_CONTRACTION_H
#define COMPILER_COST_CONTRACTION_H

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace tw::cost {

inline uint64_t ceilDiv(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

/// Whether a window takes half the passes over an array of `rows` rows, or fewer, if its taps lie side by side there.
inline bool tapsShareRows(uint64_t taps, uint64_t channels, uint64_t rows) {
  return taps > 1 && 2 * ceilDiv(taps * channels, rows) <= taps * ceilDiv(channels, rows);
}

/// Into so many strips at most a row of windows is cut whose sums stay for the next row (docs/design/accumulator.md).
constexpr unsigned kMostStrips = 4;

/// One axis of output positions, and the window along it.
struct PositionAxis {
  int64_t size = 1; ///< output positions
  int64_t kernel = 1, stride = 1, dilation = 1, padLow = 0;
  int64_t inputSize = 1; ///< without padding
  /// The input does not vary along this axis: one element serves all its positions.
  bool broadcast = false;

  /// Input position of tap `k` of output `o`, or -1 in the padding.
  int64_t input(int64_t o, int64_t k) const {
    int64_t i = o * stride + k * dilation - padLow;
    return broadcast ? 0 : i >= 0 && i < inputSize ? i : -1;
  }
};

/// How many things have a count: count -> number of things.
using Histogram = std::map<uint64_t, uint64_t>;

/// In-bounds taps of each output position.
Histogram tapsOfOutputs(const PositionAxis &axis);
/// Pairs (output position, tap) that use each input position that is used at all.
Histogram usesOfInputs(const PositionAxis &axis);
/// Input positions that some output uses.
uint64_t inputsUsed(const PositionAxis &axis);
/// Taps that are in bounds for some output.
uint64_t tapsUsed(const PositionAxis &axis);

/// `groups` x `batches` products of [positions, window * ic] with [window * ic, oc]. A group or batch has weights of
/// its own.
struct Contraction {
  std::array<PositionAxis, 3> axes; ///< w, h, n
  int batchAxis = -1;               ///< the axis that the weights have too
  uint64_t groups = 1, ic = 1, oc = 1;
  uint64_t inputBytes = 1, weightBytes = 1; ///< of an element
  /// Two coordinates of the input may be one element, so that nothing is known of how often it is used.
  bool inputOverlaps = false;
  /// In no cycle of the array an input meets an output that it is no part of: zero times infinity is not zero.
  bool keepsApart = false;

  uint64_t positions() const { return uint64_t(axes[0].size) * axes[1].size * axes[2].size; }
  uint64_t outputs() const { return groups * oc * positions(); }
  uint64_t inputs() const;  ///< elements that are used
  uint64_t weights() const; ///< elements that are used
  uint64_t macs() const;
};

/// The products with the weights of each tap.
std::vector<uint64_t> macsOfTaps(const Contraction &contraction);

/// Window reuse R: any set of products touches I inputs, W weights and O outputs with products <= sqrt(R * I * W * O).
/// 1 for a plain matrix product.
uint64_t reuseFactor(const Contraction &contraction);

/// Least cycles in which a rows x cols array can form all products, whatever the packing of taps, groups, channels and
/// positions: in a cycle each row takes one input element, each column adds to one output, and with `keepsApart` the window of each of
/// these outputs holds all of these inputs.
uint64_t streamCycles(const Contraction &contraction, uint64_t rows, uint64_t cols);

/// Vector engine cycles that a depthwise window, as a contraction with a group for each channel, takes at least: three products per lane
/// and cycle; and the registers that reuse inputs do so along a row only, so that every (row, row of taps) reads its input columns anew, or
/// along a column only.
uint64_t windowCycles(const Contraction &contraction, uint64_t lanes);

} // namespace tw::cost

#endif // COMPILER_COST_CONTRACTION_H
