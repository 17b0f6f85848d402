//===- Network.cpp - From what the user named to what runs ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Network.h"
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/codegen/opencl/Bundle.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/Messages.h"
#include "compiler/graph/ModelNodes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/pipeline/FusionPlan.h"
#include "compiler/pipeline/Target.h"
#include "compiler/plan/PlanFile.h"
#include "compiler/text/Diagnostics.h"
#include "hw-configs/Machine.h"
#include "isa/Assembler.h"
#include "isa/Printable.h"
#include "isa/files/InputFile.h"
#include "isa/timing/Digest.h"
#include "runtime/GraphMacs.h"
#include "runtime/InlineKernel.h"
#include "runtime/OffloadCheck.h"
#include "runtime/TuningCache.h"
#include "simulator/systemc/SystemCModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Threading.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>

using namespace tw;
using namespace tw::runtime;

namespace {

enum class ModelKind { Onnx, Mlir, Inline, Assembly, Image };

bool isProgram(ModelKind kind) { return kind == ModelKind::Assembly || kind == ModelKind::Image; }

StatusOr<ModelKind> classify(const std::string &model, const NetworkOptions &options = {}) {
  if (options.modelBytes)
    return ModelKind::Onnx;
  if (isInlineKernel(model))
    return ModelKind::Inline;
  std::error_code failure;
  if (!std::filesystem::exists(model, failure))
    return userError("cannot open '" + model + "': no such file, and no inline kernel (gemm:MxNxK:TYPE, conv:...)");
  if (std::filesystem::is_directory(model, failure))
    return userError("cannot open '" + model + "': is a folder");
  std::string suffix = std::filesystem::path(model).extension();
  if (suffix == ".onnx")
    return ModelKind::Onnx;
  if (suffix == ".mlir")
    return ModelKind::Mlir;
  if (suffix == ".tasm")
    return ModelKind::Assembly;
  if (suffix == ".twp")
    return ModelKind::Image;
  return userError("'" + model + "' has suffix '" + suffix +
                   "' but a model must be .onnx, .mlir, .tasm (assembler), .twp (program) or an inline kernel");
}

Error fromLlvm(llvm::Error error, const std::string &where = "") {
  return compilerError(llvm::toString(std::move(error)), where);
}

std::optional<ElementKind> hostKind(mlir::Type type) {
  if (type.isF32())
    return ElementKind::F32;
  if (type.isF16())
    return ElementKind::F16;
  if (type.isBF16())
    return ElementKind::BF16;
  if (type.isF64())
    return ElementKind::F64;
  if (type.isInteger(1))
    return ElementKind::Bool;
  bool isUnsigned = type.isUnsignedInteger();
  if (type.isInteger(8))
    return isUnsigned ? ElementKind::U8 : ElementKind::I8;
  if (type.isInteger(16))
    return isUnsigned ? ElementKind::U16 : ElementKind::I16;
  if (type.isInteger(32))
    return isUnsigned ? ElementKind::U32 : ElementKind::I32;
  if (type.isInteger(64))
    return isUnsigned ? ElementKind::U64 : ElementKind::I64;
  return std::nullopt;
}

StatusOr<TensorSpec> specOf(mlir::Type type, mlir::DictionaryAttr attributes, const std::string &fallback) {
  TensorSpec spec;
  spec.name = fallback;
  if (attributes)
    if (auto name = attributes.getAs<mlir::StringAttr>(graph::kNameAttr))
      spec.name = printable(name.getValue());
  auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
  std::optional<ElementKind> kind = tensor && tensor.hasStaticShape() ? hostKind(tensor.getElementType()) : std::nullopt;
  if (!kind) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return userError("'" + spec.name + "' of @main is " + text + " but must be a tensor of fixed shape with a number type");
  }
  spec.isWidened = attributes && attributes.contains(graph::kWidenedFromAttr);
  spec.type = spec.isWidened ? ElementKind::F16 : *kind;
  spec.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
  if (std::optional<int64_t> count = frontend::countTensorElements(spec.shape); !count || *count == 0) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return userError("'" + spec.name + "' of @main is " + text + " but must have 1 to " +
                     std::to_string(frontend::kMaxTensorElements) + " elements");
  }
  return spec;
}

/// Runs programs for their cycles alone.
class TimingSimulator {
public:
  explicit TimingSimulator(const timing::MachineParams &machine) : machine(machine) {}

  /// An error if the machine has no room for the program; a fault if it takes more than `mostCycles`.
  StatusOr<stats::SimResult> run(const isa::Program &program, uint64_t mostCycles = systemc::SimOptions().maxCycles) {
    if (!state) // one for all programs: its memories are large
      state = std::make_unique<core::MachineState>(machine);
    if (std::optional<std::string> problem = state->load(program))
      return userError(*problem);
    systemc::SimOptions timing;
    timing.timingOnly = true;
    timing.maxCycles = mostCycles;
    return systemc::SystemCModel().run(program, *state, timing);
  }

private:
  const timing::MachineParams machine;
  std::unique_ptr<core::MachineState> state;
};

/// A model in the compiler.
struct Module {
  /// Freed last.
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  pipeline::CompileOptions options;
  std::unique_ptr<TuningCache> cache;
  std::vector<TensorSpec> inputs, outputs;
  Precision precision = Precision::Single; ///< as in Network
  std::vector<std::string> nodes;          ///< of an ONNX model, all of them
  std::string planPath;                    ///< empty if --schedule names a schedule of the compiler
  PhaseTexts *phases = nullptr;            ///< where texts of phases are wanted

  /// An error of the compiler: it is the plan file's if it says so, else the model's.
  Error errorOf(llvm::Error error, const std::string &model) const {
    std::string message = llvm::toString(std::move(error));
    bool named = !planPath.empty() && message.rfind(planPath + ":", 0) == 0;
    return fromLlvm(llvm::createStringError("%s", message.c_str()), named ? "" : model);
  }
};

/// Of numbers of this element type.
Precision precisionOf(mlir::Type type) {
  auto shaped = mlir::dyn_cast<mlir::ShapedType>(type);
  const mlir::Type element = shaped ? shaped.getElementType() : type;
  return element.isBF16() ? Precision::Bfloat : element.isF16() ? Precision::Half : Precision::Single;
}

/// What values go through before anything is optimised. A program that comes as such says nothing but the machine's type.
Precision precisionOf(mlir::ModuleOp module, const timing::MachineParams *machine) {
  Precision coarsest = machine && machine->arrayType == timing::ArrayType::Bf16 ? Precision::Bfloat : Precision::Single;
  module.walk([&](mlir::Operation *op) {
    if (mlir::isa<graph::QuantizeOp, graph::DequantizeOp, graph::RequantizeOp, graph::QLinearAddOp, graph::QLinearAveragePoolOp,
                  graph::QLinearGlobalAveragePoolOp, graph::QLinearSoftmaxOp, mlir::arith::FPToSIOp, mlir::arith::FPToUIOp>(op))
      coarsest = Precision::Quantised;
    for (mlir::Type type : op->getResultTypes())
      coarsest = std::max(coarsest, precisionOf(type));
    for (mlir::Region &region : op->getRegions())
      for (mlir::Type type : region.getArgumentTypes())
        coarsest = std::max(coarsest, precisionOf(type));
  });
  return coarsest;
}

StatusOr<accel::Schedule> scheduleOf(const std::string &name) {
  if (std::optional<accel::Schedule> schedule = accel::scheduleNamed(name))
    return *schedule;
  std::string names;
  for (const char *known : accel::kScheduleNames)
    names += (names.empty() ? "" : ", ") + std::string(known);
  return userError("schedule is '" + name + "' but must be one of " + names + ", or a plan file (.mlir)");
}

