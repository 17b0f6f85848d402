//===- EmitterChoice.cpp - What a tile costs, and which one is taken -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include "isa/timing/Dram.h"
#include "isa/timing/InstructionTiming.h"

#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

using namespace tw;
using namespace tw::accel;

namespace {
constexpr size_t kCandidates = 8;    ///< tiles that are looked at closely
constexpr size_t kSearched = 32;     ///< the same, for a search
constexpr size_t kSearchedAlone = 128; ///< the same, of a kernel without neighbours: the list scheduler puts them in order
constexpr size_t kOfSize = 4;        ///< of these, of one size
constexpr size_t kOfSizePacked = 2;  ///< the same, of a kernel with packed taps beside others
constexpr size_t kOfSizeRows = 2;    ///< the same, of a product of rows that a search may want in other sizes
constexpr size_t kOfSizeAlone = 12;  ///< the same, for a search of a kernel without neighbours
/// What tiles of packed taps that carry maxima are said to take more: with so short ones loads count for more than it seems, and the few rows
/// above the first tiles can get two engines that load side by side out of step, for long.
constexpr double kDoubtCarried = 1.15;
constexpr size_t kByBlock = 4;       ///< with one sum, that a search may also have leave by block
constexpr double kBusShare = 0.16;   ///< of the bus cycles that hide behind passes: they are missing for the neighbours
constexpr double kIdleShare = 0.35;  ///< of what channels could move that a transfer leaves out: nobody else uses it

/// Distinct useful tile sizes of an extent: those that change the number of tiles, in units of `unit`, at most `limit` of them, none above
/// `most`.
std::vector<int64_t> tileSizes(int64_t extent, int64_t unit, size_t limit, int64_t most = INT64_MAX) {
  std::vector<int64_t> sizes;
  for (int64_t q = 1 + (extent - 1) / most; q <= ceilDiv(extent, unit); ++q) {
    int64_t size = std::min(roundUp(ceilDiv(extent, q), unit), roundUp(extent, unit));
    if (sizes.empty() || size < sizes.back())
      sizes.push_back(size);
  }
  // What leaves a smaller last tile goes first, then every second one behind the largest. The smallest stays: it may be the only
  // one that fits.
  for (size_t i = sizes.size() - 1; i-- > 1 && sizes.size() > limit;)
    if (extent % sizes[i])
      sizes.erase(sizes.begin() + long(i));
  while (sizes.size() > limit)
    for (size_t i = 1; i + 1 < sizes.size() && sizes.size() > limit; ++i)
      sizes.erase(sizes.begin() + long(i));
  return sizes;
}
} // namespace

namespace {
/// What a transfer costs: bytes of whole bursts on the data bus, those for which there would have been room meanwhile, and segments on
/// the scratchpad side.
struct Transfer {
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
    const double engine = double(machine.burstsPerCycle) * double(dram.burstBytes) / dramBytesPerCycle(machine);
    return 1 + kIdleShare * std::max(0.0, alone * std::min(engine, 1.0) - 1);
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
};
} // namespace

/// How much longer the data bus takes when reads and writes are interleaved: turnarounds and closed rows.
double Emitter::mixed(double readBytes, double writeBytes) const {
  if (machine.dram.kind == timing::DramKind::Ideal || readBytes + writeBytes == 0)
    return 1;
  return 1 + 0.4 * std::min(readBytes, writeBytes) / (readBytes + writeBytes);
}

