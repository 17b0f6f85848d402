//===- Convolutions.cpp - Conv and relatives ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Multiply.h"
#include "compiler/operators/Quantised.h"
#include "compiler/operators/Windows.h"

using namespace tw;
using namespace tw::operators;

namespace {

/// Elements of a matrix of columns, at most about: it stays in the second cache.
constexpr int64_t kColumnElements = int64_t(1) << 17;

/// Neighbouring places of one row of an output, and where the row lies.
struct Segment {
  Shape row;            ///< index without the last dim
  int64_t first, end;   ///< of the last dim
  int64_t inputRow = 0; ///< place of the input's row under one element of the kernel; negative: in the padding
};

std::vector<Segment> segmentsOf(const Shape &output, int64_t first, int64_t count) {
  std::vector<Segment> segments;
  const int64_t width = output.back();
  for (int64_t at = first; at < first + count;) {
    Segment segment;
    segment.first = at % width;
    segment.end = std::min(width, segment.first + first + count - at);
    segment.row.resize(output.size() - 1);
    int64_t row = at / width;
    for (size_t dim = segment.row.size(); dim-- > 0; row /= output[dim])
      segment.row[dim] = row % output[dim];
    at += segment.end - segment.first;
    segments.push_back(std::move(segment));
  }
  return segments;
}

/// Calls `f(segment, channel, row of the matrix)` for all segments, channels and elements of the kernel, `inputRow` set.
template <typename F> void forEachRow(const Windows &windows, int64_t channels, std::vector<Segment> &segments, F &&f) {
  const size_t rank = windows.input.size();
  const int64_t kernelSize = countOf(windows.kernel);
  int64_t element = 0;
  forEachIndex(windows.kernel, [&](const Shape &kernel) {
    for (Segment &segment : segments) {
      segment.inputRow = 0;
      for (size_t dim = 0; dim + 1 < rank && segment.inputRow >= 0; ++dim) {
        const int64_t at = segment.row[dim] * windows.strides[dim] + kernel[dim] * windows.dilations[dim] - windows.before[dim];
        segment.inputRow = at < 0 || at >= windows.input[dim] ? -1 : segment.inputRow * windows.input[dim] + at;
      }
    }
    const int64_t offset = kernel[rank - 1] * windows.dilations[rank - 1] - windows.before[rank - 1];
    for (int64_t channel = 0; channel < channels; ++channel)
      f(channel, channel * kernelSize + element, offset);
    ++element;
  });
}

/// What windows see: columns[channels * kernel, count], for `count` places of the output from `first` on.
template <typename C>
void gatherColumns(const Windows &windows, const C *x, int64_t channels, int64_t first, int64_t count, C *columns) {
  std::vector<Segment> segments = segmentsOf(windows.output, first, count);
  const int64_t inputSize = countOf(windows.input), width = windows.input.back(), stride = windows.strides.back();
  forEachRow(windows, channels, segments, [&](int64_t channel, int64_t row, int64_t offset) {
    const InsideRange inside(windows.output.back(), stride, offset, width);
    C *to = columns + row * count;
    for (const Segment &segment : segments) {
      const int64_t length = segment.end - segment.first;
      // Places [low, high) of the segment see the input.
      const int64_t low = segment.inputRow < 0 ? length : std::clamp(inside.first - segment.first, int64_t(0), length);
      const int64_t high = std::clamp(inside.end - segment.first, low, length);
      std::fill(to, to + low, C(0));
      if (low < high) {
        const C *from = x + channel * inputSize + segment.inputRow * width + (segment.first + low) * stride + offset;
        if (stride == 1)
          std::copy(from, from + (high - low), to + low);
        else
          for (int64_t i = low; i < high; ++i, from += stride)
            to[i] = *from;
      }
      std::fill(to + high, to + length, C(0));
      to += length;
    }
  });
}

/// The reverse: adds columns to where windows see them.
template <typename C>
void scatterColumns(const Windows &windows, C *x, int64_t channels, int64_t first, int64_t count, const C *columns) {
  std::vector<Segment> segments = segmentsOf(windows.output, first, count);
  const int64_t inputSize = countOf(windows.input), width = windows.input.back(), stride = windows.strides.back();
  forEachRow(windows, channels, segments, [&](int64_t channel, int64_t row, int64_t offset) {
    const InsideRange inside(windows.output.back(), stride, offset, width);
    const C *from = columns + row * count;
    for (const Segment &segment : segments) {
      const int64_t length = segment.end - segment.first;
      const int64_t low = segment.inputRow < 0 ? length : std::clamp(inside.first - segment.first, int64_t(0), length);
      const int64_t high = std::clamp(inside.end - segment.first, low, length);
      if (low < high) {
        C *to = x + channel * inputSize + segment.inputRow * width + (segment.first + low) * stride + offset;
        for (int64_t i = low; i < high; ++i, to += stride)
          *to += from[i];
      }
      from += length;
    }
  });
}

/// A convolution of x: [N, groups * channels, ...] with weights [groups * filters, channels, ...].
struct Convolution {
  Windows windows;
  int64_t batch = 0, groups = 1, channels = 0, filters = 0;
  Shape result;

