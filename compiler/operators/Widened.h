//===- Widened.h - Elements in the type they are computed in ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef COMPILER_OPERATORS_WIDENED_H
#define COMPILER_OPERATORS_WIDENED_H

#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

#include <limits>
#include <vector>

namespace tw::operators {

/// The elements of a tensor of T in the type that is computed in; a copy where that is another one.
template <typename T, typename C = Computed<T>> class Widened {
public:
  explicit Widened(const HostTensor &x) {
    if constexpr (std::is_same_v<T, C>) {
      elements = operators::data<T>(x);
    } else {
      copy.resize(size_t(countOf(x)));
      const T *from = operators::data<T>(x);
      for (size_t i = 0; i < copy.size(); ++i)
        copy[i] = C(Computed<T>(from[i]));
      elements = copy.data();
    }
  }
  Widened(const Widened &) = delete;
  Widened &operator=(const Widened &) = delete;
  const C *data() const { return elements; }
  C operator[](int64_t i) const { return elements[i]; }

private:
  std::vector<C> copy;
  const C *elements = nullptr;
};

/// The elements of a result of T, to be written in the type that is computed in; narrowed when this ends.
template <typename T, typename C = Computed<T>> class Narrowed {
public:
  explicit Narrowed(HostTensor &y) : y(y) {
    if constexpr (std::is_same_v<T, C>) {
      elements = operators::data<T>(y);
    } else {
      copy.resize(size_t(countOf(y)));
      elements = copy.data();
    }
  }
  ~Narrowed() {
    if constexpr (!std::is_same_v<T, C>)
      for (size_t i = 0; i < copy.size(); ++i)
        operators::data<T>(y)[i] = T(Computed<T>(copy[i]));
  }
  Narrowed(const Narrowed &) = delete;
  Narrowed &operator=(const Narrowed &) = delete;
  C *data() { return elements; }
  C &operator[](int64_t i) { return elements[i]; }

private:
  HostTensor &y;
  std::vector<C> copy;
  C *elements = nullptr;
};

/// A real number as an element: floats are rounded, integers truncated and saturated, 0 of NaN.
template <typename T> T fromReal(double value) {
  if constexpr (kIsFloat<T>) {
    return T(Computed<T>(value));
  } else {
    if (value != value)
      return T(0);
    if (value <= double(std::numeric_limits<T>::lowest()))
      return std::numeric_limits<T>::lowest();
    if (value >= double(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
    return T(value);
  }
}

/// Least and greatest numbers: infinities of floats.
template <typename C> constexpr C least() {
  return std::is_floating_point_v<C> ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest();
}
template <typename C> constexpr C greatest() {
  return std::is_floating_point_v<C> ? std::numeric_limits<C>::infinity() : std::numeric_limits<C>::max();
}

/// A tensor seen as [outer, count, inner] around an axis.
struct AroundAxis {
  int64_t outer = 1, count = 1, inner = 1;
  AroundAxis() = default;
  AroundAxis(const Shape &shape, int64_t axis) : count(shape[size_t(axis)]) {
    for (size_t i = 0; i < shape.size(); ++i)
      (int64_t(i) < axis ? outer : inner) *= int64_t(i) == axis ? 1 : shape[i];
    // Nothing is walked where there are no elements.
    if (countOf(shape) == 0)
      outer = 0;
  }
};

[[noreturn]] inline void failType(const Call &call, size_t input, const HostTensor &x) {
  call.fail("input " + std::to_string(input) + " is of " + frontend::elementName(x.type) + ", which " + call.type() +
            " does not allow");
}
inline void requireRank(const Call &call, size_t input, const HostTensor &x, size_t least) {
  if (x.shape.size() < least)
    call.fail("input " + std::to_string(input) + " has shape " + textOf(x.shape) + ", expected a rank of at least " +
              std::to_string(least));
}
inline void requireShape(const Call &call, size_t input, const HostTensor &x, const Shape &shape) {
  if (x.shape != shape)
    call.fail("input " + std::to_string(input) + " has shape " + textOf(x.shape) + ", expected " + textOf(shape));
}

//===--- Files of the families Reductions and Contractions ---===//
void addNormalisation(Table &table); ///< layer, batch, ... normalisation, LRN
void addLosses(Table &table);        ///< NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss
void addConvolutions(Table &table);  ///< Conv and relatives
void addPooling(Table &table);       ///< pools over windows and over all places, MaxUnpool
void addEinsum(Table &table);

} // namespace tw::operators

#endif // COMPILER_OPERATORS_WIDENED_H
