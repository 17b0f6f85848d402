//===- Emitter.cpp - Tiles, buffers and instructions of one kernel ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"
#include "compiler/codegen/accel/Limits.h"
#include "compiler/cost/Constants.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace tw;
using namespace tw::accel;
using schedule::Block;
using schedule::Operation;

double accel::dramBytesPerCycle(const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  if (dram.kind == timing::DramKind::Ideal)
    return double(dram.bytesPerCycleNumerator) / dram.bytesPerCycleDenominator;
  return cost::kStreamBandwidth * dram.burstBytes * dram.channels * dram.clockMhz / (double(dram.nBurst) * machine.clockMhz);
}

int64_t accel::preloadCycles(const timing::MachineParams &machine) {
  constexpr int64_t kStart = 6; // from a preload's last row to the next one's first
  return ceilDiv(machine.rows, machine.preloadRowsPerCycle) + kStart;
}

uint64_t NetworkProgram::addConstant(size_t size, std::function<std::vector<uint8_t>()> bytes) {
  uint64_t address = nextAddress;
  nextAddress = uint64_t(roundUp(int64_t(address + size), kBurst));
  constants.push_back({address, std::move(bytes)});
  return address;
}

/// The first vectors must have a stage left, and no use for what B or the value that entered the chain is.
static int64_t carriedBy(const Kernel &kernel, llvm::ArrayRef<Chain> chains, const timing::MachineParams &machine) {
  auto usesEntry = [](const Chain::Stage &s) {
    return s.op == isa::StageOp::LoadSaved || s.operand == int64_t(isa::StageOperand::Saved);
  };
  const bool canCarry = chains.empty() || (chains[0].b < 0 && chains[0].stages.size() < machine.vectorStages &&
                                           llvm::none_of(chains[0].stages, usesEntry));
  return canCarry ? kernel.carriedSums() : 0;
}

Emitter::Emitter(const Kernel &kernel, std::vector<Chain> chains, std::optional<Chain> conversion,
                 const timing::MachineParams &machine, Schedule schedule, const std::vector<uint64_t> &addresses,
                 const OnChip &onChip, uint32_t layer, NetworkProgram &network)
    : kernel(kernel), conversion(std::move(conversion)), chains(std::move(chains)), machine(machine), schedule(schedule),
      addresses(addresses), onChip(onChip), layer(layer), network(network), bands(bandsOf(kernel, onChip.banding)) {
  const timing::MemoryParams &memory = machine.scratchpads[0];
  room.end = std::min(int64_t(memory.capacityBytes), onChip.room);
  if (onChip.banks) {
    room.begin = (*onChip.banks)[0] * int64_t(memory.bankBytes());
    room.end = std::min(room.end, (*onChip.banks)[1] * int64_t(memory.bankBytes()));
  }
  if (bandedInput())
    bandIn = bandedInput()->inRun(0);
  if (bandedAddend())
    bandAddend = bandedAddend()->inRun(0);
  if (bandedOutput())
    bandOut = bandedOutput()->inRun(0);
  if (overlaps() && onChip.hasNeighbours)
    carried = carriedBy(this->kernel, this->chains, machine);
  skipUnread();
  packTaps();
  wanted = kernel.plan.under(onChip.knobs);
  for (const KnobRule &rule : knobRules())
    if (!rule.isOf(*this))
      plan::TileKnobs::copy(rule.knob, kernel.plan, wanted);
  Tile least = clampTile(Tile::of({takesAllChannels() ? channels() : machine.lanes, 1, 1, 1}, 1, 1));
  if (Buffers b; !onChip.banding && !windowParts(least).empty())
    keepsWhole = !fitsDrained(least, b) || !allocate(b);
}

std::vector<Emitter::Band> Emitter::bandsOf(const Kernel &kernel, const Banding *banding) {
  const Range columns{0, kernel.extent[P0]};
  if (!banding)
    return {{columns, {0, kernel.extent[P1]}}};
  std::vector<Band> bands;
  for (const Range &rows : banding->rows)
    if (!kernel.makesMatrixRows()) {
      bands.push_back({columns, rows});
    } else { // a part of a matrix, or whole ones
      const int64_t first = rows.begin / columns.end, begin = rows.begin % columns.end;
      bands.push_back(
          {{begin, std::min(begin + rows.size(), columns.end)}, {first, first + ceilDiv(rows.size(), columns.end)}});
    }
  return bands;
}

/// One tap at every second position reads every second position only: the view leaves the others out.
void Emitter::skipUnread() {
  if (!kernel.anchor || conversion) // taps that are packed, as they are where they are converted, leave nothing else to load
    return;
  Anchor &a = *kernel.anchor;
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    WindowAxis &w = a.axes[axis - P0];
    if (w.kernel != 1 || w.stride == 1 || w.padLow || (w.size - 1) * w.stride >= w.inputSize || (packsRows() && axis == P0))
      continue;
    a.input.stride[axis] *= w.stride;
    w.stride = 1;
    w.inputSize = w.size;
  }
}

/// A contraction over few channels fills a part of the array's rows only. If its weights are constant, the load engine lays the
/// channels of all taps side by side: one pass for `rows` of them, whatever tap they are of. The rows of a window follow one another,
/// so that they are part of the windows below as well.
bool accel::packsTaps(const Anchor &a, const timing::MachineParams &machine) {
  const int64_t taps = a.axes[0].kernel * a.axes[1].kernel;
  bool byChannel = a.input.stride[C] == 1 || a.ic == 1, byColumn = a.input.stride[P0] == 1;
  return a.groups == 1 && !a.batchAxis && a.axes[2].kernel == 1 && !a.axes[2].padLow && (byChannel || byColumn) &&
         a.axes[1].dilation == 1 && a.pixels.count == 1 && cost::tapsShareRows(uint64_t(taps), uint64_t(a.ic), machine.rows);
}

bool accel::packsTaps(const Kernel &kernel, const timing::MachineParams &machine) {
  return kernel.anchor && kernel.anchor->kind == Anchor::Contraction &&
         kernel.tensors[size_t(kernel.anchor->weights)].role == KernelTensor::Constant && packsTaps(*kernel.anchor, machine);
}

int64_t accel::arrayChannels(const Kernel &kernel, const timing::MachineParams &machine) {
  return canUseBothEngines(kernel, machine) ? kernel.plan.arrayChannels.value_or(0) : 0;
}

