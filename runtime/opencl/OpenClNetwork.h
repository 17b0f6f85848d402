//===- OpenClNetwork.h - A network on an OpenCL device ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_OPENCL_OPENCLNETWORK_H
#define RUNTIME_OPENCL_OPENCLNETWORK_H

#include "compiler/codegen/opencl/Program.h"
#include "runtime/DeviceNetwork.h"
#include "runtime/opencl/OpenCl.h"

#include <memory>
#include <string>
#include <vector>

namespace tw::runtime::opencl {

/// A program on a device: kernels built, constants there.
class OpenClNetwork : public DeviceNetwork {
public:
  /// Errors say what the device lacks, or what its compiler says about the kernels.
  static StatusOr<std::unique_ptr<OpenClNetwork>> load(tw::opencl::Program program, std::shared_ptr<Loader> loader,
                                                       const DeviceInfo &device);
  ~OpenClNetwork() override;

  const tw::opencl::Program &program() const { return held; }
  const DeviceInfo &device() const { return info; }
  Status setInput(size_t index, const void *bytes) override;
  Status getOutput(size_t index, void *bytes) override;
  /// Seconds until the last kernel has ended, without copies of inputs and outputs.
  StatusOr<double> run() override;

private:
  OpenClNetwork(tw::opencl::Program program, std::shared_ptr<Loader> loader, const DeviceInfo &device)
      : held(std::move(program)), loader(std::move(loader)), info(device), api(this->loader->api()) {}
  Status initialise();
  StatusOr<Handle> memoryOf(const tw::opencl::Argument &argument);
  Status check(int32_t result, const std::string &what) const;

  tw::opencl::Program held;
  std::shared_ptr<Loader> loader;
  DeviceInfo info;
  const Api &api;
  Handle context = nullptr, queue = nullptr, built = nullptr, arena = nullptr, constants = nullptr;
  std::vector<Handle> kernels, parts; ///< a kernel for each step; sub-buffers
};

} // namespace tw::runtime::opencl

#endif // RUNTIME_OPENCL_OPENCLNETWORK_H
