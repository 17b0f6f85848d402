//===- Emitter.h - Tiles, buffers and instructions of one kernel --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Internal to compiler/codegen/accel.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_ACCEL_EMITTER_H
#define COMPILER_CODEGEN_ACCEL_EMITTER_H

#include "compiler/codegen/accel/Codegen.h"

#include "isa/FieldLimits.h"

namespace tw::accel {

/// Indices of a dimension that a load fills on either side.
constexpr int64_t kMaxFill = isa::maximumOf(isa::Opcode::Load, "low");

/// Taps along one side of a window.
constexpr int64_t kMaxWindow = isa::maximumOf(isa::Opcode::Vector, "window");

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// Of a long stream.
double dramBytesPerCycle(const timing::MachineParams &machine);

inline int64_t roundUp(int64_t a, int64_t b) { return ceilDiv(a, b) * b; }

/// Whether the vector engine lays taps side by side as it converts them: where windows share pixels with more than their neighbours, a
/// load engine would fetch them again and again.
inline bool packsOnChip(const Kernel &kernel, const Anchor &a) {
  return kernel.conversion && a.axes[0].kernel > a.axes[0].stride + 1;
}

/// Elements of so many rows of the input under a tile of sums, which packsOnChip() then takes from there.
inline int64_t plainElements(const Anchor &a, const Extent &sums, int64_t rows) {
  return a.ic * rows * a.axes[0].span(sums[P0]) * sums[P2];
}

/// Whether the kernel's windows have one column, of several rows.
inline bool isColumn(const Kernel &kernel) { return kernel.window(P0).kernel == 1 && kernel.window(P1).kernel > 1; }

/// Some taps of a window.
struct WindowPart {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

/// A window that is too large for the registers in which neighbours find the taps that they share, in parts that are not. What they give is
/// put together by one more instruction. Empty if the window as a whole is as fast, or of an anchor that is none.
llvm::SmallVector<WindowPart, 4> windowParts(const Kernel &kernel);

/// Cycles of the vector engine for an output: of the parts, and to put them together.
double partCycles(const Kernel &kernel, llvm::ArrayRef<WindowPart> parts);

/// Of what a part gives.
inline LaneType partType(const Anchor &a) { return a.windowOp == isa::WindowOp::Max ? a.inputType : a.resultType; }

/// Rows of packed taps that a tile may copy from the one above it. Only converted ones: the vector engine writes them behind those that are
/// copied, or, packsOnChip(), before these. What comes last must fill a vector, as whole ones that end with its last element are written.
inline int64_t copiedRows(const Kernel &kernel, const Anchor &a, const timing::MachineParams &machine) {
  const WindowAxis &h = a.axes[1];
  const int64_t newRows = h.stride * (kernel.maxima ? (*kernel.maxima)[1].stride : 1),
                shared = std::max<int64_t>(h.kernel - h.stride, 0);
  const int64_t last = packsOnChip(kernel, a) ? shared : newRows;
  return kernel.conversion && last * a.axes[0].kernel * a.ic >= machine.lanes ? shared : 0;
}

/// One buffer of a tile: `slots` copies of `bytes` in one memory.
struct Buffer {
  unsigned memory = 0;
  int64_t bytes = 0;
  unsigned slots = 1;
  llvm::SmallVector<int64_t, 4> address;
};

/// What a slot of a buffer holds, and when it was last used.
struct Held {
  llvm::SmallVector<int64_t, 6> key;
  uint64_t used = 0;
  uint32_t value = 0; ///< as schedule::OperandValues numbers them
};

/// Every buffer a tile needs; -1: not needed.
struct Buffers {
  llvm::SmallVector<Buffer, 6> all;
  int accumulator = -1, input = -1, weights = -1;
  int diagonals = -1;                   ///< weights of a window's channels on the array
  int parts = -1;                       ///< what the parts of a window give, side by side for each output
  int line = -1;                        ///< maxima of the sums that tiles one below the other share: a slot for each strip
  llvm::SmallVector<int, 2> raw;        ///< the input before its conversion: parts of a tile's columns, of a load engine each
  llvm::SmallVector<int, 4> parameters; ///< per step
  llvm::SmallVector<llvm::SmallVector<int, 2>, 4> sources; ///< per step and source: the buffer of a tensor source
  llvm::SmallVector<int, 4> results;                       ///< per step
  bool ownBanks = false;                                   ///< no two slots share a bank
};

/// One dimension of a transfer, innermost first.
struct BoxDim {
  int64_t count = 1;
  int64_t dram = 0, onChip = 0; ///< strides, bytes
  int64_t low = 0, high = 0;
};

struct Turning;

class Emitter {
public:
  Emitter(const Kernel &kernel, std::vector<Chain> chains, std::optional<Chain> conversion,
          const timing::MachineParams &machine, Schedule schedule, const std::vector<uint64_t> &addresses, const OnChip &onChip,
          uint32_t layer, NetworkProgram &network);

