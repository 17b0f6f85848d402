//===- EmitterVector.cpp - What one kernel does on the vector engine ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "isa/timing/InstructionTiming.h"

#include <algorithm>

using namespace tw;
using namespace tw::accel;
using schedule::Block;

namespace {
constexpr int64_t kMaxCount = isa::maximumOf(isa::Opcode::Vector, "counts");
constexpr int64_t kMaxStride = isa::maximumOf(isa::Opcode::Vector, "a_strides"); // b_strides and d_strides are as wide
} // namespace

/// The stages of a vector instruction.
static void setStages(isa::Vector &v, const Chain &chain) {
  v.num_stages = int64_t(chain.stages.size());
  for (size_t k = 0; k < chain.stages.size(); ++k) {
    v.stage_op[k] = int64_t(chain.stages[k].op);
    v.stage_operand[k] = chain.stages[k].operand;
  }
  for (size_t k = 0; k < chain.immediates.size(); ++k)
    v.immediates[k] = chain.immediates[k];
}

/// Whole vectors of every column, and one that ends with its last element. A run that fills none takes what lies behind it as well.
void Emitter::moveColumns(TileStep &step, const Columns &columns, const Chain &chain) const {
  const int64_t lanes = machine.lanes, aBytes = byteSize(chain.aType), dBytes = byteSize(chain.dType);
  auto move = [&](int64_t first, int64_t vectors) {
    isa::Vector v;
    v.a_type = int64_t(chain.aType);
    v.a_zero_point = chain.aZero;
    v.a_address = columns.from + first * aBytes;
    v.a_strides = {lanes * aBytes, columns.fromStride};
    v.a_span = (columns.count - 1) * columns.fromStride + vectors * lanes * aBytes;
    v.d_type = int64_t(chain.dType);
    v.d_address = columns.to + first * dBytes;
    v.d_strides = {lanes * dBytes, columns.toStride};
    v.d_span = (columns.count - 1) * columns.toStride + vectors * lanes * dBytes;
    v.counts = {vectors, columns.count, 1, 1};
    v.window = {1, 1};
    setStages(v, chain);
    addParts(step, v);
  };
  const int64_t whole = std::max<int64_t>(columns.elements / lanes, 1);
  move(0, whole);
  if (columns.elements > whole * lanes)
    move(columns.elements - lanes, 1);
}

/// Bytes from the first to the last of a vector instruction's vectors.
static int64_t spanOfVectors(const std::array<int64_t, 4> &counts, const std::array<int64_t, 4> &strides, int64_t vectorBytes) {
  int64_t span = vectorBytes;
  for (int d = 0; d < 4; ++d)
    span += (counts[d] - 1) * std::max<int64_t>(strides[d], 0);
  return span;
}

/// Runs in ascending order: what a vector writes behind the end of its run, the next one overwrites.
void Emitter::packPlain(TileStep &step, const Extent &size, int64_t rows, int64_t from, int64_t to, int64_t column) const {
  const int64_t run = packedStride[2], lanes = machine.lanes, as = loadedBytes(), ds = elementBytes();
  const WindowAxis &w = unpacked->axes[0];
  isa::Vector v;
  v.counts = {ceilDiv(run, lanes), rows, size[P0], 1};
  v.window = {1, 1};
  v.a_type = int64_t(conversion->aType);
  v.a_zero_point = conversion->aZero;
  v.a_address = from;
  v.a_strides = {lanes * as, w.span(size[P0]) * unpacked->ic * as, w.stride * unpacked->ic * as};
  v.a_span = spanOfVectors(v.counts, v.a_strides, lanes * as);
  v.d_type = int64_t(conversion->dType);
  v.d_address = to;
  v.d_strides = {lanes * ds, run * ds, column};
  v.d_span = spanOfVectors(v.counts, v.d_strides, lanes * ds);
  setStages(v, *conversion);
  addParts(step, v);
}

/// The instruction for some of its vectors along a dimension.
static isa::Vector partOf(const isa::Vector &whole, size_t dim, int64_t first, int64_t count, int64_t lanes) {
  isa::Vector v = whole;
  v.counts[dim] = count;
  auto cut = [&](auto &address, auto &span, int64_t stride) {
    address += first * stride;
    span -= (whole.counts[dim] - count) * stride;
  };
  cut(v.a_address, v.a_span, v.a_strides[dim]);
  cut(v.d_address, v.d_span, v.d_strides[dim]);
  if (v.b_enable)
    cut(v.b_address, v.b_span, v.b_strides[dim]);
  if (v.p_count && dim == 3)
    cut(v.p_address, v.p_span, v.p_count * lanes * 4);
  return v;
}

/// The instruction for some of its blocks of channels.
static isa::Vector blocksOf(const isa::Vector &whole, int64_t first, int64_t count, int64_t lanes) {
  return partOf(whole, 3, first, count, lanes);
}

