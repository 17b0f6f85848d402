//===- NetworkCompiler.h - Kernels to one program ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inside the pipeline: what compileForAccelerator() consists of. Tensors get
// places and functions become kernels (NetworkCompiler.cpp); the ways to
// compile the whole are weighed (NetworkChoices.cpp).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_NETWORKCOMPILER_H
#define COMPILER_PIPELINE_NETWORKCOMPILER_H

#include "compiler/memory/Placement.h"
#include "compiler/pipeline/Compile.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tw::pipeline {

/// What a search decides for each layer, in the order of its picks: its tile; where its buffers lie; whether its result stays on
/// chip; whether it runs beside its neighbours; how many rows the bands have of a chain that it begins; how many slots more than the tile
/// by itself its buffers have; in which order and with which panels it takes its operands. The choice of the whole network comes last.
enum class DecisionOn { Tile, Place, Result, Beside, Rows, Depth, Form };
constexpr unsigned kDecisionsOnLayer = 7;
/// So many of them at most.
constexpr unsigned kMoreSlots = 2;
/// What rows of a band may be beside those that are chosen.
constexpr int64_t kBands[] = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 48, 64};

/// Where a value of @main lies.
struct Home {
  size_t range = 0; ///< index into the live ranges
};

/// A kernel result that lies inside a larger tensor, the concatenation it is part of.
struct Part {
  llvm::SmallVector<int64_t> shape; ///< of the whole
  int64_t offset = 0;               ///< elements
};

/// One attempt to compile a network: run(), weighAll(), estimate() or runTiles(), once.
class NetworkCompiler {
public:
  /// What an attempt has found out that the next one must heed.
  struct Lessons {
    std::vector<bool> alone;                           ///< per layer: its own tiles need the room that tensors took
    int64_t spare = 0;                                 ///< bytes of scratchpad 0 to leave free
    std::vector<std::pair<unsigned, unsigned>> banned; ///< groups of layers, first and last, for which there is no room
    bool isNew = false;                                ///< another attempt may succeed
  };

  NetworkCompiler(mlir::ModuleOp module, const CompileOptions &options, Lessons &lessons, accel::Rankings &rankings,
                  const Picks &picks = {}, const CompiledNetwork *first = nullptr, bool onlyTimed = false)
      : module(module), options(options), machine(*options.machine), lessons(lessons), picks(picks), first(first),
        onlyTimed(onlyTimed) {
    network.picks = picks; // the tiles come first
    if (first)
      fixedChoice = first->weighed[picks.empty() || first->weighed.size() == 1 ? 0 : picks.back()];
    network.rankings = &rankings;
  }

  /// A program of which all is chosen; the schedule is Pipelined.
  NetworkCompiler(mlir::ModuleOp module, const CompileOptions &options, Lessons &lessons, accel::Rankings &rankings,
                  const Pinned &pinned, bool onlyTimed)
      : NetworkCompiler(module, options, lessons, rankings, Picks(), nullptr, onlyTimed) {
    requests = pinned.requests;
    fixedChoice = pinned.choice;
  }

  llvm::Expected<CompiledNetwork> run();
  /// The ways to compile the whole network, in the order of their full estimates: run() leaves one as soon as it cannot be the best,
  /// and may refine others than these for that.
  llvm::Expected<std::vector<NetworkChoice>> weighAll();
  /// For run(): what a search may try besides.
  std::vector<NetworkChoice> others;
  /// What the list scheduler expects of run()'s program.
  llvm::Expected<Measurement> estimate();
  /// The tiles phase alone.
  llvm::Expected<Tiles> runTiles();

private:
  mlir::ModuleOp module;
  const CompileOptions &options;
  const timing::MachineParams &machine;
  Lessons &lessons;
  const Picks picks;                         ///< of `first->decisions`
  const CompiledNetwork *first;              ///< of a search, without picks; null: this is it
  const bool onlyTimed = false;              ///< the program has no constants, and there is no text of it
  std::optional<NetworkChoice> fixedChoice;  ///< nothing: the best
  llvm::ArrayRef<plan::KernelPlan> requests; ///< per layer; none: what the functions have
  mlir::func::FuncOp mainFunction;
  std::vector<memory::LiveRange> ranges;
  std::vector<memory::LiveRange> apart; ///< the ranges if no kernels run side by side
  llvm::DenseMap<mlir::Value, Home> homes;
  llvm::DenseMap<mlir::Value, Part> parts;
  llvm::DenseSet<mlir::Operation *> inPlace; ///< concatenations whose producers write the result
  CompiledNetwork result;
  accel::NetworkProgram network;

