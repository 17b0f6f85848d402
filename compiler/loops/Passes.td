//===- Passes.td - From graph kernels to linalg ------------*- tablegen -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LOOPS_PASSES_TD
#define COMPILER_LOOPS_PASSES_TD

include "mlir/Pass/PassBase.td"

def LowerGraphPass : Pass<"graph-lower-to-linalg", "::mlir::ModuleOp"> {
  let summary = "kernel functions on tensors: linalg inside, calls and reshapes in @main";
  let description = [{
    Inside a kernel: arith.constant, tensor.empty, linalg.fill, tensor.pad, linalg.generic, linalg.transpose,
    tensor.extract_slice, tensor.concat, tensor.expand_shape and tensor.collapse_shape. uint8 becomes i8, read with extui;
    arguments and results of @main that were uint8 carry the unit attribute `tilewright.unsigned`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
}

#endif // COMPILER_LOOPS_PASSES_TD
