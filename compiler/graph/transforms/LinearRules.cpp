//===- LinearRules.cpp - Constants through linear operators ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules of Rules.td that compute new weights and biases. They are exact in
// real arithmetic and round differently.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "compiler/graph/transforms/Rules.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace tw::graph {

#define GET_RULE_FUNCTIONS
#include "compiler/graph/transforms/RuleTable.inc"

namespace {

/// `value op constant`, either way round.
template <typename OpT> struct WithConstant {
  Value value, constant;

  static std::optional<WithConstant> of(Operation *op) {
    if (!isa_and_nonnull<OpT>(op) || !isa<FloatType>(elementOf(op->getResult(0))))
      return std::nullopt;
    for (unsigned i : {0, 1})
      if (constantOf(op->getOperand(i)) && !constantOf(op->getOperand(1 - i)))
        return WithConstant{op->getOperand(1 - i), op->getOperand(i)};
    return std::nullopt;
  }
};

Value reshaped(PatternRewriter &rewriter, Value constant, ArrayRef<int64_t> shape) {
  return rewriter.create<ConstantOp>(constant.getLoc(), reshapeConstant(constantOf(constant), shape));
}

/// `constant` as one number for each of `channels` along dim `axis` of a tensor of `rank` dims, or one number for all; null if it changes
/// along another dim. The shape of the result is [1] or [channels].
Value asVector(PatternRewriter &rewriter, Value constant, size_t rank, size_t axis, int64_t channels) {
  ArrayRef<int64_t> shape = shapeOf(constant);
  if (shape.size() > rank)
    return {};
  for (auto [i, dim] : llvm::enumerate(padRank(shape, rank)))
    if (dim != 1 && (i != axis || dim != channels))
      return {};
  return reshaped(rewriter, constant, {tensorOf(constant).getNumElements()});
}

/// The least and the largest magnitude of floats, without zeros.
struct Magnitudes {
  float least = std::numeric_limits<float>::infinity(), most = 0;

  explicit Magnitudes(Value constant) {
    for (float x : readFloats(constantOf(constant)))
      if (x != 0) { // a NaN is larger than all
        least = std::fmin(least, std::fabs(x));
        most = std::fabs(x) > most || std::isnan(x) ? std::fabs(x) : most;
      }
  }
};

/// The largest finite and the least normal number of a type.
float largestOf(Type type) { return APFloat::getLargest(cast<FloatType>(type).getFloatSemantics()).convertToDouble(); }
float leastNormalOf(Type type) {
  return APFloat::getSmallestNormalized(cast<FloatType>(type).getFloatSemantics()).convertToDouble();
}

/// Whether sums of an element of `a` and one of `b` are finite numbers of their type.
bool haveSums(Value a, Value b) { return double(Magnitudes(a).most) + Magnitudes(b).most <= largestOf(elementOf(a)); }
/// The same of products; `each`: none of them is so small that it loses bits, else the largest is not.
bool haveProducts(Value a, Value b, bool each) {
  const Magnitudes x(a), y(b);
  const double most = double(x.most) * y.most, least = each ? double(x.least) * y.least : most;
  return most <= largestOf(elementOf(a)) && (most == 0 || least >= leastNormalOf(elementOf(a)));
}

/// The constant `a op b`.
template <typename OpT> Value evaluated(PatternRewriter &rewriter, Location loc, RankedTensorType type, Value a, Value b) {
  auto op = rewriter.create<OpT>(loc, type, a, b);
  Value result = rewriter.create<ConstantOp>(loc, evaluate(op));
  rewriter.eraseOp(op);
  return result;
}

/// conv(x, w, bias) * c -> conv(x, w * c, bias * c) and conv(x, w, bias) + c -> conv(x, w, bias + c), c of channels.
template <typename OpT> struct IntoConv : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    auto operands = WithConstant<OpT>::of(op);
    auto conv = operands ? operands->value.template getDefiningOp<ConvOp>() : ConvOp();
    if (!conv || !conv->hasOneUse() || conv.getLayout() != "nchw" || conv.getType() != op.getType() ||
        !constantOf(conv.getW()) || (conv.getBias() && !constantOf(conv.getBias())))
      return failure();
    constexpr bool scales = std::is_same_v<OpT, MulOp>;
    if (scales ? !haveProducts(conv.getW(), operands->constant, /*each=*/false)
               : conv.getBias() && !haveSums(conv.getBias(), operands->constant))
      return failure();
    if (scales && conv.getBias() && !haveProducts(conv.getBias(), operands->constant, /*each=*/false))
      return failure();
    const int64_t channels = shapeOf(conv)[1];
    Value c = asVector(rewriter, operands->constant, 4, 1, channels);
    if (!c)
      return failure();
    Location loc = rewriter.getFusedLoc({conv.getLoc(), op.getLoc()});
    const auto vector = RankedTensorType::get({channels}, elementOf(op));
    Value w = conv.getW(), bias = conv.getBias();
    if (scales) {
      w = evaluated<MulOp>(rewriter, loc, tensorOf(w), w, reshaped(rewriter, c, {shapeOf(c)[0], 1, 1, 1}));
      if (bias)
        bias = evaluated<MulOp>(rewriter, loc, vector, bias, c);
    } else {
      if (!bias)
        bias = rewriter.create<ConstantOp>(loc, makeFloats(vector, std::vector<float>(size_t(channels), 0)));
      bias = evaluated<AddOp>(rewriter, loc, vector, bias, c);
    }
    rewriter
        .replaceOpWithNewOp<ConvOp>(op, op.getType(), conv.getX(), w, bias, conv.getStrides(), conv.getPads(),
                                    conv.getDilations(), conv.getGroup(), conv.getLayout())
        ->setLoc(loc);
    rewriter.eraseOp(conv);
    return success();
  }
};

