//===- ReplacementTest.cpp - Traffic bounds against tile orders ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random convolutions and matrix products in random tile orders. What must make
// room is what is used furthest in the future (Belady).
//===----------------------------------------------------------------------===//
#include "compiler/cost/Traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

using namespace tw::cost;

namespace {

enum Kind : unsigned { Input, Weight, Partial };

/// The products of a contraction in the order of a schedule, each with its three elements.
struct Order {
  std::vector<std::array<uint32_t, 3>> products;
  std::vector<Kind> kinds; ///< per element
  uint64_t tileOutputs = 0;
};

/// `outputsOuter`: all products of a tile of outputs before the next.
Order tileOrder(const Contraction &c, std::mt19937 &random, bool outputsOuter = false) {
  const PositionAxis &w = c.axes[0], &h = c.axes[1];
  // Loops: y, x, ky, kx, input channel, output channel; tiles of random size, tiles and elements each in a random
  // order.
  std::array<int64_t, 6> extent = {h.size, w.size, h.kernel, w.kernel, int64_t(c.ic), int64_t(c.oc)};
  std::array<int64_t, 6> tile;
  for (size_t i = 0; i < 6; ++i)
    tile[i] = 1 + int64_t(random() % uint64_t(extent[i]));
  std::array<size_t, 6> outer, inner;
  std::iota(outer.begin(), outer.end(), 0);
  inner = outer;
  std::shuffle(outer.begin(), outer.end(), random);
  std::shuffle(inner.begin(), inner.end(), random);
  if (outputsOuter)
    std::stable_partition(outer.begin(), outer.end(), [](size_t loop) { return loop == 0 || loop == 1 || loop == 5; });
  std::vector<std::array<int64_t, 6>> points;
  std::array<int64_t, 6> at{};
  for (size_t i = 0; i < 6;) {
    points.push_back(at);
    for (i = 0; i < 6 && ++at[i] == extent[i]; ++i)
      at[i] = 0;
  }
  auto key = [&](const std::array<int64_t, 6> &p) {
    std::array<int64_t, 12> k;
    for (size_t i = 0; i < 6; ++i) {
      k[i] = p[outer[i]] / tile[outer[i]];
      k[6 + i] = p[inner[i]];
    }
    return k;
  };
  std::sort(points.begin(), points.end(), [&](const auto &a, const auto &b) { return key(a) < key(b); });

  Order order;
  order.tileOutputs = uint64_t(tile[0] * tile[1] * tile[5]);
  uint32_t inputs = uint32_t(h.inputSize * w.inputSize * int64_t(c.ic));
  uint32_t weights = uint32_t(h.kernel * w.kernel * int64_t(c.ic * c.oc)), outputs = uint32_t(h.size * w.size * int64_t(c.oc));
  order.kinds.assign(inputs, Input);
  order.kinds.insert(order.kinds.end(), weights, Weight);
  order.kinds.insert(order.kinds.end(), outputs, Partial);
  for (const auto &[y, x, ky, kx, k, n] : points) {
    int64_t iy = h.input(y, ky), ix = w.input(x, kx), ic = int64_t(c.ic), oc = int64_t(c.oc);
    if (iy < 0 || ix < 0)
      continue;
    order.products.push_back({uint32_t((iy * w.inputSize + ix) * ic + k),
                              inputs + uint32_t(((ky * w.kernel + kx) * ic + k) * oc + n),
                              inputs + weights + uint32_t((y * w.size + x) * oc + n)});
  }
  return order;
}

struct Traffic {
  uint64_t operandLoads = 0, partialLoads = 0, spills = 0; ///< bytes, bytes, number
};

/// Runs `order` in one memory of `capacity.inputs` bytes, or in three.
Traffic run(const Order &order, const Products &p, bool pooled, const Capacities &capacity) {
  constexpr uint32_t kNever = ~0u;
  size_t count = order.kinds.size();
  std::array<uint64_t, 3> size = {p.inputBytes, p.weightBytes, p.partialBytes};
  std::array<uint64_t, 3> free = {capacity.inputs, capacity.weights, capacity.partials};
  // Next use of each element after each product.
  std::vector<uint32_t> next(count, kNever);
  std::vector<std::array<uint32_t, 3>> after(order.products.size());
  for (size_t i = order.products.size(); i-- > 0;)
    for (unsigned e = 0; e < 3; ++e) {
      after[i][e] = next[order.products[i][e]];
      next[order.products[i][e]] = uint32_t(i);
    }
  std::vector<bool> present(count, false), begun(count, false);
  std::vector<std::vector<uint32_t>> resident(3);
  Traffic traffic;
  for (size_t i = 0; i < order.products.size(); ++i) {
    const auto &product = order.products[i];
    for (uint32_t element : product) {
      if (present[element])
        continue;
      Kind kind = order.kinds[element];
      unsigned memory = pooled ? 0 : kind;
      while (free[memory] < size[kind]) {
        size_t victim = SIZE_MAX;
        for (size_t r = 0; r < resident[memory].size(); ++r) {
          uint32_t candidate = resident[memory][r];
          if (std::find(product.begin(), product.end(), candidate) != product.end())
            continue;
          if (victim == SIZE_MAX || next[candidate] > next[resident[memory][victim]])
            victim = r;
        }
        uint32_t gone = resident[memory][victim];
        traffic.spills += order.kinds[gone] == Partial && next[gone] != kNever;
        present[gone] = false;
        free[memory] += size[order.kinds[gone]];
        resident[memory].erase(resident[memory].begin() + long(victim));
      }
      free[memory] -= size[kind];
      present[element] = true;
      resident[memory].push_back(element);
      if (kind != Partial)
        traffic.operandLoads += size[kind];
      else if (begun[element])
        traffic.partialLoads += size[kind];
      begun[element] = true;
    }
    for (unsigned e = 0; e < 3; ++e) {
      uint32_t element = product[e];
      next[element] = after[i][e];
      if (next[element] != kNever)
        continue;
      unsigned memory = pooled ? 0 : order.kinds[element]; // used up
      present[element] = false;
      free[memory] += size[order.kinds[element]];
      resident[memory].erase(std::find(resident[memory].begin(), resident[memory].end(), element));
    }
  }
  return traffic;
}

Contraction randomContraction(std::mt19937 &random) {
  Contraction c;
  for (size_t i = 0; i < 2; ++i) {
    PositionAxis &axis = c.axes[i];
    axis.kernel = random() % 4 ? 1 + int64_t(random() % 3) : 1;
    axis.stride = 1 + int64_t(random() % 3);
    axis.dilation = 1 + int64_t(random() % 2);
    axis.padLow = axis.kernel > 1 ? int64_t(random() % 2) : 0;
    axis.size = 2 + int64_t(random() % 4);
    axis.inputSize =
        std::max<int64_t>(1, (axis.size - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1 - 2 * axis.padLow);
  }
  c.ic = 1 + random() % 5;
  c.oc = 1 + random() % 6;
  c.inputBytes = c.weightBytes = 1u << random() % 3;
  return c;
}

struct Outcome {
  int cases = 0, violations = 0, active = 0;
};
void report(const char *what, const Outcome &outcome) {
  printf("%s: %d cases, %d violations, segments above compulsory in %d\n", what, outcome.cases, outcome.violations,
         outcome.active);
}

constexpr int kRounds = 1200;

/// Every round: a contraction, an order and a memory of a few elements up to half of what is touched.
void playPooled(const std::function<uint64_t(const Products &, uint64_t)> &bound, Outcome &outcome) {
  std::mt19937 random(1);
  for (int round = 0; round < kRounds; ++round) {
    Contraction c = randomContraction(random);
    Products p = productsOf(c);
    if (!p.macs)
      continue;
    uint64_t least = p.inputBytes + p.weightBytes + p.partialBytes;
    uint64_t touched = c.inputs() * c.inputBytes + c.weights() * c.weightBytes + c.outputs() * p.partialBytes;
    uint64_t onChip = least + random() % std::max<uint64_t>(touched / 4, 1);
    Traffic traffic = run(tileOrder(c, random), p, true, {onChip, 0, 0});
    uint64_t compulsory = c.inputs() * c.inputBytes + c.weights() * c.weightBytes, segments = bound(p, onChip);
    ++outcome.cases;
    outcome.violations += std::max(compulsory, segments) > traffic.operandLoads + traffic.partialLoads;
    outcome.active += segments > compulsory;
  }
}

TEST(ReplacementTest, NoTileOrderLoadsLessThanThePooledBound) {
  Outcome outcome;
  playPooled([](const Products &p, uint64_t onChip) { return segmentLoads(p, onChip); }, outcome);
  report("pooled, tile orders", outcome);
  EXPECT_EQ(outcome.violations, 0);
  EXPECT_GT(outcome.active, 100);
}

TEST(ReplacementTest, WithoutWindowReuseThePooledBoundIsTooStrong) {
  Outcome outcome;
  auto planted = [](Products p, uint64_t onChip) {
    p.reuse = 1;
    p.outputs = 0;
    return segmentLoads(p, onChip);
  };
  playPooled(planted, outcome);
  report("pooled, neither window reuse nor creations", outcome);
  EXPECT_GT(outcome.violations, 0);
}

/// segmentLoads() for three memories, the first segment taken for one like the others: it starts empty, so that is too
/// strong.
uint64_t firstLikeOthers(const Products &p, const Capacities &capacities, uint64_t priceCap) {
  double best = 0, elements = double(capacities.partials / p.partialBytes);
  for (double price = 0.5; price <= 1048576 && (!priceCap || price <= double(priceCap)); price *= 2) {
    std::array<double, 3> levels = {double(capacities.inputs), double(capacities.weights), price * elements};
    double capacity = levels[0] + levels[1] + levels[2];
    for (double part : {0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0}) {
      double segment = part * capacity, low = 0, high = capacity + segment;
      for (int step = 0; step < 100; ++step) { // the water level of a segment
        double level = (low + high) / 2, poured = 0;
        for (double l : levels)
          poured += std::max(0.0, level - l);
        (poured < segment ? low : high) = level;
      }
      double volume = double(p.reuse) / (double(p.inputBytes) * double(p.weightBytes) * price);
      for (double l : levels)
        volume *= std::max(l, high);
      double most = std::sqrt(volume), macs = double(p.macs);
      if (macs > most)
        best = std::max(best, capacity + segment * std::ceil((macs - most) / most - 1e-9) - price * double(p.outputs));
    }
  }
  return uint64_t(std::max(0.0, best));
}

TEST(ReplacementTest, NoTileOrderMovesLessThanTheThreeMemoryBound) {
  std::mt19937 random(2);
  Outcome kept, spilled, planted;
  for (int round = 0; round < kRounds; ++round) {
    Contraction c = randomContraction(random);
    Products p = productsOf(c);
    if (!p.macs)
      continue;
    auto some = [&](uint64_t size, uint64_t all) { return size * (1 + random() % std::max<uint64_t>(all / 8, 1)); };
    Capacities capacity = {some(c.inputBytes, c.inputs()), some(c.weightBytes, c.weights()), some(p.partialBytes, c.outputs())};
    bool keeps = round % 2;
    Order order = tileOrder(c, random, keeps);
    if (keeps)
      capacity.partials = p.partialBytes * (round % 4 == 1 ? order.tileOutputs : 2 * c.outputs());
    Traffic traffic = run(order, p, false, capacity);
    uint64_t spillCost = 2 * p.partialBytes, compulsory = c.inputs() * c.inputBytes + c.weights() * c.weightBytes;
    uint64_t segments = segmentLoads(p, capacity, traffic.spills ? spillCost : 0);
    Outcome &outcome = traffic.spills ? spilled : kept;
    ++outcome.cases;
    outcome.violations += std::max(compulsory, segments) > traffic.operandLoads + traffic.spills * spillCost;
    outcome.active += segments > compulsory;
    uint64_t tooStrong = firstLikeOthers(p, capacity, traffic.spills ? spillCost : 0);
    ++planted.cases;
    planted.violations += tooStrong > traffic.operandLoads + traffic.spills * spillCost;
    planted.active += tooStrong > compulsory;
  }
  report("three memories, tile orders without spills", kept);
  report("three memories, tile orders with spills", spilled);
  report("three memories, the first segment like the others", planted);
  EXPECT_EQ(kept.violations + spilled.violations, 0);
  EXPECT_GT(kept.active, 50);
  EXPECT_GT(planted.violations, 0);
}

} // namespace