/// Taps that are evenly spaced may make several rows where one field does not hold all: their order stays.
static void foldWindow(isa::Vector &v) {
  const auto [columns, rows] = v.window;
  const int64_t taps = columns * rows, step = v.a_window_strides[columns == 1];
  const bool isEven = columns == 1 || rows == 1 || v.a_window_strides[1] == columns * step;
  if (std::max(columns, rows) <= kMaxWindow || !isEven || v.tail_lanes)
    return;
  for (int64_t row = kMaxWindow; taps / row <= kMaxWindow; --row)
    if (taps % row == 0) {
      v.window = {row, taps / row};
      v.a_window_strides = {step, row * step};
      return;
    }
}

/// The vectors in their order: as one instruction, or several where it has no room for their counts or for the bytes between them.
void Emitter::addParts(TileStep &step, isa::Vector v) const {
  auto most = [&](size_t dim) {
    const int64_t stride = std::max({std::abs(v.a_strides[dim]), std::abs(v.b_strides[dim]), std::abs(v.d_strides[dim])});
    return stride > kMaxStride ? 1 : kMaxCount;
  };
  for (size_t dim = 0; dim < 4; ++dim) {
    if (v.counts[dim] > most(dim)) {
      size_t outer = 3;
      while (v.counts[outer] == 1)
        --outer;
      const int64_t all = v.counts[outer], part = outer == dim ? most(dim) : 1;
      for (int64_t first = 0; first < all; first += part)
        addParts(step, partOf(v, outer, first, std::min(part, all - first), machine.lanes));
      return;
    }
    if (most(dim) == 1)
      v.a_strides[dim] = v.b_strides[dim] = v.d_strides[dim] = 0;
  }
  foldWindow(v);
  for (size_t dim = 0; dim < 2; ++dim)
    if (v.window[dim] == 1 && v.a_window_strides[dim] > kMaxStride)
      v.a_window_strides[dim] = 0;
  isa::Instruction instruction;
  instruction.operands = v;
  step.compute.push_back(Block::of(1, operation(instruction)));
}

/// The same vectors, column by column instead of row by row.
static void goDown(isa::Vector &v) {
  for (auto *fields : {&v.a_strides, &v.b_strides, &v.d_strides, &v.counts})
    std::swap((*fields)[0], (*fields)[1]);
  std::swap(v.window[0], v.window[1]);
  std::swap(v.a_window_strides[0], v.a_window_strides[1]);
}

Range Emitter::channelsOf(const View &view, int64_t first, int64_t count) const {
  if (!view.isPadded())
    return {first, first + count};
  const int64_t begin = std::clamp(view.padLow, first, first + count);
  return {begin, std::clamp(kernel.extent[C] - view.padHigh, begin, first + count)};
}