double Emitter::cost(const Tile &t, const Buffers &b, double &busCycles) const {
  double bandwidth = dramBytesPerCycle(machine), perCycle = machine.burstsPerCycle,
         latency = timing::dramTypicalLatencyCycles(machine);
  // The last tile of each axis may be smaller: how much of their size tiles have on average. For kernels alone, whose best tiles the
  // list scheduler looks at again.
  auto shareOf = [&](int64_t extent, double tiles, int64_t size) {
    return onChip.hasNeighbours || !overlaps() ? 1 : std::min(1.0, double(extent) / (tiles * double(size)));
  };
  double mTiles = 1, mShare = 1;
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    const double tiles = double(tilesAlong(axis, t));
    mTiles *= tiles;
    mShare *= shareOf(kernel.extent[axis], tiles, t.size[axis]);
  }
  double nTiles = double(ceilDiv(channels(), t.size[C]));
  double groups = contraction() ? double(kernel.anchor->groups) : 1;
  double kTiles = contraction() ? double(ceilDiv(kernel.anchor->ic, t.ic)) : 1;
  const double nShare = shareOf(channels(), nTiles, t.size[C]);
  const double kShare = contraction() ? shareOf(kernel.anchor->ic, kTiles, t.ic) : 1;
  double outTiles = mTiles * nTiles * groups;
  const double pos = double(passRows(madeSums(t)));
  int64_t lanes = machine.lanes, blocks = ceilDiv(t.size[C], lanes);

  Transfer loads[2]; // by load engine
  Transfer inputTile;
  double loadCount = 0, tensor = 0, leads = 0, perTileTensor = 0, roundTrips = 0, converting = 0;
  double runs = 1; // of tiles that take input channels together
  if (kernel.anchor) {
    const Anchor &anchor = *kernel.anchor;
    int64_t tileChannels = contraction() ? t.ic : t.size[C];
    int64_t allChannels = contraction() ? anchor.ic * anchor.groups : kernel.extent[C];
    int64_t es = loadedBytes();
    int64_t width = std::min(inputSpan(t, P0), anchor.axes[0].inputSize),
            height = std::min(inputSpan(t, P1), anchor.axes[1].inputSize);
    if (const Anchor::Pixels &pixels = anchor.pixels; pixels.count > 1) { // a row is one run
      tileChannels = allChannels = std::min(pixels.span(inputSpan(t, P0)), pixels.inputSize) * pixelChannels();
      width = 1;
    }
    // A channel stride other than 1 makes every element a run of its own.
    bool scattered = anchor.input.stride[C] > 1;
    Transfer input = scattered ? Transfer::box(1, 2, width * tileChannels, height * t.size[P2], es, machine)
                               : Transfer::box(tileChannels, allChannels, width, height * t.size[P2], es, machine);
    if (t.rolling > 1 && !unpacked)
      input = Transfer::box(tileChannels, allChannels, width, 1, es, machine) * (rowsLoaded(t) / double(tilesAlong(P1, t)));
    double weightBytes = b.weights >= 0 ? double(b.all[b.weights].bytes) : 0;
    double inputLoads = outTiles * kTiles, weightLoads = b.weights >= 0 ? outTiles * kTiles : 0;
    double inputSlots = b.input >= 0 ? b.all[size_t(b.input)].slots : 0;
    double weightSlots = b.weights >= 0 ? b.all[size_t(b.weights)].slots : 0;
    bool inputStays = t.rolling > 1 && !unpacked ? true
                      : t.channelsOuter ? mTiles * kTiles <= inputSlots : kTiles <= inputSlots;
    bool weightsStay = t.channelsOuter || !contraction() ? kTiles <= weightSlots : nTiles * kTiles <= weightSlots;
    if (t.inputsOuter) {
      inputStays = !t.channelsOuter || mTiles <= inputSlots;
      weightsStay = t.channelsOuter || nTiles <= weightSlots;
      runs = double(ceilDiv(int64_t(outTiles), tilesTogether(t)));
    }
    if (inputStays && contraction())
      inputLoads = mTiles * kTiles * groups * (t.channelsOuter ? runs : 1) *
                   (keepsSums(t) ? std::ceil(nTiles / double(b.all[size_t(b.accumulator)].slots)) : 1);
    // A kernel of a group goes over its weights once per band.
    if (weightsStay && weightLoads > 0)
      weightLoads = nTiles * kTiles * groups * (t.channelsOuter ? 1 : runs) *
                    (nTiles * kTiles * groups <= weightSlots ? 1 : double(bands.size()));
    const bool inputStreams = inputLoads == outTiles * kTiles, weightsStream = weightLoads == outTiles * kTiles;
    // Tiles that follow one another and share an operand find its last tiles of input channels on chip.
    if (contraction() && onChip.serpentine && !t.inputsOuter) {
      const double next = groups * (t.channelsOuter ? nTiles * (mTiles - 1) : mTiles * (nTiles - 1));
      const double inner = t.channelsOuter ? (mTiles == 1) * (nTiles - 1) : (nTiles == 1) * (mTiles - 1);
      if (!inputStays)
        inputLoads -= inputSlots * (t.channelsOuter ? inner : next);
      if (!weightsStay && weightLoads > 0)
        weightLoads -= weightSlots * (t.channelsOuter ? next : inner);
    }
    if (unpacked) {
      // A run for every row of every column; rows that tiles share are read again.
      const int64_t channelsApart = packsPlanes() ? unpacked->ic : 1;
      const Extent size = madeSums(t);
      const int64_t loaded = unpacked->axes[1].span(size[P1]) - (copiesRows(t) ? copiedRows(kernel, *unpacked, machine) : 0);
      const double rows = double(loaded * size[P2] * channelsApart);
      const double pixel = double(unpacked->ic / channelsApart * es), step = double(unpacked->axes[0].stride) * pixel;
      input = {};
      for (const Range &taps : tapRuns) {
        const double run = double(taps.size()) * pixel;
        input.segments += rows * double(size[P0]) * (1 + (run - double(es)) / kBurst); // some lie in two bursts
        // Runs across the end of a burst take turns at it and the next one.
        const double length = run + double(size[P0] - 1) * step;
        input.bytes += rows * (length + double(kBurst - es) + 2 * std::max(0.0, (run - double(es)) / step - 1) * (length - double(es)));
      }
      input.slots = input.bytes;
      if (packsOnChip()) {
        const WindowAxis &w = unpacked->axes[0];
        const int64_t span = w.span(size[P0]), together = unpacked->ic / channelsApart;
        input = Transfer::box(span * together, w.inputSize * together, 1, int64_t(rows), es, machine);
        if (packsPlanes())
          input.segments = rows * double(span);
      }
    }
    inputTile = input;
    if (residentInput())
      inputLoads = 0;
    if (conversion) {
      inputSlots = b.all[size_t(b.raw.front())].slots;
      const Extent made = madeSums(t);
      int64_t vectors = packedElements(made) / lanes;
      if (packsOnChip()) {
        const int64_t rows = unpacked->axes[1].span(made[P1]),
                      copied = copiesRows(t) ? copiedRows(kernel, *unpacked, machine) : 0;
        vectors = packingVectors(made, rows - copied) + made[P0] * ceilDiv(copied * packedStride[2], lanes);
      }
      converting = inputLoads * mShare * kShare * double(vectors);
      inputTile.segments = input.segments /= double(b.raw.size());
    }
    // Engines that take turns share the loads; each has a slot while it loads.
    const double engines = takesTurns() && secondUnit(t) && inputSlots > 1 ? 2 : 1;
    loads[0] += input * (inputLoads / engines * mShare * kShare);
    loads[1] += input * ((inputLoads - inputLoads / engines) * mShare * kShare);
    if (b.raw.size() > 1)
      loads[1] += Transfer{0, 0, input.segments} * (inputLoads * mShare * kShare);
    loads[secondUnit(t)] += Transfer::dense(weightBytes) * (weightLoads * nShare * kShare);
    loadCount += inputLoads + weightLoads;
    if (contraction()) {
      double passCount = double(anchor.axes[0].kernel * anchor.weightRows() * ceilDiv(t.ic, machine.rows) *
                                ceilDiv(t.size[C], machine.cols));
      double preload = double(ceilDiv(machine.rows, machine.preloadRowsPerCycle));
      if (t.carriesMaxima && !kernel.window(P1).padLow) { // a visit for the sums above each strip
        const double above = double(madeSums(t)[P0] * carried * t.size[P2]);
        leads = passCount * std::max(above, double(preloadCycles(machine))) * double(tilesAlong(P0, t) * tilesAlong(P2, t)) *
                nTiles;
      }
      perTileTensor =
          !t.overlap ? passCount * (pos + preload + 20) : passCount * std::max(pos * tapShare, double(preloadCycles(machine))) + preload;
      tensor = perTileTensor * outTiles * kTiles * mShare * nShare * kShare + leads * kTiles;
      // A slot is filled again when its tile has been used: that takes the load, its latency and the use, as often as each slot has a
      // turn. Operands that stay longer have more time.
      auto turns = [&](bool streams, double loads, double slots, double load) {
        if (streams && slots > 1 && loads > slots)
          roundTrips = std::max(roundTrips, (loads * (load + latency) + tensor) / slots);
      };
      turns(inputStreams, inputLoads, inputSlots, input.cycles(bandwidth, perCycle));
      turns(weightsStream, weightLoads, weightSlots, weightBytes / bandwidth);
      // The array reads a slot, or an engine loads it; others in the same bank wait.
      if (unpacked && !conversion && inputLoads > 0 && t.overlap) {
        const double atOnce = std::ceil(b.ownBanks ? inputSlots : inputSlots / 2);
        tensor = std::max(tensor, inputLoads * (input.cycles(bandwidth, perCycle) + perTileTensor) / atOnce);
      }
    }
  }
  double vectorTile = 0;
  Transfer sources;
  const double drains = double(ceilDiv(t.size[C], drained(t)));
  for (size_t i = 0; i < chains.size(); ++i) {
    double perOutput = i == 0 && pairsRows() ? 2 : 1;
    if (i == 0 && (window() || kernel.maxima)) {
      // Along the way in which neighbours share taps, and across it.
      const WindowAxis &w = kernel.window(goesDown() ? P1 : P0), &h = kernel.window(goesDown() ? P0 : P1);
      const int64_t columns = newColumns(w, h);
      perOutput = double(h.kernel * columns);
      const double onArray = double(onChip.arrayChannels) / double(channels());
      tensor += onArray * outTiles * double(blocks * h.kernel * w.kernel) * std::max(double(positions(t)), double(preloadCycles(machine)));
      perOutput += onArray * (1 - perOutput);
      if (packsRows()) { // columns are short and blocks many: what comes before the first output of each counts
        const int64_t setup = h.kernel * w.kernel + int64_t(chains[i].parameters.size());
        vectorTile += double(blocks * (setup + t.size[P0] * t.size[P2] * h.kernel * (w.kernel - columns)));
      }
    }
    if (i == 0 && t.carriesMaxima) // the first row of windows, the others, and the maxima for the tile below
      vectorTile += 2 * drains * double(timing::vectorDrain(machine.timing, machine.vectorStages, machine.lanes));
    const Extent read = i ? kernel.made(t.size, i - 1) : t.size; // a window over all positions reads each once
    vectorTile += double(read[P0] * read[P1] * read[P2] * blocks) * perOutput +
                  drains * double(timing::vectorDrain(machine.timing, machine.vectorStages, machine.lanes));
    if (i >= kernel.steps.size())
      continue;
    for (size_t k = 0; k < b.sources[i].size(); ++k) {
      const Source &source = kernel.steps[i].sources[k];
      if (b.sources[i][k] < 0 || sameSource(b, i, source) >= 0)
        continue;
      int64_t rows = 1, width = 1;
      for (unsigned axis = P0; axis < kAxes; ++axis)
        if (source.view.stride[axis])
          (axis == P0 ? width : rows) *= t.size[axis];
      int64_t own = source.view.stride[C] ? drained(t) : 1, all = source.view.stride[C] ? kernel.extent[C] : 1;
      bool scattered = source.view.stride[C] > 1;
      Transfer box = scattered ? Transfer::box(1, 2, width * own, rows, byteSize(source.type), machine)
                               : Transfer::box(own, all, width, rows, byteSize(source.type), machine);
      const double count = outTiles * (source.view.stride[C] ? drains : 1);
      loads[0] += box * count;
      sources += box * count;
      loadCount += count;
    }
  }
  // Pooling from and to tensors on chip is one vector instruction after the other. Its neighbours' results go in between, so that their
  // kernels run beside it, if none takes long.
  if (onChip.shortWindows && window() && kernel.anchor->weights < 0 && residentInput() && !onChip.storesResult &&
      residentOf(kernel.output.tensor)) {
    const double drain = double(chains.size()) * double(timing::vectorDrain(machine.timing, machine.vectorStages, machine.lanes));
    return (vectorTile - drain + 12) * outTiles + 2 * vectorTile;
  }
  double vector = vectorTile * outTiles * mShare * nShare + converting;
  int64_t resultSize = byteSize(chains.back().dType);
  const Extent made = kernel.made(t.size);
  int64_t outputPixel = std::max(kernel.extent[C], kernel.output.stride[P0]); // wider where the result is transposed
  Transfer store = kernel.outputReduced ? Transfer::box(1, 1, t.size[P0], t.size[P1] * t.size[P2], resultSize, machine)
                                        : Transfer::box(drained(t), outputPixel, made[P0], made[P1] * made[P2], resultSize,
                                                        machine) * drains;
  if (!onChip.storesResult)
    store = {};
  double storeTile = store.cycles(bandwidth, perCycle), stores = storeTile * outTiles * mShare * nShare;
  double load0 = loads[0].cycles(bandwidth, perCycle), load1 = loads[1].cycles(bandwidth, perCycle);
  if (!t.overlap)
    return load0 + load1 + loadCount * (latency + 10) + tensor + vector + stores + outTiles * (latency + 30);
  store = store * (outTiles * mShare * nShare);
  const double turning = mixed(loads[0].bytes + loads[1].bytes, store.bytes);
  busCycles = (loads[0].bytes + loads[1].bytes + store.bytes) / bandwidth * turning; // neighbours can use channels that are left out
  double bus = (loads[0].slots + loads[1].slots + store.slots) / bandwidth * turning;
  double transfer = std::max({bus, load0, load1, stores}) + loadCount * 4;
  double steps = outTiles * kTiles;
  if (t.depth == 1) // the loads of a tile follow the computation of the one before, beside its store
    return (load0 + load1 + stores) * turning + loadCount * latency + tensor + vector + outTiles * 40 +
           (overlaps() && onChip.hasNeighbours ? vectorTile + storeTile : 0);
  if (t.oneSum) {
    // Of results that leave in parts DRAM has to move those without a slot of their own before the array can go on.
    const double slots = b.results.back() >= 0 ? double(b.all[size_t(b.results.back())].slots) : drains;
    const double moved = std::max(0.0, 1 - slots / drains) * (storeTile + sources.cycles(bandwidth, perCycle) / outTiles);
    tensor += (outTiles - 1) * (std::max(vectorTile, moved) + 40);
  }
  // The results of a run all leave while the next one takes its first input channels.
  if (t.inputsOuter)
    tensor += (runs - 1) * std::max(0.0, std::max(vector, stores + sources.cycles(bandwidth, perCycle)) / runs - tensor / (runs * kTiles));
  double firstLoad = (load0 + load1) / std::max(1.0, steps);
  if (overlaps() && contraction()) {
    // The first tiles of both operands, and those of a panel as far as they come slower than they are used; so does the part of
    // the next panel that has no slots of its own.
    const double inputLoad = residentInput() ? 0 : inputTile.cycles(bandwidth, perCycle);
    const double weightLoad = b.weights >= 0 ? double(b.all[size_t(b.weights)].bytes) / bandwidth : 0;
    double late = std::max(0.0, inputLoad + weightLoad - perTileTensor);
    double panels = t.channelsOuter ? nTiles * groups : mTiles * groups;
    double missing = t.panel == Tile::NoPanel || t.panel >= Tile::TwoPanels ? 0 : kTiles - (t.panel - Tile::OnePanel);
    // A single slot is free only when the last step of its panel is done.
    if (t.inputsOuter)
      late = missing = 0;
    double alone = t.panel == Tile::OnePanel && kTiles == 1 ? (t.channelsOuter ? weightLoad : inputLoad) + latency : 0;
    double begin = inputLoad + weightLoad + (kTiles - 1) * late;
    if (canBeginWide(t)) {
      double sums = b.all[size_t(b.accumulator)].slots, inner = t.channelsOuter ? mTiles : nTiles;
      double along = std::min(sums, inner), across = std::ceil(sums / inner);
      double operands = inputLoad * (t.channelsOuter ? along : across) + weightLoad * (t.channelsOuter ? across : along);
      begin = std::min(begin, inputLoad + weightLoad + (kTiles - 1) * std::max(0.0, operands - sums * perTileTensor));
    }
    firstLoad = begin + (panels - 1) * (missing * late + alone);
  }
  return std::max({transfer, tensor, vector, roundTrips}) + firstLoad + latency + perTileTensor / std::max(1.0, kTiles) * 0.05 +
         vectorTile + storeTile + steps * 12;
}

