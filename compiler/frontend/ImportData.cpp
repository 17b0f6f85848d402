//===- ImportData.cpp - Constants, shapes and moving data -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxNode.h"
#include "compiler/frontend/OnnxTensor.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tw::frontend {

using llvm::ArrayRef;
using Tensors = std::vector<Tensor>;

static Tensors importConstant(Node &n) {
  n.checkInputCount(0, 0);
  auto floats = [](ArrayRef<float> values, bool scalar) {
    HostTensor tensor;
    if (!scalar)
      tensor.shape = {int64_t(values.size())};
    tensor.bytes.resize(values.size() * sizeof(float));
    if (!values.empty())
      std::memcpy(tensor.bytes.data(), values.data(), tensor.bytes.size());
    return makeConstant(std::move(tensor));
  };
  if (n.hasAttr("value"))
    return {n.tensorAttr("value")};
  if (n.hasAttr("value_float"))
    return {floats(n.floatAttr("value_float"), true)};
  if (n.hasAttr("value_floats"))
    return {floats(n.floatsAttr("value_floats"), false)};
  if (n.hasAttr("value_int"))
    return {evalReshape(makeInts(n.intAttr("value_int")), {})};
  if (n.hasAttr("value_ints"))
    return {makeInts(n.intsAttr("value_ints"))};
  n.inexpressible("found none of the attributes value, value_float, value_floats, value_int and value_ints");
}

static Tensors importConstantOfShape(Node &n) {
  n.checkInputCount(1, 1);
  std::vector<int64_t> shape = n.ints(0, "input");
  const Tensor given = n.hasAttr("value") ? n.tensorAttr("value") : Tensor(makeSplat(ElementKind::F32, {}, 0));
  const ConstantRef &value = given.constant;
  if (value->count() != 1)
    n.fail("attribute value has shape " + formatShape(value->shape) + ", expected one element");
  auto count = countTensorElements(shape);
  if (!count)
    n.fail("the shape is " + formatShape(shape) + ": no dim may be negative, and at most 2^31 elements are allowed");
  Tensor tensor = evalExpand(evalReshape(value, {}), shape);
  tensor.declared = given.declared;
  return {tensor};
}

static Tensors importIdentity(Node &n) {
  n.checkInputCount(1, 1);
  return {n.input(0, "input")};
}

static Tensors importDropout(Node &n) {
  n.checkInputCount(1, 3);
  if (n.opset() < 12)
    n.floatAttr("ratio", 0.5f);
  else
    n.intAttr("seed", 0);
  bool training = n.has(2) && n.constant(2, "training_mode")->count() == 1 && n.constant(2, "training_mode")->integer(0) != 0;
  // Training that drops nothing is inference.
  if (training && !(n.has(1) && n.constant(1, "ratio")->count() == 1 && n.constant(1, "ratio")->real(0) == 0))
    n.inexpressible("training_mode is true");
  const Tensor &x = n.input(0, "data");
  return {x, makeSplat(n.opset() < 10 ? x.kind : ElementKind::Bool, x.shape, 1)};
}

static Tensors importShape(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "data");
  auto clampDim = [&](int64_t dim) { return std::clamp<int64_t>(dim < 0 ? dim + x.rank() : dim, 0, x.rank()); };
  int64_t start = 0, end = x.rank();
  if (n.opset() >= 15) {
    start = clampDim(n.intAttr("start", 0));
    end = std::max(start, clampDim(n.intAttr("end", x.rank())));
  }
  return {makeInts(ArrayRef<int64_t>(x.shape).slice(size_t(start), size_t(end - start)))};
}

static Tensors importSize(Node &n) {
  n.checkInputCount(1, 1);
  int64_t size = 1;
  for (int64_t dim : n.input(0, "data").shape)
    size *= dim;
  return {evalReshape(makeInts(size), {})};
}

static Tensors importReshape(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "data");
  std::vector<int64_t> wanted = n.ints(1, "shape");
  bool allowZero = n.opset() >= 14 && n.flagAttr("allowzero", false);
  int64_t open = -1, known = 1, total = 1;
  for (int64_t dim : x.shape)
    total *= dim;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == 0 && !allowZero) {
      if (i >= x.shape.size())
        n.fail("shape " + formatShape(wanted) + " copies dim " + llvm::Twine(i) + " of an input of shape " +
               formatShape(x.shape));
      wanted[i] = x.shape[i];
    }
    if (wanted[i] == -1) {
      if (open >= 0)
        n.fail("shape " + formatShape(wanted) + " has -1 twice");
      open = int64_t(i);
    } else if (wanted[i] < 0 || __builtin_mul_overflow(known, wanted[i], &known)) {
      n.fail("shape is " + formatShape(wanted) + ", which is not the shape of a tensor");
    }
  }
  if (open >= 0) {
    if (known == 0 || total % known)
      n.fail("shape " + formatShape(wanted) + " does not divide the elements of shape " + formatShape(x.shape));
    wanted[size_t(open)] = total / known;
  }
  return {n.reshape(x, wanted)};
}

