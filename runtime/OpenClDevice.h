//===- OpenClDevice.h - A network's runs on a device of OpenCL --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_OPENCLDEVICE_H
#define RUNTIME_OPENCLDEVICE_H

#include "runtime/Network.h"
#include "runtime/opencl/OpenCl.h"

namespace tw::runtime {

/// Builds the kernels of all steps that have a program for OpenCL on `device`, which then runs these steps. Errors say what the device lacks, or
/// what its compiler says about the kernels.
Status placeOnOpenCl(Network &network, const std::shared_ptr<opencl::Loader> &loader, const opencl::DeviceInfo &device);

} // namespace tw::runtime

#endif // RUNTIME_OPENCLDEVICE_H