  llvm::Error emit();
  /// An error if no tile fits, or none that fits can be encoded.
  llvm::Error check();

private:
  llvm::Error keepSlotsApart();
  /// Whether the program would become too long with this kernel's steps so far.
  bool isTooLong();
  /// An error if it would with `least` instructions of this kernel.
  llvm::Error checkLength(double least) const;
  /// Kernels of a group have their turns at the engines.
  bool plansTiles() const { return *onChip.knobs.plannedTiles && overlaps() && !onChip.banding; }
  Kernel kernel;
  /// The anchor as it was, if its taps are packed: kernel.anchor then has one tap, whose channels are all taps and channels of
  /// this one.
  std::optional<Anchor> unpacked;
  /// The channels of a pixel do not lie side by side, but the pixels of a row do.
  bool packsPlanes() const { return unpacked && unpacked->input.stride[C] != 1 && unpacked->ic != 1; }
  /// A run for every column, row and channel takes a cycle however short it is: the load engines take turns, a tile each, or, where
  /// the taps are converted and may lie apart until then, have a part of each tile's columns. Then both are in the same rows of DRAM.
  bool takesTurns() const { return packsPlanes() && !conversion; }
  int64_t loadParts(const Tile &t) const {
    const bool hasEngine = secondUnit(t) && !(onChip.banding && onChip.banding->loadsWhole);
    return conversion && packsPlanes() && hasEngine && t.tile[P0] > 1 ? 2 : 1;
  }
  bool packsOnChip() const { return unpacked && accel::packsOnChip(kernel, *unpacked); }
  /// Vectors that pack `rows` rows of taps of a tile: of a run of neighbours each.
  int64_t packingVectors(const Extent &sums, int64_t rows) const;
  unsigned turn = 0; ///< tiles of planes loaded so far
  /// Columns of packed taps that are one run each.
  llvm::SmallVector<Range, 2> tapRuns;
  void cutTapRuns();
  std::array<int64_t, 3> packedStride{}; ///< from one packed channel to that of the next channel, column and row of taps
  /// Bytes of packed taps from one output of a tile to the next: columns of rows, so that the windows of outputs below one another
  /// share what they have in common.
  Extent packedStrides(const Extent &size, int64_t elementSize) const;
  Extent packedStrides(const Extent &size) const { return packedStrides(size, elementBytes()); }
  /// Elements of packed taps that a tile holds, with what its last vector reaches behind them; whole vectors of the last image where they
  /// are converted.
  int64_t packedElements(const Extent &size) const;
  std::optional<Chain> conversion; ///< of the anchor's input
  std::vector<Chain> chains;       ///< one per vector instruction of a tile; an anchor without steps gets an empty one
  const timing::MachineParams &machine;
  Schedule schedule;
  const std::vector<uint64_t> &addresses;
  const OnChip &onChip;
  uint32_t layer;
  NetworkProgram &network;

  /// The kernel's plan. Network knobs stand in for the open knobs that the kernel can have.
  KernelPlan wanted;
  Tile tile;
  std::vector<Range> channelTiles; ///< of the chosen tile: the channels of each
  Buffers buffers;
  std::vector<std::vector<Held>> held; ///< per buffer and slot
  Range room;                          ///< of scratchpad 0, for buffers
  uint64_t clock = 0;
  size_t triedOperations = 0,
         untried = 0;  ///< of tiles that the list scheduler has seen; tiles that it has not, as these are too many
  double tapShare = 1; ///< of a window's taps, those that read no padding
  std::vector<uint64_t> constantAddress; ///< of kernel.tensors that are loaded as they are
  uint64_t weightsAddress = 0, diagonalsAddress = 0;
  std::vector<uint64_t> parametersAddress;

  /// Operations of one tile step, before they are ordered.
  struct TileStep {
    std::vector<schedule::Operation> early; ///< loads into a slot the step before does not use
    std::vector<schedule::Operation> late;  ///< loads into the only slot
    std::vector<schedule::Block> compute;
    uint32_t band = 0;
  };
  std::vector<TileStep> steps;
  size_t countedSteps = 0;
  uint64_t instructions = 0; ///< of these
  /// The tensors in bands, as the band at hand sees them.
  Resident bandIn, bandAddend, bandOut;
  /// Positions of the result, along P0 and P1.
  struct Band {
    Range columns, rows;
  };
  std::vector<Band> bands;
  static std::vector<Band> bandsOf(const Kernel &kernel, const Banding *banding);

