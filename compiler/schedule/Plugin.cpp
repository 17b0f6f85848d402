//===- Plugin.cpp - Schedulers from shared libraries ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/schedule/Plugin.h"

#include <dlfcn.h>
#include <exception>

using namespace tw;
using namespace tw::schedule;

Result<std::vector<std::string>> schedule::loadPlugin(const std::string &path, SchedulerRegistry &registry) {
  auto error = [&](const std::string &message) { return Diagnostic{path, 0, 0, message}; };
  // Without a slash dlopen() would look into the system's folders instead of the file named.
  void *library = dlopen((path.find('/') == std::string::npos ? "./" + path : path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::string text = dlerror();
    if (size_t colon = text.find(": "); colon != std::string::npos)
      text = text.substr(colon + 2);
    return error("cannot load the plug-in: " + text);
  }
  auto version = reinterpret_cast<unsigned (*)()>(dlsym(library, "tilewrightPluginVersion"));
  auto add = reinterpret_cast<void (*)(SchedulerRegistry &)>(dlsym(library, "tilewrightRegisterSchedulers"));
  if (!version || !add) {
    dlclose(library);
    return error(std::string("not a plug-in: it does not export ") +
                 (version ? "tilewrightRegisterSchedulers" : "tilewrightPluginVersion"));
  }
  if (unsigned built = version(); built != kPluginVersion) {
    dlclose(library);
    return error("the plug-in was built for version " + std::to_string(built) +
                 " of the interface but this is version " + std::to_string(kPluginVersion));
  }
  // From here on the registry may hold its functions: it is never closed.
  size_t before = registry.names().size();
  try {
    add(registry);
  } catch (const std::exception &exception) {
    return error(std::string("the plug-in failed to register: ") + exception.what());
  } catch (...) {
    return error("the plug-in failed to register: it threw something that is no std::exception");
  }
  std::vector<std::string> names = registry.names();
  names.erase(names.begin(), names.begin() + before);
  if (names.empty())
    return error("the plug-in added no scheduler; a name must be new and not empty");
  return names;
}
