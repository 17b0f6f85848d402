//===- Predicates.cpp - Predicates, comparisons and what they select ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

using namespace tw::ptxemu;

namespace {

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

/// .ftz concerns f32 operands.
bool compare(int comparison, Type type, uint64_t a, uint64_t b, bool flush) {
  auto operand = [&](uint64_t bits) {
    const float value = bitCast<float>(uint32_t(bits));
    return flush ? flushToZero(value) : value;
  };
  switch (type) {
  case Type::F32:
    return compareValues(comparison, operand(a), operand(b));
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

int takeComparison(Decoder &decoder) {
  const int comparison = decoder.takeOneOf(
      {"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"});
  if (comparison < 0)
    decoder.unsupported("unknown comparison");
  return comparison;
}

/// and, or, xor, not and mov of predicates.
bool decodeLogic(Decoder &decoder) {
  if (decoder.statement.modifiers.size() != 1 || decoder.firstModifier() != "pred")
    return false;
  const int operation = decoder.is("and")   ? PredicateAnd
                        : decoder.is("or")  ? PredicateOr
                        : decoder.is("xor") ? PredicateXor
                        : decoder.is("not") ? PredicateNot
                        : decoder.is("mov") ? PredicateMove
                                            : -1;
  if (operation < 0)
    return false;
  decoder.instruction.type = decoder.takeType();
  decoder.instruction.simple.mode = operation;
  decoder.finish(predicateLogic, operation < PredicateNot ? 2 : 1);
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
    decoder.finish(setPredicate, boolean ? 3 : 2);
  } else if (decoder.is("set")) {
    instruction.simple.mode = takeComparison(decoder);
    instruction.flushSubnormals = decoder.take("ftz");
    instruction.type = decoder.takeType();
    instruction.simple.from = decoder.takeType();
    if (bitsOf(instruction.type) != 32 || instruction.type == Type::F16x2 || instruction.type == Type::BF16x2)
      decoder.unsupported("not for this type");
    decoder.finish(setValue, 2);
  } else if (decoder.is("selp")) {
    instruction.type = decoder.takeType();
    decoder.finish(select, 3);
  } else if (decoder.is("slct")) {
    instruction.flushSubnormals = decoder.take("ftz");
    instruction.type = decoder.takeType();
    instruction.simple.from = decoder.takeType();
    decoder.finish(selectBySign, 3);
  } else if (decoder.is("testp")) {
    instruction.simple.mode = decoder.takeOneOf({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
    instruction.type = decoder.takeType();
    if (instruction.simple.mode < 0)
      decoder.unsupported();
    decoder.finish(testFloat, 1);
  } else {
    return false;
  }
  return true;
}

} // namespace

bool tw::ptxemu::decodePredicate(Decoder &decoder) { return decodeLogic(decoder) || decodeComparison(decoder); }
