//===- Partition.h - Which kernels run where --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_PARTITION_H
#define COMPILER_PIPELINE_PARTITION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tw::pipeline {

class Target;

/// A run of kernels that one target compiles together, one kernel, or neither: then output 0 is input 0 under another shape.
struct Segment {
  const Target *target = nullptr; ///< null: a reshape
  /// The kernels of a run with a @main of their own; else null.
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// Of one kernel: name of its function, why it is there, and the names of its nodes.
  std::string kernel, reason;
  std::vector<std::string> nodes;
  /// Of one kernel: multiply-accumulates of contractions, else elements; see operationsOf().
  uint64_t operations = 0, macs = 0;
  /// Indices into Partition::values.
  std::vector<unsigned> inputs, outputs;
};

struct Partition {
  /// Tensors that cross segments, network inputs and outputs among them.
  std::vector<mlir::RankedTensorType> values;
  std::vector<unsigned> inputs, outputs;
  std::vector<Segment> segments;
};

/// Whether every kernel of a lowered module is for `target`.
bool isAllFor(mlir::ModuleOp module, const Target &target);

/// The kernels of a lowered module that are for `target`, without @main.
mlir::OwningOpRef<mlir::ModuleOp> kernelsFor(mlir::ModuleOp module, const Target &target);

/// Splits the @main of a lowered module (calls, reshapes, constants) into segments. Where there are kernels for several targets, calls are
/// taken in an order, as near to the given one as that allows, in which fewest runs of kernels are broken by kernels of other targets. A function that names no target is for `networks`, as are constants that @main holds; null: no target compiles networks, and such a module is an error.
llvm::Expected<Partition> partition(mlir::ModuleOp module, const Target *networks);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_PARTITION_H
