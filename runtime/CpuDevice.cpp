//===- CpuDevice.cpp - The processor this process runs on -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuTarget.h"
#include "runtime/Device.h"
#include "runtime/Session.h"
#include "runtime/Stopwatch.h"

#include <algorithm>

using namespace tw;
using namespace tw::runtime;

namespace {

class CpuDevice : public Device {
public:
  CpuDevice(std::unique_ptr<cpu::CpuExecutable> executable, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
            std::map<std::string, std::vector<std::string>> nodes)
      : executable(std::move(executable)), inputSpecs(std::move(inputs)), outputSpecs(std::move(outputs)),
        nodes(std::move(nodes)) {}

  const std::vector<TensorSpec> &inputs() const override { return inputSpecs; }
  const std::vector<TensorSpec> &outputs() const override { return outputSpecs; }

  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override {
    Launch launch;
    llvm::ArrayRef<HostTensor> arguments = stored(inputs);
    // Outputs stay in the same memory from launch to launch, as a caller's would: new memory is slow at first. They have the types and shapes
    // that the caller asks for: MLIR does not tell int8 and uint8 apart.
    if (results.empty())
      for (const TensorSpec &spec : outputSpecs)
        results.push_back({spec.name, spec.stored(), spec.shape,
                           std::vector<uint8_t>(frontend::elementBytes(spec.stored()) * size_t(elementCount(spec.shape)))});
    Stopwatch watch;
    if (llvm::Error error = executable->run(arguments, results))
      return userError(llvm::toString(std::move(error)));
    launch.wallSeconds = watch.wallSeconds();
    launch.cpuSeconds = watch.cpuSeconds();
    for (size_t i = 0; i < outputSpecs.size(); ++i)
      launch.outputs.push_back(fromStored(results[i], outputSpecs[i]));
    return launch;
  }

  StatusOr<std::vector<KernelTime>> measureKernels(const std::vector<HostTensor> &inputs, unsigned runs) override {
    llvm::Expected<cpu::CpuTiming> timing = executable->measure(stored(inputs), runs);
    if (!timing)
      return userError(llvm::toString(timing.takeError()));
    std::vector<KernelTime> times;
    for (auto &[kernel, seconds] : timing->kernels) {
      auto found = nodes.find(kernel);
      times.push_back({kernel, found == nodes.end() ? std::vector<std::string>() : found->second, seconds});
    }
    return times;
  }

private:
  /// `inputs` as the code takes them: themselves, unless some have to be widened.
  llvm::ArrayRef<HostTensor> stored(const std::vector<HostTensor> &inputs) {
    if (std::none_of(inputSpecs.begin(), inputSpecs.end(), [](const TensorSpec &spec) { return spec.isWidened; }))
      return inputs;
    widened.clear();
    for (size_t i = 0; i < inputs.size(); ++i)
      widened.push_back(toStored(inputs[i], inputSpecs[i]));
    return widened;
  }

  std::unique_ptr<cpu::CpuExecutable> executable;
  std::vector<TensorSpec> inputSpecs, outputSpecs;
  std::map<std::string, std::vector<std::string>> nodes;
  std::vector<HostTensor> widened, results;
};

/// Kernels, runs of kernels on a device of OpenCL, and evaluated nodes one after the other.
class StepsDevice : public Device {
public:
  explicit StepsDevice(Network network) : session(std::move(network), {}) {}
  const std::vector<TensorSpec> &inputs() const override { return session.inputs(); }
  const std::vector<TensorSpec> &outputs() const override { return session.outputs(); }
  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override {
    Stopwatch watch;
    StatusOr<RunReport> report = session.run(inputs);
    if (!report)
      return report.error();
    Launch launch;
    // A device of OpenCL says its own time, without copies.
    launch.wallSeconds = report->openCl ? report->fallback.seconds : watch.wallSeconds();
    launch.cpuSeconds = watch.cpuSeconds();
    launch.outputs = std::move(report->outputs);
    return launch;
  }

private:
  Session session;
};

} // namespace

std::unique_ptr<Device> runtime::makeStepsDevice(Network network) { return std::make_unique<StepsDevice>(std::move(network)); }

std::unique_ptr<Device> runtime::makeCpuDevice(std::unique_ptr<cpu::CpuExecutable> executable, std::vector<TensorSpec> inputs,
                                               std::vector<TensorSpec> outputs,
                                               std::map<std::string, std::vector<std::string>> nodes) {
  return std::make_unique<CpuDevice>(std::move(executable), std::move(inputs), std::move(outputs), std::move(nodes));
}
