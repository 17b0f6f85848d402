//===- GpuNetwork.cpp - A network on a GPU --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/gpu/GpuNetwork.h"
#include "isa/files/InputFile.h"
#include "runtime/gpu/Choice.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

using namespace tw;
using namespace tw::runtime;
using namespace tw::runtime::gpu;
using tw::gpu::Argument;
using tw::gpu::ChosenBy;
using tw::gpu::Launch;
using tw::gpu::MapIndex;
using tw::gpu::Place;
using tw::gpu::Program;
using tw::gpu::Step;
using tw::gpu::Variant;

namespace {
constexpr unsigned kTimedLaunches = 20; ///< of a variant, in one graph
constexpr unsigned kTimedRounds = 3;

} // namespace

StatusOr<std::unique_ptr<GpuNetwork>> GpuNetwork::load(Program program, std::shared_ptr<Driver> driver,
                                                       const GpuNetworkOptions &options) {
  std::unique_ptr<GpuNetwork> network(new GpuNetwork(std::move(program), std::move(driver)));
  if (Status status = network->initialise(options); !status)
    return status.error();
  return network;
}

GpuNetwork::~GpuNetwork() {
  if (arena)
    driver->free(arena);
  if (constants)
    driver->free(constants);
}

Status GpuNetwork::initialise(const GpuNetworkOptions &options) {
  if (const std::string why = whyNot(held.architecture, driver->computeCapability()); !why.empty())
    return userError("no GPU here that the program is for: of " + driver->name() + ", " + why);
  if (Status status = dropLargeVariants(); !status)
    return status;
  auto memory = driver->allocate(std::max<uint64_t>(held.arenaBytes, 1));
  if (!memory)
    return memory.error();
  arena = *memory;
  auto weights = driver->allocate(std::max<uint64_t>(held.constants.size(), 1));
  if (!weights)
    return weights.error();
  constants = *weights;
  if (Status status = driver->copyIn(constants, held.constants.data(), held.constants.size()); !status)
    return status;
  held.constants = {}; // the device has them

  // Machine code, on all processors.
  std::vector<std::vector<uint8_t>> code(held.kernels.size());
  std::vector<std::string> problems(held.kernels.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < held.kernels.size();) {
      const std::string &ptx = held.kernels[i].ptx;
      std::filesystem::path cached;
      if (!options.cacheFolder.empty()) {
        char name[96];
        std::snprintf(name, sizeof name, "%016llx-%zu-sm%d-%d.cubin", (unsigned long long)digest(ptx), ptx.size(),
                      driver->computeCapability(), driver->driverVersion());
        cached = std::filesystem::path(options.cacheFolder) / name;
        if (std::ifstream file(cached, std::ios::binary); file) {
          code[i].assign(std::istreambuf_iterator<char>(file), {});
          if (!code[i].empty())
            continue;
        }
      }
      StatusOr<std::vector<uint8_t>> assembled = driver->assemble(ptx);
      if (!assembled) {
        problems[i] = assembled.error().message;
        continue;
      }
      code[i] = std::move(*assembled);
      if (!cached.empty()) { // whole or not there; another process may do the same
        std::error_code ignored;
        std::filesystem::create_directories(options.cacheFolder, ignored);
        const std::filesystem::path temporary = cached.string() + "." + std::to_string(i) + ".new";
        std::ofstream(temporary, std::ios::binary)
            .write(reinterpret_cast<const char *>(code[i].data()), std::streamsize(code[i].size()));
        std::filesystem::rename(temporary, cached, ignored);
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  std::vector<uint32_t> shared(held.kernels.size(), 0);
  for (const Step &step : held.steps)
    for (const Variant &variant : step.variants)
      for (const Launch &launch : variant.launches)
        shared[launch.kernel] = std::max(shared[launch.kernel], launch.sharedBytes);
  for (size_t i = 0; i < held.kernels.size(); ++i) {
    if (!problems[i].empty())
      return internalError("kernel " + std::to_string(i) + ": " + problems[i]);
    StatusOr<Function> function = driver->load(code[i], held.kernels[i].name, shared[i]);
    if (!function)
      return function.error();
    functions.push_back(*function);
  }
  for (const tw::gpu::TensorMap &map : held.maps) {
    StatusOr<EncodedMap> encoded = driver->encode(map, addressOf(map.place));
    if (!encoded)
      return encoded.error();
    maps.push_back(*encoded);
  }

  if (options.chooses)
    if (Status status = choose(options); !status)
      return status;
  copies = std::max(1u, options.copies);
  auto recorded = driver->capture([&]() -> Status {
    for (unsigned i = 0; i < copies; ++i)
      if (Status status = launchChosen(); !status)
        return status;
    return {};
  });
  if (!recorded)
    return recorded.error();
  graph = *recorded;
  return {};
}

Status GpuNetwork::dropLargeVariants() {
  for (Step &step : held.steps) {
    uint32_t least = UINT32_MAX;
    auto isTooLarge = [&](const Variant &variant) {
      uint32_t most = 0;
      for (const Launch &launch : variant.launches)
        most = std::max(most, launch.sharedBytes);
      least = std::min(least, most);
      return most > driver->sharedBytes();
    };
    const auto end = std::remove_if(step.variants.begin(), step.variants.end(), isTooLarge);
    if (end == step.variants.end())
      continue;
    step.variants.erase(end, step.variants.end());
    step.chosen = 0;
    if (step.variants.empty())
      return userError("step '" + step.name + "' takes " + std::to_string(least) + " bytes of shared memory, but a block of " +
                       driver->name() + " has at most " + std::to_string(driver->sharedBytes()));
  }
  return {};
}

Status GpuNetwork::timeVariants(Step &step) {
  double least = 0;
  for (uint32_t i = 0; i < step.variants.size(); ++i) {
    auto recorded = driver->capture([&]() -> Status {
      for (unsigned n = 0; n < kTimedLaunches; ++n)
        for (const Launch &launch : step.variants[i].launches)
          if (Status status = this->launch(launch); !status)
            return status;
      return {};
    });
    if (!recorded)
      return recorded.error();
    double fastest = 0;
    for (unsigned round = 0; round <= kTimedRounds; ++round) { // the first one warms up
      StatusOr<double> seconds = driver->measure([&] { return driver->replay(*recorded); });
      if (!seconds)
        return seconds.error();
      if (round && (!fastest || *seconds < fastest))
        fastest = *seconds;
    }
    step.variants[i].measured = fastest / kTimedLaunches * 1e6;
    // Spilled registers are a mistake of the compiler, whatever the clock says of them here.
    bool spills = false;
    for (const Launch &launch : step.variants[i].launches)
      spills |= functions[launch.kernel].localBytes != 0;
    if (!i || (fastest < least && !spills)) {
      least = fastest;
      step.chosen = i;
    }
  }
  step.chosenBy = step.variants.size() > 1 ? ChosenBy::Time : ChosenBy::Only;
  return {};
}

Status GpuNetwork::choose(const GpuNetworkOptions &options) {
  const ChoiceKey key{driver->name(), driver->driverVersion(), digestOf(held)};
  if (!options.savesChoice && !options.choiceFile.empty() && std::filesystem::exists(options.choiceFile)) {
    StatusOr<Choice> choice = readChoice(options.choiceFile);
    if (!choice)
      return choice.error();
    const std::string problem = take(*choice, key, held);
    if (problem.empty())
      return {};
    said.push_back(options.choiceFile + ": " + problem + "; variants are timed");
  }
  for (Step &step : held.steps)
    if (Status status = timeVariants(step); !status)
      return status;
  if (!options.savesChoice)
    return {};
  std::ofstream file(options.choiceFile, std::ios::binary);
  file << toJson(choiceOf(key, held));
  file.close();
  return file ? Status() : Status(userError("cannot write " + options.choiceFile));
}

Status GpuNetwork::launch(const Launch &launch) {
  std::vector<uint64_t> pointers(launch.arguments.size());
  std::vector<void *> parameters;
  for (size_t i = 0; i < launch.arguments.size(); ++i) {
    const Argument &argument = launch.arguments[i];
    if (auto *map = std::get_if<MapIndex>(&argument)) {
      parameters.push_back(&maps[map->index]);
    } else if (auto *place = std::get_if<Place>(&argument)) {
      pointers[i] = addressOf(*place);
      parameters.push_back(&pointers[i]);
    } else {
      pointers[i] = std::get<uint32_t>(argument);
      parameters.push_back(&pointers[i]); // little endian: its low half
    }
  }
  return driver->launch(functions[launch.kernel], launch, parameters.data());
}

Status GpuNetwork::launchChosen() {
  for (const Step &step : held.steps)
    for (const Launch &launch : step.variants[step.chosen].launches)
      if (Status status = this->launch(launch); !status)
        return status;
  return {};
}

static uint64_t bytesOf(const tw::gpu::Tensor &tensor) {
  uint64_t bytes = tw::gpu::bytesOf(tensor.element);
  for (int64_t size : tensor.shape)
    bytes *= uint64_t(size);
  return bytes;
}

Status GpuNetwork::setInput(size_t index, const void *bytes) {
  const tw::gpu::Tensor &tensor = held.inputs.at(index);
  return driver->copyIn(addressOf(tensor.place), bytes, bytesOf(tensor));
}

Status GpuNetwork::getOutput(size_t index, void *bytes) {
  const tw::gpu::Tensor &tensor = held.outputs.at(index);
  return driver->copyOut(bytes, addressOf(tensor.place), bytesOf(tensor));
}

StatusOr<double> GpuNetwork::run() {
  StatusOr<double> seconds = driver->measure([&] { return driver->replay(graph); });
  return seconds ? StatusOr<double>(*seconds / copies) : seconds;
}

StatusOr<double> GpuNetwork::measure(unsigned runs, unsigned warm) {
  std::vector<double> seconds;
  for (unsigned i = 0; i < runs + warm; ++i) {
    StatusOr<double> once = run();
    if (!once)
      return once;
    if (i >= warm)
      seconds.push_back(*once);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

std::vector<std::string> GpuNetwork::spills() const {
  std::vector<std::string> result;
  for (const Step &step : held.steps)
    for (const Variant &variant : step.variants)
      for (const Launch &launch : variant.launches)
        if (functions[launch.kernel].localBytes)
          result.push_back(step.name + " " + variant.name + ": " + std::to_string(functions[launch.kernel].localBytes) +
                           " bytes");
  return result;
}
