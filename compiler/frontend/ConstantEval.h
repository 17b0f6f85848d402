//===- ConstantEval.h - ONNX operators on constants -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the importer computes itself: shape arithmetic and everything else that
// depends on constants only. The arithmetic is that of compiler/operators; here
// equal elements stay one, and the elements of large results are left to the
// first who reads them. Functions throw ImportError (ImportError.h).
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_CONSTANTEVAL_H
#define COMPILER_FRONTEND_CONSTANTEVAL_H

#include "compiler/frontend/HostTensor.h"
#include "compiler/graph/GraphShapes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <functional>
#include <memory>
#include <vector>

namespace onnx {
class NodeProto;
} // namespace onnx

namespace tw::frontend {

using graph::formatShape;
using graph::Shape;

/// No less is worth being kept once only, or waiting for a reader.
inline constexpr size_t kManyBytes = size_t(1) << 20;

/// Elements of a constant. Many of them are made when they are first read, after the importer has found room for them.
class ConstantElements {
public:
  using Make = std::function<HostTensor()>;
  explicit ConstantElements(HostTensor tensor) : tensor(std::make_shared<const HostTensor>(std::move(tensor))) {}
  explicit ConstantElements(Make make) : make(std::move(make)) {}
  const std::shared_ptr<const HostTensor> &get();
  /// Forgets the elements: who reads them again has them made by `make`.
  void release(Make make);

private:
  Make make;
  std::shared_ptr<const HostTensor> tensor;
};

/// A tensor known at import time. A splat stores its one value once: ConstantOfShape may name a gigabyte.
struct Constant {
  /// Name of the initializer, if it is one.
  std::string name;
  ElementKind kind = ElementKind::F32;
  Shape shape;
  bool splat = false;
  /// A reshape shares them: their shape may be another one.
  std::shared_ptr<ConstantElements> storage;

  /// stored() elements, row-major.
  const std::vector<uint8_t> &bytes() const { return storage->get()->bytes; }
  /// The whole tensor; a copy where it is a splat or has been reshaped.
  std::shared_ptr<const HostTensor> tensor() const;
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

enum class BinaryKind { Add, Sub, Mul, Div, Min, Max };

/// A rank-1 int64 constant.
ConstantRef makeInts(llvm::ArrayRef<int64_t> values);
/// A tensor of equal elements.
ConstantRef makeSplat(ElementKind kind, llvm::ArrayRef<int64_t> shape, double value);
ConstantRef makeConstant(HostTensor tensor);
/// A tensor from row-major bytes; one element's bytes are a splat.
ConstantRef makeConstant(ElementKind kind, llvm::ArrayRef<int64_t> shape, std::vector<uint8_t> bytes);

/// All elements as integers; at most 2^16 of them.
std::vector<int64_t> integersOf(const Constant &x);

/// Result 0 of one of ONNX's own operators that works element by element under numpy broadcasting.
ConstantRef evalElementwise(const onnx::NodeProto &node, int64_t opset, llvm::ArrayRef<ConstantRef> inputs);
/// The same of the newest opset, for an operator without attributes.
ConstantRef evalElementwise(const char *type, llvm::ArrayRef<ConstantRef> inputs);
ConstantRef evalBinary(BinaryKind kind, const ConstantRef &a, const ConstantRef &b);
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
/// `type`: ReduceSum, ReduceMean, ReduceMax, ReduceMin or ReduceProd.
ConstantRef evalReduce(llvm::StringRef type, const ConstantRef &x, llvm::ArrayRef<int64_t> axes, bool keepdims);
/// QuantizeLinear with the scales of the entries of `axis`; one scale serves all.
ConstantRef evalQuantize(const ConstantRef &x, llvm::ArrayRef<float> scales, llvm::ArrayRef<int32_t> zeroPoints, int64_t axis,
                         ElementKind kind);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_CONSTANTEVAL_H
