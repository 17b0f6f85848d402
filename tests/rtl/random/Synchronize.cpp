//===- Synchronize.cpp - Semaphores that make a program race-free ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/rtl/random/Synchronize.h"

#include "simulator/core/Accesses.h"
#include "simulator/stats/SimResult.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <set>

namespace tw::programs {
namespace {

constexpr unsigned kEngines = stats::kSequencer;
using Clock = std::array<uint32_t, kEngines>; ///< per engine: how many of its executions are known to be over

unsigned engineOf(const isa::Instruction &instruction) {
  return stats::engineNumber(instruction.engine(), unsigned(instruction.header.unit));
}

/// Where a node stands: bodies from the outermost, and the index in each.
struct Place {
  std::vector<std::pair<std::vector<Node> *, size_t>> steps;
  size_t depth() const { return steps.size() - 1; }
  Node &node() const { return (*steps.back().first)[steps.back().second]; }
  const Node &loop(size_t d) const { return (*steps[d].first)[steps[d].second]; }
};

bool find(std::vector<Node> &nodes, unsigned id, Place &place) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    place.steps.push_back({&nodes, i});
    if (nodes[i].id == id || (nodes[i].isLoop() && find(nodes[i].body, id, place)))
      return true;
    place.steps.pop_back();
  }
  return false;
}

/// Bytes from `begin` to `end`; what lies between the runs of a strided access counts as touched.
struct Touch {
  unsigned memory;
  bool write;
  int64_t begin, end;
};

struct Event {
  unsigned id, engine;
  uint32_t number; ///< of its engine, from 1 on
  std::vector<uint32_t> iteration;
  std::vector<Touch> touches;
  isa::Header header;
  bool isPreload = false, isTensor = false, swaps = false;
  std::array<int64_t, 8> walk{};          ///< tensor: how it goes over the accumulator
  std::array<uint32_t, kEngines> needs{}; ///< numbers that must be over before it starts
};

class Synchronizer {
public:
  Synchronizer(std::vector<Node> &nodes, const timing::MachineParams &machine, const Reserve &reserve, Rng &random)
      : nodes(nodes), machine(machine), reserve(reserve), random(random) {
    for (unsigned s = 0; s < machine.semaphores; ++s)
      free.push_back(s);
    for (size_t i = free.size(); i > 1; --i)
      std::swap(free[i - 1], free[size_t(random.in(0, int64_t(i) - 1))]);
    number(nodes);
  }

  bool run(const Orders &orders, unsigned extra) {
    trace();
    auto firstOf = [&](unsigned id) {
      return std::find_if(events.begin(), events.end(), [&](const Event &event) { return event.id == id; });
    };
    for (const auto &[first, second] : orders) {
      const auto from = firstOf(first), to = firstOf(second);
      if (from < to && to != events.end() && !connect(*from, *to, /*isNeeded=*/false))
        return false;
    }
    for (unsigned i = 0; i < extra && events.size() > 1; ++i) {
      const size_t a = size_t(random.in(0, int64_t(events.size()) - 2));
      const size_t b = size_t(random.in(int64_t(a) + 1, int64_t(events.size()) - 1));
      if (!connect(events[a], events[b], /*isNeeded=*/false))
        return false;
    }
    for (unsigned pass = 0; pass < 10; ++pass) {
      trace();
      bool changed = false;
      if (!orderAll(changed))
        return false;
      if (!changed)
        return true;
    }
    return false;
  }

private:
  void number(const std::vector<Node> &list) {
    for (const Node &node : list) {
      position[node.id] = unsigned(position.size());
      number(node.body);
    }
  }

  void trace();
  void findNeeds(Event &event, size_t index) const;
  bool orderAll(bool &changed);
  bool connect(const Event &from, const Event &to, bool isNeeded);
  std::optional<unsigned> semaphoreFor(unsigned from, unsigned to, const Event &a, const Event &b, bool isTop, int64_t count);
  std::optional<isa::Instruction> carrier(unsigned engine) const;
  bool post(unsigned id, size_t depth, unsigned semaphore, int64_t count);
  bool wait(unsigned id, size_t depth, unsigned semaphore, int64_t count);
  /// Whether the odometer's levels count the loops around the node.
  static bool mirrors(const Place &place);

