//===- Passes.h - The accelerator's phases as passes -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef COMPILER_PIPELINE_PASSES_H
#define COMPILER_PIPELINE_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tw::pipeline {

#define GEN_PASS_DECL
#include "compiler/pipeline/Passes.h.inc"

void registerAcceleratorPasses();

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_PASSES_H
