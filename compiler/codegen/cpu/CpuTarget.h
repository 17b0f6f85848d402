//===- CpuTarget.h - Linalg as native code ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles the kernels of a lowered module for the processor this runs on and
// runs them: the fallback for what the accelerator cannot do, and a second
// opinion on everything before it.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_CPUTARGET_H
#define COMPILER_CODEGEN_CPU_CPUTARGET_H

#include "compiler/codegen/cpu/Bundle.h"
#include "compiler/codegen/cpu/CpuMachine.h"
#include "compiler/frontend/HostTensor.h"
#include "compiler/graph/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace tw::cpu {

/// What is wrong with the values that a kernel is given, not with the kernel.
class ValueError : public llvm::ErrorInfo<ValueError> {
public:
  static char ID;
  explicit ValueError(std::string message) : message(std::move(message)) {}
  void log(llvm::raw_ostream &os) const override { os << message; }
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

private:
  std::string message;
};

struct CpuOptions {
  /// Threads that share the work of a kernel, this one included.
  unsigned threads = 1;
  /// Fast: products of f32 are products of bfloat16 where the processor has an instruction that sums them.
  graph::Math math = graph::Math::Exact;
  /// LLVM's optimisation level, 0 to 3.
  unsigned optLevel = 2;
  /// The processor that the code is for. What runs here may not have more than the processor that it runs on.
  CpuChoice processor;
  /// What the symbols of kernels begin with.
  std::string symbolPrefix = "tw_";
  /// Widest vector register to use, in bits; 0 means what the processor has.
  unsigned vectorBits = 0;
  /// Most products of bytes that one instruction may sum, 1, 2 or 4; 0 means what the processor has.
  unsigned integerProducts = 0;
};

/// Wall time of repeated runs on one set of inputs.
struct CpuTiming {
  unsigned runs = 0;
  double minSeconds = 0;
  double medianSeconds = 0;
  /// The least time of each kernel call, in the order of execution: kernel name, seconds.
  std::vector<std::pair<std::string, double>> kernels;
};

/// Native code with the memory it needs. Not reentrant: intermediate tensors live in one arena.
class CpuExecutable {
public:
  ~CpuExecutable();

  /// Runs @main. `inputs` match its arguments in number, element size and shape. `outputs` is resized to its results; an
  /// output that already has a fitting type and shape keeps them, so a caller can ask for uint8 where MLIR only knows i8; a
  /// result with the attribute `tilewright.unsigned` is uint8 anyway.
  llvm::Error run(llvm::ArrayRef<frontend::HostTensor> inputs, std::vector<frontend::HostTensor> &outputs);

  /// Runs one kernel by the name of its function, under the same rules.
  llvm::Error runKernel(llvm::StringRef name, llvm::ArrayRef<frontend::HostTensor> inputs,
                        std::vector<frontend::HostTensor> &outputs);

  /// Runs one kernel on dense row-major memory; nothing is copied. `inputs` and `outputs` hold as many pointers as the kernel
  /// has arguments and results, and outputs overlap nothing.
  llvm::Error runKernel(llvm::StringRef name, llvm::ArrayRef<const void *> inputs, llvm::ArrayRef<void *> outputs);

  /// Repeats run() at least `minRuns` times and for at least `minSeconds`, after one run that is not counted.
  llvm::Expected<CpuTiming> measure(llvm::ArrayRef<frontend::HostTensor> inputs, unsigned minRuns = 3, double minSeconds = 0.1);

  /// Names of the compiled kernels, in module order.
  std::vector<std::string> kernelNames() const;

private:
  friend class CpuCompiler;
  CpuExecutable();
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Compiles a module in the form that lowering to linalg leaves: private kernel functions, and a @main (optional) that calls
/// them. A @main with other ops than calls, reshapes and constants is compiled as a whole. The module is not changed.
/// Errors name the op that is not supported and its place.
llvm::Expected<std::unique_ptr<CpuExecutable>> compileForCpu(mlir::ModuleOp module, const CpuOptions &options = {});

/// Compiles a module as compileForCpu() does, and its @main, which it must have, as a library for C programs. `bundle` describes
/// the arguments and results of @main in their order. Nothing has to run on the processor that the code is for.
llvm::Expected<Bundle> compileBundle(mlir::ModuleOp module, const CpuOptions &options, const BundleOptions &bundle);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_CPUTARGET_H