  std::vector<Node> &nodes;
  const timing::MachineParams &machine;
  const Reserve &reserve;
  Rng &random;
  std::vector<unsigned> free;
  std::map<unsigned, unsigned> position; ///< of the nodes that need order, in program order
  std::vector<Event> events;
  std::set<std::array<unsigned, 4>> connected; ///< from, to, depth, carried
  struct Shared {
    unsigned from, to;
    int64_t total = 0;
    std::vector<std::pair<unsigned, unsigned>> edges; ///< positions
  };
  std::map<unsigned, Shared> shared; ///< semaphores that several pairs outside of loops use
};

void Synchronizer::trace() {
  events.clear();
  std::array<uint32_t, kEngines> numbers{};
  execute(nodes, [&](Execution &execution) {
    Event event;
    event.id = execution.node->id;
    event.engine = engineOf(execution.resolved);
    event.number = ++numbers[event.engine];
    event.iteration = execution.iteration;
    event.header = execution.resolved.header;
    event.isPreload = execution.resolved.getIf<isa::Preload>();
    if (const isa::Tensor *tensor = execution.resolved.getIf<isa::Tensor>()) {
      event.isTensor = true;
      event.swaps = tensor->swap;
      event.walk = {tensor->acc_address,    tensor->counts[0],      tensor->counts[1],     tensor->counts[2],
                    tensor->acc_strides[0], tensor->acc_strides[1], tensor->acc_strides[2]};
    }
    // Carriers touch what nobody else does.
    if (event.id)
      for (core::RunSet &set : core::accessesOf(execution.resolved, machine)) {
        const auto [begin, end] = set.bounds();
        event.touches.push_back({set.memory, set.write, begin, end});
      }
    events.push_back(std::move(event));
  });
  for (size_t i = 0; i < events.size(); ++i)
    if (events[i].id)
      findNeeds(events[i], i);
}

void Synchronizer::findNeeds(Event &event, size_t index) const {
  unsigned open = (1u << kEngines) - 1;
  for (size_t i = index; i-- > 0 && open;) {
    const Event &other = events[i];
    if (!(open >> other.engine & 1))
      continue;
    bool conflicts = false;
    for (const Touch &a : event.touches)
      for (const Touch &b : other.touches) {
        if (a.memory != b.memory || a.begin >= b.end || b.begin >= a.end || !(a.write || b.write))
          continue;
        // An engine writes in order and after it has read; only reading what it wrote needs the end of the writing. Equal
        // walks of the accumulator are kept apart by the machine.
        if (event.engine == other.engine && (a.write || (event.isTensor && event.walk == other.walk)))
          continue;
        conflicts = true;
      }
    if (!conflicts)
      continue;
    open &= ~(1u << other.engine);
    event.needs[other.engine] = other.number;
  }
}

bool Synchronizer::orderAll(bool &changed) {
  struct Post {
    int64_t count;
    Clock clock;
  };
  std::map<int64_t, std::deque<Post>> posts;
  std::array<Clock, kEngines> clocks{};
  std::array<std::vector<size_t>, kEngines> byNumber;
  Clock shadowReady{}, shadowTaken{};
  auto join = [](Clock &clock, const Clock &other) {
    for (size_t i = 0; i < clock.size(); ++i)
      clock[i] = std::max(clock[i], other[i]);
  };
  std::vector<Clock> over(events.size());
  std::vector<std::pair<size_t, size_t>> wanted;
  for (size_t index = 0; index < events.size(); ++index) {
    const Event &event = events[index];
    byNumber[event.engine].push_back(index);
    Clock &clock = clocks[event.engine];
    for (size_t i = 0; i < event.header.wait_count.size(); ++i) {
      std::deque<Post> &queue = posts[event.header.wait_semaphore[i]];
      for (int64_t left = event.header.wait_count[i]; left > 0;) {
        if (queue.empty())
          return false;
        join(clock, queue.front().clock);
        const int64_t taken = std::min(left, queue.front().count);
        left -= taken;
        if ((queue.front().count -= taken) == 0)
          queue.pop_front();
      }
    }
    if (event.isPreload)
      join(clock, shadowTaken);
    if (event.swaps) {
      join(clock, shadowReady);
      shadowTaken = clock;
    }
    for (unsigned e = 0; e < kEngines; ++e)
      if (clock[e] < event.needs[e]) {
        size_t from = byNumber[e][event.needs[e] - 1];
        // Whoever took the preload's tile knows that it is over, and can carry more semaphores.
        if (events[from].isPreload)
          for (size_t i = from + 1; i < index; ++i)
            if (events[i].swaps && events[i].engine != event.engine) {
              from = i;
              break;
            }
        wanted.push_back({from, index});
        // Taken for granted from here on; the next pass looks again.
        join(clock, over[from]);
        clock[e] = std::max(clock[e], event.needs[e]);
      }
    over[index] = clock;
    over[index][event.engine] = event.number;
    if (event.isPreload)
      shadowReady = over[index];
    for (size_t i = 0; i < event.header.post_count.size(); ++i)
      if (event.header.post_count[i])
        posts[event.header.post_semaphore[i]].push_back({event.header.post_count[i], over[index]});
  }
  changed = !wanted.empty();
  for (const auto &[from, to] : wanted)
    if (!connect(events[from], events[to], /*isNeeded=*/true))
      return false;
  return true;
}

