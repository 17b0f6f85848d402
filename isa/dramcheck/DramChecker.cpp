//===- DramChecker.cpp - Is a command log legal? ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/dramcheck/DramChecker.h"

#include <algorithm>

using namespace tw::timing;
using Kind = tw::timing::DramCommandKind;

namespace tw::dramcheck {
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
  case Kind::RefreshBank:
    return "REFpb";
  }
  return "?";
}

bool isColumn(Kind kind) { return kind == Kind::Read || kind == Kind::Write; }
bool isRefresh(Kind kind) { return kind == Kind::Refresh || kind == Kind::RefreshBank; }

struct Rule {
  const char *name = nullptr;
  uint64_t ticks = 0;
};

/// The distance the standard asks for from `a` to the later `b` on one channel; several rules may hold, the largest is returned.
Rule distance(const DramParams &t, const DramCommand &a, const DramCommand &b) {
  Rule worst;
  auto need = [&](bool applies, const char *name, uint64_t ticks) {
    if (applies && ticks > worst.ticks)
      worst = {name, ticks};
  };
  if (a.rank != b.rank) {
    // Two ranks share only the data bus: the second burst's data begin after the first's, and a gap.
    if (isColumn(a.kind) && isColumn(b.kind)) {
      int64_t aData = a.kind == Kind::Read ? t.nCL : t.nCWL, bData = b.kind == Kind::Read ? t.nCL : t.nCWL;
      int64_t gap = aData + t.nBurst + t.nRTRS - bData;
      need(gap > 0, "data bus between ranks", uint64_t(gap));
    }
    return worst;
  }
  bool sameGroup = a.bankGroup == b.bankGroup;
  bool sameBank = sameGroup && a.bank == b.bank;
  bool closes = (b.kind == Kind::Precharge && sameBank) || b.kind == Kind::PrechargeAll;
  switch (a.kind) {
  case Kind::Activate:
    need(b.kind == Kind::Activate || b.kind == Kind::RefreshBank, "tRRD_S", t.nRRDS);
    need(b.kind == Kind::Activate && sameGroup, "tRRD_L", t.nRRDL);
    need((b.kind == Kind::Activate || b.kind == Kind::RefreshBank) && sameBank, "tRC", uint64_t(t.nRAS) + t.nRP);
    need(b.kind == Kind::Read && sameBank, "tRCDRD", t.nRCDRD);
    need(b.kind == Kind::Write && sameBank, "tRCDWR", t.nRCDWR);
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
    need(b.kind == Kind::Write && sameGroup, "tCCD_L_WR", t.nCCDLWR);
    need(b.kind == Kind::Read, "tWTR_S", uint64_t(t.nCWL) + t.nBurst + t.nWTRS);
    need(b.kind == Kind::Read && sameGroup, "tWTR_L", uint64_t(t.nCWL) + t.nBurst + t.nWTRL);
    need(closes, "tWR", uint64_t(t.nCWL) + t.nBurst + t.nWR);
    break;
  case Kind::Precharge:
    need((b.kind == Kind::Activate || b.kind == Kind::RefreshBank) && sameBank, "tRP", t.nRP);
    need(b.kind == Kind::Refresh, "tRP", t.nRP);
    break;
  case Kind::PrechargeAll:
    need(b.kind == Kind::Activate || isRefresh(b.kind), "tRPab", t.nRPAB);
    break;
  case Kind::Refresh:
    need(true, "tRFC", t.nRFC);
    break;
  case Kind::RefreshBank:
    need(b.kind == Kind::Activate, "tRREFD", t.nRREFD);
    need((b.kind == Kind::Activate && sameBank) || isRefresh(b.kind), "tRFCpb", t.nRFCPB);
    break;
  }
  return worst;
}

} // namespace

DramChecker::DramChecker(const DramParams &params, size_t limit) : params(params), limit(limit) {
  const DramParams &t = params;
  reach = std::max({uint64_t(t.nRAS) + t.nRP, uint64_t(t.nCWL) + t.nBurst + t.nWR, uint64_t(t.nRPAB),
                    uint64_t(t.nCWL) + t.nBurst + t.nWTRL, uint64_t(t.nRTW), uint64_t(t.nRTP), uint64_t(t.nRCDRD),
                    uint64_t(t.nRCDWR), uint64_t(std::max(t.nCL, t.nCWL)) + t.nBurst + t.nRTRS, uint64_t(t.nCCDL),
                    uint64_t(t.nCCDLWR), uint64_t(t.nRRDL)});
  refreshReach = std::max({t.nRFC, t.nRFCPB, t.nRREFD});
}

void DramChecker::report(const DramCommand &command, const std::string &what) {
  if (found.size() < limit)
    found.push_back("tick " + std::to_string(command.tick) + ": " + nameOf(command.kind) + " " + what);
}

/// (1) The distance to every earlier command that is near enough to matter.
void DramChecker::checkDistances(Channel &channel, const DramCommand &now) {
  auto check = [&](std::deque<DramCommand> &earlier, uint64_t ticks) {
    while (!earlier.empty() && earlier.front().tick + ticks <= now.tick)
      earlier.pop_front();
    for (const DramCommand &before : earlier)
      if (Rule rule = distance(params, before, now); now.tick - before.tick < rule.ticks)
        report(now, std::to_string(now.tick - before.tick) + " ticks after " + nameOf(before.kind) + " at " +
                        std::to_string(before.tick) + ", " + rule.name + " asks for " + std::to_string(rule.ticks));
  };
  check(channel.commands, reach);
  check(channel.refreshes, refreshReach);
  (isRefresh(now.kind) ? channel.refreshes : channel.commands).push_back(now);
}

