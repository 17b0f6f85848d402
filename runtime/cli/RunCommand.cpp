//===- RunCommand.cpp - tilewright run ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/TensorFile.h"
#include "runtime/Explanation.h"
#include "runtime/Files.h"
#include "runtime/OpenClDevice.h"
#include "runtime/cli/Cli.h"
#include "simulator/stats/Timeline.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <sys/resource.h>

using namespace tw;
using namespace tw::cli;
using runtime::HostTensor;

namespace {

struct RunArguments {
  ModelArguments model;
  std::vector<std::string> inputs, expected;
  std::string simulator = "systemc", outputFolder, traceFile, jsonFile;
  std::string dumpFile, technology, target, openClDevice;
  std::optional<double> tolerance;
  uint64_t maxCycles = 0, dumpFrom = 0, dumpTo = ~0ull;
  bool checks = false, batch = false, measuresHost = false;
};

/// Inputs of every run: one run, or with --batch as many as the files hold.
StatusOr<std::vector<std::vector<HostTensor>>> inputsOf(const RunArguments &arguments, std::vector<TensorArgument> files,
                                                        const std::vector<runtime::TensorSpec> &specs) {
  using Runs = std::vector<std::vector<HostTensor>>;
  if (arguments.inputs.empty()) {
    if (arguments.batch)
      return userError("--batch needs --input files that hold the batch");
    return Runs{runtime::randomTensors(specs, arguments.model.seed)};
  }
  auto tensors = assignTensors(std::move(files), specs, "input");
  if (!tensors)
    return tensors.error();
  Runs runs(1);
  for (size_t i = 0; i < tensors->size(); ++i) {
    const runtime::TensorSpec &spec = specs[i];
    if (!(*tensors)[i])
      return userError("input '" + spec.name + "' (" + frontend::elementName(spec.type) + " [" +
                       runtime::shapeText(spec.shape) + "]) is not given");
    HostTensor &tensor = *(*tensors)[i];
    if (!arguments.batch) {
      runs[0].push_back(std::move(tensor));
      continue;
    }
    StatusOr<std::vector<HostTensor>> parts = runtime::splitBatch(tensor, spec);
    if (!parts)
      return parts.error();
    if (i == 0)
      runs.resize(parts->size());
    if (parts->size() != runs.size())
      return userError("input '" + spec.name + "' holds a batch of " + std::to_string(parts->size()) + " but input '" +
                       specs[0].name + "' one of " + std::to_string(runs.size()));
    for (size_t run = 0; run < runs.size(); ++run)
      runs[run].push_back(std::move((*parts)[run]));
  }
  return runs;
}

/// Runs all inputs one after the other; the report is the first run's, with the outputs of all.
StatusOr<runtime::RunReport> runAll(runtime::Session &session, const std::vector<std::vector<HostTensor>> &runs,
                                    Progress &progress) {
  std::optional<runtime::RunReport> report;
  std::vector<std::vector<HostTensor>> outputs(session.outputs().size());
  double seconds = 0, openClSeconds = 0;
  const char *const what = session.network().openCl ? "running" : "simulating";
  for (size_t i = 0; i < runs.size(); ++i) {
    progress.show(runs.size() == 1 ? what
                                   : std::string(what) + " " + std::to_string(i + 1) + " of " + std::to_string(runs.size()));
    StatusOr<runtime::RunReport> one = session.run(runs[i]);
    if (!one)
      return one.error();
    seconds += one->simulateSeconds;
    openClSeconds += one->openCl ? one->openCl->seconds : 0;
    for (size_t j = 0; j < outputs.size(); ++j)
      outputs[j].push_back(std::move(one->outputs[j]));
    if (!report)
      report = std::move(*one);
  }
  for (size_t j = 0; j < outputs.size(); ++j)
    report->outputs[j] = runs.size() == 1 ? std::move(outputs[j][0]) : runtime::stack(outputs[j]);
  report->batch = runs.size();
  report->simulateSeconds = seconds;
  if (report->openCl)
    report->openCl->seconds = openClSeconds;
  rusage usage{};
  if (!getrusage(RUSAGE_SELF, &usage))
    report->peakMemoryBytes = uint64_t(usage.ru_maxrss) * 1024;
  return std::move(*report);
}

/// A name that is a file name: everything unusual becomes an underscore.
std::string fileName(const std::string &name) {
  std::string result;
  for (char c : name)
    result += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' ? c : '_';
  return result.empty() || result[0] == '.' ? "_" + result : result;
}

/// Compares outputs with what is expected of them; those that nobody expects anything of are left out.
Status compareAll(const RunArguments &arguments, const std::vector<std::optional<HostTensor>> &expected,
                  runtime::RunReport &report) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!expected[i])
      continue;
    StatusOr<runtime::Comparison> comparison = runtime::compare(report.outputs[i], *expected[i]);
    if (!comparison)
      return comparison.error();
    comparison->tolerance = arguments.tolerance ? runtime::Tolerance{*arguments.tolerance, 0, ""}
                                                : runtime::defaultTolerance(report.outputs[i].type, report.precision);
    report.comparisons.push_back(std::move(*comparison));
  }
  return {};
}

