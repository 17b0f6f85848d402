//===- RuntimeSequencesTest.cpp - Experts, packed sequences, spectra ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// com.microsoft; what is expected is computed from the operators' definitions.
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/RealNodes.h"

#include <cmath>
#include <limits>

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

//===----------------------------------------------------------------------===//
// Mixtures of experts
//===----------------------------------------------------------------------===//

/// weights[expert] * x[token] + bias[expert] at `row`.
double dense(const HostTensor &w, const HostTensor *bias, int64_t expert, int64_t row, const std::vector<double> &x) {
  double sum = bias ? at(*bias, {expert, row}) : 0;
  for (size_t j = 0; j < x.size(); ++j)
    sum += at(w, {expert, row, int64_t(j)}) * x[j];
  return sum;
}

std::vector<double> rowOf(const HostTensor &x, int64_t i) {
  std::vector<double> row;
  for (int64_t j = 0; j < x.shape[1]; ++j)
    row.push_back(at(x, {i, j}));
  return row;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

TEST(MoE, TokensGoToTheExpertOfTheLargestProbability) {
  RandomTensors random;
  const HostTensor x = random.reals({3, 4}), w1 = random.reals({2, 5, 4}), b1 = random.reals({2, 5}),
                   w2 = random.reals({2, 4, 5}), b2 = random.reals({2, 4});
  // Expert 1, 0, 1; of logits 0 and 1 the greater one has probability 1 / (1 + e^-1).
  const HostTensor router = reals({3, 2}, {0, 1, 1, 0, 0, 1});
  const std::vector<int64_t> chosen{1, 0, 1};
  auto expected = [&](const Shape &i, double weight) {
    const int64_t expert = chosen[size_t(i[0])];
    std::vector<double> inner;
    for (int64_t j = 0; j < 5; ++j)
      inner.push_back(std::max(dense(w1, &b1, expert, j, rowOf(x, i[0])), 0.0));
    return weight * dense(w2, &b2, expert, i[1], inner);
  };
  expectElements(RealNode("com.microsoft:MoE").run({x, router, w1, b1, w2, b2}), {3, 4},
                 [&](const Shape &i) { return expected(i, 1 / (1 + std::exp(-1.0))); });
  expectElements(RealNode("com.microsoft:MoE").integer("normalize_routing_weights", 1).run({x, router, w1, b1, w2, b2}), {3, 4},
                 [&](const Shape &i) { return expected(i, 1); });
}

TEST(MoE, GatesOfAThirdLayerAndOfAFusedFirstOne) {
  RandomTensors random;
  const HostTensor x = random.reals({2, 4}), gates = random.reals({2, 3, 4}), linear = random.reals({2, 3, 4}),
                   w2 = random.reals({2, 4, 3}), router = reals({2, 2}, {0, 0, 0, 0});
  // Both experts, each with weight 1/2.
  auto expected = [&](const Shape &i, auto &&gated) {
    double sum = 0;
    for (int64_t expert : {0, 1}) {
      std::vector<double> inner;
      for (int64_t j = 0; j < 3; ++j)
        inner.push_back(
            gated(dense(gates, nullptr, expert, j, rowOf(x, i[0])), dense(linear, nullptr, expert, j, rowOf(x, i[0]))));
      sum += 0.5 * dense(w2, nullptr, expert, i[1], inner);
    }
    return sum;
  };
  const Value none;
  expectElements(RealNode("com.microsoft:MoE")
                     .integer("k", 2)
                     .text("activation_type", "silu")
                     .run({x, router, gates, none, w2, none, linear}),
                 {2, 4}, [&](const Shape &i) { return expected(i, [](double g, double l) { return silu(g) * l; }); });
  // swiglu(g, l) = min(g, limit) * sigmoid(alpha * min(g, limit)) * (clamp(l) + beta).
  auto swiglu = [](double g, double l) {
    g = std::min(g, 0.5);
    return g / (1 + std::exp(-1.75 * g)) * (std::min(std::max(l, -0.5), 0.5) + 1);
  };
  HostTensor interleaved = makeTensor(ElementKind::F32, {2, 6, 4}), concatenated = interleaved;
  forEachIndex({2, 3, 4}, [&](const Shape &i) {
    for (const auto &[from, part] : {std::pair(&gates, 0), std::pair(&linear, 1)}) {
      setReal(interleaved, (i[0] * 6 + 2 * i[1] + part) * 4 + i[2], at(*from, i));
      setReal(concatenated, (i[0] * 6 + 3 * part + i[1]) * 4 + i[2], at(*from, i));
    }
  });
  for (int fusion : {0, 1, 2}) {
    RealNode node("com.microsoft:MoE");
    node.integer("k", 2).text("activation_type", "swiglu").integer("swiglu_fusion", fusion);
    node.real("activation_alpha", 1.75f).real("activation_beta", 1.f).real("swiglu_limit", 0.5f);
    const HostTensor y = fusion == 0   ? node.run({x, router, gates, none, w2, none, linear})
                         : fusion == 1 ? node.run({x, router, interleaved, none, w2})
                                       : node.run({x, router, concatenated, none, w2});
    expectElements(y, {2, 4}, [&](const Shape &i) { return expected(i, swiglu); });
  }
}

TEST(QMoE, WeightsAreThoseOfRowsOrBlocks) {
  RandomTensors random;
  const int64_t experts = 2, hidden = 32, inner = 16;
  const HostTensor x = random.reals({3, hidden}), router = random.reals({3, experts});
  for (int64_t bits : {2, 4, 8})
    for (int64_t block : {0, 16})
      for (bool hasZeros : {false, true}) {
        const int64_t perByte = 8 / bits;
        // With a block, zero points need as many blocks as lie in a byte.
        if (hasZeros && block && perByte > 1)
          continue;
        const HostTensor w1 = random.integers({experts, inner, hidden / perByte}, ElementKind::U8, 0, 255),
                         w2 = random.integers({experts, hidden, inner / perByte}, ElementKind::U8, 0, 255);
        auto scales = [&](int64_t rows, int64_t columns) {
          return random.reals(block ? Shape{experts, rows, columns / block} : Shape{experts, rows}, 0.01, 0.02);
        };
        auto zeros = [&](int64_t rows, int64_t columns) {
          return random.integers(block ? Shape{experts, rows, columns / block} : Shape{experts, rows / perByte},
                                 ElementKind::U8, 0, 255);
        };
        const HostTensor s1 = scales(inner, hidden), s2 = scales(hidden, inner), z1 = zeros(inner, hidden),
                         z2 = zeros(hidden, inner);
        auto plain = [&](const HostTensor &w, const HostTensor &s, const HostTensor &z, int64_t rows, int64_t columns) {
          HostTensor y = makeTensor(ElementKind::F32, {experts, rows, columns});
          auto unpacked = [&](const HostTensor &from, int64_t i) {
            return (from.bytes[size_t(i / perByte)] >> (i % perByte * bits)) % (1 << bits);
          };
          forEachIndex(y.shape, [&](const Shape &i) {
            const int64_t place = (i[0] * rows + i[1]) * columns + i[2];
            const int64_t scale = block ? place / block : i[0] * rows + i[1];
            const int zero = hasZeros ? unpacked(z, scale) : 1 << (bits - 1);
            setReal(y, place, (unpacked(w, place) - zero) * realAt(s, scale));
          });
          return y;
        };
        const Value none;
        RealNode node("com.microsoft:QMoE");
        node.integer("expert_weight_bits", bits).text("activation_type", "silu");
        if (block)
          node.integer("block_size", block);
        std::vector<Value> inputs{x, router, w1, s1, none, w2, s2};
        if (hasZeros)
          for (const Value &input : std::vector<Value>{none, none, none, none, z1, z2})
            inputs.push_back(input);
        const HostTensor expected =
            RealNode("com.microsoft:MoE")
                .text("activation_type", "silu")
                .run({x, router, plain(w1, s1, z1, inner, hidden), none, plain(w2, s2, z2, hidden, inner)});
        expectElements(node.run(inputs), {3, hidden}, [&](const Shape &i) { return at(expected, i); });
      }
}

TEST(MoE, Refusals) {
  RandomTensors random;
  const HostTensor x = random.reals({3, 4}), router = random.reals({3, 2}), w1 = random.reals({2, 5, 4}),
                   w2 = random.reals({2, 4, 5});
  const Value none;
  EXPECT_EQ(RealNode("com.microsoft:MoE").integer("k", 3).error({x, router, w1, none, w2}), "k is 3, there are 2 experts");
  EXPECT_EQ(RealNode("com.microsoft:MoE").text("activation_type", "swiglu").error({x, router, w1, none, w2}),
            "swiglu_fusion is 0 and there is no fc3_experts_weights");
  EXPECT_EQ(RealNode("com.microsoft:MoE").text("activation_type", "Tanh").error({x, router, w1, none, w2}),
            "activation_type is \"Tanh\", expected relu, gelu, silu, swiglu or identity");
  EXPECT_EQ(RealNode("com.microsoft:MoE").error({x, router, w2, none, w1}),
            "fc1_experts_weights has shape [2, 4, 5], expected [2, 4, 4]");
  EXPECT_EQ(RealNode("com.microsoft:QMoE").text("quant_type", "fp4").error({x, router, w1, none, none, w2}),
            "quant_type is \"fp4\", expected int");
}

//===----------------------------------------------------------------------===//
// Packed sequences
//===----------------------------------------------------------------------===//

/// Sequences of 1, 2 and 4 tokens, of at most 4: the example of the operators' documentation.
const std::vector<int64_t> kOffsets{0, 4, 5, 8, 9, 10, 11, 1, 2, 3, 6, 7}, kStarts{0, 1, 3, 7};

TEST(RemovePadding, TokensAndTheirPlaces) {
  RandomTensors random;
  const HostTensor x = random.reals({3, 4, 2});
  const std::vector<Value> results = RealNode("com.microsoft:RemovePadding", 4).runAll({x, integers({3}, {1, 2, 4})});
  const HostTensor &y = *results[0].tensor;
  expectElements(y, {7, 2}, [&](const Shape &i) { return realAt(x, kOffsets[size_t(i[0])] * 2 + i[1]); });
  EXPECT_EQ(integersOf(*results[1].tensor), kOffsets);
  EXPECT_EQ(results[1].tensor->shape, (Shape{3, 4}));
  EXPECT_EQ(integersOf(*results[2].tensor), kStarts);
  EXPECT_EQ(integersOf(*results[3].tensor), std::vector<int64_t>{4});
  // Back, with zeros as padding.
  const HostTensor restored = RealNode("com.microsoft:RestorePadding").run({y, integers({3, 4}, kOffsets)});
  const std::vector<int64_t> lengths{1, 2, 4};
  expectElements(restored, {3, 4, 2}, [&](const Shape &i) { return i[1] < lengths[size_t(i[0])] ? at(x, i) : 0; });
  EXPECT_EQ(RealNode("com.microsoft:RemovePadding", 4).error({x, integers({3}, {1, 2, 5})}),
            "sequence_token_count has 5, expected 0 to 4");
  EXPECT_EQ(RealNode("com.microsoft:RestorePadding").error({y, integers({3, 4}, std::vector<int64_t>(12, 12))}),
            "token_offset has 12, expected 0 to 11");
}

/// Attention of each token to those of its sequence, of two heads of q, k [7, 2 * size] and v [7, 2 * valueSize].
HostTensor packedAttention(const HostTensor &q, const HostTensor &k, const HostTensor &v, const HostTensor *bias,
                           double scale) {
  const int64_t size = q.shape[1] / 2, valueSize = v.shape[1] / 2;
  HostTensor y = makeTensor(ElementKind::F32, {7, 2 * valueSize});
  for (size_t b = 0; b < 3; ++b)
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = kStarts[b]; i < kStarts[b + 1]; ++i) {
        std::vector<double> powers;
        double sum = 0;
        for (int64_t j = kStarts[b]; j < kStarts[b + 1]; ++j) {
          double score = 0;
          for (int64_t s = 0; s < size; ++s)
            score += at(q, {i, h * size + s}) * at(k, {j, h * size + s});
          powers.push_back(std::exp(score * scale + (bias ? at(*bias, {int64_t(b), 0, i - kStarts[b], j - kStarts[b]}) : 0)));
          sum += powers.back();
        }
        for (int64_t s = 0; s < valueSize; ++s) {
          double value = 0;
          for (size_t j = 0; j < powers.size(); ++j)
            value += powers[j] / sum * at(v, {kStarts[b] + int64_t(j), h * valueSize + s});
          setReal(y, i * 2 * valueSize + h * valueSize + s, value);
        }
      }
  return y;
}

