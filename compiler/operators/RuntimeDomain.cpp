//===- RuntimeDomain.cpp - Operators of com.microsoft ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Those that ONNX Runtime's optimisers write, and old ones of ONNX's own
// domain. source: ONNX Runtime, docs/ContribOperators.md
//===----------------------------------------------------------------------===//
#include "compiler/operators/RuntimeDomain.h"

using namespace tw;
using namespace tw::operators;

//===----------------------------------------------------------------------===//
// Nodes of ONNX's own operators
//===----------------------------------------------------------------------===//

onnx::NodeProto operators::nodeLike(const Call &call, const char *type, std::initializer_list<const char *> names,
                                    int outputs) {
  onnx::NodeProto node;
  node.set_op_type(type);
  for (const char *name : names)
    if (const onnx::AttributeProto *attribute = call.attr(name))
      *node.add_attribute() = *attribute;
  for (int i = 0; i < outputs; ++i)
    node.add_output("y" + std::to_string(i));
  return node;
}

void operators::addInts(onnx::NodeProto &node, const char *name, const std::vector<int64_t> &values) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

void operators::addInt(onnx::NodeProto &node, const char *name, int64_t value) {
  onnx::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

std::vector<Value> operators::runOnnx(const Call &call, const onnx::NodeProto &node, int64_t opset, std::vector<Value> inputs) {
  const Operator *op = find("", node.op_type());
  if (!op)
    call.fail("it needs ONNX's operator " + node.op_type() + ", which is not supported");
  Call inner(node, opset, std::move(inputs));
  op->evaluate(inner);
  return inner.takeOutputs();
}

std::vector<Value> operators::inputsOf(const Call &call) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < call.numInputs(); ++i)
    inputs.push_back(call.value(i));
  return inputs;
}

HostTensor operators::channelsFirst(const HostTensor &x) {
  std::vector<int64_t> perm{0, int64_t(x.shape.size()) - 1};
  for (int64_t i = 1; i + 1 < int64_t(x.shape.size()); ++i)
    perm.push_back(i);
  return transposed(x, perm);
}

HostTensor operators::channelsLast(const HostTensor &x) {
  std::vector<int64_t> perm{0};
  for (int64_t i = 2; i < int64_t(x.shape.size()); ++i)
    perm.push_back(i);
  perm.push_back(1);
  return transposed(x, perm);
}

static void requireRankAtLeast(const Call &call, const HostTensor &x, size_t rank) {
  if (x.shape.size() < rank)
    call.fail("an input has shape " + textOf(x.shape) + ", expected at least rank " + std::to_string(rank));
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

/// `f` of each element, in float or double.
template <typename F> static void mapElements(Call &call, const HostTensor &x, F &&f) {
  visitReal(x.type, [&](auto zero) {
    std::vector<decltype(zero)> y = realsOf<decltype(zero)>(x);
    for (auto &each : y)
      each = f(each);
    call.set(0, tensorOf(y, x.type, x.shape));
  });
}

/// x[.., n] plus input `i`, [n], if the node has it.
template <typename T> static std::vector<T> withBias(const Call &call, const HostTensor &x, size_t i) {
  std::vector<T> y = realsOf<T>(x);
  if (!call.has(i))
    return y;
  requireRankAtLeast(call, x, 1);
  requireShape(call, call.input(i), "bias", {x.shape.back()});
  const std::vector<T> bias = realsOf<T>(call.input(i));
  for (size_t at = 0; at < y.size(); ++at)
    y[at] += bias[at % bias.size()];
  return y;
}

template <typename F> static void mapBiased(Call &call, F &&f) {
  const HostTensor &x = call.input(0);
  visitReal(x.type, [&](auto zero) {
    std::vector<decltype(zero)> y = withBias<decltype(zero)>(call, x, 1);
    for (auto &each : y)
      each = f(each);
    call.set(0, tensorOf(y, x.type, x.shape));
  });
}

static void evaluateGelu(Call &call) {
  mapElements(call, call.input(0), [](auto x) { return gelu(x); });
}
static void evaluateBiasGelu(Call &call) {
  call.input(1);
  mapBiased(call, [](auto x) { return gelu(x); });
}
static void evaluateFastGelu(Call &call) {
  mapBiased(call, [](auto x) { return fastGelu(x); });
}
static void evaluateQuickGelu(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.702f);
  mapElements(call, call.input(0), [&](auto x) { return x / (1 + std::exp(-decltype(x)(alpha) * x)); });
}

