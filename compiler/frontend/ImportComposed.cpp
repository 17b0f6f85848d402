//===- ImportComposed.cpp - Operators made of other ops -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Activations, norms, attention and fused operators, of ONNX and of ONNX
// Runtime, as graphs of the ops that kernels compute. Forms that cannot be
// expressed so are left to the host.
// sources: ONNX Operators; ONNX Runtime, docs/ContribOperators.md
//===----------------------------------------------------------------------===//
#include "compiler/frontend/Composition.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>

namespace tw::frontend {

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

/// x / (1 + exp(-alpha * x)).
static Tensor swish(const Node &n, const Tensor &x, double alpha) {
  return mul(n, x, n.emitUnary<graph::SigmoidOp>(mul(n, x, alpha)));
}

/// x / 2 * (1 + erf(x / sqrt(2))).
static Tensor gelu(const Node &n, const Tensor &x) {
  Tensor erf = n.emitUnary<graph::ErfOp>(mul(n, x, std::sqrt(0.5)));
  return mul(n, x, mul(n, add(n, erf, 1), 0.5));
}

/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))), where (1 + tanh(a)) / 2 is sigmoid(2 * a).
static Tensor tanhGelu(const Node &n, const Tensor &x) {
  const double root = 2 * 0.79788456080286535588;
  Tensor factor = add(n, mul(n, mul(n, x, x), root * 0.044715), root);
  return mul(n, x, n.emitUnary<graph::SigmoidOp>(mul(n, x, factor)));
}

static const Tensor &floatInput(Node &n) {
  n.checkInputCount(1, 1);
  n.requireFloat(n.input(0, "X"));
  return n.input(0, "X");
}

/// Gelu of opset 20 and of com.microsoft.
static Tensors importGelu(Node &n) {
  const Tensor &x = floatInput(n);
  const std::string approximate = n.domain().empty() ? n.stringAttr("approximate", "none") : "none";
  if (approximate != "none" && approximate != "tanh")
    n.fail("approximate is \"" + approximate + "\", expected none or tanh");
  return {approximate == "tanh" ? tanhGelu(n, x) : gelu(n, x)};
}

static Tensors importElu(Node &n) {
  const Tensor &x = floatInput(n);
  return {elu(n, x, n.floatAttr("alpha", 1.f))};
}

static Tensors importCelu(Node &n) {
  const Tensor &x = floatInput(n);
  const float alpha = n.floatAttr("alpha", 1.f);
  if (!std::isfinite(1 / alpha) || alpha == 0)
    n.inexpressible("alpha has no reciprocal");
  return {elu(n, x, alpha, alpha)};
}

static Tensors importSelu(Node &n) {
  const Tensor &x = floatInput(n);
  const float alpha = n.floatAttr("alpha", 1.67326319217681884765625f),
              gamma = n.floatAttr("gamma", 1.05070102214813232421875f);
  return {mul(n, elu(n, x, alpha), gamma)};
}

static Tensors importSwish(Node &n) {
  const Tensor &x = floatInput(n);
  return {swish(n, x, n.floatAttr("alpha", 1.f))};
}

static Tensors importQuickGelu(Node &n) {
  const Tensor &x = floatInput(n);
  return {swish(n, x, n.floatAttr("alpha", 1.702f))};
}

static Tensors importSwiGlu(Node &n) {
  n.checkInputCount(2, 2);
  requireFloats(n, {1});
  const Tensor &a = n.input(0, "a"), &b = n.input(1, "b");
  requireShape(n, b, "the second input", a.shape);
  return {mul(n, swish(n, a, n.floatAttr("alpha", 1.f)), b)};
}

static Tensors importSoftsign(Node &n) {
  const Tensor &x = floatInput(n);
  return {div(n, x, add(n, n.emitUnary<graph::AbsOp>(x), 1))};
}

/// x[.., size] plus input `i`, [size], if the node has it.
static Tensor withBias(const Node &n, const Tensor &x, size_t i) {
  if (!n.has(i))
    return x;
  if (x.shape.empty())
    n.fail("the input is a scalar, expected rank 1 or more");
  requireShape(n, n.input(i, "bias"), "bias", {x.shape.back()});
  return add(n, x, n.input(i, "bias"));
}

static Tensors importBiasGelu(Node &n) {
  n.checkInputCount(2, 2);
  requireFloats(n, {1});
  return {gelu(n, withBias(n, n.input(0, "A"), 1))};
}

static Tensors importFastGelu(Node &n) {
  n.checkInputCount(1, 2);
  requireFloats(n, {1});
  return {tanhGelu(n, withBias(n, n.input(0, "X"), 1))};
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

static std::vector<int64_t> axesFrom(int64_t first, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t i = first; i < rank; ++i)
    axes.push_back(i);
  return axes;
}

namespace {
/// x normalised along some dims, and what it was divided by.
struct Normal {
  Tensor y, mean, deviation;
};
} // namespace

/// (x - mean) / sqrt(mean of (x - mean)^2 + epsilon); without `hasMean`, the mean is left 0.
static Normal normalise(const Node &n, const Tensor &x, ArrayRef<int64_t> axes, double epsilon, bool hasMean) {
  Normal normal;
  Tensor centred = x;
  if (hasMean) {
    normal.mean = n.reduce("mean", x, axes, true);
    centred = sub(n, x, normal.mean);
  }
  Tensor variance = n.reduce("mean", mul(n, centred, centred), axes, true);
  normal.deviation = n.emitUnary<graph::SqrtOp>(add(n, variance, epsilon));
  normal.y = div(n, centred, normal.deviation);
  return normal;
}

static void requireFloatStash(Node &n) {
  if (n.intAttr("stash_type", 1) != 1)
    n.inexpressible("stash_type is not float");
}

/// Means and deviations are of float, whatever the input is of.
static void requireFloatMoments(const Node &n, bool wants) {
  if (wants && n.input(0, "X").declared != ElementKind::F32)
    n.inexpressible("its mean or deviation is wanted, which is of float");
}

