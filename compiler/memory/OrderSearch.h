//===- OrderSearch.h - Orders with the least peak of live bytes --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sets of finished steps are states. A beam search finds an order; then
// thresholds are tried from the lower bound on, each by a depth-first search
// that remembers states which lead nowhere, until one is reached or the states
// are spent (the space of SERENITY: Ahn et al., MLSys 2020). A chain of steps that ends with no more live bytes than it began with, and on
// the way does not exceed the threshold, is taken at once (Liu, SIAM J.
// Algebraic Discrete Methods 1987): networks collapse to where branches meet.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_MEMORY_ORDERSEARCH_H
#define COMPILER_MEMORY_ORDERSEARCH_H

#include "compiler/memory/OrderProblem.h"

#include <cstddef>

namespace tw::memory {

struct OrderLimits {
  size_t beamWidth = 16;
  /// States that the exact search visits at most, all thresholds together; 0: beam search alone.
  size_t states = size_t(1) << 15;
};

struct Order {
  std::vector<unsigned> steps;
  uint64_t peakBytes = 0;
  /// No order has a smaller peak.
  uint64_t boundBytes = 0;
  bool isOptimal() const { return peakBytes == boundBytes; }
};

/// No order has a smaller peak: the largest step with all that must be alive then, since steps before and behind it touch that.
uint64_t peakBound(const OrderProblem &problem);

/// An order that is no worse than the steps as they are given, and best if it is optimal. The given order, unless another one has a smaller
/// peak. Deterministic.
Order orderSteps(const OrderProblem &problem, const OrderLimits &limits = {});

} // namespace tw::memory

#endif // COMPILER_MEMORY_ORDERSEARCH_H
