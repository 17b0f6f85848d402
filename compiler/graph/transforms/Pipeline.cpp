//===- Pipeline.cpp - From an imported graph to kernel functions ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/graph/transforms/Passes.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tw::graph {

void buildGraphPipeline(OpPassManager &manager, const GraphPipelineOptions &options) {
  auto formed = llvm::find_if(options.targets, [](const auto &target) { return target->machine(); });
  const ArrayMachine *machine = formed == options.targets.end() ? nullptr : (*formed)->machine();
  // Integers where the machine multiplies them; on the CPU too, so that both targets compute the same.
  const bool integer = !machine || machine->type == "int8";
  auto describeArray = [&](auto &pass) {
    pass.array = machine->type;
    pass.rows = machine->rows;
    pass.columns = machine->columns;
    pass.dramBytes = machine->dramBytes;
  };
  const RuleRecorder recorder(options.rules.report);
  FoldConstantsPassOptions fold, keep;
  fold.maxConstantBytes = keep.maxConstantBytes = options.maxConstantBytes;
  keep.keepQuantized = integer;
  manager.addPass(createFoldConstantsPass(keep, recorder)); // later ones see what passes have made
  manager.addPass(createCSEPass());
  manager.addPass(createFuseLayerNormPass(recorder));
  manager.addPass(createApplyRulesPass(options.math, options.rules, machine ? *machine : ArrayMachine(), recorder));
  DecomposeOpsPassOptions beforeLayout;
  beforeLayout.keepAxes = true;
  manager.addPass(createDecomposeOpsPass(beforeLayout, recorder));
  if (integer) {
    ConvertQdqPassOptions qdq;
    qdq.exact = options.math == Math::Strict;
    manager.addPass(createConvertQdqPass(qdq, recorder));
  }
  manager.addPass(createFoldConstantsPass(fold));
  ConvertLayoutPassOptions layout;
  layout.rows = 0;
  if (machine) {
    layout.rows = machine->rows;
    layout.columns = machine->columns;
    layout.loadEngines = machine->loadEngines;
    layout.dramBytes = machine->dramBytes;
    layout.dramLatency = machine->dramLatency;
  }
  manager.addPass(createConvertLayoutPass(layout));
  if (machine) {
    SwapOperandsPassOptions swap;
    describeArray(swap);
    swap.preloadCycles = machine->preloadCycles;
    manager.addPass(createSwapOperandsPass(swap, recorder));
  }
  manager.addPass(createDecomposeOpsPass({}, recorder));
  manager.addPass(createFoldConstantsPass(fold));
  manager.addPass(createCSEPass());
  if (machine) {
    SplitReductionsPassOptions split;
    split.array = machine->type;
    split.columns = machine->columns;
    split.scratchpad = machine->scratchpad;
    split.overlaps = options.packsPixels;
    manager.addPass(createSplitReductionsPass(split, recorder));
    MovePoolsPassOptions move;
    describeArray(move);
    move.sums = machine->sums;
    move.scratchpad = machine->scratchpad;
    move.packsPixels = options.packsPixels;
    move.finiteMath = options.math >= Math::Finite;
    manager.addPass(createMovePoolsPass(move, recorder));
  }
  manager.addPass(createPartitionKernelsPass(options.targets,
                                             {options.kernelsBeginAt, options.kernelsBeginAtPlace, options.explainsKernels}));
  if (!options.narrow.empty() || (machine && machine->type == "bf16")) {
    LegalizeTypesPassOptions legalize;
    legalize.target = options.targets.front()->name().str();
    if (!options.narrow.empty())
      legalize.narrow = options.narrow;
    manager.addPass(createLegalizeTypesPass(legalize));
  }
}

namespace {
#define GEN_PASS_REGISTRATION
#include "compiler/graph/transforms/Passes.h.inc"
} // namespace

void registerGraphTransformPasses() { registerGraphTransformsPasses(); }

} // namespace tw::graph
