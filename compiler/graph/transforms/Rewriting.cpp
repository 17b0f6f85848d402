//===- Rewriting.cpp - Small helpers of the graph passes ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/transforms/Rewriting.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tw::graph {

namespace {
struct RecordingListener : RewriterBase::Listener {
  explicit RecordingListener(const RuleRecorder &recorder) : recorder(recorder) {}
  void notifyPatternBegin(const Pattern &, Operation *op) override { rootLoc = op->getLoc(); }
  void notifyPatternEnd(const Pattern &pattern, LogicalResult status) override {
    if (succeeded(status))
      for (StringRef rule : pattern.getDebugLabels())
        recorder.add(rule.str(), nodeNames(*rootLoc));
  }

  const RuleRecorder &recorder;
  std::optional<Location> rootLoc;
};
} // namespace

LogicalResult rewriteToEnd(Operation *root, RewritePatternSet patterns, const RuleRecorder &recorder) {
  int64_t ops = 0;
  root->walk([&](Operation *) { ++ops; });
  GreedyRewriteConfig config;
  config.maxIterations = GreedyRewriteConfig::kNoLimit;
  config.maxNumRewrites = 1000 + 1000 * ops;
  RecordingListener listener(recorder);
  config.listener = &listener;
  if (succeeded(applyPatternsAndFoldGreedily(root, std::move(patterns), config)))
    return success();
  return root->emitError() << "internal: " << config.maxNumRewrites << " rewrites of " << ops << " ops led to no end";
}

static void collectNames(Location loc, std::vector<std::string> &names) {
  if (auto name = dyn_cast<NameLoc>(loc)) {
    if (!llvm::is_contained(names, name.getName().str()))
      names.push_back(name.getName().str());
  } else if (auto fused = dyn_cast<FusedLoc>(loc)) {
    for (Location part : fused.getLocations())
      collectNames(part, names);
  }
}

std::vector<std::string> nodeNames(Location loc) {
  std::vector<std::string> names;
  collectNames(loc, names);
  return names;
}

Location fuseLocations(ArrayRef<Operation *> ops) {
  SmallVector<Location> locs;
  for (Operation *op : ops)
    if (op && !llvm::is_contained(locs, op->getLoc()))
      locs.push_back(op->getLoc());
  return FusedLoc::get(ops.front()->getContext(), locs);
}

bool isElementwise(Operation *op) {
  return isa<AddOp, SubOp, MulOp, DivOp, MinOp, MaxOp, ReluOp, NegOp, AbsOp, SigmoidOp, TanhOp, HardSwishOp, ExpOp, SqrtOp,
             FloorOp, ErfOp, ClipOp, HardSigmoidOp, LeakyReluOp, CastOp, QuantizeOp, DequantizeOp, RequantizeOp, QLinearAddOp,
             ElementwiseOp>(op);
}

bool hasChannelAxis(Operation *op) {
  if (auto quantize = dyn_cast<QuantizeOp>(op))
    return quantize.getScales().size() > 1;
  if (auto dequantize = dyn_cast<DequantizeOp>(op))
    return dequantize.getScales().size() > 1;
  if (auto requantize = dyn_cast<RequantizeOp>(op))
    return requantize.getMultipliers().size() > 1 || requantize.getBias();
  return false;
}

SmallVector<int64_t> padRank(ArrayRef<int64_t> shape, size_t rank) {
  SmallVector<int64_t> padded(rank - shape.size(), 1);
  padded.append(shape.begin(), shape.end());
  return padded;
}

SmallVector<int64_t> inversePermutation(ArrayRef<int64_t> perm) {
  SmallVector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[perm[i]] = i;
  return inverse;
}

Value createTranspose(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> shape;
  for (int64_t dim : perm)
    shape.push_back(shapeOf(x)[dim]);
  return builder.create<TransposeOp>(loc, RankedTensorType::get(shape, elementOf(x)), x, perm);
}

Value createReshape(OpBuilder &builder, Location loc, Value x, ArrayRef<int64_t> shape) {
  while (auto inner = x.getDefiningOp<ReshapeOp>())
    x = inner.getX();
  if (shapeOf(x) == shape)
    return x;
  return builder.create<ReshapeOp>(loc, RankedTensorType::get(shape, elementOf(x)), x);
}

bool seesPixels(ArrayRef<int64_t> kernel, ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  for (size_t i = 0; i < 4; ++i)
    if (dilations[i % 2] != 1 || pads[i] >= kernel[i % 2])
      return false;
  return true;
}

bool movesOnlyUnitDims(ArrayRef<int64_t> shape, ArrayRef<int64_t> perm) {
  int64_t last = -1;
  for (int64_t dim : perm) {
    if (shape[dim] == 1)
      continue;
    if (dim < last)
      return false;
    last = dim;
  }
  return true;
}

} // namespace tw::graph
