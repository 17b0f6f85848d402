//===- LegalizeTypes.cpp - 16-bit floats between kernels ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inside a kernel numbers are f32; a cast at its border reads and writes the
// narrow type, bf16 or f16. graph-lower-to-linalg gives an array or window op
// the narrow side of such a cast.
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Pipeline.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

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

/// Ops that take the narrow type as it is: their operands must not be f32 tensors in memory.
bool wantsNarrow(Operation *op) { return isa<ConvOp, MatmulOp, MaxPoolOp, AveragePoolOp>(op); }

/// Whether one reads it, as it is or transposed on the way.
bool isWantedNarrow(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return wantsNarrow(user) || (isa<TransposeOp, ReshapeOp>(user) && isWantedNarrow(user->getResult(0)));
  });
}

/// Whether rounding makes none of the numbers infinite.
bool fits(ArrayRef<float> values, Type element) {
  constexpr float kLargestHalf = 65504;
  return !element.isF16() || llvm::all_of(values, [](float value) { return std::abs(value) <= kLargestHalf; });
}

/// Constants that array ops multiply become narrow behind a cast.
void narrowWeights(Operation *op, Type element, OpBuilder &builder) {
  if (!isa<ConvOp, MatmulOp>(op))
    return;
  for (unsigned i = 0; i < 2; ++i) {
    Value operand = op->getOperand(i);
    ElementsAttr elements = constantOf(operand);
    if (!elements || !isF32(operand))
      continue;
    const std::vector<float> values = readFloats(elements);
    if (!fits(values, element))
      continue;
    builder.setInsertionPoint(op);
    Value narrow = builder.create<ConstantOp>(
        operand.getLoc(), makeFloats(cast<RankedTensorType>(withElement(operand.getType(), element)), values));
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
  MoveBelowCast(MLIRContext *context, Type element) : RewritePattern(MatchAnyOpTypeTag(), 1, context), element(element) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!isa<MaxPoolOp>(op) && !movesElements(op))
      return failure();
    auto narrowForm = [&](Value operand) -> Value {
      auto widened = operand.getDefiningOp<CastOp>();
      return widened && elementOf(widened.getX()) == element && isF32(operand) && isRead(widened.getX()) ? widened.getX()
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
        auto type = cast<RankedTensorType>(withElement(operand.getType(), element));
        narrow = rewriter.create<ConstantOp>(operand.getLoc(), makeFloats(type, readFloats(constantOf(operand))));
      }
      inputs.push_back(narrow);
    }
    OperationState state(op->getLoc(), op->getName());
    state.addOperands(inputs);
    state.addTypes(withElement(op->getResult(0).getType(), element));
    state.addAttributes(op->getAttrs());
    if (auto pad = dyn_cast<PadOp>(op)) {
      auto value = cast<FloatAttr>(cast<Attribute>(pad.getValue()));
      NamedAttrList attributes(op->getAttrs());
      attributes.set(pad.getValueAttrName(), rewriter.getFloatAttr(element, value.getValueAsDouble()));
      state.attributes = attributes;
    }
    Value moved = rewriter.create(state)->getResult(0);
    rewriter.replaceOpWithNewOp<CastOp>(op, op->getResult(0).getType(), moved);
    return success();
  }

private:
  Type element;
};

/// A result is narrowed where it is computed, not behind the movements of a kernel's end.
struct MoveAboveMovement : OpRewritePattern<CastOp> {
  MoveAboveMovement(MLIRContext *context, Type element) : OpRewritePattern(context), element(element) {}
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    Operation *movement = op.getX().getDefiningOp();
    if (!movement || !isa<TransposeOp, ReshapeOp>(movement) || !movement->hasOneUse() || elementOf(op) != element)
      return failure();
    Value x = movement->getOperand(0);
    Value narrow = rewriter.create<CastOp>(op.getLoc(), withElement(x.getType(), elementOf(op)), x);
    OperationState state(movement->getLoc(), movement->getName(), narrow, op->getResultTypes(), movement->getAttrs());
    rewriter.replaceOp(op, rewriter.create(state));
    return success();
  }

private:
  Type element;
};

/// Narrow -> f32 -> narrow changes nothing.
struct CancelCasts : OpRewritePattern<CastOp> {
  CancelCasts(MLIRContext *context, Type element) : OpRewritePattern(context), element(element) {}
  LogicalResult matchAndRewrite(CastOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getX().getDefiningOp<CastOp>();
    if (!inner || elementOf(inner.getX()) != element || inner.getX().getType() != op.getType())
      return failure();
    rewriter.replaceOp(op, inner.getX());
    return success();
  }

private:
  Type element;
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
  Legalizer(ModuleOp module, func::FuncOp main, StringRef target, Type element)
      : module(module), main(main), target(target), element(element), builder(module.getContext()) {}

