//===- ChannelsLast.h - One layout for every value --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_CHANNELSLAST_H
#define COMPILER_GRAPH_TRANSFORMS_CHANNELSLAST_H

#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"

namespace tw::graph {

/// What layouts cost on a machine: estimates in cycles, for tensors that travel through DRAM.
struct LayoutCosts {
  ArrayMachine machine; ///< 0 rows: without an array

  /// A transpose takes this many times the cycles of a copy: the geometric mean of 77 transposes of scripts/bench-transposes.py.
  static constexpr double kTransposeOverCopy = 1.44;

  /// Of a kernel that does nothing but read and write so many bytes: DRAM's latency comes twice.
  int64_t ofBytes(int64_t bytes) const;
  /// 0 where no element moves. Runs of a burst or more that stay together move as a copy does.
  int64_t ofTranspose(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> perm) const;
  /// Of the vector engine that reduces dims `axes` (ascending), and of the transpose that moves them together where others lie between them.
  int64_t ofReduction(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> axes) const;
};

/// Attribute of a transpose that graph-convert-layout put between two layouts; the model has no such node. The attribute's value is
/// LayoutCosts::ofTranspose.
inline constexpr llvm::StringLiteral kConversionAttr = "graph.conversion";

/// A transpose with kConversionAttr.
mlir::Value createConversion(mlir::OpBuilder &builder, mlir::Value x, llvm::ArrayRef<int64_t> perm, const LayoutCosts &costs);

/// Puts the values of a function's only block in the model's layout or channels last, whichever is cheapest for all of them together
/// (docs/design/layout.md), and rewrites the ops accordingly. Convolutions and pools become NHWC, but for pools of whole images that read the
/// model's layout: these become reductions of rows. Transposes that this adds carry kConversionAttr. A transpose of the model becomes
/// the permutation that is left between the layouts of its operand and its result.
void putChannelsLast(mlir::Block &body, const LayoutCosts &costs);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_CHANNELSLAST_H
