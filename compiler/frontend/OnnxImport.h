//===- OnnxImport.h - ONNX to the graph dialect -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads opsets 7 to 28 of ONNX, older ones as far as operators have not
// changed, and operators of ONNX Runtime (com.microsoft). Shapes are inferred
// here, so that neither the installed onnx library's age nor operators it does
// not know matter. What depends on constants only is computed here; everything
// else becomes one graph op per node or a short chain of them, whose location
// is the node's name, or a graph.fallback, which the host computes.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_ONNXIMPORT_H
#define COMPILER_FRONTEND_ONNXIMPORT_H

#include "compiler/frontend/ImportOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace tw::frontend {

/// Imports the model in `path`.
/// Errors: `path: node "name" (OpType): what was found, what was allowed`. A node that no target implements becomes a graph.fallback; where
/// the shape of a result is then unknown, all such nodes are listed.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnxFile(mlir::MLIRContext &context, llvm::StringRef path,
                                                                 const ImportOptions &options = {});

/// Imports a serialised ModelProto; `file` is named in errors. Whatever the bytes are, the result is a verified module or
/// an error.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(mlir::MLIRContext &context, llvm::StringRef bytes,
                                                             llvm::StringRef file, const ImportOptions &options = {});

/// How an operator may become ops of the graph dialect, "domain:Type".
struct ImportedOperator {
  std::string name;
  bool isKernel = false; ///< some form of it does; else the host computes it
};
/// All operators that are read, by name.
std::vector<ImportedOperator> importedOperators();

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_ONNXIMPORT_H
