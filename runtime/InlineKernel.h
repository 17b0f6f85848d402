//===- InlineKernel.h - One operator from the command line ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef RUNTIME_INLINEKERNEL_H
#define RUNTIME_INLINEKERNEL_H

#include "isa/timing/MachineParams.h"
#include "runtime/Status.h"
#include "runtime/Tensors.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <array>
#include <cstdint>
#include <string>

namespace tw::runtime {

/// `gemm:MxNxK:TYPE` or `conv:NxHxWxC:KHxKWxOC[:sSTRIDE][:pPAD][:gGROUPS]:TYPE`.
struct InlineKernel {
  bool isConv = false;
  std::array<int64_t, 3> gemm{};   ///< M, N, K
  std::array<int64_t, 4> input{};  ///< N, H, W, C
  std::array<int64_t, 3> window{}; ///< kernel height, kernel width, output channels
  int64_t stride = 1, pad = 0, groups = 1;
  timing::ArrayType type = timing::ArrayType::Int8;
};

/// Whether `model` looks like one: it begins with gemm: or conv:.
bool isInlineKernel(const std::string &model);

/// Errors name the part of the text that is wrong and what is allowed there.
StatusOr<InlineKernel> parseInlineKernel(const std::string &text);

/// Its weights: [K, N], or [kernel height, kernel width, C / groups, output channels]; of the kernel's own type.
HostTensor inlineKernelWeights(const InlineKernel &kernel, uint64_t seed);

/// Of int8 kernels: what the int32 sums are multiplied with to give the int8 result.
float requantizeMultiplier(const InlineKernel &kernel);

/// The kernel as a graph of one network input `x`, one output `y` and random constant weights. In int8 the int32 sums are
/// requantised to int8 with a scale that uses the range: results neither all saturate nor all vanish.
mlir::OwningOpRef<mlir::ModuleOp> buildInlineKernel(mlir::MLIRContext &context, const InlineKernel &kernel, uint64_t seed);

} // namespace tw::runtime

#endif // RUNTIME_INLINEKERNEL_H
