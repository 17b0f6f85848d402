//===- SchedulerPlugin.h - Schedulers from shared libraries ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_RESEARCH_LOOPSCHED_SCHEDULERPLUGIN_H
#define COMPILER_RESEARCH_LOOPSCHED_SCHEDULERPLUGIN_H

#include "compiler/research/loopsched/SchedulerRegistry.h"
#include "compiler/schedule/Plugin.h"

namespace tw::loopsched {

/// Loads the shared library `path` and lets it add its schedulers to `registry`. Returns their names. It stays loaded.
/// Errors: those of schedule::openPlugin(), it throws, or it adds nothing.
Result<std::vector<std::string>> loadPlugin(const std::string &path, SchedulerRegistry &registry = schedulers());

} // namespace tw::loopsched

/// Defined by a plug-in that has schedulers.
extern "C" void tilewrightRegisterSchedulers(tw::loopsched::SchedulerRegistry &registry);

#endif // COMPILER_RESEARCH_LOOPSCHED_SCHEDULERPLUGIN_H
