//===- DramWindowed.h - First ready, first come, first served ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The controller of Ramulator 2.1, by events. The requests of a channel wait in
// one line, and enter a queue of reads or a queue of writes in that order, one
// in a tick. One kind is served at a time: writes from when they reach their
// high watermark, or no read waits, until they are at the low one. In every
// tick the best legal command goes: first the column of a request whose row was
// opened for it, then what the queue's requests need, the oldest first. A
// request leaves its queue when its row is opened for it, and that row stays
// open until it is done. Once the oldest request has waited for `ageCapTicks`,
// only its commands go, whatever is served.
//
// Channels that share command buses are decided together, tick by tick.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DRAMWINDOWED_H
#define ISA_TIMING_DRAMWINDOWED_H

#include "isa/timing/DramGates.h"

namespace tw::timing {

class WindowedDram final : public DramTiming {
public:
  WindowedDram(const DramParams &params, uint32_t clockMhz);

  std::optional<DramCompletion> submit(const DramRequest &request) override;
  Cycle nextDecisionCycle() const override;
  void advance(Cycle cycle, std::vector<DramCompletion> &completions) override;
  void reset() override;
  uint32_t channelOf(uint64_t address) const override { return map.channel(address); }

private:
  struct Entry {
    uint64_t id;
    uint64_t since; ///< tick of arrival; from entering a queue on, the tick of that
    DramLocation at;
    bool write;
  };
  using Entries = std::vector<Entry>; ///< oldest first
  /// A command for a request, or a step of a refresh.
  enum Step : uint8_t { Refresh, Column, Activate, Precharge };
  struct Choice {
    uint64_t tick = kNever;
    Step step = Precharge;
    Entries *from = nullptr; ///< the queue of the request, or `opened`; null for a refresh
    size_t entry = 0;
    uint64_t since = 0; ///< `since` of the request
  };
  struct Channel {
    explicit Channel(const DramParams &params);
    DramGates gates;
    uint64_t now = 0;              ///< every command before this tick is decided
    std::deque<Entry> behind;      ///< requests that have not entered a queue
    uint64_t enterAt = 0;          ///< the first tick in which another request may enter a queue
    Entries queues[2];             ///< of reads, and of writes
    Entries opened;                ///< requests whose row was opened for them
    std::vector<uint8_t> openedIn; ///< by bank: whether a request in `opened` uses it
    bool servesWrites = false;

    // The refresh of round n falls due at n refresh intervals: of all banks, or of one bank after the other; rank by rank.
    uint64_t round = 1;
    bool refreshing = false;
    uint32_t refreshRank = 0;

    // The next command. It is chosen anew when a queue, a bank or a bus has changed.
    bool known = false;
    Choice choice;
    uint64_t chosenFrom = 0; ///< the tick from which the choice holds
    bool chosenWrites = false;
    uint64_t overdueAt = kNever; ///< when the oldest request has waited for too long

    // Scratch of one look at a queue.
    std::vector<uint64_t> seen; ///< two for each bank: the last look that met a row miss, and a row hit
    uint64_t look = 0;
  };
  /// Command buses, with the first tick in which they are free: of row commands and of column commands. One bus for all
  /// commands counts as the first.
  struct Buses {
    uint64_t freeAt[2] = {0, 0};
  };

  uint32_t number(const Channel &channel) const { return uint32_t(&channel - state.data()); }
  bool hasColumnBus(Step step) const { return params.rowColumnBuses && step == Column; }
  bool isFull(const Channel &channel, bool write) const { return channel.queues[write].size() >= capacity[write]; }
  uint64_t refreshDue(const Channel &channel) const { return channel.round * refreshInterval; }
  /// The bank that the current round refreshes, if it is not all banks.
  DramLocation bankOf(const Channel &channel) const {
    return refreshedBank(params, number(channel), channel.refreshRank, channel.round);
  }
  bool isRefreshed(const Channel &channel, const DramLocation &at) const;
  bool isIdle(const Channel &channel) const {
    return channel.opened.empty() && channel.queues[0].empty() && channel.queues[1].empty();
  }
  uint64_t enterTick(const Channel &channel) const;
  bool writesGo(const Channel &channel) const;
  void run(size_t first, size_t end, uint64_t limit, std::vector<DramCompletion> &completions);
  void enter(Channel &channel, const Buses &bus, uint64_t tick);
  void startRefresh(Channel &channel, size_t first, size_t end, uint64_t limit);
  void choose(Channel &channel, const Buses &bus);
  Choice refreshStep(const Channel &channel) const;
  bool isKept(const Channel &channel, const DramLocation &at) const;
  bool comesBefore(uint64_t tick, Step step, const Choice &best) const;
  std::pair<uint64_t, Step> next(const Channel &channel, const Entry &entry, const Buses &bus) const;
  void issue(Channel &channel, const Choice &choice, std::vector<DramCompletion> &completions);
  void issueRefresh(Channel &channel, uint64_t tick);
  void log(DramCommandKind kind, uint64_t tick, const DramLocation &at);

  DramParams params;
  DramAddressMap map;
  ClockRatio clocks;
  size_t capacity[2]; ///< of a channel's queues
  size_t high, low;   ///< a channel's watermarks
  uint64_t refreshInterval;
  uint32_t channelsPerBus;
  std::vector<Channel> state;
  std::vector<Buses> commandBuses;
};

} // namespace tw::timing

#endif // ISA_TIMING_DRAMWINDOWED_H
