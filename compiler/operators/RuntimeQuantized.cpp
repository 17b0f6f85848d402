//===- RuntimeQuantized.cpp - Quantised operators of com.microsoft --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of the fp32 roundings is part of the definition:
// docs/design/quantised-arithmetic.md. source: ONNX Runtime,
// docs/ContribOperators.md
//===----------------------------------------------------------------------===//
#include "compiler/operators/Recurrent.h"
#include "compiler/operators/RuntimeAttention.h"
#include "compiler/operators/RuntimeDomain.h"

using namespace tw;
using namespace tw::operators;

//===----------------------------------------------------------------------===//
// Scales and zero points
//===----------------------------------------------------------------------===//

namespace {
/// Scale and zero point of a tensor.
struct Quantization {
  float scale = 1;
  int32_t zero = 0;
  ElementKind kind = ElementKind::U8;

  float dequantized(int64_t x) const { return float(int32_t(x) - zero) * scale; }
  bool operator==(const Quantization &other) const { return scale == other.scale && zero == other.zero && kind == other.kind; }
};
} // namespace

static void require8Bits(const Call &call, const HostTensor &x, const char *name) {
  if (x.type != ElementKind::I8 && x.type != ElementKind::U8)
    call.fail(std::string(name) + " is of " + frontend::elementName(x.type) + ", expected int8 or uint8");
}

/// Inputs `scaleAt` and `zeroAt`, one number each; the zero point may be left out. `kind`: type of the zero point.
static Quantization readQuantization(const Call &call, size_t scaleAt, size_t zeroAt, ElementKind kind) {
  Quantization q;
  q.scale = float(call.realScalar(scaleAt));
  q.kind = kind;
  if (call.has(zeroAt)) {
    if (call.input(zeroAt).type != kind)
      call.fail("input " + std::to_string(zeroAt) + ", a zero point, is of " + frontend::elementName(call.input(zeroAt).type) +
                ", expected " + frontend::elementName(kind));
    q.zero = int32_t(call.intScalar(zeroAt));
  }
  return q;
}

/// The same for a tensor of 8 bits, input `at`.
static Quantization readQuantization(const Call &call, size_t at, size_t scaleAt, size_t zeroAt, const char *name) {
  require8Bits(call, call.input(at), name);
  return readQuantization(call, scaleAt, zeroAt, call.input(at).type);
}

/// Of a result: of the type of the zero point, uint8 without it.
static Quantization readResultQuantization(const Call &call, size_t scaleAt, size_t zeroAt) {
  if (call.has(zeroAt))
    require8Bits(call, call.input(zeroAt), "a zero point");
  return readQuantization(call, scaleAt, zeroAt, call.has(zeroAt) ? call.input(zeroAt).type : ElementKind::U8);
}

/// Stores a number that is rounded to the nearest integer, ties to even, plus `zero`, saturated. NaN gives the lowest.
static void setRounded(HostTensor &y, int64_t i, float value, int32_t zero) {
  const float low = y.type == ElementKind::I8 ? -128.f : 0.f, high = low + 255.f;
  float sum = std::nearbyint(value);
  // The bounds apply before the zero point is added, which gives the same and keeps the sum exact.
  sum = std::min(std::max(low - float(zero), sum == sum ? sum : low - float(zero)), high - float(zero));
  y.bytes[size_t(i)] = uint8_t(int32_t(sum) + zero);
}

static int32_t byteAt(const HostTensor &x, int64_t i) {
  return x.type == ElementKind::I8 ? int32_t(data<int8_t>(x)[i]) : int32_t(data<uint8_t>(x)[i]);
}

