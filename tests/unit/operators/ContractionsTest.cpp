//===- ContractionsTest.cpp - Products, convolutions, pools ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random shapes against sums written out index by index.
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/TestCall.h"

#include <gtest/gtest.h>
#include <map>

using namespace tw;
using namespace tw::operators;
using namespace tw::operators::test;

namespace {

constexpr unsigned kSeeds = 40;

void expectNear(const HostTensor &y, const Shape &shape, const std::vector<double> &expected, double tolerance = 1e-4) {
  ASSERT_EQ(y.shape, shape);
  ASSERT_EQ(size_t(countOf(y)), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(realAt(y, int64_t(i)), expected[i], tolerance * (1 + std::fabs(expected[i]))) << "element " << i;
}

Shape randomShape(Random &random, size_t rank, int64_t least, int64_t most) {
  Shape shape(rank);
  for (int64_t &dim : shape)
    dim = between(random, least, most);
  return shape;
}

/// Element of `x` at `index`, dims of 1 repeating, and dims that it lacks in front left out.
double broadcastAt(const HostTensor &x, const Shape &index) {
  int64_t at = 0;
  const size_t skipped = index.size() - x.shape.size();
  for (size_t dim = 0; dim < x.shape.size(); ++dim)
    at = at * x.shape[dim] + (x.shape[dim] == 1 ? 0 : index[skipped + dim]);
  return realAt(x, at);
}

std::vector<double> matMul(const HostTensor &a, const HostTensor &b, const Shape &batch, int64_t m, int64_t n, int64_t k) {
  std::vector<double> expected;
  forEachIndex(batch, [&](const Shape &index) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t at = 0; at < k; ++at) {
          Shape left = index, right = index;
          left.insert(left.end(), {i, at});
          right.insert(right.end(), {at, j});
          sum += broadcastAt(a, left) * broadcastAt(b, right);
        }
        expected.push_back(sum);
      }
  });
  return expected;
}

} // namespace

//===----------------------------------------------------------------------===//
// MatMul and relatives
//===----------------------------------------------------------------------===//

TEST(MatMulTest, RandomShapesOfAllFloats) {
  const ElementKind kinds[] = {ElementKind::F32,  ElementKind::F64, ElementKind::F16,
                               ElementKind::BF16, ElementKind::I32, ElementKind::I64};
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Shape batch = randomShape(random, size_t(between(random, 0, 2)), 1, 3);
    const int64_t m = between(random, 1, 40), n = between(random, 1, 40), k = between(random, 0, 20);
    Shape left = batch, right = batch;
    for (int64_t &dim : left)
      dim = between(random, 0, 3) ? dim : 1;
    for (size_t dim = 0; dim < right.size(); ++dim)
      right[dim] = left[dim] == batch[dim] && between(random, 0, 1) ? 1 : batch[dim];
    if (!right.empty() && between(random, 0, 2) == 0 && left == batch)
      right.clear();
    left.insert(left.end(), {m, k});
    right.insert(right.end(), {k, n});
    const ElementKind kind = kinds[seed % 6];
    const bool isInteger = kind == ElementKind::I32 || kind == ElementKind::I64;
    const HostTensor a = randomTensor(random, left, kind, -9, 9), b = randomTensor(random, right, kind, -9, 9);
    Shape shape = batch;
    shape.insert(shape.end(), {m, n});
    const double tolerance = isInteger ? 0 : kind == ElementKind::BF16 ? 5e-3 : kind == ElementKind::F16 ? 1e-3 : 1e-4;
    expectNear(TestCall("MatMul").in(a).in(b).run(), shape, matMul(a, b, batch, m, n, k), tolerance);
  }
}

TEST(MatMulTest, LargeOnesCrossAllBlocks) {
  Random random(7);
  for (const Shape &dims : {Shape{5, 300, 600}, Shape{259, 257, 3}, Shape{4, 2100, 1}, Shape{3, 2100, 5}}) {
    const HostTensor a = randomTensor(random, {dims[0], dims[2]}), b = randomTensor(random, {dims[2], dims[1]});
    expectNear(TestCall("MatMul").in(a).in(b).run(), {dims[0], dims[1]}, matMul(a, b, {}, dims[0], dims[1], dims[2]), 1e-3);
  }
}

TEST(MatMulTest, RankOne) {
  const HostTensor row = numbers({3}, {1, 2, 3}), matrix = numbers({3, 2}, {1, 2, 3, 4, 5, 6});
  expectNear(TestCall("MatMul").in(row).in(row).run(), {}, {14});
  expectNear(TestCall("MatMul").in(row).in(matrix).run(), {2}, {22, 28});
  expectNear(TestCall("MatMul").in(numbers({2, 3}, {1, 0, 0, 0, 1, 0})).in(row).run(), {2}, {1, 2});
  expectNear(TestCall("MatMul").in(numbers({2, 1, 3}, {1, 0, 0, 0, 1, 0})).in(row).run(), {2, 1}, {1, 2});
}

