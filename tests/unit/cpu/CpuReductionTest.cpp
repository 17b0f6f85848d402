//===- CpuReductionTest.cpp - Contractions, pools, reductions -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/unit/cpu/CpuTestSupport.h"
#include "llvm/Support/FormatVariadic.h"

using namespace tw::cpu::test;

namespace {

std::string shape(std::initializer_list<int64_t> extents, const char *type) {
  std::string text = "tensor<";
  for (int64_t extent : extents)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

std::string number(int64_t value) { return std::to_string(value); }

struct ConvCase {
  int64_t height, width, channels, kernel, stride, dilation, pad, features;
  int64_t out(int64_t in) const { return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1; }
};

/// A padded convolution with bias and relu after it, as the lowering writes it.
std::string convText(const ConvCase &c) {
  std::string in = shape({1, c.height, c.width, c.channels}, "f32");
  std::string padded = shape({1, c.height + 2 * c.pad, c.width + 2 * c.pad, c.channels}, "f32");
  std::string weights = shape({c.kernel, c.kernel, c.channels, c.features}, "f32");
  std::string bias = shape({c.features}, "f32");
  std::string out = shape({1, c.out(c.height), c.out(c.width), c.features}, "f32");
  std::string s = number(c.stride), d = number(c.dilation), p = number(c.pad);
  return R"(
func.func private @conv(%x: )" +
         in + ", %w: " + weights + ", %b: " + bias + ") -> " + out + R"( {
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, )" +
         p + ", " + p + ", 0] high[0, " + p + ", " + p + R"(, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %zero : f32
  } : )" +
         in + " to " + padded + R"(
  %empty = tensor.empty() : )" +
         out + R"(
  %filled = linalg.fill ins(%zero : f32) outs(%empty : )" +
         out + ") -> " + out + R"(
  %sum = linalg.generic {indexing_maps = [
      affine_map<(n, h, w, f, y, x, c) -> (n, h * )" +
         s + " + y * " + d + ", w * " + s + " + x * " + d + R"(, c)>,
      affine_map<(n, h, w, f, y, x, c) -> (y, x, c, f)>, affine_map<(n, h, w, f, y, x, c) -> (n, h, w, f)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%padded, %w : )" +
         padded + ", " + weights + ") outs(%filled : " + out + R"() {
  ^bb0(%a: f32, %k: f32, %acc: f32):
    %m = arith.mulf %a, %k : f32
    %r = arith.addf %acc, %m : f32
    linalg.yield %r : f32
  } -> )" +
         out + R"(
  %biased = linalg.generic {indexing_maps = [affine_map<(n, h, w, f) -> (n, h, w, f)>, affine_map<(n, h, w, f) -> (f)>,
      affine_map<(n, h, w, f) -> (n, h, w, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%sum, %b : )" +
         out + ", " + bias + ") outs(%empty : " + out + R"() {
  ^bb0(%a: f32, %k: f32, %o: f32):
    %m = arith.addf %a, %k : f32
    %r = arith.maximumf %m, %zero : f32
    linalg.yield %r : f32
  } -> )" +
         out + R"(
  return %biased : )" +
         out + R"(
}
func.func @main(%x: )" +
         in + ", %w: " + weights + ", %b: " + bias + ") -> " + out + R"( {
  %0 = call @conv(%x, %w, %b) : ()" +
         in + ", " + weights + ", " + bias + ") -> " + out + R"(
  return %0 : )" +
         out + R"(
})";
}

class ConvTest : public testing::TestWithParam<ConvCase> {};

TEST_P(ConvTest, EqualsNaiveLoops) {
  ConvCase c = GetParam();
  auto x = someValues<float>(c.height * c.width * c.channels, 1);
  auto w = someValues<float>(c.kernel * c.kernel * c.channels * c.features, 2);
  auto b = someValues<float>(c.features, 3);
  int64_t oh = c.out(c.height), ow = c.out(c.width);
  std::vector<float> expected;
  for (int64_t h = 0; h < oh; ++h)
    for (int64_t v = 0; v < ow; ++v)
      for (int64_t f = 0; f < c.features; ++f) {
        double sum = b[f];
        for (int64_t y = 0; y < c.kernel; ++y)
          for (int64_t z = 0; z < c.kernel; ++z) {
            int64_t ih = h * c.stride + y * c.dilation - c.pad, iw = v * c.stride + z * c.dilation - c.pad;
            if (ih < 0 || iw < 0 || ih >= c.height || iw >= c.width)
              continue;
            for (int64_t k = 0; k < c.channels; ++k)
              sum += x[(ih * c.width + iw) * c.channels + k] * w[((y * c.kernel + z) * c.channels + k) * c.features + f];
          }
        expected.push_back(sum > 0 ? sum : 0);
      }
  auto outputs =
      runEverywhere(convText(c), {tensorOf(x, {1, c.height, c.width, c.channels}),
                                  tensorOf(w, {c.kernel, c.kernel, c.channels, c.features}), tensorOf(b, {c.features})});
  ASSERT_EQ(outputs.size(), 1u);
  // Products are multiples of 1/64 below 16 and fewer than 2^12 are summed: every order of summation is exact.
  EXPECT_EQ(valuesOf<float>(outputs[0]), expected);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvTest,
                         testing::Values(ConvCase{8, 8, 3, 3, 1, 1, 1, 16},    // first layer
                                         ConvCase{14, 14, 32, 1, 1, 1, 0, 64}, // pixel loops merge
                                         ConvCase{15, 13, 8, 3, 2, 1, 1, 40},  // stride, remainders in every loop
                                         ConvCase{9, 9, 5, 3, 1, 2, 2, 10},    // dilation, fewer features than lanes
                                         ConvCase{7, 7, 16, 7, 1, 1, 0, 7},    // one pixel left
                                         ConvCase{28, 28, 24, 3, 1, 1, 1, 72},
                                         ConvCase{20, 31, 4, 1, 3, 1, 0, 1})); // one feature

class IntegerConvTest : public testing::TestWithParam<int32_t> {};

