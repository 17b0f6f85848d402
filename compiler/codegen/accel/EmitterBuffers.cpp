//===- EmitterBuffers.cpp - What a tile needs on chip, and where it lies ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include <algorithm>
#include <numeric>

using namespace tw;
using namespace tw::accel;

namespace {
constexpr unsigned kMaxOwnBanks = 4; ///< buffers of more slots share banks among themselves
} // namespace

/// Of a contraction's weights for a tile.
int64_t Emitter::weightTileBytes(const Tile &t) const {
  const Anchor &anchor = *kernel.anchor;
  return anchor.axes[0].kernel * anchor.weightRows() * roundUp(t.tileK, machine.rows) * roundUp(t.tile[C], machine.cols) *
         elementBytes();
}

void Emitter::plan(const Tile &t, Buffers &b) const {
  b.all.clear();
  b.accumulator = b.input = b.weights = b.diagonals = b.parts = b.line = -1;
  b.raw.clear();
  b.parameters.clear();
  b.sources.clear();
  b.results.clear();
  b.ownBanks = false;
  auto add = [&](unsigned memory, int64_t bytes, unsigned slots) {
    Buffer &buffer = b.all.emplace_back();
    buffer.memory = memory;
    buffer.bytes = roundUp(bytes, kBurst);
    buffer.slots = slots;
    return int(b.all.size()) - 1;
  };
  int64_t lanes = machine.lanes, blocks = ceilDiv(t.tile[C], lanes);
  const int64_t drainBlocks = ceilDiv(drained(t), lanes), drains = ceilDiv(t.tile[C], drained(t));
  // A stream with fewer different tiles than slots needs no more slots than tiles.
  int64_t groups = contraction() ? kernel.anchor->groups : 1, mTiles = 1;
  for (unsigned axis = P0; axis < kAxes; ++axis)
    mTiles *= tilesAlong(axis, t);
  int64_t nTiles = ceilDiv(channels(), t.tile[C]) * groups;
  int64_t kTiles = contraction() ? ceilDiv(kernel.anchor->ic, t.tileK) : 1;
  int64_t batches = contraction() && kernel.anchor->batchAxis ? kernel.extent[*kernel.anchor->batchAxis] : 1;
  auto slotsFor = [&](int64_t tiles) { return unsigned(std::min<int64_t>(t.depth, tiles)); };
  auto stationarySlots = [&](int64_t tiles) {
    const int64_t slots = t.stationary == Stationary::None       ? t.depth
                          : t.stationary == Stationary::Resident ? kTiles + t.depth - 1
                                                                 : kTiles + t.tilesAhead(kTiles);
    return unsigned(std::min(slots, tiles));
  };
  if (contraction()) {
    const int64_t nBlocks = ceilDiv(t.tile[C], machine.cols);
    const int64_t sumBytes = sums(t) * nBlocks * machine.accumulatorRowBytes();
    unsigned slots = t.kOuter() ? unsigned(tilesTogether(t)) : t.singleAccumulator ? 1 : slotsFor(mTiles * nTiles);
    if (unpacked && slots > 2 && !(onChip.banding && hasSumLineBuffer(t)) &&
        slots * sumBytes > int64_t(machine.accumulator.capacityBytes))
      slots = 2; // more slots are for the many short runs of the loads
    b.accumulator = add(unsigned(isa::Memory::Accumulator), sumBytes, slots);
    int64_t inputBytes = inputSpan(t, P2) * inputSpan(t, P1) * inputRowBytes(inputSpan(t, P0), t.tileK);
    if (unpacked) // parts that are converted end with whole vectors
      inputBytes = (packedElements(madeSums(t)) + (conversion ? machine.lanes : 0)) * elementBytes();
    if (rollsInput(t))
      b.input = add(0, inputBytes / inputSpan(t, P1) * rollingRows(t), 1);
    else if (!residentInput())
      b.input = add(0, inputBytes,
                    t.channelsOuter() ? slotsFor(mTiles * kTiles * groups) : stationarySlots(mTiles * kTiles * groups));
    Extent part = madeSums(t);
    part[P0] = ceilDiv(part[P0], loadParts(t));
    auto rawOf = [&](int64_t rows) { return plainElements(*unpacked, part, rows) + machine.lanes; };
    int64_t rawElements = packsOnChip() ? rawOf(unpacked->axes[1].span(part[P1])) : conversion ? packedElements(part) : 0;
    if (conversion) { // what is loaded soon leaves its slot: more than two are only in the way
      const unsigned sumSlots = std::exchange(slots, std::min(b.all[size_t(b.input)].slots, 2u));
      b.all[size_t(b.input)].slots = slots;
      if (copiesRows(t)) { // the rows above, of each strip
        const int64_t strips = tilesAlong(P0, t) * tilesAlong(P2, t);
        b.all[size_t(b.input)].slots = unsigned(hasSumLineBuffer(t) ? std::min<int64_t>(sumSlots, strips) : strips) + 1;
        const int64_t rows = unpacked->axes[1].span(part[P1]) - copiedRows(kernel, *unpacked, machine);
        if (hasSumLineBuffer(t))
          part[P1] = kernel.sharedSums(); // the first row of windows has none above it
        const int64_t first = unpacked->axes[1].span(part[P1]);
        rawElements = packsOnChip() ? std::max(rawOf(rows), rawOf(first))
                                    : std::max(part[P0] * rows * packedStride[2], packedElements(part));
      }
    }
    for (int64_t i = 0; conversion && i < loadParts(t); ++i)
      b.raw.push_back(add(0, rawElements * loadedBytes(), slots));
    if (t.maxLineBuffer)
      b.line = add(0, t.tile[P0] * t.tile[P2] * blocks * machine.accumulatorRowBytes(), unsigned(tilesAlong(P0, t) * nTiles));
    const int64_t weightTiles = nTiles * kTiles * batches + (t.smallFirstTile ? pieces(t) : 0);
    if (!residentWeights())
      b.weights = add(weightMemory(), weightTileBytes(t),
                      t.stationary == Stationary::Resident ? unsigned(nTiles * kTiles * batches)
                      : t.channelsOuter()                  ? stationarySlots(weightTiles)
                                                           : slotsFor(weightTiles));
    if (t.splitTiles()) {
      unsigned &own = b.all[size_t(b.weights)].slots;
      own = std::max(own, unsigned(std::min(t.splitTiles() * (t.kOuter() ? 1 : kTiles), weightTiles)));
    }
  } else if (window()) {
    const Anchor &anchor = *kernel.anchor;
    if (t.lineBuffer > 1)
      b.input = add(0, rollingRows(t) * inputRowBytes(inputSpan(t, P0), t.tile[C]), 1);
    else if (!residentInput())
      b.input =
          add(0, inputSpan(t, P2) * inputSpan(t, P1) * inputRowBytes(inputSpan(t, P0), t.tile[C]), slotsFor(mTiles * nTiles));
    if (anchor.weights >= 0)
      b.weights = add(weightMemory(), windowWeights() * blocks * lanes * byteSize(anchor.weightType), slotsFor(nTiles));
    if (const auto parts = int64_t(windowParts(t).size()))
      b.parts = add(0, positions(t) * blocks * parts * lanes * byteSize(partType(anchor)), 1);
    if (const int64_t most = mostArrayBlocks(t, blocks)) {
      b.accumulator = add(unsigned(isa::Memory::Accumulator), positions(t) * most * machine.accumulatorRowBytes(),
                          slotsFor(mTiles * nTiles));
      b.diagonals = add(weightMemory(), most * diagonalBytes(), slotsFor(nTiles));
    }
  }
  for (size_t i = 0; i < chains.size(); ++i) {
    const Step *step = i < kernel.steps.size() ? &kernel.steps[i] : nullptr;
    b.sources.emplace_back();
    b.parameters.push_back(-1);
    if (step) {
      if (!chains[i].parameters.empty())
        b.parameters.back() =
            add(weightMemory(), blocks * int64_t(chains[i].parameters.size()) * lanes * 4,
                t.stationary == Stationary::Resident ? unsigned(nTiles)
                                                     : unsigned(std::min(std::max<int64_t>(t.depth, t.splitTiles()), nTiles)));
      for (const Source &source : step->sources) {
        if (source.kind != Source::Tensor || residentOf(source.view.tensor)) {
          const bool needsZeros = source.kind == Source::Tensor && source.view.isPadded();
          b.sources.back().push_back(needsZeros ? add(0, lanes * byteSize(source.type), 1) : -1);
          continue;
        }
        if (int same = sameSource(b, i, source); same >= 0) {
          b.sources.back().push_back(same);
          continue;
        }
        int64_t bytes = (source.view.stride[C] ? drainBlocks * lanes : lanes) * byteSize(source.type);
        for (unsigned axis = P0; axis < kAxes; ++axis)
          if (source.view.stride[axis])
            bytes *= t.tile[axis];
        b.sources.back().push_back(add(0, bytes, slotsFor(mTiles * nTiles * drains)));
      }
    }
    bool last = i + 1 == chains.size();
    bool reduced = step && step->reducesChannels;
    const Extent box = kernel.made(t.tile, i);
    const int64_t made = box[P0] * box[P1] * box[P2];
    if (last && residentOf(kernel.output.tensor))
      b.results.push_back(-1);
    else if (int same = t.inPlace ? overwritten(b, i) : -1; same >= 0)
      b.results.push_back(same);
    else
      b.results.push_back(add(0, made * (reduced ? 1 : drainBlocks) * lanes * byteSize(chains[i].dType),
                              last ? slotsFor(mTiles * nTiles * drains) : 1));
  }
}

