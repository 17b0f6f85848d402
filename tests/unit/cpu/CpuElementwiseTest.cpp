//===- CpuElementwiseTest.cpp - Scalar functions, broadcasting, casts -----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/cpu/CpuTestSupport.h"
#include <cmath>
#include <limits>

using namespace tw::cpu::test;

namespace {

/// A kernel of one elementwise op over 1-D tensors; `body` computes %r of type `out` from %a of type `in`.
std::string unary(int64_t count, const std::string &in, const std::string &out, const std::string &body) {
  std::string from = "tensor<" + std::to_string(count) + "x" + in + ">";
  std::string to = "tensor<" + std::to_string(count) + "x" + out + ">";
  return "func.func @main(%x: " + from + ") -> " + to + " {\n  %e = tensor.empty() : " + to + R"(
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : )" +
         from + ") outs(%e : " + to + R"() {
  ^bb0(%a: )" +
         in + ", %o: " + out + "):\n    " + body + "\n    linalg.yield %r : " + out + "\n  } -> " + to +
         "\n  return %y : " + to + "\n}";
}

/// Distance in units of the last place of `expected`.
double ulps(float actual, double expected) {
  if (std::isinf(expected) || std::isnan(expected))
    return std::isnan(expected) ? !std::isnan(actual) : actual != expected;
  int exponent;
  std::frexp(expected, &exponent);
  return std::abs(actual - expected) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

void checkFunction(const std::string &op, double (*reference)(double), double low, double high, double limit) {
  const int count = 20011;
  std::vector<float> x(count);
  for (int i = 0; i < count; ++i)
    x[i] = static_cast<float>(low + (high - low) * i / (count - 1));
  auto outputs = runEverywhere(unary(count, "f32", "f32", "%r = " + op + " %a : f32"), {tensorOf(x, {count})});
  ASSERT_EQ(outputs.size(), 1u);
  auto y = valuesOf<float>(outputs[0]);
  double worst = 0;
  int at = 0;
  for (int i = 0; i < count; ++i)
    if (double error = ulps(y[i], reference(x[i])); !(error <= worst)) {
      worst = error;
      at = i;
    }
  EXPECT_LE(worst, limit) << op << "(" << x[at] << ") = " << y[at] << ", expected " << reference(x[at]);
}

TEST(MathFunctionTest, WithinAFewUnitsOfTheLastPlace) {
  checkFunction("math.exp", std::exp, -105, 88.7, 1.2);
  checkFunction("math.exp", std::exp, -1, 1, 1.2);
  checkFunction("math.tanh", std::tanh, -10, 10, 8);
  checkFunction("math.erf", std::erf, -4, 4, 8);
  checkFunction("math.sqrt", std::sqrt, 0, 1e6, 0.5);
  checkFunction("math.floor", std::floor, -100, 100, 0);
  checkFunction("math.absf", std::fabs, -100, 100, 0);
  checkFunction(
      "arith.negf", [](double x) { return -x; }, -100, 100, 0);
  checkFunction(
      "math.roundeven", [](double x) { return std::nearbyint(x); }, -50, 50, 0);
}

/// Functions that no polynomial is at hand for are calls.
TEST(MathFunctionTest, OthersAreAvailable) {
  checkFunction("math.log", std::log, 0.01, 100, 4);
  checkFunction("math.cos", std::cos, -3, 3, 1);
  checkFunction("math.sinh", std::sinh, -3, 3, 2);
  checkFunction("math.acos", std::acos, -1, 1, 1);
  checkFunction("math.ceil", std::ceil, -100, 100, 0);
  checkFunction("math.trunc", std::trunc, -100, 100, 0);
}

TEST(DivisionTest, NeverTraps) {
  const int32_t least = std::numeric_limits<int32_t>::min();
  std::vector<int32_t> x, y, quotient, remainder;
  for (int32_t a : {7, -7, 0, least, 100})
    for (int32_t b : {2, -2, 0, -1, 1, 7}) {
      x.push_back(a);
      y.push_back(b);
      quotient.push_back(b == 0 ? 0 : b == -1 ? static_cast<int32_t>(0u - static_cast<uint32_t>(a)) : a / b);
      remainder.push_back(b == 0 || b == -1 ? 0 : a % b);
    }
  std::string text = R"(
#id = affine_map<(i) -> (i)>
func.func @main(%x: tensor<30xi32>, %y: tensor<30xi32>) -> (tensor<30xi32>, tensor<30xi32>) {
  %e = tensor.empty() : tensor<30xi32>
  %q:2 = linalg.generic {indexing_maps = [#id, #id, #id, #id], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<30xi32>, tensor<30xi32>) outs(%e, %e : tensor<30xi32>, tensor<30xi32>) {
  ^bb0(%a: i32, %b: i32, %o: i32, %p: i32):
    %d = arith.divsi %a, %b : i32
    %r = arith.remsi %a, %b : i32
    linalg.yield %d, %r : i32, i32
  } -> (tensor<30xi32>, tensor<30xi32>)
  return %q#0, %q#1 : tensor<30xi32>, tensor<30xi32>
})";
  auto outputs = runEverywhere(text, {tensorOf(x, {30}), tensorOf(y, {30})});
  ASSERT_EQ(outputs.size(), 2u);
  EXPECT_EQ(valuesOf<int32_t>(outputs[0]), quotient);
  EXPECT_EQ(valuesOf<int32_t>(outputs[1]), remainder);
}

TEST(MathFunctionTest, ExtremesOfExp) {
  float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> x{-infinity, -200, -104, 0, 89, 1000, infinity, std::nanf("")};
  auto outputs = runEverywhere(unary(8, "f32", "f32", "%r = math.exp %a : f32"), {tensorOf(x, {8})});
  auto y = valuesOf<float>(outputs.at(0));
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 1);
  EXPECT_EQ(y[4], infinity);
  EXPECT_EQ(y[5], infinity);
  EXPECT_EQ(y[6], infinity);
  EXPECT_TRUE(std::isnan(y[7]));
}