  /// A kernel of @main, with the live range of each of its tensors.
  struct Layer {
    mlir::func::FuncOp function;
    accel::Kernel kernel;
    std::vector<size_t> ranges; ///< per kernel.tensors; constants: 0
    std::vector<uint64_t> addresses;
    unsigned step = 0;                   ///< as live ranges count
    std::optional<accel::Kernel> packed; ///< with pixels side by side, if it can be
    bool isWindow() const { return kernel.anchor && kernel.anchor->kind == accel::Anchor::Window; }
    const accel::Kernel &form(const NetworkChoice &choice) const {
      const bool packs = isWindow() ? choice.packsWindows : choice.packs;
      return packed && kernel.plan.pixelPacking.value_or(packs) ? *packed : kernel;
    }
  };
  std::vector<Layer> layers;
  llvm::DenseMap<mlir::Operation *, accel::Kernel> matched; ///< what functions compute, before anything is asked of it
  NetworkChoice choice;                                     ///< the one at hand
  std::shared_ptr<const accel::Fusion> fusion = std::make_shared<accel::Fusion>(), bestFusion; ///< what stays on chip with it
  bool onlyEstimates = false;                 ///< one choice is compared with others by its first plan
  bool inFull = false;                        ///< estimates are not cut short
  bool isRegrouped = false;                   ///< tensors lie where some groups want them
  std::vector<schedule::TileProgram> drained; ///< Across::None: each layer on its own

  /// A way that has been tried.
  struct Weighed {
    double cycles; ///< estimated; if that is no less than those of the best one then, maybe not all
    NetworkChoice choice;
    bool hasGroups;
    std::vector<size_t> leftOut;
  };
  std::vector<Weighed> weighed;              ///< the best first
  size_t weighedKernels = 0, notWeighed = 0; ///< of all ways together; ways that were left out as these are too many
  std::vector<std::shared_ptr<const accel::Fusion>> fusions; ///< of the rules so far
  accel::NetworkProgram emptyNetwork, bestNetwork;
  CompiledNetwork emptyResult, bestResult;

