//===- PebblingTest.cpp - Traffic bounds against every schedule ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The least bytes a small matrix product loads, by Dijkstra over all states: what
// is on chip and which products are done. Products are free; so is creating a
// partial sum, and storing a finished one.
//===----------------------------------------------------------------------===//
#include "compiler/cost/Traffic.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <queue>
#include <unordered_map>

using namespace tw::cost;

namespace {

constexpr size_t kMostStates = 20000; ///< a case that needs more is left out

struct Game {
  unsigned m = 1, n = 1, k = 1;
  uint64_t a = 1, b = 1, c = 1; ///< bytes of an input, a weight, a partial sum
  bool pooled = true;
  Capacities capacity;                ///< pooled: all of it in `inputs`
  std::optional<uint64_t> spillPrice; ///< cost of storing a partial sum; none: it may not leave unfinished

  Products products() const { return {uint64_t(m) * n * k, uint64_t(m) * n, 1, a, b, c}; }
  uint64_t compulsory() const { return a * m * k + b * k * n; }
};

class Pebbling {
public:
  explicit Pebbling(const Game &game) : game(game), inputs(game.m * game.k), weights(game.k * game.n) {
    for (unsigned i = 0; i < game.m; ++i)
      for (unsigned j = 0; j < game.n; ++j)
        for (unsigned k = 0; k < game.k; ++k)
          products.push_back({i * game.k + k, inputs + k * game.n + j, inputs + weights + i * game.n + j});
    elements = inputs + weights + game.m * game.n;
    all = (uint64_t(1) << products.size()) - 1;
    partOf.resize(elements, 0);
    for (size_t p = 0; p < products.size(); ++p)
      for (unsigned e : {products[p].input, products[p].weight, products[p].output})
        partOf[e] |= uint64_t(1) << p;
  }

  /// Least cost; none if there are too many states.
  std::optional<uint64_t> least() {
    using Entry = std::pair<uint64_t, uint64_t>; // cost, state
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    std::unordered_map<uint64_t, uint64_t> best{{0, 0}};
    open.push({0, 0});
    while (!open.empty()) {
      auto [cost, state] = open.top();
      open.pop();
      if (cost > best[state])
        continue;
      uint64_t memory = state & ((uint64_t(1) << elements) - 1), done = state >> elements;
      if (done == all)
        return cost;
      if (best.size() > kMostStates)
        return std::nullopt;
      auto go = [&](uint64_t toMemory, uint64_t toCost) {
        auto [m, d] = settle(toMemory, done);
        uint64_t next = m | d << elements;
        auto [it, isNew] = best.emplace(next, toCost);
        if (isNew || toCost < it->second) {
          it->second = toCost;
          open.push({toCost, next});
        }
      };
      for (unsigned e = 0; e < elements; ++e) {
        uint64_t bit = uint64_t(1) << e;
        bool partial = e >= inputs + weights && (done & partOf[e]);
        if (memory & bit) {
          if (hasRoom(memory, e)) // nothing leaves before its place is needed
            continue;
          if (!partial)
            go(memory & ~bit, cost);
          else if (game.spillPrice)
            go(memory & ~bit, cost + *game.spillPrice);
        } else if ((done & partOf[e]) != partOf[e] && fits(memory | bit)) {
          bool free = e >= inputs + weights && !partial;
          go(memory | bit, cost + (free ? 0 : size(e)));
        }
      }
    }
    return std::nullopt;
  }

private:
  Game game;
  unsigned inputs, weights, elements;
  struct Product {
    unsigned input, weight, output;
  };
  std::vector<Product> products;
  std::vector<uint64_t> partOf; ///< the products an element takes part in
  uint64_t all;