static Tensors importFlatten(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "input");
  int64_t axis = n.axis(n.intAttr("axis", 1), x.rank(), true);
  Shape shape{1, 1};
  for (int64_t i = 0; i < x.rank(); ++i)
    shape[i < axis ? 0 : 1] *= x.shape[size_t(i)];
  return {n.reshape(x, shape)};
}

static Tensors importSqueeze(Node &n) {
  n.checkInputCount(1, n.opset() >= 13 ? 2 : 1);
  const Tensor &x = n.input(0, "data");
  std::vector<int64_t> axes;
  bool all = n.opset() >= 13 ? !n.has(1) : !n.hasAttr("axes");
  if (!all)
    axes = n.axes(n.opset() >= 13 ? n.ints(1, "axes") : n.intsAttr("axes"), x.rank());
  Shape shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    int64_t dim = x.shape[size_t(i)];
    if (all ? dim == 1 : llvm::is_contained(axes, i)) {
      if (dim != 1)
        n.fail("dim " + llvm::Twine(i) + " of shape " + formatShape(x.shape) + " is squeezed, expected 1");
      continue;
    }
    shape.push_back(dim);
  }
  return {n.reshape(x, shape)};
}

static Tensors importUnsqueeze(Node &n) {
  n.checkInputCount(n.opset() >= 13 ? 2 : 1, n.opset() >= 13 ? 2 : 1);
  const Tensor &x = n.input(0, "data");
  std::vector<int64_t> axes = n.opset() >= 13 ? n.ints(1, "axes") : n.intsAttr("axes");
  int64_t rank = x.rank() + int64_t(axes.size());
  axes = n.axes(axes, rank);
  Shape shape;
  for (int64_t i = 0, from = 0; i < rank; ++i)
    shape.push_back(llvm::is_contained(axes, i) ? 1 : x.shape[size_t(from++)]);
  return {n.reshape(x, shape)};
}

static Tensors importTranspose(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "data");
  std::vector<int64_t> perm;
  for (int64_t i = x.rank(); i-- > 0;)
    perm.push_back(i);
  return {n.transpose(x, n.intsAttr("perm", perm))};
}

static Tensors importSlice(Node &n) {
  const Tensor &x = n.input(0, "data");
  std::vector<int64_t> starts, ends, axes, steps;
  bool hasAxes;
  if (n.opset() < 10) {
    n.checkInputCount(1, 1);
    starts = n.intsAttr("starts");
    ends = n.intsAttr("ends");
    hasAxes = n.hasAttr("axes");
    if (hasAxes)
      axes = n.intsAttr("axes");
  } else {
    n.checkInputCount(3, 5);
    starts = n.ints(1, "starts");
    ends = n.ints(2, "ends");
    hasAxes = n.has(3);
    if (hasAxes)
      axes = n.ints(3, "axes");
    if (n.has(4))
      steps = n.ints(4, "steps");
  }
  if (!hasAxes)
    for (size_t i = 0; i < starts.size(); ++i)
      axes.push_back(int64_t(i));
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    n.fail("found " + llvm::Twine(starts.size()) + " starts, " + llvm::Twine(ends.size()) + " ends, " +
           llvm::Twine(axes.size()) + " axes and " + llvm::Twine(steps.size()) + " steps, expected as many");
  n.axes(axes, x.rank());
  Shape first(x.shape.size(), 0), step(x.shape.size(), 1), size = x.shape;
  for (size_t i = 0; i < starts.size(); ++i) {
    size_t axis = size_t(n.axis(axes[i], x.rank()));
    int64_t dim = x.shape[axis];
    if (steps[i] == 0)
      n.fail("the step of dim " + llvm::Twine(axis) + " is 0, expected another value");
    // No dim is longer, and so no step of this length is ever taken.
    int64_t by = std::clamp(steps[i], -kMaxTensorElements, kMaxTensorElements);
    int64_t start = starts[i] < 0 ? starts[i] + dim : starts[i];
    int64_t end = ends[i] < 0 ? ends[i] + dim : ends[i];
    if (by > 0) {
      start = std::clamp<int64_t>(start, 0, dim);
      end = std::clamp<int64_t>(end, 0, dim);
      size[axis] = end > start ? (end - start - 1) / by + 1 : 0;
    } else {
      start = std::clamp<int64_t>(start, 0, std::max<int64_t>(dim - 1, 0));
      end = std::clamp<int64_t>(end, -1, std::max<int64_t>(dim - 1, 0));
      size[axis] = dim && start > end ? (start - end - 1) / -by + 1 : 0;
    }
    first[axis] = size[axis] ? start : 0;
    step[axis] = by;
  }
  return {n.slice(x, first, step, size)};
}

