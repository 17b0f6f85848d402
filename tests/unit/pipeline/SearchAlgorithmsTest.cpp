//===- SearchAlgorithmsTest.cpp - Each algorithm of the search alone ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/search/Annealing.h"
#include "compiler/pipeline/search/CoordinateDescent.h"
#include "compiler/pipeline/search/Crossover.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace tw;
using namespace tw::pipeline;

namespace {
using Coordinates = std::vector<unsigned>;

/// Per layer one coordinate; each layer takes cycles(layer, all coordinates). The program of a point is its coordinates.
struct Problem {
  size_t layers;
  unsigned values; ///< of each coordinate
  std::function<uint64_t(size_t, const Coordinates &)> cycles;

  /// One decision for each layer; or one knob.
  std::vector<Decision> coordinates() const {
    std::vector<Decision> list;
    for (unsigned layer = 0; layer < layers; ++layer)
      list.push_back({layer, values, layer, "size of layer" + std::to_string(layer)});
    return list;
  }

  Measurement measure(const Coordinates &coordinates) const {
    Measurement measurement;
    for (size_t layer = 0; layer < layers; ++layer)
      measurement.layerCycles.push_back(cycles(layer, coordinates));
    measurement.cycles = std::accumulate(measurement.layerCycles.begin(), measurement.layerCycles.end(), uint64_t(0));
    return measurement;
  }
};

/// Decisions, unless the point has values for knobs; each layer's from the parent that it is from.
Coordinates coordinatesOf(const SearchPoint &point) {
  auto own = [](const SearchPoint &parent) { return parent.variations.empty() ? parent.decisions : parent.variations; };
  Coordinates coordinates = own(point);
  for (size_t layer = 0; layer < point.owners.size(); ++layer)
    if (unsigned owner = point.owners[layer])
      coordinates[layer] = own(point.others[owner - 1])[layer];
  return coordinates;
}

/// An evaluator over a problem, and what it needs.
class Bench {
public:
  explicit Bench(Problem problem, unsigned budget = 1000, unsigned jobs = 1) : problem(std::move(problem)) {
    options.budget = budget;
    options.jobs = jobs;
    options.evaluate = [this](const isa::Program &program) -> llvm::Expected<Measurement> {
      Coordinates coordinates;
      for (const isa::Word &word : program.code)
        coordinates.push_back(unsigned(word[0]));
      return this->problem.measure(coordinates);
    };
  }

  const Problem problem;
  SearchOptions options;
  std::vector<Decision> decisions = problem.coordinates();
  std::vector<uint64_t> bounds = std::vector<uint64_t>(problem.layers, 0);
  std::mt19937_64 random{1};
  std::function<llvm::Expected<isa::Program>(const SearchPoint &)> programOf =
      [](const SearchPoint &point) -> llvm::Expected<isa::Program> {
    isa::Program program;
    for (unsigned coordinate : coordinatesOf(point))
      program.code.push_back({coordinate});
    return program;
  };
  std::function<llvm::Expected<Measurement>(const SearchPoint &)> exact =
      [this](const SearchPoint &point) -> llvm::Expected<Measurement> { return problem.measure(coordinatesOf(point)); };

  SearchPoint point(Coordinates coordinates) const { return {std::move(coordinates), {}, {}, {}}; }
  SearchPoint origin() const { return point(Coordinates(problem.layers, 0)); }

  /// Descends from the origin.
  MeasuredPoint descend(Evaluator &evaluator) {
    EXPECT_TRUE(bool(evaluator.measure(origin(), "origin")));
    CoordinateDescent descent(evaluator, decisions, bounds, random);
    descent.restart(origin());
    EXPECT_FALSE(bool(descent.descend()));
    return descent.best();
  }

