//===- Constraints.cpp - A problem as difference constraints --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/Constraints.h"

#include <algorithm>

using namespace tw;
using namespace tw::loopsched;

std::vector<Edge> loopsched::flowEdges(const Problem &problem) {
  std::vector<Edge> edges;
  for (const Problem::Dependence &it : problem.dependences)
    edges.push_back({it.from, it.to, it.delay, it.distance});
  for (const Problem::Buffer &buffer : problem.buffers)
    for (const Problem::Reader &reader : buffer.readers)
      edges.push_back({buffer.producer, reader.operation, problem.operations[buffer.producer].latency, reader.distance});
  return edges;
}

void loopsched::addReuseEdges(const Problem &problem, unsigned buffer, int64_t depth, std::vector<Edge> &edges) {
  const Problem::Buffer &it = problem.buffers[buffer];
  edges.push_back({it.producer, it.producer, problem.operations[it.producer].latency, depth});
  for (const Problem::Reader &reader : it.readers)
    edges.push_back(
        {reader.operation, it.producer, problem.operations[reader.operation].latency, depth - int64_t(reader.distance)});
}

int64_t loopsched::largestDepth(const Problem &problem, unsigned buffer) {
  const Problem::Buffer &it = problem.buffers[buffer];
  int64_t depth = problem.memories[it.memory].banks / problem.banksPerSlot(it);
  return it.maxDepth ? std::min<int64_t>(depth, it.maxDepth) : depth;
}

std::vector<Edge> loopsched::necessaryEdges(const Problem &problem) {
  std::vector<Edge> edges = flowEdges(problem);
  for (unsigned b = 0; b < problem.buffers.size(); ++b)
    addReuseEdges(problem, b, largestDepth(problem, b), edges);
  return edges;
}

std::optional<std::vector<Cycles>> loopsched::earliestStarts(size_t operations, const std::vector<Edge> &edges, Cycles ii) {
  std::vector<Cycles> start(operations, 0);
  for (size_t round = 0; round <= operations; ++round) {
    bool changed = false;
    for (const Edge &edge : edges) {
      Cycles least = start[edge.from] + edge.delay - edge.distance * ii;
      if (start[edge.to] < least) {
        start[edge.to] = least;
        changed = true;
      }
    }
    if (!changed)
      return start;
  }
  return std::nullopt;
}

std::optional<Cycles> loopsched::leastIi(size_t operations, const std::vector<Edge> &edges, Cycles low, Cycles high) {
  if (low > high || !earliestStarts(operations, edges, high))
    return std::nullopt;
  while (low < high) {
    Cycles middle = low + (high - low) / 2;
    if (earliestStarts(operations, edges, middle))
      high = middle;
    else
      low = middle + 1;
  }
  return high;
}

Cycles loopsched::serialLength(const Problem &problem) {
  Cycles sum = 0;
  for (const Problem::Operation &operation : problem.operations)
    sum += operation.latency;
  return sum;
}

Cycles loopsched::resourceBound(const Problem &problem) {
  std::vector<Cycles> busy(problem.resources.size(), 0);
  for (const Problem::Operation &operation : problem.operations)
    for (const Problem::Use &use : operation.uses)
      busy[use.resource] += use.cycles;
  return busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
}

Cycles loopsched::recurrenceBound(const Problem &problem) {
  Cycles most = 0;
  for (unsigned b = 0; b < problem.buffers.size(); ++b)
    if (largestDepth(problem, b) < 1)
      return -1;
  std::vector<Edge> edges = necessaryEdges(problem);
  for (const Edge &edge : edges)
    most += edge.delay;
  std::optional<Cycles> least = leastIi(problem.operations.size(), edges, 0, most);
  return least ? *least : -1;
}

