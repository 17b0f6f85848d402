//===- Sampling.cpp - GridSample ------------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Images.h"
#include "compiler/operators/Operator.h"

using namespace tw;
using namespace tw::operators;

namespace {

enum class Mode { Nearest, Linear, Cubic };
enum class Padding { Zeros, Border, Reflection };

/// Cubic convolution's parameter in GridSample.
constexpr double kCubicA = -0.75;

/// What lies outside [first, last] thrown back at its ends until it lies inside.
double reflected(double x, double first, double last) {
  const double range = last - first;
  if (!(range > 0))
    return first;
  const double beyond = x < first ? first - x : x - last;
  if (!(beyond > 0))
    return x;
  const double turns = std::floor(beyond / range), rest = beyond - turns * range;
  const bool isEven = std::fmod(turns, 2) == 0;
  return (x < first) == isEven ? first + rest : last - rest;
}

struct Grid {
  Mode mode = Mode::Linear;
  Padding padding = Padding::Zeros;
  bool alignsCorners = false;

  unsigned taps() const { return mode == Mode::Nearest ? 1 : mode == Mode::Linear ? 2 : 4; }

  /// The element at `i` of an axis of `size` elements, or -1 for a zero.
  int64_t elementAt(double i, int64_t size) const {
    const double last = double(size - 1);
    if (i < 0 || i > last) {
      if (padding == Padding::Zeros)
        return -1;
      i = padding == Padding::Border ? i : alignsCorners ? reflected(i, 0, last) : reflected(i, -0.5, last + 0.5);
    }
    return int64_t(std::clamp(i, 0.0, last));
  }

  /// Elements and their weights for `place`, from -1 to 1, on an axis of `size` elements.
  void sample(double place, int64_t size, int64_t *index, double *weight) const {
    const double last = double(size - 1);
    // Places are floats in ONNX: ties of the nearest element are those of float.
    double x = float(alignsCorners ? (place + 1) / 2 * last : ((place + 1) * double(size) - 1) / 2);
    if (!(std::fabs(x) < 2147483648.0))
      x = -100;
    // Ties go to the even element.
    if (mode == Mode::Nearest)
      x = std::nearbyint(x);
    const double least = alignsCorners ? 0 : -0.5, most = alignsCorners ? last : last + 0.5;
    if (x < least || x > most) {
      if (padding == Padding::Border)
        x = std::clamp(x, 0.0, last);
      else if (padding == Padding::Reflection)
        x = reflected(x, least, most);
    }
    if (mode == Mode::Nearest) {
      index[0] = elementAt(x, size);
      weight[0] = 1;
      return;
    }
    const double low = std::floor(x), ratio = x - low;
    if (mode == Mode::Linear) {
      weight[0] = 1 - ratio;
      weight[1] = ratio;
    } else {
      cubicWeights(ratio, kCubicA, weight);
    }
    const double first = mode == Mode::Linear ? low : low - 1;
    for (unsigned k = 0; k < taps(); ++k)
      index[k] = elementAt(first + k, size);
  }
};

// source: ONNX, operator GridSample
void evaluateGridSample(Call &call) {
  const HostTensor &x = call.input(0), &grid = call.input(1);
  const size_t rank = x.shape.size() < 2 ? 0 : x.shape.size() - 2;
  if (rank < 1 || rank > 8 || grid.shape.size() != rank + 2 || grid.shape.back() != int64_t(rank) ||
      grid.shape[0] != x.shape[0])
    call.fail("input has shape " + textOf(x.shape) + " and the grid " + textOf(grid.shape) +
              ", expected [n, channels, ...] of rank r + 2 and [n, ..., r]");
  Grid sampler;
  const std::string mode = call.stringAttr("mode", call.opset() < 20 ? "bilinear" : "linear");
  if (mode == "nearest")
    sampler.mode = Mode::Nearest;
  else if (mode == "cubic" || mode == "bicubic")
    sampler.mode = Mode::Cubic;
  else if (mode != "linear" && mode != "bilinear")
    call.fail("mode is \"" + mode + "\", expected linear, nearest or cubic");
  const std::string padding = call.stringAttr("padding_mode", "zeros");
  if (padding == "border")
    sampler.padding = Padding::Border;
  else if (padding == "reflection")
    sampler.padding = Padding::Reflection;
  else if (padding != "zeros")
    call.fail("padding_mode is \"" + padding + "\", expected zeros, border or reflection");
  sampler.alignsCorners = call.flagAttr("align_corners", false);

  const Shape places(grid.shape.begin() + 1, grid.shape.end() - 1), image(x.shape.begin() + 2, x.shape.end());
  const Shape strides = stridesOf(image);
  const int64_t count = countOf(places), channels = x.shape[1], pixels = countOf(image);
  Shape shape = {x.shape[0], channels};
  shape.insert(shape.end(), places.begin(), places.end());
  HostTensor &y = call.output(0, x.type, shape);
  if (countOf(y) == 0)
    return;
  if (pixels == 0)
    call.fail("the image has no pixels");
  // A grid is walked once for all channels: all elements that a place takes, and their weights.
  std::vector<int64_t> at;
  std::vector<double> weight;
  auto gather = [&](int64_t place) {
    at.assign(1, 0);
    weight.assign(1, 1.0);
    for (size_t axis = 0; axis < rank; ++axis) {
      int64_t index[4];
      double part[4];
      // The grid names the last axis first.
      sampler.sample(realAt(grid, place * int64_t(rank) + int64_t(rank - 1 - axis)), image[axis], index, part);
      const size_t before = at.size();
      for (unsigned k = 1; k < sampler.taps(); ++k)
        for (size_t i = 0; i < before; ++i) {
          at.push_back(at[i] < 0 || index[k] < 0 ? -1 : at[i] + index[k] * strides[axis]);
          weight.push_back(weight[i] * part[k]);
        }
      for (size_t i = 0; i < before; ++i) {
        at[i] = at[i] < 0 || index[0] < 0 ? -1 : at[i] + index[0] * strides[axis];
        weight[i] *= part[0];
      }
    }
  };
  auto fill = [&](auto zero) {
    using T = decltype(zero);
    for (int64_t n = 0; n < x.shape[0]; ++n)
      for (int64_t p = 0; p < count; ++p) {
        gather(n * count + p);
        for (int64_t c = 0; c < channels; ++c) {
          const T *plane = data<T>(x) + (n * channels + c) * pixels;
          T &to = data<T>(y)[(n * channels + c) * count + p];
          if (sampler.mode == Mode::Nearest) {
            to = at[0] < 0 ? T() : plane[at[0]];
            continue;
          }
          double sum = 0;
          for (size_t i = 0; i < at.size(); ++i)
            if (at[i] >= 0)
              sum += weight[i] * double(Computed<T>(plane[at[i]]));
          setReal(y, &to - data<T>(y), sum);
        }
      }
  };
  if (visitNumber(x.type, fill))
    return;
  if (sampler.mode != Mode::Nearest)
    call.fail(std::string("elements of ") + frontend::elementName(x.type) + " cannot be interpolated; mode nearest takes them");
  for (int64_t n = 0; n < x.shape[0]; ++n)
    for (int64_t p = 0; p < count; ++p) {
      gather(n * count + p);
      for (int64_t c = 0; at[0] >= 0 && c < channels; ++c)
        copyElement(x, (n * channels + c) * pixels + at[0], y, (n * channels + c) * count + p);
    }
}

} // namespace

void operators::addSampling(Table &table) { table[":GridSample"] = {evaluateGridSample, {}}; }