  /// Anneals from `start`, `rounds` times.
  AnnealingChain anneal(Evaluator &evaluator, const SearchPoint &start, unsigned rounds, AnnealingParameters parameters = {}) {
    Annealing annealing(evaluator, random, parameters);
    llvm::Expected<AnnealingChain> chain = annealing.begin(start, decisions);
    EXPECT_TRUE(bool(chain));
    for (unsigned round = 0; round < rounds; ++round)
      EXPECT_FALSE(bool(annealing.anneal(*chain)));
    return std::move(*chain);
  }
};

/// Layers that do not depend on each other.
Problem separable(size_t layers, unsigned values) {
  return {layers, values, [](size_t layer, const Coordinates &c) { return 100 + (37 * (layer + 1) * (c[layer] + 3)) % 101; }};
}

uint64_t leastOfSeparable(const Problem &problem) {
  uint64_t sum = 0;
  for (size_t layer = 0; layer < problem.layers; ++layer) {
    uint64_t least = UINT64_MAX;
    for (unsigned value = 0; value < problem.values; ++value)
      least = std::min(least, problem.cycles(layer, Coordinates(problem.layers, value)));
    sum += least;
  }
  return sum;
}

bool isBottom(const Coordinates &coordinates) { return !llvm::is_contained(coordinates, 0u); }

/// Five layers of 20,000 cycles, and of 19,000 if no coordinate is 0. Until then each that is not 0 costs some 0.01 % of all
/// cycles.
Problem valley() {
  return {5, 4, [](size_t layer, const Coordinates &c) -> uint64_t {
            return isBottom(c) ? 19000 : 20000 + (c[layer] ? 5 + c[layer] : 0);
          }};
}

TEST(CoordinateDescentTest, FindsTheMinimumOfASeparableFunction) {
  Bench bench(separable(20, 8), /*budget=*/80);
  Evaluator evaluator(bench.programOf, bench.options);
  EXPECT_EQ(bench.descend(evaluator).measurement.cycles, leastOfSeparable(bench.problem))
      << "there are 140 moves: those far apart share a program";
}

TEST(CoordinateDescentTest, FindsItSoonerByExactEstimates) {
  Bench bench(separable(20, 8));
  Evaluator blind(bench.programOf, bench.options), informed(bench.programOf, bench.options, bench.exact);
  bench.descend(blind);
  informed.setLimit(16);
  EXPECT_EQ(bench.descend(informed).measurement.cycles, leastOfSeparable(bench.problem));
  EXPECT_GT(blind.evaluations(), 16u);
}

TEST(CoordinateDescentTest, EndsInALocalOptimum) {
  Bench bench(valley());
  Evaluator evaluator(bench.programOf, bench.options);
  EXPECT_EQ(bench.descend(evaluator).point, bench.origin()) << "each single move loses";
  EXPECT_LT(evaluator.evaluations(), bench.options.budget);
}

TEST(CoordinateDescentTest, LosesPatienceBeforeAllMovesAreTried) {
  Bench bench(valley());
  Evaluator evaluator(bench.programOf, bench.options);
  ASSERT_TRUE(bool(evaluator.measure(bench.origin(), "origin")));
  CoordinateDescent descent(evaluator, bench.decisions, bench.bounds, bench.random);
  descent.restart(bench.origin());
  ASSERT_FALSE(bool(descent.descend(/*patience=*/3)));
  EXPECT_EQ(evaluator.evaluations(), 4u) << "the origin, and three programs that gain nothing";
}

TEST(AnnealingTest, LeavesALocalOptimumThatDescentDoesNotLeave) {
  Bench bench(valley());
  Evaluator evaluator(bench.programOf, bench.options, bench.exact);
  const MeasuredPoint local = bench.descend(evaluator);
  ASSERT_EQ(local.point, bench.origin());
  AnnealingChain chain = bench.anneal(evaluator, local.point, /*rounds=*/10);
  EXPECT_TRUE(isBottom(chain.best.point.variations)) << "at most three values change at a time, so it took slower programs";
}

TEST(AnnealingTest, StaysThereAtTemperatureZero) {
  Bench bench(valley());
  Evaluator evaluator(bench.programOf, bench.options);
  AnnealingParameters cold;
  cold.temperature = 0;
  AnnealingChain chain = bench.anneal(evaluator, bench.origin(), /*rounds=*/10, cold);
  EXPECT_EQ(chain.best.point.variations, Coordinates(5, 0));
  EXPECT_EQ(chain.current.point.variations, Coordinates(5, 0));
  EXPECT_GT(evaluator.evaluations(), 50u);
}

TEST(AnnealingTest, EndsAtTheEndOfItsSpace) {
  Bench bench(separable(2, 3));
  Evaluator evaluator(bench.programOf, bench.options);
  AnnealingChain chain = bench.anneal(evaluator, bench.origin(), /*rounds=*/10);
  EXPECT_TRUE(chain.isOver);
  EXPECT_LE(evaluator.evaluations(), 9u) << "no program is measured twice";
}

TEST(CrossoverTest, JoinsTheBetterHalvesOfTwoParents) {
  // Layers 0 to 3 are faster with 0, the others with 1; neighbours that differ lose less than the halves gain.
  Bench bench({8, 2, [](size_t layer, const Coordinates &c) -> uint64_t {
                 const bool isFast = c[layer] == (layer < 4 ? 0 : 1), differs = layer && c[layer] != c[layer - 1];
                 return (isFast ? 1000 : 1100) + (differs ? 150 : 0);
               }});
  Evaluator evaluator(bench.programOf, bench.options);
  const SearchPoint zeros = bench.point(Coordinates(8, 0)), ones = bench.point(Coordinates(8, 1));
  ASSERT_TRUE(evaluator.measure(zeros, "zeros") && evaluator.measure(ones, "ones"));
  ASSERT_EQ(evaluator.measured(zeros).cycles, 8400u);
  Crossover crossover(evaluator, 8);
  ASSERT_FALSE(bool(crossover.recombine({zeros, ones})));
  EXPECT_EQ(coordinatesOf(crossover.best().point()), (Coordinates{0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(evaluator.fastestCycles(), 8150u);
}

TEST(CrossoverTest, KeepsTheBetterParentIfNoSegmentGains) {
  Bench bench({8, 2, [](size_t layer, const Coordinates &c) -> uint64_t { return 1000 + c[layer]; }});
  Evaluator evaluator(bench.programOf, bench.options);
  const SearchPoint zeros = bench.point(Coordinates(8, 0)), ones = bench.point(Coordinates(8, 1));
  ASSERT_TRUE(evaluator.measure(zeros, "zeros") && evaluator.measure(ones, "ones"));
  Crossover crossover(evaluator, 8);
  ASSERT_FALSE(bool(crossover.recombine({ones, zeros})));
  EXPECT_EQ(crossover.best().point(), zeros);
}

TEST(EvaluatorTest, NoAlgorithmExceedsItsBudget) {
  for (unsigned budget : {1, 2, 9, 40}) {
    SCOPED_TRACE(budget);
    Bench bench(separable(12, 9), budget);
    Evaluator descending(bench.programOf, bench.options);
    bench.descend(descending);
    EXPECT_LE(descending.evaluations(), budget);

    Evaluator annealing(bench.programOf, bench.options);
    bench.anneal(annealing, bench.origin(), /*rounds=*/3);
    EXPECT_LE(annealing.evaluations(), budget);

    Evaluator crossing(bench.programOf, bench.options);
    std::vector<SearchPoint> parents{bench.origin(), bench.point(Coordinates(12, 1))};
    for (const SearchPoint &parent : llvm::ArrayRef(parents).take_front(budget))
      ASSERT_TRUE(bool(crossing.measure(parent, "parent")));
    Crossover crossover(crossing, 12);
    ASSERT_FALSE(bool(crossover.recombine(llvm::ArrayRef(parents).take_front(budget))));
    EXPECT_LE(crossing.evaluations(), budget);
  }
}

TEST(EvaluatorTest, NoChainBeginsAtTheLimit) {
  Bench bench(separable(12, 9));
  Evaluator evaluator(bench.programOf, bench.options);
  evaluator.setLimit(0);
  EXPECT_TRUE(bench.anneal(evaluator, bench.origin(), /*rounds=*/1).isOver);
  EXPECT_EQ(evaluator.evaluations(), 0u);
}

TEST(EvaluatorTest, APhaseEndsAtItsLimit) {
  Bench bench(separable(12, 9), 100);
  Evaluator evaluator(bench.programOf, bench.options);
  evaluator.setLimit(7);
  bench.descend(evaluator);
  EXPECT_EQ(evaluator.evaluations(), 7u);
  evaluator.setLimit(1000);
  bench.anneal(evaluator, bench.origin(), /*rounds=*/5);
  EXPECT_EQ(evaluator.evaluations(), 100u) << "no limit is beyond the budget";
}

TEST(EvaluatorTest, EqualSeedsGiveEqualPointsWithOneAndWithTwoJobs) {
  std::vector<std::vector<std::string>> logs;
  std::vector<SearchPoint> found;
  for (unsigned jobs : {1, 1, 2}) {
    Bench bench(separable(12, 9), 60, jobs);
    std::vector<std::string> &log = logs.emplace_back();
    bench.options.progress = [&](const SearchProgress &progress) {
      log.push_back(progress.what + " " + std::to_string(progress.cycles));
    };
    Evaluator evaluator(bench.programOf, bench.options, bench.exact);
    evaluator.setLimit(30);
    const MeasuredPoint descended = bench.descend(evaluator);
    evaluator.setLimit(60);
    found.push_back(bench.anneal(evaluator, descended.point, /*rounds=*/3).best.point);
  }
  EXPECT_EQ(logs[1], logs[0]);
  EXPECT_EQ(logs[2], logs[0]);
  EXPECT_TRUE(found[0] == found[1] && found[0] == found[2]);
}
} // namespace
