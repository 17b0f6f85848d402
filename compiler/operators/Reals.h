//===- Reals.h - Host tensors as arrays of float or double ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operators of much arithmetic turn narrow floats into float once, compute,
// and round once.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_REALS_H
#define COMPILER_OPERATORS_REALS_H

#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

namespace tw::operators {

/// Calls `f` with a zero of what floats of `kind` are computed in: double for doubles, else float. Throws Error for no float.
template <typename F> void visitReal(ElementKind kind, F &&f) {
  if (kind == ElementKind::F64)
    f(double());
  else if (frontend::isFloat(kind))
    f(float());
  else
    throw Error{std::string("a tensor is of ") + frontend::elementName(kind) + ", expected floats"};
}

/// All elements of a tensor of numbers.
template <typename T> std::vector<T> realsOf(const HostTensor &x) {
  std::vector<T> values(static_cast<size_t>(countOf(x)));
  if (x.type == ElementKind::F32) {
    std::copy_n(data<float>(x), values.size(), values.begin());
    return values;
  }
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = T(realAt(x, int64_t(i)));
  return values;
}

/// The inverse, rounded to nearest even.
template <typename T> void store(const std::vector<T> &values, HostTensor &y) {
  if (y.type == ElementKind::F32) {
    std::copy_n(values.begin(), values.size(), data<float>(y));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i)
    setReal(y, int64_t(i), double(values[i]));
}
template <typename T> HostTensor tensorOf(const std::vector<T> &values, ElementKind kind, const Shape &shape) {
  HostTensor y = makeTensor(kind, shape);
  store(values, y);
  return y;
}

/// As many zeros as a tensor of `shape` has elements. Throws Error for more than a tensor may have.
template <typename T> std::vector<T> zeros(const Shape &shape) {
  const std::optional<int64_t> count = frontend::countTensorElements(shape);
  if (!count)
    throw Error{"numbers of shape " + textOf(shape) + " are needed, at most 2^31 elements are allowed"};
  return std::vector<T>(static_cast<size_t>(*count));
}

/// c[m, n] += a[m, k] * b[k, n], row-major, without gaps.
template <typename A, typename B, typename C> void multiplyAdd(int64_t m, int64_t n, int64_t k, const A *a, const B *b, C *c) {
  for (int64_t i = 0; i < m; ++i, a += k, c += n)
    for (int64_t j = 0; j < k; ++j) {
      const C factor = C(a[j]);
      const B *row = b + j * n;
      for (int64_t l = 0; l < n; ++l)
        c[l] += factor * C(row[l]);
    }
}

/// [columns, rows] of x[rows, columns].
template <typename T> std::vector<T> turned(const T *x, int64_t rows, int64_t columns) {
  std::vector<T> y(size_t(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      y[size_t(j * rows + i)] = x[i * columns + j];
  return y;
}

/// The softmax of a row in place; `sink` more is in the sum of the powers, at the place of a score of that value.
template <typename T> void softmaxRow(T *row, int64_t count, const T *sink = nullptr) {
  T most = sink ? *sink : -std::numeric_limits<T>::infinity(), sum = 0;
  for (int64_t i = 0; i < count; ++i)
    most = std::max(most, row[i]);
  for (int64_t i = 0; i < count; ++i)
    sum += row[i] = std::exp(row[i] - most);
  if (sink)
    sum += std::exp(*sink - most);
  for (int64_t i = 0; i < count; ++i)
    row[i] /= sum;
}

/// Fails unless `x` has `shape`; -1 stands for any dim.
inline void requireShape(const Call &call, const HostTensor &x, const char *name, const Shape &shape) {
  bool fits = x.shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i)
    fits = shape[i] < 0 || shape[i] == x.shape[i];
  if (!fits)
    call.fail(std::string(name) + " has shape " + textOf(x.shape) + ", expected " + textOf(shape) +
              (std::count(shape.begin(), shape.end(), -1) ? " (-1: any)" : ""));
}

} // namespace tw::operators

#endif // COMPILER_OPERATORS_REALS_H
