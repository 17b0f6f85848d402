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
