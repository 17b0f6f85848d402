//===- Decoder.h - What the families of instructions share ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the families of instructions share when a statement is decoded. Private to the emulator.
//===----------------------------------------------------------------------===//
#pragma once

#include "tests/gpu/emulator/Machine.h"

namespace tw::ptxemu {

class Decoder {
public:
  Decoder(const Kernel &kernel, const Statement &statement, Instruction &instruction)
      : kernel(kernel), statement(statement), instruction(instruction), left(statement.modifiers) {}

  bool is(const char *opcode) const { return statement.opcode == opcode; }
  /// True if the modifier is there; it then counts as understood.
  bool take(const std::string &modifier);
  /// The first of `modifiers` that is there, or -1.
  int takeOneOf(std::initializer_list<const char *> modifiers);
  /// The next modifier that names a type, in the order of the text.
  Type takeType();
  Type takeOptionalType();
  /// The first modifier that is left and begins with `prefix`, without it; empty if there is none.
  std::string takePrefixed(const std::string &prefix);
  Space takeSpace();
  /// Modifiers that change nothing here: scopes, orders, cache hints.
  void takeMemoryOrder();
  /// The first modifier of the text; empty if there is none.
  std::string firstModifier() const { return statement.modifiers.empty() ? "" : statement.modifiers.front(); }
  bool nothingLeft() const { return left.empty(); }
  const std::string &firstLeft() const { return left.front(); }

  size_t operandCount() const { return statement.operands.size(); }
  const Operand &operand(size_t index) const;
  bool has(size_t index) const { return index < statement.operands.size(); }
  Source source(size_t index, Type type) { return source(operand(index), type); }
  Source source(const Operand &operand, Type type) const;
  /// Register of a destination; -1 for `_`.
  int destination(size_t index) { return destination(operand(index)); }
  int destination(const Operand &operand) const;
  /// Sets the instruction's destination and the width that it is declared with.
  void setDestination(size_t index);
  std::vector<Source> sources(const Operand &operand, Type type) const;
  std::vector<int> destinations(const Operand &operand) const;
  /// Base and offset of an address operand.
  Source base(size_t index, int64_t &offset) const;
  int64_t constant(size_t index) const;

  /// Sets the handler, the destination and `operands` inputs of the instruction's type; null: not for this type.
  void finish(Handler handler, unsigned operands);

  [[noreturn]] void unsupported(const std::string &why = "") const;

  const Kernel &kernel;
  const Statement &statement;
  Instruction &instruction;

private:
  std::vector<std::string> left;
};

/// Each returns false for an opcode of another family.
bool decodePredicate(Decoder &decoder);
bool decodeArithmetic(Decoder &decoder);
bool decodeBits(Decoder &decoder);
bool decodeConversion(Decoder &decoder);
bool decodeControl(Decoder &decoder);
bool decodeMemory(Decoder &decoder);
bool decodeBarrier(Decoder &decoder);
bool decodeCopy(Decoder &decoder);
bool decodeWarp(Decoder &decoder);
bool decodeMma(Decoder &decoder);

} // namespace tw::ptxemu
