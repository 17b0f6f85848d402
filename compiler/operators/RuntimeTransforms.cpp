//===- RuntimeTransforms.cpp - Spectra, slices, hashes of com.microsoft ---===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX Runtime, docs/ContribOperators.md
//===----------------------------------------------------------------------===//
#include "compiler/operators/RuntimeDomain.h"

using namespace tw;
using namespace tw::operators;

//===----------------------------------------------------------------------===//
// Complex numbers: the last dim has real and imaginary part
//===----------------------------------------------------------------------===//

/// A * B, or with `isConjugate` A * conj(B), under numpy broadcasting.
static void multiplyComplex(Call &call, bool isConjugate) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  call.requireSameType(a, b);
  for (const HostTensor *x : {&a, &b})
    if (x->shape.empty() || x->shape.back() != 2)
      call.fail("an input has shape " + textOf(x->shape) + ", expected a last dim of 2");
  auto numbers = [](const HostTensor &x) { return Shape(x.shape.begin(), x.shape.end() - 1); };
  Shape shape = broadcast(numbers(a), numbers(b));
  visitReal(a.type, [&](auto zero) {
    using T = decltype(zero);
    const std::vector<T> x = realsOf<T>(a), w = realsOf<T>(b);
    std::vector<T> y = zeros<T>({countOf(shape), 2});
    walk<2>(shape, {broadcastStrides(numbers(a), shape), broadcastStrides(numbers(b), shape)},
            [&](int64_t i, const std::array<int64_t, 2> &at) {
              const T re = x[size_t(2 * at[0])], im = x[size_t(2 * at[0] + 1)], c = w[size_t(2 * at[1])],
                      d = isConjugate ? -w[size_t(2 * at[1] + 1)] : w[size_t(2 * at[1] + 1)];
              y[size_t(2 * i)] = re * c - im * d;
              y[size_t(2 * i + 1)] = re * d + im * c;
            });
    shape.push_back(2);
    call.set(0, tensorOf(y, a.type, shape));
  });
}
static void evaluateComplexMul(Call &call) { multiplyComplex(call, false); }
static void evaluateComplexMulConj(Call &call) { multiplyComplex(call, true); }

static void requireOneDim(const Call &call) {
  if (call.flagAttr("normalized", false) || !call.flagAttr("onesided", true) || call.intAttr("signal_ndim", 1) != 1)
    call.fail("normalized, onesided and signal_ndim are " + std::to_string(call.intAttr("normalized", 0)) + ", " +
              std::to_string(call.intAttr("onesided", 1)) + " and " + std::to_string(call.intAttr("signal_ndim", 1)) +
              ", expected 0, 1 and 1");
}

/// The onesided transform of x, or its inverse, along dim `axis`.
static HostTensor onesided(const Call &call, HostTensor x, int64_t axis, bool isInverse) {
  onnx::NodeProto node = nodeLike(call, "DFT", {});
  addInt(node, "axis", axis);
  addInt(node, "onesided", 1);
  addInt(node, "inverse", isInverse);
  return *runOnnx(call, node, 17, {std::move(x)}).at(0).tensor;
}

/// The transform of [.., n] along the last dim, [.., n / 2 + 1, 2].
static void evaluateRfft(Call &call) {
  requireOneDim(call);
  Shape shape = call.input(0).shape;
  if (shape.empty())
    call.fail("X is a scalar");
  shape.push_back(1);
  call.set(0, onesided(call, reshaped(call.input(0), shape), int64_t(shape.size()) - 2, false));
}

