//===- Diagnostics.h - Errors of MLIR as text --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes can only fail with a text. One that begins with kInternal is about a
// mistake of the compiler, any other about what it was given.
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PIPELINE_DIAGNOSTICS_H
#define COMPILER_PIPELINE_DIAGNOSTICS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace tw::pipeline {

inline constexpr llvm::StringLiteral kInternal = "internal: ";

/// The module in the MLIR text of a file. Errors: what MLIR's parser and
/// verifiers say, and text that is nested deeper than their stack allows.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> readText(mlir::MLIRContext &context, llvm::StringRef path);

/// While it lives, errors of the context are collected instead of printed.
class DiagnosticText {
public:
  explicit DiagnosticText(mlir::MLIRContext *context);
  /// `node: message` lines; empty if nothing was reported.
  std::string str() const { return text; }

private:
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_DIAGNOSTICS_H
