//===- Passes.h - Passes on the graph dialect -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_PASSES_H
#define COMPILER_GRAPH_TRANSFORMS_PASSES_H

#include "compiler/graph/ConstantBudget.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/graph/transforms/Rules.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tw::graph {

#define GEN_PASS_DECL
#include "compiler/graph/transforms/Passes.h.inc"

/// What may be said of kernels beside their targets.
struct KernelRequest {
  /// ONNX nodes: no kernel holds an op of one of these and an op that it reads of another node. Of "A -> B" no kernel holds an op of node B
  /// and an op of node A that it reads. A node that no op comes from is an error.
  std::vector<std::string> beginAt;
  std::string place;     ///< of messages about these: "FILE:LINE:COLUMN: "
  bool explains = false; ///< kernels have kEndsAttr
};

/// graph-partition-kernels for these targets, in order of preference.
std::unique_ptr<mlir::Pass> createPartitionKernelsPass(const KernelTargets &targets, const KernelRequest &request = {});

/// graph-apply-rules: the rules that `math` and `options` allow, by their cost on `machine`.
std::unique_ptr<mlir::Pass> createApplyRulesPass(Math math, RuleOptions options, const ArrayMachine &machine);

/// Makes every pass of this folder known by its flag.
void registerGraphTransformPasses();

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_PASSES_H