/// An error that names every output beyond its tolerance.
Status judge(const runtime::RunReport &report) {
  std::string beyond;
  for (const runtime::Comparison &comparison : report.comparisons)
    if (!comparison.isWithinTolerance())
      beyond += (beyond.empty() ? "" : "\n") + ("not as expected: " + runtime::text(comparison)) + "; the tolerance is " +
                runtime::text(comparison.tolerance);
  return beyond.empty() ? Status() : userError(beyond);
}

/// The format that the suffix of a timeline's file names; without a suffix, as of a device, Chrome's.
StatusOr<stats::TimelineFormat> timelineFormat(const std::string &file) {
  const std::string suffix = std::filesystem::path(file).extension().string();
  if (suffix == ".pftrace" || suffix == ".perfetto-trace")
    return stats::TimelineFormat::Perfetto;
  if (suffix.empty() || suffix == ".json")
    return stats::TimelineFormat::ChromeJson;
  return userError("--trace '" + file + "': suffix '" + suffix +
                   "' names no format of timelines: .json is Chrome's, .pftrace and .perfetto-trace are Perfetto's");
}

/// Stages a file for each output; their names are empty without a folder.
StatusOr<std::vector<std::string>> stageOutputs(const RunArguments &arguments, const std::vector<HostTensor> &outputs,
                                                runtime::FileSet &files) {
  std::vector<std::string> names(outputs.size());
  if (arguments.outputFolder.empty())
    return names;
  if (Status status = files.addFolder(arguments.outputFolder); !status)
    return status.error();
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string stem = arguments.outputFolder + "/" + fileName(outputs[i].name);
    names[i] = stem + ".npy";
    // Two outputs whose names differ only in what no file name can hold.
    for (size_t other = i; std::count(names.begin(), names.begin() + long(i), names[i]) > 0; ++other)
      names[i] = stem + "." + std::to_string(other) + ".npy";
    if (Status status = files.add(names[i], frontend::formatNpy(outputs[i])); !status)
      return status.error();
  }
  return names;
}

/// Everything is checked and staged before anything appears.
Status writeResults(const RunArguments &arguments, const runtime::Network &network, const runtime::RunReport &report,
                    runtime::FileSet &files) {
  StatusOr<std::vector<std::string>> names = stageOutputs(arguments, report.outputs, files);
  if (!names)
    return names.error();
  if (!arguments.traceFile.empty()) {
    StatusOr<stats::TimelineFormat> format = timelineFormat(arguments.traceFile);
    if (!format)
      return format.error();
    std::ostringstream timeline;
    if (network.isOneProgram())
      stats::writeTimeline(timeline, *network.steps.front().program, *report.sim, *format, network.steps.front().plannedStarts);
    else
      stats::writeTimeline(timeline, report.machine.name.empty() ? "host" : report.machine.name, report.timeline, *format);
    if (Status status = files.add(arguments.traceFile, timeline.str()); !status)
      return status;
  }
  if (!arguments.jsonFile.empty())
    if (Status status = files.add(arguments.jsonFile, runtime::toJson(report, *names)); !status)
      return status;
  return files.commit();
}

/// An error if an option is given that only the accelerator has.
Status refuseAcceleratorOptions(const RunArguments &arguments) {
  const runtime::NetworkOptions &network = arguments.model.network;
  const std::pair<const char *, bool> onlyAccelerator[] = {
      {"--hw", !network.machine.empty()},
      {"--schedule", network.schedule != runtime::NetworkOptions().schedule},
      {"--trace", !arguments.traceFile.empty()},
      {"--fst", !arguments.dumpFile.empty()},
      {"--explain", !arguments.model.explainFile.empty()},
      {"--check", arguments.checks},
      {"--technology", !arguments.technology.empty()},
      {"--max-cycles", arguments.maxCycles != 0}};
  for (const auto &[option, isGiven] : onlyAccelerator)
    if (isGiven)
      return userError(std::string(option) + " is for the accelerator, not for --target opencl");
  return {};
}

