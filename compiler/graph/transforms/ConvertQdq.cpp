//===- ConvertQdq.cpp - Quantised networks on integers --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two steps. A convolution or matrix product of dequantised 8-bit operands is
// an integer one whose int32 result is dequantised; then dequantize (int32),
// activation, quantize becomes requantize. Data movements and maxima are done
// on the 8-bit side of a dequantize. What remains stays float between
// dequantize and quantize and becomes one kernel.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/GroupedProducts.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_CONVERTQDQPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

bool isPerTensor(DequantizeOp op) { return op.getScales().size() == 1; }

/// The dequantize of an 8-bit tensor with one scale that defines `value`, or null.
DequantizeOp dequantizedTensor(Value value) {
  auto op = value.getDefiningOp<DequantizeOp>();
  return op && isEightBit(elementOf(op.getX())) && isPerTensor(op) ? op : nullptr;
}

/// The dequantize of an int32 tensor without zero point that defines `value`, or null.
DequantizeOp dequantizedAccumulator(Value value) {
  auto op = value.getDefiningOp<DequantizeOp>();
  return op && elementOf(op.getX()).isInteger(32) && llvm::all_of(op.getZeroPoints(), [](int32_t z) { return z == 0; })
             ? op
             : nullptr;
}

/// `values` where all are equal: one of them.
template <typename T> SmallVector<T> compress(ArrayRef<T> values) {
  if (!values.empty() && llvm::all_equal(values))
    return {values.front()};
  return SmallVector<T>(values);
}

/// The int32 vector that `bias` (a constant, dequantised or not) is in units of `scales`, one element per channel or one in
/// all. Scales that differ in their last bits count as equal, as in ONNX Runtime. Nothing if some element is no integer.
std::optional<std::vector<int64_t>> integerBias(Value bias, ArrayRef<float> scales) {
  std::vector<int64_t> result;
  if (auto dequantize = dequantizedAccumulator(bias)) {
    ElementsAttr elements = constantOf(dequantize.getX());
    if (!elements)
      return std::nullopt;
    std::vector<int64_t> values = readIntegers(elements);
    ArrayRef<float> own = dequantize.getScales();
    for (size_t c = 0; c < std::max(scales.size(), own.size()); ++c) {
      float expected = scales[scales.size() == 1 ? 0 : c], found = own[own.size() == 1 ? 0 : c];
      if (std::fabs(found - expected) > expected * 0x1p-20f)
        return std::nullopt;
    }
    return values;
  }
  ElementsAttr elements = constantOf(bias);
  if (!elements || !elements.getElementType().isF32())
    return std::nullopt;
  std::vector<float> values = readFloats(elements);
  for (size_t c = 0; c < values.size(); ++c) {
    float scale = scales[scales.size() == 1 ? 0 : c];
    float count = std::nearbyint(values[c] / scale);
    if (std::fabs(count) > 0x1p30f || float(count * scale) != values[c])
      return std::nullopt;
    result.push_back(int64_t(count));
  }
  return result;
}

/// x (int32) + the vector `bias` along `axis`.
Value addIntegerBias(PatternRewriter &rewriter, Location loc, Value x, ArrayRef<int64_t> bias, int64_t axis) {
  SmallVector<int64_t> shape(tensorOf(x).getRank() - axis, 1);
  shape[0] = bias.size();
  Value constant = rewriter.create<ConstantOp>(loc, makeIntegers(RankedTensorType::get(shape, rewriter.getI32Type()), bias));
  return rewriter.create<AddOp>(loc, x.getType(), x, constant);
}

