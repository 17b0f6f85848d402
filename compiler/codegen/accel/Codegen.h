//===- Codegen.h - Kernels to tile programs ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_CODEGEN_ACCEL_CODEGEN_H
#define COMPILER_CODEGEN_ACCEL_CODEGEN_H

#include "compiler/codegen/accel/Chain.h"
#include "compiler/codegen/accel/Fusion.h"
#include "compiler/codegen/accel/Kernel.h"
#include "compiler/codegen/accel/Residency.h"
#include "compiler/cost/Bounds.h"
#include "compiler/cost/CostModel.h"
#include "compiler/plan/NetworkPlan.h"
#include "compiler/schedule/Overlap.h"
#include "isa/Program.h"

#include "llvm/Support/Error.h"

#include <functional>
#include <map>

namespace tw::accel {

using plan::Engine, plan::LoopOrder, plan::Schedule, plan::Stationary;
using plan::kScheduleNames, plan::nameOf, plan::overlapsKernels, plan::scheduleNamed;
/// Positions that go through some tiles before others do.
using Cut = plan::Split;

inline bool isKOuter(std::optional<LoopOrder> order) { return order && *order >= LoopOrder::KOuter; }

/// Of a product's tiles the first ones and the last ones that some positions go through before others do.
struct CutTiles {
  std::optional<Cut> first, last;

  int64_t count() const { return std::max(first ? first->tiles : 0, last ? last->tiles : 0); }
  bool operator==(const CutTiles &other) const { return first == other.first && last == other.last; }
};

constexpr int64_t kBurst = 64; ///< alignment of everything in DRAM and of every slot

/// One choice of tile. Contractions: `size[C]` counts output channels of one group.
struct Tile {
  Extent size{1, 1, 1, 1};
  int64_t ic = 1;
  unsigned depth = 1;         ///< slots of every streamed buffer
  bool channelsOuter = false; ///< contractions: all positions of a block of output channels before the next block
  bool overlap = true;        ///< engines work side by side
  /// Contractions: whether the operand of the outer loop (weights with channelsOuter, else the input) keeps all its ic tiles on
  /// chip while the inner loop runs, and with how many slots more for the next ones; AllWeights: the weights of the whole kernel
  /// stay.
  enum Panel : uint8_t { NoPanel, OnePanel, PanelAndTile, TwoPanels, AllWeights } panel = NoPanel;
  /// Contractions: all tiles, or as many as have sums side by side, take a block of input channels before the next block; each has
  /// its own slot in the accumulator.
  bool inputsOuter = false;
  /// Contractions at the start of a program: the first tile takes its input channels in pieces that begin small.
  bool beginsSmall = false;
  /// Contractions: one slot of the accumulator, whatever the depth. The array waits for the results of a tile, but the tile may be
  /// twice as large.
  bool oneSum = false;
  /// With one sum: results leave a block of columns at a time, and so begins the next tile, as soon as its first block has room.
  bool byBlock = false;
  /// Contractions that the array begins with: the first tiles, as many as have sums side by side, take each block of input
  /// channels together. What arrives is used more often: the array has work before the operands of a whole tile are there.
  bool beginsWide = false;
  /// Contractions that have a program to themselves: one engine loads both operands, each tile when its turn comes, so that
  /// none takes the bus before it is needed. With room for two panels, the loads of the next one lie evenly between the others.
  bool oneLoader = false;
  /// Contractions at the end of a program: the results of the last tile leave in parts while others are still made. That takes more code.
  bool endsSmall = false;
  /// Contractions: how many channels of its results leave the accumulator at a time; 0: all. What they need beside it in the
  /// scratchpad need not hold a whole tile then.
  int64_t drain = 0;
  /// Windows over rows that neighbouring tiles share: so many tiles, one below the other, find their input in one piece of memory, and
  /// each loads the rows that it alone has. The next ones begin again where the first did. 1: every tile has a slot of its own. Packed taps
  /// have slots of their own all the same, and each tile copies the rows that it shares with the one above it.
  int64_t rolling = 1;
  /// Windows of sums: the maxima of those that a tile shares with the one below go to a line buffer in the scratchpad.
  bool carriesMaxima = false;
  /// Row reductions: steps leave their results where they read, as there is no room for both.
  bool inPlace = false;
  CutTiles cut = {};
};

/// The knobs of a plan that these fields of a tile are.
inline LoopOrder loopOrderOf(const Tile &tile) { return LoopOrder(tile.channelsOuter + 2 * tile.inputsOuter); }
inline Stationary stationaryOf(const Tile &tile) { return Stationary(tile.panel); }

/// Tiles and what the cost model says of them, best first.
using Ranking = std::vector<std::pair<double, Tile>>;

/// Rankings by all that they depend on: what the kernel computes, and what it finds on chip.
using Rankings = std::map<std::string, Ranking>;

/// A constant in DRAM. Its bytes are made when the program is final: most programs that are tried are not.
struct Constant {
  uint64_t address = 0;
  std::function<std::vector<uint8_t>()> bytes;
};

/// Instructions of a program, repeated ones included, unless --max-instructions says otherwise. They take about a kilobyte each while they are
/// put in order.
inline constexpr uint64_t kMaxInstructions = uint64_t(1) << 22;

/// The growing program of a network: instructions in order, and constants laid out in DRAM.
struct NetworkProgram {
  /// How many may there be, and how many there are.
  uint64_t maxInstructions = kMaxInstructions, instructions = 0;
  schedule::TileProgram tiles;
  /// Pipelined: the steps of all kernels so far, for schedule::overlap().
  std::vector<schedule::Step> steps;
  /// Pipelined: per memory, the end of the last kernel's buffers. The next kernel's lie behind it, so that it can begin meanwhile.
  std::array<int64_t, 8> nextOnChip{};
  std::vector<Constant> constants;
  uint64_t nextAddress = 0; ///< where the next constant goes
  /// Per layer: the tile that was chosen, for people.
  std::vector<std::string> choices;
  /// Per layer: scratchpad bytes of one slot of each buffer of that tile.
  std::vector<uint64_t> tileBytes;
  /// Per layer: the same as a request, which gets the same tile again.
  std::vector<plan::KernelPlan> chosen;
  /// Search: per layer, the next best tiles, as knobs.
  std::vector<std::vector<plan::KernelPlan>> alternatives;
  /// Of a kernel whose channels the next one takes as they are made: per channel, the steps (schedule::Step::band) that it is there behind;
  /// and its slots, each with its memory.
  std::vector<uint32_t> madeIn;
  std::vector<std::pair<unsigned, Range>> slots;
  /// What choices among tiles go by.
  const cost::CostModel *costModel = &cost::closedForm();
  /// What kernels of the same network, in this program or another, have found out by it; may be null.
  Rankings *rankings = nullptr;

