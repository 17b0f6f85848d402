//===- Constants.cpp - Arithmetic on constant tensors ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/Graph.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace tw::graph {

//===----------------------------------------------------------------------===//
// Reading and making
//===----------------------------------------------------------------------===//

ElementsAttr constantOf(Value value) {
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return constant.getValue();
  return nullptr;
}

static RankedTensorType typeOf(ElementsAttr elements) { return cast<RankedTensorType>(elements.getShapedType()); }

/// Bytes of one element as readBytes() and makeBytes() have it: of i1, which MLIR packs into bits, one.
static size_t elementSize(Type type) { return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8); }

/// The row-major bytes of `elements`; splats are expanded.
static std::vector<char> readBytes(ElementsAttr elements) {
  size_t size = elementSize(typeOf(elements).getElementType()), count = typeOf(elements).getNumElements();
  std::vector<char> bytes(size * count);
  ArrayRef<char> raw;
  if (auto dense = dyn_cast<DenseElementsAttr>(elements)) {
    if (typeOf(elements).getElementType().isInteger(1)) {
      llvm::copy(dense.getValues<bool>(), bytes.begin());
      return bytes;
    }
    raw = dense.getRawData();
    if (dense.isSplat()) {
      for (size_t i = 0; i < count; ++i)
        std::memcpy(bytes.data() + i * size, raw.data(), size);
      return bytes;
    }
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      raw = blob->getData();
  }
  if (raw.size() == bytes.size() && !bytes.empty())
    std::memcpy(bytes.data(), raw.data(), raw.size());
  return bytes;
}

/// A tensor from row-major bytes.
static DenseElementsAttr makeBytes(RankedTensorType type, ArrayRef<char> bytes) {
  // An empty buffer is not a raw buffer to MLIR.
  if (type.getNumElements() == 0)
    return DenseElementsAttr::get(type, ArrayRef<Attribute>());
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> bits(llvm::map_range(bytes, [](char byte) { return bool(byte & 1); }));
    return DenseElementsAttr::get(type, ArrayRef<bool>(bits));
  }
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

/// binary16 or bfloat16 as float, exactly.
static float widen(uint16_t bits, Type type) {
  if (!type.isBF16())
    return APFloat(APFloat::IEEEhalf(), APInt(16, bits)).convertToDouble();
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// The nearest binary16 or bfloat16, ties to even.
static uint16_t narrow(float value, Type type) {
  if (!type.isBF16() || std::isnan(value)) {
    APFloat number(value);
    bool losesInfo;
    number.convert(cast<FloatType>(type).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    return number.bitcastToAPInt().getZExtValue();
  }
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

std::vector<float> readFloats(ElementsAttr elements) {
  Type type = typeOf(elements).getElementType();
  std::vector<char> bytes = readBytes(elements);
  std::vector<float> values(typeOf(elements).getNumElements());
  for (size_t i = 0; i < values.size(); ++i) {
    if (type.isF32()) {
      std::memcpy(&values[i], bytes.data() + 4 * i, 4);
      continue;
    }
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, 2);
    values[i] = widen(bits, type);
  }
  return values;
}

std::vector<int64_t> readIntegers(ElementsAttr elements) {
  Type type = typeOf(elements).getElementType();
  std::vector<int64_t> values(typeOf(elements).getNumElements());
  size_t size = elementSize(type);
  std::vector<char> bytes = readBytes(elements);
  bool isUnsigned = type.isUnsignedInteger();
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data() + size * i, size);
    unsigned shift = 64 - 8 * size;
    values[i] = isUnsigned ? int64_t(bits) : int64_t(bits << shift) >> shift;
  }
  return values;
}

