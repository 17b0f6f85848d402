//===- Engine.cpp - Queue, start and retirement of an engine --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/Engine.h"

#include "isa/timing/InstructionTiming.h"

namespace tw::systemc {

using stats::Label;

Engine::Engine(sc_core::sc_module_name name, unsigned number)
    : sc_module(name), queue("queue"), control("control"), arbiter("arbiter"), semaphores("semaphores"), memories("memories"),
      sequencer("sequencer"), host("host"), engine(number) {
  queue.bind(*this);
  control.bind(*this);
}

void Engine::reset(RunContext &run) {
  context = &run;
  slots.resize(run.machine->queueDepth);
  slotFreeAt.assign(run.machine->queueDepth, 0);
  first = last = 0;
  pushed = started = retired = 0;
  retirements.assign(run.machine->timing.dma_boxes, 0);
  issueFreeAt = obstacleSince = 0;
  current = Obstacle();
}

void Engine::push(Cycle cycle) {
  assert(slotAt() <= cycle && "dispatched to a full queue");
  const Cycle visible = cycle + context->machine->timing.dispatch_cycles;
  slots[last].visible = visible;
  slotFreeAt[last] = kNever;
  last = after(last);
  track().fed(visible);
  if (started == pushed++)
    announceHead();
  // Also for others: whose bank is missing is looked at again then.
  arbiter->wake(visible);
}

Cycle Engine::start(Cycle cycle) {
  const Entry &entry = slots[first];
  obstacle(cycle, Obstacle());
  InFlight inFlight{entry.instruction.header, entry.pc, entry.layer, entry.record, cycle};
  semaphores->take(entry);
  memories->own(engine, entry.banks);
  memories->execute(entry, engine, cycle);
  slotFreeAt[first] = cycle + context->machine->timing.queue_free_cycles;
  host->moves(slotFreeAt[first]);
  first = after(first);
  ++started;
  ++context->instructions[engine];
  if (entry.layer != stats::kNoLayer) {
    stats::LayerResult &layer = context->result.layers[entry.layer];
    if (layer.instructions++ == 0)
      layer.firstStart = cycle;
  }
  if (entry.record != kNoRecord)
    context->result.instructions[entry.record].start = cycle;
  issueFreeAt = kNever;
  announceHead();
  const Cycle retirement = begin(entry, inFlight);
  sequencer->slotFreed(engine);
  return retirement;
}

void Engine::setIssueFree(const InFlight &inFlight, Cycle cycle) {
  issueFreeAt = cycle;
  if (inFlight.record != kNoRecord)
    context->result.instructions[inFlight.record].issueFree = cycle;
  announceHead();
  arbiter->wake(cycle);
}

Cycle Engine::retire(const InFlight &inFlight, Cycle cycle) {
  if (retired)
    cycle = std::max(cycle, retirements[(retired - 1) % retirements.size()] + 1);
  // Whoever waits for room in flight does not know yet until when.
  if (retired + retirements.size() == started)
    arbiter->wake(cycle + 1);
  retirements[retired++ % retirements.size()] = cycle;
  semaphores->post(inFlight.header, cycle, engine, inFlight.pc, inFlight.record);
  memories->retire(engine, inFlight.pc, cycle);
  host->retired(cycle);
  const timing::TimingConstants &time = context->machine->timing;
  host->moves(cycle + std::max(time.semaphore_cycles, time.bank_release_cycles));
  if (inFlight.record != kNoRecord)
    context->result.instructions[inFlight.record].retire = cycle;
  if (inFlight.layer != stats::kNoLayer) {
    Cycle &last = context->result.layers[inFlight.layer].lastRetire;
    last = std::max(last, cycle);
  }
  return cycle;
}

void Engine::obstacle(Cycle cycle, Obstacle now) {
  if (now == current)
    return;
  if (current.kind != Obstacle::Kind::None) {
    stats::Interval interval{obstacleSince, cycle};
    interval.detail = current.detail;
    interval.layer = head()->layer;
    switch (current.kind) {
    case Obstacle::Kind::Operand:
      interval.label = Label::Operand;
      interval.producer = static_cast<uint16_t>(semaphores->producer(current.detail));
      break;
    case Obstacle::Kind::Interlock:
      interval.label = Label::Interlock;
      break;
    default:
      interval.label = Label::BankConflict;
      break;
    }
    track().stall(interval);
  }
  current = now;
  obstacleSince = cycle;
}

template <typename Instruction> Cycle ComputeEngine<Instruction>::begin(const Entry &entry, const InFlight &inFlight) {
  const timing::InstructionTime time = timing::timeOf(entry.instruction.as<Instruction>(), *context->machine);
  const Cycle free = inFlight.start + time.occupancy;
  track().move(inFlight.start, free, inFlight.layer);
  setIssueFree(inFlight, free);
  return retire(inFlight, free + time.drain);
}

template class ComputeEngine<isa::Preload>;
template class ComputeEngine<isa::Tensor>;
template class ComputeEngine<isa::Vector>;

} // namespace tw::systemc
