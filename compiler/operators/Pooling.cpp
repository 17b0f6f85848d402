//===- Pooling.cpp - Pools over windows and over all places ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Windows.h"

using namespace tw;
using namespace tw::operators;

namespace {

/// What of a window lies in the input, along one dim.
struct WindowPart {
  int64_t first = 0;  ///< place in the input
  int64_t count = 0;  ///< elements that lie in it
  int64_t padded = 0; ///< elements that lie in it or in its padding
};

/// The parts of all windows along `dim`.
std::vector<WindowPart> partsOf(const Windows &windows, size_t dim) {
  std::vector<WindowPart> parts(size_t(windows.output[dim]));
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t start = int64_t(i) * windows.strides[dim] - windows.before[dim], dilation = windows.dilations[dim];
    const InsideRange inside(windows.kernel[dim], dilation, start, windows.input[dim]);
    parts[i].first = start + inside.first * dilation;
    parts[i].count = inside.end - inside.first;
    // A last window that the ceiling makes may reach beyond the padding.
    const int64_t room = windows.input[dim] + windows.after[dim] - start;
    parts[i].padded = room <= 0 ? 0 : std::min(windows.kernel[dim], (room + dilation - 1) / dilation);
  }
  return parts;
}

/// Calls `start()`, `element(place)` for all elements of a window that lie in the input, and `end(place in the output, padded
/// elements)`, for every window of a channel. Places count from the start of the channel.
template <typename Start, typename Element, typename End>
void forEachWindow(const Windows &windows, Start start, Element element, End end) {
  const size_t rank = windows.input.size();
  std::vector<std::vector<WindowPart>> parts(rank);
  for (size_t dim = 0; dim < rank; ++dim)
    parts[dim] = partsOf(windows, dim);
  const Shape strides = stridesOf(windows.input);
  Shape index(rank);
  int64_t to = 0;
  forEachIndex(windows.output, [&](const Shape &output) {
    int64_t base = 0, padded = 1, count = 1;
    for (size_t dim = 0; dim < rank; ++dim) {
      const WindowPart &part = parts[dim][size_t(output[dim])];
      base += part.first * strides[dim];
      padded *= part.padded;
      count *= part.count;
    }
    start();
    if (count > 0) {
      const int64_t last = parts[rank - 1][size_t(output[rank - 1])].count, step = windows.dilations[rank - 1];
      std::fill(index.begin(), index.end(), 0);
      for (;;) {
        for (int64_t i = 0; i < last; ++i)
          element(base + i * step);
        size_t dim = rank - 1;
        for (; dim > 0; --dim) {
          const int64_t outer = windows.dilations[dim - 1] * strides[dim - 1];
          base += outer;
          if (++index[dim - 1] < parts[dim - 1][size_t(output[dim - 1])].count)
            break;
          base -= outer * index[dim - 1];
          index[dim - 1] = 0;
        }
        if (dim == 0)
          break;
      }
    }
    end(to++, padded);
  });
}

struct Pool {
  Windows windows;
  Shape result;
  int64_t planes = 0, inputSize = 1, outputSize = 1;

  explicit Pool(const Call &call) {
    const HostTensor &x = call.input(0);
    const Shape spatial = spatialOf(call, 0);
    windows = windowsOf(call, spatial, kernelOf(call, spatial, nullptr), call.flagAttr("ceil_mode", false));
    planes = x.shape[0] * x.shape[1];
    inputSize = countOf(spatial);
    outputSize = countOf(windows.output);
    result = {x.shape[0], x.shape[1]};
    result.insert(result.end(), windows.output.begin(), windows.output.end());
  }
};

