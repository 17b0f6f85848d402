//===- EmitterCost.cpp - What a tile costs ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "compiler/cost/Constants.h"
#include "compiler/schedule/Overlap.h"
#include "compiler/schedule/Reroll.h"
#include "compiler/schedule/Synchronize.h"
#include "isa/timing/Dram.h"
#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace tw;
using namespace tw::accel;

/// What a transfer costs: bytes of whole bursts on the data bus, those for which there would have been room meanwhile, and segments on
/// the scratchpad side.
struct Emitter::Transfer {
  double bytes = 0, slots = 0, segments = 0;

  /// A box of `rows` x `width` runs of `channels` elements out of `allChannels` in DRAM; runs join where whole pixels do.
  static Transfer box(int64_t channels, int64_t allChannels, int64_t width, int64_t rows, int64_t elementSize,
                      const timing::MachineParams &machine) {
    double run = double(std::min(channels, allChannels) * elementSize);
    Transfer t;
    t.segments = double(rows * width) * std::max(1.0, run / kBurst);
    // A run that may start anywhere on a grid of g bytes touches 64 - g bytes more than its length, on average of its ends.
    double excess = double(kBurst - std::gcd(std::gcd(allChannels, channels) * elementSize, kBurst));
    t.bytes = t.slots = double(rows) * (run * double(width) + excess);
    if (channels < allChannels) {
      t.bytes = double(rows * width) * (run + excess) * sameGroup(run, machine.dram);
      t.slots = t.bytes * fewChannels(run, allChannels * elementSize, machine);
    }
    return t;
  }
  /// Runs of `run` bytes, `stride` bytes apart, may lie in a part of the channels only: how much longer the bus takes for them.
  static double fewChannels(double run, int64_t stride, const timing::MachineParams &machine) {
    const timing::DramParams &dram = machine.dram;
    if (dram.kind == timing::DramKind::Ideal || stride % dram.burstBytes)
      return 1;
    // Channels for each burst of a run.
    const double perBurst = double(std::gcd<int64_t>(dram.channels, stride / dram.burstBytes));
    const double alone = perBurst / std::ceil(run / double(dram.burstBytes));
    // An engine need not be able to keep all channels busy.
    const double engine =
        std::min(double(machine.burstsPerCycle) * double(dram.burstBytes), timing::loadBytesPerCycle(machine)) /
        dramBytesPerCycle(machine);
    return 1 + cost::kIdleChannels * std::max(0.0, alone * std::min(engine, 1.0) - 1);
  }
  /// Short runs at a regular distance tend to stay in one bank group, whose columns are further apart in time.
  static double sameGroup(double run, const timing::DramParams &dram) {
    double bursts = std::max(1.0, run / kBurst);
    if (dram.kind == timing::DramKind::Ideal || bursts >= dram.bankGroups)
      return 1;
    return ((bursts - 1) * dram.nCCDS + dram.nCCDL) / (bursts * dram.nCCDS);
  }
  static Transfer dense(double bytes) { return {bytes, bytes, bytes / kBurst}; }
  Transfer operator*(double n) const { return {bytes * n, slots * n, segments * n}; }
  Transfer &operator+=(const Transfer &other) {
    bytes += other.bytes;
    slots += other.slots;
    segments += other.segments;
    return *this;
  }
  double cycles(double bandwidth, double perCycle) const { return std::max(slots / bandwidth, segments / perCycle); }
  /// The same of loads by one engine, which may have to wait for what is in flight.
  double loadCycles(double bandwidth, const timing::MachineParams &machine) const {
    return std::max(cycles(bandwidth, machine.burstsPerCycle), bytes / timing::loadBytesPerCycle(machine));
  }
};

/// Tiles along each way, and how much of a tile's size they have on average.
struct Emitter::TileCounts {
  double positions = 1, channels = 1, inputs = 1, groups = 1;
  double positionShare = 1, channelShare = 1, inputShare = 1;

  double results() const { return positions * channels * groups; }
  double visits() const { return results() * inputs; }
};

/// How often tiles load their operands.
struct Emitter::OperandLoads {
  double inputs = 0, weights = 0;
  bool inputsStream = false, weightsStream = false; ///< loaded whenever a tile takes them
  double runs = 1;                                  ///< of tiles that take input channels together
};

/// How much longer the data bus takes when reads and writes are interleaved: turnarounds and closed rows.
double Emitter::mixed(double readBytes, double writeBytes) const {
  if (machine.dram.kind == timing::DramKind::Ideal || readBytes + writeBytes == 0)
    return 1;
  return 1 + cost::kTurnaround * std::min(readBytes, writeBytes) / (readBytes + writeBytes);
}

