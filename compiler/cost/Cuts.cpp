//===- Cuts.cpp - Moments that split a network -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/cost/Cuts.h"

#include <algorithm>
#include <tuple>

using namespace tw;
using namespace tw::cost;

namespace {
//===----------------------------------------------------------------------===//
// Intervals
//===----------------------------------------------------------------------===//

Interval intersection(const Interval &a, const Interval &b) { return {std::max(a.first, b.first), std::min(a.last, b.last)}; }

/// The largest interval that a growing union of intervals is known to cover. What does not touch it is left out.
class Union {
public:
  void add(const Interval &next) {
    if (next.empty())
      return;
    if (current.empty() || next.first > current.last + 1 || next.last < current.first - 1)
      current = next;
    else
      current = {std::min(current.first, next.first), std::max(current.last, next.last)};
    if (current.size() > best.size())
      best = current;
  }
  const Interval &interval() const { return best; }

private:
  Interval current, best;
};

bool isEmpty(const Box &box) { return box[0].empty() || box[1].empty() || box[2].empty(); }
bool covers(const Box &a, const Box &b) { return a[0].covers(b[0]) && a[1].covers(b[1]) && a[2].covers(b[2]); }
int64_t volume(const Box &box) { return box[0].size() * box[1].size() * box[2].size(); }
Box boxOf(const std::array<int64_t, 3> &size) { return {{{0, size[0] - 1}, {0, size[1] - 1}, {0, size[2] - 1}}}; }

/// Per axis and position: what of the cut's tensor an element there hangs on, the same for the positions of all other
/// axes. Without entries: nothing is known.
using Map = std::array<std::vector<Interval>, 3>;

bool isKnown(const Map &map) { return !map[0].empty(); }

double measure(const Map &map) {
  double all = isKnown(map);
  for (const std::vector<Interval> &axis : map) {
    int64_t sum = 0;
    for (const Interval &interval : axis)
      sum += interval.size();
    all *= double(sum);
  }
  return all;
}

const Map &larger(const Map &a, const Map &b) { return measure(b) > measure(a) ? b : a; }

/// What the elements of all positions have in common.
Box commonOf(const Map &map) {
  Box box;
  for (size_t a = 0; a < 3 && isKnown(map); ++a) {
    box[a] = map[a].front();
    for (const Interval &interval : map[a])
      box[a] = intersection(box[a], interval);
  }
  return box;
}

/// What the elements of all positions hang on together.
Box unionOf(const Map &map) {
  Box box;
  for (size_t a = 0; a < 3; ++a) {
    Union all;
    for (const Interval &interval : map[a])
      all.add(interval);
    box[a] = all.interval();
  }
  return box;
}

Map constantMap(const Box &box, const std::array<int64_t, 3> &size) {
  Map map;
  for (size_t a = 0; a < 3; ++a)
    map[a].assign(size_t(size[a]), box[a]);
  return map;
}

/// Positions whose elements hang on all of `box`: the longest run along each axis.
Box positionsOver(const Map &map, const Box &box) {
  Box result;
  for (size_t a = 0; a < 3; ++a) {
    Union run;
    for (size_t p = 0; p < map[a].size(); ++p)
      if (map[a][p].covers(box[a]))
        run.add({int64_t(p), int64_t(p)});
    result[a] = run.interval();
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Networks
//===----------------------------------------------------------------------===//

/// Whether a layer copies. It asks nothing of an engine, and its padding hangs on nothing.
bool onlyMoves(const LayerWork &layer) { return !layer.pieces.empty() && layer.passes.empty() && !layer.contraction; }

/// What elements of a tensor hang on.
struct Reach {
  Map each;     ///< every element on all channels there
  Map together; ///< all channels of a position together on all channels there
};

class CutFinder {
public:
  CutFinder(const std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors)
      : layers(layers), tensors(tensors), writers(tensors.size()), grids(tensors.size()) {
    for (size_t i = 0; i < layers.size(); ++i)
      writers[layers[i].output.tensor].push_back(i);
    for (size_t t = 0; t < tensors.size(); ++t)
      if (!writers[t].empty())
        grids[t] = gridOf(writers[t]);
  }

  std::vector<Cut> cutsAt(unsigned tensor) const {
    std::vector<Cut> cuts;
    if (!writers[tensor].empty())
      addCuts(tensor, cuts);
    return cuts;
  }

private:
  const std::vector<LayerWork> &layers;
  const std::vector<NetworkTensor> &tensors;
  std::vector<std::vector<size_t>> writers;
  std::vector<std::optional<Grid>> grids; ///< that all writers agree on

  std::optional<Grid> gridOf(const std::vector<size_t> &all) const {
    const std::optional<Grid> &first = layers[all.front()].output.grid;
    for (size_t i : all)
      if (!first || !layers[i].output.grid || !first->hasPositionsOf(*layers[i].output.grid))
        return std::nullopt;
    return first;
  }

  /// A tensor whose layout is not known has one position.
  std::array<int64_t, 3> sizeOf(unsigned tensor) const {
    return grids[tensor] ? grids[tensor]->size : std::array<int64_t, 3>{1, 1, 1};
  }

  bool whole(const TensorUse &use) const { return use.bytes >= tensors[use.tensor].bytes; }

  /// Whether the positions of a use are those of the tensor, and all channels are read.
  bool agrees(const TensorUse &use) const {
    const std::optional<Grid> &grid = grids[use.tensor];
    if (!grid || !use.grid || !grid->hasPositionsOf(*use.grid) || use.grid->offset)
      return false;
    return std::all_of(writers[use.tensor].begin(), writers[use.tensor].end(), [&](size_t i) {
      return layers[i].output.grid->offset + layers[i].output.grid->channels <= use.grid->channels;
    });
  }

  /// Whether position for position of a layer is one of the input.
  bool isPointwise(const LayerWork &layer, const TensorUse &use) const {
    for (size_t a = 0; a < 3; ++a)
      if (use.grid && use.grid->size[a] != layer.window[a].size)
        return false;
    return agrees(use);
  }

  static Map throughWindow(const std::array<PositionAxis, 3> &window, const Map &input) {
    Map map;
    for (size_t a = 0; a < 3 && isKnown(input); ++a)
      for (int64_t o = 0; o < window[a].size; ++o) {
        Union taps;
        for (int64_t k = 0; k < window[a].kernel; ++k)
          if (int64_t i = window[a].input(o, k); i >= 0)
            taps.add(input[a][size_t(i)]);
        map[a].push_back(taps.interval());
      }
    return map;
  }

  /// What the results of a layer hang on, given the same of its inputs.
  Reach reachOf(const LayerWork &layer, const std::vector<Reach> &reach) const {
    Reach result;
    if (layer.dependence == Dependence::None || layer.inputs.empty())
      return result;
    std::array<int64_t, 3> size;
    for (size_t a = 0; a < 3; ++a)
      size[a] = layer.window[a].size;
    auto add = [&](const Map &each, const Map &together) {
      result.each = larger(result.each, each);
      result.together = larger(result.together, together);
    };
    const bool mixes = layer.dependence == Dependence::Channels;
    for (const TensorUse &use : layer.inputs) {
      const Reach &in = reach[use.tensor];
      const bool isFirst = &use == &layer.inputs.front();
      if (isFirst ? agrees(use) : isPointwise(layer, use)) {
        if (!isFirst) {
          add(in.each, in.together);
        } else {
          Map together = throughWindow(layer.window, in.together);
          add(mixes ? together : throughWindow(layer.window, in.each), together);
        }
        continue;
      }
      // Every result takes something from it.
      if ((isFirst || layer.dependence == Dependence::Elementwise) && isKnown(in.each)) {
        Map common = constantMap(commonOf(in.each), size);
        add(common, common);
      }
      if (isFirst && mixes && layer.onePosition() && whole(use) && isKnown(in.together)) {
        Map all = constantMap(unionOf(in.together), size);
        add(all, all);
      }
    }
    if (layer.poolsPositions)
      for (Map *map : {&result.each, &result.together})
        for (size_t a = 0; a < 2 && isKnown(*map); ++a)
          (*map)[a] = {unionOf(*map)[a]};
    return result;
  }

  /// Adds what a layer writes to what is known of its tensor.
  void write(const LayerWork &layer, Reach made, Reach &tensor) const {
    if (!grids[layer.output.tensor]) {
      // The layout is not known: what all elements have in common.
      for (Map *map : {&made.each, &made.together})
        if (isKnown(*map))
          *map = constantMap(commonOf(*map), {1, 1, 1});
    }
    if (writers[layer.output.tensor].front() == size_t(&layer - layers.data())) {
      tensor = std::move(made);
      return;
    }
    // Parts side by side: every element is in one of them, all channels of a position are in all.
    for (size_t a = 0; a < 3; ++a)
      if (!isKnown(made.each) || !isKnown(tensor.each))
        tensor.each = {};
      else
        for (size_t p = 0; p < made.each[a].size(); ++p)
          tensor.each[a][p] = intersection(tensor.each[a][p], made.each[a][p]);
    tensor.together = larger(tensor.together, made.together);
  }

  /// The part of the cut's tensor on which the last product with each weight hangs: of every tap the union over the
  /// positions that it is used at.
  Box lastUseOf(const LayerWork &layer, const Reach &in) const {
    if (!agrees(layer.inputs.front()))
      return commonOf(in.each);
    Box box;
    for (size_t a = 0; a < 3; ++a) {
      const PositionAxis &axis = layer.contraction->axes[a];
      box[a] = {0, INT64_MAX};
      for (int64_t k = 0; k < axis.kernel; ++k) {
        Union uses;
        bool isUsed = false;
        for (int64_t o = 0; o < axis.size; ++o)
          if (int64_t i = axis.input(o, k); i >= 0) {
            isUsed = true;
            uses.add(in.each[a][size_t(i)]);
          }
        if (isUsed)
          box[a] = intersection(box[a], uses.interval());
      }
      if (box[a].last == INT64_MAX)
        return {};
    }
    return box;
  }

  void addCuts(unsigned tensor, std::vector<Cut> &all) const {
    // Forwards: what hangs on which part of the tensor.
    std::vector<Reach> reach(tensors.size());
    std::array<int64_t, 3> size = sizeOf(tensor);
    Map &own = reach[tensor].together;
    for (size_t a = 0; a < 3; ++a)
      for (int64_t p = 0; p < size[a]; ++p)
        own[a].push_back({p, p});
    std::vector<Reach> results(layers.size());
    std::vector<Box> lastUses(layers.size());
    std::vector<Box> boxes;
    auto propose = [&](const Box &box) {
      if (!isEmpty(box) && std::find(boxes.begin(), boxes.end(), box) == boxes.end())
        boxes.push_back(box);
    };
    for (size_t i = writers[tensor].back() + 1; i < layers.size(); ++i) {
      const LayerWork &layer = layers[i];
      results[i] = reachOf(layer, reach);
      write(layer, results[i], reach[layer.output.tensor]);
      if (layer.dependence == Dependence::None || layer.inputs.empty())
        continue;
      const Reach &in = reach[layer.inputs.front().tensor];
      if (!isKnown(in.each))
        continue;
      propose(commonOf(in.each));
      if (layer.contraction && layer.weights) {
        lastUses[i] = lastUseOf(layer, in);
        propose(lastUses[i]);
      }
    }
    for (const Box &box : boxes) {
      Cut cut{tensor, box, before(tensor, box), {}};
      for (size_t i = 0; i < layers.size(); ++i) {
        Cut::After after = afterOf(i, box, reach, results[i]);
        after.weights = after.weights || (!isEmpty(lastUses[i]) && covers(lastUses[i], box));
        if (after.whole || after.weights || !isEmpty(after.inputs) || !isEmpty(after.outputs))
          cut.after.push_back(after);
      }
      if (!cut.after.empty())
        all.push_back(std::move(cut));
    }
  }

  Cut::After afterOf(size_t i, const Box &box, const std::vector<Reach> &reach, const Reach &result) const {
    const LayerWork &layer = layers[i];
    Cut::After after;
    after.layer = i;
    if (layer.dependence == Dependence::None || onlyMoves(layer))
      return after;
    for (const TensorUse &use : layer.inputs) {
      const Map &each = reach[use.tensor].each;
      if (!isKnown(each))
        continue;
      const bool isFirst = &use == &layer.inputs.front();
      if (isFirst || layer.dependence == Dependence::Elementwise)
        after.whole |= covers(commonOf(each), box);
      if (isFirst && agrees(use))
        after.inputs = positionsOver(each, box);
    }
    after.weights = after.whole;
    if (isKnown(result.each) && !layer.poolsPositions)
      after.outputs = positionsOver(result.each, box);
    return after;
  }

  /// Backwards: what all channels of `box` hang on.
  std::vector<Cut::Before> before(unsigned tensor, const Box &box) const {
    std::vector<Box> needed(tensors.size());
    auto need = [&](unsigned t, const Box &more) {
      if (isEmpty(needed[t]) || volume(more) > volume(needed[t]))
        needed[t] = more;
    };
    need(tensor, box);
    std::vector<Cut::Before> result;
    for (size_t i = writers[tensor].back() + 1; i-- > 0;) {
      const LayerWork &layer = layers[i];
      const Box &made = needed[layer.output.tensor];
      if (isEmpty(made))
        continue;
      const bool all = volume(made) == volume(boxOf(sizeOf(layer.output.tensor)));
      Cut::Before part;
      part.layer = i;
      part.whole = all;
      for (size_t a = 0; a < 3; ++a)
        part.outputs[a] = all || (layer.poolsPositions && a < 2) ? Interval{0, layer.window[a].size - 1} : made[a];
      if (!all && layer.dependence == Dependence::None)
        continue;
      for (const TensorUse &use : layer.inputs) {
        if (writers[use.tensor].empty())
          continue;
        if (all && whole(use)) {
          need(use.tensor, boxOf(sizeOf(use.tensor)));
        } else if (layer.dependence != Dependence::None && !layer.poolsPositions) {
          if (&use != &layer.inputs.front()) {
            if (isPointwise(layer, use))
              need(use.tensor, part.outputs);
          } else if (agrees(use)) {
            need(use.tensor, inputsOf(layer.window, part.outputs));
          }
        }
      }
      result.push_back(part);
    }
    return result;
  }

  /// Input positions that the positions `outputs` take, as far as they lie without gaps.
  static Box inputsOf(const std::array<PositionAxis, 3> &window, const Box &outputs) {
    Box box;
    for (size_t a = 0; a < 3; ++a) {
      const PositionAxis &axis = window[a];
      if (axis.broadcast || axis.dilation != 1 || axis.stride > axis.kernel) {
        Union taps;
        for (int64_t k = 0; k < axis.kernel; ++k)
          if (int64_t i = axis.input(outputs[a].first, k); i >= 0)
            taps.add({i, i});
        box[a] = taps.interval();
      } else {
        Interval taken{outputs[a].first * axis.stride - axis.padLow,
                       outputs[a].last * axis.stride - axis.padLow + axis.kernel - 1};
        box[a] = intersection(taken, Interval{0, axis.inputSize - 1});
      }
    }
    return box;
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Data movement
//===----------------------------------------------------------------------===//

namespace {
/// All positions of a tensor, and all their channels, if these lie as rows of one another.
std::optional<Grid> denseGrid(Grid grid, uint64_t elements) {
  uint64_t positions = 1;
  std::array<size_t, 3> order{0, 1, 2};
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return grid.stride[a] < grid.stride[b]; });
  for (int64_t size : grid.size)
    positions *= uint64_t(size);
  if (positions == 0 || elements % positions)
    return std::nullopt;
  grid.channels = int64_t(elements / positions);
  grid.offset = 0;
  int64_t stride = grid.channels;
  for (size_t a : order) {
    if (grid.size[a] > 1 && grid.stride[a] != stride)
      return std::nullopt;
    stride *= grid.size[a];
  }
  return grid;
}

/// How a piece of a copy walks one axis.
struct CopiedAxis {
  int64_t size = 1, inside = 1, padLow = 0; ///< results, those that are read, and those in front that are not
  int64_t from = 0, to = 0;                 ///< strides
};

/// Nothing if an axis is read in another way than by one stride.
std::optional<std::vector<CopiedAxis>> axesOf(const LayerWork::Piece &piece) {
  std::vector<CopiedAxis> axes;
  for (size_t a = 0; a < piece.space.axes.size(); ++a) {
    const ResultSpace::Axis &made = piece.space.axes[a];
    CopiedAxis axis{made.size, made.size, 0, 0, made.stride};
    for (const Access::Axis &read : piece.reads[0].axes)
      if (read.result == int(a)) {
        if (read.windows.size() > 1)
          return std::nullopt;
        axis.from = read.stride;
        axis.inside = read.size;
        axis.padLow = read.windows.empty() ? 0 : read.windows[0].padLow;
      }
    if (axis.size > 1 && axis.from == 0)
      return std::nullopt;
    if (axis.size > 1)
      axes.push_back(axis);
  }
  return axes;
}

/// Whether every result is a channel of the position where it lies.
bool keepsPositions(const LayerWork::Piece &piece, const std::vector<CopiedAxis> &axes, int64_t channels) {
  const int64_t read = piece.reads[0].offset, made = piece.space.offset;
  if (read / channels != made / channels)
    return false;
  Interval from{read % channels, read % channels}, to{made % channels, made % channels};
  auto extend = [](Interval &range, int64_t reach) { (reach < 0 ? range.first : range.last) += reach; };
  for (const CopiedAxis &axis : axes) {
    if (axis.inside != axis.size)
      return false;
    if (axis.from == axis.to && axis.to % channels == 0)
      continue;
    extend(from, axis.from * (axis.size - 1));
    extend(to, axis.to * (axis.size - 1));
  }
  return from.first >= 0 && to.first >= 0 && from.last < channels && to.last < channels;
}

/// The positions of `grid` that the results take along each axis, and where they lie; nothing if channels of a position come apart.
std::optional<std::pair<std::array<PositionAxis, 3>, Grid>> windowOf(const LayerWork::Piece &piece,
                                                                     const std::vector<CopiedAxis> &axes, const Grid &grid) {
  std::array<PositionAxis, 3> window;
  Grid made;
  made.channels = grid.channels;
  made.offset = piece.space.offset;
  std::array<size_t, 3> order{0, 1, 2};
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return grid.stride[a] > grid.stride[b]; });
  int64_t start = piece.reads[0].offset;
  for (size_t a : order) {
    window[a].inputSize = grid.size[a];
    if (grid.size[a] == 1)
      continue;
    window[a].padLow = -(start / grid.stride[a]);
    start %= grid.stride[a];
  }
  bool hasChannels = grid.channels == 1;
  std::array<bool, 3> isTaken{};
  for (const CopiedAxis &axis : axes) {
    if (!hasChannels && axis.from == 1 && axis.to == 1 && axis.size == grid.channels && axis.inside == axis.size) {
      hasChannels = true;
      continue;
    }
    size_t a = 0;
    while (a < 3 && (isTaken[a] || grid.size[a] == 1 || axis.from < grid.stride[a] || axis.from % grid.stride[a] ||
                     axis.from / grid.stride[a] >= grid.size[a]))
      ++a;
    if (a == 3)
      return std::nullopt;
    isTaken[a] = true;
    const int64_t step = axis.from / grid.stride[a], first = -window[a].padLow, behind = first + axis.inside * step;
    // What is padding must lie outside.
    if ((axis.padLow && first >= step) || (axis.padLow + axis.inside < axis.size && behind < grid.size[a]))
      return std::nullopt;
    window[a].size = axis.size;
    window[a].stride = step;
    window[a].padLow += axis.padLow * step;
    made.size[a] = axis.size;
    made.stride[a] = axis.to;
  }
  if (!hasChannels || start)
    return std::nullopt;
  // Axes that are exchanged are other axes for the layers behind.
  for (size_t i = 0; i + 1 < 3; ++i)
    for (size_t k = i + 1; k < 3; ++k)
      if (made.size[order[i]] > 1 && made.size[order[k]] > 1 && made.stride[order[i]] < made.stride[order[k]])
        return std::nullopt;
  return std::pair(window, made);
}
} // namespace

void cost::describeMovement(std::vector<LayerWork> &layers, const std::vector<NetworkTensor> &tensors) {
  std::vector<std::optional<Grid>> grids(tensors.size()); // that all writers agree on
  std::vector<bool> isWritten(tensors.size(), false);
  auto describe = [&](LayerWork &layer) {
    if (layer.dependence != Dependence::None || !onlyMoves(layer) || layer.inputs.size() != 1 || !grids[layer.inputs[0].tensor])
      return;
    TensorUse &input = layer.inputs[0];
    const std::optional<Grid> grid = denseGrid(*grids[input.tensor], tensors[input.tensor].bytes / input.elementBytes);
    if (!grid)
      return;
    bool staysInPlace = input.bytes >= tensors[input.tensor].bytes && input.bytes == tensors[layer.output.tensor].bytes;
    for (const LayerWork::Piece &piece : layer.pieces) {
      if (piece.reads.size() != 1 || piece.reads[0].isConstant)
        return;
      const std::optional<std::vector<CopiedAxis>> axes = axesOf(piece);
      if (!axes)
        return;
      staysInPlace &= keepsPositions(piece, *axes, grid->channels);
      if (layer.pieces.size() > 1)
        continue;
      if (auto found = windowOf(piece, *axes, *grid)) {
        std::tie(layer.window, layer.output.grid) = *found;
        layer.dependence = Dependence::Window;
        input.grid = grid;
        return;
      }
    }
    if (!staysInPlace)
      return;
    for (size_t a = 0; a < 3; ++a) {
      layer.window[a] = PositionAxis();
      layer.window[a].size = layer.window[a].inputSize = grid->size[a];
    }
    layer.dependence = Dependence::Window;
    input.grid = layer.output.grid = grid;
  };
  for (LayerWork &layer : layers) {
    describe(layer);
    const unsigned output = layer.output.tensor;
    const bool isFirst = !isWritten[output];
    isWritten[output] = true;
    if (isFirst)
      grids[output] = layer.output.grid;
    else if (!grids[output] || !layer.output.grid || !grids[output]->hasPositionsOf(*layer.output.grid))
      grids[output].reset();
  }
}

std::vector<Cut> cost::cutsAt(unsigned tensor, const std::vector<LayerWork> &layers,
                              const std::vector<NetworkTensor> &tensors) {
  return CutFinder(layers, tensors).cutsAt(tensor);
}

Contraction cost::withOutputs(Contraction contraction, const Box &outputs) {
  for (size_t a = 0; a < 3; ++a) {
    contraction.axes[a].size = outputs[a].size();
    contraction.axes[a].padLow -= outputs[a].first * contraction.axes[a].stride;
  }
  return contraction;
}

Contraction cost::withInputs(Contraction contraction, const Box &inputs) {
  for (size_t a = 0; a < 3; ++a) {
    contraction.axes[a].inputSize = inputs[a].size();
    contraction.axes[a].padLow += inputs[a].first;
  }
  return contraction;
}
