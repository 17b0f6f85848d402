//===- Timebase.cpp - Cycles, phases and SystemC time ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/Timebase.h"

#include <utility>

namespace tw::systemc {

using sc_core::sc_time;

Timebase::Timebase(sc_core::sc_module_name name) : sc_module(name), wakeUp("wakeUp") {
  SC_HAS_PROCESS(Timebase);
  SC_METHOD(work);
  sensitive << wakeUp;
  dont_initialize();
}

void Timebase::run(Cycle last) {
  base = (sc_core::sc_time_stamp().value() / kCyclePs + 2) * kCyclePs;
  lastMoment = momentOf(last, Phase::Fault);
  stopped = false;
  wakeUp.notify(sc_time::from_value(base) - sc_core::sc_time_stamp());
  sc_core::sc_start(sc_core::sc_max_time() - sc_core::sc_time_stamp(), sc_core::SC_EXIT_ON_STARVATION);
  if (thrown) {
    silence();
    std::rethrow_exception(std::exchange(thrown, nullptr));
  }
}

void Timebase::work() {
  const sc_time now = sc_core::sc_time_stamp();
  const sc_time quiet = sc_core::sc_time_to_pending_activity(sc_core::sc_get_curr_simcontext());
  const uint64_t horizon = quiet < sc_core::sc_max_time() - now ? (now + quiet).value() : kNever;
  while (!stopped) {
    const size_t first = static_cast<size_t>(std::min_element(due.begin(), due.end()) - due.begin());
    const Moment moment = due[first];
    if (moment > lastMoment)
      break;
    if (horizon != kNever) {
      if (const uint64_t time = picoseconds(moment); time > now.value() && time >= horizon) {
        wakeUp.notify(sc_time::from_value(time - now.value()));
        return;
      }
    }
    current = moment;
    try {
      alarms[first]->ring(cycleOf(moment));
    } catch (...) {
      thrown = std::current_exception();
      return stop();
    }
  }
  // SystemC time comes after.
  if (const uint64_t time = picoseconds(current); time > now.value())
    wakeUp.notify(sc_time::from_value(time - now.value()));
}

void Timebase::silence() {
  for (Alarm *alarm : alarms)
    alarm->reset();
  current = 0;
}

} // namespace tw::systemc