/// The floats that a quantised tensor stands for.
static HostTensor dequantized(const HostTensor &x, const Quantization &q) {
  HostTensor y = makeTensor(ElementKind::F32, x.shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    data<float>(y)[i] = q.dequantized(byteAt(x, i));
  return y;
}
static HostTensor quantized(const HostTensor &x, const Quantization &q) {
  HostTensor y = makeTensor(q.kind, x.shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setRounded(y, i, data<float>(x)[i] / q.scale, q.zero);
  return y;
}

/// Scales or zero points of the columns of a matrix of `columns` columns: input `at`, one or one for each, or `fallback` if it is left out.
template <typename T>
static std::vector<T> readPerColumn(const Call &call, size_t at, int64_t columns, const char *name,
                                    std::optional<T> fallback = std::nullopt) {
  if (!call.has(at) && fallback)
    return std::vector<T>(size_t(columns), *fallback);
  const HostTensor &x = call.input(at);
  const int64_t count = countOf(x);
  if (count != 1 && (count != columns || x.shape.back() != columns))
    call.fail(std::string(name) + " has shape " + textOf(x.shape) + ", expected one number or " + std::to_string(columns));
  std::vector<T> values;
  for (int64_t i = 0; i < columns; ++i)
    values.push_back(T(realAt(x, count == 1 ? 0 : i)));
  return values;
}

/// The integer matrix product (a - aZero) * (b - bZeros), modulo 2^32; `bZeros`: one for each column. Shape as of numpy.matmul.
static HostTensor integerProduct(const Call &call, const HostTensor &a, const HostTensor &b, int32_t aZero,
                                 const std::vector<int32_t> &bZeros) {
  require8Bits(call, a, "A");
  require8Bits(call, b, "B");
  if (a.shape.size() < 2 || b.shape.size() < 2 || a.shape.back() != b.shape[b.shape.size() - 2])
    call.fail("matrices of shapes " + textOf(a.shape) + " and " + textOf(b.shape) + " have no product");
  const int64_t m = a.shape[a.shape.size() - 2], k = a.shape.back(), n = b.shape.back();
  const Shape aBatch(a.shape.begin(), a.shape.end() - 2), bBatch(b.shape.begin(), b.shape.end() - 2),
      batch = broadcast(aBatch, bBatch);
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  HostTensor y = makeTensor(ElementKind::I32, shape);
  std::vector<uint32_t> left, right;
  for (int64_t i = 0; i < countOf(a); ++i)
    left.push_back(uint32_t(byteAt(a, i) - aZero));
  for (int64_t i = 0; i < countOf(b); ++i)
    right.push_back(uint32_t(byteAt(b, i) - bZeros[size_t(i % n)]));
  walk<2>(batch, {broadcastStrides(aBatch, batch), broadcastStrides(bBatch, batch)},
          [&](int64_t i, const std::array<int64_t, 2> &at) {
            multiplyAdd(m, n, k, left.data() + at[0] * m * k, right.data() + at[1] * k * n, data<uint32_t>(y) + i * m * n);
          });
  return y;
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

/// y = acc * scale of each column + bias, input `biasAt` if the node has it.
static void setScaled(Call &call, const HostTensor &sums, const std::vector<float> &scales, size_t biasAt, ElementKind kind) {
  const int64_t n = int64_t(scales.size());
  std::vector<float> bias, y(static_cast<size_t>(countOf(sums)));
  if (call.has(biasAt)) {
    requireShape(call, call.input(biasAt), "bias", {n});
    bias = realsOf<float>(call.input(biasAt));
  }
  for (size_t i = 0; i < y.size(); ++i) {
    y[i] = float(data<int32_t>(sums)[i]) * scales[i % size_t(n)];
    if (!bias.empty())
      y[i] += bias[i % size_t(n)];
  }
  call.set(0, tensorOf(y, kind, sums.shape));
}

static int64_t columnsOf(const Call &call, size_t at) {
  if (call.input(at).shape.size() < 2)
    call.fail("input " + std::to_string(at) + " has shape " + textOf(call.input(at).shape) + ", expected a matrix");
  return call.input(at).shape.back();
}

static void evaluateMatMulIntegerToFloat(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  const int64_t n = columnsOf(call, 1);
  const Quantization qa = readQuantization(call, 0, 2, 4, "A");
  std::vector<float> scales = readPerColumn<float>(call, 3, n, "b_scale");
  for (float &scale : scales)
    scale *= qa.scale;
  const HostTensor sums = integerProduct(call, a, b, qa.zero, readPerColumn<int32_t>(call, 5, n, "b_zero_point", 0));
  setScaled(call, sums, scales, 6, frontend::isFloat(call.input(2).type) ? call.input(2).type : ElementKind::F32);
}

/// The uint8 quantisation that DynamicQuantizeLinear chooses for `x`.
static Quantization dynamicQuantization(const float *x, int64_t count) {
  float low = 0, high = 0;
  for (int64_t i = 0; i < count; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  Quantization q;
  q.scale = low == high ? 1.f : (high - low) / 255.f;
  const float zero = 0.f - low / q.scale;
  q.zero = zero == zero ? int32_t(std::nearbyint(std::min(std::max(zero, 0.f), 255.f))) : 0;
  return q;
}

/// (A - A_zero_point) * (B - B_zero_point) of each element, in int32.
static void evaluateMulInteger(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(2);
  call.requireSameType(a, b);
  if (a.type != ElementKind::U8 && a.type != ElementKind::I8)
    call.fail(std::string("A is of ") + frontend::elementName(a.type) + ", expected int8 or uint8");
  const int64_t aZero = call.has(1) ? call.intScalar(1) : 0, bZero = call.has(3) ? call.intScalar(3) : 0;
  HostTensor &y = call.output(0, ElementKind::I32, broadcast(a.shape, b.shape));
  walk<2>(y.shape, {broadcastStrides(a.shape, y.shape), broadcastStrides(b.shape, y.shape)},
          [&](int64_t i, const std::array<int64_t, 2> &at) {
            data<int32_t>(y)[i] = int32_t((integerAt(a, at[0]) - aZero) * (integerAt(b, at[1]) - bZero));
          });
}

/// Sums of bytes in 32 bits.
static void evaluateReduceSumInteger(Call &call) {
  const HostTensor &x = call.input(0);
  if (x.type != ElementKind::U8 && x.type != ElementKind::I8)
    call.fail(std::string("data is of ") + frontend::elementName(x.type) + ", expected int8 or uint8");
  const onnx::NodeProto node = nodeLike(call, "ReduceSum", {"axes", "keepdims"});
  call.set(0, runOnnx(call, node, 11, {toKind(x, x.type == ElementKind::U8 ? ElementKind::U32 : ElementKind::I32)}).at(0));
}

static void evaluateDynamicQuantizeMatMul(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1);
  if (a.type != ElementKind::F32)
    call.fail(std::string("A is of ") + frontend::elementName(a.type) + ", expected float");
  const int64_t n = columnsOf(call, 1);
  const Quantization qa = dynamicQuantization(data<float>(a), countOf(a));
  std::vector<float> scales = readPerColumn<float>(call, 2, n, "b_scale");
  for (float &scale : scales)
    scale *= qa.scale;
  setScaled(call, integerProduct(call, quantized(a, qa), b, qa.zero, readPerColumn<int32_t>(call, 3, n, "b_zero_point", 0)),
            scales, 4, ElementKind::F32);
}

static HostTensor turnedIf(const HostTensor &x, bool isTurned) { return isTurned ? transposed(x, {1, 0}) : x; }

static void evaluateQGemm(Call &call) {
  requireShape(call, call.input(0), "A", {-1, -1});
  requireShape(call, call.input(3), "B", {-1, -1});
  const HostTensor a = turnedIf(call.input(0), call.flagAttr("transA", false)),
                   b = turnedIf(call.input(3), call.flagAttr("transB", false));
  const Quantization qa = readQuantization(call, 0, 1, 2, "A");
  const int64_t n = b.shape[1];
  HostTensor sums = integerProduct(call, a, b, qa.zero, readPerColumn<int32_t>(call, 5, n, "b_zero_point", 0));
  if (call.has(6)) {
    const HostTensor &c = call.input(6);
    if (c.type != ElementKind::I32 || broadcast(c.shape, sums.shape) != sums.shape)
      call.fail("C has shape " + textOf(c.shape) + " of " + frontend::elementName(c.type) +
                ", expected int32 that broadcasts to " + textOf(sums.shape));
    walk<1>(sums.shape, {broadcastStrides(c.shape, sums.shape)},
            [&](int64_t i, const std::array<int64_t, 1> &at) { data<uint32_t>(sums)[i] += data<uint32_t>(c)[at[0]]; });
  }
  std::vector<float> scales = readPerColumn<float>(call, 4, n, "b_scale");
  const float alpha = call.floatAttr("alpha", 1.f);
  for (float &scale : scales)
    scale = alpha * qa.scale * scale;
  if (!call.has(7)) {
    setScaled(call, sums, scales, SIZE_MAX, ElementKind::F32);
    return;
  }
  const Quantization qy = readResultQuantization(call, 7, 8);
  HostTensor &y = call.output(0, qy.kind, sums.shape);
  for (int64_t i = 0; i < countOf(sums); ++i)
    setRounded(y, i, float(data<int32_t>(sums)[i]) * (scales[size_t(i % n)] / qy.scale), qy.zero);
}

static void evaluateQAttention(Call &call) {
  const HostTensor &x = call.input(0), &weights = call.input(1);
  requireShape(call, x, "input", {-1, -1, -1});
  requireShape(call, weights, "weight", {x.shape[2], -1});
  ProjectedAttention given;
  given.kind = call.input(2).type;
  visitReal(given.kind, [](auto) {});
  given.batch = x.shape[0];
  given.steps = x.shape[1];
  given.width = weights.shape[1];
  given.maskAt = 5;
  given.pastAt = 8;
  given.biasAt = given.pastLengthAt = call.numInputs();
  requireShape(call, call.input(2), "bias", {given.width});
  const Quantization qx = readQuantization(call, 0, 3, 6, "input");
  const std::vector<float> scales = readPerColumn<float>(call, 4, given.width, "weight_scale"),
                           bias = realsOf<float>(call.input(2));
  const HostTensor sums =
      integerProduct(call, x, weights, qx.zero, readPerColumn<int32_t>(call, 7, given.width, "weight_zero_point", 0));
  for (int64_t i = 0; i < countOf(sums); ++i) {
    const size_t column = size_t(i % given.width);
    given.projected.push_back(float(data<int32_t>(sums)[i]) * (qx.scale * scales[column]) + bias[column]);
  }
  attendProjected(call, given);
}

static void requireBlockSize(const Call &call, int64_t size) {
  if (size < 16 || size > (1 << 30) || (size & (size - 1)) != 0)
    call.fail("block_size is " + std::to_string(size) + ", expected a power of 2 of at least 16");
}

/// a[.., rows] * weights[rows, columns] + bias, [columns], which may be null.
template <typename T>
static HostTensor timesWeights(const HostTensor &a, const std::vector<T> &weights, int64_t columns, const HostTensor *bias) {
  Shape shape = a.shape;
  const int64_t rows = shape.back();
  shape.back() = columns;
  std::vector<T> y(static_cast<size_t>(countOf(shape)));
  multiplyAdd(countOf(a) / rows, columns, rows, realsOf<T>(a).data(), weights.data(), y.data());
  if (bias) {
    const std::vector<T> added = realsOf<T>(*bias);
    for (size_t i = 0; i < y.size(); ++i)
      y[i] += added[i % size_t(columns)];
  }
  return tensorOf(y, a.type, shape);
}

/// A * (weights [N, K])^T with weights (q - zero) * scale; scales and zero points for blocks along K, or with g_idx for groups of columns.
static void evaluateMatMulNBits(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1), &scales = call.input(2);
  const int64_t k = call.intAttr("K"), n = call.intAttr("N"), bits = requireBits(call, call.intAttr("bits", 4)),
                size = call.intAttr("block_size");
  requireBlockSize(call, size);
  if (k < 1 || n < 1 || k > (int64_t(1) << 31) || a.shape.empty() || a.shape.back() != k)
    call.fail("A has shape " + textOf(a.shape) + ", K is " + std::to_string(k) + " and N " + std::to_string(n));
  const int64_t blocks = (k + size - 1) / size, blockBytes = size * bits / 8;
  if (b.type != ElementKind::U8 || b.shape != Shape{n, blocks, blockBytes})
    call.fail("B has shape " + textOf(b.shape) + " of " + frontend::elementName(b.type) + ", expected uint8 of shape " +
              textOf({n, blocks, blockBytes}));
  if (countOf(scales) != n * blocks)
    call.fail("scales has shape " + textOf(scales.shape) + ", expected " + textOf({n, blocks}));
  const int64_t zeroBytes = (blocks * bits + 7) / 8;
  const HostTensor *zeroPoints = call.has(3) ? &call.input(3) : nullptr;
  const bool isPacked = zeroPoints && zeroPoints->type == ElementKind::U8;
  if (zeroPoints && countOf(*zeroPoints) != n * (isPacked ? zeroBytes : blocks))
    call.fail("zero_points has shape " + textOf(zeroPoints->shape) + ", expected " +
              textOf({n, isPacked ? zeroBytes : blocks}));
  std::vector<int64_t> groups;
  if (call.has(4)) {
    groups = call.ints(4);
    if (int64_t(groups.size()) < k)
      call.fail("g_idx has shape " + textOf(call.input(4).shape) + ", expected " + std::to_string(k) + " elements");
    for (int64_t group : groups)
      if (group < 0 || group >= blocks)
        call.fail("g_idx has " + std::to_string(group) + ", there are " + std::to_string(blocks) + " blocks");
  }
  if (call.has(5))
    requireShape(call, call.input(5), "bias", {n});
  visitReal(a.type, [&](auto zero) {
    using T = decltype(zero);
    // [K, N].
    std::vector<T> weights = zeros<T>({k, n});
    for (int64_t row = 0; row < n; ++row)
      for (int64_t column = 0; column < k; ++column) {
        const int64_t block = groups.empty() ? column / size : groups[size_t(column)], at = row * blocks + block;
        double zeroPoint = double(1 << (bits - 1));
        if (isPacked)
          zeroPoint = packedAt(zeroPoints->bytes.data() + row * zeroBytes, block, bits);
        else if (zeroPoints)
          zeroPoint = realAt(*zeroPoints, at);
        const int32_t q = packedAt(b.bytes.data() + row * blocks * blockBytes, column, bits);
        weights[size_t(column * n + row)] = (T(q) - T(zeroPoint)) * T(realAt(scales, at));
      }
    call.set(0, timesWeights(a, weights, n, call.has(5) ? &call.input(5) : nullptr));
  });
}

/// source: QLoRA (Dettmers et al., NeurIPS 2023), appendix E.
static const float kNf4[16] = {-1.0f,
                               -0.6961928009986877f,
                               -0.5250730514526367f,
                               -0.39491748809814453f,
                               -0.28444138169288635f,
                               -0.18477343022823334f,
                               -0.09105003625154495f,
                               0.0f,
                               0.07958029955625534f,
                               0.16093020141124725f,
                               0.24611230194568634f,
                               0.33791524171829224f,
                               0.44070982933044434f,
                               0.5626170039176941f,
                               0.7229568362236023f,
                               1.0f};
/// Magnitudes of a float of 4 bits whose top bit is the sign, as bitsandbytes has them.
static const float kFp4[8] = {0.0f, 0.0052083333f, 0.66666667f, 1.0f, 0.33333333f, 0.5f, 0.16666667f, 0.25f};

/// A * W^T, or A * W without transB, of weights [N, K] in 4 bits, the high half of a byte first, with a scale for each block of all elements.
static void evaluateMatMulBnb4(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(1), &scales = call.input(2);
  const int64_t k = call.intAttr("K"), n = call.intAttr("N"), size = call.intAttr("block_size"),
                type = call.intAttr("quant_type");
  const bool isTurned = call.flagAttr("transB", true);
  requireBlockSize(call, size);
  if (type != 0 && type != 1)
    call.fail("quant_type is " + std::to_string(type) + ", expected 0 (FP4) or 1 (NF4)");
  const int64_t inner = isTurned ? k : n, outer = isTurned ? n : k;
  if (k < 1 || n < 1 || k > (1 << 30) || n > (1 << 30) || a.shape.empty() || a.shape.back() != inner)
    call.fail("A has shape " + textOf(a.shape) + ", K is " + std::to_string(k) + " and N " + std::to_string(n));
  if (b.type != ElementKind::U8 || countOf(b) != (n * k + 1) / 2 || countOf(scales) != (n * k + size - 1) / size)
    call.fail("B and absmax have shapes " + textOf(b.shape) + " and " + textOf(scales.shape) + ", expected " +
              std::to_string((n * k + 1) / 2) + " bytes and " + std::to_string((n * k + size - 1) / size) + " scales");
  visitReal(a.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> weights = zeros<T>({k, n});
    for (int64_t i = 0; i < n * k; ++i) {
      const int value = (b.bytes[size_t(i / 2)] >> (i % 2 ? 0 : 4)) & 15;
      const float unit = type == 1 ? kNf4[value] : (value & 8 ? -kFp4[value & 7] : kFp4[value & 7]);
      weights[size_t(isTurned ? i % k * n + i / k : i)] = T(unit) * T(realAt(scales, i / size));
    }
    call.set(0, timesWeights(a, weights, outer, nullptr));
  });
}

/// Gather of numbers that are quantised in blocks along quantize_axis, then (q - zero) * scale.
static void evaluateGatherBlockQuantized(Call &call) {
  const HostTensor &given = call.input(0), &indices = call.input(1), &scales = call.input(2);
  const int64_t rank = int64_t(given.shape.size()), bits = requireBits(call, call.intAttr("bits", 4)),
                size = call.intAttr("block_size", 128);
  requireBlockSize(call, size);
  const int64_t gather = call.axis(call.intAttr("gather_axis", 0), rank),
                blocked = call.axis(call.intAttr("quantize_axis", 1), rank);
  if (rank < 1 || (given.type != ElementKind::U8 && given.type != ElementKind::I4 && given.type != ElementKind::U4))
    call.fail("data has shape " + textOf(given.shape) + " of " + frontend::elementName(given.type) +
              ", expected int4, uint4 or uint8");
  if (indices.type != ElementKind::I32 && indices.type != ElementKind::I64)
    call.fail(std::string("indices is of ") + frontend::elementName(indices.type) + ", expected int32 or int64");
  const bool isPacked = given.type == ElementKind::U8;
  const int64_t perByte = isPacked ? 8 / bits : 1;
  Shape shape = given.shape;
  shape.back() *= perByte;
  Shape blocks = shape;
  blocks[size_t(blocked)] = (shape[size_t(blocked)] + size - 1) / size;
  requireShape(call, scales, "scales", blocks);
  if (!frontend::isFloat(scales.type))
    call.fail(std::string("scales is of ") + frontend::elementName(scales.type) + ", expected floats");
  const int64_t zeroColumns = (blocks.back() + perByte - 1) / perByte;
  if (call.has(3)) {
    Shape expected = blocks;
    expected.back() = zeroColumns;
    requireShape(call, call.input(3), "zero_points", expected);
    if (call.input(3).type != given.type)
      call.fail(std::string("zero_points is of ") + frontend::elementName(call.input(3).type) + ", expected " +
                frontend::elementName(given.type));
  }
  Shape result(shape.begin(), shape.begin() + gather);
  result.insert(result.end(), indices.shape.begin(), indices.shape.end());
  result.insert(result.end(), shape.begin() + gather + 1, shape.end());
  HostTensor &y = call.output(0, scales.type, result);
  const Shape strides = stridesOf(shape), blockStrides = stridesOf(blocks);
  const int64_t inner = strides[size_t(gather)], length = shape[size_t(gather)], count = countOf(indices);
  for (int64_t i = 0; i < countOf(y); ++i) {
    const int64_t outer = i / (inner * count), column = i % inner;
    int64_t index = integerAt(indices, i / inner % count);
    index += index < 0 ? length : 0;
    // Such an element stays zero.
    if (index < 0 || index >= length)
      continue;
    int64_t rest = (outer * length + index) * inner + column, block = 0;
    const int64_t at = rest, last = blocks.back();
    for (int64_t dim = 0; dim < rank; ++dim) {
      const int64_t place = rest / strides[size_t(dim)];
      rest %= strides[size_t(dim)];
      block += (dim == blocked ? place / size : place) * blockStrides[size_t(dim)];
    }
    double zero = isPacked ? double(1 << (bits - 1)) : 0;
    if (call.has(3))
      zero = double(isPacked ? packedAt(call.input(3).bytes.data() + block / last * zeroColumns, block % last, bits)
                             : integerAt(call.input(3), block));
    const double q = double(isPacked ? packedAt(given.bytes.data(), at, bits) : integerAt(given, at));
    setReal(y, i, double(float(q - zero) * float(realAt(scales, block))));
  }
}

//===----------------------------------------------------------------------===//
// DynamicQuantizeLSTM
//===----------------------------------------------------------------------===//

/// Weights [directions, K, gates] as [directions, gates, K], dequantised: a scale for each direction, or for each of its gates.
static HostTensor lstmWeights(const Call &call, size_t at, size_t scaleAt, size_t zeroAt, const char *name) {
  const HostTensor &w = call.input(at), &scales = call.input(scaleAt), &zeroPoints = call.input(zeroAt);
  require8Bits(call, w, name);
  requireShape(call, w, name, {-1, -1, -1});
  const int64_t directions = w.shape[0], rows = w.shape[1], gates = w.shape[2];
  auto isPerGate = [&](const HostTensor &x) {
    if (countOf(x) != directions && countOf(x) != directions * gates)
      call.fail(std::string("a scale or zero point of ") + name + " has shape " + textOf(x.shape) + ", expected " +
                textOf({directions}) + " or " + textOf({directions, gates}));
    return countOf(x) != directions;
  };
  const bool scalePerGate = isPerGate(scales), zeroPerGate = isPerGate(zeroPoints);
  HostTensor y = makeTensor(ElementKind::F32, {directions, gates, rows});
  for (int64_t d = 0; d < directions; ++d)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < gates; ++j) {
        const int32_t zero = int32_t(integerAt(zeroPoints, zeroPerGate ? d * gates + j : d));
        data<float>(y)[(d * gates + j) * rows + i] =
            float(byteAt(w, (d * rows + i) * gates + j) - zero) * float(realAt(scales, scalePerGate ? d * gates + j : d));
      }
  return y;
}

