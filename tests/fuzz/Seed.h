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

} // namespace tw::fuzz

#endif // TESTS_FUZZ_SEED_H
