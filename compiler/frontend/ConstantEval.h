//===- ConstantEval.h - ONNX operators on constants -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the importer computes itself: shape arithmetic and everything else that
// depends on constants only. Functions throw ImportError (ImportError.h).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_CONSTANTEVAL_H
#define COMPILER_FRONTEND_CONSTANTEVAL_H

#include "compiler/frontend/HostTensor.h"
#include "compiler/graph/GraphShapes.h"
#include "llvm/ADT/ArrayRef.h"
#include <memory>
#include <vector>

namespace tw::frontend {

using graph::formatShape;
using graph::Shape;

/// A tensor known at import time. A splat stores its one value once: ConstantOfShape may name a gigabyte.
struct Constant {
  /// Name of the initializer, if it is one.
  std::string name;
  ElementKind kind = ElementKind::F32;
  Shape shape;
  bool splat = false;
  std::vector<uint8_t> bytes;

  /// Number of elements of the tensor.
  int64_t count() const;
  /// Number of elements in `bytes`.
  int64_t stored() const { return splat ? 1 : count(); }
  /// Element `i` in row-major order as a real number; integers are rounded to double.
  double real(int64_t i) const;
  /// Element `i` as an integer modulo 2^64; floats are truncated and saturated.
  int64_t integer(int64_t i) const;
};
using ConstantRef = std::shared_ptr<const Constant>;

enum class UnaryKind { Neg, Abs, Sqrt, Exp, Log, Floor, Ceil, Round, Relu, Sigmoid, Tanh, Erf, Reciprocal, Sign, Not };
enum class BinaryKind { Add, Sub, Mul, Div, Mod, Fmod, Pow, Min, Max, Equal, Less, LessOrEqual, Greater, GreaterOrEqual, And, Or, Xor };
enum class ReduceKind { Sum, Mean, Max, Min, Prod };

/// A rank-1 int64 constant.
ConstantRef makeInts(llvm::ArrayRef<int64_t> values);
/// A tensor of equal elements.
ConstantRef makeSplat(ElementKind kind, llvm::ArrayRef<int64_t> shape, double value);
ConstantRef makeConstant(HostTensor tensor);

/// All elements as integers; at most 2^16 of them.
std::vector<int64_t> integersOf(const Constant &x);

ConstantRef evalUnary(UnaryKind kind, const Constant &x);
ConstantRef evalBinary(BinaryKind kind, const Constant &a, const Constant &b);
ConstantRef evalWhere(const Constant &condition, const Constant &a, const Constant &b);
ConstantRef evalCast(const Constant &x, ElementKind kind);
ConstantRef evalReshape(const ConstantRef &x, llvm::ArrayRef<int64_t> shape);
ConstantRef evalTranspose(const ConstantRef &x, llvm::ArrayRef<int64_t> perm);
ConstantRef evalSlice(const Constant &x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps,
                      llvm::ArrayRef<int64_t> sizes);
ConstantRef evalConcat(llvm::ArrayRef<ConstantRef> inputs, int64_t axis);
/// Numpy's broadcast_to.
ConstantRef evalExpand(const ConstantRef &x, llvm::ArrayRef<int64_t> shape);
ConstantRef evalGather(const Constant &x, const Constant &indices, int64_t axis);
ConstantRef evalPad(const Constant &x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, const Constant &value);
ConstantRef evalReduce(ReduceKind kind, const Constant &x, llvm::ArrayRef<int64_t> axes, bool keepdims);
ConstantRef evalRange(const Constant &start, const Constant &limit, const Constant &delta);
/// sat(rne(fl(x / scales[c])) + zeroPoints[c]), c the index of `axis`; one scale serves all.
ConstantRef evalQuantize(const Constant &x, llvm::ArrayRef<float> scales, llvm::ArrayRef<int32_t> zeroPoints, int64_t axis,
                         ElementKind kind);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_CONSTANTEVAL_H