/// Keeps the texts of phases that are wanted. Those that come again, for another schedule, replace the first.
pipeline::PhaseHook keepTexts(PhaseTexts &phases) {
  return [&phases](pipeline::Phase phase, llvm::function_ref<std::string(bool)> text) {
    const std::string name = pipeline::kPhaseNames[size_t(phase)];
    if (llvm::is_contained(phases.wanted, name))
      phases.texts[name] = text(phases.elide);
  };
}

/// --priority: a value of the knob, or a function of a plug-in.
Status setPriority(const NetworkOptions &options, pipeline::CompileOptions &result) {
  if (options.priority.empty())
    return {};
  if (!accel::overlapsKernels(result.schedule))
    return userError("--priority " + options.priority + " is for the schedules pipelined and search, not " +
                     accel::nameOf(result.schedule));
  if (options.across == "none")
    return userError("--priority " + options.priority + " is for --across prefetch and all: layers that drain have one order");
  if (result.network.priority)
    return userError("--priority " + options.priority + " and knob priority of " + options.schedule + " exclude each other");
  std::string names;
  for (plan::Priority priority : {plan::Priority::ProgramOrder, plan::Priority::Alap, plan::Priority::Interleaved}) {
    names += (names.empty() ? "" : ", ") + std::string(plan::nameOf(priority));
    if (options.priority == plan::nameOf(priority)) {
      result.network.priority = priority;
      return {};
    }
  }
  result.priority = schedule::priorities().find(options.priority);
  for (const std::string &name : schedule::priorities().names())
    names += ", " + name;
  if (!result.priority)
    return userError("--priority is '" + options.priority + "' but must be one of " + names +
                     "; a plug-in may add others (docs/plugins.md)");
  result.priorityName = options.priority;
  result.network.priority = plan::Priority::ProgramOrder; // buffers lie as for the simplest order
  return {};
}

/// --cost-model: the compiler's own, or one of a plug-in.
Status setCostModel(const NetworkOptions &options, pipeline::CompileOptions &result) {
  if (options.costModel.empty())
    return {};
  if (const cost::CostModel *model = cost::costModels().find(options.costModel)) {
    result.costModel = model;
    return {};
  }
  std::string names;
  for (const std::string &name : cost::costModels().names())
    names += (names.empty() ? "" : ", ") + name;
  return userError("--cost-model is '" + options.costModel + "' but must be one of " + names +
                   "; a plug-in may add others (docs/plugins.md)");
}

/// Phase import. `machine` may be null: then the module is for the CPU.
StatusOr<Module> import(const std::string &model, ModelKind kind, const NetworkOptions &options,
                        const timing::MachineParams *machine, PhaseTexts *phases = nullptr) {
  Module result;
  result.phases = phases;
  if (phases)
    result.options.afterPhase = keepTexts(*phases);
  // What a model in text may hold; passes load what they make themselves.
  mlir::DialectRegistry registry;
  registry.insert<graph::GraphDialect, mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect,
                  mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  result.context = std::make_unique<mlir::MLIRContext>(registry);
  StatusOr<accel::Schedule> schedule = accel::Schedule::Pipelined;
  if (plan::isPlanFile(options.schedule)) {
    llvm::Expected<plan::PlanFile> file = plan::readPlanFile(*result.context, options.schedule);
    if (!file)
      return fromLlvm(file.takeError(), options.schedule);
    result.planPath = options.schedule;
    schedule = file->schedule;
    result.options.network = file->network;
    result.options.graph = file->graph;
    result.options.planFile = std::make_shared<plan::PlanFile>(std::move(*file));
  } else {
    schedule = scheduleOf(options.schedule);
  }
  if (!schedule)
    return schedule.error();
  if (options.searchAgain && *schedule != accel::Schedule::Search)
    return userError(options.schedule + ": the schedule is " + accel::nameOf(*schedule) +
                     ", and only search can be tuned: give plan.network schedule = \"search\"");
  result.options.machine = machine;
  result.options.schedule = *schedule;
  auto across = std::find(acrossNames().begin(), acrossNames().end(), options.across);
  if (across == acrossNames().end())
    return userError("across is '" + options.across + "' but must be one of none, prefetch, all");
  if (options.across != "all" && *schedule != accel::Schedule::Pipelined && *schedule != accel::Schedule::Search)
    return userError("--across " + options.across + " is for the schedules pipelined and search, not " +
                     accel::nameOf(*schedule));
  result.options.across = pipeline::Across(across - acrossNames().begin());
  if (!options.order.empty()) {
    const auto order = llvm::find(orderNames(), options.order);
    if (order == orderNames().end())
      return userError("order is '" + options.order + "' but must be model or memory");
    if (result.options.graph.order)
      return userError("--order " + options.order + " and 'order' of " + options.schedule + " exclude each other");
    result.options.graph.order = plan::KernelOrder(order - orderNames().begin());
  }
  if (Status status = setPriority(options, result.options); !status)
    return status.error();
  if (Status status = setCostModel(options, result.options); !status)
    return status.error();
  result.options.explain = options.explain;
  result.options.math = options.math;
  result.options.openClDevice = options.openClDevice;
  result.options.rules = options.rules;
  result.options.cpu.math = options.math;
  result.options.cpu.processor = options.processor;
  for (const std::string &name : options.targets) {
    const pipeline::Target *target = pipeline::targetNamed(name);
    if (!target)
      return userError("target is '" + name + "' but must be one of " + pipeline::targetNames());
    if (llvm::is_contained(result.options.targets, target))
      return userError("target '" + name + "' is named twice");
    result.options.targets.push_back(target);
  }
  result.options.import = options.import;
  if (options.maxInstructions)
    result.options.maxInstructions = options.maxInstructions;
  if (machine && *schedule == accel::Schedule::Search) {
    result.options.search.budget = options.searchBudget;
    result.options.search.seed = options.searchSeed;
    result.options.search.jobs = llvm::hardware_concurrency(options.searchJobs).compute_thread_count();
    result.options.search.takeBest = !options.searchAgain;
    if (!options.cacheFolder.empty()) {
      StatusOr<std::unique_ptr<TuningCache>> cache = TuningCache::open(options.cacheFolder, *machine);
      if (!cache)
        return cache.error();
      result.cache = std::move(*cache);
      result.options.search.cache = result.cache.get();
    }
    result.options.search.progress = options.progress;
    result.options.search.evaluate = [simulator = std::make_shared<TimingSimulator>(*machine)](
                                         const isa::Program &program) -> llvm::Expected<pipeline::Measurement> {
      StatusOr<stats::SimResult> run = simulator->run(program);
      if (!run)
        return llvm::createStringError("internal: a program of the search does not load: %s", run.error().message.c_str());
      if (run->fault)
        return llvm::createStringError("internal: a program of the search does not run: %s", run->fault->str().c_str());
      return pipeline::Measurement{run->totalCycles, stats::endAdvances(*run), ""};
    };
  }
  if (kind == ModelKind::Inline) {
    StatusOr<InlineKernel> kernel = parseInlineKernel(model);
    if (!kernel)
      return kernel.error();
    if (machine && machine->arrayType != kernel->type)
      return userError("kernel '" + model + "' is " + hwconfigs::typeName(kernel->type) + " but the array of machine '" +
                       machine->name + "' multiplies " + hwconfigs::typeName(machine->arrayType));
    result.module = buildInlineKernel(*result.context, *kernel, options.seed);
    if (machine) // who names a kernel asks what the machine does with it
      result.options.targets = {pipeline::targetNamed(graph::kAccelTarget)};
  } else {
    if (kind != ModelKind::Onnx && !(options.import.constants.empty() && options.import.values.empty()))
      return userError(model + ": --const is for ONNX models");
    auto module = options.modelBytes ? frontend::importOnnx(*result.context, *options.modelBytes, model, options.import)
                                     : pipeline::importModel(*result.context, model, result.options);
    if (!module)
      return fromLlvm(module.takeError(), model);
    result.module = std::move(*module);
  }
  if (llvm::Error error = pipeline::endPhase(pipeline::Phase::Import, *result.module, result.options))
    return fromLlvm(std::move(error), model);
  result.precision = precisionOf(*result.module, machine);
  auto mainFunction = result.module->lookupSymbol<mlir::func::FuncOp>("main");
  if (!mainFunction || mainFunction.isExternal())
    return userError(model + ": the module has no function @main");
  if (auto names = mainFunction->getAttrOfType<mlir::ArrayAttr>(graph::kModelNodesAttr))
    for (auto name : names.getAsRange<mlir::StringAttr>())
      result.nodes.push_back(name.getValue().str());
  for (mlir::BlockArgument argument : mainFunction.getArguments()) {
    unsigned i = argument.getArgNumber();
    StatusOr<TensorSpec> spec = specOf(argument.getType(), mainFunction.getArgAttrDict(i), "input" + std::to_string(i));
    if (!spec)
      return spec.error();
    result.inputs.push_back(std::move(*spec));
  }
  for (auto [i, type] : llvm::enumerate(mainFunction.getResultTypes())) {
    StatusOr<TensorSpec> spec = specOf(type, mainFunction.getResultAttrDict(unsigned(i)), "output" + std::to_string(i));
    if (!spec)
      return spec.error();
    result.outputs.push_back(std::move(*spec));
  }
  return result;
}