TEST(ActivationTest, ReluKeepsNotANumber) {
  std::vector<float> x{-1, 0, 2, std::nanf(""), -std::numeric_limits<float>::infinity(), 6.5f, 7};
  auto outputs = runEverywhere(unary(7, "f32", "f32",
                                     "%z = arith.constant 0.0 : f32\n %s = arith.constant 6.0 : f32\n"
                                     "%m = arith.maximumf %a, %z : f32\n"
                                     "%r = arith.minimumf %m, %s : f32"),
                               {tensorOf(x, {7})});
  auto y = valuesOf<float>(outputs.at(0));
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 2);
  EXPECT_TRUE(std::isnan(y[3]));
  EXPECT_EQ(y[4], 0);
  EXPECT_EQ(y[5], 6);
  EXPECT_EQ(y[6], 6);
}

/// No product is contracted into the sum that follows it outside of reductions.
TEST(ElementwiseTest, RoundsEveryStep) {
  const int count = 333;
  std::vector<float> x(count), expected(count);
  for (int i = 0; i < count; ++i) {
    x[i] = 1.0f + static_cast<float>(i) * 0x1.001p-12f;
    volatile float product = x[i] * 1.1f;
    volatile float sum = product + -1.1f;
    expected[i] = sum;
  }
  auto outputs = runEverywhere(unary(count, "f32", "f32",
                                     "%c = arith.constant 1.1 : f32\n%d = arith.constant -1.1 : f32\n"
                                     "%m = arith.mulf %a, %c : f32\n%r = arith.addf %m, %d : f32"),
                               {tensorOf(x, {count})});
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), expected);
}

