//===- FunctionTables.h - The vector engine's function tables ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// exp, logistic, tanh, erf and log as the vector engine computes them: a table
// look-up and a few binary32 operations, each rounded once to nearest even
// (fma: one rounding). Simulator, RTL and CPU code copy these steps exactly, so
// the order of operations below is part of the instruction set.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_FUNCTIONTABLES_H
#define ISA_TIMING_FUNCTIONTABLES_H

#include <array>
#include <cstdint>
#include <cstring>

namespace tw::timing {

/// Inlined into callers compiled for a wider instruction set, so that fma becomes one instruction there.
#define TW_INLINE inline __attribute__((always_inline))

constexpr unsigned kTableSegments = 256;
constexpr unsigned kExpEntries = 64;

/// A function cut into 256 equal segments. In segment i the value is
/// c[0] + t * (c[1] + t * (c[2] + t * c[3])), 0 <= t < 1, as three fma.
struct SegmentTable {
  std::array<std::array<float, 4>, kTableSegments> coefficients;
};

/// All tables, 16 640 bytes of ROM per lane group.
struct FunctionTables {
  /// 2^(j/64).
  std::array<float, kExpEntries> exp;
  /// Segment width 1/16 over [0, 16): logistic(-a).
  SegmentTable sigmoid;
  /// Segment width 1/16 over [0, 16).
  SegmentTable tanh;
  /// Segment width 1/64 over [0, 4).
  SegmentTable erf;
  /// By the upper 8 bits of the mantissa m of 1.m: log(1 + f) / f, where f = 1.m - 1 below segment 106 and 1.m / 2 - 1 from there.
  SegmentTable log;
};

/// First segment of FunctionTables::log whose argument is halved: 1 + 106/256 is next to the square root of 2.
constexpr unsigned kLogHalvedSegment = 106;

/// The tables, made on first use; the same bits on every machine (see functionTablesDigest()).
const FunctionTables &functionTables();

/// FNV-1a over every table entry in declaration order, as little-endian binary32.
uint64_t functionTablesDigest();

//===----------------------------------------------------------------------===//
// Bit patterns
//===----------------------------------------------------------------------===//

TW_INLINE uint32_t floatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

TW_INLINE float floatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Every NaN the machine writes.
constexpr uint32_t kCanonicalNan = 0x7fc00000;

//===----------------------------------------------------------------------===//
// The functions
//===----------------------------------------------------------------------===//

/// source: W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980 (two-constant range reduction).
constexpr float kExpScale = 0x1.71547652b82fep+6f;    ///< 64 / ln 2
constexpr float kExpStepHigh = 0x1.62e42fefa39efp-7f; ///< ln 2 / 64
constexpr float kExpStepLow = float(0x1.62e42fefa39efp-7 - double(kExpStepHigh));
constexpr float kLn2High = 0x1.62e42fefa39efp-1f;
constexpr float kLn2Low = float(0x1.62e42fefa39efp-1 - double(kLn2High));

/// Value of `table` at `position` segments, 0 <= position < 256.
TW_INLINE float evaluateSegment(const SegmentTable &table, float position) {
  unsigned segment = unsigned(position);
  float t = position - float(segment);
  const std::array<float, 4> &c = table.coefficients[segment];
  return __builtin_fmaf(t, __builtin_fmaf(t, __builtin_fmaf(t, c[3], c[2]), c[1]), c[0]);
}

/// exp(x): 2^(k/64) by table times a cubic in the rest, then an exact scaling in two steps, so that a subnormal result is
/// rounded once. Above 100: +inf; below -110: +0; overflow gives +inf. Relative error < 1.6e-7 where the result is normal.
TW_INLINE float tableExp(const FunctionTables &tables, float x) {
  if (x != x)
    return floatFromBits(kCanonicalNan);
  if (x > 100.0f)
    return __builtin_inff();
  if (x < -110.0f)
    return 0.0f;
  float step = __builtin_rintf(x * kExpScale);
  float r = __builtin_fmaf(step, -kExpStepHigh, x);
  r = __builtin_fmaf(step, -kExpStepLow, r);
  float p = __builtin_fmaf(r, 0x1.555556p-3f, 0.5f);
  float q = __builtin_fmaf(r * r, p, r);
  int k = int(step);
  float base = tables.exp[k & 63];
  float y = __builtin_fmaf(base, q, base);
  int exponent = k >> 6;
  int half = exponent >> 1;
  y = y * floatFromBits(uint32_t(half + 127) << 23);
  return y * floatFromBits(uint32_t(exponent - half + 127) << 23);
}

/// 1 / (1 + exp(-x)): the table gives the half that is at most 1/2, beyond 16 it is exp(-|x|). Relative error < 4e-7 where
/// the result is normal, on both sides.
TW_INLINE float tableSigmoid(const FunctionTables &tables, float x) {
  if (x != x)
    return floatFromBits(kCanonicalNan);
  float a = __builtin_fabsf(x);
  float lower = a >= 16.0f ? tableExp(tables, -a) : evaluateSegment(tables.sigmoid, a * 16.0f);
  return x < 0.0f ? lower : 1.0f - lower;
}

/// tanh(x): odd; exactly 1 from 16 on. Relative error < 4e-7 where the result is normal.
TW_INLINE float tableTanh(const FunctionTables &tables, float x) {
  if (x != x)
    return floatFromBits(kCanonicalNan);
  float a = __builtin_fabsf(x);
  float y = a >= 16.0f ? 1.0f : evaluateSegment(tables.tanh, a * 16.0f);
  return __builtin_copysignf(y, x);
}

/// erf(x): odd; exactly 1 from 4 on. Relative error < 4e-7 where the result is normal.
TW_INLINE float tableErf(const FunctionTables &tables, float x) {
  if (x != x)
    return floatFromBits(kCanonicalNan);
  float a = __builtin_fabsf(x);
  float y = a >= 4.0f ? 1.0f : evaluateSegment(tables.erf, a * 64.0f);
  return __builtin_copysignf(y, x);
}

/// log(x): f * g(f) by table plus exponent * ln 2. Below 0: NaN; +0 and -0: -inf. Relative error < 4e-7.
TW_INLINE float tableLog(const FunctionTables &tables, float x) {
  if (x != x || x < 0.0f)
    return floatFromBits(kCanonicalNan);
  if (x == 0.0f)
    return -__builtin_inff();
  if (x == __builtin_inff())
    return x;
  int exponent = -127;
  if (x < 0x1p-126f) {
    x = x * 0x1p23f;
    exponent -= 23;
  }
  uint32_t bits = floatBits(x);
  exponent += int(bits >> 23);
  uint32_t mantissa = bits & 0x7fffff;
  float position = float(mantissa) * 0x1p-15f;
  float f;
  if (mantissa >= kLogHalvedSegment << 15) {
    f = floatFromBits(mantissa | 0x3f000000) - 1.0f;
    exponent += 1;
  } else {
    f = floatFromBits(mantissa | 0x3f800000) - 1.0f;
  }
  float y = f * evaluateSegment(tables.log, position);
  y = __builtin_fmaf(float(exponent), kLn2Low, y);
  return __builtin_fmaf(float(exponent), kLn2High, y);
}

} // namespace tw::timing

#endif // ISA_TIMING_FUNCTIONTABLES_H
