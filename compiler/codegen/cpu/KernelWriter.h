//===- KernelWriter.h - The function a kernel becomes -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What writing a kernel's loops needs wherever they come from: pointers from
// the table, buffers in the workspace, copies, and a second function that packs
// constants once.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_KERNELWRITER_H
#define COMPILER_CODEGEN_CPU_KERNELWRITER_H

#include "compiler/codegen/cpu/KernelEmitter.h"
#include "compiler/codegen/cpu/MemoryPlan.h"
#include "compiler/codegen/cpu/TensorView.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tw::cpu {

class KernelWriter {
public:
  KernelWriter(mlir::func::FuncOp kernel, mlir::ModuleOp module, llvm::StringRef symbol, const NestOptions &options);
  KernelWriter(const KernelWriter &) = delete;

  /// The elements of a tensor that has been computed.
  TensorView viewOf(mlir::Value tensor) const;
  /// Pointer to the view's first element, at the insertion point; keeps its buffer alive until here.
  mlir::Value pointerTo(const TensorView &view);
  /// A buffer in the workspace with `slackBytes` behind it that may be read.
  TensorView newBuffer(mlir::RankedTensorType type, int64_t slackBytes = 0);
  /// Memory for packed constants. `fill` writes them, in the function that runs once; the view it is given and the one returned
  /// are the same memory seen from the two functions.
  std::vector<TensorView> newPackedConstants(llvm::ArrayRef<mlir::RankedTensorType> types,
                                             llvm::function_ref<void(llvm::ArrayRef<TensorView>)> fill);
  /// A constant of the kernel, seen from the function that is being written.
  TensorView constantView(mlir::ElementsAttr elements);

  /// Writes every element of `to` from the one of `from` with the same index; `body`, if given, computes it. A `from` without
  /// elements leaves `to` as it is.
  void copy(mlir::Location loc, const TensorView &from, const TensorView &to, mlir::Block *body = nullptr);
  /// Emits loops that may run at the same time as those since the last wait().
  void emit(mlir::Location loc, LoopNest nest);
  /// Emits nests one after the other for blocks of `rows` rows (emitRowBlocks()).
  void emitRows(mlir::Location loc, llvm::ArrayRef<LoopNest> nests, llvm::ArrayRef<int> rowLoops, int64_t rows);
  /// Lets what follows see what all loops before have written.
  void wait();

  /// The operand of `op` as seen from the loops of a nest; `loops` maps the loops of `op` to loops of the nest or -1.
  llvm::Expected<NestOperand> operandOf(mlir::linalg::GenericOp op, const TensorView &view, mlir::AffineMap map,
                                        llvm::ArrayRef<int> loops, unsigned loopCount);

  /// A body that lives as long as this.
  mlir::Block *makeBody(mlir::TypeRange arguments,
                        llvm::function_ref<mlir::Value(mlir::OpBuilder &, mlir::Location, mlir::ValueRange)> build);

  mlir::OpBuilder b;
  const NestOptions &options;

protected:
  /// Puts in what is only known at the end: table indices, offsets of buffers.
  void finish();
  mlir::Value tablePointer(unsigned index);

  mlir::func::FuncOp kernel;
  EmittedKernel result;
  llvm::DenseMap<mlir::Value, TensorView> views;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  /// Counts the ops of the kernel, as time for the lifetimes of buffers.
  int64_t step = 0;

private:
  /// A function over the table of pointers, and the last of the pointers it reads at its start.
  struct Function {
    mlir::Block *entry = nullptr;
    mlir::Operation *lastTableLoad = nullptr;
    /// Who runs the loops; null where one thread runs them alone.
    mlir::Value worker;
    /// Shared loops since the last wait.
    unsigned sharedLoops = 0;
    llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
  };
  /// A place in the table whose index is known once all constants are: it counts from `base`.
  struct LateIndex {
    enum Base { Packed, Workspace } base;
    unsigned offset;
    mlir::LLVM::GEPOp place;
  };

  Function addFunction(llvm::StringRef name, bool hasWorker);
  mlir::Value tablePointer(LateIndex::Base base, unsigned offset);

  mlir::ModuleOp module;
  std::string symbol;
  /// The kernel, what packs its constants, and the one of them that is being written.
  Function code, packing;
  Function *current = nullptr;
  std::vector<LateIndex> lateIndices;
  /// Table index of a constant among the constants.
  llvm::DenseMap<mlir::Attribute, unsigned> constantIndices;
  std::vector<std::unique_ptr<mlir::Block>> bodies;
  std::vector<PlannedBuffer> buffers;
  /// The ops that hold the buffers' offsets.
  std::vector<mlir::LLVM::ConstantOp> bufferOffsets;
  mlir::Value workspace;
};

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_KERNELWRITER_H
