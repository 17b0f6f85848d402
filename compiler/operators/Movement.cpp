//===- Movement.cpp - Elements that take other places ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Movement.h"
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"

using namespace tw;
using namespace tw::operators;

namespace {

//===----------------------------------------------------------------------===//
// Shared
//===----------------------------------------------------------------------===//

/// `axes` counted from the front, in their order. Fails for an axis that is given twice.
std::vector<int64_t> distinctAxes(const Call &call, std::vector<int64_t> axes, int64_t rank) {
  std::vector<bool> seen(size_t(std::max<int64_t>(rank, 1)), false);
  for (int64_t &axis : axes) {
    const int64_t given = axis;
    axis = call.axis(axis, rank);
    if (rank == 0)
      call.fail("axis is " + std::to_string(given) + " for a scalar");
    if (seen[size_t(axis)])
      call.fail("axis " + std::to_string(given) + " is given twice");
    seen[size_t(axis)] = true;
  }
  return axes;
}

std::vector<int64_t> allAxes(size_t rank) {
  std::vector<int64_t> axes(rank);
  for (size_t i = 0; i < rank; ++i)
    axes[i] = int64_t(i);
  return axes;
}

/// Sets result 0 to input 0 under another shape of as many elements.
void setReshaped(Call &call, Shape shape) {
  const std::shared_ptr<const HostTensor> &x = call.shared(0);
  if (shape == x->shape)
    call.set(0, x);
  else
    call.set(0, reshaped(*x, std::move(shape)));
}

/// Where places along one dim of a result come from; -1: nowhere.
using DimSources = std::vector<int64_t>;

/// Copies y[i0, i1, ...] = x[sources[0][i0], sources[1][i1], ...] where all of these exist. Runs are copied as one.
class MappedCopy {
public:
  MappedCopy(const HostTensor &x, HostTensor &y, const std::vector<DimSources> &sources)
      : x(x), y(y), sources(sources), from(stridesOf(x.shape)), to(stridesOf(y.shape)) {
    // Dims behind the last one that is moved are copied as a whole.
    size_t depth = sources.size();
    while (depth > 0 && isKept(depth - 1))
      --depth;
    outer = depth;
  }

  void run() {
    if (countOf(x) == 0 || countOf(y) == 0)
      return;
    if (outer == 0)
      copyElements(x, 0, y, 0, countOf(y));
    else
      copy(0, 0, 0);
  }

private:
  bool isKept(size_t dim) const {
    if (x.shape[dim] != y.shape[dim])
      return false;
    for (size_t i = 0; i < sources[dim].size(); ++i)
      if (sources[dim][i] != int64_t(i))
        return false;
    return true;
  }

  void copy(size_t dim, int64_t xAt, int64_t yAt) {
    const DimSources &source = sources[dim];
    if (dim + 1 < outer) {
      for (size_t i = 0; i < source.size(); ++i)
        if (source[i] >= 0)
          copy(dim + 1, xAt + source[i] * from[dim], yAt + int64_t(i) * to[dim]);
      return;
    }
    for (size_t i = 0; i < source.size();) {
      size_t count = 1;
      if (source[i] >= 0) {
        while (i + count < source.size() && source[i + count] == source[i] + int64_t(count))
          ++count;
        copyElements(x, xAt + source[i] * from[dim], y, yAt + int64_t(i) * to[dim], int64_t(count) * from[dim]);
      }
      i += count;
    }
  }

