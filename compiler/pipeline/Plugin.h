//===- Plugin.h - Additions of shared libraries to the compiler --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A plug-in of the compiler defines at least one of the functions below, and says
// TILEWRIGHT_PLUGIN once (docs/plugins.md).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_PIPELINE_PLUGIN_H
#define COMPILER_PIPELINE_PLUGIN_H

#include "compiler/schedule/Plugin.h"

#include <string>
#include <vector>

namespace tw::pipeline {

/// Loads the shared library `path` and lets it add its strategies, priorities and cost models. Returns what it added, for people: "strategy NAME". It
/// stays loaded. Errors: those of schedule::openPlugin(), it defines none of the functions, it throws, or it adds nothing.
Result<std::vector<std::string>> loadPlugin(const std::string &path);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_PLUGIN_H
