//===- RuntimeAttention.cpp - Attention of com.microsoft ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX Runtime, docs/ContribOperators.md
//===----------------------------------------------------------------------===//
#include "compiler/operators/RuntimeAttention.h"
#include "compiler/operators/Attention.h"
#include "compiler/operators/RuntimeDomain.h"

using namespace tw;
using namespace tw::operators;

//===----------------------------------------------------------------------===//
// Masks and states
//===----------------------------------------------------------------------===//

namespace {
/// Which keys a mask of ONNX Runtime lets count; the others' scores have a large negative number added.
class KeyMask {
public:
  KeyMask(const Call &call, const HostTensor &x, const char *name, int64_t batch, int64_t queries, int64_t past, int64_t keys)
      : values(integersOf(x)), rank(x.shape.size()), batch(batch), queries(queries), past(past) {
    const int64_t count = countOf(x);
    bool fits = false;
    if (rank == 1) {
      // Lengths; or ends, then starts; or lengths, then sums of the lengths of queries and keys.
      fits = count == batch || count == 2 * batch || count == 3 * batch + 2;
      hasStarts = count == 2 * batch;
    } else if (rank == 2) {
      // Of new keys alone: those of the past count.
      fits = x.shape == Shape{batch, keys} || x.shape == Shape{batch, keys - past};
    } else if (rank == 3) {
      fits = x.shape == Shape{batch, queries, keys};
    } else if (rank == 4) {
      fits = x.shape[0] == batch && x.shape[1] == 1 && x.shape[2] >= past + queries && x.shape[3] >= keys;
      rows = fits ? x.shape[2] : 0;
    }
    if (!fits)
      call.fail(std::string(name) + " has shape " + textOf(x.shape) + ", expected [" + std::to_string(batch) + "], [" +
                std::to_string(2 * batch) + "], " + textOf({batch, keys}) + ", " + textOf({batch, queries, keys}) + " or [" +
                std::to_string(batch) + ", 1, most, most]");
    width = rank > 1 ? x.shape[rank - 1] : keys;
    first = rank == 2 ? keys - width : 0;
  }

  bool counts(int64_t b, int64_t i, int64_t j) const {
    switch (rank) {
    case 1:
      return j < values[size_t(b)] && (!hasStarts || j >= values[size_t(batch + b)]);
    case 2:
      return j < first || values[size_t(b * width + j - first)] > 0;
    case 3:
      return values[size_t((b * queries + i) * width + j)] > 0;
    default:
      return values[size_t((b * rows + past + i) * width + j)] > 0;
    }
  }

private:
  std::vector<int64_t> values;
  size_t rank;
  int64_t batch, queries, past, width = 0, rows = 0, first = 0;
  bool hasStarts = false;
};

/// Keys or values with those of the past in front.
template <typename T> struct Joined {
  Heads<T> all;
  /// What the node gives: `all`, or the buffer of the past with the new ones in it.
  HostTensor present;
};
} // namespace

/// `past`, [batch, heads, length, size], holds `length` elements that count if that is given, and the result has room behind them; else all count.
template <typename T>
static Joined<T> joinPast(const Call &call, const Heads<T> &past, std::optional<int64_t> length, const Heads<T> &fresh,
                          ElementKind kind) {
  Joined<T> joined;
  if (past.batch != fresh.batch || past.heads != fresh.heads || past.size != fresh.size)
    call.fail("the past has [batch, heads, length, size] " + textOf({past.batch, past.heads, past.length, past.size}) +
              ", the keys or values " + textOf({fresh.batch, fresh.heads, fresh.length, fresh.size}));
  if (!length) {
    joined.all = concatenate(past, fresh);
    joined.present = joined.all.tensor(kind);
    return joined;
  }
  if (*length < 0 || *length > past.length - fresh.length)
    call.fail("past_sequence_length is " + std::to_string(*length) + ", the past has room for " + std::to_string(past.length) +
              ", and " + std::to_string(fresh.length) + " are added");
  Heads<T> buffer = past;
  joined.all = Heads<T>(fresh.batch, fresh.heads, *length + fresh.length, fresh.size);
  for (int64_t b = 0; b < fresh.batch; ++b)
    for (int64_t h = 0; h < fresh.heads; ++h) {
      std::copy_n(fresh.at(b, h), fresh.length * fresh.size, buffer.at(b, h, *length));
      std::copy_n(buffer.at(b, h), joined.all.length * fresh.size, joined.all.at(b, h));
    }
  joined.present = buffer.tensor(kind);
  return joined;
}

