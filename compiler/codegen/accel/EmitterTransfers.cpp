//===- EmitterTransfers.cpp - Loads and stores of one kernel --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include <algorithm>
#include <functional>

using namespace tw;
using namespace tw::accel;
using schedule::Block;
using schedule::Operation;

namespace {
constexpr int64_t kMaxCount = isa::maximumOf(isa::Opcode::Load, "counts");
constexpr int64_t kMaxStride = isa::maximumOf(isa::Opcode::Load, "strides");
constexpr int64_t kMaxDramStride = isa::maximumOf(isa::Opcode::Load, "dram_strides");
/// Indices of a dimension that are taken together where there are more than a field holds.
constexpr int64_t kChunk = (kMaxCount + 1) / 2;

int64_t log2Size(unsigned bytes) { return bytes == 4 ? 2 : bytes == 2 ? 1 : 0; }

/// The first index that a load reads of a dimension that begins at `first`. Where it fills all of it, any that there is: the address of a
/// load that reads nothing must be one, too.
int64_t firstRead(const BoxDim &dim, int64_t first) { return dim.low + dim.high < dim.count ? first + dim.low : 0; }

/// The fields that loads and stores share. Strides of extents of 1 are 0, as nothing uses them.
template <typename Box>
Box makeBox(const std::vector<BoxDim> &dims, uint64_t dram, unsigned memory, int64_t onChip, unsigned elementSize) {
  Box box;
  box.dram_address = int64_t(dram);
  box.memory = memory;
  box.address = onChip;
  box.element_log2 = log2Size(elementSize);
  box.span = elementSize;
  for (int i = 0; i < 5; ++i) {
    box.counts[i] = dims[i].count;
    if (i && dims[i].count > 1) {
      box.dram_strides[i - 1] = dims[i].dram;
      box.strides[i - 1] = dims[i].onChip;
    }
    box.span += (dims[i].count - 1) * (i ? dims[i].onChip : elementSize);
  }
  return box;
}
} // namespace

void accel::forEachBox(std::vector<BoxDim> dims, unsigned elementSize, uint64_t dram, int64_t onChip,
                       const std::function<void(const std::vector<BoxDim> &, uint64_t, int64_t, bool broadcast)> &emit) {
  auto trivial = [](const BoxDim &d) { return d.count == 1 && !d.low && !d.high; };
  dims.erase(std::remove_if(dims.begin(), dims.end(), trivial), dims.end());
  std::stable_sort(dims.begin(), dims.end(),
                   [](const BoxDim &a, const BoxDim &b) { return std::abs(a.dram) < std::abs(b.dram); });
  // What fields do not hold becomes several boxes, or two dimensions.
  for (size_t i = 0; i < dims.size(); ++i) {
    const BoxDim d = dims[i];
    if (d.count <= kMaxCount && d.low <= kMaxFill && d.high <= kMaxFill)
      continue;
    auto part = [&](int64_t begin, int64_t end, bool filled) {
      if (begin == end)
        return;
      std::vector<BoxDim> some = dims;
      some[i] = {end - begin, d.dram, d.onChip, 0, 0};
      if (filled) { // all of it: no place in DRAM counts
        for (BoxDim &dim : some)
          dim = {dim.count, dim.onChip, dim.onChip, 0, 0};
        some.push_back({1, 0, 0, 0, 1});
      }
      forEachBox(std::move(some), elementSize, dram + uint64_t(filled ? 0 : (begin - d.low) * d.dram),
                 onChip + begin * d.onChip, emit);
    };
    if (d.low || d.high) {
      part(0, d.low, true);
      part(d.low, d.count - d.high, false);
      part(d.count - d.high, d.count, true);
      return;
    }
    if (const int64_t whole = d.count / kChunk * kChunk; whole < d.count) {
      part(0, whole, false);
      part(whole, d.count, false);
      return;
    }
    dims[i].count = kChunk;
    dims.insert(dims.begin() + long(i) + 1, {d.count / kChunk, d.dram * kChunk, d.onChip * kChunk, 0, 0});
  }
  // The innermost dimension must be dense on both sides, or repeat one element.
  bool broadcast = false, found = false;
  for (size_t i = 0; i < dims.size() && !found; ++i)
    if (dims[i].onChip == elementSize && (dims[i].dram == elementSize || dims[i].dram == 0)) {
      broadcast = dims[i].dram == 0;
      std::rotate(dims.begin(), dims.begin() + long(i), dims.begin() + long(i) + 1);
      found = true;
    }
  if (!found)
    dims.insert(dims.begin(), BoxDim{1, int64_t(elementSize), int64_t(elementSize), 0, 0});
  // Merge what is contiguous on both sides.
  for (size_t i = 0; i + 1 < dims.size();) {
    BoxDim &a = dims[i], &b = dims[i + 1];
    bool plain = !a.low && !a.high && !b.low && !b.high && !(i == 0 && broadcast);
    bool fits = a.count * b.count <= kChunk;
    if (plain && fits && b.dram == a.count * a.dram && b.onChip == a.count * a.onChip) {
      a.count *= b.count;
      dims.erase(dims.begin() + long(i) + 1);
    } else {
      ++i;
    }
  }
  // What is too far apart, or one dimension too many, becomes a box for each index.
  auto apart = llvm::find_if(dims, [](const BoxDim &d) {
    return d.count > 1 && (std::abs(d.dram) > kMaxDramStride || std::abs(d.onChip) > kMaxStride);
  });
  if (dims.size() <= 5 && apart == dims.end()) {
    dims.resize(5);
    emit(dims, dram, onChip, broadcast);
    return;
  }
  if (apart == dims.end())
    --apart;
  const BoxDim outer = *apart;
  dims.erase(apart);
  for (int64_t i = 0; i < outer.count; ++i) {
    bool filled = i < outer.low || i >= outer.count - outer.high;
    std::vector<BoxDim> inner = dims;
    if (filled) {
      inner.back().low = inner.back().count;
      inner.back().high = 0;
    }
    forEachBox(inner, elementSize, dram + uint64_t(filled ? 0 : (i - outer.low) * outer.dram), onChip + i * outer.onChip, emit);
  }
}