/// A network without the code of its CPU kernels, and what only `compile --emit` shows of its last program.
struct Compilation {
  Network network;
  mlir::OwningOpRef<mlir::ModuleOp> module; ///< in linalg
  std::string tilesText, planText;
  std::map<std::string, plan::KernelPlan> plans; ///< of the kernels of all programs

  bool hasPrograms() const {
    return llvm::any_of(network.steps, [](const Step &step) { return step.program.has_value(); });
  }
};

/// The nodes that a run evaluates behind all steps.
std::vector<Offload> remainderReport(const frontend::Remainder &remainder) {
  std::vector<Offload> nodes;
  for (const frontend::Remainder::Node &node : remainder.nodes)
    nodes.push_back({node.name, pipeline::targetNamed(graph::kCpuTarget)->title().str(), node.reason});
  return nodes;
}

using SourcesOfProgram = std::pair<std::vector<pipeline::Sources>, std::vector<pipeline::Sources>>;

/// Says what each layer and kernel reads. `programs`: sources of layers and of outputs, of each program.
void connectLayers(Network &network, const std::vector<SourcesOfProgram> &programs) {
  size_t numLayers = 0, layersBefore = 0, program = 0;
  for (const Step &step : network.steps)
    numLayers += step.program ? step.program->layers.size() : 0;
  size_t nextKernel = numLayers;
  std::vector<std::vector<size_t>> makers(network.values.size()); // of each value
  auto add = [](std::vector<size_t> &to, const std::vector<size_t> &more) {
    to.insert(to.end(), more.begin(), more.end());
    llvm::sort(to);
    to.erase(llvm::unique(to), to.end());
  };
  for (Step &step : network.steps) {
    if (!step.program) {
      std::vector<size_t> reads;
      for (unsigned value : step.inputs)
        add(reads, makers[value]);
      if (!step.kernel.empty()) {
        step.reads = std::move(reads);
        reads = {nextKernel++};
      }
      for (unsigned value : step.outputs)
        makers[value] = reads;
      continue;
    }
    auto readsOf = [&](const pipeline::Sources &sources) {
      std::vector<size_t> reads;
      for (unsigned layer : sources.layers)
        reads.push_back(layersBefore + layer);
      for (unsigned input : sources.inputs)
        if (input < step.inputs.size())
          add(reads, makers[step.inputs[input]]);
      return reads;
    };
    const auto &[layers, outputs] = programs[program++];
    for (const pipeline::Sources &sources : layers)
      network.layerReads.push_back(readsOf(sources));
    const size_t layersAfter = layersBefore + step.program->layers.size();
    network.layerReads.resize(layersAfter); // an empty network has a layer of its own
    for (size_t i = 0; i < std::min(outputs.size(), step.outputs.size()); ++i)
      makers[step.outputs[i]] = readsOf(outputs[i]);
    layersBefore = layersAfter;
  }
}