void Emitter::vectorSteps(TileStep &step, const Extent &origin, const Extent &size, int64_t group, unsigned anchorSlot,
                          int64_t accOffset, int64_t accBlock, const OnArray &onArray) {
  int64_t lanes = machine.lanes, blocks = ceilDiv(size[C], lanes);
  const Extent made = kernel.made(size);
  int64_t groupChannels = group * channels();
  std::vector<unsigned> resultSlot(chains.size(), 0);
  std::vector<int> slotOf(buffers.all.size(), -1); ///< of this tile
  for (size_t i = 0; i < chains.size(); ++i) {
    const Chain &chain = chains[i];
    const Step *s = i < kernel.steps.size() ? &kernel.steps[i] : nullptr;
    isa::Vector v;
    const Extent own = kernel.made(size, i);
    v.counts = {own[P0], own[P1], own[P2], blocks};
    v.window = {1, 1};

    struct Operand {
      unsigned memory = 0;
      int64_t address = 0;
      std::array<int64_t, 4> strides{};
      int64_t vectorBytes = 0;
      Range blocks;                 ///< that are not padding, of a resident with padded channels
      std::optional<int64_t> zeros; ///< what stands for the others: the address of a vector
    };
    // A value in the accumulator, in a result buffer or in a loaded source buffer.
    auto operandOf = [&](int index, LaneType type) {
      Operand o;
      o.vectorBytes = lanes * byteSize(type);
      const Source *source = s ? &s->sources[size_t(index)] : nullptr;
      if (!source || (source->kind == Source::Value && source->value == -1)) {
        // The accumulator.
        o.memory = unsigned(isa::Memory::Accumulator);
        o.address = buffers.all[buffers.accumulator].address[anchorSlot] + accOffset;
        int64_t row = machine.accumulatorRowBytes();
        const Extent sums = heldSums(size);
        const int64_t all = passRows(sums);
        o.strides = {row, sums[P0] * row, all / sums[P2] * row, accBlock ? accBlock : all * row};
      } else if (source->kind == Source::Value) {
        const Buffer &b = buffers.all[buffers.results[size_t(source->value)]];
        bool reduced = kernel.steps[size_t(source->value)].reducesChannels;
        const Extent box = kernel.made(size, size_t(source->value));
        int64_t inner = (reduced ? 1 : blocks) * o.vectorBytes;
        o.address = b.address[resultSlot[size_t(source->value)]];
        o.strides = {inner, box[P0] * inner, box[P0] * box[P1] * inner, reduced ? 0 : o.vectorBytes};
      } else {
        const View &view = source->view;
        int64_t es = byteSize(type);
        if (const Resident *resident = residentOf(view.tensor)) {
          assert((view.stride[C] || kernel.extent[C] == 1) && "one channel for all is in one lane");
          const Range read = channelsOf(view, origin[C] + groupChannels, size[C]);
          int64_t element = view.offset + view.stride[C] * (view.isPadded() && read.isEmpty() ? 0 : read.begin - view.padLow);
          for (unsigned axis = P0; axis < kAxes; ++axis) {
            element += view.stride[axis] * origin[axis];
            o.strides[axis - 1] = resident->stride(view.stride[axis]);
          }
          o.strides[3] = view.stride[C] ? resident->blockBytes : 0;
          o.address = resident->at(element);
          if (!view.isPadded())
            return o;
          const Buffer &b = buffers.all[size_t(buffers.sources[i][size_t(index)])];
          bool miss;
          o.zeros = b.address[acquire(b, {0}, miss)];
          if (miss)
            fillSlot(step, b, 0, 0, es);
          const int64_t low = (read.begin - origin[C] - groupChannels) / lanes;
          o.blocks = {low, low + ceilDiv(read.size(), lanes)};
          // What the writer of the tensor left behind its channels.
          if (const int64_t rest = read.size() % lanes; rest && read.end < origin[C] + groupChannels + size[C])
            addLoad(step, b, 0, 0, 0, unsigned(es),
                    {{lanes - rest, es, es, 0, 0},
                     {size[P0], o.strides[0], o.strides[0], 0, 0},
                     {size[P1], o.strides[1], o.strides[1], 0, 0},
                     {size[P2], o.strides[2], o.strides[2], 0, 0},
                     {1, 0, 0, 0, 1}},
                    0, o.address + (o.blocks.size() - 1) * o.strides[3] + rest * es - b.address[0]);
          o.address -= low * o.strides[3];
          return o;
        }
        const Buffer &b = buffers.all[buffers.sources[i][size_t(index)]];
        llvm::SmallVector<int64_t, 4> key;
        for (unsigned axis = 0; axis < kAxes; ++axis)
          key.push_back(view.stride[axis] ? origin[axis] + (axis == C ? groupChannels : 0) : -1);
        bool miss;
        unsigned slot = acquire(b, key, miss);
        slotOf[size_t(buffers.sources[i][size_t(index)])] = int(slot);
        int64_t width = view.stride[C] ? blocks * lanes : lanes;
        int64_t onChip = width * es;
        o.address = b.address[slot];
        std::vector<BoxDim> dims;
        const Range channelsRead = channelsOf(view, origin[C] + groupChannels, size[C]);
        const int64_t low = channelsRead.begin - (origin[C] + groupChannels);
        dims.push_back({width, view.stride[C] * es, es, low, view.stride[C] ? width - low - channelsRead.size() : 0});
        o.strides[3] = view.stride[C] ? o.vectorBytes : 0;
        int64_t dram = view.offset + view.stride[C] * (channelsRead.size() ? channelsRead.begin - view.padLow : 0);
        for (unsigned axis = P0; axis < kAxes; ++axis) {
          dram += view.stride[axis] * origin[axis];
          if (!view.stride[axis])
            continue;
          dims.push_back({size[axis], view.stride[axis] * es, onChip, 0, 0});
          o.strides[axis - 1] = onChip;
          onChip *= size[axis];
        }
        if (miss) {
          bool constant = kernel.tensors[view.tensor].role == KernelTensor::Constant;
          uint64_t base = constant ? constantAddress[view.tensor] : addresses[view.tensor];
          const bool takesPlanes = this->onChip.planes > 1 && !kernel.anchor; // of an image, the engines by turns
          const unsigned unit = takesPlanes ? turn++ % 2 * weightUnit(tile) : 0;
          addLoad(step, b, slot, unit, base + uint64_t(dram * es), unsigned(es), dims, view.padPattern);
        }
      }
      return o;
    };
    auto spanOf = [&](const std::array<int64_t, 4> &strides, int64_t vectorBytes) {
      return spanOfVectors(v.counts, strides, vectorBytes);
    };

    struct Padded {
      Operand operand;
      bool isB;
    };
    std::vector<Padded> padded; ///< residents with padded channels among the operands

    bool fromWindow = window() && i == 0;
    bool reduces = s && s->reducesChannels;
    if (reduces)
      v.counts[3] = 1;
    if (fromWindow) {
      const Anchor &a = *kernel.anchor;
      int64_t es = elementBytes();
      InputPlace input = inputPlace(origin, size, 0, origin[C], size[C], anchorSlot);
      v.a_memory = 0;
      v.a_type = int64_t(a.inputType);
      v.a_address = input.address;
      v.a_strides = {a.axes[0].stride * input.stride[P0], a.axes[1].stride * input.stride[P1],
                     a.axes[2].stride * input.stride[P2], input.stride[C]};
      v.window = {a.axes[0].kernel, a.axes[1].kernel};
      v.a_window_strides = {a.axes[0].dilation * input.stride[P0], a.axes[1].dilation * input.stride[P1]};
      v.window_op = int64_t(a.windowOp);
      const WindowAxis &along = a.axes[goesDown() ? 1 : 0];
      if (a.axes[0].kernel <= 3 && a.axes[1].kernel <= 3 && along.dilation == 1 && along.stride <= 7)
        v.window_step = along.stride;
      v.a_zero_point = a.inputZero;
      v.a_span = spanOf(v.a_strides, lanes * es) + (v.window[0] - 1) * v.a_window_strides[0] +
                 (v.window[1] - 1) * v.a_window_strides[1];
      if (a.windowOp == isa::WindowOp::Mac) {
        int64_t ws = byteSize(a.weightType), taps = windowWeights(), row = v.window[0] * lanes * ws;
        const Buffer &b = buffers.all[buffers.weights];
        bool miss;
        unsigned slot = acquire(b, {origin[C]}, miss);
        if (miss)
          addLoad(step, b, slot, weightUnit(tile), weightsAddress + uint64_t(origin[C] / lanes * taps * lanes * ws),
                  unsigned(ws), {{blocks * taps * lanes, ws, ws, 0, 0}}, 0);
        v.b_enable = 1;
        v.b_memory = weightMemory();
        v.b_type = int64_t(a.weightType);
        v.b_address = b.address[slot];
        v.b_strides = {0, 0, 0, taps * lanes * ws};
        v.b_tap_stride = lanes * ws;
        v.b_zero_point = a.weightZero;
        v.b_span = (blocks - 1) * v.b_strides[3] + v.window[1] * row;
        if (readsRing())
          v.b_address += rowOfRing(step.band) * row;
      }
      addWindowParts(step, v);
    } else {
      int64_t es = byteSize(chain.aType);
      Operand a = operandOf(chain.a, chain.aType);
      v.a_memory = a.memory;
      v.a_type = int64_t(chain.aType);
      v.a_address = a.address;
      v.a_strides = a.strides;
      v.a_zero_point = chain.aZero;
      if (a.zeros)
        padded.push_back({a, false});
      if (reduces) {
        v.window = {blocks, 1};
        v.a_window_strides = {a.strides[3], 0};
        v.window_op = int64_t(s->reduceOp);
        v.lane_reduce = 1;
        v.tail_lanes = size[C] % lanes;
        v.a_strides[3] = 0;
        v.a_span = spanOf(v.a_strides, lanes * es) + (blocks - 1) * a.strides[3];
      } else if (s && s->sumsPositions) {
        v.window = {size[P0], size[P1]};
        v.a_window_strides = {a.strides[0], a.strides[1]};
        v.window_op = int64_t(s->reduceOp);
        v.a_span = spanOf(v.a_strides, lanes * es) + (size[P0] - 1) * a.strides[0] + (size[P1] - 1) * a.strides[1];
      } else if (kernel.maxima && i == 0) {
        const auto &[w, h] = *kernel.maxima;
        v.window = {w.kernel, h.kernel};
        v.a_window_strides = {v.a_strides[0], v.a_strides[1]};
        v.window_op = int64_t(isa::WindowOp::Max);
        if (const WindowAxis &along = goesDown() ? h : w; w.kernel <= 3 && h.kernel <= 3 && along.stride <= 7)
          v.window_step = along.stride;
        v.a_strides[0] *= w.stride;
        v.a_strides[1] *= h.stride;
        v.a_span =
            spanOf(v.a_strides, lanes * es) + (w.kernel - 1) * v.a_window_strides[0] + (h.kernel - 1) * v.a_window_strides[1];
      } else {
        v.a_span = spanOf(v.a_strides, lanes * es);
      }
    }
    if (chain.b >= 0) {
      assert(!v.b_enable && "the weights of a depthwise window are B; a second tensor takes a step of its own");
      Operand b = operandOf(chain.b, chain.bType);
      v.b_enable = 1;
      v.b_memory = b.memory;
      v.b_type = int64_t(chain.bType);
      v.b_address = b.address;
      v.b_strides = b.strides;
      v.b_zero_point = chain.bZero;
      v.b_convert = int64_t(chain.bConversion);
      v.b_scale = chain.bScale;
      v.b_span = spanOf(v.b_strides, lanes * byteSize(chain.bType));
      if (b.zeros)
        padded.push_back({b, true});
    }
    if (!chain.parameters.empty()) {
      const Buffer &b = buffers.all[buffers.parameters[i]];
      const int64_t perBlock = int64_t(chain.parameters.size()) * lanes * 4;
      // Those of all channels of the tile, also where its results leave a few at a time.
      const Range whole = channelTiles[channelTileOf(origin[C])];
      const int64_t first = tile.drain ? whole.begin : origin[C];
      const int64_t bytes = tile.drain ? ceilDiv(whole.size(), lanes) * perBlock : blocks * perBlock;
      bool miss;
      unsigned slot = acquire(b, {group, first}, miss);
      if (miss) {
        int64_t perGroup = 0; // every channel tile starts a new block
        for (const Range &n : channelTiles)
          perGroup += ceilDiv(n.size(), lanes) * perBlock;
        addLoad(step, b, slot, weightUnit(tile), parametersAddress[i] + uint64_t(group * perGroup + first / lanes * perBlock),
                4, {{bytes / 4, 4, 4, 0, 0}}, 0);
      }
      v.p_memory = weightMemory();
      v.p_address = b.address[slot] + (origin[C] - first) / lanes * perBlock;
      v.p_span = blocks * perBlock;
      v.p_count = int64_t(chain.parameters.size());
    }
    int64_t ds = byteSize(chain.dType);
    v.d_memory = 0;
    v.d_type = int64_t(chain.dType);
    if (buffers.results[i] >= 0) {
      const Buffer &d = buffers.all[size_t(buffers.results[i])];
      int &slot = slotOf[size_t(buffers.results[i])];
      bool miss;
      if (slot < 0)
        slot = int(acquire(d, {int64_t(clock)}, miss));
      else // what was there is gone
        heldIn(d)[size_t(slot)].key = {int64_t(clock)};
      resultSlot[i] = unsigned(slot);
      int64_t inner = (reduces ? 1 : blocks) * lanes * ds;
      v.d_address = d.address[resultSlot[i]];
      v.d_strides = {inner, own[P0] * inner, own[P0] * own[P1] * inner, reduces ? 0 : lanes * ds};
    } else {
      const Resident &resident = *residentOf(kernel.output.tensor);
      int64_t element = kernel.output.offset + origin[C] + groupChannels;
      for (unsigned axis = P0; axis < kAxes; ++axis) {
        element += kernel.output.stride[axis] * origin[axis];
        v.d_strides[axis - P0] = resident.stride(kernel.output.stride[axis]);
      }
      v.d_strides[3] = resident.blockBytes;
      v.d_address = resident.at(element);
    }
    v.d_span = spanOf(v.d_strides, lanes * ds);
    setStages(v, chain);
    if (fromWindow && packsRows())
      goDown(v);
    assert(!(bandedOutput() && packsRows()) && "bands hold pixels apart");
    auto add = [&](const isa::Vector &part, const Extent &partOrigin, const Extent &partSize) {
      if (bandedOutput() && i + 1 == chains.size())
        writeBands(step, part, partOrigin, partSize);
      else
        addVector(step, part);
    };
    if (kernel.maxima && i == 0) {
      const HeldSums sums{v.a_address, accBlock, heldSums(size)};
      const size_t first = step.compute.size();
      if (tile.maxLineBuffer)
        addCarried(step, v, origin, size, sums, add);
      else
        forEachWindowSize(v, origin, size, add);
      if (!hasSumLineBuffer(tile))
        guardSums(step, first, sums, blocks);
      continue;
    }
    if (fromWindow && onArray.blocks) {
      const int64_t apart = blocks - onArray.blocks;
      if (apart)
        add(blocksOf(v, 0, apart, lanes), origin, size);
      v = blocksOf(v, apart, onArray.blocks, lanes);
      const Buffer &sums = buffers.all[size_t(buffers.accumulator)];
      const int64_t row = machine.accumulatorRowBytes();
      v.a_memory = unsigned(isa::Memory::Accumulator);
      v.a_type = int64_t(chain.aType);
      v.a_address = sums.address[onArray.slot];
      v.a_strides = {row, size[P0] * row, size[P0] * size[P1] * row, passRows(size) * row};
      v.a_span = spanOf(v.a_strides, lanes * byteSize(chain.aType));
      v.a_zero_point = 0;
      v.window = {1, 1};
      v.a_window_strides = {};
      v.window_op = v.window_step = 0;
      v.b_enable = v.b_memory = v.b_type = v.b_address = v.b_tap_stride = v.b_zero_point = v.b_span = 0;
      v.b_strides = {};
    }
    if (const Resident *resident = buffers.results[i] < 0 ? residentOf(kernel.output.tensor) : nullptr; i == 0 && pairsRows())
      addPairs(step, v, size,
               resident ? resident->hasVectorReaders && origin[P0] + size[P0] == kernel.extent[P0] : i + 1 < chains.size());
    else if (padded.empty())
      add(v, origin, size);
    // Blocks of channels that are padding of the same operands.
    for (int64_t begin = 0, end; !padded.empty() && begin < blocks; begin = end) {
      end = blocks;
      for (const Padded &p : padded)
        for (int64_t cut : {p.operand.blocks.begin, p.operand.blocks.end})
          if (cut > begin)
            end = std::min(end, cut);
      isa::Vector part = blocksOf(v, begin, end - begin, lanes);
      for (const auto &[operand, isB] : padded) {
        if (begin >= operand.blocks.begin && begin < operand.blocks.end)
          continue;
        (isB ? part.b_address : part.a_address) = *operand.zeros;
        (isB ? part.b_strides : part.a_strides) = {};
        (isB ? part.b_span : part.a_span) = operand.vectorBytes;
      }
      add(part, origin, size);
    }
  }
  if (onChip.storesResult)
    storeResult(step, origin, made, group, resultSlot.back());
}