static void evaluateDynamicQuantizeLstm(Call &call) {
  const HostTensor w = lstmWeights(call, 1, 8, 9, "W"), r = lstmWeights(call, 2, 10, 11, "R");
  evaluateLstmWith(
      call, {w, r, [](float *x, int64_t count) {
               const Quantization q = dynamicQuantization(x, count);
               for (int64_t i = 0; i < count; ++i)
                 x[i] =
                     (std::min(std::max(std::nearbyint(x[i] / q.scale) + float(q.zero), 0.f), 255.f) - float(q.zero)) * q.scale;
             }});
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static void evaluateQLinearAdd(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(3);
  call.requireSameType(a, b);
  const Quantization qa = readQuantization(call, 0, 1, 2, "A"), qb = readQuantization(call, 3, 4, 5, "B");
  const Quantization qy = readQuantization(call, 6, 7, a.type);
  const Shape shape = broadcast(a.shape, b.shape);
  HostTensor &y = call.output(0, a.type, shape);
  const float left = qa.scale / qy.scale, right = qb.scale / qy.scale;
  const float constant = float(qy.zero) - std::fma(left, float(qa.zero), right * float(qb.zero));
  walk<2>(shape, {broadcastStrides(a.shape, shape), broadcastStrides(b.shape, shape)},
          [&](int64_t i, const std::array<int64_t, 2> &at) {
            setRounded(y, i, std::fma(float(byteAt(a, at[0])), left, std::fma(float(byteAt(b, at[1])), right, constant)), 0);
          });
}

static void evaluateQLinearMul(Call &call) {
  const HostTensor &a = call.input(0), &b = call.input(3);
  call.requireSameType(a, b);
  const Quantization qa = readQuantization(call, 0, 1, 2, "A"), qb = readQuantization(call, 3, 4, 5, "B");
  const Quantization qy = readQuantization(call, 6, 7, a.type);
  const Shape shape = broadcast(a.shape, b.shape);
  HostTensor &y = call.output(0, a.type, shape);
  const float scale = qa.scale * qb.scale / qy.scale;
  walk<2>(shape, {broadcastStrides(a.shape, shape), broadcastStrides(b.shape, shape)},
          [&](int64_t i, const std::array<int64_t, 2> &at) {
            setRounded(y, i, float((byteAt(a, at[0]) - qa.zero) * (byteAt(b, at[1]) - qb.zero)) * scale, qy.zero);
          });
}

/// quantise(f(dequantise(x))).
template <typename F> static void mapQuantized(Call &call, F &&f) {
  const HostTensor &x = call.input(0);
  const Quantization qx = readQuantization(call, 0, 1, 2, "X"), qy = readQuantization(call, 3, 4, x.type);
  HostTensor &y = call.output(0, x.type, x.shape);
  for (int64_t i = 0; i < countOf(x); ++i)
    setRounded(y, i, f(qx.dequantized(byteAt(x, i))) / qy.scale, qy.zero);
}
static void evaluateQLinearSigmoid(Call &call) {
  mapQuantized(call, [](float x) { return 1 / (1 + std::exp(-x)); });
}
static void evaluateQLinearLeakyRelu(Call &call) {
  const float alpha = call.floatAttr("alpha", 0.01f);
  mapQuantized(call, [&](float x) { return x >= 0 ? x : alpha * x; });
}

/// `x` in the scale of a result.
static HostTensor requantized(const HostTensor &x, const Quantization &qx, const Quantization &qy) {
  return qx == qy ? x : quantized(dequantized(x, qx), qy);
}

static void evaluateQLinearConcat(Call &call) {
  if (call.numInputs() < 5 || call.numInputs() % 3 != 2)
    call.fail("found " + std::to_string(call.numInputs()) + " inputs, expected 2 and 3 for every tensor");
  const Quantization qy = readResultQuantization(call, 0, 1);
  const int64_t rank = int64_t(call.input(2).shape.size()), axis = call.axis(call.intAttr("axis"), rank);
  if (rank < 1)
    call.fail("an input is a scalar");
  std::vector<HostTensor> parts;
  Shape shape = call.input(2).shape;
  shape[size_t(axis)] = 0;
  for (size_t i = 2; i < call.numInputs(); i += 3) {
    const HostTensor &x = call.input(i);
    Shape rest = shape;
    rest[size_t(axis)] = -1;
    requireShape(call, x, "an input", rest);
    parts.push_back(requantized(x, readQuantization(call, i, i + 1, i + 2, "an input"), qy));
    shape[size_t(axis)] += x.shape[size_t(axis)];
  }
  HostTensor &y = call.output(0, qy.kind, shape);
  const int64_t outer = countOf(Shape(shape.begin(), shape.begin() + axis));
  int64_t to = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (const HostTensor &part : parts) {
      const int64_t count = countOf(Shape(part.shape.begin() + axis, part.shape.end()));
      copyElements(part, o * count, y, to, count);
      to += count;
    }
}

/// Elements of X where the condition holds, else of Y.
static void evaluateQLinearWhere(Call &call) {
  const HostTensor &condition = call.input(0);
  if (condition.type != ElementKind::Bool)
    call.fail(std::string("condition is of ") + frontend::elementName(condition.type) + ", expected bool");
  const Quantization qz = readQuantization(call, 7, 8, call.input(1).type);
  const HostTensor x = requantized(call.input(1), readQuantization(call, 1, 2, 3, "X"), qz);
  const HostTensor y = requantized(call.input(4), readQuantization(call, 4, 5, 6, "Y"), qz);
  call.requireSameType(call.input(1), call.input(4));
  const Shape shape = broadcast(condition.shape, broadcast(x.shape, y.shape));
  HostTensor &z = call.output(0, qz.kind, shape);
  walk<3>(shape, {broadcastStrides(condition.shape, shape), broadcastStrides(x.shape, shape), broadcastStrides(y.shape, shape)},
          [&](int64_t i, const std::array<int64_t, 3> &at) {
            z.bytes[size_t(i)] = condition.bytes[size_t(at[0])] ? x.bytes[size_t(at[1])] : y.bytes[size_t(at[2])];
          });
}

//===----------------------------------------------------------------------===//
// Reductions, windows, convolutions
//===----------------------------------------------------------------------===//

static void evaluateQLinearReduceMean(Call &call) {
  const HostTensor &x = call.input(0);
  const Quantization qx = readQuantization(call, 0, 1, 2, "data"), qy = readQuantization(call, 3, 4, x.type);
  const int64_t rank = int64_t(x.shape.size());
  std::vector<int64_t> all;
  for (int64_t i = 0; i < rank; ++i)
    all.push_back(i);
  const std::vector<int64_t> axes = call.axes(call.intsAttr("axes", all), rank);
  const bool keeps = call.flagAttr("keepdims", true);
  Shape kept = x.shape, shape;
  for (int64_t axis : axes)
    kept[size_t(axis)] = 1;
  for (int64_t i = 0; i < rank; ++i)
    if (keeps || !std::binary_search(axes.begin(), axes.end(), i))
      shape.push_back(kept[size_t(i)]);
  std::vector<int64_t> sums(static_cast<size_t>(countOf(kept)));
  walk<1>(x.shape, {broadcastStrides(kept, x.shape)},
          [&](int64_t i, const std::array<int64_t, 1> &at) { sums[size_t(at[0])] += byteAt(x, i) - qx.zero; });
  HostTensor &y = call.output(0, x.type, shape);
  const float count = sums.empty() ? 1 : float(countOf(x) / int64_t(sums.size()));
  for (size_t i = 0; i < sums.size(); ++i)
    setRounded(y, int64_t(i), float(sums[i]) * qx.scale / count / qy.scale, qy.zero);
}

/// The mean of each channel of x[N, C, ..].
static HostTensor globalAverage(const HostTensor &x, const Quantization &qx, const Quantization &qy) {
  Shape shape(x.shape.size(), 1);
  std::copy_n(x.shape.begin(), 2, shape.begin());
  HostTensor y = makeTensor(x.type, shape);
  const int64_t area = countOf(Shape(x.shape.begin() + 2, x.shape.end()));
  const float scale = qx.scale / (qy.scale * float(area));
  for (int64_t i = 0; i < countOf(y); ++i) {
    int64_t sum = 0;
    for (int64_t j = 0; j < area; ++j)
      sum += byteAt(x, i * area + j) - qx.zero;
    setRounded(y, i, float(sum) * scale, qy.zero);
  }
  return y;
}

/// X with its channels as dim 1, whatever the node says of their place.
static HostTensor imageOf(const Call &call) {
  const HostTensor &x = call.input(0);
  if (x.shape.size() < 3)
    call.fail("X has shape " + textOf(x.shape) + ", expected at least rank 3");
  return call.flagAttr("channels_last", false) ? channelsFirst(x) : x;
}
static void setImage(Call &call, HostTensor y) {
  call.set(0, call.flagAttr("channels_last", false) ? channelsLast(y) : std::move(y));
}

static void evaluateQLinearGlobalAveragePool(Call &call) {
  const HostTensor x = imageOf(call);
  const Quantization qx = readQuantization(call, 0, 1, 2, "X"), qy = readQuantization(call, 3, 4, x.type);
  setImage(call, globalAverage(x, qx, qy));
}

static void evaluateQLinearAveragePool(Call &call) {
  const HostTensor x = imageOf(call);
  const Quantization qx = readQuantization(call, 0, 1, 2, "X"), qy = readQuantization(call, 3, 4, x.type);
  const Shape image(x.shape.begin() + 2, x.shape.end());
  const std::vector<int64_t> pads = call.intsAttr("pads", std::vector<int64_t>());
  const bool isPadded = std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad != 0; });
  if (call.intsAttr("kernel_shape") == image && !isPadded) {
    // One window, unless padding of the same size as the image makes more.
    const std::string automatic = call.stringAttr("auto_pad", "NOTSET");
    if (automatic == "NOTSET" || automatic == "VALID" || automatic.empty()) {
      setImage(call, globalAverage(x, qx, qy));
      return;
    }
  }
  const onnx::NodeProto node =
      nodeLike(call, "AveragePool", {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"});
  const std::vector<Value> results = runOnnx(call, node, 11, {dequantized(x, qx)});
  const HostTensor &means = *results.at(0).tensor;
  HostTensor y = makeTensor(x.type, means.shape);
  // The zero point is added before the rounding.
  for (int64_t i = 0; i < countOf(y); ++i)
    setRounded(y, i, data<float>(means)[i] / qy.scale + float(qy.zero), 0);
  setImage(call, std::move(y));
}

/// The product with the integer part of 1 / y_scale. Before opset 13, all dims from the axis on are one row.
static void evaluateQLinearSoftmax(Call &call) {
  const HostTensor &x = call.input(0);
  const Quantization qx = readQuantization(call, 0, 1, 2, "X"), qy = readQuantization(call, 3, 4, x.type);
  const int64_t rank = int64_t(x.shape.size()), axis = call.axis(call.intAttr("axis", -1), rank);
  const bool flattens = call.intAttr("opset") < 13;
  const int64_t length = rank == 0  ? 1
                         : flattens ? countOf(Shape(x.shape.begin() + axis, x.shape.end()))
                                    : x.shape[size_t(axis)];
  const int64_t inner = rank == 0 || flattens ? 1 : countOf(Shape(x.shape.begin() + axis + 1, x.shape.end()));
  HostTensor &y = call.output(0, x.type, x.shape);
  const float factor = std::floor(1.0f / qy.scale);
  std::vector<float> row(static_cast<size_t>(length));
  const int64_t rows = length ? countOf(x) / length : 0;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t from = i / inner * inner * length + i % inner;
    for (int64_t j = 0; j < length; ++j)
      row[size_t(j)] = qx.dequantized(byteAt(x, from + j * inner));
    softmaxRow(row.data(), length);
    for (int64_t j = 0; j < length; ++j)
      setRounded(y, from + j * inner, row[size_t(j)] * factor, qy.zero);
  }
}

