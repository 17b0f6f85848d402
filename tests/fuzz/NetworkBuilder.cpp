//===- NetworkBuilder.cpp - Operators with known results ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/fuzz/NetworkBuilder.h"

#include "compiler/graph/Graph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

using namespace tw;
using namespace tw::fuzz;

int64_t fuzz::countOf(const Shape &shape) {
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

/// As in numpy: dims are counted from the last one.
Shape broadcastShape(const Shape &a, const Shape &b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (const Shape *shape : {&a, &b})
    for (size_t d = 0; d < shape->size(); ++d)
      if (int64_t &dim = result[result.size() - shape->size() + d]; dim == 1)
        dim = (*shape)[d];
  return result;
}
double broadcastAt(const Tensor &tensor, const Shape &index) {
  Shape own(index.end() - long(tensor.shape.size()), index.end());
  for (size_t d = 0; d < own.size(); ++d)
    own[d] = tensor.shape[d] == 1 ? 0 : own[d];
  return at(tensor, own);
}

Tensor softmaxOf(const Tensor &x, size_t axis) {
  Tensor y = x;
  forEach(y.shape, [&](const Shape &index) {
    double sum = 0, largest = -INFINITY;
    Shape other = index;
    for (other[axis] = 0; other[axis] < y.shape[axis]; ++other[axis])
      largest = std::max(largest, at(x, other));
    for (other[axis] = 0; other[axis] < y.shape[axis]; ++other[axis])
      sum += std::exp(at(x, other) - largest);
    at(y, index) = std::exp(at(x, index) - largest) / sum;
  });
  return y;
}

/// Whether fp32 arithmetic may round it to another integer than exact arithmetic does.
bool isNearTie(double value) { return std::abs(value - std::floor(value) - 0.5) < 1e-3; }

Tensor zeros(Shape shape, Kind kind) {
  Tensor tensor{std::move(shape), kind, {}};
  tensor.values.assign(size_t(countOf(tensor.shape)), 0);
  return tensor;
}

} // namespace

/// Calls `body` with the batch, row, column and channel of every element of an image.
template <typename Body> void NetworkBuilder::forEachPixel(const Tensor &y, Body body) const {
  for (int64_t n = 0; n < y.shape[0]; ++n)
    for (int64_t oh = 0; oh < y.shape[size_t(h())]; ++oh)
      for (int64_t ow = 0; ow < y.shape[size_t(w())]; ++ow)
        for (int64_t channel = 0; channel < y.shape[size_t(c())]; ++channel)
          body(n, oh, ow, channel);
}

NetworkBuilder::NetworkBuilder(mlir::MLIRContext &context, uint64_t seed, bool isFloat)
    : b(&context), random(seed), isFloat(isFloat) {
  context.loadDialect<mlir::func::FuncDialect, graph::GraphDialect>();
}

mlir::Type NetworkBuilder::elementOf(Kind kind) {
  return kind == Kind::F32  ? mlir::Type(b.getF32Type())
         : kind == Kind::I8 ? mlir::Type(b.getI8Type())
                            : mlir::Type(b.getIntegerType(8, false));
}

Tensor NetworkBuilder::randomTensor(Shape shape, Kind kind, double scale) {
  Tensor tensor = zeros(std::move(shape), kind);
  for (double &value : tensor.values)
    value = kind == Kind::F32 ? double(float(real() * scale)) : double(pick(int64_t(low(kind)), int64_t(high(kind))));
  return tensor;
}

NetworkBuilder::Value NetworkBuilder::constant(Tensor tensor) {
  std::vector<uint8_t> bytes = tensor.bytes();
  auto op = b.create<graph::ConstantOp>(
      where(),
      mlir::DenseElementsAttr::getFromRawBuffer(typeOf(tensor), {reinterpret_cast<const char *>(bytes.data()), bytes.size()}));
  return {op, std::move(tensor)};
}

mlir::Value NetworkBuilder::int32Constant(const std::vector<int32_t> &numbers) {
  return b.create<graph::ConstantOp>(
      where(), mlir::DenseIntElementsAttr::get(mlir::RankedTensorType::get({int64_t(numbers.size())}, b.getI32Type()),
                                               llvm::ArrayRef(numbers)));
}