static Tensors importSplit(Node &n) {
  const Tensor &x = n.input(0, "input");
  n.checkInputCount(1, n.opset() >= 13 ? 2 : 1);
  int64_t axis = n.axis(n.intAttr("axis", 0), x.rank());
  int64_t dim = x.shape[size_t(axis)], parts = int64_t(n.numOutputs());
  std::vector<int64_t> sizes;
  bool given = n.opset() >= 13 ? n.has(1) : n.hasAttr("split");
  if (n.opset() >= 18 && n.hasAttr("num_outputs") && n.intAttr("num_outputs") != parts)
    n.fail("num_outputs is " + llvm::Twine(n.intAttr("num_outputs")) + ", the node has " + llvm::Twine(parts) + " outputs");
  if (given) {
    sizes = n.opset() >= 13 ? n.ints(1, "split") : n.intsAttr("split");
  } else {
    int64_t part = (dim + parts - 1) / std::max<int64_t>(parts, 1);
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::clamp<int64_t>(dim - i * part, 0, part));
  }
  int64_t sum = 0;
  for (int64_t size : sizes) {
    if (size < 0 || size > dim)
      n.fail("split is " + formatShape(sizes) + ", every part must have 0 to " + llvm::Twine(dim) + " elements");
    sum += size;
  }
  if (int64_t(sizes.size()) != parts || sum != dim)
    n.fail("split is " + formatShape(sizes) + ", expected " + llvm::Twine(parts) + " parts of together " + llvm::Twine(dim));
  Tensors results;
  Shape starts(x.shape.size(), 0), steps(x.shape.size(), 1), size = x.shape;
  for (int64_t part : sizes) {
    size[size_t(axis)] = part;
    results.push_back(n.slice(x, starts, steps, size));
    starts[size_t(axis)] += part;
  }
  return results;
}

static Tensors importConcat(Node &n) {
  n.checkInputCount(1, SIZE_MAX);
  Tensors inputs;
  for (size_t i = 0; i < n.numInputs(); ++i)
    inputs.push_back(n.input(i, "inputs"));
  return {n.concat(inputs, n.axis(n.intAttr("axis"), inputs.front().rank()))};
}

static int64_t countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

static void requireIndices(Node &n, const Tensor &indices) {
  if (indices.kind != ElementKind::I64 && indices.kind != ElementKind::I32)
    n.fail(llvm::Twine("indices are of ") + elementName(indices.kind) + ", expected int32 or int64");
}

/// graph.gather of tensors of rank 3, as `shape`.
static Tensor gatherRows(Node &n, const Tensor &x, const Tensor &indices, ArrayRef<int64_t> shape) {
  if (x.constant && indices.constant)
    n.inexpressible("its inputs are constants");
  Tensor y = n.emit<graph::GatherOp>(x.kind, {x.shape[0], indices.shape[1], x.shape[2]}, n.value(x), n.value(indices));
  return n.reshape(y, shape);
}

static Tensors importGather(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "data"), &indices = n.input(1, "indices");
  int64_t axis = n.axis(n.intAttr("axis", 0), x.rank());
  requireIndices(n, indices);
  Shape shape(x.shape.begin(), x.shape.begin() + axis);
  shape.append(indices.shape.begin(), indices.shape.end());
  shape.append(x.shape.begin() + axis + 1, x.shape.end());
  if (x.constant && indices.constant)
    return {evalGather(x.constant, indices.constant, axis)};
  if (indices.constant && indices.constant->count() >= 1) {
    // An arithmetic progression of indices is a slice.
    std::vector<int64_t> list = integersOf(*indices.constant);
    int64_t dim = x.shape[size_t(axis)];
    for (int64_t &index : list) {
      if (index < -dim || index >= dim)
        n.fail("index is " + llvm::Twine(index) + ", expected " + llvm::Twine(-dim) + " to " + llvm::Twine(dim - 1));
      index += index < 0 ? dim : 0;
    }
    int64_t step = list.size() > 1 ? list[1] - list[0] : 1;
    bool regular = step != 0;
    for (size_t i = 1; i < list.size(); ++i)
      regular &= list[i] - list[i - 1] == step;
    if (regular) {
      Shape starts(x.shape.size(), 0), steps(x.shape.size(), 1), sizes = x.shape;
      starts[size_t(axis)] = list[0];
      steps[size_t(axis)] = step;
      sizes[size_t(axis)] = int64_t(list.size());
      return {n.reshape(n.slice(x, starts, steps, sizes), shape)};
    }
  }
  ArrayRef<int64_t> dims = x.shape;
  const Tensor rows = n.reshape(x, {countOf(dims.take_front(axis)), dims[axis], countOf(dims.drop_front(axis + 1))});
  return {gatherRows(n, rows, n.reshape(indices, {1, countOf(indices.shape), 1}), shape)};
}