TEST(PackedAttention, TokensSeeTheirSequenceOnly) {
  RandomTensors random;
  // Q and K of 2 heads of 3, V of 2 heads of 2.
  const HostTensor x = random.reals({7, 5}), w = random.reals({5, 16}), b = random.reals({16}),
                   bias = random.reals({3, 1, 4, 4});
  HostTensor q = makeTensor(ElementKind::F32, {7, 6}), k = q, v = makeTensor(ElementKind::F32, {7, 4});
  for (int64_t i = 0; i < 7; ++i)
    for (int64_t j = 0; j < 16; ++j) {
      double sum = at(b, {j});
      for (int64_t l = 0; l < 5; ++l)
        sum += at(x, {i, l}) * at(w, {l, j});
      setReal(j < 6 ? q : j < 12 ? k : v, j < 6 ? i * 6 + j : j < 12 ? i * 6 + j - 6 : i * 4 + j - 12, sum);
    }
  const HostTensor offsets = integers({3, 4}, kOffsets), starts = integers({4}, kStarts);
  RealNode node("com.microsoft:PackedAttention");
  node.integer("num_heads", 2).integers("qkv_hidden_sizes", {6, 6, 4});
  const HostTensor plain = packedAttention(q, k, v, nullptr, 1 / std::sqrt(3.0)), biased = packedAttention(q, k, v, &bias, 0.5);
  expectElements(node.run({x, w, b, offsets, starts}), {7, 4}, [&](const Shape &i) { return at(plain, i); });
  expectElements(node.real("scale", 0.5f).run({x, w, b, offsets, starts, bias}), {7, 4},
                 [&](const Shape &i) { return at(biased, i); });
  EXPECT_EQ(node.error({x, w, b, offsets, integers({4}, {0, 1, 3, 8})}),
            "cumulative_sequence_length is [0, 1, 3, 8] for 7 tokens of sequences of at most 4");
}

