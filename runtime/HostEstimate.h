//===- HostEstimate.h - What host and link are estimated to take -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inputs of the network are in the memories of both sides before it runs, and
// its outputs are wanted on neither: what crosses the link is what one side
// makes and the other reads, once.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_HOSTESTIMATE_H
#define RUNTIME_HOSTESTIMATE_H

#include "runtime/Network.h"

#include <string>
#include <vector>

namespace tw::runtime {

/// A tensor that crosses the link between host and accelerator.
struct Crossing {
  unsigned value = 0;  ///< index into Network::values
  bool toHost = false; ///< else to the accelerator
  uint64_t bytes = 0, cycles = 0;
  std::string node; ///< on the host, that makes it or reads it first
};

/// Of one step, in cycles of the accelerator.
struct StepEstimate {
  std::vector<Crossing> crossings;    ///< right before it
  uint64_t bytes = 0, operations = 0; ///< of a kernel on the host
  uint64_t cycles = 0;
};

/// Cycles in which the host reads and writes `bytes` and computes `operations`: it does both at once.
uint64_t hostCycles(const timing::HostParams &host, uint64_t bytes, uint64_t operations);
/// Cycles in which one tensor of `bytes` crosses the link.
uint64_t linkCycles(const timing::HostParams &host, uint64_t bytes);

/// One for each step, and one with the crossings of what the remainder reads.
std::vector<StepEstimate> estimateSteps(const Network &network);

/// Puts the bytes of crossings onto the nodes of `offload`.
void addLinkBytes(std::vector<Offload> &offload, const std::vector<StepEstimate> &steps);

} // namespace tw::runtime

#endif // RUNTIME_HOSTESTIMATE_H