Emitter::TileCounts Emitter::countTiles(const Tile &t) const {
  // The last tile of each axis may be smaller. That counts for kernels alone, whose best tiles the list scheduler looks at again.
  auto shareOf = [&](int64_t extent, double tiles, int64_t size) {
    return onChip.hasNeighbours || !overlaps() ? 1 : std::min(1.0, double(extent) / (tiles * double(size)));
  };
  TileCounts counts;
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    const double tiles = double(tilesAlong(axis, t));
    counts.positions *= tiles;
    counts.positionShare *= shareOf(kernel.extent[axis], tiles, t.tile[axis]);
  }
  counts.channels = double(ceilDiv(channels(), t.tile[C]));
  counts.channelShare = shareOf(channels(), counts.channels, t.tile[C]);
  if (contraction()) {
    counts.groups = double(kernel.anchor->groups);
    counts.inputs = double(ceilDiv(kernel.anchor->ic, t.tileK));
    counts.inputShare = shareOf(kernel.anchor->ic, counts.inputs, t.tileK);
  }
  return counts;
}

/// The anchor's input for a tile, from DRAM.
Emitter::Transfer Emitter::inputTransfer(const Tile &t) const {
  const Anchor &anchor = *kernel.anchor;
  const int64_t elementSize = loadedBytes();
  if (unpacked) {
    // A run for every row of every column; rows that tiles share are read again.
    const int64_t channelsApart = packsPlanes() ? unpacked->ic : 1, together = unpacked->ic / channelsApart;
    const Extent size = madeSums(t);
    const int64_t loaded = unpacked->axes[1].span(size[P1]) - (copiesRows(t) ? copiedRows(kernel, *unpacked, machine) : 0);
    const double rows = double(loaded * size[P2] * channelsApart);
    if (packsOnChip()) {
      const WindowAxis &w = unpacked->axes[0];
      const int64_t span = w.span(size[P0]);
      Transfer input = Transfer::box(span * together, w.inputSize * together, 1, int64_t(rows), elementSize, machine);
      if (packsPlanes())
        input.segments = rows * double(span);
      return input;
    }
    const double pixel = double(together * elementSize), step = double(unpacked->axes[0].stride) * pixel;
    Transfer input;
    for (const Range &taps : tapRuns) {
      const double run = double(taps.size()) * pixel;
      input.segments += rows * double(size[P0]) * (1 + (run - double(elementSize)) / kBurst); // some lie in two bursts
      // Runs across the end of a burst take turns at it and the next one.
      const double length = run + double(size[P0] - 1) * step;
      input.bytes += rows * (length + double(kBurst - elementSize) +
                             2 * std::max(0.0, (run - double(elementSize)) / step - 1) * (length - double(elementSize)));
    }
    input.slots = input.bytes;
    return input;
  }
  int64_t tileChannels = contraction() ? t.tileK : t.tile[C];
  int64_t allChannels = contraction() ? anchor.ic * anchor.groups : kernel.extent[C];
  int64_t width = std::min(inputSpan(t, P0), anchor.axes[0].inputSize);
  const int64_t height = std::min(inputSpan(t, P1), anchor.axes[1].inputSize);
  if (const Anchor::Pixels &pixels = anchor.pixels; pixels.count > 1) { // a row is one run
    tileChannels = allChannels = std::min(pixels.span(inputSpan(t, P0)), pixels.inputSize) * pixelChannels();
    width = 1;
  }
  if (rollsInput(t))
    return Transfer::box(tileChannels, allChannels, width, 1, elementSize, machine) *
           (rowsLoaded(t) / double(tilesAlong(P1, t)));
  // A channel stride other than 1 makes every element a run of its own.
  if (anchor.input.stride[C] > 1)
    return Transfer::box(1, 2, width * tileChannels, height * t.tile[P2], elementSize, machine);
  return Transfer::box(tileChannels, allChannels, width, height * t.tile[P2], elementSize, machine);
}

/// The weights of a tile, from DRAM. Constants lie there in the order of use, and a column is one run; others lie as what made them wrote them.
Emitter::Transfer Emitter::weightTransfer(const Tile &t) const {
  if (constantWeights() || channels() == 1)
    return Transfer::dense(double(weightTileBytes(t)));
  const Anchor &anchor = *kernel.anchor;
  const int64_t elementSize = elementBytes(), taps = anchor.axes[0].kernel * anchor.weightRows();
  const int64_t inputs = std::min(t.tileK, anchor.ic), results = std::min(t.tile[C], channels());
  if (anchor.weightIc == 1)
    return Transfer::box(inputs, anchor.weightOc, results, taps, elementSize, machine);
  if (anchor.weightOc == 1)
    return Transfer::box(results, anchor.weightIc, inputs, taps, elementSize, machine);
  return Transfer::box(1, 2, inputs * results, taps, elementSize, machine);
}