/// The squares are zero beside their diagonals.
bool accel::canUseBothEngines(const Kernel &kernel, const timing::MachineParams &machine) {
  if (!kernel.anchor || kernel.anchor->kind != Anchor::Window || kernel.anchor->windowOp != isa::WindowOp::Mac)
    return false;
  const Anchor &a = *kernel.anchor;
  const int64_t element = timing::elementBytes(machine.arrayType);
  return kernel.isFinite && byteSize(a.inputType) == element && byteSize(a.weightType) == element &&
         kernel.tensors[size_t(a.weights)].role == KernelTensor::Constant && a.pixels.count == 1 &&
         machine.lanes == machine.cols && machine.rows == machine.cols &&
         llvm::none_of(kernel.steps, [](const Step &s) { return s.reducesChannels; });
}

void Emitter::packTaps() {
  if (residentInput() || !packsTaps(kernel, machine))
    return;
  const Anchor &a = *kernel.anchor;
  int64_t kw = a.axes[0].kernel, kh = a.axes[1].kernel;
  unpacked = a;
  packedStride =
      packsPlanes() && !packsOnChip() ? std::array<int64_t, 3>{kw, 1, a.ic * kw} : std::array<int64_t, 3>{1, a.ic, a.ic * kw};
  Anchor &packed = *kernel.anchor;
  packed.ic = kw * kh * a.ic;
  for (WindowAxis &axis : packed.axes) {
    WindowAxis one;
    one.size = one.inputSize = axis.size;
    axis = one;
  }
  cutTapRuns();
}

/// A burst that several runs in a row cross is fetched for each of them: fewer cross if runs are shorter. But pixels of planes are so
/// short that what counts is the cycle that a run takes.
void Emitter::cutTapRuns() {
  const WindowAxis &w = unpacked->axes[0];
  const int64_t pixel = unpacked->input.stride[P0] * loadedBytes();
  auto burstsOfRow = [&](Range taps) {
    int64_t bursts = 0, last = -1;
    for (int64_t x = 0; x < w.size; ++x) {
      auto at = [&](int64_t tap) { return std::clamp<int64_t>(x * w.stride - w.padLow + tap, 0, w.inputSize) * pixel; };
      for (int64_t burst = at(taps.begin) / kBurst; burst * kBurst < at(taps.end); ++burst)
        bursts += std::exchange(last, burst) != burst;
    }
    return bursts;
  };
  tapRuns = {{0, w.kernel}};
  int64_t least = burstsOfRow({0, w.kernel});
  for (int64_t cut = 1; cut < w.kernel && w.dilation == 1 && !packsPlanes(); ++cut)
    if (const int64_t bursts = burstsOfRow({0, cut}) + burstsOfRow({cut, w.kernel}); bursts < least) {
      least = bursts;
      tapRuns = {{0, cut}, {cut, w.kernel}};
    }
}

Extent Emitter::packedStrides(const Extent &size, int64_t elementSize) const {
  const WindowAxis &rows = unpacked->axes[1];
  const int64_t row = packedStride[2] * elementSize, column = rows.span(size[P1]) * row;
  return {machine.rows * elementSize, column, rows.stride * row, size[P0] * column};
}

int64_t Emitter::packedElements(const Extent &size) const {
  const int64_t image = packedStrides(size, 1)[P2], last = image + roundUp(kernel.anchor->ic, machine.rows) - kernel.anchor->ic;
  return (size[P2] - 1) * image + (conversion ? roundUp(last, machine.lanes) : last);
}

bool Emitter::hasSumLineBuffer(const Tile &t) const {
  if (!t.sumLineBuffer || t.maxLineBuffer || t.tile[P1] > 1 || t.tile[P2] > 1 || t.depth == 1 || t.singleAccumulator ||
      t.loopOrder != LoopOrder::PositionsOuter)
    return false;
  const int64_t strips = tilesAlong(P0, t) * tilesAlong(P2, t) * ceilDiv(channels(), t.tile[C]);
  return !onChip.banding || (onChip.banding->strips && strips <= t.depth);
}

bool Emitter::canHaveMaxLineBuffer(const Tile &t) const {
  return carried && !t.kOuter() && tilesAlong(P1, t) > 1 && (!onChip.banding || onChip.banding->maxLineBuffer);
}

Extent Emitter::madeSums(const Tile &t) const {
  Extent sums = kernel.sums(t.tile);
  const int64_t shared = sharedRows(t);
  sums[P1] = std::max(shared, sums[P1] - shared);
  return sums;
}

int64_t Emitter::inputSpan(const Tile &t, unsigned axis) const {
  return kernel.anchor->axes[axis - P0].span(madeSums(t)[axis]);
}

int64_t Emitter::inputRowBytes(int64_t vectors, int64_t channels) const {
  const Anchor::Pixels &pixels = kernel.anchor->pixels;
  if (pixels.count > 1)
    return pixels.span(vectors) * pixelChannels() * elementBytes();
  return vectors * roundUp(channels, contraction() ? machine.rows : machine.lanes) * elementBytes();
}

Tile Emitter::clampTile(Tile t) const {
  t.tile[C] = std::min(t.tile[C], roundUp(channels(), machine.lanes));
  t.tile[P0] = std::min(t.tile[P0], bandColumns());
  t.tile[P1] = std::min(t.tile[P1], bandRows());
  for (unsigned axis = P0; axis < kAxes; ++axis)
    t.tile[axis] = std::min(t.tile[axis], kernel.extent[axis]);
  for (const KnobRule &rule : knobRules())
    if (rule.chooser == Chooser::Plan)
      t.take(rule.knob, wanted);
  return t;
}

int64_t Emitter::bandRows() const {
  int64_t most = 0;
  for (const Band &band : bands)
    most = std::max(most, band.rows.size());
  return most;
}

int64_t Emitter::bandColumns() const {
  int64_t most = 0;
  for (const Band &band : bands)
    most = std::max(most, band.columns.size());
  return most;
}

int64_t Emitter::tilesAlong(unsigned axis, const Tile &t) const {
  if (axis != P1)
    return ceilDiv(axis == P0 ? bandColumns() : kernel.extent[axis], t.tile[axis]);
  int64_t count = 0;
  for (const Band &band : bands)
    count += ceilDiv(band.rows.size(), t.tile[P1]);
  return count;
}

/// Its channels are equal parts, as near as whole vectors and bursts of the result allow: a small last tile would load as many inputs as
/// the others for fewer products.
void Emitter::takeTile(const Tile &t) {
  tile = t;
  channelTiles.clear();
  const int64_t all = channels(), size = tile.tile[C], count = ceilDiv(all, size);
  const int64_t unit = size % leastDrain() ? size : leastDrain(), units = ceilDiv(all, unit);
  for (int64_t i = 0, begin = 0; i < count; ++i) {
    const int64_t end = std::min(begin + (units / count + (i < units % count)) * unit, all);
    channelTiles.push_back({std::exchange(begin, end), end});
  }
}

