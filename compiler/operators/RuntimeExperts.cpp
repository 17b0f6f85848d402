//===- RuntimeExperts.cpp - Mixtures of experts of com.microsoft ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX Runtime, docs/ContribOperators.md, operators MoE and QMoE
//===----------------------------------------------------------------------===//
#include "compiler/operators/RuntimeDomain.h"

#include <functional>
#include <numeric>

using namespace tw;
using namespace tw::operators;

namespace {
/// A matrix [rows, columns] and perhaps a bias [rows] for each expert. The weights of one expert are made when it is needed.
struct Layer {
  int64_t rows = 0, columns = 0;
  std::function<std::vector<float>(int64_t expert)> weights;
  std::vector<float> bias;

  /// weights * x + bias.
  std::vector<float> apply(const std::vector<float> &matrix, int64_t expert, const float *x) const {
    std::vector<float> y(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
      float sum = bias.empty() ? 0 : bias[size_t(expert * rows + i)];
      for (int64_t j = 0; j < columns; ++j)
        sum += matrix[size_t(i * columns + j)] * x[j];
      y[size_t(i)] = sum;
    }
    return y;
  }
};

/// What happens between the layers of an expert.
struct Activation {
  explicit Activation(const Call &call)
      : name(call.stringAttr("activation_type", "relu")), alpha(call.floatAttr("activation_alpha", 1.f)),
        beta(call.floatAttr("activation_beta", 0.f)),
        limit(call.floatAttr("swiglu_limit", std::numeric_limits<float>::infinity())),
        fusion(call.intAttr("swiglu_fusion", 0)) {
    if (name != "relu" && name != "gelu" && name != "silu" && name != "swiglu" && name != "identity")
      call.fail("activation_type is \"" + name + "\", expected relu, gelu, silu, swiglu or identity");
    if (fusion < 0 || fusion > 2)
      call.fail("swiglu_fusion is " + std::to_string(fusion) + ", expected 0, 1 or 2");
  }

  /// Whether the first layer holds gates and linear parts.
  bool isFused() const { return name == "swiglu" && fusion != 0; }
  /// Of a gate and what it multiplies.
  float gated(float gate, float linear) const {
    if (name != "swiglu")
      return (*this)(gate)*linear;
    gate = std::min(gate, limit);
    linear = std::min(std::max(linear, -limit), limit);
    return gate / (1 + std::exp(-alpha * gate)) * (linear + beta);
  }
  float operator()(float x) const {
    if (name == "relu")
      return std::max(x, 0.f);
    if (name == "gelu")
      return fastGelu(x);
    return name == "silu" ? x / (1 + std::exp(-x)) : x;
  }
  /// Of the result of a fused first layer: gates and linear parts alternate, or the gates stand in front.
  std::vector<float> apply(const std::vector<float> &x) const {
    std::vector<float> y(x.size() / 2);
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = fusion == 1 ? gated(x[2 * i], x[2 * i + 1]) : gated(x[i], x[y.size() + i]);
    return y;
  }

  std::string name;
  float alpha, beta, limit;
  int64_t fusion;
};

/// A token that an expert gets, and the weight of what it makes of it.
struct Route {
  int64_t token;
  float weight;
};
} // namespace

/// For each expert its tokens: the `k` experts of the largest probability, the first of equal ones. Weights are the probabilities, or those of input
/// `weightsAt`; with normalize_routing_weights they sum to 1.
static std::vector<std::vector<Route>> routesOf(const Call &call, int64_t tokens, size_t weightsAt) {
  const HostTensor &logits = call.input(1);
  requireShape(call, logits, "router_probs", {tokens, -1});
  const int64_t experts = logits.shape[1], k = call.intAttr("k", 1);
  if (k < 1 || k > experts)
    call.fail("k is " + std::to_string(k) + ", there are " + std::to_string(experts) + " experts");
  if (call.flagAttr("use_sparse_mixer", false))
    call.fail("use_sparse_mixer is 1, which is not supported");
  std::vector<float> scores = realsOf<float>(logits), given;
  if (call.has(weightsAt)) {
    requireShape(call, call.input(weightsAt), "router_weights", logits.shape);
    given = realsOf<float>(call.input(weightsAt));
  }
  const bool isNormalized = call.flagAttr("normalize_routing_weights", false);
  std::vector<std::vector<Route>> routes(static_cast<size_t>(experts));
  std::vector<int64_t> order(static_cast<size_t>(experts));
  for (int64_t token = 0; token < tokens; ++token) {
    float *row = scores.data() + token * experts;
    softmaxRow(row, experts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return row[a] > row[b]; });
    const float *weights = given.empty() ? row : given.data() + token * experts;
    float sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += weights[order[size_t(i)]];
    for (int64_t i = 0; i < k; ++i)
      if (const int64_t expert = order[size_t(i)]; weights[expert] != 0)
        routes[size_t(expert)].push_back({token, isNormalized ? weights[expert] / sum : weights[expert]});
  }
  return routes;
}

