//===- Synchronize.cpp - Semaphores for a stream of operations -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Synchronize.h"

#include <algorithm>
#include <map>

using namespace tw;
using namespace tw::schedule;

namespace {
/// Per engine: how many of its operations are known to have retired.
using Knowledge = std::vector<uint32_t>;

void join(Knowledge &into, const Knowledge &from) {
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = std::max(into[i], from[i]);
}

/// The last accesses to a run of bytes, as positions (counting from 1) in each engine's own order.
struct History {
  int writer = -1;
  uint32_t writePosition = 0;
  Knowledge reads;
};

/// Bytes of one space, cut where histories differ.
class SpaceMap {
public:
  explicit SpaceMap(unsigned engines) { pieces[0].reads.assign(engines, 0); }

  /// Calls `visit` on every piece of [begin, end), cut to exactly that run.
  template <typename Visit> void forRange(uint64_t begin, uint64_t end, Visit visit) {
    cut(begin);
    cut(end);
    for (auto it = pieces.find(begin); it != pieces.end() && it->first < end; ++it)
      visit(it->second);
  }
  /// Makes [begin, end) one piece with the history of its first byte.
  void merge(uint64_t begin, uint64_t end) {
    auto it = pieces.upper_bound(begin);
    while (it != pieces.end() && it->first < end)
      it = pieces.erase(it);
  }

private:
  void cut(uint64_t at) {
    auto it = std::prev(pieces.upper_bound(at));
    if (it->first != at)
      pieces.emplace_hint(std::next(it), at, it->second);
  }
  std::map<uint64_t, History> pieces;
};

struct Need {
  uint32_t position = 0; ///< the operation of that engine that must have retired; 0: none
};

class Synchronizer {
public:
  Synchronizer(TileProgram &program, const timing::MachineParams &machine)
      : program(program), machine(machine), engines(numEngines(machine)), order(engines),
        semaphores(engines, std::vector<int>(engines, -1)) {
    for (unsigned i = 0; i <= kDramSpace; ++i)
      spaces.emplace_back(engines);
  }

  Result<bool> run() {
    for (Block &block : program.blocks)
      for (Operation &operation : block.operations)
        if (std::optional<std::string> problem = add(operation))
          return Diagnostic{"", 0, 0, *problem};
    return true;
  }

private:
  TileProgram &program;
  const timing::MachineParams &machine;
  unsigned engines;
  /// Operations of each engine so far, and what each knew to have retired when it started.
  struct Entry {
    Operation *operation;
    Knowledge known;
    bool postsEveryIteration = false;
  };
  std::vector<std::vector<Entry>> order;
  std::vector<SpaceMap> spaces;
  std::vector<std::vector<int>> semaphores;
  int nextSemaphore = 0;

  unsigned preloadEngine() const { return machine.storeEngines + 2; }
  unsigned tensorEngine() const { return machine.storeEngines + 1; }

