//===- SimResult.cpp - What a cycle-accurate run comes to -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "simulator/stats/SimResult.h"

#include <algorithm>
#include <cassert>

namespace tw::stats {

const char *labelName(Label label) {
  static constexpr const char *names[kNumLabels] = {
      "busy", "operand", "interlock", "bank_conflict", "dram_bandwidth", "dram_latency", "buffer_full", "starved", "idle"};
  return names[static_cast<unsigned>(label)];
}

const char *interlockName(InterlockKind kind) {
  static constexpr const char *names[] = {"shadow registers in use", "shadow registers not ready", "accumulator distance",
                                          "boxes in flight"};
  return names[static_cast<unsigned>(kind)];
}

unsigned engineNumber(timing::EngineKind kind, unsigned unit) { return timing::kAllEngines.indexOf(kind, unit); }

timing::EngineKind engineKind(unsigned engine) { return timing::kAllEngines.kindOf(engine); }

unsigned engineUnit(unsigned engine) { return timing::kAllEngines.unitOf(engine); }

std::string engineName(unsigned engine) { return engine == kNoEngine ? "nobody" : timing::kAllEngines.nameOf(engine); }

bool hasEngine(const timing::MachineParams &machine, unsigned engine) {
  return engine < kNumEngines && engineUnit(engine) < timing::EngineTable(machine).count(engineKind(engine));
}

std::string StallCause::str() const {
  switch (label) {
  case Label::Operand:
    return "semaphore " + std::to_string(detail) + " from " + engineName(producer);
  case Label::Interlock:
    return interlockName(static_cast<InterlockKind>(detail));
  case Label::BankConflict:
    return "bank of " + engineName(detail);
  case Label::BufferFull:
    return detail < kNumEngines ? "queue of " + engineName(detail) : "write buffer";
  default:
    return labelName(label);
  }
}

std::vector<Cycle> endAdvances(const SimResult &result) {
  std::vector<Cycle> advances;
  Cycle reached = 0;
  for (const LayerResult &layer : result.layers) {
    advances.push_back(std::max(layer.lastRetire, reached) - reached);
    reached = std::max(reached, layer.lastRetire);
  }
  return advances;
}

} // namespace tw::stats