/// ONNX's QLinearConv, of an input [N, .., C] with channels_last.
static void evaluateQLinearConv(Call &call) {
  const onnx::NodeProto node =
      nodeLike(call, "QLinearConv", {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  std::vector<Value> inputs = inputsOf(call);
  inputs.at(0) = imageOf(call);
  setImage(call, *runOnnx(call, node, 10, std::move(inputs)).at(0).tensor);
}

static void evaluateQuantizeLinear(Call &call) {
  call.set(0, runOnnx(call, nodeLike(call, "QuantizeLinear", {"axis", "block_size"}), 21, inputsOf(call)).at(0));
}
static void evaluateDequantizeLinear(Call &call) {
  call.set(0, runOnnx(call, nodeLike(call, "DequantizeLinear", {"axis", "block_size"}), 21, inputsOf(call)).at(0));
}

static void evaluateQEmbedLayerNormalization(Call &call) {
  auto table = [&](size_t at, size_t scaleAt, size_t zeroAt) {
    return dequantized(call.input(at), readQuantization(call, at, scaleAt, zeroAt, "a quantised table"));
  };
  const HostTensor words = table(2, 8, 13), positions = table(3, 9, 14), gamma = table(5, 11, 16), beta = table(6, 12, 17);
  std::optional<HostTensor> segments;
  if (call.has(4))
    segments = table(4, 10, 15);
  evaluateEmbedding(call, {call.input(0), call.has(1) ? &call.input(1) : nullptr, words, positions,
                           segments ? &*segments : nullptr, gamma, beta, call.has(7) ? &call.input(7) : nullptr, nullptr});
}

void operators::addRuntimeQuantized(Table &table) {
  table["com.microsoft:MatMulIntegerToFloat"].evaluate = evaluateMatMulIntegerToFloat;
  table["com.microsoft:MulInteger"].evaluate = evaluateMulInteger;
  table["com.microsoft:ReduceSumInteger"].evaluate = evaluateReduceSumInteger;
  table["com.microsoft:DynamicQuantizeMatMul"].evaluate = evaluateDynamicQuantizeMatMul;
  table["com.microsoft:DynamicQuantizeLSTM"].evaluate = evaluateDynamicQuantizeLstm;
  table["com.microsoft:QGemm"].evaluate = evaluateQGemm;
  table["com.microsoft:QAttention"].evaluate = evaluateQAttention;
  table["com.microsoft:QEmbedLayerNormalization"].evaluate = evaluateQEmbedLayerNormalization;
  table["com.microsoft:MatMulNBits"].evaluate = evaluateMatMulNBits;
  table["com.microsoft:MatMulBnb4"].evaluate = evaluateMatMulBnb4;
  table["com.microsoft:GatherBlockQuantized"].evaluate = evaluateGatherBlockQuantized;
  table["com.microsoft:QLinearAdd"].evaluate = evaluateQLinearAdd;
  table["com.microsoft:QLinearMul"].evaluate = evaluateQLinearMul;
  table["com.microsoft:QLinearSigmoid"].evaluate = evaluateQLinearSigmoid;
  table["com.microsoft:QLinearLeakyRelu"].evaluate = evaluateQLinearLeakyRelu;
  table["com.microsoft:QLinearConcat"].evaluate = evaluateQLinearConcat;
  table["com.microsoft:QLinearWhere"].evaluate = evaluateQLinearWhere;
  table["com.microsoft:QLinearReduceMean"].evaluate = evaluateQLinearReduceMean;
  table["com.microsoft:QLinearAveragePool"].evaluate = evaluateQLinearAveragePool;
  table["com.microsoft:QLinearGlobalAveragePool"].evaluate = evaluateQLinearGlobalAveragePool;
  table["com.microsoft:QLinearSoftmax"].evaluate = evaluateQLinearSoftmax;
  table["com.microsoft:QLinearConv"].evaluate = evaluateQLinearConv;
  table["com.microsoft:QuantizeLinear"].evaluate = evaluateQuantizeLinear;
  table["com.microsoft:DequantizeLinear"].evaluate = evaluateDequantizeLinear;
}
