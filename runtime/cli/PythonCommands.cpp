//===- PythonCommands.cpp - Commands that are written in Python -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `tilewright sweep` is `python3 -m tilewright.sweep`, and so on, with the package that
// stands beside this program.
//===----------------------------------------------------------------------===//
#include "runtime/cli/Cli.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <unistd.h>

using namespace tw;
using namespace tw::cli;

namespace fs = std::filesystem;

std::string cli::pythonPackageFolder() {
  std::error_code failure;
  const fs::path bin = fs::read_symlink("/proc/self/exe", failure).parent_path();
  for (const fs::path &folder : {bin / "../python", bin / "../lib/python3/dist-packages", bin / "../.."})
    if (fs::exists(folder / "tilewright/__init__.py", failure))
      return fs::weakly_canonical(folder, failure).string();
  return {};
}

namespace {
/// Becomes the Python module. Returns only where that fails.
Status become(const std::string &module, const std::vector<std::string> &arguments) {
  std::error_code failure;
  const fs::path program = fs::read_symlink("/proc/self/exe", failure), folder = pythonPackageFolder();
  if (folder.empty())
    return userError(
        "the Python package is not there: install python3-tilewright (docs/packages.md), or build it: scripts/setup.sh python "
        "sweep, then build again");
  const char *path = std::getenv("PYTHONPATH");
  setenv("PYTHONPATH", path && *path ? (folder.string() + ":" + path).c_str() : folder.c_str(), 1);
  setenv("TILEWRIGHT", program.c_str(), 0);
  std::vector<std::string> command{kPython, "-m", module};
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::vector<char *> pointers;
  for (std::string &text : command)
    pointers.push_back(text.data());
  pointers.push_back(nullptr);
  std::fflush(stdout);
  execv(kPython, pointers.data());
  return userError(std::string("cannot run ") + kPython + ": " + std::strerror(errno));
}
} // namespace

void cli::addPythonCommands(CLI::App &app, Action &action) {
  for (auto [name, module, help] :
       {std::tuple("sweep", "tilewright.sweep", "run a network on many machines and keep every result (docs/sweep.md)"),
        std::tuple("sensitivity", "tilewright.sensitivity",
                   "which parameter of a machine its cycles depend on most (docs/sweep.md)"),
        std::tuple("report", "tilewright.report", "make one HTML page of results (docs/report.md)"),
        std::tuple("view", "tilewright.report.view", "serve such a page on 127.0.0.1 (docs/report.md)")}) {
    CLI::App *command = app.add_subcommand(name, help);
    command->set_help_flag(); // the module has its own
    command->prefix_command();
    command->callback([command, module = std::string(module), &action] {
      action = [arguments = command->remaining(), module] { return become(module, arguments); };
    });
  }
}