TEST(MatMulTest, IntegersWrap) {
  const HostTensor x = numbers({1}, {65536}, ElementKind::I32), wide = numbers({1}, {65536}, ElementKind::U32);
  EXPECT_EQ(realsOf(TestCall("MatMul").in(x).in(x).run()), std::vector<double>{0});
  EXPECT_EQ(realsOf(TestCall("MatMul").in(wide).in(wide).run()), std::vector<double>{0});
}

TEST(MatMulTest, NothingAndNaN) {
  expectNear(TestCall("MatMul").in(numbers({2, 0}, {})).in(numbers({0, 3}, {})).run(), {2, 3}, std::vector<double>(6, 0));
  EXPECT_EQ(TestCall("MatMul").in(numbers({0, 2}, {})).in(numbers({2, 3}, {1, 2, 3, 4, 5, 6})).run().shape, (Shape{0, 3}));
  const std::vector<double> y = realsOf(TestCall("MatMul").in(numbers({2, 1}, {NAN, 1})).in(numbers({1, 1}, {2})).run());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 2);
}

TEST(MatMulTest, WrongOperands) {
  const HostTensor x = numbers({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(TestCall("MatMul").in(x).in(x).error(),
            "shapes [2, 3] and [2, 3] do not fit: 3 columns on the left, 2 rows on the right");
  EXPECT_EQ(TestCall("MatMul").in(x).in(numbers({}, {1})).error(), "inputs have shapes [2, 3] and []: neither may be a scalar");
  EXPECT_EQ(TestCall("MatMul").in(x).in(numbers({3, 1}, {1, 2, 3}, ElementKind::F64)).error(),
            "inputs are of float and double, expected one type");
  EXPECT_EQ(TestCall("MatMul").in(numbers({2, 1, 1}, {1, 2})).in(numbers({3, 1, 1}, {1, 2, 3})).error(),
            "shapes [2] and [3] do not broadcast");
  EXPECT_EQ(TestCall("MatMul").in(strings({1}, {"a"})).in(strings({1}, {"a"})).error(),
            "input 0 is of string, which MatMul does not allow");
}

TEST(GemmTest, RandomTransposesAndBiases) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int64_t m = between(random, 1, 9), n = between(random, 1, 9), k = between(random, 1, 9);
    const bool turnsA = between(random, 0, 1), turnsB = between(random, 0, 1), hasBias = between(random, 0, 2);
    const HostTensor a = randomTensor(random, turnsA ? Shape{k, m} : Shape{m, k});
    const HostTensor b = randomTensor(random, turnsB ? Shape{n, k} : Shape{k, n});
    const Shape biasShapes[] = {{}, {1}, {n}, {m, 1}, {1, n}, {m, n}};
    const HostTensor bias = randomTensor(random, biasShapes[between(random, 0, 5)]);
    const float alpha = between(random, 0, 1) ? 1 : 0.5f, beta = between(random, 0, 1) ? 1 : 2.0f;
    TestCall call("Gemm");
    call.in(a).in(b).set("transA", turnsA).set("transB", turnsB).set("alpha", alpha).set("beta", beta);
    if (hasBias)
      call.in(bias);
    std::vector<double> expected;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t at = 0; at < k; ++at)
          sum += realAt(a, turnsA ? at * m + i : i * k + at) * realAt(b, turnsB ? j * k + at : at * n + j);
        expected.push_back(alpha * sum + (hasBias ? beta * broadcastAt(bias, {i, j}) : 0));
      }
    expectNear(call.run(), {m, n}, expected);
  }
}

TEST(GemmTest, WrongOperands) {
  const HostTensor x = numbers({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(TestCall("Gemm").in(x).in(numbers({2}, {1, 2})).error(),
            "inputs 0 and 1 have shapes [2, 2] and [2], expected matrices");
  EXPECT_EQ(TestCall("Gemm").in(x).in(x).in(numbers({3}, {1, 2, 3})).error(), "shapes [3] and [2, 2] do not broadcast");
  EXPECT_EQ(TestCall("Gemm").in(x).in(x).in(numbers({1, 2, 2}, {1, 2, 3, 4})).error(),
            "input 2 has shape [1, 2, 2], which does not broadcast to [2, 2]");
}

TEST(MatMulIntegerTest, ZeroPointsOfRowsAndColumns) {
  Random random(3);
  const HostTensor a = randomTensor(random, {2, 5, 4}, ElementKind::U8, 0, 255),
                   b = randomTensor(random, {4, 3}, ElementKind::I8, -128, 127);
  const HostTensor aZero = numbers({5}, {1, 2, 3, 250, 5}, ElementKind::U8),
                   bZero = numbers({3}, {-7, 0, 100}, ElementKind::I8);
  std::vector<double> expected;
  for (int64_t batch = 0; batch < 2; ++batch)
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 3; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 4; ++k)
          sum += (realAt(a, (batch * 5 + i) * 4 + k) - realAt(aZero, i)) * (realAt(b, k * 3 + j) - realAt(bZero, j));
        expected.push_back(sum);
      }
  const HostTensor y = TestCall("MatMulInteger").in(a).in(b).in(aZero).in(bZero).run();
  EXPECT_EQ(y.type, ElementKind::I32);
  expectNear(y, {2, 5, 3}, expected, 0);
  EXPECT_EQ(TestCall("MatMulInteger").in(a).in(b).in(numbers({4}, {1, 2, 3, 4}, ElementKind::U8)).error(),
            "shapes [4, 1] and [2, 5, 4] do not broadcast");
  EXPECT_EQ(TestCall("MatMulInteger").in(a).in(b).in(numbers({}, {1}, ElementKind::I8)).error(),
            "inputs are of uint8 and int8, expected one type");
}

