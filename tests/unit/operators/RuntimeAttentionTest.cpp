//===- RuntimeAttentionTest.cpp - Attention of com.microsoft --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expected numbers come from a double loop over queries and keys.
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/RealNodes.h"

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

constexpr int64_t kBatch = 2, kSteps = 3, kHeads = 2, kSize = 4, kWidth = kHeads * kSize;

/// softmax(score) * value over keys; scores are of `score(j)`.
template <typename Score, typename Of> double attend(int64_t keys, Score &&score, Of &&value) {
  double most = score(0), sum = 0, weighted = 0;
  for (int64_t j = 0; j < keys; ++j)
    most = std::max(most, double(score(j)));
  for (int64_t j = 0; j < keys; ++j) {
    sum += std::exp(score(j) - most);
    weighted += std::exp(score(j) - most) * value(j);
  }
  return weighted / sum;
}

/// The plain attention of q, k, v(b, h, position, element); `bias(b, h, i, j)` is added to scores, -10000 masks.
template <typename Q, typename K, typename V, typename Bias>
void expectAttention(const HostTensor &y, int64_t queries, int64_t keys, Q &&q, K &&k, V &&v, Bias &&bias, double scale = 0.5,
                     double tolerance = 1e-5) {
  expectElements(
      y, {kBatch, queries, kWidth},
      [&](const Shape &index) {
        const int64_t b = index[0], i = index[1], h = index[2] / kSize, d = index[2] % kSize;
        return attend(
            keys,
            [&](int64_t j) {
              double sum = 0;
              for (int64_t e = 0; e < kSize; ++e)
                sum += q(b, h, i, e) * k(b, h, j, e);
              return scale * sum + bias(b, h, i, j);
            },
            [&](int64_t j) { return v(b, h, j, d); });
      },
      tolerance);
}

double noBias(int64_t, int64_t, int64_t, int64_t) { return 0; }

struct Projection {
  HostTensor x, w, b;
  Projection() {
    RandomTensors random;
    x = random.reals({kBatch, kSteps, 5});
    w = random.reals({5, 3 * kWidth});
    b = random.reals({3 * kWidth});
  }
  /// Part 0, 1 or 2: Q, K or V.
  auto part(int64_t part) const {
    return [this, part](int64_t batch, int64_t h, int64_t i, int64_t d) {
      const int64_t column = part * kWidth + h * kSize + d;
      double sum = at(b, {column});
      for (int64_t e = 0; e < 5; ++e)
        sum += at(x, {batch, i, e}) * at(w, {e, column});
      return sum;
    };
  }
};

TEST(RuntimeAttention, AllFormsOfMasks) {
  const Projection p;
  RealNode node("com.microsoft:Attention");
  node.integer("num_heads", kHeads);
  auto expect = [&](const HostTensor &mask, auto &&counts) {
    expectAttention(
        node.run({p.x, p.w, p.b, mask}), kSteps, kSteps, p.part(0), p.part(1), p.part(2),
        [&](int64_t b, int64_t, int64_t i, int64_t j) { return counts(b, i, j) ? 0.0 : -10000.0; },
        // Where all keys are masked, the sums with -10000 leave three digits of the scores.
        0.5, 1e-3);
  };
  expectAttention(node.run({p.x, p.w, p.b}), kSteps, kSteps, p.part(0), p.part(1), p.part(2), noBias);
  expect(integers({2}, {3, 1}), [](int64_t b, int64_t, int64_t j) { return j < (b ? 1 : 3); });
  expect(integers({4}, {3, 2, 1, 0}), [](int64_t b, int64_t, int64_t j) { return b ? j < 2 : j >= 1; });
  expect(integers({8}, {3, 1, 0, 3, 6, 0, 3, 4}), [](int64_t b, int64_t, int64_t j) { return j < (b ? 1 : 3); });
  expect(integers({2, 3}, {1, 0, 1, 0, 1, 1}), [](int64_t b, int64_t, int64_t j) { return b ? j > 0 : j != 1; });
  const HostTensor rows = RandomTensors().integers({2, 3, 3}, ElementKind::I32, 0, 1);
  expect(rows, [&](int64_t b, int64_t i, int64_t j) { return at(rows, {b, i, j}) != 0; });
  const HostTensor most = RandomTensors().integers({2, 1, 5, 5}, ElementKind::I32, 0, 1);
  expect(most, [&](int64_t b, int64_t i, int64_t j) { return at(most, {b, 0, i, j}) != 0; });
}