/// Keys or values of beams: sequence i has rows i * beams and on. Position p of the past of beam j is that of beam sources[i, j, p] of its sequence.
template <typename T> static void followBeams(const Call &call, const HostTensor &sources, int64_t past, Heads<T> &x) {
  requireShape(call, sources, "cache_indirection", {-1, -1, -1});
  const int64_t beams = sources.shape[1], most = sources.shape[2];
  if (sources.shape[0] * beams != x.batch || most < past)
    call.fail("cache_indirection has shape " + textOf(sources.shape) + " for " + std::to_string(x.batch) +
              " rows with a past of " + std::to_string(past));
  const Heads<T> given = x;
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t position = 0; position < past; ++position) {
      const int64_t source = integerAt(sources, b * most + position);
      if (source < 0 || source >= beams)
        call.fail("cache_indirection has " + std::to_string(source) + ", there are " + std::to_string(beams) + " beams");
      for (int64_t h = 0; h < x.heads; ++h)
        std::copy_n(given.at(b / beams * beams + source, h, position), x.size, x.at(b, h, position));
    }
}

/// Attention of joined keys and values: scale, mask (input `maskAt`), bias on the scores (input `biasAt`), unidirectional.
template <typename T>
static void attendAndSet(Call &call, const Heads<T> &q, const Heads<T> &k, const Heads<T> &v, int64_t past,
                         const char *maskName, size_t maskAt, std::optional<size_t> biasAt, ElementKind kind,
                         std::optional<size_t> scoresAt) {
  if (k.batch != q.batch || v.batch != q.batch || k.heads != q.heads || v.heads != q.heads || k.size != q.size ||
      k.length != v.length)
    call.fail("query, key and value have [batch, heads, length, size] " + textOf({q.batch, q.heads, q.length, q.size}) + ", " +
              textOf({k.batch, k.heads, k.length, k.size}) + " and " + textOf({v.batch, v.heads, v.length, v.size}) +
              ", which do not fit together");
  std::optional<KeyMask> mask;
  if (call.has(maskAt))
    mask.emplace(call, call.input(maskAt), maskName, q.batch, q.length, past, k.length);
  std::optional<ScoreBias> bias;
  if (biasAt && call.has(*biasAt))
    bias.emplace(call, call.input(*biasAt), "attention_bias", Shape{q.batch, q.heads, q.length, k.length}, false);
  const bool isCausal = call.flagAttr("unidirectional", false);
  const T filter = T(call.floatAttr("mask_filter_value", -10000.f));
  Attend<T> attend(q, k, v);
  attend.scale = T(call.floatAttr("scale", 0.f));
  if (attend.scale == 0)
    attend.scale = 1 / std::sqrt(T(q.size));
  attend.addBias = [&](int64_t b, int64_t h, int64_t i, T *row) {
    for (int64_t j = 0; mask && j < k.length; ++j)
      if (!mask->counts(b, i, j))
        row[j] = filter;
    for (int64_t j = past + i + 1; isCausal && j < k.length; ++j)
      row[j] = std::numeric_limits<float>::lowest();
    if (bias)
      bias->addTo(row, b, h, i);
  };
  Heads<T> scores;
  attend.stage = Attend<T>::Biased;
  if (scoresAt && call.wants(*scoresAt))
    attend.scores = &scores;
  call.set(0, mergeHeads(attend.run(), kind));
  if (attend.scores)
    call.set(*scoresAt, scores.tensor(kind));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

void operators::attendProjected(Call &call, const ProjectedAttention &given) {
  const int64_t heads = headsAttr(call, "num_heads"), batch = given.batch, steps = given.steps;
  const std::vector<int64_t> sizes = call.intsAttr("qkv_hidden_sizes", std::vector<int64_t>(3, given.width / 3));
  if (call.flagAttr("do_rotary", false))
    call.fail("do_rotary is 1, which is not supported");
  if (sizes.size() != 3 || sizes[0] < 0 || sizes[0] > given.width || sizes[1] != sizes[0] || sizes[2] < 0 ||
      sizes[2] > given.width || sizes[0] + sizes[1] + sizes[2] != given.width)
    call.fail("the projection has " + std::to_string(given.width) + " columns, expected those of Q, K and V: " + textOf(sizes));
  if (heads < 1 || sizes[0] % heads || sizes[2] % heads)
    call.fail("hidden sizes " + textOf(sizes) + " cannot have " + std::to_string(heads) + " heads");
  const std::vector<float> &x = given.projected;
  const int64_t size = sizes[0] / heads, valueSize = sizes[2] / heads;
  const Heads<float> q = splitHeads(x, 0, batch, steps, heads, size, given.width);
  Heads<float> k = splitHeads(x, sizes[0], batch, steps, heads, size, given.width);
  Heads<float> v = splitHeads(x, 2 * sizes[0], batch, steps, heads, valueSize, given.width);
  int64_t past = 0;
  if (call.wants(1) && size != valueSize)
    call.fail("keys and values have different sizes, which is not allowed with a present state");
  HostTensor presentKeys = k.tensor(given.kind), presentValues = v.tensor(given.kind);
  if (call.has(given.pastAt)) {
    const HostTensor &state = call.input(given.pastAt);
    requireShape(call, state, "past", {2, batch, heads, -1, size});
    const std::vector<float> elements = realsOf<float>(state);
    Heads<float> pastKeys(batch, heads, state.shape[3], size), pastValues = pastKeys;
    const auto half = elements.begin() + std::ptrdiff_t(elements.size() / 2);
    std::copy(elements.begin(), half, pastKeys.elements.begin());
    std::copy(half, elements.end(), pastValues.elements.begin());
    std::optional<int64_t> length;
    if (call.flagAttr("past_present_share_buffer", false))
      length = call.intScalar(given.pastLengthAt);
    Joined<float> keys = joinPast(call, pastKeys, length, k, given.kind),
                  values = joinPast(call, pastValues, length, v, given.kind);
    past = keys.all.length - steps;
    k = std::move(keys.all);
    v = std::move(values.all);
    presentKeys = std::move(keys.present);
    presentValues = std::move(values.present);
  }
  attendAndSet<float>(call, q, k, v, past, "mask_index", given.maskAt, given.biasAt, given.kind, std::nullopt);
  if (call.wants(1)) {
    HostTensor present = makeTensor(given.kind, {2, batch, heads, presentKeys.shape[2], size});
    copyElements(presentKeys, 0, present, 0, countOf(presentKeys));
    copyElements(presentValues, 0, present, countOf(presentKeys), countOf(presentValues));
    call.set(1, std::move(present));
  }
}

static void evaluateAttention(Call &call) {
  const HostTensor &x = call.input(0), &weights = call.input(1);
  requireShape(call, x, "input", {-1, -1, -1});
  requireShape(call, weights, "weights", {x.shape[2], -1});
  ProjectedAttention given;
  given.kind = x.type;
  given.batch = x.shape[0];
  given.steps = x.shape[1];
  given.width = weights.shape[1];
  given.maskAt = 3;
  given.pastAt = 4;
  given.biasAt = 5;
  given.pastLengthAt = 6;
  visitReal(x.type, [](auto) {});
  given.projected = zeros<float>({given.batch, given.steps, given.width});
  if (call.has(2)) {
    requireShape(call, call.input(2), "bias", {given.width});
    const std::vector<float> bias = realsOf<float>(call.input(2));
    for (size_t i = 0; i < given.projected.size(); ++i)
      given.projected[i] = bias[i % bias.size()];
  }
  multiplyAdd(given.batch * given.steps, given.width, x.shape[2], realsOf<float>(x).data(), realsOf<float>(weights).data(),
              given.projected.data());
  attendProjected(call, given);
}

//===----------------------------------------------------------------------===//
// MultiHeadAttention
//===----------------------------------------------------------------------===//

namespace {
/// Where MultiHeadAttention and DecoderMaskedMultiHeadAttention have their inputs.
struct MultiHeadInputs {
  size_t bias, mask, scoreBias, pastKey, pastValue, pastLength, cacheIndirection;
};
} // namespace

/// x[batch, length, heads, count, size], part `part`.
static Heads<float> unpack(const HostTensor &x, int64_t part) {
  const int64_t count = x.shape[3], size = x.shape[4];
  Heads<float> y(x.shape[0], x.shape[2], x.shape[1], size);
  const std::vector<float> elements = realsOf<float>(x);
  for (int64_t b = 0; b < y.batch; ++b)
    for (int64_t l = 0; l < y.length; ++l)
      for (int64_t h = 0; h < y.heads; ++h)
        std::copy_n(elements.data() + (((b * y.length + l) * y.heads + h) * count + part) * size, size, y.at(b, h, l));
  return y;
}

static Heads<float> headsOf(const Call &call, const HostTensor &x, const char *name, int64_t heads, int64_t first,
                            int64_t width) {
  if (width % heads)
    call.fail(std::string(name) + " has shape " + textOf(x.shape) + ", it cannot have " + std::to_string(heads) + " heads");
  return splitHeads(realsOf<float>(x), first, x.shape[0], x.shape[1], heads, width / heads, x.shape[2]);
}

/// Adds bias[first ..] to each position.
static void addHeadBias(Heads<float> &x, const std::vector<float> &bias, int64_t first) {
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t h = 0; h < x.heads; ++h)
      for (int64_t l = 0; l < x.length; ++l)
        for (int64_t i = 0; i < x.size; ++i)
          x.at(b, h, l)[i] += bias[size_t(first + h * x.size + i)];
}