  /// Tensors, kernels, and the best way to compile them: `network` and `result`.
  llvm::Error emit();
  /// Whether there is such a choice. What is not better by `leastGain` is not taken.
  llvm::Expected<bool> weigh(const NetworkChoice &next, double leastGain = 1);
  /// The same, of a choice without which there is a program anyway.
  void weighToo(const NetworkChoice &next, double leastGain = 1);
  /// The best one so far is at hand again.
  void recallBest();
  void weighEachWith(bool NetworkChoice::*way, double leastGain);
  void weighPlaces();
  void weighResidents();
  void weighLeftOut(Weighed base);
  void weighSums();
  void weighMaxima();
  void weighMatrices();
  void weighContexts();
  void weighPixels();
  void weighWindows();
  void weighTiles();
  void weighSerpentine();
  void weighOrders();
  void weighParts();
  void weighHalves();
  void weighEngines();
  void weighAsMade();
  void weighCuts();
  void weighBanks();
  void weighBus();
  void weighLoaders();
  void weighWeights();
  std::vector<NetworkChoice> otherOrders(const NetworkChoice &choice) const;
  llvm::Error placeTensors();
  /// An error if the machine has less DRAM.
  llvm::Error checkDram(uint64_t bytes) const;
  void joinConcats();
  llvm::Error describe(bool inputs);
  llvm::Error matchKernels();
  llvm::Error packLayer(Layer &layer);
  /// What a search may decide.
  llvm::Error listDecisions();
  void listBeside(llvm::function_ref<void(size_t layer, unsigned candidates, DecisionOn what, const char *name)> add);
  void listRows(llvm::function_ref<void(size_t layer, unsigned candidates, DecisionOn what, const char *name)> add);
  void listForms(llvm::function_ref<void(size_t layer, unsigned candidates, DecisionOn what, const char *name)> add);
  llvm::Error listPlaces(llvm::function_ref<void(size_t layer, unsigned candidates, DecisionOn what, const char *name)> add);
  /// Which of a layer's candidates a search has picked. A layer alone has a tile to decide, and no more.
  unsigned pickOf(DecisionOn what, size_t layer) const {
    return layers.size() > 1 && !picks.empty() ? picks[size_t(what) * layers.size() + layer] : 0;
  }
  struct Place {
    bool isBehind = true; ///< the buffers of the layer before; with banks: in the other memories
    std::optional<std::array<int64_t, 2>> banks;
  };
  Place placeOf(size_t layer) const;
  /// Whether the layer runs between the steps of the next one (plan::Priority::Interleaved).
  bool isInterleaved(size_t layer) const {
    const accel::Kernel &kernel = layers[layer].kernel;
    return choice.ways.priority == plan::Priority::Interleaved && layer + 1 < layers.size() && !kernel.anchor &&
           kernel.copies.empty() && !fusion->groupOf(unsigned(layer));
  }
  /// The ways in which the layer could run beside the contractions next to it, if their positions or channels are all that ties it to
  /// them.
  llvm::SmallVector<Beside> waysBeside(size_t layer) const;
  /// So many tiles of the product before it, or of that behind it, some positions may go through before others: most first.
  llvm::SmallVector<int64_t> cutsBeside(size_t layer, bool before) const;
  /// Whether that layer takes what this one makes: a contraction as its input.
  bool isReadBy(size_t layer, size_t by) const;
  /// Through which of a product's tiles positions may go in parts, whatever tiles these are, as a search would have it.
  std::vector<accel::CutTiles> cutsOf(size_t layer) const;
  const Beside *besideOf(size_t layer) const {
    auto it = llvm::find_if(choice.beside, [&](const Beside &b) { return b.layer == layer; });
    return it == choice.beside.end() ? nullptr : &*it;
  }
  /// Of its window, as the choice at hand has it.
  int64_t arrayChannels(const Layer &layer) const;
  /// Whether the layer takes the channels of the one before as that makes them.
  bool takesAsMade(size_t layer) const {
    return layer < layers.size() &&
           layers[layer].kernel.plan.channelStreaming.value_or(llvm::is_contained(choice.asMade, layer));
  }
  /// Why it cannot; empty: it can.
  std::string whyNotAsMade(size_t layer) const;
  /// Whether its weights take DRAM longer than its products take the array, while those of the one before do not.
  bool hurriesAsMade(size_t layer) const;
  /// What of the memories is whose, if it does.
  struct Turns {
    accel::Range makerWeights, takerWeights, makerSums, takerSums;
  };
  Turns turnsOf(size_t layer) const;
  int64_t blockBytes(const accel::Kernel &kernel) const;
  /// Blocks of so many channels that are taken, or made from, at a time: runs that DRAM likes.
  int64_t blocksInTurn(const accel::Kernel &kernel, int64_t channels) const;
  /// The tiles that one of the two has then, but for what is asked for anyway.
  void askForTurns(accel::Kernel &kernel, const Turns &turns, bool takes) const;
  /// Steps from `begin` on are one layer's, from `middle` on the next one's: those of a band take turns.
  void mergeTurns(size_t begin, size_t middle);
  bool isApart(size_t layer) const {
    const Beside *beside = besideOf(layer);
    return beside && beside->apart;
  }
  bool reducesChannels(size_t layer) const {
    return llvm::any_of(layers[layer].kernel.steps, [](const accel::Step &step) { return step.reducesChannels; });
  }
  /// So many channels move in whole bursts and have all rows of the array.
  int64_t leastColumns() const {
    return std::max<int64_t>(machine.rows, machine.dram.burstBytes / timing::elementBytes(machine.arrayType));
  }
  /// Positions that go through the tiles next to a layer before others do.
  int64_t cutPositions(size_t layer) const;
  /// For the weights of those tiles: each has a bank of its own, and so has what comes next.
  int64_t cutSlots() const { return std::max(machine.scratchpads.back().banks / 2, 1u); }
  void askForParts(size_t layer, accel::Kernel &kernel) const;
  /// Positions along P0 that a kernel makes in two parts.
  struct Cut {
    int64_t at = 0;       ///< where the second part begins; 0: there is one
    bool spreads = false; ///< the second part has all the room there is, not the kernel's banks
  };
  /// Emits a kernel whose parts have different room, or of whose tensors the second part stays on chip.
  llvm::Error emitParts(const Layer &source, const accel::Kernel &kernel, const Cut &cut, accel::OnChip onChip, uint32_t layer);
  /// What the kernels do with the tensors, and what schedule files want.
  llvm::Expected<accel::NetworkUses> describeUses();
  /// Kernels side by side use all their tensors at the same time: places for them, and for what refers to places.
  llvm::Error placeGroups();
  /// What the lower bound has to know of the ranges.
  std::vector<cost::NetworkTensor> describeTensors();
  /// What stays on chip under the choice at hand; nothing if there are not so many rules.
  llvm::Expected<std::optional<accel::Fusion>> chooseOnChip();
  /// Kernel after kernel, then their steps side by side; returns the cycles that this is estimated to take. No program if that
  /// is `limit` or more.
  llvm::Expected<double> emitWith(double limit);
  llvm::Error emitKernels();
  /// Lower bounds of the layers and of the network, and the least that they move.
  void addBounds();
  /// Per live range: the planes in which a tensor's only reader takes it, if that is a convolution of an NCHW image; else 1.
  std::vector<int64_t> planesOfRanges() const;
  llvm::Error describeProblem();
  void listAspects();
  void listStays();
  /// The end of the chain of bands that begins with this layer's result, none of which is asked for; the layer itself: there is none.
  size_t endOfChain(size_t layer) const;
  llvm::Error assemble();
  bool hasWays() const { return overlaps() && options.across != Across::None; }
  bool overlaps() const { return accel::overlapsKernels(options.schedule); }
  bool isOutput(size_t range) {
    return llvm::any_of(mainFunction.getBody().front().getTerminator()->getOperands(),
                        [&](mlir::Value output) { return homes.find(output)->second.range == range; });
  }
  uint64_t addressOf(mlir::Value value) { return ranges[homes.find(value)->second.range].address; }
};

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_NETWORKCOMPILER_H
