//===- KernelEmitter.cpp - A kernel function as loops ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/KernelEmitter.h"
#include "compiler/codegen/cpu/IntegerProduct.h"
#include "compiler/codegen/cpu/KernelWriter.h"
#include "compiler/codegen/cpu/Lanes.h"
#include "compiler/codegen/cpu/Panels.h"
#include "compiler/codegen/cpu/Placement.h"
#include "compiler/graph/Messages.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace tw::cpu {

llvm::Error errorAt(Operation *op, const llvm::Twine &message) {
  const std::string place = graph::placeOf(op->getLoc());
  return llvm::createStringError(llvm::inconvertibleErrorCode(), (place.empty() ? "unknown place" : place) + ": '" +
                                                                     op->getName().getStringRef() + "' " + message);
}

std::string packSymbolOf(StringRef symbol) { return ("pack_" + symbol).str(); }

const char *storedElements(ElementsAttr elements) {
  auto type = cast<RankedTensorType>(elements.getType());
  ArrayRef<char> data;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements))
    data = resource.getRawHandle().getBlob()->getData();
  else if (auto dense = dyn_cast<DenseElementsAttr>(elements); dense && !dense.isSplat() && !type.getElementType().isInteger(1))
    data = dense.getRawData();
  const int64_t bytes = storageBytes(type.getElementType()) * type.getNumElements();
  return static_cast<int64_t>(data.size()) >= bytes ? data.data() : nullptr;
}

void copyElements(ElementsAttr elements, char *memory) {
  auto type = cast<RankedTensorType>(elements.getType());
  int64_t bytes = storageBytes(type.getElementType()), count = type.getNumElements();
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(elements)) {
    ArrayRef<char> data = resource.getRawHandle().getBlob()->getData();
    std::copy(data.begin(), data.begin() + std::min<int64_t>(data.size(), bytes * count), memory);
    return;
  }
  auto dense = cast<DenseElementsAttr>(elements);
  if (type.getElementType().isInteger(1)) {
    for (bool value : dense.getValues<bool>())
      *memory++ = value;
    return;
  }
  ArrayRef<char> raw = dense.getRawData();
  if (!dense.isSplat()) {
    std::copy(raw.begin(), raw.end(), memory);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::copy(raw.begin(), raw.begin() + bytes, memory + i * bytes);
}

llvm::Error prepareKernel(func::FuncOp kernel) {
  IRRewriter rewriter(kernel.getContext());
  SmallVector<linalg::LinalgOp> named;
  SmallVector<linalg::SoftmaxOp> softmaxes;
  kernel.walk([&](Operation *op) {
    if (auto softmax = dyn_cast<linalg::SoftmaxOp>(op))
      softmaxes.push_back(softmax);
  });
  for (linalg::SoftmaxOp softmax : softmaxes) {
    rewriter.setInsertionPoint(softmax);
    FailureOr<SmallVector<Value>> results = softmax.decomposeOperation(rewriter);
    if (failed(results))
      return errorAt(softmax, "cannot be decomposed");
    rewriter.replaceOp(softmax, *results);
  }
  kernel.walk([&](linalg::LinalgOp op) {
    if (!isa<linalg::GenericOp, linalg::FillOp>(op))
      named.push_back(op);
  });
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    if (failed(linalg::generalizeNamedOp(rewriter, op)))
      return errorAt(op, "cannot be written as linalg.generic");
  }
  // Producers with one consumer only: nothing is computed twice.
  auto mayFuse = [](OpOperand *operand) {
    auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
    auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
    return producer && consumer && producer->hasOneUse() && producer.getNumLoops() == producer.getNumParallelLoops() &&
           consumer.getNumLoops() == consumer.getNumParallelLoops();
  };
  RewritePatternSet patterns(kernel.getContext());
  linalg::populateElementwiseOpsFusionPatterns(patterns, mayFuse);
  if (failed(applyPatternsAndFoldGreedily(kernel, std::move(patterns))))
    return errorAt(kernel, "did not converge while fusing elementwise ops");
  return llvm::Error::success();
}

namespace {

/// The loop of results and the loop of taps that count along a padded dimension: result * step + tap * dilation - low is outside of
/// [0, extent) where only padding is.
struct PaddedLoops {
  int result, tap;
  int64_t step, dilation, low, extent;
};

/// Consecutive results that take the same taps.
struct TapRange {
  int64_t result, results, tap, taps;
};

SmallVector<TapRange> tapRangesOf(const PaddedLoops &padded, int64_t results, int64_t taps) {
  SmallVector<TapRange> ranges;
  for (int64_t result = 0; result < results; ++result) {
    const int64_t start = result * padded.step - padded.low;
    const int64_t first = std::clamp<int64_t>(llvm::divideCeilSigned(-start, padded.dilation), 0, taps);
    const int64_t end =
        std::clamp<int64_t>(llvm::divideFloorSigned(padded.extent - 1 - start, padded.dilation) + 1, first, taps);
    if (!ranges.empty() && ranges.back().tap == first && ranges.back().taps == end - first)
      ++ranges.back().results;
    else
      ranges.push_back({result, 1, first, end - first});
  }
  return ranges;
}

/// Rows at a time that nests are emitted for (findRowGroups()): so many that what they exchange fits the first-level cache, and enough to
/// sum up at the same time.
constexpr int64_t minBlockRows = 4, maxBlockRows = 16, blockBytes = 16 * 1024;
/// What fewer bytes than these are exchanged stays in the cache anyway.
constexpr int64_t minExchangedBytes = 32 * 1024;

/// The first dimension that is more than one element.
std::optional<unsigned> outerDimOf(ArrayRef<int64_t> shape) {
  for (auto [dim, size] : llvm::enumerate(shape))
    if (size != 1)
      return dim;
  return std::nullopt;
}

/// More nests than this are more code than a copy with the padding around it.
constexpr unsigned maxTapRanges = 9;

/// A nest under construction: its last stage's result is the tensor that later stages may consume.
struct PendingNest {
  LoopNest nest;
  /// For each dimension of that tensor, its loop, or -1 where the tensor has extent 1.
  SmallVector<int> resultLoops;
  /// Of a factor of stage 0.
  std::optional<FactorPacking> packing;
  /// Where stage 0 must not read.
  SmallVector<PaddedLoops> padded;
};

SmallVector<PaddedLoops> paddedLoopsOf(linalg::GenericOp op, tensor::PadOp pad);

class KernelEmitter : public KernelWriter {
public:
  using KernelWriter::KernelWriter;

