//===- AttentionMatch.cpp - Attention among calls of kernels --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/AttentionMatch.h"
#include "compiler/codegen/gpu/Elements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>
#include <functional>

using namespace mlir;
using namespace tw;
using namespace tw::gpu;

namespace {

constexpr unsigned kMostHeadSize = 128;

Value resultOf(func::FuncOp function) { return function.getBody().front().getTerminator()->getOperand(0); }

func::FuncOp kernelOf(func::CallOp call, ModuleOp module) {
  auto function = module.lookupSymbol<func::FuncOp>(call.getCallee());
  return function && !function.isExternal() && call.getNumResults() == 1 ? function : func::FuncOp();
}

/// The call that makes `value`, perhaps reshaped, if nobody else reads it.
func::CallOp onlyProducer(Value value) {
  while (value.hasOneUse()) {
    Operation *op = value.getDefiningOp();
    if (auto call = dyn_cast_or_null<func::CallOp>(op))
      return call;
    if (!isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return {};
}

bool dependsOn(Value value, Value source) {
  Operation *op = value.getDefiningOp();
  return value == source || (op && llvm::any_of(op->getOperands(), [&](Value operand) { return dependsOn(operand, source); }));
}

/// Whether an element of `value` needs one element of `source`, at the same place.
bool isElementOf(Value value, Value source) {
  if (value == source)
    return true;
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  if (!op || op.getNumReductionLoops() || op->getNumResults() != 1 ||
      !op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity())
    return false;
  return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
    return !dependsOn(operand.get(), source) ||
           (op.getMatchingIndexingMap(&operand).isIdentity() && isElementOf(operand.get(), source));
  });
}

/// The ops of `value` that sum.
llvm::SetVector<Operation *> reductionsOf(Value value) {
  llvm::SetVector<Operation *> found;
  llvm::DenseSet<Operation *> seen;
  std::function<void(Value)> visit = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert(op).second)
      return;
    if (auto generic = dyn_cast<linalg::LinalgOp>(op); generic && generic.getNumReductionLoops())
      found.insert(op);
    for (Value operand : op->getOperands())
      visit(operand);
  };
  visit(value);
  return found;
}

/// What makes what the op yields.
Operation *yielded(linalg::LinalgOp op) { return op.getBlock()->getTerminator()->getOperand(0).getDefiningOp(); }

/// Behind conversions between float types.
Value unconverted(Value value) {
  while (isa_and_nonnull<arith::ExtFOp, arith::TruncFOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// Behind ops that only convert a tensor between float types.
Value unconvertedTensor(Value value) {
  for (;;) {
    auto op = value.getDefiningOp<linalg::LinalgOp>();
    if (!op || op.getNumReductionLoops() || op.getNumDpsInputs() != 1 || op->getNumResults() != 1 ||
        !llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) { return map.isIdentity(); }) ||
        unconverted(op.getBlock()->getTerminator()->getOperand(0)) != op.getBlock()->getArgument(0))
      return value;
    value = op.getDpsInputOperand(0)->get();
  }
}

bool isFilledWith(Value value, llvm::function_ref<bool(const llvm::APFloat &)> is) {
  if (auto fill = value.getDefiningOp<linalg::FillOp>())
    value = fill.value();
  llvm::APFloat number(0.0f);
  return matchPattern(value, m_ConstantFloat(&number)) && is(number);
}

/// Rows of a tensor reduced: the operand, if `op` is such a reduction with this combination.
template <typename CombinationT> Value rowsReducedBy(Value value, llvm::function_ref<bool(const llvm::APFloat &)> isInitial) {
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  if (!op || op.getNumReductionLoops() != 1 || op.getNumDpsInputs() != 1 || op->getNumResults() != 1 ||
      !isFilledWith(op.getDpsInitOperand(0)->get(), isInitial))
    return {};
  const unsigned last = op.getNumLoops() - 1;
  if (!linalg::isReductionIterator(op.getIteratorTypesArray()[last]) ||
      !op.getMatchingIndexingMap(op.getDpsInputOperand(0)).isIdentity())
    return {};
  auto combination = dyn_cast_or_null<CombinationT>(yielded(op));
  Block &body = *op.getBlock();
  if (!combination)
    return {};
  Value a = unconverted(combination.getLhs()), b = unconverted(combination.getRhs());
  const Value in = body.getArgument(0), out = body.getArgument(1);
  return (a == in && b == out) || (a == out && b == in) ? op.getDpsInputOperand(0)->get() : Value();
}

