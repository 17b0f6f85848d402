//===- QuantizeCommand.cpp - tilewright quantize --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/TensorFile.h"
#include "compiler/quantize/Calibrator.h"
#include "compiler/quantize/Quantizer.h"
#include "isa/files/InputFile.h"
#include "runtime/Files.h"
#include "runtime/cli/Cli.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <thread>

using namespace tw;
using namespace tw::cli;
using runtime::HostTensor;
using runtime::TensorSpec;

namespace fs = std::filesystem;

namespace {

struct QuantizeArguments {
  ModelArguments model;
  std::string calibration, output;
  unsigned samples = 0, threads = 0;
  quantize::Form form = quantize::Form::Fused;
  std::vector<std::string> eightBit;
};

using Sample = std::vector<HostTensor>;

constexpr unsigned kRandomSamples = 8;

bool isTensorFile(const fs::path &path) { return path.extension() == ".npy" || path.extension() == ".pb"; }

/// What a folder holds, in the order of names.
StatusOr<std::vector<fs::path>> listFolder(const fs::path &folder) {
  std::vector<fs::path> entries;
  std::error_code failure;
  for (fs::directory_iterator it(folder, failure), end; !failure && it != end; it.increment(failure))
    entries.push_back(it->path());
  if (failure)
    return userError("cannot read folder '" + folder.string() + "': " + failure.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// The samples of one file: a tensor for the one input, or several behind each other along dim 0.
Status addFile(const std::string &path, const std::vector<TensorSpec> &specs, std::vector<Sample> &samples) {
  if (specs.size() != 1)
    return userError("calibration file '" + path + "' is for networks with one input, this one has " +
                     std::to_string(specs.size()) + ": give a folder with one folder a sample");
  Result<HostTensor> tensor = frontend::readTensorFile(path);
  if (!tensor)
    return userError(tensor.message());
  if (StatusOr<HostTensor> one = runtime::fitTo(*tensor, specs[0])) {
    samples.push_back({std::move(*one)});
    return {};
  }
  StatusOr<std::vector<HostTensor>> parts = runtime::splitBatch(*tensor, specs[0]);
  if (!parts)
    return userError(path + ": " + parts.error().message);
  for (HostTensor &part : *parts)
    samples.push_back({std::move(part)});
  return {};
}

/// A folder with a file for every input: NAME.npy, NAME.pb, input_K.npy or input_K.pb.
Status addFolder(const fs::path &folder, const std::vector<TensorSpec> &specs, std::vector<Sample> &samples) {
  Sample sample;
  for (size_t i = 0; i < specs.size(); ++i) {
    std::string stem = "input_" + std::to_string(i);
    fs::path file;
    std::error_code failure;
    for (const std::string &name : {specs[i].name + ".npy", specs[i].name + ".pb", stem + ".npy", stem + ".pb"})
      if (file.empty() && fs::is_regular_file(folder / name, failure))
        file = folder / name;
    if (file.empty())
      return userError("sample '" + folder.string() + "' holds neither " + specs[i].name + ".npy nor " + stem +
                       ".npy (or .pb) for input '" + specs[i].name + "'");
    Result<HostTensor> tensor = frontend::readTensorFile(file);
    if (!tensor)
      return userError(tensor.message());
    StatusOr<HostTensor> fitted = runtime::fitTo(*tensor, specs[i]);
    if (!fitted)
      return userError(file.string() + ": " + fitted.error().message);
    sample.push_back(std::move(*fitted));
  }
  samples.push_back(std::move(sample));
  return {};
}

/// `limit` 0: all there are.
StatusOr<std::vector<Sample>> readSamples(const std::string &calibration, unsigned limit,
                                          const std::vector<TensorSpec> &specs) {
  std::vector<Sample> samples;
  if (calibration.rfind("random:", 0) == 0) {
    uint64_t seed = 0;
    const char *begin = calibration.data() + 7, *end = calibration.data() + calibration.size();
    if (auto [at, failure] = std::from_chars(begin, end, seed); failure != std::errc() || at != end)
      return userError("--calibration is '" + calibration + "' but the seed of random:SEED must be a number");
    for (unsigned i = 0; i < (limit ? limit : kRandomSamples); ++i) {
      Sample sample;
      for (const TensorSpec &spec : specs)
        sample.push_back(runtime::randomTensor(spec, seed + i * specs.size() + sample.size()));
      samples.push_back(std::move(sample));
    }
    return samples;
  }
  std::error_code failure;
  if (fs::is_directory(calibration, failure)) {
    StatusOr<std::vector<fs::path>> entries = listFolder(calibration);
    if (!entries)
      return entries.error();
    bool hasFiles = std::any_of(entries->begin(), entries->end(), isTensorFile);
    for (const fs::path &entry : *entries) {
      if (limit && samples.size() >= limit)
        break;
      Status status;
      if (hasFiles ? isTensorFile(entry) : fs::is_directory(entry, failure))
        status = hasFiles ? addFile(entry, specs, samples) : addFolder(entry, specs, samples);
      if (!status)
        return status.error();
    }
    if (samples.empty())
      return userError("calibration folder '" + calibration +
                       "' holds no sample: expected .npy or .pb files, or a folder a sample");
  } else if (fs::exists(calibration, failure)) {
    if (!isTensorFile(calibration))
      return userError("calibration file '" + calibration + "' must be .npy or .pb");
    if (Status status = addFile(calibration, specs, samples); !status)
      return status.error();
  } else {
    return userError("cannot open calibration '" + calibration + "': no such folder or file, and not random:SEED");
  }
  if (limit && samples.size() > limit)
    samples.resize(limit);
  return samples;
}

Status quantizeModel(const QuantizeArguments &arguments) {
  StatusOr<runtime::NetworkOptions> options = arguments.model.options();
  if (!options)
    return options.error();
  const std::string &model = arguments.model.model;
  if (fs::path(model).extension() != ".onnx")
    return userError("'" + model + "' has suffix '" + fs::path(model).extension().string() + "' but quantize takes .onnx");
  files::addInput(arguments.calibration);
  if (Status status = checkOutputs({arguments.output}); !status)
    return status;
  Result<std::string> bytes = files::readFile(model);
  if (!bytes)
    return userError(bytes.message());
  Progress progress;
  progress.show("reading " + model);
  auto quantizer = quantize::Quantizer::create(*bytes, model, options->import.shapes, arguments.form, arguments.eightBit);
  if (!quantizer)
    return runtime::compilerError(llvm::toString(quantizer.takeError()));
  progress.show("compiling " + model);
  unsigned threads = arguments.threads ? arguments.threads : std::max(1u, std::thread::hardware_concurrency());
  auto calibrator = quantize::Calibrator::create(**quantizer, model, options->import.shapes, threads);
  if (!calibrator)
    return runtime::compilerError(llvm::toString(calibrator.takeError()));
  std::vector<TensorSpec> specs;
  for (const HostTensor &input : (*calibrator)->inputs())
    specs.push_back({input.name, input.type, input.shape});
  StatusOr<std::vector<Sample>> samples = readSamples(arguments.calibration, arguments.samples, specs);
  if (!samples)
    return samples.error();
  for (size_t i = 0; i < samples->size(); ++i) {
    progress.show("sample " + std::to_string(i + 1) + " of " + std::to_string(samples->size()));
    if (llvm::Error error = (*calibrator)->run((*samples)[i]))
      return userError(model + ": sample " + std::to_string(i + 1) + " of " + arguments.calibration + ": " +
                       llvm::toString(std::move(error)));
  }
  progress.clear();
  std::string result = (*quantizer)->quantize((*calibrator)->ranges());
  if (Status status = runtime::writeFile(arguments.output, result); !status)
    return status;
  if (arguments.output == "-")
    return {};

  const quantize::Summary &summary = (*quantizer)->summary();
  std::string counts;
  for (const auto &[type, count] : summary.integer)
    counts += (counts.empty() ? "" : ", ") + std::to_string(count) + " " + type;
  std::printf("on integers: %s; %u tensors %s\n", counts.c_str(), summary.tensors,
              arguments.form == quantize::Form::Fused ? "int8" : "uint8");
  for (const auto &[node, reason] : summary.floating)
    std::printf("float: %s: %s\n", node.c_str(), reason.c_str());
  std::printf("ranges from %zu %s of %s\n", samples->size(), samples->size() == 1 ? "sample" : "samples",
              arguments.calibration.c_str());
  std::printf("%s: %.1f KiB, from %.1f KiB\n", arguments.output.c_str(), double(result.size()) / 1024,
              double(bytes->size()) / 1024);
  return {};
}

} // namespace

void cli::addQuantizeCommand(CLI::App &app, Action &action) {
  auto arguments = std::make_shared<QuantizeArguments>();
  CLI::App *command = app.add_subcommand("quantize", "a float ONNX model as an int8 QDQ model");
  command->add_option("MODEL", arguments->model.model, ".onnx, float")->required();
  command
      ->add_option("--calibration", arguments->calibration,
                   "samples of the inputs: a folder of .npy or .pb files (several inputs: of folders with one file an "
                   "input), one "
                   "file, or random:SEED")
      ->required();
  command->add_option("--samples", arguments->samples, "at most so many; default: all of a folder, 8 random ones")
      ->check(CLI::Range(1u, 1000000u));
  addRepeated(*command, "--shape", arguments->model.shapes, "shape of a network input")->type_name("NAME=1,3,224,224");
  addRepeated(*command, "--int8", arguments->eightBit,
              "an input or output that is 8-bit itself, as a cache is: without a conversion from or to float")
      ->type_name("NAME");
  command->add_option("--threads", arguments->threads, "threads on the CPU; default: all of its cores")
      ->check(CLI::Range(1u, 1024u));
  command
      ->add_option_function<std::string>(
          "--form",
          [arguments](const std::string &name) {
            arguments->form = name == "fused" ? quantize::Form::Fused : quantize::Form::Portable;
          },
          "fused (default): for compilers that fuse nodes; portable: uint8 activations, rounded behind every convolution and "
          "Add, as other runtimes run it fast")
      ->check(CLI::IsMember({"fused", "portable"}));
  command->add_option("-o,--output", arguments->output, "the QDQ model; - is standard output")->required();
  command->callback([arguments, &action] { action = [arguments] { return quantizeModel(*arguments); }; });
}
