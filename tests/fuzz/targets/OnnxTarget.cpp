//===- OnnxTarget.cpp - ONNX models, down to tiles ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/fuzz/targets/Compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const tw::fuzz::ScratchFile file("onnx", data, size);
  tw::fuzz::compileModel(file.path, "double_buffer", size);
  return 0;
}
