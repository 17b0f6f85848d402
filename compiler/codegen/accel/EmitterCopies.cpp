//===- EmitterCopies.cpp - Kernels that only move data ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks of a copy, one after the other. A DMA engine moves single elements of
// a block whose order changes, one a cycle. Or it moves runs of a few elements,
// and the vector engine transposes squares of so many: docs/design/layout.md,
// "Transposes".
//===----------------------------------------------------------------------===//
#include "compiler/codegen/accel/Emitter.h"
#include "compiler/cost/Constants.h"

#include "isa/timing/Dram.h"

#include <algorithm>
#include <numeric>

using namespace tw;
using namespace tw::accel;
using schedule::Block;

namespace {

/// Elements of a vector that the vector engine transposes in are words, whatever the copy's type.
constexpr int64_t kWord = 4;
/// Elements of a unit, at most. A plane's number has a bit for each pass; beside that of the pass, one instruction counts planes along two.
constexpr int64_t kMostUnit = 16;
constexpr unsigned kCountedBits = 2;
/// The fewest and the most areas of scratchpad for blocks on their way through the vector engine, and the halves of each: the two planes that
/// an instruction reads lie in different ones, so that it reads both in a cycle.
constexpr int64_t kLeastAreas = 3, kMostAreas = 32, kHalves = 2;

/// Whether dimension `i` of a copy is filled at an end.
bool isPadded(const Copy &copy, size_t i) { return copy.padLow[i] || copy.padHigh[i]; }

/// Bytes that lie side by side both where a copy is read and where it is written.
int64_t commonRun(const Copy &copy) {
  int64_t run = 1;
  for (size_t i = copy.shape.size(); i-- > 0;)
    if (copy.shape[i] > 1) {
      if (copy.fromStride[i] != run || copy.toStride[i] != run)
        break;
      run *= copy.shape[i];
    }
  return run * byteSize(copy.type);
}

/// The same copy with as few dimensions as there are: dimensions that lie side by side both ways are one, and elements that stay together
/// become one of a wider type where there is such a type.
Copy withFewDims(const Copy &copy) {
  Copy few = copy;
  auto erase = [&](size_t i) {
    for (std::vector<int64_t> *values : {&few.shape, &few.fromStride, &few.toStride, &few.padLow, &few.padHigh})
      values->erase(values->begin() + long(i));
  };
  for (size_t i = few.shape.size(); i-- > 0;)
    if (few.shape[i] == 1 && !isPadded(few, i) && few.shape.size() > 1)
      erase(i);
  for (size_t i = few.shape.size() - 1; i-- > 0;) {
    const int64_t inner = few.shape[i + 1];
    if (isPadded(few, i) || isPadded(few, i + 1) || few.fromStride[i] != inner * few.fromStride[i + 1] ||
        few.toStride[i] != inner * few.toStride[i + 1])
      continue;
    few.fromStride[i] = few.fromStride[i + 1];
    few.toStride[i] = few.toStride[i + 1];
    few.shape[i] *= inner;
    erase(i + 1);
  }
  const size_t last = few.shape.size() - 1;
  const int64_t run = few.shape[last], bytes = run * byteSize(few.type);
  auto isWhole = [&](int64_t stride) { return stride % run == 0; };
  const bool isTogether = !isPadded(few, last) && few.fromStride[last] == 1 && few.toStride[last] == 1;
  if (!isTogether || run == 1 || last == 0 || (bytes != 2 && bytes != 4) || !isWhole(few.from.offset) ||
      !isWhole(few.to.offset) || llvm::any_of(few.padLow, [](int64_t n) { return n > 0; }) ||
      llvm::any_of(few.padHigh, [](int64_t n) { return n > 0; }) ||
      !std::all_of(few.fromStride.begin(), few.fromStride.end() - 1, isWhole) ||
      !std::all_of(few.toStride.begin(), few.toStride.end() - 1, isWhole))
    return few;
  erase(last);
  for (size_t i = 0; i < last; ++i) {
    few.fromStride[i] /= run;
    few.toStride[i] /= run;
  }
  few.from.offset /= run;
  few.to.offset /= run;
  few.type = bytes == 4 ? LaneType::I32 : LaneType::Bf16;
  return few;
}

/// Dimensions of more than one index, innermost first, by their strides.
std::vector<size_t> inOrder(const Copy &copy, const std::vector<int64_t> &strides) {
  std::vector<size_t> order;
  for (size_t i = copy.shape.size(); i-- > 0;)
    if (copy.shape[i] > 1)
      order.push_back(i);
  llvm::stable_sort(order, [&](size_t a, size_t b) { return std::abs(strides[a]) < std::abs(strides[b]); });
  return order;
}

/// A block of a copy that fits `capacity` bytes: the largest run of inner dimensions as it is written.
std::vector<int64_t> rowsOf(const Copy &copy, int64_t capacity) {
  std::vector<int64_t> block(copy.shape.size(), 1);
  int64_t bytes = byteSize(copy.type);
  for (size_t i = copy.shape.size(); i-- > 0;) {
    block[i] = std::clamp<int64_t>(capacity / bytes, 1, copy.shape[i]);
    bytes *= block[i];
    if (block[i] < copy.shape[i])
      break;
  }
  return block;
}

int64_t elementsOf(llvm::ArrayRef<int64_t> extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
}

/// A block of a copy that fits `capacity` bytes, with runs of whole bursts where it is read and where it is written: so many there for so many
/// here.
std::vector<int64_t> blockOf(const Copy &copy, int64_t capacity, int64_t burst, int64_t reads = 1, int64_t writes = 1) {
  const int64_t es = byteSize(copy.type);
  std::vector<size_t> read = inOrder(copy, copy.fromStride), written = inOrder(copy, copy.toStride);
  llvm::erase_if(read, [&](size_t i) { return copy.fromStride[i] == 0; });
  std::vector<int64_t> best = rowsOf(copy, capacity); // where no burst fits both ways
  for (int64_t run = burst / es; run > 0; run += burst / es) {
    std::vector<int64_t> block(copy.shape.size(), 1);
    bool isWhole = true; // no longer run would be larger
    for (const auto &[order, most] : {std::pair(&written, run * writes), std::pair(&read, run * reads)}) {
      int64_t elements = 1;
      for (size_t i : *order) {
        block[i] = std::max(block[i], std::min(copy.shape[i], ceilDiv(most, elements)));
        elements *= block[i];
        if (elements >= most)
          break;
      }
      isWhole &= elements < most;
    }
    if (elementsOf(block) * es > capacity)
      break;
    best = std::move(block);
    if (isWhole)
      break;
  }
  return best;
}

/// What a box asks of DRAM and of the engine that moves it.
struct Walk {
  double bus = 0;      ///< cycles of the DRAM, if the other direction is silent
  double segments = 0; ///< pieces of runs, cut where bursts end
  double bursts = 0;
};

/// Ticks that a channel takes for a window of requests, which it puts in an order that suits it: as long as its data bus, its banks and the
/// distances between commands need.
class ChannelWindow {
public:
  ChannelWindow(const timing::DramParams &dram, bool isWrite)
      : dram(dram), rowTicks(isWrite ? std::max(dram.nRAS, dram.nRCDWR + dram.nCWL + dram.nBurst + dram.nWR) + dram.nRP
                                     : dram.nRAS + dram.nRP),
        banks(size_t(dram.ranks) * dram.bankGroups * dram.banksPerGroup), groups(dram.bankGroups) {}
  void add(const timing::DramLocation &place) {
    Bank &bank = banks[place.flatBank];
    if (!bank.isOpen || bank.row != place.row) {
      ++bank.opened;
      ++opened;
    }
    bank.isOpen = true;
    bank.row = place.row;
    ++groups[place.bankGroup];
    if (++requests == dram.window)
      close();
  }
  double ticks() {
    close();
    return total;
  }

private:
  struct Bank {
    uint32_t row = 0, opened = 0;
    bool isOpen = false;
  };
  void close() {
    double most = std::max(double(requests) * dram.nBurst, opened * std::max(double(dram.nRRDS), dram.nFAW / 4.0));
    for (uint32_t &group : groups)
      most = std::max(most, double(std::exchange(group, 0)) * dram.nCCDL);
    for (Bank &bank : banks)
      most = std::max(most, double(std::exchange(bank.opened, 0)) * rowTicks);
    total += most;
    requests = opened = 0;
  }
  const timing::DramParams &dram;
  uint32_t rowTicks, requests = 0, opened = 0;
  std::vector<Bank> banks;
  std::vector<uint32_t> groups;
  double total = 0;
};

/// Of a box of `dims` (count, stride in bytes) of runs of `run` bytes from `address` on. A long walk is followed for a part.
Walk walkOf(uint64_t address, int64_t run, std::vector<std::pair<int64_t, int64_t>> dims, bool isWrite,
            const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  const timing::DramAddressMap map(dram);
  llvm::erase_if(dims, [](const auto &dim) { return dim.first == 1; });
  llvm::stable_sort(dims, [](const auto &a, const auto &b) { return std::abs(a.second) < std::abs(b.second); });
  std::vector<ChannelWindow> channels(dram.kind == timing::DramKind::Ideal ? 0 : dram.channels, ChannelWindow(dram, isWrite));
  const double most = 4.0 * dram.window * dram.channels; // bursts
  const int64_t burst = dram.burstBytes;
  int64_t runs = 1;
  for (const auto &dim : dims)
    runs *= dim.first;
  std::vector<int64_t> index(dims.size(), 0);
  Walk walk;
  int64_t last = -1, done = 0;
  for (; done < runs && walk.bursts < most; ++done) {
    int64_t at = int64_t(address);
    for (size_t i = 0; i < dims.size(); ++i)
      at += index[i] * dims[i].second;
    for (int64_t b = at / burst; b * burst < at + run; ++b, ++walk.segments) {
      if (b == last)
        continue;
      last = b;
      ++walk.bursts;
      const timing::DramLocation place = map.locate(uint64_t(b * burst));
      if (!channels.empty())
        channels[place.channel].add(place);
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      if (++index[i] < dims[i].first)
        break;
      index[i] = 0;
    }
  }
  walk.bus = walk.bursts * double(burst) / dramBytesPerCycle(machine);
  for (ChannelWindow &channel : channels)
    walk.bus = std::max(walk.bus, channel.ticks() * machine.clockMhz / (cost::kStreamBandwidth * dram.clockMhz));
  const double share = double(runs) / double(done);
  return {share * walk.bus, share * walk.segments, share * walk.bursts};
}

} // namespace

