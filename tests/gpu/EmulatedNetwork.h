//===- EmulatedNetwork.h - A GPU program on the PTX emulator ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_GPU_EMULATEDNETWORK_H
#define TESTS_GPU_EMULATEDNETWORK_H

#include "compiler/codegen/gpu/Program.h"
#include "tests/gpu/emulator/Emulator.h"

#include <memory>
#include <string>
#include <vector>

namespace tw::test {

/// Runs programs as runtime/gpu/GpuNetwork.cpp does, with the emulator in place of the driver. Throws ptxemu::Error.
class EmulatedNetwork {
public:
  explicit EmulatedNetwork(gpu::Program program);

  /// Bytes of each input in order; those of each output. Of every step runs variant `variant`, or the last one it has.
  std::vector<std::vector<uint8_t>> run(const std::vector<std::vector<uint8_t>> &inputs, size_t variant,
                                        const ptxemu::LaunchOptions &options);
  const gpu::Program &program() const { return held; }

private:
  uint64_t addressOf(const gpu::Place &place) const { return (place.isConstant ? constants : arena) + place.offset; }

  gpu::Program held;
  ptxemu::Device device;
  std::vector<std::shared_ptr<const ptxemu::Module>> modules;
  std::vector<ptxemu::EncodedTensorMap> maps;
  uint64_t arena = 0, constants = 0;
};

uint64_t bytesOf(const gpu::Tensor &tensor);

} // namespace tw::test

#endif // TESTS_GPU_EMULATEDNETWORK_H
