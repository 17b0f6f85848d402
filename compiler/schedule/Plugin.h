//===- Plugin.h - Shared libraries that add to the compiler -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plug-in says TILEWRIGHT_PLUGIN once and defines a function for each sort of
// thing that it adds (docs/plugins.md).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_PLUGIN_H
#define COMPILER_SCHEDULE_PLUGIN_H

#include "isa/Diagnostic.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tw::cost {
class CostModelRegistry;
} // namespace tw::cost
namespace tw::explore {
class StrategyRegistry;
} // namespace tw::explore

namespace tw::schedule {

class PriorityRegistry;

/// Changes with every change of a header that plug-ins include: a plug-in built against another one is refused.
constexpr unsigned kPluginVersion = 3;

/// A plug-in of the right version. It stays loaded for the rest of the process.
class PluginLibrary {
public:
  /// Null if the plug-in does not define it.
  template <typename Function> Function *find(const char *function) const {
    return reinterpret_cast<Function *>(symbol(function));
  }
  /// Runs `function`, which calls functions of the plug-in. An error if it throws.
  std::optional<Diagnostic> call(const std::function<void()> &function) const;
  Diagnostic error(const std::string &message) const { return {path, 0, 0, message}; }

private:
  friend Result<PluginLibrary> openPlugin(const std::string &path, const std::vector<std::string> &functions);
  PluginLibrary(std::string path, void *handle) : path(std::move(path)), handle(handle) {}
  void *symbol(const char *name) const;

  std::string path;
  void *handle;
};

/// Loads the shared library `path`. Errors: not a loadable library, not a plug-in, another version, or none of `functions` is defined.
Result<PluginLibrary> openPlugin(const std::string &path, const std::vector<std::string> &functions);

} // namespace tw::schedule

/// Exports the version the plug-in was built against.
#define TILEWRIGHT_PLUGIN                                                                                                      \
  extern "C" unsigned tilewrightPluginVersion() { return tw::schedule::kPluginVersion; }

/// Defined by a plug-in that has strategies (compiler/explore/Exploration.h).
extern "C" void tilewrightRegisterStrategies(tw::explore::StrategyRegistry &registry);
/// Defined by a plug-in that has priorities (compiler/schedule/PriorityFunction.h).
extern "C" void tilewrightRegisterPriorities(tw::schedule::PriorityRegistry &registry);
/// Defined by a plug-in that has cost models (compiler/cost/CostModel.h).
extern "C" void tilewrightRegisterCostModels(tw::cost::CostModelRegistry &registry);

#endif // COMPILER_SCHEDULE_PLUGIN_H
