//===- ProblemVerifier.cpp - Is a problem, is a schedule right? -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Works on occupied arcs of a circle of ii (resources) or depth * ii (rings)
// cycles. No scheduler uses any of it.
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/Problem.h"

#include <algorithm>

using namespace tw;
using namespace tw::loopsched;

namespace {

std::string quoted(const std::string &name) { return "'" + name + "'"; }

/// Cycles [begin, begin + length) of a circle, and who occupies them.
struct Arc {
  Cycles begin = 0, length = 0;
  std::string who;
};

/// The first two arcs that meet, or an arc longer than the circle with itself; nullptr if there are none.
std::pair<const Arc *, const Arc *> clash(std::vector<Arc> &arcs, Cycles circle) {
  for (Arc &arc : arcs) {
    if (arc.length > circle)
      return {&arc, &arc};
    arc.begin = ((arc.begin % circle) + circle) % circle;
  }
  arcs.erase(std::remove_if(arcs.begin(), arcs.end(), [](const Arc &arc) { return arc.length == 0; }), arcs.end());
  std::stable_sort(arcs.begin(), arcs.end(), [](const Arc &a, const Arc &b) { return a.begin < b.begin; });
  for (size_t i = 0; i + 1 < arcs.size(); ++i)
    if (arcs[i].begin + arcs[i].length > arcs[i + 1].begin)
      return {&arcs[i], &arcs[i + 1]};
  if (arcs.size() > 1 && arcs.back().begin + arcs.back().length > arcs.front().begin + circle)
    return {&arcs.back(), &arcs.front()};
  return {nullptr, nullptr};
}

/// From the producer's start to the retirement of the last reader.
Cycles lifetime(const Problem &problem, const Problem::Buffer &buffer, const Schedule &schedule) {
  Cycles begin = schedule.start[buffer.producer], end = begin + problem.operations[buffer.producer].latency;
  for (const Problem::Reader &reader : buffer.readers)
    end = std::max(end, schedule.start[reader.operation] + Cycles(reader.distance) * schedule.ii +
                            problem.operations[reader.operation].latency);
  return end - begin;
}

/// Is there a cycle of dependences within one iteration?
bool hasCycle(const Problem &problem) {
  size_t n = problem.operations.size();
  std::vector<std::vector<unsigned>> next(n);
  std::vector<unsigned> incoming(n, 0);
  auto edge = [&](unsigned from, unsigned to) {
    next[from].push_back(to);
    ++incoming[to];
  };
  for (const Problem::Dependence &dependence : problem.dependences)
    if (dependence.distance == 0)
      edge(dependence.from, dependence.to);
  for (const Problem::Buffer &buffer : problem.buffers)
    for (const Problem::Reader &reader : buffer.readers)
      if (reader.distance == 0)
        edge(buffer.producer, reader.operation);
  std::vector<unsigned> ready;
  for (unsigned i = 0; i < n; ++i)
    if (incoming[i] == 0)
      ready.push_back(i);
  size_t done = 0;
  for (; done < ready.size(); ++done)
    for (unsigned to : next[ready[done]])
      if (--incoming[to] == 0)
        ready.push_back(to);
  return done < n;
}

} // namespace

std::vector<std::string> loopsched::check(const Problem &problem) {
  std::vector<std::string> errors;
  const Cycles most = Cycles(1) << 40; // sums of some thousands stay far from overflow
  size_t operations = problem.operations.size();
  if (operations == 0)
    errors.push_back("there is no operation");
  for (const Problem::Memory &memory : problem.memories)
    if (memory.banks < 1 || memory.bankBytes < 1)
      errors.push_back("memory " + quoted(memory.name) + " must have at least one bank of at least one byte");
  for (const Problem::Operation &operation : problem.operations) {
    std::string name = "operation " + quoted(operation.name);
    std::vector<bool> used(problem.resources.size());
    if (operation.latency < 0 || operation.latency > most)
      errors.push_back(name + " has a latency of " + std::to_string(operation.latency) + " cycles, out of range");
    for (const Problem::Use &use : operation.uses) {
      if (use.resource >= problem.resources.size()) {
        errors.push_back(name + " uses resource " + std::to_string(use.resource) + ", which does not exist");
        continue;
      }
      if (used[use.resource])
        errors.push_back(name + " uses resource " + quoted(problem.resources[use.resource].name) + " twice");
      used[use.resource] = true;
      if (use.cycles < 0 || use.cycles > operation.latency)
        errors.push_back(name + " occupies " + quoted(problem.resources[use.resource].name) + " for " +
                         std::to_string(use.cycles) + " cycles but its latency is " + std::to_string(operation.latency));
    }
  }
  for (const Problem::Dependence &dependence : problem.dependences)
    if (dependence.from >= operations || dependence.to >= operations || dependence.delay < 0 || dependence.delay > most)
      errors.push_back("dependence " + std::to_string(dependence.from) + " -> " + std::to_string(dependence.to) +
                       " names an operation that does not exist, or its delay is out of range");
  for (const Problem::Buffer &buffer : problem.buffers) {
    std::string name = "buffer " + quoted(buffer.name);
    if (buffer.memory >= problem.memories.size() || buffer.producer >= operations)
      errors.push_back(name + " names a memory or an operation that does not exist");
    if (buffer.bytes < 1)
      errors.push_back(name + " has " + std::to_string(buffer.bytes) + " bytes but must have at least one");
    for (const Problem::Reader &reader : buffer.readers)
      if (reader.operation >= operations)
        errors.push_back(name + " is read by operation " + std::to_string(reader.operation) + ", which does not exist");
  }
  if (errors.empty() && hasCycle(problem))
    errors.push_back("operations of one iteration depend on one another in a cycle");
  return errors;
}