static Tensors importGatherElements(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "data"), &indices = n.input(1, "indices");
  const int64_t axis = n.axis(n.intAttr("axis", 0), x.rank());
  requireIndices(n, indices);
  Shape sizes = indices.shape;
  bool fits = sizes.size() == x.shape.size();
  for (size_t dim = 0; fits && dim < sizes.size(); ++dim)
    fits = int64_t(dim) == axis || sizes[dim] <= x.shape[dim];
  if (!fits)
    n.fail("indices of shape " + formatShape(indices.shape) + " do not fit data of shape " + formatShape(x.shape));
  sizes[size_t(axis)] = x.shape[size_t(axis)];
  const Tensor read = n.slice(x, Shape(sizes.size(), 0), Shape(sizes.size(), 1), sizes);
  ArrayRef<int64_t> dims = sizes;
  const int64_t outer = countOf(dims.take_front(axis)), inner = countOf(dims.drop_front(axis + 1));
  return {gatherRows(n, n.reshape(read, {outer, dims[axis], inner}),
                     n.reshape(indices, {outer, indices.shape[size_t(axis)], inner}), indices.shape)};
}

/// Rows of k indices become one place each: graph.gather among all elements that they choose from.
static Tensors importGatherNd(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "data"), &indices = n.input(1, "indices");
  const int64_t batchDims = n.opset() >= 12 ? n.intAttr("batch_dims", 0) : 0;
  requireIndices(n, indices);
  if (indices.rank() == 0 || batchDims < 0 || batchDims >= std::min(x.rank(), indices.rank()) ||
      indices.shape.back() > x.rank() - batchDims || indices.shape.back() < 1 ||
      ArrayRef<int64_t>(x.shape).take_front(batchDims) != ArrayRef<int64_t>(indices.shape).take_front(batchDims))
    n.inexpressible("indices of shape " + formatShape(indices.shape) + " are no rows of indices of data of shape " +
                    formatShape(x.shape));
  if (x.constant && indices.constant)
    n.inexpressible("its inputs are constants");
  const int64_t k = indices.shape.back();
  ArrayRef<int64_t> dims = x.shape, rows = ArrayRef<int64_t>(indices.shape).drop_back();
  const ArrayRef<int64_t> chosen = dims.slice(batchDims, k), inner = dims.drop_front(batchDims + k);
  Shape shape(rows.begin(), rows.end());
  shape.append(inner.begin(), inner.end());
  const int64_t batches = countOf(dims.take_front(batchDims)), perBatch = countOf(rows.drop_front(batchDims));
  const Tensor flat = n.cast(n.reshape(indices, {batches, perBatch, k}), ElementKind::I64);
  auto number = [](int64_t value) { return evalReshape(makeInts(value), {}); };
  std::optional<Tensor> place;
  for (int64_t i = 0; i < k; ++i) {
    const int64_t extent = chosen[size_t(i)];
    Tensor index = k == 1 ? flat : n.slice(flat, {0, 0, i}, {1, 1, 1}, {batches, perBatch, 1});
    if (k > 1) {
      // As graph.gather reads one index.
      Tensor fromEnd = n.binary(BinaryKind::Add, index, number(extent));
      index =
          n.elementwise(graph::Function::Select, {n.elementwise(graph::Function::Less, {index, number(0)}), fromEnd, index});
      index = n.binary(BinaryKind::Min, n.binary(BinaryKind::Max, index, number(0)), number(extent - 1));
    }
    place = place ? n.binary(BinaryKind::Add, n.binary(BinaryKind::Mul, *place, number(extent)), index) : index;
  }
  return {gatherRows(n, n.reshape(x, {batches, countOf(chosen), countOf(inner)}), *place, shape)};
}

/// The numbers `0, 1, ..` along dim `dim` of a tensor of rank `rank`.
static Tensor positions(int64_t count, int64_t dim, int64_t rank) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(i);
  Shape shape(size_t(rank), 1);
  shape[size_t(dim)] = count;
  return evalReshape(makeInts(numbers), shape);
}

static Tensors importTrilu(Node &n) {
  n.checkInputCount(1, 2);
  const Tensor &x = n.input(0, "input");
  const bool isUpper = n.flagAttr("upper", true);
  if (x.rank() < 2)
    n.fail("input has shape " + formatShape(x.shape) + ", expected two dims or more");
  const int64_t rows = x.shape[size_t(x.rank() - 2)], columns = x.shape[size_t(x.rank() - 1)];
  Tensor k = evalReshape(makeInts(0), {});
  if (n.has(1)) {
    const Tensor &given = n.input(1, "k");
    if (given.kind != ElementKind::I64 || countOf(given.shape) != 1)
      n.fail("k is of " + llvm::Twine(elementName(given.kind)) + " and has shape " + formatShape(given.shape) +
             ", expected one int64");
    k = n.reshape(given, {});
  }
  if (x.constant && k.constant)
    n.inexpressible("its inputs are constants");
  // Where the diagonal is within [-rows, columns], all sums are small.
  auto number = [](int64_t value) { return evalReshape(makeInts(value), {}); };
  k = n.binary(BinaryKind::Min, n.binary(BinaryKind::Max, k, number(-rows)), number(columns));
  const Tensor diagonal = n.binary(BinaryKind::Add, positions(rows, 0, 2), k), column = positions(columns, 1, 2);
  const bool isKnown = k.constant != nullptr;
  Tensor keeps =
      isKnown ? Tensor(evalElementwise(isUpper ? "GreaterOrEqual" : "LessOrEqual", {column.constant, diagonal.constant}))
              : n.elementwise(isUpper ? graph::Function::GreaterOrEqual : graph::Function::LessOrEqual, {column, diagonal});
  return {n.elementwise(graph::Function::Select, {keeps, x, makeSplat(x.kind, {}, 0)})};
}

