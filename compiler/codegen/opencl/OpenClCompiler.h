//===- OpenClCompiler.h - Linalg as kernels in OpenCL C ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_OPENCL_OPENCLCOMPILER_H
#define COMPILER_CODEGEN_OPENCL_OPENCLCOMPILER_H

#include "compiler/codegen/opencl/Program.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace tw::opencl {

/// Compiles a module in the form that lowering to linalg leaves: kernel functions and a @main of calls, reshapes and constants. The module is
/// not changed. Errors name the kernel, the op that has no form, and its place.
llvm::Expected<Program> compileForOpenCl(mlir::ModuleOp module, DeviceType type = DeviceType::Gpu);

} // namespace tw::opencl

#endif // COMPILER_CODEGEN_OPENCL_OPENCLCOMPILER_H