void evaluateMaxPool(Call &call) {
  const HostTensor &x = call.input(0);
  const Pool pool(call);
  const bool isColumnMajor = call.flagAttr("storage_order", false);
  HostTensor &y = call.output(0, x.type, pool.result);
  HostTensor *indices = call.wants(1) ? &call.output(1, ElementKind::I64, pool.result) : nullptr;
  const Shape strides = stridesOf(pool.windows.input);
  // Column major: the first spatial dim varies fastest.
  auto indexOf = [&](int64_t at) {
    if (!isColumnMajor || at < 0)
      return at;
    int64_t index = 0, step = 1;
    for (size_t dim = 0; dim < strides.size(); ++dim) {
      index += at / strides[dim] % pool.windows.input[dim] * step;
      step *= pool.windows.input[dim];
    }
    return index;
  };
  if (!visitNumber(x.type, [&](auto zero) {
        using T = decltype(zero);
        using C = Computed<T>;
        Widened<T> from(x);
        for (int64_t plane = 0; plane < pool.planes; ++plane) {
          const C *elements = from.data() + plane * pool.inputSize;
          C best = 0;
          int64_t at = -1;
          forEachWindow(
              pool.windows,
              [&] {
                best = least<C>();
                at = -1;
              },
              [&](int64_t place) {
                const C each = elements[place];
                if (at < 0 || each > best || (each != each && best == best)) {
                  best = each;
                  at = place;
                }
              },
              [&](int64_t to, int64_t) {
                data<T>(y)[plane * pool.outputSize + to] = best;
                if (indices)
                  data<int64_t>(*indices)[plane * pool.outputSize + to] = at < 0 ? -1 : plane * pool.inputSize + indexOf(at);
              });
        }
      }))
    failType(call, 0, x);
}

/// Calls f(elements, set) for each plane of a tensor of floats: its elements, and a function that sets a result of it.
template <typename F> void forEachPlane(Call &call, const Pool &pool, F &&f) {
  const HostTensor &x = call.input(0);
  HostTensor &y = call.output(0, x.type, pool.result);
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T> from(x);
        for (int64_t plane = 0; plane < pool.planes; ++plane)
          f(from.data() + plane * pool.inputSize,
            [to = data<T>(y) + plane * pool.outputSize](int64_t at, double value) { to[at] = T(Computed<T>(value)); });
      }))
    failType(call, 0, x);
}

void evaluateAveragePool(Call &call) {
  const Pool pool(call);
  const bool countsPadding = call.flagAttr("count_include_pad", false);
  forEachPlane(call, pool, [&](const auto *elements, auto set) {
    double sum = 0;
    int64_t count = 0;
    forEachWindow(
        pool.windows,
        [&] {
          sum = 0;
          count = 0;
        },
        [&](int64_t place) {
          sum += double(elements[place]);
          ++count;
        },
        [&](int64_t to, int64_t padded) {
          const int64_t divisor = countsPadding ? padded : count;
          // A window that sees padding alone averages zeros.
          set(to, divisor ? sum / double(divisor) : 0);
        });
  });
}

void evaluateLpPool(Call &call) {
  const Pool pool(call);
  const int64_t p = call.intAttr("p", 2);
  if (p < 1)
    call.fail("p is " + std::to_string(p) + ", expected at least 1");
  forEachPlane(call, pool, [&](const auto *elements, auto set) {
    double sum = 0;
    forEachWindow(
        pool.windows, [&] { sum = 0; }, [&](int64_t place) { sum += std::pow(std::fabs(double(elements[place])), double(p)); },
        [&](int64_t to, int64_t) { set(to, std::pow(sum, 1 / double(p))); });
  });
}

//===----------------------------------------------------------------------===//
// MaxUnpool
//===----------------------------------------------------------------------===//