/// How often the next tile begins with the k blocks that its slots hold: of the input, and of the weights. Only serpentine order turns.
std::pair<double, double> Emitter::turnedLoads(const Tile &t, const TileCounts &tiles) const {
  if (!t.serpentine || t.kOuter())
    return {0, 0};
  const double m = tiles.positions, n = tiles.channels;
  const double shared = tiles.groups * (t.channelsOuter() ? n * (m - 1) : m * (n - 1));
  const double other = t.channelsOuter() ? (m == 1) * (n - 1) : (n == 1) * (m - 1);
  return t.channelsOuter() ? std::pair(other, shared) : std::pair(shared, other);
}

/// How often the tiles walk over an input that stays: strips of a sum line buffer take turns at the slots of the accumulator.
double Emitter::inputWalks(const Tile &t, int64_t sumSlots) const {
  return hasSumLineBuffer(t) ? std::ceil(double(ceilDiv(channels(), t.tile[C])) / double(sumSlots)) : 1;
}

Emitter::OperandLoads Emitter::operandLoads(const Tile &t, const Buffers &b, const TileCounts &tiles) const {
  OperandLoads loads;
  loads.inputs = tiles.visits();
  loads.weights = b.weights >= 0 ? tiles.visits() : 0;
  const double inputSlots = b.input >= 0 ? b.all[size_t(b.input)].slots : 0;
  const double weightSlots = b.weights >= 0 ? b.all[size_t(b.weights)].slots : 0;
  bool inputStays = rollsInput(t) || (t.channelsOuter() ? tiles.positions : 1) * tiles.inputs <= inputSlots;
  bool weightsStay =
      t.channelsOuter() || !contraction() ? tiles.inputs <= weightSlots : tiles.channels * tiles.inputs <= weightSlots;
  if (t.kOuter()) {
    inputStays = !t.channelsOuter() || tiles.positions <= inputSlots;
    weightsStay = t.channelsOuter() || tiles.channels <= weightSlots;
    loads.runs = double(ceilDiv(int64_t(tiles.results()), tilesTogether(t)));
  }
  if (inputStays && contraction())
    loads.inputs = tiles.positions * tiles.inputs * tiles.groups * (t.channelsOuter() ? loads.runs : 1) *
                   inputWalks(t, b.all[size_t(b.accumulator)].slots);
  // A kernel of a group goes over its weights once per band.
  const double weights = tiles.channels * tiles.inputs * tiles.groups;
  if (weightsStay && loads.weights > 0)
    loads.weights = weights * (t.channelsOuter() ? 1 : loads.runs) * (weights <= weightSlots ? 1 : double(bands.size()));
  loads.inputsStream = loads.inputs == tiles.visits();
  loads.weightsStream = loads.weights == tiles.visits();
  const auto [inputsFound, weightsFound] = turnedLoads(t, tiles);
  if (!inputStays)
    loads.inputs -= inputSlots * inputsFound;
  if (!weightsStay && loads.weights > 0)
    loads.weights -= weightSlots * weightsFound;
  if (residentInput())
    loads.inputs = 0;
  return loads;
}

/// Vectors that convert what a tile loads of the anchor's input.
int64_t Emitter::conversionVectors(const Tile &t) const {
  const Extent made = madeSums(t);
  if (!packsOnChip())
    return packedElements(made) / machine.lanes;
  const int64_t rows = unpacked->axes[1].span(made[P1]), copied = copiesRows(t) ? copiedRows(kernel, *unpacked, machine) : 0;
  return packingVectors(made, rows - copied) + made[P0] * ceilDiv(copied * packedStride[2], machine.lanes);
}

/// Passes of the array for a tile and one block of its input channels.
double Emitter::passCount(const Tile &t) const {
  const Anchor &anchor = *kernel.anchor;
  return double(anchor.axes[0].kernel * anchor.weightRows() * ceilDiv(t.tileK, machine.rows) *
                ceilDiv(t.tile[C], machine.cols));
}

/// The same in cycles, beside loads and results.
double Emitter::passCycles(const Tile &t) const {
  return passCount(t) * std::max(double(passRows(madeSums(t))) * tapShare, double(preloadCycles(machine))) +
         double(ceilDiv(machine.rows, machine.preloadRowsPerCycle));
}

/// Cycles of the vector engine for a row of outputs, of which the first one shares no taps.
static int64_t windowRowCycles(const WindowAxis &along, const WindowAxis &across) {
  return across.kernel * (along.kernel + (along.size - 1) * newColumns(along, across));
}

double accel::partCycles(const Kernel &kernel, llvm::ArrayRef<WindowPart> parts) {
  const unsigned along = isColumn(kernel) ? P1 : P0, across = isColumn(kernel) ? P0 : P1;
  const int64_t outputs = kernel.window(along).size;
  int64_t cycles = parts.size() > 1 ? outputs * int64_t(parts.size()) : 0;
  for (const WindowPart &part : parts) {
    WindowAxis axes[] = {kernel.window(P0), kernel.window(P1)};
    axes[0].kernel = part.width;
    axes[1].kernel = part.height;
    cycles += windowRowCycles(axes[along - P0], axes[across - P0]);
  }
  return double(cycles) / double(outputs);
}