/// The tile that has the channel.
size_t Emitter::channelTileOf(int64_t channel) const {
  auto isBefore = [](int64_t c, const Range &tile) { return c < tile.begin; };
  return size_t(llvm::upper_bound(channelTiles, channel, isBefore) - channelTiles.begin()) - 1;
}

int64_t Emitter::tileCount(const Tile &t) const {
  return tilesAlong(P0, t) * tilesAlong(P1, t) * tilesAlong(P2, t) * ceilDiv(channels(), t.tile[C]);
}

/// With inputs outermost: how many tiles take a block of input channels before the next one. All, or as much of the outer loop as
/// has its sums in the accumulator, in equal parts.
int64_t Emitter::tilesTogether(const Tile &t) const {
  const int64_t all = tileCount(t), channelTiles = ceilDiv(channels(), t.tile[C]);
  const int64_t inner = t.channelsOuter() ? all / channelTiles : channelTiles, outer = all / inner;
  const int64_t bytes = roundUp(sums(t) * ceilDiv(t.tile[C], machine.cols) * machine.accumulatorRowBytes(), kBurst);
  const int64_t most = placeIn(unsigned(isa::Memory::Accumulator)).size() / bytes / inner;
  return most == 0 ? all : ceilDiv(outer, ceilDiv(outer, most)) * inner;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

void Emitter::emptySlots() {
  held.clear();
  for (const Buffer &buffer : buffers.all) {
    held.emplace_back(buffer.slots);
    for (Held &slot : held.back())
      slot.value = ++network.values;
  }
}

unsigned Emitter::acquire(const Buffer &b, llvm::ArrayRef<int64_t> key, bool &miss, bool *isFirst) {
  ++clock;
  std::vector<Held> &slots = heldIn(b);
  unsigned victim = 0;
  for (unsigned slot = 0; slot < b.slots; ++slot) {
    if (!slots[slot].key.empty() && llvm::ArrayRef<int64_t>(slots[slot].key) == key) {
      slots[slot].used = clock;
      miss = false;
      return slot;
    }
    if (slots[slot].used < slots[victim].used)
      victim = slot;
  }
  if (isFirst)
    *isFirst = slots[victim].key.empty();
  slots[victim].key.assign(key.begin(), key.end());
  slots[victim].used = clock;
  slots[victim].value = ++network.values;
  miss = true;
  return victim;
}

Operation Emitter::operation(const isa::Instruction &instruction) const {
  Operation op;
  op.instruction = instruction;
  op.instruction.edit().header.opcode = int64_t(instruction.opcode());
  op.regions = schedule::regionsOf(instruction, machine);
  op.layer = layer;
  op.barrier = schedule == Schedule::Serial;
  op.number = ++network.operations;
  const std::array<int64_t, 4> addresses = schedule::operandAddresses(instruction, machine);
  std::array<int64_t, 4> memories{};
  if (auto *tensor = instruction.getIf<isa::Tensor>())
    memories = {tensor->memory, int64_t(isa::Memory::Accumulator)};
  else if (auto *vector = instruction.getIf<isa::Vector>())
    memories = {vector->a_memory, vector->b_memory, vector->p_memory, vector->d_memory};
  else if (auto *preload = instruction.getIf<isa::Preload>())
    memories[0] = preload->memory;
  else if (auto *load = instruction.getIf<isa::Load>())
    memories[0] = load->memory;
  else if (auto *store = instruction.getIf<isa::Store>())
    memories[0] = store->memory;
  for (size_t i = 0; i < addresses.size(); ++i) {
    if (addresses[i] < 0)
      continue;
    const bool isResult =
        instruction.getIf<isa::Load>() || instruction.getIf<isa::Store>() || (instruction.getIf<isa::Vector>() && i == 3);
    op.values.value[i] = valueAt(memories[i], addresses[i], isResult);
    op.values.address[i] = uint32_t(addresses[i]);
  }
  return op;
}

/// Row tiles of a fusion group take turns in their slots, which only the order of the group's steps says: they are memory as it is.
/// The result may take the place of a tensor that the kernel reads.
uint32_t Emitter::valueAt(int64_t memory, int64_t address, bool isResult) const {
  const Resident *found = nullptr;
  for (size_t tensor = 0; memory == 0 && tensor < onChip.tensors.size(); ++tensor) {
    const Resident *resident = onChip.tensors[tensor];
    if (resident && address >= resident->address && address < resident->address + resident->bytes &&
        (!found || isResult == (int(tensor) == kernel.output.tensor)))
      found = resident;
  }
  if (found) {
    uint32_t &value = network.residentValues[found];
    return value = value ? value : ++network.values;
  }
  for (const auto &[buffer, slots] : llvm::zip(buffers.all, held))
    for (const auto &[begin, slot] : llvm::zip(buffer.address, slots))
      if (memory == buffer.memory && address >= begin && address < begin + buffer.bytes)
        return slot.value;
  return 0;
}

/// Whether the first loads and the last results of this kernel hide behind nothing.
bool Emitter::hasOpenEnds() const { return overlaps() && !onChip.hasNeighbours && contraction(); }

/// Whether the array waits for the first operands of this kernel, whatever runs beside it later.
bool Emitter::isFirstOfArray() const { return overlaps() && onChip.isFirst && !onChip.banding && contraction(); }

bool Emitter::canBeginSmall(const Tile &t) const {
  return hasOpenEnds() && constantWeights() && !unpacked && t.depth > 1 && firstPiece() < t.tileK;
}

bool Emitter::canBeginWide(const Tile &t) const {
  return isFirstOfArray() && !t.maxLineBuffer && t.tileK < kernel.anchor->ic && t.depth > 1 && !t.singleAccumulator &&
         !t.kOuter() && tileCount(t) > 1;
}

bool Emitter::canShareLoader() const { return hasOpenEnds() && !unpacked && machine.loadEngines > 1; }

std::vector<Tile> Emitter::waysToLoad(const Tile &t, bool codeCounts) const {
  const KernelPlan &request = kernel.plan;
  std::vector<Tile> ways;
  auto add = [&](const Tile &way) {
    Buffers b = plan(way);
    const bool fits = allocate(b);
    if (fits)
      ways.push_back(way);
    return fits;
  };
  if (unpacked && t.lineBuffer == 1 && !request.lineBuffer && canRoll(t)) {
    Tile way = t;
    way.lineBuffer = tilesAlong(P1, t);
    way.smallLastTile = request.smallLastTile.value_or(hasOpenEnds());
    add(way);
  }
  forEachVariant(Chooser::Scheduler, t, [&](Tile way) {
    if (add(way) && way.smallLastTile && !request.smallLastTile && codeCounts) {
      way.smallLastTile = false;
      ways.push_back(way);
    }
  });
  return ways;
}

/// Input channels of the first piece of the first tile: whole rows of the array, and whole bursts.
int64_t Emitter::firstPiece() const { return roundUp(std::max<int64_t>(machine.rows, kBurst / elementBytes()), machine.rows); }

/// Each but the last is twice as large as the one before.
int64_t Emitter::pieces(const Tile &t) const {
  int64_t count = 0;
  for (int64_t k = 0, size = firstPiece(); k < t.tileK; k += size, size *= 2)
    ++count;
  return count;
}

/// Appends visits that are like `tiles` but take the input channels block by block, `together` tiles each block before the next.
/// One tile alone takes all its blocks in one visit. In serpentine order the next ones begin with the block that these end with.
void Emitter::takeInputs(std::vector<Visit> &order, llvm::ArrayRef<Visit> tiles, size_t together) const {
  bool turned = false;
  for (; !tiles.empty(); tiles = tiles.drop_front(std::min(together, tiles.size()))) {
    llvm::ArrayRef<Visit> run = tiles.take_front(together);
    const int64_t all = run.front().kEnd, step = together == 1 ? all : tile.tileK, parts = ceilDiv(all, step);
    for (int64_t part = 0; part < parts; ++part)
      for (Visit visit : run) {
        visit.turned = turned;
        visit.kBegin = step * (turned ? parts - 1 - part : part);
        visit.kEnd = std::min(visit.kBegin + step, all);
        visit.begins = part == 0;
        visit.ends = part == parts - 1 && !visit.isLead;
        order.push_back(visit);
      }
    turned = tile.serpentine && !turned;
  }
}

/// Strips that have sums side by side go down together, row after row; their first row makes the sums above it in visits of its own.
void Emitter::takeTurns(std::vector<Visit> &tiles) const {
  for (size_t i = 0, count = tiles.size(); i < count; ++i)
    if (tiles[i].origin[P1] == 0) {
      tiles.push_back(tiles[i]);
      tiles.back().isLead = true;
    }
  auto stripOf = [&](const Extent &at) {
    return (at[P2] * tilesAlong(P0, tile) + at[P0] / tile.tile[P0]) * int64_t(channelTiles.size()) +
           int64_t(channelTileOf(at[C]));
  };
  const int64_t slots = buffers.all[size_t(buffers.accumulator)].slots;
  auto turnOf = [&](const Visit &visit) { return std::tuple(stripOf(visit.origin) / slots, visit.origin[P1], !visit.isLead); };
  llvm::stable_sort(tiles, [&](const Visit &a, const Visit &b) { return turnOf(a) < turnOf(b); });
}

/// Before the first row of each strip, a visit that makes the sums above it; those of all channels before the others, as they read the
/// same input. Padding has none.
std::vector<Emitter::Visit> Emitter::withLeads(const std::vector<Visit> &tiles) const {
  std::vector<Visit> all;
  auto positionsOf = [](const Visit &visit) { return std::tuple(visit.origin[P0], visit.origin[P1], visit.origin[P2]); };
  for (auto it = tiles.begin(), end = it; it != tiles.end(); it = end) {
    end = std::find_if(it, tiles.end(), [&](const Visit &visit) { return positionsOf(visit) != positionsOf(*it); });
    for (auto lead = it; lead != end && it->origin[P1] == 0 && !kernel.window(P1).padLow; ++lead) {
      all.push_back(*lead);
      all.back().isLead = true;
    }
    all.insert(all.end(), it, end);
  }
  return all;
}

/// Whether tiles may hold all positions, and those be made in parts.
bool Emitter::canCut() const {
  return overlaps() && onChip.hasNeighbours && !onChip.banding && kernel.isProductOfRows() && !unpacked;
}

/// The first and the last tiles in parts: who reads the rows that they make begins with some, and who writes those that they
/// read need not be at its end.
void Emitter::cutVisits(std::vector<Visit> &order) const {
  if (!tile.splitTiles())
    return;
  auto cutRun = [&](llvm::ArrayRef<Visit> run, int64_t positions) {
    std::vector<Visit> parts;
    for (int64_t at = 0; at < kernel.extent[P0]; at += positions)
      for (Visit visit : run) {
        visit.columns = {at, std::min(at + positions, kernel.extent[P0])};
        parts.push_back(visit);
      }
    return parts;
  };
  const std::optional<plan::Split> &first = tile.firstSplit, &last = tile.lastSplit;
  const size_t begin = first ? std::min(size_t(first->tiles), order.size()) : 0;
  const size_t end = order.size() - (last ? std::min(size_t(last->tiles), order.size() - begin) : 0);
  const llvm::ArrayRef<Visit> all = order;
  std::vector<Visit> cut;
  if (first)
    cut = cutRun(all.take_front(begin), first->positions);
  cut.insert(cut.end(), all.begin() + begin, all.begin() + end);
  if (last)
    llvm::append_range(cut, cutRun(all.drop_front(end), last->positions));
  order = std::move(cut);
}

std::vector<Emitter::Visit> Emitter::orderVisits() const {
  int64_t groups = contraction() ? kernel.anchor->groups : 1;
  std::vector<Visit> order;
  int64_t allInputs = contraction() ? kernel.anchor->ic : 1;
  uint32_t band = 0;
  for (const auto &[columns, rows] : bands) {
    std::vector<Extent> mTiles;
    for (int64_t n = 0; n < kernel.extent[P2]; n += tile.tile[P2])
      for (int64_t h = rows.begin; h < rows.end; h += tile.tile[P1])
        for (int64_t w = columns.begin; w < columns.end; w += tile.tile[P0])
          mTiles.push_back({0, w, h, n});
    if (tile.lineBuffer > 1) // column after column
      llvm::stable_sort(mTiles,
                        [](const Extent &a, const Extent &b) { return std::pair(a[P2], a[P0]) < std::pair(b[P2], b[P0]); });
    for (int64_t g = 0; g < groups; ++g) {
      std::vector<Visit> tiles;
      auto visit = [&](const Range &c, const Extent &m) {
        tiles.push_back({{c.begin, m[P0], m[P1], m[P2]}, g, 0, allInputs, 0, ceilDiv(c.size(), machine.cols), band});
      };
      if (tile.channelsOuter() || !contraction())
        for (const Range &c : channelTiles)
          for (const Extent &m : mTiles)
            visit(c, m);
      else
        for (const Extent &m : mTiles)
          for (const Range &c : channelTiles)
            visit(c, m);
      if (hasSumLineBuffer(tile))
        takeTurns(tiles);
      if (tile.maxLineBuffer)
        tiles = withLeads(tiles);
      takeInputs(order, tiles, tile.kOuter() ? size_t(tilesTogether(tile)) : 1);
    }
    ++band;
  }
  if (tile.wideStart) {
    const size_t count = std::min<size_t>(buffers.all[size_t(buffers.accumulator)].slots, order.size());
    std::vector<Visit> first;
    takeInputs(first, {order.data(), count}, count);
    order.erase(order.begin(), order.begin() + long(count));
    order.insert(order.begin(), first.begin(), first.end());
  }
  // The results of the last tile leave a few blocks at a time, whole bursts, while its other sums are made in another slot of the
  // accumulator.
  const bool awaitsInputs = tile.kOuter() && tile.tileK < allInputs;
  bool reduces = llvm::any_of(kernel.steps, [](const Step &s) { return s.reducesChannels; });
  if (tile.smallLastTile && !awaitsInputs && !reduces && tile.tileK >= allInputs &&
      buffers.all[size_t(buffers.accumulator)].slots > 1) {
    Visit last = order.back();
    order.pop_back();
    const int64_t unit = ceilDiv(kBurst, machine.cols * byteSize(kernel.outputType));
    for (int64_t block = 0; block < last.blockEnd; block += unit) {
      order.push_back(last);
      order.back().blockBegin = block;
      order.back().blockEnd = std::min(block + unit, last.blockEnd);
    }
  }
  order.back().isLast = tile.smallLastTile;
  cutVisits(order);
  // The first of every plane before the second of any: then the reader begins meanwhile.
  const size_t planes = size_t(onChip.planes);
  if (planes > 1 && !kernel.anchor && order.size() % planes == 0) {
    std::vector<Visit> byPlane = std::move(order);
    order.clear();
    for (size_t i = 0; i < byPlane.size(); ++i)
      order.push_back(byPlane[i % planes * (byPlane.size() / planes) + i / planes]);
  }
  return order;
}

Extent Emitter::sizeOf(const Visit &visit) const {
  Extent size;
  size[C] = channelTiles[channelTileOf(visit.origin[C])].size();
  const Band &band = bands[visit.band];
  const Extent end{0, band.columns.end, band.rows.end, kernel.extent[P2]};
  for (unsigned axis = P0; axis < kAxes; ++axis)
    size[axis] = std::min(tile.tile[axis], end[axis] - visit.origin[axis]);
  return size;
}

/// The visits from `first` on that share a set of stationary tiles.
Emitter::Ahead Emitter::lookAhead(const std::vector<Visit> &visits, size_t first) const {
  const int64_t kTiles = ceilDiv(kernel.anchor->ic, tile.tileK);
  const Buffer &stationary = buffers.all[size_t(tile.channelsOuter() ? buffers.weights : buffers.input)];
  Ahead ahead;
  auto isSameSet = [&](const Visit &visit) {
    Extent here = visits[first].origin, there = visit.origin;
    for (unsigned axis = C; axis < kAxes; ++axis)
      if ((axis == C) == tile.channelsOuter() && here[axis] != there[axis])
        return false;
    return true;
  };
  for (ahead.end = first; ahead.end < visits.size() && isSameSet(visits[ahead.end]); ++ahead.end)
    ahead.steps += ceilDiv(visits[ahead.end].kEnd - visits[ahead.end].kBegin, tile.tileK);
  // Those of its own tiles come first.
  const bool isWide = tile.wideStart && first == 0;
  ahead.begin = kTiles * (isWide ? buffers.all[size_t(buffers.accumulator)].slots : 1);
  ahead.loads = !tile.kOuter() && kernel.anchor->groups == 1 && stationary.slots >= 2 * kTiles && ahead.end < visits.size() &&
                ahead.begin < ahead.steps;
  return ahead;
}

void Emitter::loadAhead(TileStep &step, const Visit &next, Ahead &ahead) {
  const Anchor &a = *kernel.anchor;
  const Extent origin = kernel.firstSums(next.origin), size = kernel.sums(sizeOf(next));
  const int64_t kTiles = ceilDiv(a.ic, tile.tileK), group = next.group, batch = a.batchAxis ? origin[*a.batchAxis] : 0;
  const int64_t done = ++ahead.done - ahead.begin, all = ahead.steps - ahead.begin;
  for (; ahead.loaded < kTiles && ahead.loaded * all < done * kTiles; ++ahead.loaded) {
    const int64_t k = (next.turned ? kTiles - 1 - ahead.loaded : ahead.loaded) * tile.tileK,
                  icSize = std::min(tile.tileK, a.ic - k);
    bool miss;
    if (tile.channelsOuter()) {
      unsigned slot = acquire(buffers.all[size_t(buffers.weights)], {group, origin[C], k, batch, false}, miss);
      if (miss)
        loadWeights(step, origin, size, group, batch, k, icSize, slot);
    } else {
      unsigned slot = acquire(buffers.all[size_t(buffers.input)], {group, origin[P0], origin[P1], origin[P2], k, false}, miss);
      if (miss)
        loadInput(step, origin, size, group, k, icSize, slot);
    }
  }
}

void Emitter::emitTiles() {
  const Resident *bordered = onChip.fillsBorders ? residentOf(kernel.output.tensor) : nullptr;
  auto fill = [&](uint32_t band) {
    steps.emplace_back();
    steps.back().band = band;
    fillBorders(steps.back(), *bordered);
  };
  if (bordered && onChip.streaming != Streaming::Taker)
    fill(0);
  const size_t begin = steps.size();
  uint32_t turns = 0; ///< with another kernel
  if (onChip.streaming == Streaming::Maker)
    network.madeIn.assign(size_t(channels()), 0);
  uint32_t nextBand = 0;
  turn = 0;
  rolled = {};
  packedTiles.clear();
  const std::vector<Visit> visits = orderVisits();
  Ahead ahead;
  std::optional<std::pair<size_t, size_t>> host; ///< the step of the last passes, and where in it they end
  int64_t blocksDone = 0;                        ///< of a window with channels on the array, which tiles take in turn
  for (const Visit &visit : visits) {
    if (isTooLong())
      return;
    if (tile.singleLoader && size_t(&visit - visits.data()) == ahead.end)
      ahead = lookAhead(visits, ahead.end);
    while (nextBand <= visit.band)
      beginBand(nextBand++);
    const Extent &origin = visit.origin;
    const int64_t group = visit.group;
    const Extent size = sizeOf(visit);
    Extent first = kernel.firstSums(origin), made = kernel.sums(size); // of the sums that this visit makes
    bool miss;
    unsigned anchorSlot = 0;
    if (contraction()) {
      const Anchor &a = *kernel.anchor;
      const int64_t row = hasSumLineBuffer(tile) ? 0 : visit.isLead ? -1 : origin[P1];
      anchorSlot =
          acquire(buffers.all[buffers.accumulator], {group, origin[C], origin[P0], row, origin[P2], visit.blockBegin}, miss);
      const int64_t shared = sharedRows(tile);
      first[P1] += visit.isLead ? 0 : shared;
      made[P1] = visit.isLead ? shared : made[P1] - shared;
      int64_t batch = a.batchAxis ? origin[*a.batchAxis] : 0;
      int64_t piece = tile.smallFirstTile && steps.size() == begin ? firstPiece() : tile.tileK;
      std::vector<std::pair<int64_t, bool>> parts; // where each begins, and whether it is a piece of a tile
      for (int64_t k = visit.kBegin; k < visit.kEnd;) {
        const bool isPiece = k < visit.kBegin + tile.tileK && piece < tile.tileK;
        parts.push_back({k, isPiece});
        k += std::min(isPiece ? piece : tile.tileK, tile.tileK - k % tile.tileK);
        piece = std::min(piece * 2, tile.tileK);
      }
      auto endOf = [&](size_t part) { return part + 1 < parts.size() ? parts[part + 1].first : visit.kEnd; };
      for (size_t i = 0; i < parts.size(); ++i) {
        const size_t part = visit.turned ? parts.size() - 1 - i : i;
        const auto [k, isPiece] = parts[part];
        const int64_t icSize = endOf(part) - k;
        TileStep step;
        if (onChip.streaming == Streaming::Maker)
          turns = std::max(turns, uint32_t(channelTileOf(origin[C])));
        for (int64_t c = k; c < k + icSize && onChip.streaming == Streaming::Taker; ++c)
          turns = std::max(turns, network.madeIn[size_t(c)] + 1);
        const uint32_t band = onChip.streaming == Streaming::None ? visit.band : turns;
        step.band = band;
        unsigned input = 0;
        if (rollsInput(tile)) {
          rollInput(step, origin, size, k, icSize);
        } else if (!residentInput()) {
          const Buffer &b = buffers.all[size_t(buffers.input)];
          bool isFirst = false;
          input = acquire(b, {group, origin[P0], first[P1], origin[P2], k, isPiece}, miss, &isFirst);
          if (miss && conversion && host && buffers.all[size_t(buffers.raw.front())].slots > 1) {
            // Before the results of the tile before: the array has work while they leave.
            TileStep ahead;
            loadConverted(ahead, first, made, input, isFirst);
            TileStep &before = steps[host->first];
            before.early.insert(before.early.end(), ahead.early.begin(), ahead.early.end());
            before.late.insert(before.late.end(), ahead.late.begin(), ahead.late.end());
            before.compute.insert(before.compute.begin() + long(host->second), ahead.compute.begin(), ahead.compute.end());
          } else if (miss && conversion) {
            loadConverted(step, first, made, input, isFirst);
          } else if (miss && unpacked) {
            loadPacked(step, first, made, b, input, isFirst, takesTurns() && turn++ % 2 ? secondUnit(tile) : 0);
          } else if (miss) {
            loadInput(step, first, made, group, k, icSize, input);
          }
        }
        int64_t weightsAt = 0;
        if (const Resident *resident = residentWeights()) {
          weightsAt = resident->at(a.weightOffset + batch * a.weightBatch + k * a.weightIc + origin[C] * a.weightOc);
        } else {
          const unsigned weights = acquire(buffers.all[buffers.weights], {group, origin[C], k, batch, isPiece}, miss);
          if (miss)
            loadWeights(step, origin, size, group, batch, k, icSize, weights);
          weightsAt = buffers.all[buffers.weights].address[weights];
        }
        if (ahead.loads)
          loadAhead(step, visits[ahead.end], ahead);
        const int64_t sumsAt = buffers.all[buffers.accumulator].address[anchorSlot] / int64_t(machine.accumulatorRowBytes());
        Products products{first,     made,   visit.begins && i == 0, icSize, inputPlace(first, made, group, k, icSize, input),
                          weightsAt, sumsAt, passRows(made)};
        if (visit.columns) {
          products.origin[P0] += visit.columns->begin;
          products.size[P0] = visit.columns->size();
          products.input.address += visit.columns->begin * products.input.stride[P0];
          products.sums += visit.columns->begin;
        }
        if (tile.drainByBlock && products.areFirst) {
          Visit block = visit;
          for (block.blockEnd = visit.blockBegin; block.blockEnd < visit.blockEnd; products.sums += products.blockRows) {
            block.blockBegin = block.blockEnd++;
            passes(step, products, block);
          }
        } else {
          passes(step, products, visit);
        }
        if (overlaps())
          host = {steps.size(), step.compute.size()};
        if (visit.isLead && tile.maxLineBuffer && i + 1 == parts.size())
          carryMaxima(step, origin, size, sumsOf(anchorSlot, made), 0);
        if (visit.ends && i + 1 == parts.size()) {
          for (int64_t c = origin[C]; c < origin[C] + size[C] && onChip.streaming == Streaming::Maker; ++c)
            network.madeIn[size_t(c)] = std::max(network.madeIn[size_t(c)], band);
          Extent at = origin, part = size;
          at[C] += visit.blockBegin * machine.cols;
          part[C] = std::min(size[C], visit.blockEnd * machine.cols) - visit.blockBegin * machine.cols;
          const Extent held = heldSums(size);
          const int64_t row = machine.accumulatorRowBytes(), all = held[P0] * held[P1] * held[P2];
          if (visit.columns) {
            at[P0] += visit.columns->begin;
            part[P0] = visit.columns->size();
          }
          const int64_t skipped = (at[P0] - origin[P0]) * row;
          if (tile.drain && part[C] > tile.drain) {
            const int64_t begin = at[C], end = begin + part[C];
            for (int64_t c = begin; c < end; c += tile.drain) {
              if (c > begin) {
                steps.push_back(std::exchange(step, {}));
                step.band = band;
              }
              at[C] = c;
              part[C] = std::min(tile.drain, end - c);
              vectorSteps(step, at, part, group, anchorSlot, skipped + (c - begin) / machine.cols * all * row, all * row);
            }
            steps.push_back(std::move(step));
            continue;
          }
          // The very last results are stored while others are still made: a run of positions after the other.
          const unsigned outer = part[P2] > 1 ? P2 : part[P1] > 1 ? P1 : P0;
          const int64_t runs =
              visit.isLast && !kernel.pool && !kernel.maxima && !pairsRows() ? std::min<int64_t>(4, part[outer]) : 1;
          const int64_t inner = all / size[outer], begin = at[outer], count = part[outer];
          for (int64_t run = 0, done = 0; run < runs; ++run, done += part[outer]) {
            // Loads of a run may go to the slot that the run before reads.
            if (run) {
              steps.push_back(std::exchange(step, {}));
              step.band = band;
            }
            at[outer] = begin + done;
            part[outer] = (count - done) / (runs - run);
            vectorSteps(step, at, part, group, anchorSlot, skipped + done * inner * row, all * row);
          }
        }
        steps.push_back(std::move(step));
      }
    } else {
      TileStep step;
      step.band = visit.band;
      if (tile.lineBuffer > 1) {
        rollInput(step, origin, size, origin[C], size[C]);
      } else if (window() && !residentInput()) {
        anchorSlot = acquire(buffers.all[buffers.input], {origin[C], origin[P0], origin[P1], origin[P2]}, miss);
        if (miss)
          loadInput(step, origin, size, 0, origin[C], size[C], anchorSlot);
      }
      OnArray onArray{0, 0};
      if (tile.arrayChannels) {
        const int64_t blocks = ceilDiv(size[C], machine.lanes), before = blocksDone * tile.arrayChannels / channels();
        blocksDone += blocks;
        onArray.blocks = blocksDone * tile.arrayChannels / channels() - before;
      }
      if (onArray.blocks) {
        onArray.slot = acquire(buffers.all[size_t(buffers.accumulator)], {int64_t(clock)}, miss);
        windowPasses(step, visit, size, anchorSlot, onArray);
      }
      vectorSteps(step, origin, size, group, anchorSlot, 0, 0, onArray);
      steps.push_back(std::move(step));
    }
  }
  while (nextBand < bands.size())
    beginBand(nextBand++);
  // What the other kernel reads may lie there until it has made all.
  if (bordered && onChip.streaming == Streaming::Taker)
    fill(turns);
}

std::vector<schedule::Step> Emitter::takeSteps() {
  std::vector<schedule::Step> taken;
  for (TileStep &step : steps) {
    const uint32_t behind = onChip.banding ? onChip.banding->behind : 0;
    taken.push_back({std::move(step.early), std::move(step.compute), step.band + behind, behind});
    std::move(step.late.begin(), step.late.end(), std::back_inserter(taken.back().loads));
  }
  return taken;
}

/// Kernels that take turns find in their slots what they left there.
llvm::Error Emitter::keepSlotsApart() {
  if (onChip.streaming == Streaming::None)
    return llvm::Error::success();
  std::vector<std::pair<unsigned, Range>> slots;
  for (const Buffer &buffer : buffers.all)
    for (int64_t address : buffer.address)
      slots.push_back({buffer.memory, {address, address + buffer.bytes}});
  auto meets = [&](const auto &slot) {
    return llvm::any_of(network.slots, [&](const auto &other) {
      return other.first == slot.first && other.second.begin < slot.second.end && slot.second.begin < other.second.end;
    });
  };
  if (onChip.streaming == Streaming::Taker && llvm::any_of(slots, meets))
    return llvm::createStringError("%skernel '%s' has no room beside the one before, whose channels it takes as they are made",
                                   kernel.plan.place().c_str(), kernel.name.c_str());
  network.slots = std::move(slots);
  return llvm::Error::success();
}

void Emitter::order() {
  network.instructions += instructions;
  if (overlaps()) {
    std::vector<schedule::Step> taken = takeSteps();
    std::move(taken.begin(), taken.end(), std::back_inserter(network.steps));
    return;
  }
  auto &blocks = network.tiles.blocks;
  auto straight = [&](std::vector<Operation> &operations) {
    for (Operation &op : operations)
      blocks.push_back(Block::of(1, std::move(op)));
  };
  // A load may run one tile ahead where its stream has a second slot.
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i == 0 || schedule == Schedule::Serial)
      straight(steps[i].early);
    straight(steps[i].late);
    if (i + 1 < steps.size() && schedule != Schedule::Serial)
      straight(steps[i + 1].early);
    for (Block &block : steps[i].compute)
      blocks.push_back(std::move(block));
  }
}

