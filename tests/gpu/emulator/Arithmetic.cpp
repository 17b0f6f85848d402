//===- Arithmetic.cpp - Integer, floating-point, logical and comparison instructions ---===//
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
template <typename T> T canonical(T value) { return std::isnan(value) ? std::numeric_limits<T>::quiet_NaN() : value; }

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
struct And {
  template <typename T> T operator()(T a, T b, T) const { return T(a & b); }
};
struct Or {
  template <typename T> T operator()(T a, T b, T) const { return T(a | b); }
};
struct Xor {
  template <typename T> T operator()(T a, T b, T) const { return T(a ^ b); }
};
struct Not {
  template <typename T> T operator()(T a, T, T) const { return T(~a); }
};
struct CNot {
  template <typename T> T operator()(T a, T, T) const { return T(a == 0); }
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

Step shift(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type);
  const uint64_t value = thread.read(instruction.in[0]);
  const uint64_t amount = std::min<uint64_t>(uint32_t(thread.read(instruction.in[1])), bits);
  uint64_t result;
  if (instruction.simple.mode == 0)
    result = amount >= bits ? 0 : value << amount;
  else if (isSigned(instruction.type))
    result = uint64_t(signExtend(value, bits) >> std::min<uint64_t>(amount, 63));
  else
    result = amount >= bits ? 0 : zeroExtend(value, bits) >> amount;
  thread.write(instruction.destination, zeroExtend(result, bits));
  return Step::Next;
}

/// shf: a 32-bit window of {in[1], in[0]}. simple.mode 0: left, 1: right; simple.flag: .wrap.
Step funnelShift(Thread &thread, const Instruction &instruction) {
  const uint64_t both = thread.read(instruction.in[1]) << 32 | uint32_t(thread.read(instruction.in[0]));
  const uint32_t raw = uint32_t(thread.read(instruction.in[2]));
  const uint32_t amount = instruction.simple.flag ? raw & 31 : std::min(raw, 32u);
  const uint64_t result = instruction.simple.mode == 0 ? both << amount >> 32 : both >> amount;
  thread.write(instruction.destination, uint32_t(result));
  return Step::Next;
}

/// prmt: picks 4 of the 8 bytes of {in[1], in[0]}. simple.mode 0: default; 1..6: f4e, b4e, rc8, ecl, ecr, rc16.
Step permute(Thread &thread, const Instruction &instruction) {
  const uint64_t bytes = thread.read(instruction.in[1]) << 32 | uint32_t(thread.read(instruction.in[0]));
  const uint32_t selector = uint32_t(thread.read(instruction.in[2])), s = selector & 3;
  uint32_t result = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t index;
    bool sign = false;
    switch (instruction.simple.mode) {
    case 0:
      index = selector >> (4 * i) & 7;
      sign = selector >> (4 * i) & 8;
      break;
    case 1:
      index = s + i;
      break;
    case 2:
      index = (s - i) & 7;
      break;
    case 3:
      index = s;
      break;
    case 4:
      index = std::max(s, i);
      break;
    case 5:
      index = std::min(s, i);
      break;
    default:
      index = (s & 1) * 2 + i % 2;
      break;
    }
    uint8_t byte = uint8_t(bytes >> (8 * index));
    if (sign)
      byte = byte & 0x80 ? 0xff : 0;
    result |= uint32_t(byte) << (8 * i);
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

Step extractBits(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type);
  const uint64_t value = thread.read(instruction.in[0]);
  const unsigned position = thread.read(instruction.in[1]) & 0xff, length = thread.read(instruction.in[2]) & 0xff;
  uint64_t result = 0;
  if (length) {
    const uint64_t moved = position >= bits ? 0 : zeroExtend(value, bits) >> position;
    result = zeroExtend(moved, std::min(length, 64u));
    if (isSigned(instruction.type)) {
      // Above the top of the value the field is filled with the sign bit of its highest bit that is there.
      const unsigned top = std::min(position + length - 1, bits - 1);
      if (value >> top & 1) {
        const unsigned valid = position > top ? 0 : top - position + 1;
        result = valid >= 64 ? result : result | ~uint64_t(0) << valid;
      }
    }
  }
  thread.write(instruction.destination, zeroExtend(result, bits));
  return Step::Next;
}

