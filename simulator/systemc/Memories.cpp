//===- Memories.cpp - Scratchpads, accumulator and their banks ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/systemc/Memories.h"

#include "simulator/functional/Execute.h"

namespace tw::systemc {

Memories::Memories(sc_core::sc_module_name name) : sc_module(name), access("access"), arbiter("arbiter"), host("host") {
  access.bind(*this);
}

void Memories::reset(RunContext &run) {
  context = &run;
  for (Owner &owner : owners)
    owner = Owner();
  shadowColumns = activeColumns = 0;
  nextUpdate = kNever;
  retirements.clear();
  checker.reset();
  if (run.options.checks)
    checker = std::make_unique<core::RaceChecker>(*run.machine, *run.program, core::CheckOptions{run.options.unwritten});
}

unsigned Memories::ownerOf(unsigned engine, uint64_t banks) const {
  for (unsigned other = 0; other < owners.size(); ++other)
    if (other != engine && (owners[other].banks & banks))
      return other;
  return stats::kNoEngine;
}

void Memories::own(unsigned engine, uint64_t banks) {
  owners[engine].held.push_back({banks, kNever});
  owners[engine].banks |= banks;
}

void Memories::retire(unsigned engine, uint64_t pc, Cycle retire) {
  Owner &owner = owners[engine];
  assert(owner.withRetirement < owner.held.size() && "more retirements than starts");
  const Cycle at = retire + context->machine->timing.bank_release_cycles;
  owner.held[owner.withRetirement++].releaseAt = at;
  nextUpdate = std::min(nextUpdate, at);
  arbiter->wake(at);
  if (checker) {
    retirements.push_back({retire, engine, pc});
    std::push_heap(retirements.begin(), retirements.end());
    nextUpdate = std::min(nextUpdate, retire);
    arbiter->wake(retire);
  }
}

void Memories::update(Cycle cycle) {
  if (cycle < nextUpdate)
    return;
  // The checker learns of a retirement before anything that waits for its posts can start.
  while (!retirements.empty() && retirements.front().cycle <= cycle) {
    const unsigned engine = retirements.front().engine;
    const uint64_t pc = retirements.front().pc;
    std::pop_heap(retirements.begin(), retirements.end());
    retirements.pop_back();
    if (std::optional<core::Violation> violation = checker->retire(stats::engineKind(engine), stats::engineUnit(engine)))
      host->fault(violation->kind, engine, pc, cycle, violation->message);
  }
  nextUpdate = retirements.empty() ? kNever : retirements.front().cycle;
  for (Owner &owner : owners) {
    if (owner.held.empty())
      continue;
    if (owner.held.front().releaseAt <= cycle) {
      while (!owner.held.empty() && owner.held.front().releaseAt <= cycle) {
        owner.held.pop_front();
        --owner.withRetirement;
      }
      owner.banks = 0;
      for (const Ownership &ownership : owner.held)
        owner.banks |= ownership.banks;
    }
    if (!owner.held.empty())
      nextUpdate = std::min(nextUpdate, owner.held.front().releaseAt);
  }
}

void Memories::countMacs(const Entry &entry) {
  uint64_t macs = 0, vectorMacs = 0;
  if (const isa::Preload *preload = entry.instruction.getIf<isa::Preload>()) {
    shadowColumns = static_cast<uint64_t>(preload->n_count);
  } else if (const isa::Tensor *tensor = entry.instruction.getIf<isa::Tensor>()) {
    if (tensor->swap)
      activeColumns = shadowColumns;
    macs = static_cast<uint64_t>(tensor->counts[0] * tensor->counts[1] * tensor->counts[2] * tensor->k_count) * activeColumns;
  } else if (const isa::Vector *vector = entry.instruction.getIf<isa::Vector>()) {
    if (static_cast<isa::WindowOp>(vector->window_op) == isa::WindowOp::Mac)
      macs = vectorMacs = static_cast<uint64_t>(vector->counts[0] * vector->counts[1] * vector->counts[2] * vector->counts[3] *
                                                vector->window[0] * vector->window[1]) *
                          context->machine->lanes;
  }
  context->result.macs += macs;
  stats::LayerResult &layer = context->result.layer(entry.layer);
  layer.macs += macs;
  layer.vectorMacs += vectorMacs;
}

void Memories::execute(const Entry &entry, unsigned engine, Cycle cycle) {
  if (checker) {
    if (std::optional<core::Violation> violation = checker->start(entry.instruction, entry.pc)) {
      host->fault(violation->kind, engine, entry.pc, cycle, violation->message);
      return;
    }
  }
  countMacs(entry);
  if (!context->options.timingOnly)
    functional::execute(entry.instruction, *context->state);
}

} // namespace tw::systemc
