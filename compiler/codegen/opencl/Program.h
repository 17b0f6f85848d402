//===- Program.h - A network in OpenCL C ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What runs a network on an OpenCL device: the text of its kernels, their
// launches in order, constants, and where everything lies. No LLVM, no OpenCL.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_OPENCL_PROGRAM_H
#define COMPILER_CODEGEN_OPENCL_PROGRAM_H

#include "compiler/codegen/gpu/Program.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tw::opencl {

/// Every tensor begins at a multiple of this in its buffer: no device asks more of the start of a sub-buffer.
constexpr uint64_t kAlignment = 512;

/// What kernels are written for. On a GPU many work-items share what they read in local memory. On a processor a work-item is a thread with
/// vectors, and barriers are what its compiler takes longest for. Either runs on any device.
enum class DeviceType : uint8_t { Gpu, Processor };

/// A part of the memory or of the constants that a kernel is given as a buffer.
struct Argument {
  gpu::Place place;
  uint64_t bytes = 0;
};

/// One kernel over a grid of work-items.
struct Step {
  std::string name;               ///< of the kernel function
  std::vector<std::string> nodes; ///< of the model
  std::string kind;               ///< "matrix product", "rows", "reduction", "elements"
  std::string kernel;             ///< in the text
  std::array<uint64_t, 3> global{1, 1, 1}, local{1, 1, 1};
  std::vector<Argument> arguments; ///< the result first
};

/// An input whose numbers are places along a dim of that size, from either end: others are the user's error.
struct IndexInput {
  uint32_t input = 0;
  int64_t extent = 0;
};

struct Program {
  std::string source; ///< OpenCL C 1.2
  std::vector<IndexInput> indexInputs;
  std::vector<Step> steps;
  std::vector<gpu::Tensor> inputs, outputs;
  std::vector<uint8_t> constants;
  uint64_t arenaBytes = 0; ///< with inputs and outputs
  bool needsDouble = false;
};

/// What the device's compiler may do: as the text says, with divisions and roots correctly rounded where the device can.
inline constexpr const char *kBuildOptions = "-cl-std=CL1.2";
inline constexpr const char *kRoundedOption = " -cl-fp32-correctly-rounded-divide-sqrt";

} // namespace tw::opencl

#endif // COMPILER_CODEGEN_OPENCL_PROGRAM_H
