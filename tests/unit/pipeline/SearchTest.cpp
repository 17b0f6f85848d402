//===- SearchTest.cpp - The search on made-up networks --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/pipeline/Compile.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace tw;
using namespace tw::pipeline;

namespace {
/// The coordinates of a point in a row: decisions, then variations.
using Coordinates = std::vector<unsigned>;
Coordinates coordinatesOf(const SearchPoint &point) {
  Coordinates all = point.decisions;
  all.insert(all.end(), point.variations.begin(), point.variations.end());
  for (unsigned owner : point.owners)
    all.push_back(owner);
  return all;
}

/// A network whose layer i takes cycles[i][its coordinate], and the programs that were made of it.
struct Toy {
  std::vector<std::vector<uint64_t>> cycles;
  std::vector<unsigned> kinds;
  std::set<size_t> probed; ///< layers whose decisions are
  /// Cycles for each pair of neighbours that do not take the same candidate.
  uint64_t friction = 0;
  /// And up to so many of its own, so that descents end in many places.
  uint64_t rugged = 0;
  /// Knob i of every plan makes layer i slower by knobs[i][its value]: its own value first.
  std::vector<std::vector<uint64_t>> knobs;
  std::vector<std::string> knobNames; ///< if they have any
  /// Coordinates for which there is no program, and what the compiler says then.
  std::function<bool(const Coordinates &)> isBroken = [](const Coordinates &) { return false; };
  std::string complaint;
  std::set<Coordinates> made;

  llvm::Expected<CompiledNetwork> compile(const Coordinates &given) {
    Coordinates coordinates = given.empty() ? Coordinates(cycles.size(), 0) : given;
    made.insert(coordinates);
    if (isBroken(coordinates))
      return llvm::createStringError("%s", complaint.c_str());
    CompiledNetwork network;
    for (size_t i = 0; i < cycles.size(); ++i) {
      network.decisions.push_back(
          {unsigned(i), unsigned(cycles[i].size()), kinds.empty() ? unsigned(i) : kinds[i], "", 0, probed.count(i) > 0});
      network.program.layers.push_back({"layer" + std::to_string(i), {}, 0, 10, ""});
    }
    for (size_t i = 0; i < knobs.size(); ++i)
      network.variations.push_back({unsigned(i), knobNames.empty() ? "" : knobNames[i],
                                    std::vector<std::function<void(plan::NetworkPlan &)>>(knobs[i].size() - 1)});
    coordinates.resize(cycles.size() + knobs.size());
    for (unsigned coordinate : coordinates)
      network.program.code.push_back({coordinate}); // the program is its coordinates
    return network;
  }

  llvm::Expected<Measurement> run(const isa::Program &program) const {
    Measurement measurement;
    for (size_t i = 0; i < cycles.size(); ++i) {
      uint64_t layer = cycles[i][program.code[i][0]];
      if (i && program.code[i][0] != program.code[i - 1][0])
        layer += friction;
      if (i && rugged)
        layer += std::mt19937_64(i << 16 | program.code[i - 1][0] << 8 | program.code[i][0])() % rugged;
      if (i < knobs.size())
        layer += knobs[i][program.code[cycles.size() + i][0]];
      measurement.cycles += layer;
      measurement.layerCycles.push_back(layer);
    }
    return measurement;
  }

  /// With an estimate of `expected`, where no program is made.
  llvm::Expected<CompiledNetwork> searchExpecting(const Toy &expected, SearchOptions options) {
    options.evaluate = [this](const isa::Program &program) { return run(program); };
    auto estimate = [&](const SearchPoint &point) -> llvm::Expected<Measurement> {
      const Coordinates coordinates = coordinatesOf(point);
      if (expected.isBroken(coordinates))
        return llvm::createStringError("%s", expected.complaint.c_str());
      isa::Program program;
      for (unsigned coordinate : coordinates)
        program.code.push_back({coordinate});
      program.code.resize(cycles.size() + knobs.size());
      return expected.run(program);
    };
    return pipeline::search([this](const SearchPoint &point, bool) { return compile(coordinatesOf(point)); }, options,
                            estimate);
  }

