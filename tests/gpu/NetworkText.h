//===- NetworkText.h - Small networks as text, for a GPU --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef TESTS_GPU_NETWORKTEXT_H
#define TESTS_GPU_NETWORKTEXT_H

#include "compiler/codegen/gpu/GpuCompiler.h"

#include <string>

namespace tw::test {

/// Numbers for every "dense<0.0>" and "dense<0>", so that the texts stay short; equal texts get equal numbers.
std::string filled(std::string text);

struct Numbers {
  graph::Math math = graph::Math::Exact;
  std::string narrow; ///< what f32 tensors between kernels become: bf16 or f16, as in a network of that type; empty: nothing
};

/// A module of graph ops through graph passes and lowering to a program; the module is changed. Errors: what the compiler says.
llvm::Expected<gpu::Program> compileGraph(mlir::ModuleOp module, gpu::GpuOptions options, const Numbers &numbers);
/// The same of text; tensors are bf16 or f16 where the network has that type.
llvm::Expected<gpu::Program> compileText(const std::string &text, const gpu::GpuOptions &options);

} // namespace tw::test

#endif // TESTS_GPU_NETWORKTEXT_H
