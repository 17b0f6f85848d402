//===- RulesTest.cpp - Every rewriting rule on random values --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each rule has a generator of sources: random shapes, types and values. The
// function before and after the rule is evaluated, and both are compared:
// - bit-exact: every bit is equal;
// - real: the difference is within the rounding errors of both sides, by
//   running error analysis (Higham, Accuracy and Stability, 3.3): every value
//   carries a bound of its error, every operation adds its own rounding;
// - approximate: the same, and the bound that the rule's meaning states.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Rules.h"
#include "compiler/graph/GraphShapes.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace mlir;
using namespace tw::graph;

namespace {

using Dims = SmallVector<int64_t>;

constexpr int kInstances = 1000;

//===----------------------------------------------------------------------===//
// Sources
//===----------------------------------------------------------------------===//

/// One random function; its arguments get values when it is evaluated.
struct Instance {
  Instance(MLIRContext &context, uint64_t seed) : random(seed), b(&context), loc(b.getUnknownLoc()) {
    module = ModuleOp::create(loc);
    b.setInsertionPointToStart(module->getBody());
    function = b.create<func::FuncOp>(loc, "main", b.getFunctionType({}, {}));
    block = function.addEntryBlock();
    b.setInsertionPointToStart(block);
  }

  int64_t number(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }
  bool coin() { return number(0, 1) != 0; }
  double real(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random); }
  template <typename T> T oneOf(std::initializer_list<T> values) {
    return values.begin()[number(0, int64_t(values.size()) - 1)];
  }

  Type f32() { return b.getF32Type(); }
  Type anyFloat() { return oneOf<Type>({b.getF32Type(), b.getF32Type(), b.getBF16Type(), b.getF16Type()}); }
  Type anyInteger() { return oneOf<Type>({b.getI32Type(), b.getI64Type(), b.getI8Type(), b.getIntegerType(8, false)}); }
  Type anyNumber() { return coin() ? anyFloat() : anyInteger(); }

  Dims dims(int64_t least = 1, int64_t most = 4) {
    Dims shape;
    for (int64_t rank = number(least, most); rank > 0; --rank)
      shape.push_back(number(1, 5));
    return shape;
  }
  /// A shape that broadcasts to `shape`: dims of 1, and fewer of them.
  Dims part(const Dims &shape) {
    Dims result(shape);
    for (int64_t &dim : result)
      dim = number(0, 3) ? dim : 1;
    while (!result.empty() && number(0, 3) == 0)
      result.erase(result.begin());
    return result;
  }
  Dims perm(size_t rank) {
    Dims result = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(rank)));
    std::shuffle(result.begin(), result.end(), random);
    return result;
  }
  Dims axes(size_t rank) {
    Dims result;
    for (size_t dim = 0; dim < rank; ++dim)
      if (coin())
        result.push_back(int64_t(dim));
    if (result.empty())
      result.push_back(number(0, int64_t(rank) - 1));
    return result;
  }

  RankedTensorType tensor(const Dims &shape, Type element) { return RankedTensorType::get(shape, element); }
  /// An argument. Positive: its values are in [0.5, 2].
  Value arg(const Dims &shape, Type element, bool isPositive = false) {
    positive.push_back(isPositive);
    return block->addArgument(tensor(shape, element), loc);
  }
  Value constant(const Dims &shape, Type element, double least = -2, double most = 2) {
    return b.create<ConstantOp>(loc, randomValues(tensor(shape, element), least, most));
  }
  Value splat(const Dims &shape, Type element, double value) {
    RankedTensorType type = tensor(shape, element);
    const std::vector<float> floats(size_t(type.getNumElements()), float(value));
    const std::vector<int64_t> integers(size_t(type.getNumElements()), int64_t(value));
    return b.create<ConstantOp>(loc, isa<FloatType>(element) ? makeFloats(type, floats) : makeIntegers(type, integers));
  }
  /// Some floats are `special`: zeros, infinities, no numbers, subnormal ones.
  DenseElementsAttr randomValues(RankedTensorType type, double least, double most, bool special = false) {
    constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    Type element = type.getElementType();
    std::vector<float> floats;
    std::vector<int64_t> integers;
    for (int64_t i = 0; i < type.getNumElements(); ++i) {
      floats.push_back(special && number(0, 3) == 0 ? oneOf({0.0f, -0.0f, inf, -inf, nan, 1e-40f, -1e-40f, 3e38f, -3e38f})
                                                    : float(real(least, most)));
      integers.push_back(int64_t(random()));
    }
    return isa<FloatType>(element) ? makeFloats(type, floats) : makeIntegers(type, integers);
  }

  template <typename OpT> Value unary(Value x) { return b.create<OpT>(loc, x.getType(), x); }
  template <typename OpT> Value binary(Value x, Value y) {
    return b.create<OpT>(loc, tensor(Dims(llvm::cantFail(broadcastShapes(shapeOf(x), shapeOf(y)))), elementOf(x)), x, y);
  }
  /// The operands either way round.
  template <typename OpT> Value commuted(Value x, Value y) { return coin() ? binary<OpT>(x, y) : binary<OpT>(y, x); }
  Value transpose(Value x, const Dims &perm) { return createTranspose(b, loc, x, perm); }
  Value reduce(StringRef kind, Value x, const Dims &axes, bool keep) {
    return b.create<ReduceOp>(loc, tensor(Dims(llvm::cantFail(reduceShape(shapeOf(x), axes, keep))), elementOf(x)), x, kind,
                              axes, keep);
  }
  Value matmul(Value x, Value y) {
    return b.create<MatmulOp>(loc, tensor(Dims(llvm::cantFail(matmulShape(shapeOf(x), shapeOf(y)))), elementOf(x)), x, y);
  }
  /// A node that the host evaluates.
  Value onnxReduction(StringRef name, Value x) {
    const Dims shape(shapeOf(x)), dims = axes(shape.size());
    const bool keep = coin(), byInput = coin();
    SmallVector<Value> inputs{x};
    SmallVector<NamedAttribute> attributes;
    if (byInput)
      inputs.push_back(b.create<ConstantOp>(loc, makeIntegers(tensor({int64_t(dims.size())}, b.getI64Type()), dims)));
    else
      attributes.push_back(b.getNamedAttr("axes", b.getDenseI64ArrayAttr(dims)));
    attributes.push_back(b.getNamedAttr("keepdims", b.getI64IntegerAttr(keep)));
    RankedTensorType type = tensor(Dims(llvm::cantFail(reduceShape(shape, dims, keep))), elementOf(x));
    auto node = b.create<FallbackOp>(loc, TypeRange{type}, inputs, name, "", byInput ? 18 : 13, b.getDictionaryAttr(attributes),
                                     "", ArrayRef<int32_t>(SmallVector<int32_t>(inputs.size() + 1, 0)), "");
    return node.getResult(0);
  }
  Value clip(Value x, double least, double most) {
    return b.create<ClipOp>(loc, x.getType(), x, b.getF32FloatAttr(float(least)), b.getF32FloatAttr(float(most)));
  }
  Value cast(Value x, Type element) { return b.create<CastOp>(loc, tensorOf(x).clone(element), x); }
  Value maxPool(Value x) {
    const StringRef layout = coin() ? "nchw" : "nhwc";
    const Dims kernel{number(1, 3), number(1, 3)}, strides{number(1, 2), number(1, 2)}, dilations{number(1, 2), 1};
    Dims pads;
    for (int i : {0, 1, 0, 1})
      pads.push_back(number(0, kernel[i] - 1));
    auto shape = poolShape(shapeOf(x), kernel, strides, pads, dilations, layout);
    if (!shape) {
      llvm::consumeError(shape.takeError());
      return {};
    }
    return b.create<MaxPoolOp>(loc, tensor(Dims(*shape), elementOf(x)), x, kernel, strides, pads, dilations, layout);
  }
  Value conv(Value x, Value w, Value bias, const Dims &strides, const Dims &pads, int64_t group) {
    const Dims dilations{1, 1};
    auto shape = convShape(shapeOf(x), shapeOf(w), strides, pads, dilations, group, "nchw");
    return b.create<ConvOp>(loc, tensor(Dims(llvm::cantFail(std::move(shape))), elementOf(x)), x, w, bias, strides, pads,
                            dilations, group, "nchw");
  }
  /// A convolution of an argument with constant weights.
  Value anyConv(Type element) {
    const int64_t group = number(1, 2), channels = group * number(1, 2);
    Value x = arg({number(1, 2), group * number(1, 2), number(3, 5), number(3, 5)}, element);
    Value w = constant({channels, shapeOf(x)[1] / group, number(1, 3), number(1, 3)}, element);
    Value bias = coin() ? constant({channels}, element) : Value();
    return conv(x, w, bias, {number(1, 2), number(1, 2)}, {1, 0, 1, 0}, group);
  }
  /// A constant for each channel of a tensor of four dims, or one for all.
  Value perChannel(int64_t channels, Type element) {
    return constant(oneOf<Dims>({{channels, 1, 1}, {1, channels, 1, 1}, {1}, {}}), element);
  }

  //===--- Quantised networks ---===//

  Type eightBits() { return coin() ? Type(b.getI8Type()) : Type(b.getIntegerType(8, false)); }
  int32_t zeroPoint(Type element) { return int32_t(element.isUnsignedInteger() ? number(0, 255) : number(-128, 127)); }
  float scale() { return float(real(0.01, 1)); }
  Value dequantize(Value x, ArrayRef<float> scales, ArrayRef<int32_t> zeroPoints, int64_t axis) {
    return b.create<DequantizeOp>(loc, tensorOf(x).clone(f32()), x, scales, zeroPoints, axis);
  }
  /// With one scale.
  Value dequantize(Value x) {
    const Type element = elementOf(x);
    return dequantize(x, {scale()}, {element.isInteger(32) ? 0 : zeroPoint(element)}, 0);
  }
  Value quantize(Value x, Type element, float scale, int32_t zeroPoint) {
    return b.create<QuantizeOp>(loc, tensorOf(x).clone(element), x, ArrayRef<float>{scale}, ArrayRef<int32_t>{zeroPoint}, 0);
  }
  Value quantize(Value x) {
    const Type element = eightBits();
    return quantize(x, element, scale(), zeroPoint(element));
  }
  /// 8-bit weights dequantised, with a scale for all or one for each index of `axis`.
  Value weights(const Dims &shape, int64_t axis, Value stored) {
    const size_t count = coin() ? 1 : size_t(shape[size_t(axis)]);
    SmallVector<float> scales;
    for (size_t i = 0; i < count; ++i)
      scales.push_back(scale());
    return dequantize(stored, scales, SmallVector<int32_t>(count, zeroPoint(elementOf(stored))), axis);
  }
  Value concat(ArrayRef<Value> inputs, int64_t axis) {
    SmallVector<Shape> shapes;
    for (Value input : inputs)
      shapes.emplace_back(shapeOf(input));
    return b.create<ConcatOp>(loc, tensorOf(inputs[0]).clone(llvm::cantFail(concatShape(shapes, axis))), inputs, axis);
  }
  Value reshape(Value x, const Dims &shape) { return b.create<ReshapeOp>(loc, tensorOf(x).clone(shape), x); }

  //===--- Channels last ---===//

  Value convNhwc(Value x, int64_t outputs, const Dims &kernel) {
    Value w = constant({kernel[0], kernel[1], shapeOf(x)[3], outputs}, elementOf(x).isF32() ? f32() : elementOf(x));
    const Dims ones{1, 1}, pads{kernel[0] / 2, kernel[1] / 2, kernel[0] / 2, kernel[1] / 2};
    const Dims shape(llvm::cantFail(convShape(shapeOf(x), shapeOf(w), ones, pads, ones, 1, "nhwc")));
    if (elementOf(x).isF32())
      return b.create<ConvOp>(loc, tensor(shape, f32()), x, w, Value(), ones, pads, ones, 1, "nhwc");
    return b.create<ConvIntegerOp>(loc, tensor(shape, b.getI32Type()), x, w, zeroPoint(elementOf(x)), ArrayRef<int32_t>{0},
                                   ones, pads, ones, 1, "nhwc");
  }
  /// Windows without padding, or a window of maxima with some.
  template <typename PoolT> Value pool(Value x, const Dims &kernel, const Dims &strides, const Dims &pads, StringRef layout) {
    auto shape = poolShape(shapeOf(x), kernel, strides, pads, {1, 1}, layout);
    if (!shape) {
      llvm::consumeError(shape.takeError());
      return {};
    }
    const RankedTensorType type = tensor(Dims(*shape), elementOf(x));
    if constexpr (std::is_same_v<PoolT, MaxPoolOp>)
      return b.create<MaxPoolOp>(loc, type, x, kernel, strides, pads, Dims{1, 1}, layout);
    else
      return b.create<AveragePoolOp>(loc, type, x, kernel, strides, pads, coin(), layout);
  }

  void finish(ValueRange results) {
    b.create<func::ReturnOp>(loc, results);
    function.setType(b.getFunctionType(block->getArgumentTypes(), results.getTypes()));
  }

  std::mt19937_64 random;
  OpBuilder b;
  Location loc;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Block *block;
  std::vector<bool> positive;
};