/// What the compiler made, as steps.
Status addSteps(Module &module, pipeline::CompiledModel model, Compilation &compilation) {
  Network &network = compilation.network;
  network.targets.clear();
  for (const pipeline::Target *target : pipeline::targetsOf(module.options))
    network.targets.push_back(target->title().str());
  std::vector<Offload> kernels; // an entry for each node of each
  auto report = [&] {
    std::vector<Offload> rest = remainderReport(network.remainder);
    kernels.insert(kernels.end(), rest.begin(), rest.end());
    network.offload = nodeReport(module.nodes, kernels, network.targets);
  };
  network.peak = model.peak;
  std::vector<SourcesOfProgram> sources;
  network.macs = 0;
  network.lowerBoundCycles = 0;
  network.layerSerialCycles = 0;
  network.lowerBoundBytes = 0;
  auto addProgram = [&](const pipeline::Target &target, pipeline::CompiledNetwork &compiled, std::vector<unsigned> inputs,
                        std::vector<unsigned> outputs) {
    *network.macs += compiled.macs;
    *network.lowerBoundCycles += compiled.lowerBoundCycles;
    *network.layerSerialCycles += compiled.layerSerialCycles;
    *network.lowerBoundBytes += compiled.lowerBoundBytes;
    network.layerTraffic.insert(network.layerTraffic.end(), compiled.layerTraffic.begin(), compiled.layerTraffic.end());
    size_t layersBefore = 0;
    for (const Step &step : network.steps)
      layersBefore += step.program ? step.program->layers.size() : 0;
    for (auto [first, last] : compiled.groups)
      network.groups.push_back({layersBefore + first, layersBefore + last});
    for (size_t i = 0; i < compiled.choices.size(); ++i)
      network.tiles.push_back({compiled.choices[i], compiled.tileBytes[i]});
    network.boundBy = compiled.boundBy;
    network.notes.insert(network.notes.end(), compiled.notes.begin(), compiled.notes.end());
    if (compiled.search)
      network.searches.push_back(*compiled.search);
    for (const pipeline::OffloadEntry &entry : compiled.offload)
      kernels.push_back({entry.node, target.title().str(), entry.reason});
    sources.push_back({std::move(compiled.layerSources), std::move(compiled.outputSources)});
    for (auto [layer, plan] : llvm::zip(compiled.program.layers, compiled.chosen.kernels))
      compilation.plans[layer.name] = plan;
    compilation.tilesText = std::move(compiled.tilesText);
    compilation.planText = std::move(compiled.planText);
    Step step;
    step.program = std::move(compiled.program);
    step.plannedStarts = std::move(compiled.plannedStarts);
    step.inputs = std::move(inputs);
    step.outputs = std::move(outputs);
    network.steps.push_back(std::move(step));
  };

  auto addOpenCl = [&](const pipeline::Target &target, tw::opencl::Program &program, std::vector<unsigned> inputs,
                       std::vector<unsigned> outputs) {
    const size_t before = size_t(llvm::count_if(network.steps, [](const Step &step) { return bool(step.openCl); }));
    Step step;
    step.target = &target;
    step.kernel = target.name().str() + std::to_string(before);
    for (const tw::opencl::Step &kernel : program.steps)
      for (const std::string &node : kernel.nodes) {
        kernels.push_back({node, target.title().str(), "kernel " + kernel.name});
        if (!llvm::is_contained(step.nodes, node))
          step.nodes.push_back(node);
      }
    step.openCl = std::make_shared<tw::opencl::Program>(std::move(program));
    step.inputs = std::move(inputs);
    step.outputs = std::move(outputs);
    network.steps.push_back(std::move(step));
  };
  auto addRun = [&](const pipeline::Target &target, pipeline::CompiledRun &run, const std::vector<unsigned> &inputs,
                    const std::vector<unsigned> &outputs) {
    if (auto *compiled = std::get_if<pipeline::CompiledNetwork>(&run))
      addProgram(target, *compiled, inputs, outputs);
    else
      addOpenCl(target, std::get<tw::opencl::Program>(run), inputs, outputs);
  };

  if (model.target) {
    for (const TensorSpec &spec : module.inputs) {
      network.inputs.push_back(unsigned(network.values.size()));
      network.values.push_back(spec);
    }
    for (const TensorSpec &spec : module.outputs) {
      network.outputs.push_back(unsigned(network.values.size()));
      network.values.push_back(spec);
    }
    // Float16 is float16 on targets that have it.
    if (auto *program = std::get_if<tw::opencl::Program>(&model.programs.front())) {
      for (auto [value, tensor] : llvm::zip(network.inputs, program->inputs))
        network.values[value].isWidened &= tensor.element == tw::gpu::Element::F32;
      for (auto [value, tensor] : llvm::zip(network.outputs, program->outputs))
        network.values[value].isWidened &= tensor.element == tw::gpu::Element::F32;
    }
    addRun(*model.target, model.programs.front(), network.inputs, network.outputs);
    connectLayers(network, sources);
    report();
    return {};
  }

  const pipeline::Partition &parts = model.parts;
  for (auto [i, type] : llvm::enumerate(parts.values)) {
    StatusOr<TensorSpec> spec = specOf(type, {}, "value" + std::to_string(i));
    if (!spec)
      return spec.error();
    network.values.push_back(std::move(*spec));
  }
  network.inputs = parts.inputs;
  // Float16 is float16 on targets that have it.
  auto isWide = [&](unsigned value) { return parts.values[value].getElementType().isF32(); };
  for (auto [i, value] : llvm::enumerate(network.inputs)) {
    network.values[value] = module.inputs[i];
    network.values[value].isWidened &= isWide(value);
  }
  network.outputs = parts.outputs;
  size_t programs = 0;
  for (const pipeline::Segment &segment : parts.segments) {
    if (segment.module) {
      addRun(*segment.target, model.programs[programs++], segment.inputs, segment.outputs);
      continue;
    }
    Step step;
    step.target = segment.target;
    step.kernel = segment.kernel;
    step.reason = segment.reason;
    step.nodes = segment.nodes;
    step.operations = segment.operations;
    step.macs = segment.macs;
    step.inputs = segment.inputs;
    step.outputs = segment.outputs;
    network.steps.push_back(std::move(step));
    if (segment.kernel.empty())
      continue;
    const std::string title = segment.target->title().str();
    const std::string reason = segment.reason.empty() ? "kernel " + segment.kernel : segment.reason;
    if (segment.nodes.empty())
      kernels.push_back({segment.kernel, title, reason});
    for (const std::string &node : segment.nodes)
      kernels.push_back({node, title, reason});
  }
  // Outputs that are inputs, or one value, are copies with names and types of their own. Integer types are the model's own.
  std::set<unsigned> taken(network.inputs.begin(), network.inputs.end());
  for (auto [i, value] : llvm::enumerate(network.outputs)) {
    const bool keepsWidth = isWide(value);
    if (!taken.insert(value).second) {
      Step copy;
      copy.inputs = {value};
      value = unsigned(network.values.size());
      network.values.push_back(module.outputs[i]);
      copy.outputs = {value};
      network.steps.push_back(std::move(copy));
    }
    network.values[value] = module.outputs[i];
    network.values[value].isWidened &= keepsWidth;
  }
  if (programs > 1)
    network.boundBy = "sum of " + std::to_string(programs) + " programs";
  connectLayers(network, sources);
  report();
  return {};
}

/// Programs that take longer are not run to choose between schedules.
constexpr uint64_t kMostJudgedCycles = 1000000;

/// Phases graph to program of an imported module, which is changed.
StatusOr<Compilation> compileImported(Module &module, const Network &named, bool oneProgram) {
  module.options.oneProgram = oneProgram;
  llvm::Expected<pipeline::CompiledModel> model = pipeline::compile(*module.module, module.options);
  if (!model)
    return module.errorOf(model.takeError(), named.model);
  Compilation compilation{named, {}, "", ""};
  if (Status status = addSteps(module, std::move(*model), compilation); !status)
    return status.error();
  compilation.module = std::move(module.module);
  return compilation;
}

/// The code of the kernels that this process calls.
Status compileLibraries(const Module &module, Compilation &compilation) {
  std::map<const pipeline::Target *, std::shared_ptr<pipeline::KernelLibrary>> libraries;
  for (Step &step : compilation.network.steps) {
    if (step.kernel.empty() || step.openCl)
      continue;
    std::shared_ptr<pipeline::KernelLibrary> &library = libraries[step.target];
    if (!library) {
      llvm::Expected<pipeline::Artefact> artefact =
          step.target->compile(*pipeline::kernelsFor(*compilation.module, *step.target), module.options);
      if (!artefact)
        return fromLlvm(artefact.takeError(), compilation.network.model);
      if (auto *compiled = std::get_if<std::shared_ptr<pipeline::KernelLibrary>>(&*artefact))
        library = *compiled;
      if (!library)
        return internalError("target '" + step.target->name().str() + "' makes no library of kernels");
    }
    step.library = library;
  }
  return {};
}

/// An error if parts of the network would not run on its first target, with all nodes of these parts.
Status refuseFallback(const Module &module, const Network &network) {
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.module.get().clone();
  pipeline::CompileOptions options = module.options;
  options.afterPhase = nullptr;
  if (llvm::Error error = pipeline::optimizeGraph(*copy, options))
    return module.errorOf(std::move(error), network.model);
  const std::vector<const pipeline::Target *> targets = pipeline::targetsOf(options);
  std::vector<std::string> titles;
  for (const pipeline::Target *target : targets)
    titles.push_back(target->title().str());
  std::vector<Offload> kernels = remainderReport(network.remainder);
  for (auto kernel : copy->getOps<mlir::func::FuncOp>()) {
    auto name = kernel->getAttrOfType<mlir::StringAttr>(graph::kTargetAttr);
    auto reason = kernel->getAttrOfType<mlir::StringAttr>(graph::kReasonAttr);
    if (!name || name.getValue() == targets.front()->name() || (reason && reason.getValue().starts_with(graph::kBetweenNodes)))
      continue;
    const std::string title = pipeline::targetNamed(name.getValue())->title().str(),
                      why = reason ? reason.getValue().str() : "";
    auto nodes = kernel->getAttrOfType<mlir::ArrayAttr>(graph::kNodesAttr);
    if (!nodes || nodes.empty())
      kernels.push_back({kernel.getName().str(), title, why});
    else
      for (auto node : nodes.getAsRange<mlir::StringAttr>())
        kernels.push_back({node.getValue().str(), title, why});
  }
  std::string list;
  size_t count = 0;
  std::set<std::string> named(module.nodes.begin(), module.nodes.end());
  std::vector<std::string> nodes = module.nodes;
  for (const Offload &kernel : kernels)
    if (named.insert(kernel.node).second)
      nodes.push_back(kernel.node);
  for (const Offload &entry : nodeReport(nodes, kernels, titles))
    if (entry.fellBack) {
      ++count;
      list += "\n  " + entry.node + ": " + entry.reason;
    }
  if (!count)
    return {};
  return userError(network.model + ": " + titles.front() + " does not take " + std::to_string(count) +
                   (count == 1 ? " node" : " nodes") + ", and --fallback is none:" + list);
}

