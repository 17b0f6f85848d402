//===- RandomCode.h - Programs for the sequencer ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef TESTS_RTL_SEQUENCER_RANDOMCODE_H
#define TESTS_RTL_SEQUENCER_RANDOMCODE_H

#include "isa/Isa.h"

#include <random>

namespace tw::test {

/// What may be wrong in a program.
enum class Damage : uint8_t {
  None,        ///< legal instructions and loops, a halt at the end
  Instruction, ///< one instruction has other bits or another value in a field
  Structure    ///< loops, lengths and the end may be anything
};

/// Legal instructions whose addresses often lie at an edge of a memory or span, in loops.
class RandomCode {
public:
  RandomCode(const timing::MachineParams &machine, std::mt19937_64 &random) : machine(machine), random(random) {}

  /// About `length` instructions.
  std::vector<isa::Word> make(unsigned length, Damage damage);
  /// A legal instruction that an engine executes.
  isa::Instruction instruction(isa::Opcode opcode);

private:
  int64_t in(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  bool chance(unsigned percent) { return random() % 100 < percent; }
  template <typename T> T pick(std::initializer_list<T> values) { return values.begin()[random() % values.size()]; }

  isa::Instruction candidate(isa::Opcode opcode);
  void header(isa::Instruction &instruction, unsigned extents);
  void levels(isa::Instruction &instruction, int64_t a, int64_t b, int64_t c, int64_t d);
  void box(isa::Load &load);
  void vector(isa::Vector &vector);
  int64_t address(int64_t memory, int64_t unit);
  int64_t capacity(int64_t memory) const;
  int64_t span(int64_t width, std::initializer_list<std::pair<int64_t, int64_t>> walks);
  void body(std::vector<isa::Word> &out, unsigned length, unsigned depth, Damage damage);
  void append(std::vector<isa::Word> &out, bool damaged);

  const timing::MachineParams &machine;
  std::mt19937_64 &random;
};

} // namespace tw::test

#endif // TESTS_RTL_SEQUENCER_RANDOMCODE_H