/// Where a node has its inputs: weights and biases of the layers.
struct ExpertInputs {
  size_t first, firstBias, second, secondBias, third, thirdBias, routerWeights;
};

/// The bias of a layer for each expert, if the node has it.
static std::vector<float> biasOf(const Call &call, size_t at, const char *name, int64_t experts, int64_t rows) {
  if (!call.has(at))
    return {};
  requireShape(call, call.input(at), name, {experts, rows});
  return realsOf<float>(call.input(at));
}

using MakeLayer = std::function<Layer(size_t layer, int64_t experts, int64_t rows, int64_t columns)>;

/// y[token] = the sum of weight * second(activation(first(x[token]))) over its experts. The first layer has `weightRows` rows; `make` gives a layer.
static void mixExperts(Call &call, const ExpertInputs &inputs, int64_t weightRows, const MakeLayer &make) {
  const HostTensor &x = call.input(0);
  visitReal(x.type, [](auto) {});
  if (x.shape.size() != 2 && x.shape.size() != 3)
    call.fail("input has shape " + textOf(x.shape) + ", expected rank 2 or 3");
  const int64_t hidden = x.shape.back(), tokens = countOf(Shape(x.shape.begin(), x.shape.end() - 1));
  const Activation activation(call);
  const std::vector<std::vector<Route>> routes = routesOf(call, tokens, inputs.routerWeights);
  const int64_t experts = int64_t(routes.size()), inner = activation.isFused() ? weightRows / 2 : weightRows;
  if (activation.isFused() && weightRows % 2)
    call.fail("fc1_experts_weights has " + std::to_string(weightRows) + " rows, which are no gates and linear parts");
  const bool isGated = call.has(inputs.third);
  if (activation.name == "swiglu" && isGated == activation.isFused())
    call.fail(isGated ? "fc3_experts_weights is given with a fused swiglu"
                      : "swiglu_fusion is 0 and there is no fc3_experts_weights");
  Layer first = make(0, experts, weightRows, hidden), second = make(1, experts, hidden, inner), third;
  first.bias = biasOf(call, inputs.firstBias, "fc1_experts_bias", experts, weightRows);
  second.bias = biasOf(call, inputs.secondBias, "fc2_experts_bias", experts, hidden);
  if (isGated) {
    third = make(2, experts, inner, hidden);
    third.bias = biasOf(call, inputs.thirdBias, "fc3_experts_bias", experts, inner);
  }
  const std::vector<float> values = realsOf<float>(x);
  std::vector<float> y(values.size());
  for (int64_t expert = 0; expert < experts; ++expert) {
    if (routes[size_t(expert)].empty())
      continue;
    const std::vector<float> a = first.weights(expert), b = second.weights(expert),
                             c = isGated ? third.weights(expert) : std::vector<float>();
    for (const Route &route : routes[size_t(expert)]) {
      const float *token = values.data() + route.token * hidden;
      std::vector<float> between = first.apply(a, expert, token);
      if (activation.isFused()) {
        between = activation.apply(between);
      } else if (isGated) {
        const std::vector<float> linear = third.apply(c, expert, token);
        for (size_t i = 0; i < between.size(); ++i)
          between[i] = activation.gated(between[i], linear[i]);
      } else {
        for (float &each : between)
          each = activation(each);
      }
      const std::vector<float> made = second.apply(b, expert, between.data());
      for (int64_t i = 0; i < hidden; ++i)
        y[size_t(route.token * hidden + i)] += route.weight * made[size_t(i)];
    }
  }
  call.set(0, tensorOf(y, x.type, x.shape));
}

static int64_t rowsOf(const Call &call, const HostTensor &weights) {
  requireShape(call, weights, "fc1_experts_weights", {-1, -1, -1});
  return weights.shape[1];
}

