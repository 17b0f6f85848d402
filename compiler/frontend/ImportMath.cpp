//===- ImportMath.cpp - Element by element, matrices, reductions ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxNode.h"
#include <cmath>
#include <cstring>
#include <limits>

namespace tw::frontend {

using llvm::ArrayRef;
using Tensors = std::vector<Tensor>;

/// A constant scalar of the type of `x`.
static Tensor scalarLike(const Tensor &x, double value) { return makeSplat(x.kind, {}, value); }

//===----------------------------------------------------------------------===//
// Two or more inputs
//===----------------------------------------------------------------------===//

template <BinaryKind kind> static Tensors importBinary(Node &n) {
  n.checkInputCount(2, 2);
  return {n.binary(kind, n.input(0, "A"), n.input(1, "B"))};
}

/// Sum, Min and Max take any number of inputs.
template <BinaryKind kind> static Tensors importChain(Node &n) {
  n.checkInputCount(1, SIZE_MAX);
  Tensor result = n.input(0, "data_0");
  for (size_t i = 1; i < n.numInputs(); ++i)
    result = n.binary(kind, result, n.input(i, "data"));
  return {result};
}

static Tensors importMean(Node &n) {
  n.requireFloat(n.input(0, "data_0"));
  Tensor sum = importChain<BinaryKind::Add>(n)[0];
  return {n.binary(BinaryKind::Div, sum, scalarLike(sum, double(n.numInputs())))};
}

/// What no op of the graph dialect computes. Precondition: the inputs are constants.
static Tensors foldElementwise(Node &n) {
  llvm::SmallVector<ConstantRef> inputs;
  for (size_t i = 0; i < n.numInputs(); ++i)
    inputs.push_back(n.constant(i, "operand"));
  return {evalElementwise(n.source(), n.opset(), inputs)};
}

/// Of constants the host computes it.
static void leaveConstants(Node &n) {
  if (n.allConstant())
    n.inexpressible("its inputs are constants");
}

template <graph::Function function> static Tensors importFunction(Node &n) {
  const unsigned arity = graph::ElementwiseOp::arityOf(function);
  n.checkInputCount(arity, arity);
  leaveConstants(n);
  llvm::SmallVector<Tensor> inputs;
  for (unsigned i = 0; i < arity; ++i)
    inputs.push_back(n.input(i, arity == 1 ? "X" : i == 0 ? "A" : "B"));
  return {n.elementwise(function, inputs)};
}

/// And, Or, Xor and Not are of bool, their bitwise forms of integers.
template <graph::Function function> static Tensors importLogic(Node &n) {
  const Tensor &x = n.input(0, "A");
  if ((x.kind == ElementKind::Bool) == n.type().starts_with("Bitwise"))
    n.inexpressible(llvm::Twine("element type ") + elementName(x.kind) + " is not supported by this operator");
  return importFunction<function>(n);
}

static Tensors importMod(Node &n) {
  return n.flagAttr("fmod", false) ? importFunction<graph::Function::Fmod>(n) : importFunction<graph::Function::Mod>(n);
}

static Tensors importBitShift(Node &n) {
  const std::string direction = n.stringAttr("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    n.fail("attribute direction is \"" + direction + "\", expected LEFT or RIGHT");
  return direction == "LEFT" ? importFunction<graph::Function::ShiftLeft>(n) : importFunction<graph::Function::ShiftRight>(n);
}

static Tensors importIsInf(Node &n) {
  n.checkInputCount(1, 1);
  const bool detectsPositive = n.flagAttr("detect_positive", true), detectsNegative = n.flagAttr("detect_negative", true);
  leaveConstants(n);
  const Tensor &x = n.input(0, "X");
  if (!isFloat(x.kind))
    n.inexpressible(llvm::Twine("element type ") + elementName(x.kind) + " is not supported by this operator");
  auto equals = [&](double sign) {
    return n.elementwise(graph::Function::Equal, {x, scalarLike(x, sign * std::numeric_limits<double>::infinity())});
  };
  if (detectsPositive && detectsNegative)
    return {n.elementwise(graph::Function::Or, {equals(1), equals(-1)})};
  if (detectsPositive || detectsNegative)
    return {equals(detectsPositive ? 1 : -1)};
  return {makeSplat(ElementKind::Bool, x.shape, 0)};
}

/// log(1 + exp(x)), without overflow.
static Tensor softplus(Node &n, const Tensor &x) {
  const Tensor power = n.emitUnary<graph::ExpOp>(n.emitUnary<graph::NegOp>(n.emitUnary<graph::AbsOp>(x)));
  return n.binary(BinaryKind::Add, n.emitUnary<graph::ReluOp>(x), n.elementwise(graph::Function::Log1p, {power}));
}

/// Softplus and Mish.
static Tensors importSoftplus(Node &n) {
  n.checkInputCount(1, 1);
  leaveConstants(n);
  const Tensor &x = n.input(0, "X");
  n.requireFloat(x);
  const Tensor y = softplus(n, x);
  return {n.type() == "Mish" ? n.binary(BinaryKind::Mul, x, n.emitUnary<graph::TanhOp>(y)) : y};
}

static Tensors importThresholdedRelu(Node &n) {
  n.checkInputCount(1, 1);
  leaveConstants(n);
  const Tensor &x = n.input(0, "X");
  n.requireFloat(x);
  const Tensor isAbove = n.elementwise(graph::Function::Greater, {x, scalarLike(x, n.floatAttr("alpha", 1.0f))});
  return {n.elementwise(graph::Function::Select, {isAbove, x, scalarLike(x, 0)})};
}

/// Towards 0 by a bias; what is near to 0 becomes 0, and NaN stays.
static Tensors importShrink(Node &n) {
  n.checkInputCount(1, 1);
  leaveConstants(n);
  const Tensor &x = n.input(0, "input");
  n.requireFloat(x);
  const float lambda = n.floatAttr("lambd", 0.5f);
  const Tensor bias = scalarLike(x, n.floatAttr("bias", 0.0f));
  auto select = [&](const Tensor &condition, const Tensor &a, const Tensor &b) {
    return n.elementwise(graph::Function::Select, {condition, a, b});
  };
  const Tensor isBelow = n.elementwise(graph::Function::Less, {x, scalarLike(x, -lambda)});
  const Tensor isAbove = n.elementwise(graph::Function::Greater, {x, scalarLike(x, lambda)});
  const Tensor inside = select(n.elementwise(graph::Function::IsNan, {x}), x, scalarLike(x, 0));
  return {select(isBelow, n.binary(BinaryKind::Add, x, bias), select(isAbove, n.binary(BinaryKind::Sub, x, bias), inside))};
}

/// Bits of the largest exponent that a chain of products is made for.
static constexpr int kPowerBits = 8;

/// x to the power of constant integers: the product, over the bits of the exponents, of x squared that many times.
/// Where an exponent lacks a bit that others have, x is clamped to 1 first.
static Tensor integerPower(Node &n, const Tensor &x, const Shape &exponentShape, const std::vector<int64_t> &exponents) {
  bool isReal = isFloat(x.kind);
  // The cast to an integer type saturates.
  double most = isReal ? std::numeric_limits<double>::infinity() : x.kind == ElementKind::I32 ? 0x1p31 - 1 : 0x1p63;
  double least = isReal ? -most : x.kind == ElementKind::I32 ? -0x1p31 : -0x1p63;
  auto bound = [&](int bit, double free) {
    HostTensor tensor{"", ElementKind::F64, {exponentShape.begin(), exponentShape.end()}, {}};
    for (int64_t exponent : exponents) {
      double value = exponent >> bit & 1 ? free : 1;
      auto *bytes = reinterpret_cast<const uint8_t *>(&value);
      tensor.bytes.insert(tensor.bytes.end(), bytes, bytes + sizeof(value));
    }
    return evalCast(makeConstant(tensor), x.kind);
  };
  std::optional<Tensor> result;
  for (int bit = 0; bit < kPowerBits; ++bit) {
    auto isSet = [&](int64_t exponent) { return bool(exponent >> bit & 1); };
    if (llvm::none_of(exponents, isSet))
      continue;
    Tensor power = x;
    if (!llvm::all_of(exponents, isSet))
      power = n.binary(BinaryKind::Min, n.binary(BinaryKind::Max, x, bound(bit, least)), bound(bit, most));
    for (int i = 0; i < bit; ++i)
      power = n.binary(BinaryKind::Mul, power, power);
    result = result ? n.binary(BinaryKind::Mul, *result, power) : power;
  }
  Shape shape = n.check(graph::broadcastShapes(x.shape, exponentShape));
  if (!result)
    return makeSplat(x.kind, shape, 1);
  return result->shape == shape ? *result : n.binary(BinaryKind::Mul, *result, makeSplat(x.kind, shape, 1));
}

/// Whether no element is negative, as far as the ops that make `value` tell.
static bool isNeverNegative(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto mul = mlir::dyn_cast<graph::MulOp>(op); mul && mul.getA() == mul.getB())
    return true;
  if (auto constant = mlir::dyn_cast<graph::ConstantOp>(op)) {
    auto values = mlir::dyn_cast<mlir::DenseFPElementsAttr>(constant.getValue());
    return values && values.getNumElements() == 1 && !(*values.begin()).isNegative();
  }
  if (auto reduce = mlir::dyn_cast<graph::ReduceOp>(op))
    return isNeverNegative(reduce.getX());
  if (mlir::isa<graph::AddOp, graph::ReshapeOp>(op))
    return llvm::all_of(op->getOperands(), isNeverNegative);
  return mlir::isa<graph::AbsOp, graph::ReluOp, graph::ExpOp, graph::SigmoidOp, graph::SoftmaxOp>(op);
}