/// The compiler's own model, which knows the cycles of programs by simulation without values, where that is soon done.
class SimulatingModel : public cost::ClosedForm {
public:
  explicit SimulatingModel(TimingSimulator &simulator) : simulator(simulator) {}
  std::optional<uint64_t> cyclesOfProgram(const isa::Program &program) const override {
    StatusOr<stats::SimResult> run = simulator.run(program, kMostJudgedCycles);
    return run && !run->fault ? std::optional(run->totalCycles) : std::nullopt;
  }

private:
  TimingSimulator &simulator;
};

/// The network under the schedule that is asked for. No estimate sees all that a program waits for, so pipelined and search are the fastest of
/// what they make and of simpler schedules: all are run for their cycles, where that is soon done. A plan file is taken by its word, and so
/// are `--across`, `--priority` and `--cost-model`, which say what the list scheduler may do and what choices go by.
StatusOr<Compilation> compileFastest(Module &module, const Network &named, const NetworkOptions &options) {
  using accel::Schedule;
  const Schedule asked = module.options.schedule;
  const bool isSearch = asked == Schedule::Search;
  TimingSimulator simulator(named.machine);
  const SimulatingModel simulating(simulator);
  if (options.costModel.empty())
    module.options.costModel = &simulating;
  auto forget = llvm::make_scope_exit([&] { module.options.costModel = &cost::closedForm(); });
  if (!accel::overlapsKernels(asked) || module.options.planFile || options.across != "all" || !options.priority.empty() ||
      !options.costModel.empty())
    return compileImported(module, named, options.oneProgram);

  mlir::OwningOpRef<mlir::ModuleOp> imported = std::move(module.module);
  auto compileAs = [&](Schedule schedule) {
    module.module = imported->clone();
    module.options.schedule = schedule;
    return compileImported(module, named, options.oneProgram);
  };
  const uint64_t most = isSearch ? systemc::SimOptions().maxCycles : kMostJudgedCycles;
  // Of all programs; nothing if they take longer, or do not run: then the run says why.
  auto cyclesOf = [&](const Network &network) -> std::optional<uint64_t> {
    uint64_t cycles = 0;
    for (const Step &step : network.steps)
      if (step.program) {
        StatusOr<stats::SimResult> run = simulator.run(*step.program, most - cycles);
        if (!run || run->fault || (cycles += run->totalCycles) > most)
          return std::nullopt;
      }
    return cycles;
  };

  ScheduleChoice choice;
  std::optional<Compilation> best;
  std::optional<uint64_t> leastCycles;
  std::map<std::string, std::string> bestTexts; // of its phases
  auto explain = [&](const char *schedule, std::optional<uint64_t> cycles, bool isTaken, const std::string &why) {
    if (!options.explain)
      return;
    explore::Proposal proposal{explore::kScheduleChoice, {}, {}, {}, isTaken, why};
    if (!choice.ran.empty())
      proposal.changes.push_back({"", "schedule", choice.ran, schedule});
    if (leastCycles)
      proposal.before = double(*leastCycles);
    if (cycles)
      proposal.after = double(*cycles);
    options.explain(proposal);
  };
  std::optional<Error> firstError;
  std::vector<pipeline::SearchResult> searches;
  std::vector<Schedule> candidates{asked};
  if (isSearch)
    candidates.push_back(Schedule::Pipelined);
  candidates.insert(candidates.end(), {Schedule::DoubleBuffer, Schedule::Serial});
  for (Schedule schedule : candidates) {
    const char *name = schedule == Schedule::Pipelined ? kListScheduled : accel::nameOf(schedule);
    StatusOr<Compilation> compilation = compileAs(schedule);
    if (!compilation) {
      if (compilation.error().kind == ErrorKind::Internal && schedule == asked)
        return compilation.error();
      choice.candidates.push_back({name, std::nullopt, compilation.error().message});
      explain(name, std::nullopt, false, compilation.error().message);
      if (!firstError)
        firstError = compilation.error();
      continue;
    }
    if (schedule == asked)
      searches = compilation->network.searches;
    if (!compilation->hasPrograms())
      return compilation;
    if (compilation->network.lowerBoundCycles.value_or(0) > most) { // so it is with any schedule
      choice.ran = name;
      choice.mostCycles = most;
      best = std::move(*compilation);
      break;
    }
    const std::optional<uint64_t> cycles = cyclesOf(compilation->network);
    const std::string why = cycles ? "" : "more than " + std::to_string(most) + " cycles";
    choice.candidates.push_back({name, cycles, why});
    const bool isTaken = !best || (cycles && (!leastCycles || *cycles < *leastCycles));
    explain(name, cycles, isTaken, why.empty() && !isTaken ? "it is no faster" : why);
    if (!isTaken)
      continue;
    choice.ran = name;
    leastCycles = cycles;
    best = std::move(*compilation);
    if (module.phases)
      bestTexts = module.phases->texts;
  }
  if (!best)
    return *firstError;
  if (module.phases && !bestTexts.empty())
    module.phases->texts = std::move(bestTexts);
  best->network.searches = std::move(searches);
  best->network.choice = std::move(choice);
  return std::move(*best);
}

/// Of a program where the accelerator is none of the targets.
Error noProgramFor(const std::vector<std::string> &targets, const std::string &model) {
  const std::string first = targets.empty() ? "" : targets.front();
  return userError(model + " is a program for an accelerator and cannot run on " +
                   (first == graph::kGpuTarget      ? "a GPU"
                    : first == graph::kOpenClTarget ? "a device of OpenCL"
                                                    : "the CPU"));
}

/// Text or image to a program that the machine can run.
StatusOr<Network> loadProgram(const std::string &model, ModelKind kind, const NetworkOptions &options) {
  if (plan::isPlanFile(options.schedule))
    return userError(model + " is a program already: no plan file can change it");
  Network network;
  network.model = model;
  Result<std::string> bytes = files::readFile(model);
  if (!bytes)
    return userError(bytes.message());
  auto machineFor = [&](const std::string &named) -> Status {
    std::string name = options.machine.empty() ? named : options.machine;
    if (name.empty())
      return userError(model + " names no machine: give one with --hw");
    StatusOr<timing::MachineParams> machine = loadMachine(name, options.overrides, network.notes, &network.technology);
    if (!machine)
      return machine.error();
    network.machine = std::move(*machine);
    return {};
  };
  Step step;
  if (kind == ModelKind::Assembly) {
    std::string named;
    if (options.machine.empty()) {
      // Only to learn the machine's name: what else is wrong is reported below, with the machine's limits.
      Result<isa::Program> program = isa::assemble(*bytes, model);
      if (!program)
        return userError(program.message());
      named = program->machine;
    }
    if (Status status = machineFor(named); !status)
      return status.error();
    Result<isa::Program> program = isa::assemble(*bytes, model, &network.machine);
    if (!program)
      return userError(program.message());
    step.program = std::move(*program);
  } else {
    Result<isa::Program> program = isa::deserialize({bytes->begin(), bytes->end()}, model);
    if (!program)
      return userError(program.message());
    if (Status status = machineFor(program->machine); !status)
      return status.error();
    step.program = std::move(*program);
  }
  isa::Program &program = *step.program;
  // Reports and messages show them.
  for (isa::Layer &layer : program.layers) {
    layer.name = printable(layer.name);
    for (std::string &node : layer.nodes)
      node = printable(node);
  }
  for (std::vector<isa::TensorInfo> *tensors : {&program.inputs, &program.outputs})
    for (isa::TensorInfo &tensor : *tensors)
      tensor.name = printable(tensor.name);
  if (program.architecturalDigest != timing::architecturalDigest(network.machine))
    return userError(model + ": the program was made for machine '" + program.machine + "', whose architecture differs from '" +
                     network.machine.name + "': compile it again with --hw");
  if (program.timingDigest != timing::timingDigest(network.machine))
    network.notes.push_back("the program was made for other latencies, clocks or DRAM than those of '" + network.machine.name +
                            "': its results hold, its schedule may be unwise");
  Diagnostics problems = isa::verify(program, network.machine, model);
  if (!problems.empty())
    return userError(Result<int>(problems).message());
  network.precision = network.machine.arrayType == timing::ArrayType::Int8   ? Precision::Quantised
                      : network.machine.arrayType == timing::ArrayType::Bf16 ? Precision::Bfloat
                                                                             : Precision::Single;
  uint64_t macs = 0;
  network.targets = {pipeline::targetNamed(graph::kAccelTarget)->title().str()};
  std::vector<Offload> kernels;
  for (const isa::Layer &layer : program.layers) {
    macs += layer.macs;
    for (const std::string &node : layer.nodes)
      kernels.push_back({node, network.targets.front(), "layer " + layer.name});
  }
  network.offload = nodeReport({}, kernels, network.targets);
  if (macs)
    network.macs = macs;
  for (const isa::TensorInfo &info : program.inputs) {
    step.inputs.push_back(unsigned(network.values.size()));
    network.values.push_back(runtime::specOf(info));
  }
  for (const isa::TensorInfo &info : program.outputs) {
    step.outputs.push_back(unsigned(network.values.size()));
    network.values.push_back(runtime::specOf(info));
  }
  network.inputs = step.inputs;
  network.outputs = step.outputs;
  network.steps.push_back(std::move(step));
  return network;
}

} // namespace

