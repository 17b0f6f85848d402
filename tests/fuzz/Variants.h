//===- Variants.h - Machines for random networks ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_FUZZ_VARIANTS_H
#define TESTS_FUZZ_VARIANTS_H

#include <string>
#include <vector>

namespace tw::fuzz {

/// A shipped machine with overrides, as --hw and --set name them.
struct Variant {
  const char *machine;
  std::vector<std::string> overrides;
};

inline const std::vector<Variant> kIntegerMachines = {
    {"tiny_8x8", {}},
    {"tiny_8x8", {"array.rows=4", "dma.load_engines=1"}},
    {"tiny_8x8", {"array.rows=16", "accumulator.capacity_bytes=2048", "accumulator.banks=2"}},
    {"tiny_8x8",
     {"scratchpads.activation.capacity_bytes=2048", "scratchpads.weight.capacity_bytes=1024", "control.semaphores=16"}},
    {"tiny_8x8",
     {"scratchpads.activation.banks=1", "scratchpads.weight.banks=1", "accumulator.banks=1", "array.preload_rows_per_cycle=8"}},
    {"tiny_8x8", {"control.queue_depth_instructions=1", "control.loop_buffer_words=64", "dram.bytes_per_cycle=32"}},
    {"tiny_8x8", {"control.semaphore_max_count=2", "dram.bytes_per_cycle=1"}},
    {"gemmini_16x16_int8", {}},
    {"gemmini_16x16_int8", {"scratchpads.unified.capacity_bytes=16384", "accumulator.capacity_bytes=8192"}},
    {"vdla_16x16", {}},
    {"edge_32x32_int8", {}},
    {"onnxim_128x128", {}},
};
inline const std::vector<Variant> kFp32Machines = {
    {"gemmini_16x16_fp32", {}},
    {"gemmini_16x16_fp32", {"scratchpads.unified.capacity_bytes=16384", "accumulator.capacity_bytes=8192", "array.rows=8"}},
};
inline const std::vector<Variant> kBf16Machines = {
    {"gemmini_16x16_bf16", {}},
    {"gemmini_16x16_bf16",
     {"scratchpads.unified.capacity_bytes=16384", "accumulator.capacity_bytes=8192", "dma.load_engines=1"}},
    {"edge_32x32_bf16", {}},
    {"edge_32x32_bf16",
     {"scratchpads.activation.capacity_bytes=16384", "scratchpads.weight.capacity_bytes=8192",
      "accumulator.capacity_bytes=8192"}},
    {"cloud_128x128", {}},
};

/// The same, small enough that blocks of networks need row tiles, partly resident tensors and DRAM.
inline const std::vector<Variant> kIntegerBlockMachines = {
    {"tiny_8x8",
     {"scratchpads.activation.capacity_bytes=16384", "scratchpads.weight.capacity_bytes=8192",
      "accumulator.capacity_bytes=8192"}},
    {"gemmini_16x16_int8", {"scratchpads.unified.capacity_bytes=32768", "accumulator.capacity_bytes=16384"}},
    {"gemmini_16x16_int8", {"scratchpads.unified.capacity_bytes=65536"}},
    {"vdla_16x16", {}},
    {"vdla_16x16", {"scratchpads.activation.capacity_bytes=16384", "dma.load_engines=1"}},
    {"edge_32x32_int8", {"scratchpads.activation.capacity_bytes=65536", "scratchpads.weight.capacity_bytes=32768"}},
    {"edge_32x32_int8", {}},
    {"onnxim_128x128", {}},
};
inline const std::vector<Variant> kFp32BlockMachines = {
    {"gemmini_16x16_fp32", {}},
    {"gemmini_16x16_fp32", {"scratchpads.unified.capacity_bytes=65536", "accumulator.capacity_bytes=16384"}},
    {"gemmini_16x16_fp32", {"scratchpads.unified.capacity_bytes=131072", "accumulator.banks=2"}},
};
inline const std::vector<Variant> kBf16BlockMachines = {
    {"gemmini_16x16_bf16", {"scratchpads.unified.capacity_bytes=65536"}},
    {"edge_32x32_bf16", {"scratchpads.activation.capacity_bytes=65536", "scratchpads.weight.capacity_bytes=32768"}},
    {"edge_32x32_bf16", {}},
    {"cloud_128x128", {}},
};

} // namespace tw::fuzz

#endif // TESTS_FUZZ_VARIANTS_H
