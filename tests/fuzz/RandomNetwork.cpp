//===- RandomNetwork.cpp - Small networks with known results --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/fuzz/RandomNetwork.h"

#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

using namespace tw;
using namespace tw::fuzz;

using Shape = std::vector<int64_t>;

static int64_t countOf(const Shape &shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

std::vector<uint8_t> Tensor::bytes() const {
  std::vector<uint8_t> result;
  for (double value : values) {
    if (kind != Kind::F32) {
      result.push_back(uint8_t(int(value)));
      continue;
    }
    auto number = float(value);
    const auto *raw = reinterpret_cast<const uint8_t *>(&number);
    result.insert(result.end(), raw, raw + sizeof number);
  }
  return result;
}

std::vector<double> Tensor::read(const std::vector<uint8_t> &bytes) const {
  std::vector<double> result(values.size());
  for (size_t i = 0; i < result.size(); ++i)
    if (kind == Kind::F32) {
      float number;
      std::memcpy(&number, bytes.data() + 4 * i, sizeof number);
      result[i] = number;
    } else {
      result[i] = kind == Kind::I8 ? double(int8_t(bytes[i])) : double(bytes[i]);
    }
  return result;
}

namespace {

/// Calls `body` with every index of `shape`, row-major.
void forEach(const Shape &shape, const std::function<void(const Shape &)> &body) {
  Shape index(shape.size());
  for (int64_t n = countOf(shape); n > 0; --n) {
    body(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

double &at(Tensor &tensor, const Shape &index) {
  int64_t linear = 0;
  for (size_t d = 0; d < index.size(); ++d)
    linear = linear * tensor.shape[d] + index[d];
  return tensor.values[size_t(linear)];
}
double at(const Tensor &tensor, const Shape &index) { return at(const_cast<Tensor &>(tensor), index); }

Tensor zeros(Shape shape, Kind kind) {
  Tensor tensor{std::move(shape), kind, {}};
  tensor.values.assign(size_t(countOf(tensor.shape)), 0);
  return tensor;
}

/// Attributes of a 2-D window.
struct Window {
  std::array<int64_t, 2> kernel{1, 1}, strides{1, 1}, dilations{1, 1};
  std::array<int64_t, 4> pads{};
};

class Builder {
public:
  Builder(mlir::MLIRContext &context, uint64_t seed, bool isFloat) : b(&context), random(seed), isFloat(isFloat) {
    context.loadDialect<mlir::func::FuncDialect, graph::GraphDialect>();
  }
  Network build();

private:
  struct Value {
    mlir::Value ir;
    Tensor tensor;
  };

  int64_t pick(int64_t low, int64_t high) { return low + int64_t(random() % uint64_t(high - low + 1)); }
  bool chance(int64_t percent) { return pick(1, 100) <= percent; }
  double real() { return double(random() >> 11) * 0x1p-52 - 1; }
  Kind anyKind() { return isFloat ? Kind::F32 : chance(50) ? Kind::I8 : Kind::U8; }
  double low(Kind kind) { return kind == Kind::U8 ? 0 : -128; }
  double high(Kind kind) { return kind == Kind::U8 ? 255 : 127; }
  int32_t zeroPoint(Kind kind) { return chance(30) ? 0 : int32_t(pick(int64_t(low(kind)), int64_t(high(kind)))); }

  Tensor randomTensor(Shape shape, Kind kind, double scale = 1);
  mlir::Type elementOf(Kind kind) {
    return kind == Kind::F32 ? mlir::Type(b.getF32Type()) : kind == Kind::I8 ? mlir::Type(b.getI8Type()) : mlir::Type(b.getIntegerType(8, false));
  }
  mlir::RankedTensorType typeOf(const Tensor &tensor) { return mlir::RankedTensorType::get(tensor.shape, elementOf(tensor.kind)); }
  mlir::Value constant(const Tensor &tensor);
  mlir::Value int32Constant(const std::vector<int32_t> &values);
  mlir::Location where() { return mlir::NameLoc::get(b.getStringAttr("n" + std::to_string(values.size()))); }

  /// Where the channel, height and width dims of an image are.
  int c() const { return nhwc ? 3 : 1; }
  int h() const { return nhwc ? 1 : 2; }
  int w() const { return nhwc ? 2 : 3; }
  llvm::StringRef layout() const { return nhwc ? "nhwc" : "nchw"; }
  Shape image(int64_t n, int64_t height, int64_t width, int64_t channels) const {
    return nhwc ? Shape{n, height, width, channels} : Shape{n, channels, height, width};
  }

  /// A window that fits a height x width image, every position of which has a tap inside.
  Window randomWindow(int64_t height, int64_t width, bool dilated);
  int64_t outputOf(const Window &window, int64_t extent, int d) const {
    return (extent + window.pads[d] + window.pads[d + 2] - window.dilations[d] * (window.kernel[d] - 1) - 1) / window.strides[d] + 1;
  }
  /// Calls `body` with the position of each tap inside the image.
  template <typename Body> void taps(const Window &window, const Tensor &x, int64_t oh, int64_t ow, Body body) const {
    for (int64_t kh = 0; kh < window.kernel[0]; ++kh)
      for (int64_t kw = 0; kw < window.kernel[1]; ++kw) {
        int64_t ih = oh * window.strides[0] - window.pads[0] + kh * window.dilations[0];
        int64_t iw = ow * window.strides[1] - window.pads[1] + kw * window.dilations[1];
        if (ih >= 0 && iw >= 0 && ih < x.shape[h()] && iw < x.shape[w()])
          body(kh, kw, ih, iw);
      }
  }

  void addConv();
  void addMatmul();
  void addMaxPool();
  void addAveragePool();
  void addSum();
  void addElementwise();
  void addSoftmax();
  void addConcat();
  void addTranspose();
  void addSlice();
  void addPad();
  /// int32 sums to 8 bits, or a bias on floats; `channel` is the dim of the channels.
  void finish(mlir::Value sum, Tensor sums, int channel);
  void push(mlir::Value ir, Tensor tensor) { values.push_back({ir, std::move(tensor)}); }

  mlir::OpBuilder b;
  std::mt19937_64 random;
  bool isFloat, nhwc = false;
  std::vector<Value> values;
};

Tensor Builder::randomTensor(Shape shape, Kind kind, double scale) {
  Tensor tensor = zeros(std::move(shape), kind);
  for (double &value : tensor.values)
    value = kind == Kind::F32 ? double(float(real() * scale)) : double(pick(int64_t(low(kind)), int64_t(high(kind))));
  return tensor;
}

mlir::Value Builder::constant(const Tensor &tensor) {
  std::vector<uint8_t> bytes = tensor.bytes();
  return b.create<graph::ConstantOp>(
      where(), mlir::DenseElementsAttr::getFromRawBuffer(typeOf(tensor), {reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
}

mlir::Value Builder::int32Constant(const std::vector<int32_t> &numbers) {
  return b.create<graph::ConstantOp>(
      where(), mlir::DenseIntElementsAttr::get(mlir::RankedTensorType::get({int64_t(numbers.size())}, b.getI32Type()), llvm::ArrayRef(numbers)));
}

Window Builder::randomWindow(int64_t height, int64_t width, bool dilated) {
  Window window;
  int64_t extents[2] = {height, width};
  for (int d = 0; d < 2; ++d) {
    window.kernel[d] = pick(1, std::min<int64_t>(extents[d], chance(10) ? 7 : 3));
    if (dilated && chance(20) && 2 * (window.kernel[d] - 1) < extents[d])
      window.dilations[d] = 2;
    window.strides[d] = chance(60) ? 1 : pick(1, 3);
    if (chance(50))
      for (int side : {d, d + 2})
        window.pads[side] = pick(0, window.kernel[d] - 1);
  }
  return window;
}

void Builder::finish(mlir::Value sum, Tensor sums, int channel) {
  int64_t channels = sums.shape[channel];
  size_t inner = 1;
  for (size_t d = channel + 1; d < sums.shape.size(); ++d)
    inner *= size_t(sums.shape[d]);
  auto channelOf = [&](size_t i) { return i / inner % size_t(channels); };
  if (isFloat)
    return push(sum, std::move(sums));
  Kind kind = anyKind();
  int32_t zero = zeroPoint(kind);
  std::vector<int32_t> bias;
  if (chance(70))
    for (int64_t i = 0; i < channels; ++i)
      bias.push_back(int32_t(pick(-5000, 5000)));
  double largest = 1;
  for (double value : sums.values)
    largest = std::max(largest, std::abs(value));
  std::vector<float> multipliers;
  for (int64_t i = chance(50) ? channels : 1; i > 0; --i)
    multipliers.push_back(float(150 / largest * (0.3 + 0.7 * std::abs(real()))));
  Tensor y = zeros(sums.shape, kind);
  for (size_t i = 0; i < sums.values.size(); ++i) {
    size_t at = channelOf(i);
    auto total = int32_t(uint32_t(int64_t(sums.values[i])) + uint32_t(bias.empty() ? 0 : bias[at]));
    float scaled = float(total) * multipliers[multipliers.size() > 1 ? at : 0];
    y.values[i] = std::clamp(double(std::nearbyint(scaled)) + zero, low(kind), high(kind));
  }
  auto op = b.create<graph::RequantizeOp>(where(), typeOf(y), sum, bias.empty() ? mlir::Value() : int32Constant(bias),
                                          b.getDenseF32ArrayAttr(multipliers), int64_t(channel), zero);
  push(op, std::move(y));
}

void Builder::addConv() {
  const Tensor x = values.back().tensor;
  mlir::Value input = values.back().ir;
  int64_t inChannels = x.shape[c()];
  Window window = randomWindow(x.shape[h()], x.shape[w()], true);
  int64_t groups = chance(60) ? 1 : inChannels;
  if (groups > 1 && chance(30))
    for (int64_t divisor = 2; divisor < inChannels; ++divisor)
      if (inChannels % divisor == 0) {
        groups = divisor;
        break;
      }
  int64_t outChannels = groups == 1 ? pick(1, chance(20) ? 40 : 12) : groups * pick(1, 2);
  int64_t depth = inChannels / groups, perGroup = outChannels / groups;
  auto [kh, kw] = window.kernel;
  Kind kind = isFloat ? Kind::F32 : chance(70) ? Kind::I8 : Kind::U8;
  Tensor weights = randomTensor(nhwc ? Shape{kh, kw, depth, outChannels} : Shape{outChannels, depth, kh, kw}, kind,
                                1.5 / std::sqrt(double(kh * kw * depth)));
  int32_t xZero = isFloat ? 0 : zeroPoint(x.kind);
  // One for all channels: weights with several must fit 8 bits after subtraction, or the compiler refuses them.
  int32_t wZero = isFloat || chance(60) ? 0 : zeroPoint(kind);
  std::vector<double> bias(size_t(outChannels), 0);
  bool hasBias = isFloat && chance(70);
  Tensor biasTensor = randomTensor({outChannels}, Kind::F32);
  if (hasBias)
    bias = biasTensor.values;

  Tensor y = zeros(image(x.shape[0], outputOf(window, x.shape[h()], 0), outputOf(window, x.shape[w()], 1), outChannels), Kind::F32);
  forEach(y.shape, [&](const Shape &index) {
    int64_t o = index[c()], group = o / perGroup;
    double sum = 0;
    taps(window, x, index[h()], index[w()], [&](int64_t i, int64_t j, int64_t ih, int64_t iw) {
      for (int64_t d = 0; d < depth; ++d)
        sum += (at(x, image(index[0], ih, iw, group * depth + d)) - xZero) *
               (at(weights, nhwc ? Shape{i, j, d, o} : Shape{o, d, i, j}) - wZero);
    });
    at(y, index) = sum + bias[size_t(o)];
  });
  auto strides = b.getDenseI64ArrayAttr(window.strides), pads = b.getDenseI64ArrayAttr(window.pads),
       dilations = b.getDenseI64ArrayAttr(window.dilations);
  mlir::Value weight = constant(weights), sum;
  if (isFloat)
    sum = b.create<graph::ConvOp>(where(), typeOf(y), input, weight, hasBias ? constant(biasTensor) : mlir::Value(), strides, pads, dilations,
                                  groups, layout());
  else
    sum = b.create<graph::ConvIntegerOp>(where(), mlir::RankedTensorType::get(y.shape, b.getI32Type()), input, weight, xZero,
                                         b.getDenseI32ArrayAttr({wZero}), strides, pads, dilations, groups, layout());
  finish(sum, std::move(y), c());
}

void Builder::addMatmul() {
  const Value &last = values.back();
  int64_t n = pick(1, chance(20) ? 70 : 20), k = chance(50) ? last.tensor.shape[3] : countOf(last.tensor.shape) / last.tensor.shape[0];
  Tensor a = last.tensor;
  a.shape = {countOf(a.shape) / k, k};
  mlir::Value input = b.create<graph::ReshapeOp>(where(), typeOf(a), last.ir);
  Kind kind = isFloat ? Kind::F32 : chance(70) ? Kind::I8 : Kind::U8;
  Tensor weights = randomTensor({k, n}, kind, 1.5 / std::sqrt(double(k)));
  int32_t aZero = isFloat ? 0 : zeroPoint(a.kind), bZero = isFloat || chance(50) ? 0 : zeroPoint(kind);
  Tensor y = zeros({a.shape[0], n}, Kind::F32);
  for (int64_t i = 0; i < a.shape[0]; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t d = 0; d < k; ++d)
        at(y, {i, j}) += (at(a, {i, d}) - aZero) * (at(weights, {d, j}) - bZero);
  mlir::Value sum;
  if (isFloat)
    sum = b.create<graph::MatmulOp>(where(), typeOf(y), input, constant(weights));
  else
    sum = b.create<graph::MatmulIntegerOp>(where(), mlir::RankedTensorType::get(y.shape, b.getI32Type()), input, constant(weights), aZero,
                                           b.getDenseI32ArrayAttr({bZero}));
  finish(sum, std::move(y), 1);
  // Every value is an image.
  Tensor y4 = values.back().tensor;
  y4.shape = {1, 1, y4.shape[0], y4.shape[1]};
  mlir::Value reshaped = b.create<graph::ReshapeOp>(where(), typeOf(y4), values.back().ir);
  push(reshaped, std::move(y4));
}

void Builder::addMaxPool() {
  const Tensor x = values.back().tensor;
  Window window = randomWindow(x.shape[h()], x.shape[w()], false);
  Tensor y = zeros(image(x.shape[0], outputOf(window, x.shape[h()], 0), outputOf(window, x.shape[w()], 1), x.shape[c()]), x.kind);
  forEach(y.shape, [&](const Shape &index) {
    double best = -INFINITY;
    taps(window, x, index[h()], index[w()],
         [&](int64_t, int64_t, int64_t ih, int64_t iw) { best = std::max(best, at(x, image(index[0], ih, iw, index[c()]))); });
    at(y, index) = best;
  });
  auto op = b.create<graph::MaxPoolOp>(where(), typeOf(y), values.back().ir, b.getDenseI64ArrayAttr(window.kernel),
                                       b.getDenseI64ArrayAttr(window.strides), b.getDenseI64ArrayAttr(window.pads),
                                       b.getDenseI64ArrayAttr(window.dilations), layout());
  push(op, std::move(y));
}

void Builder::addAveragePool() {
  const Tensor x = values.back().tensor;
  Window window = randomWindow(x.shape[h()], x.shape[w()], false);
  bool includePad = chance(50);
  Tensor y = zeros(image(x.shape[0], outputOf(window, x.shape[h()], 0), outputOf(window, x.shape[w()], 1), x.shape[c()]), x.kind);
  forEach(y.shape, [&](const Shape &index) {
    double sum = 0, count = 0;
    taps(window, x, index[h()], index[w()], [&](int64_t, int64_t, int64_t ih, int64_t iw) {
      sum += at(x, image(index[0], ih, iw, index[c()]));
      ++count;
    });
    at(y, index) = sum / (includePad ? double(window.kernel[0] * window.kernel[1]) : count);
  });
  auto op = b.create<graph::AveragePoolOp>(where(), typeOf(y), values.back().ir, b.getDenseI64ArrayAttr(window.kernel),
                                           b.getDenseI64ArrayAttr(window.strides), b.getDenseI64ArrayAttr(window.pads), includePad, layout());
  push(op, std::move(y));
}

/// The last value plus an earlier one, or a constant, of the same type or one that broadcasts.
void Builder::addSum() {
  const Value a = values.back();
  Value other;
  for (size_t i = values.size() - 1; i-- > 0;)
    if (values[i].tensor.shape == a.tensor.shape && values[i].tensor.kind == a.tensor.kind) {
      other = values[i];
      break;
    }
  if (!other.ir || chance(30)) {
    Shape shape = a.tensor.shape;
    for (int64_t &dim : shape)
      if (chance(40))
        dim = 1;
    other.tensor = randomTensor(shape, a.tensor.kind);
    other.ir = constant(other.tensor);
  }
  auto broadcast = [&](const Shape &index) {
    Shape result = index;
    for (size_t d = 0; d < result.size(); ++d)
      result[d] = other.tensor.shape[d] == 1 ? 0 : result[d];
    return at(other.tensor, result);
  };
  Tensor y = zeros(a.tensor.shape, a.tensor.kind);
  if (isFloat) {
    int64_t which = pick(0, 4);
    forEach(y.shape, [&](const Shape &index) {
      double p = at(a.tensor, index), q = broadcast(index);
      at(y, index) = which == 0 ? p + q : which == 1 ? p - q : which == 2 ? p * q : which == 3 ? std::min(p, q) : std::max(p, q);
    });
    mlir::Value ir;
    auto make = [&](auto zero) { ir = b.create<decltype(zero)>(where(), typeOf(y), a.ir, other.ir); };
    which == 0   ? make(graph::AddOp())
    : which == 1 ? make(graph::SubOp())
    : which == 2 ? make(graph::MulOp())
    : which == 3 ? make(graph::MinOp())
                 : make(graph::MaxOp());
    return push(ir, std::move(y));
  }
  // The formula of docs/decisions/0004.
  float aScale = float(0.01 + 0.05 * std::abs(real())), bScale = float(0.01 + 0.05 * std::abs(real())), yScale = float(0.02 + 0.08 * std::abs(real()));
  int32_t aZero = zeroPoint(y.kind), bZero = zeroPoint(y.kind), yZero = zeroPoint(y.kind);
  float ra = aScale / yScale, rb = bScale / yScale;
  float offset = float(yZero) - std::fma(ra, float(aZero), rb * float(bZero));
  forEach(y.shape, [&](const Shape &index) {
    float sum = std::fma(float(at(a.tensor, index)), ra, std::fma(float(broadcast(index)), rb, offset));
    at(y, index) = std::clamp(double(std::nearbyint(sum)), low(y.kind), high(y.kind));
  });
  auto op = b.create<graph::QLinearAddOp>(where(), typeOf(y), a.ir, other.ir, b.getF32FloatAttr(aScale), b.getI32IntegerAttr(aZero),
                                          b.getF32FloatAttr(bScale), b.getI32IntegerAttr(bZero), b.getF32FloatAttr(yScale),
                                          b.getI32IntegerAttr(yZero));
  push(op, std::move(y));
}

void Builder::addElementwise() {
  const Value x = values.back();
  Tensor y = x.tensor;
  auto apply = [&](auto function) {
    for (double &value : y.values)
      value = function(value);
  };
  mlir::Value ir;
  mlir::Type type = typeOf(y);
  switch (pick(0, isFloat ? 6 : 1)) {
  case 0:
    apply([](double v) { return std::max(v, 0.0); });
    ir = b.create<graph::ReluOp>(where(), type, x.ir);
    break;
  case 1: {
    float bottom = isFloat ? -0.5f : float(pick(-50, 0)), top = isFloat ? 0.75f : float(pick(20, 100));
    if (y.kind == Kind::U8)
      bottom = 3;
    apply([&](double v) { return std::clamp<double>(v, bottom, top); });
    ir = b.create<graph::ClipOp>(where(), type, x.ir, llvm::APFloat(bottom), llvm::APFloat(top));
    break;
  }
  case 2:
    apply([](double v) { return v < 0 ? 0.1 * v : v; });
    ir = b.create<graph::LeakyReluOp>(where(), type, x.ir, llvm::APFloat(0.1f));
    break;
  case 3:
    apply([](double v) { return 1 / (1 + std::exp(-v)); });
    ir = b.create<graph::SigmoidOp>(where(), type, x.ir);
    break;
  case 4:
    apply([](double v) { return std::tanh(v); });
    ir = b.create<graph::TanhOp>(where(), type, x.ir);
    break;
  case 5:
    apply([](double v) { return v * std::clamp(v / 6 + 0.5, 0.0, 1.0); });
    ir = b.create<graph::HardSwishOp>(where(), type, x.ir);
    break;
  default:
    apply([](double v) { return std::clamp(0.2 * v + 0.4, 0.0, 1.0); });
    ir = b.create<graph::HardSigmoidOp>(where(), type, x.ir, llvm::APFloat(0.2f), llvm::APFloat(0.4f));
    break;
  }
  push(ir, std::move(y));
}

void Builder::addSoftmax() {
  const Value x = values.back();
  Tensor y = x.tensor;
  auto axis = size_t(pick(0, 3));
  forEach(y.shape, [&](const Shape &index) {
    double sum = 0, largest = -INFINITY;
    Shape other = index;
    for (other[axis] = 0; other[axis] < y.shape[axis]; ++other[axis])
      largest = std::max(largest, at(x.tensor, other));
    for (other[axis] = 0; other[axis] < y.shape[axis]; ++other[axis])
      sum += std::exp(at(x.tensor, other) - largest);
    at(y, index) = std::exp(at(x.tensor, index) - largest) / sum;
  });
  push(b.create<graph::SoftmaxOp>(where(), typeOf(y), x.ir, int64_t(axis)), std::move(y));
}

void Builder::addConcat() {
  const Value a = values.back();
  auto axis = size_t(pick(0, 3));
  Value other;
  for (size_t i = values.size() - 1; i-- > 0;) {
    Shape p = values[i].tensor.shape, q = a.tensor.shape;
    if (p.size() != q.size())
      continue;
    p[axis] = q[axis];
    if (p == q && values[i].tensor.kind == a.tensor.kind) {
      other = values[i];
      break;
    }
  }
  if (!other.ir) {
    Shape shape = a.tensor.shape;
    shape[axis] = pick(1, 5);
    other.tensor = randomTensor(shape, a.tensor.kind);
    other.ir = constant(other.tensor);
  }
  Shape shape = a.tensor.shape;
  shape[axis] += other.tensor.shape[axis];
  Tensor y = zeros(shape, a.tensor.kind);
  forEach(shape, [&](const Shape &index) {
    Shape inner = index;
    bool first = index[axis] < a.tensor.shape[axis];
    if (!first)
      inner[axis] -= a.tensor.shape[axis];
    at(y, index) = at(first ? a.tensor : other.tensor, inner);
  });
  push(b.create<graph::ConcatOp>(where(), typeOf(y), mlir::ValueRange{a.ir, other.ir}, int64_t(axis)), std::move(y));
}

void Builder::addTranspose() {
  const Value x = values.back();
  std::array<int64_t, 4> perm{0, 1, 2, 3};
  std::shuffle(perm.begin(), perm.end(), random);
  Shape shape;
  for (int64_t d : perm)
    shape.push_back(x.tensor.shape[size_t(d)]);
  Tensor y = zeros(shape, x.tensor.kind);
  forEach(shape, [&](const Shape &index) {
    Shape from(4);
    for (size_t d = 0; d < 4; ++d)
      from[size_t(perm[d])] = index[d];
    at(y, index) = at(x.tensor, from);
  });
  push(b.create<graph::TransposeOp>(where(), typeOf(y), x.ir, b.getDenseI64ArrayAttr(perm)), std::move(y));
}

void Builder::addSlice() {
  const Value x = values.back();
  std::array<int64_t, 4> starts{}, steps{1, 1, 1, 1};
  Shape shape = x.tensor.shape;
  for (size_t d = 0; d < 4; ++d) {
    if (chance(40))
      continue;
    int64_t extent = shape[d];
    steps[d] = chance(70) ? 1 : chance(60) ? 2 : -1;
    starts[d] = pick(0, extent - 1);
    shape[d] = pick(1, steps[d] < 0 ? starts[d] + 1 : (extent - starts[d] + steps[d] - 1) / steps[d]);
  }
  Tensor y = zeros(shape, x.tensor.kind);
  forEach(shape, [&](const Shape &index) {
    Shape from = index;
    for (size_t d = 0; d < 4; ++d)
      from[d] = starts[d] + index[d] * steps[d];
    at(y, index) = at(x.tensor, from);
  });
  push(b.create<graph::SliceOp>(where(), typeOf(y), x.ir, b.getDenseI64ArrayAttr(starts), b.getDenseI64ArrayAttr(steps)), std::move(y));
}

void Builder::addPad() {
  const Value x = values.back();
  std::array<int64_t, 4> before{}, after{};
  Shape shape = x.tensor.shape;
  for (size_t d = 0; d < 4; ++d) {
    before[d] = chance(40) ? pick(0, 2) : 0;
    after[d] = chance(40) ? pick(0, 2) : 0;
    shape[d] += before[d] + after[d];
  }
  double value = isFloat ? (chance(50) ? 0.0 : 0.25) : double(zeroPoint(x.tensor.kind));
  Tensor y = zeros(shape, x.tensor.kind);
  forEach(shape, [&](const Shape &index) {
    Shape from = index;
    bool inside = true;
    for (size_t d = 0; d < 4; ++d) {
      from[d] -= before[d];
      inside &= from[d] >= 0 && from[d] < x.tensor.shape[d];
    }
    at(y, index) = inside ? at(x.tensor, from) : value;
  });
  mlir::Type element = elementOf(y.kind);
  mlir::TypedAttr attribute = isFloat ? mlir::TypedAttr(b.getF32FloatAttr(float(value))) : mlir::TypedAttr(mlir::IntegerAttr::get(element, llvm::APInt(8, uint64_t(int64_t(value)), y.kind == Kind::I8)));
  push(b.create<graph::PadOp>(where(), typeOf(y), x.ir, b.getDenseI64ArrayAttr(before), b.getDenseI64ArrayAttr(after), attribute), std::move(y));
}

Network Builder::build() {
  Network network;
  nhwc = chance(50);
  int64_t channels = chance(30) ? pick(1, 40) : pick(1, 12), extent = chance(20) ? pick(10, 24) : pick(1, 10);
  Tensor x = randomTensor(image(chance(80) ? 1 : 2, extent, chance(70) ? extent : pick(1, 12), channels), anyKind());
  auto loc = mlir::NameLoc::get(b.getStringAttr("network"));
  network.module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(network.module->getBody());
  auto function = b.create<mlir::func::FuncOp>(loc, "main", b.getFunctionType({typeOf(x)}, {}));
  function.setArgAttr(0, graph::kNameAttr, b.getStringAttr("x"));
  b.setInsertionPointToStart(function.addEntryBlock());
  push(function.getArgument(0), x);
  network.inputs.push_back(x);

  for (int64_t left = pick(1, 4); left > 0; --left) {
    // Large values take the naive loops too long.
    if (countOf(values.back().tensor.shape) > 20000)
      break;
    int64_t roll = pick(0, 99);
    if (roll < 35)
      addConv();
    else if (roll < 45)
      addMatmul();
    else if (roll < 53)
      addMaxPool();
    else if (roll < 61)
      isFloat ? addAveragePool() : addMaxPool();
    else if (roll < 73)
      addSum();
    else if (roll < 80)
      addElementwise();
    else if (roll < 84)
      isFloat ? addSoftmax() : addSum();
    else if (roll < 88)
      addConcat();
    else if (roll < 92)
      addTranspose();
    else if (roll < 96)
      addSlice();
    else
      addPad();
  }
  std::vector<mlir::Value> results{values.back().ir};
  network.outputs.push_back(values.back().tensor);
  // A value in the middle is an output too, now and then.
  if (values.size() > 2 && chance(20)) {
    const Value &middle = values[size_t(pick(1, int64_t(values.size()) - 2))];
    results.push_back(middle.ir);
    network.outputs.push_back(middle.tensor);
  }
  b.create<mlir::func::ReturnOp>(loc, results);
  std::vector<mlir::Type> types;
  for (mlir::Value value : results)
    types.push_back(value.getType());
  function.setType(b.getFunctionType({typeOf(x)}, types));
  for (unsigned i = 0; i < types.size(); ++i)
    function.setResultAttr(i, graph::kNameAttr, b.getStringAttr("y" + std::to_string(i)));
  llvm::raw_string_ostream stream(network.text);
  network.module->print(stream, mlir::OpPrintingFlags().elideLargeElementsAttrs(4));
  return network;
}

} // namespace

Network fuzz::makeNetwork(mlir::MLIRContext &context, uint64_t seed, bool isFloat) { return Builder(context, seed, isFloat).build(); }
