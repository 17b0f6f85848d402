//===- KernelCost.h - What a kernel to be costs -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_GRAPH_TRANSFORMS_KERNELCOST_H
#define COMPILER_GRAPH_TRANSFORMS_KERNELCOST_H

#include "compiler/graph/transforms/KernelTarget.h"
#include "mlir/IR/Operation.h"
#include <algorithm>

namespace tw::graph {

/// An estimate that ranks borders of kernels, long before tiles and plans are known. Cycles of each engine.
struct KernelCost {
  double array = 0, vector = 0, dram = 0;

  /// The engines work side by side.
  double cycles() const { return std::max({array, vector, dram}); }
};

/// The cost on `machine` of a kernel that holds `ops` and makes the results of `output`, one of these ops:
/// - array: each tile of weights takes a cycle for each row that passes it, and the time of a preload at least;
/// - vector: a cycle for as many elements of the result as the array has columns, and again for every two tensors more that it reads; a
///   window, a depthwise convolution or a reduction for the elements that it reads;
/// - DRAM: the bytes of the result and of every tensor that is read, constants among them. Of a contraction whose operands do not both stay
///   in the scratchpad one is read again for each tile of sums, in the order of tiles that reads least. Half of the scratchpad and half of
///   the accumulator are a tile's. The result and the other tensors that the kernel reads take their part of the room. A reduction of rows
///   wants tiles of whole rows.
KernelCost kernelCostOf(llvm::ArrayRef<mlir::Operation *> ops, mlir::Operation *output, const ArrayMachine &machine);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_KERNELCOST_H