llvm::SmallVector<WindowPart, 4> accel::windowParts(const Kernel &kernel) {
  if (!kernel.anchor || kernel.anchor->kind != Anchor::Window || kernel.anchor->pixels.count > 1)
    return {};
  const int64_t width = kernel.window(P0).kernel, height = kernel.window(P1).kernel, held = timing::kReuseTaps;
  llvm::SmallVector<WindowPart, 4> parts;
  for (int64_t y = 0; y < height; y += held)
    for (int64_t x = 0; x < width; x += held)
      parts.push_back({x, y, std::min(held, width - x), std::min(held, height - y)});
  if (partCycles(kernel, parts) * cost::kLeastGain > partCycles(kernel, WindowPart{0, 0, width, height}))
    return {};
  return parts;
}

/// The share of a window's channels that the array computes.
double Emitter::arrayShare(const Tile &t) const { return double(t.arrayChannels) / double(channels()); }

/// Vector instructions that take the sums of a tile. With a line buffer of maxima: for the first row of windows, for the others, and for
/// the maxima that the tile below needs.
double Emitter::windowRuns(const Tile &t) const { return t.maxLineBuffer ? 3 : 1; }

/// Sums that a lead tile (halo) makes above each strip of tiles for their line buffer. Padding has none.
double Emitter::leadSums(const Tile &t) const {
  return t.maxLineBuffer && !kernel.window(P1).padLow ? double(madeSums(t)[P0] * carried * t.tile[P2]) : 0;
}

/// Cycles of the vector engine for the results of a tile.
double Emitter::vectorCycles(const Tile &t) const {
  const double drains = double(ceilDiv(t.tile[C], drained(t)));
  const int64_t blocks = ceilDiv(t.tile[C], int64_t(machine.lanes));
  const double drain = double(timing::vectorDrain(machine.timing, machine.vectorStages, machine.lanes));
  double cycles = 0;
  for (size_t i = 0; i < chains.size(); ++i) {
    double perOutput = i == 0 && pairsRows() ? 2 : 1;
    if (i == 0 && (window() || kernel.maxima)) {
      // Along the way in which neighbours share taps, and across it.
      const WindowAxis &w = kernel.window(goesDown() ? P1 : P0), &h = kernel.window(goesDown() ? P0 : P1);
      const int64_t columns = newColumns(w, h);
      const auto parts = windowParts(t);
      perOutput = parts.empty() ? double(h.kernel * columns) : partCycles(kernel, parts);
      cycles += parts.empty() ? 0 : drain; // of them, before they are put together
      perOutput += arrayShare(t) * (1 - perOutput);
      if (packsRows()) { // columns are short and blocks many: what comes before the first output of each counts
        const int64_t setup = h.kernel * w.kernel + int64_t(chains[i].parameters.size());
        cycles += double(blocks * (setup + t.tile[P0] * t.tile[P2] * h.kernel * (w.kernel - columns)));
      }
    }
    if (i == 0)
      cycles += (windowRuns(t) - 1) * drains * drain;
    const Extent read = i ? kernel.made(t.tile, i - 1) : t.tile; // a window over all positions reads each once
    cycles += double(read[P0] * read[P1] * read[P2] * blocks) * perOutput + drains * drain;
  }
  return cycles;
}

/// Cycles of the array for the channels of a tile's windows that it computes.
double Emitter::windowCycles(const Tile &t) const {
  if (!window() && !kernel.maxima)
    return 0;
  return arrayShare(t) *
         double(ceilDiv(t.tile[C], int64_t(machine.lanes)) * kernel.window(P1).kernel * kernel.window(P0).kernel) *
         std::max(double(positions(t)), double(preloadCycles(machine)));
}

/// Tensors beside the anchor's input for a tile, from DRAM; adds up how many loads they take.
Emitter::Transfer Emitter::sourceTransfer(const Tile &t, const Buffers &b, double &count) const {
  const double drains = double(ceilDiv(t.tile[C], drained(t)));
  Transfer sources;
  for (size_t i = 0; i < std::min(chains.size(), kernel.steps.size()); ++i)
    for (size_t k = 0; k < b.sources[i].size(); ++k) {
      const Source &source = kernel.steps[i].sources[k];
      if (b.sources[i][k] < 0 || residentOf(source.view.tensor) || sameSource(b, i, source) >= 0)
        continue;
      int64_t rows = 1, width = 1;
      for (unsigned axis = P0; axis < kAxes; ++axis)
        if (source.view.stride[axis])
          (axis == P0 ? width : rows) *= t.tile[axis];
      const bool hasChannels = source.view.stride[C];
      const int64_t all = hasChannels ? source.view.channelsRead(kernel.extent[C]) : 1,
                    own = hasChannels ? std::min(drained(t), all) : 1;
      bool scattered = source.view.stride[C] > 1;
      Transfer box = scattered ? Transfer::box(1, 2, width * own, rows, byteSize(source.type), machine)
                               : Transfer::box(own, all, width, rows, byteSize(source.type), machine);
      sources += box * (hasChannels ? drains : 1);
      count += hasChannels ? drains : 1;
    }
  return sources;
}