/// Sums of 1, 2, 4 .. neighbours, until there are all.
static Tensors importCumSum(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "x");
  const bool isExclusive = n.flagAttr("exclusive", false), isReverse = n.flagAttr("reverse", false);
  if (x.constant)
    n.inexpressible("its inputs are constants");
  if (x.rank() == 0)
    n.fail("input is a scalar, expected one dim or more");
  const ConstantRef &given = n.scalar(1, "axis");
  const size_t axis = size_t(n.axis(given->integer(0), x.rank()));
  const int64_t extent = x.shape[axis];
  const ConstantRef zero = makeSplat(x.kind, {}, 0);
  auto shifted = [&](const Tensor &sums, int64_t by) {
    Shape starts(x.shape.size(), 0), sizes = x.shape, before(x.shape.size(), 0), behind(x.shape.size(), 0);
    sizes[axis] = extent - by;
    (isReverse ? starts : before)[axis] = by;
    if (isReverse)
      behind[axis] = by;
    return n.pad(n.slice(sums, starts, Shape(x.shape.size(), 1), sizes), before, behind, *zero);
  };
  Tensor sums = x;
  if (isExclusive && extent == 1)
    return {makeSplat(x.kind, x.shape, 0)};
  if (isExclusive)
    sums = shifted(x, 1);
  for (int64_t by = 1; by < extent; by *= 2)
    sums = n.binary(BinaryKind::Add, sums, shifted(sums, by));
  return {sums};
}

/// The largest of numbers that stand for places: of those that have the extreme element, the first or the last.
static Tensors importArg(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "data");
  const int64_t axis = n.axis(n.intAttr("axis", 0), x.rank());
  const bool keepsDims = n.flagAttr("keepdims", true);
  const bool takesLast = n.opset() >= 12 && n.flagAttr("select_last_index", false);
  const bool isReal = isFloat(x.kind);
  if (x.constant)
    n.inexpressible("its inputs are constants");
  // The other way round, the least is the largest.
  Tensor numbers = x;
  if (n.type() == "ArgMin")
    numbers = isReal ? n.emitUnary<graph::NegOp>(x) : n.elementwise(graph::Function::Not, {x});
  const Tensor most = n.reduce("max", numbers, {axis}, true);
  Tensor isMost = n.elementwise(graph::Function::Equal, {numbers, most});
  const int64_t count = x.shape[size_t(axis)];
  auto number = [](int64_t value) { return evalReshape(makeInts(value), {}); };
  const Tensor forward = positions(count, axis, x.rank());
  const Tensor backward = n.binary(BinaryKind::Sub, number(count - 1), forward);
  Tensor rank = n.elementwise(graph::Function::Select, {isMost, takesLast ? forward : backward, number(-1)});
  if (isReal) // the first that is no number is more extreme than every number
    rank = n.elementwise(graph::Function::Select, {n.elementwise(graph::Function::IsNan, {numbers}),
                                                   n.binary(BinaryKind::Add, backward, number(count)), rank});
  Tensor best = n.reduce("max", rank, {axis}, keepsDims);
  auto fromEnd = [&](int64_t last) { return n.binary(BinaryKind::Sub, number(last), best); };
  if (!isReal)
    return {takesLast ? best : fromEnd(count - 1)};
  const Tensor isNan = n.elementwise(graph::Function::GreaterOrEqual, {best, number(count)});
  return {n.elementwise(graph::Function::Select, {isNan, fromEnd(2 * count - 1), takesLast ? best : fromEnd(count - 1)})};
}

static Tensors importExpand(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "input");
  Shape shape = n.check(graph::broadcastShapes(x.shape, n.ints(1, "shape")));
  if (!countTensorElements(std::vector<int64_t>(shape.begin(), shape.end())))
    n.fail("the result would have shape " + formatShape(shape) + ": at most 2^31 elements are allowed");
  if (x.constant)
    return {evalExpand(x.constant, shape)};
  if (shape == x.shape)
    return {x};
  if (x.kind == ElementKind::Bool) {
    n.countConstants(shape, x.kind);
    return {n.elementwise(graph::Function::Or, {x, makeSplat(x.kind, shape, 0)})};
  }
  // A product with ones broadcasts and changes no number.
  n.countConstants(shape, x.kind);
  return {n.binary(BinaryKind::Mul, x, makeSplat(x.kind, shape, 1))};
}