std::vector<std::string> loopsched::verify(const Problem &problem, const Schedule &schedule) {
  std::vector<std::string> errors;
  if (schedule.ii < 1)
    errors.push_back("the initiation interval is " + std::to_string(schedule.ii) + " but must be positive");
  if (schedule.start.size() != problem.operations.size())
    errors.push_back("there are " + std::to_string(problem.operations.size()) + " operations but " +
                     std::to_string(schedule.start.size()) + " start times");
  if (schedule.placements.size() != problem.buffers.size())
    errors.push_back("there are " + std::to_string(problem.buffers.size()) + " buffers but " +
                     std::to_string(schedule.placements.size()) + " placements");
  if (!errors.empty())
    return errors;
  for (size_t i = 0; i < schedule.start.size(); ++i)
    if (schedule.start[i] < 0)
      errors.push_back("operation " + quoted(problem.operations[i].name) + " starts before cycle 0");

  for (size_t r = 0; r < problem.resources.size(); ++r) {
    std::vector<Arc> arcs;
    for (size_t i = 0; i < problem.operations.size(); ++i)
      for (const Problem::Use &use : problem.operations[i].uses)
        if (use.resource == r)
          arcs.push_back({schedule.start[i], use.cycles, problem.operations[i].name});
    if (auto [a, b] = clash(arcs, schedule.ii); a)
      errors.push_back("resource " + quoted(problem.resources[r].name) + " is used by " + quoted(a->who) + " and " +
                       quoted(b->who) + " at once");
  }

  auto need = [&](unsigned from, unsigned to, Cycles delay, unsigned distance, const std::string &why) {
    Cycles gap = schedule.start[to] + Cycles(distance) * schedule.ii - schedule.start[from];
    if (gap < delay)
      errors.push_back("operation " + quoted(problem.operations[to].name) + " starts " + std::to_string(gap) +
                       " cycles after " + quoted(problem.operations[from].name) + " but needs " + std::to_string(delay) + why);
  };
  for (const Problem::Dependence &dependence : problem.dependences)
    need(dependence.from, dependence.to, dependence.delay, dependence.distance, "");
  for (const Problem::Buffer &buffer : problem.buffers)
    for (const Problem::Reader &reader : buffer.readers)
      need(buffer.producer, reader.operation, problem.operations[buffer.producer].latency, reader.distance,
           " to read buffer " + quoted(buffer.name));

  std::vector<std::vector<Arc>> arcs(schedule.rings.size());
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    const Problem::Buffer &buffer = problem.buffers[b];
    const Schedule::Placement &placement = schedule.placements[b];
    std::string name = "buffer " + quoted(buffer.name);
    if (placement.ring >= schedule.rings.size()) {
      errors.push_back(name + " lies in ring " + std::to_string(placement.ring) + ", which does not exist");
      continue;
    }
    const Schedule::Ring &ring = schedule.rings[placement.ring];
    if (ring.memory != buffer.memory)
      errors.push_back(name + " lies in a ring of another memory");
    else if (ring.banksPerSlot * problem.memories[ring.memory].bankBytes < buffer.bytes)
      errors.push_back(name + " has " + std::to_string(buffer.bytes) + " bytes but its slots have " +
                       std::to_string(ring.banksPerSlot) + " banks of " +
                       std::to_string(problem.memories[ring.memory].bankBytes));
    if (placement.phase >= ring.depth)
      errors.push_back(name + " has phase " + std::to_string(placement.phase) + " but its ring has " +
                       std::to_string(ring.depth) + " slots");
    if (buffer.maxDepth && ring.depth > buffer.maxDepth)
      errors.push_back(name + " has " + std::to_string(ring.depth) + " slots but at most " + std::to_string(buffer.maxDepth) +
                       " are allowed");
    arcs[placement.ring].push_back({schedule.start[buffer.producer] - Cycles(placement.phase) * schedule.ii,
                                    lifetime(problem, buffer, schedule), buffer.name});
  }
  // Slot s holds, of a buffer with phase p, the iterations n = s - p mod depth: seen from slot 0 its life begins p
  // iterations earlier.
  for (size_t r = 0; r < schedule.rings.size(); ++r) {
    const Schedule::Ring &ring = schedule.rings[r];
    std::string name = "ring " + std::to_string(r);
    if (ring.memory >= problem.memories.size() || ring.depth < 1 || ring.banksPerSlot < 1 || ring.firstBank < 0) {
      errors.push_back(name + " names a memory that does not exist, or has no slot or no bank");
      continue;
    }
    if (auto [a, b] = clash(arcs[r], Cycles(ring.depth) * schedule.ii); a)
      errors.push_back("a slot of " + quoted(b->who) + " is written again while " + quoted(a->who) + " lives in it");
    const Problem::Memory &memory = problem.memories[ring.memory];
    auto end = [](const Schedule::Ring &it) { return it.firstBank + it.banksPerSlot * int64_t(it.depth); };
    if (end(ring) > memory.banks)
      errors.push_back(name + " ends at bank " + std::to_string(end(ring)) + " but memory " + quoted(memory.name) + " has " +
                       std::to_string(memory.banks));
    for (size_t q = 0; q < r; ++q)
      if (const Schedule::Ring &other = schedule.rings[q];
          other.memory == ring.memory && other.firstBank < end(ring) && ring.firstBank < end(other))
        errors.push_back("rings " + std::to_string(q) + " and " + std::to_string(r) + " share banks of memory " +
                         quoted(memory.name));
  }
  return errors;
}
