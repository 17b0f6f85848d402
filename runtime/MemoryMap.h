//===- MemoryMap.h - What lies in the on-chip memories when -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_MEMORYMAP_H
#define RUNTIME_MEMORYMAP_H

#include "isa/Program.h"
#include "isa/timing/MachineParams.h"
#include "simulator/stats/SimResult.h"

#include <cstdint>
#include <string>
#include <vector>

namespace tw::runtime {

/// A picture of the scratchpads and the accumulator over a run. Each memory is cut into rows of equal size, banks into whole rows. A row
/// is live from the start of the instruction that writes it to the retirement of the last that reads it before it is written again, and
/// belongs to the layer of the writer that came last.
struct MemoryMap {
  /// Rows [firstRow, firstRow + numRows) in cycles [begin, end).
  struct Span {
    uint32_t firstRow = 0, numRows = 0;
    timing::Cycle begin = 0, end = 0;
    uint32_t layer = stats::kNoLayer;
  };
  struct Memory {
    std::string name;
    uint64_t bytes = 0, rowBytes = 0;
    uint32_t banks = 1;
    /// By begin. Spans of a row do not overlap.
    std::vector<Span> spans;
  };
  /// Times are multiples of it, begins rounded down and ends up; pauses of a layer up to as long count as live.
  timing::Cycle step = 1;
  std::vector<Memory> memories;
};

/// At most so many spans of each memory; longer runs have larger steps.
constexpr size_t kMostMemorySpans = 6000;

/// Precondition: the run was made with SimOptions::trace.
MemoryMap memoryMap(const isa::Program &program, const timing::MachineParams &machine, const stats::SimResult &result,
                    size_t mostSpans = kMostMemorySpans);

} // namespace tw::runtime

#endif // RUNTIME_MEMORYMAP_H
