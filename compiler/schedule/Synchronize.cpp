//===- Synchronize.cpp - Semaphores for a stream of operations -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Synchronize.h"

#include "compiler/schedule/SpaceMap.h"

#include <algorithm>
#include <deque>

using namespace tw;
using namespace tw::schedule;

namespace {

int freeSlot(const std::array<int64_t, 3> &counts) {
  for (int i = 0; i < 3; ++i)
    if (counts[i] == 0)
      return i;
  return -1;
}

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

struct Need {
  uint32_t position = 0; ///< the operation of that engine that must have retired; 0: none
};

class Synchronizer {
public:
  Synchronizer(TileProgram &program, const timing::MachineParams &machine, std::optional<int64_t> spare)
      : program(program), machine(machine), spare(spare), engines(numEngines(machine)), order(engines),
        semaphoreOf(engines, std::vector<int>(engines, -1)) {
    for (unsigned i = 0; i <= kDramSpace; ++i)
      spaces.emplace_back(i == kDramSpace ? kDramPageLog2 : kChipPageLog2, History{-1, 0, Knowledge(engines, 0)});
  }

  /// One for each pair of engines that one waits for the other, more for pairs with long leads.
  unsigned semaphores() const { return unsigned(nextSemaphore); }

  Result<bool> run() {
    for (; block < program.blocks.size(); ++block)
      for (Operation &operation : program.blocks[block].operations)
        if (std::optional<std::string> problem = add(operation))
          return Diagnostic{"", 0, 0, *problem, DiagnosticKind::TooManyWaits};
    boundCounts();
    insertRelays();
    return true;
  }

private:
  TileProgram &program;
  const timing::MachineParams &machine;
  std::optional<int64_t> spare;
  unsigned engines;
  /// Loads of the spare byte, each with the block that it goes before. Others keep pointers to them.
  std::deque<std::pair<size_t, Operation>> relays;
  size_t block = 0; ///< where run() is
  /// Operations of each engine so far, and what each knew to have retired when it started.
  struct Entry {
    Operation *operation;
    Knowledge known;
    bool alternates = false;
    size_t place = 0; ///< in program order
  };
  std::vector<std::vector<Entry>> order;
  Rounds rounds;
  std::vector<SpaceMap<History>> spaces;
  std::vector<std::vector<int>> semaphoreOf; ///< by posting and waiting engine
  int nextSemaphore = 0;
  size_t nextPlace = 0;

  unsigned preloadEngine() const { return machine.storeEngines + 2; }
  unsigned tensorEngine() const { return machine.storeEngines + 1; }

