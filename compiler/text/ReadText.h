//===- ReadText.h - MLIR text that a user wrote -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MLIR's parser trusts its input: some kilobytes of text can take all of its
// stack, of its memory or of the user's time. A model or a schedule file is
// first parsed and verified by a child process with limits for all three, and
// what passes there is parsed again here.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_TEXT_READTEXT_H
#define COMPILER_TEXT_READTEXT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"

namespace tw::text {

using TextCheck = llvm::function_ref<mlir::LogicalResult(mlir::ModuleOp)>;

/// The module in the MLIR text of a file of at most `most` bytes. Errors:
/// files::readFile()'s, what MLIR's parser and
/// verifiers say, bytecode, text that is nested too deep, types and attributes
/// that would be too large if written out, shapes with too many dimensions or
/// elements, what `check` reports, and whatever else takes more than the
/// limits. `check` sees what is parsed and not verified.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> readText(mlir::MLIRContext &context, llvm::StringRef path, uint64_t most,
                                                           TextCheck check = nullptr);

/// The same of a text in memory; `name` stands for the file in errors. Precondition: a null character follows the text.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> parseText(mlir::MLIRContext &context, llvm::StringRef text,
                                                            llvm::StringRef name, TextCheck check = nullptr);

} // namespace tw::text

#endif // COMPILER_TEXT_READTEXT_H
