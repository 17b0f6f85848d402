//===- RandomBlocks.cpp - Blocks of real networks, of random shapes -------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "tests/fuzz/NetworkBuilder.h"
#include "tests/fuzz/RandomNetwork.h"

#include <algorithm>

using namespace tw;
using namespace tw::fuzz;

namespace {

/// Multiply-accumulates of a network: the plain loops take a fraction of a second.
constexpr int64_t kMacs = 12000000;

class BlockBuilder : public NetworkBuilder {
public:
  using NetworkBuilder::NetworkBuilder;
  Network build();

private:
  int64_t height(const Value &x) const { return x.tensor.shape[size_t(h())]; }
  int64_t width(const Value &x) const { return x.tensor.shape[size_t(w())]; }
  int64_t channels(const Value &x) const { return x.tensor.shape[size_t(c())]; }
  Value keep(Value value) {
    values.push_back(std::move(value));
    return values.back();
  }

  Window square(const Value &x, int64_t kernel, int64_t stride, bool padded) const;
  /// With padding that keeps the image's size at stride 1. Fewer output channels than asked for where they would take too long.
  Value layer(const Value &x, int64_t kernel, int64_t stride, int64_t outChannels, bool active = true);
  Value depthwise(const Value &x, int64_t kernel, int64_t stride);
  Value activation(const Value &x);
  Value sum(const Value &x, const Value &y);
  Value pool(const Value &x);
  Value gate(const Value &x);

  Value stem(const Value &x);
  Value bottleneck(const Value &x);
  Value basic(const Value &x);
  Value inverted(const Value &x);
  Value separable(const Value &x);
  Value fire(const Value &x);
  Value inception(const Value &x);
  Value dense(const Value &x);
  Value split(const Value &x);
  Value shuffle(const Value &x);
  Value wide(const Value &x);
  Value gelu(const Value &x);
  Value attention(const Value &x);
  Value head(const Value &x);

