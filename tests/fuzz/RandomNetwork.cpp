//===- RandomNetwork.cpp - Small networks with known results --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/fuzz/RandomNetwork.h"

#include "tests/fuzz/NetworkBuilder.h"

#include <algorithm>
#include <cmath>

using namespace tw;
using namespace tw::fuzz;

namespace {

/// The largest magnitude.
double largest(llvm::ArrayRef<double> values) {
  double result = 0;
  for (double value : values)
    result = std::max(result, std::abs(value));
  return result;
}

/// Operators, each of the last value or, where there are branches, of any. Every value has four dims, but for what is on its way to them.
class OperatorBuilder : public NetworkBuilder {
public:
  OperatorBuilder(mlir::MLIRContext &context, uint64_t seed, bool isFloat, bool branches)
      : NetworkBuilder(context, seed, isFloat), branches(branches) {}
  Network build();
  Network buildReductions();

private:
  /// A window that fits a height x width image, every position of which has a tap inside.
  Window randomWindow(bool dilated);
  void addConv();
  void addMatmul();
  void addAveragePool();
  void addSum();
  void addConcat();
  void addTranspose();
  void addSlice();
  void addPad();
  void addReduction(bool keepdims = true);
  void addLayerNorm();
  void addProduct();
  void addFunction();
  void addRounded();
  /// A few sums, products and the like of dequantised integers, as long as floats are exact, and what they give quantised again.
  void addFloats();
  /// A convolution or product between dequantised and quantised values, and what may be added to it.
  void addQuantised();
  /// The latest value beside x of its type and rank whose dims are all accepted; nothing if there is none.
  Value another(llvm::function_ref<bool(size_t dim, int64_t extent)> accepts) const;
  void push(Value value) { values.push_back(std::move(value)); }
  /// A sum of floats, unless most of it cancels out: what is left is made of rounding errors.
  void pushSum(Value sum) {
    if (!isFloat || largest(sum.tensor.values) >= 0.15 * largest(x.tensor.values))
      push(std::move(sum));
  }

