//===- Partition.h - Which kernels run where --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_PARTITION_H
#define RUNTIME_PARTITION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tw::runtime {

/// A run of kernels for the accelerator, one kernel for the CPU, or neither: then output 0 is input 0 under another shape.
struct Segment {
  /// The kernels with a @main of their own; null unless they are for the accelerator.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Only for the CPU: name of the kernel's function, why it is there, and the names of its nodes.
  std::string kernel, reason;
  std::vector<std::string> nodes;
  /// Indices into Partition::values.
  std::vector<unsigned> inputs, outputs;
};

struct Partition {
  /// Tensors that cross segments, network inputs and outputs among them.
  std::vector<mlir::RankedTensorType> values;
  std::vector<unsigned> inputs, outputs;
  std::vector<Segment> segments;
};

/// Whether any kernel of a lowered module is for the CPU.
bool hasCpuKernels(mlir::ModuleOp module);

/// Splits the @main of a lowered module (calls, reshapes, constants) into segments, each as long as the order of calls allows.
llvm::Expected<Partition> partition(mlir::ModuleOp module);

} // namespace tw::runtime

#endif // RUNTIME_PARTITION_H
