//===- TuneCommand.cpp - tilewright tune ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Explanation.h"
#include "runtime/Files.h"
#include "runtime/Report.h"
#include "runtime/cli/Cli.h"

#include <cstdio>
#include <filesystem>

using namespace tw;
using namespace tw::cli;
using runtime::grouped;

namespace {

struct TuneArguments {
  ModelArguments model;
  std::string output;
};

void printProgress(const pipeline::SearchProgress &p) {
  std::string cycles = p.cycles ? grouped(p.cycles) + " cycles" : "failed";
  std::printf("%u of %u: %s, best %s, %s s, %s%s\n", p.tried, p.budget, cycles.c_str(), grouped(p.best).c_str(),
              runtime::fixed(p.seconds, 1).c_str(), p.what.c_str(), p.isRemembered ? " (from the cache)" : "");
  std::fflush(stdout);
}

Status tune(const TuneArguments &arguments) {
  if (runtime::isProgramFile(arguments.model.model))
    return userError(arguments.model.model + " is a program already: nothing is left to choose");
  StatusOr<runtime::NetworkOptions> options = arguments.model.options();
  if (!options)
    return options.error();
  if (Status status = checkOutputs({arguments.output, arguments.model.explainFile}); !status)
    return status;
  options->searchAgain = true;
  options->oneProgram = !arguments.output.empty();
  options->progress = printProgress;
  runtime::Explanation explanation(arguments.model.explainFile);
  options->explain = explanation.report();
  runtime::RuleExplanation ruleExplanation(arguments.model.explainRulesFile);
  ruleExplanation.collect(options->rules);
  StatusOr<runtime::Network> network = runtime::loadNetwork(arguments.model.model, *options);
  if (!network)
    return network.error();
  printNotes(network->notes);
  if (Status status = ruleExplanation.write(); !status)
    return status;
  if (Status status = explanation.write(); !status)
    return status;
  if (Status status = requireAccelerator(*network, "there is nothing to tune"); !status)
    return status;
  if (!arguments.output.empty()) {
    std::vector<uint8_t> image = isa::serialize(*network->steps.front().program);
    std::string_view bytes(reinterpret_cast<const char *>(image.data()), image.size());
    if (Status status = runtime::writeFile(arguments.output, bytes); !status)
      return status;
  }
  pipeline::SearchResult sum;
  for (const pipeline::SearchResult &search : network->searches) {
    sum.firstCycles += search.firstCycles;
    sum.bestCycles += search.bestCycles;
    sum.evaluations += search.evaluations;
    sum.remembered += search.remembered;
    sum.failed += search.failed;
    sum.repeated += search.repeated;
    sum.seconds += search.seconds;
  }
  const std::optional<runtime::ScheduleChoice> &choice = network->choice;
  const bool isSearched = !choice || choice->ran == "search";
  for (const runtime::ScheduleChoice::Candidate &candidate :
       isSearched ? std::vector<runtime::ScheduleChoice::Candidate>() : choice->candidates)
    if (candidate.schedule == choice->ran)
      sum.bestCycles = *candidate.cycles;
  double percent = 100.0 * double(sum.bestCycles) / double(std::max<uint64_t>(1, sum.firstCycles));
  std::printf("\npipelined %s cycles\nbest %s cycles, %s %% of them%s\n", grouped(sum.firstCycles).c_str(),
              grouped(sum.bestCycles).c_str(), runtime::fixed(percent, 1).c_str(),
              isSearched ? "" : (", of schedule " + choice->ran).c_str());
  std::printf("%u programs compiled, verified and run, %u of them earlier; %u failed\n%u changes made one of them again, or "
              "changed no cycle\n"
              "searched for %s s\n",
              sum.evaluations, sum.remembered, sum.failed, sum.repeated, runtime::fixed(sum.seconds, 1).c_str());
  return {};
}

} // namespace

void cli::addTuneCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App *command = app.add_subcommand("tune", "search for the tiles that make a model fastest, by simulating it");
  arguments->model.addTo(*command);
  arguments->model.addExplain(*command);
  for (const char *name : {"--schedule", "--search-budget", "--search-jobs", "--seed"})
    command->remove_option(command->get_option(name));
  arguments->model.network.schedule = "search";
  command
      ->add_option("--schedule", arguments->model.network.schedule,
                   "plan file with what is not to be decided (docs/schedule-file.md)")
      ->check([](const std::string &text) {
        return std::filesystem::path(text).extension() == ".mlir" ? "" : "'" + text + "' is no plan file, FILE.mlir";
      })
      ->type_name("FILE.mlir");
  command->add_option("--budget", arguments->model.network.searchBudget, "programs to try, the first included")
      ->check(wholeNumber(1, UINT32_MAX))
      ->capture_default_str();
  command
      ->add_option("--jobs", arguments->model.network.searchJobs,
                   "processes that measure at once, 0: one for each processor; the result is the same")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--seed", arguments->model.network.searchSeed, "equal seeds and budgets give equal programs")
      ->check(wholeNumber())
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "write the best program there, .twp");
  command->callback([arguments, &action] { action = [arguments] { return tune(*arguments); }; });
}
