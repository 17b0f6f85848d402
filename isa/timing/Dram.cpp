//===- Dram.cpp - DRAM timing by timestamp arithmetic -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "isa/timing/Dram.h"

#include "isa/timing/DramInOrder.h"
#include "isa/timing/DramWindowed.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <numeric>
#include <tuple>

namespace tw::timing {

static uint64_t ceilDivide(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

//===----------------------------------------------------------------------===//
// Command log
//===----------------------------------------------------------------------===//

DramCommand commandAt(uint64_t tick, DramCommandKind kind, const DramLocation &at) {
  bool column = kind == DramCommandKind::Read || kind == DramCommandKind::Write;
  bool row = column || kind == DramCommandKind::Activate;
  return {tick, kind, at.channel, at.rank, at.bankGroup, at.bank, row ? at.row : 0, column ? at.column : 0};
}

void sortCommands(DramCommandLog &log) {
  std::stable_sort(log.begin(), log.end(), [](const DramCommand &a, const DramCommand &b) {
    return std::tie(a.tick, a.channel) < std::tie(b.tick, b.channel);
  });
}

void writeCommands(std::ostream &out, const DramCommandLog &log) {
  static const char *const names[] = {"activate", "precharge", "precharge_all", "read", "write", "refresh", "refresh_bank"};
  for (const DramCommand &command : log) {
    char line[128];
    std::snprintf(line, sizeof line, "%-18llu %-20s %3u %3u %3u %3u %#8x %#8x\n", static_cast<unsigned long long>(command.tick),
                  names[size_t(command.kind)], command.channel, command.rank, command.bankGroup, command.bank, command.row,
                  command.column);
    out << line;
  }
}

//===----------------------------------------------------------------------===//
// Address map and clocks
//===----------------------------------------------------------------------===//

static unsigned log2Of(uint64_t number) {
  assert(number && !(number & (number - 1)) && "DRAM geometry is in powers of two");
  unsigned bits = 0;
  while (number >>= 1)
    ++bits;
  return bits;
}

DramAddressMap::DramAddressMap(const DramParams &params) {
  uint64_t columns = params.rowBytes / params.burstBytes;
  uint64_t rows = params.capacityBytes /
                  (uint64_t(params.rowBytes) * params.channels * params.ranks * params.bankGroups * params.banksPerGroup);
  burstShift = log2Of(params.burstBytes);
  unsigned next = log2Of(params.channels);
  auto take = [&](unsigned &shift, uint64_t count) {
    shift = next;
    next += log2Of(count);
  };
  if (params.interleaveBankGroups) {
    take(groupShift, params.bankGroups);
    take(columnShift, columns);
    take(bankShift, params.banksPerGroup);
    take(rankShift, params.ranks);
  } else {
    take(columnShift, columns);
    take(rankShift, params.ranks);
    take(groupShift, params.bankGroups);
    take(bankShift, params.banksPerGroup);
  }
  take(rowShift, rows);
  channelMask = params.channels - 1;
  groupMask = params.bankGroups - 1;
  bankMask = params.banksPerGroup - 1;
  rankMask = params.ranks - 1;
  columnMask = uint32_t(columns - 1);
  rowMask = uint32_t(rows - 1);
  groupToFlat = log2Of(params.banksPerGroup);
  rankToFlat = groupToFlat + log2Of(params.bankGroups);
}

uint64_t DramAddressMap::address(const DramLocation &at) const {
  uint64_t burst = at.channel | uint64_t(at.bankGroup) << groupShift | uint64_t(at.bank) << bankShift |
                   uint64_t(at.rank) << rankShift | uint64_t(at.column) << columnShift | uint64_t(at.row) << rowShift;
  return burst << burstShift;
}

ClockRatio::ClockRatio(uint32_t cycleMhz, uint32_t tickMhz)
    : cycles(cycleMhz / std::gcd(cycleMhz, tickMhz)), ticks(tickMhz / std::gcd(cycleMhz, tickMhz)), byCycles(cycles),
      byTicks(ticks) {}

//===----------------------------------------------------------------------===//
// Data bus history
//===----------------------------------------------------------------------===//

uint64_t BusHistory::busyCycles(Cycle from, Cycle to) const {
  auto overlap = [&](const Interval &interval) {
    Cycle start = std::max(interval.start, from), end = std::min(interval.end, to);
    return end > start ? end - start : 0;
  };
  uint64_t busy = overlap(latest);
  for (auto at = intervals.rbegin(); at != intervals.rend() && at->end > from; ++at)
    busy += overlap(*at);
  return busy;
}

/// Drops what lies too far back; doing so only when the rest has doubled keeps the cost per interval constant.
void BusHistory::trim() {
  Cycle keepFrom = latest.start > kReach ? latest.start - kReach : 0;
  auto old = std::partition_point(intervals.begin(), intervals.end(),
                                  [&](const Interval &interval) { return interval.end <= keepFrom; });
  intervals.erase(intervals.begin(), old);
  trimAt = std::max<size_t>(4096, 2 * intervals.size());
}

void BusHistory::clear() {
  intervals.clear();
  latest = Interval();
  trimAt = 4096;
}

//===----------------------------------------------------------------------===//
// Ideal memory, factory, watermarks
//===----------------------------------------------------------------------===//

void DramTiming::count(DramCommandKind kind, const DramLocation &at) {
  DramChannelCounts &channel = channelCounts[at.channel];
  RowState *state = &rows[at.channel * channel.banks.size()];
  switch (kind) {
  case DramCommandKind::Activate:
    ++activateCount;
    state[at.flatBank].isNew = true;
    break;
  case DramCommandKind::Precharge:
    state[at.flatBank].hadRow = true;
    break;
  case DramCommandKind::PrechargeAll:
    break; // a refresh follows
  case DramCommandKind::Refresh:
    ++channel.refreshes;
    for (uint32_t bank = 0; bank < banksPerRank; ++bank)
      state[at.rank * banksPerRank + bank].hadRow = false;
    break;
  case DramCommandKind::RefreshBank:
    ++channel.refreshes;
    state[at.flatBank].hadRow = false;
    break;
  case DramCommandKind::Read:
  case DramCommandKind::Write: {
    DramBankCounts &bank = channel.banks[at.flatBank];
    RowState &row = state[at.flatBank];
    ++(kind == DramCommandKind::Write ? bank.writes : bank.reads);
    ++(!row.isNew ? bank.rowHits : row.hadRow ? bank.rowConflicts : bank.rowMisses);
    row.isNew = row.hadRow = false;
    break;
  }
  }
}

void DramTiming::forgetCommands() {
  activateCount = 0;
  rows.assign(rows.size(), {});
  for (DramChannelCounts &channel : channelCounts) {
    channel.refreshes = 0;
    channel.banks.assign(channel.banks.size(), {});
  }
}

IdealDram::IdealDram(const DramParams &params)
    : DramTiming(1), partsPerCycle(params.bytesPerCycleNumerator),
      partsPerBurst(uint64_t(params.burstBytes) * params.bytesPerCycleDenominator),
      latency(uint64_t(params.latencyCycles) + params.pathLatencyCycles), byParts(partsPerCycle) {}

std::optional<DramCompletion> IdealDram::submit(const DramRequest &request) {
  uint64_t start = std::max(busFree, request.arrivalCycle * partsPerCycle);
  busFree = start + partsPerBurst;
  DramCompletion completion;
  completion.id = request.id;
  completion.enteredCycle = request.arrivalCycle;
  completion.busStartCycle = byParts.floor(start);
  completion.busEndCycle = byParts.floor(busFree + partsPerCycle - 1);
  completion.completionCycle = completion.busEndCycle + latency;
  buses[0].add(completion.busStartCycle, completion.busEndCycle);
  noteAccess(request.write);
  return completion;
}

void IdealDram::reset() {
  busFree = 0;
  forgetCommands();
  buses[0].clear();
}

std::unique_ptr<DramTiming> makeDram(const MachineParams &machine) {
  if (machine.dram.kind == DramKind::Ideal)
    return std::make_unique<IdealDram>(machine.dram);
  if (machine.dram.controller == DramController::InOrder)
    return std::make_unique<InOrderDram>(machine.dram, machine.clockMhz);
  return std::make_unique<WindowedDram>(machine.dram, machine.clockMhz);
}

Watermarks portWatermarks(const DramParams &params) {
  if (params.kind != DramKind::Ideal && params.controller == DramController::Windowed)
    return {1, 0};
  return {params.writeHighWatermark, params.writeLowWatermark};
}

//===----------------------------------------------------------------------===//
// Rates
//===----------------------------------------------------------------------===//

Ratio dramPeakBytesPerCycle(const MachineParams &machine) {
  const DramParams &dram = machine.dram;
  if (dram.kind == DramKind::Ideal)
    return {dram.bytesPerCycleNumerator, dram.bytesPerCycleDenominator};
  uint64_t spacing = std::max(dram.nBurst, dram.bankGroups > 1 ? dram.nCCDS : dram.nCCDL);
  return {uint64_t(dram.channels) * dram.burstBytes * dram.clockMhz, spacing * machine.clockMhz};
}

double dramRefreshShare(const DramParams &dram) {
  if (dram.kind == DramKind::Ideal || dram.refresh == DramRefresh::PerBank)
    return 0;
  return double(dram.nRFC) / dram.nREFI;
}

uint64_t dramConflictLatencyCycles(const MachineParams &machine) {
  const DramParams &dram = machine.dram;
  if (dram.kind == DramKind::Ideal)
    return dram.pathLatencyCycles + dram.latencyCycles +
           ceilDivide(uint64_t(dram.burstBytes) * dram.bytesPerCycleDenominator, dram.bytesPerCycleNumerator);
  uint64_t ticks = dram.nRP + dram.nRCDRD + dram.nCL + dram.nBurst;
  return dram.pathLatencyCycles + ceilDivide(ticks * machine.clockMhz, dram.clockMhz);
}

double dramTypicalLatencyCycles(const MachineParams &machine) {
  const DramParams &dram = machine.dram;
  if (dram.kind == DramKind::Ideal)
    return dram.latencyCycles + dram.pathLatencyCycles;
  return double(dram.nRCDRD + dram.nCL + dram.nBurst) * machine.clockMhz / dram.clockMhz + dram.pathLatencyCycles;
}

double loadBytesPerCycle(const MachineParams &machine) {
  return double(machine.outstandingBursts) * machine.dram.burstBytes / std::max(1.0, dramTypicalLatencyCycles(machine));
}

uint64_t littlesLawBursts(const MachineParams &machine) {
  Ratio rate = dramPeakBytesPerCycle(machine);
  uint64_t latency = dramConflictLatencyCycles(machine);
  uint64_t forDram = ceilDivide(latency * rate.numerator, rate.denominator * machine.dram.burstBytes);
  return std::min(forDram, latency * machine.burstsPerCycle);
}

} // namespace tw::timing
