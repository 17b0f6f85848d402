//===- Cli.cpp - What the commands of `tilewright` share ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/cli/Cli.h"
#include "compiler/codegen/cpu/CpuMachine.h"
#include "compiler/frontend/TensorFile.h"
#include "compiler/pipeline/Plugin.h"
#include "hw-configs/Technology.h"
#include "isa/Printable.h"
#include "isa/files/InputFile.h"
#include "runtime/Files.h"
#include "runtime/Report.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

using namespace tw;
using namespace tw::cli;

CLI::Option *cli::addRepeated(CLI::App &command, const std::string &name, std::vector<std::string> &values,
                              const std::string &help) {
  return command.add_option(name, values, help)->allow_extra_args(false)->type_size(1)->take_all();
}

CLI::Validator cli::wholeNumber(uint64_t least, uint64_t most) {
  return CLI::Validator(
      [=](std::string &text) -> std::string {
        uint64_t value = 0;
        const char *end = text.data() + text.size();
        auto [at, failure] = std::from_chars(text.data(), end, value);
        if (failure == std::errc() && at == end && least <= value && value <= most)
          return "";
        return "'" + text + "' is no whole number from " + std::to_string(least) + " to " + std::to_string(most);
      },
      "");
}

/// A schedule's name or a file's.
static CLI::Validator scheduleValidator() {
  std::string names;
  for (const std::string &name : runtime::scheduleNames())
    names += name + ", ";
  return CLI::Validator(
      [names](std::string &text) -> std::string {
        const std::vector<std::string> &known = runtime::scheduleNames();
        if (std::find(known.begin(), known.end(), text) != known.end() || std::filesystem::path(text).extension() == ".mlir")
          return "";
        return "'" + text + "' is none of " + names + "FILE.mlir";
      },
      names + "FILE.mlir");
}