TEST(PackedMultiHeadAttention, PartsAloneOrTogether) {
  RandomTensors random;
  const HostTensor q = random.reals({7, 6}), k = random.reals({7, 6}), v = random.reals({7, 6}), b = random.reals({18});
  const HostTensor offsets = integers({3, 4}, kOffsets), starts = integers({4}, kStarts);
  RealNode node("com.microsoft:PackedMultiHeadAttention");
  node.integer("num_heads", 2);
  const Value none;
  const HostTensor plain = packedAttention(q, k, v, nullptr, 1 / std::sqrt(3.0));
  expectElements(node.run({q, k, v, none, offsets, starts}), {7, 6}, [&](const Shape &i) { return at(plain, i); });
  HostTensor together = makeTensor(ElementKind::F32, {7, 2, 3, 3});
  forEachIndex(together.shape, [&](const Shape &i) {
    const HostTensor &from = i[2] == 0 ? q : i[2] == 1 ? k : v;
    setReal(together, ((i[0] * 2 + i[1]) * 3 + i[2]) * 3 + i[3], at(from, {i[0], i[1] * 3 + i[3]}));
  });
  expectElements(node.run({together, none, none, none, offsets, starts}), {7, 6}, [&](const Shape &i) { return at(plain, i); });
  auto plus = [&](HostTensor x, int64_t part) {
    for (int64_t i = 0; i < 42; ++i)
      setReal(x, i, realAt(x, i) + realAt(b, part * 6 + i % 6));
    return x;
  };
  const HostTensor shifted = packedAttention(plus(q, 0), plus(k, 1), plus(v, 2), nullptr, 1 / std::sqrt(3.0));
  expectElements(node.run({q, k, v, b, offsets, starts}), {7, 6}, [&](const Shape &i) { return at(shifted, i); });
  expectElements(node.run({together, none, none, b, offsets, starts}), {7, 6}, [&](const Shape &i) { return at(shifted, i); });
}