/// x + bias in two halves of the last dim: the first times gelu of the second.
static void evaluateBiasSplitGelu(Call &call) {
  const HostTensor &x = call.input(0);
  requireRankAtLeast(call, x, 1);
  call.input(1);
  if (x.shape.back() % 2)
    call.fail("X has shape " + textOf(x.shape) + ", which has no halves");
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> sum = withBias<T>(call, x, 1);
    const int64_t half = x.shape.back() / 2;
    Shape shape = x.shape;
    shape.back() = half;
    std::vector<T> y(sum.size() / 2);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t row = i / size_t(half), column = i % size_t(half), at = row * size_t(2 * half) + column;
      y[i] = sum[at] * gelu(sum[at + size_t(half)]);
    }
    call.set(0, tensorOf(y, x.type, shape));
  });
}

/// data + bias + residual, which nothing is dropped of, and with `isPacked` a bit for each element, else a bool.
static void inferDropout(Call &call, bool hasBias, bool isPacked) {
  const HostTensor &x = call.input(0);
  const size_t ratioAt = hasBias ? 3 : 1;
  if (call.has(ratioAt + 1) && call.intScalar(ratioAt + 1) && (!call.has(ratioAt) || call.realScalar(ratioAt) != 0))
    call.fail("training_mode is true, which is not supported");
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = realsOf<T>(x);
    for (size_t i : {1, 2}) {
      if (!hasBias || !call.has(i))
        continue;
      const HostTensor &added = call.input(i);
      if (broadcast(x.shape, added.shape) != x.shape)
        call.fail(std::string(i == 1 ? "bias" : "residual") + " has shape " + textOf(added.shape) +
                  ", expected one that broadcasts to " + textOf(x.shape));
      const std::vector<T> more = realsOf<T>(added);
      walk<1>(x.shape, {broadcastStrides(added.shape, x.shape)},
              [&](int64_t at, const std::array<int64_t, 1> &from) { y[size_t(at)] += more[size_t(from[0])]; });
    }
    call.set(0, tensorOf(y, x.type, x.shape));
  });
  const int64_t count = countOf(x);
  HostTensor mask = makeTensor(isPacked ? ElementKind::U32 : ElementKind::Bool, isPacked ? Shape{(count + 31) / 32} : x.shape);
  for (int64_t i = 0; i < count; ++i)
    if (isPacked)
      data<uint32_t>(mask)[i / 32] |= 1u << (i % 32);
    else
      data<Bool>(mask)[i] = true;
  call.set(1, std::move(mask));
}
static void evaluateBiasDropout(Call &call) { inferDropout(call, true, false); }
static void evaluateBitmaskBiasDropout(Call &call) { inferDropout(call, true, true); }
static void evaluateBitmaskDropout(Call &call) { inferDropout(call, false, true); }

static void evaluateBiasAdd(Call &call) {
  const HostTensor &x = call.input(0), &skip = call.input(2);
  call.input(1);
  requireShape(call, skip, "skip", x.shape);
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = withBias<T>(call, x, 1);
    const std::vector<T> more = realsOf<T>(skip);
    for (size_t i = 0; i < y.size(); ++i)
      y[i] += more[i];
    call.set(0, tensorOf(y, x.type, x.shape));
  });
}

