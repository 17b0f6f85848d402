//===- Reductions.cpp - Operators along axes ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Widened.h"

#include <numeric>

using namespace tw;
using namespace tw::operators;

namespace {

//===----------------------------------------------------------------------===//
// Reduce*
//===----------------------------------------------------------------------===//

enum class Reduction { L1, L2, LogSum, LogSumExp, Max, Mean, Min, Prod, Sum, SumSquare };

/// A tensor whose dims are kept or reduced; neighbours of one sort are one dim, dims of 1 are none.
struct ReducedDims {
  Shape result;        ///< shape of the result
  int64_t reduced = 1; ///< elements that become one
  int64_t inner = 1;   ///< elements of the innermost dim
  bool isInnerReduced = false;
  std::vector<int64_t> keptAt, reducedAt; ///< places of all indices of the dims but the innermost
};

std::vector<int64_t> placesOf(const Shape &shape, const Shape &strides) {
  std::vector<int64_t> places(size_t(countOf(shape)));
  walk<1>(shape, {strides}, [&](int64_t i, const std::array<int64_t, 1> &at) { places[size_t(i)] = at[0]; });
  return places;
}

ReducedDims reducedDims(const Shape &shape, const std::vector<int64_t> &axes, bool keepsDims) {
  ReducedDims dims;
  const Shape strides = stridesOf(shape);
  Shape kept, keptStrides, reduced, reducedStrides;
  int last = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool isReduced = std::binary_search(axes.begin(), axes.end(), int64_t(i));
    if (!isReduced || keepsDims)
      dims.result.push_back(isReduced ? 1 : shape[i]);
    if (isReduced)
      dims.reduced *= shape[i];
    if (shape[i] == 1)
      continue;
    Shape &to = isReduced ? reduced : kept, &toStrides = isReduced ? reducedStrides : keptStrides;
    if (last == int(isReduced)) {
      to.back() *= shape[i];
      toStrides.back() = strides[i];
    } else {
      to.push_back(shape[i]);
      toStrides.push_back(strides[i]);
    }
    last = isReduced;
  }
  if (countOf(shape) == 0)
    return dims;
  if (last >= 0) {
    dims.isInnerReduced = last == 1;
    Shape &of = last ? reduced : kept;
    dims.inner = of.back();
    of.pop_back();
    (last ? reducedStrides : keptStrides).pop_back();
  }
  dims.keptAt = placesOf(kept, keptStrides);
  dims.reducedAt = placesOf(reduced, reducedStrides);
  return dims;
}

/// `step(sum, element, j)` adds an element to result `j`, which becomes `finish(sum)`. Both innermost loops are over neighbours.
template <typename T, typename Sum, typename Step, typename Finish>
void reduceElements(const ReducedDims &dims, const T *x, int64_t results, Sum first, Step step, Finish finish) {
  if (dims.reducedAt.empty() || dims.keptAt.empty()) {
    for (int64_t j = 0; j < results; ++j)
      finish(j, first);
    return;
  }
  if (dims.isInnerReduced) {
    for (size_t j = 0; j < dims.keptAt.size(); ++j) {
      Sum sum = first;
      for (int64_t at : dims.reducedAt) {
        const T *from = x + dims.keptAt[j] + at;
        for (int64_t i = 0; i < dims.inner; ++i)
          sum = step(sum, Computed<T>(from[i]), int64_t(j));
      }
      finish(int64_t(j), sum);
    }
    return;
  }
  std::vector<Sum> sums(static_cast<size_t>(dims.inner));
  for (size_t k = 0; k < dims.keptAt.size(); ++k) {
    const int64_t base = int64_t(k) * dims.inner;
    std::fill(sums.begin(), sums.end(), first);
    for (int64_t at : dims.reducedAt) {
      const T *from = x + dims.keptAt[k] + at;
      for (int64_t i = 0; i < dims.inner; ++i)
        sums[size_t(i)] = step(sums[size_t(i)], Computed<T>(from[i]), base + i);
    }
    for (int64_t i = 0; i < dims.inner; ++i)
      finish(base + i, sums[size_t(i)]);
  }
}