TEST(QLinearMatMulTest, SmallFloats) {
  const ElementKind kind = ElementKind::F8E4M3FN;
  const HostTensor a = numbers({1, 2}, {1, 2}, kind), b = numbers({2, 1}, {4, 0.5}, kind), zero = numbers({}, {0}, kind);
  const HostTensor one = numbers({}, {1}), half = numbers({}, {0.5});
  const HostTensor y = TestCall("QLinearMatMul").in(a).in(half).in(zero).in(b).in(one).in(zero).in(one).in(zero).run();
  EXPECT_EQ(y.type, kind);
  EXPECT_EQ(realsOf(y), std::vector<double>{2.5});
}

TEST(QLinearMatMulTest, Saturates) {
  const ElementKind kind = ElementKind::U8;
  const HostTensor a = numbers({1, 1}, {200}, kind), zero = numbers({}, {0}, kind), one = numbers({}, {1});
  EXPECT_EQ(realsOf(TestCall("QLinearMatMul").in(a).in(one).in(zero).in(a).in(one).in(zero).in(one).in(zero).run()),
            std::vector<double>{255});
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

TEST(EinsumTest, RandomEquations) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    Random random(seed);
    // Up to 3 terms of up to 4 of the letters a to e, some of them twice, and a result of some of the letters.
    std::map<char, int64_t> sizes;
    for (char c = 'a'; c <= 'e'; ++c)
      sizes[c] = between(random, 1, 4);
    std::vector<std::string> terms(size_t(between(random, 1, 3)));
    std::string letters, equation;
    std::vector<HostTensor> operands;
    for (std::string &term : terms) {
      Shape shape;
      for (int64_t i = between(random, 0, 4); i > 0; --i) {
        term += char('a' + between(random, 0, 4));
        shape.push_back(sizes[term.back()]);
        if (letters.find(term.back()) == std::string::npos)
          letters += term.back();
      }
      operands.push_back(randomTensor(random, shape, ElementKind::F64));
      equation += (equation.empty() && &term == &terms[0] ? "" : ",") + term;
    }
    std::string result;
    for (char c : letters)
      if (between(random, 0, 1))
        result += c;
    std::shuffle(result.begin(), result.end(), random);
    equation += "->" + result;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + equation);
    Shape shape, all;
    for (char c : result)
      shape.push_back(sizes[c]);
    for (char c : letters)
      all.push_back(sizes[c]);
    std::vector<double> expected(size_t(countOf(shape)));
    forEachIndex(all, [&](const Shape &index) {
      auto placeOf = [&](const std::string &term) {
        int64_t at = 0;
        for (char c : term)
          at = at * sizes[c] + index[letters.find(c)];
        return at;
      };
      double product = 1;
      for (size_t i = 0; i < terms.size(); ++i)
        product *= realAt(operands[i], placeOf(terms[i]));
      expected[size_t(placeOf(result))] += product;
    });
    TestCall call("Einsum");
    call.set("equation", equation);
    for (const HostTensor &operand : operands)
      call.in(operand);
    expectNear(call.run(), shape, expected, 1e-9);
  }
}

TEST(EinsumTest, Ellipses) {
  Random random(5);
  const HostTensor a = randomTensor(random, {2, 3, 4, 5}), b = randomTensor(random, {3, 5, 2}),
                   c = randomTensor(random, {2, 1, 5, 2});
  const HostTensor product = TestCall("MatMul").in(a).in(b).run(), wide = TestCall("MatMul").in(a).in(c).run();
  expectNear(TestCall("Einsum").set("equation", "...ij, ...jk -> ...ik").in(a).in(b).run(), product.shape, realsOf(product));
  expectNear(TestCall("Einsum").set("equation", "...ij,...jk").in(a).in(b).run(), product.shape, realsOf(product));
  expectNear(TestCall("Einsum").set("equation", "...ij,...jk->...ik").in(a).in(c).run(), wide.shape, realsOf(wide));
}