TEST(QuantizeTest, RoundsToEvenAndSaturates) {
  std::vector<float> x;
  std::vector<uint8_t> expected;
  for (int i = -700; i <= 700; ++i) {
    x.push_back(static_cast<float>(i) * 0.25f);
    float rounded = std::nearbyintf(x.back() / 0.5f);
    expected.push_back(static_cast<uint8_t>(std::min(std::max(rounded, -128.0f), 127.0f) + 128.0f));
  }
  int64_t count = x.size();
  auto outputs = runEverywhere(unary(count, "f32", "i8", R"(%s = arith.constant 0.5 : f32
    %lo = arith.constant -128.0 : f32
    %hi = arith.constant 127.0 : f32
    %zp = arith.constant 128 : i32
    %d = arith.divf %a, %s : f32
    %n = math.roundeven %d : f32
    %c0 = arith.maximumf %n, %lo : f32
    %c1 = arith.minimumf %c0, %hi : f32
    %i = arith.fptosi %c1 : f32 to i32
    %z = arith.addi %i, %zp : i32
    %r = arith.trunci %z : i32 to i8)"),
                               {tensorOf(x, {count})});
  EXPECT_EQ(valuesOf<uint8_t>(outputs.at(0)), expected);
}

TEST(QuantizeTest, DequantisesSignedAndUnsigned) {
  std::vector<uint8_t> x(256);
  for (int i = 0; i < 256; ++i)
    x[i] = i;
  for (bool isSigned : {false, true}) {
    std::vector<float> expected;
    for (int i = 0; i < 256; ++i)
      expected.push_back(static_cast<float>((isSigned ? static_cast<int8_t>(i) : i) - 7) * 0.1f);
    auto outputs = runEverywhere(unary(256, "i8", "f32",
                                       std::string("%w = arith.") + (isSigned ? "extsi" : "extui") +
                                           R"( %a : i8 to i32
    %zp = arith.constant 7 : i32
    %s = arith.constant 0.1 : f32
    %d = arith.subi %w, %zp : i32
    %f = arith.sitofp %d : i32 to f32
    %r = arith.mulf %f, %s : f32)"),
                                 {tensorOf(x, {256})});
    EXPECT_EQ(valuesOf<float>(outputs.at(0)), expected);
  }
}

/// To bfloat16 with rounding to nearest even; subnormals and infinities survive, NaNs become the canonical one.
TEST(BfloatTest, TruncatesToNearestEven) {
  std::vector<uint32_t> bits{0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0xBF80FFFF, 0x7F800000, 0x00018000,
                             0x00008001, 0x7F7FFFFF, 0x80000000, 0x00000001, 0x7F800001, 0xFFFFFFFF};
  std::vector<uint16_t> expected{0x3F80, 0x3F80, 0x3F82, 0x3F81, 0xBF81, 0x7F80, 0x0002,
                                 0x0001, 0x7F80, 0x8000, 0,      0x7FC0, 0x7FC0};
  // The list several times over, so that vectors and remainders both see it.
  std::vector<float> x;
  std::vector<uint16_t> y;
  for (int repeat = 0; repeat < 5; ++repeat)
    for (size_t i = 0; i < bits.size(); ++i) {
      float value;
      std::memcpy(&value, &bits[i], 4);
      x.push_back(value);
      y.push_back(expected[i]);
    }
  int64_t count = x.size();
  auto outputs = runEverywhere(unary(count, "f32", "bf16", "%r = arith.truncf %a : f32 to bf16"), {tensorOf(x, {count})});
  EXPECT_EQ(valuesOf<uint16_t>(outputs.at(0)), y);
  auto back = runEverywhere(unary(count, "bf16", "f32", "%r = arith.extf %a : bf16 to f32"), {tensorOf(y, {count})});
  auto widened = valuesOf<float>(back.at(0));
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &widened[i], 4);
    EXPECT_EQ(bits, static_cast<uint32_t>(y[i]) << 16);
  }
}

