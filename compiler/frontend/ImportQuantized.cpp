//===- ImportQuantized.cpp - Quantised operators --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ONNX's own and ONNX Runtime's. The integer parts become graph ops whose
// results are bit-exact: the order of the fp32 roundings below is part of the
// definition. source: ONNX Runtime, core/providers/cpu/quantization
//===----------------------------------------------------------------------===//
#include "compiler/frontend/Window.h"

namespace tw::frontend {

using llvm::ArrayRef;
using Tensors = std::vector<Tensor>;

//===----------------------------------------------------------------------===//
// Scales and zero points
//===----------------------------------------------------------------------===//

namespace {
/// Scales and zero points of one tensor; one of each, or one per channel.
struct Quantization {
  std::vector<float> scales;
  std::vector<int32_t> zeroPoints;
  /// Element type of the zero point.
  ElementKind kind = ElementKind::U8;
};
} // namespace

static void requireInt8(const Node &n, llvm::StringRef name, ElementKind kind) {
  if (kind != ElementKind::I8 && kind != ElementKind::U8)
    n.inexpressible(name + " is of " + elementName(kind) + ", expected int8 or uint8");
}

/// One value in place of many equal ones.
static std::vector<int32_t> collapse(std::vector<int32_t> zeroPoints) {
  if (llvm::all_equal(zeroPoints))
    zeroPoints.resize(1);
  return zeroPoints;
}

/// Input `i`, a constant scalar or list.
static std::vector<float> readScales(const Node &n, size_t i, llvm::StringRef name) {
  const Constant &x = *n.constant(i, name);
  if (x.shape.size() > 1 || x.count() == 0 || x.count() > (1 << 24) || x.kind != ElementKind::F32)
    n.fail("input " + llvm::Twine(i) + " (" + name + ") has shape " + formatShape(x.shape) + " of " + elementName(x.kind) +
           ", expected a scalar or a list of float");
  std::vector<float> scales;
  for (int64_t k = 0; k < x.count(); ++k)
    scales.push_back(float(x.real(k)));
  return scales;
}

/// Input `i`, constant zero points of type `kind`; `count` zeros if it is left out.
static std::vector<int32_t> readZeroPoints(const Node &n, size_t i, llvm::StringRef name, ElementKind kind, size_t count) {
  if (!n.has(i))
    return std::vector<int32_t>(count, 0);
  const Constant &x = *n.constant(i, name);
  if (x.kind != kind)
    n.fail("input " + llvm::Twine(i) + " (" + name + ") is of " + elementName(x.kind) + ", expected " + elementName(kind) +
           " like the tensor that it belongs to");
  if (x.count() != int64_t(count) || count == 0)
    n.fail("input " + llvm::Twine(i) + " (" + name + ") has shape " + formatShape(x.shape) + ", expected " +
           llvm::Twine(count) + " values, one for each channel or scale");
  std::vector<int32_t> zeroPoints;
  for (int64_t k = 0; k < x.count(); ++k)
    zeroPoints.push_back(int32_t(x.integer(k)));
  return zeroPoints;
}

/// Scale in input `i`, zero point in input `i + 1`; the zero point's type is `kind`.
static Quantization readQuantization(const Node &n, size_t i, llvm::StringRef name, ElementKind kind) {
  Quantization q;
  q.kind = kind;
  requireInt8(n, name, kind);
  q.scales = readScales(n, i, (name + "_scale").str());
  q.zeroPoints = readZeroPoints(n, i + 1, (name + "_zero_point").str(), kind, q.scales.size());
  return q;
}

/// The same for a tensor with one scale.
static Quantization readScalarQuantization(const Node &n, size_t i, llvm::StringRef name, ElementKind kind) {
  Quantization q = readQuantization(n, i, name, kind);
  if (q.scales.size() != 1)
    n.inexpressible(name + "_scale has " + llvm::Twine(q.scales.size()) + " values, expected 1");
  return q;
}

/// The same for a result, whose type the zero point decides; without one it is uint8.
static Quantization readResultQuantization(const Node &n, size_t i, llvm::StringRef name) {
  return readScalarQuantization(n, i, name, n.has(i + 1) ? n.input(i + 1, (name + "_zero_point").str()).kind : ElementKind::U8);
}

/// Checks a list per channel against its dim. The axis does not matter, and is 0, where one value serves all.
static int64_t channelAxis(const Node &n, size_t count, int64_t axis, ArrayRef<int64_t> shape) {
  if (count == 1)
    return 0;
  axis = n.axis(axis, int64_t(shape.size()));
  if (shape[size_t(axis)] != int64_t(count))
    n.fail("found " + llvm::Twine(count) + " scales, expected 1 or " + llvm::Twine(shape[size_t(axis)]) + ", the size of dim " +
           llvm::Twine(axis) + " of " + formatShape(shape));
  return axis;
}

static Tensor emitQuantize(const Node &n, const Tensor &x, const Quantization &q, int64_t axis) {
  return n.emit<graph::QuantizeOp>(q.kind, x.shape, n.value(x), q.scales, q.zeroPoints, axis);
}

static Tensor emitDequantize(const Node &n, const Tensor &x, ArrayRef<float> scales, ArrayRef<int32_t> zeroPoints,
                             int64_t axis) {
  return n.emit<graph::DequantizeOp>(ElementKind::F32, x.shape, n.value(x), scales, zeroPoints, axis);
}

static Tensor emitRequantize(const Node &n, const Tensor &x, mlir::Value bias, ArrayRef<float> multipliers, int64_t axis,
                             const Quantization &y) {
  return n.emit<graph::RequantizeOp>(y.kind, x.shape, n.value(x), bias, multipliers, axis, uint32_t(y.zeroPoints[0]));
}

//===----------------------------------------------------------------------===//
// QuantizeLinear, DequantizeLinear
//===----------------------------------------------------------------------===//

/// The axis of the scales; blocks of scales along a dim are refused.
static int64_t quantizationAxis(Node &n) {
  bool perAxis = n.opset() >= 13 || !n.domain().empty();
  if (n.opset() >= 21 && n.intAttr("block_size", 0) != 0)
    n.inexpressible("blocked quantisation is not supported");
  return perAxis ? n.intAttr("axis", 1) : 1;
}

static Tensors importQuantizeLinear(Node &n) {
  n.checkInputCount(2, 3);
  Tensor x = n.input(0, "x");
  int64_t axis = quantizationAxis(n);
  ElementKind kind = n.has(2) ? n.input(2, "y_zero_point").kind : ElementKind::U8;
  if (n.opset() >= 19 && n.domain().empty())
    n.intAttr("saturate", 1);
  if (n.opset() >= 21) {
    // source: onnx.proto, TensorProto.DataType: 2 is UINT8, 3 is INT8
    int64_t type = n.intAttr("output_dtype", 0);
    if (type != 0 && type != 2 && type != 3)
      n.inexpressible("output_dtype is " + llvm::Twine(type) + ", expected uint8 (2) or int8 (3)");
    if (!n.has(2) && type == 3)
      kind = ElementKind::I8;
  }
  Quantization q = readQuantization(n, 1, "y", kind);
  axis = channelAxis(n, q.scales.size(), axis, x.shape);
  if (x.kind == ElementKind::I32)
    x = n.cast(x, ElementKind::F32);
  if (x.kind != ElementKind::F32)
    n.inexpressible(llvm::Twine("input is of ") + elementName(x.kind) + ", expected float");
  bool positive = llvm::all_of(q.scales, [](float scale) { return scale > 0; });
  if (x.constant && positive)
    return {evalQuantize(x.constant, q.scales, q.zeroPoints, axis, kind)};
  return {emitQuantize(n, x, q, axis)};
}

static Tensors importDequantizeLinear(Node &n) {
  n.checkInputCount(2, 3);
  const Tensor &x = n.input(0, "x");
  int64_t axis = quantizationAxis(n);
  if (x.kind != ElementKind::I32)
    requireInt8(n, "input", x.kind);
  std::vector<float> scales = readScales(n, 1, "x_scale");
  std::vector<int32_t> zeroPoints = readZeroPoints(n, 2, "x_zero_point", x.kind, scales.size());
  // Constants stay quantised: the dequantize op tells later passes so.
  return {emitDequantize(n, x, scales, zeroPoints, channelAxis(n, scales.size(), axis, x.shape))};
}

static Tensors importDynamicQuantizeLinear(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "x");
  return n.emitFallback({{ElementKind::U8, x.shape}, {ElementKind::F32, {}}, {ElementKind::U8, {}}},
                        "scales known at run time only are not supported");
}

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