  /// A tile and the input channels it takes before the next one.
  struct Visit {
    Extent origin;
    int64_t group, kBegin, kEnd;
    int64_t blockBegin, blockEnd; ///< blocks of output channels of the tile
    uint32_t band;
    bool begins = true, ends = true;             ///< the first visit of its tile, the last one
    bool turned = false;                         ///< takes its last input channels first
    bool isLast = false;                         ///< nothing hides its results
    std::optional<Range> columns = std::nullopt; ///< of its tile, along P0; nothing: all
    bool isLead = false;                         ///< makes only the sums that its tile would find, had it one above
  };
  std::vector<Visit> orderVisits() const;
  void takeTurns(std::vector<Visit> &tiles) const;
  std::vector<Visit> withLeads(const std::vector<Visit> &tiles) const;
  void takeInputs(std::vector<Visit> &order, llvm::ArrayRef<Visit> tiles, size_t together) const;
  void cutVisits(std::vector<Visit> &order) const;
  bool comesLateEnough(const plan::Split &last) const;
  bool canCut() const;
  bool hasOpenEnds() const;
  bool isFirstOfArray() const;
  int64_t firstPiece() const;
  int64_t pieces(const Tile &t) const; ///< of the first tile
  bool canBeginSmall(const Tile &t) const;
  bool canBeginWide(const Tile &t) const;
  bool canShareLoader() const;
  /// The tile with every start and order of loads that is possible and not ruled out by the request. `codeCounts`: less code may be better.
  std::vector<Tile> waysToLoad(const Tile &t, bool codeCounts) const;

  /// Values of a knob, as TileKnobs::set() takes them.
  using Values = llvm::SmallVector<int64_t, 5>;
  /// With a line buffer of the input: the rows that lie in it, those of which tiles, and where the tile at hand begins.
  struct Rolled {
    std::vector<int64_t> column;
    Range rows;
    int64_t offset = 0; ///< bytes
  } rolled;
  bool canRoll(const Tile &t) const;
  /// Whether tiles find their input in one circular line buffer. Packed taps have a slot for each tile all the same.
  bool rollsInput(const Tile &t) const { return t.lineBuffer > 1 && !unpacked; }
  /// Whether a tile copies the packed taps that the tile above has.
  bool copiesRows(const Tile &t) const { return unpacked && t.lineBuffer > 1; }
  int64_t rollingRows(const Tile &t) const; ///< rows that the line buffer of the input holds
  Values lineBuffers(const Tile &t) const;  ///< sizes of a line buffer that are worth a look, in tiles
  double rowsLoaded(const Tile &t) const;   ///< of a column of tiles, from top to bottom
  void rollInput(TileStep &step, const Extent &origin, const Extent &size, int64_t channel, int64_t icSize);

  /// Where the anchor reads a tile, and the bytes between neighbours along each axis.
  struct InputPlace {
    int64_t address = 0;
    Extent stride{}; ///< C: from one block of lanes to the next
  };

  /// pipelined and search: steps that a list scheduler puts in order.
  bool overlaps() const { return overlapsKernels(schedule); }
  bool contraction() const { return kernel.anchor && kernel.anchor->kind == Anchor::Contraction; }
  bool window() const { return kernel.anchor && kernel.anchor->kind == Anchor::Window; }
  unsigned weightMemory() const { return machine.scratchpads.size() > 1 ? 1 : 0; }
  /// The load engine that takes turns with the first, and that of weights.
  unsigned secondUnit(const Tile &t) const { return machine.loadEngines > 1 && !t.singleLoader ? 1 : 0; }
  unsigned weightUnit(const Tile &t) const {
    return kernel.plan.firstLoader.value_or(onChip.knobs.weightLoader == plan::WeightLoader::First) ? 0 : secondUnit(t);
  }
  void takeTile(const Tile &t);
  size_t channelTileOf(int64_t channel) const;
  int64_t channels() const { return contraction() ? kernel.anchor->oc : kernel.extent[C]; }
  int64_t elementBytes() const { return byteSize(kernel.anchor->inputType); }
  int64_t loadedBytes() const { return byteSize(kernel.loadedType()); } ///< of an element of the input in DRAM
  /// Weights that are no constant lie [tap][k][n] on chip; else [tap][n][k], so that whole runs are loaded of what has them in DRAM.
  static bool storesByChannel(const Anchor &a) { return a.weightIc != 1 || (a.weightOc == 1 && a.oc > 1); }
  bool constantWeights() const { return kernel.tensors[kernel.anchor->weights].role == KernelTensor::Constant; }

