//===- Program.cpp - A network for a GPU ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Program.h"

using namespace tw;

unsigned gpu::bytesOf(Element element) {
  constexpr unsigned bytes[] = {4, 2, 2, 8, 1, 2, 4, 8, 1};
  return bytes[unsigned(element)];
}

const char *gpu::nameOf(Element element) {
  constexpr const char *names[] = {"f32", "bf16", "f16", "f64", "i8", "i16", "i32", "i64", "bool"};
  return names[unsigned(element)];
}

const char *gpu::nameOf(Architecture architecture) { return architecture == Architecture::Sm80 ? "sm_80" : "sm_90a"; }

std::string gpu::whyNot(Architecture architecture, int computeCapability) {
  if (architecture == Architecture::Sm80 ? computeCapability >= 80 : computeCapability == 90)
    return "";
  return "it is sm_" + std::to_string(computeCapability) + ", but kernels are for " + nameOf(architecture) +
         (architecture == Architecture::Sm80 ? " and later" : "");
}