  const HostTensor &x;
  HostTensor &y;
  const std::vector<DimSources> &sources;
  const Shape from, to;
  size_t outer;
};

//===----------------------------------------------------------------------===//
// Other shapes
//===----------------------------------------------------------------------===//

void evaluateIdentity(Call &call) { call.set(0, call.value(0)); }

void evaluateReshape(Call &call) {
  const HostTensor &x = call.input(0);
  Shape shape = call.opset() < 5 ? call.intsAttr("shape") : listInput(call, 1);
  const Shape given = shape;
  const bool allowsZero = call.opset() >= 14 && call.flagAttr("allowzero", false);
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allowsZero) {
      if (i >= x.shape.size())
        call.fail("shape " + textOf(given) + " takes dim " + std::to_string(i) + " of a tensor of shape " + textOf(x.shape));
      shape[i] = x.shape[i];
    } else if (shape[i] == -1 && !open) {
      open = i;
    } else if (shape[i] < 0) {
      call.fail("shape is " + textOf(given) + ", expected dims of at least 0, and at most one of -1");
    }
  }
  if (open) {
    shape[*open] = 1;
    const auto count = frontend::countTensorElements(shape);
    if (!count || *count == 0 || countOf(x) % *count != 0)
      call.fail("a tensor of shape " + textOf(x.shape) + " cannot have shape " + textOf(given));
    shape[*open] = countOf(x) / *count;
  }
  if (const auto count = frontend::countTensorElements(shape); !count || *count != countOf(x))
    call.fail("a tensor of shape " + textOf(x.shape) + " cannot have shape " + textOf(given));
  setReshaped(call, std::move(shape));
}

void evaluateFlatten(Call &call) {
  const Shape &shape = call.input(0).shape;
  const int64_t rank = int64_t(shape.size()), given = call.intAttr("axis", 1);
  if (given < -rank || given > rank)
    call.fail("axis is " + std::to_string(given) + " for a tensor of rank " + std::to_string(rank));
  const auto middle = shape.begin() + (given < 0 ? given + rank : given);
  setReshaped(call, {countOf(Shape(shape.begin(), middle)), countOf(Shape(middle, shape.end()))});
}

/// The axes of Squeeze or Unsqueeze; nothing if none are given.
std::optional<std::vector<int64_t>> squeezedAxes(const Call &call) {
  if (call.opset() >= 13)
    return call.has(1) ? std::optional(listInput(call, 1)) : std::nullopt;
  return call.hasAttr("axes") ? std::optional(call.intsAttr("axes")) : std::nullopt;
}

void evaluateSqueeze(Call &call) {
  const Shape &shape = call.input(0).shape;
  std::vector<bool> goes(shape.size(), false);
  if (const auto given = squeezedAxes(call)) {
    for (int64_t axis : distinctAxes(call, *given, int64_t(shape.size()))) {
      if (shape[size_t(axis)] != 1)
        call.fail("axis " + std::to_string(axis) + " of shape " + textOf(shape) + " is squeezed, its dim must be 1");
      goes[size_t(axis)] = true;
    }
  } else {
    for (size_t i = 0; i < shape.size(); ++i)
      goes[i] = shape[i] == 1;
  }
  Shape result;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!goes[i])
      result.push_back(shape[i]);
  setReshaped(call, std::move(result));
}

void evaluateUnsqueeze(Call &call) {
  const Shape &shape = call.input(0).shape;
  const auto given = squeezedAxes(call);
  if (!given)
    call.fail("axes are missing");
  const size_t rank = shape.size() + given->size();
  std::vector<bool> isNew(rank, false);
  for (int64_t axis : distinctAxes(call, *given, int64_t(rank)))
    isNew[size_t(axis)] = true;
  Shape result;
  for (size_t i = 0, from = 0; i < rank; ++i)
    result.push_back(isNew[i] ? 1 : shape[from++]);
  setReshaped(call, std::move(result));
}

void evaluateTranspose(Call &call) {
  const std::shared_ptr<const HostTensor> &x = call.shared(0);
  std::vector<int64_t> perm = allAxes(x->shape.size());
  if (!call.hasAttr("perm")) {
    std::reverse(perm.begin(), perm.end());
  } else {
    const std::vector<int64_t> given = call.intsAttr("perm");
    std::vector<int64_t> sorted = given;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != perm)
      call.fail("perm is " + textOf(given) + " for a tensor of rank " + std::to_string(x->shape.size()));
    perm = given;
  }
  if (std::is_sorted(perm.begin(), perm.end()))
    call.set(0, x);
  else
    call.set(0, transposed(*x, perm));
}