static const char *const kWeights[] = {"fc1_experts_weights", "fc2_experts_weights", "fc3_experts_weights"};

static void evaluateMoE(Call &call) {
  const ExpertInputs inputs{2, 3, 4, 5, 6, 7, call.numInputs()};
  const size_t places[] = {inputs.first, inputs.second, inputs.third};
  mixExperts(call, inputs, rowsOf(call, call.input(2)), [&](size_t layer, int64_t experts, int64_t rows, int64_t columns) {
    const HostTensor &weights = call.input(places[layer]);
    requireShape(call, weights, kWeights[layer], {experts, rows, columns});
    return Layer{rows,
                 columns,
                 [&weights, size = rows * columns](int64_t expert) {
                   return realsOf<float>(
                       sliceOf(reshaped(weights, {countOf(weights) / std::max<int64_t>(size, 1), size}), 0, expert, 1));
                 },
                 {}};
  });
}

/// Weights are (q - zero) * scale, of bits that lie packed along the columns; scales are those of rows, or of blocks of a row.
static void evaluateQMoE(Call &call) {
  const ExpertInputs inputs{2, 4, 5, 7, 8, 10, 14};
  if (const std::string type = call.stringAttr("quant_type", "int"); type != "int")
    call.fail("quant_type is \"" + type + "\", expected int");
  if (call.intAttr("weights_prepacked", -1) == 1)
    call.fail("weights_prepacked is 1, which is not supported");
  const int64_t bits = requireBits(call, call.intAttr("expert_weight_bits", 4)), perByte = 8 / bits,
                size = call.intAttr("block_size", 0);
  if (size < 0)
    call.fail("block_size is " + std::to_string(size) + ", expected at least 0");
  const size_t places[] = {inputs.first, inputs.second, inputs.third}, zeroPlaces[] = {11, 12, 13};
  mixExperts(call, inputs, rowsOf(call, call.input(2)), [&](size_t layer, int64_t experts, int64_t rows, int64_t columns) {
    const HostTensor &weights = call.input(places[layer]), &scales = call.input(places[layer] + 1);
    if (columns % perByte || (size && columns % size))
      call.fail(std::string(kWeights[layer]) + " has rows of " + std::to_string(columns) + " numbers, expected a multiple of " +
                std::to_string(size ? size : perByte));
    requireShape(call, weights, kWeights[layer], {experts, rows, columns / perByte});
    if (weights.type != ElementKind::U8)
      call.fail(std::string(kWeights[layer]) + " is of " + frontend::elementName(weights.type) + ", expected uint8");
    const int64_t blocks = size ? columns / size : 1;
    requireShape(call, scales, "a scale", size ? Shape{experts, rows, blocks} : Shape{experts, rows});
    const HostTensor *zeros = call.has(zeroPlaces[layer]) ? &call.input(zeroPlaces[layer]) : nullptr;
    if (zeros && (zeros->type != ElementKind::U8 || (size ? blocks : rows) % perByte))
      call.fail("zero points are of " + std::string(frontend::elementName(zeros->type)) + " for " +
                std::to_string(size ? blocks : rows) + " scales, expected uint8 and a multiple of " + std::to_string(perByte));
    if (zeros)
      requireShape(call, *zeros, "a zero point",
                   size ? Shape{experts, rows, blocks / perByte} : Shape{experts, rows / perByte});
    return Layer{rows,
                 columns,
                 [=, &weights, &scales](int64_t expert) {
                   std::vector<float> y = operators::zeros<float>({rows, columns});
                   for (int64_t i = 0; i < rows * columns; ++i) {
                     const int64_t scale = expert * rows * blocks + (size ? i / size : i / columns);
                     const int32_t q = packedAt(weights.bytes.data(), expert * rows * columns + i, bits);
                     const int32_t zero = zeros ? packedAt(zeros->bytes.data(), scale, bits) : 1 << (bits - 1);
                     y[size_t(i)] = float(q - zero) * float(realAt(scales, scale));
                   }
                   return y;
                 },
                 {}};
  });
}

void operators::addRuntimeExperts(Table &table) {
  table["com.microsoft:MoE"].evaluate = evaluateMoE;
  table["com.microsoft:QMoE"].evaluate = evaluateQMoE;
}
