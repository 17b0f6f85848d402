//===- ElementLoops.h - Loops over elements of one and two tensors -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops that compilers vectorise: rows in which an operand either advances by
// one element or repeats one.
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_ELEMENTLOOPS_H
#define COMPILER_OPERATORS_ELEMENTLOOPS_H

#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

namespace tw::operators {

/// The part of addElementwise() that has one operand.
void addActivations(Table &table);

/// Calls `f(i, at, count, steps)` for each row of the row-major order of `shape`, to which `shapes` broadcast: `i` is the row's
/// first element, `at[k]` the element of operand k that stands there, `count` the row's length, and `steps[k]` 1 or, for an
/// operand that repeats one element, 0. Neighbouring dims that all operands walk alike are one row.
template <size_t N, typename F> void forEachRow(const Shape &shape, const std::array<const Shape *, N> &shapes, F &&f) {
  if (countOf(shape) == 0)
    return;
  std::array<Shape, N> strides;
  for (size_t k = 0; k < N; ++k)
    strides[k] = broadcastStrides(*shapes[k], shape);
  // From the last dim on: a dim joins the one inside of it if every operand steps on as if both were one.
  Shape merged;
  std::array<Shape, N> mergedStrides;
  for (size_t dim = shape.size(); dim-- > 0;) {
    if (shape[dim] == 1)
      continue;
    bool joins = !merged.empty();
    for (size_t k = 0; k < N && joins; ++k)
      joins = strides[k][dim] == mergedStrides[k].back() * merged.back();
    if (joins) {
      merged.back() *= shape[dim];
      continue;
    }
    merged.push_back(shape[dim]);
    for (size_t k = 0; k < N; ++k)
      mergedStrides[k].push_back(strides[k][dim]);
  }
  const int64_t count = merged.empty() ? 1 : merged.front();
  std::array<int64_t, N> steps{};
  // The innermost dim that is no 1 lies contiguous in each operand that has it.
  for (size_t k = 0; k < N && !merged.empty(); ++k)
    steps[k] = mergedStrides[k].front();
  std::array<Shape, N> outer;
  for (size_t k = 0; k < N; ++k)
    outer[k] = merged.empty() ? Shape() : Shape(mergedStrides[k].rbegin(), mergedStrides[k].rend() - 1);
  const Shape rows = merged.empty() ? Shape() : Shape(merged.rbegin(), merged.rend() - 1);
  walk<N>(rows, outer, [&](int64_t i, const std::array<int64_t, N> &at) { f(i * count, at, count, steps); });
}

/// z[i] = f(x[i]).
template <typename X, typename Z, typename F> void mapElements(const X *x, Z *z, int64_t count, F &&f) {
  for (int64_t i = 0; i < count; ++i)
    z[i] = Z(f(Computed<X>(x[i])));
}

/// z = f(x, y) under broadcasting. Precondition: `z` has the broadcast shape, and Z, X and Y are the element types.
template <typename X, typename Y, typename Z, typename F>
void zipElements(const HostTensor &x, const HostTensor &y, HostTensor &z, F &&f) {
  forEachRow<2>(z.shape, {&x.shape, &y.shape},
                [&](int64_t i, const std::array<int64_t, 2> &at, int64_t count, const std::array<int64_t, 2> &steps) {
                  const X *a = data<X>(x) + at[0];
                  const Y *b = data<Y>(y) + at[1];
                  Z *to = data<Z>(z) + i;
                  if (steps[0] == steps[1] && steps[0] == 1) {
                    for (int64_t j = 0; j < count; ++j)
                      to[j] = Z(f(Computed<X>(a[j]), Computed<Y>(b[j])));
                  } else if (steps[1] == 0) {
                    const Computed<Y> same = Computed<Y>(*b);
                    for (int64_t j = 0; j < count; ++j)
                      to[j] = Z(f(Computed<X>(a[j * steps[0]]), same));
                  } else {
                    const Computed<X> same = Computed<X>(*a);
                    for (int64_t j = 0; j < count; ++j)
                      to[j] = Z(f(same, Computed<Y>(b[j])));
                  }
                });
}

} // namespace tw::operators

#endif // COMPILER_OPERATORS_ELEMENTLOOPS_H
