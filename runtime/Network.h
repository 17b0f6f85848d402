//===- Network.h - From what the user named to what runs --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A network is a list of steps: programs for the accelerator and, where a kernel
// has to fall back, kernels of other targets between them. Most are one program.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_NETWORK_H
#define RUNTIME_NETWORK_H

#include "compiler/codegen/cpu/CpuRequest.h"
#include "compiler/codegen/gpu/Program.h"
#include "compiler/codegen/opencl/Program.h"
#include "compiler/cost/Bounds.h"
#include "compiler/explore/Proposal.h"
#include "compiler/frontend/ImportOptions.h"
#include "compiler/graph/Math.h"
#include "compiler/graph/transforms/Rules.h"
#include "compiler/memory/PeakMemory.h"
#include "compiler/pipeline/search/SearchRecord.h"
#include "isa/Program.h"
#include "isa/timing/MachineParams.h"
#include "runtime/Device.h"
#include "runtime/Status.h"
#include "runtime/Tensors.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tw::gpu {
struct Program;
} // namespace tw::gpu
namespace tw::opencl {
struct Bundle;
} // namespace tw::opencl
namespace tw::pipeline {
class KernelLibrary;
class Target;
} // namespace tw::pipeline

namespace tw::runtime {

struct NetworkOptions {
  /// A serialised ONNX model that stands for the file: the model's name is then for messages only.
  std::shared_ptr<const std::string> modelBytes;
  /// Keep the plan in Network::planText.
  bool keepsPlan = false;
  /// A machine file, or the name of a shipped machine. May be empty where the model is a program that names one.
  std::string machine;
  /// "key=value", as --set gives them.
  std::vector<std::string> overrides;
  /// One of scheduleNames(), or a plan file (docs/schedule-file.md).
  std::string schedule = "pipelined";
  /// One of acrossNames(): what schedules pipelined and search do across the borders of layers.
  std::string across = "all";
  /// The order of kernels: one of orderNames(); empty: the target decides.
  std::string order;
  /// pipelined and search: a value of knob `priority`, or a priority of a plug-in; empty: the compiler chooses.
  std::string priority;
  /// The compiler's own cost model, "closed_form", or one of a plug-in; empty: the compiler's own, and what it likes best is simulated.
  std::string costModel;
  /// Called for every proposal of the exploration, and for every schedule that is run to choose between them; may be null.
  explore::ProposalReport explain;
  /// Schedule search: programs to simulate, the search's seed, and where to say how far it is. Processes that measure at once (0: one
  /// for each processor): with more than one the search makes copies of this process, which then must have no other thread at work.
  unsigned searchBudget = 64;
  uint64_t searchSeed = 1;
  unsigned searchJobs = 1;
  std::function<void(const pipeline::SearchProgress &)> progress;
  /// Folder of a TuningCache; empty: none. `searchAgain`: a search is what is wanted, another schedule is an error, and the cache only
  /// saves time; else its best program is taken where a search with such a budget has ended before.
  std::string cacheFolder;
  bool searchAgain = false;
  /// Refuse networks with kernels for the CPU before anything is searched.
  bool oneProgram = false;
  /// Whether nodes that the first target does not take may run elsewhere; else such a network is refused.
  bool fallsBack = true;
  /// What code for the CPU is for.
  cpu::CpuChoice processor;
  /// What code for a GPU is for.
  tw::gpu::Architecture gpuArchitecture = tw::gpu::Architecture::Sm90a;
  /// What code for OpenCL is for.
  tw::opencl::DeviceType openClDevice = tw::opencl::DeviceType::Gpu;
  /// What may be changed of the network's numbers.
  graph::Math math = graph::Math::Exact;
  /// Which rewriting rules may change the graph, as far as `math` allows.
  graph::RuleOptions rules;
  /// Names of targets, in order of preference. Empty: the accelerator before the CPU. With "opencl" the network must be placed on a device
  /// (runtime/OpenClDevice.h) before it runs.
  std::vector<std::string> targets;
  /// Instructions that a program may have; 0: as many as the compiler allows by itself.
  uint64_t maxInstructions = 0;
  /// Of ONNX models: shapes of inputs, inputs that are constants.
  frontend::ImportOptions import;
  /// Weights of inline kernels.
  uint64_t seed = 1;
};

/// The schedules a compilation can ask for.
const std::vector<std::string> &scheduleNames();
/// What they can do across layers.
const std::vector<std::string> &acrossNames();
/// What can decide the order of kernels.
const std::vector<std::string> &orderNames();

/// Where one node of the model runs, and why there: the title of a target, "accelerator" or "cpu", or "folded", that is, nowhere.
struct Offload {
  std::string node, target, reason;
  bool fellBack = false;      ///< another target was preferred to this one
  uint64_t hostLinkBytes = 0; ///< that cross the link to or from it; see HostEstimate.h
};

/// An entry for each of `nodes`, the nodes of an ONNX model, in their order; of a model without that list for each node that kernels
/// name. `kernels`: for each kernel, in the order of execution, an entry for each of its nodes. A node with parts on
/// several targets counts on the one that comes last in `targets`, titles in order of preference.
std::vector<Offload> nodeReport(const std::vector<std::string> &nodes, const std::vector<Offload> &kernels,
                                const std::vector<std::string> &targets);

/// The tile of a layer, for people, and the scratchpad bytes of one slot of each of its buffers.
struct LayerTile {
  std::string choice;
  uint64_t bytes = 0;
};

/// What the list scheduler makes, among the programs that pipelined and search choose from.
constexpr const char *kListScheduled = "list_scheduled";

/// Which of several schedules a network runs under where pipelined or search is asked for: the one that takes the fewest cycles.
struct ScheduleChoice {
  struct Candidate {
    std::string schedule;
    std::optional<uint64_t> cycles; ///< of all programs
    std::string why;                ///< there are no cycles
  };
  std::string ran;
  std::vector<Candidate> candidates; ///< the first of equally fast ones ran; empty: none was run to choose
  uint64_t mostCycles = 0;           ///< without candidates: what takes longer is not
};

/// What of a network runs on a device of OpenCL.
struct OpenClUse {
  std::string device, platform;
  uint64_t runs = 0, kernels = 0; ///< runs of kernels: more than one where the host computes between them
  double buildSeconds = 0;        ///< in which the device's compiler built the kernels
  double seconds = 0;             ///< of the device, measured, without copies of what its runs read and make
};

/// One step of a network: a program, a kernel that this process calls, a run of kernels on a device of OpenCL, or none of these (a reshape:
/// output 0 has the bytes of input 0). `inputs` and `outputs` index Network::values.
struct Step {
  /// Set for a step on the accelerator.
  std::optional<isa::Program> program;
  /// Of a program that was compiled with schedule pipelined or search: the starts that the compiler estimated, per engine in the
  /// order of SimResult::engines and execution. Preloads have none.
  std::vector<std::vector<uint64_t>> plannedStarts;
  /// Of a kernel: its name, why it is here, its target and its code; else empty.
  std::string kernel, reason;
  std::vector<std::string> nodes;
  uint64_t operations = 0, macs = 0; ///< as pipeline::operationsOf() and macsOf() count them
  const pipeline::Target *target = nullptr;
  std::shared_ptr<pipeline::KernelLibrary> library;
  /// Of a run of kernels for OpenCL, whose `kernel` is the run's name: the program, until placeOnOpenCl() moves it to `device`.
  std::shared_ptr<tw::opencl::Program> openCl;
  std::shared_ptr<Device> device;
  std::vector<unsigned> inputs, outputs;
  /// Of a kernel: what made its inputs, as Network::layerReads has it.
  std::vector<size_t> reads;
};

struct Network {
  std::string model;    ///< as the user named it
  std::string schedule; ///< empty where the model was a program already
  std::optional<ScheduleChoice> choice;
  timing::MachineParams machine;
  std::string technology; ///< that the machine names; empty: none
  /// What the user should know and what did not stop us.
  std::vector<std::string> notes;
  Precision precision = Precision::Single;
  std::vector<TensorSpec> values;
  std::vector<unsigned> inputs, outputs; ///< indices into values
  std::vector<Step> steps;
  std::vector<std::string> targets; ///< titles, in order of preference
  std::vector<Offload> offload;
  /// Useful multiply-accumulates on the accelerator; absent where nobody counted them.
  std::optional<uint64_t> macs;
  /// Absent for programs, which do not carry what a bound is derived from.
  std::optional<uint64_t> lowerBoundCycles;
  std::string boundBy;
  std::optional<uint64_t> layerSerialCycles;
  /// Bytes between DRAM and chip: of the network at least, and of the layers of all programs, each alone.
  std::optional<uint64_t> lowerBoundBytes;
  std::vector<cost::LayerTraffic> layerTraffic;
  /// Live bytes between kernels; absent for programs.
  std::optional<memory::PeakMemory> peak;
  std::vector<LayerTile> tiles;
  /// Per layer of all programs: what made the values that it reads, ascending. Layers have their numbers over all programs, kernels those behind
  /// them in the order of steps. Empty for programs that were compiled before.
  std::vector<std::vector<size_t>> layerReads;
  /// First and last layers of fusion groups, counted over all programs.
  std::vector<std::pair<size_t, size_t>> groups;
  /// Schedule search: one entry for each program.
  std::vector<pipeline::SearchResult> searches;
  /// What the host evaluates when the steps are done. Its model is null where they are all.
  frontend::Remainder remainder;
  /// What the network was compiled with, for parts that are compiled when their shapes are known; null where nothing was.
  std::shared_ptr<const NetworkOptions> options;
  std::optional<OpenClUse> openCl; ///< of a network that was placed on a device of OpenCL
  std::string planText;            ///< the complete plan file of the last program; empty unless it was asked for
  double compileSeconds = 0;