static void multiHeadAttention(Call &call, const MultiHeadInputs &inputs) {
  const HostTensor &query = call.input(0);
  const int64_t heads = headsAttr(call, "num_heads");
  if (heads < 1)
    call.fail("num_heads is " + std::to_string(heads) + ", expected at least 1");
  visitReal(query.type, [](auto) {});
  Heads<float> q, k, v;
  // Keys and values that come from an encoder stand as they are: no bias, no past.
  bool isCross = false;
  if (query.shape.size() == 5) {
    requireShape(call, query, "query", {-1, -1, heads, 3, -1});
    q = unpack(query, 0);
    k = unpack(query, 1);
    v = unpack(query, 2);
  } else {
    requireShape(call, query, "query", {-1, -1, -1});
    if (!call.has(1)) {
      if (query.shape[2] % 3)
        call.fail("query has shape " + textOf(query.shape) + " and there is no key, expected it to hold Q, K and V");
      const int64_t width = query.shape[2] / 3;
      q = headsOf(call, query, "query", heads, 0, width);
      k = headsOf(call, query, "query", heads, width, width);
      v = headsOf(call, query, "query", heads, 2 * width, width);
    } else if (const HostTensor &key = call.input(1); key.shape.size() == 5) {
      requireShape(call, key, "key", {query.shape[0], -1, heads, 2, -1});
      q = headsOf(call, query, "query", heads, 0, query.shape[2]);
      k = unpack(key, 0);
      v = unpack(key, 1);
    } else if (key.shape.size() == 4) {
      requireShape(call, key, "key", {query.shape[0], heads, -1, -1});
      requireShape(call, call.input(2), "value", {query.shape[0], heads, key.shape[2], -1});
      q = headsOf(call, query, "query", heads, 0, query.shape[2]);
      k = Heads<float>(key);
      v = Heads<float>(call.input(2));
      isCross = true;
    } else {
      requireShape(call, key, "key", {query.shape[0], -1, query.shape[2]});
      requireShape(call, call.input(2), "value", {query.shape[0], key.shape[1], -1});
      q = headsOf(call, query, "query", heads, 0, query.shape[2]);
      k = headsOf(call, key, "key", heads, 0, key.shape[2]);
      v = headsOf(call, call.input(2), "value", heads, 0, call.input(2).shape[2]);
    }
  }
  if (call.has(inputs.bias)) {
    const int64_t width = q.heads * q.size;
    requireShape(call, call.input(inputs.bias), "bias", {2 * width + v.heads * v.size});
    const std::vector<float> bias = realsOf<float>(call.input(inputs.bias));
    addHeadBias(q, bias, 0);
    if (!isCross) {
      addHeadBias(k, bias, width);
      addHeadBias(v, bias, 2 * width);
    }
  }
  int64_t past = 0;
  if (call.has(inputs.pastKey) != call.has(inputs.pastValue))
    call.fail("only one of past_key and past_value is given");
  if (call.has(inputs.pastKey) && !isCross) {
    requireShape(call, call.input(inputs.pastKey), "past_key", {q.batch, heads, -1, k.size});
    requireShape(call, call.input(inputs.pastValue), "past_value", {q.batch, heads, -1, v.size});
    std::optional<int64_t> length;
    if (call.has(inputs.pastLength))
      length = call.intScalar(inputs.pastLength);
    const int64_t steps = k.length;
    Joined<float> keys = joinPast(call, Heads<float>(call.input(inputs.pastKey)), length, k, query.type);
    Joined<float> values = joinPast(call, Heads<float>(call.input(inputs.pastValue)), length, v, query.type);
    k = std::move(keys.all);
    v = std::move(values.all);
    past = k.length - steps;
    if (call.has(inputs.cacheIndirection)) {
      followBeams(call, call.input(inputs.cacheIndirection), past, k);
      followBeams(call, call.input(inputs.cacheIndirection), past, v);
    }
    call.set(1, std::move(keys.present));
    call.set(2, std::move(values.present));
  } else {
    if (call.wants(1))
      call.set(1, k.tensor(query.type));
    if (call.wants(2))
      call.set(2, v.tensor(query.type));
  }
  attendAndSet<float>(call, q, k, v, past, "the mask", inputs.mask, inputs.scoreBias, query.type, 3);
}