/// A generic of a tensor and of one number for each of its rows, in this order.
linalg::LinalgOp ofTensorAndRows(Value value) {
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  if (!op || op.getNumReductionLoops() || op.getNumDpsInputs() != 2 || op->getNumResults() != 1)
    return {};
  const unsigned rank = op.getNumLoops();
  const AffineMap all = AffineMap::getMultiDimIdentityMap(rank, op.getContext());
  return op.getMatchingIndexingMap(op.getDpsInputOperand(0)) == all &&
                 op.getMatchingIndexingMap(op.getDpsInputOperand(1)) == all.dropResult(rank - 1) &&
                 op.getMatchingIndexingMap(op.getDpsInitOperand(0)) == all
             ? op
             : linalg::LinalgOp();
}

/// Whether the function is the softmax of its argument's rows.
bool isSoftmax(func::FuncOp function) {
  if (function.getNumArguments() != 1)
    return false;
  linalg::LinalgOp quotient = ofTensorAndRows(unconvertedTensor(resultOf(function)));
  auto division = quotient ? dyn_cast_or_null<arith::DivFOp>(yielded(quotient)) : arith::DivFOp();
  if (!division || division.getLhs() != quotient.getBlock()->getArgument(0) ||
      division.getRhs() != quotient.getBlock()->getArgument(1))
    return false;
  const Value exponentials = quotient.getDpsInputOperand(0)->get();
  if (rowsReducedBy<arith::AddFOp>(quotient.getDpsInputOperand(1)->get(), [](const llvm::APFloat &x) { return x.isZero(); }) !=
      exponentials)
    return false;
  linalg::LinalgOp shifted = ofTensorAndRows(exponentials);
  auto exp = shifted ? dyn_cast_or_null<math::ExpOp>(yielded(shifted)) : math::ExpOp();
  auto difference = exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  if (!difference || unconverted(difference.getLhs()) != shifted.getBlock()->getArgument(0) ||
      difference.getRhs() != shifted.getBlock()->getArgument(1))
    return false;
  const Value x = shifted.getDpsInputOperand(0)->get();
  return rowsReducedBy<arith::MaximumFOp>(shifted.getDpsInputOperand(1)->get(),
                                          [](const llvm::APFloat &x) { return x.isInfinity() && x.isNegative(); }) == x &&
         unconvertedTensor(x) == function.getArgument(0);
}

/// The number that elements of `value` are those of `source` times, if they are.
std::optional<double> scaleOf(Value value, Value source) {
  if (value == source)
    return 1;
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  if (!op || op.getNumReductionLoops() || op->getNumResults() != 1)
    return std::nullopt;
  auto constantOf = [&](Value scalar) -> std::optional<double> {
    scalar = unconverted(scalar);
    if (auto argument = dyn_cast<BlockArgument>(scalar);
        argument && argument.getOwner() == op.getBlock() && argument.getArgNumber() < op.getNumDpsInputs()) {
      scalar = op.getDpsInputOperand(argument.getArgNumber())->get();
      DenseElementsAttr all;
      if (matchPattern(scalar, m_Constant(&all)) && all.isSplat() && isa<FloatType>(all.getElementType()))
        return all.getSplatValue<llvm::APFloat>().convertToDouble();
    }
    llvm::APFloat number(0.0f);
    if (matchPattern(scalar, m_ConstantFloat(&number)))
      return number.convertToDouble();
    return std::nullopt;
  };
  std::function<std::optional<double>(Value)> factorOf = [&](Value scalar) -> std::optional<double> {
    scalar = unconverted(scalar);
    if (auto argument = dyn_cast<BlockArgument>(scalar))
      return argument.getOwner() == op.getBlock() && argument.getArgNumber() < op.getNumDpsInputs()
                 ? scaleOf(op.getDpsInputOperand(argument.getArgNumber())->get(), source)
                 : std::nullopt;
    Operation *inner = scalar.getDefiningOp();
    if (!isa_and_nonnull<arith::MulFOp, arith::DivFOp>(inner))
      return std::nullopt;
    std::optional<double> left = factorOf(inner->getOperand(0)), right = constantOf(inner->getOperand(1));
    if (left && right)
      return isa<arith::DivFOp>(inner) ? *left / *right : *left * *right;
    left = constantOf(inner->getOperand(0));
    right = isa<arith::MulFOp>(inner) ? factorOf(inner->getOperand(1)) : std::nullopt;
    return left && right ? std::optional(*left * *right) : std::nullopt;
  };
  return factorOf(op.getBlock()->getTerminator()->getOperand(0));
}

