//===- GraphMacs.cpp - Products of a network ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "runtime/GraphMacs.h"
#include "compiler/cost/Contraction.h"
#include "compiler/graph/Graph.h"

using namespace tw;

static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getShape();
}

template <typename Conv> static uint64_t macsOfConv(Conv op) {
  llvm::ArrayRef<int64_t> x = shapeOf(op.getX()), w = shapeOf(op.getW()), y = shapeOf(op.getY());
  const bool isChannelsLast = op.getLayout() == "nhwc";
  const size_t row = isChannelsLast ? 1 : 2, tap = isChannelsLast ? 0 : 2;
  // Input channels of a group and output channels.
  uint64_t macs = uint64_t(y[0]) * uint64_t(isChannelsLast ? w[2] * w[3] : w[0] * w[1]);
  for (size_t i = 0; i < 2; ++i) {
    cost::PositionAxis axis;
    axis.size = y[row + i];
    axis.kernel = w[tap + i];
    axis.stride = op.getStrides()[i];
    axis.dilation = op.getDilations()[i];
    axis.padLow = op.getPads()[i];
    axis.inputSize = x[row + i];
    uint64_t pairs = 0;
    for (auto [taps, outputs] : cost::tapsOfOutputs(axis))
      pairs += taps * outputs;
    macs *= pairs;
  }
  return macs;
}

/// A product over the last dim of `a`.
static uint64_t macsOfProduct(mlir::Value a, mlir::Value y) {
  return uint64_t(llvm::cast<mlir::RankedTensorType>(y.getType()).getNumElements()) * uint64_t(shapeOf(a).back());
}

uint64_t runtime::countMacs(mlir::Operation *scope) {
  uint64_t macs = 0;
  scope->walk([&](mlir::Operation *op) {
    if (auto conv = llvm::dyn_cast<graph::ConvOp>(op))
      macs += macsOfConv(conv);
    else if (auto conv = llvm::dyn_cast<graph::ConvIntegerOp>(op))
      macs += macsOfConv(conv);
    else if (auto product = llvm::dyn_cast<graph::MatmulOp>(op))
      macs += macsOfProduct(product.getA(), product.getY());
    else if (auto product = llvm::dyn_cast<graph::MatmulIntegerOp>(op))
      macs += macsOfProduct(product.getA(), product.getY());
  });
  return macs;
}
