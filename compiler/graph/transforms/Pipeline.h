//===- Pipeline.h - From an imported graph to kernel functions --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_PIPELINE_H
#define COMPILER_GRAPH_TRANSFORMS_PIPELINE_H

#include "compiler/graph/ConstantBudget.h"
#include "mlir/Pass/PassManager.h"
#include <string>

namespace tw::graph {

/// Attributes of a kernel function. Nodes: the names of its ONNX nodes. Target: "accel" or "cpu". Reason: why it is "cpu".
inline constexpr llvm::StringLiteral kNodesAttr = "tilewright.nodes";
inline constexpr llvm::StringLiteral kTargetAttr = "tilewright.target";
inline constexpr llvm::StringLiteral kReasonAttr = "tilewright.reason";

/// Of a max pool: it joins the convolution whose sums it reads (graph-move-pools).
inline constexpr llvm::StringLiteral kOfSumsAttr = "tilewright.of_sums";

/// Of a kernel's argument: the kernel converts it to the type that the array multiplies, no other kernel does.
inline constexpr llvm::StringLiteral kConvertsAttr = "tilewright.converts";

struct GraphPipelineOptions {
  std::string array = "fp32"; ///< what the machine's array multiplies: int8, bf16 or fp32
  int64_t rows = 16, columns = 16; ///< of the array
  int64_t preloadCycles = 20;      ///< from one tile of weights to the next at least
  int64_t loadEngines = 2;
  int64_t sums = 16384; ///< elements of the accumulator
  int64_t scratchpad = 262144; ///< bytes of the first one
  double dramBytes = 19.2;     ///< a cycle
  bool cpuOnly = false;       ///< every kernel for the CPU; types stay as the model has them
  bool exactQdq = false;      ///< graph-convert-qdq{exact}
  uint64_t maxConstantBytes = kMaxConstantBytes; ///< that folding may make, beside those that there are
  bool packsPixels = true, finiteMath = false; ///< of graph-move-pools
};

/// The graph phase: folding, quantised forms, layout, kernels, types.
void buildGraphPipeline(mlir::OpPassManager &manager, const GraphPipelineOptions &options);

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_PIPELINE_H