/// matmul(a, b) * c -> matmul(a, b * c), b a constant and c of its columns.
struct IntoMatmul : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op, PatternRewriter &rewriter) const override {
    auto operands = WithConstant<MulOp>::of(op);
    auto matmul = operands ? operands->value.getDefiningOp<MatmulOp>() : MatmulOp();
    if (!matmul || !matmul->hasOneUse() || matmul.getType() != op.getType() || !constantOf(matmul.getB()) ||
        shapeOf(matmul.getB()).size() < 2 || !haveProducts(matmul.getB(), operands->constant, /*each=*/false))
      return failure();
    const size_t rank = shapeOf(op).size();
    Value c = asVector(rewriter, operands->constant, rank, rank - 1, shapeOf(matmul.getB()).back());
    if (!c)
      return failure();
    Location loc = rewriter.getFusedLoc({matmul.getLoc(), op.getLoc()});
    Value b = evaluated<MulOp>(rewriter, loc, tensorOf(matmul.getB()), matmul.getB(), c);
    rewriter.replaceOpWithNewOp<MatmulOp>(op, op.getType(), matmul.getA(), b)->setLoc(loc);
    rewriter.eraseOp(matmul);
    return success();
  }
};

/// (a x v + b) x w -> a x (v x w) + b x w, v, b and w constants, where that takes fewer multiplications.
struct ProductChainWithBias : OpRewritePattern<MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatmulOp op, PatternRewriter &rewriter) const override {
    Operation *sum = op.getA().getDefiningOp();
    auto biased = WithConstant<AddOp>::of(sum);
    auto inner = biased ? biased->value.getDefiningOp<MatmulOp>() : MatmulOp();
    Value v = inner ? inner.getB() : Value(), w = op.getB(), bias = biased ? biased->constant : Value();
    if (!inner || !sum->hasOneUse() || !inner->hasOneUse() || inner.getType() != op.getA().getType() || !constantOf(v) ||
        !constantOf(w) || constantOf(inner.getA()) || shapeOf(v).size() != 2 || shapeOf(w).size() != 2 ||
        shapeOf(inner.getA()).size() < 2)
      return failure();
    const int64_t k = shapeOf(v)[0], n = shapeOf(v)[1], p = shapeOf(w)[1];
    if (k * n * p > kMostFolded || k * p >= k * n + n * p || tensorOf(bias).getNumElements() != n || shapeOf(bias).empty() ||
        shapeOf(bias).back() != n)
      return failure();
    Location loc = fuseLocations({inner, sum, op});
    const Type element = elementOf(op);
    Value weights = rewriter.create<MatmulOp>(loc, RankedTensorType::get({k, p}, element), v, w);
    Value row = evaluated<MatmulOp>(rewriter, loc, RankedTensorType::get({1, p}, element), reshaped(rewriter, bias, {1, n}), w);
    Value product = rewriter.create<MatmulOp>(loc, op.getType(), inner.getA(), weights);
    Value vector = reshaped(rewriter, row, {p}); // constants-together sees it
    rewriter.replaceOpWithNewOp<AddOp>(op, op.getType(), product, vector)->setLoc(loc);
    return success();
  }
};

