//===- Timeline.h - A run as a Chrome/Perfetto trace ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_STATS_TIMELINE_H
#define SIMULATOR_STATS_TIMELINE_H

#include "isa/Program.h"
#include "simulator/stats/SimResult.h"

#include <ostream>

namespace tw::stats {

/// Writes the run in Chrome's JSON trace format, which ui.perfetto.dev and chrome://tracing open. One cycle is 1 us.
///
/// Each engine has a track of instructions, from start to issue-free, with its stalls by cause, and a track of its queue:
/// the instruction at the head while it waits. Arrows lead from the instruction that posts a semaphore to the one that
/// takes it. The first track is the critical path, as the layers it goes through. Counters: queue lengths, and the share
/// of each DRAM channel's data bus in use. Precondition: the run was made with SimOptions::trace.
void writeTimeline(std::ostream &out, const isa::Program &program, const SimResult &result);

} // namespace tw::stats

#endif // SIMULATOR_STATS_TIMELINE_H