/// How the vector engine transposes blocks of a copy. A plane holds every unit-th index of the dimension that is innermost as it is read.
/// Loads put runs of `unit` elements side by side, row by row, each row in the next plane; then a pass for every bit of a plane's number
/// exchanges elements between planes, as in a butterfly network. What comes out of it lies in runs along the dimension that is innermost as
/// it is written.
struct accel::Turning {
  size_t read = 0, written = 0; ///< dimensions
  int64_t unit = 1;             ///< elements; a power of two
  int64_t elementBytes = 1, lanes = 1;
  Range half; ///< the first half of the first area; the others follow
  int64_t areas = 0;
  int64_t mostBytes = 0; ///< of a half that blocks use
  int64_t masks = 0; ///< address: for each bit, the words of a vector whose number has it not, and those whose number has it
  /// A group of blocks is loaded before the first of them is stored, so that DRAM turns round twice for all of them.
  bool takesTurns = false;
  /// Of each area that blocks are loaded to, and of each that they are not: the size of the last block there.
  std::array<std::vector<std::vector<int64_t>>, 2> held = {};

  unsigned passes() const { return unsigned(llvm::Log2_64(uint64_t(unit))); }
  bool movesWords() const { return unit * elementBytes > kWord; }
  /// In front of each plane and behind it: vectors that move by a word or more reach so far.
  int64_t margin() const { return movesWords() ? kBurst : 0; }
  int64_t vectorBytes() const { return lanes * kWord; }
  /// The first areas, where blocks are loaded. The others take what every other pass makes, so results lie there after an odd number of passes.
  int64_t loadAreas() const { return passes() % 2 ? std::max<int64_t>(2, areas / 3) : areas - (areas > 4 ? 2 : 1); }
  /// Blocks of which results wait for each other.
  int64_t groupSize() const { return takesTurns ? passes() % 2 ? areas - loadAreas() : loadAreas() : 1; }
};

