//===- Recurrent.cpp - RNN, GRU, LSTM, LinearAttention --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX, operators RNN, GRU, LSTM, LinearAttention
//===----------------------------------------------------------------------===//
#include "compiler/operators/Recurrent.h"
#include "compiler/operators/Attention.h"
#include "compiler/operators/Reals.h"

using namespace tw;
using namespace tw::operators;

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

using Kind = RecurrentActivation::Kind;

namespace {
struct Activation : RecurrentActivation {
  template <typename T> T operator()(T x) const {
    const T a = T(alpha), b = T(beta);
    switch (kind) {
    case Kind::Affine:
      return a * x + b;
    case Kind::Elu:
      return x >= 0 ? x : a * std::expm1(x);
    case Kind::HardSigmoid:
      return std::min(std::max(a * x + b, T(0)), T(1));
    case Kind::LeakyRelu:
      return x >= 0 ? x : a * x;
    case Kind::Relu:
      return std::max(x, T(0));
    case Kind::ScaledTanh:
      return a * std::tanh(b * x);
    case Kind::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case Kind::Softplus:
      return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
    case Kind::Softsign:
      return x / (1 + std::abs(x));
    case Kind::Tanh:
      return std::tanh(x);
    case Kind::ThresholdedRelu:
      return x >= a ? x : 0;
    }
    return x;
  }
};

struct NamedFunction {
  const char *name;
  Kind kind;
  bool takesAlpha, takesBeta;
  double alpha, beta;
};
} // namespace

static const NamedFunction kFunctions[] = {
    {"affine", Kind::Affine, true, true, 1, 0},
    {"elu", Kind::Elu, true, false, 1, 0},
    {"hardsigmoid", Kind::HardSigmoid, true, true, 0.2f, 0.5f},
    {"leakyrelu", Kind::LeakyRelu, true, false, 0.01f, 0},
    {"relu", Kind::Relu, false, false, 0, 0},
    {"scaledtanh", Kind::ScaledTanh, true, true, 1, 1},
    {"sigmoid", Kind::Sigmoid, false, false, 0, 0},
    {"softplus", Kind::Softplus, false, false, 0, 0},
    {"softsign", Kind::Softsign, false, false, 0, 0},
    {"tanh", Kind::Tanh, false, false, 0, 0},
    {"thresholdedrelu", Kind::ThresholdedRelu, true, false, 1, 0},
};

