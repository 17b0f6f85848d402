//===- FuseLayerNorm.cpp - Layer normalisation as one op ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The importer spells LayerNormalization and InstanceNormalization out, as
// exporters did before opset 17: one form to recognise.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"
#include <numeric>

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_FUSELAYERNORMPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

/// The kernel holds a row four times as fp32; longer rows might not fit a small scratchpad and stay spelled out.
constexpr int64_t kMaxRow = 1024;

/// x of mean(x) over the dims from `axis` on, kept as ones; null if `value` is something else. `axis` -1: sets it.
Value meanOf(Value value, int64_t &axis) {
  auto reduce = value.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != "mean" || !reduce.getKeepdims() || reduce.getAxes().empty())
    return nullptr;
  ArrayRef<int64_t> axes = reduce.getAxes();
  int64_t rank = shapeOf(reduce.getX()).size(), first = axes.front();
  if (int64_t(axes.size()) != rank - first || (axis >= 0 && axis != first))
    return nullptr;
  axis = first;
  return reduce.getX();
}

/// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon).
struct FuseLayerNorm : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op, PatternRewriter &rewriter) const override {
    auto centred = op.getA().getDefiningOp<SubOp>();
    auto deviation = op.getB().getDefiningOp<SqrtOp>();
    auto sum = deviation ? deviation.getX().getDefiningOp<AddOp>() : nullptr;
    if (!centred || !sum || !isa<FloatType>(elementOf(op)))
      return failure();
    int64_t axis = -1;
    Value x = meanOf(centred.getB(), axis);
    if (!x || x != centred.getA() || shapeOf(x) != shapeOf(op))
      return failure();
    for (auto [variance, epsilon] : {std::pair(sum.getA(), sum.getB()), std::pair(sum.getB(), sum.getA())}) {
      ElementsAttr constant = constantOf(epsilon);
      if (!constant || constant.getNumElements() != 1)
        continue;
      Value squares = meanOf(variance, axis);
      auto square = squares ? squares.getDefiningOp<MulOp>() : nullptr;
      if (!square || square.getA() != centred.getResult() || square.getB() != centred.getResult())
        return failure();
      ArrayRef<int64_t> row = shapeOf(x).drop_front(axis);
      if (std::accumulate(row.begin(), row.end(), int64_t(1), std::multiplies<>()) > kMaxRow)
        return failure();
      Location loc =
          fuseLocations({centred.getB().getDefiningOp(), centred, square, variance.getDefiningOp(), sum, deviation, op});
      rewriter.replaceOpWithNewOp<LayerNormOp>(op, op.getType(), x, axis, APFloat(readFloats(constant)[0]))->setLoc(loc);
      return success();
    }
    return failure();
  }
};

struct FuseLayerNormPass : impl::FuseLayerNormPassBase<FuseLayerNormPass> {
  FuseLayerNormPass() = default;
  explicit FuseLayerNormPass(RuleRecorder recorder) : recorder(std::move(recorder)) {}

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.addWithLabel<FuseLayerNorm>({"layer-norm"}, &getContext());
    if (failed(rewriteToEnd(getOperation(), std::move(patterns), recorder)))
      signalPassFailure();
    recorder.finish();
  }

private:
  RuleRecorder recorder;
};

} // namespace

std::unique_ptr<Pass> createFuseLayerNormPass(const RuleRecorder &recorder) {
  return std::make_unique<FuseLayerNormPass>(recorder);
}

} // namespace tw::graph
