//===- Overlap.cpp - Work of many kernels side by side ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Overlap.h"

#include "compiler/schedule/SpaceMap.h"
#include "isa/timing/Dram.h"
#include "isa/timing/InstructionTiming.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace tw;
using namespace tw::schedule;

namespace {
/// A block that goes to one engine; a loop of preloads and tensor instructions counts as the tensor engine's.
struct Node {
  Block block;
  unsigned engine = 0;
  double occupancy = 0; ///< cycles until its engine takes the next one
  double bus = 0;       ///< cycles of the DRAM data bus
  double drain = 0;     ///< from there until its result is there
  std::vector<uint32_t> after;  ///< nodes that must have retired
  std::vector<uint32_t> behind; ///< nodes of the same engine that must have started
  std::vector<uint32_t> next;   ///< nodes that have this one in `after` or `behind`
  uint32_t open = 0;            ///< how many of those before it have no place yet
  double ready = 0;             ///< when all before it let it start
  double start = 0, end = 0;    ///< estimated; end: the result is there
  std::vector<std::pair<uint8_t, uint64_t>> banks; ///< memory, and a bit for each of its banks that the block touches
};

double dramBytesPerCycle(const timing::MachineParams &machine) {
  // Of a device's peak, what refresh, changes of row and turnarounds leave of a mixed stream: plans are nearest the simulation so.
  const double share = machine.dram.kind == timing::DramKind::Ideal ? 1 : 0.8;
  const timing::Ratio peak = timing::dramPeakBytesPerCycle(machine);
  return share * double(peak.numerator) / double(peak.denominator);
}

double dramLatency(const timing::MachineParams &machine) {
  const timing::DramParams &dram = machine.dram;
  if (dram.kind == timing::DramKind::Ideal)
    return dram.latencyCycles + dram.pathLatencyCycles;
  return double(dram.nRCD + dram.nCL + dram.nBurst) * machine.clockMhz / dram.clockMhz + dram.pathLatencyCycles;
}

/// The last accesses to a run of bytes.
struct History {
  int64_t writer = -1;
  int64_t reader = -1; ///< the last one since the write, index into Overlapper::readers
};

/// Lists of readers share their older parts, as the pieces of a run that was read as a whole do.
struct Reader {
  uint32_t node, engine;
  int64_t before; ///< the one before, index into Overlapper::readers
};

/// An operation may go before one that is ahead of it in the steps and not ready yet, if it delays that by at most this share of its
/// own time less. 1 keeps engines idle for what comes; 0 never waits.
constexpr double kPatience = 0.25;

class Overlapper {
public:
  explicit Overlapper(const timing::MachineParams &machine)
      : machine(machine), bytesPerCycle(dramBytesPerCycle(machine)), latency(dramLatency(machine)), spaces(kDramSpace + 1),
        ready(numEngines(machine)), ordered(numEngines(machine)), engineFree(numEngines(machine), 0) {
    bankFree.assign(kDramSpace, std::vector<std::vector<double>>(64, std::vector<double>(numEngines(machine), 0)));
  }

  /// The next so many calls of add() need no more room.
  void expect(size_t blocks) { nodes.reserve(nodes.size() + blocks); }
  void add(Block block);
  TileProgram run(double limit);
  double estimated = 0; ///< run(): cycles until everything has retired
  /// Schedules; returns when the last node ends, or `limit` or more as soon as it must be that.
  double schedule(double limit = std::numeric_limits<double>::infinity());

private:
  const timing::MachineParams &machine;
  double bytesPerCycle, latency;
  std::vector<Node> nodes;
  std::vector<SpaceMap<History>> spaces;
  std::vector<Reader> readers;
  std::vector<std::set<uint32_t>> ready;      ///< per engine: nodes that wait for nothing without a place
  std::vector<std::vector<uint32_t>> ordered; ///< per engine, as scheduled
  std::vector<double> engineFree;
  double busFree = 0;
  /// By memory, bank and engine: until when the engine has the bank to itself, as estimated.
  std::vector<std::vector<std::vector<double>>> bankFree;

