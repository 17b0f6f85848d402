//===- BadPlugin.cpp - Plug-ins that must be refused ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BAD_VERSION: built for another interface. BAD_EMPTY: adds nothing. BAD_NAME:
// takes a name there is. BAD_THROWS: throws. BAD_SCHEDULE: makes wrong schedules.
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Plugin.h"

#include <stdexcept>

using namespace tw;
using namespace tw::schedule;

#ifdef BAD_VERSION
extern "C" unsigned tilewrightPluginVersion() { return kPluginVersion + 1; }
#else
TILEWRIGHT_PLUGIN
#endif

extern "C" void tilewrightRegisterSchedulers(SchedulerRegistry &registry) {
#if defined(BAD_NAME)
  registry.add("serial", [](const Problem &, const SchedulerOptions &) -> Result<Schedule> { return Schedule{}; });
#elif defined(BAD_THROWS)
  throw std::runtime_error("no licence");
#elif defined(BAD_SCHEDULE)
  registry.add("hasty", [](const Problem &problem, const SchedulerOptions &) -> Result<Schedule> {
    Schedule schedule;
    schedule.ii = 1;
    schedule.start.assign(problem.operations.size(), 0);
    schedule.placements.resize(problem.buffers.size());
    return schedule;
  });
#endif
}
