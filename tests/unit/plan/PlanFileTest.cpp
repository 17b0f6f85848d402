//===- PlanFileTest.cpp - Plans to text and back, and on to kernels ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/plan/PlanFile.h"
#include "compiler/text/Diagnostics.h"
#include "tests/unit/plan/RandomPlan.h"

#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace tw;
using namespace tw::plan;

namespace {

class PlanFileTest : public ::testing::Test {
protected:
  PlanFileTest() : context(MLIRContext::Threading::DISABLED) { context.loadDialect<PlanDialect, func::FuncDialect>(); }

  OwningOpRef<ModuleOp> parse(llvm::StringRef text, llvm::StringRef name = "mine.mlir") {
    return parseSourceString<ModuleOp>(text, ParserConfig(&context), name);
  }

  static NetworkOp networkOf(ModuleOp module) { return *module.getOps<NetworkOp>().begin(); }

  /// The plan that an op says.
  static FailureOr<KernelPlan> planIn(KernelOp op) {
    NamedAttrList knobs(op->getAttrs());
    knobs.erase(op.getNameAttrName());
    return parseKernelPlan(knobs.getDictionary(op.getContext()), [&] { return op.emitOpError(); });
  }

  MLIRContext context;
};

/// A model of three kernels for the accelerator and one for the CPU.
class ApplyPlanTest : public PlanFileTest {
protected:
  ApplyPlanTest() {
    model = parse(R"(
func.func private @conv() attributes {tilewright.target = "accel", tilewright.nodes = ["Conv_0", "Relu_1"]}
func.func private @pool() attributes {tilewright.target = "accel", tilewright.nodes = ["Pool_2"]}
func.func private @conv_1() attributes {tilewright.target = "accel", tilewright.nodes = ["Conv_3", "pool"]}
func.func private @loop() attributes {tilewright.target = "cpu", tilewright.nodes = ["Loop_4"], tilewright.reason = "no Loop"}
)");
  }

  /// Empty, or the error.
  std::string apply(const std::string &kernels) {
    PlanFile file;
    file.module = parse("plan.network {\n" + kernels + "}\n");
    EXPECT_TRUE(bool(file.module)) << kernels;
    return file.module ? llvm::toString(applyPlanFile(*model, file)) : "";
  }

  KernelPlan planOfKernel(llvm::StringRef name) {
    FailureOr<KernelPlan> plan = planOf(model->lookupSymbol<func::FuncOp>(name));
    EXPECT_TRUE(succeeded(plan));
    return *plan;
  }

  OwningOpRef<ModuleOp> model;
};

} // namespace

TEST_F(PlanFileTest, WhatIsPrintedComesBack) {
  Random random(1);
  for (unsigned i = 0; i < 100; ++i) {
    const NetworkKnobs knobs = randomPlan<NetworkKnobs>(random);
    std::vector<std::pair<std::string, KernelPlan>> kernels;
    for (const char *name : {"conv", "*_1", "a \"quoted\"\nname\\"})
      kernels.push_back({name, randomValidPlan(random)});
    GraphPlan graph;
    if (random() % 2)
      graph.order = KernelOrder(random() % 2);
    if (random() % 2)
      graph.kernelsBeginAt = {"relu", "a \"quoted\"\nname\\"};
    const std::string text = printPlanFile(Schedule::Search, graph, knobs, kernels);
    OwningOpRef<ModuleOp> module = parse(text);
    ASSERT_TRUE(bool(module)) << text;
    NetworkOp network = networkOf(*module);
    EXPECT_EQ(network->getAttrOfType<StringAttr>("schedule").getValue(), "search");
    EXPECT_EQ(graphPlanOf(network).order, graph.order) << text;
    EXPECT_EQ(graphPlanOf(network).kernelsBeginAt, graph.kernelsBeginAt) << text;
    FailureOr<NetworkKnobs> parsed = parseNetworkKnobs(networkKnobsOf(network), [&] { return network.emitOpError(); });
    ASSERT_TRUE(succeeded(parsed));
    EXPECT_EQ(*parsed, knobs) << text;
    auto ops = network.getKernels().getOps<KernelOp>();
    ASSERT_EQ(size_t(std::distance(ops.begin(), ops.end())), kernels.size()) << text;
    for (auto [op, kernel] : llvm::zip(ops, kernels)) {
      EXPECT_EQ(op.getName(), kernel.first);
      FailureOr<KernelPlan> plan = planIn(op);
      ASSERT_TRUE(succeeded(plan));
      EXPECT_EQ(*plan, kernel.second) << text;
    }
  }
}

