//===- Accesses.h - Which bytes an instruction touches ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SIMULATOR_CORE_ACCESSES_H
#define SIMULATOR_CORE_ACCESSES_H

#include "isa/Isa.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace tw::core {

/// Number of DRAM beside the values of isa::Memory.
constexpr unsigned kDramMemory = 8;
constexpr unsigned kNumMemories = 9;

/// `scratchpad0`, ..., `dram`.
std::string memoryName(unsigned memory);

/// A strided set of byte runs of one memory.
struct RunSet {
  unsigned memory = 0;
  bool write = false;
  int64_t begin = 0, bytes = 0;
  struct Dimension {
    int64_t count, stride;
  };
  std::vector<Dimension> dimensions;

  /// First byte and byte after the last.
  std::pair<int64_t, int64_t> bounds() const {
    int64_t low = begin, high = begin + bytes;
    for (const Dimension &d : dimensions)
      (d.stride < 0 ? low : high) += d.stride * (d.count - 1);
    return {low, high};
  }

  /// Makes the same bytes few and long runs. Where runs overlap each other they become one: use it only where it does not
  /// matter how often a byte is touched.
  void unite();

  /// Calls run(begin, end) for each run.
  template <typename F> void forEach(F run) const { visit(begin, dimensions.size(), run); }

private:
  template <typename F> void visit(int64_t at, size_t depth, F &run) const {
    if (depth == 0)
      return run(at, at + bytes);
    const Dimension &d = dimensions[depth - 1];
    for (int64_t i = 0; i < d.count; ++i)
      visit(at + i * d.stride, depth - 1, run);
  }
};

/// Every byte a resolved load, preload, tensor, vector or store reads or writes, reads of a memory before its writes; runs of
/// one set are not united.
std::vector<RunSet> accessesOf(const isa::Instruction &resolved, const timing::MachineParams &machine);

/// False only if no output vector of the instruction can read what an earlier one wrote: source and destination lie apart, or
/// each vector is written exactly where it was read.
bool mayReadOwnResult(const isa::Vector &vector, const timing::MachineParams &machine);

} // namespace tw::core

#endif // SIMULATOR_CORE_ACCESSES_H
