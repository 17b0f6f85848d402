//===- ConstantsTest.cpp - Arithmetic on constant tensors -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/MLIRContext.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace mlir;
using namespace tw::graph;

namespace {

struct ConstantsTest : testing::Test {
  ConstantsTest() : builder(&context) {
    context.loadDialect<GraphDialect>();
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToStart(module->getBody());
  }

  RankedTensorType tensor(ArrayRef<int64_t> shape, Type element) { return RankedTensorType::get(shape, element); }
  Value constant(ElementsAttr value) { return builder.create<ConstantOp>(builder.getUnknownLoc(), value); }

  MLIRContext context;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
};

TEST_F(ConstantsTest, BfloatIsRoundedToNearestEven) {
  // bf16 keeps 8 bits: 1 + 2^-8 lies between 1 and 1 + 2^-7 and goes to the even one, 1 + 3 * 2^-8 goes up to 1 + 2^-6.
  DenseElementsAttr rounded = makeFloats(tensor({3}, builder.getBF16Type()), {1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, -2.5f});
  EXPECT_EQ(readFloats(rounded), (std::vector<float>{1.0f, 1.0f + 0x1p-6f, -2.5f}));
}

TEST_F(ConstantsTest, HalfIsReadExactly) {
  // Binary16: 0x3c01 is 1 + 2^-10, 0x0001 the smallest subnormal, 0xfc00 minus infinity.
  uint16_t bits[] = {0x3c01, 0x0001, 0xfc00};
  auto attr = DenseElementsAttr::getFromRawBuffer(tensor({3}, builder.getF16Type()),
                                                  {reinterpret_cast<const char *>(bits), sizeof(bits)});
  EXPECT_EQ(readFloats(attr), (std::vector<float>{1.0f + 0x1p-10f, 0x1p-24f, -INFINITY}));
}

TEST_F(ConstantsTest, IntegersKeepTheirSign) {
  IntegerType ui8 = builder.getIntegerType(8, false);
  EXPECT_EQ(readIntegers(makeIntegers(tensor({2}, ui8), {200, 256})), (std::vector<int64_t>{200, 0}));
  EXPECT_EQ(readIntegers(makeIntegers(tensor({2}, builder.getI8Type()), {200, -1})), (std::vector<int64_t>{-56, -1}));
  EXPECT_EQ(readIntegers(makeIntegers(tensor({3}, builder.getI1Type()), {1, 0, 1})), (std::vector<int64_t>{1, 0, 1}));
}

TEST_F(ConstantsTest, SplatsAndResourcesAreExpanded) {
  auto type = tensor({2, 2}, builder.getI32Type());
  EXPECT_EQ(readIntegers(DenseElementsAttr::get(type, int32_t(-7))), (std::vector<int64_t>{-7, -7, -7, -7}));
  int32_t values[] = {1, 2, 3, 4};
  auto blob = HeapAsmResourceBlob::allocateAndCopyInferAlign(ArrayRef<int32_t>(values));
  auto resource = DenseResourceElementsAttr::get(type, "numbers", std::move(blob));
  EXPECT_EQ(readIntegers(resource), (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(readIntegers(transposeConstant(resource, {1, 0})), (std::vector<int64_t>{1, 3, 2, 4}));
}

TEST_F(ConstantsTest, SplatFloatOnlyOfOneNumber) {
  auto type = tensor({2}, builder.getF32Type());
  EXPECT_EQ(splatFloat(constant(makeFloats(type, {2.5f, 2.5f}))), 2.5f);
  EXPECT_FALSE(splatFloat(constant(makeFloats(type, {2.5f, 3.5f}))));
  EXPECT_FALSE(splatFloat(constant(makeIntegers(tensor({1}, builder.getI32Type()), {1}))));
}

TEST_F(ConstantsTest, TransposeOfBits) {
  auto bits = makeIntegers(tensor({2, 3}, builder.getI1Type()), {1, 0, 0, 1, 1, 0});
  EXPECT_EQ(readIntegers(transposeConstant(bits, {1, 0})), (std::vector<int64_t>{1, 1, 0, 1, 0, 0}));
}

TEST_F(ConstantsTest, CastOfWhatDoesNotFitIsLeftToTheRunTime) {
  Value x = constant(makeFloats(tensor({2}, builder.getF32Type()), {1e30f, 1.0f}));
  auto cast = builder.create<CastOp>(builder.getUnknownLoc(), tensor({2}, builder.getI32Type()), x);
  EXPECT_FALSE(evaluate(cast));
  auto toBool = builder.create<CastOp>(builder.getUnknownLoc(), tensor({2}, builder.getI1Type()), x);
  EXPECT_EQ(readIntegers(evaluate(toBool)), (std::vector<int64_t>{1, 1}));
}

TEST_F(ConstantsTest, NanIsNotLostInMaximum) {
  auto type = tensor({2}, builder.getF32Type());
  Value a = constant(makeFloats(type, {NAN, 1.0f})), b = constant(makeFloats(type, {1.0f, NAN}));
  for (float value : readFloats(evaluate(builder.create<MaxOp>(builder.getUnknownLoc(), type, a, b))))
    EXPECT_TRUE(std::isnan(value));
}

TEST(RewritingTest, UnitDimsMoveFreely) {
  EXPECT_TRUE(movesOnlyUnitDims({1, 1, 8, 8}, {0, 2, 3, 1}));
  EXPECT_TRUE(movesOnlyUnitDims({2, 3, 1, 1}, {0, 2, 3, 1}));
  EXPECT_FALSE(movesOnlyUnitDims({1, 2, 8, 1}, {0, 2, 3, 1}));
}

TEST(RewritingTest, NodeNamesOfFusedLocationsComeOnce) {
  MLIRContext context;
  Builder builder(&context);
  auto named = [&](StringRef name) -> Location { return NameLoc::get(builder.getStringAttr(name)); };
  Location inner = FusedLoc::get(&context, {named("conv"), named("relu")});
  Location outer = FusedLoc::get(&context, {inner, named("conv"), UnknownLoc::get(&context), named("add")});
  EXPECT_EQ(nodeNames(outer), (std::vector<std::string>{"conv", "relu", "add"}));
}

} // namespace
