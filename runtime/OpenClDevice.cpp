//===- OpenClDevice.cpp - A network's runs on a device of OpenCL ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/OpenClDevice.h"
#include "runtime/NetworkDevice.h"
#include "runtime/opencl/OpenClNetwork.h"

#include <chrono>

using namespace tw;
using namespace tw::runtime;

Status runtime::placeOnOpenCl(Network &network, const std::shared_ptr<opencl::Loader> &loader,
                              const opencl::DeviceInfo &device) {
  const auto begin = std::chrono::steady_clock::now();
  OpenClUse use;
  use.device = device.name;
  use.platform = device.platformName;
  // Tensors between steps are as they are stored.
  auto specsOf = [&](const std::vector<unsigned> &values) {
    std::vector<TensorSpec> specs;
    for (unsigned value : values) {
      specs.push_back(network.values[value]);
      specs.back().type = specs.back().stored();
      specs.back().isWidened = false;
    }
    return specs;
  };
  for (Step &step : network.steps) {
    if (!step.openCl)
      continue;
    ++use.runs;
    use.kernels += step.openCl->steps.size();
    for (size_t i = 0; i < step.inputs.size(); ++i)
      step.openCl->inputs[i].name = network.values[step.inputs[i]].name;
    StatusOr<std::unique_ptr<opencl::OpenClNetwork>> loaded =
        opencl::OpenClNetwork::load(std::move(*step.openCl), loader, device);
    if (!loaded)
      return loaded.error();
    step.device = makeNetworkDevice(std::move(*loaded), specsOf(step.inputs), specsOf(step.outputs));
  }
  use.buildSeconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  network.openCl = std::move(use);
  network.schedule.clear(); // kernels for OpenCL have none
  return {};
}