/// The buffer that step `i` may leave its result in, as nothing needs what it reads there any more; -1: none.
int Emitter::overwritten(const Buffers &b, size_t i) const {
  auto reduces = [](const Step &step) { return step.reducesChannels; };
  if (i >= kernel.steps.size() || reduces(kernel.steps[i]))
    return -1;
  const Source &a = kernel.steps[i].sources[size_t(chains[i].a)];
  const bool isTensor = a.kind == Source::Tensor;
  if (isTensor && residentOf(a.view.tensor))
    return -1;
  if (!isTensor && (a.kind != Source::Value || a.value < 0 || reduces(kernel.steps[size_t(a.value)])))
    return -1;
  const int buffer = isTensor ? b.sources[i][size_t(chains[i].a)] : b.results[size_t(a.value)];
  const LaneType type = isTensor ? a.type : chains[size_t(a.value)].dType;
  if (buffer < 0 || byteSize(type) != byteSize(chains[i].dType) || (i + 1 == chains.size() && b.all[size_t(buffer)].slots < 2))
    return -1;
  for (unsigned axis = C; axis < kAxes; ++axis)
    if (!a.view.stride[axis] && kernel.extent[axis] > 1)
      return -1;
  // Sources and values of later steps that are that buffer.
  for (size_t later = i; later < kernel.steps.size(); ++later)
    for (auto [k, source] : llvm::enumerate(kernel.steps[later].sources)) {
      const bool isEntry = later == i && k == size_t(chains[i].a);
      if (!isEntry && source.kind == a.kind &&
          (isTensor
               ? source.view.tensor == a.view.tensor
               : source.value >= 0 && b.results.size() > size_t(source.value) && b.results[size_t(source.value)] == buffer))
        return -1;
    }
  return buffer;
}