  llvm::Expected<CompiledNetwork> search(SearchOptions options) {
    options.evaluate = [this](const isa::Program &program) { return run(program); };
    return pipeline::search([this](const SearchPoint &point, bool) { return compile(coordinatesOf(point)); }, options);
  }
};

/// Keeps records in memory, as text would.
struct MemoryCache : SearchCache {
  std::map<std::string, SearchRecord> records;
  llvm::Expected<SearchRecord> load(const std::string &problem) override { return records[problem]; }
  llvm::Error save(const std::string &problem, const SearchRecord &record) override {
    records[problem] = record;
    return llvm::Error::success();
  }
};

SearchOptions budget(unsigned programs, uint64_t seed = 1) {
  SearchOptions options;
  options.budget = programs;
  options.seed = seed;
  return options;
}

Toy randomToy(unsigned layers, unsigned candidates, uint64_t seed) {
  std::mt19937_64 random(seed);
  Toy toy;
  for (unsigned i = 0; i < layers; ++i) {
    toy.cycles.emplace_back();
    for (unsigned c = 0; c < candidates; ++c)
      toy.cycles.back().push_back(100 + random() % 1000);
  }
  return toy;
}

uint64_t leastOf(const Toy &toy) {
  uint64_t sum = 0;
  for (const auto &layer : toy.cycles)
    sum += *std::min_element(layer.begin(), layer.end());
  return sum;
}

TEST(SearchTest, IndependentLayersAreAllSolvedWithinAFewProgramsPerCandidate) {
  Toy toy = randomToy(30, 8, 1);
  auto found = toy.search(budget(100));
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, leastOf(toy)) << "8^30 programs exist, and 30 x 7 with one change";
}

TEST(SearchTest, AnEstimateThatIsRightSavesPrograms) {
  Toy toy = randomToy(30, 8, 1);
  auto found = toy.searchExpecting(toy, budget(16));
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, leastOf(toy));
}

TEST(SearchTest, AnEstimateThatIsWrongHoldsUpNothing) {
  Toy toy = randomToy(4, 5, 2), wrong = toy;
  for (std::vector<uint64_t> &layer : wrong.cycles)
    for (uint64_t &cycles : layer)
      cycles = 2000 - cycles;
  auto found = toy.searchExpecting(wrong, budget(10000));
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, leastOf(toy)) << "changes of one layer each need no estimate";
}

TEST(SearchTest, ALayerThatDisappointsMakesRoomForOthers) {
  Toy toy, expected;
  toy.cycles = {std::vector<uint64_t>(9, 1001), {1000, 900}};
  toy.cycles[0][0] = 1000;
  expected.cycles = {std::vector<uint64_t>(9, 100), {1000, 950}};
  expected.cycles[0][0] = 1000;
  auto found = toy.searchExpecting(expected, budget(4));
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, 1900u) << "eight candidates of the first layer promise more, and none keeps it";
}

TEST(SearchTest, WhatTheEstimateHasNoProgramForComesLast) {
  Toy toy, expected;
  toy.cycles = {std::vector<uint64_t>(9, 1000), {1000, 900}};
  toy.isBroken = [](const Coordinates &coordinates) { return coordinates[0] > 0; };
  toy.complaint = "machine 'small' is too small";
  expected = toy;
  expected.cycles[1][1] = 1001; // it is tried without being liked
  auto found = toy.searchExpecting(expected, budget(2));
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, 1900u) << "eight candidates of the first layer cannot be compiled";
}

