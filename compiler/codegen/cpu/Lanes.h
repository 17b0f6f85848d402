//===- Lanes.h - Scalar ops on scalars and vectors --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The ops of a linalg body, applied to all lanes of a vector at once.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_CODEGEN_CPU_LANES_H
#define COMPILER_CODEGEN_CPU_LANES_H

#include "compiler/codegen/cpu/LoopNest.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Builders.h"

namespace tw::cpu {

/// Whether a body consists of ops that applyToLanes knows, and of tensor.extract, whose indices are loops (linalg.index) or one integer of 64
/// bits (arith.index_cast); otherwise `offender` is the first that it does not know.
bool isSupportedBody(mlir::Block &body, mlir::Operation *&offender);

/// A scalar in all lanes of a vector, if `width` is more than 1; vectors are left alone.
mlir::Value toWidth(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value, int64_t width);

/// The result of a scalar op for operands that are scalars or vectors of `width` lanes; a scalar if all of them are. Integer
/// division does not trap (x / 0 and x % 0 are 0), and arithmetic on bfloat16 is done in f32 and rounded.
mlir::Value applyToLanes(mlir::OpBuilder &b, mlir::Operation &op, llvm::ArrayRef<mlir::Value> operands, int64_t width);

/// The natural logarithm of `x`, an f32 or a vector of them; of subnormal numbers, too.
mlir::Value logarithm(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);

/// e to the power of `x`, an f32 or a vector of them, to a unit in the last place; subnormal results are rounded like others.
mlir::Value exponential(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, const CpuMachine &machine);

/// accumulator + the sum of the products of the small numbers that lanes of i32 hold. By the processor's own instruction where there is
/// one for the width.
mlir::Value addProducts(mlir::OpBuilder &b, mlir::Location loc, Products products, mlir::Value accumulator, mlir::Value lhs,
                        mlir::Value rhs, int64_t width, const CpuMachine &machine);

/// An op that combines an accumulator with a value and may be reassociated.
struct Combiner {
  mlir::Operation *op = nullptr;
  mlir::vector::CombiningKind kind = mlir::vector::CombiningKind::ADD;
};

/// The combiner of a body whose last argument is its accumulator, if it has one.
std::optional<Combiner> matchCombiner(mlir::Block &body);

/// The lower lanes of a vector, whose number is even, each combined with an upper one; a scalar for the last two.
mlir::Value combineHalves(mlir::OpBuilder &b, mlir::Location loc, const Combiner &combiner, mlir::Value value);

/// What leaves any accumulator as it is.
mlir::TypedAttr neutralElement(mlir::OpBuilder &b, mlir::vector::CombiningKind kind, mlir::Type type);

} // namespace tw::cpu

#endif // COMPILER_CODEGEN_CPU_LANES_H