Status runtime::checkModel(const std::string &model) {
  StatusOr<ModelKind> kind = classify(model);
  return kind ? Status() : kind.error();
}

bool runtime::isProgramFile(const std::string &model) {
  std::string suffix = std::filesystem::path(model).extension();
  return !isInlineKernel(model) && (suffix == ".tasm" || suffix == ".twp");
}

std::string runtime::fileStem(const std::string &model) {
  if (!isInlineKernel(model))
    return std::filesystem::path(model).stem();
  std::string stem = model;
  std::replace(stem.begin(), stem.end(), ':', '-');
  return stem;
}

std::vector<Offload> runtime::nodeReport(const std::vector<std::string> &nodes, const std::vector<Offload> &kernels,
                                         const std::vector<std::string> &targets) {
  struct Place {
    size_t target = 0; ///< index into targets
    std::vector<std::string> reasons;
  };
  std::map<std::string, Place> places;
  std::vector<std::string> named;
  for (const Offload &kernel : kernels) {
    auto [entry, isNew] = places.try_emplace(kernel.node);
    if (isNew)
      named.push_back(kernel.node);
    Place &place = entry->second;
    const size_t target = size_t(llvm::find(targets, kernel.target) - targets.begin());
    if (target > place.target)
      place = {target, {}};
    if (target == place.target && !llvm::is_contained(place.reasons, kernel.reason))
      place.reasons.push_back(kernel.reason);
  }
  std::vector<Offload> report;
  for (const std::string &node : nodes.empty() ? named : nodes) {
    auto entry = places.find(node);
    if (entry == places.end())
      report.push_back(
          {node, "folded", "no kernel computes it: its result is a constant, the bytes of another tensor, or not read"});
    else
      report.push_back(
          {node, targets.at(entry->second.target), llvm::join(entry->second.reasons, ", "), entry->second.target > 0});
  }
  return report;
}

const std::vector<std::string> &runtime::scheduleNames() {
  static const std::vector<std::string> names(std::begin(accel::kScheduleNames), std::end(accel::kScheduleNames));
  return names;
}

const std::vector<std::string> &runtime::acrossNames() {
  static const std::vector<std::string> names(std::begin(pipeline::kAcrossNames), std::end(pipeline::kAcrossNames));
  return names;
}

const std::vector<std::string> &runtime::orderNames() {
  static const std::vector<std::string> names(std::begin(plan::kKernelOrderNames), std::end(plan::kKernelOrderNames));
  return names;
}

const std::vector<std::string> &runtime::phaseNames() {
  static const std::vector<std::string> names(std::begin(pipeline::kPhaseNames), std::end(pipeline::kPhaseNames));
  return names;
}

Error runtime::compilerError(std::string message, const std::string &where) {
  const bool ours = llvm::StringRef(message).starts_with(text::kInternal);
  if (ours)
    message.erase(0, text::kInternal.size());
  if (!where.empty() && message.rfind(where, 0) != 0)
    message = where + ": " + message;
  return ours ? internalError(message) : userError(message);
}

StatusOr<timing::MachineParams> runtime::loadMachine(const std::string &machine, const std::vector<std::string> &overrides,
                                                     std::vector<std::string> &notes, std::string *technology) {
  Diagnostics warnings;
  Result<timing::MachineParams> result = hwconfigs::loadMachine(machine, overrides, &warnings, technology);
  for (const Diagnostic &warning : warnings)
    notes.push_back(warning.str());
  return fromResult(std::move(result));
}

std::optional<std::string> runtime::whyNotCompiled(const timing::MachineParams &machine) {
  Network network;
  network.machine = machine;
  network.model = "gemm:1x" + std::to_string(machine.cols) + "x" + std::to_string(machine.rows) + ":" +
                  hwconfigs::typeName(machine.arrayType);
  NetworkOptions options;
  options.schedule = accel::nameOf(accel::Schedule::Serial);
  StatusOr<Module> module = import(network.model, ModelKind::Inline, options, &machine);
  if (!module)
    return module.error().message;
  StatusOr<Compilation> compilation = compileImported(*module, network, /*oneProgram=*/false);
  return compilation ? std::nullopt : std::optional<std::string>(compilation.error().message);
}

StatusOr<Network> runtime::loadNetwork(const std::string &model, const NetworkOptions &options) {
  auto begin = std::chrono::steady_clock::now();
  StatusOr<ModelKind> kind = classify(model, options);
  if (!kind)
    return kind.error();
  if (isProgram(*kind))
    return options.targets.empty() || llvm::is_contained(options.targets, graph::kAccelTarget)
               ? loadProgram(model, *kind, options)
               : StatusOr<Network>(noProgramFor(options.targets, model));
  const bool needsMachine = options.targets.empty() || llvm::is_contained(options.targets, graph::kAccelTarget);
  if (options.machine.empty() && needsMachine)
    return userError("a machine is needed to compile " + model + ": give one with --hw (see 'tilewright hw list')");
  Network network;
  network.model = model;
  network.schedule = options.schedule;
  auto say = [&](bool isSet, const std::string &option) { network.schedule += isSet ? " (" + option + ")" : ""; };
  say(options.across != "all", "across " + options.across);
  say(options.math != graph::Math::Exact, std::string(graph::kMathNames[size_t(options.math)]) + " math");
  say(options.rules.set != graph::RuleSet::All, "rules " + std::string(graph::kRuleSetNames[size_t(options.rules.set)]));
  for (const std::string &rule : options.rules.disabled)
    say(true, "without " + rule);
  if (!options.machine.empty()) {
    StatusOr<timing::MachineParams> machine =
        loadMachine(options.machine, options.overrides, network.notes, &network.technology);
    if (!machine)
      return machine.error();
    network.machine = std::move(*machine);
  }
  NetworkOptions asked = options;
  if (!options.oneProgram)
    asked.import.remainder = &network.remainder;
  asked.import.leavesConstantResults = !needsMachine;
  StatusOr<Module> module = import(model, *kind, asked, options.machine.empty() ? nullptr : &network.machine);
  if (!module)
    return module.error();
  network.options = std::make_shared<const NetworkOptions>(options);
  auto main = module->module->lookupSymbol<mlir::func::FuncOp>("main");
  if (!options.fallsBack)
    if (Status status = refuseFallback(*module, network); !status)
      return status.error();
  if (main.getNumResults() == 0 && network.remainder) {
    // Nothing is known before a run.
    for (const TensorSpec &spec : module->inputs) {
      network.inputs.push_back(unsigned(network.values.size()));
      network.values.push_back(spec);
    }
    for (const pipeline::Target *target : pipeline::targetsOf(module->options))
      network.targets.push_back(target->title().str());
    network.offload = nodeReport(module->nodes, remainderReport(network.remainder), network.targets);
    network.precision = module->precision;
    return network;
  }
  StatusOr<Compilation> compilation =
      needsMachine ? compileFastest(*module, network, options) : compileImported(*module, network, options.oneProgram);
  if (!compilation)
    return compilation.error();
  if (Status status = compileLibraries(*module, *compilation); !status)
    return status.error();
  network = std::move(compilation->network);
  if (options.keepsPlan)
    network.planText = std::move(compilation->planText);
  network.precision = module->precision;
  if (module->cache)
    network.notes.insert(network.notes.end(), module->cache->notes().begin(), module->cache->notes().end());
  network.compileSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return network;
}

