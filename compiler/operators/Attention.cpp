//===- Attention.cpp - Attention, FlexAttention, RotaryEmbedding ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX, operators Attention, RotaryEmbedding, ai.onnx.preview FlexAttention
//===----------------------------------------------------------------------===//
#include "compiler/operators/Attention.h"

using namespace tw;
using namespace tw::operators;

ScoreBias::ScoreBias(const Call &call, const HostTensor &x, const char *name, const Shape &scores, bool pads)
    : x(x), isBool(x.type == ElementKind::Bool), keys(scores[3]), length(scores[3]) {
  if (!isBool && !frontend::isFloat(x.type))
    call.fail(std::string(name) + " is of " + frontend::elementName(x.type) + ", expected floats or bool");
  Shape shape = scores;
  if (pads && !x.shape.empty() && x.shape.back() < keys)
    shape[3] = length = x.shape.back();
  bool fits = x.shape.size() <= 4;
  for (size_t i = 0; fits && i < x.shape.size(); ++i) {
    const int64_t dim = x.shape[x.shape.size() - 1 - i];
    fits = dim == 1 || dim == shape[3 - i];
  }
  if (!fits)
    call.fail(std::string(name) + " has shape " + textOf(x.shape) + ", expected one that broadcasts to " + textOf(scores));
  strides = broadcastStrides(x.shape, shape);
}

/// Heads of input `i`: a tensor of rank 4, or of rank 3 with `heads` heads.
template <typename T> static Heads<T> readHeads(const Call &call, size_t i, const char *name, int64_t heads) {
  const HostTensor &x = call.input(i);
  if (x.shape.size() == 4)
    return Heads<T>(x);
  requireShape(call, x, name, {-1, -1, -1});
  if (heads < 1 || x.shape[2] % heads)
    call.fail(std::string(name) + " has shape " + textOf(x.shape) + ", it cannot have " + std::to_string(heads) + " heads");
  return splitHeads(realsOf<T>(x), 0, x.shape[0], x.shape[1], heads, x.shape[2] / heads, x.shape[2]);
}

static void requireRank3Or4(const Call &call, size_t i, const char *name) {
  const HostTensor &x = call.input(i);
  if (x.shape.size() != 3 && x.shape.size() != 4)
    call.fail(std::string(name) + " has shape " + textOf(x.shape) + ", expected rank 3 or 4");
  if (!frontend::isFloat(x.type))
    call.fail(std::string(name) + " is of " + frontend::elementName(x.type) + ", expected floats");
}

template <typename T> static void requireTogether(const Call &call, const Heads<T> &q, const Heads<T> &k, const Heads<T> &v) {
  if (k.batch != q.batch || v.batch != q.batch || k.size != q.size || k.heads != v.heads || k.length != v.length ||
      k.heads < 1 || q.heads % k.heads)
    call.fail("Q, K and V have [batch, heads, length, size] " + textOf({q.batch, q.heads, q.length, q.size}) + ", " +
              textOf({k.batch, k.heads, k.length, k.size}) + " and " + textOf({v.batch, v.heads, v.length, v.size}) +
              ", which do not fit together");
}