  /// Why it has too few waits or posts.
  std::optional<std::string> add(Operation &operation);
  void collect(const Operation &operation, unsigned self, std::vector<Need> &needs);
  void record(const Operation &operation, unsigned self, uint32_t position);
  /// An operation that has a post left and after which `position` of `engine` is known to have retired.
  std::optional<std::pair<unsigned, uint32_t>> findPost(unsigned engine, uint32_t position, unsigned waiter,
                                                        const Knowledge &knowledge);
  void connect(unsigned engine, uint32_t position, isa::Header &waiter, unsigned waitingEngine, Knowledge &knowledge);
  bool addWait(Operation &waiter, unsigned self, unsigned engine, uint32_t position, Knowledge &knowledge);
  unsigned firstLoadEngine() const { return machine.storeEngines + 3; }
  bool isLoadEngine(unsigned engine) const { return engine >= firstLoadEngine(); }
  bool relay(unsigned self, std::vector<Need> &needs, const Knowledge &knowledge, uint32_t layer,
             std::optional<unsigned> wanted);
  void boundCounts();
  void insertRelays();
  bool delegate(unsigned self, const std::vector<Need> &needs, unsigned engine, Knowledge &knowledge);
};

void Synchronizer::collect(const Operation &operation, unsigned self, std::vector<Need> &needs) {
  auto need = [&](unsigned engine, uint32_t position) { needs[engine].position = std::max(needs[engine].position, position); };
  bool accumulates = self == tensorEngine();
  for (const Region &region : operation.regions)
    spaces[region.space].look(region.begin, region.end, [&](const History &history) {
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
  const History written{int(self), position, Knowledge(engines, 0)};
  for (const Region &region : operation.regions) {
    SpaceMap<History> &space = spaces[region.space];
    if (region.write)
      space.assign(region.begin, region.end, written, [](const History &) {});
    else
      space.forRange(region.begin, region.end, [&](History &history) { history.reads[self] = position; });
  }
}

std::optional<std::pair<unsigned, uint32_t>> Synchronizer::findPost(unsigned engine, uint32_t position, unsigned waiter,
                                                                    const Knowledge &knowledge) {
  auto hasPost = [&](const Entry &entry) {
    return !entry.alternates && freeSlot(entry.operation->instruction->header.post_count) >= 0;
  };
  // The operation itself, or a later one of its engine, which retires in order.
  for (uint32_t p = position; p <= order[engine].size(); ++p)
    if (hasPost(order[engine][p - 1]))
      return std::make_pair(engine, p);
  // An operation of another engine that waited for it. Posts of a pair are taken in order, so only one newer than what the
  // waiter took last will do.
  for (unsigned other = 0; other < engines; ++other)
    if (other != waiter)
      for (uint32_t p = knowledge[other] + 1; p <= order[other].size(); ++p)
        if (order[other][p - 1].known[engine] >= position && hasPost(order[other][p - 1]))
          return std::make_pair(other, p);
  return std::nullopt;
}

void Synchronizer::connect(unsigned engine, uint32_t position, isa::Header &waiter, unsigned waitingEngine,
                           Knowledge &knowledge) {
  Entry &entry = order[engine][position - 1];
  int &semaphore = semaphoreOf[engine][waitingEngine];
  if (semaphore < 0)
    semaphore = nextSemaphore++;
  isa::Header &poster = entry.operation->instruction.edit().header;
  int post = freeSlot(poster.post_count), wait = freeSlot(waiter.wait_count);
  poster.post_semaphore[post] = waiter.wait_semaphore[wait] = semaphore;
  poster.post_count[post] = waiter.wait_count[wait] = 1;
  join(knowledge, entry.known);
  knowledge[engine] = std::max(knowledge[engine], position);
}

bool Synchronizer::addWait(Operation &waiter, unsigned self, unsigned engine, uint32_t position, Knowledge &knowledge) {
  if (freeSlot(waiter.instruction->header.wait_count) < 0)
    return false;
  auto post = findPost(engine, position, self, knowledge);
  if (!post)
    return false;
  connect(post->first, post->second, waiter.instruction.edit().header, self, knowledge);
  return true;
}

/// Lets the newest operation of another engine, which the waiter waits for anyway, take the wait for `engine`.
bool Synchronizer::delegate(unsigned self, const std::vector<Need> &needs, unsigned engine, Knowledge &knowledge) {
  uint32_t position = needs[engine].position;
  for (unsigned f = 0; f < engines; ++f) {
    if (f == self || f == engine || order[f].empty())
      continue;
    Entry &last = order[f].back();
    isa::Header &header = last.operation->instruction.edit().header;
    bool waitedFor = needs[f].position == order[f].size() || knowledge[f] == order[f].size();
    if (!waitedFor || last.alternates || freeSlot(header.wait_count) < 0 || last.known[engine] >= position)
      continue;
    auto post = findPost(engine, position, f, last.known);
    if (!post || post->first == self || order[post->first][post->second - 1].place > last.place)
      continue;
    connect(post->first, post->second, header, f, last.known);
    if (knowledge[f] == order[f].size())
      join(knowledge, last.known);
    return true;
  }
  return false;
}

/// Puts in a load that waits for two or more of `needs`, or for `wanted`, and lets the waiter wait for that instead. What its own
/// engine did before has retired when it has. False if that is not possible.
bool Synchronizer::relay(unsigned self, std::vector<Need> &needs, const Knowledge &knowledge, uint32_t layer,
                         std::optional<unsigned> wanted) {
  if (!spare)
    return false;
  for (unsigned engine = firstLoadEngine(); engine < engines; ++engine) {
    if (engine == self)
      continue;
    isa::Load load;
    load.address = *spare + int64_t(engine - firstLoadEngine()); // engines that write one byte would race
    load.counts = {1, 1, 1, 1, 1};
    load.high[0] = 1;
    load.span = 1;
    isa::Instruction instruction(load);
    instruction.header.opcode = int64_t(instruction.opcode());
    instruction.header.unit = int64_t(engine - firstLoadEngine());
    Operation operation;
    operation.instruction = instruction;
    operation.layer = layer;
    Knowledge known = order[engine].empty() ? Knowledge(engines, 0) : order[engine].back().known;
    // Posts that were taken for it in vain cannot be given back, so what it can do is looked at first.
    auto isOpen = [&](unsigned e) { return e != engine && needs[e].position > knowledge[e]; };
    auto canWait = [&](unsigned e) { return needs[e].position <= known[e] || findPost(e, needs[e].position, engine, known); };
    unsigned covered = needs[engine].position > knowledge[engine];
    for (unsigned e = 0; e < engines; ++e)
      covered += isOpen(e) && canWait(e);
    if (wanted ? *wanted != engine && !canWait(*wanted) : covered < 2)
      continue;
    if (wanted && isOpen(*wanted) && needs[*wanted].position > known[*wanted])
      addWait(operation, engine, *wanted, needs[*wanted].position, known);
    for (unsigned e = 0; e < engines && !wanted; ++e)
      if (isOpen(e) && needs[e].position > known[e])
        addWait(operation, engine, e, needs[e].position, known);
    relays.push_back({block, operation});
    order[engine].push_back({&relays.back().second, known, false, nextPlace++});
    const uint32_t position = uint32_t(order[engine].size());
    for (unsigned e = 0; e < engines; ++e)
      if (e != engine && known[e] >= needs[e].position)
        needs[e].position = 0;
    needs[engine].position = position;
    return true;
  }
  return false;
}

/// Where posts may run further ahead of the waits than a semaphore counts, their pair uses several in turn. A post finds done:
/// the takes of what its engine knows to have retired, and of all that is dispatched before it but for a queue's depth
/// (docs/timing.md, section 3).
void Synchronizer::boundCounts() {
  std::vector<std::pair<Entry *, unsigned>> inOrder(nextPlace);
  for (unsigned engine = 0; engine < engines; ++engine)
    for (Entry &entry : order[engine])
      inOrder[entry.place] = {&entry, engine};
  std::vector<int> waiterOf(size_t(nextSemaphore), -1);
  for (unsigned from = 0; from < engines; ++from)
    for (unsigned to = 0; to < engines; ++to)
      if (semaphoreOf[from][to] >= 0)
        waiterOf[size_t(semaphoreOf[from][to])] = int(to);
  struct Count {
    uint64_t posted = 0, most = 0;
    std::vector<uint32_t> takenBy; ///< the waiter's operations that waited, in order
    bool alternates = false;
  };
  std::vector<Count> counts(waiterOf.size());
  Knowledge dispatched(engines, 0);
  for (auto [entry, engine] : inOrder) {
    const isa::Header &header = entry->operation->instruction->header;
    ++dispatched[engine];
    for (size_t i = 0; i < header.wait_count.size(); ++i)
      if (header.wait_count[i])
        counts[size_t(header.wait_semaphore[i])].takenBy.push_back(dispatched[engine]);
    for (size_t i = 0; i < header.post_count.size(); ++i) {
      if (!header.post_count[i])
        continue;
      Count &count = counts[size_t(header.post_semaphore[i])];
      const size_t waiter = size_t(waiterOf[size_t(header.post_semaphore[i])]);
      uint32_t started = std::max(entry->known[waiter], dispatched[waiter] - std::min(dispatched[waiter], machine.queueDepth));
      uint64_t taken = uint64_t(std::upper_bound(count.takenBy.begin(), count.takenBy.end(), started) - count.takenBy.begin());
      count.most = std::max(count.most, ++count.posted - taken);
      count.alternates |= entry->alternates;
    }
  }
  /// The semaphores that a pair uses in turn, and how many posts and waits it has had.
  struct Turns {
    std::vector<int> semaphores;
    size_t posts = 0, waits = 0;
  };
  std::vector<Turns> turns(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    turns[i].semaphores.push_back(int(i));
    // An operation that alternates stands for many posts; they are taken one by one.
    for (uint64_t room = machine.semaphoreMax; room < counts[i].most && !counts[i].alternates; room += machine.semaphoreMax)
      turns[i].semaphores.push_back(nextSemaphore++);
  }
  for (auto [entry, engine] : inOrder) {
    isa::Header &header = entry->operation->instruction.edit().header;
    auto next = [](const Turns &turn, size_t number) { return turn.semaphores[number % turn.semaphores.size()]; };
    for (size_t i = 0; i < header.wait_count.size(); ++i)
      if (header.wait_count[i]) {
        Turns &turn = turns[size_t(header.wait_semaphore[i])];
        header.wait_semaphore[i] = next(turn, turn.waits++);
      }
    for (size_t i = 0; i < header.post_count.size(); ++i)
      if (header.post_count[i]) {
        Turns &turn = turns[size_t(header.post_semaphore[i])];
        header.post_semaphore[i] = next(turn, turn.posts++);
      }
  }
}

void Synchronizer::insertRelays() {
  if (relays.empty())
    return;
  std::vector<Block> blocks;
  size_t next = 0;
  for (size_t i = 0; i < program.blocks.size(); ++i) {
    for (; next < relays.size() && relays[next].first == i; ++next) {
      isa::Header &header = relays[next].second.instruction.edit().header;
      header.wait_mask = header.post_mask = 0;
      blocks.push_back({1, {std::move(relays[next].second)}});
      blocks.back().plannedStart = program.blocks[i].plannedStart;
    }
    blocks.push_back(std::move(program.blocks[i]));
  }
  program.blocks = std::move(blocks);
}

std::optional<std::string> Synchronizer::add(Operation &operation) {
  unsigned self = engineIndex(operation.instruction, machine);
  Knowledge knowledge = order[self].empty() ? Knowledge(engines, 0) : order[self].back().known;
  // The shadow-register interlock orders preloads and swapping tensor instructions.
  if (self == tensorEngine() && operation.instruction->as<isa::Tensor>().swap && !order[preloadEngine()].empty()) {
    join(knowledge, order[preloadEngine()].back().known);
    knowledge[preloadEngine()] = uint32_t(order[preloadEngine()].size());
  }
  std::vector<Need> needs(engines);
  collect(operation, self, needs);
  // Needs from the engine whose knowledge implies most others come first. More than an instruction can wait for are handed to
  // the operations it waits for.
  auto open = [&] {
    int count = 0;
    for (unsigned e = 0; e < engines; ++e)
      count += needs[e].position > knowledge[e];
    return count;
  };
  for (unsigned e = 0; e < engines && open() > isa::kMaxWaits; ++e)
    if (needs[e].position > knowledge[e] && e != tensorEngine() && delegate(self, needs, e, knowledge))
      // What it was delegated to is still waited for, and brings it along.
      needs[e].position = 0;
  while (open() > isa::kMaxWaits && relay(self, needs, knowledge, operation.layer, std::nullopt))
    ;
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
    if (!addWait(operation, self, unsigned(best), needs[best].position, knowledge) &&
        !delegate(self, needs, unsigned(best), knowledge) &&
        (freeSlot(operation.instruction->header.wait_count) < 0 ||
         !relay(self, needs, knowledge, operation.layer, unsigned(best))))
      return "an operation of " + engineName(self, machine) + " needs more than " + std::to_string(isa::kMaxWaits) +
             " waits, or " + engineName(unsigned(best), machine) + " more than " + std::to_string(isa::kMaxPosts) + " posts";
  }
  // Nothing is wrong without these.
  if (operation.turns && 2 * nextSemaphore < int(machine.semaphores))
    for (unsigned e = 0; e < engines; ++e)
      if ((isLoadEngine(self) ? e < machine.storeEngines : isLoadEngine(e)) && order[e].size() > knowledge[e])
        addWait(operation, self, e, uint32_t(order[e].size()), knowledge);
  if (operation.round)
    for (auto [e, position] : rounds.record(operation, self, uint32_t(order[self].size()) + 1))
      if (position > knowledge[e] && 2 * nextSemaphore < int(machine.semaphores))
        addWait(operation, self, e, position, knowledge);
  const unsigned vector = machine.storeEngines;
  if (operation.yieldsTo > knowledge[vector] && operation.yieldsTo <= order[vector].size())
    addWait(operation, self, vector, operation.yieldsTo, knowledge);
  isa::Header &header = operation.instruction.edit().header;
  int64_t all = (int64_t(1) << header.num_levels) - 1;
  header.wait_mask = all;
  header.post_mask = all;
  if (operation.alternates) {
    int &semaphore = semaphoreOf[tensorEngine()][preloadEngine()];
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
  order[self].push_back({&operation, knowledge, operation.alternates, nextPlace++});
  record(operation, self, uint32_t(order[self].size()));
  return std::nullopt;
}
} // namespace

Result<bool> schedule::synchronize(TileProgram &program, const timing::MachineParams &machine, std::optional<int64_t> spare) {
  Synchronizer synchronizer(program, machine, spare);
  Result<bool> result = synchronizer.run();
  if (result && synchronizer.semaphores() > machine.semaphores)
    return Diagnostic{"", 0, 0,
                      "the program needs " + std::to_string(synchronizer.semaphores()) + " semaphores but machine '" +
                          machine.name + "' has " + std::to_string(machine.semaphores)};
  return result;
}
