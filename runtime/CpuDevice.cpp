//===- CpuDevice.cpp - The processor this process runs on -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/CpuTarget.h"
#include "runtime/Device.h"

#include <chrono>

using namespace tw;
using namespace tw::runtime;

namespace {

class CpuDevice : public Device {
public:
  CpuDevice(std::unique_ptr<cpu::CpuExecutable> executable, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs)
      : executable(std::move(executable)), inputSpecs(std::move(inputs)), outputSpecs(std::move(outputs)) {}

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
    std::vector<HostTensor> arguments;
    for (size_t i = 0; i < inputs.size(); ++i)
      arguments.push_back(toStored(inputs[i], inputSpecs[i]));
    auto begin = std::chrono::steady_clock::now();
    if (llvm::Error error = executable->run(arguments, launch.outputs))
      return userError(llvm::toString(std::move(error)));
    launch.wallSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    for (size_t i = 0; i < outputSpecs.size(); ++i)
      launch.outputs[i] = fromStored(std::move(launch.outputs[i]), outputSpecs[i]);
    return launch;
  }

private:
  std::unique_ptr<cpu::CpuExecutable> executable;
  std::vector<TensorSpec> inputSpecs, outputSpecs;
};

} // namespace

std::unique_ptr<Device> runtime::makeCpuDevice(std::unique_ptr<cpu::CpuExecutable> executable, std::vector<TensorSpec> inputs,
                                               std::vector<TensorSpec> outputs) {
  return std::make_unique<CpuDevice>(std::move(executable), std::move(inputs), std::move(outputs));
}