/// Whether a tensor of `shape` broadcast to `result` varies along `axis` only, with `channels` or one element.
bool variesAlong(ArrayRef<int64_t> shape, ArrayRef<int64_t> result, int64_t axis) {
  if (shape.size() > result.size())
    return false;
  SmallVector<int64_t> padded = padRank(shape, result.size());
  for (size_t i = 0; i < padded.size(); ++i)
    if (padded[i] != 1 && int64_t(i) != axis)
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Convolutions and matrix products
//===----------------------------------------------------------------------===//

struct ConvToInteger : OpRewritePattern<ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvOp op, PatternRewriter &rewriter) const override {
    DequantizeOp x = dequantizedTensor(op.getX());
    auto w = op.getW().getDefiningOp<DequantizeOp>();
    if (!x || !w || !isEightBit(elementOf(w.getX())) || !constantOf(w.getX()) || op.getLayout() != "nchw" ||
        !elementOf(op).isF32() || (!isPerTensor(w) && w.getAxis() != 0))
      return failure();
    SmallVector<float> scales;
    for (float scale : w.getScales())
      scales.push_back(x.getScales()[0] * scale);
    scales = compress<float>(scales);
    std::optional<std::vector<int64_t>> bias;
    if (op.getBias())
      bias = integerBias(op.getBias(), scales);

    Location loc = fuseLocations({op, x, w, op.getBias() ? op.getBias().getDefiningOp() : nullptr});
    auto accumulator = RankedTensorType::get(shapeOf(op), rewriter.getI32Type());
    Value sum = rewriter.create<ConvIntegerOp>(loc, accumulator, x.getX(), w.getX(), x.getZeroPoints()[0],
                                               compress<int32_t>(w.getZeroPoints()), op.getStrides(), op.getPads(),
                                               op.getDilations(), op.getGroup(), op.getLayout());
    if (bias)
      sum = addIntegerBias(rewriter, loc, sum, *bias, 1);
    SmallVector<int32_t> zeroPoints(scales.size(), 0);
    Value y = rewriter.create<DequantizeOp>(loc, op.getType(), sum, scales, zeroPoints, 1);
    if (op.getBias() && !bias) {
      Value column = createReshape(rewriter, loc, op.getBias(), {tensorOf(op.getBias()).getNumElements(), 1, 1});
      y = rewriter.create<AddOp>(loc, op.getType(), y, column);
    }
    rewriter.replaceOp(op, y);
    return success();
  }
};

struct MatmulToInteger : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    DequantizeOp a = dequantizedTensor(op.getA());
    auto b = op.getB().getDefiningOp<DequantizeOp>();
    if (!a || !b || !isEightBit(elementOf(b.getX())) || tensorOf(op.getB()).getRank() < 2 || tensorOf(op.getA()).getRank() < 2)
      return failure();
    bool perColumn = !isPerTensor(b);
    if (perColumn && (b.getAxis() != 1 || tensorOf(op.getB()).getRank() != 2))
      return failure();
    SmallVector<float> scales;
    for (float scale : b.getScales())
      scales.push_back(a.getScales()[0] * scale);
    scales = compress<float>(scales);
    Location loc = fuseLocations({op, a, b});
    auto accumulator = RankedTensorType::get(shapeOf(op), rewriter.getI32Type());
    Value sum = rewriter.create<MatmulIntegerOp>(loc, accumulator, a.getX(), b.getX(), a.getZeroPoints()[0],
                                                 compress<int32_t>(b.getZeroPoints()));
    SmallVector<int32_t> zeroPoints(scales.size(), 0);
    rewriter.replaceOpWithNewOp<DequantizeOp>(op, op.getType(), sum, scales, zeroPoints, tensorOf(op.getY()).getRank() - 1);
    return success();
  }
};

