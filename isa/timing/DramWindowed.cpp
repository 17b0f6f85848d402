//===- DramWindowed.cpp - First ready, first come, first served -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/DramWindowed.h"

#include <cassert>

namespace tw::timing {

WindowedDram::WindowedDram(const DramParams &params, uint32_t clockMhz)
    : DramTiming(params.channels), params(params), map(params),
      clocks(clockMhz, params.clockMhz),
      state(params.channels, Channel(params)) {
  reset();
}

void WindowedDram::reset() {
  for (Channel &channel : state) {
    channel.gates.reset();
    channel.now = 0;
    channel.nextRefresh = params.nREFI;
    channel.window.clear();
    channel.behind.clear();
    std::fill(channel.hits.begin(), channel.hits.end(), 0);
  }
  for (BusHistory &bus : buses)
    bus.clear();
}

void WindowedDram::log(DramCommandKind kind, uint64_t tick,
                       const DramLocation &at) {
  if (!commandLog)
    return;
  bool column = kind == DramCommandKind::Read || kind == DramCommandKind::Write;
  bool row = column || kind == DramCommandKind::Activate;
  commandLog->push_back({tick, kind, at.channel, at.rank, at.bankGroup, at.bank,
                         row ? at.row : 0, column ? at.column : 0});
}

std::optional<DramCompletion> WindowedDram::submit(const DramRequest &request) {
  DramLocation at = map.locate(request.address);
  Channel &channel = state[at.channel];
  uint64_t arrival = clocks.tickAtOrAfter(request.arrivalCycle);
  assert((channel.behind.empty() || channel.behind.back().arrival <= arrival) &&
         "requests come in order of arrival");
  channel.behind.push_back({request.id, arrival, at, request.write});
  return std::nullopt;
}

Cycle WindowedDram::nextDecisionCycle() const {
  // A column decided in tick t moves no data before t + dataAfter, and needs no decision before the cycle t lies in.
  uint64_t dataAfter = std::min(params.nCL, params.nCWL);
  uint64_t first = kNever;
  for (const Channel &channel : state) {
    if (!channel.window.empty())
      first = std::min(first, channel.now);
    else if (!channel.behind.empty())
      first = std::min(first,
                       std::max(channel.now, channel.behind.front().arrival));
  }
  if (first == kNever)
    return kNever;
  Cycle data = clocks.cycleOf(first + dataAfter);
  return std::max(clocks.cycleOf(first), data ? data - 1 : 0);
}

void WindowedDram::advance(Cycle cycle,
                           std::vector<DramCompletion> &completions) {
  uint64_t limit = clocks.tickAtOrAfter(cycle + 1);
  for (Channel &channel : state)
    run(channel, limit, completions);
}

/// Decides every tick before `limit`.
void WindowedDram::run(Channel &channel, uint64_t limit,
                       std::vector<DramCompletion> &completions) {
  while (channel.now < limit) {
    // (1) Requests that have arrived enter the window.
    while (channel.window.size() < params.window && !channel.behind.empty() &&
           channel.behind.front().arrival <= channel.now) {
      channel.window.push_back(channel.behind.front());
      channel.window.back().arrival = channel.now;
      channel.behind.pop_front();
      const DramLocation &at = channel.window.back().at;
      channel.hits[at.flatBank] += channel.gates.isHit(at);
    }
    // (2) The next thing to happen is a command or another arrival.
    Choice choice = choose(channel);
    uint64_t arrival =
        channel.window.size() < params.window && !channel.behind.empty()
            ? channel.behind.front().arrival
            : kNever;
    uint64_t event = std::min(choice.tick, arrival);
    // (3) A refresh that is due goes before both.
    if (channel.nextRefresh <= event && channel.nextRefresh < limit) {
      refresh(channel, uint32_t(&channel - state.data()),
              std::min(event, limit));
      continue;
    }
    if (event >= limit) {
      channel.now = limit;
      return;
    }
    if (arrival <= choice.tick) {
      channel.now = arrival;
      continue;
    }
    issue(channel, choice, completions);
    channel.now = choice.tick + 1;
  }
}

/// What the request needs, when rank, group and bus (`channel.ready`) and its bank allow it.
WindowedDram::Choice WindowedDram::next(const Channel &channel,
                                        size_t index) const {
  const Entry &entry = channel.window[index];
  const Channel::GroupReady &ready = channel.ready[groupOf(entry.at)];
  Choice choice;
  choice.entry = index;
  if (channel.gates.isHit(entry.at)) {
    choice.step = Column;
    choice.tick = std::max(channel.gates.bankColumnReady(entry.at),
                           entry.write ? ready.write : ready.read);
  } else if (!channel.gates.isOpen(entry.at)) {
    choice.step = Activate;
    choice.tick =
        std::max(channel.gates.bankActivateReady(entry.at), ready.activate);
  } else {
    choice.step = Precharge;
    choice.tick = channel.gates.prechargeReady(entry.at);
  }
  choice.tick = std::max(choice.tick, channel.now);
  return choice;
}

WindowedDram::Choice WindowedDram::choose(Channel &channel) const {
  Choice best;
  if (channel.window.empty())
    return best;
  DramLocation group;
  for (group.rank = 0; group.rank < params.ranks; ++group.rank)
    for (group.bankGroup = 0; group.bankGroup < params.bankGroups;
         ++group.bankGroup)
      channel.ready[groupOf(group)] = {
          channel.gates.columnReadyButBank(group, false),
          channel.gates.columnReadyButBank(group, true),
          channel.gates.activateReadyButBank(group)};
  // Of the requests that miss in a bank only the oldest counts, and none while another hits there.
  ++channel.look;
  bool oldestBlocked = false;
  for (size_t i = 0; i < channel.window.size(); ++i) {
    const DramLocation &at = channel.window[i].at;
    if (!channel.gates.isHit(at)) {
      if (channel.hits[at.flatBank]) {
        oldestBlocked |= i == 0;
        continue;
      }
      if (channel.seen[at.flatBank] == channel.look)
        continue;
      channel.seen[at.flatBank] = channel.look;
    }
    Choice choice = next(channel, i);
    if (choice.tick < best.tick ||
        (choice.tick == best.tick && choice.step < best.step))
      best = choice;
    if (best.tick == channel.now && best.step == Column)
      break; // nothing is better, and the rest is younger
  }
  uint64_t overdue = channel.window[0].arrival + params.ageCapTicks;
  if (best.tick < overdue)
    return best;
  Choice oldest = next(channel, 0);
  if (oldestBlocked)
    oldest.tick = std::max(oldest.tick, overdue);
  return oldest;
}

void WindowedDram::issue(Channel &channel, const Choice &choice,
                         std::vector<DramCompletion> &completions) {
  const Entry entry = channel.window[choice.entry];
  switch (choice.step) {
  case Activate:
    channel.gates.issueActivate(entry.at, choice.tick);
    channel.hits[entry.at.flatBank] = uint32_t(std::count_if(
        channel.window.begin(), channel.window.end(), [&](const Entry &other) {
          return other.at.flatBank == entry.at.flatBank &&
                 other.at.row == entry.at.row;
        }));
    return log(DramCommandKind::Activate, choice.tick, entry.at);
  case Precharge:
    channel.gates.issuePrecharge(entry.at, choice.tick);
    channel.hits[entry.at.flatBank] = 0;
    return log(DramCommandKind::Precharge, choice.tick, entry.at);
  case Column:
    break;
  }
  uint64_t busStart =
      channel.gates.issueColumn(entry.at, entry.write, choice.tick);
  log(entry.write ? DramCommandKind::Write : DramCommandKind::Read, choice.tick,
      entry.at);
  --channel.hits[entry.at.flatBank];
  channel.window.erase(channel.window.begin() + ptrdiff_t(choice.entry));
  DramCompletion completion;
  completion.id = entry.id;
  completion.channel = entry.at.channel;
  completion.busStartCycle = clocks.cycleOf(busStart);
  completion.busEndCycle = clocks.cycleAtOrAfter(busStart + params.nBurst);
  completion.completionCycle =
      completion.busEndCycle + params.pathLatencyCycles;
  buses[entry.at.channel].add(completion.busStartCycle, completion.busEndCycle);
  completions.push_back(completion);
}

/// Closes every bank and refreshes every rank. Nothing that arrives meanwhile can change that.
void WindowedDram::refresh(Channel &channel, uint32_t channelNumber,
                           uint64_t idleUntil) {
  uint64_t next = std::max(channel.now, channel.nextRefresh);
  DramLocation at;
  at.channel = channelNumber;
  for (at.rank = 0; at.rank < params.ranks; ++at.rank) {
    if (!channel.gates.anyOpen(at.rank))
      continue;
    uint64_t tick = std::max(next, channel.gates.prechargeAllReady(at.rank));
    channel.gates.issuePrechargeAll(at.rank, tick);
    log(DramCommandKind::PrechargeAll, tick, at);
    next = tick + 1;
  }
  for (at.rank = 0; at.rank < params.ranks; ++at.rank) {
    uint64_t tick = std::max(next, channel.gates.refreshReady(at.rank));
    channel.gates.issueRefresh(at.rank, tick);
    log(DramCommandKind::Refresh, tick, at);
    next = tick + 1;
  }
  std::fill(channel.hits.begin(), channel.hits.end(), 0);
  channel.now = next;
  channel.nextRefresh += params.nREFI;
  // Refreshes of an idle channel leave no trace but the last one's; a log wants them all.
  if (!commandLog && channel.window.empty() && idleUntil > channel.nextRefresh)
    channel.nextRefresh +=
        (idleUntil - channel.nextRefresh) / params.nREFI * params.nREFI;
}

} // namespace tw::timing