/// The results of a tile, to DRAM.
Emitter::Transfer Emitter::resultTransfer(const Tile &t) const {
  if (!onChip.storesResult)
    return {};
  const int64_t elementSize = byteSize(chains.back().dType);
  if (kernel.outputReduced)
    return Transfer::box(1, 1, t.tile[P0], t.tile[P1] * t.tile[P2], elementSize, machine);
  const Extent made = kernel.made(t.tile);
  const int64_t pixel = std::max(kernel.extent[C], kernel.output.stride[P0]); // wider where the result is transposed
  return Transfer::box(drained(t), pixel, made[P0], made[P1] * made[P2], elementSize, machine) *
         double(ceilDiv(t.tile[C], drained(t)));
}

/// Cycles before the array has its first operands, and those that it waits for the first tiles of each stationary set. `input`, `weights`: cycles
/// of a tile's load, `passes`: of its passes.
double Emitter::firstLoads(const Tile &t, const Buffers &b, const TileCounts &tiles, double input, double weights,
                           double passes) const {
  const double latency = timing::dramTypicalLatencyCycles(machine);
  // The first tiles of both operands, and the other tiles of a stationary set as far as they come slower than the array uses them. So does
  // the part of the next set that has no slots of its own.
  double late = std::max(0.0, input + weights - passes);
  double missing = t.stationary == Stationary::None ? 0 : tiles.inputs - double(t.tilesAhead(int64_t(tiles.inputs)));
  // A single slot is free only when the last step of its set is done.
  if (t.kOuter())
    late = missing = 0;
  const double alone =
      t.stationary == Stationary::Single && tiles.inputs == 1 ? (t.channelsOuter() ? weights : input) + latency : 0;
  double begin = input + weights + (tiles.inputs - 1) * late;
  if (canBeginWide(t)) {
    const double sums = b.all[size_t(b.accumulator)].slots, inner = t.channelsOuter() ? tiles.positions : tiles.channels;
    const double along = std::min(sums, inner), across = std::ceil(sums / inner);
    const double operands = input * (t.channelsOuter() ? along : across) + weights * (t.channelsOuter() ? across : along);
    begin = std::min(begin, input + weights + (tiles.inputs - 1) * std::max(0.0, operands - sums * passes));
  }
  const double sets = (t.channelsOuter() ? tiles.channels : tiles.positions) * tiles.groups;
  return begin + (sets - 1) * (missing * late + alone);
}

/// tileWork() of a tile whose operands are loaded once and whose engines wait for nothing but the first of them: no order, stationary operand or slots
/// make it less. Nothing where tiles may share sums or packed rows.
std::optional<cost::KernelWork> Emitter::leastWork(const Tile &t) const {
  if (!contraction() || !overlaps() || t.depth == 1 || unpacked || kernel.maxima)
    return std::nullopt;
  const double bandwidth = dramBytesPerCycle(machine);
  const TileCounts tiles = countTiles(t);
  Tile rolled = t;
  if (canRoll(t))
    rolled.lineBuffer = tilesAlong(P1, t);
  const Transfer input = residentInput() ? Transfer() : inputTransfer(rolled);
  const Transfer weights = residentWeights() ? Transfer() : weightTransfer(t);
  const double inputLoads = residentInput() ? 0 : tiles.positions * tiles.inputs * tiles.groups;
  const double weightLoads = residentWeights() ? 0 : tiles.channels * tiles.inputs * tiles.groups;
  const double resultShare = tiles.positionShare * tiles.channelShare, perTile = passCycles(t);
  const Transfer result = resultTransfer(t);
  Transfer moved = input * (inputLoads * tiles.positionShare * tiles.inputShare);
  moved += weights * (weightLoads * tiles.channelShare * tiles.inputShare);
  moved += result * (tiles.results() * resultShare);
  cost::KernelWork work = emptyWork();
  work.bus = moved.slots / bandwidth;
  work.sharedBus = moved.bytes / bandwidth;
  work.loadCount = inputLoads + weightLoads;
  work.visits = tiles.visits();
  work.array = perTile * tiles.visits() * tiles.inputShare * resultShare;
  work.arrayTile = perTile * tiles.inputs;
  work.vectorTile = vectorCycles(t);
  work.vector = work.vectorTile * tiles.results() * resultShare;
  work.firstLoad = (input.slots + weights.slots) / bandwidth;
  work.storeTile = result.cycles(bandwidth, machine.burstsPerCycle);
  return work;
}