/// Instructions for the parts of a window, and in its place the one that puts together what they give.
void Emitter::addWindowParts(TileStep &step, isa::Vector &whole) const {
  const auto parts = windowParts(tile);
  if (parts.empty())
    return;
  const LaneType type = partType(*kernel.anchor);
  const int64_t vector = machine.lanes * byteSize(type), block = int64_t(parts.size()) * vector;
  const bool isMaximum = whole.window_op == int64_t(isa::WindowOp::Max);
  std::array<int64_t, 4> strides{0, 0, 0, block};
  strides[0] = whole.counts[3] * block;
  strides[1] = whole.counts[0] * strides[0];
  strides[2] = whole.counts[1] * strides[1];
  const int64_t to = buffers.all[size_t(buffers.parts)].address[0], aBytes = machine.lanes * elementBytes();
  int64_t taps = 0;
  for (auto [i, part] : llvm::enumerate(parts)) {
    isa::Vector v = whole;
    v.window = {part.width, part.height};
    const WindowAxis &along = kernel.anchor->axes[goesDown() ? 1 : 0];
    if (along.dilation == 1 && along.stride <= 7)
      v.window_step = along.stride;
    v.a_address += part.x * v.a_window_strides[0] + part.y * v.a_window_strides[1];
    v.a_span = spanOfVectors(v.counts, v.a_strides, aBytes) + (part.width - 1) * v.a_window_strides[0] +
               (part.height - 1) * v.a_window_strides[1];
    if (v.b_enable) {
      v.b_address += taps * v.b_tap_stride;
      v.b_span = (v.counts[3] - 1) * v.b_strides[3] + part.width * part.height * v.b_tap_stride;
    }
    taps += part.width * part.height;
    v.d_memory = 0;
    v.d_type = int64_t(type);
    v.d_address = to + int64_t(i) * vector;
    v.d_strides = strides;
    v.d_span = spanOfVectors(v.counts, strides, vector);
    if (isMaximum) // what is subtracted is so once
      v.a_zero_point = 0;
    addVector(step, v);
  }
  isa::Vector v;
  v.counts = whole.counts;
  v.a_type = int64_t(type);
  v.a_zero_point = isMaximum ? whole.a_zero_point : 0;
  v.a_address = to;
  v.a_strides = strides;
  v.a_span = spanOfVectors(v.counts, strides, block);
  v.window = {int64_t(parts.size()), 1};
  v.a_window_strides = {vector, 0};
  v.window_op = int64_t(isMaximum ? isa::WindowOp::Max : isa::WindowOp::Sum);
  whole = v;
}

