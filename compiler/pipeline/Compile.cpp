//===- Compile.cpp - The phases of the compiler ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Compile.h"

#include "compiler/graph/Aliases.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/loops/Passes.h"
#include "compiler/pipeline/Outline.h"
#include "compiler/pipeline/Target.h"
#include "compiler/plan/PlanDialect.h"
#include "compiler/plan/PlanFile.h"
#include "compiler/text/Diagnostics.h"
#include "compiler/text/ReadText.h"
#include "isa/files/InputFile.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"

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

/// Whether its floats are float16: those that it takes, as they are or by a cast behind each, or, if it takes none, those that it returns.
bool isOfFloat16(func::FuncOp main) {
  auto isHalf = [](Type type) { return getElementTypeOrSelf(type).isF16(); };
  auto isCast = [&](Operation *op) { return llvm::isa<graph::CastOp>(op) && isHalf(op->getResult(0).getType()); };
  bool any = false, all = true;
  auto count = [&](Type type, bool isNarrow) {
    if (!llvm::isa<FloatType>(getElementTypeOrSelf(type)))
      return;
    any = true;
    all &= isNarrow;
  };
  for (BlockArgument argument : main.getArguments())
    count(argument.getType(), isHalf(argument.getType()) || main.getArgAttr(argument.getArgNumber(), graph::kWidenedFromAttr) ||
                                  (!argument.use_empty() && llvm::all_of(argument.getUsers(), isCast)));
  if (any)
    return all;
  for (auto [i, type] : llvm::enumerate(main.getResultTypes()))
    count(type, isHalf(type) || main.getResultAttr(unsigned(i), graph::kWidenedFromAttr));
  return any && all;
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
  llvm::Expected<OwningOpRef<ModuleOp>> module = path.ends_with(".mlir")
                                                     ? text::readText(context, path, files::kMostBytes, checkModel)
                                                     : frontend::importOnnxFile(context, path, options.import);
  if (!module || options.import.aliases.empty())
    return module;
  auto main = (*module)->lookupSymbol<func::FuncOp>("main");
  if (!main)
    return llvm::createStringError("an alias needs a function @main");
  if (llvm::Error error = graph::setAliases(main, options.import.aliases))
    return std::move(error);
  return module;
}

std::vector<const Target *> pipeline::targetsOf(const CompileOptions &options) {
  if (!options.targets.empty())
    return options.targets;
  const Target *cpu = targetNamed(graph::kCpuTarget);
  return options.machine ? std::vector<const Target *>{targetNamed(graph::kAccelTarget), cpu}
                         : std::vector<const Target *>{cpu};
}

std::string pipeline::toText(ModuleOp module, bool elide) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  flags.enableDebugInfo(true, false);
  if (elide) {
    flags.elideLargeElementsAttrs(64);
    flags.elideLargeResourceString(64);
  }
  module.print(stream, flags);
  stream << "\n";
  return text;
}

llvm::Error pipeline::endPhase(Phase phase, ModuleOp module, const CompileOptions &options) {
  text::DiagnosticText text(module.getContext());
  if (failed(verify(module)))
    return llvm::createStringError("internal: what phase %s made does not verify: %s", kPhaseNames[size_t(phase)],
                                   text.str().c_str());
  if (options.afterPhase)
    options.afterPhase(phase, [&](bool elide) { return toText(module, elide); });
  return llvm::Error::success();
}

