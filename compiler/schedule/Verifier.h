//===- Verifier.h - Is every hazard of a program ordered? --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Judges a finished program alone. It shares no code with synchronisation or any
// scheduler: it executes the instruction stream in program order, with loops and
// odometers, and follows what each engine can know to have happened.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_VERIFIER_H
#define COMPILER_SCHEDULE_VERIFIER_H

#include "isa/Diagnostic.h"
#include "isa/Program.h"
#include "isa/timing/MachineParams.h"

namespace tw::schedule {

/// Every problem of `program` on `machine` (at most 20): an instruction that is illegal or leaves a memory; a wait that earlier
/// posts do not satisfy; a semaphore with two posting or two waiting engines, or that may overflow; a preload or swap out of
/// turn, or a tensor instruction before the first; a RAW, WAR or WAW pair that no semaphore chain orders (WAR, WAW and
/// accumulation: nor the order of one engine); a read of on-chip bytes, or a sum added to, that nothing wrote; a vector
/// instruction that reads where it writes, other than in place; a tensor instruction that visits a row twice; a store over the
/// code or a constant.
Diagnostics verifySchedule(const isa::Program &program, const timing::MachineParams &machine);

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_VERIFIER_H
