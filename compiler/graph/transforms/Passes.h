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

/// What a caller asks of kernels, besides their targets.
struct KernelRequest {
  /// Names of ONNX nodes at which kernels begin: no kernel holds both an op of such a node and an op of another node that this op reads. Of
  /// "A -> B" no kernel holds an op of node B and an op of node A that it reads. A name that no op comes from is an error.
  std::vector<std::string> beginAt;
  std::string place;     ///< in front of messages about `beginAt`: "FILE:LINE:COLUMN: "
  bool explains = false; ///< kernels have kEndsAttr
};

/// graph-partition-kernels for these targets, in order of preference.
std::unique_ptr<mlir::Pass> createPartitionKernelsPass(const KernelTargets &targets, const KernelRequest &request = {});

/// graph-apply-rules: the rules that `math` and `options` allow, by their cost on `machine`.
std::unique_ptr<mlir::Pass> createApplyRulesPass(Math math, RuleOptions options, const ArrayMachine &machine,
                                                 const RuleRecorder &recorder);

/// Passes with rules of their own, which they write down.
std::unique_ptr<mlir::Pass> createFoldConstantsPass(const FoldConstantsPassOptions &options, const RuleRecorder &recorder);
std::unique_ptr<mlir::Pass> createFuseLayerNormPass(const RuleRecorder &recorder);
std::unique_ptr<mlir::Pass> createConvertQdqPass(const ConvertQdqPassOptions &options, const RuleRecorder &recorder);
std::unique_ptr<mlir::Pass> createDecomposeOpsPass(const DecomposeOpsPassOptions &options, const RuleRecorder &recorder);
std::unique_ptr<mlir::Pass> createSwapOperandsPass(const SwapOperandsPassOptions &options, const RuleRecorder &recorder);
std::unique_ptr<mlir::Pass> createSplitReductionsPass(const SplitReductionsPassOptions &options, const RuleRecorder &recorder);
std::unique_ptr<mlir::Pass> createMovePoolsPass(const MovePoolsPassOptions &options, const RuleRecorder &recorder);

/// Makes every pass of this folder known by its flag.
void registerGraphTransformPasses();

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_PASSES_H
