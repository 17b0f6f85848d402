//===- DramWindowed.cpp - First ready, first come, first served -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/DramWindowed.h"

#include <cassert>

namespace tw::timing {

WindowedDram::Channel::Channel(const DramParams &params)
    : gates(params), openedIn(size_t(params.ranks) * params.bankGroups * params.banksPerGroup), seen(2 * openedIn.size()) {}

WindowedDram::WindowedDram(const DramParams &params, uint32_t clockMhz)
    : DramTiming(params.channels, params.ranks, params.bankGroups * params.banksPerGroup), params(params), map(params),
      clocks(clockMhz, params.clockMhz), capacity{params.window, std::max(1u, params.writeBufferBursts / params.channels)},
      high(std::max(1u, params.writeHighWatermark / params.channels)),
      low(std::min<size_t>(params.writeLowWatermark / params.channels, high - 1)),
      refreshInterval(params.refresh == DramRefresh::PerBank ? params.nREFIPB : params.nREFI),
      channelsPerBus(channelsOnABus(params)), state(params.channels, Channel(params)),
      commandBuses(params.channels / channelsPerBus) {
  reset();
}

void WindowedDram::reset() {
  forgetCommands();
  for (Channel &channel : state)
    channel = Channel(params);
  std::fill(commandBuses.begin(), commandBuses.end(), Buses());
  for (BusHistory &bus : buses)
    bus.clear();
}

void WindowedDram::log(DramCommandKind kind, uint64_t tick, const DramLocation &at) { note(tick, kind, at); }

std::optional<DramCompletion> WindowedDram::submit(const DramRequest &request) {
  DramLocation at = map.locate(request.address);
  Channel &channel = state[at.channel];
  uint64_t arrival = clocks.tickAtOrAfter(request.arrivalCycle);
  assert((channel.behind.empty() || channel.behind.back().since <= arrival) && "requests come in order of arrival");
  channel.behind.push_back({request.id, arrival, at, request.write});
  return std::nullopt;
}

Cycle WindowedDram::nextDecisionCycle() const {
  // A column decided in tick t moves no data before t + dataAfter, and needs no decision before the cycle t lies in.
  uint64_t dataAfter = std::min(params.nCL, params.nCWL);
  uint64_t first = kNever;
  for (const Channel &channel : state) {
    // What has not been looked at may be due at once; a refresh can only make it later.
    if (!isIdle(channel))
      first = std::min(first, channel.known ? channel.choice.tick : channel.now);
    first = std::min(first, enterTick(channel));
  }
  if (first == kNever)
    return kNever;
  Cycle data = clocks.cycleOf(first + dataAfter);
  return std::max(clocks.cycleOf(first), data ? data - 1 : 0);
}

void WindowedDram::advance(Cycle cycle, std::vector<DramCompletion> &completions) {
  uint64_t limit = clocks.tickAtOrAfter(cycle + 1);
  for (size_t first = 0; first < state.size(); first += channelsPerBus)
    run(first, first + channelsPerBus, limit, completions);
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// When the first of the line enters its queue, if nothing leaves that one before.
uint64_t WindowedDram::enterTick(const Channel &channel) const {
  if (channel.behind.empty() || isFull(channel, channel.behind.front().write))
    return kNever;
  return std::max({channel.behind.front().since, channel.enterAt, channel.now});
}

/// Decides every tick before `limit` for the channels [first, end), which share command buses.
void WindowedDram::run(size_t first, size_t end, uint64_t limit, std::vector<DramCompletion> &completions) {
  Buses &bus = commandBuses[first / channelsPerBus];
  for (;;) {
    // (1) The first event. In one tick: refreshes that fall due, then requests that enter, then a command, the oldest
    // request's.
    Channel *channel = nullptr;
    uint64_t tick = limit, since = 0;
    enum Event { Due, Enter, Command } event = Due;
    for (size_t i = first; i < end; ++i) {
      Channel &other = state[i];
      auto consider = [&](Event kind, uint64_t at, uint64_t age) {
        if (at > tick || (at == tick && (!channel || kind > event || (kind == event && age >= since))))
          return;
        channel = &other, tick = at, event = kind, since = age;
      };
      if (!other.known && enterTick(other) > other.now)
        choose(other, bus);
      if (other.known)
        consider(Command, other.choice.tick, other.choice.since);
      consider(Enter, enterTick(other), 0);
      if (!other.refreshing)
        consider(Due, std::max(refreshDue(other), other.now), 0);
    }
    if (!channel)
      break;
    // (2) It happens.
    channel->now = tick;
    if (event == Due) {
      startRefresh(*channel, first, end, limit);
      continue;
    }
    if (event == Enter) {
      enter(*channel, bus, tick);
      continue;
    }
    const Choice choice = channel->choice;
    channel->servesWrites = channel->chosenWrites;
    bus.freeAt[hasColumnBus(choice.step)] = tick + 1;
    for (size_t i = first; i < end; ++i)
      if (state[i].choice.tick == tick)
        state[i].known = false;
    if (!params.rowColumnBuses)
      channel->now = tick + 1;
    if (choice.from)
      issue(*channel, choice, completions);
    else
      issueRefresh(*channel, tick);
  }
  for (size_t i = first; i < end; ++i)
    state[i].now = std::max(state[i].now, limit);
}

void WindowedDram::enter(Channel &channel, const Buses &bus, uint64_t tick) {
  const Entry &first = channel.behind.front();
  Entries &queue = channel.queues[first.write];
  queue.push_back(first);
  queue.back().since = tick;
  channel.behind.pop_front();
  channel.enterAt = tick + 1;
  if (!channel.known)
    return;
  if (tick > channel.chosenFrom)
    channel.servesWrites = channel.chosenWrites;
  // The youngest request changes little in what was chosen.
  channel.chosenFrom = tick;
  if (channel.overdueAt == kNever || writesGo(channel) != channel.chosenWrites) {
    channel.known = false;
    return;
  }
  const Entry &entry = queue.back();
  if (entry.write != channel.chosenWrites || isKept(channel, entry.at))
    return;
  auto [at, step] = next(channel, entry, bus);
  if (comesBefore(at, step, channel.choice) && at < channel.overdueAt)
    channel.choice = {at, step, &queue, queue.size() - 1, tick};
}

/// Refreshes of idle channels leave no trace but the last one's; a log wants them all.
void WindowedDram::startRefresh(Channel &channel, size_t first, size_t end, uint64_t limit) {
  bool skips = !commandLog;
  uint64_t idleUntil = limit;
  for (size_t i = first; i < end && skips; ++i) {
    const Channel &other = state[i];
    skips = isIdle(other);
    for (uint32_t rank = 0; rank < params.ranks; ++rank)
      skips &= !other.gates.anyOpen(rank);
    idleUntil = std::min(idleUntil, enterTick(other));
  }
  if (skips && idleUntil > refreshDue(channel))
    channel.round += (idleUntil - 1 - refreshDue(channel)) / refreshInterval;
  channel.now = std::max(channel.now, refreshDue(channel));
  channel.refreshing = true;
  channel.refreshRank = 0;
  channel.known = false;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Whether a request of a queue, younger than what gave `best`, goes before it. Where both can go in one tick, the column does
/// first, so that no row is closed before a column that is legal.
bool WindowedDram::comesBefore(uint64_t tick, Step step, const Choice &best) const {
  if (tick != best.tick)
    return tick < best.tick;
  return params.rowColumnBuses && step == Column && best.step != Column;
}

/// Whether the bank is refreshed next, or its open row is another request's.
bool WindowedDram::isKept(const Channel &channel, const DramLocation &at) const {
  return isRefreshed(channel, at) || (channel.openedIn[at.flatBank] && !channel.gates.isHit(at));
}

/// Whether writes are served, as the queues are now.
bool WindowedDram::writesGo(const Channel &channel) const {
  const Entries &reads = channel.queues[false], &writes = channel.queues[true];
  if (channel.servesWrites)
    return writes.size() > low || reads.empty();
  return !writes.empty() && (writes.size() >= high || reads.empty());
}

bool WindowedDram::isRefreshed(const Channel &channel, const DramLocation &at) const {
  if (!channel.refreshing || at.rank != channel.refreshRank)
    return false;
  return params.refresh == DramRefresh::AllBank || at.flatBank == bankOf(channel).flatBank;
}

/// The next command of the refresh: once every request whose row has been opened is done, a precharge, if a row is open,
/// and then the refresh.
WindowedDram::Choice WindowedDram::refreshStep(const Channel &channel) const {
  Choice choice;
  choice.step = Refresh;
  if (!channel.refreshing)
    return choice;
  const DramGates &gates = channel.gates;
  for (const Entry &entry : channel.opened)
    if (isRefreshed(channel, entry.at))
      return choice;
  if (params.refresh == DramRefresh::AllBank) {
    const uint32_t rank = channel.refreshRank;
    choice.tick = gates.anyOpen(rank) ? gates.prechargeAllReady(rank) : gates.refreshReady(rank);
  } else {
    const DramLocation at = bankOf(channel);
    choice.tick = gates.isOpen(at) ? gates.prechargeReady(at) : gates.bankRefreshReady(at);
  }
  return choice;
}

/// What a request needs, and when that is legal.
inline std::pair<uint64_t, WindowedDram::Step> WindowedDram::next(const Channel &channel, const Entry &entry,
                                                                  const Buses &bus) const {
  const DramGates &gates = channel.gates;
  if (gates.isHit(entry.at))
    return {std::max({gates.columnReady(entry.at, entry.write), channel.now, bus.freeAt[hasColumnBus(Column)]}), Column};
  const uint64_t free = std::max(channel.now, bus.freeAt[0]);
  if (gates.isOpen(entry.at))
    return {std::max(gates.prechargeReady(entry.at), free), Precharge};
  return {std::max(gates.activateReady(entry.at), free), Activate};
}

void WindowedDram::choose(Channel &channel, const Buses &bus) {
  channel.known = true;
  channel.chosenFrom = channel.now;
  channel.chosenWrites = writesGo(channel);
  channel.overdueAt = kNever;
  Choice &best = channel.choice;
  best = refreshStep(channel);
  const bool refreshWaits = channel.refreshing && best.tick == kNever;
  if (best.tick != kNever)
    best.tick = std::max({best.tick, channel.now, bus.freeAt[0]});
  if (isIdle(channel))
    return;
  auto take = [&](Entries &from, size_t index, uint64_t tick, Step step) {
    best = {tick, step, &from, index, from[index].since};
  };

  // (1) Requests whose row has been opened, before the refresh.
  for (size_t i = 0; i < channel.opened.size(); ++i)
    if (auto [tick, step] = next(channel, channel.opened[i], bus); tick < best.tick || (tick == best.tick && !best.from))
      take(channel.opened, i, tick, step);
  if (refreshWaits || (best.tick == channel.now && !params.rowColumnBuses))
    return;

  // (2) The oldest request that is not done. Once it has waited for too long, only its commands go.
  Entries *oldest = nullptr;
  for (Entries *entries : {&channel.opened, &channel.queues[0], &channel.queues[1]})
    for (const Entry &entry : *entries) {
      if (entry.since + params.ageCapTicks < channel.overdueAt)
        channel.overdueAt = entry.since + params.ageCapTicks, oldest = entries;
      if (entries != &channel.opened)
        break; // the others are younger
    }

  // (3) Requests of the queue. Of those that hit in a bank only the oldest counts, and of those that miss.
  Entries &queue = channel.queues[channel.chosenWrites];
  ++channel.look;
  for (size_t i = 0; i < queue.size(); ++i) {
    const DramLocation &at = queue[i].at;
    uint64_t &seen = channel.seen[2 * at.flatBank + channel.gates.isHit(at)];
    if (seen == channel.look)
      continue;
    seen = channel.look;
    if (isKept(channel, at))
      continue;
    auto [tick, step] = next(channel, queue[i], bus);
    if (!comesBefore(tick, step, best) || tick >= channel.overdueAt)
      continue;
    take(queue, i, tick, step);
    if (tick == channel.now && (step == Column || !params.rowColumnBuses))
      return; // nothing is better, and the rest is younger
  }
  if (!oldest || oldest == &channel.opened || best.tick < channel.overdueAt || isKept(channel, (*oldest)[0].at))
    return;
  auto [tick, step] = next(channel, (*oldest)[0], bus);
  tick = std::max(tick, channel.overdueAt);
  if (comesBefore(tick, step, best))
    take(*oldest, 0, tick, step);
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void WindowedDram::issue(Channel &channel, const Choice &choice, std::vector<DramCompletion> &completions) {
  Entries &from = *choice.from;
  const Entry entry = from[choice.entry];
  const uint32_t bank = entry.at.flatBank;
  if (choice.step == Precharge) {
    channel.gates.issuePrecharge(entry.at, choice.tick);
    return log(DramCommandKind::Precharge, choice.tick, entry.at);
  }
  // The request leaves; its place is free from the next tick on.
  if (&from != &channel.opened && isFull(channel, entry.write))
    channel.enterAt = std::max(channel.enterAt, choice.tick + 1);
  from.erase(from.begin() + ptrdiff_t(choice.entry));
  if (choice.step == Activate) {
    channel.gates.issueActivate(entry.at, choice.tick);
    channel.opened.push_back(entry);
    channel.openedIn[bank] = true;
    return log(DramCommandKind::Activate, choice.tick, entry.at);
  }
  if (&from == &channel.opened)
    channel.openedIn[bank] = false;
  const uint64_t busStart = channel.gates.issueColumn(entry.at, entry.write, choice.tick);
  log(entry.write ? DramCommandKind::Write : DramCommandKind::Read, choice.tick, entry.at);
  DramCompletion completion;
  completion.id = entry.id;
  completion.channel = entry.at.channel;
  completion.enteredCycle = clocks.cycleOf(entry.since);
  completion.busStartCycle = clocks.cycleOf(busStart);
  completion.busEndCycle = clocks.cycleAtOrAfter(busStart + params.nBurst);
  completion.completionCycle = completion.busEndCycle + params.pathLatencyCycles;
  buses[entry.at.channel].add(completion.busStartCycle, completion.busEndCycle);
  completions.push_back(completion);
}

void WindowedDram::issueRefresh(Channel &channel, uint64_t tick) {
  DramGates &gates = channel.gates;
  if (params.refresh == DramRefresh::AllBank) {
    DramLocation at;
    at.channel = number(channel);
    at.rank = channel.refreshRank;
    if (gates.anyOpen(at.rank)) {
      gates.issuePrechargeAll(at.rank, tick);
      return log(DramCommandKind::PrechargeAll, tick, at);
    }
    gates.issueRefresh(at.rank, tick);
    log(DramCommandKind::Refresh, tick, at);
  } else {
    const DramLocation at = bankOf(channel);
    if (gates.isOpen(at)) {
      gates.issuePrecharge(at, tick);
      return log(DramCommandKind::Precharge, tick, at);
    }
    gates.issueBankRefresh(at, tick);
    log(DramCommandKind::RefreshBank, tick, at);
  }
  if (++channel.refreshRank == params.ranks) {
    channel.refreshing = false;
    ++channel.round;
  }
}

} // namespace tw::timing