/// Integer convolution with zero points of the input and the weights, then bias and requantisation.
TEST_P(IntegerConvTest, RequantisesToTheBit) {
  const int32_t weightZero = GetParam();
  const int64_t height = 9, width = 10, channels = 6, features = 21;
  const int32_t inputZero = 131, outputZero = 3;
  std::string text = R"(
#in = affine_map<(n, h, w, f, y, x, c) -> (n, h * 2 + y, w * 2 + x, c)>
#weights = affine_map<(n, h, w, f, y, x, c) -> (y, x, c, f)>
#out = affine_map<(n, h, w, f, y, x, c) -> (n, h, w, f)>
#all = affine_map<(n, h, w, f) -> (n, h, w, f)>
#feature = affine_map<(n, h, w, f) -> (f)>
func.func @main(%x: tensor<1x9x10x6xi8>, %w: tensor<3x3x6x21xi8>, %b: tensor<21xi32>, %m: tensor<21xf32>)
    -> tensor<1x5x5x21xi8> {
  %pad = arith.constant -125 : i8
  %zero = arith.constant 0 : i32
  %padded = tensor.pad %x low[0, 1, 1, 0] high[0, 1, 0, 0] {
  ^bb0(%i0: index, %i1: index, %i2: index, %i3: index):
    tensor.yield %pad : i8
  } : tensor<1x9x10x6xi8> to tensor<1x11x11x6xi8>
  %empty = tensor.empty() : tensor<1x5x5x21xi32>
  %filled = linalg.fill ins(%zero : i32) outs(%empty : tensor<1x5x5x21xi32>) -> tensor<1x5x5x21xi32>
  %sum = linalg.generic {indexing_maps = [#in, #weights, #out], iterator_types =
      ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%padded, %w : tensor<1x11x11x6xi8>, tensor<3x3x6x21xi8>) outs(%filled : tensor<1x5x5x21xi32>) {
  ^bb0(%a: i8, %k: i8, %acc: i32):
    %zp = arith.constant 131 : i32
    %a32 = arith.extui %a : i8 to i32
    %az = arith.subi %a32, %zp : i32
    %k32 = arith.extsi %k : i8 to i32
    %kzp = arith.constant )" +
                     number(weightZero) + R"( : i32
    %kz = arith.subi %k32, %kzp : i32
    %p = arith.muli %az, %kz : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  } -> tensor<1x5x5x21xi32>
  %e8 = tensor.empty() : tensor<1x5x5x21xi8>
  %y = linalg.generic {indexing_maps = [#all, #feature, #feature, #all],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%sum, %b, %m : tensor<1x5x5x21xi32>, tensor<21xi32>, tensor<21xf32>) outs(%e8 : tensor<1x5x5x21xi8>) {
  ^bb0(%a: i32, %bias: i32, %scale: f32, %o: i8):
    %lo = arith.constant -131.0 : f32
    %hi = arith.constant 124.0 : f32
    %zp = arith.constant 3 : i32
    %s = arith.addi %a, %bias : i32
    %f = arith.sitofp %s : i32 to f32
    %g = arith.mulf %f, %scale : f32
    %r = math.roundeven %g : f32
    %c0 = arith.maximumf %r, %lo : f32
    %c1 = arith.minimumf %c0, %hi : f32
    %i = arith.fptosi %c1 : f32 to i32
    %z = arith.addi %i, %zp : i32
    %t = arith.trunci %z : i32 to i8
    linalg.yield %t : i8
  } -> tensor<1x5x5x21xi8>
  return %y : tensor<1x5x5x21xi8>
})";
  auto x = someValues<uint8_t>(height * width * channels, 4);
  auto w = someValues<int8_t>(9 * channels * features, 5);
  std::vector<int32_t> b;
  std::vector<float> m;
  for (int64_t f = 0; f < features; ++f) {
    b.push_back(static_cast<int32_t>(f * 977 - 9000));
    m.push_back(0.0007f + 0.0001f * static_cast<float>(f));
  }
  std::vector<int8_t> expected;
  for (int64_t h = 0; h < 5; ++h)
    for (int64_t v = 0; v < 5; ++v)
      for (int64_t f = 0; f < features; ++f) {
        int32_t sum = b[f];
        for (int64_t i = 0; i < 9 * channels; ++i) {
          int64_t ih = h * 2 + i / channels / 3 - 1, iw = v * 2 + i / channels % 3 - 1;
          // Padding is 131, the zero point: it adds nothing.
          if (ih < 0 || iw < 0 || ih >= height || iw >= width)
            continue;
          sum += (x[(ih * width + iw) * channels + i % channels] - inputZero) * (w[i * features + f] - weightZero);
        }
        float scaled = std::nearbyintf(static_cast<float>(sum) * m[f]);
        expected.push_back(static_cast<int8_t>(static_cast<int>(std::min(std::max(scaled, -131.0f), 124.0f)) + outputZero));
      }
  for (unsigned products : {1u, 2u, 4u}) {
    auto outputs = runEverywhere(text,
                                 {tensorOf(x, {1, height, width, channels}), tensorOf(w, {3, 3, channels, features}),
                                  tensorOf(b, {features}), tensorOf(m, {features})},
                                 products);
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(valuesOf<int8_t>(outputs[0]), expected) << products << " products an instruction";
  }
}

INSTANTIATE_TEST_SUITE_P(WeightZeros, IntegerConvTest, testing::Values(0, 4, -9));

