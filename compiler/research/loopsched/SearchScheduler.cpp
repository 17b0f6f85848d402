//===- SearchScheduler.cpp - Branch and bound below modulo's ii -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Feasibility is monotone in ii (Problem.h), so ii is bisected. At a fixed ii the
// choices are the rings with their depths, and one integer for each pair of
// operations that share a resource and of buffers that share a ring. All the rest
// are difference constraints: a matrix of longest paths bounds the integers.
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/Constraints.h"
#include "compiler/research/loopsched/RingChoices.h"
#include "compiler/research/loopsched/Schedulers.h"

#include <algorithm>
#include <cassert>
#include <random>

using namespace tw;
using namespace tw::loopsched;

namespace {

constexpr Cycles kNoPath = INT64_MIN / 4;

/// Longest paths between all operations at one ii; a path bounds the distance of two starts from below.
class Paths {
public:
  Paths(size_t n, Cycles ii) : n(n), ii(ii), longest(n * n, kNoPath) {
    for (size_t i = 0; i < n; ++i)
      longest[i * n + i] = 0;
  }

  Cycles at(unsigned from, unsigned to) const { return longest[from * n + to]; }

  /// False if the edge closes a cycle that cannot be kept.
  bool add(const Edge &edge) {
    Cycles length = edge.delay - edge.distance * ii;
    if (edge.from == edge.to)
      return length <= 0;
    if (at(edge.from, edge.to) >= length)
      return true;
    if (Cycles back = at(edge.to, edge.from); back != kNoPath && back + length > 0)
      return false;
    for (size_t u = 0; u < n; ++u) {
      Cycles before = longest[u * n + edge.from];
      if (before == kNoPath)
        continue;
      for (size_t v = 0; v < n; ++v)
        if (Cycles after = longest[edge.to * n + v]; after != kNoPath)
          longest[u * n + v] = std::max(longest[u * n + v], before + length + after);
    }
    return true;
  }

  bool add(const std::vector<Edge> &edges) {
    return std::all_of(edges.begin(), edges.end(), [&](const Edge &edge) { return add(edge); });
  }

private:
  size_t n;
  Cycles ii;
  std::vector<Cycles> longest;
};

class Search {
public:
  Search(const Problem &problem, uint64_t seed, uint64_t budget)
      : problem(problem), n(problem.operations.size()), necessary(necessaryEdges(problem)), flow(flowEdges(problem)),
        resources(resourceAlternations(problem)), random(seed), budget(budget) {}

  /// A schedule at `ii` or below. Without one: there is none, unless the budget ran out.
  bool fits(Cycles ii, Schedule &schedule) {
    this->ii = ii;
    Paths root(n, ii);
    if (!root.add(necessary))
      return false;
    std::vector<int64_t> least;
    for (const Problem::Buffer &buffer : problem.buffers) {
      Cycles length = problem.operations[buffer.producer].latency;
      for (const Problem::Reader &reader : buffer.readers)
        length = std::max(length, root.at(buffer.producer, reader.operation) + Cycles(reader.distance) * ii +
                                      problem.operations[reader.operation].latency);
      least.push_back(std::max<int64_t>(1, ceilDiv(length, ii)));
    }
    choices = ringChoices(problem, least, true, 3, 4000);
    // The first pass is systematic and may be cut short in each choice; later ones look elsewhere first.
    left = budget;
    for (unsigned pass = 0; pass < 4 && left > 0; ++pass) {
      bool complete = true;
      uint64_t share = std::max<uint64_t>(100, budget / 4 / std::max<size_t>(1, choices.size()));
      for (size_t i = 0; i < choices.size() && left > 0; ++i) {
        shuffle = pass > 0;
        uint64_t granted = std::min(left, share << (2 * pass)), before = granted;
        nodes = granted;
        if (tryRings(choices[i], root, schedule))
          return true;
        complete &= nodes > 0;
        left -= before - nodes;
      }
      if (complete)
        break;
    }
    return false;
  }

private:
  struct Variable {
    Alternation pair;
    /// Of a pair of buffers: their ring and their numbers in it. -1: a pair of operations.
    int ring = -1;
    unsigned a = 0, b = 0;
    int64_t x = 0;
    bool fixed = false;
  };

  bool tryRings(const std::vector<RingChoice> &rings, Paths paths, Schedule &schedule) {
    variables.clear();
    for (size_t r = 0; r < rings.size(); ++r) {
      const RingChoice &ring = rings[r];
      std::vector<Edge> reuse;
      for (unsigned b : ring.buffers)
        addReuseEdges(problem, b, ring.depth, reuse);
      if (!paths.add(reuse))
        return false;
      for (unsigned b = 1; b < ring.buffers.size(); ++b)
        for (unsigned a = 0; a < b; ++a)
          variables.push_back({ringAlternation(problem, ring.buffers[a], ring.buffers[b], ring.depth), int(r), a, b});
    }
    for (const Alternation &pair : resources)
      variables.push_back({pair});
    this->rings = &rings;
    return branch(paths, schedule);
  }

