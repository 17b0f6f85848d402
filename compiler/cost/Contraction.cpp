//===- Contraction.cpp - What a contraction asks of any array --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Contraction.h"

#include <algorithm>
#include <numeric>

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
  int64_t last = std::min(axis.inputSize, (axis.size - 1) * axis.stride + (axis.kernel - 1) * axis.dilation - axis.padLow + 1);
  // Windows without gaps in and between them meet all of those.
  if (axis.dilation == 1 && (axis.stride <= axis.kernel || axis.size == 1))
    return uint64_t(std::max<int64_t>(0, last - first));
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

std::vector<uint64_t> cost::macsOfTaps(const Contraction &contraction) {
  std::vector<uint64_t> all{contraction.groups * contraction.ic * contraction.oc};
  for (const PositionAxis &axis : contraction.axes) {
    std::vector<uint64_t> next;
    for (int64_t k = 0; k < axis.kernel; ++k) {
      uint64_t outputs = 0;
      for (int64_t o = 0; o < axis.size; ++o)
        outputs += axis.input(o, k) >= 0;
      for (uint64_t macs : all)
        next.push_back(macs * outputs);
    }
    all = std::move(next);
  }
  return all;
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

/// The least cycles if one has at most `inputs` x `outputs` operands, of which at most `products` products come.
static uint64_t cyclesWith(const Contraction &c, uint64_t rows, uint64_t cols, uint64_t inputs, uint64_t outputs,
                           uint64_t products) {
  // Columns: an output needs a column once for every `rows` of its pairs.
  uint64_t additions = 0;
  for (auto [taps, positions] : product(c.axes, tapsOfOutputs))
    additions += ceilDiv(taps * c.ic, rows) * positions;
  uint64_t cycles = std::max(ceilDiv(c.groups * c.oc * additions, outputs), ceilDiv(c.macs(), products));
  if (c.inputOverlaps)
    return cycles;
  // Rows: an input enters once for every `cols` products it is part of. Outputs side by side in columns may share one
  // entry, so it is not enough to count an entry for each (position, tap).
  uint64_t entries = 0;
  for (auto [uses, positions] : product(c.axes, usesOfInputs))
    entries += ceilDiv(uses * c.oc, cols) * positions;
  return std::max(cycles, ceilDiv(c.groups * c.ic * entries, inputs));
}

namespace {
/// How many taps less windows along an axis have in common with the next ones that they meet at all.
int64_t tapsApart(const PositionAxis &axis) { return axis.stride / std::gcd(axis.stride, axis.dilation); }

/// Positions along an axis that may have an input in common.
uint64_t sharers(const PositionAxis &axis) {
  return uint64_t(axis.broadcast ? axis.size : std::min(axis.size, (axis.kernel - 1) / tapsApart(axis) + 1));
}

/// Taps that so many positions may have in common.
uint64_t sharedTaps(const PositionAxis &axis, uint64_t positions) {
  return uint64_t(axis.broadcast ? axis.kernel : axis.kernel - int64_t(positions - 1) * tapsApart(axis));
}

/// streamCycles() of one group that keeps its outputs apart.
uint64_t cyclesApart(const Contraction &c, uint64_t rows, uint64_t cols) {
  // Positions that have nothing in common share no cycle.
  for (size_t i = 0; i < c.axes.size(); ++i)
    if (c.axes[i].size > 1 && sharers(c.axes[i]) == 1) {
      uint64_t cycles = 0;
      for (auto [taps, positions] : tapsOfOutputs(c.axes[i])) {
        Contraction one = c;
        one.axes[i] = {};
        one.axes[i].kernel = one.axes[i].inputSize = int64_t(taps);
        cycles += positions * cyclesApart(one, rows, cols);
      }
      return cycles;
    }
  // Others share what lies in all of their windows.
  uint64_t products = 0;
  const auto &[w, h, n] = c.axes;
  auto first = [](const PositionAxis &axis) { return axis.broadcast ? sharers(axis) : 1; }; // more cost nothing
  for (uint64_t x = first(w); x <= sharers(w); ++x)
    for (uint64_t y = first(h); y <= sharers(h); ++y)
      for (uint64_t z = first(n); z <= sharers(n); ++z)
        products = std::max(products, std::min(rows, c.ic * sharedTaps(w, x) * sharedTaps(h, y) * sharedTaps(n, z)) *
                                          std::min(cols, c.oc * x * y * z));
  const uint64_t inputs = std::min(rows, c.ic * sharedTaps(w, 1) * sharedTaps(h, 1) * sharedTaps(n, 1));
  return cyclesWith(c, rows, cols, inputs, std::min(cols, c.oc * sharers(w) * sharers(h) * sharers(n)), products);
}
} // namespace

uint64_t cost::streamCycles(const Contraction &c, uint64_t rows, uint64_t cols) {
  if (!c.keepsApart || c.inputOverlaps || !c.macs())
    return cyclesWith(c, rows, cols, rows, cols, rows * cols);
  Contraction group = c;
  group.groups = 1;
  return c.groups * cyclesApart(group, rows, cols);
}

uint64_t cost::windowCycles(const Contraction &c, uint64_t lanes) {
  uint64_t threes = 0;
  std::array<Histogram, 3> taps;
  for (size_t i = 0; i < 3; ++i)
    taps[i] = tapsOfOutputs(c.axes[i]);
  for (auto [x, columns] : taps[0])
    for (auto [y, lines] : taps[1])
      threes += ceilDiv(x * y, 3) * columns * lines * uint64_t(c.axes[2].size);
  // New taps per output, where the padding takes none away.
  auto reads = [&](unsigned along, unsigned across) -> uint64_t {
    const auto &axis = c.axes[along];
    const uint64_t taken = uint64_t(std::min(axis.stride, axis.kernel)), size = uint64_t(axis.size);
    if (axis.dilation != 1 || taps[along].empty() || taps[along].begin()->first < taken || inputsUsed(axis) < taken * size)
      return 0;
    uint64_t lines = 0;
    for (auto [tapsAcross, outputs] : taps[across])
      lines += tapsAcross * outputs * uint64_t(c.axes[2].size);
    return lines * taken * size;
  };
  return ceilDiv(c.groups * std::max(threes, std::min(reads(0, 1), reads(1, 0))), lanes);
}