TEST(EinsumTest, ImplicitResultIsInTheOrderOfTheAlphabet) {
  const HostTensor x = numbers({1, 2}, {1, 2});
  EXPECT_EQ(TestCall("Einsum").set("equation", "ba").in(x).run().shape, (Shape{2, 1}));
  EXPECT_EQ(TestCall("Einsum").set("equation", "aB").in(x).run().shape, (Shape{2, 1}));
  EXPECT_EQ(realsOf(TestCall("Einsum").set("equation", "ii").in(numbers({2, 2}, {1, 2, 3, 4})).run()), std::vector<double>{5});
  EXPECT_EQ(realsOf(TestCall("Einsum").set("equation", "ij->").in(numbers({0, 2}, {})).run()), std::vector<double>{0});
}

TEST(EinsumTest, WrongEquations) {
  const HostTensor x = numbers({1, 2}, {1, 2}), y = numbers({3, 1}, {1, 2, 3});
  auto error = [&](const char *equation) { return TestCall("Einsum").set("equation", equation).in(x).in(y).error(); };
  EXPECT_EQ(error("ij->ij"), "equation has 1 terms for 2 inputs");
  EXPECT_EQ(error("ij,jk->ik"), "dim 0 of input 1 is 3, but \"j\" has 2 before");
  EXPECT_EQ(error("i,jk->ik"), "the term \"i\" does not fit input 0 of shape [1, 2]");
  EXPECT_EQ(error("ij,kl->ix"), "the result of the equation names \"x\", which no term does");
  EXPECT_EQ(error("ij,kl->ii"), "the result of the equation names \"i\" twice");
  EXPECT_EQ(error("i..j,kl->i"), "the term \"i..j\" has dots that are no single ellipsis");
  EXPECT_EQ(error("i......j,kl->i"), "the term \"i......j\" has dots that are no single ellipsis");
  EXPECT_EQ(error("i1,kl->i"), "the term \"i1\" holds other characters than letters and an ellipsis");
  EXPECT_EQ(TestCall("Einsum").set("equation", "...,...->").in(x).in(numbers({3}, {1, 2, 3})).error(),
            "dim 0 of input 1 is 3, but the ellipsis has 2 before");
  EXPECT_EQ(realsOf(TestCall("Einsum").set("equation", "...,...->").in(x).in(y).run()), std::vector<double>{18});
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {

/// A random convolution and its attributes.
struct Geometry {
  Shape input, kernel, strides, dilations, pads, output;
  int64_t batch, groups, channels, filters;

  Geometry(Random &random, size_t rank)
      : kernel(randomShape(random, rank, 1, 3)), strides(randomShape(random, rank, 1, 3)),
        dilations(randomShape(random, rank, 1, 2)), pads(randomShape(random, 2 * rank, 0, 2)), batch(between(random, 1, 2)),
        groups(between(random, 1, 2)), channels(between(random, 1, 3)), filters(between(random, 1, 5)) {
    for (size_t dim = 0; dim < rank; ++dim) {
      const int64_t reach = (kernel[dim] - 1) * dilations[dim] + 1;
      input.push_back(std::max<int64_t>(1, reach - pads[dim] - pads[dim + rank]) + between(random, 0, rank > 2 ? 4 : 9));
      output.push_back((input[dim] + pads[dim] + pads[dim + rank] - reach) / strides[dim] + 1);
    }
  }
  Shape shape(int64_t first, int64_t second, const Shape &spatial) const {
    Shape all{first, second};
    all.insert(all.end(), spatial.begin(), spatial.end());
    return all;
  }
  void set(TestCall &call) const {
    call.set("strides", strides).set("dilations", dilations).set("pads", pads).set("kernel_shape", kernel);
  }
  /// The place in the input that an element of the kernel sees, or -1.
  int64_t inputAt(const Shape &place, const Shape &element) const {
    int64_t at = 0;
    for (size_t dim = 0; dim < input.size(); ++dim) {
      const int64_t here = place[dim] * strides[dim] + element[dim] * dilations[dim] - pads[dim];
      if (here < 0 || here >= input[dim])
        return -1;
      at = at * input[dim] + here;
    }
    return at;
  }
  static int64_t placeOf(const Shape &index, const Shape &shape) {
    int64_t at = 0;
    for (size_t dim = 0; dim < shape.size(); ++dim)
      at = at * shape[dim] + index[dim];
    return at;
  }
};

std::vector<double> convolved(const Geometry &g, const HostTensor &x, const HostTensor &w, double xZero = 0) {
  std::vector<double> expected;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t f = 0; f < g.groups * g.filters; ++f)
      forEachIndex(g.output, [&](const Shape &place) {
        double sum = 0;
        for (int64_t c = 0; c < g.channels; ++c)
          forEachIndex(g.kernel, [&](const Shape &element) {
            const int64_t at = g.inputAt(place, element), channel = f / g.filters * g.channels + c;
            if (at >= 0)
              sum += (realAt(x, (n * g.groups * g.channels + channel) * countOf(g.input) + at) - xZero) *
                     realAt(w, (f * g.channels + c) * countOf(g.kernel) + Geometry::placeOf(element, g.kernel));
          });
        expected.push_back(sum);
      });
  return expected;
}

} // namespace