/// x to the power of 0.5: the square root, but the power of minus infinity is infinity, and that of -0 is 0.
static Tensor rootPower(Node &n, const Tensor &x) {
  if (isNeverNegative(n.value(x)))
    return n.emitUnary<graph::SqrtOp>(x);
  // How far x lies below the least bfloat16, which tensors between kernels may be: 0 or a little, or infinity.
  constexpr double kMost = 0x1.fep127;
  const Tensor least = scalarLike(x, -kMost);
  Tensor above = n.binary(BinaryKind::Add, n.binary(BinaryKind::Min, x, least), scalarLike(x, kMost));
  Tensor below = n.binary(BinaryKind::Sub, scalarLike(x, 0), above);
  return n.emitUnary<graph::SqrtOp>(n.binary(BinaryKind::Add, n.binary(BinaryKind::Max, x, least), below));
}

/// x to any power. Of integers to a real power in double, kept within their type; the host has integers to the power of integers.
static Tensor generalPower(Node &n, const Tensor &x, const Tensor &exponent) {
  leaveConstants(n);
  const bool isReal = isFloat(x.kind);
  if ((!isReal && !isFloat(exponent.kind)) || x.kind == ElementKind::Bool || exponent.kind == ElementKind::Bool)
    n.inexpressible(llvm::Twine("powers of ") + elementName(x.kind) + " to those of " + elementName(exponent.kind) +
                    " are not supported");
  if (x.kind == exponent.kind)
    return n.elementwise(graph::Function::Pow, {x, exponent});
  const Tensor power = n.elementwise(graph::Function::Pow, {n.cast(x, ElementKind::F64), n.cast(exponent, ElementKind::F64)});
  Tensor result = n.cast(power, x.kind);
  if (isReal)
    return result;
  const unsigned bits = 8 * unsigned(elementBytes(x.kind));
  const bool isUnsigned =
      x.kind == ElementKind::U8 || x.kind == ElementKind::U16 || x.kind == ElementKind::U32 || x.kind == ElementKind::U64;
  const uint64_t most = ~uint64_t(0) >> (64 - bits + (isUnsigned ? 0 : 1));
  auto bound = [&](graph::Function beyond, double limit, uint64_t value) {
    HostTensor tensor{"", x.kind, {}, std::vector<uint8_t>(bits / 8)};
    std::memcpy(tensor.bytes.data(), &value, bits / 8);
    result = n.elementwise(graph::Function::Select,
                           {n.elementwise(beyond, {power, scalarLike(power, limit)}), makeConstant(tensor), result});
  };
  bound(graph::Function::GreaterOrEqual, double(most), most);
  bound(graph::Function::LessOrEqual, isUnsigned ? 0 : -double(most) - 1, isUnsigned ? 0 : most + 1);
  return result;
}