  std::optional<std::string> add(Operation &operation);
  void collect(const Operation &operation, unsigned self, std::vector<Need> &needs);
  void record(const Operation &operation, unsigned self, uint32_t position);
  bool addWait(Operation &waiter, unsigned self, unsigned engine, uint32_t position, Knowledge &knowledge);
};

void Synchronizer::collect(const Operation &operation, unsigned self, std::vector<Need> &needs) {
  auto need = [&](unsigned engine, uint32_t position) {
    needs[engine].position = std::max(needs[engine].position, position);
  };
  bool accumulates = self == tensorEngine();
  for (const Region &region : operation.regions)
    spaces[region.space].forRange(region.begin, region.end, [&](const History &history) {
      // The order of one engine covers WAW and WAR, and accumulation; RAW needs the write to have retired.
      if (history.writer >= 0 && (unsigned(history.writer) != self || (!region.write && !accumulates)))
        need(unsigned(history.writer), history.writePosition);
      if (region.write)
        for (unsigned e = 0; e < engines; ++e)
          if (e != self && history.reads[e])
            need(e, history.reads[e]);
    });
  if (operation.barrier)
    for (unsigned e = 0; e < engines; ++e)
      if (e != self && !order[e].empty())
        need(e, uint32_t(order[e].size()));
}

void Synchronizer::record(const Operation &operation, unsigned self, uint32_t position) {
  for (const Region &region : operation.regions) {
    SpaceMap &space = spaces[region.space];
    if (region.write)
      space.forRange(region.begin, region.end, [&](History &history) {
        history.writer = int(self);
        history.writePosition = position;
        std::fill(history.reads.begin(), history.reads.end(), 0);
      });
    else
      space.forRange(region.begin, region.end, [&](History &history) { history.reads[self] = position; });
  }
  for (const Region &region : operation.regions)
    if (region.write)
      spaces[region.space].merge(region.begin, region.end);
}

int freeSlot(const std::array<int64_t, 3> &counts) {
  for (int i = 0; i < 3; ++i)
    if (counts[i] == 0)
      return i;
  return -1;
}

bool Synchronizer::addWait(Operation &waiter, unsigned self, unsigned engine, uint32_t position, Knowledge &knowledge) {
  int wait = freeSlot(waiter.instruction.header.wait_count);
  if (wait < 0)
    return false;
  int &semaphore = semaphores[engine][self];
  if (semaphore < 0)
    semaphore = nextSemaphore++;
  // The operation itself posts, or, where its posts are used up, a later one of the same engine that is already in the stream:
  // an engine retires in order.
  for (uint32_t p = position; p <= order[engine].size(); ++p) {
    Entry &entry = order[engine][p - 1];
    isa::Header &header = entry.operation->instruction.header;
    int post = entry.postsEveryIteration ? -1 : freeSlot(header.post_count);
    if (post < 0)
      continue;
    header.post_semaphore[post] = semaphore;
    header.post_count[post] = 1;
    waiter.instruction.header.wait_semaphore[wait] = semaphore;
    waiter.instruction.header.wait_count[wait] = 1;
    join(knowledge, entry.known);
    knowledge[engine] = std::max(knowledge[engine], p);
    return true;
  }
  return false;
}

std::optional<std::string> Synchronizer::add(Operation &operation) {
  unsigned self = engineIndex(operation.instruction, machine);
  Knowledge knowledge = order[self].empty() ? Knowledge(engines, 0) : order[self].back().known;
  // The shadow-register interlock orders preloads and swapping tensor instructions.
  if (self == tensorEngine() && operation.instruction.as<isa::Tensor>().swap && !order[preloadEngine()].empty()) {
    join(knowledge, order[preloadEngine()].back().known);
    knowledge[preloadEngine()] = uint32_t(order[preloadEngine()].size());
  }
  std::vector<Need> needs(engines);
  collect(operation, self, needs);
  // Posts of an engine pair are taken in the order they are made, so a wait must never ask for an older post than one it took.
  // Needs from the engine whose knowledge implies most others come first.
  while (true) {
    int best = -1;
    size_t bestCovered = 0;
    for (unsigned e = 0; e < engines; ++e) {
      if (needs[e].position <= knowledge[e])
        continue;
      Knowledge after = knowledge;
      join(after, order[e][needs[e].position - 1].known);
      after[e] = std::max(after[e], needs[e].position);
      size_t covered = 0;
      for (unsigned other = 0; other < engines; ++other)
        covered += needs[other].position > knowledge[other] && needs[other].position <= after[other];
      if (best < 0 || covered > bestCovered) {
        best = int(e);
        bestCovered = covered;
      }
    }
    if (best < 0)
      break;
    if (!addWait(operation, self, unsigned(best), needs[best].position, knowledge))
      return "an operation of " + engineName(self, machine) + " needs more than " + std::to_string(isa::kMaxWaits) +
             " waits, or " + engineName(unsigned(best), machine) + " more than " + std::to_string(isa::kMaxPosts) +
             " posts";
  }
  isa::Header &header = operation.instruction.header;
  int64_t all = (int64_t(1) << header.num_levels) - 1;
  header.wait_mask = all;
  header.post_mask = all;
  if (operation.alternates) {
    int &semaphore = semaphores[tensorEngine()][preloadEngine()];
    if (semaphore < 0)
      semaphore = nextSemaphore++;
    if (self == tensorEngine()) {
      header.post_semaphore[0] = semaphore;
      header.post_count[0] = 1;
      header.post_mask = 0;
    } else {
      assert(freeSlot(header.wait_count) == 0 && "the first preload of the loop's tile took every other wait");
      header.wait_semaphore[0] = semaphore;
      header.wait_count[0] = 1;
      header.wait_mask = 0;
    }
  }
  order[self].push_back({&operation, knowledge, operation.alternates});
  record(operation, self, uint32_t(order[self].size()));
  return std::nullopt;
}
} // namespace

Result<bool> schedule::synchronize(TileProgram &program, const timing::MachineParams &machine) {
  return Synchronizer(program, machine).run();
}
