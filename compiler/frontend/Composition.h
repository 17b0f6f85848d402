//===- Composition.h - Graphs that operators are made of --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the import functions of composed operators share: checks of a node, and
// ops with short names.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_COMPOSITION_H
#define COMPILER_FRONTEND_COMPOSITION_H

#include "compiler/frontend/OnnxNode.h"
#include "llvm/ADT/STLExtras.h"

namespace tw::frontend {

using llvm::ArrayRef;
using Tensors = std::vector<Tensor>;

/// What is computed of constants alone, or of no elements, is the host's.
template <Tensors (*import)(Node &)> Tensors composed(Node &n) {
  if (n.allConstant())
    n.inexpressible("all of its inputs are constants");
  for (size_t i = 0; i < n.numInputs(); ++i)
    if (n.has(i) && llvm::is_contained(n.input(i, "").shape, 0))
      n.inexpressible("input " + llvm::Twine(i) + " has shape " + formatShape(n.input(i, "").shape) + ", no element");
  return import(n);
}

/// A constant scalar of the type of `x`.
inline Tensor scalarLike(const Tensor &x, double value) { return makeSplat(x.kind, {}, value); }

inline Tensor add(const Node &n, const Tensor &a, const Tensor &b) { return n.binary(BinaryKind::Add, a, b); }
inline Tensor sub(const Node &n, const Tensor &a, const Tensor &b) { return n.binary(BinaryKind::Sub, a, b); }
inline Tensor mul(const Node &n, const Tensor &a, const Tensor &b) { return n.binary(BinaryKind::Mul, a, b); }
inline Tensor div(const Node &n, const Tensor &a, const Tensor &b) { return n.binary(BinaryKind::Div, a, b); }
inline Tensor add(const Node &n, const Tensor &a, double b) { return add(n, a, scalarLike(a, b)); }
inline Tensor mul(const Node &n, const Tensor &a, double b) { return b == 1 ? a : mul(n, a, scalarLike(a, b)); }

inline Tensor product(const Node &n, const Tensor &a, const Tensor &b) {
  Shape shape = n.check(graph::matmulShape(a.shape, b.shape));
  return n.emit<graph::MatmulOp>(a.kind, shape, n.value(a), n.value(b));
}

inline Tensor softmax(const Node &n, const Tensor &x) {
  return n.emit<graph::SoftmaxOp>(x.kind, x.shape, n.value(x), x.rank() - 1);
}

inline Tensor clip(const Node &n, const Tensor &x, float least, float most) {
  return n.emit<graph::ClipOp>(x.kind, x.shape, n.value(x), n.builder().getF32FloatAttr(least),
                               n.builder().getF32FloatAttr(most));
}

/// `size` elements of dim `dim` from `first` on, each `step`th.
inline Tensor part(const Node &n, const Tensor &x, int64_t dim, int64_t first, int64_t size, int64_t step = 1) {
  Shape starts(x.shape.size(), 0), steps(x.shape.size(), 1), sizes = x.shape;
  starts[size_t(dim)] = first;
  steps[size_t(dim)] = step;
  sizes[size_t(dim)] = size;
  return n.slice(x, starts, steps, sizes);
}

/// inexpressible unless the inputs `given` that are there are of the float type of input 0.
inline void requireFloats(const Node &n, std::initializer_list<size_t> given) {
  n.requireFloat(n.input(0, "0"));
  for (size_t i : given)
    if (n.has(i) && n.input(i, "").kind != n.input(0, "").kind)
      n.inexpressible("input " + llvm::Twine(i) + " is of another type than input 0");
}

/// Fails unless `x` is of `shape`, where -1 stands for any size.
inline void requireShape(const Node &n, const Tensor &x, llvm::StringRef name, ArrayRef<int64_t> shape) {
  bool fits = x.shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape[i] == -1 || shape[i] == x.shape[i];
  if (fits)
    return;
  std::string expected;
  for (int64_t dim : shape)
    expected += (expected.empty() ? "" : ", ") + (dim == -1 ? "any" : std::to_string(dim));
  n.fail(name + " has shape " + formatShape(x.shape) + ", expected [" + expected + "]");
}

/// Fails unless `x` broadcasts to `shape`.
inline void requireBroadcast(const Node &n, const Tensor &x, llvm::StringRef name, ArrayRef<int64_t> shape) {
  if (n.check(graph::broadcastShapes(x.shape, shape)) != Shape(shape.begin(), shape.end()))
    n.fail(name + " of shape " + formatShape(x.shape) + " does not broadcast to " + formatShape(shape));
}

inline int64_t countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

/// x above 0, alpha * (exp(x / scale) - 1) below.
inline Tensor elu(const Node &n, const Tensor &x, double alpha, double scale = 1) {
  Tensor below = n.emitUnary<graph::ExpOp>(mul(n, n.binary(BinaryKind::Min, x, scalarLike(x, 0)), 1 / scale));
  return add(n, n.emitUnary<graph::ReluOp>(x), mul(n, add(n, below, -1), alpha));
}

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_COMPOSITION_H