TEST(RuntimeAttention, PastAndUnidirectional) {
  const Projection p;
  constexpr int64_t past = 2, keys = past + kSteps;
  RandomTensors random;
  const HostTensor state = random.reals({2, kBatch, kHeads, past, kSize}), bias = random.reals({1, kHeads, kSteps, keys});
  RealNode node("com.microsoft:Attention", 2);
  node.integer("num_heads", kHeads).integer("unidirectional", 1).real("scale", 0.3f);
  const std::vector<Value> results = node.runAll({p.x, p.w, p.b, Value(), state, bias});
  auto joined = [&](int64_t which) {
    return [&, which](int64_t b, int64_t h, int64_t j, int64_t d) {
      return j < past ? at(state, {which, b, h, j, d}) : p.part(1 + which)(b, h, j - past, d);
    };
  };
  expectAttention(
      *results[0].tensor, kSteps, keys, p.part(0), joined(0), joined(1),
      [&](int64_t, int64_t h, int64_t i, int64_t j) {
        return j <= past + i ? at(bias, {0, h, i, j}) : -1e30;
      },
      0.3);
  expectElements(*results[1].tensor, {2, kBatch, kHeads, keys, kSize},
                 [&](const Shape &i) { return joined(i[0])(i[1], i[2], i[3], i[4]); });
  // The same in a buffer with room for more.
  HostTensor buffer = random.reals({2, kBatch, kHeads, 7, kSize});
  for (int64_t row = 0; row < 2 * kBatch * kHeads; ++row)
    copyElements(state, row * past * kSize, buffer, row * 7 * kSize, past * kSize);
  const std::vector<Value> shared =
      node.integer("past_present_share_buffer", 1).runAll({p.x, p.w, p.b, Value(), buffer, bias, integers({1}, {past})});
  EXPECT_EQ(shared[0].tensor->bytes, results[0].tensor->bytes);
  expectElements(*shared[1].tensor, buffer.shape,
                 [&](const Shape &i) { return i[3] < keys ? joined(i[0])(i[1], i[2], i[3], i[4]) : at(buffer, i); });
  EXPECT_EQ(node.error({p.x, p.w, p.b, Value(), buffer, bias, integers({1}, {5})}),
            "past_sequence_length is 5, the past has room for 7, and 3 are added");
}

TEST(RuntimeAttention, BadInputs) {
  const Projection p;
  RealNode node("com.microsoft:Attention");
  EXPECT_EQ(node.error({p.x, p.w, p.b}), "attribute num_heads is missing");
  node.integer("num_heads", kHeads);
  EXPECT_EQ(node.error({p.x, p.w, p.b, integers({3}, {0, 0, 0})}),
            "mask_index has shape [3], expected [2], [4], [2, 3], [2, 3, 3] or [2, 1, most, most]");
  EXPECT_EQ(node.error({p.x, p.x}), "weights has shape [2, 3, 5], expected [5, -1] (-1: any)");
  EXPECT_EQ(RealNode("com.microsoft:Attention").integer("num_heads", 3).error({p.x, p.w, p.b}),
            "hidden sizes [8, 8, 8] cannot have 3 heads");
  EXPECT_EQ(RealNode("com.microsoft:Attention")
                .integer("num_heads", 2)
                .integers("qkv_hidden_sizes", {8, 8, 4})
                .error({p.x, p.w, p.b}),
            "the projection has 24 columns, expected those of Q, K and V: [8, 8, 4]");
}

