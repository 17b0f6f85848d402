//===- CpuPeak.h - What this processor could do at most ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_CPUPEAK_H
#define RUNTIME_CPUPEAK_H

#include <string>

namespace tw::runtime {

enum class Products : unsigned char { Fp32, Bf16, Int8 };

/// The fastest that this processor multiplies and adds, measured.
struct CpuPeak {
  double gmacPerSecond = 0; ///< of all threads; 0 where there is no kernel for this processor
  std::string how;          ///< "fp32, fused multiply-add of 512 bits"
};

/// Runs the widest multiply-add of registers that this processor has for `products`, without memory, on `threads` threads at once
/// for some milliseconds, and takes the best of several times. bf16 where there is no such instruction is fp32.
CpuPeak measureCpuPeak(Products products, unsigned threads);

} // namespace tw::runtime

#endif // RUNTIME_CPUPEAK_H
