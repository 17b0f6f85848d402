//===- Work.cpp - What a kernel asks of each engine at least ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include <algorithm>

using namespace tw;
using namespace tw::accel;

cost::LayerWork accel::workOf(const Kernel &kernel, const timing::MachineParams &machine) {
  cost::LayerWork work;
  int64_t positions = kernel.extent[P0] * kernel.extent[P1] * kernel.extent[P2];
  int64_t elements = positions * kernel.extent[C];
  for (const KernelTensor &tensor : kernel.tensors)
    if (tensor.role == KernelTensor::Constant)
      work.constantBytes += uint64_t(tensor.elements) * byteSize(tensor.type);
  // Every result passes the vector engine once: one vector of lanes a cycle.
  if (kernel.copies.empty())
    work.vectorCycles = uint64_t(ceilDiv(elements, machine.lanes));
  if (kernel.anchor && kernel.anchor->windowOp == isa::WindowOp::Mac) {
    // Depthwise: 3 MACs per lane and cycle on the vector engine at best, or one pass per channel group through the array.
    int64_t taps = kernel.anchor->axes[0].kernel * kernel.anchor->axes[1].kernel;
    int64_t perOutput = ceilDiv(taps, 3);
    work.windowVectorCycles = work.vectorCycles * uint64_t(perOutput - 1);
    work.windowArrayCycles = uint64_t(ceilDiv(elements, int64_t(machine.rows) * machine.cols));
  }
  if (!kernel.anchor || kernel.anchor->kind != Anchor::Contraction)
    return work;
  const Anchor &a = *kernel.anchor;
  // In-bounds taps of each position: those that fall into the padding may be skipped.
  auto inBounds = [](const WindowAxis &axis) {
    std::vector<int64_t> taps(size_t(axis.size), 0);
    for (int64_t o = 0; o < axis.size; ++o)
      for (int64_t k = 0; k < axis.kernel; ++k) {
        int64_t i = o * axis.stride + k * axis.dilation - axis.padLow;
        taps[size_t(o)] += i >= 0 && i < axis.inputSize;
      }
    return taps;
  };
  std::vector<int64_t> w = inBounds(a.axes[0]), h = inBounds(a.axes[1]);
  int64_t pairs = 0, byRows = 0;
  for (int64_t y : h)
    for (int64_t x : w) {
      pairs += x * y * a.ic;
      byRows += ceilDiv(x * y * a.ic, machine.rows);
    }
  pairs *= a.axes[2].size;
  byRows *= a.axes[2].size;
  // source: SCHEDULING 1.4 restated in docs/bounds.md: rows pairs (position, k) enter and cols pairs (position, n) accumulate
  // in a cycle, whatever the packing.
  int64_t stream = std::max(ceilDiv(pairs * ceilDiv(a.oc, machine.cols), machine.rows), ceilDiv(a.oc * byRows, machine.cols));
  work.arrayCycles = uint64_t(a.groups * stream);
  int64_t taps = a.axes[0].kernel * a.axes[1].kernel;
  work.preloadCycles = uint64_t(ceilDiv(a.groups * taps * a.ic * a.oc, int64_t(machine.cols) * machine.preloadRowsPerCycle));
  return work;
}

uint64_t accel::touchedBytes(const Kernel &kernel, int tensor) {
  const KernelTensor &t = kernel.tensors[tensor];
  if (t.role == KernelTensor::Result)
    return uint64_t(t.elements) * byteSize(t.type);
  int64_t most = 0;
  auto use = [&](int64_t elements) { most = std::max(most, std::min(elements, t.elements)); };
  if (kernel.anchor && kernel.anchor->input.tensor == tensor) {
    const Anchor &a = *kernel.anchor;
    int64_t elements = a.kind == Anchor::Contraction ? a.ic * a.groups : kernel.extent[C];
    for (unsigned axis = P0; axis < kAxes; ++axis) {
      const WindowAxis &window = a.axes[axis - P0];
      if (!a.input.stride[axis])
        continue;
      std::vector<bool> read(size_t(window.inputSize), false);
      for (int64_t o = 0; o < window.size; ++o)
        for (int64_t k = 0; k < window.kernel; ++k)
          if (int64_t i = o * window.stride + k * window.dilation - window.padLow; i >= 0 && i < window.inputSize)
            read[size_t(i)] = true;
      elements *= std::count(read.begin(), read.end(), true);
    }
    use(elements);
  }
  if (kernel.anchor && kernel.anchor->kind == Anchor::Contraction && kernel.anchor->weights == tensor) {
    const Anchor &a = *kernel.anchor;
    use(a.groups * a.ic * a.oc * (a.batchAxis ? kernel.extent[*a.batchAxis] : 1));
  }
  for (const Step &step : kernel.steps)
    for (const Source &source : step.sources) {
      if (source.kind != Source::Tensor || source.view.tensor != tensor)
        continue;
      int64_t elements = 1;
      for (unsigned axis = 0; axis < kAxes; ++axis)
        if (source.view.stride[axis])
          elements *= kernel.extent[axis];
      use(elements);
    }
  for (const Copy &copy : kernel.copies) {
    if (copy.from.tensor != tensor)
      continue;
    int64_t elements = 1;
    for (size_t i = 0; i < copy.shape.size(); ++i)
      if (copy.fromStride[i])
        elements *= std::max<int64_t>(copy.shape[i] - copy.padLow[i] - copy.padHigh[i], 0);
    use(elements);
  }
  return uint64_t(most) * byteSize(t.type);
}