/// Softmax of data + bias over all dims from the axis on.
static void evaluateBiasSoftmax(Call &call) {
  const HostTensor &x = call.input(0), &bias = call.input(1);
  const int64_t axis = call.axis(call.intAttr("axis", 1), int64_t(x.shape.size()));
  if (broadcast(x.shape, bias.shape) != x.shape)
    call.fail("bias has shape " + textOf(bias.shape) + ", expected one that broadcasts to " + textOf(x.shape));
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = realsOf<T>(x);
    const std::vector<T> added = realsOf<T>(bias);
    walk<1>(x.shape, {broadcastStrides(bias.shape, x.shape)},
            [&](int64_t i, const std::array<int64_t, 1> &at) { y[size_t(i)] += added[size_t(at[0])]; });
    const int64_t length = countOf(Shape(x.shape.begin() + std::min<int64_t>(axis, int64_t(x.shape.size())), x.shape.end()));
    for (int64_t i = 0; length > 0 && i < countOf(x) / length; ++i)
      softmaxRow(y.data() + i * length, length);
    call.set(0, tensorOf(y, x.type, x.shape));
  });
}

static void evaluateAffine(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.f), beta = call.floatAttr("beta", 0.f);
  mapElements(call, call.input(0), [&](auto x) { return decltype(x)(alpha) * x + decltype(x)(beta); });
}
static void evaluateParametricSoftplus(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.f), beta = call.floatAttr("beta", 1.f);
  mapElements(call, call.input(0), [&](auto x) {
    const auto y = decltype(x)(beta) * x;
    return decltype(x)(alpha) * (std::max(y, decltype(x)(0)) + std::log1p(std::exp(-std::abs(y))));
  });
}
static void evaluateScaledTanh(Call &call) {
  const float alpha = call.floatAttr("alpha", 1.f), beta = call.floatAttr("beta", 1.f);
  mapElements(call, call.input(0), [&](auto x) { return decltype(x)(alpha) * std::tanh(decltype(x)(beta) * x); });
}
static void evaluateImageScaler(Call &call) {
  const HostTensor &x = call.input(0);
  requireShape(call, x, "input", {-1, -1, -1, -1});
  const float scale = call.floatAttr("scale", 1.f);
  const std::vector<float> bias = call.floatsAttr("bias", std::vector<float>());
  if (!bias.empty() && int64_t(bias.size()) != x.shape[1])
    call.fail("bias has " + std::to_string(bias.size()) + " numbers, input has shape " + textOf(x.shape));
  visitReal(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = realsOf<T>(x);
    const int64_t area = x.shape[2] * x.shape[3];
    for (size_t i = 0; i < y.size(); ++i)
      y[i] = y[i] * T(scale) + (bias.empty() ? T(0) : T(bias[i / size_t(area) % bias.size()]));
    call.set(0, tensorOf(y, x.type, x.shape));
  });
}

//===----------------------------------------------------------------------===//
// Fused products
//===----------------------------------------------------------------------===//

namespace {
/// An activation by its name, with parameters; an empty name changes nothing.
struct Fused {
  std::string name;
  double a = 0, b = 0;

  template <typename T> T operator()(T x) const {
    if (name.empty())
      return x;
    if (name == "Relu")
      return std::max(x, T(0));
    if (name == "Tanh")
      return std::tanh(x);
    if (name == "Sigmoid")
      return 1 / (1 + std::exp(-x));
    if (name == "LeakyRelu")
      return x >= 0 ? x : T(a) * x;
    if (name == "Clip")
      return std::min(std::max(x, T(a)), T(b));
    if (name == "HardSigmoid")
      return std::min(std::max(T(a) * x + T(b), T(0)), T(1));
    if (name == "HardSwish")
      return x * std::min(std::max(T(1) / 6 * x + T(0.5), T(0)), T(1));
    if (name == "Gelu")
      return gelu(x);
    throw Error{"activation \"" + name + "\" is not known"};
  }
};
} // namespace

