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

Buffers Emitter::plan(const Tile &t) const {
  Buffers b;
  auto add = [&](unsigned memory, int64_t bytes, unsigned slots) {
    Buffer &buffer = b.all.emplace_back();
    buffer.memory = memory;
    buffer.bytes = roundUp(bytes, kBurst);
    buffer.slots = slots;
    return int(b.all.size()) - 1;
  };
  int64_t lanes = machine.lanes, blocks = ceilDiv(t.size[C], lanes), pos = positions(t);
  const int64_t drainBlocks = ceilDiv(drained(t), lanes), drains = ceilDiv(t.size[C], drained(t));
  // A stream with fewer different tiles than slots needs no more slots than tiles.
  int64_t groups = contraction() ? kernel.anchor->groups : 1, mTiles = 1;
  for (unsigned axis = P0; axis < kAxes; ++axis)
    mTiles *= axis == P1 ? rowTiles(t) : ceilDiv(kernel.extent[axis], t.size[axis]);
  int64_t nTiles = ceilDiv(channels(), t.size[C]) * groups;
  int64_t kTiles = contraction() ? ceilDiv(kernel.anchor->ic, t.ic) : 1;
  int64_t batches = contraction() && kernel.anchor->batchAxis ? kernel.extent[*kernel.anchor->batchAxis] : 1;
  auto slotsFor = [&](int64_t tiles) { return unsigned(std::min<int64_t>(t.depth, tiles)); };
  auto panelSlots = [&](int64_t tiles) {
    int64_t slots = t.panel == Tile::NoPanel      ? t.depth
                    : t.panel == Tile::AllWeights ? kTiles + t.depth - 1
                                                  : kTiles + (t.panel == Tile::TwoPanels ? kTiles : t.panel - Tile::OnePanel);
    return unsigned(std::min(slots, tiles));
  };
  if (contraction()) {
    const Anchor &anchor = *kernel.anchor;
    int64_t kBlocks = ceilDiv(t.ic, machine.rows), nBlocks = ceilDiv(t.size[C], machine.cols);
    int64_t taps = anchor.axes[0].kernel * anchor.axes[1].kernel;
    const int64_t sumBytes = pos * nBlocks * machine.accumulatorRowBytes();
    unsigned sums = t.inputsOuter ? unsigned(tilesTogether(t)) : t.oneSum ? 1 : slotsFor(mTiles * nTiles);
    if (unpacked && sums > 2 && sums * sumBytes > int64_t(machine.accumulator.capacityBytes))
      sums = 2; // more slots are for the many short runs of the loads
    b.accumulator = add(unsigned(isa::Memory::Accumulator), sumBytes, sums);
    int64_t inputBytes = inputSpan(t, P2) * inputSpan(t, P1) * inputSpan(t, P0) * kBlocks * machine.rows * elementBytes();
    if (unpacked) // the last vector reaches behind the last column
      inputBytes = t.size[P2] * packedStrides(t.size)[P2] + (kBlocks * machine.rows - anchor.ic) * elementBytes();
    if (t.rolling > 1)
      b.input = add(0, inputBytes / inputSpan(t, P1) * rollingRows(t), 1);
    else if (!residentInput())
      b.input = add(0, inputBytes,
                    t.channelsOuter ? slotsFor(mTiles * kTiles * groups) : panelSlots(mTiles * kTiles * groups));
    const int64_t weightTiles = nTiles * kTiles * batches + (t.beginsSmall ? pieces(t) : 0);
    b.weights = add(weightMemory(), taps * kBlocks * machine.rows * nBlocks * machine.cols * elementBytes(),
                    t.panel == Tile::AllWeights ? unsigned(nTiles * kTiles * batches)
                    : t.channelsOuter           ? panelSlots(weightTiles) : slotsFor(weightTiles));
  } else if (window()) {
    const Anchor &anchor = *kernel.anchor;
    if (t.rolling > 1)
      b.input = add(0, rollingRows(t) * inputSpan(t, P0) * blocks * lanes * elementBytes(), 1);
    else if (!residentInput())
      b.input = add(0, inputSpan(t, P2) * inputSpan(t, P1) * inputSpan(t, P0) * blocks * lanes * elementBytes(),
                    slotsFor(mTiles * nTiles));
    if (anchor.weights >= 0)
      b.weights =
          add(weightMemory(), anchor.axes[0].kernel * anchor.axes[1].kernel * blocks * lanes * byteSize(anchor.weightType),
              slotsFor(nTiles));
  }
  for (size_t i = 0; i < chains.size(); ++i) {
    const Step *step = i < kernel.steps.size() ? &kernel.steps[i] : nullptr;
    b.sources.emplace_back();
    b.parameters.push_back(-1);
    if (step) {
      if (!chains[i].parameters.empty())
        b.parameters.back() = add(weightMemory(), blocks * int64_t(chains[i].parameters.size()) * lanes * 4,
                                  t.panel == Tile::AllWeights ? unsigned(nTiles) : slotsFor(nTiles));
      for (const Source &source : step->sources) {
        if (source.kind != Source::Tensor || residentOf(source.view.tensor)) {
          b.sources.back().push_back(-1);
          continue;
        }
        int64_t bytes = (source.view.stride[C] ? drainBlocks * lanes : lanes) * byteSize(source.type);
        for (unsigned axis = P0; axis < kAxes; ++axis)
          if (source.view.stride[axis])
            bytes *= t.size[axis];
        b.sources.back().push_back(add(0, bytes, slotsFor(mTiles * nTiles * drains)));
      }
    }
    bool last = i + 1 == chains.size();
    bool reduced = step && step->reducesChannels;
    const Extent box = kernel.made(t.size, i);
    const int64_t made = box[P0] * box[P1] * box[P2];
    if (last && residentOf(kernel.output.tensor))
      b.results.push_back(-1);
    else
      b.results.push_back(
          add(0, made * (reduced ? 1 : drainBlocks) * lanes * byteSize(chains[i].dType), last ? slotsFor(mTiles * nTiles * drains) : 1));
  }
  return b;
}