static Tensors importPow(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "X"), &exponent = n.input(1, "Y");
  bool isNumber = (isFloat(x.kind) && x.kind != ElementKind::F64) || x.kind == ElementKind::I32 || x.kind == ElementKind::I64;
  if (x.constant || !exponent.constant || exponent.constant->count() == 0 || !isNumber)
    return {generalPower(n, x, exponent)};
  std::vector<double> powers;
  for (int64_t i = 0; i < exponent.constant->count() && i < 1 << 16; ++i)
    powers.push_back(exponent.constant->real(i));
  bool equal = llvm::all_equal(powers), negative = equal && powers[0] < 0 && isFloat(x.kind);
  auto result = [&](Tensor power) { return negative ? n.binary(BinaryKind::Div, scalarLike(x, 1), power) : power; };
  if (equal && std::abs(powers[0]) == 0.5 && isFloat(x.kind) && exponent.constant->count() == 1 && exponent.rank() <= x.rank())
    return {result(rootPower(n, x))};
  std::vector<int64_t> integers;
  for (double power : powers) {
    double magnitude = negative ? -power : power;
    // No product that a kernel is made for.
    if (!(magnitude >= 0) || magnitude != std::floor(magnitude) || magnitude >= 1 << kPowerBits)
      return {generalPower(n, x, exponent)};
    integers.push_back(int64_t(magnitude));
  }
  if (int64_t(integers.size()) != exponent.constant->count())
    return {generalPower(n, x, exponent)};
  return {result(integerPower(n, x, exponent.shape, integers))};
}

