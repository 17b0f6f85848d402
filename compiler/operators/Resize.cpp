//===- Resize.cpp - Resize and Upsample -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// source: ONNX, operators Resize and Upsample. Every mode is separable: one
// list of weighted samples for each place along each axis.
//===----------------------------------------------------------------------===//
#include "compiler/operators/Elements.h"
#include "compiler/operators/Images.h"
#include "compiler/operators/Operator.h"
#include "compiler/operators/Widened.h"

#include <limits>
#include <numeric>

using namespace tw;
using namespace tw::operators;

namespace {

enum class Mode { Nearest, Linear, Cubic };
enum class Position {
  HalfPixel,
  HalfPixelSymmetric,
  PytorchHalfPixel,
  AlignCorners,
  Asymmetric,
  TfHalfPixelForNearest,
  TfCropAndResize
};
/// Up is that of Resize 10: what enlarges rounds down, what shrinks rounds up.
enum class Rounding { PreferFloor, PreferCeil, Floor, Ceil, Simple };

struct Settings {
  Mode mode = Mode::Nearest;
  Position position = Position::Asymmetric;
  Rounding rounding = Rounding::Floor;
  double cubicA = -0.75;
  bool excludesOutside = false;
  bool isAntialiased = false;
  double extrapolation = 0;
};

/// How one axis is resized.
struct Axis {
  int64_t in = 0, out = 0;
  double scale = 1;
  /// Length of the result before it is rounded.
  double length = 0;
  /// `scale` is the quotient of out and in.
  bool isRatio = false;
  /// Region of interest, as shares of the input's length.
  double start = 0, end = 1;
};

/// The weighted samples of each place of the result: `count` for each.
struct Samples {
  int64_t count = 1;
  std::vector<int64_t> index;
  std::vector<double> weight;
  /// Places that lie outside the input, of TfCropAndResize.
  std::vector<bool> isOutside;
  bool hasOutside = false;
  bool isIdentity = false;
};

/// Where place `i` of the result lies in the input. Scales of float are divided by in float, so that 1 / 3 and the like hit whole numbers.
template <typename Real> double placeOf(const Axis &axis, Position position, int64_t i) {
  const Real at = Real(i), scale = Real(axis.scale), half = Real(0.5);
  auto divided = [&](Real x) { return axis.isRatio ? x * Real(axis.in) / Real(axis.out) : x / scale; };
  switch (position) {
  case Position::HalfPixel:
    return divided(at + half) - half;
  case Position::PytorchHalfPixel:
    return axis.length > 1 ? divided(at + half) - half : Real(0);
  case Position::HalfPixelSymmetric: {
    const Real center = Real(axis.in) / 2;
    return center * (1 - Real(axis.out) / Real(axis.length)) + divided(at + half) - half;
  }
  case Position::AlignCorners:
    return axis.out == 1 ? Real(0) : at * Real(axis.in - 1) / Real(axis.length - 1);
  case Position::Asymmetric:
    return divided(at);
  case Position::TfHalfPixelForNearest:
    return divided(at + half);
  case Position::TfCropAndResize: {
    const Real last = Real(axis.in - 1), start = Real(axis.start), end = Real(axis.end);
    return axis.out > 1 ? start * last + at * (end - start) * last / Real(axis.length - 1) : half * (start + end) * last;
  }
  }
  return 0;
}

double rounded(double place, Rounding rounding, double scale) {
  switch (rounding) {
  case Rounding::PreferFloor:
    return std::ceil(place - 0.5);
  case Rounding::PreferCeil:
    return std::floor(place + 0.5);
  case Rounding::Floor:
    return std::floor(place);
  case Rounding::Ceil:
    return std::ceil(place);
  case Rounding::Simple:
    return scale < 1 ? std::ceil(place) : std::floor(place);
  }
  return 0;
}

double cubicAt(double distance, double a) {
  const double x = std::fabs(distance);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

Samples samplesOf(const Call &call, const Axis &axis, const Settings &settings) {
  Samples samples;
  // A stretched filter reaches over 1 / stretch input elements.
  const double stretch = settings.isAntialiased && settings.mode != Mode::Nearest ? std::min(axis.scale, 1.0) : 1;
  const double support = (settings.mode == Mode::Cubic ? 2 : 1) / stretch;
  if (settings.mode != Mode::Nearest) {
    if (!(support <= 4.0 * double(axis.in) + 16))
      call.fail("the scale " + std::to_string(axis.scale) + " is too small for antialiasing " + std::to_string(axis.in) +
                " elements");
    samples.count = 2 * int64_t(std::ceil(support));
  }
  if (axis.out > 0 && samples.count > std::numeric_limits<int32_t>::max() / axis.out)
    call.fail("it would take more than 2^31 samples along one axis");
  samples.index.resize(size_t(axis.out * samples.count));
  samples.weight.resize(samples.index.size(), 1);
  samples.isOutside.resize(size_t(axis.out));
  samples.isIdentity = axis.in == axis.out;
  const double last = double(axis.in - 1);
  for (int64_t i = 0; i < axis.out; ++i) {
    double place = settings.mode == Mode::Nearest && !axis.isRatio ? placeOf<float>(axis, settings.position, i)
                                                                   : placeOf<double>(axis, settings.position, i);
    if (settings.position == Position::TfCropAndResize && !(place >= 0 && place <= last)) {
      samples.isOutside[size_t(i)] = true;
      samples.hasOutside = true;
      samples.isIdentity = false;
    }
    // Beyond what any filter reaches, the edge is all there is.
    place = place == place ? std::clamp(place, -support - 2, last + support + 2) : 0;
    int64_t *index = samples.index.data() + i * samples.count;
    double *weight = samples.weight.data() + i * samples.count;
    if (settings.mode == Mode::Nearest) {
      index[0] = int64_t(std::clamp(rounded(place, settings.rounding, axis.scale), 0.0, last));
      samples.isIdentity &= index[0] == i;
      continue;
    }
    const int64_t first = int64_t(std::floor(place)) + 1 - samples.count / 2;
    double sum = 0;
    for (int64_t k = 0; k < samples.count; ++k) {
      const double distance = (double(first + k) - place) * stretch;
      weight[k] = settings.mode == Mode::Cubic ? cubicAt(distance, settings.cubicA) : std::max(0.0, 1 - std::fabs(distance));
      if (settings.excludesOutside && (first + k < 0 || first + k > axis.in - 1))
        weight[k] = 0;
      index[k] = std::clamp<int64_t>(first + k, 0, axis.in - 1);
      sum += weight[k];
    }
    const bool isNormalised = settings.excludesOutside || stretch < 1;
    for (int64_t k = 0; k < samples.count; ++k) {
      if (isNormalised && sum != 0)
        weight[k] /= sum;
      samples.isIdentity &= weight[k] == (index[k] == i ? 1 : 0) || (weight[k] == 0);
    }
  }
  return samples;
}

/// Work types: float for floats of at most 32 bits; double for the rest.
template <typename T> using Work = std::conditional_t<std::is_same_v<Computed<T>, float>, float, double>;

/// Resizes axis `axis` of `x`, of shape `shape`.
template <typename W> std::vector<W> resizeAxis(const std::vector<W> &x, Shape &shape, size_t axis, const Samples &samples) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i)
    outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i)
    inner *= shape[i];
  const int64_t in = shape[axis], out = int64_t(samples.isOutside.size()), count = samples.count;
  std::vector<W> y(size_t(outer * out * inner));
  std::vector<W> weight(samples.weight.begin(), samples.weight.end());
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < out; ++i) {
      const int64_t *index = samples.index.data() + i * count;
      const W *w = weight.data() + i * count;
      const W *from = x.data() + o * in * inner;
      W *to = y.data() + (o * out + i) * inner;
      if (inner == 1) {
        W sum = 0;
        for (int64_t k = 0; k < count; ++k)
          sum += w[k] != 0 ? w[k] * from[index[k]] : 0;
        *to = sum;
        continue;
      }
      for (int64_t k = 0; k < count; ++k) {
        // An infinity of weight zero is none.
        if (w[k] == 0)
          continue;
        const W *row = from + index[k] * inner;
        for (int64_t j = 0; j < inner; ++j)
          to[j] += w[k] * row[j];
      }
    }
  shape[axis] = out;
  return y;
}

