//===- ScheduleMutantsTest.cpp - Planted faults are found twice -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Emitted programs with one planted fault each. What the schedule verifier
// refuses, the checks of the simulators must find too, without the verifier;
// what they do not find, and what it accepts, must give the same bytes whatever
// the timing is.
//
// TILEWRIGHT_SEED=N TILEWRIGHT_MUTANTS=1 runs the one mutant of each program
// that a failure names; TILEWRIGHT_MUTANTS alone makes the run longer.
//===----------------------------------------------------------------------===//
#include "compiler/frontend/TensorFile.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/schedule/Verifier.h"
#include "hw-configs/Machine.h"
#include "runtime/InlineKernel.h"
#include "simulator/functional/FunctionalModel.h"
#include "simulator/systemc/SystemCModel.h"
#include "tests/e2e/mutants/Mutate.h"
#include "tests/fuzz/Seed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <gtest/gtest.h>
#include <set>

using namespace tw;
using namespace tw::e2e;

namespace {

using Bytes = std::vector<std::vector<uint8_t>>;

struct Network {
  const char *model, *machine;
  accel::Schedule schedule;
};

constexpr char kDigits[] = TILEWRIGHT_SOURCE_DIR "/tests/data/digits/digits_int8_qdq.onnx";
constexpr char kImages[] = TILEWRIGHT_SOURCE_DIR "/tests/data/digits/images.npy";
constexpr char kConv[] = "conv:1x14x14x32:3x3x32:s1:p1:int8";
constexpr char kGemm[] = "gemm:64x128x96:int8";
constexpr accel::Schedule kDoubleBuffer = accel::Schedule::DoubleBuffer, kPipelined = accel::Schedule::Pipelined;

const Network kNetworks[] = {
    {kDigits, "gemmini_16x16_int8", kDoubleBuffer}, {kDigits, "gemmini_16x16_int8", kPipelined},
    {kDigits, "tiny_8x8", kDoubleBuffer},           {kDigits, "tiny_8x8", kPipelined},
    {kConv, "vdla_16x16", kDoubleBuffer},           {kConv, "vdla_16x16", kPipelined},
    {kGemm, "vdla_16x16", kDoubleBuffer},           {kGemm, "vdla_16x16", kPipelined},
};

/// A program, and what it computes from one input.
struct Subject {
  std::string name;
  timing::MachineParams machine;
  isa::Program program;
  Bytes inputs, outputs;
  timing::Cycle cycles = 0;
};

llvm::Expected<isa::Program> compile(const Network &network, const timing::MachineParams &machine) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  pipeline::CompileOptions options;
  options.machine = &machine;
  options.schedule = network.schedule;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  if (runtime::isInlineKernel(network.model)) {
    module = runtime::buildInlineKernel(context, *runtime::parseInlineKernel(network.model), 1);
  } else {
    auto imported = pipeline::importModel(context, network.model, options);
    if (!imported)
      return imported.takeError();
    module = std::move(*imported);
  }
  if (llvm::Error error = pipeline::optimizeGraph(*module, options))
    return std::move(error);
  if (llvm::Error error = pipeline::lowerToLinalg(*module, options))
    return std::move(error);
  auto compiled = pipeline::compileForAccelerator(*module, options);
  if (!compiled)
    return compiled.takeError();
  return std::move(compiled->program);
}

/// The first image for digits, random bytes for the others.
Bytes inputsOf(const isa::Program &program) {
  const isa::TensorInfo &info = program.inputs[0];
  if (info.type == isa::ElementKind::F32) {
    Result<frontend::HostTensor> images = frontend::readTensorFile(kImages);
    EXPECT_TRUE(bool(images)) << images.message();
    return {{images->bytes.begin(), images->bytes.begin() + int64_t(info.bytes)}};
  }
  std::mt19937_64 random(1);
  std::vector<uint8_t> bytes(info.bytes);
  for (uint8_t &byte : bytes)
    byte = uint8_t(random());
  return {bytes};
}

stats::SimResult simulate(const isa::Program &program, const Subject &subject, const timing::MachineParams &machine,
                          bool checks, Bytes &outputs) {
  systemc::SimOptions options;
  options.checks = checks;
  options.maxCycles = 200 * (subject.cycles + 10000);
  outputs.clear();
  return systemc::SystemCModel().run(program, machine, subject.inputs, outputs, options);
}

void makeSubject(const Network &network, Subject &subject) {
  subject.name = std::string(network.model).substr(std::string(network.model).rfind('/') + 1) + " on " + network.machine +
                 ", " + accel::nameOf(network.schedule);
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(network.machine);
  ASSERT_TRUE(bool(machine)) << machine.message();
  subject.machine = *machine;
  auto program = compile(network, *machine);
  ASSERT_TRUE(bool(program)) << subject.name << ": " << llvm::toString(program.takeError());
  subject.program = std::move(*program);
  subject.inputs = inputsOf(subject.program);
  ASSERT_TRUE(schedule::verifySchedule(subject.program, subject.machine).empty()) << subject.name;
  stats::SimResult result = simulate(subject.program, subject, subject.machine, true, subject.outputs);
  ASSERT_FALSE(result.fault) << subject.name << ": " << result.fault->str();
  subject.cycles = result.totalCycles;
}

