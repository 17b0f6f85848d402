//===- Conversion.cpp - cvt in all its forms ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>

using namespace tw::ptxemu;

static double decodeReal(uint64_t bits, Type type) {
  switch (type) {
  case Type::F32:
    return bitCast<float>(uint32_t(bits));
  case Type::F64:
    return bitCast<double>(bits);
  case Type::F16:
    return halfToFloat(uint16_t(bits));
  case Type::BF16:
    return bfloatToFloat(uint16_t(bits));
  default:
    return 0;
  }
}

static double roundedToInteger(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::NearestEven:
    return std::nearbyint(value);
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  default:
    return std::round(value);
  }
}

static float roundedToFloat(double value, Rounding rounding) {
  float result = float(value); // to the nearest
  if (rounding == Rounding::NearestEven || std::isnan(value) || double(result) == value)
    return result;
  const bool tooLarge = double(result) > value;
  const bool wantLower = rounding == Rounding::Down || (rounding == Rounding::Zero && value > 0);
  if (tooLarge && wantLower)
    return std::nextafter(result, -INFINITY);
  if (!tooLarge && !wantLower)
    return std::nextafter(result, INFINITY);
  return result;
}

static uint64_t encodeReal(double value, Type type, Rounding rounding, bool saturateFinite) {
  switch (type) {
  case Type::F32:
    return std::isnan(value) ? 0x7fffffffu : bitCast<uint32_t>(roundedToFloat(value, rounding));
  case Type::F64:
    return bitCast<uint64_t>(value);
  case Type::F16:
    return encodeFloat(value, halfFormat, rounding, saturateFinite);
  case Type::BF16:
    return encodeFloat(value, bfloatFormat, rounding, saturateFinite);
  case Type::TF32:
    return uint64_t(encodeFloat(value, tf32Format, rounding, saturateFinite)) << 13;
  case Type::E4M3:
    return encodeFloat(value, e4m3Format, rounding, saturateFinite);
  case Type::E5M2:
    return encodeFloat(value, e5m2Format, rounding, saturateFinite);
  default:
    return 0;
  }
}

static uint64_t realToInteger(double value, Type type, Rounding rounding) {
  if (std::isnan(value))
    return 0;
  const unsigned bits = bitsOf(type);
  const double rounded = roundedToInteger(value, rounding);
  if (isSigned(type)) {
    const double limit = std::ldexp(1.0, int(bits) - 1);
    if (rounded >= limit)
      return zeroExtend(~uint64_t(0), bits - 1);
    if (rounded <= -limit)
      return uint64_t(1) << (bits - 1);
    return zeroExtend(uint64_t(int64_t(rounded)), bits);
  }
  if (rounded >= std::ldexp(1.0, int(bits)))
    return zeroExtend(~uint64_t(0), bits);
  return rounded <= 0 ? 0 : uint64_t(rounded);
}

/// `value` of type `from` clamped to the range of `to`, as .sat asks.
static uint64_t saturateInteger(uint64_t value, Type from, Type to) {
  const unsigned bits = bitsOf(to);
  const __int128 number =
      isSigned(from) ? __int128(signExtend(value, bitsOf(from))) : __int128(zeroExtend(value, bitsOf(from)));
  const __int128 low = isSigned(to) ? -(__int128(1) << (bits - 1)) : 0;
  const __int128 high = isSigned(to) ? (__int128(1) << (bits - 1)) - 1 : (__int128(1) << bits) - 1;
  return zeroExtend(uint64_t(std::clamp(number, low, high)), bits);
}

