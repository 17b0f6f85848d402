//===- FunctionTables.cpp - The vector engine's function tables -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "isa/timing/FunctionTables.h"

#include <cmath>

using namespace tw::timing;

namespace {

/// Value and scaled derivatives f^(k) / k! at the middle of a segment.
using Taylor = std::array<double, 5>;

/// The cubic of one segment of width `width`: Taylor's polynomial of degree 4 about the middle, its quartic term economised
/// (x^4 = x^2/4 - 1/128 + T4/8 on [-1/2, 1/2]), then moved to the segment's start. Derivatives in closed form keep every
/// coefficient far more exact than binary32, so that no library's last bit can change a table.
std::array<float, 4> cubic(const Taylor &taylor, double width) {
  std::array<double, 5> b;
  double power = 1;
  for (unsigned i = 0; i < 5; ++i, power *= width)
    b[i] = taylor[i] * power;
  b[2] += b[4] / 4;
  b[0] -= b[4] / 128;
  return {float(b[0] - b[1] / 2 + b[2] / 4 - b[3] / 8), float(b[1] - b[2] + 0.75 * b[3]), float(b[2] - 1.5 * b[3]),
          float(b[3])};
}

/// logistic(-a).
Taylor sigmoidTaylor(double a) {
  double e = std::exp(-a);
  double s = e / (1 + e);
  double p = s * (1 - s);
  return {s, -p, p * (1 - 2 * s) / 2, -p * (1 - 6 * p) / 6, p * (1 - 2 * s) * (1 - 12 * p) / 24};
}

Taylor tanhTaylor(double a) {
  double e = std::exp(-2 * a);
  double t = (1 - e) / (1 + e);
  double q = 4 * e / ((1 + e) * (1 + e));
  return {t, q, -t * q, q * (6 * t * t - 2) / 6, 8 * q * t * (2 - 3 * t * t) / 24};
}

constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

Taylor erfTaylor(double x) {
  double d = kTwoOverSqrtPi * std::exp(-x * x);
  return {std::erf(x), d, -x * d, (4 * x * x - 2) * d / 6, (12 * x - 8 * x * x * x) * d / 24};
}

/// log(1 + f) / f = sum of (-f)^n / (n + 1), differentiated term by term; |f| < 0.42, so 120 terms reach below 2^-64.
Taylor logTaylor(double f) {
  Taylor taylor{};
  for (unsigned k = 0; k < 5; ++k) {
    double binomial = 1;
    double power = 1;
    double sum = 0;
    for (unsigned n = k; n < 120; ++n) {
      sum += (n % 2 ? -1.0 : 1.0) * binomial * power / (n + 1);
      power *= f;
      binomial = binomial * (n + 1) / (n + 1 - k);
    }
    taylor[k] = sum;
  }
  return taylor;
}

FunctionTables makeTables() {
  FunctionTables tables;
  for (unsigned j = 0; j < kExpEntries; ++j)
    tables.exp[j] = float(std::exp2(j / 64.0));
  for (unsigned i = 0; i < kTableSegments; ++i) {
    tables.sigmoid.coefficients[i] = cubic(sigmoidTaylor((i + 0.5) / 16), 1.0 / 16);
    tables.tanh.coefficients[i] = cubic(tanhTaylor((i + 0.5) / 16), 1.0 / 16);
    tables.erf.coefficients[i] = cubic(erfTaylor((i + 0.5) / 64), 1.0 / 64);
    bool halved = i >= kLogHalvedSegment;
    double f = halved ? (256 + i + 0.5) / 512 - 1 : (i + 0.5) / 256;
    tables.log.coefficients[i] = cubic(logTaylor(f), halved ? 1.0 / 512 : 1.0 / 256);
  }
  // The first segments of odd functions are exact at 0 and carry the slope unrounded, so that small arguments keep their
  // relative precision: tanh x = x - x^3/3 + 2x^5/15, where t^4 is replaced by t * (a + b * t) meeting it at t = 1/2 and 15/16.
  constexpr double h = 1.0 / 16, fifth = 2.0 / 15 * h * h * h * h * h;
  constexpr double t1 = 0.5, t2 = 0.9375;
  constexpr double b = (t2 * t2 * t2 - t1 * t1 * t1) / (t2 - t1), a = t1 * t1 * t1 - b * t1;
  tables.tanh.coefficients[0] = {0.0f, float(h), float(fifth * a), float(-h * h * h / 3 + fifth * b)};
  constexpr double e = 1.0 / 64;
  tables.erf.coefficients[0] = {0.0f, float(kTwoOverSqrtPi * e), 0.0f, float(-kTwoOverSqrtPi * e * e * e / 3)};
  tables.sigmoid.coefficients[0][0] = 0.5f;
  tables.log.coefficients[0][0] = 1.0f;
  return tables;
}

} // namespace

const FunctionTables &tw::timing::functionTables() {
  static const FunctionTables tables = makeTables();
  return tables;
}

uint64_t tw::timing::functionTablesDigest() {
  const FunctionTables &tables = functionTables();
  uint64_t digest = 0xcbf29ce484222325ull;
  auto add = [&](float value) {
    uint32_t bits = floatBits(value);
    for (unsigned byte = 0; byte < 4; ++byte)
      digest = (digest ^ ((bits >> (8 * byte)) & 0xff)) * 0x100000001b3ull;
  };
  for (float value : tables.exp)
    add(value);
  for (const SegmentTable *table : {&tables.sigmoid, &tables.tanh, &tables.erf, &tables.log})
    for (const std::array<float, 4> &segment : table->coefficients)
      for (float value : segment)
        add(value);
  return digest;
}