int64_t Emitter::leastDrain() const {
  const int64_t lanes = machine.lanes;
  return residentOf(kernel.output.tensor) ? lanes : roundUp(std::max(lanes, kBurst / byteSize(kernel.outputType)), lanes);
}

bool Emitter::fitsDrained(Tile &t, Buffers &b) const {
  t.drain = 0;
  b = plan(t);
  if (onChip.banding || !exceedsMemory(b)) // kernels in bands have their places already
    return true;
  // Row reductions need whole rows.
  const bool reduces = llvm::any_of(kernel.steps, [](const Step &s) { return s.reducesChannels; });
  if (!overlaps() || !contraction() || reduces || machine.lanes != machine.cols)
    return false;
  for (int64_t parts = 2, unit = leastDrain(); t.drain != unit && t.size[C] > unit; parts *= 2) {
    t.drain = roundUp(ceilDiv(t.size[C], parts), unit);
    b = plan(t);
    if (!exceedsMemory(b))
      return true;
  }
  return false;
}

int64_t Emitter::capacityOf(const Buffer &buffer) const {
  if (buffer.memory == unsigned(isa::Memory::Accumulator))
    return int64_t(machine.accumulator.capacityBytes);
  return buffer.memory == 0 ? std::max<int64_t>(0, room.size()) : int64_t(machine.scratchpads[buffer.memory].capacityBytes);
}

/// In a group: what the other kernels have on chip stays there.
bool Emitter::allocateOwn(Buffers &b) const {
  std::vector<Banding::Use> uses;
  for (size_t index = 0; index < b.all.size(); ++index)
    uses.push_back(int(index) == b.accumulator                          ? Banding::Sums
                   : int(index) == b.weights && contraction()           ? Banding::Weights
                   : int(index) == b.weights                            ? Banding::Parameters
                   : llvm::is_contained(b.parameters, int(index))       ? Banding::Parameters
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
        if (ownBanks && (isSum || use == Banding::Streams))
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

bool Emitter::allocate(Buffers &b, const std::array<int64_t, 8> &start, std::array<int64_t, 8> *end) const {
  if (onChip.banding)
    return allocateOwn(b);
  if (exceedsMemory(b))
    return false;
  // Large slots first, so that bank rounding costs least.
  llvm::SmallVector<size_t, 16> order(b.all.size());
  std::iota(order.begin(), order.end(), size_t(0));
  llvm::sort(order, [&](size_t x, size_t y) {
    return b.all[x].bytes != b.all[y].bytes ? b.all[x].bytes > b.all[y].bytes : x < y;
  });
  std::array<Range, 8> places; // that the slots take one after the other, from `start` on
  for (const Buffer &buffer : b.all)
    places[buffer.memory] = buffer.memory == 0 ? room : Range{0, capacityOf(buffer)};
  // Of the first `ownBanks` buffers no two slots share a bank; the others share none with these.
  auto attempt = [&](size_t ownBanks) {
    std::array<int64_t, 8> next = start;
    std::array<bool, 8> wrapped{};
    if (onChip.banks)
      next[0] = room.begin;
    for (auto [i, index] : llvm::enumerate(order)) {
      Buffer &buffer = b.all[index];
      bool acc = buffer.memory == unsigned(isa::Memory::Accumulator);
      const timing::MemoryParams &memory = acc ? machine.accumulator : machine.scratchpads[buffer.memory];
      int64_t &at = next[buffer.memory];
      // Vectors are read whole: a slot starts on a multiple of the widest one.
      const int64_t widest = std::max<int64_t>(kBurst, acc ? machine.accumulatorRowBytes() : machine.lanes * 4);
      const bool staysAligned = buffer.bytes % widest == 0;
      buffer.address.clear();
      buffer.address.reserve(buffer.slots);
      for (unsigned slot = 0; slot < buffer.slots; ++slot) {
        // The slots of a panel are filled and read one after the other, seldom next to each other.
        const bool beginsBank =
            i < ownBanks ? slot == 0 || buffer.slots <= kMaxOwnBanks : ownBanks && i == ownBanks && slot == 0;
        if (beginsBank)
          at = roundUp(at, int64_t(memory.bankBytes()));
        if (slot == 0 || beginsBank || !staysAligned)
          at = roundUp(at, widest);
        const Range &place = places[buffer.memory];
        if (at + buffer.bytes > place.end && !wrapped[buffer.memory] && !(buffer.memory == 0 && onChip.banks)) {
          wrapped[buffer.memory] = true;
          at = place.begin;
        }
        int64_t limit = wrapped[buffer.memory] ? std::min(start[buffer.memory], place.end) : place.end;
        if (at + buffer.bytes > limit)
          return false;
        buffer.address.push_back(at);
        at += buffer.bytes;
      }
    }
    if (onChip.banks)
      next[0] = start[0]; // those behind lie where they would without this one
    if (end)
      *end = next;
    return true;
  };
  b.ownBanks = attempt(order.size());
  // In banks that are asked for, small ones share what large ones leave.
  for (size_t own = order.size(); onChip.banks && !b.ownBanks && --own > 0;)
    if (attempt(own))
      return true;
  return b.ownBanks || attempt(0);
}
