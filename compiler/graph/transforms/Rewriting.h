//===- Rewriting.h - Small helpers of the graph passes ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_REWRITING_H
#define COMPILER_GRAPH_TRANSFORMS_REWRITING_H

#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Rules.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/PatternMatch.h"
#include <string>
#include <vector>

namespace tw::graph {

inline mlir::RankedTensorType tensorOf(mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()); }
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) { return tensorOf(value).getShape(); }
inline mlir::Type elementOf(mlir::Value value) { return tensorOf(value).getElementType(); }
inline bool isEightBit(mlir::Type type) { return type.isInteger(8); }

/// Applies the patterns until none matches. Patterns that keep undoing each other are an error, not a hang. `recorder`: gets the rewrites of
/// patterns whose debug label is the name of a rule.
llvm::LogicalResult rewriteToEnd(mlir::Operation *root, mlir::RewritePatternSet patterns,
                                 const RuleRecorder &recorder = RuleRecorder());

/// The location of an op that stands for all of `ops`: their ONNX node names stay.
mlir::Location fuseLocations(llvm::ArrayRef<mlir::Operation *> ops);

/// The ONNX node names in a location, in order, each once.
std::vector<std::string> nodeNames(mlir::Location loc);

/// Whether op computes each element of its result from the elements of its operands at that place (numpy broadcasting), so
/// that any order of dims serves it. quantize, dequantize and requantize name an axis; requantize's bias is a vector.
bool isElementwise(mlir::Operation *op);

/// The attribute that names a dim of op's operand and result ("axis"), where it matters: more than one scale.
bool hasChannelAxis(mlir::Operation *op);

/// `shape` with ones in front, as numpy broadcasting sees it.
llvm::SmallVector<int64_t> padRank(llvm::ArrayRef<int64_t> shape, size_t rank);

llvm::SmallVector<int64_t> inversePermutation(llvm::ArrayRef<int64_t> perm);

/// A transpose; its result type follows.
mlir::Value createTranspose(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> perm);

/// A reshape of what `x` is a reshape of; `x` itself where the shape is already right.
mlir::Value createReshape(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int64_t> shape);

/// Whether every window of a pool has a position inside the image, as far as the pool's attributes say.
bool seesPixels(llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations);

/// Whether a transpose leaves the elements in their order: it moves only dims of size 1.
bool movesOnlyUnitDims(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> perm);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_REWRITING_H