bool Emitter::isTooLong() {
  for (; countedSteps < steps.size(); ++countedSteps) {
    const TileStep &step = steps[countedSteps];
    instructions += step.early.size() + step.late.size();
    for (const Block &block : step.compute)
      instructions += block.operations.size();
  }
  return network.instructions + instructions > network.maxInstructions;
}

llvm::Error Emitter::checkLength(double least) const {
  if (double(network.instructions) + least <= double(network.maxInstructions))
    return llvm::Error::success();
  return llvm::createStringError(
      "kernel '%s' needs at least %.0f instructions, beside %llu before it; at most %llu are allowed (--max-instructions)",
      kernel.name.c_str(), least, (unsigned long long)network.instructions, (unsigned long long)network.maxInstructions);
}

llvm::Error Emitter::emit() {
  if (!kernel.copies.empty()) {
    const KernelPlan &request = kernel.plan;
    if (request.hasTileKnobs())
      return llvm::createStringError("%skernel '%s' only moves data and has no tiles to choose", request.place().c_str(),
                                     kernel.name.c_str());
    packConstants();
    emitCopies();
    if (isTooLong())
      return checkLength(double(instructions));
    order();
    return llvm::Error::success();
  }
  if (llvm::Error error = choose())
    return error;
  if (llvm::Error error = keepSlotsApart())
    return error;
  double visits = double(tileCount(tile));
  if (contraction())
    visits *= double(kernel.anchor->groups) * double(ceilDiv(kernel.anchor->ic, tile.tileK));
  // Tensors of many tiles are not on chip: each tile is loaded, computed and stored. Products of many take weights and a pass each.
  constexpr double kMany = 1 << 16;
  if (llvm::Error error = checkLength(visits <= kMany ? visits : contraction() ? 2 * visits : 3 * visits))
    return error;
  packConstants();
  emitTiles();
  if (isTooLong())
    return checkLength(double(instructions));
  order();
  return llvm::Error::success();
}

