//===- CpuMachine.h - The processor code is made for ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_CPUMACHINE_H
#define COMPILER_CODEGEN_CPU_CPUMACHINE_H

#include "compiler/codegen/cpu/CpuRequest.h"
#include "llvm/Support/Error.h"

namespace tw::cpu {

/// What the code generator must know about the processor.
struct CpuMachine {
  std::string triple;
  std::string cpu;
  /// LLVM's feature string, "+avx2,+fma,...".
  std::string features;
  /// The ABI where LLVM would choose another than Linux has.
  std::string abi;
  /// Width of one vector register in bits.
  unsigned vectorBits = 128;
  /// Number of vector registers.
  unsigned vectorRegisters = 16;
  /// Fused multiply-add in hardware; without it a fused operation would be a library call.
  bool hasFma = false;
  /// How many products of 8-bit integers one instruction adds to each 32-bit lane: 4, 2 (after widening to 16 bits) or 1.
  unsigned integerProducts = 1;
  /// With 4 of them, one factor is unsigned and the other one signed. Else both are signed.
  bool mixesSigns = false;
  /// An instruction that adds two products of bfloat16 to each 32-bit lane.
  bool hasBfloatProducts = false;

  bool isX86() const { return triple.compare(0, 6, "x86_64") == 0; }
};

/// The processor that `choice` describes. `vectorBits` and `integerProducts`, where not 0, limit the field of that name.
/// Errors, each with what is allowed: an unknown architecture, processor or feature; a processor without what 64-bit code for
/// Linux needs.
llvm::Expected<CpuMachine> selectMachine(const CpuChoice &choice = {}, unsigned vectorBits = 0, unsigned integerProducts = 0);

/// An error unless the processor this process runs on has every instruction that code for `machine` may use.
llvm::Error checkRunsHere(const CpuMachine &machine);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_CPUMACHINE_H
