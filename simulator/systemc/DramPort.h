//===- DramPort.h - Who uses the DRAM when ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_DRAMPORT_H
#define SIMULATOR_SYSTEMC_DRAMPORT_H

#include "simulator/systemc/DramController.h"

#include <tlm_utils/simple_initiator_socket.h>

#include <deque>

namespace tw::systemc {

/// One way to DRAM for load engines, program fetch and the write buffer that collects what stores post. One of them is
/// granted at a time and keeps the grant while it has a request in every cycle, for at most grant_bursts.
///
/// The port works ahead of time up to the next wake-up of any other module, so a grant costs one wake-up at most;
/// requests still reach the controller in the order of cycles.
class DramPort : public sc_core::sc_module, public DramPortIf {
public:
  static constexpr unsigned kReaders = stats::kMaxLoadEngines + 1; ///< loads by unit, then fetch
  static constexpr unsigned kFetch = stats::kMaxLoadEngines;

  sc_core::sc_export<DramPortIf> clients;
  tlm_utils::simple_initiator_socket<DramPort> socket;
  sc_core::sc_port<DramControllerIf> controller;
  /// Named ports in the place of an array, so that the order of binding does not matter.
  sc_core::sc_vector<sc_core::sc_port<DramReaderIf>> readers;
  sc_core::sc_vector<sc_core::sc_port<DramWriterIf>> writers;

  DramPort(sc_core::sc_module_name name, Timebase &timebase);
  ~DramPort() override;
  void reset(RunContext &context);
  void changed() override;
  /// First cycle in which the write buffer is empty for good. Precondition: nothing is left to do.
  Cycle emptyAt() const { return bufferEmptyAt; }

private:
  /// Requesters in the order of the search: writes that must go, loads, fetch, writes that may go.
  static constexpr unsigned kDrain = 0, kFirstReader = 1, kIdleDrain = kFirstReader + kReaders, kRequesters = kIdleDrain + 1;
  static constexpr unsigned kNobody = kRequesters;

  void end_of_elaboration() override;
  void run(Cycle now);
  /// The next cycle in which anything happens here, if no other module acts before.
  Cycle nextStep() const;
  void step(Cycle cycle);
  /// Looks again at what a client asks for.
  void lookAtReader(unsigned client) { readAt[client] = reader[client] ? reader[client]->nextRequest() : kNever; }
  void lookAtWriter(unsigned client) {
    offerAt[client] = writer[client] ? writer[client]->nextOffer() : kNever;
    nextOffer = *std::min_element(offerAt.begin(), offerAt.end());
  }
  Cycle requestAt(unsigned requester) const;
  unsigned choose(Cycle cycle);
  void issue(unsigned requester, Cycle cycle);
  void complete(uint64_t id, Cycle cycle, unsigned channel);
  bool full() const { return bufferCount >= context->machine->dram.writeBufferBursts; }

  RunContext *context = nullptr;
  const Timebase &timebase;
  Alarm alarm;
  DramControllerIf *dram = nullptr;
  std::array<DramReaderIf *, kReaders> reader{};
  std::array<DramWriterIf *, stats::kMaxStoreEngines> writer{};
  std::array<Cycle, kReaders> readAt{};                 ///< nextRequest() of each reader
  std::array<Cycle, stats::kMaxStoreEngines> offerAt{}; ///< nextOffer() of each writer
  Cycle nextOffer = kNever;                             ///< the first of them
  tlm::tlm_generic_payload payload;
  BurstExtension *burst;
  std::vector<timing::DramCompletion> decided;

  Cycle nextCycle = 0; ///< the first cycle that has not been stepped
  unsigned holder = kNobody;
  uint32_t held = 0; ///< bursts of the current grant
  Cycle lastIssue = 0;
  std::vector<Cycle> usedIn; ///< by channel: the last cycle with a request; only where a cycle may have several

  // Reads.
  std::array<uint64_t, kReaders> readCount{};
  uint64_t readsUndecided = 0;
  Cycle lastRead = 0; ///< latest known arrival of any read

  // The write buffer: entries are taken in order and freed in order.
  std::deque<uint64_t> waiting; ///< addresses of bursts that are not submitted
  struct Write {
    uint64_t id;
    Cycle freeAt; ///< kNever until the controller has decided
  };
  std::deque<Write> submitted;
  uint64_t bufferCount = 0; ///< entries in use: waiting and submitted
  uint64_t writeCount = 0;
  timing::Watermarks marks;
  bool draining = false;
  Cycle bufferEmptyAt = 0;
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_DRAMPORT_H
