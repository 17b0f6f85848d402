//===- FaultText.h - Faults that every cycle-accurate model reports *- C++ -*-//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_CORE_FAULTTEXT_H
#define SIMULATOR_CORE_FAULTTEXT_H

#include "isa/Isa.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::core {

std::string semaphoreOverflowText(uint64_t semaphore, uint64_t count, uint64_t maximum);

/// The oldest instruction of an engine that has not started.
struct WaitingHead {
  std::string engine;
  uint64_t pc = 0;
  std::string layer; ///< empty: none
  const isa::Instruction *instruction = nullptr;
  /// Index of the wait that is not satisfied, -1 if all are, and the count of its semaphore.
  int missingWait = -1;
  uint64_t count = 0;
};

/// Who waits for what, when nothing is in flight and nothing can start. `sequencer`: what it waits for, empty if it has
/// finished.
std::string deadlockText(const std::vector<WaitingHead> &heads, const std::string &sequencer);

/// The sequencer's part of it: it waits for room in the queue of `engine`, or for program words if that is empty.
std::string sequencerWaitText(const std::string &engine);

} // namespace tw::core

#endif // SIMULATOR_CORE_FAULTTEXT_H