static Tensors importGroupNormalization(Node &n) {
  n.checkInputCount(3, 3);
  requireFloats(n, {1, 2});
  const Tensor &x = n.input(0, "X");
  const float epsilon = n.floatAttr("epsilon", 1e-5f);
  const int64_t groups = n.intAttr("num_groups");
  requireFloatStash(n);
  if (x.rank() < 2 || groups < 1 || x.shape[1] % groups)
    n.fail("X of shape " + formatShape(x.shape) + " cannot have " + llvm::Twine(groups) + " groups of channels");
  // Up to opset 20 the scales are those of groups.
  const bool isPerGroup = n.opset() < 21;
  for (size_t i : {1, 2})
    requireShape(n, n.input(i, ""), i == 1 ? "scale" : "bias", {isPerGroup ? groups : x.shape[1]});
  Tensor y = normalise(n, n.reshape(x, {x.shape[0], groups, countOf(x.shape) / x.shape[0] / groups}), {2}, epsilon, true).y;
  Shape channels(isPerGroup ? 3 : x.shape.size(), 1);
  channels[1] = isPerGroup ? groups : x.shape[1];
  Tensor scale = n.reshape(n.input(1, "scale"), channels), bias = n.reshape(n.input(2, "bias"), channels);
  if (!isPerGroup)
    y = n.reshape(y, x.shape);
  return {n.reshape(add(n, mul(n, y, scale), bias), x.shape)};
}

/// RMSNormalization, and SimplifiedLayerNormalization, whose scale may have any shape of as many elements and which has a second result.
static Tensors importRmsNormalization(Node &n) {
  n.checkInputCount(2, 2);
  requireFloats(n, {1});
  const Tensor &x = n.input(0, "X");
  Tensor scale = n.input(1, "scale");
  if (x.shape.empty())
    n.fail("X is a scalar, expected rank 1 or more");
  const int64_t axis = n.axis(n.intAttr("axis", -1), x.rank());
  const float epsilon = n.floatAttr("epsilon", 1e-5f);
  requireFloatStash(n);
  ArrayRef<int64_t> inner = ArrayRef<int64_t>(x.shape).drop_front(size_t(axis));
  if (n.type() == "SimplifiedLayerNormalization") {
    if (countOf(scale.shape) != countOf(inner))
      n.fail("scale has shape " + formatShape(scale.shape) + ", expected " + formatShape(inner));
    scale = n.reshape(scale, inner);
  }
  requireBroadcast(n, scale, "scale", inner);
  Normal normal = normalise(n, x, axesFrom(axis, x.rank()), epsilon, false);
  Tensors results{mul(n, normal.y, scale)};
  requireFloatMoments(n, n.wants(1));
  if (n.wants(1))
    results.push_back(div(n, scalarLike(x, 1), normal.deviation));
  return results;
}

/// norm(input + skip + bias): with a mean, and beta as input 3, or without.
template <bool hasMean> static Tensors importSkipNormalization(Node &n) {
  constexpr size_t kBias = hasMean ? 4 : 3;
  n.checkInputCount(3, kBias + 1);
  requireFloats(n, {1, 2, 3, 4});
  const Tensor &x = n.input(0, "input"), &skip = n.input(1, "skip"), &gamma = n.input(2, "gamma");
  if (x.rank() != 2 && x.rank() != 3)
    n.fail("input has shape " + formatShape(x.shape) + ", expected rank 2 or 3");
  const int64_t size = x.shape.back();
  requireShape(n, gamma, "gamma", {size});
  requireBroadcast(n, skip, "skip", x.shape);
  const float epsilon = n.floatAttr("epsilon", hasMean ? 1e-12f : 1e-6f);
  Tensor sum = withBias(n, add(n, x, skip), kBias);
  Normal normal = normalise(n, sum, {x.rank() - 1}, epsilon, hasMean);
  Tensors results{mul(n, normal.y, gamma)};
  if (hasMean)
    results[0] = withBias(n, results[0], 3);
  requireFloatMoments(n, n.wants(1) || n.wants(2));
  if (n.numOutputs() > 1) {
    if (!hasMean && n.wants(1))
      n.inexpressible("the mean is wanted, which is not computed");
    results.push_back(normal.mean);
    results.push_back(n.wants(2) ? div(n, scalarLike(x, 1), normal.deviation) : Tensor());
    results.push_back(sum);
  }
  return results;
}

static Tensors importMeanVarianceNormalization(Node &n) {
  const Tensor &x = floatInput(n);
  std::vector<int64_t> axes = n.axes(n.intsAttr("axes", std::vector<int64_t>{0, 2, 3}), x.rank());
  if (axes.empty() || x.kind == ElementKind::F16)
    n.inexpressible("a mean of no axes, or of float16, is not supported");
  Tensor centred = sub(n, x, n.reduce("mean", x, axes, true));
  Tensor variance = n.reduce("mean", mul(n, centred, centred), axes, true);
  return {div(n, centred, add(n, n.emitUnary<graph::SqrtOp>(variance), 1e-9))};
}

