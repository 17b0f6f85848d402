//===- Indexing.cpp - Elements whose places other tensors give ------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Movement.h"

using namespace tw;
using namespace tw::operators;

namespace {

/// Input `i`, of int32 or int64.
const HostTensor &indexInput(const Call &call, size_t i) {
  const HostTensor &indices = call.input(i);
  if (indices.type != ElementKind::I64 && indices.type != ElementKind::I32)
    call.fail("input " + std::to_string(i) + " is of " + frontend::elementName(indices.type) + ", expected int32 or int64");
  return indices;
}

/// `index`, counted from the end if negative; fails unless in [0, extent).
int64_t placeOf(const Call &call, int64_t index, int64_t extent) {
  const int64_t place = index < 0 ? index + extent : index;
  if (place < 0 || place >= extent)
    call.fail("index " + std::to_string(index) + " is out of range for a dim of " + std::to_string(extent));
  return place;
}

void requireDims(const Call &call, size_t i) {
  if (call.input(i).shape.empty())
    call.fail("input " + std::to_string(i) + " is a scalar");
}

int64_t countOf(Shape::const_iterator begin, Shape::const_iterator end) { return operators::countOf(Shape(begin, end)); }
using operators::countOf;

//===----------------------------------------------------------------------===//
// Gathers
//===----------------------------------------------------------------------===//

void evaluateGather(Call &call) {
  const HostTensor &x = call.input(0), &indices = indexInput(call, 1);
  requireDims(call, 0);
  const int64_t axis = call.axis(call.intAttr("axis", 0), int64_t(x.shape.size())), extent = x.shape[size_t(axis)];
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
  shape.insert(shape.end(), x.shape.begin() + axis + 1, x.shape.end());
  HostTensor &y = call.output(0, x.type, shape);
  std::vector<int64_t> places = integersOf(indices);
  for (int64_t &place : places)
    place = placeOf(call, place, extent);
  if (countOf(y) == 0)
    return;
  const int64_t outer = countOf(x.shape.begin(), x.shape.begin() + axis);
  const int64_t inner = countOf(x.shape.begin() + axis + 1, x.shape.end());
  for (int64_t i = 0, to = 0; i < outer; ++i)
    for (int64_t place : places) {
      copyElements(x, (i * extent + place) * inner, y, to, inner);
      to += inner;
    }
}

/// Checks that `indices` has the rank of `x` and no dim larger than that of `x`, that of `axis` aside.
void requireWithin(const Call &call, const HostTensor &x, const HostTensor &indices, int64_t axis) {
  bool fits = indices.shape.size() == x.shape.size();
  for (size_t dim = 0; fits && dim < x.shape.size(); ++dim)
    fits = int64_t(dim) == axis || indices.shape[dim] <= x.shape[dim];
  if (!fits)
    call.fail("indices of shape " + textOf(indices.shape) + " do not fit data of shape " + textOf(x.shape) + " along axis " +
              std::to_string(axis));
}

/// Calls `f(i, place)` for each element of `indices`: the place in `x` whose coordinate `axis` is that element, the others as in `indices`.
template <typename F> void forEachPlace(const Call &call, const HostTensor &x, const HostTensor &indices, int64_t axis, F &&f) {
  if (countOf(indices) == 0)
    return;
  Shape strides = stridesOf(x.shape);
  const int64_t extent = x.shape[size_t(axis)], step = strides[size_t(axis)];
  strides[size_t(axis)] = 0;
  auto visit = [&](const auto *index) {
    walk<1>(indices.shape, {strides}, [&](int64_t i, const std::array<int64_t, 1> &at) {
      f(i, at[0] + placeOf(call, int64_t(index[i]), extent) * step);
    });
  };
  if (indices.type == ElementKind::I64)
    visit(data<int64_t>(indices));
  else
    visit(data<int32_t>(indices));
}

/// Calls `f` with an integer of the elements' size; with nothing for strings and elements of 16 bytes.
template <typename F> void visitStorage(ElementKind kind, F &&f) {
  switch (kind == ElementKind::String ? 0 : frontend::elementBytes(kind)) {
  case 1:
    return f(uint8_t());
  case 2:
    return f(uint16_t());
  case 4:
    return f(uint32_t());
  case 8:
    return f(uint64_t());
  default:
    return f(nullptr);
  }
}

/// y[to] = x[from], of elements as visitStorage() gives them.
template <typename T> void copyStored(const HostTensor &x, int64_t from, HostTensor &y, int64_t to) {
  if constexpr (std::is_integral_v<T>)
    data<T>(y)[to] = data<T>(x)[from];
  else
    copyElement(x, from, y, to);
}

void evaluateGatherElements(Call &call) {
  const HostTensor &x = call.input(0), &indices = indexInput(call, 1);
  requireDims(call, 0);
  const int64_t axis = call.axis(call.intAttr("axis", 0), int64_t(x.shape.size()));
  requireWithin(call, x, indices, axis);
  HostTensor &y = call.output(0, x.type, indices.shape);
  visitStorage(x.type, [&](auto zero) {
    forEachPlace(call, x, indices, axis, [&](int64_t i, int64_t place) { copyStored<decltype(zero)>(x, place, y, i); });
  });
}

/// Places that the rows of `indices` [..., k] name in the dims of `shape` from `first` on, in units of what is behind these.
std::vector<int64_t> placesOfRows(const Call &call, const HostTensor &indices, const Shape &shape, size_t first) {
  const int64_t k = indices.shape.back(),
                rows = k > 0 ? countOf(indices) / k : countOf(indices.shape.begin(), indices.shape.end() - 1);
  std::vector<int64_t> places(size_t(rows), 0);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < k; ++i) {
      const int64_t extent = shape[first + size_t(i)];
      places[size_t(row)] = places[size_t(row)] * extent + placeOf(call, integerAt(indices, row * k + i), extent);
    }
  return places;
}