/// Sums that no window sees, as those in the padding, are done with only when the others are: the passes that made them may not have
/// ended before others write there.
void Emitter::guardSums(TileStep &step, size_t first, const HeldSums &sums, int64_t blocks) const {
  const schedule::Region all{unsigned(isa::Memory::Accumulator), uint64_t(sums.address),
                             uint64_t(sums.address + blocks * sums.blockBytes)};
  for (size_t part = first; part < step.compute.size(); ++part)
    step.compute[part].operations.front().regions.push_back(all);
}

Emitter::LinePlace Emitter::placeInLine(const Extent &origin, const Extent &size) {
  const Range channels = channelTiles[channelTileOf(origin[C])];
  const Buffer &line = buffers.all[size_t(buffers.line)];
  const int64_t vector = machine.accumulatorRowBytes(), pixel = ceilDiv(channels.size(), machine.lanes) * vector;
  bool miss;
  const unsigned slot = acquire(line, {channels.begin, origin[P0], origin[P2]}, miss);
  return {line.address[slot] + (origin[C] - channels.begin) / machine.lanes * vector, {pixel, 0, size[P0] * pixel, vector}};
}

void Emitter::carryMaxima(TileStep &step, const Extent &origin, const Extent &size, const HeldSums &sums, int64_t row) {
  const int64_t vector = machine.accumulatorRowBytes(), sumRow = sums.size[P0] * vector, rows = carried;
  const WindowAxis &w = kernel.window(P0);
  const LinePlace line = placeInLine(origin, size);
  Extent windows = size;
  windows[P1] = 1;
  isa::Vector v;
  v.counts = {size[P0], 1, size[P2], ceilDiv(size[C], machine.lanes)};
  v.window = {w.kernel, rows};
  v.window_op = int64_t(isa::WindowOp::Max);
  v.window_step = !goesDown() && w.kernel <= 3 && rows <= 3 && w.stride <= 7 ? w.stride : 0;
  v.a_memory = unsigned(isa::Memory::Accumulator);
  v.a_type = v.d_type = int64_t(chains[0].aType);
  v.a_address = sums.address + row * sumRow;
  v.a_strides = {w.stride * vector, 0, sums.size[P1] * sumRow, sums.blockBytes};
  v.a_window_strides = {vector, sumRow};
  v.d_address = line.address;
  v.d_strides = line.strides;
  const size_t first = step.compute.size();
  forEachWindowSize(
      v, origin, windows, [&](const isa::Vector &part, const Extent &, const Extent &) { addVector(step, part); }, true);
  guardSums(step, first, sums, v.counts[3]);
}