  Tile clampTile(Tile t) const;
  /// Channels of results that leave the accumulator at a time.
  int64_t drained(const Tile &t) const { return t.drain ? std::min(t.drain, t.tile[C]) : t.tile[C]; }
  /// The fewest channels that may: whole vectors, and whole bursts of DRAM where many positions go there.
  int64_t leastDrain() const;
  /// Whether the memories hold the tile, if need be with fewer of its results at a time.
  bool fitsDrained(Tile &t, Buffers &b) const;
  Buffers plan(const Tile &t) const {
    Buffers b;
    plan(t, b);
    return b;
  }
  int64_t weightTileBytes(const Tile &t) const;
  /// Into `b`, whatever that was: so many tiles are looked at that its memory is used again.
  void plan(const Tile &t, Buffers &b) const;
  int sameSource(const Buffers &b, size_t step, const Source &source) const;
  int overwritten(const Buffers &b, size_t i) const;
  bool exceedsMemory(const Buffers &b) const;
  /// Assigns addresses from `start` (per memory) on and round; false if the memories are too small. Slots start on banks of
  /// their own where that fits.
  bool allocate(Buffers &b, const std::array<int64_t, 8> &start = {}, std::array<int64_t, 8> *end = nullptr) const;
  bool allocateOwn(Buffers &b) const;
  bool isBesideNoSum(const Buffers &b, int buffer) const;
  struct Transfer;
  struct TileCounts;
  struct OperandLoads;
  double mixed(double readBytes, double writeBytes) const;
  TileCounts countTiles(const Tile &t) const;
  Transfer inputTransfer(const Tile &t) const;
  Transfer weightTransfer(const Tile &t) const;
  OperandLoads operandLoads(const Tile &t, const Buffers &b, const TileCounts &tiles) const;
  std::pair<double, double> turnedLoads(const Tile &t, const TileCounts &tiles) const;
  double inputWalks(const Tile &t, int64_t sumSlots) const;
  double arrayShare(const Tile &t) const;
  double windowRuns(const Tile &t) const;
  double leadSums(const Tile &t) const;
  int64_t conversionVectors(const Tile &t) const;
  double passCount(const Tile &t) const;
  double passCycles(const Tile &t) const;
  double windowCycles(const Tile &t) const;
  double vectorCycles(const Tile &t) const;
  Transfer sourceTransfer(const Tile &t, const Buffers &b, double &count) const;
  Transfer resultTransfer(const Tile &t) const;
  double firstLoads(const Tile &t, const Buffers &b, const TileCounts &tiles, double input, double weights,
                    double passes) const;
  cost::KernelWork emptyWork() const;
  cost::KernelWork tileWork(const Tile &t, const Buffers &b) const;
  std::optional<cost::KernelWork> leastWork(const Tile &t) const;
  bool scatters(const Tile &t) const;
  bool crowds(const Buffers &b) const;
  bool isDoubtful(const Tile &t) const;
  int64_t packedRowBytes(int64_t columns) const; ///< of the input under a row of so many columns of packed taps
  /// By the cost model. `work`: tileWork(); `ownBanks`: no two slots share a bank.
  double estimate(const Tile &t, const Buffers &b, cost::KernelWork work, bool ownBanks) const;
  /// What no form of the tile is estimated to take less than.
  double leastEstimate(const Tile &t) const;
  std::vector<schedule::Step> trialOf(const Tile &candidate);
  /// Cycles of this kernel alone with that tile, as the list scheduler estimates them.
  double tryTile(const Tile &candidate);
  bool codeCounts(double cycles) const;
  /// The ways to load a tile, as the list scheduler sees them, the fastest first. `least`: the best tile's estimate.
  Ranking rankWays(const Tile &t, double estimate, double least);
  /// Whether instructions have room for all that the tile makes; `why` they have not.
  bool canBeEncoded(const Tile &t, std::string &why);
  /// Whether the tiles differ only in wishes for slots and order that come to the same.
  bool givesSameProgram(const Tile &x, const Tile &y) const;