bool Synchronizer::mirrors(const Place &place) {
  const isa::Instruction &instruction = place.node().instruction;
  if (instruction.header.num_levels != int64_t(place.depth()))
    return false;
  for (size_t d = 0; d < place.depth(); ++d)
    if (place.loop(d).instruction.as<isa::Loop>().count != instruction.levels[place.depth() - 1 - d].count)
      return false;
  return true;
}

std::optional<isa::Instruction> Synchronizer::carrier(unsigned engine) const {
  isa::Instruction instruction;
  const int64_t at = reserve.scratchpad + 64 * int64_t(engine);
  switch (stats::engineKind(engine)) {
  case timing::EngineKind::Load: {
    isa::Load load;
    load.dram_address = reserve.dram;
    load.address = at;
    load.span = 1;
    load.counts = {1, 1, 1, 1, 1};
    instruction = load;
    break;
  }
  case timing::EngineKind::Store: {
    isa::Store store;
    store.dram_address = reserve.dram + 64 + 64 * int64_t(engine);
    store.address = at;
    store.span = 1;
    store.counts = {1, 1, 1, 1, 1};
    instruction = store;
    break;
  }
  case timing::EngineKind::Vector: {
    isa::Vector vector;
    vector.a_address = reserve.scratchpad + Reserve::kBytes / 2;
    vector.d_address = reserve.scratchpad + Reserve::kBytes / 2 + Reserve::kBytes / 4;
    vector.a_span = vector.d_span = machine.lanes;
    vector.counts = {1, 1, 1, 1};
    vector.window = {1, 1};
    instruction = vector;
    break;
  }
  case timing::EngineKind::Tensor: {
    isa::Tensor tensor;
    tensor.address = reserve.scratchpad + Reserve::kBytes / 2;
    tensor.span = timing::elementBytes(machine.arrayType);
    tensor.acc_address = reserve.accumulatorRow;
    tensor.acc_span = 1;
    tensor.counts = {1, 1, 1};
    tensor.k_count = 1;
    instruction = tensor;
    break;
  }
  default:
    return std::nullopt;
  }
  instruction.header.unit = stats::engineUnit(engine);
  return instruction;
}

std::optional<unsigned> Synchronizer::semaphoreFor(unsigned from, unsigned to, const Event &a, const Event &b, bool isTop,
                                                   int64_t count) {
  const unsigned at = position[a.id], other = position[b.id];
  if (isTop)
    for (auto &[semaphore, use] : shared) {
      bool fits = use.from == from && use.to == to && use.total + count <= int64_t(machine.semaphoreMax);
      for (const auto &[first, second] : use.edges)
        fits &= (first < at && second < other) || (first > at && second > other);
      if (fits && (free.empty() || random.chance(40))) {
        use.edges.push_back({at, other});
        use.total += count;
        return semaphore;
      }
    }
  if (free.empty())
    return std::nullopt;
  const unsigned semaphore = free.back();
  free.pop_back();
  if (isTop)
    shared[semaphore] = {from, to, count, {{at, other}}};
  return semaphore;
}

