//===- DramCommand.cpp - tilewright dram ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "isa/files/InputFile.h"
#include "runtime/DramReplay.h"
#include "runtime/Files.h"
#include "runtime/cli/Cli.h"

#include <cstdio>

using namespace tw;
using namespace tw::cli;

namespace {

struct DramArguments {
  std::string trace, device, jsonFile;
  std::vector<std::string> overrides;
  uint32_t clockMhz = 0;
};

Status replay(const DramArguments &arguments) {
  if (Status status = checkOutputs({arguments.jsonFile}); !status)
    return status;
  Result<timing::MachineParams> machine = hwconfigs::loadDevice(arguments.device, arguments.overrides);
  if (!machine)
    return userError(machine.message());
  if (arguments.clockMhz)
    machine->clockMhz = arguments.clockMhz;
  const bool isStream = arguments.trace == "-";
  Result<std::string> text = isStream ? files::readStandardInput() : files::readFile(arguments.trace);
  if (!text)
    return userError(text.message());
  runtime::DramTrace trace(*text, isStream ? "standard input" : arguments.trace);
  Result<runtime::DramReplayReport> report = runtime::replayDram(*machine, trace);
  if (!report)
    return userError(report.message());
  if (!arguments.jsonFile.empty())
    if (Status status = runtime::writeFile(arguments.jsonFile, runtime::toJson(*report)); !status)
      return status;
  if (arguments.jsonFile != "-")
    std::fputs(runtime::dramReplayText(*report).c_str(), stdout);
  std::string violations;
  for (const std::string &violation : report->violations)
    violations += "illegal DRAM command: " + violation + "\n";
  if (!violations.empty())
    return userError(violations);
  return {};
}

} // namespace

void cli::addDramCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<DramArguments>();
  CLI::App *command = app.add_subcommand("dram", "replay a trace of accesses on a DRAM device, and check its commands");
  command->add_option("TRACE", arguments->trace, "lines of ARRIVAL R|W ADDRESS (docs/dram.md); - is standard input")
      ->required();
  command->add_option("--device", arguments->device, "DRAM device: a YAML file or the name of a shipped one")->required();
  addRepeated(*command, "--set", arguments->overrides, "dram.KEY=VALUE overrides a key of the DRAM")
      ->type_name("dram.KEY=VALUE");
  command->add_option("--clock-mhz", arguments->clockMhz, "clock of arrivals and results; default: the device's command clock")
      ->check(wholeNumber(1, 100000));
  command->add_option("--json", arguments->jsonFile, "write all numbers for programs; - is standard output");
  command->callback([arguments, &action] { action = [arguments] { return replay(*arguments); }; });
}
