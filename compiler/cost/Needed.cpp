//===- Needed.cpp - What the results of a network hang on ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Needed.h"

#include <algorithm>
#include <optional>

using namespace tw;
using namespace tw::cost;

namespace {
/// Larger tensors are not looked at element for element: a part of one counts nothing.
constexpr uint64_t kMostElements = uint64_t(1) << 30;

/// `axis` with those positions alone; of positions that are not evenly spaced, with the longest run without gaps.
PositionAxis withPositions(PositionAxis axis, const std::vector<int64_t> &positions) {
  size_t first = 0, count = positions.size();
  int64_t step = count > 1 ? positions[1] - positions[0] : 1;
  for (size_t i = 1; i < positions.size(); ++i)
    if (positions[i] - positions[i - 1] != step)
      step = 0;
  if (step == 0) {
    step = 1;
    count = 0;
    for (size_t begin = 0, end = 1; begin < positions.size(); begin = end++) {
      while (end < positions.size() && positions[end] == positions[end - 1] + 1)
        ++end;
      if (end - begin > count) {
        first = begin;
        count = end - begin;
      }
    }
  }
  axis.size = int64_t(count);
  axis.padLow -= positions[first] * axis.stride;
  axis.stride *= step;
  return axis;
}

/// Taps of a window that read input at some of those positions, and at how many of them in all.
std::pair<uint64_t, uint64_t> tapsAt(const PositionAxis &axis, const std::vector<int64_t> &positions) {
  std::vector<bool> used(size_t(axis.kernel), false);
  uint64_t pairs = 0;
  for (int64_t o : positions)
    for (int64_t k = 0; k < axis.kernel; ++k)
      if (axis.input(o, k) >= 0) {
        used[size_t(k)] = true;
        ++pairs;
      }
  return {uint64_t(std::count(used.begin(), used.end(), true)), pairs};
}

class NeededFinder {
public:
  NeededFinder(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
               const timing::MachineParams &machine)
      : layers(layers), tensors(tensors), machine(machine), needed(tensors.size()) {}

  NeededWork run() {
    NeededWork result{layers, std::vector<uint64_t>(tensors.size(), 0)};
    std::vector<uint64_t> elementBytes(tensors.size(), 1);
    for (size_t i = layers.size(); i-- > 0;) {
      const LayerWork &layer = layers[i];
      IndexSet &written = elementsOf(layer.output);
      if (tensors[layer.output.tensor].output)
        written = IndexSet(written.size(), true);
      result.layers[i] = partOf(layer, written);
      for (const TensorUse &use : layer.inputs)
        elementBytes[use.tensor] = use.elementBytes;
    }
    for (size_t t = 0; t < tensors.size(); ++t)
      if (needed[t])
        result.readBytes[t] = needed[t]->count() * elementBytes[t];
    return result;
  }

private:
  const std::vector<LayerWork> &layers;
  const std::vector<NetworkTensor> &tensors;
  const timing::MachineParams &machine;
  std::vector<std::optional<IndexSet>> needed; ///< elements of each tensor

  IndexSet &elementsOf(const TensorUse &use) {
    std::optional<IndexSet> &set = needed[use.tensor];
    if (!set)
      set.emplace(tensors[use.tensor].bytes / use.elementBytes);
    return *set;
  }

