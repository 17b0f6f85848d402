//===- ConvertLayout.cpp - Channels last ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All values get their layout at once (ChannelsLast.h). Then transposes of the
// model sink through the ops below them until they meet and cancel.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/ChannelOrders.h"
#include "compiler/graph/transforms/ChannelsLast.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_CONVERTLAYOUTPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

/// A transpose made by this pass carries no node name: it is no node of the model.
Location layoutLoc(Operation *op) { return UnknownLoc::get(op->getContext()); }

//===----------------------------------------------------------------------===//
// Sinking
//===----------------------------------------------------------------------===//

/// What stands for `value` (broadcast to the rank of perm) before the transpose by `perm`. Null if that would take a transpose
/// which moves elements at run time.
Value beforeTranspose(PatternRewriter &rewriter, Location loc, Value value, ArrayRef<int64_t> perm, bool force = false) {
  if (auto transpose = value.getDefiningOp<TransposeOp>(); transpose && transpose.getPerm() == perm)
    return transpose.getX();
  SmallVector<int64_t> shape = padRank(shapeOf(value), perm.size()), inverse = inversePermutation(perm);
  ElementsAttr elements = constantOf(value);
  if (!force && !elements && !movesOnlyUnitDims(shape, inverse))
    return nullptr;
  // A single element, or a vector along what stays the last dim, needs no more dims than it has.
  if (tensorOf(value).getNumElements() == 1 && shapeOf(value).size() <= 1)
    return value;
  // At once: a transpose of a constant that is still to be folded would look like one to sink.
  if (elements)
    return rewriter.create<ConstantOp>(loc, transposeConstant(reshapeConstant(elements, shape), inverse));
  Value padded = createReshape(rewriter, loc, value, shape);
  if (!movesOnlyUnitDims(shape, inverse))
    return createTranspose(rewriter, loc, padded, inverse);
  // Not a transpose: that would sink back.
  SmallVector<int64_t> moved;
  for (int64_t dim : inverse)
    moved.push_back(shape[dim]);
  return createReshape(rewriter, loc, padded, moved);
}

/// The first operand that comes transposed at run time, by a node of the model: a conversion is where it costs least.
TransposeOp commonTranspose(OperandRange operands, size_t rank) {
  for (Value operand : operands)
    if (auto transpose = operand.getDefiningOp<TransposeOp>(); transpose && !transpose->hasAttr(kConversionAttr) &&
                                                               transpose.getPerm().size() == rank &&
                                                               !constantOf(transpose.getX()))
      return transpose;
  return nullptr;
}

/// Clones `op` on `operands`, its result's dims being those of before `transpose`, and puts the transpose behind.
void sink(PatternRewriter &rewriter, Operation *op, ArrayRef<Value> operands, TransposeOp transpose,
          ArrayRef<NamedAttribute> changed = {}) {
  ArrayRef<int64_t> perm = transpose.getPerm();
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  SmallVector<int64_t> shape;
  for (int64_t dim : inversePermutation(perm))
    shape.push_back(type.getDimSize(dim));
  OperationState state(op->getLoc(), op->getName());
  state.addOperands(operands);
  state.addTypes(RankedTensorType::get(shape, type.getElementType()));
  NamedAttrList attributes(op->getAttrs());
  for (NamedAttribute attribute : changed)
    attributes.set(attribute.getName(), attribute.getValue());
  state.addAttributes(attributes);
  Operation *moved = rewriter.create(state);
  rewriter.replaceOp(op, createTranspose(rewriter, transpose.getLoc(), moved->getResult(0), perm));
}

