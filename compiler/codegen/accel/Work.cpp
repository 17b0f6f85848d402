//===- Work.cpp - What a kernel asks of each engine at least ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/accel/Emitter.h"

#include <algorithm>

using namespace tw;
using namespace tw::accel;

namespace {
cost::PositionAxis axisOf(const WindowAxis &axis, bool broadcast) {
  cost::PositionAxis result;
  result.size = axis.size;
  result.kernel = axis.kernel;
  result.stride = axis.stride;
  result.dilation = axis.dilation;
  result.padLow = axis.padLow;
  result.inputSize = axis.inputSize;
  result.broadcast = broadcast;
  return result;
}

/// Whether two coordinates of a strided walk may be one element.
bool overlaps(std::vector<std::pair<int64_t, int64_t>> strideAndExtent) {
  std::sort(strideAndExtent.begin(), strideAndExtent.end());
  int64_t reach = 0;
  for (auto [stride, extent] : strideAndExtent) {
    if (extent == 1)
      continue;
    if (stride <= reach)
      return true;
    reach += stride * (extent - 1);
  }
  return false;
}

/// Elements that a strided walk touches at least.
int64_t distinct(const std::vector<std::pair<int64_t, int64_t>> &strideAndExtent) {
  std::vector<std::pair<int64_t, int64_t>> moving;
  int64_t all = 1, largest = 1;
  for (auto [stride, extent] : strideAndExtent) {
    if (extent == 0)
      return 0;
    if (stride == 0)
      continue;
    moving.push_back({stride, extent});
    all *= extent;
    largest = std::max(largest, extent);
  }
  return overlaps(std::move(moving)) ? largest : all;
}

/// The contraction, or the depthwise window as one with a group for each channel.
cost::Contraction contractionOf(const Kernel &kernel) {
  const Anchor &a = *kernel.anchor;
  bool depthwise = a.kind == Anchor::Window;
  cost::Contraction c;
  std::vector<std::pair<int64_t, int64_t>> walk;
  for (unsigned axis = P0; axis < kAxes; ++axis) {
    c.axes[axis - P0] = axisOf(depthwise && axis == P0 ? a.row() : kernel.positions(axis), a.input.stride[axis] == 0);
    if (a.input.stride[axis])
      walk.push_back({a.input.stride[axis], a.axes[axis - P0].inputSize});
  }
  if (a.batchAxis)
    c.batchAxis = int(*a.batchAxis - P0);
  c.groups = uint64_t(depthwise ? kernel.extent[C] / a.pixels.count : a.groups);
  c.ic = uint64_t(depthwise ? 1 : a.ic);
  c.oc = uint64_t(depthwise ? 1 : a.oc);
  c.inputBytes = byteSize(a.inputType);
  c.weightBytes = byteSize(a.weightType);
  walk.push_back({a.input.stride[C], depthwise ? kernel.extent[C] : a.ic});
  if (!depthwise)
    walk.push_back({a.inputGroup, a.groups});
  c.inputOverlaps = overlaps(std::move(walk));
  return c;
}

/// Vector engine cycles that a depthwise window takes at least: three products per lane and cycle; and the registers
/// that reuse inputs do so along a row only, so that every (row, row of taps) reads its input columns anew, or along a column only.
uint64_t windowCycles(const cost::Contraction &c, uint64_t lanes) {
  uint64_t threes = 0;
  std::array<cost::Histogram, 3> taps;
  for (size_t i = 0; i < 3; ++i)
    taps[i] = cost::tapsOfOutputs(c.axes[i]);
  for (auto [x, columns] : taps[0])
    for (auto [y, lines] : taps[1])
      threes += cost::ceilDiv(x * y, 3) * columns * lines * uint64_t(c.axes[2].size);
  // New taps per output, where the padding takes none away.
  auto reads = [&](unsigned along, unsigned across) -> uint64_t {
    const auto &axis = c.axes[along];
    const uint64_t taken = uint64_t(std::min(axis.stride, axis.kernel)), size = uint64_t(axis.size);
    if (axis.dilation != 1 || taps[along].empty() || taps[along].begin()->first < taken ||
        cost::inputsUsed(axis) < taken * size)
      return 0;
    uint64_t lines = 0;
    for (auto [tapsAcross, outputs] : taps[across])
      lines += tapsAcross * outputs * uint64_t(c.axes[2].size);
    return lines * taken * size;
  };
  return cost::ceilDiv(c.groups * std::max(threes, std::min(reads(0, 1), reads(1, 0))), lanes);
}

/// How outputs hang on inputs; inputs.front() is the anchor's own, or the first of an elementwise kernel.
cost::Dependence dependenceOf(const Kernel &kernel) {
  using cost::Dependence;
  if (!kernel.copies.empty())
    return Dependence::None;
  if (!kernel.anchor) {
    if (kernel.steps.size() != 1 || kernel.steps[0].reducesChannels)
      return Dependence::None;
    for (const Source &source : kernel.steps[0].sources)
      if (source.kind == Source::Tensor && kernel.extent[C] > 1 && source.view.stride[C] != 1)
        return Dependence::None;
    return Dependence::Elementwise;
  }
  if (kernel.maxima)
    return Dependence::None;
  const Anchor &a = *kernel.anchor;
  for (const WindowAxis &axis : a.axes) {
    for (int64_t o = 0; o < axis.size; ++o) { // an output of padding alone hangs on nothing
      int64_t first = o * axis.stride - axis.padLow, last = first + (axis.kernel - 1) * axis.dilation;
      if (axis.dilation == 1 ? last < 0 || first >= axis.inputSize : first < 0 || last >= axis.inputSize)
        return Dependence::None;
    }
  }
  if (a.kind == Anchor::Contraction)
    return a.groups > 1 || a.batchAxis ? Dependence::None : Dependence::Channels;
  if (a.input.stride[C] != 1 && kernel.extent[C] > 1)
    return Dependence::None;
  return Dependence::Window;
}

/// How a view walks all of an input, each element once; nothing if it does not.
std::optional<cost::Grid> inputGrid(const KernelTensor &tensor, const View &view, int64_t channels,
                                    const std::array<int64_t, 3> &size) {
  cost::Grid grid;
  grid.size = size;
  grid.channels = channels;
  std::vector<std::pair<int64_t, int64_t>> walk{{1, channels}};
  int64_t elements = channels;
  for (size_t a = 0; a < 3; ++a) {
    grid.stride[a] = view.stride[P0 + a];
    walk.push_back({grid.stride[a], size[a]});
    elements *= size[a];
  }
  if (view.offset || (channels > 1 && view.stride[C] != 1) || elements != tensor.elements || overlaps(std::move(walk)))
    return std::nullopt;
  return grid;
}

/// Where the results lie, if their channels are side by side.
std::optional<cost::Grid> outputGrid(const Kernel &kernel) {
  const Extent made = kernel.made(kernel.extent);
  cost::Grid grid;
  grid.channels = kernel.outputReduced ? 1 : made[C];
  grid.offset = kernel.output.offset;
  for (unsigned a = 0; a < 3; ++a) {
    grid.size[a] = made[P0 + a];
    grid.stride[a] = kernel.output.stride[P0 + a];
  }
  if (grid.channels > 1 && kernel.output.stride[C] != 1)
    return std::nullopt;
  return grid;
}

/// The grids of all tensors, and the window.
void describePositions(const Kernel &kernel, cost::LayerWork &work) {
  if (!kernel.copies.empty() || work.inputs.empty())
    return;
  std::array<int64_t, 3> size, inputSize;
  for (unsigned a = 0; a < 3; ++a) {
    size[a] = inputSize[a] = kernel.extent[P0 + a];
    work.window[a].size = work.window[a].inputSize = size[a];
  }
  work.poolsPositions = kernel.pool.has_value();
  work.output.grid = outputGrid(kernel);
  for (const Step &step : kernel.steps)
    for (const auto &[index, source] : llvm::enumerate(step.sources))
      if (source.kind == Source::Tensor && !step.sumsPositions &&
          !mlir::linalg::GenericOp(step.op).getBlock()->getArgument(unsigned(index)).use_empty())
        for (cost::TensorUse &use : work.inputs)
          if (int(use.tensor) == source.view.tensor && !use.grid)
            use.grid = inputGrid(kernel.tensors[use.tensor], source.view, kernel.extent[C], size);
  if (!kernel.anchor)
    return;
  const Anchor &a = *kernel.anchor;
  for (unsigned axis = 0; axis < 3; ++axis) {
    work.window[axis] = axisOf(a.axes[axis], a.input.stride[P0 + axis] == 0);
    inputSize[axis] = a.axes[axis].inputSize;
  }
  for (unsigned axis = 0; axis < 3; ++axis)
    if (work.window[axis].size != size[axis])
      work.output.grid.reset();
  int64_t channels = a.kind == Anchor::Contraction ? a.groups * a.ic : kernel.extent[C];
  work.inputs.front().grid = inputGrid(kernel.tensors[work.inputs.front().tensor], a.input, channels, inputSize);
}
} // namespace

