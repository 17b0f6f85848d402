//===- Machine.cpp - All modules of the model and their wiring ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/Machine.h"

#include "simulator/core/FaultText.h"

namespace tw::systemc {

Machine::Machine(bool reversed) {
  std::vector<std::function<void()>> makers = {
      [&] { host = std::make_unique<Host>("host", timebase); },
      [&] { sequencer = std::make_unique<Sequencer>("sequencer", timebase); },
      [&] { arbiter = std::make_unique<StartArbiter>("arbiter", timebase); },
      [&] { semaphores = std::make_unique<SemaphoreUnit>("semaphores"); },
      [&] { memories = std::make_unique<Memories>("memories"); },
      [&] { port = std::make_unique<DramPort>("port", timebase); },
      [&] { dram = std::make_unique<DramController>("dram"); },
  };
  for (unsigned number = 0; number < engines.size(); ++number)
    makers.push_back([this, number] {
      const std::string name = stats::engineName(number);
      switch (stats::engineKind(number)) {
      case timing::EngineKind::Store:
        engines[number] = std::make_unique<StoreEngine>(name.c_str(), number);
        return;
      case timing::EngineKind::Vector:
        engines[number] = std::make_unique<VectorEngine>(name.c_str(), number);
        return;
      case timing::EngineKind::Tensor:
        engines[number] = std::make_unique<TensorEngine>(name.c_str(), number);
        return;
      case timing::EngineKind::Preload:
        engines[number] = std::make_unique<PreloadEngine>(name.c_str(), number);
        return;
      default:
        engines[number] = std::make_unique<LoadEngine>(name.c_str(), number);
        return;
      }
    });
  if (reversed)
    std::reverse(makers.begin(), makers.end());
  for (const std::function<void()> &make : makers)
    make();
  bind();
}

void Machine::bind() {
  host->registers.bind(sequencer->socket);
  sequencer->dram.bind(port->clients);
  sequencer->controller.bind(dram->decisions);
  sequencer->host.bind(host->control);
  arbiter->semaphores.bind(semaphores->counts);
  arbiter->memories.bind(memories->access);
  arbiter->host.bind(host->control);
  semaphores->arbiter.bind(arbiter->wakeUp);
  semaphores->host.bind(host->control);
  memories->arbiter.bind(arbiter->wakeUp);
  memories->host.bind(host->control);
  port->socket.bind(dram->socket);
  port->controller.bind(dram->decisions);
  port->readers[DramPort::kFetch].bind(sequencer->fetch);
  for (unsigned number = 0; number < engines.size(); ++number) {
    Engine &engine = *engines[number];
    engine.arbiter.bind(arbiter->wakeUp);
    engine.semaphores.bind(semaphores->counts);
    engine.memories.bind(memories->access);
    engine.sequencer.bind(sequencer->slots);
    engine.host.bind(host->control);
    sequencer->queues[number].bind(engine.queue);
    arbiter->engines.bind(engine.control);
    const unsigned unit = stats::engineUnit(number);
    if (LoadEngine *load = dynamic_cast<LoadEngine *>(&engine)) {
      load->dram.bind(port->clients);
      port->readers[unit].bind(load->reader);
    } else if (StoreEngine *store = dynamic_cast<StoreEngine *>(&engine)) {
      store->dram.bind(port->clients);
      port->writers[unit].bind(store->writer);
    }
  }
}

std::string Machine::deadlock(uint64_t &pc, unsigned &first) {
  std::vector<core::WaitingHead> heads;
  first = stats::kSequencer;
  pc = sequencer->position();
  for (unsigned number = 0; number < engines.size(); ++number) {
    const Entry *entry = engines[number]->head();
    if (!entry)
      continue;
    if (first == stats::kSequencer) {
      first = number;
      pc = entry->pc;
    }
    core::WaitingHead head;
    head.engine = stats::engineName(number);
    head.pc = entry->pc;
    if (entry->layer != stats::kNoLayer)
      head.layer = context->program->layers[entry->layer].name;
    head.instruction = &entry->instruction;
    head.missingWait = semaphores->missing(entry->instruction.header);
    if (head.missingWait >= 0)
      head.count = semaphores->count(static_cast<unsigned>(entry->instruction.header.wait_semaphore[head.missingWait]));
    heads.push_back(std::move(head));
  }
  return core::deadlockText(heads, sequencer->waiting());
}

void Machine::run(RunContext &run) {
  context = &run;
  run.result.layers.resize(run.program->layers.size());
  for (size_t i = 0; i < run.program->layers.size(); ++i)
    run.result.layers[i].name = run.program->layers[i].name;

  dram->reset(run);
  port->reset(run);
  sequencer->reset(run);
  arbiter->reset(run);
  semaphores->reset(run);
  memories->reset(run);
  for (const std::unique_ptr<Engine> &engine : engines)
    engine->reset(run);
  host->reset(run);
  host->launch();

  const Cycle limit = run.options.maxCycles;
  timebase.run(limit);
  stats::SimResult &result = run.result;
  const bool finished = !result.fault && timebase.next() == kNever;
  if (finished && !host->complete()) {
    uint64_t pc = 0;
    unsigned first = 0;
    const std::string text = deadlock(pc, first);
    result.fault = host->conclude(core::FaultKind::Deadlock, first, pc, host->standstill(), text);
  }
  // As in hardware: a fault shows in the cycle after it, and the end in cycle total_cycles.
  const Cycle end = std::max(host->lastRetirement(), port->emptyAt()) + run.machine->timing.done_cycles;
  if (result.fault ? result.fault->cycle >= limit : !finished || end > limit)
    result.fault = host->conclude(core::FaultKind::LimitReached, stats::kSequencer, sequencer->position(), limit,
                                  "the program is not finished");
  if (result.fault) {
    result.totalCycles = result.fault->cycle;
    for (const std::unique_ptr<Engine> &engine : engines)
      engine->obstacle(result.totalCycles, Obstacle());
  } else {
    result.totalCycles = end;
    result.writesDone = port->emptyAt();
  }
  finish(run);
  // A program that was stopped leaves events behind, and another model may run next.
  timebase.silence();
}

void Machine::finish(RunContext &run) {
  stats::SimResult &result = run.result;
  result.dramActivates = dram->activates();
  result.dram = dram->counts();
  for (unsigned number = 0; number < stats::kNumEngines; ++number) {
    if (!stats::hasEngine(*run.machine, number))
      continue;
    result.engines.push_back(
        stats::resolve(run.tracks[number], number, result.totalCycles, result.channels, run.options.trace, result));
    result.engines.back().instructions = run.instructions[number];
    result.instructionCount += run.instructions[number];
  }
  if (!result.fault && run.followsPath()) {
    // The end comes behind the last write to DRAM, or behind the last retirement.
    const stats::Path &last = port->emptyAt() >= host->lastRetirement() ? run.lastWrite : run.lastEvent;
    std::vector<stats::PathStep> steps = last.steps(result.totalCycles);
    for (const stats::PathStep &step : steps)
      result.layer(step.layer).critical += step.end - step.begin;
    result.hasLayerCauses = true;
    if (run.options.trace)
      result.criticalPath = std::move(steps);
  }
  if (!run.options.trace)
    result.channels.clear();
}

} // namespace tw::systemc