/// Matrix products of bytes of either sign, with and without zero points, constant and computed right-hand sides, sums that
/// start at zero or not, and depths that do not fill the last group.
TEST(IntegerMatmulTest, EveryFormOfProductInstruction) {
  unsigned seed = 0;
  for (int64_t depth : {1, 2, 8, 13})
    for (auto [lhsSigned, lhsZero] : {std::pair(false, 0), {false, 131}, {true, 0}, {true, -7}})
      for (auto [rhsSigned, rhsZero] : {std::pair(true, 0), {false, 128}, {true, 5}, {false, 7}, {true, -128}}) {
        bool constant = ++seed % 2, fromZero = seed % 3;
        const int64_t rows = 5, columns = seed % 4 < 2 ? 27 : 150;
        auto a = someValues<uint8_t>(rows * depth, seed), w = someValues<uint8_t>(depth * columns, seed + 1);
        auto init = someValues<int32_t>(rows * columns, seed + 2);
        auto wide = [](uint8_t byte, bool isSigned) { return isSigned ? static_cast<int8_t>(byte) : int32_t(byte); };
        std::vector<int32_t> expected;
        std::string elements;
        for (int64_t i = 0; i < depth; ++i) {
          elements += i ? ", [" : "[";
          for (int64_t j = 0; j < columns; ++j)
            elements += (j ? ", " : "") + number(static_cast<int8_t>(w[i * columns + j]));
          elements += "]";
        }
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < columns; ++j) {
            int32_t sum = fromZero ? 0 : init[i * columns + j];
            for (int64_t k = 0; k < depth; ++k)
              sum += (wide(a[i * depth + k], lhsSigned) - lhsZero) * (wide(w[k * columns + j], rhsSigned) - rhsZero);
            expected.push_back(sum);
          }
        std::string lhs = shape({rows, depth}, "i8"), rhs = shape({depth, columns}, "i8");
        std::string out = shape({rows, columns}, "i32");
        std::string text = "func.func @main(%a: " + lhs + ", %b: " + rhs + ", %c: " + out + ") -> " + out + R"( {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : )" +
                           out + R"(
  %zeros = linalg.fill ins(%zero : i32) outs(%empty : )" +
                           out + ") -> " + out + R"(
  %k = arith.constant dense<[)" +
                           elements + "]> : " + rhs + R"(
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, )" + (constant ? "%k" : "%b") +
                           " : " + lhs + ", " + rhs + ") outs(" + (fromZero ? "%zeros" : "%c") + " : " + out + R"() {
  ^bb0(%x: i8, %w: i8, %acc: i32):
    %za = arith.constant )" +
                           number(lhsZero) + R"( : i32
    %zw = arith.constant )" +
                           number(rhsZero) + R"( : i32
    %x32 = arith.)" + (lhsSigned ? "extsi" : "extui") +
                           R"( %x : i8 to i32
    %xz = arith.subi %x32, %za : i32
    %w32 = arith.)" + (rhsSigned ? "extsi" : "extui") +
                           R"( %w : i8 to i32
    %wz = arith.subi %w32, %zw : i32
    %p = arith.muli %xz, %wz : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  } -> )" + out +
                           "\n  return %y : " + out + "\n}";
        for (unsigned products : {2u, 4u})
          for (unsigned vectorBits : {128u, 512u}) {
            tw::cpu::CpuOptions options;
            options.integerProducts = products;
            options.vectorBits = vectorBits;
            auto outputs = runWith(
                text, {tensorOf(a, {rows, depth}), tensorOf(w, {depth, columns}), tensorOf(init, {rows, columns})}, options);
            ASSERT_EQ(outputs.size(), 1u);
            EXPECT_EQ(valuesOf<int32_t>(outputs[0]), expected)
                << "depth " << depth << ", left " << lhsSigned << " " << lhsZero << ", right " << rhsSigned << " " << rhsZero
                << ", " << products << " products an instruction";
          }
      }
}

/// A normalisation and a softmax over long rows: their steps go through a few rows at a time, or through all of them where the number of
/// rows has no fitting divisor.
TEST(RowsTest, StepsOverTheSameRowsEqualNaiveLoops) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>(48, 301), {53, 300}, {32, 1024}}) {
    const std::string x = shape({1, rows, columns}, "f32"), r = shape({1, rows}, "f32"), n = number(columns);
    const std::string row = "affine_map<(o, i, j) -> (o, i)>", all = "affine_map<(o, i, j) -> (o, i, j)>";
    auto reduction = [&](const std::string &result, const std::string &input, const std::string &body) {
      return "  %" + result + " = linalg.generic {indexing_maps = [" + all + ", " + row +
             R"(], iterator_types = ["parallel", "parallel", "reduction"]} ins()" + input + " : " + x + ") outs(%zeros : " + r +
             ") {\n  ^bb0(%a: f32, %acc: f32):\n" + body +
             "    %s = arith.addf %acc, %v : f32\n    linalg.yield %s : f32\n  } -> " + r + "\n";
    };
    auto map = [&](const std::string &result, const std::string &input, const std::string &stat, const std::string &body) {
      return "  %" + result + " = linalg.generic {indexing_maps = [" + all + ", " + row + ", " + all +
             R"(], iterator_types = ["parallel", "parallel", "parallel"]} ins()" + input + ", " + stat + " : " + x + ", " + r +
             ") outs(%e : " + x + ") {\n  ^bb0(%a: f32, %b: f32, %o: f32):\n" + body + "    linalg.yield %v : f32\n  } -> " +
             x + "\n";
    };
    const std::string text =
        "func.func @main(%x: " + x + ") -> " + x + R"( {
  %n = arith.constant )" +
        n + R"(.0 : f32
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : )" +
        x + R"(
  %er = tensor.empty() : )" +
        r + R"(
  %zeros = linalg.fill ins(%zero : f32) outs(%er : )" +
        r + ") -> " + r + "\n" + reduction("sum", "%x", "    %v = arith.addf %a, %zero : f32\n") +
        map("centred", "%x", "%sum", "    %m = arith.divf %b, %n : f32\n    %v = arith.subf %a, %m : f32\n") +
        reduction("squares", "%centred", "    %v = arith.mulf %a, %a : f32\n") +
        map("normal", "%centred", "%squares",
            "    %m = arith.divf %b, %n : f32\n    %d = math.sqrt %m : f32\n    %v = arith.divf %a, %d : f32\n") +
        "  %y = linalg.softmax dimension(2) ins(%normal : " + x + ") outs(%e : " + x + ") -> " + x + "\n  return %y : " + x +
        "\n}";
    const auto values = someValues<float>(rows * columns, 9);
    const auto outputs = runEverywhere(text, {tensorOf(values, {1, rows, columns})});
    ASSERT_EQ(outputs.size(), 1u);
    const auto y = valuesOf<float>(outputs[0]);
    for (int64_t i = 0; i < rows; ++i) {
      double mean = 0, variance = 0, sum = 0;
      auto at = [&, row = values.data() + i * columns](int64_t j) { return static_cast<double>(row[j]); };
      for (int64_t j = 0; j < columns; ++j)
        mean += at(j) / static_cast<double>(columns);
      for (int64_t j = 0; j < columns; ++j)
        variance += (at(j) - mean) * (at(j) - mean) / static_cast<double>(columns);
      for (int64_t j = 0; j < columns; ++j)
        sum += std::exp((at(j) - mean) / std::sqrt(variance));
      for (int64_t j = 0; j < columns; ++j) {
        const double expected = std::exp((at(j) - mean) / std::sqrt(variance)) / sum;
        // Sums of 1024 numbers in f32 may be off by 1024 * 2^-24 of themselves.
        ASSERT_NEAR(y[i * columns + j], expected, expected * 1e-4) << rows << " x " << columns << " at " << i << ", " << j;
      }
    }
  }
}