/// Builds a source of the rule; an empty list: this draw has none.
using Generator = std::function<SmallVector<Value>(Instance &)>;

template <typename OpT> Value twice(Instance &g) { return g.unary<OpT>(g.unary<OpT>(g.arg(g.dims(), g.anyFloat()))); }

SmallVector<Value> factorOut(Instance &g, Type element) {
  const Dims shape = g.dims();
  Value a = g.arg(g.part(shape), element), b = g.arg(shape, element), c = g.arg(g.part(shape), element);
  return {g.binary<AddOp>(g.commuted<MulOp>(a, b), g.commuted<MulOp>(a, c))};
}

SmallVector<Value> scaleOutOfSum(Instance &g, Type element, StringRef kind) {
  const Dims shape = g.dims();
  Value c = g.arg(Dims(size_t(g.number(0, int64_t(shape.size()))), 1), element);
  return {g.reduce(kind, g.commuted<MulOp>(g.arg(shape, element), c), g.axes(shape.size()), g.coin())};
}

SmallVector<Value> nestedReduction(Instance &g, StringRef kind, Type element) {
  const Dims shape = g.dims(2, 5);
  Value inner = g.reduce(kind, g.arg(shape, element), g.axes(shape.size()), g.coin());
  if (shapeOf(inner).empty())
    return {};
  return {g.reduce(kind, inner, g.axes(shapeOf(inner).size()), g.coin())};
}

SmallVector<Value> reduceOfTranspose(Instance &g, StringRef kind, Type element) {
  const Dims shape = g.dims(2);
  return {g.reduce(kind, g.transpose(g.arg(shape, element), g.perm(shape.size())), g.axes(shape.size()), g.coin())};
}

