//===- Elements.cpp - Walking the elements of host tensors ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/frontend/OnnxTensor.h"

#include <limits>

using namespace tw;
using namespace tw::operators;

static int64_t truncated(double value) {
  if (value != value)
    return 0;
  if (value >= 9223372036854775808.0)
    return std::numeric_limits<int64_t>::max();
  if (value <= -9223372036854775808.0)
    return std::numeric_limits<int64_t>::min();
  return int64_t(value);
}

double operators::realAt(const HostTensor &x, int64_t i) {
  switch (x.type) {
  case ElementKind::F32:
    return data<float>(x)[i];
  case ElementKind::F16:
    return float(data<Half>(x)[i]);
  case ElementKind::BF16:
    return float(data<Bfloat>(x)[i]);
  case ElementKind::F64:
    return data<double>(x)[i];
  case ElementKind::U64:
    return double(data<uint64_t>(x)[i]);
  case ElementKind::F8E4M3FN:
  case ElementKind::F8E4M3FNUZ:
  case ElementKind::F8E5M2:
  case ElementKind::F8E5M2FNUZ:
  case ElementKind::F8E8M0:
  case ElementKind::F4E2M1:
    return frontend::smallToFloat(x.type, x.bytes[size_t(i)]);
  default:
    return double(integerAt(x, i));
  }
}

int64_t operators::integerAt(const HostTensor &x, int64_t i) {
  switch (x.type) {
  case ElementKind::I8:
  case ElementKind::I4:
  case ElementKind::I2:
    return data<int8_t>(x)[i];
  case ElementKind::U8:
  case ElementKind::U4:
  case ElementKind::U2:
  case ElementKind::Bool:
    return data<uint8_t>(x)[i];
  case ElementKind::I16:
    return data<int16_t>(x)[i];
  case ElementKind::U16:
    return data<uint16_t>(x)[i];
  case ElementKind::I32:
    return data<int32_t>(x)[i];
  case ElementKind::U32:
    return data<uint32_t>(x)[i];
  case ElementKind::I64:
  case ElementKind::U64:
    return data<int64_t>(x)[i];
  case ElementKind::String:
  case ElementKind::Complex64:
  case ElementKind::Complex128:
    throw Error{std::string("a tensor of ") + frontend::elementName(x.type) + " is given where numbers are expected"};
  default:
    return truncated(realAt(x, i));
  }
}

void operators::setInteger(HostTensor &x, int64_t i, int64_t value) {
  switch (x.type) {
  case ElementKind::I8:
  case ElementKind::U8:
    data<uint8_t>(x)[i] = uint8_t(value);
    return;
  case ElementKind::Bool:
    data<uint8_t>(x)[i] = value != 0;
    return;
  case ElementKind::I16:
  case ElementKind::U16:
    data<uint16_t>(x)[i] = uint16_t(value);
    return;
  case ElementKind::I32:
  case ElementKind::U32:
    data<uint32_t>(x)[i] = uint32_t(value);
    return;
  case ElementKind::I64:
  case ElementKind::U64:
    data<int64_t>(x)[i] = value;
    return;
  case ElementKind::I4:
    data<Tiny<4, true>>(x)[i] = value;
    return;
  case ElementKind::U4:
    data<Tiny<4, false>>(x)[i] = value;
    return;
  case ElementKind::I2:
    data<Tiny<2, true>>(x)[i] = value;
    return;
  case ElementKind::U2:
    data<Tiny<2, false>>(x)[i] = value;
    return;
  case ElementKind::F32:
    // One rounding.
    data<float>(x)[i] = float(value);
    return;
  default:
    setReal(x, i, double(value));
  }
}

void operators::setReal(HostTensor &x, int64_t i, double value) {
  switch (x.type) {
  case ElementKind::F32:
    data<float>(x)[i] = float(value);
    return;
  case ElementKind::F16:
    data<Half>(x)[i] = frontend::roundToOdd(value);
    return;
  case ElementKind::BF16:
    data<Bfloat>(x)[i] = frontend::roundToOdd(value);
    return;
  case ElementKind::F64:
    data<double>(x)[i] = value;
    return;
  case ElementKind::Bool:
    data<uint8_t>(x)[i] = value != 0;
    return;
  case ElementKind::U64:
    data<uint64_t>(x)[i] = !(value >= 9223372036854775808.0) ? uint64_t(truncated(value))
                           : value < 18446744073709551616.0  ? uint64_t(value)
                                                             : std::numeric_limits<uint64_t>::max();
    return;
  case ElementKind::F8E4M3FN:
  case ElementKind::F8E4M3FNUZ:
  case ElementKind::F8E5M2:
  case ElementKind::F8E5M2FNUZ:
  case ElementKind::F8E8M0:
  case ElementKind::F4E2M1:
    x.bytes[size_t(i)] = frontend::floatToSmall(x.type, frontend::roundToOdd(value));
    return;
  case ElementKind::String:
  case ElementKind::Complex64:
  case ElementKind::Complex128:
    throw Error{std::string("a tensor of ") + frontend::elementName(x.type) + " is made where numbers are expected"};
  default:
    setInteger(x, i, truncated(value));
  }
}

