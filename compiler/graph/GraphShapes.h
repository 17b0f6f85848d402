//===- GraphShapes.h - Result shapes of graph ops ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function per rule, shared by the importer, which needs the shape, and
// the verifiers, which check it. All dims are static. Every function returns
// an error that says what was found and what was allowed.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_GRAPHSHAPES_H
#define COMPILER_GRAPH_GRAPHSHAPES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>

namespace tw::graph {

using Shape = llvm::SmallVector<int64_t, 6>;

/// `[1, 2, 3]`.
std::string formatShape(llvm::ArrayRef<int64_t> shape);

/// The product of the dims; nothing if a dim is negative or the product exceeds 2^40 elements.
std::optional<int64_t> countElements(llvm::ArrayRef<int64_t> shape);

/// Numpy broadcasting of two shapes.
llvm::Expected<Shape> broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// Result of graph.conv and graph.conv_integer. `pads` = top, left, bottom, right.
llvm::Expected<Shape> convShape(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> w, llvm::ArrayRef<int64_t> strides,
                                llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations, int64_t group,
                                llvm::StringRef layout);

/// Result of the pooling ops.
llvm::Expected<Shape> poolShape(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> strides,
                                llvm::ArrayRef<int64_t> pads, llvm::ArrayRef<int64_t> dilations, llvm::StringRef layout);

/// Result of graph.matmul and graph.matmul_integer.
llvm::Expected<Shape> matmulShape(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

/// Result of graph.concat.
llvm::Expected<Shape> concatShape(llvm::ArrayRef<Shape> inputs, int64_t axis);

/// Result of graph.transpose.
llvm::Expected<Shape> transposeShape(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> perm);

/// Result of graph.reduce.
llvm::Expected<Shape> reduceShape(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> axes, bool keepdims);

/// Result of graph.pad.
llvm::Expected<Shape> padShape(llvm::ArrayRef<int64_t> x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high);

} // namespace tw::graph

#endif // COMPILER_GRAPH_GRAPHSHAPES_H