void evaluateExpand(Call &call) {
  const std::shared_ptr<const HostTensor> &x = call.shared(0);
  const Shape given = listInput(call, 1);
  for (int64_t dim : given)
    if (dim < 0)
      call.fail("shape is " + textOf(given) + ", expected dims of at least 0");
  const Shape shape = broadcast(x->shape, given);
  if (shape == x->shape)
    return call.set(0, x);
  HostTensor &y = call.output(0, x->type, shape);
  copyBlock(shape, *x, 0, broadcastStrides(x->shape, shape), y, 0, stridesOf(shape));
}

void evaluateTile(Call &call) {
  const HostTensor &x = call.input(0);
  const size_t rank = x.shape.size();
  const std::vector<int64_t> repeats = listInput(call, 1);
  if (repeats.size() != rank)
    call.fail("repeats has " + std::to_string(repeats.size()) + " entries for a tensor of rank " + std::to_string(rank));
  Shape shape, blocks, from, to;
  for (size_t i = 0; i < rank; ++i) {
    if (repeats[i] < 0)
      call.fail("repeats is " + textOf(repeats) + ", expected at least 0");
    // Saturates above what makeTensor() allows.
    shape.push_back(repeats[i] > frontend::kMaxTensorElements && x.shape[i] > 0 ? repeats[i] : repeats[i] * x.shape[i]);
  }
  HostTensor &y = call.output(0, x.type, shape);
  if (countOf(y) == 0)
    return;
  const Shape own = stridesOf(x.shape), strides = stridesOf(shape);
  for (size_t i = 0; i < rank; ++i) {
    blocks.insert(blocks.end(), {repeats[i], x.shape[i]});
    from.insert(from.end(), {0, own[i]});
    to.insert(to.end(), {strides[i] * x.shape[i], strides[i]});
  }
  copyBlock(blocks, x, 0, from, y, 0, to);
}

/// Input 0, [N, C, H, W], and a blocksize.
int64_t blockSize(const Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t block = call.intAttr("blocksize");
  if (x.shape.size() != 4)
    call.fail("input 0 has shape " + textOf(x.shape) + ", expected four dims");
  if (block < 1 || block > (1 << 20))
    call.fail("blocksize is " + std::to_string(block) + ", expected 1 to 2^20");
  return block;
}

bool isDepthFirst(const Call &call) {
  const std::string mode = call.stringAttr("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    call.fail("mode is \"" + mode + "\", expected DCR or CRD");
  return mode == "DCR";
}

void evaluateDepthToSpace(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t b = blockSize(call), n = x.shape[0], h = x.shape[2], w = x.shape[3], c = x.shape[1] / (b * b);
  if (x.shape[1] != c * b * b)
    call.fail("input 0 has " + std::to_string(x.shape[1]) + " channels, expected a multiple of " + std::to_string(b * b));
  const Shape own = stridesOf(isDepthFirst(call) ? Shape{n, b, b, c, h, w} : Shape{n, c, b, b, h, w});
  const std::vector<size_t> perm =
      isDepthFirst(call) ? std::vector<size_t>{0, 3, 4, 1, 5, 2} : std::vector<size_t>{0, 1, 4, 2, 5, 3};
  const Shape dims{n, c, h, b, w, b};
  HostTensor &y = call.output(0, x.type, {n, c, h * b, w * b});
  Shape from;
  for (size_t dim : perm)
    from.push_back(own[dim]);
  copyBlock(dims, x, 0, from, y, 0, stridesOf(dims));
}