/// The buffer of a tensor that a step before `step` reads in the same way: a tile of it is loaded once.
int Emitter::sameSource(const Buffers &b, size_t step, const Source &source) const {
  for (size_t i = 0; i < step; ++i)
    for (auto [k, other] : llvm::enumerate(kernel.steps[i].sources))
      if (other.kind == Source::Tensor && !residentOf(other.view.tensor) && other.view.readsLike(source.view) &&
          other.type == source.type)
        return b.sources[i][k];
  return -1;
}

int64_t Emitter::leastDrain() const {
  const int64_t lanes = machine.lanes;
  return residentOf(kernel.output.tensor) || kernel.pool
             ? lanes
             : roundUp(std::max(lanes, kBurst / byteSize(kernel.outputType)), lanes);
}

bool Emitter::fitsDrained(Tile &t, Buffers &b) const {
  t.drain = 0;
  t.inPlace = false;
  plan(t, b);
  if (onChip.banding || !exceedsMemory(b)) // kernels in bands have their places already
    return true;
  // Row reductions need whole rows.
  const bool reduces = llvm::any_of(kernel.steps, [](const Step &s) { return s.reducesChannels; });
  if (overlaps() && reduces) {
    t.inPlace = true;
    plan(t, b);
    return !exceedsMemory(b);
  }
  if (!overlaps() || !contraction() || reduces || machine.lanes != machine.cols)
    return false;
  for (int64_t parts = 2, unit = leastDrain(); t.drain != unit && t.tile[C] > unit; parts *= 2) {
    t.drain = roundUp(ceilDiv(t.tile[C], parts), unit);
    plan(t, b);
    if (!exceedsMemory(b))
      return true;
  }
  return false;
}

Range Emitter::placeIn(unsigned memory) const {
  const bool isSum = memory == unsigned(isa::Memory::Accumulator);
  const Range own = isSum ? onChip.sums : memory == 0 ? room : onChip.weights;
  if (memory == 0 || !own.isEmpty())
    return own;
  return {0, int64_t((isSum ? machine.accumulator : machine.scratchpads[memory]).capacityBytes)};
}