static Tensors importTile(Node &n) {
  n.checkInputCount(2, 2);
  const Tensor &x = n.input(0, "input");
  std::vector<int64_t> repeats = n.ints(1, "repeats");
  Shape shape = x.shape;
  if (repeats.size() != shape.size())
    n.fail("repeats are " + formatShape(repeats) + ", expected one per dim of " + formatShape(x.shape));
  bool small = true;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats[i] < 0 || __builtin_mul_overflow(shape[i], repeats[i], &shape[i]))
      n.fail("repeats are " + formatShape(repeats) + ", which gives no shape of a tensor");
    // More copies than this make a graph nobody wants to read.
    small &= repeats[i] >= 1 && repeats[i] <= 64;
  }
  if (!countTensorElements(std::vector<int64_t>(shape.begin(), shape.end())))
    n.fail("the result would have shape " + formatShape(shape) + ": at most 2^31 elements are allowed");
  if (x.constant) {
    // Tiling [a, b] by [m, n] is expanding [1, a, 1, b] to [m, a, n, b].
    Shape split, wide;
    for (size_t i = 0; i < shape.size(); ++i) {
      split.append({1, x.shape[i]});
      wide.append({repeats[i], x.shape[i]});
    }
    return {evalReshape(evalExpand(evalReshape(x.constant, split), wide), shape)};
  }
  if (!small)
    return n.emitFallback({{x.kind, shape}}, "repeats are " + formatShape(repeats) + ", expected 1 to 64");
  Tensor result = x;
  for (size_t i = 0; i < shape.size(); ++i)
    if (repeats[i] > 1)
      result = n.concat(Tensors(size_t(repeats[i]), result), int64_t(i));
  return {result};
}

/// `x` with `low` and `high` elements repeated from its border: mirrored (reflect), or the outermost ones (edge).
static Tensor padWithBorder(const Node &n, bool reflect, Tensor x, ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  for (size_t i = 0; i < low.size(); ++i) {
    int64_t dim = x.shape[i];
    if (reflect && std::max(low[i], high[i]) >= dim)
      n.fail("dim " + llvm::Twine(i) + " of " + llvm::Twine(dim) + " elements is padded by more than it can reflect");
    if (!reflect && std::max(low[i], high[i]) > 64)
      n.inexpressible("more than 64 copies of the edge are needed");
    auto part = [&](int64_t start, int64_t step, int64_t size) {
      Shape starts(x.shape.size(), 0), steps(x.shape.size(), 1), sizes = x.shape;
      starts[i] = start;
      steps[i] = step;
      sizes[i] = size;
      return n.slice(x, starts, steps, sizes);
    };
    Tensors parts;
    if (reflect && low[i])
      parts.push_back(part(low[i], -1, low[i]));
    if (!reflect && low[i])
      parts.insert(parts.end(), size_t(low[i]), part(0, 1, 1));
    parts.push_back(x);
    if (reflect && high[i])
      parts.push_back(part(dim - 2, -1, high[i]));
    if (!reflect && high[i])
      parts.insert(parts.end(), size_t(high[i]), part(dim - 1, 1, 1));
    x = n.concat(parts, int64_t(i));
  }
  return x;
}

static Tensors importPad(Node &n) {
  const Tensor &x = n.input(0, "data");
  std::string mode = n.stringAttr("mode", "constant");
  std::vector<int64_t> pads, axes;
  ConstantRef value = makeSplat(x.kind, {}, 0);
  for (int64_t i = 0; i < x.rank(); ++i)
    axes.push_back(i);
  if (n.opset() < 11) {
    n.checkInputCount(1, 1);
    pads = n.intsAttr("pads");
    value = makeSplat(x.kind, {}, n.floatAttr("value", 0.f));
  } else {
    n.checkInputCount(2, n.opset() >= 18 ? 4 : 3);
    pads = n.ints(1, "pads");
    if (n.has(2)) {
      n.requireSameType(x, n.input(2, "constant_value"));
      value = n.scalar(2, "constant_value");
    }
    if (n.has(3)) {
      axes = n.ints(3, "axes");
      n.axes(axes, x.rank());
    }
  }
  if (pads.size() != 2 * axes.size())
    n.fail("pads are " + formatShape(pads) + ", expected " + llvm::Twine(2 * axes.size()) + " values");
  Shape low(x.shape.size(), 0), high(x.shape.size(), 0), starts(x.shape.size(), 0), sizes = x.shape;
  bool any = false, cuts = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t axis = size_t(n.axis(axes[i], x.rank()));
    int64_t before = pads[i], after = pads[axes.size() + i];
    if (std::max(std::abs(before / 2), std::abs(after / 2)) > kMaxTensorElements / 2)
      n.fail("pads are " + formatShape(pads) + ", at most 2^31 are allowed");
    any |= before || after;
    // A negative pad cuts.
    cuts |= before < 0 || after < 0;
    low[axis] = std::max<int64_t>(before, 0);
    high[axis] = std::max<int64_t>(after, 0);
    starts[axis] = std::max<int64_t>(-before, 0);
    sizes[axis] -= starts[axis] + std::max<int64_t>(-after, 0);
    if (sizes[axis] < 0)
      n.fail("pads are " + formatShape(pads) + ", which cut more than there is of " + formatShape(x.shape));
  }
  if (!any)
    return {x};
  Tensor cut = cuts ? n.slice(x, starts, Shape(x.shape.size(), 1), sizes) : x;
  if (mode == "reflect" || mode == "edge")
    return {padWithBorder(n, mode == "reflect", cut, low, high)};
  if (mode != "constant") {
    Shape shape;
    for (size_t i = 0; i < sizes.size(); ++i)
      shape.push_back(sizes[i] + low[i] + high[i]);
    return n.emitFallback({{x.kind, shape}}, "mode is " + mode + ", expected constant, reflect or edge");
  }
  return {n.pad(cut, low, high, *value)};
}

