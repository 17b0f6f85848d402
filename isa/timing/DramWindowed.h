//===- DramWindowed.h - First ready, first come, first served ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A controller that looks at the oldest `window` requests of a channel and
// issues, in every tick, the best legal command: a column before an activate
// before a precharge, the oldest first. A row that a request in the window
// still wants stays open. Once the oldest request has been in the window for
// `ageCapTicks`, only its commands are issued.
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
  uint32_t channelOf(uint64_t address) const override {
    return map.channel(address);
  }

private:
  struct Entry {
    uint64_t id;
    uint64_t arrival; ///< tick; on entering the window, the tick of that
    DramLocation at;
    bool write;
  };
  struct Channel {
    explicit Channel(const DramParams &params)
        : gates(params),
          hits(size_t(params.ranks) * params.bankGroups * params.banksPerGroup),
          seen(hits.size()), ready(size_t(params.ranks) * params.bankGroups) {}
    DramGates gates;
    uint64_t now = 0; ///< everything before this tick is decided
    uint64_t nextRefresh = 0;
    std::vector<Entry> window; ///< oldest first
    std::deque<Entry> behind;  ///< requests that have not entered the window
    std::vector<uint32_t>
        hits; ///< by bank: requests in the window for its open row
    // Scratch of one look at the window.
    std::vector<uint64_t>
        seen; ///< by bank: number of the look that met a request which misses there
    uint64_t look = 0;
    struct GroupReady {
      uint64_t read, write, activate;
    };
    std::vector<GroupReady>
        ready; ///< by bank group: what rank, group and bus allow
  };
  /// What a request needs next, best first.
  enum Step { Column, Activate, Precharge };
  struct Choice {
    uint64_t tick = kNever;
    Step step = Precharge;
    size_t entry = 0;
  };

  void run(Channel &channel, uint64_t limit,
           std::vector<DramCompletion> &completions);
  Choice choose(Channel &channel) const;
  Choice next(const Channel &channel, size_t entry) const;
  size_t groupOf(const DramLocation &at) const {
    return size_t(at.rank) * params.bankGroups + at.bankGroup;
  }
  void issue(Channel &channel, const Choice &choice,
             std::vector<DramCompletion> &completions);
  void refresh(Channel &channel, uint32_t channelNumber, uint64_t idleUntil);
  void log(DramCommandKind kind, uint64_t tick, const DramLocation &at);

  DramParams params;
  DramAddressMap map;
  ClockRatio clocks;
  std::vector<Channel> state;
};

} // namespace tw::timing

#endif // ISA_TIMING_DRAMWINDOWED_H