static Tensors importLpNormalization(Node &n) {
  const Tensor &x = floatInput(n);
  const int64_t p = n.intAttr("p", 2), axis = n.axis(n.intAttr("axis", -1), x.rank());
  if (p != 1 && p != 2)
    n.fail("p is " + llvm::Twine(p) + ", expected 1 or 2");
  Tensor sum = n.reduce("sum", p == 1 ? n.emitUnary<graph::AbsOp>(x) : mul(n, x, x), {axis}, true);
  // Zeros stay zeros.
  const double least = x.kind == ElementKind::F16 ? 0x1p-14 : 0x1p-126;
  return {div(n, x, n.binary(BinaryKind::Max, p == 1 ? sum : n.emitUnary<graph::SqrtOp>(sum), scalarLike(x, least)))};
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// The activation that a fused operator of com.microsoft names.
static Tensor activate(Node &n, const Tensor &x) {
  const std::string name = n.stringAttr("activation", "");
  std::vector<float> params;
  if (n.hasAttr("activation_params"))
    params = n.floatsAttr("activation_params");
  for (const char *each : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (n.hasAttr(each))
      params.push_back(n.floatAttr(each));
  auto param = [&](size_t i, float fallback) { return i < params.size() && params[i] == params[i] ? params[i] : fallback; };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  mlir::OpBuilder &b = n.builder();
  if (name.empty())
    return x;
  if (name == "Relu")
    return n.emitUnary<graph::ReluOp>(x);
  if (name == "Tanh")
    return n.emitUnary<graph::TanhOp>(x);
  if (name == "Sigmoid")
    return n.emitUnary<graph::SigmoidOp>(x);
  if (name == "HardSwish")
    return n.emitUnary<graph::HardSwishOp>(x);
  if (name == "Gelu")
    return gelu(n, x);
  if (name == "LeakyRelu")
    return n.emit<graph::LeakyReluOp>(x.kind, x.shape, n.value(x), b.getF32FloatAttr(param(0, 0.01f)));
  if (name == "HardSigmoid")
    return n.emit<graph::HardSigmoidOp>(x.kind, x.shape, n.value(x), b.getF32FloatAttr(param(0, 0.2f)),
                                        b.getF32FloatAttr(param(1, 0.5f)));
  if (name == "Clip")
    return clip(n, x, param(0, -kInfinity), param(1, kInfinity));
  n.inexpressible("activation \"" + name + "\" is not supported");
}

/// activation(conv(X, W, B) + Z).
static Tensors importFusedConv(Node &n) {
  n.checkInputCount(2, 4);
  requireFloats(n, {1, 2, 3});
  Tensor y = importConvolution(n);
  if (n.has(3)) {
    requireShape(n, n.input(3, "Z"), "Z", y.shape);
    y = add(n, y, n.input(3, "Z"));
  }
  return {activate(n, y)};
}

/// activation(alpha * A * B + beta * C).
static Tensors importFusedGemm(Node &n) {
  n.checkInputCount(2, 3);
  requireFloats(n, {1, 2});
  const float alpha = n.floatAttr("alpha", 1.f), beta = n.floatAttr("beta", 1.f);
  const bool transA = n.flagAttr("transA", false), transB = n.flagAttr("transB", false);
  requireShape(n, n.input(0, "A"), "A", {-1, -1});
  requireShape(n, n.input(1, "B"), "B", {-1, -1});
  Tensor a = n.input(0, "A"), b = n.input(1, "B");
  Tensor y = product(n, transA ? n.transpose(a, {1, 0}) : a, transB ? n.transpose(b, {1, 0}) : b);
  y = mul(n, y, alpha);
  if (n.has(2) && beta != 0) {
    requireBroadcast(n, n.input(2, "C"), "C", y.shape);
    y = add(n, y, mul(n, n.input(2, "C"), beta));
  }
  return {activate(n, y)};
}

/// With its last two dims exchanged, if `matrix`, and before that, if `batch`, with its first dim behind its batch dims.
static Tensor turnedFactor(const Node &n, const Tensor &x, bool matrix, bool batch) {
  if (x.rank() < 2)
    return x;
  std::vector<int64_t> perm = axesFrom(0, x.rank());
  if (batch)
    std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
  if (matrix)
    std::swap(perm[perm.size() - 2], perm.back());
  return n.transpose(x, perm);
}

/// FusedMatMul, TransposeMatMul, FusedMatMulActivation.
static Tensors importFusedMatMul(Node &n) {
  n.checkInputCount(2, 2);
  requireFloats(n, {1});
  const bool transA = n.flagAttr("transA", false), transB = n.flagAttr("transB", false);
  const bool batchA = n.flagAttr("transBatchA", false), batchB = n.flagAttr("transBatchB", false);
  Tensor y = product(n, turnedFactor(n, n.input(0, "A"), transA, batchA), turnedFactor(n, n.input(1, "B"), transB, batchB));
  y = mul(n, y, n.floatAttr("alpha", 1.f));
  return {n.type() == "FusedMatMulActivation" ? activate(n, y) : y};
}

static Tensors importGemmFastGelu(Node &n) {
  n.checkInputCount(2, 3);
  requireFloats(n, {1, 2});
  return {tanhGelu(n, withBias(n, product(n, n.input(0, "X"), n.input(1, "W")), 2))};
}

/// A * (weights [N, K])^T with constant weights (q - zero) * scale: scales and zero points for blocks along K, or with g_idx for groups of columns.
static Tensors importMatMulNBits(Node &n) {
  n.checkInputCount(3, 6);
  requireFloats(n, {5});
  const Tensor &a = n.input(0, "A");
  const ConstantRef &b = n.constant(1, "B"), &scales = n.constant(2, "scales");
  const int64_t k = n.intAttr("K"), columns = n.intAttr("N"), bits = n.intAttr("bits", 4), size = n.intAttr("block_size");
  n.intAttr("accuracy_level", 0);
  n.intAttr("weight_prepacked", 0);
  if (bits != 2 && bits != 4 && bits != 8)
    n.fail("bits is " + llvm::Twine(bits) + ", expected 2, 4 or 8");
  if (size < 16 || size > (1 << 30) || (size & (size - 1)) != 0)
    n.fail("block_size is " + llvm::Twine(size) + ", expected a power of 2 of at least 16");
  constexpr int64_t kMost = int64_t(1) << 31;
  if (k < 1 || columns < 1 || k > kMost || columns > kMost || a.shape.empty() || a.shape.back() != k)
    n.fail("A has shape " + formatShape(a.shape) + ", K is " + llvm::Twine(k) + " and N " + llvm::Twine(columns));
  const int64_t blocks = (k + size - 1) / size, blockBytes = size * bits / 8, zeroBytes = (blocks * bits + 7) / 8;
  if (b->kind != ElementKind::U8)
    n.fail(llvm::Twine("B is of ") + elementName(b->kind) + ", expected uint8");
  requireShape(n, n.input(1, "B"), "B", {columns, blocks, blockBytes});
  if (scales->count() != columns * blocks || !isFloat(scales->kind))
    n.fail("scales has shape " + formatShape(scales->shape) + ", expected " + formatShape({columns, blocks}));
  ConstantRef zeros;
  if (n.has(3))
    zeros = n.constant(3, "zero_points");
  const bool isPacked = zeros && zeros->kind == ElementKind::U8;
  if (zeros && zeros->count() != columns * (isPacked ? zeroBytes : blocks))
    n.fail("zero_points has shape " + formatShape(zeros->shape) + ", expected " +
           formatShape({columns, isPacked ? zeroBytes : blocks}));
  ConstantRef groups;
  if (n.has(4)) {
    groups = n.constant(4, "g_idx");
    if (groups->count() < k || isFloat(groups->kind))
      n.fail("g_idx has shape " + formatShape(groups->shape) + ", expected " + llvm::Twine(k) + " integers");
  }
  n.countConstants({k, columns}, ElementKind::F32);
  auto packed = [&](const Constant &x, int64_t row, int64_t i) {
    const int64_t perByte = 8 / bits, rowBytes = x.count() / columns;
    const uint8_t byte = x.bytes()[x.splat ? 0 : size_t(row * rowBytes + i / perByte)];
    return double((byte >> (i % perByte * bits)) & ((1 << bits) - 1));
  };
  std::vector<int64_t> blockOf(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) {
    blockOf[size_t(i)] = groups ? groups->integer(i) : i / size;
    if (blockOf[size_t(i)] < 0 || blockOf[size_t(i)] >= blocks)
      n.fail("g_idx has " + llvm::Twine(blockOf[size_t(i)]) + ", there are " + llvm::Twine(blocks) + " blocks");
  }
  std::vector<uint8_t> bytes(size_t(k * columns) * sizeof(float));
  for (int64_t row = 0; row < columns; ++row)
    for (int64_t i = 0; i < k; ++i) {
      const int64_t block = blockOf[size_t(i)], at = row * blocks + block;
      const double zero = isPacked ? packed(*zeros, row, block) : zeros ? zeros->real(at) : double(1 << (bits - 1));
      const float weight = float(packed(*b, row, i) - zero) * float(scales->real(at));
      std::memcpy(bytes.data() + size_t(i * columns + row) * sizeof(float), &weight, sizeof(float));
    }
  Tensor weights = makeConstant(ElementKind::F32, {k, columns}, std::move(bytes));
  return {withBias(n, product(n, a, n.cast(weights, a.kind)), 5)};
}

//===----------------------------------------------------------------------===//
// Einsum
//===----------------------------------------------------------------------===//

namespace {
/// A dim's name: a letter, or a dim of the ellipsis, counted from its end, as a negative number.
using Labels = std::vector<int>;

struct Labelled {
  Tensor x;
  Labels labels;
};
} // namespace

static Labels parseTerm(const Node &n, llvm::StringRef text, int64_t ellipsis) {
  Labels labels;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("...")) {
      for (int64_t dim = ellipsis; dim > 0; --dim)
        labels.push_back(int(-dim));
      i += 2;
    } else if (llvm::isAlpha(text[i])) {
      labels.push_back(text[i]);
    } else {
      n.inexpressible("the term \"" + text + "\" of the equation is not letters and an ellipsis");
    }
  }
  for (int label : labels)
    if (llvm::count(labels, label) != 1)
      n.inexpressible("a term of the equation names a dim twice");
  return labels;
}

