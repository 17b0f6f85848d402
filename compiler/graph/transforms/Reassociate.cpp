//===- Reassociate.cpp - Constants through linear operators ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rewrites that are exact in real arithmetic and round differently.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_REASSOCIATEPASS
#include "compiler/graph/transforms/Passes.h.inc"

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
        shapeOf(matmul.getB()).size() < 2)
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

struct ReassociatePass : impl::ReassociatePassBase<ReassociatePass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<IntoConv<MulOp>, IntoConv<AddOp>, IntoMatmul, Together<MulOp>, Together<AddOp>>(&getContext());
    if (failed(rewriteToEnd(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace tw::graph
