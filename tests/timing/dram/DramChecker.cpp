//===- DramChecker.cpp - Is a command log legal? ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/timing/dram/DramChecker.h"

#include <map>
#include <optional>
#include <tuple>

using namespace tw::timing;
using Kind = tw::timing::DramCommandKind;

namespace tw::test {
namespace {

const char *nameOf(Kind kind) {
  switch (kind) {
  case Kind::Activate:
    return "ACT";
  case Kind::Precharge:
    return "PRE";
  case Kind::PrechargeAll:
    return "PREA";
  case Kind::Read:
    return "RD";
  case Kind::Write:
    return "WR";
  case Kind::Refresh:
    return "REF";
  }
  return "?";
}

struct Rule {
  const char *name = nullptr;
  uint64_t ticks = 0;
};

/// The distance the standard asks for from `a` to the later `b` on one channel; several rules may hold, the largest is
/// returned.
Rule distance(const DramParams &t, const DramCommand &a, const DramCommand &b) {
  Rule worst{"command bus", 1};
  auto need = [&](bool applies, const char *name, uint64_t ticks) {
    if (applies && ticks > worst.ticks)
      worst = {name, ticks};
  };
  auto column = [](const DramCommand &c) {
    return c.kind == Kind::Read || c.kind == Kind::Write;
  };
  if (a.rank != b.rank) {
    // Two ranks share only the data bus: the second burst's data begin after the first's, and a gap.
    if (column(a) && column(b)) {
      int64_t aData = a.kind == Kind::Read ? t.nCL : t.nCWL,
              bData = b.kind == Kind::Read ? t.nCL : t.nCWL;
      int64_t gap = aData + t.nBurst + t.nRTRS - bData;
      need(gap > 0, "data bus between ranks", uint64_t(gap));
    }
    return worst;
  }
  bool sameGroup = a.bankGroup == b.bankGroup;
  bool sameBank = sameGroup && a.bank == b.bank;
  bool closes =
      (b.kind == Kind::Precharge && sameBank) || b.kind == Kind::PrechargeAll;
  switch (a.kind) {
  case Kind::Activate:
    need(b.kind == Kind::Activate, "tRRD_S", t.nRRDS);
    need(b.kind == Kind::Activate && sameGroup, "tRRD_L", t.nRRDL);
    need(b.kind == Kind::Activate && sameBank, "tRC", uint64_t(t.nRAS) + t.nRP);
    need(column(b) && sameBank, "tRCD", t.nRCD);
    need(closes, "tRAS", t.nRAS);
    need(b.kind == Kind::Refresh, "tRC", uint64_t(t.nRAS) + t.nRP);
    break;
  case Kind::Read:
    need(b.kind == Kind::Read, "tCCD_S", t.nCCDS);
    need(b.kind == Kind::Read && sameGroup, "tCCD_L", t.nCCDL);
    need(b.kind == Kind::Write, "read to write", t.nRTW);
    need(closes, "tRTP", t.nRTP);
    break;
  case Kind::Write:
    need(b.kind == Kind::Write, "tCCD_S", t.nCCDS);
    need(b.kind == Kind::Write && sameGroup, "tCCD_L", t.nCCDL);
    need(b.kind == Kind::Read, "tWTR_S", uint64_t(t.nCWL) + t.nBurst + t.nWTRS);
    need(b.kind == Kind::Read && sameGroup, "tWTR_L",
         uint64_t(t.nCWL) + t.nBurst + t.nWTRL);
    need(closes, "tWR", uint64_t(t.nCWL) + t.nBurst + t.nWR);
    break;
  case Kind::Precharge:
    need(b.kind == Kind::Activate && sameBank, "tRP", t.nRP);
    need(b.kind == Kind::Refresh, "tRP", t.nRP);
    break;
  case Kind::PrechargeAll:
    need(b.kind == Kind::Activate || b.kind == Kind::Refresh, "tRPab", t.nRPAB);
    break;
  case Kind::Refresh:
    need(true, "tRFC", t.nRFC);
    break;
  }
  return worst;
}

/// The longest distance any rule can ask for.
uint64_t horizon(const DramParams &t) {
  uint64_t longest = t.nRFC;
  for (uint64_t ticks :
       {uint64_t(t.nRAS) + t.nRP, uint64_t(t.nCWL) + t.nBurst + t.nWR,
        uint64_t(t.nRPAB), uint64_t(t.nCWL) + t.nBurst + t.nWTRL,
        uint64_t(t.nRTW), uint64_t(t.nRTP), uint64_t(t.nFAW),
        uint64_t(t.nCL) + t.nBurst + t.nRTRS, uint64_t(t.nCCDL),
        uint64_t(t.nRRDL)})
    longest = ticks > longest ? ticks : longest;
  return longest;
}

} // namespace

std::vector<std::string> checkDramLog(const DramParams &params,
                                      const DramCommandLog &log, size_t limit) {
  std::vector<std::string> violations;
  auto report = [&](const DramCommand &command, const std::string &what) {
    if (violations.size() < limit)
      violations.push_back("tick " + std::to_string(command.tick) + ": " +
                           nameOf(command.kind) + " " + what);
  };
  uint64_t reach = horizon(params);

  using Bank = std::tuple<uint32_t, uint32_t, uint32_t>;
  struct Channel {
    std::vector<DramCommand> commands;
    std::map<Bank, uint32_t> openRow;
    std::map<uint32_t, std::vector<uint64_t>> activates; ///< by rank
    std::map<uint32_t, uint64_t> refreshes;              ///< by rank: how many
  };
  std::map<uint32_t, Channel> channels;

  for (size_t i = 0; i < log.size() && violations.size() < limit; ++i) {
    const DramCommand &now = log[i];
    if (i && log[i - 1].tick > now.tick)
      report(now, "stands after tick " + std::to_string(log[i - 1].tick) +
                      ": the log is not sorted");
    if (now.channel >= params.channels || now.rank >= params.ranks ||
        now.bankGroup >= params.bankGroups ||
        now.bank >= params.banksPerGroup) {
      report(now, "names a bank that does not exist");
      continue;
    }
    Channel &channel = channels[now.channel];

    // (1) Distance to every earlier command that is near enough to matter.
    for (size_t j = channel.commands.size();
         j-- && channel.commands[j].tick + reach > now.tick;) {
      const DramCommand &before = channel.commands[j];
      Rule rule = distance(params, before, now);
      if (now.tick - before.tick < rule.ticks)
        report(now, std::to_string(now.tick - before.tick) + " ticks after " +
                        nameOf(before.kind) + " at " +
                        std::to_string(before.tick) + ", " + rule.name +
                        " asks for " + std::to_string(rule.ticks));
    }

    // (2) Four activates.
    if (now.kind == Kind::Activate) {
      std::vector<uint64_t> &activates = channel.activates[now.rank];
      if (activates.size() >= 4 &&
          now.tick - activates[activates.size() - 4] < params.nFAW)
        report(now,
               "is the fifth in " +
                   std::to_string(now.tick - activates[activates.size() - 4]) +
                   " ticks, tFAW asks for " + std::to_string(params.nFAW));
      activates.push_back(now.tick);
    }

    // (3) State of the banks.
    Bank bank{now.rank, now.bankGroup, now.bank};
    auto open = channel.openRow.find(bank);
    switch (now.kind) {
    case Kind::Activate:
      if (open != channel.openRow.end())
        report(now, "of an open bank");
      channel.openRow[bank] = now.row;
      break;
    case Kind::Precharge:
      if (open == channel.openRow.end())
        report(now, "of a closed bank");
      else
        channel.openRow.erase(open);
      break;
    case Kind::PrechargeAll:
      for (auto it = channel.openRow.begin(); it != channel.openRow.end();)
        it = std::get<0>(it->first) == now.rank ? channel.openRow.erase(it)
                                                : std::next(it);
      break;
    case Kind::Read:
    case Kind::Write:
      if (open == channel.openRow.end())
        report(now, "of a closed bank");
      else if (open->second != now.row)
        report(now, "of row " + std::to_string(now.row) + " while row " +
                        std::to_string(open->second) + " is open");
      break;
    case Kind::Refresh:
      for (const auto &[openBank, row] : channel.openRow)
        if (std::get<0>(openBank) == now.rank)
          report(now, "while a bank is open");
      ++channel.refreshes[now.rank];
      break;
    }

    // (4) The n-th refresh is due at n * tREFI and may be at most one interval late.
    for (uint32_t rank = 0; rank < params.ranks; ++rank)
      if (now.kind != Kind::Refresh && now.kind != Kind::PrechargeAll &&
          now.kind != Kind::Precharge &&
          now.tick >= (channel.refreshes[rank] + 2) * params.nREFI)
        report(now, "after " + std::to_string(channel.refreshes[rank]) +
                        " refreshes of rank " + std::to_string(rank));
    channel.commands.push_back(now);
  }

  // (5) The data bus carries one burst at a time.
  for (const auto &[number, channel] : channels) {
    std::map<uint64_t, const DramCommand *> bursts;
    for (const DramCommand &command : channel.commands)
      if (command.kind == Kind::Read || command.kind == Kind::Write) {
        uint64_t start =
            command.tick +
            (command.kind == Kind::Read ? params.nCL : params.nCWL);
        if (!bursts.emplace(start, &command).second)
          report(command, "puts data on a busy bus");
      }
    uint64_t free = 0;
    for (const auto &[start, command] : bursts) {
      if (start < free)
        report(*command, "puts data on a busy bus");
      free = start + params.nBurst;
    }
  }
  return violations;
}

} // namespace tw::test
