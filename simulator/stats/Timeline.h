//===- Timeline.h - A run as a trace for viewers ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_STATS_TIMELINE_H
#define SIMULATOR_STATS_TIMELINE_H

#include "isa/Program.h"
#include "simulator/stats/SimResult.h"

#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace tw::stats {

/// File formats of a timeline; ui.perfetto.dev opens both.
enum class TimelineFormat {
  ChromeJson, ///< Chrome's JSON trace format, which chrome://tracing opens too. One cycle is 1 us.
  Perfetto    ///< Perfetto's protobuf format, compressed. One cycle is 1 ns.
};

/// Writes the run as a timeline.
///
/// Each engine has a track of instructions, from start to issue-free, with its stalls by cause, and a track of its queue:
/// the instruction at the head while it waits. Arrows lead from the instruction that posts a semaphore to the one that
/// takes it. `plannedStarts`, where the compiler estimated any, are for each of SimResult::engines the starts in the order of
/// execution: then the engine has a track of its instructions as they were planned, as long as they took or until the next
/// was planned to start. The first track is the critical path, as the layers it goes through. Counters: queue lengths, and the share
/// of each DRAM channel's data bus in use. Precondition: the run was made with SimOptions::trace.
void writeTimeline(std::ostream &out, const isa::Program &program, const SimResult &result,
                   TimelineFormat format = TimelineFormat::ChromeJson,
                   const std::vector<std::vector<Cycle>> &plannedStarts = {});

/// A step of a network on a timeline: a program, or what host or link do in estimated time.
struct TimelineStep {
  enum class Kind : uint8_t { Program, Host, Link };
  Kind kind = Kind::Program;
  /// Of a program; else null.
  std::shared_ptr<const isa::Program> program;
  std::shared_ptr<const SimResult> result;
  /// Of the others.
  std::string name;
  Cycle cycles = 0; ///< of the accelerator; 0 shows nothing
  uint64_t bytes = 0;
};

/// Writes steps that follow one another. Where there are any of them, what host and link do has tracks of its own below those of
/// the engines. `machine` names what runs.
void writeTimeline(std::ostream &out, const std::string &machine, const std::vector<TimelineStep> &steps,
                   TimelineFormat format = TimelineFormat::ChromeJson);

} // namespace tw::stats

#endif // SIMULATOR_STATS_TIMELINE_H
