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

/// How outputs hang on inputs; inputs.front() is the anchor's own, or the first of an elementwise kernel.
cost::Dependence dependenceOf(const Kernel &kernel) {
  using cost::Dependence;
  if (!kernel.copies.empty())
    return Dependence::None;
  if (!kernel.anchor) {
    if (kernel.steps.size() != 1 || kernel.steps[0].reducesChannels)
      return Dependence::None;
    for (const Source &source : kernel.steps[0].sources)
      if (source.kind == Source::Tensor && ((kernel.extent[C] > 1 && source.view.stride[C] != 1) || source.view.isPadded()))
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
  if (view.offset || view.isPadded() || (channels > 1 && view.stride[C] != 1) || elements != tensor.elements ||
      overlaps(std::move(walk)))
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
/// What the results of a kernel take: of its tensors, and of what it makes on the way.
class Accesses {
public:
  Accesses(const Kernel &kernel, cost::LayerWork &work) : kernel(kernel), work(work) {}

  void describe() {
    if (kernel.outputsPerVector > 1 || (kernel.anchor && (kernel.anchor->pixels.count > 1 || kernel.anchor->pairsRows)))
      return;
    for (const Copy &copy : kernel.copies)
      addCopy(copy);
    if (kernel.copies.empty())
      addPiece();
  }

private:
  using Axis = cost::Access::Axis;
  /// Axes of the results of a kernel that computes, and of its sums; a contraction's channels are those of a group.
  enum ResultAxis : unsigned { N, H, W, Group, Channel, kResultAxes };

  const Kernel &kernel;
  cost::LayerWork &work;

  /// What of a value on the way to a result counts for it: one position, or all.
  struct Reach {
    bool isUsed = false, allChannels = false, allPositions = false;
    void add(const Reach &other) {
      isUsed |= other.isUsed;
      allChannels |= other.allChannels;
      allPositions |= other.allPositions;
    }
  };

  static int resultOf(unsigned axis) { return int(axis == P0 ? W : axis == P1 ? H : N); }
  bool isContraction() const { return kernel.anchor && kernel.anchor->kind == Anchor::Contraction; }
  int64_t groups() const { return isContraction() ? kernel.anchor->groups : 1; }
  int64_t channels() const { return kernel.extent[C] / groups(); }

  /// An access to a tensor of the kernel, if there is one to count.
  std::optional<cost::Access> accessTo(int tensor) const {
    const KernelTensor &t = kernel.tensors[size_t(tensor)];
    cost::Access access;
    access.elements = uint64_t(t.elements);
    if (t.role == KernelTensor::Argument) {
      for (auto [i, use] : llvm::enumerate(work.inputs))
        if (int(use.tensor) == tensor) {
          access.use = i;
          return access;
        }
      return std::nullopt;
    }
    access.isConstant = true;
    for (auto [i, use] : llvm::enumerate(work.constants))
      if (use.key == t.value.getAsOpaquePointer()) {
        access.use = i;
        return access;
      }
    return std::nullopt;
  }

  void addCopy(const Copy &copy) {
    cost::LayerWork::Piece piece;
    piece.space.offset = copy.to.offset;
    std::optional<cost::Access> read = accessTo(copy.from.tensor);
    for (size_t i = 0; i < copy.shape.size(); ++i) {
      const int64_t inside = copy.shape[i] - copy.padLow[i] - copy.padHigh[i];
      piece.space.axes.push_back({copy.shape[i], copy.toStride[i]});
      if (!read)
        continue;
      read->offset = copy.from.offset;
      Axis axis{int(i), {}, std::max<int64_t>(inside, 0), copy.fromStride[i]};
      if (inside != copy.shape[i]) {
        cost::PositionAxis window;
        window.size = copy.shape[i];
        window.padLow = copy.padLow[i];
        window.inputSize = axis.size;
        axis.windows.push_back(window);
      }
      if (axis.stride || inside <= 0)
        read->axes.push_back(std::move(axis));
    }
    if (read)
      piece.reads.push_back(std::move(*read));
    work.pieces.push_back(std::move(piece));
  }

  /// Positions of the iteration space along `axis` that a result takes: its own, or all. Behind a pool there is one.
  Axis position(unsigned axis, const Reach &reach, int64_t stride) const {
    if (axis <= P1 && reach.allPositions)
      return {-1, {}, kernel.extent[axis], stride};
    return {resultOf(axis), {}, axis <= P1 && kernel.pool ? 1 : kernel.extent[axis], stride};
  }

  /// The same of channels: the group, and the channel in it.
  void addChannels(const Reach &reach, int64_t groupStride, int64_t stride, cost::Access &access) const {
    const bool all = reach.allChannels || kernel.outputReduced;
    access.axes.push_back({all ? -1 : int(Group), {}, groups(), groupStride});
    access.axes.push_back({all ? -1 : int(Channel), {}, channels(), stride});
  }

  /// Elements of the iteration space.
  cost::Access iterations(const Reach &reach) const {
    cost::Access access;
    int64_t stride = 1;
    addChannels(reach, channels(), 1, access);
    stride = kernel.extent[C];
    for (unsigned axis = P0; axis < kAxes; ++axis) {
      access.axes.push_back(position(axis, reach, stride));
      stride *= kernel.extent[axis];
    }
    access.elements = uint64_t(stride);
    return access;
  }

  /// The channels of a padded view: those in the padding read nothing.
  Axis paddedChannels(const View &view, const Reach &reach) const {
    Axis axis{int(Channel), {}, view.channelsRead(kernel.extent[C]), view.stride[C]};
    if (reach.allChannels || kernel.outputReduced) {
      axis.result = -1;
      return axis;
    }
    cost::PositionAxis window;
    window.size = kernel.extent[C];
    window.padLow = view.padLow;
    window.inputSize = axis.size;
    axis.windows.push_back(window);
    return axis;
  }

  void addStepRead(const View &view, const Reach &reach, cost::LayerWork::Piece &piece) const {
    std::optional<cost::Access> read = accessTo(view.tensor);
    // Padded channels of several groups are no combination of groups and channels: the read is left out, which bounds from below.
    if (!read || (view.isPadded() && groups() > 1))
      return;
    read->offset = view.offset;
    if (view.isPadded())
      read->axes.push_back(paddedChannels(view, reach));
    else if (view.stride[C])
      addChannels(reach, view.stride[C] * channels(), view.stride[C], *read);
    for (unsigned axis = P0; axis < kAxes; ++axis)
      if (view.stride[axis])
        read->axes.push_back(position(axis, reach, view.stride[axis]));
    piece.reads.push_back(std::move(*read));
  }

  void addParameterRead(mlir::DenseElementsAttr parameter, const Reach &reach, cost::LayerWork::Piece &piece) const {
    for (auto [i, use] : llvm::enumerate(work.constants))
      if (use.key == parameter.getAsOpaquePointer()) {
        cost::Access read;
        read.isConstant = true;
        read.use = i;
        read.elements = uint64_t(kernel.extent[C]);
        addChannels(reach, channels(), 1, read);
        piece.reads.push_back(std::move(read));
        return;
      }
  }

  /// Positions along `axis` of the contraction's sums, or of the window's results.
  Axis sum(unsigned axis, const Reach &reach) const {
    Axis sums = position(axis, reach, 0);
    if (kernel.maxima && axis <= P1) {
      sums.windows.push_back(axisOf(kernel.window(axis), false));
      sums.size = kernel.window(axis).inputSize;
    }
    return sums;
  }

  void addAnchor(const Reach &reach, cost::LayerWork::Piece &piece) {
    const Anchor &a = *kernel.anchor;
    const bool isPerChannel = !isContraction(), all = reach.allChannels || kernel.outputReduced;
    cost::Access sums;
    std::optional<cost::Access> input = accessTo(a.input.tensor), weights;
    if (a.weights >= 0 && kernel.tensors[size_t(a.weights)].role == KernelTensor::Argument)
      weights = accessTo(a.weights);
    if (input)
      input->offset = a.input.offset;
    if (weights)
      weights->offset = a.weightOffset;
    int64_t stride = kernel.extent[C];
    for (unsigned axis = P0; axis < kAxes; ++axis) {
      const WindowAxis window = kernel.positions(axis);
      Axis made = sum(axis, reach);
      made.stride = stride;
      stride *= made.size;
      sums.axes.push_back(made);
      if (input && a.input.stride[axis]) {
        Axis read = made;
        read.windows.push_back(axisOf(window, false));
        read.size = window.inputSize;
        read.stride = a.input.stride[axis];
        input->axes.push_back(std::move(read));
      }
      if (weights && a.batchAxis == axis)
        weights->axes.push_back({made.result, made.windows, made.size, a.weightBatch});
      // Taps that read input wherever they are.
      const int64_t tapStride = axis == P0 ? a.weightKw : axis == P1 ? a.weightKh : 0;
      if (weights && window.kernel > 1) {
        int64_t first = 0, last = window.kernel - 1;
        auto isInside = [&](int64_t tap) { return window.readsInput(0, tap) && window.readsInput(window.size - 1, tap); };
        while (first <= last && !isInside(first))
          ++first;
        while (last >= first && !isInside(last))
          --last;
        weights->offset += first * tapStride;
        weights->axes.push_back({-1, {}, std::max<int64_t>(last - first + 1, 0), tapStride});
      }
    }
    sums.elements = uint64_t(stride);
    addChannels(reach, channels(), 1, sums);
    if (input) {
      if (isPerChannel) {
        addChannels(reach, 0, a.input.stride[C], *input);
      } else {
        input->axes.push_back({all ? -1 : int(Group), {}, a.groups, a.inputGroup});
        input->axes.push_back({-1, {}, a.ic, a.input.stride[C]});
      }
      if (isPerChannel && a.windowOp != isa::WindowOp::Mac)
        work.looked = *input;
      piece.reads.push_back(std::move(*input));
    }
    if (weights) {
      addChannels(reach, a.weightGroup, a.weightOc, *weights);
      if (!isPerChannel)
        weights->axes.push_back({-1, {}, a.ic, a.weightIc});
      piece.reads.push_back(std::move(*weights));
    }
    if (kernel.maxima)
      work.looked = sums;
    if (isContraction() || a.windowOp == isa::WindowOp::Mac)
      work.sums = std::move(sums);
  }

  void addPiece() {
    cost::LayerWork::Piece piece;
    const Extent made = kernel.made(kernel.extent);
    const int64_t stride = kernel.output.stride[C];
    piece.space.offset = kernel.output.offset;
    piece.space.axes = {
        {made[P2], kernel.output.stride[P2]}, {made[P1], kernel.output.stride[P1]}, {made[P0], kernel.output.stride[P0]}};
    if (kernel.outputReduced) {
      piece.space.axes.push_back({1, 0});
      piece.space.axes.push_back({1, 0});
    } else {
      piece.space.axes.push_back({groups(), stride * channels()});
      piece.space.axes.push_back({channels(), stride});
    }
    // Backwards through the steps: what of each value a result takes.
    std::vector<Reach> reach(kernel.steps.size() + 1); // the last one: the anchor's
    auto reachOf = [&](int value) -> Reach & { return value < 0 ? reach.back() : reach[size_t(value)]; };
    reachOf(int(kernel.steps.size()) - 1).isUsed = true;
    for (size_t s = kernel.steps.size(); s-- > 0;) {
      const Step &step = kernel.steps[s];
      Reach own = reach[s];
      if (!own.isUsed)
        continue;
      own.allChannels |= step.reducesChannels;
      own.allPositions |= step.sumsPositions;
      if (step.reducesChannels || step.sumsPositions)
        work.passes.push_back(iterations(own));
      for (const auto &[index, source] : llvm::enumerate(step.sources)) {
        if (mlir::linalg::GenericOp(step.op).getBlock()->getArgument(unsigned(index)).use_empty())
          continue;
        if (source.kind == Source::Value)
          reachOf(source.value).add(own);
        else if (source.kind == Source::Tensor)
          addStepRead(source.view, own, piece);
        else
          addParameterRead(source.parameter, own, piece);
      }
    }
    if (!kernel.outputReduced && !kernel.pool)
      work.passes.push_back(iterations({}));
    if (kernel.anchor)
      addAnchor(reach.back(), piece);
    work.pieces.push_back(std::move(piece));
  }
};
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
      work.output = {unsigned(i), bytes, {}, byteSize(tensor.type)};
    else if (tensor.role == KernelTensor::Argument)
      work.inputs.push_back({unsigned(i), bytes, {}, byteSize(tensor.type)});
    else if (tensor.role == KernelTensor::Part)
      continue; // the whole counts
    else if (!tensor.value.isSplat())
      work.constants.push_back({tensor.value.getAsOpaquePointer(), bytes, byteSize(tensor.type)});
    else if (kernel.anchor && kernel.anchor->weights == int(i)) // immediates or fills make the others
      work.constants.push_back({nullptr, bytes, byteSize(tensor.type)});
    if (kernel.anchor && kernel.anchor->input.tensor == int(i) && tensor.role == KernelTensor::Argument)
      std::swap(work.inputs.front(), work.inputs.back());
  }
  Accesses(kernel, work).describe();
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
    uint64_t cycles = cost::windowCycles(contraction, lanes), results = cost::ceilDiv(elements, lanes);
    work.windowVectorCycles = cycles > results ? cycles - results : 0;
    work.windowArrayCycles = stream;
    work.depthwise = contraction;
    return work;
  }
  work.arrayCycles = stream;
  // Stored rows of a weight tile: rows of cols weights, or, transposed, cols of rows weights.
  work.preloadTiles = cost::ceilDiv(contraction.weights(), uint64_t(machine.rows) * machine.cols);
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
        walk.push_back(
            {source.view.stride[axis], axis == C ? source.view.channelsRead(kernel.extent[C]) : kernel.extent[axis]});
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
