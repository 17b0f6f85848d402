//===- Dram.h - DRAM timing by timestamp arithmetic -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times of DRAM accesses without a clock: a controller computes the tick of
// every command from the ticks of the commands before it. Arithmetic is in DRAM
// ticks; a request's arrival is rounded up to a tick, its completion up to an
// accelerator cycle.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DRAM_H
#define ISA_TIMING_DRAM_H

#include "isa/timing/DramCounts.h"
#include "isa/timing/MachineParams.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <ostream>
#include <vector>

namespace tw::timing {

constexpr uint64_t kNever = ~0ull;

/// One access of burstBytes.
struct DramRequest {
  uint64_t id = 0;
  uint64_t address = 0; ///< any byte of the burst; addresses wrap at the DRAM's capacity
  bool write = false;
  Cycle arrivalCycle = 0;
};

/// When an access is over. A read's data are visible, and a write's buffer entry is free, in `completionCycle`.
/// The access's data are on its channel's data bus in the cycles [busStartCycle, busEndCycle).
struct DramCompletion {
  uint64_t id = 0;
  Cycle completionCycle = 0, busStartCycle = 0, busEndCycle = 0;
  Cycle enteredCycle = 0; ///< in which the controller began to look at the request
  uint32_t channel = 0;
};

enum class DramCommandKind : uint8_t { Activate, Precharge, PrechargeAll, Read, Write, Refresh, RefreshBank };

/// One command on the command bus of a channel; the fields a command does not use are 0.
struct DramCommand {
  uint64_t tick = 0;
  DramCommandKind kind = DramCommandKind::Activate;
  uint32_t channel = 0, rank = 0, bankGroup = 0, bank = 0, row = 0, column = 0;
};
using DramCommandLog = std::vector<DramCommand>;

struct DramLocation;
/// The command with those fields of `at` that its kind uses.
DramCommand commandAt(uint64_t tick, DramCommandKind kind, const DramLocation &at);

/// Sorts by tick and channel. Controllers log a command when they decide it, which is not the order of ticks.
void sortCommands(DramCommandLog &log);

/// Writes a sorted log in the columns of DRAMsim3's command trace: tick, command, channel, rank, bank group, bank, row,
/// column; `precharge_all` is ours.
void writeCommands(std::ostream &out, const DramCommandLog &log);

/// Where a burst lies. `flatBank` numbers the banks of a channel: (rank, bank group, bank).
struct DramLocation {
  uint32_t channel = 0, rank = 0, bankGroup = 0, bank = 0, flatBank = 0, row = 0, column = 0;
};

/// The bits of an address; see DramParams::interleaveBankGroups for their order.
class DramAddressMap {
public:
  explicit DramAddressMap(const DramParams &params);
  DramLocation locate(uint64_t address) const {
    uint64_t burst = address >> burstShift;
    DramLocation at;
    at.channel = uint32_t(burst) & channelMask;
    at.bankGroup = uint32_t(burst >> groupShift) & groupMask;
    at.bank = uint32_t(burst >> bankShift) & bankMask;
    at.rank = uint32_t(burst >> rankShift) & rankMask;
    at.column = uint32_t(burst >> columnShift) & columnMask;
    at.row = uint32_t(burst >> rowShift) & rowMask;
    at.flatBank = (at.rank << rankToFlat) | (at.bankGroup << groupToFlat) | at.bank;
    return at;
  }
  uint32_t channel(uint64_t address) const { return uint32_t(address >> burstShift) & channelMask; }
  /// The first byte of a burst: the inverse of locate().
  uint64_t address(const DramLocation &at) const;

private:
  unsigned burstShift, groupShift, bankShift, rankShift, columnShift, rowShift, rankToFlat, groupToFlat;
  uint32_t channelMask, groupMask, bankMask, rankMask, columnMask, rowMask;
};

/// Divides by a number known beforehand with a multiplication.
class Divider {
public:
  explicit Divider(uint64_t divisor) : divisor(divisor), reciprocal(~0ull / divisor) {}
  uint64_t floor(uint64_t number) const {
    // The reciprocal is rounded down, so the quotient is right or one too low.
    uint64_t quotient = uint64_t((static_cast<unsigned __int128>(number) * reciprocal) >> 64);
    return quotient + (number - quotient * divisor >= divisor);
  }

private:
  uint64_t divisor, reciprocal;
};

/// Exact conversion between accelerator cycles and DRAM ticks. Tick 0 and cycle 0 begin together.
class ClockRatio {
public:
  ClockRatio(uint32_t cycleMhz, uint32_t tickMhz);
  /// The first tick that begins at or after the cycle.
  uint64_t tickAtOrAfter(Cycle cycle) const { return byCycles.floor(cycle * ticks + cycles - 1); }
  /// The first cycle that begins at or after the tick.
  Cycle cycleAtOrAfter(uint64_t tick) const { return byTicks.floor(tick * cycles + ticks - 1); }
  /// The cycle in which the tick begins.
  Cycle cycleOf(uint64_t tick) const { return byTicks.floor(tick * cycles); }

private:
  uint64_t cycles,
      ticks; ///< so many cycles take as long as so many ticks; no common factor
  Divider byCycles, byTicks;
};

/// When one data bus moves data, in cycles. Knows at least the last kReach cycles before the latest interval.
class BusHistory {
public:
  static constexpr Cycle kReach = 1 << 20;

