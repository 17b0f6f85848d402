//===- Outline.h - Kernels of a hand-written module -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_OUTLINE_H
#define COMPILER_PIPELINE_OUTLINE_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tw::pipeline {

/// Gives linalg text the form that lowering leaves: every linalg op of @main becomes a kernel function of its own, with the fills,
/// paddings and constants before it, for the target of this name; calls, reshapes and constants stay. Named ops become generic. Modules that have that form
/// already are left alone. Errors name an op of @main that is none of these, and its place.
llvm::Error outlineKernels(mlir::ModuleOp module, llvm::StringRef target);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_OUTLINE_H
