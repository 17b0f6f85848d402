//===- StageOps.h - Scalar operations of the vector chain -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The meaning of each operation on one lane. All are branch-free where the host
// can vectorise them, and inlined into kernels for several instruction sets.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_FUNCTIONAL_STAGEOPS_H
#define SIMULATOR_FUNCTIONAL_STAGEOPS_H

#include "isa/timing/FunctionTables.h"

#include <cstdint>
#include <cstring>

namespace tw::functional {

using timing::floatBits;
using timing::floatFromBits;

TW_INLINE float canonical(float value) { return value != value ? floatFromBits(timing::kCanonicalNan) : value; }

//===----------------------------------------------------------------------===//
// Memory formats
//===----------------------------------------------------------------------===//

TW_INLINE float readF32(const uint8_t *from) {
  float value;
  std::memcpy(&value, from, 4);
  return value;
}

TW_INLINE float readBf16(const uint8_t *from) {
  uint16_t half;
  std::memcpy(&half, from, 2);
  return floatFromBits(uint32_t(half) << 16);
}

TW_INLINE int32_t readI32(const uint8_t *from) {
  int32_t value;
  std::memcpy(&value, from, 4);
  return value;
}

/// Round to nearest even; overflow gives infinity, NaN the canonical one.
TW_INLINE uint16_t toBf16(float value) {
  uint32_t bits = floatBits(value);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  return uint16_t(value != value ? timing::kCanonicalNan >> 16 : rounded);
}

TW_INLINE int8_t saturateI8(int32_t x) { return int8_t(x < -128 ? -128 : x > 127 ? 127 : x); }
TW_INLINE uint8_t saturateU8(int32_t x) { return uint8_t(x < 0 ? 0 : x > 255 ? 255 : x); }

//===----------------------------------------------------------------------===//
// int32, modulo 2^32
//===----------------------------------------------------------------------===//

TW_INLINE int32_t iadd(int32_t x, int32_t y) { return int32_t(uint32_t(x) + uint32_t(y)); }
TW_INLINE int32_t isub(int32_t x, int32_t y) { return int32_t(uint32_t(x) - uint32_t(y)); }
TW_INLINE int32_t imul(int32_t x, int32_t y) { return int32_t(uint32_t(x) * uint32_t(y)); }
TW_INLINE int32_t imax(int32_t x, int32_t y) { return x > y ? x : y; }
TW_INLINE int32_t imin(int32_t x, int32_t y) { return x < y ? x : y; }
TW_INLINE int32_t ishr(int32_t x, int32_t y) { return x >> (y & 31); }
/// x / 0 = 0; min / -1 = min.
TW_INLINE int32_t idiv(int32_t x, int32_t y) { return y == 0 ? 0 : y == -1 ? isub(0, x) : x / y; }

//===----------------------------------------------------------------------===//
// binary32, round to nearest even
//===----------------------------------------------------------------------===//

/// NaN if either is NaN, +0 above -0: with a total order on the bits of numbers, the larger of the two.
TW_INLINE float fmax(float x, float y) {
  float larger = x > y ? x : y;
  float equal = floatFromBits(floatBits(x) & floatBits(y)); // of -0 and +0 the positive; the value itself otherwise
  larger = x == y ? equal : larger;
  return x != x ? x : y != y ? y : larger;
}
/// NaN if either is NaN, -0 below +0.
TW_INLINE float fmin(float x, float y) {
  float smaller = x < y ? x : y;
  float equal = floatFromBits(floatBits(x) | floatBits(y));
  smaller = x == y ? equal : smaller;
  return x != x ? x : y != y ? y : smaller;
}
TW_INLINE float frsqrt(float x) {
  float root = __builtin_sqrtf(x);
  return 1.0f / root;
}

//===----------------------------------------------------------------------===//
// Between the domains
//===----------------------------------------------------------------------===//

TW_INLINE float i2f(int32_t x) { return float(x); }
/// `whole` is an integral value, an infinity or NaN.
TW_INLINE int32_t wholeToInt(float whole) {
  bool inside = whole >= -0x1p31f && whole < 0x1p31f;
  int32_t value = int32_t(inside ? whole : 0.0f);
  return whole >= 0x1p31f ? INT32_MAX : whole < -0x1p31f ? INT32_MIN : value;
}
TW_INLINE int32_t f2i(float x) { return wholeToInt(__builtin_rintf(x)); }
TW_INLINE int32_t f2iTrunc(float x) { return wholeToInt(__builtin_truncf(x)); }
/// f2i(x) + zeroPoint, saturating at int32.
TW_INLINE int32_t quantize(float x, int32_t zeroPoint) {
  int32_t whole = f2i(x);
  int32_t sum = iadd(whole, zeroPoint);
  bool overflow = ((whole ^ sum) & (zeroPoint ^ sum)) < 0;
  return overflow ? (whole < 0 ? INT32_MIN : INT32_MAX) : sum;
}
TW_INLINE float dequantize(int32_t x, int32_t zeroPoint, float scale) { return i2f(isub(x, zeroPoint)) * scale; }

} // namespace tw::functional

#endif // SIMULATOR_FUNCTIONAL_STAGEOPS_H