/// Greater and less than all before; NaN once there is one.
template <typename C> C larger(C a, C b) { return b > a || b != b ? (a != a ? a : b) : a; }
template <typename C> C smaller(C a, C b) { return b < a || b != b ? (a != a ? a : b) : a; }

template <Reduction R, typename T>
void reduceAs(Call &call, const ReducedDims &dims, const HostTensor &input, HostTensor &output) {
  using C = Computed<T>;
  // Integers wrap as their sums modulo 2^64 do.
  using Sum = std::conditional_t<kIsFloat<T>, double, uint64_t>;
  const T *x = data<T>(input);
  T *y = data<T>(output);
  const int64_t results = countOf(output);
  auto reduce = [&](auto first, auto step, auto finish) { reduceElements(dims, x, results, first, step, finish); };
  if constexpr (R == Reduction::Max || R == Reduction::Min) {
    constexpr bool isMax = R == Reduction::Max;
    reduce(
        isMax ? least<C>() : greatest<C>(),
        [](C best, C each, int64_t) { return isMax ? larger(best, each) : smaller(best, each); },
        [&](int64_t j, C best) { y[j] = best; });
  } else if constexpr (R == Reduction::Sum || R == Reduction::SumSquare || R == Reduction::L1 || R == Reduction::Prod) {
    auto finish = [&](int64_t j, Sum sum) { y[j] = T(C(sum)); };
    if constexpr (R == Reduction::Sum)
      reduce(
          Sum(0), [](Sum sum, C each, int64_t) { return sum + Sum(each); }, finish);
    else if constexpr (R == Reduction::Prod)
      reduce(
          Sum(1), [](Sum sum, C each, int64_t) { return sum * Sum(each); }, finish);
    else if constexpr (R == Reduction::SumSquare)
      reduce(
          Sum(0), [](Sum sum, C each, int64_t) { return sum + Sum(each) * Sum(each); }, finish);
    else if constexpr (kIsFloat<T>)
      reduce(
          Sum(0), [](Sum sum, C each, int64_t) { return sum + std::fabs(Sum(each)); }, finish);
    else
      reduce(
          Sum(0), [](Sum sum, C each, int64_t) { return each < 0 ? sum - Sum(each) : sum + Sum(each); }, finish);
  } else if constexpr (R == Reduction::Mean) {
    if (dims.reduced == 0 && results > 0 && !kIsFloat<T>)
      call.fail("no elements have no mean; input 0 has shape " + textOf(input.shape));
    reduce(
        Sum(0), [](Sum sum, C each, int64_t) { return sum + Sum(each); },
        [&](int64_t j, Sum sum) {
          if constexpr (kIsFloat<T>)
            y[j] = T(C(sum / double(dims.reduced)));
          else if constexpr (std::is_signed_v<T>)
            y[j] = T(int64_t(sum) / dims.reduced);
          else
            y[j] = T(sum / uint64_t(dims.reduced));
        });
  } else if constexpr (R == Reduction::L2) {
    reduce(
        0.0, [](double sum, C each, int64_t) { return sum + double(each) * double(each); },
        [&](int64_t j, double sum) { y[j] = fromReal<T>(std::sqrt(sum)); });
  } else if constexpr (R == Reduction::LogSum) {
    reduce(
        0.0, [](double sum, C each, int64_t) { return sum + double(each); },
        [&](int64_t j, double sum) { y[j] = fromReal<T>(std::log(sum)); });
  } else {
    // exp() of the distance to the greatest element is at most 1.
    std::vector<double> shifts(static_cast<size_t>(results));
    reduce(
        least<C>(), [](C best, C each, int64_t) { return larger(best, each); },
        [&](int64_t j, C best) { shifts[size_t(j)] = std::isfinite(double(best)) && dims.reduced > 0 ? double(best) : 0.0; });
    reduce(
        0.0, [&](double sum, C each, int64_t j) { return sum + std::exp(double(each) - shifts[size_t(j)]); },
        [&](int64_t j, double sum) { y[j] = fromReal<T>(std::log(sum) + shifts[size_t(j)]); });
  }
}