static Tensors importPRelu(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "X"), &slope = n.input(1, "slope");
  n.requireFloat(x);
  if (n.check(graph::broadcastShapes(x.shape, slope.shape)) != x.shape)
    n.fail("slope of shape " + formatShape(slope.shape) + " does not broadcast to " + formatShape(x.shape));
  // One of the two terms is always 0.
  Tensor negative = n.binary(BinaryKind::Mul, n.binary(BinaryKind::Min, x, scalarLike(x, 0)), slope);
  return {n.binary(BinaryKind::Add, n.emitUnary<graph::ReluOp>(x), negative)};
}

//===----------------------------------------------------------------------===//
// One input
//===----------------------------------------------------------------------===//

/// For operators on any number.
template <typename OpT> static Tensors importUnary(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  if (x.constant)
    return foldElementwise(n);
  return {n.emitUnary<OpT>(x)};
}

/// For operators on floats.
template <typename OpT> static Tensors importFloatUnary(Node &n) {
  n.checkInputCount(1, 1);
  // Of constants doubles, too.
  if (!n.input(0, "X").constant || !isFloat(n.input(0, "X").kind))
    n.requireFloat(n.input(0, "X"));
  return importUnary<OpT>(n);
}

static Tensors importReciprocal(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  n.requireFloat(x);
  return {n.binary(BinaryKind::Div, scalarLike(x, 1), x)};
}