  Convolution(const Call &call, size_t xInput, size_t wInput) {
    const HostTensor &x = call.input(xInput), &w = call.input(wInput);
    const Shape spatial = spatialOf(call, xInput);
    if (w.shape.size() != x.shape.size())
      call.fail("the weights have shape " + textOf(w.shape) + ", the input " + textOf(x.shape) + ": expected one rank");
    const Shape kernel(w.shape.begin() + 2, w.shape.end());
    groups = call.intAttr("group", 1);
    channels = w.shape[1];
    batch = x.shape[0];
    if (groups < 1 || w.shape[0] % groups != 0)
      call.fail("group is " + std::to_string(groups) + ", which does not divide the weights' " + std::to_string(w.shape[0]) +
                " filters");
    filters = w.shape[0] / groups;
    if (x.shape[1] % groups != 0 || x.shape[1] / groups != channels)
      call.fail("the input has " + std::to_string(x.shape[1]) + " channels, the weights take " + std::to_string(channels) +
                " in each of " + std::to_string(groups) + " groups");
    windows = windowsOf(call, spatial, kernelOf(call, spatial, &kernel));
    result = {batch, w.shape[0]};
    result.insert(result.end(), windows.output.begin(), windows.output.end());
  }

  /// y: zeros of shape `result`, or what is to be added to.
  template <typename C> void run(const C *x, const C *w, C *y) const {
    const int64_t places = countOf(windows.output), inputSize = countOf(windows.input),
                  rows = channels * countOf(windows.kernel);
    if (places == 0 || rows == 0 || WithoutProducts::isOn)
      return;
    // A kernel of one element that steps over nothing: the input is the matrix of columns.
    const bool isPointwise = rows == channels && windows.input == windows.output && countOf(windows.strides) == 1;
    const int64_t block = std::min(places, std::max<int64_t>(64, kColumnElements / rows));
    std::vector<C> columns(isPointwise ? 0 : size_t(rows * block));
    for (int64_t i = 0; i < batch * groups; ++i) {
      const C *from = x + i * channels * inputSize, *weights = w + i % groups * filters * rows;
      C *to = y + i * filters * places;
      if (isPointwise) {
        multiply(filters, places, rows, weights, rows, from, places, to, places);
        continue;
      }
      for (int64_t first = 0; first < places; first += block) {
        const int64_t count = std::min(block, places - first);
        gatherColumns(windows, from, channels, first, count, columns.data());
        multiply(filters, count, rows, weights, rows, columns.data(), count, to + first, places);
      }
    }
  }
};

/// Fills y: [N, C, places] with a bias [C].
template <typename C, typename Bias> void fillBias(C *y, int64_t batch, int64_t channels, int64_t places, Bias bias) {
  for (int64_t i = 0; i < batch * channels; ++i)
    std::fill(y + i * places, y + (i + 1) * places, bias(i % channels));
}

/// Calls f(x, weights, y) on floats, where y, of shape `result`, holds the bias of input 2, if there is one.
template <typename F> void runOnFloats(Call &call, const Shape &result, F &&f) {
  const HostTensor &x = call.input(0);
  const int64_t channels = result[1];
  if (call.has(2)) {
    call.requireSameType(x, call.input(2));
    requireShape(call, 2, call.input(2), {channels});
  }
  HostTensor &y = call.output(0, x.type, result);
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        Widened<T> from(x), weights(call.input(1));
        Narrowed<T> to(y);
        if (call.has(2))
          fillBias(to.data(), result[0], channels, countOf(Shape(result.begin() + 2, result.end())),
                   [bias = data<T>(call.input(2))](int64_t i) { return Computed<T>(bias[i]); });
        f(from.data(), weights.data(), to.data());
      }))
    failType(call, 0, x);
}

