//===- Reductions.cpp - The sums that a kernel is made of -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/Reductions.h"
#include "compiler/codegen/gpu/Elements.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace tw;
using namespace tw::gpu;
namespace linalg = mlir::linalg;
namespace func = mlir::func;

/// Whether whoever reads a tensor reads, for an element of its own, the element at the same place.
static bool isReadInPlace(mlir::Value value) {
  return llvm::all_of(value.getUses(), [](mlir::OpOperand &use) {
    auto reader = llvm::dyn_cast<linalg::LinalgOp>(use.getOwner());
    return llvm::isa<func::ReturnOp>(use.getOwner()) || (reader && reader.getMatchingIndexingMap(&use).isIdentity());
  });
}

/// The reduction whose dims n, h, w, group, column `value` has as n, h, w, channel.
static linalg::LinalgOp reductionOfGroups(mlir::Value value) {
  auto collapse = value.getDefiningOp<mlir::tensor::CollapseShapeOp>();
  if (!collapse || collapse.getSrcType().getRank() != 5 || collapse.getResultType().getRank() != 4 ||
      collapse.getReassociationIndices().back().size() != 2 || !collapse.getSrc().hasOneUse())
    return {};
  auto op = collapse.getSrc().getDefiningOp<linalg::LinalgOp>();
  return op && op.getNumReductionLoops() ? op : linalg::LinalgOp();
}

static linalg::LinalgOp reductionBehind(mlir::Value value, bool isRoot, bool ofGroups) {
  if (ofGroups)
    if (linalg::LinalgOp grouped = reductionOfGroups(value))
      return isRoot || isReadInPlace(value) ? grouped : linalg::LinalgOp();
  auto op = value.getDefiningOp<linalg::LinalgOp>();
  if (!op)
    return {};
  if (op.getNumReductionLoops())
    return !ofGroups && (isRoot || isReadInPlace(value)) ? op : linalg::LinalgOp();
  const auto result = llvm::cast<mlir::OpResult>(value);
  if (!op.getMatchingIndexingMap(op.getDpsInitOperand(result.getResultNumber())).isIdentity())
    return {};
  linalg::LinalgOp found;
  for (mlir::OpOperand *operand : op.getDpsInputOperands()) {
    if (!llvm::isa<mlir::ShapedType>(operand->get().getType()))
      continue;
    if (!op.getMatchingIndexingMap(operand).isIdentity())
      continue;
    if (linalg::LinalgOp behind = reductionBehind(operand->get(), /*isRoot=*/false, ofGroups)) {
      if (found && found != behind)
        return {};
      found = behind;
    }
  }
  return found;
}

linalg::LinalgOp gpu::reductionBehind(mlir::Value root) { return ::reductionBehind(root, /*isRoot=*/true, /*ofGroups=*/false); }

linalg::LinalgOp gpu::groupedReductionBehind(mlir::Value root) {
  return ::reductionBehind(root, /*isRoot=*/true, /*ofGroups=*/true);
}

int64_t gpu::termsOf(linalg::LinalgOp reduction) {
  int64_t terms = 1;
  for (auto [dim, size] : llvm::enumerate(reduction.getStaticLoopRanges()))
    if (linalg::isReductionIterator(reduction.getIteratorTypesArray()[dim]))
      terms *= size;
  return terms;
}

mlir::Operation *gpu::combinerOf(linalg::LinalgOp reduction) {
  if (reduction->getNumResults() != 1)
    return nullptr;
  mlir::BlockArgument out = reduction.getRegionOutputArgs()[0];
  mlir::Operation *combiner = reduction.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
  const bool isKnown =
      combiner &&
      llvm::isa<mlir::arith::AddFOp, mlir::arith::AddIOp, mlir::arith::MaximumFOp, mlir::arith::MinimumFOp>(combiner);
  return isKnown && llvm::is_contained(combiner->getOperands(), out) && out.hasOneUse() ? combiner : nullptr;
}

llvm::SmallVector<linalg::LinalgOp> gpu::rowReductions(mlir::Value root, const llvm::DenseSet<mlir::Value> &inMemory,
                                                       int64_t leastWidth) {
  llvm::ArrayRef<int64_t> shape = tensorOf(root).getShape();
  llvm::SmallVector<linalg::LinalgOp> reductions;
  if (shape.empty() || shape.back() < leastWidth)
    return reductions;
  llvm::DenseSet<mlir::Operation *> seen;
  std::function<bool(mlir::Value)> visit = [&](mlir::Value value) {
    mlir::Operation *op = value.getDefiningOp();
    if (!op || inMemory.contains(value) || llvm::isa<mlir::arith::ConstantOp, mlir::tensor::EmptyOp, linalg::FillOp>(op) ||
        !seen.insert(op).second)
      return true;
    auto generic = llvm::dyn_cast<linalg::LinalgOp>(op);
    if (!generic || generic.getStaticLoopRanges() != llvm::SmallVector<int64_t>(shape) || generic->getNumResults() != 1)
      return false;
    const unsigned rank = unsigned(shape.size());
    auto isRow = [&](mlir::AffineMap map) {
      if (map.getNumResults() != rank - 1)
        return false;
      for (unsigned i = 0; i + 1 < rank; ++i)
        if (map.getResult(i) != mlir::getAffineDimExpr(i, map.getContext()))
          return false;
      return true;
    };
    mlir::AffineMap out = generic.getMatchingIndexingMap(generic.getDpsInitOperand(0));
    if (generic.getNumReductionLoops() ? !isRow(out) || !combinerOf(generic) : !out.isIdentity())
      return false;
    for (mlir::OpOperand *operand : generic.getDpsInputOperands()) {
      if (!llvm::isa<mlir::ShapedType>(operand->get().getType()))
        continue;
      auto inner = operand->get().getDefiningOp<linalg::LinalgOp>();
      const bool isReduced = inner && inner.getNumReductionLoops() && !inMemory.contains(operand->get());
      mlir::AffineMap map = generic.getMatchingIndexingMap(operand);
      if ((isReduced && !isRow(map)) ||
          (inner && !isReduced && !inMemory.contains(operand->get()) && !llvm::isa<linalg::FillOp>(*inner) &&
           !map.isIdentity()) ||
          !visit(operand->get()))
        return false;
    }
    if (generic.getNumReductionLoops())
      reductions.push_back(generic);
    return true;
  };
  if (!visit(root) || llvm::is_contained(reductions, root.getDefiningOp<linalg::LinalgOp>()))
    reductions.clear();
  return reductions;
}