/// Whether the tile takes pieces of a tensor on chip that lie far apart, so that neighbouring tiles meet in all its banks.
bool Emitter::scatters(const Tile &t) const {
  bool splitsPositions = positions(t) < kernel.extent[P0] * kernel.extent[P1] * kernel.extent[P2];
  const Resident *input = residentInput(), *output = residentOf(kernel.output.tensor);
  bool splitsInput = contraction() ? t.ic < kernel.anchor->ic : t.size[C] < channels();
  return (output && !kernel.pool && (output->isPlanar ? splitsPositions : t.size[C] < channels())) ||
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
  clock = 0;
  return trial;
}

/// Cycles of this kernel alone with that tile, as the list scheduler estimates them.
double Emitter::tryTile(const Tile &candidate) { return schedule::estimateOverlapped(trialOf(candidate), machine); }

bool Emitter::canBeEncoded(const Tile &t, std::string &why) {
  // What an instruction goes through is no larger than what holds it.
  const Buffers b = plan(t);
  const int64_t stride = isa::maximumOf(isa::Opcode::Tensor, "strides"),
                rows = isa::maximumOf(isa::Opcode::Tensor, "acc_strides");
  auto isSmall = [&](const Buffer &buffer) {
    return buffer.bytes <= stride && (buffer.memory != unsigned(isa::Memory::Accumulator) ||
                                      buffer.bytes <= rows * int64_t(machine.accumulatorRowBytes()));
  };
  auto isSmallOnChip = [&](const Resident *r) { return !r || r->bytes <= stride; };
  int64_t window = kernel.anchor ? std::max(kernel.anchor->axes[0].kernel, kernel.anchor->axes[1].kernel) : 1;
  for (const Step &step : kernel.steps) {
    window = step.reducesChannels ? std::max(window, ceilDiv(channels(), int64_t(machine.lanes))) : window;
    window = step.sumsPositions ? std::max({window, kernel.extent[P0], kernel.extent[P1]}) : window;
  }
  if (window <= kMaxWindow && llvm::all_of(b.all, isSmall) && llvm::all_of(onChip.tensors, isSmallOnChip))
    return true;
  for (const schedule::Step &step : trialOf(t)) {
    auto fits = [&](const schedule::Operation &op) { return isa::fits(op.instruction, &why); };
    auto allFit = [&](const schedule::Block &block) { return llvm::all_of(block.operations, fits); };
    if (!llvm::all_of(step.loads, fits) || !llvm::all_of(step.compute, allFit))
      return false;
  }
  return true;
}