Step insertBits(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type);
  const uint64_t field = thread.read(instruction.in[0]), into = thread.read(instruction.in[1]);
  const unsigned position = thread.read(instruction.in[2]) & 0xff, length = thread.read(instruction.in[3]) & 0xff;
  const uint64_t mask = position >= bits || length == 0 ? 0 : zeroExtend(~uint64_t(0), std::min(length, 64u)) << position;
  thread.write(instruction.destination, zeroExtend((into & ~mask) | (position >= 64 ? 0 : field << position & mask), bits));
  return Step::Next;
}

enum BitCount { Population, LeadingZeros, Reverse, FindHighest, FindHighestShift };

Step countBits(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type);
  uint64_t value = zeroExtend(thread.read(instruction.in[0]), bits), result = 0;
  switch (instruction.simple.mode) {
  case Population:
    result = uint64_t(__builtin_popcountll(value));
    break;
  case LeadingZeros:
    result = value ? uint64_t(__builtin_clzll(value)) - (64 - bits) : bits;
    break;
  case Reverse:
    for (unsigned i = 0; i < bits; ++i)
      result |= (value >> i & 1) << (bits - 1 - i);
    break;
  default:
    if (isSigned(instruction.type) && value >> (bits - 1) & 1)
      value = zeroExtend(~value, bits);
    if (!value) {
      result = 0xffffffffu;
    } else {
      result = 63 - uint64_t(__builtin_clzll(value));
      if (instruction.simple.mode == FindHighestShift)
        result = bits - 1 - result;
    }
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

Step logic3(Thread &thread, const Instruction &instruction) {
  const uint32_t a = uint32_t(thread.read(instruction.in[0])), b = uint32_t(thread.read(instruction.in[1])),
                 c = uint32_t(thread.read(instruction.in[2])), table = uint32_t(instruction.in[3].value);
  uint32_t result = 0;
  for (unsigned i = 0; i < 8; ++i)
    if (table >> i & 1)
      result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  thread.write(instruction.destination, result);
  return Step::Next;
}

/// dp4a: simple.mode bit 0: a is signed, bit 1: b is.
Step dotProduct4(Thread &thread, const Instruction &instruction) {
  const uint32_t a = uint32_t(thread.read(instruction.in[0])), b = uint32_t(thread.read(instruction.in[1]));
  uint32_t sum = uint32_t(thread.read(instruction.in[2]));
  for (unsigned i = 0; i < 32; i += 8) {
    const int32_t x = instruction.simple.mode & 1 ? int8_t(a >> i) : uint8_t(a >> i);
    const int32_t y = instruction.simple.mode & 2 ? int8_t(b >> i) : uint8_t(b >> i);
    sum += uint32_t(x * y);
  }
  thread.write(instruction.destination, sum);
  return Step::Next;
}

// ---- Predicates and comparisons -------------------------------------------------------------------------------------------

enum PredicateOperation { PredicateAnd, PredicateOr, PredicateXor, PredicateNot, PredicateMove };

Step predicateLogic(Thread &thread, const Instruction &instruction) {
  const bool a = thread.read(instruction.in[0]);
  const bool b = instruction.simple.mode < PredicateNot && thread.read(instruction.in[1]);
  bool result = a;
  switch (instruction.simple.mode) {
  case PredicateAnd:
    result = a && b;
    break;
  case PredicateOr:
    result = a || b;
    break;
  case PredicateXor:
    result = a != b;
    break;
  case PredicateNot:
    result = !a;
    break;
  }
  thread.write(instruction.destination, result);
  return Step::Next;
}

enum Comparison { Eq, Ne, Lt, Le, Gt, Ge, Lo, Ls, Hi, Hs, Equ, Neu, Ltu, Leu, Gtu, Geu, Num, IsNan };

template <typename T> bool compareValues(int comparison, T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool unordered = std::isnan(a) || std::isnan(b);
    if (comparison == Num || comparison == IsNan)
      return unordered == (comparison == IsNan);
    if (unordered)
      return comparison >= Equ || comparison == Ne ? comparison != Ne : false;
  }
  switch (comparison) {
  case Eq:
  case Equ:
    return a == b;
  case Ne:
  case Neu:
    return a != b;
  case Lt:
  case Lo:
  case Ltu:
    return a < b;
  case Le:
  case Ls:
  case Leu:
    return a <= b;
  case Gt:
  case Hi:
  case Gtu:
    return a > b;
  default:
    return a >= b;
  }
}