static void evaluateMultiHeadAttention(Call &call) { multiHeadAttention(call, {3, 4, 5, 6, 7, 8, 9}); }

static void evaluateDecoderMaskedMultiHeadAttention(Call &call) {
  // With one beam, each token comes from it.
  const bool isBeam = call.has(8) && call.intScalar(8) != 1;
  multiHeadAttention(call, {10, 3, 4, 5, 6, 7, isBeam ? 9 : call.numInputs()});
}

//===----------------------------------------------------------------------===//
// GroupQueryAttention
//===----------------------------------------------------------------------===//

/// Each row of `size` by the root of its mean square, times weight.
static void normalizeHeads(const Call &call, Heads<float> &x, size_t at, const char *name, double epsilon) {
  requireShape(call, call.input(at), name, {x.size});
  normalizeRows<float>(x.elements, x.size, epsilon, false, realsOf<float>(call.input(at)).data(), nullptr);
}

static void evaluateGroupQueryAttention(Call &call) {
  const HostTensor &query = call.input(0);
  const ElementKind kind = query.type;
  requireShape(call, query, "query", {-1, -1, -1});
  visitReal(kind, [](auto) {});
  const int64_t batch = query.shape[0], steps = query.shape[1], heads = headsAttr(call, "num_heads"),
                kvHeads = headsAttr(call, "kv_num_heads");
  if (heads < 1 || kvHeads < 1 || heads % kvHeads)
    call.fail("num_heads is " + std::to_string(heads) + " and kv_num_heads " + std::to_string(kvHeads) +
              ", expected a multiple");
  for (const char *name : {"k_quant_type", "v_quant_type"})
    if (call.stringAttr(name, "NONE") != "NONE")
      call.fail("states are quantised, which is not supported");
  if (call.flagAttr("sliding_window_cache", false))
    call.fail("sliding_window_cache is 1, which is not supported");
  if (call.has(1) != call.has(2) || call.has(3) != call.has(4))
    call.fail("only one of key and value, or of their past, is given");
  Heads<float> q, k, v;
  if (call.has(1)) {
    requireShape(call, call.input(1), "key", {batch, steps, -1});
    requireShape(call, call.input(2), "value", {batch, steps, call.input(1).shape[2]});
    q = headsOf(call, query, "query", heads, 0, query.shape[2]);
    k = headsOf(call, call.input(1), "key", kvHeads, 0, call.input(1).shape[2]);
    v = headsOf(call, call.input(2), "value", kvHeads, 0, call.input(2).shape[2]);
  } else {
    if (query.shape[2] % (heads + 2 * kvHeads))
      call.fail("query has shape " + textOf(query.shape) + ", it cannot hold " + std::to_string(heads + 2 * kvHeads) +
                " heads");
    const int64_t size = query.shape[2] / (heads + 2 * kvHeads);
    q = headsOf(call, query, "query", heads, 0, heads * size);
    k = headsOf(call, query, "query", kvHeads, heads * size, kvHeads * size);
    v = headsOf(call, query, "query", kvHeads, (heads + kvHeads) * size, kvHeads * size);
  }
  if (k.size != q.size)
    call.fail("heads of query and key have sizes " + std::to_string(q.size) + " and " + std::to_string(k.size));
  const int64_t total = call.intScalar(6);
  if (countOf(call.input(5)) != batch)
    call.fail("seqlens_k has shape " + textOf(call.input(5).shape) + ", expected [" + std::to_string(batch) + "]");
  // For each sequence, the keys that count, and those of them that are past.
  std::vector<int64_t> lengths = call.ints(5), past;
  if (total < steps)
    call.fail("total_sequence_length is " + std::to_string(total) + " with " + std::to_string(steps) + " queries");
  Heads<float> pastKeys(batch, kvHeads, 0, k.size), pastValues = pastKeys;
  if (call.has(3)) {
    requireShape(call, call.input(3), "past_key", {batch, kvHeads, -1, k.size});
    requireShape(call, call.input(4), "past_value", call.input(3).shape);
    pastKeys = Heads<float>(call.input(3));
    pastValues = Heads<float>(call.input(4));
  }
  const bool isPrompt = steps == total;
  for (int64_t &length : lengths) {
    length = std::min<int64_t>(std::max<int64_t>(length, -1), INT32_MAX) + 1;
    past.push_back(isPrompt ? 0 : length - steps);
    if (length < 1 || length > total || past.back() < 0 || past.back() > pastKeys.length)
      call.fail("seqlens_k has " + std::to_string(length - 1) + " for " + std::to_string(steps) + " queries, a past of " +
                std::to_string(pastKeys.length) + " and a total_sequence_length of " + std::to_string(total));
  }
  if (call.has(14) != call.has(15))
    call.fail("only one of q_norm_weight and k_norm_weight is given");
  if (call.has(14)) {
    const double epsilon = double(call.floatAttr("qk_norm_epsilon", 1e-6f));
    normalizeHeads(call, q, 14, "q_norm_weight", epsilon);
    normalizeHeads(call, k, 15, "k_norm_weight", epsilon);
  }
  if (call.flagAttr("do_rotary", false)) {
    const HostTensor &cosines = call.input(7), &sines = call.input(8);
    requireShape(call, cosines, "cos_cache", {-1, -1});
    requireShape(call, sines, "sin_cache", cosines.shape);
    const int64_t half = cosines.shape[1];
    if (2 * half > q.size)
      call.fail("cos_cache has shape " + textOf(cosines.shape) + " for heads of size " + std::to_string(q.size));
    std::vector<int64_t> positions;
    if (call.has(9)) {
      positions = call.ints(9);
      if (int64_t(positions.size()) != batch * steps && positions.size() != 1)
        call.fail("position_ids has shape " + textOf(call.input(9).shape) + ", expected " + textOf({batch, steps}));
    }
    const std::vector<float> c = realsOf<float>(cosines), s = realsOf<float>(sines);
    const bool isInterleaved = call.flagAttr("rotary_interleaved", false);
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < steps; ++i) {
        int64_t position = past[size_t(b)] + i;
        if (isPrompt && !positions.empty())
          position = std::min(std::max<int64_t>(positions[0], -1), cosines.shape[0]) + i;
        else if (int64_t(positions.size()) == batch * steps)
          position = positions[size_t(b * steps + i)];
        // Queries behind the end of a prompt have no meaning; nothing reads them.
        if (isPrompt && i >= lengths[size_t(b)])
          position = std::min(std::max<int64_t>(position, 0), cosines.shape[0] - 1);
        if (position < 0 || position >= cosines.shape[0])
          call.fail("position " + std::to_string(position) + " is used, cos_cache has shape " + textOf(cosines.shape));
        for (int64_t h = 0; h < heads; ++h)
          rotate(q.at(b, h, i), half, c.data() + position * half, s.data() + position * half, isInterleaved);
        for (int64_t h = 0; h < kvHeads; ++h)
          rotate(k.at(b, h, i), half, c.data() + position * half, s.data() + position * half, isInterleaved);
      }
  }
  Heads<float> keys(batch, kvHeads, std::max(total, pastKeys.length), k.size), values = keys;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < kvHeads; ++h)
      for (auto [from, old, to] : {std::tuple(&k, &pastKeys, &keys), std::tuple(&v, &pastValues, &values)}) {
        std::copy_n(old->at(b, h), (isPrompt ? old->length : past[size_t(b)]) * k.size, to->at(b, h));
        std::copy_n(from->at(b, h), steps * k.size, to->at(b, h, past[size_t(b)]));
      }
  std::optional<ScoreBias> bias;
  if (call.has(10)) {
    requireShape(call, call.input(10), "attention_bias", {-1, -1, steps, -1});
    if (call.input(10).shape[3] < total)
      call.fail("attention_bias has shape " + textOf(call.input(10).shape) + ", expected " + std::to_string(total) +
                " columns");
    bias.emplace(call, call.input(10), "attention_bias", Shape{batch, heads, steps, call.input(10).shape[3]}, false);
  }
  const int64_t window = call.intAttr("local_window_size", -1);
  const bool isCausal = call.flagAttr("causal", true);
  if (!isCausal && window != -1)
    call.fail("local_window_size is " + std::to_string(window) + " without a causal mask");
  std::vector<float> biasRow(static_cast<size_t>(call.has(10) ? call.input(10).shape[3] : 0));
  Attend<float> attend(q, keys, values);
  attend.scale = call.floatAttr("scale", 0.f);
  if (attend.scale == 0)
    attend.scale = 1 / std::sqrt(float(q.size));
  attend.softcap = call.floatAttr("softcap", 0.f);
  attend.addBias = [&](int64_t b, int64_t h, int64_t i, float *row) {
    if (bias) {
      std::fill(biasRow.begin(), biasRow.end(), 0.f);
      bias->addTo(biasRow.data(), b, h, i);
      std::copy_n(biasRow.begin(), std::min<int64_t>(keys.length, int64_t(biasRow.size())), row);
    }
    const int64_t end = isCausal ? std::min(past[size_t(b)] + i + 1, lengths[size_t(b)]) : lengths[size_t(b)];
    const int64_t start = window > 0 ? std::max<int64_t>(0, end - window) : 0;
    for (int64_t j = 0; j < keys.length; ++j)
      if (j < start || j >= end)
        row[j] = -std::numeric_limits<float>::infinity();
  };
  if (call.has(11)) {
    requireShape(call, call.input(11), "head_sink", {heads});
    attend.sinks = realsOf<float>(call.input(11));
  } else if (call.flagAttr("smooth_softmax", false) && call.intAttr("smooth_softmax") == 1) {
    attend.sinks.assign(size_t(heads), 0.f);
  }
  Heads<float> scores;
  const int64_t qkOutput = call.intAttr("qk_output", 0);
  attend.stage = qkOutput == 2 ? Attend<float>::Probabilities : Attend<float>::Biased;
  if (call.wants(3) && qkOutput > 0)
    attend.scores = &scores;
  call.set(0, mergeHeads(attend.run(), kind));
  if (call.wants(1))
    call.set(1, keys.tensor(kind));
  if (call.wants(2))
    call.set(2, values.tensor(kind));
  if (attend.scores)
    call.set(3, scores.tensor(kind));
}