  llvm::Expected<EmittedKernel> emit();

private:
  void findRowGroups(Block &body);
  std::optional<int> rowLoopOf(linalg::GenericOp op, int64_t rows, const llvm::SmallDenseSet<Value> &members) const;
  llvm::Error emitOp(Operation &op);
  llvm::Error emitGeneric(linalg::GenericOp op);
  llvm::Error emitPad(tensor::PadOp op);
  void fillAround(Location loc, const TensorView &padded, ArrayRef<int64_t> low, ArrayRef<int64_t> high, Value padding);
  bool isPaddedAlready(tensor::PadOp op) const;
  TensorView outputView(unsigned index);
  bool leavesOut(tensor::PadOp pad, Attribute padding);
  void emitWithoutPadding(Location loc, const LoopNest &nest, ArrayRef<PaddedLoops> padded);
  llvm::Error emitReturn(func::ReturnOp op);
  llvm::Expected<PendingNest> buildNest(linalg::GenericOp op);
  llvm::Error addTables(linalg::GenericOp op, NestStage &stage, ArrayRef<int> loops, unsigned loopCount);
  llvm::Expected<NestOperand> operandOf(linalg::GenericOp op, OpOperand &use, ArrayRef<int> loops, unsigned loopCount);
  bool isElementwise(linalg::GenericOp op) const { return op.getNumLoops() == op.getNumParallelLoops(); }
  bool canFuse(linalg::GenericOp producer, linalg::GenericOp consumer) const;

  void placeDestinations(Block &body);
  TensorView destinationOf(Value tensor);

