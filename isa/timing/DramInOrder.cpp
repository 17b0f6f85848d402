//===- DramInOrder.cpp - Columns in the order of arrival --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/DramInOrder.h"

namespace tw::timing {

InOrderDram::InOrderDram(const DramParams &params, uint32_t clockMhz)
    : DramTiming(params.channels, params.ranks, params.bankGroups * params.banksPerGroup), params(params), map(params),
      clocks(clockMhz, params.clockMhz),
      refreshInterval(params.refresh == DramRefresh::PerBank ? params.nREFIPB : params.nREFI),
      channelsPerBus(channelsOnABus(params)), state(params.channels, Channel(params)),
      commandBuses(params.channels / channelsPerBus) {}

void InOrderDram::reset() {
  forgetCommands();
  for (Channel &channel : state)
    channel = Channel(params);
  std::fill(commandBuses.begin(), commandBuses.end(), Buses());
  for (BusHistory &bus : buses)
    bus.clear();
}

void InOrderDram::log(DramCommandKind kind, uint64_t tick, const DramLocation &at) { note(tick, kind, at); }

/// The refresh of the current round, no earlier than it is due: of every rank, all banks or one. All columns of the channel so far
/// lie before that tick, and with them all its commands.
void InOrderDram::refresh(uint32_t channelNumber, uint64_t arrival) {
  Channel &channel = state[channelNumber];
  DramGates &gates = channel.gates;
  CommandBus &rowBus = bus(channelNumber, false);
  const uint64_t due = refreshDue(channel);
  auto issue = [&](DramCommandKind kind, uint64_t ready, const DramLocation &at) {
    const uint64_t tick = rowBus.free(std::max(due, ready));
    rowBus.take(tick);
    log(kind, tick, at);
    return tick;
  };
  DramLocation at;
  at.channel = channelNumber;
  bool open = false;
  if (params.refresh == DramRefresh::AllBank) {
    for (at.rank = 0; at.rank < params.ranks; ++at.rank)
      if (gates.anyOpen(at.rank))
        gates.issuePrechargeAll(at.rank, issue(DramCommandKind::PrechargeAll, gates.prechargeAllReady(at.rank), at));
    for (at.rank = 0; at.rank < params.ranks; ++at.rank) {
      const uint64_t tick = issue(DramCommandKind::Refresh, gates.refreshReady(at.rank), at);
      gates.issueRefresh(at.rank, tick);
      channel.lastColumn = std::max(channel.lastColumn, tick);
    }
    channel.started = true;
  } else {
    for (uint32_t rank = 0; rank < params.ranks; ++rank) {
      at = refreshedBank(params, channelNumber, rank, channel.round);
      if (gates.isOpen(at))
        gates.issuePrecharge(at, issue(DramCommandKind::Precharge, gates.prechargeReady(at), at));
      gates.issueBankRefresh(at, issue(DramCommandKind::RefreshBank, gates.bankRefreshReady(at), at));
      open |= gates.anyOpen(rank);
    }
  }
  ++channel.round;
  // Refreshes of a channel with closed rows leave no trace but the last one's; a log wants them all.
  if (!commandLog && !open && arrival > refreshDue(channel))
    channel.round += (arrival - refreshDue(channel)) / refreshInterval;
}

/// The tick of the request's column command; issues it and what must go before it.
uint64_t InOrderDram::schedule(Channel &channel, const DramLocation &at, bool write, uint64_t arrival) {
  DramGates &gates = channel.gates;
  CommandBus &rowBus = bus(at.channel, false), &columnBus = bus(at.channel, true);
  for (;;) {
    uint64_t afterLast = channel.started ? channel.lastColumn + 1 : 0;
    uint64_t column = std::max({arrival, afterLast, gates.columnReadyButBank(at, write)});
    uint64_t precharge = kNever, activate = kNever;
    if (gates.isHit(at)) {
      column = std::max(column, gates.bankColumnReady(at, write));
    } else {
      // The request is looked at once it is among the oldest `window`.
      uint64_t early = std::max(arrival, channel.lookAhead[channel.oldest]);
      uint64_t ready = std::max(early, gates.bankActivateReady(at));
      if (gates.isOpen(at)) {
        precharge = rowBus.free(std::max(early, gates.prechargeReady(at)));
        ready = precharge + params.nRP;
      }
      activate = rowBus.free(std::max(ready, gates.activateReadyButBank(at)));
      column = std::max(column, activate + (write ? params.nRCDWR : params.nRCDRD));
    }
    column = columnBus.free(column);
    if (column >= refreshDue(channel)) {
      refresh(at.channel, arrival);
      continue;
    }
    if (precharge != kNever) {
      gates.issuePrecharge(at, precharge);
      rowBus.take(precharge);
      log(DramCommandKind::Precharge, precharge, at);
    }
    if (activate != kNever) {
      gates.issueActivate(at, activate);
      rowBus.take(activate);
      log(DramCommandKind::Activate, activate, at);
    }
    columnBus.take(column);
    log(write ? DramCommandKind::Write : DramCommandKind::Read, column, at);
    channel.lastColumn = column;
    channel.started = true;
    channel.lookAhead[channel.oldest] = column;
    if (++channel.oldest == channel.lookAhead.size())
      channel.oldest = 0;
    return column;
  }
}

void InOrderDram::advance(Cycle cycle, std::vector<DramCompletion> &) {
  const uint64_t last = clocks.tickAtOrAfter(cycle + 1) - 1;
  for (uint32_t channel = 0; channel < params.channels; ++channel)
    while (refreshDue(state[channel]) <= last)
      refresh(channel, last);
}

std::optional<DramCompletion> InOrderDram::submit(const DramRequest &request) {
  DramLocation at = map.locate(request.address);
  Channel &channel = state[at.channel];
  uint64_t arrival = clocks.tickAtOrAfter(request.arrivalCycle);
  // Refreshes that are due find their ticks on the command buses first; then nobody asks for ticks before the arrival any more.
  const uint32_t first = at.channel / channelsPerBus * channelsPerBus;
  for (uint32_t other = first; other < first + channelsPerBus; ++other)
    while (refreshDue(state[other]) <= arrival)
      refresh(other, arrival);
  for (CommandBus &bus : commandBuses[at.channel / channelsPerBus].of)
    bus.forgetBefore(arrival);
  DramCompletion completion;
  completion.id = request.id;
  completion.channel = at.channel;
  completion.enteredCycle = std::max(request.arrivalCycle, clocks.cycleOf(channel.lookAhead[channel.oldest]));
  uint64_t column = schedule(channel, at, request.write, arrival);
  uint64_t busStart = channel.gates.issueColumn(at, request.write, column);
  completion.busStartCycle = clocks.cycleOf(busStart);
  completion.busEndCycle = clocks.cycleAtOrAfter(busStart + params.nBurst);
  completion.completionCycle = completion.busEndCycle + params.pathLatencyCycles;
  buses[at.channel].add(completion.busStartCycle, completion.busEndCycle);
  return completion;
}

} // namespace tw::timing
