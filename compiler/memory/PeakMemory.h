//===- PeakMemory.h - The most bytes that are alive at once ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_MEMORY_PEAKMEMORY_H
#define COMPILER_MEMORY_PEAKMEMORY_H

#include <cstdint>

namespace tw::memory {

/// Peaks of live bytes of the tensors between kernels: inputs, outputs and constants of the network, which are always there, are left out. A
/// concatenation whose parts are results of kernels that nothing else reads is written in place.
struct PeakMemory {
  uint64_t modelBytes = 0; ///< in the model's order
  uint64_t leastBytes = 0; ///< in the best order that is known
  uint64_t boundBytes = 0; ///< no order has less
  uint64_t takenBytes = 0; ///< in the order of @main
};

} // namespace tw::memory

#endif // COMPILER_MEMORY_PEAKMEMORY_H