/// The operand with its dims in the order `labels`; the others, which it has beside them, are summed.
static Labelled arranged(const Node &n, const Labelled &operand, const Labels &labels) {
  std::vector<int64_t> summed, perm;
  Labels left;
  for (size_t i = 0; i < operand.labels.size(); ++i)
    if (llvm::is_contained(labels, operand.labels[i]))
      left.push_back(operand.labels[i]);
    else
      summed.push_back(int64_t(i));
  Tensor x = summed.empty() ? operand.x : n.reduce("sum", operand.x, summed, false);
  for (int label : labels)
    perm.push_back(std::find(left.begin(), left.end(), label) - left.begin());
  return {n.transpose(x, perm), labels};
}

/// The product of two operands as a batch of products of matrices, summed over what is not in `kept`.
static Labelled productOf(const Node &n, const Labelled &a, const Labelled &b, const Labels &kept) {
  Labels batch, rows, columns, inner;
  for (int label : a.labels)
    if (llvm::is_contained(b.labels, label))
      (llvm::is_contained(kept, label) ? batch : inner).push_back(label);
    else if (llvm::is_contained(kept, label))
      rows.push_back(label);
  for (int label : b.labels)
    if (!llvm::is_contained(a.labels, label) && llvm::is_contained(kept, label))
      columns.push_back(label);
  auto joined = [](std::initializer_list<const Labels *> parts) {
    Labels all;
    for (const Labels *each : parts)
      all.insert(all.end(), each->begin(), each->end());
    return all;
  };
  Tensor left = arranged(n, a, joined({&batch, &rows, &inner})).x, right = arranged(n, b, joined({&batch, &inner, &columns})).x;
  auto size = [](const Tensor &x, size_t first, size_t count) {
    return countOf(ArrayRef<int64_t>(x.shape).slice(first, count));
  };
  const int64_t batches = size(left, 0, batch.size()), m = size(left, batch.size(), rows.size());
  const int64_t k = size(left, batch.size() + rows.size(), inner.size());
  const int64_t width = size(right, batch.size() + inner.size(), columns.size());
  Shape shape(left.shape.begin(), left.shape.begin() + int64_t(batch.size() + rows.size()));
  shape.append(right.shape.end() - int64_t(columns.size()), right.shape.end());
  Tensor y = batches == 1 ? product(n, n.reshape(left, {m, k}), n.reshape(right, {k, width}))
                          : product(n, n.reshape(left, {batches, m, k}), n.reshape(right, {batches, k, width}));
  return {n.reshape(y, shape), joined({&batch, &rows, &columns})};
}

static Tensors importEinsum(Node &n) {
  n.checkInputCount(1, SIZE_MAX);
  std::string text = n.stringAttr("equation");
  llvm::erase(text, ' ');
  for (size_t i = 1; i < n.numInputs(); ++i)
    n.requireSameType(n.input(0, "Inputs"), n.input(i, "Inputs"));
  n.requireFloat(n.input(0, "Inputs"));
  const size_t arrow = text.find("->");
  llvm::SmallVector<llvm::StringRef> terms;
  llvm::StringRef(text).substr(0, arrow).split(terms, ',');
  if (terms.size() != n.numInputs())
    n.fail("equation has " + llvm::Twine(terms.size()) + " terms for " + llvm::Twine(n.numInputs()) + " inputs");
  std::vector<Labelled> operands;
  std::map<int, int64_t> sizes, uses;
  int64_t most = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const Tensor &x = n.input(i, "Inputs");
    const int64_t ellipsis = x.rank() - int64_t(parseTerm(n, terms[i], 0).size());
    const bool hasEllipsis = terms[i].contains("...");
    if (hasEllipsis ? ellipsis < 0 : ellipsis != 0)
      n.fail("the term \"" + terms[i] + "\" does not fit input " + llvm::Twine(i) + " of shape " + formatShape(x.shape));
    most = std::max(most, ellipsis);
    operands.push_back({x, parseTerm(n, terms[i], ellipsis)});
    for (int64_t dim = 0; dim < x.rank(); ++dim) {
      const int label = operands.back().labels[size_t(dim)];
      ++uses[label];
      if (auto [found, isNew] = sizes.emplace(label, x.shape[size_t(dim)]); !isNew && found->second != x.shape[size_t(dim)])
        n.inexpressible("dims of one name have different sizes");
    }
  }
  Labels result;
  if (arrow != std::string::npos) {
    result = parseTerm(n, llvm::StringRef(text).substr(arrow + 2), most);
  } else {
    // All dims of the ellipsis, then the letters that stand once, in the order of the alphabet.
    for (auto [label, count] : uses)
      if (label < 0 || count == 1)
        result.push_back(label);
  }
  for (int label : result)
    if (!sizes.count(label))
      n.fail("the result of the equation names a dim that no term does");
  Labelled all = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    Labels kept = result;
    for (size_t later = i + 1; later < operands.size(); ++later)
      kept.insert(kept.end(), operands[later].labels.begin(), operands[later].labels.end());
    all = productOf(n, all, operands[i], kept);
  }
  return {arranged(n, all, result).x};
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// What scores that do not count become: less than any that does, and a bfloat16, which tensors between kernels may be.
static double maskedScore(ElementKind kind) { return kind == ElementKind::F16 ? -65504 : -0x1.fep127; }