/// Other latencies, queues and memory speeds; everything that decides results stays.
timing::MachineParams jittered(timing::MachineParams machine, std::mt19937_64 &random) {
  for (const timing::TimingConstantInfo &constant : timing::kTimingConstants)
    machine.timing.*constant.member = uint32_t(1 + random() % 40);
  machine.queueDepth = uint32_t(1 + random() % 8);
  machine.outstandingBursts = uint32_t(1 + random() % 16);
  machine.dram.pathLatencyCycles = uint32_t(random() % 200);
  if (random() % 2) {
    machine.dram.kind = timing::DramKind::Ideal;
    machine.dram.channels = machine.burstsPerCycle = 1;
    machine.dram.latencyCycles = uint32_t(random() % 200);
    machine.dram.bytesPerCycleNumerator = uint32_t(1 + random() % 64);
    machine.dram.bytesPerCycleDenominator = 1;
  }
  return machine;
}

/// Mutants by what became of them.
struct Tally {
  unsigned planted = 0;
  unsigned refused = 0, bySystemC = 0, byFunctional = 0, harmless = 0;
  unsigned accepted = 0, identical = 0, otherValue = 0;
};

constexpr unsigned kTimings = 100;

/// The program computes `expected` whatever the timing is.
void expectSameInAllTimings(const Subject &subject, const isa::Program &program, const Bytes &expected,
                            std::mt19937_64 &random) {
  for (unsigned timing = 0; timing < kTimings; ++timing) {
    Bytes outputs;
    stats::SimResult result = simulate(program, subject, jittered(subject.machine, random), false, outputs);
    ASSERT_FALSE(result.fault) << "timing " << timing << ": " << result.fault->str();
    ASSERT_EQ(outputs, expected) << "timing " << timing;
  }
}

void judge(const Subject &subject, const Mutant &mutant, FaultClass fault, std::mt19937_64 &random, Tally &tally) {
  ++tally.planted;
  Diagnostics problems = schedule::verifySchedule(mutant.program, subject.machine);
  Bytes outputs;
  stats::SimResult result = simulate(mutant.program, subject, subject.machine, true, outputs);
  core::RunResult inOrder = functional::run(mutant.program, subject.machine, subject.inputs);
  if (!problems.empty()) {
    ++tally.refused;
    if (result.fault) {
      ++tally.bySystemC;
    } else if (inOrder.fault) {
      // Queues let the machine run what has no legal program order: that is the functional model's to find.
      ++tally.byFunctional;
    } else {
      // The verifier may be stricter. It does not count on the interlock of the weight registers, which orders too, nor on
      // a result that lands only where everything has been read.
      ++tally.harmless;
      printf("  refused but harmless: %s: %s: %s\n", subject.name.c_str(), mutant.place.c_str(), problems[0].str().c_str());
      expectSameInAllTimings(subject, mutant.program, subject.outputs, random);
    }
    return;
  }
  ++tally.accepted;
  ASSERT_FALSE(result.fault) << "accepted, but " << result.fault->str();
  // A wrong address, or a sum of an earlier tile, is no hazard: the program computes something else, but always the same.
  const bool isValueKept = outputs == subject.outputs;
  ++(isValueKept ? tally.identical : tally.otherValue);
  EXPECT_TRUE(isValueKept || fault == FaultClass::ShiftAddress || fault == FaultClass::Accumulate)
      << "accepted, but the outputs are not those of the program";
  EXPECT_EQ(inOrder.outputs, outputs) << "functional and SystemC model differ";
  expectSameInAllTimings(subject, mutant.program, outputs, random);
}

class ScheduleMutantsTest : public testing::TestWithParam<unsigned> {};

TEST_P(ScheduleMutantsTest, AreFoundTwiceOrHarmless) {
  const auto fault = FaultClass(GetParam());
  const uint64_t firstSeed = fuzz::firstSeed(), wanted = fuzz::fromEnvironment("TILEWRIGHT_MUTANTS", 12);
  Tally tally;
  for (const Network &network : kNetworks) {
    Subject subject;
    ASSERT_NO_FATAL_FAILURE(makeSubject(network, subject));
    std::set<std::vector<isa::Word>> seen{subject.program.code};
    for (uint64_t seed = firstSeed; seed < firstSeed + wanted; ++seed) {
      std::mt19937_64 random(seed);
      std::optional<Mutant> mutant = mutate(subject.program, subject.machine, fault, random);
      if (!mutant || !seen.insert(mutant->program.code).second)
        continue;
      SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed) + " TILEWRIGHT_MUTANTS=1, " + subject.name + ": " + mutant->place);
      judge(subject, *mutant, fault, random, tally);
    }
  }
  printf("TILEWRIGHT_SEED=%llu %-13s %4u planted | %4u refused: SystemC finds %4u, functional model %3u, harmless %3u | "
         "%4u accepted: identical %3u, another value %3u\n",
         (unsigned long long)firstSeed, kFaultNames[GetParam()], tally.planted, tally.refused, tally.bySystemC,
         tally.byFunctional, tally.harmless, tally.accepted, tally.identical, tally.otherValue);
  EXPECT_GT(tally.planted, 0u);
  EXPECT_GT(tally.refused, 0u);
}

INSTANTIATE_TEST_SUITE_P(Faults, ScheduleMutantsTest, testing::Range(0u, kNumFaultClasses),
                         [](const auto &info) { return std::string(kFaultNames[info.param]); });

} // namespace