const std::map<std::string, Generator> &generators() {
  static const std::map<std::string, Generator> table = {
      {"constant-folding",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         Value x = g.arg(shape, g.f32()), c = g.constant(shape, g.f32());
         return {g.binary<AddOp>(x, g.binary<MulOp>(c, g.unary<AbsOp>(c)))};
       }},
      {"common-subexpressions",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         Value a = g.arg(shape, g.f32()), b = g.arg(g.part(shape), g.f32());
         return {g.binary<AddOp>(g.binary<MulOp>(a, b), g.binary<MulOp>(a, b))};
       }},
      {"dead-code",
       [](Instance &g) -> SmallVector<Value> {
         Value a = g.arg(g.dims(), g.f32());
         g.unary<ExpOp>(a);
         return {g.unary<AbsOp>(a)};
       }},
      {"batch-norm-to-scale",
       [](Instance &g) -> SmallVector<Value> {
         const int64_t channels = g.number(1, 4);
         Value x = g.arg({2, channels, g.number(1, 4), g.number(1, 4)}, g.f32());
         auto parameter = [&](double least, double most) {
           return g.coin() ? g.constant({channels}, g.f32(), least, most) : g.arg({channels}, g.f32(), least > 0);
         };
         return {g.b.create<BatchNormOp>(g.loc, x.getType(), x, parameter(-2, 2), parameter(-2, 2), parameter(-2, 2),
                                         parameter(0.5, 2), APFloat(1e-5f))};
       }},
      {"transpose-of-transpose",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims(1, 5), p = g.perm(shape.size());
         Value inner = g.transpose(g.arg(shape, g.anyNumber()), p);
         return {g.transpose(inner, g.coin() ? inversePermutation(p) : g.perm(shape.size()))};
       }},
      {"reshape-of-reshape",
       [](Instance &g) -> SmallVector<Value> {
         Dims shape = g.dims(2);
         Value x = g.arg(shape, g.anyNumber());
         const int64_t elements = tensorOf(x).getNumElements();
         Value inner = g.b.create<ReshapeOp>(g.loc, g.tensor({elements}, elementOf(x)), x);
         return {g.b.create<ReshapeOp>(g.loc, g.tensor({1, elements, 1}, elementOf(x)), inner)};
       }},
      {"widen-and-narrow",
       [](Instance &g) -> SmallVector<Value> {
         Type narrow = g.oneOf<Type>({g.b.getBF16Type(), g.b.getF16Type()});
         return {g.cast(g.cast(g.arg(g.dims(), narrow), g.f32()), narrow)};
       }},
      {"max-of-transpose", [](Instance &g) { return reduceOfTranspose(g, "max", g.anyNumber()); }},
      {"sum-of-transpose", [](Instance &g) { return reduceOfTranspose(g, g.coin() ? "sum" : "mean", g.anyFloat()); }},
      {"pool-of-transpose",
       [](Instance &g) -> SmallVector<Value> {
         Value pool = g.maxPool(g.transpose(g.arg(g.dims(4), g.anyNumber()), g.perm(4)));
         return pool ? SmallVector<Value>{pool} : SmallVector<Value>{};
       }},
      {"pool-of-widening",
       [](Instance &g) -> SmallVector<Value> {
         Type i8 = g.b.getI8Type(), ui8 = g.b.getIntegerType(8, false),
              narrow = g.oneOf<Type>({i8, ui8, g.b.getBF16Type(), g.b.getF16Type()});
         Value x = g.arg(g.dims(4), narrow);
         if (narrow.isInteger(8) && g.coin()) {
           const bool isPerTensor = g.coin();
           const int64_t axis = g.oneOf<int64_t>({1, 3});
           SmallVector<float> scales;
           SmallVector<int32_t> points;
           for (int64_t i = 0; i < (isPerTensor ? 1 : shapeOf(x)[size_t(axis)]); ++i) {
             scales.push_back(float(g.real(0.01, 2)));
             points.push_back(int32_t(g.number(0, 100)));
           }
           x = g.b.create<DequantizeOp>(g.loc, tensorOf(x).clone(g.f32()), x, scales, points, axis);
         } else {
           x = g.cast(x, narrow.isInteger(8) ? g.oneOf<Type>({g.f32(), g.b.getI32Type()}) : g.f32());
         }
         Value pool = g.maxPool(x);
         return pool ? SmallVector<Value>{pool} : SmallVector<Value>{};
       }},
      {"relu-out-of-max",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         return {g.reduce("max", g.unary<ReluOp>(g.arg(shape, g.anyNumber())), g.axes(shape.size()), g.coin())};
       }},
      {"max-of-max", [](Instance &g) { return nestedReduction(g, "max", g.anyNumber()); }},
      {"sum-of-sum", [](Instance &g) { return nestedReduction(g, g.coin() ? "sum" : "mean", g.anyFloat()); }},
      {"sum-of-integer-sum", [](Instance &g) { return nestedReduction(g, "sum", g.anyInteger()); }},
      {"layer-norm",
       [](Instance &g) -> SmallVector<Value> {
         Dims shape = g.dims(1, 3);
         const int64_t axis = g.number(0, int64_t(shape.size()) - 1);
         shape[size_t(axis)] = g.number(2, 6);
         Dims axes = llvm::to_vector(llvm::seq<int64_t>(axis, int64_t(shape.size())));
         Value x = g.arg(shape, g.f32()), centred = g.binary<SubOp>(x, g.reduce("mean", x, axes, true));
         Value variance = g.reduce("mean", g.binary<MulOp>(centred, centred), axes, true);
         Value epsilon = g.splat({}, g.f32(), g.oneOf({1e-5, 1e-3, 0.1}));
         return {g.binary<DivOp>(centred, g.unary<SqrtOp>(g.commuted<AddOp>(variance, epsilon)))};
       }},
      {"product-of-repeated",
       [](Instance &g) -> SmallVector<Value> {
         const int64_t groups = g.number(1, 3), times = g.number(2, 3), k = g.number(1, 4), n = g.number(1, 4);
         Value once = g.arg({groups, 1, k, n}, g.f32());
         Value repeated = g.coin() ? g.commuted<MulOp>(once, g.splat({groups, times, k, n}, g.f32(), 1))
                                   : g.concat(SmallVector<Value>(size_t(times), once), 1);
         return {g.matmul(g.arg({groups * times, 1, k}, g.f32()), g.reshape(repeated, {groups * times, k, n}))};
       }},
      {"swapped-operands",
       [](Instance &g) -> SmallVector<Value> {
         const int64_t k = g.number(1, 20), n = g.number(8, 20);
         if (g.coin()) {
           Value y = g.matmul(g.arg({1, k}, g.f32()), g.constant({k, n}, g.f32()));
           return {g.coin() ? y : g.commuted<AddOp>(y, g.constant(g.oneOf<Dims>({{n}, {1, n}, {1}}), g.f32()))};
         }
         const Type a = g.eightBits(), b = g.eightBits();
         Value y = g.b.create<MatmulIntegerOp>(g.loc, g.tensor({1, n}, g.b.getI32Type()), g.arg({1, k}, a),
                                               g.constant({k, n}, b), g.zeroPoint(a), ArrayRef<int32_t>{g.zeroPoint(b)});
         if (g.coin())
           return {y};
         SmallVector<float> multipliers;
         for (int64_t i = g.coin() ? 1 : n; i > 0; --i)
           multipliers.push_back(float(g.real(1e-4, 1e-2)));
         Value bias = g.coin() ? g.constant({n}, g.b.getI32Type()) : Value();
         const Type narrow = g.eightBits();
         return {g.b.create<RequantizeOp>(g.loc, g.tensor({1, n}, narrow), y, bias, multipliers, 1, g.zeroPoint(narrow))};
       }},
      {"pool-of-concat",
       [](Instance &g) -> SmallVector<Value> {
         const int64_t batch = g.number(1, 2), height = g.number(3, 6), width = g.number(3, 6);
         auto part = [&](int64_t channels) { return g.unary<ReluOp>(g.arg({batch, height, width, channels}, g.f32())); };
         Value x = g.concat({part(4 * g.number(1, 2)), part(g.number(1, 5))}, 3);
         const Dims kernel{g.number(1, 3), g.number(1, 3)}, strides{g.number(1, 2), g.number(1, 2)}, none{0, 0, 0, 0};
         return {g.coin() ? g.pool<MaxPoolOp>(x, kernel, strides, none, "nhwc")
                          : g.pool<AveragePoolOp>(x, kernel, strides, none, "nhwc")};
       }},
      {"pool-of-sums",
       [](Instance &g) -> SmallVector<Value> {
         const int64_t channels = g.number(1, 6);
         const Dims shape{1, 2 * g.number(2, 4), 4 * g.number(1, 4), g.number(1, 3)};
         Value y;
         if (g.coin()) {
           y = g.convNhwc(g.arg(shape, g.f32()), channels, {g.oneOf<int64_t>({1, 3}), g.oneOf<int64_t>({1, 3})});
           if (g.coin())
             y = g.commuted<AddOp>(y, g.constant({channels}, g.f32()));
           y = g.coin() ? g.unary<ReluOp>(y) : g.clip(y, g.real(-2, 0), g.real(0, 2));
         } else {
           y = g.convNhwc(g.arg(shape, g.b.getI8Type()), channels, {1, 3});
           Value bias = g.coin() ? Value()
                                 : g.b.create<ConstantOp>(g.loc, makeIntegers(g.tensor({channels}, g.b.getI32Type()),
                                                                              Dims(size_t(channels), g.number(-1000, 1000))));
           y = g.b.create<RequantizeOp>(g.loc, tensorOf(y).clone(g.b.getI8Type()), y, bias,
                                        ArrayRef<float>{float(g.real(1e-3, 1e-1))}, 3, g.number(-128, 127));
         }
         const int64_t kh = g.number(2, 3), kw = g.number(2, 3);
         Value pool =
             g.pool<MaxPoolOp>(y, {kh, kw}, {g.number(1, 2), g.number(1, 2)}, {g.number(0, 1), g.number(0, 1), 0, 0}, "nhwc");
         return {pool};
       }},
      {"pool-of-columns",
       [](Instance &g) -> SmallVector<Value> {
         Value x =
             g.arg({1, g.number(4, 8), 16 * g.number(1, 2), g.oneOf<int64_t>({1, 2, 4})}, g.coin() ? g.f32() : g.b.getI8Type());
         const Dims kernel{g.number(2, 4), g.number(2, 4)};
         return {
             g.pool<MaxPoolOp>(x, kernel, {g.number(1, 2), 2}, {g.number(0, 1), g.number(0, 1), g.number(0, 1), 0}, "nhwc")};
       }},
      {"maximum-in-parts",
       [](Instance &g) -> SmallVector<Value> {
         if (g.coin())
           return {g.reduce(
               "max",
               g.arg(g.coin() ? Dims{g.number(1, 3), g.number(25, 60)} : Dims{g.number(1, 3), g.number(7, 30), g.number(2, 5)},
                     g.f32()),
               {1}, false)};
         Value x = g.arg({1, g.number(1, 5), g.number(5, 9), g.number(5, 9)}, g.f32());
         const Dims pads = g.coin() ? Dims{0, 0, 0, 0} : Dims{g.number(0, 1), g.number(0, 1), g.number(0, 1), g.number(0, 1)};
         return {g.pool<MaxPoolOp>(x, {g.number(2, 5), g.number(2, 5)}, {g.number(1, 4), g.number(1, 4)}, pads, "nchw")};
       }},
      {"sum-in-parts",
       [](Instance &g) -> SmallVector<Value> {
         const StringRef kind = g.coin() ? "sum" : "mean";
         if (g.coin())
           return {g.reduce(
               kind,
               g.arg(g.coin() ? Dims{g.number(1, 3), g.number(25, 60)} : Dims{g.number(1, 3), g.number(7, 30), g.number(2, 5)},
                     g.f32()),
               {1}, false)};
         Value x = g.arg({1, g.number(1, 5), g.number(5, 9), g.number(5, 9)}, g.f32());
         return {g.pool<AveragePoolOp>(x, {g.number(2, 5), g.number(2, 5)}, {g.number(1, 4), g.number(1, 4)}, {0, 0, 0, 0},
                                       "nchw")};
       }},
      {"softmax-in-parts",
       [](Instance &g) -> SmallVector<Value> {
         Value x = g.arg({g.number(1, 3), g.number(5, 24)}, g.f32());
         return {g.b.create<SoftmaxOp>(g.loc, x.getType(), x, 1)};
       }},
      {"integer-product",
       [](Instance &g) -> SmallVector<Value> {
         if (g.coin()) {
           const int64_t m = g.number(1, 4), k = g.number(1, 4), n = g.number(1, 4);
           Value w = g.coin() ? g.arg({k, n}, g.eightBits()) : g.constant({k, n}, g.eightBits());
           return {g.matmul(g.dequantize(g.arg({m, k}, g.eightBits())), g.weights({k, n}, 1, w))};
         }
         const int64_t group = g.number(1, 2);
         const Dims shape{group * g.number(1, 2), g.number(1, 2), g.number(1, 3), g.number(1, 3)};
         Value x = g.dequantize(g.arg({g.number(1, 2), group * shape[1], g.number(3, 5), g.number(3, 5)}, g.eightBits()));
         Value w = g.weights(shape, 0, g.constant(shape, g.eightBits()));
         Value bias = g.coin() ? g.constant({shape[0]}, g.f32()) : Value();
         return {g.conv(x, w, bias, {g.number(1, 2), g.number(1, 2)}, {1, 0, 1, 0}, group)};
       }},
      {"integer-bias",
       [](Instance &g) -> SmallVector<Value> {
         const int64_t channels = g.number(1, 4);
         const float scale = g.scale();
         Value sum = g.matmul(g.dequantize(g.arg({g.number(1, 4), 3}, g.eightBits()), {scale}, {0}, 0),
                              g.dequantize(g.constant({3, channels}, g.b.getI8Type()), {0.5f}, {0}, 0));
         std::vector<int64_t> counts;
         for (int64_t i = 0; i < channels; ++i)
           counts.push_back(g.number(-1000, 1000));
         Value bias = g.b.create<ConstantOp>(g.loc, makeIntegers(g.tensor({channels}, g.b.getI32Type()), counts));
         return {g.commuted<AddOp>(sum, g.dequantize(bias, {scale * 0.5f}, {0}, 0))};
       }},
      {"requantize",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape{g.number(1, 3), g.number(1, 3), g.number(1, 3)};
         Value x = g.arg(shape, g.eightBits());
         Value wide = g.cast(x, g.b.getI32Type());
         if (g.coin())
           wide = g.commuted<AddOp>(wide,
                                    g.b.create<ConstantOp>(g.loc, makeIntegers(g.tensor({shape[1], 1}, g.b.getI32Type()),
                                                                               Dims(size_t(shape[1]), g.number(-100, 100)))));
         const size_t count = g.coin() ? 1 : size_t(shape[1]);
         SmallVector<float> scales;
         for (size_t i = 0; i < count; ++i)
           scales.push_back(g.scale());
         return {g.quantize(g.dequantize(wide, scales, SmallVector<int32_t>(count, 0), 1))};
       }},
      {"integer-mean",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.eightBits();
         const Dims shape{g.number(1, 2), g.number(1, 3), g.number(1, 4), g.number(1, 4)};
         Value mean =
             g.pool<AveragePoolOp>(g.dequantize(g.arg(shape, element)), {shape[2], shape[3]}, {1, 1}, {0, 0, 0, 0}, "nchw");
         return {g.quantize(mean, element, g.scale(), g.zeroPoint(element))};
       }},
      {"quantize-before-activation",
       [](Instance &g) -> SmallVector<Value> {
         Value x = g.arg(g.dims(), g.f32());
         const double least = g.real(-2, 1);
         return {g.quantize(g.coin() ? g.unary<ReluOp>(x) : g.clip(x, least, least + g.real(0, 2)))};
       }},
      {"quantize-before-move",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         const int64_t axis = g.number(0, int64_t(shape.size()) - 1);
         if (g.coin())
           return {g.quantize(g.concat({g.arg(shape, g.f32()), g.arg(shape, g.f32())}, axis))};
         Dims once(shape), often(shape);
         once[size_t(axis)] = 1;
         often[size_t(axis)] = g.number(2, 5);
         const Type element = g.eightBits();
         const float scale = g.scale();
         const int32_t zeroPoint = g.zeroPoint(element);
         Value x = g.dequantize(g.arg(once, element), {scale}, {zeroPoint}, 0);
         return {g.quantize(g.commuted<MulOp>(x, g.splat(often, g.f32(), 1)), element, scale, zeroPoint)};
       }},
      {"quantize-of-dequantize",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.eightBits();
         const float scale = g.scale();
         const int32_t zeroPoint = g.zeroPoint(element);
         return {g.quantize(g.dequantize(g.arg(g.dims(), element), {scale}, {zeroPoint}, 0), element, scale, zeroPoint)};
       }},
      {"move-before-dequantize",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims(4);
         const Type element = g.eightBits();
         const int64_t which = g.number(0, 5);
         if (which == 0) { // a scale for each channel moves along
           const int64_t axis = g.number(0, int64_t(shape.size()) - 1);
           return {g.transpose(g.weights(shape, axis, g.arg(shape, element)), g.perm(shape.size()))};
         }
         const float scale = g.scale();
         const int32_t zeroPoint = g.zeroPoint(element);
         Value x = g.dequantize(g.arg(shape, element), {scale}, {zeroPoint}, 0);
         if (which == 1)
           return {g.pool<MaxPoolOp>(x, {g.number(1, 3), g.number(1, 3)}, {1, 1}, {0, 0, 0, 0}, "nchw")};
         if (which == 2)
           return {g.reshape(x, {tensorOf(x).getNumElements()})};
         if (which == 3)
           return {g.concat({x, g.dequantize(g.arg(shape, element), {scale}, {zeroPoint}, 0)},
                            g.number(0, int64_t(shape.size()) - 1))};
         if (which == 4) {
           Dims part(shape), starts(shape.size(), 0);
           for (auto [dim, start] : llvm::zip(part, starts))
             dim -= start = g.number(0, dim - 1);
           return {g.b.create<SliceOp>(g.loc, g.tensor(part, g.f32()), x, starts, Dims(shape.size(), 1))};
         }
         const Dims low(shape.size(), g.number(0, 1)), high(shape.size(), g.number(0, 1));
         return {g.b.create<PadOp>(g.loc, g.tensor(Dims(llvm::cantFail(padShape(shape, low, high))), g.f32()), x, low, high,
                                   g.b.getF32FloatAttr(0))};
       }},
      {"idempotent",
       [](Instance &g) -> SmallVector<Value> {
         const int64_t which = g.number(0, 2);
         return {which == 0 ? twice<ReluOp>(g) : which == 1 ? twice<AbsOp>(g) : twice<FloorOp>(g)};
       }},
      {"neg-of-neg",
       [](Instance &g) -> SmallVector<Value> { return {g.unary<NegOp>(g.unary<NegOp>(g.arg(g.dims(), g.anyNumber())))}; }},
      {"abs-of-neg",
       [](Instance &g) -> SmallVector<Value> { return {g.unary<AbsOp>(g.unary<NegOp>(g.arg(g.dims(), g.anyNumber())))}; }},
      {"clip-of-clip",
       [](Instance &g) -> SmallVector<Value> {
         Value x = g.arg(g.dims(), g.anyFloat());
         const double low = g.real(-2, 1), least = g.real(-2, 1);
         Value inner = g.coin() ? g.unary<ReluOp>(x) : g.clip(x, low, low + g.real(0, 2));
         return {g.clip(inner, least, least + g.real(0, 2))};
       }},
      {"neutral-element",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         Type element = g.anyNumber();
         Value x = g.arg(shape, element);
         auto neutral = [&](double value) { return g.splat(g.part(shape), element, value); };
         const int64_t which = g.number(0, 2);
         return {which == 0   ? g.commuted<MulOp>(x, neutral(1))
                 : which == 1 ? g.binary<DivOp>(x, neutral(1))
                              : g.binary<SubOp>(x, neutral(0))};
       }},
      {"divide-by-power-of-two",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         Type element = g.anyFloat();
         RankedTensorType type = g.tensor(g.part(shape), element);
         std::vector<float> powers;
         for (int64_t i = 0; i < type.getNumElements(); ++i)
           powers.push_back(
               std::ldexp(g.coin() ? 1.0f : -1.0f, int(element.isF16() ? g.number(-12, 12) : g.number(-100, 100))));
         Value c = g.b.create<ConstantOp>(g.loc, makeFloats(type, powers));
         return {g.binary<DivOp>(g.arg(shape, element), c)};
       }},
      {"divide-by-constant",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         Type element = g.anyFloat();
         return {g.binary<DivOp>(g.arg(shape, element), g.constant(g.part(shape), element, 0.3, 3))};
       }},
      {"factor-out", [](Instance &g) { return factorOut(g, g.anyFloat()); }},
      {"factor-out-of-integers", [](Instance &g) { return factorOut(g, g.anyInteger()); }},
      {"divisor-out",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         Type element = g.anyFloat();
         Value c = g.arg(g.part(shape), element, true);
         return {g.binary<AddOp>(g.binary<DivOp>(g.arg(shape, element), c), g.binary<DivOp>(g.arg(g.part(shape), element), c))};
       }},
      {"factor-out-of-products",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const Dims batch = g.coin() ? Dims{} : Dims{g.number(1, 3)};
         auto matrix = [&](int64_t rows, int64_t columns) {
           Dims shape(batch);
           shape.append({rows, columns});
           return g.arg(shape, element);
         };
         const int64_t m = g.number(1, 5), k = g.number(1, 5), n = g.number(1, 5);
         if (g.coin()) {
           Value a = matrix(m, k);
           return {g.binary<AddOp>(g.matmul(a, matrix(k, n)), g.matmul(a, matrix(k, n)))};
         }
         Value c = matrix(k, n);
         return {g.binary<AddOp>(g.matmul(matrix(m, k), c), g.matmul(matrix(m, k), c))};
       }},
      {"scale-out-of-sum", [](Instance &g) { return scaleOutOfSum(g, g.anyFloat(), g.coin() ? "sum" : "mean"); }},
      {"scale-out-of-integer-sum", [](Instance &g) { return scaleOutOfSum(g, g.anyInteger(), "sum"); }},
      {"shift-out-of-sum",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         if (g.coin()) { // as ONNX has it
           const Type ui32 = g.b.getIntegerType(32, false);
           Value bits = g.splat({1}, ui32, double(g.number(0, 31)));
           return {g.onnxReduction("ReduceSum", g.b.create<ElementwiseOp>(g.loc, g.tensor(shape, ui32), Function::ShiftLeft,
                                                                          ValueRange{g.arg(shape, ui32), bits}))};
         }
         Type ui8 = g.b.getIntegerType(8, false);
         Value bits = g.splat(Dims(size_t(g.number(0, int64_t(shape.size()))), 1), ui8, double(g.number(0, 9)));
         Value shifted =
             g.b.create<ElementwiseOp>(g.loc, g.tensor(shape, ui8), Function::ShiftLeft, ValueRange{g.arg(shape, ui8), bits});
         return {g.reduce("sum", shifted, g.axes(shape.size()), g.coin())};
       }},
      {"reciprocal-of-product",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const Dims shape = g.dims();
         Value a = g.arg(g.part(shape), element, true), b = g.arg(shape, element, true), one = g.splat({}, element, 1);
         return {g.commuted<MulOp>(g.binary<DivOp>(one, a), g.binary<DivOp>(one, g.commuted<MulOp>(a, b)))};
       }},
      {"multiply-by-reciprocal",
       [](Instance &g) -> SmallVector<Value> {
         const Dims shape = g.dims();
         Type element = g.anyFloat();
         Value recip = g.binary<DivOp>(g.splat({}, element, 1), g.arg(g.part(shape), element, true));
         return {g.commuted<MulOp>(g.arg(shape, element), recip)};
       }},
      {"product-of-exponentials",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const Dims shape = g.dims();
         return {g.commuted<MulOp>(g.unary<ExpOp>(g.arg(shape, element)), g.unary<ExpOp>(g.arg(g.part(shape), element)))};
       }},
      {"product-reduction-of-exponentials",
       [](Instance &g) -> SmallVector<Value> {
         return {g.onnxReduction("ReduceProd", g.unary<ExpOp>(g.arg(g.dims(), g.f32())))};
       }},
      {"root-of-square",
       [](Instance &g) -> SmallVector<Value> {
         Value x = g.arg(g.dims(), g.anyFloat(), true);
         x = g.coin() ? g.unary<NegOp>(x) : x;
         return {g.unary<SqrtOp>(g.binary<MulOp>(x, x))};
       }},
      {"batch-norm-into-conv",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         Value y = g.anyConv(element);
         if (g.coin())
           y = g.reshape(y, {shapeOf(y)[0], shapeOf(y)[1], shapeOf(y)[2] * shapeOf(y)[3]});
         const Dims channels{shapeOf(y)[1]};
         auto parameter = [&](double least, double most) { return g.constant(channels, element, least, most); };
         return {g.b.create<BatchNormOp>(g.loc, y.getType(), y, parameter(-2, 2), parameter(-2, 2), parameter(-2, 2),
                                         parameter(0.5, 2), APFloat(1e-5f))};
       }},
      {"scale-into-conv",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         Value y = g.anyConv(element);
         return {g.commuted<MulOp>(y, g.perChannel(shapeOf(y)[1], element))};
       }},
      {"bias-into-conv",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         Value y = g.anyConv(element);
         return {g.commuted<AddOp>(y, g.perChannel(shapeOf(y)[1], element))};
       }},
      {"scale-into-product",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const int64_t k = g.number(1, 5), n = g.number(1, 5);
         Value y = g.matmul(g.arg({g.number(1, 5), k}, element), g.constant({k, n}, element));
         return {g.commuted<MulOp>(y, g.constant(g.oneOf<Dims>({{n}, {1, n}, {1}, {}}), element))};
       }},
      {"constants-together",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const Dims shape = g.dims();
         Value x = g.arg(shape, element), c = g.constant(shape, element), d = g.constant(g.part(shape), element);
         return {g.coin() ? g.commuted<AddOp>(g.commuted<AddOp>(x, c), d) : g.commuted<MulOp>(g.commuted<MulOp>(x, c), d)};
       }},
      {"product-of-transposes",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const Dims batch = g.coin() ? Dims{} : Dims{g.number(1, 3)};
         Dims a(batch), b(batch), swap = llvm::to_vector(llvm::seq<int64_t>(0, int64_t(batch.size()) + 2));
         std::swap(swap[swap.size() - 1], swap[swap.size() - 2]);
         const int64_t k = g.number(1, 5);
         a.append({k, g.number(1, 5)});
         b.append({g.number(1, 5), k});
         return {g.matmul(g.transpose(g.arg(a, element), swap), g.transpose(g.arg(b, element), swap))};
       }},
      {"product-chain",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const int64_t m = g.number(1, 5), k = g.number(1, 5), n = g.number(1, 5), p = g.number(1, 5);
         auto matrix = [&](int64_t rows, int64_t columns) {
           return g.number(0, 2) ? g.arg({rows, columns}, element) : g.constant({rows, columns}, element);
         };
         Value a = matrix(m, k), b = matrix(k, n), c = matrix(n, p);
         return {g.coin() ? g.matmul(g.matmul(a, b), c) : g.matmul(a, g.matmul(b, c))};
       }},
      {"product-chain-with-bias",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const int64_t k = g.number(1, 5), n = g.number(1, 5), p = g.number(1, 5);
         Value inner =
             g.matmul(g.arg(g.coin() ? Dims{g.number(1, 5), k} : Dims{2, 3, k}, element), g.constant({k, n}, element));
         Value bias = g.constant(g.oneOf<Dims>({{n}, {1, n}}), element);
         return {g.matmul(g.commuted<AddOp>(inner, bias), g.constant({n, p}, element))};
       }},
      {"parallel-products",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         Dims shape = g.dims(2, 3);
         Value a = g.arg(shape, element);
         SmallVector<Value> results;
         for (int64_t count = g.number(2, 4); count > 0; --count)
           results.push_back(g.matmul(a, g.constant({shape.back(), g.number(1, 4)}, element)));
         return results;
       }},
      {"parallel-convolutions",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         const int64_t channels = g.number(1, 4);
         Value x = g.arg({g.number(1, 2), channels, g.number(2, 4), g.number(2, 4)}, element);
         const bool hasBias = g.coin();
         const Dims strides{g.number(1, 2), g.number(1, 2)};
         SmallVector<Value> results;
         for (int64_t count = g.number(2, 4); count > 0; --count) {
           const int64_t outputs = g.number(1, 4);
           Value w = g.constant({outputs, channels, 1, 1}, element);
           results.push_back(g.conv(x, w, hasBias ? g.constant({outputs}, element) : Value(), strides, {0, 0, 0, 0}, 1));
         }
         return results;
       }},
      {"gelu-to-sigmoid",
       [](Instance &g) -> SmallVector<Value> {
         const Type element = g.anyFloat();
         Value x = g.arg(g.dims(), element);
         Value scaled = g.coin() ? g.commuted<MulOp>(x, g.splat({}, element, std::sqrt(0.5)))
                                 : g.binary<DivOp>(x, g.splat({1}, element, std::sqrt(2.0)));
         Value sum = g.commuted<AddOp>(g.unary<ErfOp>(scaled), g.splat({}, element, 1)), half = g.splat({}, element, 0.5);
         const int64_t which = g.number(0, 2);
         return {which == 0   ? g.commuted<MulOp>(x, g.commuted<MulOp>(sum, half))
                 : which == 1 ? g.commuted<MulOp>(g.commuted<MulOp>(x, sum), half)
                              : g.commuted<MulOp>(g.commuted<MulOp>(x, half), sum)};
       }},
  };
  return table;
}