bool compare(int comparison, Type type, uint64_t a, uint64_t b, bool flush) {
  switch (type) {
  case Type::F32:
    return compareValues(comparison, flushed(bitCast<float>(uint32_t(a)), flush), flushed(bitCast<float>(uint32_t(b)), flush));
  case Type::F64:
    return compareValues(comparison, bitCast<double>(a), bitCast<double>(b));
  case Type::F16:
    return compareValues(comparison, halfToFloat(uint16_t(a)), halfToFloat(uint16_t(b)));
  case Type::BF16:
    return compareValues(comparison, bfloatToFloat(uint16_t(a)), bfloatToFloat(uint16_t(b)));
  default:
    break;
  }
  const unsigned bits = bitsOf(type);
  if (isSigned(type))
    return compareValues(comparison, signExtend(a, bits), signExtend(b, bits));
  return compareValues(comparison, zeroExtend(a, bits), zeroExtend(b, bits));
}

/// setp d[|d2], a, b[, c]. simple.mode: comparison + 32 * (1 + boolean operation), the latter 0 where there is none.
Step setPredicate(Thread &thread, const Instruction &instruction) {
  const int comparison = instruction.simple.mode & 31, boolean = instruction.simple.mode >> 5;
  const bool result = compare(comparison, instruction.type, thread.read(instruction.in[0]), thread.read(instruction.in[1]),
                              instruction.flushSubnormals);
  auto combined = [&](bool value) {
    if (!boolean)
      return value;
    const bool c = thread.read(instruction.in[2]);
    return boolean == 1 + PredicateAnd ? value && c : boolean == 1 + PredicateOr ? value || c : value != c;
  };
  thread.write(instruction.destination, combined(result));
  thread.write(instruction.destination2, combined(!result));
  return Step::Next;
}

/// set.cmp.dtype.stype: all ones or 1.0 where the comparison holds.
Step setValue(Thread &thread, const Instruction &instruction) {
  const bool result = compare(instruction.simple.mode & 31, instruction.simple.from, thread.read(instruction.in[0]),
                              thread.read(instruction.in[1]), instruction.flushSubnormals);
  thread.write(instruction.destination, !result ? 0 : instruction.type == Type::F32 ? 0x3f800000u : 0xffffffffu);
  return Step::Next;
}

Step select(Thread &thread, const Instruction &instruction) {
  // The operand that is not chosen may be anything.
  const bool first = thread.read(instruction.in[2]);
  thread.write(instruction.destination, zeroExtend(thread.read(instruction.in[first ? 0 : 1]), bitsOf(instruction.type)));
  return Step::Next;
}

/// slct.dtype.ctype: a where c >= 0.
Step selectBySign(Thread &thread, const Instruction &instruction) {
  const uint64_t c = thread.read(instruction.in[2]);
  const bool first = instruction.simple.from == Type::F32 ? bitCast<float>(uint32_t(c)) >= 0 : int32_t(c) >= 0;
  thread.write(instruction.destination, thread.read(instruction.in[first ? 0 : 1]));
  return Step::Next;
}

enum FloatTest { TestFinite, TestInfinite, TestNumber, TestNan, TestNormal, TestSubnormal };

Step testFloat(Thread &thread, const Instruction &instruction) {
  const uint64_t bits = thread.read(instruction.in[0]);
  const int kind =
      instruction.type == Type::F32 ? std::fpclassify(bitCast<float>(uint32_t(bits))) : std::fpclassify(bitCast<double>(bits));
  const bool results[] = {kind != FP_NAN && kind != FP_INFINITE,
                          kind == FP_INFINITE,
                          kind != FP_NAN,
                          kind == FP_NAN,
                          kind == FP_NORMAL,
                          kind == FP_SUBNORMAL};
  thread.write(instruction.destination, results[instruction.simple.mode]);
  return Step::Next;
}

// ---- Decoding -------------------------------------------------------------------------------------------------------------

