//===- Compile.cpp - From a model to kernels on tensors --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Compile.h"

#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"
#include "compiler/pipeline/Diagnostics.h"
#include "compiler/pipeline/ReadText.h"
#include "isa/files/InputFile.h"
#include "isa/timing/Dram.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
llvm::Error runPasses(ModuleOp module, llvm::function_ref<void(OpPassManager &)> build) {
  DiagnosticText text(module.getContext());
  PassManager manager = PassManager::on<ModuleOp>(module.getContext());
  build(manager);
  if (succeeded(manager.run(module)))
    return llvm::Error::success();
  return llvm::createStringError("%s", text.str().empty() ? "internal: a pass failed without a reason" : text.str().c_str());
}

/// What every phase takes for granted of the functions of a model.
LogicalResult checkModel(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      return function.emitError() << "function '" << function.getName() << "' has no body";
    if (Attribute nodes = function->getAttr(graph::kNodesAttr)) {
      auto names = dyn_cast<ArrayAttr>(nodes);
      if (!names || !llvm::all_of(names, [](Attribute name) { return mlir::isa<StringAttr>(name); }))
        return function.emitError() << graph::kNodesAttr << " of function '" << function.getName() << "' must be a list of names";
    }
    if (Attribute target = function->getAttr(graph::kTargetAttr)) {
      auto name = dyn_cast<StringAttr>(target);
      if (!name || (name.getValue() != "accel" && name.getValue() != "cpu"))
        return function.emitError() << graph::kTargetAttr << " of function '" << function.getName() << "' must be \"accel\" or \"cpu\"";
    }
  }
  return success();
}
} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> pipeline::importModel(MLIRContext &context, llvm::StringRef path,
                                                            const CompileOptions &options) {
  if (path.ends_with(".mlir"))
    return readText(context, path, files::kMostBytes, checkModel);
  return frontend::importOnnxFile(context, path, options.import);
}

llvm::Error pipeline::optimizeGraph(ModuleOp module, const CompileOptions &options) {
  graph::GraphPipelineOptions graphOptions;
  graphOptions.exactQdq = options.exactQdq;
  graphOptions.maxConstantBytes = options.import.maxConstantBytes;
  graphOptions.finiteMath = options.finiteMath;
  graphOptions.packsPixels = accel::overlapsKernels(options.schedule);
  graphOptions.cpuOnly = options.machine == nullptr;
  if (options.machine) {
    graphOptions.rows = options.machine->rows;
    graphOptions.columns = options.machine->cols;
    const timing::TimingConstants &t = options.machine->timing;
    graphOptions.preloadCycles = int64_t(llvm::divideCeil(options.machine->rows, options.machine->preloadRowsPerCycle) +
                                         t.preload_drain_cycles + t.shadow_ready_cycles + t.shadow_free_cycles);
    graphOptions.loadEngines = options.machine->loadEngines;
    graphOptions.sums = int64_t(options.machine->accumulatorRows()) * options.machine->cols;
    graphOptions.scratchpad = int64_t(options.machine->scratchpads[0].capacityBytes);
    const timing::Ratio peak = timing::dramPeakBytesPerCycle(*options.machine);
    graphOptions.dramBytes = std::min(double(peak.numerator) / double(peak.denominator),
                                      options.machine->loadEngines * timing::loadBytesPerCycle(*options.machine));
    graphOptions.array = options.machine->arrayType == timing::ArrayType::Int8   ? "int8"
                         : options.machine->arrayType == timing::ArrayType::Bf16 ? "bf16"
                                                                                 : "fp32";
  }
  return runPasses(module, [&](OpPassManager &manager) { graph::buildGraphPipeline(manager, graphOptions); });
}

llvm::Error pipeline::lowerToLinalg(ModuleOp module, const CompileOptions &options) {
  return runPasses(module, [](OpPassManager &manager) { manager.addPass(loops::createLowerGraphPass()); });
}
