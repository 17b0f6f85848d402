//===- Compile.h - From a model to a program ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler's main path. The phases, in order: import, graph, linalg, plan,
// tiles, isa, program.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_COMPILE_H
#define COMPILER_PIPELINE_COMPILE_H

#include "compiler/codegen/accel/Codegen.h"
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/codegen/gpu/Program.h"
#include "compiler/codegen/opencl/Program.h"
#include "compiler/explore/Exploration.h"
#include "compiler/explore/KnobChanges.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/graph/Math.h"
#include "compiler/graph/transforms/Rules.h"
#include "compiler/pipeline/CallOrder.h"
#include "compiler/pipeline/Partition.h"
#include "compiler/pipeline/search/Search.h"
#include "compiler/plan/GraphPlan.h"
#include "compiler/plan/NetworkPlan.h"
#include "compiler/schedule/PriorityFunction.h"
#include "isa/Program.h"
#include "isa/timing/MachineParams.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <variant>

namespace tw::plan {
struct PlanFile;
} // namespace tw::plan

namespace tw::pipeline {

enum class Phase : uint8_t { Import, Graph, Linalg, Plan, Tiles, Isa, Program };
/// In the order of the enumeration.
constexpr const char *kPhaseNames[] = {"import", "graph", "linalg", "plan", "tiles", "isa", "program"};

/// Called behind a phase, but for the last. `text(elide)` is what the phase made; `elide`: without large constants.
using PhaseHook = std::function<void(Phase, llvm::function_ref<std::string(bool elide)> text)>;

/// What pipelined and search do across the borders of layers.
enum class Across {
  None,     ///< every layer drains before the next begins; every tensor goes through DRAM
  Prefetch, ///< layers overlap; every tensor goes through DRAM
  All,      ///< layers overlap, and tensors stay on chip where that pays
};
constexpr const char *kAcrossNames[] = {"none", "prefetch", "all"};

struct CompileOptions {
  /// The targets that kernels are for, in order of preference. Empty: "accel" before "cpu" with a machine, "cpu" without.
  std::vector<const class Target *> targets;
  const timing::MachineParams *machine = nullptr;
  accel::Schedule schedule = accel::Schedule::Pipelined;
  Across across = Across::All;
  /// pipelined and search: an open knob stays the compiler's choice.
  plan::NetworkKnobs network;
  /// Kernel boundaries and the order of kernels, for all schedules and targets.
  plan::GraphPlan graph;
  bool explainsKernels = false; ///< kernels say why the next op is not part of them (graph::kEndsAttr)
  /// What may be changed of the network's numbers.
  graph::Math math = graph::Math::Exact;
  /// Which rewriting rules may change the graph, as far as `math` allows.
  graph::RuleOptions rules;
  cpu::CpuOptions cpu;
  /// What choices among tiles and plans go by. pipelined: the plans that the exploration likes best are compared by their programs, if it
  /// knows the cycles of these.
  const cost::CostModel *costModel = &cost::closedForm();
  /// Called for every proposal of the exploration.
  explore::ProposalReport explain;
  /// pipelined and search: in place of knob `priority`, with the name that messages have for it; null: the knob decides.
  const schedule::PriorityFunction *priority = nullptr;
  std::string priorityName;
  /// Applied behind phase linalg, where there is a machine; null: none.
  std::shared_ptr<const plan::PlanFile> planFile;
  /// A model with kernels for several targets is an error.
  bool oneProgram = false;
  PhaseHook afterPhase; ///< may be null
  gpu::Architecture gpuArchitecture = gpu::Architecture::Sm90a;
  bool keepsGpuLlvm = false; ///< gpu::GpuOptions::keepsLlvm
  opencl::DeviceType openClDevice = opencl::DeviceType::Gpu;
  /// Instructions that a program may have.
  uint64_t maxInstructions = accel::kMaxInstructions;
  /// Of ONNX models: shapes of inputs, inputs that are constants, and bytes of constants that folding may make.
  frontend::ImportOptions import;
  SearchOptions search;
};

/// An ONNX node, and what computes it in the program.
struct OffloadEntry {
  std::string node, reason;
};

/// Where the values come from that a layer reads, or an output: layers of the program, and its inputs; each ascending, once.
struct Sources {
  std::vector<unsigned> layers, inputs;
};

struct CompiledNetwork {
  isa::Program program;
  std::vector<OffloadEntry> offload;
  uint64_t macs = 0;
  uint64_t lowerBoundCycles = 0;
  std::string boundBy;
  /// Sum of the layers' own bounds: what a compiler that runs layer after layer could reach. Not a bound.
  uint64_t layerSerialCycles = 0;
  /// Bytes between DRAM and chip: of the network at least, and of each layer of the program if it ran alone.
  uint64_t lowerBoundBytes = 0;
  std::vector<cost::LayerTraffic> layerTraffic;
  /// What was not looked at, as that would have taken too long.
  std::vector<std::string> notes;
  /// The plan of the program, complete.
  plan::NetworkPlan chosen;
  /// schedule search, of its first program: what it decides before it varies knobs.
  std::vector<Decision> decisions;
  std::string problem; ///< digest of the kernels and how they are connected
  /// schedule search, unless the program was only timed: every other value of an open knob.
  std::vector<explore::KnobChange> variations;
  std::optional<SearchResult> search;
  /// Per layer: its tile, for people, and the scratchpad bytes of one slot of each of its buffers.
  std::vector<std::string> choices;
  std::vector<uint64_t> tileBytes;
  /// First and last layers of fusion groups, in the order of the program.
  std::vector<std::pair<size_t, size_t>> groups;
  std::vector<Sources> layerSources, outputSources; ///< per layer, and per output
  /// pipelined and search: schedule::plannedStarts().
  std::vector<std::vector<uint64_t>> plannedStarts;
  /// The tiles phase, as text.
  std::string tilesText;
  /// The plan as a plan file, which compiles to the same program.
  std::string planText;
};

/// Reads an ONNX file (or graph/linalg MLIR text, by the suffix .mlir) into a module.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importModel(mlir::MLIRContext &context, llvm::StringRef path,
                                                              const CompileOptions &options);