TEST(SearchTest, WhatTheEstimateSeesLittleOfIsRunUnlessItSeemsMuchWorse) {
  Toy toy, expected;
  for (uint64_t i = 0; i < 40; ++i)
    toy.cycles.push_back({1000, 1001 + i}); // no two programs take the same cycles
  expected.cycles = toy.cycles;
  toy.cycles[20] = {1000, 700, 700};
  expected.cycles[20] = {1000, 1090, 2000}; // of 40,000: 0.2 % more, and 2.5 %
  auto overlooked = toy.searchExpecting(expected, budget(32));
  toy.probed = {20};
  auto found = toy.searchExpecting(expected, budget(32));
  ASSERT_TRUE(overlooked && found);
  EXPECT_EQ(overlooked->search->bestCycles, 40000u) << "39 changes seem to lose less";
  EXPECT_EQ(found->search->bestCycles, 39700u);
  EXPECT_FALSE(toy.made.count([] {
    Coordinates coordinates(40, 0);
    coordinates[20] = 2;
    return coordinates;
  }()));
}

TEST(SearchTest, WhatADecisionMovesBeyondItsNeighboursCounts) {
  // The second candidate of layer 2 takes 30 cycles off that layer, and layer 4 takes 60 more: less than all others gain.
  auto run = [](auto candidateOf) {
    Measurement measurement;
    for (size_t i = 0; i < 7; ++i)
      measurement.layerCycles.push_back((candidateOf(i) == 0 ? 100 : i == 2 ? 70 : 90) + (i == 4 && candidateOf(2) ? 60 : 0));
    for (uint64_t cycles : measurement.layerCycles)
      measurement.cycles += cycles;
    return measurement;
  };
  auto compile = [](const SearchPoint &point, bool) -> llvm::Expected<CompiledNetwork> {
    const Coordinates given = coordinatesOf(point);
    CompiledNetwork network;
    for (unsigned i = 0; i < 7; ++i) {
      network.decisions.push_back({i, 2, i, "", i == 2 ? 2u : 0u});
      network.program.layers.push_back({"layer" + std::to_string(i), {}, 0, 10, ""});
      network.program.code.push_back({given.empty() ? 0 : given[i]});
    }
    return network;
  };
  SearchOptions options = budget(4);
  options.evaluate = [&](const isa::Program &program) -> llvm::Expected<Measurement> {
    return run([&](size_t i) { return program.code[i][0]; });
  };
  auto estimate = [&](const SearchPoint &point) -> llvm::Expected<Measurement> {
    return run([&](size_t i) { return point.decisions[i]; });
  };
  auto found = pipeline::search(compile, options, estimate);
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, 6u * 90 + 100);
}

TEST(SearchTest, OneLayerIsSearchedExhaustively) {
  Toy toy = randomToy(1, 32, 2);
  auto found = toy.search(budget(1000));
  ASSERT_TRUE(bool(found));
  EXPECT_EQ(found->search->bestCycles, leastOf(toy));
  EXPECT_EQ(found->search->evaluations, 32u);
}

/// Of 40 candidates of its one layer all but the last are the same program. Adds up `runs`.
constexpr unsigned kAlike = 40;
llvm::Expected<CompiledNetwork> searchAlike(SearchOptions options, unsigned &runs) {
  auto compile = [](const SearchPoint &point, bool) -> llvm::Expected<CompiledNetwork> {
    const Coordinates given = coordinatesOf(point);
    CompiledNetwork network;
    network.decisions.push_back({0u, kAlike, 0, ""});
    network.program.layers.push_back({"layer", {}, 0, 10, ""});
    network.program.code.push_back({!given.empty() && given[0] + 1 == kAlike ? 1u : 0u});
    return network;
  };
  options.evaluate = [&](const isa::Program &program) -> llvm::Expected<Measurement> {
    ++runs;
    const uint64_t cycles = 100 - program.code[0][0];
    return Measurement{cycles, {cycles}, ""};
  };
  return pipeline::search(compile, options, nullptr);
}

TEST(SearchTest, ChangesThatMakeTheSameProgramCostNothing) {
  unsigned runs = 0;
  auto found = searchAlike(budget(kAlike / 2), runs);
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, 99u) << "further than the budget goes, if every candidate were a program";
  EXPECT_EQ(runs, 3u) << "two programs, and the best once more";
}