StatusOr<OffloadCheck> runtime::checkOffload(const std::string &model, const NetworkOptions &options) {
  const auto begin = std::chrono::steady_clock::now();
  StatusOr<ModelKind> kind = classify(model, options);
  if (!kind)
    return kind.error();
  if (isProgram(*kind))
    return userError(model + " is a program already: all of it is for the accelerator");
  OffloadCheck check;
  std::optional<timing::MachineParams> machine;
  if (!options.machine.empty()) {
    StatusOr<timing::MachineParams> loaded = loadMachine(options.machine, options.overrides, check.notes);
    if (!loaded)
      return loaded.error();
    machine = std::move(*loaded);
  }
  frontend::Remainder remainder;
  NetworkOptions asked = options;
  asked.import.remainder = &remainder;
  asked.import.leavesConstantResults = !machine;
  StatusOr<Module> module = import(model, *kind, asked, machine ? &*machine : nullptr);
  if (!module)
    return module.error();
  for (const pipeline::Target *target : pipeline::targetsOf(module->options))
    check.targets.push_back(target->title().str());
  for (const std::string &node : module->nodes)
    check.nodes.push_back({node, "", {}, {}});
  auto main = module->module->lookupSymbol<mlir::func::FuncOp>("main");
  if (auto types = main->getAttrOfType<mlir::ArrayAttr>(graph::kModelOperatorsAttr))
    for (auto [node, type] : llvm::zip(check.nodes, types.getAsRange<mlir::StringAttr>()))
      node.op = type.getValue().str();
  if (main.getNumResults() > 0) { // else nothing is known before a run
    if (llvm::Error error = pipeline::optimizeGraph(*module->module, module->options))
      return fromLlvm(std::move(error), model);
    if (std::vector<graph::UnsupportedNode> nowhere = graph::findUnsupported(*module->module); !nowhere.empty())
      return userError(model + ": " + graph::describeUnsupported(nowhere));
  }
  std::vector<std::string> reads;
  for (const std::string &name : remainder.results)
    if (llvm::none_of(remainder.outputs, [&](const auto &port) { return port.name == name; }))
      reads.push_back(name);
  addKernels(check, *module->module, remainderReport(remainder), reads);
  check.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return check;
}

/// The loops of a network for the CPU or a GPU, none of them for an accelerator. `macs`: its useful multiply-accumulates, where the graph says them.
static StatusOr<Module> lowerForHost(const std::string &model, const NetworkOptions &options,
                                     std::optional<uint64_t> *macs = nullptr) {
  StatusOr<ModelKind> kind = classify(model);
  if (!kind)
    return kind.error();
  if (isProgram(*kind))
    return noProgramFor(options.targets, model);
  StatusOr<Module> module = import(model, *kind, options, nullptr);
  if (!module)
    return module.error();
  if (llvm::Error error = pipeline::optimizeGraph(*module->module, module->options))
    return fromLlvm(std::move(error), model);
  if (macs && pipeline::hasGraphOps(*module->module))
    *macs = countMacs(*module->module);
  if (llvm::Error error = pipeline::lowerToLinalg(*module->module, module->options))
    return fromLlvm(std::move(error), model);
  return module;
}

StatusOr<CpuNetwork> runtime::loadOnCpu(const std::string &model, const NetworkOptions &options, unsigned threads) {
  CpuNetwork network;
  NetworkOptions asked = options;
  frontend::Remainder remainder;
  asked.import.remainder = &remainder;
  StatusOr<Module> module = lowerForHost(model, asked, &network.macs);
  if (!module)
    return module.error();
  const bool isEvaluated =
      remainder || llvm::any_of(module->module->getOps<mlir::func::FuncOp>(),
                                [](mlir::func::FuncOp kernel) { return kernel->hasAttr(graph::kEvaluatedAttr); });
  if (isEvaluated) { // step by step
    NetworkOptions steps = options;
    steps.machine.clear();
    steps.targets = {graph::kCpuTarget.str()};
    StatusOr<Network> loaded = loadNetwork(model, steps);
    if (!loaded)
      return loaded.error();
    network.precision = loaded->precision;
    network.device = makeStepsDevice(std::move(*loaded));
    return network;
  }
  cpu::CpuOptions cpuOptions = module->options.cpu;
  cpuOptions.threads = threads;
  cpuOptions.math = options.math;
  auto executable = cpu::compileForCpu(*module->module, cpuOptions);
  if (!executable)
    return fromLlvm(executable.takeError(), model);
  std::map<std::string, std::vector<std::string>> nodes; // of each kernel
  for (auto kernel : module->module->getOps<mlir::func::FuncOp>())
    if (auto names = kernel->getAttrOfType<mlir::ArrayAttr>(graph::kNodesAttr))
      for (auto name : names.getAsRange<mlir::StringAttr>())
        nodes[kernel.getName().str()].push_back(name.getValue().str());
  network.precision = module->precision;
  network.device =
      makeCpuDevice(std::move(*executable), std::move(module->inputs), std::move(module->outputs), std::move(nodes));
  return network;
}

std::vector<std::string> runtime::targetNames() {
  std::vector<std::string> names;
  for (const pipeline::Target *target : pipeline::targets())
    names.push_back(target->name().str());
  return names;
}

/// A whole network for the one target of its options. Its inputs and outputs get the model's names.
template <typename Program>
static StatusOr<Program> compileWhole(const std::string &model, Module &module, NetworkInterface *interface) {
  llvm::Expected<pipeline::Artefact> artefact = module.options.targets.front()->compile(*module.module, module.options);
  if (!artefact)
    return fromLlvm(artefact.takeError(), model);
  Program program = std::move(std::get<Program>(*artefact));
  auto describe = [](std::vector<tw::gpu::Tensor> &tensors, std::vector<TensorSpec> &specs) {
    for (auto [tensor, spec] : llvm::zip(tensors, specs)) {
      tensor.name = spec.name;
      spec.isWidened &= tensor.element == tw::gpu::Element::F32;
    }
  };
  describe(program.inputs, module.inputs);
  describe(program.outputs, module.outputs);
  if (interface)
    *interface = {module.inputs, module.outputs, module.precision};
  return program;
}

/// An error that names all nodes which the host would evaluate: no code is made for them.
static Status refuseEvaluated(const std::string &model, const Module &module) {
  std::vector<std::string> nodes;
  for (auto kernel : module.module.get().getOps<mlir::func::FuncOp>())
    if (kernel->hasAttr(graph::kEvaluatedAttr))
      nodes.push_back(graph::placeOf((*kernel.getOps<graph::FallbackOp>().begin()).getLoc()));
  if (nodes.empty())
    return {};
  if (nodes.size() == 1)
    return userError(model + ": " + nodes.front() + " is evaluated by 'tilewright run', and no code is made for it");
  return userError(model + ": " + std::to_string(nodes.size()) +
                   " nodes are evaluated by 'tilewright run', and no code is made for them:\n  " + llvm::join(nodes, "\n  "));
}