/// A softmax of products of bytes: the products keep their packed factor, and only the steps behind them go through rows together. With
/// several matrices these would be the rows of the products, too.
TEST(RowsTest, StepsBehindProductsLeaveThemWhole) {
  const int64_t rows = 48, depth = 24, columns = 320;
  for (int64_t batch : {1, 8}) {
    const std::string a = shape({batch, rows, depth}, "i8"), w = shape({batch, depth, columns}, "i8");
    const std::string i32 = shape({batch, rows, columns}, "i32"), f32 = shape({batch, rows, columns}, "f32");
    const std::string text = "func.func @main(%a: " + a + ", %w: " + w + ") -> " + f32 + R"( {
  %zero = arith.constant 0 : i32
  %ei = tensor.empty() : )" + i32 +
                             R"(
  %f = linalg.fill ins(%zero : i32) outs(%ei : )" +
                             i32 + ") -> " + i32 + R"(
  %p = linalg.batch_matmul ins(%a, %w : )" +
                             a + ", " + w + ") outs(%f : " + i32 + ") -> " + i32 + R"(
  %e = tensor.empty() : )" + f32 +
                             R"(
  %s = linalg.generic {indexing_maps = [affine_map<(n, i, j) -> (n, i, j)>, affine_map<(n, i, j) -> (n, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]} ins(%p : )" +
                             i32 + ") outs(%e : " + f32 + R"() {
  ^bb0(%x: i32, %o: f32):
    %scale = arith.constant 0.0001 : f32
    %r = arith.sitofp %x : i32 to f32
    %m = arith.mulf %r, %scale : f32
    linalg.yield %m : f32
  } -> )" + f32 +
                             "\n  %y = linalg.softmax dimension(2) ins(%s : " + f32 + ") outs(%e : " + f32 + ") -> " + f32 +
                             "\n  return %y : " + f32 + "\n}";
    const auto x = someValues<int8_t>(batch * rows * depth, 3), v = someValues<int8_t>(batch * depth * columns, 4);
    const auto outputs = runEverywhere(text, {tensorOf(x, {batch, rows, depth}), tensorOf(v, {batch, depth, columns})});
    ASSERT_EQ(outputs.size(), 1u);
    const auto y = valuesOf<float>(outputs[0]);
    for (int64_t i = 0; i < batch * rows; ++i) {
      std::vector<double> exponentials;
      double sum = 0;
      for (int64_t j = 0; j < columns; ++j) {
        int32_t product = 0;
        for (int64_t k = 0; k < depth; ++k)
          product += x[i * depth + k] * v[(i / rows * depth + k) * columns + j];
        exponentials.push_back(std::exp(product * 1e-4));
        sum += exponentials.back();
      }
      for (int64_t j = 0; j < columns; ++j)
        // Sums of 320 numbers in f32 may be off by 320 * 2^-24 of themselves.
        ASSERT_NEAR(y[i * columns + j], exponentials[j] / sum, exponentials[j] / sum * 5e-5) << "at " << i << ", " << j;
    }
  }
}

/// A right-hand side that is computed, with rows far apart in memory: it is packed in each run. The last panels are narrower.
TEST(MatmulTest, PacksAComputedFactor) {
  const int64_t batch = 2, rows = 35, depth = 130;
  for (int64_t columns : {128, 150, 300}) {
    const std::string lhs = shape({batch, rows, depth}, "f32"), rhs = shape({batch, depth, columns}, "f32");
    const std::string out = shape({batch, rows, columns}, "f32");
    const std::string text = "func.func @main(%a: " + lhs + ", %b: " + rhs + ") -> " + out + R"( {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : )" + out +
                             R"(
  %f = linalg.fill ins(%zero : f32) outs(%e : )" +
                             out + ") -> " + out + "\n  %y = linalg.batch_matmul ins(%a, %b : " + lhs + ", " + rhs +
                             ") outs(%f : " + out + ") -> " + out + "\n  return %y : " + out + "\n}";
    // Multiples of 1/8 below 4: sums of so few products are exact in any order.
    const auto a = someValues<float>(batch * rows * depth, 1), w = someValues<float>(batch * depth * columns, 2);
    std::vector<float> expected;
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          float sum = 0;
          for (int64_t k = 0; k < depth; ++k)
            sum += a[(n * rows + i) * depth + k] * w[(n * depth + k) * columns + j];
          expected.push_back(sum);
        }
    auto outputs = runEverywhere(text, {tensorOf(a, {batch, rows, depth}), tensorOf(w, {batch, depth, columns})});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(valuesOf<float>(outputs[0]), expected) << columns << " columns";
  }
}

