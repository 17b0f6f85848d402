//===- Plugin.h - Schedulers from shared libraries --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plug-in includes this header, says TILEWRIGHT_PLUGIN once and defines
// tilewrightRegisterSchedulers(). See docs/plugins.md.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_PLUGIN_H
#define COMPILER_SCHEDULE_PLUGIN_H

#include "compiler/schedule/SchedulerRegistry.h"

namespace tw::schedule {

/// Changes with every change of Problem, Schedule or SchedulerRegistry: a plug-in built against another one is refused.
constexpr unsigned kPluginVersion = 1;

/// Loads the shared library `path` and lets it add its schedulers to `registry`. Returns their names. It stays loaded.
/// Errors: not a loadable library, not a plug-in, another version, it throws, or it adds nothing.
Result<std::vector<std::string>> loadPlugin(const std::string &path, SchedulerRegistry &registry = schedulers());

} // namespace tw::schedule

/// Exports the version the plug-in was built against.
#define TILEWRIGHT_PLUGIN                                                                                                      \
  extern "C" unsigned tilewrightPluginVersion() { return tw::schedule::kPluginVersion; }

/// Defined by the plug-in: adds its schedulers.
extern "C" void tilewrightRegisterSchedulers(tw::schedule::SchedulerRegistry &registry);

#endif // COMPILER_SCHEDULE_PLUGIN_H