TEST(SearchTest, TheyCostNothingFourTimesAsOftenAsThereArePrograms) {
  unsigned runs = 0;
  auto found = searchAlike(budget(5), runs);
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->repeated, 20u);
  EXPECT_EQ(found->search->evaluations, 5u) << "the first, and four that are known but count";
  EXPECT_EQ(found->search->bestCycles, 100u) << "the last candidate was not reached";
}

TEST(SearchTest, ChangesThatChangeNoCycleCostNothingWhereThereAreEstimates) {
  Toy toy;
  toy.cycles.assign(12, {1000, 1000, 1000});
  toy.cycles[7].push_back(900);
  Toy blind = toy;
  blind.cycles[7].back() = 1000;
  auto found = toy.searchExpecting(blind, budget(10));
  ASSERT_TRUE(bool(found)) << llvm::toString(found.takeError());
  EXPECT_EQ(found->search->bestCycles, 11900u) << "25 changes that gain nothing, and one of which the estimate sees nothing";
}

TEST(SearchTest, NeverSlowerThanTheFirstAndWithinItsBudget) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Toy toy = randomToy(9, 5, seed);
    toy.friction = 900; // what helps alone often hurts together
    auto found = toy.search(budget(17, seed));
    ASSERT_TRUE(bool(found));
    EXPECT_LE(found->search->bestCycles, found->search->firstCycles);
    EXPECT_LE(toy.made.size(), 17u);
    EXPECT_EQ(toy.run(found->program)->cycles, found->search->bestCycles) << "the program is the one that was measured";
  }
}

TEST(SearchTest, LayersOfOneKindLearnFromEachOther) {
  Toy alike = randomToy(1, 20, 3);
  alike.cycles.assign(24, alike.cycles[0]);
  Toy different = alike;
  alike.kinds.assign(24, 0);
  auto one = alike.search(budget(12)), other = different.search(budget(12));
  ASSERT_TRUE(one && other);
  EXPECT_LT(one->search->bestCycles, other->search->bestCycles);
}

TEST(SearchTest, ADecisionAboutTheNetworkIsTriedAgainOnceTheLayersHaveChanged) {
  // Six layers, and a decision about the network behind them: its other candidate is slower with the layers' first tiles, and
  // faster with their second ones.
  constexpr size_t kLayers = 6;
  static constexpr uint64_t kCycles[2][2] = {{100, 90}, {110, 70}};
  auto compile = [](const SearchPoint &point, bool) -> llvm::Expected<CompiledNetwork> {
    const Coordinates given = coordinatesOf(point);
    const Coordinates coordinates = given.empty() ? Coordinates(kLayers + 1, 0) : given;
    CompiledNetwork network;
    for (size_t i = 0; i < coordinates.size(); ++i)
      network.program.code.push_back({coordinates[i]});
    for (size_t i = 0; i < kLayers; ++i) {
      network.decisions.push_back({unsigned(i), 2, unsigned(i), ""});
      network.program.layers.push_back({"layer" + std::to_string(i), {}, 0, 10, ""});
    }
    network.decisions.push_back({std::nullopt, 2, kLayers, ""});
    return network;
  };
  SearchOptions options = budget(32);
  options.evaluate = [](const isa::Program &program) -> llvm::Expected<Measurement> {
    Measurement measurement;
    for (size_t i = 0; i < kLayers; ++i) {
      measurement.layerCycles.push_back(kCycles[program.code[kLayers][0]][program.code[i][0]]);
      measurement.cycles += measurement.layerCycles.back();
    }
    return measurement;
  };
  auto found = pipeline::search(compile, options, nullptr);
  ASSERT_TRUE(bool(found));
  EXPECT_EQ(found->search->bestCycles, kLayers * 70);
}

