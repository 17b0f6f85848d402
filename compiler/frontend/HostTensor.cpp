//===- HostTensor.cpp - A tensor in host memory ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/HostTensor.h"
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace tw::frontend {

unsigned elementBytes(ElementKind kind) {
  switch (kind) {
  case ElementKind::I8:
  case ElementKind::U8:
  case ElementKind::Bool:
  case ElementKind::F8E4M3FN:
  case ElementKind::F8E4M3FNUZ:
  case ElementKind::F8E5M2:
  case ElementKind::F8E5M2FNUZ:
  case ElementKind::F8E8M0:
  case ElementKind::F4E2M1:
  case ElementKind::I4:
  case ElementKind::U4:
  case ElementKind::I2:
  case ElementKind::U2:
    return 1;
  case ElementKind::String:
    return 0;
  case ElementKind::F16:
  case ElementKind::BF16:
  case ElementKind::I16:
  case ElementKind::U16:
    return 2;
  case ElementKind::F32:
  case ElementKind::I32:
  case ElementKind::U32:
    return 4;
  case ElementKind::F64:
  case ElementKind::I64:
  case ElementKind::U64:
  case ElementKind::Complex64:
    return 8;
  case ElementKind::Complex128:
    return 16;
  }
  assert(false && "unknown element kind");
  return 0;
}

const char *elementName(ElementKind kind) {
  switch (kind) {
  case ElementKind::F32:
    return "float";
  case ElementKind::F16:
    return "float16";
  case ElementKind::BF16:
    return "bfloat16";
  case ElementKind::F64:
    return "double";
  case ElementKind::I8:
    return "int8";
  case ElementKind::U8:
    return "uint8";
  case ElementKind::I16:
    return "int16";
  case ElementKind::U16:
    return "uint16";
  case ElementKind::I32:
    return "int32";
  case ElementKind::U32:
    return "uint32";
  case ElementKind::I64:
    return "int64";
  case ElementKind::U64:
    return "uint64";
  case ElementKind::Bool:
    return "bool";
  case ElementKind::F8E4M3FN:
    return "float8e4m3fn";
  case ElementKind::F8E4M3FNUZ:
    return "float8e4m3fnuz";
  case ElementKind::F8E5M2:
    return "float8e5m2";
  case ElementKind::F8E5M2FNUZ:
    return "float8e5m2fnuz";
  case ElementKind::F8E8M0:
    return "float8e8m0";
  case ElementKind::F4E2M1:
    return "float4e2m1";
  case ElementKind::I4:
    return "int4";
  case ElementKind::U4:
    return "uint4";
  case ElementKind::I2:
    return "int2";
  case ElementKind::U2:
    return "uint2";
  case ElementKind::Complex64:
    return "complex64";
  case ElementKind::Complex128:
    return "complex128";
  case ElementKind::String:
    return "string";
  }
  assert(false && "unknown element kind");
  return "";
}

bool isFloat(ElementKind kind) {
  return kind == ElementKind::F32 || kind == ElementKind::F16 || kind == ElementKind::BF16 || kind == ElementKind::F64;
}

static uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static float floatOf(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

namespace {
/// A float of at most 8 bits. source: ONNX, "Float stored in 8 bits"; OCP Microscaling Formats 1.0, table 1 and section 5
struct SmallFormat {
  int exponentBits, fractionBits, bias;
  bool hasSign = true, hasInfinity = false;
  /// FN: all ones is NaN; FNUZ: minus zero is NaN; F4E2M1: there is none.
  enum class Nan { Ieee, AllOnes, MinusZero, None } nan;
};
} // namespace

static SmallFormat formatOf(ElementKind kind) {
  using Nan = SmallFormat::Nan;
  switch (kind) {
  case ElementKind::F8E4M3FN:
    return {4, 3, 7, true, false, Nan::AllOnes};
  case ElementKind::F8E4M3FNUZ:
    return {4, 3, 8, true, false, Nan::MinusZero};
  case ElementKind::F8E5M2:
    return {5, 2, 15, true, true, Nan::Ieee};
  case ElementKind::F8E5M2FNUZ:
    return {5, 2, 16, true, false, Nan::MinusZero};
  case ElementKind::F8E8M0:
    return {8, 0, 127, false, false, Nan::AllOnes};
  default:
    assert(kind == ElementKind::F4E2M1 && "no small float");
    return {2, 1, 1, true, false, Nan::None};
  }
}

/// Computes what smallToFloat() gives.
static float decodeSmall(ElementKind kind, uint8_t bits) {
  const SmallFormat format = formatOf(kind);
  const int magnitudeBits = format.exponentBits + format.fractionBits;
  const int magnitude = bits & ((1 << magnitudeBits) - 1);
  const bool isNegative = format.hasSign && ((bits >> magnitudeBits) & 1);
  const int exponent = magnitude >> format.fractionBits, fraction = magnitude & ((1 << format.fractionBits) - 1);
  const int most = (1 << format.exponentBits) - 1;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  using Nan = SmallFormat::Nan;
  if ((format.nan == Nan::AllOnes && magnitude == (1 << magnitudeBits) - 1) ||
      (format.nan == Nan::MinusZero && isNegative && magnitude == 0))
    return nan;
  float value;
  if (format.nan == Nan::Ieee && exponent == most)
    value = fraction ? nan : std::numeric_limits<float>::infinity();
  else if (exponent == 0 && format.fractionBits)
    value = std::ldexp(float(fraction), 1 - format.bias - format.fractionBits);
  else
    value = std::ldexp(float((1 << format.fractionBits) + fraction), exponent - format.bias - format.fractionBits);
  return isNegative ? -value : value;
}

float smallToFloat(ElementKind kind, uint8_t bits) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, size_t(ElementKind::F4E2M1) - size_t(ElementKind::F8E4M3FN) + 1> tables;
    for (size_t k = 0; k < tables.size(); ++k)
      for (size_t code = 0; code < 256; ++code)
        tables[k][code] = decodeSmall(ElementKind(size_t(ElementKind::F8E4M3FN) + k), uint8_t(code));
    return tables;
  }();
  assert(kind >= ElementKind::F8E4M3FN && kind <= ElementKind::F4E2M1 && "no small float");
  return tables[size_t(kind) - size_t(ElementKind::F8E4M3FN)][bits];
}