template <typename T> void interpolate(const HostTensor &x, HostTensor &y, const std::vector<Samples> &samples) {
  using W = Work<T>;
  std::vector<W> values(size_t(countOf(x)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = W(Computed<T>(data<T>(x)[i]));
  // Axes that shrink most go first.
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return double(y.shape[a]) * double(x.shape[b]) < double(y.shape[b]) * double(x.shape[a]);
  });
  Shape shape = x.shape;
  for (size_t axis : order)
    if (!samples[axis].isIdentity)
      values = resizeAxis(values, shape, axis, samples[axis]);
  for (size_t i = 0; i < values.size(); ++i)
    data<T>(y)[i] = fromReal<T>(double(values[i])); // a cubic may overshoot
}

/// Copies the nearest elements, of any type.
void copyNearest(const HostTensor &x, HostTensor &y, const std::vector<Samples> &samples) {
  if (y.shape.empty()) {
    copyElement(x, 0, y, 0);
    return;
  }
  const size_t last = y.shape.size() - 1;
  const Shape strides = stridesOf(x.shape);
  const int64_t *index = samples[last].index.data();
  const int64_t width = y.shape[last];
  const size_t size = frontend::elementBytes(x.type);
  int64_t to = 0, before = -1;
  forEachIndex(Shape(y.shape.begin(), y.shape.end() - 1), [&](const Shape &at) {
    int64_t from = 0;
    for (size_t i = 0; i < last; ++i)
      from += samples[i].index[size_t(at[i])] * strides[i];
    if (from == before)
      copyElements(y, to - width, y, to, width);
    else if (size == 4)
      for (int64_t i = 0; i < width; ++i)
        std::memcpy(y.bytes.data() + 4 * (to + i), x.bytes.data() + 4 * (from + index[i]), 4);
    else
      for (int64_t i = 0; i < width; ++i)
        copyElement(x, from + index[i], y, to + i);
    before = from;
    to += width;
  });
}

