//===- GpuDevice.h - A GPU as a device --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_GPU_GPUDEVICE_H
#define RUNTIME_GPU_GPUDEVICE_H

#include "runtime/Device.h"
#include "runtime/gpu/GpuNetwork.h"

namespace tw::runtime::gpu {

/// `network` as a device; a launch's wall time is that of the device, without copies. `inputs`, `outputs`: of the network, in order, of the
/// types that its program has.
std::unique_ptr<Device> makeGpuDevice(std::unique_ptr<GpuNetwork> network, std::vector<TensorSpec> inputs,
                                      std::vector<TensorSpec> outputs);

} // namespace tw::runtime::gpu

#endif // RUNTIME_GPU_GPUDEVICE_H