/// No constant of masks has more elements.
static constexpr int64_t kMaxMaskElements = int64_t(1) << 26;

namespace {
/// softmax(softcap * tanh(scale * q * k / softcap) + bias) * v.
struct Scores {
  double scale = 1;
  double softcap = 0; ///< 0: there is none
  std::optional<Tensor> bias;
  /// 0 for rows in which no score counts, which give zeros; else 1.
  std::optional<Tensor> gate;
  enum Stage { Scaled, Capped, Biased, Probabilities };
};
} // namespace

/// x[batch, length, heads * size], of the columns from `first` on, as [batch, heads, length, size].
static Tensor splitHeads(const Node &n, const Tensor &x, int64_t heads, int64_t first, int64_t width) {
  if (heads < 1 || width % heads)
    n.fail("a width of " + llvm::Twine(width) + " cannot have " + llvm::Twine(heads) + " heads");
  Tensor columns = part(n, x, 2, first, width);
  return n.transpose(n.reshape(columns, {x.shape[0], x.shape[1], heads, width / heads}), {0, 2, 1, 3});
}

static Tensor mergeHeads(const Node &n, const Tensor &x) {
  return n.reshape(n.transpose(x, {0, 2, 1, 3}), {x.shape[0], x.shape[2], x.shape[1] * x.shape[3]});
}

/// `kept`: the scores at `stage`, where it is not null.
static Tensor attend(const Node &n, const Tensor &q, const Tensor &k, const Tensor &v, const Scores &given,
                     Scores::Stage stage = Scores::Scaled, Tensor *kept = nullptr) {
  const int64_t batch = q.shape[0], heads = q.shape[1], queries = q.shape[2], keys = k.shape[2];
  if (k.shape[0] != batch || v.shape[0] != batch || k.shape[3] != q.shape[3] || k.shape[1] != v.shape[1] ||
      v.shape[2] != keys || heads % k.shape[1])
    n.fail("Q, K and V have [batch, heads, length, size] " + formatShape(q.shape) + ", " + formatShape(k.shape) + " and " +
           formatShape(v.shape) + ", which do not fit together");
  auto keep = [&](Scores::Stage now, const Tensor &x) {
    if (kept && stage == now)
      *kept = x;
  };
  // Queries of heads that share their keys are rows of one matrix.
  const int64_t rows = heads / k.shape[1] * queries;
  Tensor scores = product(n, n.reshape(q, {batch, k.shape[1], rows, q.shape[3]}), n.transpose(k, {0, 1, 3, 2}));
  scores = mul(n, n.reshape(scores, {batch, heads, queries, keys}), given.scale);
  keep(Scores::Scaled, scores);
  if (given.softcap != 0)
    scores = mul(n, n.emitUnary<graph::TanhOp>(mul(n, scores, 1 / given.softcap)), given.softcap);
  keep(Scores::Capped, scores);
  if (given.bias)
    scores = add(n, scores, *given.bias);
  keep(Scores::Biased, scores);
  Tensor shares = softmax(n, scores);
  keep(Scores::Probabilities, shares);
  Tensor y = n.reshape(product(n, n.reshape(shares, {batch, k.shape[1], rows, keys}), v), {batch, heads, queries, v.shape[3]});
  return given.gate ? mul(n, y, *given.gate) : y;
}

/// The constant that is added to scores: `value` of each of `shape`'s [batch, heads, queries, keys], minus infinity where one does not count.
static Tensor constantBias(const Node &n, ElementKind kind, const Shape &shape,
                           const std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)> &value) {
  if (countOf(shape) > kMaxMaskElements)
    n.inexpressible("the mask has shape " + formatShape(shape) + ", too large for a constant");
  n.countConstants(shape, kind);
  const double least = maskedScore(kind);
  HostTensor bias{"", ElementKind::F32, {shape.begin(), shape.end()}, {}};
  bias.bytes.reserve(size_t(countOf(shape)) * sizeof(float));
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t h = 0; h < shape[1]; ++h)
      for (int64_t i = 0; i < shape[2]; ++i) {
        bool isMasked = true;
        for (int64_t j = 0; j < shape[3]; ++j) {
          const double each = value(b, h, i, j);
          isMasked &= each == -std::numeric_limits<double>::infinity();
          const float bounded = float(std::max(each, least));
          auto *bytes = reinterpret_cast<const uint8_t *>(&bounded);
          bias.bytes.insert(bias.bytes.end(), bytes, bytes + sizeof(bounded));
        }
        if (isMasked)
          n.inexpressible("the mask lets no key of a query count");
      }
  return evalCast(makeConstant(std::move(bias)), kind);
}

/// Adds what is known when the network runs to the scores.
static void addBias(const Node &n, Scores &scores, Tensor bias, const Shape &shape) {
  if (bias.kind != ElementKind::F32 || bias.rank() < 1)
    n.inexpressible("the mask is no tensor of float");
  requireBroadcast(n, bias, "the mask", shape);
  if (scores.bias)
    bias = add(n, bias, *scores.bias);
  const double least = maskedScore(bias.kind);
  // Far above 0 but for a row of minus infinity.
  Tensor most = n.reduce("max", bias, {bias.rank() - 1}, true);
  scores.gate = clip(n, add(n, mul(n, most, 0.25), -least), 0, 1);
  scores.bias = n.binary(BinaryKind::Max, bias, scalarLike(bias, least));
}

