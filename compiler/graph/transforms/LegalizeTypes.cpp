//===- LegalizeTypes.cpp - bfloat16 between kernels -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inside a kernel numbers are f32; a cast at its border reads and writes bf16.
// graph-lower-to-linalg gives an array or window op the bf16 side of such a
// cast.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_LEGALIZETYPESPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {

Type withElement(Type type, Type element) { return cast<RankedTensorType>(type).clone(element); }
bool isF32(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getElementType().isF32();
}

/// Ops that take bf16 as it is: their operands must not be f32 tensors in memory.
bool wantsBf16(Operation *op) { return isa<ConvOp, MatmulOp, MaxPoolOp, AveragePoolOp>(op); }

/// Whether one reads it, as it is or transposed on the way.
bool isWantedInBf16(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return wantsBf16(user) || (isa<TransposeOp, ReshapeOp>(user) && isWantedInBf16(user->getResult(0)));
  });
}

/// Constants that array ops multiply become bf16 behind a cast.
void narrowWeights(Operation *op, OpBuilder &builder) {
  if (!isa<ConvOp, MatmulOp>(op))
    return;
  for (unsigned i = 0; i < 2; ++i) {
    Value operand = op->getOperand(i);
    ElementsAttr elements = constantOf(operand);
    if (!elements || !isF32(operand))
      continue;
    builder.setInsertionPoint(op);
    Value narrow = builder.create<ConstantOp>(
        operand.getLoc(),
        makeFloats(cast<RankedTensorType>(withElement(operand.getType(), builder.getBF16Type())), readFloats(elements)));
    op->setOperand(i, builder.create<CastOp>(operand.getLoc(), operand.getType(), narrow));
  }
}

bool movesElements(Operation *op) { return isa<TransposeOp, SliceOp, PadOp, ConcatOp, ReshapeOp>(op); }

/// Whether a value is a tensor in memory or a view of it, not what the kernel computes.
bool isRead(Value value) {
  Operation *op = value.getDefiningOp();
  const bool isConverted = isa_and_nonnull<CastOp>(op) && isa<BlockArgument>(op->getOperand(0));
  return !op || isa<ConstantOp>(op) || isConverted || (movesElements(op) && llvm::all_of(op->getOperands(), isRead));
}

/// op(cast(x)) for an op that moves elements or takes their maximum: cast(op(x)).
struct MoveBelowCast : RewritePattern {
  MoveBelowCast(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<MaxPoolOp>(op) && !movesElements(op))
      return failure();
    auto narrowForm = [](Value operand) -> Value {
      auto widened = operand.getDefiningOp<CastOp>();
      return widened && elementOf(widened.getX()).isBF16() && isF32(operand) && isRead(widened.getX()) ? widened.getX()
                                                                                                       : Value();
    };
    // What stands between widened tensors, zeros for example, is narrowed with them.
    if (llvm::none_of(op->getOperands(), narrowForm) || !llvm::all_of(op->getOperands(), [&](Value operand) {
          return narrowForm(operand) || (isF32(operand) && constantOf(operand));
        }))
      return failure();
    SmallVector<Value> inputs;
    for (Value operand : op->getOperands()) {
      Value narrow = narrowForm(operand);
      if (!narrow) {
        auto type = cast<RankedTensorType>(withElement(operand.getType(), rewriter.getBF16Type()));
        narrow = rewriter.create<ConstantOp>(operand.getLoc(), makeFloats(type, readFloats(constantOf(operand))));
      }
      inputs.push_back(narrow);
    }
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(inputs);
    state.addTypes(withElement(op->getResult(0).getType(), rewriter.getBF16Type()));
    state.addAttributes(op->getAttrs());
    if (auto pad = dyn_cast<PadOp>(op)) {
      auto value = cast<FloatAttr>(cast<Attribute>(pad.getValue()));
      NamedAttrList attributes(op->getAttrs());
      attributes.set(pad.getValueAttrName(), rewriter.getFloatAttr(rewriter.getBF16Type(), value.getValueAsDouble()));
      state.attributes = attributes;
    }
    Value moved = rewriter.create(state)->getResult(0);
    rewriter.replaceOpWithNewOp<CastOp>(op, op->getResult(0).getType(), moved);
    return success();
  }
};

