//===- Overlap.cpp - Work of many kernels side by side ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Overlap.h"

#include "compiler/cost/Constants.h"
#include "compiler/schedule/PriorityFunction.h"
#include "compiler/schedule/SpaceMap.h"
#include "isa/timing/Dram.h"
#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <list>
#include <numeric>
#include <queue>

using namespace tw;
using namespace tw::schedule;

namespace {
/// A block that goes to one engine; a loop of preloads and tensor instructions counts as the tensor engine's.
struct Node {
  Operation *first = nullptr; ///< of the block's operations
  size_t size = 0;
  Block *block = nullptr; ///< null: the operation stands alone
  uint64_t count = 1;     ///< Block::count
  unsigned engine = 0;
  uint32_t step = 0; ///< that it belongs to
  uint32_t open = 0; ///< how many of those before it have no place yet
  uint32_t rank = 0; ///< what is first goes first, if it can
  /// Its parts of the Overlapper's lists; they end where the next node's begin.
  uint32_t firstBefore = 0, firstNext = 0, firstBank = 0;
  double occupancy = 0;      ///< cycles until its engine takes the next one
  double bus = 0;            ///< cycles of the DRAM data bus
  double channel = 0;        ///< the same, of the channel that is busy longest
  uint64_t from = 0, to = 0; ///< a load's, in DRAM
  double buffered = 0;       ///< how many of them the engine need not wait for
  double writing = 0;        ///< a store: cycles for which it keeps the write buffer full, if that is what limits it
  double drain = 0;          ///< from there until its result is there
  double ready = 0;          ///< when all before it let it start
  double start = 0, end = 0; ///< estimated; end: the result is there
};

/// Part of a list of all nodes' items.
template <typename T> struct Part {
  const T *from, *to;
  const T *begin() const { return from; }
  const T *end() const { return to; }
};

/// A node that must have started, or retired, before another one.
struct Edge {
  uint32_t node : 31;
  uint32_t retired : 1;
};

/// Banks of one memory, a bit for each.
struct Banks {
  uint64_t mask;
  uint8_t space;
};

/// Until when engines have a bank to themselves, as estimated: the last of them, and the last other one.
struct Bank {
  unsigned engine = ~0u;
  double free = 0, freeOfOthers = 0;

  double freeFor(unsigned other) const { return other == engine ? freeOfOthers : free; }
  /// An engine's own times only grow.
  void take(unsigned by, double until) {
    if (by == engine) {
      free = until;
    } else if (until > free) {
      freeOfOthers = free;
      engine = by;
      free = until;
    } else {
      freeOfOthers = std::max(freeOfOthers, until);
    }
  }
};

double dramBytesPerCycle(const timing::MachineParams &machine, Bus bus) {
  // Of a device's peak, what refresh and changes of row leave; turnarounds as well of a mixed stream, more with short bursts.
  const double share = machine.dram.kind == timing::DramKind::Ideal ? 1
                       : bus == Bus::Alternating                    ? cost::kAlternatingBandwidth
                                                                    : cost::kMixedBandwidth;
  const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
  return share * double(peak.numerator) / double(peak.denominator);
}

/// For how long a store of `bursts` keeps the write buffer full. It has few places, and takes a burst for each write that is done: with
/// many channels that, and not the data bus, is what limits stores. Writes of one stream find their rows closed or in use once in every
/// bank group; those of other groups overlap with that as far as the buffer reaches.
double writingCycles(double bursts, const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  const double places = dram.writeBufferBursts, waiting = bursts - places;
  if (dram.kind == timing::DramKind::Ideal || waiting <= 0)
    return 0;
  const double cyclesPerTick = double(machine.clockMhz) / dram.clockMhz;
  // Accepted, requested, and done on the next full cycle: half of one later than the tick. A windowed controller takes it from its line in a
  // tick before that of the command.
  const double ticks = double(dram.nCWL + dram.nBurst) + (dram.controller == timing::DramController::Windowed ? 1 : 0);
  const double write = 1.5 + ticks * cyclesPerTick + dram.pathLatencyCycles;
  const double open = double(dram.nRP + dram.nRCDWR) * cyclesPerTick;
  const double opened = std::ceil(std::min(waiting, double(dram.channels * dram.bankGroups)) / places);
  return (waiting / places * write + opened * open) * (1 + timing::dramRefreshShare(dram));
}

/// The last accesses to a run of bytes.
struct History {
  int32_t writer = -1;
  int32_t reader = -1; ///< the last one since the write, index into Overlapper::readers
};

/// Lists of readers share their older parts, as the pieces of a run that was read as a whole do.
struct Reader {
  uint32_t node, engine;
  int32_t before;        ///< the one before, index into Overlapper::readers
  uint32_t seenBy = ~0u; ///< the last node that went over the list from here on
};

/// How much longer two loads take that are in different rows of one bank. In order each closes the other's row every few bursts: of two
/// alone it was 1.8 with DDR4 and 2.7 with LPDDR4. A windowed controller serves one row after the other: 1.2 with DDR4 and 1.4 with HBM2
/// (docs/dram.md, twostream_conflict and stream).
double meetingCost(const timing::DramParams &dram) {
  return dram.controller == timing::DramController::InOrder ? cost::kConflictInOrder : cost::kConflictWindowed;
}

/// How often a plan is made backwards and forwards again, for each way to choose between what can be last.
constexpr int kRounds = 3;

class Overlapper {
public:
  /// The steps outlive the scheduler.
  Overlapper(std::vector<Step> &steps, const timing::MachineParams &machine, Bus bus);

