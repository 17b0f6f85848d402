//===- Directives.h - Ops of schedule files ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_DIRECTIVES_DIRECTIVES_H
#define COMPILER_DIRECTIVES_DIRECTIVES_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Transform/IR/TransformDialect.h"
#include "mlir/Dialect/Transform/IR/TransformTypes.h"
#include "mlir/Dialect/Transform/Interfaces/MatchInterfaces.h"
#include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "compiler/directives/Directives.h.inc"

namespace tw::directives {

/// Steps of one schedule file: a network of a thousand kernels takes some twenty for each.
inline constexpr uint64_t kMostSteps = 200'000;

/// Adds the ops to the transform dialect.
void registerDirectives(mlir::DialectRegistry &registry);

/// Puts a StepOp before every op that the interpreter applies in `root`.
void insertSteps(mlir::Operation *root);

} // namespace tw::directives

#endif // COMPILER_DIRECTIVES_DIRECTIVES_H
