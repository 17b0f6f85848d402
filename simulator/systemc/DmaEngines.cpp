//===- DmaEngines.cpp - Load and store engines ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/DmaEngines.h"

namespace tw::systemc {

using stats::Track;

LoadEngine::LoadEngine(sc_core::sc_module_name name, unsigned number) : Engine(name, number), reader("reader"), dram("dram") {
  reader.bind(*this);
}

void LoadEngine::reset(RunContext &run) {
  Engine::reset(run);
  cutter = timing::BurstCutter();
  recurrence.reset(run.machine->outstandingBursts, run.machine->burstsPerCycle);
  boxes.clear();
  size_t places = 1;
  while (places < run.machine->outstandingBursts)
    places *= 2;
  arrivals.assign(places, Arrival());
}

Cycle LoadEngine::begin(const Entry &entry, const InFlight &inFlight) {
  assert(cutter.done() && "the box before has bursts left to ask for");
  cutter = timing::BurstCutter(timing::boxOf(entry.instruction.as<isa::Load>()), context->machine->dram.burstBytes);
  BoxInFlight box;
  box.inFlight = inFlight;
  box.walkFrom = inFlight.start + context->machine->timing.dma_setup_cycles;
  box.leadingFills = cutter.leadingFills();
  recurrence.begin(box.walkFrom, box.leadingFills);
  if (cutter.done()) {
    box.endBurst = recurrence.requested();
    setIssueFree(inFlight, std::max(inFlight.start + 1, recurrence.walkedUpTo()));
  }
  boxes.push_back(box);
  if (!cutter.done())
    dram->changed();
  advance();
  return kNever;
}

void LoadEngine::requested(Cycle cycle) {
  BoxInFlight &box = boxes.back();
  recurrence.request(cycle, cutter.next().segments);
  track().issue(cycle, box.inFlight.layer);
  const uint64_t bytes = context->machine->dram.burstBytes;
  context->result.dramReadBytes += bytes;
  context->result.layer(box.inFlight.layer).dramReadBytes += bytes;
  if (cutter.done()) {
    box.endBurst = recurrence.requested();
    setIssueFree(box.inFlight, std::max(box.inFlight.start + 1, recurrence.walkedUpTo()));
  }
}

void LoadEngine::completed(uint64_t burst, Cycle cycle, unsigned channel) {
  arrivalOf(burst) = {cycle, channel};
  if (burst == recurrence.arrived())
    advance();
}

void LoadEngine::advance() {
  while (!boxes.empty()) {
    BoxInFlight &box = boxes.front();
    const uint32_t layer = box.inFlight.layer;
    if (!box.filled) {
      box.filled = true;
      if (box.leadingFills) {
        const Cycle waitFrom = std::max(recurrence.writtenUpTo(), box.inFlight.start);
        const Cycle last = recurrence.fill(box.walkFrom, box.leadingFills);
        track().dramWait(waitFrom, recurrence.lastBegin(), Track::kNoChannel, layer);
        track().move(recurrence.lastBegin(), last + 1, layer);
      }
    }
    while (recurrence.arrived() < std::min(box.endBurst, recurrence.requested())) {
      Arrival &arrival = arrivalOf(recurrence.arrived());
      if (arrival.cycle == kNever)
        return;
      const Cycle waitFrom = std::max(recurrence.writtenUpTo(), box.inFlight.start);
      const Cycle last = recurrence.arrive(arrival.cycle);
      track().dramWait(waitFrom, recurrence.lastArrival() + 1, arrival.channel, layer);
      track().move(recurrence.lastBegin(), last + 1, layer);
      arrival.cycle = kNever;
    }
    if (recurrence.arrived() != box.endBurst)
      return;
    const Cycle lastWrite = recurrence.writtenUpTo() - 1;
    const InFlight inFlight = box.inFlight;
    boxes.pop_front();
    retire(inFlight, lastWrite + context->machine->timing.dma_drain_cycles);
  }
}

StoreEngine::StoreEngine(sc_core::sc_module_name name, unsigned number) : Engine(name, number), writer("writer"), dram("dram") {
  writer.bind(*this);
}

void StoreEngine::reset(RunContext &run) {
  Engine::reset(run);
  cutter = timing::BurstCutter();
  recurrence.reset(run.machine->outstandingBursts, run.machine->burstsPerCycle);
  offerAt = kNever;
  nextAccept = 0;
}

Cycle StoreEngine::begin(const Entry &entry, const InFlight &inFlight) {
  cutter = timing::BurstCutter(timing::boxOf(entry.instruction.as<isa::Store>()), context->machine->dram.burstBytes);
  box = inFlight;
  firstGather = inFlight.start + context->machine->timing.dma_setup_cycles;
  track().dramWait(inFlight.start, firstGather, Track::kNoChannel, inFlight.layer);
  gatherNext();
  dram->changed();
  return kNever;
}

void StoreEngine::gatherNext() {
  burst = cutter.next();
  const Cycle last = recurrence.gather(firstGather, burst.segments);
  track().move(recurrence.lastBegin(), last + 1, box.layer);
  offerAt = last + 1;
}

void StoreEngine::accepted(Cycle cycle) {
  recurrence.accept(cycle);
  // Bursts gathered ahead wait behind the one before.
  track().full(std::max(offerAt, nextAccept), cycle, stats::kNoEngine, box.layer);
  track().issue(cycle, box.layer);
  nextAccept = cycle + 1;
  const uint64_t bytes = context->machine->dram.burstBytes;
  context->result.dramWriteBytes += bytes;
  context->result.layer(box.layer).dramWriteBytes += bytes;
  if (!cutter.done()) {
    gatherNext();
    return;
  }
  offerAt = kNever;
  setIssueFree(box, cycle + 1);
  retire(box, cycle + context->machine->timing.dma_drain_cycles);
}

} // namespace tw::systemc
