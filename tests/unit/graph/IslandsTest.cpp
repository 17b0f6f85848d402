//===- IslandsTest.cpp - Ops between ops of the host ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An island is what the accelerator could take between ops that it cannot.
// graph-partition-kernels leaves it to the host where the link to the
// accelerator costs more than the accelerator saves.
//===----------------------------------------------------------------------===//
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/KernelTarget.h"
#include "compiler/graph/transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace tw::graph;

namespace {

/// Takes all ops but those whose names begin with one of the letters of `refused`.
class NamedTarget : public KernelTarget {
public:
  NamedTarget(StringRef name, StringRef refused, std::optional<ArrayMachine> array = std::nullopt)
      : targetName(name), refused(refused), array(std::move(array)) {}
  StringRef name() const override { return targetName; }
  std::string reasonAgainst(Operation *op) const override {
    auto loc = dyn_cast<NameLoc>(op->getLoc());
    return loc && refused.contains(loc.getName().getValue().front()) ? "the test says so" : "";
  }
  const ArrayMachine *machine() const override { return array ? &*array : nullptr; }

private:
  StringRef targetName, refused;
  std::optional<ArrayMachine> array;
};

/// Where ops of a network on tensors of 64 floats run. Ops whose names begin with h are the host's.
///
/// On such a tensor, an op of one operand reads and makes 512 bytes: 512 / 16 = 32 cycles of the accelerator (its 64 operations take 64 / 16 = 4),
/// 512 / 4 = 128 of the host (64 operations: 64 / 1). The accelerator saves 96. A tensor crosses in linkLatency + 256 / linkBytes cycles.
struct IslandsTest : testing::Test {
  IslandsTest() { context.loadDialect<GraphDialect, func::FuncDialect>(); }

  static ArrayMachine machine(double linkBytes, int64_t linkLatency) {
    ArrayMachine machine;
    machine.columns = 16;
    machine.dramBytes = 16;
    machine.hostBytes = 4;
    machine.hostOperations = 1;
    machine.linkBytes = linkBytes;
    machine.linkLatency = linkLatency;
    return machine;
  }

  static std::string relu(const std::string &name, const std::string &x) {
    return "  %" + name + " = graph.relu %" + x + " : tensor<8x8xf32> loc(\"" + name + "\")\n";
  }

  /// "accel", or "cpu: REASON", for the op `name` of a @main with this body and input %x, which returns %`result`.
  std::string placeOf(const std::string &name, const std::string &body, const std::string &result, const ArrayMachine &machine,
                      StringRef hostRefuses = "") {
    auto module = parseSourceString<ModuleOp>("func.func @main(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {\n" + body +
                                                  "  return %" + result + " : tensor<8x8xf32>\n}\n",
                                              &context);
    if (!module)
      return "does not parse";
    PassManager manager(&context);
    manager.addPass(createPartitionKernelsPass(
        {std::make_shared<NamedTarget>(kAccelTarget, "h", machine), std::make_shared<NamedTarget>(kCpuTarget, hostRefuses)}));
    if (failed(manager.run(*module)))
      return "fails";
    for (func::FuncOp kernel : module->getOps<func::FuncOp>())
      if (auto nodes = kernel->getAttrOfType<ArrayAttr>(kNodesAttr))
        if (llvm::is_contained(nodes.getAsValueRange<StringAttr>(), name)) {
          auto reason = kernel->getAttrOfType<StringAttr>(kReasonAttr);
          return kernel->getAttrOfType<StringAttr>(kTargetAttr).str() + (reason ? ": " + reason.str() : "");
        }
    return "is not there";
  }