void resize(Call &call, const std::vector<Axis> &axes, const Settings &settings) {
  const HostTensor &x = call.input(0);
  Shape shape;
  for (const Axis &axis : axes) {
    if (axis.in == 0 && axis.out != 0)
      call.fail("an axis without elements cannot be resized to " + std::to_string(axis.out));
    shape.push_back(axis.out);
  }
  HostTensor &y = call.output(0, x.type, shape);
  if (countOf(y) == 0)
    return;
  std::vector<Samples> samples;
  bool hasOutside = false;
  for (const Axis &axis : axes) {
    samples.push_back(samplesOf(call, axis, settings));
    hasOutside |= samples.back().hasOutside;
  }
  if (settings.mode == Mode::Nearest) {
    copyNearest(x, y, samples);
  } else if (!visitNumber(x.type, [&](auto zero) { interpolate<decltype(zero)>(x, y, samples); })) {
    call.fail(std::string("elements of ") + frontend::elementName(x.type) + " cannot be interpolated; mode nearest takes them");
  }
  if (!hasOutside)
    return;
  int64_t i = 0;
  forEachIndex(shape, [&](const Shape &at) {
    for (size_t axis = 0; axis < at.size(); ++axis)
      if (samples[axis].isOutside[size_t(at[axis])]) {
        setReal(y, i, settings.extrapolation);
        break;
      }
    ++i;
  });
}

Mode modeOf(const Call &call) {
  const std::string mode = call.stringAttr("mode", "nearest");
  if (mode == "nearest")
    return Mode::Nearest;
  // Some exporters name the mode by the number of dims.
  if (mode == "linear" || mode == "bilinear" || mode == "trilinear")
    return Mode::Linear;
  if (mode == "cubic" && call.type() == "Resize" && call.opset() >= 11)
    return Mode::Cubic;
  call.fail("mode is \"" + mode + "\", expected nearest, linear or cubic");
}