/// graph.conv_integer of an [N, C, L] or [N, C, H, W] input; a 1-D convolution gives its 2-D result [N, O, 1, L].
static Tensor emitConvInteger(Node &n, Tensor x, Tensor w, int32_t xZeroPoint, std::vector<int32_t> wZeroPoints,
                              Shape &result) {
  requireInt8(n, "x", x.kind);
  requireInt8(n, "w", w.kind);
  if (x.rank() < 3 || w.rank() != x.rank())
    n.fail("inputs have shapes " + formatShape(x.shape) + " and " + formatShape(w.shape) +
           ", expected [N, C, ..] and [O, C / group, ..] with as many spatial dims");
  ArrayRef<int64_t> kernel = ArrayRef<int64_t>(w.shape).drop_front(2);
  if (std::vector<int64_t> given = n.intsAttr("kernel_shape", kernel.vec()); ArrayRef<int64_t>(given) != kernel)
    n.fail("kernel_shape is " + formatShape(given) + ", the weights have shape " + formatShape(w.shape));
  int64_t group = n.intAttr("group", 1);
  Window window = readWindow(n, ArrayRef<int64_t>(x.shape).drop_front(2), kernel, false);
  result = {x.shape[0], w.shape[0]};
  result.append(window.output);
  if (x.rank() > 4)
    n.inexpressible("the convolution has " + llvm::Twine(x.rank() - 2) + " spatial dims, expected 1 or 2");
  if (x.rank() == 3) {
    x = lift(n, x);
    w = lift(n, w);
    window = window.lifted();
  }
  Shape shape = n.check(graph::convShape(x.shape, w.shape, window.strides, window.pads, window.dilations, group, "nchw"));
  return n.emit<graph::ConvIntegerOp>(ElementKind::I32, shape, n.value(x), n.value(w), uint32_t(xZeroPoint),
                                      collapse(wZeroPoints), window.strides, window.pads, window.dilations, uint64_t(group),
                                      "nchw");
}

