//===- RunResult.cpp - What a simulated run comes to ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "simulator/core/RunResult.h"

using namespace tw;
using namespace tw::core;

const char *tw::core::faultKindName(FaultKind kind) {
  switch (kind) {
  case FaultKind::IllegalInstruction:
    return "illegal instruction";
  case FaultKind::OutOfRange:
    return "address out of range";
  case FaultKind::SemaphoreOverflow:
    return "semaphore overflow";
  case FaultKind::Deadlock:
    return "deadlock";
  case FaultKind::UnwrittenRead:
    return "read of an unwritten word";
  case FaultKind::Unordered:
    return "unordered accesses";
  case FaultKind::BadInput:
    return "bad input";
  case FaultKind::LimitReached:
    return "limit reached";
  }
  return "unknown fault";
}

std::string Fault::str() const {
  std::string text = std::string(faultKindName(kind)) + " in " + engine + ", word " + std::to_string(pc);
  if (!layer.empty())
    text += ", layer '" + layer + "'";
  if (cycle)
    text += ", cycle " + std::to_string(cycle);
  return text + ": " + message;
}
