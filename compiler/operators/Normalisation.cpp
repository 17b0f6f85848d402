//===- Normalisation.cpp - Operators that normalise -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Widened.h"

using namespace tw;
using namespace tw::operators;

namespace {

struct Moments {
  double mean = 0, variance = 0;
};

/// Mean and variance (of the population) of `count` neighbours; NaN of none.
template <typename C> Moments momentsOf(const C *x, int64_t count) {
  Moments moments;
  for (int64_t i = 0; i < count; ++i)
    moments.mean += double(x[i]);
  moments.mean /= double(count);
  for (int64_t i = 0; i < count; ++i)
    moments.variance += (double(x[i]) - moments.mean) * (double(x[i]) - moments.mean);
  moments.variance /= double(count);
  return moments;
}

/// The kind in which `stash_type` says that sums are made, and in which they are handed out.
ElementKind stashKind(const Call &call) {
  switch (const int64_t type = call.intAttr("stash_type", 1)) {
  case 1:
    return ElementKind::F32;
  case 10:
    return ElementKind::F16;
  case 11:
    return ElementKind::F64;
  case 16:
    return ElementKind::BF16;
  default:
    call.fail("stash_type is " + std::to_string(type) + ", expected 1 (float), 10 (float16), 11 (double) or 16 (bfloat16)");
  }
}

/// The dims from `axis` on.
Shape behind(const Shape &shape, int64_t axis) { return Shape(shape.begin() + axis, shape.end()); }

/// Input `i`, repeated to `shape`, as double; `fallback` everywhere if it is left out.
std::vector<double> repeated(const Call &call, size_t i, const Shape &shape, double fallback) {
  std::vector<double> values(size_t(countOf(shape)), fallback);
  if (!call.has(i))
    return values;
  const HostTensor &x = call.input(i);
  if (broadcast(x.shape, shape) != shape)
    call.fail("input " + std::to_string(i) + " has shape " + textOf(x.shape) + ", expected one that broadcasts to " +
              textOf(shape));
  walk<1>(shape, {broadcastStrides(x.shape, shape)},
          [&](int64_t at, const std::array<int64_t, 1> &from) { values[size_t(at)] = realAt(x, from[0]); });
  return values;
}

/// Input `i` of shape [count], as double.
std::vector<double> perChannel(const Call &call, size_t i, int64_t count) {
  const HostTensor &x = call.input(i);
  if (countOf(x) != count || x.shape.size() > 1)
    call.fail("input " + std::to_string(i) + " has shape " + textOf(x.shape) + ", expected [" + std::to_string(count) + "]");
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t at = 0; at < count; ++at)
    values[size_t(at)] = realAt(x, at);
  return values;
}

/// [N, C, inner] of a tensor [N, C, ...].
struct Channels {
  int64_t batch = 0, channels = 0, inner = 1;
};
Channels channelsOf(const Call &call, const HostTensor &x, size_t rank = 2) {
  requireRank(call, 0, x, rank);
  Channels dims;
  dims.batch = x.shape[0];
  dims.channels = x.shape.size() > 1 ? x.shape[1] : 1;
  for (size_t i = 2; i < x.shape.size(); ++i)
    dims.inner *= x.shape[i];
  return dims;
}

//===----------------------------------------------------------------------===//
// LayerNormalization, RMSNormalization
//===----------------------------------------------------------------------===//

