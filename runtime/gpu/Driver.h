//===- Driver.h - The CUDA driver, without a toolkit ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libcuda.so.1 by dlopen: nothing of CUDA is needed to build, and a machine
// without a GPU says so. One context, one stream.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_GPU_DRIVER_H
#define RUNTIME_GPU_DRIVER_H

#include "compiler/codegen/gpu/Program.h"
#include "runtime/Status.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tw::runtime::gpu {

/// A kernel on the device.
struct Function {
  void *handle = nullptr;
  int registers = 0, localBytes = 0; ///< of a thread; local memory means spilled registers
};

/// What a kernel with tensor maps is given in place of one: CUtensorMap.
struct alignas(64) EncodedMap {
  uint8_t bytes[128];
};

/// How cuTensorMapEncode... calls a type, and a swizzle of so many bytes.
int tensorMapType(tw::gpu::Element element);
int tensorMapSwizzle(unsigned bytes);

class Driver {
public:
  /// Errors: "no GPU here: ..." where there is no driver or no device.
  static StatusOr<std::shared_ptr<Driver>> open();
  virtual ~Driver() = default;

  virtual std::string name() const = 0;      ///< of the device
  virtual int computeCapability() const = 0; ///< 90: 9.0
  virtual int driverVersion() const = 0;
  virtual int multiprocessors() const = 0;
  virtual uint32_t sharedBytes() const = 0; ///< that a block may have

  /// Device memory; null is an error.
  virtual StatusOr<uint64_t> allocate(uint64_t bytes) = 0;
  virtual void free(uint64_t memory) = 0;
  virtual Status copyIn(uint64_t to, const void *from, uint64_t bytes) = 0;
  virtual Status copyOut(void *to, uint64_t from, uint64_t bytes) = 0;

  /// Machine code of PTX; may be called from several threads.
  virtual StatusOr<std::vector<uint8_t>> assemble(const std::string &ptx) = 0;
  virtual StatusOr<Function> load(const std::vector<uint8_t> &machineCode, const std::string &name, uint32_t sharedBytes) = 0;
  virtual StatusOr<EncodedMap> encode(const tw::gpu::TensorMap &map, uint64_t address) = 0;
  /// `parameters`: a pointer to each value.
  virtual Status launch(const Function &function, const tw::gpu::Launch &launch, void **parameters) = 0;
  virtual Status synchronize() = 0;
  /// Launches of `record` as one graph.
  virtual StatusOr<void *> capture(const std::function<Status()> &record) = 0;
  virtual Status replay(void *graph) = 0;
  /// Seconds on the device between the first and the last thing that `work` puts into the stream.
  virtual StatusOr<double> measure(const std::function<Status()> &work) = 0;
};

} // namespace tw::runtime::gpu

#endif // RUNTIME_GPU_DRIVER_H
