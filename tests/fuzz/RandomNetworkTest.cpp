//===- RandomNetworkTest.cpp - Random networks give known results ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random networks through graph passes, lowering and accelerator backend, on
// small variants of the machines, under both schedules. Values of the SystemC
// model (race checks on) must be those of plain loops, those of the functional
// model the same bits, and the cycles no fewer than the bound.
//
// TILEWRIGHT_SEED=N TILEWRIGHT_FUZZ_CASES=1 runs the one case that a failure
// names; TILEWRIGHT_FUZZ_CASES alone makes the run longer.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "hw-configs/Machine.h"
#include "simulator/functional/FunctionalModel.h"
#include "simulator/systemc/SystemCModel.h"
#include "tests/fuzz/RandomNetwork.h"
#include "tests/fuzz/Seed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Verifier.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace tw;
using namespace tw::fuzz;

namespace {

struct Variant {
  const char *machine;
  std::vector<std::string> overrides;
};

const std::vector<Variant> kIntegerMachines = {
    {"tiny_8x8", {}},
    {"tiny_8x8", {"array.rows=4", "dma.load_engines=1"}},
    {"tiny_8x8", {"array.rows=16", "accumulator.capacity_bytes=2048", "accumulator.banks=2"}},
    {"tiny_8x8",
     {"scratchpads.activation.capacity_bytes=2048", "scratchpads.weight.capacity_bytes=1024", "control.semaphores=16"}},
    {"tiny_8x8",
     {"scratchpads.activation.banks=1", "scratchpads.weight.banks=1", "accumulator.banks=1", "array.preload_rows_per_cycle=8"}},
    {"tiny_8x8", {"control.queue_depth_instructions=1", "control.loop_buffer_words=64", "dram.bytes_per_cycle=32"}},
    {"tiny_8x8", {"control.semaphore_max_count=2", "dram.bytes_per_cycle=1"}},
    {"gemmini_16x16_int8", {}},
    {"gemmini_16x16_int8", {"scratchpads.unified.capacity_bytes=16384", "accumulator.capacity_bytes=8192"}},
    {"vdla_16x16", {}},
    {"edge_32x32_int8", {}},
    {"onnxim_128x128", {}},
};
const std::vector<Variant> kFp32Machines = {
    {"gemmini_16x16_fp32", {}},
    {"gemmini_16x16_fp32", {"scratchpads.unified.capacity_bytes=16384", "accumulator.capacity_bytes=8192", "array.rows=8"}},
};
const std::vector<Variant> kBf16Machines = {
    {"gemmini_16x16_bf16", {}},
    {"gemmini_16x16_bf16",
     {"scratchpads.unified.capacity_bytes=16384", "accumulator.capacity_bytes=8192", "dma.load_engines=1"}},
    {"edge_32x32_bf16", {}},
    {"edge_32x32_bf16",
     {"scratchpads.activation.capacity_bytes=16384", "scratchpads.weight.capacity_bytes=8192",
      "accumulator.capacity_bytes=8192"}},
    {"cloud_128x128", {}},
};

/// One network on one machine. `tolerance`: the largest error as a part of an output's largest magnitude; 0 for equal.
/// Returns whether it ran: a machine may be too small for an operator.
bool runCase(uint64_t seed, const Variant &variant, bool isFloat, double tolerance) {
  std::string name = std::string(variant.machine);
  for (const std::string &text : variant.overrides)
    name += " --set " + text;
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(variant.machine, variant.overrides);
  EXPECT_TRUE(bool(machine)) << machine.message();
  if (!machine)
    return false;
  bool ran = false;
  for (accel::Schedule schedule : {accel::Schedule::Serial, accel::Schedule::DoubleBuffer, accel::Schedule::Modulo}) {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                        mlir::math::MathDialect, mlir::tensor::TensorDialect>();
    Network network = makeNetwork(context, seed, isFloat);
    SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed) + " TILEWRIGHT_FUZZ_CASES=1 on " + name + ", " +
                 accel::nameOf(schedule) + (isFloat && seed % 2 ? ", finite floats" : "") + "\n" + network.text);
    if (mlir::failed(mlir::verify(*network.module))) {
      ADD_FAILURE() << "the random network is invalid";
      return false;
    }
    pipeline::CompileOptions options;
    options.machine = &*machine;
    options.schedule = schedule;
    options.finiteMath = isFloat && seed % 2; // all values are
    if (llvm::Error error = pipeline::optimizeGraph(*network.module, options)) {
      ADD_FAILURE() << "graph: " << llvm::toString(std::move(error));
      continue;
    }
    if (llvm::Error error = pipeline::lowerToLinalg(*network.module, options)) {
      ADD_FAILURE() << "linalg: " << llvm::toString(std::move(error));
      continue;
    }
    auto compiled = pipeline::compileForAccelerator(*network.module, options);
    if (!compiled) {
      std::string message = llvm::toString(compiled.takeError());
      if (message.find("no tile fits") == std::string::npos && message.find("semaphores but machine") == std::string::npos)
        ADD_FAILURE() << "accelerator: " << message;
      continue;
    }
    std::vector<std::vector<uint8_t>> inputs, outputs;
    for (const Tensor &input : network.inputs)
      inputs.push_back(input.bytes());
    systemc::SimOptions simOptions;
    simOptions.checks = true;
    stats::SimResult result = systemc::SystemCModel().run(compiled->program, *machine, inputs, outputs, simOptions);
    if (result.fault) {
      ADD_FAILURE() << "fault: " << result.fault->str();
      continue;
    }
    ran = true;
    EXPECT_GE(result.totalCycles, compiled->lowerBoundCycles);
    core::RunResult functional = functional::run(compiled->program, *machine, inputs);
    EXPECT_FALSE(functional.fault.has_value()) << functional.fault->str();
    EXPECT_EQ(functional.outputs, outputs) << "functional and SystemC model differ";
    EXPECT_EQ(outputs.size(), network.outputs.size());
    for (size_t i = 0; i < std::min(outputs.size(), network.outputs.size()); ++i) {
      const Tensor &expected = network.outputs[i];
      std::vector<double> actual = expected.read(outputs[i]);
      double largest = 0.1; // what is summed is of about 1: a sum of nearly nothing has the same error
      for (double value : expected.values)
        largest = std::max(largest, std::abs(value));
      size_t wrong = 0, first = 0;
      for (size_t e = 0; e < actual.size(); ++e)
        if (!(std::abs(actual[e] - expected.values[e]) <= tolerance * largest) && !wrong++)
          first = e;
      EXPECT_EQ(wrong, 0u) << "of " << actual.size() << " elements of output " << i << ", first: element " << first << " is " << actual[first]
                           << " but should be " << expected.values[first];
    }
  }
  return ran;
}

void runCases(const std::vector<Variant> &variants, bool isFloat, double tolerance, uint64_t cases) {
  uint64_t first = firstSeed(), ran = 0;
  cases = numCases(cases);
  printf("TILEWRIGHT_SEED=%llu, %llu cases\n", (unsigned long long)first, (unsigned long long)cases);
  for (uint64_t seed = first; seed < first + cases; ++seed)
    // The seed alone decides the machine, so that a case can be repeated.
    ran += runCase(seed, variants[std::mt19937_64(seed)() % variants.size()], isFloat, tolerance);
  printf("%llu ran, the others need a larger machine\n", (unsigned long long)ran);
  // Shapes are small: most must fit even the smallest machine.
  if (cases >= 20) {
    EXPECT_GT(ran, cases / 2);
  }
}

} // namespace

TEST(RandomNetworkTest, IntegerNetworksAreExact) { runCases(kIntegerMachines, false, 0, 120); }

TEST(RandomNetworkTest, Fp32NetworksAreAccurate) { runCases(kFp32Machines, true, 1e-4, 60); }

TEST(RandomNetworkTest, Bf16NetworksAreNear) { runCases(kBf16Machines, true, 4e-2, 60); }
