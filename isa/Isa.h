//===- Isa.h - Instructions as values, words and text -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One instruction in its three forms. Bit positions and names come from the
// generated field tables; no code here knows an instruction by name.
//===----------------------------------------------------------------------===//
#ifndef ISA_ISA_H
#define ISA_ISA_H

#include "isa/Diagnostic.h"
#include "isa/IsaStructs.h" // generated from isa/Isa.td
#include "isa/timing/MachineParams.h"

#include <array>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace tw::isa {

/// One instruction word; bit i of the word is bit i % 64 of element i / 64.
using Word = std::array<uint64_t, kWordBits / 64>;
inline constexpr unsigned kWordBytes = kWordBits / 8;

struct Instruction {
  Header header;
  /// Levels from header.num_levels on are all 0.
  std::array<Level, kMaxLevels> levels{};
  Operands operands;

  Instruction() = default;
  /// From Operands or any of its alternatives.
  template <typename T, typename = std::enable_if_t<std::is_constructible_v<Operands, T>>>
  Instruction(const T &operands) : operands(operands) {}

  Opcode opcode() const {
    return std::visit([](const auto &o) { return o.kOpcode; }, operands);
  }
  const InstructionInfo &info() const { return *findInstruction(uint64_t(opcode())); }
  /// The class of the engine that executes it.
  timing::EngineKind engine() const { return timing::EngineKind(info().engine); }
  /// Length in words: operand words and two levels a word. header.words plays
  /// no part.
  unsigned words() const { return info().words + unsigned(header.num_levels + 1) / 2; }

  template <typename T> T &as() { return std::get<T>(operands); }
  template <typename T> const T &as() const { return std::get<T>(operands); }
  template <typename T> T *getIf() { return std::get_if<T>(&operands); }
  template <typename T> const T *getIf() const { return std::get_if<T>(&operands); }

  /// First byte of the operand struct, for the field tables.
  void *operandBase() {
    return std::visit([](auto &o) -> void * { return &o; }, operands);
  }
  const void *operandBase() const { return const_cast<Instruction *>(this)->operandBase(); }
};

/// The member that `field` describes, in the struct at `base`.
inline int64_t get(const FieldInfo &field, const void *base) {
  int64_t value;
  std::memcpy(&value, static_cast<const char *>(base) + field.offset, sizeof value);
  return value;
}
inline void set(const FieldInfo &field, void *base, int64_t value) {
  std::memcpy(static_cast<char *>(base) + field.offset, &value, sizeof value);
}
/// True if the encoding has this value: in range and, for an enumeration, one
/// of its cases.
bool fits(const FieldInfo &field, int64_t value);
/// What fits the field: "0 to 15", or the names of all cases.
std::string allowedValues(const FieldInfo &field);
/// "name" or "name[index]".
std::string nameOf(const FieldInfo &field);

/// True if the instruction can be encoded: every value fits its field and
/// levels beyond num_levels are 0. Opcode and words are set by encode() and not
/// looked at. On false `why`, if given, names the field, the value and what is
/// allowed.
bool fits(const Instruction &instruction, std::string *why = nullptr);

/// Appends the instruction's words. Precondition: fits(instruction).
void encode(const Instruction &instruction, std::vector<Word> &out);

struct Decoded {
  Instruction instruction;
  std::string error; ///< empty: the instruction is good
  explicit operator bool() const { return error.empty(); }
};
/// Reads one instruction of at most `available` words. header.opcode and
/// header.words hold what the words say. Errors: unknown opcode or enumeration
/// value, value above its limit, wrong length, truncated, reserved bits set.
Decoded decode(const Word *words, size_t available);

/// One line: `load unit=1 dram_address=0x1000 counts=[64,4,1,1,1] wait=[3:1]
/// levels=[{count=4 stride_b=256}]`. Fields and trailing array elements that
/// are 0 are left out. parse() gives back an equal instruction.
std::string print(const Instruction &instruction);

/// The reverse of print(); text from # on is a comment. Numbers may be decimal,
/// hexadecimal or, in unsigned 32-bit fields, a float with suffix f (its
/// binary32 pattern). Diagnostics carry `file`, `line` and the column, and
/// propose the nearest known name.
Result<Instruction> parse(std::string_view text, const std::string &file = "", unsigned line = 1);

/// Equal opcode, header (but for opcode and words), used levels and operands.
bool operator==(const Instruction &a, const Instruction &b);
inline bool operator!=(const Instruction &a, const Instruction &b) { return !(a == b); }

/// The known name nearest to `name`, or empty if none is near.
std::string nearestName(std::string_view name, const std::vector<std::string> &known);

/// Name of a case, or nullptr.
const char *caseName(const EnumerationInfo &enumeration, int64_t value);

} // namespace tw::isa

#endif // ISA_ISA_H