//===----------------------------------------------------------------------===//
// Positions
//===----------------------------------------------------------------------===//

static void evaluateRotaryEmbedding(Call &call) {
  if (call.flagAttr("is_packed_batching", false))
    call.fail("is_packed_batching is 1, which is not supported");
  if (call.floatAttr("scale", 1.f) != 1)
    call.fail("scale is not 1, which is not supported");
  evaluateRotary(call, {2, 3, 1, true});
}

/// q * cos(emb) + q_rot * sin(emb), and the same of k: q, k [batch, heads, steps, size], emb [batch, steps, size].
static void evaluateGemmaRotaryEmbedding(Call &call) {
  const HostTensor &angles = call.input(0);
  requireShape(call, angles, "emb", {-1, -1, -1});
  const int64_t batch = angles.shape[0], steps = angles.shape[1], size = angles.shape[2];
  const std::vector<float> angle = realsOf<float>(angles);
  for (size_t result : {0, 1}) {
    const HostTensor &x = call.input(1 + 2 * result), &turned = call.input(2 + 2 * result);
    requireShape(call, x, result ? "k" : "q", {batch, -1, steps, size});
    requireShape(call, turned, result ? "k_rot" : "q_rot", x.shape);
    visitReal(x.type, [](auto) {});
    std::vector<float> y = realsOf<float>(x);
    const std::vector<float> other = realsOf<float>(turned);
    const Shape shape{batch, x.shape[1], steps, size};
    walk<1>(shape, {broadcastStrides({batch, 1, steps, size}, shape)}, [&](int64_t i, const std::array<int64_t, 1> &at) {
      const float here = angle[size_t(at[0])];
      y[size_t(i)] = y[size_t(i)] * std::cos(here) + other[size_t(i)] * std::sin(here);
    });
    call.set(result, tensorOf(y, x.type, x.shape));
  }
}