std::vector<RecurrentActivation> operators::recurrentActivations(std::vector<std::string> given,
                                                                 const std::vector<std::string> &defaults, int64_t directions,
                                                                 const std::vector<float> &alphas,
                                                                 const std::vector<float> &betas) {
  if (given.empty())
    for (int64_t d = 0; d < directions; ++d)
      given.insert(given.end(), defaults.begin(), defaults.end());
  if (const size_t count = defaults.size() * size_t(directions); given.size() != count)
    throw Error{"activations has " + std::to_string(given.size()) + " names, expected " + std::to_string(count)};
  size_t alpha = 0, beta = 0;
  std::vector<RecurrentActivation> activations;
  for (std::string name : given) {
    for (char &c : name)
      c = char(std::tolower(static_cast<unsigned char>(c)));
    const NamedFunction *found = nullptr;
    for (const NamedFunction &each : kFunctions)
      if (name == each.name)
        found = &each;
    if (!found)
      throw Error{"activation \"" + name + "\" is not known"};
    RecurrentActivation made{found->kind, found->alpha, found->beta};
    if (found->takesAlpha && alpha < alphas.size())
      made.alpha = alphas[alpha++];
    if (found->takesBeta && beta < betas.size())
      made.beta = betas[beta++];
    activations.push_back(made);
  }
  return activations;
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

namespace {
/// Sizes and flags that the three layers share.
struct Layer {
  int64_t steps, batch, inputs, hidden, directions, gates;
  bool isBatchFirst;
  std::vector<bool> reversed;
  /// Steps of each sequence of the batch.
  std::vector<int64_t> lengths;
  std::vector<Activation> activations;
  double clip;
};

/// What one direction computes with.
template <typename T> struct Direction {
  /// W and R turned: [inputs, gates * hidden] and [hidden, gates * hidden]; their biases, [gates * hidden] each.
  std::vector<T> w, r, wb, rb;
  const Activation *activations;
};
} // namespace

static Layer readLayer(const Call &call, const RecurrentWeights &weights, int64_t gates,
                       const std::vector<std::string> &names) {
  Layer layer;
  const HostTensor &x = call.input(0);
  requireShape(call, x, "X", {-1, -1, -1});
  const std::string direction = call.stringAttr("direction", "forward");
  if (direction == "bidirectional")
    layer.reversed = {false, true};
  else if (direction == "forward" || direction == "reverse")
    layer.reversed = {direction == "reverse"};
  else
    call.fail("direction is \"" + direction + "\", expected forward, reverse or bidirectional");
  const int64_t layout = call.intAttr("layout", 0);
  if (layout != 0 && layout != 1)
    call.fail("layout is " + std::to_string(layout) + ", expected 0 or 1");
  layer.isBatchFirst = layout == 1;
  layer.steps = x.shape[layer.isBatchFirst ? 1 : 0];
  layer.batch = x.shape[layer.isBatchFirst ? 0 : 1];
  layer.inputs = x.shape[2];
  layer.directions = int64_t(layer.reversed.size());
  layer.gates = gates;
  requireShape(call, weights.r, "R", {layer.directions, -1, -1});
  layer.hidden = weights.r.shape[2];
  if (const int64_t given = call.intAttr("hidden_size", layer.hidden); given != layer.hidden)
    call.fail("hidden_size is " + std::to_string(given) + ", R has shape " + textOf(weights.r.shape));
  requireShape(call, weights.r, "R", {layer.directions, gates * layer.hidden, layer.hidden});
  requireShape(call, weights.w, "W", {layer.directions, gates * layer.hidden, layer.inputs});
  if (call.has(3))
    requireShape(call, call.input(3), "B", {layer.directions, 2 * gates * layer.hidden});
  layer.lengths.assign(size_t(layer.batch), layer.steps);
  if (call.has(4)) {
    requireShape(call, call.input(4), "sequence_lens", {layer.batch});
    layer.lengths = call.ints(4);
    for (int64_t length : layer.lengths)
      if (length < 0 || length > layer.steps)
        call.fail("sequence_lens has " + std::to_string(length) + ", X has " + std::to_string(layer.steps) + " steps");
  }
  for (const RecurrentActivation &each : recurrentActivations(
           call.stringsAttr("activations", std::vector<std::string>()), names, layer.directions,
           call.floatsAttr("activation_alpha", std::vector<float>()), call.floatsAttr("activation_beta", std::vector<float>())))
    layer.activations.push_back({each});
  layer.clip = call.hasAttr("clip") ? double(call.floatAttr("clip")) : 0;
  if (layer.clip < 0)
    call.fail("clip is " + std::to_string(layer.clip) + ", expected at least 0");
  return layer;
}

/// A state in, [directions, batch, hidden] or with the batch first; zeros if input `i` is left out.
template <typename T> static std::vector<T> readState(const Call &call, const Layer &layer, size_t i, const char *name) {
  if (!call.has(i))
    return zeros<T>({layer.directions, layer.batch, layer.hidden});
  const HostTensor &x = call.input(i);
  if (!layer.isBatchFirst) {
    requireShape(call, x, name, {layer.directions, layer.batch, layer.hidden});
    return realsOf<T>(x);
  }
  requireShape(call, x, name, {layer.batch, layer.directions, layer.hidden});
  return realsOf<T>(transposed(x, {1, 0, 2}));
}

template <typename T>
static void writeState(Call &call, const Layer &layer, size_t i, ElementKind kind, const std::vector<T> &state) {
  HostTensor y = tensorOf(state, kind, {layer.directions, layer.batch, layer.hidden});
  call.set(i, layer.isBatchFirst ? transposed(y, {1, 0, 2}) : std::move(y));
}

/// Runs the layer. `cell(direction, xw, h, c)`: one step of one sequence; xw = x * W without bias, [gates, hidden], it may be overwritten; h and
/// c, [hidden], are the states before and behind it.
template <typename T, typename Cell>
static void runLayer(Call &call, const RecurrentWeights &weights, const Layer &layer, bool hasCellState, Cell &&cell) {
  const ElementKind kind = call.input(0).type;
  const int64_t hidden = layer.hidden, width = layer.gates * hidden, batch = layer.batch;
  std::vector<T> x = realsOf<T>(layer.isBatchFirst ? transposed(call.input(0), {1, 0, 2}) : call.input(0));
  if constexpr (std::is_same_v<T, float>)
    if (weights.round)
      weights.round(x.data(), int64_t(x.size()));
  const std::vector<T> w = realsOf<T>(weights.w), r = realsOf<T>(weights.r);
  std::vector<T> bias = zeros<T>({layer.directions, 2 * width});
  if (call.has(3))
    bias = realsOf<T>(call.input(3));
  std::vector<T> h = readState<T>(call, layer, 5, "initial_h"), c(h.size());
  if (hasCellState)
    c = readState<T>(call, layer, 6, "initial_c");
  std::vector<T> y = zeros<T>({layer.steps, layer.directions, batch, hidden});
  for (int64_t d = 0; d < layer.directions; ++d) {
    Direction<T> direction;
    direction.w = turned(w.data() + d * width * layer.inputs, width, layer.inputs);
    direction.r = turned(r.data() + d * width * hidden, width, hidden);
    direction.wb.assign(bias.begin() + d * 2 * width, bias.begin() + d * 2 * width + width);
    direction.rb.assign(bias.begin() + d * 2 * width + width, bias.begin() + (d + 1) * 2 * width);
    direction.activations = layer.activations.data() + d * int64_t(layer.activations.size()) / layer.directions;
    std::vector<T> xw(static_cast<size_t>(width));
    for (int64_t step = 0; step < layer.steps; ++step)
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t length = layer.lengths[size_t(b)];
        if (step >= length)
          continue;
        const int64_t t = layer.reversed[size_t(d)] ? length - 1 - step : step;
        std::fill(xw.begin(), xw.begin() + width, T(0));
        multiplyAdd(1, width, layer.inputs, x.data() + (t * batch + b) * layer.inputs, direction.w.data(), xw.data());
        T *state = h.data() + (d * batch + b) * hidden;
        cell(d, direction, xw.data(), state, c.data() + (d * batch + b) * hidden);
        std::copy_n(state, hidden, y.data() + ((t * layer.directions + d) * batch + b) * hidden);
      }
  }
  if (call.wants(0)) {
    HostTensor all = tensorOf(y, kind, {layer.steps, layer.directions, batch, hidden});
    call.set(0, layer.isBatchFirst ? transposed(all, {2, 0, 1, 3}) : std::move(all));
  }
  writeState(call, layer, 1, kind, h);
  if (hasCellState)
    writeState(call, layer, 2, kind, c);
}

