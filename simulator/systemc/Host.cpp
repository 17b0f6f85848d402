//===- Host.cpp - Starts the machine and sees it end ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/Host.h"

#include "simulator/systemc/Sequencer.h"

#include <tuple>

namespace tw::systemc {

Host::Host(sc_core::sc_module_name name, Timebase &timebase)
    : sc_module(name), control("control"), registers("registers"), timebase(timebase),
      startAlarm(timebase, Phase::Host, [this](Cycle) { start(); }),
      faultAlarm(timebase, Phase::Fault, [this](Cycle) { stopOnFault(); }) {
  control.bind(*this);
}

void Host::reset(RunContext &run) {
  context = &run;
  startAlarm.reset();
  faultAlarm.reset();
  faults.clear();
  dispatchCount = retireCount = 0;
  isHalted = false;
  lastEvent = lastMove = 0;
}

void Host::launch() { startAlarm.at(0); }

void Host::write(uint64_t address, uint64_t value) {
  tlm::tlm_generic_payload payload;
  payload.set_command(tlm::TLM_WRITE_COMMAND);
  payload.set_address(address);
  payload.set_data_ptr(reinterpret_cast<unsigned char *>(&value));
  payload.set_data_length(sizeof value);
  payload.set_streaming_width(sizeof value);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  sc_core::sc_time delay;
  registers->b_transport(payload, delay);
  if (!payload.is_response_ok())
    SC_REPORT_ERROR("/Tilewright/host", "a control register refused a write");
}

void Host::start() {
  write(kCodeAddressRegister, context->program->codeAddress);
  write(kCodeWordsRegister, context->program->code.size());
  write(kStartRegister, 1);
}

void Host::fault(core::FaultKind kind, unsigned engine, uint64_t pc, Cycle cycle, std::string message) {
  conclude(kind, engine, pc, cycle, std::move(message));
  faultAlarm.at(cycle);
}

const core::Fault &Host::conclude(core::FaultKind kind, unsigned engine, uint64_t pc, Cycle cycle, std::string message) {
  core::Fault fault;
  fault.kind = kind;
  fault.pc = pc;
  fault.engine = stats::engineName(engine);
  fault.message = std::move(message);
  fault.cycle = cycle;
  const uint32_t layer = context->layerOf(pc);
  if (layer != stats::kNoLayer)
    fault.layer = context->program->layers[layer].name;
  faults.push_back({std::move(fault), engine});
  return faults.back().fault;
}

const core::Fault &Host::firstFault() const {
  assert(!faults.empty());
  const Candidate *first = &faults.front();
  for (const Candidate &candidate : faults)
    if (std::tie(candidate.fault.cycle, candidate.engine) < std::tie(first->fault.cycle, first->engine))
      first = &candidate;
  return first->fault;
}

void Host::stopOnFault() {
  context->result.fault = firstFault();
  timebase.stop();
}

} // namespace tw::systemc