/// dequantize(sum) + bias, where the bias is an integer in units of the scale: dequantize(sum + bias).
struct BiasToInteger : OpRewritePattern<AddOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AddOp op, PatternRewriter &rewriter) const override {
    for (auto [x, bias] : {std::pair(op.getA(), op.getB()), std::pair(op.getB(), op.getA())}) {
      DequantizeOp sum = dequantizedAccumulator(x);
      if (!sum || !sum->hasOneUse() || shapeOf(x) != shapeOf(op))
        continue;
      int64_t axis = sum.getAxis();
      if (constantOf(sum.getX()) || !variesAlong(shapeOf(bias), shapeOf(op), axis))
        continue;
      std::optional<std::vector<int64_t>> integers = integerBias(bias, sum.getScales());
      if (!integers)
        continue;
      Location loc = fuseLocations({sum, bias.getDefiningOp(), op});
      Value total = addIntegerBias(rewriter, loc, sum.getX(), *integers, axis);
      rewriter.replaceOpWithNewOp<DequantizeOp>(op, op.getType(), total, sum.getScales(), sum.getZeroPoints(), axis)
          ->setLoc(loc);
      return success();
    }
    return failure();
  }
};

/// quantize(dequantize(sum + bias)): requantize.
struct ToRequantize : OpRewritePattern<QuantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QuantizeOp op, PatternRewriter &rewriter) const override {
    DequantizeOp x = dequantizedAccumulator(op.getX());
    if (!x || op.getScales().size() != 1)
      return failure();
    SmallVector<float> multipliers;
    for (float scale : x.getScales()) {
      multipliers.push_back(scale / op.getScales()[0]);
      if (!std::isfinite(multipliers.back()) || multipliers.back() <= 0)
        return failure();
    }
    Value sum = x.getX(), bias;
    Location loc = fuseLocations({x, op});
    if (auto add = sum.getDefiningOp<AddOp>(); add && add->hasOneUse())
      for (auto [value, constant] : {std::pair(add.getA(), add.getB()), std::pair(add.getB(), add.getA())}) {
        ElementsAttr elements = constantOf(constant);
        if (!elements || shapeOf(value) != shapeOf(add) || !variesAlong(shapeOf(constant), shapeOf(add), x.getAxis()))
          continue;
        int64_t channels = shapeOf(add)[x.getAxis()];
        std::vector<int64_t> values = readIntegers(elements);
        values.resize(channels, values.front());
        bias = rewriter.create<ConstantOp>(loc, makeIntegers(RankedTensorType::get({channels}, rewriter.getI32Type()), values));
        sum = value;
        break;
      }
    rewriter.replaceOpWithNewOp<RequantizeOp>(op, op.getType(), sum, bias, multipliers, x.getAxis(), op.getZeroPoints()[0])
        ->setLoc(loc);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Around quantize
//===----------------------------------------------------------------------===//

/// quantize(relu(x)) and quantize(clip(x)): quantize is monotonic, so the bounds can be applied after it, exactly; and not at
/// all where the 8-bit type ends before them.
struct ActivationAfterQuantize : OpRewritePattern<QuantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QuantizeOp op, PatternRewriter &rewriter) const override {
    Operation *activation = op.getX().getDefiningOp();
    if (!activation || !isa<ReluOp, ClipOp>(activation) || op.getScales().size() != 1)
      return failure();
    float lo = 0, hi = INFINITY;
    if (auto clip = dyn_cast<ClipOp>(activation)) {
      lo = clip.getMin().convertToFloat();
      hi = clip.getMax().convertToFloat();
    }
    float scale = op.getScales()[0];
    int32_t zeroPoint = op.getZeroPoints()[0], least = elementOf(op).isUnsignedInteger() ? 0 : -128, most = least + 255;
    auto quantized = [&](float x) {
      return int32_t(std::min(std::max(std::nearbyint(x / scale), float(least - zeroPoint)), float(most - zeroPoint))) +
             zeroPoint;
    };
    if (std::isnan(lo) || std::isnan(hi) || lo > hi)
      return failure();
    Location loc = fuseLocations({activation, op});
    Value y = rewriter.create<QuantizeOp>(loc, op.getType(), activation->getOperand(0), op.getScales(), op.getZeroPoints(),
                                          op.getAxis());
    if (quantized(lo) > least || quantized(hi) < most)
      y = rewriter.create<ClipOp>(loc, op.getType(), y, rewriter.getF32FloatAttr(quantized(lo)),
                                  rewriter.getF32FloatAttr(quantized(hi)));
    rewriter.replaceOp(op, y);
    return success();
  }
};

