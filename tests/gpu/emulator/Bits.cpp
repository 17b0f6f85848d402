//===- Bits.cpp - Logic, shifts and fields of bits ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/emulator/Decoder.h"

#include <algorithm>

using namespace tw::ptxemu;

namespace {

enum LogicOperation { LogicAnd, LogicOr, LogicXor, LogicNot, LogicCNot };

Step logic(Thread &thread, const Instruction &instruction) {
  const unsigned bits = bitsOf(instruction.type);
  const uint64_t a = zeroExtend(thread.read(instruction.in[0]), bits);
  const uint64_t b = instruction.simple.mode < LogicNot ? thread.read(instruction.in[1]) : 0;
  const uint64_t results[] = {a & b, a | b, a ^ b, ~a, a == 0};
  thread.write(instruction.destination, zeroExtend(results[instruction.simple.mode], bits));
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

} // namespace

bool tw::ptxemu::decodeBits(Decoder &decoder) {
  Instruction &instruction = decoder.instruction;
  const int operation = decoder.is("and")    ? LogicAnd
                        : decoder.is("or")   ? LogicOr
                        : decoder.is("xor")  ? LogicXor
                        : decoder.is("not")  ? LogicNot
                        : decoder.is("cnot") ? LogicCNot
                                             : -1;
  if (operation >= 0) {
    instruction.simple.mode = operation;
    instruction.type = decoder.takeType();
    decoder.finish(isInteger(instruction.type) ? logic : nullptr, operation < LogicNot ? 2 : 1);
  } else if (decoder.is("shl") || decoder.is("shr")) {
    instruction.simple.mode = decoder.is("shr");
    instruction.type = decoder.takeType();
    decoder.finish(shift, 2);
    instruction.in[1] = decoder.source(2, Type::U32);
  } else if (decoder.is("shf")) {
    instruction.simple.mode = decoder.takeOneOf({"l", "r"});
    instruction.simple.flag = decoder.take("wrap");
    if (!instruction.simple.flag)
      decoder.take("clamp");
    instruction.type = decoder.takeType();
    decoder.finish(funnelShift, 3);
  } else if (decoder.is("prmt")) {
    instruction.type = decoder.takeType();
    instruction.simple.mode = decoder.takeOneOf({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1;
    decoder.finish(permute, 3);
  } else if (decoder.is("bfe")) {
    instruction.type = decoder.takeType();
    decoder.finish(extractBits, 3);
  } else if (decoder.is("bfi")) {
    instruction.type = decoder.takeType();
    decoder.finish(insertBits, 4);
  } else if (decoder.is("popc") || decoder.is("clz") || decoder.is("brev") || decoder.is("bfind")) {
    instruction.simple.mode = decoder.is("popc")         ? Population
                              : decoder.is("clz")        ? LeadingZeros
                              : decoder.is("brev")       ? Reverse
                              : decoder.take("shiftamt") ? FindHighestShift
                                                         : FindHighest;
    instruction.type = decoder.takeType();
    decoder.finish(countBits, 1);
  } else if (decoder.is("lop3")) {
    instruction.type = decoder.takeType();
    decoder.finish(logic3, 4);
  } else if (decoder.is("dp4a")) {
    const Type a = decoder.takeType(), b = decoder.takeType();
    instruction.simple.mode = isSigned(a) | isSigned(b) << 1;
    instruction.type = Type::B32;
    decoder.finish(dotProduct4, 3);
  } else {
    return false;
  }
  return true;
}