  const timing::MemoryParams &memoryOf(unsigned space) const {
    return space == unsigned(isa::Memory::Accumulator) ? machine.accumulator : machine.scratchpads[space];
  }
  unsigned tensorEngine() const { return machine.storeEngines + 1; }
  void estimate(Node &node);
  void findBanks(Node &node) const;
  double banksFree(const Node &node) const;
  void depend(Node &node, uint32_t index);
  TileProgram merge();
};

/// What a box costs: bursts of DRAM, and segments, the pieces that move one after the other.
struct Transfer {
  double bursts = 0, segments = 0;
};

template <typename Box> Transfer transferOf(const Box &box, int64_t burst) {
  int64_t runs = 1, extent = box.counts[0] << box.element_log2;
  for (int d = 1; d < 5; ++d)
    runs *= box.counts[d];
  auto pieces = [&] {
    bool aligned = extent % burst == 0 && box.dram_address % burst == 0;
    return double(runs) * (double((extent + burst - 1) / burst) + (aligned ? 0 : 0.5));
  };
  // Dense boxes are one run.
  int d = 1;
  for (; d < 5 && (box.counts[d] == 1 || box.dram_strides[d - 1] == extent); ++d) {
    extent *= box.counts[d];
    runs /= box.counts[d];
  }
  Transfer transfer;
  transfer.segments = pieces();
  // Runs less than a burst apart share bursts.
  for (; d < 5 && (box.counts[d] == 1 || std::abs(box.dram_strides[d - 1]) < burst); ++d) {
    extent += (box.counts[d] - 1) * std::abs(box.dram_strides[d - 1]);
    runs /= box.counts[d];
  }
  transfer.bursts = pieces();
  return transfer;
}

void Overlapper::estimate(Node &node) {
  auto transfer = [&](const Transfer &work) {
    node.bus = work.bursts * machine.dram.burstBytes / bytesPerCycle;
    node.occupancy = std::max(work.segments / machine.burstsPerCycle, node.bus);
  };
  double tensor = 0, preload = 0;
  for (const Operation &operation : node.block.operations) {
    const isa::Instruction &instruction = operation.instruction;
    if (auto *load = instruction.getIf<isa::Load>()) {
      transfer(transferOf(*load, machine.dram.burstBytes));
      node.drain = latency;
    } else if (auto *store = instruction.getIf<isa::Store>()) {
      transfer(transferOf(*store, machine.dram.burstBytes));
      node.drain = 10;
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
    node.occupancy = double(node.block.count) * std::max(tensor, preload + 2);
}

void Overlapper::findBanks(Node &node) const {
  std::array<uint64_t, kDramSpace> masks{};
  for (const Operation &operation : node.block.operations)
    for (const Region &region : operation.regions) {
      if (region.space >= kDramSpace)
        continue;
      const timing::MemoryParams &memory = memoryOf(region.space);
      const uint64_t last = std::min<uint64_t>((region.end - 1) / memory.bankBytes(), 63);
      for (uint64_t bank = region.begin / memory.bankBytes(); bank <= last; ++bank)
        masks[region.space] |= uint64_t(1) << bank;
    }
  for (uint8_t space = 0; space < kDramSpace; ++space)
    if (masks[space])
      node.banks.push_back({space, masks[space]});
}

double Overlapper::banksFree(const Node &node) const {
  double free = 0;
  for (auto [space, mask] : node.banks)
    for (uint64_t rest = mask; rest; rest &= rest - 1) {
      const std::vector<double> &engines = bankFree[space][size_t(__builtin_ctzll(rest))];
      for (size_t engine = 0; engine < engines.size(); ++engine)
        if (engine != node.engine)
          free = std::max(free, engines[engine]);
    }
  return free;
}

void Overlapper::depend(Node &node, uint32_t index) {
  auto orderAfter = [&](uint32_t earlier, bool retired) {
    if (earlier == index)
      return;
    auto &list = retired ? node.after : node.behind;
    if (list.empty() || list.back() != earlier)
      list.push_back(earlier);
  };
  bool accumulates = node.engine == tensorEngine();
  for (const Operation &operation : node.block.operations)
    for (const Region &region : operation.regions)
      spaces[region.space].forRange(region.begin, region.end, [&](const History &history) {
        if (history.writer >= 0) {
          bool own = nodes[size_t(history.writer)].engine == node.engine;
          bool accumulation = accumulates && own && region.space == unsigned(isa::Memory::Accumulator);
          orderAfter(uint32_t(history.writer), !own || (!region.write && !accumulation));
        }
        if (region.write)
          for (int64_t i = history.reader; i >= 0; i = readers[size_t(i)].before)
            orderAfter(readers[size_t(i)].node, readers[size_t(i)].engine != node.engine);
      });
  // Reads first: an operation that reads what it writes is its own last writer.
  for (const Operation &operation : node.block.operations)
    for (const Region &region : operation.regions)
      if (!region.write)
        spaces[region.space].forRange(region.begin, region.end, [&](History &history) {
          if (history.reader >= 0 && readers[size_t(history.reader)].node == index)
            return;
          readers.push_back({index, node.engine, history.reader});
          history.reader = int64_t(readers.size()) - 1;
        });
  for (const Operation &operation : node.block.operations)
    for (const Region &region : operation.regions)
      if (region.write)
        spaces[region.space].merge(region.begin, region.end) = {int64_t(index), -1};
  for (auto *list : {&node.after, &node.behind}) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }
}

void Overlapper::add(Block block) {
  Node node;
  node.engine = engineIndex(block.operations.front().instruction, machine);
  for (const Operation &operation : block.operations)
    if (operation.instruction.getIf<isa::Tensor>())
      node.engine = tensorEngine();
  node.block = std::move(block);
  estimate(node);
  findBanks(node);
  uint32_t index = uint32_t(nodes.size());
  nodes.push_back(std::move(node));
  depend(nodes.back(), index);
}

double Overlapper::schedule(double limit) {
  double last = 0;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    for (auto *list : {&nodes[i].after, &nodes[i].behind})
      for (uint32_t earlier : *list)
        nodes[earlier].next.push_back(i);
    nodes[i].open = uint32_t(nodes[i].after.size() + nodes[i].behind.size());
    if (!nodes[i].open)
      ready[nodes[i].engine].insert(i);
  }
  while (true) {
    int64_t chosen = -1;
    double chosenStart = 0;
    for (size_t engine = 0; engine < ready.size(); ++engine) {
      // The first in the order of the steps, unless one behind it is done before that can start.
      int64_t best = -1;
      double bestStart = 0;
      for (uint32_t index : ready[engine]) {
        const Node &node = nodes[index];
        double start = std::max({node.ready, engineFree[engine], banksFree(node)});
        if (best < 0 || start + kPatience * node.occupancy < bestStart) {
          best = index;
          bestStart = start;
        }
        if (start <= engineFree[engine])
          break;
      }
      if (best >= 0 && (chosen < 0 || bestStart < chosenStart || (bestStart == chosenStart && best < chosen))) {
        chosen = best;
        chosenStart = bestStart;
      }
    }
    if (chosen < 0 || last >= limit)
      return last;
    Node &node = nodes[size_t(chosen)];
    ready[node.engine].erase(uint32_t(chosen));
    node.start = chosenStart;
    double done = chosenStart + node.occupancy;
    if (node.bus > 0) {
      busFree = std::max(busFree, chosenStart) + node.bus;
      done = std::max(done, busFree);
    }
    engineFree[node.engine] = done;
    for (auto [space, mask] : node.banks)
      for (uint64_t rest = mask; rest; rest &= rest - 1)
        bankFree[space][size_t(__builtin_ctzll(rest))][node.engine] = done;
    node.end = done + node.drain;
    last = std::max(last, node.end);
    ordered[node.engine].push_back(uint32_t(chosen));
    for (uint32_t later : node.next) {
      Node &other = nodes[later];
      // In `after`, or in `behind`, or in both.
      bool retired = std::binary_search(other.after.begin(), other.after.end(), uint32_t(chosen));
      other.ready = std::max(other.ready, retired ? node.end : node.start);
      if (!--other.open)
        ready[other.engine].insert(later);
    }
  }
}

/// One program out of the orders of all engines. The sequencer stands still in a loop of passes until the last ones are
/// dispatched: what starts meanwhile goes before the loop if it waits for nothing of it, as far as queues have room.
TileProgram Overlapper::merge() {
  TileProgram program;
  std::vector<size_t> next(ordered.size(), 0);
  std::vector<bool> emitted(nodes.size(), false);
  auto emit = [&](unsigned engine) {
    uint32_t index = ordered[engine][next[engine]++];
    emitted[index] = true;
    program.blocks.push_back(std::move(nodes[index].block));
    program.blocks.back().plannedStart = nodes[index].start;
    program.blocks.back().plannedEvery = nodes[index].occupancy / double(program.blocks.back().count);
  };
  auto head = [&](unsigned engine) -> Node * {
    return next[engine] < ordered[engine].size() ? &nodes[ordered[engine][next[engine]]] : nullptr;
  };
  auto waitsForNothing = [&](const Node &node) {
    auto isEmitted = [&](uint32_t earlier) { return bool(emitted[earlier]); };
    return std::all_of(node.after.begin(), node.after.end(), isEmitted) &&
           std::all_of(node.behind.begin(), node.behind.end(), isEmitted);
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
    for (int engine; (engine = earliest(tensor->start + tensor->occupancy, fits)) >= 0;) {
      ++ahead[size_t(engine)];
      emit(unsigned(engine));
    }
    emit(tensorEngine());
  }
  for (int engine; (engine = earliest(1e300, [](unsigned, const Node &) { return true; })) >= 0;)
    emit(unsigned(engine));
  return program;
}

TileProgram Overlapper::run(double limit) {
  estimated = schedule(limit);
  return estimated < limit ? merge() : TileProgram();
}
} // namespace

