//===- SimResult.h - What a cycle-accurate run comes to ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared by every cycle-accurate model (SystemC, RTL) and by all reports.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_STATS_SIMRESULT_H
#define SIMULATOR_STATS_SIMRESULT_H

#include "isa/timing/DramCounts.h"
#include "isa/timing/Engines.h"
#include "simulator/core/RunResult.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::stats {

using timing::Cycle;

/// What an engine does in a cycle: the first that holds, in this order. Meanings: docs/timing.md, section "Labels".
enum class Label : uint8_t { Busy, Operand, Interlock, BankConflict, DramBandwidth, DramLatency, BufferFull, Starved, Idle };
constexpr unsigned kNumLabels = 9;

/// `busy`, `operand`, `bank_conflict`, ...: the keys of JSON reports.
const char *labelName(Label label);

/// Which interlock holds an instruction back.
enum class InterlockKind : uint8_t { ShadowBusy, ShadowNotReady, AccumulatorDistance, BoxesInFlight };
const char *interlockName(InterlockKind kind);

/// Number of a layer that no layer of the program has.
constexpr uint32_t kNoLayer = ~0u;

/// Engines by their numbers in timing::kAllEngines.
using timing::kMaxLoadEngines, timing::kMaxStoreEngines;
constexpr unsigned kFirstStore = timing::kAllEngines.indexOf(timing::EngineKind::Store);
constexpr unsigned kVector = timing::kAllEngines.indexOf(timing::EngineKind::Vector);
constexpr unsigned kTensor = timing::kAllEngines.indexOf(timing::EngineKind::Tensor);
constexpr unsigned kPreload = timing::kAllEngines.indexOf(timing::EngineKind::Preload);
constexpr unsigned kFirstLoad = timing::kAllEngines.indexOf(timing::EngineKind::Load);
constexpr unsigned kSequencer = timing::kAllEngines.indexOf(timing::EngineKind::Sequencer);
constexpr unsigned kNumEngines = timing::kAllEngines.size();
/// Marks "no engine".
constexpr unsigned kNoEngine = kNumEngines;

/// Number of an engine. Precondition: `unit` is one of the above.
unsigned engineNumber(timing::EngineKind kind, unsigned unit);
timing::EngineKind engineKind(unsigned engine);
unsigned engineUnit(unsigned engine);
std::string engineName(unsigned engine);
/// Whether the machine has this engine.
bool hasEngine(const timing::MachineParams &machine, unsigned engine);

/// Cycles [begin, end) of one engine with one label.
struct Interval {
  Cycle begin = 0, end = 0;
  Label label = Label::Busy;
  /// Operand: semaphore; Interlock: InterlockKind; BankConflict: owner engine; BufferFull of the sequencer: the full queue's
  /// engine; DramBandwidth, DramLatency: channel.
  uint16_t detail = 0;
  /// Operand: the engine that posts the semaphore, kNoEngine if it never did.
  uint16_t producer = kNoEngine;
  uint32_t layer = kNoLayer;
};

/// Cycles of one label with one cause, for people: "semaphore 3 from load0".
struct StallCause {
  Label label;
  uint16_t detail;
  uint16_t producer;
  Cycle cycles;
  /// The cause in words.
  std::string str() const;
};

struct EngineResult {
  unsigned engine = 0; ///< engineNumber()
  std::string name;
  uint64_t instructions = 0;
  /// Indexed by Label; their sum is SimResult::totalCycles.
  std::array<Cycle, kNumLabels> cycles{};
  /// Operand, interlock, bank-conflict and queue-full cycles by cause, most cycles first.
  std::vector<StallCause> causes;
  /// All cycles in order, one label each; only with SimOptions::trace.
  std::vector<Interval> intervals;
};

struct LayerResult {
  std::string name;
  uint64_t instructions = 0;
  /// Of its instructions; 0 if it has none.
  Cycle firstStart = 0, lastRetire = 0;
  /// Cycles of the run's critical path that were spent on this layer (docs/profile.md); they sum over layers to totalCycles.
  Cycle critical = 0;
  uint64_t dramReadBytes = 0, dramWriteBytes = 0; ///< whole bursts of loads and stores
  uint64_t macs = 0;                              ///< that were computed, those with padding of tiles included
  uint64_t vectorMacs = 0;                        ///< of `macs`: by the vector engine
  /// From its first start to its last retirement. Layers overlap: these do not sum to anything.
  Cycle cycles() const { return lastRetire - firstStart; }
  /// Engine-cycles of instructions of this layer: [engine][label]. Starved and idle cycles belong to no layer.
  std::array<std::array<Cycle, kNumLabels>, kNumEngines> labels{};
};

/// One executed instruction, in dispatch order.
struct InstructionRecord {
  uint64_t pc = 0; ///< first word
  unsigned engine = 0;
  uint32_t layer = kNoLayer;
  Cycle dispatched = 0, visible = 0, start = 0, issueFree = 0, retire = 0;
};

/// A post that satisfied a wait.
struct SemaphoreFlow {
  uint32_t semaphore = 0;
  uint32_t from = 0, to = 0; ///< indices into SimResult::instructions
};

/// A part of the critical path: cycles [begin, end) were spent on `layer`.
struct PathStep {
  Cycle begin = 0, end = 0;
  uint32_t layer = kNoLayer;
};

/// Data bus of one DRAM channel in use: [begin, end), ascending, not overlapping.
struct BusInterval {
  Cycle begin = 0, end = 0;
};

struct SimResult {
  std::optional<core::Fault> fault;
  /// From the write of the start register to `done` visible; with a fault, to the faulting cycle.
  Cycle totalCycles = 0;
  Cycle writesDone = 0;                           ///< completion of the last write; 0: none, or the model does not say
  uint64_t instructionCount = 0;                  ///< executed by engines
  uint64_t dispatchedWords = 0;                   ///< words the sequencer took
  std::vector<EngineResult> engines;              ///< those of the machine, by engineNumber()
  std::vector<LayerResult> layers;                ///< as in the program
  LayerResult noLayer;                            ///< what belongs to no layer of the program
  bool hasLayerCauses = false;                    ///< the model notes labels and critical cycles of layers
  uint64_t dramReadBytes = 0, dramWriteBytes = 0; ///< loads and stores, whole bursts
  uint64_t fetchBytes = 0;                        ///< program fetch, whole bursts
  uint64_t dramActivates = 0;                     ///< rows opened, of all channels; an ideal DRAM has none
  std::vector<timing::DramChannelCounts> dram;    ///< per channel, program fetch included
  uint64_t macs = 0; ///< multiply-accumulates of tensor instructions (k_count x n_count) and of vector `mac` windows

  // Only with SimOptions::trace.
  std::vector<InstructionRecord> instructions;
  std::vector<SemaphoreFlow> flows;
  std::vector<std::vector<BusInterval>> channels;
  std::vector<PathStep> criticalPath; ///< from cycle 0 to totalCycles

  bool ok() const { return !fault; }
  LayerResult &layer(uint32_t number) { return number < layers.size() ? layers[number] : noLayer; }
};

/// By how much each layer moved the last retirement of the program on, in the order of the program; they sum to the last
/// retirement of all.
std::vector<Cycle> endAdvances(const SimResult &result);

} // namespace tw::stats

#endif // SIMULATOR_STATS_SIMRESULT_H
