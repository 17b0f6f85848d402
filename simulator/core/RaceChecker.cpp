//===- RaceChecker.cpp - Happens-before between accesses ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/core/RaceChecker.h"

#include "isa/timing/InstructionTiming.h"

#include <algorithm>

using namespace tw;
using namespace tw::core;
using timing::EngineKind;

namespace {

template <size_t N> void join(std::array<uint32_t, N> &clock, const std::array<uint32_t, N> &other) {
  for (size_t i = 0; i < N; ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// Every address, stride and length of an instruction joined bit by bit, per memory: granules must divide them all.
class Alignment {
public:
  void add(unsigned memory, int64_t value) { bits[memory] |= uint64_t(value < 0 ? -value : value); }
  unsigned shift(unsigned memory) const {
    constexpr unsigned kLargest = 6;
    return bits[memory] ? std::min(kLargest, unsigned(__builtin_ctzll(bits[memory]))) : kLargest;
  }

private:
  std::array<uint64_t, kNumMemories> bits{};
};

} // namespace

RaceChecker::Walk RaceChecker::walkOf(const isa::Tensor &tensor) {
  Walk walk;
  walk.address = tensor.acc_address;
  size_t last = 0;
  for (size_t d = 0; d < 3; ++d) {
    if (tensor.counts[d] == 1)
      continue;
    // A dimension that goes on where the one before ends is the same walk as one long dimension.
    if (walk.counts[last] > 1 && tensor.acc_strides[d] == walk.counts[last] * walk.strides[last]) {
      walk.counts[last] *= tensor.counts[d];
      continue;
    }
    last += walk.counts[last] > 1;
    walk.counts[last] = tensor.counts[d];
    walk.strides[last] = tensor.acc_strides[d];
  }
  return walk;
}

bool RaceChecker::keepsDistance(const Walk &first, const Walk &second) {
  if (first == second)
    return true;
  std::array<int64_t, 13> key{second.address - first.address};
  for (size_t d = 0; d < 3; ++d) {
    key[1 + d] = first.counts[d], key[4 + d] = first.strides[d];
    key[7 + d] = second.counts[d], key[10 + d] = second.strides[d];
  }
  auto [known, isNew] = distances.insert({key, true});
  if (!isNew)
    return known->second;
  auto rowOf = [](const Walk &walk, int64_t visit) {
    int64_t row = walk.address;
    for (size_t d = 0; d < 3; ++d) {
      row += visit % walk.counts[d] * walk.strides[d];
      visit /= walk.counts[d];
    }
    return row;
  };
  // A row a cycle. The second starts when the first has visited all of its rows, and not before the interlock lets it.
  const int64_t rows = first.counts[0] * first.counts[1] * first.counts[2];
  const int64_t others = second.counts[0] * second.counts[1] * second.counts[2];
  const int64_t distance = int64_t(timing::accumulatorDistance(machine)), gap = std::max(rows, distance);
  for (int64_t i = std::max<int64_t>(gap - distance + 1, 0); i < rows; ++i)
    for (int64_t j = 0; j < std::min(others, distance - gap + i); ++j)
      if (rowOf(first, i) == rowOf(second, j))
        return known->second = false;
  return true;
}

unsigned RaceChecker::indexOf(EngineKind engine, unsigned unit) {
  assert(engine != EngineKind::Sequencer && "the sequencer touches no data");
  return timing::kAllEngines.indexOf(engine, unit);
}

std::string RaceChecker::nameOf(unsigned engine) { return timing::kAllEngines.nameOf(engine); }

std::string RaceChecker::describe(Id id) const {
  if (id == kHost)
    return "the host";
  unsigned engine = (id >> kNumberBits) - 1;
  uint32_t number = id & ((1u << kNumberBits) - 1);
  return nameOf(engine) + " (word " + std::to_string(engines[engine].pcs[number - 1]) + ")";
}

RaceChecker::RaceChecker(const timing::MachineParams &machine, const isa::Program &program, CheckOptions options)
    : machine(machine), options(options), semaphores(machine.semaphores) {
  if (!options.any())
    return;
  setGranules(program);
  auto track = [&](unsigned memory, uint64_t bytes) {
    Tracked &tracked = memories[memory];
    tracked.granules = (bytes + (uint64_t(1) << tracked.shift) - 1) >> tracked.shift;
    tracked.writers = ZeroedMemory(tracked.granules * 4, "the check of accesses");
    for (ZeroedMemory &readers : tracked.readers)
      readers = ZeroedMemory(tracked.granules * 4, "the check of accesses");
  };
  for (size_t i = 0; i < machine.scratchpads.size(); ++i)
    track(unsigned(i), machine.scratchpads[i].capacityBytes);
  track(unsigned(isa::Memory::Accumulator), machine.accumulator.capacityBytes);
  track(kDramMemory, machine.dram.capacityBytes);

  for (const isa::Segment &segment : program.constants)
    mark(segment.address, segment.bytes.size(), kConstant);
  for (const isa::TensorInfo &input : program.inputs)
    mark(input.address, input.bytes, kHost);
  codeRange = {program.codeAddress, program.codeAddress + program.code.size() * sizeof(isa::Word)};
  mark(codeRange.first, codeRange.second - codeRange.first, kHost);
}

void RaceChecker::setGranules(const isa::Program &program) {
  Alignment alignment;
  for (size_t pc = 0; pc < program.code.size();) {
    isa::Decoded decoded = isa::decode(&program.code[pc], program.code.size() - pc);
    if (!decoded)
      break;
    const isa::Instruction &instruction = decoded.instruction;
    pc += std::max(1u, instruction.words());
    for (const RunSet &set : accessesOf(instruction, machine)) {
      alignment.add(set.memory, set.begin);
      alignment.add(set.memory, set.bytes);
      for (const RunSet::Dimension &dimension : set.dimensions)
        if (dimension.count > 1)
          alignment.add(set.memory, dimension.stride);
      // Strides and edges act on any operand: adding them all is safe and seldom costs anything.
      for (int64_t i = 0; i < instruction.header.num_levels; ++i) {
        const isa::Level &level = instruction.levels[i];
        if (level.count <= 1)
          continue;
        bool isDram = set.memory == kDramMemory, isTensor = instruction.getIf<isa::Tensor>();
        if (isDram || instruction.getIf<isa::Vector>())
          alignment.add(set.memory, level.stride_a);
        if (!isDram)
          alignment.add(set.memory, level.stride_b);
        if (instruction.getIf<isa::Vector>())
          alignment.add(set.memory, level.stride_c), alignment.add(set.memory, level.stride_d);
        if (isTensor)
          alignment.add(unsigned(isa::Memory::Accumulator), level.stride_c * machine.accumulatorRowBytes());
      }
      for (int64_t edge : instruction.header.edge_value)
        if (edge) {
          int64_t elementBytes = 1;
          if (const isa::Load *load = instruction.getIf<isa::Load>())
            elementBytes = int64_t(1) << load->element_log2;
          if (const isa::Store *store = instruction.getIf<isa::Store>())
            elementBytes = int64_t(1) << store->element_log2;
          bool changesRuns = instruction.getIf<isa::Load>() || instruction.getIf<isa::Store>();
          if (changesRuns)
            alignment.add(set.memory, edge * elementBytes);
          // A dimension of extent 1 may get a larger one.
          for (const RunSet::Dimension &dimension : set.dimensions)
            alignment.add(set.memory, dimension.stride);
        }
    }
  }
  for (const isa::TensorInfo &input : program.inputs)
    alignment.add(kDramMemory, int64_t(input.address)), alignment.add(kDramMemory, int64_t(input.bytes));
  for (const isa::Segment &segment : program.constants)
    alignment.add(kDramMemory, int64_t(segment.address)), alignment.add(kDramMemory, int64_t(segment.bytes.size()));
  for (unsigned memory = 0; memory < kNumMemories; ++memory)
    memories[memory].shift = alignment.shift(memory);
}

void RaceChecker::mark(uint64_t address, uint64_t bytes, Id writer) {
  Tracked &dram = memories[kDramMemory];
  uint64_t first = address >> dram.shift;
  uint64_t last = std::min((address + bytes + (uint64_t(1) << dram.shift) - 1) >> dram.shift, dram.granules);
  if (first < last) {
    uint32_t *writers = dram.writer(last);
    std::fill(writers + first, writers + last, writer);
  }
}

std::optional<Violation> RaceChecker::takeWaits(unsigned engine, const isa::Header &header) {
  Engine &self = engines[engine];
  auto take = [&](unsigned i) {
    Semaphore &semaphore = semaphores[header.wait_semaphore[i]];
    semaphore.taken += uint64_t(header.wait_count[i]);
    // Posts of one engine come in order: the last one needed was made after all the others.
    for (const Semaphore::Post &post : semaphore.posts)
      if (post.upTo >= semaphore.taken) {
        join(self.clock, post.clock);
        break;
      }
    while (!semaphore.posts.empty() && semaphore.posts.front().upTo <= semaphore.taken)
      semaphore.posts.pop_front();
    semaphore.lastTake = self.started;
  };
  // Semaphores that change their waiter come last: the instruction's other waits may be what orders the change.
  for (unsigned i = 0; i < header.wait_count.size(); ++i)
    if (header.wait_count[i] &&
        (semaphores[header.wait_semaphore[i]].waiter == int(engine) || semaphores[header.wait_semaphore[i]].waiter < 0)) {
      semaphores[header.wait_semaphore[i]].waiter = int(engine);
      take(i);
    }
  for (unsigned i = 0; i < header.wait_count.size(); ++i) {
    if (!header.wait_count[i])
      continue;
    Semaphore &semaphore = semaphores[header.wait_semaphore[i]];
    if (semaphore.waiter == int(engine))
      continue;
    if (options.unordered && self.clock[semaphore.waiter] < semaphore.lastTake)
      return Violation{FaultKind::Unordered,
                       nameOf(engine) + " waits for semaphore " + std::to_string(header.wait_semaphore[i]) + ", which " +
                           nameOf(unsigned(semaphore.waiter)) + " waited for before, and nothing orders them"};
    semaphore.waiter = int(engine);
    take(i);
  }
  return std::nullopt;
}

std::optional<Violation> RaceChecker::start(const isa::Instruction &resolved, uint64_t pc) {
  if (!options.any())
    return std::nullopt;
  unsigned e = indexOf(resolved.engine(), unsigned(resolved.header.unit));
  Engine &self = engines[e];
  ++self.started;
  assert(self.started < 1u << kNumberBits && "instruction numbers of one engine have 28 bits");
  self.pcs.push_back(pc);
  if (std::optional<Violation> violation = takeWaits(e, resolved.header))
    return violation;
  const isa::Tensor *tensor = resolved.getIf<isa::Tensor>();
  bool isPreload = resolved.getIf<isa::Preload>();
  if (isPreload)
    join(self.clock, shadowTaken);
  if (tensor) {
    if (tensor->swap) {
      join(self.clock, shadowReady);
      shadowTaken = self.clock;
    }
    self.walks.push_back(walkOf(*tensor));
  }
  self.inFlight.push_back({self.started, self.clock, resolved.header, isPreload});

  if (const isa::Vector *vector = resolved.getIf<isa::Vector>())
    if (std::optional<Violation> violation = accessInOrder(e, *vector))
      return violation;
  for (RunSet &set : accessesOf(resolved, machine)) {
    // A row must not be written twice by one tensor instruction, so those stay single.
    if (!set.write || !tensor)
      set.unite();
    if (std::optional<Violation> violation = access(e, set, tensor && tensor->accumulate))
      return violation;
  }
  return std::nullopt;
}

std::optional<Violation> RaceChecker::retire(EngineKind engine, unsigned unit) {
  if (!options.any())
    return std::nullopt;
  unsigned e = indexOf(engine, unit);
  assert(!engines[e].inFlight.empty() && "only what has started retires");
  Started done = std::move(engines[e].inFlight.front());
  engines[e].inFlight.pop_front();
  Clock clock = done.clock;
  clock[e] = done.number;
  if (done.isPreload)
    shadowReady = clock;
  for (unsigned i = 0; i < done.header.post_count.size(); ++i) {
    if (!done.header.post_count[i])
      continue;
    Semaphore &semaphore = semaphores[done.header.post_semaphore[i]];
    if (semaphore.poster != int(e)) {
      bool isFree = semaphore.posted == semaphore.taken;
      bool isOrdered = semaphore.waiter < 0 || semaphore.waiter == int(e) || clock[semaphore.waiter] >= semaphore.lastTake;
      if (options.unordered && semaphore.poster >= 0 && !(isFree && isOrdered))
        return Violation{FaultKind::Unordered, nameOf(e) + " posts semaphore " + std::to_string(done.header.post_semaphore[i]) +
                                                   ", which " + nameOf(unsigned(semaphore.poster)) +
                                                   " posted before, and nothing says that those posts are taken"};
      semaphore.poster = int(e);
    }
    semaphore.posted += uint64_t(done.header.post_count[i]);
    semaphore.posts.push_back({semaphore.posted, clock});
  }
  return std::nullopt;
}

std::optional<Violation> RaceChecker::access(unsigned engine, const RunSet &set, bool accumulates) {
  std::optional<Violation> violation;
  set.forEach([&](int64_t begin, int64_t end) {
    if (!violation)
      violation = set.write
                      ? write(engine, set.memory, begin, end)
                      : read(engine, set.memory, begin, end, accumulates && set.memory == unsigned(isa::Memory::Accumulator));
  });
  return violation;
}

Violation RaceChecker::unordered(unsigned engine, const char *verb, unsigned memory, uint64_t granule, const char *otherVerb,
                                 Id other) const {
  unsigned shift = memories[memory].shift;
  return {FaultKind::Unordered, describe(currentId(engine)) + " " + verb + " byte " + std::to_string(granule << shift) +
                                    " of " + memoryName(memory) + ", which " + describe(other) + " " + otherVerb +
                                    ", and nothing orders them"};
}

std::optional<Violation> RaceChecker::read(unsigned engine, unsigned memory, int64_t begin, int64_t end, bool accumulates) {
  Tracked &tracked = memories[memory];
  Engine &self = engines[engine];
  uint64_t first = uint64_t(begin) >> tracked.shift, last = (uint64_t(end) - 1) >> tracked.shift;
  assert(begin >= 0 && begin < end && last < tracked.granules && "checked by isa::outOfRange()");
  const uint32_t *writers = tracked.writer(last + 1);
  Id known = kHost;
  for (uint64_t g = first; g <= last; ++g) {
    Id id = writers[g];
    if (id == known)
      continue;
    if (id == 0) {
      if (options.unwritten)
        return Violation{FaultKind::UnwrittenRead, describe(currentId(engine)) + " reads byte " +
                                                       std::to_string(g << tracked.shift) + " of " + memoryName(memory) +
                                                       ", which nothing has written"};
      continue;
    }
    known = id;
    if (!options.unordered || id >= kConstant)
      continue;
    unsigned other = (id >> kNumberBits) - 1;
    uint32_t number = id & ((1u << kNumberBits) - 1);
    bool isOrdered = self.clock[other] >= number;
    // An instruction's own earlier row is not that of another walk.
    if (!isOrdered && accumulates && other == engine && number != self.started)
      isOrdered = keepsDistance(self.walks[number - 1], self.walks[self.started - 1]);
    if (!isOrdered)
      return unordered(engine, "reads", memory, g, "writes", id);
  }
  if (options.unordered) {
    uint32_t *readers = tracked.reader(engine, last + 1);
    std::fill(readers + first, readers + last + 1, self.started);
  }
  return std::nullopt;
}

std::optional<Violation> RaceChecker::write(unsigned engine, unsigned memory, int64_t begin, int64_t end) {
  Tracked &tracked = memories[memory];
  const Clock &clock = engines[engine].clock;
  uint64_t first = uint64_t(begin) >> tracked.shift, last = (uint64_t(end) - 1) >> tracked.shift;
  assert(begin >= 0 && begin < end && last < tracked.granules && "checked by isa::outOfRange()");
  uint32_t *writers = tracked.writer(last + 1);
  Id self = currentId(engine), known = 0;
  if (options.unordered && memory == kDramMemory && uint64_t(begin) < codeRange.second && uint64_t(end) > codeRange.first)
    return Violation{FaultKind::Unordered, describe(self) + " writes over the program's code at byte " +
                                               std::to_string(std::max(uint64_t(begin), codeRange.first)) + " of dram"};
  for (uint64_t g = first; g <= last && options.unordered; ++g) {
    Id id = writers[g];
    if (id == known || id == 0 || id == kHost || (id == kConstant && !options.unwritten))
      continue;
    if (id == kConstant)
      return Violation{FaultKind::Unordered, describe(self) + " writes over a constant of the program at byte " +
                                                 std::to_string(std::max(uint64_t(begin), g << tracked.shift)) + " of dram"};
    known = id;
    unsigned other = (id >> kNumberBits) - 1;
    bool isTwice = id == self && memory == unsigned(isa::Memory::Accumulator) && nameOf(engine) == "tensor";
    if (isTwice || (other != engine && clock[other] < (id & ((1u << kNumberBits) - 1))))
      return unordered(engine, "writes", memory, g, "writes", id);
  }
  for (unsigned other = 0; other < kEngines && options.unordered; ++other) {
    const uint64_t past = std::min(last + 1, tracked.read(other));
    if (other == engine || first >= past)
      continue;
    const uint32_t *readers = tracked.reader(other, past);
    const uint32_t *latest = std::max_element(readers + first, readers + past);
    if (*latest > clock[other])
      return unordered(engine, "writes", memory, uint64_t(latest - readers), "reads", (other + 1) << kNumberBits | *latest);
  }
  std::fill(writers + first, writers + last + 1, self);
  return std::nullopt;
}

/// A vector instruction whose destination meets one of its sources: a vector is read long before an earlier one of the same
/// instruction is written, so no vector may read what an earlier one wrote.
std::optional<Violation> RaceChecker::accessInOrder(unsigned engine, const isa::Vector &vector) {
  if (!options.unordered || !mayReadOwnResult(vector, machine))
    return std::nullopt;
  std::vector<std::pair<int64_t, int64_t>> written; // disjoint and sorted
  std::array<int64_t, 4> i;
  for (i[3] = 0; i[3] < vector.counts[3]; ++i[3])
    for (i[2] = 0; i[2] < vector.counts[2]; ++i[2])
      for (i[1] = 0; i[1] < vector.counts[1]; ++i[1])
        for (i[0] = 0; i[0] < vector.counts[0]; ++i[0]) {
          isa::Vector one = vector;
          one.counts = {1, 1, 1, 1};
          bool isMac = isa::WindowOp(vector.window_op) == isa::WindowOp::Mac;
          for (unsigned d = 0; d < 4; ++d) {
            one.a_address += i[d] * vector.a_strides[d];
            one.b_address += isMac && d < 3 ? 0 : i[d] * vector.b_strides[d];
            one.d_address += i[d] * vector.d_strides[d];
          }
          one.p_address += i[3] * vector.p_count * machine.lanes * 4;
          for (const RunSet &set : accessesOf(isa::Instruction{isa::Operands(one)}, machine)) {
            std::optional<int64_t> hit;
            auto firstAfter = [&](int64_t begin) {
              return std::lower_bound(written.begin(), written.end(), begin,
                                      [](const auto &range, int64_t value) { return range.second <= value; });
            };
            set.forEach([&](int64_t begin, int64_t end) {
              auto range = firstAfter(begin);
              if (set.write) {
                // Joins what it touches, so that dense destinations stay one range.
                while (range != written.end() && range->first <= end) {
                  begin = std::min(begin, range->first), end = std::max(end, range->second);
                  range = written.erase(range);
                }
                if (range != written.begin() && std::prev(range)->second == begin)
                  std::prev(range)->second = end;
                else
                  written.insert(range, {begin, end});
              } else if (set.memory == unsigned(vector.d_memory) && range != written.end() && range->first < end) {
                hit = std::max(begin, range->first);
              }
            });
            if (hit)
              return Violation{FaultKind::Unordered, describe(currentId(engine)) + " reads byte " + std::to_string(*hit) +
                                                         " of " + memoryName(set.memory) +
                                                         ", which an earlier vector of the same instruction writes"};
          }
        }
  return std::nullopt;
}
