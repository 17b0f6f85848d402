//===- CpuDevice.cpp - The processor this process runs on -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuTarget.h"
#include "runtime/Device.h"
#include "runtime/Stopwatch.h"

using namespace tw;
using namespace tw::runtime;

namespace {

class CpuDevice : public Device {
public:
  CpuDevice(std::unique_ptr<cpu::CpuExecutable> executable, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
            std::map<std::string, std::vector<std::string>> nodes)
      : executable(std::move(executable)), inputSpecs(std::move(inputs)), outputSpecs(std::move(outputs)), nodes(std::move(nodes)) {}

  const std::vector<TensorSpec> &inputs() const override { return inputSpecs; }
  const std::vector<TensorSpec> &outputs() const override { return outputSpecs; }

  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override {
    Launch launch;
    // Types and shapes the caller asks for: MLIR does not tell int8 and uint8 apart. Their memory is not the launch's time.
    for (const TensorSpec &spec : outputSpecs) {
      size_t bytes = frontend::elementBytes(spec.stored());
      for (int64_t size : spec.shape)
        bytes *= size_t(size);
      launch.outputs.push_back({spec.name, spec.stored(), spec.shape, std::vector<uint8_t>(bytes)});
    }
    std::vector<HostTensor> arguments = toStored(inputs);
    Stopwatch watch;
    if (llvm::Error error = executable->run(arguments, launch.outputs))
      return userError(llvm::toString(std::move(error)));
    launch.wallSeconds = watch.wallSeconds();
    launch.cpuSeconds = watch.cpuSeconds();
    for (size_t i = 0; i < outputSpecs.size(); ++i)
      launch.outputs[i] = fromStored(std::move(launch.outputs[i]), outputSpecs[i]);
    return launch;
  }

  StatusOr<std::vector<KernelTime>> measureKernels(const std::vector<HostTensor> &inputs, unsigned runs) override {
    llvm::Expected<cpu::CpuTiming> timing = executable->measure(toStored(inputs), runs);
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
  std::vector<HostTensor> toStored(const std::vector<HostTensor> &inputs) const {
    std::vector<HostTensor> stored;
    for (size_t i = 0; i < inputs.size(); ++i)
      stored.push_back(runtime::toStored(inputs[i], inputSpecs[i]));
    return stored;
  }

  std::unique_ptr<cpu::CpuExecutable> executable;
  std::vector<TensorSpec> inputSpecs, outputSpecs;
  std::map<std::string, std::vector<std::string>> nodes;
};

} // namespace

std::unique_ptr<Device> runtime::makeCpuDevice(std::unique_ptr<cpu::CpuExecutable> executable, std::vector<TensorSpec> inputs,
                                               std::vector<TensorSpec> outputs, std::map<std::string, std::vector<std::string>> nodes) {
  return std::make_unique<CpuDevice>(std::move(executable), std::move(inputs), std::move(outputs), std::move(nodes));
}
