//===- Windows.cpp - Windows that slide over a tensor ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//
#include "compiler/operators/Windows.h"

using namespace tw;
using namespace tw::operators;

/// Keeps products of sizes far from overflow.
static constexpr int64_t kMostSize = int64_t(1) << 30;

Shape operators::spatialAttr(const Call &call, const char *name, size_t rank, int64_t fallback, int64_t least) {
  Shape values = call.intsAttr(name, Shape(rank, fallback));
  // An empty list is what some exporters write for the default.
  if (values.empty())
    values.assign(rank, fallback);
  if (values.size() != rank)
    call.fail(std::string(name) + " has " + std::to_string(values.size()) + " elements, expected " + std::to_string(rank));
  for (int64_t value : values)
    if (value < least || value > kMostSize)
      call.fail(std::string(name) + " is " + textOf(values) + ", expected elements of at least " + std::to_string(least));
  return values;
}

Shape operators::spatialOf(const Call &call, size_t input) {
  const HostTensor &x = call.input(input);
  requireRank(call, input, x, 3);
  return Shape(x.shape.begin() + 2, x.shape.end());
}

Shape operators::kernelOf(const Call &call, const Shape &spatial, const Shape *given) {
  if (!given && !call.hasAttr("kernel_shape"))
    call.fail("attribute kernel_shape is missing");
  const Shape kernel =
      given && !call.hasAttr("kernel_shape") ? *given : spatialAttr(call, "kernel_shape", spatial.size(), 1, 1);
  if (given && kernel != *given)
    call.fail("kernel_shape is " + textOf(kernel) + ", but the weights' is " + textOf(*given));
  if (kernel.size() != spatial.size())
    call.fail("the kernel " + textOf(kernel) + " has another rank than the input's spatial dims " + textOf(spatial));
  for (int64_t size : kernel)
    if (size < 1)
      call.fail("the kernel's dims are " + textOf(kernel) + ", expected at least 1");
  return kernel;
}

Windows operators::windowsOf(const Call &call, const Shape &spatial, const Shape &kernel, bool ceil) {
  const size_t rank = spatial.size();
  Windows windows;
  windows.input = spatial;
  windows.kernel = kernel;
  windows.strides = spatialAttr(call, "strides", rank, 1, 1);
  windows.dilations = spatialAttr(call, "dilations", rank, 1, 1);
  windows.before.assign(rank, 0);
  windows.after.assign(rank, 0);
  windows.output.assign(rank, 0);
  const std::string autoPad = call.stringAttr("auto_pad", "NOTSET");
  if (autoPad == "NOTSET" || autoPad.empty()) {
    const Shape pads = spatialAttr(call, "pads", 2 * rank, 0, 0);
    std::copy(pads.begin(), pads.begin() + int64_t(rank), windows.before.begin());
    std::copy(pads.begin() + int64_t(rank), pads.end(), windows.after.begin());
  } else if (autoPad != "SAME_UPPER" && autoPad != "SAME_LOWER" && autoPad != "VALID") {
    call.fail("auto_pad is \"" + autoPad + "\", expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  }
  for (size_t dim = 0; dim < rank; ++dim) {
    const int64_t stride = windows.strides[dim], reach = windows.reach(dim);
    if (autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER") {
      windows.output[dim] = (spatial[dim] + stride - 1) / stride;
      const int64_t padding = std::max<int64_t>(0, (windows.output[dim] - 1) * stride + reach - spatial[dim]);
      windows.before[dim] = autoPad == "SAME_UPPER" ? padding / 2 : padding - padding / 2;
      windows.after[dim] = padding - windows.before[dim];
      continue;
    }
    const int64_t room = spatial[dim] + windows.before[dim] + windows.after[dim] - reach;
    if (room < 0)
      call.fail("a window of " + std::to_string(reach) + " does not fit in the padded spatial dim " + std::to_string(dim) +
                " of " + std::to_string(room + reach));
    windows.output[dim] = (ceil ? room + stride - 1 : room) / stride + 1;
    if (ceil && (windows.output[dim] - 1) * stride >= spatial[dim] + windows.before[dim])
      --windows.output[dim];
  }
  return windows;
}
