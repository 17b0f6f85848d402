//===- DramInOrder.h - Columns in the order of arrival ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The default controller. Reads and writes of a channel are done in the order
// of arrival; rows are opened ahead for the requests that wait behind. Since
// nothing that comes later can change an access, its completion is known at once.
//===----------------------------------------------------------------------===//
#ifndef ISA_TIMING_DRAMINORDER_H
#define ISA_TIMING_DRAMINORDER_H

#include "isa/timing/DramGates.h"

namespace tw::timing {

/// One command in each tick: which ticks of the recent past and the near future are taken.
class CommandBus {
public:
  CommandBus() : words(kWords) {}
  /// The first free tick from `tick`.
  uint64_t free(uint64_t tick) const {
    while (taken(tick))
      ++tick;
    return tick;
  }
  void take(uint64_t tick) {
    Word &word = words[(tick >> 6) % kWords];
    if (word.number != tick >> 6)
      word = {tick >> 6, 0};
    word.bits |= 1ull << (tick & 63);
  }
  void reset() { std::fill(words.begin(), words.end(), Word()); }

  /// Ticks whose commands are remembered, back from the latest taken.
  static constexpr uint64_t kReach = 1 << 15;

private:
  static constexpr size_t kWords =
      1024; ///< twice kReach, so that what lies ahead does not displace it
  struct Word {
    uint64_t number = kNever, bits = 0;
  };
  bool taken(uint64_t tick) const {
    const Word &word = words[(tick >> 6) % kWords];
    return word.number == tick >> 6 && (word.bits >> (tick & 63) & 1);
  }
  std::vector<Word> words;
};

class InOrderDram final : public DramTiming {
public:
  InOrderDram(const DramParams &params, uint32_t clockMhz);

  std::optional<DramCompletion> submit(const DramRequest &request) override;
  Cycle nextDecisionCycle() const override { return kNever; }
  void advance(Cycle, std::vector<DramCompletion> &) override {}
  void reset() override;
  uint32_t channelOf(uint64_t address) const override {
    return map.channel(address);
  }

private:
  struct Channel {
    explicit Channel(const DramParams &params)
        : gates(params), bus(), lookAhead(params.window) {}
    DramGates gates;
    CommandBus bus;
    uint64_t lastColumn =
        0; ///< or the last refresh: every command so far is at or before it
    bool started = false; ///< lastColumn holds a command
    uint64_t nextRefresh = 0;
    std::vector<uint64_t>
        lookAhead; ///< column ticks of the last `window` requests
    size_t oldest = 0;
  };
  uint64_t schedule(Channel &channel, const DramLocation &at, bool write,
                    uint64_t arrival);
  void refresh(Channel &channel, uint32_t channelNumber, uint64_t arrival);
  void log(DramCommandKind kind, uint64_t tick, const DramLocation &at);

  DramParams params;
  DramAddressMap map;
  ClockRatio clocks;
  std::vector<Channel> state;
};

} // namespace tw::timing

#endif // ISA_TIMING_DRAMINORDER_H
