//===- Elements.h - Walking the elements of host tensors --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_ELEMENTS_H
#define COMPILER_OPERATORS_ELEMENTS_H

#include "compiler/operators/Value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>

namespace tw::operators {

//===----------------------------------------------------------------------===//
// Element types. Each is stored as it lies in HostTensor::bytes, converts to and from what is computed in, and rounds to nearest even.
//===----------------------------------------------------------------------===//

struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float value) : bits(frontend::floatToHalf(value)) {}
  operator float() const { return frontend::halfToFloat(bits); }
};
struct Bfloat {
  uint16_t bits = 0;
  Bfloat() = default;
  Bfloat(float value) : bits(frontend::floatToBfloat(value)) {}
  operator float() const { return frontend::bfloatToFloat(bits); }
};
struct Bool {
  uint8_t bits = 0;
  Bool() = default;
  Bool(bool value) : bits(value) {}
  operator bool() const { return bits != 0; }
};
/// A float of at most 8 bits.
template <ElementKind K> struct Small {
  uint8_t bits = 0;
  Small() = default;
  Small(float value) : bits(frontend::floatToSmall(K, value)) {}
  operator float() const { return frontend::smallToFloat(K, bits); }
};
/// An integer of `Bits` bits in a byte; wraps.
template <unsigned Bits, bool IsSigned> struct Tiny {
  uint8_t bits = 0;
  Tiny() = default;
  Tiny(int64_t value) {
    uint8_t low = uint8_t(value) & uint8_t((1u << Bits) - 1);
    if (IsSigned && (low >> (Bits - 1)))
      low |= uint8_t(0xff << Bits);
    bits = low;
  }
  operator int64_t() const { return IsSigned ? int64_t(int8_t(bits)) : int64_t(bits); }
};

/// What arithmetic on a T is done in: float for narrow floats, int64_t for tiny integers, bool for Bool, else T.
template <typename T> struct ComputedIn { using type = T; };
template <> struct ComputedIn<Half> { using type = float; };
template <> struct ComputedIn<Bfloat> { using type = float; };
template <> struct ComputedIn<Bool> { using type = bool; };
template <ElementKind K> struct ComputedIn<Small<K>> { using type = float; };
template <unsigned Bits, bool IsSigned> struct ComputedIn<Tiny<Bits, IsSigned>> { using type = int64_t; };
template <typename T> using Computed = typename ComputedIn<T>::type;

template <typename T> constexpr bool kIsFloat = std::is_floating_point_v<Computed<T>>;

/// Calls `f` with a zero of the element's type: float, Half, Bfloat or double. False for other kinds.
template <typename F> bool visitFloat(ElementKind kind, F &&f) {
  switch (kind) {
  case ElementKind::F32:
    return f(float()), true;
  case ElementKind::F16:
    return f(Half()), true;
  case ElementKind::BF16:
    return f(Bfloat()), true;
  case ElementKind::F64:
    return f(double()), true;
  default:
    return false;
  }
}

/// The same for integers of 8 to 64 bits.
template <typename F> bool visitInteger(ElementKind kind, F &&f) {
  switch (kind) {
  case ElementKind::I8:
    return f(int8_t()), true;
  case ElementKind::U8:
    return f(uint8_t()), true;
  case ElementKind::I16:
    return f(int16_t()), true;
  case ElementKind::U16:
    return f(uint16_t()), true;
  case ElementKind::I32:
    return f(int32_t()), true;
  case ElementKind::U32:
    return f(uint32_t()), true;
  case ElementKind::I64:
    return f(int64_t()), true;
  case ElementKind::U64:
    return f(uint64_t()), true;
  default:
    return false;
  }
}

/// The same for floats of 16 bits and more and integers of 8 bits and more.
template <typename F> bool visitNumber(ElementKind kind, F &&f) { return visitFloat(kind, f) || visitInteger(kind, f); }

/// Precondition: T is the element type of `x`.
template <typename T> const T *data(const HostTensor &x) { return reinterpret_cast<const T *>(x.bytes.data()); }
template <typename T> T *data(HostTensor &x) { return reinterpret_cast<T *>(x.bytes.data()); }

/// Element `i` of any kind but strings and complex numbers as a real number; integers beyond 2^53 are rounded.
double realAt(const HostTensor &x, int64_t i);
/// The same as an integer; floats are truncated and saturated.
int64_t integerAt(const HostTensor &x, int64_t i);
/// Stores a number as element `i`, rounded to nearest even, saturated where a small float saturates; integers wrap.
void setReal(HostTensor &x, int64_t i, double value);
void setInteger(HostTensor &x, int64_t i, int64_t value);

//===----------------------------------------------------------------------===//
// Tensors and shapes
//===----------------------------------------------------------------------===//

/// Product of the dims; 1 for a scalar.
inline int64_t countOf(const Shape &shape) {
  // Unsigned: beside a dim of 0 the others may be large.
  uint64_t count = 1;
  for (int64_t dim : shape)
    count *= uint64_t(dim);
  return int64_t(count);
}
inline int64_t countOf(const HostTensor &x) { return countOf(x.shape); }
/// "[2, 3]".
std::string textOf(const Shape &shape);

/// While it lives, tensors that this thread makes may have so many bytes all together: what is beyond is an Error.
class ByteLimit {
public:
  explicit ByteLimit(uint64_t bytes);
  ~ByteLimit();

private:
  uint64_t before;
};

