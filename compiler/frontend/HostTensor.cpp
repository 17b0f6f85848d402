//===- HostTensor.cpp - A tensor in host memory ---------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/HostTensor.h"
#include <cassert>
#include <cmath>
#include <cstring>

namespace tw::frontend {

unsigned elementBytes(ElementKind kind) {
  switch (kind) {
  case ElementKind::I8:
  case ElementKind::U8:
  case ElementKind::Bool:
    return 1;
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
    return 8;
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

float halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f)
    return floatOf(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {
    float magnitude = std::ldexp(float(fraction), -24);
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
    return sign | uint16_t(std::nearbyint(std::ldexp(floatOf(magnitude), 24)));
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

} // namespace tw::frontend