  LayerWork partOf(const LayerWork &layer, const IndexSet &written);
  /// What is left of a layer that makes the results `made`.
  void addWork(const LayerWork &layer, const IndexSet &made, LayerWork &part) const;
  void addProducts(const LayerWork &layer, const IndexSet &made, LayerWork &part) const;
  uint64_t cyclesOf(const LayerWork &layer, const IndexSet &made, const Access &elements) const {
    return ceilDiv(elementsTaken(layer.pieces[0].space, made, elements).count(), machine.lanes);
  }
};

LayerWork NeededFinder::partOf(const LayerWork &layer, const IndexSet &written) {
  bool makesAll = true, isKnown = !layer.pieces.empty() && written.size() <= kMostElements;
  std::vector<IndexSet> made;
  if (isKnown) {
    for (const LayerWork::Piece &piece : layer.pieces) {
      made.push_back(resultsIn(piece.space, written));
      makesAll &= made.back().isFull();
      for (const Access &access : piece.reads)
        isKnown &= access.elements <= kMostElements &&
                   (access.isConstant || access.elements == elementsOf(layer.inputs[access.use]).size());
    }
  } else {
    makesAll = written.isFull();
  }
  // What is read: all of a tensor that is read as a whole, and what each result takes.
  LayerWork part = layer;
  if (!makesAll) {
    // What is left may be packed in other ways and hang on less: none of that is said of it.
    part = LayerWork();
    part.output = layer.output;
    part.inputs = layer.inputs;
    part.constants = layer.constants;
  }
  std::vector<IndexSet> inputs, constants(layer.constants.size());
  for (const TensorUse &use : layer.inputs) {
    IndexSet &all = elementsOf(use);
    inputs.emplace_back(all.size(), makesAll && use.bytes >= tensors[use.tensor].bytes);
  }
  for (size_t p = 0; isKnown && p < layer.pieces.size(); ++p)
    for (const Access &access : layer.pieces[p].reads) {
      if (access.isConstant ? makesAll : inputs[access.use].isFull())
        continue;
      IndexSet &all = (access.isConstant ? constants : inputs)[access.use];
      if (access.isConstant && all.size() == 0)
        all = IndexSet(access.elements);
      all.add(elementsTaken(layer.pieces[p].space, made[p], access));
    }
  for (size_t i = 0; i < inputs.size(); ++i) {
    elementsOf(layer.inputs[i]).add(inputs[i]);
    const uint64_t bytes = inputs[i].count() * layer.inputs[i].elementBytes;
    part.inputs[i].bytes = makesAll ? std::max(bytes, layer.inputs[i].bytes) : bytes;
  }
  if (makesAll)
    return part;
  for (size_t i = 0; i < constants.size(); ++i)
    part.constants[i].bytes = constants[i].count() * layer.constants[i].elementBytes;
  for (TensorUse &use : part.inputs)
    use.grid.reset();
  part.output.grid.reset();
  if (isKnown && layer.pieces.size() == 1)
    addWork(layer, made[0], part);
  return part;
}

void NeededFinder::addWork(const LayerWork &layer, const IndexSet &made, LayerWork &part) const {
  for (const Access &pass : layer.passes)
    part.vectorCycles += cyclesOf(layer, made, pass);
  if (layer.looked)
    part.vectorCycles = std::max(part.vectorCycles, cyclesOf(layer, made, *layer.looked));
  part.vectorCycles = std::min(part.vectorCycles, layer.vectorCycles);
  if (layer.sums)
    addProducts(layer, made, part);
}

void NeededFinder::addProducts(const LayerWork &layer, const IndexSet &made, LayerWork &part) const {
  Contraction c = layer.contraction ? *layer.contraction : *layer.depthwise;
  const IndexSet sums = elementsTaken(layer.pieces[0].space, made, *layer.sums);
  const std::vector<int64_t> sizes = {c.axes[2].size, c.axes[1].size, c.axes[0].size, int64_t(c.groups), int64_t(c.oc)};
  const std::vector<std::vector<int64_t>> positions = combinationsOf(sizes, sums);
  if (sums.count() == 0)
    return;
  const uint64_t rows = machine.rows, cols = machine.cols, cells = rows * cols;
  if (positions.empty()) { // any set of sums: the products alone, on a full array
    uint64_t products = 0;
    std::array<std::vector<uint64_t>, 3> taps;
    for (size_t a = 0; a < 3; ++a)
      for (int64_t o = 0; o < c.axes[a].size; ++o)
        taps[a].push_back(tapsAt(c.axes[a], {o}).second);
    const uint64_t channels = c.groups * c.oc;
    for (uint64_t at = sums.next(0, true); at < sums.size(); at = sums.next(at + 1, true)) {
      const uint64_t position = at / channels, w = position % uint64_t(c.axes[0].size),
                     rest = position / uint64_t(c.axes[0].size);
      products += taps[0][w] * taps[1][rest % uint64_t(c.axes[1].size)] * taps[2][rest / uint64_t(c.axes[1].size)] * c.ic;
    }
    part.arrayCycles = std::min(layer.arrayCycles, products / cells);
    return;
  }
  c.groups = positions[3].size();
  c.oc = positions[4].size();
  uint64_t products = c.groups * c.oc * c.ic, weights = products;
  for (size_t a = 0; a < 3; ++a) {
    const std::vector<int64_t> &along = positions[2 - a];
    const auto [used, pairs] = tapsAt(c.axes[a], along);
    products *= pairs;
    weights *= used * (c.batchAxis == int(a) ? along.size() : 1);
    c.axes[a] = withPositions(c.axes[a], along);
  }
  const uint64_t stream = std::max(streamCycles(c, rows, cols), products / cells);
  if (layer.depthwise) {
    const uint64_t results = ceilDiv(sums.count(), machine.lanes), cycles = windowCycles(c, machine.lanes);
    part.windowVectorCycles = cycles > results ? cycles - results : 0;
    part.windowArrayCycles = stream;
  } else {
    part.arrayCycles = std::min(layer.arrayCycles, stream);
    part.preloadTiles = ceilDiv(weights, cells);
    part.preloadCycles = ceilDiv(weights, std::max(rows, cols) * machine.preloadRowsPerCycle);
  }
  if (layer.weights)
    part.constants[*layer.weights].bytes = std::min(weights * c.weightBytes, layer.constants[*layer.weights].bytes);
}
} // namespace

NeededWork cost::neededWork(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors,
                            const timing::MachineParams &machine) {
  return NeededFinder(layers, tensors, machine).run();
}
