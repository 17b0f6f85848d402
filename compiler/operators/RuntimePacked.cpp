//===- RuntimePacked.cpp - Sequences without padding, of com.microsoft ----===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX Runtime, docs/ContribOperators.md
//===----------------------------------------------------------------------===//
#include "compiler/operators/Attention.h"
#include "compiler/operators/RuntimeDomain.h"

using namespace tw;
using namespace tw::operators;

//===----------------------------------------------------------------------===//
// Padding
//===----------------------------------------------------------------------===//

/// [batch, steps, size] to its tokens, [tokens, size]; their places and then those of the padding; where each sequence starts; the longest one.
static void evaluateRemovePadding(Call &call) {
  const HostTensor &x = call.input(0);
  requireShape(call, x, "input", {-1, -1, -1});
  const int64_t batch = x.shape[0], steps = x.shape[1], size = x.shape[2];
  requireShape(call, call.input(1), "sequence_token_count", {batch});
  const std::vector<int64_t> counts = call.ints(1);
  std::vector<int64_t> offsets, padding, starts{0};
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t count = counts[size_t(b)];
    if (count < 0 || count > steps)
      call.fail("sequence_token_count has " + std::to_string(count) + ", expected 0 to " + std::to_string(steps));
    for (int64_t i = 0; i < steps; ++i)
      (i < count ? offsets : padding).push_back(b * steps + i);
    starts.push_back(starts.back() + count);
  }
  HostTensor &y = call.output(0, x.type, {starts.back(), size});
  for (size_t i = 0; i < offsets.size(); ++i)
    copyElements(x, offsets[i] * size, y, int64_t(i) * size, size);
  offsets.insert(offsets.end(), padding.begin(), padding.end());
  call.set(1, reshaped(toKind(makeInts(offsets), ElementKind::I32), {batch, steps}));
  call.set(2, toKind(makeInts(starts), ElementKind::I32));
  const int64_t longest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  call.set(3, toKind(makeInts({longest}), ElementKind::I32));
}