/// Of a kernel with nothing to do.
cost::KernelWork Emitter::emptyWork() const {
  cost::KernelWork work;
  work.hasNeighbours = overlaps() && onChip.hasNeighbours;
  work.exposesEnds = overlaps() && !onChip.hasNeighbours;
  work.latency = timing::dramTypicalLatencyCycles(machine);
  return work;
}

/// All that a cost model sees of the tile, but for what estimate() adds.
cost::KernelWork Emitter::tileWork(const Tile &t, const Buffers &b) const {
  const double bandwidth = dramBytesPerCycle(machine), perCycle = machine.burstsPerCycle,
               latency = timing::dramTypicalLatencyCycles(machine);
  const TileCounts tiles = countTiles(t);
  const double outTiles = tiles.results(), kTiles = tiles.inputs;

  Transfer loads[2]; // by load engine
  Transfer input;
  OperandLoads operands;
  double loadCount = 0, tensor = 0, perTileTensor = 0, roundTrips = 0, converting = 0;
  const Transfer weights = b.weights >= 0 && contraction() && !constantWeights()
                               ? weightTransfer(t)
                               : Transfer::dense(b.weights >= 0 ? double(b.all[size_t(b.weights)].bytes) : 0);
  const double weightLoad = std::max(weights.slots / bandwidth, weights.bytes / timing::loadBytesPerCycle(machine));
  if (kernel.anchor) {
    input = inputTransfer(t);
    operands = operandLoads(t, b, tiles);
    const double inputShare = tiles.positionShare * tiles.inputShare, weightShare = tiles.channelShare * tiles.inputShare;
    double inputSlots = b.input >= 0 ? b.all[size_t(b.input)].slots : 0;
    if (conversion) {
      inputSlots = b.all[size_t(b.raw.front())].slots;
      converting = operands.inputs * inputShare * double(conversionVectors(t));
      input.segments /= double(b.raw.size());
    }
    // Engines that take turns share the loads; each has a slot while it loads.
    const double engines = takesTurns() && secondUnit(t) && inputSlots > 1 ? 2 : 1;
    loads[0] += input * (operands.inputs / engines * inputShare);
    loads[1] += input * ((operands.inputs - operands.inputs / engines) * inputShare);
    if (b.raw.size() > 1)
      loads[1] += Transfer{0, 0, input.segments} * (operands.inputs * inputShare);
    loads[secondUnit(t)] += weights * (operands.weights * weightShare);
    loadCount = operands.inputs + operands.weights;
    if (contraction()) {
      const double passes = passCount(t), rows = double(passRows(madeSums(t)));
      const double preload = double(ceilDiv(machine.rows, machine.preloadRowsPerCycle));
      perTileTensor = t.overlap ? passCycles(t) : passes * (rows + preload + 2 * cost::kHandover);
      tensor = perTileTensor * tiles.visits() * inputShare * tiles.channelShare;
      if (const double lead = leadSums(t))
        tensor += passes * std::max(lead, double(preloadCycles(machine))) * double(tilesAlong(P0, t) * tilesAlong(P2, t)) *
                  tiles.channels * kTiles;
      // A slot is filled again when its tile has been used: that takes the load, its latency and the use, as often as each slot has a
      // turn. Operands that stay longer have more time.
      auto turns = [&](bool streams, double loads, double slots, double load) {
        if (streams && slots > 1 && loads > slots)
          roundTrips = std::max(roundTrips, (loads * (load + latency) + tensor) / slots);
      };
      turns(operands.inputsStream, operands.inputs, inputSlots, input.loadCycles(bandwidth, machine));
      turns(operands.weightsStream, operands.weights, b.weights >= 0 ? b.all[size_t(b.weights)].slots : 0, weightLoad);
      // The array reads a slot, or an engine loads it; others in the same bank wait.
      if (unpacked && !conversion && operands.inputs > 0 && t.overlap) {
        const double atOnce = std::ceil(b.ownBanks ? inputSlots : inputSlots / 2);
        tensor = std::max(tensor, operands.inputs * (input.loadCycles(bandwidth, machine) + perTileTensor) / atOnce);
      }
    }
  }
  tensor += outTiles * windowCycles(t);
  const double vectorTile = vectorCycles(t);
  double sourceCount = 0;
  const Transfer sources = sourceTransfer(t, b, sourceCount);
  loads[0] += sources * outTiles;
  loadCount += sourceCount * outTiles;
  // Pooling from and to tensors on chip is one vector instruction after the other. Its neighbours' results go in between, so that their
  // kernels run beside it, if none takes long.
  if (*onChip.knobs.shortPooling && window() && kernel.anchor->weights < 0 && residentInput() && !onChip.storesResult &&
      residentOf(kernel.output.tensor)) {
    const double drain =
        double(chains.size()) * double(timing::vectorDrain(machine.timing, machine.vectorStages, machine.lanes));
    cost::KernelWork alone;
    alone.vector = (vectorTile - drain + cost::kVisit) * outTiles + 2 * vectorTile;
    return alone;
  }
  const double resultShare = tiles.positionShare * tiles.channelShare;
  const double vector = vectorTile * outTiles * resultShare + converting;
  const Transfer result = resultTransfer(t);
  const double storeTile = result.cycles(bandwidth, perCycle), stores = storeTile * outTiles * resultShare;
  const Transfer results = result * (outTiles * resultShare);
  cost::KernelWork work = emptyWork();
  work.overlap = !t.overlap     ? cost::KernelWork::Overlap::None
                 : t.depth == 1 ? cost::KernelWork::Overlap::Stores
                                : cost::KernelWork::Overlap::All;
  work.loads[0] = loads[0].loadCycles(bandwidth, machine);
  work.loads[1] = loads[1].loadCycles(bandwidth, machine);
  work.turnaround = mixed(loads[0].bytes + loads[1].bytes, results.bytes);
  // Neighbours can use channels that are left out.
  work.sharedBus = (loads[0].bytes + loads[1].bytes + results.bytes) / bandwidth * work.turnaround;
  work.bus = (loads[0].slots + loads[1].slots + results.slots) / bandwidth * work.turnaround;
  work.vector = vector;
  work.vectorTile = vectorTile;
  work.stores = stores;
  work.storeTile = storeTile;
  work.loadCount = loadCount;
  work.results = outTiles;
  work.visits = tiles.visits();
  work.array = tensor;
  if (work.overlap != cost::KernelWork::Overlap::All)
    return work;
  if (t.singleAccumulator) {
    // Of results that leave in parts DRAM has to move those without a slot of their own before the array can go on.
    const double drains = double(ceilDiv(t.tile[C], drained(t)));
    const double slots = b.results.back() >= 0 ? double(b.all[size_t(b.results.back())].slots) : drains;
    const double moved = std::max(0.0, 1 - slots / drains) * (storeTile + sources.loadCycles(bandwidth, machine));
    work.array += (outTiles - 1) * (std::max(vectorTile, moved) + 4 * cost::kHandover);
  }
  // The results of a run all leave while the next one takes its first input channels.
  if (const double runs = operands.runs; t.kOuter())
    work.array +=
        (runs - 1) * std::max(0.0, std::max(vector, stores + (sources * outTiles).loadCycles(bandwidth, machine)) / runs -
                                       work.array / (runs * kTiles));
  work.slotTurns = roundTrips;
  work.arrayTile = perTileTensor * kTiles;
  work.arrayVisit = perTileTensor / std::max(1.0, kTiles);
  work.firstLoad =
      overlaps() && contraction()
          ? firstLoads(t, b, tiles, residentInput() ? 0 : input.loadCycles(bandwidth, machine), weightLoad, perTileTensor)
          : (work.loads[0] + work.loads[1]) / std::max(1.0, work.visits);
  return work;
}

