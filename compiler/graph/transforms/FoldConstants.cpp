//===- FoldConstants.cpp - Evaluation at compile time ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/ConstantBudget.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_FOLDCONSTANTSPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

struct EvaluateConstant : RewritePattern {
  EvaluateConstant(MLIRContext *context, bool keepQuantized, ConstantBudget &budget, LogicalResult &outcome)
      : RewritePattern(MatchAnyOpTypeTag(), 1, context), keepQuantized(keepQuantized), budget(budget), outcome(outcome) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<GraphDialect>(op->getDialect()) || op->getNumResults() != 1 || op->getNumOperands() == 0 ||
        (keepQuantized && isa<DequantizeOp>(op)))
      return failure();
    if (failed(outcome) || !llvm::all_of(op->getOperands(), [](Value operand) { return bool(constantOf(operand)); }) ||
        !budget.takeSteps(uint64_t(evaluationSteps(op))))
      return failure();
    if (auto problem = budget.add(growth(op))) {
      outcome = op->emitError() << *problem;
      return failure();
    }
    DenseElementsAttr value = evaluate(op);
    if (!value)
      return failure();
    rewriter.replaceOpWithNewOp<ConstantOp>(op, value);
    return success();
  }

private:
  /// Bytes of the result beyond those of its operands, which it takes the place of. Equal elements are one.
  static uint64_t growth(Operation *op) {
    auto bytesOf = [](Value value) {
      return uint64_t(tensorOf(value).getNumElements()) * llvm::divideCeil(elementOf(value).getIntOrFloatBitWidth(), 8);
    };
    uint64_t before = 0;
    bool areSplats = !isa<ConcatOp, PadOp>(op);
    llvm::SmallPtrSet<Operation *, 4> seen;
    for (Value operand : op->getOperands()) {
      const bool isSplat = constantOf(operand).isSplat();
      areSplats &= isSplat;
      before += seen.insert(operand.getDefiningOp()).second && !isSplat ? bytesOf(operand) : 0;
    }
    const uint64_t after = areSplats ? 0 : bytesOf(op->getResult(0));
    return after > before ? after - before : 0;
  }

  bool keepQuantized;
  ConstantBudget &budget;
  LogicalResult &outcome;
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

struct FoldConstantsPass : impl::FoldConstantsPassBase<FoldConstantsPass> {
  using FoldConstantsPassBase::FoldConstantsPassBase;
  FoldConstantsPass(const FoldConstantsPassOptions &options, RuleRecorder recorder)
      : FoldConstantsPassBase(options), recorder(std::move(recorder)) {}

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    ConstantBudget budget(maxConstantBytes);
    LogicalResult outcome = success();
    patterns.add<EvaluateConstant>(&getContext(), keepQuantized, budget, outcome);
    patterns.add<RemoveIdentity>(&getContext());
    addCleanupPatterns(patterns);
    if (failed(rewriteToEnd(getOperation(), std::move(patterns), recorder)) || failed(outcome))
      signalPassFailure();
    recorder.finish();
  }

private:
  RuleRecorder recorder;
};

} // namespace

std::unique_ptr<Pass> createFoldConstantsPass(const FoldConstantsPassOptions &options, const RuleRecorder &recorder) {
  return std::make_unique<FoldConstantsPass>(options, recorder);
}

} // namespace tw::graph