  /// Where a tensor that is still to be computed must be written: an output, or a part of another tensor.
  DenseMap<Value, TensorView> destinations;
  /// What is around an argument.
  DenseMap<Value, Placement> surroundings;
  /// Paddings that their only consumer, a reduction, leaves out.
  DenseMap<Operation *, tensor::PadOp> leftOut;
  /// Reductions emitted together with their only consumer.
  DenseMap<Operation *, Operation *> fusedInto;
  /// Ops whose nests are emitted for some rows at a time: the last op and the number of rows.
  struct RowGroup {
    Operation *last = nullptr;
    int64_t rows = 0;
  };
  DenseMap<Operation *, RowGroup> rowGroups;
  /// Nests of the current group, with their loops of rows.
  std::vector<LoopNest> groupNests;
  SmallVector<int> groupLoops;
};

TensorView KernelEmitter::destinationOf(Value tensor) {
  auto it = destinations.find(tensor);
  TensorView view = it != destinations.end() ? it->second : newBuffer(cast<RankedTensorType>(tensor.getType()));
  views[tensor] = view;
  return view;
}

//===----------------------------------------------------------------------===//
// Destinations
//===----------------------------------------------------------------------===//

/// Where a result of the kernel is to be written.
TensorView KernelEmitter::outputView(unsigned index) {
  TensorView view =
      denseView(cast<RankedTensorType>(kernel.getResultTypes()[index]), tablePointer(kernel.getNumArguments() + index));
  if (std::optional<Placement> placement = resultPlacement(kernel, index))
    view.strides = placement->strides;
  return view;
}

/// Lets what is returned, concatenated or padded be written where it is wanted. Walks backwards, so that a destination is known
/// before the ops that compute its parts.
void KernelEmitter::placeDestinations(Block &body) {
  auto claim = [&](Value tensor, const TensorView &view) {
    Operation *producer = tensor.getDefiningOp();
    if (producer &&
        isa<linalg::GenericOp, tensor::PadOp, tensor::ConcatOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(
            producer))
      destinations.try_emplace(tensor, view);
  };
  for (auto [index, operand] : llvm::enumerate(body.getTerminator()->getOperands()))
    claim(operand, outputView(index));
  for (Operation &op : llvm::reverse(body)) {
    if (op.getNumResults() != 1)
      continue;
    auto it = destinations.find(op.getResult(0));
    if (it == destinations.end())
      continue;
    TensorView view = it->second;
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      if (std::optional<TensorView> source = collapsed(view, expand.getReassociationIndices()))
        claim(expand.getSrc(), *source);
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      claim(collapse.getSrc(), expanded(view, collapse.getSrcType().getShape(), collapse.getReassociationIndices()));
    } else if (auto cast = dyn_cast<tensor::CastOp>(op)) {
      claim(cast.getSource(), view);
    } else if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
      SmallVector<int64_t> offsets(view.shape.size(), 0), ones(view.shape.size(), 1);
      for (Value part : concat.getInputs()) {
        auto shape = mlir::cast<RankedTensorType>(part.getType()).getShape();
        claim(part, sliced(view, offsets, shape, ones));
        offsets[concat.getDim()] += shape[concat.getDim()];
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// linalg.generic
//===----------------------------------------------------------------------===//

/// Whether every iteration of `consumer` needs exactly the element that the same iteration of `producer` finishes.
bool KernelEmitter::canFuse(linalg::GenericOp producer, linalg::GenericOp consumer) const {
  if (producer->getNumResults() != 1 || !isElementwise(consumer) || destinations.count(producer.getResult(0)))
    return false;
  Value tensor = producer.getResult(0);
  if (!llvm::all_of(tensor.getUsers(), [&](Operation *user) { return user == consumer; }))
    return false;
  auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
  // The tensor's dimensions are distinct loops of a map; those of extent 1 may be anything.
  auto isPermutation = [&](AffineMap map, ArrayRef<int64_t> extents) {
    llvm::SmallDenseSet<unsigned> seen;
    for (auto [expr, extent] : llvm::zip(map.getResults(), extents)) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (dim ? !seen.insert(dim.getPosition()).second : extent != 1)
        return false;
    }
    return true;
  };
  auto covered = [&](linalg::GenericOp op, AffineMap map) {
    SmallVector<int64_t> ranges = op.getStaticLoopRanges();
    SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
    for (unsigned loop = 0; loop < ranges.size(); ++loop)
      if (kinds[loop] == utils::IteratorType::parallel && ranges[loop] != 1 && !map.isFunctionOfDim(loop))
        return false;
    return true;
  };
  AffineMap written = producer.getMatchingIndexingMap(producer.getDpsInitOperand(0));
  if (!isPermutation(written, shape) || !covered(producer, written))
    return false;
  AffineMap read;
  for (OpOperand *input : consumer.getDpsInputOperands())
    if (input->get() == tensor) {
      AffineMap map = consumer.getMatchingIndexingMap(input);
      if ((read && read != map) || !isPermutation(map, shape) || !covered(consumer, map))
        return false;
      read = map;
    }
  for (OpOperand &init : consumer.getDpsInitsMutable()) {
    AffineMap map = consumer.getMatchingIndexingMap(&init);
    auto extents = cast<RankedTensorType>(init.get().getType()).getShape();
    if (init.get() == tensor || !isPermutation(map, extents) || !covered(consumer, map))
      return false;
  }
  return static_cast<bool>(read);
}

llvm::Expected<NestOperand> KernelEmitter::operandOf(linalg::GenericOp op, OpOperand &use, ArrayRef<int> loops,
                                                     unsigned loopCount) {
  if (isa<RankedTensorType>(use.get().getType()))
    return KernelWriter::operandOf(op, viewOf(use.get()), op.getMatchingIndexingMap(&use), loops, loopCount);
  NestOperand operand;
  operand.element = use.get().getType();
  operand.splat = scalars.lookup(use.get());
  return operand;
}

llvm::Expected<PendingNest> KernelEmitter::buildNest(linalg::GenericOp op) {
  Operation *offender = nullptr;
  if (!isSupportedBody(*op.getBody(), offender))
    return errorAt(offender, "is not supported by the CPU target in the body of a linalg op");
  linalg::GenericOp producer;
  for (Value input : op.getDpsInputs())
    if (auto candidate = input.getDefiningOp<linalg::GenericOp>(); candidate && fusedInto.lookup(candidate) == op)
      producer = candidate;

  PendingNest pending;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  SmallVector<int> loops(ranges.size(), -1);
  int previous = -1;
  LoopNest &nest = pending.nest;
  if (producer) {
    llvm::Expected<PendingNest> inner = buildNest(producer);
    if (!inner)
      return inner.takeError();
    pending = std::move(*inner);
    previous = static_cast<int>(nest.stages.size()) - 1;
    for (OpOperand *input : op.getDpsInputOperands())
      if (input->get() == producer.getResult(0))
        for (auto [expr, loop] : llvm::zip(op.getMatchingIndexingMap(input).getResults(), pending.resultLoops))
          if (auto dim = dyn_cast<AffineDimExpr>(expr))
            loops[dim.getPosition()] = loop;
  } else {
    nest.sizes = ranges;
    for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
      nest.isReduction.push_back(kind != utils::IteratorType::parallel);
      loops[loop] = loop;
    }
    nest.accumulates = !isElementwise(op);
  }

  bool isProduct = false;
  if (nest.accumulates && !producer) {
    llvm::Expected<std::optional<FactorPacking>> built = buildIntegerProduct(*this, op, nest);
    if (!built)
      return built.takeError();
    isProduct = built->has_value();
    pending.packing = isProduct ? *built : packingOf(*this, op);
  }
  NestStage stage(op.getLoc());
  stage.body = op.getBody();
  for (OpOperand &use : isProduct ? MutableArrayRef<OpOperand>() : op->getOpOperands()) {
    bool isInit = op.isDpsInit(&use);
    NestOperand operand;
    if (producer && use.get() == producer.getResult(0) && !isInit) {
      operand.stage = previous;
      operand.element = cast<RankedTensorType>(use.get().getType()).getElementType();
    } else if (!op.payloadUsesValueFromOperand(&use)) {
      // Only its shape matters.
      operand.element = getElementTypeOrSelf(use.get().getType());
    } else {
      llvm::Expected<NestOperand> built = operandOf(op, use, loops, nest.sizes.size());
      if (!built)
        return built.takeError();
      operand = std::move(*built);
      if (!operand.inMemory() && !operand.splat)
        return errorAt(op, "reads elements of a tensor that nothing has written");
    }
    if (isInit && nest.accumulates && !producer && !operand.inMemory() && !operand.splat)
      return errorAt(op, "reduces without using its accumulator, which the CPU target does not support");
    (isInit && nest.accumulates && !producer ? nest.inits : stage.inputs).push_back(operand);
  }
  if (llvm::Error error = addTables(op, stage, loops, nest.sizes.size()))
    return error;
  if (!isProduct)
    nest.stages.push_back(stage);

  if (tensor::PadOp pad = leftOut.lookup(op))
    pending.padded = paddedLoopsOf(op, pad);
  pending.resultLoops.clear();
  for (AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    pending.resultLoops.push_back(dim ? loops[dim.getPosition()] : -1);
  }
  // Stores go by the same loops.
  nest.stores.clear();
  bool isLast = !fusedInto.count(op);
  if (isLast)
    for (auto [index, value] : llvm::enumerate(op->getResults())) {
      TensorView view = destinationOf(value);
      llvm::Expected<NestOperand> to =
          KernelWriter::operandOf(op, view, op.getMatchingIndexingMap(op.getDpsInitOperand(index)), loops, nest.sizes.size());
      if (!to)
        return to.takeError();
      nest.stores.push_back({static_cast<int>(nest.stages.size()) - 1, static_cast<unsigned>(index), *to});
    }
  return pending;
}

/// The tensors of which the body of `op` reads elements at computed places.
llvm::Error KernelEmitter::addTables(linalg::GenericOp op, NestStage &stage, ArrayRef<int> loops, unsigned loopCount) {
  for (auto extract : op.getBody()->getOps<tensor::ExtractOp>()) {
    if (!isElementwise(op))
      return errorAt(extract, "reads computed places in a reduction, which the CPU target does not support");
    TensorView view = viewOf(extract.getTensor());
    NestLookup lookup;
    NestOperand table;
    table.element = extract.getType();
    table.strides.assign(loopCount, 0);
    if (view.splat) {
      TensorView filled = newBuffer(extract.getTensor().getType());
      copy(op.getLoc(), view, filled);
      wait();
      view = filled;
    }
    if (!view.pointer)
      return errorAt(extract, "reads elements of a tensor that nothing has written");
    table.pointer = pointerTo(view);
    table.isTable = true;
    for (auto [index, distance] : llvm::zip(extract.getIndices(), view.strides)) {
      if (auto loop = index.getDefiningOp<linalg::IndexOp>()) {
        if (loops[loop.getDim()] >= 0)
          table.strides[loops[loop.getDim()]] += distance;
      } else {
        lookup.places.emplace_back(index.getDefiningOp<arith::IndexCastOp>().getIn(), distance);
      }
    }
    lookup.table = stage.inputs.size();
    stage.inputs.push_back(table);
    stage.lookups[extract] = std::move(lookup);
  }
  return llvm::Error::success();
}

llvm::Error KernelEmitter::emitGeneric(linalg::GenericOp op) {
  if (!op.hasPureTensorSemantics())
    return errorAt(op, "works on memory, but the CPU target takes tensors");
  if (fusedInto.count(op))
    return llvm::Error::success();
  llvm::Expected<PendingNest> pending = buildNest(op);
  if (!pending)
    return pending.takeError();
  if (auto group = rowGroups.find(op); group != rowGroups.end()) {
    const auto shape = cast<RankedTensorType>(op.getResult(0).getType()).getShape();
    assert(!pending->packing && pending->padded.empty() && "ops with rows in common are no products and have no padding");
    groupNests.push_back(std::move(pending->nest));
    groupLoops.push_back(pending->resultLoops[*outerDimOf(shape)]);
    if (group->second.last != op)
      return llvm::Error::success();
    emitRows(op.getLoc(), groupNests, groupLoops, group->second.rows);
    groupNests.clear();
    groupLoops.clear();
    return llvm::Error::success();
  }
  SmallVector<LoopNest, 2> nests{pending->nest};
  if (pending->packing)
    nests = packInPanels(*this, op.getLoc(), pending->nest, *pending->packing);
  const bool isPacked = nests[0].sizes.size() != pending->nest.sizes.size();
  if (!isPacked && pending->padded.empty()) {
    LoopNest merged = pending->nest;
    mergeLoops(merged);
    if (std::optional<FactorPacking> packing = packingOfComputed(*this, op.getLoc(), merged))
      nests = packInPanels(*this, op.getLoc(), std::move(merged), *packing);
  }
  for (LoopNest &nest : nests)
    emitWithoutPadding(op.getLoc(), nest, pending->padded);
  return llvm::Error::success();
}

/// The loop of `op` along the outer dimension of its result, if that has `rows` iterations and every one of them reads only what the same
/// iteration of `members` has written. A product does not fit in, as its factors may be packed, nor does what leaves out padding.
std::optional<int> KernelEmitter::rowLoopOf(linalg::GenericOp op, int64_t rows,
                                            const llvm::SmallDenseSet<Value> &members) const {
  if (op->getNumResults() != 1 || leftOut.count(op) || !op.getBody()->getOps<tensor::ExtractOp>().empty())
    return std::nullopt;
  // What is emitted with a product of another group is a part of that.
  for (Value input : op.getDpsInputs())
    if (fusedInto.lookup(input.getDefiningOp()) == op && !members.contains(input))
      return std::nullopt;
  auto loopOf = [](AffineMap map, Value tensor) -> std::optional<int> {
    auto shape = cast<RankedTensorType>(tensor.getType()).getShape();
    std::optional<unsigned> outer = outerDimOf(shape);
    if (!outer)
      return std::nullopt;
    auto dim = dyn_cast<AffineDimExpr>(map.getResult(*outer));
    return dim ? std::optional<int>(dim.getPosition()) : std::nullopt;
  };
  std::optional<int> loop = loopOf(op.getMatchingIndexingMap(op.getDpsInitOperand(0)), op.getResult(0));
  if (!loop || op.getStaticLoopRanges()[*loop] != rows || op.getIteratorTypesArray()[*loop] != utils::IteratorType::parallel)
    return std::nullopt;
  SmallVector<AffineMap> maps;
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (!isa<RankedTensorType>(input->get().getType()))
      continue;
    maps.push_back(op.getMatchingIndexingMap(input));
    if (input->get().getDefiningOp<tensor::PadOp>() ||
        (members.contains(input->get()) && loopOf(maps.back(), input->get()) != loop))
      return std::nullopt;
  }
  // A sum of products has results along which one factor stays where it is.
  for (auto [other, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    auto moves = [&, other = other](AffineMap map) { return map.isFunctionOfDim(other); };
    if (!isElementwise(op) && kind == utils::IteratorType::parallel && op.getStaticLoopRanges()[other] > 1 &&
        llvm::any_of(maps, moves) && !llvm::all_of(maps, moves))
      return std::nullopt;
  }
  return members.contains(op.getDpsInits()[0]) ? std::nullopt : loop;
}

/// Finds sequences of ops that work on the same rows, such as those of softmax or a normalisation, where what they exchange is more than
/// fits the first-level cache.
void KernelEmitter::findRowGroups(Block &body) {
  SmallVector<linalg::GenericOp> ops;
  llvm::SmallDenseSet<Value> members;
  int64_t rows = 0;
  auto close = [&] {
    int64_t exchanged = 0;
    linalg::GenericOp last;
    unsigned nests = 0;
    for (linalg::GenericOp op : ops) {
      const bool isRead =
          llvm::any_of(op.getResult(0).getUsers(), [&](Operation *user) { return llvm::is_contained(ops, user); });
      if (fusedInto.count(op))
        continue;
      last = op;
      ++nests;
      if (isRead)
        exchanged += tensorBytes(cast<RankedTensorType>(op.getResult(0).getType()));
    }
    // A producer that is emitted with a consumer outside of the group would be emitted too late.
    const bool isWhole = llvm::all_of(ops, [&](linalg::GenericOp op) {
      auto consumer = fusedInto.find(op);
      return consumer == fusedInto.end() || llvm::is_contained(ops, consumer->second);
    });
    if (isWhole && nests > 1 && exchanged >= minExchangedBytes) {
      int64_t block = std::min<int64_t>(rows, std::clamp<int64_t>(blockBytes * rows / exchanged, minBlockRows, maxBlockRows));
      while (block >= minBlockRows && rows % block)
        --block;
      if (block >= minBlockRows && block < rows)
        for (linalg::GenericOp op : ops)
          rowGroups[op] = {last, block};
    }
    ops.clear();
    members.clear();
  };
  for (Operation &op : body) {
    if (isa<arith::ConstantOp, tensor::EmptyOp, linalg::FillOp>(op))
      continue;
    auto generic = dyn_cast<linalg::GenericOp>(op);
    auto shape = generic && generic->getNumResults() == 1 ? cast<RankedTensorType>(generic.getResult(0).getType()).getShape()
                                                          : ArrayRef<int64_t>();
    std::optional<unsigned> outer = outerDimOf(shape);
    if (!ops.empty() && !(outer && rowLoopOf(generic, rows, members)))
      close();
    if (!outer || (ops.empty() && !rowLoopOf(generic, shape[*outer], members))) {
      close();
      continue;
    }
    rows = shape[*outer];
    ops.push_back(generic);
    members.insert(generic.getResult(0));
  }
  close();
}

//===----------------------------------------------------------------------===//
// The other ops
//===----------------------------------------------------------------------===//

/// The loops of a reduction along each dimension that `pad`, one of its inputs, pads; empty if some dimension is addressed in another
/// way than by one loop of results and one of taps.
SmallVector<PaddedLoops> paddedLoopsOf(linalg::GenericOp op, tensor::PadOp pad) {
  SmallVector<PaddedLoops> padded;
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (input->get() != pad.getResult())
      continue;
    for (auto [dim, expr] : llvm::enumerate(op.getMatchingIndexingMap(input).getResults())) {
      const int64_t low = pad.getStaticLow()[dim];
      if (!low && !pad.getStaticHigh()[dim])
        continue;
      SmallVector<int64_t> coefficients(kinds.size(), 0);
      int64_t constant = 0;
      if (failed(linearise(expr, coefficients, constant, 1)) || constant)
        return {};
      PaddedLoops loops{-1, -1, 0, 0, low, pad.getSourceType().getDimSize(dim)};
      for (auto [loop, coefficient] : llvm::enumerate(coefficients)) {
        if (!coefficient)
          continue;
        const bool isResult = kinds[loop] == utils::IteratorType::parallel;
        int &known = isResult ? loops.result : loops.tap;
        if (known >= 0 || coefficient < 0)
          return {};
        known = static_cast<int>(loop);
        (isResult ? loops.step : loops.dilation) = coefficient;
      }
      if (loops.result < 0 || loops.tap < 0)
        return {};
      padded.push_back(loops);
    }
  }
  return padded;
}

