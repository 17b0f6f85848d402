//===- Directives.h - Ops of schedule files ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_DIRECTIVES_DIRECTIVES_H
#define COMPILER_DIRECTIVES_DIRECTIVES_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/IR/TransformTypes.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "compiler/directives/Directives.h.inc"

namespace tw::directives {

/// Adds the ops to the transform dialect.
void registerDirectives(mlir::DialectRegistry &registry);

} // namespace tw::directives

#endif // COMPILER_DIRECTIVES_DIRECTIVES_H