  void run() {
    if (element.isF16())
      restoreBorders();
    for (Operation &op : llvm::make_early_inc_range(main.getBody().front()))
      if (auto call = dyn_cast<func::CallOp>(op))
        legalize(call);
      else if (auto reshape = dyn_cast<ReshapeOp>(op))
        reshape->getResult(0).setType(withElement(reshape.getType(), elementOf(reshape.getX())));
    // The network's results are of their own types, whatever reaches them.
    Operation *terminator = main.getBody().front().getTerminator();
    for (OpOperand &result : terminator->getOpOperands())
      if (Type type = main.getResultTypes()[result.getOperandNumber()]; result.get().getType() != type)
        result.set(castKernel(result.get(), getElementTypeOrSelf(type), terminator));
  }

private:
  ModuleOp module;
  func::FuncOp main;
  StringRef target;
  Type element; ///< the narrow one
  OpBuilder builder;
  DenseMap<Value, Value> narrowed;
  unsigned casts = 0;

  /// Inputs and outputs that are float16 in the model, and f32 since its import, are float16.
  void restoreBorders() {
    SmallVector<Type> inputs(main.getArgumentTypes()), outputs(main.getResultTypes());
    for (auto [i, type] : llvm::enumerate(inputs))
      if (main.removeArgAttr(unsigned(i), kWidenedFromAttr)) {
        type = withElement(type, element);
        main.getArgument(unsigned(i)).setType(type);
      }
    for (auto [i, type] : llvm::enumerate(outputs))
      if (main.removeResultAttr(unsigned(i), builder.getStringAttr(kWidenedFromAttr)))
        type = withElement(type, element);
    main.setType(builder.getFunctionType(inputs, outputs));
  }

  /// Sums that a float16 may not hold, where the mean that is made of them fits.
  bool isSum(Value value) { return element.isF16() && isa_and_nonnull<ReduceOp>(value.getDefiningOp()); }

  /// Whether a value reaches f32 results of the network through data movement only; it then stays f32.
  bool reachesResult(Value value) {
    return llvm::any_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user))
        return getElementTypeOrSelf(main.getResultTypes()[use.getOperandNumber()]).isF32();
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

  /// The narrow form of an f32 tensor in memory: made once, where the tensor is.
  Value narrow(Value value, Operation *position) {
    Value &known = narrowed[value];
    if (!known) {
      Operation *first = value.getDefiningOp() ? value.getDefiningOp()->getNextNode() : &main.getBody().front().front();
      known = castKernel(value, element, first);
    }
    return known;
  }

  void legalize(func::CallOp call) {
    auto kernel = module.lookupSymbol<func::FuncOp>(call.getCallee());
    Block &body = kernel.getBody().front();
    bool movement = isMovement(kernel);
    // A movement has one element type.
    bool anyNarrow = llvm::any_of(call.getOperands(), [&](Value operand) { return elementOf(operand) == element; });
    for (auto [i, argument] : llvm::enumerate(body.getArguments())) {
      if (!isF32(argument))
        continue;
      if (kernel.removeArgAttr(unsigned(i), kConvertsAttr)) {
        builder.setInsertionPointToStart(&body);
        auto narrow = builder.create<CastOp>(argument.getLoc(), withElement(argument.getType(), element), argument);
        auto widened = builder.create<CastOp>(argument.getLoc(), argument.getType(), narrow);
        argument.replaceAllUsesExcept(widened, narrow);
        continue;
      }
      bool wanted = isWantedNarrow(argument) || (movement && anyNarrow);
      if (wanted && isF32(call.getOperand(i)))
        call.setOperand(i, narrow(call.getOperand(i), call));
      if (elementOf(call.getOperand(i)) != element)
        continue;
      Type wide = argument.getType();
      argument.setType(call.getOperand(i).getType());
      builder.setInsertionPointToStart(&body);
      auto widened = builder.create<CastOp>(argument.getLoc(), wide, argument);
      argument.replaceAllUsesExcept(widened, widened);
    }
    for (Operation &op : llvm::make_early_inc_range(body))
      narrowWeights(&op, element, builder);
    Operation *terminator = body.getTerminator();
    for (auto [i, result] : llvm::enumerate(call.getResults())) {
      if (!isF32(result) || (movement ? !anyNarrow : reachesResult(result) || isSum(terminator->getOperand(i))))
        continue;
      builder.setInsertionPoint(terminator);
      Type type = withElement(result.getType(), element);
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
    const Type element = narrow == "f16" ? Type(FloatType::getF16(&getContext())) : FloatType::getBF16(&getContext());
    if (narrow != "f16" && narrow != "bf16") {
      getOperation().emitError() << "option narrow is '" << narrow << "' but must be bf16 or f16";
      return signalPassFailure();
    }
    Legalizer(getOperation(), main, target, element).run();
    RewritePatternSet patterns(&getContext());
    patterns.add<MoveBelowCast, MoveAboveMovement, CancelCasts>(&getContext(), element);
    if (failed(rewriteToEnd(getOperation(), std::move(patterns))))
      return signalPassFailure();
    dropIdentities(getOperation(), main);
  }
};

} // namespace
} // namespace tw::graph