NetworkBuilder::Value NetworkBuilder::finish(mlir::Value sum, Tensor sums, int channel) {
  int64_t channels = sums.shape[channel];
  size_t inner = 1;
  for (size_t d = channel + 1; d < sums.shape.size(); ++d)
    inner *= size_t(sums.shape[d]);
  auto channelOf = [&](size_t i) { return i / inner % size_t(channels); };
  if (isFloat)
    return {sum, std::move(sums)};
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
  return {op, std::move(y)};
}

Tensor NetworkBuilder::convolved(const Tensor &x, double xZero, const Tensor &weights, const Window &window,
                                 int64_t groups) const {
  auto [kh, kw] = window.kernel;
  const int64_t outChannels = weights.shape[nhwc ? 3 : 0], depth = x.shape[c()] / groups, perGroup = outChannels / groups;
  Tensor y =
      zeros(image(x.shape[0], outputOf(window, x.shape[h()], 0), outputOf(window, x.shape[w()], 1), outChannels), Kind::F32);
  auto weightAt = [&, kw = kw, kh = kh](int64_t i, int64_t j, int64_t d, int64_t o) {
    return weights.values[size_t(nhwc ? ((i * kw + j) * depth + d) * outChannels + o : ((o * depth + d) * kh + i) * kw + j)];
  };
  forEachPixel(y, [&](int64_t n, int64_t oh, int64_t ow, int64_t o) {
    double sum = 0;
    taps(window, x, oh, ow, [&](int64_t i, int64_t j, int64_t ih, int64_t iw) {
      for (int64_t d = 0; d < depth; ++d)
        sum += (x.values[size_t(place(x, n, ih, iw, o / perGroup * depth + d))] - xZero) * weightAt(i, j, d, o);
    });
    y.values[size_t(place(y, n, oh, ow, o))] = sum;
  });
  return y;
}

NetworkBuilder::Value NetworkBuilder::conv(const Value &input, const Window &window, int64_t outChannels, int64_t groups) {
  const Tensor &x = input.tensor;
  int64_t depth = x.shape[c()] / groups;
  auto [kh, kw] = window.kernel;
  Kind kind = isFloat ? Kind::F32 : chance(70) ? Kind::I8 : Kind::U8;
  Tensor weights = randomTensor(nhwc ? Shape{kh, kw, depth, outChannels} : Shape{outChannels, depth, kh, kw}, kind,
                                1.5 / std::sqrt(double(kh * kw * depth)));
  int32_t xZero = isFloat ? 0 : zeroPoint(x.kind);
  std::vector<int32_t> wZeros{isFloat || chance(60) ? 0 : zeroPoint(kind)};
  if (!isFloat && chance(15)) { // as differences fit 8 bits, which the compiler asks for
    const double middle = kind == Kind::I8 ? 0 : 128;
    wZeros.clear();
    for (int64_t o = 0; o < outChannels; ++o)
      wZeros.push_back(int32_t(middle) + int32_t(pick(-60, 60)));
    for (double &value : weights.values)
      value = std::clamp(value, middle - 60, middle + 60);
  }
  bool hasBias = isFloat && chance(70);
  Tensor biasTensor = randomTensor({outChannels}, Kind::F32);
  Tensor differences = weights;
  forEach(weights.shape, [&](const Shape &index) {
    at(differences, index) -= wZeros[wZeros.size() > 1 ? size_t(nhwc ? index[3] : index[0]) : 0];
  });
  Tensor y = convolved(x, xZero, differences, window, groups);
  if (hasBias)
    forEachPixel(y, [&](int64_t n, int64_t oh, int64_t ow, int64_t o) {
      y.values[size_t(place(y, n, oh, ow, o))] += biasTensor.values[size_t(o)];
    });
  auto strides = b.getDenseI64ArrayAttr(window.strides), pads = b.getDenseI64ArrayAttr(window.pads),
       dilations = b.getDenseI64ArrayAttr(window.dilations);
  mlir::Value weight = constant(weights).ir, sum;
  if (isFloat)
    sum = b.create<graph::ConvOp>(where(), typeOf(y), input.ir, weight, hasBias ? constant(biasTensor).ir : mlir::Value(),
                                  strides, pads, dilations, groups, layout());
  else
    sum = b.create<graph::ConvIntegerOp>(where(), mlir::RankedTensorType::get(y.shape, b.getI32Type()), input.ir, weight, xZero,
                                         b.getDenseI32ArrayAttr(wZeros), strides, pads, dilations, groups, layout());
  return finish(sum, std::move(y), c());
}