DenseElementsAttr makeFloats(RankedTensorType type, ArrayRef<float> values) {
  Type elementType = type.getElementType();
  if (elementType.isF32())
    return makeBytes(type, {reinterpret_cast<const char *>(values.data()), values.size() * 4});
  std::vector<uint16_t> bits;
  bits.reserve(values.size());
  for (float value : values)
    bits.push_back(narrow(value, elementType));
  return makeBytes(type, {reinterpret_cast<const char *>(bits.data()), bits.size() * 2});
}

DenseElementsAttr makeIntegers(RankedTensorType type, ArrayRef<int64_t> values) {
  size_t size = elementSize(type.getElementType());
  std::vector<char> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(bytes.data() + i * size, &values[i], size);
  return makeBytes(type, bytes);
}

std::optional<float> splatFloat(Value value) {
  ElementsAttr elements = constantOf(value);
  if (!elements || !isa<FloatType>(elements.getElementType()) || elements.getNumElements() == 0)
    return std::nullopt;
  // Large tensors that share one value are splats already.
  if (elements.getNumElements() > 1 && !elements.isSplat())
    return std::nullopt;
  auto dense = dyn_cast<DenseElementsAttr>(elements);
  if (!dense)
    return readFloats(elements).front();
  APFloat first = *dense.getValues<APFloat>().begin();
  bool losesInfo;
  first.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  return first.convertToFloat();
}

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

namespace {
/// One side of a copy: bytes, and strides in elements per dim of the box.
struct Side {
  char *bytes;
  int64_t offset;
  SmallVector<int64_t> strides;
};
} // namespace

/// Copies `count` elements that lie so many bytes apart. `size` may be a constant: then it takes no call for each.
template <typename Size>
static void copyElements(Size size, char *to, int64_t toStep, const char *from, int64_t fromStep, int64_t count) {
  for (; count > 0; --count, to += toStep, from += fromStep)
    std::memcpy(to, from, size);
}

static void copyRun(size_t size, char *to, int64_t toStep, const char *from, int64_t fromStep, int64_t count) {
  if (size == 1)
    copyElements(std::integral_constant<size_t, 1>(), to, toStep, from, fromStep, count);
  else if (size == 4)
    copyElements(std::integral_constant<size_t, 4>(), to, toStep, from, fromStep, count);
  else
    copyElements(size, to, toStep, from, fromStep, count);
}

static void copyBox(ArrayRef<int64_t> shape, size_t size, const Side &to, const Side &from) {
  if (llvm::is_contained(shape, 0))
    return;
  if (shape.empty()) {
    std::memcpy(to.bytes + to.offset * size, from.bytes + from.offset * size, size);
    return;
  }
  SmallVector<int64_t> index(shape.size(), 0);
  const int64_t bytes = int64_t(size), inner = shape.back(), toStep = to.strides.back() * bytes,
                fromStep = from.strides.back() * bytes;
  int64_t toAt = to.offset, fromAt = from.offset;
  while (true) {
    copyRun(size, to.bytes + toAt * bytes, toStep, from.bytes + fromAt * bytes, fromStep, inner);
    size_t dim = shape.size() - 1;
    for (; dim-- > 0;) {
      toAt += to.strides[dim], fromAt += from.strides[dim];
      if (++index[dim] < shape[dim])
        break;
      toAt -= index[dim] * to.strides[dim], fromAt -= index[dim] * from.strides[dim];
      index[dim] = 0;
    }
    if (dim == size_t(-1))
      return;
  }
}

/// A copy of `shape` elements out of `elements`, at `offset` with `strides`, as a tensor of `type`.
static DenseElementsAttr gather(ElementsAttr elements, RankedTensorType type, int64_t offset, ArrayRef<int64_t> strides) {
  if (auto dense = dyn_cast<DenseElementsAttr>(elements); dense && dense.isSplat() && type.getNumElements())
    return dense.resizeSplat(type);
  size_t size = elementSize(type.getElementType());
  std::vector<char> from = readBytes(elements), to(type.getNumElements() * size);
  copyBox(type.getShape(), size, {to.data(), 0, rowMajorStrides(type.getShape())},
          {from.data(), offset, SmallVector<int64_t>(strides)});
  return makeBytes(type, to);
}

