//===- OperatorsCommand.cpp - tilewright operators ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "runtime/Files.h"
#include "runtime/OffloadCheck.h"
#include "runtime/Report.h"
#include "runtime/cli/Cli.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <map>

using namespace tw;
using namespace tw::cli;
using json = nlohmann::ordered_json;

namespace {

struct OperatorsArguments {
  std::string target, machine, jsonFile;
  bool isMarkdown = false;
};

/// Where an operator can run. A GPU or a device of OpenCL has nobody who evaluates what does not become a kernel.
const char *placeOf(const runtime::OperatorSupport &op, const std::string &target) {
  return op.isKernel ? "kernels" : target == "gpu" || target == "opencl" ? "no" : "host";
}

/// What the types of kernels hang on.
std::string typeNote(const std::string &target, const std::string &machine, const std::string &type) {
  if (!machine.empty())
    return "The array of " + machine + " multiplies " + type +
           "; the machine runs kernels whose types and forms it has, the CPU the others.";
  if (target == "gpu")
    return "A network for a GPU has kernels alone.";
  if (target == "opencl")
    return "A network for OpenCL has kernels alone.";
  if (target == "cpu")
    return "Kernels are code for the CPU; the host evaluates the other operators.";
  return "Kernels run on the accelerator where the machine has their types and forms, else as code for the CPU; on a GPU as "
         "its\n"
         "code. The host evaluates the other operators.";
}

std::string markdown(const std::vector<runtime::OperatorSupport> &operators, const std::string &target, const std::string &note,
                     const std::string &command) {
  std::map<std::string, std::pair<size_t, size_t>> counts; // of a domain: kernels, all
  for (const runtime::OperatorSupport &op : operators) {
    counts[op.domain].first += op.isKernel;
    ++counts[op.domain].second;
  }
  std::string text = "# Operators\n\nWhat is read of ONNX models, and where it runs. Written by `" + command +
                     "`; a test compares.\n`tilewright check MODEL` says the same of the nodes of a model, with reasons.\n\n" +
                     note +
                     " `kernels`: some form of the operator becomes one;\n[import.md](import.md) says what happens to the "
                     "others. **fuses as**, **mapping**: [fusion.md](fusion.md).\n\n"
                     "| domain | operators | with kernels |\n|---|---|---|\n";
  for (const auto &[domain, count] : counts)
    text += "| `" + domain + "` | " + std::to_string(count.second) + " | " + std::to_string(count.first) + " |\n";
  text += "\n| operator | domain | runs as | fuses as | mapping |\n|---|---|---|---|---|\n";
  for (const runtime::OperatorSupport &op : operators)
    text += "| `" + op.type + "` | `" + op.domain + "` | " + placeOf(op, target) + " | " + operators::nameOf(op.fusion.fusion) +
            " | " + operators::nameOf(op.fusion.mapping) + " |\n";
  return text;
}

Status listOperators(const OperatorsArguments &arguments) {
  std::string type;
  if (!arguments.machine.empty()) {
    if (!arguments.target.empty() && arguments.target != "accel")
      return userError("--machine is for --target accel, not " + arguments.target);
    std::vector<std::string> notes;
    StatusOr<timing::MachineParams> machine = runtime::loadMachine(arguments.machine, {}, notes);
    if (!machine)
      return machine.error();
    printNotes(notes);
    type = hwconfigs::typeName(machine->arrayType);
  }
  if (arguments.isMarkdown && arguments.jsonFile == "-")
    return userError("--markdown and --json - both write standard output");
  if (Status status = checkOutputs({arguments.jsonFile}); !status)
    return status;
  const std::vector<runtime::OperatorSupport> operators = runtime::operatorSupport();
  const std::string note = typeNote(arguments.target, arguments.machine, type);
  if (!arguments.jsonFile.empty()) {
    json document = {{"schema", "tilewright.operators/1"}};
    document["target"] = arguments.target.empty() ? json() : json(arguments.target);
    document["machine"] = arguments.machine.empty() ? json() : json(arguments.machine);
    document["array_type"] = type.empty() ? json() : json(type);
    document["operators"] = json::array();
    for (const runtime::OperatorSupport &op : operators)
      document["operators"].push_back({{"operator", op.type},
                                       {"domain", op.domain},
                                       {"runs_as", placeOf(op, arguments.target)},
                                       {"fusion_class", operators::nameOf(op.fusion.fusion)},
                                       {"mapping", operators::nameOf(op.fusion.mapping)}});
    if (Status status = runtime::writeFile(arguments.jsonFile, document.dump(2) + "\n"); !status)
      return status;
    if (arguments.jsonFile == "-")
      return {};
  }
  if (arguments.isMarkdown) {
    std::string command = "tilewright operators --markdown";
    if (!arguments.target.empty())
      command += " --target " + arguments.target;
    if (!arguments.machine.empty())
      command += " --machine " + arguments.machine;
    std::fputs(markdown(operators, arguments.target, note, command + " > docs/operators.md").c_str(), stdout);
    return {};
  }
  runtime::Table table({"operator", "domain", "runs as", "fuses as", "mapping"}, 4);
  size_t kernels = 0;
  for (const runtime::OperatorSupport &op : operators) {
    table.add({op.type, op.domain, placeOf(op, arguments.target), operators::nameOf(op.fusion.fusion),
               operators::nameOf(op.fusion.mapping)});
    kernels += op.isKernel;
  }
  std::printf("%s\n%zu operators, %zu with kernels. %s\n", table.str().c_str(), operators.size(), kernels, note.c_str());
  return {};
}

} // namespace

void cli::addOperatorsCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<OperatorsArguments>();
  CLI::App *command =
      app.add_subcommand("operators", "the ONNX operators that are read, and whether kernels or the host compute them");
  command->add_option("--target", arguments->target, "for this target alone")->check(CLI::IsMember(runtime::targetNames()));
  command->add_option("--machine", arguments->machine,
                      "say what the array of this machine multiplies: a YAML file or a shipped name");
  command->add_option("--json", arguments->jsonFile, "write the list for programs; - is standard output");
  command->add_flag("--markdown", arguments->isMarkdown, "write docs/operators.md to standard output");
  command->callback([arguments, &action] { action = [arguments] { return listOperators(*arguments); }; });
}
