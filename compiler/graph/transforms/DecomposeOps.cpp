//===- DecomposeOps.cpp - Fewer forms for the kernels ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/GroupedProducts.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>
#include <numeric>

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_DECOMPOSEOPSPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

int64_t product(ArrayRef<int64_t> dims) { return std::accumulate(dims.begin(), dims.end(), int64_t(1), std::multiplies<>()); }

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// max and mean over the image of a rank-4 tensor are pools.
struct ReduceToPool : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> x = shapeOf(op.getX());
    if (x.size() != 4 || op.getAxes() != ArrayRef<int64_t>{2, 3} || op.getKind() == "sum")
      return failure();
    SmallVector<int64_t> ones{1, 1}, none{0, 0, 0, 0}, kernel(x.drop_front(2));
    auto type = RankedTensorType::get({x[0], x[1], 1, 1}, elementOf(op.getX()));
    Value y;
    if (op.getKind() == "max")
      y = rewriter.create<MaxPoolOp>(op.getLoc(), type, op.getX(), kernel, ones, none, ones, "nchw");
    else if (isa<FloatType>(type.getElementType()))
      y = rewriter.create<AveragePoolOp>(op.getLoc(), type, op.getX(), kernel, ones, none, false, "nchw");
    else
      return failure();
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), y, shapeOf(op)));
    return success();
  }
};

bool isCanonical(ReduceOp op) {
  size_t rank = shapeOf(op.getX()).size();
  return !op.getKeepdims() && op.getAxes() == ArrayRef<int64_t>{1} && (rank == 2 || rank == 3);
}

/// The transpose of `x` by `perm`, of one before it too; a reshape where only dims of size 1 move.
Value transposed(PatternRewriter &rewriter, Location loc, Value x, SmallVector<int64_t> perm) {
  SmallVector<int64_t> shape;
  for (int64_t dim : perm)
    shape.push_back(shapeOf(x)[size_t(dim)]);
  if (auto inner = x.getDefiningOp<TransposeOp>()) {
    for (int64_t &dim : perm)
      dim = inner.getPerm()[size_t(dim)];
    x = inner.getX();
  }
  return movesOnlyUnitDims(shapeOf(x), perm) ? createReshape(rewriter, loc, x, shape) : createTranspose(rewriter, loc, x, perm);
}

/// Any reduction: over dim 1 of [outer, reduced] or [outer, reduced, inner].
struct CanonicalizeReduce : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    if (isCanonical(op))
      return failure();
    Location loc = op.getLoc();
    Value x = op.getX();
    ArrayRef<int64_t> axes = op.getAxes();
    if (axes.empty()) {
      rewriter.replaceOp(op, createReshape(rewriter, loc, x, shapeOf(op)));
      return success();
    }
    int64_t rank = shapeOf(x).size(), first = axes.front();
    if (axes.back() - first + 1 != int64_t(axes.size())) {
      SmallVector<int64_t> perm;
      for (int64_t dim = 0; dim < rank; ++dim)
        if (!llvm::is_contained(axes, dim))
          perm.push_back(dim);
      first = perm.size();
      perm.append(axes.begin(), axes.end());
      x = transposed(rewriter, loc, x, perm);
    }
    ArrayRef<int64_t> shape = shapeOf(x);
    int64_t outer = product(shape.take_front(first)), reduced = product(shape.slice(first, axes.size())),
            inner = product(shape.drop_front(first + axes.size()));
    SmallVector<int64_t> from{outer, reduced}, to{outer};
    if (inner != 1) {
      from.push_back(inner);
      to.push_back(inner);
    }
    Value flat = createReshape(rewriter, loc, x, from);
    Value y = rewriter.create<ReduceOp>(loc, RankedTensorType::get(to, elementOf(x)), flat, op.getKind(), ArrayRef<int64_t>{1},
                                        false);
    rewriter.replaceOp(op, createReshape(rewriter, loc, y, shapeOf(op)));
    return success();
  }
};

