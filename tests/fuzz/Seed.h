//===- Seed.h - Where random tests start ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_FUZZ_SEED_H
#define TESTS_FUZZ_SEED_H

#include <cstdint>
#include <cstdlib>

namespace tw::fuzz {

/// A number from the environment, else `fallback`.
inline uint64_t fromEnvironment(const char *name, uint64_t fallback) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 0) : fallback;
}
/// The first case's seed; case i has this + i.
inline uint64_t firstSeed() { return fromEnvironment("TILEWRIGHT_SEED", 20261121); }
/// Cases of a test: more with TILEWRIGHT_FUZZ_CASES, for long runs by hand.
inline uint64_t numCases(uint64_t usual) { return fromEnvironment("TILEWRIGHT_FUZZ_CASES", usual); }
/// Which networks a seed makes: 1 those of the generator before it knew functions that use their input twice, sums in either order and
/// windows larger than their image. Seeds that once failed are of that.
inline bool isOldGenerator() { return fromEnvironment("TILEWRIGHT_FUZZ_GENERATOR", 2) == 1; }

} // namespace tw::fuzz

#endif // TESTS_FUZZ_SEED_H