/// simple.from: the source's type; simple.rounding; simple.flag: .relu; simple.mode 1: .satfinite, 2: to an integral float.
static Step convert(Thread &thread, const Instruction &instruction) {
  const Type to = instruction.type, from = instruction.simple.from;
  const uint64_t bits = thread.read(instruction.in[0]);
  const unsigned width = instruction.destinationBits;
  uint64_t result;
  if (isFloat(from)) {
    double value = decodeReal(bits, from);
    if (instruction.flushSubnormals && from == Type::F32)
      value = flushToZero(float(value));
    if (!isFloat(to)) {
      result = realToInteger(value, to, instruction.simple.rounding);
      if (isSigned(to))
        result = zeroExtend(uint64_t(signExtend(result, bitsOf(to))), std::max(width, bitsOf(to)));
      thread.write(instruction.destination, result);
      return Step::Next;
    }
    if (instruction.simple.mode == 2)
      value = roundedToInteger(value, instruction.simple.rounding);
    if (instruction.saturate)
      value = std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0);
    if (instruction.simple.flag && !std::isnan(value) && !(value > 0))
      value = 0;
    result = encodeReal(value, to, instruction.simple.rounding, instruction.simple.mode == 1);
    if (instruction.flushSubnormals && to == Type::F32)
      result = bitCast<uint32_t>(flushToZero(bitCast<float>(uint32_t(result))));
  } else if (isFloat(to)) {
    const unsigned fromBits = bitsOf(from);
    if (to == Type::F32 && instruction.simple.rounding == Rounding::NearestEven) // one rounding, also from 64 bits
      result = bitCast<uint32_t>(isSigned(from) ? float(signExtend(bits, fromBits)) : float(zeroExtend(bits, fromBits)));
    else
      result = encodeReal(isSigned(from) ? double(signExtend(bits, fromBits)) : double(zeroExtend(bits, fromBits)), to,
                          instruction.simple.rounding, false);
  } else if (instruction.saturate) {
    result = saturateInteger(bits, from, to);
    if (isSigned(to))
      result = zeroExtend(uint64_t(signExtend(result, bitsOf(to))), std::max(width, bitsOf(to)));
  } else {
    // Extended from the source's type, cut to the destination's, extended again in a wider register.
    const uint64_t wide = isSigned(from) ? uint64_t(signExtend(bits, bitsOf(from))) : zeroExtend(bits, bitsOf(from));
    result = isSigned(to) ? zeroExtend(uint64_t(signExtend(wide, bitsOf(to))), std::max(width, bitsOf(to)))
                          : zeroExtend(wide, bitsOf(to));
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

/// cvt.rn.bf16x2.f32 d, a, b and the like: a becomes the upper half, b the lower one.
static Step convertPair(Thread &thread, const Instruction &instruction) {
  uint64_t result = 0;
  const Type half = instruction.simple.from;
  const unsigned bits = bitsOf(half);
  for (unsigned i = 0; i < 2; ++i) {
    float value = thread.get<float>(instruction.in[1 - i]);
    if (instruction.simple.flag && !std::isnan(value) && !(value > 0))
      value = 0;
    const uint64_t code =
        half == Type::BF16 && instruction.simple.rounding == Rounding::NearestEven && instruction.simple.mode != 1
            ? floatToBfloat(value)
            : encodeReal(value, half, instruction.simple.rounding, instruction.simple.mode == 1);
    result |= code << (bits * i);
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

/// cvt.rn.f16x2.e4m3x2 d, a.
static Step unpackPair(Thread &thread, const Instruction &instruction) {
  const uint64_t bits = thread.read(instruction.in[0]);
  const FloatFormat format = instruction.simple.from == Type::E4M3x2 ? e4m3Format : e5m2Format;
  uint64_t result = 0;
  for (unsigned i = 0; i < 2; ++i) {
    float value = float(decodeFloat(uint32_t(bits >> (8 * i)) & 0xff, format));
    if (instruction.simple.flag && !std::isnan(value) && !(value > 0))
      value = 0;
    result |= uint64_t(floatToHalf(value)) << (16 * i);
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

/// cvt.pack.sat.s8.s32.b32 d, a, b, c: {c's low bits, saturated a, saturated b}; without c the upper half is zero.
static Step convertPack(Thread &thread, const Instruction &instruction) {
  const Type to = instruction.type;
  const unsigned bits = bitsOf(to);
  const uint64_t a = saturateInteger(thread.read(instruction.in[0]), Type::S32, to);
  const uint64_t b = saturateInteger(thread.read(instruction.in[1]), Type::S32, to);
  const uint64_t c = instruction.simple.flag ? thread.read(instruction.in[2]) : 0;
  thread.write(instruction.destination, zeroExtend(bits == 32 ? b : c << (2 * bits) | a << bits | b, 32));
  return Step::Next;
}

static void decodePack(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (!decoder.take("sat"))
    decoder.unsupported();
  instruction.type = decoder.takeType();
  if (decoder.takeType() != Type::S32)
    decoder.unsupported("the sources must be s32");
  decoder.setDestination(0);
  instruction.in[0] = decoder.source(1, Type::S32);
  instruction.in[1] = decoder.source(2, Type::S32);
  instruction.simple.flag = decoder.has(3);
  const unsigned bits = bitsOf(instruction.type);
  if (decoder.has(3)) {
    if (!decoder.take("b32") || bits > 8)
      decoder.unsupported();
    instruction.in[2] = decoder.source(3, Type::B32);
  } else if (bits != 16) {
    decoder.unsupported();
  }
  instruction.execute = convertPack;
}

bool tw::ptxemu::decodeConversion(Decoder &decoder) {
  if (!decoder.is("cvt"))
    return false;
  Instruction &instruction = decoder.instruction;
  if (decoder.take("pack")) {
    decodePack(decoder);
    return true;
  }
  const int integral = decoder.takeOneOf({"rni", "rzi", "rmi", "rpi"});
  const int rounding = integral >= 0 ? integral : decoder.takeOneOf({"rn", "rz", "rm", "rp", "rna"});
  instruction.simple.rounding = rounding < 0 ? Rounding::NearestEven : Rounding(rounding);
  instruction.flushSubnormals = decoder.take("ftz");
  instruction.saturate = decoder.take("sat");
  if (decoder.take("satfinite"))
    instruction.simple.mode = 1;
  instruction.simple.flag = decoder.take("relu");
  instruction.type = decoder.takeType();
  const Type from = decoder.takeType();
  instruction.simple.from = from;
  decoder.setDestination(0);
  Type element = Type::None;
  switch (instruction.type) {
  case Type::BF16x2:
    element = Type::BF16;
    break;
  case Type::F16x2:
    element = Type::F16;
    break;
  case Type::E4M3x2:
    element = Type::E4M3;
    break;
  case Type::E5M2x2:
    element = Type::E5M2;
    break;
  default:
    break;
  }
  if (element != Type::None) {
    if (from == Type::E4M3x2 || from == Type::E5M2x2) {
      instruction.execute = unpackPair;
      instruction.in[0] = decoder.source(1, Type::B16);
      return true;
    }
    if (from != Type::F32 || decoder.operandCount() != 3)
      decoder.unsupported();
    instruction.simple.from = element;
    instruction.in[0] = decoder.source(1, Type::F32);
    instruction.in[1] = decoder.source(2, Type::F32);
    instruction.execute = convertPair;
    return true;
  }
  if (decoder.operandCount() != 2)
    decoder.unsupported();
  const bool toFloat = isFloat(instruction.type), fromFloat = isFloat(from);
  if (integral >= 0 && toFloat && fromFloat)
    instruction.simple.mode = 2;
  if (fromFloat && !toFloat && integral < 0)
    decoder.unsupported("needs .rni, .rzi, .rmi or .rpi");
  if (instruction.type == Type::Pred || from == Type::Pred)
    decoder.unsupported();
  instruction.in[0] = decoder.source(1, from);
  instruction.execute = convert;
  return true;
}
