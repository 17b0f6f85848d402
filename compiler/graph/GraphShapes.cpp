//===- GraphShapes.cpp - Result shapes of graph ops -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/graph/GraphShapes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include <algorithm>

namespace tw::graph {

using llvm::ArrayRef;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

/// Bounds every dim, so that no sum or product of two of them can overflow.
static constexpr int64_t kMaxElements = int64_t(1) << 40;

static llvm::Error error(const Twine &text) { return llvm::createStringError(llvm::inconvertibleErrorCode(), text); }

std::string formatShape(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, dim] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(dim);
  return text + "]";
}

std::optional<int64_t> countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : shape) {
    if (dim < 0 || dim > kMaxElements)
      return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (count > kMaxElements / dim)
      return std::nullopt;
    count *= dim;
  }
  return empty ? 0 : count;
}

Expected<Shape> broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t da = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t db = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (da != db && da != 1 && db != 1)
      return error("shapes " + formatShape(a) + " and " + formatShape(b) + " do not broadcast: dims " + Twine(da) + " and " +
                   Twine(db) + " differ and neither is 1");
    result[result.size() - 1 - i] = da == 1 ? db : da;
  }
  return result;
}

/// Checks one attribute of a window: its length and its smallest value.
static llvm::Error checkWindowAttr(StringRef name, ArrayRef<int64_t> values, size_t size, int64_t least) {
  if (values.size() != size)
    return error(name + " has " + Twine(values.size()) + " values, expected " + Twine(size));
  for (int64_t value : values)
    if (value < least || value > kMaxElements)
      return error(name + " is " + formatShape(values) + ", every value must be at least " + Twine(least) +
                   " and at most 2^40");
  return llvm::Error::success();
}

/// The spatial output dims of a window that moves over `input`.
static Expected<Shape> windowShape(ArrayRef<int64_t> input, ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides,
                                   ArrayRef<int64_t> pads, ArrayRef<int64_t> dilations) {
  size_t n = input.size();
  if (auto e = checkWindowAttr("kernel", kernel, n, 1))
    return std::move(e);
  if (auto e = checkWindowAttr("strides", strides, n, 1))
    return std::move(e);
  if (auto e = checkWindowAttr("pads", pads, 2 * n, 0))
    return std::move(e);
  if (auto e = checkWindowAttr("dilations", dilations, n, 1))
    return std::move(e);
  Shape result;
  for (size_t i = 0; i < n; ++i) {
    if (kernel[i] > 1 && dilations[i] > kMaxElements / kernel[i])
      return error("a kernel of " + Twine(kernel[i]) + " with dilation " + Twine(dilations[i]) + " is too large");
    int64_t extent = dilations[i] * (kernel[i] - 1) + 1;
    int64_t padded = input[i] + pads[i] + pads[n + i];
    if (extent > padded)
      return error("the window covers " + Twine(extent) + " positions, but the padded input has only " + Twine(padded));
    result.push_back((padded - extent) / strides[i] + 1);
  }
  return result;
}

static llvm::Error checkImage(ArrayRef<int64_t> x) {
  if (x.size() != 4)
    return error("input has shape " + formatShape(x) + ", expected rank 4");
  return llvm::Error::success();
}

static Shape imageShape(int64_t n, int64_t channels, ArrayRef<int64_t> spatial, StringRef layout) {
  if (layout == "nhwc")
    return Shape{n, spatial[0], spatial[1], channels};
  return Shape{n, channels, spatial[0], spatial[1]};
}

Expected<Shape> convShape(ArrayRef<int64_t> x, ArrayRef<int64_t> w, ArrayRef<int64_t> strides, ArrayRef<int64_t> pads,
                          ArrayRef<int64_t> dilations, int64_t group, StringRef layout) {
  if (auto e = checkImage(x))
    return std::move(e);
  if (w.size() != 4)
    return error("weights have shape " + formatShape(w) + ", expected rank 4");
  bool nhwc = layout == "nhwc";
  int64_t channels = nhwc ? x[3] : x[1];
  int64_t outputs = nhwc ? w[3] : w[0];
  int64_t groupChannels = nhwc ? w[2] : w[1];
  if (group < 1 || channels % group || outputs % group)
    return error("group is " + Twine(group) + ", it must divide " + Twine(channels) + " input and " + Twine(outputs) +
                 " output channels");
  if (groupChannels != channels / group)
    return error("weights of shape " + formatShape(w) + " take " + Twine(groupChannels) + " channels per group, the input " +
                 formatShape(x) + " has " + Twine(channels / group));
  Shape spatial = nhwc ? Shape{x[1], x[2]} : Shape{x[2], x[3]};
  Shape kernel = nhwc ? Shape{w[0], w[1]} : Shape{w[2], w[3]};
  auto result = windowShape(spatial, kernel, strides, pads, dilations);
  if (!result)
    return result.takeError();
  return imageShape(x[0], outputs, *result, layout);
}

