//===- OrderVerifier.cpp - Judges an order of steps -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/memory/OrderVerifier.h"

#include <algorithm>
#include <optional>

using namespace tw;
using namespace tw::memory;

llvm::Expected<uint64_t> memory::peakOf(const OrderProblem &problem, llvm::ArrayRef<unsigned> order) {
  if (order.size() != problem.steps.size())
    return llvm::createStringError("the order has %zu steps, expected %zu", order.size(), problem.steps.size());
  std::vector<std::optional<size_t>> positions(problem.steps.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] >= problem.steps.size())
      return llvm::createStringError("position %zu of the order has step %u, expected less than %zu", i, order[i],
                                     problem.steps.size());
    if (positions[order[i]])
      return llvm::createStringError("step %u comes at positions %zu and %zu of the order", order[i], *positions[order[i]], i);
    positions[order[i]] = i;
  }
  for (size_t step = 0; step < problem.steps.size(); ++step)
    for (unsigned before : problem.steps[step].after)
      if (*positions[before] > *positions[step])
        return llvm::createStringError("step %zu at position %zu must follow step %u at position %zu", step, *positions[step],
                                       before, *positions[before]);

  // Bytes that begin and end at each position.
  std::vector<std::optional<std::pair<size_t, size_t>>> ranges(problem.bufferBytes.size());
  for (size_t step = 0; step < problem.steps.size(); ++step)
    for (unsigned buffer : problem.steps[step].buffers) {
      const size_t position = *positions[step];
      if (!ranges[buffer])
        ranges[buffer] = {position, position};
      ranges[buffer]->first = std::min(ranges[buffer]->first, position);
      ranges[buffer]->second = std::max(ranges[buffer]->second, position);
    }
  std::vector<uint64_t> begins(order.size(), 0), ends(order.size(), 0);
  for (size_t buffer = 0; buffer < ranges.size(); ++buffer)
    if (ranges[buffer]) {
      begins[ranges[buffer]->first] += problem.bufferBytes[buffer];
      ends[ranges[buffer]->second] += problem.bufferBytes[buffer];
    }
  uint64_t live = 0, peak = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    live += begins[i];
    peak = std::max(peak, live);
    live -= ends[i];
  }
  return peak;
}