/// Biases of distances of keys from queries in buckets, as T5 has them: [1, heads, queries, keys] of bias_table[buckets, heads].
static void evaluateRelativePositionBias(Call &call) {
  const HostTensor &biases = call.input(0);
  requireShape(call, biases, "bias_table", {-1, -1});
  const int64_t queries = call.intScalar(1), keys = call.intScalar(2), heads = biases.shape[1];
  const bool isBidirectional = call.flagAttr("is_bidirectional", false);
  const int64_t most = call.intAttr("max_distance"), buckets = isBidirectional ? biases.shape[0] / 2 : biases.shape[0];
  const int64_t exact = buckets / 2;
  if (exact < 1 || most <= exact || queries < 0 || keys < 0)
    call.fail("bias_table has shape " + textOf(biases.shape) + ", max_distance is " + std::to_string(most) + ", for " +
              std::to_string(queries) + " queries and " + std::to_string(keys) + " keys");
  HostTensor &y = call.output(0, biases.type, {1, heads, queries, keys});
  for (int64_t i = 0; i < queries; ++i)
    for (int64_t j = 0; j < keys; ++j) {
      int64_t distance = i - j, bucket = 0;
      if (isBidirectional && distance < 0) {
        bucket = buckets;
        distance = -distance;
      }
      distance = std::max<int64_t>(distance, 0);
      if (distance < exact)
        bucket += distance;
      else
        bucket += std::min(buckets - 1, exact + int64_t(std::log(float(distance) / float(exact)) /
                                                        std::log(float(most) / float(exact)) * float(buckets - exact)));
      for (int64_t h = 0; h < heads; ++h)
        copyElement(biases, bucket * heads + h, y, (h * queries + i) * keys + j);
    }
}

