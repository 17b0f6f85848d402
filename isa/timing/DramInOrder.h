//===- DramInOrder.h - Columns in the order of arrival ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes of a channel are done in the order
// of arrival; rows are opened ahead for the requests that wait behind. Since
// nothing that comes later can change an access, its completion is known at once.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DRAMINORDER_H
#define ISA_TIMING_DRAMINORDER_H

#include "isa/timing/DramGates.h"

namespace tw::timing {

/// One command in each tick: which ticks are taken, from the last that was forgotten on.
class CommandBus {
public:
  /// The first free tick from `tick`, which is not forgotten.
  uint64_t free(uint64_t tick) const {
    for (uint64_t index = (tick >> 6) - first; index < words.size(); ++index) {
      if (const uint64_t bits = ~words[index] >> (tick & 63))
        return tick + uint64_t(__builtin_ctzll(bits));
      tick = (tick | 63) + 1;
    }
    return tick;
  }
  void take(uint64_t tick) {
    const uint64_t index = (tick >> 6) - first;
    if (index >= words.size())
      words.resize(index + 1);
    words[index] |= 1ull << (tick & 63);
  }
  /// Nobody asks for earlier ticks any more.
  void forgetBefore(uint64_t tick) {
    for (; first < tick >> 6 && !words.empty(); ++first)
      words.pop_front();
    first = std::max(first, tick >> 6);
  }

private:
  std::deque<uint64_t> words; ///< a bit for each tick
  uint64_t first = 0;         ///< number of the first word
};

class InOrderDram final : public DramTiming {
public:
  InOrderDram(const DramParams &params, uint32_t clockMhz);

  std::optional<DramCompletion> submit(const DramRequest &request) override;
  Cycle nextDecisionCycle() const override { return kNever; }
  /// Only refreshes are left to decide.
  void advance(Cycle cycle, std::vector<DramCompletion> &) override;
  void reset() override;
  uint32_t channelOf(uint64_t address) const override { return map.channel(address); }

private:
  struct Channel {
    explicit Channel(const DramParams &params) : gates(params), lookAhead(params.window) {}
    DramGates gates;
    uint64_t lastColumn = 0;         ///< or the last refresh of all banks
    bool started = false;            ///< lastColumn holds a command
    uint64_t round = 1;              ///< of refresh, due at as many refresh intervals
    std::vector<uint64_t> lookAhead; ///< column ticks of the last `window` requests
    size_t oldest = 0;
  };
  /// Command buses: of row commands and of column commands. One bus for all commands counts as the first.
  struct Buses {
    CommandBus of[2];
  };
  CommandBus &bus(uint32_t channel, bool column) {
    return commandBuses[channel / channelsPerBus].of[params.rowColumnBuses && column];
  }
  uint64_t refreshDue(const Channel &channel) const { return channel.round * refreshInterval; }
  uint64_t schedule(Channel &channel, const DramLocation &at, bool write, uint64_t arrival);
  void refresh(uint32_t channelNumber, uint64_t arrival);
  void log(DramCommandKind kind, uint64_t tick, const DramLocation &at);

  DramParams params;
  DramAddressMap map;
  ClockRatio clocks;
  uint64_t refreshInterval;
  uint32_t channelsPerBus;
  std::vector<Channel> state;
  std::vector<Buses> commandBuses;
};

} // namespace tw::timing

#endif // ISA_TIMING_DRAMINORDER_H