void evaluateConv(Call &call) {
  call.requireSameType(call.input(0), call.input(1));
  const Convolution convolution(call, 0, 1);
  runOnFloats(call, convolution.result, [&](const auto *x, const auto *weights, auto *y) { convolution.run(x, weights, y); });
}

/// A parameter of filters: [M] stands for [M, 1, ...].
HostTensor asFilters(HostTensor parameter, size_t rank) {
  if (parameter.shape.size() == 1)
    parameter.shape.resize(rank, 1);
  return parameter;
}

HostTensor scalarZeroPoint(const Call &call, size_t i) {
  if (countOf(call.input(i)) != 1)
    call.fail("input " + std::to_string(i) + " has shape " + textOf(call.input(i).shape) + ", expected one element");
  return call.input(i);
}

void evaluateConvInteger(Call &call) {
  const Convolution convolution(call, 0, 1);
  const size_t rank = call.input(0).shape.size();
  const auto from = centred(call, 0, call.has(2) ? scalarZeroPoint(call, 2) : HostTensor(), call.has(2));
  const auto weights = centred(call, 1, call.has(3) ? asFilters(call.input(3), rank) : HostTensor(), call.has(3));
  HostTensor &y = call.output(0, ElementKind::I32, convolution.result);
  convolution.run(from.data(), weights.data(), data<uint32_t>(y));
}

void evaluateQLinearConv(Call &call) {
  const Convolution convolution(call, 0, 3);
  const size_t rank = call.input(0).shape.size();
  const int64_t filters = call.input(3).shape[0], places = countOf(convolution.windows.output);
  const auto from = centred(call, 0, scalarZeroPoint(call, 2), true),
             weights = centred(call, 3, asFilters(call.input(5), rank), true);
  const float xScale = float(call.realScalar(1)), yScale = float(call.realScalar(6)), yZero = float(call.realScalar(7));
  const std::vector<float> wScale = spread(call, 4, call.input(4), {filters});
  std::vector<uint32_t> sums(size_t(countOf(convolution.result)));
  if (call.has(8)) {
    if (call.input(8).type != ElementKind::I32)
      failType(call, 8, call.input(8));
    requireShape(call, 8, call.input(8), {filters});
    fillBias(sums.data(), convolution.batch, filters, places,
             [bias = data<int32_t>(call.input(8))](int64_t i) { return uint32_t(bias[i]); });
  }
  HostTensor &y = call.output(0, call.input(7).type, convolution.result);
  convolution.run(from.data(), weights.data(), sums.data());
  for (size_t i = 0; i < sums.size(); ++i)
    storeQuantised(y, int64_t(i), float(int32_t(sums[i])) * (xScale * wScale[i / size_t(places) % size_t(filters)] / yScale),
                   yZero);
}

//===----------------------------------------------------------------------===//
// ConvTranspose
//===----------------------------------------------------------------------===//