bool Synchronizer::connect(const Event &from, const Event &to, bool isNeeded) {
  if (!from.id || !to.id)
    return !isNeeded;
  Place a, b;
  if (!find(nodes, from.id, a) || !find(nodes, to.id, b))
    return false;
  // Loops around both; the outermost of them in which the iterations differ carries the pair.
  size_t depth = 0;
  bool carried = false;
  while (!carried && depth < std::min(a.depth(), b.depth()) && a.steps[depth] == b.steps[depth]) {
    carried = from.iteration[depth] != to.iteration[depth];
    ++depth;
  }
  if (carried && !isNeeded)
    return true;
  if (!carried && from.id == to.id)
    return !isNeeded;
  // Whoever posts may be ahead of whoever waits by all posts: one a turn, and a token before each run of a loop that carries.
  int64_t turns = 1, runs = 1;
  for (size_t d = 0; d < depth; ++d) {
    runs = turns;
    turns *= a.loop(d).instruction.as<isa::Loop>().count;
  }
  const int64_t mostCount = int64_t(machine.semaphoreMax) / (turns + (carried ? runs : 0));
  if (mostCount == 0)
    return !isNeeded;
  if (!connected.insert({from.id, to.id, unsigned(depth), carried}).second)
    return true;
  const int64_t count = random.chance(20) ? random.in(1, std::min<int64_t>(4, mostCount)) : 1;
  const bool isTop = a.depth() == 0 && b.depth() == 0;
  const std::optional<unsigned> semaphore = semaphoreFor(from.engine, to.engine, from, to, isTop, count);
  if (!semaphore)
    return !isNeeded;
  if (carried) {
    // One token before the loop, and one that nobody takes in it.
    auto [body, at] = a.steps[depth - 1];
    std::optional<isa::Instruction> first = carrier(from.engine), last = carrier(to.engine);
    const bool leaves = !last || (depth == 1 && random.chance(30));
    if (!first || (leaves && depth > 1))
      return false;
    if (!leaves) {
      last->header.wait_semaphore[0] = *semaphore;
      last->header.wait_count[0] = count;
      body->insert(body->begin() + int64_t(at) + 1, Node(*last));
    }
    first->header.post_semaphore[0] = *semaphore;
    first->header.post_count[0] = count;
    body->insert(body->begin() + int64_t(at), Node(*first));
  }
  return post(from.id, depth, *semaphore, count) && wait(to.id, depth, *semaphore, count);
}

/// Posts once per turn of the `depth` outermost loops around node `id`, after its last execution in them.
bool Synchronizer::post(unsigned id, size_t depth, unsigned semaphore, int64_t count) {
  Place place;
  find(nodes, id, place);
  isa::Header &header = place.node().instruction.header;
  const size_t inner = place.depth() - depth;
  const int64_t mask = (int64_t(1) << inner) - 1;
  size_t used = 0;
  while (used < header.post_count.size() && header.post_count[used])
    ++used;
  const bool fits = header.predicate == int64_t(isa::Predicate::Always) && used < header.post_count.size() &&
                    (used == 0 || header.post_mask == mask) && (inner == 0 || mirrors(place));
  if (fits && !random.chance(5)) {
    header.post_mask = mask;
    header.post_semaphore[used] = semaphore;
    header.post_count[used] = count;
    return true;
  }
  std::optional<isa::Instruction> instruction = carrier(engineOf(place.node().instruction));
  if (!instruction)
    return false;
  instruction->header.post_semaphore[0] = semaphore;
  instruction->header.post_count[0] = count;
  auto [body, at] = place.steps[depth];
  body->insert(body->begin() + int64_t(at) + 1, Node(*instruction));
  return true;
}

/// Waits once per turn of the `depth` outermost loops around node `id`, before its first execution in them.
bool Synchronizer::wait(unsigned id, size_t depth, unsigned semaphore, int64_t count) {
  Place place;
  find(nodes, id, place);
  isa::Header &header = place.node().instruction.header;
  const size_t inner = place.depth() - depth;
  const int64_t mask = (int64_t(1) << inner) - 1;
  size_t used = 0;
  while (used < header.wait_count.size() && header.wait_count[used])
    ++used;
  const bool fits = header.predicate == int64_t(isa::Predicate::Always) && used < header.wait_count.size() &&
                    (used == 0 || header.wait_mask == mask) && (inner == 0 || mirrors(place));
  if (fits && !random.chance(5)) {
    header.wait_mask = mask;
    header.wait_semaphore[used] = semaphore;
    header.wait_count[used] = count;
    // Two waits for one semaphore take the sum.
    if (count > 1 && used + 1 < header.wait_count.size() && random.chance(40)) {
      header.wait_count[used] = 1;
      header.wait_semaphore[used + 1] = semaphore;
      header.wait_count[used + 1] = count - 1;
    }
    return true;
  }
  std::optional<isa::Instruction> instruction = carrier(engineOf(place.node().instruction));
  if (!instruction)
    return false;
  instruction->header.wait_semaphore[0] = semaphore;
  instruction->header.wait_count[0] = count;
  auto [body, at] = place.steps[depth];
  body->insert(body->begin() + int64_t(at), Node(*instruction));
  return true;
}

} // namespace

bool synchronize(std::vector<Node> &nodes, const timing::MachineParams &machine, const Reserve &reserve, const Orders &orders,
                 unsigned extra, Rng &random) {
  return Synchronizer(nodes, machine, reserve, random).run(orders, extra);
}

} // namespace tw::programs