struct SinkThroughElementwise : RewritePattern {
  SinkThroughElementwise(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isElementwise(op))
      return failure();
    size_t rank = cast<RankedTensorType>(op->getResult(0).getType()).getRank();
    TransposeOp common = commonTranspose(op->getOperands(), rank);
    if (!common)
      return failure();
    ArrayRef<int64_t> perm = common.getPerm();
    SmallVector<Value> operands;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      bool isVector = i == 1 && isa<RequantizeOp>(op); // the bias has no dims of x
      Value moved = isVector ? operand : beforeTranspose(rewriter, layoutLoc(op), operand, perm);
      if (!moved)
        return failure();
      operands.push_back(moved);
    }
    SmallVector<NamedAttribute> changed;
    if (hasChannelAxis(op)) {
      int64_t axis = op->getAttrOfType<IntegerAttr>("axis").getInt();
      changed.push_back(rewriter.getNamedAttr("axis", rewriter.getI64IntegerAttr(perm[axis])));
    }
    sink(rewriter, op, operands, common, changed);
    return success();
  }
};

/// Ops on dims they name: dim i of the result was dim perm[i] before the transpose.
struct SinkThroughDims : RewritePattern {
  SinkThroughDims(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<ConcatOp, PadOp, SliceOp>(op))
      return failure();
    size_t rank = cast<RankedTensorType>(op->getResult(0).getType()).getRank();
    TransposeOp common = commonTranspose(op->getOperands(), rank);
    if (!common)
      return failure();
    ArrayRef<int64_t> perm = common.getPerm();
    // One transpose behind a concat instead of as many as before it, or fewer.
    int64_t gained = 0;
    SmallVector<int64_t> inverse = inversePermutation(perm);
    for (Value operand : op->getOperands()) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      bool free = constantOf(operand) || movesOnlyUnitDims(shapeOf(operand), inverse);
      gained += transpose && transpose.getPerm() == perm ? 1 : free ? 0 : -1;
    }
    if (gained < 1)
      return failure();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(beforeTranspose(rewriter, layoutLoc(op), operand, perm, /*force=*/true));
    SmallVector<NamedAttribute> changed;
    auto permuted = [&](ArrayRef<int64_t> values) {
      SmallVector<int64_t> result(values.size());
      for (size_t i = 0; i < values.size(); ++i)
        result[perm[i]] = values[i];
      return rewriter.getDenseI64ArrayAttr(result);
    };
    if (auto concat = dyn_cast<ConcatOp>(op))
      changed.push_back(rewriter.getNamedAttr("axis", rewriter.getI64IntegerAttr(perm[concat.getAxis()])));
    if (auto pad = dyn_cast<PadOp>(op)) {
      changed.push_back(rewriter.getNamedAttr("low", permuted(pad.getLow())));
      changed.push_back(rewriter.getNamedAttr("high", permuted(pad.getHigh())));
    }
    if (auto slice = dyn_cast<SliceOp>(op)) {
      changed.push_back(rewriter.getNamedAttr("starts", permuted(slice.getStarts())));
      changed.push_back(rewriter.getNamedAttr("steps", permuted(slice.getSteps())));
    }
    sink(rewriter, op, operands, common, changed);
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Cancelling
//===----------------------------------------------------------------------===//

struct MergeTransposes : OpRewritePattern<TransposeOp> {
  MergeTransposes(MLIRContext *context, const LayoutCosts &costs) : OpRewritePattern(context, /*benefit=*/2), costs(costs) {}
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> perm;
    for (int64_t dim : op.getPerm())
      perm.push_back(inner.getPerm()[dim]);
    Value x = inner.getX();
    if (llvm::is_sorted(perm)) {
      rewriter.replaceOp(op, x);
      return success();
    }
    const bool isConversion = op->hasAttr(kConversionAttr) && inner->hasAttr(kConversionAttr);
    rewriter.replaceOp(op, isConversion ? createConversion(rewriter, x, perm, costs)
                                        : createTranspose(rewriter, fuseLocations({inner, op}), x, perm));
    return success();
  }

private:
  const LayoutCosts costs;
};

/// transpose(constant).
struct FoldTranspose : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    ElementsAttr elements = constantOf(op.getX());
    if (!elements)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(op, transposeConstant(elements, op.getPerm()));
    return success();
  }
};

