//===- SwapOperands.cpp - Products of one row ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/cost/Constants.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Passes.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tw::graph {

#define GEN_PASS_DEF_SWAPOPERANDSPASS
#include "compiler/graph/transforms/Passes.h.inc"

namespace {
/// The same op on columns: `row`, [1, n], has become `column`, [n, 1]. Null if it is not made element by element, or of other values.
Operation *onColumn(OpBuilder &builder, Operation *op, Value row, Value column) {
  if (!isElementwise(op) || shapeOf(op->getResult(0)) != shapeOf(row))
    return nullptr;
  IRMapping mapping;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    const bool isBias = i == 1 && isa<RequantizeOp>(op); // a vector in either form
    if (operand == row)
      mapping.map(operand, column);
    else if (!constantOf(operand))
      return nullptr;
    else if (tensorOf(operand).getNumElements() > 1 && !isBias)
      mapping.map(operand, createReshape(builder, op->getLoc(), operand, shapeOf(column)));
  }
  Operation *copy = builder.clone(*op, mapping);
  copy->getResult(0).setType(tensorOf(op->getResult(0)).clone(shapeOf(column)));
  if (hasChannelAxis(op))
    copy->setAttr("axis", builder.getI64IntegerAttr(0));
  return copy;
}

/// Whether each element has a bias and a multiplier of its own. As columns these are tensors; the vector engine has one beside the sums.
bool hasTwoPerElement(Operation *op) {
  auto requantize = dyn_cast<RequantizeOp>(op);
  return requantize && requantize.getBias() && requantize.getMultipliers().size() > 1;
}

/// The bias of such elements becomes an addition, exact as it wraps in both forms.
void addBiasFirst(RequantizeOp op) {
  OpBuilder builder(op);
  Value addend = builder.create<ConstantOp>(op.getLoc(), reshapeConstant(constantOf(op.getBias()), shapeOf(op.getX())));
  op.getXMutable().assign(builder.create<AddOp>(op.getLoc(), op.getX().getType(), op.getX(), addend));
  op.getBiasMutable().clear();
}

struct SwapOperandsPass : impl::SwapOperandsPassBase<SwapOperandsPass> {
  using SwapOperandsPassBase::SwapOperandsPassBase;
  SwapOperandsPass(const SwapOperandsPassOptions &options, RuleRecorder recorder)
      : SwapOperandsPassBase(options), recorder(std::move(recorder)) {}

  /// Whether a product of one row and [depth, width] takes less time with its operands swapped.
  bool pays(int64_t depth, int64_t width) const {
    const int64_t bytes = array == "int8" ? 1 : array == "bf16" ? 2 : 4;
    const double transfers = double(depth * width * bytes) / dramBytes;
    const int64_t blocks = llvm::divideCeil(depth, rows), tiles = blocks * int64_t(llvm::divideCeil(width, columns));
    const double held = double(tiles * preloadCycles), streamed = double(blocks * std::max<int64_t>(width, preloadCycles));
    return std::max(held, transfers) > cost::kLeastGain * (std::max(streamed, transfers) + double(width));
  }

  template <typename OpT> void swap(OpT op) const {
    ArrayRef<int64_t> a = shapeOf(op.getA()), b = shapeOf(op.getB());
    if (a.size() != 2 || b.size() != 2 || a[0] != 1 || constantOf(op.getA()) || !constantOf(op.getB()) || !pays(b[0], b[1]))
      return;
    if constexpr (std::is_same_v<OpT, MatmulIntegerOp>)
      if (op.getBZeroPoints().size() != 1) // rows of the first operand have one zero point
        return;
    if (llvm::any_of(op->getUsers(), hasTwoPerElement)) {
      auto requantize = dyn_cast<RequantizeOp>(*op->user_begin());
      if (!op->hasOneUse() || !constantOf(requantize.getBias()))
        return;
      addBiasFirst(requantize);
    }
    const Location loc = op.getLoc();
    recorder.add("swapped-operands", nodeNames(loc));
    OpBuilder builder(op);
    Value weights = createTranspose(builder, loc, op.getB(), {1, 0});
    Value x = createReshape(builder, loc, op.getA(), {a[1], 1});
    const auto type = tensorOf(op.getY()).clone({b[1], 1});
    Value column;
    if constexpr (std::is_same_v<OpT, MatmulIntegerOp>)
      column =
          builder.create<OpT>(loc, type, weights, x, op.getBZeroPoints()[0], ArrayRef<int32_t>{int32_t(op.getAZeroPoint())});
    else
      column = builder.create<OpT>(loc, type, weights, x);
    // What is made of each element goes along, so that it stays in the product's kernel.
    std::vector<Operation *> replaced = {op};
    while (replaced.back()->hasOneUse()) {
      Operation *user = *replaced.back()->getUsers().begin();
      builder.setInsertionPoint(user);
      Operation *moved = onColumn(builder, user, replaced.back()->getResult(0), column);
      if (!moved)
        break;
      column = moved->getResult(0);
      replaced.push_back(user);
    }
    Value row = replaced.back()->getResult(0);
    builder.setInsertionPointAfter(replaced.back());
    row.replaceAllUsesWith(createReshape(builder, loc, column, shapeOf(row)));
    for (Operation *dead : llvm::reverse(replaced))
      dead->erase();
  }

  void runOnOperation() override {
    std::vector<Operation *> products;
    getOperation().walk([&](Operation *op) {
      if (isa<MatmulOp, MatmulIntegerOp>(op))
        products.push_back(op);
    });
    for (Operation *op : products)
      llvm::TypeSwitch<Operation *>(op).Case<MatmulOp, MatmulIntegerOp>([&](auto product) { swap(product); });
    recorder.finish();
  }

private:
  RuleRecorder recorder;
};

} // namespace

std::unique_ptr<Pass> createSwapOperandsPass(const SwapOperandsPassOptions &options, const RuleRecorder &recorder) {
  return std::make_unique<SwapOperandsPass>(options, recorder);
}

} // namespace tw::graph
