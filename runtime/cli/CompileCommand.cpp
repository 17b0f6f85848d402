//===- CompileCommand.cpp - tilewright compile ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/opencl/Bundle.h"
#include "runtime/Explanation.h"
#include "runtime/Files.h"
#include "runtime/cli/Cli.h"
#include "runtime/gpu/CBundle.h"
#include "runtime/gpu/Choice.h"
#include "runtime/gpu/GpuNetwork.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

using namespace tw;
using namespace tw::cli;

namespace {

struct CompileArguments {
  ModelArguments model;
  std::string target = "accel", phase, output, name, weights, phaseFolder, report, gpu, deviceType;
  std::vector<std::string> printedPhases;
  bool isVerbose = false;
};

constexpr const char *kFusion = "fusion"; ///< --emit: the kernels of all targets, and what shares them
constexpr const char *kPtx = "ptx",
                     *kLlvm = "llvm";     ///< what --emit can show of code for a GPU, behind the phases that all targets share
constexpr const char *kOpenClText = "cl"; ///< of code for OpenCL
/// What devices of OpenCL are, as --device-type names them.
constexpr const char *kGpuType = "gpu", *kProcessorType = "cpu";

/// What --emit can show of code for the CPU, behind the phases that all targets share.
const std::vector<std::pair<std::string, cpu::BundleText>> &bundleTexts() {
  static const std::vector<std::pair<std::string, cpu::BundleText>> texts = {
      {"llvm", cpu::BundleText::Llvm}, {"asm", cpu::BundleText::Assembly}, {"obj", cpu::BundleText::Object}};
  return texts;
}

std::vector<std::string> emitNames() {
  std::vector<std::string> names = runtime::phaseNames();
  names.push_back(kFusion);
  for (const auto &[name, text] : bundleTexts())
    names.push_back(name);
  names.push_back(kPtx);
  names.push_back(kOpenClText);
  return names;
}

/// Phases that --print-after shows, and the files of --print-after-all.
constexpr std::pair<const char *, const char *> kPhaseFiles[] = {{"import", "0-import.mlir"}, {"graph", "1-graph.mlir"},
                                                                 {"linalg", "2-linalg.mlir"}, {"plan", "3-plan.mlir"},
                                                                 {"tiles", "4-tiles.txt"},    {"isa", "5-isa.txt"}};

std::vector<std::string> printableNames() {
  std::vector<std::string> names;
  for (auto [phase, file] : kPhaseFiles)
    names.push_back(phase);
  return names;
}

/// Stages a file for each phase that was reached.
Status stagePhases(runtime::FileSet &files, const std::string &folder, const std::map<std::string, std::string> &texts) {
  if (Status status = files.addFolder(folder); !status)
    return status;
  for (auto [phase, file] : kPhaseFiles)
    if (auto text = texts.find(phase); text != texts.end())
      if (Status status = files.add(folder + "/" + file, text->second); !status)
        return status;
  return {};
}

/// Writes the texts of phases: to the folder, or to standard error.
Status writePhases(const CompileArguments &arguments, const runtime::PhaseTexts &phases) {
  if (!arguments.phaseFolder.empty()) {
    runtime::FileSet files;
    if (Status status = stagePhases(files, arguments.phaseFolder, phases.texts); !status)
      return status;
    return files.commit();
  }
  for (const std::string &phase : printableNames())
    if (auto text = phases.texts.find(phase); text != phases.texts.end())
      std::fprintf(stderr, "// phase %s\n%s", phase.c_str(), text->second.c_str());
  return {};
}

/// Writes the text of a phase.
Status emit(const CompileArguments &arguments, runtime::NetworkOptions &options) {
  std::string phase = arguments.phase.empty() ? "program" : arguments.phase;
  std::string stem = runtime::fileStem(arguments.model.model);
  std::string output = !arguments.output.empty() ? arguments.output : phase == "program" ? stem + ".twp" : "-";
  if (Status status = checkOutputs({output, arguments.model.explainFile}); !status)
    return status;
  runtime::PhaseTexts phases;
  phases.wanted = arguments.phaseFolder.empty() ? arguments.printedPhases : printableNames();
  phases.elide = arguments.phaseFolder.empty();
  if (!arguments.phaseFolder.empty()) {
    runtime::FileSet probe; // an hour may lie between this and the results
    std::map<std::string, std::string> empty;
    for (const std::string &name : phases.wanted)
      empty[name] = "";
    if (Status status = stagePhases(probe, arguments.phaseFolder, empty); !status)
      return status;
  }
  runtime::Explanation explanation(arguments.model.explainFile);
  options.explain = explanation.report();
  runtime::RuleExplanation ruleExplanation(arguments.model.explainRulesFile);
  ruleExplanation.collect(options.rules);
  Progress progress;
  options.progress = [&progress](const pipeline::SearchProgress &search) { progress.show(search); };
  std::vector<std::string> notes;
  StatusOr<std::string> result = runtime::emitPhase(arguments.model.model, options, phase, output == "-", notes,
                                                    phases.wanted.empty() ? nullptr : &phases);
  progress.clear();
  printNotes(notes);
  // After an error they show how far it came.
  if (Status status = writePhases(arguments, phases); !status)
    return status;
  if (!result)
    return result.error();
  if (Status status = ruleExplanation.write(); !status)
    return status;
  if (Status status = explanation.write(); !status)
    return status;
  return runtime::writeFile(output, *result);
}

/// Stages the files of a bundle.
Status stage(runtime::FileSet &files, const std::string &folder, const std::string &name, const cpu::Bundle &bundle,
             bool hasWeights) {
  if (Status status = files.addFolder(folder); !status)
    return status;
  const std::string path = folder + "/";
  if (Status status = files.add(path + "lib" + name + ".a", bundle.library); !status)
    return status;
  if (Status status = files.add(path + name + ".h", bundle.header); !status)
    return status;
  return hasWeights ? files.add(path + name + ".weights.bin", bundle.weights) : Status();
}

Status compileForCpu(const CompileArguments &arguments, runtime::NetworkOptions &options) {
  if (std::filesystem::path(options.schedule).extension() == ".mlir")
    return userError("--schedule " + options.schedule + " is for --target accel: code for the CPU has no such choices");
  if (!options.machine.empty())
    return userError("--hw is for --target accel: --cpu and --arch name the processor of --target cpu");
  auto text = std::find_if(bundleTexts().begin(), bundleTexts().end(),
                           [&](const auto &entry) { return entry.first == arguments.phase; });
  const bool isText = text != bundleTexts().end();
  if (!isText && !arguments.phase.empty()) {
    if (arguments.phase != "import" && arguments.phase != "graph" && arguments.phase != "linalg" && arguments.phase != kFusion)
      return userError("--emit is '" + arguments.phase +
                       "' but --target cpu has import, graph, linalg, fusion, llvm, asm and obj");
    return emit(arguments, options);
  }
  runtime::BundleRequest request;
  const std::string stem = runtime::fileStem(arguments.model.model);
  request.name = cpu::cIdentifier(arguments.name.empty() ? stem : arguments.name);
  if (!arguments.name.empty() && request.name != arguments.name)
    return userError("--name is '" + arguments.name + "' but must be a C identifier that is no keyword, like " + request.name);
  request.separateWeights = arguments.weights == "file";
  if (isText) {
    request.text = text->second;
    const std::string output = !arguments.output.empty()                 ? arguments.output
                               : text->second == cpu::BundleText::Object ? request.name + ".o"
                                                                         : "-";
    if (Status status = checkOutputs({output}); !status)
      return status;
    StatusOr<cpu::Bundle> bundle = runtime::compileBundle(arguments.model.model, options, request);
    return bundle ? runtime::writeFile(output, bundle->library) : Status(bundle.error());
  }
  const std::string folder = arguments.output.empty() ? "." : arguments.output;
  if (folder == "-")
    return userError("-o is '-' but must be a folder: --target cpu writes several files (--emit writes one)");
  {
    runtime::FileSet probe; // an hour may lie between this and the results
    if (Status status = stage(probe, folder, request.name, {}, request.separateWeights); !status)
      return status;
  }
  StatusOr<cpu::Bundle> bundle = runtime::compileBundle(arguments.model.model, options, request);
  if (!bundle)
    return bundle.error();
  runtime::FileSet files;
  if (Status status = stage(files, folder, request.name, *bundle, request.separateWeights); !status)
    return status;
  if (Status status = files.commit(); !status)
    return status;
  if (arguments.name.empty() && request.name != stem)
    printNotes({"'" + stem + "' is no C identifier: files and symbols are called " + request.name});
  return {};
}

/// Machine code of PTX by this ptxas.
StatusOr<std::string> machineCodeOf(const std::string &ptx, const std::string &program, tw::gpu::Architecture architecture) {
  llvm::SmallString<128> paths[3]; // PTX, machine code, what ptxas says
  for (auto [i, suffix] : {std::pair(0, "ptx"), {1, "cubin"}, {2, "txt"}})
    if (std::error_code error = llvm::sys::fs::createTemporaryFile("tilewright", suffix, paths[i]))
      return userError("cannot make a temporary file for ptxas: " + error.message());
  const llvm::FileRemover removers[] = {llvm::FileRemover(paths[0]), llvm::FileRemover(paths[1]), llvm::FileRemover(paths[2])};
  std::ofstream(paths[0].c_str(), std::ios::binary) << ptx;
  const std::string target = std::string("-arch=") + nameOf(architecture);
  const std::optional<llvm::StringRef> redirects[] = {std::nullopt, paths[2].str(), paths[2].str()};
  const int status = llvm::sys::ExecuteAndWait(program, {program, target, paths[0], "-o", paths[1]}, std::nullopt, redirects);
  auto contents = [](llvm::SmallString<128> &path) {
    std::ifstream file(path.c_str(), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  if (status)
    return userError(program + " fails: " + contents(paths[2]));
  return contents(paths[1]);
}

/// The same of several kernels on all processors, in their order; empty where PATH has no ptxas.
StatusOr<std::vector<std::string>> machineCodeOf(const std::vector<const std::string *> &kernels,
                                                 tw::gpu::Architecture architecture) {
  const llvm::ErrorOr<std::string> program = llvm::sys::findProgramByName("ptxas");
  std::vector<std::string> code(program ? kernels.size() : 0), problems(code.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < code.size();)
      if (StatusOr<std::string> one = machineCodeOf(*kernels[i], *program, architecture))
        code[i] = std::move(*one);
      else
        problems[i] = one.error().message;
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::min<size_t>(std::thread::hardware_concurrency(), code.size()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &problem : problems)
    if (!problem.empty())
      return userError(problem);
  return code;
}

/// Stages the files of a program, and those for C programs, which begin with `name`.
Status stage(runtime::FileSet &set, const std::string &folder, const runtime::gpu::ProgramFiles &files, const std::string &name,
             const runtime::gpu::CBundle &bundle) {
  for (const std::string &path : {folder, folder + "/kernels"})
    if (Status status = set.addFolder(path); !status)
      return status;
  for (size_t i = 0; i < files.kernels.size(); ++i)
    if (Status status = set.add(folder + "/kernels/" + std::to_string(i) + ".ptx", files.kernels[i]); !status)
      return status;
  for (const auto &[file, text] : {std::pair(name + ".h", &bundle.header), std::pair(name + ".c", &bundle.loader),
                                   std::pair(std::string("weights.bin"), &files.weights)})
    if (Status status = set.add(folder + "/" + file, *text); !status)
      return status;
  return set.add(folder + "/program.json", files.json);
}

Status compileForGpu(const CompileArguments &arguments, runtime::NetworkOptions &options) {
  if (std::filesystem::path(options.schedule).extension() == ".mlir")
    return userError("--schedule " + options.schedule + " is for --target accel: code for a GPU has no such choices");
  if (!options.machine.empty())
    return userError("--hw is for --target accel: --gpu names the architecture of --target gpu");
  options.gpuArchitecture =
      arguments.gpu == nameOf(tw::gpu::Architecture::Sm80) ? tw::gpu::Architecture::Sm80 : tw::gpu::Architecture::Sm90a;
  const std::string &phase = arguments.phase;
  if (phase == "import" || phase == "graph" || phase == "linalg" || phase == kFusion) {
    options.targets = {"gpu"};
    return emit(arguments, options);
  }
  const bool isText = phase == kPtx || phase == kLlvm;
  const std::string stem = runtime::fileStem(arguments.model.model);
  const std::string name = cpu::cIdentifier(arguments.name.empty() ? stem : arguments.name);
  if (!arguments.name.empty() && name != arguments.name)
    return userError("--name is '" + arguments.name + "' but must be a C identifier that is no keyword, like " + name);
  if (!phase.empty() && !isText)
    return userError("--emit is '" + phase + "' but --target gpu has import, graph, linalg, fusion, llvm and ptx");
  const std::string output = !arguments.output.empty() ? arguments.output : isText ? "-" : stem + ".gpu";
  if (isText && (arguments.isVerbose || !arguments.report.empty()))
    return userError("--json and --verbose are for the folder of --target gpu, without --emit");
  if (isText) {
    if (Status status = checkOutputs({output}); !status)
      return status;
  } else if (output == "-") {
    return userError("-o is '-' but must be a folder: --target gpu writes several files (--emit writes one)");
  } else {
    runtime::FileSet probe;
    if (Status status = stage(probe, output, {}, name, {}); !status)
      return status;
    if (!arguments.report.empty())
      if (Status status = probe.add(arguments.report, ""); !status)
        return status;
  }
  StatusOr<tw::gpu::Program> program = runtime::compileOnGpu(arguments.model.model, options, nullptr, phase == kLlvm);
  if (!program)
    return program.error();
  if (isText) {
    std::string text;
    for (size_t i = 0; i < program->kernels.size(); ++i)
      text += (phase == kPtx ? "// kernel " : "; kernel ") + std::to_string(i) + "\n" +
              (phase == kPtx ? program->kernels[i].ptx : program->kernels[i].llvm);
    return runtime::writeFile(output, text);
  }
  const std::vector<std::string> earlier = runtime::gpu::kernelFilesOf(output);
  runtime::FileSet files;
  const runtime::gpu::ProgramFiles written = runtime::gpu::toFiles(*program);
  const runtime::gpu::CBundle bundle = runtime::gpu::toC(*program, name, arguments.model.model);
  if (Status status = stage(files, output, written, name, bundle); !status)
    return status;
  if (!arguments.report.empty())
    if (Status status = files.add(arguments.report, runtime::gpu::reportJson(*program, {})); !status)
      return status;
  std::vector<const std::string *> texts;
  for (uint32_t kernel : bundle.kernels)
    texts.push_back(&written.kernels[kernel]);
  StatusOr<std::vector<std::string>> code = machineCodeOf(texts, program->architecture);
  if (!code)
    return code.error();
  std::vector<bool> hasCode(written.kernels.size(), false);
  for (size_t i = 0; i < code->size(); ++i) {
    hasCode[bundle.kernels[i]] = true;
    if (Status status = files.add(output + "/kernels/" + std::to_string(bundle.kernels[i]) + ".cubin", (*code)[i]); !status)
      return status;
  }
  std::error_code ignored; // a kernel that is left over is in nobody's way
  // But its machine code would be loaded in place of the new kernel.
  for (size_t i = 0; i < std::max(earlier.size(), hasCode.size()); ++i)
    if (i >= hasCode.size() || !hasCode[i])
      std::filesystem::remove(output + "/kernels/" + std::to_string(i) + ".cubin", ignored);
  if (Status status = files.commit(); !status)
    return status;
  const std::vector<std::string> now = runtime::gpu::kernelFilesOf(output);
  for (const std::string &file : earlier)
    if (std::find(now.begin(), now.end(), file) == now.end())
      std::filesystem::remove(output + "/" + file, ignored);
  if (arguments.isVerbose)
    std::fputs(runtime::gpu::reportText(*program, true).c_str(), stdout);
  return {};
}

/// Stages the files of a network for OpenCL.
Status stage(runtime::FileSet &files, const std::string &folder, const std::string &name, const tw::opencl::Bundle &bundle) {
  if (Status status = files.addFolder(folder); !status)
    return status;
  const std::string stem = folder + "/" + name;
  const std::pair<const char *, const std::string &> parts[] = {
      {".h", bundle.header}, {".c", bundle.loader}, {".cl", bundle.kernels}, {".weights.bin", bundle.weights}};
  for (const auto &[suffix, text] : parts)
    if (Status status = files.add(stem + suffix, text); !status)
      return status;
  return {};
}

Status compileForOpenCl(const CompileArguments &arguments, runtime::NetworkOptions &options) {
  options.openClDevice =
      arguments.deviceType == kProcessorType ? tw::opencl::DeviceType::Processor : tw::opencl::DeviceType::Gpu;
  if (std::filesystem::path(options.schedule).extension() == ".mlir")
    return userError("--schedule " + options.schedule + " is for --target accel: code for OpenCL has no such choices");
  if (!options.machine.empty())
    return userError("--hw is for --target accel: code for OpenCL is for any device");
  const std::string &phase = arguments.phase, stem = runtime::fileStem(arguments.model.model);
  if (phase == "import" || phase == "graph" || phase == "linalg") {
    options.targets = {"opencl"};
    return emit(arguments, options);
  }
  if (!phase.empty() && phase != kOpenClText)
    return userError("--emit is '" + phase + "' but --target opencl has import, graph, linalg and cl");
  if (phase == kOpenClText) {
    const std::string output = arguments.output.empty() ? "-" : arguments.output;
    if (Status status = checkOutputs({output}); !status)
      return status;
    StatusOr<tw::opencl::Program> program = runtime::compileOnOpenCl(arguments.model.model, options);
    return program ? runtime::writeFile(output, program->source) : Status(program.error());
  }
  const std::string name = cpu::cIdentifier(arguments.name.empty() ? stem : arguments.name);
  if (!arguments.name.empty() && name != arguments.name)
    return userError("--name is '" + arguments.name + "' but must be a C identifier that is no keyword, like " + name);
  const std::string folder = arguments.output.empty() ? "." : arguments.output;
  if (folder == "-")
    return userError("-o is '-' but must be a folder: --target opencl writes several files (--emit writes one)");
  {
    runtime::FileSet probe;
    if (Status status = stage(probe, folder, name, tw::opencl::Bundle()); !status)
      return status;
  }
  StatusOr<tw::opencl::Bundle> bundle = runtime::compileOpenClBundle(arguments.model.model, options, name);
  if (!bundle)
    return bundle.error();
  runtime::FileSet files;
  if (Status status = stage(files, folder, name, *bundle); !status)
    return status;
  if (Status status = files.commit(); !status)
    return status;
  if (arguments.name.empty() && name != stem)
    printNotes({"'" + stem + "' is no C identifier: files and symbols are called " + name});
  return {};
}

Status compile(const CompileArguments &arguments) {
  StatusOr<runtime::NetworkOptions> options = arguments.model.options();
  if (!options)
    return options.error();
  const std::pair<const char *, bool> onlyAccelerator[] = {{"--explain", !arguments.model.explainFile.empty()},
                                                           {"--print-after", !arguments.printedPhases.empty()},
                                                           {"--print-after-all", !arguments.phaseFolder.empty()}};
  for (const auto &[option, isGiven] : onlyAccelerator)
    if (isGiven && arguments.target != "accel")
      return userError(std::string(option) + " is for --target accel");
  if (arguments.target != "gpu" && !arguments.gpu.empty())
    return userError("--gpu is for --target gpu");
  if (arguments.target != "opencl" && !arguments.deviceType.empty())
    return userError("--device-type is for --target opencl");
  if (arguments.target != "gpu" && (arguments.isVerbose || !arguments.report.empty()))
    return userError(std::string(arguments.isVerbose ? "--verbose" : "--json") + " is for --target gpu");
  if (arguments.target == "cpu")
    return compileForCpu(arguments, *options);
  const std::pair<const char *, const std::string &> onlyCpu[] = {{"--arch", options->processor.arch},
                                                                  {"--cpu", options->processor.cpu},
                                                                  {"--features", options->processor.features},
                                                                  {"--weights", arguments.weights}};
  for (const auto &[option, value] : onlyCpu)
    if (!value.empty())
      return userError(std::string(option) + " is for --target cpu");
  if (arguments.target == "opencl" && arguments.phase != "asm" && arguments.phase != "obj" && arguments.phase != kPtx &&
      arguments.phase != kLlvm)
    return compileForOpenCl(arguments, *options);
  if (!arguments.name.empty() && arguments.target != "gpu")
    return userError("--name is for --target cpu, gpu or opencl");
  if (arguments.target == "gpu" && arguments.phase != "asm" && arguments.phase != "obj")
    return compileForGpu(arguments, *options);
  for (const auto &[name, text] : bundleTexts())
    if (arguments.phase == name)
      return userError("--emit " + name + " is for --target cpu" + (name == kLlvm ? " or gpu" : ""));
  if (arguments.phase == kPtx)
    return userError(std::string("--emit ") + kPtx + " is for --target gpu");
  if (arguments.phase == kOpenClText)
    return userError(std::string("--emit ") + kOpenClText + " is for --target opencl");
  if (options->machine.empty() && (arguments.phase.empty() || arguments.phase != "import") &&
      !runtime::isProgramFile(arguments.model.model))
    return userError("a machine is needed to compile " + arguments.model.model +
                     ": give one with --hw (see 'tilewright hw list')");
  return emit(arguments, *options);
}

} // namespace

void cli::addCompileCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<CompileArguments>();
  CLI::App *command = app.add_subcommand("compile", "compile a model, or show it at the end of a phase");
  arguments->model.addTo(*command);
  arguments->model.addExplain(*command);
  addRepeated(*command, "--print-after", arguments->printedPhases,
              "also show this phase on standard error, large constants left out: import, graph, linalg, plan, tiles or isa")
      ->check(CLI::IsMember(printableNames()))
      ->type_name("PHASE");
  command
      ->add_option("--print-after-all", arguments->phaseFolder,
                   "also write every phase to this folder, 0-import.mlir to 5-isa.txt, with all constants")
      ->excludes("--print-after")
      ->type_name("DIR");
  command
      ->add_option("--target", arguments->target,
                   "accel (a program image), cpu (a C library, docs/cpu.md) or gpu (PTX and what a driver needs, docs/gpu.md)")
      ->check(CLI::IsMember(runtime::targetNames()))
      ->capture_default_str();
  command
      ->add_option(
          "--emit", arguments->phase,
          "phase to show; plan writes every choice as a plan file; text of import, graph or linalg in a file has all constants "
          "and is a model again; fusion: which operators share a kernel, and why no more do; --target cpu: llvm, asm or obj, "
          "all kernels in one file; --target gpu: llvm or ptx; --target opencl: cl")
      ->check(CLI::IsMember(emitNames()));
  command->add_option("--arch", arguments->model.network.processor.arch, "--target cpu: architecture, if not this processor's")
      ->check(CLI::IsMember(cpu::archNames()));
  command
      ->add_option("--gpu", arguments->gpu,
                   "--target gpu: architecture; sm_80: Ampere and later, sm_90a (default): Hopper alone, and faster there")
      ->check(CLI::IsMember({nameOf(tw::gpu::Architecture::Sm80), nameOf(tw::gpu::Architecture::Sm90a)}));
  command
      ->add_option("--device-type", arguments->deviceType,
                   "--target opencl: what the kernels are written for, gpu (default) or cpu; either runs on any device")
      ->check(CLI::IsMember({kGpuType, kProcessorType}));
  command->add_option("--name", arguments->name,
                      "--target cpu, gpu, opencl: what files and symbols for C begin with; default: MODEL");
  command
      ->add_option("--weights", arguments->weights,
                   "--target cpu: weights inside the library (default) or in a file, NAME.weights.bin")
      ->check(CLI::IsMember({"inside", "file"}));
  command->add_option("--json", arguments->report,
                      "--target gpu: every step's variants, their estimates, and why one is taken; - is standard output");
  command->add_flag("--verbose", arguments->isVerbose, "--target gpu: the same as a table");
  command->add_option(
      "-o,--output", arguments->output,
      "file, - is standard output; --target cpu, gpu, opencl: folder; default: MODEL.twp, text to standard output, "
      "this folder, MODEL.gpu");
  command->callback([arguments, &action] { action = [arguments] { return compile(*arguments); }; });
}
