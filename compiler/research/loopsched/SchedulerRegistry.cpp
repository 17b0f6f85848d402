//===- SchedulerRegistry.cpp - Schedulers by name -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/research/loopsched/SchedulerRegistry.h"
#include "compiler/research/loopsched/Constraints.h"
#include "compiler/research/loopsched/Schedulers.h"

#include <deque>

using namespace tw;
using namespace tw::loopsched;

namespace {

class Registry : public SchedulerRegistry {
public:
  bool add(const std::string &name, Scheduler scheduler) override {
    if (name.empty() || !scheduler || find(name))
      return false;
    entries.emplace_back(name, std::move(scheduler));
    return true;
  }
  const Scheduler *find(const std::string &name) const override {
    for (const auto &[known, scheduler] : entries)
      if (known == name)
        return &scheduler;
    return nullptr;
  }
  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (const auto &[name, scheduler] : entries)
      result.push_back(name);
    return result;
  }

private:
  /// A deque: what find() returns stays where it is when others are added.
  std::deque<std::pair<std::string, Scheduler>> entries;
};

Diagnostics failure(const std::string &prefix, const std::vector<std::string> &messages) {
  Diagnostics result;
  for (const std::string &message : messages)
    result.push_back({"", 0, 0, prefix + message});
  return result;
}

} // namespace

SchedulerRegistry &loopsched::schedulers() {
  // Never destroyed: it may hold functions of a plug-in that is unloaded before.
  static Registry &registry = *[] {
    auto *it = new Registry;
    it->add("serial", scheduleSerial);
    it->add("double_buffer", scheduleDoubleBuffer);
    it->add("modulo", scheduleModulo);
    it->add("search", scheduleSearch);
    return it;
  }();
  return registry;
}

Result<Schedule> loopsched::runScheduler(const std::string &name, const Problem &problem, const SchedulerOptions &options,
                                         const SchedulerRegistry &registry) {
  const Scheduler *scheduler = registry.find(name);
  if (!scheduler) {
    std::string known;
    for (const std::string &it : registry.names())
      known += (known.empty() ? "" : ", ") + it;
    return Diagnostic{"", 0, 0, "there is no scheduler '" + name + "', expected one of " + known};
  }
  if (std::vector<std::string> errors = check(problem); !errors.empty())
    return failure("", errors);
  for (unsigned b = 0; b < problem.buffers.size(); ++b)
    if (largestDepth(problem, b) < 1)
      return Diagnostic{"", 0, 0,
                        "buffer '" + problem.buffers[b].name + "' does not fit into memory '" +
                            problem.memories[problem.buffers[b].memory].name + "'"};
  Result<Schedule> result = (*scheduler)(problem, options);
  if (!result)
    return result;
  if (result->rings.empty() && result->placements.empty() && result->ii > 0 &&
      result->start.size() == problem.operations.size() && !placeBuffers(problem, *result))
    return Diagnostic{"", 0, 0, "scheduler '" + name + "': the buffers of its schedule do not fit into the memories"};
  if (std::vector<std::string> errors = verify(problem, *result); !errors.empty())
    return failure("scheduler '" + name + "': ", errors);
  return result;
}