/// A product of two arguments, whose elements the function may change one by one.
std::optional<Contraction> productOfArguments(func::FuncOp function) {
  const llvm::SetVector<Operation *> reductions = reductionsOf(resultOf(function));
  if (reductions.size() != 1)
    return std::nullopt;
  auto op = cast<linalg::LinalgOp>(reductions.front());
  if (op->getNumResults() != 1 || !isElementOf(resultOf(function), op->getResult(0)))
    return std::nullopt;
  Match match = matchContraction(op);
  if (!match.contraction || match.contraction->window || match.contraction->zeroPoint ||
      !isa<BlockArgument>(match.contraction->a) || !isa<BlockArgument>(match.contraction->b))
    return std::nullopt;
  return match.contraction;
}

Value operandFor(func::CallOp call, Value argument) { return call.getOperand(cast<BlockArgument>(argument).getArgNumber()); }

AttentionOrNot no(const llvm::Twine &why) { return {std::nullopt, why.str()}; }

} // namespace

AttentionOrNot gpu::matchAttention(func::CallOp context, ModuleOp module) {
  AttentionMatch match;
  func::FuncOp function = kernelOf(context, module);
  std::optional<Contraction> product = function ? productOfArguments(function) : std::nullopt;
  if (!product)
    return no("");
  match.context = *product;
  func::CallOp softmax = onlyProducer(operandFor(context, product->a));
  func::FuncOp softmaxKernel = softmax ? kernelOf(softmax, module) : func::FuncOp();
  if (!softmaxKernel || !isSoftmax(softmaxKernel) || tensorOf(softmax.getResult(0)).getShape().back() != product->depth)
    return no("");
  match.calls = {softmax, context};
  // From here on it looks like attention.
  Value value = softmax.getOperand(0);
  for (;;) {
    func::CallOp call = onlyProducer(value);
    func::FuncOp kernel = call ? kernelOf(call, module) : func::FuncOp();
    if (!kernel)
      return no("the scores are needed elsewhere");
    match.calls.insert(match.calls.begin(), call);
    if (std::optional<Contraction> scores = productOfArguments(kernel)) {
      match.scores = *scores;
      match.steps.insert(match.steps.begin(), {scores->op->getResult(0), resultOf(kernel)});
      break;
    }
    BlockArgument source;
    for (BlockArgument argument : kernel.getArguments())
      if (auto type = dyn_cast<RankedTensorType>(argument.getType());
          type && type.getShape() == tensorOf(resultOf(kernel)).getShape() && onlyProducer(operandFor(call, argument)) &&
          dependsOn(resultOf(kernel), argument) && isElementOf(resultOf(kernel), argument))
        source = argument;
    if (!source || !reductionsOf(resultOf(kernel)).empty())
      return no("the scores are no product, changed element by element");
    match.steps.insert(match.steps.begin(), {source, resultOf(kernel)});
    value = operandFor(call, source);
  }
  const Contraction &scores = match.scores, &values = match.context;
  if ((scores.element != Element::Bf16 && scores.element != Element::F16) || values.element != scores.element ||
      elementOf(tensorOf(context.getResult(0)).getElementType()) != scores.element)
    return no("it is not in bfloat16 or float16");
  if (unconvertedTensor(resultOf(function)) != values.op->getResult(0))
    return no("its result is changed in the same kernel");
  if (scores.batches != values.batches || scores.rows != values.rows || scores.columns != values.depth)
    return no("its products have different batches");
  if (values.columns % 16 || values.columns > kMostHeadSize || scores.depth != values.columns)
    return no("its heads have " + llvm::Twine(scores.depth) + " and " + llvm::Twine(values.columns) +
              " columns, not equal multiples of 16 up to " + llvm::Twine(kMostHeadSize));
  double scale = 1;
  for (const AttentionMatch::Step &step : match.steps)
    scale *= scaleOf(step.result, step.source).value_or(NAN);
  if (scale > 0 && std::isfinite(scale))
    match.scale = scale;
  match.queries = operandFor(match.calls.front(), scores.a);
  match.keys = operandFor(match.calls.front(), scores.b);
  match.values = operandFor(context, values.b);
  return {std::move(match), ""};
}