bool Emitter::givesSameProgram(const Tile &x, const Tile &y) const {
  const bool hasOneOrder = x.size[C] >= channels() || tileCount(x) == ceilDiv(channels(), x.size[C]);
  if (x.size != y.size || x.ic != y.ic || x.inputsOuter != y.inputsOuter || x.overlap != y.overlap || x.rolling != y.rolling ||
      x.carriesMaxima != y.carriesMaxima || x.byBlock != y.byBlock || !(x.cut == y.cut) || (x.depth == 1) != (y.depth == 1) ||
      (x.channelsOuter != y.channelsOuter && !hasOneOrder))
    return false;
  const Buffers mine = plan(x), others = plan(y);
  auto hasSameSlots = [](const Buffer &a, const Buffer &b) { return a.slots == b.slots; };
  return std::equal(mine.all.begin(), mine.all.end(), others.all.begin(), others.all.end(), hasSameSlots);
}

void Emitter::insertApart(std::multimap<double, Tile> &candidates, double estimate, const Tile &t, size_t most) const {
  auto same = llvm::find_if(candidates, [&](const auto &other) { return givesSameProgram(other.second, t); });
  if (same != candidates.end() && same->first <= estimate)
    return;
  if (same != candidates.end())
    candidates.erase(same);
  candidates.insert({estimate, t});
  size_t ofSize = 0;
  for (auto it = candidates.begin(); it != candidates.end(); ++it)
    if (it->second.size == t.size && it->second.ic == t.ic && ++ofSize > most) {
      candidates.erase(it);
      return;
    }
}

/// For a search, of a product of rows: every program once, first those of `best`, then those of `ofSizes`, then all of them with tiles
/// through which positions go in parts.
Ranking Emitter::withSizesAndCuts(const Ranking &best, const std::multimap<double, Tile> &ofSizes) const {
  Ranking ranking;
  auto add = [&](double estimate, const Tile &t) {
    if (llvm::none_of(ranking, [&](const auto &other) { return givesSameProgram(other.second, t); }))
      ranking.push_back({estimate, t});
  };
  for (const auto &[estimate, t] : best)
    add(estimate, t);
  for (const auto &[estimate, t] : ofSizes)
    add(estimate, t);
  if (kernel.request.first || kernel.request.last)
    return ranking;
  for (size_t i = 0, count = ranking.size(); i < count; ++i)
    for (const CutTiles &cut : onChip.cuts) {
      const double estimate = ranking[i].first;
      Tile t = ranking[i].second;
      t.cut = cut;
      if (Buffers b; t.size[P0] == kernel.extent[P0] && fitsDrained(t, b) && allocate(b))
        add(estimate, t);
    }
  return ranking;
}