TEST(QAttention, IsAttentionOfWhatItStandsFor) {
  RandomTensors random;
  Projection p;
  const HostTensor x = random.integers(p.x.shape, ElementKind::U8, 0, 255),
                   w = random.integers(p.w.shape, ElementKind::I8, -128, 127);
  HostTensor scales = random.reals({3 * kWidth}, 0.001, 0.01);
  for (int64_t i = 0; i < countOf(x); ++i)
    data<float>(p.x)[i] = 0.02f * float(int(data<uint8_t>(x)[i]) - 120);
  for (int64_t i = 0; i < countOf(w); ++i)
    data<float>(p.w)[i] = data<float>(scales)[i % (3 * kWidth)] * float(data<int8_t>(w)[i]);
  RealNode node("com.microsoft:QAttention");
  node.integer("num_heads", kHeads);
  const HostTensor y =
      node.run({x, w, p.b, scalar(0.02f), scales, integers({2}, {3, 2}), integers({}, {120}, ElementKind::U8)});
  expectAttention(y, kSteps, kSteps, p.part(0), p.part(1), p.part(2),
                  [](int64_t b, int64_t, int64_t, int64_t j) { return j < 3 - b ? 0.0 : -10000.0; });
}

TEST(MultiHeadAttention, PackedIsTheSame) {
  RandomTensors random;
  constexpr int64_t keys = 5;
  const HostTensor q = random.reals({kBatch, kSteps, kWidth}), k = random.reals({kBatch, keys, kWidth}),
                   v = random.reals({kBatch, keys, kWidth});
  const HostTensor bias = random.reals({3 * kWidth}), mask = integers({2, keys}, {1, 1, 1, 0, 1, 0, 1, 1, 1, 1});
  RealNode node("com.microsoft:MultiHeadAttention", 3);
  node.integer("num_heads", kHeads);
  auto part = [&](const HostTensor &x, int64_t which) {
    return [&, which](int64_t b, int64_t h, int64_t i, int64_t d) {
      return at(x, {b, i, h * kSize + d}) + at(bias, {which * kWidth + h * kSize + d});
    };
  };
  const std::vector<Value> results = node.runAll({q, k, v, bias, mask});
  expectAttention(*results[0].tensor, kSteps, keys, part(q, 0), part(k, 1), part(v, 2),
                  [&](int64_t b, int64_t, int64_t, int64_t j) {
                    return at(mask, {b, j}) != 0 ? 0.0 : -10000.0;
                  });
  // Keys and values side by side, [.., heads, 2, size].
  HostTensor packed = makeTensor(ElementKind::F32, {kBatch, keys, kHeads, 2, kSize});
  for (int64_t row = 0; row < kBatch * keys * kHeads; ++row) {
    copyElements(k, row * kSize, packed, 2 * row * kSize, kSize);
    copyElements(v, row * kSize, packed, (2 * row + 1) * kSize, kSize);
  }
  EXPECT_EQ(node.runAll({q, packed, Value(), bias, mask})[0].tensor->bytes, results[0].tensor->bytes);
  // Keys and values of an encoder, heads first: the bias is in them already.
  EXPECT_EQ(node.runAll({q, *results[1].tensor, *results[2].tensor, bias, mask})[0].tensor->bytes, results[0].tensor->bytes);
  EXPECT_EQ(node.error({q, k, v, random.reals({7})}), "bias has shape [7], expected [24]");
  EXPECT_EQ(node.error({q, k}), "input 2 is missing");
  EXPECT_EQ(node.error({random.reals({kBatch, kSteps, 7}), random.reals({kBatch, keys, 7}), random.reals({kBatch, keys, 7})}),
            "query has shape [2, 3, 7], it cannot have 2 heads");
}

