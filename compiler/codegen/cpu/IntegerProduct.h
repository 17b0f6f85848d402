//===- IntegerProduct.h - Sums of products of bytes -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Processors add several neighbouring products of small integers in one
// instruction. This finds the convolutions and matrix products that may use it.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_INTEGERPRODUCT_H
#define COMPILER_CODEGEN_CPU_INTEGERPRODUCT_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace tw::cpu {

/// One factor: (extend(element) - zero), where extend is to i32.
struct ProductFactor {
  /// The operand of the op.
  unsigned operand = 0;
  bool isSigned = false;
  int32_t zero = 0;
};

/// acc + factors[0] * factors[1], over i8 elements.
struct IntegerProduct {
  ProductFactor factors[2];
};

/// Matches the body of a reducing linalg.generic with two inputs and one result.
std::optional<IntegerProduct> matchIntegerProduct(mlir::linalg::GenericOp op);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_INTEGERPRODUCT_H
