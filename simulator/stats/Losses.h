//===- Losses.h - Why the tensor engine was not busy ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every cycle in which the tensor engine is not busy has one cause and one
// place. Cost follows the number of instructions and intervals, not of cycles.
//===----------------------------------------------------------------------===//
#ifndef SIMULATOR_STATS_LOSSES_H
#define SIMULATOR_STATS_LOSSES_H

#include "isa/Program.h"
#include "simulator/stats/SimResult.h"

#include <tuple>

namespace tw::stats {

/// Before the first start of a tensor instruction, between two, after the last one is issue-free.
enum class Phase : uint8_t { Prologue, Body, Epilogue };
const char *phaseName(Phase phase);

/// What a cycle was lost to.
enum class LossKind : uint8_t {
  Operand,      ///< as the label
  Interlock,    ///< as the label
  BankConflict, ///< as the label
  Starved,      ///< as the label: the next tensor instruction was not in the queue yet
  NoTensorWork, ///< a layer without any tensor instruction runs
  Drain         ///< no tensor instruction is left
};
const char *lossKindName(LossKind kind);

/// How far the instruction waited for had come.
enum class Progress : uint8_t {
  None,          ///< nothing is waited for, or nobody knows what
  NotDispatched, ///< the sequencer had not dispatched it
  Queued,        ///< in its queue, not started
  Running,       ///< started, not issue-free
  Draining,      ///< issue-free, not retired; without an engine: stores are over, and the write buffer is not empty
  HandOver       ///< retired; its post or its registers were not visible yet
};
const char *progressName(Progress progress);

constexpr uint64_t kNoWord = ~uint64_t(0);

/// Where and why cycles were lost: the key of a row.
struct LossCause {
  Phase phase = Phase::Body;
  LossKind kind = LossKind::Operand;
  /// Of the tensor instruction held back. NoTensorWork: the layer that runs instead. Drain: the layer that goes on.
  uint32_t layer = kNoLayer;
  /// First word of the tensor instruction held back, and of the innermost loop around it.
  uint64_t word = kNoWord, loopWord = kNoWord;
  /// Operand: semaphore. Interlock: InterlockKind.
  uint16_t detail = 0;
  /// Who is waited for. Operand: the poster. Interlock: the preload. BankConflict: the owner. Starved: the engine of the
  /// instruction that the sequencer stood at. NoTensorWork, Drain: who is at work.
  unsigned engine = kNoEngine;
  uint64_t engineWord = kNoWord;
  uint32_t engineLayer = kNoLayer;
  Progress progress = Progress::None;
  /// What that engine did in these cycles. Starved: what the sequencer did.
  Label label = Label::Busy;
  /// Where `label` is Operand: who posts what that engine waits for.
  unsigned waitsFor = kNoEngine;

  auto key() const {
    return std::tie(phase, kind, layer, word, loopWord, detail, engine, engineWord, engineLayer, progress, label, waitsFor);
  }
  bool operator<(const LossCause &other) const { return key() < other.key(); }
};

struct Loss {
  LossCause cause;
  Cycle cycles = 0;
  uint64_t times = 0;  ///< stretches of cycles
  uint64_t places = 1; ///< rows of losses() in it
};

/// All lost cycles, most first; they sum up to total_cycles less the busy cycles of the tensor engine.
/// Preconditions: `result` is a run of `program` without a fault and with SimOptions::trace.
std::vector<Loss> losses(const isa::Program &program, const SimResult &result);

/// The same without words: places with one cause in one layer become one row, which keeps the words of its largest.
std::vector<Loss> byLayer(const std::vector<Loss> &rows);

} // namespace tw::stats

#endif // SIMULATOR_STATS_LOSSES_H
