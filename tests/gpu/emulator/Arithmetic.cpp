//===- Arithmetic.cpp - Arithmetic of integers and floating-point numbers ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>

using namespace tw::ptxemu;

namespace {

// ---- Values ---------------------------------------------------------------------------------------------------------------

/// 16-bit floating-point numbers: arithmetic is in f32 or f64 and rounded once.
struct Half {
  using Bits = uint16_t;
  static float decode(uint16_t bits) { return halfToFloat(bits); }
  static uint16_t encode(double value) { return uint16_t(encodeFloat(value, halfFormat)); }
};
struct Bfloat {
  using Bits = uint16_t;
  static float decode(uint16_t bits) { return bfloatToFloat(bits); }
  static uint16_t encode(double value) { return uint16_t(encodeFloat(value, bfloatFormat)); }
};

template <typename T> T flushed(T value, bool flush) {
  if constexpr (std::is_same_v<T, float>)
    return flush ? flushToZero(value) : value;
  else
    return value;
}

float quietNan() { return bitCast<float>(0x7fffffffu); }

/// A float result: .ftz, .sat, and the one NaN that PTX arithmetic returns.
template <typename T> T finish(T value, const Instruction &instruction) {
  value = flushed(value, instruction.flushSubnormals);
  if (instruction.saturate)
    value = std::isnan(value) ? T(0) : std::clamp(value, T(0), T(1));
  if (std::isnan(value))
    value = T(quietNan());
  return value;
}

/// Applies `Function` to as many of in[0..2] as `arity` says, as numbers of type T.
template <typename T, unsigned arity, typename Function> Step compute(Thread &thread, const Instruction &instruction) {
  constexpr bool real = std::is_floating_point_v<T>;
  T in[3] = {};
  for (unsigned i = 0; i < arity; ++i) {
    in[i] = thread.get<T>(instruction.in[i]);
    if constexpr (real)
      in[i] = flushed(in[i], instruction.flushSubnormals);
  }
  if constexpr (real) {
    thread.put<T>(instruction.destination, finish<T>(Function()(in[0], in[1], in[2]), instruction));
  } else {
    // Integers: wrapped to their width, extended in a wider register by their sign.
    T result = T(Function()(in[0], in[1], in[2]));
    if (instruction.simple.flag) // .relu
      result = std::max(result, T(0));
    if (std::is_signed_v<T> && instruction.destinationBits > sizeof(T) * 8)
      thread.write(instruction.destination, zeroExtend(uint64_t(int64_t(result)), instruction.destinationBits));
    else
      thread.put<T>(instruction.destination, result);
  }
  return Step::Next;
}

/// The same for two 16-bit integers in a register.
template <typename T, unsigned arity, typename Function> Step computePair(Thread &thread, const Instruction &instruction) {
  uint64_t in[3] = {}, result = 0;
  for (unsigned i = 0; i < arity; ++i)
    in[i] = thread.read(instruction.in[i]);
  for (unsigned bit = 0; bit < 32; bit += 16) {
    T value = T(Function()(T(in[0] >> bit), T(in[1] >> bit), T(in[2] >> bit)));
    if (instruction.simple.flag) // .relu
      value = std::max(value, T(0));
    result |= uint64_t(uint16_t(value)) << bit;
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

/// The same for 16-bit floats, one or two in a register.
template <typename Format, unsigned elements, unsigned arity, typename Function>
Step computeSmall(Thread &thread, const Instruction &instruction) {
  uint64_t in[3] = {}, result = 0;
  for (unsigned i = 0; i < arity; ++i)
    in[i] = thread.read(instruction.in[i]);
  for (unsigned e = 0; e < elements; ++e) {
    double values[3];
    for (unsigned i = 0; i < 3; ++i)
      values[i] = Format::decode(uint16_t(in[i] >> (16 * e)));
    double value = Function()(values[0], values[1], values[2]);
    if (instruction.saturate)
      value = std::isnan(value) ? 0 : std::clamp(value, 0.0, 1.0);
    if (instruction.simple.flag && !(value > 0) && !std::isnan(value)) // .relu
      value = 0;
    result |= uint64_t(Format::encode(value)) << (16 * e);
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

template <unsigned arity, typename Function> Handler floatHandler(Type type) {
  switch (type) {
  case Type::F32:
    return compute<float, arity, Function>;
  case Type::F64:
    return compute<double, arity, Function>;
  case Type::F16:
    return computeSmall<Half, 1, arity, Function>;
  case Type::F16x2:
    return computeSmall<Half, 2, arity, Function>;
  case Type::BF16:
    return computeSmall<Bfloat, 1, arity, Function>;
  case Type::BF16x2:
    return computeSmall<Bfloat, 2, arity, Function>;
  default:
    return nullptr;
  }
}
template <unsigned arity, typename Function> Handler integerHandler(Type type) {
  switch (type) {
  case Type::S16:
    return compute<int16_t, arity, Function>;
  case Type::U16:
  case Type::B16:
    return compute<uint16_t, arity, Function>;
  case Type::S32:
    return compute<int32_t, arity, Function>;
  case Type::U32:
  case Type::B32:
    return compute<uint32_t, arity, Function>;
  case Type::S64:
    return compute<int64_t, arity, Function>;
  case Type::U64:
  case Type::B64:
    return compute<uint64_t, arity, Function>;
  case Type::S16x2:
    return computePair<int16_t, arity, Function>;
  case Type::U16x2:
    return computePair<uint16_t, arity, Function>;
  default:
    return nullptr;
  }
}
template <unsigned arity, typename Function> Handler numberHandler(Type type) {
  return isFloat(type) ? floatHandler<arity, Function>(type) : integerHandler<arity, Function>(type);
}

// ---- Functions of numbers -------------------------------------------------------------------------------------------------

/// Signed overflow wraps: integer arithmetic is in unsigned 64 bits.
template <typename T> auto wide(T value) {
  if constexpr (std::is_floating_point_v<T>)
    return value;
  else
    return uint64_t(int64_t(value));
}

struct Add {
  template <typename T> T operator()(T a, T b, T) const { return T(wide(a) + wide(b)); }
};
struct Subtract {
  template <typename T> T operator()(T a, T b, T) const { return T(wide(a) - wide(b)); }
};
struct Multiply {
  template <typename T> T operator()(T a, T b, T) const { return T(wide(a) * wide(b)); }
};
struct MultiplyAdd {
  template <typename T> T operator()(T a, T b, T c) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fma(a, b, c);
    else
      return T(wide(a) * wide(b) + wide(c));
  }
};
/// The upper half of the product, and of the product plus nothing: mad.hi adds after the shift.
struct MultiplyHigh {
  template <typename T> T operator()(T a, T b, T c) const {
    using Wide = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
    return T(uint64_t((Wide(a) * Wide(b)) >> (sizeof(T) * 8)) + uint64_t(c));
  }
};
struct Divide {
  template <typename T> T operator()(T a, T b, T) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0)
        fail(ErrorKind::Trap, "division by zero");
      if (std::is_signed_v<T> && b == T(-1))
        return T(0 - wide(a));
    }
    return T(a / b);
  }
};
struct Remainder {
  template <typename T> T operator()(T a, T b, T) const {
    if (b == 0)
      fail(ErrorKind::Trap, "division by zero");
    if (std::is_signed_v<T> && b == T(-1))
      return 0;
    return T(a % b);
  }
};
/// min and max return the number where one operand is NaN; -0 is below +0.
struct Minimum {
  template <typename T> T operator()(T a, T b, T) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? a : b) : std::min(a, b);
    else
      return std::min(a, b);
  }
};
struct Maximum {
  template <typename T> T operator()(T a, T b, T) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(a) ? b : std::isnan(b) ? a : a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
    else
      return std::max(a, b);
  }
};
/// .NaN: a NaN operand gives NaN.
template <typename Function> struct PropagateNan {
  template <typename T> T operator()(T a, T b, T c) const {
    return std::isnan(a) || std::isnan(b) ? T(NAN) : Function()(a, b, c);
  }
};
struct Negate {
  template <typename T> T operator()(T a, T, T) const {
    if constexpr (std::is_floating_point_v<T>)
      return -a;
    else
      return T(0 - wide(a));
  }
};
struct Absolute {
  template <typename T> T operator()(T a, T, T) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fabs(a);
    else
      return a < 0 ? T(0 - wide(a)) : a;
  }
};
struct Sad {
  template <typename T> T operator()(T a, T b, T c) const {
    return T(wide(c) + (a < b ? wide(b) - wide(a) : wide(a) - wide(b)));
  }
};
struct CopySign {
  template <typename T> T operator()(T a, T b, T) const { return std::copysign(b, a); }
};
struct Exp2 {
  template <typename T> T operator()(T a, T, T) const { return std::exp2(a); }
};
struct Log2 {
  template <typename T> T operator()(T a, T, T) const { return std::log2(a); }
};
struct Reciprocal {
  template <typename T> T operator()(T a, T, T) const { return T(1) / a; }
};
struct ReciprocalRoot {
  template <typename T> T operator()(T a, T, T) const { return T(1 / std::sqrt(double(a))); }
};
struct Root {
  template <typename T> T operator()(T a, T, T) const { return std::sqrt(a); }
};
struct Sine {
  template <typename T> T operator()(T a, T, T) const { return std::sin(a); }
};
struct Cosine {
  template <typename T> T operator()(T a, T, T) const { return std::cos(a); }
};
struct HyperbolicTangent {
  template <typename T> T operator()(T a, T, T) const { return std::tanh(a); }
};