Position positionOf(const Call &call) {
  const std::string text = call.stringAttr("coordinate_transformation_mode", "half_pixel");
  static const std::pair<const char *, Position> known[] = {{"half_pixel", Position::HalfPixel},
                                                            {"half_pixel_symmetric", Position::HalfPixelSymmetric},
                                                            {"pytorch_half_pixel", Position::PytorchHalfPixel},
                                                            {"align_corners", Position::AlignCorners},
                                                            {"asymmetric", Position::Asymmetric},
                                                            {"tf_half_pixel_for_nn", Position::TfHalfPixelForNearest},
                                                            {"tf_crop_and_resize", Position::TfCropAndResize}};
  for (const auto &[name, position] : known)
    if (text == name)
      return position;
  call.fail("coordinate_transformation_mode \"" + text + "\" is unknown");
}

Rounding roundingOf(const Call &call) {
  const std::string text = call.stringAttr("nearest_mode", "round_prefer_floor");
  if (text == "round_prefer_floor" || text.empty())
    return Rounding::PreferFloor;
  if (text == "round_prefer_ceil")
    return Rounding::PreferCeil;
  if (text == "floor")
    return Rounding::Floor;
  if (text == "ceil")
    return Rounding::Ceil;
  call.fail("nearest_mode is \"" + text + "\", expected round_prefer_floor, round_prefer_ceil, floor or ceil");
}

/// Sets scale and length, as ONNX's shape inference does: floor of a product of floats.
void setScale(const Call &call, Axis &axis, double scale, double share = 1) {
  if (!(scale > 0) || std::isinf(scale))
    call.fail("a scale is " + std::to_string(scale) + ", expected more than 0");
  axis.scale = scale;
  axis.length = double(axis.in) * scale * share;
  const float length = share == 1 ? float(axis.in) * float(scale) : float(axis.length);
  if (!(length < 2147483648.0f))
    call.fail("an axis of " + std::to_string(axis.in) + " elements cannot be scaled by " + std::to_string(scale));
  axis.out = std::max<int64_t>(0, int64_t(std::floor(length)));
}

std::vector<Axis> axesOf(const HostTensor &x) {
  std::vector<Axis> axes(x.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i].in = axes[i].out = x.shape[i];
    axes[i].length = double(x.shape[i]);
    axes[i].isRatio = true;
  }
  return axes;
}