/// (2) Four activates.
void DramChecker::checkActivates(Channel &channel, const DramCommand &now) {
  if (now.kind != Kind::Activate)
    return;
  std::deque<uint64_t> &activates = channel.activates[now.rank];
  if (activates.size() == 4) {
    if (now.tick - activates.front() < params.nFAW)
      report(now, "is the fifth in " + std::to_string(now.tick - activates.front()) + " ticks, tFAW asks for " +
                      std::to_string(params.nFAW));
    activates.pop_front();
  }
  activates.push_back(now.tick);
}

/// (3) The state of the banks.
void DramChecker::checkBanks(Channel &channel, const DramCommand &now) {
  Bank bank{now.rank, now.bankGroup, now.bank};
  auto open = channel.openRow.find(bank);
  const bool isOpen = open != channel.openRow.end();
  switch (now.kind) {
  case Kind::Activate:
    if (isOpen)
      report(now, "of an open bank");
    channel.openRow[bank] = now.row;
    break;
  case Kind::Precharge:
    if (isOpen)
      channel.openRow.erase(open);
    else
      report(now, "of a closed bank");
    break;
  case Kind::PrechargeAll:
    for (auto it = channel.openRow.begin(); it != channel.openRow.end();)
      it = std::get<0>(it->first) == now.rank ? channel.openRow.erase(it) : std::next(it);
    break;
  case Kind::Read:
  case Kind::Write:
    if (!isOpen)
      report(now, "of a closed bank");
    else if (open->second != now.row)
      report(now, "of row " + std::to_string(now.row) + " while row " + std::to_string(open->second) + " is open");
    break;
  case Kind::Refresh:
    for (const auto &[openBank, row] : channel.openRow)
      if (std::get<0>(openBank) == now.rank)
        report(now, "while a bank is open");
    break;
  case Kind::RefreshBank:
    if (isOpen)
      report(now, "of an open bank");
    break;
  }
}

/// (4) The n-th refresh of a rank is due at n intervals and may be at most one late; one by one, banks take turns.
void DramChecker::checkRefreshes(Channel &channel, const DramCommand &now) {
  const bool perBank = params.refresh == DramRefresh::PerBank;
  if (isRefresh(now.kind)) {
    if ((now.kind == Kind::RefreshBank) != perBank)
      report(now, perBank ? "of all banks, which are refreshed one by one" : "of one bank, where all are refreshed at once");
    ++channel.refreshCount[now.rank];
    if (perBank) {
      std::set<Bank> &done = channel.refreshed[now.rank];
      if (!done.insert({now.rank, now.bankGroup, now.bank}).second)
        report(now, "of a bank again before all others had their turn");
      if (done.size() == size_t(params.bankGroups) * params.banksPerGroup)
        done.clear();
    }
    return;
  }
  if (now.kind == Kind::PrechargeAll || now.kind == Kind::Precharge)
    return;
  const uint64_t interval = perBank ? params.nREFIPB : params.nREFI;
  for (uint32_t rank = 0; rank < params.ranks; ++rank)
    if (now.tick >= (channel.refreshCount[rank] + 2) * interval)
      report(now, "after " + std::to_string(channel.refreshCount[rank]) + " refreshes of rank " + std::to_string(rank));
}

/// (5) The data bus carries one burst at a time.
void DramChecker::checkDataBus(Channel &channel, const DramCommand &now) {
  while (!channel.bursts.empty() && channel.bursts.front().start + params.nBurst <= now.tick)
    channel.bursts.pop_front();
  if (!isColumn(now.kind))
    return;
  Burst burst{now.tick + (now.kind == Kind::Read ? params.nCL : params.nCWL), now};
  for (const Burst &other : channel.bursts)
    if (burst.start < other.start + params.nBurst && other.start < burst.start + params.nBurst) {
      report(now, std::string("puts data on a busy bus: those of ") + nameOf(other.command.kind) + " at " +
                      std::to_string(other.command.tick));
      break;
    }
  channel.bursts.push_back(burst);
}

void DramChecker::add(const DramCommand &now) {
  if (lastTick > now.tick)
    report(now, "stands after tick " + std::to_string(lastTick) + ": the log is not sorted");
  lastTick = std::max(lastTick, now.tick);
  if (now.channel >= params.channels || now.rank >= params.ranks || now.bankGroup >= params.bankGroups ||
      now.bank >= params.banksPerGroup)
    return report(now, "names a bank that does not exist");

  // (0) A command bus carries one command in a tick: one of a channel's own, or of two channels one for rows and one for columns.
  const uint32_t bus = params.rowColumnBuses ? now.channel / 2 * 2 + isColumn(now.kind) : now.channel;
  if (auto last = lastOnBus.find(bus); last != lastOnBus.end() && last->second.tick == now.tick)
    report(now, std::string("in one tick with ") + nameOf(last->second.kind) + " of channel " +
                    std::to_string(last->second.channel) + " on one command bus");
  lastOnBus[bus] = now;

  Channel &channel = channels[now.channel];
  checkDistances(channel, now);
  checkActivates(channel, now);
  checkBanks(channel, now);
  checkRefreshes(channel, now);
  checkDataBus(channel, now);
}

std::vector<std::string> checkDramLog(const DramParams &params, const DramCommandLog &log, size_t limit) {
  DramChecker checker(params, limit);
  for (const DramCommand &command : log)
    if (checker.violations().size() < limit)
      checker.add(command);
  return checker.violations();
}

} // namespace tw::dramcheck