/// Whether the only consumer of padding is a reduction that can leave it out: it would change no result, and the loops of what is not
/// padding are few. Products of packed factors are worth a copy.
bool KernelEmitter::leavesOut(tensor::PadOp pad, Attribute padding) {
  if (!pad->hasOneUse() || destinations.count(pad.getResult()))
    return false;
  auto op = dyn_cast<linalg::GenericOp>(*pad->user_begin());
  if (!op || isElementwise(op) || op->getNumResults() != 1)
    return false;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  int lane = -1;
  for (AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr); dim && ranges[dim.getPosition()] > 1)
      lane = static_cast<int>(dim.getPosition());
  if (lane < 0)
    return false;
  std::optional<unsigned> argument;
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (op.payloadUsesValueFromOperand(input) && !op.getMatchingIndexingMap(input).isFunctionOfDim(lane))
      return false;
    if (input->get() == pad.getResult())
      argument = input->getOperandNumber();
  }
  std::optional<Combiner> combiner = matchCombiner(*op.getBody());
  if (!combiner || !argument)
    return false;
  // What the padding adds: constants where everything is known, and a product with zero.
  DenseMap<Value, Attribute> known{{op.getBody()->getArgument(*argument), padding}};
  for (Operation &inner : op.getBody()->without_terminator()) {
    if (&inner == combiner->op)
      continue;
    SmallVector<Attribute> operands;
    for (Value operand : inner.getOperands()) {
      Attribute value = known.lookup(operand);
      if (!value && !matchPattern(operand, m_Constant(&value)))
        value = {};
      operands.push_back(value);
    }
    auto isZero = [](Attribute value) {
      auto number = dyn_cast_or_null<FloatAttr>(value);
      auto integer = dyn_cast_or_null<IntegerAttr>(value);
      return (number && number.getValue().isZero()) || (integer && integer.getValue().isZero());
    };
    SmallVector<OpFoldResult> results;
    if (isa<arith::MulFOp, arith::MulIOp>(inner) && llvm::any_of(operands, isZero))
      known[inner.getResult(0)] = b.getZeroAttr(inner.getResult(0).getType());
    else if (succeeded(inner.fold(operands, results)) && results.size() == 1)
      if (auto value = dyn_cast<Attribute>(results[0]))
        known[inner.getResult(0)] = value;
  }
  for (Value operand : combiner->op->getOperands())
    if (Attribute value = known.lookup(operand);
        value && value == Attribute(neutralElement(b, combiner->kind, operand.getType()))) {
      SmallVector<PaddedLoops> padded = paddedLoopsOf(op, pad);
      unsigned nests = 1;
      for (const PaddedLoops &loops : padded)
        nests *= tapRangesOf(loops, ranges[loops.result], ranges[loops.tap]).size();
      return !padded.empty() && nests <= maxTapRanges;
    }
  return false;
}