template <Reduction R> void evaluateReduce(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t rank = int64_t(x.shape.size());
  std::vector<int64_t> axes;
  // An attribute up to opset 12 (ReduceSum) or 17, an input from then on.
  if (call.hasAttr("axes"))
    axes = call.intsAttr("axes");
  else if (call.has(1))
    axes = call.ints(1);
  if (axes.empty() && !call.flagAttr("noop_with_empty_axes", false)) {
    axes.resize(size_t(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const ReducedDims dims = reducedDims(x.shape, call.axes(axes, rank), call.flagAttr("keepdims", true));
  HostTensor &y = call.output(0, x.type, dims.result);
  if constexpr (R == Reduction::Max || R == Reduction::Min)
    if (x.type == ElementKind::Bool) {
      reduceElements(
          dims, data<uint8_t>(x), countOf(y), uint8_t(R == Reduction::Min),
          [](uint8_t best, uint8_t each, int64_t) { return uint8_t(R == Reduction::Max ? best | each : best & each); },
          [&](int64_t j, uint8_t best) { y.bytes[size_t(j)] = best; });
      return;
    }
  if (!visitNumber(x.type, [&](auto zero) { reduceAs<R, decltype(zero)>(call, dims, x, y); }))
    failType(call, 0, x);
}

//===----------------------------------------------------------------------===//
// ArgMax, ArgMin, TopK
//===----------------------------------------------------------------------===//

template <bool IsMax> void evaluateArg(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 1);
  const int64_t axis = call.axis(call.intAttr("axis", 0), int64_t(x.shape.size()));
  const bool takesLast = call.flagAttr("select_last_index", false);
  const AroundAxis around(x.shape, axis);
  Shape shape = x.shape;
  if (call.flagAttr("keepdims", true))
    shape[size_t(axis)] = 1;
  else
    shape.erase(shape.begin() + axis);
  if (around.count == 0 && countOf(shape) > 0)
    call.fail("input 0 has shape " + textOf(x.shape) + ": there is nothing to choose from along axis " + std::to_string(axis));
  HostTensor &output = call.output(0, ElementKind::I64, shape);
  int64_t *y = data<int64_t>(output);
  if (!visitNumber(x.type, [&](auto zero) {
        using T = decltype(zero);
        using C = Computed<T>;
        for (int64_t outer = 0; outer < around.outer; ++outer)
          for (int64_t inner = 0; inner < around.inner && around.count > 0; ++inner) {
            const T *from = data<T>(x) + outer * around.count * around.inner + inner;
            C best = from[0];
            int64_t at = 0;
            for (int64_t i = 1; i < around.count; ++i) {
              const C each = from[i * around.inner];
              // The first NaN is more extreme than every number.
              const bool isBetter = IsMax ? each > best : each < best;
              if (best == best && (isBetter || each != each || (takesLast && each == best))) {
                best = each;
                at = i;
              }
            }
            y[outer * around.inner + inner] = at;
          }
      }))
    failType(call, 0, x);
}

void evaluateTopK(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 1);
  const int64_t axis = call.axis(call.intAttr("axis", -1), int64_t(x.shape.size()));
  const int64_t k = call.has(1) ? call.intScalar(1) : call.intAttr("k");
  const bool isLargest = call.flagAttr("largest", true);
  const AroundAxis around(x.shape, axis);
  if (k < 0 || k > around.count)
    call.fail("k is " + std::to_string(k) + ", but axis " + std::to_string(axis) + " has " + std::to_string(around.count) +
              " elements");
  Shape shape = x.shape;
  shape[size_t(axis)] = k;
  HostTensor &values = call.output(0, x.type, shape), &indices = call.output(1, ElementKind::I64, shape);
  if (!visitNumber(x.type, [&](auto zero) {
        using T = decltype(zero);
        using C = Computed<T>;
        std::vector<C> row(size_t(around.count));
        std::vector<int64_t> order(row.size());
        // NaN counts as the greatest; of equal elements the one with the lower index comes first.
        auto isBefore = [&](int64_t a, int64_t b) {
          const C left = row[size_t(a)], right = row[size_t(b)];
          const bool isLeftNan = left != left, isRightNan = right != right;
          if (isLeftNan != isRightNan)
            return isLeftNan == isLargest;
          if (left < right)
            return !isLargest;
          if (right < left)
            return isLargest;
          return a < b;
        };
        for (int64_t outer = 0; outer < around.outer; ++outer)
          for (int64_t inner = 0; inner < around.inner; ++inner) {
            const T *from = data<T>(x) + outer * around.count * around.inner + inner;
            for (int64_t i = 0; i < around.count; ++i)
              row[size_t(i)] = from[i * around.inner];
            std::iota(order.begin(), order.end(), 0);
            std::partial_sort(order.begin(), order.begin() + k, order.end(), isBefore);
            for (int64_t i = 0; i < k; ++i) {
              const int64_t to = (outer * k + i) * around.inner + inner;
              data<T>(values)[to] = from[order[size_t(i)] * around.inner];
              data<int64_t>(indices)[to] = order[size_t(i)];
            }
          }
      }))
    failType(call, 0, x);
}

//===----------------------------------------------------------------------===//
// CumSum, CumProd
//===----------------------------------------------------------------------===//

template <bool IsProduct> void evaluateCumulative(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 1);
  const int64_t axis = call.axis(call.intScalar(1), int64_t(x.shape.size()));
  const bool isExclusive = call.flagAttr("exclusive", false), isReverse = call.flagAttr("reverse", false);
  const AroundAxis around(x.shape, axis);
  HostTensor &y = call.output(0, x.type, x.shape);
  if (!visitNumber(x.type, [&](auto zero) {
        using T = decltype(zero);
        using C = Computed<T>;
        using Sum = std::conditional_t<kIsFloat<T>, double, uint64_t>;
        for (int64_t outer = 0; outer < around.outer; ++outer)
          for (int64_t inner = 0; inner < around.inner; ++inner) {
            Sum sum = IsProduct ? 1 : 0;
            for (int64_t i = 0; i < around.count; ++i) {
              const int64_t at = (outer * around.count + (isReverse ? around.count - 1 - i : i)) * around.inner + inner;
              const Sum each = Sum(C(data<T>(x)[at])), next = IsProduct ? sum * each : sum + each;
              data<T>(y)[at] = T(C(isExclusive ? sum : next));
              sum = next;
            }
          }
      }))
    failType(call, 0, x);
}