  /// `start` never before the last interval's start.
  void add(Cycle start, Cycle end) {
    if (start <= latest.end) {
      latest.end = std::max(latest.end, end);
      return;
    }
    intervals.push_back(latest);
    latest = {start, end};
    if (intervals.size() >= trimAt)
      trim();
  }
  /// Busy cycles in [from, to).
  uint64_t busyCycles(Cycle from, Cycle to) const;
  void clear();

private:
  struct Interval {
    Cycle start = 0, end = 0;
  };
  void trim();
  std::vector<Interval> intervals; ///< all but the latest
  Interval latest;
  size_t trimAt = 4096;
};

/// A DRAM and its controller. All calls are in non-decreasing cycles; requests of one cycle count in the order of submit.
/// For any implementation a caller does this: submit requests in their arrival cycle; act on the completions that come
/// back, then or later; call advance(nextDecisionCycle()) when that cycle's requests have all been submitted.
class DramTiming {
public:
  virtual ~DramTiming() = default;

  /// The completion, if it follows from the requests so far; else advance() will return it.
  virtual std::optional<DramCompletion> submit(const DramRequest &request) = 0;

  /// The cycle whose advance() must not be missed: decisions left until then cannot put data on a bus, or complete, in
  /// an earlier cycle. kNever if nothing waits.
  virtual Cycle nextDecisionCycle() const = 0;

  /// Decides everything up to the end of `cycle`; no later request may arrive in it. Appends completions, each in a
  /// later cycle, in the order of their decisions.
  virtual void advance(Cycle cycle, std::vector<DramCompletion> &completions) = 0;

  /// Back to time 0 with every bank closed; the command log is left alone.
  virtual void reset() = 0;

  uint32_t channels() const { return uint32_t(buses.size()); }
  virtual uint32_t channelOf(uint64_t address) const = 0;

  /// How many of the cycles [from, to) `channel`'s data bus moves something in. Exact for to <= the current cycle and
  /// from within BusHistory::kReach of it.
  uint64_t busBusyCycles(uint32_t channel, Cycle from, Cycle to) const { return buses[channel].busyCycles(from, to); }
  bool busBusy(uint32_t channel, Cycle cycle) const { return busBusyCycles(channel, cycle, cycle + 1) != 0; }

  /// Commands are appended to `log` from now on; null stops that. An ideal memory has no commands.
  void setCommandLog(DramCommandLog *log) { commandLog = log; }

