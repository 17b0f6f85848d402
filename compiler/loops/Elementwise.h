//===- Elementwise.h - Scalar bodies of element-by-element ops --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LOOPS_ELEMENTWISE_H
#define COMPILER_LOOPS_ELEMENTWISE_H

#include "compiler/graph/Graph.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Operation.h"
#include <functional>

namespace tw::loops {

/// One number in a body. `type` is the graph's element type; the SSA value has its signless form.
struct Scalar {
  mlir::Value value;
  mlir::Type type;
};

/// Bounds of an 8-bit result that are tighter than its type's.
struct Bounds {
  int32_t lo, hi;
};

/// Signless form of a graph element type.
mlir::Type storageType(mlir::Type type);

/// `x` as f32 (from bf16, f16, f32) and as i32 (from 8-bit types and i32).
mlir::Value toF32(mlir::OpBuilder &builder, mlir::Location loc, Scalar x);
mlir::Value toI32(mlir::OpBuilder &builder, mlir::Location loc, Scalar x);

mlir::Value floatConstant(mlir::OpBuilder &builder, mlir::Location loc, float value);
mlir::Value integerConstant(mlir::OpBuilder &builder, mlir::Location loc, int64_t value, unsigned width = 32);

/// sat(rne(x)) + zero_point as an 8-bit number: x is in units of the result's scale.
mlir::Value saturate(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value x, mlir::Type type, int32_t zeroPoint,
                     std::optional<Bounds> bounds = std::nullopt);

/// Reads a number per channel: what an op carries as a list of values, along the dim its axis names.
using ChannelReader = std::function<mlir::Value(mlir::DenseElementsAttr)>;

/// What a constant `a` adds to a quantised sum, in units of the result's scale: one number, or one along the last dim. The chain scales none
/// but its second tensor as it adds, so the product is rounded on its own. Null where that changes the result for any value of `b`.
mlir::DenseElementsAttr constantAddend(graph::QLinearAddOp op);

/// The body of one op: `operands` are the numbers at this place (requantize: its x only). `bounds`: those of the clip that
/// follows a quantize or requantize.
mlir::Value emitScalar(mlir::OpBuilder &builder, mlir::Operation *op, llvm::ArrayRef<Scalar> operands,
                       const ChannelReader &perChannel, std::optional<Bounds> bounds);

/// The two halves of a quantize whose zero points differ, with an i32 between them: rne(x / scale), bounded to what still
/// saturates, and sat(y + zero_point).
mlir::Value emitRounded(mlir::OpBuilder &builder, graph::QuantizeOp op, Scalar x, const ChannelReader &perChannel);
mlir::Value emitShifted(mlir::OpBuilder &builder, graph::QuantizeOp op, mlir::Value y, const ChannelReader &perChannel,
                        std::optional<Bounds> bounds);

/// The two halves of a dequantize, with an i32 between them: x - zero_point, and that times the scale.
mlir::Value emitDifference(mlir::OpBuilder &builder, graph::DequantizeOp op, Scalar x, const ChannelReader &perChannel);
mlir::Value emitScaled(mlir::OpBuilder &builder, graph::DequantizeOp op, mlir::Value y, const ChannelReader &perChannel);

/// Steps the op takes in a chain of the vector engine, roughly: what decides how much goes into one body.
unsigned stageCount(mlir::Operation *op);
/// Numbers in the body that are neither operands nor per channel, at most.
unsigned constantCount(mlir::Operation *op);
/// Whether the body of op needs its operand again after it has computed something else.
bool keepsValue(mlir::Operation *op);

} // namespace tw::loops

#endif // COMPILER_LOOPS_ELEMENTWISE_H