TEST(NGramRepeatBlock, WhatWouldRepeatIsMinusInfinity) {
  // Of the last two tokens 1, 2: 3 came behind them once. In the second sequence 4, 4 was followed by 4.
  const HostTensor ids = integers({2, 5}, {1, 2, 3, 1, 2, 0, 4, 4, 4, 4}, ElementKind::I64),
                   scores = reals({2, 5}, std::vector<double>(10, 0.5));
  const HostTensor y = RealNode("com.microsoft:NGramRepeatBlock").integer("ngram_size", 3).run({ids, scores});
  const double inf = std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(realAt(y, i), i == 3 || i == 9 ? -inf : 0.5) << i;
  EXPECT_EQ(RealNode("com.microsoft:NGramRepeatBlock")
                .integer("ngram_size", 1)
                .error({integers({1, 1}, {5}, ElementKind::I64), reals({1, 5}, {0, 0, 0, 0, 0})}),
            "input_ids has 5, there are scores of 5 tokens");
}

//===----------------------------------------------------------------------===//
// Spectra, slices, hashes
//===----------------------------------------------------------------------===//

TEST(ComplexMul, ProductsAndConjugates) {
  // (1 + 2i)(3 - 4i) = 11 + 2i, (1 + 2i)(3 + 4i) = -5 + 10i; the second factor is broadcast.
  const HostTensor a = reals({2, 2}, {1, 2, 1, -2}), b = reals({1, 2}, {3, -4});
  EXPECT_EQ(RealNode("com.microsoft:ComplexMul").run({a, b}).bytes, reals({2, 2}, {11, 2, -5, -10}).bytes);
  EXPECT_EQ(RealNode("com.microsoft:ComplexMulConj").run({a, b}).bytes, reals({2, 2}, {-5, 10, 11, -2}).bytes);
  EXPECT_EQ(RealNode("com.microsoft:ComplexMul").error({a, reals({1}, {3})}),
            "an input has shape [1], expected a last dim of 2");
}