/// Bounds of approximate rules, as their meanings state them.
const std::map<std::string, double> kBounds = {{"gelu-to-sigmoid", 0.0204}};

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// 2^-p of a type that keeps p bits: the relative error of a rounding.
double unitOf(Type type) { return type.isF16() ? 0x1p-11 : type.isBF16() ? 0x1p-8 : 0x1p-24; }

/// How far a result of one rounding may be from the number: half a unit in its last place, or of the least subnormal number.
double roundingOf(Type type, double value) {
  return unitOf(type) * std::fabs(value) + (type.isF16() ? 0x1p-25 : type.isBF16() ? 0x1p-134 : 0x1p-150);
}

/// A tensor, and of floats how far each element may be from the value in real arithmetic.
struct Evaluated {
  DenseElementsAttr value;
  std::vector<double> error;
};

/// The magnitude of every element: what roundings of sums are relative to.
DenseElementsAttr magnitudes(DenseElementsAttr x) {
  std::vector<float> values = readFloats(x);
  for (float &value : values)
    value = std::fabs(value);
  return makeFloats(cast<RankedTensorType>(x.getType()), values);
}

std::vector<double> numbersOf(DenseElementsAttr x) {
  if (isa<FloatType>(x.getElementType())) {
    const std::vector<float> floats = readFloats(x);
    return {floats.begin(), floats.end()};
  }
  const std::vector<int64_t> integers = readIntegers(x);
  return {integers.begin(), integers.end()};
}