TEST(DecoderMaskedMultiHeadAttention, OneStepAtATimeIsTheWhole) {
  RandomTensors random;
  const HostTensor q = random.reals({kBatch, kSteps, kWidth}), k = random.reals({kBatch, kSteps, kWidth}),
                   v = random.reals({kBatch, kSteps, kWidth});
  RealNode whole("com.microsoft:MultiHeadAttention");
  const HostTensor y = whole.integer("num_heads", kHeads).integer("unidirectional", 1).run({q, k, v});
  RealNode node("com.microsoft:DecoderMaskedMultiHeadAttention", 3);
  node.integer("num_heads", kHeads).integer("past_present_share_buffer", 1);
  Value keys = makeTensor(ElementKind::F32, {kBatch, kHeads, 4, kSize}), values = keys;
  for (int64_t step = 0; step < kSteps; ++step) {
    auto of = [&](const HostTensor &x) {
      HostTensor one = makeTensor(ElementKind::F32, {kBatch, 1, kWidth});
      for (int64_t b = 0; b < kBatch; ++b)
        copyElements(x, (b * kSteps + step) * kWidth, one, b * kWidth, kWidth);
      return one;
    };
    const std::vector<Value> results =
        node.runAll({of(q), of(k), of(v), Value(), Value(), keys, values, integers({1}, {step})});
    keys = results[1];
    values = results[2];
    expectElements(*results[0].tensor, {kBatch, 1, kWidth}, [&](const Shape &i) { return at(y, {i[0], step, i[2]}); });
  }
}