/// quantize(dequantize(q)) with the same parameters is q.
struct CancelQuantize : OpRewritePattern<QuantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QuantizeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<DequantizeOp>();
    if (!inner || inner.getX().getType() != op.getType() || inner.getScales() != op.getScales() ||
        inner.getZeroPoints() != op.getZeroPoints() || (op.getScales().size() > 1 && inner.getAxis() != op.getAxis()))
      return failure();
    rewriter.replaceOp(op, inner.getX());
    return success();
  }
};

/// quantize(concat(xs)): concat(quantize(x)), which moves bytes instead of floats.
struct QuantizeBeforeConcat : OpRewritePattern<QuantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QuantizeOp op, PatternRewriter &rewriter) const override {
    auto concat = op.getX().getDefiningOp<ConcatOp>();
    if (!concat || !concat->hasOneUse() || op.getScales().size() != 1)
      return failure();
    SmallVector<Value> inputs;
    for (Value input : concat.getInputs())
      inputs.push_back(rewriter.create<QuantizeOp>(op.getLoc(), tensorOf(input).clone(elementOf(op)), input, op.getScales(),
                                                   op.getZeroPoints(), op.getAxis()));
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), inputs, concat.getAxis())->setLoc(concat.getLoc());
    return success();
  }
};

/// quantize(dequantize(q) repeated along a dim), both with one scale: q repeated, which moves bytes instead of floats.
struct RepeatBytes : OpRewritePattern<QuantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QuantizeOp op, PatternRewriter &rewriter) const override {
    constexpr int64_t kMostTimes = 64;
    Operation *maker = op.getX().getDefiningOp();
    const std::optional<Repeat> repeat = isa_and_nonnull<MulOp>(maker) ? repeatOf(maker) : std::nullopt;
    auto x = repeat ? repeat->x.getDefiningOp<DequantizeOp>() : nullptr;
    if (!x || repeat->times > kMostTimes || op.getScales().size() != 1 || x.getScales() != op.getScales() ||
        x.getZeroPoints() != op.getZeroPoints() || elementOf(x.getX()) != elementOf(op))
      return failure();
    const SmallVector<Value> inputs(size_t(repeat->times), x.getX());
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), inputs, repeat->axis)->setLoc(fuseLocations({maker, op}));
    return success();
  }
};