static Tensors importHardSwish(Node &n) {
  n.checkInputCount(1, 1);
  n.requireFloat(n.input(0, "X"));
  return {n.emitUnary<graph::HardSwishOp>(n.input(0, "X"))};
}

static Tensors importHardSigmoid(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  n.requireFloat(x);
  float alpha = n.floatAttr("alpha", 0.2f), beta = n.floatAttr("beta", 0.5f);
  return {n.emit<graph::HardSigmoidOp>(x.kind, x.shape, n.value(x), n.builder().getF32FloatAttr(alpha),
                                       n.builder().getF32FloatAttr(beta))};
}

static Tensors importLeakyRelu(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "X");
  n.requireFloat(x);
  return {n.emit<graph::LeakyReluOp>(x.kind, x.shape, n.value(x), n.builder().getF32FloatAttr(n.floatAttr("alpha", 0.01f)))};
}

static Tensors importClip(Node &n) {
  const Tensor &x = n.input(0, "input");
  if (x.kind == ElementKind::Bool)
    n.fail("input is of bool, expected numbers");
  std::optional<Tensor> least, most;
  if (n.opset() < 11) {
    n.checkInputCount(1, 1);
    least = scalarLike(x, n.floatAttr("min", std::numeric_limits<float>::lowest()));
    most = scalarLike(x, n.floatAttr("max", std::numeric_limits<float>::max()));
  } else {
    n.checkInputCount(1, 3);
    for (size_t i : {1, 2}) {
      if (!n.has(i))
        continue;
      const Tensor &bound = n.input(i, i == 1 ? "min" : "max");
      n.requireSameType(x, bound);
      if (n.check(graph::broadcastShapes(bound.shape, {1})) != Shape{1})
        n.fail("a bound has shape " + formatShape(bound.shape) + ", expected a scalar");
      (i == 1 ? least : most) = n.reshape(bound, {});
    }
  }
  // What graph.clip has as an attribute: a float, which holds no integer beyond 2^24.
  auto isAttribute = [&](const std::optional<Tensor> &bound) {
    return !bound || (bound->constant && (isFloat(x.kind) || std::abs(bound->constant->real(0)) <= 16777216.0));
  };
  if (x.constant || !isAttribute(least) || !isAttribute(most)) {
    Tensor result = least ? n.binary(BinaryKind::Max, x, *least) : x;
    return {most ? n.binary(BinaryKind::Min, result, *most) : result};
  }
  const double lo = least ? least->constant->real(0) : -std::numeric_limits<double>::infinity();
  const double hi = most ? most->constant->real(0) : std::numeric_limits<double>::infinity();
  return {n.emit<graph::ClipOp>(x.kind, x.shape, n.value(x), n.builder().getF32FloatAttr(float(lo)),
                                n.builder().getF32FloatAttr(float(hi)))};
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

static Tensors importMatMul(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &a = n.input(0, "A"), &b = n.input(1, "B");
  n.requireSameType(a, b);
  Shape shape = n.check(graph::matmulShape(a.shape, b.shape));
  if (!isFloat(a.kind))
    return n.emitFallback({{a.kind, shape}},
                          std::string("element type ") + elementName(a.kind) + " is not supported by this operator");
  return {n.emit<graph::MatmulOp>(a.kind, shape, n.value(a), n.value(b))};
}

static Tensors importGemm(Node &n) {
  n.checkInputCount(2, 3);
  const Tensor &a = n.input(0, "A"), &b = n.input(1, "B");
  n.requireSameType(a, b);
  n.requireFloat(a);
  float alpha = n.floatAttr("alpha", 1.f), beta = n.floatAttr("beta", 1.f);
  bool transA = n.intAttr("transA", 0) != 0, transB = n.intAttr("transB", 0) != 0;
  if (a.rank() != 2 || b.rank() != 2)
    n.fail("inputs have shapes " + formatShape(a.shape) + " and " + formatShape(b.shape) + ", expected rank 2");
  Tensor left = transA ? n.transpose(a, {1, 0}) : a, right = transB ? n.transpose(b, {1, 0}) : b;
  Shape shape = n.check(graph::matmulShape(left.shape, right.shape));
  Tensor result = n.emit<graph::MatmulOp>(a.kind, shape, n.value(left), n.value(right));
  if (alpha != 1)
    result = n.binary(BinaryKind::Mul, result, scalarLike(a, alpha));
  if (n.has(2) && beta != 0) {
    Tensor c = n.input(2, "C");
    if (n.check(graph::broadcastShapes(c.shape, shape)) != shape)
      n.fail("C of shape " + formatShape(c.shape) + " does not broadcast to " + formatShape(shape));
    if (beta != 1)
      c = n.binary(BinaryKind::Mul, c, scalarLike(c, beta));
    result = n.binary(BinaryKind::Add, result, c);
  }
  return {result};
}

//===----------------------------------------------------------------------===//
// Reductions, softmax, normalisation
//===----------------------------------------------------------------------===//

/// The axes and keepdims of a Reduce operator; `axesAreInput` from this opset on.
static std::pair<std::vector<int64_t>, bool> reductionOf(Node &n, int64_t axesAreInput) {
  bool byInput = n.opset() >= axesAreInput;
  n.checkInputCount(1, byInput ? 2 : 1);
  const Tensor &x = n.input(0, "data");
  bool keepdims = n.flagAttr("keepdims", true);
  bool noop = byInput && n.flagAttr("noop_with_empty_axes", false);
  std::vector<int64_t> axes;
  if (byInput ? n.has(1) : n.hasAttr("axes"))
    axes = n.axes(byInput ? n.ints(1, "axes") : n.intsAttr("axes"), x.rank());
  if (axes.empty() && !noop)
    for (int64_t i = 0; i < x.rank(); ++i)
      axes.push_back(i);
  return {axes, keepdims};
}

static Tensors importReduce(Node &n) {
  const Tensor &x = n.input(0, "data");
  auto [axes, keepdims] = reductionOf(n, n.type() == "ReduceSum" ? 13 : 18);
  if (x.constant)
    return {evalReduce(n.type(), x.constant, axes, keepdims)};
  if (axes.empty())
    return {x};
  if (n.type() == "ReduceSum")
    return {n.reduce("sum", x, axes, keepdims)};
  if (n.type() == "ReduceMean")
    return {n.reduce("mean", x, axes, keepdims)};
  if (n.type() == "ReduceMax")
    return {n.reduce("max", x, axes, keepdims)};
  if (n.type() == "ReduceMin" && isFloat(x.kind)) {
    Tensor negative = n.reduce("max", n.emitUnary<graph::NegOp>(x), axes, keepdims);
    return {n.emitUnary<graph::NegOp>(negative)};
  }
  return n.emitFallback({{x.kind, n.check(graph::reduceShape(x.shape, axes, keepdims))}},
                        "only sums, means and maxima are supported");
}

/// ReduceL1, ReduceL2 and ReduceSumSquare.
static Tensors importNorm(Node &n) {
  const Tensor &x = n.input(0, "data");
  n.requireFloat(x);
  auto [axes, keepdims] = reductionOf(n, 18);
  if (axes.empty())
    n.inexpressible("a reduction of no axes is not supported");
  Tensor each = n.type() == "ReduceL1" ? n.emitUnary<graph::AbsOp>(x) : n.binary(BinaryKind::Mul, x, x);
  Tensor sum = n.reduce("sum", each, axes, keepdims);
  return {n.type() == "ReduceL2" ? n.emitUnary<graph::SqrtOp>(sum) : sum};
}

/// Softmax and LogSoftmax.
static Tensors importSoftmax(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "input");
  n.requireFloat(x);
  const bool isLog = n.type() == "LogSoftmax";
  if (isLog)
    leaveConstants(n);
  auto softmax = [&](const Tensor &input, int64_t axis) -> Tensor {
    if (!isLog)
      return n.emit<graph::SoftmaxOp>(input.kind, input.shape, n.value(input), axis);
    const Tensor below = n.binary(BinaryKind::Sub, input, n.reduce("max", input, {axis}, true));
    const Tensor sum = n.reduce("sum", n.emitUnary<graph::ExpOp>(below), {axis}, true);
    return n.binary(BinaryKind::Sub, below, n.elementwise(graph::Function::Log, {sum}));
  };
  int64_t axis = n.axis(n.intAttr("axis", n.opset() >= 13 ? -1 : 1), x.rank());
  Shape flat{1, 1};
  int64_t behind = 1;
  for (int64_t i = 0; i < x.rank(); ++i) {
    flat[i < axis ? 0 : 1] *= x.shape[size_t(i)];
    behind *= i > axis ? x.shape[size_t(i)] : 1;
  }
  // Below opset 13 the dims from axis on are one vector. source: ONNX Operators, Softmax-11
  if (n.opset() >= 13 || behind == 1)
    return {softmax(x, axis)};
  return {n.reshape(softmax(n.reshape(x, flat), 1), x.shape)};
}