/// Products of f32 under fast math: both factors are rounded to bfloat16, which keeps 8 bits, and sums are f32. The right-hand side is a
/// constant, which is packed when the code is made, or computed; depths do not all fill the last pair.
TEST(BfloatMatmulTest, IsWithinTheRoundingOfTheFactors) {
  const int64_t rows = 5;
  for (int64_t depth : {2, 7, 64})
    for (int64_t columns : {27, 150})
      for (bool constant : {false, true})
        for (bool isRepresentable : {false, true}) {
          // Multiples of 1/8 below 4 are bfloat16 numbers, their quotients by 3 are not.
          auto numbers = [&](size_t count, unsigned seed) {
            std::vector<float> values = someValues<float>(count, seed);
            for (float &value : values)
              value = isRepresentable ? value : value / 3;
            return values;
          };
          const std::vector<float> a = numbers(rows * depth, 1), w = numbers(depth * columns, 2);
          std::string elements;
          for (int64_t i = 0; i < depth; ++i) {
            elements += i ? ", [" : "[";
            for (int64_t j = 0; j < columns; ++j) {
              char text[32];
              snprintf(text, sizeof text, "%s%.9e", j ? ", " : "", w[i * columns + j]);
              elements += text;
            }
            elements += "]";
          }
          const std::string lhs = shape({rows, depth}, "f32"), rhs = shape({depth, columns}, "f32"),
                            out = shape({rows, columns}, "f32");
          const std::string text = "func.func @main(%a: " + lhs + ", %b: " + rhs + ") -> " + out + R"( {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : )" + out + R"(
  %f = linalg.fill ins(%zero : f32) outs(%e : )" +
                                   out + ") -> " + out + R"(
  %k = arith.constant dense<[)" + elements +
                                   "]> : " + rhs + R"(
  %y = linalg.matmul ins(%a, )" + (constant ? "%k" : "%b") +
                                   " : " + lhs + ", " + rhs + ") outs(%f : " + out + ") -> " + out + "\n  return %y : " + out +
                                   "\n}";
          for (unsigned vectorBits : {128u, 256u, 512u}) {
            tw::cpu::CpuOptions options;
            options.math = tw::graph::Math::Fast;
            options.vectorBits = vectorBits;
            auto outputs = runWith(text, {tensorOf(a, {rows, depth}), tensorOf(w, {depth, columns})}, options);
            ASSERT_EQ(outputs.size(), 1u);
            const std::vector<float> y = valuesOf<float>(outputs[0]);
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < columns; ++j) {
                double sum = 0, sizes = 0;
                for (int64_t k = 0; k < depth; ++k) {
                  const double product = double(a[i * depth + k]) * w[k * columns + j];
                  sum += product;
                  sizes += std::abs(product);
                }
                // Each factor is off by 2^-8 of itself at most, their product by 2^-7; what f32 rounds is less than 1 % of that.
                ASSERT_LE(std::abs(y[i * columns + j] - sum), isRepresentable ? 0 : 1.01 * sizes / 128)
                    << "depth " << depth << ", " << columns << " columns, " << vectorBits << " bits, at " << i << ", " << j;
              }
          }
        }
}

/// Depthwise: channels are parallel in both operands.
TEST(DepthwiseConvTest, EqualsNaiveLoops) {
  for (auto [channels, stride] : {std::pair<int64_t, int64_t>(32, 1), {24, 2}, {7, 1}, {1, 1}}) {
    int64_t size = 13, out = (size - 3) / stride + 1;
    std::string in = shape({1, size, size, channels}, "i8"), weights = shape({3, 3, channels}, "i8");
    std::string result = shape({1, out, out, channels}, "i32");
    std::string text = "func.func @main(%x: " + in + ", %w: " + weights + ") -> " + result + R"( {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : )" +
                       result + R"(
  %filled = linalg.fill ins(%zero : i32) outs(%empty : )" +
                       result + ") -> " + result + R"(
  %sum = linalg.generic {indexing_maps = [
      affine_map<(n, h, w, c, y, x) -> (n, h * )" +
                       number(stride) + " + y, w * " + number(stride) + R"( + x, c)>,
      affine_map<(n, h, w, c, y, x) -> (y, x, c)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : )" + in +
                       ", " + weights + ") outs(%filled : " + result + R"() {
  ^bb0(%a: i8, %k: i8, %acc: i32):
    %a32 = arith.extsi %a : i8 to i32
    %k32 = arith.extsi %k : i8 to i32
    %p = arith.muli %a32, %k32 : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  } -> )" + result + R"(
  return %sum : )" + result +
                       R"(
})";
    auto x = someValues<int8_t>(size * size * channels, 6);
    auto w = someValues<int8_t>(9 * channels, 7);
    std::vector<int32_t> expected;
    for (int64_t h = 0; h < out; ++h)
      for (int64_t v = 0; v < out; ++v)
        for (int64_t c = 0; c < channels; ++c) {
          int32_t sum = 0;
          for (int64_t tap = 0; tap < 9; ++tap)
            sum += x[((h * stride + tap / 3) * size + v * stride + tap % 3) * channels + c] * w[tap * channels + c];
          expected.push_back(sum);
        }
    auto outputs = runEverywhere(text, {tensorOf(x, {1, size, size, channels}), tensorOf(w, {3, 3, channels})});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(valuesOf<int32_t>(outputs[0]), expected) << channels << " channels, stride " << stride;
  }
}

/// Padding that changes no sum is left out, with one nest for each set of taps; other padding is real.
TEST(DepthwiseConvTest, PaddedEqualsNaiveLoops) {
  struct Case {
    int64_t low, high, stride, dilation, padding;
  };
  const int64_t channels = 19, size = 11, taps = 3;
  for (Case c : {Case{1, 1, 1, 1, 5}, {1, 1, 2, 1, 5}, {0, 2, 1, 1, 5}, {4, 0, 1, 2, 5}, {1, 1, 3, 1, 0}, {12, 1, 1, 1, 5}}) {
    const int64_t padded = size + c.low + c.high, out = (padded - (taps - 1) * c.dilation - 1) / c.stride + 1;
    std::string in = shape({size, channels}, "i8"), wide = shape({padded, channels}, "i8"),
                weights = shape({taps, channels}, "i8");
    std::string result = shape({out, channels}, "i32");
    std::string text = "func.func @main(%x: " + in + ", %w: " + weights + ", %b: " + result + ") -> " + result + R"( {
  %pad = arith.constant )" +
                       number(c.padding) + R"( : i8
  %p = tensor.pad %x low[)" +
                       number(c.low) + ", 0] high[" + number(c.high) + R"(, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %pad : i8
  } : )" + in + " to " +
                       wide + R"(
  %sum = linalg.generic {indexing_maps = [affine_map<(h, c, y) -> (h * )" +
                       number(c.stride) + " + y * " + number(c.dilation) + R"(, c)>, affine_map<(h, c, y) -> (y, c)>,
      affine_map<(h, c, y) -> (h, c)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%p, %w : )" + wide +
                       ", " + weights + ") outs(%b : " + result + R"() {
  ^bb0(%a: i8, %k: i8, %acc: i32):
    %five = arith.constant 5 : i32
    %a32 = arith.extsi %a : i8 to i32
    %d = arith.subi %a32, %five : i32
    %k32 = arith.extsi %k : i8 to i32
    %m = arith.muli %d, %k32 : i32
    %r = arith.addi %acc, %m : i32
    linalg.yield %r : i32
  } -> )" + result +
                       "\n  return %sum : " + result + "\n}";
    auto x = someValues<int8_t>(size * channels, 6), w = someValues<int8_t>(taps * channels, 7);
    auto b = someValues<int32_t>(out * channels, 8);
    std::vector<int32_t> expected;
    for (int64_t h = 0; h < out; ++h)
      for (int64_t n = 0; n < channels; ++n) {
        int32_t sum = b[h * channels + n];
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t at = h * c.stride + tap * c.dilation - c.low;
          sum += ((at < 0 || at >= size ? c.padding : x[at * channels + n]) - 5) * w[tap * channels + n];
        }
        expected.push_back(sum);
      }
    auto outputs =
        runEverywhere(text, {tensorOf(x, {size, channels}), tensorOf(w, {taps, channels}), tensorOf(b, {out, channels})});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(valuesOf<int32_t>(outputs[0]), expected)
        << c.low << " " << c.high << " " << c.stride << " " << c.dilation << " " << c.padding;
  }
}