/// quantize(average_pool(dequantize(x))) over the whole image: an integer sum.
struct GlobalAverageToInteger : OpRewritePattern<QuantizeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QuantizeOp op, PatternRewriter &rewriter) const override {
    auto pool = op.getX().getDefiningOp<AveragePoolOp>();
    DequantizeOp x = pool ? dequantizedTensor(pool.getX()) : nullptr;
    if (!x || elementOf(x.getX()) != elementOf(op) || op.getScales().size() != 1 || pool.getLayout() != "nchw" ||
        pool.getKernel() != shapeOf(x).drop_front(2) || llvm::any_of(pool.getPads(), [](int64_t pad) { return pad != 0; }))
      return failure();
    Location loc = fuseLocations({pool, x, op});
    rewriter
        .replaceOpWithNewOp<QLinearGlobalAveragePoolOp>(op, op.getType(), x.getX(), rewriter.getF32FloatAttr(x.getScales()[0]),
                                                        rewriter.getI32IntegerAttr(x.getZeroPoints()[0]),
                                                        rewriter.getF32FloatAttr(op.getScales()[0]),
                                                        rewriter.getI32IntegerAttr(op.getZeroPoints()[0]), pool.getLayoutAttr())
        ->setLoc(loc);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Below dequantize
//===----------------------------------------------------------------------===//

/// op(dequantize(q)) for an op that moves elements or takes their maximum: dequantize(op(q)).
struct MoveBelowDequantize : RewritePattern {
  MoveBelowDequantize(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<MaxPoolOp, ReshapeOp, TransposeOp, SliceOp, PadOp, ConcatOp>(op))
      return failure();
    SmallVector<Value> inputs;
    DequantizeOp first;
    for (Value operand : op->getOperands()) {
      auto dequantize = operand.getDefiningOp<DequantizeOp>();
      if (!dequantize || !isEightBit(elementOf(dequantize.getX())))
        return failure();
      if (!isPerTensor(dequantize) && !isa<TransposeOp>(op))
        return failure();
      if (first && (first.getScales() != dequantize.getScales() || first.getZeroPoints() != dequantize.getZeroPoints() ||
                    elementOf(first.getX()) != elementOf(dequantize.getX())))
        return failure();
      first = first ? first : dequantize;
      inputs.push_back(dequantize.getX());
    }
    int64_t axis = first.getAxis();
    if (auto transpose = dyn_cast<TransposeOp>(op); transpose && !isPerTensor(first))
      axis = inversePermutation(transpose.getPerm())[axis];
    NamedAttrList attributes(op->getAttrs());
    if (auto pad = dyn_cast<PadOp>(op)) {
      auto value = dyn_cast<FloatAttr>(cast<Attribute>(pad.getValue()));
      if (!value || !value.getValue().isZero())
        return failure();
      attributes.set(pad.getValueAttrName(), rewriter.getIntegerAttr(elementOf(first.getX()), first.getZeroPoints()[0]));
    }
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(inputs);
    state.addTypes(type.clone(elementOf(first.getX())));
    state.addAttributes(attributes);
    Value moved = rewriter.create(state)->getResult(0);
    rewriter.replaceOpWithNewOp<DequantizeOp>(op, type, moved, first.getScales(), first.getZeroPoints(), axis)
        ->setLoc(first.getLoc());
    return success();
  }
};

struct ConvertQdqPass : impl::ConvertQdqPassBase<ConvertQdqPass> {
  using ConvertQdqPassBase::ConvertQdqPassBase;
  ConvertQdqPass(const ConvertQdqPassOptions &options, RuleRecorder recorder)
      : ConvertQdqPassBase(options), recorder(std::move(recorder)) {}

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.addWithLabel<ConvToInteger, MatmulToInteger>({"integer-product"}, &getContext());
    patterns.addWithLabel<BiasToInteger>({"integer-bias"}, &getContext());
    patterns.addWithLabel<ActivationAfterQuantize>({"quantize-before-activation"}, &getContext());
    patterns.addWithLabel<CancelQuantize>({"quantize-of-dequantize"}, &getContext());
    patterns.addWithLabel<QuantizeBeforeConcat, RepeatBytes>({"quantize-before-move"}, &getContext());
    patterns.addWithLabel<GlobalAverageToInteger>({"integer-mean"}, &getContext());
    patterns.addWithLabel<MoveBelowDequantize>({"move-before-dequantize"}, &getContext());
    if (failed(rewriteToEnd(getOperation(), std::move(patterns), recorder)))
      return signalPassFailure();
    // Only now: an activation must have left the way, and a bias joined the sum.
    RewritePatternSet last(&getContext());
    if (!exact)
      last.addWithLabel<ToRequantize>({"requantize"}, &getContext());
    if (failed(rewriteToEnd(getOperation(), std::move(last), recorder)))
      signalPassFailure();
    recorder.finish();
  }

private:
  RuleRecorder recorder;
};

} // namespace

std::unique_ptr<Pass> createConvertQdqPass(const ConvertQdqPassOptions &options, const RuleRecorder &recorder) {
  return std::make_unique<ConvertQdqPass>(options, recorder);
}

} // namespace tw::graph