  /// Places `size` bytes, which `bytes` makes, at the next burst-aligned address.
  uint64_t addConstant(size_t size, std::function<std::vector<uint8_t>()> bytes);
};

/// Cycles that a pass takes at least, as estimates have it: the next one's weights come meanwhile.
int64_t preloadCycles(const timing::MachineParams &machine);

/// Bytes that the parameters of all channels take in the weight scratchpad, in banks of their own.
int64_t parameterBytes(const Kernel &kernel, const timing::MachineParams &machine);

/// What the kernel asks of each engine at least, whatever the tiling: the operands of the lower bound.
cost::LayerWork workOf(const Kernel &kernel, const timing::MachineParams &machine);

/// Bytes of kernel.tensors[tensor] that every program of the kernel reads or writes at least once.
uint64_t touchedBytes(const Kernel &kernel, int tensor);

/// The kernel with neighbouring pixels side by side in the rows and columns of the array, or in the lanes of the vector engine, where
/// it needs fewer cycles so; nothing where it does not.
std::optional<Kernel> packPixels(const Kernel &kernel, const timing::MachineParams &machine);

/// Whether the load engine lays the channels of all taps side by side, if the input comes from DRAM. Of a kernel: it has such an
/// anchor, and the weights are constant.
bool packsTaps(const Anchor &anchor, const timing::MachineParams &machine);
bool packsTaps(const Kernel &kernel, const timing::MachineParams &machine);

/// Whether the array may compute some channels of a window for the vector engine, as products with diagonal matrices of weights.
bool canUseBothEngines(const Kernel &kernel, const timing::MachineParams &machine);

/// Blocks of lanes that the array has of any `blocks` that follow one another, at most.
inline int64_t mostArrayBlocks(const Kernel &kernel, int64_t arrayChannels, int64_t blocks) {
  return (blocks * arrayChannels + kernel.extent[C] - 1) / kernel.extent[C];
}

/// Whether a kernel and the next one take turns: a block of channels is made, and while the next one is, it is taken
/// (docs/design/prefetch.md).
enum class AsMade { No, Makes, Takes };

/// Where a kernel finds its tensors on chip, and the room it has there itself.
struct OnChip {
  std::vector<const Resident *> tensors; ///< per kernel.tensors; null or missing: in DRAM
  bool fillsBorders = false;             ///< the first kernel to write a padded tensor fills its padding
  bool storesResult = true;              ///< the result goes to DRAM, also one that stays on chip
  bool hasNeighbours = false;            ///< other kernels run before or after this one
  bool isFirst = true;                   ///< the array has nothing to do before this kernel
  bool wholeBanks = false;    ///< its buffers begin with a bank that those of the kernel before do not use, where that lets
                              ///< no two share one
  bool shortWindows = false;  ///< pooling lets its neighbours' vector work in between
  bool serpentine = false;    ///< contractions: every second tile takes the last input channels first
  bool keepsSums = false;     ///< windows of sums find those that they share with the row above
  bool carriesMaxima = false; ///< or maxima of those, if that is faster
  bool plansTiles = false;    ///< of the best tiles by the closed form, the list scheduler says which is
  plan::WeightLoader weightLoader = plan::WeightLoader::Second;
  int64_t room = INT64_MAX;                    ///< bytes of scratchpad 0, from 0 on
  std::optional<std::array<int64_t, 2>> banks; ///< of scratchpad 0, first and end, for the kernel's buffers
  /// Bytes of the weight scratchpad and of the accumulator that are the kernel's; empty: all.
  Range weights, sums;
  AsMade asMade = AsMade::No;
  const Banding *banding = nullptr; ///< in a group of kernels
  int64_t arrayChannels = 0;        ///< of a window that canUseBothEngines(): so many are the array's
  std::vector<CutTiles> cuts;       ///< that a search may want of tiles that hold all positions
  int64_t planes = 1;               ///< who reads the result takes this many equal parts of it side by side
};

/// Rows of sums whose maxima tiles of the kernel can carry down; 0 where its first vector instruction has no room for what that takes.
int64_t carriedSums(const Kernel &kernel, const timing::MachineParams &machine);

/// Tiles `kernel` for `machine`, picks the cheapest tile that fits, and appends its instructions to `network` as layer `layer`.
/// `addresses[i]` is the DRAM address of kernel.tensors[i] (ignored for constants).
/// Fails where no tile fits, naming what was needed and what the machine has.
llvm::Error emitKernel(const Kernel &kernel, const timing::MachineParams &machine, Schedule schedule,
                       const std::vector<uint64_t> &addresses, const OnChip &onChip, uint32_t layer, NetworkProgram &network);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_CODEGEN_H
