//===- Contraction.cpp - What a contraction asks of any array --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Contraction.h"

#include <algorithm>
#include <vector>

using namespace tw;
using namespace tw::cost;

namespace {
/// Both counts at once: per output its in-bounds taps, per input its uses.
struct Counts {
  std::vector<uint64_t> taps, uses;
  std::vector<bool> tapUsed;

  explicit Counts(const PositionAxis &axis)
      : taps(size_t(axis.size)), uses(size_t(axis.broadcast ? 1 : axis.inputSize)), tapUsed(size_t(axis.kernel)) {
    for (int64_t o = 0; o < axis.size; ++o)
      for (int64_t k = 0; k < axis.kernel; ++k)
        if (int64_t i = axis.input(o, k); i >= 0) {
          ++taps[size_t(o)];
          ++uses[size_t(i)];
          tapUsed[size_t(k)] = true;
        }
  }
};

Histogram histogram(const std::vector<uint64_t> &counts) {
  Histogram result;
  for (uint64_t count : counts)
    if (count)
      ++result[count];
  return result;
}

/// The histogram of all products of one count of each axis.
Histogram product(const std::array<PositionAxis, 3> &axes, Histogram (*of)(const PositionAxis &)) {
  Histogram all{{1, 1}};
  for (const PositionAxis &axis : axes) {
    Histogram next, own = of(axis);
    for (auto [a, timesA] : all)
      for (auto [b, timesB] : own)
        next[a * b] += timesA * timesB;
    all = std::move(next);
  }
  return all;
}
} // namespace

Histogram cost::tapsOfOutputs(const PositionAxis &axis) { return histogram(Counts(axis).taps); }
Histogram cost::usesOfInputs(const PositionAxis &axis) { return histogram(Counts(axis).uses); }

uint64_t cost::inputsUsed(const PositionAxis &axis) {
  if (axis.broadcast)
    return 1;
  // Only the inputs between the first and the last window are looked at: axes may be parts of long ones.
  int64_t first = std::max<int64_t>(0, -axis.padLow);
  int64_t last =
      std::min(axis.inputSize, (axis.size - 1) * axis.stride + (axis.kernel - 1) * axis.dilation - axis.padLow + 1);
  std::vector<bool> used(size_t(std::max<int64_t>(0, last - first)));
  for (int64_t o = 0; o < axis.size; ++o)
    for (int64_t k = 0; k < axis.kernel; ++k)
      if (int64_t i = axis.input(o, k); i >= 0)
        used[size_t(i - first)] = true;
  return uint64_t(std::count(used.begin(), used.end(), true));
}

uint64_t cost::tapsUsed(const PositionAxis &axis) {
  std::vector<bool> used = Counts(axis).tapUsed;
  return uint64_t(std::count(used.begin(), used.end(), true));
}

uint64_t Contraction::inputs() const {
  uint64_t all = groups * ic, largest = all;
  for (const PositionAxis &axis : axes) {
    all *= inputsUsed(axis);
    largest = std::max(largest, inputsUsed(axis));
  }
  return inputOverlaps ? largest : all; // of overlapping coordinates at least those along one axis differ
}

uint64_t Contraction::weights() const {
  uint64_t all = groups * ic * oc * (batchAxis >= 0 ? uint64_t(axes[size_t(batchAxis)].size) : 1);
  for (const PositionAxis &axis : axes)
    all *= tapsUsed(axis);
  return all;
}

uint64_t Contraction::macs() const {
  uint64_t pairs = 0;
  for (auto [taps, outputs] : product(axes, tapsOfOutputs))
    pairs += taps * outputs;
  return groups * ic * oc * pairs;
}

uint64_t cost::reuseFactor(const Contraction &contraction) {
  uint64_t factor = 1;
  for (size_t i = 0; i < contraction.axes.size(); ++i) {
    const PositionAxis &axis = contraction.axes[i];
    if (axis.broadcast && contraction.batchAxis != int(i))
      factor *= uint64_t(axis.size);     // copies of one product
    std::map<int64_t, uint64_t> classes; // taps that use inputs of one residue class
    for (int64_t k = 0; k < axis.kernel; ++k)
      ++classes[(k * axis.dilation) % axis.stride];
    uint64_t most = 1;
    for (auto [residue, taps] : classes)
      most = std::max(most, taps);
    factor *= most;
  }
  return factor;
}

uint64_t cost::streamCycles(const Contraction &c, uint64_t rows, uint64_t cols) {
  // Columns: an output needs a column once for every `rows` of its pairs.
  uint64_t additions = 0;
  for (auto [taps, outputs] : product(c.axes, tapsOfOutputs))
    additions += ceilDiv(taps * c.ic, rows) * outputs;
  uint64_t cycles = std::max(ceilDiv(c.groups * c.oc * additions, cols), ceilDiv(c.macs(), rows * cols));
  if (c.inputOverlaps)
    return cycles;
  // Rows: an input enters once for every `cols` products it is part of. Outputs side by side in columns may share one
  // entry, so it is not enough to count an entry for each (position, tap).
  uint64_t entries = 0;
  for (auto [uses, inputs] : product(c.axes, usesOfInputs))
    entries += ceilDiv(uses * c.oc, cols) * inputs;
  return std::max(cycles, ceilDiv(c.groups * c.ic * entries, rows));
}