  uint64_t size(unsigned e) const { return e < inputs ? game.a : e < inputs + weights ? game.b : game.c; }
  unsigned memoryOf(unsigned e) const { return game.pooled || e < inputs ? 0 : e < inputs + weights ? 1 : 2; }
  std::array<uint64_t, 3> used(uint64_t memory) const {
    std::array<uint64_t, 3> bytes{};
    for (; memory; memory &= memory - 1) {
      unsigned e = unsigned(__builtin_ctzll(memory));
      bytes[memoryOf(e)] += size(e);
    }
    return bytes;
  }
  uint64_t capacity(unsigned which) const {
    return which == 0 ? game.capacity.inputs : which == 1 ? game.capacity.weights : game.capacity.partials;
  }
  bool fits(uint64_t memory) const {
    std::array<uint64_t, 3> bytes = used(memory);
    return bytes[0] <= capacity(0) && bytes[1] <= capacity(1) && bytes[2] <= capacity(2);
  }
  /// Whether the memory of `e` has room for any element more.
  bool hasRoom(uint64_t memory, unsigned e) const {
    uint64_t largest = game.pooled ? std::max({game.a, game.b, game.c}) : size(e);
    return used(memory)[memoryOf(e)] + largest <= capacity(memoryOf(e));
  }
  /// Everything that can be multiplied is; what is finished leaves.
  std::pair<uint64_t, uint64_t> settle(uint64_t memory, uint64_t done) const {
    for (size_t p = 0; p < products.size(); ++p)
      if (memory >> products[p].input & memory >> products[p].weight & memory >> products[p].output & 1)
        done |= uint64_t(1) << p;
    for (unsigned e = 0; e < elements; ++e)
      if ((done & partOf[e]) == partOf[e])
        memory &= ~(uint64_t(1) << e);
    return {memory, done};
  }
};

struct Outcome {
  int cases = 0, violations = 0, active = 0;
};

using LoadBound = std::function<uint64_t(const Game &)>;

void play(const Game &game, const std::vector<LoadBound> &bounds, std::vector<Outcome> &outcomes) {
  std::optional<uint64_t> least = Pebbling(game).least();
  if (!least)
    return;
  for (size_t i = 0; i < bounds.size(); ++i) {
    uint64_t segments = bounds[i](game);
    ++outcomes[i].cases;
    outcomes[i].violations += std::max(game.compulsory(), segments) > *least;
    outcomes[i].active += segments > game.compulsory();
  }
}

/// Shapes whose states can be enumerated.
std::vector<Game> shapes() {
  std::vector<Game> games;
  for (unsigned m = 1; m <= 2; ++m)
    for (unsigned n = m; n <= 4; ++n)
      for (unsigned k = 1; k <= 4; ++k)
        if (m * n * k <= 12)
          games.emplace_back(), games.back().m = m, games.back().n = n, games.back().k = k;
  return games;
}

std::vector<Outcome> playPooled(const std::vector<LoadBound> &bounds) {
  std::vector<Outcome> outcomes(bounds.size());
  for (Game game : shapes())
    for (auto [a, b, c] : {std::array<uint64_t, 3>{1, 1, 1}, {1, 1, 2}, {1, 1, 4}})
      for (uint64_t extra = 0; extra <= 2 * c; extra += c)
        for (std::optional<uint64_t> spill : {std::optional<uint64_t>(0), std::optional<uint64_t>(c)}) {
          game.a = a;
          game.b = b;
          game.c = c;
          game.capacity.inputs = a + b + c + extra;
          game.spillPrice = spill;
          play(game, bounds, outcomes);
        }
  return outcomes;
}

std::vector<Outcome> playSeparate(const std::vector<LoadBound> &bounds, std::optional<uint64_t> spill) {
  std::vector<Outcome> outcomes(bounds.size());
  for (Game game : shapes())
    for (uint64_t sa = 1; sa <= 2; ++sa)
      for (uint64_t sb = 1; sb <= 2; ++sb)
        for (uint64_t sc = 1; sc <= 2; ++sc) {
          game.pooled = false;
          game.capacity = {sa, sb, sc};
          game.spillPrice = spill;
          play(game, bounds, outcomes);
        }
  return outcomes;
}

uint64_t pooledBound(const Game &game) { return segmentLoads(game.products(), game.capacity.inputs); }

void report(const char *what, const Outcome &outcome) {
  printf("%s: %d cases, %d violations, segments above compulsory in %d\n", what, outcome.cases, outcome.violations,
         outcome.active);
}

TEST(PebblingTest, NoScheduleLoadsLessThanThePooledBound) {
  // Forgetting that creations are free makes the bound too strong; the check must see it.
  auto planted = [](const Game &game) {
    uint64_t loads = pooledBound(game);
    return loads ? loads + game.c * game.m * game.n : 0;
  };
  std::vector<Outcome> outcomes = playPooled({pooledBound, planted});
  report("pooled", outcomes[0]);
  report("pooled, creations not deducted", outcomes[1]);
  EXPECT_EQ(outcomes[0].violations, 0);
  EXPECT_GT(outcomes[1].violations, 0);
}

TEST(PebblingTest, NoScheduleWithoutSpillsLoadsLessThanTheThreeMemoryBound) {
  auto bound = [](const Game &game) { return segmentLoads(game.products(), game.capacity); };
  auto planted = [&](const Game &game) { return bound(game) ? bound(game) + game.m * game.n : 0; };
  std::vector<Outcome> outcomes = playSeparate({bound, planted}, std::nullopt);
  report("three memories, no spills", outcomes[0]);
  report("three memories, creations not deducted", outcomes[1]);
  EXPECT_EQ(outcomes[0].violations, 0);
  EXPECT_GT(outcomes[0].active, 0);
  EXPECT_GT(outcomes[1].violations, 0);
}

TEST(PebblingTest, NoScheduleWithSpillsMovesLessThanTheThreeMemoryBound) {
  // Stored and loaded again: two of its bytes.
  auto bound = [](const Game &game) { return segmentLoads(game.products(), game.capacity, 2 * game.c); };
  std::vector<Outcome> outcomes = playSeparate({bound}, 1);
  report("three memories, spills", outcomes[0]);
  EXPECT_EQ(outcomes[0].violations, 0);
}

} // namespace