/// Emits a nest for each combination of results that take the same taps.
void KernelEmitter::emitWithoutPadding(Location loc, const LoopNest &nest, ArrayRef<PaddedLoops> padded) {
  if (padded.empty())
    return KernelWriter::emit(loc, nest);
  const PaddedLoops &loops = padded.front();
  for (const TapRange &range : tapRangesOf(loops, nest.sizes[loops.result], nest.sizes[loops.tap])) {
    LoopNest part = nest;
    part.sizes[loops.result] = range.results;
    part.sizes[loops.tap] = range.taps;
    auto move = [&](NestOperand &operand) {
      if (!operand.inMemory())
        return;
      const int64_t start = range.result * operand.strides[loops.result] + range.tap * operand.strides[loops.tap];
      if (start)
        operand.pointer =
            b.create<LLVM::GEPOp>(loc, operand.pointer.getType(), operand.addressUnit(), operand.pointer,
                                  ValueRange{b.create<LLVM::ConstantOp>(loc, b.getI64Type(), b.getI64IntegerAttr(start))});
    };
    for (NestStage &stage : part.stages)
      for (NestOperand &operand : stage.inputs)
        move(operand);
    for (NestOperand &operand : part.inits)
      move(operand);
    for (NestStore &store : part.stores)
      move(store.to);
    emitWithoutPadding(loc, part, padded.drop_front());
  }
}

