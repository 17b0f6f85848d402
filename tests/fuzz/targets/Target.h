//===- Target.h - What every fuzz target needs -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer calls LLVMFuzzerTestOneInput with bytes that nobody checked. A
// target fails by crashing, by an assertion, by more than 10 s or 2 GB, and by
// an error that has no words or blames the compiler.
//===----------------------------------------------------------------------===//
#ifndef TESTS_FUZZ_TARGETS_TARGET_H
#define TESTS_FUZZ_TARGETS_TARGET_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tw::fuzz {

/// Ends the program as a crash would.
[[noreturn]] inline void finding(const std::string &what) {
  std::fprintf(stderr, "finding: %s\n", what.c_str());
  std::abort();
}

/// A message that a user gets instead of a result.
inline void checkMessage(const std::string &message) {
  if (message.empty())
    finding("an error without words");
  if (message.rfind("internal", 0) == 0)
    finding("an error that blames the compiler: " + message);
}

} // namespace tw::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif // TESTS_FUZZ_TARGETS_TARGET_H
