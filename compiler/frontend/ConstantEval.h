//===- ConstantEval.h - ONNX operators on constants -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the importer computes itself: shape arithmetic and everything else that
// depends on constants only. Functions throw ImportError (ImportError.h), and
// leave the elements of large results to the first who reads them.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_CONSTANTEVAL_H
#define COMPILER_FRONTEND_CONSTANTEVAL_H

#include "compiler/frontend/HostTensor.h"
#include "compiler/graph/GraphShapes.h"
#include "llvm/ADT/ArrayRef.h"
#include <functional>
#include <memory>
#include <vector>

namespace tw::frontend {

using graph::formatShape;
using graph::Shape;

/// No less is worth being kept once only, or waiting for a reader.
inline constexpr size_t kManyBytes = size_t(1) << 20;

/// Bytes of a constant. Many of them are made when they are first read, after the importer has found room for them.
class ConstantBytes {
public:
  using Make = std::function<std::vector<uint8_t>()>;
  explicit ConstantBytes(std::vector<uint8_t> bytes) : bytes(std::move(bytes)) {}
  explicit ConstantBytes(Make make) : make(std::move(make)) {}
  const std::vector<uint8_t> &get();
  /// Forgets the bytes: who reads them again has them made by `make`.
  void release(Make make);

private:
  Make make;
  std::vector<uint8_t> bytes;
};

/// A tensor known at import time. A splat stores its one value once: ConstantOfShape may name a gigabyte.
struct Constant {
  /// Name of the initializer, if it is one.
  std::string name;
  ElementKind kind = ElementKind::F32;
  Shape shape;
  bool splat = false;
  /// A reshape shares them.
  std::shared_ptr<ConstantBytes> storage;

  /// stored() elements, row-major.
  const std::vector<uint8_t> &bytes() const { return storage->get(); }
  /// Number of elements of the tensor.
  int64_t count() const;
  /// Number of elements in bytes().
  int64_t stored() const { return splat ? 1 : count(); }
  /// Bytes of the whole tensor, also where it is a splat.
  int64_t size() const { return count() * int64_t(elementBytes(kind)); }
  /// Element `i` in row-major order as a real number; integers are rounded to double.
  double real(int64_t i) const;
  /// Element `i` as an integer modulo 2^64; floats are truncated and saturated.
  int64_t integer(int64_t i) const;
};
using ConstantRef = std::shared_ptr<const Constant>;

/// The tensor with all of its elements, without a name.
HostTensor expanded(const Constant &constant);

enum class UnaryKind {
  Neg,
  Abs,
  Sqrt,
  Exp,
  Log,
  Floor,
  Ceil,
  Round,
  Relu,
  Sigmoid,
  Tanh,
  Erf,
  Reciprocal,
  Sign,
  Not,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Asinh,
  Acosh,
  Atanh,
  Softplus,
  Softsign
};
enum class BinaryKind {
  Add,
  Sub,
  Mul,
  Div,
  Mod,
  Fmod,
  Pow,
  Min,
  Max,
  Equal,
  Less,
  LessOrEqual,
  Greater,
  GreaterOrEqual,
  And,
  Or,
  Xor
};
enum class ReduceKind { Sum, Mean, Max, Min, Prod };

/// A rank-1 int64 constant.
ConstantRef makeInts(llvm::ArrayRef<int64_t> values);
/// A tensor of equal elements.
ConstantRef makeSplat(ElementKind kind, llvm::ArrayRef<int64_t> shape, double value);
ConstantRef makeConstant(HostTensor tensor);
/// A tensor from row-major bytes; one element's bytes are a splat.
ConstantRef makeConstant(ElementKind kind, llvm::ArrayRef<int64_t> shape, std::vector<uint8_t> bytes);

/// All elements as integers; at most 2^16 of them.
std::vector<int64_t> integersOf(const Constant &x);

ConstantRef evalUnary(UnaryKind kind, const ConstantRef &x);
ConstantRef evalBinary(BinaryKind kind, const ConstantRef &a, const ConstantRef &b);
ConstantRef evalWhere(const ConstantRef &condition, const ConstantRef &a, const ConstantRef &b);
ConstantRef evalCast(const ConstantRef &x, ElementKind kind);
ConstantRef evalReshape(const ConstantRef &x, llvm::ArrayRef<int64_t> shape);
ConstantRef evalTranspose(const ConstantRef &x, llvm::ArrayRef<int64_t> perm);
ConstantRef evalSlice(const ConstantRef &x, llvm::ArrayRef<int64_t> starts, llvm::ArrayRef<int64_t> steps,
                      llvm::ArrayRef<int64_t> sizes);
ConstantRef evalConcat(llvm::ArrayRef<ConstantRef> inputs, int64_t axis);
/// Numpy's broadcast_to.
ConstantRef evalExpand(const ConstantRef &x, llvm::ArrayRef<int64_t> shape);
ConstantRef evalGather(const ConstantRef &x, const ConstantRef &indices, int64_t axis);
ConstantRef evalPad(const ConstantRef &x, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, const Constant &value);
ConstantRef evalReduce(ReduceKind kind, const ConstantRef &x, llvm::ArrayRef<int64_t> axes, bool keepdims);
ConstantRef evalRange(const ConstantRef &start, const ConstantRef &limit, const ConstantRef &delta);
/// sat(rne(fl(x / scales[c])) + zeroPoints[c]), c the index of `axis`; one scale serves all.
ConstantRef evalQuantize(const ConstantRef &x, llvm::ArrayRef<float> scales, llvm::ArrayRef<int32_t> zeroPoints, int64_t axis,
                         ElementKind kind);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_CONSTANTEVAL_H