struct FoldReshape : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    if (ElementsAttr elements = constantOf(op.getX())) {
      rewriter.replaceOpWithNewOp<ConstantOp>(op, reshapeConstant(elements, shapeOf(op)));
      return success();
    }
    Value x = op.getX();
    if (auto inner = x.getDefiningOp<ReshapeOp>()) {
      x = inner.getX();
    } else if (auto transpose = x.getDefiningOp<TransposeOp>();
               transpose && movesOnlyUnitDims(shapeOf(transpose.getX()), transpose.getPerm())) {
      x = transpose.getX();
    } else if (x.getType() != op.getType()) {
      return failure();
    }
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), x, shapeOf(op)));
    return success();
  }
};

/// matmul(reshape(transpose(x)), w), the reshape flattening each image: the rows of the constant w are transposed instead.
template <typename OpT> struct FlattenIntoWeights : OpRewritePattern<OpT> {
  using OpRewritePattern<OpT>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpT op, PatternRewriter &rewriter) const override {
    auto reshape = op.getA().template getDefiningOp<ReshapeOp>();
    auto transpose = reshape ? reshape.getX().template getDefiningOp<TransposeOp>() : nullptr;
    ElementsAttr weights = constantOf(op.getB());
    if (!transpose || !weights || shapeOf(op.getB()).size() != 2 || shapeOf(reshape).size() != 2)
      return failure();
    ArrayRef<int64_t> perm = transpose.getPerm(), image = shapeOf(transpose);
    if (perm.empty() || perm[0] != 0 || shapeOf(reshape)[0] != image[0])
      return failure();
    // Rows of w count the transposed image; they are to count the image as it lies.
    SmallVector<int64_t> split(image.drop_front()), rows, inverse = inversePermutation(perm);
    split.push_back(shapeOf(op.getB())[1]);
    for (int64_t dim : ArrayRef<int64_t>(inverse).drop_front())
      rows.push_back(dim - 1);
    rows.push_back(perm.size() - 1);
    DenseElementsAttr permuted = reshapeConstant(transposeConstant(reshapeConstant(weights, split), rows), shapeOf(op.getB()));
    Value constant = rewriter.create<ConstantOp>(op.getB().getLoc(), permuted);
    Value flat = createReshape(rewriter, reshape.getLoc(), transpose.getX(), shapeOf(reshape));
    rewriter.modifyOpInPlace(op, [&] {
      op->setOperand(0, flat);
      op->setOperand(1, constant);
    });
    return success();
  }
};

/// A transpose that only moves dims of size 1. Last: before, it would stop others from sinking.
struct TransposeToReshape : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    if (!movesOnlyUnitDims(shapeOf(op.getX()), op.getPerm()))
      return failure();
    rewriter.replaceOp(op, createReshape(rewriter, op.getLoc(), op.getX(), shapeOf(op)));
    return success();
  }
};

struct ConvertLayoutPass : impl::ConvertLayoutPassBase<ConvertLayoutPass> {
  using ConvertLayoutPassBase::ConvertLayoutPassBase;
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    LayoutCosts costs;
    costs.machine.rows = rows;
    costs.machine.columns = columns;
    costs.machine.loadEngines = loadEngines;
    costs.machine.dramBytes = dramBytes;
    costs.machine.dramLatency = dramLatency;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (llvm::hasSingleElement(function.getBody()))
        putChannelsLast(function.getBody().front(), costs);
    RewritePatternSet patterns(context);
    patterns.add<MergeTransposes>(context, costs);
    patterns.add<SinkThroughElementwise, SinkThroughDims, FoldTranspose, FoldReshape, FlattenIntoWeights<MatmulOp>,
                 FlattenIntoWeights<MatmulIntegerOp>>(context);
    if (failed(rewriteToEnd(getOperation(), std::move(patterns))))
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (llvm::hasSingleElement(function.getBody()))
        absorbChannelShuffles(function.getBody().front());
    RewritePatternSet last(context);
    last.add<TransposeToReshape, FoldReshape>(context);
    if (failed(rewriteToEnd(getOperation(), std::move(last))))
      signalPassFailure();
  }
};

} // namespace
} // namespace tw::graph