void Emitter::addBox(TileStep &step, const Buffer &b, unsigned unit, uint64_t dram, int64_t onChip, unsigned elementSize,
                     const std::vector<BoxDim> &box, uint32_t fill, bool broadcast) {
  auto load = makeBox<isa::Load>(box, dram, b.memory, onChip, elementSize);
  load.fill = elementSize == 4 ? fill : fill & ((1u << (8 * elementSize)) - 1);
  load.broadcast = broadcast;
  for (int i = 0; i < 5; ++i) {
    load.low[i] = box[i].low;
    load.high[i] = box[i].high;
  }
  isa::Instruction instruction(load);
  instruction.header.unit = unit;
  (b.slots > 1 ? step.early : step.late).push_back(operation(instruction));
}

void Emitter::addLoad(TileStep &step, const Buffer &b, unsigned slot, unsigned unit, uint64_t dram, unsigned elementSize,
                      std::vector<BoxDim> dims, uint32_t fill, int64_t offset) {
  forEachBox(std::move(dims), elementSize, dram, b.address[slot] + offset,
             [&](const std::vector<BoxDim> &box, uint64_t address, int64_t onChip, bool broadcast) {
               addBox(step, b, unit, address, onChip, elementSize, box, fill, broadcast);
             });
}

void Emitter::addArgumentLoad(TileStep &step, const Buffer &b, unsigned slot, unsigned unit, int tensor, int64_t element,
                              std::vector<BoxDim> dims, uint32_t fill) {
  const KernelTensor &argument = kernel.tensors[size_t(tensor)];
  const int64_t es = byteSize(argument.type);
  const std::vector<Concatenation::Part> &parts = argument.concatenation.parts;
  const int64_t size = argument.concatenation.size, inner = argument.concatenation.inner;
  if (parts.empty())
    return addLoad(step, b, slot, unit, addresses[size_t(tensor)] + uint64_t(element * es), unsigned(es), std::move(dims),
                   fill);
  const int64_t outer = element / (size * inner), first = element / inner % size, within = element % inner;
  // The dimension along which parts follow one another; without one all of the box lies in one part.
  auto isAlong = [&](const BoxDim &dim) {
    return dim.count - dim.low - dim.high > 1 && dim.dram % (inner * es) == 0 && dim.dram % (size * inner * es) != 0;
  };
  const size_t along = size_t(llvm::find_if(dims, isAlong) - dims.begin());
  if (along == dims.size())
    dims.push_back({1, 0, 0, 0, 0});
  const BoxDim whole = dims[along];
  const int64_t stride = std::max<int64_t>(whole.dram / (inner * es), 1), count = whole.count - whole.low - whole.high;
  int64_t done = 0;
  for (const Concatenation::Part &part : parts) {
    const int64_t end = std::clamp<int64_t>(ceilDiv(part.end - first, stride), done, count), length = part.end - part.begin;
    if (end == done)
      continue;
    std::vector<BoxDim> some = dims;
    BoxDim &dim = some[along];
    dim.low = done == 0 ? whole.low : 0;
    dim.high = end == count ? whole.high : 0;
    dim.count = dim.low + end - done + dim.high;
    for (BoxDim &other : some)
      if (other.dram % (size * inner * es) == 0)
        other.dram = other.dram / size * length;
    const int64_t from = (outer * length + first + done * stride - part.begin) * inner + within;
    const int64_t skipped = done == 0 ? 0 : whole.low + done;
    addLoad(step, b, slot, unit, addresses[size_t(part.tensor)] + uint64_t(from * es), unsigned(es), std::move(some), fill,
            skipped * whole.onChip);
    done = end;
  }
}

