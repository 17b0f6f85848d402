//===- HostKernels.h - Kernels that are evaluated ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What no code is made for: ONNX nodes that compiler/operators computes when
// they are called.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_HOSTKERNELS_H
#define COMPILER_PIPELINE_HOSTKERNELS_H

#include "compiler/frontend/HostTensor.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tw::operators {
class Evaluator;
} // namespace tw::operators

namespace tw::pipeline {

class HostKernels {
public:
  HostKernels();
  HostKernels(HostKernels &&);
  ~HostKernels();

  /// Takes the kernels with graph::kEvaluatedAttr out of a lowered module.
  static llvm::Expected<HostKernels> takeFrom(mlir::ModuleOp module);

  bool has(llvm::StringRef kernel) const;
  /// As KernelLibrary::run(). Errors say what the node found wrong with its inputs, or that its results are not of the types that are
  /// known of them.
  llvm::Error run(llvm::StringRef kernel, llvm::ArrayRef<frontend::HostTensor> inputs,
                  std::vector<frontend::HostTensor> &outputs);
  /// As KernelLibrary::evaluatorOf().
  operators::Evaluator *evaluatorOf(llvm::StringRef kernel);

private:
  struct Kernel;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_HOSTKERNELS_H
