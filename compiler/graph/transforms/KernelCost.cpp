//===- KernelCost.cpp - What a kernel to be costs -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/KernelCost.h"
#include "compiler/graph/transforms/Constants.h"
#include "compiler/graph/transforms/Rewriting.h"
#include "compiler/graph/transforms/RuleCost.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <optional>

using namespace mlir;

namespace tw::graph {
namespace {

double elementsOf(Value value) { return double(tensorOf(value).getNumElements()); }
/// Floats between kernels are of the array's type.
double elementBytes(Value value, const ArrayMachine &machine) {
  const Type type = elementOf(value);
  return type.isF32() && machine.type == "bf16" ? 2 : double(llvm::divideCeil(type.getIntOrFloatBitWidth(), 8));
}
double bytesOf(Value value, const ArrayMachine &machine) { return elementsOf(value) * elementBytes(value, machine); }

/// A contraction on the array as `batches` products of [rows, ...] with [..., columns].
struct Product {
  Value input, weights;
  double batches = 1, rows = 1, columns = 1;
};

std::optional<Product> productOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<Product>>(op)
      .Case<ConvOp, ConvIntegerOp>([](auto conv) -> std::optional<Product> {
        if (isDepthwise(conv))
          return std::nullopt;
        const double columns = double(shapeOf(conv.getW())[conv.getLayout() == "nhwc" ? 3 : 0]),
                     groups = double(conv.getGroup());
        return Product{conv.getX(), conv.getW(), groups, elementsOf(conv.getY()) / columns, columns / groups};
      })
      .Case<MatmulOp, MatmulIntegerOp>([](auto matmul) -> std::optional<Product> {
        ArrayRef<int64_t> a = shapeOf(matmul.getA()), b = shapeOf(matmul.getB());
        if (a.empty() || b.size() < 2)
          return std::nullopt;
        const double columns = double(b.back()), matrices = elementsOf(matmul.getB()) / double(b.back() * b[b.size() - 2]);
        return Product{matmul.getA(), matmul.getB(), matrices, elementsOf(matmul.getY()) / columns / matrices, columns};
      })
      .Default([](Operation *) { return std::nullopt; });
}

/// Bytes of the operands of `product` that come from DRAM. `besides`: bytes that each sum of a tile takes in the scratchpad.
double operandBytes(const Product &product, double besides, bool wholeRows, const ArrayMachine &machine) {
  const double input = bytesOf(product.input, machine), weights = bytesOf(product.weights, machine);
  const double sums = double(machine.sums) / 2, room = double(machine.scratchpad) / 2;
  double least = std::numeric_limits<double>::infinity();
  for (double columns = double(machine.columns);; columns *= 2) {
    const bool isLast = columns >= product.columns;
    columns = std::min(columns, product.columns);
    if (isLast || !wholeRows) {
      const double rows = std::clamp(std::floor(sums / columns), 1.0, product.rows);
      const double left = room - rows * columns * besides;
      const double rowTiles = std::ceil(product.rows / rows), columnTiles = std::ceil(product.columns / columns);
      // Of a matrix of the batch: what stays while the other operand passes, all of it or the tile's part.
      const double inputs = input / product.batches, columnsOfAll = weights / product.batches;
      if (inputs <= left || columnsOfAll <= left)
        least = std::min(least, input + weights);
      least = std::min(least, input * (inputs / rowTiles <= left ? 1 : columnTiles) + weights * rowTiles);
      least = std::min(least, input * columnTiles + weights * (columnsOfAll / columnTiles <= left ? 1 : rowTiles));
    }
    if (isLast)
      return least;
  }
}

} // namespace

KernelCost kernelCostOf(ArrayRef<Operation *> ops, Operation *output, const ArrayMachine &machine) {
  const llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  KernelCost cost;
  std::optional<Product> product;
  bool wholeRows = false;
  llvm::SmallSetVector<Value, 8> read;
  double window = 0; // vector cycles of what reads more elements than it makes
  for (Operation *op : ops) {
    for (Value operand : op->getOperands())
      if (!inside.contains(operand.getDefiningOp()))
        read.insert(operand);
    if (std::optional<Product> found = productOf(op)) {
      product = found;
      const double passes = computeCycles(op, machine) / std::max(found->rows, 1.0); // tiles of weights
      cost.array += passes * std::max(found->rows, double(machine.preloadCycles));
    } else if (!isElementwise(op) && !isa<ReshapeOp, TransposeOp, SliceOp, PadOp, ConcatOp>(op)) {
      wholeRows |= isa<SoftmaxOp, QLinearSoftmaxOp, LayerNormOp>(op);
      window += computeCycles(op, machine);
    }
  }
  // The anchor's operands may be views of what the kernel reads.
  auto sourceOf = [&](Value value) {
    while (Operation *op = inside.contains(value.getDefiningOp()) ? value.getDefiningOp() : nullptr)
      value = op->getOperand(0);
    return value;
  };
  unsigned tensors = 0; // beside the anchor's
  double besides = 0;
  for (Value value : read) {
    if (product && (value == sourceOf(product->input) || value == sourceOf(product->weights)))
      continue;
    cost.dram += bytesOf(value, machine);
    if (constantOf(value) && elementsOf(value) < elementsOf(output->getResult(0)))
      continue;
    ++tensors;
    besides += elementBytes(value, machine);
  }
  double results = 0;
  for (Value result : output->getResults()) {
    results = std::max(results, elementsOf(result));
    cost.dram += bytesOf(result, machine);
    besides += elementBytes(result, machine);
  }
  if (product)
    cost.dram += operandBytes(*product, besides, wholeRows, machine);
  cost.dram /= machine.dramBytes;
  cost.vector = window + results / double(machine.columns) * double(std::max(1u, (tensors + 1) / 2));
  return cost;
}

} // namespace tw::graph