  /// Activates of all channels that are decided so far; an ideal memory has none.
  uint64_t activates() const { return activateCount; }
  /// The same of what each channel and bank did.
  const std::vector<DramChannelCounts> &counts() const { return channelCounts; }

protected:
  explicit DramTiming(uint32_t channels, uint32_t ranks = 1, uint32_t banksPerRank = 1)
      : buses(channels), banksPerRank(banksPerRank), rows(size_t(channels) * ranks * banksPerRank), channelCounts(channels) {
    for (DramChannelCounts &channel : channelCounts)
      channel.banks.resize(size_t(ranks) * banksPerRank);
  }
  /// Counts a command, and logs it if somebody wants the log.
  void note(uint64_t tick, DramCommandKind kind, const DramLocation &at) {
    count(kind, at);
    if (commandLog)
      commandLog->push_back(commandAt(tick, kind, at));
  }
  /// An access of a memory without rows.
  void noteAccess(bool write) {
    DramBankCounts &bank = channelCounts[0].banks[0];
    ++(write ? bank.writes : bank.reads);
  }
  void forgetCommands();
  std::vector<BusHistory> buses;
  DramCommandLog *commandLog = nullptr;

private:
  /// Commands of a bank come in the order of their ticks.
  void count(DramCommandKind kind, const DramLocation &at);

  struct RowState {
    bool isNew = false;  ///< no column has used the open row
    bool hadRow = false; ///< another row was closed for this one
  };
  uint32_t banksPerRank;
  std::vector<RowState> rows; ///< by channel and flatBank
  std::vector<DramChannelCounts> channelCounts;
  uint64_t activateCount = 0;
};

/// A fixed rate, then a fixed latency: bursts pass one after the other, each taking burstBytes / bytesPerCycle.
class IdealDram final : public DramTiming {
public:
  explicit IdealDram(const DramParams &params);
  std::optional<DramCompletion> submit(const DramRequest &request) override;
  Cycle nextDecisionCycle() const override { return kNever; }
  void advance(Cycle, std::vector<DramCompletion> &) override {}
  void reset() override;
  uint32_t channelOf(uint64_t) const override { return 0; }

private:
  // Time is counted in parts of a cycle, `partsPerCycle` to each, in which a burst takes a whole number.
  uint64_t partsPerCycle, partsPerBurst, latency;
  Divider byParts;
  uint64_t busFree = 0;
};

/// The memory of a machine: ideal, in-order or windowed.
std::unique_ptr<DramTiming> makeDram(const MachineParams &machine);

/// How many writes make the drain of the port's write buffer start, and at how many it ends.
struct Watermarks {
  uint32_t high = 1, low = 0;
};

/// Those of the machine; but writes go to a windowed controller at once, which has queues of its own for them: of two places that wait
/// for a watermark one would starve the other.
Watermarks portWatermarks(const DramParams &params);

struct Ratio {
  uint64_t numerator = 0, denominator = 1;
};

/// Bytes per accelerator cycle that the data buses of all channels can move, refresh not counted.
Ratio dramPeakBytesPerCycle(const MachineParams &machine);

/// The part of the time in which refreshes keep the data buses idle: none of an ideal DRAM, nor where one bank is refreshed while the
/// others move data.
double dramRefreshShare(const DramParams &dram);

/// Accelerator cycles from a read's arrival at an idle DRAM, with another row open, to its data.
uint64_t dramConflictLatencyCycles(const MachineParams &machine);

/// The same with no row open; of an ideal DRAM to the begin of its data. What estimates count on.
double dramTypicalLatencyCycles(const MachineParams &machine);

/// Bytes per accelerator cycle that one load engine moves at most, as far as latency limits it: all bursts that it may have in flight, once in
/// each dramTypicalLatencyCycles(). What estimates count on.
double loadBytesPerCycle(const MachineParams &machine);

/// Bursts one DMA engine must have in flight to use the DRAM's peak rate, or its own issue rate if that is lower.
uint64_t littlesLawBursts(const MachineParams &machine);

} // namespace tw::timing

#endif // ISA_TIMING_DRAM_H