TEST(ConvTest, RandomShapesOfUpToFourDims) {
  for (unsigned seed = 0; seed < 80; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Geometry g(random, 1 + seed % 4);
    const HostTensor x = randomTensor(random, g.shape(g.batch, g.groups * g.channels, g.input));
    const HostTensor w = randomTensor(random, g.shape(g.groups * g.filters, g.channels, g.kernel));
    TestCall call("Conv");
    g.set(call);
    call.set("group", g.groups).in(x).in(w);
    std::vector<double> expected = convolved(g, x, w);
    if (seed % 2) {
      const HostTensor bias = randomTensor(random, {g.groups * g.filters});
      call.in(bias);
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] += realAt(bias, int64_t(i) / countOf(g.output) % (g.groups * g.filters));
    }
    expectNear(call.run(), g.shape(g.batch, g.groups * g.filters, g.output), expected);
  }
}

TEST(ConvTest, LargeOnesAreDoneInBlocks) {
  Random random(1);
  Geometry g(random, 2);
  g.input = {37, 41};
  g.kernel = {3, 3};
  g.strides = g.dilations = {1, 1};
  g.pads = {1, 1, 1, 1};
  g.output = g.input;
  g.batch = g.groups = 1;
  g.channels = 70;
  g.filters = 6;
  const HostTensor x = randomTensor(random, g.shape(1, 70, g.input)), w = randomTensor(random, g.shape(6, 70, g.kernel));
  TestCall call("Conv");
  g.set(call);
  expectNear(call.in(x).in(w).run(), g.shape(1, 6, g.output), convolved(g, x, w), 1e-3);
}

TEST(ConvTest, IntegersWithZeroPoints) {
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const Geometry g(random, 1 + seed % 3);
    const HostTensor x = randomTensor(random, g.shape(g.batch, g.groups * g.channels, g.input), ElementKind::U8, 0, 255);
    const HostTensor w = randomTensor(random, g.shape(g.groups * g.filters, g.channels, g.kernel), ElementKind::I8, -128, 127);
    TestCall call("ConvInteger");
    g.set(call);
    const HostTensor y = call.set("group", g.groups).in(x).in(w).in(numbers({}, {9}, ElementKind::U8)).run();
    EXPECT_EQ(y.type, ElementKind::I32);
    expectNear(y, g.shape(g.batch, g.groups * g.filters, g.output), convolved(g, x, w, 9), 0);
  }
}

TEST(ConvTest, WrongOperands) {
  const HostTensor x = numbers({1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8}), w = numbers({1, 2, 1, 1}, {1, 2});
  auto conv = [&](const HostTensor &weights) { return TestCall("Conv").in(x).in(weights); };
  EXPECT_EQ(conv(w).error(), "");
  EXPECT_EQ(conv(numbers({1, 1, 1, 1}, {1})).error(), "the input has 2 channels, the weights take 1 in each of 1 groups");
  EXPECT_EQ(conv(numbers({1, 2, 1}, {1, 2})).error(),
            "the weights have shape [1, 2, 1], the input [1, 2, 2, 2]: expected one rank");
  EXPECT_EQ(conv(w).set("group", 2).error(), "group is 2, which does not divide the weights' 1 filters");
  EXPECT_EQ(conv(w).set("group", 0).error(), "group is 0, which does not divide the weights' 1 filters");
  EXPECT_EQ(conv(w).set("strides", Shape{0, 1}).error(), "strides is [0, 1], expected elements of at least 1");
  EXPECT_EQ(conv(w).set("strides", Shape{1}).error(), "strides has 1 elements, expected 2");
  EXPECT_EQ(conv(w).set("pads", Shape{0, 0, 0, -1}).error(), "pads is [0, 0, 0, -1], expected elements of at least 0");
  EXPECT_EQ(conv(w).set("kernel_shape", Shape{2, 2}).error(), "kernel_shape is [2, 2], but the weights' is [1, 1]");
  EXPECT_EQ(conv(w).set("auto_pad", "SAME").error(), "auto_pad is \"SAME\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  EXPECT_EQ(conv(numbers({1, 2, 3, 1}, {1, 2, 3, 4, 5, 6})).error(),
            "a window of 3 does not fit in the padded spatial dim 0 of 2");
  EXPECT_EQ(conv(w).in(numbers({2}, {1, 2})).error(), "input 2 has shape [2], expected [1]");
  EXPECT_EQ(conv(numbers({1, 2, 0, 1}, {})).error(), "the kernel's dims are [0, 1], expected at least 1");
  EXPECT_EQ(TestCall("Conv").in(numbers({2, 2}, {1, 2, 3, 4})).in(w).error(),
            "input 0 has shape [2, 2], expected a rank of at least 3");
  EXPECT_EQ(TestCall("Conv").in(numbers({0, 2, 2, 2}, {})).in(w).run().shape, (Shape{0, 1, 2, 2}));
}