void evaluateGatherNd(Call &call) {
  const HostTensor &x = call.input(0), &indices = indexInput(call, 1);
  requireDims(call, 0);
  requireDims(call, 1);
  const int64_t batchDims = call.opset() >= 12 ? call.intAttr("batch_dims", 0) : 0;
  const int64_t rank = int64_t(x.shape.size()), k = indices.shape.back();
  if (batchDims < 0 || batchDims >= std::min(rank, int64_t(indices.shape.size())))
    call.fail("batch_dims is " + std::to_string(batchDims) + " for data of shape " + textOf(x.shape) + " and indices of " +
              textOf(indices.shape));
  if (k > rank - batchDims || !std::equal(x.shape.begin(), x.shape.begin() + batchDims, indices.shape.begin()))
    call.fail("indices of shape " + textOf(indices.shape) + " do not fit data of shape " + textOf(x.shape));
  Shape shape(indices.shape.begin(), indices.shape.end() - 1);
  shape.insert(shape.end(), x.shape.begin() + batchDims + k, x.shape.end());
  HostTensor &y = call.output(0, x.type, shape);
  const std::vector<int64_t> places = placesOfRows(call, indices, x.shape, size_t(batchDims));
  if (countOf(y) == 0)
    return;
  const int64_t inner = countOf(x.shape.begin() + batchDims + k, x.shape.end());
  const int64_t batches = countOf(x.shape.begin(), x.shape.begin() + batchDims);
  const int64_t perBatch = int64_t(places.size()) / batches, stride = countOf(x) / batches;
  for (int64_t row = 0; row < int64_t(places.size()); ++row)
    copyElements(x, row / perBatch * stride + places[size_t(row)] * inner, y, row * inner, inner);
}

//===----------------------------------------------------------------------===//
// Scatters
//===----------------------------------------------------------------------===//

enum class Reduction { None, Add, Mul, Min, Max };