TEST(SearchTest, AnInterruptedSearchGoesOnWhereItWas) {
  MemoryCache whole, parts;
  auto searchWith = [&](MemoryCache &cache, unsigned programs) {
    Toy toy = randomToy(12, 6, 4);
    toy.friction = 200;
    SearchOptions options = budget(programs);
    options.cache = &cache;
    auto found = toy.search(options);
    EXPECT_TRUE(bool(found));
    return std::pair<isa::Program, unsigned>(found->program, found->search->remembered);
  };
  auto [uninterrupted, none] = searchWith(whole, 60);
  searchWith(parts, 25);
  auto [resumed, remembered] = searchWith(parts, 60);
  EXPECT_EQ(resumed.code, uninterrupted.code);
  EXPECT_EQ(none, 0u);
  EXPECT_EQ(remembered, 25u);
  EXPECT_EQ(parts.records.begin()->second.measured.size(), whole.records.begin()->second.measured.size());
}

/// No two layers gain or lose the same: few programs take as many cycles as another.
std::vector<std::vector<uint64_t>> differingKnobs(uint64_t layers) {
  std::vector<std::vector<uint64_t>> knobs;
  for (uint64_t i = 0; i < layers; ++i)
    knobs.push_back({1000000, 1010000 + 17 * i * i, 990000 - 19 * i * i, 900000 + 23 * i * i, 1100000 - 29 * i * i});
  return knobs;
}

TEST(SearchTest, MoreProgramsChangeKnobsThatAreNoDecisions) {
  Toy toy;
  toy.cycles = {{1000, 900}, {1000, 800}};
  toy.knobs = {{100, 200, 50, 70}, {100, 300, 0}};
  auto descent = toy.searchExpecting(toy, budget(64)), annealed = toy.searchExpecting(toy, budget(96));
  ASSERT_TRUE(descent && annealed);
  EXPECT_EQ(descent->search->bestCycles, 1900u);
  EXPECT_EQ(annealed->search->bestCycles, 1750u);
}

TEST(SearchTest, ALargerBudgetGoesOnWhereAChainHasEnded) {
  Toy toy = randomToy(12, 6, 4);
  toy.knobs = differingKnobs(12);
  MemoryCache cache;
  SearchOptions options = budget(150);
  options.cache = &cache;
  ASSERT_TRUE(bool(toy.searchExpecting(toy, options)));
  options.budget = 250;
  auto longer = toy.searchExpecting(toy, options);
  ASSERT_TRUE(bool(longer));
  EXPECT_EQ(longer->search->remembered, 150u);
}

TEST(SearchTest, ARefusedValueOfAKnobIsNoProgram) {
  Toy toy = randomToy(12, 6, 4);
  toy.knobs.assign(12, {1000, 900, 800, 700});
  toy.isBroken = [](const Coordinates &coordinates) { return std::count(coordinates.begin() + 12, coordinates.end(), 3u) > 0; };
  toy.complaint = "no tile that is asked for fits";
  auto found = toy.searchExpecting(toy, budget(100));
  ASSERT_TRUE(bool(found));
  EXPECT_EQ(found->search->evaluations, 100u);
  EXPECT_EQ(found->search->failed, 0u);
}

TEST(SearchTest, AChainThatCannotBeginLeavesTheBestOfTheDescent) {
  Toy toy;
  toy.cycles = {{800, 900}, {700, 1000}}; // the first program is the best
  toy.knobs = {{100, 50}, {100, 50}};
  toy.isBroken = [](const Coordinates &coordinates) { return coordinates.size() > 2; };
  toy.complaint = "no tile that is asked for fits";
  MemoryCache cache;
  SearchOptions options = budget(96);
  options.cache = &cache;
  auto found = toy.searchExpecting(toy, options), again = toy.searchExpecting(toy, options);
  ASSERT_TRUE(found && again);
  EXPECT_EQ(found->search->bestCycles, 1700u);
  EXPECT_EQ(again->search->remembered, found->search->evaluations);
}

