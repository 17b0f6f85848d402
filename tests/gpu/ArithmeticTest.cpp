//===- ArithmeticTest.cpp - One instruction, its result by PTX's definition ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/gpu/PtxText.h"

#include <cmath>
#include <limits>

using namespace tw::ptxtest;

namespace {

struct Case {
  unsigned bits;
  const char *text;
  uint64_t a, b, c, expected;
  unsigned resultBits = 0;
};

void expectAll(const std::vector<Case> &cases) {
  for (const Case &test : cases)
    EXPECT_EQ(evaluate(test.bits, test.text, test.a, test.b, test.c, test.resultBits), test.expected)
        << test.text << " " << std::hex << test.a << ", " << test.b << ", " << test.c;
}

constexpr uint64_t minus(uint64_t value, unsigned bits) {
  return bits == 64 ? 0 - value : (0 - value) & ((uint64_t(1) << bits) - 1);
}

TEST(ArithmeticTest, IntegersWrap) {
  expectAll({{32, "add.s32 d, a, b;", 0x7fffffff, 1, 0, 0x80000000},
             {16, "add.s16 d, a, b;", 0xffff, 2, 0, 1},
             {64, "add.s64 d, a, b;", ~uint64_t(0), 2, 0, 1},
             {32, "sub.s32 d, a, b;", 3, 5, 0, minus(2, 32)},
             {32, "mul.lo.s32 d, a, b;", 0x10001, 0x10001, 0, 0x20001},
             {32, "mul.hi.u32 d, a, b;", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
             {32, "mul.hi.s32 d, a, b;", minus(2, 32), 3, 0, 0xffffffff},
             {64, "mul.hi.u64 d, a, b;", uint64_t(1) << 63, 4, 0, 2},
             {32, "mad.lo.s32 d, a, b, c;", 7, 6, 5, 47},
             {32, "mul.wide.s32 d, a, b;", minus(3, 32), 5, 0, minus(15, 64), 64},
             {32, "mul.wide.u32 d, a, b;", 0xffffffff, 2, 0, 0x1fffffffe, 64},
             {16, "mul.wide.s16 d, a, b;", minus(300, 16), 300, 0, minus(90000, 32), 32},
             {32, "neg.s32 d, a;", 5, 0, 0, minus(5, 32)},
             {32, "abs.s32 d, a;", minus(5, 32), 0, 0, 5}});
}

TEST(ArithmeticTest, PairsOfIntegers) {
  expectAll({{32, "add.s16x2 d, a, b;", 0xffff0001, 0x00020003, 0, 0x00010004},
             {32, "max.s16x2 d, a, b;", 0xffff0001, 0x00020000, 0, 0x00020001},
             {32, "max.u16x2 d, a, b;", 0xffff0001, 0x00020000, 0, 0xffff0001},
             {32, "min.relu.s16x2 d, a, b;", 0xffff0005, 0x00020003, 0, 0x00000003}});
}

TEST(ArithmeticTest, CarriesReachTheNextWord) {
  expectAll({{32, "add.cc.u32 d, a, b;\naddc.u32 d, c, 0;", 0xffffffff, 1, 5, 6},
             {32, "add.cc.u32 d, a, b;\naddc.u32 d, c, 0;", 0xfffffffe, 1, 5, 5},
             {64, "sub.cc.u64 d, a, b;\nsubc.u64 d, c, 0;", 0, 1, 5, 4}});
}

TEST(ArithmeticTest, DivisionTruncatesTowardsZero) {
  expectAll({{32, "div.s32 d, a, b;", minus(7, 32), 2, 0, minus(3, 32)},
             {32, "rem.s32 d, a, b;", minus(7, 32), 2, 0, minus(1, 32)},
             {32, "div.u32 d, a, b;", minus(7, 32), 2, 0, 0x7ffffffc},
             {64, "rem.u64 d, a, b;", 1000, 7, 0, 6},
             {32, "div.s32 d, a, b;", 0x80000000, minus(1, 32), 0, 0x80000000}});
  EXPECT_FAULT(ErrorKind::Trap, "division by zero", evaluate(32, "div.u32 d, a, b;", 1, 0));
}

TEST(ArithmeticTest, MinMaxFollowTheSign) {
  expectAll({{32, "min.s32 d, a, b;", minus(1, 32), 1, 0, minus(1, 32)},
             {32, "min.u32 d, a, b;", minus(1, 32), 1, 0, 1},
             {32, "max.s32 d, a, b;", minus(1, 32), 1, 0, 1},
             {32, "max.relu.s32 d, a, b;", minus(1, 32), minus(2, 32), 0, 0},
             {16, "max.u16 d, a, b;", 0xffff, 1, 0, 0xffff}});
}

TEST(ArithmeticTest, Bits) {
  expectAll(
      {{32, "and.b32 d, a, b;", 0xff00ff00, 0x0ff00ff0, 0, 0x0f000f00},
       {32, "or.b32 d, a, b;", 0xff00, 0x0ff0, 0, 0xfff0},
       {64, "xor.b64 d, a, b;", 0xff00, 0x0ff0, 0, 0xf0f0},
       {16, "not.b16 d, a;", 0x00ff, 0, 0, 0xff00},
       {32, "shl.b32 d, a, 4;", 0xf0000001, 0, 0, 0x10},
       {32, "shl.b32 d, a, b;", 1, 40, 0, 0}, // clamped at the width
       {32, "shr.u32 d, a, b;", 0x80000000, 31, 0, 1},
       {32, "shr.s32 d, a, b;", 0x80000000, 99, 0, 0xffffffff},
       {32, "shf.l.wrap.b32 d, a, b, c;", 0x80000000, 1, 1, 3},
       {32, "shf.r.clamp.b32 d, a, b, c;", 0x12345678, 0xabcdef01, 32, 0xabcdef01},
       {32, "bfe.u32 d, a, 8, 8;", 0x12345678, 0, 0, 0x56},
       {32, "bfe.s32 d, a, 4, 4;", 0xf0, 0, 0, 0xffffffff},
       {32, "bfe.s32 d, a, 24, 16;", 0x7f000000, 0, 0, 0x7f},
       {32, "bfi.b32 d, a, b, 8, 4;", 0x5, 0xffffffff, 0, 0xfffff5ff},
       {32, "popc.b32 d, a;", 0xf0f0, 0, 0, 8},
       {32, "clz.b32 d, a;", 0x00ffffff, 0, 0, 8},
       {32, "brev.b32 d, a;", 1, 0, 0, 0x80000000},
       {32, "bfind.u32 d, a;", 0x00800000, 0, 0, 23},
       {32, "bfind.s32 d, a;", 0xffffffff, 0, 0, 0xffffffff},
       {32, "lop3.b32 d, a, b, c, 0xe8;", 0xff00, 0xf0f0, 0xcccc, (0xff00 & 0xf0f0) | (0xff00 & 0xcccc) | (0xf0f0 & 0xcccc)},
       {32, "prmt.b32 d, a, b, 0x5140;", 0x33221100, 0x77665544, 0, 0x55114400},
       {32, "prmt.b32 d, a, b, 0x0008;", 0x00000080, 0, 0, 0x808080ff}, // bit 3 of a selector copies the sign
       {32, "dp4a.s32.s32 d, a, b, c;", 0xff020304, 0x01010101, 10, 18}});
}

TEST(ArithmeticTest, Predicates) {
  expectAll({{32, "setp.lt.s32 p, a, b;\nselp.b32 d, 1, 2, p;", minus(1, 32), 0, 0, 1},
             {32, "setp.lt.u32 p, a, b;\nselp.b32 d, 1, 2, p;", minus(1, 32), 0, 0, 2},
             {32, "setp.hi.u32 p, a, b;\nselp.b32 d, 1, 2, p;", 5, 4, 0, 1},
             {32, "setp.ge.s32 q, c, 0;\nsetp.eq.and.s32 p, a, b, q;\nselp.b32 d, 1, 2, p;", 5, 5, 0, 1},
             {32, "setp.ge.s32 q, c, 0;\nsetp.eq.or.s32 p, a, b, !q;\nselp.b32 d, 1, 2, p;", 5, 4, 0, 2},
             {32, "setp.eq.s32 p|q, a, b;\nselp.b32 d, 1, 2, q;", 5, 4, 0, 1},
             {32, "setp.eq.s32 p, a, b;\nnot.pred q, p;\nand.pred p, p, q;\nselp.b32 d, 1, 2, p;", 5, 5, 0, 2},
             {32, "mov.b32 d, 7;\nsetp.eq.s32 p, a, b;\n@!p mov.b32 d, 8;", 5, 5, 0, 7},
             {32, "set.lt.u32.s32 d, a, b;", minus(1, 32), 0, 0, 0xffffffff},
             {32, "slct.b32.s32 d, a, b, c;", 1, 2, minus(1, 32), 2}});
}

TEST(ArithmeticTest, ComparisonsWithNan) {
  const uint32_t nan = 0x7fc00000;
  expectAll({{32, "setp.lt.f32 p, a, b;\nselp.b32 d, 1, 0, p;", nan, 0, 0, 0},
             {32, "setp.ltu.f32 p, a, b;\nselp.b32 d, 1, 0, p;", nan, 0, 0, 1},
             {32, "setp.ne.f32 p, a, b;\nselp.b32 d, 1, 0, p;", nan, 0, 0, 0},
             {32, "setp.neu.f32 p, a, b;\nselp.b32 d, 1, 0, p;", nan, 0, 0, 1},
             {32, "setp.nan.f32 p, a, b;\nselp.b32 d, 1, 0, p;", nan, 0, 0, 1},
             {32, "setp.num.f32 p, a, b;\nselp.b32 d, 1, 0, p;", bitsOfFloat(1), 0, 0, 1}});
}

TEST(ArithmeticTest, Floats) {
  EXPECT_EQ(evaluateFloat("add.rn.f32 d, a, b;", 1, 0x1p-24f), 1);
  EXPECT_EQ(evaluateFloat("sub.f32 d, a, b;", 1, 3), -2);
  EXPECT_EQ(evaluateFloat("fma.rn.f32 d, a, b, c;", 1 + 0x1p-23f, 1 - 0x1p-23f, -1), -0x1p-46f); // one rounding
  EXPECT_EQ(evaluateFloat("mul.f32 d, a, 0f40000000;", 3), 6);
  EXPECT_EQ(evaluateFloat("mul.f32 d, a, 0.5;", 3), 1.5f);
  EXPECT_EQ(evaluateFloat("div.rn.f32 d, a, b;", 1, 3), 1.0f / 3);
  EXPECT_EQ(evaluateFloat("max.f32 d, a, b;", NAN, 3), 3); // the number
  EXPECT_TRUE(std::isnan(evaluateFloat("max.NaN.f32 d, a, b;", NAN, 3)));
  EXPECT_EQ(evaluateFloat("min.f32 d, a, b;", -2, 3), -2);
  EXPECT_EQ(evaluateFloat("abs.f32 d, a;", -2), 2);
  EXPECT_EQ(evaluateFloat("neg.f32 d, a;", 2), -2);
  EXPECT_EQ(evaluateFloat("copysign.f32 d, a, b;", -1, 5), -5);
  EXPECT_EQ(evaluateFloat("add.sat.f32 d, a, b;", 1, 3), 1);
  EXPECT_EQ(evaluateFloat("add.ftz.f32 d, a, b;", 0x1p-130f, 0), 0);
  EXPECT_EQ(evaluateFloat("add.f32 d, a, b;", 0x1p-130f, 0), 0x1p-130f);
  EXPECT_EQ(evaluate(64, "add.f64 d, a, b;", bitCast<uint64_t>(1.5), bitCast<uint64_t>(2.25)), bitCast<uint64_t>(3.75));
}

TEST(ArithmeticTest, Functions) {
  EXPECT_EQ(evaluateFloat("ex2.approx.ftz.f32 d, a;", 3), 8);
  EXPECT_EQ(evaluateFloat("lg2.approx.f32 d, a;", 8), 3);
  EXPECT_EQ(evaluateFloat("rcp.approx.ftz.f32 d, a;", 4), 0.25f);
  EXPECT_EQ(evaluateFloat("rsqrt.approx.ftz.f32 d, a;", 4), 0.5f);
  EXPECT_EQ(evaluateFloat("sqrt.rn.f32 d, a;", 9), 3);
  EXPECT_EQ(evaluateFloat("tanh.approx.f32 d, a;", 0), 0);
  EXPECT_FLOAT_EQ(evaluateFloat("tanh.approx.f32 d, a;", 1), 0.76159416f);
  EXPECT_FLOAT_EQ(evaluateFloat("sin.approx.f32 d, a;", 1), 0.84147098f);
  EXPECT_FLOAT_EQ(evaluateFloat("cos.approx.f32 d, a;", 1), 0.54030231f);
}

// bf16 1.0 is 3f80, 2.0 4000, 3.0 4040; f16 1.0 is 3c00, 2.0 4000, 3.0 4200.
TEST(ArithmeticTest, SmallFloats) {
  expectAll({{16, "add.rn.bf16 d, a, b;", 0x3f80, 0x4000, 0, 0x4040},
             {16, "add.f16 d, a, b;", 0x3c00, 0x4000, 0, 0x4200},
             {32, "add.rn.bf16x2 d, a, b;", 0x3f804000, 0x40003f80, 0, 0x40404040},
             {32, "mul.rn.f16x2 d, a, b;", 0x3c004000, 0x42003c00, 0, 0x42004000},
             {32, "fma.rn.bf16x2 d, a, b, c;", 0x3f803f80, 0x40004000, 0x3f800000, 0x40404000},
             {32, "fma.rn.relu.bf16x2 d, a, b, c;", 0xbf803f80, 0x40004000, 0, 0x00004000},
             {32, "max.bf16x2 d, a, b;", 0x3f80c000, 0x40003f80, 0, 0x40003f80},
             {16, "setp.gt.bf16 p, a, b;\nselp.b16 d, 1, 0, p;", 0x4000, 0x3f80, 0, 1}});
}

TEST(ConversionTest, IntegersExtendAndCut) {
  expectAll({{32, "cvt.s32.s8 d, a;", 0x80, 0, 0, 0xffffff80},
             {32, "cvt.u32.u8 d, a;", 0x180, 0, 0, 0x80},
             {32, "cvt.s64.s32 d, a;", 0x80000000, 0, 0, 0xffffffff80000000, 64},
             {32, "cvt.u64.u32 d, a;", 0x80000000, 0, 0, 0x80000000, 64},
             {64, "cvt.u32.u64 d, a;", 0x123456789, 0, 0, 0x23456789, 32},
             {32, "cvt.sat.s8.s32 d, a;", 300, 0, 0, 127},
             {32, "cvt.sat.u8.s32 d, a;", minus(5, 32), 0, 0, 0},
             {32, "cvt.u16.u32 d, a;", 0x12345, 0, 0, 0x2345, 16}});
}

TEST(ConversionTest, FloatsToIntegersRoundAndSaturate) {
  auto convert = [](const char *text, float value) { return uint32_t(evaluate(32, text, bitsOfFloat(value))); };
  EXPECT_EQ(convert("cvt.rni.s32.f32 d, a;", 2.5f), 2u);
  EXPECT_EQ(convert("cvt.rni.s32.f32 d, a;", 3.5f), 4u);
  EXPECT_EQ(convert("cvt.rzi.s32.f32 d, a;", -2.7f), uint32_t(-2));
  EXPECT_EQ(convert("cvt.rmi.s32.f32 d, a;", -2.3f), uint32_t(-3));
  EXPECT_EQ(convert("cvt.rpi.s32.f32 d, a;", 2.3f), 3u);
  EXPECT_EQ(convert("cvt.rzi.s32.f32 d, a;", 1e20f), 0x7fffffffu);
  EXPECT_EQ(convert("cvt.rzi.u32.f32 d, a;", -1.5f), 0u);
  EXPECT_EQ(convert("cvt.rzi.s32.f32 d, a;", NAN), 0u);
  EXPECT_EQ(evaluateFloat("cvt.rni.f32.f32 d, a;", 2.5f), 2);
  EXPECT_EQ(evaluate(32, "cvt.rn.f32.s32 d, a;", minus(3, 32)), bitsOfFloat(-3));
  EXPECT_EQ(evaluate(32, "cvt.rn.f32.u32 d, a;", 0xffffffff), bitsOfFloat(0x1p32f));
  EXPECT_EQ(evaluate(64, "cvt.rn.f32.u64 d, a;", (uint64_t(1) << 40) + 1, 0, 0, 32), bitsOfFloat(0x1p40f));
}

TEST(ConversionTest, SmallFloats) {
  const uint32_t one = bitsOfFloat(1), tie = 0x3f808000, above = 0x3f808001; // between bf16 3f80 and 3f81
  EXPECT_EQ(evaluate(32, "cvt.rn.bf16.f32 d, a;", tie, 0, 0, 16), 0x3f80u);
  EXPECT_EQ(evaluate(32, "cvt.rn.bf16.f32 d, a;", above, 0, 0, 16), 0x3f81u);
  EXPECT_EQ(evaluate(32, "cvt.rz.bf16.f32 d, a;", 0x3f80ffff, 0, 0, 16), 0x3f80u);
  EXPECT_EQ(evaluate(32, "cvt.rn.bf16x2.f32 d, a, b;", one, above), 0x3f803f81u); // a is the upper half
  EXPECT_EQ(evaluate(32, "cvt.rn.relu.bf16x2.f32 d, a, b;", bitsOfFloat(-1), one), 0x00003f80u);
  EXPECT_EQ(evaluate(32, "cvt.rn.f16.f32 d, a;", bitsOfFloat(65520), 0, 0, 16), 0x7c00u); // infinity
  EXPECT_EQ(evaluate(32, "cvt.rn.f16.f32 d, a;", bitsOfFloat(0x1p-24f), 0, 0, 16), 1u);   // subnormal
  EXPECT_EQ(evaluate(32, "cvt.rn.f16x2.f32 d, a, b;", bitsOfFloat(-2), one), 0xc0003c00u);
  EXPECT_EQ(evaluate(16, "cvt.f32.f16 d, a;", 0x3555, 0, 0, 32), bitsOfFloat(0x555p-12f));
  EXPECT_EQ(evaluate(16, "cvt.f32.bf16 d, a;", 0x4040, 0, 0, 32), bitsOfFloat(3));
  EXPECT_EQ(evaluate(32, "cvt.rna.tf32.f32 d, a;", 0x3f801000), 0x3f802000u);
  EXPECT_EQ(evaluate(32, "cvt.rn.satfinite.e4m3x2.f32 d, a, b;", bitsOfFloat(1000), one, 0, 16), 0x7e38u); // 448 and 1
  EXPECT_EQ(evaluate(32, "cvt.rn.satfinite.e5m2x2.f32 d, a, b;", bitsOfFloat(-2), one, 0, 16), 0xc03cu);
  EXPECT_EQ(evaluate(16, "cvt.rn.f16x2.e4m3x2 d, a;", 0x4038, 0, 0, 32), 0x40003c00u);
}

TEST(ConversionTest, PackedSaturation) {
  EXPECT_EQ(evaluate(32, "cvt.pack.sat.s8.s32.b32 d, a, b, c;", 300, minus(300, 32), 0x1234), 0x12347f80u);
  EXPECT_EQ(evaluate(32, "cvt.pack.sat.u8.s32.b32 d, a, b, c;", 300, minus(1, 32), 0x1234), 0x1234ff00u);
  EXPECT_EQ(evaluate(32, "cvt.pack.sat.s16.s32 d, a, b;", 100000, 5), 0x7fff0005u);
}

} // namespace
