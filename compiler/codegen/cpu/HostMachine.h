//===- HostMachine.h - The processor code is made for -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_HOSTMACHINE_H
#define COMPILER_CODEGEN_CPU_HOSTMACHINE_H

#include <string>

namespace tw::cpu {

/// What the code generator must know about the processor.
struct HostMachine {
  std::string triple;
  std::string cpu;
  /// LLVM's feature string, "+avx2,+fma,...".
  std::string features;
  /// Width of one vector register in bits.
  unsigned vectorBits = 128;
  /// Number of vector registers.
  unsigned vectorRegisters = 16;
  /// Fused multiply-add in hardware; without it a fused operation would be a library call.
  bool hasFma = false;
  /// How many products of 8-bit integers one instruction adds to each 32-bit lane: 4, 2 (after widening to 16 bits) or 1.
  unsigned integerProducts = 1;
  /// An instruction that adds two products of bfloat16 to each 32-bit lane.
  bool hasBfloatProducts = false;
};

/// The processor this process runs on. Arguments other than 0 limit the field of that name.
HostMachine detectHostMachine(unsigned vectorBits = 0, unsigned integerProducts = 0);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_HOSTMACHINE_H