Reduction reductionOf(const Call &call, bool isReducing) {
  const std::string name = isReducing ? call.stringAttr("reduction", "none") : "none";
  if (name == "none")
    return Reduction::None;
  if (name == "add")
    return Reduction::Add;
  if (name == "mul")
    return Reduction::Mul;
  if (name == "min")
    return Reduction::Min;
  if (name == "max")
    return Reduction::Max;
  call.fail("reduction is \"" + name + "\", expected none, add, mul, min or max");
}

/// Integers wrap; a NaN stays one.
template <typename C> C reduced(Reduction reduction, C a, C b) {
  using Sum = std::conditional_t<std::is_floating_point_v<C>, C, uint64_t>;
  switch (reduction) {
  case Reduction::None:
    break;
  case Reduction::Add:
    return C(Sum(a) + Sum(b));
  case Reduction::Mul:
    return C(Sum(a) * Sum(b));
  case Reduction::Min:
    return a != a || a < b ? a : b;
  case Reduction::Max:
    return a != a || a > b ? a : b;
  }
  return b;
}

/// y[to + i] = y[to + i] reduced by x[from + i].
void reduceElements(const HostTensor &x, int64_t from, HostTensor &y, int64_t to, int64_t count, Reduction reduction) {
  if (reduction == Reduction::None)
    return copyElements(x, from, y, to, count);
  if (x.type == ElementKind::Bool) {
    // Sums are or, products and.
    for (int64_t i = 0; i < count; ++i) {
      uint8_t &a = y.bytes[size_t(to + i)];
      const uint8_t b = x.bytes[size_t(from + i)];
      a = reduction == Reduction::Add || reduction == Reduction::Max ? a | b : a & b;
    }
    return;
  }
  const bool isNumber = visitNumber(x.type, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count; ++i)
      data<T>(y)[to + i] = T(reduced<Computed<T>>(reduction, data<T>(y)[to + i], data<T>(x)[from + i]));
  });
  for (int64_t i = 0; !isNumber && i < count; ++i)
    setReal(y, to + i, reduced(reduction, realAt(y, to + i), realAt(x, from + i)));
}

void evaluateScatterElements(Call &call) {
  const HostTensor &x = call.input(0), &indices = indexInput(call, 1), &updates = call.input(2);
  requireDims(call, 0);
  call.requireSameType(x, updates);
  const int64_t axis = call.axis(call.intAttr("axis", 0), int64_t(x.shape.size()));
  requireWithin(call, x, indices, axis);
  if (updates.shape != indices.shape)
    call.fail("updates have shape " + textOf(updates.shape) + ", indices " + textOf(indices.shape) + ", expected one shape");
  const Reduction reduction = reductionOf(call, call.opset() >= 16);
  HostTensor y = x;
  if (reduction == Reduction::None)
    visitStorage(x.type, [&](auto zero) {
      forEachPlace(call, x, indices, axis, [&](int64_t i, int64_t place) { copyStored<decltype(zero)>(updates, i, y, place); });
    });
  else
    forEachPlace(call, x, indices, axis, [&](int64_t i, int64_t place) { reduceElements(updates, i, y, place, 1, reduction); });
  call.set(0, std::move(y));
}

void evaluateScatterNd(Call &call) {
  const HostTensor &x = call.input(0), &indices = indexInput(call, 1), &updates = call.input(2);
  requireDims(call, 0);
  requireDims(call, 1);
  call.requireSameType(x, updates);
  const int64_t k = indices.shape.back();
  if (k > int64_t(x.shape.size()))
    call.fail("indices of shape " + textOf(indices.shape) + " do not fit data of shape " + textOf(x.shape));
  Shape expected(indices.shape.begin(), indices.shape.end() - 1);
  expected.insert(expected.end(), x.shape.begin() + k, x.shape.end());
  if (updates.shape != expected)
    call.fail("updates have shape " + textOf(updates.shape) + ", expected " + textOf(expected));
  const Reduction reduction = reductionOf(call, call.opset() >= 16);
  HostTensor y = x;
  if (countOf(updates) > 0) {
    const std::vector<int64_t> places = placesOfRows(call, indices, x.shape, 0);
    const int64_t inner = countOf(x.shape.begin() + k, x.shape.end());
    for (size_t row = 0; row < places.size(); ++row)
      reduceElements(updates, int64_t(row) * inner, y, places[row] * inner, inner, reduction);
  }
  call.set(0, std::move(y));
}

