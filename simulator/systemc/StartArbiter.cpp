//===- StartArbiter.cpp - Decides the starts of a cycle -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/StartArbiter.h"

#include "isa/timing/InstructionTiming.h"

namespace tw::systemc {

using stats::InterlockKind;

StartArbiter::StartArbiter(sc_core::sc_module_name name, Timebase &timebase)
    : sc_module(name), wakeUp("wakeUp"), engines("engines"), semaphores("semaphores"), memories("memories"), host("host"),
      alarm(timebase, Phase::Start, [this](Cycle cycle) { evaluate(cycle); }) {
  wakeUp.bind(*this);
}

void StartArbiter::end_of_elaboration() {
  for (int i = 0; i < engines.size(); ++i)
    ordered[engines[i]->number()] = engines[i];
}

void StartArbiter::reset(RunContext &run) {
  context = &run;
  alarm.reset();
  readyAt.fill(kNever);
  shadowFull = false;
  shadowFreeAt = 0;
  shadowReadyAt = kNever;
  recentTensors.clear();
}

Obstacle StartArbiter::interlockOf(unsigned engine, const Entry &entry, Cycle cycle) {
  auto wait = [&](InterlockKind kind, Cycle until) {
    if (until != kNever)
      alarm.at(until);
    return Obstacle{Obstacle::Kind::Interlock, static_cast<uint16_t>(kind)};
  };
  switch (entry.instruction.opcode()) {
  case isa::Opcode::Preload:
    if (shadowFull || shadowFreeAt > cycle)
      return wait(InterlockKind::ShadowBusy, shadowFull ? kNever : shadowFreeAt);
    return {};
  case isa::Opcode::Tensor: {
    const isa::Tensor &tensor = entry.instruction.as<isa::Tensor>();
    if (tensor.swap && (!shadowFull || shadowReadyAt > cycle))
      return wait(InterlockKind::ShadowNotReady, shadowFull ? shadowReadyAt : kNever);
    const Cycle distance = timing::accumulatorDistance(*context->machine);
    Cycle until = 0;
    for (const TensorStart &other : recentTensors)
      if (other.begin < tensor.acc_address + tensor.acc_span && tensor.acc_address < other.end)
        until = std::max(until, other.cycle + distance);
    if (until > cycle)
      return wait(InterlockKind::AccumulatorDistance, until);
    return {};
  }
  case isa::Opcode::Load:
  case isa::Opcode::Store: {
    const Cycle room = ordered[engine]->roomAt();
    if (room > cycle)
      return wait(InterlockKind::BoxesInFlight, room);
    return {};
  }
  default:
    return {};
  }
}

Obstacle StartArbiter::obstacleOf(unsigned engine, const Entry &entry, Cycle cycle) {
  const int missing = semaphores->missing(entry.instruction.header);
  if (missing >= 0)
    return {Obstacle::Kind::Operand, static_cast<uint16_t>(entry.instruction.header.wait_semaphore[missing])};
  const Obstacle interlock = interlockOf(engine, entry, cycle);
  if (interlock.kind != Obstacle::Kind::None)
    return interlock;
  const unsigned owner = memories->ownerOf(engine, entry.banks);
  if (owner != stats::kNoEngine)
    return {Obstacle::Kind::Bank, static_cast<uint16_t>(owner)};
  return {};
}

void StartArbiter::noteStart(const Entry &entry, Cycle cycle, Cycle retirement) {
  switch (entry.instruction.opcode()) {
  case isa::Opcode::Preload:
    shadowFull = true;
    shadowReadyAt = retirement + context->machine->timing.shadow_ready_cycles;
    host->moves(shadowReadyAt);
    return;
  case isa::Opcode::Tensor: {
    const isa::Tensor &tensor = entry.instruction.as<isa::Tensor>();
    if (tensor.swap) {
      shadowFull = false;
      shadowFreeAt = cycle + context->machine->timing.shadow_free_cycles;
      alarm.at(std::max(shadowFreeAt, cycle + 1));
      host->moves(shadowFreeAt);
    }
    const Cycle distance = timing::accumulatorDistance(*context->machine);
    recentTensors.erase(std::remove_if(recentTensors.begin(), recentTensors.end(),
                                       [&](const TensorStart &other) { return other.cycle + distance <= cycle; }),
                        recentTensors.end());
    recentTensors.push_back({cycle, tensor.acc_address, tensor.acc_address + tensor.acc_span});
    host->moves(cycle + distance);
    return;
  }
  default:
    return;
  }
}

void StartArbiter::evaluate(Cycle cycle) {
  semaphores->update(cycle);
  memories->update(cycle);
  for (unsigned engine = 0; engine < ordered.size(); ++engine) {
    if (readyAt[engine] > cycle)
      continue;
    EngineIf &candidate = *ordered[engine];
    const Entry *entry = candidate.head();
    const Obstacle obstacle = obstacleOf(engine, *entry, cycle);
    if (obstacle.kind != Obstacle::Kind::None) {
      candidate.obstacle(cycle, obstacle);
      continue;
    }
    if (entry->outOfRange) {
      host->fault(core::FaultKind::OutOfRange, engine, entry->pc, cycle, *entry->outOfRange);
      return;
    }
    const Cycle retirement = candidate.start(cycle);
    noteStart(*entry, cycle, retirement);
    // A tensor instruction that needs this preload may be waiting.
    if (engine == stats::kPreload)
      alarm.at(std::max(shadowReadyAt, cycle + 1));
  }
}

} // namespace tw::systemc