Expected<Shape> poolShape(ArrayRef<int64_t> x, ArrayRef<int64_t> kernel, ArrayRef<int64_t> strides, ArrayRef<int64_t> pads,
                          ArrayRef<int64_t> dilations, StringRef layout) {
  if (auto e = checkImage(x))
    return std::move(e);
  bool nhwc = layout == "nhwc";
  auto result = windowShape(nhwc ? Shape{x[1], x[2]} : Shape{x[2], x[3]}, kernel, strides, pads, dilations);
  if (!result)
    return result.takeError();
  return imageShape(x[0], nhwc ? x[3] : x[1], *result, layout);
}

Expected<Shape> matmulShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.empty() || b.empty())
    return error("operands have shapes " + formatShape(a) + " and " + formatShape(b) + ", expected at least rank 1");
  int64_t ka = a.back();
  int64_t kb = b.size() == 1 ? b[0] : b[b.size() - 2];
  if (ka != kb)
    return error("shapes " + formatShape(a) + " and " + formatShape(b) + " do not multiply: " + Twine(ka) +
                 " columns against " + Twine(kb) + " rows");
  auto result =
      broadcastShapes(a.size() > 2 ? a.drop_back(2) : ArrayRef<int64_t>(), b.size() > 2 ? b.drop_back(2) : ArrayRef<int64_t>());
  if (!result)
    return result.takeError();
  if (a.size() > 1)
    result->push_back(a[a.size() - 2]);
  if (b.size() > 1)
    result->push_back(b.back());
  return result;
}

Expected<Shape> concatShape(ArrayRef<Shape> inputs, int64_t axis) {
  if (inputs.empty())
    return error("found no inputs, expected at least one");
  Shape result = inputs.front();
  if (axis < 0 || axis >= int64_t(result.size()))
    return error("axis is " + Twine(axis) + ", expected 0 to rank - 1 of " + formatShape(result));
  for (const Shape &input : inputs.drop_front()) {
    bool fits = input.size() == result.size();
    for (size_t i = 0; fits && i < result.size(); ++i)
      fits = int64_t(i) == axis || input[i] == result[i];
    if (!fits)
      return error("inputs of shapes " + formatShape(inputs.front()) + " and " + formatShape(input) +
                   " differ in more than dim " + Twine(axis));
    result[axis] += input[axis];
  }
  return result;
}

Expected<Shape> transposeShape(ArrayRef<int64_t> x, ArrayRef<int64_t> perm) {
  Shape sorted(perm.begin(), perm.end());
  llvm::sort(sorted);
  bool valid = perm.size() == x.size();
  for (size_t i = 0; valid && i < sorted.size(); ++i)
    valid = sorted[i] == int64_t(i);
  if (!valid)
    return error("perm is " + formatShape(perm) + ", expected a permutation of the dims of " + formatShape(x));
  Shape result;
  for (int64_t dim : perm)
    result.push_back(x[dim]);
  return result;
}

Expected<Shape> reduceShape(ArrayRef<int64_t> x, ArrayRef<int64_t> axes, bool keepdims) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= int64_t(x.size()) || (i && axes[i] <= axes[i - 1]))
      return error("axes are " + formatShape(axes) + ", expected ascending dims of " + formatShape(x));
  Shape result;
  for (size_t i = 0; i < x.size(); ++i) {
    bool reduced = llvm::is_contained(axes, int64_t(i));
    if (!reduced)
      result.push_back(x[i]);
    else if (keepdims)
      result.push_back(1);
  }
  return result;
}

Expected<Shape> padShape(ArrayRef<int64_t> x, ArrayRef<int64_t> low, ArrayRef<int64_t> high) {
  if (auto e = checkWindowAttr("low", low, x.size(), 0))
    return std::move(e);
  if (auto e = checkWindowAttr("high", high, x.size(), 0))
    return std::move(e);
  Shape result;
  for (size_t i = 0; i < x.size(); ++i)
    result.push_back(x[i] + low[i] + high[i]);
  return result;
}

} // namespace tw::graph
