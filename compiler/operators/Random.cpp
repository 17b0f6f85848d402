//===- Random.cpp - Random numbers ----------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"
#include "compiler/operators/Signals.h"

#include <atomic>
#include <random>

using namespace tw;
using namespace tw::operators;

namespace {

/// source: G. Steele et al., Fast splittable pseudorandom number generators, 2014 (SplitMix64)
class Generator {
public:
  /// Of the attribute `seed`, or a new one for each call.
  explicit Generator(const Call &call) {
    if (call.hasAttr("seed")) {
      const float seed = call.floatAttr("seed");
      uint32_t bits;
      std::memcpy(&bits, &seed, sizeof bits);
      state = bits;
      return;
    }
    static std::atomic<uint64_t> next{(uint64_t(std::random_device()()) << 32) | std::random_device()()};
    state = next.fetch_add(0x632be59bd9b4e019);
  }

  uint64_t bits() {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// In [0, 1).
  double uniform() { return double(bits() >> 11) * 0x1p-53; }
  /// Mean 0, deviation 1. source: G. Box and M. Muller, A note on the generation of random normal deviates, 1958
  double normal() {
    if (hasSpare) {
      hasSpare = false;
      return spare;
    }
    const double radius = std::sqrt(-2 * std::log(1 - uniform())), angle = 2 * 3.14159265358979323846 * uniform();
    spare = radius * std::sin(angle);
    hasSpare = true;
    return radius * std::cos(angle);
  }

private:
  uint64_t state;
  double spare = 0;
  bool hasSpare = false;
};

/// The result of an operator that makes numbers: of attribute `shape`, or like input 0.
HostTensor &makeResult(Call &call, bool isLike) {
  const ElementKind inherited = isLike ? call.input(0).type : ElementKind::F32;
  const ElementKind kind = kindAttr(call, "dtype", frontend::isFloat(inherited) ? inherited : ElementKind::F32);
  if (!visitFloat(kind, [](auto) {}))
    call.fail(std::string("dtype is ") + frontend::elementName(kind) + ", expected a float of 16 bits or more");
  return call.output(0, kind, isLike ? call.input(0).shape : call.intsAttr("shape"));
}

void fillNormal(Call &call, bool isLike) {
  HostTensor &y = makeResult(call, isLike);
  const double mean = double(call.floatAttr("mean", 0.0f)), scale = double(call.floatAttr("scale", 1.0f));
  Generator generator(call);
  for (int64_t i = 0; i < countOf(y); ++i)
    setReal(y, i, mean + scale * generator.normal());
}
void fillUniform(Call &call, bool isLike) {
  HostTensor &y = makeResult(call, isLike);
  const double low = double(call.floatAttr("low", 0.0f)), high = double(call.floatAttr("high", 1.0f));
  Generator generator(call);
  for (int64_t i = 0; i < countOf(y); ++i)
    setReal(y, i, low + (high - low) * generator.uniform());
}

// source: ONNX, operators RandomNormal, RandomNormalLike, RandomUniform and RandomUniformLike
void evaluateRandomNormal(Call &call) { fillNormal(call, false); }
void evaluateRandomNormalLike(Call &call) { fillNormal(call, true); }
void evaluateRandomUniform(Call &call) { fillUniform(call, false); }
void evaluateRandomUniformLike(Call &call) { fillUniform(call, true); }

// source: ONNX, operator Bernoulli
void evaluateBernoulli(Call &call) {
  const HostTensor &x = call.input(0);
  HostTensor &y = call.output(0, kindAttr(call, "dtype", x.type), x.shape);
  Generator generator(call);
  for (int64_t i = 0; i < countOf(y); ++i)
    setReal(y, i, generator.uniform() < realAt(x, i) ? 1 : 0);
}

// source: ONNX, operator Multinomial. The input holds logarithms of what need not sum to 1.
void evaluateMultinomial(Call &call) {
  const HostTensor &x = call.input(0);
  if (x.shape.size() != 2 || x.shape[1] == 0)
    call.fail("input has shape " + textOf(x.shape) + ", expected [batches, classes] with a class");
  const ElementKind kind = kindAttr(call, "dtype", ElementKind::I32);
  if (kind != ElementKind::I32 && kind != ElementKind::I64)
    call.fail(std::string("dtype is ") + frontend::elementName(kind) + ", expected int32 or int64");
  const int64_t samples = call.intAttr("sample_size", 1), classes = x.shape[1];
  HostTensor &y = call.output(0, kind, {x.shape[0], samples});
  Generator generator(call);
  std::vector<double> sums(static_cast<size_t>(classes));
  for (int64_t batch = 0; batch < x.shape[0]; ++batch) {
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t c = 0; c < classes; ++c)
      largest = std::max(largest, realAt(x, batch * classes + c));
    for (int64_t c = 0; c < classes; ++c) {
      const double logarithm = realAt(x, batch * classes + c);
      sum += logarithm == largest ? 1 : std::isfinite(logarithm) ? std::exp(logarithm - largest) : 0;
      sums[size_t(c)] = sum;
    }
    for (int64_t i = 0; i < samples; ++i) {
      const auto found = std::upper_bound(sums.begin(), sums.end(), generator.uniform() * sum);
      setInteger(y, batch * samples + i, std::min<int64_t>(found - sums.begin(), classes - 1));
    }
  }
}

} // namespace

void operators::addRandom(Table &table) {
  const std::pair<const char *, Evaluate> known[] = {
      {":RandomNormal", evaluateRandomNormal},   {":RandomNormalLike", evaluateRandomNormalLike},
      {":RandomUniform", evaluateRandomUniform}, {":RandomUniformLike", evaluateRandomUniformLike},
      {":Bernoulli", evaluateBernoulli},         {":Multinomial", evaluateMultinomial}};
  for (const auto &[name, evaluate] : known)
    table[name] = {evaluate, {}, /*isDynamic=*/false, /*isRandom=*/true};
}