std::string operators::textOf(const Shape &shape) {
  std::string text;
  for (int64_t dim : shape)
    text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "[" + text + "]";
}

static thread_local uint64_t bytesLeft = ~uint64_t(0);

ByteLimit::ByteLimit(uint64_t bytes) : before(bytesLeft) { bytesLeft = std::min(bytesLeft, bytes); }
ByteLimit::~ByteLimit() { bytesLeft = before; }

HostTensor operators::makeTensor(ElementKind kind, const Shape &shape) {
  const auto count = frontend::countTensorElements(shape);
  if (!count)
    throw Error{"the result would have shape " + textOf(shape) +
                ": no dim may be negative, and at most 2^31 elements are allowed"};
  const uint64_t bytes = uint64_t(*count) * (kind == ElementKind::String ? sizeof(std::string) : frontend::elementBytes(kind));
  if (bytes > bytesLeft)
    throw Error{"a tensor of shape " + textOf(shape) + " needs " + std::to_string(bytes) + " bytes, more than may be used here",
                bytes};
  if (bytesLeft != ~uint64_t(0))
    bytesLeft -= bytes;
  HostTensor x;
  x.type = kind;
  x.shape = shape;
  if (kind == ElementKind::String)
    x.strings.resize(size_t(*count));
  else
    x.bytes.resize(size_t(*count) * frontend::elementBytes(kind));
  return x;
}

HostTensor operators::makeInts(const std::vector<int64_t> &values) {
  HostTensor x = makeTensor(ElementKind::I64, {int64_t(values.size())});
  std::copy(values.begin(), values.end(), data<int64_t>(x));
  return x;
}

std::vector<int64_t> operators::integersOf(const HostTensor &x) {
  std::vector<int64_t> values(size_t(countOf(x)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = integerAt(x, int64_t(i));
  return values;
}

Shape operators::stridesOf(const Shape &shape) {
  Shape strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim > 1; --dim)
    strides[dim - 2] = int64_t(uint64_t(strides[dim - 1]) * uint64_t(shape[dim - 1]));
  return strides;
}

Shape operators::broadcast(const Shape &a, const Shape &b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    const int64_t left = i < a.size() ? a[a.size() - 1 - i] : 1, right = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (left != right && left != 1 && right != 1)
      throw Error{"shapes " + textOf(a) + " and " + textOf(b) + " do not broadcast"};
    result[result.size() - 1 - i] = left == 1 ? right : left;
  }
  return result;
}

Shape operators::broadcastStrides(const Shape &shape, const Shape &as) {
  const Shape own = stridesOf(shape);
  Shape strides(as.size(), 0);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[shape.size() - 1 - i] != 1)
      strides[as.size() - 1 - i] = own[shape.size() - 1 - i];
  return strides;
}

void operators::copyElements(const HostTensor &x, int64_t from, HostTensor &y, int64_t to, int64_t count) {
  if (count == 0)
    return;
  if (x.type == ElementKind::String) {
    std::copy_n(x.strings.begin() + from, count, y.strings.begin() + to);
    return;
  }
  const size_t size = frontend::elementBytes(x.type);
  std::memcpy(y.bytes.data() + size_t(to) * size, x.bytes.data() + size_t(from) * size, size_t(count) * size);
}

HostTensor operators::transposed(const HostTensor &x, const std::vector<int64_t> &perm) {
  const Shape own = stridesOf(x.shape);
  Shape shape, strides;
  for (int64_t dim : perm) {
    shape.push_back(x.shape[size_t(dim)]);
    strides.push_back(own[size_t(dim)]);
  }
  HostTensor y = makeTensor(x.type, shape);
  copyBlock(shape, x, 0, strides, y, 0, stridesOf(shape));
  return y;
}

HostTensor operators::reshaped(HostTensor x, Shape shape) {
  if (countOf(shape) != countOf(x))
    throw Error{"a tensor of shape " + textOf(x.shape) + " cannot have shape " + textOf(shape)};
  x.shape = std::move(shape);
  return x;
}

template <typename T>
static void copyEach(const Shape &shape, const T *x, const Shape &fromStrides, T *y, const Shape &toStrides) {
  walk<2>(shape, {fromStrides, toStrides}, [&](int64_t, const std::array<int64_t, 2> &at) { y[at[1]] = x[at[0]]; });
}

