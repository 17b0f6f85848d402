//===- Pipeline.h - From an imported graph to kernel functions --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_PIPELINE_H
#define COMPILER_GRAPH_TRANSFORMS_PIPELINE_H

#include "compiler/graph/ConstantBudget.h"
#include "compiler/graph/Math.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/graph/transforms/Rules.h"
#include "mlir/Pass/PassManager.h"
#include <string>
#include <vector>

namespace tw::graph {

/// Of a max pool: it joins the convolution whose sums it reads (graph-move-pools).
inline constexpr llvm::StringLiteral kOfSumsAttr = "tilewright.of_sums";

/// Of a kernel's argument: the kernel converts it to the type that the array multiplies, no other kernel does.
inline constexpr llvm::StringLiteral kConvertsAttr = "tilewright.converts";

/// Attribute of a kernel: why the op behind the kernel is not part of it. Kernels have it where KernelRequest::explains is set.
inline constexpr llvm::StringLiteral kEndsAttr = "tilewright.ends";

/// Of a kernel that was asked for reasons: a text for each op behind a border that could be elsewhere, with the cost of each place.
inline constexpr llvm::StringLiteral kBordersAttr = "tilewright.borders";

struct GraphPipelineOptions {
  /// In order of preference. Quantised forms, layout and types are those of the first that has a machine; without one, types stay as the
  /// model has them.
  KernelTargets targets = {makeCpuTarget()};
  Math math = Math::Exact;
  RuleOptions rules;  ///< of graph-apply-rules, as far as `math` allows
  std::string narrow; ///< f32 tensors between kernels become this on the first target: bf16, f16; empty: stay
  uint64_t maxConstantBytes = kMaxConstantBytes; ///< that folding may make, beside those that there are
  bool packsPixels = true;                       ///< of graph-move-pools
  std::vector<std::string> kernelsBeginAt;       ///< KernelRequest::beginAt
  std::string kernelsBeginAtPlace;               ///< KernelRequest::place
  bool explainsKernels = false;                  ///< KernelRequest::explains
};

/// The graph phase: folding, quantised forms, layout, kernels, types.
void buildGraphPipeline(mlir::OpPassManager &manager, const GraphPipelineOptions &options);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_PIPELINE_H