void evaluateSpaceToDepth(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t b = blockSize(call), n = x.shape[0], c = x.shape[1], h = x.shape[2] / b, w = x.shape[3] / b;
  if (x.shape[2] != h * b || x.shape[3] != w * b)
    call.fail("input 0 has shape " + textOf(x.shape) + ", expected height and width to be multiples of " + std::to_string(b));
  const Shape own = stridesOf({n, c, h, b, w, b});
  const bool first = isDepthFirst(call);
  const std::vector<size_t> perm = first ? std::vector<size_t>{0, 3, 5, 1, 2, 4} : std::vector<size_t>{0, 1, 3, 5, 2, 4};
  const Shape dims = first ? Shape{n, b, b, c, h, w} : Shape{n, c, b, b, h, w};
  HostTensor &y = call.output(0, x.type, {n, c * b * b, h, w});
  Shape from;
  for (size_t dim : perm)
    from.push_back(own[dim]);
  copyBlock(dims, x, 0, from, y, 0, stridesOf(dims));
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

void evaluateSlice(Call &call) {
  const std::shared_ptr<const HostTensor> &x = call.shared(0);
  const int64_t rank = int64_t(x->shape.size());
  std::vector<int64_t> starts, ends, axes, steps;
  if (call.opset() < 10) {
    starts = call.intsAttr("starts");
    ends = call.intsAttr("ends");
    axes = call.intsAttr("axes", allAxes(starts.size()));
  } else {
    starts = listInput(call, 1);
    ends = listInput(call, 2);
    axes = call.has(3) ? listInput(call, 3) : allAxes(starts.size());
    if (call.has(4))
      steps = listInput(call, 4);
  }
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    call.fail(std::to_string(starts.size()) + " starts, " + std::to_string(ends.size()) + " ends, " +
              std::to_string(axes.size()) + " axes and " + std::to_string(steps.size()) + " steps, expected as many of each");
  axes = distinctAxes(call, axes, rank);
  Shape shape = x->shape, strides = countOf(*x) > 0 ? stridesOf(x->shape) : Shape(x->shape.size(), 0);
  int64_t from = 0;
  bool isWhole = true;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t dim = size_t(axes[i]);
    const int64_t extent = x->shape[dim];
    if (steps[i] == 0)
      call.fail("a step is 0");
    // A step beyond the extent reaches one entry whatever it is.
    const int64_t step = std::clamp(steps[i], -extent - 1, extent + 1);
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? extent - 1 : extent;
    const int64_t start =
        std::clamp(starts[i] < 0 ? starts[i] + extent : starts[i], step < 0 ? std::min<int64_t>(0, high) : 0, high);
    const int64_t end = std::clamp(ends[i] < 0 ? ends[i] + extent : ends[i], low, high);
    shape[dim] = std::max<int64_t>(0, step < 0 ? (start - end - step - 1) / -step : (end - start + step - 1) / step);
    isWhole &= shape[dim] == extent && (step == 1 || extent <= 1);
    from += shape[dim] > 0 ? start * strides[dim] : 0;
    strides[dim] *= step;
  }
  if (isWhole)
    return call.set(0, x);
  HostTensor &y = call.output(0, x->type, shape);
  if (countOf(y) > 0)
    copyBlock(shape, *x, from, strides, y, 0, stridesOf(shape));
}

