//===- DramController.cpp - DRAM as a TLM-2.0 target ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/DramController.h"

#include <cstring>

namespace tw::systemc {

DramController::DramController(sc_core::sc_module_name name) : sc_module(name), socket("socket"), decisions("decisions") {
  decisions.bind(*this);
  socket.register_b_transport(this, &DramController::transport);
  socket.register_transport_dbg(this, &DramController::debug);
}

void DramController::reset(RunContext &run) {
  context = &run;
  dram = timing::makeDram(*run.machine);
  dram->setCommandLog(run.options.commands);
  run.result.channels.assign(dram->channels(), {});
}

void DramController::noteBus(const timing::DramCompletion &completion) {
  stats::addBusInterval(context->result.channels[completion.channel], completion.busStartCycle, completion.busEndCycle);
}

void DramController::advance(Cycle cycle, std::vector<timing::DramCompletion> &completions) {
  const size_t before = completions.size();
  dram->advance(cycle, completions);
  for (size_t i = before; i < completions.size(); ++i)
    noteBus(completions[i]);
}

void DramController::transport(int id, tlm::tlm_generic_payload &payload, sc_core::sc_time &delay) {
  BurstExtension *burst = payload.get_extension<BurstExtension>();
  if (burst) {
    const std::optional<timing::DramCompletion> completion =
        dram->submit({burst->id, payload.get_address(), payload.is_write(), burst->arrival});
    burst->completion = completion ? completion->completionCycle : kNever;
    if (completion) {
      burst->channel = completion->channel;
      noteBus(*completion);
    }
  }
  if (payload.get_data_ptr() && !debug(id, payload)) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return;
  }
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

unsigned DramController::debug(int id, tlm::tlm_generic_payload &payload) {
  const uint64_t address = payload.get_address(), length = payload.get_data_length(), size = context->state->dramSize();
  if (address > size || length > size - address)
    return 0;
  uint8_t *memory = context->state->dram(address + length) + address;
  if (payload.is_read())
    std::memcpy(payload.get_data_ptr(), memory, length);
  else if (payload.is_write())
    std::memcpy(memory, payload.get_data_ptr(), length);
  return static_cast<unsigned>(length);
}

} // namespace tw::systemc