static Tensors importCast(Node &n) {
  n.checkInputCount(1, 1);
  int64_t to = n.intAttr("to");
  // Only casts to 8-bit floats look at it.
  if (n.opset() >= 19)
    n.intAttr("saturate", 1);
  auto kind = elementKindOf(int32_t(std::clamp<int64_t>(to, 0, 1000)));
  if (!kind || isHostOnly(*kind))
    n.inexpressible("the cast is to " + onnxTypeName(int32_t(std::clamp<int64_t>(to, 0, 1000))));
  return {n.convert(n.input(0, "input"), *kind)};
}

static Tensors importCastLike(Node &n) {
  n.checkInputCount(2, 2);
  if (n.opset() >= 19)
    n.intAttr("saturate", 1);
  return {n.convert(n.input(0, "input"), n.input(1, "target_type").declared)};
}

static Tensors importWhere(Node &n) {
  n.checkInputCount(3, 3);
  const Tensor &c = n.input(0, "condition"), &a = n.input(1, "X"), &b = n.input(2, "Y");
  n.requireSameType(a, b);
  if (n.allConstant())
    return {evalElementwise(n.source(), n.opset(), {c.constant, a.constant, b.constant})};
  return {n.elementwise(graph::Function::Select, {c, a, b})};
}

/// The block size and the [N, C, H, W] input of DepthToSpace and SpaceToDepth.
static int64_t blockSize(Node &n) {
  n.checkInputCount(1, 1);
  const Tensor &x = n.input(0, "input");
  int64_t block = n.intAttr("blocksize");
  if (x.rank() != 4)
    n.fail("input has shape " + formatShape(x.shape) + ", expected rank 4");
  if (block < 1 || block > (1 << 15))
    n.fail("blocksize is " + llvm::Twine(block) + ", expected 1 to 2^15");
  return block;
}

static Tensors importDepthToSpace(Node &n) {
  int64_t b = blockSize(n);
  const Tensor &x = n.input(0, "input");
  std::string mode = n.opset() >= 11 ? n.stringAttr("mode", "DCR") : "DCR";
  int64_t c = x.shape[1] / (b * b), h = x.shape[2], w = x.shape[3];
  if (x.shape[1] % (b * b) || (mode != "DCR" && mode != "CRD"))
    n.fail("found " + llvm::Twine(x.shape[1]) + " channels and mode " + mode + ", expected a multiple of " +
           llvm::Twine(b * b) + " and DCR or CRD");
  bool dcr = mode == "DCR";
  Tensor split = n.reshape(x, dcr ? Shape{x.shape[0], b, b, c, h, w} : Shape{x.shape[0], c, b, b, h, w});
  Tensor moved = n.transpose(split, dcr ? Shape{0, 3, 4, 1, 5, 2} : Shape{0, 1, 4, 2, 5, 3});
  return {n.reshape(moved, {x.shape[0], c, h * b, w * b})};
}

static Tensors importSpaceToDepth(Node &n) {
  int64_t b = blockSize(n);
  const Tensor &x = n.input(0, "input");
  int64_t c = x.shape[1], h = x.shape[2] / b, w = x.shape[3] / b;
  if (x.shape[2] % b || x.shape[3] % b)
    n.fail("input has shape " + formatShape(x.shape) + ", expected height and width to be multiples of " + llvm::Twine(b));
  Tensor moved = n.transpose(n.reshape(x, {x.shape[0], c, h, b, w, b}), {0, 3, 5, 1, 2, 4});
  return {n.reshape(moved, {x.shape[0], c * b * b, h, w})};
}

/// Whether Resize picks input element i / k for output element i where an axis grows by the integer k.
static bool repeatsElements(Node &n, int64_t largest) {
  if (n.stringAttr("mode", "nearest") != "nearest")
    return false;
  // Upsample, and Resize of opset 10, know one way only. source: ONNX Operators, Resize-11 and its function body
  if (n.type() == "Upsample" || n.opset() < 11)
    return true;
  std::string position = n.stringAttr("coordinate_transformation_mode", "half_pixel");
  std::string rounding = n.stringAttr("nearest_mode", "round_prefer_floor");
  if (position == "asymmetric")
    return rounding == "floor" || (rounding == "round_prefer_floor" && largest <= 2);
  // (i + 0.5) / k - 0.5 lies strictly within 0.5 of i / k.
  return (position == "half_pixel" || position == "pytorch_half_pixel") &&
         (rounding == "round_prefer_floor" || rounding == "round_prefer_ceil");
}