//===----------------------------------------------------------------------===//
// Softmax and relatives
//===----------------------------------------------------------------------===//

enum class Soft { Max, LogMax, Hard };

template <Soft S> void evaluateSoft(Call &call) {
  const HostTensor &x = call.input(0);
  HostTensor &y = call.output(0, x.type, x.shape);
  // Up to opset 12 all dims from the axis on are one.
  const bool isFlat = call.opset() < 13;
  AroundAxis around;
  if (!x.shape.empty()) {
    const int64_t axis = call.axis(call.intAttr("axis", isFlat ? 1 : -1), int64_t(x.shape.size()));
    around = AroundAxis(x.shape, axis);
    if (isFlat) {
      around.count *= around.inner;
      around.inner = 1;
    }
  }
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        using C = Computed<T>;
        Widened<T> from(x);
        Narrowed<T> to(y);
        std::vector<double> terms(size_t(around.count));
        for (int64_t outer = 0; outer < around.outer; ++outer)
          for (int64_t inner = 0; inner < around.inner && around.count > 0; ++inner) {
            const C *row = from.data() + outer * around.count * around.inner + inner;
            C *result = to.data() + outer * around.count * around.inner + inner;
            C best = row[0];
            int64_t at = 0;
            for (int64_t i = 1; i < around.count; ++i)
              if (const C each = row[i * around.inner]; best == best && (each > best || each != each)) {
                best = each;
                at = i;
              }
            if (S == Soft::Hard) {
              for (int64_t i = 0; i < around.count; ++i)
                result[i * around.inner] = C(i == at);
              continue;
            }
            double sum = 0;
            for (int64_t i = 0; i < around.count; ++i)
              sum += terms[size_t(i)] = double(std::exp(C(row[i * around.inner] - best)));
            const double log = S == Soft::LogMax ? std::log(sum) : 0;
            for (int64_t i = 0; i < around.count; ++i)
              result[i * around.inner] =
                  S == Soft::LogMax ? C(double(row[i * around.inner] - best) - log) : C(terms[size_t(i)] / sum);
          }
      }))
    failType(call, 0, x);
}