/// A result is narrowed where it is computed, not behind the movements of a kernel's end.
struct MoveAboveMovement : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    Operation *movement = op.getX().getDefiningOp();
    if (!movement || !isa<TransposeOp, ReshapeOp>(movement) || !movement->hasOneUse() || !elementOf(op).isBF16())
      return failure();
    Value x = movement->getOperand(0);
    Value narrow = rewriter.create<CastOp>(op.getLoc(), withElement(x.getType(), elementOf(op)), x);
    OperationState state(movement->getLoc(), movement->getName(), narrow, op->getResultTypes(), movement->getAttrs());
    rewriter.replaceOp(op, rewriter.create(state));
    return success();
  }
};

/// bf16 -> f32 -> bf16 changes nothing.
struct CancelCasts : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<CastOp>();
    if (!inner || !elementOf(inner.getX()).isBF16() || inner.getX().getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, inner.getX());
    return success();
  }
};

/// Kernels that return what they are given, as what they converted has that type already: their callers take it from there. What the
/// network returns has to be written.
void dropIdentities(ModuleOp module, func::FuncOp main) {
  for (auto call : llvm::make_early_inc_range(main.getOps<func::CallOp>())) {
    auto kernel = module.lookupSymbol<func::FuncOp>(call.getCallee());
    Block &body = kernel.getBody().front();
    auto argument =
        llvm::hasSingleElement(body) ? dyn_cast<BlockArgument>(body.getTerminator()->getOperand(0)) : BlockArgument();
    if (!argument || call.getNumResults() != 1 || call->use_empty() ||
        llvm::any_of(call->getUsers(), [](Operation *user) { return !isa<func::CallOp>(user); }))
      continue;
    auto reader = cast<func::CallOp>(*call->user_begin());
    const std::string name = kernel.getName().str();
    const Attribute nodes = kernel->getAttr(kNodesAttr);
    call.getResult(0).replaceAllUsesWith(call.getOperand(argument.getArgNumber()));
    call.erase();
    kernel.erase();
    // Of two kernels of one node the second one's name is counted on; alone it needs no number.
    auto next = module.lookupSymbol<func::FuncOp>(reader.getCallee());
    if (next->getAttr(kNodesAttr) == nodes && next.getName() == name + "_1") {
      (void)SymbolTable::replaceAllSymbolUses(next, StringAttr::get(module.getContext(), name), module);
      next.setName(name);
    }
  }
}

class Legalizer {
public:
  Legalizer(ModuleOp module, func::FuncOp main, StringRef target)
      : module(module), main(main), target(target), builder(module.getContext()) {}

  void run() {
    for (Operation &op : llvm::make_early_inc_range(main.getBody().front()))
      if (auto call = dyn_cast<func::CallOp>(op))
        legalize(call);
      else if (auto reshape = dyn_cast<ReshapeOp>(op))
        reshape->getResult(0).setType(withElement(reshape.getType(), elementOf(reshape.getX())));
    // The network's results are f32, whatever reaches them.
    Operation *terminator = main.getBody().front().getTerminator();
    for (OpOperand &result : terminator->getOpOperands())
      if (result.get().getType() != main.getResultTypes()[result.getOperandNumber()])
        result.set(castKernel(result.get(), builder.getF32Type(), terminator));
  }

private:
  ModuleOp module;
  func::FuncOp main;
  StringRef target;
  OpBuilder builder;
  DenseMap<Value, Value> narrowed;
  unsigned casts = 0;