  std::vector<schedule::Step> takeSteps();
  llvm::Error choose();
  /// Sizes along each axis that are looked at.
  struct TileSizes {
    std::vector<int64_t> channels, columns, rows, images, ic;
  };
  TileSizes sizesToTry() const;
  bool takesAllChannels() const;
  int64_t channelUnit() const { return contraction() ? machine.cols : machine.lanes; }
  /// Slots of every streamed buffer, and whether engines work side by side.
  struct Style {
    int64_t depth;
    bool overlap;
  };
  std::vector<Style> stylesToTry() const;
  /// The part of the choice that gives a knob its value.
  enum class Chooser {
    Sizes,       ///< the loops over sizes and depths
    Plan,        ///< the kernel's plan, or the network's knob that stands in for it
    Form,        ///< the closed-form cost model, which ranks tiles of every value
    LineBuffers, ///< the same, for forms that isPossible() allows
    Scheduler,   ///< the list scheduler, for the best tiles
  };
  /// How the choice of a tile treats a knob.
  struct KnobRule {
    plan::TileKnob knob;
    Chooser chooser;
    bool (*isOf)(const Emitter &);                            ///< whether the kernel can have the knob
    bool (*matters)(const Emitter &, const Tile &) = nullptr; ///< whether the tile's plan sets the knob; null: it does
    /// The values that are worth a look, the first one first, once the rules before have set their knobs; null: the chooser has one value.
    Values (*values)(const Emitter &, const Tile &) = nullptr;
    /// Why a kernel without the knob refuses a plan that sets it; null: any value is allowed.
    std::string (*whyNot)(const Emitter &) = nullptr;
  };
  /// One rule for every knob, in the order of enumeration. A knob with two rules has its value set in two steps.
  static llvm::ArrayRef<KnobRule> knobRules();
  /// Calls visit() for every variant of the tile, with values that `chooser` may give its knobs and that the plan allows.
  void forEachVariant(Chooser chooser, const Tile &t, llvm::function_ref<void(const Tile &)> visit, size_t rule = 0) const;
  bool hasAllPositions(const Tile &t) const; ///< each tile makes results for all positions of the kernel
  bool isPossible(const Tile &t) const;
  using LookAt = llvm::function_ref<void(const Tile &, Buffers &)>;
  using CanMatter = llvm::function_ref<bool(double)>; ///< a tile of that estimate, or of a larger one
  void forEachTile(CanMatter canMatter, LookAt lookAt) const;
  void forEachForm(const Extent &size, int64_t ic, Style style, Buffers &b, CanMatter canMatter, LookAt lookAt) const;
  /// The best tiles by their estimates.
  class Shortlist;
  /// Where the list scheduler puts the tiles in order.
  bool asksScheduler() const { return overlaps() && (!onChip.hasNeighbours || packsPlanes()); }
  Ranking rankTiles();
  size_t fastestPlanned(llvm::ArrayRef<std::pair<double, Tile>> tiles, double least);
  void planFirst(Ranking &ranking, double least);
  void planAll(Ranking &ranking, const Shortlist &ofPipelined, double least);
  Ranking withSizesAndSplits(const Ranking &best, const Ranking &ofSizes) const;
  void addVariants(Ranking &ranking) const;
  void recordChoice(double estimate);
  void recordAlternatives(llvm::ArrayRef<std::pair<double, Tile>> others);
  KernelPlan planOf(const Tile &tile) const;
  std::string describeTile(double estimate) const;
  Tile leastTile() const;
  std::string whyNoneFits() const;
  /// What the ranking of tiles depends on, as text.
  /// `planned`: of tiles that the list scheduler has put in order.
  std::string rankingKey(bool planned) const;
  /// Whether the kernel, the machine and the base schedule have what a schedule file asks for.
  llvm::Error checkRequest() const;
  const BandedTensor *bandedInput() const { return onChip.banding ? onChip.banding->input : nullptr; }
  const BandedTensor *bandedAddend() const { return onChip.banding ? onChip.banding->addend : nullptr; }
  const BandedTensor *bandedOutput() const { return onChip.banding ? onChip.banding->output : nullptr; }
  /// A window whose rows of taps go round.
  bool readsRing() const { return bandedInput() && bandedInput()->ring; }
  /// The row of taps that has come round to the first row of its ring.
  int64_t rowOfRing(uint32_t band) const {
    const BandedTensor &rows = *bandedInput();
    return (rows.ring - rows.placeOf(rows.bands[band].begin)) % rows.ring;
  }
  /// Rows of lanes of a window's weights, per block: one for each tap. In a ring every row of taps but the last comes again.
  int64_t windowWeights() const {
    const int64_t kw = kernel.anchor->axes[0].kernel, kh = kernel.anchor->axes[1].kernel;
    return kw * (readsRing() ? 2 * kh - 1 : kh);
  }
  const Resident *residentOf(int tensor) const {
    if (bandedInput() && tensor == kernel.anchor->input.tensor)
      return &bandIn;
    if (bandedAddend() && tensor == bandedAddend()->addend)
      return &bandAddend;
    if (bandedOutput() && tensor == kernel.output.tensor)
      return &bandOut;
    return size_t(tensor) < onChip.tensors.size() ? onChip.tensors[size_t(tensor)] : nullptr;
  }
  const Resident *residentInput() const { return kernel.anchor ? residentOf(kernel.anchor->input.tensor) : nullptr; }
  /// Weights that are no constant, where another kernel left them.
  const Resident *residentWeights() const {
    return contraction() && kernel.anchor->batchAxis && !constantWeights() ? residentOf(kernel.anchor->weights) : nullptr;
  }
  /// Bytes that the kernel's buffers may lie in.
  Range placeIn(unsigned memory) const;
  int64_t capacityOf(const Buffer &buffer) const;
  int64_t bandRows() const;
  int64_t bandColumns() const;
  /// Tiles along an axis of positions: none reaches from one band into the next.
  int64_t tilesAlong(unsigned axis, const Tile &t) const;
  int64_t tileCount(const Tile &t) const; ///< of results of a group
  int64_t tilesTogether(const Tile &t) const;
  void beginBand(uint32_t band);
  int64_t positions(const Tile &t) const { return t.tile[P0] * t.tile[P1] * t.tile[P2]; }
  bool pairsRows() const { return contraction() && kernel.anchor->pairsRows; }
  /// Rows of the accumulator that a pass over so many outputs goes to.
  int64_t passRows(const Extent &size) const { return size[P0] * (pairsRows() ? ceilDiv(size[P1], 2) : size[P1]) * size[P2]; }
  /// Accumulator rows of a tile's sums, for a block of columns. Pairs of rows have three sets of sums: for the inputs that the upper outputs
  /// read alone, for those that both read, and for those that the lower outputs read alone.
  int64_t sums(const Tile &t) const {
    return passRows(t.maxLineBuffer ? madeSums(t) : kernel.sums(t.tile)) * (pairsRows() ? 3 : 1);
  }
  /// Whether windows one below the other share sums, and the accumulator may keep them.
  bool canHaveSumLineBuffer() const { return overlaps() && onChip.hasNeighbours && kernel.sharedSums() > 0; }
  /// Whether the tile has a sum line buffer: tiles of one row of windows find the sums that they share with the row above. The sums of a
  /// strip, a tile's columns and channels, stay in their slot of the accumulator, and a new row takes the place of the oldest. Strips take
  /// turns, as many as there are slots; in a fusion group each strip has a slot.
  bool hasSumLineBuffer(const Tile &t) const;
  /// Whether tiles of any number of rows may find the maxima of those sums in a line buffer in the scratchpad. Each strip has a slot there.
  bool canHaveMaxLineBuffer(const Tile &t) const;
  int64_t carried = 0; ///< rows of sums whose maxima such a line buffer holds; 0: the kernel cannot have one
  /// Rows of sums that a tile need not make, as the tile above makes them.
  int64_t sharedRows(const Tile &t) const { return t.maxLineBuffer ? carried : hasSumLineBuffer(t) ? kernel.sharedSums() : 0; }
  /// The sums that the accumulator holds when the vector engine takes the sums of `results`. The line buffer has the maxima of the others.
  Extent heldSums(const Extent &results) const {
    Extent held = kernel.sums(results);
    held[P1] -= tile.maxLineBuffer ? carried : 0;
    return held;
  }
  /// The most sums that a tile makes at a time.
  Extent madeSums(const Tile &t) const;
  int64_t inputSpan(const Tile &t, unsigned axis) const;
  /// Bytes of a row of an input tile: so many vectors of `channels`, or the pixels that they share.
  int64_t inputRowBytes(int64_t vectors, int64_t channels) const;
  /// A window with several outputs side by side: its vectors go down the rows, as that is the way in which neighbours share taps.
  bool packsRows() const { return window() && kernel.anchor->pixels.count > 1; }
  /// Vectors go down the rows, as neighbours there share taps: windows of one column have no others to share.
  bool goesDown() const { return packsRows() || ((window() || kernel.maxima) && isColumn(kernel)); }
  /// The parts of a window. A window over rows of a ring has none, nor a window that the array shares, or whose parts have no room.
  llvm::SmallVector<WindowPart, 4> windowParts(const Tile &t) const {
    return readsRing() || t.arrayChannels || keepsWhole ? llvm::SmallVector<WindowPart, 4>() : accel::windowParts(kernel);
  }
  bool keepsWhole = false; ///< a window, as no tile would fit otherwise
  void addWindowParts(TileStep &step, isa::Vector &whole) const;
  /// Of a pixel, where several lie in a vector.
  int64_t pixelChannels() const { return (contraction() ? kernel.anchor->ic : kernel.extent[C]) / kernel.anchor->pixels.count; }

