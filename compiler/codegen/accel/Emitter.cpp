//===- Emitter.cpp - Tiles, buffers and instructions of one kernel ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <cmath>
#include <functional>

using namespace tw;
using namespace tw::accel;
using schedule::Block;
using schedule::Operation;

namespace {
constexpr int64_t kMaxRows = 128; ///< of a matrix that an instruction touches: told apart for dependences
constexpr int64_t kMaxCount = 1 << 19; ///< elements along one dimension of a box; a field holds nearly twice as many

int64_t log2Size(unsigned bytes) { return bytes == 4 ? 2 : bytes == 2 ? 1 : 0; }
} // namespace

double accel::dramBytesPerCycle(const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  if (dram.kind == timing::DramKind::Ideal)
    return double(dram.bytesPerCycleNumerator) / dram.bytesPerCycleDenominator;
  // 0.94: refresh and row changes of one long stream.
  return 0.94 * dram.burstBytes * dram.channels * dram.clockMhz / (double(dram.nBurst) * machine.clockMhz);
}

std::optional<Schedule> accel::scheduleNamed(const std::string &name) {
  for (unsigned i = 0; i < std::size(kScheduleNames); ++i)
    if (name == kScheduleNames[i])
      return Schedule(i);
  return std::nullopt;
}

uint64_t NetworkProgram::addConstant(size_t size, std::function<std::vector<uint8_t>()> bytes) {
  uint64_t address = nextAddress;
  nextAddress = uint64_t(roundUp(int64_t(address + size), kBurst));
  constants.push_back({address, std::move(bytes)});
  return address;
}

void accel::forEachBox(std::vector<BoxDim> dims, unsigned elementSize, uint64_t dram, int64_t onChip,
                       const std::function<void(const std::vector<BoxDim> &, uint64_t, int64_t, bool broadcast)> &emit) {
  auto trivial = [](const BoxDim &d) { return d.count == 1 && !d.low && !d.high; };
  dims.erase(std::remove_if(dims.begin(), dims.end(), trivial), dims.end());
  std::stable_sort(dims.begin(), dims.end(),
                   [](const BoxDim &a, const BoxDim &b) { return std::abs(a.dram) < std::abs(b.dram); });
  // What one field does not hold becomes two dimensions.
  for (size_t i = 0; i < dims.size(); ++i) {
    BoxDim &d = dims[i];
    int64_t inner = kMaxCount;
    while (inner > 1 && d.count % inner)
      inner /= 2;
    if (d.count <= kMaxCount || d.low || d.high || inner == 1)
      continue;
    BoxDim outer{d.count / inner, d.dram * inner, d.onChip * inner, 0, 0};
    d.count = inner;
    dims.insert(dims.begin() + long(i) + 1, outer);
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
    bool fits = a.count * b.count <= kMaxCount;
    if (plain && fits && b.dram == a.count * a.dram && b.onChip == a.count * a.onChip) {
      a.count *= b.count;
      dims.erase(dims.begin() + long(i) + 1);
    } else {
      ++i;
    }
  }
  if (dims.size() <= 5) {
    dims.resize(5);
    emit(dims, dram, onChip, broadcast);
    return;
  }
  BoxDim outer = dims.back();
  dims.pop_back();
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

Emitter::Emitter(const Kernel &kernel, std::vector<Chain> chains, std::optional<Chain> conversion,
                 const timing::MachineParams &machine, Schedule schedule, const std::vector<uint64_t> &addresses, const OnChip &onChip,
                 uint32_t layer, NetworkProgram &network)
    : kernel(kernel), conversion(std::move(conversion)), chains(std::move(chains)), machine(machine), schedule(schedule),
      addresses(addresses), onChip(onChip), layer(layer), network(network),
      bands(bandsOf(kernel, onChip.banding)) {
  const timing::MemoryParams &memory = machine.scratchpads[0];
  room.end = std::min(int64_t(memory.capacityBytes), onChip.room);
  if (onChip.banks) {
    room.begin = (*onChip.banks)[0] * int64_t(memory.bankBytes());
    room.end = std::min(room.end, (*onChip.banks)[1] * int64_t(memory.bankBytes()));
  }
  if (bandedInput())
    bandIn = bandedInput()->inRun(0);
  if (bandedOutput())
    bandOut = bandedOutput()->inRun(0);
  skipUnread();
  packTaps();
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
      bands.push_back({{begin, std::min(begin + rows.size(), columns.end)}, {first, first + ceilDiv(rows.size(), columns.end)}});
    }
  return bands;
}

/// One tap at every second position reads every second position only: the view leaves the others out.
void Emitter::skipUnread() {
  if (!kernel.anchor)
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
  int64_t kw = a.axes[0].kernel, kh = a.axes[1].kernel, rows = machine.rows;
  bool byChannel = a.input.stride[C] == 1 || a.ic == 1, byColumn = a.input.stride[P0] == 1;
  return a.groups == 1 && !a.batchAxis && a.axes[2].kernel == 1 && !a.axes[2].padLow && kw * kh > 1 && (byChannel || byColumn) &&
         a.axes[1].dilation == 1 && a.pixels.count == 1 && ceilDiv(kw * kh * a.ic, rows) * 2 <= kw * kh * ceilDiv(a.ic, rows);
}