std::string Emitter::rankingKey(bool planned) const {
  std::string key = kernel.kind;
  llvm::raw_string_ostream text(key);
  auto list = [&](const auto &values) {
    text << '[';
    for (int64_t value : values)
      text << value << ' ';
  };
  list(kernel.output.stride); // of a part: the whole's
  const bool shortWindows = onChip.shortWindows && window() && kernel.anchor->weights < 0; // other kernels ignore it
  list(std::array<int64_t, 5>{onChip.fillsBorders, onChip.storesResult, onChip.hasNeighbours, shortWindows, room.size()});
  list(std::array<int64_t, 8>{room.begin, onChip.weights.begin, onChip.weights.end, onChip.sums.begin, onChip.sums.end,
                              contraction() && onChip.serpentine, canKeepSums() && onChip.keepsSums, planned});
  list(std::array<int64_t, 3>{onChip.arrayChannels, isFirstOfArray(), carried && onChip.carriesMaxima});
  list(kernel.request.size); // kernels of a kind may be asked for different parts
  list(std::array<int64_t, 2>{kernel.request.ic, kernel.request.order ? *kernel.request.order : -1});
  auto listCut = [&](const CutTiles &cut) {
    for (const std::optional<Cut> &part : {cut.first, cut.last})
      list(part ? std::array<int64_t, 2>{part->tiles, part->positions} : std::array<int64_t, 2>{});
  };
  listCut({kernel.request.first, kernel.request.last});
  llvm::for_each(onChip.cuts, listCut);
  auto describe = [&](size_t tensor, const Resident &r) {
    list(std::array<int64_t, 10>{int64_t(tensor), r.channels, r.width, r.rows, r.elementBytes, r.lanes, r.isPlanar, r.blockBytes,
                                 r.pixelBytes, r.rowBytes});
    list(r.padLow);
    list(r.padHigh);
  };
  for (size_t tensor = 0; tensor < onChip.tensors.size(); ++tensor)
    if (const Resident *r = onChip.tensors[tensor])
      describe(tensor, *r);
  if (!onChip.banding)
    return key;
  // In a group they also depend on the others.
  auto listRanges = [&](const auto &ranges) {
    text << '(';
    for (const Range &range : ranges)
      list(std::array<int64_t, 2>{range.begin, range.end});
    text << ')';
  };
  listRanges(onChip.banding->rows);
  listRanges(onChip.banding->own);
  list(std::array<int64_t, 3>{onChip.banding->strips, onChip.banding->loadsWhole, onChip.banding->carriesMaxima});
  for (const BandedTensor *banded : {onChip.banding->input, onChip.banding->addend, onChip.banding->output}) {
    text << (banded ? 'b' : '-');
    if (!banded)
      continue;
    describe(0, banded->layout);
    list(std::array<int64_t, 1>{banded->rows});
    listRanges(banded->bands);
    list(std::array<int64_t, 2>{int64_t(banded->bandsPerRun), banded->ring});
    list(banded->slots);
  }
  return key;
}

