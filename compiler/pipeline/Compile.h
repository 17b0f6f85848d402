//===- Compile.h - From a model to a program ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The compiler's main path. The phases, in order: import, graph, linalg, tiles,
// isa, program.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_COMPILE_H
#define COMPILER_PIPELINE_COMPILE_H

#include "compiler/codegen/accel/Codegen.h"
#include "compiler/codegen/cpu/CpuTarget.h"
#include "compiler/frontend/OnnxImport.h"
#include "compiler/graph/Math.h"
#include "compiler/pipeline/Search.h"
#include "isa/Program.h"
#include "isa/timing/MachineParams.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <map>
#include <optional>
#include <tuple>

namespace tw::pipeline {

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
  /// pipelined and search: nothing is what the estimate prefers.
  accel::WaysRequest ways;
  /// What may be changed of the network's numbers.
  graph::Math math = graph::Math::Exact;
  cpu::CpuOptions cpu;
  bool keepsGpuLlvm = false; ///< gpu::GpuOptions::keepsLlvm
  /// Instructions that a program may have.
  uint64_t maxInstructions = accel::kMaxInstructions;
  /// Of ONNX models: shapes of inputs, inputs that are constants, and bytes of constants that folding may make.
  frontend::ImportOptions import;
  SearchOptions search;
};

/// A layer without work for the array that runs beside the contractions next to it (docs/design/attention.md).
struct Beside {
  size_t layer = 0;
  bool before = false; ///< it begins with half of the positions, while the contraction before it makes the others
  bool behind = false; ///< the contraction behind it begins with half of the positions
  int64_t columns = 0; ///< that one begins with so many of the channels
  bool together =
      false; ///< with columns: all results that there are sums for take some of the channels, before any takes the next ones
  bool apart = false;   ///< in banks of its own
  bool spreads = false; ///< with before and apart: its second half in all banks
  bool stays = false;   ///< with spreads: the second half of its input stays on chip
  /// Tiles of results, the last ones of the contraction before it and the first ones of that behind it, which some positions go through
  /// before the next ones do.
  int64_t last = 0, first = 0;

  bool isNone() const { return *this == Beside{layer}; }
  bool operator==(const Beside &other) const {
    return std::tie(layer, before, behind, columns, together, apart, spreads, stays, last, first) ==
           std::tie(other.layer, other.before, other.behind, other.columns, other.together, other.apart, other.spreads,
                    other.stays, other.last, other.first);
  }
};

/// A layer with channels of its window on the array (docs/design/window-decomposition.md).
struct BothEngines {
  size_t layer = 0;
  int64_t arrayChannels = 0;

  bool operator==(const BothEngines &other) const { return layer == other.layer && arrayChannels == other.arrayChannels; }
};

/// How a whole network is compiled (docs/design/search.md).
struct NetworkChoice {
  unsigned residency = 0;               ///< by which rule tensors stay on chip, as a whole or in bands
  std::vector<size_t> keptFirst;        ///< tensors, before those that the rule likes better
  std::vector<Beside> beside;           ///< a layer once
  std::vector<BothEngines> bothEngines; ///< a layer once
  std::vector<size_t> asMade;           ///< layers that take the channels of the one before as that makes them
  bool packs = false;                   ///< kernels that can have pixels side by side in the array do
  bool packsWindows = false;            ///< those that can have them side by side in the vector engine do
  bool shortWindows = false;            ///< pooling lets its neighbours' vector work in between
  accel::Ways ways;
  bool tallBands = false;     ///< where a kernel loads shared rows again for each band
  bool wholeBanks = false;    ///< each kernel's buffers begin with a bank that those of the kernel before do not use
  bool serpentine = false;    ///< every second tile of a contraction takes the last input channels first
  bool keepsSums = false;     ///< windows of sums find those that they share with the row above
  bool carriesMaxima = false; ///< the same, as maxima in the scratchpad
  bool keepsMatrices = false; ///< products of several matrices find them in the channels of tensors on chip
  bool plansTiles = false;    ///< of the best tiles of a kernel by the closed form, the list scheduler says which is
  bool fromBottom = false;    ///< each kernel's buffers begin where its memories do, not behind those of the kernel before