std::vector<Alternation> loopsched::resourceAlternations(const Problem &problem) {
  std::vector<Alternation> result;
  for (unsigned i = 0; i < problem.operations.size(); ++i)
    for (unsigned j = i + 1; j < problem.operations.size(); ++j) {
      Alternation pair;
      for (const Problem::Use &a : problem.operations[i].uses)
        for (const Problem::Use &b : problem.operations[j].uses)
          if (a.resource == b.resource && a.cycles > 0 && b.cycles > 0) {
            pair.forward.push_back({i, j, a.cycles, 0});
            pair.backward.push_back({j, i, b.cycles, 0});
          }
      if (!pair.forward.empty())
        result.push_back(std::move(pair));
    }
  return result;
}

Alternation loopsched::ringAlternation(const Problem &problem, unsigned a, unsigned b, int64_t depth) {
  Alternation pair;
  pair.circle = depth;
  auto follow = [&](const Problem::Buffer &first, const Problem::Buffer &second, std::vector<Edge> &edges) {
    edges.push_back({first.producer, second.producer, problem.operations[first.producer].latency, 0});
    for (const Problem::Reader &reader : first.readers)
      edges.push_back(
          {reader.operation, second.producer, problem.operations[reader.operation].latency, -int64_t(reader.distance)});
  };
  follow(problem.buffers[a], problem.buffers[b], pair.forward);
  follow(problem.buffers[b], problem.buffers[a], pair.backward);
  return pair;
}

void loopsched::addEdges(const Alternation &alternation, int64_t x, std::vector<Edge> &edges) {
  for (Edge edge : alternation.forward) {
    edge.distance += x;
    edges.push_back(edge);
  }
  for (Edge edge : alternation.backward) {
    edge.distance += alternation.circle - x;
    edges.push_back(edge);
  }
}

Schedule loopsched::tighten(const Problem &problem, const Schedule &schedule) {
  std::vector<Edge> edges = flowEdges(problem);
  // The x that the starts have chosen: the least that keeps the forward edges.
  auto fix = [&](const Alternation &pair) {
    int64_t x = INT64_MIN;
    for (const Edge &edge : pair.forward)
      x = std::max(x, ceilDiv(schedule.start[edge.from] + edge.delay - schedule.start[edge.to], schedule.ii) - edge.distance);
    return x;
  };
  for (const Alternation &pair : resourceAlternations(problem))
    addEdges(pair, fix(pair), edges);
  for (unsigned b = 0; b < problem.buffers.size(); ++b) {
    const Schedule::Ring &ring = schedule.rings[schedule.placements[b].ring];
    addReuseEdges(problem, b, ring.depth, edges);
    for (unsigned a = 0; a < b; ++a) {
      if (schedule.placements[a].ring != schedule.placements[b].ring)
        continue;
      Alternation pair = ringAlternation(problem, a, b, ring.depth);
      // Only x with equal slots will do; lifetimes are disjoint, so the next such x keeps the edges.
      int64_t depth = ring.depth, x = fix(pair),
              wanted = int64_t(schedule.placements[a].phase) - int64_t(schedule.placements[b].phase);
      x += (((wanted - x) % depth) + depth) % depth;
      addEdges(pair, x, edges);
    }
  }
  Schedule result = schedule;
  result.ii = *leastIi(problem.operations.size(), edges, 1, schedule.ii);
  result.start = *earliestStarts(problem.operations.size(), edges, result.ii);
  return result;
}

bool loopsched::layOutRings(const Problem &problem, std::vector<Schedule::Ring> &rings) {
  std::vector<int64_t> next(problem.memories.size(), 0);
  for (Schedule::Ring &ring : rings) {
    ring.firstBank = next[ring.memory];
    next[ring.memory] += ring.banksPerSlot * int64_t(ring.depth);
    if (next[ring.memory] > problem.memories[ring.memory].banks)
      return false;
  }
  return true;
}

namespace {

/// Rings of the buffers of one memory, for given starts.
class RingPlacement {
public:
  RingPlacement(const Problem &problem, const Schedule &schedule, unsigned memory, unsigned maxDepth)
      : problem(problem), schedule(schedule), memory(memory), maxDepth(maxDepth) {
    for (unsigned b = 0; b < problem.buffers.size(); ++b) {
      if (problem.buffers[b].memory != memory)
        continue;
      const Problem::Buffer &buffer = problem.buffers[b];
      Cycles begin = schedule.start[buffer.producer], end = begin + problem.operations[buffer.producer].latency;
      for (const Problem::Reader &reader : buffer.readers)
        end = std::max(end, schedule.start[reader.operation] + Cycles(reader.distance) * schedule.ii +
                                problem.operations[reader.operation].latency);
      lives.push_back({b, begin, end - begin});
    }
    // Large slots first: what joins a ring wastes nothing that its first buffer would not need.
    std::stable_sort(lives.begin(), lives.end(), [&](const Life &a, const Life &b) { return banks(a) > banks(b); });
  }

