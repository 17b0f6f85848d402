//===- RuntimeQuantizedTest.cpp - Quantised operators of com.microsoft ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expected numbers: docs/design/quantised-arithmetic.md where it has a
// formula, else real numbers, and then a result may differ by one at a tie.
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/RealNodes.h"

#include <cmath>

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

constexpr ElementKind U8 = ElementKind::U8, I8 = ElementKind::I8;

HostTensor zero(int64_t value, ElementKind kind = U8) { return integers({}, {value}, kind); }

/// Rounded to the nearest integer, ties to even, and saturated.
double saturated(double x, ElementKind kind) {
  const double low = kind == I8 ? -128 : 0;
  return std::min(std::max(std::nearbyint(x), low), low + 255);
}

TEST(QLinear, AddOverAllPairs) {
  const float sa = 0.037f, sb = 0.051f, sy = 0.073f;
  for (ElementKind kind : {U8, I8}) {
    std::vector<int64_t> all;
    const int64_t low = kind == I8 ? -128 : 0, za = low + 100, zb = low + 7, zy = low + 120;
    for (int64_t i = 0; i < 256; ++i)
      all.push_back(low + i);
    const HostTensor a = integers({256, 1}, all, kind), b = integers({256}, all, kind);
    const HostTensor y = RealNode("com.microsoft:QLinearAdd")
                             .run({a, scalar(sa), zero(za, kind), b, scalar(sb), zero(zb, kind), scalar(sy), zero(zy, kind)});
    EXPECT_EQ(y.type, kind);
    const float constant = float(zy) - std::fma(sa / sy, float(za), (sb / sy) * float(zb));
    expectElements(
        y, {256, 256},
        [&](const Shape &i) {
          return saturated(double(std::fma(float(low + i[0]), sa / sy, std::fma(float(low + i[1]), sb / sy, constant))), kind);
        },
        0);
    const HostTensor product =
        RealNode("com.microsoft:QLinearMul")
            .run({a, scalar(sa), zero(za, kind), b, scalar(sb), zero(zb, kind), scalar(sy), zero(zy, kind)});
    const float scale = sa * sb / sy;
    expectElements(
        product, {256, 256},
        [&](const Shape &i) {
          return saturated(double(std::nearbyint(float((low + i[0] - za) * (low + i[1] - zb)) * scale)) + double(zy), kind);
        },
        0);
  }
  const HostTensor a = integers({1}, {1}, U8);
  EXPECT_EQ(RealNode("com.microsoft:QLinearAdd").error({a, scalar(1), zero(0, I8), a, scalar(1), zero(0), scalar(1), zero(0)}),
            "input 2, a zero point, is of int8, expected uint8");
  EXPECT_EQ(
      RealNode("com.microsoft:QLinearAdd").error({a, reals({2}, {1, 1}), zero(0), a, scalar(1), zero(0), scalar(1), zero(0)}),
      "input 1 has shape [2], expected one element");
}

TEST(QLinear, FunctionsOfElements) {
  std::vector<int64_t> all;
  for (int64_t i = -128; i < 128; ++i)
    all.push_back(i);
  const HostTensor x = integers({256}, all, I8);
  const std::vector<Value> inputs = {x, scalar(0.05f), zero(3, I8), scalar(0.004f), zero(-128, I8)};
  expectElements(
      RealNode("com.microsoft:QLinearSigmoid").run(inputs), {256},
      [&](const Shape &i) { return saturated(1 / (1 + std::exp(-0.05 * double(all[size_t(i[0])] - 3))) / 0.004 - 128, I8); },
      1);
  expectElements(
      RealNode("com.microsoft:QLinearLeakyRelu").real("alpha", 0.1f).run(inputs), {256},
      [&](const Shape &i) {
        const double value = 0.05 * double(all[size_t(i[0])] - 3);
        return saturated((value >= 0 ? value : 0.1 * value) / 0.004 - 128, I8);
      },
      1);
}