  double estimated = 0; ///< run(): cycles until everything has retired, by the first schedule
  /// Takes the blocks out of the steps.
  TileProgram run(Priority priority, double limit, bool backwards);
  /// The same by a function.
  Result<TileProgram> run(const PriorityFunction &priority, double limit);
  /// Schedules by rank; returns when the last node ends, or `limit` or more as soon as it must be that.
  double schedule(double limit = std::numeric_limits<double>::infinity());
  /// All that the engines have to do. `scheduled`: cycles by the list scheduler.
  cost::StepsWork work(double scheduled) const;

private:
  const timing::MachineParams &machine;
  const Bus bus;
  double bytesPerCycle, latency;
  const timing::DramAddressMap map;
  std::vector<Node> nodes; ///< and one behind the last
  std::vector<Edge> before;
  std::vector<Edge> next; ///< nodes that have this one before them, and how
  std::vector<Banks> banks;
  std::vector<uint32_t> firstPass; ///< per step: the first node of the array from there on
  std::vector<uint32_t> edgeTo;    ///< per node: where it was put into `before` last
  std::vector<SpaceMap<History>> spaces;
  std::vector<std::pair<uint64_t, uint64_t>> stored; ///< runs of DRAM that some operation writes, in order and apart
  std::vector<Reader> readers;
  std::vector<std::vector<uint32_t>> ready;   ///< per engine: nodes that wait for nothing without a place, sorted
  std::vector<std::vector<uint32_t>> ordered; ///< per engine, as scheduled
  std::vector<double> engineFree;
  double busFree = 0;
  double readEnd = 0, writeEnd = 0; ///< Bus::Alternating: when the other direction may have it
  std::array<std::array<Bank, 64>, kDramSpace> bankFree{};
  Rounds rounds;
  /// An engine's next node, while nothing changes that it was chosen by.
  struct Candidate {
    bool isKnown = false;
    int64_t node = -1;
    double start = 0;
    std::array<uint64_t, kDramSpace> banks; ///< that it depends on
  };
  std::vector<Candidate> candidates;