  MLIRContext context;
};

TEST_F(IslandsTest, StaysWithTheHostWhereCrossingCostsMore) {
  const std::string body = relu("h0", "x") + relu("a1", "h0") + relu("h1", "a1");
  // There and back: 2 * (100 + 256 / 1).
  EXPECT_EQ(placeOf("a1", body, "h1", machine(1, 100)),
            "cpu: between nodes on the host: crossing would take 712 cycles, and the accelerator would save 96");
  EXPECT_EQ(placeOf("h0", body, "h1", machine(1, 100)), "cpu: the test says so");
  // 2 * (44 + 256 / 64) = 96 is not more than 96; with one cycle more each it is.
  EXPECT_EQ(placeOf("a1", body, "h1", machine(64, 44)), "accel");
  EXPECT_EQ(placeOf("a1", body, "h1", machine(64, 45)),
            "cpu: between nodes on the host: crossing would take 98 cycles, and the accelerator would save 96");
  // Nobody weighs a link that is not described.
  EXPECT_EQ(placeOf("a1", body, "h1", machine(0, 100)), "accel");
}

TEST_F(IslandsTest, AllOfItsOpsCountTogether) {
  // Two ops save 192, and what travels between them does not cross: 2 * (92 + 4).
  const std::string body = relu("h0", "x") + relu("a1", "h0") + relu("a2", "a1") + relu("h1", "a2");
  EXPECT_EQ(placeOf("a1", body, "h1", machine(64, 92)), "accel");
  EXPECT_EQ(placeOf("a2", body, "h1", machine(64, 92)), "accel");
  const std::string reason =
      "cpu: between nodes on the host: crossing would take 194 cycles, and the accelerator would save 192";
  EXPECT_EQ(placeOf("a1", body, "h1", machine(64, 93)), reason);
  EXPECT_EQ(placeOf("a2", body, "h1", machine(64, 93)), reason);
}

TEST_F(IslandsTest, OnlyWhatLiesBetweenOpsOfTheHost) {
  // At either end of the network, its inputs and results travel in any case; and without the host there is no island.
  EXPECT_EQ(placeOf("a1", relu("a1", "x") + relu("h1", "a1"), "h1", machine(1, 100)), "accel");
  EXPECT_EQ(placeOf("a1", relu("h0", "x") + relu("a1", "h0"), "a1", machine(1, 100)), "accel");
  EXPECT_EQ(placeOf("a1", relu("a1", "x") + relu("a2", "a1"), "a2", machine(1, 100)), "accel");
}

TEST_F(IslandsTest, ContractionsAreNeverLeft) {
  const std::string product =
      "  %w = graph.constant dense<1.0> : tensor<8x8xf32>\n"
      "  %a2 = graph.matmul %a1, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(\"a2\")\n";
  EXPECT_EQ(placeOf("a1", relu("h0", "x") + relu("a1", "h0") + product + relu("h1", "a2"), "h1", machine(1, 100)), "accel");
}

TEST_F(IslandsTest, TensorsCrossOnce) {
  const std::string sum = "  %h3 = graph.add %h1, %h2 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32> loc(\"h3\")\n";
  // Two readers of one result: 2 * 48 = 96 in all, not 3 * 48.
  const std::string readTwice = relu("h0", "x") + relu("a1", "h0") + relu("h1", "a1") + relu("h2", "a1") + sum;
  EXPECT_EQ(placeOf("a1", readTwice, "h3", machine(64, 44)), "accel");
  EXPECT_EQ(placeOf("a1", readTwice, "h3", machine(64, 45)),
            "cpu: between nodes on the host: crossing would take 98 cycles, and the accelerator would save 96");
  // What another island reads too crosses in any case: only the result counts, 92 + 4.
  const std::string isShared =
      relu("h0", "x") + relu("a1", "h0") + relu("a2", "h0") + relu("h1", "a1") + relu("h2", "a2") + sum;
  EXPECT_EQ(placeOf("a1", isShared, "h3", machine(64, 92)), "accel");
  EXPECT_EQ(placeOf("a1", isShared, "h3", machine(64, 93)),
            "cpu: between nodes on the host: crossing would take 97 cycles, and the accelerator would save 96");
}

TEST_F(IslandsTest, ReshapesAreNoOps) {
  const std::string body = relu("h0", "x") +
                           "  %r = graph.reshape %h0 : (tensor<8x8xf32>) -> tensor<64xf32>\n"
                           "  %a1 = graph.relu %r : tensor<64xf32> loc(\"a1\")\n"
                           "  %s = graph.reshape %a1 : (tensor<64xf32>) -> tensor<8x8xf32>\n" +
                           relu("h1", "s");
  EXPECT_EQ(placeOf("a1", body, "h1", machine(64, 44)), "accel");
  EXPECT_EQ(placeOf("a1", body, "h1", machine(64, 45)),
            "cpu: between nodes on the host: crossing would take 98 cycles, and the accelerator would save 96");
}

TEST_F(IslandsTest, WhatNoOtherTargetTakesStays) {
  const std::string body = relu("h0", "x") + relu("a1", "h0") + relu("b1", "a1") + relu("h1", "b1");
  EXPECT_EQ(placeOf("a1", body, "h1", machine(1, 1000), /*hostRefuses=*/"b"), "accel");
  EXPECT_EQ(placeOf("b1", body, "h1", machine(1, 1000), /*hostRefuses=*/"b"), "accel");
}

} // namespace