void evaluateSplit(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t axis = call.axis(call.intAttr("axis", 0), int64_t(x.shape.size())), outputs = int64_t(call.numOutputs());
  if (x.shape.empty())
    call.fail("input 0 is a scalar");
  const int64_t extent = x.shape[size_t(axis)];
  std::vector<int64_t> split;
  if (call.opset() < 13 && call.hasAttr("split")) {
    split = call.intsAttr("split");
  } else if (call.opset() >= 13 && call.has(1)) {
    split = listInput(call, 1);
  } else {
    const int64_t count = call.opset() >= 18 ? call.intAttr("num_outputs", outputs) : outputs;
    if (count != outputs)
      call.fail("num_outputs is " + std::to_string(count) + " for " + std::to_string(outputs) + " results");
    if (count > 0 && call.opset() < 18 && extent % count != 0)
      call.fail("a dim of " + std::to_string(extent) + " is split into " + std::to_string(count) + " equal parts");
    const int64_t each = count > 0 ? (extent + count - 1) / count : 0;
    for (int64_t i = 0; i < count; ++i)
      split.push_back(i + 1 < count ? each : extent - each * (count - 1));
  }
  if (int64_t(split.size()) != outputs)
    call.fail("split is " + textOf(split) + " for " + std::to_string(outputs) + " results");
  requireParts(call, split, extent);
  int64_t begin = 0;
  for (size_t i = 0; i < split.size(); ++i) {
    if (call.wants(i))
      call.set(i, sliceOf(x, axis, begin, split[i]));
    begin += split[i];
  }
}

void evaluateConcat(Call &call) {
  std::vector<const HostTensor *> parts;
  for (size_t i = 0; i < call.numInputs(); ++i)
    parts.push_back(&call.input(i));
  if (parts.empty())
    call.fail("it has no inputs");
  const int64_t axis = call.opset() < 4 ? call.intAttr("axis", 1) : call.intAttr("axis");
  if (parts.size() == 1 && !parts[0]->shape.empty()) {
    call.axis(axis, int64_t(parts[0]->shape.size()));
    return call.set(0, call.shared(0));
  }
  call.set(0, concatenated(parts, axis));
}

void evaluateTrilu(Call &call) {
  const HostTensor &x = call.input(0);
  const size_t rank = x.shape.size();
  if (rank < 2)
    call.fail("input 0 has shape " + textOf(x.shape) + ", expected two dims or more");
  const bool isUpper = call.flagAttr("upper", true);
  const int64_t rows = x.shape[rank - 2], columns = x.shape[rank - 1];
  // The diagonal in [-rows, columns] says all.
  const int64_t k = std::clamp(call.has(1) ? call.intScalar(1) : 0, -rows, columns);
  HostTensor &y = call.output(0, x.type, x.shape);
  const int64_t lines = columns > 0 ? countOf(x) / columns : 0;
  for (int64_t line = 0; line < lines; ++line) {
    const int64_t diagonal = line % rows + k;
    const int64_t begin = isUpper ? std::clamp<int64_t>(diagonal, 0, columns) : 0;
    const int64_t end = isUpper ? columns : std::clamp<int64_t>(diagonal + 1, 0, columns);
    copyElements(x, line * columns + begin, y, line * columns + begin, end - begin);
  }
}

//===----------------------------------------------------------------------===//
// Borders
//===----------------------------------------------------------------------===//

enum class PadMode { Constant, Reflect, Edge, Wrap };

/// The place that stands `at` places behind the first of `extent`, which may be outside.
int64_t paddedPlace(PadMode mode, int64_t at, int64_t extent) {
  if (at >= 0 && at < extent)
    return at;
  switch (mode) {
  case PadMode::Constant:
    return -1;
  case PadMode::Edge:
    return at < 0 ? 0 : extent - 1;
  case PadMode::Wrap:
    return (at % extent + extent) % extent;
  case PadMode::Reflect:
    break;
  }
  if (extent == 1)
    return 0;
  const int64_t period = 2 * (extent - 1), inside = (at % period + period) % period;
  return inside < extent ? inside : period - inside;
}

