//===- RecurrentTest.cpp - Recurrent layers and attention -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What ONNX's node tests leave out. Expected numbers come from the equations
// of the operators, one element at a time.
//===----------------------------------------------------------------------===//
#include "tests/unit/operators/RealNodes.h"

#include <complex>

using namespace tw::operators;
using namespace tw::operators::test;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Sizes of the layers below.
constexpr int64_t kSteps = 4, kBatch = 3, kInputs = 2, kHidden = 3;
const std::vector<int64_t> kLengths = {4, 2, 3};

struct Parameters {
  HostTensor x, w, r, b, lengths, h, c, p;
  explicit Parameters(int64_t gates, int64_t directions) {
    RandomTensors random;
    x = random.reals({kSteps, kBatch, kInputs});
    w = random.reals({directions, gates * kHidden, kInputs});
    r = random.reals({directions, gates * kHidden, kHidden});
    b = random.reals({directions, 2 * gates * kHidden});
    lengths = integers({kBatch}, kLengths);
    h = random.reals({directions, kBatch, kHidden});
    c = random.reals({directions, kBatch, kHidden});
    p = random.reals({directions, 3 * kHidden});
    this->gates = gates;
  }
  int64_t gates;

  /// Row `gate` of W * x + its bias.
  double input(int64_t d, int64_t gate, int64_t j, int64_t t, int64_t batch) const {
    double sum = at(b, {d, gate * kHidden + j});
    for (int64_t i = 0; i < kInputs; ++i)
      sum += at(w, {d, gate * kHidden + j, i}) * at(x, {t, batch, i});
    return sum;
  }
  /// Row `gate` of R * state, and its bias.
  double state(int64_t d, int64_t gate, int64_t j, const std::vector<double> &state, bool withBias = true) const {
    double sum = withBias ? at(b, {d, (gates + gate) * kHidden + j}) : 0;
    for (int64_t i = 0; i < kHidden; ++i)
      sum += at(r, {d, gate * kHidden + j, i}) * state[size_t(i)];
    return sum;
  }
};

/// What a layer gives for one sequence: states behind each step, and the last cell.
struct Sequence {
  std::vector<std::vector<double>> h;
  std::vector<double> last, cell;
};
template <typename Step> Sequence runSequence(const Parameters &p, int64_t d, bool isReverse, int64_t batch, Step &&step) {
  Sequence s;
  for (int64_t j = 0; j < kHidden; ++j) {
    s.last.push_back(at(p.h, {d, batch, j}));
    s.cell.push_back(at(p.c, {d, batch, j}));
  }
  const int64_t length = kLengths[size_t(batch)];
  s.h.assign(size_t(kSteps), std::vector<double>(kHidden, 0.0));
  for (int64_t i = 0; i < length; ++i) {
    const int64_t t = isReverse ? length - 1 - i : i;
    const std::vector<double> before = s.last;
    for (int64_t j = 0; j < kHidden; ++j)
      s.last[size_t(j)] = step(d, t, j, before, s.cell[size_t(j)]);
    s.h[size_t(t)] = s.last;
  }
  return s;
}

template <typename Step>
void expectLayer(const std::vector<Value> &results, const Parameters &p, const std::vector<bool> &reversed, bool hasCell,
                 Step &&stepOf) {
  const int64_t directions = int64_t(reversed.size());
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t batch = 0; batch < kBatch; ++batch) {
      const Sequence s = runSequence(p, d, reversed[size_t(d)], batch, stepOf(batch));
      for (int64_t j = 0; j < kHidden; ++j) {
        for (int64_t t = 0; t < kSteps; ++t)
          EXPECT_NEAR(at(*results[0].tensor, {t, d, batch, j}), s.h[size_t(t)][size_t(j)], 1e-5);
        EXPECT_NEAR(at(*results[1].tensor, {d, batch, j}), s.last[size_t(j)], 1e-5);
        if (hasCell)
          EXPECT_NEAR(at(*results[2].tensor, {d, batch, j}), s.cell[size_t(j)], 1e-5);
      }
    }
}

