//===- TensorView.cpp - Where a tensor's elements are ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/TensorView.h"
#include "compiler/codegen/cpu/LoopNest.h"

using namespace mlir;

namespace tw::cpu {

int64_t tensorBytes(RankedTensorType type) { return type.getNumElements() * storageBytes(type.getElementType()); }

SmallVector<int64_t> denseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (int i = static_cast<int>(shape.size()) - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * shape[i + 1];
  return strides;
}

TensorView denseView(RankedTensorType type, Value pointer) {
  TensorView view;
  view.pointer = pointer;
  view.shape.assign(type.getShape().begin(), type.getShape().end());
  view.strides = denseStrides(type.getShape());
  view.element = type.getElementType();
  return view;
}

std::optional<TensorView> collapsed(const TensorView &view, ArrayRef<ReassociationIndices> groups) {
  TensorView to = view;
  to.shape.clear();
  to.strides.clear();
  for (const ReassociationIndices &group : groups) {
    int64_t size = 1, stride = 1;
    bool first = true;
    for (int64_t dim : llvm::reverse(group)) {
      if (view.shape[dim] == 1)
        continue;
      if (first)
        stride = view.strides[dim];
      else if (!view.splat && view.strides[dim] != stride * size)
        return std::nullopt;
      first = false;
      size *= view.shape[dim];
    }
    to.shape.push_back(size);
    to.strides.push_back(stride);
  }
  return to;
}

TensorView expanded(const TensorView &view, ArrayRef<int64_t> shape, ArrayRef<ReassociationIndices> groups) {
  TensorView to = view;
  to.shape.assign(shape.begin(), shape.end());
  to.strides.assign(shape.size(), 1);
  for (auto [dim, group] : llvm::enumerate(groups)) {
    int64_t stride = view.strides[dim];
    for (int64_t part : llvm::reverse(group)) {
      to.strides[part] = stride;
      stride *= shape[part];
    }
  }
  return to;
}

TensorView sliced(TensorView view, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  for (unsigned dim = 0; dim < sizes.size(); ++dim) {
    view.offset += offsets[dim] * view.strides[dim];
    view.strides[dim] *= strides[dim];
    view.shape[dim] = sizes[dim];
  }
  return view;
}

void dropDims(TensorView &view, const llvm::SmallBitVector &dropped) {
  for (int dim = static_cast<int>(dropped.size()) - 1; dim >= 0; --dim)
    if (dropped.test(dim)) {
      view.shape.erase(view.shape.begin() + dim);
      view.strides.erase(view.strides.begin() + dim);
    }
}

LogicalResult linearise(AffineExpr expr, SmallVectorImpl<int64_t> &coefficients, int64_t &constant, int64_t factor) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
    coefficients[dim.getPosition()] += factor;
    return success();
  }
  if (auto number = dyn_cast<AffineConstantExpr>(expr)) {
    constant += factor * number.getValue();
    return success();
  }
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return failure();
  if (binary.getKind() == AffineExprKind::Add)
    return success(succeeded(linearise(binary.getLHS(), coefficients, constant, factor)) &&
                   succeeded(linearise(binary.getRHS(), coefficients, constant, factor)));
  if (binary.getKind() == AffineExprKind::Mul)
    if (auto number = dyn_cast<AffineConstantExpr>(binary.getRHS()))
      return linearise(binary.getLHS(), coefficients, constant, factor * number.getValue());
  return failure();
}

} // namespace tw::cpu