/// Evaluates ops one by one in a block of their own.
struct Interpreter {
  OpBuilder b;
  OwningOpRef<ModuleOp> module;
  llvm::DenseSet<Attribute> known; ///< constants of the first function
  explicit Interpreter(MLIRContext &context) : b(&context), module(ModuleOp::create(b.getUnknownLoc())) {
    b.setInsertionPointToStart(module->getBody());
  }

  /// `op` of other operands.
  DenseElementsAttr compute(Operation *op, ArrayRef<DenseElementsAttr> operands) {
    IRMapping mapping;
    SmallVector<Operation *> made;
    for (auto [operand, value] : llvm::zip(op->getOperands(), operands)) {
      // An operand that is read twice has two values in error analysis, not here.
      auto constant = b.create<ConstantOp>(b.getUnknownLoc(), value);
      made.push_back(constant);
      mapping.map(operand, constant);
    }
    Operation *copy = b.clone(*op, mapping);
    for (auto [i, constant] : llvm::enumerate(made))
      copy->setOperand(unsigned(i), constant->getResult(0));
    DenseElementsAttr result = special(copy, operands);
    if (!result)
      result = evaluate(copy);
    copy->erase();
    for (Operation *constant : made)
      constant->erase();
    return result;
  }

  /// What graph::evaluate() leaves to the host.
  DenseElementsAttr special(Operation *op, ArrayRef<DenseElementsAttr> operands) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    if (auto shift = dyn_cast<ElementwiseOp>(op); shift && shift.getFunction() == Function::ShiftLeft) {
      std::vector<int64_t> values = readIntegers(operands[0]);
      const int64_t bits = readIntegers(operands[1])[0];
      for (int64_t &value : values)
        value = bits >= int64_t(type.getElementTypeBitWidth()) ? 0 : value << bits;
      return makeIntegers(type, values);
    }
    auto node = dyn_cast<FallbackOp>(op);
    if (!node)
      return {};
    const bool isProduct = node.getOnnxOp() == "ReduceProd";
    auto given = node.getNodeAttributes().getAs<DenseI64ArrayAttr>("axes");
    std::vector<int64_t> axes = given ? given.asArrayRef().vec() : readIntegers(operands[1]);
    const std::vector<double> x = numbersOf(operands[0]);
    ArrayRef<int64_t> shape = cast<RankedTensorType>(operands[0].getType()).getShape();
    SmallVector<int64_t> strides = rowMajorStrides(shape);
    std::vector<double> y(size_t(type.getNumElements()), isProduct);
    for (size_t i = 0; i < x.size(); ++i) {
      int64_t at = 0;
      for (size_t dim = 0; dim < shape.size(); ++dim)
        if (!llvm::is_contained(axes, int64_t(dim)))
          at = at * shape[dim] + int64_t(i) / strides[dim] % shape[dim];
      y[size_t(at)] = isProduct ? y[size_t(at)] * x[i] : y[size_t(at)] + x[i];
    }
    return isProduct ? makeFloats(type, std::vector<float>(y.begin(), y.end()))
                     : makeIntegers(type, std::vector<int64_t>(y.begin(), y.end()));
  }

  /// How many steps the rounding to a whole number of something that is `off` from `value` may be off.
  static double stepsFrom(double value, double off) {
    const double toTie = std::fabs(value - std::floor(value) - 0.5);
    return toTie > off ? 0 : std::ceil(off);
  }

  /// How far one result is from real arithmetic. Sums of n products: n roundings of the sum of magnitudes, in any order; functions: their
  /// largest slope times the error of the operand, and four roundings of the result, which is what the libraries keep.
  std::vector<double> errorOf(Operation *op, ArrayRef<Evaluated> x, DenseElementsAttr result) {
    const double unit = unitOf(elementOf(op->getResult(0)));
    auto rounding = [type = elementOf(op->getResult(0))](double value) { return roundingOf(type, value); };
    const std::vector<double> y = numbersOf(result);
    auto type = cast<RankedTensorType>(result.getType());
    auto attr = [&](const std::vector<double> &values, DenseElementsAttr like) {
      return makeFloats(cast<RankedTensorType>(like.getType()).clone(b.getF32Type()),
                        std::vector<float>(values.begin(), values.end()));
    };
    auto wide = [&](DenseElementsAttr values) {
      const std::vector<float> floats = readFloats(values);
      return attr({floats.begin(), floats.end()}, values);
    };
    // The same op in f32, of magnitudes and errors.
    auto ofFloats = [&](ArrayRef<DenseElementsAttr> operands) {
      IRMapping mapping;
      Operation *copy = op->clone();
      copy->getResult(0).setType(type.clone(b.getF32Type()));
      DenseElementsAttr value = compute(copy, operands);
      copy->destroy();
      const std::vector<float> floats = readFloats(value);
      return std::vector<double>(floats.begin(), floats.end());
    };
    auto spread = [&](size_t i, const std::vector<double> &values) { // broadcast to the result
      OpBuilder::InsertionGuard guard(b);
      Value zero =
          b.create<ConstantOp>(b.getUnknownLoc(), makeFloats(type.clone(b.getF32Type()), std::vector<float>(y.size(), 0)));
      Value part = b.create<ConstantOp>(b.getUnknownLoc(), attr(values, x[i].value));
      Operation *sum = b.create<AddOp>(b.getUnknownLoc(), type.clone(b.getF32Type()), part, zero);
      const std::vector<float> floats = readFloats(evaluate(sum));
      for (Operation *each : {sum, part.getDefiningOp(), zero.getDefiningOp()})
        each->erase();
      return std::vector<double>(floats.begin(), floats.end());
    };
    auto absolute = [&](size_t i) {
      const std::vector<float> floats = readFloats(magnitudes(x[i].value));
      return std::vector<double>(floats.begin(), floats.end());
    };
    std::vector<double> error(y.size());
    auto each = [&](auto rule) {
      for (size_t i = 0; i < y.size(); ++i)
        error[i] = rule(i);
    };
    llvm::TypeSwitch<Operation *>(op)
        .Case<AddOp, SubOp>([&](auto) {
          std::vector<double> a = spread(0, x[0].error), c = spread(1, x[1].error);
          each([&](size_t i) { return a[i] + c[i] + rounding(y[i]); });
        })
        .Case([&](MulOp) {
          std::vector<double> a = spread(0, x[0].error), c = spread(1, x[1].error), p = spread(0, absolute(0)),
                              q = spread(1, absolute(1));
          each([&](size_t i) { return p[i] * c[i] + q[i] * a[i] + a[i] * c[i] + rounding(y[i]); });
        })
        .Case([&](DivOp) {
          std::vector<double> a = spread(0, x[0].error), c = spread(1, x[1].error), q = spread(1, absolute(1));
          each([&](size_t i) { return (a[i] + std::fabs(y[i]) * c[i]) / (q[i] - c[i]) + rounding(y[i]); });
        })
        .Case<MatmulOp, ConvOp>([&](auto) {
          // |a| x error(b) + error(a) x (|b| + error(b)), and a rounding of |a| x |b| for each of its terms.
          SmallVector<DenseElementsAttr> sizes, errors, both;
          for (const Evaluated &operand : x) {
            sizes.push_back(wide(magnitudes(operand.value)));
            errors.push_back(attr(operand.error, operand.value));
            std::vector<double> sum = operand.error;
            for (auto [total, size] : llvm::zip(sum, readFloats(magnitudes(operand.value))))
              total += size;
            both.push_back(attr(sum, operand.value));
          }
          std::vector<double> magnitude = ofFloats(sizes), upper = ofFloats(both);
          const double terms = double(tensorOf(op->getOperand(1)).getNumElements()) + 2;
          each([&](size_t i) { return upper[i] - magnitude[i] + terms * unit * upper[i]; });
        })
        .Case([&](ReduceOp reduce) {
          std::vector<double> errors = ofFloats({attr(x[0].error, x[0].value)}),
                              magnitude = ofFloats({wide(magnitudes(x[0].value))});
          if (reduce.getKind() == "max") {
            error = errors;
            return;
          }
          const double terms = double(tensorOf(reduce.getX()).getNumElements()) / double(std::max<size_t>(y.size(), 1)) + 1;
          each([&](size_t i) { return errors[i] + terms * rounding(magnitude[i]); });
        })
        .Case([&](FallbackOp) { // a product of factors that are no zeros: relative errors add up
          double relative = 0;
          for (auto [value, off] : llvm::zip(readFloats(x[0].value), x[0].error))
            relative += off / std::fabs(value) + unit;
          each([&](size_t i) { return std::fabs(y[i]) * std::expm1(relative); });
        })
        .Case<ExpOp>([&](auto) { each([&](size_t i) { return std::fabs(y[i]) * (std::expm1(x[0].error[i]) + 4 * unit); }); })
        .Case<SqrtOp>([&](auto) { each([&](size_t i) { return x[0].error[i] / std::fabs(y[i]) + unit * std::fabs(y[i]); }); })
        .Case([&](AveragePoolOp pool) { // a sum, and a division
          std::vector<double> errors = ofFloats({attr(x[0].error, x[0].value)}),
                              magnitude = ofFloats({wide(magnitudes(x[0].value))});
          const double terms = double(pool.getKernel()[0] * pool.getKernel()[1]) + 2;
          each([&](size_t i) { return errors[i] + terms * rounding(magnitude[i]); });
        })
        .Case<SoftmaxOp, LayerNormOp>([&](auto) { // of arguments, which are exact
          each([&](size_t i) { return 4 * rounding(y[i]); });
        })
        .Case([&](DequantizeOp) { // products of scales have a rounding too
          each([&](size_t i) { return 3 * rounding(y[i]); });
        })
        .Case([&](QuantizeOp quantize) {
          std::vector<float> in = readFloats(x[0].value);
          const double scale = quantize.getScales()[0];
          each([&](size_t i) { return stepsFrom(in[i] / scale, x[0].error[i] / scale + 2 * unit * std::fabs(in[i] / scale)); });
        })
        .Case([&](RequantizeOp requantize) {
          const std::vector<int64_t> in = readIntegers(x[0].value),
                                     bias = x.size() > 1 ? readIntegers(x[1].value) : std::vector<int64_t>();
          const int64_t inner = type.getNumElements() ? rowMajorStrides(type.getShape())[size_t(requantize.getAxis())] : 1;
          const int64_t channels = type.getDimSize(int64_t(requantize.getAxis()));
          each([&](size_t i) {
            const size_t c = size_t(int64_t(i) / inner % channels);
            const ArrayRef<float> multipliers = requantize.getMultipliers();
            const double scaled = double(in[i] + (bias.empty() ? 0 : bias[c])) * multipliers[multipliers.size() > 1 ? c : 0];
            return stepsFrom(scaled, 4 * unit * std::fabs(scaled));
          });
        })
        .Case([&](QLinearGlobalAveragePoolOp pool) {
          const std::vector<int64_t> in = readIntegers(x[0].value);
          const int64_t area = int64_t(in.size() / y.size());
          each([&](size_t i) {
            double sum = 0;
            for (int64_t p = 0; p < area; ++p)
              sum += double(in[i * size_t(area) + size_t(p)] - int32_t(pool.getXZeroPoint()));
            const double scaled = sum / double(area) * pool.getXScale().convertToFloat() / pool.getYScale().convertToFloat();
            return stepsFrom(scaled, 4 * unit * std::fabs(scaled));
          });
        })
        .Case<ErfOp, SigmoidOp>([&](auto) { each([&](size_t i) { return 1.2 * x[0].error[i] + 4 * unit * std::fabs(y[i]); }); })
        .Case<AbsOp, NegOp>([&](auto) { error = x[0].error; })
        .Case([&](BatchNormOp) {
          // Four operations; magnitudes before the mean is subtracted, as that may cancel.
          const int64_t channels = shapeOf(op->getResult(0))[1], inner = type.getNumElements() / type.getDimSize(0) / channels;
          std::vector<float> in = readFloats(x[0].value), scale = readFloats(x[1].value), shift = readFloats(x[2].value),
                             mean = readFloats(x[3].value), var = readFloats(x[4].value);
          each([&](size_t i) {
            const size_t c = i / size_t(inner) % size_t(channels);
            const double factor = std::fabs(scale[c]) / std::sqrt(double(var[c]));
            return factor * x[0].error[i] + 6 * unit * (factor * (std::fabs(in[i]) + std::fabs(mean[c])) + std::fabs(shift[c]));
          });
        })
        .Default([&](Operation *) { // moves: errors move along
          error = x.size() == 1 ? ofFloats({attr(x[0].error, x[0].value)}) : error;
          EXPECT_TRUE((isa<TransposeOp, ReshapeOp, SliceOp, CastOp>(op)))
              << op->getName().getStringRef().str() << " has no error analysis";
        });
    return error;
  }

  /// The results of a function; errors of floats too if `withErrors`. Constants that it has first are exact; those that a rule has computed
  /// have up to four roundings.
  std::vector<Evaluated> run(func::FuncOp function, ArrayRef<DenseElementsAttr> arguments, bool withErrors) {
    const bool isSource = known.empty();
    known.insert(UnitAttr::get(function.getContext()));
    llvm::DenseMap<Value, Evaluated> values;
    auto exact = [](DenseElementsAttr value) {
      return Evaluated{value, std::vector<double>(size_t(value.getNumElements()), 0)};
    };
    for (auto [argument, value] : llvm::zip(function.getArguments(), arguments))
      values[argument] = exact(value);
    std::vector<Evaluated> results;
    for (Operation &op : function.getBody().front()) {
      if (isa<func::ReturnOp>(op)) {
        for (Value operand : op.getOperands())
          results.push_back(values[operand]);
        return results;
      }
      if (auto constant = dyn_cast<ConstantOp>(op)) {
        auto value = cast<DenseElementsAttr>(constant.getValue());
        Evaluated &result = values[constant] = exact(value);
        if (isSource)
          known.insert(value);
        else if (!known.contains(value) && isa<FloatType>(value.getElementType()))
          for (auto [error, number] : llvm::zip(result.error, readFloats(value)))
            error = 4 * roundingOf(value.getElementType(), number);
        continue;
      }
      SmallVector<Evaluated> operands;
      SmallVector<DenseElementsAttr> inputs;
      for (Value operand : op.getOperands()) {
        operands.push_back(values[operand]);
        inputs.push_back(operands.back().value);
      }
      Evaluated result{compute(&op, inputs), {}};
      if (!result.value)
        return {};
      result.error.assign(size_t(result.value.getNumElements()), 0);
      if (withErrors &&
          (isa<FloatType>(result.value.getElementType()) || isa<QuantizeOp, RequantizeOp, QLinearGlobalAveragePoolOp>(op)))
        result.error = errorOf(&op, operands, result.value);
      values[op.getResult(0)] = std::move(result);
    }
    return results;
  }
};

