//===- Compile.cpp - From a model to kernels on tensors --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Compile.h"

#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"
#include "compiler/pipeline/Target.h"
#include "compiler/text/Diagnostics.h"
#include "compiler/text/ReadText.h"
#include "isa/files/InputFile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace tw;
using namespace tw::pipeline;

namespace {
llvm::Error runPasses(ModuleOp module, llvm::function_ref<void(OpPassManager &)> build) {
  text::DiagnosticText text(module.getContext());
  PassManager manager = PassManager::on<ModuleOp>(module.getContext());
  build(manager);
  if (succeeded(manager.run(module)))
    return llvm::Error::success();
  return llvm::createStringError("%s", text.str().empty() ? "internal: a pass failed without a reason" : text.str().c_str());
}

/// Whether the network has numbers of bfloat16.
bool hasBfloat16(ModuleOp module) {
  return module
             .walk([](Operation *op) {
               return llvm::any_of(op->getResultTypes(), [](Type type) { return getElementTypeOrSelf(type).isBF16(); })
                          ? WalkResult::interrupt()
                          : WalkResult::advance();
             })
             .wasInterrupted() ||
         llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) {
           return llvm::any_of(function.getArgumentTypes(), [](Type type) { return getElementTypeOrSelf(type).isBF16(); });
         });
}

/// What every phase takes for granted of the functions of a model.
LogicalResult checkModel(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal())
      return function.emitError() << "function '" << function.getName() << "' has no body";
    if (Attribute nodes = function->getAttr(graph::kNodesAttr)) {
      auto names = dyn_cast<ArrayAttr>(nodes);
      if (!names || !llvm::all_of(names, [](Attribute name) { return mlir::isa<StringAttr>(name); }))
        return function.emitError() << graph::kNodesAttr << " of function '" << function.getName()
                                    << "' must be a list of names";
    }
    if (Attribute target = function->getAttr(graph::kTargetAttr)) {
      auto name = dyn_cast<StringAttr>(target);
      if (!name || !targetNamed(name.getValue()))
        return function.emitError() << graph::kTargetAttr << " of function '" << function.getName() << "' must be one of "
                                    << targetNames();
    }
  }
  return success();
}
} // namespace

llvm::Expected<OwningOpRef<ModuleOp>> pipeline::importModel(MLIRContext &context, llvm::StringRef path,
                                                            const CompileOptions &options) {
  if (path.ends_with(".mlir"))
    return text::readText(context, path, files::kMostBytes, checkModel);
  return frontend::importOnnxFile(context, path, options.import);
}

std::vector<const Target *> pipeline::targetsOf(const CompileOptions &options) {
  if (!options.targets.empty())
    return options.targets;
  const Target *cpu = targetNamed(graph::kCpuTarget);
  return options.machine ? std::vector<const Target *>{targetNamed(graph::kAccelTarget), cpu}
                         : std::vector<const Target *>{cpu};
}

llvm::Error pipeline::optimizeGraph(ModuleOp module, const CompileOptions &options) {
  graph::GraphPipelineOptions graphOptions;
  graphOptions.targets.clear();
  for (const Target *target : targetsOf(options))
    graphOptions.targets.push_back(target->rules(options));
  graphOptions.math = options.math;
  // A GPU multiplies bfloat16 where the network has it; the accelerator's array decides for itself.
  graphOptions.narrows = targetsOf(options).front()->keepsBfloat16() && hasBfloat16(module);
  graphOptions.maxConstantBytes = options.import.maxConstantBytes;
  graphOptions.packsPixels = accel::overlapsKernels(options.schedule);
  return runPasses(module, [&](OpPassManager &manager) { graph::buildGraphPipeline(manager, graphOptions); });
}

llvm::Error pipeline::lowerToLinalg(ModuleOp module, const CompileOptions &options) {
  return runPasses(module, [](OpPassManager &manager) { manager.addPass(loops::createLowerGraphPass()); });
}
