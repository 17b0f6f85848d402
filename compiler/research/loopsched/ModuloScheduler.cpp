//===- ModuloScheduler.cpp - Software pipelining of a tile loop -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bisects on ii. At a fixed ii: (1) iterative modulo scheduling gives every
// operation its place modulo ii; (2) stages are difference constraints once depths
// are chosen, so each choice of depths that fits the memories is tried; or the
// stages are the earliest and rings are shared; (3) where nothing fits, the other
// way round: depths first, then modulo scheduling with lifetimes bounded by them;
// (4) the order so found is kept and its least ii computed, which is often lower.
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/Constraints.h"
#include "compiler/research/loopsched/RingChoices.h"
#include "compiler/research/loopsched/Schedulers.h"

#include <algorithm>
#include <random>

using namespace tw;
using namespace tw::loopsched;

namespace {

constexpr Cycles kUnset = INT64_MIN;

class ModuloScheduler {
public:
  ModuloScheduler(const Problem &problem, uint64_t seed)
      : problem(problem), n(problem.operations.size()), seed(seed), necessary(necessaryEdges(problem)),
        flow(flowEdges(problem)) {}

  bool fits(Cycles ii, Schedule &schedule) {
    std::mt19937_64 random(seed);
    auto attempt = [&](const std::vector<Edge> &edges, unsigned number) {
      schedule = {};
      schedule.ii = ii;
      return placeOperations(ii, edges, number, random, schedule.start);
    };
    for (unsigned number = 0; number < kAttempts; ++number)
      if (attempt(necessary, number) && chooseStages(schedule))
        return true;
    std::vector<int64_t> least;
    for (const Problem::Buffer &buffer : problem.buffers) {
      Cycles readers = 0;
      for (const Problem::Reader &reader : buffer.readers)
        readers = std::max(readers, problem.operations[reader.operation].latency);
      least.push_back(std::max<int64_t>(1, ceilDiv(problem.operations[buffer.producer].latency + readers, ii)));
    }
    for (const std::vector<RingChoice> &rings : ringChoices(problem, least, true, 3, kRingChoices)) {
      std::vector<Edge> edges = flow;
      std::vector<Alternation> pairs;
      for (const RingChoice &ring : rings)
        for (unsigned b = 0; b < ring.buffers.size(); ++b) {
          addReuseEdges(problem, ring.buffers[b], ring.depth, edges);
          for (unsigned a = 0; a < b; ++a)
            pairs.push_back(ringAlternation(problem, ring.buffers[a], ring.buffers[b], ring.depth));
        }
      std::vector<std::vector<Edge>> systems;
      orderRings(pairs, 0, edges, ii, systems);
      for (const std::vector<Edge> &system : systems)
        for (unsigned number = 0; number < kAttempts; ++number)
          if (attempt(system, number) && placeBuffers(problem, schedule))
            return true;
    }
    return false;
  }

private:
  /// Orders of placement tried: by height; from both sides; the same with heights perturbed.
  static constexpr unsigned kAttempts = 6;
  /// Choices of rings tried at each ii, and orders of the buffers in shared ones for each choice.
  static constexpr unsigned kRingChoices = 200, kRingOrders = 4;

  /// Orders in which the buffers of shared rings can follow one another, resources aside; each as a system of edges.
  void orderRings(const std::vector<Alternation> &pairs, size_t index, const std::vector<Edge> &edges, Cycles ii,
                  std::vector<std::vector<Edge>> &systems) const {
    if (systems.size() >= kRingOrders || !earliestStarts(n, edges, ii))
      return;
    if (index == pairs.size()) {
      systems.push_back(edges);
      return;
    }
    // Where a loop of dependences joins two buffers, only few x near the depth are possible.
    for (int64_t x = -2; x <= pairs[index].circle + 2; ++x) {
      std::vector<Edge> more = edges;
      addEdges(pairs[index], x, more);
      orderRings(pairs, index + 1, more, ii, systems);
    }
  }

  /// By how many cycles `i` at `start` must move, later or earlier, to be clear of `other`; 0: it is.
  Cycles conflict(unsigned i, Cycles start, unsigned other, Cycles otherStart, Cycles ii, bool later) const {
    Cycles most = 0;
    for (const Problem::Use &a : problem.operations[i].uses)
      for (const Problem::Use &b : problem.operations[other].uses) {
        if (a.resource != b.resource || a.cycles == 0 || b.cycles == 0)
          continue;
        Cycles gap = (((start - otherStart) % ii) + ii) % ii;
        if (gap < b.cycles)
          most = std::max(most, later ? b.cycles - gap : gap + a.cycles);
        else if (gap + a.cycles > ii)
          most = std::max(most, later ? ii - gap + b.cycles : gap + a.cycles - ii);
      }
    return most;
  }

  /// The longest path of edges that starts at each operation.
  std::vector<Cycles> heights(Cycles ii, const std::vector<Edge> &edges) const {
    std::vector<Cycles> height(n, 0);
    for (size_t round = 0; round < n; ++round)
      for (const Edge &edge : edges)
        height[edge.from] = std::max(height[edge.from], height[edge.to] + edge.delay - edge.distance * ii);
    return height;
  }

