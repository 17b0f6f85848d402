//===- Scalars.h - Arithmetic on numbers, as LLVM IR ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_CODEGEN_GPU_SCALARS_H
#define COMPILER_CODEGEN_GPU_SCALARS_H

#include "compiler/codegen/gpu/Program.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"
#include <optional>

namespace tw::gpu {

/// Nothing for types that no kernel has.
std::optional<Element> elementOf(mlir::Type type);

/// A number of this type in a register; index is i32.
llvm::Type *scalarType(llvm::IRBuilder<> &b, mlir::Type type);

/// The one result of an op of arith or math on scalars; null for an op that has no form here. Functions are within 4 units in the last place
/// of float, erf within 2^-21.
llvm::Value *emitScalar(llvm::IRBuilder<> &b, mlir::Operation *op, llvm::ArrayRef<llvm::Value *> operands);
/// Whether emitScalar() has a form for it.
bool hasScalarForm(mlir::Operation *op);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_SCALARS_H