namespace {

/// Extents of a block as planes have them.
struct Planes {
  int64_t rows = 1;      ///< of each plane: other dimensions and units of the one that is innermost as it is read
  int64_t groups = 1;    ///< of these, units
  int64_t rowBytes = 0;  ///< units of the dimension that is innermost as it is written
  int64_t vectors = 0;   ///< of a plane
  int64_t bytes = 0;     ///< of a plane
  int64_t pitch = 0;     ///< from a plane to the next one in the same half
  int64_t halfBytes = 0; ///< of all planes of a half, margins included
  int64_t first = 0;     ///< from the half's begin to its first plane

  Planes(const Turning &t, llvm::ArrayRef<int64_t> size) {
    for (size_t i = 0; i < size.size(); ++i)
      if (i != t.read && i != t.written)
        rows *= size[i];
    groups = ceilDiv(size[t.read], t.unit);
    rows *= groups;
    rowBytes = roundUp(size[t.written], t.unit) * t.elementBytes;
    bytes = rows * rowBytes;
    vectors = ceilDiv(bytes, t.vectorBytes());
    first = t.margin();
    pitch = vectors * t.vectorBytes() + t.margin();
    halfBytes = first + t.unit / kHalves * pitch;
  }
};

/// Where a plane lies that is found by the bits of its number without bit `apart`, which says the half: the stride of bit `bit`.
int64_t strideOfBit(unsigned bit, unsigned apart, const Planes &planes, int64_t half) {
  return bit == apart ? half : planes.pitch << (bit > apart ? bit - 1 : bit);
}

struct Choice {
  std::vector<int64_t> block;
  int64_t unit = 1;
  double cycles = 0;
};

/// Cycles of a copy in blocks of `size`, about: those of the busiest engine, and how long the first block takes until it is written.
double cyclesOf(const Copy &copy, llvm::ArrayRef<int64_t> size, const Turning *turning, bool apart, uint64_t from, uint64_t to,
                const timing::MachineParams &machine) {
  const int64_t es = byteSize(copy.type);
  const double perCycle = machine.burstsPerCycle, engines = std::min(machine.loadEngines, 2u);
  std::vector<std::pair<int64_t, int64_t>> reads, writes;
  int64_t readRun = es, writeRun = es;
  // Where elements move one by one, those of the other direction move in runs that are as long as the block is dense.
  int64_t dense = 1;
  for (size_t i = copy.shape.size(); i-- > 0;) {
    if (turning && i == turning->read)
      readRun = size[i] * es;
    else
      reads.push_back({size[i], copy.fromStride[i] * es});
    if (copy.toStride[i] == dense && (!turning || i == turning->written)) {
      dense *= size[i];
      writeRun = dense * es;
      if (size[i] < copy.shape[i])
        dense = 0;
    } else {
      writes.push_back({size[i], copy.toStride[i] * es});
    }
  }
  const Walk read = walkOf(from, readRun, std::move(reads), false, machine),
             write = walkOf(to, writeRun, std::move(writes), true, machine);
  const double elements = double(elementsOf(size)), blocks = double(elementsOf(copy.shape)) / elements,
               bus = read.bus + write.bus + 2 * timing::dramTypicalLatencyCycles(machine);
  // An engine asks for bursts in each cycle in which it begins one, and in that cycle no other does.
  auto asking = [&](double pieces) { return read.bursts * std::min(1.0, pieces / (read.bursts * perCycle)); };
  if (!turning) {
    const double permuted = elements * double(es) / double(commonRun(copy)) / perCycle, turns = engines + (apart ? 1 : 0),
                 store = write.segments / perCycle;
    const double steady =
        apart ? std::max({bus, (permuted + store) / turns, asking(elements)}) : permuted / engines + std::max(write.bus, store);
    return blocks * steady + std::max(read.bus, permuted);
  }
  const double runs = elements / double(size[turning->read]) * double(ceilDiv(size[turning->read], turning->unit));
  const double pieces = std::max(read.segments, runs);
  const double load = std::max(pieces / (perCycle * engines), asking(pieces)), store = write.segments / perCycle;
  const double pass = double(Planes(*turning, size).vectors * turning->unit) * (apart ? 1 : 2),
               vector = pass * turning->passes();
  const double drain = turning->passes() * double(timing::vectorDrain(machine.timing, machine.vectorStages, machine.lanes));
  const double loads = std::max(read.bus, load), stores = std::max(write.bus, store),
               latency = timing::dramTypicalLatencyCycles(machine);
  if (turning->takesTurns && apart) {
    const double group = std::min(blocks, double(turning->groupSize()));
    return blocks * (std::max(loads, vector) + stores + 2 * latency / group) +
           std::max(0.0, vector + drain - (group - 1) * stores);
  }
  const double steady = apart ? std::max({bus, load, vector, store}) : loads + vector + stores;
  return blocks * steady + std::max(read.bus, load) + vector + drain;
}

} // namespace