TEST(ConvTransposeTest, IsTheReverseOfConv) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const size_t rank = 1 + seed % 3;
    Geometry g(random, rank);
    // The result is what a convolution with the same attributes would read.
    g.input.clear();
    g.output = randomShape(random, rank, 1, 4);
    Shape added;
    bool isSound = true;
    for (size_t dim = 0; dim < rank; ++dim) {
      added.push_back(between(random, 0, std::max(g.strides[dim], g.dilations[dim]) - 1));
      g.input.push_back((g.output[dim] - 1) * g.strides[dim] + added[dim] + (g.kernel[dim] - 1) * g.dilations[dim] + 1 -
                        g.pads[dim] - g.pads[dim + rank]);
      isSound &= g.input.back() >= 1;
    }
    if (!isSound)
      continue;
    const HostTensor x = randomTensor(random, g.shape(g.batch, g.groups * g.channels, g.output));
    const HostTensor w = randomTensor(random, g.shape(g.groups * g.channels, g.filters, g.kernel));
    const Shape shape = g.shape(g.batch, g.groups * g.filters, g.input);
    std::vector<double> expected(size_t(countOf(shape)));
    for (int64_t n = 0; n < g.batch; ++n)
      for (int64_t c = 0; c < g.groups * g.channels; ++c)
        for (int64_t f = 0; f < g.filters; ++f)
          forEachIndex(g.output, [&](const Shape &place) {
            forEachIndex(g.kernel, [&](const Shape &element) {
              if (const int64_t at = g.inputAt(place, element); at >= 0)
                expected[size_t(((n * g.groups + c / g.channels) * g.filters + f) * countOf(g.input) + at)] +=
                    realAt(x, (n * g.groups * g.channels + c) * countOf(g.output) + Geometry::placeOf(place, g.output)) *
                    realAt(w, (c * g.filters + f) * countOf(g.kernel) + Geometry::placeOf(element, g.kernel));
            });
          });
    TestCall call("ConvTranspose");
    g.set(call);
    expectNear(call.set("group", g.groups).set("output_padding", added).in(x).in(w).run(), shape, expected);
  }
}

TEST(ConvTransposeTest, OutputShape) {
  const HostTensor x = numbers({1, 1, 3}, {1, 2, 3}), w = numbers({1, 1, 3}, {1, 10, 100});
  TestCall call("ConvTranspose");
  call.set("strides", Shape{2}).in(x).in(w);
  expectNear(TestCall(call).run(), {1, 1, 7}, {1, 10, 102, 20, 203, 30, 300});
  expectNear(TestCall(call).set("output_shape", Shape{6}).set("auto_pad", "SAME_UPPER").run(), {1, 1, 6},
             {1, 10, 102, 20, 203, 30});
  expectNear(TestCall(call).set("output_shape", Shape{6}).set("auto_pad", "SAME_LOWER").run(), {1, 1, 6},
             {10, 102, 20, 203, 30, 300});
  expectNear(TestCall(call).set("output_shape", Shape{9}).run(), {1, 1, 9}, {1, 10, 102, 20, 203, 30, 300, 0, 0});
  EXPECT_EQ(TestCall(call).set("output_shape", Shape{-1}).error(), "output_shape is [-1], expected sizes from 0 to 2^31 - 1");
  EXPECT_EQ(TestCall(call).set("pads", Shape{4, 4}).error(), "spatial dim 0 of the result would be -1");
}

TEST(DeformConvTest, WithoutOffsetsItIsConv) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const size_t rank = 1 + seed % 3;
    const Geometry g(random, rank);
    const HostTensor x = randomTensor(random, g.shape(g.batch, g.groups * g.channels, g.input));
    const HostTensor w = randomTensor(random, g.shape(g.groups * g.filters, g.channels, g.kernel));
    const HostTensor offset = makeTensor(ElementKind::F32, g.shape(g.batch, countOf(g.kernel) * int64_t(rank), g.output));
    TestCall call("DeformConv");
    g.set(call);
    call.set("group", g.groups).in(x).in(w).in(offset);
    expectNear(call.run(), g.shape(g.batch, g.groups * g.filters, g.output), convolved(g, x, w));
  }
}

TEST(DeformConvTest, InterpolatesAndIsZeroOutside) {
  const HostTensor x = numbers({1, 1, 1, 4}, {10, 20, 30, 40}), w = numbers({1, 1, 1, 1}, {1});
  HostTensor offset = makeTensor(ElementKind::F32, {1, 2, 1, 4});
  const double along[] = {0.25, -5, -0.5, 0.75};
  for (int64_t i = 0; i < 4; ++i)
    setReal(offset, 4 + i, along[i]);
  expectNear(TestCall("DeformConv").in(x).in(w).in(offset).run(), {1, 1, 1, 4}, {12.5, 0, 25, 10});
  for (double bad : {double(NAN), double(INFINITY), 1e30}) {
    setReal(offset, 4, bad);
    EXPECT_EQ(realAt(TestCall("DeformConv").in(x).in(w).in(offset).run(), 0), 0);
  }
}