/// Whether the tile takes pieces of a tensor on chip that lie far apart, so that neighbouring tiles meet in all its banks.
bool Emitter::scatters(const Tile &t) const {
  bool splitsPositions = positions(t) < kernel.extent[P0] * kernel.extent[P1] * kernel.extent[P2];
  const Resident *input = residentInput(), *output = residentOf(kernel.output.tensor);
  bool splitsInput = contraction() ? t.tileK < kernel.anchor->ic : t.tile[C] < channels();
  return (output && !kernel.pool && (output->isPlanar ? splitsPositions : t.tile[C] < channels())) ||
         (input && (input->isPlanar ? splitsPositions : splitsInput));
}

/// Whether the buffers fill more than half of what there is: then the next kernel cannot begin beside this one.
bool Emitter::crowds(const Buffers &b) const {
  std::array<int64_t, 8> used{}; // per memory
  for (const Buffer &buffer : b.all) {
    int64_t &bytes = used[buffer.memory];
    bytes += buffer.bytes * buffer.slots;
    if (bytes * 2 > capacityOf(buffer))
      return true;
  }
  return false;
}

/// Whether the work says too little of it: with so short tiles loads count for more than it seems, and the few rows above the first tiles
/// can get two engines that load side by side out of step, for long.
bool Emitter::isDoubtful(const Tile &t) const { return t.maxLineBuffer && unpacked && !onChip.banding; }

int64_t Emitter::packedRowBytes(int64_t columns) const {
  return unpacked->axes[0].span(kernel.sums({1, columns, 1, 1})[P0]) * unpacked->input.stride[P0] * loadedBytes();
}