/// Sources of one padded dim. Negative pads cut first; the rest is padded from what is left.
DimSources padDim(const Call &call, PadMode mode, int64_t extent, int64_t before, int64_t after) {
  const int64_t most = frontend::kMaxTensorElements;
  if (before > most || after > most || before < -most || after < -most)
    call.fail("pads are " + std::to_string(before) + " and " + std::to_string(after) + " for a dim of " +
              std::to_string(extent));
  const int64_t cut = std::max<int64_t>(0, -before), left = extent - cut - std::max<int64_t>(0, -after);
  if (left < 0)
    call.fail("pads " + std::to_string(before) + " and " + std::to_string(after) + " take more away than a dim of " +
              std::to_string(extent) + " has");
  const int64_t result = left + std::max<int64_t>(0, before) + std::max<int64_t>(0, after);
  if (left == 0 && result > 0 && mode != PadMode::Constant)
    call.fail("an empty dim is padded from its own entries");
  if (result > most)
    call.fail("pads " + std::to_string(before) + " and " + std::to_string(after) + " are too large");
  DimSources sources(static_cast<size_t>(result));
  for (int64_t i = 0; i < result; ++i) {
    const int64_t place = paddedPlace(mode, i - std::max<int64_t>(0, before), left);
    sources[size_t(i)] = place < 0 ? -1 : place + cut;
  }
  return sources;
}

PadMode padMode(const Call &call) {
  const std::string mode = call.stringAttr("mode", "constant");
  if (mode == "constant")
    return PadMode::Constant;
  if (mode == "reflect")
    return PadMode::Reflect;
  if (mode == "edge")
    return PadMode::Edge;
  if (mode == "wrap")
    return PadMode::Wrap;
  call.fail("mode is \"" + mode + "\", expected constant, reflect, edge or wrap");
}

Shape shapeOf(const std::vector<DimSources> &sources) {
  Shape shape;
  for (const DimSources &each : sources)
    shape.push_back(int64_t(each.size()));
  return shape;
}

/// Fails before memory is taken for the places of a shape that is too large.
void requirePossible(const Call &call, const Shape &shape) {
  if (!frontend::countTensorElements(shape))
    call.fail("the result would have shape " + textOf(shape) +
              ": no dim may be negative, and at most 2^31 elements are allowed");
}

void evaluatePad(Call &call) {
  const HostTensor &x = call.input(0);
  const size_t rank = x.shape.size();
  const bool hasInputs = call.opset() >= 11;
  const std::vector<int64_t> pads = hasInputs ? listInput(call, 1) : call.intsAttr(call.opset() < 2 ? "paddings" : "pads");
  const std::vector<int64_t> axes =
      hasInputs && call.has(3) ? distinctAxes(call, listInput(call, 3), int64_t(rank)) : allAxes(rank);
  if (pads.size() != 2 * axes.size())
    call.fail("pads has " + std::to_string(pads.size()) + " entries, expected " + std::to_string(2 * axes.size()));
  const PadMode mode = padMode(call);
  std::vector<std::pair<int64_t, int64_t>> around(rank, {0, 0});
  for (size_t i = 0; i < axes.size(); ++i)
    around[size_t(axes[i])] = {pads[i], pads[axes.size() + i]};
  // What is cut behind is left out here: at most this large, unless padDim() fails.
  Shape most = x.shape;
  for (size_t dim = 0; dim < rank; ++dim)
    if (const auto [before, after] = around[dim]; std::max(before, after) <= frontend::kMaxTensorElements)
      most[dim] += std::max<int64_t>(before, -most[dim]) + std::max<int64_t>(after, 0);
  requirePossible(call, most);
  std::vector<DimSources> sources;
  for (size_t dim = 0; dim < rank; ++dim)
    sources.push_back(padDim(call, mode, x.shape[dim], around[dim].first, around[dim].second));
  HostTensor &y = call.output(0, x.type, shapeOf(sources));
  if (mode == PadMode::Constant) {
    HostTensor value = makeTensor(x.type, {});
    if (hasInputs && call.has(2)) {
      call.requireSameType(x, call.input(2));
      if (countOf(call.input(2)) != 1)
        call.fail("input 2 has shape " + textOf(call.input(2).shape) + ", expected a scalar");
      value = call.input(2);
    } else if (!hasInputs && x.type != ElementKind::String) {
      setReal(value, 0, call.floatAttr("value", 0.0f));
    }
    fill(y, value);
  }
  MappedCopy(x, y, sources).run();
}