/// The first row of windows has maxima of what it shares with the tile above, or padding there; the others see whole windows.
void Emitter::addCarried(TileStep &step, const isa::Vector &whole, const Extent &origin, const Extent &size,
                         const HeldSums &sums, AddVector add) {
  const WindowAxis &h = kernel.window(P1);
  const int64_t shared = carried;
  auto addRows = [&](isa::Vector v, int64_t first, int64_t count) {
    Extent at = origin, windows = size;
    at[P1] += first;
    windows[P1] = v.counts[1] = count;
    if (count)
      forEachWindowSize(v, at, windows, add, true);
  };
  isa::Vector v = whole;
  v.window[1] = h.stride;
  if (origin[P1] || !h.padLow) {
    const LinePlace line = placeInLine(origin, size);
    v.b_enable = 1;
    v.b_memory = 0;
    v.b_type = whole.a_type;
    v.b_zero_point = whole.a_zero_point;
    v.b_address = line.address;
    v.b_strides = line.strides;
    for (int64_t k = v.num_stages++; k > 0; --k) {
      v.stage_op[k] = v.stage_op[k - 1];
      v.stage_operand[k] = v.stage_operand[k - 1];
    }
    v.stage_op[0] = int64_t(chains[0].aType == LaneType::F32 ? isa::StageOp::Fmax : isa::StageOp::Imax);
    v.stage_operand[0] = int64_t(isa::StageOperand::B);
  }
  addRows(v, 0, 1);
  v = whole;
  v.a_address += (h.stride - shared) * whole.a_window_strides[1];
  v.d_address += whole.d_strides[1];
  addRows(v, 1, size[P1] - 1);
  if (origin[P1] + size[P1] < kernel.extent[P1])
    carryMaxima(step, origin, size, sums, size[P1] * h.stride - shared);
}

