//===- Images.cpp - Regions, boxes and columns of images ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Images.h"
#include "compiler/operators/Elements.h"
#include "compiler/operators/Operator.h"

#include <limits>

using namespace tw;
using namespace tw::operators;

/// Samples of all results of one operator, and of one result, at most.
static constexpr double kMostSamples = 1073741824.0, kMostGrid = 1048576.0;

namespace {

void requireRank(const Call &call, size_t input, size_t rank) {
  if (call.input(input).shape.size() != rank)
    call.fail("input " + std::to_string(input) + " has shape " + textOf(call.input(input).shape) + ", expected rank " +
              std::to_string(rank));
}

//===----------------------------------------------------------------------===//
// RoiAlign, MaxRoiPool
//===----------------------------------------------------------------------===//

/// The four pixels around a place, and their weights; none where it lies outside.
struct Corners {
  int64_t at[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
};

/// One axis: the two pixels around `place`. False outside.
bool around(double place, int64_t size, int64_t &low, int64_t &high, double &ratio) {
  if (!(place >= -1) || place > double(size))
    return false;
  place = std::max(place, 0.0);
  low = int64_t(place);
  if (low >= size - 1) {
    low = high = size - 1;
    ratio = 0;
  } else {
    high = low + 1;
    ratio = place - double(low);
  }
  return true;
}

Corners cornersOf(double y, double x, int64_t height, int64_t width) {
  Corners corners;
  int64_t top, bottom, left, right;
  double down, across;
  if (!around(y, height, top, bottom, down) || !around(x, width, left, right, across))
    return corners;
  const int64_t at[4] = {top * width + left, top * width + right, bottom * width + left, bottom * width + right};
  const double weight[4] = {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across};
  std::copy_n(at, 4, corners.at);
  std::copy_n(weight, 4, corners.weight);
  return corners;
}

// source: ONNX, operator RoiAlign
void evaluateRoiAlign(Call &call) {
  const HostTensor &x = call.input(0), &rois = call.input(1);
  requireRank(call, 0, 4);
  requireRank(call, 1, 2);
  requireRank(call, 2, 1);
  if (rois.shape[1] != 4)
    call.fail("regions have " + std::to_string(rois.shape[1]) + " numbers, expected 4");
  const std::vector<int64_t> batches = call.ints(2);
  const int64_t count = rois.shape[0], channels = x.shape[1], height = x.shape[2], width = x.shape[3];
  if (int64_t(batches.size()) != count)
    call.fail("there are " + std::to_string(count) + " regions and " + std::to_string(batches.size()) + " batch indices");
  const std::string mode = call.stringAttr("mode", "avg");
  if (mode != "avg" && mode != "max")
    call.fail("mode is \"" + mode + "\", expected avg or max");
  const std::string position =
      call.opset() >= 16 ? call.stringAttr("coordinate_transformation_mode", "half_pixel") : "output_half_pixel";
  if (position != "half_pixel" && position != "output_half_pixel")
    call.fail("coordinate_transformation_mode is \"" + position + "\", expected half_pixel or output_half_pixel");
  const bool isHalf = position == "half_pixel", isMax = mode == "max";
  const int64_t rows = call.intAttr("output_height", 1), columns = call.intAttr("output_width", 1);
  const int64_t ratio = call.intAttr("sampling_ratio", 0);
  const double scale = double(call.floatAttr("spatial_scale", 1.0f)), offset = isHalf ? 0.5 : 0;
  if (ratio < 0)
    call.fail("sampling_ratio is " + std::to_string(ratio));
  HostTensor &y = call.output(0, x.type, {count, channels, rows, columns});
  if (countOf(y) == 0)
    return;
  if (countOf(x) == 0)
    call.fail("the image has no pixels");
  double samples = 0;
  const bool isKnown = visitFloat(x.type, [&](auto zero) {
    using T = decltype(zero);
    std::vector<Corners> corners;
    for (int64_t r = 0; r < count; ++r) {
      const int64_t batch = batches[size_t(r)];
      if (batch < 0 || batch >= x.shape[0])
        call.fail("batch index " + std::to_string(batch) + " is not in [0, " + std::to_string(x.shape[0]) + ")");
      const double left = realAt(rois, 4 * r) * scale - offset, top = realAt(rois, 4 * r + 1) * scale - offset;
      double across = realAt(rois, 4 * r + 2) * scale - offset - left, down = realAt(rois, 4 * r + 3) * scale - offset - top;
      if (!isHalf) {
        across = std::max(across, 1.0);
        down = std::max(down, 1.0);
      }
      const double cellHeight = down / double(rows), cellWidth = across / double(columns);
      const double gridRows = ratio > 0 ? double(ratio) : std::ceil(cellHeight);
      const double gridColumns = ratio > 0 ? double(ratio) : std::ceil(cellWidth);
      if (gridRows > 0 && gridColumns > 0)
        samples += gridRows * gridColumns * double(channels * rows * columns);
      if (!(std::fabs(cellHeight) < 1e15) || !(std::fabs(cellWidth) < 1e15) || !(samples <= kMostSamples) ||
          (gridRows > 0 && gridColumns > 0 && gridRows * gridColumns > kMostGrid))
        call.fail("regions are too large: at most 2^20 samples are taken for a result, and 2^30 for all");
      const int64_t most = std::max<int64_t>(0, int64_t(gridRows)), mostAcross = std::max<int64_t>(0, int64_t(gridColumns));
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < columns; ++j) {
          corners.clear();
          for (int64_t a = 0; a < most; ++a)
            for (int64_t b = 0; b < mostAcross; ++b)
              corners.push_back(cornersOf(top + (double(i) + (double(a) + 0.5) / gridRows) * cellHeight,
                                          left + (double(j) + (double(b) + 0.5) / gridColumns) * cellWidth, height, width));
          for (int64_t c = 0; c < channels; ++c) {
            const T *plane = data<T>(x) + (batch * channels + c) * height * width;
            double sum = 0, largest = 0;
            bool isFirst = true;
            for (const Corners &corner : corners) {
              double parts[4];
              for (int k = 0; k < 4; ++k)
                parts[k] = corner.weight[k] * double(plane[corner.at[k]]);
              sum += parts[0] + parts[1] + parts[2] + parts[3];
              // The largest of what the four pixels add, as ONNX has it.
              const double best = std::max(std::max(parts[0], parts[1]), std::max(parts[2], parts[3]));
              largest = isFirst ? best : std::max(largest, best);
              isFirst = false;
            }
            const double value = isMax ? largest : sum / std::max(double(corners.size()), 1.0);
            data<T>(y)[(r * channels + c) * rows * columns + i * columns + j] = T(value);
          }
        }
    }
  });
  if (!isKnown)
    call.fail(std::string("it takes floats, not ") + frontend::elementName(x.type));
}

// source: ONNX, operator MaxRoiPool
void evaluateMaxRoiPool(Call &call) {
  const HostTensor &x = call.input(0), &rois = call.input(1);
  requireRank(call, 0, 4);
  requireRank(call, 1, 2);
  if (rois.shape[1] != 5)
    call.fail("regions have " + std::to_string(rois.shape[1]) + " numbers, expected 5");
  const std::vector<int64_t> pooled = call.intsAttr("pooled_shape");
  if (pooled.size() != 2 || pooled[0] <= 0 || pooled[1] <= 0)
    call.fail("pooled_shape is " + textOf(pooled) + ", expected two sizes of at least 1");
  const double scale = double(call.floatAttr("spatial_scale", 1.0f));
  const int64_t channels = x.shape[1], size[2] = {x.shape[2], x.shape[3]};
  HostTensor &y = call.output(0, x.type, {rois.shape[0], channels, pooled[0], pooled[1]});
  auto pool = [&](auto zero) {
    using T = decltype(zero);
    T *to = data<T>(y);
    for (int64_t r = 0; r < rois.shape[0]; ++r) {
      const double batch = realAt(rois, 5 * r);
      if (!(batch >= 0 && batch < double(x.shape[0])))
        call.fail("batch index " + std::to_string(batch) + " is not in [0, " + std::to_string(x.shape[0]) + ")");
      // [axis]: rows, then columns.
      double start[2], cell[2];
      for (int axis = 0; axis < 2; ++axis) {
        start[axis] = std::round(realAt(rois, 5 * r + 2 - axis) * scale);
        const double end = std::round(realAt(rois, 5 * r + 4 - axis) * scale);
        if (!(std::fabs(start[axis]) < 1e15 && std::fabs(end) < 1e15))
          call.fail("a region has no finite corners");
        cell[axis] = std::max(end - start[axis] + 1, 1.0) / double(pooled[size_t(axis)]);
      }
      auto range = [&](int axis, int64_t i) {
        const double most = double(size[axis]);
        return std::pair(int64_t(std::clamp(std::floor(double(i) * cell[axis]) + start[axis], 0.0, most)),
                         int64_t(std::clamp(std::ceil(double(i + 1) * cell[axis]) + start[axis], 0.0, most)));
      };
      for (int64_t c = 0; c < channels; ++c) {
        const T *plane = data<T>(x) + (int64_t(batch) * channels + c) * size[0] * size[1];
        for (int64_t i = 0; i < pooled[0]; ++i)
          for (int64_t j = 0; j < pooled[1]; ++j) {
            const auto [top, bottom] = range(0, i);
            const auto [left, right] = range(1, j);
            std::optional<Computed<T>> largest;
            for (int64_t h = top; h < bottom; ++h)
              for (int64_t w = left; w < right; ++w) {
                const Computed<T> value = plane[h * size[1] + w];
                largest = largest ? std::max(*largest, value) : value;
              }
            *to++ = largest ? T(*largest) : T(0);
          }
      }
    }
  };
  if (!visitFloat(x.type, pool))
    call.fail(std::string("it takes floats, not ") + frontend::elementName(x.type));
}

//===----------------------------------------------------------------------===//
// NonMaxSuppression
//===----------------------------------------------------------------------===//

/// Corners in order. In float, as thresholds are given.
struct Box {
  float top, left, bottom, right;
  float area() const { return (bottom - top) * (right - left); }
};

float overlap(const Box &a, const Box &b) {
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  if (!(height > 0) || !(width > 0))
    return 0;
  const float both = height * width, all = a.area() + b.area() - both;
  return all > 0 ? both / all : 0;
}

// source: ONNX, operator NonMaxSuppression
void evaluateNonMaxSuppression(Call &call) {
  const HostTensor &boxes = call.input(0), &scores = call.input(1);
  requireRank(call, 0, 3);
  requireRank(call, 1, 3);
  const int64_t batches = boxes.shape[0], count = boxes.shape[1], classes = scores.shape[1];
  if (boxes.shape[2] != 4 || scores.shape[0] != batches || scores.shape[2] != count)
    call.fail("boxes have shape " + textOf(boxes.shape) + " and scores " + textOf(scores.shape) +
              ", expected [batches, boxes, 4] and [batches, classes, boxes]");
  const int64_t most = call.has(2) ? call.intScalar(2) : 0;
  const float limit = call.has(3) ? float(call.realScalar(3)) : 0;
  if (!(limit >= 0 && limit <= 1))
    call.fail("iou_threshold is " + std::to_string(limit) + ", expected 0 to 1");
  const bool hasLeast = call.has(4);
  const float least = hasLeast ? float(call.realScalar(4)) : 0;
  const bool isCenter = call.flagAttr("center_point_box", false);
  std::vector<int64_t> selected;
  std::vector<Box> all(static_cast<size_t>(count));
  std::vector<float> score(static_cast<size_t>(count));
  for (int64_t batch = 0; batch < batches; ++batch) {
    for (int64_t i = 0; i < count; ++i) {
      float number[4];
      for (int64_t k = 0; k < 4; ++k)
        number[k] = float(realAt(boxes, (batch * count + i) * 4 + k));
      // Centre: x, y, width, height; else two opposite corners: y, x, y, x.
      all[size_t(i)] = isCenter ? Box{number[1] - number[3] / 2, number[0] - number[2] / 2, number[1] + number[3] / 2,
                                      number[0] + number[2] / 2}
                                : Box{std::min(number[0], number[2]), std::min(number[1], number[3]),
                                      std::max(number[0], number[2]), std::max(number[1], number[3])};
    }
    for (int64_t c = 0; c < classes; ++c) {
      std::vector<int64_t> order;
      for (int64_t i = 0; i < count; ++i) {
        score[size_t(i)] = float(realAt(scores, (batch * classes + c) * count + i));
        // NaN is no score.
        if (hasLeast ? score[size_t(i)] > least : score[size_t(i)] == score[size_t(i)])
          order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return score[size_t(a)] > score[size_t(b)]; });
      std::vector<int64_t> kept;
      for (int64_t i : order) {
        if (int64_t(kept.size()) >= most)
          break;
        if (std::any_of(kept.begin(), kept.end(),
                        [&](int64_t other) { return overlap(all[size_t(i)], all[size_t(other)]) > limit; }))
          continue;
        kept.push_back(i);
        selected.insert(selected.end(), {batch, c, i});
      }
    }
  }
  HostTensor &y = call.output(0, ElementKind::I64, {int64_t(selected.size() / 3), 3});
  std::copy(selected.begin(), selected.end(), data<int64_t>(y));
}