TEST(QLinear, ConcatAndWhere) {
  const HostTensor a = integers({2, 1}, {10, 20}, U8), b = integers({2, 2}, {1, 2, 3, 4}, U8);
  const HostTensor y = RealNode("com.microsoft:QLinearConcat")
                           .integer("axis", 1)
                           .run({scalar(0.5f), zero(4), a, scalar(0.5f), zero(4), b, scalar(2), zero(1)});
  EXPECT_EQ(y.shape, (Shape{2, 3}));
  EXPECT_EQ(integersOf(y), (std::vector<int64_t>{10, 4, 8, 20, 12, 16}));
  HostTensor condition = makeTensor(ElementKind::Bool, {2, 1});
  condition.bytes = {1, 0};
  const HostTensor z = RealNode("com.microsoft:QLinearWhere")
                           .run({condition, a, scalar(0.5f), zero(4), b, scalar(2), zero(1), scalar(0.5f), zero(4)});
  EXPECT_EQ(integersOf(z), (std::vector<int64_t>{10, 10, 12, 16}));
  EXPECT_EQ(RealNode("com.microsoft:QLinearConcat").integer("axis", 1).error({scalar(1), zero(0), a, scalar(1)}),
            "found 4 inputs, expected 2 and 3 for every tensor");
  EXPECT_EQ(RealNode("com.microsoft:QLinearConcat")
                .integer("axis", 0)
                .error({scalar(1), zero(0), a, scalar(1), zero(0), b, scalar(1), zero(0)}),
            "an input has shape [2, 2], expected [-1, 1] (-1: any)");
}

TEST(QLinear, Means) {
  RandomTensors random;
  const HostTensor x = random.integers({2, 3, 4, 5}, U8, 0, 255);
  auto mean = [&](int64_t n, int64_t c) {
    double sum = 0;
    for (int64_t i = 0; i < 20; ++i)
      sum += at(x, {n, c, i / 5, i % 5}) - 100;
    return sum;
  };
  const float multiplier = 0.02f / (0.03f * 20.f);
  auto expected = [&](const Shape &i) {
    return saturated(double(std::nearbyint(float(mean(i[0], i[1])) * multiplier)) + 90, U8);
  };
  const std::vector<Value> rest = {scalar(0.02f), zero(100), scalar(0.03f), zero(90)};
  auto with = [&](const HostTensor &image) { return std::vector<Value>{image, rest[0], rest[1], rest[2], rest[3]}; };
  expectElements(RealNode("com.microsoft:QLinearGlobalAveragePool").run(with(x)), {2, 3, 1, 1}, expected, 0);
  const HostTensor last = transposed(x, {0, 2, 3, 1});
  expectElements(
      RealNode("com.microsoft:QLinearGlobalAveragePool").integer("channels_last", 1).run(with(last)), {2, 1, 1, 3},
      [&](const Shape &i) {
        return expected({i[0], i[3]});
      },
      0);
  expectElements(RealNode("com.microsoft:QLinearAveragePool").integers("kernel_shape", {4, 5}).run(with(x)), {2, 3, 1, 1},
                 expected, 0);
  expectElements(RealNode("com.microsoft:QLinearReduceMean").integers("axes", {2, -1}).integer("keepdims", 0).run(with(x)),
                 {2, 3}, expected, 1);
}