static Tensors importLayerNormalization(Node &n) {
  n.checkInputCount(2, 3);
  const Tensor &x = n.input(0, "X");
  n.requireFloat(x);
  int64_t axis = n.axis(n.intAttr("axis", -1), x.rank());
  float epsilon = n.floatAttr("epsilon", 1e-5f);
  if (n.intAttr("stash_type", 1) != 1)
    n.inexpressible("stash_type is not float");
  std::vector<int64_t> axes;
  for (int64_t i = axis; i < x.rank(); ++i)
    axes.push_back(i);
  // source: ONNX Operators, LayerNormalization-17, the function body
  Tensor centred = n.binary(BinaryKind::Sub, x, n.reduce("mean", x, axes, true));
  Tensor variance = n.reduce("mean", n.binary(BinaryKind::Mul, centred, centred), axes, true);
  Tensor deviation = n.emitUnary<graph::SqrtOp>(n.binary(BinaryKind::Add, variance, scalarLike(x, epsilon)));
  Tensor result = n.binary(BinaryKind::Mul, n.binary(BinaryKind::Div, centred, deviation), n.input(1, "Scale"));
  if (n.has(2))
    result = n.binary(BinaryKind::Add, result, n.input(2, "B"));
  if (result.shape != x.shape)
    n.fail("scale or bias does not broadcast to " + formatShape(x.shape));
  if (n.numOutputs() == 1)
    return {result};
  return {result, n.reduce("mean", x, axes, true), n.binary(BinaryKind::Div, scalarLike(x, 1), deviation)};
}