template <bool HasMean> void evaluateLayerNormalization(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 1);
  const int64_t rank = int64_t(x.shape.size()), axis = call.axis(call.intAttr("axis", -1), rank);
  const double epsilon = call.floatAttr("epsilon", 1e-5f);
  const ElementKind stash = stashKind(call);
  const Shape normalised = behind(x.shape, axis);
  const std::vector<double> scale = repeated(call, 1, normalised, 1), bias = repeated(call, HasMean ? 2 : 99, normalised, 0);
  Shape outer = x.shape;
  std::fill(outer.begin() + axis, outer.end(), 1);
  const int64_t rows = countOf(outer), count = countOf(normalised);
  HostTensor &y = call.output(0, x.type, x.shape);
  HostTensor means, deviations;
  if (HasMean) {
    means = makeTensor(stash, outer);
    deviations = makeTensor(stash, outer);
  }
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T> from(x);
        Narrowed<T> to(y);
        for (int64_t row = 0; row < rows; ++row) {
          const auto *each = from.data() + row * count;
          Moments moments;
          if (HasMean) {
            moments = momentsOf(each, count);
          } else {
            for (int64_t i = 0; i < count; ++i)
              moments.variance += double(each[i]) * double(each[i]);
            moments.variance /= double(count);
          }
          const double inverse = 1 / std::sqrt(moments.variance + epsilon);
          for (int64_t i = 0; i < count; ++i)
            to[row * count + i] = Computed<T>((double(each[i]) - moments.mean) * inverse * scale[size_t(i)] + bias[size_t(i)]);
          if (HasMean) {
            setReal(means, row, moments.mean);
            setReal(deviations, row, inverse);
          }
        }
      }))
    failType(call, 0, x);
  if (HasMean) {
    call.set(1, std::move(means));
    call.set(2, std::move(deviations));
  }
}

//===----------------------------------------------------------------------===//
// GroupNormalization, InstanceNormalization
//===----------------------------------------------------------------------===//

void normaliseGroups(Call &call, int64_t groups, const std::vector<double> &scale, const std::vector<double> &bias) {
  const HostTensor &x = call.input(0);
  const Channels dims = channelsOf(call, x);
  const double epsilon = call.floatAttr("epsilon", 1e-5f);
  HostTensor &y = call.output(0, x.type, x.shape);
  if (countOf(x) == 0)
    return;
  const int64_t channels = dims.channels / groups, count = channels * dims.inner;
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T> from(x);
        Narrowed<T> to(y);
        for (int64_t group = 0; group < dims.batch * groups; ++group) {
          const Moments moments = momentsOf(from.data() + group * count, count);
          const double inverse = 1 / std::sqrt(moments.variance + epsilon);
          for (int64_t i = 0; i < count; ++i) {
            const size_t channel = size_t(group % groups * channels + i / dims.inner);
            to[group * count + i] =
                Computed<T>((double(from[group * count + i]) - moments.mean) * inverse * scale[channel] + bias[channel]);
          }
        }
      }))
    failType(call, 0, x);
}

void evaluateGroupNormalization(Call &call) {
  const Channels dims = channelsOf(call, call.input(0));
  const int64_t groups = call.intAttr("num_groups");
  if (groups < 1 || dims.channels % groups != 0)
    call.fail("num_groups is " + std::to_string(groups) + ", which does not divide the " + std::to_string(dims.channels) +
              " channels");
  stashKind(call);
  // Up to opset 20 the scales are those of groups.
  const bool isPerGroup = call.opset() < 21;
  std::vector<double> scale = perChannel(call, 1, isPerGroup ? groups : dims.channels);
  std::vector<double> bias = perChannel(call, 2, isPerGroup ? groups : dims.channels);
  if (isPerGroup) {
    const std::vector<double> groupScale = scale, groupBias = bias;
    scale.resize(size_t(dims.channels));
    bias.resize(size_t(dims.channels));
    for (size_t i = 0; i < scale.size(); ++i) {
      scale[i] = groupScale[i / size_t(dims.channels / groups)];
      bias[i] = groupBias[i / size_t(dims.channels / groups)];
    }
  }
  normaliseGroups(call, groups, scale, bias);
}

void evaluateInstanceNormalization(Call &call) {
  const Channels dims = channelsOf(call, call.input(0));
  normaliseGroups(call, dims.channels, perChannel(call, 1, dims.channels), perChannel(call, 2, dims.channels));
}

//===----------------------------------------------------------------------===//
// BatchNormalization
//===----------------------------------------------------------------------===//