  int64_t macs = 0;
};

/// Smaller where the image is, unless it is padded to that size.
Window BlockBuilder::square(const Value &x, int64_t kernel, int64_t stride, bool padded) const {
  Window window;
  const int64_t extents[2] = {height(x), width(x)};
  for (int d = 0; d < 2; ++d) {
    window.kernel[d] = padded && !isOldGenerator() ? kernel : std::min(kernel, extents[d]);
    window.strides[d] = stride;
    if (padded) {
      window.pads[d] = (window.kernel[d] - 1) / 2;
      window.pads[d + 2] = window.kernel[d] / 2;
    }
  }
  return window;
}

BlockBuilder::Value BlockBuilder::sum(const Value &x, const Value &y) {
  return isOldGenerator() || chance(50) ? binary(Binary::Add, x, y) : binary(Binary::Add, y, x);
}

BlockBuilder::Value BlockBuilder::activation(const Value &x) {
  return chance(isFloat ? 75 : 30) ? keep(unary(x, pick(0, numUnary() - 1))) : x;
}

BlockBuilder::Value BlockBuilder::layer(const Value &x, int64_t kernel, int64_t stride, int64_t outChannels, bool active) {
  const Window window = square(x, kernel, stride, true);
  const int64_t perChannel =
      outputOf(window, height(x), 0) * outputOf(window, width(x), 1) * window.kernel[0] * window.kernel[1] * channels(x);
  outChannels = std::clamp<int64_t>((kMacs - macs) / perChannel, 1, outChannels);
  macs += perChannel * outChannels;
  const Value y = keep(conv(x, window, outChannels, 1));
  return active ? activation(y) : y;
}

BlockBuilder::Value BlockBuilder::depthwise(const Value &x, int64_t kernel, int64_t stride) {
  const Window window = square(x, kernel, stride, true);
  macs += countOf(x.tensor.shape) * window.kernel[0] * window.kernel[1];
  return activation(keep(conv(x, window, channels(x), channels(x))));
}

BlockBuilder::Value BlockBuilder::pool(const Value &x) {
  const Window window = square(x, pick(2, 3), chance(80) ? 2 : 1, chance(40));
  return keep(isFloat && chance(25) ? averagePool(x, window, chance(50)) : maxPool(x, window));
}

/// Squeeze and excitation.
BlockBuilder::Value BlockBuilder::gate(const Value &x) {
  const Value squeezed = layer(keep(globalAveragePool(x)), 1, 1, std::max<int64_t>(1, channels(x) / pick(2, 4)));
  const Value excited = keep(unary(layer(squeezed, 1, 1, channels(x), false), chance(50) ? 3 : 6)); // sigmoid or hard_sigmoid
  return channels(excited) == channels(x) ? keep(binary(Binary::Mul, x, excited)) : x;
}

BlockBuilder::Value BlockBuilder::stem(const Value &x) {
  const Value y = layer(x, chance(30) ? 7 : 3, pick(1, 2), pick(4, 32));
  return chance(60) ? pool(y) : y;
}

BlockBuilder::Value BlockBuilder::bottleneck(const Value &x) {
  const int64_t stride = chance(30) ? 2 : 1, inner = pick(4, 24), outer = stride == 1 && chance(60) ? channels(x) : pick(8, 64);
  const Value y = layer(layer(layer(x, 1, 1, inner), 3, stride, inner), 1, 1, outer, false);
  const bool projects = stride > 1 || channels(y) != channels(x);
  const Value shortcut = projects ? layer(x, 1, stride, channels(y), false) : x;
  return channels(shortcut) == channels(y) ? activation(keep(sum(y, shortcut))) : y;
}

BlockBuilder::Value BlockBuilder::basic(const Value &x) {
  const Value y = layer(layer(x, 3, 1, chance(50) ? channels(x) : pick(4, 32)), 3, 1, channels(x), false);
  return channels(y) == channels(x) ? activation(keep(sum(y, x))) : y;
}

BlockBuilder::Value BlockBuilder::inverted(const Value &x) {
  const int64_t stride = chance(30) ? 2 : 1;
  Value y = depthwise(layer(x, 1, 1, std::min<int64_t>(channels(x) * pick(2, 6), 96)), chance(25) ? 5 : 3, stride);
  if (isFloat && chance(30))
    y = gate(y);
  y = layer(y, 1, 1, stride == 1 && chance(70) ? channels(x) : pick(8, 32), false);
  return stride == 1 && channels(y) == channels(x) ? keep(binary(Binary::Add, y, x)) : y;
}

BlockBuilder::Value BlockBuilder::separable(const Value &x) {
  return layer(depthwise(x, chance(20) ? 5 : 3, chance(30) ? 2 : 1), 1, 1, pick(4, 48));
}

BlockBuilder::Value BlockBuilder::fire(const Value &x) {
  const Value squeezed = layer(x, 1, 1, pick(4, 24));
  const Value y = keep(concat({layer(squeezed, 1, 1, pick(8, 40)), layer(squeezed, 3, 1, pick(8, 40))}, size_t(c())));
  return chance(40) ? pool(y) : y;
}

BlockBuilder::Value BlockBuilder::inception(const Value &x) {
  std::vector<Value> parts;
  for (int64_t left = pick(2, 4); left > 0; --left)
    switch (pick(0, 3)) {
    case 0:
      parts.push_back(layer(x, 1, 1, pick(4, 24)));
      break;
    case 1:
      parts.push_back(layer(layer(x, 1, 1, pick(4, 24)), chance(30) ? 5 : 3, 1, pick(4, 24)));
      break;
    case 2:
      parts.push_back(layer(keep(maxPool(x, square(x, height(x) > 2 && width(x) > 2 ? 3 : 1, 1, true))), 1, 1, pick(4, 24)));
      break;
    default:
      parts.push_back(x);
      break;
    }
  return keep(concat(parts, size_t(c())));
}

BlockBuilder::Value BlockBuilder::dense(const Value &x) {
  Value y = x;
  for (int64_t left = pick(2, 3); left > 0; --left)
    y = keep(concat({y, layer(chance(50) ? layer(y, 1, 1, pick(4, 16)) : y, 3, 1, pick(4, 16))}, size_t(c())));
  return y;
}

/// Some channels pass by the others' convolutions.
BlockBuilder::Value BlockBuilder::split(const Value &x) {
  if (channels(x) < 2)
    return basic(x);
  const int64_t first = chance(60) ? std::max<int64_t>(1, channels(x) / 2) : pick(1, channels(x) - 1);
  auto part = [&](int64_t begin, int64_t count) {
    std::array<int64_t, 4> starts{};
    Shape shape = x.tensor.shape;
    starts[size_t(c())] = begin;
    shape[size_t(c())] = count;
    return keep(slice(x, starts, {1, 1, 1, 1}, shape));
  };
  const Value passes = part(0, first), works = part(first, channels(x) - first);
  return keep(concat({passes, layer(depthwise(works, 3, 1), 1, 1, pick(4, 24))}, size_t(c())));
}

/// Groups of channels that mix: as many rows of channels become its columns.
BlockBuilder::Value BlockBuilder::shuffle(const Value &x) {
  int64_t groups = pick(2, 4);
  while (channels(x) % groups)
    --groups;
  const int64_t n = x.tensor.shape[0], each = channels(x) / groups, pixels = height(x) * width(x);
  auto grouped = [&](const Value &input) {
    macs += countOf(input.tensor.shape) * each;
    return keep(conv(input, square(input, 1, 1, true), channels(x), groups));
  };
  Value y = activation(grouped(x));
  y = nhwc ? transpose(reshape(y, {n, pixels, groups, each}), {0, 1, 3, 2})
           : transpose(reshape(y, {n, groups, each, pixels}), {0, 2, 1, 3});
  y = keep(reshape(keep(y), x.tensor.shape));
  y = grouped(depthwise(y, 3, 1));
  return keep(chance(50) ? binary(Binary::Add, y, x) : concat({y, x}, size_t(c())));
}

/// x / 2 (1 + erf(x / sqrt(2))), as exporters write it.
BlockBuilder::Value BlockBuilder::gelu(const Value &x) {
  auto number = [&](float value) { return constant({{}, Kind::F32, {double(value)}}); };
  const Value share = binary(Binary::Add, unary(binary(Binary::Div, x, number(1.41421356f)), 11), number(1));
  return keep(binary(Binary::Mul, binary(Binary::Mul, x, share), number(0.5f)));
}

/// A large window of each channel, normalised over channels, and a wide layer in between: ConvNeXt.
BlockBuilder::Value BlockBuilder::wide(const Value &x) {
  macs += countOf(x.tensor.shape) * 49;
  Value y = keep(conv(x, square(x, 7, 1, true), channels(x), channels(x)));
  if (isFloat && channels(x) > 2) {
    y = keep(layerNorm(nhwc ? y : transpose(y, {0, 2, 3, 1}), 3));
    for (Binary which : {Binary::Mul, Binary::Add})
      y = keep(binary(which, y, constant(randomTensor({channels(x)}, Kind::F32))));
    y = nhwc ? y : keep(transpose(y, {0, 3, 1, 2}));
  }
  y = layer(y, 1, 1, std::min<int64_t>(4 * channels(x), 96), false);
  y = layer(isFloat ? gelu(y) : activation(y), 1, 1, channels(x), false);
  return channels(y) == channels(x) ? keep(sum(y, x)) : y;
}

/// The pixels attend to one another.
BlockBuilder::Value BlockBuilder::attention(const Value &input) {
  Value x = input;
  while (height(x) * width(x) > 100)
    x = pool(x);
  const int64_t tokens = height(x) * width(x), heads = pick(1, 3), size = pick(2, 12), n = x.tensor.shape[0];
  Value rows = nhwc ? x : keep(transpose(x, {0, 2, 3, 1}));
  rows = keep(reshape(rows, {n * tokens, channels(x)}));
  if (isFloat && chance(60))
    rows = keep(layerNorm(rows, 1));
  auto project = [&](std::array<int64_t, 4> perm) {
    const Value all = keep(matmul(rows, heads * size));
    return keep(transpose(reshape(all, {n, tokens, heads, size}), perm));
  };
  const Value query = project({0, 2, 1, 3}), key = project({0, 2, 3, 1}), value = project({0, 2, 1, 3});
  Value scores = keep(product(query, key));
  if (isFloat)
    scores = keep(softmax(scores, 3));
  const Value context = keep(transpose(product(scores, value), {0, 2, 1, 3}));
  Value y = keep(matmul(reshape(context, {n * tokens, heads * size}), channels(x)));
  if (chance(60))
    y = keep(binary(Binary::Add, y, rows));
  const Value back = keep(reshape(y, {n, height(x), width(x), channels(x)}));
  return nhwc ? back : keep(transpose(back, {0, 3, 1, 2}));
}

BlockBuilder::Value BlockBuilder::head(const Value &x) {
  const Value pooled = keep(globalAveragePool(x));
  return keep(matmul(reshape(pooled, {x.tensor.shape[0], channels(x)}), pick(1, 40)));
}

Network BlockBuilder::build() {
  Network network;
  nhwc = chance(30);
  if (!isFloat)
    onlyKind = chance(50) ? Kind::I8 : Kind::U8;
  const int64_t extent = pick(8, 40), inChannels = chance(40) ? 3 : pick(4, 40);
  begin(network, {randomTensor(image(chance(90) ? 1 : 2, extent, chance(70) ? extent : pick(6, 40), inChannels), anyKind())});
  Value x = values.back();
  using Block = Value (BlockBuilder::*)(const Value &);
  constexpr Block kBlocks[] = {&BlockBuilder::stem,      &BlockBuilder::bottleneck, &BlockBuilder::bottleneck,
                               &BlockBuilder::basic,     &BlockBuilder::inverted,   &BlockBuilder::inverted,
                               &BlockBuilder::separable, &BlockBuilder::fire,       &BlockBuilder::inception,
                               &BlockBuilder::dense,     &BlockBuilder::split,      &BlockBuilder::attention,
                               &BlockBuilder::shuffle,   &BlockBuilder::wide};
  if (inChannels == 3)
    x = stem(x);
  for (int64_t left = pick(1, 4); left > 0 && macs < kMacs; --left)
    x = (this->*kBlocks[pick(0, std::size(kBlocks) - 1)])(x);
  if (chance(40))
    head(x);
  end(network);
  return network;
}

} // namespace

Network fuzz::makeBlocks(mlir::MLIRContext &context, uint64_t seed, bool isFloat) {
  return BlockBuilder(context, seed, isFloat).build();
}