// ---- Sums of several words --------------------------------------------------------------------------------------------------

/// add, addc, sub and subc with .cc: simple.mode bit 0 subtracts, bit 1 takes the carry or borrow, bit 2 leaves it.
Step addWithCarry(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type);
  const int mode = instruction.simple.mode;
  const uint64_t a = zeroExtend(thread.read(instruction.in[0]), bits), b = zeroExtend(thread.read(instruction.in[1]), bits);
  const unsigned __int128 carry = mode & 2 ? thread.carry : 0;
  const unsigned __int128 result = mode & 1 ? (unsigned __int128)a - b - carry : (unsigned __int128)a + b + carry;
  thread.write(instruction.destination, zeroExtend(uint64_t(result), bits));
  if (mode & 4)
    thread.carry = uint64_t(result >> bits) & 1;
  return Step::Next;
}

// ---- Instructions whose operands differ in width --------------------------------------------------------------------------

/// mul.wide, mad.wide: the product has twice the width.
template <typename Narrow, typename Wide> Step multiplyWide(Thread &thread, const Instruction &instruction) {
  const uint64_t product =
      uint64_t(Wide(thread.get<Narrow>(instruction.in[0]))) * uint64_t(Wide(thread.get<Narrow>(instruction.in[1])));
  const uint64_t sum = product + (instruction.simple.flag ? thread.read(instruction.in[2]) : 0);
  thread.write(instruction.destination, zeroExtend(sum, sizeof(Wide) * 8));
  return Step::Next;
}