TEST(QLinear, Softmax) {
  const HostTensor x = RandomTensors().integers({2, 3, 4}, U8, 0, 255);
  const std::vector<Value> inputs = {x, scalar(0.02f), zero(100), scalar(1.f / 256), zero(0)};
  auto expect = [&](int64_t opset, auto &&row) {
    const HostTensor y = RealNode("com.microsoft:QLinearSoftmax").integer("axis", 1).integer("opset", opset).run(inputs);
    expectElements(
        y, x.shape,
        [&](const Shape &i) {
          double sum = 0;
          for (const Shape &k : row(i))
            sum += std::exp(0.02 * at(x, k));
          return saturated(256 * std::exp(0.02 * at(x, i)) / sum, U8);
        },
        1);
  };
  expect(13, [](const Shape &i) { return std::vector<Shape>{{i[0], 0, i[2]}, {i[0], 1, i[2]}, {i[0], 2, i[2]}}; });
  expect(11, [](const Shape &i) {
    std::vector<Shape> row;
    for (int64_t k = 0; k < 12; ++k)
      row.push_back({i[0], k / 4, k % 4});
    return row;
  });
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

TEST(QuantizedMatrices, QGemm) {
  RandomTensors random;
  const HostTensor a = random.integers({5, 3}, U8, 0, 255), b = random.integers({4, 5}, I8, -128, 127),
                   scales = random.reals({4}, 0.01, 0.02), zeros = random.integers({4}, I8, -3, 3),
                   c = random.integers({4}, ElementKind::I32, -1000, 1000);
  auto sum = [&](const Shape &i) {
    double sum = at(c, {i[1]});
    for (int64_t k = 0; k < 5; ++k)
      sum += (at(a, {k, i[0]}) - 100) * (at(b, {i[1], k}) - at(zeros, {i[1]}));
    return float(sum);
  };
  auto node = [] { return RealNode("com.microsoft:QGemm").integer("transA", 1).integer("transB", 1).real("alpha", 0.5f); };
  std::vector<Value> inputs = {a, scalar(0.03f), zero(100), b, scales, zeros, c};
  auto scale = [&](int64_t j) { return 0.5f * 0.03f * data<float>(scales)[j]; };
  expectElements(
      node().run(inputs), {3, 4}, [&](const Shape &i) { return double(sum(i) * scale(i[1])); }, 0);
  inputs.push_back(scalar(0.1f));
  inputs.push_back(zero(5, I8));
  expectElements(
      node().run(inputs), {3, 4},
      [&](const Shape &i) { return saturated(double(std::nearbyint(sum(i) * (scale(i[1]) / 0.1f))) + 5, I8); }, 0);
  inputs[6] = random.integers({4}, I8, 0, 1);
  EXPECT_EQ(node().error(inputs), "C has shape [4] of int8, expected int32 that broadcasts to [3, 4]");
}

TEST(QuantizedMatrices, IntegersToFloats) {
  RandomTensors random;
  const HostTensor a = random.integers({2, 3, 5}, U8, 0, 255), b = random.integers({5, 4}, U8, 0, 255),
                   scales = random.reals({4}, 0.01, 0.02), zeros = random.integers({4}, U8, 100, 150), bias = random.reals({4});
  const HostTensor y = RealNode("com.microsoft:MatMulIntegerToFloat").run({a, b, scalar(0.03f), scales, zero(99), zeros, bias});
  expectElements(
      y, {2, 3, 4},
      [&](const Shape &i) {
        double sum = 0;
        for (int64_t k = 0; k < 5; ++k)
          sum += (at(a, {i[0], i[1], k}) - 99) * (at(b, {k, i[2]}) - at(zeros, {i[2]}));
        return sum * 0.03 * at(scales, {i[2]}) + at(bias, {i[2]});
      },
      1e-3);
  // A that is quantised on the way: to 255 steps between its bounds.
  const HostTensor x = random.reals({3, 5}, -1, 3);
  double low = 0, high = 0;
  for (int64_t i = 0; i < 15; ++i) {
    low = std::min(low, double(data<float>(x)[i]));
    high = std::max(high, double(data<float>(x)[i]));
  }
  const double step = (high - low) / 255;
  const HostTensor z = RealNode("com.microsoft:DynamicQuantizeMatMul").run({x, b, scales, zeros, bias});
  expectElements(
      z, {3, 4},
      [&](const Shape &i) {
        double sum = 0;
        for (int64_t k = 0; k < 5; ++k)
          sum += std::nearbyint(at(x, {i[0], k}) / step) * step * (at(b, {k, i[1]}) - at(zeros, {i[1]}));
        return sum * at(scales, {i[1]}) + at(bias, {i[1]});
      },
      1e-3);
  EXPECT_EQ(RealNode("com.microsoft:DynamicQuantizeMatMul").error({x, b, random.reals({3})}),
            "b_scale has shape [3], expected one number or 4");
  EXPECT_EQ(RealNode("com.microsoft:MatMulIntegerToFloat").error({a, a, scalar(1), scalar(1)}),
            "matrices of shapes [2, 3, 5] and [2, 3, 5] have no product");
}

TEST(MatMulNBits, AllBits) {
  RandomTensors random;
  constexpr int64_t k = 40, n = 3, size = 16, blocks = 3;
  const HostTensor a = random.reals({2, k}), bias = random.reals({n});
  for (int64_t bits : {2, 4, 8}) {
    const HostTensor q = random.integers({n, blocks * size}, U8, 0, (1 << bits) - 1), scales = random.reals({n, blocks}),
                     zeros = random.integers({n, blocks}, U8, 0, (1 << bits) - 1);
    auto pack = [&](const HostTensor &x) {
      const int64_t columns = x.shape[1], bytes = (columns * bits + 7) / 8;
      HostTensor y = makeTensor(U8, {x.shape[0], bytes});
      for (int64_t row = 0; row < x.shape[0]; ++row)
        for (int64_t i = 0; i < columns; ++i)
          y.bytes[size_t(row * bytes + i * bits / 8)] |= uint8_t(int(at(x, {row, i})) << (i * bits % 8));
      return y;
    };
    const HostTensor b = reshaped(pack(q), {n, blocks, size * bits / 8});
    auto expected = [&](auto &&zeroOf, auto &&groupOf, const Shape &i) {
      double sum = at(bias, {i[1]});
      for (int64_t j = 0; j < k; ++j) {
        const int64_t group = groupOf(j);
        sum += at(a, {i[0], j}) * (at(q, {i[1], j}) - zeroOf(i[1], group)) * at(scales, {i[1], group});
      }
      return sum;
    };
    RealNode node("com.microsoft:MatMulNBits");
    node.integer("K", k).integer("N", n).integer("bits", bits).integer("block_size", size);
    auto block = [](int64_t j) { return j / size; };
    auto packedZero = [&](int64_t row, int64_t group) { return at(zeros, {row, group}); };
    expectElements(
        node.run({a, b, reshaped(scales, {n * blocks}), Value(), Value(), bias}), {2, n},
        [&](const Shape &i) { return expected([&](int64_t, int64_t) { return double(1 << (bits - 1)); }, block, i); }, 1e-3);
    expectElements(
        node.run({a, b, scales, pack(zeros), Value(), bias}), {2, n},
        [&](const Shape &i) { return expected(packedZero, block, i); }, 1e-3);
    HostTensor groups = makeTensor(ElementKind::I32, {k});
    for (int64_t j = 0; j < k; ++j)
      data<int32_t>(groups)[j] = int32_t(j % blocks);
    expectElements(
        node.run({a, b, scales, toKind(zeros, ElementKind::F32), groups, bias}), {2, n},
        [&](const Shape &i) {
          return expected(
              packedZero, [](int64_t j) { return j % blocks; }, i);
        },
        1e-3);
    data<int32_t>(groups)[3] = 3;
    EXPECT_EQ(node.error({a, b, scales, Value(), groups}), "g_idx has 3, there are 3 blocks");
  }
  RealNode node("com.microsoft:MatMulNBits");
  node.integer("K", k).integer("N", n).integer("block_size", size);
  EXPECT_EQ(node.error({a, integers({1}, {1}, U8), bias}), "B has shape [1] of uint8, expected uint8 of shape [3, 3, 8]");
  EXPECT_EQ(RealNode("com.microsoft:MatMulNBits").integer("K", k).integer("N", n).integer("block_size", 24).error({a, a, a}),
            "block_size is 24, expected a power of 2 of at least 16");
}

TEST(MatMulBnb4, BothTypes) {
  RandomTensors random;
  constexpr int64_t k = 5, n = 4, size = 16;
  const HostTensor q = random.integers({n * k}, U8, 0, 15), scales = random.reals({2}), a = random.reals({2, k}),
                   turned = random.reals({2, n});
  HostTensor b = makeTensor(U8, {n * k / 2});
  for (int64_t i = 0; i < n * k / 2; ++i)
    b.bytes[size_t(i)] = uint8_t(q.bytes[size_t(2 * i)] << 4 | q.bytes[size_t(2 * i + 1)]);
  // Magnitudes of FP4 times 12.
  const double magnitudes[] = {0, 0.0625, 8, 12, 4, 6, 2, 3};
  auto weight = [&](int64_t row, int64_t column) {
    const int64_t i = row * k + column;
    const int value = q.bytes[size_t(i)];
    return (value & 8 ? -1 : 1) * magnitudes[value & 7] / 12 * at(scales, {i / size});
  };
  RealNode node("com.microsoft:MatMulBnb4");
  node.integer("K", k).integer("N", n).integer("block_size", size).integer("quant_type", 0);
  expectElements(node.run({a, b, scales}), {2, n}, [&](const Shape &i) {
    double sum = 0;
    for (int64_t j = 0; j < k; ++j)
      sum += at(a, {i[0], j}) * weight(i[1], j);
    return sum;
  });
  expectElements(node.integer("transB", 0).run({turned, b, scales}), {2, k}, [&](const Shape &i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j)
      sum += at(turned, {i[0], j}) * weight(j, i[1]);
    return sum;
  });
}