/// Arithmetic on bfloat16 itself is that of f32, rounded.
TEST(BfloatTest, ArithmeticRoundsOnce) {
  const int count = 50;
  std::vector<uint16_t> x, expected;
  for (int i = 0; i < count; ++i) {
    x.push_back(static_cast<uint16_t>(0x3F00 + 7 * i));
    float value = tw::frontend::bfloatToFloat(x.back());
    expected.push_back(tw::frontend::floatToBfloat(std::max(value * value, 0.5f)));
  }
  auto outputs = runEverywhere(unary(count, "bf16", "bf16",
                                     "%c = arith.constant 0.5 : bf16\n"
                                     "%m = arith.mulf %a, %a : bf16\n"
                                     "%r = arith.maximumf %m, %c : bf16"),
                               {tensorOf(x, {count})});
  EXPECT_EQ(valuesOf<uint16_t>(outputs.at(0)), expected);
}

TEST(BooleanTest, ComparisonsAreStoredAsBytes) {
  const int count = 75;
  auto x = someValues<float>(count, 3);
  auto outputs = runEverywhere(unary(count, "f32", "i1",
                                     "%c = arith.constant 0.5 : f32\n"
                                     "%r = arith.cmpf ogt, %a, %c : f32"),
                               {tensorOf(x, {count})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].type, tw::frontend::ElementKind::Bool);
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(outputs[0].bytes[i], x[i] > 0.5f);
  HostTensor flags = outputs[0];
  auto back = runEverywhere(unary(count, "i1", "i32", "%r = arith.extui %a : i1 to i32"), {flags});
  for (int i = 0; i < count; ++i)
    EXPECT_EQ(valuesOf<int32_t>(back.at(0))[i], x[i] > 0.5f);
}

/// (2x1x4) + (3x1) -> (2x3x4): by dropped dimensions and by constant indices.
TEST(BroadcastTest, EqualsNaiveLoops) {
  std::string text = R"(
func.func @main(%a: tensor<2x1x36xf32>, %b: tensor<3x1xf32>, %c: tensor<36xf32>) -> tensor<2x3x36xf32> {
  %e = tensor.empty() : tensor<2x3x36xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, 0, k)>, affine_map<(i, j, k) -> (j, 0)>,
      affine_map<(i, j, k) -> (k)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%a, %b, %c : tensor<2x1x36xf32>, tensor<3x1xf32>, tensor<36xf32>) outs(%e : tensor<2x3x36xf32>) {
  ^bb0(%x: f32, %s: f32, %t: f32, %o: f32):
    %m = arith.mulf %x, %s : f32
    %r = arith.subf %m, %t : f32
    linalg.yield %r : f32
  } -> tensor<2x3x36xf32>
  return %y : tensor<2x3x36xf32>
})";
  auto a = someValues<float>(72, 1), b = someValues<float>(3, 2), c = someValues<float>(36, 3);
  std::vector<float> expected;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 36; ++k)
        expected.push_back(a[i * 36 + k] * b[j] - c[k]);
  auto outputs = runEverywhere(text, {tensorOf(a, {2, 1, 36}), tensorOf(b, {3, 1}), tensorOf(c, {36})});
  EXPECT_EQ(valuesOf<float>(outputs.at(0)), expected);
}

