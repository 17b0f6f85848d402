//===- ExamplePlugin.cpp - A scheduler of one's own -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the scheduler `rigid`: the starts of `serial`, repeated as often as the
// resources allow. Built against the headers alone and linked with nothing:
//   clang++-14 -std=c++17 -shared -fPIC -I. tests/plugin/ExamplePlugin.cpp -o rigid.so
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/SchedulerPlugin.h"

#include <algorithm>

using namespace tw;
using namespace tw::loopsched;

TILEWRIGHT_PLUGIN

namespace {

/// Are two operations, `gap` cycles apart modulo ii, clear of each other on every resource they share?
bool clear(const Problem::Operation &first, const Problem::Operation &second, Cycles gap, Cycles ii) {
  for (const Problem::Use &a : first.uses)
    for (const Problem::Use &b : second.uses)
      if (a.resource == b.resource && (gap < a.cycles || gap + b.cycles > ii))
        return false;
  return true;
}

bool repeats(const Problem &problem, const std::vector<Cycles> &start, Cycles ii) {
  for (size_t i = 0; i < start.size(); ++i)
    for (size_t j = 0; j < start.size(); ++j)
      if (i != j && start[i] <= start[j] &&
          !clear(problem.operations[i], problem.operations[j], (start[j] - start[i]) % ii, ii))
        return false;
  for (const Problem::Dependence &it : problem.dependences)
    if (start[it.to] + Cycles(it.distance) * ii < start[it.from] + it.delay)
      return false;
  // One slot for each buffer: the next iteration writes when the last reader is done.
  for (const Problem::Buffer &buffer : problem.buffers)
    for (const Problem::Reader &reader : buffer.readers)
      if (start[buffer.producer] + ii <
          start[reader.operation] + Cycles(reader.distance) * ii + problem.operations[reader.operation].latency)
        return false;
  return true;
}

} // namespace

extern "C" void tilewrightRegisterSchedulers(SchedulerRegistry &registry) {
  // Built-in schedulers are starting points; the registry outlives every scheduler in it.
  const Scheduler *serial = registry.find("serial");
  registry.add("rigid", [serial](const Problem &problem, const SchedulerOptions &options) -> Result<Schedule> {
    Result<Schedule> base = (*serial)(problem, options);
    if (!base)
      return base;
    Schedule result;
    result.start = base->start;
    // Rings and placements stay empty: runScheduler() fills them in, then verifies.
    for (result.ii = 1; result.ii < base->ii; ++result.ii)
      if (repeats(problem, result.start, result.ii))
        return result;
    return base;
  });
}