TEST(SearchTest, AKnobThatHasNeverGainedIsSeldomChanged) {
  // Widths of every other layer lose five percent each, depths of the others next to nothing.
  Toy toy;
  for (size_t i = 0; i < 12; ++i) {
    toy.cycles.push_back({1000});
    toy.knobs.push_back({0});
    toy.knobNames.push_back((i % 2 ? "depth of layer" : "width of layer") + std::to_string(i));
    for (uint64_t value = 0; value < 400; ++value)
      toy.knobs.back().push_back(i % 2 ? 5 : 600);
  }
  unsigned widths = 0, all = 0;
  SearchOptions options = budget(600);
  options.progress = [&](const SearchProgress &progress) {
    if (progress.tried > 300) {
      ++all;
      widths += progress.what.rfind("width", 0) == 0;
    }
  };
  ASSERT_TRUE(bool(toy.searchExpecting(toy, options)));
  EXPECT_EQ(all, 300u);
  EXPECT_LT(widths, all / 8);
}

TEST(SearchTest, LayersOfDescentsFromTwoNetworkPlansAreRecombined) {
  // Eight layers, each in form 0 or 1, and a last decision, about the network, which says what form the first candidates are.
  // The first four are faster in form 1, the others in form 0; neighbours in different forms lose more than one layer gains. So
  // a descent ends where it begins, all layers in one form.
  constexpr size_t kLayers = 8, kDecisions = kLayers + 1;
  auto formsOf = [](llvm::ArrayRef<unsigned> coordinates) {
    std::vector<unsigned> forms;
    for (size_t i = 0; i < kLayers; ++i)
      forms.push_back(coordinates[i] ^ coordinates[kLayers]);
    return forms;
  };
  auto compile = [&](const SearchPoint &point, bool) -> llvm::Expected<CompiledNetwork> {
    std::vector<unsigned> forms = formsOf(point.decisions.empty() ? Coordinates(kDecisions, 0) : point.decisions);
    std::vector<unsigned> slower = point.variations;
    slower.resize(kLayers, 0);
    if (!point.owners.empty()) {
      EXPECT_EQ(point.others.size(), 1u);
      EXPECT_EQ(point.owners.size(), kLayers);
      const SearchPoint &other = point.others.front();
      EXPECT_EQ(other.variations.size(), kLayers);
      const std::vector<unsigned> others = formsOf(other.decisions);
      for (size_t i = 0; i < kLayers; ++i)
        if (point.owners[i]) {
          forms[i] = others[i];
          slower[i] = other.variations[i];
        }
    }
    CompiledNetwork network;
    for (size_t i = 0; i < kLayers; ++i) {
      network.program.code.push_back({forms[i] + 2 * slower[i]});
      network.program.layers.push_back({"layer" + std::to_string(i), {}, 0, 10, ""});
      network.decisions.push_back({unsigned(i), 2, unsigned(i), ""});
      network.variations.push_back({unsigned(i), "", std::vector<std::function<void(plan::NetworkPlan &)>>(3)});
    }
    network.decisions.push_back({std::nullopt, 2, kLayers, ""});
    return network;
  };
  auto run = [](const isa::Program &program) -> llvm::Expected<Measurement> {
    Measurement measurement;
    for (size_t i = 0; i < kLayers; ++i) {
      const uint64_t form = program.code[i][0] % 2, slower = program.code[i][0] / 2;
      const bool changes = i && form != program.code[i - 1][0] % 2;
      measurement.layerCycles.push_back((form == (i < kLayers / 2) ? 1000 : 1100 + i) + 200 * changes + (50 + i * i) * slower);
      measurement.cycles += measurement.layerCycles.back();
    }
    return measurement;
  };
  auto estimate = [&](const SearchPoint &point) -> llvm::Expected<Measurement> {
    llvm::Expected<CompiledNetwork> network = compile(point, true);
    return network ? run(network->program) : network.takeError();
  };
  MemoryCache cache;
  SearchOptions options = budget(64);
  options.evaluate = run;
  options.cache = &cache;
  auto one = pipeline::search(compile, options, estimate);
  options.budget = 300;
  auto recombined = pipeline::search(compile, options, estimate);
  options.takeBest = true;
  auto taken = pipeline::search(compile, options, estimate);
  ASSERT_TRUE(one && recombined && taken);
  EXPECT_EQ(one->search->bestCycles, 8406u) << "four layers in the form that takes 1100, 1101, ...";
  EXPECT_EQ(recombined->search->bestCycles, 8200u);
  EXPECT_EQ(taken->search->evaluations, 1u);
  EXPECT_EQ(taken->program.code, recombined->program.code);
}