bool pipeline::hasGraphOps(ModuleOp module) {
  return module
      .walk<WalkOrder::PreOrder>([](Operation *op) {
        if (op->hasAttr(graph::kEvaluatedAttr))
          return WalkResult::skip();
        return mlir::isa_and_nonnull<graph::GraphDialect>(op->getDialect()) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Kernels whose form or size their target refuses go to the next target that takes them, with the reason.
static llvm::Error passOn(ModuleOp module, const CompileOptions &options) {
  const std::vector<const Target *> targets = targetsOf(options);
  if (targets.size() == 1 || options.oneProgram) // the compiler says then what it cannot do
    return llvm::Error::success();
  OwningOpRef<ModuleOp> loops = module.clone();
  if (llvm::Error error = runPasses(*loops, [](OpPassManager &manager) { manager.addPass(loops::createLowerGraphPass()); }))
    return error;
  SymbolTable kernels(module);
  for (auto function : loops->getOps<func::FuncOp>()) {
    func::FuncOp kernel = kernels.lookup<func::FuncOp>(function.getName());
    std::string reason;
    for (const Target *target : targets) {
      if (!graph::isFor(kernel, target->name()) || !kernel->hasAttr(graph::kTargetAttr) || function->hasAttr(plan::kPlanAttr))
        continue;
      const std::string why = target->reasonAgainst(function, options);
      if (why.empty() || target == targets.back())
        break;
      reason += (reason.empty() ? "" : "; ") + why;
      const Target *next = *std::next(llvm::find(targets, target));
      kernel->setAttr(graph::kTargetAttr, StringAttr::get(module.getContext(), next->name()));
      kernel->setAttr(graph::kReasonAttr, StringAttr::get(module.getContext(), reason));
    }
  }
  return llvm::Error::success();
}

llvm::Error pipeline::optimizeGraph(ModuleOp module, const CompileOptions &options) {
  // Text that --emit graph wrote has kernels.
  const bool hasKernels =
      llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp function) { return function->hasAttr(graph::kTargetAttr); });
  if (hasKernels || !hasGraphOps(module)) {
    if (!options.graph.kernelsBeginAt.empty())
      return llvm::createStringError("%skernels are to begin at nodes, but the model has its kernels already",
                                     options.graph.place.c_str());
    return endPhase(Phase::Graph, module, options);
  }
  graph::GraphPipelineOptions graphOptions;
  graphOptions.targets.clear();
  for (const Target *target : targetsOf(options))
    graphOptions.targets.push_back(target->rules(options));
  graphOptions.math = options.math;
  graphOptions.rules = options.rules;
  // A GPU multiplies bfloat16 and float16 where the network has them; the accelerator's array decides for itself.
  if (targetsOf(options).front()->keepsNarrowFloats()) {
    auto main = module.lookupSymbol<func::FuncOp>("main");
    if (hasBfloat16(module))
      graphOptions.narrow = "bf16";
    else if (main && isOfFloat16(main))
      graphOptions.narrow = "f16";
  }
  graphOptions.maxConstantBytes = options.import.maxConstantBytes;
  graphOptions.kernelsBeginAt = options.graph.kernelsBeginAt;
  graphOptions.kernelsBeginAtPlace = options.graph.place;
  graphOptions.explainsKernels = options.explainsKernels;
  graphOptions.packsPixels = accel::overlapsKernels(options.schedule);
  if (llvm::Error error = runPasses(module, [&](OpPassManager &manager) { graph::buildGraphPipeline(manager, graphOptions); }))
    return error;
  if (llvm::Error error = passOn(module, options))
    return error;
  return endPhase(Phase::Graph, module, options);
}

/// Inputs, outputs and constants.
static uint64_t bytesAlwaysThere(ModuleOp module) {
  uint64_t bytes = 0;
  auto add = [&](Type type) {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      bytes += uint64_t(tensor.getNumElements()) * llvm::divideCeil(tensor.getElementTypeBitWidth(), 8);
  };
  auto main = module.lookupSymbol<func::FuncOp>("main");
  llvm::for_each(main.getArgumentTypes(), add);
  llvm::for_each(main.getResultTypes(), add);
  module.walk([&](arith::ConstantOp constant) { add(constant.getType()); });
  return bytes;
}

/// The order of kernels. On an accelerator the list scheduler overlaps kernels in the model's order, which stays unless DRAM has no room for it.
static plan::KernelOrder orderOf(ModuleOp module, const CompileOptions &options, const memory::PeakMemory &peak) {
  if (options.graph.order)
    return *options.graph.order;
  const bool isForAccelerator = llvm::any_of(module.getOps<func::FuncOp>(), [](func::FuncOp kernel) {
    return kernel.getName() != "main" && graph::isFor(kernel, graph::kAccelTarget);
  });
  const bool hasRoom =
      isForAccelerator && options.machine && bytesAlwaysThere(module) + peak.modelBytes <= options.machine->dram.capacityBytes;
  return hasRoom ? plan::KernelOrder::Model : plan::KernelOrder::Memory;
}

/// Orders the calls of a module's @main.
static llvm::Expected<memory::PeakMemory> order(ModuleOp module, const CompileOptions &options) {
  return orderCalls(module, [&](const memory::PeakMemory &peak) { return orderOf(module, options, peak); });
}

/// Whether the kernels of a module with a @main are for several targets: runs of each then stay together.
static bool hasSeveralTargets(ModuleOp module) {
  llvm::SmallSetVector<Attribute, 2> targets;
  for (auto kernel : module.getOps<func::FuncOp>())
    if (Attribute target = kernel->getAttr(graph::kTargetAttr))
      targets.insert(target);
  return targets.size() > 1;
}

llvm::Error pipeline::lowerToLinalg(ModuleOp module, const CompileOptions &options, memory::PeakMemory *peak) {
  llvm::Error error = hasGraphOps(module)
                          ? runPasses(module, [](OpPassManager &manager) { manager.addPass(loops::createLowerGraphPass()); })
                          : outlineKernels(module, targetsOf(options).front()->name());
  if (error)
    return error;
  if (options.planFile && options.machine)
    if (llvm::Error error = plan::applyPlanFile(module, *options.planFile))
      return error;
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (main && llvm::hasSingleElement(main.getBody()) && !hasSeveralTargets(module)) {
    llvm::Expected<memory::PeakMemory> peaks = order(module, options);
    if (!peaks)
      return peaks.takeError();
    if (peak)
      *peak = *peaks;
  }
  return endPhase(Phase::Linalg, module, options);
}

llvm::Expected<CompiledModel> pipeline::compile(ModuleOp module, const CompileOptions &options) {
  if (llvm::Error error = optimizeGraph(module, options))
    return std::move(error);
  CompiledModel model;
  if (llvm::Error error = lowerToLinalg(module, options, &model.peak))
    return std::move(error);

  const std::vector<const Target *> targets = targetsOf(options);
  auto found = llvm::find_if(targets, [](const Target *target) { return target->compilesNetworks(); });
  const Target *networks = found == targets.end() ? nullptr : *found;
  // Phases plan, tiles, isa and program.
  auto addProgram = [&](const Target &target, ModuleOp network) -> llvm::Error {
    llvm::Expected<Artefact> artefact = target.compile(network, options);
    if (!artefact)
      return artefact.takeError();
    if (auto *compiled = std::get_if<CompiledNetwork>(&*artefact))
      model.programs.push_back(std::move(*compiled));
    else if (auto *kernels = std::get_if<opencl::Program>(&*artefact))
      model.programs.push_back(std::move(*kernels));
    else
      return llvm::createStringError("internal: target '%s' makes no program of a network", target.name().str().c_str());
    return llvm::Error::success();
  };
  if (networks && isAllFor(module, *networks)) {
    model.target = networks;
    if (llvm::Error error = addProgram(*networks, module))
      return std::move(error);
    return std::move(model);
  }
  if (options.oneProgram)
    return llvm::createStringError(
        "it has kernels that machine '%s' cannot run, so it is no single program ('tilewright run' says "
        "which, and runs them on the CPU)",
        options.machine ? options.machine->name.c_str() : "");
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (unsigned i = 0; options.machine && i < main.getNumResults(); ++i)
    if (auto input = main.getResultAttrOfType<StringAttr>(i, graph::kAliasAttr))
      return llvm::createStringError("output '%s' cannot lie at the place of input '%s': parts of the network run on the CPU "
                                     "('tilewright check' says which)",
                                     graph::outputName(main, i).c_str(), input.getValue().str().c_str());
  llvm::Expected<Partition> parts = partition(module, networks);
  if (!parts)
    return parts.takeError();
  model.parts = std::move(*parts);
  for (Segment &segment : model.parts.segments)
    if (segment.module && hasSeveralTargets(module)) {
      llvm::Expected<memory::PeakMemory> peak = order(*segment.module, options);
      if (!peak)
        return peak.takeError();
      if (peak->takenBytes >= model.peak.takenBytes)
        model.peak = *peak;
    }
  for (Segment &segment : model.parts.segments)
    if (segment.module)
      if (llvm::Error error = addProgram(*segment.target, *segment.module))
        return std::move(error);
  return std::move(model);
}
