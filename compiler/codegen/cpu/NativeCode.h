//===- NativeCode.h - From loops to machine code ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_NATIVECODE_H
#define COMPILER_CODEGEN_CPU_NATIVECODE_H

#include "compiler/codegen/cpu/CpuMachine.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tw::cpu {

/// Makes LLVM and the context fit for what compileToObject creates. Must run before several threads use the context.
void prepareCodegen(mlir::MLIRContext &context);

/// Lowers a module of scf, arith, math, vector and llvm ops to LLVM IR, optimised for `machine`. Destroys the module's contents.
/// May run on several modules of one MLIR context at once, each with an LLVM context of its own.
llvm::Expected<std::unique_ptr<llvm::Module>> compileToIr(mlir::ModuleOp module, llvm::LLVMContext &context,
                                                          const CpuMachine &machine, unsigned optLevel);

/// Makes LLVM IR that is not for any processor yet IR for `machine`, and optimises it.
llvm::Error optimiseFor(llvm::Module &code, const CpuMachine &machine, unsigned optLevel);

/// Machine code, or its text, of what optimiseFor() has left. Destroys the module's contents.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> emitCode(llvm::Module &code, const CpuMachine &machine, unsigned optLevel,
                                                             llvm::CodeGenFileType type);

/// compileToIr() and emitCode(): an object file.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> compileToObject(mlir::ModuleOp module, const CpuMachine &machine,
                                                                    unsigned optLevel);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_NATIVECODE_H