void Emitter::addStore(TileStep &step, int64_t from, uint64_t dram, unsigned elementSize, std::vector<BoxDim> dims) {
  forEachBox(std::move(dims), elementSize, dram, from,
             [&](const std::vector<BoxDim> &box, uint64_t address, int64_t onChip, bool) {
               auto store = makeBox<isa::Store>(box, address, 0, onChip, elementSize);
               step.compute.push_back(Block::of(1, operation(isa::Instruction(store))));
             });
}

/// Fills what lies from `begin` on in a slot. What the last vector of packed taps reaches meets weights of zero, but it must be there.
void Emitter::fillSlot(TileStep &step, const Buffer &b, unsigned slot, int64_t begin, int64_t elementSize) {
  addLoad(step, b, slot, 0, 0, unsigned(elementSize),
          {{(b.bytes - begin) / elementSize, elementSize, elementSize, 0, 0}, {1, 0, 0, 0, 1}}, 0, begin);
}

/// loadInput() for packed taps. Where padding begins and ends differs from column to column: columns with the same padding are one
/// box.
void Emitter::loadPacked(TileStep &step, const Extent &origin, const Extent &size, const Buffer &b, unsigned slot, bool isFirst,
                         unsigned unit, int64_t skipped) {
  const Anchor &a = *unpacked;
  const int64_t es = loadedBytes();
  Extent stride = packedStrides(size, es);
  stride[P0] -= skipped * packedStride[2] * es;
  stride[P2] = size[P0] * stride[P0];
  if (int64_t end = size[P2] * stride[P2]; end < b.bytes && isFirst)
    fillSlot(step, b, slot, end, es);
  const uint64_t base = inputAddress();
  const WindowAxis &w = a.axes[0], &h = a.axes[1];
  auto paddingOf = [&](int64_t column) {
    int64_t first = column * w.stride - w.padLow, low = 0, high = 0;
    while (low < w.kernel && first + low * w.dilation < 0)
      ++low;
    while (high < w.kernel - low && first + (w.kernel - 1 - high) * w.dilation >= w.inputSize)
      ++high;
    return std::pair(low, high);
  };
  const int64_t firstRow = origin[P1] * h.stride - h.padLow + skipped, rows = h.span(size[P1]) - skipped;
  BoxDim rowDim{rows, a.input.stride[P1] * es, packedStride[2] * es, std::clamp<int64_t>(-firstRow, 0, rows), 0};
  rowDim.high = std::clamp<int64_t>(firstRow + rows - h.inputSize, 0, rows - rowDim.low);
  const int64_t end = origin[P0] + size[P0];
  for (int64_t begin = origin[P0], next; begin < end; begin = next) {
    const auto padding = paddingOf(begin);
    for (next = begin + 1; next < end && paddingOf(next) == padding; ++next)
      ;
    for (const Range &taps : tapRuns) {
      const int64_t low = std::clamp<int64_t>(padding.first - taps.begin, 0, taps.size());
      const int64_t high = std::clamp<int64_t>(padding.second - (w.kernel - taps.end), 0, taps.size() - low);
      const BoxDim tapDim{taps.size(), w.dilation * a.input.stride[P0] * es, packedStride[1] * es, low, high};
      int64_t address = a.input.offset + origin[P2] * a.axes[2].stride * a.input.stride[P2];
      address += firstRead(rowDim, firstRow) * a.input.stride[P1];
      if (low + high < taps.size())
        address += (begin * w.stride - w.padLow + (taps.begin + low) * w.dilation) * a.input.stride[P0];
      std::vector<BoxDim> dims = {{a.ic, (a.input.stride[C] ? a.input.stride[C] : 1) * es, packedStride[0] * es, 0, 0},
                                  tapDim,
                                  {next - begin, w.stride * a.input.stride[P0] * es, stride[P0], 0, 0},
                                  rowDim,
                                  {size[P2], a.axes[2].stride * a.input.stride[P2] * es, stride[P2], 0, 0}};
      forEachBox(std::move(dims), unsigned(es), base + uint64_t(address * es),
                 b.address[slot] + (begin - origin[P0]) * stride[P0] + taps.begin * packedStride[1] * es,
                 [&](const std::vector<BoxDim> &box, uint64_t from, int64_t to, bool broadcast) {
                   addBox(step, b, unit, from, to, unsigned(es), box, a.padPattern, broadcast);
                 });
    }
  }
}