void addFolds(ImportTable &table) {
  for (const char *type : {"Mod",  "Pow",  "Equal", "Less",  "LessOrEqual", "Greater",  "GreaterOrEqual",
                           "And",  "Or",   "Xor",   "Log",   "Ceil",        "Round",    "Sign",
                           "Not",  "Sin",  "Cos",   "Tan",   "Asin",        "Acos",     "Atan",
                           "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",       "Softplus", "Softsign"})
    table[std::string(":") + type] = foldElementwise;
}

void addMathImports(ImportTable &table) {
  table[":Add"] = importBinary<BinaryKind::Add>;
  table[":Sub"] = importBinary<BinaryKind::Sub>;
  table[":Mul"] = importBinary<BinaryKind::Mul>;
  table[":Div"] = importBinary<BinaryKind::Div>;
  table[":Sum"] = importChain<BinaryKind::Add>;
  table[":Min"] = importChain<BinaryKind::Min>;
  table[":Max"] = importChain<BinaryKind::Max>;
  table[":Mean"] = importMean;
  table[":Pow"] = importPow;
  table[":PRelu"] = importPRelu;

  table[":Relu"] = importUnary<graph::ReluOp>;
  table[":Neg"] = importUnary<graph::NegOp>;
  table[":Abs"] = importUnary<graph::AbsOp>;
  table[":Sigmoid"] = importFloatUnary<graph::SigmoidOp>;
  table[":Tanh"] = importFloatUnary<graph::TanhOp>;
  table[":Exp"] = importFloatUnary<graph::ExpOp>;
  table[":Sqrt"] = importFloatUnary<graph::SqrtOp>;
  table[":Floor"] = importFloatUnary<graph::FloorOp>;
  table[":Erf"] = importFloatUnary<graph::ErfOp>;
  table[":Reciprocal"] = importReciprocal;
  table[":HardSwish"] = importHardSwish;
  table[":HardSigmoid"] = importHardSigmoid;
  table[":LeakyRelu"] = importLeakyRelu;
  table[":Clip"] = importClip;

  table[":Equal"] = importFunction<graph::Function::Equal>;
  table[":Less"] = importFunction<graph::Function::Less>;
  table[":LessOrEqual"] = importFunction<graph::Function::LessOrEqual>;
  table[":Greater"] = importFunction<graph::Function::Greater>;
  table[":GreaterOrEqual"] = importFunction<graph::Function::GreaterOrEqual>;
  table[":IsNaN"] = importFunction<graph::Function::IsNan>;
  table[":And"] = importLogic<graph::Function::And>;
  table[":BitwiseAnd"] = importLogic<graph::Function::And>;
  table[":Or"] = importLogic<graph::Function::Or>;
  table[":BitwiseOr"] = importLogic<graph::Function::Or>;
  table[":Xor"] = importLogic<graph::Function::Xor>;
  table[":BitwiseXor"] = importLogic<graph::Function::Xor>;
  table[":Not"] = importLogic<graph::Function::Not>;
  table[":BitwiseNot"] = importLogic<graph::Function::Not>;
  table[":BitShift"] = importBitShift;
  table[":Mod"] = importMod;
  table[":IsInf"] = importIsInf;
  table[":Softplus"] = importSoftplus;
  table[":Mish"] = importSoftplus;
  table[":ThresholdedRelu"] = importThresholdedRelu;
  table[":Shrink"] = importShrink;
  table[":Sign"] = importFunction<graph::Function::Sign>;
  table[":Ceil"] = importFunction<graph::Function::Ceil>;
  table[":Round"] = importFunction<graph::Function::Round>;
  table[":Log"] = importFunction<graph::Function::Log>;
  table[":Sin"] = importFunction<graph::Function::Sin>;
  table[":Cos"] = importFunction<graph::Function::Cos>;
  table[":Tan"] = importFunction<graph::Function::Tan>;
  table[":Asin"] = importFunction<graph::Function::Asin>;
  table[":Acos"] = importFunction<graph::Function::Acos>;
  table[":Atan"] = importFunction<graph::Function::Atan>;
  table[":Sinh"] = importFunction<graph::Function::Sinh>;
  table[":Cosh"] = importFunction<graph::Function::Cosh>;
  table[":Asinh"] = importFunction<graph::Function::Asinh>;
  table[":Acosh"] = importFunction<graph::Function::Acosh>;
  table[":Atanh"] = importFunction<graph::Function::Atanh>;

  table[":MatMul"] = importMatMul;
  table[":Gemm"] = importGemm;
  table[":ReduceSum"] = importReduce;
  table[":ReduceMean"] = importReduce;
  table[":ReduceMax"] = importReduce;
  table[":ReduceMin"] = importReduce;
  table[":ReduceProd"] = importReduce;
  table[":ReduceL1"] = importNorm;
  table[":ReduceL2"] = importNorm;
  table[":ReduceSumSquare"] = importNorm;
  table[":Softmax"] = importSoftmax;
  table[":LogSoftmax"] = importSoftmax;
  table[":LayerNormalization"] = importLayerNormalization;
}

} // namespace tw::frontend