void ModelArguments::addTo(CLI::App &command) {
  command.add_option("MODEL", model, ".onnx, .mlir, .tasm, .twp, gemm:MxNxK:TYPE or conv:NxHxWxC:KHxKWxOC:sSTRIDE:pPAD:TYPE")
      ->required();
  command.add_option("--hw", network.machine, "machine: a YAML file or the name of a shipped one");
  addRepeated(command, "--set", network.overrides, "KEY=VALUE overrides a key of the machine")->type_name("KEY=VALUE");
  command.add_option("--schedule", network.schedule, "how tiles follow one another, or a plan file (docs/schedule-file.md)")
      ->check(scheduleValidator())
      ->capture_default_str();
  command
      .add_option("--across", network.across,
                  "pipelined, search: drain between layers, overlap them, or also keep tensors on chip")
      ->check(CLI::IsMember(runtime::acrossNames()))
      ->capture_default_str();
  command
      .add_option("--order", network.order,
                  "order of kernels: the model's, or the one with the least peak of live bytes; default: the model's on an "
                  "accelerator, memory elsewhere (docs/memory.md)")
      ->check(CLI::IsMember(runtime::orderNames()));
  command.add_option("--search-budget", network.searchBudget, "programs that schedule search simulates")
      ->check(wholeNumber(1, UINT32_MAX))
      ->capture_default_str();
  network.searchJobs = 0;
  command
      .add_option("--search-jobs", network.searchJobs, "processes that schedule search measures in, 0: one for each processor")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option(
          "--priority", network.priority,
          "pipelined, search: which ready operation goes first: program_order, alap, interleaved, or what a plug-in adds")
      ->type_name("NAME");
  command
      .add_option(
          "--cost-model", network.costModel,
          "what choices among tiles and plans go by, in place of estimates and simulation: closed_form, or what a plug-in adds")
      ->type_name("NAME");
  addRepeated(command, "--load-plugin", plugins,
              "shared library that adds strategies, priorities or cost models (docs/plugins.md)")
      ->type_name("SO");
  addRepeated(command, "--shape", shapes, "shape of a network input")->type_name("NAME=1,3,224,224");
  addRepeated(command, "--const", constants, "a network input as a constant: .npy, .pb, or numbers")
      ->type_name("NAME=FILE|VALUE");
  addRepeated(command, "--alias", aliases, "an output that lies at an input's place and is updated there, as a cache is")
      ->type_name("OUT=IN");
  command
      .add_option("--max-constant-bytes", network.import.maxConstantBytes, "bytes of constants that a model may have and make")
      ->check(wholeNumber(1))
      ->capture_default_str();
  command
      .add_option("--max-instructions", network.maxInstructions, "instructions that a program may have, repeated ones included")
      ->check(wholeNumber(1));
  command
      .add_option("--cpu", network.processor.cpu,
                  "processor that code for the CPU is for, as LLVM calls it (docs/cpu.md); native: this one")
      ->capture_default_str();
  command
      .add_option("--features", network.processor.features, "instruction sets that code for the CPU may use besides, or not")
      ->type_name("+NAME,-NAME");
  command
      .add_option("--fallback", fallback,
                  "where nodes run that the accelerator does not take: cpu; none refuses networks that have any")
      ->check(CLI::IsMember({"cpu", "none", "gpu"}))
      ->capture_default_str();
  command.add_option("--math", math, "what may be changed of the network's numbers (docs/targets.md)")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(graph::kMathNames), std::end(graph::kMathNames))))
      ->capture_default_str();
  command.add_option("--rules", rules, "classes of rewriting rules that are applied, as far as --math allows (docs/rules.md)")
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(graph::kRuleSetNames), std::end(graph::kRuleSetNames))))
      ->capture_default_str();
  addRepeated(command, "--disable-rule", disabledRules, "a rewriting rule that is not applied ('tilewright rules' lists them)")
      ->type_name("NAME");
  command.add_option("--cache", network.cacheFolder, "folder that keeps what schedule search has measured")
      ->type_name("DIR")
      ->envname("TILEWRIGHT_CACHE");
  command.add_option("--seed", seed, "seed of random inputs, and of the weights of inline kernels")
      ->check(wholeNumber())
      ->capture_default_str();
}

void ModelArguments::addExplain(CLI::App &command) {
  command
      .add_option(
          "--explain", explainFile,
          "write what the compiler tried and what it took (docs/explain.md): JSON lines if the name ends in .jsonl; - is "
          "standard output")
      ->type_name("FILE");
  command
      .add_option("--explain-rules", explainRulesFile,
                  "write which rewriting rules changed the graph (docs/rules.md): JSON lines if the name ends in .jsonl; - is "
                  "standard output")
      ->type_name("FILE");
}

void cli::addOpenClDevice(CLI::App &command, std::string &device) {
  command
      .add_option(
          "--device", device,
          "device of OpenCL: its number, or a part of its name or its platform's (docs/opencl.md); default: the first one")
      ->type_name("N|NAME");
}

Status cli::checkOutputs(const std::vector<std::string> &outputs) {
  runtime::FileSet probe;
  for (const std::string &output : outputs)
    if (!output.empty())
      if (Status status = probe.add(output, ""); !status)
        return status;
  return {};
}

