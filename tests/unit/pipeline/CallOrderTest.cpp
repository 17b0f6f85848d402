//===- CallOrderTest.cpp - Orders of calls ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/pipeline/CallOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::pipeline;

namespace {

class CallOrderTest : public testing::Test {
protected:
  CallOrderTest() { context.loadDialect<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::tensor::TensorDialect>(); }

  void parse(const std::string &text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    ASSERT_TRUE(module);
  }

  memory::PeakMemory order(plan::KernelOrder order) {
    llvm::Expected<memory::PeakMemory> peak = orderCalls(*module, [&](const memory::PeakMemory &) { return order; });
    if (!peak) {
      ADD_FAILURE() << llvm::toString(peak.takeError());
      return {};
    }
    EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
    return *peak;
  }

  std::string calls() {
    std::string text;
    module.get().walk([&](mlir::func::CallOp call) { text += (text.empty() ? "" : " ") + call.getCallee().str(); });
    return text;
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// A small result that waits for a large branch: kernels of 4 bytes an element.
constexpr const char *kBranches = R"(
func.func private @first(tensor<1xf32>) -> tensor<10xf32>
func.func private @wide(tensor<10xf32>) -> tensor<50xf32>
func.func private @long(tensor<10xf32>) -> tensor<60xf32>
func.func private @narrow(tensor<60xf32>) -> tensor<1xf32>
func.func private @last(tensor<5x10xf32>, tensor<1xf32>) -> tensor<50xf32>
func.func @main(%x: tensor<1xf32>) -> tensor<50xf32> {
  %a = call @first(%x) : (tensor<1xf32>) -> tensor<10xf32>
  %b = call @wide(%a) : (tensor<10xf32>) -> tensor<50xf32>
  %r = tensor.expand_shape %b [[0, 1]] output_shape [5, 10] : tensor<50xf32> into tensor<5x10xf32>
  %c = call @long(%a) : (tensor<10xf32>) -> tensor<60xf32>
  %d = call @narrow(%c) : (tensor<60xf32>) -> tensor<1xf32>
  %e = call @last(%r, %d) : (tensor<5x10xf32>, tensor<1xf32>) -> tensor<50xf32>
  return %e : tensor<50xf32>
}
)";

TEST_F(CallOrderTest, TheLargeBranchGoesFirst) {
  parse(kBranches);
  const memory::PeakMemory peak = order(plan::KernelOrder::Memory);
  EXPECT_EQ(peak.modelBytes, 4u * (10 + 50 + 60));
  EXPECT_EQ(peak.leastBytes, 4u * (10 + 60 + 1));
  EXPECT_EQ(peak.boundBytes, 4u * (10 + 60 + 1));
  EXPECT_EQ(peak.takenBytes, peak.leastBytes);
  EXPECT_EQ(calls(), "first long narrow wide last");
}

TEST_F(CallOrderTest, TheModelsOrderStaysAndIsMeasured) {
  parse(kBranches);
  const memory::PeakMemory peak = order(plan::KernelOrder::Model);
  EXPECT_EQ(peak.takenBytes, peak.modelBytes);
  EXPECT_LT(peak.leastBytes, peak.modelBytes);
  EXPECT_EQ(calls(), "first wide long narrow last");
}

/// Parts that nothing else reads are written into the whole, which is alive from the first of them.
TEST_F(CallOrderTest, AConcatenationIsWrittenInPlace) {
  const std::string head = R"(
func.func private @make(tensor<1xf32>) -> tensor<4xf32>
func.func private @use(tensor<8xf32>) -> tensor<1xf32>
func.func private @join(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<8xf32> {
  %c = tensor.concat dim(0) %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  return %c : tensor<8xf32>
}
)";
  parse(head + R"(
func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {
  %a = call @make(%x) : (tensor<1xf32>) -> tensor<4xf32>
  %b = call @make(%x) : (tensor<1xf32>) -> tensor<4xf32>
  %c = call @join(%a, %b) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = call @use(%c) : (tensor<8xf32>) -> tensor<1xf32>
  return %d : tensor<1xf32>
}
)");
  EXPECT_EQ(order(plan::KernelOrder::Model).modelBytes, 32u);
  parse(head + R"(
func.func @main(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<4xf32>) {
  %a = call @make(%x) : (tensor<1xf32>) -> tensor<4xf32>
  %b = call @make(%x) : (tensor<1xf32>) -> tensor<4xf32>
  %c = call @join(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %d = call @use(%c) : (tensor<8xf32>) -> tensor<1xf32>
  return %d, %b : tensor<1xf32>, tensor<4xf32>
}
)");
  EXPECT_EQ(order(plan::KernelOrder::Model).modelBytes, 16u + 32); // a part that is there twice is copied
}

/// Inputs, outputs and constants of the network do not count.
TEST_F(CallOrderTest, WhatIsAlwaysThereDoesNotCount) {
  parse(R"(
func.func private @k(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %c = arith.constant dense<1.0> : tensor<8xf32>
  %y = call @k(%x, %c) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
)");
  const memory::PeakMemory peak = order(plan::KernelOrder::Memory);
  EXPECT_EQ(peak.modelBytes, 0u);
  EXPECT_EQ(peak.boundBytes, 0u);
}

} // namespace
