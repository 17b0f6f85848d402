//===- DeviceNetwork.h - A network in a device's memory ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_DEVICENETWORK_H
#define RUNTIME_DEVICENETWORK_H

#include "runtime/Status.h"

#include <cstddef>

namespace tw::runtime {

/// A network on a GPU or a device of OpenCL: loaded, with memory of its own.
class DeviceNetwork {
public:
  DeviceNetwork() = default;
  DeviceNetwork(const DeviceNetwork &) = delete;
  DeviceNetwork &operator=(const DeviceNetwork &) = delete;
  virtual ~DeviceNetwork() = default;
  /// Bytes of each input and output, dense and row-major.
  virtual Status setInput(size_t index, const void *bytes) = 0;
  virtual Status getOutput(size_t index, void *bytes) = 0;
  /// Runs once. Seconds on the device.
  virtual StatusOr<double> run() = 0;
};

} // namespace tw::runtime

#endif // RUNTIME_DEVICENETWORK_H
