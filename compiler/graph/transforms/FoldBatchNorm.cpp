//===- FoldBatchNorm.cpp - Batch normalisation at compile time ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_FOLDBATCHNORMPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

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

/// batch_norm(conv(x, w, bias)), the convolution used once: its weights and bias take the factors.
struct FoldIntoConv : OpRewritePattern<BatchNormOp> {
  FoldIntoConv(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(BatchNormOp op, PatternRewriter &rewriter) const override {
    auto conv = op.getX().getDefiningOp<ConvOp>();
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
    Location loc = rewriter.getFusedLoc({conv.getLoc(), op.getLoc()});
    auto biasType = RankedTensorType::get({int64_t(b.size())}, elementOf(op));
    Value newWeights = rewriter.create<ConstantOp>(loc, makeFloats(cast<RankedTensorType>(weights.getType()), w));
    Value newBias = rewriter.create<ConstantOp>(loc, makeFloats(biasType, b));
    auto fused = rewriter.create<ConvOp>(loc, op.getType(), conv.getX(), newWeights, newBias, conv.getStrides(), conv.getPads(),
                                         conv.getDilations(), conv.getGroup(), conv.getLayout());
    rewriter.replaceOp(op, fused);
    rewriter.eraseOp(conv);
    return success();
  }
};

/// Anything else: x * factor + offset, the constants shaped to broadcast along dim 1.
struct ToMulAdd : OpRewritePattern<BatchNormOp> {
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

struct FoldBatchNormPass : impl::FoldBatchNormPassBase<FoldBatchNormPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldIntoConv, ToMulAdd>(&getContext());
    if (failed(rewriteToEnd(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace tw::graph
