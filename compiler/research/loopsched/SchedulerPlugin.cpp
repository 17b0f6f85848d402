//===- SchedulerPlugin.cpp - Schedulers from shared libraries --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/research/loopsched/SchedulerPlugin.h"

using namespace tw;
using namespace tw::loopsched;

Result<std::vector<std::string>> loopsched::loadPlugin(const std::string &path, SchedulerRegistry &registry) {
  Result<schedule::PluginLibrary> library = schedule::openPlugin(path, {"tilewrightRegisterSchedulers"});
  if (!library)
    return library.diagnostics();
  const size_t before = registry.names().size();
  auto add = library->find<void(SchedulerRegistry &)>("tilewrightRegisterSchedulers");
  if (std::optional<Diagnostic> problem = library->call([&] { add(registry); }))
    return *problem;
  std::vector<std::string> names = registry.names();
  names.erase(names.begin(), names.begin() + long(before));
  if (names.empty())
    return library->error("the plug-in added no scheduler; a name must be new and not empty");
  return names;
}
