//===- Pipeline.cpp - From an imported graph to kernel functions ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/graph/transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tw::graph {

void buildGraphPipeline(OpPassManager &manager, const GraphPipelineOptions &options) {
  // Integers where the machine multiplies them; on the CPU too, so that both targets compute the same.
  bool integer = options.cpuOnly || options.array == "int8";
  FoldConstantsPassOptions keep;
  keep.keepQuantized = integer;
  manager.addPass(createFoldConstantsPass(keep));
  manager.addPass(createCSEPass());
  manager.addPass(createFoldBatchNormPass());
  manager.addPass(createFuseLayerNormPass());
  manager.addPass(createDecomposeOpsPass());
  if (integer) {
    ConvertQdqPassOptions qdq;
    qdq.exact = options.exactQdq;
    manager.addPass(createConvertQdqPass(qdq));
  }
  manager.addPass(createFoldConstantsPass());
  manager.addPass(createConvertLayoutPass());
  if (!options.cpuOnly) {
    SwapOperandsPassOptions swap;
    swap.rows = options.rows;
    swap.columns = options.columns;
    swap.preloadCycles = options.preloadCycles;
    swap.dramBytes = options.dramBytes;
    swap.array = options.array;
    manager.addPass(createSwapOperandsPass(swap));
  }
  manager.addPass(createDecomposeOpsPass());
  manager.addPass(createFoldConstantsPass());
  manager.addPass(createCSEPass());
  if (!options.cpuOnly) {
    MovePoolsPassOptions move;
    move.rows = options.rows;
    move.columns = options.columns;
    move.sums = options.sums;
    move.scratchpad = options.scratchpad;
    move.dramBytes = options.dramBytes;
    move.array = options.array;
    manager.addPass(createMovePoolsPass(move));
  }
  PartitionKernelsPassOptions partition;
  partition.array = options.array;
  partition.rows = options.rows;
  partition.columns = options.columns;
  partition.loadEngines = options.loadEngines;
  partition.sums = options.sums;
  partition.scratchpad = options.scratchpad;
  partition.cpuOnly = options.cpuOnly;
  manager.addPass(createPartitionKernelsPass(partition));
  if (options.array == "bf16" && !options.cpuOnly)
    manager.addPass(createLegalizeTypesPass());
}

namespace {
#define GEN_PASS_REGISTRATION
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace

void registerGraphTransformPasses() { registerGraphTransformsPasses(); }

} // namespace tw::graph