/// The mask of Attention, and is_causal, `past` keys being before the first query.
static void addMask(Node &n, Scores &scores, const Shape &shape, int64_t past, ElementKind kind) {
  const bool isCausal = n.flagAttr("is_causal", false);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  auto isBehind = [past](int64_t i, int64_t j) { return j > past + i; };
  if (!n.has(3) || !n.input(3, "attn_mask").constant) {
    if (isCausal)
      scores.bias = constantBias(n, kind, {1, 1, shape[2], shape[3]},
                                 [&](int64_t, int64_t, int64_t i, int64_t j) { return isBehind(i, j) ? -kInfinity : 0; });
    if (!n.has(3))
      return;
    if (const Tensor &mask = n.input(3, "attn_mask"); n.opset() >= 24 && mask.rank() > 0 && mask.shape.back() < shape[3])
      n.inexpressible("attn_mask has shape " + formatShape(mask.shape) + ", shorter than the " + llvm::Twine(shape[3]) +
                      " keys");
    else
      addBias(n, scores, mask, shape);
    return;
  }
  const Constant &mask = *n.constant(3, "attn_mask");
  const bool isBool = mask.kind == ElementKind::Bool;
  if (!isBool && !isFloat(mask.kind))
    n.fail(llvm::Twine("attn_mask is of ") + elementName(mask.kind) + ", expected floats or bool");
  if (mask.shape.size() > 4)
    n.fail("attn_mask has shape " + formatShape(mask.shape) + ", expected at most rank 4");
  Shape given(4 - mask.shape.size(), 1);
  given.append(mask.shape);
  // From opset 24 on, keys behind a mask that is too short do not count.
  int64_t length = shape[3];
  if (n.opset() >= 24 && !mask.shape.empty() && given[3] < length)
    length = given[3];
  Shape strides(4, 0), whole = given;
  int64_t stride = 1;
  for (size_t i = 4; i-- > 0;) {
    if (given[i] != 1 && given[i] != (i == 3 ? length : shape[i]))
      n.fail("attn_mask has shape " + formatShape(mask.shape) + ", expected one that broadcasts to " + formatShape(shape));
    strides[i] = given[i] == 1 ? 0 : stride;
    stride *= given[i];
  }
  whole[3] = shape[3];
  if (isCausal)
    whole[2] = shape[2];
  scores.bias = constantBias(n, kind, whole, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t at = b * strides[0] + h * strides[1] + i * strides[2] + j * strides[3];
    if (j >= length || (isCausal && isBehind(i, j)))
      return -kInfinity;
    return !isBool ? mask.real(at) : mask.integer(at) ? 0 : -kInfinity;
  });
}