  const timing::MemoryParams &memoryOf(unsigned space) const {
    return space == unsigned(isa::Memory::Accumulator) ? machine.accumulator : machine.scratchpads[space];
  }
  unsigned tensorEngine() const { return machine.storeEngines + 1; }
  bool isStore(const Node &node) const { return node.engine < machine.storeEngines; }
  /// Whether the bus turns round for a store: where it takes longer than that does.
  bool takesTurn(const Node &node) const { return bus == Bus::Alternating && isStore(node) && node.bus > latency; }
  unsigned firstLoadEngine() const { return machine.storeEngines + 3; }
  bool isDevice() const { return machine.dram.kind != timing::DramKind::Ideal; }
  double meeting(const Node &node) const;
  Part<Operation> operationsOf(const Node &node) const { return {node.first, node.first + node.size}; }
  Part<Edge> beforeOf(const Node &node) const {
    return {before.data() + node.firstBefore, before.data() + (&node)[1].firstBefore};
  }
  Part<Edge> nextOf(const Node &node) const { return {next.data() + node.firstNext, next.data() + (&node)[1].firstNext}; }
  Part<Banks> banksOf(const Node &node) const { return {banks.data() + node.firstBank, banks.data() + (&node)[1].firstBank}; }
  void add(Operation *first, size_t size, Block *block, uint32_t step);
  void estimate(Node &node);
  void findBanks(const Node &node);
  double banksFree(const Node &node) const;
  void findStored(const std::vector<Step> &steps);
  /// Whether nobody writes any of it: then who reads it waits for nobody there, and nobody for that.
  bool isConstant(const Region &region) const {
    if (region.space != kDramSpace)
      return false;
    auto it = std::upper_bound(stored.begin(), stored.end(), region.begin,
                               [](uint64_t at, const auto &run) { return at < run.second; });
    return it == stored.end() || it->first >= region.end;
  }
  void depend(const Node &node, uint32_t index);
  void findNext();
  std::vector<double> dueBy(Priority priority) const;
  std::vector<double> latestStarts(const std::vector<double> &lastFirst) const;
  void rankBy(const std::vector<double> &due);
  std::vector<double> starts() const;
  void planAgain(double cycles, std::vector<double> due);
  void choose(unsigned engine);
  TileProgram merge();
};

/// What a box costs: bursts of DRAM, segments, the pieces that move one after the other, and which part of all channels its runs meet
/// only, if they lie at regular distances.
struct Transfer {
  double bursts = 0, segments = 0, channels = 1;
};

template <typename Box> Transfer transferOf(const Box &box, const timing::DramParams &dram) {
  const int64_t burst = dram.burstBytes;
  int64_t runs = 1, extent = box.counts[0] << box.element_log2, repeated = 0;
  for (int d = 1; d < 5; ++d)
    runs *= box.counts[d];
  if constexpr (std::is_same_v<Box, isa::Load>)
    if (box.broadcast) { // a run is one element of DRAM
      repeated = extent;
      extent = int64_t(1) << box.element_log2;
    }
  // Runs begin on a grid, and where on it is as good as random.
  int64_t grid = std::gcd(std::gcd(int64_t(box.dram_address), extent), burst);
  for (int d = 1; d < 5; ++d)
    grid = box.counts[d] > 1 ? std::gcd(grid, int64_t(box.dram_strides[d - 1])) : grid;
  auto pieces = [&] { return double(runs) * double(extent + burst - grid) / double(burst); };
  Transfer transfer;
  transfer.segments = repeated ? double(runs * ((repeated + burst - 1) / burst)) : pieces();
  // Dense boxes are one run for DRAM.
  int d = 1;
  for (; d < 5 && (box.counts[d] == 1 || box.dram_strides[d - 1] == extent); ++d) {
    extent *= box.counts[d];
    runs /= box.counts[d];
  }
  // Runs less than a burst apart share bursts. Where some overlap, those across the end of a burst take turns at it and the next one.
  const int64_t run = extent;
  auto runsRead = [&](int i) {
    if constexpr (std::is_same_v<Box, isa::Load>)
      return box.counts[i] - box.low[i] - box.high[i];
    else
      return box.counts[i];
  };
  double again = 0;
  for (; d < 5 && (box.counts[d] == 1 || std::abs(box.dram_strides[d - 1]) < burst); ++d) {
    const int64_t stride = std::abs(box.dram_strides[d - 1]);
    if (runsRead(d) > 1 && stride && extent == run)
      again = 2 * std::max(0.0, double(run - grid) / double(stride) - 1);
    extent += (box.counts[d] - 1) * stride;
    runs /= box.counts[d];
  }
  transfer.bursts = pieces() + double(runs) * again * double(extent - grid) / double(burst);
  int64_t apart = dram.channels;
  for (; d < 5; ++d)
    if (box.counts[d] > 1)
      apart = box.dram_strides[d - 1] % burst ? 1 : std::gcd(apart, box.dram_strides[d - 1] / burst);
  transfer.channels = double(std::min((extent + burst - 1) / burst, apart)) / double(apart);
  return transfer;
}

void Overlapper::estimate(Node &node) {
  double tensor = 0, preload = 0;
  for (const Operation &operation : operationsOf(node)) {
    const isa::Instruction &instruction = operation.instruction;
    if (auto *load = instruction.getIf<isa::Load>()) {
      const Transfer work = transferOf(*load, machine.dram);
      node.bus = work.bursts * machine.dram.burstBytes / bytesPerCycle;
      node.channel = node.bus / work.channels;
      node.from = node.to = uint64_t(load->dram_address);
      for (int d = 1; d < 5; ++d)
        node.to += uint64_t((load->counts[d] - 1) * std::max<int64_t>(load->dram_strides[d - 1], 0));
      node.to += uint64_t(load->counts[0]) << load->element_log2;
      node.occupancy = std::max({work.segments / machine.burstsPerCycle, node.channel,
                                 work.bursts * machine.dram.burstBytes / timing::loadBytesPerCycle(machine)});
      node.drain = latency;
    } else if (auto *store = instruction.getIf<isa::Store>()) {
      const Transfer work = transferOf(*store, machine.dram);
      node.bus = work.bursts * machine.dram.burstBytes / bytesPerCycle;
      node.buffered = double(machine.dram.writeBufferBursts) * machine.dram.burstBytes / bytesPerCycle;
      node.occupancy = std::max(work.segments / machine.burstsPerCycle, node.bus / work.channels - node.buffered);
      if (const double writing = writingCycles(work.bursts, machine); writing > node.occupancy)
        node.occupancy = node.writing = writing;
      node.drain = cost::kHandover;
    } else if (auto *vector = instruction.getIf<isa::Vector>()) {
      timing::InstructionTime time = timing::timeOf(*vector, machine);
      node.occupancy = double(time.occupancy);
      node.drain = double(time.drain);
    } else if (auto *operands = instruction.getIf<isa::Tensor>()) {
      timing::InstructionTime time = timing::timeOf(*operands, machine);
      tensor = double(time.occupancy);
      node.drain = double(time.drain);
    } else if (auto *tile = instruction.getIf<isa::Preload>()) {
      timing::InstructionTime time = timing::timeOf(*tile, machine);
      preload = double(time.occupancy + time.drain);
    }
  }
  if (tensor)
    node.occupancy = double(node.count) * std::max(tensor, preload + 2);
}

/// How much longer a load takes because another engine's goes through other rows of the same banks meanwhile.
double Overlapper::meeting(const Node &node) const {
  constexpr int kSamples = 4;
  // Neighbours in address differ in channel and bank group first.
  const uint64_t block = uint64_t(machine.dram.burstBytes) * machine.dram.channels * machine.dram.bankGroups;
  auto rowAt = [&](const Node &load, double end, double time) {
    const double done = (time - load.start) / (end - load.start);
    return map.locate((load.from + uint64_t(double(load.to - load.from) * done)) / block * block);
  };
  const double end = node.start + node.occupancy;
  double cycles = 0;
  for (unsigned engine = firstLoadEngine(); engine < engineFree.size(); ++engine) {
    if (engine == node.engine || engineFree[engine] <= node.start)
      continue;
    const Node &other = nodes[ordered[engine].back()];
    const double begin = std::max(node.start, other.start), together = std::min(end, engineFree[engine]) - begin;
    for (int i = 0; i < kSamples && together > 0; ++i) {
      const double time = begin + together * (i + 0.5) / kSamples;
      const timing::DramLocation a = rowAt(node, end, time), b = rowAt(other, engineFree[engine], time);
      if (a.flatBank == b.flatBank && a.row != b.row)
        cycles += together / kSamples * (meetingCost(machine.dram) - 1);
    }
  }
  return cycles;
}

void Overlapper::findBanks(const Node &node) {
  std::array<uint64_t, kDramSpace> masks{};
  const Region *known = nullptr; // neighbours mostly lie in the banks of the last one that did not
  uint64_t knownBegin = 0, knownEnd = 0;
  for (const Operation &operation : operationsOf(node))
    for (const Region &region : operation.regions) {
      if (region.space >= kDramSpace)
        continue;
      if (known && region.space == known->space && region.begin >= knownBegin && region.end <= knownEnd)
        continue;
      const uint64_t bytes = memoryOf(region.space).bankBytes();
      const uint64_t first = std::min<uint64_t>(region.begin / bytes, 64);
      const uint64_t last = std::min<uint64_t>((region.end - 1) / bytes, 63);
      if (first <= last)
        masks[region.space] |= (~uint64_t(0) >> (63 - last)) & (~uint64_t(0) << first);
      known = &region;
      knownBegin = first * bytes;
      knownEnd = (last + 1) * bytes;
    }
  for (uint8_t space = 0; space < kDramSpace; ++space)
    if (masks[space])
      banks.push_back({masks[space], space});
}

double Overlapper::banksFree(const Node &node) const {
  double free = 0;
  for (auto [mask, space] : banksOf(node))
    for (uint64_t rest = mask; rest; rest &= rest - 1)
      free = std::max(free, bankFree[space][size_t(__builtin_ctzll(rest))].freeFor(node.engine));
  return free;
}

void Overlapper::depend(const Node &node, uint32_t index) {
  auto orderAfter = [&](uint32_t earlier, bool retired) {
    if (earlier == index)
      return;
    uint32_t &edge = edgeTo[earlier];
    if (edge < node.firstBefore || edge >= before.size() || before[edge].node != earlier) {
      edge = uint32_t(before.size());
      before.push_back({earlier, false});
    }
    before[edge].retired |= retired;
  };
  const bool accumulates = node.engine == tensorEngine();
  // Neighbours mostly have the same history.
  int32_t lastWriter = -1;
  const Region *lastRegion = nullptr;
  auto orderAfterWriter = [&](const History &history, const Region &region) {
    if (history.writer < 0)
      return;
    if (history.writer == lastWriter && region.space == lastRegion->space && region.write == lastRegion->write)
      return;
    lastWriter = history.writer;
    lastRegion = &region;
    const bool own = nodes[size_t(history.writer)].engine == node.engine;
    const bool accumulation = accumulates && own && region.space == unsigned(isa::Memory::Accumulator);
    orderAfter(uint32_t(history.writer), !own || (!region.write && !accumulation));
  };
  if (const uint32_t step = node.first->notBefore; step && firstPass[step] < index)
    orderAfter(firstPass[step], false);
  int32_t lastReader = -2, added = -1;
  // Reads first: an operation that reads what it writes is its own last writer.
  for (const Operation &operation : operationsOf(node))
    for (const Region &region : operation.regions) {
      if (region.write || isConstant(region))
        continue;
      spaces[region.space].forRange(region.begin, region.end, [&](History &history) {
        orderAfterWriter(history, region);
        if (history.reader >= 0 && readers[size_t(history.reader)].node == index)
          return;
        if (history.reader != lastReader) {
          lastReader = history.reader;
          added = int32_t(readers.size());
          readers.push_back({index, node.engine, lastReader});
        }
        history.reader = added;
      });
    }
  for (const Operation &operation : operationsOf(node))
    for (const Region &region : operation.regions) {
      if (!region.write)
        continue;
      spaces[region.space].assign(region.begin, region.end, {int32_t(index), -1}, [&](const History &history) {
        orderAfterWriter(history, region);
        for (int32_t i = history.reader; i >= 0 && readers[size_t(i)].seenBy != index; i = readers[size_t(i)].before) {
          readers[size_t(i)].seenBy = index;
          orderAfter(readers[size_t(i)].node, readers[size_t(i)].engine != node.engine);
        }
      });
    }
  for (const Operation &operation : operationsOf(node))
    if (operation.round)
      for (auto [engine, earlier] : rounds.record(operation, node.engine, index))
        orderAfter(earlier, true);
}

void Overlapper::add(Operation *first, size_t size, Block *block, uint32_t step) {
  const uint32_t index = uint32_t(nodes.size());
  Node &node = nodes.emplace_back();
  node.first = first;
  node.size = size;
  node.block = block;
  node.step = step;
  node.rank = index;
  node.count = block ? block->count : 1;
  node.engine = engineIndex(first->instruction, machine);
  for (const Operation &operation : operationsOf(node))
    if (operation.instruction->getIf<isa::Tensor>())
      node.engine = tensorEngine();
  node.firstBefore = uint32_t(before.size());
  node.firstBank = uint32_t(banks.size());
  estimate(node);
  findBanks(node);
  depend(node, index);
}

void Overlapper::findStored(const std::vector<Step> &steps) {
  for (const Step &step : steps)
    for (const Block &block : step.compute)
      for (const Operation &operation : block.operations)
        for (const Region &region : operation.regions)
          if (region.write && region.space == kDramSpace)
            stored.push_back({region.begin, region.end});
  std::sort(stored.begin(), stored.end());
  size_t count = 0;
  for (const auto &run : stored)
    if (count && run.first <= stored[count - 1].second)
      stored[count - 1].second = std::max(stored[count - 1].second, run.second);
    else
      stored[count++] = run;
  stored.resize(count);
}

Overlapper::Overlapper(std::vector<Step> &steps, const timing::MachineParams &machine, Bus bus)
    : machine(machine), bus(bus), bytesPerCycle(dramBytesPerCycle(machine, bus)),
      latency(timing::dramTypicalLatencyCycles(machine)), map(machine.dram), ready(numEngines(machine)),
      ordered(numEngines(machine)), engineFree(numEngines(machine), 0), candidates(numEngines(machine)) {
  for (unsigned space = 0; space <= kDramSpace; ++space)
    spaces.emplace_back(space == kDramSpace ? kDramPageLog2 : kChipPageLog2);
  findStored(steps);
  size_t blocks = 0;
  for (const Step &step : steps)
    blocks += step.loads.size() + step.compute.size();
  nodes.reserve(blocks + 1);
  edgeTo.assign(blocks, 0);
  firstPass.assign(steps.size(), std::numeric_limits<uint32_t>::max());
  uint32_t withoutPass = 0; // the first step of those
  for (uint32_t index = 0; index < steps.size(); ++index) {
    for (Operation &load : steps[index].loads)
      add(&load, 1, nullptr, index);
    for (Block &block : steps[index].compute) {
      add(block.operations.data(), block.operations.size(), &block, index);
      for (; nodes.back().engine == tensorEngine() && withoutPass <= index; ++withoutPass)
        firstPass[withoutPass] = uint32_t(nodes.size()) - 1;
    }
  }
  nodes.emplace_back();
  nodes.back().firstBefore = uint32_t(before.size());
  nodes.back().firstBank = uint32_t(banks.size());
  findNext();
}

/// When each node is due: what is first goes first. By deadlines that is when the array, if it never stood still, would begin what needs
/// it, less what lies between. What the array never needs comes last. Where only some are due so, the others are when they come.
std::vector<double> Overlapper::dueBy(Priority priority) const {
  const size_t count = nodes.size() - 1;
  std::vector<double> due(count), reached(count);
  if (priority == Priority::ProgramOrder) {
    std::iota(due.begin(), due.end(), 0);
    return due;
  }
  double work = 0;
  // Layers that keep their steps' order: those with work for the array, and those that already take turns with others.
  std::vector<bool> isSeen, keepsOrder;
  for (size_t i = 0; i < count; ++i) {
    const bool isTensor = nodes[i].engine == tensorEngine();
    due[i] = isTensor ? work : std::numeric_limits<double>::infinity();
    reached[i] = work;
    if (isTensor)
      work += nodes[i].occupancy;
    const uint32_t layer = nodes[i].first->layer;
    if (isSeen.size() <= layer) {
      isSeen.resize(layer + 1);
      keepsOrder.resize(layer + 1);
    }
    if (isTensor || (isSeen[layer] && layer != nodes[i - 1].first->layer))
      keepsOrder[layer] = true;
    isSeen[layer] = true;
  }
  for (size_t i = count; i-- > 0;)
    for (Edge edge : nextOf(nodes[i]))
      due[i] = std::min(due[i], due[edge.node] - (edge.retired ? nodes[i].occupancy + nodes[i].drain : 0));
  if (priority == Priority::Interleaved)
    for (size_t i = 0; i < count; ++i)
      if (keepsOrder[nodes[i].first->layer])
        due[i] = reached[i];
  return due;
}

/// When each node starts, the end being at 0, in a list schedule that runs backwards from there: engines and the bus take what can be
/// last, of several the one with the largest `lastFirst`. It knows no banks.
std::vector<double> Overlapper::latestStarts(const std::vector<double> &lastFirst) const {
  using Item = std::pair<double, uint32_t>; // a number to sort by, and the node
  struct Engine {
    double free = 0;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> waiting; ///< by when they can be taken
    std::priority_queue<Item> ready;
  };
  // Times are those before the end: a node starts where its work ends.
  const size_t count = nodes.size() - 1;
  std::vector<double> earliest(count, 0), starts(count);
  std::vector<uint32_t> open(count);
  std::vector<Engine> engines(engineFree.size());
  auto makeReady = [&](uint32_t i) { engines[nodes[i].engine].waiting.push({earliest[i], i}); };
  for (uint32_t i = 0; i < count; ++i)
    if (!(open[i] = (&nodes[i])[1].firstNext - nodes[i].firstNext))
      makeReady(i);
  double busFree = 0;
  while (true) {
    Engine *first = nullptr;
    double start = 0;
    for (Engine &engine : engines) {
      for (; !engine.waiting.empty() && engine.waiting.top().first <= engine.free; engine.waiting.pop())
        engine.ready.push({lastFirst[engine.waiting.top().second], engine.waiting.top().second});
      if (engine.ready.empty() && engine.waiting.empty())
        continue;
      const double next = engine.ready.empty() ? engine.waiting.top().first : engine.free;
      if (!first || next < start) {
        first = &engine;
        start = next;
      }
    }
    if (!first)
      return starts;
    const bool waits = first->ready.empty();
    const uint32_t index = waits ? first->waiting.top().second : first->ready.top().second;
    waits ? first->waiting.pop() : first->ready.pop();
    const Node &node = nodes[index];
    double done = start + std::max(node.occupancy, node.channel);
    if (node.bus > 0) {
      busFree = std::max(busFree, start) + node.bus;
      done = std::max(done, busFree - node.buffered);
    }
    first->free = done;
    starts[index] = -done;
    for (Edge edge : beforeOf(node)) {
      const Node &other = nodes[edge.node];
      earliest[edge.node] = std::max(earliest[edge.node], done + (edge.retired ? other.drain : -other.occupancy));
      if (!--open[edge.node])
        makeReady(edge.node);
    }
  }
}

void Overlapper::rankBy(const std::vector<double> &due) {
  std::vector<uint32_t> byDue(due.size());
  std::iota(byDue.begin(), byDue.end(), 0);
  std::stable_sort(byDue.begin(), byDue.end(), [&](uint32_t a, uint32_t b) { return due[a] < due[b]; });
  for (uint32_t i = 0; i < due.size(); ++i)
    nodes[byDue[i]].rank = i;
}

/// A schedule that runs forwards knows what an operation waits for, but not what waits for it. One that runs backwards knows when each
/// must start at the latest, and the next one forwards goes by that. Behind a schedule of `cycles`, by `due`: leaves the best one.
void Overlapper::planAgain(double cycles, std::vector<double> due) {
  std::vector<double> bySteps(nodes.size() - 1);
  std::iota(bySteps.begin(), bySteps.end(), 0);
  for (std::vector<double> lastFirst : {starts(), std::move(bySteps)}) {
    double before = 0;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<double> latest = latestStarts(lastFirst);
      rankBy(latest);
      const double now = schedule();
      lastFirst = starts();
      if (now < cycles) {
        cycles = now;
        due = std::move(latest);
      }
      if (now == std::exchange(before, now))
        break;
    }
  }
  rankBy(due);
  schedule();
}

