//===- Main.cpp - tilewright-gpu: run a compiled folder -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// For machines that have a GPU and no compiler: links neither LLVM nor CUDA.
// tilewright-gpu FOLDER [--input FILE]... [--output-dir DIR] [--repeat N] [--copies N] [--cache DIR] [--save-choice] [--no-choice]
//   [--json FILE] [--verbose] [--random SEED]
// FILEs are raw bytes, dense and row-major, one for each input. --copies: networks in one graph. --random: weights and inputs that are
// only good for measuring; weights.bin may then be missing.
//===----------------------------------------------------------------------===//
#include "isa/files/InputFile.h"
#include "runtime/gpu/Choice.h"
#include "runtime/gpu/GpuNetwork.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

using namespace tw;
using namespace tw::runtime;
using namespace tw::runtime::gpu;

static int fail(const Error &error) {
  std::fprintf(stderr, "tilewright-gpu: %s\n", error.message.c_str());
  return error.message.rfind("no GPU here", 0) == 0 ? 77 : int(error.kind); // 77: skipped, by the convention of test drivers
}

static Status run(const std::vector<std::string> &arguments) {
  std::string folder, outputs, badNumber, report;
  bool isVerbose = false;
  std::vector<std::string> inputs;
  GpuNetworkOptions options;
  unsigned repeat = 100;
  uint64_t random = 0;
  if (std::find_if(arguments.begin(), arguments.end(),
                   [](const std::string &each) { return each == "--help" || each == "-h"; }) != arguments.end()) {
    std::puts(
        "tilewright-gpu FOLDER [--input FILE]... [--output-dir DIR] [--repeat N] [--copies N] [--cache DIR] [--save-choice] "
        "[--no-choice] [--json FILE] [--verbose] [--random SEED]\n"
        "Runs what 'tilewright compile --target gpu -o FOLDER' wrote (docs/gpu.md). FILEs are raw bytes, one for each input.\n"
        "--save-choice: times the variants and keeps the fastest in FOLDER/choice.json, which later runs on this device and "
        "driver take untimed.\n"
        "--no-choice: the variants that the cost model likes best, untimed. --json, --verbose: for every step which variant "
        "runs, "
        "and why.\n"
        "--random: weights and inputs only good for measuring.\n"
        "Exit status: 0 ok, 1 user error, 3 internal error, 77 no GPU here.");
    return {};
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string option = arguments[i];
    auto value = [&]() -> std::string { return i + 1 < arguments.size() ? arguments[++i] : ""; };
    auto number = [&]() -> unsigned {
      const std::string text = value();
      char *end = nullptr;
      const unsigned long result = std::strtoul(text.c_str(), &end, 10);
      if (text.empty() || text[0] == '-' || *end || !result || result > 1000000)
        badNumber = option + " is '" + text + "' but must be from 1 to 1000000";
      return unsigned(result);
    };
    if (arguments[i] == "--input")
      inputs.push_back(value());
    else if (arguments[i] == "--output-dir")
      outputs = value();
    else if (arguments[i] == "--repeat")
      repeat = number();
    else if (arguments[i] == "--copies")
      options.copies = number();
    else if (arguments[i] == "--random")
      random = number();
    else if (arguments[i] == "--cache")
      options.cacheFolder = value();
    else if (arguments[i] == "--save-choice")
      options.savesChoice = true;
    else if (arguments[i] == "--no-choice")
      options.chooses = false;
    else if (arguments[i] == "--json")
      report = value();
    else if (arguments[i] == "--verbose")
      isVerbose = true;
    else if (folder.empty() && arguments[i][0] != '-')
      folder = arguments[i];
    else
      return userError("unknown argument '" + arguments[i] +
                       "', expected FOLDER, --input, --output-dir, --repeat, --copies, --cache, --save-choice, --no-choice, "
                       "--json, --verbose or --random");
  }
  if (!badNumber.empty())
    return userError(badNumber);
  if (folder.empty())
    return userError("a folder is needed, as 'tilewright compile --target gpu -o DIR' writes it");
  if (options.savesChoice && !options.chooses)
    return userError("--save-choice keeps what --no-choice does not time: give one of them");
  options.choiceFile = folder + "/choice.json";
  StatusOr<tw::gpu::Program> program = fromFolder(folder, !random);
  if (!program)
    return program.error();
  // 16-bit floats between 2^-7 and 2 of both signs, and as bytes anything.
  auto fill = [&](std::vector<uint8_t> &bytes) {
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      const uint32_t bits = uint32_t(random >> 40);
      const uint16_t number = uint16_t((bits & 0x8000) | (0x3c00 + (bits & 0x03ff)));
      bytes[i] = uint8_t(number);
      bytes[i + 1] = uint8_t(number >> 8);
    }
  };
  const bool isRandom = random != 0;
  if (isRandom)
    fill(program->constants);
  if (!inputs.empty() && inputs.size() != program->inputs.size())
    return userError(std::to_string(inputs.size()) + " inputs given but the network takes " +
                     std::to_string(program->inputs.size()));
  StatusOr<std::shared_ptr<Driver>> driver = Driver::open();
  if (!driver)
    return driver.error();
  StatusOr<std::unique_ptr<GpuNetwork>> network = GpuNetwork::load(std::move(*program), *driver, options);
  if (!network)
    return network.error();
  auto bytesOf = [](const tw::gpu::Tensor &tensor) {
    size_t bytes = tw::gpu::bytesOf(tensor.element);
    for (int64_t size : tensor.shape)
      bytes *= size_t(size);
    return bytes;
  };
  for (size_t i = 0; isRandom && i < (*network)->program().inputs.size(); ++i) {
    std::vector<uint8_t> bytes(bytesOf((*network)->program().inputs[i]));
    fill(bytes);
    if (Status status = (*network)->setInput(i, bytes.data()); !status)
      return status;
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    Result<std::string> bytes = files::readFile(inputs[i]);
    if (!bytes)
      return userError(bytes.message());
    const tw::gpu::Tensor &tensor = (*network)->program().inputs[i];
    if (bytes->size() != bytesOf(tensor))
      return userError(inputs[i] + " has " + std::to_string(bytes->size()) + " bytes but input '" + tensor.name + "' has " +
                       std::to_string(bytesOf(tensor)));
    if (Status status = (*network)->setInput(i, bytes->data()); !status)
      return status;
  }
  StatusOr<double> seconds = (*network)->measure(repeat);
  if (!seconds)
    return seconds.error();
  for (const std::string &note : (*network)->notes())
    std::fprintf(stderr, "tilewright-gpu: note: %s\n", note.c_str());
  std::fputs(reportText((*network)->program(), isVerbose).c_str(), stdout);
  for (const std::string &spill : (*network)->spills())
    std::printf("spills: %s\n", spill.c_str());
  std::printf("%s: %.2f us, median of %u runs of one graph, %zu steps\n", (*driver)->name().c_str(), *seconds * 1e6, repeat,
              (*network)->program().steps.size());
  if (!report.empty()) {
    std::ofstream file(report, std::ios::binary);
    file << reportJson((*network)->program(), {(*driver)->name(), (*driver)->driverVersion(), *seconds});
    file.close();
    if (!file)
      return userError("cannot write " + report);
  }
  if (!outputs.empty())
    for (size_t i = 0; i < (*network)->program().outputs.size(); ++i) {
      const tw::gpu::Tensor &tensor = (*network)->program().outputs[i];
      std::vector<char> bytes(bytesOf(tensor));
      if (Status status = (*network)->getOutput(i, bytes.data()); !status)
        return status;
      std::ofstream(outputs + "/output" + std::to_string(i) + ".bin", std::ios::binary)
          .write(bytes.data(), std::streamsize(bytes.size()));
    }
  return {};
}

int main(int count, char **arguments) {
  Status status = run({arguments + 1, arguments + count});
  return status ? 0 : fail(status.error());
}
