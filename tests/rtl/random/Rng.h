//===- Rng.h - Random choices from one seed ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_RTL_RANDOM_RNG_H
#define TESTS_RTL_RANDOM_RNG_H

#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

namespace tw::programs {

/// The same seed gives the same choices on every host.
class Rng {
public:
  explicit Rng(uint64_t seed) : engine(seed) {}
  uint64_t bits() { return engine(); }
  /// In [low, high].
  int64_t in(int64_t low, int64_t high) { return low + int64_t(engine() % uint64_t(high - low + 1)); }
  bool chance(unsigned percent) { return engine() % 100 < percent; }
  int64_t of(std::initializer_list<int64_t> values) { return values.begin()[engine() % values.size()]; }
  template <typename T> const T &of(const std::vector<T> &values) { return values[engine() % values.size()]; }

private:
  std::mt19937_64 engine;
};

} // namespace tw::programs

#endif // TESTS_RTL_RANDOM_RNG_H
