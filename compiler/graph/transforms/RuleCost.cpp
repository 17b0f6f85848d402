//===- RuleCost.cpp - What ops cost before and after a rewrite ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/RuleCost.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tw::graph {

namespace {

double elementsOf(Value value) { return double(tensorOf(value).getNumElements()); }
double bytesOf(Value value) {
  return elementsOf(value) * double(llvm::divideCeil(elementOf(value).getIntOrFloatBitWidth(), 8));
}

/// Whether it is known at compile time, once constants are folded.
bool isFolded(Value value, unsigned depth = 4) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<ConstantOp>(op))
    return true;
  return op && depth > 0 && op->getNumOperands() > 0 && isPure(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isFolded(operand, depth - 1); });
}

double tiles(int64_t k, int64_t n, const ArrayMachine &machine) {
  return double(llvm::divideCeil(k, machine.rows)) * double(llvm::divideCeil(n, machine.columns));
}

template <typename OpT> double convolution(OpT op, const ArrayMachine &machine) {
  ArrayRef<int64_t> w = shapeOf(op.getW());
  const bool isNhwc = op.getLayout() == "nhwc";
  const int64_t outputs = isNhwc ? w[3] : w[0], inputs = isNhwc ? w[2] : w[1], taps = isNhwc ? w[0] * w[1] : w[2] * w[3];
  if (isDepthwise(op))
    return elementsOf(op.getY()) * double(taps) / double(machine.columns);
  const int64_t groups = int64_t(op.getGroup());
  const double positions = elementsOf(op.getY()) / double(outputs);
  return positions * double(groups) * tiles(inputs * taps, outputs / groups, machine);
}

template <typename OpT> double product(OpT op, const ArrayMachine &machine) {
  ArrayRef<int64_t> a = shapeOf(op.getA()), b = shapeOf(op.getB());
  const int64_t columns = b.size() > 1 ? b.back() : 1;
  return elementsOf(op.getY()) / double(std::max<int64_t>(columns, 1)) * tiles(a.empty() ? 1 : a.back(), columns, machine);
}

template <typename OpT> double window(OpT op, const ArrayMachine &machine) {
  return elementsOf(op.getY()) * double(op.getKernel()[0] * op.getKernel()[1]) / double(machine.columns);
}

/// Whether all that read `value` are in the kernel of the op that makes it.
bool isFused(Value value) {
  Operation *maker = value.getDefiningOp();
  return maker && !isa<ReshapeOp, SliceOp, ConcatOp, TransposeOp, PadOp, GatherOp, FallbackOp>(maker) &&
         llvm::all_of(value.getUsers(), isElementwise);
}

} // namespace

double computeCycles(Operation *op, const ArrayMachine &machine) {
  const double vector = double(machine.columns);
  return llvm::TypeSwitch<Operation *, double>(op)
      .Case<ConvOp, ConvIntegerOp>([&](auto conv) { return convolution(conv, machine); })
      .Case<MatmulOp, MatmulIntegerOp>([&](auto matmul) { return product(matmul, machine); })
      .Case<MaxPoolOp, AveragePoolOp>([&](auto pool) { return window(pool, machine); })
      .Case<ReduceOp>([&](ReduceOp reduce) { return elementsOf(reduce.getX()) / vector; })
      .Case<TransposeOp>([&](TransposeOp transpose) { return elementsOf(transpose.getX()); })
      .Default([&](Operation *) {
        double elements = 0;
        for (Value result : op->getResults())
          elements += elementsOf(result);
        for (Value operand : op->getOperands()) // reductions of other kinds
          elements = isElementwise(op) ? elements : std::max(elements, elementsOf(operand));
        return elements / vector;
      });
}

RuleCost costOf(Block &block, const ArrayMachine &machine) {
  RuleCost cost;
  double bytes = 0;
  llvm::SmallPtrSet<void *, 16> read;
  for (Operation &op : block.without_terminator()) {
    if (isa<ConstantOp>(op) || llvm::all_of(op.getResults(), [](Value result) { return isFolded(result); }))
      continue;
    ++cost.ops;
    if (isa<ReshapeOp>(op))
      continue;
    cost.cycles += computeCycles(&op, machine);
    auto joins = [](Value operand) { return isFused(operand) && !isFolded(operand); };
    if (!isElementwise(&op) || llvm::none_of(op.getOperands(), joins)) // a kernel of its own, whose first operand must arrive
      cost.cycles += double(machine.dramLatency);
    if (isa<SliceOp>(op)) // its part alone
      bytes += bytesOf(op.getResult(0));
    else
      for (Value operand : op.getOperands())
        if (!isFused(operand) && read.insert(operand.getAsOpaquePointer()).second)
          bytes += bytesOf(operand);
    for (Value result : op.getResults())
      if (!isFused(result))
        bytes += bytesOf(result);
  }
  cost.cycles += bytes / machine.dramBytes;
  return cost;
}

} // namespace tw::graph