static Fused fusedOf(const std::string &name, const std::vector<float> &params) {
  Fused fused{name};
  const double a = params.size() > 0 ? double(params[0]) : NAN, b = params.size() > 1 ? double(params[1]) : NAN;
  const double infinity = std::numeric_limits<double>::infinity();
  if (name == "LeakyRelu")
    fused.a = a == a ? a : double(0.01f);
  else if (name == "Clip") {
    fused.a = a == a ? a : -infinity;
    fused.b = b == b ? b : infinity;
  } else if (name == "HardSigmoid") {
    fused.a = a == a ? a : double(0.2f);
    fused.b = b == b ? b : 0.5;
  }
  return fused;
}

static Fused readFused(const Call &call) {
  std::vector<float> params = call.floatsAttr("activation_params", std::vector<float>());
  for (const char *name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (call.hasAttr(name))
      params.push_back(call.floatAttr(name));
  return fusedOf(call.stringAttr("activation", ""), params);
}

HostTensor operators::matmul(const Call &call, const HostTensor &a, const HostTensor &b) {
  if (a.shape.empty() || b.shape.empty())
    call.fail("a factor of a matrix product is a scalar");
  Shape left = a.shape, right = b.shape;
  if (left.size() == 1)
    left.insert(left.begin(), 1);
  if (right.size() == 1)
    right.push_back(1);
  const int64_t m = left[left.size() - 2], k = left.back(), n = right.back();
  if (right[right.size() - 2] != k)
    call.fail("matrices of shapes " + textOf(a.shape) + " and " + textOf(b.shape) + " have no product");
  const Shape leftBatch(left.begin(), left.end() - 2), rightBatch(right.begin(), right.end() - 2);
  const Shape batch = broadcast(leftBatch, rightBatch);
  Shape shape = batch;
  if (a.shape.size() > 1)
    shape.push_back(m);
  if (b.shape.size() > 1)
    shape.push_back(n);
  HostTensor y = makeTensor(a.type, shape);
  visitReal(a.type, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> x = realsOf<T>(a), w = realsOf<T>(b);
    std::vector<T> sums(static_cast<size_t>(countOf(shape)));
    walk<2>(batch, {broadcastStrides(leftBatch, batch), broadcastStrides(rightBatch, batch)},
            [&](int64_t i, const std::array<int64_t, 2> &at) {
              multiplyAdd(m, n, k, x.data() + at[0] * m * k, w.data() + at[1] * k * n, sums.data() + i * m * n);
            });
    store(sums, y);
  });
  return y;
}

/// With its last two dims exchanged, if `matrix`, and before that, if `batch`, with its first dim behind its batch dims.
static HostTensor turnedFactor(const HostTensor &x, bool matrix, bool batch) {
  const int64_t rank = int64_t(x.shape.size());
  if (rank < 2 || (!matrix && !batch))
    return x;
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < rank; ++i)
    perm.push_back(i);
  // [.., m, k] is stored as [m, .., k].
  if (batch)
    std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (matrix)
    std::swap(perm[size_t(rank - 2)], perm[size_t(rank - 1)]);
  return transposed(x, perm);
}

static HostTensor scaledProduct(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  call.requireSameType(a, b);
  HostTensor y = matmul(call, turnedFactor(a, call.flagAttr("transA", false), call.flagAttr("transBatchA", false)),
                        turnedFactor(b, call.flagAttr("transB", false), call.flagAttr("transBatchB", false)));
  const float alpha = call.floatAttr("alpha", 1.f);
  if (alpha != 1)
    for (int64_t i = 0; i < countOf(y); ++i)
      setReal(y, i, realAt(y, i) * double(alpha));
  return y;
}
static void evaluateFusedMatMul(Call &call) { call.set(0, scaledProduct(call)); }
static void evaluateFusedMatMulActivation(Call &call) {
  const Fused fused = readFused(call);
  mapElements(call, scaledProduct(call), fused);
}

