//===- Synchronize.h - Semaphores for a stream of operations -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every hazard between engines becomes a post and a wait on the semaphore of that
// pair of engines, unless something the waiting engine already knows implies it. A
// pair uses several in turn where one could count too far.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_SYNCHRONIZE_H
#define COMPILER_SCHEDULE_SYNCHRONIZE_H

#include "compiler/schedule/TileProgram.h"
#include "isa/Diagnostic.h"

#include <optional>

namespace tw::schedule {

/// Fills the waits and posts of every operation. Fails where the program needs more semaphores than the machine has, or an
/// operation more waits or posts than an instruction holds (TooManyWaits: a spare byte would help). With `spare`, the first of a byte
/// for each load engine in scratchpad 0 that nothing uses, loads that fill it are put in where that helps: such a load takes waits
/// for another engine, or has posts when its own engine has no more.
Result<bool> synchronize(TileProgram &program, const timing::MachineParams &machine,
                         std::optional<int64_t> spare = std::nullopt);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_SYNCHRONIZE_H