/// Windows of the convolution whose reverse this is: its input is the result here.
Windows reverseWindows(const Call &call, const Shape &spatial, const Shape &kernel) {
  const size_t rank = spatial.size();
  Windows windows;
  windows.output = spatial;
  windows.kernel = kernel;
  windows.strides = spatialAttr(call, "strides", rank, 1, 1);
  windows.dilations = spatialAttr(call, "dilations", rank, 1, 1);
  windows.input.assign(rank, 0);
  windows.before.assign(rank, 0);
  windows.after.assign(rank, 0);
  const Shape added = spatialAttr(call, "output_padding", rank, 0, 0), pads = spatialAttr(call, "pads", 2 * rank, 0, 0);
  Shape wanted = call.intsAttr("output_shape", Shape());
  // Some exporters write batch and channels too.
  if (wanted.size() == rank + 2)
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != rank)
    call.fail("output_shape is " + textOf(wanted) + ", expected " + std::to_string(rank) + " elements");
  for (int64_t size : wanted)
    if (size < 0 || size > std::numeric_limits<int32_t>::max())
      call.fail("output_shape is " + textOf(wanted) + ", expected sizes from 0 to 2^31 - 1");
  const std::string autoPad = call.stringAttr("auto_pad", "NOTSET");
  if (autoPad != "NOTSET" && !autoPad.empty() && autoPad != "SAME_UPPER" && autoPad != "SAME_LOWER" && autoPad != "VALID")
    call.fail("auto_pad is \"" + autoPad + "\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  const bool isSame = autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER";
  for (size_t dim = 0; dim < rank; ++dim) {
    const int64_t most = windows.strides[dim] * (spatial[dim] - 1) + added[dim] + windows.reach(dim);
    if (wanted.empty() && !isSame) {
      windows.before[dim] = autoPad == "VALID" ? 0 : pads[dim];
      windows.after[dim] = autoPad == "VALID" ? 0 : pads[dim + rank];
      windows.input[dim] = most - windows.before[dim] - windows.after[dim];
    } else {
      windows.input[dim] = wanted.empty() ? spatial[dim] * windows.strides[dim] : wanted[dim];
      const int64_t padding = std::max<int64_t>(0, most - windows.input[dim]);
      windows.before[dim] = autoPad == "SAME_UPPER" ? padding / 2 : padding - padding / 2;
      windows.after[dim] = padding - windows.before[dim];
    }
    if (windows.input[dim] < 0)
      call.fail("spatial dim " + std::to_string(dim) + " of the result would be " + std::to_string(windows.input[dim]));
  }
  return windows;
}

void evaluateConvTranspose(Call &call) {
  const HostTensor &x = call.input(0), &w = call.input(1);
  call.requireSameType(x, w);
  const Shape spatial = spatialOf(call, 0);
  if (w.shape.size() != x.shape.size())
    call.fail("the weights have shape " + textOf(w.shape) + ", the input " + textOf(x.shape) + ": expected one rank");
  const int64_t batch = x.shape[0], groups = call.intAttr("group", 1), filters = w.shape[1];
  if (groups < 1 || x.shape[1] % groups != 0 || w.shape[0] != x.shape[1])
    call.fail("the input has " + std::to_string(x.shape[1]) + " channels in " + std::to_string(groups) +
              " groups, the weights have shape " + textOf(w.shape));
  const int64_t channels = x.shape[1] / groups;
  const Shape kernel(w.shape.begin() + 2, w.shape.end());
  const Windows windows = reverseWindows(call, spatial, kernelOf(call, spatial, &kernel));
  Shape result{batch, groups * filters};
  result.insert(result.end(), windows.input.begin(), windows.input.end());
  const int64_t places = countOf(spatial), resultSize = countOf(windows.input), rows = filters * countOf(kernel);
  runOnFloats(call, result, [&](const auto *from, const auto *weights, auto *to) {
    using C = std::remove_pointer_t<decltype(to)>;
    if (places == 0 || rows == 0 || channels == 0 || resultSize == 0)
      return;
    const int64_t block = std::min(places, std::max<int64_t>(64, kColumnElements / rows));
    std::vector<C> columns(size_t(rows * block)), turned(size_t(rows * channels));
    for (int64_t group = 0; group < groups; ++group) {
      const C *matrix = weights + group * channels * rows;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t row = 0; row < rows; ++row)
          turned[size_t(row * channels + c)] = matrix[c * rows + row];
      for (int64_t n = 0; n < batch; ++n)
        for (int64_t first = 0; first < places; first += block) {
          const int64_t count = std::min(block, places - first), i = n * groups + group;
          std::fill(columns.begin(), columns.end(), C(0));
          multiply(rows, count, channels, turned.data(), channels, from + i * channels * places + first, places, columns.data(),
                   count);
          scatterColumns(windows, to + i * filters * resultSize, filters, first, count, columns.data());
        }
    }
  });
}

//===----------------------------------------------------------------------===//
// DeformConv
//===----------------------------------------------------------------------===//

/// x: [dims...] at a place between its elements, zero outside. source: ONNX, operator DeformConv: (multi)linear interpolation.
template <typename C> double interpolated(const C *x, const Shape &dims, const std::vector<double> &place) {
  double sum = 0;
  for (size_t corner = 0; corner < (size_t(1) << dims.size()); ++corner) {
    double weight = 1;
    int64_t at = 0;
    bool isInside = true;
    for (size_t dim = 0; dim < dims.size() && isInside; ++dim) {
      const double low = std::floor(place[dim]), here = low + double(corner >> dim & 1);
      weight *= 1 - std::fabs(place[dim] - here);
      // NaN and what is far away are outside too.
      isInside = here >= 0 && here < double(dims[dim]);
      if (isInside)
        at = at * dims[dim] + int64_t(here);
    }
    if (isInside && weight != 0)
      sum += weight * double(x[at]);
  }
  return sum;
}

