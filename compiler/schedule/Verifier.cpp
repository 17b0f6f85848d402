//===- Verifier.cpp - Is every hazard of a program ordered? ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Verifier.h"

#include "isa/Legality.h"
#include "isa/Odometer.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

using namespace tw;
using timing::EngineKind;

namespace {
constexpr size_t kMaxProblems = 20;

/// clock[e]: the first so many instructions of engine e have retired.
using Clock = std::vector<uint32_t>;

void raise(Clock &clock, const Clock &other) {
  for (size_t i = 0; i < clock.size(); ++i)
    clock[i] = std::max(clock[i], other[i]);
}

/// One executed instruction, for messages.
struct Event {
  uint32_t word = 0;
  isa::Opcode opcode = isa::Opcode::Halt;
};

/// The order in which a tensor instruction visits accumulator rows.
struct Walk {
  int64_t address = 0;
  std::array<int64_t, 3> counts{}, strides{};
  bool operator==(const Walk &other) const {
    return address == other.address && counts == other.counts && strides == other.strides;
  }
};

struct Cell {
  bool written = false;
  bool initial = false; ///< DRAM contents from before the start
  unsigned writer = 0;
  uint32_t write = 0; ///< 1-based position in the writer's order
  Event writeEvent;
  std::optional<Walk> walk; ///< of the tensor instruction that wrote it
  std::vector<uint32_t> read; ///< last reader of each engine, 1-based
  std::vector<Event> readEvent;
};

struct Semaphore {
  int poster = -1, waiter = -1;
  std::deque<Clock> tokens;
  uint64_t posted = 0;
  /// For each taken token: the waiter's instruction that took it.
  std::vector<uint32_t> takenBy;
};

class Checker {
public:
  Checker(const isa::Program &program, const timing::MachineParams &machine) : program(program), machine(machine) {
    engines = machine.storeEngines + machine.loadEngines + 3;
    clocks.assign(engines, Clock(engines, 0));
    counts.assign(engines, 0);
    semaphores.resize(machine.semaphores);
  }

  Diagnostics run();

private:
  const isa::Program &program;
  const timing::MachineParams &machine;
  Diagnostics problems;
  unsigned engines;
  std::vector<Clock> clocks; ///< what each engine knew at its last start
  std::vector<uint32_t> counts;
  std::vector<Semaphore> semaphores;
  std::map<unsigned, std::map<uint64_t, Cell>> memories;
  uint32_t word = 0;
  /// Preloads and swaps alternate.
  bool shadowFull = false;
  Clock preloadClock;