StatusOr<runtime::NetworkOptions> ModelArguments::options(const std::vector<TensorArgument> &inputs, bool batch) const {
  for (const std::string &file : {model, network.machine, network.schedule})
    files::addInput(file);
  for (const std::string &path : plugins) {
    files::addInput(path);
    Result<std::vector<std::string>> added = pipeline::loadPlugin(path);
    if (!added)
      return userError(added.message());
    for (const std::string &name : *added)
      printNotes({path + " adds " + name});
  }
  bool isProgram = runtime::isProgramFile(model);
  if (!network.overrides.empty() && network.machine.empty() && !isProgram)
    return userError("--set " + network.overrides.front() + " changes a machine, but there is none: give one with --hw");
  if (llvm::Expected<cpu::CpuMachine> processor = cpu::selectMachine(network.processor); !processor)
    return userError(llvm::toString(processor.takeError()));
  if (isProgram && !explainFile.empty())
    return userError(model + " is a program already: --explain has nothing to tell");
  if (fallback == "gpu")
    return userError("--fallback is gpu, but a GPU runs whole networks only (tilewright compile --target gpu), no kernels "
                     "between programs: give "
                     "cpu or none");
  runtime::NetworkOptions result = network;
  result.fallsBack = fallback == "cpu";
  result.seed = seed;
  if (!plugins.empty() && !result.cacheFolder.empty()) {
    result.cacheFolder.clear(); // its entries do not say what code a plug-in has
    printNotes({"with a plug-in the cache of measurements is not used"});
  }
  result.math =
      graph::Math(std::find(std::begin(graph::kMathNames), std::end(graph::kMathNames), math) - std::begin(graph::kMathNames));
  result.rules.set = graph::RuleSet(std::find(std::begin(graph::kRuleSetNames), std::end(graph::kRuleSetNames), rules) -
                                    std::begin(graph::kRuleSetNames));
  for (const std::string &name : disabledRules) {
    if (std::string why = result.rules.disable(name); !why.empty())
      return userError("--disable-rule is '" + name + "', " + why);
  }
  for (const std::string &text : shapes) {
    auto bad = [&] { return userError("--shape is '" + text + "' but must be NAME=DIM,DIM,... with positive dims"); };
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return bad();
    std::vector<int64_t> dims;
    const char *at = text.data() + equals + 1, *end = text.data() + text.size();
    while (true) {
      int64_t dim = 0;
      auto [next, failure] = std::from_chars(at, end, dim);
      if (failure != std::errc() || dim <= 0)
        return bad();
      dims.push_back(dim);
      if (next == end)
        break;
      if (*next != ',')
        return bad();
      at = next + 1;
    }
    if (!result.import.shapes.emplace(text.substr(0, equals), dims).second)
      return userError("--shape gives input '" + text.substr(0, equals) + "' twice");
  }
  for (const std::string &text : constants) {
    size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      return userError("--const is '" + text + "' but must be NAME=FILE or NAME=VALUE");
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    bool isNew = false;
    if (frontend::isTensorFile(value)) {
      Result<runtime::HostTensor> tensor = frontend::readTensorFile(value);
      if (!tensor)
        return userError(tensor.message());
      isNew = !result.import.values.count(name) && result.import.constants.emplace(name, std::move(*tensor)).second;
    } else {
      isNew = !result.import.constants.count(name) && result.import.values.emplace(name, value).second;
    }
    if (!isNew)
      return userError("--const gives input '" + name + "' twice");
  }
  for (const std::string &text : aliases) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return userError("--alias is '" + text + "' but must be OUT=IN, names of an output and of an input");
    result.import.aliases.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const TensorArgument &input : inputs) {
    if (result.import.constants.count(input.name) || result.import.values.count(input.name))
      return userError("input '" + input.name + "' is given by both --input and --const");
    result.import.given.push_back({input.name, input.file, input.tensor.shape});
    if (batch && !input.tensor.shape.empty())
      result.import.given.back().shape[0] = -1;
  }
  return result;
}

static std::string namesOf(const std::vector<runtime::TensorSpec> &specs) {
  std::string text;
  for (const runtime::TensorSpec &spec : specs)
    text += (text.empty() ? "" : ", ") + spec.name;
  return text;
}