/// source: ONNX Operators, Attention-24
static Tensors importAttention(Node &n) {
  n.checkInputCount(3, 7);
  requireFloats(n, {1, 2, 4, 5});
  if (n.has(6))
    n.inexpressible("nonpad_kv_seqlen is given");
  Tensor q = n.input(0, "Q"), k = n.input(1, "K"), v = n.input(2, "V");
  if ((q.rank() != 3 && q.rank() != 4) || k.rank() != q.rank() || v.rank() != q.rank())
    n.fail("Q, K and V have shapes " + formatShape(q.shape) + ", " + formatShape(k.shape) + " and " + formatShape(v.shape) +
           ", expected rank 3 or 4");
  const bool isFlat = q.rank() == 3;
  const int64_t heads = n.intAttr("q_num_heads", 0), kvHeads = n.intAttr("kv_num_heads", 0);
  if (n.intAttr("softmax_precision", 1) != 1)
    n.inexpressible("softmax_precision is not float");
  if (isFlat) {
    q = splitHeads(n, q, heads, 0, q.shape[2]);
    k = splitHeads(n, k, kvHeads, 0, k.shape[2]);
    v = splitHeads(n, v, kvHeads, 0, v.shape[2]);
  }
  if (n.has(4) != n.has(5))
    n.fail("only one of past_key and past_value is given");
  int64_t past = 0;
  if (n.has(4)) {
    requireShape(n, n.input(4, "past_key"), "past_key", {k.shape[0], k.shape[1], -1, k.shape[3]});
    past = n.input(4, "past_key").shape[2];
    requireShape(n, n.input(5, "past_value"), "past_value", {v.shape[0], v.shape[1], past, v.shape[3]});
    if (past == 0)
      n.inexpressible("the past is empty");
    k = n.concat({n.input(4, "past_key"), k}, 2);
    v = n.concat({n.input(5, "past_value"), v}, 2);
  }
  const int64_t mode = n.intAttr("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    n.fail("qk_matmul_output_mode is " + llvm::Twine(mode) + ", expected 0 to 3");
  Scores scores;
  scores.scale = n.floatAttr("scale", float(1 / std::sqrt(double(q.shape[3]))));
  scores.softcap = n.floatAttr("softcap", 0.f);
  addMask(n, scores, {q.shape[0], q.shape[1], q.shape[2], k.shape[2]}, past, q.kind);
  Tensor kept;
  if (n.wants(3) && scores.bias && (mode == Scores::Biased || (mode == Scores::Probabilities && scores.gate)))
    n.inexpressible("masked scores are wanted");
  Tensor y = attend(n, q, k, v, scores, Scores::Stage(mode), n.wants(3) ? &kept : nullptr);
  return {isFlat ? mergeHeads(n, y) : y, k, v, kept};
}

/// The mask (input `at`) of ONNX Runtime's attention, which is a constant, and `unidirectional`.
static void addKeyMask(Node &n, Scores &scores, const Shape &shape, size_t at, ElementKind kind) {
  const bool isCausal = n.flagAttr("unidirectional", false);
  const double filter = n.floatAttr("mask_filter_value", -10000.f);
  const int64_t batch = shape[0], queries = shape[2], keys = shape[3];
  std::function<bool(int64_t, int64_t, int64_t)> counts;
  Shape whole{1, 1, isCausal ? queries : 1, keys};
  if (n.has(at)) {
    const ConstantRef mask = n.constant(at, "mask");
    const size_t rank = mask->shape.size();
    if (isFloat(mask->kind))
      n.fail("the mask is of floats, expected integers");
    if (rank == 2)
      requireShape(n, n.input(at, "mask"), "the mask", {batch, keys});
    else if (rank == 3)
      requireShape(n, n.input(at, "mask"), "the mask", {batch, queries, keys});
    else if (rank != 1 || mask->count() != batch)
      n.inexpressible("the mask has shape " + formatShape(mask->shape));
    whole[0] = batch;
    whole[2] = rank == 3 ? queries : whole[2];
    counts = [=](int64_t b, int64_t i, int64_t j) {
      return rank == 1 ? j < mask->integer(b) : mask->integer((rank == 2 ? b : b * queries + i) * keys + j) > 0;
    };
  }
  if (!counts && !isCausal)
    return;
  scores.bias = constantBias(n, kind, whole, [&](int64_t b, int64_t, int64_t i, int64_t j) {
    if (isCausal && j > i)
      return maskedScore(kind);
    return counts && !counts(b, i, j) ? filter : 0;
  });
}

static double scaleOf(Node &n, const Tensor &q) {
  const double given = n.floatAttr("scale", 0.f);
  return given != 0 ? given : 1 / std::sqrt(double(q.shape[3]));
}

/// Attention of com.microsoft: the projection is part of it.
static Tensors importRuntimeAttention(Node &n) {
  n.checkInputCount(2, 7);
  requireFloats(n, {1, 2, 5});
  if (n.has(4) || n.has(6))
    n.inexpressible("a past is given");
  const Tensor &x = n.input(0, "input"), &weights = n.input(1, "weights");
  requireShape(n, x, "input", {-1, -1, -1});
  requireShape(n, weights, "weights", {x.shape[2], -1});
  const int64_t heads = n.intAttr("num_heads"), width = weights.shape[1];
  const std::vector<int64_t> sizes = n.intsAttr("qkv_hidden_sizes", std::vector<int64_t>(3, width / 3));
  n.flagAttr("past_present_share_buffer", false);
  n.intAttr("rotary_embedding_dim", 0);
  if (n.flagAttr("do_rotary", false))
    n.inexpressible("do_rotary is 1");
  if (sizes.size() != 3 || sizes[0] < 1 || sizes[1] != sizes[0] || sizes[2] < 1 || sizes[0] > width || sizes[2] > width ||
      sizes[0] + sizes[1] + sizes[2] != width)
    n.fail("the projection has " + llvm::Twine(width) + " columns, expected those of Q, K and V: " + formatShape(sizes));
  Tensor all = withBias(n, product(n, x, weights), 2);
  Tensor q = splitHeads(n, all, heads, 0, sizes[0]), k = splitHeads(n, all, heads, sizes[0], sizes[0]),
         v = splitHeads(n, all, heads, 2 * sizes[0], sizes[2]);
  Scores scores;
  scores.scale = scaleOf(n, q);
  const Shape shape{q.shape[0], heads, q.shape[2], k.shape[2]};
  addKeyMask(n, scores, shape, 3, q.kind);
  if (n.has(5))
    addBias(n, scores, n.input(5, "attention_bias"), shape);
  Tensors results{mergeHeads(n, attend(n, q, k, v, scores))};
  if (n.wants(1)) {
    if (k.shape != v.shape)
      n.fail("keys and values have different sizes, which is not allowed with a present state");
    Shape one{1};
    one.append(k.shape);
    results.push_back(n.concat({n.reshape(k, one), n.reshape(v, one)}, 0));
  }
  return results;
}

static Tensors importMultiHeadAttention(Node &n) {
  n.checkInputCount(1, 10);
  requireFloats(n, {1, 2, 3, 5});
  for (size_t i : {6, 7, 8, 9})
    if (n.has(i))
      n.inexpressible("a past is given");
  const Tensor &query = n.input(0, "query");
  const int64_t heads = n.intAttr("num_heads");
  if (heads < 1)
    n.fail("num_heads is " + llvm::Twine(heads) + ", expected at least 1");
  // Part `i` of x[batch, length, heads, parts, size].
  auto unpacked = [&](const Tensor &x, int64_t i) {
    Tensor one = n.reshape(part(n, x, 3, i, 1), {x.shape[0], x.shape[1], x.shape[2], x.shape[4]});
    return n.transpose(one, {0, 2, 1, 3});
  };
  Tensor q, k, v;
  // Keys and values of an encoder stand as they are.
  bool isCross = false;
  if (query.rank() == 5) {
    requireShape(n, query, "query", {-1, -1, heads, 3, -1});
    q = unpacked(query, 0);
    k = unpacked(query, 1);
    v = unpacked(query, 2);
  } else {
    requireShape(n, query, "query", {-1, -1, -1});
    const int64_t width = n.has(1) ? query.shape[2] : query.shape[2] / 3;
    q = splitHeads(n, query, heads, 0, width);
    if (!n.has(1)) {
      if (query.shape[2] % 3)
        n.fail("query has shape " + formatShape(query.shape) + " and there is no key, expected it to hold Q, K and V");
      k = splitHeads(n, query, heads, width, width);
      v = splitHeads(n, query, heads, 2 * width, width);
    } else if (const Tensor &key = n.input(1, "key"); key.rank() == 5) {
      requireShape(n, key, "key", {query.shape[0], -1, heads, 2, -1});
      k = unpacked(key, 0);
      v = unpacked(key, 1);
    } else if (key.rank() == 4) {
      requireShape(n, key, "key", {query.shape[0], heads, -1, -1});
      k = key;
      v = n.input(2, "value");
      requireShape(n, v, "value", {query.shape[0], heads, key.shape[2], -1});
      isCross = true;
    } else {
      requireShape(n, key, "key", {query.shape[0], -1, query.shape[2]});
      requireShape(n, n.input(2, "value"), "value", {query.shape[0], key.shape[1], -1});
      k = splitHeads(n, key, heads, 0, key.shape[2]);
      v = splitHeads(n, n.input(2, "value"), heads, 0, n.input(2, "value").shape[2]);
    }
  }
  if (n.has(3)) {
    const Tensor &bias = n.input(3, "bias");
    const int64_t width = heads * q.shape[3];
    requireShape(n, bias, "bias", {2 * width + heads * v.shape[3]});
    auto biased = [&](const Tensor &x, int64_t first) {
      return add(n, x, n.reshape(part(n, bias, 0, first, heads * x.shape[3]), {1, heads, 1, x.shape[3]}));
    };
    q = biased(q, 0);
    if (!isCross) {
      k = biased(k, width);
      v = biased(v, 2 * width);
    }
  }
  Scores scores;
  scores.scale = scaleOf(n, q);
  const Shape shape{q.shape[0], heads, q.shape[2], k.shape[2]};
  addKeyMask(n, scores, shape, 4, q.kind);
  if (n.has(5))
    addBias(n, scores, n.input(5, "attention_bias"), shape);
  if (n.wants(3) && scores.bias)
    n.inexpressible("masked scores are wanted");
  Tensor kept;
  Tensor y = attend(n, q, k, v, scores, Scores::Biased, n.wants(3) ? &kept : nullptr);
  return {mergeHeads(n, y), k, v, kept};
}

/// Rotates pairs of the first elements of each head: neighbours where interleaved, else those half of them apart. Inputs of ONNX: X, cos_cache,
/// sin_cache, position_ids; of com.microsoft: input, position_ids, cos_cache, sin_cache.
template <bool isRuntime> static Tensors importRotaryEmbedding(Node &n) {
  constexpr size_t kCosines = isRuntime ? 2 : 1, kSines = kCosines + 1, kPositions = isRuntime ? 1 : 3;
  n.checkInputCount(isRuntime ? 4 : 3, 4);
  requireFloats(n, {kCosines, kSines});
  const Tensor &x = n.input(0, "X");
  Tensor cosines = n.input(kCosines, "cos_cache"), sines = n.input(kSines, "sin_cache");
  const bool isInterleaved = n.flagAttr("interleaved", false);
  if (isRuntime && (n.flagAttr("is_packed_batching", false) || n.floatAttr("scale", 1.f) != 1))
    n.inexpressible("packed batches and scales are not supported");
  if ((x.rank() != 3 && x.rank() != 4) || cosines.shape.empty() || cosines.shape != sines.shape)
    n.fail("X, cos_cache and sin_cache have shapes " + formatShape(x.shape) + ", " + formatShape(cosines.shape) + " and " +
           formatShape(sines.shape));
  const bool isFlat = x.rank() == 3;
  const int64_t batch = x.shape[0], steps = x.shape[isFlat ? 1 : 2], half = cosines.shape.back(),
                given = n.intAttr("rotary_embedding_dim", 0);
  int64_t heads = n.intAttr("num_heads", 0);
  if (!isFlat)
    heads = x.shape[1];
  else if (heads == 0)
    heads = half > 0 ? x.shape[2] / (2 * half) : 0;
  if (heads < 1 || (isFlat && x.shape[2] % heads))
    n.fail("X has shape " + formatShape(x.shape) + ", it cannot have " + llvm::Twine(heads) + " heads");
  const int64_t size = isFlat ? x.shape[2] / heads : x.shape[3];
  if (const int64_t turned = given == 0 ? size : given; half < 1 || turned != 2 * half || turned > size)
    n.fail("cos_cache has shape " + formatShape(cosines.shape) + ", " + llvm::Twine(turned) + " of " + llvm::Twine(size) +
           " elements of each head are turned");
  if (n.has(kPositions)) {
    requireShape(n, cosines, "cos_cache", {-1, half});
    const ConstantRef ids = n.constant(kPositions, "position_ids");
    if (isFloat(ids->kind) || batch * steps > kMaxMaskElements)
      n.inexpressible("position_ids are no list of integers");
    const bool isOffset = isRuntime && ids->count() == 1;
    if (!isOffset)
      requireShape(n, n.input(kPositions, "position_ids"), "position_ids", {batch, steps});
    std::vector<int64_t> positions;
    bool isRange = true;
    for (int64_t i = 0; i < batch * steps; ++i) {
      const int64_t position = isOffset ? ids->integer(0) + i % steps : ids->integer(i);
      if (position < 0 || position >= cosines.shape[0])
        n.fail("position " + llvm::Twine(position) + " is used, cos_cache has shape " + formatShape(cosines.shape));
      positions.push_back(position);
      isRange &= position == positions[0] + i % steps;
    }
    auto chosen = [&](const Tensor &cache) -> Tensor {
      if (isRange)
        return n.reshape(part(n, cache, 0, positions[0], steps), {1, steps, half});
      if (!cache.constant)
        n.inexpressible("the caches are no constants");
      n.countConstants({batch, steps, half}, cache.kind);
      return evalReshape(evalGather(cache.constant, makeInts(positions), 0), {batch, steps, half});
    };
    cosines = chosen(cosines);
    sines = chosen(sines);
  } else {
    requireShape(n, cosines, "cos_cache", {batch, steps, half});
  }
  // [batch, steps, heads, size] or [batch, heads, steps, size].
  Tensor each = isFlat ? n.reshape(x, {batch, steps, heads, size}) : x;
  auto spread = [&](const Tensor &table) {
    return n.reshape(table, isFlat ? Shape{table.shape[0], steps, 1, half} : Shape{table.shape[0], 1, steps, half});
  };
  cosines = spread(cosines);
  sines = spread(sines);
  Tensor a = isInterleaved ? part(n, each, 3, 0, half, 2) : part(n, each, 3, 0, half);
  Tensor b = isInterleaved ? part(n, each, 3, 1, half, 2) : part(n, each, 3, half, half);
  Tensor first = sub(n, mul(n, a, cosines), mul(n, b, sines)), second = add(n, mul(n, a, sines), mul(n, b, cosines));
  llvm::SmallVector<Tensor> parts{first, second};
  if (isInterleaved) {
    Shape single = first.shape, both = first.shape;
    single.push_back(1);
    both[3] = 2 * half;
    parts = {n.reshape(n.concat({n.reshape(first, single), n.reshape(second, single)}, 4), both)};
  }
  if (2 * half < size)
    parts.push_back(part(n, each, 3, 2 * half, size - 2 * half));
  return {n.reshape(n.concat(parts, 3), x.shape)};
}

void addComposedImports(ImportTable &table) {
  table[":Gelu"] = composed<importGelu>;
  table["com.microsoft:Gelu"] = composed<importGelu>;
  table[":Elu"] = composed<importElu>;
  table[":Celu"] = composed<importCelu>;
  table[":Selu"] = composed<importSelu>;
  table[":Swish"] = composed<importSwish>;
  table[":SwiGLU"] = composed<importSwiGlu>;
  table[":Softsign"] = composed<importSoftsign>;
  table["com.microsoft:QuickGelu"] = composed<importQuickGelu>;
  table["com.microsoft:BiasGelu"] = composed<importBiasGelu>;
  table["com.microsoft:FastGelu"] = composed<importFastGelu>;

  table[":GroupNormalization"] = composed<importGroupNormalization>;
  table[":RMSNormalization"] = composed<importRmsNormalization>;
  table[":SimplifiedLayerNormalization"] = composed<importRmsNormalization>;
  table["com.microsoft:SimplifiedLayerNormalization"] = composed<importRmsNormalization>;
  table["com.microsoft:SkipLayerNormalization"] = composed<importSkipNormalization<true>>;
  table["com.microsoft:SkipSimplifiedLayerNormalization"] = composed<importSkipNormalization<false>>;
  table[":MeanVarianceNormalization"] = composed<importMeanVarianceNormalization>;
  table[":LpNormalization"] = composed<importLpNormalization>;

  table["com.microsoft:FusedConv"] = composed<importFusedConv>;
  table["com.microsoft:FusedGemm"] = composed<importFusedGemm>;
  table["com.microsoft:FusedMatMul"] = composed<importFusedMatMul>;
  table["com.microsoft:TransposeMatMul"] = composed<importFusedMatMul>;
  table["com.microsoft:FusedMatMulActivation"] = composed<importFusedMatMul>;
  table["com.microsoft:GemmFastGelu"] = composed<importGemmFastGelu>;
  table["com.microsoft:MatMulNBits"] = composed<importMatMulNBits>;
  table[":Einsum"] = composed<importEinsum>;

  table[":Attention"] = composed<importAttention>;
  table["com.microsoft:Attention"] = composed<importRuntimeAttention>;
  table["com.microsoft:MultiHeadAttention"] = composed<importMultiHeadAttention>;
  table[":RotaryEmbedding"] = composed<importRotaryEmbedding<false>>;
  table["com.microsoft:RotaryEmbedding"] = composed<importRotaryEmbedding<true>>;
}

} // namespace tw::frontend