/// Bounds the input of an activation.
template <typename T> static T clipped(const Layer &layer, T x) {
  return layer.clip > 0 ? std::min(std::max(x, T(-layer.clip)), T(layer.clip)) : x;
}

static void evaluateRnn(Call &call) {
  const RecurrentWeights weights{call.input(1), call.input(2)};
  const Layer layer = readLayer(call, weights, 1, {"Tanh"});
  visitReal(call.input(0).type, [&](auto zero) {
    using T = decltype(zero);
    const int64_t hidden = layer.hidden;
    runLayer<T>(call, weights, layer, false, [&](int64_t, const Direction<T> &direction, T *xw, T *h, T *) {
      multiplyAdd(1, hidden, hidden, h, direction.r.data(), xw);
      for (int64_t j = 0; j < hidden; ++j)
        h[j] = direction.activations[0](clipped(layer, xw[j] + direction.wb[size_t(j)] + direction.rb[size_t(j)]));
    });
  });
}

/// Gates z, r, h.
static void evaluateGru(Call &call) {
  const RecurrentWeights weights{call.input(1), call.input(2)};
  const Layer layer = readLayer(call, weights, 3, {"Sigmoid", "Tanh"});
  const bool isLinearBefore = call.flagAttr("linear_before_reset", false);
  visitReal(call.input(0).type, [&](auto zero) {
    using T = decltype(zero);
    const int64_t hidden = layer.hidden, width = 3 * hidden;
    std::vector<T> hr(static_cast<size_t>(width)), reset(static_cast<size_t>(hidden));
    runLayer<T>(call, weights, layer, false, [&](int64_t, const Direction<T> &direction, T *xw, T *h, T *) {
      const Activation &f = direction.activations[0], &g = direction.activations[1];
      std::copy(direction.rb.begin(), direction.rb.end(), hr.begin());
      multiplyAdd(1, width, hidden, h, direction.r.data(), hr.data());
      for (int64_t j = 0; j < width; ++j)
        xw[j] += direction.wb[size_t(j)];
      T *z = xw, *r = xw + hidden, *candidate = xw + 2 * hidden;
      for (int64_t j = 0; j < hidden; ++j) {
        z[j] = f(clipped(layer, z[j] + hr[size_t(j)]));
        r[j] = f(clipped(layer, r[j] + hr[size_t(hidden + j)]));
      }
      if (isLinearBefore) {
        for (int64_t j = 0; j < hidden; ++j)
          candidate[j] += r[j] * hr[size_t(2 * hidden + j)];
      } else {
        for (int64_t j = 0; j < hidden; ++j) {
          candidate[j] += direction.rb[size_t(2 * hidden + j)];
          reset[size_t(j)] = r[j] * h[j];
        }
        for (int64_t k = 0; k < hidden; ++k)
          for (int64_t j = 0; j < hidden; ++j)
            candidate[j] += reset[size_t(k)] * direction.r[size_t(k * width + 2 * hidden + j)];
      }
      for (int64_t j = 0; j < hidden; ++j)
        h[j] = (1 - z[j]) * g(clipped(layer, candidate[j])) + z[j] * h[j];
    });
  });
}

