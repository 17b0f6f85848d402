//===- Window.h - Sliding windows of ONNX operators -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#ifndef COMPILER_FRONTEND_WINDOW_H
#define COMPILER_FRONTEND_WINDOW_H

#include "compiler/frontend/OnnxNode.h"

namespace tw::frontend {

/// The window of a convolution or pooling over n spatial dims, with auto_pad and ceil_mode resolved.
struct Window {
  Shape kernel, strides, dilations;
  /// The n pads at the beginning, then the n at the end.
  Shape pads;
  /// Positions behind the padded input that the last window reaches under ceil_mode. They are no padding: an average
  /// never counts them. source: ONNX Runtime, core/providers/cpu/nn/pool_attributes.h
  Shape overhang;
  /// The spatial dims of the result.
  Shape output;

  size_t rank() const { return kernel.size(); }
  bool hasOverhang() const;
  /// `pads` with the overhang added at the end.
  Shape padsWithOverhang() const;
  /// A window over [1, L] that does as this one, which is over [L], does.
  Window lifted() const;
};

/// Reads strides, pads, dilations, auto_pad and, for poolings, ceil_mode.
Window readWindow(Node &n, llvm::ArrayRef<int64_t> spatial, llvm::ArrayRef<int64_t> kernel, bool isPool);

/// Reads kernel_shape of a pooling: one value at least 1 per spatial dim.
Shape readKernelShape(Node &n, size_t rank);

/// `x` of shape [N, C, L] as [N, C, 1, L].
Tensor lift(const Node &n, const Tensor &x);

} // namespace tw::frontend

#endif // COMPILER_FRONTEND_WINDOW_H