void Emitter::packTaps() {
  if (!contraction() || !constantWeights() || residentInput() || !packsTaps(*kernel.anchor, machine))
    return;
  const Anchor &a = *kernel.anchor;
  int64_t kw = a.axes[0].kernel, kh = a.axes[1].kernel;
  unpacked = a;
  packedStride = packsPlanes() ? std::array<int64_t, 3>{kw, 1, a.ic * kw} : std::array<int64_t, 3>{1, a.ic, a.ic * kw};
  Anchor &packed = *kernel.anchor;
  packed.ic = kw * kh * a.ic;
  for (WindowAxis &axis : packed.axes) {
    WindowAxis one;
    one.size = one.inputSize = axis.size;
    axis = one;
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

int64_t Emitter::inputSpan(const Tile &t, unsigned axis) const {
  return kernel.anchor->axes[axis - P0].span(kernel.sums(t.size)[axis]);
}

int64_t Emitter::inputRowBytes(int64_t vectors, int64_t channels) const {
  const Anchor::Pixels &pixels = kernel.anchor->pixels;
  if (pixels.count > 1)
    return pixels.span(vectors) * pixelChannels() * elementBytes();
  return vectors * roundUp(channels, contraction() ? machine.rows : machine.lanes) * elementBytes();
}

Tile Emitter::clampTile(Tile t) const {
  t.size[C] = std::min(t.size[C], roundUp(channels(), machine.lanes));
  t.size[P0] = std::min(t.size[P0], bandColumns());
  t.size[P1] = std::min(t.size[P1], bandRows());
  for (unsigned axis = P0; axis < kAxes; ++axis)
    t.size[axis] = std::min(t.size[axis], kernel.extent[axis]);
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
    return ceilDiv(axis == P0 ? bandColumns() : kernel.extent[axis], t.size[axis]);
  int64_t count = 0;
  for (const Band &band : bands)
    count += ceilDiv(band.rows.size(), t.size[P1]);
  return count;
}

int64_t Emitter::tileCount(const Tile &t) const {
  return tilesAlong(P0, t) * tilesAlong(P1, t) * tilesAlong(P2, t) * ceilDiv(channels(), t.size[C]);
}

/// With inputs outermost: how many tiles take a block of input channels before the next one. All, or as much of the outer loop as
/// has its sums in the accumulator, in equal parts.
int64_t Emitter::tilesTogether(const Tile &t) const {
  const int64_t all = tileCount(t), channelTiles = ceilDiv(channels(), t.size[C]);
  const int64_t inner = t.channelsOuter ? all / channelTiles : channelTiles, outer = all / inner;
  const int64_t bytes = roundUp(sums(t) * ceilDiv(t.size[C], machine.cols) * machine.accumulatorRowBytes(), kBurst);
  const int64_t most = int64_t(machine.accumulator.capacityBytes) / bytes / inner;
  return most == 0 ? all : ceilDiv(outer, ceilDiv(outer, most)) * inner;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

unsigned Emitter::acquire(Buffer &b, const std::vector<int64_t> &key, bool &miss, bool *isFirst) {
  ++clock;
  unsigned victim = 0;
  for (unsigned slot = 0; slot < b.slots; ++slot) {
    if (!b.key[slot].empty() && b.key[slot] == key) {
      b.used[slot] = clock;
      miss = false;
      return slot;
    }
    if (b.used[slot] < b.used[victim])
      victim = slot;
  }
  if (isFirst)
    *isFirst = b.key[victim].empty();
  b.key[victim] = key;
  b.used[victim] = clock;
  miss = true;
  return victim;
}

Operation Emitter::operation(const isa::Instruction &instruction) const {
  Operation op;
  op.instruction = instruction;
  op.instruction.edit().header.opcode = int64_t(instruction.opcode());
  // The rows of a matrix are all that its kernels have in common: one may begin with those that are there.
  const bool isMatrix = kernel.extent[P1] * kernel.extent[P2] == 1 || (kernel.anchor && kernel.anchor->batchAxis);
  op.regions = isMatrix ? schedule::regionsOf(instruction, machine, kMaxRows) : schedule::regionsOf(instruction, machine);
  op.layer = layer;
  op.barrier = schedule == Schedule::Serial;
  return op;
}

namespace {
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

void Emitter::addStore(TileStep &step, int64_t from, uint64_t dram, unsigned elementSize, std::vector<BoxDim> dims) {
  forEachBox(std::move(dims), elementSize, dram, from,
             [&](const std::vector<BoxDim> &box, uint64_t address, int64_t onChip, bool) {
               auto store = makeBox<isa::Store>(box, address, 0, onChip, elementSize);
               step.compute.push_back({1, {operation(isa::Instruction(store))}});
             });
}

/// loadInput() for packed taps. Where padding begins and ends differs from column to column: columns with the same padding are one
/// box.
void Emitter::loadPacked(TileStep &step, const Extent &origin, const Extent &size, const Buffer &b, unsigned slot, bool isFirst,
                         unsigned unit) {
  const Anchor &a = *unpacked;
  const int64_t es = loadedBytes();
  const Extent stride = packedStrides(size, es);
  if (int64_t end = size[P2] * stride[P2], rest = b.bytes - end; rest && isFirst) {
    // What the last vector reaches meets weights of zero, but it must be there.
    isa::Load load;
    load.memory = b.memory;
    load.address = b.address[slot] + end;
    load.element_log2 = log2Size(unsigned(es));
    load.counts = {rest / es, 1, 1, 1, 1};
    load.high[1] = 1;
    load.span = rest;
    (b.slots > 1 ? step.early : step.late).push_back(operation(isa::Instruction(load)));
  }
  const KernelTensor &tensor = kernel.tensors[a.input.tensor];
  const uint64_t base = tensor.role == KernelTensor::Constant ? constantAddress[a.input.tensor] : addresses[a.input.tensor];
  const WindowAxis &w = a.axes[0], &h = a.axes[1];
  auto paddingOf = [&](int64_t column) {
    int64_t first = column * w.stride - w.padLow, low = 0, high = 0;
    while (low < w.kernel && first + low * w.dilation < 0)
      ++low;
    while (high < w.kernel - low && first + (w.kernel - 1 - high) * w.dilation >= w.inputSize)
      ++high;
    return std::pair(low, high);
  };
  const int64_t firstRow = origin[P1] * h.stride - h.padLow, rows = h.span(size[P1]);
  BoxDim rowDim{rows, a.input.stride[P1] * es, packedStride[2] * es, std::clamp<int64_t>(-firstRow, 0, rows), 0};
  rowDim.high = std::clamp<int64_t>(firstRow + rows - h.inputSize, 0, rows - rowDim.low);
  const int64_t end = origin[P0] + size[P0];
  for (int64_t begin = origin[P0], next; begin < end; begin = next) {
    const auto padding = paddingOf(begin);
    for (next = begin + 1; next < end && paddingOf(next) == padding; ++next)
      ;
    int64_t address = a.input.offset + origin[P2] * a.axes[2].stride * a.input.stride[P2];
    address += (firstRow + rowDim.low) * a.input.stride[P1];
    address += (begin * w.stride - w.padLow + padding.first * w.dilation) * a.input.stride[P0];
    std::vector<BoxDim> dims = {
        {a.ic, (a.input.stride[C] ? a.input.stride[C] : 1) * es, packedStride[0] * es, 0, 0},
        {w.kernel, w.dilation * a.input.stride[P0] * es, packedStride[1] * es, padding.first, padding.second},
        {next - begin, w.stride * a.input.stride[P0] * es, stride[P0], 0, 0},
        rowDim,
        {size[P2], a.axes[2].stride * a.input.stride[P2] * es, stride[P2], 0, 0}};
    forEachBox(std::move(dims), unsigned(es), base + uint64_t(address * es),
               b.address[slot] + (begin - origin[P0]) * stride[P0],
               [&](const std::vector<BoxDim> &box, uint64_t from, int64_t to, bool broadcast) {
                 addBox(step, b, unit, from, to, unsigned(es), box, a.padPattern, broadcast);
               });
  }
}

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

/// Columns of packed taps are one run of vectors, whatever they are of.
void Emitter::convertPacked(TileStep &step, const Extent &size, int64_t from, int64_t to) {
  const int64_t elements = packedElements(size);
  isa::Vector v;
  v.a_type = int64_t(conversion->aType);
  v.a_zero_point = conversion->aZero;
  v.a_address = from;
  v.a_strides[0] = machine.lanes * loadedBytes();
  v.a_span = elements * loadedBytes();
  v.d_type = int64_t(conversion->dType);
  v.d_address = to;
  v.d_strides[0] = machine.lanes * elementBytes();
  v.d_span = elements * elementBytes();
  v.counts = {elements / machine.lanes, 1, 1, 1};
  v.window = {1, 1};
  setStages(v, *conversion);
  isa::Instruction instruction;
  instruction.operands = v;
  step.compute.push_back({1, {operation(instruction)}});
}

/// A tile of packed taps, loaded in parts and converted. What a part's last vector writes behind its columns, the next one overwrites.
void Emitter::loadConverted(TileStep &step, const Extent &origin, const Extent &size, unsigned slot) {
  struct Part {
    Extent size;
    int64_t begin, raw;
  };
  llvm::SmallVector<Part, 2> parts;
  const int64_t count = std::min<int64_t>(size[P0], int64_t(buffers.raw.size()));
  ++turn;
  for (int64_t begin = 0, end; begin < size[P0]; begin = end) {
    const size_t part = parts.size();
    end = ceilDiv(size[P0] * int64_t(part + 1), count);
    Extent from = origin, some = size;
    from[P0] += begin;
    some[P0] = end - begin;
    Buffer &raw = buffers.all[size_t(buffers.raw[part])];
    bool miss, isFirst = false;
    const unsigned rawSlot = acquire(raw, {int64_t(clock)}, miss, &isFirst);
    std::vector<Operation> &loads = raw.slots > 1 ? step.early : step.late;
    const size_t before = loads.size();
    loadPacked(step, from, some, raw, rawSlot, isFirst, part ? secondUnit(tile) : 0);
    for (size_t i = before; count > 1 && i < loads.size(); ++i)
      loads[i].round = turn;
    parts.push_back({some, begin, raw.address[rawSlot]});
  }
  const int64_t to = buffers.all[size_t(buffers.input)].address[slot];
  const Extent stride = packedStrides(size);
  for (int64_t n = 0; n < size[P2]; ++n)
    for (Part part : parts) {
      const int64_t image = packedStrides(part.size, loadedBytes())[P2];
      part.size[P2] = 1;
      convertPacked(step, part.size, part.raw + n * image, to + part.begin * stride[P0] + n * stride[P2]);
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
    if (low + high < count)
      address += (first + low) * channels;
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
    if (dim.low + dim.high < span)
      address += std::max<int64_t>(start, 0) * a.input.stride[axis];
    onChip *= span;
    dims.push_back(dim);
  }
  const KernelTensor &tensor = kernel.tensors[a.input.tensor];
  uint64_t base = tensor.role == KernelTensor::Constant ? constantAddress[a.input.tensor] : addresses[a.input.tensor];
  addLoad(step, buffers.all[buffers.input], slot, 0, base + uint64_t(address * es), unsigned(es), dims, a.padPattern,
          offset);
}

/// Whether tiles one below the other share rows of an input from DRAM, and one at a time needs them.
bool Emitter::canRoll(const Tile &t) const {
  if (!overlaps() || !kernel.anchor || kernel.maxima || residentInput() || onChip.banding || unpacked || t.size[P2] != 1 ||
      t.depth == 1)
    return false;
  const Anchor &a = *kernel.anchor;
  const WindowAxis &h = a.axes[1];
  if ((contraction() && a.pixels.count > 1) || h.span(1) <= h.stride || t.size[P1] >= kernel.extent[P1])
    return false;
  return !contraction() || (onChip.hasNeighbours && t.ic >= a.ic && a.groups == 1 && !a.batchAxis && !t.channelsOuter &&
                            !t.inputsOuter && t.panel == Tile::NoPanel);
}

int64_t Emitter::rollingRows(const Tile &t) const {
  return kernel.anchor->axes[1].span(std::min(t.rolling * t.size[P1], kernel.extent[P1]));
}

/// As many tiles as there is room for, and as leave half of it to the kernels beside; a load must find room beside the tile that is read.
std::vector<int64_t> Emitter::rollings(const Tile &t) const {
  std::vector<int64_t> counts{1};
  if (!canRoll(t))
    return kernel.request.rolling > 1 ? std::vector<int64_t>() : counts;
  if (kernel.request.rolling)
    return {kernel.request.rolling};
  const WindowAxis &h = kernel.anchor->axes[1];
  Tile column = t;
  column.size[P1] = kernel.extent[P1];
  if (!exceedsMemory(plan(column))) // nothing is loaded twice anyway
    return counts;
  Buffers b = plan(t);
  const Buffer &input = b.all[size_t(b.input)];
  const int64_t tile = h.span(t.size[P1]), rowBytes = input.bytes / tile;
  int64_t others = 0;
  for (const Buffer &buffer : b.all)
    if (buffer.memory == 0 && &buffer != &input)
      others += roundUp(buffer.bytes, int64_t(machine.scratchpads[0].bankBytes())) * buffer.slots;
  for (int64_t bytes : {capacityOf(input), capacityOf(input) / 2}) {
    const int64_t rows = (bytes - others) / rowBytes, all = ceilDiv(kernel.extent[P1], t.size[P1]);
    if (rows < 2 * tile)
      continue;
    const int64_t most = std::min((rows - tile) / (t.size[P1] * h.stride) + 1, all);
    const int64_t count = ceilDiv(all, ceilDiv(all, most)); // in equal parts
    if (count != counts.back())
      counts.push_back(count);
  }
  return counts;
}

double Emitter::rowsLoaded(const Tile &t) const {
  const WindowAxis &h = kernel.anchor->axes[1];
  int64_t loaded = 0;
  for (int64_t row = 0; row < kernel.extent[P1]; row += t.rolling * t.size[P1]) {
    const int64_t count = std::min(t.rolling * t.size[P1], kernel.extent[P1] - row), first = row * h.stride - h.padLow;
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
    place.address = resident->at(a.input.offset + group * a.inputGroup + icOrigin);
    place.stride[C] = resident->blockBytes;
    for (unsigned axis = P0; axis < kAxes; ++axis) {
      const WindowAxis &w = a.axes[axis - P0];
      const int64_t first = readsRing() && axis == P1 ? bandedInput()->bands[0].begin : origin[axis] * w.stride - w.padLow;
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
  fillRows(step, r, r.address + (r.padLow[1] + r.rows) * r.rowBytes - right,
           right + r.padHigh[1] * r.rowBytes + r.slackBytes(), 1);
}

/// The columns of padding of a slot are filled once, its rows of padding whenever a band has some.
void Emitter::beginBand(uint32_t index) {
  if (const BandedTensor *input = bandedInput())
    bandIn = input->inRun(input->runOf(index));
  const BandedTensor *output = bandedOutput();
  if (!output)
    return;
  TileStep step;
  step.band = index;
  const Range &band = output->bands[index];
  const size_t run = output->runOf(index);
  bandOut = output->inRun(run);
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

/// Whether taps in the padding add nothing to a sum, so that the passes may leave them out.
bool Emitter::skipsPadding() const {
  const Anchor &a = *kernel.anchor;
  bool integer = machine.arrayType == timing::ArrayType::Int8;
  return overlaps() && !a.pairsRows && (integer ? uint8_t(a.padPattern) == uint8_t(a.inputZero) : a.padPattern == 0);
}

/// The share of taps that read no padding, over all outputs.
double Emitter::usefulTaps() const {
  double share = 1;
  for (unsigned axis = P0; axis <= P1 && skipsPadding(); ++axis) {
    const WindowAxis &w = kernel.anchor->axes[axis - P0];
    share *= double(w.usefulTaps()) / double(w.kernel * w.size);
  }
  return share;
}

/// The taps of a tile in groups that read real input for the same outputs, or for as many in a regular order. The first group
/// covers all of them.
std::vector<Emitter::Taps> Emitter::tapGroups(const Extent &origin, const Extent &size) const {
  const Anchor &a = *kernel.anchor;
  if (a.pairsRows) { // what the upper outputs read alone, what both read, and what the lower ones read alone
    const int64_t kw = a.axes[0].kernel, kh = a.axes[1].kernel, apart = a.axes[1].stride;
    std::vector<Taps> groups = {{0, kw, 0, apart, {}, {}}, {0, kw, apart, kh - apart, {}, {}}, {0, kw, kh, apart, {}, {}}};
    for (size_t plane = 0; plane < groups.size(); ++plane)
      groups[plane].plane = int64_t(plane);
    groups.resize(size[P1] > 1 ? 3 : 2);
    return groups;
  }
  for (bool joins : {true, false})
    if (std::vector<Taps> groups = skipsPadding() ? tapGroups(origin, size, joins) : std::vector<Taps>(); !groups.empty())
      return groups;
  return {{0, a.axes[0].kernel, 0, a.axes[1].kernel, {}, {}}};
}

/// Nothing if that is not worth it. `joins`: taps at both ends of the window are one group, so that code is short: it comes from
/// DRAM too.
std::vector<Emitter::Taps> Emitter::tapGroups(const Extent &origin, const Extent &size, bool joins) const {
  const Anchor &a = *kernel.anchor;
  struct Run {
    int64_t begin, count, low, high; ///< taps, and outputs at either end that they give nothing but padding
    int64_t step = 1, shift = 0;
  };
  auto runsOf = [&](unsigned axis) {
    const WindowAxis &w = a.axes[axis - P0];
    std::vector<Run> runs;
    for (int64_t tap = 0; tap < w.kernel; ++tap) {
      auto inside = [&](int64_t output) { return w.readsInput(origin[axis] + output, tap); };
      int64_t low = 0, high = 0;
      while (low < size[axis] && !inside(low))
        ++low;
      while (high < size[axis] - low && !inside(size[axis] - 1 - high))
        ++high;
      if (!runs.empty() && runs.back().low == low && runs.back().high == high)
        ++runs.back().count;
      else
        runs.push_back({tap, 1, low, high});
    }
    for (size_t i = 0; joins && i < runs.size(); ++i)
      for (size_t j = i + 1; j < runs.size(); ++j) {
        Run &x = runs[i];
        const Run y = runs[j];
        if (x.count > 1 || y.count > 1 || x.low + x.high != y.low + y.high)
          continue;
        x.count = 2;
        x.step = y.begin - x.begin;
        x.shift = y.low - x.low;
        runs.erase(runs.begin() + ptrdiff_t(j));
      }
    return runs;
  };
  std::vector<Taps> groups;
  std::vector<Run> columns = runsOf(P0), rows = runsOf(P1);
  int64_t outputs = size[P0] * size[P1] * size[P2], preload = ceilDiv(machine.rows, machine.preloadRowsPerCycle) + 6, saved = 0;
  for (const Run &y : rows)
    for (const Run &x : columns) {
      int64_t left = std::max<int64_t>(size[P0] - x.low - x.high, 0) * std::max<int64_t>(size[P1] - y.low - y.high, 0) * size[P2];
      saved += x.count * y.count * (std::max(outputs, preload) - (left ? std::max(left, preload) : 0));
      Taps taps{x.begin, x.count, y.begin, y.count, {x.low, y.low}, {x.high, y.high}, {x.step, y.step}, {x.shift, y.shift}};
      if (left == outputs)
        groups.insert(groups.begin(), taps);
      else if (left)
        groups.push_back(taps);
    }
  // Every group is a loop of its own.
  constexpr int64_t kCyclesPerLoop = 12;
  int64_t blocks = ceilDiv(std::min(tile.ic, a.ic), machine.rows) * ceilDiv(size[C], machine.cols);
  if (groups.empty() || groups[0].low[0] + groups[0].low[1] + groups[0].high[0] + groups[0].high[1] > 0 ||
      saved * blocks <= kCyclesPerLoop * int64_t(groups.size()) || !keepDistance(groups, size))
    return {};
  return groups;
}

/// Whether a sum that passes of several groups add to comes again late enough (decision 0009), also when the next input channels
/// begin with the first group. As the verifier has it: what runs between two groups is not counted.
bool Emitter::keepDistance(llvm::ArrayRef<Taps> joined, const Extent &size) const {
  std::vector<Taps> groups; // whose taps all visit the same rows
  for (const Taps &taps : joined)
    for (int64_t y = 0; y < (taps.shift[1] ? taps.countY : 1); ++y)
      for (int64_t x = 0; x < (taps.shift[0] ? taps.countX : 1); ++x) {
        Taps &one = groups.emplace_back(taps);
        for (auto [i, tap] : {std::pair(0, x), std::pair(1, y)}) {
          one.low[size_t(i)] += tap * taps.shift[size_t(i)];
          one.high[size_t(i)] -= tap * taps.shift[size_t(i)];
        }
      }
  const int64_t distance = int64_t(timing::accumulatorDistance(machine));
  auto widthOf = [&](const Taps &t, unsigned i) { return size[P0 + i] - t.low[i] - t.high[i]; };
  auto rowsOf = [&](const Taps &t) { return widthOf(t, 0) * widthOf(t, 1) * size[P2]; };
  auto rowOf = [&](const Taps &t, int64_t visit) {
    int64_t x = visit % widthOf(t, 0), y = visit / widthOf(t, 0) % widthOf(t, 1), z = visit / (widthOf(t, 0) * widthOf(t, 1));
    return x + t.low[0] + size[P0] * (y + t.low[1] + size[P1] * z);
  };
  for (size_t i = 0; i < groups.size(); ++i)
    for (size_t j = i + 1; j <= groups.size(); ++j) {
      const Taps &first = groups[i], &second = groups[j % groups.size()];
      const int64_t rows = rowsOf(first), gap = std::max(rows, distance);
      for (int64_t a = std::max<int64_t>(gap - distance + 1, 0); a < rows; ++a)
        for (int64_t b = 0; b < std::min(rowsOf(second), distance - gap + a); ++b)
          if (rowOf(first, a) == rowOf(second, b))
            return false;
    }
  return true;
}

void Emitter::passes(TileStep &step, const Extent &size, bool first, int64_t icSize, const InputPlace &input,
                     unsigned weightSlot, unsigned accSlot, const Visit &visit) {
  std::vector<Taps> groups = tapGroups(kernel.firstSums(visit.origin), size);
  // Behind packed taps lie those of the next row, behind the pixels of a window those of the next one, and behind the channels of a tensor
  // on chip what its writer left there. They need not be numbers: the last vector leaves them out.
  const int64_t rest = icSize % machine.rows;
  if ((unpacked || (residentInput() && kernel.anchor->pixels.count == 1)) && rest && machine.arrayType != timing::ArrayType::Int8) {
    const size_t count = groups.size();
    for (size_t i = 0; i < count; ++i) {
      Taps last = groups[i];
      last.kBegin = icSize - rest;
      last.kEnd = icSize;
      if (icSize == rest) {
        groups[i] = last;
        continue;
      }
      groups[i].kEnd = icSize - rest;
      groups.push_back(last);
    }
  }
  if (const Anchor::Pixels &pixels = kernel.anchor->pixels; pixels.lastCount < pixels.count) {
    std::vector<Taps> parts;
    for (Taps taps : groups) {
      assert(taps.countX == kernel.anchor->axes[0].kernel && "vectors of pixels have no padding");
      Taps last = taps;
      last.x += --taps.countX;
      last.countX = 1;
      last.kEnd = pixels.lastCount * icSize / pixels.count;
      parts.insert(parts.end(), {taps, last});
    }
    groups = std::move(parts);
  }
  std::array<bool, 3> begins{first, first, first}; // per plane
  for (const Taps &taps : groups)
    passes(step, size, std::exchange(begins[size_t(taps.plane)], false), icSize, input, weightSlot, accSlot, visit, taps);
}

void Emitter::passes(TileStep &step, const Extent &size, bool first, int64_t icSize, const InputPlace &input,
                     unsigned weightSlot, unsigned accSlot, const Visit &visit, const Taps &taps) {
  const Anchor &a = *kernel.anchor;
  int64_t es = elementBytes(), rows = machine.rows, cols = machine.cols;
  int64_t kBlocks = ceilDiv(icSize, rows), nBlocks = ceilDiv(size[C], cols);
  int64_t kw = a.axes[0].kernel, kh = a.weightRows(), pos = passRows(size);
  bool integer = machine.arrayType == timing::ArrayType::Int8;

  isa::Tensor tensor;
  tensor.memory = 0;
  tensor.address = input.address;
  tensor.counts = {size[P0] - taps.low[0] - taps.high[0], size[P1] - taps.low[1] - taps.high[1], size[P2]};
  for (unsigned axis = P0; axis < kAxes; ++axis)
    tensor.strides[axis - P0] = a.axes[axis - P0].stride * input.stride[axis];
  tensor.acc_address = buffers.all[buffers.accumulator].address[accSlot] / machine.accumulatorRowBytes();
  tensor.acc_strides = {1, size[P0], pos / size[P2]};
  if (a.pairsRows) {
    tensor.counts[1] = taps.plane < 2 ? ceilDiv(size[P1], 2) : size[P1] / 2;
    tensor.strides[1] *= 2;
    tensor.acc_address += taps.plane * pos;
  }
  for (unsigned i = 0; i < 2; ++i) {
    tensor.address += taps.low[i] * tensor.strides[i];
    tensor.acc_address += taps.low[i] * tensor.acc_strides[i];
  }
  tensor.address += taps.x * a.axes[0].dilation * input.stride[P0] + taps.y * a.axes[1].dilation * input.stride[P1];
  const int64_t firstBlock = taps.kBegin / rows;
  tensor.address += firstBlock * input.stride[C];
  // Behind the channels of a vector lie those of the next pixel, which may not be there yet.
  const bool isShort = taps.kEnd % rows || a.pixels.count > 1 || (residentInput() && residentInput()->isDense());
  tensor.k_count = isShort ? std::min((taps.kEnd ? taps.kEnd : icSize) - taps.kBegin, rows) : rows;
  tensor.acc_span = 1;
  tensor.span = tensor.k_count * es;
  for (int i = 0; i < 3; ++i) {
    if (tensor.counts[i] == 1)
      tensor.strides[i] = tensor.acc_strides[i] = 0;
    tensor.span += (tensor.counts[i] - 1) * tensor.strides[i];
    tensor.acc_span += (tensor.counts[i] - 1) * tensor.acc_strides[i];
  }
  tensor.swap = 1;
  tensor.is_signed = integer && a.inputType == LaneType::I8;
  tensor.zero_point = integer ? a.inputZero : 0;

  isa::Preload preload;
  preload.memory = weightMemory();
  preload.address = buffers.all[buffers.weights].address[weightSlot];
  preload.k_count = rows;
  preload.n_count = cols;
  preload.is_signed = integer && a.weightType == LaneType::I8;
  preload.zero_point = integer ? a.weightZero : 0;
  int64_t kStride, nStride, tapStride = 0;
  if (constantWeights()) {
    preload.row_stride = cols * es;
    kStride = rows * cols * es;
    tapStride = kBlocks * kStride;
    nStride = kh * kw * tapStride;
  } else if (a.weightOc == 1 || a.weightIc != 1) {
    preload.row_stride = nBlocks * cols * es; // stored [tap][k][n]
    kStride = rows * preload.row_stride;
    tapStride = kBlocks * kStride;
    nStride = cols * es;
  } else {
    preload.transpose = 1; // stored [tap][n][k]
    preload.row_stride = kBlocks * rows * es;
    kStride = rows * es;
    nStride = cols * preload.row_stride;
    tapStride = nBlocks * nStride;
  }
  preload.span = preload.transpose ? (cols - 1) * preload.row_stride + rows * es : (rows - 1) * preload.row_stride + cols * es;
  preload.address += (taps.y * kw + taps.x) * tapStride + visit.blockBegin * nStride + firstBlock * kStride;

  struct PassLevel {
    int64_t count, weight, input, acc;
    bool clears;
  };
  const int64_t blocks = taps.kEnd ? ceilDiv(taps.kEnd - taps.kBegin, rows) : kBlocks;
  // From tap to tap.
  auto moved = [&](unsigned i) {
    return (taps.step[i] * a.axes[i].dilation + taps.shift[i] * a.axes[i].stride) * input.stride[P0 + i];
  };
  std::vector<PassLevel> levels = {{blocks, kStride, input.stride[C], 0, true},
                                   {taps.countX, taps.step[0] * tapStride, moved(0), taps.shift[0], true},
                                   {taps.countY, taps.step[1] * kw * tapStride, moved(1), taps.shift[1] * size[P0], true},
                                   {visit.blockEnd - visit.blockBegin, nStride, 0, pos, false}};
  levels.erase(std::remove_if(levels.begin(), levels.end(), [](const PassLevel &l) { return l.count == 1; }), levels.end());
  int64_t count = 1, clearMask = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    count *= levels[i].count;
    if (levels[i].clears)
      clearMask |= int64_t(1) << i;
  }
  tensor.accumulate = !first;
  auto withLevels = [&](bool forTensor) {
    isa::Instruction instruction;
    instruction.header.num_levels = int64_t(levels.size());
    for (size_t i = 0; i < levels.size(); ++i) {
      instruction.levels[i].count = levels[i].count;
      instruction.levels[i].stride_b = forTensor ? levels[i].input : levels[i].weight;
      instruction.levels[i].stride_c = forTensor ? levels[i].acc : 0;
    }
    if (forTensor) {
      isa::Tensor t = tensor;
      t.clear_mask = first ? clearMask : 0;
      instruction.operands = t;
    } else {
      instruction.operands = preload;
    }
    return instruction;
  };
  /// The instruction of pass `index`, without levels.
  auto single = [&](int64_t index, bool forTensor) {
    isa::Tensor t = tensor;
    isa::Preload p = preload;
    bool accumulates = false;
    for (const PassLevel &level : levels) {
      int64_t i = index % level.count;
      index /= level.count;
      p.address += i * level.weight;
      t.address += i * level.input;
      t.acc_address += i * level.acc;
      accumulates |= level.clears && i;
    }
    t.accumulate = !first || accumulates;
    isa::Instruction instruction;
    if (forTensor)
      instruction.operands = t;
    else
      instruction.operands = p;
    return instruction;
  };
  if (count == 1) {
    step.compute.push_back({1, {operation(single(0, false)), operation(single(0, true))}});
    return;
  }
  if (schedule != Schedule::Serial) {
    step.compute.push_back({uint64_t(count), {operation(withLevels(false)), operation(withLevels(true))}});
    return;
  }
  // Serial: preload and tensor alternate. The first preload and the last tensor instruction stand outside the loop.
  bool linear = constantWeights() && blocks == kBlocks;
  if (!linear) {
    for (int64_t i = 0; i < count; ++i)
      step.compute.push_back({1, {operation(single(i, false)), operation(single(i, true))}});
    return;
  }
  step.compute.push_back({1, {operation(single(0, false))}});
  Operation tensorLoop = operation(withLevels(true)), preloadLoop = operation([&] {
                                                        isa::Instruction instruction = single(1, false);
                                                        instruction.header.num_levels = 1;
                                                        instruction.levels[0].count = count - 1;
                                                        instruction.levels[0].stride_b = kStride;
                                                        return instruction;
                                                      }());
  tensorLoop.alternates = preloadLoop.alternates = true;
  preloadLoop.barrier = false;
  step.compute.push_back({uint64_t(count - 1), {tensorLoop, preloadLoop}});
  step.compute.push_back({1, {operation(single(count - 1, true))}});
}

/// Bytes from the first to the last of a vector instruction's vectors.
static int64_t spanOfVectors(const std::array<int64_t, 4> &counts, const std::array<int64_t, 4> &strides, int64_t vectorBytes) {
  int64_t span = vectorBytes;
  for (int d = 0; d < 4; ++d)
    span += (counts[d] - 1) * std::max<int64_t>(strides[d], 0);
  return span;
}

void Emitter::vectorSteps(TileStep &step, const Extent &origin, const Extent &size, int64_t group, unsigned anchorSlot,
                          int64_t accOffset, int64_t accBlock) {
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
        const Extent sums = kernel.sums(size);
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
          int64_t element = view.offset + view.stride[C] * (origin[C] + groupChannels);
          for (unsigned axis = P0; axis < kAxes; ++axis) {
            element += view.stride[axis] * origin[axis];
            o.strides[axis - 1] = resident->stride(view.stride[axis]);
          }
          o.strides[3] = view.stride[C] ? resident->blockBytes : 0;
          o.address = resident->at(element);
          return o;
        }
        Buffer &b = buffers.all[buffers.sources[i][size_t(index)]];
        std::vector<int64_t> key;
        for (unsigned axis = 0; axis < kAxes; ++axis)
          key.push_back(view.stride[axis] ? origin[axis] + (axis == C ? groupChannels : 0) : -1);
        bool miss;
        unsigned slot = acquire(b, key, miss);
        slotOf[size_t(buffers.sources[i][size_t(index)])] = int(slot);
        int64_t width = view.stride[C] ? blocks * lanes : lanes;
        int64_t onChip = width * es;
        o.address = b.address[slot];
        std::vector<BoxDim> dims;
        dims.push_back({width, view.stride[C] * es, es, 0, view.stride[C] ? width - size[C] : 0});
        o.strides[3] = view.stride[C] ? o.vectorBytes : 0;
        int64_t dram = view.offset + view.stride[C] * (origin[C] + groupChannels);
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
          addLoad(step, b, slot, unit, base + uint64_t(dram * es), unsigned(es), dims, 0);
        }
      }
      return o;
    };
    auto spanOf = [&](const std::array<int64_t, 4> &strides, int64_t vectorBytes) {
      return spanOfVectors(v.counts, strides, vectorBytes);
    };

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
      const WindowAxis &along = a.axes[packsRows() ? 1 : 0];
      if (a.axes[0].kernel <= 3 && a.axes[1].kernel <= 3 && along.dilation == 1 && along.stride <= 7)
        v.window_step = along.stride;
      v.a_zero_point = a.inputZero;
      v.a_span = spanOf(v.a_strides, lanes * es) + (v.window[0] - 1) * v.a_window_strides[0] +
                 (v.window[1] - 1) * v.a_window_strides[1];
      if (a.windowOp == isa::WindowOp::Mac) {
        int64_t ws = byteSize(a.weightType), taps = windowWeights(), row = v.window[0] * lanes * ws;
        Buffer &b = buffers.all[buffers.weights];
        bool miss;
        unsigned slot = acquire(b, {origin[C]}, miss);
        if (miss)
          addLoad(step, b, slot, weightUnit(tile), weightsAddress + uint64_t(origin[C] / lanes * taps * lanes * ws), unsigned(ws),
                  {{blocks * taps * lanes, ws, ws, 0, 0}}, 0);
        v.b_enable = 1;
        v.b_memory = weightMemory();
        v.b_type = int64_t(a.weightType);
        v.b_address = b.address[slot];
        v.b_strides = {0, 0, 0, taps * lanes * ws};
        v.b_tap_stride = lanes * ws;
        v.b_zero_point = a.weightZero;
        v.b_span = (blocks - 1) * v.b_strides[3] + v.window[1] * row;
        if (readsRing()) { // the first row of memory meets the row of taps that has come round to it
          const BandedTensor &rows = *bandedInput();
          v.b_address += (rows.ring - rows.placeOf(rows.bands[step.band].begin)) % rows.ring * row;
        }
      }
    } else {
      int64_t es = byteSize(chain.aType);
      Operand a = operandOf(chain.a, chain.aType);
      v.a_memory = a.memory;
      v.a_type = int64_t(chain.aType);
      v.a_address = a.address;
      v.a_strides = a.strides;
      v.a_zero_point = chain.aZero;
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
        if (w.kernel <= 3 && h.kernel <= 3 && w.stride <= 7)
          v.window_step = w.stride;
        v.a_strides[0] *= w.stride;
        v.a_strides[1] *= h.stride;
        v.a_span = spanOf(v.a_strides, lanes * es) + (w.kernel - 1) * v.a_window_strides[0] +
                   (h.kernel - 1) * v.a_window_strides[1];
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
    }
    if (!chain.parameters.empty()) {
      Buffer &b = buffers.all[buffers.parameters[i]];
      const int64_t perBlock = int64_t(chain.parameters.size()) * lanes * 4;
      // Those of all channels of the tile, also where its results leave a few at a time.
      const int64_t first = tile.drain ? origin[C] / tile.size[C] * tile.size[C] : origin[C];
      const int64_t bytes = tile.drain ? ceilDiv(std::min(tile.size[C], channels() - first), lanes) * perBlock : blocks * perBlock;
      bool miss;
      unsigned slot = acquire(b, {group, first}, miss);
      if (miss) {
        int64_t perGroup = 0; // every channel tile starts a new block
        for (int64_t n0 = 0; n0 < channels(); n0 += tile.size[C])
          perGroup += ceilDiv(std::min(channels() - n0, tile.size[C]), lanes) * perBlock;
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
      Buffer &d = buffers.all[size_t(buffers.results[i])];
      int &slot = slotOf[size_t(buffers.results[i])];
      bool miss;
      if (slot < 0)
        slot = int(acquire(d, {int64_t(clock)}, miss));
      else // what was there is gone
        d.key[size_t(slot)] = {int64_t(clock)};
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
    if (fromWindow && packsRows()) {
      for (auto *fields : {&v.a_strides, &v.b_strides, &v.d_strides, &v.counts})
        std::swap((*fields)[0], (*fields)[1]);
      std::swap(v.window[0], v.window[1]);
      std::swap(v.a_window_strides[0], v.a_window_strides[1]);
    }
    if (bandedOutput() && i + 1 == chains.size()) {
      assert(!packsRows() && "bands hold pixels apart");
      writeBands(step, v, origin, size);
      continue;
    }
    if (const Resident *resident = buffers.results[i] < 0 ? residentOf(kernel.output.tensor) : nullptr; i == 0 && pairsRows())
      addPairs(step, v, size,
               resident ? resident->hasVectorReaders && origin[P0] + size[P0] == kernel.extent[P0] : i + 1 < chains.size());
    else
      addVector(step, v);
  }
  if (onChip.storesResult)
    storeResult(step, origin, made, group, resultSlot.back());
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
      addVector(step, v);
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
void Emitter::addVector(TileStep &step, const isa::Vector &whole) const {
  const int64_t blocks = whole.counts[3], most = int64_t(machine.accumulatorRows()) / 2;
  const bool isCut = onChip.banding && window();
  const int64_t parts = isCut ? ceilDiv(int64_t(timing::timeOf(whole, machine).occupancy), most) : 1;
  const int64_t part = ceilDiv(blocks, parts);
  for (int64_t first = 0; first < blocks; first += part) {
    isa::Instruction instruction;
    isa::Vector v = whole;
    v.counts[3] = std::min(part, blocks - first);
    const int64_t dropped = blocks - v.counts[3];
    auto cut = [&](auto &address, auto &span, int64_t stride) {
      address += first * stride;
      span -= dropped * stride;
    };
    cut(v.a_address, v.a_span, v.a_strides[3]);
    cut(v.d_address, v.d_span, v.d_strides[3]);
    if (v.b_enable)
      cut(v.b_address, v.b_span, v.b_strides[3]);
    if (v.p_count)
      cut(v.p_address, v.p_span, v.p_count * machine.lanes * 4);
    instruction.operands = v;
    step.compute.push_back({1, {operation(instruction)}});
  }
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

void Emitter::loadWeights(TileStep &step, const Extent &origin, const Extent &size, int64_t group, int64_t batch, int64_t k,
                          int64_t icSize, unsigned slot) {
  const Anchor &a = *kernel.anchor;
  const Buffer &b = buffers.all[buffers.weights];
  int64_t es = elementBytes(), rows = machine.rows, cols = machine.cols;
  int64_t kBlocks = ceilDiv(icSize, rows), nBlocks = ceilDiv(size[C], cols);
  if (constantWeights()) {
    int64_t taps = a.axes[0].kernel * a.weightRows(), block = rows * cols * es;
    // All channel tiles before this one are full; so are the ic tiles of this one.
    int64_t kAll = 0;
    for (int64_t k0 = 0; k0 < a.ic; k0 += tile.ic)
      kAll += ceilDiv(std::min(tile.ic, a.ic - k0), rows);
    int64_t nAll = 0;
    for (int64_t n0 = 0; n0 < a.oc; n0 += tile.size[C])
      nAll += ceilDiv(std::min(tile.size[C], a.oc - n0), cols);
    // A part of an ic tile is a part of every tap.
    int64_t inTile = k % tile.ic, tileBlocks = ceilDiv(std::min(tile.ic, a.ic - (k - inTile)), rows);
    int64_t before = ((batch * a.groups + group) * nAll * kAll + origin[C] / cols * kAll + (k - inTile) / rows * nBlocks) * taps;
    addLoad(step, b, slot, weightUnit(tile), weightsAddress + uint64_t((before + inTile / rows) * block), unsigned(es),
            {{kBlocks * rows * cols, es, es, 0, 0}, {nBlocks * taps, tileBlocks * block, kBlocks * block, 0, 0}}, 0);
    return;
  }
  bool transposed = !(a.weightOc == 1 || a.weightIc != 1);
  int64_t nPad = nBlocks * cols, kPad = kBlocks * rows;
  std::vector<BoxDim> dims;
  dims.push_back({nPad, a.weightOc * es, transposed ? kPad * es : es, 0, nPad - size[C]});
  dims.push_back({kPad, a.weightIc * es, transposed ? es : nPad * es, 0, kPad - icSize});
  dims.push_back({a.axes[0].kernel, a.weightKw * es, kPad * nPad * es, 0, 0});
  dims.push_back({a.axes[1].kernel, a.weightKh * es, a.axes[0].kernel * kPad * nPad * es, 0, 0});
  int64_t at = a.weightOffset + origin[C] * a.weightOc + k * a.weightIc + batch * a.weightBatch + group * a.weightGroup;
  addLoad(step, b, slot, weightUnit(tile), addresses[a.weights] + uint64_t(at * es), unsigned(es), dims, uint32_t(a.weightZero));
}

/// Whether the first loads and the last results of this kernel hide behind nothing.
bool Emitter::hasOpenEnds() const { return overlaps() && !onChip.hasNeighbours && contraction(); }

bool Emitter::canBeginSmall(const Tile &t) const {
  return hasOpenEnds() && constantWeights() && !unpacked && t.depth > 1 && firstPiece() < t.ic;
}

bool Emitter::canBeginWide(const Tile &t) const {
  return hasOpenEnds() && t.ic < kernel.anchor->ic && t.depth > 1 && !t.oneSum && !t.inputsOuter && tileCount(t) > 1;
}

bool Emitter::canShareLoader() const { return hasOpenEnds() && !unpacked && machine.loadEngines > 1; }

std::vector<Tile> Emitter::waysToLoad(const Tile &t) const {
  const TileRequest &request = kernel.request;
  std::vector<Tile> ways;
  for (bool one : {false, true})
    for (bool wide : {false, true})
      for (bool small : {false, true}) {
        // Either start is enough, unless both are asked for.
        if (small != request.beginsSmall.value_or(small) || wide != request.beginsWide.value_or(wide) ||
            one != request.oneLoader.value_or(one) || (small && wide && !(request.beginsSmall && request.beginsWide)) ||
            (small && !canBeginSmall(t)) || (wide && !canBeginWide(t)) || (one && !canShareLoader()))
          continue;
        ways.push_back(t);
        ways.back().beginsSmall = small;
        ways.back().beginsWide = wide;
        ways.back().oneLoader = one;
        if (Buffers b = plan(ways.back()); !allocate(b))
          ways.pop_back();
      }
  return ways;
}

/// Input channels of the first piece of the first tile: whole rows of the array, and whole bursts.
int64_t Emitter::firstPiece() const { return roundUp(std::max<int64_t>(machine.rows, kBurst / elementBytes()), machine.rows); }

/// Each but the last is twice as large as the one before.
int64_t Emitter::pieces(const Tile &t) const {
  int64_t count = 0;
  for (int64_t k = 0, size = firstPiece(); k < t.ic; k += size, size *= 2)
    ++count;
  return count;
}

/// Appends visits that are like `tiles` but take the input channels block by block, `together` tiles each block before the next.
/// One tile alone takes all its blocks in one visit. In serpentine order the next ones begin with the block that these end with.
void Emitter::takeInputs(std::vector<Visit> &order, llvm::ArrayRef<Visit> tiles, size_t together) const {
  bool turned = false;
  for (; !tiles.empty(); tiles = tiles.drop_front(std::min(together, tiles.size()))) {
    llvm::ArrayRef<Visit> run = tiles.take_front(together);
    const int64_t all = run.front().kEnd, step = together == 1 ? all : tile.ic, parts = ceilDiv(all, step);
    for (int64_t part = 0; part < parts; ++part)
      for (Visit visit : run) {
        visit.turned = turned;
        visit.kBegin = step * (turned ? parts - 1 - part : part);
        visit.kEnd = std::min(visit.kBegin + step, all);
        visit.begins = part == 0;
        visit.ends = part == parts - 1;
        order.push_back(visit);
      }
    turned = onChip.serpentine && !turned;
  }
}

std::vector<Emitter::Visit> Emitter::orderVisits() const {
  int64_t groups = contraction() ? kernel.anchor->groups : 1;
  std::vector<Visit> order;
  int64_t allInputs = contraction() ? kernel.anchor->ic : 1;
  uint32_t band = 0;
  for (const auto &[columns, rows] : bands) {
    std::vector<Extent> mTiles;
    for (int64_t n = 0; n < kernel.extent[P2]; n += tile.size[P2])
      for (int64_t h = rows.begin; h < rows.end; h += tile.size[P1])
        for (int64_t w = columns.begin; w < columns.end; w += tile.size[P0])
          mTiles.push_back({0, w, h, n});
    if (tile.rolling > 1) // column after column
      llvm::stable_sort(mTiles, [](const Extent &a, const Extent &b) { return std::pair(a[P2], a[P0]) < std::pair(b[P2], b[P0]); });
    for (int64_t g = 0; g < groups; ++g) {
      std::vector<Visit> tiles;
      auto visit = [&](int64_t c, const Extent &m) {
        tiles.push_back({{c, m[P0], m[P1], m[P2]}, g, 0, allInputs, 0,
                         ceilDiv(std::min(tile.size[C], channels() - c), machine.cols), band});
      };
      if (tile.channelsOuter || !contraction())
        for (int64_t c = 0; c < channels(); c += tile.size[C])
          for (const Extent &m : mTiles)
            visit(c, m);
      else
        for (const Extent &m : mTiles)
          for (int64_t c = 0; c < channels(); c += tile.size[C])
            visit(c, m);
      takeInputs(order, tiles, tile.inputsOuter ? size_t(tilesTogether(tile)) : 1);
    }
    ++band;
  }
  if (tile.beginsWide) {
    const size_t count = std::min<size_t>(buffers.all[size_t(buffers.accumulator)].slots, order.size());
    std::vector<Visit> first;
    takeInputs(first, {order.data(), count}, count);
    order.erase(order.begin(), order.begin() + long(count));
    order.insert(order.begin(), first.begin(), first.end());
  }
  // The results of the last tile leave a few blocks at a time, whole bursts, while its other sums are made in another slot of the
  // accumulator.
  bool keepsSums = tile.inputsOuter && tile.ic < allInputs;
  bool reduces = llvm::any_of(kernel.steps, [](const Step &s) { return s.reducesChannels; });
  if (hasOpenEnds() && !keepsSums && !reduces && tile.ic >= allInputs && buffers.all[size_t(buffers.accumulator)].slots > 1) {
    Visit last = order.back();
    order.pop_back();
    const int64_t unit = ceilDiv(kBurst, machine.cols * byteSize(kernel.outputType));
    for (int64_t block = 0; block < last.blockEnd; block += unit) {
      order.push_back(last);
      order.back().blockBegin = block;
      order.back().blockEnd = std::min(block + unit, last.blockEnd);
    }
  }
  order.back().isLast = hasOpenEnds();
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
  size[C] = std::min(tile.size[C], channels() - visit.origin[C]);
  const Band &band = bands[visit.band];
  const Extent end{0, band.columns.end, band.rows.end, kernel.extent[P2]};
  for (unsigned axis = P0; axis < kAxes; ++axis)
    size[axis] = std::min(tile.size[axis], end[axis] - visit.origin[axis]);
  return size;
}

/// The panel that begins with visit `first`.
Emitter::Ahead Emitter::lookAhead(const std::vector<Visit> &visits, size_t first) const {
  const int64_t kTiles = ceilDiv(kernel.anchor->ic, tile.ic);
  const Buffer &panel = buffers.all[size_t(tile.channelsOuter ? buffers.weights : buffers.input)];
  Ahead ahead;
  auto isSamePanel = [&](const Visit &visit) {
    Extent here = visits[first].origin, there = visit.origin;
    for (unsigned axis = C; axis < kAxes; ++axis)
      if ((axis == C) == tile.channelsOuter && here[axis] != there[axis])
        return false;
    return true;
  };
  for (ahead.end = first; ahead.end < visits.size() && isSamePanel(visits[ahead.end]); ++ahead.end)
    ahead.steps += ceilDiv(visits[ahead.end].kEnd - visits[ahead.end].kBegin, tile.ic);
  // Those of its own tiles come first.
  const bool isWide = tile.beginsWide && first == 0;
  ahead.begin = kTiles * (isWide ? buffers.all[size_t(buffers.accumulator)].slots : 1);
  ahead.loads = !tile.inputsOuter && kernel.anchor->groups == 1 && panel.slots >= 2 * kTiles && ahead.end < visits.size() &&
                ahead.begin < ahead.steps;
  return ahead;
}

void Emitter::loadAhead(TileStep &step, const Visit &next, Ahead &ahead) {
  const Anchor &a = *kernel.anchor;
  const Extent origin = kernel.firstSums(next.origin), size = kernel.sums(sizeOf(next));
  const int64_t kTiles = ceilDiv(a.ic, tile.ic), group = next.group, batch = a.batchAxis ? origin[*a.batchAxis] : 0;
  const int64_t done = ++ahead.done - ahead.begin, all = ahead.steps - ahead.begin;
  for (; ahead.loaded < kTiles && ahead.loaded * all < done * kTiles; ++ahead.loaded) {
    const int64_t k = (next.turned ? kTiles - 1 - ahead.loaded : ahead.loaded) * tile.ic, icSize = std::min(tile.ic, a.ic - k);
    bool miss;
    if (tile.channelsOuter) {
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
  if (const Resident *resident = residentOf(kernel.output.tensor); resident && onChip.fillsBorders) {
    steps.emplace_back();
    fillBorders(steps.back(), *resident);
  }
  const size_t begin = steps.size();
  uint32_t nextBand = 0;
  turn = 0;
  rolled = {};
  const std::vector<Visit> visits = orderVisits();
  Ahead ahead;
  std::optional<std::pair<size_t, size_t>> host; ///< the step of the last passes, and where in it they end
  for (const Visit &visit : visits) {
    if (tile.oneLoader && size_t(&visit - visits.data()) == ahead.end)
      ahead = lookAhead(visits, ahead.end);
    while (nextBand <= visit.band)
      beginBand(nextBand++);
    const Extent &origin = visit.origin;
    const int64_t group = visit.group;
    const Extent size = sizeOf(visit);
    const Extent first = kernel.firstSums(origin), sums = kernel.sums(size);
    bool miss;
    unsigned anchorSlot = 0;
    if (contraction()) {
      const Anchor &a = *kernel.anchor;
      anchorSlot = acquire(buffers.all[buffers.accumulator],
                           {group, origin[C], origin[P0], origin[P1], origin[P2], visit.blockBegin}, miss);
      int64_t batch = a.batchAxis ? origin[*a.batchAxis] : 0;
      int64_t piece = tile.beginsSmall && steps.size() == begin ? firstPiece() : tile.ic;
      std::vector<std::pair<int64_t, bool>> parts; // where each begins, and whether it is a piece of a tile
      for (int64_t k = visit.kBegin; k < visit.kEnd;) {
        const bool isPiece = k < visit.kBegin + tile.ic && piece < tile.ic;
        parts.push_back({k, isPiece});
        k += std::min(isPiece ? piece : tile.ic, tile.ic - k % tile.ic);
        piece = std::min(piece * 2, tile.ic);
      }
      auto endOf = [&](size_t part) { return part + 1 < parts.size() ? parts[part + 1].first : visit.kEnd; };
      for (size_t i = 0; i < parts.size(); ++i) {
        const size_t part = visit.turned ? parts.size() - 1 - i : i;
        const auto [k, isPiece] = parts[part];
        const int64_t icSize = endOf(part) - k;
        TileStep step;
        step.band = visit.band;
        unsigned input = 0;
        if (tile.rolling > 1) {
          rollInput(step, origin, size, k, icSize);
        } else if (!residentInput()) {
          Buffer &b = buffers.all[size_t(buffers.input)];
          bool isFirst = false;
          input = acquire(b, {group, origin[P0], origin[P1], origin[P2], k, isPiece}, miss, &isFirst);
          if (miss && conversion && host && buffers.all[size_t(buffers.raw.front())].slots > 1) {
            // Before the results of the tile before: the array has work while they leave.
            TileStep ahead;
            loadConverted(ahead, first, sums, input);
            TileStep &before = steps[host->first];
            before.early.insert(before.early.end(), ahead.early.begin(), ahead.early.end());
            before.late.insert(before.late.end(), ahead.late.begin(), ahead.late.end());
            before.compute.insert(before.compute.begin() + long(host->second), ahead.compute.begin(), ahead.compute.end());
          } else if (miss && conversion) {
            loadConverted(step, first, sums, input);
          } else if (miss && unpacked) {
            loadPacked(step, first, sums, b, input, isFirst, takesTurns() && turn++ % 2 ? secondUnit(tile) : 0);
          } else if (miss) {
            loadInput(step, first, sums, group, k, icSize, input);
          }
        }
        unsigned weights = acquire(buffers.all[buffers.weights], {group, origin[C], k, batch, isPiece}, miss);
        if (miss)
          loadWeights(step, origin, size, group, batch, k, icSize, weights);
        if (ahead.loads)
          loadAhead(step, visits[ahead.end], ahead);
        passes(step, sums, visit.begins && i == 0, icSize, inputPlace(first, sums, group, k, icSize, input), weights, anchorSlot,
               visit);
        if (overlaps())
          host = {steps.size(), step.compute.size()};
        if (visit.ends && i + 1 == parts.size()) {
          Extent at = origin, part = size;
          at[C] += visit.blockBegin * machine.cols;
          part[C] = std::min(size[C], visit.blockEnd * machine.cols) - visit.blockBegin * machine.cols;
          const int64_t row = machine.accumulatorRowBytes(), all = sums[P0] * sums[P1] * sums[P2];
          if (tile.drain && part[C] > tile.drain) {
            const int64_t begin = at[C], end = begin + part[C];
            for (int64_t c = begin; c < end; c += tile.drain) {
              if (c > begin) {
                steps.push_back(std::exchange(step, {}));
                step.band = visit.band;
              }
              at[C] = c;
              part[C] = std::min(tile.drain, end - c);
              vectorSteps(step, at, part, group, anchorSlot, (c - begin) / machine.cols * all * row, all * row);
            }
            steps.push_back(std::move(step));
            continue;
          }
          // The very last results are stored while others are still made: a run of positions after the other.
          const unsigned outer = part[P2] > 1 ? P2 : part[P1] > 1 ? P1 : P0;
          const int64_t runs = visit.isLast && !kernel.pool && !kernel.maxima && !pairsRows() ? std::min<int64_t>(4, part[outer]) : 1;
          const int64_t inner = all / part[outer];
          for (int64_t run = 0, done = 0; run < runs; ++run, done += part[outer]) {
            // Loads of a run may go to the slot that the run before reads.
            if (run)
              steps.push_back(std::exchange(step, {}));
            at[outer] = origin[outer] + done;
            part[outer] = (size[outer] - done) / (runs - run);
            vectorSteps(step, at, part, group, anchorSlot, done * inner * row, all * row);
          }
        }
        steps.push_back(std::move(step));
      }
    } else {
      TileStep step;
      step.band = visit.band;
      if (tile.rolling > 1) {
        rollInput(step, origin, size, origin[C], size[C]);
      } else if (window() && !residentInput()) {
        anchorSlot = acquire(buffers.all[buffers.input], {origin[C], origin[P0], origin[P1], origin[P2]}, miss);
        if (miss)
          loadInput(step, origin, size, 0, origin[C], size[C], anchorSlot);
      }
      vectorSteps(step, origin, size, group, anchorSlot);
      steps.push_back(std::move(step));
    }
  }
  while (nextBand < bands.size())
    beginBand(nextBand++);
}

void Emitter::emitCopies() {
  // Copies are all transfer: reads and writes apart unless there is no turnaround to pay for.
  if (mixed(1, 1) > 1 && schedule == Schedule::DoubleBuffer)
    schedule = Schedule::Serial;
  network.choices.resize(layer + 1);
  network.choices[layer] = schedule == Schedule::Serial ? "copies, serial" : "copies, 2 slots";
  // A staging area of half the room per slot; a chunk is the largest run of inner dimensions that fits.
  unsigned slots = schedule == Schedule::Serial ? 1 : 2;
  int64_t capacity = room.size() / 2 / kBurst * kBurst;
  Buffer staging;
  staging.memory = 0;
  staging.bytes = capacity;
  staging.slots = slots;
  for (unsigned slot = 0; slot < slots; ++slot)
    staging.address.push_back(room.begin + int64_t(slot) * capacity);
  buffers.all = {staging};
  buffers.emptySlots();
  buffers.results = {0};
  for (const Copy &copy : kernel.copies) {
    int64_t es = byteSize(copy.type);
    size_t rank = copy.shape.size();
    std::vector<int64_t> chunk(rank, 1);
    int64_t bytes = es;
    for (size_t i = rank; i-- > 0;) {
      chunk[i] = std::clamp<int64_t>(capacity / bytes, 1, copy.shape[i]);
      bytes *= chunk[i];
      if (chunk[i] < copy.shape[i])
        break;
    }
    std::vector<int64_t> at(rank, 0);
    while (true) {
      TileStep step;
      bool miss;
      unsigned slot = acquire(buffers.all[0], {int64_t(clock)}, miss);
      std::vector<BoxDim> from(rank), to(rank);
      int64_t dense = es, source = copy.from.offset, target = copy.to.offset;
      for (size_t i = rank; i-- > 0;) {
        int64_t count = std::min(chunk[i], copy.shape[i] - at[i]);
        int64_t inner = copy.shape[i] - copy.padLow[i] - copy.padHigh[i];
        int64_t start = at[i] - copy.padLow[i];
        from[i].count = to[i].count = count;
        from[i].low = std::clamp<int64_t>(-start, 0, count);
        from[i].high = std::clamp<int64_t>(start + count - inner, 0, count - from[i].low);
        from[i].dram = copy.fromStride[i] * es;
        to[i].dram = copy.toStride[i] * es;
        from[i].onChip = to[i].onChip = dense;
        dense *= count;
        source += std::max<int64_t>(start, 0) * copy.fromStride[i];
        target += at[i] * copy.toStride[i];
      }
      bool constant = kernel.tensors[copy.from.tensor].role == KernelTensor::Constant;
      uint64_t base = constant ? constantAddress[copy.from.tensor] : addresses[copy.from.tensor];
      addLoad(step, buffers.all[0], slot, 0, base + uint64_t(source * es), unsigned(es), from, copy.fill);
      addStore(step, staging.address[slot], addresses[copy.to.tensor] + uint64_t(target * es), unsigned(es), to);
      steps.push_back(std::move(step));
      size_t i = rank;
      while (i-- > 0) {
        at[i] += chunk[i];
        if (at[i] < copy.shape[i])
          break;
        at[i] = 0;
      }
      if (i == size_t(-1))
        break;
    }
  }
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

void Emitter::order() {
  if (overlaps()) {
    std::vector<schedule::Step> taken = takeSteps();
    std::move(taken.begin(), taken.end(), std::back_inserter(network.steps));
    return;
  }
  auto &blocks = network.tiles.blocks;
  auto straight = [&](std::vector<Operation> &operations) {
    for (Operation &op : operations)
      blocks.push_back({1, {std::move(op)}});
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

llvm::Error Emitter::emit() {
  if (!kernel.copies.empty()) {
    const TileRequest &request = kernel.request;
    if (request.hasTile() || request.hasBuffers())
      return llvm::createStringError("%skernel '%s' only moves data and has no tiles to choose", placed(request.at()).c_str(),
                                     kernel.name.c_str());
    packConstants();
    emitCopies();
    order();
    return llvm::Error::success();
  }
  if (llvm::Error error = choose())
    return error;
  packConstants();
  emitTiles();
  order();
  return llvm::Error::success();
}

llvm::Error accel::emitKernel(const Kernel &matched, const timing::MachineParams &machine, Schedule schedule,
                              const std::vector<uint64_t> &addresses, const OnChip &onChip, uint32_t layer, NetworkProgram &network) {
  Kernel kernel = matched;
  // A window gives its result to the instruction that computes it and to no other, and the weights of a depthwise one are B: a
  // first step that is something else, or has a second tensor then, is preceded by an instruction for the window alone.
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
  auto failure = [&](const std::string &why) {
    return llvm::createStringError("%s%s: %s", placed(kernel.request.assignAt).c_str(), kernel.name.c_str(), why.c_str());
  };
  if (kernel.anchor && kernel.anchor->kind == Anchor::Contraction) {
    LaneType wanted = machine.arrayType == timing::ArrayType::Fp32   ? LaneType::F32
                      : machine.arrayType == timing::ArrayType::Bf16 ? LaneType::Bf16
                                                                     : LaneType::I8;
    if (byteSize(kernel.anchor->inputType) != byteSize(wanted) || byteSize(kernel.anchor->weightType) != byteSize(wanted))
      return failure("the array of machine '" + machine.name + "' does not multiply this element type");
    if (machine.lanes != machine.cols)
      return failure("machine '" + machine.name + "' has " + std::to_string(machine.lanes) + " lanes but " +
                     std::to_string(machine.cols) + " array columns; they must be equal");
  }
  std::optional<Chain> conversion;
  if (kernel.conversion) {
    if (onChip.banding && onChip.banding->input)
      return failure("its input is converted after it is loaded, and does not come in bands");
    mlir::FailureOr<Chain> built = buildChain(*kernel.conversion, kernel.loadedType());
    if (mlir::failed(built) || built->b >= 0 || !built->parameters.empty() || built->stages.size() > machine.vectorStages ||
        byteSize(built->dType) != byteSize(kernel.anchor->inputType))
      return failure("the conversion of its input has no form on the vector engine");
    if (!packsTaps(*kernel.anchor, machine))
      return failure("the conversion of its input needs taps that the load engine packs");
    conversion = *built;
  }
  std::vector<Chain> chains;
  std::vector<LaneType> resultTypes;
  for (const Step &step : kernel.steps) {
    std::vector<LaneType> types;
    for (const Source &source : step.sources)
      if (source.kind != Source::Value)
        types.push_back(source.type);
      else if (source.value >= 0)
        types.push_back(resultTypes[size_t(source.value)]);
      else // A maximum keeps the sign of what it compares.
        types.push_back(kernel.anchor->windowOp == isa::WindowOp::Max ? kernel.anchor->inputType : kernel.anchor->resultType);
    Chain chain;
    if (step.reducesChannels || step.sumsPositions || !step.op) {
      chain.a = 0;
      chain.aType = step.sumsPositions ? step.sources[0].type : types[0];
      chain.aZero = step.zero;
      chain.dType = step.type;
    } else {
      mlir::FailureOr<Chain> built = buildChain(step, types);
      if (mlir::failed(built))
        return failure("a step has no form on the vector engine");
      chain = *built;
    }
    resultTypes.push_back(chain.dType);
    chains.push_back(std::move(chain));
  }
  joinChains(kernel.steps, chains, machine.vectorStages);
  if (chains.empty() && kernel.anchor) {
    Chain chain;
    chain.aType = chain.dType = kernel.anchor->resultType;
    if (kernel.anchor->windowOp == isa::WindowOp::Max)
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
  return Emitter(kernel, std::move(chains), std::move(conversion), machine, schedule, addresses, onChip, layer, network).emit();
}
