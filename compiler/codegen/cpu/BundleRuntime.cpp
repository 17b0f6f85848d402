//===- BundleRuntime.cpp - The C part of bundles, as bitcode --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/Bundle.h"

#define TW_BITCODE(ARCH)                                                                                                       \
  asm(".section .rodata\n"                                                                                                     \
      ".balign 16\n"                                                                                                           \
      "tw_bundle_" #ARCH "_begin:\n"                                                                                           \
      ".incbin \"" TW_BITCODE_FOLDER "/BundleRun-" #ARCH ".bc\"\n"                                                             \
      "tw_bundle_" #ARCH "_end:\n"                                                                                             \
      ".previous\n");                                                                                                          \
  extern "C" __attribute__((visibility("hidden"))) const char tw_bundle_##ARCH##_begin[], tw_bundle_##ARCH##_end[];

TW_BITCODE(x86_64)
TW_BITCODE(aarch64)
TW_BITCODE(riscv64)

llvm::StringRef tw::cpu::bundleRuntime(llvm::StringRef arch) {
  auto between = [](const char *begin, const char *end) { return llvm::StringRef(begin, size_t(end - begin)); };
  if (arch == "x86_64")
    return between(tw_bundle_x86_64_begin, tw_bundle_x86_64_end);
  if (arch == "aarch64")
    return between(tw_bundle_aarch64_begin, tw_bundle_aarch64_end);
  if (arch == "riscv64")
    return between(tw_bundle_riscv64_begin, tw_bundle_riscv64_end);
  return {};
}
