//===- Placement.h - Addresses for tensors with lifetimes --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_MEMORY_PLACEMENT_H
#define COMPILER_MEMORY_PLACEMENT_H

#include <cstdint>
#include <vector>

namespace tw::memory {

/// One tensor: alive from step `begin` to step `end`, both included.
struct LiveRange {
  uint64_t bytes = 0;
  unsigned begin = 0, end = 0;
  uint64_t address = 0; ///< result, a multiple of `alignment`
};

/// Gives every range an address so that ranges alive at the same step do not overlap: first fit by decreasing size.
/// Returns the bytes used. Deterministic: equal sizes go in the order given.
uint64_t place(std::vector<LiveRange> &ranges, uint64_t alignment);

} // namespace tw::memory

#endif // COMPILER_MEMORY_PLACEMENT_H