  /// Of the tensor that the anchor reads, in DRAM.
  uint64_t inputAddress() const {
    const size_t tensor = size_t(kernel.anchor->input.tensor);
    return kernel.tensors[tensor].role == KernelTensor::Constant ? constantAddress[tensor] : addresses[tensor];
  }
  void skipUnread();
  void packTaps();
  /// A slot's tile of packed taps, for sums of that origin and size.
  struct PackedTile {
    unsigned slot;
    Extent origin, size;
  };
  llvm::SmallVector<PackedTile, 8> packedTiles; ///< that are on chip, where tiles copy rows
  const PackedTile *tileAbove(const Extent &origin, const Extent &size) const;
  /// Without the first `skipped` rows, for which the slot then has no place.
  void loadPacked(TileStep &step, const Extent &origin, const Extent &size, const Buffer &b, unsigned slot, bool isFirst,
                  unsigned unit, int64_t skipped = 0);
  void loadConverted(TileStep &step, const Extent &origin, const Extent &size, unsigned slot, bool isFirst);
  void loadPlain(TileStep &step, const Extent &origin, const Extent &size, const Buffer &b, unsigned slot, bool isFirst,
                 unsigned unit, int64_t skipped);
  /// Taps of a tile side by side at `to`, where the next column is `column` bytes on, from its plain rows at `from`.
  void packPlain(TileStep &step, const Extent &size, int64_t rows, int64_t from, int64_t to, int64_t column) const;
  /// A run of elements in each of `count` columns: where the first one is, and the bytes from one to the next.
  struct Columns {
    int64_t count, elements;
    int64_t from, fromStride, to, toStride;
  };
  void moveColumns(TileStep &step, const Columns &columns, const Chain &chain) const;
  void fillSlot(TileStep &step, const Buffer &b, unsigned slot, int64_t begin, int64_t elementSize);
  void packConstants();
  void emitTiles();
  /// Where one engine loads both operands, visits that share a set of stationary tiles load the next set, a tile at a time.
  struct Ahead {
    size_t end = 0;               ///< the first visit of the next set
    bool loads = false;           ///< the set has room, and there is a next one
    int64_t steps = 0, begin = 0; ///< of this set; the step from which on tiles are loaded ahead
    int64_t done = 0, loaded = 0; ///< steps of this set, tiles of the next one
  };
  Ahead lookAhead(const std::vector<Visit> &visits, size_t first) const;
  void loadAhead(TileStep &step, const Visit &next, Ahead &ahead);
  Extent sizeOf(const Visit &visit) const;
  void emitCopies();
  /// A block of a copy: where it begins and how far it reaches along each of the copy's dimensions.
  struct CopyBlock {
    std::vector<int64_t> at, size;
  };
  void moveBlock(const Copy &copy, const CopyBlock &block, const Buffer &staging, unsigned unit, bool storePermutes);
  void turnBlock(const Copy &copy, const CopyBlock &block, Turning &turning, TileStep &step, TileStep &stores);
  uint64_t addressOf(const View &view) const; ///< of the view's tensor in DRAM
  void order();