void operators::copyBlock(const Shape &shape, const HostTensor &x, int64_t from, Shape fromStrides, HostTensor &y, int64_t to,
                          Shape toStrides) {
  if (countOf(shape) == 0)
    return;
  // Neighbouring dims that both tensors pass through in equal steps are one; dims of one entry go.
  Shape dims;
  size_t kept = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (shape[dim] == 1)
      continue;
    if (kept > 0 && fromStrides[kept - 1] == fromStrides[dim] * shape[dim] &&
        toStrides[kept - 1] == toStrides[dim] * shape[dim]) {
      dims[kept - 1] *= shape[dim];
      --kept;
    } else {
      dims.push_back(shape[dim]);
    }
    fromStrides[kept] = fromStrides[dim];
    toStrides[kept] = toStrides[dim];
    ++kept;
  }
  fromStrides.resize(kept);
  toStrides.resize(kept);
  int64_t run = 1;
  if (kept > 0 && fromStrides.back() == 1 && toStrides.back() == 1) {
    run = dims.back();
    dims.pop_back();
    fromStrides.pop_back();
    toStrides.pop_back();
  }
  if (x.type == ElementKind::String) {
    walk<2>(dims, {fromStrides, toStrides},
            [&](int64_t, const std::array<int64_t, 2> &at) { copyElements(x, from + at[0], y, to + at[1], run); });
    return;
  }
  const size_t size = frontend::elementBytes(x.type);
  const uint8_t *source = x.bytes.data() + size_t(from) * size;
  uint8_t *target = y.bytes.data() + size_t(to) * size;
  if (run > 1) {
    const int64_t each = int64_t(size);
    walk<2>(dims, {fromStrides, toStrides}, [&](int64_t, const std::array<int64_t, 2> &at) {
      std::memcpy(target + at[1] * each, source + at[0] * each, size_t(run * each));
    });
    return;
  }
  switch (size) {
  case 1:
    return copyEach(dims, source, fromStrides, target, toStrides);
  case 2:
    return copyEach(dims, reinterpret_cast<const uint16_t *>(source), fromStrides, reinterpret_cast<uint16_t *>(target),
                    toStrides);
  case 4:
    return copyEach(dims, reinterpret_cast<const uint32_t *>(source), fromStrides, reinterpret_cast<uint32_t *>(target),
                    toStrides);
  case 8:
    return copyEach(dims, reinterpret_cast<const uint64_t *>(source), fromStrides, reinterpret_cast<uint64_t *>(target),
                    toStrides);
  default:
    walk<2>(dims, {fromStrides, toStrides},
            [&](int64_t, const std::array<int64_t, 2> &at) { copyElement(x, from + at[0], y, to + at[1]); });
  }
}

HostTensor operators::sliceOf(const HostTensor &x, int64_t axis, int64_t begin, int64_t count) {
  Shape shape = x.shape;
  shape[size_t(axis)] = count;
  HostTensor y = makeTensor(x.type, shape);
  if (countOf(y) > 0)
    copyBlock(shape, x, begin * stridesOf(x.shape)[size_t(axis)], stridesOf(x.shape), y, 0, stridesOf(shape));
  return y;
}

HostTensor operators::concatenated(const std::vector<const HostTensor *> &parts, int64_t axis) {
  Shape shape = parts[0]->shape;
  const int64_t rank = int64_t(shape.size());
  if (axis < -rank || axis >= rank)
    throw Error{"axis is " + std::to_string(axis) + " for tensors of rank " + std::to_string(rank)};
  const size_t dim = size_t(axis < 0 ? axis + rank : axis);
  for (size_t i = 1; i < parts.size(); ++i) {
    const HostTensor &part = *parts[i];
    if (part.type != parts[0]->type)
      throw Error{std::string("tensors are of ") + frontend::elementName(parts[0]->type) + " and " +
                  frontend::elementName(part.type) + ", expected one type"};
    Shape expected = parts[0]->shape;
    if (part.shape.size() == expected.size())
      expected[dim] = part.shape[dim];
    if (part.shape != expected)
      throw Error{"tensors of shapes " + textOf(parts[0]->shape) + " and " + textOf(part.shape) + " are joined along axis " +
                  std::to_string(dim) + ", all other dims must be equal"};
    // Both are at most 2^31: no overflow, and makeTensor() judges the sum.
    shape[dim] = std::min(shape[dim] + part.shape[dim], int64_t(1) << 40);
  }
  HostTensor y = makeTensor(parts[0]->type, shape);
  if (countOf(y) == 0)
    return y;
  const Shape strides = stridesOf(shape);
  int64_t at = 0;
  for (const HostTensor *part : parts) {
    copyBlock(part->shape, *part, 0, stridesOf(part->shape), y, at * strides[dim], strides);
    at += part->shape[dim];
  }
  return y;
}
