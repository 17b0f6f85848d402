//===- Program.h - A network for a GPU --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a driver needs to run a network: kernels as PTX, tensor maps, launches in
// order, constants, and where everything lies in memory. No LLVM, no CUDA.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_GPU_PROGRAM_H
#define COMPILER_CODEGEN_GPU_PROGRAM_H

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace tw::gpu {

/// Types of elements in memory.
enum class Element : uint8_t { F32, Bf16, F16, F64, I8, I16, I32, I64, Bool };
unsigned bytesOf(Element element);
const char *nameOf(Element element);

/// What kernels are compiled for. Code for sm_80 runs on every later device, that for sm_90a on Hopper alone.
enum class Architecture : uint8_t { Sm80, Sm90a };
const char *nameOf(Architecture architecture);
/// Why a device of this compute capability (90: 9.0) cannot run its code: "it is sm_75, but kernels are for sm_80 and later"; else empty.
std::string whyNot(Architecture architecture, int computeCapability);

/// A place in device memory: in the arena, which also holds inputs and outputs, or in the constants. Multiples of kAlignment.
struct Place {
  bool isConstant = false;
  uint64_t offset = 0;
};
constexpr uint64_t kAlignment = 256;

/// A tensor map, as cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col take it. Dims innermost first; what lies outside reads as 0.
struct TensorMap {
  Element element = Element::Bf16;
  Place place;
  std::vector<uint64_t> dims, strides;       ///< strides of all dims but the first, in bytes
  std::vector<uint32_t> box, elementStrides; ///< box: empty for im2col
  unsigned swizzleBytes = 128;               ///< 32, 64 or 128
  /// im2col, dims {c, w, h, n}: corners of the box of first taps ({w, h}), channels and pixels of a copy.
  std::vector<int32_t> lower, upper;
  uint32_t channels = 0, pixels = 0;

  bool isIm2col() const { return pixels != 0; }
};

/// A parameter of a kernel: a number of 32 bits, a pointer, or a map by its index.
struct MapIndex {
  uint32_t index = 0;
};
using Argument = std::variant<uint32_t, Place, MapIndex>;

struct Launch {
  uint32_t kernel = 0; ///< index into Program::kernels
  uint32_t grid = 1, block = 1, cluster = 1, sharedBytes = 0;
  /// The kernel waits for the one in front of it by itself: it may begin before that ends.
  bool overlaps = false;
  std::vector<Argument> arguments;
};

/// One of the ways to do a step.
struct Variant {
  std::string name;        ///< "128x256", "elements"
  double microseconds = 0; ///< by the cost model
  std::vector<Launch> launches;
  double measured = 0; ///< microseconds on the device; 0: not timed
};

/// Why a step runs the variant that it runs.
enum class ChosenBy : uint8_t {
  Estimate, ///< it has the least estimate
  Only,     ///< there is no other
  Time,     ///< it was the fastest on the device
  Stored    ///< it was the fastest in an earlier run
};

struct Step {
  std::string name; ///< of the kernel function
  std::vector<std::string> nodes;
  std::string kind;              ///< "matrix product", "convolution", "elements", "reduction"
  std::string why;               ///< the kind is not another one
  std::vector<Variant> variants; ///< best first, by the cost model
  uint32_t chosen = 0;
  ChosenBy chosenBy = ChosenBy::Estimate;
};

struct Kernel {
  std::string name, ptx; ///< the PTX defines one kernel of this name
  std::string llvm;      ///< what LLVM was given, if that was asked for
};

/// An input or output of the network: dense, row-major.
struct Tensor {
  std::string name;
  Element element = Element::F32;
  std::vector<int64_t> shape;
  Place place;
};

struct Program {
  Architecture architecture = Architecture::Sm90a;
  std::vector<Kernel> kernels;
  std::vector<TensorMap> maps;
  std::vector<Step> steps;
  std::vector<Tensor> inputs, outputs;
  std::vector<uint8_t> constants;
  uint64_t arenaBytes = 0;
};

} // namespace tw::gpu

#endif // COMPILER_CODEGEN_GPU_PROGRAM_H