/// Whether two tensors have the same bits, but for those of NaNs; and of zeros if `zerosAreEqual`.
bool areSame(DenseElementsAttr a, DenseElementsAttr b, bool zerosAreEqual) {
  if (!isa<FloatType>(a.getElementType()))
    return a == b;
  return llvm::all_of(llvm::zip_equal(readFloats(a), readFloats(b)), [&](const auto &pair) {
    const auto [x, y] = pair;
    return x == y ? zerosAreEqual || std::signbit(x) == std::signbit(y) : std::isnan(x) && std::isnan(y);
  });
}

/// Whether a function has a maximum of many numbers, which may be a zero of either sign if they are zeros of both.
bool hasMaximum(func::FuncOp function) {
  return llvm::any_of(function.getOps(), [](Operation &op) {
    auto reduce = dyn_cast<ReduceOp>(op);
    return isa<MaxPoolOp>(op) || (reduce && reduce.getKind() == "max");
  });
}

std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  return text;
}

//===----------------------------------------------------------------------===//
// The test
//===----------------------------------------------------------------------===//

struct RulesTest : testing::TestWithParam<size_t> {
  RulesTest() { context.loadDialect<GraphDialect, func::FuncDialect>(); }

  /// A small machine, on which passes have something to do.
  static std::unique_ptr<Pass> passOf(const Rule &rule, const RuleRecorder &recorder) {
    const StringRef pass = rule.pass;
    if (pass == "cse")
      return createCSEPass();
    if (pass == "graph-fold-constants")
      return createFoldConstantsPass();
    if (pass == "graph-fuse-layer-norm")
      return createFuseLayerNormPass(recorder);
    if (pass == "graph-decompose-ops")
      return createDecomposeOpsPass({}, recorder);
    if (pass == "graph-convert-qdq")
      return createConvertQdqPass({}, recorder);
    if (pass == "graph-swap-operands") {
      SwapOperandsPassOptions options;
      options.rows = options.columns = 4;
      options.dramBytes = 1000;
      return createSwapOperandsPass(options, recorder);
    }
    if (pass == "graph-split-reductions") {
      SplitReductionsPassOptions options;
      options.columns = 4;
      options.scratchpad = 160;
      return createSplitReductionsPass(options, recorder);
    }
    if (pass == "graph-move-pools") {
      MovePoolsPassOptions options;
      options.scratchpad = 64;
      options.dramBytes = 0.1;
      options.columns = StringRef(rule.name) == "pool-of-columns" ? 16 : 4;
      options.finiteMath = true;
      return createMovePoolsPass(options, recorder);
    }
    return nullptr;
  }

