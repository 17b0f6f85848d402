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

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace tw;
using namespace tw::fuzz;

namespace {

using Maker = Network (*)(mlir::MLIRContext &, uint64_t, bool);

/// `tolerance`: the largest error as a part of an output's largest magnitude; 0 for equal. fp32: the order of sums, which are computed in
/// f64 beside it. tf32: factors are rounded to 2^-11, layer behind layer.
/// bf16: every tensor between kernels is rounded to 2^-9, as on the accelerator's arrays of that type.
void check(Maker make, bool isFloat, const test::Numbers &numbers, double tolerance, uint64_t cases) {
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
      double largest = 0.1; // what is summed is of about 1: a sum of nearly nothing has the same error
      for (double value : expected.values)
        largest = std::max(largest, std::abs(value));
      size_t wrong = 0, first = 0;
      for (size_t e = 0; e < actual.size(); ++e)
        if (!(std::abs(actual[e] - expected.values[e]) <= tolerance * largest) && !wrong++)
          first = e;
      EXPECT_EQ(wrong, 0u) << "of " << actual.size() << " elements of output " << output << ", first: element " << first
                           << " is " << actual[first] << " but should be " << expected.values[first] << "\n"
                           << network.text;
    }
  }
}

constexpr test::Numbers kExact, kFast{graph::Math::Fast, false}, kBfloat{graph::Math::Exact, true};

} // namespace

TEST(GpuRandomTest, IntegerChainsAreExact) { check(makeChain, false, kExact, 0, 40); }
TEST(GpuRandomTest, IntegerBranchesAreExact) { check(makeBranches, false, kExact, 0, 20); }
TEST(GpuRandomTest, IntegerBlocksAreExact) { check(makeBlocks, false, kExact, 0, 6); }
TEST(GpuRandomTest, Fp32ChainsAreAccurate) { check(makeChain, true, kExact, 1e-4, 40); }
TEST(GpuRandomTest, Fp32BranchesAreAccurate) { check(makeBranches, true, kExact, 1e-4, 20); }
TEST(GpuRandomTest, Fp32BlocksAreAccurate) { check(makeBlocks, true, kExact, 1e-4, 6); }
TEST(GpuRandomTest, Tf32BlocksAreNear) { check(makeBlocks, true, kFast, 2e-2, 6); }
TEST(GpuRandomTest, Bf16ChainsAreNear) { check(makeChain, true, kBfloat, 4e-2, 40); }
TEST(GpuRandomTest, Bf16BranchesAreNear) { check(makeBranches, true, kBfloat, 4e-2, 20); }
TEST(GpuRandomTest, Bf16BlocksAreNear) { check(makeBlocks, true, kBfloat, 1e-1, 6); }
