//===- Numbers.h - Number types ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The number types of PTX: their sizes, and the conversions that x86-64 lacks (bf16, f16, tf32, e4m3, e5m2).
//===----------------------------------------------------------------------===//
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

namespace tw::ptxemu {

enum class Type : uint8_t {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  U16x2,
  S16x2,
  F16,
  F16x2,
  BF16,
  BF16x2,
  TF32,
  F32,
  F64,
  E4M3,
  E5M2,
  E4M3x2,
  E5M2x2,
};

/// The type that a PTX modifier names ("s32"), or None.
Type typeNamed(const std::string &name);
/// Bits of a value; a predicate has 1.
unsigned bitsOf(Type type);
inline unsigned bytesOf(Type type) { return (bitsOf(type) + 7) / 8; }
inline bool isSigned(Type type) { return type >= Type::S8 && type <= Type::S64; }
inline bool isUnsigned(Type type) { return type >= Type::U8 && type <= Type::U64; }
inline bool isInteger(Type type) { return type >= Type::B8 && type <= Type::S64; }
inline bool isFloat(Type type) { return type >= Type::F16; }

template <typename To, typename From> To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bitCast keeps the size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// `value` reduced to `bits`, filled with zeros or with its sign.
inline uint64_t zeroExtend(uint64_t value, unsigned bits) { return bits >= 64 ? value : value & ((uint64_t(1) << bits) - 1); }
inline int64_t signExtend(uint64_t value, unsigned bits) {
  return bits >= 64 ? int64_t(value) : int64_t(value << (64 - bits)) >> (64 - bits);
}

enum class Rounding : uint8_t { NearestEven, Zero, Down, Up, NearestAway };

/// A binary floating-point format with subnormals; `finiteOnly`: no infinities, the largest code is NaN (e4m3).
struct FloatFormat {
  unsigned exponentBits, mantissaBits;
  bool finiteOnly;
};
constexpr FloatFormat halfFormat{5, 10, false}, bfloatFormat{8, 7, false}, tf32Format{8, 10, false}, e4m3Format{4, 3, true},
    e5m2Format{5, 2, false};

/// The code of `value` in `format`. `saturateFinite`: what is too large becomes the largest finite value.
uint32_t encodeFloat(double value, FloatFormat format, Rounding rounding = Rounding::NearestEven, bool saturateFinite = false);
double decodeFloat(uint32_t code, FloatFormat format);

inline float bfloatToFloat(uint16_t code) { return bitCast<float>(uint32_t(code) << 16); }
inline uint16_t floatToBfloat(float value) {
  if (std::isnan(value))
    return 0x7fff;
  const uint32_t bits = bitCast<uint32_t>(value);
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float halfToFloat(uint16_t code);
inline uint16_t floatToHalf(float value) { return uint16_t(encodeFloat(value, halfFormat)); }
/// A tf32 operand of a tensor core: the low 13 bits of the 32-bit register are not read.
inline float tf32ToFloat(uint32_t code) { return bitCast<float>(code & 0xffffe000u); }

/// Subnormal f32 values become zeros of their sign, as .ftz asks.
inline float flushToZero(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

} // namespace tw::ptxemu