TEST(CausalConvWithStateTest, StepsGiveWhatTheWholeGives) {
  Random random(2);
  const HostTensor x = randomTensor(random, {2, 3, 6}), w = randomTensor(random, {3, 1, 4}), bias = randomTensor(random, {3});
  const std::vector<HostTensor> whole =
      TestCall("CausalConvWithState", 27).set("activation", "silu").in(x).in(w).in(bias).runAll(2);
  HostTensor state = makeTensor(ElementKind::F32, {2, 3, 3});
  for (int64_t at = 0; at < 6; ++at) {
    HostTensor step = makeTensor(ElementKind::F32, {2, 3, 1});
    for (int64_t i = 0; i < 6; ++i)
      setReal(step, i, realAt(x, i * 6 + at));
    const std::vector<HostTensor> results =
        TestCall("CausalConvWithState", 27).set("activation", "swish").in(step).in(w).in(bias).in(state).runAll(2);
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_NEAR(realAt(results[0], i), realAt(whole[0], i * 6 + at), 1e-5);
    state = results[1];
  }
  EXPECT_EQ(state.bytes, whole[1].bytes);
  EXPECT_EQ(TestCall("CausalConvWithState", 27).in(x).in(w).none().in(x).error(),
            "past_state has shape [2, 3, 6], expected [2, 3, 3]");
  EXPECT_EQ(TestCall("CausalConvWithState", 27).set("activation", "relu").in(x).in(w).error(),
            "activation is \"relu\", expected none, silu or swish");
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

TEST(PoolTest, RandomShapesOfUpToThreeDims) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const size_t rank = 1 + seed % 3;
    Geometry g(random, rank);
    const bool ceils = between(random, 0, 1), countsPadding = between(random, 0, 1);
    for (size_t dim = 0; ceils && dim < rank; ++dim) {
      const int64_t reach = (g.kernel[dim] - 1) * g.dilations[dim] + 1;
      const int64_t room = g.input[dim] + g.pads[dim] + g.pads[dim + rank] - reach;
      g.output[dim] = int64_t(std::ceil(double(room) / double(g.strides[dim]))) + 1;
      if ((g.output[dim] - 1) * g.strides[dim] - g.pads[dim] >= g.input[dim])
        --g.output[dim];
    }
    const HostTensor x = randomTensor(random, g.shape(g.batch, g.channels, g.input));
    std::vector<double> greatest, indices, average, norm;
    bool seesInput = true;
    for (int64_t plane = 0; plane < g.batch * g.channels; ++plane)
      forEachIndex(g.output, [&](const Shape &place) {
        double best = -INFINITY, sum = 0, squares = 0;
        int64_t bestAt = -1, count = 0, padded = 0;
        forEachIndex(g.kernel, [&](const Shape &element) {
          bool isPadded = true;
          for (size_t dim = 0; dim < rank; ++dim)
            isPadded &=
                place[dim] * g.strides[dim] + element[dim] * g.dilations[dim] - g.pads[dim] < g.input[dim] + g.pads[dim + rank];
          padded += isPadded;
          const int64_t at = g.inputAt(place, element);
          if (at < 0)
            return;
          const double each = realAt(x, plane * countOf(g.input) + at);
          if (each > best) {
            best = each;
            bestAt = plane * countOf(g.input) + at;
          }
          sum += each;
          squares += each * each;
          ++count;
        });
        seesInput &= count > 0;
        greatest.push_back(best);
        indices.push_back(double(bestAt));
        average.push_back(count ? sum / double(countsPadding ? padded : count) : 0);
        norm.push_back(std::sqrt(squares));
      });
    const Shape shape = g.shape(g.batch, g.channels, g.output);
    auto pool = [&](const char *type) {
      TestCall call(type);
      g.set(call);
      return call.set("ceil_mode", ceils).in(x);
    };
    if (seesInput) {
      const std::vector<HostTensor> results = pool("MaxPool").runAll(2);
      expectNear(results[0], shape, greatest);
      expectNear(results[1], shape, indices, 0);
    }
    expectNear(pool("AveragePool").set("count_include_pad", countsPadding).run(), shape, average);
    expectNear(pool("LpPool").run(), shape, norm);
  }
}

