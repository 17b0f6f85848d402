//===- GpuNetwork.h - A network on a GPU ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_GPU_GPUNETWORK_H
#define RUNTIME_GPU_GPUNETWORK_H

#include "compiler/codegen/gpu/Program.h"
#include "runtime/DeviceNetwork.h"
#include "runtime/gpu/Driver.h"

#include <memory>
#include <string>
#include <vector>

namespace tw::runtime::gpu {

struct GpuNetworkOptions {
  /// Folder of machine code, keyed by PTX, architecture and driver; empty: none.
  std::string cacheFolder;
  /// Time the variants of every step, and take the fastest.
  bool chooses = true;
  /// A file of choices (Choice.h). Where it is for this device, driver and program, its variants are taken and nothing is timed. Empty: none.
  std::string choiceFile;
  /// Time the variants whatever the file says, and write it.
  bool savesChoice = false;
  /// Copies of the network in the graph, one behind the other: what is short is measured well.
  unsigned copies = 1;
};

/// A program on a device: code loaded, maps encoded, constants there, and one graph of its launches.
class GpuNetwork : public DeviceNetwork {
public:
  static StatusOr<std::unique_ptr<GpuNetwork>> load(tw::gpu::Program program, std::shared_ptr<Driver> driver,
                                                    const GpuNetworkOptions &options);
  ~GpuNetwork() override;

  const tw::gpu::Program &program() const { return held; }
  Status setInput(size_t index, const void *bytes) override;
  Status getOutput(size_t index, void *bytes) override;
  /// Runs once: every copy. Seconds on the device, of one copy.
  StatusOr<double> run() override;
  /// The median of `runs`, one after the other, each after `warm` runs in all: seconds.
  StatusOr<double> measure(unsigned runs, unsigned warm = 3);
  /// Kernels whose registers do not suffice, by step and variant; empty: none.
  std::vector<std::string> spills() const;
  /// What loading has to say to people: a file of choices that does not fit.
  const std::vector<std::string> &notes() const { return said; }

private:
  GpuNetwork(tw::gpu::Program program, std::shared_ptr<Driver> driver) : held(std::move(program)), driver(std::move(driver)) {}
  Status initialise(const GpuNetworkOptions &options);
  /// Variants for which a block of the device has too little shared memory.
  Status dropLargeVariants();
  Status choose(const GpuNetworkOptions &options);
  Status timeVariants(tw::gpu::Step &step);
  Status launch(const tw::gpu::Launch &launch);
  Status launchChosen();
  uint64_t addressOf(const tw::gpu::Place &place) const { return (place.isConstant ? constants : arena) + place.offset; }

  tw::gpu::Program held;
  std::shared_ptr<Driver> driver;
  uint64_t arena = 0, constants = 0;
  std::vector<Function> functions;
  std::vector<EncodedMap> maps;
  void *graph = nullptr;
  unsigned copies = 1;
  std::vector<std::string> said;
};

/// The program as files of a folder: program.json, kernels/NUMBER.ptx, and weights.bin.
struct ProgramFiles {
  std::string json, weights;
  std::vector<std::string> kernels;
};
ProgramFiles toFiles(const tw::gpu::Program &program);
/// The kernels that program.json of a folder lists, "kernels/NUMBER.ptx"; none where there is no such program.
std::vector<std::string> kernelFilesOf(const std::string &folder);
/// Errors name the file and what is wrong with it. `needsWeights`: without, weights.bin may be missing, and the weights are 0.
StatusOr<tw::gpu::Program> fromFolder(const std::string &folder, bool needsWeights = true);

} // namespace tw::runtime::gpu

#endif // RUNTIME_GPU_GPUNETWORK_H
