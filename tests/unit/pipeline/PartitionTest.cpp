//===- PartitionTest.cpp - Segments of a network --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/pipeline/Partition.h"
#include "compiler/pipeline/KernelOperations.h"
#include "compiler/pipeline/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

using namespace tw;
using namespace tw::pipeline;

namespace {

class PartitionTest : public testing::Test {
protected:
  PartitionTest() {
    mlir::DialectRegistry registry;
    registry
        .insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::tensor::TensorDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// Kernels whose names begin with a are for the accelerator, those that begin with h for the host. `body` is that of a @main of %x and %y.
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::vector<std::string> &kernels, const std::string &body) {
    std::string text =
        "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {\n" + body + "}\n";
    for (const std::string &kernel : kernels)
      text += "func.func private @" + kernel + "(%v: tensor<4xf32>) -> tensor<4xf32> attributes {tilewright.target = \"" +
              (kernel[0] == 'a' ? "accel" : "cpu") + "\", tilewright.nodes = [\"" + kernel +
              "\"]} { return %v : tensor<4xf32> }\n";
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }

  /// "a1+a2 h1 -": programs with their kernels, kernels of the host, reshapes.
  static std::string segmentsOf(const Partition &parts) {
    std::string text;
    for (const Segment &segment : parts.segments) {
      text += text.empty() ? "" : " ";
      if (!segment.module) {
        text += segment.kernel.empty() ? "-" : segment.kernel;
        continue;
      }
      std::string calls;
      segment.module.get().walk([&](mlir::func::CallOp call) { calls += (calls.empty() ? "" : "+") + call.getCallee().str(); });
      text += calls;
    }
    return text;
  }

  static std::string call(const std::string &kernel, const std::string &argument) {
    return "%" + kernel + " = call @" + kernel + "(%" + argument + ") : (tensor<4xf32>) -> tensor<4xf32>\n";
  }

  std::string partitioned(const std::vector<std::string> &kernels, const std::string &body) {
    auto module = parse(kernels, body);
    if (!module)
      return "does not parse";
    llvm::Expected<Partition> parts = partition(*module, targetNamed(graph::kAccelTarget));
    return parts ? segmentsOf(*parts) : llvm::toString(parts.takeError());
  }

  mlir::MLIRContext context;
};

/// Two chains that the host cuts: their programs are run together.
TEST_F(PartitionTest, RunsOfOneTargetStayTogether) {
  const std::string body = call("a1", "x") + call("h1", "a1") + call("a2", "h1") + call("a3", "y") + call("h2", "a3") +
                           call("a4", "h2") + "return %a2, %a4 : tensor<4xf32>, tensor<4xf32>\n";
  EXPECT_EQ(partitioned({"a1", "a2", "a3", "a4", "h1", "h2"}, body), "a1+a3 h1 h2 a2+a4");
}

TEST_F(PartitionTest, TheHostGoesFirstWhereThatLeavesOneProgram) {
  const std::string body =
      call("a1", "x") + call("h1", "y") + call("a2", "h1") + "return %a1, %a2 : tensor<4xf32>, tensor<4xf32>\n";
  EXPECT_EQ(partitioned({"a1", "a2", "h1"}, body), "h1 a1+a2");
}

TEST_F(PartitionTest, AnOrderThatNothingImprovesStays) {
  const std::string body = call("h2", "y") + call("a1", "x") + call("h1", "a1") + call("a2", "h1") +
                           "return %h2, %a2 : tensor<4xf32>, tensor<4xf32>\n";
  EXPECT_EQ(partitioned({"a1", "a2", "h1", "h2"}, body), "h2 a1 h1 a2");
}

/// A reshape of what the host made does not go through a program that happens to stand before its reader.
TEST_F(PartitionTest, AReshapeOfTheHostsStaysThere) {
  const std::string body = call("h1", "x") + call("a1", "y") +
                           "%r = tensor.expand_shape %h1 [[0, 1]] output_shape [2, 2] : tensor<4xf32> into tensor<2x2xf32>\n"
                           "%s = tensor.collapse_shape %r [[0, 1]] : tensor<2x2xf32> into tensor<4xf32>\n" +
                           call("h2", "s") + "return %a1, %h2 : tensor<4xf32>, tensor<4xf32>\n";
  auto module = parse({"a1", "h1", "h2"}, body);
  ASSERT_TRUE(module);
  llvm::Expected<Partition> parts = partition(*module, targetNamed(graph::kAccelTarget));
  ASSERT_TRUE(bool(parts)) << llvm::toString(parts.takeError());
  EXPECT_EQ(segmentsOf(*parts), "h1 a1 - - h2");
  for (const Segment &segment : parts->segments)
    if (segment.module) {
      EXPECT_EQ(segment.inputs, parts->inputs.size() == 2 ? std::vector<unsigned>{parts->inputs[1]} : std::vector<unsigned>{});
    }
}

TEST_F(PartitionTest, ProductsCountTheirMultiplyAccumulates) {
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @product(%a: tensor<3x5xf32>, %b: tensor<5x7xf32>, %c: tensor<3x7xf32>) -> tensor<3x7xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<3x7xf32>
      %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3x7xf32>) -> tensor<3x7xf32>
      %p = linalg.matmul ins(%a, %b : tensor<3x5xf32>, tensor<5x7xf32>) outs(%f : tensor<3x7xf32>) -> tensor<3x7xf32>
      return %p : tensor<3x7xf32>
    }
    func.func @nothing(%a: tensor<3x5xf32>) -> tensor<3x5xf32> { return %a : tensor<3x5xf32> }
  )",
                                                        &context);
  ASSERT_TRUE(module);
  EXPECT_EQ(operationsOf(module->lookupSymbol<mlir::func::FuncOp>("product")), 3u * 5 * 7);
  EXPECT_EQ(operationsOf(module->lookupSymbol<mlir::func::FuncOp>("nothing")), 15u);
}

TEST(KernelOperationsTest, OnnxNodesCountAsTheirOperatorsMultiply) {
  using Shapes = std::vector<std::vector<int64_t>>;
  auto count = [](const char *op, const Shapes &inputs, const Shapes &outputs) {
    onnx::NodeProto node;
    node.set_op_type(op);
    return operationsOf(node, inputs, outputs);
  };
  EXPECT_EQ(count("MatMul", {{2, 3, 5}, {5, 7}}, {{2, 3, 7}}), 2u * 3 * 7 * 5);
  EXPECT_EQ(count("Gemm", {{5, 3}, {5, 7}}, {{3, 7}}), 3u * 5 * 7);
  EXPECT_EQ(count("Conv", {{1, 4, 8, 8}, {6, 4, 3, 3}}, {{1, 6, 6, 6}}), 6u * 36 * 4 * 9);
  EXPECT_EQ(count("ConvTranspose", {{1, 4, 8, 8}, {4, 6, 3, 3}}, {{1, 6, 10, 10}}), 4u * 64 * 6 * 9);
  EXPECT_EQ(count("LSTM", {{10, 2, 3}, {1, 16, 3}, {1, 16, 4}}, {{10, 1, 2, 4}}), 20u * (48 + 64));
  EXPECT_EQ(count("Einsum", {{2, 3}, {3, 4}}, {{2, 4}}), 8u);
  // What has no such shapes counts its results.
  EXPECT_EQ(count("MatMul", {}, {{4}}), 4u);
  EXPECT_EQ(count("Gemm", {{}}, {{0, 3}}), 0u);
  EXPECT_EQ(count("Conv", {{-1}, {}}, {{-1, 2}}), 2u);
}

} // namespace