  /// Iterative modulo scheduling: starts that keep `edges` and resources, capacity aside.
  bool placeOperations(Cycles ii, const std::vector<Edge> &edges, unsigned attempt, std::mt19937_64 &random,
                       std::vector<Cycles> &start) const {
    std::vector<Cycles> height = heights(ii, edges);
    if (attempt >= 2)
      for (Cycles &it : height)
        it += Cycles(random() % uint64_t(ii));
    bool lateWhereUseful = attempt % 2 == 1;
    start.assign(n, kUnset);
    std::vector<Cycles> last(n, kUnset); // where each operation stood before it was evicted
    for (size_t budget = 10 * n; budget > 0; --budget) {
      unsigned next = n;
      for (unsigned i = 0; i < n; ++i)
        if (start[i] == kUnset && (next == n || height[i] > height[next]))
          next = i;
      if (next == n) {
        Cycles first = *std::min_element(start.begin(), start.end());
        for (Cycles &it : start)
          it -= first;
        return true;
      }
      Cycles earliest = kUnset, latest = kUnset;
      for (const Edge &edge : edges) {
        if (edge.from == edge.to)
          continue;
        if (edge.to == next && start[edge.from] != kUnset)
          earliest = std::max(earliest, start[edge.from] + edge.delay - edge.distance * ii);
        if (edge.from == next && start[edge.to] != kUnset)
          latest = latest == kUnset ? start[edge.to] - edge.delay + edge.distance * ii
                                    : std::min(latest, start[edge.to] - edge.delay + edge.distance * ii);
      }
      bool later = true;
      Cycles begin = earliest;
      if (earliest == kUnset)
        begin = latest == kUnset ? 0 : latest - ii + 1;
      if (lateWhereUseful && latest != kUnset) {
        begin = earliest == kUnset ? latest : std::max(earliest, std::min(latest, earliest + ii - 1));
        later = false;
      }
      Cycles chosen = kUnset;
      for (Cycles at = begin; std::abs(at - begin) < ii;) {
        if ((earliest != kUnset && at < earliest) || (latest != kUnset && at > latest))
          break;
        Cycles move = 0;
        for (unsigned other = 0; other < n && move == 0; ++other)
          if (other != next && start[other] != kUnset)
            move = conflict(next, at, other, start[other], ii, later);
        if (move == 0) {
          chosen = at;
          break;
        }
        at += later ? move : -move;
      }
      if (chosen == kUnset)
        chosen = last[next] == kUnset ? std::max(begin, earliest) : std::max(earliest, last[next] + 1);
      start[next] = last[next] = chosen;
      for (unsigned other = 0; other < n; ++other)
        if (other != next && start[other] != kUnset && conflict(next, chosen, other, start[other], ii, true) > 0)
          start[other] = kUnset;
      for (const Edge &edge : edges) {
        if (edge.from == edge.to || start[edge.from] == kUnset || start[edge.to] == kUnset ||
            start[edge.to] + edge.distance * ii >= start[edge.from] + edge.delay)
          continue;
        start[edge.from == next ? edge.to : edge.from] = kUnset;
      }
    }
    return false;
  }

  /// Stages that keep `constraints` with every operation at its place modulo ii.
  std::optional<std::vector<Cycles>> stages(const std::vector<Cycles> &place, std::vector<Edge> constraints, Cycles ii) const {
    for (Edge &edge : constraints)
      edge.delay = ceilDiv(edge.delay + place[edge.from] - place[edge.to], ii);
    std::optional<std::vector<Cycles>> result = earliestStarts(n, constraints, 1);
    for (size_t i = 0; result && i < n; ++i)
      (*result)[i] = (*result)[i] * ii + place[i];
    return result;
  }

  bool chooseStages(Schedule &schedule) const {
    Cycles ii = schedule.ii;
    std::vector<Cycles> place = schedule.start;
    for (Cycles &it : place)
      it %= ii;
    std::optional<std::vector<Cycles>> starts = stages(place, necessary, ii);
    if (!starts)
      return false;
    schedule.start = *starts;
    if (placeBuffers(problem, schedule))
      return true;
    // Slots a buffer needs whatever the stages are.
    std::vector<int64_t> least;
    for (const Problem::Buffer &buffer : problem.buffers) {
      Cycles length = problem.operations[buffer.producer].latency;
      for (const Problem::Reader &reader : buffer.readers) {
        Cycles wait = problem.operations[buffer.producer].latency - Cycles(reader.distance) * ii;
        wait = ceilDiv(wait + place[buffer.producer] - place[reader.operation], ii) * ii + place[reader.operation] -
               place[buffer.producer];
        length = std::max(length, wait + Cycles(reader.distance) * ii + problem.operations[reader.operation].latency);
      }
      least.push_back(std::max<int64_t>(1, ceilDiv(length, ii)));
    }
    for (const std::vector<RingChoice> &rings : ringChoices(problem, least, false, 3, 500)) {
      std::vector<Edge> constraints = flow;
      for (const RingChoice &ring : rings)
        addReuseEdges(problem, ring.buffers[0], ring.depth, constraints);
      starts = stages(place, constraints, ii);
      if (!starts)
        continue;
      schedule.start = *starts;
      if (placeBuffers(problem, schedule))
        return true;
    }
    return false;
  }

  const Problem &problem;
  size_t n;
  uint64_t seed;
  std::vector<Edge> necessary, flow;
};

} // namespace

Result<Schedule> loopsched::scheduleModulo(const Problem &problem, const SchedulerOptions &options) {
  Result<Schedule> best = scheduleDoubleBuffer(problem, options);
  Cycles low = std::max<Cycles>({1, resourceBound(problem), recurrenceBound(problem)});
  Cycles high = best ? best->ii : 2 * serialLength(problem) + 1;
  ModuloScheduler scheduler(problem, options.seed);
  // Success is not monotone for a heuristic, so the best so far is kept.
  while (low < high) {
    Cycles middle = low + (high - 1 - low) / 2;
    Schedule schedule;
    if (scheduler.fits(middle, schedule)) {
      best = tighten(problem, schedule);
      high = std::min(middle, best->ii);
    } else {
      low = middle + 1;
    }
  }
  return best;
}