/// The inverse: of [.., m, 2], [.., 2 (m - 1)].
static void evaluateIrfft(Call &call) {
  requireOneDim(call);
  const HostTensor &x = call.input(0);
  if (x.shape.size() < 2 || x.shape.back() != 2 || x.shape[x.shape.size() - 2] < 2)
    call.fail("X has shape " + textOf(x.shape) + ", expected [.., at least 2, 2]");
  const HostTensor y = onesided(call, x, int64_t(x.shape.size()) - 2, true);
  call.set(0, reshaped(y, Shape(y.shape.begin(), y.shape.end() - 1)));
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

/// All slices of `size` along `dim`, `step` apart: dim has their number, and a last dim their elements.
static void evaluateUnfoldTensor(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t axis = call.axis(call.intAttr("dim", -1), int64_t(x.shape.size())), size = call.intAttr("size"),
                step = call.intAttr("step", 1);
  if (x.shape.empty() || size < 1 || step < 1 || size > x.shape[size_t(axis)])
    call.fail("slices of " + std::to_string(size) + " in steps of " + std::to_string(step) + " are wanted of input of shape " +
              textOf(x.shape));
  Shape shape = x.shape, strides = stridesOf(x.shape);
  shape[size_t(axis)] = (shape[size_t(axis)] - size) / step + 1;
  shape.push_back(size);
  strides.push_back(strides[size_t(axis)]);
  strides[size_t(axis)] *= step;
  HostTensor &y = call.output(0, x.type, shape);
  walk<1>(shape, {strides}, [&](int64_t i, const std::array<int64_t, 1> &at) { copyElement(x, at[0], y, i); });
}

/// Rows of the table.
static void evaluateTorchEmbedding(Call &call) {
  call.set(0, runOnnx(call, nodeLike(call, "Gather", {}), 13, {call.value(0), call.value(1)}).at(0));
}

//===----------------------------------------------------------------------===//
// Hashes
//===----------------------------------------------------------------------===//

/// source: A. Appleby, MurmurHash3_x86_32
static uint32_t murmur3(const uint8_t *bytes, size_t count, uint32_t hash) {
  auto turn = [](uint32_t x, int by) { return (x << by) | (x >> (32 - by)); };
  auto mixed = [&](uint32_t k) { return turn(k * 0xcc9e2d51u, 15) * 0x1b873593u; };
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const uint32_t k =
        uint32_t(bytes[i]) | uint32_t(bytes[i + 1]) << 8 | uint32_t(bytes[i + 2]) << 16 | uint32_t(bytes[i + 3]) << 24;
    hash = turn(hash ^ mixed(k), 13) * 5 + 0xe6546b64u;
  }
  uint32_t rest = 0;
  for (size_t j = count; j > i; --j)
    rest = rest << 8 | bytes[j - 1];
  hash ^= mixed(rest);
  hash ^= uint32_t(count);
  hash = (hash ^ (hash >> 16)) * 0x85ebca6bu;
  hash = (hash ^ (hash >> 13)) * 0xc2b2ae35u;
  return hash ^ (hash >> 16);
}

static void evaluateMurmurHash3(Call &call) {
  const HostTensor &x = call.input(0);
  const uint32_t seed = uint32_t(call.intAttr("seed", 0));
  const size_t size = frontend::elementBytes(x.type);
  if (x.type != ElementKind::String && size != 4 && size != 8)
    call.fail(std::string("X is of ") + frontend::elementName(x.type) + ", expected strings or numbers of 32 or 64 bits");
  HostTensor &y = call.output(0, call.flagAttr("positive", true) ? ElementKind::U32 : ElementKind::I32, x.shape);
  for (int64_t i = 0; i < countOf(x); ++i) {
    const bool isText = x.type == ElementKind::String;
    const uint8_t *bytes =
        isText ? reinterpret_cast<const uint8_t *>(x.strings[size_t(i)].data()) : x.bytes.data() + size_t(i) * size;
    data<uint32_t>(y)[i] = murmur3(bytes, isText ? x.strings[size_t(i)].size() : size, seed);
  }
}

void operators::addRuntimeTransforms(Table &table) {
  table["com.microsoft:ComplexMul"].evaluate = evaluateComplexMul;
  table["com.microsoft:ComplexMulConj"].evaluate = evaluateComplexMulConj;
  table["com.microsoft:Rfft"].evaluate = evaluateRfft;
  table["com.microsoft:Irfft"].evaluate = evaluateIrfft;
  table["com.microsoft:UnfoldTensor"].evaluate = evaluateUnfoldTensor;
  table["com.microsoft:TorchEmbedding"].evaluate = evaluateTorchEmbedding;
  table["com.microsoft:MurmurHash3"].evaluate = evaluateMurmurHash3;
}
