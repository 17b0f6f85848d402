//===- DamagedNetworkTest.cpp - Whatever the bytes, a program or an error -===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The digits networks with bytes missing or changed, from ONNX to a program. A
// case fails by crashing, by an error without words, or by one that blames the
// compiler. TILEWRIGHT_SEED changes which bytes.
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxImport.h"
#include "compiler/graph/Graph.h"
#include "compiler/pipeline/Compile.h"
#include "hw-configs/Machine.h"
#include "isa/files/InputFile.h"
#include "tests/fuzz/Seed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <gtest/gtest.h>
#include <random>

using namespace tw;
using namespace tw::fuzz;

namespace {

struct Subject {
  const char *model, *machine;
};
constexpr Subject kSubjects[] = {{"digits_int8_qdq", "tiny_8x8"}, {"digits_fp32", "gemmini_16x16_fp32"}};

std::string bytesOf(const Subject &subject) {
  Result<std::string> bytes =
      files::readFile(std::string(TILEWRIGHT_SOURCE_DIR) + "/tests/data/digits/" + subject.model + ".onnx");
  EXPECT_TRUE(bool(bytes)) << bytes.message();
  return bytes ? *bytes : "";
}

/// All phases. The message, or nothing where a program came out.
std::string compile(const std::string &bytes, const timing::MachineParams &machine) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<graph::GraphDialect, mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::tensor::TensorDialect>();
  auto text = [](llvm::Error error) {
    std::string message = llvm::toString(std::move(error));
    EXPECT_FALSE(message.empty());
    EXPECT_EQ(message.find("internal"), std::string::npos) << message;
    return message;
  };
  auto module = frontend::importOnnx(context, bytes, "damaged.onnx");
  if (!module)
    return text(module.takeError());
  pipeline::CompileOptions options;
  options.machine = &machine;
  if (llvm::Error error = pipeline::optimizeGraph(**module, options))
    return text(std::move(error));
  if (llvm::Error error = pipeline::lowerToLinalg(**module, options))
    return text(std::move(error));
  auto compiled = pipeline::compileForAccelerator(**module, options);
  return compiled ? "" : text(compiled.takeError());
}

timing::MachineParams machineOf(const char *name, const std::vector<std::string> &overrides = {}) {
  Result<timing::MachineParams> machine = hwconfigs::loadMachine(name, overrides);
  EXPECT_TRUE(bool(machine)) << machine.message();
  return machine ? *machine : timing::MachineParams();
}

} // namespace

TEST(DamagedNetworkTest, TruncatedNetworksAreRefusedOrCompile) {
  for (const Subject &subject : kSubjects) {
    std::string bytes = bytesOf(subject);
    timing::MachineParams machine = machineOf(subject.machine);
    EXPECT_EQ(compile(bytes, machine), "") << "the whole network";
    unsigned refused = 0, tried = 0;
    for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 60, ++tried)
      refused += !compile(bytes.substr(0, size), machine).empty();
    EXPECT_EQ(refused, tried) << subject.model;
  }
}

TEST(DamagedNetworkTest, ChangedBytesAreRefusedOrCompile) {
  uint64_t seed = firstSeed(), cases = numCases(80);
  printf("TILEWRIGHT_SEED=%llu, %llu cases\n", (unsigned long long)seed, (unsigned long long)cases);
  for (const Subject &subject : kSubjects) {
    std::string whole = bytesOf(subject);
    timing::MachineParams machine = machineOf(subject.machine);
    unsigned refused = 0;
    for (uint64_t i = 0; i < cases; ++i) {
      SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed + i) + " TILEWRIGHT_FUZZ_CASES=1");
      std::mt19937_64 random(seed + i);
      std::string bytes = whole;
      // Most of the file is weights: half of the changes go to its end, where the graph's ends and attributes are.
      for (unsigned change = 1 + random() % 4; change > 0; --change) {
        size_t place =
            random() % 2 ? random() % bytes.size() : bytes.size() - 1 - random() % std::min<size_t>(bytes.size(), 1500);
        bytes[place] = random() % 2 ? char(bytes[place] ^ (1 << random() % 8)) : char(random());
      }
      refused += !compile(bytes, machine).empty();
    }
    printf("%s: %u of %llu refused\n", subject.model, refused, (unsigned long long)cases);
  }
}

TEST(DamagedNetworkTest, MachineTooSmallForAnyTileIsNamed) {
  std::string bytes = bytesOf(kSubjects[0]);
  for (const char *change : {"scratchpads.activation.capacity_bytes=64", "scratchpads.weight.capacity_bytes=64"}) {
    std::vector<std::string> overrides = {change, "scratchpads.activation.banks=1", "scratchpads.weight.banks=1",
                                          "accumulator.banks=1"};
    std::string message = compile(bytes, machineOf("tiny_8x8", overrides));
    EXPECT_NE(message.find("no tile fits machine 'tiny_8x8'"), std::string::npos) << change << ": " << message;
    EXPECT_NE(message.find("64"), std::string::npos) << "the message names what the machine has: " << message;
  }
}