/// activation(alpha * A * B + beta * C).
static void evaluateFusedGemm(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  call.requireSameType(a, b);
  requireShape(call, a, "A", {-1, -1});
  requireShape(call, b, "B", {-1, -1});
  const Fused fused = readFused(call);
  const HostTensor product = matmul(call, turnedFactor(a, call.flagAttr("transA", false), false),
                                    turnedFactor(b, call.flagAttr("transB", false), false));
  const float alpha = call.floatAttr("alpha", 1.f), beta = call.floatAttr("beta", 1.f);
  visitReal(a.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> y = realsOf<T>(product);
    for (T &each : y)
      each *= T(alpha);
    if (call.has(2) && beta != 0) {
      const HostTensor &c = call.input(2);
      if (broadcast(c.shape, product.shape) != product.shape)
        call.fail("C has shape " + textOf(c.shape) + ", expected one that broadcasts to " + textOf(product.shape));
      const std::vector<T> added = realsOf<T>(c);
      walk<1>(product.shape, {broadcastStrides(c.shape, product.shape)},
              [&](int64_t i, const std::array<int64_t, 1> &at) { y[size_t(i)] += T(beta) * added[size_t(at[0])]; });
    }
    for (T &each : y)
      each = fused(each);
    call.set(0, tensorOf(y, a.type, product.shape));
  });
}

static void evaluateGemmFastGelu(Call &call) {
  const HostTensor y = matmul(call, call.input(0), call.input(1));
  visitReal(y.type, [&](auto zero) {
    std::vector<decltype(zero)> values = withBias<decltype(zero)>(call, y, 2);
    for (auto &each : values)
      each = fastGelu(each);
    call.set(0, tensorOf(values, y.type, y.shape));
  });
}

/// activation(conv + Z), of a result of Conv.
static void finishConv(Call &call, const HostTensor &y, const HostTensor *z) {
  const Fused fused = readFused(call);
  visitReal(y.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> values = realsOf<T>(y);
    if (z) {
      requireShape(call, *z, "Z", y.shape);
      const std::vector<T> more = realsOf<T>(*z);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] += more[i];
    }
    for (T &each : values)
      each = fused(each);
    call.set(0, tensorOf(values, y.type, y.shape));
  });
}

