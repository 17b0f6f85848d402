//===- CpuErrorTest.cpp - What the CPU target refuses ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/cpu/CpuTestSupport.h"

using namespace tw::cpu;
using namespace tw::cpu::test;

namespace {

std::string errorOf(const std::string &text) {
  Context context;
  auto executable = context.compile(text);
  return executable ? "it compiled" : llvm::toString(executable.takeError());
}

TEST(CpuErrorTest, UnsupportedOpIsNamedWithItsPlace) {
  EXPECT_EQ(errorOf(R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = arith.constant 0 : index
  %v = tensor.extract %x[%c] : tensor<4xf32> loc("Relu_7")
  %y = tensor.splat %v : tensor<4xf32>
  return %y : tensor<4xf32>
})"),
            "node \"Relu_7\": 'tensor.extract' is not supported by the CPU target");
  EXPECT_EQ(errorOf(R"(func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
})"),
            "kernel.mlir:2:8: 'math.exp' is not supported by the CPU target");
}

TEST(CpuErrorTest, UnsupportedBodyIsNamedWithItsPlace) {
  EXPECT_EQ(errorOf(R"(func.func @main() -> tensor<4xindex> {
  %e = tensor.empty() : tensor<4xindex>
  return %e : tensor<4xindex>
})"),
            "kernel.mlir:1:1: 'func.func' has an argument or result that is not a tensor of static shape and common "
            "element type");
  EXPECT_EQ(errorOf(R"(func.func @main() -> tensor<4xi32> {
  %e = tensor.empty() : tensor<4xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%e : tensor<4xi32>) {
  ^bb0(%o: i32):
    %i = linalg.index 0 : index
    %r = arith.index_cast %i : index to i32
    linalg.yield %r : i32
  } -> tensor<4xi32>
  return %y : tensor<4xi32>
})"),
            "kernel.mlir:6:10: 'linalg.index' is not supported by the CPU target in the body of a linalg op");
}

TEST(CpuErrorTest, NonlinearMapIsRefused) {
  EXPECT_EQ(errorOf(R"(func.func @main(%x: tensor<4xi32>) -> tensor<8xi32> {
  %e = tensor.empty() : tensor<8xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i floordiv 2)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xi32>) outs(%e : tensor<8xi32>) {
  ^bb0(%a: i32, %o: i32):
    linalg.yield %a : i32
  } -> tensor<8xi32>
  return %y : tensor<8xi32>
})"),
            "kernel.mlir:3:8: 'linalg.generic' has an indexing map that is not linear, which the CPU target does not "
            "support");
}

TEST(CpuErrorTest, DynamicShapesAreRefused) {
  EXPECT_EQ(errorOf("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n return %x : tensor<?xf32>\n}"),
            "kernel.mlir:1:1: 'func.func' has an argument or result that is not a tensor of static shape and common "
            "element type");
}

TEST(CpuErrorTest, ReadingWhatNothingWroteIsRefused) {
  EXPECT_EQ(errorOf(R"(func.func @main() -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.add ins(%e, %e : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
})"),
            "kernel.mlir:3:8: 'linalg.generic' reads elements of a tensor that nothing has written");
}

TEST(CpuErrorTest, UnknownCalleeAndControlFlowAreRefused) {
  EXPECT_EQ(errorOf(R"(func.func private @elsewhere(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @elsewhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
})"),
            "kernel.mlir:3:8: 'func.call' calls 'elsewhere', which is not a kernel of the module");
}

TEST(CpuErrorTest, WrongTensorsAreRefused) {
  Context context;
  auto executable = context.compile("func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n"
                                    " return %x : tensor<2x3xf32>\n}");
  ASSERT_TRUE(static_cast<bool>(executable)) << llvm::toString(executable.takeError());
  std::vector<HostTensor> outputs;
  auto run = [&](std::vector<HostTensor> inputs) { return llvm::toString((*executable)->run(inputs, outputs)); };
  EXPECT_EQ(run({}), "@main has 1 inputs, but 0 were given");
  EXPECT_EQ(run({tensorOf(someValues<float>(6), {3, 2})}), "input 0 is float 3x2, but float 2x3 is needed");
  EXPECT_EQ(run({tensorOf(someValues<int8_t>(6), {2, 3})}), "input 0 is int8 2x3, but float 2x3 is needed");
  EXPECT_EQ(run({tensorOf(someValues<float>(5), {2, 3})}), "input 0 holds 20 bytes, but 24 are needed");
  EXPECT_EQ(llvm::toString((*executable)->runKernel("conv", {}, outputs)), "there is no compiled kernel 'conv'");
}

} // namespace