/// (x op c) op d -> x op (c op d), for sums and for products.
template <typename OpT> struct Together : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    auto outer = WithConstant<OpT>::of(op);
    Operation *first = outer ? outer->value.getDefiningOp() : nullptr;
    auto inner = WithConstant<OpT>::of(first);
    // The constants together are no larger than one of them, and x keeps its shape until the end.
    if (!inner || !first->hasOneUse() || inner->value.getType() != op.getType())
      return failure();
    if (std::is_same_v<OpT, MulOp> ? !haveProducts(inner->constant, outer->constant, /*each=*/true)
                                   : !haveSums(inner->constant, outer->constant))
      return failure();
    const size_t rank = std::max(shapeOf(inner->constant).size(), shapeOf(outer->constant).size());
    SmallVector<int64_t> shape;
    for (auto [a, b] : llvm::zip(padRank(shapeOf(inner->constant), rank), padRank(shapeOf(outer->constant), rank)))
      shape.push_back(std::max(a, b));
    const auto type = RankedTensorType::get(shape, elementOf(op));
    if (type.getNumElements() >
        std::max(tensorOf(inner->constant).getNumElements(), tensorOf(outer->constant).getNumElements()))
      return failure();
    Location loc = rewriter.getFusedLoc({first->getLoc(), op.getLoc()});
    Value constant = evaluated<OpT>(rewriter, loc, type, inner->constant, outer->constant);
    rewriter.replaceOpWithNewOp<OpT>(op, op.getType(), inner->value, constant)->setLoc(loc);
    rewriter.eraseOp(first);
    return success();
  }
};

/// y = x * factor[c] + offset[c].
struct Affine {
  std::vector<float> factor, offset;
};

std::optional<Affine> affineOf(BatchNormOp op) {
  std::vector<float> parts[4];
  Value operands[] = {op.getScale(), op.getB(), op.getMean(), op.getVar()};
  for (int i = 0; i < 4; ++i) {
    ElementsAttr elements = constantOf(operands[i]);
    if (!elements)
      return std::nullopt;
    parts[i] = readFloats(elements);
  }
  Affine affine;
  // In doubles: the factors multiply every weight, so their error would show in every output.
  for (size_t c = 0; c < parts[0].size(); ++c) {
    double factor = parts[0][c] / std::sqrt(double(parts[3][c]) + op.getEpsilon().convertToFloat());
    affine.factor.push_back(float(factor));
    affine.offset.push_back(float(parts[1][c] - parts[2][c] * factor));
  }
  return affine;
}

