//===- Constants.cpp - Tensors from attributes, shapes and scalars --------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/OnnxTensor.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Movement.h"

#include <onnx/onnx_pb.h>
#include <random>

using namespace tw;
using namespace tw::operators;

namespace {

/// The element type of an attribute of TensorProto.DataType.
ElementKind kindAttr(const Call &call, const char *name, ElementKind fallback) {
  if (!call.hasAttr(name))
    return fallback;
  const int64_t type = call.intAttr(name);
  const auto kind = type >= 0 && type <= frontend::kLastOnnxType ? frontend::elementKindOf(int32_t(type)) : std::nullopt;
  if (!kind)
    call.fail(std::string("attribute ") + name + " is " + std::to_string(type) + ", which is no element type");
  return *kind;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

HostTensor stringsTensor(std::vector<std::string> strings, Shape shape) {
  HostTensor x = makeTensor(ElementKind::String, shape);
  x.strings = std::move(strings);
  return x;
}

/// The dense form of attribute sparse_value: `values` [n], `indices` [n], of places in row-major order, or [n, rank].
HostTensor denseOf(const Call &call) {
  const onnx::AttributeProto *attribute = call.attr("sparse_value");
  if (attribute->type() != onnx::AttributeProto::SPARSE_TENSOR && attribute->type() != onnx::AttributeProto::UNDEFINED)
    call.fail("attribute sparse_value is of another type than expected");
  const onnx::SparseTensorProto &proto = attribute->sparse_tensor();
  Result<HostTensor> values = frontend::decodeTensor(proto.values()), indices = frontend::decodeTensor(proto.indices());
  if (!values || !indices)
    call.fail("attribute sparse_value: " + (values ? indices.message() : values.message()));
  HostTensor y = makeTensor(values->type, Shape(proto.dims().begin(), proto.dims().end()));
  const int64_t count = countOf(*values), rank = int64_t(y.shape.size());
  const bool isFlat = indices->shape == Shape{count};
  if (values->shape != Shape{count} || indices->type != ElementKind::I64 || (!isFlat && indices->shape != Shape{count, rank}))
    call.fail("attribute sparse_value has values of shape " + textOf(values->shape) + " and indices of " +
              frontend::elementName(indices->type) + " and shape " + textOf(indices->shape));
  const Shape strides = stridesOf(y.shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (int64_t dim = 0; dim < (isFlat ? 1 : rank); ++dim) {
      const int64_t index = data<int64_t>(*indices)[isFlat ? i : i * rank + dim];
      if (index < 0 || index >= (isFlat ? countOf(y) : y.shape[size_t(dim)]))
        call.fail("attribute sparse_value has index " + std::to_string(index) + " for shape " + textOf(y.shape));
      place += isFlat ? index : index * strides[size_t(dim)];
    }
    copyElement(*values, i, y, place);
  }
  return y;
}

void evaluateConstant(Call &call) {
  if (call.hasAttr("value"))
    return call.set(0, call.tensorAttr("value"));
  if (call.hasAttr("sparse_value"))
    return call.set(0, denseOf(call));
  if (call.hasAttr("value_int"))
    return call.set(0, makeScalar(ElementKind::I64, call.intAttr("value_int")));
  if (call.hasAttr("value_ints"))
    return call.set(0, makeInts(call.intsAttr("value_ints")));
  if (call.hasAttr("value_float"))
    return call.set(0, makeScalar(ElementKind::F32, call.floatAttr("value_float")));
  if (call.hasAttr("value_floats")) {
    const std::vector<float> values = call.floatsAttr("value_floats");
    std::copy(values.begin(), values.end(), data<float>(call.output(0, ElementKind::F32, {int64_t(values.size())})));
    return;
  }
  if (call.hasAttr("value_string"))
    return call.set(0, stringsTensor({call.stringAttr("value_string")}, {}));
  if (call.hasAttr("value_strings")) {
    std::vector<std::string> values = call.stringsAttr("value_strings");
    const int64_t count = int64_t(values.size());
    return call.set(0, stringsTensor(std::move(values), {count}));
  }
  call.fail("it has no value");
}

void evaluateConstantOfShape(Call &call) {
  HostTensor value = call.hasAttr("value") ? call.tensorAttr("value") : makeTensor(ElementKind::F32, {1});
  if (countOf(value) != 1)
    call.fail("attribute value has shape " + textOf(value.shape) + ", expected one element");
  fill(call.output(0, value.type, listInput(call, 0)), value);
}

void setMask(Call &call, const Shape &shape) {
  // source: ONNX, operator Dropout: before opset 10 the mask is of the data's type.
  HostTensor &mask = call.output(1, call.opset() < 10 ? call.input(0).type : ElementKind::Bool, shape);
  for (int64_t i = 0; i < countOf(shape); ++i)
    setInteger(mask, i, 1);
}

void evaluateDropout(Call &call) {
  const std::shared_ptr<const HostTensor> &x = call.shared(0);
  const bool isTraining = call.opset() >= 12 && call.has(2) && call.intScalar(2) != 0;
  const double ratio = call.opset() >= 12 && call.has(1) ? call.realScalar(1) : 0.5;
  if (!isTraining || ratio == 0) {
    call.set(0, x);
    if (call.wants(1))
      setMask(call, x->shape);
    return;
  }
  if (!(ratio > 0 && ratio < 1))
    call.fail("ratio is " + std::to_string(ratio) + ", expected at least 0 and less than 1");
  if (!frontend::isFloat(x->type))
    call.fail(std::string("input 0 is of ") + frontend::elementName(x->type) + ", expected floats");
  HostTensor &y = call.output(0, x->type, x->shape);
  HostTensor &mask = call.output(1, ElementKind::Bool, x->shape);
  // The numbers that NumPy's generator gives for the seed: doubles of 53 bits from two draws each.
  std::mt19937 random{uint32_t(call.intAttr("seed", 0))};
  const double scale = 1 / (1 - ratio);
  for (int64_t i = 0; i < countOf(y); ++i) {
    const double high = random() >> 5, low = random() >> 6;
    if ((high * 67108864 + low) / 9007199254740992 < ratio)
      continue;
    data<uint8_t>(mask)[i] = 1;
    setReal(y, i, realAt(*x, i) * scale);
  }
}

void evaluateShape(Call &call) {
  const Shape &shape = call.input(0).shape;
  const int64_t rank = int64_t(shape.size());
  auto clamped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = clamped(call.intAttr("start", 0)), end = clamped(call.intAttr("end", rank));
  call.set(0, start < end ? makeInts({shape.begin() + start, shape.begin() + end}) : makeInts({}));
}

void evaluateSize(Call &call) { call.set(0, makeScalar(ElementKind::I64, countOf(call.input(0)))); }

template <typename T> void fillRange(Call &call, const HostTensor &start, const HostTensor &limit, const HostTensor &delta) {
  using C = Computed<T>;
  const C first = data<T>(start)[0], last = data<T>(limit)[0], step = data<T>(delta)[0];
  if (step == 0 || step != step)
    call.fail("delta is " + std::to_string(double(step)) + ", expected another number than 0");
  double count;
  if constexpr (kIsFloat<T>) {
    count = std::ceil((double(last) - double(first)) / double(step));
  } else {
    const __int128 span = __int128(last) - first, each = step;
    const __int128 whole = span / each + (span % each != 0 && (span < 0) == (each < 0));
    count = whole > (__int128(1) << 40) ? std::ldexp(1.0, 40) : double(int64_t(std::max<__int128>(whole, 0)));
  }
  if (!(count <= double(frontend::kMaxTensorElements)))
    call.fail("a range from " + std::to_string(double(first)) + " to " + std::to_string(double(last)) + " in steps of " +
              std::to_string(double(step)) + " would have more than 2^31 elements");
  HostTensor &y = call.output(0, start.type, {int64_t(std::max(count, 0.0))});
  for (int64_t i = 0; i < countOf(y); ++i)
    if constexpr (kIsFloat<T>)
      data<T>(y)[i] = T(C(first + C(i) * step));
    else
      data<T>(y)[i] = T(uint64_t(first) + uint64_t(i) * uint64_t(step));
}

void evaluateRange(Call &call) {
  const HostTensor &start = call.input(0), &limit = call.input(1), &delta = call.input(2);
  call.requireSameType(start, limit);
  call.requireSameType(start, delta);
  for (size_t i = 0; i < 3; ++i)
    if (countOf(call.input(i)) != 1)
      call.fail("input " + std::to_string(i) + " has shape " + textOf(call.input(i).shape) + ", expected a scalar");
  if (!visitNumber(start.type, [&](auto zero) { fillRange<decltype(zero)>(call, start, limit, delta); }))
    call.fail(std::string("inputs are of ") + frontend::elementName(start.type) + ", expected numbers");
}

void evaluateEyeLike(Call &call) {
  const HostTensor &x = call.input(0);
  if (x.shape.size() != 2)
    call.fail("input 0 has shape " + textOf(x.shape) + ", expected two dims");
  HostTensor &y = call.output(0, kindAttr(call, "dtype", x.type), x.shape);
  const int64_t rows = x.shape[0], columns = x.shape[1];
  const int64_t k = std::clamp(call.intAttr("k", 0), -rows, columns);
  for (int64_t row = std::max<int64_t>(0, -k); row < rows && row + k < columns; ++row)
    setInteger(y, row * columns + row + k, 1);
}

//===----------------------------------------------------------------------===//
// Grids
//===----------------------------------------------------------------------===//

/// theta [N, d, d + 1], size (N, C, [D,] H, W) -> grid [N, [D,] H, W, d] of (x, y[, z]), d 2 or 3.
void evaluateAffineGrid(Call &call) {
  const HostTensor &theta = call.input(0);
  const std::vector<int64_t> size = listInput(call, 1);
  const size_t d = size.size() == 5 ? 3 : 2;
  if (size.size() != d + 2)
    call.fail("size has " + std::to_string(size.size()) + " entries, expected 4 or 5");
  if (theta.shape != Shape{size[0], int64_t(d), int64_t(d) + 1})
    call.fail("theta has shape " + textOf(theta.shape) + ", expected " + textOf({size[0], int64_t(d), int64_t(d) + 1}));
  if (!frontend::isFloat(theta.type))
    call.fail(std::string("theta is of ") + frontend::elementName(theta.type) + ", expected floats");
  const bool aligned = call.flagAttr("align_corners", false);
  auto coordinate = [&](int64_t i, int64_t extent) {
    return aligned ? (extent > 1 ? -1 + 2.0 * double(i) / double(extent - 1) : 0.0)
                   : (2.0 * double(i) + 1) / double(extent) - 1;
  };
  Shape places{size[0]}, shape;
  places.insert(places.end(), size.begin() + 2, size.end());
  shape = places;
  shape.push_back(int64_t(d));
  HostTensor &grid = call.output(0, theta.type, shape);
  int64_t at = 0;
  forEachIndex(places, [&](const Shape &index) {
    for (size_t row = 0; row < d; ++row, ++at) {
      const int64_t line = (index[0] * int64_t(d) + int64_t(row)) * int64_t(d + 1);
      double sum = realAt(theta, line + int64_t(d));
      for (size_t column = 0; column < d; ++column)
        sum += realAt(theta, line + int64_t(column)) * coordinate(index[d - column], places[d - column]);
      setReal(grid, at, sum);
    }
  });
}

} // namespace

void operators::addConstants(Table &table) {
  table[":Constant"].evaluate = evaluateConstant;
  table[":ConstantOfShape"] = {evaluateConstantOfShape, /*shapeInputs=*/{0}};
  table[":Dropout"].evaluate = evaluateDropout;
  table[":Shape"].evaluate = evaluateShape;
  table[":Size"].evaluate = evaluateSize;
  table[":Range"] = {evaluateRange, /*shapeInputs=*/{0, 1, 2}};
  table[":EyeLike"].evaluate = evaluateEyeLike;
  table[":AffineGrid"] = {evaluateAffineGrid, /*shapeInputs=*/{1}};
}