/// The mean of rows: sum and division, the division being an op like any other that follows.
struct DecomposeRowMean : OpRewritePattern<ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReduceOp op, PatternRewriter &rewriter) const override {
    if (!isCanonical(op) || shapeOf(op.getX()).size() != 2 || op.getKind() != "mean")
      return failure();
    int64_t count = shapeOf(op.getX())[1];
    auto type = RankedTensorType::get({1}, elementOf(op));
    Value sum = rewriter.create<ReduceOp>(op.getLoc(), op.getType(), op.getX(), "sum", op.getAxes(), false);
    Value divisor = rewriter.create<ConstantOp>(
        op.getLoc(), isa<FloatType>(type.getElementType()) ? makeFloats(type, {float(count)}) : makeIntegers(type, {count}));
    rewriter.replaceOpWithNewOp<DivOp>(op, op.getType(), sum, divisor);
    return success();
  }
};

/// layer_norm: of the rows of a matrix.
struct CanonicalizeLayerNorm : OpRewritePattern<LayerNormOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LayerNormOp op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = shapeOf(op.getX());
    if (shape.size() == 2 && op.getAxis() == 1)
      return failure();
    SmallVector<int64_t> rows{product(shape.take_front(op.getAxis())), product(shape.drop_front(op.getAxis()))};
    Value flat = createReshape(rewriter, op.getLoc(), op.getX(), rows);
    Value y = rewriter.create<LayerNormOp>(op.getLoc(), flat.getType(), flat, 1, op.getEpsilon());
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), y, shape));
    return success();
  }
};

/// Whether `value` is made of a matrix product, element by element.
bool isMadeOfProduct(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<MatmulOp, MatmulIntegerOp>(op))
      return true;
    if (!isElementwise(op) && !isa<ReshapeOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

/// softmax and qlinear_softmax: along dim 1 of [outer, n]; softmax of products that have weights of their own for each batch,
/// which it may join, along dim 2 of [batch, outer, n].
template <typename OpT> struct CanonicalizeSoftmax : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> shape = shapeOf(op.getX());
    int64_t rank = shape.size(), axis = op.getAxis();
    Location loc = op.getLoc();
    Value x = op.getX();
    bool flattens = false, keepsBatch = false;
    if constexpr (std::is_same_v<OpT, QLinearSoftmaxOp>)
      flattens = op.getOpset() < 13;
    else
      keepsBatch = rank > 2 && axis == rank - 1 && isMadeOfProduct(x);
    const int64_t wanted = keepsBatch ? 3 : 2;
    if (rank == wanted && axis == wanted - 1)
      return failure();
    // With the axis last, or all dims from it on flattened, the vectors are contiguous.
    SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    if (!flattens) // as channels last have it, where the axis is that of channels
      std::rotate(perm.begin() + axis, perm.begin() + axis + 1, perm.end());
    if (!llvm::is_sorted(perm))
      x = createTranspose(rewriter, loc, x, perm);
    SmallVector<int64_t> moved(shapeOf(x));
    int64_t length = flattens ? product(ArrayRef<int64_t>(moved).drop_front(axis)) : moved.back();
    SmallVector<int64_t> rows{product(moved) / length, length};
    if (keepsBatch)
      rows = {rows[0] / moved[size_t(rank - 2)], moved[size_t(rank - 2)], length};
    Value flat = createReshape(rewriter, loc, x, rows);
    IRMapping mapping;
    mapping.map(op.getX(), flat);
    auto y = cast<OpT>(rewriter.clone(*op, mapping));
    y->getResult(0).setType(flat.getType());
    y.setAxis(wanted - 1);
    Value result = createReshape(rewriter, loc, y, moved);
    if (!llvm::is_sorted(perm))
      result = createTranspose(rewriter, loc, result, inversePermutation(perm));
    rewriter.replaceOp(op, result);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

/// Vectors become matrices, and batch dims of a in front of a plain matrix b become rows.
template <typename OpT> struct CanonicalizeMatmul : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    SmallVector<int64_t> a(shapeOf(op.getA())), b(shapeOf(op.getB()));
    if (a.size() == 1)
      a.insert(a.begin(), 1);
    if (b.size() == 1)
      b.push_back(1);
    // Leading dims of 1 mean nothing; of a's, the others join the rows where b has none.
    while (b.size() > 2 && b.front() == 1)
      b.erase(b.begin());
    if (b.size() == 2 && a.size() > 2) {
      int64_t columns = a.back();
      a = {product(a) / columns, columns};
      if (columns == 0)
        return failure();
    }
    while (a.size() > 2 && a.front() == 1 && a.size() > b.size())
      a.erase(a.begin());
    // [B1, B2, m, k] x [B1, B2, k, n]: one batch dim.
    if (a.size() == b.size() && a.size() > 3 && ArrayRef<int64_t>(a).drop_back(2) == ArrayRef<int64_t>(b).drop_back(2)) {
      int64_t batch = product(ArrayRef<int64_t>(a).drop_back(2));
      a = {batch, a[a.size() - 2], a.back()};
      b = {batch, b[b.size() - 2], b.back()};
    }
    if (shapeOf(op.getA()) == ArrayRef<int64_t>(a) && shapeOf(op.getB()) == ArrayRef<int64_t>(b))
      return failure();
    SmallVector<int64_t> shape;
    for (size_t i = 0, rank = std::max(a.size(), b.size()) - 2; i < rank; ++i)
      shape.push_back(std::max(padRank(a, rank + 2)[i], padRank(b, rank + 2)[i]));
    shape.push_back(a[a.size() - 2]);
    shape.push_back(b.back());
    Location loc = op.getLoc();
    IRMapping mapping;
    mapping.map(op.getA(), createReshape(rewriter, loc, op.getA(), a));
    mapping.map(op.getB(), createReshape(rewriter, loc, op.getB(), b));
    Operation *flat = rewriter.clone(*op, mapping);
    flat->getResult(0).setType(RankedTensorType::get(shape, elementOf(op.getY())));
    rewriter.replaceOp(op, createReshape(rewriter, loc, flat->getResult(0), shapeOf(op.getY())));
    return success();
  }
};

