//===- Work.cpp - What a kernel asks of each engine at least ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

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
  int64_t stream = std::max(ceilDiv(pairs * ceilDiv(a.oc, machine.cols), machine.rows),
                            ceilDiv(a.oc * byRows, machine.cols));
  work.arrayCycles = uint64_t(a.groups * stream);
  int64_t taps = a.axes[0].kernel * a.axes[1].kernel;
  work.preloadCycles =
      uint64_t(ceilDiv(a.groups * taps * a.ic * a.oc, int64_t(machine.cols) * machine.preloadRowsPerCycle));
  return work;
}