static Overlapper overlapperOf(std::vector<Step> steps, const timing::MachineParams &machine) {
  Overlapper overlapper(machine);
  size_t blocks = 0;
  for (const Step &step : steps)
    blocks += step.loads.size() + step.compute.size();
  overlapper.expect(blocks);
  for (Step &step : steps) {
    for (Operation &load : step.loads) {
      Block block;
      block.operations.push_back(std::move(load)); // a list in braces would copy it
      overlapper.add(std::move(block));
    }
    for (Block &block : step.compute)
      overlapper.add(std::move(block));
  }
  return overlapper;
}

TileProgram schedule::overlap(std::vector<Step> steps, const timing::MachineParams &machine, double *cycles, double limit) {
  Overlapper overlapper = overlapperOf(std::move(steps), machine);
  TileProgram program = overlapper.run(limit);
  if (cycles)
    *cycles = overlapper.estimated;
  return program;
}

std::vector<PlannedStarts> schedule::plannedStarts(const TileProgram &program, const timing::MachineParams &machine) {
  std::vector<PlannedStarts> starts(numEngines(machine));
  for (const Block &block : program.blocks)
    for (const Operation &operation : block.operations) {
      if (operation.instruction.getIf<isa::Preload>())
        continue;
      PlannedStarts &own = starts[engineIndex(operation.instruction, machine)];
      for (uint64_t i = 0; i < block.count; ++i)
        own.push_back(uint64_t(std::llround(block.plannedStart + double(i) * block.plannedEvery)));
    }
  return starts;
}

double schedule::estimateOverlapped(std::vector<Step> steps, const timing::MachineParams &machine) {
  return overlapperOf(std::move(steps), machine).schedule();
}
