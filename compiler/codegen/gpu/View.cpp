//===- View.cpp - How a tensor lies in another one ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/gpu/View.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

#include <functional>

using namespace tw;
using namespace tw::gpu;

/// Adds a run that lies inside of those before.
static void append(Runs &runs, Run run) {
  if (run.size == 1)
    return;
  if (!runs.empty() && runs.back().stride == run.size * run.stride) {
    runs.back() = {runs.back().size * run.size, run.stride};
    return;
  }
  runs.push_back(run);
}

View View::dense(llvm::ArrayRef<int64_t> shape) {
  View view;
  view.runs.resize(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    append(view.runs[i], {shape[i], stride});
    stride *= shape[i];
  }
  return view;
}

int64_t View::sizeOf(unsigned dim) const {
  int64_t size = 1;
  for (const Run &run : runs[dim])
    size *= run.size;
  return size;
}

Runs View::merged(llvm::ArrayRef<unsigned> dims) const {
  Runs all;
  for (unsigned dim : dims)
    for (const Run &run : runs[dim])
      append(all, run);
  return all;
}

View View::permuted(llvm::ArrayRef<int64_t> perm) const {
  View view;
  for (int64_t dim : perm)
    view.runs.push_back(runs[size_t(dim)]);
  return view;
}

/// Takes the inner places of `runs`, of this size. Nothing if no run ends there.
static std::optional<Runs> takeInner(Runs &runs, int64_t size) {
  llvm::SmallVector<Run> taken; // innermost first
  while (size > 1) {
    if (runs.empty())
      return std::nullopt;
    Run &last = runs.back();
    if (last.size <= size) {
      if (size % last.size)
        return std::nullopt;
      size /= last.size;
      taken.push_back(last);
      runs.pop_back();
      continue;
    }
    if (last.size % size)
      return std::nullopt;
    taken.push_back({size, last.stride});
    last = {last.size / size, last.stride * size};
    size = 1;
  }
  Runs result;
  for (const Run &run : llvm::reverse(taken))
    append(result, run);
  return result;
}

std::optional<View> View::reshaped(llvm::ArrayRef<int64_t> shape) const {
  Runs left = merged(llvm::to_vector(llvm::seq<unsigned>(0, unsigned(runs.size()))));
  View view;
  view.runs.resize(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    std::optional<Runs> taken = takeInner(left, shape[i]);
    if (!taken)
      return std::nullopt;
    view.runs[i] = std::move(*taken);
  }
  return left.empty() ? std::optional(view) : std::nullopt;
}

std::optional<View> View::inverse(llvm::ArrayRef<int64_t> denseShape) const {
  struct Pair {
    Run here;
    int64_t stride; ///< where this view lies dense
  };
  llvm::SmallVector<Pair> pairs;
  int64_t stride = 1;
  for (const Runs &dim : llvm::reverse(runs))
    for (const Run &run : llvm::reverse(dim)) {
      pairs.push_back({run, stride});
      stride *= run.size;
    }
  llvm::stable_sort(pairs, [](const Pair &a, const Pair &b) { return a.here.stride < b.here.stride; });
  int64_t behind = 1;
  for (const Pair &pair : pairs) {
    if (pair.here.stride != behind)
      return std::nullopt;
    behind *= pair.here.size;
  }
  View view;
  view.runs.resize(1);
  for (const Pair &pair : llvm::reverse(pairs))
    append(view.runs[0], {pair.here.size, pair.stride});
  return view.reshaped(denseShape);
}

std::optional<View> gpu::viewOfResult(mlir::func::FuncOp function, const View &argument) {
  if (function.isExternal() || function.getNumArguments() != 1 || function.getNumResults() != 1)
    return std::nullopt;
  std::function<std::optional<View>(mlir::Value)> viewOf = [&](mlir::Value value) -> std::optional<View> {
    if (value == function.getArgument(0))
      return argument;
    mlir::Operation *op = value.getDefiningOp();
    if (!llvm::isa_and_nonnull<mlir::linalg::TransposeOp, mlir::tensor::ExpandShapeOp, mlir::tensor::CollapseShapeOp>(op))
      return std::nullopt;
    std::optional<View> source = viewOf(op->getOperand(0));
    if (!source)
      return std::nullopt;
    if (auto transpose = llvm::dyn_cast<mlir::linalg::TransposeOp>(op))
      return source->permuted(transpose.getPermutation());
    return source->reshaped(llvm::cast<mlir::RankedTensorType>(value.getType()).getShape());
  };
  return viewOf(function.getBody().front().getTerminator()->getOperand(0));
}

std::optional<StridedMatrices> gpu::matricesOf(const View &view, llvm::ArrayRef<unsigned> batch, llvm::ArrayRef<unsigned> rows,
                                               llvm::ArrayRef<unsigned> columns) {
  const Runs rowRuns = view.merged(rows), columnRuns = view.merged(columns);
  if (rowRuns.size() > 1 || columnRuns.size() > 1 || (!columnRuns.empty() && columnRuns[0].stride != 1))
    return std::nullopt;
  StridedMatrices matrices;
  if (!columnRuns.empty())
    matrices.columns = columnRuns[0].size;
  matrices.rowStride = matrices.columns;
  if (!rowRuns.empty()) {
    matrices.rows = rowRuns[0].size;
    matrices.rowStride = rowRuns[0].stride;
  }
  matrices.batch = view.merged(batch);
  return matrices;
}

bool gpu::splitBatch(StridedMatrices &matrices, int64_t outer, int64_t inner) {
  Runs left = matrices.batch;
  std::optional<Runs> innerRuns = takeInner(left, inner), outerRuns = innerRuns ? takeInner(left, outer) : std::nullopt;
  if (!outerRuns || !left.empty() || innerRuns->size() > 1 || outerRuns->size() > 1)
    return false;
  const Run innerRun = innerRuns->empty() ? Run{1, matrices.rows * matrices.rowStride} : (*innerRuns)[0];
  const Run outerRun = outerRuns->empty() ? Run{1, innerRun.size * innerRun.stride} : (*outerRuns)[0];
  matrices.batch = {outerRun, innerRun};
  return true;
}