/// Resize and Upsample by whole factors are copies; of all others only the shape is found.
static Tensors importResize(Node &n) {
  const Tensor &x = n.input(0, "X");
  bool upsample = n.type() == "Upsample", withRoi = !upsample && n.opset() >= 11;
  if (n.hasAttr("axes") || n.stringAttr("keep_aspect_ratio_policy", "stretch") != "stretch")
    n.inexpressible("axes and aspect ratio policies are not supported");
  size_t scalesAt = withRoi ? 2 : 1;
  Shape shape;
  bool whole = true;
  if (withRoi && n.has(3)) {
    std::vector<int64_t> sizes = n.ints(3, "sizes");
    shape.assign(sizes.begin(), sizes.end());
  } else {
    std::vector<double> scales;
    if (upsample && n.opset() < 9) {
      for (float scale : n.floatsAttr("scales"))
        scales.push_back(scale);
    } else {
      const Constant &list = *n.constant(scalesAt, "scales");
      if (list.shape.size() != 1 || list.count() != x.rank())
        n.fail("scales have shape " + formatShape(list.shape) + ", expected [" + llvm::Twine(x.rank()) + "]");
      for (int64_t i = 0; i < list.count(); ++i)
        scales.push_back(list.real(i));
    }
    for (size_t i = 0; i < scales.size() && i < x.shape.size(); ++i) {
      double size = std::floor(double(x.shape[i]) * scales[i]);
      if (!(size >= 0 && size <= double(kMaxTensorElements)))
        n.fail("the scale of dim " + llvm::Twine(i) + " is " + std::to_string(scales[i]) + ", expected a positive number");
      shape.push_back(int64_t(size));
      whole &= size == double(x.shape[i]) * scales[i]; // else the scale, not the size, says which elements are taken
    }
  }
  if (shape.size() != x.shape.size())
    n.fail("found " + llvm::Twine(shape.size()) + " sizes or scales, expected " + llvm::Twine(x.rank()));
  int64_t largest = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    whole &= shape[i] > 0 && x.shape[i] > 0 && shape[i] % x.shape[i] == 0;
    largest = std::max(largest, whole ? shape[i] / x.shape[i] : 1);
  }
  // More copies than this make a graph nobody wants to read.
  if (!whole || largest > 16 || !repeatsElements(n, largest))
    return n.emitFallback({{x.kind, shape}}, "only repetition of elements by a whole factor is supported");
  if (withRoi) {
    // They matter for other modes only.
    n.floatAttr("cubic_coeff_a", -0.75f);
    n.intAttr("exclude_outside", 0);
    n.floatAttr("extrapolation_value", 0.f);
    if (n.opset() >= 18)
      n.intAttr("antialias", 0);
  }
  Tensor result = x;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t factor = shape[i] / result.shape[i];
    if (factor == 1)
      continue;
    Shape split = result.shape, joined = result.shape;
    split.insert(split.begin() + i + 1, 1);
    joined[i] = shape[i];
    result = n.reshape(n.concat(Tensors(size_t(factor), n.reshape(result, split)), int64_t(i) + 1), joined);
  }
  return {result};
}

void addDataImports(ImportTable &table) {
  table[":Constant"] = importConstant;
  table[":ConstantOfShape"] = importConstantOfShape;
  table[":Identity"] = importIdentity;
  table[":Dropout"] = importDropout;
  table[":Shape"] = importShape;
  table[":Size"] = importSize;
  table[":Reshape"] = importReshape;
  table[":Flatten"] = importFlatten;
  table[":Squeeze"] = importSqueeze;
  table[":Unsqueeze"] = importUnsqueeze;
  table[":Transpose"] = importTranspose;
  table[":Slice"] = importSlice;
  table[":Split"] = importSplit;
  table[":Concat"] = importConcat;
  table[":Gather"] = importGather;
  table[":GatherElements"] = importGatherElements;
  table[":GatherND"] = importGatherNd;
  table[":Trilu"] = importTrilu;
  table[":CumSum"] = importCumSum;
  table[":ArgMax"] = importArg;
  table[":ArgMin"] = importArg;
  table[":Expand"] = importExpand;
  table[":Tile"] = importTile;
  table[":Pad"] = importPad;
  table[":Cast"] = importCast;
  table[":CastLike"] = importCastLike;
  table[":Where"] = importWhere;
  table[":DepthToSpace"] = importDepthToSpace;
  table[":SpaceToDepth"] = importSpaceToDepth;
  table[":Resize"] = importResize;
  table[":Upsample"] = importResize;
}

} // namespace tw::frontend
