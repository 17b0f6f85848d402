//===- Timebase.h - Cycles, phases and SystemC time -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One cycle is 1 ns of SystemC time, whatever the machine's clock. Work of one
// cycle runs in numbered phases, 100 ps apart, so that the order within a cycle
// never depends on the order in which modules were made. What a phase writes
// for another module is stamped with a later cycle (rule 1 of docs/timing.md);
// the phases only order bookkeeping.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_SYSTEMC_TIMEBASE_H
#define SIMULATOR_SYSTEMC_TIMEBASE_H

#include "isa/timing/Dma.h"

#include <systemc>

#include <algorithm>
#include <cassert>
#include <exception>
#include <functional>
#include <vector>

namespace tw::systemc {

using timing::Cycle;
using timing::kNever;

/// The order of work within one cycle.
enum class Phase : unsigned {
  Host = 0,     ///< start register
  Start = 1,    ///< posts and bank releases become visible; the arbiter starts instructions
  Sequence = 2, ///< the sequencer takes words and dispatches
  Dram = 3,     ///< the DRAM port grants requests and accepts stores
  Fault = 4     ///< the lowest engine's fault of this cycle stops the machine
};

class Alarm;

/// One phase of one cycle; in the order of time.
using Moment = uint64_t;
constexpr Moment momentOf(Cycle cycle, Phase phase) { return cycle << 3 | static_cast<unsigned>(phase); }
constexpr Cycle cycleOf(Moment moment) { return moment >> 3; }

/// Cycle 0 of the current run on the SystemC time axis, which never goes back, and the one process of the machine: it calls
/// what alarms have asked for, in the order of time. It works ahead of SystemC time up to the next event of any other process
/// (temporal decoupling, as in loosely timed TLM-2.0), so a wake-up costs a call and no event.
class Timebase : public sc_core::sc_module {
public:
  static constexpr uint64_t kCyclePs = 1000, kPhasePs = 100;

  explicit Timebase(sc_core::sc_module_name name);
  /// Lets cycle 0 begin after the current SystemC time and runs until no alarm is left, stop(), or the end of cycle `last`.
  /// What an alarm throws comes out of here: SystemC itself would only report that a process failed.
  void run(Cycle last);
  /// No alarm rings any more in this run.
  void stop() { stopped = true; }
  /// The cycle that the machine is in.
  Cycle now() const { return cycleOf(current); }
  /// When the next alarm rings; kNever if none is set.
  Moment next() const { return *std::min_element(due.begin(), due.end()); }
  /// Cancels every alarm; the next run may set some before it begins.
  void silence();

private:
  friend class Alarm;
  void work();
  uint64_t picoseconds(Moment moment) const { return base + (moment >> 3) * kCyclePs + (moment & 7) * kPhasePs; }

  sc_core::sc_event wakeUp;
  uint64_t base = 0;
  Moment current = 0, lastMoment = 0;
  bool stopped = false;
  std::exception_ptr thrown;
  std::vector<Alarm *> alarms;
  std::vector<Moment> due; ///< by alarm: the first moment it is set to
};

/// Calls a module in one phase of any number of cycles.
class Alarm {
public:
  Alarm(Timebase &timebase, Phase phase, std::function<void(Cycle)> process)
      : timebase(timebase), number(timebase.alarms.size()), phase(phase), process(std::move(process)) {
    timebase.alarms.push_back(this);
    timebase.due.push_back(kNever);
  }
  /// Rings in `cycle`. Precondition: that phase of that cycle is not over.
  void at(Cycle cycle) {
    assert(momentOf(cycle, phase) >= timebase.current && "an alarm cannot ring in the past");
    // Few are set at a time, and mostly for soon.
    size_t place = cycles.size();
    while (place && cycles[place - 1] < cycle)
      --place;
    if (place && cycles[place - 1] == cycle)
      return;
    cycles.push_back(cycle);
    for (size_t i = cycles.size() - 1; i > place; --i)
      std::swap(cycles[i], cycles[i - 1]);
    arm();
  }
  void reset() {
    cycles.clear();
    arm();
  }

private:
  friend class Timebase;
  void arm() { timebase.due[number] = cycles.empty() ? kNever : momentOf(cycles.back(), phase); }
  void ring(Cycle now) {
    while (!cycles.empty() && cycles.back() <= now)
      cycles.pop_back();
    arm();
    process(now);
  }

  Timebase &timebase;
  const size_t number;
  const Phase phase;
  const std::function<void(Cycle)> process;
  std::vector<Cycle> cycles; ///< earliest last, each once
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_TIMEBASE_H