/// Constant weights with a zero point per channel: subtracted here where the differences fit 8 bits.
template <typename OpT> struct SubtractWeightZeroPoints : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    constexpr bool isConv = std::is_same_v<OpT, ConvIntegerOp>;
    ArrayRef<int32_t> zeroPoints;
    Value weights;
    int64_t axis;
    if constexpr (isConv) {
      zeroPoints = op.getWZeroPoints(), weights = op.getW();
      axis = op.getLayout() == "nhwc" ? 3 : 0;
    } else {
      zeroPoints = op.getBZeroPoints(), weights = op.getB();
      axis = shapeOf(weights).size() - 1;
    }
    ElementsAttr elements = constantOf(weights);
    bool equal = llvm::all_equal(zeroPoints);
    if (zeroPoints.size() == 1 || (!elements && !equal))
      return failure();
    SmallVector<int32_t> one{0};
    ElementsAttr shifted = elements;
    if (equal) {
      one[0] = zeroPoints.front();
    } else {
      std::vector<int64_t> values = readIntegers(elements);
      int64_t stride = rowMajorStrides(shapeOf(weights))[axis];
      for (size_t i = 0; i < values.size(); ++i)
        values[i] -= zeroPoints[i / stride % zeroPoints.size()];
      auto [least, most] = std::minmax_element(values.begin(), values.end());
      Type type;
      if (*least >= -128 && *most <= 127)
        type = rewriter.getI8Type();
      else if (*least >= 0 && *most <= 255)
        type = rewriter.getIntegerType(8, false);
      else
        return failure();
      shifted = makeIntegers(RankedTensorType::get(shapeOf(weights), type), values);
    }
    Value constant = equal ? weights : rewriter.create<ConstantOp>(weights.getLoc(), shifted).getResult();
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperand(1, constant);
      if constexpr (isConv)
        op.setWZeroPoints(one);
      else
        op.setBZeroPoints(one);
    });
    return success();
  }
};

