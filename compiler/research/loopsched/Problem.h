//===- Problem.h - The steady state of a tile loop, as data -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Problem, algorithm and verifier are kept apart: a Problem says what must hold,
// a scheduler (SchedulerRegistry.h) makes a Schedule from it, verify() judges the
// Schedule and shares no code with any scheduler. A plug-in uses the data alone
// and links with nothing.
//
// One iteration of the loop starts every `ii` cycles. All times are accelerator
// cycles, all sizes bytes, all references indices into the vectors of Problem.
//
// Feasibility is monotone in ii. Once the discrete choices are fixed (depths, rings,
// and for each pair of users of a resource or ring which instances follow one
// another), every condition reads t[v] - t[u] + w*ii >= c with integers w and
// c >= 0. Scaling t by ii'/ii > 1 keeps it, and difference constraints with integer
// constants that have a solution have one in integers. So an ii that is impossible
// proves that everything below it is.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_RESEARCH_LOOPSCHED_PROBLEM_H
#define COMPILER_RESEARCH_LOOPSCHED_PROBLEM_H

#include <cstdint>
#include <string>
#include <vector>

namespace tw::loopsched {

using Cycles = int64_t;

struct Problem {
  /// An engine, or the DRAM bus: used by one operation at a time.
  struct Resource {
    std::string name;
  };

  /// An on-chip memory. A bank holds bytes of one ring only, so that no two engines meet in it.
  struct Memory {
    std::string name;
    int64_t banks = 1;
    int64_t bankBytes = 0;
  };

  /// Occupancy from the operation's start; the next operation may start `cycles` later.
  struct Use {
    unsigned resource = 0;
    Cycles cycles = 0;
  };

  struct Operation {
    std::string name;
    /// At most one for each resource. A load occupies its engine and, as long as its bytes take, the DRAM bus.
    std::vector<Use> uses;
    /// From start until other engines may rely on it: the result is visible, operands are no longer read. At least
    /// every occupancy.
    Cycles latency = 0;
  };

  /// `to` of iteration n + distance starts at least `delay` >= 0 cycles after `from` of iteration n has started.
  struct Dependence {
    unsigned from = 0, to = 0;
    Cycles delay = 0;
    unsigned distance = 0;
  };

  /// The operation reads, in iteration n + distance, what the producer wrote in iteration n.
  struct Reader {
    unsigned operation = 0;
    unsigned distance = 0;
  };

  /// A tile on chip, written anew in every iteration. Implies that a reader starts `latency` of the producer after it,
  /// and that a slot is written again only after its last reader's `latency`. Later operations that write it too count
  /// as readers.
  struct Buffer {
    std::string name;
    unsigned memory = 0;
    int64_t bytes = 0;
    unsigned producer = 0;
    std::vector<Reader> readers;
    /// Most slots that may be used; 0: as many as fit.
    unsigned maxDepth = 0;
  };

  std::vector<Resource> resources;
  std::vector<Memory> memories;
  std::vector<Operation> operations;
  std::vector<Dependence> dependences;
  std::vector<Buffer> buffers;

  /// Banks that one slot of `buffer` takes, rounded up.
  int64_t banksPerSlot(const Buffer &buffer) const {
    int64_t bankBytes = memories[buffer.memory].bankBytes;
    return (buffer.bytes + bankBytes - 1) / bankBytes;
  }
};

struct Schedule {
  /// `depth` slots of `banksPerSlot` banks each, one after the other from `firstBank`. Buffers of one ring share its
  /// slots at different times; an odometer with a wrap of `depth` addresses them.
  struct Ring {
    unsigned memory = 0;
    unsigned depth = 1;
    int64_t firstBank = 0;
    int64_t banksPerSlot = 1;
  };

  /// The buffer of iteration n lies in slot (n + phase) mod depth.
  struct Placement {
    unsigned ring = 0;
    unsigned phase = 0;
  };

  /// Initiation interval: cycles between the starts of successive iterations.
  Cycles ii = 0;
  /// Of each operation in iteration 0, from 0. Its stage is start / ii.
  std::vector<Cycles> start;
  std::vector<Ring> rings;
  /// Of each buffer. A scheduler may leave rings and placements empty: runScheduler() fills them in.
  std::vector<Placement> placements;

  unsigned depth(unsigned buffer) const { return rings[placements[buffer].ring].depth; }
};

/// What is wrong with the problem itself: a reference to nothing, a size or time out of range, occupancy above latency,
/// a cycle of dependences within one iteration. Empty if it can be scheduled with enough memory.
std::vector<std::string> check(const Problem &problem);

/// Everything that `schedule` breaks; empty if it is right. `problem` must have passed check().
std::vector<std::string> verify(const Problem &problem, const Schedule &schedule);

/// One operation at a time, in cycles: what an iteration takes when nothing overlaps.
Cycles serialLength(const Problem &problem);

/// Cycles that the busiest resource needs for one iteration.
Cycles resourceBound(const Problem &problem);

/// The largest ratio of delay to distance over all cycles of dependences, buffers at the largest depth that fits alone.
/// 0 if there is no cycle; -1 if some buffer does not fit at all.
Cycles recurrenceBound(const Problem &problem);

} // namespace tw::loopsched

#endif // COMPILER_RESEARCH_LOOPSCHED_PROBLEM_H
