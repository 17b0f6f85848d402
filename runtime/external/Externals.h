//===- Externals.h - The external runtimes one by one -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_EXTERNAL_EXTERNALS_H
#define RUNTIME_EXTERNAL_EXTERNALS_H

#include "runtime/external/External.h"

namespace tw::runtime {

/// ONNX Runtime through its C API: ONNX files, and inline kernels as ONNX models.
std::unique_ptr<External> makeOnnxRuntime();
/// oneDNN through its C API: inline kernels.
std::unique_ptr<External> makeOneDnn();
/// PyTorch in a Python process beside this one: inline kernels of fp32 and bf16.
std::unique_ptr<External> makeTorch();

} // namespace tw::runtime

#endif // RUNTIME_EXTERNAL_EXTERNALS_H
