//===- RuntimeNorms.cpp - Norms and embeddings of com.microsoft -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX Runtime, docs/ContribOperators.md
//===----------------------------------------------------------------------===//
#include "compiler/operators/RuntimeDomain.h"

using namespace tw;
using namespace tw::operators;

/// Results 1 and 2, mean and 1 / standard deviation of each row, are float.
template <typename T>
static void setMoments(Call &call, size_t meanAt, size_t inverseAt, const Shape &shape, const std::vector<T> &means,
                       const std::vector<T> &inverses) {
  if (meanAt && call.wants(meanAt))
    call.set(meanAt, tensorOf(means, ElementKind::F32, shape));
  if (call.wants(inverseAt))
    call.set(inverseAt, tensorOf(inverses, ElementKind::F32, shape));
}

/// y = norm(input + skip + bias). `hasMean`: a layer norm with beta as input 3; else without mean, and the bias is input 3.
static void skipNorm(Call &call, bool hasMean) {
  const HostTensor &x = call.input(0), &skip = call.input(1), &gamma = call.input(2);
  call.requireSameType(x, skip);
  if (x.shape.size() != 2 && x.shape.size() != 3)
    call.fail("input has shape " + textOf(x.shape) + ", expected rank 2 or 3");
  const int64_t size = x.shape.back();
  const size_t biasAt = hasMean ? 4 : 3;
  requireShape(call, gamma, "gamma", {size});
  if (hasMean && call.has(3))
    requireShape(call, call.input(3), "beta", {size});
  if (call.has(biasAt))
    requireShape(call, call.input(biasAt), "bias", {size});
  if (skip.shape.empty() || skip.shape.back() != size || broadcast(x.shape, skip.shape) != x.shape)
    call.fail("skip has shape " + textOf(skip.shape) + ", expected one that broadcasts to " + textOf(x.shape));
  const double epsilon = double(call.floatAttr("epsilon", hasMean ? 1e-12f : 1e-6f));
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> sum = realsOf<T>(x);
    const std::vector<T> more = realsOf<T>(skip), scale = realsOf<T>(gamma);
    const std::vector<T> bias = call.has(biasAt) ? realsOf<T>(call.input(biasAt)) : std::vector<T>(size_t(size));
    walk<1>(x.shape, {broadcastStrides(skip.shape, x.shape)}, [&](int64_t i, const std::array<int64_t, 1> &at) {
      sum[size_t(i)] += more[size_t(at[0])] + bias[size_t(i % size)];
    });
    if (call.wants(3))
      call.set(3, tensorOf(sum, x.type, x.shape));
    std::vector<T> beta;
    if (hasMean && call.has(3))
      beta = realsOf<T>(call.input(3));
    Shape rows = x.shape;
    rows.back() = 1;
    std::vector<T> means(static_cast<size_t>(countOf(rows))), inverses(means.size());
    normalizeRows(sum, size, epsilon, hasMean, scale.data(), beta.empty() ? nullptr : beta.data(), means.data(),
                  inverses.data());
    call.set(0, tensorOf(sum, x.type, x.shape));
    setMoments(call, 1, 2, rows, means, inverses);
  });
}

static void evaluateSkipLayerNormalization(Call &call) { skipNorm(call, true); }
static void evaluateSkipSimplifiedLayerNormalization(Call &call) { skipNorm(call, false); }

/// x / sqrt(mean(x^2) + epsilon) * scale along the dims from `axis` on.
static void evaluateSimplifiedLayerNormalization(Call &call) {
  const HostTensor &x = call.input(0), &scale = call.input(1);
  const int64_t axis = call.axis(call.intAttr("axis", -1), int64_t(x.shape.size()));
  if (x.shape.empty())
    call.fail("X is a scalar");
  const Shape inner(x.shape.begin() + axis, x.shape.end());
  const int64_t size = countOf(inner);
  if (countOf(scale) != size)
    call.fail("scale has shape " + textOf(scale.shape) + ", expected " + textOf(inner));
  const double epsilon = double(call.floatAttr("epsilon", 1e-5f));
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = realsOf<T>(x);
    Shape rows = x.shape;
    std::fill(rows.begin() + axis, rows.end(), 1);
    std::vector<T> inverses(static_cast<size_t>(countOf(rows)));
    normalizeRows<T>(y, size, epsilon, false, realsOf<T>(scale).data(), nullptr, nullptr, inverses.data());
    call.set(0, tensorOf(y, frontend::isFloat(scale.type) ? scale.type : x.type, x.shape));
    setMoments(call, 0, 1, rows, std::vector<T>(), inverses);
  });
}