DenseElementsAttr reshapeConstant(ElementsAttr elements, ArrayRef<int64_t> shape) {
  RankedTensorType type = RankedTensorType::get(shape, typeOf(elements).getElementType());
  if (auto dense = dyn_cast<DenseElementsAttr>(elements))
    return dense.reshape(type);
  return makeBytes(type, readBytes(elements));
}

DenseElementsAttr transposeConstant(ElementsAttr elements, ArrayRef<int64_t> perm) {
  ArrayRef<int64_t> from = typeOf(elements).getShape();
  SmallVector<int64_t> fromStrides = rowMajorStrides(from), shape, strides;
  for (int64_t dim : perm) {
    shape.push_back(from[dim]);
    strides.push_back(fromStrides[dim]);
  }
  return gather(elements, RankedTensorType::get(shape, typeOf(elements).getElementType()), 0, strides);
}

DenseElementsAttr bitcastConstant(ElementsAttr elements, Type elementType) {
  if (auto dense = dyn_cast<DenseElementsAttr>(elements); dense && dense.isSplat())
    return DenseElementsAttr::getFromRawBuffer(RankedTensorType::get(typeOf(elements).getShape(), elementType),
                                               dense.getRawData());
  return makeBytes(RankedTensorType::get(typeOf(elements).getShape(), elementType), readBytes(elements));
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Element strides that walk a tensor of `shape` along the dims of `result` (numpy broadcasting).
static SmallVector<int64_t> broadcastStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> result) {
  SmallVector<int64_t> own = rowMajorStrides(shape), strides(result.size(), 0);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] != 1)
      strides[result.size() - shape.size() + i] = own[i];
  return strides;
}

static ElementsAttr broadcastTo(ElementsAttr elements, ArrayRef<int64_t> shape) {
  if (typeOf(elements).getShape() == shape)
    return elements;
  return gather(elements, RankedTensorType::get(shape, typeOf(elements).getElementType()), 0,
                broadcastStrides(typeOf(elements).getShape(), shape));
}

static float propagateNan(float a, float b, float result) { return std::isnan(a) || std::isnan(b) ? NAN : result; }

static std::optional<float> floatBinary(Operation *op, float a, float b) {
  return TypeSwitch<Operation *, std::optional<float>>(op)
      .Case([&](AddOp) { return a + b; })
      .Case([&](SubOp) { return a - b; })
      .Case([&](MulOp) { return a * b; })
      .Case([&](DivOp) { return a / b; })
      .Case([&](MinOp) { return propagateNan(a, b, std::min(a, b)); })
      .Case([&](MaxOp) { return propagateNan(a, b, std::max(a, b)); })
      .Default([](Operation *) { return std::nullopt; });
}

static std::optional<int64_t> integerBinary(Operation *op, int64_t a, int64_t b) {
  auto wrap = [](uint64_t value) { return int64_t(value); };
  return TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case([&](AddOp) { return wrap(uint64_t(a) + uint64_t(b)); })
      .Case([&](SubOp) { return wrap(uint64_t(a) - uint64_t(b)); })
      .Case([&](MulOp) { return wrap(uint64_t(a) * uint64_t(b)); })
      .Case([&](DivOp) -> std::optional<int64_t> {
        if (b == 0 || (a == INT64_MIN && b == -1))
          return std::nullopt;
        return a / b;
      })
      .Case([&](MinOp) { return std::min(a, b); })
      .Case([&](MaxOp) { return std::max(a, b); })
      .Default([](Operation *) { return std::nullopt; });
}

static float hardSigmoid(float x, float alpha, float beta) {
  const float y = x * alpha + beta;
  return propagateNan(y, y, std::min(std::max(y, 0.0f), 1.0f));
}

