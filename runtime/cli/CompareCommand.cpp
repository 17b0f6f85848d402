//===- CompareCommand.cpp - tilewright compare ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/cli/Cli.h"

#include <algorithm>
#include <cstdio>
#include <thread>

using namespace tw;
using namespace tw::cli;
using runtime::HostTensor;

namespace {

struct CompareArguments {
  ModelArguments model;
  std::vector<std::string> inputs;
  unsigned repeat = 5, threads = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Status compare(const CompareArguments &arguments) {
  StatusOr<std::vector<TensorArgument>> files = readTensorFiles(arguments.inputs);
  if (!files)
    return files.error();
  StatusOr<runtime::NetworkOptions> options = arguments.model.options(*files);
  if (!options)
    return options.error();
  unsigned threads = arguments.threads ? arguments.threads : std::max(1u, std::thread::hardware_concurrency());
  Progress progress;
  options->progress = [&progress](const pipeline::SearchProgress &search) { progress.show(search); };
  progress.show("compiling " + arguments.model.model);
  StatusOr<std::unique_ptr<runtime::Session>> session = runtime::Session::create(arguments.model.model, {*options, {}});
  if (!session)
    return session.error();
  StatusOr<std::unique_ptr<runtime::Device>> cpu = runtime::loadOnCpu(arguments.model.model, *options, threads);
  progress.clear();
  if (!cpu)
    return cpu.error();
  printNotes((*session)->network().notes);
  StatusOr<std::vector<HostTensor>> inputs = fitInputs(std::move(*files), arguments.model.seed, **session);
  if (!inputs)
    return inputs.error();
  progress.show("simulating");
  StatusOr<runtime::RunReport> report = (*session)->run(*inputs);
  if (!report)
    return report.error();
  progress.show("measuring");
  std::vector<double> seconds;
  std::vector<HostTensor> reference;
  // The first run touches memory for the first time and is not counted.
  for (unsigned i = 0; i <= arguments.repeat; ++i) {
    StatusOr<runtime::Launch> launch = (*cpu)->launch(*inputs);
    if (!launch)
      return launch.error();
    if (i)
      seconds.push_back(launch->wallSeconds);
    reference = std::move(launch->outputs);
  }
  progress.clear();

  const timing::MachineParams &machine = report->machine;
  double cpuMilliseconds = median(seconds) * 1e3;
  runtime::Table table({"target", "ms", "GMAC/s", "how"}, 1);
  auto rate = [&](double milliseconds) {
    return milliseconds > 0 && report->countedMacs() ? runtime::fixed(double(report->countedMacs()) / milliseconds / 1e6, 2) : "-";
  };
  if (report->runsOnAccelerator()) {
    const uint64_t cycles = report->sim->totalCycles;
    table.add({"accelerator", runtime::fixed(report->milliseconds(cycles), 4), rate(report->milliseconds(cycles)),
               "simulated: " + runtime::grouped(cycles) + " cycles at " + std::to_string(machine.clockMhz) + " MHz on " + machine.title()});
  } else {
    table.add({"accelerator", "-", "-", "nothing runs on " + machine.title()});
  }
  table.add({"cpu", runtime::fixed(cpuMilliseconds, 4), rate(cpuMilliseconds),
             "measured: median of " + std::to_string(arguments.repeat) + " runs, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads")});
  table.add({"gpu", "-", "-", "not measured"});
  std::fputs(table.str().c_str(), stdout);
  if (!report->runsOnAccelerator()) {
    std::printf("nothing runs on the accelerator: there are no results to compare\n%s", runtime::offloadText(report->offload).c_str());
    return {};
  }
  if (report->fallback.kernels)
    std::printf("not in the accelerator's time: %llu kernels that fell back to the CPU, %.4f ms, %.1f KiB over the host link\n",
                (unsigned long long)report->fallback.kernels, report->fallback.seconds * 1e3, double(report->fallback.hostLinkBytes) / 1024);
  // The CPU computes floats in fp32 in another order of sums; an int8 network may be one quantisation step off where a float lies within
  // rounding error of a tie.
  std::string disagreement, overflow;
  for (size_t i = 0; i < reference.size(); ++i) {
    StatusOr<runtime::Comparison> comparison = runtime::compare(report->outputs[i], reference[i]);
    if (!comparison)
      return comparison.error();
    comparison->tolerance = runtime::defaultTolerance(reference[i].type, report->precision);
    std::printf("%s; tolerance %s\n", runtime::text(*comparison).c_str(), runtime::text(comparison->tolerance).c_str());
    if (comparison->isWithinTolerance())
      continue;
    // Sums near the largest float overflow in one order and not in another.
    if (comparison->notFinite && comparison->maxFiniteError <= comparison->largestAllowed())
      overflow += (overflow.empty() ? "" : "\n") + ("overflow: output '" + comparison->name + "' has " +
                  std::to_string(comparison->notFinite) + " of " + std::to_string(comparison->elements) +
                  " values that are infinite or NaN on the accelerator or on the CPU, but not the same on both; the others agree");
    else
      disagreement += (disagreement.empty() ? "" : "\n") + ("accelerator and CPU disagree: " + runtime::text(*comparison));
  }
  if (arguments.inputs.empty())
    std::printf("random inputs, seed %llu\n", (unsigned long long)arguments.model.seed);
  std::printf("%s\n", !disagreement.empty() ? "the results disagree" : !overflow.empty() ? "the finite results agree" : "the results agree");
  if (!disagreement.empty())
    return runtime::internalError(disagreement);
  if (!overflow.empty())
    return userError(overflow + ": a sum of such numbers overflows in one order and not in another");
  return {};
}

} // namespace

void cli::addCompareCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App *command = app.add_subcommand("compare", "accelerator (simulated) and CPU (measured) side by side, and whether they agree");
  arguments->model.addTo(*command);
  addRepeated(*command, "--input", arguments->inputs, "an input, .npy or .pb; in order, or by name")->type_name("[NAME=]FILE");
  command->add_option("--repeat", arguments->repeat, "measured runs on the CPU")->check(CLI::Range(1u, 10000u))->capture_default_str();
  command->add_option("--threads", arguments->threads, "threads on the CPU; default: all of its cores")->check(CLI::Range(1u, 1024u));
  command->callback([arguments, &action] { action = [arguments] { return compare(*arguments); }; });
}
