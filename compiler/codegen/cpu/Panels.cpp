//===- Panels.cpp - A factor in the order its products are made -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/codegen/cpu/Panels.h"

using namespace mlir;

namespace tw::cpu {

/// The fewest products in a sum for which packing pays.
constexpr int64_t minProducts = 8;
/// What makes packing in each run pay: rows of results that read the factor, bytes between the elements of a sum and bytes of the factor,
/// from which on it does not stay in the first-level cache.
constexpr int64_t minRows = 32, minDistance = 512, minFactorBytes = 64 * 1024;

std::optional<FactorPacking> packingOf(KernelWriter &writer, linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op->getNumResults() != 1)
    return std::nullopt;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  int lane = -1;
  for (AffineExpr expr : op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr); dim && ranges[dim.getPosition()] > 1)
      lane = static_cast<int>(dim.getPosition());
  if (lane < 0)
    return std::nullopt;
  for (unsigned input : {0u, 1u}) {
    OpOperand *use = op.getDpsInputOperand(input), *other = op.getDpsInputOperand(1 - input);
    auto constant = use->get().getDefiningOp<arith::ConstantOp>();
    AffineMap map = op.getMatchingIndexingMap(use);
    if (!constant || writer.viewOf(use->get()).splat || !map.isProjectedPermutation() || !map.isFunctionOfDim(lane) ||
        op.getMatchingIndexingMap(other).isFunctionOfDim(lane))
      continue;
    FactorPacking packing;
    packing.input = input;
    packing.lane = lane;
    packing.strides.assign(ranges.size(), 0);
    auto elements = cast<ElementsAttr>(constant.getValue());
    auto type = cast<RankedTensorType>(elements.getType());
    // Positions in the order of the constant's dimensions, and the dimension of the lanes.
    SmallVector<int64_t> order;
    unsigned laneAt = 0;
    int64_t products = 1;
    for (unsigned dim = type.getRank(); dim-- > 0;) {
      const unsigned loop = cast<AffineDimExpr>(map.getResult(dim)).getPosition();
      if (static_cast<int>(loop) == lane) {
        laneAt = dim;
        continue;
      }
      packing.strides[loop] = packing.positions;
      packing.positions *= type.getDimSize(dim);
      if (kinds[loop] != utils::IteratorType::parallel)
        products *= type.getDimSize(dim);
    }
    if (products < minProducts)
      return std::nullopt;
    const int64_t positions = packing.positions;
    packing.pack = [&writer, elements, type, laneAt, positions, loc = op.getLoc()](int64_t width) -> Value {
      const int64_t lanes = type.getDimSize(laneAt);
      auto fill = [&](ArrayRef<TensorView> to) {
        const TensorView from = writer.constantView(elements);
        auto copyPanels = [&](int64_t first, int64_t count, int64_t size) {
          // [panel, positions, lane]
          TensorView source = from, target = to[0];
          source.offset += first * from.strides[laneAt];
          target.offset += first * positions;
          source.shape = {count};
          source.strides = {size * from.strides[laneAt]};
          for (unsigned dim = 0; dim < from.shape.size(); ++dim)
            if (dim != laneAt) {
              source.shape.push_back(from.shape[dim]);
              source.strides.push_back(from.strides[dim]);
            }
          source.shape.push_back(size);
          source.strides.push_back(from.strides[laneAt]);
          target.shape = source.shape;
          target.strides = denseStrides(target.shape);
          writer.copy(loc, source, target);
        };
        const int64_t panels = lanes / width;
        copyPanels(0, panels, width);
        if (lanes % width)
          copyPanels(panels * width, 1, lanes % width);
      };
      return writer.pointerTo(
          writer.newPackedConstants({RankedTensorType::get({type.getNumElements()}, type.getElementType())}, fill)[0]);
    };
    return packing;
  }
  return std::nullopt;
}