std::vector<double> Overlapper::starts() const {
  std::vector<double> starts(nodes.size() - 1);
  std::transform(nodes.begin(), nodes.end() - 1, starts.begin(), [](const Node &node) { return node.start; });
  return starts;
}

void Overlapper::findNext() {
  const size_t count = nodes.size() - 1;
  for (Edge edge : before)
    ++nodes[edge.node + 1].firstNext;
  for (size_t i = 0; i < count; ++i)
    nodes[i + 1].firstNext += nodes[i].firstNext;
  next.resize(before.size());
  std::vector<uint32_t> used(count, 0);
  for (uint32_t i = 0; i < count; ++i)
    for (Edge edge : beforeOf(nodes[i]))
      next[nodes[edge.node].firstNext + used[edge.node]++] = {i, edge.retired};
}

/// The first by rank, unless one behind it is done before that can start.
void Overlapper::choose(unsigned engine) {
  Candidate best;
  best.isKnown = true;
  best.banks = {};
  for (uint32_t index : ready[engine]) {
    const Node &node = nodes[index];
    for (auto [mask, space] : banksOf(node))
      best.banks[space] |= mask;
    double start = std::max({node.ready, engineFree[engine], banksFree(node)});
    if (best.node < 0 || start + cost::kPatience * node.occupancy < best.start) {
      best.node = index;
      best.start = start;
    }
    if (start <= engineFree[engine])
      break;
  }
  candidates[engine] = best;
}