/// Windows at the border take the maxima of fewer sums: an instruction for each number of them along a row and along a column.
void Emitter::forEachWindowSize(const isa::Vector &whole, const Extent &origin, const Extent &size, AddVector add,
                                bool hasRows) const {
  struct Run {
    int64_t begin, count, tap, taps; ///< windows, and the sums that each of them takes
  };
  auto runsOf = [&](unsigned axis) {
    const WindowAxis &w = kernel.window(axis);
    llvm::SmallVector<Run, 3> runs;
    if (hasRows && axis == P1)
      return llvm::SmallVector<Run, 3>{{0, whole.counts[1], 0, whole.window[1]}};
    for (int64_t i = 0; i < size[axis]; ++i) {
      const int64_t first = (origin[axis] + i) * w.stride - w.padLow;
      const int64_t tap = std::max<int64_t>(-first, 0), taps = std::min(w.kernel, w.inputSize - first) - tap;
      if (!runs.empty() && runs.back().tap == tap && runs.back().taps == taps)
        ++runs.back().count;
      else
        runs.push_back({i, 1, tap, taps});
    }
    return runs;
  };
  auto bytesOf = [&](int64_t type) { return machine.lanes * byteSize(LaneType(type)); };
  for (const Run &y : runsOf(P1))
    for (const Run &x : runsOf(P0)) {
      isa::Vector v = whole;
      Extent partOrigin = origin, partSize = size;
      for (unsigned i = 0; i < 2; ++i) {
        const Run &run = i ? y : x;
        partOrigin[P0 + i] += run.begin;
        partSize[P0 + i] = v.counts[i] = run.count;
        v.window[i] = run.taps;
        v.a_address += run.begin * v.a_strides[i] + run.tap * v.a_window_strides[i];
        v.b_address += v.b_enable ? run.begin * v.b_strides[i] : 0;
        v.d_address += run.begin * v.d_strides[i];
      }
      v.a_span = spanOfVectors(v.counts, v.a_strides, bytesOf(v.a_type)) + (v.window[0] - 1) * v.a_window_strides[0] +
                 (v.window[1] - 1) * v.a_window_strides[1];
      v.b_span = v.b_enable ? spanOfVectors(v.counts, v.b_strides, bytesOf(v.b_type)) : v.b_span;
      v.d_span = spanOfVectors(v.counts, v.d_strides, bytesOf(v.d_type));
      add(v, partOrigin, partSize);
    }
}