/// Zeros, false or empty strings. Throws Error for dims that are negative and more than 2^31 elements.
HostTensor makeTensor(ElementKind kind, const Shape &shape);
HostTensor makeInts(const std::vector<int64_t> &values);
template <typename T> HostTensor makeScalar(ElementKind kind, T value) {
  HostTensor x = makeTensor(kind, {});
  data<T>(x)[0] = value;
  return x;
}
/// All elements as integers.
std::vector<int64_t> integersOf(const HostTensor &x);
/// How numbers become floats of 8 bits.
struct SmallRounding {
  bool saturates = true;
  frontend::PowerRounding power = frontend::PowerRounding::Up; ///< of F8E8M0
};
/// `x` converted as Cast does it. Floats become integers towards zero, within 64 bits, of which narrow integers keep the low
/// ones; NaN is 0. Throws Error for complex numbers and for strings that are no numbers.
HostTensor toKind(const HostTensor &x, ElementKind kind, SmallRounding rounding = {});

/// Row-major strides, in elements.
Shape stridesOf(const Shape &shape);
/// The shape of numpy broadcasting. Throws Error if there is none.
Shape broadcast(const Shape &a, const Shape &b);
/// Strides by which a tensor of `shape` is walked as one of shape `as`, to which it broadcasts: 0 along dims that repeat.
Shape broadcastStrides(const Shape &shape, const Shape &as);

/// Calls `f(const Shape &index)` for every index of `shape` in row-major order.
template <typename F> void forEachIndex(const Shape &shape, F &&f) {
  if (countOf(shape) == 0)
    return;
  Shape index(shape.size(), 0);
  for (;;) {
    f(const_cast<const Shape &>(index));
    size_t dim = shape.size();
    for (; dim > 0; --dim) {
      if (++index[dim - 1] < shape[dim - 1])
        break;
      index[dim - 1] = 0;
    }
    if (dim == 0)
      return;
  }
}

/// Walks one or more tensors in step with the row-major order of `shape`: calls `f(i, at)`, `i` the place in that order and `at[k]` the sum of
/// index * strides[k].
template <size_t N, typename F> void walk(const Shape &shape, const std::array<Shape, N> &strides, F &&f) {
  const int64_t count = countOf(shape);
  if (count == 0)
    return;
  std::array<int64_t, N> at{};
  if (shape.empty()) {
    f(int64_t(0), at);
    return;
  }
  const size_t last = shape.size() - 1;
  const int64_t inner = shape[last];
  Shape index(shape.size(), 0);
  std::array<int64_t, N> step;
  for (size_t k = 0; k < N; ++k)
    step[k] = strides[k][last];
  for (int64_t i = 0; i < count;) {
    std::array<int64_t, N> here = at;
    for (int64_t j = 0; j < inner; ++j, ++i) {
      f(i, const_cast<const std::array<int64_t, N> &>(here));
      for (size_t k = 0; k < N; ++k)
        here[k] += step[k];
    }
    for (size_t dim = last; dim > 0; --dim) {
      for (size_t k = 0; k < N; ++k)
        at[k] += strides[k][dim - 1];
      if (++index[dim - 1] < shape[dim - 1])
        break;
      for (size_t k = 0; k < N; ++k)
        at[k] -= strides[k][dim - 1] * shape[dim - 1];
      index[dim - 1] = 0;
    }
  }
}

/// Copies element `from` of `x` to element `to` of `y`, of the same kind, whatever that is.
inline void copyElement(const HostTensor &x, int64_t from, HostTensor &y, int64_t to) {
  if (x.type == ElementKind::String) {
    y.strings[size_t(to)] = x.strings[size_t(from)];
    return;
  }
  const size_t size = frontend::elementBytes(x.type);
  std::memcpy(y.bytes.data() + size_t(to) * size, x.bytes.data() + size_t(from) * size, size);
}
/// The same for `count` elements that lie one behind the other.
void copyElements(const HostTensor &x, int64_t from, HostTensor &y, int64_t to, int64_t count);

/// Element `i` of the result is element `sourceOf(i)` of `x`, or stays zero where that is negative.
template <typename F> void take(const HostTensor &x, HostTensor &y, F &&sourceOf) {
  const int64_t count = countOf(y);
  for (int64_t i = 0; i < count; ++i)
    if (const int64_t from = sourceOf(i); from >= 0)
      copyElement(x, from, y, i);
}

/// `x` with its dims in the order `perm`.
HostTensor transposed(const HostTensor &x, const std::vector<int64_t> &perm);
/// `x` under another shape of as many elements.
HostTensor reshaped(HostTensor x, Shape shape);

/// Copies a block of `shape` between tensors of one kind: element `index` from place `from` + index * fromStrides of `x` to place `to` +
/// index * toStrides of `y`. Strides may be 0 or negative; what lies in one run in both is copied as one. Precondition: all places exist.
void copyBlock(const Shape &shape, const HostTensor &x, int64_t from, Shape fromStrides, HostTensor &y, int64_t to,
               Shape toStrides);
/// `count` entries of `x` along `axis`, from `begin` on. Precondition: they exist.
HostTensor sliceOf(const HostTensor &x, int64_t axis, int64_t begin, int64_t count);
/// The tensors one behind the other along `axis`, counted from the end if negative. Throws Error unless all are of one kind, and of one shape but
/// for `axis`. Precondition: there is one.
HostTensor concatenated(const std::vector<const HostTensor *> &parts, int64_t axis);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_ELEMENTS_H
