//===- Overlap.h - Work of many kernels side by side --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels emit their steps one after the other, each step behind its loads. This
// gives every engine an order of its own over the whole network: a list scheduler
// runs the steps on estimated times, so that loads go ahead as far as their slots
// are free and the next kernel begins while the one before drains. What may pass
// what is read off the regions alone; kernels, tiles and slots are not known here.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_OVERLAP_H
#define COMPILER_SCHEDULE_OVERLAP_H

#include "compiler/cost/CostModel.h"
#include "compiler/plan/Knobs.h"
#include "compiler/schedule/TileProgram.h"

#include <limits>

namespace tw::schedule {

/// One step of a kernel: transfers to the chip, then what they are for.
struct Step {
  std::vector<Operation> loads;
  std::vector<Block> compute; ///< tensor, vector and store work
  uint32_t band = 0;          ///< of a group of kernels: their steps take turns
  uint32_t behind = 0;        ///< bands: those further behind read what the others write over in their turn
};

using plan::Bus, plan::Priority;

/// A program that does what `steps` do in their order. Every dependence of that order is kept (a read after a write, a write
/// after a read or a write); everything else may change places. No wait or post is set: that is synchronize()'s part. `work`, if
/// given, is set to that of overlappedWork() for that order. As soon as `scheduled` must be `limit` or more the program is empty, and
/// `scheduled` something that is. The program is that of the best plan: with `backwards`, plans that also go by how late each
/// operation may start are made besides (docs/design/list-scheduling.md).
TileProgram overlap(std::vector<Step> steps, const timing::MachineParams &machine, cost::StepsWork *work = nullptr,
                    double limit = std::numeric_limits<double>::infinity(), Priority priority = Priority::ProgramOrder,
                    Bus bus = Bus::Shared, bool backwards = true);

/// Estimated starts of an engine's instructions, in the order in which it executes them; a loop's iterations one by one.
using PlannedStarts = std::vector<uint64_t>;

/// Of every engine (engineIndex()), as overlap() planned `program`. Preloads are not planned on their own: that engine has none.
std::vector<PlannedStarts> plannedStarts(const TileProgram &program, const timing::MachineParams &machine);

/// The work of overlap(steps) in the order of its first plan: what a choice between tiles goes by.
cost::StepsWork overlappedWork(std::vector<Step> steps, const timing::MachineParams &machine);

/// Its cycles until everything has retired, as the list scheduler estimates them.
inline double estimateOverlapped(std::vector<Step> steps, const timing::MachineParams &machine) {
  return overlappedWork(std::move(steps), machine).scheduled;
}

} // namespace tw::schedule

#endif // COMPILER_SCHEDULE_OVERLAP_H
