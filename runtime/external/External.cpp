//===- External.cpp - Other runtimes as yardsticks ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/external/External.h"
#include "runtime/external/Externals.h"
#include "runtime/external/Library.h"

#include <cassert>
#include <dlfcn.h>
#include <filesystem>

using namespace tw;
using namespace tw::runtime;

const std::vector<std::string> &runtime::externalNames() {
  static const std::vector<std::string> names = {"ort", "dnnl", "torch"};
  return names;
}

std::unique_ptr<External> runtime::makeExternal(const std::string &name) {
  assert((name == "ort" || name == "dnnl" || name == "torch") && "an unknown external runtime");
  return name == "ort" ? makeOnnxRuntime() : name == "dnnl" ? makeOneDnn() : makeTorch();
}

StatusOr<Library> Library::open(const std::string &what, const std::string &option, const std::string &path,
                                const std::vector<std::string> &names) {
  Library library;
  std::string tried;
  // A name without a slash is looked for by the loader, a path is not.
  std::vector<std::string> places =
      path.empty() ? names : std::vector<std::string>{path.find('/') == std::string::npos ? "./" + path : path};
  for (const std::string &place : places) {
    if ((library.handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))) {
      library.opened = place;
      return library;
    }
    const char *why = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why ? why : place.c_str());
  }
  if (!path.empty())
    return userError(option + " is '" + path + "' but must be the shared library of " + what + ": " + tried);
  return userError(what + " is not there: looked for " + names.front() + " in the loader's path (" + tried +
                   "); install it, or say where it is with " + option);
}

void *Library::symbol(const char *name) const { return dlsym(handle, name); }
