//===- NetworkDevice.cpp - A network in a device's memory -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/NetworkDevice.h"

using namespace tw;
using namespace tw::runtime;

namespace {

class NetworkDevice : public Device {
public:
  NetworkDevice(std::unique_ptr<DeviceNetwork> network, std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs)
      : network(std::move(network)), inputSpecs(std::move(inputs)), outputSpecs(std::move(outputs)) {}

  const std::vector<TensorSpec> &inputs() const override { return inputSpecs; }
  const std::vector<TensorSpec> &outputs() const override { return outputSpecs; }

  StatusOr<Launch> launch(const std::vector<HostTensor> &inputs) override {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (Status status = network->setInput(i, toStored(inputs[i], inputSpecs[i]).bytes.data()); !status)
        return status.error();
    StatusOr<double> seconds = network->run();
    if (!seconds)
      return seconds.error();
    Launch launch;
    launch.wallSeconds = *seconds;
    for (size_t i = 0; i < outputSpecs.size(); ++i) {
      const TensorSpec &spec = outputSpecs[i];
      HostTensor output{spec.name, spec.stored(), spec.shape,
                        std::vector<uint8_t>(size_t(elementCount(spec.shape)) * frontend::elementBytes(spec.stored()))};
      if (Status status = network->getOutput(i, output.bytes.data()); !status)
        return status.error();
      launch.outputs.push_back(fromStored(std::move(output), spec));
    }
    return launch;
  }

private:
  std::unique_ptr<DeviceNetwork> network;
  std::vector<TensorSpec> inputSpecs, outputSpecs;
};

} // namespace

std::unique_ptr<Device> runtime::makeNetworkDevice(std::unique_ptr<DeviceNetwork> network, std::vector<TensorSpec> inputs,
                                                   std::vector<TensorSpec> outputs) {
  return std::make_unique<NetworkDevice>(std::move(network), std::move(inputs), std::move(outputs));
}