/// A window gives its result to the instruction that computes it and to no other, and the weights of a depthwise one are B: a first step
/// that is something else, or has a second tensor then, is preceded by an instruction for the window alone.
static Kernel withWindowApart(Kernel kernel) {
  if (kernel.anchor && (kernel.anchor->kind == Anchor::Window || kernel.maxima) && !kernel.steps.empty()) {
    auto isWindow = [](const Source &source) { return source.kind == Source::Value && source.value == -1; };
    auto readsWindow = [&](const Step &step) { return llvm::any_of(step.sources, isWindow); };
    unsigned tensors = 0;
    for (const Source &source : kernel.steps[0].sources)
      tensors += source.kind != Source::Parameter;
    if (((kernel.anchor->windowOp == isa::WindowOp::Mac || kernel.maxima) && tensors > 1) || !readsWindow(kernel.steps[0]) ||
        std::any_of(kernel.steps.begin() + 1, kernel.steps.end(), readsWindow)) {
      for (Step &step : kernel.steps)
        for (Source &source : step.sources)
          if (source.kind == Source::Value)
            ++source.value;
      Step identity;
      identity.type = kernel.anchor->windowOp == isa::WindowOp::Max ? kernel.anchor->inputType : kernel.anchor->resultType;
      Source source;
      source.kind = Source::Value;
      source.view.stride = {1, 1, 1, 1};
      identity.sources = {source};
      kernel.steps.insert(kernel.steps.begin(), identity);
    }
  }
  return kernel;
}