  bool isOneProgram() const { return steps.size() == 1 && steps.front().program && !remainder; }
  /// False where every kernel falls back.
  bool runsOnAccelerator() const {
    return std::any_of(steps.begin(), steps.end(), [](const Step &step) { return step.program.has_value(); });
  }
};

/// An error that the compiler words: internal if it calls it so, else the user's. `where` goes in front, if it is not there.
Error compilerError(std::string message, const std::string &where = "");

/// Reads a machine; what is legal but unwise goes to `notes`. `technology`, if given: as hwconfigs::loadMachine() says.
StatusOr<timing::MachineParams> loadMachine(const std::string &machine, const std::vector<std::string> &overrides,
                                            std::vector<std::string> &notes, std::string *technology = nullptr);

/// Why the compiler has no code for `machine`, in the words of the compiler; nothing if it has. A product with one tile of weights is
/// compiled under the schedule that needs least: where that fails, nothing for the array compiles.
std::optional<std::string> whyNotCompiled(const timing::MachineParams &machine);

/// An error unless `model` is a file with a known suffix or an inline kernel. Files are not read.
Status checkModel(const std::string &model);
/// Whether `model` names a program, which is for one machine and compiled already.
bool isProgramFile(const std::string &model);
/// What files made from `model` are called: its name without folder and suffix; an inline kernel with - for :.
std::string fileStem(const std::string &model);

/// Reads `model` (.onnx, .mlir, .tasm, .twp, or an inline kernel), and compiles what is not a program yet.
StatusOr<Network> loadNetwork(const std::string &model, const NetworkOptions &options);

/// A network on the CPU alone.
struct CpuNetwork {
  std::unique_ptr<Device> device;
  Precision precision = Precision::Single;
  /// Useful multiply-accumulates; absent for models of linalg ops, where nobody counts them.
  std::optional<uint64_t> macs;
};

/// The same for the CPU alone. Programs are refused: they are for one machine.
StatusOr<CpuNetwork> loadOnCpu(const std::string &model, const NetworkOptions &options, unsigned threads);

/// What `compile --emit` can show, in the order of compilation.
const std::vector<std::string> &phaseNames();

/// The text of phases on the way to another one.
struct PhaseTexts {
  std::vector<std::string> wanted;          ///< of phaseNames()
  bool elide = false;                       ///< without large constants
  std::map<std::string, std::string> texts; ///< of those that were reached
};

/// The network at the end of a phase: text, or the image for "program". `elide`: leave out large constants of MLIR text, which
/// then is for people only. What the user should know goes to `notes`. `before`: phases before it, of the program that was chosen; after an
/// error, of the last that was tried.
StatusOr<std::string> emitPhase(const std::string &model, const NetworkOptions &options, const std::string &phase, bool elide,
                                std::vector<std::string> &notes, PhaseTexts *before = nullptr);

/// Names of all targets, in the order in which they were registered.
std::vector<std::string> targetNames();

/// What a network takes and gives, and how coarse its numbers are.
struct NetworkInterface {
  std::vector<TensorSpec> inputs, outputs;
  Precision precision = Precision::Single;
};

/// The network for a GPU. Inputs and outputs have the model's names. `keepsLlvm`: with the kernels' LLVM IR.
StatusOr<tw::gpu::Program> compileOnGpu(const std::string &model, const NetworkOptions &options,
                                        NetworkInterface *interface = nullptr, bool keepsLlvm = false);

/// The network for OpenCL, under the same rules. Errors name nodes that only the host evaluates.
StatusOr<tw::opencl::Program> compileOnOpenCl(const std::string &model, const NetworkOptions &options,
                                              NetworkInterface *interface = nullptr);

/// The network as files for C programs, which call it `name`, a C identifier.
StatusOr<tw::opencl::Bundle> compileOpenClBundle(const std::string &model, const NetworkOptions &options,
                                                 const std::string &name);

/// How `compile --target cpu` writes a network.
struct BundleRequest {
  /// A C identifier.
  std::string name;
  bool separateWeights = false;
  std::optional<cpu::BundleText> text;
};

/// The network as a library for C programs, for `options.processor`.
StatusOr<cpu::Bundle> compileBundle(const std::string &model, const NetworkOptions &options, const BundleRequest &request);

} // namespace tw::runtime

#endif // RUNTIME_NETWORK_H