/// Precondition: as many sizes as chosen axes.
void setSizes(const Call &call, std::vector<Axis> &axes, const std::vector<int64_t> &chosen,
              const std::vector<int64_t> &sizes) {
  const std::string policy = call.stringAttr("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && policy != "not_larger" && policy != "not_smaller")
    call.fail("keep_aspect_ratio_policy is \"" + policy + "\", expected stretch, not_larger or not_smaller");
  std::optional<double> common;
  for (size_t i = 0; i < chosen.size(); ++i) {
    Axis &axis = axes[size_t(chosen[i])];
    axis.out = sizes[i];
    if (axis.out < 0)
      call.fail("a size is " + std::to_string(axis.out) + ", expected no negative number");
    axis.length = double(axis.out);
    axis.scale = axis.in == 0 ? 1 : double(axis.out) / double(axis.in);
    if (!common)
      common = axis.scale;
    common = policy == "not_larger" ? std::min(*common, axis.scale) : std::max(*common, axis.scale);
  }
  if (policy == "stretch")
    return;
  for (int64_t i : chosen) {
    Axis &axis = axes[size_t(i)];
    axis.isRatio = false;
    axis.scale = *common;
    const double length = std::floor(*common * double(axis.in) + 0.5);
    if (!(length <= 2147483647.0))
      call.fail("an axis of " + std::to_string(axis.in) + " elements cannot be scaled by " + std::to_string(*common));
    axis.out = int64_t(length);
    axis.length = length;
  }
}

void evaluateResize(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t rank = int64_t(x.shape.size());
  Settings settings;
  settings.mode = modeOf(call);
  std::vector<Axis> axes = axesOf(x);
  auto given = [&](size_t i) { return call.has(i) && countOf(call.input(i)) != 0; };
  if (call.opset() < 11) {
    settings.rounding = Rounding::Simple;
    const HostTensor &scales = call.input(1);
    if (countOf(scales) != rank)
      call.fail("there are " + std::to_string(countOf(scales)) + " scales for rank " + std::to_string(rank));
    for (size_t i = 0; i < axes.size(); ++i) {
      axes[i].isRatio = false;
      setScale(call, axes[i], realAt(scales, int64_t(i)));
    }
    resize(call, axes, settings);
    return;
  }
  settings.position = positionOf(call);
  settings.rounding = roundingOf(call);
  settings.cubicA = double(call.floatAttr("cubic_coeff_a", -0.75f));
  settings.excludesOutside = call.flagAttr("exclude_outside", false);
  settings.isAntialiased = call.flagAttr("antialias", false);
  settings.extrapolation = double(call.floatAttr("extrapolation_value", 0.0f));

  std::vector<int64_t> chosen(static_cast<size_t>(rank));
  std::iota(chosen.begin(), chosen.end(), int64_t(0));
  if (call.hasAttr("axes")) {
    chosen = call.intsAttr("axes");
    for (int64_t &each : chosen)
      each = call.axis(each, rank);
    if (call.axes(chosen, rank).size() != chosen.size())
      call.fail("axes holds an axis twice");
    if (chosen.size() > size_t(rank))
      call.fail("there are more axes than the tensor has");
  }
  const bool isCropped = settings.position == Position::TfCropAndResize;
  if (isCropped) {
    if (!given(1))
      call.fail("tf_crop_and_resize needs a region of interest");
    const HostTensor &roi = call.input(1);
    if (countOf(roi) != 2 * int64_t(chosen.size()))
      call.fail("the region of interest has " + std::to_string(countOf(roi)) + " numbers for " + std::to_string(chosen.size()) +
                " axes");
    for (size_t i = 0; i < chosen.size(); ++i) {
      axes[size_t(chosen[i])].start = realAt(roi, int64_t(i));
      axes[size_t(chosen[i])].end = realAt(roi, int64_t(i + chosen.size()));
    }
  }
  if (given(2) == given(3))
    call.fail(given(2) ? "scales and sizes are given, expected one of them" : "neither scales nor sizes are given");
  const HostTensor &target = call.input(given(2) ? 2 : 3);
  if (countOf(target) != int64_t(chosen.size()))
    call.fail("there are " + std::to_string(countOf(target)) + (given(2) ? " scales" : " sizes") + " for " +
              std::to_string(chosen.size()) + " axes");
  if (given(3)) {
    setSizes(call, axes, chosen, integersOf(target));
  } else {
    for (size_t i = 0; i < chosen.size(); ++i) {
      Axis &axis = axes[size_t(chosen[i])];
      axis.isRatio = false;
      setScale(call, axis, realAt(target, int64_t(i)), isCropped ? axis.end - axis.start : 1);
    }
  }
  if (isCropped)
    for (Axis &axis : axes)
      axis.length = double(axis.out);
  resize(call, axes, settings);
}

void evaluateUpsample(Call &call) {
  const HostTensor &x = call.input(0);
  const int64_t rank = int64_t(x.shape.size());
  Settings settings;
  settings.mode = modeOf(call);
  std::vector<double> scales;
  if (call.opset() >= 9) {
    const HostTensor &given = call.input(1);
    for (int64_t i = 0; i < countOf(given); ++i)
      scales.push_back(realAt(given, i));
  } else if (call.opset() >= 7) {
    const std::vector<float> given = call.floatsAttr("scales");
    scales.assign(given.begin(), given.end());
  } else {
    scales = {1, 1, double(call.floatAttr("height_scale")), double(call.floatAttr("width_scale"))};
  }
  if (int64_t(scales.size()) != rank)
    call.fail("there are " + std::to_string(scales.size()) + " scales for rank " + std::to_string(rank));
  std::vector<Axis> axes = axesOf(x);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(scales[i] >= 1))
      call.fail("a scale is " + std::to_string(scales[i]) + ", expected at least 1");
    axes[i].isRatio = false;
    setScale(call, axes[i], scales[i]);
  }
  resize(call, axes, settings);
}

} // namespace

void operators::cubicWeights(double ratio, double a, double weights[4]) {
  for (int k = 0; k < 4; ++k)
    weights[k] = cubicAt(k - 1 - ratio, a);
}

void operators::addResize(Table &table) {
  table[":Resize"] = {evaluateResize, /*shapeInputs=*/{1, 2, 3}};
  table[":Upsample"] = {evaluateUpsample, /*shapeInputs=*/{1}};
}
