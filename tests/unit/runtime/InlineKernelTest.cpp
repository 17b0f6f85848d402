//===- InlineKernelTest.cpp - One operator from the command line ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/InlineKernel.h"
#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::runtime;

namespace {

std::string error(const std::string &text) {
  StatusOr<InlineKernel> kernel = parseInlineKernel(text);
  return kernel ? "good" : kernel.error().message;
}

/// Builds the kernel, verifies it, and returns the shape of its output.
std::vector<int64_t> outputShape(const std::string &text) {
  StatusOr<InlineKernel> kernel = parseInlineKernel(text);
  EXPECT_TRUE(bool(kernel)) << (kernel ? "" : kernel.error().message);
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = buildInlineKernel(context, *kernel, 1);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  auto function = module->lookupSymbol<mlir::func::FuncOp>("main");
  return llvm::cast<mlir::RankedTensorType>(function.getResultTypes()[0]).getShape().vec();
}

} // namespace

TEST(InlineKernelTest, AConvolutionInFull) {
  StatusOr<InlineKernel> kernel = parseInlineKernel("conv:1x56x55x64:3x2x32:s2:p1:g4:bf16");
  ASSERT_TRUE(kernel);
  EXPECT_TRUE(kernel->isConv);
  EXPECT_EQ(kernel->input, (std::array<int64_t, 4>{1, 56, 55, 64}));
  EXPECT_EQ(kernel->window, (std::array<int64_t, 3>{3, 2, 32}));
  EXPECT_EQ(kernel->stride, 2);
  EXPECT_EQ(kernel->pad, 1);
  EXPECT_EQ(kernel->groups, 4);
  EXPECT_EQ(kernel->type, timing::ArrayType::Bf16);
}

TEST(InlineKernelTest, GraphsAreValidInEveryType) {
  EXPECT_EQ(outputShape("gemm:5x6x7:int8"), (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(outputShape("gemm:5x6x7:fp32"), (std::vector<int64_t>{5, 6}));
  // (56 + 2 - 3) / 2 + 1 = 28, (55 + 2 - 2) / 2 + 1 = 28
  for (const char *type : {"int8", "bf16", "fp32"})
    EXPECT_EQ(outputShape(std::string("conv:1x56x55x64:3x2x32:s2:p1:") + type), (std::vector<int64_t>{1, 28, 28, 32})) << type;
  EXPECT_EQ(outputShape("conv:2x8x8x16:3x3x16:g16:int8"), (std::vector<int64_t>{2, 6, 6, 16}));
}

TEST(InlineKernelTest, ErrorsNameTheWrongPart) {
  EXPECT_EQ(error("gemm:1x2:int8"), "kernel 'gemm:1x2:int8': '1x2' must be MxNxK, three positive numbers");
  EXPECT_EQ(error("gemm:1x0x2:int8"), "kernel 'gemm:1x0x2:int8': '1x0x2' must be MxNxK, three positive numbers");
  EXPECT_EQ(error("gemm:1x2x3:int4"), "kernel 'gemm:1x2x3:int4': 'int4' must be one of the types int8, bf16, fp32");
  EXPECT_EQ(error("gemm:1x2x3"), "kernel 'gemm:1x2x3' must have the form gemm:MxNxK:TYPE");
  EXPECT_EQ(error("conv:1x8x8x4:3x3x4"),
            "kernel 'conv:1x8x8x4:3x3x4' must have the form conv:NxHxWxC:KHxKWxOC:sSTRIDE:pPAD:TYPE");
  EXPECT_EQ(error("conv:1x8x8x4:3x3x4:s0:int8"),
            "kernel 'conv:1x8x8x4:3x3x4:s0:int8': 's0' must be sSTRIDE, pPAD or gGROUPS, as in s1:p1");
  EXPECT_EQ(error("conv:1x2x8x4:5x3x4:p1:int8"),
            "kernel 'conv:1x2x8x4:5x3x4:p1:int8': '5x3x4' must be a window no larger than the padded input, 4x10");
  EXPECT_EQ(error("conv:1x8x8x4:3x3x4:g3:int8"),
            "kernel 'conv:1x8x8x4:3x3x4:g3:int8': 'g3' must be a divisor of the 4 input and 4 output channels");
  EXPECT_EQ(error("gemm:16777216x16777216x1:int8"),
            "kernel 'gemm:16777216x16777216x1:int8' has a tensor of more than 268435456 elements");
  EXPECT_EQ(error("gemm:99999999999999999999x1x1:int8"),
            "kernel 'gemm:99999999999999999999x1x1:int8': '99999999999999999999x1x1' must be MxNxK, three positive numbers");
}
