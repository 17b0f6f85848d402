//===- CpuRequest.h - What is asked of the CPU target -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plain data, so that the runtime can hold it without LLVM.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_CPUREQUEST_H
#define COMPILER_CODEGEN_CPU_CPUREQUEST_H

#include <cstdint>
#include <string>
#include <vector>

namespace tw::cpu {

/// The processor that the user asks for. Empty fields are those of the processor this process runs on.
struct CpuChoice {
  /// One of archNames().
  std::string arch;
  /// LLVM's name of a processor of that architecture. Another architecture than this process' own has its baseline:
  /// ARMv8-A with NEON, or rv64gc.
  std::string cpu;
  /// "+avx2,-fma": LLVM's names of features to add to those of the processor or to take away.
  std::string features;
};

/// The architectures that code can be made for: x86_64, aarch64, riscv64.
const std::vector<std::string> &archNames();

/// Text or machine code of the whole network in one file.
enum class BundleText : uint8_t { Llvm, Assembly, Object };

/// A network as a library for C programs (Bundle.h).
struct Bundle {
  /// The bytes of libNAME.a, or of the one file that BundleOptions::text asks for.
  std::string library;
  std::string header;
  /// The bytes of NAME.weights.bin; empty where the library holds them.
  std::string weights;
};

/// `name` as a C identifier: every other character becomes an underscore, and `net_` goes in front of a digit, of what C
/// reserves, and of nothing.
std::string cIdentifier(const std::string &name);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_CPUREQUEST_H
