//===- SemaphoreUnit.cpp - Counting semaphores ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/SemaphoreUnit.h"

#include "simulator/core/FaultText.h"

namespace tw::systemc {

SemaphoreUnit::SemaphoreUnit(sc_core::sc_module_name name)
    : sc_module(name), counts("counts"), arbiter("arbiter"), host("host") {
  counts.bind(*this);
}

void SemaphoreUnit::reset(RunContext &run) {
  context = &run;
  pending.clear();
  // Encodings reach beyond a small machine's semaphores; isa::illegal() refuses those, so the array only has to be large
  // enough.
  semaphores.assign(std::max<size_t>(run.machine->semaphores, 64), Semaphore());
}

int SemaphoreUnit::missing(const isa::Header &header) const {
  for (size_t i = 0; i < header.wait_count.size(); ++i) {
    if (!header.wait_count[i])
      continue;
    // Two waits for one semaphore need the sum.
    int64_t need = header.wait_count[i];
    for (size_t j = 0; j < i; ++j)
      if (header.wait_semaphore[j] == header.wait_semaphore[i])
        need += header.wait_count[j];
    if (semaphores[static_cast<size_t>(header.wait_semaphore[i])].count < need)
      return static_cast<int>(i);
  }
  return -1;
}

void SemaphoreUnit::take(const Entry &entry) {
  const isa::Header &header = entry.instruction.header;
  for (size_t i = 0; i < header.wait_count.size(); ++i) {
    if (!header.wait_count[i])
      continue;
    Semaphore &semaphore = semaphores[static_cast<size_t>(header.wait_semaphore[i])];
    assert(semaphore.count >= header.wait_count[i] && "taken before it is there");
    semaphore.count -= static_cast<uint32_t>(header.wait_count[i]);
    if (entry.record == kNoRecord)
      continue;
    for (int64_t n = 0; n < header.wait_count[i]; ++n) {
      context->result.flows.push_back(
          {static_cast<uint32_t>(header.wait_semaphore[i]), semaphore.records.front(), entry.record});
      semaphore.records.pop_front();
    }
  }
}

void SemaphoreUnit::post(const isa::Header &header, Cycle retire, unsigned engine, uint64_t pc, uint32_t record) {
  const Cycle visible = retire + context->machine->timing.semaphore_cycles;
  for (size_t i = 0; i < header.post_count.size(); ++i) {
    if (!header.post_count[i])
      continue;
    pending.push_back({visible, static_cast<uint32_t>(header.post_semaphore[i]), static_cast<uint32_t>(header.post_count[i]),
                       engine, record, pc});
    std::push_heap(pending.begin(), pending.end());
    arbiter->wake(visible);
  }
}

void SemaphoreUnit::update(Cycle cycle) {
  while (!pending.empty() && pending.front().visible <= cycle) {
    const Post post = pending.front();
    std::pop_heap(pending.begin(), pending.end());
    pending.pop_back();
    Semaphore &semaphore = semaphores[post.semaphore];
    semaphore.count += post.count;
    semaphore.producer = post.engine;
    if (post.record != kNoRecord)
      semaphore.records.insert(semaphore.records.end(), post.count, post.record);
    if (semaphore.count > context->machine->semaphoreMax)
      host->fault(core::FaultKind::SemaphoreOverflow, post.engine, post.pc, cycle,
                  core::semaphoreOverflowText(post.semaphore, semaphore.count, context->machine->semaphoreMax));
  }
}

} // namespace tw::systemc
