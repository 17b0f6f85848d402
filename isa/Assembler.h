//===- Assembler.h - Whole programs as text ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One line is an instruction (see print() in Isa.h), a directive, a comment
// from # on, or empty. NAME and TEXT are words or "quoted" with \" \\ \xHH.
//
//   .machine NAME                        the machine's name
//   .digests ARCHITECTURAL TIMING        its two fingerprints
//   .dram BYTES                          DRAM the program needs, from 0
//   .code ADDRESS                        DRAM address of the first word
//   .data ADDRESS [HEX ...]              a constant; HEX: bytes, two digits
//   each .bytes HEX ...                       more bytes of the last .data
//   .input NAME TYPE [EXTENT,...] ADDRESS    also .output; TYPE as i8, f32
//   .layer NAME [macs=N] [bound_cycles=N] [bound_by=TEXT] [nodes=[TEXT,...]]
//                                        a layer; what follows belongs to it
//   .in_layer INDEX                      what follows belongs to layer INDEX
//   .word ELEMENT ELEMENT ELEMENT ELEMENT    a raw instruction word, 64 bits
//                                        each, lowest first
//   loop count=N {                       body_words is counted up to the
//   }                                    line with the brace
//===----------------------------------------------------------------------===//
#ifndef ISA_ASSEMBLER_H
#define ISA_ASSEMBLER_H

#include "isa/Diagnostic.h"
#include "isa/Program.h"

#include <string>
#include <string_view>

namespace tw::isa {

/// Translates a program. With a `machine`, name and digests default to its own,
/// and every instruction is checked with illegal(). All faulty lines are
/// reported, as file:line:column. .dram defaults to the end of the last thing
/// placed, rounded up to 64.
Result<Program> assemble(std::string_view text, const std::string &fileName, const timing::MachineParams *machine = nullptr);

/// Text from which assemble() makes an equal program. Words that decode to no
/// instruction become .word lines.
std::string disassemble(const Program &program);

} // namespace tw::isa

#endif // ISA_ASSEMBLER_H
