//===- ImportNn.cpp - Convolution, pooling, normalisation -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/frontend/Window.h"
#include <algorithm>

namespace tw::frontend {

using llvm::ArrayRef;
using Tensors = std::vector<Tensor>;

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

bool Window::hasOverhang() const {
  return llvm::any_of(overhang, [](int64_t extra) { return extra != 0; });
}

Shape Window::padsWithOverhang() const {
  Shape all = pads;
  for (size_t i = 0; i < rank(); ++i)
    all[rank() + i] += overhang[i];
  return all;
}

Window Window::lifted() const {
  return {{1, kernel[0]}, {1, strides[0]}, {1, dilations[0]}, {0, pads[0], 0, pads[1]}, {0, overhang[0]}, {1, output[0]}};
}

/// No window is larger: sums and products of two such numbers and a dim stay far from overflow.
static constexpr int64_t kMaxWindow = int64_t(1) << 30;

/// Fails unless `values` are `count` numbers from `least` to 2^30.
static void checkList(const Node &n, llvm::StringRef name, ArrayRef<int64_t> values, size_t count, int64_t least) {
  if (values.size() != count)
    n.fail(name + " is " + formatShape(values) + ", expected " + llvm::Twine(count) + " values");
  for (int64_t value : values)
    if (value < least || value > kMaxWindow)
      n.fail(name + " is " + formatShape(values) + ", every value must be " + llvm::Twine(least) + " to 2^30");
}

Shape readKernelShape(Node &n, size_t rank) {
  std::vector<int64_t> kernel = n.intsAttr("kernel_shape");
  checkList(n, "kernel_shape", kernel, rank, 1);
  return Shape(kernel.begin(), kernel.end());
}

Window readWindow(Node &n, ArrayRef<int64_t> spatial, ArrayRef<int64_t> kernel, bool isPool) {
  size_t rank = spatial.size();
  std::vector<int64_t> strides = n.intsAttr("strides", std::vector<int64_t>(rank, 1));
  std::vector<int64_t> dilations(rank, 1);
  if (!isPool || (n.type() == "MaxPool" && n.opset() >= 10) || (n.type() == "AveragePool" && n.opset() >= 19))
    dilations = n.intsAttr("dilations", dilations);
  std::vector<int64_t> pads = n.intsAttr("pads", std::vector<int64_t>(2 * rank, 0));
  std::string autoPad = n.stringAttr("auto_pad", "NOTSET");
  bool ceilMode = isPool && (n.opset() >= 10 || !n.domain().empty()) && n.flagAttr("ceil_mode", false);
  checkList(n, "strides", strides, rank, 1);
  checkList(n, "dilations", dilations, rank, 1);
  checkList(n, "pads", pads, 2 * rank, 0);
  bool same = autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER";
  if (!same && autoPad != "NOTSET" && autoPad != "VALID")
    n.fail("auto_pad is " + autoPad + ", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  if (autoPad != "NOTSET")
    pads.assign(2 * rank, 0);

  Window window;
  window.kernel.assign(kernel.begin(), kernel.end());
  window.strides.assign(strides.begin(), strides.end());
  window.dilations.assign(dilations.begin(), dilations.end());
  window.pads.assign(pads.begin(), pads.end());
  window.overhang.assign(rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    // Every factor is at most 2^31.
    int64_t extent = (kernel[i] - 1) * dilations[i] + 1, stride = strides[i], in = spatial[i];
    if (same) {
      int64_t total = std::max<int64_t>(0, ((in + stride - 1) / stride - 1) * stride + extent - in);
      window.pads[i] = autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
      window.pads[rank + i] = total - window.pads[i];
    }
    int64_t padded = in + window.pads[i] + window.pads[rank + i];
    if (extent > padded)
      n.fail("the window covers " + llvm::Twine(extent) + " positions of spatial dim " + llvm::Twine(i) +
             ", the padded input has only " + llvm::Twine(padded));
    int64_t out = (padded - extent) / stride + 1;
    if (ceilMode && !same) {
      // A window must start inside the input or its padding at the beginning.
      if ((padded - extent) % stride && out * stride < in + window.pads[i]) {
        window.overhang[i] = out * stride + extent - padded;
        ++out;
      } else if (out > 1 && (out - 1) * stride >= in + window.pads[i]) {
        --out;
        window.pads[rank + i] = std::max<int64_t>(0, (out - 1) * stride + extent - in - window.pads[i]);
      }
    }
    window.output.push_back(out);
  }
  return window;
}

Tensor lift(const Node &n, const Tensor &x) { return n.reshape(x, {x.shape[0], x.shape[1], 1, x.shape[2]}); }

//===----------------------------------------------------------------------===//
// Convolution
//===----------------------------------------------------------------------===//

Tensor importConvolution(Node &n) {
  Tensor x = n.input(0, "X"), w = n.input(1, "W");
  n.requireSameType(x, w);
  n.requireFloat(x);
  if (x.rank() < 3 || w.rank() != x.rank())
    n.fail("inputs have shapes " + formatShape(x.shape) + " and " + formatShape(w.shape) +
           ", expected [N, C, ..] and [O, C / group, ..] with as many spatial dims");
  ArrayRef<int64_t> kernel = ArrayRef<int64_t>(w.shape).drop_front(2);
  if (std::vector<int64_t> given = n.intsAttr("kernel_shape", kernel.vec()); ArrayRef<int64_t>(given) != kernel)
    n.fail("kernel_shape is " + formatShape(given) + ", the weights have shape " + formatShape(w.shape));
  checkList(n, "kernel_shape", kernel, kernel.size(), 1);
  int64_t group = n.intAttr("group", 1);
  Window window = readWindow(n, ArrayRef<int64_t>(x.shape).drop_front(2), kernel, false);
  Shape result{x.shape[0], w.shape[0]};
  result.append(window.output);
  if (x.rank() > 4)
    n.inexpressible("the convolution has " + llvm::Twine(x.rank() - 2) + " spatial dims, expected 1 or 2");
  if (x.rank() == 3) {
    x = lift(n, x);
    w = lift(n, w);
    window = window.lifted();
  }
  mlir::Value bias;
  if (n.has(2)) {
    n.requireSameType(x, n.input(2, "B"));
    bias = n.value(n.input(2, "B"));
  }
  Shape shape = n.check(graph::convShape(x.shape, w.shape, window.strides, window.pads, window.dilations, group, "nchw"));
  Tensor y = n.emit<graph::ConvOp>(x.kind, shape, n.value(x), n.value(w), bias, window.strides, window.pads, window.dilations,
                                   uint64_t(group), "nchw");
  return n.reshape(y, result);
}

static Tensors importConv(Node &n) {
  n.checkInputCount(2, 3);
  return {importConvolution(n)};
}

/// The weights [C, O / group, kh, kw] of a transposed convolution as those of the convolution that it is: [O, C / group, kh, kw],
/// turned by 180 degrees.
static Tensor turnWeights(const Node &n, const Tensor &w, int64_t group) {
  int64_t c = w.shape[0] / group, o = w.shape[1], kh = w.shape[2], kw = w.shape[3];
  Tensor turned = n.slice(w, {0, 0, kh - 1, kw - 1}, {1, 1, -1, -1}, w.shape);
  Tensor groups = n.transpose(n.reshape(turned, {group, c, o, kh, kw}), {0, 2, 1, 3, 4});
  return n.reshape(groups, {group * o, c, kh, kw});
}

/// `x` with `pads` zeros (top, left, bottom, right); negative pads cut.
static Tensor padOrCut(const Node &n, const Tensor &x, ArrayRef<int64_t> pads) {
  auto cut = [&](size_t i) { return std::max<int64_t>(-pads[i], 0); };
  auto add = [&](size_t i) { return std::max<int64_t>(pads[i], 0); };
  Tensor part = n.slice(x, {0, 0, cut(0), cut(1)}, {1, 1, 1, 1},
                        {x.shape[0], x.shape[1], x.shape[2] - cut(0) - cut(2), x.shape[3] - cut(1) - cut(3)});
  return n.pad(part, {0, 0, add(0), add(1)}, {0, 0, add(2), add(3)}, *makeSplat(part.kind, {}, 0));
}

/// A transposed convolution is a convolution of the input with stride - 1 zeros between its elements. Where its windows do not
/// overlap it is a matrix product per position, and no zeros are needed. source: ONNX Operators, ConvTranspose-11
static Tensors importConvTranspose(Node &n) {
  n.checkInputCount(2, 3);
  Tensor x = n.input(0, "X"), w = n.input(1, "W");
  n.requireSameType(x, w);
  n.requireFloat(x);
  if (x.rank() < 3 || w.rank() != x.rank())
    n.fail("inputs have shapes " + formatShape(x.shape) + " and " + formatShape(w.shape) +
           ", expected the same rank, at least 3");
  size_t rank = size_t(x.rank() - 2);
  ArrayRef<int64_t> kernel = ArrayRef<int64_t>(w.shape).drop_front(2);
  if (std::vector<int64_t> given = n.intsAttr("kernel_shape", kernel.vec()); ArrayRef<int64_t>(given) != kernel)
    n.fail("kernel_shape is " + formatShape(given) + ", the weights have shape " + formatShape(w.shape));
  std::vector<int64_t> ones(rank, 1), zeros(rank, 0);
  std::vector<int64_t> strides = n.intsAttr("strides", ones), dilations = n.intsAttr("dilations", ones);
  std::vector<int64_t> extra = n.intsAttr("output_padding", zeros),
                       pads = n.intsAttr("pads", std::vector<int64_t>(2 * rank, 0));
  std::string autoPad = n.stringAttr("auto_pad", "NOTSET");
  int64_t group = n.intAttr("group", 1);
  checkList(n, "kernel_shape", kernel, rank, 1);
  checkList(n, "strides", strides, rank, 1);
  checkList(n, "dilations", dilations, rank, 1);
  checkList(n, "output_padding", extra, rank, 0);
  checkList(n, "pads", pads, 2 * rank, 0);
  if (group < 1 || w.shape[0] % group || w.shape[0] != x.shape[1] || group > kMaxWindow)
    n.fail("weights of shape " + formatShape(w.shape) + " in " + llvm::Twine(group) + " groups do not fit an input of shape " +
           formatShape(x.shape));
  if (autoPad == "VALID")
    pads.assign(2 * rank, 0);
  bool sized = n.hasAttr("output_shape") || llvm::StringRef(autoPad).starts_with("SAME");
  std::vector<int64_t> given;
  if (sized) {
    for (size_t i = 0; i < rank; ++i)
      given.push_back(x.shape[2 + i] * strides[i]);
    given = n.intsAttr("output_shape", given);
    checkList(n, "output_shape", given, rank, 1);
  }
  Shape shape{x.shape[0], w.shape[1] * group};
  for (size_t i = 0; i < rank; ++i) {
    int64_t full = (x.shape[2 + i] - 1) * strides[i] + extra[i] + (kernel[i] - 1) * dilations[i] + 1;
    if (sized) {
      // The smaller half of the pads stands before under SAME_UPPER, behind otherwise.
      int64_t total = std::max<int64_t>(full - given[i], 0);
      pads[i] = autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[rank + i] = total - pads[i];
      extra[i] += std::max<int64_t>(given[i] - full, 0);
      full = given[i] + total;
    }
    shape.push_back(full - pads[i] - pads[rank + i]);
    if (shape.back() < 1)
      n.fail("pads are " + formatShape(pads) + ", which leave nothing of the " + llvm::Twine(full) +
             " positions of spatial dim " + llvm::Twine(i));
  }
  if (rank > 2)
    return n.emitFallback({{x.kind, shape}}, "the convolution has " + std::to_string(rank) + " spatial dims, expected 1 or 2");
  mlir::Value bias;
  if (n.has(2)) {
    n.requireSameType(x, n.input(2, "B"));
    bias = n.value(n.input(2, "B"));
  }
  if (rank == 1) {
    x = lift(n, x);
    w = lift(n, w);
    strides.insert(strides.begin(), 1);
    dilations.insert(dilations.begin(), 1);
    extra.insert(extra.begin(), 0);
    pads = {0, pads[0], 0, pads[1]};
  }
  int64_t images = x.shape[0], c = x.shape[1], h = x.shape[2], width = x.shape[3];
  int64_t o = w.shape[1], kh = w.shape[2], kw = w.shape[3];
  auto conv = [&](const Tensor &input, const Tensor &weights, mlir::Value b, ArrayRef<int64_t> by) {
    Shape result = n.check(graph::convShape(input.shape, weights.shape, {1, 1}, {0, 0, 0, 0}, by, group, "nchw"));
    return n.emit<graph::ConvOp>(x.kind, result, n.value(input), n.value(weights), b, ArrayRef<int64_t>{1, 1},
                                 ArrayRef<int64_t>{0, 0, 0, 0}, by, uint64_t(group), "nchw");
  };
  bool apart = strides[0] == kh && strides[1] == kw && dilations[0] == 1 && dilations[1] == 1 && group == 1 && !bias;
  Tensor y;
  if (apart) {
    Tensor each = n.reshape(n.transpose(w, {1, 2, 3, 0}), {o * kh * kw, c, 1, 1});
    Tensor blocks = n.reshape(conv(x, each, nullptr, {1, 1}), {images, o, kh, kw, h, width});
    Tensor image = n.reshape(n.transpose(blocks, {0, 1, 4, 2, 5, 3}), {images, o, h * kh, width * kw});
    y = padOrCut(n, image, {-pads[0], -pads[1], extra[0] - pads[2], extra[1] - pads[3]});
  } else {
    Tensor spread = n.pad(n.reshape(x, {images, c, h, 1, width, 1}), {0, 0, 0, 0, 0, 0},
                          {0, 0, 0, strides[0] - 1, 0, strides[1] - 1}, *makeSplat(x.kind, {}, 0));
    Tensor image = n.reshape(spread, {images, c, h * strides[0], width * strides[1]});
    // stride - 1 zeros stand behind the last element already.
    auto before = [&](size_t i, int64_t k) { return dilations[i] * (k - 1) - pads[i]; };
    auto behind = [&](size_t i, int64_t k) { return dilations[i] * (k - 1) - pads[2 + i] + extra[i] - (strides[i] - 1); };
    Tensor padded = padOrCut(n, image, {before(0, kh), before(1, kw), behind(0, kh), behind(1, kw)});
    y = conv(padded, turnWeights(n, w, group), bias, dilations);
  }
  return {n.reshape(y, shape)};
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

namespace {
struct Pooling {
  bool isMax = true;
  bool countIncludePad = false;
};
} // namespace

/// One graph op over the two spatial dims of `x`.
static Tensor pool2d(const Node &n, const Pooling &pooling, const Tensor &x, const Window &window) {
  if (pooling.isMax) {
    Shape pads = window.padsWithOverhang();
    Shape shape = n.check(graph::poolShape(x.shape, window.kernel, window.strides, pads, window.dilations, "nchw"));
    return n.emit<graph::MaxPoolOp>(x.kind, shape, n.value(x), window.kernel, window.strides, pads, window.dilations, "nchw");
  }
  Tensor input = x;
  Shape pads = window.pads;
  bool countIncludePad = pooling.countIncludePad;
  if (window.hasOverhang()) {
    // Padding that counts becomes part of the input, since the overhang does not count.
    if (countIncludePad)
      input = n.pad(x, {0, 0, pads[0], pads[1]}, {0, 0, pads[2], pads[3]}, *makeSplat(x.kind, {}, 0));
    pads = countIncludePad ? Shape{0, 0, window.overhang[0], window.overhang[1]} : window.padsWithOverhang();
    countIncludePad = false;
  }
  Shape shape = n.check(graph::poolShape(input.shape, window.kernel, window.strides, pads, {1, 1}, "nchw"));
  return n.emit<graph::AveragePoolOp>(x.kind, shape, n.value(input), window.kernel, window.strides, pads, countIncludePad,
                                      "nchw");
}

/// Maxima and means over a box are maxima and means over H and W, then over D; the counts of a mean multiply, too.
static Tensor pool(const Node &n, const Pooling &pooling, const Tensor &x, const Window &window) {
  Shape result{x.shape[0], x.shape[1]};
  result.append(window.output);
  if (window.rank() == 1)
    return n.reshape(pool2d(n, pooling, lift(n, x), window.lifted()), result);
  if (window.rank() == 2)
    return pool2d(n, pooling, x, window);
  if (window.rank() > 3)
    n.inexpressible("the window has " + llvm::Twine(window.rank()) + " spatial dims, expected 1 to 3");
  auto part = [&](size_t a, size_t b) {
    return Window{
        {window.kernel[a], window.kernel[b]},       {window.strides[a], window.strides[b]},
        {window.dilations[a], window.dilations[b]}, {window.pads[a], window.pads[b], window.pads[3 + a], window.pads[3 + b]},
        {window.overhang[a], window.overhang[b]},   {window.output[a], window.output[b]}};
  };
  int64_t depth = x.shape[2];
  Tensor planes = pool2d(n, pooling, n.reshape(x, {x.shape[0], x.shape[1] * depth, x.shape[3], x.shape[4]}), part(1, 2));
  Window along = part(0, 1);
  along.kernel[1] = along.strides[1] = along.dilations[1] = 1;
  along.pads[1] = along.pads[3] = along.overhang[1] = 0;
  Tensor columns = n.reshape(planes, {x.shape[0], x.shape[1], depth, window.output[1] * window.output[2]});
  return n.reshape(pool2d(n, pooling, columns, along), result);
}

static void requireSpatial(const Node &n, const Tensor &x) {
  if (x.rank() < 3)
    n.fail("input has shape " + formatShape(x.shape) + ", expected [N, C, ..] with at least one spatial dim");
}

static Tensors importMaxPool(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  requireSpatial(n, x);
  // The order of the second output, which is never made.
  if (n.opset() >= 8)
    n.intAttr("storage_order", 0);
  Window window = readWindow(n, ArrayRef<int64_t>(x.shape).drop_front(2), readKernelShape(n, size_t(x.rank() - 2)), true);
  return {pool(n, Pooling{true, false}, x, window)};
}

static Tensors importAveragePool(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  requireSpatial(n, x);
  n.requireFloat(x);
  bool countIncludePad = n.flagAttr("count_include_pad", false);
  Window window = readWindow(n, ArrayRef<int64_t>(x.shape).drop_front(2), readKernelShape(n, size_t(x.rank() - 2)), true);
  if (llvm::any_of(window.dilations, [](int64_t dilation) { return dilation != 1; })) {
    Shape shape{x.shape[0], x.shape[1]};
    shape.append(window.output);
    return n.emitFallback({{x.kind, shape}}, "dilations are " + formatShape(window.dilations) +
                                                 ", expected 1: a dilated average is not supported");
  }
  return {pool(n, Pooling{false, countIncludePad}, x, window)};
}

template <bool isMax> static Tensors importGlobalPool(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  requireSpatial(n, x);
  n.requireFloat(x);
  size_t rank = size_t(x.rank() - 2);
  Window window;
  window.kernel.assign(x.shape.begin() + 2, x.shape.end());
  window.strides = window.dilations = window.output = Shape(rank, 1);
  window.pads.assign(2 * rank, 0);
  window.overhang.assign(rank, 0);
  checkList(n, "the list of spatial dims", window.kernel, rank, 1);
  return {pool(n, Pooling{isMax, false}, x, window)};
}

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

static Tensors importBatchNormalization(Node &n) {
  n.checkInputCount(5, 5);
  const Tensor &x = n.input(0, "X");
  n.requireFloat(x);
  float epsilon = n.floatAttr("epsilon", 1e-5f);
  n.floatAttr("momentum", 0.9f);
  if (n.opset() < 9 && n.intAttr("spatial", 1) != 1)
    n.inexpressible("spatial is 0, expected 1");
  if (n.opset() >= 14 && n.intAttr("training_mode", 0) != 0)
    n.inexpressible("training_mode is 1");
  return {n.emit<graph::BatchNormOp>(x.kind, x.shape, n.value(x), n.value(n.input(1, "scale")), n.value(n.input(2, "B")),
                                     n.value(n.input(3, "mean")), n.value(n.input(4, "var")),
                                     n.builder().getF32FloatAttr(epsilon))};
}

static Tensors importInstanceNormalization(Node &n) {
  n.checkInputCount(3, 3);
  const Tensor &x = n.input(0, "input");
  requireSpatial(n, x);
  n.requireFloat(x);
  Tensor epsilon = makeSplat(x.kind, {}, n.floatAttr("epsilon", 1e-5f));
  std::vector<int64_t> axes;
  Shape channels(x.shape.size(), 1);
  channels[1] = x.shape[1];
  for (int64_t i = 2; i < x.rank(); ++i)
    axes.push_back(i);
  Tensor scale = n.reshape(n.input(1, "scale"), channels), bias = n.reshape(n.input(2, "B"), channels);
  Tensor centred = n.binary(BinaryKind::Sub, x, n.reduce("mean", x, axes, true));
  Tensor variance = n.reduce("mean", n.binary(BinaryKind::Mul, centred, centred), axes, true);
  Tensor deviation = n.emitUnary<graph::SqrtOp>(n.binary(BinaryKind::Add, variance, epsilon));
  Tensor normal = n.binary(BinaryKind::Div, centred, deviation);
  return {n.binary(BinaryKind::Add, n.binary(BinaryKind::Mul, normal, scale), bias)};
}

/// x / (bias + alpha / size * sum of the squares of `size` neighbouring channels) ^ beta. The mean of the squares is an average
/// pool along rows of the channels of a position; 0.75, the usual exponent, is two square roots. source: ONNX Operators, LRN-13
static Tensors importLrn(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  requireSpatial(n, x);
  n.requireFloat(x);
  float alpha = n.floatAttr("alpha", 1e-4f), beta = n.floatAttr("beta", 0.75f), bias = n.floatAttr("bias", 1.f);
  int64_t size = n.intAttr("size");
  checkList(n, "size", size, 1, 1);
  if (beta != 0.75f && beta != 0.5f)
    return n.emitFallback({{x.kind, x.shape}}, "beta is " + std::to_string(beta) + ", expected 0.5 or 0.75");
  int64_t area = 1;
  for (int64_t dim : ArrayRef<int64_t>(x.shape).drop_front(2))
    area *= dim;
  Shape toLast{0}, toSecond{0, x.rank() - 1};
  for (int64_t dim = 2; dim < x.rank(); ++dim) {
    toLast.push_back(dim);
    toSecond.push_back(dim - 1);
  }
  toLast.push_back(1);
  Tensor squares = n.transpose(n.binary(BinaryKind::Mul, x, x), toLast);
  Window window{{1, size}, {1, 1}, {1, 1}, {0, (size - 1) / 2, 0, size / 2}, {0, 0}, {area, x.shape[1]}};
  Tensor rows = pool2d(n, Pooling{false, true}, n.reshape(squares, {x.shape[0], 1, area, x.shape[1]}), window);
  Tensor mean = n.transpose(n.reshape(rows, squares.shape), toSecond);
  Tensor scaled = n.binary(BinaryKind::Mul, mean, makeSplat(x.kind, {}, alpha));
  Tensor root = n.emitUnary<graph::SqrtOp>(n.binary(BinaryKind::Add, scaled, makeSplat(x.kind, {}, bias)));
  if (beta == 0.5f)
    return {n.binary(BinaryKind::Div, x, root)};
  return {n.binary(BinaryKind::Div, x, n.binary(BinaryKind::Mul, root, n.emitUnary<graph::SqrtOp>(root)))};
}

void addNnImports(ImportTable &table) {
  table[":Conv"] = importConv;
  table[":ConvTranspose"] = importConvTranspose;
  table[":MaxPool"] = importMaxPool;
  table[":AveragePool"] = importAveragePool;
  table[":GlobalAveragePool"] = importGlobalPool<false>;
  table[":GlobalMaxPool"] = importGlobalPool<true>;
  table[":BatchNormalization"] = importBatchNormalization;
  table[":InstanceNormalization"] = importInstanceNormalization;
  table[":LRN"] = importLrn;
}

} // namespace tw::frontend