/// Grouped convolution in the five-dimensional form, through expand_shape and collapse_shape.
TEST(GroupedConvTest, EqualsNaiveLoops) {
  const int64_t size = 6, groups = 2, perGroup = 3, features = 5;
  std::string text = R"(
func.func @main(%x: tensor<1x6x6x6xf32>, %w: tensor<3x3x2x3x5xf32>) -> tensor<1x4x4x10xf32> {
  %zero = arith.constant 0.0 : f32
  %xg = tensor.expand_shape %x [[0], [1], [2], [3, 4]] output_shape [1, 6, 6, 2, 3]
      : tensor<1x6x6x6xf32> into tensor<1x6x6x2x3xf32>
  %empty = tensor.empty() : tensor<1x4x4x2x5xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x4x4x2x5xf32>) -> tensor<1x4x4x2x5xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(n, h, w, g, f, y, x, c) -> (n, h + y, w + x, g, c)>,
      affine_map<(n, h, w, g, f, y, x, c) -> (y, x, g, c, f)>, affine_map<(n, h, w, g, f, y, x, c) -> (n, h, w, g, f)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%xg, %w : tensor<1x6x6x2x3xf32>, tensor<3x3x2x3x5xf32>) outs(%filled : tensor<1x4x4x2x5xf32>) {
  ^bb0(%a: f32, %k: f32, %acc: f32):
    %m = arith.mulf %a, %k : f32
    %r = arith.addf %acc, %m : f32
    linalg.yield %r : f32
  } -> tensor<1x4x4x2x5xf32>
  %y = tensor.collapse_shape %sum [[0], [1], [2], [3, 4]] : tensor<1x4x4x2x5xf32> into tensor<1x4x4x10xf32>
  return %y : tensor<1x4x4x10xf32>
})";
  auto x = someValues<float>(size * size * groups * perGroup, 8);
  auto w = someValues<float>(9 * groups * perGroup * features, 9);
  std::vector<float> expected;
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t v = 0; v < 4; ++v)
      for (int64_t g = 0; g < groups; ++g)
        for (int64_t f = 0; f < features; ++f) {
          float sum = 0;
          for (int64_t tap = 0; tap < 9; ++tap)
            for (int64_t c = 0; c < perGroup; ++c)
              sum += x[((h + tap / 3) * size + v + tap % 3) * groups * perGroup + g * perGroup + c] *
                     w[((tap * groups + g) * perGroup + c) * features + f];
          expected.push_back(sum);
        }
  auto outputs = runEverywhere(text, {tensorOf(x, {1, 6, 6, 6}), tensorOf(w, {3, 3, 2, 3, 5})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(valuesOf<float>(outputs[0]), expected);
}

/// Matrix products with the right-hand side as [k, n] and as [n, k]; the latter has its vectors along the reduction. A constant one is
/// packed in panels, the last of them with what columns are left.
TEST(MatmulTest, BothLayoutsEqualNaiveLoops) {
  struct Case {
    int64_t m, n, k;
  };
  for (Case c : {Case{1, 10, 64}, Case{1, 1000, 128}, Case{33, 17, 45}, Case{64, 96, 80}, Case{5, 1, 200}, Case{9, 333, 12}})
    for (auto [transposed, isConstant] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
      std::string a = shape({c.m, c.k}, "f32"), out = shape({c.m, c.n}, "f32");
      std::string b = transposed ? shape({c.n, c.k}, "f32") : shape({c.k, c.n}, "f32");
      std::string map = transposed ? "(n, k)" : "(k, n)";
      auto x = someValues<float>(c.m * c.k, 1), w = someValues<float>(c.k * c.n, 2), init = someValues<float>(c.m * c.n, 3);
      const int64_t inner = transposed ? c.k : c.n;
      std::string elements;
      for (int64_t i = 0; i < c.k * c.n; ++i)
        elements += std::string(i == 0 ? "[" : i % inner ? ", " : "], [") + std::to_string(w[i]);
      std::string text = "func.func @main(%a: " + a + ", %b: " + b + ", %c: " + out + ") -> " + out + R"( {
  %k = arith.constant dense<[)" +
                         elements + "]]> : " + b + R"(
  %y = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> )" +
                         map + R"(>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, )" + (isConstant ? "%k : " : "%b : ") +
                         a + ", " + b + ") outs(%c : " + out + R"() {
  ^bb0(%x: f32, %w: f32, %acc: f32):
    %m = arith.mulf %x, %w : f32
    %r = arith.addf %m, %acc : f32
    linalg.yield %r : f32
  } -> )" + out +
                         "\n  return %y : " + out + "\n}";
      std::vector<float> expected;
      for (int64_t m = 0; m < c.m; ++m)
        for (int64_t n = 0; n < c.n; ++n) {
          float sum = init[m * c.n + n];
          for (int64_t k = 0; k < c.k; ++k)
            sum += x[m * c.k + k] * (transposed ? w[n * c.k + k] : w[k * c.n + n]);
          expected.push_back(sum);
        }
      auto outputs =
          runEverywhere(text, {tensorOf(x, {c.m, c.k}), transposed ? tensorOf(w, {c.n, c.k}) : tensorOf(w, {c.k, c.n}),
                               tensorOf(init, {c.m, c.n})});
      ASSERT_EQ(outputs.size(), 1u);
      EXPECT_EQ(valuesOf<float>(outputs[0]), expected)
          << c.m << "x" << c.n << "x" << c.k << " " << transposed << " " << isConstant;
    }
}