//===----------------------------------------------------------------------===//
// Unique, NonZero
//===----------------------------------------------------------------------===//

/// Calls `f(compare)`, which tells -1, 0 or 1 of two elements of `x` by their places. NaN is greater than numbers and equal to NaN.
template <typename F> bool withComparison(const HostTensor &x, F &&f) {
  auto numbers = [&](auto zero) {
    using T = decltype(zero);
    const T *elements = data<T>(x);
    f([elements](int64_t a, int64_t b) {
      const auto left = Computed<T>(elements[a]), right = Computed<T>(elements[b]);
      if (left != left || right != right)
        return int(left != left) - int(right != right);
      return int(left > right) - int(left < right);
    });
  };
  if (x.type == ElementKind::String) {
    f([&x](int64_t a, int64_t b) { return x.strings[size_t(a)].compare(x.strings[size_t(b)]); });
    return true;
  }
  if (x.type == ElementKind::Bool)
    return visitNumber(ElementKind::U8, numbers);
  return visitNumber(x.type, numbers);
}

void evaluateUnique(Call &call) {
  const HostTensor &given = call.input(0);
  const bool isSorted = call.flagAttr("sorted", true), hasAxis = call.hasAttr("axis");
  const int64_t rank = int64_t(given.shape.size());
  const int64_t axis = hasAxis ? call.axis(call.intAttr("axis"), rank) : 0;
  if (hasAxis && rank == 0)
    call.fail("input 0 is a scalar and has no axis");
  // The axis in front: rows are compared.
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  HostTensor front;
  if (axis > 0) {
    std::rotate(perm.begin(), perm.begin() + axis, perm.begin() + axis + 1);
    front = transposed(given, perm);
  }
  const HostTensor &x = axis > 0 ? front : given;
  const int64_t rows = hasAxis ? x.shape[0] : countOf(x);
  int64_t width = 1;
  for (int64_t i = 1; hasAxis && i < rank; ++i)
    width *= x.shape[size_t(i)];
  std::vector<int64_t> order(static_cast<size_t>(rows)), group(order.size()), firsts, counts;
  std::iota(order.begin(), order.end(), 0);
  const bool isKnown = withComparison(x, [&](auto compare) {
    auto compareRows = [&](int64_t a, int64_t b) {
      for (int64_t i = 0; i < width; ++i)
        if (const int result = compare(a * width + i, b * width + i); result != 0)
          return result;
      return 0;
    };
    std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      const int result = compareRows(a, b);
      return result != 0 ? result < 0 : a < b;
    });
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || compareRows(order[i - 1], order[i]) != 0) {
        firsts.push_back(order[i]);
        counts.push_back(0);
      }
      group[size_t(order[i])] = int64_t(firsts.size()) - 1;
      ++counts.back();
    }
  });
  if (!isKnown)
    failType(call, 0, x);
  // Groups in the order of their results.
  std::vector<int64_t> groups(firsts.size()), placeOf(firsts.size());
  std::iota(groups.begin(), groups.end(), 0);
  if (!isSorted)
    std::sort(groups.begin(), groups.end(), [&](int64_t a, int64_t b) { return firsts[size_t(a)] < firsts[size_t(b)]; });
  for (size_t i = 0; i < groups.size(); ++i)
    placeOf[size_t(groups[i])] = int64_t(i);
  Shape shape = hasAxis ? x.shape : Shape{0};
  shape[0] = int64_t(groups.size());
  HostTensor y = makeTensor(x.type, shape);
  std::vector<int64_t> indices, inverse, sizes;
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t each = size_t(groups[i]);
    copyElements(x, firsts[each] * width, y, int64_t(i) * width, width);
    indices.push_back(firsts[each]);
    sizes.push_back(counts[each]);
  }
  for (int64_t each : group)
    inverse.push_back(placeOf[size_t(each)]);
  if (axis > 0) {
    std::vector<int64_t> back(perm.size());
    for (size_t i = 0; i < perm.size(); ++i)
      back[size_t(perm[i])] = int64_t(i);
    y = transposed(y, back);
  }
  call.set(0, std::move(y));
  call.set(1, makeInts(indices));
  call.set(2, makeInts(inverse));
  call.set(3, makeInts(sizes));
}