/// The targets of `options`, in order of preference.
std::vector<const Target *> targetsOf(const CompileOptions &options);

/// MLIR as text. `elide`: without large constants.
std::string toText(mlir::ModuleOp module, bool elide);

/// Behind a phase that makes MLIR: verifies the module, then calls options.afterPhase.
llvm::Error endPhase(Phase phase, mlir::ModuleOp module, const CompileOptions &options);

/// Whether anything is left for the phases before linalg.
bool hasGraphOps(mlir::ModuleOp module);

/// Phase graph: optimises and partitions in place. Modules in linalg, and those that have kernels already, stay as they are.
llvm::Error optimizeGraph(mlir::ModuleOp module, const CompileOptions &options);

/// Phase linalg: every kernel becomes a function on tensors, and has the plan that the plan file gives it. The calls of @main get the order
/// that options.graph asks for, where all kernels are for one target.
llvm::Error lowerToLinalg(mlir::ModuleOp module, const CompileOptions &options, memory::PeakMemory *peak = nullptr);

/// The instructions of a network in program order, without semaphores.
struct Tiles {
  accel::NetworkProgram network;
  std::vector<isa::Layer> layers;
};

/// tiles alone, for looking at it.
llvm::Expected<Tiles> emitTiles(mlir::ModuleOp module, const CompileOptions &options);

/// Phases plan, tiles, isa and program: the whole module as one verified program.
llvm::Expected<CompiledNetwork> compileForAccelerator(mlir::ModuleOp module, const CompileOptions &options);

/// What a target makes of a run of kernels: a program for the accelerator, or one for a device of OpenCL.
using CompiledRun = std::variant<CompiledNetwork, opencl::Program>;

/// A model as programs, and what runs between them.
struct CompiledModel {
  /// The target of every kernel, if that is one which compiles networks; else null, and `parts` has them.
  const Target *target = nullptr;
  Partition parts;
  std::vector<CompiledRun> programs; ///< of the segments that are networks, in their order; or the only one
  /// Of the whole network where all kernels are for one target; else the largest of its programs.
  memory::PeakMemory peak;
};

/// All phases behind import. The module ends in linalg.
llvm::Expected<CompiledModel> compile(mlir::ModuleOp module, const CompileOptions &options);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_COMPILE_H
