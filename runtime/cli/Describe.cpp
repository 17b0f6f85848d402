//===- Describe.cpp - The command line as data ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/cli/Cli.h"

#include <nlohmann/json.hpp>

using namespace tw;
using nlohmann::json;

namespace {

json describeOption(const CLI::Option &option) {
  json names = json::array();
  for (const std::string &name : option.get_snames())
    names.push_back("-" + name);
  for (const std::string &name : option.get_lnames())
    names.push_back("--" + name);
  // A flag takes no value, whatever its type is called.
  const bool takesValue = option.get_items_expected_max() > 0;
  return {{"names", names},
          {"name", option.get_positional() ? option.get_name(true) : ""},
          {"value", takesValue ? option.get_type_name() : ""},
          {"default", option.get_default_str()},
          {"environment", option.get_envname()},
          {"required", option.get_required()},
          {"help", option.get_description()}};
}

json describeCommand(const CLI::App &command) {
  json positionals = json::array(), options = json::array(), commands = json::array();
  for (const CLI::Option *option : command.get_options()) {
    if (!option->get_group().empty()) // hidden
      (option->nonpositional() ? options : positionals).push_back(describeOption(*option));
  }
  for (const CLI::App *sub : command.get_subcommands([](const CLI::App *) { return true; }))
    commands.push_back(describeCommand(*sub));
  return {{"name", command.get_name()},
          {"help", command.get_description()},
          {"footer", command.get_footer()},
          {"takes_rest", command.get_prefix_command()}, // its options are those of another program
          {"positionals", positionals},
          {"options", options},
          {"commands", commands}};
}

} // namespace

std::string cli::describe(const CLI::App &app) {
  json document = describeCommand(app);
  document["version"] = TILEWRIGHT_VERSION;
  return document.dump(1) + "\n";
}
