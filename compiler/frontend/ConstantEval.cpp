//===- ConstantEval.cpp - ONNX operators on constants ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/frontend/ConstantEval.h"
#include "compiler/frontend/ImportError.h"
#include "compiler/frontend/OnnxTensor.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

namespace tw::frontend {

using llvm::ArrayRef;

const std::vector<uint8_t> &ConstantBytes::get() {
  if (make) {
    bytes = make();
    make = nullptr; // and what it holds
  }
  return bytes;
}

void ConstantBytes::release(Make again) {
  make = std::move(again);
  bytes = {};
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

template <typename T> static T load(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}
template <typename T> static void store(uint8_t *at, T value) { std::memcpy(at, &value, sizeof(T)); }

HostTensor expanded(const Constant &constant) {
  HostTensor tensor;
  tensor.type = constant.kind;
  tensor.shape.assign(constant.shape.begin(), constant.shape.end());
  tensor.bytes = constant.bytes();
  if (constant.splat) {
    const std::vector<uint8_t> one = tensor.bytes;
    tensor.bytes.resize(size_t(constant.size()));
    for (size_t at = 0; at < tensor.bytes.size(); at += one.size())
      std::copy(one.begin(), one.end(), tensor.bytes.begin() + int64_t(at));
  }
  return tensor;
}

int64_t Constant::count() const {
  int64_t product = 1;
  for (int64_t dim : shape)
    product *= dim;
  return product;
}

static int64_t truncateToInteger(double value) {
  if (value != value)
    return 0;
  if (value >= 9223372036854775808.0)
    return std::numeric_limits<int64_t>::max();
  if (value <= -9223372036854775808.0)
    return std::numeric_limits<int64_t>::min();
  return int64_t(value);
}

int64_t Constant::integer(int64_t i) const {
  const uint8_t *at = bytes().data() + (splat ? 0 : i) * elementBytes(kind);
  switch (kind) {
  case ElementKind::I8:
    return load<int8_t>(at);
  case ElementKind::U8:
  case ElementKind::Bool:
    return load<uint8_t>(at);
  case ElementKind::I16:
    return load<int16_t>(at);
  case ElementKind::U16:
    return load<uint16_t>(at);
  case ElementKind::I32:
    return load<int32_t>(at);
  case ElementKind::U32:
    return load<uint32_t>(at);
  case ElementKind::I64:
  case ElementKind::U64:
    return load<int64_t>(at);
  default:
    return truncateToInteger(real(i));
  }
}

double Constant::real(int64_t i) const {
  const uint8_t *at = bytes().data() + (splat ? 0 : i) * elementBytes(kind);
  switch (kind) {
  case ElementKind::F32:
    return load<float>(at);
  case ElementKind::F16:
    return halfToFloat(load<uint16_t>(at));
  case ElementKind::BF16:
    return bfloatToFloat(load<uint16_t>(at));
  case ElementKind::F64:
    return load<double>(at);
  case ElementKind::U64:
    return double(load<uint64_t>(at));
  default:
    return double(integer(i));
  }
}

namespace {
/// Elements while they are made.
struct Elements {
  ElementKind kind;
  std::vector<uint8_t> bytes;
  int64_t count() const { return int64_t(bytes.size() / elementBytes(kind)); }
};
} // namespace

static void storeInteger(Elements &x, int64_t i, int64_t value) {
  uint8_t *at = x.bytes.data() + i * elementBytes(x.kind);
  // Modulo the width, as ONNX Runtime's kernels do.
  switch (elementBytes(x.kind)) {
  case 1:
    return store(at, x.kind == ElementKind::Bool ? uint8_t(value != 0) : uint8_t(value));
  case 2:
    return store(at, uint16_t(value));
  case 4:
    return store(at, uint32_t(value));
  default:
    return store(at, value);
  }
}

static void storeReal(Elements &x, int64_t i, double value) {
  uint8_t *at = x.bytes.data() + i * elementBytes(x.kind);
  switch (x.kind) {
  case ElementKind::F32:
    return store(at, float(value));
  case ElementKind::F16:
    return store(at, floatToHalf(float(value)));
  case ElementKind::BF16:
    return store(at, floatToBfloat(float(value)));
  case ElementKind::F64:
    return store(at, value);
  case ElementKind::Bool:
    return store(at, uint8_t(value != 0));
  default:
    return storeInteger(x, i, truncateToInteger(value));
  }
}

/// A constant whose elements `fill` makes, of zeros, when they are needed; a splat's one element. `fill` holds what it reads.
static ConstantRef produce(ElementKind kind, ArrayRef<int64_t> shape, bool splat, std::function<void(Elements &)> fill) {
  auto count = countTensorElements(std::vector<int64_t>(shape.begin(), shape.end()));
  if (!count)
    throw ImportError{"the result would have shape " + formatShape(shape) + ": at most 2^31 elements are allowed"};
  auto result = std::make_shared<Constant>();
  result->kind = kind;
  result->shape.assign(shape.begin(), shape.end());
  result->splat = splat && *count != 0;
  size_t bytes = size_t(result->stored()) * elementBytes(kind);
  auto make = [kind, bytes, fill = std::move(fill)] {
    Elements elements{kind, std::vector<uint8_t>(bytes)};
    if (bytes)
      fill(elements);
    return std::move(elements.bytes);
  };
  // A chain of results that wait for a reader is no longer than memory is large.
  result->storage = bytes < kManyBytes ? std::make_shared<ConstantBytes>(make())
                                       : std::make_shared<ConstantBytes>(ConstantBytes::Make(std::move(make)));
  return result;
}

ConstantRef makeInts(ArrayRef<int64_t> values) {
  return produce(ElementKind::I64, {int64_t(values.size())}, false, [values = values.vec()](Elements &to) {
    for (size_t i = 0; i < values.size(); ++i)
      storeInteger(to, int64_t(i), values[i]);
  });
}

ConstantRef makeSplat(ElementKind kind, ArrayRef<int64_t> shape, double value) {
  return produce(kind, shape, true, [value](Elements &to) { storeReal(to, 0, value); });
}

ConstantRef makeConstant(ElementKind kind, ArrayRef<int64_t> shape, std::vector<uint8_t> bytes) {
  auto result = std::make_shared<Constant>();
  result->kind = kind;
  result->shape.assign(shape.begin(), shape.end());
  result->splat = result->count() != 0 && bytes.size() == elementBytes(kind);
  result->storage = std::make_shared<ConstantBytes>(std::move(bytes));
  return result;
}

ConstantRef makeConstant(HostTensor tensor) {
  auto result = std::make_shared<Constant>();
  result->name = std::move(tensor.name);
  result->kind = tensor.type;
  result->shape.assign(tensor.shape.begin(), tensor.shape.end());
  result->storage = std::make_shared<ConstantBytes>(std::move(tensor.bytes));
  return result;
}

std::vector<int64_t> integersOf(const Constant &x) {
  if (x.count() > (1 << 16))
    throw ImportError{"a list of " + std::to_string(x.count()) + " integers is too long: at most 2^16 are allowed"};
  std::vector<int64_t> values(size_t(x.count()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = x.integer(int64_t(i));
  return values;
}

//===----------------------------------------------------------------------===//
// Moving elements
//===----------------------------------------------------------------------===//

static Shape rowMajorStrides(ArrayRef<int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Calls `visit(position in row-major order, base + sum(index * strides))` for every index of `shape`.
template <typename Visit>
static void forEachIndex(ArrayRef<int64_t> shape, int64_t base, ArrayRef<int64_t> strides, Visit visit) {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  Shape index(shape.size(), 0);
  int64_t offset = base;
  for (int64_t position = 0; position < count; ++position) {
    visit(position, offset);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++index[d] < shape[d])
        break;
      offset -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

/// The view of `x` with element (i0, i1, ..) at base + i0 * strides[0] + .., copied into row-major order.
static ConstantRef strided(const ConstantRef &x, int64_t base, Shape strides, ArrayRef<int64_t> shape) {
  return produce(x->kind, shape, x->splat, [x, base, strides, shape = Shape(shape.begin(), shape.end())](Elements &to) {
    unsigned width = elementBytes(x->kind);
    const std::vector<uint8_t> &bytes = x->bytes();
    if (x->splat)
      to.bytes = bytes;
    else
      forEachIndex(shape, base, strides, [&](int64_t position, int64_t from) {
        std::memcpy(to.bytes.data() + position * width, bytes.data() + from * width, width);
      });
  });
}

ConstantRef evalReshape(const ConstantRef &x, ArrayRef<int64_t> shape) {
  if (x->shape == Shape(shape.begin(), shape.end()))
    return x;
  auto result = std::make_shared<Constant>(*x);
  result->shape.assign(shape.begin(), shape.end());
  assert(result->count() == x->count() && "a reshape keeps the elements");
  return result;
}

ConstantRef evalTranspose(const ConstantRef &x, ArrayRef<int64_t> perm) {
  Shape from = rowMajorStrides(x->shape), strides, shape;
  for (int64_t dim : perm) {
    strides.push_back(from[dim]);
    shape.push_back(x->shape[dim]);
  }
  return strided(x, 0, strides, shape);
}

ConstantRef evalSlice(const ConstantRef &x, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps, ArrayRef<int64_t> sizes) {
  Shape strides = rowMajorStrides(x->shape);
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    base += starts[i] * strides[i];
    // A step beyond the dim is never taken; without this the product could overflow.
    strides[i] *= sizes[i] > 1 ? steps[i] : 1;
  }
  return strided(x, base, strides, sizes);
}

/// Strides that walk a tensor of shape `from` along the dims of `to` (numpy broadcasting).
static Shape broadcastStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  Shape own = rowMajorStrides(from), strides(to.size(), 0);
  size_t shift = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i)
    strides[shift + i] = from[i] == 1 ? 0 : own[i];
  return strides;
}

ConstantRef evalExpand(const ConstantRef &x, ArrayRef<int64_t> shape) {
  if (x->shape == Shape(shape.begin(), shape.end()))
    return x;
  return strided(x, 0, broadcastStrides(x->shape, shape), shape);
}

ConstantRef evalConcat(ArrayRef<ConstantRef> inputs, int64_t axis) {
  Shape shape = inputs.front()->shape;
  shape[axis] = 0;
  for (const ConstantRef &input : inputs)
    shape[axis] += input->shape[axis];
  return produce(inputs.front()->kind, shape, false, [inputs = inputs.vec(), shape, axis](Elements &to) {
    size_t width = elementBytes(to.kind);
    size_t outer = 1, inner = width;
    for (int64_t i = 0; i < int64_t(shape.size()); ++i) {
      outer *= i < axis ? size_t(shape[i]) : 1;
      inner *= i > axis ? size_t(shape[i]) : 1;
    }
    size_t at = 0;
    for (size_t o = 0; o < outer; ++o)
      for (const ConstantRef &input : inputs) {
        size_t size = inner * size_t(input->shape[axis]);
        const std::vector<uint8_t> &bytes = input->bytes();
        if (input->splat)
          for (size_t i = 0; i < size; i += width)
            std::memcpy(to.bytes.data() + at + i, bytes.data(), width);
        else if (size)
          std::memcpy(to.bytes.data() + at, bytes.data() + o * size, size);
        at += size;
      }
  });
}

ConstantRef evalGather(const ConstantRef &x, const ConstantRef &indices, int64_t axis) {
  Shape shape(x->shape.begin(), x->shape.begin() + axis);
  shape.append(indices->shape.begin(), indices->shape.end());
  shape.append(x->shape.begin() + axis + 1, x->shape.end());
  int64_t limit = x->shape[axis];
  for (int64_t i = 0, e = indices->stored(); i < e; ++i)
    if (int64_t index = indices->integer(i); index < -limit || index >= limit)
      throw ImportError{"index is " + std::to_string(index) + ", expected " + std::to_string(-limit) + " to " +
                        std::to_string(limit - 1)};
  return produce(x->kind, shape, x->splat, [x, indices, axis, limit](Elements &to) {
    const std::vector<uint8_t> &bytes = x->bytes();
    if (x->splat) {
      to.bytes = bytes;
      return;
    }
    int64_t outer = 1, inner = elementBytes(x->kind);
    for (int64_t i = 0; i < axis; ++i)
      outer *= x->shape[i];
    for (size_t i = axis + 1; i < x->shape.size(); ++i)
      inner *= x->shape[i];
    uint8_t *at = to.bytes.data();
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0, e = indices->count(); i < e; ++i, at += inner) {
        int64_t index = indices->integer(i);
        std::memcpy(at, bytes.data() + (o * limit + (index < 0 ? index + limit : index)) * inner, size_t(inner));
      }
  });
}

ConstantRef evalPad(const ConstantRef &x, ArrayRef<int64_t> low, ArrayRef<int64_t> high, const Constant &value) {
  Shape shape;
  for (size_t i = 0; i < x->shape.size(); ++i)
    shape.push_back(x->shape[i] + low[i] + high[i]);
  Shape strides = rowMajorStrides(shape);
  int64_t base = 0;
  for (size_t i = 0; i < strides.size(); ++i)
    base += low[i] * strides[i];
  return produce(x->kind, shape, false, [x, value = value.bytes(), strides, base](Elements &to) {
    unsigned width = elementBytes(x->kind);
    for (size_t i = 0; i < to.bytes.size(); i += width)
      std::memcpy(to.bytes.data() + i, value.data(), width);
    const std::vector<uint8_t> &bytes = x->bytes();
    forEachIndex(x->shape, base, strides, [&](int64_t from, int64_t at) {
      std::memcpy(to.bytes.data() + at * width, bytes.data() + (x->splat ? 0 : from * width), width);
    });
  });
}

//===----------------------------------------------------------------------===//
// Arithmetic. Floats are computed in double and rounded once to their type:
// for + - * / and sqrt of fp32 that equals one fp32 rounding.
//===----------------------------------------------------------------------===//

static double unary(UnaryKind kind, double x) {
  switch (kind) {
  case UnaryKind::Neg:
    return -x;
  case UnaryKind::Abs:
    return std::fabs(x);
  case UnaryKind::Sqrt:
    return std::sqrt(x);
  case UnaryKind::Exp:
    return std::exp(x);
  case UnaryKind::Log:
    return std::log(x);
  case UnaryKind::Floor:
    return std::floor(x);
  case UnaryKind::Ceil:
    return std::ceil(x);
  case UnaryKind::Round:
    return std::nearbyint(x);
  case UnaryKind::Relu:
    return x < 0 ? 0 : x;
  case UnaryKind::Sigmoid:
    return 1 / (1 + std::exp(-x));
  case UnaryKind::Tanh:
    return std::tanh(x);
  case UnaryKind::Erf:
    return std::erf(x);
  case UnaryKind::Reciprocal:
    return 1 / x;
  case UnaryKind::Sign:
    return x > 0 ? 1 : x < 0 ? -1 : x;
  case UnaryKind::Not:
    return x == 0;
  case UnaryKind::Sin:
    return std::sin(x);
  case UnaryKind::Cos:
    return std::cos(x);
  case UnaryKind::Tan:
    return std::tan(x);
  case UnaryKind::Asin:
    return std::asin(x);
  case UnaryKind::Acos:
    return std::acos(x);
  case UnaryKind::Atan:
    return std::atan(x);
  case UnaryKind::Sinh:
    return std::sinh(x);
  case UnaryKind::Cosh:
    return std::cosh(x);
  case UnaryKind::Asinh:
    return std::asinh(x);
  case UnaryKind::Acosh:
    return std::acosh(x);
  case UnaryKind::Atanh:
    return std::atanh(x);
  case UnaryKind::Softplus:
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  case UnaryKind::Softsign:
    return x / (1 + std::fabs(x));
  }
  assert(false && "unknown unary kind");
  return 0;
}

static int64_t unary(UnaryKind kind, int64_t x) {
  switch (kind) {
  case UnaryKind::Neg:
    return int64_t(-uint64_t(x));
  case UnaryKind::Abs:
    return x < 0 ? int64_t(-uint64_t(x)) : x;
  case UnaryKind::Relu:
    return x < 0 ? 0 : x;
  case UnaryKind::Sign:
    return x > 0 ? 1 : x < 0 ? -1 : 0;
  case UnaryKind::Not:
    return x == 0;
  case UnaryKind::Floor:
  case UnaryKind::Ceil:
  case UnaryKind::Round:
    return x;
  default:
    throw ImportError{"this operator is not defined on integers"};
  }
}

ConstantRef evalUnary(UnaryKind kind, const ConstantRef &x) {
  if (!isFloat(x->kind))
    unary(kind, int64_t(1)); // whether it is defined
  return produce(x->kind, x->shape, x->splat, [kind, x](Elements &to) {
    for (int64_t i = 0, e = to.count(); i < e; ++i)
      if (isFloat(x->kind))
        storeReal(to, i, unary(kind, x->real(i)));
      else
        storeInteger(to, i, unary(kind, x->integer(i)));
  });
}

static bool givesBool(BinaryKind kind) { return kind >= BinaryKind::Equal; }

template <typename T> static bool compare(BinaryKind kind, T a, T b) {
  switch (kind) {
  case BinaryKind::Equal:
    return a == b;
  case BinaryKind::Less:
    return a < b;
  case BinaryKind::LessOrEqual:
    return a <= b;
  case BinaryKind::Greater:
    return a > b;
  case BinaryKind::GreaterOrEqual:
    return a >= b;
  case BinaryKind::And:
    return a != 0 && b != 0;
  case BinaryKind::Or:
    return a != 0 || b != 0;
  case BinaryKind::Xor:
    return (a != 0) != (b != 0);
  default:
    assert(false && "not a comparison");
    return false;
  }
}

static double binary(BinaryKind kind, double a, double b) {
  switch (kind) {
  case BinaryKind::Add:
    return a + b;
  case BinaryKind::Sub:
    return a - b;
  case BinaryKind::Mul:
    return a * b;
  case BinaryKind::Div:
    return a / b;
  case BinaryKind::Mod:
  case BinaryKind::Fmod:
    return std::fmod(a, b);
  case BinaryKind::Pow:
    return std::pow(a, b);
  case BinaryKind::Min:
    return a != a ? a : b != b ? b : std::min(a, b);
  case BinaryKind::Max:
    return a != a ? a : b != b ? b : std::max(a, b);
  default:
    return compare(kind, a, b);
  }
}

static int64_t integerPower(int64_t base, int64_t exponent) {
  if (exponent < 0)
    return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t result = 1, factor = uint64_t(base);
  for (uint64_t bits = uint64_t(exponent); bits; bits >>= 1, factor *= factor)
    if (bits & 1)
      result *= factor;
  return int64_t(result);
}

static int64_t binary(BinaryKind kind, int64_t a, int64_t b) {
  switch (kind) {
  case BinaryKind::Add:
    return int64_t(uint64_t(a) + uint64_t(b));
  case BinaryKind::Sub:
    return int64_t(uint64_t(a) - uint64_t(b));
  case BinaryKind::Mul:
    return int64_t(uint64_t(a) * uint64_t(b));
  case BinaryKind::Div:
  case BinaryKind::Mod:
  case BinaryKind::Fmod: {
    if (b == 0)
      throw ImportError{"an integer is divided by 0"};
    // The quotient of the least integer and -1 does not fit; modulo 2^64 it is the negation.
    if (b == -1)
      return kind == BinaryKind::Div ? int64_t(-uint64_t(a)) : 0;
    if (kind == BinaryKind::Div)
      return a / b;
    int64_t remainder = a % b;
    return kind == BinaryKind::Mod && remainder && (remainder < 0) != (b < 0) ? remainder + b : remainder;
  }
  case BinaryKind::Pow:
    return integerPower(a, b);
  case BinaryKind::Min:
    return std::min(a, b);
  case BinaryKind::Max:
    return std::max(a, b);
  default:
    return compare(kind, a, b);
  }
}

static Shape broadcast(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  auto shape = graph::broadcastShapes(a, b);
  if (!shape)
    throw ImportError{llvm::toString(shape.takeError())};
  return *shape;
}

/// A constant for all indices of `shape`: `element(to, i, a's element, b's)`.
template <typename Element>
static ConstantRef produceBroadcast(ElementKind kind, const Shape &shape, const ConstantRef &a, const ConstantRef &b,
                                    Element element) {
  return produce(kind, shape, a->splat && b->splat, [shape, a, b, element](Elements &to) {
    if (to.count() == 1)
      return element(to, 0, 0, 0);
    Shape ofA = broadcastStrides(a->shape, shape), ofB = broadcastStrides(b->shape, shape), index(shape.size(), 0);
    int64_t atA = 0, atB = 0;
    for (int64_t i = 0, e = to.count(); i < e; ++i) {
      element(to, i, atA, atB);
      for (size_t d = shape.size(); d-- > 0;) {
        atA += ofA[d], atB += ofB[d];
        if (++index[d] < shape[d])
          break;
        atA -= ofA[d] * shape[d], atB -= ofB[d] * shape[d];
        index[d] = 0;
      }
    }
  });
}

ConstantRef evalBinary(BinaryKind kind, const ConstantRef &x, const ConstantRef &y) {
  if (x->kind != y->kind && kind != BinaryKind::Pow)
    throw ImportError{std::string("operands are of ") + elementName(x->kind) + " and " + elementName(y->kind) +
                      ", expected one type"};
  Shape shape = broadcast(x->shape, y->shape);
  bool real = isFloat(x->kind) || isFloat(y->kind);
  if (!real && (kind == BinaryKind::Div || kind == BinaryKind::Mod || kind == BinaryKind::Fmod) &&
      !llvm::is_contained(shape, 0))
    for (int64_t i = 0, e = y->stored(); i < e; ++i)
      if (y->integer(i) == 0)
        throw ImportError{"an integer is divided by 0"};
  return produceBroadcast(givesBool(kind) ? ElementKind::Bool : x->kind, shape, x, y,
                          [=](Elements &to, int64_t i, int64_t a, int64_t b) {
                            if (real)
                              storeReal(to, i, binary(kind, x->real(a), y->real(b)));
                            else
                              storeInteger(to, i, binary(kind, x->integer(a), y->integer(b)));
                          });
}

ConstantRef evalWhere(const ConstantRef &condition, const ConstantRef &x, const ConstantRef &y) {
  if (condition->kind != ElementKind::Bool || x->kind != y->kind)
    throw ImportError{std::string("operands are of ") + elementName(condition->kind) + ", " + elementName(x->kind) + " and " +
                      elementName(y->kind) + ", expected bool and one type twice"};
  Shape shape = broadcast(condition->shape, broadcast(x->shape, y->shape));
  ConstantRef c = evalExpand(condition, shape), a = evalExpand(x, shape), b = evalExpand(y, shape);
  return produce(x->kind, shape, c->splat && a->splat && b->splat, [c, a, b](Elements &to) {
    unsigned width = elementBytes(to.kind);
    for (int64_t i = 0, e = to.count(); i < e; ++i) {
      const Constant &from = c->integer(i) ? *a : *b;
      std::memcpy(to.bytes.data() + i * width, from.bytes().data() + (from.splat ? 0 : i * width), width);
    }
  });
}

ConstantRef evalCast(const ConstantRef &x, ElementKind kind) {
  return produce(kind, x->shape, x->splat, [x, kind](Elements &to) {
    for (int64_t i = 0, e = to.count(); i < e; ++i) {
      if (isFloat(x->kind) || (isFloat(kind) && elementBytes(x->kind) <= 4))
        storeReal(to, i, x->real(i));
      else if (kind == ElementKind::F32)
        // One rounding, not two.
        storeReal(to, i, x->kind == ElementKind::U64 ? float(uint64_t(x->integer(i))) : float(x->integer(i)));
      else if (isFloat(kind))
        storeReal(to, i, x->real(i));
      else
        storeInteger(to, i, x->integer(i));
    }
  });
}

ConstantRef evalReduce(ReduceKind kind, const ConstantRef &x, ArrayRef<int64_t> axes, bool keepdims) {
  Shape shape, strides(x->shape.size(), 0), kept;
  int64_t reduced = 1;
  for (size_t i = 0; i < x->shape.size(); ++i) {
    bool gone = llvm::is_contained(axes, int64_t(i));
    kept.push_back(gone ? 1 : x->shape[i]);
    reduced *= gone ? x->shape[i] : 1;
    if (!gone || keepdims)
      shape.push_back(kept.back());
  }
  Shape keptStrides = rowMajorStrides(kept);
  for (size_t i = 0; i < kept.size(); ++i)
    strides[i] = kept[i] == 1 ? 0 : keptStrides[i];
  if (reduced == 0 && kind != ReduceKind::Sum && kind != ReduceKind::Prod)
    throw ImportError{"a dim of 0 elements is reduced"};
  return produce(x->kind, shape, false, [=](Elements &to) {
    size_t count = size_t(to.count());
    double neutral = kind == ReduceKind::Prod ? 1 : 0;
    bool real = isFloat(x->kind);
    std::vector<double> reals(real ? count : 0, neutral);
    std::vector<int64_t> integers(real ? 0 : count, int64_t(neutral));
    std::vector<bool> seen(count, false);
    BinaryKind step = kind == ReduceKind::Max    ? BinaryKind::Max
                      : kind == ReduceKind::Min  ? BinaryKind::Min
                      : kind == ReduceKind::Prod ? BinaryKind::Mul
                                                 : BinaryKind::Add;
    bool extreme = kind == ReduceKind::Max || kind == ReduceKind::Min;
    forEachIndex(x->shape, 0, strides, [&](int64_t from, int64_t at) {
      bool first = extreme && !seen[size_t(at)];
      seen[size_t(at)] = true;
      if (real)
        reals[size_t(at)] = first ? x->real(from) : binary(step, reals[size_t(at)], x->real(from));
      else
        integers[size_t(at)] = first ? x->integer(from) : binary(step, integers[size_t(at)], x->integer(from));
    });
    for (size_t i = 0; i < count; ++i) {
      if (real)
        storeReal(to, int64_t(i), kind == ReduceKind::Mean ? reals[i] / double(reduced) : reals[i]);
      else
        storeInteger(to, int64_t(i), kind == ReduceKind::Mean ? integers[i] / reduced : integers[i]);
    }
  });
}

ConstantRef evalRange(const ConstantRef &start, const ConstantRef &limit, const ConstantRef &delta) {
  if (start->kind != limit->kind || start->kind != delta->kind || start->count() != 1 || limit->count() != 1 ||
      delta->count() != 1)
    throw ImportError{"start, limit and delta must be scalars of one type"};
  double first = start->real(0), step = delta->real(0);
  double steps = std::ceil((limit->real(0) - first) / step);
  if (!isFloat(start->kind) && step != 0) {
    // Doubles round what is beyond 2^53. The quotient goes towards zero: one more step where there is a rest.
    const __int128 distance = __int128(limit->integer(0)) - start->integer(0), by = delta->integer(0);
    steps = double(distance / by + (distance % by != 0 && (distance < 0) == (by < 0)));
  }
  if (step == 0 || steps != steps || steps > double(kMaxTensorElements))
    throw ImportError{"a range from " + std::to_string(first) + " to " + std::to_string(limit->real(0)) + " in steps of " +
                      std::to_string(step) + " is not allowed: at most 2^31 elements are"};
  return produce(start->kind, {steps > 0 ? int64_t(steps) : 0}, false, [=](Elements &to) {
    for (int64_t i = 0, e = to.count(); i < e; ++i) {
      if (isFloat(to.kind))
        storeReal(to, i, first + double(i) * step);
      else
        storeInteger(to, i, int64_t(uint64_t(start->integer(0)) + uint64_t(i) * uint64_t(delta->integer(0))));
    }
  });
}

ConstantRef evalQuantize(const ConstantRef &x, ArrayRef<float> scales, ArrayRef<int32_t> zeroPoints, int64_t axis,
                         ElementKind kind) {
  int64_t inner = 1;
  for (size_t i = size_t(axis) + 1; i < x->shape.size(); ++i)
    inner *= x->shape[i];
  return produce(kind, x->shape, x->splat && scales.size() == 1,
                 [x, inner, scales = scales.vec(), zeroPoints = zeroPoints.vec()](Elements &to) {
                   double least = to.kind == ElementKind::U8 ? 0 : -128;
                   for (int64_t i = 0, e = to.count(); i < e; ++i) {
                     size_t channel = scales.size() == 1 ? 0 : size_t(i / inner) % scales.size();
                     double value = std::nearbyint(float(x->real(i)) / scales[channel]) + zeroPoints[channel];
                     storeInteger(to, i, value != value ? zeroPoints[channel] : int64_t(std::clamp(value, least, least + 255)));
                   }
                 });
}

} // namespace tw::frontend
