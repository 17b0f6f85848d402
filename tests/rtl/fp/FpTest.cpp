//===- FpTest.cpp - The RTL's arithmetic against that of the host ---------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every function of tw_fp_pkg on all pairs (or triples) of special patterns and
// on random ones, against simulator/functional/StageOps.h, isa/timing/
// FunctionTables.h and the host's own binary32.
//===----------------------------------------------------------------------===//

#include "VFpHarness.h"
#include "isa/IsaStructs.h"
#include "isa/timing/FunctionTables.h"
#include "simulator/functional/StageOps.h"
#include "tests/fuzz/Seed.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <vector>

using namespace tw;
using functional::floatBits;
using functional::floatFromBits;
using isa::StageOp;
using isa::VectorType;

namespace {

constexpr unsigned kLanes = 16;

/// What tw_fp_harness applies; the numbers of its apply().
enum Group : uint8_t { Alu, Function, ConvertIn, ConvertOut, ConvertB };
enum Number : uint8_t {
  Add,
  Sub,
  Mul,
  Fma,
  Div,
  Sqrt,
  Rsqrt,
  Max,
  Min,
  Floor,
  Lt,
  Canonical,
  FromI32,
  ToI32,
  ToI32Trunc,
  ToBf16,
  FromBf16,
  Exp,
  Sigmoid,
  Tanh,
  Erf,
  Log,
  I32Div,
  Quantize,
  Dequantize,
  SaturateI8,
  SaturateU8,
  WindowMaxReal,
  WindowMaxInteger,
  WindowPlusReal,
  WindowPlusInteger,
  WindowTimesReal,
  WindowTimesInteger
};

struct Operands {
  uint32_t x, y, b, imm0, imm1;
};

/// Whether a NaN must be the canonical one: no stage that only moves or flips bits makes it so.
enum class Nan { Canonical, Any };

struct Subject {
  const char *name;
  Group group;
  uint8_t number;
  /// Operands it has: 1 x; 2 x and y; 3 x, y and b; 4 all.
  unsigned operands;
  std::function<uint32_t(const Operands &)> expected;
  Nan nan = Nan::Canonical;
};

bool isNan(uint32_t bits) { return (bits & 0x7fffffff) > 0x7f800000; }
float real(uint32_t bits) { return floatFromBits(bits); }
/// Bits of a result of the host, NaN canonical.
uint32_t bitsOf(float value) { return isNan(floatBits(value)) ? timing::kCanonicalNan : floatBits(value); }

/// The verilated functions. Operand sets are gathered and run a vector at a time.
class FpTest : public testing::Test {
protected:
  void add(const Subject &subject, const Operands &operands) {
    waiting[numWaiting++] = operands;
    if (numWaiting == kLanes)
      run(subject);
  }

  /// The sets gathered so far.
  void run(const Subject &subject) {
    model->group_i = subject.group;
    model->number_i = subject.number;
    for (unsigned i = 0; i < numWaiting; ++i) {
      model->x_i[i] = waiting[i].x;
      model->y_i[i] = waiting[i].y;
      model->b_i[i] = waiting[i].b;
      model->imm0_i[i] = waiting[i].imm0;
      model->imm1_i[i] = waiting[i].imm1;
    }
    model->eval();
    for (unsigned i = 0; i < numWaiting; ++i) {
      uint32_t expected = subject.expected(waiting[i]), actual = model->result_o[i];
      if (expected == actual || (subject.nan == Nan::Any && isNan(expected) && isNan(actual)))
        continue;
      if (++failures <= 20)
        ADD_FAILURE() << subject.name << std::hex << " x=" << waiting[i].x << " y=" << waiting[i].y << " b=" << waiting[i].b
                      << " imm0=" << waiting[i].imm0 << " imm1=" << waiting[i].imm1 << ": " << actual << " instead of "
                      << expected;
    }
    cases += numWaiting;
    numWaiting = 0;
  }

  void check(const Subject &subject, uint64_t randomCases);

  void check(const std::vector<Subject> &subjects, uint64_t randomCases) {
    std::cout << "seed " << fuzz::firstSeed() << "\n";
    for (const Subject &subject : subjects)
      check(subject, randomCases);
    std::cout << cases << " results compared\n";
  }

  uint32_t randomPattern();

