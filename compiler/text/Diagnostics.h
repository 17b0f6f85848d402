//===- Diagnostics.h - Errors of MLIR as text --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes can only fail with a text. One that begins with kInternal is about a
// mistake of the compiler, any other about what it was given.
//===----------------------------------------------------------------------===//

#ifndef COMPILER_TEXT_DIAGNOSTICS_H
#define COMPILER_TEXT_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace tw::text {

inline constexpr llvm::StringLiteral kInternal = "internal: ";

/// While it lives, errors of the context are collected instead of printed.
class DiagnosticText {
public:
  /// `isTheUsers`: what is wrong is MLIR text of a user, who is told MLIR's own words. Else what a verifier says about the graph dialect is
  /// put in words of ONNX, and what it says about another one is a mistake of the compiler.
  explicit DiagnosticText(mlir::MLIRContext *context, bool isTheUsers = false);
  /// `place: message` lines; empty if nothing was reported.
  std::string str() const { return text; }

private:
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace tw::text

#endif // COMPILER_TEXT_DIAGNOSTICS_H