uint64_t Emitter::addressOf(const View &view) const {
  const size_t tensor = size_t(view.tensor);
  return kernel.tensors[tensor].role == KernelTensor::Constant ? constantAddress[tensor] : addresses[tensor];
}

/// A block by DMA alone: its loads move single elements, or its stores do.
void Emitter::moveBlock(const Copy &copy, const CopyBlock &block, const Buffer &staging, unsigned unit, bool storePermutes) {
  const int64_t es = byteSize(copy.type);
  const size_t rank = copy.shape.size();
  // On chip, innermost first: as it is written, so that the load moves single elements, or as it is read, so that the store does.
  std::vector<size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), size_t(0));
  if (storePermutes)
    llvm::stable_sort(order, [&](size_t a, size_t b) { return std::abs(copy.fromStride[a]) < std::abs(copy.fromStride[b]); });
  TileStep step;
  bool miss;
  const unsigned slot = acquire(staging, {int64_t(clock)}, miss);
  std::vector<BoxDim> from(rank), to(rank);
  int64_t dense = es, source = copy.from.offset, target = copy.to.offset;
  for (size_t i : order) {
    const int64_t count = block.size[i], inner = copy.shape[i] - copy.padLow[i] - copy.padHigh[i];
    const int64_t start = block.at[i] - copy.padLow[i];
    from[i].count = to[i].count = count;
    from[i].low = std::clamp<int64_t>(-start, 0, count);
    from[i].high = std::clamp<int64_t>(start + count - inner, 0, count - from[i].low);
    from[i].dram = copy.fromStride[i] * es;
    to[i].dram = copy.toStride[i] * es;
    from[i].onChip = to[i].onChip = dense;
    dense *= count;
    source += std::max<int64_t>(start, 0) * copy.fromStride[i];
    target += block.at[i] * copy.toStride[i];
  }
  addLoad(step, staging, slot, unit, addressOf(copy.from) + uint64_t(source * es), unsigned(es), from, copy.fill);
  addStore(step, staging.address[slot], addresses[size_t(copy.to.tensor)] + uint64_t(target * es), unsigned(es), to);
  steps.push_back(std::move(step));
}

