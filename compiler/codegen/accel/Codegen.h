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
#include "compiler/plan/TileKnobs.h"
#include "compiler/schedule/Overlap.h"
#include "isa/Program.h"

#include "llvm/Support/Error.h"

#include <functional>
#include <map>

namespace tw::accel {

using plan::Engine, plan::LoopOrder, plan::Schedule, plan::Stationary;
using plan::kScheduleNames, plan::nameOf, plan::overlapsKernels, plan::scheduleNamed;
inline bool isKOuter(std::optional<LoopOrder> order) { return order && *order >= LoopOrder::KOuter; }

constexpr int64_t kBurst = 64; ///< alignment of everything in DRAM and of every slot

/// One choice of tile: its knobs, and the properties of its buffers that follow from the room there is. `tile[C]` of a contraction counts
/// output channels of one group.
struct Tile : plan::TileKnobs {
  /// Contractions: channels of the results that leave the accumulator at a time; 0: all. The other operands of the vector steps need not
  /// fill a whole tile then.
  int64_t drain = 0;
  /// Row reductions: each step writes its result over its operand, as the scratchpad has no room for both.
  bool inPlace = false;

  static Tile of(const Extent &size, int64_t tileK, int64_t depth) {
    Tile t;
    t.tile = size;
    t.tileK = tileK;
    t.depth = depth;
    return t;
  }
  bool channelsOuter() const { return loopOrder == LoopOrder::ChannelsOuter || loopOrder == LoopOrder::KChannelsOuter; }
  bool kOuter() const { return isKOuter(loopOrder); }
  /// Of the `kTiles` k blocks of the next outer iteration: those that the stationary operand's buffer holds beside all the current ones.
  int64_t tilesAhead(int64_t kTiles) const {
    return stationary >= Stationary::Double ? kTiles : stationary == Stationary::Prefetch ? 1 : 0;
  }
  /// The larger number of tiles at either end that take the positions in parts; 0: none does.
  int64_t splitTiles() const { return std::max(firstSplit ? firstSplit->tiles : 0, lastSplit ? lastSplit->tiles : 0); }
};

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
  /// The last numbers of schedule::Operation and schedule::OperandValues that were given away.
  uint64_t operations = 0;
  uint32_t values = 0;
  /// Values of tensors that stay on chip.
  std::map<const Resident *, uint32_t> residentValues;
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

/// Channels of the kernel's window that its plan gives to the array; 0: all are the vector engine's.
int64_t arrayChannels(const Kernel &kernel, const timing::MachineParams &machine);

/// Blocks of lanes that the array has of any `blocks` that follow one another, at most.
inline int64_t mostArrayBlocks(const Kernel &kernel, int64_t arrayChannels, int64_t blocks) {
  return (blocks * arrayChannels + kernel.extent[C] - 1) / kernel.extent[C];
}

/// Channel streaming between two kernels (docs/design/prefetch.md): the maker computes a block of channels while the taker consumes the
/// block before.
enum class Streaming { None, Maker, Taker };

/// Splits of a product's first and last tiles, whose positions pass in parts.
struct TileSplits {
  std::optional<plan::Split> first, last;
};

/// Where a kernel finds its tensors on chip, the room that it has there, and the choices for the whole network.
struct OnChip {
  plan::NetworkKnobs knobs = plan::NetworkKnobs().withDefaults(); ///< no knob is open
  std::vector<const Resident *> tensors;                          ///< per kernel.tensors; null or missing: in DRAM
  bool fillsBorders = false;  ///< the kernel fills the padding of its result, as the first of the tensor's writers
  bool storesResult = true;   ///< the result goes to DRAM, even if it stays on chip as well
  bool hasNeighbours = false; ///< other kernels run before or after this one
  bool isFirst = true;        ///< the array has nothing to do before this kernel
  int64_t room = INT64_MAX;   ///< bytes of scratchpad 0, from 0 on
  std::optional<std::array<int64_t, 2>> banks; ///< of scratchpad 0, first and end, for the kernel's buffers
  /// Bytes of the weight scratchpad and of the accumulator that belong to the kernel; empty: all.
  Range weights, sums;
  Streaming streaming = Streaming::None;
  const Banding *banding = nullptr; ///< in a fusion group
  std::vector<TileSplits> splits;   ///< a search may want these splits of tiles that hold all positions
  int64_t planes = 1;               ///< the reader of the result takes this many equal parts of it side by side
};

/// Rows of sums whose maxima tiles of the kernel can carry down; 0 where its first vector instruction has no room for what that takes.
int64_t carriedSums(const Kernel &kernel, const timing::MachineParams &machine);

/// Tiles `kernel` for `machine`, picks the cheapest tile that fits, and appends its instructions to `network` as layer `layer`.
/// `addresses[i]` is the DRAM address of kernel.tensors[i] (ignored for constants).
/// Fails where no tile fits, naming what was needed and what the machine has.
llvm::Error emitKernel(const Kernel &kernel, const timing::MachineParams &machine, Schedule schedule,
                       const std::vector<uint64_t> &addresses, const OnChip &onChip, uint32_t layer, NetworkProgram &network);

/// What emitKernel() would say of `kernel` alone on `machine`, with all of its memory: that it has a form which no engine has, or that no
/// tile fits. Emits nothing.
llvm::Error checkKernel(const Kernel &kernel, const timing::MachineParams &machine, Schedule schedule);

} // namespace tw::accel

#endif // COMPILER_CODEGEN_ACCEL_CODEGEN_H