const Emitter::PackedTile *Emitter::tileAbove(const Extent &origin, const Extent &size) const {
  auto above = llvm::find_if(packedTiles, [&](const PackedTile &t) {
    return t.origin[P0] == origin[P0] && t.size[P0] == size[P0] && t.origin[P1] + t.size[P1] == origin[P1] &&
           t.origin[P2] == origin[P2];
  });
  return above == packedTiles.end() ? nullptr : above;
}

int64_t Emitter::packingVectors(const Extent &sums, int64_t rows) const {
  return ceilDiv(packedStride[2], int64_t(machine.lanes)) * rows * sums[P0] * sums[P2];
}

/// Rows of the input, the channels of a pixel side by side, without the first `skipped`.
void Emitter::loadPlain(TileStep &step, const Extent &origin, const Extent &size, const Buffer &b, unsigned slot, bool isFirst,
                        unsigned unit, int64_t skipped) {
  const Anchor &a = *unpacked;
  const WindowAxis &w = a.axes[0], &h = a.axes[1];
  const int64_t es = loadedBytes(), pixel = a.ic * es;
  const int64_t firstColumn = origin[P0] * w.stride - w.padLow, columns = w.span(size[P0]);
  const int64_t firstRow = origin[P1] * h.stride - h.padLow + skipped, rows = h.span(size[P1]) - skipped;
  if (isFirst)
    fillSlot(step, b, slot, 0, es);
  auto within = [&](int64_t count, int64_t dram, int64_t onChip, int64_t first, int64_t all) {
    BoxDim dim{count, dram, onChip, std::clamp<int64_t>(-first, 0, count), 0};
    dim.high = std::clamp<int64_t>(first + count - all, 0, count - dim.low);
    return dim;
  };
  const BoxDim rowDim = within(rows, a.input.stride[P1] * es, columns * pixel, firstRow, h.inputSize);
  const BoxDim columnDim = within(columns, a.input.stride[P0] * es, pixel, firstColumn, w.inputSize);
  const int64_t address = a.input.offset + origin[P2] * a.axes[2].stride * a.input.stride[P2] +
                          firstRead(rowDim, firstRow) * a.input.stride[P1] +
                          firstRead(columnDim, firstColumn) * a.input.stride[P0];
  std::vector<BoxDim> dims;
  if (a.input.stride[C] == 1 && a.input.stride[P0] == a.ic) // a row is one run
    dims = {{columns * a.ic, es, es, columnDim.low * a.ic, columnDim.high * a.ic}};
  else
    dims = {columnDim, {a.ic, a.input.stride[C] * es, es, 0, 0}};
  dims.push_back(rowDim);
  dims.push_back({size[P2], a.axes[2].stride * a.input.stride[P2] * es, rows * columns * pixel, 0, 0});
  const uint64_t base = inputAddress();
  addLoad(step, b, slot, unit, base + uint64_t(address * es), unsigned(es), std::move(dims), a.padPattern);
}

