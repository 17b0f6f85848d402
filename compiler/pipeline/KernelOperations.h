//===- KernelOperations.h - How much a kernel computes ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_PIPELINE_KERNELOPERATIONS_H
#define COMPILER_PIPELINE_KERNELOPERATIONS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <vector>

namespace onnx {
class NodeProto;
} // namespace onnx

namespace tw::pipeline {

/// What a lowered kernel computes, for estimates: multiply-accumulates of contractions, else elements of results.
uint64_t operationsOf(mlir::func::FuncOp kernel);
/// The multiply-accumulates alone: of sums of products, those that fall into padding included.
uint64_t macsOf(mlir::func::FuncOp kernel);

/// The same of an ONNX node, from the shapes of its inputs and outputs; an input that is left out has no shape, which is that of a scalar.
uint64_t operationsOf(const onnx::NodeProto &node, llvm::ArrayRef<std::vector<int64_t>> inputs,
                      llvm::ArrayRef<std::vector<int64_t>> outputs);
uint64_t macsOf(const onnx::NodeProto &node, llvm::ArrayRef<std::vector<int64_t>> inputs,
                llvm::ArrayRef<std::vector<int64_t>> outputs);

} // namespace tw::pipeline

#endif // COMPILER_PIPELINE_KERNELOPERATIONS_H