/// Zero points per channel that cannot be subtracted here: x * (w - z) = x * w - x * z, where z has the shape of w.
template <typename OpT> struct SplitWeightZeroPoints : OpRewritePattern<OpT> {
  SplitWeightZeroPoints(MLIRContext *context) : OpRewritePattern<OpT>(context, /*benefit=*/0) {}
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    constexpr bool isConv = std::is_same_v<OpT, ConvIntegerOp>;
    SmallVector<int32_t> zeroPoints;
    int64_t axis = 0;
    Value weights = op->getOperand(1);
    if constexpr (isConv) {
      llvm::append_range(zeroPoints, op.getWZeroPoints());
      axis = op.getLayout() == "nhwc" ? 3 : 0;
    } else {
      llvm::append_range(zeroPoints, op.getBZeroPoints());
      axis = shapeOf(weights).size() - 1;
    }
    if (llvm::all_equal(zeroPoints))
      return failure();
    std::vector<int64_t> values(size_t(tensorOf(weights).getNumElements()));
    int64_t stride = rowMajorStrides(shapeOf(weights))[axis];
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = zeroPoints[i / stride % zeroPoints.size()];
    Value spread = rewriter.create<ConstantOp>(weights.getLoc(), makeIntegers(tensorOf(weights), values));
    auto withWeights = [&](Value w) {
      auto part = cast<OpT>(rewriter.clone(*op));
      part->setOperand(1, w);
      if constexpr (isConv)
        part.setWZeroPoints({0});
      else
        part.setBZeroPoints({0});
      return part->getResult(0);
    };
    Value whole = withWeights(weights), part = withWeights(spread);
    rewriter.replaceOpWithNewOp<SubOp>(op, op->getResult(0).getType(), whole, part);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

/// A pad around the image of a convolution is the convolution's own, if what it pads with contributes nothing: zero, or the zero point.
template <typename ConvT> struct PadIntoConv : OpRewritePattern<ConvT> {
  using OpRewritePattern<ConvT>::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvT op, PatternRewriter &rewriter) const override {
    auto pad = op.getX().template getDefiningOp<PadOp>();
    if (!pad || !contributesNothing(op, cast<Attribute>(pad.getValue())))
      return failure();
    const size_t height = op.getLayout() == "nhwc" ? 1 : 2, channels = op.getLayout() == "nhwc" ? 3 : 1;
    ArrayRef<int64_t> low = pad.getLow(), high = pad.getHigh(), own = op.getPads();
    if (low[0] || high[0] || low[channels] || high[channels])
      return failure();
    const int64_t pads[] = {own[0] + low[height], own[1] + low[height + 1], own[2] + high[height], own[3] + high[height + 1]};
    if (llvm::any_of(pads, [](int64_t count) { return count < 0; }))
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperand(0, pad.getX());
      op.setPads(pads);
      op->setLoc(fuseLocations({op, pad}));
    });
    return success();
  }

private:
  static bool contributesNothing(ConvOp, Attribute value) {
    auto number = dyn_cast<FloatAttr>(value);
    return number && number.getValue().isZero();
  }
  static bool contributesNothing(ConvIntegerOp op, Attribute value) {
    auto number = dyn_cast<IntegerAttr>(value);
    const bool isUnsigned = elementOf(op.getX()).isUnsignedInteger();
    return number && (isUnsigned ? int64_t(number.getValue().getZExtValue()) : number.getValue().getSExtValue()) ==
                         int64_t(int32_t(op.getXZeroPoint()));
  }
};

/// slice(slice(x)).
struct MergeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<SliceOp>();
    if (!inner || !inner->hasOneUse())
      return failure();
    SmallVector<int64_t> starts, steps;
    for (auto [start, step, innerStart, innerStep] :
         llvm::zip(op.getStarts(), op.getSteps(), inner.getStarts(), inner.getSteps())) {
      starts.push_back(innerStart + start * innerStep);
      steps.push_back(step * innerStep);
    }
    Location loc = fuseLocations({inner, op});
    rewriter.replaceOpWithNewOp<SliceOp>(op, op.getType(), inner.getX(), starts, steps)->setLoc(loc);
    return success();
  }
};