/// A tile of packed taps, loaded in parts and converted. What a part's last vector writes behind its columns, the next one overwrites; so
/// do the rows behind those that are copied.
void Emitter::loadConverted(TileStep &step, const Extent &origin, const Extent &size, unsigned slot, bool isFirst) {
  struct Part {
    Extent size;
    int64_t begin, raw;
  };
  llvm::SmallVector<Part, 2> parts;
  const Buffer &input = buffers.all[size_t(buffers.input)];
  const int64_t to = input.address[slot], rowBytes = packedStride[2] * elementBytes(), rows = unpacked->axes[1].span(size[P1]);
  const Extent stride = packedStrides(size);
  int64_t copied = 0;
  std::optional<Columns> above;
  if (isFirst && (copiesRows(tile) || packsOnChip()))
    fillSlot(step, input, slot, 0, elementBytes());
  if (copiesRows(tile)) {
    llvm::erase_if(packedTiles, [&](const PackedTile &t) { return t.slot == slot; });
    if (const PackedTile *tile = tileAbove(origin, size)) {
      copied = copiedRows(kernel, *unpacked, machine);
      const int64_t columnBytes = packedStrides(tile->size)[P0];
      above = {
          size[P0],  copied * packedStride[2], input.address[tile->slot] + columnBytes - copied * rowBytes, columnBytes, to,
          stride[P0]};
    }
    packedTiles.push_back({slot, origin, size});
  }
  auto copyRows = [&] {
    Chain copy;
    copy.aType = copy.dType = conversion->dType;
    moveColumns(step, *above, copy);
  };
  if (above && !packsOnChip())
    copyRows();
  const int64_t count = std::min<int64_t>(size[P0], int64_t(buffers.raw.size()));
  ++turn;
  for (int64_t begin = 0, end; begin < size[P0]; begin = end) {
    const size_t part = parts.size();
    end = ceilDiv(size[P0] * int64_t(part + 1), count);
    Extent from = origin, some = size;
    from[P0] += begin;
    some[P0] = end - begin;
    const Buffer &raw = buffers.all[size_t(buffers.raw[part])];
    bool miss, isFirstRaw = false;
    const unsigned rawSlot = acquire(raw, {int64_t(clock)}, miss, &isFirstRaw);
    std::vector<Operation> &loads = raw.slots > 1 ? step.early : step.late;
    const size_t before = loads.size();
    const unsigned unit = part ? secondUnit(tile) : 0;
    if (packsOnChip())
      loadPlain(step, from, some, raw, rawSlot, isFirstRaw, unit, copied);
    else
      loadPacked(step, from, some, raw, rawSlot, isFirstRaw, unit, copied);
    for (size_t i = before; count > 1 && i < loads.size(); ++i)
      loads[i].round = turn;
    parts.push_back({some, begin, raw.address[rawSlot]});
  }
  if (packsOnChip()) {
    for (const Part &part : parts)
      for (int64_t n = 0; n < size[P2]; ++n)
        packPlain(step, part.size, rows - copied,
                  part.raw + n * plainElements(*unpacked, part.size, rows - copied) / size[P2] * loadedBytes(),
                  to + part.begin * stride[P0] + n * stride[P2] + copied * rowBytes, stride[P0]);
    // What the last run of a column reaches behind it belongs to the copied rows of the next one.
    if (above)
      copyRows();
    return;
  }
  if (copied) {
    const int64_t elements = (rows - copied) * packedStride[2];
    for (const Part &part : parts)
      moveColumns(step,
                  {part.size[P0], elements, part.raw, elements * loadedBytes(),
                   to + part.begin * stride[P0] + copied * rowBytes, stride[P0]},
                  *conversion);
    return;
  }
  for (int64_t n = 0; n < size[P2]; ++n)
    for (Part part : parts) {
      const int64_t image = packedStrides(part.size, loadedBytes())[P2];
      part.size[P2] = 1;
      // Columns are one run of vectors, whatever they are of.
      moveColumns(step,
                  {1, packedElements(part.size), part.raw + n * image, 0, to + part.begin * stride[P0] + n * stride[P2], 0},
                  *conversion);
    }
}

void Emitter::loadInput(TileStep &step, const Extent &origin, const Extent &size, int64_t group, int64_t icOrigin,
                        int64_t icSize, unsigned slot, std::optional<Range> rows, int64_t offset) {
  const Anchor &a = *kernel.anchor;
  int64_t es = elementBytes();
  int64_t padded = roundUp(icSize, contraction() ? machine.rows : machine.lanes);
  int64_t address = a.input.offset + group * a.inputGroup + icOrigin * (contraction() ? a.input.stride[C] : 1);
  if (!contraction())
    address = a.input.offset + icOrigin * a.input.stride[C];
  std::vector<BoxDim> dims;
  int64_t onChip = padded * es;
  unsigned firstAxis = P0;
  if (const Anchor::Pixels &pixels = a.pixels; pixels.count > 1) {
    // Vectors share the pixels of a row, which are one run.
    const int64_t channels = pixelChannels(), count = pixels.span(a.axes[0].span(size[P0]));
    const int64_t first = origin[P0] * a.axes[0].stride * pixels.step - pixels.padLow;
    const int64_t low = std::clamp<int64_t>(-first, 0, count);
    const int64_t high = std::clamp<int64_t>(first + count - pixels.inputSize, 0, count - low);
    dims.push_back({count * channels, es, es, low * channels, high * channels});
    address += firstRead(dims.back(), first * channels);
    onChip = count * channels * es;
    firstAxis = P1;
  } else {
    dims.push_back({padded, (a.input.stride[C] ? a.input.stride[C] : 1) * es, es, 0, padded - icSize});
  }
  for (unsigned axis = firstAxis; axis < kAxes; ++axis) {
    const WindowAxis &w = a.axes[axis - P0];
    int64_t start = origin[axis] * w.stride - w.padLow, span = w.span(size[axis]);
    if (axis == P1 && rows) {
      start = rows->begin;
      span = rows->size();
    }
    BoxDim dim;
    dim.count = span;
    dim.low = std::clamp<int64_t>(-start, 0, span);
    dim.high = std::clamp<int64_t>(start + span - w.inputSize, 0, span - dim.low);
    dim.dram = a.input.stride[axis] * es;
    dim.onChip = onChip;
    address += firstRead(dim, start) * a.input.stride[axis];
    onChip *= span;
    dims.push_back(dim);
  }
  const uint64_t base = inputAddress();
  addLoad(step, buffers.all[buffers.input], slot, 0, base + uint64_t(address * es), unsigned(es), dims, a.padPattern, offset);
}