TEST(GatherBlockQuantized, PackedAndNot) {
  RandomTensors random;
  constexpr int64_t rows = 4, columns = 32;
  const HostTensor q = random.integers({rows, columns}, ElementKind::U4, 0, 15), scales = random.reals({rows, 2}),
                   zeros = random.integers({rows, 2}, ElementKind::U4, 0, 15),
                   indices = integers({3}, {2, -1, 9}, ElementKind::I64);
  auto expected = [&](auto &&zeroOf, const Shape &i) {
    if (i[0] == 2)
      return 0.0;
    const int64_t row = i[0] == 0 ? 2 : 3;
    return (at(q, {row, i[1]}) - zeroOf(row, i[1] / 16)) * at(scales, {row, i[1] / 16});
  };
  RealNode node("com.microsoft:GatherBlockQuantized");
  node.integer("block_size", 16).integer("quantize_axis", 1);
  auto given = [&](int64_t row, int64_t block) { return at(zeros, {row, block}); };
  expectElements(node.run({q, indices, scales, zeros}), {3, columns}, [&](const Shape &i) { return expected(given, i); });
  expectElements(node.run({q, indices, scales}), {3, columns},
                 [&](const Shape &i) { return expected([](int64_t, int64_t) { return 0.0; }, i); });
  auto pack = [](const HostTensor &x) {
    HostTensor y = makeTensor(U8, {x.shape[0], x.shape[1] / 2});
    for (int64_t i = 0; i < countOf(x); ++i)
      y.bytes[size_t(i / 2)] |= uint8_t(x.bytes[size_t(i)] << (i % 2 * 4));
    return y;
  };
  expectElements(node.run({pack(q), indices, scales, pack(zeros)}), {3, columns},
                 [&](const Shape &i) { return expected(given, i); });
  expectElements(node.run({pack(q), indices, scales}), {3, columns},
                 [&](const Shape &i) { return expected([](int64_t, int64_t) { return 8.0; }, i); });
  EXPECT_EQ(node.error({q, indices, zeros}), "scales is of uint4, expected floats");
  EXPECT_EQ(node.error({q, indices, random.reals({4, 3})}), "scales has shape [4, 3], expected [4, 2]");
}