TEST_F(PlanFileTest, OpenKernelsAreLeftOut) {
  KernelPlan deep;
  deep.depth = 3;
  EXPECT_EQ(printPlanFile(Schedule::Serial, {}, {}, {{"first", {}}, {"second", deep}}),
            "plan.network attributes {schedule = \"serial\"} {\n  plan.kernel \"second\" {depth = 3}\n}\n");
}

TEST_F(PlanFileTest, AFunctionWithoutAPlanIsOpen) {
  OwningOpRef<ModuleOp> module = parse("func.func private @k()");
  FailureOr<KernelPlan> plan = planOf(*module->getOps<func::FuncOp>().begin());
  ASSERT_TRUE(succeeded(plan));
  EXPECT_EQ(*plan, KernelPlan());
}

/// Models in text may have any attributes.
TEST_F(PlanFileTest, APlanOfAFunctionIsCheckedAsOneOfAFile) {
  for (auto [attribute, message] :
       {std::pair("7 : i64", "'tilewright.plan' is 7 but must be a dictionary"),
        std::pair("{depth = 0}", "in 'tilewright.plan': 'depth' is 0 but must be a positive number"),
        std::pair("{deep = 2}", "in 'tilewright.plan': unknown knob 'deep', expected one of tile")}) {
    OwningOpRef<ModuleOp> module =
        parse(std::string("func.func private @k() attributes {tilewright.plan = ") + attribute + "}");
    ASSERT_TRUE(bool(module));
    text::DiagnosticText said(&context, /*isTheUsers=*/true);
    EXPECT_TRUE(failed(planOf(*module->getOps<func::FuncOp>().begin())));
    EXPECT_NE(said.str().find(message), std::string::npos) << said.str();
  }
}

TEST_F(ApplyPlanTest, ANameIsAKernelElseANodeElseAPattern) {
  EXPECT_EQ(apply(R"(  plan.kernel "pool" {depth = 2}
  plan.kernel "Relu_1" {depth = 3}
  plan.kernel "Conv_[2-9]" {depth = 4}
)"),
            "");
  EXPECT_EQ(print(planOfKernel("pool")), "depth = 2");
  EXPECT_EQ(print(planOfKernel("conv")), "depth = 3");
  EXPECT_EQ(print(planOfKernel("conv_1")), "depth = 4");
}

TEST_F(ApplyPlanTest, APatternStandsForKernelsAndNodes) {
  EXPECT_EQ(apply("  plan.kernel \"*onv*\" {depth = 2}\n"), "");
  EXPECT_EQ(print(planOfKernel("conv")), "depth = 2");
  EXPECT_EQ(print(planOfKernel("conv_1")), "depth = 2");
  EXPECT_EQ(print(planOfKernel("pool")), "");
}

TEST_F(ApplyPlanTest, ALaterOpReplacesWhatEarlierOnesSayOfTheSameKnob) {
  EXPECT_EQ(apply(R"(  plan.kernel "*onv*" {depth = 2, tile = [16, 8, 2, 1]}
  plan.kernel "conv" {depth = 3, engine = "tensor"}
)"),
            "");
  const KernelPlan plan = planOfKernel("conv");
  EXPECT_EQ(print(plan), "tile = [16, 8, 2, 1], depth = 3, engine = \"tensor\"");
  EXPECT_EQ(plan.placeOf({"tile"}), "mine.mlir:2:3: ");
  EXPECT_EQ(plan.placeOf({"depth"}), "mine.mlir:3:3: ");
  EXPECT_EQ(print(planOfKernel("conv_1")), "tile = [16, 8, 2, 1], depth = 2");
}

TEST_F(ApplyPlanTest, WhatCannotBeAppliedIsSaidWithItsPlace) {
  for (auto [kernels, message] :
       {std::pair(
            "  plan.kernel \"Conv_1\" {depth = 2}\n",
            "mine.mlir:2:3: 'plan.kernel' op no kernel is named 'Conv_1' or has a node of that name; the nearest is 'Conv_0'"),
        std::pair("  plan.kernel \"Conv_[\" {depth = 2}\n",
                  "mine.mlir:2:3: 'plan.kernel' op 'Conv_[': invalid glob pattern, unmatched '['"),
        std::pair("  plan.kernel \"Loop_4\" {depth = 2}\n",
                  "mine.mlir:2:3: 'plan.kernel' op kernel 'loop' is for target \"cpu\": no Loop"),
        std::pair("  plan.kernel \"conv\" {on_chip = true, row_tile = 2}\n  plan.kernel \"conv\" {on_chip = false}\n",
                  "mine.mlir:3:3: 'plan.kernel' op 'row_tile' is 2 but on_chip is not true")})
    EXPECT_EQ(apply(kernels), message);
}