/// Whether tiles one below the other share rows of an input from DRAM, and one at a time needs them.
bool Emitter::canRoll(const Tile &t) const {
  if (unpacked)
    return (hasSumLineBuffer(t) || packsOnChip()) && tilesAlong(P1, t) > 1 && copiedRows(kernel, *unpacked, machine) > 0;
  if (!overlaps() || !kernel.anchor || kernel.maxima || residentInput() || onChip.banding || t.tile[P2] != 1 || t.depth == 1)
    return false;
  const Anchor &a = *kernel.anchor;
  const WindowAxis &h = a.axes[1];
  if ((contraction() && a.pixels.count > 1) || h.span(1) <= h.stride || t.tile[P1] >= kernel.extent[P1])
    return false;
  return !contraction() || (onChip.hasNeighbours && t.tileK >= a.ic && a.groups == 1 && !a.batchAxis && !t.channelsOuter() &&
                            !t.kOuter() && t.stationary == Stationary::None);
}

int64_t Emitter::rollingRows(const Tile &t) const {
  return kernel.anchor->axes[1].span(std::min(t.lineBuffer * t.tile[P1], kernel.extent[P1]));
}

/// As many tiles as there is room for, and as leave half of it to the kernels beside; a load must find room beside the tile that is read.
Emitter::Values Emitter::lineBuffers(const Tile &t) const {
  Values counts{1};
  if (!canRoll(t))
    return counts;
  if (kernel.plan.lineBuffer)
    return {kernel.plan.lineBuffer};
  if (unpacked) { // a way to load tiles, or the only one that there is room for
    Buffers b = plan(t);
    return {allocate(b) ? 1 : tilesAlong(P1, t)};
  }
  const WindowAxis &h = kernel.anchor->axes[1];
  Tile column = t;
  column.tile[P1] = kernel.extent[P1];
  if (!exceedsMemory(plan(column))) // nothing is loaded twice anyway
    return counts;
  Buffers b = plan(t);
  const Buffer &input = b.all[size_t(b.input)];
  const int64_t tile = h.span(t.tile[P1]), rowBytes = input.bytes / tile;
  int64_t others = 0;
  for (const Buffer &buffer : b.all)
    if (buffer.memory == 0 && &buffer != &input)
      others += roundUp(buffer.bytes, int64_t(machine.scratchpads[0].bankBytes())) * buffer.slots;
  for (int64_t bytes : {capacityOf(input), capacityOf(input) / 2}) {
    const int64_t rows = (bytes - others) / rowBytes, all = ceilDiv(kernel.extent[P1], t.tile[P1]);
    if (rows < 2 * tile)
      continue;
    const int64_t most = std::min((rows - tile) / (t.tile[P1] * h.stride) + 1, all);
    const int64_t count = ceilDiv(all, ceilDiv(all, most)); // in equal parts
    if (count != counts.back())
      counts.push_back(count);
  }
  return counts;
}

double Emitter::rowsLoaded(const Tile &t) const {
  const WindowAxis &h = kernel.anchor->axes[1];
  int64_t loaded = 0;
  for (int64_t row = 0; row < kernel.extent[P1]; row += t.lineBuffer * t.tile[P1]) {
    const int64_t count = std::min(t.lineBuffer * t.tile[P1], kernel.extent[P1] - row), first = row * h.stride - h.padLow;
    loaded += std::min(first + h.span(count), h.inputSize) - std::max<int64_t>(first, 0);
  }
  return double(loaded);
}

/// loadInput() for what the tiles above have not loaded.
void Emitter::rollInput(TileStep &step, const Extent &origin, const Extent &size, int64_t channel, int64_t icSize) {
  const Anchor &a = *kernel.anchor;
  const WindowAxis &h = a.axes[1];
  const int64_t first = origin[P1] * h.stride - h.padLow;
  const Range needed{first, first + h.span(size[P1])};
  const std::vector<int64_t> column{channel, origin[P0], origin[P2]};
  const int64_t rowBytes = inputRowBytes(a.axes[0].span(size[P0]), icSize);
  if (rolled.column != column || needed.begin < rolled.rows.begin || needed.begin > rolled.rows.end ||
      needed.end - rolled.rows.begin > rollingRows(tile))
    rolled = {column, {needed.begin, needed.begin}};
  if (const Range missing{rolled.rows.end, needed.end}; !missing.isEmpty()) {
    loadInput(step, origin, size, 0, channel, icSize, 0, missing, (missing.begin - rolled.rows.begin) * rowBytes);
    rolled.rows.end = needed.end;
  }
  rolled.offset = (needed.begin - rolled.rows.begin) * rowBytes;
}