double Overlapper::schedule(double limit) {
  double last = 0;
  busFree = readEnd = writeEnd = 0;
  bankFree = {};
  std::fill(engineFree.begin(), engineFree.end(), 0);
  std::fill(candidates.begin(), candidates.end(), Candidate());
  for (std::vector<uint32_t> &list : ordered)
    list.clear();
  for (std::vector<uint32_t> &list : ready)
    list.clear();
  auto isEarlier = [&](uint32_t a, uint32_t b) { return nodes[a].rank < nodes[b].rank; };
  auto makeReady = [&](uint32_t index) {
    std::vector<uint32_t> &list = ready[nodes[index].engine];
    list.insert(std::upper_bound(list.begin(), list.end(), index, isEarlier), index);
    candidates[nodes[index].engine].isKnown = false;
  };
  for (uint32_t i = 0; i + 1 < nodes.size(); ++i) {
    nodes[i].ready = 0;
    nodes[i].open = nodes[i + 1].firstBefore - nodes[i].firstBefore;
    if (!nodes[i].open)
      makeReady(i);
  }
  while (true) {
    int64_t chosen = -1;
    double chosenStart = 0;
    for (unsigned engine = 0; engine < ready.size(); ++engine) {
      if (!candidates[engine].isKnown)
        choose(engine);
      const auto &[isKnown, best, bestStart, on] = candidates[engine];
      if (best >= 0 && (chosen < 0 || bestStart < chosenStart || (bestStart == chosenStart && best < chosen))) {
        chosen = best;
        chosenStart = bestStart;
      }
    }
    if (chosen < 0 || last >= limit)
      return last;
    Node &node = nodes[size_t(chosen)];
    std::vector<uint32_t> &list = ready[node.engine];
    list.erase(std::lower_bound(list.begin(), list.end(), uint32_t(chosen), isEarlier));
    candidates[node.engine].isKnown = false;
    node.start = chosenStart;
    if (takesTurn(node))
      node.start = std::max(node.start, readEnd);
    else if (node.bus > 0 && !isStore(node))
      node.start = std::max(node.start, writeEnd);
    const double wait = isDevice() && node.to ? meeting(node) : 0;
    double done = node.start + std::max(node.occupancy, node.channel + wait);
    if (node.bus > 0) {
      if (bus == Bus::Shared && node.writing > 0)
        done = std::max(done, busFree + node.writing);
      // A store that takes longer than the bus does waits for its writes, and those for loads that come meanwhile.
      for (unsigned store = 0; bus == Bus::Shared && !isStore(node) && store < machine.storeEngines; ++store)
        if (engineFree[store] > std::max(node.start, busFree)) {
          engineFree[store] += node.bus;
          candidates[store].isKnown = false;
        }
      busFree = std::max(busFree, node.start) + node.bus + wait;
      done = std::max(done, busFree - node.buffered);
      last = std::max(last, busFree);
      if (takesTurn(node))
        writeEnd = done + node.drain + cost::kHandover;
      else if (!isStore(node))
        readEnd = done + node.drain + cost::kHandover;
    }
    engineFree[node.engine] = done;
    for (auto [mask, space] : banksOf(node)) {
      for (uint64_t rest = mask; rest; rest &= rest - 1)
        bankFree[space][size_t(__builtin_ctzll(rest))].take(node.engine, done);
      for (Candidate &candidate : candidates)
        candidate.isKnown &= !(candidate.banks[space] & mask);
    }
    node.end = done + node.drain;
    last = std::max(last, node.end);
    ordered[node.engine].push_back(uint32_t(chosen));
    for (Edge edge : nextOf(node)) {
      Node &other = nodes[edge.node];
      other.ready = std::max(other.ready, edge.retired ? node.end : node.start);
      if (!--other.open)
        makeReady(edge.node);
    }
  }
}