cost::LayerWork accel::workOf(const Kernel &kernel, const timing::MachineParams &machine) {
  cost::LayerWork work;
  uint64_t lanes = machine.lanes, elements = 1;
  for (int64_t extent : kernel.extent)
    elements *= uint64_t(extent);
  bool array = kernel.anchor && kernel.anchor->kind == Anchor::Contraction;

  for (size_t i = 0; i < kernel.tensors.size(); ++i) {
    const KernelTensor &tensor = kernel.tensors[i];
    uint64_t bytes = touchedBytes(kernel, int(i));
    if (tensor.role == KernelTensor::Constant && kernel.anchor && kernel.anchor->weights == int(i))
      work.weights = work.constants.size();
    if (tensor.role == KernelTensor::Result)
      work.output = {unsigned(i), bytes, {}};
    else if (tensor.role == KernelTensor::Argument)
      work.inputs.push_back({unsigned(i), bytes, {}});
    else if (!tensor.value.isSplat())
      work.constants.push_back({tensor.value.getAsOpaquePointer(), bytes});
    else if (kernel.anchor && kernel.anchor->weights == int(i)) // immediates or fills make the others
      work.constants.push_back({nullptr, bytes});
    if (kernel.anchor && kernel.anchor->input.tensor == int(i) && tensor.role == KernelTensor::Argument)
      std::swap(work.inputs.front(), work.inputs.back());
  }
  work.dependence = dependenceOf(kernel);
  // Without its own input in front nothing is known of the dependences.
  if (kernel.anchor && kernel.tensors[size_t(kernel.anchor->input.tensor)].role != KernelTensor::Argument)
    work.dependence = cost::Dependence::None;
  if (work.dependence != cost::Dependence::None)
    describePositions(kernel, work);
  if (kernel.maxima) {
    work.output.grid = outputGrid(kernel);
    work.maxima.emplace();
    for (unsigned a = 0; a < 3; ++a) {
      work.window[a].size = work.window[a].inputSize = kernel.extent[P0 + a];
      (*work.maxima)[a] = a < 2 ? axisOf(kernel.window(P0 + a), false) : work.window[a];
    }
  }

  // Vector engine: a reduction reads every element, and results are written in an instruction of their own, one vector
  // of lanes a cycle. Steps in between may be part of either.
  if (kernel.copies.empty()) {
    uint64_t passes = kernel.outputReduced || kernel.pool ? 0 : 1;
    for (const Step &step : kernel.steps)
      passes += step.reducesChannels || step.sumsPositions;
    work.vectorCycles = cost::ceilDiv(elements, lanes) * passes;
    if (kernel.maxima) { // every sum is looked at
      const int64_t sums = kernel.extent[C] * kernel.window(P0).inputSize * kernel.window(P1).inputSize * kernel.extent[P2];
      work.vectorCycles = std::max(work.vectorCycles, cost::ceilDiv(uint64_t(sums), lanes));
    }
  }
  if (!kernel.anchor)
    return work;
  const Anchor &a = *kernel.anchor;
  if (!array && a.windowOp != isa::WindowOp::Mac) {
    // Pooling reads every input once at least.
    uint64_t inputs = touchedBytes(kernel, a.input.tensor) / byteSize(a.inputType);
    work.vectorCycles = std::max(work.vectorCycles, cost::ceilDiv(inputs, lanes));
    return work;
  }
  cost::Contraction contraction = contractionOf(kernel);
  const KernelTensor &input = kernel.tensors[size_t(a.input.tensor)];
  // Of a constant it is known that zero times it is zero.
  contraction.keepsApart = !kernel.isFinite && input.role != KernelTensor::Constant;
  uint64_t stream = cost::streamCycles(contraction, machine.rows, machine.cols);
  if (!array) {
    uint64_t cycles = windowCycles(contraction, lanes), results = cost::ceilDiv(elements, lanes);
    work.windowVectorCycles = cycles > results ? cycles - results : 0;
    work.windowArrayCycles = stream;
    return work;
  }
  work.arrayCycles = stream;
  // Stored rows of a weight tile: rows of cols weights, or, transposed, cols of rows weights.
  work.preloadCycles =
      cost::ceilDiv(contraction.weights(), uint64_t(std::max(machine.rows, machine.cols)) * machine.preloadRowsPerCycle);
  work.operandsLoaded = a.weights != a.input.tensor && (input.role == KernelTensor::Argument || !input.value.isSplat());
  work.contraction = contraction;
  return work;
}