// ---- Decoding -------------------------------------------------------------------------------------------------------------

/// Modifiers of float arithmetic; only rounding to the nearest is modelled.
void takeFloatModifiers(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  instruction.flushSubnormals = decoder.take("ftz");
  instruction.saturate = decoder.take("sat");
  decoder.take("rn");
}

/// mul, mad: .lo, .hi, .wide, or a float.
void decodeMultiply(Decoder &decoder, bool add) {
  Instruction &instruction = decoder.instruction;
  takeFloatModifiers(decoder);
  const bool low = decoder.take("lo"), high = decoder.take("hi"), isWide = decoder.take("wide");
  instruction.type = decoder.takeType();
  instruction.simple.flag = add && isWide;
  const unsigned operands = add ? 3 : 2;
  if (isFloat(instruction.type))
    return decoder.finish(add ? floatHandler<3, MultiplyAdd>(instruction.type) : floatHandler<2, Multiply>(instruction.type),
                          operands);
  if (instruction.saturate || low + high + isWide != 1)
    decoder.unsupported("needs one of .lo, .hi, .wide");
  if (low)
    return decoder.finish(
        add ? integerHandler<3, MultiplyAdd>(instruction.type) : integerHandler<2, Multiply>(instruction.type), operands);
  if (high)
    return decoder.finish(
        add ? integerHandler<3, MultiplyHigh>(instruction.type) : integerHandler<2, MultiplyHigh>(instruction.type), operands);
  Handler handler = nullptr;
  switch (instruction.type) {
  case Type::S16:
    handler = multiplyWide<int16_t, int32_t>;
    break;
  case Type::U16:
    handler = multiplyWide<uint16_t, uint32_t>;
    break;
  case Type::S32:
    handler = multiplyWide<int32_t, int64_t>;
    break;
  case Type::U32:
    handler = multiplyWide<uint32_t, uint64_t>;
    break;
  default:
    break;
  }
  decoder.finish(handler, operands);
  if (add)
    instruction.in[2] = decoder.source(3, Type::B64);
}

