//===- YamlText.h - YAML that people write ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How every file of this folder becomes nodes, and what its messages share.
//===----------------------------------------------------------------------===//
#ifndef HW_CONFIGS_YAMLTEXT_H
#define HW_CONFIGS_YAMLTEXT_H

#include "isa/Diagnostic.h"

#include <yaml-cpp/yaml.h>

#include <string>

namespace tw::hwconfigs {

struct Place {
  std::string file;
  unsigned line = 0, column = 0;
};

/// A place of yaml-cpp's in `file`; its lines and columns count from 0.
Place placeAt(const YAML::Mark &mark, const std::string &file);

/// At most 60 characters of what stands in a file, in quotes.
std::string quote(const std::string &text);

/// The nodes of `text`, one block of keys. A null node after a problem, which is appended to `problems`: no YAML, no block, more than
/// one document, or more keys and values than any machine has.
YAML::Node parseYaml(const std::string &text, const std::string &from, Diagnostics &problems);

} // namespace tw::hwconfigs

#endif // HW_CONFIGS_YAMLTEXT_H
