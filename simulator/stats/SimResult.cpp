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

unsigned engineNumber(timing::EngineKind kind, unsigned unit) {
  switch (kind) {
  case timing::EngineKind::Store:
    assert(unit < kMaxStoreEngines);
    return kFirstStore + unit;
  case timing::EngineKind::Vector:
    return kVector;
  case timing::EngineKind::Tensor:
    return kTensor;
  case timing::EngineKind::Preload:
    return kPreload;
  case timing::EngineKind::Load:
    assert(unit < kMaxLoadEngines);
    return kFirstLoad + unit;
  case timing::EngineKind::Sequencer:
    return kSequencer;
  }
  return kNoEngine;
}

timing::EngineKind engineKind(unsigned engine) {
  if (engine < kVector)
    return timing::EngineKind::Store;
  if (engine >= kFirstLoad && engine < kSequencer)
    return timing::EngineKind::Load;
  switch (engine) {
  case kVector:
    return timing::EngineKind::Vector;
  case kTensor:
    return timing::EngineKind::Tensor;
  case kPreload:
    return timing::EngineKind::Preload;
  default:
    return timing::EngineKind::Sequencer;
  }
}

unsigned engineUnit(unsigned engine) {
  return engine < kVector ? engine - kFirstStore : engine >= kFirstLoad && engine < kSequencer ? engine - kFirstLoad : 0;
}

std::string engineName(unsigned engine) {
  return engine >= kNumEngines ? "nobody" : core::engineName(engineKind(engine), engineUnit(engine));
}

bool hasEngine(const timing::MachineParams &machine, unsigned engine) {
  switch (engineKind(engine)) {
  case timing::EngineKind::Store:
    return engineUnit(engine) < machine.storeEngines;
  case timing::EngineKind::Load:
    return engineUnit(engine) < machine.loadEngines;
  default:
    return engine < kNumEngines;
  }
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