void evaluateBatchNormalization(Call &call) {
  const HostTensor &x = call.input(0);
  Channels dims = channelsOf(call, x, 1);
  // Up to opset 8: without `spatial`, every place has its own mean.
  Shape parameters{dims.channels};
  if (call.opset() < 9 && !call.flagAttr("spatial", true)) {
    parameters = behind(x.shape, std::min<int64_t>(1, int64_t(x.shape.size())));
    dims.channels *= dims.inner;
    dims.inner = 1;
  }
  std::vector<double> inputs[4];
  for (size_t i = 0; i < 4; ++i) {
    const HostTensor &each = call.input(i + 1);
    if (countOf(each) != dims.channels)
      requireShape(call, i + 1, each, parameters);
    for (int64_t at = 0; at < dims.channels; ++at)
      inputs[i].push_back(realAt(each, at));
  }
  const std::vector<double> &scale = inputs[0], &bias = inputs[1], &givenMean = inputs[2], &givenVariance = inputs[3];
  const double epsilon = call.floatAttr("epsilon", 1e-5f), momentum = call.floatAttr("momentum", 0.9f);
  // Up to opset 13 a node trains where it has more results than one.
  const bool trains = call.opset() >= 14 ? call.flagAttr("training_mode", false)
                                         : call.wants(1) || call.wants(2) || call.wants(3) || call.wants(4);
  if (!trains && (call.wants(1) || call.wants(2)))
    call.fail("results but the first are there only with training_mode");
  std::vector<double> mean = givenMean, variance = givenVariance;
  const int64_t count = dims.batch * dims.inner;
  HostTensor &y = call.output(0, x.type, x.shape);
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T> from(x);
        Narrowed<T> to(y);
        for (int64_t channel = 0; channel < dims.channels; ++channel) {
          auto forEach = [&](auto f) {
            for (int64_t n = 0; n < dims.batch; ++n)
              for (int64_t i = 0, at = (n * dims.channels + channel) * dims.inner; i < dims.inner; ++i, ++at)
                f(at);
          };
          double &m = mean[size_t(channel)], &v = variance[size_t(channel)];
          if (trains) {
            m = v = 0;
            forEach([&](int64_t at) { m += double(from[at]); });
            m /= double(count);
            forEach([&](int64_t at) { v += (double(from[at]) - m) * (double(from[at]) - m); });
            v /= double(count);
          }
          const double factor = scale[size_t(channel)] / std::sqrt(v + epsilon);
          forEach([&](int64_t at) { to[at] = Computed<T>((double(from[at]) - m) * factor + bias[size_t(channel)]); });
        }
      }))
    failType(call, 0, x);
  if (!trains)
    return;
  HostTensor results[4];
  for (size_t i = 0; i < 4; ++i)
    results[i] = makeTensor(call.input(i % 2 == 0 ? 3 : 4).type, call.input(3).shape);
  for (int64_t at = 0; at < dims.channels; ++at) {
    setReal(results[0], at, givenMean[size_t(at)] * momentum + mean[size_t(at)] * (1 - momentum));
    setReal(results[1], at, givenVariance[size_t(at)] * momentum + variance[size_t(at)] * (1 - momentum));
    setReal(results[2], at, mean[size_t(at)]);
    setReal(results[3], at, variance[size_t(at)]);
  }
  for (size_t i = 0; i < 4; ++i)
    call.set(i + 1, std::move(results[i]));
}

//===----------------------------------------------------------------------===//
// MeanVarianceNormalization, LpNormalization, LRN
//===----------------------------------------------------------------------===//

void evaluateMeanVarianceNormalization(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t rank = int64_t(x.shape.size());
  const std::vector<int64_t> axes = call.axes(call.intsAttr("axes", std::vector<int64_t>{0, 2, 3}), rank);
  HostTensor &y = call.output(0, x.type, x.shape);
  // Strides of sums: 0 along what is summed.
  Shape sums = x.shape;
  for (int64_t axis : axes)
    if (axis < rank)
      sums[size_t(axis)] = 1;
  const Shape strides = broadcastStrides(sums, x.shape);
  std::vector<double> mean(size_t(countOf(sums))), square(mean.size());
  const double count = mean.empty() ? 1 : double(countOf(x)) / double(mean.size());
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        using Place = const std::array<int64_t, 1> &;
        Widened<T> from(x);
        Narrowed<T> to(y);
        walk<1>(x.shape, {strides}, [&](int64_t i, Place at) { mean[size_t(at[0])] += double(from[i]) / count; });
        walk<1>(x.shape, {strides}, [&](int64_t i, Place at) {
          const double distance = double(from[i]) - mean[size_t(at[0])];
          square[size_t(at[0])] += distance * distance / count;
        });
        // source: ONNX, operator MeanVarianceNormalization, body of the function.
        walk<1>(x.shape, {strides}, [&](int64_t i, Place at) {
          to[i] = Computed<T>((double(from[i]) - mean[size_t(at[0])]) / (std::sqrt(square[size_t(at[0])]) + 1e-9));
        });
      }))
    failType(call, 0, x);
}