TEST(Lstm, AllOfItInBothDirections) {
  const Parameters p(4, 2);
  const double clip = 0.4;
  RealNode node(":LSTM", 3);
  node.text("direction", "bidirectional").integer("hidden_size", kHidden).real("clip", float(clip));
  const std::vector<Value> results = node.runAll({p.x, p.w, p.r, p.b, p.lengths, p.h, p.c, p.p});
  auto bound = [&](double x) { return std::min(std::max(x, -clip), clip); };
  expectLayer(results, p, {false, true}, true, [&](int64_t batch) {
    return [&, batch](int64_t d, int64_t t, int64_t j, const std::vector<double> &h, double &c) {
      auto gate = [&](int64_t g, double peephole) {
        return bound(p.input(d, g, j, t, batch) + p.state(d, g, j, h) + peephole);
      };
      const double in = sigmoid(gate(0, at(p.p, {d, j}) * c)), forget = sigmoid(gate(2, at(p.p, {d, 2 * kHidden + j}) * c));
      c = forget * c + in * std::tanh(gate(3, 0));
      return sigmoid(gate(1, at(p.p, {d, kHidden + j}) * c)) * std::tanh(bound(c));
    };
  });
}

TEST(Lstm, CoupledGatesAndOtherActivations) {
  const Parameters p(4, 1);
  RealNode node(":LSTM", 3);
  node.text("direction", "reverse").integer("input_forget", 1).texts("activations", {"HardSigmoid", "Softsign", "LeakyRelu"});
  node.reals("activation_alpha", {0.3f, 0.1f}).reals("activation_beta", {0.6f});
  const std::vector<Value> results = node.runAll({p.x, p.w, p.r, p.b, p.lengths, p.h, p.c});
  expectLayer(results, p, {true}, true, [&](int64_t batch) {
    return [&, batch](int64_t d, int64_t t, int64_t j, const std::vector<double> &h, double &c) {
      auto gate = [&](int64_t g) { return p.input(d, g, j, t, batch) + p.state(d, g, j, h); };
      auto hard = [](double x) { return std::min(std::max(0.3 * x + 0.6, 0.0), 1.0); };
      const double in = hard(gate(0)), candidate = gate(3) / (1 + std::abs(gate(3)));
      c = (1 - in) * c + in * candidate;
      return hard(gate(1)) * (c >= 0 ? c : 0.1 * c);
    };
  });
}

TEST(Gru, ResetBeforeAndBehindTheProduct) {
  const Parameters p(3, 2);
  for (bool isLinear : {false, true}) {
    RealNode node(":GRU", 2);
    node.text("direction", "bidirectional").integer("linear_before_reset", isLinear);
    const std::vector<Value> results = node.runAll({p.x, p.w, p.r, p.b, p.lengths, p.h});
    expectLayer(results, p, {false, true}, false, [&](int64_t batch) {
      return [&, batch](int64_t d, int64_t t, int64_t j, const std::vector<double> &h, double &) {
        auto reset = [&](int64_t i) { return sigmoid(p.input(d, 1, i, t, batch) + p.state(d, 1, i, h)); };
        const double z = sigmoid(p.input(d, 0, j, t, batch) + p.state(d, 0, j, h));
        double inner = reset(j) * p.state(d, 2, j, h);
        if (!isLinear) {
          std::vector<double> kept;
          for (int64_t i = 0; i < kHidden; ++i)
            kept.push_back(reset(i) * h[size_t(i)]);
          inner = p.state(d, 2, j, kept);
        }
        return (1 - z) * std::tanh(p.input(d, 2, j, t, batch) + inner) + z * h[size_t(j)];
      };
    });
  }
}

TEST(Rnn, BatchFirstIsTheSameTurned) {
  const Parameters p(1, 2);
  RealNode node(":RNN", 2);
  node.text("direction", "bidirectional").texts("activations", {"Relu", "Elu"});
  const std::vector<Value> plain = node.runAll({p.x, p.w, p.r, p.b, p.lengths, p.h});
  expectLayer(plain, p, {false, true}, false, [&](int64_t batch) {
    return [&, batch](int64_t d, int64_t t, int64_t j, const std::vector<double> &h, double &) {
      const double sum = p.input(d, 0, j, t, batch) + p.state(d, 0, j, h);
      return sum >= 0 ? sum : d == 0 ? 0 : std::exp(sum) - 1;
    };
  });
  node.integer("layout", 1);
  const std::vector<Value> turned =
      node.runAll({transposed(p.x, {1, 0, 2}), p.w, p.r, p.b, p.lengths, transposed(p.h, {1, 0, 2})});
  EXPECT_EQ(turned[0].tensor->bytes, transposed(*plain[0].tensor, {2, 0, 1, 3}).bytes);
  EXPECT_EQ(turned[1].tensor->bytes, transposed(*plain[1].tensor, {1, 0, 2}).bytes);
}

