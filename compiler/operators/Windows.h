//===- Windows.h - Windows that slide over a tensor -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of convolutions and pools: the spatial dims of tensors [N, C, ...].
//===----------------------------------------------------------------------===//
#ifndef COMPILER_OPERATORS_WINDOWS_H
#define COMPILER_OPERATORS_WINDOWS_H

#include "compiler/operators/Widened.h"

namespace tw::operators {

/// A value for each spatial dim.
struct Windows {
  Shape input, output, kernel, strides, dilations;
  Shape before, after; ///< padding
  /// Elements of each dim that a window reaches over.
  int64_t reach(size_t dim) const { return (kernel[dim] - 1) * dilations[dim] + 1; }
};

/// An attribute with a number for each of `rank` spatial dims, each at least `least`.
Shape spatialAttr(const Call &call, const char *name, size_t rank, int64_t fallback, int64_t least);
/// Attribute kernel_shape, or `given`, the spatial dims of weights, which it must be.
Shape kernelOf(const Call &call, const Shape &spatial, const Shape *given);
/// Windows over an input of the spatial dims `spatial` as attributes strides, dilations, pads and auto_pad say. `ceil`: the last
/// window may reach beyond the padding, if it does not start there.
Windows windowsOf(const Call &call, const Shape &spatial, const Shape &kernel, bool ceil = false);
/// The dims behind batch and channels; fails if there are none.
Shape spatialOf(const Call &call, size_t input);

/// Of places along one dim: those `index` in [0, `count`) for which index * stride + offset lies in [0, size).
struct InsideRange {
  int64_t first, end;
  InsideRange(int64_t count, int64_t stride, int64_t offset, int64_t size) {
    auto atLeast = [&](int64_t bound) { return bound <= offset ? 0 : (bound - offset + stride - 1) / stride; };
    first = std::min(count, atLeast(0));
    end = std::max(first, std::min(count, atLeast(size)));
  }
};

} // namespace tw::operators

#endif // COMPILER_OPERATORS_WINDOWS_H
