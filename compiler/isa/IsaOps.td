//===- IsaOps.td - The isa dialect -------------------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One op per instruction, one attribute per field; the ops themselves are
// generated from isa/Isa.td.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_ISA_ISAOPS_TD
#define COMPILER_ISA_ISAOPS_TD

include "mlir/IR/OpBase.td"

def Isa_Dialect : Dialect {
  let name = "isa";
  let cppNamespace = "::tw::isa";
  let summary = "the machine's instructions, one op each";
  let description = [{
    A block of isa ops is a program in program order: `isa.loop` repeats the words that follow it, as the instruction does, and
    has no region. Attributes are the fields of the encoding under their own names; an absent attribute is 0, and a short array
    is filled with 0. The fields of odometer levels are arrays over the levels (`level_count`, `level_stride_a`, ...), all of
    the same length.

    The text of an op is the assembler's, in parentheses:
    `isa.load(unit=1 dram_address=0x1000 counts=[64,4,1,1,1] wait=[3:1])`.
  }];
}

class Isa_InstructionOp<string mnemonic> : Op<Isa_Dialect, mnemonic> {
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDefinition = [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser, ::mlir::OperationState &state) {
      return ::tw::isa::parseInstructionOp(parser, state);
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) { ::tw::isa::printInstructionOp(printer, getOperation()); }
    ::mlir::LogicalResult $cppClass::verify() { return ::tw::isa::verifyInstructionOp(getOperation()); }
  }];
}

include "compiler/isa/IsaInstructions.td"

#endif // COMPILER_ISA_ISAOPS_TD
