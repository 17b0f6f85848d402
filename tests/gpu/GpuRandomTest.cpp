//===- GpuRandomTest.cpp - Random networks for a GPU, on the emulator -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The random networks of tests/fuzz, whose values are known from plain loops.
// Every variant that a step has takes its turn, and threads run in any order.
//
// TILEWRIGHT_SEED=N TILEWRIGHT_FUZZ_CASES=1 runs the one case that a failure names.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "tests/fuzz/RandomNetwork.h"
#include "tests/fuzz/Seed.h"
#include "tests/gpu/EmulatedNetwork.h"
#include "tests/gpu/NetworkText.h"
#include "tests/gpu/Tolerances.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::fuzz;

namespace {

using Maker = Network (*)(mlir::MLIRContext &, uint64_t, bool);

/// What is summed is of about 1: a sum of nearly nothing has the same error.
constexpr double kLeastMagnitude = 0.1;

void check(Maker make, bool isFloat, const test::Numbers &numbers, const test::Tolerance &tolerance, uint64_t cases) {
  for (uint64_t i = 0; i < numCases(cases); ++i) {
    const uint64_t seed = firstSeed() + i;
    SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed));
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect, mlir::tensor::TensorDialect>();
    Network network = make(context, seed, isFloat);
    llvm::Expected<gpu::Program> program = test::compileGraph(*network.module, {}, numbers);
    if (!program) {
      ADD_FAILURE() << llvm::toString(program.takeError()) << "\n" << network.text;
      continue;
    }
    std::vector<std::vector<uint8_t>> inputs, outputs;
    for (const Tensor &input : network.inputs)
      inputs.push_back(input.bytes());
    ptxemu::LaunchOptions options;
    options.timing = seed % 3 == 0 ? ptxemu::Timing::Late : seed % 3 == 1 ? ptxemu::Timing::Early : ptxemu::Timing::Random;
    options.order = ptxemu::ThreadOrder::Random;
    options.residentClusters = 2;
    options.seed = uint32_t(seed);
    try {
      outputs = test::EmulatedNetwork(*program).run(inputs, seed % 4, options);
    } catch (const std::exception &error) {
      ADD_FAILURE() << error.what() << "\n" << network.text;
      continue;
    }
    ASSERT_EQ(outputs.size(), network.outputs.size());
    for (size_t output = 0; output < outputs.size(); ++output) {
      const Tensor &expected = network.outputs[output];
      ASSERT_EQ(outputs[output].size(), expected.bytes().size());
      const std::vector<double> actual = expected.read(outputs[output]);
      EXPECT_LE(test::largestError(actual, expected.values, kLeastMagnitude), tolerance.network) << "output " << output << "\n"
                                                                                                 << network.text;
    }
  }
}

const test::Numbers kExact, kFast{graph::Math::Fast, ""}, kBf16{graph::Math::Exact, "bf16"}, kF16{graph::Math::Exact, "f16"};

} // namespace

TEST(GpuRandomTest, IntegerChainsAreExact) { check(makeChain, false, kExact, test::kInteger, 40); }
TEST(GpuRandomTest, IntegerBranchesAreExact) { check(makeBranches, false, kExact, test::kInteger, 20); }
TEST(GpuRandomTest, IntegerBlocksAreExact) { check(makeBlocks, false, kExact, test::kInteger, 6); }
TEST(GpuRandomTest, Fp32ChainsAreAccurate) { check(makeChain, true, kExact, test::kSingle, 40); }
TEST(GpuRandomTest, Fp32BranchesAreAccurate) { check(makeBranches, true, kExact, test::kSingle, 20); }
TEST(GpuRandomTest, Fp32BlocksAreAccurate) { check(makeBlocks, true, kExact, test::kSingle, 6); }
TEST(GpuRandomTest, Tf32BlocksAreNear) { check(makeBlocks, true, kFast, test::kTfloat, 6); }
TEST(GpuRandomTest, Bf16ChainsAreNear) { check(makeChain, true, kBf16, test::kBfloat, 40); }
TEST(GpuRandomTest, Bf16BranchesAreNear) { check(makeBranches, true, kBf16, test::kBfloat, 20); }
TEST(GpuRandomTest, Bf16BlocksAreNear) { check(makeBlocks, true, kBf16, test::kBfloat, 6); }
TEST(GpuRandomTest, Float16ChainsAreNear) { check(makeChain, true, kF16, test::kHalf, 40); }
TEST(GpuRandomTest, Float16BranchesAreNear) { check(makeBranches, true, kF16, test::kHalf, 20); }
TEST(GpuRandomTest, Float16BlocksAreNear) { check(makeBlocks, true, kF16, test::kHalf, 6); }
