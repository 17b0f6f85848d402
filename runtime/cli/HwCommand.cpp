//===- HwCommand.cpp - tilewright hw --------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "hw-configs/Machine.h"
#include "hw-configs/Technology.h"
#include "runtime/EnergyText.h"
#include "runtime/Report.h"
#include "runtime/cli/Cli.h"
#include "simulator/cosim/MachinePackage.h"
#include "simulator/cosim/RtlBuild.h"

#include <cstdio>

using namespace tw;
using namespace tw::cli;

namespace {

struct HwArguments {
  std::vector<std::string> machines, overrides;
  std::string technology;
};

Status validate(const HwArguments &arguments) {
  std::string problems;
  for (const std::string &name : arguments.machines) {
    std::vector<std::string> notes;
    StatusOr<timing::MachineParams> machine = runtime::loadMachine(name, arguments.overrides, notes);
    printNotes(notes);
    if (!machine) {
      problems += machine.error().message + "\n";
      continue;
    }
    // SystemC runs every valid machine. The other two have limits of their own.
    const std::optional<std::string> notCompiled = runtime::whyNotCompiled(*machine), noRtl = cosim::whyNoRtl(*machine);
    auto word = [](const std::optional<std::string> &why) { return why ? "no (" + *why + ")" : std::string("yes"); };
    std::printf("%s: valid, machine %s\n  compiler  %s\n  systemc   yes\n  rtl       %s\n", name.c_str(),
                machine->title().c_str(), word(notCompiled).c_str(), word(noRtl).c_str());
    if (notCompiled)
      problems += name + ": the compiler has no code for this machine: " + *notCompiled + "\n";
  }
  if (problems.empty())
    return {};
  return userError(problems);
}

Status describe(const HwArguments &arguments) {
  for (const std::string &name : arguments.machines) {
    std::vector<std::string> notes;
    std::string named;
    StatusOr<timing::MachineParams> machine = runtime::loadMachine(name, arguments.overrides, notes, &named);
    if (!machine)
      return machine.error();
    printNotes(notes);
    if (!arguments.technology.empty())
      named = arguments.technology;
    const Result<hwconfigs::Technology> technology =
        hwconfigs::loadTechnology(named.empty() ? hwconfigs::kDefaultTechnology : named);
    if (!technology)
      return userError(technology.message());
    std::fputs(hwconfigs::describe(*machine).c_str(), stdout);
    std::fputs(runtime::areaText(energy::EnergyModel(*machine, *technology).areas(), technology->name).c_str(), stdout);
  }
  return {};
}

Status describeTechnology(const HwArguments &arguments) {
  if (arguments.technology.empty()) {
    for (const std::string &name : hwconfigs::shippedTechnologies()) {
      const Result<hwconfigs::Technology> technology = hwconfigs::loadTechnology(name);
      std::printf("%s: %s\n", name.c_str(), technology ? technology->description.c_str() : "not valid");
    }
    return {};
  }
  const Result<hwconfigs::Technology> technology = hwconfigs::loadTechnology(arguments.technology);
  if (!technology)
    return userError(technology.message());
  std::fputs(hwconfigs::describe(*technology).c_str(), stdout);
  return {};
}

Status rtl(const HwArguments &arguments) {
  std::vector<std::string> notes;
  StatusOr<timing::MachineParams> machine = runtime::loadMachine(arguments.machines.at(0), arguments.overrides, notes);
  if (!machine)
    return machine.error();
  printNotes(notes);
  std::fputs(cosim::rtlMachinePackage(*machine).c_str(), stdout);
  return {};
}

Status list() {
  runtime::Table table({"machine", "array", "clock", "peak", "on-chip", "DRAM"}, 1);
  const std::vector<hwconfigs::ShippedMachine> machines = hwconfigs::shippedMachines();
  if (machines.empty()) {
    std::string folders;
    for (const std::string &folder : hwconfigs::machineFolders())
      folders += " '" + folder + "'";
    return userError("no machine in" + folders);
  }
  for (const hwconfigs::ShippedMachine &shipped : machines) {
    std::vector<std::string> notes;
    StatusOr<timing::MachineParams> machine = runtime::loadMachine(shipped.path, {}, notes);
    if (!machine) {
      table.add({shipped.name, "not valid: see 'tilewright hw validate " + shipped.name + "'"});
      continue;
    }
    uint64_t onChip = machine->accumulator.capacityBytes;
    for (const timing::MemoryParams &memory : machine->scratchpads)
      onChip += memory.capacityBytes;
    table.add(
        {shipped.name,
         std::to_string(machine->rows) + "x" + std::to_string(machine->cols) + " " + hwconfigs::typeName(machine->arrayType),
         std::to_string(machine->clockMhz) + " MHz",
         runtime::fixed(machine->peakMacsPerCycle() * machine->clockMhz / 1e3, 1) + " GMAC/s",
         runtime::grouped(onChip / 1024) + " KiB", machine->dram.device});
  }
  std::fputs(table.str().c_str(), stdout);
  return {};
}

} // namespace

void cli::addHwCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<HwArguments>();
  CLI::App *command = app.add_subcommand("hw", "machines: validate, describe, list, their RTL parameters, and technologies");
  command->require_subcommand(1);
  CLI::App *validateCommand = command->add_subcommand(
      "validate", "check machine files, report every problem, and say what compiles for them and runs them");
  CLI::App *describeCommand =
      command->add_subcommand("describe", "array, memories, engines, DRAM and area of machines, with peak rates");
  addTechnology(*describeCommand, arguments->technology);
  CLI::App *technologyCommand =
      command->add_subcommand("technology", "the numbers of a technology with their sources; without a name, all technologies");
  technologyCommand->add_option("TECHNOLOGY", arguments->technology, "a YAML file or the name of a shipped technology");
  technologyCommand->callback([arguments, &action] { action = [arguments] { return describeTechnology(*arguments); }; });
  CLI::App *rtlCommand = command->add_subcommand("rtl", "the SystemVerilog package that makes one machine of the RTL");
  rtlCommand->add_option("MACHINE", arguments->machines, "a YAML file or the name of a shipped machine")
      ->required()
      ->expected(1);
  addRepeated(*rtlCommand, "--set", arguments->overrides, "KEY=VALUE overrides a key of the machine")->type_name("KEY=VALUE");
  rtlCommand->callback([arguments, &action] { action = [arguments] { return rtl(*arguments); }; });
  for (CLI::App *sub : {validateCommand, describeCommand}) {
    sub->add_option("MACHINE", arguments->machines, "YAML files or names of shipped machines")->required();
    addRepeated(*sub, "--set", arguments->overrides, "KEY=VALUE overrides a key of the machine")->type_name("KEY=VALUE");
  }
  validateCommand->callback([arguments, &action] { action = [arguments] { return validate(*arguments); }; });
  describeCommand->callback([arguments, &action] { action = [arguments] { return describe(*arguments); }; });
  command->add_subcommand("list", "the machines that come with Tilewright, and those of TILEWRIGHT_HW")->callback([&action] {
    action = list;
  });
}
