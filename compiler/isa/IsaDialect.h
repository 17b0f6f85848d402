//===- IsaDialect.h - Instructions as ops -----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The isa dialect mirrors isa/Isa.td one to one; these functions carry an
// instruction across, driven by the same field tables as the encoder.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_ISA_ISADIALECT_H
#define COMPILER_ISA_ISADIALECT_H

#include "isa/Isa.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

#include "compiler/isa/IsaOpsDialect.h.inc"

#define GET_OP_CLASSES
#include "compiler/isa/IsaOps.h.inc"

namespace tw::isa {

/// The op of an instruction, at the builder's insertion point. Fields that are
/// 0 get no attribute.
mlir::Operation *build(mlir::OpBuilder &builder, mlir::Location location, const Instruction &instruction);

/// The instruction of an op of this dialect. Precondition: the op verifies.
Instruction toInstruction(mlir::Operation *op);

/// True for ops of this dialect.
bool isInstruction(mlir::Operation *op);

// What every op's parser, printer and verifier do.
mlir::ParseResult parseInstructionOp(mlir::OpAsmParser &parser, mlir::OperationState &state);
void printInstructionOp(mlir::OpAsmPrinter &printer, mlir::Operation *op);
mlir::LogicalResult verifyInstructionOp(mlir::Operation *op);

} // namespace tw::isa

#endif // COMPILER_ISA_ISADIALECT_H
