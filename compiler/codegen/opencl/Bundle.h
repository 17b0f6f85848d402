//===- Bundle.h - A network for OpenCL in C programs ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_CODEGEN_OPENCL_BUNDLE_H
#define COMPILER_CODEGEN_OPENCL_BUNDLE_H

#include "compiler/codegen/cpu/Bundle.h"
#include "compiler/codegen/opencl/Program.h"

#include <string>

namespace tw::opencl {

/// The files of a network: NAME.h, NAME.c, which needs libOpenCL alone, and what that reads: NAME.cl and NAME.weights.bin.
struct Bundle {
  std::string header, loader, kernels, weights;
};

/// `options`: name, model, inputs and outputs.
Bundle writeBundle(const Program &program, const cpu::BundleOptions &options);

} // namespace tw::opencl

#endif // COMPILER_CODEGEN_OPENCL_BUNDLE_H
