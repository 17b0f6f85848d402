//===- Tolerances.h - How near results on a GPU must be ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One table for all tests of tests/gpu. docs/gpu.md has the same rows, and a
// test holds the two together.
//===----------------------------------------------------------------------===//
#ifndef TESTS_GPU_TOLERANCES_H
#define TESTS_GPU_TOLERANCES_H

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace tw::test {

/// Largest error of an output, as a part of its largest magnitude: behind one kernel, whose inputs are those of the reference, and behind a
/// whole network. 0: equal.
struct Tolerance {
  const char *type;
  double kernel, network;
  const char *reason;
};

constexpr Tolerance kInteger{"int8", 0, 0, "every number is exact"};
constexpr Tolerance kSingle{"fp32", 1e-5, 1e-4,
                            "sums of up to 2^12 terms of 2^-24 each, in another order; functions within 4 units"};
constexpr Tolerance kTfloat{
    "tf32", 4e-3, 2e-2, "both factors of a product are cut to 2^-10; what follows may shrink the largest magnitude to half"};
constexpr Tolerance kHalf{"float16", 2e-3, 2e-2, "every tensor between kernels is rounded to 2^-11, weights too"};
constexpr Tolerance kBfloat{"bfloat16", 1e-2, 1e-1, "every tensor between kernels is rounded to 2^-8, weights too"};
constexpr Tolerance kQuantised{
    "int8 in QDQ form", 2e-2, 8e-2,
    "the model rounds between float ops, integers elsewhere: a number is a step off, layer behind layer"};
constexpr Tolerance kTolerances[] = {kInteger, kSingle, kTfloat, kHalf, kBfloat, kQuantised};

/// Of ONNX's node tests: |error| <= absolute + relative * |expected|, as ONNX's own test runner compares.
constexpr double kNodeRelative = 1e-3, kNodeAbsolute = 1e-7;

/// The largest error as a part of the largest magnitude of `expected`, which counts as `least` at least. Equal infinities and two NaNs are
/// no error; any other difference of these is an infinite one.
inline double largestError(const std::vector<double> &actual, const std::vector<double> &expected, double least = 0) {
  if (actual.size() != expected.size())
    return std::numeric_limits<double>::infinity();
  double worst = 0, largest = least;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::isfinite(expected[i]))
      largest = std::max(largest, std::abs(expected[i]));
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i])))
      continue;
    if (!std::isfinite(actual[i]) || !std::isfinite(expected[i]))
      return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(actual[i] - expected[i]));
  }
  return worst == 0 ? 0 : worst / largest;
}

} // namespace tw::test

#endif // TESTS_GPU_TOLERANCES_H
