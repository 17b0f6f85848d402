//===- FoldConstants.cpp - Evaluation at compile time ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_FOLDCONSTANTSPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

struct EvaluateConstant : RewritePattern {
  EvaluateConstant(MLIRContext *context, bool keepQuantized)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), keepQuantized(keepQuantized) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<GraphDialect>(op->getDialect()) || op->getNumResults() != 1 || op->getNumOperands() == 0 ||
        (keepQuantized && isa<DequantizeOp>(op)))
      return failure();
    if (!llvm::all_of(op->getOperands(), [](Value operand) { return bool(constantOf(operand)); }))
      return failure();
    // Broadcasting can make a tensor of any size out of two small ones.
    constexpr int64_t kMaxElements = int64_t(1) << 26;
    if (cast<RankedTensorType>(op->getResult(0).getType()).getNumElements() > kMaxElements)
      return failure();
    DenseElementsAttr value = evaluate(op);
    if (!value)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(op, value);
    return success();
  }

  bool keepQuantized;
};

/// Conversions and movements to the same type and shape.
struct RemoveIdentity : RewritePattern {
  RemoveIdentity(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (op->getNumOperands() != 1 || op->getNumResults() != 1 || op->getOperand(0).getType() != op->getResult(0).getType())
      return failure();
    bool identity = isa<CastOp, ReshapeOp, ConcatOp>(op);
    if (auto transpose = dyn_cast<TransposeOp>(op))
      identity = llvm::is_sorted(transpose.getPerm());
    if (auto slice = dyn_cast<SliceOp>(op)) // the shape is the input's: only a backward step differs
      identity = llvm::all_of(slice.getSteps(), [](int64_t step) { return step > 0; });
    if (auto pad = dyn_cast<PadOp>(op))
      identity = llvm::all_of(pad.getLow(), [](int64_t low) { return low == 0; });
    if (!identity)
      return failure();
    rewriter.replaceOp(op, op->getOperand(0));
    return success();
  }
};

/// A 16-bit float that is widened and narrowed again is what it was.
struct CancelWidening : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<CastOp>();
    if (!inner || inner.getX().getType() != op.getType() || !elementOf(inner).isF32() || !isa<FloatType>(elementOf(op)))
      return failure();
    rewriter.replaceOp(op, inner.getX());
    return success();
  }
};

/// reshape(reshape(x)).
struct MergeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<ReshapeOp>();
    if (!inner)
      return failure();
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getX());
    return success();
  }
};

struct FoldConstantsPass : impl::FoldConstantsPassBase<FoldConstantsPass> {
  using FoldConstantsPassBase::FoldConstantsPassBase;
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<EvaluateConstant>(&getContext(), keepQuantized);
    patterns.add<RemoveIdentity, CancelWidening, MergeReshapes>(&getContext());
    if (failed(rewriteToEnd(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace tw::graph
