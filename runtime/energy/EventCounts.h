//===- EventCounts.h - How often what costs energy happens ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counted from the text of a program: every instruction that it executes, with
// loops, predicates and edges. Only what depends on time (activates of DRAM
// rows, refreshes) is the simulator's.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_ENERGY_EVENTCOUNTS_H
#define RUNTIME_ENERGY_EVENTCOUNTS_H

#include "isa/Program.h"
#include "simulator/stats/SimResult.h"

#include <array>
#include <cstdint>
#include <vector>

namespace tw::energy {

/// An operation of one lane of the vector engine.
enum class LaneOp : uint8_t {
  Simple, ///< int32 addition, comparison, shift, bitwise operation
  Int8Multiply,
  IntMultiply,
  IntDivide,
  FloatAdd,
  FloatMultiply,
  FloatDivide,
  SquareRoot,
  Convert,
  Function
};
constexpr size_t kNumLaneOps = 10;

/// Accesses of one on-chip memory, in words of 64 bits: an access of n contiguous bytes is ceil(n / 8) words.
struct MemoryWords {
  uint64_t read = 0, written = 0;
};
/// Scratchpads 0 and 1, then the accumulator.
constexpr size_t kNumMemories = 3, kAccumulatorIndex = 2;

/// Events of one engine on behalf of one layer.
struct EventCounts {
  uint64_t arrayMacs = 0;          ///< k_count x n_count of each position
  uint64_t weightRegisterBits = 0; ///< of shadow and active weights, written
  std::array<MemoryWords, kNumMemories> memories;
  std::array<uint64_t, kNumLaneOps> laneOps{}; ///< by LaneOp
  uint64_t laneRegisterBits = 0;               ///< of the pipeline of the vector engine, written
  uint64_t dispatchedWords = 0;                ///< program words read from the sequencer's buffer
  uint64_t queueBits = 0;                      ///< of engine queues, written
  uint64_t dramReadBursts = 0, dramWriteBursts = 0;

  void add(const EventCounts &other);
};

/// By stats::engineNumber().
using EngineEvents = std::array<EventCounts, stats::kNumEngines>;

struct EventTable {
  std::vector<EngineEvents> layers; ///< as in the program
  EngineEvents noLayer{};
  /// Program words of each layer, then of none: each word is fetched from DRAM once.
  std::vector<uint64_t> layerWords;
  uint64_t noLayerWords = 0;

  /// The events of a program that runs after these.
  void append(const EventTable &next);
  EventCounts total() const;
};

/// All events of a run of `program` to its halt. Precondition: isa::verify() passes.
EventTable countEvents(const isa::Program &program, const timing::MachineParams &machine);

} // namespace tw::energy

#endif // RUNTIME_ENERGY_EVENTCOUNTS_H