static void evaluateAttention(Call &call) {
  for (size_t i = 0; i < 3; ++i)
    requireRank3Or4(call, i, i == 0 ? "Q" : i == 1 ? "K" : "V");
  const bool isFlat = call.input(0).shape.size() == 3;
  const int64_t heads = isFlat ? headsAttr(call, "q_num_heads") : 0, kvHeads = isFlat ? headsAttr(call, "kv_num_heads") : 0;
  const ElementKind kind = call.input(0).type;
  if (call.input(1).shape.size() != call.input(0).shape.size() || call.input(2).shape.size() != call.input(0).shape.size())
    call.fail("Q, K and V have different ranks");
  const int64_t mode = call.intAttr("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    call.fail("qk_matmul_output_mode is " + std::to_string(mode) + ", expected 0 to 3");
  if (call.has(4) != call.has(5))
    call.fail("only one of past_key and past_value is given");
  visitReal(kind, [&](auto zero) {
    using T = decltype(zero);
    const Heads<T> q = readHeads<T>(call, 0, "Q", heads);
    Heads<T> k = readHeads<T>(call, 1, "K", kvHeads), v = readHeads<T>(call, 2, "V", kvHeads);
    requireTogether(call, q, k, v);
    int64_t past = 0;
    if (call.has(4)) {
      requireShape(call, call.input(4), "past_key", {k.batch, k.heads, -1, k.size});
      past = call.input(4).shape[2];
      requireShape(call, call.input(5), "past_value", {v.batch, v.heads, past, v.size});
      k = concatenate(Heads<T>(call.input(4)), k);
      v = concatenate(Heads<T>(call.input(5)), v);
    }
    std::vector<int64_t> lengths;
    if (call.has(6)) {
      requireShape(call, call.input(6), "nonpad_kv_seqlen", {q.batch});
      lengths = call.ints(6);
      for (int64_t length : lengths)
        if (length < 0 || length > k.length)
          call.fail("nonpad_kv_seqlen has " + std::to_string(length) + " for " + std::to_string(k.length) + " keys");
    }
    std::optional<ScoreBias> mask;
    if (call.has(3))
      mask.emplace(call, call.input(3), "attn_mask", Shape{q.batch, q.heads, q.length, k.length}, call.opset() >= 24);
    const bool isCausal = call.flagAttr("is_causal", false);
    Attend<T> attend(q, k, v);
    attend.scale = call.hasAttr("scale") ? T(call.floatAttr("scale")) : 1 / std::sqrt(T(q.size));
    attend.softcap = T(call.floatAttr("softcap", 0.f));
    attend.addBias = [&](int64_t b, int64_t h, int64_t i, T *row) {
      if (mask)
        mask->addTo(row, b, h, i);
      const int64_t length = lengths.empty() ? k.length : lengths[size_t(b)];
      // The last query belongs to the last key that counts.
      const int64_t offset = lengths.empty() ? past : length - q.length;
      const int64_t end = isCausal ? std::max<int64_t>(0, std::min(length, offset + i + 1)) : length;
      for (int64_t j = end; j < k.length; ++j)
        row[j] = -std::numeric_limits<T>::infinity();
    };
    Heads<T> scores;
    attend.stage = typename Attend<T>::Stage(mode);
    if (call.wants(3))
      attend.scores = &scores;
    const Heads<T> y = attend.run();
    call.set(0, isFlat ? mergeHeads(y, kind) : y.tensor(kind));
    if (call.wants(1))
      call.set(1, k.tensor(kind));
    if (call.wants(2))
      call.set(2, v.tensor(call.input(2).type));
    if (call.wants(3))
      call.set(3, scores.tensor(kind));
  });
}

/// The one result of graph `name` on `x`, of the same type and shape; `x` itself without the attribute.
static HostTensor modified(const Call &call, const char *name, HostTensor x) {
  if (!call.hasAttr(name))
    return x;
  const ElementKind kind = x.type;
  const Shape shape = x.shape;
  std::vector<Value> results = call.run(call.graphAttr(name), {Value(std::move(x))});
  if (results.size() != 1 || results[0].form != Value::Form::Tensor || results[0].tensor->type != kind ||
      results[0].tensor->shape != shape)
    call.fail(std::string("graph ") + name + " does not give one tensor of type " + frontend::elementName(kind) +
              " and shape " + textOf(shape));
  return *results[0].tensor;
}

/// softmax(score_mod(scale * Q * K)), changed by prob_mod, times V.
static void evaluateFlexAttention(Call &call) {
  for (size_t i = 0; i < 3; ++i) {
    requireRank3Or4(call, i, i == 0 ? "Q" : i == 1 ? "K" : "V");
    requireShape(call, call.input(i), i == 0 ? "Q" : i == 1 ? "K" : "V", {-1, -1, -1, -1});
  }
  const ElementKind kind = call.input(0).type;
  visitReal(kind, [&](auto zero) {
    using T = decltype(zero);
    const Heads<T> q(call.input(0)), k(call.input(1)), v(call.input(2));
    requireTogether(call, q, k, v);
    const T scale = call.hasAttr("scale") ? T(call.floatAttr("scale")) : 1 / std::sqrt(T(q.size));
    const int64_t group = q.heads / k.heads;
    Heads<T> scores(q.batch, q.heads, q.length, k.length), y(q.batch, q.heads, q.length, v.size);
    for (int64_t b = 0; b < q.batch; ++b)
      for (int64_t h = 0; h < q.heads; ++h)
        multiplyAdd(q.length, k.length, q.size, q.at(b, h), turned(k.at(b, h / group), k.length, k.size).data(),
                    scores.at(b, h));
    for (T &each : scores.elements)
      each *= scale;
    ElementKind precise = std::is_same_v<T, double> ? ElementKind::F64 : ElementKind::F32;
    if (call.hasAttr("softmax_precision")) {
      const std::optional<ElementKind> given = frontend::elementKindOf(int32_t(call.intAttr("softmax_precision")));
      if (!given || !frontend::isFloat(*given))
        call.fail("softmax_precision is " + std::to_string(call.intAttr("softmax_precision")) + ", expected a type of floats");
      precise = *given;
    }
    Heads<T> probabilities(modified(call, "score_mod", scores.tensor(precise)));
    for (int64_t i = 0; i < q.batch * q.heads * q.length; ++i)
      softmaxRow(probabilities.elements.data() + i * k.length, k.length);
    probabilities = Heads<T>(modified(call, "prob_mod", probabilities.tensor(precise)));
    for (int64_t b = 0; b < q.batch; ++b)
      for (int64_t h = 0; h < q.heads; ++h)
        multiplyAdd(q.length, v.size, k.length, probabilities.at(b, h), v.at(b, h / group), y.at(b, h));
    call.set(0, y.tensor(kind));
  });
}

void operators::evaluateRotary(Call &call, const RotaryInputs &inputs) {
  const HostTensor &x = call.input(0), &cosines = call.input(inputs.cosines), &sines = call.input(inputs.sines);
  requireRank3Or4(call, 0, "input");
  const bool isFlat = x.shape.size() == 3, isInterleaved = call.flagAttr("interleaved", false);
  const int64_t batch = x.shape[0], steps = x.shape[isFlat ? 1 : 2];
  if (cosines.shape.empty() || cosines.shape != sines.shape)
    call.fail("cos_cache and sin_cache have shapes " + textOf(cosines.shape) + " and " + textOf(sines.shape));
  const int64_t half = cosines.shape.back(), given = call.intAttr("rotary_embedding_dim", 0);
  int64_t heads = isFlat ? std::min(call.intAttr("num_heads", 0), int64_t(1) << 31) : x.shape[1];
  if (isFlat && heads == 0)
    heads = half > 0 ? x.shape[2] / (2 * half) : 0;
  if (heads < 1 || (isFlat && x.shape[2] % heads))
    call.fail("input has shape " + textOf(x.shape) + ", it cannot have " + std::to_string(heads) + " heads");
  const int64_t size = isFlat ? x.shape[2] / heads : x.shape[3];
  if (const int64_t turnedSize = given == 0 ? size : given; turnedSize != 2 * half || turnedSize > size)
    call.fail("cos_cache has shape " + textOf(cosines.shape) + ", " + std::to_string(turnedSize) + " of " +
              std::to_string(size) + " elements of each head are turned");
  std::vector<int64_t> positions;
  if (inputs.positions && call.has(*inputs.positions)) {
    requireShape(call, cosines, "cos_cache", {-1, half});
    const HostTensor &ids = call.input(*inputs.positions);
    positions = call.ints(*inputs.positions);
    if (inputs.mayBeOffset && positions.size() == 1) {
      const int64_t offset = std::min(std::max<int64_t>(positions[0], -1), cosines.shape[0]);
      positions.clear();
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t i = 0; i < steps; ++i)
          positions.push_back(offset + i);
    } else {
      requireShape(call, ids, "position_ids", {batch, steps});
    }
    for (int64_t position : positions)
      if (position < 0 || position >= cosines.shape[0])
        call.fail("position " + std::to_string(position) + " is used, cos_cache has shape " + textOf(cosines.shape));
  } else {
    requireShape(call, cosines, "cos_cache", {batch, steps, half});
    for (int64_t i = 0; i < batch * steps; ++i)
      positions.push_back(i);
  }
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = realsOf<T>(x);
    const std::vector<T> c = realsOf<T>(cosines), s = realsOf<T>(sines);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < steps; ++i)
        for (int64_t h = 0; h < heads; ++h) {
          const int64_t row = isFlat ? (b * steps + i) * heads + h : (b * heads + h) * steps + i;
          const int64_t position = positions[size_t(b * steps + i)];
          rotate(y.data() + row * size, half, c.data() + position * half, s.data() + position * half, isInterleaved);
        }
    call.set(0, tensorOf(y, x.type, x.shape));
  });
}

static void evaluateRotaryEmbedding(Call &call) { evaluateRotary(call, {1, 2, 3, false}); }

void operators::addAttention(Table &table) {
  table[":Attention"].evaluate = evaluateAttention;
  table[":RotaryEmbedding"].evaluate = evaluateRotaryEmbedding;
  table["ai.onnx.preview:FlexAttention"].evaluate = evaluateFlexAttention;
}