void operators::evaluateEmbedding(Call &call, const Embedding &e) {
  requireShape(call, e.ids, "input_ids", {-1, -1});
  requireShape(call, e.words, "word_embedding", {-1, -1});
  const int64_t batch = e.ids.shape[0], steps = e.ids.shape[1], size = e.words.shape[1];
  requireShape(call, e.positions, "position_embedding", {-1, size});
  requireShape(call, e.gamma, "gamma", {size});
  requireShape(call, e.beta, "beta", {size});
  if ((e.segments != nullptr) != (e.segmentTable != nullptr))
    call.fail("only one of segment_ids and segment_embedding is given");
  if (e.segments) {
    requireShape(call, *e.segments, "segment_ids", {batch, steps});
    requireShape(call, *e.segmentTable, "segment_embedding", {-1, size});
  }
  if (e.positionIds && (e.positionIds->shape.size() != 2 || e.positionIds->shape[1] != steps ||
                        (e.positionIds->shape[0] != batch && e.positionIds->shape[0] != 1)))
    call.fail("position_ids has shape " + textOf(e.positionIds->shape) + ", expected [" + std::to_string(batch) + ", " +
              std::to_string(steps) + "]");
  const double epsilon = double(call.floatAttr("epsilon", 1e-12f));
  const ElementKind kind = e.gamma.type;
  visitReal(kind, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> sum = zeros<T>({batch, steps, size});
    auto add = [&](int64_t row, const HostTensor &table, int64_t id, const char *name) {
      if (id < 0 || id >= table.shape[0])
        call.fail(std::string(name) + " has no row " + std::to_string(id) + ", its shape is " + textOf(table.shape));
      for (int64_t i = 0; i < size; ++i)
        sum[size_t(row * size + i)] += T(realAt(table, id * size + i));
    };
    for (int64_t row = 0; row < batch * steps; ++row) {
      const int64_t step = row % steps;
      add(row, e.words, integerAt(e.ids, row), "word_embedding");
      const int64_t position = !e.positionIds ? step : integerAt(*e.positionIds, e.positionIds->shape[0] == 1 ? step : row);
      add(row, e.positions, position, "position_embedding");
      if (e.segments)
        add(row, *e.segmentTable, integerAt(*e.segments, row), "segment_embedding");
    }
    if (call.wants(2))
      call.set(2, tensorOf(sum, kind, {batch, steps, size}));
    normalizeRows<T>(sum, size, epsilon, true, realsOf<T>(e.gamma).data(), realsOf<T>(e.beta).data());
    call.set(0, tensorOf(sum, kind, {batch, steps, size}));
  });
  if (!call.wants(1))
    return;
  // The number of words of each sequence: they stand in front.
  HostTensor counts = makeTensor(ElementKind::I32, {batch});
  if (e.mask) {
    requireShape(call, *e.mask, "mask", {batch, steps});
    for (int64_t row = 0; row < batch * steps; ++row)
      if (integerAt(*e.mask, row) == 1)
        ++data<int32_t>(counts)[row / steps];
  }
  call.set(1, std::move(counts));
}

static void evaluateEmbedLayerNormalization(Call &call) {
  auto optional = [&](size_t i) { return call.has(i) ? &call.input(i) : nullptr; };
  evaluateEmbedding(call, {call.input(0), optional(1), call.input(2), call.input(3), optional(4), call.input(5), call.input(6),
                           optional(7), optional(8)});
}