static std::optional<float> floatUnary(Operation *op, float x) {
  return TypeSwitch<Operation *, std::optional<float>>(op)
      .Case([&](ReluOp) { return propagateNan(x, x, std::max(x, 0.0f)); })
      .Case([&](ClipOp clip) {
        return propagateNan(x, x, std::min(std::max(x, clip.getMin().convertToFloat()), clip.getMax().convertToFloat()));
      })
      .Case([&](NegOp) { return -x; })
      .Case([&](AbsOp) { return std::fabs(x); })
      .Case([&](SqrtOp) { return std::sqrt(x); })
      .Case([&](FloorOp) { return std::floor(x); })
      .Case([&](ExpOp) { return std::exp(x); })
      // In double, so that the one rounding is the last.
      .Case([&](SigmoidOp) { return float(1 / (1 + std::exp(-double(x)))); })
      .Case([&](TanhOp) { return float(std::tanh(double(x))); })
      .Case([&](ErfOp) { return float(std::erf(double(x))); })
      .Case([&](HardSigmoidOp h) { return hardSigmoid(x, h.getAlpha().convertToFloat(), h.getBeta().convertToFloat()); })
      .Case([&](HardSwishOp) { return x * hardSigmoid(x, 1.0f / 6.0f, 0.5f); })
      .Case([&](LeakyReluOp leaky) { return x < 0 ? x * leaky.getAlpha().convertToFloat() : x; })
      .Default([](Operation *) { return std::nullopt; });
}

static std::optional<int64_t> integerUnary(Operation *op, int64_t x) {
  return TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case([&](ReluOp) { return std::max<int64_t>(x, 0); })
      .Case([&](NegOp) { return int64_t(-uint64_t(x)); })
      .Case([&](AbsOp) { return x < 0 ? int64_t(-uint64_t(x)) : x; })
      .Case([&](ClipOp clip) {
        // The bounds that are integers of 64 bits; others are none.
        const double lo = std::ceil(clip.getMin().convertToFloat()), hi = std::floor(clip.getMax().convertToFloat());
        const int64_t least = lo > -0x1p63 ? int64_t(std::min(lo, 0x1p62)) : INT64_MIN;
        const int64_t most = hi < 0x1p63 ? int64_t(std::max(hi, -0x1p62)) : INT64_MAX;
        return std::min(std::max(x, least), most);
      })
      .Default([](Operation *) { return std::nullopt; });
}

static DenseElementsAttr evaluateElementwise(Operation *op, ArrayRef<ElementsAttr> x, RankedTensorType type) {
  SmallVector<ElementsAttr> operands;
  for (ElementsAttr operand : x)
    operands.push_back(broadcastTo(operand, type.getShape()));
  auto map = [&](auto read, auto unary, auto binary) {
    auto a = read(operands[0]);
    auto b = operands.size() > 1 ? read(operands[1]) : a;
    for (size_t i = 0; i < a.size(); ++i) {
      auto value = operands.size() > 1 ? binary(op, a[i], b[i]) : unary(op, a[i]);
      if (!value)
        return decltype(a)();
      a[i] = *value;
    }
    return a;
  };
  if (isa<FloatType>(type.getElementType())) {
    std::vector<float> values = map(readFloats, floatUnary, floatBinary);
    return values.empty() ? nullptr : makeFloats(type, values);
  }
  std::vector<int64_t> values = map(readIntegers, integerUnary, integerBinary);
  return values.empty() ? nullptr : makeIntegers(type, values);
}