  /// The slot of `b` that holds `key`; `miss` if it must be loaded first, `isFirst` if nothing has been there.
  void emptySlots();
  std::vector<Held> &heldIn(const Buffer &b) { return held[size_t(&b - buffers.all.begin())]; }
  void waitForBanks(TileStep &step, const Buffer &b, unsigned slot) const;
  unsigned acquire(const Buffer &b, llvm::ArrayRef<int64_t> key, bool &miss, bool *isFirst = nullptr);
  void addLoad(TileStep &step, const Buffer &b, unsigned slot, unsigned unit, uint64_t dram, unsigned elementSize,
               std::vector<BoxDim> dims, uint32_t fill, int64_t offset = 0);
  void addBox(TileStep &step, const Buffer &b, unsigned unit, uint64_t dram, int64_t onChip, unsigned elementSize,
              const std::vector<BoxDim> &box, uint32_t fill, bool broadcast);
  /// addLoad() of a box of an argument, whose first element is `element`; a concatenation's comes from where its parts lie.
  void addArgumentLoad(TileStep &step, const Buffer &b, unsigned slot, unsigned unit, int tensor, int64_t element,
                       std::vector<BoxDim> dims, uint32_t fill);
  void addStore(TileStep &step, int64_t from, uint64_t dram, unsigned elementSize, std::vector<BoxDim> dims);
  schedule::Operation operation(const isa::Instruction &instruction) const;
  /// Of an operand that begins there. `isResult`: of the result of a kernel, or what fills its padding.
  uint32_t valueAt(int64_t memory, int64_t address, bool isResult) const;
  /// `rows`: of the input, padding included, to `offset` in the slot; nothing: those of the tile.
  void loadInput(TileStep &step, const Extent &origin, const Extent &size, int64_t group, int64_t icOrigin, int64_t icSize,
                 unsigned slot, std::optional<Range> rows = std::nullopt, int64_t offset = 0);
  void loadWeights(TileStep &step, const Extent &origin, const Extent &size, int64_t group, int64_t batch, int64_t k,
                   int64_t icSize, unsigned slot);
  /// countX taps from x on in each of countY rows from y on, `step` apart along the width and the rows; the first and last outputs
  /// of a tile for which the first of them reads nothing but padding, and how far these move from tap to tap.
  struct Taps {
    int64_t x, countX, y, countY;
    std::array<int64_t, 2> low, high;
    std::array<int64_t, 2> step{1, 1}, shift{};
    int64_t kBegin = 0, kEnd = 0; ///< channels of these taps; 0: all
    int64_t plane = 0;            ///< of the sums, where there are several
  };
  bool skipsPadding() const;
  double usefulTaps() const;
  std::vector<Taps> tapGroups(const Extent &origin, const Extent &size) const;
  std::vector<Taps> tapGroups(const Extent &origin, const Extent &size, bool joins) const;
  bool keepDistance(llvm::ArrayRef<Taps> joined, const Extent &size) const;
  /// Products for a box of sums.
  struct Products {
    Extent origin, size;
    bool areFirst = true; ///< nothing has gone to these sums before
    int64_t icSize = 0;
    InputPlace input;
    int64_t weights = 0;             ///< address
    int64_t sums = 0, blockRows = 0; ///< of the accumulator: the first row, and from one block of columns to the next
  };
  void passes(TileStep &step, const Products &products, const Visit &visit);
  /// The last blocks of a window's tile, which the array computes, and the slot of their sums.
  struct OnArray {
    int64_t blocks;
    unsigned slot;
  };
  int64_t mostArrayBlocks(const Tile &t, int64_t blocks) const {
    return window() ? accel::mostArrayBlocks(kernel, t.arrayChannels, blocks) : 0;
  }
  int64_t diagonalBytes() const { return windowWeights() * machine.rows * machine.cols * elementBytes(); } ///< of a block
  void windowPasses(TileStep &step, const Visit &visit, const Extent &size, unsigned inputSlot, const OnArray &onArray);
  void boxPasses(TileStep &step, const Products &products, const Visit &visit);
  void tapPasses(TileStep &step, const Products &products, const Visit &visit, const Taps &taps);
  /// The channels of [first, first + count) that are not in the padding of `view`.
  Range channelsOf(const View &view, int64_t first, int64_t count) const;
  /// The sums begin `accOffset` bytes behind the slot's start; those of the next block of channels come `accBlock` bytes later (0: the
  /// tile has no other positions).
  void vectorSteps(TileStep &step, const Extent &origin, const Extent &size, int64_t group, unsigned anchorSlot,
                   int64_t accOffset = 0, int64_t accBlock = 0, const OnArray &onArray = {0, 0});
  using AddVector = llvm::function_ref<void(const isa::Vector &, const Extent &origin, const Extent &size)>;
  /// `hasRows`: all its rows have the window that it has; else one of the kernel's, as far as there are sums.
  void forEachWindowSize(const isa::Vector &whole, const Extent &origin, const Extent &size, AddVector add,
                         bool hasRows = false) const;
  /// Sums in the accumulator: where the first of them is, the bytes from one block of channels to the next, and how many there are.
  struct HeldSums {
    int64_t address, blockBytes;
    Extent size;
  };
  HeldSums sumsOf(unsigned slot, const Extent &made) const {
    const int64_t row = machine.accumulatorRowBytes();
    return {buffers.all[size_t(buffers.accumulator)].address[slot], passRows(made) * row, made};
  }
  /// The windows `whole` of a tile that finds the maxima of its first sums in the line buffer, and leaves some for the tile below.
  void addCarried(TileStep &step, const isa::Vector &whole, const Extent &origin, const Extent &size, const HeldSums &sums,
                  AddVector add);
  /// The maxima that windows have of the shared rows of sums from `row` on, to the line buffer.
  void carryMaxima(TileStep &step, const Extent &origin, const Extent &size, const HeldSums &sums, int64_t row);
  /// Vectors do not start before the sums that no window sees are there, and others do not take their place meanwhile.
  void guardSums(TileStep &step, size_t first, const HeldSums &sums, int64_t blocks) const;
  /// Where the strip of a tile has its row of maxima, of the channels from the origin's on.
  struct LinePlace {
    int64_t address;
    std::array<int64_t, 4> strides;
  };
  LinePlace placeInLine(const Extent &origin, const Extent &size);
  void writeBands(TileStep &step, const isa::Vector &v, const Extent &origin, const Extent &size);
  void addPairs(TileStep &step, const isa::Vector &v, const Extent &size, bool fillsRows) const;
  /// `apart`: blocks in front of those that lie in banks of their own; 0: all lie together.
  void addVector(TileStep &step, isa::Vector v, int64_t apart = 0) const;
  void addParts(TileStep &step, isa::Vector v) const;
  void storeResult(TileStep &step, const Extent &origin, const Extent &size, int64_t group, unsigned slot);
  InputPlace inputPlace(const Extent &origin, const Extent &size, int64_t group, int64_t icOrigin, int64_t icSize,
                        unsigned slot) const;
  void fillBorders(TileStep &step, const Resident &resident) const;
  void fillRows(TileStep &step, const Resident &resident, int64_t address, int64_t bytes, int64_t count) const;
};

/// Splits a box of any rank and size into instructions.
void forEachBox(std::vector<BoxDim> dims, unsigned elementSize, uint64_t dram, int64_t onChip,
                const std::function<void(const std::vector<BoxDim> &, uint64_t, int64_t, bool broadcast)> &emit);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_EMITTER_H
