//===- BadPlugin.cpp - Plug-ins that must be refused ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BAD_VERSION: built for another interface. BAD_EMPTY: adds nothing. BAD_NAME:
// takes a name there is. BAD_THROWS: throws. BAD_SCHEDULE: makes wrong schedules.
// BAD_PRIORITY: gives too few numbers, or what is no number. BAD_COST_MODEL: gives
// what is no number of cycles; takes a name there is as well.
//===----------------------------------------------------------------------===//
#include "compiler/cost/CostModel.h"
#include "compiler/research/loopsched/SchedulerPlugin.h"
#include "compiler/schedule/PriorityFunction.h"

#include <cmath>
#include <stdexcept>

using namespace tw;
using namespace tw::loopsched;

#ifdef BAD_VERSION
extern "C" unsigned tilewrightPluginVersion() { return schedule::kPluginVersion + 1; }
#else
TILEWRIGHT_PLUGIN
#endif

#ifdef BAD_PRIORITY
extern "C" void tilewrightRegisterPriorities(schedule::PriorityRegistry &registry) {
  registry.add("short", [](const schedule::PriorityProblem &) { return std::vector<double>{1}; });
  registry.add("nan", [](const schedule::PriorityProblem &problem) {
    return std::vector<double>(problem.operations.size(), std::nan(""));
  });
  registry.add("throws",
               [](const schedule::PriorityProblem &) -> std::vector<double> { throw std::runtime_error("no licence"); });
}
#elif defined(BAD_COST_MODEL)
namespace {
struct NoNumbers : cost::CostModel {
  double cyclesOfKernel(const cost::KernelWork &) const override { return std::nan(""); }
  double cyclesOfSteps(const cost::StepsWork &) const override { return -1; }
};
} // namespace

extern "C" void tilewrightRegisterCostModels(cost::CostModelRegistry &registry) {
  registry.add("closed_form", std::make_unique<NoNumbers>());
  registry.add("no_numbers", std::make_unique<NoNumbers>());
}
#else
extern "C" void tilewrightRegisterSchedulers(SchedulerRegistry &registry) {
#if defined(BAD_NAME)
  registry.add("serial", [](const Problem &, const SchedulerOptions &) -> Result<Schedule> { return Schedule{}; });
#elif defined(BAD_THROWS)
  throw std::runtime_error("no licence");
#elif defined(BAD_SCHEDULE)
  registry.add("hasty", [](const Problem &problem, const SchedulerOptions &) -> Result<Schedule> {
    Schedule schedule;
    schedule.ii = 1;
    schedule.start.assign(problem.operations.size(), 0);
    schedule.placements.resize(problem.buffers.size());
    return schedule;
  });
#endif
}
#endif