void evaluateNonZero(Call &call) {
  const HostTensor &x = call.input(0);
  std::vector<int64_t> places;
  const int64_t count = countOf(x);
  for (int64_t i = 0; i < count; ++i) {
    bool isZero = false;
    if (x.type == ElementKind::String)
      isZero = x.strings[size_t(i)].empty();
    else if (x.type == ElementKind::Complex64)
      isZero = data<std::complex<float>>(x)[i] == 0.0f;
    else if (x.type == ElementKind::Complex128)
      isZero = data<std::complex<double>>(x)[i] == 0.0;
    else
      isZero = realAt(x, i) == 0;
    if (!isZero)
      places.push_back(i);
  }
  // A scalar has no index: [0, count].
  const int64_t rank = int64_t(x.shape.size()), found = int64_t(places.size());
  HostTensor &y = call.output(0, ElementKind::I64, {rank, found});
  const Shape strides = stridesOf(x.shape);
  for (int64_t dim = 0; dim < rank; ++dim)
    for (int64_t i = 0; i < found; ++i)
      data<int64_t>(y)[dim * found + i] = places[size_t(i)] / strides[size_t(dim)] % x.shape[size_t(dim)];
}

} // namespace

void operators::addReductions(Table &table) {
  table[":ReduceL1"] = {evaluateReduce<Reduction::L1>, /*shapeInputs=*/{1}};
  table[":ReduceL2"] = {evaluateReduce<Reduction::L2>, {1}};
  table[":ReduceLogSum"] = {evaluateReduce<Reduction::LogSum>, {1}};
  table[":ReduceLogSumExp"] = {evaluateReduce<Reduction::LogSumExp>, {1}};
  table[":ReduceMax"] = {evaluateReduce<Reduction::Max>, {1}};
  table[":ReduceMean"] = {evaluateReduce<Reduction::Mean>, {1}};
  table[":ReduceMin"] = {evaluateReduce<Reduction::Min>, {1}};
  table[":ReduceProd"] = {evaluateReduce<Reduction::Prod>, {1}};
  table[":ReduceSum"] = {evaluateReduce<Reduction::Sum>, {1}};
  table[":ReduceSumSquare"] = {evaluateReduce<Reduction::SumSquare>, {1}};
  table[":ArgMax"].evaluate = evaluateArg<true>;
  table[":ArgMin"].evaluate = evaluateArg<false>;
  table[":TopK"] = {evaluateTopK, {1}};
  table[":CumSum"].evaluate = evaluateCumulative<false>;
  table[":CumProd"].evaluate = evaluateCumulative<true>;
  table[":Softmax"].evaluate = evaluateSoft<Soft::Max>;
  table[":LogSoftmax"].evaluate = evaluateSoft<Soft::LogMax>;
  table[":Hardmax"].evaluate = evaluateSoft<Soft::Hard>;
  table[":Unique"] = {evaluateUnique, {}, /*isDynamic=*/true};
  table[":NonZero"] = {evaluateNonZero, {}, /*isDynamic=*/true};
  addNormalisation(table);
  addLosses(table);
}
