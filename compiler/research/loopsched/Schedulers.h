//===- Schedulers.h - The built-in schedulers -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_RESEARCH_LOOPSCHED_SCHEDULERS_H
#define COMPILER_RESEARCH_LOOPSCHED_SCHEDULERS_H

#include "compiler/research/loopsched/SchedulerRegistry.h"

namespace tw::loopsched {

/// One operation at a time, one slot for each buffer.
Result<Schedule> scheduleSerial(const Problem &problem, const SchedulerOptions &options);

/// Two stages: operations that wait for nothing of their iteration (loads) work one iteration ahead into a second slot,
/// or, where that does not fit, in the stage of the others; the best choice of those that run ahead. Never more than
/// two slots.
Result<Schedule> scheduleDoubleBuffer(const Problem &problem, const SchedulerOptions &options);

/// Iterative modulo scheduling with as many slots as lifetimes need and memories hold.
/// source: B. R. Rau, Iterative modulo scheduling, IJPP 24(1), 1996
Result<Schedule> scheduleModulo(const Problem &problem, const SchedulerOptions &options);

/// modulo, then branch and bound over order, stages, depths and rings below its initiation interval. Optimal unless the
/// budget runs out.
Result<Schedule> scheduleSearch(const Problem &problem, const SchedulerOptions &options);

} // namespace tw::loopsched

#endif // COMPILER_RESEARCH_LOOPSCHED_SCHEDULERS_H