/// Gates i, o, f, c; peepholes i, o, f.
void operators::evaluateLstmWith(Call &call, const RecurrentWeights &weights) {
  const Layer layer = readLayer(call, weights, 4, {"Sigmoid", "Tanh", "Tanh"});
  const bool isCoupled = call.flagAttr("input_forget", false);
  const int64_t hidden = layer.hidden, width = 4 * hidden;
  if (call.has(7))
    requireShape(call, call.input(7), "P", {layer.directions, 3 * hidden});
  visitReal(call.input(0).type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> peepholes = zeros<T>({layer.directions, 3 * hidden}), state(static_cast<size_t>(hidden));
    if (call.has(7))
      peepholes = realsOf<T>(call.input(7));
    runLayer<T>(call, weights, layer, true, [&](int64_t d, const Direction<T> &direction, T *xw, T *h, T *c) {
      const Activation &f = direction.activations[0], &g = direction.activations[1], &last = direction.activations[2];
      const T *p = peepholes.data() + d * 3 * hidden;
      std::copy_n(h, hidden, state.begin());
      if constexpr (std::is_same_v<T, float>)
        if (weights.round)
          weights.round(state.data(), hidden);
      multiplyAdd(1, width, hidden, state.data(), direction.r.data(), xw);
      for (int64_t j = 0; j < width; ++j)
        xw[j] += direction.wb[size_t(j)] + direction.rb[size_t(j)];
      for (int64_t j = 0; j < hidden; ++j) {
        const T in = f(clipped(layer, xw[j] + p[j] * c[j]));
        const T forget = isCoupled ? 1 - in : f(clipped(layer, xw[2 * hidden + j] + p[2 * hidden + j] * c[j]));
        c[j] = forget * c[j] + in * g(clipped(layer, xw[3 * hidden + j]));
        const T out = f(clipped(layer, xw[hidden + j] + p[hidden + j] * c[j]));
        h[j] = out * last(clipped(layer, c[j]));
      }
    });
  });
}

static void evaluateLstm(Call &call) { evaluateLstmWith(call, {call.input(1), call.input(2)}); }

//===----------------------------------------------------------------------===//
// LinearAttention
//===----------------------------------------------------------------------===//

