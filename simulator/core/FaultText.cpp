//===- FaultText.cpp - Faults that every cycle-accurate model reports -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/core/FaultText.h"

using namespace tw;

std::string core::semaphoreOverflowText(uint64_t semaphore, uint64_t count, uint64_t maximum) {
  return "semaphore " + std::to_string(semaphore) + " would count to " + std::to_string(count) + " but may count to " +
         std::to_string(maximum);
}

std::string core::deadlockText(const std::vector<WaitingHead> &heads, const std::string &sequencer) {
  std::string text;
  for (const WaitingHead &head : heads) {
    text += (text.empty() ? "" : "; ") + head.engine + " at word " + std::to_string(head.pc);
    if (!head.layer.empty())
      text += ", layer '" + head.layer + "',";
    const isa::Header &header = head.instruction->header;
    if (head.missingWait >= 0) {
      const size_t wait = static_cast<size_t>(head.missingWait);
      text += " waits for " + std::to_string(header.wait_count[wait]) + " of semaphore " +
              std::to_string(header.wait_semaphore[wait]) + ", which is at " + std::to_string(head.count);
    } else {
      text += head.instruction->opcode() == isa::Opcode::Preload ? " waits for the shadow registers" : " waits for a preload";
    }
  }
  if (!sequencer.empty())
    text += (text.empty() ? "" : "; ") + sequencer;
  return text;
}

std::string core::sequencerWaitText(const std::string &engine) {
  return engine.empty() ? "sequencer waits for program words" : "sequencer waits for room in the queue of " + engine;
}