StatusOr<tw::gpu::Program> runtime::compileOnGpu(const std::string &model, const NetworkOptions &options,
                                                 NetworkInterface *interface, bool keepsLlvm) {
  NetworkOptions asked = options;
  asked.targets = {graph::kGpuTarget.str()};
  StatusOr<Module> module = lowerForHost(model, asked);
  if (!module)
    return module.error();
  module->options.gpuArchitecture = options.gpuArchitecture;
  module->options.keepsGpuLlvm = keepsLlvm;
  return compileWhole<tw::gpu::Program>(model, *module, interface);
}

StatusOr<tw::opencl::Program> runtime::compileOnOpenCl(const std::string &model, const NetworkOptions &options,
                                                       NetworkInterface *interface) {
  NetworkOptions asked = options;
  asked.targets = {graph::kOpenClTarget.str(), graph::kCpuTarget.str()}; // what goes to the CPU is refused by name
  StatusOr<Module> module = lowerForHost(model, asked);
  if (!module)
    return module.error();
  if (Status status = refuseEvaluated(model, *module); !status)
    return status.error();
  return compileWhole<tw::opencl::Program>(model, *module, interface);
}

/// Tensors as headers for C programs describe them.
static std::vector<cpu::BundleTensor> describe(const std::vector<TensorSpec> &specs) {
  std::vector<cpu::BundleTensor> tensors;
  for (const TensorSpec &spec : specs)
    tensors.push_back({spec.name, spec.stored(), spec.shape, spec.isWidened ? "float16 in the model" : ""});
  return tensors;
}

StatusOr<tw::opencl::Bundle> runtime::compileOpenClBundle(const std::string &model, const NetworkOptions &options,
                                                          const std::string &name) {
  NetworkInterface interface;
  StatusOr<tw::opencl::Program> program = compileOnOpenCl(model, options, &interface);
  if (!program)
    return program.error();
  cpu::BundleOptions bundle;
  bundle.name = name;
  bundle.model = std::filesystem::path(model).filename();
  bundle.inputs = describe(interface.inputs);
  bundle.outputs = describe(interface.outputs);
  return tw::opencl::writeBundle(*program, bundle);
}

StatusOr<cpu::Bundle> runtime::compileBundle(const std::string &model, const NetworkOptions &options,
                                             const BundleRequest &request) {
  StatusOr<Module> module = lowerForHost(model, options);
  if (!module)
    return module.error();
  if (Status status = refuseEvaluated(model, *module); !status)
    return status.error();
  cpu::CpuOptions cpuOptions = module->options.cpu;
  cpuOptions.symbolPrefix = request.name + "_kernel_";
  // The program says when it runs how many threads there are: loops are divided for as many as most processors have.
  cpuOptions.threads = 16;
  cpu::BundleOptions bundleOptions;
  bundleOptions.name = request.name;
  bundleOptions.model = std::filesystem::path(model).filename();
  bundleOptions.inputs = describe(module->inputs);
  bundleOptions.outputs = describe(module->outputs);
  bundleOptions.separateWeights = request.separateWeights;
  bundleOptions.text = request.text;
  auto bundle = cpu::compileBundle(*module->module, cpuOptions, bundleOptions);
  if (!bundle)
    return fromLlvm(bundle.takeError(), model);
  return std::move(*bundle);
}

/// --emit fusion: the kernels of an imported module, and what the network plan keeps on chip where there is a machine.
static StatusOr<std::string> emitFusion(Module &module, const Network &named, const NetworkOptions &options) {
  if (!pipeline::hasGraphOps(*module.module))
    return userError(named.model + " has no operators any more: --emit fusion shows how these become kernels");
  pipeline::CompileOptions explaining = module.options;
  explaining.afterPhase = nullptr;
  explaining.explainsKernels = true;
  mlir::OwningOpRef<mlir::ModuleOp> graph = module.module->clone();
  if (llvm::Error error = pipeline::optimizeGraph(*graph, explaining))
    return module.errorOf(std::move(error), named.model);
  explaining.planFile = nullptr; // no plan of a kernel changes what is shown of it
  mlir::OwningOpRef<mlir::ModuleOp> lowered = graph->clone();
  memory::PeakMemory peak;
  if (llvm::Error error = pipeline::lowerToLinalg(*lowered, explaining, &peak))
    return module.errorOf(std::move(error), named.model);
  std::map<std::string, plan::KernelPlan> plans;
  if (module.options.machine) {
    NetworkOptions asked = options;
    asked.oneProgram = false;
    StatusOr<Compilation> compilation = compileFastest(module, named, asked);
    if (!compilation)
      return compilation.error();
    plans = std::move(compilation->plans);
    if (compilation->network.peak)
      peak = *compilation->network.peak;
  }
  pipeline::FusionPlan plan = pipeline::describeFusion(*graph, plans);
  plan.peak = peak;
  return pipeline::toText(plan);
}

StatusOr<std::string> runtime::emitPhase(const std::string &model, const NetworkOptions &options, const std::string &phase,
                                         bool elide, std::vector<std::string> &notes, PhaseTexts *before) {
  StatusOr<ModelKind> kind = classify(model);
  if (!kind)
    return kind.error();
  auto image = [](const isa::Program &program) {
    std::vector<uint8_t> bytes = isa::serialize(program);
    return std::string(bytes.begin(), bytes.end());
  };
  if (isProgram(*kind)) {
    if (phase != "isa" && phase != "program")
      return userError(model + " is a program already: --emit must be isa or program, not " + phase);
    StatusOr<Network> network = loadProgram(model, *kind, options);
    if (!network)
      return network.error();
    const isa::Program &program = *network->steps.front().program;
    return phase == "isa" ? isa::disassemble(program) : image(program);
  }
  std::optional<timing::MachineParams> machine;
  if (!options.machine.empty()) {
    StatusOr<timing::MachineParams> loaded = loadMachine(options.machine, options.overrides, notes);
    if (!loaded)
      return loaded.error();
    machine = std::move(*loaded);
  }
  StatusOr<Module> module = import(model, *kind, options, machine ? &*machine : nullptr, before);
  if (!module)
    return module.error();
  if (phase == "import")
    return pipeline::toText(*module->module, elide);
  if (phase == "graph" || phase == "linalg") {
    if (llvm::Error error = pipeline::optimizeGraph(*module->module, module->options))
      return fromLlvm(std::move(error), model);
    if (phase == "linalg")
      if (llvm::Error error = pipeline::lowerToLinalg(*module->module, module->options))
        return module->errorOf(std::move(error), model);
    return pipeline::toText(*module->module, elide);
  }
  Network named;
  named.model = model;
  if (machine)
    named.machine = *machine;
  if (phase == "fusion")
    return emitFusion(*module, named, options);
  if (!machine)
    return userError("phase " + phase + " needs a machine: give one with --hw (see 'tilewright hw list')");
  NetworkOptions asked = options;
  asked.oneProgram = true;
  StatusOr<Compilation> compilation = compileFastest(*module, named, asked);
  if (!compilation)
    return compilation.error();
  const std::vector<std::string> &found = compilation->network.notes;
  notes.insert(notes.end(), found.begin(), found.end());
  if (module->cache)
    notes.insert(notes.end(), module->cache->notes().begin(), module->cache->notes().end());
  if (phase == "tiles")
    return compilation->tilesText;
  if (phase == "plan")
    return compilation->planText;
  const isa::Program &program = *compilation->network.steps.front().program;
  return phase == "isa" ? isa::disassemble(program) : image(program);
}
