//===- RandomKernel.cpp - Small tile loops by seed ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/loopsched/RandomKernel.h"

#include <algorithm>
#include <random>

using namespace tw;
using namespace tw::loopsched;

namespace {

class Generator {
public:
  explicit Generator(uint64_t seed) : random(seed * 0x9E3779B97F4A7C15ull + 1), tight(seed % 4 != 0) {}

  Problem run() {
    const int64_t side = pick({16, 32}); // of the array
    const int64_t tensors = between(1, 3);
    const int64_t m = 16 * between(2, 12), n = side * between(1, 3), k = side * tensors * between(1, 2);
    const Cycles tensorCycles = m * (k / tensors / side) * (n / side);
    const bool residual = between(0, 2) == 0;
    // With a single tensor instruction, loads and vector instructions contend instead.
    const bool twoVectors = tensors == 1 || between(0, 2) == 0, oneLoadEngine = tensors == 1 || between(0, 1) == 0;
    const int64_t bytesA = m * k, bytesB = k * n, bytesC = m * n;
    // DRAM needs 40 to 130 % of the array's time.
    int64_t moved = bytesA + bytesB + bytesC * (residual ? 2 : 1);
    const Cycles dramCycles = std::max<Cycles>(24, tensorCycles * tensors * between(40, 130) / 100);
    const Cycles dramLatency = between(20, 200);
    auto transfer = [&](int64_t bytes) { return std::max<Cycles>(4, (bytes * dramCycles + moved - 1) / moved); };

    unsigned dram = resource("dram"), load0 = resource("load0"), load1 = oneLoadEngine ? load0 : resource("load1");
    unsigned preload = resource("preload"), tensor = resource("tensor"), vector = resource("vector"), store = resource("store");
    auto addLoad = [&](const std::string &name, unsigned engine, int64_t bytes) {
      return operation(name, {{engine, transfer(bytes)}, {dram, transfer(bytes)}}, transfer(bytes) + dramLatency + kPost);
    };
    unsigned loadA = addLoad("load a", load0, bytesA), loadB = addLoad("load b", load1, bytesB);
    unsigned loadR = residual ? addLoad("load r", load0, bytesC) : 0;

    std::vector<unsigned> preloads, passes;
    const Cycles preloadCycles = side * (k / tensors / side) * (n / side) / pick({1, 2, 4});
    for (int64_t i = 0; i < tensors; ++i) {
      std::string number = std::to_string(i);
      preloads.push_back(operation("preload " + number, {{preload, preloadCycles}}, preloadCycles + 3 + kPost));
      passes.push_back(operation("tensor " + number, {{tensor, tensorCycles}}, tensorCycles + 10 + kPost));
      depend(preloads[i], passes[i], problem.operations[preloads[i]].latency, 0);
      // Shadow registers are free again when the tensor instruction that takes them has started.
      if (i > 0)
        depend(passes[i - 1], preloads[i], 1, 0);
    }
    depend(passes.back(), preloads[0], 1, 1);
    const int64_t lanes = side / pick({1, 1, 2});
    const Cycles vectorCycles = (bytesC + lanes - 1) / lanes;
    std::vector<unsigned> vectors;
    for (int64_t i = 0; i < (twoVectors ? 2 : 1); ++i)
      vectors.push_back(operation("vector " + std::to_string(i), {{vector, vectorCycles}}, vectorCycles + 8 + kPost));
    unsigned storeC = operation("store c", {{store, transfer(bytesC)}, {dram, transfer(bytesC)}}, transfer(bytesC) + 6 + kPost);

    // The largest tile takes one to four banks.
    const int64_t largest = std::max({bytesA, bytesB, bytesC});
    problem.memories = {{"scratchpad", 0, (largest + between(1, 4) - 1) / between(1, 4)},
                        {"accumulator", 0, 4 * bytesC / between(1, 2)}};
    auto readers = [](const std::vector<unsigned> &operations) {
      std::vector<Problem::Reader> result;
      for (unsigned it : operations)
        result.push_back({it, 0});
      return result;
    };
    buffer("a", 0, bytesA, loadA, readers(passes));
    buffer("b", 0, bytesB, loadB, readers(preloads));
    if (residual)
      buffer("r", 0, bytesC, loadR, readers({vectors[0]}));
    std::vector<unsigned> users(passes.begin() + 1, passes.end());
    users.push_back(vectors[0]);
    buffer("accumulator", 1, 4 * bytesC, passes[0], readers(users));
    for (size_t i = 1; i < passes.size(); ++i) // they add to the same words, in order
      depend(passes[i - 1], passes[i], tensorCycles, 0);
    depend(passes.back(), vectors[0], problem.operations[passes.back()].latency, 0);
    for (size_t i = 0; i < vectors.size(); ++i)
      buffer("c" + std::to_string(i), 0, bytesC, vectors[i], readers({i + 1 < vectors.size() ? vectors[i + 1] : storeC}));

    // Tight: little more than one slot of each tile; a second one for the accumulator in three of four.
    auto oneEach = [&](unsigned memory) {
      int64_t sum = 0;
      for (const Problem::Buffer &it : problem.buffers)
        sum += it.memory == memory ? problem.banksPerSlot(it) : 0;
      return sum;
    };
    problem.memories[0].banks = tight ? oneEach(0) + between(0, 2) : 3 * oneEach(0) + between(0, 2);
    problem.memories[1].banks = tight ? oneEach(1) * (between(0, 3) > 0 ? 2 : 1) : 3 * oneEach(1);
    return std::move(problem);
  }

private:
  /// From a post to its being visible to the waiting engine.
  static constexpr Cycles kPost = 2;

  /// Not std::uniform_int_distribution, whose numbers differ between libraries.
  int64_t between(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  int64_t pick(std::vector<int64_t> values) { return values[between(0, int64_t(values.size()) - 1)]; }

  unsigned resource(const std::string &name) {
    problem.resources.push_back({name});
    return unsigned(problem.resources.size() - 1);
  }
  unsigned operation(const std::string &name, std::vector<Problem::Use> uses, Cycles latency) {
    problem.operations.push_back({name, std::move(uses), latency});
    return unsigned(problem.operations.size() - 1);
  }
  void depend(unsigned from, unsigned to, Cycles delay, unsigned distance) {
    problem.dependences.push_back({from, to, delay, distance});
  }
  void buffer(const std::string &name, unsigned memory, int64_t bytes, unsigned producer,
              std::vector<Problem::Reader> readers) {
    problem.buffers.push_back({name, memory, bytes, producer, std::move(readers), 0});
  }

  std::mt19937_64 random;
  bool tight;
  Problem problem;
};

} // namespace

Problem loopsched::test::randomKernel(uint64_t seed) { return Generator(seed).run(); }