/// An op on each element of reshape(x), x being the result of a computation: the reshape behind it, so that both can share a
/// kernel.
struct SinkReshape : RewritePattern {
  SinkReshape(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op))
      return failure();
    auto result = cast<RankedTensorType>(op->getResult(0).getType());
    for (Value operand : op->getOperands()) {
      auto reshape = operand.getDefiningOp<ReshapeOp>();
      // More dims than a kernel walks are no gain, and a reshape used elsewhere stays anyway.
      if (!reshape || shapeOf(reshape) != result.getShape() || shapeOf(reshape.getX()).size() > 4)
        continue;
      Operation *producer = reshape.getX().getDefiningOp();
      if (!producer || !llvm::all_of(reshape.getX().getUsers(), [&](Operation *user) { return usedAlike(user, reshape); }) ||
          isa<ConstantOp, ReshapeOp, TransposeOp, ConcatOp, SliceOp, PadOp, FallbackOp>(producer))
        continue;
      if (succeeded(sink(op, reshape, rewriter)))
        return success();
    }
    return failure();
  }

private:
  /// Whether `user` reads what `reshape` reshapes in a way that sinking keeps in one kernel: through the same reshape,
  /// in ops element by element, or in one that has been moved already.
  static bool usedAlike(Operation *user, ReshapeOp reshape) {
    auto other = dyn_cast<ReshapeOp>(user);
    if (!other)
      return isElementwise(user) && shapeOf(user->getResult(0)) == shapeOf(reshape.getX());
    return shapeOf(other) == shapeOf(reshape) && llvm::all_of(other->getUsers(), [&](Operation *op) {
             return isElementwise(op) && shapeOf(op->getResult(0)) == shapeOf(reshape);
           });
  }

  /// Whether an operand comes in `shape` without a reshape that would want to sink the other way. That of a dequantize
  /// moves below it later, so it may, but for one that sinks from a dequantize itself.
  static bool reshapesFor(Value operand, ArrayRef<int64_t> shape, ReshapeOp sinking) {
    if (auto reshape = operand.getDefiningOp<ReshapeOp>())
      return shapeOf(reshape.getX()) == shape;
    auto dequantize = operand.getDefiningOp<DequantizeOp>();
    if (dequantize && !hasChannelAxis(dequantize))
      return !sinking.getX().getDefiningOp<DequantizeOp>();
    return !operand.getDefiningOp() || constantOf(operand);
  }

  static LogicalResult sink(Operation *op, ReshapeOp reshape, PatternRewriter &rewriter) {
    ArrayRef<int64_t> from = shapeOf(reshape.getX()), to = shapeOf(reshape);
    bool keepsLast = !from.empty() && !to.empty() && from.back() == to.back();
    NamedAttrList attributes(op->getAttrs());
    if (hasChannelAxis(op)) {
      if (!keepsLast || op->getAttrOfType<IntegerAttr>("axis").getInt() != int64_t(to.size()) - 1)
        return failure();
      attributes.set("axis", rewriter.getI64IntegerAttr(from.size() - 1));
    }
    SmallVector<Value> operands;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      int64_t elements = tensorOf(operand).getNumElements();
      if (operand == reshape.getResult())
        operands.push_back(reshape.getX());
      else if ((i == 1 && isa<RequantizeOp>(op)) || elements == 1)
        operands.push_back(elements == 1 ? createReshape(rewriter, reshape.getLoc(), operand, {1}) : operand);
      else if (shapeOf(operand) == to && reshapesFor(operand, from, reshape))
        operands.push_back(createReshape(rewriter, reshape.getLoc(), operand, from));
      else if (keepsLast && shapeOf(operand).back() == elements)
        operands.push_back(createReshape(rewriter, reshape.getLoc(), operand, {elements}));
      else
        return failure();
    }
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(operands);
    state.addTypes(cast<RankedTensorType>(op->getResult(0).getType()).clone(from));
    state.addAttributes(attributes);
    Value moved = rewriter.create(state)->getResult(0);
    rewriter.replaceOp(op, createReshape(rewriter, reshape.getLoc(), moved, to));
    return success();
  }
};

