//===- PlanTarget.cpp - Plan files, applied to a kernel -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/fuzz/targets/Compile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const tw::fuzz::ScratchFile file("mlir", data, size);
  tw::fuzz::compileModel(std::string("gemm:40x24x32:") + (size % 2 ? "int8" : "fp32"), file.path, size);
  return 0;
}
