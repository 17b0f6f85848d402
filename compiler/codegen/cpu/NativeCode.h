//===- NativeCode.h - From loops to machine code ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_NATIVECODE_H
#define COMPILER_CODEGEN_CPU_NATIVECODE_H

#include "compiler/codegen/cpu/HostMachine.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tw::cpu {

/// Makes LLVM and the context fit for what compileToObject creates. Must run before several threads use the context.
void prepareCodegen(mlir::MLIRContext &context);

/// Lowers a module of scf, arith, math, vector and llvm ops to an object file. Destroys the module's contents.
/// May run on several modules of one context at once.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> compileToObject(mlir::ModuleOp module, const HostMachine &machine,
                                                                    unsigned optLevel);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_NATIVECODE_H
