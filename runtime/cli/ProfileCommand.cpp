//===- ProfileCommand.cpp - tilewright profile ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Explanation.h"
#include "runtime/Files.h"
#include "runtime/Profile.h"
#include "runtime/cli/Cli.h"

#include <cstdio>
#include <iterator>
#include <sstream>

using namespace tw;
using namespace tw::cli;

namespace {

struct ProfileArguments {
  ModelArguments model;
  size_t top = 15;
  std::string jsonFile, technology;
};

/// Cycles of a network: they depend on no value, so inputs are random.
StatusOr<runtime::RunReport> simulate(runtime::Network network, uint64_t seed, bool trace, const std::string &technology = "") {
  runtime::SimulatorOptions options;
  options.technology = technology;
  options.trace = trace;
  runtime::Session session(std::move(network), options);
  return session.run(session.randomInputs(seed));
}

void addOutcome(std::vector<runtime::WhatIf> &whatIfs, runtime::WhatIf whatIf, const StatusOr<runtime::RunReport> &report) {
  if (report)
    whatIf.cycles = report->sim->totalCycles;
  else
    whatIf.how += ": " + report.error().message;
  whatIfs.push_back(std::move(whatIf));
}

/// Whether --set takes the change's settings too: twice the most that a machine may have is no machine.
Status settable(const runtime::TimingChange &change, const runtime::NetworkOptions &options,
                const timing::MachineParams &machine) {
  std::vector<std::string> overrides = options.overrides, notes;
  std::istringstream settings(change.settings);
  overrides.insert(overrides.end(), std::istream_iterator<std::string>(settings), {});
  StatusOr<timing::MachineParams> changed =
      runtime::loadMachine(options.machine.empty() ? machine.name : options.machine, overrides, notes);
  return changed ? Status() : changed.error();
}

/// Twice the banks, compiled anew: where buffers lie is the compiler's decision.
void addTwiceTheBanks(std::vector<runtime::WhatIf> &whatIfs, const ProfileArguments &arguments,
                      const runtime::NetworkOptions &options, const timing::MachineParams &machine) {
  runtime::WhatIf whatIf{"twice the banks", "", true, {}};
  if (runtime::isProgramFile(arguments.model.model)) {
    whatIf.how = "needs the model: a program is for one number of banks";
    whatIfs.push_back(whatIf);
    return;
  }
  runtime::NetworkOptions changed = options;
  auto add = [&](const std::string &key, uint32_t banks) {
    changed.overrides.push_back(key + "=" + std::to_string(2 * banks));
    whatIf.how += (whatIf.how.empty() ? "" : " ") + changed.overrides.back();
  };
  for (const timing::MemoryParams &memory : machine.scratchpads)
    add("scratchpads." + memory.name + ".banks", memory.banks);
  add("accumulator.banks", machine.accumulator.banks);
  StatusOr<runtime::Network> network = runtime::loadNetwork(arguments.model.model, changed);
  if (network && (network->steps.size() != 1 || !network->steps[0].program))
    network = userError("the network no longer is one program");
  addOutcome(whatIfs, whatIf,
             network ? simulate(std::move(*network), arguments.model.seed, false)
                     : StatusOr<runtime::RunReport>(network.error()));
  if (whatIfs.back().cycles)
    whatIfs.back().how += "; compiled anew";
}

Status profile(const ProfileArguments &arguments) {
  StatusOr<runtime::NetworkOptions> options = arguments.model.options();
  if (!options)
    return options.error();
  if (Status status = checkOutputs({arguments.jsonFile, arguments.model.explainFile}); !status)
    return status;
  if (Status status = checkTechnology(arguments.technology); !status)
    return status;
  Progress progress;
  options->progress = [&progress](const pipeline::SearchProgress &search) { progress.show(search); };
  runtime::Explanation explanation(arguments.model.explainFile);
  options->explain = explanation.report();
  runtime::RuleExplanation ruleExplanation(arguments.model.explainRulesFile);
  ruleExplanation.collect(options->rules);
  progress.show("compiling " + arguments.model.model);
  StatusOr<runtime::Network> network = runtime::loadNetwork(arguments.model.model, *options);
  progress.clear();
  if (!network)
    return network.error();
  options->explain = nullptr; // what-ifs are compiled too
  printNotes(network->notes);
  if (Status status = ruleExplanation.write(); !status)
    return status;
  if (Status status = explanation.write(); !status)
    return status;
  if (Status status = requireAccelerator(*network, "there is nothing to profile"); !status)
    return status;
  if (network->steps.size() != 1 || !network->steps[0].program)
    return userError(
        "profile needs a network that runs on the accelerator as one program, and parts of this one fall back to the CPU");

  progress.show("simulating");
  StatusOr<runtime::RunReport> report = simulate(*network, arguments.model.seed, true, arguments.technology);
  if (!report)
    return report.error();
  runtime::Profile result{std::move(*report), *network->steps[0].program, {}, {}, {}, {}};
  result.losses = stats::losses(result.program, *result.report.sim);
  compareWithPlan(result, network->steps[0].plannedStarts);

  for (const runtime::TimingChange &change : runtime::timingChanges(network->machine)) {
    if (change.settings.empty())
      continue; // the machine has no such latency
    if (Status status = settable(change, *options, network->machine); !status) {
      addOutcome(result.whatIfs, {change.name, change.settings, true, {}}, StatusOr<runtime::RunReport>(status.error()));
      continue;
    }
    progress.show("simulating " + change.name);
    runtime::Network changed = *network;
    changed.machine = change.machine;
    addOutcome(result.whatIfs, {change.name, change.settings + "; same program", true, {}},
               simulate(std::move(changed), arguments.model.seed, false));
  }
  progress.show("compiling with twice the banks");
  addTwiceTheBanks(result.whatIfs, arguments, *options, network->machine);
  uint64_t prologue = 0;
  for (const stats::Loss &loss : result.losses)
    if (loss.cause.phase == stats::Phase::Prologue)
      prologue += loss.cycles;
  result.whatIfs.push_back({"no prologue", "subtracted, not simulated", false, result.report.sim->totalCycles - prologue});
  progress.clear();

  if (!arguments.jsonFile.empty())
    if (Status status = runtime::writeFile(arguments.jsonFile, runtime::toJson(result)); !status)
      return status;
  if (arguments.jsonFile != "-")
    std::fputs(runtime::tables(result, arguments.top).c_str(), stdout);
  return {};
}

} // namespace

void cli::addProfileCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<ProfileArguments>();
  CLI::App *command = app.add_subcommand("profile", "why the tensor engine was not busy, and what would help");
  arguments->model.addTo(*command);
  arguments->model.addExplain(*command);
  command->add_option("--top", arguments->top, "rows of each table")
      ->check(CLI::Range(size_t(1), size_t(1000000)))
      ->capture_default_str();
  addTechnology(*command, arguments->technology);
  command->add_option("--json", arguments->jsonFile, "write all rows for programs; - is standard output");
  command->callback([arguments, &action] { action = [arguments] { return profile(*arguments); }; });
}