/// A state S, [keys, values], of each head of keys: S = exp(decay) * S + k * u, y = scale * q * S; u is v, or with a delta rule
/// beta * (v - k * S).
static void evaluateLinearAttention(Call &call) {
  const HostTensor &query = call.input(0), &key = call.input(1), &value = call.input(2);
  if (call.intAttr("state_window", 0) != 0)
    call.fail("state_window is not 0, which is not supported");
  requireShape(call, query, "query", {-1, -1, -1});
  const int64_t batch = query.shape[0], steps = query.shape[1];
  const int64_t heads = headsAttr(call, "q_num_heads"), kvHeads = headsAttr(call, "kv_num_heads");
  requireShape(call, key, "key", {batch, steps, -1});
  requireShape(call, value, "value", {batch, steps, -1});
  if (heads < 1 || kvHeads < 1 || heads % kvHeads || query.shape[2] % heads || value.shape[2] % kvHeads)
    call.fail("query and value of shapes " + textOf(query.shape) + " and " + textOf(value.shape) + " cannot have " +
              std::to_string(heads) + " and " + std::to_string(kvHeads) + " heads");
  const int64_t size = query.shape[2] / heads, valueSize = value.shape[2] / kvHeads, group = heads / kvHeads;
  requireShape(call, key, "key", {batch, steps, kvHeads * size});
  const std::string rule = call.stringAttr("update_rule", "gated_delta");
  const bool isGated = rule == "gated" || rule == "gated_delta", isDelta = rule == "delta" || rule == "gated_delta";
  if (!isGated && !isDelta && rule != "linear")
    call.fail("update_rule is \"" + rule + "\", expected linear, gated, delta or gated_delta");
  if (call.has(3))
    requireShape(call, call.input(3), "past_state", {batch, kvHeads, size, valueSize});
  int64_t decays = 0, betas = 0;
  if (isGated) {
    requireShape(call, call.input(4), "decay", {batch, steps, -1});
    decays = call.input(4).shape[2];
    if (decays != kvHeads && decays != kvHeads * size)
      call.fail("decay has shape " + textOf(call.input(4).shape) + ", expected " + std::to_string(kvHeads) + " or " +
                std::to_string(kvHeads * size) + " numbers for each step");
  }
  if (isDelta) {
    requireShape(call, call.input(5), "beta", {batch, steps, -1});
    betas = call.input(5).shape[2];
    if (betas != kvHeads && betas != 1)
      call.fail("beta has shape " + textOf(call.input(5).shape) + ", expected 1 or " + std::to_string(kvHeads) +
                " numbers for each step");
  }
  visitReal(query.type, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> q = realsOf<T>(query), k = realsOf<T>(key), v = realsOf<T>(value);
    const std::vector<T> decay = isGated ? realsOf<T>(call.input(4)) : std::vector<T>();
    const std::vector<T> beta = isDelta ? realsOf<T>(call.input(5)) : std::vector<T>();
    std::vector<T> states = zeros<T>({batch, kvHeads, size, valueSize});
    if (call.has(3))
      states = realsOf<T>(call.input(3));
    T scale = T(call.floatAttr("scale", 0.f));
    if (scale == 0)
      scale = 1 / std::sqrt(T(size));
    std::vector<T> y = zeros<T>({batch, steps, heads, valueSize}), update(static_cast<size_t>(valueSize));
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t t = 0; t < steps; ++t)
        for (int64_t h = 0; h < kvHeads; ++h) {
          const int64_t at = b * steps + t;
          const T *keys = k.data() + (at * kvHeads + h) * size, *values = v.data() + (at * kvHeads + h) * valueSize;
          T *state = states.data() + (b * kvHeads + h) * size * valueSize;
          if (isGated)
            for (int64_t i = 0; i < size; ++i) {
              const T factor = std::exp(decay[size_t(at * decays + (decays == kvHeads ? h : h * size + i))]);
              for (int64_t j = 0; j < valueSize; ++j)
                state[i * valueSize + j] *= factor;
            }
          std::copy_n(values, valueSize, update.begin());
          if (isDelta) {
            for (int64_t i = 0; i < size; ++i)
              for (int64_t j = 0; j < valueSize; ++j)
                update[size_t(j)] -= keys[i] * state[i * valueSize + j];
            const T factor = beta[size_t(at * betas + (betas == 1 ? 0 : h))];
            for (T &each : update)
              each *= factor;
          }
          for (int64_t i = 0; i < size; ++i)
            for (int64_t j = 0; j < valueSize; ++j)
              state[i * valueSize + j] += keys[i] * update[size_t(j)];
          for (int64_t head = h * group; head < (h + 1) * group; ++head) {
            T *row = y.data() + (at * heads + head) * valueSize;
            multiplyAdd(1, valueSize, size, q.data() + (at * heads + head) * size, state, row);
            for (int64_t j = 0; j < valueSize; ++j)
              row[j] *= scale;
          }
        }
    call.set(0, tensorOf(y, query.type, {batch, steps, heads * valueSize}));
    call.set(1, tensorOf(states, call.has(3) ? call.input(3).type : query.type, {batch, kvHeads, size, valueSize}));
  });
}

