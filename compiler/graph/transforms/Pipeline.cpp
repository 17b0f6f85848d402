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
  auto describeArray = [&](auto &pass) {
    pass.array = options.array;
    pass.rows = options.rows;
    pass.columns = options.columns;
  };
  FoldConstantsPassOptions fold, keep;
  fold.maxConstantBytes = keep.maxConstantBytes = options.maxConstantBytes;
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
  manager.addPass(createFoldConstantsPass(fold));
  manager.addPass(createConvertLayoutPass());
  if (!options.cpuOnly) {
    SwapOperandsPassOptions swap;
    describeArray(swap);
    swap.preloadCycles = options.preloadCycles;
    swap.dramBytes = options.dramBytes;
    manager.addPass(createSwapOperandsPass(swap));
  }
  manager.addPass(createDecomposeOpsPass());
  manager.addPass(createFoldConstantsPass(fold));
  manager.addPass(createCSEPass());
  if (!options.cpuOnly) {
    MovePoolsPassOptions move;
    describeArray(move);
    move.sums = options.sums;
    move.scratchpad = options.scratchpad;
    move.dramBytes = options.dramBytes;
    move.packsPixels = options.packsPixels;
    move.finiteMath = options.finiteMath;
    manager.addPass(createMovePoolsPass(move));
  }
  PartitionKernelsPassOptions partition;
  describeArray(partition);
  partition.loadEngines = options.loadEngines;
  partition.dramBytes = options.dramBytes;
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
