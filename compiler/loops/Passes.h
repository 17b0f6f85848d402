//===- Passes.h - From graph kernels to linalg ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LOOPS_PASSES_H
#define COMPILER_LOOPS_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace tw::loops {

#define GEN_PASS_DECL
#include "compiler/loops/Passes.h.inc"

/// Makes every pass of this folder known by its flag.
void registerLoopPasses();

} // namespace tw::loops

#endif // COMPILER_LOOPS_PASSES_H