llvm::Error Emitter::choose() {
  // A kernel like this may have ranked the tiles.
  Ranking *known = network.rankings ? &(*network.rankings)[rankingKey(plansTiles())] : nullptr;
  bool isKnown = known && !known->empty();
  int64_t unit = contraction() ? machine.cols : machine.lanes;
  bool wholeChannels = packsRows() || llvm::any_of(kernel.steps, [](const Step &s) { return s.reducesChannels; });
  const TileRequest &request = kernel.request;
  if (llvm::Error error = checkRequest(unit, wholeChannels))
    return error;
  std::vector<int64_t> cSizes =
      wholeChannels ? std::vector<int64_t>{roundUp(channels(), unit)} : tileSizes(channels(), unit, 12);
  std::vector<int64_t> icSizes{1};
  if (contraction())
    icSizes = unpacked ? std::vector<int64_t>{kernel.anchor->ic} : tileSizes(kernel.anchor->ic, machine.rows, 8);
  // A matrix product has one axis of positions to look along.
  bool isFlat = kernel.extent[P1] * kernel.extent[P2] == 1;
  const size_t columnSizes = isFlat ? 40 : unpacked ? 12 : 8;
  // A pass counts its positions.
  const int64_t most = contraction() ? isa::maximumOf(isa::Opcode::Tensor, "counts") : INT64_MAX;
  std::vector<int64_t> p0 = tileSizes(bandColumns(), 1, columnSizes, most), p1 = tileSizes(bandRows(), 1, 14, most),
                       p2 = tileSizes(kernel.extent[P2], 1, 4, most);
  if (kernel.pool) {
    p0 = {kernel.extent[P0]};
    p1 = {kernel.extent[P1]};
  }
  // What is asked for need not be what the compiler would look at.
  auto take = [](std::vector<int64_t> &sizes, int64_t asked) {
    if (asked)
      sizes = {asked};
  };
  take(cSizes, request.size[C]);
  take(p0, request.size[P0]);
  take(p1, request.size[P1]);
  take(p2, request.size[P2]);
  take(icSizes, request.ic);
  // Of a row of `w` columns of packed taps.
  auto rowBytes = [&](int64_t w) {
    return unpacked->axes[0].span(kernel.sums({1, w, 1, 1})[P0]) * unpacked->input.stride[P0] * loadedBytes();
  };
  auto isDoubtful = [&](const Tile &t) { return t.carriesMaxima && unpacked && !onChip.banding; };
  const bool asksForWay = !onChip.hasNeighbours && (request.beginsSmall || request.beginsWide || request.oneLoader);
  std::multimap<double, Tile> candidates; ///< the best ones, by the closed form
  Buffers b;                              ///< of the tile at hand
  // Where the list scheduler has the last word, a search also keeps what modulo would show it.
  const bool asksScheduler = overlaps() && (!onChip.hasNeighbours || packsPlanes());
  std::multimap<double, Tile> ofModulo;
  // The best tiles of a product of rows are often one size in many forms: where it may cut them, a search also wants others.
  const bool seeksSizes = schedule == Schedule::Search && canCut() && !onChip.cuts.empty();
  std::multimap<double, Tile> ofSizes;
  const int64_t allPositions = kernel.extent[P0] * kernel.extent[P1] * kernel.extent[P2];
  tapShare = contraction() ? usefulTaps() : 1;
  // double_buffer may also leave a kernel serial: where the data bus is all that counts, long streams in one direction win.
  struct Style {
    unsigned depth;
    bool overlap;
  };
  std::vector<Style> styles{{1, false}};
  if (schedule == Schedule::DoubleBuffer)
    styles = {{1, true}, {2, true}, {1, false}};
  if (overlaps())
    styles = {{1, true}, {2, true}, {3, true}, {4, true}};
  if (request.depth) {
    styles.clear();
    if (schedule != Schedule::Serial)
      styles.push_back({request.depth, true});
    if (request.depth == 1 && !overlaps())
      styles.push_back({1, false});
  }
  if (isKnown)
    candidates = {known->front()};
  else if (known && plansTiles() && schedule == Schedule::Modulo)
    if (auto unplanned = network.rankings->find(rankingKey(false)); unplanned != network.rankings->end())
      candidates.insert(unplanned->second.begin(), unplanned->second.end());
  if (!candidates.empty())
    styles.clear();
  for (Style style : styles)
    for (int64_t n : p2)
      for (int64_t h : p1)
        for (int64_t w : p0) {
          // Splitting an inner position axis only pays once the outer ones are down to one, or where columns are shared and a row
          // of them is half a burst, or where windows share rows.
          const bool isWide =
              w == bandColumns() || (kernel.maxima && !unpacked) ||
              (unpacked && kernel.outputsPerVector == 1 && rowBytes(w) * 2 >= kBurst);
          if ((n > 1 && h < bandRows() && !request.size[P1]) || (h > 1 && !isWide && !request.size[P0]))
            continue;
          for (int64_t c : cSizes)
            for (int64_t ic : icSizes) {
              // Every form of a tile needs as many slots as this one, or more; but where weights stay for parts of positions.
              Tile leastTile = clampTile({{c, w, h, n}, ic});
              if (!leastTile.cut.count() && (!fitsDrained(leastTile, b) || !allocate(b)))
                continue;
              for (int form = 0; form < (!contraction() ? 1 : overlaps() ? 20 : 2); ++form) {
                Tile t = clampTile({{c, w, h, n}, ic, style.depth, form % 2 == 1, style.overlap,
                                    form < 10 ? Tile::Panel(form / 2) : form < 12 ? Tile::NoPanel : Tile::Panel(form / 2 - 6),
                                    form == 10 || form == 11, false, form >= 12});
                if (t.panel == Tile::AllWeights && !onChip.banding && request.panel != unsigned(Tile::AllWeights))
                  continue;
                // Kernels of a group have their turns at the accumulator.
                if (onChip.banding && (t.inputsOuter || t.oneSum))
                  continue;
                // With one tile there is one sum anyway.
                if (t.oneSum && !request.oneSum &&
                    (t.depth == 1 || (t.size[C] >= channels() && positions(t) == allPositions && kernel.anchor->groups == 1)))
                  continue;
                t.byBlock = request.byBlock.value_or(false);
                if (t.byBlock && !t.oneSum)
                  continue;
                if (t.inputsOuter && (t.ic >= kernel.anchor->ic || kernel.anchor->groups > 1 || t.depth == 1))
                  continue;
                if (t.panel != Tile::NoPanel && t.depth == 1)
                  continue;
                if ((request.first || request.last) && positions(t) != allPositions)
                  continue;
                if (!isAskedFor(t) || (asksForWay && waysToLoad(t).empty()) || (request.beginsWide.value_or(false) && !canBeginWide(t)))
                  continue;
                if (kernel.anchor && kernel.anchor->batchAxis && t.size[*kernel.anchor->batchAxis] != 1)
                  continue;
                for (const auto &[carriesMaxima, rolling] : sharings(t)) {
                  t.carriesMaxima = carriesMaxima;
                  t.rolling = rolling;
                  if (!fitsDrained(t, b))
                    continue;
                  if (unpacked && !allocate(b)) // what it costs depends on the banks of its slots
                    continue;
                  double busCycles = 0;
                  const double cycles = cost(t, b, busCycles);
                  auto estimateWith = [&](bool ownBanks) {
                    double estimate = cycles;
                    // Slots that share a bank make engines wait for each other; and the model must see a gain to overlap at all.
                    if (style.overlap)
                      estimate *= ownBanks ? 1.03 : 1.18;
                    // Rows that are loaded may lie in a bank with those that are read.
                    if (t.rolling > 1 && !unpacked)
                      estimate *= 1.05;
                    if (overlaps() && onChip.hasNeighbours && !onChip.banding && crowds(b))
                      estimate *= 1.05;
                    // In a group the vector engine is with other kernels for a band: the array goes on if there is room for its
                    // sums.
                    if (onChip.banding && contraction() &&
                        int64_t(b.all[size_t(b.accumulator)].slots) * positions(t) < 2 * bandRows() * bandColumns())
                      estimate *= 1.1;
                    if (scatters(t))
                      estimate *= 1.2;
                    // Results that all come together, and sums that fill the accumulator, are in the neighbours' way.
                    if (t.inputsOuter && onChip.hasNeighbours && tilesTogether(t) < tileCount(t))
                      estimate *= 1.05;
                    // Short rows are more of a load on DRAM, and on the kernels beside, than they seem.
                    if (t.size[P1] > 1 && t.size[P0] < kernel.extent[P0] && unpacked)
                      estimate *= 1.02;
                    if (isDoubtful(t))
                      estimate *= kDoubtCarried;
                    // What hides behind this kernel's passes is missing for its neighbours' loads.
                    if (overlaps() && onChip.hasNeighbours)
                      estimate += kBusShare * busCycles;
                    return estimate;
                  };
                  const bool searches = schedule == Schedule::Search;
                  const size_t most = !searches ? kCandidates : onChip.hasNeighbours ? kSearched : kSearchedAlone;
                  auto isFull = [](const auto &list, size_t most, double estimate) {
                    return list.size() == most && std::prev(list.end())->first <= estimate;
                  };
                  const bool isForModulo = searches && asksScheduler;
                  auto isWorse = [&](double estimate) {
                    return isFull(candidates, most, estimate) && (!isForModulo || isFull(ofModulo, kCandidates, estimate)) &&
                           (!seeksSizes || isFull(ofSizes, most, estimate));
                  };
                  // Places are looked for only where they can matter.
                  if (isWorse(estimateWith(true)) || (!unpacked && !allocate(b)))
                    continue;
                  const double estimate = estimateWith(b.ownBanks);
                  if (isWorse(estimate))
                    continue;
                  auto insert = [&](std::multimap<double, Tile> &list, size_t most, size_t mostAlone) {
                    if (isFull(list, most, estimate))
                      return;
                    if (!onChip.hasNeighbours || packsPlanes())
                      insertApart(list, estimate, t, onChip.hasNeighbours ? kOfSizePacked : mostAlone);
                    else
                      list.insert({estimate, t});
                    if (list.size() > most)
                      list.erase(std::prev(list.end()));
                  };
                  insert(candidates, most, searches ? kOfSizeAlone : kOfSize);
                  if (isForModulo)
                    insert(ofModulo, kCandidates, kOfSize);
                  if (seeksSizes && !isFull(ofSizes, most, estimate)) {
                    insertApart(ofSizes, estimate, t, kOfSizeRows);
                    if (ofSizes.size() > most)
                      ofSizes.erase(std::prev(ofSizes.end()));
                  }
                }
              }
            }
        }
  if (!candidates.empty()) {
    Ranking ranking = isKnown ? *known : Ranking(candidates.begin(), candidates.end());
    auto isFaster = [](const auto &x, const auto &y) { return x.first < y.first; };
    // The ways to load a tile, the fastest first.
    auto waysOf = [&](double estimate, const Tile &candidate) {
      double doubt = estimate / candidates.begin()->first > 1.15 ? 1.02 : 1;
      // As above: short rows are more than they seem.
      if (packsPlanes() && candidate.size[P0] < kernel.extent[P0] && rowBytes(candidate.size[P0]) < kBurst)
        doubt *= 1.02;
      if (isDoubtful(candidate))
        doubt *= kDoubtCarried;
      double busCycles = 0; // neighbours want the bus as well
      if (Buffers b = plan(candidate); onChip.hasNeighbours && allocate(b))
        cost(candidate, b, busCycles);
      Ranking ways;
      for (const Tile &way : waysToLoad(candidate))
        ways.push_back({tryTile(way) * doubt + kBusShare * busCycles, way});
      std::stable_sort(ways.begin(), ways.end(), isFaster);
      return ways;
    };
    if (!isKnown && plansTiles() && !asksScheduler) { // a search tries the others in their order
      const auto end = ranking.begin() + long(std::min(ranking.size(), kCandidates));
      auto first = ranking.begin();
      double least = std::numeric_limits<double>::infinity();
      for (auto it = first; it != end; ++it)
        if (double cycles = waysOf(it->first, it->second).front().first; cycles < least)
          std::tie(least, first) = std::pair(cycles, it);
      std::rotate(ranking.begin(), first, first + 1);
    }
    if (!isKnown && asksScheduler) {
      // Closed forms do not see who waits for whom: the list scheduler does. Beside other kernels, waiting costs nothing, but for
      // a tile whose loads take as long as its passes.
      // A search begins with what modulo takes.
      if (schedule == Schedule::Search) {
        auto first = ofModulo.begin();
        double least = std::numeric_limits<double>::infinity();
        for (auto it = ofModulo.begin(); it != ofModulo.end(); ++it)
          if (double cycles = waysOf(it->first, it->second).front().first; cycles < least)
            std::tie(least, first) = std::pair(cycles, it);
        llvm::erase_if(ranking, [&](const auto &other) { return givesSameProgram(other.second, first->second); });
        ranking.insert(ranking.begin(), *first);
      }
      Ranking others; // the same tiles, loaded in other ways
      for (auto &[estimate, candidate] : ranking) {
        Ranking ways = waysOf(estimate, candidate);
        std::tie(estimate, candidate) = ways.front();
        if (schedule == Schedule::Search)
          others.insert(others.end(), ways.begin() + 1, ways.end());
      }
      if (schedule != Schedule::Search) {
        auto first = std::min_element(ranking.begin(), ranking.end(), isFaster);
        std::rotate(ranking.begin(), first, first + 1);
      }
      ranking.insert(ranking.end(), others.begin(), others.end());
      std::stable_sort(ranking.begin() + 1, ranking.end(), isFaster);
      // Tiles of one size that it cannot tell apart, loaded in one way, make room for others.
      constexpr double kForEachAlike = 0.01;
      auto keyOf = [](const auto &entry) {
        const auto &[estimate, t] = entry;
        return std::tie(estimate, t.size, t.ic, t.beginsSmall, t.beginsWide, t.oneLoader);
      };
      std::vector<std::pair<double, size_t>> order;
      for (size_t i = 1; i < ranking.size(); ++i) {
        auto isAlike = [&](const auto &other) { return keyOf(other) == keyOf(ranking[i]); };
        const auto alike = std::count_if(ranking.begin(), ranking.begin() + long(i), isAlike);
        order.push_back({ranking[i].first * (1 + kForEachAlike * double(alike)), i});
      }
      llvm::sort(order);
      others.assign(1, ranking.front());
      for (auto [estimate, i] : order)
        others.push_back(ranking[i]);
      ranking = std::move(others);
    }
    if (!isKnown && seeksSizes)
      ranking = withSizesAndCuts(std::exchange(ranking, {}), ofSizes);
    // Beside others, those that a search may want to begin wide come once more behind all.
    if (!isKnown && schedule == Schedule::Search && onChip.hasNeighbours && !request.beginsWide)
      for (size_t i = 0, count = ranking.size(); i < count; ++i)
        if (canBeginWide(ranking[i].second) && !ranking[i].second.cut.count()) {
          ranking.push_back(ranking[i]);
          ranking.back().second.beginsWide = true;
        }
    // And those that carry maxima without, or the other way round.
    if (!isKnown && schedule == Schedule::Search && carried && !onChip.banding && !request.carriesMaxima)
      for (size_t i = 0, count = ranking.size(); i < count; ++i) {
        auto [estimate, t] = ranking[i];
        t.carriesMaxima = !t.carriesMaxima;
        t.rolling = 1;
        if ((!t.carriesMaxima || canCarryMaxima(t)) && fitsDrained(t, b) && allocate(b))
          ranking.push_back({estimate, t});
      }
    // And the best with one sum whose results leave by block: how long the array waits for them otherwise is known when all is planned.
    if (!isKnown && schedule == Schedule::Search && onChip.hasNeighbours && !request.byBlock)
      for (size_t i = 0, left = kByBlock, count = ranking.size(); i < count && left; ++i)
        if (const Tile &t = ranking[i].second; t.oneSum && t.size[C] > int64_t(machine.cols)) {
          --left;
          ranking.push_back(ranking[i]);
          ranking.back().second.byBlock = true;
        }
    if (known)
      *known = ranking;
    size_t pick = std::min<size_t>(layer < network.picks.size() ? network.picks[layer] : 0, ranking.size() - 1);
    for (std::string why; !canBeEncoded(ranking[pick].second, why);)
      if (++pick == ranking.size())
        return llvm::createStringError("%s%s: no tile has instructions that can be encoded; the last one has %s",
                                       placed(request.at()).c_str(), kernel.name.c_str(), why.c_str());
    auto [best, chosen] = ranking[pick];
    if (onChip.hasNeighbours && request.beginsWide)
      chosen.beginsWide = *request.beginsWide;
    takeTile(chosen);
    network.candidates.resize(layer + 1);
    network.candidates[layer] = unsigned(ranking.size());
    network.chosen.resize(layer + 1);
    network.chosen[layer].size = tile.size;
    network.chosen[layer].size[P0] *= kernel.outputsPerVector;
    network.chosen[layer].depth = tile.depth;
    network.chosen[layer].banks = onChip.banks;
    if (contraction()) {
      network.chosen[layer].ic = tile.ic;
      network.chosen[layer].order = tile.channelsOuter + 2u * tile.inputsOuter;
      network.chosen[layer].panel = tile.panel;
      if (overlaps())
        network.chosen[layer].oneSum = tile.oneSum;
      if (tile.oneSum)
        network.chosen[layer].byBlock = tile.byBlock;
      if (overlaps() && tile.ic < kernel.anchor->ic)
        network.chosen[layer].serpentine = onChip.serpentine;
      network.chosen[layer].first = tile.cut.first;
      network.chosen[layer].last = tile.cut.last;
      if (canKeepSums())
        network.chosen[layer].keepsSums = onChip.keepsSums;
      if (carried)
        network.chosen[layer].carriesMaxima = tile.carriesMaxima;
      if (canBeginSmall(tile))
        network.chosen[layer].beginsSmall = tile.beginsSmall;
      if (canBeginWide(tile))
        network.chosen[layer].beginsWide = tile.beginsWide;
      if (canShareLoader())
        network.chosen[layer].oneLoader = tile.oneLoader;
    }
    if (overlaps() && canUseBothEngines(kernel, machine))
      network.chosen[layer].arrayChannels = onChip.arrayChannels;
    if (canRoll(tile))
      network.chosen[layer].rolling = tile.rolling;
    if (schedule == Schedule::DoubleBuffer)
      network.chosen[layer].overlap = tile.overlap;
    if (!tile.overlap)
      schedule = Schedule::Serial;
    network.choices.resize(layer + 1);
    network.choices[layer] =
        llvm::formatv("tile {0} x {1} x {2} positions, {3} channels{4}, {5} slot{6}, {7}, estimate {8} cycles", tile.size[P2],
                      tile.size[P1], tile.size[P0], tile.size[C],
                      contraction() ? llvm::formatv(" from {0}", tile.ic).str() : "", tile.depth, tile.depth > 1 ? "s" : "",
                      std::string(!tile.overlap        ? "serial"
                                  : tile.channelsOuter ? "channels outer"
                                                       : "positions outer") +
                          (tile.oneSum ? ", one sum" : "") +
                          (tile.byBlock ? " by block" : "") +
                          (tile.inputsOuter                  ? ", inputs outermost"
                           : tile.panel == Tile::NoPanel     ? ""
                           : tile.panel == Tile::TwoPanels   ? ", two panels stay"
                           : tile.panel == Tile::AllWeights ? ", all weights stay"
                                                             : ", a panel stays") +
                          (kernel.outputsPerVector > 1
                               ? ", " + std::to_string(kernel.outputsPerVector) + " outputs side by side"
                               : "") +
                          (contraction() && kernel.anchor->pixels.count > 1
                               ? ", " + std::to_string(kernel.anchor->pixels.count) + " pixels a vector"
                               : "") +
                          (pairsRows() ? ", pairs of rows" : "") +
                          (keepsSums(tile) ? ", sums stay" : "") +
                          (tile.carriesMaxima ? ", maxima are carried" : "") +
                          (tile.rolling > 1 ? ", " + std::to_string(tile.rolling) + " share rows" : "") +
                          (onChip.arrayChannels ? ", " + std::to_string(onChip.arrayChannels) + " channels on the array" : "") +
                          (tile.drain ? ", " + std::to_string(tile.drain) + " channels leave at a time" : "") +
                          (onChip.banding ? ", " + std::to_string(onChip.banding->rows.size()) + " bands" : ""),
                      uint64_t(best));
  }
  if (candidates.empty()) {
    auto orLeast = [](int64_t size, int64_t least) { return size ? size : least; };
    Tile least = clampTile({{orLeast(request.size[C], wholeChannels ? channels() : unit), orLeast(request.size[P0], 1),
                             orLeast(request.size[P1], 1), orLeast(request.size[P2], 1)},
                            contraction() ? orLeast(request.ic, unpacked ? kernel.anchor->ic : machine.rows) : 1,
                            unsigned(orLeast(request.depth, request.panel.value_or(0) || request.order.value_or(0) >= 2 ? 2 : 1)),
                            request.order.value_or(0) % 2 == 1, false, Tile::Panel(request.panel.value_or(0)),
                            request.order.value_or(0) >= 2});
    std::map<unsigned, std::pair<int64_t, int64_t>> needed; ///< and what there is
    for (const Buffer &buffer : plan(least).all) {
      needed[buffer.memory].first += buffer.bytes * buffer.slots;
      needed[buffer.memory].second = capacityOf(buffer);
    }
    std::string text;
    for (auto [memory, bytes] : needed) {
      bool acc = memory == unsigned(isa::Memory::Accumulator);
      const timing::MemoryParams &params = acc ? machine.accumulator : machine.scratchpads[memory];
      text += (text.empty() ? "" : ", ") + std::to_string(bytes.first) + " bytes of " + (acc ? "accumulator" : params.name) +
              " (the machine has " + std::to_string(params.capacityBytes);
      if (bytes.second < int64_t(params.capacityBytes))
        text += ", " + std::to_string(bytes.second) + " of them beside tensors that stay on chip";
      text += ")";
    }
    if (request.hasTile() || request.hasBuffers())
      return llvm::createStringError("%skernel '%s': no tile that is asked for fits machine '%s'; the smallest one needs %s",
                                     placed(request.at()).c_str(), kernel.name.c_str(), machine.name.c_str(), text.c_str());
    return llvm::createStringError("%s: no tile fits machine '%s'; the smallest one needs %s", kernel.name.c_str(),
                                   machine.name.c_str(), text.c_str());
  }
  plan(tile, buffers);
  emptySlots();
  network.tileBytes.resize(layer + 1);
  for (const Buffer &buffer : buffers.all)
    if (buffer.memory != unsigned(isa::Memory::Accumulator))
      network.tileBytes[layer] += uint64_t(buffer.bytes);
  if (!overlaps() || !allocate(buffers, network.nextOnChip, &network.nextOnChip))
    allocate(buffers);
  return llvm::Error::success();
}
