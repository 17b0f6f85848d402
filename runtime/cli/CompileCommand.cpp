//===- CompileCommand.cpp - tilewright compile ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/Files.h"
#include "runtime/gpu/GpuNetwork.h"
#include "runtime/cli/Cli.h"

#include <filesystem>

using namespace tw;
using namespace tw::cli;

namespace {

struct CompileArguments {
  ModelArguments model;
  std::string target = "accel", phase, output;
};

Status compile(const CompileArguments &arguments) {
  StatusOr<runtime::NetworkOptions> options = arguments.model.options();
  if (!options)
    return options.error();
  std::string stem = runtime::fileStem(arguments.model.model);
  if (arguments.target == "gpu" && arguments.phase.empty()) {
    StatusOr<tw::gpu::Program> program = runtime::compileOnGpu(arguments.model.model, *options);
    if (!program)
      return program.error();
    const std::string folder = arguments.output.empty() ? stem + ".gpu" : arguments.output;
    const runtime::gpu::ProgramFiles files = runtime::gpu::toFiles(*program);
    runtime::FileSet set;
    for (const std::string &path : {folder, folder + "/kernels"})
      if (Status status = set.addFolder(path); !status)
        return status;
    for (size_t i = 0; i < files.kernels.size(); ++i)
      if (Status status = set.add(folder + "/kernels/" + std::to_string(i) + ".ptx", files.kernels[i]); !status)
        return status;
    if (Status status = set.add(folder + "/weights.bin", files.weights); !status)
      return status;
    if (Status status = set.add(folder + "/program.json", files.json); !status)
      return status;
    return set.commit();
  }
  if (arguments.target == "cpu") {
    if (std::filesystem::path(options->schedule).extension() == ".mlir")
      return userError("--schedule " + options->schedule + " is for --target accel: code for the CPU has no such choices");
    if (!options->machine.empty())
      return userError("--hw is for --target accel: the CPU is the one this process runs on");
    if (arguments.phase.empty()) {
      std::string path = arguments.output.empty() ? stem + ".a" : arguments.output;
      if (Status status = checkOutputs({path}); !status)
        return status;
      StatusOr<std::string> library = runtime::emitCpuObjects(arguments.model.model, *options);
      return library ? runtime::writeFile(path, *library) : Status(library.error());
    }
    if (arguments.phase != "import" && arguments.phase != "graph" && arguments.phase != "linalg")
      return userError("--emit is '" + arguments.phase + "' but --target cpu has import, graph and linalg");
  } else if (options->machine.empty() && (arguments.phase.empty() || arguments.phase != "import") && !runtime::isProgramFile(arguments.model.model)) {
    return userError("a machine is needed to compile " + arguments.model.model + ": give one with --hw (see 'tilewright hw list')");
  }
  std::string phase = arguments.phase.empty() ? "program" : arguments.phase;
  std::string output = !arguments.output.empty() ? arguments.output : phase == "program" ? stem + ".twp" : "-";
  if (Status status = checkOutputs({output}); !status)
    return status;
  Progress progress;
  options->progress = [&progress](const pipeline::SearchProgress &search) { progress.show(search); };
  std::vector<std::string> notes;
  StatusOr<std::string> result = runtime::emitPhase(arguments.model.model, *options, phase, output == "-", notes);
  progress.clear();
  printNotes(notes);
  if (!result)
    return result.error();
  return runtime::writeFile(output, *result);
}

} // namespace

void cli::addCompileCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<CompileArguments>();
  CLI::App *command = app.add_subcommand("compile", "compile a model, or show it at the end of a phase");
  arguments->model.addTo(*command);
  command->add_option("--target", arguments->target, "accel (a program image) or cpu (a static library)")->check(CLI::IsMember({"accel", "cpu", "gpu"}))->capture_default_str();
  command->add_option("--emit", arguments->phase, "phase to show; text in a file has all constants and is a model again")->check(CLI::IsMember(runtime::phaseNames()));
  command->add_option("-o,--output", arguments->output, "file; - is standard output; default: MODEL.twp or MODEL.a, text to standard output");
  command->callback([arguments, &action] { action = [arguments] { return compile(*arguments); }; });
}
