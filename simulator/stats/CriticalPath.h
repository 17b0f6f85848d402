//===- CriticalPath.h - Which layers a run waits for ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// While a model runs, every event (dispatch, start, retirement) keeps the path
// of events that it waited for last, back to cycle 0. Behind the run the path of
// the last event says which layer each cycle was spent on. docs/profile.md,
// "Critical path", has the rules.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_STATS_CRITICALPATH_H
#define SIMULATOR_STATS_CRITICALPATH_H

#include "simulator/stats/SimResult.h"

#include <utility>
#include <vector>

namespace tw::stats {

/// A path up to an event: [0, begin of the 2nd step) is spent on the first step's layer, and so on; the last step has no
/// end yet. Paths share what they have in common, and neighbouring steps have different layers. Not for use by several
/// threads at once.
class Path {
public:
  Path() = default;
  Path(const Path &other) : last(other.last) { retain(last); }
  Path(Path &&other) noexcept : last(std::exchange(other.last, nullptr)) {}
  Path &operator=(Path other) noexcept {
    std::swap(last, other.last);
    return *this;
  }
  ~Path() { release(last); }

  /// The path that goes on with `layer` from `begin` on. The first step of a path begins in cycle 0. Precondition: `begin`
  /// is not before the last step's.
  Path then(uint32_t layer, Cycle begin) const;
  /// Its steps up to `total`, in order; none of a path without steps.
  std::vector<PathStep> steps(Cycle total) const;

private:
  struct Step {
    Step *before; ///< owned together with others
    Cycle begin;
    uint32_t layer;
    uint32_t uses;
  };
  explicit Path(Step *step) : last(step) {}
  static void retain(Step *step) {
    if (step)
      ++step->uses;
  }
  static void release(Step *step);

  Step *last = nullptr;
};

/// Paths up to the last retirements of one engine.
class Retirements {
public:
  /// Retirements come in ascending order, maybe ahead of time.
  void add(Cycle cycle, Path path) { list.push_back({cycle, std::move(path)}); }
  /// Nobody will ask for a cycle before `cycle` any more.
  void forgetBefore(Cycle cycle);
  /// The last retirement up to `cycle`; null if there is none.
  const std::pair<Cycle, Path> *upTo(Cycle cycle) const;
  /// The latest one; null if there is none.
  const std::pair<Cycle, Path> *latest() const { return list.empty() ? nullptr : &list.back(); }

private:
  std::vector<std::pair<Cycle, Path>> list; ///< few: those in flight and of the last cycles
};

} // namespace tw::stats

#endif // SIMULATOR_STATS_CRITICALPATH_H
