//===- Passes.h - Passes on the graph dialect -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_PASSES_H
#define COMPILER_GRAPH_TRANSFORMS_PASSES_H

#include "compiler/graph/ConstantBudget.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tw::graph {

#define GEN_PASS_DECL
#include "compiler/graph/transforms/Passes.h.inc"

/// graph-partition-kernels for these targets, in order of preference.
std::unique_ptr<mlir::Pass> createPartitionKernelsPass(const KernelTargets &targets);

/// Makes every pass of this folder known by its flag.
void registerGraphTransformPasses();

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_PASSES_H