static DenseElementsAttr evaluateCast(ElementsAttr x, RankedTensorType type) {
  Type from = x.getElementType(), to = type.getElementType();
  for (Type each : {from, to}) // 64 bits that neither a float nor an int64_t holds
    if (each.isF64() || (each.isInteger(64) && each.isUnsignedInteger()))
      return nullptr;
  if (isa<FloatType>(from)) {
    std::vector<float> values = readFloats(x);
    if (isa<FloatType>(to))
      return makeFloats(type, values);
    std::vector<int64_t> integers;
    for (float value : values) {
      // Beyond the type ONNX leaves the result open; the run time decides.
      if (!to.isInteger(1) && !(std::fabs(value) < 9.2e18f))
        return nullptr;
      integers.push_back(to.isInteger(1) ? value != 0 : int64_t(value));
    }
    return makeIntegers(type, integers);
  }
  std::vector<int64_t> values = readIntegers(x);
  if (isa<FloatType>(to)) {
    std::vector<float> floats(values.begin(), values.end());
    return makeFloats(type, floats);
  }
  if (to.isInteger(1))
    for (int64_t &value : values)
      value = value != 0;
  return makeIntegers(type, values);
}

/// Index along `axis` of row-major element `i`.
static int64_t channelOf(int64_t i, ArrayRef<int64_t> shape, int64_t axis, size_t scales) {
  if (scales == 1)
    return 0;
  return i / rowMajorStrides(shape)[axis] % shape[axis];
}

static DenseElementsAttr evaluateDequantize(DequantizeOp op, ElementsAttr operand, RankedTensorType type) {
  std::vector<int64_t> x = readIntegers(operand);
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t c = channelOf(i, type.getShape(), op.getAxis(), op.getScales().size());
    y[i] = float(x[i] - op.getZeroPoints()[c]) * op.getScales()[c];
  }
  return makeFloats(type, y);
}

static DenseElementsAttr evaluateQuantize(QuantizeOp op, ElementsAttr operand, RankedTensorType type) {
  std::vector<float> x = readFloats(operand);
  std::vector<int64_t> y(x.size());
  int64_t least = type.getElementType().isUnsignedInteger() ? 0 : -128;
  for (size_t i = 0; i < x.size(); ++i) {
    int64_t c = channelOf(i, type.getShape(), op.getAxis(), op.getScales().size());
    float scaled = std::nearbyintf(x[i] / op.getScales()[c]);
    int64_t zeroPoint = op.getZeroPoints()[c];
    // In floats first: the quotient may exceed every integer type.
    scaled = std::isnan(scaled) ? 0 : std::min(std::max(scaled, float(least - zeroPoint)), float(least + 255 - zeroPoint));
    y[i] = int64_t(scaled) + zeroPoint;
  }
  return makeIntegers(type, y);
}

static DenseElementsAttr evaluateConcat(ConcatOp op, RankedTensorType type) {
  size_t size = elementSize(type.getElementType());
  std::vector<char> bytes(type.getNumElements() * size);
  SmallVector<int64_t> strides = rowMajorStrides(type.getShape());
  int64_t at = 0;
  for (Value input : op.getInputs()) {
    ElementsAttr elements = constantOf(input);
    ArrayRef<int64_t> shape = typeOf(elements).getShape();
    std::vector<char> from = readBytes(elements);
    copyBox(shape, size, {bytes.data(), at * strides[op.getAxis()], strides}, {from.data(), 0, rowMajorStrides(shape)});
    at += shape[op.getAxis()];
  }
  return makeBytes(type, bytes);
}

static DenseElementsAttr evaluateSlice(SliceOp op, RankedTensorType type) {
  ElementsAttr x = constantOf(op.getX());
  SmallVector<int64_t> strides = rowMajorStrides(typeOf(x).getShape());
  int64_t offset = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += op.getStarts()[i] * strides[i];
    strides[i] *= op.getSteps()[i];
  }
  return gather(x, type, offset, strides);
}