static Tensors importConvInteger(Node &n) {
  n.checkInputCount(2, 4);
  const Tensor &x = n.input(0, "x"), &w = n.input(1, "w");
  // One may serve all channels.
  size_t count = n.has(3) && n.constant(3, "w_zero_point")->count() != 1 && w.rank() > 0 ? size_t(w.shape[0]) : 1;
  int32_t xZeroPoint = readZeroPoints(n, 2, "x_zero_point", x.kind, 1)[0];
  Shape result;
  Tensor y = emitConvInteger(n, x, w, xZeroPoint, readZeroPoints(n, 3, "w_zero_point", w.kind, count), result);
  return {n.reshape(y, result)};
}

static Tensors importQLinearConv(Node &n) {
  n.checkInputCount(8, 9);
  const Tensor &x = n.input(0, "x"), &w = n.input(3, "w");
  if (!n.domain().empty() && n.intAttr("channels_last", 0) != 0)
    n.inexpressible("channels_last is 1, expected 0");
  Quantization qx = readScalarQuantization(n, 1, "x", x.kind), qy = readResultQuantization(n, 6, "y");
  std::vector<float> wScales = readScales(n, 4, "w_scale");
  // One zero point may serve weights with a scale per channel.
  size_t zeroPointCount = size_t(n.constant(5, "w_zero_point")->count());
  if (zeroPointCount != 1)
    zeroPointCount = wScales.size();
  std::vector<int32_t> wZeroPoints = readZeroPoints(n, 5, "w_zero_point", w.kind, zeroPointCount);
  channelAxis(n, wScales.size(), 0, w.shape);
  Shape result;
  Tensor sum = emitConvInteger(n, x, w, qx.zeroPoints[0], wZeroPoints, result);
  mlir::Value bias;
  if (n.has(8))
    bias = n.value(n.input(8, "B"));
  std::vector<float> multipliers;
  for (float scale : wScales)
    multipliers.push_back((qx.scales[0] * scale) / qy.scales[0]);
  return {n.reshape(emitRequantize(n, sum, bias, multipliers, 1, qy), result)};
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

static Tensor emitMatmulInteger(const Node &n, const Tensor &a, const Tensor &b, int32_t aZeroPoint,
                                std::vector<int32_t> bZeroPoints) {
  Shape shape = n.check(graph::matmulShape(a.shape, b.shape));
  return n.emit<graph::MatmulIntegerOp>(ElementKind::I32, shape, n.value(a), n.value(b), uint32_t(aZeroPoint),
                                        collapse(bZeroPoints));
}

static Tensors importMatMulInteger(Node &n) {
  n.checkInputCount(2, 4);
  const Tensor &a = n.input(0, "A"), &b = n.input(1, "B");
  requireInt8(n, "A", a.kind);
  requireInt8(n, "B", b.kind);
  Shape shape = n.check(graph::matmulShape(a.shape, b.shape));
  const bool hasZeroPoints = !n.has(3) || n.input(3, "b_zero_point").constant;
  if (n.has(2) && !n.input(2, "a_zero_point").constant && hasZeroPoints && a.rank() >= 2 && b.rank() >= 2 &&
      llvm::all_of(n.input(2, "a_zero_point").shape, [](int64_t dim) { return dim == 1; })) {
    // sum (a - zero) (b - ..) is sum (a - middle) (b - ..) + (middle - zero) times the sums of b's columns.
    const int32_t middle = a.kind == ElementKind::U8 ? 128 : 0;
    const size_t count = n.has(3) ? size_t(n.constant(3, "b_zero_point")->count()) : 1;
    const std::vector<int32_t> bZeroPoints = readZeroPoints(n, 3, "b_zero_point", b.kind, count);
    const Tensor zero = n.cast(n.reshape(n.input(2, "a_zero_point"), {}), ElementKind::I32);
    const Tensor shift = n.binary(BinaryKind::Sub, makeSplat(ElementKind::I32, {}, middle), zero);
    const Tensor ones = makeSplat(ElementKind::I8, {1, a.shape.back()}, 1);
    const Tensor columns = emitMatmulInteger(n, ones, b, 0, bZeroPoints);
    return {
        n.binary(BinaryKind::Add, emitMatmulInteger(n, a, b, middle, bZeroPoints), n.binary(BinaryKind::Mul, columns, shift))};
  }
  bool known = (!n.has(2) || n.input(2, "a_zero_point").constant) && (!n.has(3) || n.input(3, "b_zero_point").constant);
  if (!known || (n.has(2) && n.input(2, "a_zero_point").constant->count() != 1))
    return n.emitFallback({{ElementKind::I32, shape}}, "a zero point per row, or known at run time only, is not supported");
  size_t count = n.has(3) ? size_t(n.constant(3, "b_zero_point")->count()) : 1;
  int32_t aZeroPoint = readZeroPoints(n, 2, "a_zero_point", a.kind, 1)[0];
  return {emitMatmulInteger(n, a, b, aZeroPoint, readZeroPoints(n, 3, "b_zero_point", b.kind, count))};
}

static Tensors importQLinearMatMul(Node &n) {
  n.checkInputCount(8, 8);
  const Tensor &a = n.input(0, "a"), &b = n.input(3, "b");
  Quantization qa = readScalarQuantization(n, 1, "a", a.kind), qb = readQuantization(n, 4, "b", b.kind);
  Quantization qy = readResultQuantization(n, 6, "y");
  Tensor sum = emitMatmulInteger(n, a, b, qa.zeroPoints[0], qb.zeroPoints);
  std::vector<float> multipliers;
  for (float scale : qb.scales)
    multipliers.push_back((qa.scales[0] * scale) / qy.scales[0]);
  return {emitRequantize(n, sum, nullptr, multipliers, channelAxis(n, multipliers.size(), -1, sum.shape), qy)};
}

static Tensors importQGemm(Node &n) {
  n.checkInputCount(6, 9);
  Tensor a = n.input(0, "A"), b = n.input(3, "B");
  Quantization qa = readScalarQuantization(n, 1, "a", a.kind), qb = readQuantization(n, 4, "b", b.kind);
  float alpha = n.floatAttr("alpha", 1.f);
  if (a.rank() != 2 || b.rank() != 2)
    n.fail("inputs have shapes " + formatShape(a.shape) + " and " + formatShape(b.shape) + ", expected rank 2");
  if (n.intAttr("transA", 0) != 0)
    a = n.transpose(a, {1, 0});
  if (n.intAttr("transB", 0) != 0)
    b = n.transpose(b, {1, 0});
  Tensor sum = emitMatmulInteger(n, a, b, qa.zeroPoints[0], qb.zeroPoints);
  mlir::Value bias;
  if (n.has(6)) {
    const Tensor &c = n.input(6, "C");
    if (c.kind != ElementKind::I32 || n.check(graph::broadcastShapes(c.shape, sum.shape)) != sum.shape)
      n.fail("C has shape " + formatShape(c.shape) + " of " + elementName(c.kind) + ", expected int32 that broadcasts to " +
             formatShape(sum.shape));
    bool perColumn = n.has(7) && !c.shape.empty() && c.shape.back() == sum.shape[1] && (c.rank() == 1 || c.shape[0] == 1);
    if (perColumn)
      bias = n.value(n.reshape(c, sum.shape[1]));
    else
      sum = n.binary(BinaryKind::Add, sum, c);
  }
  std::vector<float> scales;
  for (float scale : qb.scales)
    scales.push_back(alpha * qa.scales[0] * scale);
  int64_t axis = channelAxis(n, scales.size(), 1, sum.shape);
  if (!n.has(7))
    return {emitDequantize(n, sum, scales, std::vector<int32_t>(scales.size(), 0), axis)};
  Quantization qy = readResultQuantization(n, 7, "y");
  for (float &scale : scales)
    scale /= qy.scales[0];
  return {emitRequantize(n, sum, bias, scales, 1, qy)};
}

//===----------------------------------------------------------------------===//
// ONNX Runtime's element-wise and pooling operators
//===----------------------------------------------------------------------===//

static Tensors importQLinearAdd(Node &n) {
  n.checkInputCount(7, 8);
  const Tensor &a = n.input(0, "A"), &b = n.input(3, "B");
  n.requireSameType(a, b);
  Quantization qa = readScalarQuantization(n, 1, "A", a.kind), qb = readScalarQuantization(n, 4, "B", b.kind);
  Quantization qy = readScalarQuantization(n, 6, "C", a.kind);
  Shape shape = n.check(graph::broadcastShapes(a.shape, b.shape));
  auto f32 = [&](float value) { return n.builder().getF32FloatAttr(value); };
  auto i32 = [&](int32_t value) { return n.builder().getI32IntegerAttr(value); };
  return {n.emit<graph::QLinearAddOp>(a.kind, shape, n.value(a), n.value(b), f32(qa.scales[0]), i32(qa.zeroPoints[0]),
                                      f32(qb.scales[0]), i32(qb.zeroPoints[0]), f32(qy.scales[0]), i32(qy.zeroPoints[0]))};
}

static Tensors importQLinearMul(Node &n) {
  n.checkInputCount(7, 8);
  Shape shape = n.check(graph::broadcastShapes(n.input(0, "A").shape, n.input(3, "B").shape));
  return n.emitFallback({{n.input(0, "A").kind, shape}}, "this operator is not supported");
}

/// Operators that ONNX Runtime computes as quantise(f(dequantise(x))), by a table of the 256 values.
template <typename Function> static Tensors importByTable(Node &n, Function function) {
  n.checkInputCount(4, 5);
  const Tensor &x = n.input(0, "X");
  Quantization qx = readScalarQuantization(n, 1, "X", x.kind), qy = readScalarQuantization(n, 3, "Y", x.kind);
  return {emitQuantize(n, function(emitDequantize(n, x, qx.scales, qx.zeroPoints, 0)), qy, 0)};
}

static Tensors importQLinearSigmoid(Node &n) {
  return importByTable(n, [&](const Tensor &x) { return n.emitUnary<graph::SigmoidOp>(x); });
}

static Tensors importQLinearLeakyRelu(Node &n) {
  float alpha = n.floatAttr("alpha", 0.01f);
  return importByTable(n, [&](const Tensor &x) {
    return n.emit<graph::LeakyReluOp>(x.kind, x.shape, n.value(x), n.builder().getF32FloatAttr(alpha));
  });
}

static Tensors importQLinearConcat(Node &n) {
  n.checkInputCount(5, SIZE_MAX);
  if (n.numInputs() % 3 != 2)
    n.fail("found " + llvm::Twine(n.numInputs()) + " inputs, expected 2 and 3 for every tensor");
  Quantization qy = readResultQuantization(n, 0, "Y");
  Tensors parts;
  for (size_t i = 2; i < n.numInputs(); i += 3) {
    const Tensor &x = n.input(i, "input");
    Quantization qx = readScalarQuantization(n, i + 1, "input", x.kind);
    bool same = x.kind == qy.kind && qx.scales == qy.scales && qx.zeroPoints == qy.zeroPoints;
    parts.push_back(same ? x : emitQuantize(n, emitDequantize(n, x, qx.scales, qx.zeroPoints, 0), qy, 0));
  }
  return {n.concat(parts, n.axis(n.intAttr("axis"), parts.front().rank()))};
}

static Tensors importQLinearAveragePool(Node &n) {
  n.checkInputCount(4, 5);
  Tensor x = n.input(0, "X");
  Quantization qx = readScalarQuantization(n, 1, "x", x.kind), qy = readScalarQuantization(n, 3, "y", x.kind);
  bool nhwc = n.flagAttr("channels_last", false), countIncludePad = n.flagAttr("count_include_pad", false);
  if (x.rank() < 3)
    n.fail("input has shape " + formatShape(x.shape) + ", expected at least rank 3");
  ArrayRef<int64_t> spatial = ArrayRef<int64_t>(x.shape).drop_front(nhwc ? 1 : 2).drop_back(nhwc ? 1 : 0);
  Window window = readWindow(n, spatial, readKernelShape(n, spatial.size()), true);
  if (spatial.size() > 2)
    n.inexpressible("the window has " + llvm::Twine(spatial.size()) + " spatial dims, expected 1 or 2");
  Shape result = nhwc ? Shape{x.shape[0]} : Shape{x.shape[0], x.shape[1]};
  result.append(window.output);
  if (nhwc)
    result.push_back(x.shape.back());
  if (spatial.size() == 1) {
    x = n.reshape(x, nhwc ? Shape{x.shape[0], 1, x.shape[1], x.shape[2]} : Shape{x.shape[0], x.shape[1], 1, x.shape[2]});
    window = window.lifted();
  }
  Shape pads = window.pads;
  if (window.hasOverhang()) {
    // As for AveragePool: padding that counts becomes part of the input.
    if (countIncludePad) {
      x = n.pad(x, nhwc ? Shape{0, pads[0], pads[1], 0} : Shape{0, 0, pads[0], pads[1]},
                nhwc ? Shape{0, pads[2], pads[3], 0} : Shape{0, 0, pads[2], pads[3]}, *makeSplat(x.kind, {}, qx.zeroPoints[0]));
      window.pads.assign(4, 0);
    }
    pads = window.padsWithOverhang();
    countIncludePad = false;
  }
  llvm::StringRef layout = nhwc ? "nhwc" : "nchw";
  Shape shape = n.check(graph::poolShape(x.shape, window.kernel, window.strides, pads, {1, 1}, layout));
  Tensor y = n.emit<graph::QLinearAveragePoolOp>(x.kind, shape, n.value(x), window.kernel, window.strides, pads,
                                                 countIncludePad, llvm::APFloat(qx.scales[0]), uint32_t(qx.zeroPoints[0]),
                                                 llvm::APFloat(qy.scales[0]), uint32_t(qy.zeroPoints[0]), layout);
  return {n.reshape(y, result)};
}

static Tensors importQLinearGlobalAveragePool(Node &n) {
  n.checkInputCount(4, 5);
  const Tensor &x = n.input(0, "X");
  Quantization qx = readScalarQuantization(n, 1, "x", x.kind), qy = readScalarQuantization(n, 3, "y", x.kind);
  bool nhwc = n.flagAttr("channels_last", false);
  if (x.rank() < 3)
    n.fail("input has shape " + formatShape(x.shape) + ", expected at least rank 3");
  int64_t channels = nhwc ? x.shape.back() : x.shape[1], area = 1;
  for (int64_t dim : ArrayRef<int64_t>(x.shape).drop_front(nhwc ? 1 : 2).drop_back(nhwc ? 1 : 0))
    area *= dim;
  // Only the number of positions matters, not their arrangement.
  Tensor plane =
      x.rank() == 4 ? x : n.reshape(x, nhwc ? Shape{x.shape[0], 1, area, channels} : Shape{x.shape[0], channels, 1, area});
  Shape shape = nhwc ? Shape{x.shape[0], 1, 1, channels} : Shape{x.shape[0], channels, 1, 1}, result(x.shape.size(), 1);
  result[0] = x.shape[0];
  result[nhwc ? result.size() - 1 : 1] = channels;
  Tensor y = n.emit<graph::QLinearGlobalAveragePoolOp>(x.kind, shape, n.value(plane), llvm::APFloat(qx.scales[0]),
                                                       uint32_t(qx.zeroPoints[0]), llvm::APFloat(qy.scales[0]),
                                                       uint32_t(qy.zeroPoints[0]), nhwc ? "nhwc" : "nchw");
  return {n.reshape(y, result)};
}

static Tensors importQLinearSoftmax(Node &n) {
  n.checkInputCount(4, 5);
  const Tensor &x = n.input(0, "X");
  Quantization qx = readScalarQuantization(n, 1, "x", x.kind), qy = readScalarQuantization(n, 3, "y", x.kind);
  int64_t axis = n.axis(n.intAttr("axis", -1), x.rank()), opset = n.intAttr("opset");
  return {n.emit<graph::QLinearSoftmaxOp>(x.kind, x.shape, n.value(x), uint64_t(axis), llvm::APFloat(qx.scales[0]),
                                          uint32_t(qx.zeroPoints[0]), llvm::APFloat(qy.scales[0]), uint32_t(qy.zeroPoints[0]),
                                          uint64_t(opset))};
}

void addQuantizedImports(ImportTable &table) {
  for (const char *domain : {":", "com.microsoft:"}) {
    table[std::string(domain) + "QuantizeLinear"] = importQuantizeLinear;
    table[std::string(domain) + "DequantizeLinear"] = importDequantizeLinear;
    table[std::string(domain) + "QLinearConv"] = importQLinearConv;
  }
  table[":DynamicQuantizeLinear"] = importDynamicQuantizeLinear;
  table[":ConvInteger"] = importConvInteger;
  table[":MatMulInteger"] = importMatMulInteger;
  table[":QLinearMatMul"] = importQLinearMatMul;
  table["com.microsoft:QGemm"] = importQGemm;
  table["com.microsoft:QLinearAdd"] = importQLinearAdd;
  table["com.microsoft:QLinearMul"] = importQLinearMul;
  table["com.microsoft:QLinearSigmoid"] = importQLinearSigmoid;
  table["com.microsoft:QLinearLeakyRelu"] = importQLinearLeakyRelu;
  table["com.microsoft:QLinearConcat"] = importQLinearConcat;
  table["com.microsoft:QLinearAveragePool"] = importQLinearAveragePool;
  table["com.microsoft:QLinearGlobalAveragePool"] = importQLinearGlobalAveragePool;
  table["com.microsoft:QLinearSoftmax"] = importQLinearSoftmax;
}

} // namespace tw::frontend
