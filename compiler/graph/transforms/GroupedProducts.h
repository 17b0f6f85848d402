//===- GroupedProducts.h - Products of groups of matrices --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_GRAPH_TRANSFORMS_GROUPEDPRODUCTS_H
#define COMPILER_GRAPH_TRANSFORMS_GROUPEDPRODUCTS_H

#include "compiler/graph/Graph.h"
#include "mlir/IR/PatternMatch.h"
#include <optional>

namespace tw::graph {

/// A tensor whose dim `axis`, of size 1 in `x`, is repeated.
struct Repeat {
  mlir::Value x;
  int64_t axis = 0, times = 1;
};

/// The tensor that `op` repeats: `op` is a Concat of one tensor with itself, or a product with ones that broadcasts along one dim, as an Expand
/// becomes. Nothing: `op` repeats no tensor.
std::optional<Repeat> repeatOf(mlir::Operation *op);

/// Products of several rows with repeated matrices, as grouped queries with their keys, become products of groups: the rows of a group are
/// those of one matrix. Every sum is the same, and the repeated tensor is not made.
void populateGroupedProductPatterns(mlir::RewritePatternSet &patterns);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_GROUPEDPRODUCTS_H