/// The inverse: tokens at their places, zeros elsewhere.
static void evaluateRestorePadding(Call &call) {
  const HostTensor &x = call.input(0), &places = call.input(1);
  requireShape(call, x, "input", {-1, -1});
  requireShape(call, places, "token_offset", {-1, -1});
  const int64_t tokens = x.shape[0], size = x.shape[1], most = countOf(places);
  const std::vector<int64_t> offsets = call.ints(1);
  if (tokens > most)
    call.fail("input has shape " + textOf(x.shape) + ", token_offset " + textOf(places.shape));
  HostTensor &y = call.output(0, x.type, {places.shape[0], places.shape[1], size});
  for (int64_t i = 0; i < tokens; ++i) {
    if (offsets[size_t(i)] < 0 || offsets[size_t(i)] >= most)
      call.fail("token_offset has " + std::to_string(offsets[size_t(i)]) + ", expected 0 to " + std::to_string(most - 1));
    copyElements(x, i * size, y, offsets[size_t(i)] * size, size);
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// Queries, keys or values of all tokens: head h of token t starts at elements[t * stride + first + h * step].
struct Packed {
  std::vector<float> elements;
  int64_t first, stride, step, size;

  /// Those of tokens from `begin` on.
  Heads<float> heads(int64_t count, int64_t begin, int64_t length) const {
    Heads<float> y(1, count, length, size);
    for (int64_t h = 0; h < count; ++h)
      for (int64_t i = 0; i < length; ++i)
        std::copy_n(elements.data() + (begin + i) * stride + first + h * step, size, y.at(0, h, i));
    return y;
  }
};
} // namespace

/// Attention within each sequence. Inputs: token_offset at `offsetAt`, behind it cumulative_sequence_length and attention_bias.
static void attendPacked(Call &call, const Packed &q, const Packed &k, const Packed &v, int64_t tokens, size_t offsetAt,
                         ElementKind kind) {
  const int64_t heads = headsAttr(call, "num_heads");
  requireShape(call, call.input(offsetAt), "token_offset", {-1, -1});
  const int64_t batch = call.input(offsetAt).shape[0], steps = call.input(offsetAt).shape[1];
  requireShape(call, call.input(offsetAt + 1), "cumulative_sequence_length", {batch + 1});
  const std::vector<int64_t> starts = call.ints(offsetAt + 1);
  for (int64_t b = 0; b < batch; ++b)
    if (const int64_t length = starts[size_t(b + 1)] - starts[size_t(b)];
        starts[0] != 0 || length < 0 || length > steps || starts[size_t(batch)] != tokens)
      call.fail("cumulative_sequence_length is " + textOf(starts) + " for " + std::to_string(tokens) +
                " tokens of sequences of at most " + std::to_string(steps));
  std::optional<ScoreBias> bias;
  if (call.has(offsetAt + 2))
    bias.emplace(call, call.input(offsetAt + 2), "attention_bias", Shape{batch, heads, steps, steps}, false);
  std::vector<float> row(static_cast<size_t>(steps));
  std::vector<float> y = zeros<float>({tokens, heads * v.size});
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t begin = starts[size_t(b)], length = starts[size_t(b + 1)] - begin;
    const Heads<float> queries = q.heads(heads, begin, length), keys = k.heads(heads, begin, length),
                       values = v.heads(heads, begin, length);
    Attend<float> attend(queries, keys, values);
    attend.scale = call.floatAttr("scale", 0.f);
    if (attend.scale == 0)
      attend.scale = 1 / std::sqrt(float(q.size));
    if (bias)
      attend.addBias = [&](int64_t, int64_t h, int64_t i, float *scores) {
        std::fill(row.begin(), row.end(), 0.f);
        bias->addTo(row.data(), b, h, i);
        std::copy_n(row.begin(), length, scores);
      };
    const Heads<float> made = attend.run();
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < length; ++i)
        std::copy_n(made.at(0, h, i), v.size, y.data() + ((begin + i) * heads + h) * v.size);
  }
  call.set(0, tensorOf(y, kind, {tokens, heads * v.size}));
}

/// The size of each of `heads` heads of `width` numbers.
static int64_t headSize(const Call &call, const char *name, int64_t width, int64_t heads) {
  if (width % heads)
    call.fail(std::string(name) + " has " + std::to_string(width) + " columns, it cannot have " + std::to_string(heads) +
              " heads");
  return width / heads;
}

static void evaluatePackedAttention(Call &call) {
  const HostTensor &x = call.input(0), &weights = call.input(1);
  requireShape(call, x, "input", {-1, -1});
  requireShape(call, weights, "weights", {x.shape[1], -1});
  const int64_t tokens = x.shape[0], width = weights.shape[1], heads = headsAttr(call, "num_heads");
  requireShape(call, call.input(2), "bias", {width});
  visitReal(x.type, [](auto) {});
  const std::vector<int64_t> sizes = call.intsAttr("qkv_hidden_sizes", std::vector<int64_t>(3, width / 3));
  if (sizes.size() != 3 || sizes[0] < 0 || sizes[0] > width || sizes[1] != sizes[0] || sizes[2] < 0 || sizes[2] > width ||
      sizes[0] + sizes[1] + sizes[2] != width)
    call.fail("weights have " + std::to_string(width) + " columns, expected those of Q, K and V: " + textOf(sizes));
  std::vector<float> projected = zeros<float>({tokens, width});
  const std::vector<float> bias = realsOf<float>(call.input(2));
  for (size_t i = 0; i < projected.size(); ++i)
    projected[i] = bias[i % bias.size()];
  multiplyAdd(tokens, width, x.shape[1], realsOf<float>(x).data(), realsOf<float>(weights).data(), projected.data());
  const int64_t size = headSize(call, "Q", sizes[0], heads), valueSize = headSize(call, "V", sizes[2], heads);
  attendPacked(call, {projected, 0, width, size, size}, {projected, sizes[0], width, size, size},
               {projected, 2 * sizes[0], width, valueSize, valueSize}, tokens, 3, x.type);
}

