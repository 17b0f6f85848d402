//===- HostEstimate.h - What host and link are estimated to take -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A tensor that one side makes and the other side reads crosses the link once.
// The inputs of the network lie in the memories of both sides before a run. Its
// outputs stay where they are made.
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
  std::string node; ///< the node on the host that makes the tensor, or reads it first
};

/// The estimate of one step, in cycles of the accelerator.
struct StepEstimate {
  std::vector<Crossing> crossings;    ///< right before the step
  uint64_t bytes = 0, operations = 0; ///< of a kernel on the host
  uint64_t cycles = 0;
};

/// Cycles in which the host reads and writes `bytes` and computes `operations`: it does both at once.
uint64_t hostCycles(const timing::HostParams &host, uint64_t bytes, uint64_t operations);
/// Cycles in which one tensor of `bytes` crosses the link.
uint64_t linkCycles(const timing::HostParams &host, uint64_t bytes);

/// The estimates of the steps in their order. Behind them stands one with the crossings of the tensors that the remainder reads.
std::vector<StepEstimate> estimateSteps(const Network &network);

/// Puts the bytes of crossings onto the nodes of `offload`.
void addLinkBytes(std::vector<Offload> &offload, const std::vector<StepEstimate> &steps);

} // namespace tw::runtime

#endif // RUNTIME_HOSTESTIMATE_H