llvm::Error KernelEmitter::emitPad(tensor::PadOp op) {
  Value padding = op.getConstantPaddingValue();
  if (!padding)
    return errorAt(op, "pads with something other than a constant, which the CPU target does not support");
  if (llvm::any_of(op.getStaticLow(), ShapedType::isDynamic) || llvm::any_of(op.getStaticHigh(), ShapedType::isDynamic))
    return errorAt(op, "has dynamic padding, but the CPU target needs static shapes");
  Value fill = scalars.lookup(padding);
  if (!fill) {
    Attribute value;
    if (!matchPattern(padding, m_Constant(&value)))
      return errorAt(op, "pads with something other than a constant, which the CPU target does not support");
    fill = b.create<arith::ConstantOp>(op.getLoc(), cast<TypedAttr>(value));
  }
  TensorView source = viewOf(op.getSource());
  auto seenAsPadded = [&] {
    // Where its elements are, or would be if somebody read them.
    for (auto [dim, stride] : llvm::enumerate(source.strides))
      source.offset -= op.getStaticLow()[dim] * stride;
    source.shape.assign(op.getResultType().getShape().begin(), op.getResultType().getShape().end());
    views[op.getResult()] = source;
    return llvm::Error::success();
  };
  if (isPaddedAlready(op))
    return seenAsPadded();
  Attribute constant;
  if (matchPattern(padding, m_Constant(&constant)) && source.pointer && leavesOut(op, constant)) {
    leftOut[*op->user_begin()] = op;
    return seenAsPadded();
  }
  for (auto [low, high] : llvm::zip(op.getStaticLow(), op.getStaticHigh()))
    if (low < 0 || high < 0)
      return errorAt(op, "has negative padding, which the CPU target does not support");
  TensorView target = destinationOf(op.getResult());
  fillAround(op.getLoc(), target, op.getStaticLow(), op.getStaticHigh(), fill);
  SmallVector<int64_t> ones(target.shape.size(), 1);
  copy(op.getLoc(), source, sliced(target, op.getStaticLow(), source.shape, ones));
  return llvm::Error::success();
}

