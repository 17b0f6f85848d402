//===- ArrayMappingTest.cpp - The array bound against every mapping --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// In a cycle each row of the array takes one input element and each column adds to
// one output, so a cycle forms the products of at most rows inputs with at most
// cols outputs. The least number of such rectangles that cover all products is
// found exhaustively; no mapping of any kind is faster. With float types only full
// rectangles count: each of the inputs is part of each of the outputs.
//===----------------------------------------------------------------------===//
#include "compiler/cost/Contraction.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

using namespace tw::cost;

namespace {

/// The products of a contraction as edges between inputs and outputs.
struct Products {
  std::vector<std::pair<int, int>> edges;
  int inputs = 0, outputs = 0;

  explicit Products(const Contraction &c) {
    std::map<std::vector<int64_t>, int> inputOf, outputOf;
    auto index = [](auto &map, std::vector<int64_t> key) { return map.emplace(std::move(key), int(map.size())).first->second; };
    const PositionAxis &w = c.axes[0], &h = c.axes[1];
    for (uint64_t g = 0; g < c.groups; ++g)
      for (int64_t y = 0; y < h.size; ++y)
        for (int64_t x = 0; x < w.size; ++x)
          for (int64_t ky = 0; ky < h.kernel; ++ky)
            for (int64_t kx = 0; kx < w.kernel; ++kx) {
              int64_t iy = h.input(y, ky), ix = w.input(x, kx);
              if (iy < 0 || ix < 0)
                continue;
              for (uint64_t k = 0; k < c.ic; ++k)
                for (uint64_t n = 0; n < c.oc; ++n)
                  edges.push_back(
                      {index(inputOf, {int64_t(g), iy, ix, int64_t(k)}), index(outputOf, {int64_t(g), y, x, int64_t(n)})});
            }
    inputs = int(inputOf.size());
    outputs = int(outputOf.size());
  }
};

/// All sets of up to `most` of `count` things, as bits; without `smaller` those that are part of others are left out.
std::vector<uint32_t> subsets(int count, int most, bool smaller) {
  std::vector<uint32_t> result;
  for (uint32_t set = 1; set < 1u << count; ++set)
    if (int size = __builtin_popcount(set); size == std::min(most, count) || (smaller && size < most))
      result.push_back(set);
  return result;
}

/// Least rectangles of up to rows inputs and cols outputs that cover all products.
uint64_t leastCycles(const Products &products, int rows, int cols, bool full) {
  std::set<std::pair<int, int>> pairs(products.edges.begin(), products.edges.end());
  auto isFull = [&](uint32_t in, uint32_t out) {
    for (int i = 0; i < products.inputs; ++i)
      for (int o = 0; o < products.outputs; ++o)
        if ((in >> i & 1) && (out >> o & 1) && !pairs.count({i, o}))
          return false;
    return true;
  };
  std::set<uint32_t> rectangles;
  for (uint32_t in : subsets(products.inputs, rows, full))
    for (uint32_t out : subsets(products.outputs, cols, full)) {
      if (full && !isFull(in, out))
        continue;
      uint32_t covered = 0;
      for (size_t e = 0; e < products.edges.size(); ++e)
        if (in >> products.edges[e].first & 1 && out >> products.edges[e].second & 1)
          covered |= 1u << e;
      rectangles.insert(covered);
    }
  uint32_t all = (1u << products.edges.size()) - 1;
  std::vector<bool> seen(size_t(all) + 1, false);
  std::vector<uint32_t> level{0};
  for (uint64_t cycles = 0;; ++cycles) {
    std::vector<uint32_t> next;
    for (uint32_t done : level) {
      if (done == all)
        return cycles;
      for (uint32_t rectangle : rectangles)
        if (uint32_t then = done | rectangle; !seen[then]) {
          seen[then] = true;
          next.push_back(then);
        }
    }
    level = std::move(next);
  }
}

struct Outcome {
  int cases = 0, violations = 0, tight = 0;
};

using StreamBound = std::function<uint64_t(const Contraction &, uint64_t rows, uint64_t cols)>;

void tryAll(const Contraction &c, const StreamBound &bound, Outcome &outcome) {
  Products products(c);
  if (products.edges.empty() || products.edges.size() > 12)
    return;
  for (int rows = 1; rows <= 3; ++rows)
    for (int cols = 1; cols <= 2; ++cols) {
      uint64_t least = leastCycles(products, rows, cols, c.keepsApart), claimed = bound(c, uint64_t(rows), uint64_t(cols));
      ++outcome.cases;
      outcome.violations += claimed > least;
      outcome.tight += claimed == least;
    }
}

Outcome matrixProducts(const StreamBound &bound, bool keepsApart = false) {
  Outcome outcome;
  for (int64_t m = 1; m <= 3; ++m)
    for (uint64_t n = 1; n <= 3; ++n)
      for (uint64_t k = 1; k <= 4; ++k)
        for (uint64_t groups = 1; groups <= 2; ++groups) {
          Contraction c;
          c.axes[0].size = c.axes[0].inputSize = m;
          c.groups = groups;
          c.ic = k;
          c.oc = n;
          c.keepsApart = keepsApart;
          tryAll(c, bound, outcome);
        }
  return outcome;
}

Outcome convolutions(const StreamBound &bound, bool keepsApart = false) {
  Outcome outcome;
  for (int64_t size = 1; size <= 4; ++size)
    for (int64_t kernel = 2; kernel <= 3; ++kernel)
      for (int64_t stride = 1; stride <= 2; ++stride)
        for (int64_t dilation = 1; dilation <= 2; ++dilation)
          for (int64_t pad = 0; pad <= 1; ++pad)
            for (uint64_t ic = 1; ic <= 2; ++ic)
              for (uint64_t oc = 1; oc <= 2; ++oc) {
                Contraction c;
                int64_t input = (size - 1) * stride + (kernel - 1) * dilation + 1 - 2 * pad;
                if (input < 1)
                  continue;
                c.axes[0] = {size, kernel, stride, dilation, pad, input, false};
                c.ic = ic;
                c.oc = oc;
                c.keepsApart = keepsApart;
                tryAll(c, bound, outcome);
              }
  return outcome;
}

/// Windows along two axes, or along one and the same input for all positions of the other.
Outcome planes(const StreamBound &bound, bool keepsApart) {
  Outcome outcome;
  for (int64_t width = 1; width <= 3; ++width)
    for (int64_t height = 1; height <= 3; ++height)
      for (int64_t kw = 1; kw <= 3; ++kw)
        for (int64_t kh = 1; kh <= 2; ++kh)
          for (bool broadcast : {false, true})
            for (int64_t pad = 0; pad <= 1; ++pad)
              for (uint64_t ic = 1; ic <= 2; ++ic)
                for (uint64_t oc = 1; oc <= 2; ++oc) {
                  const int64_t inputWidth = width + kw - 1 - 2 * pad;
                  if (inputWidth < 1 || (broadcast && kh > 1))
                    continue;
                  Contraction c;
                  c.axes[0] = {width, kw, 1, 1, pad, inputWidth, false};
                  c.axes[1] = {height, kh, 1, 1, 0, broadcast ? 1 : height + kh - 1, broadcast};
                  c.ic = ic;
                  c.oc = oc;
                  c.keepsApart = keepsApart;
                  tryAll(c, bound, outcome);
                }
  return outcome;
}

/// What stood in the bound before: an entry of a row for each (position, tap, channel). Outputs side by side share
/// entries.
uint64_t entryPerTap(const Contraction &c, uint64_t rows, uint64_t cols) {
  uint64_t pairs = c.macs() / c.oc;
  return std::max(streamCycles(c, rows, cols), ceilDiv(pairs * ceilDiv(c.oc, cols), rows));
}

TEST(ArrayMappingTest, NoMappingOfAMatrixProductBeatsTheBound) {
  Outcome outcome = matrixProducts(streamCycles);
  printf("%d matrix products: %d violations, tight in %d\n", outcome.cases, outcome.violations, outcome.tight);
  EXPECT_EQ(outcome.violations, 0);
  EXPECT_GT(outcome.tight * 10, outcome.cases * 8);
}

TEST(ArrayMappingTest, NoMappingOfAConvolutionBeatsTheBound) {
  Outcome outcome = convolutions(streamCycles);
  printf("%d convolutions: %d violations, tight in %d\n", outcome.cases, outcome.violations, outcome.tight);
  EXPECT_EQ(outcome.violations, 0);
  EXPECT_GT(outcome.tight * 10, outcome.cases * 5);
  outcome = planes(streamCycles, false);
  printf("%d convolutions along two axes: %d violations, tight in %d\n", outcome.cases, outcome.violations, outcome.tight);
  EXPECT_EQ(outcome.violations, 0);
}

TEST(ArrayMappingTest, AnEntryForEachTapIsTooStrong) {
  Outcome outcome = convolutions(entryPerTap);
  printf("an entry for each tap: %d violations in %d convolutions\n", outcome.violations, outcome.cases);
  EXPECT_GT(outcome.violations, 0);
}

/// No cycle for two positions: but they may have inputs in common.
uint64_t positionsAlone(const Contraction &c, uint64_t rows, uint64_t cols) {
  uint64_t cycles = 0;
  for (auto [taps, positions] : tapsOfOutputs(c.axes[0])) {
    Contraction one = c;
    one.axes[0] = {};
    one.axes[0].kernel = one.axes[0].inputSize = int64_t(taps);
    cycles += positions * streamCycles(one, rows, cols);
  }
  return cycles;
}

TEST(ArrayMappingTest, NoMappingThatKeepsOutputsApartBeatsTheBound) {
  for (auto [name, outcome] : {std::pair("matrix products", matrixProducts(streamCycles, true)),
                               std::pair("convolutions", convolutions(streamCycles, true)),
                               std::pair("convolutions along two axes", planes(streamCycles, true))}) {
    printf("outputs apart, %d %s: %d violations, tight in %d\n", outcome.cases, name, outcome.violations, outcome.tight);
    EXPECT_EQ(outcome.violations, 0) << name;
    EXPECT_GT(outcome.tight * 10, outcome.cases * 5) << name;
  }
}

TEST(ArrayMappingTest, ACycleForEachPositionIsTooStrong) {
  Outcome outcome = convolutions(positionsAlone, true);
  printf("outputs apart, no cycle for two positions: %d violations in %d convolutions\n", outcome.violations, outcome.cases);
  EXPECT_GT(outcome.violations, 0);
}

TEST(ArrayMappingTest, OutputsApartLeaveColumnsEmpty) {
  // A pixel of 64 channels meets the 64 outputs of its own position alone: half of the rows and of the columns. Two positions on a diagonal
  // would fill both.
  Contraction c;
  c.axes[0] = c.axes[1] = {56, 1, 1, 1, 0, 56, false};
  c.ic = c.oc = 64;
  EXPECT_EQ(streamCycles(c, 128, 128), 56u * 56 / 2);
  c.keepsApart = true;
  EXPECT_EQ(streamCycles(c, 128, 128), 56u * 56);
}

TEST(ArrayMappingTest, TapsInThePaddingCountNowhere) {
  // 7x7, 512 to 512 channels, 3x3: 19 x 19 pairs (position, tap) of 21 x 21 are in bounds, each 32 * 32 passes.
  Contraction c;
  c.axes[0] = c.axes[1] = {7, 3, 1, 1, 1, 7, false};
  c.ic = c.oc = 512;
  EXPECT_EQ(streamCycles(c, 16, 16), 19u * 19 * 32 * 32);
}

} // namespace