static void evaluatePackedMultiHeadAttention(Call &call) {
  const HostTensor &query = call.input(0);
  const int64_t heads = headsAttr(call, "num_heads");
  visitReal(query.type, [](auto) {});
  const bool isTogether = query.shape.size() == 4;
  if (isTogether)
    requireShape(call, query, "query", {-1, heads, 3, -1});
  else
    requireShape(call, query, "query", {-1, -1});
  const int64_t tokens = query.shape[0];
  auto packed = [&](size_t input, const char *name, int64_t part) {
    if (isTogether) {
      const int64_t size = query.shape[3];
      return Packed{realsOf<float>(query), part * size, heads * 3 * size, 3 * size, size};
    }
    const HostTensor &x = call.input(input);
    requireShape(call, x, name, {tokens, part == 2 ? -1 : query.shape[1]});
    const int64_t size = headSize(call, name, x.shape[1], heads);
    return Packed{realsOf<float>(x), 0, x.shape[1], size, size};
  };
  Packed parts[] = {packed(0, "query", 0), packed(1, "key", 1), packed(2, "value", 2)};
  if (call.has(3)) {
    requireShape(call, call.input(3), "bias", {heads * (parts[0].size + parts[1].size + parts[2].size)});
    const std::vector<float> bias = realsOf<float>(call.input(3));
    size_t at = 0;
    for (Packed &part : parts)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < part.size; ++i, ++at)
          for (int64_t t = 0; t < tokens; ++t)
            part.elements[size_t(t * part.stride + part.first + h * part.step + i)] += bias[at];
  }
  attendPacked(call, parts[0], parts[1], parts[2], tokens, 4, query.type);
}

//===----------------------------------------------------------------------===//
// Repetition
//===----------------------------------------------------------------------===//

/// Minus infinity for each token that would end an n-gram which the sequence holds already.
static void evaluateNGramRepeatBlock(Call &call) {
  const HostTensor &ids = call.input(0), &scores = call.input(1);
  requireShape(call, ids, "input_ids", {-1, -1});
  requireShape(call, scores, "scores", {ids.shape[0], -1});
  visitReal(scores.type, [](auto) {});
  const int64_t n = call.intAttr("ngram_size"), length = ids.shape[1], tokens = scores.shape[1];
  if (n < 1)
    call.fail("ngram_size is " + std::to_string(n) + ", expected at least 1");
  HostTensor y = scores;
  const std::vector<int64_t> all = call.ints(0);
  for (int64_t b = 0; b < ids.shape[0]; ++b) {
    const auto sequence = all.begin() + b * length;
    for (int64_t i = 0; i + n <= length; ++i) {
      if (!std::equal(sequence + i, sequence + i + n - 1, sequence + length - n + 1))
        continue;
      const int64_t token = sequence[i + n - 1];
      if (token < 0 || token >= tokens)
        call.fail("input_ids has " + std::to_string(token) + ", there are scores of " + std::to_string(tokens) + " tokens");
      setReal(y, b * tokens + token, -std::numeric_limits<double>::infinity());
    }
  }
  call.set(0, std::move(y));
}

void operators::addRuntimePacked(Table &table) {
  table["com.microsoft:RemovePadding"] = {evaluateRemovePadding, {1}, false, false};
  table["com.microsoft:RestorePadding"].evaluate = evaluateRestorePadding;
  table["com.microsoft:PackedAttention"].evaluate = evaluatePackedAttention;
  table["com.microsoft:PackedMultiHeadAttention"].evaluate = evaluatePackedMultiHeadAttention;
  table["com.microsoft:NGramRepeatBlock"].evaluate = evaluateNGramRepeatBlock;
}
