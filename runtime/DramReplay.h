//===- DramReplay.h - Replays a trace on a DRAM -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replays a trace of accesses on the DRAM model of the simulators, checks every
// command against the device's timing, and says where the time goes.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_DRAMREPLAY_H
#define RUNTIME_DRAMREPLAY_H

#include "isa/Diagnostic.h"
#include "isa/timing/Dram.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tw::runtime {

/// Limits of a trace: its accesses, all of which may wait at once, and the cycle of the last arrival. The controller logs every refresh
/// before that cycle.
constexpr uint64_t kMostDramAccesses = 20'000'000;
constexpr uint64_t kLastDramArrival = 10'000'000'000;

/// The accesses of a trace, read as they are asked for. A line is `ARRIVAL R|W ADDRESS`: a cycle, never before that of the line above,
/// and a byte address in hexadecimal digits, 0x or not. What follows # is a comment.
class DramTrace {
public:
  /// `file` names the text in messages. The text must outlive the trace.
  DramTrace(std::string_view text, std::string file) : text(text), file(std::move(file)) {}
  /// False at the end, and after a problem.
  bool next(timing::DramRequest &access);
  /// Why the trace ended too soon.
  const std::optional<Diagnostic> &problem() const { return found; }

private:
  bool refuse(size_t column, std::string message);
  std::string_view text;
  std::string file;
  size_t begin = 0; ///< of the next line
  unsigned line = 0;
  uint64_t count = 0, lastArrival = 0;
  std::optional<Diagnostic> found;
};

/// How many times each number of cycles was met.
class Distribution {
public:
  void add(uint64_t cycles) { ++counts[cycles]; }
  uint64_t size() const;
  double mean() const;
  /// The least number that is not exceeded in `percent` of all cases; 0 is the minimum.
  uint64_t percentile(double percent) const;

private:
  std::map<uint64_t, uint64_t> counts;
};

struct DramReplayReport {
  timing::MachineParams machine; ///< of which the DRAM and the clock count
  timing::Cycle totalCycles = 0; ///< up to the last completion
  uint64_t reads = 0, writes = 0;
  /// Columns in a row that had been used before; the first in a row of a closed bank; the first after another row of the bank.
  uint64_t rowHits = 0, rowMisses = 0, rowConflicts = 0;
  double dataBusPercent = 0; ///< of all channels' buses
  Distribution readLatency;  ///< from the cycle in which the controller begins to look at a read
  uint64_t commands = 0;
  std::vector<std::string> violations; ///< the first of them
};

/// Accesses come in order, one in a cycle at most. Errors: the trace's.
Result<DramReplayReport> replayDram(const timing::MachineParams &machine, DramTrace &trace);

std::string dramReplayText(const DramReplayReport &report);
std::string toJson(const DramReplayReport &report);

} // namespace tw::runtime

#endif // RUNTIME_DRAMREPLAY_H
