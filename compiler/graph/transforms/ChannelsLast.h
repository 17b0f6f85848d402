//===- ChannelsLast.h - One layout for every value --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_CHANNELSLAST_H
#define COMPILER_GRAPH_TRANSFORMS_CHANNELSLAST_H

#include "compiler/graph/Graph.h"
#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"

namespace tw::graph {

/// Attribute of a transpose that graph-convert-layout put between two layouts; the model has no such node. The attribute's value is
/// the cost of the transpose: about the cycles of an engine that starts one run of neighbours and moves 16 bytes in a cycle.
inline constexpr llvm::StringLiteral kConversionAttr = "graph.conversion";

/// A transpose with kConversionAttr.
mlir::Value createConversion(mlir::OpBuilder &builder, mlir::Value x, llvm::ArrayRef<int64_t> perm);

/// Puts the values of a function's only block in the model's layout or channels last, whichever is cheapest for all of them together
/// (docs/design/layout.md), and rewrites the ops accordingly. Convolutions and pools become NHWC, but for pools of whole images that read the
/// model's layout: these become reductions of rows. Transposes that this adds carry kConversionAttr. A transpose of the model becomes
/// the permutation that is left between the layouts of its operand and its result.
void putChannelsLast(mlir::Block &body);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_CHANNELSLAST_H