void evaluateLpNormalization(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 1);
  const int64_t p = call.intAttr("p", 2);
  if (p != 1 && p != 2)
    call.fail("p is " + std::to_string(p) + ", expected 1 or 2");
  const AroundAxis around(x.shape, call.axis(call.intAttr("axis", -1), int64_t(x.shape.size())));
  HostTensor &y = call.output(0, x.type, x.shape);
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T> from(x);
        Narrowed<T> to(y);
        for (int64_t outer = 0; outer < around.outer; ++outer)
          for (int64_t inner = 0; inner < around.inner; ++inner) {
            const int64_t base = outer * around.count * around.inner + inner;
            double norm = 0;
            for (int64_t i = 0; i < around.count; ++i) {
              const double each = from[base + i * around.inner];
              norm += p == 1 ? std::fabs(each) : each * each;
            }
            norm = p == 1 ? norm : std::sqrt(norm);
            // Zeros stay zeros.
            for (int64_t i = 0; i < around.count; ++i)
              to[base + i * around.inner] = norm == 0 ? 0 : Computed<T>(double(from[base + i * around.inner]) / norm);
          }
      }))
    failType(call, 0, x);
}

void evaluateLrn(Call &call) {
  const HostTensor &x = call.input(0);
  const Channels dims = channelsOf(call, x);
  const int64_t size = call.intAttr("size");
  if (size < 1)
    call.fail("size is " + std::to_string(size) + ", expected at least 1");
  const double alpha = call.floatAttr("alpha", 1e-4f), beta = call.floatAttr("beta", 0.75f),
               bias = call.floatAttr("bias", 1.0f);
  HostTensor &y = call.output(0, x.type, x.shape);
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T> from(x);
        Narrowed<T> to(y);
        std::vector<double> sums(size_t(dims.inner));
        for (int64_t n = 0; n < dims.batch; ++n)
          for (int64_t channel = 0; channel < dims.channels; ++channel) {
            // Beyond what is there, however long the region.
            const int64_t first = channel - std::min(channel, (size - 1) / 2);
            const int64_t last = channel + std::min(dims.channels - 1 - channel, size / 2);
            std::fill(sums.begin(), sums.end(), 0.0);
            for (int64_t c = first; c <= last; ++c)
              for (int64_t i = 0; i < dims.inner; ++i) {
                const double each = from[(n * dims.channels + c) * dims.inner + i];
                sums[size_t(i)] += each * each;
              }
            for (int64_t i = 0; i < dims.inner; ++i) {
              const int64_t at = (n * dims.channels + channel) * dims.inner + i;
              to[at] = Computed<T>(double(from[at]) / std::pow(bias + alpha / double(size) * sums[size_t(i)], beta));
            }
          }
      }))
    failType(call, 0, x);
}

} // namespace

void operators::addNormalisation(Table &table) {
  table[":LayerNormalization"].evaluate = evaluateLayerNormalization<true>;
  table[":RMSNormalization"].evaluate = evaluateLayerNormalization<false>;
  table[":GroupNormalization"].evaluate = evaluateGroupNormalization;
  table[":InstanceNormalization"].evaluate = evaluateInstanceNormalization;
  table[":BatchNormalization"].evaluate = evaluateBatchNormalization;
  table[":MeanVarianceNormalization"].evaluate = evaluateMeanVarianceNormalization;
  table[":LpNormalization"].evaluate = evaluateLpNormalization;
  table[":LRN"].evaluate = evaluateLrn;
}