  /// Bounds of x, from the paths against its edges.
  std::pair<int64_t, int64_t> domain(const Variable &variable, const Paths &paths) const {
    const int64_t unbounded = 1 << 20;
    int64_t low = -unbounded, high = unbounded;
    for (const Edge &edge : variable.pair.forward)
      if (Cycles back = paths.at(edge.to, edge.from); back != kNoPath)
        low = std::max(low, ceilDiv(edge.delay + back, ii) - edge.distance);
    for (const Edge &edge : variable.pair.backward)
      if (Cycles back = paths.at(edge.to, edge.from); back != kNoPath)
        high = std::min(high, variable.pair.circle + edge.distance - ceilDiv(edge.delay + back, ii));
    // Operations that nothing ties together: near each other is enough.
    if (low == -unbounded)
      low = high == unbounded ? -1 : high - 3;
    if (high == unbounded)
      high = low + 3;
    return {low, high};
  }

  const Variable *ringVariable(int ring, unsigned a, unsigned b) const {
    for (const Variable &it : variables)
      if (it.ring == ring && it.a == a && it.b == b)
        return &it;
    return nullptr;
  }

  bool branch(const Paths &paths, Schedule &schedule) {
    if (nodes == 0)
      return false;
    --nodes;
    Variable *chosen = nullptr;
    std::vector<int64_t> values;
    for (Variable &variable : variables) {
      if (variable.fixed)
        continue;
      int64_t residue = -1;
      if (variable.ring >= 0 && variable.a > 0) {
        // Slots are counted from the ring's first buffer; pairs of others must agree with it.
        const Variable *a = ringVariable(variable.ring, 0, variable.a), *b = ringVariable(variable.ring, 0, variable.b);
        if (!a->fixed || !b->fixed)
          continue;
        residue = (((b->x - a->x) % variable.pair.circle) + variable.pair.circle) % variable.pair.circle;
      }
      auto [low, high] = domain(variable, paths);
      std::vector<int64_t> these;
      for (int64_t x = low; x <= high; ++x)
        if (residue < 0 || (((x - residue) % variable.pair.circle) + variable.pair.circle) % variable.pair.circle == 0)
          these.push_back(x);
      if (these.empty())
        return false;
      if (!chosen || these.size() < values.size()) {
        chosen = &variable;
        values = std::move(these);
      }
      if (values.size() == 1)
        break;
    }
    if (!chosen)
      return accept(schedule);
    if (shuffle)
      std::shuffle(values.begin(), values.end(), random);
    else // from the middle: most room on both sides
      std::stable_sort(values.begin(), values.end(), [middle = values.front() + values.back()](int64_t a, int64_t b) {
        return std::abs(2 * a - middle) < std::abs(2 * b - middle);
      });
    chosen->fixed = true;
    for (int64_t x : values) {
      chosen->x = x;
      std::vector<Edge> edges;
      addEdges(chosen->pair, x, edges);
      Paths next = paths;
      if (next.add(edges) && branch(next, schedule))
        return true;
    }
    chosen->fixed = false;
    return false;
  }

  /// All is chosen: the starts follow.
  bool accept(Schedule &schedule) {
    std::vector<Edge> edges = flow;
    for (const Variable &variable : variables)
      addEdges(variable.pair, variable.x, edges);
    schedule = {};
    schedule.placements.resize(problem.buffers.size());
    for (size_t r = 0; r < rings->size(); ++r) {
      const RingChoice &ring = (*rings)[r];
      schedule.rings.push_back({ring.memory, unsigned(ring.depth), 0, ring.banks});
      for (unsigned b = 0; b < ring.buffers.size(); ++b) {
        addReuseEdges(problem, ring.buffers[b], ring.depth, edges);
        int64_t phase = b == 0 ? 0 : -ringVariable(int(r), 0, b)->x;
        schedule.placements[ring.buffers[b]] = {unsigned(r), unsigned(((phase % ring.depth) + ring.depth) % ring.depth)};
      }
    }
    bool laidOut = layOutRings(problem, schedule.rings);
    assert(laidOut && "choices of rings fit their memories");
    (void)laidOut;
    schedule.ii = *leastIi(n, edges, 1, ii);
    schedule.start = *earliestStarts(n, edges, schedule.ii);
    return true;
  }

  const Problem &problem;
  size_t n;
  std::vector<Edge> necessary, flow;
  std::vector<Alternation> resources;
  std::mt19937_64 random;
  uint64_t budget, left = 0, nodes = 0;
  bool shuffle = false;
  Cycles ii = 0;
  std::vector<std::vector<RingChoice>> choices;
  std::vector<Variable> variables;
  const std::vector<RingChoice> *rings = nullptr;
};

} // namespace

Result<Schedule> loopsched::scheduleSearch(const Problem &problem, const SchedulerOptions &options) {
  Result<Schedule> best = scheduleModulo(problem, options);
  Cycles low = std::max<Cycles>({1, resourceBound(problem), recurrenceBound(problem)});
  Cycles high = best ? best->ii : 2 * serialLength(problem) + 1;
  Search search(problem, options.seed, options.budget);
  while (low < high) {
    Cycles middle = low + (high - 1 - low) / 2;
    Schedule schedule;
    if (search.fits(middle, schedule)) {
      high = schedule.ii;
      best = std::move(schedule);
    } else {
      low = middle + 1;
    }
  }
  return best;
}