/// Whether what is around the source is the padding.
bool KernelEmitter::isPaddedAlready(tensor::PadOp op) const {
  auto around = surroundings.find(op.getSource());
  Attribute padding;
  if (around == surroundings.end() || destinations.count(op.getResult()) ||
      !matchPattern(op.getConstantPaddingValue(), m_Constant(&padding)) || padding != around->second.padding)
    return false;
  auto fits = [](auto pair) { return std::get<0>(pair) >= 0 && std::get<0>(pair) <= std::get<1>(pair); };
  return llvm::all_of(llvm::zip(op.getStaticLow(), around->second.low), fits) &&
         llvm::all_of(llvm::zip(op.getStaticHigh(), around->second.high), fits);
}

/// Writes the padding around what is inside of `padded`: dimension by dimension, the two borders over what the earlier dimensions left.
void KernelEmitter::fillAround(Location loc, const TensorView &padded, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                               Value padding) {
  const unsigned rank = padded.shape.size();
  SmallVector<int64_t> ones(rank, 1), offsets(rank, 0), sizes(padded.shape);
  TensorView filled;
  filled.splat = padding;
  filled.element = padded.element;
  filled.strides.assign(rank, 0);
  for (unsigned dim = 0; dim < rank; ++dim) {
    const int64_t size = sizes[dim];
    for (auto [start, extent] : {std::pair(int64_t(0), low[dim]), std::pair(size - high[dim], high[dim])}) {
      if (!extent)
        continue;
      offsets[dim] = start;
      sizes[dim] = extent;
      copy(loc, filled, sliced(padded, offsets, sizes, ones));
    }
    offsets[dim] = low[dim];
    sizes[dim] = size - low[dim] - high[dim];
  }
}

llvm::Error KernelEmitter::emitReturn(func::ReturnOp op) {
  llvm::SmallDenseSet<Value> done;
  for (auto [index, value] : llvm::enumerate(op.getOperands())) {
    // Only the first return of a tensor can have been computed in its place.
    if (destinations.count(value) && done.insert(value).second)
      continue;
    TensorView view = viewOf(value);
    if (!view.splat && !view.pointer)
      return errorAt(op, "returns a tensor that nothing has written");
    copy(op.getLoc(), view, outputView(index));
  }
  for (unsigned index = 0; index < op.getNumOperands(); ++index) {
    std::optional<Placement> placement = resultPlacement(kernel, index);
    if (!placement || !placement->padding)
      continue;
    TensorView padded = outputView(index);
    for (auto [dim, stride] : llvm::enumerate(padded.strides)) {
      padded.offset -= placement->low[dim] * stride;
      padded.shape[dim] += placement->low[dim] + placement->high[dim];
    }
    Value padding = b.create<arith::ConstantOp>(op.getLoc(), cast<TypedAttr>(placement->padding));
    fillAround(op.getLoc(), padded, placement->low, placement->high, padding);
  }
  wait();
  b.create<func::ReturnOp>(op.getLoc());
  return llvm::Error::success();
}

