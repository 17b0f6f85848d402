//===- Constants.h - Arithmetic on constant tensors -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the graph passes need to compute at compile time: reading elements,
// moving boxes of bytes, evaluating one op.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_GRAPH_TRANSFORMS_CONSTANTS_H
#define COMPILER_GRAPH_TRANSFORMS_CONSTANTS_H

#include "compiler/graph/Graph.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include <cmath>
#include <optional>
#include <vector>

namespace tw::graph {

/// The elements of the constant that defines `value`, or null.
mlir::ElementsAttr constantOf(mlir::Value value);

/// The elements as fp32 (f32, f16, bf16) in row-major order.
std::vector<float> readFloats(mlir::ElementsAttr elements);

/// The elements of an integer or bool tensor in row-major order; unsigned types are zero-extended.
std::vector<int64_t> readIntegers(mlir::ElementsAttr elements);

/// A tensor of f32, f16 or bf16; values are rounded to nearest even.
mlir::DenseElementsAttr makeFloats(mlir::RankedTensorType type, llvm::ArrayRef<float> values);

/// A tensor of an integer type or i1; values are taken modulo the width.
mlir::DenseElementsAttr makeIntegers(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> values);

/// The one value all elements share, as fp32; nothing for tensors with different elements or of integers.
std::optional<float> splatFloat(mlir::Value value);

/// `elements` under another shape.
mlir::DenseElementsAttr reshapeConstant(mlir::ElementsAttr elements, llvm::ArrayRef<int64_t> shape);

/// Dim i of the result is dim perm[i] of `elements`.
mlir::DenseElementsAttr transposeConstant(mlir::ElementsAttr elements, llvm::ArrayRef<int64_t> perm);

/// `elements` with another encoding of the same bits: ui8 for i8 and back.
mlir::DenseElementsAttr bitcastConstant(mlir::ElementsAttr elements, mlir::Type elementType);

/// Row-major strides in elements.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// The value of the one result of `op`, whose operands are all constants: every op of the dialect but graph.fallback, graph.elementwise and
/// graph.gather, and but those of ONNX Runtime that graph-decompose-ops takes apart. Null for these, for casts of f64 and ui64, and where the
/// value is open, such as a quotient by the integer 0.
mlir::DenseElementsAttr evaluate(mlir::Operation *op);
/// The same for ops that sum or compare many numbers; null for all others.
mlir::DenseElementsAttr evaluateSums(mlir::Operation *op);
/// The largest product of constants, in multiplications, that rules have folding compute.
constexpr int64_t kMostFolded = int64_t(1) << 28;
/// About how many additions or moves evaluate() needs, at most.
int64_t evaluationSteps(mlir::Operation *op);

/// ONNX Runtime's AVX2 arithmetic of QLinearAdd: both scales divided by the result's, the three zero points in one constant, two fused
/// multiply-adds, b first.
struct QuantisedSum {
  float aRatio, bRatio, shift;

  explicit QuantisedSum(QLinearAddOp op);
  float scaled(int64_t b) const { return std::fma(float(b), bRatio, shift); }
  /// The sum before it is rounded and saturated.
  float of(int64_t a, int64_t b) const { return std::fma(float(a), aRatio, scaled(b)); }
};

/// Taps of a depthwise window that the vector engine holds weights for (isa: max_mac_taps).
constexpr int64_t kMaxDepthwiseTaps = 256;

/// Each of several channels of the output depends on one channel of the input, and the weights are known and not too many: a
/// window on the vector engine. Any other convolution in groups is one contraction per group.
template <typename OpT> bool isDepthwise(OpT op) {
  auto shapeOf = [](mlir::Value value) { return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape(); };
  int64_t channels = shapeOf(op.getX())[op.getLayout() == "nhwc" ? 3 : 1];
  int64_t outputs = shapeOf(op.getY())[op.getLayout() == "nhwc" ? 3 : 1];
  int64_t weights = mlir::cast<mlir::RankedTensorType>(op.getW().getType()).getNumElements();
  return channels > 1 && int64_t(op.getGroup()) == channels && outputs == channels && constantOf(op.getW()) &&
         weights / channels <= kMaxDepthwiseTaps;
}

} // namespace tw::graph

#endif // COMPILER_GRAPH_TRANSFORMS_CONSTANTS_H
