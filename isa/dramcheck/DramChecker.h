//===- DramChecker.h - Is a command log legal? ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks commands against the datasheet numbers, command pair by command pair,
// from the definitions of the standards. Shares no code with the controllers:
// it looks backwards over the commands and keeps no gates.
//===----------------------------------------------------------------------===//
#ifndef ISA_DRAMCHECK_DRAMCHECKER_H
#define ISA_DRAMCHECK_DRAMCHECKER_H

#include "isa/timing/Dram.h"

#include <deque>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace tw::dramcheck {

/// Takes the commands of all channels in the order of ticks, and remembers no more of them than it needs.
class DramChecker {
public:
  /// Keeps the first `limit` violations.
  explicit DramChecker(const timing::DramParams &params, size_t limit = 10);
  void add(const timing::DramCommand &command);
  /// One message per violation: "tick 812: ACT 3 ticks after ACT at 809, tRRD_S asks for 4".
  const std::vector<std::string> &violations() const { return found; }

private:
  using Bank = std::tuple<uint32_t, uint32_t, uint32_t>; ///< rank, bank group, bank
  struct Burst {
    uint64_t start;
    timing::DramCommand command;
  };
  struct Channel {
    std::deque<timing::DramCommand> commands, refreshes; ///< within `reach` of the latest command
    std::map<Bank, uint32_t> openRow;
    std::map<uint32_t, std::deque<uint64_t>> activates; ///< ticks of the last four, by rank
    std::map<uint32_t, uint64_t> refreshCount;          ///< refreshes so far, by rank
    std::map<uint32_t, std::set<Bank>> refreshed;       ///< banks refreshed in this round, by rank
    std::deque<Burst> bursts;                           ///< bursts on the data bus
  };
  void report(const timing::DramCommand &command, const std::string &what);
  void checkDistances(Channel &channel, const timing::DramCommand &now);
  void checkActivates(Channel &channel, const timing::DramCommand &now);
  void checkBanks(Channel &channel, const timing::DramCommand &now);
  void checkRefreshes(Channel &channel, const timing::DramCommand &now);
  void checkDataBus(Channel &channel, const timing::DramCommand &now);

  timing::DramParams params;
  size_t limit;
  uint64_t reach, refreshReach; ///< ticks: the longest distance of any timing rule, and of those behind a refresh
  uint64_t lastTick = 0;
  std::map<uint32_t, Channel> channels;
  std::map<uint32_t, timing::DramCommand> lastOnBus; ///< the last command, by command bus
  std::vector<std::string> found;
};

/// The violations of a log that is sorted by tick.
std::vector<std::string> checkDramLog(const timing::DramParams &params, const timing::DramCommandLog &log, size_t limit = 10);

} // namespace tw::dramcheck

#endif // ISA_DRAMCHECK_DRAMCHECKER_H