/// concat of one tensor is handled as an identity; concat of concats along one axis is one.
struct FlattenConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    SmallVector<Value> inputs;
    SmallVector<Operation *> ops{op};
    for (Value input : op.getInputs()) {
      auto inner = input.getDefiningOp<ConcatOp>();
      if (inner && inner->hasOneUse() && inner.getAxis() == op.getAxis()) {
        llvm::append_range(inputs, inner.getInputs());
        ops.push_back(inner);
      } else {
        inputs.push_back(input);
      }
    }
    if (ops.size() == 1)
      return failure();
    Location loc = fuseLocations(ops);
    rewriter.replaceOpWithNewOp<ConcatOp>(op, op.getType(), inputs, op.getAxis())->setLoc(loc);
    return success();
  }
};

/// concat of one tensor with constants of one number before and behind it: a padding.
struct ConcatToPad : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op, PatternRewriter &rewriter) const override {
    Value x;
    Attribute value;
    SmallVector<int64_t> low(shapeOf(op).size(), 0), high = low;
    for (Value input : op.getInputs()) {
      auto constant = dyn_cast_or_null<DenseElementsAttr>(constantOf(input));
      if (!constantOf(input)) {
        if (x)
          return failure();
        x = input;
        continue;
      }
      if (!constant || !constant.isSplat() || (value && value != constant.getSplatValue<Attribute>()))
        return failure();
      value = constant.getSplatValue<Attribute>();
      (x ? high : low)[op.getAxis()] += shapeOf(input)[op.getAxis()];
    }
    auto typed = dyn_cast_or_null<TypedAttr>(value);
    if (!x || !typed)
      return failure();
    rewriter.replaceOpWithNewOp<PadOp>(op, op.getType(), x, low, high, typed);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// ONNX Runtime's integer operators (docs/design/quantised-arithmetic.md)
//===----------------------------------------------------------------------===//

Value scalar(PatternRewriter &rewriter, Location loc, float value) {
  return rewriter.create<ConstantOp>(loc, makeFloats(RankedTensorType::get({1}, rewriter.getF32Type()), {value}));
}

/// QLinearAveragePool over the whole image is QLinearGlobalAveragePool; otherwise the mean is computed in fp32, divided by the
/// scale, and the zero point is added before the rounding.
struct DecomposeQLinearAveragePool : OpRewritePattern<QLinearAveragePoolOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QLinearAveragePoolOp op, PatternRewriter &rewriter) const override {
    Location loc = op.getLoc();
    ArrayRef<int64_t> image = shapeOf(op.getX()).slice(op.getLayout() == "nhwc" ? 1 : 2, 2);
    if (op.getKernel() == image && llvm::all_of(op.getPads(), [](int64_t pad) { return pad == 0; })) {
      rewriter.replaceOpWithNewOp<QLinearGlobalAveragePoolOp>(op, op.getType(), op.getX(), op.getXScaleAttr(),
                                                              op.getXZeroPointAttr(), op.getYScaleAttr(),
                                                              op.getYZeroPointAttr(), op.getLayoutAttr());
      return success();
    }
    Type f32 = rewriter.getF32Type();
    RankedTensorType type = tensorOf(op.getY()).clone(f32);
    Value x = rewriter.create<DequantizeOp>(loc, tensorOf(op.getX()).clone(f32), op.getX(),
                                            ArrayRef<float>{op.getXScale().convertToFloat()},
                                            ArrayRef<int32_t>{int32_t(op.getXZeroPoint())}, 0);
    Value mean = rewriter.create<AveragePoolOp>(loc, type, x, op.getKernel(), op.getStrides(), op.getPads(),
                                                op.getCountIncludePad(), op.getLayout());
    Value scaled = rewriter.create<DivOp>(loc, type, mean, scalar(rewriter, loc, op.getYScale().convertToFloat()));
    Value shifted = rewriter.create<AddOp>(loc, type, scaled, scalar(rewriter, loc, float(int32_t(op.getYZeroPoint()))));
    rewriter.replaceOpWithNewOp<QuantizeOp>(op, op.getType(), shifted, ArrayRef<float>{1.0f}, ArrayRef<int32_t>{0}, 0);
    return success();
  }
};