TEST(DynamicQuantizeLstm, NearTheLstmOfItsWeights) {
  RandomTensors random;
  constexpr int64_t hidden = 3, inputs = 4;
  const HostTensor x = random.reals({5, 1, inputs}), w = random.integers({1, inputs, 4 * hidden}, I8, -128, 127),
                   r = random.integers({1, hidden, 4 * hidden}, I8, -128, 127), bias = random.reals({1, 8 * hidden}),
                   scales = random.reals({1, 4 * hidden}, 0.002, 0.01);
  const HostTensor zeros = integers({1, 4 * hidden}, std::vector<int64_t>(12, 0), I8);
  auto real = [&](const HostTensor &q) {
    HostTensor y = makeTensor(ElementKind::F32, {1, q.shape[2], q.shape[1]});
    for (int64_t i = 0; i < q.shape[1]; ++i)
      for (int64_t j = 0; j < q.shape[2]; ++j)
        data<float>(y)[j * q.shape[1] + i] = float(at(q, {0, i, j}) * at(scales, {0, j}));
    return y;
  };
  const HostTensor expected = RealNode(":LSTM").integer("hidden_size", hidden).run({x, real(w), real(r), bias});
  const Value none;
  const HostTensor y = RealNode("com.microsoft:DynamicQuantizeLSTM")
                           .integer("hidden_size", hidden)
                           .run({x, w, r, bias, none, none, none, none, scales, zeros, scales, zeros});
  // The steps of the quantised inputs and states are 1/128 and less.
  expectElements(
      y, expected.shape, [&](const Shape &i) { return at(expected, i); }, 0.02);
  EXPECT_NE(y.bytes, expected.bytes);
}

} // namespace