TEST(SearchTest, WhenChainsGainNothingAnotherDescentBegins) {
  Toy toy = randomToy(16, 4, 3);
  toy.rugged = 1000;
  toy.knobs.assign(16, {100, 101}); // no chain leads anywhere
  auto chains = toy.searchExpecting(toy, budget(300)), descents = toy.searchExpecting(toy, budget(3000));
  ASSERT_TRUE(chains && descents);
  EXPECT_LT(descents->search->bestCycles, chains->search->bestCycles);
}

TEST(SearchTest, AChainThatIsKilledGoesOnWhereItWasAndIsRemembered) {
  Toy toy = randomToy(12, 6, 4);
  for (uint64_t &cycles : toy.cycles[0])
    cycles += 1000000; // what the others lose is little of all
  toy.knobs = differingKnobs(12);
  SearchOptions options = budget(150);
  auto uninterrupted = toy.searchExpecting(toy, options);
  MemoryCache cache;
  options.cache = &cache;
  Toy killed = toy;
  unsigned left = 110;
  killed.isBroken = [&](const Coordinates &) { return left-- == 0; };
  killed.complaint = "internal: killed";
  auto none = killed.searchExpecting(toy, options);
  ASSERT_FALSE(bool(none));
  llvm::consumeError(none.takeError());
  auto resumed = toy.searchExpecting(toy, options);
  ASSERT_TRUE(uninterrupted && resumed);
  EXPECT_EQ(uninterrupted->search->evaluations, 150u);
  EXPECT_GE(resumed->search->remembered, 60u)
      << "large records are written once a second; of the first 64 some are one program";
  EXPECT_EQ(resumed->program.code, uninterrupted->program.code);
  options.takeBest = true;
  auto taken = toy.searchExpecting(toy, options);
  ASSERT_TRUE(bool(taken));
  EXPECT_EQ(taken->program.code, uninterrupted->program.code);
}

TEST(SearchTest, AnyNumberOfProcessesMakesTheSameSearch) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Toy toy = randomToy(12, 6, seed), expected = randomToy(12, 6, seed + 100);
    toy.probed = {3, 7};
    toy.knobs.assign(12, {1000, 1010, 990, 900, 1100});
    toy.isBroken = [](const Coordinates &coordinates) {
      return !coordinates.empty() && (coordinates[2] * 5 + coordinates.back()) % 7 == 3;
    };
    toy.complaint = "machine 'small' is too small";
    std::vector<std::map<Coordinates, uint64_t>> measured;
    std::vector<std::vector<std::string>> lines;
    std::vector<std::set<Coordinates>> madeHere;
    for (unsigned jobs : {1, 2, 5}) {
      MemoryCache cache;
      SearchOptions options = budget(200, seed);
      options.cache = &cache;
      options.jobs = jobs;
      std::vector<std::string> &said = lines.emplace_back();
      options.progress = [&](const SearchProgress &p) { said.push_back(p.what + " " + std::to_string(p.cycles)); };
      toy.made.clear();
      auto found = toy.searchExpecting(expected, options);
      ASSERT_TRUE(bool(found));
      madeHere.push_back(toy.made);
      std::map<Coordinates, uint64_t> &own = measured.emplace_back();
      for (const auto &[point, measurement] : cache.records[found->problem].measured)
        own[coordinatesOf(point)] = measurement.cycles;
    }
    for (size_t i : {1, 2}) {
      EXPECT_EQ(measured[i], measured[0]);
      EXPECT_EQ(lines[i], lines[0]);
      EXPECT_TRUE(std::any_of(measured[i].begin(), measured[i].end(), [&](const auto &entry) {
        return !madeHere[i].count(entry.first);
      })) << "some are made in copies alone";
    }
  }
}