/// A batched product whose right-hand side is shared by all batches.
TEST(MatmulTest, BroadcastBatchEqualsNaiveLoops) {
  std::string text = R"(
func.func @main(%a: tensor<3x4x5xi8>, %b: tensor<5x6xi8>) -> tensor<3x4x6xi32> {
  %zero = arith.constant 0 : i32
  %empty = tensor.empty() : tensor<3x4x6xi32>
  %filled = linalg.fill ins(%zero : i32) outs(%empty : tensor<3x4x6xi32>) -> tensor<3x4x6xi32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (k, n)>,
      affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<3x4x5xi8>, tensor<5x6xi8>) outs(%filled : tensor<3x4x6xi32>) {
  ^bb0(%x: i8, %w: i8, %acc: i32):
    %x32 = arith.extui %x : i8 to i32
    %w32 = arith.extui %w : i8 to i32
    %p = arith.muli %x32, %w32 : i32
    %r = arith.addi %acc, %p : i32
    linalg.yield %r : i32
  } -> tensor<3x4x6xi32>
  return %y : tensor<3x4x6xi32>
})";
  auto a = someValues<uint8_t>(60, 1), b = someValues<uint8_t>(30, 2);
  std::vector<int32_t> expected;
  for (int64_t row = 0; row < 12; ++row)
    for (int64_t n = 0; n < 6; ++n) {
      int32_t sum = 0;
      for (int64_t k = 0; k < 5; ++k)
        sum += a[row * 5 + k] * b[k * 6 + n];
      expected.push_back(sum);
    }
  auto outputs = runEverywhere(text, {tensorOf(a, {3, 4, 5}), tensorOf(b, {5, 6})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(valuesOf<int32_t>(outputs[0]), expected);
}

/// Maximum over windows; the window's shape comes from an operand that is never read.
template <typename T> void checkMaxPool(const char *type, const char *init, const char *op, int64_t channels) {
  std::string in = shape({1, 9, 9, channels}, type), out = shape({1, 4, 4, channels}, type);
  std::string text = "func.func @main(%x: " + in + ") -> " + out + R"( {
  %low = arith.constant )" +
                     init + " : " + type + R"(
  %empty = tensor.empty() : )" +
                     out + R"(
  %window = tensor.empty() : tensor<3x3x)" +
                     type + R"(>
  %filled = linalg.fill ins(%low : )" +
                     type + ") outs(%empty : " + out + ") -> " + out + R"(
  %y = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h * 2 + y, w * 2 + x, c)>,
      affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %window : )" +
                     in + ", tensor<3x3x" + type + ">) outs(%filled : " + out + R"() {
  ^bb0(%a: )" + type +
                     ", %k: " + type + ", %acc: " + type + R"():
    %r = )" + op +
                     " %acc, %a : " + type + R"(
    linalg.yield %r : )" +
                     type + R"(
  } -> )" + out +
                     "\n  return %y : " + out + "\n}";
  auto x = someValues<T>(81 * channels, 11);
  std::vector<T> expected;
  for (int64_t h = 0; h < 4; ++h)
    for (int64_t v = 0; v < 4; ++v)
      for (int64_t c = 0; c < channels; ++c) {
        T best = x[(h * 2 * 9 + v * 2) * channels + c];
        for (int64_t tap = 0; tap < 9; ++tap)
          best = std::max(best, x[((h * 2 + tap / 3) * 9 + v * 2 + tap % 3) * channels + c]);
        expected.push_back(best);
      }
  auto outputs = runEverywhere(text, {tensorOf(x, {1, 9, 9, channels})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(valuesOf<T>(outputs[0]), expected) << type << " " << channels;
}

TEST(PoolTest, MaximumOfBfloats) {
  // Bit patterns of positive numbers are ordered as the numbers are.
  std::string text = R"(
func.func @main(%x: tensor<40x33xbf16>) -> tensor<33xbf16> {
  %low = arith.constant 0xFF80 : bf16
  %empty = tensor.empty() : tensor<33xbf16>
  %filled = linalg.fill ins(%low : bf16) outs(%empty : tensor<33xbf16>) -> tensor<33xbf16>
  %y = linalg.reduce { arith.maximumf } ins(%x : tensor<40x33xbf16>) outs(%filled : tensor<33xbf16>) dimensions = [0]
  return %y : tensor<33xbf16>
})";
  auto bytes = someValues<uint8_t>(40 * 33, 1);
  std::vector<uint16_t> x, expected(33, 0);
  for (uint8_t byte : bytes)
    x.push_back(static_cast<uint16_t>(0x3F00 + byte));
  for (int i = 0; i < 40 * 33; ++i)
    expected[i % 33] = std::max(expected[i % 33], x[i]);
  auto outputs = runEverywhere(text, {tensorOf(x, {40, 33})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(valuesOf<uint16_t>(outputs[0]), expected);
}

TEST(PoolTest, MaximumOfFloatsAndBytes) {
  for (int64_t channels : {1, 3, 64, 100}) {
    checkMaxPool<float>("f32", "0xFF800000", "arith.maximumf", channels);
    checkMaxPool<int8_t>("i8", "-128", "arith.maxsi", channels);
    checkMaxPool<uint8_t>("i8", "0", "arith.maxui", channels);
  }
}

TEST(PoolTest, AverageDividesByAConstantTensor) {
  std::string text = R"(
func.func @main(%x: tensor<1x4x4x20xf32>) -> tensor<1x2x2x20xf32> {
  %zero = arith.constant 0.0 : f32
  %count = arith.constant dense<[[1.0, 2.0], [4.0, 8.0]]> : tensor<2x2xf32>
  %empty = tensor.empty() : tensor<1x2x2x20xf32>
  %window = tensor.empty() : tensor<2x2xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x2x2x20xf32>) -> tensor<1x2x2x20xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(n, h, w, c, y, x) -> (n, h * 2 + y, w * 2 + x, c)>,
      affine_map<(n, h, w, c, y, x) -> (y, x)>, affine_map<(n, h, w, c, y, x) -> (n, h, w, c)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %window : tensor<1x4x4x20xf32>, tensor<2x2xf32>) outs(%filled : tensor<1x2x2x20xf32>) {
  ^bb0(%a: f32, %k: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  } -> tensor<1x2x2x20xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, h, w, c) -> (n, h, w, c)>, affine_map<(n, h, w, c) -> (h, w)>,
      affine_map<(n, h, w, c) -> (n, h, w, c)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%s, %count : tensor<1x2x2x20xf32>, tensor<2x2xf32>) outs(%empty : tensor<1x2x2x20xf32>) {
  ^bb0(%a: f32, %k: f32, %o: f32):
    %r = arith.divf %a, %k : f32
    linalg.yield %r : f32
  } -> tensor<1x2x2x20xf32>
  return %y : tensor<1x2x2x20xf32>
})";
  auto x = someValues<float>(320, 12);
  std::vector<float> expected;
  const float counts[] = {1, 2, 4, 8};
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t v = 0; v < 2; ++v)
      for (int64_t c = 0; c < 20; ++c) {
        float sum = 0;
        for (int64_t tap = 0; tap < 4; ++tap)
          sum += x[((h * 2 + tap / 2) * 4 + v * 2 + tap % 2) * 20 + c];
        expected.push_back(sum / counts[h * 2 + v]);
      }
  auto outputs = runEverywhere(text, {tensorOf(x, {1, 4, 4, 20})});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(valuesOf<float>(outputs[0]), expected);
}

