//===- HostMachine.cpp - The processor code is made for -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/HostMachine.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include <algorithm>
#include <map>

namespace tw::cpu {

HostMachine detectHostMachine(unsigned vectorBits, unsigned integerProducts) {
  HostMachine machine;
  machine.triple = llvm::sys::getProcessTriple();
  machine.cpu = llvm::sys::getHostCPUName().str();
  // A sorted copy: the feature string is part of what is compiled and must not depend on hashing.
  std::map<std::string, bool> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features[feature.getKey().str()] = feature.getValue();
  for (const auto &[name, enabled] : features)
    machine.features += (machine.features.empty() ? "" : ",") + std::string(enabled ? "+" : "-") + name;
  auto has = [&](const char *name) { return features.count(name) && features[name]; };
  // A 512-bit register is only worth it where bytes and words are handled at that width too.
  bool wide = has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq");
  machine.vectorBits = wide ? 512 : has("avx2") ? 256 : 128;
  machine.vectorRegisters = wide || has("neon") ? 32 : 16;
  machine.hasFma = has("fma") || has("neon");
  bool vnni = (has("avx512vnni") && has("avx512vl")) || (!wide && has("avxvnni"));
  machine.integerProducts = vnni ? 4 : has("sse2") ? 2 : 1;
  machine.hasBfloatProducts = has("avx512bf16") && has("avx512vl");
  if (integerProducts)
    machine.integerProducts = std::min(machine.integerProducts, integerProducts);
  if (vectorBits)
    machine.vectorBits = std::clamp(vectorBits, 64u, machine.vectorBits);
  return machine;
}

} // namespace tw::cpu