TEST(SearchTest, AMistakeOfTheCompilerInACopyEndsTheSearch) {
  Toy toy = randomToy(6, 5, 8);
  toy.isBroken = [](const Coordinates &coordinates) { return coordinates[2] != 0; };
  toy.complaint = "internal: the schedule does not verify: no";
  SearchOptions options = budget(80);
  options.jobs = 3;
  auto found = toy.search(options);
  ASSERT_FALSE(bool(found));
  EXPECT_EQ(llvm::toString(found.takeError()), toy.complaint);
}

TEST(SearchTest, AFinishedSearchIsTakenFromTheCacheWithoutRunningAnything) {
  MemoryCache cache;
  Toy toy = randomToy(12, 6, 5);
  SearchOptions options = budget(40);
  options.cache = &cache;
  auto tuned = toy.search(options);
  options.budget = 20;
  options.takeBest = true;
  toy.made.clear();
  auto taken = toy.search(options);
  ASSERT_TRUE(tuned && taken);
  EXPECT_EQ(taken->program.code, tuned->program.code);
  EXPECT_EQ(toy.made.size(), 2u) << "the first program, which names the problem, and the best";
}

TEST(SearchTest, ARecordOfOtherLayersIsNotUsed) {
  MemoryCache cache;
  cache.records[""].measured[{{1, 9}, {}, {}, {}}] = {1, {1, 1}, ""};
  Toy toy = randomToy(2, 4, 6);
  SearchOptions options = budget(4);
  options.cache = &cache;
  auto found = toy.search(options);
  ASSERT_TRUE(bool(found));
  EXPECT_EQ(found->search->remembered, 0u);
}

TEST(SearchTest, CyclesThatTheBestProgramDoesNotTakeAreNoticed) {
  MemoryCache cache;
  Toy toy = randomToy(2, 4, 6);
  cache.records[""].measured[{{3, 3}, {}, {}, {}}] = {1, {1, 0}, ""};
  cache.records[""].budget = 100;
  SearchOptions options = budget(4);
  options.cache = &cache;
  options.takeBest = true;
  auto found = toy.search(options);
  ASSERT_FALSE(bool(found));
  std::string message = llvm::toString(found.takeError());
  EXPECT_EQ(message.rfind("the search cache says that the best program takes 1 cycles, but it takes", 0), 0u) << message;
}

TEST(SearchTest, ProgramsThatTheMachineHasNoRoomForAreCountedAndNotTaken) {
  Toy toy = randomToy(6, 5, 7);
  toy.isBroken = [](const Coordinates &coordinates) { return coordinates[2] != 0; };
  toy.complaint = "machine 'small' is too small";
  auto found = toy.search(budget(80));
  ASSERT_TRUE(bool(found));
  EXPECT_GT(found->search->failed, 0u);
  EXPECT_EQ(found->program.code[2][0], 0u);
  EXPECT_LT(found->search->bestCycles, found->search->firstCycles) << "one bad layer does not hold up the others";
}

TEST(SearchTest, AMistakeOfTheCompilerEndsTheSearch) {
  Toy toy = randomToy(6, 5, 8);
  toy.isBroken = [](const Coordinates &coordinates) { return coordinates[2] != 0; };
  toy.complaint = "internal: the schedule does not verify: no";
  auto found = toy.search(budget(80));
  ASSERT_FALSE(bool(found));
  EXPECT_EQ(llvm::toString(found.takeError()), toy.complaint);
}

} // namespace