StatusOr<std::vector<TensorArgument>> cli::readTensorFiles(const std::vector<std::string> &arguments) {
  std::vector<TensorArgument> tensors;
  for (const std::string &argument : arguments) {
    std::error_code failure;
    const size_t equals = argument.find('=');
    const bool isNamed = equals != std::string::npos && !std::filesystem::exists(argument, failure);
    TensorArgument tensor{isNamed ? argument.substr(0, equals) : "", isNamed ? argument.substr(equals + 1) : argument, {}};
    Result<runtime::HostTensor> read = frontend::readTensorFile(tensor.file);
    if (!read)
      return userError(read.message());
    tensor.tensor = std::move(*read);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

StatusOr<std::vector<std::optional<runtime::HostTensor>>> cli::assignTensors(std::vector<TensorArgument> arguments,
                                                                             const std::vector<runtime::TensorSpec> &specs,
                                                                             const std::string &what) {
  std::vector<std::optional<runtime::HostTensor>> tensors(specs.size());
  for (TensorArgument &argument : arguments) {
    if (argument.name.empty())
      continue;
    auto spec = std::find_if(specs.begin(), specs.end(),
                             [&](const runtime::TensorSpec &s) { return s.name == printable(argument.name); });
    if (spec == specs.end())
      return userError("the network has no " + what + " '" + argument.name + "', only: " + namesOf(specs));
    if (tensors[spec - specs.begin()])
      return userError(what + " '" + argument.name + "' is given twice");
    tensors[spec - specs.begin()] = std::move(argument.tensor);
  }
  size_t next = 0;
  for (TensorArgument &argument : arguments) {
    if (!argument.name.empty())
      continue;
    while (next < specs.size() && tensors[next])
      ++next;
    if (next == specs.size())
      return userError(std::to_string(arguments.size()) + " " + what + " files given but the network has " +
                       std::to_string(specs.size()) + " " + what + "s: " + namesOf(specs));
    tensors[next] = std::move(argument.tensor);
  }
  return tensors;
}

StatusOr<std::vector<runtime::HostTensor>> cli::fitInputs(std::vector<TensorArgument> files, uint64_t seed,
                                                          const std::vector<runtime::TensorSpec> &specs) {
  if (files.empty())
    return runtime::randomTensors(specs, seed);
  auto tensors = assignTensors(std::move(files), specs, "input");
  if (!tensors)
    return tensors.error();
  std::vector<runtime::HostTensor> inputs;
  for (size_t i = 0; i < tensors->size(); ++i) {
    if (!(*tensors)[i])
      return userError("input '" + specs[i].name + "' is not given");
    StatusOr<runtime::HostTensor> fitted = runtime::fitTo(*(*tensors)[i], specs[i]);
    if (!fitted)
      return fitted.error();
    inputs.push_back(std::move(*fitted));
  }
  return inputs;
}

void cli::addTechnology(CLI::App &command, std::string &technology) {
  command
      .add_option(
          "--technology", technology,
          "whose joules and square micrometres the report counts: 45nm, 7nm, or a file; default: the machine's, or 45nm")
      ->type_name("NAME|FILE");
}

Status cli::checkTechnology(const std::string &technology) {
  if (technology.empty())
    return {};
  const Result<hwconfigs::Technology> loaded = hwconfigs::loadTechnology(technology);
  return loaded ? Status() : Status(userError(loaded.message()));
}

void Progress::show(const std::string &text) {
  if (!isatty(STDERR_FILENO))
    return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
  shown = true;
}

void Progress::show(const pipeline::SearchProgress &search) {
  show("searching: program " + std::to_string(search.tried) + " of " + std::to_string(search.budget) + ", best " +
       runtime::grouped(search.best) + " cycles");
}

void Progress::clear() {
  if (shown)
    std::fprintf(stderr, "\r\033[K");
  shown = false;
}

Status cli::requireAccelerator(const runtime::Network &network, const std::string &purpose) {
  if (network.runsOnAccelerator())
    return {};
  std::string reasons = runtime::offloadText(network.offload);
  if (!reasons.empty())
    reasons.pop_back();
  return userError("nothing of " + network.model + " runs on the accelerator: " + purpose + "\n" + reasons);
}

void cli::printNotes(const std::vector<std::string> &notes) {
  for (const std::string &note : notes)
    std::fprintf(stderr, "tilewright: note: %s\n", printable(note).c_str());
}