/// The network as a session; with --target opencl on the device that was asked for, with the CPU for what only the host evaluates.
StatusOr<std::unique_ptr<runtime::Session>> load(const RunArguments &arguments, runtime::SessionOptions &options,
                                                 Progress &progress) {
  if (arguments.target != "opencl")
    return runtime::Session::create(arguments.model.model, options);
  StatusOr<std::shared_ptr<runtime::opencl::Loader>> loader = runtime::opencl::Loader::open();
  if (!loader)
    return loader.error();
  StatusOr<runtime::opencl::DeviceInfo> device = (*loader)->choose(arguments.openClDevice);
  if (!device)
    return device.error();
  options.network.targets = {"opencl", "cpu"};
  options.network.openClDevice = device->type;
  StatusOr<runtime::Network> network = runtime::loadNetwork(arguments.model.model, options.network);
  if (!network)
    return network.error();
  progress.show("building kernels for " + device->name);
  if (Status status = runtime::placeOnOpenCl(*network, *loader, *device); !status)
    return status.error();
  return std::make_unique<runtime::Session>(std::move(*network), options.simulator);
}

Status run(const RunArguments &arguments) {
  const bool isOpenCl = arguments.target == "opencl";
  if (!isOpenCl && !arguments.openClDevice.empty())
    return userError("--device is for --target opencl");
  if (Status status = isOpenCl ? refuseAcceleratorOptions(arguments) : Status(); !status)
    return status;
  runtime::SessionOptions options;
  StatusOr<std::vector<TensorArgument>> files = readTensorFiles(arguments.inputs),
                                        expectedFiles = readTensorFiles(arguments.expected);
  if (!files || !expectedFiles)
    return files ? expectedFiles.error() : files.error();
  StatusOr<runtime::NetworkOptions> network = arguments.model.options(*files, arguments.batch);
  if (!network)
    return network.error();
  options.network = *network;
  options.simulator.model = arguments.simulator == "functional" ? runtime::Model::Functional
                            : arguments.simulator == "rtl"      ? runtime::Model::Rtl
                                                                : runtime::Model::SystemC;
  options.simulator.checks = arguments.checks;
  options.simulator.technology = arguments.technology;
  if (Status status = checkTechnology(arguments.technology); !status)
    return status;
  options.simulator.maxCycles = arguments.maxCycles;
  options.simulator.trace = !arguments.traceFile.empty();
  if (options.simulator.trace && options.simulator.model != runtime::Model::SystemC)
    return userError("--trace needs the model that knows every cause: --model systemc");
  if (options.simulator.checks && options.simulator.model == runtime::Model::Rtl)
    return userError("--check needs --model systemc or --model functional");
  if (!arguments.dumpFile.empty() && options.simulator.model != runtime::Model::Rtl)
    return userError("--fst needs --model rtl");
  if (!arguments.dumpFile.empty() && arguments.batch)
    return userError("--fst needs a single run, without --batch");
  if (arguments.dumpFrom >= arguments.dumpTo)
    return userError("--from " + std::to_string(arguments.dumpFrom) + " is not before --to " +
                     std::to_string(arguments.dumpTo));
  if (Status status = checkOutputs({arguments.jsonFile, arguments.traceFile, arguments.dumpFile, arguments.model.explainFile});
      !status)
    return status;
  if (StatusOr<stats::TimelineFormat> format = timelineFormat(arguments.traceFile); !format)
    return format.error();
  runtime::FileSet outputs;
  if (!arguments.dumpFile.empty()) {
    StatusOr<std::string> file = outputs.addWrittenByOthers(arguments.dumpFile);
    if (!file)
      return file.error();
    options.simulator.dumpFile = *file;
  }
  options.simulator.dumpFrom = arguments.dumpFrom;
  options.simulator.dumpTo = arguments.dumpTo;
  Progress progress;
  options.simulator.progress = [&progress](const std::string &what) { progress.show(what); };
  options.network.progress = [&progress](const pipeline::SearchProgress &search) { progress.show(search); };
  runtime::Explanation explanation(arguments.model.explainFile);
  options.network.explain = explanation.report();
  runtime::RuleExplanation ruleExplanation(arguments.model.explainRulesFile);
  ruleExplanation.collect(options.network.rules);
  progress.show("compiling " + arguments.model.model);
  StatusOr<std::unique_ptr<runtime::Session>> session = load(arguments, options, progress);
  progress.clear();
  if (!session)
    return session.error();
  printNotes((*session)->network().notes);
  if (Status status = ruleExplanation.write(); !status)
    return status;
  if (Status status = explanation.write(); !status)
    return status;
  if (!arguments.dumpFile.empty() && ((*session)->network().steps.size() != 1 || !(*session)->network().steps[0].program))
    return userError(
        "--fst needs a network that runs on the accelerator as one program, and parts of this one fall back to the CPU");
  StatusOr<std::vector<std::vector<HostTensor>>> runs = inputsOf(arguments, std::move(*files), (*session)->inputs());
  if (!runs)
    return runs.error();
  auto expected = assignTensors(std::move(*expectedFiles), (*session)->outputs(), "output");
  if (!expected)
    return expected.error();
  StatusOr<runtime::RunReport> report = runAll(**session, *runs, progress);
  progress.clear();
  if (!report) {
    // What waves there are show the fault.
    Status status = outputs.commit();
    return status ? Status(report.error()) : status;
  }
  if (arguments.inputs.empty() && !(*session)->inputs().empty())
    report->seed = arguments.model.seed;
  report->measuresHost = arguments.measuresHost || isOpenCl;
  if (Status status = compareAll(arguments, *expected, *report); !status)
    return status;
  const runtime::Network &compiled = (*session)->network();
  if (options.simulator.trace && !arguments.jsonFile.empty() && report->sim && compiled.isOneProgram())
    report->memoryMap = runtime::memoryMap(*compiled.steps.front().program, compiled.machine, *report->sim);
  if (Status status = writeResults(arguments, (*session)->network(), *report, outputs); !status)
    return status;
  if (arguments.jsonFile != "-")
    std::fputs(runtime::tables(*report).c_str(), stdout);
  return judge(*report);
}

} // namespace