  std::unique_ptr<VFpHarness> model = std::make_unique<VFpHarness>();
  std::mt19937_64 random{fuzz::firstSeed()};
  Operands waiting[kLanes];
  unsigned numWaiting = 0;
  uint64_t failures = 0, cases = 0;
};

/// Numbers next to every boundary of formats and algorithms; as integers too.
const std::vector<uint32_t> &specialPatterns() {
  static const std::vector<uint32_t> patterns = [] {
    std::vector<uint32_t> list;
    for (uint32_t magnitude :
         {0x00000000u, // 0, then the ends of the subnormal range
          0x00000001u, 0x00000002u, 0x00000003u, 0x00400000u, 0x007ffffeu, 0x007fffffu, 0x00800000u, 0x00800001u, 0x00ffffffu,
          0x01000000u,                                                     // 2^-125
          0x0c000001u, 0x1f800000u, 0x20000001u,                           // squares next to the smallest numbers
          0x33000000u, 0x33800000u, 0x33800001u,                           // 2^-25, 2^-24: half a unit of 1
          0x3e800000u, 0x3effffffu, 0x3f000000u, 0x3f000001u, 0x3f35c28fu, // around 1/2, the root of 1/2
          0x3f7fffffu, 0x3f800000u, 0x3f800001u, 0x3fb504f3u, 0x3fc00000u, 0x40000000u, 0x40400000u, 0x40490fdbu, 0x40800000u,
          0x417fffffu, 0x41800000u, 0x42b00000u, 0x42b17218u, 0x42c80000u, 0x42c80001u, 0x42dc0000u, 0x42dc0001u, // ends of exp
          0x4b000000u, 0x4b000001u, 0x4b7fffffu, 0x4b800000u, 0x4effffffu, 0x4f000000u,
          0x4f800000u, // 2^23, 2^24, 2^31, 2^32
          0x5f7fffffu, 0x5f800000u, 0x7e800000u, 0x7effffffu, 0x7f000000u, 0x7f7ffffeu,
          0x7f7fffffu,                                                     // large squares, the largest
          0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x7fc12345u, 0x7fffffffu, // infinity, NaN
          0x0000007fu, 0x00000080u, 0x000000ffu, 0x00000100u}) {
      list.push_back(magnitude);
      list.push_back(magnitude | 0x80000000u);
    }
    for (uint32_t negative : {1u, 2u, 127u, 128u, 129u, 255u, 256u, 0x7fffff80u})
      list.push_back(-negative);
    return list;
  }();
  return patterns;
}

uint32_t FpTest::randomPattern() {
  uint64_t r = random();
  uint32_t bits = uint32_t(r);
  switch ((r >> 32) & 15) {
  case 0:
  case 1:
  case 2:
  case 3:
    return bits;
  case 4: // few significant bits: exact results and ties
    return bits & (0xff800000u | (0xffu << ((r >> 36) % 24)));
  case 5: // long runs of ones
    return bits | (0x7fffffu >> ((r >> 36) % 24));
  case 6: // subnormals
    return bits & 0x807fffffu;
  case 7: // small integers
    return uint32_t(int32_t(bits) >> ((r >> 36) % 31));
  case 8: // a special pattern
    return specialPatterns()[(r >> 36) % specialPatterns().size()];
  default: // the exponents that numbers of a network have
    return (bits & 0x807fffffu) | uint32_t(127 - 24 + (r >> 36) % 40) << 23;
  }
}

void FpTest::check(const Subject &subject, uint64_t randomCases) {
  const std::vector<uint32_t> &special = specialPatterns();
  size_t ys = subject.operands >= 2 ? special.size() : 1, bs = subject.operands >= 3 ? special.size() : 1;
  for (uint32_t x : special)
    for (size_t j = 0; j < ys; ++j)
      for (size_t k = 0; k < bs; ++k) {
        Operands operands{x, special[j], special[k], special[(j + k) % special.size()],
                          special[(2 * j + k + 1) % special.size()]};
        add(subject, operands);
      }
  for (uint64_t i = 0; i < randomCases; ++i) {
    Operands operands{randomPattern(), randomPattern(), randomPattern(), randomPattern(), randomPattern()};
    // Sums that cancel, products that the addend cancels, near ties.
    uint64_t how = random();
    uint32_t nearby = uint32_t(how >> 8) % 5 - 2;
    if (how % 8 == 0)
      operands.y = (operands.x ^ 0x80000000u) + nearby;
    if (how % 4 == 1)
      operands.b = floatBits(-(real(operands.x) * real(operands.y))) + nearby;
    if (how % 4 == 2)
      operands.imm1 = floatBits(-(real(operands.x) * real(operands.imm0))) + nearby;
    if (how % 4 == 3)
      operands.x = floatBits(-(real(operands.b) * real(operands.imm0))) + nearby;
    add(subject, operands);
  }
  run(subject);
}

int32_t asInt(uint32_t bits) { return int32_t(bits); }
const timing::FunctionTables &tables() { return timing::functionTables(); }

/// Independent of StageOps where the host has an operation of its own.
const std::vector<Subject> kFunctions = {
    {"fp_add", Function, Add, 2, [](const Operands &o) { return bitsOf(real(o.x) + real(o.y)); }},
    {"fp_sub", Function, Sub, 2, [](const Operands &o) { return bitsOf(real(o.x) - real(o.y)); }},
    {"fp_mul", Function, Mul, 2, [](const Operands &o) { return bitsOf(real(o.x) * real(o.y)); }},
    {"fp_div", Function, Div, 2, [](const Operands &o) { return bitsOf(real(o.x) / real(o.y)); }},
    {"fp_sqrt", Function, Sqrt, 1, [](const Operands &o) { return bitsOf(std::sqrt(real(o.x))); }},
    {"fp_rsqrt", Function, Rsqrt, 1, [](const Operands &o) { return bitsOf(functional::frsqrt(real(o.x))); }},
    {"fp_max", Function, Max, 2, [](const Operands &o) { return bitsOf(functional::fmax(real(o.x), real(o.y))); }},
    {"fp_min", Function, Min, 2, [](const Operands &o) { return bitsOf(functional::fmin(real(o.x), real(o.y))); }},
    {"fp_floor", Function, Floor, 1, [](const Operands &o) { return bitsOf(std::floor(real(o.x))); }},
    {"fp_lt", Function, Lt, 2, [](const Operands &o) { return uint32_t(real(o.x) < real(o.y)); }},
    {"fp_canonical", Function, Canonical, 1, [](const Operands &o) { return floatBits(functional::canonical(real(o.x))); }},
    {"i32_to_fp", Function, FromI32, 1, [](const Operands &o) { return floatBits(functional::i2f(asInt(o.x))); }},
    {"fp_to_i32", Function, ToI32, 1, [](const Operands &o) { return uint32_t(functional::f2i(real(o.x))); }},
    {"fp_to_i32_trunc", Function, ToI32Trunc, 1, [](const Operands &o) { return uint32_t(functional::f2iTrunc(real(o.x))); }},
    {"fp_to_bf16", Function, ToBf16, 1, [](const Operands &o) { return uint32_t(functional::toBf16(real(o.x))); }},
    {"bf16_to_fp", Function, FromBf16, 1, [](const Operands &o) { return o.x << 16; }},
    {"i32_div", Function, I32Div, 2, [](const Operands &o) { return uint32_t(functional::idiv(asInt(o.x), asInt(o.y))); }},
    {"quantize", Function, Quantize, 2,
     [](const Operands &o) { return uint32_t(functional::quantize(real(o.x), asInt(o.y))); }},
    {"saturate_i8", Function, SaturateI8, 1,
     [](const Operands &o) { return uint32_t(uint8_t(functional::saturateI8(asInt(o.x)))); }},
    {"saturate_u8", Function, SaturateU8, 1, [](const Operands &o) { return uint32_t(functional::saturateU8(asInt(o.x))); }},
    {"window_max fp32", Function, WindowMaxReal, 2,
     [](const Operands &o) { return bitsOf(functional::fmax(real(o.x), real(o.y))); }},
    {"window_max int32", Function, WindowMaxInteger, 2,
     [](const Operands &o) { return uint32_t(std::max(asInt(o.x), asInt(o.y))); }},
    {"window_plus fp32", Function, WindowPlusReal, 2, [](const Operands &o) { return bitsOf(real(o.x) + real(o.y)); }},
    {"window_plus int32", Function, WindowPlusInteger, 2, [](const Operands &o) { return o.x + o.y; }},
    {"window_times fp32", Function, WindowTimesReal, 2, [](const Operands &o) { return bitsOf(real(o.x) * real(o.y)); }},
    {"window_times int32", Function, WindowTimesInteger, 2, [](const Operands &o) { return o.x * o.y; }},
};

const std::vector<Subject> kTernary = {
    {"fp_fma", Function, Fma, 3, [](const Operands &o) { return bitsOf(__builtin_fmaf(real(o.x), real(o.y), real(o.b))); }},
    {"dequantize", Function, Dequantize, 3,
     [](const Operands &o) { return bitsOf(functional::dequantize(asInt(o.x), asInt(o.y), real(o.b))); }},
};

/// The host's tanh and erf would look up a segment of NaN before they give NaN.
template <typename Host> uint32_t byTable(Host host, uint32_t x) {
  return isNan(x) ? timing::kCanonicalNan : bitsOf(host(tables(), real(x)));
}
uint32_t hostExp(uint32_t x) {
  return byTable([](const timing::FunctionTables &t, float v) { return timing::tableExp(t, v); }, x);
}
uint32_t hostSigmoid(uint32_t x) {
  return byTable([](const timing::FunctionTables &t, float v) { return timing::tableSigmoid(t, v); }, x);
}
uint32_t hostTanh(uint32_t x) {
  return byTable([](const timing::FunctionTables &t, float v) { return timing::tableTanh(t, v); }, x);
}
uint32_t hostErf(uint32_t x) {
  return byTable([](const timing::FunctionTables &t, float v) { return timing::tableErf(t, v); }, x);
}
uint32_t hostLog(uint32_t x) {
  return byTable([](const timing::FunctionTables &t, float v) { return timing::tableLog(t, v); }, x);
}

const std::vector<Subject> kByTable = {
    {"fp_exp", Function, Exp, 1, [](const Operands &o) { return hostExp(o.x); }},
    {"fp_sigmoid", Function, Sigmoid, 1, [](const Operands &o) { return hostSigmoid(o.x); }},
    {"fp_tanh", Function, Tanh, 1, [](const Operands &o) { return hostTanh(o.x); }},
    {"fp_erf", Function, Erf, 1, [](const Operands &o) { return hostErf(o.x); }},
    {"fp_log", Function, Log, 1, [](const Operands &o) { return hostLog(o.x); }},
};

Subject stage(const char *name, StageOp op, unsigned operands, std::function<uint32_t(const Operands &)> expected,
              Nan nan = Nan::Canonical) {
  return {name, Alu, uint8_t(op), operands, std::move(expected), nan};
}

/// One for every operation, written out from the text of the instruction set: y is the stage's operand, B source B.
const std::vector<Subject> kStages = {
    stage("nop", StageOp::Nop, 2, [](const Operands &o) { return o.x; }),
    stage("save", StageOp::Save, 2, [](const Operands &o) { return o.x; }),
    stage("iadd", StageOp::Iadd, 2, [](const Operands &o) { return o.x + o.y; }),
    stage("isub", StageOp::Isub, 2, [](const Operands &o) { return o.x - o.y; }),
    stage("irsub", StageOp::Irsub, 2, [](const Operands &o) { return o.y - o.x; }),
    stage("imul", StageOp::Imul, 2, [](const Operands &o) { return o.x * o.y; }),
    stage("imax", StageOp::Imax, 2, [](const Operands &o) { return uint32_t(std::max(asInt(o.x), asInt(o.y))); }),
    stage("imin", StageOp::Imin, 2, [](const Operands &o) { return uint32_t(std::min(asInt(o.x), asInt(o.y))); }),
    stage("idiv", StageOp::Idiv, 2, [](const Operands &o) { return uint32_t(functional::idiv(asInt(o.x), asInt(o.y))); }),
    stage("iridiv", StageOp::Iridiv, 2, [](const Operands &o) { return uint32_t(functional::idiv(asInt(o.y), asInt(o.x))); }),
    stage("ishr", StageOp::Ishr, 2, [](const Operands &o) { return uint32_t(asInt(o.x) >> (o.y & 31)); }),
    stage("iand", StageOp::Iand, 2, [](const Operands &o) { return o.x & o.y; }),
    stage("ior", StageOp::Ior, 2, [](const Operands &o) { return o.x | o.y; }),
    stage("ixor", StageOp::Ixor, 2, [](const Operands &o) { return o.x ^ o.y; }),
    stage("fadd", StageOp::Fadd, 2, [](const Operands &o) { return bitsOf(real(o.x) + real(o.y)); }),
    stage("fsub", StageOp::Fsub, 2, [](const Operands &o) { return bitsOf(real(o.x) - real(o.y)); }),
    stage("frsub", StageOp::Frsub, 2, [](const Operands &o) { return bitsOf(real(o.y) - real(o.x)); }),
    stage("fmul", StageOp::Fmul, 2, [](const Operands &o) { return bitsOf(real(o.x) * real(o.y)); }),
    stage("fdiv", StageOp::Fdiv, 2, [](const Operands &o) { return bitsOf(real(o.x) / real(o.y)); }),
    stage("frdiv", StageOp::Frdiv, 2, [](const Operands &o) { return bitsOf(real(o.y) / real(o.x)); }),
    stage("fmax", StageOp::Fmax, 2, [](const Operands &o) { return bitsOf(functional::fmax(real(o.x), real(o.y))); }),
    stage("fmin", StageOp::Fmin, 2, [](const Operands &o) { return bitsOf(functional::fmin(real(o.x), real(o.y))); }),
    stage("ffma", StageOp::Ffma, 4,
          [](const Operands &o) { return bitsOf(__builtin_fmaf(real(o.x), real(o.imm0), real(o.imm1))); }),
    stage("ffma_b", StageOp::FfmaB, 4,
          [](const Operands &o) { return bitsOf(__builtin_fmaf(real(o.b), real(o.imm0), real(o.x))); }),
    stage(
        "fabs", StageOp::Fabs, 1, [](const Operands &o) { return o.x & 0x7fffffff; }, Nan::Any),
    stage(
        "fneg", StageOp::Fneg, 1, [](const Operands &o) { return o.x ^ 0x80000000; }, Nan::Any),
    stage("ffloor", StageOp::Ffloor, 1, [](const Operands &o) { return bitsOf(std::floor(real(o.x))); }),
    stage("fsqrt", StageOp::Fsqrt, 1, [](const Operands &o) { return bitsOf(std::sqrt(real(o.x))); }),
    stage("frsqrt", StageOp::Frsqrt, 1, [](const Operands &o) { return bitsOf(1.0f / std::sqrt(real(o.x))); }),
    stage("fexp", StageOp::Fexp, 1, [](const Operands &o) { return hostExp(o.x); }),
    stage("fsigmoid", StageOp::Fsigmoid, 1, [](const Operands &o) { return hostSigmoid(o.x); }),
    stage("ftanh", StageOp::Ftanh, 1, [](const Operands &o) { return hostTanh(o.x); }),
    stage("ferf", StageOp::Ferf, 1, [](const Operands &o) { return hostErf(o.x); }),
    stage("flog", StageOp::Flog, 1, [](const Operands &o) { return hostLog(o.x); }),
    stage("i2f", StageOp::I2f, 1, [](const Operands &o) { return floatBits(float(asInt(o.x))); }),
    stage("f2i", StageOp::F2i, 1, [](const Operands &o) { return uint32_t(functional::f2i(real(o.x))); }),
    stage("f2i_trunc", StageOp::F2iTrunc, 1, [](const Operands &o) { return uint32_t(functional::f2iTrunc(real(o.x))); }),
    stage("quantize", StageOp::Quantize, 4,
          [](const Operands &o) { return uint32_t(functional::quantize(real(o.x), asInt(o.imm0))); }),
    stage("dequantize", StageOp::Dequantize, 4,
          [](const Operands &o) { return bitsOf(functional::dequantize(asInt(o.x), asInt(o.imm0), real(o.imm1))); }),
    stage("load_b", StageOp::LoadB, 2, [](const Operands &o) { return o.x; }),
    stage("load_saved", StageOp::LoadSaved, 2, [](const Operands &o) { return o.x; }),
};

uint32_t zeroPointOf(uint32_t bits) { return uint32_t(int32_t(bits << 23) >> 23); }

const std::vector<Subject> kConversions = {
    {"read i8", ConvertIn, uint8_t(VectorType::I8), 2,
     [](const Operands &o) { return uint32_t(int8_t(o.x)) - zeroPointOf(o.y); }},
    {"read u8", ConvertIn, uint8_t(VectorType::U8), 2,
     [](const Operands &o) { return uint32_t(uint8_t(o.x)) - zeroPointOf(o.y); }},
    {"read i32", ConvertIn, uint8_t(VectorType::I32), 2, [](const Operands &o) { return o.x - zeroPointOf(o.y); }},
    {"read f32", ConvertIn, uint8_t(VectorType::F32), 2, [](const Operands &o) { return o.x; }},
    {"read bf16", ConvertIn, uint8_t(VectorType::Bf16), 2, [](const Operands &o) { return o.x << 16; }},
    {"write i8", ConvertOut, uint8_t(VectorType::I8), 1,
     [](const Operands &o) { return uint32_t(uint8_t(std::clamp(asInt(o.x), -128, 127))); }},
    {"write u8", ConvertOut, uint8_t(VectorType::U8), 1,
     [](const Operands &o) { return uint32_t(std::clamp(asInt(o.x), 0, 255)); }},
    {"write i32", ConvertOut, uint8_t(VectorType::I32), 1, [](const Operands &o) { return o.x; }},
    {"write f32", ConvertOut, uint8_t(VectorType::F32), 1, [](const Operands &o) { return bitsOf(real(o.x)); }},
    {"write bf16", ConvertOut, uint8_t(VectorType::Bf16), 1,
     [](const Operands &o) { return uint32_t(functional::toBf16(real(o.x))); }},
};

/// Every conversion of source B from every type.
std::vector<Subject> conversionsOfB() {
  std::vector<Subject> subjects;
  for (isa::Conversion conversion : {isa::Conversion::None, isa::Conversion::ToFloat, isa::Conversion::Dequantize})
    for (VectorType type : {VectorType::I8, VectorType::U8, VectorType::I32, VectorType::F32, VectorType::Bf16}) {
      bool isReal = type == VectorType::F32 || type == VectorType::Bf16;
      auto expected = [=](const Operands &o) {
        uint32_t value = isReal || conversion == isa::Conversion::None ? o.x : floatBits(float(asInt(o.x)));
        return conversion == isa::Conversion::Dequantize ? bitsOf(real(value) * real(o.y)) : value;
      };
      subjects.push_back({"source B", ConvertB, uint8_t(unsigned(conversion) << 3 | unsigned(type)), 2, expected});
    }
  return subjects;
}

TEST_F(FpTest, TablesAreThoseOfTheHost) {
  model->eval();
  EXPECT_EQ(model->digest_o, timing::functionTablesDigest());
}

TEST_F(FpTest, ArithmeticHasTheBitsOfTheHost) { check(kFunctions, fuzz::numCases(300000)); }
TEST_F(FpTest, FusedArithmeticHasTheBitsOfTheHost) { check(kTernary, fuzz::numCases(1000000)); }
TEST_F(FpTest, FunctionsByTableHaveTheBitsOfTheHost) { check(kByTable, fuzz::numCases(200000)); }
TEST_F(FpTest, StagesHaveTheBitsOfTheHost) { check(kStages, fuzz::numCases(40000)); }
TEST_F(FpTest, ElementsAreReadAndWrittenAsOnTheHost) {
  check(kConversions, fuzz::numCases(40000));
  check(conversionsOfB(), fuzz::numCases(20000));
}

/// Every segment of every table at its ends and inside, and every entry of exp's.
TEST_F(FpTest, EverySegmentIsLookedUp) {
  for (const Subject &subject : kByTable) {
    for (unsigned segment = 0; segment <= 256; ++segment)
      for (float width : {1.0f / 16, 1.0f / 64}) {
        uint32_t start = floatBits(float(segment) * width);
        for (uint32_t x : {start - 1, start, start + 1, floatBits((float(segment) + 0.3f) * width)})
          for (uint32_t sign : {0u, 0x80000000u})
            add(subject, {(x & 0x7fffffff) | sign, 0, 0, 0, 0});
        for (uint32_t exponent : {0u, 1u, 126u, 127u, 128u, 254u})
          for (uint32_t rest : {0u, 1u, 0x7fffu})
            add(subject, {exponent << 23 | (segment & 255) << 15 | rest, 0, 0, 0, 0});
      }
    for (int k = -10400; k <= 9400; ++k)
      for (float offset : {-0.5f, 0.0f, 0.49f})
        add(subject, {floatBits((float(k) + offset) * 0x1.62e42fp-7f), 0, 0, 0, 0});
    run(subject);
  }
}

} // namespace