//===----------------------------------------------------------------------===//
// CausalConvWithState
//===----------------------------------------------------------------------===//

/// A convolution of each channel along time, of the kernel - 1 elements before it too: y = f(conv(past ++ x) + bias).
static void evaluateCausalConv(Call &call) {
  const HostTensor &x = call.input(0), &weight = call.input(1);
  requireShape(call, x, "input", {-1, -1, -1});
  const int64_t batch = x.shape[0], channels = x.shape[1], steps = x.shape[2];
  requireShape(call, weight, "weight", {channels, 1, -1});
  const int64_t kernel = weight.shape[2], past = kernel - 1;
  if (kernel < 1)
    call.fail("weight has shape " + textOf(weight.shape) + ", expected a kernel");
  if (call.has(2))
    requireShape(call, call.input(2), "bias", {channels});
  if (call.has(3))
    requireShape(call, call.input(3), "past_state", {batch, channels, past});
  const std::string activation = call.stringAttr("activation", "none");
  const bool isSilu = activation == "silu" || activation == "swish";
  if (!isSilu && activation != "none" && !activation.empty())
    call.fail("activation is \"" + activation + "\", expected none, silu or swish");
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> values = realsOf<T>(x), w = realsOf<T>(weight);
    std::vector<T> bias(static_cast<size_t>(channels)), state = zeros<T>({batch, channels, past}), y(values.size());
    if (call.has(2))
      bias = realsOf<T>(call.input(2));
    if (call.has(3))
      state = realsOf<T>(call.input(3));
    std::vector<T> line(size_t(past + steps));
    for (int64_t row = 0; row < batch * channels; ++row) {
      const int64_t channel = row % channels;
      std::copy_n(state.data() + row * past, past, line.data());
      std::copy_n(values.data() + row * steps, steps, line.data() + past);
      T *out = y.data() + row * steps;
      std::fill(out, out + steps, bias[size_t(channel)]);
      for (int64_t k = 0; k < kernel; ++k)
        for (int64_t i = 0; i < steps; ++i)
          out[i] += w[size_t(channel * kernel + k)] * line[size_t(i + k)];
      if (isSilu)
        for (int64_t i = 0; i < steps; ++i)
          out[i] /= 1 + std::exp(-out[i]);
      std::copy_n(line.data() + steps, past, state.data() + row * past);
    }
    call.set(0, tensorOf(y, x.type, x.shape));
    call.set(1, tensorOf(state, x.type, {batch, channels, past}));
  });
}

void operators::addRecurrent(Table &table) {
  table[":RNN"].evaluate = evaluateRnn;
  table[":GRU"].evaluate = evaluateGru;
  table[":LSTM"].evaluate = evaluateLstm;
  // ONNX took them over from ONNX Runtime.
  for (const char *domain : {":", "com.microsoft:"}) {
    table[std::string(domain) + "LinearAttention"].evaluate = evaluateLinearAttention;
    table[std::string(domain) + "CausalConvWithState"].evaluate = evaluateCausalConv;
  }
  addAttention(table);
}