//===----------------------------------------------------------------------===//
// Col2Im
//===----------------------------------------------------------------------===//

// source: ONNX, operator Col2Im
void evaluateCol2Im(Call &call) {
  const HostTensor &x = call.input(0);
  requireRank(call, 0, 3);
  const std::vector<int64_t> image = call.ints(1), block = call.ints(2);
  const size_t rank = image.size();
  if (rank == 0 || block.size() != rank)
    call.fail("image_shape has " + std::to_string(rank) + " dims and block_shape " + std::to_string(block.size()));
  const std::vector<int64_t> dilations = call.intsAttr("dilations", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> strides = call.intsAttr("strides", std::vector<int64_t>(rank, 1));
  const std::vector<int64_t> pads = call.intsAttr("pads", std::vector<int64_t>(2 * rank, 0));
  if (dilations.size() != rank || strides.size() != rank || pads.size() != 2 * rank)
    call.fail("dilations, strides and pads do not fit an image of " + std::to_string(rank) + " dims");
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  Shape places;
  double columns = 1, blockSize = 1;
  for (size_t i = 0; i < rank; ++i) {
    if (image[i] < 1 || block[i] < 1 || dilations[i] < 1 || strides[i] < 1 || pads[i] < 0 || pads[rank + i] < 0 ||
        image[i] > kMost || block[i] > kMost || dilations[i] > kMost || strides[i] > kMost || pads[i] > kMost ||
        pads[rank + i] > kMost)
      call.fail("image_shape, block_shape, dilations and strides must be 1 to 2^31 - 1, and pads no negative numbers");
    const int64_t room = image[i] + pads[i] + pads[rank + i] - (dilations[i] * (block[i] - 1) + 1);
    if (room < 0)
      call.fail("a block is larger than the padded image along axis " + std::to_string(i));
    places.push_back(room / strides[i] + 1);
    columns *= double(places.back());
    blockSize *= double(block[i]);
  }
  if (columns != double(x.shape[2]) || blockSize > double(kMost) || x.shape[1] % int64_t(blockSize) != 0)
    call.fail("input has shape " + textOf(x.shape) + ", expected [batches, channels * " + textOf(block) + ", product of " +
              textOf(places) + "]");
  const int64_t channels = x.shape[1] / int64_t(blockSize);
  Shape shape = {x.shape[0], channels};
  shape.insert(shape.end(), image.begin(), image.end());
  HostTensor &y = call.output(0, x.type, shape);
  const Shape imageStrides = stridesOf(image);
  const int64_t pixels = countOf(image);
  auto add = [&](auto zero) {
    using T = decltype(zero);
    std::vector<Computed<T>> sums(size_t(countOf(y)));
    const T *from = data<T>(x);
    for (int64_t plane = 0; plane < x.shape[0] * channels; ++plane)
      forEachIndex(block, [&](const Shape &tap) {
        forEachIndex(places, [&](const Shape &place) {
          int64_t at = 0;
          bool isInside = true;
          for (size_t i = 0; i < rank; ++i) {
            const int64_t position = place[i] * strides[i] + tap[i] * dilations[i] - pads[i];
            isInside &= position >= 0 && position < image[i];
            at += position * imageStrides[i];
          }
          const Computed<T> value = *from++;
          if (!isInside)
            return;
          Computed<T> &sum = sums[size_t(plane * pixels + at)];
          if constexpr (std::is_integral_v<T>)
            sum = T(std::make_unsigned_t<T>(sum) + std::make_unsigned_t<T>(value));
          else
            sum += value;
        });
      });
    std::copy(sums.begin(), sums.end(), data<T>(y));
  };
  if (!visitNumber(x.type, add))
    call.fail(std::string("it takes numbers, not ") + frontend::elementName(x.type));
}

} // namespace

void operators::addImages(Table &table) {
  addResize(table);
  addSampling(table);
  addImageDecoder(table);
  table[":RoiAlign"] = {evaluateRoiAlign, {}};
  table[":MaxRoiPool"] = {evaluateMaxRoiPool, {}};
  table[":NonMaxSuppression"] = {evaluateNonMaxSuppression, {}, /*isDynamic=*/true};
  table[":Col2Im"] = {evaluateCol2Im, /*shapeInputs=*/{1, 2}};
}