uint64_t accel::touchedBytes(const Kernel &kernel, int tensor) {
  const KernelTensor &t = kernel.tensors[tensor];
  if (t.role == KernelTensor::Result)
    return uint64_t(t.elements) * byteSize(t.type);
  int64_t most = 0;
  auto use = [&](int64_t elements) { most = std::max(most, std::min(elements, t.elements)); };
  if (kernel.anchor && kernel.anchor->input.tensor == tensor)
    use(int64_t(contractionOf(kernel).inputs()));
  if (kernel.anchor && kernel.anchor->weights == tensor)
    use(int64_t(contractionOf(kernel).weights()));
  for (const Step &step : kernel.steps)
    for (const Source &source : step.sources) {
      if (source.kind == Source::Parameter && source.parameter == t.value)
        use(t.elements);
      if (source.kind != Source::Tensor || source.view.tensor != tensor)
        continue;
      std::vector<std::pair<int64_t, int64_t>> walk;
      for (unsigned axis = 0; axis < kAxes; ++axis)
        walk.push_back({source.view.stride[axis], kernel.extent[axis]});
      use(distinct(walk));
    }
  for (const Copy &copy : kernel.copies) {
    if (copy.from.tensor != tensor)
      continue;
    std::vector<std::pair<int64_t, int64_t>> walk;
    for (size_t i = 0; i < copy.shape.size(); ++i)
      walk.push_back({copy.fromStride[i], std::max<int64_t>(copy.shape[i] - copy.padLow[i] - copy.padHigh[i], 0)});
    use(distinct(walk));
  }
  return uint64_t(most) * byteSize(t.type);
}

int64_t accel::parameterBytes(const Kernel &kernel, const timing::MachineParams &machine) {
  int64_t count = 0;
  for (const Step &step : kernel.steps)
    count += llvm::count_if(step.sources, [](const Source &source) { return source.kind == Source::Parameter; });
  const int64_t bytes = count * ceilDiv(kernel.extent[C], machine.lanes) * machine.lanes * 4;
  const int64_t bank = int64_t(machine.scratchpads.back().bankBytes());
  return ceilDiv(bytes, bank) * bank;
}