llvm::Error KernelEmitter::emitOp(Operation &op) {
  for (Value value : llvm::concat<Value>(SmallVector<Value>(op.getOperands()), SmallVector<Value>(op.getResults())))
    if (auto type = dyn_cast<RankedTensorType>(value.getType())) {
      if (!type.hasStaticShape())
        return errorAt(&op, "has a dynamic shape, but the CPU target needs static shapes");
      if (!type.getElementType().isSignlessIntOrFloat())
        return errorAt(&op, "has an element type that the CPU target does not support");
    }
  auto emptyView = [](Value value) { return denseView(cast<RankedTensorType>(value.getType())); };
  // A tensor that is only another look at one already in memory; moved if it has to be somewhere else.
  auto alias = [&](Value value, const TensorView &view) {
    auto it = destinations.find(value);
    bool placed = it != destinations.end();
    if (placed && (it->second.pointer != view.pointer || it->second.offset != view.offset)) {
      copy(op.getLoc(), view, it->second);
      views[value] = it->second;
    } else {
      views[value] = view;
    }
  };

  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (!isa<RankedTensorType>(constant.getType())) {
      scalars[constant] = b.clone(op)->getResult(0);
      return llvm::Error::success();
    }
    auto elements = dyn_cast<ElementsAttr>(constant.getValue());
    bool known =
        elements && (isa<DenseElementsAttr>(elements) || (isa<DenseResourceElementsAttr>(elements) &&
                                                          cast<DenseResourceElementsAttr>(elements).getRawHandle().getBlob()));
    if (!known)
      return errorAt(&op, "has a value whose elements are not stored densely");
    TensorView view = emptyView(constant);
    if (auto splat = dyn_cast<SplatElementsAttr>(elements)) {
      auto value = cast<TypedAttr>(splat.getSplatValue<Attribute>());
      view.splat = b.create<arith::ConstantOp>(op.getLoc(), value);
    } else {
      view = constantView(elements);
    }
    views[constant] = view;
    return llvm::Error::success();
  }
  if (auto empty = dyn_cast<tensor::EmptyOp>(op)) {
    views[empty] = emptyView(empty);
    return llvm::Error::success();
  }
  if (auto fill = dyn_cast<linalg::FillOp>(op)) {
    TensorView view = emptyView(fill.getResult(0));
    view.splat = scalars.lookup(fill.getInputs()[0]);
    if (view.splat.getType() != view.element)
      return errorAt(&op, "fills with a value of another type than the tensor's");
    views[fill.getResult(0)] = view;
    return llvm::Error::success();
  }
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return emitGeneric(generic);
  if (auto pad = dyn_cast<tensor::PadOp>(op))
    return emitPad(pad);
  if (auto concat = dyn_cast<tensor::ConcatOp>(op)) {
    TensorView target = destinationOf(concat);
    SmallVector<int64_t> offsets(target.shape.size(), 0), ones(target.shape.size(), 1);
    for (Value part : concat.getInputs()) {
      TensorView source = viewOf(part), place = sliced(target, offsets, source.shape, ones);
      bool inPlace = source.pointer == place.pointer && source.offset == place.offset && !source.splat;
      if (!inPlace)
        copy(op.getLoc(), source, place);
      offsets[concat.getDim()] += source.shape[concat.getDim()];
    }
    return llvm::Error::success();
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    if (!insert.getOffsets().empty() || !insert.getSizes().empty() || !insert.getStrides().empty())
      return errorAt(&op, "has dynamic offsets, but the CPU target needs static ones");
    TensorView target = destinationOf(insert), into = viewOf(insert.getDest());
    if (into.pointer || into.splat)
      copy(op.getLoc(), into, target);
    wait();
    TensorView place = sliced(target, insert.getStaticOffsets(), insert.getStaticSizes(), insert.getStaticStrides());
    dropDims(place, insert.getDroppedDims());
    copy(op.getLoc(), viewOf(insert.getSource()), place);
    return llvm::Error::success();
  }
  if (auto extract = dyn_cast<tensor::ExtractSliceOp>(op)) {
    if (!extract.getOffsets().empty() || !extract.getSizes().empty() || !extract.getStrides().empty())
      return errorAt(&op, "has dynamic offsets, but the CPU target needs static ones");
    TensorView view =
        sliced(viewOf(extract.getSource()), extract.getStaticOffsets(), extract.getStaticSizes(), extract.getStaticStrides());
    dropDims(view, extract.getDroppedDims());
    alias(extract, view);
    return llvm::Error::success();
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    alias(expand, expanded(viewOf(expand.getSrc()), expand.getResultType().getShape(), expand.getReassociationIndices()));
    return llvm::Error::success();
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    TensorView source = viewOf(collapse.getSrc());
    std::optional<TensorView> view = collapsed(source, collapse.getReassociationIndices());
    if (!view) {
      // The parts do not follow one another in memory.
      TensorView dense = newBuffer(collapse.getSrcType());
      copy(op.getLoc(), source, dense);
      view = collapsed(dense, collapse.getReassociationIndices());
    }
    alias(collapse, *view);
    return llvm::Error::success();
  }
  if (auto cast = dyn_cast<tensor::CastOp>(op)) {
    alias(cast, viewOf(cast.getSource()));
    return llvm::Error::success();
  }
  if (auto ret = dyn_cast<func::ReturnOp>(op))
    return emitReturn(ret);
  return errorAt(&op, "is not supported by the CPU target");
}

llvm::Expected<EmittedKernel> KernelEmitter::emit() {
  if (!kernel.getBody().hasOneBlock())
    return errorAt(kernel, "has more than one block, but the CPU target takes straight-line kernels");
  Block &source = kernel.getBody().front();
  for (auto [index, argument] : llvm::enumerate(source.getArguments())) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type || !type.hasStaticShape() || !type.getElementType().isSignlessIntOrFloat())
      return errorAt(kernel, "has an argument that is not a tensor of static shape");
    views[argument] = denseView(type, tablePointer(index));
    if (std::optional<Placement> placement = argumentPlacement(kernel, index)) {
      views[argument].strides = placement->strides;
      if (placement->padding)
        surroundings[argument] = *placement;
    }
  }
  for (Type type : kernel.getResultTypes())
    if (auto tensor = dyn_cast<RankedTensorType>(type); !tensor || !tensor.hasStaticShape())
      return errorAt(kernel, "has a result that is not a tensor of static shape");
  placeDestinations(source);

  for (Operation &op : source)
    if (auto producer = dyn_cast<linalg::GenericOp>(op); producer && !isElementwise(producer))
      for (Operation *user : producer->getUsers())
        if (auto consumer = dyn_cast<linalg::GenericOp>(user); consumer && canFuse(producer, consumer)) {
          // One reduction for each consumer: two would need two nests.
          bool taken = llvm::any_of(fusedInto, [&](auto &entry) { return entry.second == consumer; });
          if (!taken)
            fusedInto[producer] = consumer;
        }

  findRowGroups(source);

  for (Operation &op : source) {
    wait();
    if (llvm::Error error = emitOp(op))
      return error;
    // The buffers of a group are all in use at the same time.
    if (groupNests.empty())
      ++step;
  }

  finish();
  return std::move(result);
}

} // namespace

llvm::Expected<EmittedKernel> emitKernel(func::FuncOp kernel, ModuleOp module, StringRef symbol, const NestOptions &options) {
  return KernelEmitter(kernel, module, symbol, options).emit();
}

} // namespace tw::cpu