uint8_t floatToSmall(ElementKind kind, float value, bool saturates) {
  if (kind == ElementKind::F8E8M0)
    return floatToPower(value, PowerRounding::Up, saturates);
  const SmallFormat format = formatOf(kind);
  const int magnitudeBits = format.exponentBits + format.fractionBits;
  using Nan = SmallFormat::Nan;
  const uint8_t sign = std::signbit(value) ? uint8_t(1 << magnitudeBits) : 0;
  const int ones = (1 << magnitudeBits) - 1;
  int largest = ones; // the last finite magnitude
  if (format.nan == Nan::AllOnes)
    largest = ones - 1;
  else if (format.nan == Nan::Ieee)
    largest = (((1 << format.exponentBits) - 1) << format.fractionBits) - 1;
  const uint8_t nan = format.nan == Nan::MinusZero ? uint8_t(1 << magnitudeBits) : uint8_t(sign | ones);
  if (value != value)
    return format.nan == Nan::None ? uint8_t(1 << magnitudeBits) : nan;
  const float magnitude = std::fabs(value);
  int code = largest + 1;
  // Far beyond every range, and infinity: too large.
  if (magnitude < 0x1p20f) {
    // The exponent of a number that is subnormal itself does not matter: `least` is larger.
    // Below the normal numbers the last place stays the same. A fraction that rounds up to 2 is the next exponent's first.
    const int least = 1 - format.bias;
    const int exponent = std::max(int(bitsOf(magnitude) >> 23) - 127, least);
    const float places = std::nearbyint(magnitude * floatOf(uint32_t(format.fractionBits - exponent + 127) << 23));
    code = std::min(((exponent - least) << format.fractionBits) + int(places), largest + 1);
  }
  if (code > largest) {
    if (saturates || format.nan == Nan::None)
      return uint8_t(sign | largest);
    return format.hasInfinity ? uint8_t(sign | (largest + 1)) : nan;
  }
  // There is one zero where minus zero is NaN.
  return code == 0 && format.nan == Nan::MinusZero ? 0 : uint8_t(sign | code);
}

uint8_t floatToPower(float value, PowerRounding rounding, bool saturates) {
  constexpr uint8_t kNan = 0xff, kLargest = 0xfe;
  if (value != value)
    return kNan;
  const float magnitude = std::fabs(value);
  if (std::isinf(magnitude))
    return saturates ? kLargest : kNan;
  if (magnitude < 0x1p-127f)
    return saturates ? 0 : kNan;
  // magnitude = fraction * 2^exponent, the fraction in [0.5, 1).
  int exponent = 0;
  const float fraction = std::frexp(magnitude, &exponent);
  int code = exponent - 1 + 127;
  if (rounding == PowerRounding::Up ? fraction > 0.5f : rounding == PowerRounding::Nearest && fraction >= 0.75f)
    ++code;
  return code > kLargest ? (saturates ? kLargest : kNan) : uint8_t(code);
}

float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f)
    return floatOf(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {
    float magnitude = float(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return floatOf(sign | ((exponent + 112) << 23) | (fraction << 13));
}

uint16_t floatToHalf(float value) {
  uint32_t bits = bitsOf(value);
  uint16_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return sign | 0x7e00;
  // 65520 is half way between the largest half and the next power of two: from here on it is infinity.
  if (magnitude >= 0x477ff000)
    return sign | 0x7c00;
  if (magnitude < 0x38800000) {
    // Below 2^-14: a multiple of 2^-24, which nearbyint rounds to even.
    return sign | uint16_t(std::nearbyint(floatOf(magnitude) * 0x1p24f));
  }
  magnitude += 0xfff + ((magnitude >> 13) & 1);
  return sign | uint16_t((magnitude >> 13) - (112 << 10));
}

float bfloatToFloat(uint16_t bits) { return floatOf(uint32_t(bits) << 16); }

uint16_t floatToBfloat(float value) {
  uint32_t bits = bitsOf(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return (bits >> 16) | 0x40;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

float roundToOdd(double value) {
  const float nearest = float(value);
  if (double(nearest) == value || value != value)
    return nearest;
  uint32_t bits = bitsOf(nearest);
  // The float towards zero, then the odd one of it and the next.
  if (std::fabs(double(nearest)) > std::fabs(value))
    --bits;
  return floatOf(bits | 1);
}

} // namespace tw::frontend