TEST(Rfft, SumsOfPowersOfTheRootsOfUnity) {
  RandomTensors random;
  const HostTensor x = random.reals({2, 3, 6});
  const HostTensor y =
      RealNode("com.microsoft:Rfft").integer("normalized", 0).integer("onesided", 1).integer("signal_ndim", 1).run({x});
  expectElements(y, {2, 3, 4, 2}, [&](const Shape &i) {
    double sum = 0;
    for (int64_t t = 0; t < 6; ++t) {
      const double angle = -2 * std::acos(-1.0) * double(i[2] * t) / 6;
      sum += at(x, {i[0], i[1], t}) * (i[3] ? std::sin(angle) : std::cos(angle));
    }
    return sum;
  });
  const HostTensor back = RealNode("com.microsoft:Irfft").run({y});
  expectElements(back, {2, 3, 6}, [&](const Shape &i) { return at(x, i); });
  EXPECT_EQ(RealNode("com.microsoft:Rfft").integer("signal_ndim", 2).error({x}),
            "normalized, onesided and signal_ndim are 0, 1 and 2, expected 0, 1 and 1");
}

TEST(UnfoldTensor, SlicesOfADim) {
  const HostTensor x = integers({2, 5}, {0, 1, 2, 3, 4, 10, 11, 12, 13, 14});
  const HostTensor y = RealNode("com.microsoft:UnfoldTensor").integer("dim", 1).integer("size", 3).integer("step", 2).run({x});
  EXPECT_EQ(y.shape, (Shape{2, 2, 3}));
  EXPECT_EQ(integersOf(y), (std::vector<int64_t>{0, 1, 2, 2, 3, 4, 10, 11, 12, 12, 13, 14}));
  const HostTensor rows = RealNode("com.microsoft:UnfoldTensor").integer("dim", 0).integer("size", 2).run({x});
  EXPECT_EQ(rows.shape, (Shape{1, 5, 2}));
  EXPECT_EQ(integersOf(rows), (std::vector<int64_t>{0, 10, 1, 11, 2, 12, 3, 13, 4, 14}));
  EXPECT_EQ(RealNode("com.microsoft:UnfoldTensor").integer("size", 6).error({x}),
            "slices of 6 in steps of 1 are wanted of input of shape [2, 5]");
}

TEST(TorchEmbedding, RowsOfTheTable) {
  EXPECT_EQ(integersOf(RealNode("com.microsoft:TorchEmbedding")
                           .run({integers({3, 2}, {0, 1, 2, 3, 4, 5}), integers({2}, {2, 0}, ElementKind::I64)})),
            (std::vector<int64_t>{4, 5, 0, 1}));
}