  bool run(std::vector<Schedule::Ring> &rings, std::vector<Schedule::Placement> &placements) {
    left = problem.memories[memory].banks;
    groups.clear();
    if (!assign(0, false) && (lives.size() > 8 || !assign(0, true)))
      return false;
    for (const Group &group : groups) {
      for (const Member &member : group.members)
        placements[member.life->buffer] = {unsigned(rings.size()), unsigned(member.phase)};
      rings.push_back({memory, unsigned(group.depth), 0, group.banks});
    }
    return true;
  }

private:
  struct Life {
    unsigned buffer;
    Cycles begin, length;
  };
  struct Member {
    const Life *life;
    int64_t phase;
  };
  struct Group {
    int64_t depth, banks;
    std::vector<Member> members;
  };

  int64_t banks(const Life &life) const { return problem.banksPerSlot(problem.buffers[life.buffer]); }

  int64_t deepest(const Life &life) const {
    int64_t depth = largestDepth(problem, life.buffer);
    return maxDepth ? std::min<int64_t>(depth, maxDepth) : depth;
  }

  /// The phase at which `life` meets no member of `group`; -1 if there is none.
  int64_t phaseFor(const Life &life, const Group &group) const {
    Cycles circle = group.depth * schedule.ii;
    for (int64_t phase = 0; phase < group.depth; ++phase) {
      bool free = std::all_of(group.members.begin(), group.members.end(), [&](const Member &member) {
        Cycles gap = (life.begin - phase * schedule.ii) - (member.life->begin - member.phase * schedule.ii);
        gap = ((gap % circle) + circle) % circle;
        return gap >= member.life->length && gap + life.length <= circle;
      });
      if (free)
        return phase;
    }
    return -1;
  }

  /// Buffers from `index` on, depth first: a ring of its own or, with `share`, a place in a ring there is. Rings that
  /// are to be shared may be one slot deeper than their first buffer needs.
  bool assign(size_t index, bool share) {
    if (index == lives.size())
      return true;
    const Life &life = lives[index];
    int64_t least = std::max<int64_t>(1, ceilDiv(life.length, schedule.ii)), most = deepest(life);
    if (share)
      for (size_t g = 0; g < groups.size(); ++g) {
        if (groups[g].depth < least || groups[g].depth > most)
          continue;
        if (int64_t phase = phaseFor(life, groups[g]); phase >= 0) {
          groups[g].members.push_back({&life, phase});
          if (assign(index + 1, share))
            return true;
          groups[g].members.pop_back();
        }
      }
    for (int64_t depth = least; depth <= std::min(most, share ? least + 1 : least); ++depth) {
      int64_t cost = depth * banks(life);
      if (cost > left)
        break;
      left -= cost;
      groups.push_back({depth, banks(life), {{&life, 0}}});
      if (assign(index + 1, share))
        return true;
      groups.pop_back();
      left += cost;
    }
    return false;
  }

  const Problem &problem;
  const Schedule &schedule;
  unsigned memory, maxDepth;
  std::vector<Life> lives;
  std::vector<Group> groups;
  int64_t left = 0;
};

} // namespace

bool loopsched::placeBuffers(const Problem &problem, Schedule &schedule, unsigned maxDepth) {
  schedule.rings.clear();
  schedule.placements.assign(problem.buffers.size(), {});
  for (unsigned m = 0; m < problem.memories.size(); ++m)
    if (!RingPlacement(problem, schedule, m, maxDepth).run(schedule.rings, schedule.placements))
      return false;
  return layOutRings(problem, schedule.rings);
}
