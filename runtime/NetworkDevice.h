//===- NetworkDevice.h - A network in a device's memory ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_NETWORKDEVICE_H
#define RUNTIME_NETWORKDEVICE_H

#include "runtime/Device.h"
#include "runtime/DeviceNetwork.h"

namespace tw::runtime {

/// `network` as a device; a launch's wall time is that of the device, without copies. `inputs`, `outputs`: of the network, in order, of the
/// types that its program has.
std::unique_ptr<Device> makeNetworkDevice(std::unique_ptr<DeviceNetwork> network, std::vector<TensorSpec> inputs,
                                          std::vector<TensorSpec> outputs);

} // namespace tw::runtime

#endif // RUNTIME_NETWORKDEVICE_H
