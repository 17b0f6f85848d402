//===- Kernel.h - Kernels as LLVM IR, and as PTX ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_CODEGEN_GPU_KERNEL_H
#define COMPILER_CODEGEN_GPU_KERNEL_H

#include "compiler/codegen/gpu/Program.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>

namespace tw::gpu {

/// An empty module for NVPTX.
std::unique_ptr<llvm::Module> createModule(llvm::LLVMContext &context);

/// A kernel without a body, for blocks of `threads`.
llvm::Function *createKernel(llvm::Module &module, llvm::StringRef name, llvm::ArrayRef<llvm::Type *> parameters,
                             unsigned threads);

/// These parameters, passed by value, are read where they lie: no copy in local memory.
void annotateInPlace(llvm::Function &kernel, llvm::ArrayRef<unsigned> parameters);

/// `if (condition) then() else otherwise()`; both leave the builder where they end.
void emitIf(llvm::IRBuilder<> &b, llvm::Value *condition, llvm::function_ref<void()> then,
            llvm::function_ref<void()> otherwise = nullptr);

/// `for (values = initial; condition(values); values = body(values))`. Returns the values behind the loop. `unrolled`:
/// iterations that LLVM is to write side by side, so that their loads run together.
llvm::SmallVector<llvm::Value *>
emitLoop(llvm::IRBuilder<> &b, const llvm::Twine &name, llvm::ArrayRef<llvm::Value *> initial,
         llvm::function_ref<llvm::Value *(llvm::ArrayRef<llvm::Value *>)> condition,
         llvm::function_ref<llvm::SmallVector<llvm::Value *>(llvm::ArrayRef<llvm::Value *>)> body, unsigned unrolled = 1);

/// The module as PTX text; the module is optimised in place. Errors: what LLVM's verifier says.
llvm::Expected<std::string> toPtx(llvm::Module &module, Architecture architecture);

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_KERNEL_H