void evaluateMaxUnpool(Call &call) {
  const HostTensor &x = call.input(0), &indices = call.input(1);
  const Shape spatial = spatialOf(call, 0), kernel = kernelOf(call, spatial, nullptr);
  const size_t rank = spatial.size();
  requireShape(call, 1, indices, x.shape);
  if (indices.type != ElementKind::I64)
    failType(call, 1, indices);
  const Shape strides = spatialAttr(call, "strides", rank, 1, 1), pads = spatialAttr(call, "pads", 2 * rank, 0, 0);
  // What the indices count in.
  Shape pooled{x.shape[0], x.shape[1]};
  for (size_t dim = 0; dim < rank; ++dim)
    pooled.push_back((spatial[dim] - 1) * strides[dim] + kernel[dim] - pads[dim] - pads[dim + rank]);
  HostTensor y = makeTensor(x.type, pooled);
  const int64_t count = countOf(x), places = countOf(y);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = data<int64_t>(indices)[i];
    if (at < 0 || at >= places)
      call.fail("index " + std::to_string(i) + " is " + std::to_string(at) + ", expected one of the " + std::to_string(places) +
                " places of shape " + textOf(pooled));
    copyElement(x, i, y, at);
  }
  if (!call.has(2))
    return call.set(0, std::move(y));
  // With a shape given, the rest is filled with zeros behind.
  const Shape wanted = call.ints(2);
  if (wanted.size() != pooled.size())
    call.fail("output_shape is " + textOf(wanted) + ", expected " + std::to_string(pooled.size()) + " elements");
  for (size_t dim = 0; dim < wanted.size(); ++dim)
    if (wanted[dim] < pooled[dim])
      call.fail("output_shape is " + textOf(wanted) + ", expected at least " + textOf(pooled));
  HostTensor &larger = call.output(0, x.type, wanted);
  walk<1>(pooled, {stridesOf(wanted)},
          [&](int64_t from, const std::array<int64_t, 1> &to) { copyElement(y, from, larger, to[0]); });
}

//===----------------------------------------------------------------------===//
// Global pools
//===----------------------------------------------------------------------===//

enum class GlobalPool { Average, Max, Lp };

template <GlobalPool P> void evaluateGlobalPool(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, x, 2);
  const int64_t planes = x.shape[0] * x.shape[1], p = P == GlobalPool::Lp ? call.intAttr("p", 2) : 2;
  if (p < 1)
    call.fail("p is " + std::to_string(p) + ", expected at least 1");
  Shape shape(x.shape.size(), 1);
  std::copy_n(x.shape.begin(), 2, shape.begin());
  HostTensor &y = call.output(0, x.type, shape);
  const int64_t places = planes ? countOf(x) / planes : 0;
  if (places == 0 && planes > 0)
    call.fail("input 0 has shape " + textOf(x.shape) + ": there is nothing to pool");
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        using C = Computed<T>;
        for (int64_t plane = 0; plane < planes; ++plane) {
          const T *from = data<T>(x) + plane * places;
          double result = P == GlobalPool::Max ? double(C(from[0])) : 0;
          for (int64_t i = 0; i < places; ++i) {
            const double each = double(C(from[i]));
            if (P == GlobalPool::Average)
              result += each;
            else if (P == GlobalPool::Lp)
              result += std::pow(std::fabs(each), double(p));
            else if (result == result && (each > result || each != each))
              result = each;
          }
          if (P == GlobalPool::Average)
            result /= double(places);
          else if (P == GlobalPool::Lp)
            result = std::pow(result, 1 / double(p));
          data<T>(y)[plane] = T(C(result));
        }
      }))
    failType(call, 0, x);
}

} // namespace

void operators::addPooling(Table &table) {
  table[":MaxPool"].evaluate = evaluateMaxPool;
  table[":AveragePool"].evaluate = evaluateAveragePool;
  table[":LpPool"].evaluate = evaluateLpPool;
  table[":MaxUnpool"] = {evaluateMaxUnpool, /*shapeInputs=*/{2}};
  table[":GlobalAveragePool"].evaluate = evaluateGlobalPool<GlobalPool::Average>;
  table[":GlobalMaxPool"].evaluate = evaluateGlobalPool<GlobalPool::Max>;
  table[":GlobalLpPool"].evaluate = evaluateGlobalPool<GlobalPool::Lp>;
}
