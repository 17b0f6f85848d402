//===- EmitterPasses.cpp - What one kernel does on the array --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <utility>

using namespace tw;
using namespace tw::accel;
using schedule::Block;
using schedule::Operation;

/// Of a loop: its instructions count them in their odometers.
static constexpr int64_t kMaxPasses = isa::maximumOf(isa::levelFields(), "count");

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
  int64_t outputs = size[P0] * size[P1] * size[P2], preload = preloadCycles(machine), saved = 0;
  for (const Run &y : rows)
    for (const Run &x : columns) {
      int64_t left =
          std::max<int64_t>(size[P0] - x.low - x.high, 0) * std::max<int64_t>(size[P1] - y.low - y.high, 0) * size[P2];
      saved += x.count * y.count * (std::max(outputs, preload) - (left ? std::max(left, preload) : 0));
      Taps taps{x.begin, x.count, y.begin, y.count, {x.low, y.low}, {x.high, y.high}, {x.step, y.step}, {x.shift, y.shift}};
      if (left == outputs)
        groups.insert(groups.begin(), taps);
      else if (left)
        groups.push_back(taps);
    }
  // Every group is a loop of its own.
  constexpr int64_t kCyclesPerLoop = 12;
  int64_t blocks = ceilDiv(std::min(tile.tileK, a.ic), machine.rows) * ceilDiv(size[C], machine.cols);
  if (groups.empty() || groups[0].low[0] + groups[0].low[1] + groups[0].high[0] + groups[0].high[1] > 0 ||
      saved * blocks <= kCyclesPerLoop * int64_t(groups.size()) || !keepDistance(groups, size))
    return {};
  return groups;
}