Emitter::InputPlace Emitter::inputPlace(const Extent &origin, const Extent &size, int64_t group, int64_t icOrigin,
                                        int64_t icSize, unsigned slot) const {
  const Anchor &a = *kernel.anchor;
  InputPlace place;
  if (const Resident *resident = residentInput()) {
    const int64_t batch = a.batchAxis ? origin[*a.batchAxis] * a.input.stride[*a.batchAxis] : 0;
    place.address = resident->at(a.input.offset + group * a.inputGroup + batch + icOrigin);
    place.stride[C] = resident->blockBytes;
    for (unsigned axis = P0; axis < kAxes; ++axis) {
      const WindowAxis &w = a.axes[axis - P0];
      const int64_t first = readsRing() && axis == P1 ? bandedInput()->bands[0].begin : origin[axis] * w.stride - w.padLow;
      if (a.batchAxis == axis) // a tile has one of its positions
        continue;
      place.stride[axis] = resident->stride(a.input.stride[axis]);
      place.address += first * place.stride[axis];
    }
    place.address -= a.pixels.padLow * resident->pixelBytes;
    return place;
  }
  place.address = buffers.all[size_t(buffers.input)].address[slot] + rolled.offset;
  if (unpacked) {
    place.stride = packedStrides(size);
    return place;
  }
  place.stride[C] = (contraction() ? machine.rows : machine.lanes) * elementBytes();
  place.stride[P0] = a.pixels.count > 1 ? a.pixels.step * pixelChannels() * elementBytes() : inputRowBytes(1, icSize);
  place.stride[P1] = inputRowBytes(a.axes[0].span(size[P0]), icSize);
  place.stride[P2] = place.stride[P1] * a.axes[1].span(size[P1]);
  return place;
}

/// Fills `bytes` at the same place of `count` rows with padding.
void Emitter::fillRows(TileStep &step, const Resident &r, int64_t address, int64_t bytes, int64_t count) const {
  int64_t planes = r.isPlanar ? r.blocks() : 1;
  if (bytes <= 0 || count <= 0)
    return;
  if (const int64_t most = kMaxCount * r.elementBytes; bytes > most) {
    fillRows(step, r, address, most, count);
    return fillRows(step, r, address + most, bytes - most, count);
  }
  for (int64_t done = 0, part; done < count; done += part) {
    part = std::min(count - done, kMaxFill);
    isa::Load load;
    load.memory = 0;
    load.address = address + done * r.rowBytes;
    load.element_log2 = log2Size(unsigned(r.elementBytes));
    load.counts = {bytes / r.elementBytes, part, planes, 1, 1};
    load.high[1] = part;
    load.strides = {part > 1 ? r.rowBytes : 0, planes > 1 ? r.blockBytes : 0, 0, 0};
    load.span = (part - 1) * r.rowBytes + (planes - 1) * r.blockBytes + bytes;
    load.fill = r.elementBytes == 4 ? r.padPattern : r.padPattern & ((1u << (8 * r.elementBytes)) - 1);
    step.late.push_back(operation(isa::Instruction(load)));
  }
}

/// The padding around a tensor that stays on chip: what lies above, below, and between the rows; and behind one that is dense.
void Emitter::fillBorders(TileStep &step, const Resident &r) const {
  int64_t left = r.padLow[0] * r.pixelBytes, right = r.padHigh[0] * r.pixelBytes;
  fillRows(step, r, r.address, r.padLow[1] * r.rowBytes + left, 1);
  fillRows(step, r, r.address + (r.padLow[1] + 1) * r.rowBytes - right, right + left, r.rows - 1);
  fillRows(step, r, r.address + (r.padLow[1] + r.rows) * r.rowBytes - right, right + r.padHigh[1] * r.rowBytes + r.slackBytes(),
           1);
}

/// The columns of padding of a slot are filled once, its rows of padding whenever a band has some.
void Emitter::beginBand(uint32_t index) {
  if (const BandedTensor *input = bandedInput())
    bandIn = input->inRun(input->runOf(index));
  if (const BandedTensor *addend = bandedAddend())
    bandAddend = addend->inRun(addend->runOf(index));
  const BandedTensor *output = bandedOutput();
  if (!output)
    return;
  TileStep step;
  step.band = index;
  const Range &band = output->bands[index];
  const size_t run = output->runOf(index);
  bandOut = output->inRun(run);
  if (!onChip.banding->fillsBorders)
    return;
  if (index % output->bandsPerRun == 0 && run < output->slots.size()) {
    Resident slot = output->layout;
    slot.address = output->slots[run];
    slot.rows = output->slotRows();
    fillBorders(step, slot);
  }
  auto fill = [&](int64_t begin, int64_t end) {
    for (const auto &[rows, moved] : output->pieces({begin, end}))
      fillRows(step, bandOut, bandOut.address + moved + rows.begin * bandOut.rowBytes, bandOut.rowBytes * rows.size(), 1);
  };
  fill(band.begin, std::min<int64_t>(band.end, 0));
  fill(std::max(band.begin, output->rows), band.end);
  if (!step.late.empty())
    steps.push_back(std::move(step));
}

