//===- Prefetch.h - Weights on chip long before their kernel ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel has as many slots as hide its own loads behind its own work. Where
// kernels that follow one another need more from DRAM than it brings meanwhile,
// the weights must come before, while DRAM has little to do: to memory that nothing
// else uses until then (docs/design/prefetch.md).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_PREFETCH_H
#define COMPILER_SCHEDULE_PREFETCH_H

#include "compiler/schedule/Overlap.h"

namespace tw::schedule {

/// Moves weights and parameters that would come too late, each brought by one load and read by nothing but preloads, or the parameters of
/// vector instructions: to the banks of any scratchpad that have been unused longest when their turn comes in `steps`, so that overlap()
/// may load them as much earlier. Of the first scratchpad only the first `room` bytes are used. The last load engine brings them, and keeps
/// no other load waiting. Every instruction does what it did. False, and nothing is changed, where none is late or there is no room for
/// one that is.
bool prefetch(std::vector<Step> &steps, const timing::MachineParams &machine, uint64_t room = UINT64_MAX);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_PREFETCH_H