/// Softmax in four steps; the row reductions have their vectors along the reduced dimension.
TEST(SoftmaxTest, CloseToDoublePrecision) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>(1, 1000), {7, 10}, {40, 33}, {3, 1}}) {
    std::string full = shape({rows, columns}, "f32"), row = shape({rows}, "f32");
    std::string text = R"(
#all = affine_map<(r, c) -> (r, c)>
#row = affine_map<(r, c) -> (r)>
func.func private @softmax(%x: )" +
                       full + ") -> " + full + R"( {
  %low = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %er = tensor.empty() : )" +
                       row + R"(
  %e = tensor.empty() : )" +
                       full + R"(
  %f0 = linalg.fill ins(%low : f32) outs(%er : )" +
                       row + ") -> " + row + R"(
  %max = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : )" + full +
                       ") outs(%f0 : " + row + R"() {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.maximumf %acc, %a : f32
    linalg.yield %r : f32
  } -> )" + row + R"(
  %exp = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %max : )" +
                       full + ", " + row + ") outs(%e : " + full + R"() {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %d = arith.subf %a, %m : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> )" + full + R"(
  %f1 = linalg.fill ins(%zero : f32) outs(%er : )" +
                       row + ") -> " + row + R"(
  %sum = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%exp : )" + full +
                       ") outs(%f1 : " + row + R"() {
  ^bb0(%a: f32, %acc: f32):
    %r = arith.addf %acc, %a : f32
    linalg.yield %r : f32
  } -> )" + row + R"(
  %y = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%exp, %sum : )" +
                       full + ", " + row + ") outs(%e : " + full + R"() {
  ^bb0(%a: f32, %m: f32, %o: f32):
    %r = arith.divf %a, %m : f32
    linalg.yield %r : f32
  } -> )" + full + R"(
  return %y : )" + full +
                       R"(
}
func.func @main(%x: )" +
                       full + ") -> " + full + R"( {
  %y = call @softmax(%x) : ()" +
                       full + ") -> " + full + R"(
  return %y : )" + full +
                       R"(
})";
    auto x = someValues<float>(rows * columns, 13);
    std::vector<float> expected;
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < columns; ++c)
        sum += std::exp(static_cast<double>(x[r * columns + c]));
      for (int64_t c = 0; c < columns; ++c)
        expected.push_back(static_cast<float>(std::exp(static_cast<double>(x[r * columns + c])) / sum));
    }
    auto outputs = runEverywhere(text, {tensorOf(x, {rows, columns})});
    ASSERT_EQ(outputs.size(), 1u);
    auto actual = valuesOf<float>(outputs[0]);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i)
      ASSERT_NEAR(actual[i], expected[i], 1e-6 * expected[i] + 1e-12) << i;
  }
}

TEST(ReductionTest, NamedOpsAndEveryCombiner) {
  const struct {
    const char *op;
    int32_t init;
    int32_t (*combine)(int32_t, int32_t);
  } cases[] = {
      {"arith.addi", 5, [](int32_t a, int32_t b) { return a + b; }},
      {"arith.muli", 3,
       [](int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<uint32_t>(a) * static_cast<uint32_t>(b)); }},
      {"arith.maxsi", -9, [](int32_t a, int32_t b) { return std::max(a, b); }},
      {"arith.minsi", 9, [](int32_t a, int32_t b) { return std::min(a, b); }},
      {"arith.maxui", 1,
       [](int32_t a, int32_t b) { return static_cast<int32_t>(std::max(static_cast<uint32_t>(a), static_cast<uint32_t>(b))); }},
      {"arith.minui", -1,
       [](int32_t a, int32_t b) { return static_cast<int32_t>(std::min(static_cast<uint32_t>(a), static_cast<uint32_t>(b))); }},
      {"arith.xori", 0, [](int32_t a, int32_t b) { return a ^ b; }}};
  for (const auto &c : cases) {
    std::string text = R"(
func.func @main(%x: tensor<6x77xi32>) -> tensor<6xi32> {
  %init = arith.constant )" +
                       number(c.init) + R"( : i32
  %empty = tensor.empty() : tensor<6xi32>
  %filled = linalg.fill ins(%init : i32) outs(%empty : tensor<6xi32>) -> tensor<6xi32>
  %y = linalg.reduce { )" +
                       c.op + R"( } ins(%x : tensor<6x77xi32>) outs(%filled : tensor<6xi32>) dimensions = [1]
  return %y : tensor<6xi32>
})";
    auto x = someValues<int32_t>(6 * 77, 14);
    for (int32_t &value : x)
      value -= 100;
    std::vector<int32_t> expected(6, c.init);
    for (int64_t i = 0; i < 6 * 77; ++i)
      expected[i / 77] = c.combine(expected[i / 77], x[i]);
    auto outputs = runEverywhere(text, {tensorOf(x, {6, 77})});
    ASSERT_EQ(outputs.size(), 1u);
    EXPECT_EQ(valuesOf<int32_t>(outputs[0]), expected) << c.op;
  }
}

} // namespace