TEST(MurmurHash3, KnownHashes) {
  // source: test vectors of MurmurHash3_x86_32 (SMHasher's verification set as published by I. Boyandin)
  auto hash = [](const std::string &text, int64_t seed) {
    HostTensor x = makeTensor(ElementKind::String, {1});
    x.strings[0] = text;
    return uint32_t(integerAt(RealNode("com.microsoft:MurmurHash3").integer("seed", seed).run({x}), 0));
  };
  EXPECT_EQ(hash("", 0), 0u);
  EXPECT_EQ(hash("", 1), 0x514e28b7u);
  EXPECT_EQ(hash("aaaa", 0x9747b28c), 0x5a97808au);
  EXPECT_EQ(hash("aaa", 0x9747b28c), 0x283e0130u);
  EXPECT_EQ(hash("aa", 0x9747b28c), 0x5d211726u);
  EXPECT_EQ(hash("a", 0x9747b28c), 0x7fa09ea6u);
  EXPECT_EQ(hash("Hello, world!", 0x9747b28c), 0x24884cbau);
  // The bytes of a number; as int32 with positive = 0. 0x87654321 hashes to 0xf55b516b.
  const HostTensor number = integers({1}, {int32_t(0x87654321)});
  const HostTensor y = RealNode("com.microsoft:MurmurHash3").integer("positive", 0).run({number});
  EXPECT_EQ(y.type, ElementKind::I32);
  EXPECT_EQ(integerAt(y, 0), int32_t(0xf55b516b));
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

TEST(BiasDropout, NothingIsDropped) {
  const HostTensor x = reals({2, 2}, {1, 2, 3, 4}), bias = reals({2}, {10, 20}), residual = reals({2, 2}, {100, 200, 300, 400});
  const std::vector<Value> results = RealNode("com.microsoft:BiasDropout", 2).runAll({x, bias, residual, scalar(0.5f)});
  EXPECT_EQ(results[0].tensor->bytes, reals({2, 2}, {111, 222, 313, 424}).bytes);
  EXPECT_EQ(integersOf(*results[1].tensor), (std::vector<int64_t>{1, 1, 1, 1}));
  const std::vector<Value> packed = RealNode("com.microsoft:BitmaskDropout", 2).runAll({x});
  EXPECT_EQ(packed[0].tensor->bytes, x.bytes);
  EXPECT_EQ(integersOf(*packed[1].tensor), std::vector<int64_t>{15});
  EXPECT_EQ(RealNode("com.microsoft:BitmaskBiasDropout").run({x, bias}).bytes, reals({2, 2}, {11, 22, 13, 24}).bytes);
  EXPECT_EQ(
      RealNode("com.microsoft:BiasDropout").error({x, bias, residual, scalar(0.5f), integers({}, {1}, ElementKind::Bool)}),
      "training_mode is true, which is not supported");
}

TEST(MulInteger, ZeroPointsAreSubtracted) {
  const HostTensor a = integers({2, 1}, {0, 255}, ElementKind::U8), b = integers({2}, {0, 200}, ElementKind::U8);
  const HostTensor y = RealNode("com.microsoft:MulInteger")
                           .run({a, integers({}, {128}, ElementKind::U8), b, integers({}, {100}, ElementKind::U8)});
  EXPECT_EQ(y.type, ElementKind::I32);
  EXPECT_EQ(integersOf(y), (std::vector<int64_t>{12800, -12800, -12700, 12700}));
}

TEST(ReduceSumInteger, SumsDoNotWrap) {
  const HostTensor y = RealNode("com.microsoft:ReduceSumInteger")
                           .integers("axes", {1})
                           .integer("keepdims", 0)
                           .run({integers({2, 3}, {-128, -128, -1, 127, 127, 127}, ElementKind::I8)});
  EXPECT_EQ(y.type, ElementKind::I32);
  EXPECT_EQ(integersOf(y), (std::vector<int64_t>{-257, 381}));
  EXPECT_EQ(RealNode("com.microsoft:ReduceSumInteger")
                .integers("axes", {0})
                .integer("keepdims", 1)
                .run({integers({2}, {255, 255}, ElementKind::U8)})
                .type,
            ElementKind::U32);
}

TEST(GemmaRotaryEmbedding, AnglesTurnPairs) {
  RandomTensors random;
  const HostTensor angles = random.reals({2, 3, 4}), q = random.reals({2, 2, 3, 4}), qTurned = random.reals({2, 2, 3, 4}),
                   k = random.reals({2, 1, 3, 4}), kTurned = random.reals({2, 1, 3, 4});
  const std::vector<Value> results = RealNode("com.microsoft:GemmaRotaryEmbedding", 2).runAll({angles, q, qTurned, k, kTurned});
  auto expected = [&](const HostTensor &x, const HostTensor &turned) {
    return [&](const Shape &i) {
      const double angle = at(angles, {i[0], i[2], i[3]});
      return at(x, i) * std::cos(angle) + at(turned, i) * std::sin(angle);
    };
  };
  expectElements(*results[0].tensor, q.shape, expected(q, qTurned));
  expectElements(*results[1].tensor, k.shape, expected(k, kTurned));
}

} // namespace