  /// Whether the rule changed the module; nothing: a pass failed.
  std::optional<bool> apply(const Rule &rule, ModuleOp module) {
    PassManager manager = PassManager::on<ModuleOp>(&context);
    const std::string name = rule.name, before = textOf(module);
    bool isRecorded = false;
    const RuleRecorder recorder([&](const RuleLog &log) {
      isRecorded = llvm::any_of(log.firings, [&](const RuleFiring &firing) { return firing.rule == &rule; });
    });
    if (!*rule.pass) {
      ApplyRulesPassOptions options;
      options.only = name; // a reference
      manager.addPass(createApplyRulesPass(options));
    } else if (std::unique_ptr<Pass> pass = passOf(rule, recorder)) {
      manager.addPass(std::move(pass));
    } else {
      ADD_FAILURE() << "this file does not know pass " << rule.pass;
      return std::nullopt;
    }
    if (failed(manager.run(module)))
      return std::nullopt;
    const bool recordsNothing = !*rule.pass || llvm::is_contained({"cse", "graph-fold-constants"}, StringRef(rule.pass));
    return recordsNothing ? textOf(module) != before : isRecorded;
  }

  MLIRContext context;
};

TEST_P(RulesTest, KeepsWhatItsClassPromises) {
  const Rule &rule = rules()[GetParam()];
  auto generator = generators().find(rule.name);
  ASSERT_NE(generator, generators().end()) << "rule '" << rule.name << "' has no generator in this file";
  const bool isExact = rule.exactness == RuleClass::BitExact;
  const char *fixed = std::getenv("TILEWRIGHT_SEED");
  const uint64_t seed = (fixed ? std::strtoull(fixed, nullptr, 10) : 1) * 1000003;
  int fired = 0;
  for (int draw = 0; fired < kInstances; ++draw) {
    ASSERT_LT(draw, 20 * kInstances) << "the rule fired in " << fired << " of " << draw << " sources only";
    Instance g(context, seed + uint64_t(draw));
    SmallVector<Value> results = generator->second(g);
    if (results.empty() || !results.front()) // a window larger than its image
      continue;
    g.finish(results);
    ASSERT_TRUE(succeeded(verify(*g.module))) << textOf(*g.module);
    const std::string source = textOf(*g.module);
    const bool zerosAreEqual = hasMaximum(g.function);
    // What a NaN is quantised to is open.
    const bool hasSpecial = isExact && g.function.getOps<QuantizeOp>().empty();
    SmallVector<DenseElementsAttr> arguments;
    for (auto [argument, isPositive] : llvm::zip(g.function.getArguments(), g.positive))
      arguments.push_back(g.randomValues(tensorOf(argument), isPositive ? 0.5 : -2, 2, hasSpecial));
    Interpreter interpreter(context);
    std::vector<Evaluated> before = interpreter.run(g.function, arguments, !isExact);
    const std::optional<bool> isChanged = apply(rule, *g.module);
    ASSERT_TRUE(isChanged) << source;
    if (!*isChanged)
      continue;
    const std::string target = textOf(*g.module);
    ++fired;
    ASSERT_TRUE(succeeded(verify(*g.module))) << source << target;
    std::vector<Evaluated> after = interpreter.run(g.function, arguments, !isExact);
    ASSERT_FALSE(before.empty()) << source;
    ASSERT_EQ(before.size(), after.size()) << source << target;
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(before[i].value.getType(), after[i].value.getType()) << source << target;
      if (isExact) {
        ASSERT_TRUE(areSame(before[i].value, after[i].value, zerosAreEqual)) << source << target;
        continue;
      }
      // Folded batch norms subtract: up to four roundings more are of terms that cancel, which the source has at run time.
      const std::vector<double> x = numbersOf(before[i].value), y = numbersOf(after[i].value);
      const double bound = rule.exactness == RuleClass::Approximate ? kBounds.at(rule.name) : 0;
      for (size_t at = 0; at < x.size(); ++at)
        ASSERT_LE(std::fabs(x[at] - y[at]), 5 * before[i].error[at] + after[i].error[at] + bound) << source << target;
    }
  }
}