/// One program out of the orders of all engines. The sequencer stands still in a loop of passes until the last ones are
/// dispatched: what starts meanwhile goes before the loop if it waits for nothing of it, as far as queues have room. So does what
/// starts between the loops of one step: steps that look the same become iterations of one loop.
///
/// An engine's instructions follow one another in a bank without a gap: others that want it wait until the engine leaves. Where the
/// vector engine has its turn between passes, these wait for it.
TileProgram Overlapper::merge() {
  TileProgram program;
  std::vector<size_t> next(ordered.size(), 0);
  std::vector<bool> emitted(nodes.size(), false);
  program.blocks.reserve(nodes.size() - 1);
  std::vector<bool> turned(ordered.size(), false); // per engine: stores have had the bus since its last load
  auto meet = [&](const Node &a, const Node &b) {
    const Part<Banks> list = banksOf(b);
    return std::any_of(list.begin(), list.end(), [&](const Banks &other) {
      const Part<Banks> own = banksOf(a);
      return std::any_of(own.begin(), own.end(),
                         [&](const Banks &k) { return k.space == other.space && (k.mask & other.mask); });
    });
  };
  // The last of the vector engine's nodes that start between two of the tensor engine's and want a bank of both.
  auto yieldsTo = [&](const Node &from, const Node &to) -> uint32_t {
    const std::vector<uint32_t> &list = ordered[machine.storeEngines];
    for (size_t i = next[machine.storeEngines]; i > 0 && nodes[list[i - 1]].start >= from.start; --i)
      if (const Node &node = nodes[list[i - 1]]; node.start < to.start && meet(node, from) && meet(node, to))
        return uint32_t(i);
    return 0;
  };
  auto emit = [&](unsigned engine) {
    uint32_t index = ordered[engine][next[engine]++];
    emitted[index] = true;
    const Node &node = nodes[index];
    Block &block = program.blocks.emplace_back();
    if (node.block)
      block = std::move(*node.block);
    else
      block.operations.push_back(std::move(*node.first));
    if (takesTurn(node)) {
      block.operations[0].turns = true;
      turned.assign(ordered.size(), true);
    } else if (node.bus > 0 && !isStore(node) && turned[engine]) {
      block.operations[0].turns = true;
      turned[engine] = false;
    }
    if (engine == tensorEngine() && next[engine] > 1)
      for (Operation &operation : block.operations)
        if (operation.instruction->getIf<isa::Tensor>()) {
          operation.yieldsTo = yieldsTo(nodes[ordered[engine][next[engine] - 2]], node);
          break;
        }
    block.plannedStart = node.start;
    block.plannedEvery = node.occupancy / double(block.count);
  };
  auto head = [&](unsigned engine) -> Node * {
    return next[engine] < ordered[engine].size() ? &nodes[ordered[engine][next[engine]]] : nullptr;
  };
  auto waitsForNothing = [&](const Node &node) {
    const Part<Edge> list = beforeOf(node);
    return std::all_of(list.begin(), list.end(), [&](Edge edge) { return bool(emitted[edge.node]); });
  };
  // The engine whose next node starts first, not later than `until`.
  auto earliest = [&](double until, auto accept) {
    int best = -1;
    for (unsigned engine = 0; engine < ordered.size(); ++engine) {
      Node *node = engine == tensorEngine() ? nullptr : head(engine);
      if (node && node->start <= until && accept(engine, *node) && (best < 0 || node->start < head(unsigned(best))->start))
        best = int(engine);
    }
    return best;
  };
  const size_t room = machine.queueDepth > 2 ? machine.queueDepth - 2 : 1;
  while (Node *tensor = head(tensorEngine())) {
    for (int engine; (engine = earliest(tensor->start, [](unsigned, const Node &) { return true; })) >= 0;)
      emit(unsigned(engine));
    std::vector<size_t> ahead(ordered.size(), 0);
    for (unsigned engine = 0; engine < ordered.size(); ++engine)
      for (size_t i = next[engine]; i > 0 && nodes[ordered[engine][i - 1]].start > tensor->start; --i)
        ++ahead[engine];
    auto fits = [&](unsigned engine, const Node &node) { return ahead[engine] < room && waitsForNothing(node); };
    double until = tensor->start + tensor->occupancy;
    const std::vector<uint32_t> &passes = ordered[tensorEngine()];
    for (size_t i = next[tensorEngine()] + 1; i < passes.size() && nodes[passes[i]].step == tensor->step; ++i)
      until = nodes[passes[i]].start + nodes[passes[i]].occupancy;
    for (int engine; (engine = earliest(until, fits)) >= 0;) {
      ++ahead[size_t(engine)];
      emit(unsigned(engine));
    }
    emit(tensorEngine());
  }
  for (int engine; (engine = earliest(1e300, [](unsigned, const Node &) { return true; })) >= 0;)
    emit(unsigned(engine));
  return program;
}

