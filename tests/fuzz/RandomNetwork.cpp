//===- RandomNetwork.cpp - Small networks with known results --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/fuzz/RandomNetwork.h"

#include "tests/fuzz/NetworkBuilder.h"

#include <algorithm>

using namespace tw;
using namespace tw::fuzz;

namespace {

/// A chain of operators, each of the last value. Every value has four dims, but for what is on its way to them.
class ChainBuilder : public NetworkBuilder {
public:
  using NetworkBuilder::NetworkBuilder;
  Network build();

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
  const Value &last() const { return values.back(); }
  void push(Value value) { values.push_back(std::move(value)); }
};

Window ChainBuilder::randomWindow(bool dilated) {
  Window window;
  int64_t extents[2] = {last().tensor.shape[size_t(h())], last().tensor.shape[size_t(w())]};
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

void ChainBuilder::addConv() {
  int64_t inChannels = last().tensor.shape[size_t(c())];
  Window window = randomWindow(true);
  int64_t groups = chance(60) ? 1 : inChannels;
  if (groups > 1 && chance(30))
    for (int64_t divisor = 2; divisor < inChannels; ++divisor)
      if (inChannels % divisor == 0) {
        groups = divisor;
        break;
      }
  int64_t outChannels = groups == 1 ? pick(1, chance(20) ? 40 : 12) : groups * pick(1, 2);
  push(conv(last(), window, outChannels, groups));
}

void ChainBuilder::addMatmul() {
  const Tensor &x = last().tensor;
  int64_t n = pick(1, chance(20) ? 70 : 20), k = chance(50) ? x.shape[3] : countOf(x.shape) / x.shape[0];
  push(matmul(reshape(last(), {countOf(x.shape) / k, k}), n));
  const Shape shape = last().tensor.shape;
  push(reshape(last(), {1, 1, shape[0], shape[1]}));
}

void ChainBuilder::addAveragePool() {
  Window window = randomWindow(false);
  bool includePad = chance(50);
  push(averagePool(last(), window, includePad));
}

/// The last value plus an earlier one, or a constant, of the same type or one that broadcasts.
void ChainBuilder::addSum() {
  const Value a = last();
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
    other = constant(randomTensor(shape, a.tensor.kind));
  }
  push(binary(isFloat ? Binary(pick(0, 4)) : Binary::Add, a, other));
}

void ChainBuilder::addConcat() {
  const Value a = last();
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
    other = constant(randomTensor(shape, a.tensor.kind));
  }
  push(concat({a, other}, axis));
}

void ChainBuilder::addTranspose() {
  std::array<int64_t, 4> perm{0, 1, 2, 3};
  std::shuffle(perm.begin(), perm.end(), random);
  push(transpose(last(), perm));
}

void ChainBuilder::addSlice() {
  std::array<int64_t, 4> starts{}, steps{1, 1, 1, 1};
  Shape shape = last().tensor.shape;
  for (size_t d = 0; d < 4; ++d) {
    if (chance(40))
      continue;
    int64_t extent = shape[d];
    steps[d] = chance(70) ? 1 : chance(60) ? 2 : -1;
    starts[d] = pick(0, extent - 1);
    shape[d] = pick(1, steps[d] < 0 ? starts[d] + 1 : (extent - starts[d] + steps[d] - 1) / steps[d]);
  }
  push(slice(last(), starts, steps, shape));
}

void ChainBuilder::addPad() {
  std::array<int64_t, 4> before{}, after{};
  for (size_t d = 0; d < 4; ++d) {
    before[d] = chance(40) ? pick(0, 2) : 0;
    after[d] = chance(40) ? pick(0, 2) : 0;
  }
  push(pad(last(), before, after, isFloat ? (chance(50) ? 0.0 : 0.25) : double(zeroPoint(last().tensor.kind))));
}

Network ChainBuilder::build() {
  Network network;
  nhwc = chance(50);
  int64_t channels = chance(30) ? pick(1, 40) : pick(1, 12), extent = chance(20) ? pick(10, 24) : pick(1, 10);
  begin(network, randomTensor(image(chance(80) ? 1 : 2, extent, chance(70) ? extent : pick(1, 12), channels), anyKind()));
  for (int64_t left = pick(1, 4); left > 0; --left) {
    // Large values take the naive loops too long.
    if (countOf(last().tensor.shape) > 20000)
      break;
    int64_t roll = pick(0, 99);
    if (roll < 35)
      addConv();
    else if (roll < 45)
      addMatmul();
    else if (roll < 53)
      push(maxPool(last(), randomWindow(false)));
    else if (roll < 61)
      isFloat ? addAveragePool() : push(maxPool(last(), randomWindow(false)));
    else if (roll < 73)
      addSum();
    else if (roll < 80)
      push(unary(last(), pick(0, numUnary() - 1)));
    else if (roll < 84)
      isFloat ? push(softmax(last(), size_t(pick(0, 3)))) : addSum();
    else if (roll < 88)
      addConcat();
    else if (roll < 92)
      addTranspose();
    else if (roll < 96)
      addSlice();
    else
      addPad();
  }
  end(network);
  return network;
}

} // namespace

Network fuzz::makeChain(mlir::MLIRContext &context, uint64_t seed, bool isFloat) {
  return ChainBuilder(context, seed, isFloat).build();
}