int64_t Emitter::capacityOf(const Buffer &buffer) const { return std::max<int64_t>(0, placeIn(buffer.memory).size()); }

/// In a group: what the other kernels have on chip stays there.
bool Emitter::allocateOwn(Buffers &b) const {
  std::vector<Banding::Use> uses;
  for (size_t index = 0; index < b.all.size(); ++index)
    uses.push_back(int(index) == b.accumulator                    ? Banding::Sums
                   : int(index) == b.weights && contraction()     ? Banding::Weights
                   : int(index) == b.diagonals                    ? Banding::Weights
                   : int(index) == b.weights                      ? Banding::Parameters
                   : llvm::is_contained(b.parameters, int(index)) ? Banding::Parameters
                                                                  : Banding::Streams);
  auto attempt = [&](bool ownBanks) {
    const auto &own = onChip.banding->own;
    std::array<int64_t, Banding::kUses> at;
    for (size_t use = 0; use < at.size(); ++use)
      at[use] = own[use].begin;
    for (auto [buffer, use] : llvm::zip(b.all, uses)) {
      bool isSum = use == Banding::Sums;
      const timing::MemoryParams &memory = isSum ? machine.accumulator : machine.scratchpads[buffer.memory];
      buffer.address.clear();
      for (unsigned slot = 0; slot < buffer.slots; ++slot) {
        if (ownBanks && (isSum || use == Banding::Streams) && (slot == 0 || int(&buffer - b.all.begin()) != b.line))
          at[use] = roundUp(at[use], int64_t(memory.bankBytes()));
        at[use] = roundUp(at[use], std::max<int64_t>(kBurst, isSum ? machine.accumulatorRowBytes() : machine.lanes * 4));
        buffer.address.push_back(at[use]);
        at[use] += buffer.bytes;
      }
      if (at[use] > own[use].end)
        return false;
    }
    return true;
  };
  b.ownBanks = attempt(true);
  return b.ownBanks || attempt(false);
}

/// Most candidates need more than there is, wherever their slots would lie.
bool Emitter::exceedsMemory(const Buffers &b) const {
  std::array<int64_t, 8> needed{};
  for (const Buffer &buffer : b.all)
    if ((needed[buffer.memory] += buffer.bytes * buffer.slots) > capacityOf(buffer))
      return true;
  return false;
}

/// Whether the buffer holds rows that one step leaves to others, of which none reads a sum with them.
bool Emitter::isBesideNoSum(const Buffers &b, int buffer) const {
  auto isSum = [&](const Source &source) {
    return source.kind == Source::Value && source.value >= 0 && kernel.steps[size_t(source.value)].reducesChannels;
  };
  auto isIt = [&](const Source &source) {
    return source.kind == Source::Value && source.value >= 0 && b.results[size_t(source.value)] == buffer && !isSum(source);
  };
  bool isRead = false;
  for (auto [step, sources] : llvm::zip(kernel.steps, b.sources)) {
    const bool reads = llvm::any_of(step.sources, isIt);
    if (llvm::is_contained(sources, buffer) || (reads && llvm::any_of(step.sources, isSum)))
      return false;
    isRead |= reads;
  }
  return isRead && buffer != b.results.back();
}