/// past [B, ..., M, ...], update [B, ..., S, ...] along an axis, and where in M the update of each batch begins [B].
void evaluateTensorScatter(Call &call) {
  const HostTensor &past = call.input(0), &update = call.input(1);
  call.requireSameType(past, update);
  const int64_t rank = int64_t(past.shape.size()), axis = call.axis(call.intAttr("axis", -2), rank);
  if (axis == 0)
    call.fail("axis is 0, the batch, of a tensor of rank " + std::to_string(rank));
  const std::string mode = call.stringAttr("mode", "linear");
  if (mode != "linear" && mode != "circular")
    call.fail("mode is \"" + mode + "\", expected linear or circular");
  const int64_t extent = past.shape[size_t(axis)];
  Shape expected = past.shape;
  if (update.shape.size() == past.shape.size())
    expected[size_t(axis)] = std::min(update.shape[size_t(axis)], extent);
  if (update.shape != expected)
    call.fail("update has shape " + textOf(update.shape) + " for a cache of shape " + textOf(past.shape) + " along axis " +
              std::to_string(axis));
  std::vector<int64_t> begins(size_t(past.shape[0]), 0);
  if (call.has(2)) {
    if (indexInput(call, 2).shape != Shape{past.shape[0]})
      call.fail("write_indices has shape " + textOf(call.input(2).shape) + ", expected " + textOf({past.shape[0]}));
    begins = call.ints(2);
  }
  const int64_t length = update.shape[size_t(axis)];
  for (int64_t &begin : begins)
    if (mode == "circular" && extent > 0)
      begin = (begin % extent + extent) % extent;
    else if (begin < 0 || begin > extent - length)
      call.fail("write index " + std::to_string(begin) + " with " + std::to_string(length) +
                " entries is out of range for a dim of " + std::to_string(extent));
  HostTensor y = past;
  if (countOf(update) > 0) {
    const int64_t inner = countOf(past.shape.begin() + axis + 1, past.shape.end());
    const int64_t perBatch = countOf(past.shape.begin() + 1, past.shape.begin() + axis), lines = past.shape[0] * perBatch;
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t begin = begins[size_t(line / perBatch)], untilEnd = std::min(length, extent - begin);
      copyElements(update, line * length * inner, y, (line * extent + begin) * inner, untilEnd * inner);
      copyElements(update, (line * length + untilEnd) * inner, y, line * extent * inner, (length - untilEnd) * inner);
    }
  }
  call.set(0, std::move(y));
}

//===----------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------===//

void evaluateOneHot(Call &call) {
  const HostTensor &indices = call.input(0), &values = call.input(2);
  const int64_t axis = call.axis(call.intAttr("axis", -1), int64_t(indices.shape.size()), /*behind=*/true);
  const int64_t depth = call.intScalar(1);
  if (values.shape != Shape{2})
    call.fail("values has shape " + textOf(values.shape) + ", expected [2]");
  Shape shape = indices.shape;
  shape.insert(shape.begin() + axis, depth);
  HostTensor &y = call.output(0, values.type, shape);
  if (countOf(y) == 0)
    return;
  fill(y, values);
  const int64_t inner = countOf(indices.shape.begin() + axis, indices.shape.end());
  for (int64_t i = 0; i < countOf(indices); ++i) {
    const int64_t given = integerAt(indices, i), place = given < 0 ? given + depth : given;
    if (place >= 0 && place < depth)
      copyElement(values, 1, y, (i / inner * depth + place) * inner + i % inner);
  }
}