/// rel_pos[1, heads, steps, steps] times u * (r * eco_a - 1) + 2, where u and r are sigmoids of sums of halves of (query + bias) * weight + bias.
static void evaluateGatedRelativePositionBias(Call &call) {
  const HostTensor &query = call.input(0), &relative = call.input(2), &weight = call.input(3);
  const int64_t heads = headsAttr(call, "num_heads");
  if (call.has(6))
    call.fail("token_offset is given, which is not supported");
  requireShape(call, query, "query_layer", {-1, -1, -1});
  const int64_t batch = query.shape[0], steps = query.shape[1];
  if (heads < 1 || query.shape[2] % heads)
    call.fail("query_layer has shape " + textOf(query.shape) + ", it cannot have " + std::to_string(heads) + " heads");
  const int64_t size = query.shape[2] / heads;
  requireShape(call, call.input(1), "query_bias", {query.shape[2]});
  requireShape(call, relative, "rel_pos", {1, heads, steps, steps});
  requireShape(call, weight, "weight", {size, -1});
  const int64_t width = weight.shape[1];
  if (width % 2)
    call.fail("weight has shape " + textOf(weight.shape) + ", which has no halves");
  requireShape(call, call.input(4), "bias", {width});
  requireShape(call, call.input(5), "eco_a", {1, heads, 1, 1});
  Heads<float> q = headsOf(call, query, "query_layer", heads, 0, query.shape[2]);
  visitReal(query.type, [](auto) {});
  addHeadBias(q, realsOf<float>(call.input(1)), 0);
  const std::vector<float> w = realsOf<float>(weight), bias = realsOf<float>(call.input(4)),
                           eco = realsOf<float>(call.input(5));
  const std::vector<float> distances = realsOf<float>(relative);
  Heads<float> y(batch, heads, steps, steps);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < steps; ++i) {
        std::vector<float> gates = bias;
        multiplyAdd(1, width, size, q.at(b, h, i), w.data(), gates.data());
        float u = 0, r = 0;
        for (int64_t j = 0; j < width; ++j)
          (j < width / 2 ? u : r) += gates[size_t(j)];
        u = 1 / (1 + std::exp(-u));
        r = 1 / (1 + std::exp(-r));
        const float factor = u * (r * eco[size_t(h)] - 1) + 2;
        for (int64_t j = 0; j < steps; ++j)
          y.at(b, h, i)[j] = factor * distances[size_t((h * steps + i) * steps + j)];
      }
  call.set(0, y.tensor(query.type));
}

void operators::addRuntimeAttention(Table &table) {
  table["com.microsoft:Attention"].evaluate = evaluateAttention;
  table["com.microsoft:MultiHeadAttention"].evaluate = evaluateMultiHeadAttention;
  table["com.microsoft:DecoderMaskedMultiHeadAttention"].evaluate = evaluateDecoderMaskedMultiHeadAttention;
  table["com.microsoft:GroupQueryAttention"] = {evaluateGroupQueryAttention, {6}, false, false};
  table["com.microsoft:RotaryEmbedding"].evaluate = evaluateRotaryEmbedding;
  table["com.microsoft:GemmaRotaryEmbedding"].evaluate = evaluateGemmaRotaryEmbedding;
  table["com.microsoft:RelativePositionBias"] = {evaluateRelativePositionBias, {1, 2}, false, false};
  table["com.microsoft:GatedRelativePositionBias"].evaluate = evaluateGatedRelativePositionBias;
}
