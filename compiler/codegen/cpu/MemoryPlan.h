//===- MemoryPlan.h - Offsets of buffers in one arena -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_MEMORYPLAN_H
#define COMPILER_CODEGEN_CPU_MEMORYPLAN_H

#include <cstdint>
#include <vector>

namespace tw::cpu {

/// Every buffer starts on a cache line, which is also the widest vector register.
constexpr int64_t bufferAlignment = 64;

struct PlannedBuffer {
  int64_t bytes = 0;
  /// The first and the last step that use the buffer, inclusive.
  int64_t firstStep = 0;
  int64_t lastStep = 0;
  /// Set by planMemory.
  int64_t offset = 0;
};

/// Gives every buffer an offset such that buffers alive in the same step do not overlap: largest first, each at the lowest
/// offset that is free. Returns the bytes of the arena.
int64_t planMemory(std::vector<PlannedBuffer> &buffers);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_MEMORYPLAN_H