void evaluateCompress(Call &call) {
  const HostTensor &x = call.input(0), &condition = call.input(1);
  if (condition.type != ElementKind::Bool || condition.shape.size() != 1)
    call.fail(std::string("condition is of ") + frontend::elementName(condition.type) + " and shape " +
              textOf(condition.shape) + ", expected a list of bool");
  const bool isFlat = !call.hasAttr("axis");
  if (!isFlat)
    requireDims(call, 0);
  const size_t axis = isFlat ? 0 : size_t(call.axis(call.intAttr("axis"), int64_t(x.shape.size())));
  const Shape dims = isFlat ? Shape{countOf(x)} : x.shape;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < condition.shape[0]; ++i)
    if (condition.bytes[size_t(i)])
      places.push_back(placeOf(call, i, dims[axis]));
  Shape shape = dims;
  shape[axis] = int64_t(places.size());
  HostTensor &y = call.output(0, x.type, shape);
  if (countOf(y) == 0)
    return;
  const int64_t outer = countOf(dims.begin(), dims.begin() + int64_t(axis)),
                inner = countOf(dims.begin() + int64_t(axis) + 1, dims.end());
  for (int64_t i = 0, to = 0; i < outer; ++i)
    for (int64_t place : places) {
      copyElements(x, (i * dims[axis] + place) * inner, y, to, inner);
      to += inner;
    }
}

/// Data [time, batch, ...] or [batch, time, ...]: the first sequence_lens[b] entries of each batch in reverse.
void evaluateReverseSequence(Call &call) {
  const HostTensor &x = call.input(0), &lengths = indexInput(call, 1);
  const int64_t timeAxis = call.intAttr("time_axis", 0), batchAxis = call.intAttr("batch_axis", 1);
  if (x.shape.size() < 2)
    call.fail("input 0 has shape " + textOf(x.shape) + ", expected two dims or more");
  if (timeAxis < 0 || timeAxis > 1 || batchAxis != 1 - timeAxis)
    call.fail("time_axis is " + std::to_string(timeAxis) + " and batch_axis " + std::to_string(batchAxis) +
              ", expected 0 and 1 or 1 and 0");
  const int64_t times = x.shape[size_t(timeAxis)], batches = x.shape[size_t(batchAxis)];
  if (lengths.shape != Shape{batches})
    call.fail("sequence_lens has shape " + textOf(lengths.shape) + ", expected " + textOf({batches}));
  HostTensor y = x;
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t length = integerAt(lengths, batch);
    if (length < 0 || length > times)
      call.fail("a sequence has length " + std::to_string(length) + ", expected 0 to " + std::to_string(times));
    if (countOf(x) == 0)
      continue;
    const int64_t inner = countOf(x.shape.begin() + 2, x.shape.end());
    const int64_t step = (timeAxis == 0 ? batches : 1) * inner, begin = batch * (timeAxis == 0 ? 1 : times) * inner;
    for (int64_t time = 0; time < length; ++time)
      copyElements(x, begin + time * step, y, begin + (length - 1 - time) * step, inner);
  }
  call.set(0, std::move(y));
}

} // namespace

void operators::addIndexing(Table &table) {
  table[":Gather"].evaluate = evaluateGather;
  table[":GatherElements"].evaluate = evaluateGatherElements;
  table[":GatherND"].evaluate = evaluateGatherNd;
  table[":Scatter"].evaluate = evaluateScatterElements;
  table[":ScatterElements"].evaluate = evaluateScatterElements;
  table[":ScatterND"].evaluate = evaluateScatterNd;
  table[":TensorScatter"].evaluate = evaluateTensorScatter;
  table[":OneHot"] = {evaluateOneHot, /*shapeInputs=*/{1}};
  table[":Compress"] = {evaluateCompress, /*shapeInputs=*/{}, /*isDynamic=*/true};
  table[":ReverseSequence"].evaluate = evaluateReverseSequence;
}