/// Group norm of x[N, .., C], with `skip` and a bias added before if they are given. Result 1: the sum.
static void evaluateGroupNorm(Call &call) {
  const HostTensor &given = call.input(0);
  const bool isLast = call.flagAttr("channels_last", true), isSkip = call.type() == "SkipGroupNorm";
  requireShape(call, given, "X", {-1, -1, -1, -1});
  const HostTensor x = isLast ? given : channelsLast(given);
  const int64_t channels = x.shape[3], area = x.shape[1] * x.shape[2], groups = call.intAttr("groups");
  const int64_t activation = call.intAttr("activation", 0);
  if (activation != 0 && activation != 1)
    call.fail("activation is " + std::to_string(activation) + ", expected 0 (none) or 1 (SiLU)");
  if (groups < 1 || channels % groups)
    call.fail("X of shape " + textOf(given.shape) + " cannot have " + std::to_string(groups) + " groups of channels");
  requireShape(call, call.input(1), "gamma", {channels});
  requireShape(call, call.input(2), "beta", {channels});
  const double epsilon = double(call.floatAttr("epsilon", 1e-5f));
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = realsOf<T>(x);
    const std::vector<T> gamma = realsOf<T>(call.input(1)), beta = realsOf<T>(call.input(2));
    if (isSkip) {
      const HostTensor skip = isLast || call.input(3).shape.size() != 4 ? call.input(3) : channelsLast(call.input(3));
      // [N, H, W, C], [N, 1, 1, C] or [N, C].
      const int64_t count = countOf(skip);
      if (count != countOf(x) && count != x.shape[0] * channels)
        call.fail("skip has shape " + textOf(call.input(3).shape) + ", X has " + textOf(given.shape));
      const std::vector<T> more = realsOf<T>(skip);
      std::vector<T> bias(static_cast<size_t>(channels));
      if (call.has(4)) {
        requireShape(call, call.input(4), "bias", {channels});
        bias = realsOf<T>(call.input(4));
      }
      const bool isWhole = count == countOf(x);
      for (int64_t i = 0; i < countOf(x); ++i)
        y[size_t(i)] +=
            more[size_t(isWhole ? i : i / (area * channels) * channels + i % channels)] + bias[size_t(i % channels)];
      if (call.wants(1)) {
        HostTensor sum = tensorOf(y, x.type, x.shape);
        call.set(1, isLast ? std::move(sum) : channelsFirst(sum));
      }
    }
    const int64_t width = channels / groups;
    for (int64_t n = 0; n < x.shape[0]; ++n)
      for (int64_t g = 0; g < groups; ++g) {
        double mean = 0, square = 0;
        auto each = [&](auto &&f) {
          for (int64_t i = 0; i < area; ++i)
            for (int64_t c = g * width; c < (g + 1) * width; ++c)
              f(y[size_t((n * area + i) * channels + c)], size_t(c));
        };
        each([&](T value, size_t) { mean += double(value); });
        mean /= double(area * width);
        each([&](T value, size_t) { square += (double(value) - mean) * (double(value) - mean); });
        const double inverse = 1 / std::sqrt(square / double(area * width) + epsilon);
        each([&](T &value, size_t c) {
          value = T((double(value) - mean) * inverse) * gamma[c] + beta[c];
          if (activation == 1)
            value = value / (1 + std::exp(-value));
        });
      }
    HostTensor result = tensorOf(y, x.type, x.shape);
    call.set(0, isLast ? std::move(result) : channelsFirst(result));
  });
}

void operators::addRuntimeNorms(Table &table) {
  table["com.microsoft:SkipLayerNormalization"].evaluate = evaluateSkipLayerNormalization;
  table["com.microsoft:SkipSimplifiedLayerNormalization"].evaluate = evaluateSkipSimplifiedLayerNormalization;
  table["com.microsoft:SimplifiedLayerNormalization"].evaluate = evaluateSimplifiedLayerNormalization;
  table[":SimplifiedLayerNormalization"].evaluate = evaluateSimplifiedLayerNormalization;
  table["com.microsoft:EmbedLayerNormalization"].evaluate = evaluateEmbedLayerNormalization;
  table["com.microsoft:GroupNorm"].evaluate = evaluateGroupNorm;
  table["com.microsoft:SkipGroupNorm"].evaluate = evaluateGroupNorm;
}