double Emitter::leastEstimate(const Tile &t) const {
  const std::optional<cost::KernelWork> least = leastWork(t);
  // Sums in another order may be a little less.
  constexpr double kRounding = 1 - 1e-9;
  return least ? kRounding * cost::checked(network.costModel->cyclesOfKernel(*least)) : 0;
}

double Emitter::estimate(const Tile &t, const Buffers &b, cost::KernelWork work, bool ownBanks) const {
  // Slots that share a bank make engines wait for each other.
  work.bankConflicts += t.overlap && !ownBanks;
  work.bankConflicts += scatters(t);
  work.mustGain = isDoubtful(t);
  // Rows that are loaded may lie in a bank with those that are read.
  work.crowdings += rollsInput(t);
  work.crowdings += overlaps() && onChip.hasNeighbours && !onChip.banding && crowds(b);
  // Results that all come together, and sums that fill the accumulator, are in the neighbours' way.
  work.crowdings += t.kOuter() && onChip.hasNeighbours && tilesTogether(t) < tileCount(t);
  // In a group the vector engine is with other kernels for a band: the array goes on if there is room for its sums.
  if (onChip.banding && contraction() &&
      int64_t(b.all[size_t(b.accumulator)].slots) * positions(t) < 2 * bandRows() * bandColumns())
    work.hasFewSums = true;
  // Short rows are more of a load on DRAM, and on the kernels beside, than they seem.
  work.doubts += t.tile[P1] > 1 && t.tile[P0] < kernel.extent[P0] && unpacked;
  return cost::checked(network.costModel->cyclesOfKernel(work));
}

/// Its steps, alone.
std::vector<schedule::Step> Emitter::trialOf(const Tile &candidate) {
  // Constants have no place yet; nothing else lies there.
  constexpr uint64_t kElsewhere = uint64_t(1) << 39;
  takeTile(candidate);
  plan(tile, buffers);
  emptySlots();
  allocate(buffers);
  weightsAddress = kElsewhere;
  parametersAddress.assign(chains.size(), kElsewhere);
  constantAddress.assign(kernel.tensors.size(), kElsewhere);
  emitTiles();
  std::vector<schedule::Step> trial = takeSteps();
  steps.clear();
  countedSteps = instructions = 0;
  clock = 0;
  return trial;
}

/// Whether a program of so many cycles is so short that one can see what its code takes to come from DRAM.
bool Emitter::codeCounts(double cycles) const {
  return !onChip.hasNeighbours && cost::kShortProgram / dramBytesPerCycle(machine) > cycles;
}

double Emitter::tryTile(const Tile &candidate) {
  std::vector<schedule::Step> trial = trialOf(candidate);
  for (const schedule::Step &step : trial) {
    triedOperations += step.loads.size();
    for (const schedule::Block &block : step.compute)
      triedOperations += block.operations.size();
  }
  const double cycles = cost::checked(network.costModel->cyclesOfSteps(schedule::overlappedWork(std::move(trial), machine)));
  if (!codeCounts(cycles))
    return cycles;
  schedule::TileProgram program = schedule::overlap(trialOf(candidate), machine);
  if (!schedule::synchronize(program, machine))
    return cycles;
  const uint64_t words = schedule::wordsOf(schedule::reroll(program, machine));
  const double fetch = double(words * isa::kWordBytes) / dramBytesPerCycle(machine);
  // Code takes the bus from what it loads, and some of it has to be there before anything else comes.
  return std::max(cycles + cost::kExposedCode * fetch, tileWork(tile, buffers).sharedBus + fetch);
}

Ranking Emitter::rankWays(const Tile &t, double estimate, double least) {
  double doubt = estimate / least > cost::kLeastGain ? 1 + cost::kEstimateError : 1;
  // As above: short rows are more than they seem.
  if (packsPlanes() && t.tile[P0] < kernel.extent[P0] && packedRowBytes(t.tile[P0]) < kBurst)
    doubt *= 1 + cost::kEstimateError;
  if (isDoubtful(t))
    doubt *= cost::kLeastGain;
  double busCycles = 0; // neighbours want the bus as well
  if (Buffers b = plan(t); onChip.hasNeighbours && allocate(b))
    busCycles = tileWork(t, b).sharedBus;
  // To write so many tiles out, for each way and size again, takes minutes and all memory: the closed form has to do.
  constexpr double kMostTried = 1 << 17;
  const bool isTried = countTiles(t).visits() <= kMostTried;
  Ranking ways;
  for (const Tile &way : waysToLoad(t, codeCounts(estimate)))
    ways.push_back({isTried ? tryTile(way) * doubt + cost::kHiddenBus * busCycles : estimate, way});
  std::stable_sort(ways.begin(), ways.end(), [](const auto &x, const auto &y) { return x.first < y.first; });
  return ways;
}
