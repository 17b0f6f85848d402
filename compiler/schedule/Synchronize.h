//===- Synchronize.h - Semaphores for a stream of operations -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every hazard between engines becomes a post and a wait on the one semaphore of
// that pair of engines, unless something the waiting engine already knows implies it.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_SYNCHRONIZE_H
#define COMPILER_SCHEDULE_SYNCHRONIZE_H

#include "compiler/schedule/TileProgram.h"
#include "isa/Diagnostic.h"

namespace tw::schedule {

/// Fills the waits and posts of every operation. Fails where an operation would need more of them than an instruction holds, or
/// the program more semaphores than the machine has.
Result<bool> synchronize(TileProgram &program, const timing::MachineParams &machine);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_SYNCHRONIZE_H
