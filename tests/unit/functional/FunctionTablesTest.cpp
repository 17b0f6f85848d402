//===- FunctionTablesTest.cpp ---------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "isa/timing/FunctionTables.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

using namespace tw::timing;

namespace {

const float kInfinity = std::numeric_limits<float>::infinity();

/// Compares `table` with `exact` at every bfloat16 value and at every 4099th binary32 value, where the exact result is a
/// normal number, and returns the largest relative error. Subnormal results may be off by one step.
double largestError(float (*table)(const FunctionTables &, float), const std::function<double(double)> &exact) {
  const FunctionTables &tables = functionTables();
  double largest = 0;
  auto check = [&](uint32_t bits) {
    float x = floatFromBits(bits);
    double expected = exact(double(x));
    if (std::isnan(expected) || std::fabs(expected) > 3.4028234663852886e38)
      return;
    double error = std::fabs(double(table(tables, x)) - expected);
    if (std::fabs(expected) >= 0x1p-126)
      largest = std::max(largest, error / std::fabs(expected));
    else
      EXPECT_LE(error, 0x1p-149) << "x = " << x;
  };
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 1 << 16)
    check(uint32_t(bits));
  for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 4099)
    check(uint32_t(bits));
  return largest;
}

TEST(FunctionTablesTest, RelativeErrorsStayBelowTheirBounds) {
  EXPECT_LT(largestError([](auto &t, float x) { return tableExp(t, x); }, [](double x) { return std::exp(x); }), 1.6e-7);
  EXPECT_LT(largestError([](auto &t, float x) { return tableSigmoid(t, x); }, [](double x) { return 1 / (1 + std::exp(-x)); }),
            4e-7);
  EXPECT_LT(largestError([](auto &t, float x) { return tableTanh(t, x); }, [](double x) { return std::tanh(x); }), 4e-7);
  EXPECT_LT(largestError([](auto &t, float x) { return tableErf(t, x); }, [](double x) { return std::erf(x); }), 4e-7);
  EXPECT_LT(largestError([](auto &t, float x) { return tableLog(t, x); }, [](double x) { return std::log(x); }), 4e-7);
}

TEST(FunctionTablesTest, SpecialValues) {
  const FunctionTables &t = functionTables();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (auto function : {&tableExp, &tableSigmoid, &tableTanh, &tableErf, &tableLog})
    EXPECT_EQ(floatBits(function(t, -nan)), kCanonicalNan);

  EXPECT_EQ(tableExp(t, 0.0f), 1.0f);
  EXPECT_EQ(tableExp(t, kInfinity), kInfinity);
  EXPECT_EQ(tableExp(t, -kInfinity), 0.0f);
  EXPECT_EQ(tableExp(t, 88.73f), kInfinity);  // e^88.73 = 3.43e38 > 3.4028e38
  EXPECT_EQ(tableExp(t, -103.0f), 0x1p-149f); // e^-103 = 1.85e-45, nearest to 1 step of 1.4e-45
  EXPECT_EQ(tableExp(t, -104.0f), 0.0f);      // e^-104 = 6.8e-46, below half a step
  EXPECT_EQ(tableSigmoid(t, 0.0f), 0.5f);
  EXPECT_EQ(tableSigmoid(t, kInfinity), 1.0f);
  EXPECT_EQ(tableSigmoid(t, -kInfinity), 0.0f);
  EXPECT_EQ(tableTanh(t, kInfinity), 1.0f);
  EXPECT_EQ(tableTanh(t, -kInfinity), -1.0f);
  EXPECT_EQ(floatBits(tableTanh(t, -0.0f)), 0x80000000u);
  EXPECT_EQ(tableTanh(t, 0x1p-140f), 0x1p-140f);
  EXPECT_EQ(tableErf(t, kInfinity), 1.0f);
  EXPECT_EQ(floatBits(tableErf(t, -0.0f)), 0x80000000u);
  EXPECT_EQ(tableLog(t, 1.0f), 0.0f);
  EXPECT_EQ(tableLog(t, 0.0f), -kInfinity);
  EXPECT_EQ(tableLog(t, -0.0f), -kInfinity);
  EXPECT_EQ(tableLog(t, kInfinity), kInfinity);
  EXPECT_EQ(floatBits(tableLog(t, -1.0f)), kCanonicalNan);
}

TEST(FunctionTablesTest, FunctionsAreMonotonicFromSegmentToSegment) {
  // Where one segment meets the next the value may not fall back by more than two units in the last place.
  const FunctionTables &t = functionTables();
  for (int i = 1; i < 256; ++i) {
    for (auto [function, x] : {std::pair(&tableTanh, i / 16.0f), std::pair(&tableErf, i / 64.0f),
                               std::pair(&tableSigmoid, i / 16.0f), std::pair(&tableLog, 1 + i / 256.0f)}) {
      float before = function(t, std::nextafter(x, 0.0f)), at = function(t, x);
      EXPECT_GE(at, before * (1 - 0x1p-22f)) << "x = " << x;
    }
  }
}

TEST(FunctionTablesTest, TablesAreTheSameOnEveryMachine) { EXPECT_EQ(functionTablesDigest(), 0x5206e0d675a09b07u); }

} // namespace
