//===- SchedulerRegistry.h - Schedulers by name -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Header only, as far as a scheduler of one's own needs it: a plug-in compiles
// against it and links with nothing.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_RESEARCH_LOOPSCHED_SCHEDULERREGISTRY_H
#define COMPILER_RESEARCH_LOOPSCHED_SCHEDULERREGISTRY_H

#include "compiler/research/loopsched/Problem.h"
#include "isa/Diagnostic.h"

#include <functional>
#include <string>
#include <vector>

namespace tw::loopsched {

struct SchedulerOptions {
  /// Equal seeds give equal schedules.
  uint64_t seed = 1;
  /// Work a search may do for each initiation interval it tries, in nodes of its search tree.
  uint64_t budget = 100000;
};

/// Makes a schedule, or says why there is none. May leave rings and placements empty.
using Scheduler = std::function<Result<Schedule>(const Problem &, const SchedulerOptions &)>;

class SchedulerRegistry {
public:
  virtual ~SchedulerRegistry() = default;
  /// False, and nothing is added, if the name is taken or empty.
  virtual bool add(const std::string &name, Scheduler scheduler) = 0;
  /// nullptr if there is none of this name. Valid as long as the registry.
  virtual const Scheduler *find(const std::string &name) const = 0;
  /// In the order of registration, the built-in ones first.
  virtual std::vector<std::string> names() const = 0;
};

/// The schedulers of this process: serial, double_buffer, modulo, search and whatever plug-ins have added.
SchedulerRegistry &schedulers();

/// Runs the scheduler `name`, fills in rings if it left them out, and verifies the result: what it returns is right.
/// Errors: no such scheduler, a problem that check() refuses, nothing fits, a schedule that verify() refuses.
Result<Schedule> runScheduler(const std::string &name, const Problem &problem, const SchedulerOptions &options = {},
                              const SchedulerRegistry &registry = schedulers());

} // namespace tw::loopsched

#endif // COMPILER_RESEARCH_LOOPSCHED_SCHEDULERREGISTRY_H