/// Whether a sum that passes of several groups add to comes again late enough (docs/design/accumulator.md), also when the next input channels
/// begin with the first group. As the verifier has it: what runs between two groups is not counted.
bool Emitter::keepDistance(llvm::ArrayRef<Taps> joined, const Extent &size) const {
  std::vector<Taps> groups; // whose taps all visit the same rows: columns that move come again for each row of taps
  for (const Taps &taps : joined)
    for (int64_t y = 0; y < (taps.shift[0] || taps.shift[1] ? taps.countY : 1); ++y)
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

/// Where rows of sums go round in their slot, those that follow one another there.
void Emitter::passes(TileStep &step, const Products &products, const Visit &visit) {
  if (!hasSumLineBuffer(tile))
    return boxPasses(step, products, visit);
  const int64_t ring = kernel.window(P1).kernel;
  for (int64_t row = 0, count; row < products.size[P1]; row += count) {
    Products part = products;
    part.origin[P1] += row;
    const int64_t at = part.origin[P1] % ring;
    part.size[P1] = count = std::min(products.size[P1] - row, ring - at);
    part.input.address += row * kernel.anchor->axes[1].stride * part.input.stride[P1];
    part.sums += at * part.size[P0];
    part.blockRows = ring * part.size[P0];
    boxPasses(step, part, visit);
  }
}

void Emitter::boxPasses(TileStep &step, const Products &products, const Visit &visit) {
  const int64_t icSize = products.icSize;
  std::vector<Taps> groups = tapGroups(products.origin, products.size);
  // Behind packed taps lie those of the next row, behind the pixels of a window those of the next one, and behind the channels of a tensor
  // on chip what its writer left there. They need not be numbers: the last vector leaves them out.
  const int64_t rest = icSize % machine.rows;
  if ((unpacked || (residentInput() && kernel.anchor->pixels.count == 1)) && rest &&
      machine.arrayType != timing::ArrayType::Int8) {
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
  std::array<bool, 3> areFirst; // per plane
  areFirst.fill(products.areFirst);
  for (const Taps &taps : groups) {
    Products ofTaps = products;
    ofTaps.areFirst = std::exchange(areFirst[size_t(taps.plane)], false);
    tapPasses(step, ofTaps, visit, taps);
  }
}

/// A product for each tap and block: of the channels of the block with a matrix that has their weights on its diagonal.
void Emitter::windowPasses(TileStep &step, const Visit &visit, const Extent &size, unsigned inputSlot, const OnArray &onArray) {
  const Anchor &a = *kernel.anchor;
  const int64_t lanes = machine.lanes, blocks = ceilDiv(size[C], lanes), first = blocks - onArray.blocks,
                most = mostArrayBlocks(tile, blocks);
  const Buffer &diagonals = buffers.all[size_t(buffers.diagonals)];
  bool miss;
  const unsigned slot = acquire(diagonals, {visit.origin[C]}, miss);
  if (miss) {
    uint64_t from = diagonalsAddress;
    for (const Range &before : llvm::ArrayRef(channelTiles).take_front(channelTileOf(visit.origin[C])))
      from += uint64_t(mostArrayBlocks(tile, ceilDiv(before.size(), lanes)) * diagonalBytes());
    addLoad(step, diagonals, slot, weightUnit(tile), from, 1, {{most * diagonalBytes(), 1, 1, 0, 0}}, 0);
  }
  Products products;
  products.origin = visit.origin;
  products.origin[C] += first * lanes;
  products.size = size;
  products.size[C] -= first * lanes;
  products.icSize = lanes;
  products.input = inputPlace(visit.origin, size, 0, visit.origin[C], size[C], inputSlot);
  products.input.address += first * products.input.stride[C];
  products.weights = diagonals.address[slot] + (most - onArray.blocks) * diagonalBytes();
  if (readsRing())
    products.weights += rowOfRing(step.band) * a.axes[0].kernel * lanes * lanes * elementBytes();
  products.sums = buffers.all[size_t(buffers.accumulator)].address[onArray.slot] / int64_t(machine.accumulatorRowBytes());
  products.blockRows = passRows(size);
  Visit all = visit;
  all.blockBegin = 0;
  all.blockEnd = onArray.blocks;
  tapPasses(step, products, all, {0, a.axes[0].kernel, 0, a.axes[1].kernel, {}, {}});
}

void Emitter::tapPasses(TileStep &step, const Products &products, const Visit &visit, const Taps &taps) {
  const Anchor &a = *kernel.anchor;
  const Extent &size = products.size;
  const InputPlace &input = products.input;
  const int64_t icSize = products.icSize;
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
  tensor.acc_address = products.sums;
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
  // Behind the channels of a vector lie those of the next pixel, which may not be there yet, or of the next matrix.
  const bool isShort =
      taps.kEnd % rows || a.pixels.count > 1 || (residentInput() && (residentInput()->isDense() || a.batchAxis));
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
  preload.address = products.weights;
  preload.k_count = rows;
  preload.n_count = cols;
  preload.is_signed = integer && a.weightType == LaneType::I8;
  preload.zero_point = integer ? a.weightZero : 0;
  int64_t kStride, nStride, tapStride = 0;
  if (const Resident *resident = residentWeights()) {
    const int64_t pixel = resident->stride(a.weightIc == 1 ? a.weightOc : a.weightIc);
    preload.memory = 0;
    preload.k_count = std::min(icSize, rows);
    preload.n_count = std::min(size[C], cols);
    preload.transpose = a.weightIc == 1;
    preload.row_stride = pixel;
    kStride = preload.transpose ? resident->blockBytes : rows * pixel;
    nStride = preload.transpose ? cols * pixel : resident->blockBytes;
  } else if (constantWeights()) {
    preload.row_stride = cols * es;
    kStride = rows * cols * es;
    tapStride = kBlocks * kStride;
    nStride = (window() ? windowWeights() : kh * kw) * tapStride;
  } else if (storesByChannel(a)) {
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
  preload.span = preload.transpose ? (preload.n_count - 1) * preload.row_stride + preload.k_count * es
                                   : (preload.k_count - 1) * preload.row_stride + preload.n_count * es;
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
  std::vector<PassLevel> levels = {
      {blocks, kStride, input.stride[C], 0, true},
      {taps.countX, taps.step[0] * tapStride, moved(0), taps.shift[0], true},
      {taps.countY, taps.step[1] * kw * tapStride, moved(1), taps.shift[1] * size[P0], true},
      {visit.blockEnd - visit.blockBegin, nStride, window() ? input.stride[C] : 0, products.blockRows, false}};
  levels.erase(std::remove_if(levels.begin(), levels.end(), [](const PassLevel &l) { return l.count == 1; }), levels.end());
  int64_t count = 1, clearMask = 0;
  for (size_t i = 0; i < levels.size(); ++i) {
    count *= levels[i].count;
    if (levels[i].clears)
      clearMask |= int64_t(1) << i;
  }
  if (const int64_t half = (visit.blockEnd - visit.blockBegin) / 2; half && count > kMaxPasses) {
    Visit some = visit;
    some.blockEnd = visit.blockBegin + half;
    tapPasses(step, products, some, taps);
    some = visit;
    some.blockBegin += half;
    Products others = products;
    others.sums += half * products.blockRows;
    others.input.address += window() ? half * input.stride[C] : 0;
    return tapPasses(step, others, some, taps);
  }
  tensor.accumulate = !products.areFirst;
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
      t.clear_mask = products.areFirst ? clearMask : 0;
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
    t.accumulate = !products.areFirst || accumulates;
    isa::Instruction instruction;
    if (forTensor)
      instruction.operands = t;
    else
      instruction.operands = p;
    return instruction;
  };
  const isa::Instruction preloads = withLevels(false), tensors = withLevels(true);
  const bool loops = count > 1 && count <= kMaxPasses && preloads.words() + tensors.words() <= machine.loopBufferWords &&
                     isa::fits(preloads) && isa::fits(tensors);
  // Serial: preload and tensor alternate. The first preload and the last tensor instruction stand outside the loop.
  const bool linear = constantWeights() && blocks == kBlocks;
  if (!loops || (schedule == Schedule::Serial && !linear)) {
    for (int64_t i = 0; i < count; ++i)
      step.compute.push_back(Block::of(1, operation(single(i, false)), operation(single(i, true))));
    return;
  }
  if (schedule != Schedule::Serial) {
    step.compute.push_back(Block::of(uint64_t(count), operation(preloads), operation(tensors)));
    return;
  }
  step.compute.push_back(Block::of(1, operation(single(0, false))));
  Operation tensorLoop = operation(tensors), preloadLoop = operation([&] {
                                               isa::Instruction instruction = single(1, false);
                                               instruction.header.num_levels = 1;
                                               instruction.levels[0].count = count - 1;
                                               instruction.levels[0].stride_b = kStride;
                                               return instruction;
                                             }());
  tensorLoop.alternates = preloadLoop.alternates = true;
  preloadLoop.barrier = false;
  step.compute.push_back(Block::of(uint64_t(count - 1), std::move(tensorLoop), std::move(preloadLoop)));
  step.compute.push_back(Block::of(1, operation(single(count - 1, true))));
}
