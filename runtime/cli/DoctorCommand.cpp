//===- DoctorCommand.cpp - tilewright doctor ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the commands need besides this program is looked for as they look for it.
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/files/Installation.h"
#include "runtime/Report.h"
#include "runtime/cli/Cli.h"
#include "runtime/opencl/OpenCl.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <sstream>

using namespace tw;
using namespace tw::cli;

namespace fs = std::filesystem;

namespace {

/// A thing that is looked for.
struct Check {
  std::string what;
  std::string found; ///< its version or place; empty if it is missing
  std::string neededFor, howToGet;
};

/// What a command of the shell prints on standard output.
std::string outputOf(const std::string &command) {
  std::string text;
  if (FILE *pipe = popen((command + " 2>/dev/null").c_str(), "r")) {
    char buffer[256];
    while (const size_t size = fread(buffer, 1, sizeof buffer, pipe))
      text.append(buffer, size);
    pclose(pipe);
  }
  return text;
}

std::string firstLineOf(const std::string &command) {
  const std::string text = outputOf(command);
  return text.substr(0, text.find('\n'));
}

/// The text as one word of the shell.
std::string shellQuoted(const std::string &text) {
  std::string result = "'";
  for (char c : text)
    result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// The first of shared libraries that can be opened, as the system finds them.
std::string firstLibrary(const std::vector<const char *> &names) {
  for (const char *name : names)
    if (void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
      dlclose(library);
      return name;
    }
  return "";
}

void addRtl(std::vector<Check> &checks) {
  const char *purpose = "verify, run --model rtl";
  checks.push_back({"Verilator", firstLineOf("verilator --version"), purpose, "apt-get install verilator"});
  checks.push_back({"make", firstLineOf("make --version"), purpose, "apt-get install make"});
  const char *chosen = std::getenv("CXX");
  std::string compiler;
  for (const std::string &name :
       chosen &&*chosen ? std::vector<std::string>{chosen} : std::vector<std::string>{TILEWRIGHT_CXX, "c++"})
    if (compiler.empty())
      compiler = firstLineOf((chosen && *chosen ? name : shellQuoted(name)) + " --version");
  checks.push_back({"C++ compiler", compiler, std::string(purpose) + ", programs with the code of compile --target cpu",
                    "apt-get install clang-14, or set CXX"});
}

void addPython(std::vector<Check> &checks) {
  const std::string python = shellQuoted(kPython), folder = pythonPackageFolder();
  const std::string version = firstLineOf(python + " --version");
  checks.push_back({"Python", version, "sweep, sensitivity, report, view, the Python package", "apt-get install python3"});
  std::string package;
  if (!version.empty() && !folder.empty() &&
      firstLineOf("PYTHONPATH=" + shellQuoted(folder) + " " + python + " -c 'import tilewright; print(1)'") == "1")
    package = folder;
  checks.push_back({"Python package", package, "sweep, sensitivity, report, view, import tilewright",
                    folder.empty()
                        ? "install python3-tilewright (docs/packages.md); or scripts/setup.sh python, then build again"
                        : "build again for this Python: the package in " + folder + " cannot be imported"});
  struct Module {
    const char *name, *neededFor, *package;
  };
  const Module modules[] = {{"numpy", "arrays of the Python package", "python3-numpy"},
                            {"pandas", "to_pandas() of the Python package", "python3-pandas"},
                            {"yaml", "sweep", "python3-yaml"},
                            {"optuna", "samplers of sweep", "python3-optuna"},
                            {"distributed", "sweep on a cluster", "python3-distributed"},
                            {"matplotlib", "plots of sweep", "python3-matplotlib"}};
  // One process for all: a line "NAME FILE" for each that is there; nothing is imported.
  std::string script = "import importlib.util as u\nfor n in (";
  for (const Module &module : modules)
    script += "\"" + std::string(module.name) + "\",";
  script += "):\n s = u.find_spec(n)\n if s: print(n, s.origin)\n";
  std::istringstream lines(version.empty() ? "" : outputOf(python + " -c " + shellQuoted(script)));
  std::map<std::string, std::string> places;
  for (std::string name, place; lines >> name && std::getline(lines >> std::ws, place);)
    places[name] = place;
  for (const Module &module : modules)
    checks.push_back({"Python module " + std::string(module.name), places[module.name], module.neededFor,
                      "apt-get install " + std::string(module.package)});
}

/// The page without data, as tilewright/report/page.py looks for it.
void addReportPage(std::vector<Check> &checks) {
  const fs::path page = fs::path(files::shareFolder()) / "report/template.html";
  std::error_code failure;
  checks.push_back({"page of report", fs::is_regular_file(page, failure) ? page.string() : "", "report, view",
                    "scripts/setup.sh web (node 18 or newer, npm), then scripts/report-page.sh"});
}

void addLibraries(std::vector<Check> &checks) {
  checks.push_back(
      {"GPU driver", firstLibrary({"libcuda.so.1"}), "running on a GPU (--targets gpu)", "NVIDIA's driver, CUDA 12 or later"});
  std::string devices;
  if (const auto loader = runtime::opencl::Loader::open())
    for (size_t i = 0; i < (*loader)->devices().size(); ++i)
      devices += (i ? "; " : "") + std::to_string(i) + ": " + (*loader)->devices()[i].name;
  checks.push_back({"OpenCL device", devices, "run --target opencl, compare --targets opencl",
                    "a driver of the device; PoCL for the processor: apt-get install pocl-opencl-icd"});
  checks.push_back({"ONNX Runtime", firstLibrary({"libonnxruntime.so.1", "libonnxruntime.so"}), "compare --external ort",
                    "a release of ONNX Runtime; --ort FILE names its library"});
  checks.push_back({"oneDNN", firstLibrary({"libdnnl.so.2"}), "compare --external dnnl", "apt-get install libdnnl2"});
}

/// Prints what there is. User error: the installation itself is not whole.
Status doctor() {
  const fs::path share = files::shareFolder();
  std::error_code failure;
  std::string broken;
  size_t numMachines = 0;
  for (const hwconfigs::ShippedMachine &machine : hwconfigs::shippedMachines())
    numMachines += hwconfigs::loadMachine(machine.path) ? 1 : 0;
  if (numMachines == 0)
    broken += "no machine can be read in " + (share / "hw-configs").string() + "\n";
  if (!fs::exists(share / "rtl", failure))
    broken += "there is no RTL in " + share.string() + "\n";
  if (!broken.empty())
    return userError(broken + "the installation is not whole: build and install it again (docs/files.md)");
  std::printf("Tilewright %s, %zu machines, in %s\n\n", TILEWRIGHT_VERSION, numMachines, share.c_str());
  std::vector<Check> checks;
  addRtl(checks);
  addPython(checks);
  addReportPage(checks);
  addLibraries(checks);
  runtime::Table table({"what", "found", "needed for", "how to get it"}, 3);
  size_t missing = 0;
  for (const Check &check : checks) {
    missing += check.found.empty();
    table.add(
        {check.what, check.found.empty() ? "no" : check.found, check.neededFor, check.found.empty() ? check.howToGet : ""});
  }
  std::fputs(table.str().c_str(), stdout);
  if (missing)
    std::printf("\n%zu of %zu missing; what does not need them works without.\n", missing, checks.size());
  return {};
}

} // namespace

void cli::addDoctorCommand(CLI::App &app, Action &action) {
  app.add_subcommand("doctor", "what this host has of the programs and libraries that some commands need")->callback([&action] {
    action = doctor;
  });
}