Tensor NetworkBuilder::multiplied(const Tensor &a, double aZero, const Tensor &weights, double bZero) const {
  const int64_t m = a.shape[0], k = a.shape[1], n = weights.shape[1];
  Tensor y = zeros({m, n}, Kind::F32);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t d = 0; d < k; ++d)
        y.values[size_t(i * n + j)] += (a.values[size_t(i * k + d)] - aZero) * (weights.values[size_t(d * n + j)] - bZero);
  return y;
}

NetworkBuilder::Value NetworkBuilder::matmul(const Value &a, int64_t n) {
  const int64_t k = a.tensor.shape[1];
  Kind kind = isFloat ? Kind::F32 : chance(70) ? Kind::I8 : Kind::U8;
  Tensor weights = randomTensor({k, n}, kind, 1.5 / std::sqrt(double(k)));
  int32_t aZero = isFloat ? 0 : zeroPoint(a.tensor.kind), bZero = isFloat || chance(50) ? 0 : zeroPoint(kind);
  Tensor y = multiplied(a.tensor, aZero, weights, bZero);
  mlir::Value sum;
  if (isFloat)
    sum = b.create<graph::MatmulOp>(where(), typeOf(y), a.ir, constant(weights).ir);
  else
    sum = b.create<graph::MatmulIntegerOp>(where(), mlir::RankedTensorType::get(y.shape, b.getI32Type()), a.ir,
                                           constant(weights).ir, aZero, b.getDenseI32ArrayAttr({bZero}));
  return finish(sum, std::move(y), 1);
}

NetworkBuilder::Value NetworkBuilder::product(const Value &a, const Value &other) {
  const Shape &p = a.tensor.shape, &q = other.tensor.shape;
  const int64_t m = *(p.end() - 2), k = p.back(), n = q.back();
  const double aZero = isFloat ? 0 : zeroPoint(a.tensor.kind), bZero = isFloat ? 0 : zeroPoint(other.tensor.kind);
  Shape shape = broadcastShape({p.begin(), p.end() - 2}, {q.begin(), q.end() - 2});
  shape.insert(shape.end(), {m, n});
  Tensor y = zeros(shape, Kind::F32);
  forEach(shape, [&](const Shape &index) {
    Shape left = index, right = index;
    for (int64_t d = 0; d < k; ++d) {
      left.back() = *(right.end() - 2) = d;
      at(y, index) += (broadcastAt(a.tensor, left) - aZero) * (broadcastAt(other.tensor, right) - bZero);
    }
  });
  mlir::Value sum;
  if (isFloat)
    sum = b.create<graph::MatmulOp>(where(), typeOf(y), a.ir, other.ir);
  else
    sum = b.create<graph::MatmulIntegerOp>(where(), mlir::RankedTensorType::get(y.shape, b.getI32Type()), a.ir, other.ir,
                                           int32_t(aZero), b.getDenseI32ArrayAttr({int32_t(bZero)}));
  const int last = int(y.shape.size()) - 1;
  return finish(sum, std::move(y), last);
}

NetworkBuilder::Value NetworkBuilder::maxPool(const Value &input, const Window &window) {
  const Tensor &x = input.tensor;
  Tensor y =
      zeros(image(x.shape[0], outputOf(window, x.shape[h()], 0), outputOf(window, x.shape[w()], 1), x.shape[c()]), x.kind);
  forEachPixel(y, [&](int64_t n, int64_t oh, int64_t ow, int64_t channel) {
    double best = -INFINITY;
    taps(window, x, oh, ow, [&](int64_t, int64_t, int64_t ih, int64_t iw) {
      best = std::max(best, x.values[size_t(place(x, n, ih, iw, channel))]);
    });
    y.values[size_t(place(y, n, oh, ow, channel))] = best;
  });
  auto op = b.create<graph::MaxPoolOp>(where(), typeOf(y), input.ir, b.getDenseI64ArrayAttr(window.kernel),
                                       b.getDenseI64ArrayAttr(window.strides), b.getDenseI64ArrayAttr(window.pads),
                                       b.getDenseI64ArrayAttr(window.dilations), layout());
  return {op, std::move(y)};
}