std::string nameOf(const testing::TestParamInfo<size_t> &info) {
  std::string name = rules()[info.param].name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, RulesTest, testing::Range(size_t(0), rules().size()), nameOf);

TEST(RulesTable, EveryGeneratorHasARule) {
  for (const auto &[name, generator] : generators())
    EXPECT_TRUE(findRule(name)) << name;
}

TEST(RulesTable, OptionsAllowWhatTheyName) {
  RuleOptions all;
  const Rule &exact = *findRule("transpose-of-transpose"), &real = *findRule("factor-out"),
             &approximate = *findRule("gelu-to-sigmoid");
  EXPECT_TRUE(all.allows(exact, Math::Strict));
  EXPECT_FALSE(all.allows(real, Math::Finite));
  EXPECT_TRUE(all.allows(real, Math::Reassociate));
  EXPECT_FALSE(all.allows(approximate, Math::Reassociate));
  EXPECT_TRUE(all.allows(approximate, Math::Fast));
  // Every importer folds batch norms, and nothing else knows what one is.
  EXPECT_TRUE(all.allows(*findRule("batch-norm-into-conv"), Math::Strict));
  RuleOptions none;
  none.set = RuleSet::None;
  EXPECT_FALSE(none.allows(exact, Math::Fast));
  EXPECT_FALSE(none.allows(*findRule("batch-norm-into-conv"), Math::Fast));
  EXPECT_TRUE(none.allows(*findRule("batch-norm-to-scale"), Math::Strict));
  RuleOptions upToReal;
  upToReal.set = RuleSet::Real;
  upToReal.disabled = {"factor-out"};
  EXPECT_FALSE(upToReal.allows(real, Math::Fast));
  EXPECT_TRUE(upToReal.allows(*findRule("divisor-out"), Math::Fast));
  EXPECT_FALSE(upToReal.allows(approximate, Math::Fast));
}

} // namespace