void evaluateDeformConv(Call &call) {
  const HostTensor &x = call.input(0), &w = call.input(1), &offset = call.input(2);
  const Convolution convolution(call, 0, 1);
  const Windows &windows = convolution.windows;
  const size_t rank = windows.input.size();
  if (rank > 8)
    call.fail("input 0 has shape " + textOf(x.shape) + ", expected at most 8 spatial dims");
  const int64_t kernelSize = countOf(windows.kernel), places = countOf(windows.output), inputSize = countOf(windows.input);
  const int64_t offsetGroups = call.intAttr("offset_group", 1), allChannels = x.shape[1], filters = w.shape[0];
  if (offsetGroups < 1 || allChannels % offsetGroups != 0)
    call.fail("offset_group is " + std::to_string(offsetGroups) + ", which does not divide the " + std::to_string(allChannels) +
              " channels");
  Shape expected = convolution.result;
  expected[1] = offsetGroups * kernelSize * int64_t(rank);
  requireShape(call, 2, offset, expected);
  if (call.has(3))
    requireShape(call, 3, call.input(3), {filters});
  expected[1] = offsetGroups * kernelSize;
  if (call.has(4))
    requireShape(call, 4, call.input(4), expected);
  for (size_t i = 1; i < 5; ++i)
    if (call.has(i))
      call.requireSameType(x, call.input(i));
  HostTensor &y = call.output(0, x.type, convolution.result);
  if (!visitFloat(x.type, [&](auto zero) {
        using T = decltype(zero);
        using C = Computed<T>;
        Widened<T> from(x), weights(w), offsets(offset);
        Narrowed<T> to(y);
        if (call.has(3))
          fillBias(to.data(), convolution.batch, filters, places,
                   [bias = data<T>(call.input(3))](int64_t i) { return C(bias[i]); });
        if (places == 0 || kernelSize * convolution.channels == 0)
          return;
        // The matrix of columns, one place of the result after the other.
        const int64_t groupChannels = convolution.channels, rows = groupChannels * kernelSize;
        std::vector<C> columns(size_t(allChannels * kernelSize * places));
        std::vector<double> place(rank);
        for (int64_t n = 0; n < convolution.batch; ++n) {
          int64_t element = 0;
          forEachIndex(windows.kernel, [&](const Shape &kernel) {
            for (int64_t group = 0; group < offsetGroups; ++group) {
              int64_t p = 0;
              const int64_t plane = (n * offsetGroups + group) * kernelSize + element;
              forEachIndex(windows.output, [&](const Shape &output) {
                for (size_t dim = 0; dim < rank; ++dim)
                  place[dim] =
                      double(output[dim] * windows.strides[dim] + kernel[dim] * windows.dilations[dim] - windows.before[dim]) +
                      double(offsets[(plane * int64_t(rank) + int64_t(dim)) * places + p]);
                const double mask = call.has(4) ? double(Computed<T>(data<T>(call.input(4))[plane * places + p])) : 1.0;
                for (int64_t c = group * (allChannels / offsetGroups); c < (group + 1) * (allChannels / offsetGroups); ++c)
                  columns[size_t((c * kernelSize + element) * places + p)] =
                      C(mask * interpolated(from.data() + (n * allChannels + c) * inputSize, windows.input, place));
                ++p;
              });
            }
            ++element;
          });
          for (int64_t group = 0; group < convolution.groups; ++group)
            multiply(convolution.filters, places, rows, weights.data() + group * convolution.filters * rows, rows,
                     columns.data() + group * rows * places, places,
                     to.data() + (n * convolution.groups + group) * convolution.filters * places, places);
        }
      }))
    failType(call, 0, x);
}

} // namespace

void operators::addConvolutions(Table &table) {
  table[":Conv"].evaluate = evaluateConv;
  table[":ConvInteger"].evaluate = evaluateConvInteger;
  table[":QLinearConv"].evaluate = evaluateQLinearConv;
  table[":ConvTranspose"].evaluate = evaluateConvTranspose;
  table[":DeformConv"].evaluate = evaluateDeformConv;
}