/// A block through the vector engine: buffers.all are the areas that it is loaded to, and the others.
void Emitter::turnBlock(const Copy &copy, const CopyBlock &block, Turning &turning, TileStep &step, TileStep &stores) {
  const int64_t es = turning.elementBytes, unit = turning.unit, half = turning.half.size();
  const Planes planes(turning, block.size);
  const unsigned passes = turning.passes(), top = passes - 1;
  bool miss;
  const unsigned loaded = acquire(buffers.all[0], {int64_t(clock)}, miss),
                 other = acquire(buffers.all[1], {int64_t(clock)}, miss);
  const int64_t area[2] = {buffers.all[0].address[loaded], buffers.all[1].address[other]};

  // Other dimensions, as rows of a plane.
  std::vector<BoxDim> fromRows, toRows;
  uint64_t source = addressOf(copy.from) + uint64_t(copy.from.offset * es),
           target = addresses[size_t(copy.to.tensor)] + uint64_t(copy.to.offset * es);
  int64_t row = planes.groups * planes.rowBytes;
  for (size_t i = copy.shape.size(); i-- > 0;) {
    source += uint64_t(block.at[i] * copy.fromStride[i] * es);
    target += uint64_t(block.at[i] * copy.toStride[i] * es);
    if (i == turning.read || i == turning.written)
      continue;
    fromRows.push_back({block.size[i], copy.fromStride[i] * es, row, 0, 0});
    toRows.push_back({block.size[i], copy.toStride[i] * es, row, 0, 0});
    row *= block.size[i];
  }

  // What vectors read behind the last plane's rows, around planes and where units are not full is never part of a result, but it must be there.
  // Blocks of the same size leave it as it is; where units are not full, areas are filled whole before their first block.
  const int64_t a = block.size[turning.read], b = block.size[turning.written], ofHalf = unit / kHalves;
  auto fill = [&](unsigned which, unsigned slot, int64_t offset, int64_t bytes, int64_t count) {
    if (bytes > 0)
      addLoad(
          step, buffers.all[which], slot, 0, 0, unsigned(es),
          {{bytes / es, es, es, 0, 0}, {count, planes.pitch, planes.pitch, 0, 0}, {kHalves, half, half, 0, 0}, {1, 0, 0, 0, 1}},
          0, offset);
  };
  for (unsigned which = 0; which < 2; ++which) {
    std::vector<int64_t> &size = turning.held[which][which ? other : loaded];
    // Of the areas that no block is loaded to, the passes behind the first read words, or do not leave the planes.
    const int64_t written = which ? planes.vectors * turning.vectorBytes() : planes.bytes;
    const bool isRead = which == 0 || es << (passes - 1) > kWord;
    if (copy.shape[turning.read] % unit || copy.shape[turning.written] % unit) {
      if (size.empty() && isRead)
        fill(which, which ? other : loaded, 0, turning.mostBytes, 1);
    } else if (size != block.size && isRead) {
      fill(which, which ? other : loaded, 0, planes.first, 1);
      fill(which, which ? other : loaded, planes.first + written, planes.pitch - written, unit / kHalves);
    }
    size = block.size;
  }

  // Runs of a unit; at the end of a dimension some are shorter, or some are missing. Two engines load to a half each, as each keeps others out of
  // its banks, from the same rows of DRAM. Where these do not end with a burst, both would read it: then the engines load a block each.
  const int64_t stride = copy.fromStride[turning.written] * es;
  const bool areTwo = machine.loadEngines > 1, sharesBlock = areTwo && a * es % kBurst == 0;
  auto load = [&](int64_t group, int64_t groups, int64_t run, int64_t first, int64_t count, int64_t rows) {
    if (groups == 0 || count == 0)
      return;
    const bool isWhole = rows == unit && !sharesBlock;
    for (int64_t h = 0; h < (isWhole ? 1 : kHalves); ++h) {
      const int64_t there = std::clamp<int64_t>(rows - h * ofHalf, 0, ofHalf);
      if (there == 0)
        continue;
      std::vector<BoxDim> dims = {{run, es, es, 0, 0},
                                  {groups, unit * es, planes.rowBytes, 0, 0},
                                  {there, stride, planes.pitch, 0, 0},
                                  {isWhole ? kHalves : 1, ofHalf * stride, half, 0, 0},
                                  {count, unit * stride, unit * es, 0, 0}};
      dims.insert(dims.end(), fromRows.begin(), fromRows.end());
      addLoad(step, buffers.all[0], loaded,
              sharesBlock ? unsigned(h)
              : areTwo    ? loaded % 2
                          : 0,
              source + uint64_t(group * unit * es + (first * unit + h * ofHalf) * stride), unsigned(es), std::move(dims), 0,
              h * half + planes.first + group * planes.rowBytes + first * unit * es);
    }
  };
  for (const auto &[first, count, rows] : {std::array<int64_t, 3>{0, b / unit, unit}, {b / unit, b % unit ? 1 : 0, b % unit}}) {
    load(0, a / unit, unit, first, count, rows);
    load(a / unit, a % unit ? 1 : 0, a % unit, first, count, rows);
  }

  // Passes, from the highest bit of a plane's number down.
  for (unsigned pass = 0; pass < passes; ++pass) {
    const unsigned bit = top - pass, next = bit ? bit - 1 : top;
    const int64_t from = area[pass % 2] + planes.first, to = area[(pass + 1) % 2] + planes.first;
    const int64_t moved = es << bit; // bytes
    const unsigned others = passes - 1, counted = std::min(others, kCountedBits);
    for (int64_t which = 0; which < int64_t(2) << (others - counted); ++which) {
      const int64_t upper = which % 2, planesBefore = which / 2 << counted;
      isa::Vector v;
      v.a_type = v.b_type = v.d_type = int64_t(LaneType::I32);
      v.b_enable = 1;
      v.window = {1, 1};
      v.counts = {planes.vectors, 1, 1, 1};
      auto made = [&](unsigned i) { return strideOfBit(i < bit ? i : i + 1, next, planes, half); };
      v.a_address = from + planesBefore * planes.pitch + (upper && moved >= kWord ? moved : 0);
      v.b_address = from + half + planesBefore * planes.pitch - (!upper && moved >= kWord ? moved : 0);
      v.d_address = to + upper * strideOfBit(bit, next, planes, half);
      for (unsigned i = counted; i < others; ++i)
        v.d_address += (planesBefore >> i & 1) * made(i);
      v.a_strides[0] = v.b_strides[0] = v.d_strides[0] = turning.vectorBytes();
      v.a_span = v.b_span = v.d_span = planes.vectors * turning.vectorBytes();
      for (unsigned i = 0; i < counted; ++i) {
        v.counts[i + 1] = 2;
        v.a_strides[i + 1] = v.b_strides[i + 1] = planes.pitch << i;
        v.d_strides[i + 1] = made(i);
        v.a_span += planes.pitch << i;
        v.b_span += planes.pitch << i;
        v.d_span += made(i);
      }
      auto stage = [&](isa::StageOp op, isa::StageOperand operand = isa::StageOperand::None) {
        v.stage_op[size_t(v.num_stages)] = int64_t(op);
        v.stage_operand[size_t(v.num_stages++)] = int64_t(operand);
      };
      using isa::StageOp, isa::StageOperand;
      if (moved >= kWord) { // lanes of one plane beside lanes of the other
        v.p_address = turning.masks + (llvm::Log2_64(uint64_t(moved / kWord))) * 2 * turning.vectorBytes();
        v.p_count = 2;
        v.p_span = 2 * turning.vectorBytes();
        stage(StageOp::Iand, StageOperand::P0);
        stage(StageOp::Save);
        stage(StageOp::LoadB);
        stage(StageOp::Iand, StageOperand::P1);
      } else { // parts of words
        const uint32_t bits = uint32_t(8 * moved), low = bits == 16 ? 0x0000ffffu : 0x00ff00ffu;
        v.immediates[0] = low;
        v.immediates[1] = upper ? bits : int64_t(1) << bits;
        v.immediates[2] = uint32_t(~low);
        if (upper)
          stage(StageOp::Ishr, StageOperand::Imm1);
        stage(StageOp::Iand, StageOperand::Imm0);
        stage(StageOp::Save);
        stage(StageOp::LoadB);
        stage(StageOp::Iand, upper ? StageOperand::Imm2 : StageOperand::Imm0);
        if (!upper)
          stage(StageOp::Imul, StageOperand::Imm1);
      }
      stage(StageOp::Ior, StageOperand::Saved);
      addVector(step, v);
    }
  }

  const int64_t result = area[passes % 2] + planes.first, given = copy.toStride[turning.read] * es;
  auto store = [&](int64_t group, int64_t groups, int64_t there) {
    const bool isWhole = there == unit;
    for (int64_t h = 0; h < (isWhole ? 1 : kHalves) && groups > 0; ++h) {
      const int64_t count = isWhole ? ofHalf : std::clamp<int64_t>(there - h * ofHalf, 0, ofHalf);
      if (count == 0)
        continue;
      std::vector<BoxDim> dims = {{b, es, es, 0, 0},
                                  {count, given, planes.pitch, 0, 0},
                                  {isWhole ? kHalves : 1, ofHalf * given, half, 0, 0},
                                  {groups, unit * given, planes.rowBytes, 0, 0}};
      dims.insert(dims.end(), toRows.begin(), toRows.end());
      addStore(stores, result + h * half + group * planes.rowBytes, target + uint64_t((group * unit + h * ofHalf) * given),
               unsigned(es), std::move(dims));
    }
  };
  store(0, a / unit, unit);
  store(a / unit, a % unit ? 1 : 0, a % unit);
}