void evaluateCenterCropPad(Call &call) {
  const HostTensor &x = call.input(0);
  const size_t rank = x.shape.size();
  const Shape wanted = listInput(call, 1);
  const std::vector<int64_t> axes =
      call.hasAttr("axes") ? distinctAxes(call, call.intsAttr("axes"), int64_t(rank)) : allAxes(rank);
  if (wanted.size() != axes.size())
    call.fail("shape is " + textOf(wanted) + " for " + std::to_string(axes.size()) + " axes");
  Shape shape = x.shape;
  for (size_t i = 0; i < axes.size(); ++i)
    shape[size_t(axes[i])] = wanted[i];
  requirePossible(call, shape);
  std::vector<DimSources> sources;
  for (size_t dim = 0; dim < rank; ++dim) {
    // source: ONNX, operator CenterCropPad: an odd difference is cut behind, and padded behind.
    const int64_t extent = x.shape[dim], difference = shape[dim] - extent;
    const int64_t before = difference < 0 ? -(-difference / 2) : difference / 2;
    sources.push_back(padDim(call, PadMode::Constant, extent, before, difference - before));
  }
  MappedCopy(x, call.output(0, x.type, shape), sources).run();
}

} // namespace

void operators::requireParts(const Call &call, const std::vector<int64_t> &split, int64_t extent) {
  int64_t left = extent;
  for (int64_t size : split) {
    if (size < 0 || size > left)
      call.fail("split is " + textOf(split) + " for a dim of " + std::to_string(extent));
    left -= size;
  }
  if (left != 0)
    call.fail("split is " + textOf(split) + " for a dim of " + std::to_string(extent));
}

std::vector<int64_t> operators::listInput(const Call &call, size_t i) {
  const HostTensor &x = call.input(i);
  if (x.type != ElementKind::I64 && x.type != ElementKind::I32)
    call.fail("input " + std::to_string(i) + " is of " + frontend::elementName(x.type) + ", expected int64");
  if (x.shape.size() > 1)
    call.fail("input " + std::to_string(i) + " has shape " + textOf(x.shape) + ", expected a list");
  return integersOf(x);
}

void operators::fill(HostTensor &y, const HostTensor &value) {
  if (countOf(y) > 0)
    copyBlock({countOf(y)}, value, 0, {0}, y, 0, {1});
}

void operators::addMovement(Table &table) {
  table[":Identity"].evaluate = evaluateIdentity;
  table[":Reshape"] = {evaluateReshape, /*shapeInputs=*/{1}};
  table[":Flatten"].evaluate = evaluateFlatten;
  table[":Squeeze"] = {evaluateSqueeze, /*shapeInputs=*/{1}};
  table[":Unsqueeze"] = {evaluateUnsqueeze, /*shapeInputs=*/{1}};
  table[":Transpose"].evaluate = evaluateTranspose;
  table[":Expand"] = {evaluateExpand, /*shapeInputs=*/{1}};
  table[":Tile"] = {evaluateTile, /*shapeInputs=*/{1}};
  table[":DepthToSpace"].evaluate = evaluateDepthToSpace;
  table[":SpaceToDepth"].evaluate = evaluateSpaceToDepth;
  table[":Slice"] = {evaluateSlice, /*shapeInputs=*/{1, 2, 3, 4}};
  table[":Split"] = {evaluateSplit, /*shapeInputs=*/{1}};
  table[":Concat"].evaluate = evaluateConcat;
  table[":Trilu"].evaluate = evaluateTrilu;
  table[":Pad"] = {evaluatePad, /*shapeInputs=*/{1, 3}};
  table[":CenterCropPad"] = {evaluateCenterCropPad, /*shapeInputs=*/{1}};
  addConstants(table);
  addIndexing(table);
}
