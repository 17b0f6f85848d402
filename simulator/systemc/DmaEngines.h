//===- DmaEngines.h - Load and store engines --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_DMAENGINES_H
#define SIMULATOR_SYSTEMC_DMAENGINES_H

#include "simulator/systemc/Engine.h"

#include <deque>

namespace tw::systemc {

/// DRAM to scratchpad. Several boxes may be on the way: the next one begins as soon as the request side has walked this
/// one.
class LoadEngine : public Engine, public DramReaderIf {
public:
  sc_core::sc_export<DramReaderIf> reader;
  sc_core::sc_port<DramPortIf> dram;

  LoadEngine(sc_core::sc_module_name name, unsigned number);
  void reset(RunContext &context) override;

  Cycle nextRequest() const override { return cutter.done() ? kNever : recurrence.requestAt(); }
  uint64_t address() const override { return cutter.address(); }
  void requested(Cycle cycle) override;
  void completed(uint64_t burst, Cycle cycle, unsigned channel) override;

protected:
  Cycle begin(const Entry &entry, const InFlight &inFlight) override;

private:
  struct BoxInFlight {
    InFlight inFlight;
    Cycle walkFrom = 0;
    uint64_t leadingFills = 0;
    bool filled = false;
    uint64_t endBurst = kNever; ///< one past its last burst; known once that is requested
  };
  struct Arrival {
    Cycle cycle = kNever;
    unsigned channel = 0;
  };
  Arrival &arrivalOf(uint64_t burst) { return arrivals[burst & (arrivals.size() - 1)]; }
  /// Moves what has arrived, in order, and retires what is complete.
  void advance();

  timing::BurstCutter cutter; ///< of the youngest box
  timing::LoadRecurrence recurrence;
  std::deque<BoxInFlight> boxes;
  std::vector<Arrival> arrivals; ///< of the last N bursts at least, by burst number modulo a power of two
};

/// Scratchpad to DRAM, one box at a time.
class StoreEngine : public Engine, public DramWriterIf {
public:
  sc_core::sc_export<DramWriterIf> writer;
  sc_core::sc_port<DramPortIf> dram;

  StoreEngine(sc_core::sc_module_name name, unsigned number);
  void reset(RunContext &context) override;

  Cycle nextOffer() const override { return offerAt; }
  uint64_t address() const override { return burst.address; }
  void accepted(Cycle cycle) override;

protected:
  Cycle begin(const Entry &entry, const InFlight &inFlight) override;

private:
  void gatherNext();

  timing::BurstCutter cutter;
  timing::StoreRecurrence recurrence;
  timing::BoxBurst burst;
  InFlight box;
  Cycle firstGather = 0, offerAt = kNever, nextAccept = 0;
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_DMAENGINES_H