  void problem(const std::string &text) {
    std::string where = "word " + std::to_string(word);
    if (word < program.layerOf.size() && program.layerOf[word] < program.layers.size())
      where += " (layer " + program.layers[program.layerOf[word]].name + ")";
    problems.push_back({"", 0, 0, where + ": " + text});
  }
  unsigned engineOf(const isa::Instruction &i) const {
    unsigned unit = unsigned(i.header.unit);
    switch (i.engine()) {
    case EngineKind::Load:
      return unit;
    case EngineKind::Store:
      return machine.loadEngines + unit;
    case EngineKind::Preload:
      return machine.loadEngines + machine.storeEngines;
    case EngineKind::Tensor:
      return machine.loadEngines + machine.storeEngines + 1;
    default:
      return machine.loadEngines + machine.storeEngines + 2;
    }
  }
  std::string nameOf(unsigned engine) const {
    if (engine < machine.loadEngines)
      return "load" + std::to_string(engine);
    if (engine < machine.loadEngines + machine.storeEngines)
      return "store" + std::to_string(engine - machine.loadEngines);
    static const char *names[] = {"preload", "tensor", "vector"};
    return names[engine - machine.loadEngines - machine.storeEngines];
  }
  void execute(const isa::Instruction &instruction);
  void access(unsigned self, const Clock &clock, unsigned space, uint64_t begin, uint64_t end, bool write,
              const std::optional<Walk> &walk, isa::Opcode opcode);
  void accessDram(unsigned self, const Clock &clock, const isa::Instruction &instruction);
};

void Checker::access(unsigned self, const Clock &clock, unsigned space, uint64_t begin, uint64_t end, bool write,
                     const std::optional<Walk> &walk, isa::Opcode opcode) {
  auto &cells = memories[space];
  if (cells.empty()) {
    Cell all;
    all.read.assign(engines, 0);
    all.readEvent.resize(engines);
    all.initial = space == 8;
    cells[0] = all;
  }
  auto cut = [&](uint64_t at) {
    auto it = std::prev(cells.upper_bound(at));
    if (it->first != at)
      it = cells.emplace_hint(std::next(it), at, it->second);
    return it;
  };
  auto first = cut(begin);
  cut(end);
  bool anyWritten = false;
  auto conflict = [&](const char *kind, unsigned other, const Event &event) {
    if (problems.size() < kMaxProblems)
      problem(std::string(kind) + " hazard on " + (space == 8 ? "dram" : isa::caseName(isa::kMemoryEnumeration, int64_t(space))) +
              " bytes [" + std::to_string(begin) + ", " + std::to_string(end) + "): " + nameOf(self) +
              " does not wait for " + nameOf(other) + " at word " + std::to_string(event.word));
  };
  for (auto it = cells.find(begin); it != cells.end() && it->first < end; ++it) {
    Cell &cell = it->second;
    anyWritten |= cell.written || cell.initial;
    if (cell.written) {
      bool known = clock[cell.writer] >= cell.write;
      if (!known) {
        if (cell.writer != self)
          conflict(write ? "write after write" : "read after write", cell.writer, cell.writeEvent);
        else if (!write)
          conflict("read after write", cell.writer, cell.writeEvent);
        else if (walk && !(cell.walk && *cell.walk == *walk))
          // Accumulation in engine order is safe only row after row in the same order.
          conflict("accumulation in another order", cell.writer, cell.writeEvent);
      }
    }
    if (write)
      for (unsigned e = 0; e < engines; ++e)
        if (e != self && cell.read[e] > clock[e])
          conflict("write after read", e, cell.readEvent[e]);
  }
  if (!write && !anyWritten && problems.size() < kMaxProblems)
    problem(nameOf(self) + " reads bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ") of " +
            isa::caseName(isa::kMemoryEnumeration, int64_t(space)) + " that nothing wrote");
  Event event{word, opcode};
  uint32_t position = counts[self];
  if (write) {
    Cell &cell = first->second;
    cell.written = true;
    cell.writer = self;
    cell.write = position;
    cell.writeEvent = event;
    cell.walk = walk;
    std::fill(cell.read.begin(), cell.read.end(), 0);
    for (auto it = std::next(first); it != cells.end() && it->first < end;)
      it = cells.erase(it);
  } else {
    for (auto it = first; it != cells.end() && it->first < end; ++it) {
      it->second.read[self] = position;
      it->second.readEvent[self] = event;
    }
  }
}

void Checker::accessDram(unsigned self, const Clock &clock, const isa::Instruction &instruction) {
  // Each run of the box on its own: boxes of neighbouring tiles interleave.
  auto walk = [&](auto &box, const std::array<int64_t, 5> &low, const std::array<int64_t, 5> &high, bool broadcast,
                  bool write) {
    std::array<int64_t, 5> n;
    for (int d = 0; d < 5; ++d) {
      n[d] = box.counts[d] - low[d] - high[d];
      if (n[d] <= 0)
        return;
    }
    int64_t run = (broadcast ? 1 : n[0]) << box.element_log2;
    // Dense or small steps become one range.
    int merged = 0;
    while (merged < 4 && (n[merged + 1] == 1 || box.dram_strides[merged] == run)) {
      run *= n[merged + 1];
      ++merged;
    }
    std::array<int64_t, 5> i{};
    while (true) {
      int64_t at = box.dram_address;
      for (int d = merged; d < 4; ++d)
        at += i[d + 1] * box.dram_strides[d];
      access(self, clock, 8, uint64_t(at), uint64_t(at + run), write, std::nullopt, instruction.opcode());
      int d = merged + 1;
      for (; d < 5; ++d) {
        if (++i[d] < n[d])
          break;
        i[d] = 0;
      }
      if (d >= 5)
        break;
    }
  };
  std::array<int64_t, 5> none{};
  if (auto *load = instruction.getIf<isa::Load>())
    walk(*load, load->low, load->high, load->broadcast != 0, false);
  if (auto *store = instruction.getIf<isa::Store>())
    walk(*store, none, none, false, true);
}