int64_t accel::carriedSums(const Kernel &matched, const timing::MachineParams &machine) {
  if (!matched.carriedSums())
    return 0;
  Kernel kernel = withWindowApart(matched);
  // One without a form is refused, with a reason, when it is emitted.
  std::optional<mlir::ScopedDiagnosticHandler> quiet;
  if (!kernel.steps.empty() && kernel.steps[0].op)
    quiet.emplace(kernel.steps[0].op.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
  mlir::FailureOr<std::vector<Chain>> chains = chainsOf(kernel, machine.vectorStages);
  return mlir::succeeded(chains) ? carriedBy(kernel, *chains, machine) : 0;
}

std::optional<std::string> accel::whyNoContraction(const timing::MachineParams &machine) {
  if (machine.lanes == machine.cols)
    return std::nullopt;
  return "machine '" + machine.name + "' has " + std::to_string(machine.lanes) + " lanes but " + std::to_string(machine.cols) +
         " array columns; they must be equal";
}

/// What `use` does with the emitter of a kernel, or why the kernel has none.
static llvm::Error withEmitter(const Kernel &matched, const timing::MachineParams &machine, Schedule schedule,
                               const std::vector<uint64_t> &addresses, const OnChip &onChip, uint32_t layer,
                               NetworkProgram &network, llvm::function_ref<llvm::Error(Emitter &)> use) {
  Kernel kernel = withWindowApart(matched);
  auto failure = [&](const std::string &why) {
    return llvm::createStringError("%s%s: %s", kernel.plan.placeOf({"array_channels", "engine"}).c_str(), kernel.name.c_str(),
                                   why.c_str());
  };
  if (kernel.anchor && kernel.anchor->kind == Anchor::Contraction) {
    LaneType wanted = machine.arrayType == timing::ArrayType::Fp32   ? LaneType::F32
                      : machine.arrayType == timing::ArrayType::Bf16 ? LaneType::Bf16
                                                                     : LaneType::I8;
    if (byteSize(kernel.anchor->inputType) != byteSize(wanted) || byteSize(kernel.anchor->weightType) != byteSize(wanted))
      return failure("the array of machine '" + machine.name + "' does not multiply this element type");
    if (std::optional<std::string> why = whyNoContraction(machine))
      return failure(*why);
  }
  std::optional<Chain> conversion;
  if (kernel.conversion) {
    if (onChip.banding && onChip.banding->input)
      return failure("its input is converted after it is loaded, and does not come in row tiles");
    mlir::FailureOr<Chain> built = buildChain(*kernel.conversion, kernel.loadedType());
    if (mlir::failed(built) || built->b >= 0 || !built->parameters.empty() || built->stages.size() > machine.vectorStages ||
        byteSize(built->dType) != byteSize(kernel.anchor->inputType))
      return failure("the conversion of its input has no form on the vector engine");
    if (!packsTaps(kernel, machine))
      return failure("the conversion of its input needs taps that the load engine packs");
    conversion = *built;
  }
  mlir::FailureOr<std::vector<Chain>> built = chainsOf(kernel, machine.vectorStages);
  if (mlir::failed(built))
    return failure("a step has no form on the vector engine");
  std::vector<Chain> chains = std::move(*built);
  if (chains.empty() && kernel.anchor) {
    Chain chain;
    chain.aType = chain.dType = kernel.anchor->resultType;
    // A maximum keeps the sign of what it compares; of floats it may be wider.
    if (kernel.anchor->windowOp == isa::WindowOp::Max && byteSize(kernel.anchor->inputType) == byteSize(kernel.outputType))
      chain.dType = kernel.anchor->inputType;
    chains.push_back(chain);
  }
  for (const Chain &chain : chains)
    if (chain.stages.size() > machine.vectorStages)
      return failure("a chain has " + std::to_string(chain.stages.size()) + " stages, but the machine has " +
                     std::to_string(machine.vectorStages));
  if (kernel.anchor && kernel.anchor->windowOp == isa::WindowOp::Mac &&
      kernel.anchor->axes[0].kernel * kernel.anchor->axes[1].kernel > isa::kMaxMacTaps)
    return failure("a window with weights has more than " + std::to_string(isa::kMaxMacTaps) + " taps");
  if (!chains.empty() && byteSize(chains.back().dType) != byteSize(kernel.outputType))
    return failure("the last step does not give the result's element type");
  Emitter emitter(kernel, std::move(chains), std::move(conversion), machine, schedule, addresses, onChip, layer, network);
  return use(emitter);
}

llvm::Error accel::emitKernel(const Kernel &kernel, const timing::MachineParams &machine, Schedule schedule,
                              const std::vector<uint64_t> &addresses, const OnChip &onChip, uint32_t layer,
                              NetworkProgram &network) {
  return withEmitter(kernel, machine, schedule, addresses, onChip, layer, network,
                     [](Emitter &emitter) { return emitter.emit(); });
}

llvm::Error accel::checkKernel(const Kernel &kernel, const timing::MachineParams &machine, Schedule schedule) {
  const std::vector<uint64_t> addresses(kernel.tensors.size(), 0);
  const OnChip onChip;
  NetworkProgram network;
  return withEmitter(kernel, machine, schedule, addresses, onChip, 0, network,
                     [](Emitter &emitter) { return emitter.check(); });
}