/// Operations on numbers of every type, and approximations of functions.
bool decodeNumber(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  auto number = [&](auto function, unsigned operands, bool integers = true) {
    using Function = decltype(function);
    takeFloatModifiers(decoder);
    decoder.take("approx");
    decoder.take("full");
    const bool propagate = decoder.take("NaN");
    instruction.simple.flag = decoder.take("relu");
    instruction.type = decoder.takeType();
    if (isFloat(instruction.type)) {
      if (instruction.simple.flag && bitsOf(instruction.type) == 32 && instruction.type == Type::F32)
        decoder.unsupported("no .relu for f32");
      if (propagate)
        decoder.finish(floatHandler<2, PropagateNan<Function>>(instruction.type), operands);
      else if (operands == 1)
        decoder.finish(floatHandler<1, Function>(instruction.type), operands);
      else
        decoder.finish(floatHandler<3, Function>(instruction.type), operands);
      if (operands < 3)
        for (unsigned i = operands; i < 3; ++i)
          instruction.in[i] = Source();
    } else {
      if (!integers || instruction.saturate || propagate ||
          (instruction.simple.flag && instruction.type != Type::S16x2 && instruction.type != Type::S32))
        decoder.unsupported("not for this type");
      if constexpr (!std::is_same_v<Function, Exp2> && !std::is_same_v<Function, Log2> &&
                    !std::is_same_v<Function, Reciprocal> && !std::is_same_v<Function, ReciprocalRoot> &&
                    !std::is_same_v<Function, Root> && !std::is_same_v<Function, Sine> && !std::is_same_v<Function, Cosine> &&
                    !std::is_same_v<Function, HyperbolicTangent> && !std::is_same_v<Function, CopySign>)
        decoder.finish(operands == 1 ? integerHandler<1, Function>(instruction.type)
                                     : integerHandler<2, Function>(instruction.type),
                       operands);
    }
    return true;
  };
  const bool subtract = decoder.is("sub") || decoder.is("subc"), takesCarry = decoder.is("addc") || decoder.is("subc");
  if (takesCarry || ((decoder.is("add") || subtract) && decoder.firstModifier() == "cc")) {
    instruction.simple.mode = subtract | takesCarry << 1 | decoder.take("cc") << 2;
    instruction.type = decoder.takeType();
    decoder.finish(isInteger(instruction.type) && bitsOf(instruction.type) >= 32 ? addWithCarry : nullptr, 2);
    return true;
  }
  if (decoder.is("add"))
    return number(Add(), 2);
  if (decoder.is("sub"))
    return number(Subtract(), 2);
  if (decoder.is("fma"))
    return number(MultiplyAdd(), 3, false);
  if (decoder.is("div"))
    return number(Divide(), 2);
  if (decoder.is("min"))
    return number(Minimum(), 2);
  if (decoder.is("max"))
    return number(Maximum(), 2);
  if (decoder.is("neg"))
    return number(Negate(), 1);
  if (decoder.is("abs"))
    return number(Absolute(), 1);
  if (decoder.is("ex2"))
    return number(Exp2(), 1, false);
  if (decoder.is("lg2"))
    return number(Log2(), 1, false);
  if (decoder.is("rcp"))
    return number(Reciprocal(), 1, false);
  if (decoder.is("rsqrt"))
    return number(ReciprocalRoot(), 1, false);
  if (decoder.is("sqrt"))
    return number(Root(), 1, false);
  if (decoder.is("sin"))
    return number(Sine(), 1, false);
  if (decoder.is("cos"))
    return number(Cosine(), 1, false);
  if (decoder.is("tanh"))
    return number(HyperbolicTangent(), 1, false);
  if (decoder.is("copysign"))
    return number(CopySign(), 2, false);
  return false;
}

} // namespace

bool tw::ptxemu::decodeArithmetic(Decoder &decoder) {
  if (decoder.is("mul") || decoder.is("mad")) {
    decodeMultiply(decoder, decoder.is("mad"));
    return true;
  }
  if (decoder.is("rem")) {
    decoder.instruction.type = decoder.takeType();
    decoder.finish(integerHandler<2, Remainder>(decoder.instruction.type), 2);
    return true;
  }
  if (decoder.is("sad")) {
    decoder.instruction.type = decoder.takeType();
    decoder.finish(integerHandler<3, Sad>(decoder.instruction.type), 3);
    return true;
  }
  return decodeNumber(decoder);
}