/// QLinearSoftmax along contiguous vectors: fp32 inside, times the integer part of 1 / y_scale.
struct DecomposeQLinearSoftmax : OpRewritePattern<QLinearSoftmaxOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(QLinearSoftmaxOp op, PatternRewriter &rewriter) const override {
    if (shapeOf(op.getX()).size() != 2 || op.getAxis() != 1)
      return failure();
    Location loc = op.getLoc();
    RankedTensorType type = tensorOf(op.getX()).clone(rewriter.getF32Type());
    Value x = rewriter.create<DequantizeOp>(loc, type, op.getX(), ArrayRef<float>{op.getXScale().convertToFloat()},
                                            ArrayRef<int32_t>{int32_t(op.getXZeroPoint())}, 0);
    Value y = rewriter.create<SoftmaxOp>(loc, type, x, 1);
    Value factor = scalar(rewriter, loc, std::floor(1.0f / op.getYScale().convertToFloat()));
    Value scaled = rewriter.create<MulOp>(loc, type, y, factor);
    rewriter.replaceOpWithNewOp<QuantizeOp>(op, op.getType(), scaled, ArrayRef<float>{1.0f},
                                            ArrayRef<int32_t>{int32_t(op.getYZeroPoint())}, 0);
    return success();
  }
};

/// The bias of an NHWC convolution is the first of the ops that follow it.
struct SplitBias : OpRewritePattern<ConvOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConvOp op, PatternRewriter &rewriter) const override {
    if (!op.getBias() || op.getLayout() != "nhwc" || elementOf(op.getBias()) != elementOf(op.getY()))
      return failure();
    Value sum = rewriter.create<ConvOp>(op.getLoc(), op.getType(), op.getX(), op.getW(), Value(), op.getStrides(), op.getPads(),
                                        op.getDilations(), op.getGroup(), op.getLayout());
    rewriter.replaceOpWithNewOp<AddOp>(op, op.getType(), sum, op.getBias());
    return success();
  }
};

struct DecomposeOpsPass : impl::DecomposeOpsPassBase<DecomposeOpsPass> {
  using DecomposeOpsPassBase::DecomposeOpsPassBase;
  DecomposeOpsPass(const DecomposeOpsPassOptions &options, RuleRecorder recorder)
      : DecomposeOpsPassBase(options), recorder(std::move(recorder)) {}

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    if (keepAxes)
      patterns.add<ReduceToPool>(&getContext()); // not behind graph-convert-layout: dims 2 and 3 need not be the image
    else
      patterns.add<CanonicalizeReduce, DecomposeRowMean>(&getContext());
    patterns.add<CanonicalizeLayerNorm, CanonicalizeSoftmax<SoftmaxOp>, CanonicalizeSoftmax<QLinearSoftmaxOp>,
                 CanonicalizeMatmul<MatmulOp>, CanonicalizeMatmul<MatmulIntegerOp>, SubtractWeightZeroPoints<ConvIntegerOp>,
                 SubtractWeightZeroPoints<MatmulIntegerOp>, SplitWeightZeroPoints<ConvIntegerOp>,
                 SplitWeightZeroPoints<MatmulIntegerOp>, DecomposeQLinearAveragePool, DecomposeQLinearSoftmax, SplitBias,
                 SinkReshape, PadIntoConv<ConvOp>, PadIntoConv<ConvIntegerOp>, MergeSlices, FlattenConcat, ConcatToPad>(
        &getContext());
    populateGroupedProductPatterns(patterns);
    if (failed(rewriteToEnd(getOperation(), std::move(patterns), recorder)))
      signalPassFailure();
    recorder.finish();
  }

private:
  RuleRecorder recorder;
};

} // namespace

std::unique_ptr<Pass> createDecomposeOpsPass(const DecomposeOpsPassOptions &options, const RuleRecorder &recorder) {
  return std::make_unique<DecomposeOpsPass>(options, recorder);
}

} // namespace tw::graph