cost::StepsWork Overlapper::work(double scheduled) const {
  std::vector<double> busy(engineFree.size(), 0);
  cost::StepsWork work;
  work.scheduled = scheduled;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    busy[nodes[i].engine] += nodes[i].occupancy;
    work.bus += nodes[i].bus;
  }
  work.vector = busy[machine.storeEngines];
  work.array = busy[tensorEngine()];
  for (unsigned engine = 0; engine < machine.storeEngines; ++engine)
    work.stores = std::max(work.stores, busy[engine]);
  for (unsigned engine = firstLoadEngine(); engine < busy.size(); ++engine)
    work.loads = std::max(work.loads, busy[engine]);
  return work;
}

TileProgram Overlapper::run(Priority priority, double limit, bool backwards) {
  std::vector<double> due = dueBy(priority);
  rankBy(due);
  estimated = schedule(limit);
  if (estimated >= limit)
    return {};
  if (backwards)
    planAgain(estimated, std::move(due));
  return merge();
}

Result<TileProgram> Overlapper::run(const PriorityFunction &priority, double limit) {
  PriorityProblem problem{machine, {}, {}};
  const std::vector<double> latest = dueBy(Priority::Alap);
  for (uint32_t i = 0; i < latest.size(); ++i) {
    const Node &node = nodes[i];
    problem.operations.push_back({node.engine, node.first->layer, node.step, node.occupancy, node.drain, node.bus, latest[i]});
    for (Edge edge : beforeOf(node))
      problem.dependences.push_back({edge.node, i, bool(edge.retired)});
  }
  std::vector<double> numbers;
  try {
    numbers = priority(problem);
  } catch (const std::exception &exception) {
    return Diagnostic{"", 0, 0, std::string("it threw: ") + exception.what()};
  }
  if (numbers.size() != latest.size())
    return Diagnostic{"", 0, 0,
                      "it gives " + std::to_string(numbers.size()) + " numbers for " + std::to_string(latest.size()) +
                          " operations"};
  if (std::any_of(numbers.begin(), numbers.end(), [](double number) { return std::isnan(number); }))
    return Diagnostic{"", 0, 0, "it gives a NaN"};
  rankBy(numbers);
  estimated = schedule(limit);
  return estimated >= limit ? TileProgram() : merge();
}