  const bool branches;
  Value x; ///< what the next operator reads
};

Window OperatorBuilder::randomWindow(bool dilated) {
  Window window;
  int64_t extents[2] = {x.tensor.shape[size_t(h())], x.tensor.shape[size_t(w())]};
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

void OperatorBuilder::addConv() {
  int64_t inChannels = x.tensor.shape[size_t(c())];
  Window window = randomWindow(true);
  int64_t groups = chance(60) ? 1 : inChannels;
  if (groups > 1 && chance(30))
    for (int64_t divisor = 2; divisor < inChannels; ++divisor)
      if (inChannels % divisor == 0) {
        groups = divisor;
        break;
      }
  int64_t outChannels = groups == 1 ? pick(1, chance(20) ? 40 : 12) : groups * pick(1, 2);
  pushSum(conv(x, window, outChannels, groups));
}

void OperatorBuilder::addMatmul() {
  const Shape &shape = x.tensor.shape;
  int64_t n = pick(1, chance(20) ? 70 : 20), k = chance(50) ? shape[3] : countOf(shape) / shape[0];
  pushSum(reshape(matmul(reshape(x, {countOf(shape) / k, k}), n), {1, 1, countOf(shape) / k, n}));
}

void OperatorBuilder::addAveragePool() {
  Window window = randomWindow(false);
  bool includePad = chance(50);
  push(averagePool(x, window, includePad));
}

OperatorBuilder::Value OperatorBuilder::another(llvm::function_ref<bool(size_t dim, int64_t extent)> accepts) const {
  for (const Value &other : llvm::reverse(values)) {
    const Shape &shape = other.tensor.shape;
    if (other.ir == x.ir || other.tensor.kind != x.tensor.kind || shape.size() != x.tensor.shape.size())
      continue;
    if (llvm::all_of(llvm::enumerate(shape), [&](auto dim) { return accepts(dim.index(), dim.value()); }))
      return other;
  }
  return {};
}

/// With another value, or a constant, of the same type or one that broadcasts.
void OperatorBuilder::addSum() {
  const bool mayBroadcast = branches && chance(50);
  Value other = another([&](size_t dim, int64_t extent) {
    const int64_t own = x.tensor.shape[dim];
    return extent == own || (mayBroadcast && (extent == 1 || own == 1));
  });
  const auto which = isFloat ? Binary(pick(0, 4)) : Binary::Add;
  if (other.ir && chance(70))
    return pushSum(binary(which, x, other));
  Shape shape = x.tensor.shape;
  for (int64_t &dim : shape)
    if (chance(40))
      dim = 1;
  while (branches && !shape.empty() && shape.front() == 1 && chance(50))
    shape.erase(shape.begin());
  Tensor numbers = randomTensor(shape, x.tensor.kind);
  if (branches && isFloat && chance(15)) {
    for (double &number : numbers.values)
      number = double(float(std::copysign(0.5 + std::abs(number), number)));
    return push(binary(Binary::Div, x, constant(numbers)));
  }
  other = constant(numbers);
  pushSum(branches && chance(30) ? binary(which, other, x) : binary(which, x, other));
}

void OperatorBuilder::addConcat() {
  auto axis = size_t(pick(0, 3));
  Value other = another([&](size_t dim, int64_t extent) { return dim == axis || extent == x.tensor.shape[dim]; });
  if (!other.ir) {
    Shape shape = x.tensor.shape;
    shape[axis] = pick(1, 5);
    other = constant(randomTensor(shape, x.tensor.kind));
  }
  push(concat({x, other}, axis));
}

/// Of floats, what is not in chains.
void OperatorBuilder::addFunction() {
  const double most = largest(x.tensor.values);
  if (chance(40))
    push(batchNorm(x));
  else if (chance(50) && most < 2) // errors grow as the function does
    push(exp(x));
  else
    push(root(x, float(most / 4 + 0.1)));
}

void OperatorBuilder::addTranspose() {
  std::array<int64_t, 4> perm{0, 1, 2, 3};
  std::shuffle(perm.begin(), perm.end(), random);
  push(transpose(x, perm));
}

void OperatorBuilder::addSlice() {
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
  push(slice(x, starts, steps, shape));
}

void OperatorBuilder::addPad() {
  std::array<int64_t, 4> before{}, after{};
  for (size_t d = 0; d < 4; ++d) {
    before[d] = chance(40) ? pick(0, 2) : 0;
    after[d] = chance(40) ? pick(0, 2) : 0;
  }
  push(pad(x, before, after, isFloat ? (chance(50) ? 0.0 : 0.25) : double(zeroPoint(x.tensor.kind))));
}

void OperatorBuilder::addReduction(bool keepdims) {
  Shape axes;
  for (int64_t axis = 0; axis < 4; ++axis)
    if (chance(40))
      axes.push_back(axis);
  if (axes.empty())
    axes.push_back(3);
  constexpr const char *kKinds[] = {"sum", "mean", "max"};
  const std::string kind = isFloat ? kKinds[pick(0, 2)] : "max";
  // What cancels out is made of rounding errors.
  const Value sum = reduce(x, "sum", axes);
  const double count = double(countOf(x.tensor.shape)) / double(countOf(sum.tensor.shape));
  const bool cancels = largest(sum.tensor.values) < 0.2 * std::sqrt(count) * largest(x.tensor.values);
  push(reduce(x, cancels ? "max" : kind, axes, keepdims));
}

/// If all rows differ from their means by more than their own rounding.
void OperatorBuilder::addLayerNorm() {
  const auto axis = size_t(pick(1, 3));
  Value y = layerNorm(x, axis);
  const size_t row =
      y.tensor.values.size() / size_t(countOf(Shape(y.tensor.shape.begin(), y.tensor.shape.begin() + long(axis))));
  for (llvm::ArrayRef<double> left = x.tensor.values; !left.empty(); left = left.drop_front(row)) {
    const llvm::ArrayRef<double> values = left.take_front(row);
    double mean = 0, variance = 0;
    for (double value : values)
      mean += value / double(row);
    for (double value : values)
      variance += (value - mean) * (value - mean) / double(row);
    if (std::sqrt(variance) < 0.2 * largest(values))
      return;
  }
  push(std::move(y));
}

/// What integer networks compute in floats, if it is far enough from where its rounding changes.
void OperatorBuilder::addRounded() {
  std::optional<Value> y;
  if (chance(60)) {
    const Window window = randomWindow(false);
    y = quantisedAveragePool(x, window, /*includePad=*/chance(50));
  } else {
    y = quantisedSoftmax(x, size_t(pick(0, 3)));
  }
  if (y)
    push(std::move(*y));
}

/// With another value, with itself transposed, or with a constant.
void OperatorBuilder::addProduct() {
  const Shape &shape = x.tensor.shape;
  const bool mayBroadcast = chance(50);
  Value other = another([&](size_t dim, int64_t extent) {
    return dim == 3 || extent == (dim == 2 ? shape[3] : shape[dim]) || (mayBroadcast && dim < 2 && extent == 1);
  });
  if (chance(30)) {
    Shape own{shape[0], shape[1], shape[3], pick(1, 20)};
    own[0] = chance(50) ? 1 : own[0];
    own[1] = chance(50) ? 1 : own[1];
    while (own.size() > 2 && own.front() == 1 && chance(50))
      own.erase(own.begin());
    other = constant(randomTensor(own, isFloat ? Kind::F32 : anyKind(), 1.5 / std::sqrt(double(shape[3]))));
  }
  pushSum(product(x, other.ir ? other : transpose(x, {0, 1, 3, 2})));
}

void OperatorBuilder::addFloats() {
  auto isExact = [](const Value &y) { return llvm::all_of(y.tensor.values, [](double v) { return double(float(v)) == v; }); };
  std::vector<Value> floats{dequantize(x)};
  if (const Value other = another([&](size_t dim, int64_t extent) { return extent == x.tensor.shape[dim]; }); other.ir)
    floats.push_back(dequantize(other));
  auto anyOf = [&]() -> const Value & { return floats[size_t(pick(0, int64_t(floats.size()) - 1))]; };
  constexpr int64_t kUnary[] = {0, 1, 9, 10}; // relu, clip, abs, neg
  for (int64_t left = pick(1, 4); left > 0; --left) {
    const Value a = anyOf(), other = anyOf();
    Value y = chance(60) ? binary(Binary(pick(0, 4)), a, other) : unary(a, kUnary[pick(0, 3)]);
    if (isExact(y))
      floats.push_back(std::move(y));
  }
  push(quantize(floats.back()));
  if (chance(30))
    push(quantize(anyOf()));
}

void OperatorBuilder::addQuantised() {
  const Value f = dequantize(x, /*perTensor=*/true);
  Value y;
  if (nhwc || chance(30)) {
    const Shape &shape = x.tensor.shape;
    const int64_t k = shape[3], m = countOf(shape) / k, n = pick(1, 20);
    y = reshape(dequantisedMatmul(reshape(f, {m, k}), n), {shape[0], shape[1], shape[2], n});
  } else {
    const int64_t channels = x.tensor.shape[1];
    const bool isDepthwise = chance(30);
    y = dequantisedConv(f, randomWindow(true), isDepthwise ? channels : pick(1, 20), isDepthwise ? channels : 1);
  }
  if (chance(30))
    y = unary(y, pick(0, 1));
  Value other = f.tensor.shape == y.tensor.shape && chance(50) ? f : Value();
  for (const Value &value : values)
    if (!other.ir && value.tensor.shape == y.tensor.shape)
      other = dequantize(value, /*perTensor=*/true);
  if (other.ir && chance(60))
    y = chance(50) ? binary(Binary::Add, y, other) : binary(Binary::Add, other, y);
  if (chance(30))
    y = unary(y, 0);
  push(quantize(y));
}

Network OperatorBuilder::build() {
  Network network;
  nhwc = chance(50);
  int64_t channels = chance(30) ? pick(1, 40) : pick(1, 12), extent = chance(20) ? pick(10, 24) : pick(1, 10);
  if (branches && chance(10))
    extent = pick(24, 48);
  const Shape shape = image(chance(80) ? 1 : 2, extent, chance(70) ? extent : pick(1, 12), channels);
  std::vector<Tensor> inputs{randomTensor(shape, anyKind())};
  if (branches && chance(30))
    inputs.push_back(randomTensor(shape, anyKind()));
  begin(network, std::move(inputs));
  for (int64_t left = branches ? pick(3, 9) : pick(1, 4); left > 0; --left) {
    do
      x = values[branches && chance(60) ? size_t(pick(0, int64_t(values.size()) - 1)) : values.size() - 1];
    while (x.tensor.shape.size() != 4);
    // Large values take the naive loops too long.
    if (countOf(x.tensor.shape) > 20000)
      break;
    int64_t roll = pick(0, 99);
    if (branches && chance(25)) {
      if (roll < 25)
        addReduction();
      else if (roll < 50)
        addProduct();
      else if (roll < 75)
        isFloat ? addFunction() : addRounded();
      else
        isFloat ? addLayerNorm() : addFloats();
    } else if (branches && !isFloat && roll < 35 && chance(40))
      addQuantised();
    else if (roll < 35)
      addConv();
    else if (roll < 45)
      addMatmul();
    else if (roll < 53)
      push(maxPool(x, randomWindow(branches)));
    else if (roll < 61) {
      if (branches && chance(30))
        push(globalAveragePool(x));
      else if (isFloat)
        addAveragePool();
      else
        push(maxPool(x, randomWindow(branches)));
    } else if (roll < 73)
      addSum();
    else if (roll < 80)
      push(unary(x, pick(0, numUnary() - 1)));
    else if (roll < 84)
      isFloat ? push(softmax(x, size_t(pick(0, 3)))) : addSum();
    else if (roll < 88)
      addConcat();
    else if (roll < 92)
      addTranspose();
    else if (roll < 96)
      addSlice();
    else
      addPad();
  }
  if (values.size() == network.inputs.size())
    push(unary(x, 0));
  end(network, branches);
  return network;
}

Network OperatorBuilder::buildReductions() {
  Network network;
  nhwc = chance(30);
  const Shape shape = image(chance(60) ? 1 : pick(2, 3), pick(1, 12), pick(1, 12), chance(40) ? pick(1, 4) : pick(1, 40));
  begin(network, {randomTensor(shape, anyKind())});
  Value from = values.front();
  for (int64_t left = pick(1, 3); left > 0; --left) {
    x = from;
    if (chance(50)) {
      addConv(); // unless it cancels out
      if (values.back().tensor.shape.size() == 4)
        x = from = values.back();
    }
    const int64_t roll = pick(0, 99);
    Window whole;
    whole.kernel = {x.tensor.shape[size_t(h())], x.tensor.shape[size_t(w())]};
    if (roll < 60)
      addReduction(/*keepdims=*/chance(60));
    else if (roll < 80 || !isFloat)
      push(chance(50) ? maxPool(x, whole) : globalAveragePool(x));
    else
      push(softmax(x, size_t(pick(0, 3))));
    const Value y = values.back();
    if (y.tensor.shape.size() != 4)
      continue;
    if (chance(50)) // what attention to channels or pixels does
      push(from = binary(isFloat ? Binary::Mul : Binary::Add, x, y));
    else if (chance(50)) // reduced again
      from = y;
  }
  end(network, /*withUnread=*/true);
  return network;
}

} // namespace

Network fuzz::makeReductions(mlir::MLIRContext &context, uint64_t seed, bool isFloat) {
  return OperatorBuilder(context, seed, isFloat, /*branches=*/false).buildReductions();
}

Network fuzz::makeChain(mlir::MLIRContext &context, uint64_t seed, bool isFloat) {
  return OperatorBuilder(context, seed, isFloat, /*branches=*/false).build();
}

Network fuzz::makeBranches(mlir::MLIRContext &context, uint64_t seed, bool isFloat) {
  return OperatorBuilder(context, seed, isFloat, /*branches=*/true).build();
}
