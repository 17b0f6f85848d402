//===- SimpleSchedulers.cpp - serial and double_buffer --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/Constraints.h"
#include "compiler/research/loopsched/Schedulers.h"

#include <algorithm>

using namespace tw;
using namespace tw::loopsched;

namespace {

/// Operations so that each stands after those of its iteration that it depends on; among these, in the order of the
/// problem.
std::vector<unsigned> topologicalOrder(const Problem &problem) {
  size_t n = problem.operations.size();
  std::vector<Edge> edges = flowEdges(problem);
  std::vector<unsigned> order;
  std::vector<bool> placed(n, false);
  while (order.size() < n)
    for (unsigned i = 0; i < n; ++i) {
      bool ready = !placed[i] && std::all_of(edges.begin(), edges.end(), [&](const Edge &edge) {
        return edge.to != i || edge.distance > 0 || placed[edge.from];
      });
      if (ready) {
        placed[i] = true;
        order.push_back(i);
        break;
      }
    }
  return order;
}

/// Do the starts keep every edge at their ii?
bool keeps(const Schedule &schedule, const std::vector<Edge> &edges) {
  return std::all_of(edges.begin(), edges.end(), [&](const Edge &edge) {
    return schedule.start[edge.to] + edge.distance * schedule.ii >= schedule.start[edge.from] + edge.delay;
  });
}

/// One or two stages at a fixed ii: operations of `ahead` in the first, the others in the second, each as early as its
/// resources and dependences allow, every stage done within ii cycles.
class TwoStages {
public:
  explicit TwoStages(const Problem &problem)
      : problem(problem), edges(flowEdges(problem)), order(topologicalOrder(problem)), pairs(resourceAlternations(problem)) {}

  /// Operations that wait for nothing of their iteration, and produce a buffer.
  std::vector<unsigned> sources() const {
    std::vector<unsigned> result;
    for (unsigned i = 0; i < problem.operations.size(); ++i) {
      bool waits =
          std::any_of(edges.begin(), edges.end(), [&](const Edge &edge) { return edge.to == i && edge.distance == 0; });
      bool produces = std::any_of(problem.buffers.begin(), problem.buffers.end(),
                                  [&](const Problem::Buffer &buffer) { return buffer.producer == i; });
      if (!waits && produces)
        result.push_back(i);
    }
    return result;
  }

  bool fits(const std::vector<bool> &ahead, Cycles ii, Schedule &schedule) const {
    size_t n = problem.operations.size();
    schedule = {};
    schedule.ii = ii;
    schedule.start.assign(n, -1);
    for (unsigned i : order) {
      Cycles begin = ahead[i] ? 0 : ii, start = begin;
      for (const Edge &edge : edges)
        if (edge.to == i && edge.distance == 0)
          start = std::max(start, schedule.start[edge.from] + edge.delay);
      for (bool moved = true; moved;) {
        moved = false;
        for (const Alternation &pair : pairs)
          for (const std::vector<Edge> *direction : {&pair.forward, &pair.backward})
            for (const Edge &edge : *direction) {
              // The other operation of the pair stands at some time modulo ii: wait until it is done with the resource.
              if (edge.to != i || schedule.start[edge.from] < 0)
                continue;
              Cycles gap = (((start - schedule.start[edge.from]) % ii) + ii) % ii;
              Cycles mine = occupancy(i, pair, direction == &pair.forward);
              if (gap < edge.delay)
                start += edge.delay - gap, moved = true;
              else if (gap + mine > ii)
                start += ii - gap + edge.delay, moved = true;
            }
        if (start + problem.operations[i].latency > begin + ii)
          return false;
      }
      if (start + problem.operations[i].latency > begin + ii)
        return false;
      schedule.start[i] = start;
    }
    return keeps(schedule, edges) && placeBuffers(problem, schedule, 2);
  }

private:
  /// The longest time operation `i` occupies a resource of the pair.
  Cycles occupancy(unsigned i, const Alternation &pair, bool isSecond) const {
    Cycles most = 0;
    for (const Edge &edge : isSecond ? pair.backward : pair.forward)
      most = std::max(most, edge.delay);
    return most;
  }

  const Problem &problem;
  std::vector<Edge> edges;
  std::vector<unsigned> order;
  std::vector<Alternation> pairs;
};

} // namespace

Result<Schedule> loopsched::scheduleSerial(const Problem &problem, const SchedulerOptions &) {
  Schedule schedule;
  schedule.ii = std::max<Cycles>(1, serialLength(problem));
  schedule.start.resize(problem.operations.size());
  Cycles now = 0;
  std::vector<Edge> edges = flowEdges(problem);
  for (unsigned i : topologicalOrder(problem)) {
    // A dependence may ask for more than the latency of what it waits for.
    for (const Edge &edge : edges)
      if (edge.to == i && edge.distance == 0)
        now = std::max(now, schedule.start[edge.from] + edge.delay);
    schedule.start[i] = now;
    now += problem.operations[i].latency;
  }
  schedule.ii = std::max(schedule.ii, now);
  for (const Edge &edge : edges)
    if (edge.distance > 0)
      schedule.ii =
          std::max(schedule.ii, ceilDiv(schedule.start[edge.from] + edge.delay - schedule.start[edge.to], edge.distance));
  bool carried = false;
  for (const Problem::Buffer &buffer : problem.buffers)
    for (const Problem::Reader &reader : buffer.readers)
      carried |= reader.distance > 0;
  // Only a buffer that a later iteration reads needs more than one slot.
  if (!placeBuffers(problem, schedule, carried ? 0 : 1))
    return Diagnostic{"", 0, 0, "the buffers of one iteration do not fit into the memories"};
  return schedule;
}

Result<Schedule> loopsched::scheduleDoubleBuffer(const Problem &problem, const SchedulerOptions &options) {
  Result<Schedule> best = scheduleSerial(problem, options);
  if (!best)
    return best;
  TwoStages stages(problem);
  std::vector<unsigned> sources = stages.sources();
  sources.resize(std::min<size_t>(sources.size(), 8)); // 256 choices
  Cycles least = std::max<Cycles>({1, resourceBound(problem), recurrenceBound(problem)});
  for (size_t choice = 0; choice < size_t(1) << sources.size(); ++choice) {
    std::vector<bool> ahead(problem.operations.size(), false);
    for (size_t i = 0; i < sources.size(); ++i)
      ahead[sources[i]] = choice >> i & 1;
    Schedule schedule;
    for (Cycles low = least; low < best->ii;) {
      Cycles middle = low + (best->ii - 1 - low) / 2;
      if (stages.fits(ahead, middle, schedule))
        best = tighten(problem, schedule);
      else
        low = middle + 1;
    }
  }
  return best;
}
