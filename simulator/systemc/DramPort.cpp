//===- DramPort.cpp - Who uses the DRAM when ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/DramPort.h"

namespace tw::systemc {
namespace {

/// A request's id names its reader and number; the last reader stands for the write buffer.
constexpr unsigned kIdShift = 3;
constexpr uint64_t idOf(unsigned client, uint64_t number) { return number << kIdShift | client; }

} // namespace

DramPort::DramPort(sc_core::sc_module_name name, Timebase &timebase)
    : sc_module(name), clients("clients"), socket("socket"), controller("controller"), readers("reader", kReaders),
      writers("writer", stats::kMaxStoreEngines), timebase(timebase),
      alarm(timebase, Phase::Dram, [this](Cycle cycle) { run(cycle); }), burst(new BurstExtension) {
  clients.bind(*this);
  payload.set_extension(burst);
}

DramPort::~DramPort() { payload.clear_extension(burst), delete burst; }

void DramPort::end_of_elaboration() {
  dram = controller[0];
  reader[kFetch] = readers[kFetch][0];
}

void DramPort::reset(RunContext &run) {
  context = &run;
  marks = timing::portWatermarks(run.machine->dram);
  for (unsigned i = 0; i < stats::kMaxLoadEngines; ++i)
    reader[i] = i < run.machine->loadEngines ? readers[i][0] : nullptr;
  for (unsigned i = 0; i < stats::kMaxStoreEngines; ++i)
    writer[i] = i < run.machine->storeEngines ? writers[i][0] : nullptr;
  alarm.reset();
  readAt.fill(kNever);
  offerAt.fill(kNever);
  nextOffer = kNever;
  decided.clear();
  nextCycle = lastIssue = lastRead = bufferEmptyAt = 0;
  holder = kNobody;
  held = 0;
  readCount.fill(0);
  readsUndecided = bufferCount = writeCount = 0;
  usedIn.assign(run.machine->dram.channels, kNever);
  waiting.clear();
  submitted.clear();
  draining = false;
}

Cycle DramPort::requestAt(unsigned requester) const {
  if (requester == kDrain)
    return draining && !waiting.empty() ? nextCycle : kNever;
  if (requester == kIdleDrain)
    return !waiting.empty() && !readsUndecided ? std::max(nextCycle, lastRead + 1) : kNever;
  return std::max(readAt[requester - kFirstReader], nextCycle);
}

Cycle DramPort::nextStep() const {
  Cycle next = std::min({dram->nextDecision(), requestAt(kDrain), requestAt(kIdleDrain)});
  for (Cycle at : readAt)
    next = std::min(next, at);
  if (nextOffer != kNever) {
    const Cycle roomAt = !full() ? 0 : submitted.empty() ? kNever : submitted.front().freeAt;
    next = std::min(next, std::max(nextOffer, roomAt));
  }
  return std::max(next, nextCycle);
}

void DramPort::changed() {
  for (unsigned client = 0; client < kReaders; ++client)
    lookAtReader(client);
  for (unsigned client = 0; client < stats::kMaxStoreEngines; ++client)
    lookAtWriter(client);
  const Cycle next = nextStep();
  if (next != kNever)
    alarm.at(next);
}

void DramPort::run(Cycle now) {
  for (;;) {
    const Cycle next = nextStep();
    if (next == kNever)
      return;
    // Beyond the current cycle, only as far as nobody else acts.
    if (next > now && timebase.next() <= momentOf(next, Phase::Dram)) {
      alarm.at(next);
      return;
    }
    step(next);
  }
}

unsigned DramPort::choose(Cycle cycle) {
  unsigned first = 0;
  if (holder != kNobody && lastIssue + 1 == cycle && requestAt(holder) <= cycle) {
    if (held < context->machine->dram.grantBursts)
      return holder;
    first = holder + 1;
  }
  for (unsigned i = 0, requester = first; i < kRequesters; ++i, ++requester) {
    if (requester >= kRequesters)
      requester -= kRequesters;
    if (requestAt(requester) > cycle)
      continue;
    // Writes that merely may go do not keep reads waiting.
    holder = requester == kIdleDrain ? kNobody : requester;
    held = 0;
    return requester;
  }
  return kNobody;
}

void DramPort::issue(unsigned requester, Cycle cycle) {
  const bool isWrite = requester == kDrain || requester == kIdleDrain;
  const unsigned client = isWrite ? kReaders : requester - kFirstReader;
  const uint32_t width = context->machine->burstsPerCycle;
  for (uint32_t n = 0; n < width; ++n) {
    if (n && requestAt(requester) > cycle)
      break;
    const uint64_t address = isWrite ? waiting.front() : reader[client]->address();
    if (width > 1) {
      const unsigned channel = dram->channelOf(address);
      if (usedIn[channel] == cycle)
        break;
      usedIn[channel] = cycle;
    }

    DramReaderIf::Destination destination;
    if (!isWrite)
      destination = reader[client]->destination();
    const uint64_t number = isWrite ? writeCount++ : readCount[client]++;
    payload.set_command(isWrite ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    payload.set_address(destination.data ? destination.begin : address);
    payload.set_data_ptr(destination.data);
    payload.set_data_length(destination.data ? destination.length : context->machine->dram.burstBytes);
    payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    burst->id = idOf(client, number);
    burst->arrival = cycle;
    sc_core::sc_time delay;
    socket->b_transport(payload, delay);

    ++held;
    lastIssue = cycle;
    if (isWrite) {
      waiting.pop_front();
      submitted.push_back({burst->id, kNever});
    } else {
      ++readsUndecided;
      reader[client]->requested(cycle);
    }
    if (burst->completion != kNever)
      complete(burst->id, burst->completion, burst->channel);
    else if (!isWrite)
      lookAtReader(client);
  }
}

void DramPort::complete(uint64_t id, Cycle cycle, unsigned channel) {
  const unsigned client = id & ((1u << kIdShift) - 1);
  if (client < kReaders) {
    --readsUndecided;
    lastRead = std::max(lastRead, cycle);
    reader[client]->completed(id >> kIdShift, cycle, channel);
    lookAtReader(client);
    return;
  }
  for (Write &write : submitted)
    if (write.id == id)
      write.freeAt = cycle;
  bufferEmptyAt = std::max(bufferEmptyAt, cycle);
}

void DramPort::step(Cycle cycle) {
  nextCycle = cycle;
  while (!submitted.empty() && submitted.front().freeAt <= cycle) {
    submitted.pop_front();
    --bufferCount;
  }
  // Requests first: a burst that the write buffer accepts in this cycle is seen from the next one on.
  const unsigned requester = choose(cycle);
  if (requester != kNobody)
    issue(requester, cycle);
  uint32_t accepts = 0;
  for (unsigned client = 0; nextOffer <= cycle && client < stats::kMaxStoreEngines; ++client)
    while (offerAt[client] <= cycle && accepts < context->machine->burstsPerCycle && !full()) {
      waiting.push_back(writer[client]->address());
      ++bufferCount;
      ++accepts;
      writer[client]->accepted(cycle);
      lookAtWriter(client);
    }
  if (waiting.size() >= marks.high)
    draining = true;
  else if (waiting.size() <= marks.low)
    draining = false;
  nextCycle = cycle + 1;
  if (dram->nextDecision() <= cycle) {
    decided.clear();
    dram->advance(cycle, decided);
    for (const timing::DramCompletion &completion : decided)
      complete(completion.id, completion.completionCycle, completion.channel);
  }
}

} // namespace tw::systemc