/// runtime::defaultTolerance() in words.
static std::string toleranceHelp() {
  using runtime::ElementKind, runtime::Precision;
  auto part = [](ElementKind type, Precision precision) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%g", runtime::defaultTolerance(type, precision).ofRange);
    return std::string(buffer);
  };
  return "largest difference from --expect, as a part of the output's range; default: float " +
         part(ElementKind::F32, Precision::Single) + ", float16 " + part(ElementKind::F16, Precision::Single) +
         ", bfloat16 and bf16 machines " + part(ElementKind::BF16, Precision::Single) + ", quantised networks " +
         part(ElementKind::F32, Precision::Quantised) + " (int8 and uint8: at least one step), other integers " +
         part(ElementKind::I32, Precision::Single);
}

void cli::addRunCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App *command = app.add_subcommand("run", "run a model on the simulated accelerator");
  arguments->model.addTo(*command);
  arguments->model.addExplain(*command);
  addRepeated(*command, "--input", arguments->inputs, "an input, .npy or .pb; in order, or by name")->type_name("[NAME=]FILE");
  addRepeated(*command, "--expect", arguments->expected,
              "what an output should be, .npy or .pb; beyond the tolerance the exit status is 1")
      ->type_name("[NAME=]FILE");
  command->add_option("--tolerance", arguments->tolerance, toleranceHelp())
      ->check([](const std::string &text) {
        char *end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        return !text.empty() && *end == '\0' && std::isfinite(value) && value >= 0
                   ? ""
                   : "'" + text + "' is no finite number from 0";
      })
      ->needs("--expect")
      ->type_name("PART");
  command->add_flag("--batch", arguments->batch, "inputs hold several runs along dim 0; outputs are stacked the same way");
  command
      ->add_option(
          "--model", arguments->simulator,
          "what simulates: systemc (values and cycles), rtl (the same, Verilated SystemVerilog) or functional (values)")
      ->check(CLI::IsMember({"systemc", "rtl", "functional"}))
      ->capture_default_str();
  command->add_flag("--check", arguments->checks, "look for reads of unwritten words and unordered accesses");
  command->add_option("--max-cycles", arguments->maxCycles, "stop with a fault after so many cycles (functional: instructions)")
      ->check(wholeNumber());
  command->add_option("--output-dir", arguments->outputFolder, "write outputs there, as NAME.npy");
  command->add_option("--trace", arguments->traceFile,
                      "write a timeline of every engine, for ui.perfetto.dev: FILE.json in Chrome's format, 1 cycle = 1 us; "
                      "FILE.pftrace or FILE.perfetto-trace in Perfetto's, far smaller, 1 cycle = 1 ns");
  command
      ->add_option(
          "--target", arguments->target,
          "opencl: a device of OpenCL, with this CPU for what only the host evaluates; default: the accelerator of --hw")
      ->check(CLI::IsMember({"opencl"}));
  addOpenClDevice(*command, arguments->openClDevice);
  CLI::Option *dump = command->add_option("--fst", arguments->dumpFile, "with --model rtl: write waves there, for GTKWave");
  command->add_option("--from", arguments->dumpFrom, "first cycle of the waves")->check(wholeNumber())->needs(dump);
  command->add_option("--to", arguments->dumpTo, "one past the last cycle of the waves")->check(wholeNumber())->needs(dump);
  addTechnology(*command, arguments->technology);
  command->add_flag(
      "--measure-host", arguments->measuresHost,
      "also tell the time that the host measured for nodes that fell back to it; what it is estimated to take stays");
  command->add_option("--json", arguments->jsonFile, "write the report for programs; - is standard output");
  command->callback([arguments, &action] { action = [arguments] { return run(*arguments); }; });
}