void Checker::execute(const isa::Instruction &instruction) {
  if (auto why = isa::outOfRange(instruction, machine)) {
    problem(*why);
    return;
  }
  unsigned self = engineOf(instruction);
  Clock clock = clocks[self];
  const isa::Header &header = instruction.header;
  for (int i = 0; i < isa::kMaxWaits; ++i) {
    if (!header.wait_count[i])
      continue;
    Semaphore &semaphore = semaphores[size_t(header.wait_semaphore[i])];
    if (semaphore.waiter >= 0 && semaphore.waiter != int(self))
      problem("semaphore " + std::to_string(header.wait_semaphore[i]) + " is waited for by " + nameOf(self) + " and " +
              nameOf(unsigned(semaphore.waiter)));
    semaphore.waiter = int(self);
    if (int64_t(semaphore.tokens.size()) < header.wait_count[i]) {
      problem("wait for semaphore " + std::to_string(header.wait_semaphore[i]) + " is not satisfied by earlier posts");
      continue;
    }
    for (int64_t k = 0; k < header.wait_count[i]; ++k) {
      raise(clock, semaphore.tokens.front());
      semaphore.tokens.pop_front();
      semaphore.takenBy.push_back(counts[self] + 1);
    }
  }
  bool isTensor = instruction.opcode() == isa::Opcode::Tensor, isPreload = instruction.opcode() == isa::Opcode::Preload;
  if (isPreload) {
    if (shadowFull)
      problem("a preload follows a preload that no tensor instruction has taken");
    shadowFull = true;
  }
  if (isTensor && instruction.as<isa::Tensor>().swap) {
    if (!shadowFull)
      problem("a swap without a preload before it");
    shadowFull = false;
    if (!preloadClock.empty())
      raise(clock, preloadClock);
  }
  ++counts[self];
  for (const isa::Region &region : isa::regionsOf(instruction, machine)) {
    std::optional<Walk> walk;
    if (isTensor && region.memory == isa::Memory::Accumulator) {
      // Strides of extents of 1 are never used.
      const auto &tensor = instruction.as<isa::Tensor>();
      walk = Walk{tensor.acc_address, tensor.counts, tensor.acc_strides};
      for (int i = 0; i < 3; ++i)
        if (walk->counts[i] == 1)
          walk->strides[i] = 0;
    }
    access(self, clock, unsigned(region.memory), region.begin, region.end, region.write, walk, instruction.opcode());
  }
  accessDram(self, clock, instruction);
  clocks[self] = clock;
  // At its retirement everything older of its engine has retired too.
  Clock after = clock;
  after[self] = counts[self];
  if (isPreload)
    preloadClock = after;
  for (int i = 0; i < isa::kMaxPosts; ++i) {
    if (!header.post_count[i])
      continue;
    Semaphore &semaphore = semaphores[size_t(header.post_semaphore[i])];
    if (semaphore.poster >= 0 && semaphore.poster != int(self))
      problem("semaphore " + std::to_string(header.post_semaphore[i]) + " is posted by " + nameOf(self) + " and " +
              nameOf(unsigned(semaphore.poster)));
    semaphore.poster = int(self);
    for (int64_t k = 0; k < header.post_count[i]; ++k)
      semaphore.tokens.push_back(after);
    semaphore.posted += uint64_t(header.post_count[i]);
    // Tokens certainly taken before this post: those taken by instructions this one knows to have retired.
    uint64_t taken = 0;
    if (semaphore.waiter >= 0)
      taken = uint64_t(std::upper_bound(semaphore.takenBy.begin(), semaphore.takenBy.end(), clock[unsigned(semaphore.waiter)]) -
                       semaphore.takenBy.begin());
    if (semaphore.posted - taken > machine.semaphoreMax)
      problem("semaphore " + std::to_string(header.post_semaphore[i]) + " may reach " +
              std::to_string(semaphore.posted - taken) + " but holds at most " + std::to_string(machine.semaphoreMax));
  }
}

Diagnostics Checker::run() {
  problems = isa::verify(program, machine);
  if (!problems.empty())
    return problems;
  struct Loop {
    uint32_t begin, end;
    int64_t left;
  };
  std::vector<Loop> loops;
  std::map<uint32_t, isa::OdometerState> odometers;
  std::map<uint32_t, isa::Decoded> decoded;
  while (word < program.code.size() && problems.size() < kMaxProblems) {
    auto it = decoded.find(word);
    if (it == decoded.end())
      it = decoded.emplace(word, isa::decode(program.code.data() + word, program.code.size() - word)).first;
    const isa::Instruction &instruction = it->second.instruction;
    uint32_t next = word + instruction.words();
    if (instruction.opcode() == isa::Opcode::Halt)
      break;
    if (auto *loop = instruction.getIf<isa::Loop>()) {
      if (loops.empty())
        odometers.clear();
      loops.push_back({next, uint32_t(next + loop->body_words), loop->count});
    } else {
      isa::OdometerState fresh;
      isa::OdometerState &state = loops.empty() ? fresh : odometers[word];
      if (auto resolved = isa::resolve(instruction, state))
        execute(*resolved);
    }
    word = next;
    while (!loops.empty() && word == loops.back().end) {
      if (--loops.back().left > 0) {
        word = loops.back().begin;
        break;
      }
      loops.pop_back();
    }
  }
  if (problems.size() > kMaxProblems)
    problems.resize(kMaxProblems);
  return problems;
}
} // namespace

Diagnostics schedule::verifySchedule(const isa::Program &program, const timing::MachineParams &machine) {
  return Checker(program, machine).run();
}
