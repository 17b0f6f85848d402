//===- Numbers.cpp - Conversions of number types ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Numbers.h"

#include <unordered_map>

using namespace tw::ptxemu;

Type tw::ptxemu::typeNamed(const std::string &name) {
  static const std::unordered_map<std::string, Type> types = {
      {"pred", Type::Pred},     {"b8", Type::B8},         {"b16", Type::B16},   {"b32", Type::B32},   {"b64", Type::B64},
      {"u8", Type::U8},         {"u16", Type::U16},       {"u32", Type::U32},   {"u64", Type::U64},   {"s8", Type::S8},
      {"s16", Type::S16},       {"s32", Type::S32},       {"s64", Type::S64},   {"f16", Type::F16},   {"f16x2", Type::F16x2},
      {"bf16", Type::BF16},     {"bf16x2", Type::BF16x2}, {"tf32", Type::TF32}, {"f32", Type::F32},   {"f64", Type::F64},
      {"u16x2", Type::U16x2},   {"s16x2", Type::S16x2},   {"e4m3", Type::E4M3}, {"e5m2", Type::E5M2}, {"e4m3x2", Type::E4M3x2},
      {"e5m2x2", Type::E5M2x2},
  };
  auto found = types.find(name);
  return found == types.end() ? Type::None : found->second;
}

unsigned tw::ptxemu::bitsOf(Type type) {
  switch (type) {
  case Type::None:
    return 0;
  case Type::Pred:
    return 1;
  case Type::B8:
  case Type::U8:
  case Type::S8:
  case Type::E4M3:
  case Type::E5M2:
    return 8;
  case Type::B16:
  case Type::U16:
  case Type::S16:
  case Type::F16:
  case Type::BF16:
  case Type::E4M3x2:
  case Type::E5M2x2:
    return 16;
  case Type::B64:
  case Type::U64:
  case Type::S64:
  case Type::F64:
    return 64;
  default:
    return 32;
  }
}

/// `value` as a whole number; ties as `rounding` says.
static double roundToInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::NearestEven:
    return std::nearbyint(value);
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  case Rounding::NearestAway:
    return std::round(value);
  }
  return value;
}

uint32_t tw::ptxemu::encodeFloat(double value, FloatFormat format, Rounding rounding, bool saturateFinite) {
  const int bias = (1 << (format.exponentBits - 1)) - 1;
  const uint32_t sign = std::signbit(value) ? 1u << (format.exponentBits + format.mantissaBits) : 0;
  const uint32_t exponentMask = (1u << format.exponentBits) - 1;
  const uint32_t infinity = exponentMask << format.mantissaBits;
  const uint32_t nan = infinity | ((1u << format.mantissaBits) - 1);
  const uint32_t largest = format.finiteOnly ? nan - 1 : infinity - 1;
  if (std::isnan(value))
    return nan;
  double magnitude = std::fabs(value);
  if (magnitude == 0)
    return sign;
  if (std::isinf(value))
    return sign | (saturateFinite ? largest : format.finiteOnly ? nan : infinity);
  int exponent = std::ilogb(magnitude);
  if (exponent < 1 - bias)
    exponent = 1 - bias;
  // In units of the last place of this exponent; subnormals share the exponent of the smallest normal number.
  const double scaled = std::ldexp(magnitude, int(format.mantissaBits) - exponent);
  Rounding magnitudeRounding = rounding;
  if (sign && rounding == Rounding::Down)
    magnitudeRounding = Rounding::Up;
  if (sign && rounding == Rounding::Up)
    magnitudeRounding = Rounding::Down;
  uint64_t mantissa = uint64_t(roundToInteger(scaled, magnitudeRounding));
  // A carry out of the mantissa moves into the exponent field by itself.
  const uint64_t code = mantissa + (uint64_t(exponent + bias - 1) << format.mantissaBits);
  if (code > largest) {
    const bool towardsZero = magnitudeRounding == Rounding::Zero || magnitudeRounding == Rounding::Down;
    return sign | (saturateFinite || towardsZero ? largest : format.finiteOnly ? nan : infinity);
  }
  return sign | uint32_t(code);
}

double tw::ptxemu::decodeFloat(uint32_t code, FloatFormat format) {
  const int bias = (1 << (format.exponentBits - 1)) - 1;
  const uint32_t exponentMask = (1u << format.exponentBits) - 1, mantissaMask = (1u << format.mantissaBits) - 1;
  const bool negative = (code >> (format.exponentBits + format.mantissaBits)) & 1;
  const uint32_t exponent = (code >> format.mantissaBits) & exponentMask, mantissa = code & mantissaMask;
  double magnitude;
  if (exponent == exponentMask && (!format.finiteOnly || mantissa == mantissaMask))
    magnitude = mantissa ? NAN : INFINITY;
  else if (exponent == 0)
    magnitude = std::ldexp(double(mantissa), 1 - bias - int(format.mantissaBits));
  else
    magnitude = std::ldexp(double(mantissa | (1u << format.mantissaBits)), int(exponent) - bias - int(format.mantissaBits));
  return negative ? -magnitude : magnitude;
}

float tw::ptxemu::halfToFloat(uint16_t code) {
  static const float *table = [] {
    float *values = new float[65536];
    for (uint32_t i = 0; i < 65536; ++i)
      values[i] = float(decodeFloat(i, halfFormat));
    return values;
  }();
  return table[code];
}