/// A chain with a value used twice becomes one kernel; int8 in, int8 out, float inside; x * hard_sigmoid(x).
TEST(ElementwiseTest, ChainOverFloatsInsideBytes) {
  std::string text = R"(
#id = affine_map<(i) -> (i)>
func.func @main(%x: tensor<700xi8>) -> tensor<700xi8> {
  %ef = tensor.empty() : tensor<700xf32>
  %e = tensor.empty() : tensor<700xi8>
  %f = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%x : tensor<700xi8>) outs(%ef : tensor<700xf32>) {
  ^bb0(%a: i8, %o: f32):
    %w = arith.extsi %a : i8 to i32
    %c = arith.sitofp %w : i32 to f32
    linalg.yield %c : f32
  } -> tensor<700xf32>
  %g = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
      ins(%f : tensor<700xf32>) outs(%ef : tensor<700xf32>) {
  ^bb0(%a: f32, %o: f32):
    %half = arith.constant 0.5 : f32
    %slope = arith.constant 0.03125 : f32
    %zero = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %m = arith.mulf %a, %slope : f32
    %s = arith.addf %m, %half : f32
    %l = arith.maximumf %s, %zero : f32
    %h = arith.minimumf %l, %one : f32
    linalg.yield %h : f32
  } -> tensor<700xf32>
  %y = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel"]}
      ins(%f, %g : tensor<700xf32>, tensor<700xf32>) outs(%e : tensor<700xi8>) {
  ^bb0(%a: f32, %b: f32, %o: i8):
    %m = arith.mulf %a, %b : f32
    %r = math.roundeven %m : f32
    %i = arith.fptosi %r : f32 to i32
    %t = arith.trunci %i : i32 to i8
    linalg.yield %t : i8
  } -> tensor<700xi8>
  return %y : tensor<700xi8>
})";
  auto x = someValues<int8_t>(700, 5);
  std::vector<int8_t> expected;
  for (int8_t value : x) {
    float sigmoid = std::min(std::max(value * 0.03125f + 0.5f, 0.0f), 1.0f);
    expected.push_back(static_cast<int8_t>(std::nearbyintf(value * sigmoid)));
  }
  auto outputs = runEverywhere(text, {tensorOf(x, {700})});
  EXPECT_EQ(valuesOf<int8_t>(outputs.at(0)), expected);
}

/// Two results from one op, one of them also read by the next.
TEST(ElementwiseTest, SeveralResults) {
  std::string text = R"(
#id = affine_map<(i, j) -> (i, j)>
func.func @main(%x: tensor<5x9xf32>) -> (tensor<5x9xf32>, tensor<5x9xf32>, tensor<5x9xf32>) {
  %e = tensor.empty() : tensor<5x9xf32>
  %a:2 = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<5x9xf32>) outs(%e, %e : tensor<5x9xf32>, tensor<5x9xf32>) {
  ^bb0(%v: f32, %o: f32, %p: f32):
    %n = arith.negf %v : f32
    %d = arith.addf %v, %v : f32
    linalg.yield %n, %d : f32, f32
  } -> (tensor<5x9xf32>, tensor<5x9xf32>)
  %b = linalg.generic {indexing_maps = [#id, #id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%a#0, %a#1 : tensor<5x9xf32>, tensor<5x9xf32>) outs(%e : tensor<5x9xf32>) {
  ^bb0(%v: f32, %w: f32, %o: f32):
    %n = arith.mulf %v, %w : f32
    linalg.yield %n : f32
  } -> tensor<5x9xf32>
  return %b, %a#0, %b : tensor<5x9xf32>, tensor<5x9xf32>, tensor<5x9xf32>
})";
  auto x = someValues<float>(45, 6);
  std::vector<float> product, negated;
  for (float value : x) {
    negated.push_back(-value);
    product.push_back(-value * (value + value));
  }
  auto outputs = runEverywhere(text, {tensorOf(x, {5, 9})});
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(valuesOf<float>(outputs[0]), product);
  EXPECT_EQ(valuesOf<float>(outputs[1]), negated);
  EXPECT_EQ(valuesOf<float>(outputs[2]), product);
}

TEST(ElementwiseTest, WideIntegers) {
  std::vector<int64_t> x{-5, 7, 1ll << 40, 0, -(1ll << 50), 3, 12345678901, -1, 8};
  auto outputs = runEverywhere(unary(9, "i64", "i64",
                                     "%c = arith.constant 3 : i64\n%m = arith.muli %a, %c : i64\n"
                                     "%d = arith.constant 1000 : i64\n%r = arith.addi %m, %d : i64"),
                               {tensorOf(x, {9})});
  std::vector<int64_t> expected;
  for (int64_t value : x)
    expected.push_back(value * 3 + 1000);
  EXPECT_EQ(valuesOf<int64_t>(outputs.at(0)), expected);
}

} // namespace