/// The last instruction of a tile, once for every run of bands that some of its rows belong to, and for every piece of a ring. No two bands
/// share rows of matrices.
void Emitter::writeBands(TileStep &step, const isa::Vector &whole, const Extent &origin, const Extent &size) {
  if (kernel.makesMatrixRows())
    return addVector(step, whole);
  const BandedTensor &output = *bandedOutput();
  for (size_t run = output.runOf(step.band); run < output.runs(); ++run) {
    const Range rows = output.rowsOfRun(run);
    const Range made{std::max(origin[P1], rows.begin), std::min(origin[P1] + size[P1], rows.end)};
    if (made.isEmpty())
      continue;
    for (const auto &[piece, moved] : output.pieces(made)) {
      isa::Vector v = whole;
      const int64_t first = piece.begin - origin[P1], dropped = whole.counts[1] - piece.size();
      v.counts[1] = piece.size();
      v.a_address += first * v.a_strides[1];
      v.a_span -= dropped * std::max<int64_t>(v.a_strides[1], 0);
      if (v.b_enable) {
        v.b_address += first * v.b_strides[1];
        v.b_span -= dropped * std::max<int64_t>(v.b_strides[1], 0);
      }
      // Computed for the run at hand.
      v.d_address += output.inRun(run).address + moved - bandOut.address + first * v.d_strides[1];
      v.d_span -= dropped * v.d_strides[1];
      int64_t apart = 0;
      if (output.arrayFrom)
        apart = output.arrayFrom - (v.d_address - output.slots[run % output.slots.size()]) / output.layout.blockBytes;
      addVector(step, v, std::clamp<int64_t>(apart, 0, v.counts[3]));
    }
  }
}

/// The first instruction of a tile with pairs of outputs: once for the upper ones, and once for the lower ones, whose channels are half of
/// the lanes behind. In front of these lies room that fills a vector of lanes, that of the pixel before. `fillsRows`: the vector engine
/// reads the room behind the last pixel of the lower rows as well, so something is written there.
void Emitter::addPairs(TileStep &step, const isa::Vector &whole, const Extent &size, bool fillsRows) const {
  const int64_t lanes = machine.lanes, plane = passRows(size) * machine.accumulatorRowBytes();
  auto add = [&](int64_t lower, bool onlyLast) {
    isa::Vector v = whole;
    const int64_t first = onlyLast ? size[P0] - 1 : 0;
    v.counts[0] -= first;
    v.counts[1] = (whole.counts[1] + 1 - lower) / 2;
    if (v.counts[1] == 0)
      return;
    v.window = {2, 1};
    v.a_window_strides = {plane, 0};
    v.window_op = int64_t(isa::WindowOp::Sum);
    v.a_address += lower * plane + first * v.a_strides[0];
    v.a_span = spanOfVectors(v.counts, v.a_strides, lanes * byteSize(LaneType(v.a_type))) + plane;
    auto everySecond = [&](auto &address, auto &strides, auto &span, int64_t type) {
      const int64_t bytes = lanes * byteSize(LaneType(type));
      address += first * strides[0] + lower * (strides[1] - (onlyLast ? 0 : bytes / 2));
      strides[1] *= 2;
      span = spanOfVectors(v.counts, strides, bytes);
    };
    everySecond(v.d_address, v.d_strides, v.d_span, v.d_type);
    if (v.b_enable)
      everySecond(v.b_address, v.b_strides, v.b_span, v.b_type);
    addVector(step, v);
  };
  add(0, false);
  if (fillsRows)
    add(1, true);
  add(1, false);
}

/// Where kernels take turns the array has to wait as soon as its sums fill the accumulator: a window is cut into so many channels that its
/// neighbours' results can leave in between.
void Emitter::addVector(TileStep &step, isa::Vector whole, int64_t apart) const {
  if (whole.window_step && goesDown() && !packsRows()) // bands are cut across the rows first
    goDown(whole);
  const int64_t blocks = whole.counts[3], most = int64_t(machine.accumulatorRows()) / 2;
  const bool isCut = onChip.banding && window(),
             byBlock = tile.drainByBlock && whole.a_memory == unsigned(isa::Memory::Accumulator);
  const int64_t parts = isCut ? ceilDiv(int64_t(timing::timeOf(whole, machine).occupancy), most) : byBlock ? blocks : 1;
  const int64_t part = ceilDiv(blocks, parts);
  for (int64_t first = 0, count; first < blocks; first += count) {
    count = std::min(part, (first < apart ? apart : blocks) - first);
    addParts(step, blocksOf(whole, first, count, machine.lanes));
  }
}