bool Emitter::allocate(Buffers &b, const std::array<int64_t, 8> &start, std::array<int64_t, 8> *end) const {
  if (onChip.banding)
    return allocateOwn(b);
  if (exceedsMemory(b))
    return false;
  // Large slots first, so that bank rounding costs least.
  llvm::SmallVector<size_t, 16> order(b.all.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::sort(order,
             [&](size_t x, size_t y) { return b.all[x].bytes != b.all[y].bytes ? b.all[x].bytes > b.all[y].bytes : x < y; });
  // A row's sum is read beside the row, at half the speed if both lie in one bank: the sums first, and what is only written.
  size_t ahead = 0;
  auto putAhead = [&](int index) {
    if (auto it = std::find(order.begin() + long(ahead), order.end(), size_t(index)); index >= 0 && it != order.end())
      std::rotate(order.begin() + long(ahead++), it, it + 1);
  };
  for (size_t i = 0; i < kernel.steps.size(); ++i)
    if (kernel.steps[i].reducesChannels)
      putAhead(b.results[i]);
  const size_t sums = ahead;
  if (ahead && llvm::count(b.results, b.results.back()) == 1 &&
      llvm::none_of(b.sources, [&](const auto &sources) { return llvm::is_contained(sources, b.results.back()); }))
    putAhead(b.results.back());
  std::array<Range, 8> places; // that the slots take one after the other, from `start` on
  for (const Buffer &buffer : b.all)
    places[buffer.memory] = placeIn(buffer.memory);
  std::array<int64_t, 8> next = start;
  // Of the first `ownBanks` buffers no two slots share a bank; the others share none with these, or lie `behind` the last one. The first
  // `together` are one in this.
  auto attempt = [&](unsigned memory, size_t ownBanks, bool sumsApart, bool behind = false, size_t together = 0) {
    const bool acc = memory == unsigned(isa::Memory::Accumulator), isFixed = memory == 0 && onChip.banks;
    const int64_t bankBytes = int64_t((acc ? machine.accumulator : machine.scratchpads[memory]).bankBytes());
    // Vectors are read whole: a slot starts on a multiple of the widest one.
    const int64_t widest = std::max<int64_t>(kBurst, acc ? machine.accumulatorRowBytes() : machine.lanes * 4);
    const Range &place = places[memory];
    // The room of the kernel before may end within a bank: the round begins and ends at the next one.
    const int64_t first = std::max(
        place.begin, behind || (ownBanks && *wanted.bankExclusive) ? roundUp(start[memory], bankBytes) : start[memory]);
    int64_t at = isFixed ? room.begin : first;
    bool wrapped = false;
    for (auto [i, index] : llvm::enumerate(order)) {
      Buffer &buffer = b.all[index];
      if (buffer.memory != memory)
        continue;
      if (sumsApart && index == order[ahead])
        at = roundUp(at, bankBytes);
      const bool staysAligned = buffer.bytes % widest == 0;
      buffer.address.clear();
      buffer.address.reserve(buffer.slots);
      for (unsigned slot = 0; slot < buffer.slots; ++slot) {
        // The slots of a stationary operand are filled and read one after the other, seldom next to each other.
        const bool beginsBank = i > 0 && i < together ? false
                                : i < ownBanks        ? slot == 0 || buffer.slots <= kMaxOwnBanks
                                                      : ownBanks && i == ownBanks && slot == 0 && !behind;
        if (beginsBank)
          at = roundUp(at, bankBytes);
        if (slot == 0 || beginsBank || !staysAligned)
          at = roundUp(at, widest);
        if (at + buffer.bytes > place.end && !wrapped && !isFixed) {
          wrapped = true;
          at = place.begin;
        }
        if (at + buffer.bytes > (wrapped ? std::min(first, place.end) : place.end))
          return false;
        buffer.address.push_back(at);
        at += buffer.bytes;
      }
    }
    if (!isFixed) // those behind lie where they would without this one
      next[memory] = at;
    return true;
  };
  // Sums are small, and seldom does a step read two of them: they can share a bank. With none left for them they lie behind rows that
  // are not in their way.
  auto attemptTogether = [&] { return sums > 1 && attempt(0, order.size(), false, false, sums); };
  auto attemptBehindRows = [&] {
    const llvm::SmallVector<size_t, 16> before = order;
    auto rows = llvm::find_if(order, [&](size_t index) { return isBesideNoSum(b, int(index)); });
    if (!sums || rows == order.end())
      return false;
    std::rotate(rows, rows + 1, order.end());
    std::rotate(order.begin(), order.begin() + long(sums), order.end());
    if (attempt(0, order.size() - sums, false, true))
      return true;
    order = before;
    return false;
  };
  b.ownBanks = true;
  uint32_t memories = 0;
  for (const Buffer &buffer : b.all)
    memories |= 1u << buffer.memory;
  for (unsigned memory = 0; memory < next.size(); ++memory) {
    if (!(memories >> memory & 1) || attempt(memory, order.size(), false) ||
        (memory == 0 && (attemptTogether() || attemptBehindRows())))
      continue;
    b.ownBanks = false;
    bool found = false;
    // Small ones share what large ones leave; beside sums of rows, and tiles of packed taps, whose loads take long, only in banks that
    // are asked for.
    for (size_t own = order.size(); memory == 0 && (onChip.banks || !(ahead || unpacked)) && !found && --own > 0;)
      found = attempt(memory, own, false);
    if (!found && !(memory == 0 && ahead && ahead < order.size() && attempt(memory, 0, true)) && !attempt(memory, 0, false))
      return false;
  }
  if (end)
    *end = next;
  return true;
}
