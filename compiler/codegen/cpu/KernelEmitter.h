//===- KernelEmitter.h - A kernel function as loops -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns one function of linalg on tensors into a function over raw memory. A
// tensor is written exactly once and never in place, so buffers follow from the
// SSA values alone: no alias analysis and no copies but those the program asks for.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_KERNELEMITTER_H
#define COMPILER_CODEGEN_CPU_KERNELEMITTER_H

#include "compiler/codegen/cpu/LoopNest.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace tw::cpu {

/// The loops of one kernel. The function takes two pointers: to a table of pointers (inputs, outputs, constants, packed constants,
/// workspace), and to the tw_worker (team/Team.h) that runs it, which is not used where NestOptions::threads is 1.
struct EmittedKernel {
  /// Elements of these become memory that the executable owns, in table order.
  std::vector<mlir::ElementsAttr> constants;
  /// Whether only the function that packs constants reads them.
  std::vector<bool> onlyPacked;
  /// Sizes of constants in the order the loops walk them. If there are any, a second function, named by packSymbolOf(),
  /// fills them from the constants; it takes the same table and no worker, and is called once, before the kernel.
  std::vector<int64_t> packedBytes;
  int64_t workspaceBytes = 0;
};

/// Name of the function that packs the constants of kernel function `symbol`.
std::string packSymbolOf(llvm::StringRef symbol);

/// Rewrites a kernel into the ops that emitKernel understands: named linalg ops become generic, chains of elementwise ops
/// become one.
llvm::Error prepareKernel(mlir::func::FuncOp kernel);

/// Emits `kernel` as function `symbol` into `module`. Fails, naming the op and its place, on anything but the closed list of
/// ops that kernels may hold.
llvm::Expected<EmittedKernel> emitKernel(mlir::func::FuncOp kernel, mlir::ModuleOp module, llvm::StringRef symbol,
                                         const NestOptions &options);

/// An error at the place of an op: `file:line:column` or the name of the ONNX node.
llvm::Error errorAt(mlir::Operation *op, const llvm::Twine &message);

/// Where the compiler itself has the elements in the form storageType() prescribes; null if nowhere.
const char *storedElements(mlir::ElementsAttr elements);

/// Copies the elements into `memory` in the form storageType() prescribes.
void copyElements(mlir::ElementsAttr elements, char *memory);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_KERNELEMITTER_H