std::optional<FactorPacking> packingOfComputed(KernelWriter &writer, Location loc, const LoopNest &nest) {
  const NestStage &stage = nest.stages[0];
  if (!nest.accumulates || stage.products != Products::None || stage.inputs.size() != 2 || nest.stores.size() != 1)
    return std::nullopt;
  int lane = -1;
  for (auto [loop, stride] : llvm::enumerate(nest.stores[0].to.strides))
    if (stride == 1 && !nest.isReduction[loop])
      lane = static_cast<int>(loop);
  if (lane < 0)
    return std::nullopt;
  for (unsigned input : {0u, 1u}) {
    const NestOperand &operand = stage.inputs[input], &other = stage.inputs[1 - input];
    if (!operand.inMemory() || !other.inMemory() || operand.strides[lane] != 1 || other.strides[lane] != 0)
      continue;
    FactorPacking packing;
    packing.input = input;
    packing.lane = lane;
    packing.strides.assign(nest.sizes.size(), 0);
    int64_t rows = 1, products = 1, furthest = 0;
    SmallVector<unsigned> loops;
    for (unsigned loop = 0; loop < nest.sizes.size(); ++loop) {
      if (!nest.isReduction[loop])
        rows *= operand.strides[loop] ? 1 : nest.sizes[loop];
      else if (operand.strides[loop])
        products *= nest.sizes[loop];
      if (nest.isReduction[loop])
        furthest = std::max(furthest, operand.strides[loop]);
      if (operand.strides[loop] && static_cast<int>(loop) != lane)
        loops.push_back(loop);
    }
    const int64_t bytes = storageBytes(operand.element);
    if (rows < minRows || products < minProducts || furthest * bytes < minDistance ||
        products * nest.sizes[lane] * bytes < minFactorBytes)
      return std::nullopt;
    // Loops that walk over the same elements would multiply them.
    SmallVector<unsigned> byStride(loops);
    byStride.push_back(lane);
    llvm::sort(byStride, [&](unsigned a, unsigned b) { return operand.strides[a] < operand.strides[b]; });
    for (unsigned i = 1; i < byStride.size(); ++i)
      if (operand.strides[byStride[i]] < operand.strides[byStride[i - 1]] * nest.sizes[byStride[i - 1]])
        return std::nullopt;
    for (unsigned loop : llvm::reverse(loops)) {
      packing.strides[loop] = packing.positions;
      packing.positions *= nest.sizes[loop];
    }
    const int64_t lanes = nest.sizes[lane], positions = packing.positions;
    TensorView from;
    from.pointer = operand.pointer;
    from.element = operand.element;
    for (unsigned loop : loops) {
      from.shape.push_back(nest.sizes[loop]);
      from.strides.push_back(operand.strides[loop]);
    }
    packing.pack = [&writer, from, lanes, positions, loc](int64_t width) -> Value {
      TensorView to = writer.newBuffer(RankedTensorType::get({positions * lanes}, from.element));
      auto copyPanels = [&](int64_t first, int64_t count, int64_t size) {
        TensorView source = from, target = to;
        source.offset = first;
        source.shape.insert(source.shape.begin(), count);
        source.strides.insert(source.strides.begin(), size);
        source.shape.push_back(size);
        source.strides.push_back(1);
        target.offset = first * positions;
        target.shape = source.shape;
        target.strides = denseStrides(target.shape);
        writer.copy(loc, source, target);
      };
      copyPanels(0, lanes / width, width);
      if (lanes % width)
        copyPanels(lanes / width * width, 1, lanes % width);
      writer.wait();
      return writer.pointerTo(to);
    };
    return packing;
  }
  return std::nullopt;
}

/// The nest of `count` panels of `width` lanes from lane `first` on.
static LoopNest panelsOf(KernelWriter &writer, Location loc, LoopNest nest, const FactorPacking &packing, int64_t first,
                         int64_t count, int64_t width) {
  auto split = [&](NestOperand &operand, bool isPacked) {
    if (!operand.inMemory())
      return;
    int64_t start = first * operand.strides[packing.lane], panel = width * operand.strides[packing.lane];
    if (isPacked) {
      start = first * packing.positions;
      panel = width * packing.positions;
      for (auto [stride, position] : llvm::zip(operand.strides, packing.strides))
        stride = position * width;
      operand.strides[packing.lane] = 1;
    }
    operand.strides.insert(operand.strides.begin(), panel);
    if (start)
      operand.pointer = writer.b.create<LLVM::GEPOp>(
          loc, operand.pointer.getType(), operand.addressUnit(), operand.pointer,
          ValueRange{writer.b.create<LLVM::ConstantOp>(loc, writer.b.getI64Type(), writer.b.getI64IntegerAttr(start))});
  };
  for (auto [index, stage] : llvm::enumerate(nest.stages))
    for (auto [input, operand] : llvm::enumerate(stage.inputs))
      split(operand, index == 0 && input == packing.input);
  for (NestOperand &operand : nest.inits)
    split(operand, false);
  for (NestStore &store : nest.stores)
    split(store.to, false);
  nest.sizes[packing.lane] = width;
  nest.sizes.insert(nest.sizes.begin(), count);
  nest.isReduction.insert(nest.isReduction.begin(), false);
  return nest;
}

SmallVector<LoopNest, 2> packInPanels(KernelWriter &writer, Location loc, LoopNest nest, const FactorPacking &packing) {
  const int64_t lanes = nest.sizes[packing.lane];
  LoopNest whole = panelsOf(writer, loc, nest, packing, 0, 1, lanes);
  int64_t width = registerBlockWidth(whole, packing.lane + 1, writer.options);
  if (!width && !packing.isNeeded)
    return {nest};
  if (!width || width > lanes)
    width = lanes;
  nest.stages[0].inputs[packing.input].pointer = packing.pack(width);
  SmallVector<LoopNest, 2> parts{panelsOf(writer, loc, nest, packing, 0, lanes / width, width)};
  if (lanes % width)
    parts.push_back(panelsOf(writer, loc, nest, packing, lanes / width * width, 1, lanes % width));
  return parts;
}

} // namespace tw::cpu
