//===- DialectTest.cpp - Instructions as ops --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/isa/IsaDialect.h"

#include "tests/isa/RandomInstruction.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace tw;
using namespace tw::isa;
using namespace tw::isa::test;

namespace {

class IsaDialectTest : public testing::Test {
protected:
  IsaDialectTest() { context.loadDialect<IsaDialect>(); }

  mlir::OwningOpRef<mlir::ModuleOp> module(const std::vector<Instruction> &instructions) {
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    mlir::OpBuilder builder(&context);
    builder.setInsertionPointToEnd(module->getBody());
    for (const Instruction &instruction : instructions)
      build(builder, builder.getUnknownLoc(), instruction);
    return module;
  }

  std::string text(mlir::ModuleOp module, bool generic = false) {
    std::string out;
    llvm::raw_string_ostream os(out);
    mlir::OpPrintingFlags flags;
    module.print(os, generic ? flags.printGenericOpForm() : flags);
    return out;
  }

  /// The first diagnostic for `source`; "good" if there is none.
  std::string error(const std::string &source) {
    std::string first = "good";
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      if (first == "good")
        first = diagnostic.str();
      return mlir::success();
    });
    mlir::parseSourceString<mlir::ModuleOp>(source, &context);
    return first;
  }

  mlir::MLIRContext context;
};

} // namespace

TEST_F(IsaDialectTest, OpsAndTextCarryEveryInstruction) {
  std::mt19937_64 random(seed());
  SCOPED_TRACE("TILEWRIGHT_SEED=" + std::to_string(seed()));
  std::vector<Instruction> instructions;
  for (const InstructionInfo &info : kInstructions) {
    instructions.push_back(makeOperands(info.opcode));
    for (int i = 0; i < 100; ++i)
      instructions.push_back(randomInstruction(info.opcode, random));
  }
  auto expectSame = [&](mlir::ModuleOp module) {
    ASSERT_TRUE(mlir::succeeded(module.verify()));
    size_t i = 0;
    for (mlir::Operation &op : *module.getBody()) {
      ASSERT_LT(i, instructions.size());
      EXPECT_TRUE(isInstruction(&op));
      EXPECT_EQ(toInstruction(&op), instructions[i]) << print(instructions[i]);
      ++i;
    }
    EXPECT_EQ(i, instructions.size());
  };
  mlir::OwningOpRef<mlir::ModuleOp> built = module(instructions);
  expectSame(*built);
  for (bool generic : {false, true}) {
    mlir::OwningOpRef<mlir::ModuleOp> parsed = mlir::parseSourceString<mlir::ModuleOp>(text(*built, generic), &context);
    ASSERT_TRUE(parsed);
    expectSame(*parsed);
    EXPECT_EQ(text(*parsed), text(*built));
  }
}

TEST_F(IsaDialectTest, AttributesHaveTheNamesOfTheFields) {
  Result<Instruction> load = parse("load dram_address=0x1000 counts=[4,1,1,1,1] wait=[3:1] "
                                   "levels=[{count=2 stride_a=-4},{}]");
  ASSERT_TRUE(load);
  mlir::OwningOpRef<mlir::ModuleOp> built = module({*load});
  auto op = llvm::cast<LoadOp>(built->getBody()->front());
  EXPECT_EQ(op.getDramAddress(), 0x1000u);
  EXPECT_EQ(op.getUnit(), 0u);
  EXPECT_EQ(op.getCounts(), (llvm::ArrayRef<int64_t>{4, 1, 1, 1, 1}));
  EXPECT_EQ(op.getWaitSemaphore(), (llvm::ArrayRef<int64_t>{3, 0, 0}));
  EXPECT_EQ(op.getLevelCount(), (llvm::ArrayRef<int64_t>{2, 0}));
  EXPECT_EQ(op.getLevelStrideA(), (llvm::ArrayRef<int64_t>{-4, 0}));
  EXPECT_TRUE(op.getStrides().empty());
}

TEST_F(IsaDialectTest, TextIsTheAssemblers) {
  Result<Instruction> load = parse("load unit=1 memory=scratchpad1 wait=[3:1] "
                                   "levels=[{count=2 stride_a=-4},{}]");
  ASSERT_TRUE(load);
  mlir::OwningOpRef<mlir::ModuleOp> built = module({*load, Halt{}});
  built->getBody()->front().setAttr("layer", mlir::StringAttr::get(&context, "conv1"));
  EXPECT_EQ(text(*built), "module {\n  isa.load(unit=1 wait=[3:1] memory=scratchpad1 "
                          "levels=[{count=2 stride_a=-4},{}]) {layer = \"conv1\"}\n"
                          "  isa.halt()\n}\n");
  EXPECT_EQ(error(text(*built)), "good");
}

TEST_F(IsaDialectTest, WhatCannotBeEncodedDoesNotVerify) {
  EXPECT_EQ(error("\"isa.loop\"() {count = 1048576} : () -> ()"),
            "'isa.loop' op cannot be encoded: loop: count is 1048576, allowed "
            "is 0 to 1048575");
  EXPECT_EQ(error("\"isa.load\"() {counts = array<i64: 1,1,1,1,1,1>} : () -> "
                  "()"),
            "'isa.load' op 'counts' has 6 elements, allowed are at most 5");
  EXPECT_EQ(error("\"isa.load\"() {level_count = array<i64: 1,1>, "
                  "level_wrap = array<i64: 1>} : () -> ()"),
            "'isa.load' op 'level_wrap' has 1 elements, another array of the "
            "levels has 2");
  EXPECT_EQ(error("\"isa.load\"() {level_count = array<i64: 1,1,1,1,1,1,1>} : "
                  "() -> ()"),
            "'isa.load' op 'level_count' has 7 elements, allowed are at most "
            "6");
  EXPECT_EQ(error("\"isa.load\"() {memory = 3} : () -> ()"), "'isa.load' op cannot be encoded: load: memory is 3, allowed is "
                                                             "scratchpad0, scratchpad1, accumulator");
}

TEST_F(IsaDialectTest, TextErrorsNameWhatIsWrong) {
  auto inLoad = [&](const std::string &fields) {
    const std::string prefix = "custom op 'isa.load' ";
    std::string message = error("isa.load(" + fields + ")");
    EXPECT_EQ(message.substr(0, prefix.size()), prefix);
    return message.substr(std::min(prefix.size(), message.size()));
  };
  EXPECT_EQ(inLoad("unti=1"), "unknown field 'unti' of load; did you mean 'unit'?");
  EXPECT_EQ(inLoad("levels=[{conut=1}]"), "unknown field 'conut' of a level; did you mean 'count'?");
  EXPECT_EQ(inLoad("unit=1 unit=1"), "field 'unit' is given twice");
  EXPECT_EQ(inLoad("levels=[{wrap=1 wrap=1}]"), "field 'wrap' is given twice");
  EXPECT_EQ(inLoad("unit=4"), "unit is 4, allowed is 0 to 3");
  EXPECT_EQ(inLoad("memory=dram"), "unknown memory 'dram', allowed is scratchpad0, scratchpad1, "
                                   "accumulator");
  EXPECT_EQ(inLoad("counts=[1,1,1,1,1,1]"), "at most 5 elements are allowed");
  EXPECT_EQ(inLoad("levels=[{},{},{},{},{},{},{}]"), "an instruction has at most 6 levels");
}
