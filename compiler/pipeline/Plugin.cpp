//===- Plugin.cpp - Additions of shared libraries to the compiler ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/pipeline/Plugin.h"

#include "compiler/cost/CostModel.h"
#include "compiler/explore/Exploration.h"
#include "compiler/schedule/PriorityFunction.h"

using namespace tw;
using namespace tw::pipeline;

namespace {
class Strategies : public explore::StrategyRegistry {
public:
  explicit Strategies(std::vector<std::string> &added) : added(added) {}
  bool add(std::unique_ptr<explore::Strategy> strategy) override {
    const std::string name = strategy ? strategy->name() : "";
    if (!explore::addStrategy(std::move(strategy)))
      return false;
    added.push_back("strategy " + name);
    return true;
  }

private:
  std::vector<std::string> &added;
};

class Priorities : public schedule::PriorityRegistry {
public:
  explicit Priorities(std::vector<std::string> &added) : added(added) {}
  bool add(const std::string &name, schedule::PriorityFunction function) override {
    if (!schedule::priorities().add(name, std::move(function)))
      return false;
    added.push_back("priority " + name);
    return true;
  }
  const schedule::PriorityFunction *find(const std::string &name) const override { return schedule::priorities().find(name); }
  std::vector<std::string> names() const override { return schedule::priorities().names(); }

private:
  std::vector<std::string> &added;
};

class CostModels : public cost::CostModelRegistry {
public:
  explicit CostModels(std::vector<std::string> &added) : added(added) {}
  bool add(const std::string &name, std::unique_ptr<cost::CostModel> model) override {
    if (!cost::costModels().add(name, std::move(model)))
      return false;
    added.push_back("cost model " + name);
    return true;
  }
  const cost::CostModel *find(const std::string &name) const override { return cost::costModels().find(name); }
  std::vector<std::string> names() const override { return cost::costModels().names(); }

private:
  std::vector<std::string> &added;
};
} // namespace

Result<std::vector<std::string>> pipeline::loadPlugin(const std::string &path) {
  Result<schedule::PluginLibrary> library = schedule::openPlugin(
      path, {"tilewrightRegisterStrategies", "tilewrightRegisterPriorities", "tilewrightRegisterCostModels"});
  if (!library)
    return library.diagnostics();
  std::vector<std::string> added;
  Strategies strategies(added);
  Priorities priorities(added);
  CostModels costModels(added);
  std::optional<Diagnostic> problem = library->call([&] {
    if (auto add = library->find<void(explore::StrategyRegistry &)>("tilewrightRegisterStrategies"))
      add(strategies);
    if (auto add = library->find<void(schedule::PriorityRegistry &)>("tilewrightRegisterPriorities"))
      add(priorities);
    if (auto add = library->find<void(cost::CostModelRegistry &)>("tilewrightRegisterCostModels"))
      add(costModels);
  });
  if (problem)
    return *problem;
  if (added.empty())
    return library->error("the plug-in added no strategy, no priority and no cost model; a name must be new and not empty");
  return added;
}