TEST(PoolTest, AutoPad) {
  const HostTensor x = numbers({1, 1, 4}, {1, 2, 3, 4});
  auto pool = [&](const char *padding) {
    return realsOf(TestCall("MaxPool").set("kernel_shape", Shape{2}).set("auto_pad", padding).in(x).run());
  };
  EXPECT_EQ(pool("SAME_UPPER"), (std::vector<double>{2, 3, 4, 4}));
  EXPECT_EQ(pool("SAME_LOWER"), (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(pool("VALID"), (std::vector<double>{2, 3, 4}));
}

TEST(PoolTest, IndicesInColumnsAndNaN) {
  const HostTensor x = numbers({1, 1, 2, 3}, {1, 2, 9, 4, 5, 6});
  TestCall call("MaxPool");
  call.set("kernel_shape", Shape{2, 3}).set("storage_order", 1).in(x);
  EXPECT_EQ(realsOf(call.runAll(2)[1]), std::vector<double>{4});
  const HostTensor nan = numbers({1, 1, 3}, {1, NAN, 3});
  EXPECT_TRUE(std::isnan(realAt(TestCall("MaxPool").set("kernel_shape", Shape{3}).in(nan).run(), 0)));
  const HostTensor bytes = numbers({1, 1, 3}, {-5, -128, -7}, ElementKind::I8);
  EXPECT_EQ(realsOf(TestCall("MaxPool").set("kernel_shape", Shape{3}).in(bytes).run()), std::vector<double>{-5});
}

TEST(PoolTest, WrongAttributes) {
  const HostTensor x = numbers({1, 1, 3}, {1, 2, 3});
  EXPECT_EQ(TestCall("MaxPool").in(x).error(), "attribute kernel_shape is missing");
  EXPECT_EQ(TestCall("MaxPool").set("kernel_shape", Shape{2, 2}).in(x).error(), "kernel_shape has 2 elements, expected 1");
  EXPECT_EQ(TestCall("LpPool").set("kernel_shape", Shape{2}).set("p", 0).in(x).error(), "p is 0, expected at least 1");
  // Padding far larger than the input costs no time.
  const int64_t large = int64_t(1) << 30;
  EXPECT_EQ(realsOf(TestCall("MaxPool")
                        .set("kernel_shape", Shape{large})
                        .set("strides", Shape{large})
                        .set("pads", Shape{large, 0})
                        .in(x)
                        .run())[0],
            -INFINITY);
}

TEST(PoolTest, GlobalPools) {
  const HostTensor x = numbers({1, 2, 2, 1}, {3, -4, 1, 5});
  expectNear(TestCall("GlobalAveragePool").in(x).run(), {1, 2, 1, 1}, {-0.5, 3});
  expectNear(TestCall("GlobalMaxPool").in(x).run(), {1, 2, 1, 1}, {3, 5});
  expectNear(TestCall("GlobalLpPool").in(x).run(), {1, 2, 1, 1}, {5, std::sqrt(26.0)});
  EXPECT_EQ(TestCall("GlobalMaxPool").in(numbers({1, 2, 0}, {})).error(),
            "input 0 has shape [1, 2, 0]: there is nothing to pool");
  EXPECT_EQ(TestCall("GlobalMaxPool").in(numbers({0, 2, 3}, {})).run().shape, (Shape{0, 2, 1}));
}

TEST(MaxUnpoolTest, UndoesMaxPool) {
  const HostTensor x = numbers({1, 1, 4}, {7, 2, 3, 9});
  const std::vector<HostTensor> pooled =
      TestCall("MaxPool").set("kernel_shape", Shape{2}).set("strides", Shape{2}).in(x).runAll(2);
  TestCall call("MaxUnpool");
  call.set("kernel_shape", Shape{2}).set("strides", Shape{2}).in(pooled[0]);
  expectNear(TestCall(call).in(pooled[1]).run(), {1, 1, 4}, {7, 0, 0, 9});
  expectNear(TestCall(call).in(pooled[1]).in(makeInts({1, 1, 5})).run(), {1, 1, 5}, {7, 0, 0, 9, 0});
  EXPECT_EQ(TestCall(call).in(pooled[1]).in(makeInts({1, 1, 3})).error(),
            "output_shape is [1, 1, 3], expected at least [1, 1, 4]");
  EXPECT_EQ(TestCall(call).in(numbers({1, 1, 2}, {0, 4}, ElementKind::I64)).error(),
            "index 1 is 4, expected one of the 4 places of shape [1, 1, 4]");
  EXPECT_EQ(TestCall(call).in(numbers({1, 1, 2}, {-1, 3}, ElementKind::I64)).error(),
            "index 0 is -1, expected one of the 4 places of shape [1, 1, 4]");
}

//===----------------------------------------------------------------------===//
// Det
//===----------------------------------------------------------------------===//

TEST(DetTest, IsMultiplicative) {
  Random random(11);
  const HostTensor a = randomTensor(random, {3, 5, 5}, ElementKind::F64), b = randomTensor(random, {3, 5, 5}, ElementKind::F64);
  const HostTensor product = TestCall("MatMul").in(a).in(b).run();
  const std::vector<double> left = realsOf(TestCall("Det").in(a).run()), right = realsOf(TestCall("Det").in(b).run());
  std::vector<double> expected;
  for (size_t i = 0; i < 3; ++i)
    expected.push_back(left[i] * right[i]);
  expectNear(TestCall("Det").in(product).run(), {3}, expected, 1e-9);
  expectNear(TestCall("Det").in(numbers({2, 2}, {0, 1, 1, 0})).run(), {}, {-1});
  expectNear(TestCall("Det").in(numbers({2, 2}, {1, 2, 2, 4})).run(), {}, {0});
  expectNear(TestCall("Det").in(numbers({0, 0}, {})).run(), {}, {1});
  EXPECT_EQ(TestCall("Det").in(numbers({1, 2}, {1, 2})).error(), "input 0 has shape [1, 2], expected square matrices");
}