/// How the vector engine transposes blocks, in units of so many elements; nothing where it cannot.
static std::optional<Turning> turningOf(const Copy &copy, int64_t unit, const Range &room,
                                        const timing::MachineParams &machine) {
  constexpr uint32_t kStages = 6; // of a pass that moves parts of words
  Turning turning;
  turning.unit = unit;
  turning.elementBytes = byteSize(copy.type);
  turning.lanes = machine.lanes;
  const std::vector<size_t> read = inOrder(copy, copy.fromStride), written = inOrder(copy, copy.toStride);
  for (size_t i = 0; i < copy.shape.size(); ++i)
    if (isPadded(copy, i) || copy.fromStride[i] <= 0)
      return std::nullopt;
  if (read.empty() || copy.fromStride[read[0]] != 1 || copy.toStride[written[0]] != 1 || read[0] == written[0] ||
      machine.vectorStages < kStages || unit * turning.elementBytes < kWord ||
      unit * turning.elementBytes > machine.lanes * kWord)
    return std::nullopt;
  turning.read = read[0];
  turning.written = written[0];
  turning.masks = room.begin;
  return turning;
}

/// Whether there is room for blocks of `size`. Engines that share a bank take turns at it: each half has banks of its own if there are
/// enough, and so have the masks.
static bool findRoom(Turning &turning, llvm::ArrayRef<int64_t> size, const Range &room, int64_t bank) {
  const int64_t bytes = Planes(turning, size).halfBytes, masks = roundUp(2 * turning.passes() * turning.vectorBytes(), kBurst);
  for (int64_t unit : {bank, kBurst}) {
    const int64_t half = roundUp(bytes, unit), first = roundUp(room.begin + (turning.movesWords() ? masks : 0), unit);
    turning.half = {first, first + half};
    turning.mostBytes = bytes;
    turning.areas = std::min((room.end - first) / (kHalves * half), kMostAreas);
    if (turning.areas >= kLeastAreas)
      return true;
  }
  return false;
}

