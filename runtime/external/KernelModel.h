//===- KernelModel.h - Inline kernels for other runtimes --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numbers of an inline kernel (runtime/InlineKernel.h) in the layouts that
// other runtimes take. A convolution is NHWC here and NCHW there: a device
// rearranges values outside the time that it measures.
//===----------------------------------------------------------------------===//
#ifndef RUNTIME_EXTERNAL_KERNELMODEL_H
#define RUNTIME_EXTERNAL_KERNELMODEL_H

#include "runtime/InlineKernel.h"
#include "runtime/Tensors.h"

namespace tw::runtime {

/// Shapes of input, weights and output: [M, K], [K, N], [M, N], or NCHW and OIHW.
struct KernelShapes {
  std::vector<int64_t> x, w, y;
};
KernelShapes shapesOf(const InlineKernel &kernel);

/// The weights of `kernel` under `seed`, shaped as shapesOf() has it; of its own type.
HostTensor weightsOf(const InlineKernel &kernel, uint64_t seed);

/// The input from our layout, and the output to it. Matrices stay as they are.
HostTensor toChannelsFirst(const InlineKernel &kernel, const HostTensor &tensor);
HostTensor toChannelsLast(const InlineKernel &kernel, const HostTensor &tensor);

/// The bytes of an ONNX model with input x and output y in the layout of shapesOf(). fp32: one MatMul or Conv. int8: one
/// QLinearMatMul or QLinearConv of uint8 activations with zero point 128, which ONNX Runtime computes faster than int8 ones; the
/// numbers are the same, 128 more in x and y. Precondition: the type is not bf16.
std::string onnxModelOf(const InlineKernel &kernel, uint64_t seed);

} // namespace tw::runtime

#endif // RUNTIME_EXTERNAL_KERNELMODEL_H