TEST(DecoderMaskedMultiHeadAttention, BeamsFollowTheirPast) {
  RandomTensors random;
  constexpr int64_t kBeams = 2, kPast = 3, kMost = 5;
  const HostTensor q = random.reals({kBeams, 1, kWidth}), k = random.reals({kBeams, 1, kWidth}),
                   v = random.reals({kBeams, 1, kWidth});
  const HostTensor keys = random.reals({kBeams, kHeads, kMost, kSize}), values = random.reals({kBeams, kHeads, kMost, kSize});
  const HostTensor sources = integers({1, kBeams, kMost}, {0, 1, 1, 0, 0, 1, 0, 1, 0, 0});
  RealNode node("com.microsoft:DecoderMaskedMultiHeadAttention", 3);
  node.integer("num_heads", kHeads).integer("past_present_share_buffer", 1);
  std::vector<Value> inputs{q, k, v, Value(), Value(), keys, values, integers({1}, {kPast}), integers({1}, {kBeams}), sources};
  const std::vector<Value> results = node.runAll(inputs);
  expectElements(*results[0].tensor, {kBeams, 1, kWidth}, [&](const Shape &i) {
    const int64_t h = i[2] / kSize;
    auto of = [&](const HostTensor &past, const HostTensor &fresh, int64_t j, int64_t s) {
      return j < kPast ? at(past, {int64_t(at(sources, {0, i[0], j})), h, j, s}) : at(fresh, {i[0], 0, h * kSize + s});
    };
    return attend(
        kPast + 1,
        [&](int64_t j) {
          double sum = 0;
          for (int64_t s = 0; s < kSize; ++s)
            sum += at(q, {i[0], 0, h * kSize + s}) * of(keys, k, j, s);
          return sum / 2; // the root of kSize
        },
        [&](int64_t j) { return of(values, v, j, i[2] % kSize); });
  });
  // The state stays as the beams have made it.
  EXPECT_EQ(at(*results[1].tensor, {0, 1, 1, 2}), at(keys, {0, 1, 1, 2}));
  inputs[9] = integers({1, kBeams, kMost}, {2, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(node.error(inputs), "cache_indirection has 2, there are 2 beams");
}

TEST(MultiHeadAttention, AMaskOfTheNewKeysLeavesThePast) {
  RandomTensors random;
  const HostTensor q = random.reals({kBatch, kSteps, kWidth}), k = random.reals({kBatch, kSteps, kWidth}),
                   v = random.reals({kBatch, kSteps, kWidth}), past = random.reals({kBatch, kHeads, 2, kSize});
  RealNode node("com.microsoft:MultiHeadAttention");
  node.integer("num_heads", kHeads);
  auto masked = [&](const HostTensor &mask) { return node.run({q, k, v, Value(), mask, Value(), past, past}); };
  EXPECT_EQ(masked(integers({kBatch, 3}, {1, 0, 1, 1, 1, 0})).bytes,
            masked(integers({kBatch, 5}, {1, 1, 1, 0, 1, 1, 1, 1, 1, 0})).bytes);
}

//===----------------------------------------------------------------------===//
// GroupQueryAttention
//===----------------------------------------------------------------------===//

struct Grouped {
  static constexpr int64_t heads = 4, kvHeads = 2, size = 4, steps = 5;
  HostTensor q, k, v, cosines, sines;
  Grouped() {
    RandomTensors random;
    q = random.reals({1, steps, heads * size});
    k = random.reals({1, steps, kvHeads * size});
    v = random.reals({1, steps, kvHeads * size});
    cosines = sines = random.reals({8, size / 2});
    for (int64_t i = 0; i < countOf(cosines); ++i) {
      const float angle = data<float>(cosines)[i];
      data<float>(cosines)[i] = std::cos(angle);
      data<float>(sines)[i] = std::sin(angle);
    }
  }
  /// Steps [from, to) of x.
  static HostTensor slice(const HostTensor &x, int64_t from, int64_t to) {
    HostTensor y = makeTensor(x.type, {1, to - from, x.shape[2]});
    copyElements(x, from * x.shape[2], y, 0, countOf(y));
    return y;
  }
  double turned(const HostTensor &x, int64_t i, int64_t h, int64_t d) const {
    const int64_t pair = d % 2, half = d / 2;
    const double a = at(x, {0, i, h * size + pair}), b = at(x, {0, i, h * size + 2 + pair});
    return half ? at(sines, {i, pair}) * a + at(cosines, {i, pair}) * b : at(cosines, {i, pair}) * a - at(sines, {i, pair}) * b;
  }
  /// Element `d` of head `h` of result `i`; a key counts if it is at most `window` - 1 before the query, and `sink` is in the sum.
  double expected(int64_t i, int64_t h, int64_t d, int64_t window, double sink) const {
    double sum = sink, weighted = 0;
    for (int64_t j = std::max<int64_t>(0, i + 1 - window); j <= i; ++j) {
      double score = 0;
      for (int64_t e = 0; e < size; ++e)
        score += turned(q, i, h, e) * turned(k, j, h / 2, e);
      sum += std::exp(score / 2);
      weighted += std::exp(score / 2) * at(v, {0, j, h / 2 * size + d});
    }
    return weighted / sum;
  }
};

TEST(GroupQueryAttention, PromptThenSteps) {
  const Grouped g;
  for (int64_t window : {-1, 2}) {
    RealNode node("com.microsoft:GroupQueryAttention", 3);
    node.integer("num_heads", g.heads)
        .integer("kv_num_heads", g.kvHeads)
        .integer("do_rotary", 1)
        .integer("local_window_size", window);
    const int64_t reach = window < 0 ? 100 : window;
    const std::vector<Value> prompt = node.runAll({g.slice(g.q, 0, 3), g.slice(g.k, 0, 3), g.slice(g.v, 0, 3), Value(), Value(),
                                                   integers({1}, {2}), integers({}, {3}), g.cosines, g.sines});
    expectElements(*prompt[0].tensor, {1, 3, 16},
                   [&](const Shape &i) { return g.expected(i[1], i[2] / 4, i[2] % 4, reach, 0); });
    Value keys = prompt[1], values = prompt[2];
    for (int64_t step = 3; step < 5; ++step) {
      const std::vector<Value> results =
          node.runAll({g.slice(g.q, step, step + 1), g.slice(g.k, step, step + 1), g.slice(g.v, step, step + 1), keys, values,
                       integers({1}, {step}), integers({}, {step + 1}), g.cosines, g.sines});
      expectElements(*results[0].tensor, {1, 1, 16},
                     [&](const Shape &i) { return g.expected(step, i[2] / 4, i[2] % 4, reach, 0); });
      keys = results[1];
      values = results[2];
      expectElements(*keys.tensor, {1, 2, step + 1, 4}, [&](const Shape &i) { return g.turned(g.k, i[2], i[1], i[3]); });
      expectElements(*values.tensor, {1, 2, step + 1, 4}, [&](const Shape &i) { return at(g.v, {0, i[2], i[1] * 4 + i[3]}); });
    }
  }
}

TEST(GroupQueryAttention, SinksAndBadInputs) {
  const Grouped g;
  RealNode node("com.microsoft:GroupQueryAttention", 3);
  node.integer("num_heads", g.heads).integer("kv_num_heads", g.kvHeads).integer("do_rotary", 1).integer("smooth_softmax", 1);
  auto inputs = [&](int64_t length, int64_t total) {
    return std::vector<Value>{g.q,       g.k,    g.v, Value(), Value(), integers({1}, {length}), integers({}, {total}),
                              g.cosines, g.sines};
  };
  expectElements(node.run(inputs(4, 5)), {1, 5, 16},
                 [&](const Shape &i) { return g.expected(i[1], i[2] / 4, i[2] % 4, 100, 1); });
  EXPECT_EQ(node.error(inputs(4, 4)), "total_sequence_length is 4 with 5 queries");
  EXPECT_EQ(node.error(inputs(7, 8)), "seqlens_k has 7 for 5 queries, a past of 0 and a total_sequence_length of 8");
  EXPECT_EQ(node.error(inputs(5, 5)), "seqlens_k has 5 for 5 queries, a past of 0 and a total_sequence_length of 5");
  EXPECT_EQ(node.error({g.q, g.k}), "only one of key and value, or of their past, is given");
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

TEST(RuntimeRotaryEmbedding, OffsetOfAllSequences) {
  const Grouped g;
  const HostTensor y =
      RealNode("com.microsoft:RotaryEmbedding").run({g.q, integers({1}, {0}, ElementKind::I64), g.cosines, g.sines});
  expectElements(y, {1, 5, 16}, [&](const Shape &i) { return g.turned(g.q, i[1], i[2] / 4, i[2] % 4); });
  EXPECT_EQ(RealNode("com.microsoft:RotaryEmbedding").error({g.q, integers({1}, {4}, ElementKind::I64), g.cosines, g.sines}),
            "position 8 is used, cos_cache has shape [8, 2]");
}

TEST(RelativePositionBias, Buckets) {
  const HostTensor bias = RandomTensors().reals({8, 2});
  RealNode node("com.microsoft:RelativePositionBias");
  node.integer("max_distance", 16).integer("is_bidirectional", 1);
  const HostTensor y = node.run({bias, integers({}, {20}, ElementKind::I64), integers({}, {20}, ElementKind::I64)});
  // Of 4 buckets on each side, 2 are exact; the logarithms of 2 to 16 fall into the other two: 2 to 5, and what is above.
  const int64_t buckets[] = {0, 1, 2, 2, 2, 2};
  expectElements(y, {1, 2, 20, 20}, [&](const Shape &i) {
    const int64_t distance = std::abs(i[2] - i[3]), bucket = distance < 6 ? buckets[distance] : 3;
    return at(bias, {bucket + (i[3] > i[2] ? 4 : 0), i[1]});
  });
  EXPECT_EQ(node.error({bias, integers({}, {-1}), integers({}, {1})}),
            "bias_table has shape [8, 2], max_distance is 16, for -1 queries and 1 keys");
}

TEST(GatedRelativePositionBias, Gates) {
  RandomTensors random;
  const HostTensor q = random.reals({1, 2, 6}), qBias = random.reals({6}), positions = random.reals({1, 2, 2, 2}),
                   w = random.reals({3, 4}), b = random.reals({4}), eco = random.reals({1, 2, 1, 1});
  const HostTensor y =
      RealNode("com.microsoft:GatedRelativePositionBias").integer("num_heads", 2).run({q, qBias, positions, w, b, eco});
  expectElements(y, {1, 2, 2, 2}, [&](const Shape &i) {
    double gates[2] = {0, 0};
    for (int64_t j = 0; j < 4; ++j) {
      double sum = at(b, {j});
      for (int64_t e = 0; e < 3; ++e)
        sum += (at(q, {0, i[2], i[1] * 3 + e}) + at(qBias, {i[1] * 3 + e})) * at(w, {e, j});
      gates[j / 2] += sum;
    }
    const double u = 1 / (1 + std::exp(-gates[0])), r = 1 / (1 + std::exp(-gates[1]));
    return (u * (r * at(eco, {0, i[1], 0, 0}) - 1) + 2) * at(positions, i);
  });
}

} // namespace