/// Lanes of words whose number has a bit, and those whose number does not, for each of the lowest bits.
static std::vector<uint8_t> masksOf(const Turning &turning) {
  std::vector<uint8_t> bytes;
  for (unsigned bit = 0; bit < turning.passes(); ++bit)
    for (unsigned set = 0; set < 2; ++set)
      for (int64_t lane = 0; lane < turning.lanes; ++lane)
        bytes.insert(bytes.end(), size_t(kWord), (lane >> bit & 1) == set ? 0xff : 0);
  return bytes;
}

void Emitter::emitCopies() {
  // Blocks that an engine permutes are many, and engines have turns. What moves in whole bursts is all transfer: reads and writes apart
  // unless there is no turnaround to pay for.
  const bool permutes = llvm::any_of(kernel.copies, [](const Copy &copy) { return commonRun(copy) < kBurst; });
  if (!permutes && mixed(1, 1) > 1 && schedule == Schedule::DoubleBuffer)
    schedule = Schedule::Serial;
  network.choices.resize(layer + 1);
  network.choices[layer] = schedule == Schedule::Serial ? "copies, no overlap" : "copies, depth 2";
  // Slots lie apart, so that engines do not share banks.
  const bool alternates = permutes && schedule != Schedule::Serial;
  const unsigned slots = schedule == Schedule::Serial ? 1 : alternates ? 4 : 2, parts = std::max(slots, 2u);
  const int64_t capacity = room.size() / parts / kBurst * kBurst, bank = int64_t(machine.scratchpads[0].bankBytes());
  const unsigned engines = std::min(machine.loadEngines, 2u);
  Buffer staging;
  staging.bytes = capacity;
  staging.slots = slots;
  for (unsigned slot = 0; slot < slots; ++slot)
    staging.address.push_back(room.begin + int64_t(slot) * capacity);
  buffers.all = {staging};
  buffers.results = {0};
  emptySlots();

  for (const Copy &given : kernel.copies) {
    const bool isPermuted = commonRun(given) < kBurst;
    const Copy copy = isPermuted ? withFewDims(given) : given;
    const int64_t es = byteSize(copy.type);
    Choice best;
    std::optional<Turning> turning;
    if (!isPermuted || !alternates) {
      best.block = isPermuted ? blockOf(copy, capacity, kBurst) : rowsOf(copy, capacity);
    } else {
      const uint64_t from = addressOf(copy.from) + uint64_t(copy.from.offset * es),
                     to = addresses[size_t(copy.to.tensor)] + uint64_t(copy.to.offset * es);
      auto consider = [&](std::vector<int64_t> block, const std::optional<Turning> &with, bool apart) {
        const double cycles = cyclesOf(copy, block, with ? &*with : nullptr, apart, from, to, machine);
        if (!best.block.empty() && cycles >= best.cycles)
          return;
        best = {std::move(block), with ? with->unit : 1, cycles};
        turning = with;
      };
      // From small blocks, so that the first one is soon there, to those that hardly fit; the runs of one direction may be longer.
      std::vector<std::vector<int64_t>> blocks;
      constexpr int64_t kLeast = 1024; // bytes
      for (int64_t most = kLeast; most <= room.size() / 3; most *= 2)
        for (const auto &[reads, writes] : {std::pair(1, 1), std::pair(1, 4), std::pair(1, 16), std::pair(4, 1)})
          blocks.push_back(blockOf(copy, most, kBurst, reads, writes));
      for (int64_t run = kBurst; run >= kWord; run /= 2) // small scratchpads have no room for whole bursts both ways
        blocks.push_back(blockOf(copy, capacity, run));
      llvm::sort(blocks);
      blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
      for (const std::vector<int64_t> &block : blocks)
        if (elementsOf(block) * es <= capacity)
          consider(block, std::nullopt, capacity % bank == 0);
      // Areas of the vector engine lie where slots of other copies are: the copy must be the only one.
      for (int64_t unit = 2; unit <= kMostUnit && kernel.copies.size() == 1; unit *= 2) {
        std::optional<Turning> with = turningOf(copy, unit, room, machine);
        for (size_t i = 0; with && i < blocks.size(); ++i) {
          std::vector<int64_t> block = blocks[i];
          for (size_t dim : {with->read, with->written})
            block[dim] = std::min(roundUp(block[dim], unit), copy.shape[dim]);
          if (!findRoom(*with, block, room, bank))
            continue;
          for (bool takesTurns : {false, true}) {
            with->takesTurns = takesTurns;
            consider(block, with, with->half.size() % bank == 0);
          }
        }
      }
    }

    if (turning) {
      network.choices[layer] = "copies, depth 2, transposed on the vector engine in units of " + std::to_string(best.unit);
      buffers.all.resize(2);
      int64_t area = 0;
      for (size_t which = 0; which < 2; ++which) {
        Buffer &areas = buffers.all[which];
        areas = {};
        areas.bytes = kHalves * turning->half.size();
        areas.slots = unsigned(which == 0 ? turning->loadAreas() : turning->areas - turning->loadAreas());
        for (unsigned slot = 0; slot < areas.slots; ++slot)
          areas.address.push_back(turning->half.begin + area++ * kHalves * turning->half.size());
        turning->held[which].resize(areas.slots);
      }
      if (turning->movesWords()) {
        std::vector<uint8_t> masks = masksOf(*turning);
        const int64_t bytes = int64_t(masks.size());
        Buffer held;
        held.bytes = bytes;
        held.address = {turning->masks};
        const uint64_t address = network.addConstant(size_t(bytes), [masks = std::move(masks)] { return masks; });
        TileStep step;
        addLoad(step, held, 0, 0, address, unsigned(kWord), {{bytes / kWord, kWord, kWord, 0, 0}}, 0);
        steps.push_back(std::move(step));
      }
      emptySlots();
    }
    CopyBlock block{std::vector<int64_t>(copy.shape.size(), 0), best.block};
    TileStep stores; // of the group at hand
    for (int64_t number = 0; !isTooLong(); ++number) {
      for (size_t i = 0; i < copy.shape.size(); ++i)
        block.size[i] = std::min(best.block[i], copy.shape[i] - block.at[i]);
      CopyBlock next = block;
      size_t i = copy.shape.size();
      while (i-- > 0) {
        next.at[i] += best.block[i];
        if (next.at[i] < copy.shape[i])
          break;
        next.at[i] = 0;
      }
      const bool isLast = i == size_t(-1);
      if (turning) {
        // What a group stores comes behind all that it loads, and what the next group loads comes behind that.
        const bool begins = number % turning->groupSize() == 0, ends = (number + 1) % turning->groupSize() == 0 || isLast;
        TileStep step;
        turnBlock(copy, block, *turning, step, stores);
        if (turning->takesTurns && begins) {
          for (schedule::Operation &load : step.early)
            load.turns = true;
          std::swap(step.early, step.late);
        }
        if (ends) {
          stores.compute.front().operations.front().turns = turning->takesTurns;
          std::move(stores.compute.begin(), stores.compute.end(), std::back_inserter(step.compute));
          stores.compute.clear();
        }
        steps.push_back(std::move(step));
      } else {
        // The load engines and the store engine permute blocks in turns.
        const bool isStoreTurn = alternates && number % (engines + 1) == engines;
        const int64_t unit = !alternates ? 0 : (isStoreTurn ? number / (engines + 1) : number % (engines + 1)) % engines;
        moveBlock(copy, block, buffers.all[0], unsigned(unit), isStoreTurn);
      }
      if (isLast)
        break;
      block.at = std::move(next.at);
    }
  }
}
