//===- Sequencer.cpp - Fetch, loops and dispatch --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/Sequencer.h"

#include "isa/Legality.h"
#include "simulator/core/FaultText.h"

#include <cstring>

namespace tw::systemc {

Sequencer::Sequencer(sc_core::sc_module_name name, Timebase &timebase)
    : sc_module(name), socket("socket"), slots("slots"), fetch("fetch"), queues("queue", stats::kSequencer), dram("dram"),
      controller("controller"), host("host"), timebase(timebase), alarm(timebase, Phase::Sequence, [this](Cycle) { run(); }) {
  slots.bind(*this);
  fetch.bind(*this);
  socket.register_b_transport(this, &Sequencer::transport);
}

void Sequencer::reset(RunContext &run) {
  context = &run;
  alarm.reset();
  codeAddress = codeWords = firstBurst = burstCount = 0;
  burstBytes = run.machine->dram.burstBytes;
  burstShift = static_cast<unsigned>(__builtin_ctzll(burstBytes));
  running = false;
  requestedBursts = arrivedBursts = 0;
  takenAt.assign(std::max(run.machine->prefetchWords, 1u), 0);
  pc = frontier = nextTake = 0;
  wordsTaken = 0;
  path = {};
  loops = core::LoopStack(run.machine->loopBufferWords);
  bodies.clear();
  straight.reset();
  wait = Wait::Nothing;
}

void Sequencer::transport(tlm::tlm_generic_payload &payload, sc_core::sc_time &delay) {
  uint64_t value = 0;
  if (!payload.is_write() || payload.get_data_length() != sizeof value) {
    payload.set_response_status(tlm::TLM_GENERIC_ERROR_RESPONSE);
    return;
  }
  std::memcpy(&value, payload.get_data_ptr(), sizeof value);
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
  switch (payload.get_address()) {
  case kCodeAddressRegister:
    codeAddress = value;
    return;
  case kCodeWordsRegister:
    codeWords = value;
    return;
  case kStartRegister:
    firstBurst = codeAddress & ~(burstBytes - 1);
    burstCount = codeWords ? burstOf(codeWords - 1) + 1 : 0;
    words.assign(codeWords, isa::Word{});
    arrivals.assign(burstCount, kNever);
    channels.assign(burstCount, 0);
    running = true;
    alarm.at(timebase.now());
    dram->changed();
    return;
  default:
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
  }
}

uint64_t Sequencer::wordsIn(uint64_t bursts) const {
  const uint64_t end = firstBurst + bursts * burstBytes;
  return end <= codeAddress ? 0 : std::min(codeWords, (end - codeAddress) / isa::kWordBytes);
}

Cycle Sequencer::nextRequest() const {
  // Not `running`: a fault is known before its cycle, and fetching goes on until then.
  if (requestedBursts == burstCount)
    return kNever;
  const Cycle first = context->machine->timing.start_cycles;
  // The FIFO must have room for every word that the burst completes; a burst larger than the FIFO needs it empty.
  const uint64_t already = wordsIn(requestedBursts), after = wordsIn(requestedBursts + 1);
  const uint64_t capacity = takenAt.size();
  const uint64_t mustBeTaken = std::min(already, after > capacity ? after - capacity : 0);
  if (mustBeTaken == 0)
    return first;
  return mustBeTaken > frontier ? kNever : std::max(first, takenAt[(mustBeTaken - 1) % capacity] + 1);
}

DramReaderIf::Destination Sequencer::destination() {
  const uint64_t codeEnd = codeAddress + codeWords * isa::kWordBytes;
  const uint64_t begin = std::max(address(), codeAddress), end = std::min(address() + burstBytes, codeEnd);
  return {reinterpret_cast<uint8_t *>(words.data()) + (begin - codeAddress), begin, static_cast<uint32_t>(end - begin)};
}

void Sequencer::requested(Cycle cycle) {
  ++requestedBursts;
  context->tracks[stats::kSequencer].issue(cycle, stats::kNoLayer);
  context->result.fetchBytes += burstBytes;
}

void Sequencer::completed(uint64_t burst, Cycle cycle, unsigned channel) {
  arrivals[burst] = cycle;
  channels[burst] = static_cast<uint16_t>(channel);
  while (arrivedBursts < requestedBursts && arrivals[arrivedBursts] != kNever) {
    if (arrivedBursts)
      arrivals[arrivedBursts] = std::max(arrivals[arrivedBursts], arrivals[arrivedBursts - 1]);
    ++arrivedBursts;
  }
  if (wait == Wait::Word) {
    const Cycle available = availableAt(pc + wordsTaken);
    if (available != kNever)
      alarm.at(available);
  }
}

void Sequencer::slotFreed(unsigned engine) {
  if (wait == Wait::Slot && waitEngine == engine)
    alarm.at(timebase.now());
}

Cycle Sequencer::availableAt(uint64_t word) const {
  if (word < frontier)
    return 0;
  const uint64_t burst = burstOf(word);
  return burst < arrivedBursts ? arrivals[burst] + context->machine->timing.fetch_cycles : kNever;
}

void Sequencer::take(uint64_t word, Cycle available, Cycle cycle) {
  stats::Track &track = context->tracks[stats::kSequencer];
  const uint32_t layer = context->layerOf(pc);
  if (word == frontier) {
    track.dramWait(nextTake, std::min(available, cycle), channels[burstOf(word)], layer);
    takenAt[frontier++ % takenAt.size()] = cycle;
  }
  track.move(cycle, cycle + 1, layer);
  if (context->followsPath())
    path = path.then(layer, nextTake);
  ++context->result.dispatchedWords;
  ++wordsTaken;
  nextTake = cycle + 1;
}

Sequencer::Body::Body(const isa::Word *words, size_t available, const timing::MachineParams &machine)
    : decoded(isa::decode(words, available)) {
  if (decoded)
    if (std::optional<std::string> why = isa::illegal(decoded.instruction, machine))
      decoded.error = std::move(*why);
}

Sequencer::Body &Sequencer::body() {
  if (loops.empty()) {
    if (!straight)
      straight.emplace(&words[pc], codeWords - pc, *context->machine);
    return *straight;
  }
  std::unique_ptr<Body> &slot = bodies[pc - bodiesBegin];
  if (!slot)
    slot = std::make_unique<Body>(&words[pc], codeWords - pc, *context->machine);
  return *slot;
}

bool Sequencer::stop(Cycle cycle, std::string message) {
  running = false;
  wait = Wait::Nothing;
  host->fault(core::FaultKind::IllegalInstruction, stats::kSequencer, pc, cycle, std::move(message));
  return false;
}

void Sequencer::finish() {
  pc = loops.next(pc + wordsTaken);
  wordsTaken = 0;
  straight.reset();
}

bool Sequencer::advance() {
  if (nextTake > context->options.maxCycles) {
    running = false;
    wait = Wait::Nothing;
    host->fault(core::FaultKind::LimitReached, stats::kSequencer, pc, context->options.maxCycles,
                "the program is not finished");
    return false;
  }
  if (pc >= codeWords)
    return stop(nextTake, "the program ends without halt");
  // The first word says how long the instruction is; only when all its words are here is it looked at.
  wait = Wait::Word;
  if (availableAt(pc) == kNever)
    return false;
  const unsigned claimed = static_cast<unsigned>(words[pc][0] >> 6) & 15;
  const unsigned length = claimed && pc + claimed <= codeWords ? claimed : 1;
  while (wordsTaken + 1 < length) {
    const Cycle available = availableAt(pc + wordsTaken);
    if (available == kNever)
      return false;
    take(pc + wordsTaken, available, std::max(nextTake, available));
  }
  const uint64_t last = pc + length - 1;
  const Cycle available = availableAt(last);
  if (available == kNever)
    return false;
  Cycle cycle = std::max(nextTake, available);
  Body &current = body();
  const isa::Instruction &instruction = current.decoded.instruction;
  if (!current.decoded)
    return stop(cycle, current.decoded.error);
  assert(instruction.words() == length && "decoding and fetch agree on the length");
  if (std::optional<std::string> why = loops.illegal(pc, length))
    return stop(cycle, *why);
  if (const isa::Loop *loop = instruction.getIf<isa::Loop>()) {
    if (std::optional<std::string> why = loops.illegal(pc, *loop))
      return stop(cycle, *why);
    take(last, available, cycle);
    const isa::Loop copy = *loop;
    if (loops.empty()) {
      bodies.clear();
      bodies.resize(static_cast<size_t>(copy.body_words));
      bodiesBegin = pc + length;
    }
    loops.enter(pc + length, copy);
    finish();
    return true;
  }
  if (instruction.getIf<isa::Halt>()) {
    if (!loops.empty())
      return stop(cycle, "halt inside a loop");
    if (pc + length != codeWords)
      return stop(cycle, "halt is not the last instruction");
    take(last, available, cycle);
    context->tracks[stats::kSequencer].fed(cycle + 1);
    running = false;
    wait = Wait::Nothing;
    if (context->followsPath() && cycle >= context->lastEventAt) {
      context->lastEvent = path;
      context->lastEventAt = cycle;
    }
    host->halted(cycle);
    return false;
  }
  if (isa::isDropped(instruction, current.odometer)) {
    isa::advance(instruction, current.odometer);
    take(last, available, cycle);
    finish();
    return true;
  }
  const unsigned engine = stats::engineNumber(instruction.engine(), static_cast<unsigned>(instruction.header.unit));
  const Cycle slot = queues[engine]->slotAt();
  if (slot == kNever) {
    wait = Wait::Slot;
    waitEngine = engine;
    host->moves(cycle);
    return false;
  }
  if (slot > cycle) {
    context->tracks[stats::kSequencer].full(cycle, slot, engine, context->layerOf(pc));
    cycle = slot;
    if (context->followsPath())
      path = queues[engine]->slotPath().then(context->layerOf(pc), slot - context->machine->timing.queue_free_cycles);
  }
  take(last, available, cycle);
  Entry &entry = queues[engine]->freeSlot();
  isa::resolve(instruction, current.odometer, entry.instruction);
  entry.pc = pc;
  entry.layer = context->layerOf(pc);
  entry.path = path;
  entry.record = kNoRecord;
  entry.outOfRange = isa::outOfRange(entry.instruction, *context->machine);
  entry.banks = entry.outOfRange ? 0 : isa::bankMask(entry.instruction, *context->machine);
  if (context->options.trace) {
    entry.record = static_cast<uint32_t>(context->result.instructions.size());
    stats::InstructionRecord record;
    record.pc = pc;
    record.engine = engine;
    record.layer = entry.layer;
    record.dispatched = cycle;
    record.visible = cycle + context->machine->timing.dispatch_cycles;
    context->result.instructions.push_back(record);
  }
  host->dispatched(cycle + context->machine->timing.dispatch_cycles);
  queues[engine]->push(cycle);
  finish();
  return true;
}

void Sequencer::run() {
  const uint64_t before = frontier;
  while (running && advance())
    ;
  if (frontier != before)
    dram->changed();
}

std::string Sequencer::waiting() const {
  if (!running)
    return "";
  return core::sequencerWaitText(wait == Wait::Slot ? stats::engineName(waitEngine) : "");
}

} // namespace tw::systemc