  /// Whether a value reaches the network's results through data movement only; it then stays f32.
  bool reachesResult(Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (isa<func::ReturnOp>(user))
        return true;
      if (isa<ReshapeOp>(user))
        return reachesResult(user->getResult(0));
      auto call = dyn_cast<func::CallOp>(user);
      return call && isMovement(module.lookupSymbol<func::FuncOp>(call.getCallee())) && reachesResult(call.getResult(0));
    });
  }

  static bool isMovement(func::FuncOp kernel) {
    return llvm::all_of(kernel.getBody().front().without_terminator(),
                        [](Operation &op) { return isa<TransposeOp, SliceOp, PadOp, ConcatOp, ConstantOp, ReshapeOp>(op); });
  }

  /// A kernel that converts `value`, called before `position`.
  Value castKernel(Value value, Type element, Operation *position) {
    Location loc = UnknownLoc::get(module.getContext());
    Type type = withElement(value.getType(), element);
    builder.setInsertionPointToEnd(module.getBody());
    auto kernel = builder.create<func::FuncOp>(loc, "tilewright_cast_" + std::to_string(casts++),
                                               builder.getFunctionType({value.getType()}, {type}));
    kernel.setPrivate();
    kernel->setAttr(kNodesAttr, builder.getStrArrayAttr({}));
    kernel->setAttr(kTargetAttr, builder.getStringAttr(target));
    builder.setInsertionPointToStart(kernel.addEntryBlock());
    Value result = builder.create<CastOp>(loc, type, kernel.getArgument(0));
    builder.create<func::ReturnOp>(loc, result);
    builder.setInsertionPoint(position);
    return builder.create<func::CallOp>(loc, kernel, ValueRange{value}).getResult(0);
  }

  /// The bf16 form of an f32 tensor in memory: made once, where the tensor is.
  Value narrow(Value value, Operation *position) {
    Value &known = narrowed[value];
    if (!known) {
      Operation *first = value.getDefiningOp() ? value.getDefiningOp()->getNextNode() : &main.getBody().front().front();
      known = castKernel(value, builder.getBF16Type(), first);
    }
    return known;
  }

  void legalize(func::CallOp call) {
    auto kernel = module.lookupSymbol<func::FuncOp>(call.getCallee());
    Block &body = kernel.getBody().front();
    bool movement = isMovement(kernel);
    // A movement has one element type.
    bool anyNarrow = llvm::any_of(call.getOperands(), [](Value operand) { return elementOf(operand).isBF16(); });
    for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
      if (!isF32(argument))
        continue;
      if (kernel.removeArgAttr(unsigned(i), kConvertsAttr)) {
        builder.setInsertionPointToStart(&body);
        auto narrow =
            builder.create<CastOp>(argument.getLoc(), withElement(argument.getType(), builder.getBF16Type()), argument);
        auto widened = builder.create<CastOp>(argument.getLoc(), argument.getType(), narrow);
        argument.replaceAllUsesExcept(widened, narrow);
        continue;
      }
      bool wanted = isWantedInBf16(argument) || (movement && anyNarrow);
      if (wanted && isF32(call.getOperand(i)))
        call.setOperand(i, narrow(call.getOperand(i), call));
      if (!elementOf(call.getOperand(i)).isBF16())
        continue;
      Type wide = argument.getType();
      argument.setType(call.getOperand(i).getType());
      builder.setInsertionPointToStart(&body);
      auto widened = builder.create<CastOp>(argument.getLoc(), wide, argument);
      argument.replaceAllUsesExcept(widened, widened);
    }
    for (Operation &op : llvm::make_early_inc_range(body))
      narrowWeights(&op, builder);
    Operation *terminator = body.getTerminator();
    for (auto [i, result] : llvm::enumerate(call.getResults())) {
      if (!isF32(result) || (movement ? !anyNarrow : reachesResult(result)))
        continue;
      builder.setInsertionPoint(terminator);
      Type type = withElement(result.getType(), builder.getBF16Type());
      terminator->setOperand(i, builder.create<CastOp>(terminator->getLoc(), type, terminator->getOperand(i)));
      result.setType(type);
    }
    kernel.setType(builder.getFunctionType(body.getArgumentTypes(), terminator->getOperandTypes()));
  }
};

struct LegalizeTypesPass : impl::LegalizeTypesPassBase<LegalizeTypesPass> {
  using LegalizeTypesPassBase::LegalizeTypesPassBase;
  void runOnOperation() override {
    auto main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal() || !llvm::hasSingleElement(main.getBody())) {
      getOperation().emitError() << "no function @main with one block";
      return signalPassFailure();
    }
    Legalizer(getOperation(), main, target).run();
    RewritePatternSet patterns(&getContext());
    patterns.add<MoveBelowCast, MoveAboveMovement, CancelCasts>(&getContext());
    if (failed(rewriteToEnd(getOperation(), std::move(patterns))))
      return signalPassFailure();
    dropIdentities(getOperation(), main);
  }
};

} // namespace
} // namespace tw::graph
