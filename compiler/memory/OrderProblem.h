//===- OrderProblem.h - The order of steps and the memory it needs -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which order of the kernels of a network has the least peak of live bytes.
// OrderSearch.h solves the problem, OrderVerifier.h judges an order.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_MEMORY_ORDERPROBLEM_H
#define COMPILER_MEMORY_ORDERPROBLEM_H

#include <cstdint>
#include <vector>

namespace tw::memory {

/// Steps that touch buffers. A buffer is alive from the first step of an order that touches it to the last one, both included. The live bytes
/// of a step are those of all buffers that are alive then; the peak of an order is the largest of them.
struct OrderProblem {
  struct Step {
    /// Steps that must come earlier, each less than the step's own index: the steps as they are given are an order.
    std::vector<unsigned> after;
    /// Indices of the buffers that the step reads or writes, each once.
    std::vector<unsigned> buffers;
  };
  std::vector<Step> steps;
  std::vector<uint64_t> bufferBytes; ///< per buffer
};

} // namespace tw::memory

#endif // COMPILER_MEMORY_ORDERPROBLEM_H