Tensor NetworkBuilder::averaged(const Tensor &x, double zero, const Window &window, bool includePad) const {
  Tensor y =
      zeros(image(x.shape[0], outputOf(window, x.shape[h()], 0), outputOf(window, x.shape[w()], 1), x.shape[c()]), x.kind);
  forEachPixel(y, [&](int64_t n, int64_t oh, int64_t ow, int64_t channel) {
    double sum = 0, count = 0;
    taps(window, x, oh, ow, [&](int64_t, int64_t, int64_t ih, int64_t iw) {
      sum += x.values[size_t(place(x, n, ih, iw, channel))] - zero;
      ++count;
    });
    y.values[size_t(place(y, n, oh, ow, channel))] = sum / (includePad ? double(window.kernel[0] * window.kernel[1]) : count);
  });
  return y;
}

NetworkBuilder::Value NetworkBuilder::averagePool(const Value &input, const Window &window, bool includePad) {
  Tensor y = averaged(input.tensor, 0, window, includePad);
  auto op = b.create<graph::AveragePoolOp>(where(), typeOf(y), input.ir, b.getDenseI64ArrayAttr(window.kernel),
                                           b.getDenseI64ArrayAttr(window.strides), b.getDenseI64ArrayAttr(window.pads),
                                           includePad, layout());
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::globalAveragePool(const Value &input) {
  const Tensor &x = input.tensor;
  if (isFloat) {
    Window whole;
    whole.kernel = {x.shape[h()], x.shape[w()]};
    return averagePool(input, whole, false);
  }
  const int64_t extent = x.shape[h()] * x.shape[w()];
  float xScale = float(0.01 + 0.05 * std::abs(real())), yScale = float(0.01 + 0.02 * std::abs(real()));
  int32_t xZero = zeroPoint(x.kind), yZero = zeroPoint(x.kind);
  const float multiplier = xScale / float(yScale * float(extent));
  Tensor y = zeros(image(x.shape[0], 1, 1, x.shape[c()]), x.kind);
  forEachPixel(y, [&](int64_t n, int64_t, int64_t, int64_t channel) {
    int32_t sum = 0;
    for (int64_t ih = 0; ih < x.shape[h()]; ++ih)
      for (int64_t iw = 0; iw < x.shape[w()]; ++iw)
        sum += int32_t(x.values[size_t(place(x, n, ih, iw, channel))]) - xZero;
    const double rounded = double(std::nearbyint(float(sum) * multiplier));
    y.values[size_t(place(y, n, 0, 0, channel))] = std::clamp(rounded + yZero, low(y.kind), high(y.kind));
  });
  auto op = b.create<graph::QLinearGlobalAveragePoolOp>(where(), typeOf(y), input.ir, llvm::APFloat(xScale), uint32_t(xZero),
                                                        llvm::APFloat(yScale), uint32_t(yZero), layout());
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::binary(Binary which, const Value &a, const Value &other) {
  Tensor y = zeros(broadcastShape(a.tensor.shape, other.tensor.shape), a.tensor.kind);
  if (y.kind == Kind::F32) {
    forEach(y.shape, [&](const Shape &index) {
      double p = broadcastAt(a.tensor, index), q = broadcastAt(other.tensor, index);
      switch (which) {
      case Binary::Add:
        at(y, index) = p + q;
        break;
      case Binary::Sub:
        at(y, index) = p - q;
        break;
      case Binary::Mul:
        at(y, index) = p * q;
        break;
      case Binary::Min:
        at(y, index) = std::min(p, q);
        break;
      case Binary::Max:
        at(y, index) = std::max(p, q);
        break;
      case Binary::Div:
        at(y, index) = p / q;
        break;
      }
    });
    auto make = [&](auto zero) { return mlir::Value(b.create<decltype(zero)>(where(), typeOf(y), a.ir, other.ir)); };
    mlir::Value ir = which == Binary::Add   ? make(graph::AddOp())
                     : which == Binary::Sub ? make(graph::SubOp())
                     : which == Binary::Mul ? make(graph::MulOp())
                     : which == Binary::Min ? make(graph::MinOp())
                     : which == Binary::Max ? make(graph::MaxOp())
                                            : make(graph::DivOp());
    return {ir, std::move(y)};
  }
  assert(which == Binary::Add && "no other operator of integers");
  float aScale = float(0.01 + 0.05 * std::abs(real())), bScale = float(0.01 + 0.05 * std::abs(real())),
        yScale = float(0.02 + 0.08 * std::abs(real()));
  int32_t aZero = zeroPoint(y.kind), bZero = zeroPoint(y.kind), yZero = zeroPoint(y.kind);
  float ra = aScale / yScale, rb = bScale / yScale;
  float offset = float(yZero) - std::fma(ra, float(aZero), rb * float(bZero));
  forEach(y.shape, [&](const Shape &index) {
    float sum =
        std::fma(float(broadcastAt(a.tensor, index)), ra, std::fma(float(broadcastAt(other.tensor, index)), rb, offset));
    at(y, index) = std::clamp(double(std::nearbyint(sum)), low(y.kind), high(y.kind));
  });
  auto op = b.create<graph::QLinearAddOp>(where(), typeOf(y), a.ir, other.ir, b.getF32FloatAttr(aScale),
                                          b.getI32IntegerAttr(aZero), b.getF32FloatAttr(bScale), b.getI32IntegerAttr(bZero),
                                          b.getF32FloatAttr(yScale), b.getI32IntegerAttr(yZero));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::unary(const Value &x, int64_t which) {
  Tensor y = x.tensor;
  auto apply = [&](auto function) {
    for (double &value : y.values)
      value = function(value);
  };
  mlir::Value ir;
  mlir::Type type = typeOf(y);
  switch (which) {
  case 0:
    apply([](double v) { return std::max(v, 0.0); });
    ir = b.create<graph::ReluOp>(where(), type, x.ir);
    break;
  case 1: {
    const bool ofFloats = y.kind == Kind::F32;
    float bottom = ofFloats ? -0.5f : float(pick(-50, 0)), top = ofFloats ? 0.75f : float(pick(20, 100));
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
  case 6:
    apply([](double v) { return std::clamp(0.2 * v + 0.4, 0.0, 1.0); });
    ir = b.create<graph::HardSigmoidOp>(where(), type, x.ir, llvm::APFloat(0.2f), llvm::APFloat(0.4f));
    break;
  case 7: { // what is read twice meets what is made of it
    apply([](double v) { return v / (1 + std::exp(-v)); });
    mlir::Value share = b.create<graph::SigmoidOp>(where(), type, x.ir);
    ir = b.create<graph::MulOp>(where(), type, x.ir, share);
    break;
  }
  case 8: { // two ways part and meet again
    apply([](double v) { return std::max(v, 0.0) + std::tanh(v); });
    mlir::Value relu = b.create<graph::ReluOp>(where(), type, x.ir), tanh = b.create<graph::TanhOp>(where(), type, x.ir);
    ir = b.create<graph::AddOp>(where(), type, relu, tanh);
    break;
  }
  case 9:
    apply([](double v) { return std::abs(v); });
    ir = b.create<graph::AbsOp>(where(), type, x.ir);
    break;
  case 10:
    apply([](double v) { return -v; });
    ir = b.create<graph::NegOp>(where(), type, x.ir);
    break;
  default:
    apply([](double v) { return std::erf(v); });
    ir = b.create<graph::ErfOp>(where(), type, x.ir);
    break;
  }
  return {ir, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::exp(const Value &x) {
  Tensor y = x.tensor;
  for (double &value : y.values)
    value = std::exp(value);
  auto op = b.create<graph::ExpOp>(where(), typeOf(y), x.ir);
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::root(const Value &x, float offset) {
  Tensor y = x.tensor;
  for (double &value : y.values)
    value = std::sqrt(std::abs(value) + double(offset));
  mlir::Value magnitude = b.create<graph::AbsOp>(where(), typeOf(y), x.ir);
  mlir::Value sum = b.create<graph::AddOp>(where(), typeOf(y), magnitude, constant({{}, Kind::F32, {double(offset)}}).ir);
  auto op = b.create<graph::SqrtOp>(where(), typeOf(y), sum);
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::batchNorm(const Value &x) {
  const float epsilon = 1e-3f;
  const Shape channels{x.tensor.shape[1]};
  Tensor scale = randomTensor(channels, Kind::F32), bias = randomTensor(channels, Kind::F32),
         mean = randomTensor(channels, Kind::F32), variance = randomTensor(channels, Kind::F32, 0.5);
  for (double &value : variance.values)
    value += 1;
  Tensor y = x.tensor;
  forEach(y.shape, [&](const Shape &index) {
    const auto channel = size_t(index[1]);
    at(y, index) = (at(x.tensor, index) - mean.values[channel]) / std::sqrt(variance.values[channel] + double(epsilon)) *
                       scale.values[channel] +
                   bias.values[channel];
  });
  auto op = b.create<graph::BatchNormOp>(where(), typeOf(y), x.ir, constant(scale).ir, constant(bias).ir, constant(mean).ir,
                                         constant(variance).ir, llvm::APFloat(epsilon));
  return {op, std::move(y)};
}

std::optional<NetworkBuilder::Value> NetworkBuilder::quantisedAveragePool(const Value &x, const Window &window,
                                                                          bool includePad) {
  const float xScale = float(0.01 + 0.05 * std::abs(real())), yScale = float(0.01 + 0.05 * std::abs(real()));
  const int32_t xZero = zeroPoint(x.tensor.kind), yZero = zeroPoint(x.tensor.kind);
  Tensor y = averaged(x.tensor, xZero, window, includePad);
  for (double &value : y.values) {
    value = value * double(xScale) / double(yScale);
    if (isNearTie(value))
      return std::nullopt;
    value = std::clamp(std::nearbyint(value) + yZero, low(y.kind), high(y.kind));
  }
  auto op = b.create<graph::QLinearAveragePoolOp>(where(), typeOf(y), x.ir, window.kernel, window.strides, window.pads,
                                                  includePad, llvm::APFloat(xScale), uint32_t(xZero), llvm::APFloat(yScale),
                                                  uint32_t(yZero), layout());
  return Value{op, std::move(y)};
}

std::optional<NetworkBuilder::Value> NetworkBuilder::quantisedSoftmax(const Value &x, size_t axis) {
  const float xScale = float(0.005 + 0.02 * std::abs(real())), yScale = std::ldexp(1.0f, int(pick(-8, -6)));
  const int32_t xZero = zeroPoint(x.tensor.kind), yZero = zeroPoint(x.tensor.kind);
  Tensor scaled = x.tensor;
  for (double &value : scaled.values)
    value = (value - xZero) * double(xScale);
  Tensor y = softmaxOf(scaled, axis);
  for (double &value : y.values) {
    value /= double(yScale);
    if (isNearTie(value))
      return std::nullopt;
    value = std::clamp(std::nearbyint(value) + yZero, low(y.kind), high(y.kind));
  }
  auto op = b.create<graph::QLinearSoftmaxOp>(where(), typeOf(y), x.ir, int64_t(axis), llvm::APFloat(xScale), uint32_t(xZero),
                                              llvm::APFloat(yScale), uint32_t(yZero), /*opset=*/13);
  return Value{op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::softmax(const Value &x, size_t axis) {
  Tensor y = softmaxOf(x.tensor, axis);
  auto op = b.create<graph::SoftmaxOp>(where(), typeOf(y), x.ir, int64_t(axis));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::reduce(const Value &x, llvm::StringRef kind, const Shape &axes, bool keepdims) {
  Shape shape = x.tensor.shape;
  double count = 1;
  for (int64_t axis : axes)
    count *= double(std::exchange(shape[size_t(axis)], 1));
  Tensor y = zeros(shape, x.tensor.kind);
  if (kind == "max")
    std::fill(y.values.begin(), y.values.end(), -INFINITY);
  forEach(x.tensor.shape, [&](const Shape &index) {
    Shape to = index;
    for (int64_t axis : axes)
      to[size_t(axis)] = 0;
    double &result = at(y, to);
    result = kind == "max" ? std::max(result, at(x.tensor, index)) : result + at(x.tensor, index);
  });
  if (kind == "mean")
    for (double &value : y.values)
      value /= count;
  for (int64_t axis : llvm::reverse(axes))
    if (!keepdims)
      y.shape.erase(y.shape.begin() + axis);
  auto op = b.create<graph::ReduceOp>(where(), typeOf(y), x.ir, kind, axes, keepdims);
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::dequantisedConv(const Value &x, const Window &window, int64_t outChannels,
                                                      int64_t groups) {
  const Value weights =
      dequantisedWeights({outChannels, x.tensor.shape[c()] / groups, window.kernel[0], window.kernel[1]}, /*axis=*/0);
  Tensor y = convolved(x.tensor, 0, weights.tensor, window, groups);
  auto op =
      b.create<graph::ConvOp>(where(), typeOf(y), x.ir, weights.ir, mlir::Value(), b.getDenseI64ArrayAttr(window.strides),
                              b.getDenseI64ArrayAttr(window.pads), b.getDenseI64ArrayAttr(window.dilations), groups, layout());
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::dequantisedMatmul(const Value &a, int64_t n) {
  const Value weights = dequantisedWeights({a.tensor.shape[1], n}, /*axis=*/1);
  Tensor y = multiplied(a.tensor, 0, weights.tensor, 0);
  auto op = b.create<graph::MatmulOp>(where(), typeOf(y), a.ir, weights.ir);
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::dequantisedWeights(const Shape &shape, size_t axis) {
  Quantisation q;
  q.axis = axis;
  for (int64_t i = chance(50) ? 1 : shape[axis]; i > 0; --i) {
    q.scales.push_back(std::ldexp(1.0f, int(pick(-9, -7))));
    q.zeroPoints.push_back(0);
  }
  return dequantize(constant(randomTensor(shape, Kind::I8)), q);
}

NetworkBuilder::Quantisation NetworkBuilder::randomQuantisation(const Shape &shape, Kind kind, int exponent, bool perTensor) {
  Quantisation result;
  result.axis = size_t(pick(0, int64_t(shape.size()) - 1));
  const bool hasOwnPoints = chance(30);
  for (int64_t i = perTensor || chance(70) ? 1 : shape[result.axis]; i > 0; --i) {
    result.scales.push_back(std::ldexp(1.0f, exponent + int(pick(-1, 1))));
    result.zeroPoints.push_back(result.zeroPoints.empty() || hasOwnPoints ? zeroPoint(kind) : result.zeroPoints[0]);
  }
  return result;
}

NetworkBuilder::Value NetworkBuilder::dequantize(const Value &x, bool perTensor) {
  return dequantize(x, randomQuantisation(x.tensor.shape, x.tensor.kind, -5, perTensor));
}

NetworkBuilder::Value NetworkBuilder::dequantize(const Value &x, const Quantisation &q) {
  Tensor y = zeros(x.tensor.shape, Kind::F32);
  forEach(y.shape, [&](const Shape &index) {
    const size_t i = q.scales.size() > 1 ? size_t(index[q.axis]) : 0;
    at(y, index) = (at(x.tensor, index) - q.zeroPoints[i]) * double(q.scales[i]);
  });
  auto op = b.create<graph::DequantizeOp>(where(), typeOf(y), x.ir, b.getDenseF32ArrayAttr(q.scales),
                                          b.getDenseI32ArrayAttr(q.zeroPoints), int64_t(q.axis));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::quantize(const Value &x) {
  double largest = 0;
  for (double value : x.tensor.values)
    largest = std::max(largest, std::abs(value));
  Tensor y = zeros(x.tensor.shape, anyKind());
  const Quantisation q = randomQuantisation(y.shape, y.kind, std::ilogb(std::max(largest, 1e-3)) - 7, /*perTensor=*/false);
  forEach(y.shape, [&](const Shape &index) {
    const size_t i = q.scales.size() > 1 ? size_t(index[q.axis]) : 0;
    at(y, index) =
        std::clamp(std::nearbyint(at(x.tensor, index) / double(q.scales[i])) + q.zeroPoints[i], low(y.kind), high(y.kind));
  });
  auto op = b.create<graph::QuantizeOp>(where(), typeOf(y), x.ir, b.getDenseF32ArrayAttr(q.scales),
                                        b.getDenseI32ArrayAttr(q.zeroPoints), int64_t(q.axis));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::layerNorm(const Value &x, size_t axis) {
  Tensor y = x.tensor;
  const float epsilon = 1e-3f;
  size_t count = 1;
  for (size_t d = axis; d < y.shape.size(); ++d)
    count *= size_t(y.shape[d]);
  for (auto first = y.values.begin(); first != y.values.end(); first += count) {
    double mean = 0, variance = 0;
    for (auto i = first; i != first + count; ++i)
      mean += *i / double(count);
    for (auto i = first; i != first + count; ++i)
      variance += (*i - mean) * (*i - mean) / double(count);
    for (auto i = first; i != first + count; ++i)
      *i = (*i - mean) / std::sqrt(variance + double(epsilon));
  }
  auto op = b.create<graph::LayerNormOp>(where(), typeOf(y), x.ir, int64_t(axis), llvm::APFloat(epsilon));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::concat(const std::vector<Value> &parts, size_t axis) {
  Shape shape = parts.front().tensor.shape;
  shape[axis] = 0;
  for (const Value &part : parts)
    shape[axis] += part.tensor.shape[axis];
  Tensor y = zeros(shape, parts.front().tensor.kind);
  std::vector<mlir::Value> inputs;
  int64_t first = 0;
  for (const Value &part : parts) {
    forEach(part.tensor.shape, [&](const Shape &index) {
      Shape to = index;
      to[axis] += first;
      at(y, to) = at(part.tensor, index);
    });
    first += part.tensor.shape[axis];
    inputs.push_back(part.ir);
  }
  auto op = b.create<graph::ConcatOp>(where(), typeOf(y), inputs, int64_t(axis));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::transpose(const Value &x, std::array<int64_t, 4> perm) {
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
  auto op = b.create<graph::TransposeOp>(where(), typeOf(y), x.ir, b.getDenseI64ArrayAttr(perm));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::slice(const Value &x, std::array<int64_t, 4> starts, std::array<int64_t, 4> steps,
                                            Shape shape) {
  Tensor y = zeros(shape, x.tensor.kind);
  forEach(shape, [&](const Shape &index) {
    Shape from = index;
    for (size_t d = 0; d < 4; ++d)
      from[d] = starts[d] + index[d] * steps[d];
    at(y, index) = at(x.tensor, from);
  });
  auto op = b.create<graph::SliceOp>(where(), typeOf(y), x.ir, b.getDenseI64ArrayAttr(starts), b.getDenseI64ArrayAttr(steps));
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::pad(const Value &x, std::array<int64_t, 4> before, std::array<int64_t, 4> after,
                                          double value) {
  Shape shape = x.tensor.shape;
  for (size_t d = 0; d < 4; ++d)
    shape[d] += before[d] + after[d];
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
  auto attribute =
      isFloat ? mlir::TypedAttr(b.getF32FloatAttr(float(value)))
              : mlir::TypedAttr(mlir::IntegerAttr::get(element, llvm::APInt(8, uint64_t(int64_t(value)), y.kind == Kind::I8)));
  auto op = b.create<graph::PadOp>(where(), typeOf(y), x.ir, b.getDenseI64ArrayAttr(before), b.getDenseI64ArrayAttr(after),
                                   attribute);
  return {op, std::move(y)};
}

NetworkBuilder::Value NetworkBuilder::reshape(const Value &x, Shape shape) {
  Tensor y = x.tensor;
  y.shape = std::move(shape);
  auto op = b.create<graph::ReshapeOp>(where(), typeOf(y), x.ir);
  return {op, std::move(y)};
}

void NetworkBuilder::begin(Network &network, std::vector<Tensor> inputs) {
  auto loc = mlir::NameLoc::get(b.getStringAttr("network"));
  network.module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(network.module->getBody());
  std::vector<mlir::Type> types;
  for (const Tensor &input : inputs)
    types.push_back(typeOf(input));
  auto function = b.create<mlir::func::FuncOp>(loc, "main", b.getFunctionType(types, {}));
  b.setInsertionPointToStart(function.addEntryBlock());
  for (unsigned i = 0; i < inputs.size(); ++i) {
    function.setArgAttr(i, graph::kNameAttr, b.getStringAttr(i ? "x" + std::to_string(i) : "x"));
    network.inputs.push_back(inputs[i]);
    values.push_back({function.getArgument(i), std::move(inputs[i])});
  }
}

void NetworkBuilder::end(Network &network, bool withUnread) {
  std::vector<mlir::Value> results;
  auto add = [&](const Value &value) {
    results.push_back(value.ir);
    network.outputs.push_back(value.tensor);
  };
  add(values.back());
  const auto numInputs = int64_t(network.inputs.size());
  if (int64_t(values.size()) > numInputs + 1 && chance(20))
    add(values[size_t(pick(numInputs, int64_t(values.size()) - 2))]);
  for (const Value &value : llvm::drop_end(llvm::ArrayRef(values).drop_front(size_t(numInputs))))
    if (withUnread && value.ir.use_empty() && !llvm::is_contained(results, value.ir))
      add(value);
  b.create<mlir::func::ReturnOp>(network.module->getLoc(), results);
  std::vector<mlir::Type> types;
  for (mlir::Value value : results)
    types.push_back(value.getType());
  auto function = *network.module->getOps<mlir::func::FuncOp>().begin();
  function.setType(b.getFunctionType(function.getArgumentTypes(), types));
  for (unsigned i = 0; i < types.size(); ++i)
    function.setResultAttr(i, graph::kNameAttr, b.getStringAttr("y" + std::to_string(i)));
  llvm::raw_string_ostream stream(network.text);
  network.module->print(stream, mlir::OpPrintingFlags().elideLargeElementsAttrs(4));
}
