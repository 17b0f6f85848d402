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
  slotPaths.assign(run.machine->queueDepth, {});
  lastStart = {};
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

stats::Path Engine::pathTo(const Entry &entry, Cycle cycle) const {
  const timing::TimingConstants &time = context->machine->timing;
  auto afterRetirement = [&](unsigned number, Cycle delay) {
    const auto *retirement = context->retirements[number].upTo(cycle - delay);
    return retirement ? retirement->second.then(entry.layer, retirement->first) : lastStart.then(entry.layer, cycle);
  };
  switch (current.kind) {
  case Obstacle::Kind::Operand:
    return afterRetirement(semaphores->producer(current.detail), time.semaphore_cycles);
  case Obstacle::Kind::Bank:
    return afterRetirement(current.detail, time.bank_release_cycles);
  case Obstacle::Kind::Interlock:
    switch (static_cast<stats::InterlockKind>(current.detail)) {
    case stats::InterlockKind::ShadowBusy:
      return context->lastSwap.then(entry.layer, cycle - time.shadow_free_cycles);
    case stats::InterlockKind::ShadowNotReady:
      return afterRetirement(stats::kPreload, time.shadow_ready_cycles);
    case stats::InterlockKind::BoxesInFlight:
      return afterRetirement(engine, 1);
    case stats::InterlockKind::AccumulatorDistance:
      return lastStart.then(entry.layer, cycle);
    }
    break;
  case Obstacle::Kind::None:
    break;
  }
  // Nothing was missing once it was at the head: it waited for the instruction before it, or for its dispatch.
  return entry.visible < cycle ? lastStart.then(entry.layer, cycle)
                               : entry.path.then(entry.layer, cycle - time.dispatch_cycles);
}

Cycle Engine::start(Cycle cycle) {
  Entry &entry = slots[first];
  stats::Path path = context->followsPath() ? pathTo(entry, cycle) : stats::Path();
  obstacle(cycle, Obstacle());
  InFlight inFlight{entry.instruction.header, entry.pc, entry.layer, entry.record, cycle, path};
  semaphores->take(entry);
  memories->own(engine, entry.banks);
  memories->execute(entry, engine, cycle);
  slotFreeAt[first] = cycle + context->machine->timing.queue_free_cycles;
  if (context->followsPath()) {
    entry.path = {};
    slotPaths[first] = path;
    if (const isa::Tensor *tensor = entry.instruction.getIf<isa::Tensor>(); tensor && tensor->swap)
      context->lastSwap = path;
    lastStart = std::move(path);
    // Whoever waits for a retirement sees it a few cycles later.
    const timing::TimingConstants &time = context->machine->timing;
    const Cycle latest = std::max({time.semaphore_cycles, time.bank_release_cycles, time.shadow_ready_cycles, 1u});
    context->retirements[engine].forgetBefore(cycle - std::min(cycle, latest));
  }
  host->moves(slotFreeAt[first]);
  first = after(first);
  ++started;
  ++context->instructions[engine];
  stats::LayerResult &layer = context->result.layer(entry.layer);
  if (layer.instructions++ == 0)
    layer.firstStart = cycle;
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
  Cycle &last = context->result.layer(inFlight.layer).lastRetire;
  last = std::max(last, cycle);
  if (context->followsPath()) {
    stats::Path path = inFlight.path;
    // Loads return their data in order: behind a box that was under way, the time of this one begins with that one's end.
    if (stats::engineKind(engine) == timing::EngineKind::Load)
      if (const auto *before = context->retirements[engine].latest(); before && before->first > inFlight.start)
        path = before->second.then(inFlight.layer, before->first);
    if (stats::engineKind(engine) == timing::EngineKind::Store)
      context->lastWrite = path;
    if (cycle >= context->lastEventAt) {
      context->lastEvent = path;
      context->lastEventAt = cycle;
    }
    context->retirements[engine].add(cycle, std::move(path));
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
