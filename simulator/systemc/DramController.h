//===- DramController.h - DRAM as a TLM-2.0 target --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_SYSTEMC_DRAMCONTROLLER_H
#define SIMULATOR_SYSTEMC_DRAMCONTROLLER_H

#include "simulator/systemc/Interfaces.h"

#include <tlm>
#include <tlm_utils/multi_passthrough_target_socket.h>

#include <memory>

namespace tw::systemc {

/// What a timed burst carries beside the generic payload.
struct BurstExtension : tlm::tlm_extension<BurstExtension> {
  uint64_t id = 0;
  Cycle arrival = 0;
  /// Filled by the controller: when the burst is over, kNever if that is not decided yet, and where it lies.
  Cycle completion = kNever;
  unsigned channel = 0;

  tlm::tlm_extension_base *clone() const override { return new BurstExtension(*this); }
  void copy_from(const tlm::tlm_extension_base &other) override { *this = static_cast<const BurstExtension &>(other); }
};

/// Contents and timing of the DRAM. A transaction with a BurstExtension is one burst of the machine; it consumes no
/// SystemC time but gets a completion cycle. One without (the host's) and debug transport only access the contents. A
/// burst without a data pointer is timing only: the data of a DMA move when its instruction is executed.
class DramController : public sc_core::sc_module, public DramControllerIf {
public:
  tlm_utils::multi_passthrough_target_socket<DramController> socket;
  sc_core::sc_export<DramControllerIf> decisions;

  explicit DramController(sc_core::sc_module_name name);
  void reset(RunContext &context);

  unsigned channelOf(uint64_t address) const override { return dram->channelOf(address); }
  Cycle nextDecision() const override { return dram->nextDecisionCycle(); }
  void advance(Cycle cycle, std::vector<timing::DramCompletion> &completions) override;
  /// Rows opened since reset().
  uint64_t activates() const { return dram->activates(); }
  const std::vector<timing::DramChannelCounts> &counts() const { return dram->counts(); }

private:
  void transport(int id, tlm::tlm_generic_payload &payload, sc_core::sc_time &delay);
  unsigned debug(int id, tlm::tlm_generic_payload &payload);
  void noteBus(const timing::DramCompletion &completion);

  RunContext *context = nullptr;
  std::unique_ptr<timing::DramTiming> dram;
};

} // namespace tw::systemc

#endif // SIMULATOR_SYSTEMC_DRAMCONTROLLER_H
