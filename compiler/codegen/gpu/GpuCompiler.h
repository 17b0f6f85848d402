//===- GpuCompiler.h - Linalg as kernels for a GPU --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_GPUCOMPILER_H
#define COMPILER_CODEGEN_GPU_GPUCOMPILER_H

#include "compiler/codegen/gpu/Program.h"
#include "compiler/graph/Math.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tw::gpu {

struct GpuOptions {
  /// Fast: products of f32 are rounded to tf32.
  graph::Math math = graph::Math::Exact;
  Architecture architecture = Architecture::Sm90a;
  /// Of the GPU that the cost model is for; 0: an H100 SXM's, or for sm_80 an A100's.
  unsigned multiprocessors = 0;
  /// Variants of a step that the program keeps, for the one that runs it to choose from.
  unsigned mostVariants = 4;
  bool keepsLlvm = false; ///< Kernel::llvm, for people
};

/// Compiles a module in the form that lowering to linalg leaves: kernel functions and a @main of calls, reshapes and constants. The module is
/// not changed. Errors name the op that has no form on the GPU, and its place.
llvm::Expected<Program> compileForGpu(mlir::ModuleOp module, const GpuOptions &options = {});

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_GPUCOMPILER_H