static void evaluateFusedConv(Call &call) {
  std::vector<Value> inputs = inputsOf(call);
  inputs.resize(3);
  const onnx::NodeProto node = nodeLike(call, "Conv", {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  const std::vector<Value> y = runOnnx(call, node, 11, std::move(inputs));
  finishConv(call, *y.at(0).tensor, call.has(3) ? &call.input(3) : nullptr);
}

/// X and the sum are [N, .., C]; the weights of NhwcConv are [M, .., C / group], those of NhwcFusedConv [M, C / group, ..].
static void evaluateNhwcConv(Call &call) {
  requireRankAtLeast(call, call.input(0), 3);
  requireRankAtLeast(call, call.input(1), 3);
  std::vector<Value> inputs = inputsOf(call);
  inputs.resize(3);
  inputs[0] = channelsFirst(call.input(0));
  if (call.type() == "NhwcConv")
    inputs[1] = channelsFirst(call.input(1));
  const onnx::NodeProto node = nodeLike(call, "Conv", {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  const std::vector<Value> y = runOnnx(call, node, 11, std::move(inputs));
  finishConv(call, channelsLast(*y.at(0).tensor), call.has(3) ? &call.input(3) : nullptr);
}

static void evaluateNhwcMaxPool(Call &call) {
  requireRankAtLeast(call, call.input(0), 3);
  const onnx::NodeProto node =
      nodeLike(call, "MaxPool", {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"});
  const std::vector<Value> y = runOnnx(call, node, 12, {channelsFirst(call.input(0))});
  call.set(0, channelsLast(*y.at(0).tensor));
}

/// ConvTranspose with the pads as input 2 and the bias as input 3.
static void evaluateConvTransposeWithDynamicPads(Call &call) {
  onnx::NodeProto node =
      nodeLike(call, "ConvTranspose", {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"});
  if (call.has(2))
    addInts(node, "pads", call.ints(2));
  std::vector<Value> inputs{call.value(0), call.value(1)};
  if (call.has(3))
    inputs.push_back(call.value(3));
  call.set(0, runOnnx(call, node, 11, std::move(inputs)).at(0));
}

//===----------------------------------------------------------------------===//
// Operators that ONNX took over later
//===----------------------------------------------------------------------===//

static void evaluatePad(Call &call) {
  std::vector<Value> inputs = inputsOf(call);
  const HostTensor &pads = call.input(1);
  inputs[1] = reshaped(pads, {countOf(pads)});
  if (inputs.size() > 2 && call.has(2))
    inputs[2] = reshaped(call.input(2), {});
  call.set(0, runOnnx(call, nodeLike(call, "Pad", {"mode"}), 13, std::move(inputs)).at(0));
}
static void evaluateTrilu(Call &call) {
  call.set(0, runOnnx(call, nodeLike(call, "Trilu", {"upper"}), 14, inputsOf(call)).at(0));
}
static void evaluateGatherND(Call &call) {
  std::vector<Value> inputs = inputsOf(call);
  inputs.at(1) = toKind(call.input(1), ElementKind::I64);
  call.set(0, runOnnx(call, nodeLike(call, "GatherND", {}), 12, std::move(inputs)).at(0));
}
static void evaluateRange(Call &call) {
  std::vector<Value> inputs{reshaped(call.input(0), {}), reshaped(call.input(1), {})};
  if (call.has(2)) {
    inputs.push_back(reshaped(call.input(2), {}));
  } else {
    HostTensor one = makeTensor(call.input(0).type, {});
    setInteger(one, 0, 1);
    inputs.push_back(std::move(one));
  }
  call.set(0, runOnnx(call, nodeLike(call, "Range", {}), 11, std::move(inputs)).at(0));
}
/// Results: the values in the order of their first places, for each element its value's place among them, and their counts.
static void evaluateUnique(Call &call) {
  requireShape(call, call.input(0), "x", {-1});
  onnx::NodeProto node = nodeLike(call, "Unique", {}, 4);
  addInt(node, "sorted", 0);
  const std::vector<Value> results = runOnnx(call, node, 11, {call.value(0)});
  call.set(0, results.at(0));
  call.set(1, results.at(2));
  call.set(2, results.at(3));
}
static void evaluateGridSample(Call &call) {
  call.set(0, runOnnx(call, nodeLike(call, "GridSample", {"align_corners", "mode", "padding_mode"}), 16, inputsOf(call)).at(0));
}
static void evaluateExpandDims(Call &call) {
  const HostTensor &x = call.input(0);
  Shape shape = x.shape;
  shape.insert(shape.begin() + call.axis(call.intScalar(1), int64_t(shape.size()), true), 1);
  call.set(0, reshaped(x, shape));
}

/// Gauss-Jordan elimination with pivots of columns.
static void evaluateInverse(Call &call) {
  const HostTensor &x = call.input(0);
  requireRankAtLeast(call, x, 2);
  const int64_t n = x.shape.back();
  if (x.shape[x.shape.size() - 2] != n)
    call.fail("X has shape " + textOf(x.shape) + ", expected square matrices");
  std::vector<double> y;
  visitReal(x.type, [&](auto) { y = realsOf<double>(x); });
  for (int64_t matrix = 0; n > 0 && matrix < countOf(x) / (n * n); ++matrix) {
    double *a = y.data() + matrix * n * n;
    std::vector<double> inverse(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n; ++i)
      inverse[size_t(i * n + i)] = 1;
    for (int64_t column = 0; column < n; ++column) {
      int64_t pivot = column;
      for (int64_t i = column + 1; i < n; ++i)
        if (std::abs(a[i * n + column]) > std::abs(a[pivot * n + column]))
          pivot = i;
      if (!(std::abs(a[pivot * n + column]) > 0))
        call.fail("a matrix has no inverse");
      for (int64_t j = 0; j < n; ++j) {
        std::swap(a[column * n + j], a[pivot * n + j]);
        std::swap(inverse[size_t(column * n + j)], inverse[size_t(pivot * n + j)]);
      }
      const double divisor = a[column * n + column];
      for (int64_t j = 0; j < n; ++j) {
        a[column * n + j] /= divisor;
        inverse[size_t(column * n + j)] /= divisor;
      }
      for (int64_t i = 0; i < n; ++i)
        if (const double factor = a[i * n + column]; i != column && factor != 0)
          for (int64_t j = 0; j < n; ++j) {
            a[i * n + j] -= factor * a[column * n + j];
            inverse[size_t(i * n + j)] -= factor * inverse[size_t(column * n + j)];
          }
    }
    std::copy(inverse.begin(), inverse.end(), a);
  }
  call.set(0, tensorOf(y, x.type, x.shape));
}

/// Distances of rows of A, [m, k], to rows of B, [n, k].
static void evaluateCDist(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  call.requireSameType(a, b);
  requireShape(call, a, "A", {-1, -1});
  requireShape(call, b, "B", {-1, a.shape[1]});
  const std::string metric = call.stringAttr("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    call.fail("metric is \"" + metric + "\", expected euclidean or sqeuclidean");
  const int64_t m = a.shape[0], n = b.shape[0], k = a.shape[1];
  visitReal(a.type, [&](auto) {
    const std::vector<double> x = realsOf<double>(a), w = realsOf<double>(b);
    std::vector<double> y = zeros<double>({m, n});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += (x[size_t(i * k + l)] - w[size_t(j * k + l)]) * (x[size_t(i * k + l)] - w[size_t(j * k + l)]);
        y[size_t(i * n + j)] = metric == "euclidean" ? std::sqrt(sum) : sum;
      }
    call.set(0, tensorOf(y, a.type, {m, n}));
  });
}

/// Regions [y1, x1, y2, x2], in parts of the image, resized to crop_size; outside of the image lies extrapolation_value.
static void evaluateCropAndResize(Call &call) {
  const HostTensor &x = call.input(0), &rois = call.input(1);
  requireShape(call, x, "X", {-1, -1, -1, -1});
  requireShape(call, rois, "rois", {-1, 4});
  const int64_t count = rois.shape[0], channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  requireShape(call, call.input(2), "batch_indices", {count});
  requireShape(call, call.input(3), "crop_size", {2});
  const std::vector<int64_t> images = call.ints(2), size = call.ints(3);
  for (int64_t image : images)
    if (image < 0 || image >= x.shape[0])
      call.fail("batch_indices has " + std::to_string(image) + ", X has shape " + textOf(x.shape));
  if (size[0] < 1 || size[1] < 1 || height < 1 || width < 1)
    call.fail("X of shape " + textOf(x.shape) + " cannot be resized to " + textOf(size));
  const std::string mode = call.stringAttr("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest")
    call.fail("mode is \"" + mode + "\", expected bilinear or nearest");
  const float outside = call.floatAttr("extrapolation_value", 0.f);
  visitReal(x.type, [&](auto) {
    const std::vector<float> values = realsOf<float>(x), regions = realsOf<float>(rois);
    HostTensor y = makeTensor(x.type, {count, channels, size[0], size[1]});
    std::vector<float> result(static_cast<size_t>(countOf(y)), outside);
    auto place = [](float from, float to, int64_t length, int64_t i, int64_t steps) {
      return steps > 1 ? from * float(length - 1) + float(i) * ((to - from) * float(length - 1) / float(steps - 1))
                       : 0.5f * (from + to) * float(length - 1);
    };
    for (int64_t r = 0; r < count; ++r)
      for (int64_t i = 0; i < size[0]; ++i)
        for (int64_t j = 0; j < size[1]; ++j) {
          const float *region = regions.data() + r * 4;
          const float v = place(region[0], region[2], height, i, size[0]), u = place(region[1], region[3], width, j, size[1]);
          if (!(v >= 0 && v <= float(height - 1) && u >= 0 && u <= float(width - 1)))
            continue;
          for (int64_t c = 0; c < channels; ++c) {
            const float *plane = values.data() + (images[size_t(r)] * channels + c) * height * width;
            auto pixel = [&](float row, float column) { return plane[int64_t(row) * width + int64_t(column)]; };
            float &out = result[size_t(((r * channels + c) * size[0] + i) * size[1] + j)];
            if (mode == "nearest") {
              out = pixel(std::round(v), std::round(u));
              continue;
            }
            const float top = std::floor(v), left = std::floor(u), dy = v - top, dx = u - left;
            const float above = pixel(top, left) * (1 - dx) + pixel(top, std::ceil(u)) * dx;
            const float below = pixel(std::ceil(v), left) * (1 - dx) + pixel(std::ceil(v), std::ceil(u)) * dx;
            out = above * (1 - dy) + below * dy;
          }
        }
    store(result, y);
    call.set(0, std::move(y));
  });
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

void operators::addRuntimeDomain(Table &table) {
  table["com.microsoft:Gelu"].evaluate = evaluateGelu;
  table["com.microsoft:BiasGelu"].evaluate = evaluateBiasGelu;
  table["com.microsoft:FastGelu"].evaluate = evaluateFastGelu;
  table["com.microsoft:QuickGelu"].evaluate = evaluateQuickGelu;
  table["com.microsoft:BiasSplitGelu"].evaluate = evaluateBiasSplitGelu;
  table["com.microsoft:BiasAdd"].evaluate = evaluateBiasAdd;
  table["com.microsoft:BiasDropout"].evaluate = evaluateBiasDropout;
  table["com.microsoft:BitmaskDropout"].evaluate = evaluateBitmaskDropout;
  table["com.microsoft:BitmaskBiasDropout"].evaluate = evaluateBitmaskBiasDropout;
  table["com.microsoft:BiasSoftmax"].evaluate = evaluateBiasSoftmax;
  table[":Affine"].evaluate = evaluateAffine;
  table[":ParametricSoftplus"].evaluate = evaluateParametricSoftplus;
  table[":ScaledTanh"].evaluate = evaluateScaledTanh;
  table[":ImageScaler"].evaluate = evaluateImageScaler;
  table["com.microsoft:FusedMatMul"].evaluate = evaluateFusedMatMul;
  table["com.microsoft:TransposeMatMul"].evaluate = evaluateFusedMatMul;
  table["com.microsoft:FusedMatMulActivation"].evaluate = evaluateFusedMatMulActivation;
  table["com.microsoft:FusedGemm"].evaluate = evaluateFusedGemm;
  table["com.microsoft:GemmFastGelu"].evaluate = evaluateGemmFastGelu;
  table["com.microsoft:FusedConv"].evaluate = evaluateFusedConv;
  table["com.microsoft:NhwcConv"].evaluate = evaluateNhwcConv;
  table["com.microsoft:NhwcFusedConv"].evaluate = evaluateNhwcConv;
  table["com.microsoft:NhwcMaxPool"].evaluate = evaluateNhwcMaxPool;
  table["com.microsoft:ConvTransposeWithDynamicPads"] = {evaluateConvTransposeWithDynamicPads, {2}, false, false};
  table["com.microsoft:Pad"] = {evaluatePad, {1}, false, false};
  table["com.microsoft:Trilu"].evaluate = evaluateTrilu;
  table["com.microsoft:GatherND"].evaluate = evaluateGatherND;
  table["com.microsoft:Range"] = {evaluateRange, {0, 1, 2}, false, false};
  table["com.microsoft:Unique"] = {evaluateUnique, {0}, true, false};
  table["com.microsoft:GridSample"].evaluate = evaluateGridSample;
  table["com.microsoft:ExpandDims"] = {evaluateExpandDims, {1}, false, false};
  table["com.microsoft:Inverse"].evaluate = evaluateInverse;
  table["com.microsoft:CDist"].evaluate = evaluateCDist;
  table["com.microsoft:CropAndResize"] = {evaluateCropAndResize, {3}, false, false};
  addRuntimeExperts(table);
  addRuntimeNorms(table);
  addRuntimePacked(table);
  addRuntimeTransforms(table);
  addRuntimeAttention(table);
  addRuntimeQuantized(table);
}
