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
#include <functional>
#include <vector>

namespace tw::systemc {

using timing::Cycle;
using timing::kNever;

/// The order of work within one cycle.
enum class Phase : unsigned {
  Host = 0,     ///< start register
  Update = 1,   ///< posts and bank releases whose cycle has come become visible
  Start = 2,    ///< the arbiter starts instructions
  Sequence = 3, ///< the sequencer takes words and dispatches
  Dram = 4,     ///< the DRAM port grants requests and accepts stores
  Fault = 5     ///< the lowest engine's fault of this cycle stops the machine
};

class Alarm;

/// Cycle 0 of the current run on the SystemC time axis, which never goes back.
class Timebase {
public:
  static constexpr uint64_t kCyclePs = 1000, kPhasePs = 100;

  /// Lets cycle 0 begin after the current SystemC time.
  void restart() { base = (sc_core::sc_time_stamp().value() / kCyclePs + 2) * kCyclePs; }
  sc_core::sc_time at(Cycle cycle, Phase phase) const {
    return sc_core::sc_time::from_value(base + cycle * kCyclePs + static_cast<unsigned>(phase) * kPhasePs);
  }
  /// The cycle that SystemC time is in.
  Cycle now() const { return (sc_core::sc_time_stamp().value() - base) / kCyclePs; }
  /// Cancels every alarm.
  void silence();

private:
  friend class Alarm;
  uint64_t base = 0;
  mutable std::vector<Alarm *> alarms;
};

/// Wakes a process in one phase of any number of cycles.
class Alarm {
public:
  Alarm(const Timebase &timebase, Phase phase, const char *name) : timebase(timebase), phase(phase), event(name) {
    timebase.alarms.push_back(this);
  }
  const sc_core::sc_event &trigger() const { return event; }
  /// Wakes in `cycle`. Precondition: that phase of that cycle is not over.
  void at(Cycle cycle) {
    if (!cycles.empty() && cycles.front() == cycle)
      return;
    cycles.push_back(cycle);
    std::push_heap(cycles.begin(), cycles.end(), std::greater<Cycle>());
    if (cycles.front() == cycle)
      arm();
  }
  /// Called first by the woken process: forgets what is due and arms for what is left. Returns the current cycle.
  Cycle take() {
    const Cycle now = timebase.now();
    while (!cycles.empty() && cycles.front() <= now) {
      std::pop_heap(cycles.begin(), cycles.end(), std::greater<Cycle>());
      cycles.pop_back();
    }
    if (!cycles.empty())
      arm();
    return now;
  }
  void reset() {
    event.cancel();
    cycles.clear();
  }

private:
  void arm() {
    const sc_core::sc_time target = timebase.at(cycles.front(), phase), now = sc_core::sc_time_stamp();
    assert(target >= now && "an alarm cannot ring in the past");
    event.cancel();
    event.notify(target - now);
  }

  const Timebase &timebase;
  Phase phase;
  sc_core::sc_event event;
  std::vector<Cycle> cycles; ///< a heap, earliest first
};

inline void Timebase::silence() {
  for (Alarm *alarm : alarms)
    alarm->reset();
}

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_TIMEBASE_H
