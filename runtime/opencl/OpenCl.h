//===- OpenCl.h - OpenCL through the ordinary loader ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libOpenCL.so.1 by dlopen: nothing of OpenCL is needed to build, and a host
// without a device says so.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_OPENCL_OPENCL_H
#define RUNTIME_OPENCL_OPENCL_H

#include "compiler/codegen/opencl/Program.h"
#include "runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tw::runtime::opencl {

using Handle = void *;

/// The functions that a network needs, as the loader has them. Results are OpenCL's: 0 is success.
struct Api {
  int32_t (*getPlatforms)(uint32_t, Handle *, uint32_t *);
  int32_t (*getPlatformInfo)(Handle, uint32_t, size_t, void *, size_t *);
  int32_t (*getDevices)(Handle, uint64_t, uint32_t, Handle *, uint32_t *);
  int32_t (*getDeviceInfo)(Handle, uint32_t, size_t, void *, size_t *);
  Handle (*createContext)(const intptr_t *, uint32_t, const Handle *, void *, void *, int32_t *);
  Handle (*createQueue)(Handle, Handle, uint64_t, int32_t *);
  Handle (*createBuffer)(Handle, uint64_t, size_t, void *, int32_t *);
  Handle (*createSubBuffer)(Handle, uint64_t, uint32_t, const void *, int32_t *);
  Handle (*createProgram)(Handle, uint32_t, const char **, const size_t *, int32_t *);
  int32_t (*buildProgram)(Handle, uint32_t, const Handle *, const char *, void *, void *);
  int32_t (*getBuildInfo)(Handle, Handle, uint32_t, size_t, void *, size_t *);
  Handle (*createKernel)(Handle, const char *, int32_t *);
  int32_t (*setArgument)(Handle, uint32_t, size_t, const void *);
  int32_t (*enqueueKernel)(Handle, Handle, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, const Handle *,
                           Handle *);
  int32_t (*enqueueRead)(Handle, Handle, uint32_t, size_t, size_t, void *, uint32_t, const Handle *, Handle *);
  int32_t (*enqueueWrite)(Handle, Handle, uint32_t, size_t, size_t, const void *, uint32_t, const Handle *, Handle *);
  int32_t (*finish)(Handle);
  int32_t (*releaseMemory)(Handle);
  int32_t (*releaseKernel)(Handle);
  int32_t (*releaseProgram)(Handle);
  int32_t (*releaseQueue)(Handle);
  int32_t (*releaseContext)(Handle);
};

/// A device of any platform.
struct DeviceInfo {
  Handle platform = nullptr, device = nullptr;
  std::string name, platformName;
  tw::opencl::DeviceType type = tw::opencl::DeviceType::Gpu; ///< what code for it is written for
  bool hasDouble = false, roundsDivisions = false;
  uint64_t mostBytes = 0, largestBuffer = 0; ///< of its memory, and of one buffer
  uint64_t alignment = 0;                    ///< bytes that sub-buffers begin at multiples of
};

class Loader {
public:
  /// Errors: "no OpenCL here: ..." where there is no loader or no platform.
  static StatusOr<std::shared_ptr<Loader>> open();
  ~Loader();
  const Api &api() const { return functions; }
  const std::vector<DeviceInfo> &devices() const { return found; }
  /// `which`: empty for the first one, a number, or a part of the name of device or platform. Errors list the devices.
  StatusOr<DeviceInfo> choose(const std::string &which) const;

private:
  Loader() = default;
  Status initialise();
  void *library = nullptr;
  Api functions{};
  std::vector<DeviceInfo> found;
};

/// "CL_OUT_OF_RESOURCES (-5)".
std::string errorName(int32_t error);

} // namespace tw::runtime::opencl

#endif // RUNTIME_OPENCL_OPENCL_H