TEST(Recurrent, BadInputs) {
  const Parameters p(4, 1);
  auto message = [&](RealNode node, std::vector<Value> inputs) { return node.error(std::move(inputs)); };
  const std::vector<Value> good = {p.x, p.w, p.r, p.b};
  EXPECT_EQ(message(RealNode(":LSTM"), good), "");
  EXPECT_EQ(message(RealNode(":LSTM").text("direction", "up"), good),
            "direction is \"up\", expected forward, reverse or bidirectional");
  EXPECT_EQ(message(RealNode(":LSTM").text("direction", "bidirectional"), good),
            "R has shape [1, 12, 3], expected [2, -1, -1] (-1: any)");
  EXPECT_EQ(message(RealNode(":LSTM").integer("hidden_size", 4), good), "hidden_size is 4, R has shape [1, 12, 3]");
  EXPECT_EQ(message(RealNode(":GRU"), good), "R has shape [1, 12, 3], expected [1, 9, 3]");
  EXPECT_EQ(message(RealNode(":LSTM").texts("activations", {"Tanh"}), good), "activations has 1 names, expected 3");
  EXPECT_EQ(message(RealNode(":LSTM").texts("activations", {"Tanh", "Tan", "Tanh"}), good), "activation \"tan\" is not known");
  EXPECT_EQ(message(RealNode(":LSTM"), {p.x, p.w, p.r, p.b, integers({kBatch}, {1, 5, 1})}),
            "sequence_lens has 5, X has 4 steps");
  EXPECT_EQ(message(RealNode(":LSTM"), {p.x, p.w}), "input 2 is missing");
  EXPECT_EQ(message(RealNode(":LSTM"), {integers({1, 1, 1}, {0}), p.w, p.r}), "W has shape [1, 12, 2], expected [1, 12, 1]");
  EXPECT_EQ(message(RealNode(":LSTM"), {integers({1, 1, 2}, {0, 0}), p.w, p.r}), "a tensor is of int32, expected floats");
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// softmax over the keys that count, of score(j), times value(j).
template <typename Score, typename Counts, typename Of>
double attend(int64_t keys, Score &&score, Counts &&counts, Of &&value) {
  double sum = 0, weighted = 0;
  for (int64_t j = 0; j < keys; ++j)
    if (counts(j)) {
      sum += std::exp(score(j));
      weighted += std::exp(score(j)) * value(j);
    }
  return sum == 0 ? 0 : weighted / sum;
}

TEST(Attention, SharedHeadsPastCapMaskAndCausal) {
  constexpr int64_t heads = 4, kvHeads = 2, queries = 3, past = 2, fresh = 3, keys = past + fresh, size = 4;
  RandomTensors random;
  const HostTensor q = random.reals({2, queries, heads * size}), k = random.reals({2, fresh, kvHeads * size}),
                   v = random.reals({2, fresh, kvHeads * size});
  const HostTensor pastKey = random.reals({2, kvHeads, past, size}), pastValue = random.reals({2, kvHeads, past, size});
  const HostTensor mask = random.reals({heads, queries, keys});
  RealNode node(":Attention", 4);
  node.integer("q_num_heads", heads)
      .integer("kv_num_heads", kvHeads)
      .integer("is_causal", 1)
      .real("softcap", 0.7f)
      .real("scale", 0.9f);
  const std::vector<Value> results = node.runAll({q, k, v, mask, pastKey, pastValue});
  auto key = [&](const HostTensor &old, const HostTensor &added, int64_t b, int64_t h, int64_t j, int64_t d) {
    return j < past ? at(old, {b, h, j, d}) : at(added, {b, j - past, h * size + d});
  };
  expectElements(*results[0].tensor, {2, queries, heads * size}, [&](const Shape &index) {
    const int64_t b = index[0], i = index[1], h = index[2] / size, d = index[2] % size, group = h / 2;
    auto score = [&](int64_t j) {
      double sum = 0;
      for (int64_t e = 0; e < size; ++e)
        sum += at(q, {b, i, h * size + e}) * key(pastKey, k, b, group, j, e);
      return 0.7 * std::tanh(0.9 * sum / 0.7) + at(mask, {h, i, j});
    };
    return attend(
        keys, score, [&](int64_t j) { return j <= past + i; }, [&](int64_t j) { return key(pastValue, v, b, group, j, d); });
  });
  expectElements(
      *results[1].tensor, {2, kvHeads, keys, size}, [&](const Shape &i) { return key(pastKey, k, i[0], i[1], i[2], i[3]); }, 0);
  expectElements(
      *results[2].tensor, {2, kvHeads, keys, size}, [&](const Shape &i) { return key(pastValue, v, i[0], i[1], i[2], i[3]); },
      0);
}

TEST(Attention, BadInputs) {
  RandomTensors random;
  const HostTensor q = random.reals({1, 4, 2, 8}), k = random.reals({1, 2, 3, 8}), v = random.reals({1, 2, 3, 8});
  RealNode node(":Attention");
  EXPECT_EQ(node.error({q, k, v}), "");
  EXPECT_EQ(
      node.error({q, random.reals({1, 3, 3, 8}), random.reals({1, 3, 3, 8})}),
      "Q, K and V have [batch, heads, length, size] [1, 4, 2, 8], [1, 3, 3, 8] and [1, 3, 3, 8], which do not fit together");
  EXPECT_EQ(node.error({q, k, v, random.reals({2, 2})}), "");
  EXPECT_EQ(node.error({q, k, v, random.reals({3, 3})}),
            "attn_mask has shape [3, 3], expected one that broadcasts to [1, 4, 2, 3]");
  EXPECT_EQ(node.error({q, k, v, Value(), k}), "only one of past_key and past_value is given");
  EXPECT_EQ(node.error({q, k, v, Value(), Value(), Value(), integers({1}, {4}, ElementKind::I64)}),
            "nonpad_kv_seqlen has 4 for 3 keys");
  EXPECT_EQ(RealNode(":Attention").error({random.reals({1, 2, 8}), random.reals({1, 3, 8}), random.reals({1, 3, 8})}),
            "attribute q_num_heads is missing");
}

TEST(RotaryEmbedding, PairsAreComplexNumbers) {
  RandomTensors random;
  const HostTensor x = random.reals({1, 2, 3, 6});
  HostTensor angles = random.reals({5, 2}), c = angles, s = angles;
  for (int64_t i = 0; i < 10; ++i) {
    data<float>(c)[i] = std::cos(data<float>(angles)[i]);
    data<float>(s)[i] = std::sin(data<float>(angles)[i]);
  }
  const std::vector<int64_t> positions = {4, 0, 2};
  for (bool isInterleaved : {false, true}) {
    RealNode node(":RotaryEmbedding");
    node.integer("interleaved", isInterleaved).integer("rotary_embedding_dim", 4);
    const HostTensor y = node.run({x, c, s, integers({1, 3}, positions, ElementKind::I64)});
    expectElements(y, x.shape, [&](const Shape &i) {
      if (i[3] >= 4)
        return at(x, i);
      const int64_t pair = isInterleaved ? i[3] / 2 : i[3] % 2, part = isInterleaved ? i[3] % 2 : i[3] / 2;
      const int64_t first = isInterleaved ? 2 * pair : pair, second = isInterleaved ? first + 1 : pair + 2;
      const std::complex<double> z(at(x, {0, i[1], i[2], first}), at(x, {0, i[1], i[2], second}));
      const auto turned = z * std::polar(1.0, at(angles, {positions[size_t(i[2])], pair}));
      return part ? turned.imag() : turned.real();
    });
    EXPECT_EQ(node.error({x, c, s, integers({1, 3}, {0, 5, 0}, ElementKind::I64)}),
              "position 5 is used, cos_cache has shape [5, 2]");
  }
}

TEST(LinearAttention, BadInputs) {
  RandomTensors random;
  const HostTensor x = random.reals({1, 2, 4});
  RealNode node(":LinearAttention", 2);
  node.integer("q_num_heads", 2).integer("kv_num_heads", 1).text("update_rule", "gated");
  EXPECT_EQ(node.error({x, random.reals({1, 2, 2}), x}), "input 4 is missing");
  EXPECT_EQ(node.error({x, x, x}), "key has shape [1, 2, 4], expected [1, 2, 2]");
  EXPECT_EQ(node.error({x, random.reals({1, 2, 2}), x, Value(), random.reals({1, 2, 3})}),
            "decay has shape [1, 2, 3], expected 1 or 2 numbers for each step");
}

} // namespace
