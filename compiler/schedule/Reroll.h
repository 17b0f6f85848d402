//===- Reroll.h - Hardware loops for repeated tile code ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code generation writes every tile out. Copies that differ only in addresses that
// advance regularly become the iterations of a hardware loop, so that a layer's code
// does not grow with its number of tiles. What is executed stays the same to the bit.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_REROLL_H
#define COMPILER_SCHEDULE_REROLL_H

#include "compiler/schedule/TileProgram.h"

#include <functional>

namespace tw::schedule {

/// An instruction of the final stream, or a hardware loop: then `instruction` is isa::Loop and `body` what it repeats.
struct Code {
  isa::Instruction instruction;
  /// Index into the program's layers.
  uint32_t layer = 0;
  std::vector<Code> body;
};

/// Words of the code, bodies included.
uint64_t wordsOf(const std::vector<Code> &code);

/// The stream of a synchronised program as it was written.
std::vector<Code> codeOf(const TileProgram &program);

/// A stream that executes the same instructions in the same order as codeOf(program), in fewer words if there is a way. Loops
/// keep to loop_buffer_words, to the nesting depth of the instruction set, and to one layer.
std::vector<Code> reroll(const TileProgram &program, const timing::MachineParams &machine);

/// Calls `visit` on every instruction that is executed, in order, resolved as isa::resolve() does.
void execute(const std::vector<Code> &code, const std::function<void(const isa::Instruction &, uint32_t layer)> &visit);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_REROLL_H