class Priorities : public PriorityRegistry {
public:
  bool add(const std::string &name, PriorityFunction function) override {
    for (Priority known : {Priority::ProgramOrder, Priority::Alap, Priority::Interleaved})
      if (name == plan::nameOf(known))
        return false;
    if (name.empty() || !function || find(name))
      return false;
    all.push_back({name, std::move(function)});
    return true;
  }
  const PriorityFunction *find(const std::string &name) const override {
    for (const auto &[known, function] : all)
      if (known == name)
        return &function;
    return nullptr;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto &entry : all)
      names.push_back(entry.first);
    return names;
  }

private:
  std::list<std::pair<std::string, PriorityFunction>> all; ///< addresses stay
};
} // namespace

PriorityRegistry &schedule::priorities() {
  static Priorities registry;
  return registry;
}

Result<TileProgram> schedule::overlapBy(const PriorityFunction &priority, std::vector<Step> steps,
                                        const timing::MachineParams &machine, cost::StepsWork *work, double limit, Bus bus) {
  Overlapper overlapper(steps, machine, bus);
  Result<TileProgram> program = overlapper.run(priority, limit);
  if (work)
    *work = overlapper.work(overlapper.estimated);
  return program;
}

TileProgram schedule::overlap(std::vector<Step> steps, const timing::MachineParams &machine, cost::StepsWork *work,
                              double limit, Priority priority, Bus bus, bool backwards) {
  Overlapper overlapper(steps, machine, bus);
  TileProgram program = overlapper.run(priority, limit, backwards);
  if (work)
    *work = overlapper.work(overlapper.estimated);
  return program;
}

std::vector<PlannedStarts> schedule::plannedStarts(const TileProgram &program, const timing::MachineParams &machine) {
  std::vector<PlannedStarts> starts(numEngines(machine));
  for (const Block &block : program.blocks)
    for (const Operation &operation : block.operations) {
      if (operation.instruction->getIf<isa::Preload>())
        continue;
      PlannedStarts &own = starts[engineIndex(operation.instruction, machine)];
      for (uint64_t i = 0; i < block.count; ++i)
        own.push_back(uint64_t(std::llround(block.plannedStart + double(i) * block.plannedEvery)));
    }
  return starts;
}

cost::StepsWork schedule::overlappedWork(std::vector<Step> steps, const timing::MachineParams &machine) {
  Overlapper overlapper(steps, machine, Bus::Shared);
  return overlapper.work(overlapper.schedule());
}