void takeOperands(Decoder &decoder, unsigned count) {
  Instruction &instruction = decoder.instruction;
  if (decoder.operandCount() != count + 1)
    decoder.unsupported("it has " + std::to_string(decoder.operandCount()) + " operands but needs " +
                        std::to_string(count + 1));
  decoder.setDestination(0);
  for (unsigned i = 0; i < count; ++i)
    instruction.in[i] = decoder.source(i + 1, instruction.type);
}

/// Modifiers of float arithmetic; only rounding to the nearest is modelled.
void takeFloatModifiers(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  instruction.flushSubnormals = decoder.take("ftz");
  instruction.saturate = decoder.take("sat");
  decoder.take("rn");
}

void finishDecode(Decoder &decoder, Handler handler, unsigned operands) {
  if (!handler)
    decoder.unsupported("not for this type");
  decoder.instruction.execute = handler;
  takeOperands(decoder, operands);
}

int takeComparison(Decoder &decoder) {
  const int comparison = decoder.takeOneOf(
      {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (comparison < 0)
    decoder.unsupported("unknown comparison");
  return comparison;
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
    return finishDecode(
        decoder, add ? floatHandler<3, MultiplyAdd>(instruction.type) : floatHandler<2, Multiply>(instruction.type), operands);
  if (instruction.saturate || low + high + isWide != 1)
    decoder.unsupported("needs one of .lo, .hi, .wide");
  if (low)
    return finishDecode(decoder,
                        add ? integerHandler<3, MultiplyAdd>(instruction.type) : integerHandler<2, Multiply>(instruction.type),
                        operands);
  if (high)
    return finishDecode(
        decoder, add ? integerHandler<3, MultiplyHigh>(instruction.type) : integerHandler<2, MultiplyHigh>(instruction.type),
        operands);
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
  finishDecode(decoder, handler, operands);
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
        finishDecode(decoder, floatHandler<2, PropagateNan<Function>>(instruction.type), operands);
      else if (operands == 1)
        finishDecode(decoder, floatHandler<1, Function>(instruction.type), operands);
      else
        finishDecode(decoder, floatHandler<3, Function>(instruction.type), operands);
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
        finishDecode(decoder,
                     operands == 1 ? integerHandler<1, Function>(instruction.type)
                                   : integerHandler<2, Function>(instruction.type),
                     operands);
    }
    return true;
  };
  const bool subtract = decoder.is("sub") || decoder.is("subc"), takesCarry = decoder.is("addc") || decoder.is("subc");
  if (takesCarry || ((decoder.is("add") || subtract) && decoder.firstModifier() == "cc")) {
    instruction.simple.mode = subtract | takesCarry << 1 | decoder.take("cc") << 2;
    instruction.type = decoder.takeType();
    finishDecode(decoder, isInteger(instruction.type) && bitsOf(instruction.type) >= 32 ? addWithCarry : nullptr, 2);
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

bool decodeLogic(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  const int operation = decoder.is("and")   ? PredicateAnd
                        : decoder.is("or")  ? PredicateOr
                        : decoder.is("xor") ? PredicateXor
                        : decoder.is("not") ? PredicateNot
                                            : -1;
  if (operation < 0)
    return false;
  instruction.type = decoder.takeType();
  const unsigned operands = operation == PredicateNot ? 1 : 2;
  if (instruction.type == Type::Pred) {
    instruction.simple.mode = operation;
    finishDecode(decoder, predicateLogic, operands);
    return true;
  }
  const Handler handlers[] = {integerHandler<2, And>(instruction.type), integerHandler<2, Or>(instruction.type),
                              integerHandler<2, Xor>(instruction.type), integerHandler<1, Not>(instruction.type)};
  finishDecode(decoder, handlers[operation], operands);
  return true;
}

bool decodeBits(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (decoder.is("shl") || decoder.is("shr")) {
    instruction.simple.mode = decoder.is("shr");
    instruction.type = decoder.takeType();
    finishDecode(decoder, shift, 2);
    instruction.in[1] = decoder.source(2, Type::U32);
  } else if (decoder.is("shf")) {
    instruction.simple.mode = decoder.takeOneOf({"l", "r"});
    instruction.simple.flag = decoder.take("wrap");
    if (!instruction.simple.flag)
      decoder.take("clamp");
    instruction.type = decoder.takeType();
    finishDecode(decoder, funnelShift, 3);
  } else if (decoder.is("prmt")) {
    instruction.type = decoder.takeType();
    instruction.simple.mode = decoder.takeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1;
    finishDecode(decoder, permute, 3);
  } else if (decoder.is("bfe")) {
    instruction.type = decoder.takeType();
    finishDecode(decoder, extractBits, 3);
  } else if (decoder.is("bfi")) {
    instruction.type = decoder.takeType();
    finishDecode(decoder, insertBits, 4);
  } else if (decoder.is("popc") || decoder.is("clz") || decoder.is("brev") || decoder.is("bfind")) {
    instruction.simple.mode = decoder.is("popc")         ? Population
                              : decoder.is("clz")        ? LeadingZeros
                              : decoder.is("brev")       ? Reverse
                              : decoder.take("shiftamt") ? FindHighestShift
                                                         : FindHighest;
    instruction.type = decoder.takeType();
    finishDecode(decoder, countBits, 1);
  } else if (decoder.is("lop3")) {
    instruction.type = decoder.takeType();
    finishDecode(decoder, logic3, 4);
  } else if (decoder.is("dp4a")) {
    const Type a = decoder.takeType(), b = decoder.takeType();
    instruction.simple.mode = isSigned(a) | isSigned(b) << 1;
    instruction.type = Type::B32;
    finishDecode(decoder, dotProduct4, 3);
  } else if (decoder.is("cnot")) {
    instruction.type = decoder.takeType();
    finishDecode(decoder, integerHandler<1, CNot>(instruction.type), 1);
  } else if (decoder.is("rem")) {
    instruction.type = decoder.takeType();
    finishDecode(decoder, integerHandler<2, Remainder>(instruction.type), 2);
  } else if (decoder.is("sad")) {
    instruction.type = decoder.takeType();
    finishDecode(decoder, integerHandler<3, Sad>(instruction.type), 3);
  } else {
    return false;
  }
  return true;
}

bool decodeComparison(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  if (decoder.is("setp")) {
    const int comparison = takeComparison(decoder);
    const int boolean = decoder.takeOneOf({"and", "or", "xor"}) + 1;
    instruction.simple.mode = comparison + 32 * boolean;
    instruction.flushSubnormals = decoder.take("ftz");
    instruction.type = decoder.takeType();
    if (bitsOf(instruction.type) == 32 && (instruction.type == Type::F16x2 || instruction.type == Type::BF16x2))
      decoder.unsupported("packed comparisons are not modelled");
    finishDecode(decoder, setPredicate, boolean ? 3 : 2);
  } else if (decoder.is("set")) {
    instruction.simple.mode = takeComparison(decoder);
    instruction.flushSubnormals = decoder.take("ftz");
    instruction.type = decoder.takeType();
    instruction.simple.from = decoder.takeType();
    if (bitsOf(instruction.type) != 32 || instruction.type == Type::F16x2 || instruction.type == Type::BF16x2)
      decoder.unsupported("not for this type");
    finishDecode(decoder, setValue, 2);
  } else if (decoder.is("selp")) {
    instruction.type = decoder.takeType();
    finishDecode(decoder, select, 3);
  } else if (decoder.is("slct")) {
    instruction.flushSubnormals = decoder.take("ftz");
    instruction.type = decoder.takeType();
    instruction.simple.from = decoder.takeType();
    finishDecode(decoder, selectBySign, 3);
  } else if (decoder.is("testp")) {
    instruction.simple.mode = decoder.takeOneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    instruction.type = decoder.takeType();
    if (instruction.simple.mode < 0)
      decoder.unsupported();
    finishDecode(decoder, testFloat, 1);
  } else if (decoder.is("mov") && decoder.statement.modifiers.size() == 1 && decoder.firstModifier() == "pred") {
    decoder.take("pred");
    instruction.type = Type::Pred;
    instruction.simple.mode = PredicateMove;
    finishDecode(decoder, predicateLogic, 1);
  } else {
    return false;
  }
  return true;
}

} // namespace

bool tw::ptxemu::decodeArithmetic(Decoder &decoder) {
  if (decoder.is("mul") || decoder.is("mad")) {
    decodeMultiply(decoder, decoder.is("mad"));
    return true;
  }
  return decodeNumber(decoder) || decodeLogic(decoder) || decodeBits(decoder) || decodeComparison(decoder);
}