  bool operator==(const NetworkChoice &other) const {
    auto all = [](const NetworkChoice &c) {
      return std::tie(c.residency, c.keptFirst, c.beside, c.bothEngines, c.asMade, c.packs, c.packsWindows, c.shortWindows,
                      c.ways, c.tallBands, c.wholeBanks, c.serpentine, c.keepsSums, c.carriesMaxima, c.keepsMatrices,
                      c.plansTiles, c.fromBottom);
    };
    return all(*this) == all(other);
  }
};

/// Where a kernel's result is until its readers have it: in DRAM, on chip as a whole, or on chip a band of rows at a time.
enum class Stay { Away, Whole, Bands };

/// Of a chain of kernels in bands: other rows for these.
struct ChainRows {
  unsigned last = 0; ///< the last kernel whose result goes on in bands
  std::vector<int64_t> others;
};

/// All that was chosen for a program: what its schedule file says.
struct Pinned {
  std::vector<accel::TileRequest> requests; ///< per layer
  NetworkChoice choice;                     ///< where they say nothing
};

/// Something of that which could be otherwise.
struct Aspect {
  std::optional<unsigned> layer;                     ///< its first; nothing: of the whole network
  std::string name;                                  ///< for people
  std::vector<std::function<void(Pinned &)>> values; ///< not all can be had
};

/// An ONNX node, and what computes it in the program.
struct OffloadEntry {
  std::string node, reason;
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
  /// Search: what it may decide, a tile for each layer first; layers of one kind have equal operations on equal types.
  std::vector<Decision> decisions;
  /// The ways to compile the whole, best first (the program has the first), and, per layer, where else its result could be, how else it
  /// could run beside its neighbours, and what rows the bands of a chain could have that begins with it.
  std::vector<NetworkChoice> weighed;
  std::vector<std::vector<Stay>> elsewhere;
  std::vector<std::vector<Beside>> otherwise;
  std::vector<ChainRows> chains;
  std::string problem; ///< search: digest of the kernels and how they are connected
  /// Search, unless the program was only timed: what was chosen, and what of it a walk may change.
  Pinned pinned;
  std::vector<Aspect> aspects;
  std::optional<SearchResult> search;
  /// Per layer: its tile, for people, and the scratchpad bytes of one slot of each of its buffers.
  std::vector<std::string> choices;
  std::vector<uint64_t> tileBytes;
  /// First and last layers of fusion groups (docs/design/depth-first-fusion.md), in the order of the program.
  std::vector<std::pair<size_t, size_t>> groups;
  /// pipelined and search: schedule::plannedStarts().
  std::vector<std::vector<uint64_t>> plannedStarts;
  /// The tiles phase, as text.
  std::string tilesText;
  /// The choices of the tiles phase as a schedule file, which compiles to the same program.
  std::string scheduleText;
};

/// Reads an ONNX file (or graph/linalg MLIR text, by the suffix .mlir) into a module.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importModel(mlir::MLIRContext &context, llvm::StringRef path,
                                                              const CompileOptions &options);

/// The targets of `options`, in order of preference.
std::vector<const Target *> targetsOf(const CompileOptions &options);

/// graph: optimises and partitions in place.
llvm::Error optimizeGraph(mlir::ModuleOp module, const CompileOptions &options);

/// linalg: every kernel becomes a function on tensors.
llvm::Error lowerToLinalg(mlir::ModuleOp module, const CompileOptions &options);

/// The instructions of a network in program order, without semaphores.
struct Tiles {
  accel::NetworkProgram network;
  std::vector<isa::Layer> layers;
};

/// tiles alone, for looking at it.
llvm::Expected<Tiles> emitTiles(mlir::ModuleOp module, const CompileOptions &options);

/// tiles, isa, program: the whole module as one verified program.
llvm::Expected<CompiledNetwork> compileForAccelerator(mlir::ModuleOp module, const CompileOptions &options);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_COMPILE_H
