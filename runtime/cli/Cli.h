//===- Cli.h - What the commands of `tilewright` share ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_CLI_CLI_H
#define RUNTIME_CLI_CLI_H

#include "runtime/Network.h"
#include "runtime/RuleExplanation.h"
#include "runtime/Session.h"
#include "runtime/Status.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace tw::cli {

using runtime::Status;
using runtime::StatusOr;
using runtime::userError;

/// What the parsed command line asks for; set by the callback of the chosen subcommand.
using Action = std::function<Status()>;

/// Each adds its subcommand to `app`; parsing it sets `action`.
void addRunCommand(CLI::App &app, Action &action);
void addCompileCommand(CLI::App &app, Action &action);
void addCompareCommand(CLI::App &app, Action &action);
void addProfileCommand(CLI::App &app, Action &action);
void addVerifyCommand(CLI::App &app, Action &action);
void addQuantizeCommand(CLI::App &app, Action &action);
void addTuneCommand(CLI::App &app, Action &action);
void addDramCommand(CLI::App &app, Action &action);
void addHwCommand(CLI::App &app, Action &action);
void addPythonCommands(CLI::App &app, Action &action);
void addAssemblerCommands(CLI::App &app, Action &action);
void addDoctorCommand(CLI::App &app, Action &action);
void addCheckCommand(CLI::App &app, Action &action);
void addOperatorsCommand(CLI::App &app, Action &action);
void addRulesCommand(CLI::App &app, Action &action);

/// Commands, options and their helps as JSON, which scripts/man-pages.py reads.
std::string describe(const CLI::App &app);

/// The interpreter that the Python package is built for.
constexpr const char *kPython = "/usr/bin/python3";
/// The folder that holds the Python package: of a build tree, of an installed one, or of a wheel. Empty: there is none.
std::string pythonPackageFolder();

/// A tensor that the command line names: `FILE` or `NAME=FILE`.
struct TensorArgument {
  std::string name; ///< empty if it has none
  std::string file;
  runtime::HostTensor tensor;
};

/// Reads `FILE` and `NAME=FILE` arguments.
StatusOr<std::vector<TensorArgument>> readTensorFiles(const std::vector<std::string> &arguments);

/// MODEL, --hw, --set, --schedule, --across, --priority, --cost-model, --load-plugin, --shape, --const, --fallback, --math, --rules, --disable-rule and --seed: how a model becomes a network.
struct ModelArguments {
  std::string model;
  std::vector<std::string> shapes, constants, aliases, plugins;
  std::string fallback = "cpu";
  std::string math = graph::kMathNames[size_t(graph::Math::Exact)];
  std::string rules = graph::kRuleSetNames[size_t(graph::RuleSet::All)];
  std::vector<std::string> disabledRules;
  runtime::NetworkOptions network;
  uint64_t seed = 1;
  std::string explainFile, explainRulesFile; ///< of addExplain(); empty: none

  void addTo(CLI::App &command);
  /// --explain and --explain-rules, for commands that compile one model.
  void addExplain(CLI::App &command);
  /// The network options, --shape and --const included; loads the plug-ins, so it is called once. What
  /// the options name is an input from now on. The shapes of `inputs` fix dims that the
  /// model leaves open; `batch`: their dim 0 counts runs. Errors: a shape or a constant that is none, a library that is no plug-in.
  StatusOr<runtime::NetworkOptions> options(const std::vector<TensorArgument> &inputs = {}, bool batch = false) const;
};

/// Digits alone: CLI11 takes a negative number for a large one.
CLI::Validator wholeNumber(uint64_t least = 0, uint64_t most = UINT64_MAX);

/// An option that may be given several times, with one value each.
CLI::Option *addRepeated(CLI::App &command, const std::string &name, std::vector<std::string> &values, const std::string &help);

/// Tensors for `specs`: named ones first, the others in order. Missing ones stay empty. `what` is "input" or "output", for messages.
StatusOr<std::vector<std::optional<runtime::HostTensor>>>
assignTensors(std::vector<TensorArgument> arguments, const std::vector<runtime::TensorSpec> &specs, const std::string &what);

/// Refuses what runtime::FileSet would refuse when the results are there: an hour may lie between. Empty outputs are none.
Status checkOutputs(const std::vector<std::string> &outputs);

/// The inputs of a network from `files` as assignTensors() takes them, or random ones if there are none.
StatusOr<std::vector<runtime::HostTensor>> fitInputs(std::vector<TensorArgument> files, uint64_t seed,
                                                     const std::vector<runtime::TensorSpec> &specs);

/// --technology: whose joules and square micrometres a report counts.
void addTechnology(CLI::App &command, std::string &technology);
/// An error if there is no such technology, or it is wrong; empty is the machine's.
Status checkTechnology(const std::string &technology);

/// A line on the terminal that says what takes so long; nothing where standard error is no terminal.
class Progress {
public:
  ~Progress() { clear(); }
  void show(const std::string &text);
  void show(const pipeline::SearchProgress &search);
  void clear();

private:
  bool shown = false;
};

/// An error if every kernel falls back to the CPU, with the reasons; `purpose` says what needs the accelerator.
Status requireAccelerator(const runtime::Network &network, const std::string &purpose);

/// "tilewright: note: ..." on standard error.
void printNotes(const std::vector<std::string> &notes);

/// --device: which device of OpenCL.
void addOpenClDevice(CLI::App &command, std::string &device);

} // namespace tw::cli

#endif // RUNTIME_CLI_CLI_H