void Emitter::storeResult(TileStep &step, const Extent &origin, const Extent &size, int64_t group, unsigned slot) {
  const Resident *resident = residentOf(kernel.output.tensor);
  int64_t lanes = machine.lanes, es = byteSize(chains.back().dType);
  int64_t blocks = kernel.outputReduced ? 1 : ceilDiv(size[C], lanes);
  const View &view = kernel.output;
  int64_t dram = view.offset;
  if (!kernel.outputReduced)
    dram += (origin[C] + group * channels()) * view.stride[C];
  std::vector<BoxDim> dims;
  dims.push_back({kernel.outputReduced ? 1 : size[C], view.stride[C] * es, es, 0, 0});
  int64_t dense = blocks * lanes * es;
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    dram += origin[axis] * view.stride[axis];
    dims.push_back({size[axis], view.stride[axis] * es, resident ? resident->stride(view.stride[axis]) : dense, 0, 0});
    dense *= size[axis];
  }
  int64_t address = resident ? resident->at(dram) : buffers.all[size_t(buffers.results.back())].address[slot];
  addStore(step, address, addresses[view.tensor] + uint64_t(dram * es), unsigned(es), dims);
}

/// An engine that writes a bank keeps others out: the first slot in a bank is filled when what is in the others there has been read.
void Emitter::waitForBanks(TileStep &step, const Buffer &b, unsigned slot) const {
  if (b.slots < 2)
    return;
  const int64_t bankBytes = int64_t(machine.scratchpads[b.memory].bankBytes()), begin = b.address[slot];
  const auto [first, last] = std::minmax_element(b.address.begin(), b.address.end());
  for (int64_t bank = begin / bankBytes; bank <= (begin + b.bytes - 1) / bankBytes; ++bank) {
    const bool isFirst =
        llvm::none_of(b.address, [&](int64_t other) { return other < begin && other + b.bytes > bank * bankBytes; });
    if (isFirst)
      step.early.back().regions.push_back({b.memory, uint64_t(std::max(bank * bankBytes, *first)),
                                           uint64_t(std::min((bank + 1) * bankBytes, *last + b.bytes)), true});
  }
}

void Emitter::loadWeights(TileStep &step, const Extent &origin, const Extent &size, int64_t group, int64_t batch, int64_t k,
                          int64_t icSize, unsigned slot) {
  const Anchor &a = *kernel.anchor;
  const Buffer &b = buffers.all[buffers.weights];
  int64_t es = elementBytes(), rows = machine.rows, cols = machine.cols;
  int64_t kBlocks = ceilDiv(icSize, rows), nBlocks = ceilDiv(size[C], cols);
  if (constantWeights()) {
    int64_t taps = a.axes[0].kernel * a.weightRows(), block = rows * cols * es;
    // All ic tiles before this one are full.
    int64_t kAll = 0;
    for (int64_t k0 = 0; k0 < a.ic; k0 += tile.tileK)
      kAll += ceilDiv(std::min(tile.tileK, a.ic - k0), rows);
    int64_t nAll = 0;
    for (const Range &n : channelTiles)
      nAll += ceilDiv(n.size(), cols);
    // A part of an ic tile is a part of every tap.
    int64_t inTile = k % tile.tileK, tileBlocks = ceilDiv(std::min(tile.tileK, a.ic - (k - inTile)), rows);
    int64_t before =
        ((batch * a.groups + group) * nAll * kAll + origin[C] / cols * kAll + (k - inTile) / rows * nBlocks) * taps;
    addLoad(step, b, slot, weightUnit(tile), weightsAddress + uint64_t((before + inTile / rows) * block), unsigned(es),
            {{kBlocks * rows * cols, es, es, 0, 0}, {nBlocks * taps, tileBlocks * block, kBlocks * block, 0, 0}}, 0);
    if (onChip.streaming != Streaming::None)
      waitForBanks(step, b, slot);
    return;
  }
  bool transposed = !storesByChannel(a);
  int64_t nPad = nBlocks * cols, kPad = kBlocks * rows;
  std::vector<BoxDim> dims;
  dims.push_back({nPad, a.weightOc * es, transposed ? kPad * es : es, 0, nPad - size[C]});
  dims.push_back({kPad, a.weightIc * es, transposed ? es : nPad * es, 0, kPad - icSize});
  dims.push_back({a.axes[0].kernel, a.weightKw * es, kPad * nPad * es, 0, 0});
  dims.push_back({a.axes[1].kernel, a.weightKh * es, a.axes[0].kernel * kPad * nPad * es, 0, 0});
  int64_t at = a.weightOffset + origin[C] * a.weightOc + k * a.weightIc + batch * a.weightBatch + group * a.weightGroup;
  addArgumentLoad(step, b, slot, weightUnit(tile), a.weights, at, std::move(dims), uint32_t(a.weightZero));
}
