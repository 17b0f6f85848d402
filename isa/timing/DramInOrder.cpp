//===- DramInOrder.cpp - Columns in the order of arrival --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/DramInOrder.h"

namespace tw::timing {

InOrderDram::InOrderDram(const DramParams &params, uint32_t clockMhz)
    : DramTiming(params.channels), params(params), map(params),
      clocks(clockMhz, params.clockMhz),
      state(params.channels, Channel(params)) {
  reset();
}

void InOrderDram::reset() {
  for (Channel &channel : state) {
    channel.gates.reset();
    channel.bus.reset();
    channel.lastColumn = 0;
    channel.started = false;
    channel.nextRefresh = params.nREFI;
    std::fill(channel.lookAhead.begin(), channel.lookAhead.end(), 0);
    channel.oldest = 0;
  }
  for (BusHistory &bus : buses)
    bus.clear();
}

void InOrderDram::log(DramCommandKind kind, uint64_t tick,
                      const DramLocation &at) {
  if (!commandLog)
    return;
  bool column = kind == DramCommandKind::Read || kind == DramCommandKind::Write;
  bool row = column || kind == DramCommandKind::Activate;
  commandLog->push_back({tick, kind, at.channel, at.rank, at.bankGroup, at.bank,
                         row ? at.row : 0, column ? at.column : 0});
}

/// Closes every bank and refreshes every rank, no earlier than the refresh is due. All columns so far lie before that
/// tick, and with them all commands, so only the commands of the refresh itself compete for the command bus.
void InOrderDram::refresh(Channel &channel, uint32_t channelNumber,
                          uint64_t arrival) {
  uint64_t next = channel.nextRefresh;
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
  channel.lastColumn = next - 1;
  channel.started = true;
  channel.nextRefresh += params.nREFI;
  // Refreshes of an idle channel leave no trace but the last one's; a log wants them all.
  if (!commandLog && arrival > channel.nextRefresh)
    channel.nextRefresh +=
        (arrival - channel.nextRefresh) / params.nREFI * params.nREFI;
}

/// The tick of the request's column command; issues it and what must go before it.
uint64_t InOrderDram::schedule(Channel &channel, const DramLocation &at,
                               bool write, uint64_t arrival) {
  DramGates &gates = channel.gates;
  for (;;) {
    uint64_t afterLast = channel.started ? channel.lastColumn + 1 : 0;
    uint64_t column =
        std::max({arrival, afterLast, gates.columnReadyButBank(at, write)});
    uint64_t precharge = kNever, activate = kNever;
    if (gates.isHit(at)) {
      column = std::max(column, gates.bankColumnReady(at));
    } else {
      // The request is looked at once it is among the oldest `window`.
      uint64_t early = std::max(arrival, channel.lookAhead[channel.oldest]);
      if (afterLast > CommandBus::kReach)
        early = std::max(early, afterLast - CommandBus::kReach);
      uint64_t ready = std::max(early, gates.bankActivateReady(at));
      if (gates.isOpen(at)) {
        precharge = channel.bus.free(std::max(early, gates.prechargeReady(at)));
        ready = precharge + params.nRP;
      }
      activate =
          channel.bus.free(std::max(ready, gates.activateReadyButBank(at)));
      column = std::max(column, activate + params.nRCD);
    }
    if (column >= channel.nextRefresh) {
      refresh(channel, at.channel, arrival);
      continue;
    }
    if (precharge != kNever) {
      gates.issuePrecharge(at, precharge);
      channel.bus.take(precharge);
      log(DramCommandKind::Precharge, precharge, at);
    }
    if (activate != kNever) {
      gates.issueActivate(at, activate);
      channel.bus.take(activate);
      log(DramCommandKind::Activate, activate, at);
    }
    // No earlier command lies at or after the last column, so this tick is free.
    channel.bus.take(column);
    log(write ? DramCommandKind::Write : DramCommandKind::Read, column, at);
    channel.lastColumn = column;
    channel.started = true;
    channel.lookAhead[channel.oldest] = column;
    if (++channel.oldest == channel.lookAhead.size())
      channel.oldest = 0;
    return column;
  }
}

std::optional<DramCompletion> InOrderDram::submit(const DramRequest &request) {
  DramLocation at = map.locate(request.address);
  Channel &channel = state[at.channel];
  uint64_t column = schedule(channel, at, request.write,
                             clocks.tickAtOrAfter(request.arrivalCycle));
  uint64_t busStart = channel.gates.issueColumn(at, request.write, column);
  DramCompletion completion;
  completion.id = request.id;
  completion.channel = at.channel;
  completion.busStartCycle = clocks.cycleOf(busStart);
  completion.busEndCycle = clocks.cycleAtOrAfter(busStart + params.nBurst);
  completion.completionCycle =
      completion.busEndCycle + params.pathLatencyCycles;
  buses[at.channel].add(completion.busStartCycle, completion.busEndCycle);
  return completion;
}

} // namespace tw::timing