/// batch_norm(conv(x, w, bias)) -> conv(x, w * factor, bias * factor + offset); of one dim, whose result is reshaped, too.
struct BatchNormIntoConv : OpRewritePattern<BatchNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BatchNormOp op, PatternRewriter &rewriter) const override {
    auto reshape = op.getX().getDefiningOp<ReshapeOp>();
    if (reshape && (!reshape->hasOneUse() || shapeOf(reshape.getX()).take_front(2) != shapeOf(op).take_front(2)))
      return failure();
    auto conv = (reshape ? reshape.getX() : op.getX()).getDefiningOp<ConvOp>();
    if (!conv || !conv->hasOneUse() || conv.getLayout() != "nchw")
      return failure();
    ElementsAttr weights = constantOf(conv.getW()), bias = conv.getBias() ? constantOf(conv.getBias()) : nullptr;
    std::optional<Affine> affine = affineOf(op);
    if (!weights || !affine || (conv.getBias() && !bias))
      return failure();
    std::vector<float> w = readFloats(weights), b(affine->factor.size(), 0.0f);
    if (bias)
      b = readFloats(bias);
    size_t perChannel = w.size() / b.size();
    for (size_t c = 0; c < b.size(); ++c) {
      for (size_t i = 0; i < perChannel; ++i)
        w[c * perChannel + i] *= affine->factor[c];
      b[c] = b[c] * affine->factor[c] + affine->offset[c];
    }
    const double most = largestOf(elementOf(op));
    auto isFinite = [&](float x) { return std::fabs(x) <= most; };
    if (!llvm::all_of(w, isFinite) || !llvm::all_of(b, isFinite))
      return failure();
    Location loc = rewriter.getFusedLoc({conv.getLoc(), op.getLoc()});
    auto biasType = RankedTensorType::get({int64_t(b.size())}, elementOf(op));
    Value newWeights = rewriter.create<ConstantOp>(loc, makeFloats(cast<RankedTensorType>(weights.getType()), w));
    Value newBias = rewriter.create<ConstantOp>(loc, makeFloats(biasType, b));
    auto fused = rewriter.create<ConvOp>(loc, conv.getType(), conv.getX(), newWeights, newBias, conv.getStrides(),
                                         conv.getPads(), conv.getDilations(), conv.getGroup(), conv.getLayout());
    rewriter.replaceOp(op, createReshape(rewriter, loc, fused, shapeOf(op)));
    if (reshape)
      rewriter.eraseOp(reshape);
    rewriter.eraseOp(conv);
    return success();
  }
};

/// batch_norm(x) -> x * factor + offset, the constants shaped to broadcast along dim 1.
struct BatchNormToScale : OpRewritePattern<BatchNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(BatchNormOp op, PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getType());
    SmallVector<int64_t> shape(type.getRank() - 1, 1);
    shape[0] = type.getDimSize(1);
    auto parameterType = RankedTensorType::get(shape, type.getElementType());
    Value factor, offset;
    if (std::optional<Affine> affine = affineOf(op)) {
      factor = rewriter.create<ConstantOp>(op.getLoc(), makeFloats(parameterType, affine->factor));
      offset = rewriter.create<ConstantOp>(op.getLoc(), makeFloats(parameterType, affine->offset));
    } else {
      // Statistics computed at run time.
      Location loc = op.getLoc();
      Type vector = op.getScale().getType();
      Value epsilon = rewriter.create<ConstantOp>(
          loc, makeFloats(RankedTensorType::get({1}, type.getElementType()), {op.getEpsilon().convertToFloat()}));
      Value variance = rewriter.create<AddOp>(loc, vector, op.getVar(), epsilon);
      Value deviation = rewriter.create<SqrtOp>(loc, vector, variance);
      Value factors = rewriter.create<DivOp>(loc, vector, op.getScale(), deviation);
      Value shift = rewriter.create<MulOp>(loc, vector, op.getMean(), factors);
      Value offsets = rewriter.create<SubOp>(loc, vector, op.getB(), shift);
      factor = rewriter.create<ReshapeOp>(loc, parameterType, factors);
      offset = rewriter.create<ReshapeOp>(loc, parameterType, offsets);
    }
    Value scaled = rewriter.create<MulOp>(op.getLoc(), type, op.getX(), factor);
    rewriter.replaceOpWithNewOp<AddOp>(op, type, scaled, offset);
    return success();
  }
};

} // namespace

void addBatchNormToScale(RewritePatternSet &patterns) { patterns.add<BatchNormToScale>(patterns.getContext()); }
void addBatchNormIntoConv(RewritePatternSet &patterns) { patterns.add<BatchNormIntoConv>(patterns.getContext()); }
void addScaleIntoConv(RewritePatternSet &patterns) { patterns.add<IntoConv<MulOp>>(patterns.getContext()); }
void addBiasIntoConv(RewritePatternSet &patterns) { patterns.add<IntoConv<AddOp>>(patterns.getContext()); }
void addScaleIntoProduct(RewritePatternSet &patterns) { patterns.add<IntoMatmul>(patterns.getContext()); }
void addProductChainWithBias(RewritePatternSet &patterns) { patterns.add<ProductChainWithBias>(patterns.getContext()); }
void addConstantsTogether(RewritePatternSet &patterns) {
  patterns.add<Together<MulOp>, Together<AddOp>>(patterns.getContext());
}

} // namespace tw::graph