static DenseElementsAttr evaluatePad(PadOp op, RankedTensorType type) {
  size_t size = elementSize(type.getElementType());
  std::vector<char> bytes = readBytes(DenseElementsAttr::get(type, ArrayRef<Attribute>(cast<Attribute>(op.getValue()))));
  ElementsAttr x = constantOf(op.getX());
  ArrayRef<int64_t> shape = typeOf(x).getShape();
  SmallVector<int64_t> strides = rowMajorStrides(type.getShape());
  int64_t at = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    at += op.getLow()[i] * strides[i];
  std::vector<char> source = readBytes(x);
  copyBox(shape, size, {bytes.data(), at, strides}, {source.data(), 0, rowMajorStrides(shape)});
  return makeBytes(type, bytes);
}

static DenseElementsAttr evaluateQLinearAdd(QLinearAddOp op, ArrayRef<ElementsAttr> operands, RankedTensorType type) {
  const QuantisedSum sum(op);
  std::vector<int64_t> a = readIntegers(broadcastTo(operands[0], type.getShape())),
                       b = readIntegers(broadcastTo(operands[1], type.getShape()));
  const float least = type.getElementType().isUnsignedInteger() ? 0 : -128;
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = int64_t(std::clamp(std::nearbyint(sum.of(a[i], b[i])), least, least + 255));
  return makeIntegers(type, a);
}

/// Ops that compute each element on its own, from `operands` that may be of fewer elements than the op's.
static DenseElementsAttr evaluateElements(Operation *op, ArrayRef<ElementsAttr> operands, RankedTensorType type) {
  return TypeSwitch<Operation *, DenseElementsAttr>(op)
      .Case([&](CastOp) { return evaluateCast(operands[0], type); })
      .Case([](ElementwiseOp) { return DenseElementsAttr(); })
      .Case([&](DequantizeOp dequantize) { return evaluateDequantize(dequantize, operands[0], type); })
      .Case([&](QuantizeOp quantize) { return evaluateQuantize(quantize, operands[0], type); })
      .Case([&](QLinearAddOp add) { return evaluateQLinearAdd(add, operands, type); })
      .Default([&](Operation *) { return evaluateElementwise(op, operands, type); });
}

DenseElementsAttr evaluate(Operation *op) {
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (isElementwise(op) && !isa<RequantizeOp>(op)) {
    SmallVector<ElementsAttr> operands;
    for (Value operand : op->getOperands())
      operands.push_back(constantOf(operand));
    auto isSplat = [](ElementsAttr x) { return isa<DenseElementsAttr>(x) && x.isSplat(); };
    if (hasChannelAxis(op) || !llvm::all_of(operands, isSplat) || type.getNumElements() == 0)
      return evaluateElements(op, operands, type);
    // Equal elements stay one.
    for (ElementsAttr &operand : operands)
      operand = cast<DenseElementsAttr>(operand).resizeSplat(RankedTensorType::get({}, operand.getElementType()));
    DenseElementsAttr result = evaluateElements(op, operands, RankedTensorType::get({}, type.getElementType()));
    return result ? result.resizeSplat(type) : result;
  }
  return TypeSwitch<Operation *, DenseElementsAttr>(op)
      .Case([&](ReshapeOp reshape) { return reshapeConstant(constantOf(reshape.getX()), type.getShape()); })
      .Case([&](TransposeOp transpose) { return transposeConstant(constantOf(transpose.getX()), transpose.getPerm()); })
      .Case([&](ConcatOp concat) { return evaluateConcat(concat, type); })
      .Case([&](SliceOp slice) { return evaluateSlice(slice, type); })
      .Case([&](PadOp pad) { return evaluatePad(pad, type); })
      .Default([](Operation *op) { return evaluateSums(op); });
}

QuantisedSum::QuantisedSum(QLinearAddOp op) {
  const float scale = op.getYScale().convertToFloat();
  aRatio = op.getAScale().convertToFloat() / scale;
  bRatio = op.getBScale().convertToFloat() / scale;
  auto point = [](uint32_t value) { return float(int32_t(value)); };
  shift = point(op.getYZeroPoint()) - std::fma(aRatio, point(op.getAZeroPoint()), bRatio * point(op.getBZeroPoint()));
}

} // namespace tw::graph
